/* SPDX-License-Identifier: Apache-2.0
 *
 * dispatch.c: policies, and the decision for a batch.
 *
 * A decision is made once per step, on the host, and has a microsecond for 256
 * rows: one pass over the lengths, one over a list of rules, no allocation and
 * no lock.  Whatever depends on the options alone is done when the policy is
 * made.  docs/dispatch.md prints the rules of every backend.
 */
#include <stdio.h>
#include <string.h>

#include "dispatch.h"

/* Policies ---------------------------------------------------------------- */

/* Error NO_POLICY, which names what there is: about 200 of the 512 bytes. */
static mla_status unknown_backend(mla_context *ctx, const char *name)
{
    const struct mla__backend *b;
    char names[512] = "";
    size_t used = 0;

    for (int i = 0; (b = mla__backend_at(i)) != NULL; i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
                                 i ? ", " : "", b->name);
    return mla__fail(ctx, MLA_NO_POLICY,
                     "no rules for the backend '%s'; there are %s", name,
                     names);
}

/* The backends of both halves of a policy; a decode that is not named is that
 * of prefill.  No prefill at all is refused like a name that nobody knows. */
static mla_status find_backends(mla_policy *policy)
{
    const mla_policy_options *o = &policy->options;
    const char *prefill = o->prefill ? o->prefill : "";
    const char *decode = o->decode ? o->decode : prefill;

    policy->prefill = mla__backend_find(prefill);
    if (!policy->prefill)
        return unknown_backend(policy->ctx, prefill);
    policy->decode = mla__backend_find(decode);
    if (!policy->decode)
        return unknown_backend(policy->ctx, decode);
    return MLA_OK;
}

/* sm_10x and sm_11x: where fa4 has the absorbed form, and is deterministic
 * (serving-semantics sections 1.5 and 1.6).  An AMD gfx number is none. */
static bool is_sm100(const mla_policy_options *o)
{
    return !o->hip && (o->sm / 10 == 10 || o->sm / 10 == 11);
}

/* Refuses `deterministic` for the backends that SGLang refuses it for
 * (serving-semantics section 1.6).  Error: INVALID_ARGUMENT. */
static mla_status check_deterministic(const mla_policy *policy,
                                      const struct mla__backend *b)
{
    if (!policy->options.deterministic || b->deterministic == 1 ||
        (b->deterministic == 100 && is_sm100(&policy->options)))
        return MLA_OK;
    return mla__fail(policy->ctx, MLA_INVALID_ARGUMENT,
                     "backend %s is not deterministic on sm_%d; ascend, fa3, "
                     "fa4 (sm_10x, sm_11x), triton and cost are",
                     b->name, policy->options.sm);
}

/* Thresholds may be 0, which means that every prefix is long or no sequence is
 * short; a capacity of 0 would leave nothing to cut chunks from. */
static mla_status check_thresholds(const mla_policy *policy)
{
    const mla_policy_options *o = &policy->options;
    const struct {
        const char *name;
        int64_t value, least;
    } rows[] = {{"chunked_prefix_threshold", o->chunked_prefix_threshold, 0},
                {"max_chunk_capacity", o->max_chunk_capacity, 1},
                {"dsa_dense_threshold", o->dsa_dense_threshold, 0}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].value < rows[i].least)
            return mla__fail(policy->ctx, MLA_INVALID_ARGUMENT,
                             "policy option %s is %lld, must be at least "
                             "%lld",
                             rows[i].name, (long long)rows[i].value,
                             (long long)rows[i].least);
    return MLA_OK;
}

/* The strings become the policy's own: the caller's may go after create.
 * Those of the backends are static. */
static mla_status keep_strings(mla_policy *policy)
{
    mla_policy_options *o = &policy->options;

    policy->kv_dtype =
        mla__strdup(policy->ctx, o->kv_dtype ? o->kv_dtype : "bf16");
    if (!policy->kv_dtype)
        return mla__fail(policy->ctx, MLA_OUT_OF_MEMORY, "policy");
    o->kv_dtype = policy->kv_dtype;
    o->prefill = policy->prefill->name;
    o->decode = policy->decode->name;
    return MLA_OK;
}

/* Fills a policy whose options have been copied.  The cost model is prepared
 * whatever the backends are: either half may be "cost", and its options hold
 * pointers of the caller that must not be kept. The caller frees on
 * failure. */
static mla_status build(mla_policy *policy)
{
    mla_status status = find_backends(policy);

    if (!status)
        status = check_thresholds(policy);
    if (!status)
        status = check_deterministic(policy, policy->prefill);
    if (!status)
        status = check_deterministic(policy, policy->decode);
    if (!status)
        status = keep_strings(policy);
    if (!status)
        status = mla__cost_prepare(policy);
    policy->chunked_off = policy->options.disable_chunked_prefix ||
                          (policy->prefill && !policy->prefill->chunked);
    return status;
}

/* Options of an older header are shorter: what they lack keeps its default.
 * The least that makes sense is size and prefill. */
mla_status mla_policy_create(mla_context *ctx,
                             const mla_policy_options *options,
                             mla_policy **out)
{
    mla_policy *policy;
    mla_status status;

    if (!out)
        return MLA_INVALID_ARGUMENT;
    *out = NULL;
    if (!ctx || !options ||
        options->size < offsetof(mla_policy_options, decode))
        return MLA_INVALID_ARGUMENT;
    policy = mla__alloc(ctx, sizeof(*policy));
    if (!policy)
        return mla__fail(ctx, MLA_OUT_OF_MEMORY, "policy");
    policy->ctx = ctx;
    policy->options = (mla_policy_options)MLA_POLICY_OPTIONS_INIT;
    memcpy(&policy->options, options,
           options->size < sizeof(*options) ? options->size
                                            : sizeof(*options));
    policy->options.size = sizeof(*options);
    status = build(policy);
    if (status) {
        mla_policy_free(policy);
        return status;
    }
    *out = policy;
    return MLA_OK;
}

void mla_policy_free(mla_policy *policy)
{
    if (!policy)
        return;
    mla__free(policy->ctx, policy->kv_dtype);
    mla__free(policy->ctx, policy->profile_name);
    mla__free(policy->ctx, policy);
}

/* Figures of a batch ------------------------------------------------------ */

/* A list that is not given is one number over and over: step 0. */
struct lengths {
    const int32_t *at;
    int step;
};

/* The list that was given, or one that repeats *constant. */
static struct lengths lengths_of(const int32_t *given, const int32_t *constant)
{
    return given ? (struct lengths){given, 1} : (struct lengths){constant, 0};
}

/* Error RANGE for the first row with a negative length; there must be one. */
static mla_status name_negative(const mla_policy *policy, struct lengths p,
                                struct lengths f)
{
    int i = 0;
    while (p.at[i * p.step] >= 0 && f.at[i * f.step] >= 0)
        i++;
    return mla__fail(policy->ctx, MLA_RANGE,
                     "row %d: prefix %d, %d new tokens", i, p.at[i * p.step],
                     f.at[i * f.step]);
}

/* Adds and compares without a branch per row: this is most of the time that
 * a decision takes.  Error: RANGE, with the first negative length. */
static mla_status add_up(const mla_policy *policy, const mla_batch *b,
                         struct mla__sums *out)
{
    static const int32_t zero = 0, one = 1;
    const struct lengths p = lengths_of(b->prefix, &zero);
    const struct lengths f = lengths_of(b->fresh, &one);
    struct mla__sums s = {0, 0, 0, 0, 0};
    /* The sign bit of every length seen: one test after the loop instead of
     * two in it. */
    int32_t sign = 0;

    for (int i = 0; i < b->rows; i++) {
        int32_t prefix = p.at[i * p.step], fresh = f.at[i * f.step];
        int64_t total = (int64_t)prefix + fresh;
        s.prefix += prefix;
        s.total += total;
        s.longest = total > s.longest ? total : s.longest;
        s.longest_prefix =
            prefix > s.longest_prefix ? prefix : s.longest_prefix;
        sign |= prefix | fresh;
    }
    s.fresh = s.total - s.prefix;
    *out = s;
    return sign < 0 ? name_negative(policy, p, f) : MLA_OK;
}

/* Facts ------------------------------------------------------------------- */

/* Whether the mode is an extend without speculation, by the table in mla.h.
 * Modes that are not listed are not. */
static bool is_plain(mla_mode mode)
{
    switch (mode) {
#define PLAIN_CASE(name, number, plain)                                       \
    case MLA_MODE_##name:                                                     \
        return plain;
        MLA_MODE_LIST(PLAIN_CASE)
#undef PLAIN_CASE
    default:
        return false;
    }
}

/* Whether a sparse layer may prefill densely: short sequences on devices and
 * pools that can. */
static bool dense_allowed(const mla_policy *policy, const mla_batch *b,
                          const struct mla__sums *s)
{
    const mla_policy_options *o = &policy->options;
    bool device = o->hip ? o->sm / 10 == 95
                         : o->sm == 90 || (o->sm >= 100 && o->sm < 110);

    return is_plain(b->mode) && device && !b->captured &&
           !b->context_parallel && !o->dsa_hisparse &&
           s->longest <= o->dsa_dense_threshold &&
           s->total <= o->max_chunk_capacity &&
           (!strcmp(o->kv_dtype, "bf16") || !strcmp(o->kv_dtype, "fp8_e4m3"));
}

/* All facts of a batch as a set of bits.  They are worked out whether a rule
 * asks for them or not: a dozen comparisons, and the rules stay a table.
 * Context parallelism splits prefill alone, so it counts in these two modes. */
static unsigned facts_of(const mla_policy *policy,
                         const struct mla__backend *backend,
                         const mla_batch *b, const struct mla__sums *s)
{
    const mla_policy_options *o = &policy->options;
    const struct {
        bool is;
        unsigned fact;
    } rows[] = {
        {b->captured, MLA__CAPTURED},
        {b->context_parallel &&
             (b->mode == MLA_MODE_EXTEND || b->mode == MLA_MODE_MIXED),
         MLA__CONTEXT_PARALLEL},
        {is_plain(b->mode), MLA__PLAIN},
        {o->disable_ragged && backend->ragged, MLA__RAGGED_OFF},
        {s->prefix == 0, MLA__NO_PREFIX},
        {s->prefix >= o->chunked_prefix_threshold, MLA__LONG_PREFIX},
        {policy->chunked_off, MLA__CHUNKED_OFF},
        {s->total <= o->max_chunk_capacity, MLA__FITS},
        {o->deterministic, MLA__DETERMINISTIC},
        {is_sm100(o), MLA__SM100},
        {dense_allowed(policy, b, s), MLA__DENSE},
        {o->uses_dsa, MLA__DSA_LAYER},
    };
    unsigned facts = 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        facts |= rows[i].is ? rows[i].fact : 0;
    return facts;
}

/* Rules ------------------------------------------------------------------- */

/* Whose rules a batch goes by: those of decode for decode and idle, and for
 * speculation if the engine runs that on its decode backend. */
static const struct mla__backend *backend_for(const mla_policy *policy,
                                              mla_mode mode)
{
    bool speculative =
        mode == MLA_MODE_TARGET_VERIFY || mode == MLA_MODE_DRAFT_EXTEND;
    bool decode = mode == MLA_MODE_DECODE || mode == MLA_MODE_IDLE ||
                  (speculative && policy->options.speculative_decode);
    return decode ? policy->decode : policy->prefill;
}

/* The absorbed form as the platform has it.  ROCm fuses rope into decode alone
 * and under aiter alone; a CPU with AMX has one operation for every mode. */
mla_method mla__substitute(const mla_policy *policy, mla_mode mode,
                           const struct mla__backend *backend)
{
    const mla_policy_options *o = &policy->options;

    if (o->hip)
        return o->fused_rope_rocm && mode == MLA_MODE_DECODE &&
                       !strcmp(backend->name, "aiter")
                   ? MLA_METHOD_MLA_FUSED_ROPE_ROCM
                   : MLA_METHOD_MLA;
    return o->cpu_amx ? MLA_METHOD_MLA_FUSED_ROPE_CPU : MLA_METHOD_MLA;
}

/* AMD has bodies of its own, and none for chunks: merging is CUDA. */
static mla_status remap(const mla_policy *policy, mla_method *method)
{
    if (!policy->options.hip)
        return MLA_OK;
    switch (*method) {
    case MLA_METHOD_MHA:
        *method = MLA_METHOD_MHA_ROCM;
        return MLA_OK;
    case MLA_METHOD_MHA_ONE_SHOT:
        *method = MLA_METHOD_MHA_ONE_SHOT_ROCM;
        return MLA_OK;
    case MLA_METHOD_MLA:
        *method = MLA_METHOD_MLA_ROCM;
        return MLA_OK;
    case MLA_METHOD_MHA_CHUNKED_KV:
        return mla__fail(policy->ctx, MLA_NO_METHOD,
                         "MHA_CHUNKED_KV has no form for hip");
    default:
        return MLA_OK;
    }
}

mla_method mla__expanded(const mla_policy *policy, int64_t prefix,
                         int64_t total)
{
    if (!prefix)
        return MLA_METHOD_MHA;
    return total <= policy->options.max_chunk_capacity
               ? MLA_METHOD_MHA_ONE_SHOT
               : MLA_METHOD_MHA_CHUNKED_KV;
}

/* A backend whose MHA reads the prefix itself means one of our other forms. */
static mla_method executed(const mla_policy *policy, mla_method method,
                           const struct mla__sums *s)
{
    mla_method run = mla_method_run(method);
    return run == MLA_METHOD_MHA ? mla__expanded(policy, s->prefix, s->total)
                                 : run;
}

/* A decision by the first rule that hits.  One form for all rows: rules look
 * at sums over the batch.  Error: NO_METHOD (hip has no chunked form). */
static mla_status decide_by_rules(const mla_policy *policy,
                                  const struct mla__backend *backend,
                                  const mla_batch *b,
                                  const struct mla__sums *s,
                                  mla_method *methods, mla_decision *out)
{
    unsigned facts = facts_of(policy, backend, b, s);
    const struct mla__rule *rule = mla__rule_find(backend, facts);
    mla_status status;

    out->reason = rule->text;
    out->method = rule->method == MLA__SUBSTITUTE
                      ? mla__substitute(policy, b->mode, backend)
                      : (mla_method)rule->method;
    status = remap(policy, &out->method);
    if (status)
        return status;
    out->run = executed(policy, out->method, s);
    out->absorbed_rows = out->run == MLA_METHOD_MLA ? b->rows : 0;
    for (int i = 0; methods && i < b->rows; i++)
        methods[i] = out->run;
    return MLA_OK;
}

/* The decision ------------------------------------------------------------ */

/* No new tokens, nothing to attend.  SGLang does not get as far as a dispatch
 * then; here the answer is MLA, as mla.h says. */
static void decide_nothing(const mla_batch *b, mla_method *methods,
                           mla_decision *out)
{
    out->method = out->run = MLA_METHOD_MLA;
    out->reason = "no new tokens";
    out->absorbed_rows = b->rows;
    for (int i = 0; methods && i < b->rows; i++)
        methods[i] = MLA_METHOD_MLA;
}

/* Fills *out for a batch whose mode and rows have been checked.  A backend
 * without a list of rules is the policy "cost". */
static mla_status decide(const mla_policy *policy, const mla_batch *b,
                         mla_method *methods, mla_decision *out)
{
    const struct mla__backend *backend = backend_for(policy, b->mode);
    struct mla__sums s;
    mla_status status = add_up(policy, b, &s);

    if (status)
        return status;
    out->mode = b->mode;
    out->backend = backend->name;
    out->rows = b->rows;
    out->prefix = s.prefix;
    out->total = s.total;
    out->longest = s.longest;
    if (!s.fresh) {
        decide_nothing(b, methods, out);
        return MLA_OK;
    }
    if (backend->lists[0])
        return decide_by_rules(policy, backend, b, &s, methods, out);
    mla__cost_decide(policy, b, &s, methods, out);
    return MLA_OK;
}

/* Decides into a struct of its own, which is copied as far as the caller's
 * reaches: a program that was built with an older header has a shorter one. */
mla_status mla_dispatch(const mla_policy *policy, const mla_batch *batch,
                        mla_method *methods, mla_decision *out)
{
    mla_decision decision = {0};
    mla_batch b = {0};
    mla_status status;

    if (!policy || !batch || !out || batch->size < sizeof(batch->size))
        return MLA_INVALID_ARGUMENT;
    memcpy(&b, batch, batch->size < sizeof(b) ? batch->size : sizeof(b));
    if (b.rows < 0 || !strcmp(mla_mode_name(b.mode), "?"))
        return mla__fail(policy->ctx, MLA_INVALID_ARGUMENT,
                         "batch of %d rows, mode %d", b.rows, (int)b.mode);
    /* Whatever fails, fails before methods are written to. */
    status = decide(policy, &b, methods, &decision);
    if (status)
        decision = (mla_decision){0};
    return mla__copy_info(out, &decision, sizeof(decision))
               ? MLA_INVALID_ARGUMENT
               : status;
}
