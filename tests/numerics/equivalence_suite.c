/* SPDX-License-Identifier: Apache-2.0
 *
 * equivalence_suite.c: every way through a layer, and what they have to share.
 *
 * Bars.  Rounding to nearest has an error of about r = 0.41 u of a value, root
 * mean square, u being half a unit in the last place of the working type at 1
 * (2^-8 for bf16, 2^-11 for fp16).  Errors are independent, so what a way
 * rounds adds up as the square root of the sum of
 *
 *     Normal   v, P, O: r^2 each; k_nope and q move a score by r times its
 *              standard deviation, here 1 for each of DN and DR: 3 r^2
 *     chunks   O of each chunk and of each merge: r^2 each, times the square
 *              of a weight, at most 2 r^2 per chunk
 *     Absorb   P, latent O, O: r^2 each; absorbed q: 2 r^2
 *
 * of the output's size: 2.4 r = 1.0 u for one shot, 3.5 r = 1.4 u for three
 * chunks, 0.9 u for Absorb, and at most 1.7 u between two of them.  Over all
 * rows, 2.5 u are allowed (0.98 % for bf16, 0.12 % for fp16; as a cosine
 * distance, 5e-5 and 8e-7).  A single row, of a token and head, is allowed
 * three times that: where it sees two or three keys, the errors of as many
 * scores decide, and its values may cancel.  A key of 200 left out or counted
 * twice moves a row by 7 %, more than twice its bar.
 *
 * The first run has zeros wherever no kernel has written yet; those that
 * follow have poison there, canaries around the buffers and another schedule,
 * and have to give the same bits.
 *
 * A way needs its kernels; which those are is a bit mask in the table below.
 * A directory for one server has some of them only, so a way that cannot run
 * is reported and not held against it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "equivalence.h"
#include "internal.h"
#include "json.h"

static const double row_bar = 7.5, all_bar = 2.5; /* in u */
static const char bar[] = "rms 7.5 u of a row, 2.5 u of all";

/* Ways -------------------------------------------------------------------- */

/* Ways and the kernels that they launch. */
#define NEEDS(kernel) (1u << (kernel))
#define EXPANSION                                                              \
    (NEEDS(LAYER_KV_APPEND) | NEEDS(LAYER_KV_GATHER) | NEEDS(LAYER_KV_B) |     \
     NEEDS(LAYER_MHA))
#define ABSORPTION                                                             \
    (NEEDS(LAYER_KV_APPEND) | NEEDS(LAYER_ABSORB_Q) | NEEDS(LAYER_PLAN) |      \
     NEEDS(LAYER_DECODE) | NEEDS(LAYER_COMBINE) | NEEDS(LAYER_ABSORB_V))

static const struct way {
    const char *name;
    unsigned needs;
    bool (*run)(struct layer_run *r, uint64_t out);
} ways[] = {
    {"one shot", EXPANSION, layer_one_shot},
    {"chunks", EXPANSION | NEEDS(LAYER_MERGE), layer_chunked},
    {"page chunks", EXPANSION | NEEDS(LAYER_MERGE), layer_chunked_by_page},
    {"absorbed", ABSORPTION, layer_absorbed},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* Two ways that are compared with each other, too. */
static const struct pair {
    const char *name;
    int a, b;
} pairs[] = {
    {"shot/chunks", 0, 1},
    {"shot/absorbed", 0, 3},
    {"chunks/absorbed", 1, 3},
};
enum { PAIRS = sizeof(pairs) / sizeof(pairs[0]) };

/* Without a prefix for some, short and long ones, single tokens, more tokens
 * than a decode step takes, both sides of a page's end. */
static const struct layer_shape shapes[] = {
    {"mixed", 3, {{0, 5}, {37, 1}, {150, 9}}, 3, false},
    {"wide", 4, {{200, 3}, {0, 1}, {65, 8}, {63, 2}}, 4, true},
    {"idle", 4, {{129, 4}, {20, 0}, {1, 1}, {64, 7}}, 5, true},
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

/* Finding ----------------------------------------------------------------- */

/* By enum layer_kernel, from the list in equivalence.h. */
static const char *const family_of[LAYER_KERNELS] = {
#define LAYER_FAMILY(name, family, variant) [name] = family,
    LAYER_KERNEL_LIST(LAYER_FAMILY)
#undef LAYER_FAMILY
        [LAYER_DECODE] = "mqa_decode"};

static const char *const variant_of[LAYER_DECODE] = {
#define LAYER_VARIANT(name, family, variant) [name] = variant,
    LAYER_KERNEL_LIST(LAYER_VARIANT)
#undef LAYER_VARIANT
};

/* What a suite is about. */
struct subject {
    struct num_device *device;
    const struct num_model *model;
    const struct num_options *options;
    int heads, page_size;
    char name[160]; /* of the rows */
    struct layer_kernels kernels;
    struct layer like;
};

/* Every tile of mqa_decode; variants are named by their size. */
static void find_tiles(struct subject *s)
{
    mla_kernels *set = s->device->set;
    struct layer_kernels *k = &s->kernels;

    for (int i = 0; i < mla_kernels_count(set); i++) {
        mla_kernel_info info = {.size = sizeof(info)};
        mla_kernel *kernel = mla_kernels_at(set, i), *best = NULL;
        mla_kernel_describe(kernel, &info);
        if (strcmp(info.family, family_of[LAYER_DECODE]) ||
            info.heads != s->heads || info.page_size != s->page_size ||
            k->tiles == LAYER_MAX_TILES ||
            mla_find(set, info.family, info.variant, s->heads, s->page_size,
                     &best) ||
            best != kernel)
            continue;
        k->tile[k->tiles++] =
            (struct layer_tile){kernel, info.tile_m, info.tile_n};
    }
}

/* Dims, from whichever kernels have them. */
static void read_dims(struct subject *s)
{
    struct layer *l = &s->like;

    for (int i = 0; i < LAYER_DECODE; i++) {
        mla_kernel_info info = {.size = sizeof(info)};
        if (!s->kernels.one[i])
            continue;
        mla_kernel_describe(s->kernels.one[i], &info);
        l->dtype = (enum num_elem)num_elem_by_name(info.dtype);
        l->nope = info.nope ? info.nope : l->nope;
        l->v = info.v ? info.v : l->v;
        l->latent = info.latent ? info.latent : l->latent;
    }
    l->model = s->model;
    l->rope = s->model->rope.dim;
    l->heads = s->heads;
    l->page_size = s->page_size;
}

/* spec.decode.max_q_len of the manifest. */
static int max_q_len(struct num_device *d)
{
    char *copy = strdup(mla_kernels_manifest(d->set));
    const struct mla__json *value = NULL;
    struct mla__json *root = NULL;
    struct mla__json_error error;
    int number = 0;

    if (copy && mla__json_parse(d->ctx, copy, &root, &error) == MLA_OK)
        value = mla__json_get(
            mla__json_get(mla__json_get(root, "spec"), "decode"), "max_q_len");
    if (value)
        number = (int)value->integer;
    mla__json_free(d->ctx, root);
    free(copy);
    return number > 0 ? number : 1;
}

/* After every new context: the pointers of the old one are gone. */
static void find_kernels(struct subject *s)
{
    struct layer_kernels *k = &s->kernels;

    memset(k, 0, sizeof(*k));
    memset(&s->like, 0, sizeof(s->like));
    for (int i = 0; i < LAYER_DECODE; i++)
        if (mla_find(s->device->set, family_of[i], variant_of[i], s->heads,
                     s->page_size, &k->one[i]))
            k->one[i] = NULL;
    find_tiles(s);
    read_dims(s);
    s->like.max_q_len = max_q_len(s->device);
}

static bool is_missing(const struct subject *s, int kernel)
{
    return kernel == LAYER_DECODE ? s->kernels.tiles == 0
                                  : s->kernels.one[kernel] == NULL;
}

/* Are all kernels of the way there? */
static bool can_run(const struct subject *s, const struct way *way)
{
    for (int i = 0; i < LAYER_KERNELS; i++)
        if ((way->needs & NEEDS(i)) && is_missing(s, i))
            return false;
    return true;
}

/* Whether the directory has the family at all, for some device and heads. */
static bool is_known(const struct subject *s, int kernel)
{
    mla_kernels *set = s->device->set;

    for (int i = 0; i < mla_kernels_count(set); i++) {
        mla_kernel_info info = {.size = sizeof(info)};
        mla_kernel_describe(mla_kernels_at(set, i), &info);
        if (strcmp(info.family, family_of[kernel]) == 0 &&
            (kernel == LAYER_DECODE ||
             strcmp(info.variant, variant_of[kernel]) == 0))
            return true;
    }
    return false;
}

/* Judging ----------------------------------------------------------------- */

/* One output row against another.  NaN is beyond every bar. */
static void judge_row(const struct layer *l, int64_t row, const double *got,
                      const double *want, struct num_verdict *v)
{
    double error = 0, size = 0, off;

    for (int i = 0; i < l->v; i++) {
        double d = got[i] - want[i];
        v->max_abs = fmax(v->max_abs, fabs(d));
        error += d * d;
        size += want[i] * want[i];
        v->dot += got[i] * want[i];
        v->got += got[i] * got[i];
        v->want += want[i] * want[i];
    }
    off = error == 0 ? 0 : sqrt(error / size);
    v->max_rel = fmax(v->max_rel, off);
    off /= row_bar * num_half_ulp(l->dtype);
    v->worst = fmax(v->worst, off);
    if (off <= 1 || v->failures++ > 0)
        return;
    snprintf(v->why, sizeof(v->why),
             "%s: token %lld, head %lld: relative error %.3g, %.2f of the "
             "bar; first values %.6g and %.6g",
             l->shape->group, (long long)(row / l->heads),
             (long long)(row % l->heads), sqrt(error / size), off, got[0],
             want[0]);
}

/* The same over all rows so far; |got - want|^2 from the cosine's sums. */
static void judge_all(const struct layer *l, struct num_verdict *v)
{
    double error = v->got + v->want - 2 * v->dot;
    double off = sqrt(fmax(error, 0) / v->want);

    off /= all_bar * num_half_ulp(l->dtype);
    v->worst = fmax(v->worst, off);
    if (off <= 1 || v->failures++ > 0)
        return;
    snprintf(v->why, sizeof(v->why),
             "%s: relative error %.2f of the bar over all rows",
             l->shape->group, off);
}

/* One answer against another or the reference: each row, then all of them. */
static void judge(const struct layer *l, const double *got, const double *want,
                  struct num_verdict *v)
{
    v->cases++;
    for (int64_t row = 0; row < l->tokens * l->heads; row++)
        judge_row(l, row, got + row * l->v, want + row * l->v, v);
    judge_all(l, v);
}

/* Running ----------------------------------------------------------------- */

/* What the ways of one layer have answered. */
struct answers {
    unsigned char *bits[WAYS]; /* of the first run; NULL: none */
    double *value[WAYS];
};

/* The first run's answer, as bits for later runs and in double for judging;
 * takes over `got`. */
static void keep(const struct layer *l, struct answers *a, int way,
                 unsigned char *got)
{
    int64_t n = layer_out_elements(l);

    a->bits[way] = got;
    a->value[way] = num_alloc((size_t)n * sizeof(double));
    for (int64_t i = 0; i < n; i++)
        a->value[way][i] =
            num_decode(l->dtype, got + i * (int64_t)num_elem_bytes(l->dtype));
}

/* One way of a run; what comes out is kept, or the same as what was. */
static void run_way(struct layer_run *r, int way, struct answers *a)
{
    const struct layer *l = r->layer;
    size_t bytes = (size_t)layer_bytes(l, layer_out_elements(l));
    unsigned char *got = num_alloc(bytes);
    int mark = r->buffers;
    uint64_t out;
    bool good;

    good = layer_new(r, "the layer's output", l->dtype, layer_out_elements(l),
                     NULL, &out) &&
           ways[way].run(r, out) && layer_read(r, got, out, bytes);
    good = layer_release(r, mark) && good;
    if (good && !a->bits[way]) {
        keep(l, a, way, got);
        return;
    }
    if (good && memcmp(got, a->bits[way], bytes))
        layer_fail(r, "the answer differs from the first run's");
    free(got);
}

/* All ways on the same inputs and the same pool.  False: the device is lost,
 * or the inputs are no more what they were. */
static bool run_once(struct subject *s, const struct layer *l, uint64_t seed,
                     int turn, struct answers *a, struct num_verdict *v)
{
    struct num_verdict begin = {0};
    struct layer_run r = {.device = s->device,
                          .layer = l,
                          .kernels = &s->kernels,
                          .poison = (enum num_poison)(turn ? 1 + turn % 3 : 0),
                          .schedule = turn ? seed | 1 : 0,
                          .guarded = turn > 0,
                          .verdict = &begin};
    bool good = layer_begin(&r);

    for (int i = 0; i < WAYS && good && !s->device->lost; i++) {
        r.verdict = &v[i];
        if (can_run(s, &ways[i]))
            run_way(&r, i, a);
    }
    r.verdict = &begin;
    good = layer_release(&r, 0) && good && !s->device->lost;
    if (begin.failures)
        for (int i = 0; i < WAYS; i++)
            if (can_run(s, &ways[i]) && v[i].failures++ == 0)
                strcpy(v[i].why, begin.why);
    return good;
}

static void free_answers(struct answers *a)
{
    for (int i = 0; i < WAYS; i++) {
        free(a->bits[i]);
        free(a->value[i]);
    }
}

/* A layer of one shape: its runs, then the comparisons. */
static bool run_shape(struct subject *s, int shape, struct num_verdict *v)
{
    struct num_rng rng = {s->options->seed * 31 + (uint64_t)shape};
    struct layer *l = layer_make(&s->like, &shapes[shape], num_random(&rng));
    struct answers a = {{NULL}, {NULL}};
    bool good = true;

    for (int i = 0; i < s->options->schedules && good; i++)
        good = run_once(s, l, num_random(&rng), i, &a, v);
    for (int i = 0; i < WAYS; i++)
        if (a.value[i])
            judge(l, a.value[i], l->want, &v[i]);
    for (int i = 0; i < PAIRS; i++)
        if (a.value[pairs[i].a] && a.value[pairs[i].b])
            judge(l, a.value[pairs[i].a], a.value[pairs[i].b], &v[WAYS + i]);
    free_answers(&a);
    layer_free(l);
    return good;
}

/* Reporting --------------------------------------------------------------- */

/* A way without a single case was cut off by something before it. */
static bool passes(struct num_verdict *v)
{
    if (v->failures == 0 && v->cases == 0) {
        v->failures = 1;
        strcpy(v->why, "no answer: something before it has failed");
    }
    return v->failures == 0;
}

/* A way without kernels: a failure if it was asked for, or if the directory has
 * the family, though not for this head count and device.  Else it is named, and
 * counts as neither passed nor failed. */
static void report_missing(const struct subject *s, const struct way *way,
                           bool strict, struct num_totals *totals)
{
    char why[512] = "not run, no kernel of";
    struct num_verdict v = {0};
    int passed = totals->passed;

    for (int i = 0; i < LAYER_KERNELS; i++) {
        size_t used = strlen(why);
        if (!(way->needs & NEEDS(i)) || !is_missing(s, i))
            continue;
        strict = strict || is_known(s, i);
        snprintf(why + used, sizeof(why) - used, " %s", family_of[i]);
    }
    if (strict) {
        num_report_failure(s->name, way->name, why, s->options, totals);
        return;
    }
    num_report_row(s->name, way->name, why, &v, true, s->options, totals);
    totals->passed = passed;
}

/* The rows of all ways, run or not, then those of the pairs. */
static void report(const struct subject *s, struct num_verdict *v, bool strict,
                   struct num_totals *totals)
{
    for (int i = 0; i < WAYS; i++)
        if (can_run(s, &ways[i]))
            num_report_row(s->name, ways[i].name, bar, &v[i], passes(&v[i]),
                           s->options, totals);
        else
            report_missing(s, &ways[i], strict, totals);
    for (int i = 0; i < PAIRS; i++) {
        struct num_verdict *both = &v[WAYS + i];
        if (can_run(s, &ways[pairs[i].a]) && can_run(s, &ways[pairs[i].b]))
            num_report_row(s->name, pairs[i].name, bar, both, passes(both),
                           s->options, totals);
    }
}

/* One head count and page size. */
static int run_subject(struct subject *s, bool strict,
                       struct num_totals *totals)
{
    struct num_verdict *v = num_alloc((WAYS + PAIRS) * sizeof(*v));
    int run = 0;
    bool good = !s->device->lost || num_device_reopen(s->device) == MLA_OK;

    find_kernels(s);
    snprintf(s->name, sizeof(s->name), "layer_%s_%s_h%d_p%d",
             mla_kernels_model(s->device->set),
             s->like.dtype == NUM_FP16 ? "fp16" : "bf16", s->heads,
             s->page_size);
    for (int i = 0; i < WAYS; i++)
        run += can_run(s, &ways[i]);
    for (int i = 0; i < SHAPES && run && good; i++) {
        if (shapes[i].full_only && !s->options->full)
            continue;
        num_report_progress(s->name, shapes[i].group, i, SHAPES, s->options);
        good = run_shape(s, i, v);
    }
    report(s, v, strict, totals);
    free(v);
    return run;
}

/* The next head count of the directory above `above`, or 0. */
static int next_heads(mla_kernels *set, int above)
{
    int best = 0;

    for (int i = 0; i < mla_kernels_count(set); i++) {
        mla_kernel_info info = {.size = sizeof(info)};
        mla_kernel_describe(mla_kernels_at(set, i), &info);
        if (info.heads > above && (!best || info.heads < best))
            best = info.heads;
    }
    return best;
}

/* That of the first kernel: a directory has one. */
static int page_size_of(mla_kernels *set)
{
    mla_kernel_info info = {.size = sizeof(info)};

    mla_kernel_describe(mla_kernels_at(set, 0), &info);
    return info.page_size;
}

/* Up to 32 heads: the work of the reference in double grows with them. */
int layer_suite_run(struct num_device *device, const struct num_model *model,
                    int heads, bool strict, const struct num_options *options,
                    struct num_totals *totals)
{
    struct subject *s = num_alloc(sizeof(*s));
    int run = 0, next = next_heads(device->set, heads ? heads - 1 : 0);

    while (next && (!heads || next == heads)) {
        *s = (struct subject){.device = device,
                              .model = model,
                              .options = options,
                              .heads = next,
                              .page_size = page_size_of(device->set)};
        run += run_subject(s, strict, totals);
        next = heads || !options->full ? 0 : next_heads(device->set, next);
        if (next > 32)
            break;
    }
    free(s);
    return run;
}
