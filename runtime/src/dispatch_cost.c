/* SPDX-License-Identifier: Apache-2.0
 *
 * dispatch_cost.c: the policy "cost": which form would take less time.
 *
 * With T new tokens of a row, S keys, and pairs = the unmasked (query, key)
 * pairs = T * (S - T) + T * (T + 1) / 2, a layer costs, in multiply-adds,
 *
 *   Normal   S * A + pairs * N      A = R * H * (nope + v)
 *   Absorb   T * A + pairs * B      N = H * (nope + rope + v)
 *                                   B = H * (2 * R + rope)
 *
 * (seed/mla-notes.txt, templates/spec/analysis.lua).  Each stage takes the
 * longer of its arithmetic and its memory traffic; a form that is used at
 * all costs its launches and one pass over kv_b_proj on top.  As the cost of
 * a row does not depend on the others, the best choice is one of three: all
 * rows Normal, all absorbed, or each row in its cheaper form.
 * docs/dispatch.md has the formulas with their bytes.
 */
#include <string.h>
#include <strings.h>

#include "dispatch.h"

enum {
    LAUNCHES = 4,      /* gather, expand, concat, attend; or bmm, attend,
                          combine, bmm */
    CHUNK_LAUNCHES = 5 /* the former per chunk, and a merge */
};

/* Profiles ---------------------------------------------------------------- */

/* Dense bf16 FLOP/s with fp32 sums and bytes/s as NVIDIA's data sheets have
 * them; shares are what well-tuned kernels reach. */
#define SHARES 3e-6, 0.75, 0.65, 0.65, 0.85
#define PROFILE(name, flops, bandwidth)                                       \
    {                                                                         \
        sizeof(mla_device_profile), name, flops, bandwidth, SHARES            \
    }
static const mla_device_profile profiles[] = {
    PROFILE("a100", 312e12, 2.039e12),    PROFILE("h100", 989e12, 3.35e12),
    PROFILE("h200", 989e12, 4.8e12),      PROFILE("b200", 2250e12, 8e12),
    PROFILE("rtx4090", 165e12, 1.008e12), PROFILE("rtx5090", 209e12, 1.792e12),
    PROFILE("l40s", 362e12, 0.864e12),
};

const mla_device_profile *mla_profile_at(int i)
{
    int count = (int)(sizeof(profiles) / sizeof(profiles[0]));
    return i >= 0 && i < count ? &profiles[i] : NULL;
}

const mla_device_profile *mla_profile_find(const char *name)
{
    const mla_device_profile *p;
    for (int i = 0; name && (p = mla_profile_at(i)) != NULL; i++)
        if (!strcasecmp(p->name, name))
            return p;
    return NULL;
}

/* Coefficients ------------------------------------------------------------ */

static double longer(double a, double b)
{
    return a > b ? a : b;
}

/* The given model over DeepSeek-V3 as default; an older header's is
 * shorter.  The caller's pointer is dropped: it need not outlive the call.
 * Error: INVALID_ARGUMENT. */
static mla_status read_model(mla_policy *policy)
{
    static const mla_cost_model v3 = {sizeof(v3), 128, 128, 64, 128, 512, 2};
    const mla_cost_model *given = policy->options.model;
    mla_cost_model *m = &policy->cost.model;

    *m = v3;
    if (given)
        memcpy(m, given, given->size < sizeof(*m) ? given->size : sizeof(*m));
    if (!m->elem_bytes)
        m->elem_bytes = 2;
    if (m->heads < 1 || m->nope < 0 || m->rope < 0 || m->v < 1 ||
        m->latent < 1 || m->elem_bytes < 0)
        return mla__fail(policy->ctx, MLA_INVALID_ARGUMENT,
                         "cost model: %d heads, nope %d, rope %d, v %d, "
                         "latent %d",
                         m->heads, m->nope, m->rope, m->v, m->latent);
    policy->options.model = NULL;
    return MLA_OK;
}

/* As read_model; the profile's name is copied, as a decision's text shows it.
 * The condition is written so that NaN fails it. */
static mla_status read_profile(mla_policy *policy)
{
    const mla_device_profile *given = policy->options.profile;
    mla_device_profile *p = &policy->cost.profile;

    *p = *mla_profile_find("h200");
    if (given)
        memcpy(p, given, given->size < sizeof(*p) ? given->size : sizeof(*p));
    if (!(p->flops > 0 && p->bandwidth > 0 && p->launch >= 0 &&
          p->gemm_share > 0 && p->mha_share > 0 && p->mla_share > 0 &&
          p->bandwidth_share > 0))
        return mla__fail(policy->ctx, MLA_INVALID_ARGUMENT,
                         "device profile: %g FLOP/s, %g B/s, launch %g s, "
                         "shares %g, %g, %g, %g",
                         p->flops, p->bandwidth, p->launch, p->gemm_share,
                         p->mha_share, p->mla_share, p->bandwidth_share);
    policy->profile_name = mla__strdup(policy->ctx, p->name ? p->name : "");
    if (!policy->profile_name)
        return mla__fail(policy->ctx, MLA_OUT_OF_MEMORY, "policy");
    p->name = policy->profile_name;
    policy->options.profile = NULL;
    return MLA_OK;
}

/* The rows of the table in docs/dispatch.md, each solved for seconds per unit:
 * a multiply-add counts 2 FLOP, `element` is the seconds that one element
 * takes from or to memory. */
static void set_coefficients(struct mla__cost *c)
{
    const mla_device_profile *p = &c->profile;
    double h = c->model.heads, nope = c->model.nope, rope = c->model.rope;
    double v = c->model.v, r = c->model.latent, row = r + rope;
    double widths = h * (nope + rope + v);
    double flop = 1 / p->flops;
    double element = c->model.elem_bytes / (p->bandwidth * p->bandwidth_share);
    double a = r * h * (nope + v);

    c->expand = longer(2 * a * flop / p->gemm_share, (row + widths) * element);
    c->normal_pair = 2 * widths * flop / p->mha_share;
    c->normal_row = widths * element;
    c->absorb =
        longer(2 * a * flop / p->gemm_share, h * (nope + 2 * r + v) * element);
    c->absorbed_pair = 2 * h * (2 * r + rope) * flop / p->mla_share;
    c->absorbed_key = row * element;
    c->absorbed_query = h * (row + r) * element;
    c->launch = p->launch;
    c->fixed = a * element + LAUNCHES * p->launch;
    c->merge_row = 3 * h * v * element;
}

mla_status mla__cost_prepare(mla_policy *policy)
{
    mla_status status = read_model(policy);
    if (!status)
        status = read_profile(policy);
    if (!status)
        set_coefficients(&policy->cost);
    return status;
}

/* Rows -------------------------------------------------------------------- */

/* Rows are worked off in blocks of fixed size and in single precision, so
 * that the compiler can use vectors: a decision has a microsecond for 256 of
 * them.  Sums over blocks are double. */
enum { BLOCK = 64, LANES = 4 };

struct block {
    int32_t prefix[BLOCK], fresh[BLOCK]; /* 0 where there is no row */
    float normal[BLOCK], absorbed[BLOCK];
    int32_t expanded[BLOCK]; /* 1 where normal is less */
};

struct coefficients {
    float expand, normal_pair, normal_row;
    float absorb, absorbed_pair, absorbed_key, absorbed_query;
};

/* A row without new tokens costs nothing, whatever its prefix. */
static void load(const mla_batch *b, int first, int n, struct block *k)
{
    size_t bytes = (size_t)n * sizeof(int32_t);

    memset(k->prefix, 0, sizeof(k->prefix));
    memset(k->fresh, 0, sizeof(k->fresh));
    if (b->prefix)
        memcpy(k->prefix, b->prefix + first, bytes);
    if (b->fresh)
        memcpy(k->fresh, b->fresh + first, bytes);
    for (int i = 0; !b->fresh && i < n; i++)
        k->fresh[i] = 1;
    for (int i = 0; i < BLOCK; i++)
        k->prefix[i] &= -(k->fresh[i] > 0);
}

/* Floats hold a coefficient to 6e-8, far below what a prediction is worth. */
static struct coefficients narrow(const struct mla__cost *c)
{
    return (struct coefficients){
        (float)c->expand,        (float)c->normal_pair,
        (float)c->normal_row,    (float)c->absorb,
        (float)c->absorbed_pair, (float)c->absorbed_key,
        (float)c->absorbed_query};
}

/* Seconds of each row in either form, without what a form costs once. */
static void time_rows(const struct coefficients c, struct block *k)
{
    for (int i = 0; i < BLOCK; i++) {
        float p = (float)k->prefix[i], t = (float)k->fresh[i], s = p + t;
        float pairs = t * (p + (t + 1) * 0.5f);
        float compute = pairs * c.normal_pair, memory = (s + t) * c.normal_row;
        k->normal[i] = s * c.expand + (compute > memory ? compute : memory);
        compute = pairs * c.absorbed_pair;
        memory = s * c.absorbed_key + t * c.absorbed_query;
        k->absorbed[i] = t * c.absorb + (compute > memory ? compute : memory);
    }
    for (int i = 0; i < BLOCK; i++)
        k->expanded[i] = k->normal[i] < k->absorbed[i];
}

/* The rows in sum: all in one form, and each in its cheaper one. */
struct totals {
    double normal, absorbed, best; /* seconds */
    struct mla__sums part;         /* of the rows that best expands */
    int normal_rows;
};

/* A fixed order, so that the sum does not depend on how a
 * compiler vectorises. */
static double sum_lanes(const float lane[LANES])
{
    return ((double)lane[0] + lane[1]) + ((double)lane[2] + lane[3]);
}

/* Four independent sums per form: a compiler may not reorder sums of floats,
 * and so could not add one alone in parallel. */
static void add_times(const struct block *k, struct totals *sum)
{
    float normal[LANES] = {0}, absorbed[LANES] = {0}, best[LANES] = {0};

    for (int i = 0; i < BLOCK; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float n = k->normal[i + j], a = k->absorbed[i + j];
            normal[j] += n;
            absorbed[j] += a;
            best[j] += n < a ? n : a;
        }
    sum->normal += sum_lanes(normal);
    sum->absorbed += sum_lanes(absorbed);
    sum->best += sum_lanes(best);
}

/* By masks instead of branches, as the rest of the loop over rows. */
static void add_expanded(const struct block *k, struct totals *sum)
{
    int64_t prefix = 0, fresh = 0;
    int32_t rows = 0, longest = 0;

    for (int i = 0; i < BLOCK; i++) {
        int32_t mask = -k->expanded[i], p = k->prefix[i] & mask;
        prefix += p;
        fresh += k->fresh[i] & mask;
        rows -= mask;
        longest = p > longest ? p : longest;
    }
    sum->part.prefix += prefix;
    sum->part.fresh += fresh;
    sum->normal_rows += rows;
    if (longest > sum->part.longest_prefix)
        sum->part.longest_prefix = longest;
}

/* Leaves 1 in methods, if there are any, for rows that best expands. */
static struct totals total_times(const struct mla__cost *c, const mla_batch *b,
                                 mla_method *methods)
{
    const struct coefficients narrowed = narrow(c);
    struct totals sum = {0};
    struct block k;

    for (int first = 0; first < b->rows; first += BLOCK) {
        int n = b->rows - first < BLOCK ? b->rows - first : BLOCK;
        load(b, first, n, &k);
        time_rows(narrowed, &k);
        add_times(&k, &sum);
        add_expanded(&k, &sum);
        for (int i = 0; methods && i < n; i++)
            methods[first + i] = (mla_method)k.expanded[i];
    }
    sum.part.total = sum.part.prefix + sum.part.fresh;
    return sum;
}

/* What chunks add to the expanded form of rows with these figures, in
 * seconds: launches, and a merge of all new tokens, per chunk.  Nothing where
 * one shot suffices. */
static double chunk_time(const mla_policy *policy, int rows,
                         const struct mla__sums *s)
{
    const struct mla__cost *c = &policy->cost;
    int64_t chunk = policy->options.max_chunk_capacity / rows, count;

    if (!s->prefix || s->total <= policy->options.max_chunk_capacity)
        return 0;
    chunk = chunk ? chunk : 1;
    count = (s->longest_prefix + chunk - 1) / chunk;
    return (double)count *
           (CHUNK_LAUNCHES * c->launch + (double)s->fresh * c->merge_row);
}

/* Choice ------------------------------------------------------------------ */

/* All rows in one form; a tie is absorbed. */
static void choose_one(const mla_policy *policy, const mla_batch *b,
                       const struct mla__sums *s, const struct totals *sum,
                       mla_decision *out)
{
    const struct mla__cost *c = &policy->cost;
    bool absorb;

    out->normal_time = c->fixed + sum->normal + chunk_time(policy, b->rows, s);
    out->absorbed_time = c->fixed + sum->absorbed;
    absorb = out->absorbed_time <= out->normal_time;
    out->time = absorb ? out->absorbed_time : out->normal_time;
    out->method =
        absorb ? MLA_METHOD_MLA : mla__expanded(policy, s->prefix, s->total);
    out->absorbed_rows = absorb ? b->rows : 0;
    out->reason =
        absorb ? "the absorbed form is faster" : "the expanded form is faster";
}

/* Both forms, if that is faster than the one in out. */
static void choose_both(const mla_policy *policy, const mla_batch *b,
                        const struct totals *sum, mla_decision *out)
{
    const struct mla__sums *part = &sum->part;
    double time = 2 * policy->cost.fixed + sum->best +
                  chunk_time(policy, sum->normal_rows, part);

    if (time >= out->time)
        return;
    out->time = time;
    out->method = mla__expanded(policy, part->prefix, part->total);
    out->split = 1;
    out->absorbed_rows = b->rows - sum->normal_rows;
    out->reason = "each row in its faster form";
}

/* Of the three candidates the least.  A split in which one side is empty is
 * one of the other two. */
static void choose(const mla_policy *policy, const mla_batch *b,
                   const struct mla__sums *s, mla_method *methods,
                   mla_decision *out)
{
    struct totals sum = total_times(&policy->cost, b, methods);

    choose_one(policy, b, s, &sum, out);
    if (policy->options.allow_split && sum.normal_rows &&
        sum.normal_rows < b->rows)
        choose_both(policy, b, &sum, out);
}

/* With a split, methods hold what total_times has left there. */
static void write_methods(const mla_decision *d, int rows, mla_method *methods)
{
    for (int i = 0; i < rows; i++)
        methods[i] = !d->split || methods[i] ? d->run : MLA_METHOD_MLA;
}

/* What must not depend on its neighbours or on a replay is absorbed
 * throughout, before any time is looked at. */
void mla__cost_decide(const mla_policy *policy, const mla_batch *batch,
                      const struct mla__sums *sums, mla_method *methods,
                      mla_decision *out)
{
    if (batch->captured || batch->context_parallel ||
        policy->options.deterministic) {
        out->method = MLA_METHOD_MLA;
        out->absorbed_rows = batch->rows;
        out->reason = batch->captured           ? "inside a captured graph"
                      : batch->context_parallel ? "context-parallel prefill"
                                                : "deterministic inference";
    } else {
        choose(policy, batch, sums, methods, out);
    }
    out->run = out->method;
    if (methods)
        write_methods(out, batch->rows, methods);
}
