/* SPDX-License-Identifier: Apache-2.0
 *
 * dispatch_text.c: methods and modes by name, decisions and policies as text.
 *
 * The table of a policy is made from the very rules that decide, and its grid
 * by deciding; docs/dispatch.md holds such tables, and a test compares them.
 */
#include <stdio.h>
#include <string.h>

#include "dispatch.h"

/* Names ------------------------------------------------------------------- */

/* Both tables are indexed by the enums' numbers, which are dense and part of
 * the ABI (mla.h). */
static const struct {
    const char *name, *text;
    mla_method run;
} methods[] = {
#define METHOD_ROW(name, number, run, text)                                   \
    [number] = {#name, text, MLA_METHOD_##run},
    MLA_METHOD_LIST(METHOD_ROW)
#undef METHOD_ROW
};

static const char *const modes[] = {
#define MODE_ROW(name, number, plain) [number] = #name,
    MLA_MODE_LIST(MODE_ROW)
#undef MODE_ROW
};

/* False for MLA_METHOD_NONE and for numbers that a newer header may know. */
static bool is_method(mla_method method)
{
    return (int)method >= 0 &&
           (size_t)method < sizeof(methods) / sizeof(methods[0]);
}

const char *mla_method_name(mla_method method)
{
    return is_method(method) ? methods[method].name : "?";
}

const char *mla_method_text(mla_method method)
{
    return is_method(method) ? methods[method].text : "?";
}

mla_method mla_method_run(mla_method method)
{
    return is_method(method) ? methods[method].run : MLA_METHOD_NONE;
}

const char *mla_mode_name(mla_mode mode)
{
    if ((int)mode < 0 || (size_t)mode >= sizeof(modes) / sizeof(modes[0]))
        return "?";
    return modes[mode];
}

/* Text into a buffer that may be too small -------------------------------- */

struct text {
    char *at;
    size_t size, used; /* used: as if there were room for all */
};

static void put(struct text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends as snprintf would: writes what there is room for, NUL included, and
 * counts what there would be.  Once full, nothing more is written. */
static void put(struct text *t, const char *format, ...)
{
    bool room = t->used < t->size;
    va_list list;
    int n;

    va_start(list, format);
    n = vsnprintf(room ? t->at + t->used : NULL, room ? t->size - t->used : 0,
                  format, list);
    va_end(list);
    t->used += n > 0 ? (size_t)n : 0;
}

/* A decision -------------------------------------------------------------- */

/* Predicted times of one layer, in microseconds; only "cost" predicts. */
static void put_times(struct text *t, const mla_decision *d)
{
    put(t, " (expanded %.1f us, absorbed %.1f us", d->normal_time * 1e6,
        d->absorbed_time * 1e6);
    if (d->split)
        put(t, ", split %.1f us with %d of %d rows absorbed", d->time * 1e6,
            d->absorbed_rows, d->rows);
    put(t, ")");
}

/* The figures that a rule compared with; all rules use the same ones. */
static void put_thresholds(struct text *t, const mla_policy *policy)
{
    put(t, " (chunked_prefix_threshold %lld, max_chunk_capacity %lld%s)",
        (long long)policy->options.chunked_prefix_threshold,
        (long long)policy->options.max_chunk_capacity,
        policy->chunked_off ? ", chunked prefix off" : "");
}

/* A decision of an older, shorter struct has not all the figures: no text.  A
 * predicted time is what tells a decision of "cost" from one by rules. */
size_t mla_dispatch_reason(const mla_policy *policy,
                           const mla_decision *decision, char *text,
                           size_t size)
{
    const mla_decision *d = decision;
    struct text t = {text, size, 0};

    if (text && size)
        *text = '\0';
    if (!policy || !d || d->size < sizeof(*d) || !d->reason)
        return 0;
    put(&t, "%s, %s of %d row%s, prefix %lld + new %lld = %lld: %s -> %s",
        d->backend, mla_mode_name(d->mode), d->rows, d->rows == 1 ? "" : "s",
        (long long)d->prefix, (long long)(d->total - d->prefix),
        (long long)d->total, d->reason, mla_method_name(d->method));
    if (d->time > 0)
        put_times(&t, d);
    else
        put_thresholds(&t, policy);
    return t.used;
}

/* A policy ---------------------------------------------------------------- */

/* What a rule asks for, as words, comma-separated; "otherwise" when it asks
 * for nothing.  No rule both needs and forbids a fact. */
static void put_facts(struct text *t, unsigned needed, unsigned forbidden)
{
    static const char *const words[][2] = {
#define FACT_WORDS(name, bit, yes, no) [bit] = {yes, no},
        MLA__FACT_LIST(FACT_WORDS)
#undef FACT_WORDS
    };
    const char *comma = "";

    for (unsigned i = 0; i < MLA__FACTS; i++) {
        bool need = needed >> i & 1, forbid = forbidden >> i & 1;
        if (need || forbid)
            put(t, "%s%s", comma, words[i][forbid]);
        if (need || forbid)
            comma = ", ";
    }
    if (!*comma)
        put(t, "otherwise");
}

/* One rule, numbered as put_rules counts.  What MLA__SUBSTITUTE stands for is
 * shown as in decode, the mode that has most forms of its own. */
static void put_rule(struct text *t, const mla_policy *policy,
                     const struct mla__backend *b, const struct mla__rule *r,
                     int number)
{
    mla_method method = r->method == MLA__SUBSTITUTE
                            ? mla__substitute(policy, MLA_MODE_DECODE, b)
                            : (mla_method)r->method;
    put(t, "  %2d. %s: %s\n      when ", number, mla_method_name(method),
        r->text);
    put_facts(t, r->need, r->forbid & ~(b->ragged ? 0u : MLA__RAGGED_OFF));
    put(t, "\n");
}

/* What is about ragged prefill is left out where that does not exist. */
static void put_rules(struct text *t, const mla_policy *policy,
                      const struct mla__backend *b)
{
    int number = 0;

    put(t, "rules of %s, the first that applies:\n", b->name);
    for (int l = 0; l < MLA__MAX_LISTS && b->lists[l]; l++)
        for (const struct mla__rule *r = b->lists[l]; r->text; r++)
            if (b->ragged || !(r->need & MLA__RAGGED_OFF))
                put_rule(t, policy, b, r, ++number);
}

/* The coefficients in nanoseconds, in the form of the equations of
 * docs/dispatch.md: S keys, T new tokens, pairs the unmasked ones. */
static void put_cost(struct text *t, const mla_policy *policy)
{
    const struct mla__cost *c = &policy->cost;

    put(t, "cost on %s, %d heads, nope %d, rope %d, v %d, latent %d:\n",
        c->profile.name, c->model.heads, c->model.nope, c->model.rope,
        c->model.v, c->model.latent);
    put(t,
        "  expanded  S * %.4g ns + max(pairs * %.4g, (S + T) * %.4g) ns\n"
        "  absorbed  T * %.4g ns + max(pairs * %.4g, S * %.4g + T * %.4g) ns\n"
        "  a form    %.4g us once\n",
        c->expand * 1e9, c->normal_pair * 1e9, c->normal_row * 1e9,
        c->absorb * 1e9, c->absorbed_pair * 1e9, c->absorbed_key * 1e9,
        c->absorbed_query * 1e9, c->fixed * 1e6);
}

/* The head of the table: the options that rules of any backend may ask for. */
static void put_options(struct text *t, const mla_policy *policy)
{
    const mla_policy_options *o = &policy->options;

    put(t, "policy %s", o->prefill);
    if (policy->prefill != policy->decode)
        put(t, ", decode and idle by %s", o->decode);
    put(t, ", sm_%d\n", o->sm);
    put(t, "  chunked_prefix_threshold %8lld\n",
        (long long)o->chunked_prefix_threshold);
    put(t, "  max_chunk_capacity       %8lld\n",
        (long long)o->max_chunk_capacity);
    put(t, "  dsa_dense_threshold      %8lld\n",
        (long long)o->dsa_dense_threshold);
    put(t, "  chunked prefix           %8s\n",
        policy->chunked_off ? "off" : "on");
}

/* The method for one request.  It asks mla_dispatch itself, so the table shows
 * what is done and not what the rules are thought to say. */
static const char *cell(const mla_policy *policy, mla_mode mode,
                        int32_t prefix, int32_t fresh)
{
    mla_batch b = {sizeof(b), mode, 1, &prefix, &fresh, 0, 0};
    mla_decision d = {.size = sizeof(d)};

    if (mla_dispatch(policy, &b, NULL, &d))
        return "none";
    return mla_method_name(d.method);
}

/* Prefixes stand on both sides of the default thresholds, 8192 and 131072, and
 * at 1, the shortest that is not none. */
static void put_grid(struct text *t, const mla_policy *policy)
{
    static const int32_t prefix[] = {0,    1,     4096,   8191,
                                     8192, 32768, 131072, 200000};
    static const int32_t fresh[] = {1, 4, 64, 256, 2048};
    enum { ROWS = sizeof(prefix) / sizeof(*prefix) };
    enum { COLUMNS = sizeof(fresh) / sizeof(*fresh) };

    put(t, "one request, EXTEND, by prefix and new tokens:\n  %8s", "");
    for (int k = 0; k < COLUMNS; k++)
        put(t, " %14d", fresh[k]);
    put(t, "\n");
    for (int i = 0; i < ROWS; i++) {
        put(t, "  %8d", prefix[i]);
        for (int k = 0; k < COLUMNS; k++)
            put(t, " %14s",
                cell(policy, MLA_MODE_EXTEND, prefix[i], fresh[k]));
        put(t, "\n");
    }
}

/* Every mode for a prefix that just reaches the default threshold, so that an
 * extend and a verify of as many tokens show their difference. */
static void put_modes(struct text *t, const mla_policy *policy)
{
    put(t, "one request, prefix 8192, 4 new tokens, by mode:\n");
    for (int m = 0; m < (int)(sizeof(modes) / sizeof(modes[0])); m++)
        put(t, "  %-14s %s\n", modes[m], cell(policy, (mla_mode)m, 8192, 4));
}

/* Rules of decode come second, if they are others than prefill's. */
size_t mla_dispatch_table(const mla_policy *policy, char *text, size_t size)
{
    struct text t = {text, size, 0};

    if (text && size)
        *text = '\0';
    if (!policy)
        return 0;
    put_options(&t, policy);
    if (policy->prefill->lists[0])
        put_rules(&t, policy, policy->prefill);
    else
        put_cost(&t, policy);
    if (policy->decode != policy->prefill && policy->decode->lists[0])
        put_rules(&t, policy, policy->decode);
    put_grid(&t, policy);
    put_modes(&t, policy);
    return t.used;
}
