/* SPDX-License-Identifier: Apache-2.0
 *
 * suite.c: the cases of a kernel.
 *
 * Every family has a sweep over token counts around the sizes that kernels
 * like (8, 16, 64, ...), each with another pair of layouts, and the shapes of
 * its own table.  How far the sweep goes is bounded by the work of one launch,
 * so that a model with 128 heads does not take a hundred times as long as one
 * with a few.
 *
 * The quick set has to be short enough for every build, the full one is for a
 * night.  Both have the smallest counts and all layouts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "mha.h"

/* Work of one launch, in thread instructions, about: a virtual GPU does some
 * 50 million a second and core. */
static const double quick_launch = 12e6, full_launch = 600e6;

/* A call whose weights alone cost this much gets the short sweep. */
static const double heavy_call = 6e6;

/* Bound on the cosine distance over the 16-bit outputs of a group. */
static const double cosine_bar = 5e-6;

static const int short_sweep[] = {1, 9, 17};
static const int quick_sweep[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 64, 65,
                                  130};
static const int full_sweep[] = {1,  2,  3,  4,   5,   7,   8,   9,   15,
                                 16, 17, 31, 32,  33,  63,  64,  65,  127,
                                 128, 129, 130, 255, 256, 257, 500, 1000,
                                 2049, 4097};

/* Thread instructions of one launch, about. */
static double work_of(const struct num_subject *s,
                      const struct num_family *f, int64_t tokens)
{
    double work = f->call_work ? f->call_work(s) : 0;
    if (f->token_work)
        work += (double)tokens * f->token_work(s);
    return work;
}

/* Adds the token sweep; a family without tokens has none. */
static int add_sweep(const struct num_subject *s, const struct num_family *f,
                     bool full, struct num_shape *out)
{
    bool heavy = work_of(s, f, 0) > heavy_call;
    const int *list = full ? full_sweep : heavy ? short_sweep : quick_sweep;
    size_t count = full    ? sizeof(full_sweep) / sizeof(int)
                   : heavy ? sizeof(short_sweep) / sizeof(int)
                           : sizeof(quick_sweep) / sizeof(int);
    double most = full ? full_launch : quick_launch;
    int n = 0;

    if (!f->token_work)
        return 0;
    for (size_t i = 0; i < count; i++) {
        /* The smallest counts run whatever they cost. */
        if (list[i] > 17 && work_of(s, f, list[i]) > most)
            continue;
        out[n++] = (struct num_shape){
            "tokens", list[i], (enum num_layout)(i % NUM_LAYOUTS),
            (enum num_layout)((i + 1 + i / 4) % NUM_LAYOUTS), 0, false};
    }
    return n;
}

/* The sweep first: its smallest cases fail soonest and say most. */
struct num_shape *num_suite_shapes(const struct num_subject *s,
                                   const struct num_family *family, bool full,
                                   int *count)
{
    size_t room = sizeof(full_sweep) / sizeof(int) +
                  (size_t)family->shape_count;
    struct num_shape *out = num_alloc(room * sizeof(*out));
    int n = add_sweep(s, family, full, out);

    for (int i = 0; i < family->shape_count; i++)
        if (full || !family->shapes[i].full_only)
            out[n++] = family->shapes[i];
    *count = n;
    return out;
}

/* Every character of the symbol stirs the state: kernels whose names differ
 * in a digit get unrelated inputs. */
uint64_t num_case_seed(const struct num_subject *s,
                       const struct num_options *o, int index)
{
    struct num_rng rng = {o->seed + (uint64_t)index * 0x51ed270b};
    for (const char *p = s->info.symbol; *p; p++)
        rng.state = num_random(&rng) ^ (uint64_t)(unsigned char)*p;
    return num_random(&rng);
}

/* A group without a case has shown nothing and does not pass. */
static bool passes(const struct num_verdict *v)
{
    return v->failures == 0 && v->cases > 0 &&
           num_cosine_distance(v) < cosine_bar;
}

/* A cosine distance beyond the bar is a failure where no element was one. */
void num_report_group(const char *kernel, const char *group, const char *bar,
                      struct num_verdict *v, const struct num_options *o,
                      struct num_totals *totals)
{
    if (v->failures == 0 && num_cosine_distance(v) >= cosine_bar) {
        v->failures = 1;
        strcpy(v->why, "the cosine distance is 5e-6 or more");
    }
    num_report_row(kernel, group, bar, v, passes(v), o, totals);
}

/* The subject is read again because the old kernel pointers died with the
 * context. */
bool num_recover(struct num_device *d, struct num_subject *s,
                 struct num_verdict *v)
{
    if (!d->lost)
        return true;
    if (num_device_reopen(d) == MLA_OK &&
        !num_subject_read(d->ctx, d->set, s->index, s->model, s))
        return true;
    v->failures++;
    snprintf(v->why, sizeof(v->why), "the device is gone after a failure");
    return false;
}

/* num_check_empty or num_check_refusals. */
typedef void group_fn(struct num_device *, struct num_case *,
                      struct num_verdict *);

/* A group that is not a list of shapes: one case, one function. */
static void run_special(struct num_device *d, struct num_subject *s,
                        const struct num_family *f, const char *group,
                        group_fn *check, const struct num_options *o,
                        struct num_totals *totals)
{
    struct num_shape shape = {group, 3, NUM_PADDED, NUM_PADDED, 0, false};
    struct num_verdict v = {0};

    if (num_recover(d, s, &v)) {
        struct num_case *c = num_case_make(s, f, &shape,
                                           num_case_seed(s, o, -1));
        check(d, c, &v);
        num_case_free(c);
    }
    num_report_row(s->info.symbol, group, "refused or untouched", &v,
                   passes(&v), o, totals);
}

/* All cases of one group, and its row. */
static void run_group(struct num_device *d, struct num_subject *s,
                      const struct num_family *f,
                      const struct num_shape *shapes, int first, int end,
                      const struct num_options *o, struct num_totals *totals)
{
    struct num_verdict v = {0};

    for (int i = first; i < end && num_recover(d, s, &v); i++) {
        struct num_case *c = num_case_make(s, f, &shapes[i],
                                           num_case_seed(s, o, i));
        num_check_case(d, c, o->schedules, &v);
        num_case_free(c);
    }
    num_report_group(s->info.symbol, shapes[first].group, f->bar, &v, o,
                     totals);
}

/* Decode and attention kernels have suites of their own, for their cases are
 * no token sweeps. */
void num_suite_run(struct num_device *d, struct num_subject *s,
                   const struct num_options *o, struct num_totals *totals)
{
    const struct num_family *f = num_family_of(s);
    struct num_shape *shapes;
    int count, end;

    if (decode_suite_run(d, s, o, totals) || mha_suite_run(d, s, o, totals))
        return;
    if (!f) {
        num_report_failure(s->info.symbol, "all",
                           "there are no cases for this family", o, totals);
        return;
    }
    shapes = num_suite_shapes(s, f, o->full, &count);
    for (int i = 0; i < count; i = end) {
        num_report_progress(s->info.symbol, shapes[i].group, i, count, o);
        for (end = i + 1; end < count; end++)
            if (strcmp(shapes[end].group, shapes[i].group))
                break;
        run_group(d, s, f, shapes, i, end, o, totals);
    }
    free(shapes);
    if (f->token_work)
        run_special(d, s, f, "no tokens", num_check_empty, o, totals);
    run_special(d, s, f, "refusals", num_check_refusals, o, totals);
}
