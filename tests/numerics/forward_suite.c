/* SPDX-License-Identifier: Apache-2.0
 *
 * forward_suite.c: the ways through a story, and what they have to share.
 *
 * Bars.  With r = 0.41 u the error of a rounding, u half a unit in the last
 * place of the working type at 1 (equivalence_suite.c), and s the standard
 * deviation of a score, the layer adds to the attention's roundings those of
 * its projections:
 *
 *     q        down-projection, norm, q_b, rotation: r s each, 4 r^2 s^2
 *     k        down-projection, norm, k_nope, rotation: 4 r^2 s^2
 *     v        down-projection, norm, v: 3 r^2
 *     P, O     and of each chunk and merge: up to 8 r^2
 *     out      r^2
 *
 * of the output's size squared, with both paths alike.  Over all tokens 1.5
 * times the root is allowed (2.8 u where s is 1), over one token, which may
 * see few keys, three times.  A key left out, a wrong position or a wrong norm
 * moves a token by tens of percent.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward.h"

static const double row_bar = 3, all_bar = 1.5; /* times the expected error */
static const char bar[] = "rms 1.5 of what is expected, a token 3";

static const struct story_way ways[] = {
    {.name = "absorbed", .method = MLA_METHOD_MLA},
    {.name = "one shot",
     .method = MLA_METHOD_MHA_ONE_SHOT,
     .separate = true,
     .emitted = true},
    {.name = "chunks",
     .method = MLA_METHOD_MHA_CHUNKED_KV,
     .chunk_capacity = 96},
    {.name = "policy fa3",
     .method = MLA_METHOD_NONE,
     .backend = "fa3",
     .separate = true},
    {.name = "policy cost",
     .method = MLA_METHOD_NONE,
     .backend = "cost",
     .emitted = true},
    {.name = "graph",
     .method = MLA_METHOD_MLA,
     .separate = true,
     .emitted = true,
     .graph = true},
    {.name = "invariant",
     .method = MLA_METHOD_MLA,
     .graph = true,
     .split_keys = 32},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

struct subject {
    struct num_device *device;
    const struct num_options *options;
    char name[160];
    struct story_model like;
};

/* What a way has answered. */
struct story_answer {
    bool known;
    unsigned char *bits[STORY_STEPS];
};

static void new_answer(struct story_answer *a)
{
    memset(a, 0, sizeof(*a));
    for (int i = 0; i < STORY_STEPS; i++)
        a->bits[i] = num_alloc((size_t)story_tokens(&story[i]) *
                                   STORY_HIDDEN * 2 +
                               1);
}

static void free_answer(struct story_answer *a)
{
    for (int i = 0; i < STORY_STEPS; i++)
        free(a->bits[i]);
}

/* Judging ----------------------------------------------------------------- */

/* The error that the list above adds up to, relative to the output. */
static double expected(const struct story_model *m)
{
    double r = 0.41 * num_half_ulp(m->dtype);
    double s = oracle_softmax_scale(&m->model->rope, m->nope) *
               sqrt(m->nope + m->rope);

    return r * sqrt(8 * s * s + 12);
}

/* One token's output against the model's.  NaN is beyond every bar. */
static void judge_token(const struct story_model *m, int step, int token,
                        const unsigned char *got, struct num_verdict *v)
{
    const double *want = m->want[step] + (int64_t)token * STORY_HIDDEN;
    double error = 0, size = 0, off;

    for (int i = 0; i < STORY_HIDDEN; i++) {
        double x = num_decode(m->dtype, got + (token * STORY_HIDDEN + i) * 2);
        v->max_abs = fmax(v->max_abs, fabs(x - want[i]));
        error += (x - want[i]) * (x - want[i]);
        size += want[i] * want[i];
        v->dot += x * want[i];
        v->got += x * x;
        v->want += want[i] * want[i];
    }
    off = sqrt(error / size);
    v->max_rel = fmax(v->max_rel, off);
    off /= row_bar * expected(m);
    v->worst = fmax(v->worst, off);
    if (off <= 1 || v->failures++ > 0)
        return;
    snprintf(v->why, sizeof(v->why),
             "step %d, token %d: relative error %.3g, %.2f of the bar", step,
             token, sqrt(error / size), off);
}

/* |got - want|^2 of all tokens from the cosine's sums. */
static void judge(const struct story_model *m, const struct story_answer *a,
                  struct num_verdict *v)
{
    double off;

    for (int i = 0; i < STORY_STEPS; i++, v->cases++)
        for (int t = 0; t < story_tokens(&story[i]); t++)
            judge_token(m, i, t, a->bits[i], v);
    off = sqrt(fmax(v->got + v->want - 2 * v->dot, 0) / v->want);
    off /= all_bar * expected(m);
    v->worst = fmax(v->worst, off);
    if (!(off <= 1) && v->failures++ == 0)
        snprintf(v->why, sizeof(v->why),
                 "relative error %.2f of the bar over all tokens", off);
}

/* The first turn's answer is kept, the others' are the same. */
static void compare(const struct story_answer *first,
                    const struct story_answer *now, struct num_verdict *v)
{
    for (int i = 0; i < STORY_STEPS; i++)
        if (memcmp(first->bits[i], now->bits[i],
                   (size_t)story_tokens(&story[i]) * STORY_HIDDEN * 2) &&
            v->failures++ == 0)
            snprintf(v->why, sizeof(v->why),
                     "step %d: with poison around the answer differs", i);
}

/* A policy's way is there for the methods that it mixes.  Where the absorbed
 * form has fewer multiply-adds whatever the lengths, nothing is split. */
static void check_seen(const struct story_model *m, const struct story_way *way,
                       const struct story_seen *seen, struct num_verdict *v)
{
    bool rules = way->backend && strcmp(way->backend, "cost");
    bool always = 2 * m->latent <= m->nope + m->v;

    if (!way->backend || (!rules && always) ||
        (rules ? seen->shot && seen->chunks && seen->absorbed : seen->split))
        return;
    if (v->failures++ == 0)
        snprintf(v->why, sizeof(v->why),
                 "steps in one shot %d, in chunks %d, absorbed %d, split %d: "
                 "not what the story is for",
                 seen->shot, seen->chunks, seen->absorbed, seen->split);
}

/* Running ----------------------------------------------------------------- */

static bool run_turn(struct subject *s, const struct story_model *m, int way,
                     int turn, struct story_answer *a, struct num_verdict *v)
{
    struct num_rng rng = {s->options->seed * 131 + (uint64_t)turn};
    static const struct layer_shape shape = {.group = "story"};
    struct layer name = {.shape = &shape, .dtype = m->dtype};
    struct story_seen seen = {0, 0, 0, 0};
    struct layer_run r = {.device = s->device,
                          .layer = &name,
                          .poison = (enum num_poison)(turn ? 1 + turn % 3 : 0),
                          .schedule = turn ? num_random(&rng) | 1 : 0,
                          .guarded = turn > 0,
                          .verdict = v};

    num_device_schedule(s->device, r.schedule);
    a->known = story_run(&r, m, &ways[way], turn, a->bits, &seen);
    if (a->known)
        check_seen(m, &ways[way], &seen, v);
    return a->known;
}

static void run_way(struct subject *s, const struct story_model *m, int way,
                    struct num_verdict *v)
{
    struct story_answer first, now;

    new_answer(&first);
    new_answer(&now);
    if (run_turn(s, m, way, 0, &first, v)) {
        judge(m, &first, v);
        for (int i = 1; i < s->options->schedules; i++)
            if (run_turn(s, m, way, i, &now, v))
                compare(&first, &now, v);
    }
    free_answer(&first);
    free_answer(&now);
}

/* Dims out of the set's kernels. */
static bool read_dims(struct subject *s, const struct num_model *model,
                      int heads)
{
    struct story_model *m = &s->like;
    mla_kernel *kernel;
    mla_kernel_info info = {.size = sizeof(info)};

    if (mla_find(s->device->set, "kv_append", "", heads, 0, &kernel))
        return false;
    mla_kernel_describe(kernel, &info);
    *m = (struct story_model){
        .model = model,
        .dtype = (enum num_elem)num_elem_by_name(info.dtype),
        .heads = info.heads,
        .page_size = info.page_size,
        .nope = info.nope,
        .rope = info.rope,
        .v = info.v,
        .latent = info.latent,
        .q_rank = model->q_lora_rank};
    /* Where q has a factor by position, across its first step. */
    if (model->factor_beta != 0)
        m->first_position = (int64_t)model->factor_original - 40;
    snprintf(s->name, sizeof(s->name), "forward_%s_%s_h%d_p%d",
             mla_kernels_model(s->device->set), info.dtype, info.heads,
             info.page_size);
    return true;
}

static bool recover(struct subject *s)
{
    return !s->device->lost || num_device_reopen(s->device) == MLA_OK;
}

static int smallest_heads(mla_kernels *set)
{
    int best = 0;

    for (int i = 0; i < mla_kernels_count(set); i++) {
        mla_kernel_info info = {.size = sizeof(info)};
        mla_kernel_describe(mla_kernels_at(set, i), &info);
        if (!best || info.heads < best)
            best = info.heads;
    }
    return best;
}

/* Whether the directory is one that layers are made of. */
static bool has_layer(struct subject *s)
{
    mla_kernel *kernel;

    return mla_find(s->device->set, "gemm", "", 0, 0, &kernel) == MLA_OK &&
           mla_find(s->device->set, "mqa_combine", "", s->like.heads, 0,
                    &kernel) == MLA_OK &&
           mla_find(s->device->set, "mha", "", s->like.heads, 0, &kernel) ==
               MLA_OK;
}

int forward_suite_run(struct num_device *device, const struct num_model *model,
                      int heads, bool strict,
                      const struct num_options *options,
                      struct num_totals *totals)
{
    struct subject s = {.device = device, .options = options};
    struct story_model *m;
    int run = 0;

    if (!read_dims(&s, model, heads ? heads : smallest_heads(device->set)) ||
        (!has_layer(&s) && !strict))
        return 0;
    m = story_make(&s.like, options->seed * 17 + 5);
    for (int i = 0; i < WAYS && recover(&s); i++, run++) {
        struct num_verdict v = {0};
        num_report_progress(s.name, ways[i].name, i, WAYS, options);
        run_way(&s, m, i, &v);
        num_report_row(s.name, ways[i].name, bar, &v, v.failures == 0, options,
                       totals);
    }
    story_free(m);
    return run;
}
