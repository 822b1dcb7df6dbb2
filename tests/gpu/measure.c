/* SPDX-License-Identifier: Apache-2.0
 *
 * measure.c: copies that take turns, a graph of launches, the median.
 *
 * Copies: as many as it takes to put three times the L2 between two uses of
 * the same byte, at least two, as far as the arena goes.  A series goes
 * through all of them a whole number of times, so that replays go on where the
 * last one ended.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_bench.h"
#include "tensor.h"

/* Bounds of a graph, which the driver has to build and upload. */
enum { MAX_COPIES = 128, MAX_LAUNCHES = 512, L2_TIMES = 3 };

/* A graph to be: launches go through the copies in turn. */
struct series {
    const struct gpu_work *work;
    int copies, launches;
    mla_args *args[MAX_COPIES][GPU_MAX_KERNELS];
};

/* --- medians -------------------------------------------------------------- */

/* For qsort. */
static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of an even number the mean of the two in the middle. */
double gpu_median(double *value, int n)
{
    qsort(value, (size_t)n, sizeof(*value), by_value);
    return n % 2 ? value[n / 2] : (value[n / 2 - 1] + value[n / 2]) / 2;
}

/* --- copies --------------------------------------------------------------- */

/* 0: not even one fits the arena. */
static int copies_of(const struct gpu *g, const struct gpu_work *w,
                     const struct gpu_settings *s)
{
    size_t bytes = gpu_work_bytes(w);
    double wanted = ceil(L2_TIMES * (double)s->l2 / fmax(w->bytes, 1)) + 1;
    double room = floor((double)g->arena_bytes / (double)(bytes ? bytes : 1));

    return (int)fmin(fmin(wanted, room), MAX_COPIES);
}

/* What the first kernel leaves for the others (a work list), once a copy. */
static bool run_first(struct gpu *g, const struct gpu_work *w, uint64_t at)
{
    mla_args *args = NULL;
    bool good = gpu_bind(g, w, &w->first, at, &args);

    if (good && mla_launch(args, g->stream)) {
        snprintf(g->error, sizeof(g->error), "%s",
                 mla_last_error(g->device.ctx));
        good = false;
    }
    mla_args_free(args);
    return good && gpu_good(g, g->stream_wait(g->stream),
                            w->first.info.symbol);
}

/* Index tensors, the work list, and the arguments of copy i. */
static bool make_copy(struct gpu *g, struct series *t, int i)
{
    const struct gpu_work *w = t->work;
    uint64_t at = g->arena + (uint64_t)i * gpu_work_bytes(w);
    bool good = gpu_place(g, w, at) &&
                (!w->has_first || run_first(g, w, at));

    for (int k = 0; k < w->kernels && good; k++)
        good = gpu_bind(g, w, &w->kernel[k], at, &t->args[i][k]);
    return good;
}

/* Blocks that were never made are NULL. */
static void free_copies(struct series *t)
{
    for (int i = 0; i < t->copies; i++)
        for (int k = 0; k < GPU_MAX_KERNELS; k++)
            mla_args_free(t->args[i][k]);
}

/* --- series --------------------------------------------------------------- */

/* Under recording: launches add nodes and run nothing. */
static bool enqueue(struct gpu *g, void *user)
{
    const struct series *t = user;

    for (int i = 0; i < t->launches; i++)
        for (int k = 0; k < t->work->kernels; k++)
            if (mla_launch(t->args[i % t->copies][k], g->stream)) {
                snprintf(g->error, sizeof(g->error), "%s",
                         mla_last_error(g->device.ctx));
                return false;
            }
    return true;
}

/* Microseconds of one call, each replay by itself; the first warms up. */
static bool time_series(struct gpu *g, struct series *t, int replays,
                        double *us)
{
    void *exec = NULL;
    double ms = 0;
    bool good = gpu_record(g, enqueue, t, &exec) && gpu_replay(g, exec, &ms);

    for (int i = 0; i < replays && good; i++) {
        good = gpu_replay(g, exec, &ms);
        us[i] = 1e3 * ms / t->launches;
    }
    if (exec)
        g->exec_destroy(exec);
    return good;
}

/* Enough launches for a series of the least length: whole turns. */
static int launches_of(const struct series *t, double us,
                       const struct gpu_settings *s)
{
    double turn = us * t->copies;
    double turns = turn > 0 ? ceil(s->segment_us / turn) : 1;
    double most = fmax(1, floor((double)MAX_LAUNCHES / t->copies));

    return t->copies * (int)fmax(1, fmin(turns, most));
}

/* Loads the kernels: nothing may be loaded while recording. */
static bool prepare(struct gpu *g, const struct gpu_work *w)
{
    for (int k = 0; k <= w->kernels; k++) {
        const struct num_subject *s =
            k < w->kernels ? &w->kernel[k] : &w->first;
        if ((k == w->kernels && !w->has_first) || !mla_prepare(s->kernel))
            continue;
        snprintf(g->error, sizeof(g->error), "%s",
                 mla_last_error(g->device.ctx));
        return false;
    }
    return true;
}

/* A short graph first, to learn how long the real one has to be. */
static bool run_series(struct gpu *g, struct series *t,
                       const struct gpu_settings *s, struct gpu_figure *out)
{
    double us[GPU_MAX_REPLAYS];

    t->launches = t->copies;
    if (!time_series(g, t, 1, us))
        return false;
    t->launches = launches_of(t, us[0], s);
    if (!time_series(g, t, s->replays, us))
        return false;
    out->us = gpu_median(us, s->replays);
    out->least = us[0];
    out->most = us[s->replays - 1];
    out->copies = t->copies;
    out->launches = t->launches;
    out->replays = s->replays;
    return true;
}

/* The steps in order; each leaves its reason when it fails. */
bool gpu_measure(struct gpu *g, const struct gpu_work *w,
                 const struct gpu_settings *s, struct gpu_figure *out)
{
    struct series *t = num_alloc(sizeof(*t));
    bool good = prepare(g, w);

    memset(out, 0, sizeof(*out));
    t->work = w;
    t->copies = copies_of(g, w, s);
    if (good && t->copies < 1) {
        snprintf(g->error, sizeof(g->error),
                 "%zu bytes do not fit the arena of %zu", gpu_work_bytes(w),
                 g->arena_bytes);
        good = false;
    }
    good = good &&
           gpu_refresh(g, (size_t)t->copies * gpu_work_bytes(w));
    for (int i = 0; i < t->copies && good; i++)
        good = make_copy(g, t, i);
    good = good && run_series(g, t, s, out);
    free_copies(t);
    free(t);
    return good;
}
