/* SPDX-License-Identifier: Apache-2.0
 *
 * mha_suite.c: the cases of mha, and running them, a row per group.
 *
 * Lengths sit around the sizes of tiles (16, 32, 64 keys; 16, 64, 128 rows).
 * With many heads a launch on a virtual GPU is long: the quick set then leaves
 * out what is neither short nor marked.
 *
 * What the groups are there for: all keys and causal, every remainder of a
 * tile; q longer than k, rows that see nothing beside rows that do; poison and
 * strides, what lies between the rows; far and shifted, offsets beyond 32
 * bits; growing, constant and huge scores, the softmax; alone, that a token's
 * bits do not depend on its company.
 */
#include <stdio.h>
#include <string.h>

#include "mha.h"

#define R MHA_REQUESTS
#define ALWAYS MHA_ALWAYS
#define CAUSAL MHA_CAUSAL

/* {queries, keys} of each request. */
static const struct mha_shape mha_shapes[] = {
    {.group = "all keys", R({17, 40}), .flags = ALWAYS},
    {.group = "all keys", R({1, 1}, {0, 5}, {5, 0}, {15, 16}, {16, 17})},
    {.group = "all keys", R({63, 64}, {65, 63}, {1, 65})},
    {.group = "all keys", R({2, 200}, {127, 1})},
    {.group = "all keys", R({128, 129}, {129, 127}, {1, 128})},
    {.group = "all keys", R({3, 1000}, {64, 15})},
    {.group = "all keys", R({200, 200}, {1000, 1000}), .full_only = true},
    {.group = "causal", R({17, 40}), .flags = CAUSAL | ALWAYS},
    {.group = "causal",
     R({1, 1}, {0, 5}, {5, 0}, {16, 15}, {17, 16}),
     .flags = CAUSAL},
    {.group = "causal", R({63, 63}, {64, 65}, {1, 64}), .flags = CAUSAL},
    {.group = "causal", R({65, 200}, {1, 127}), .flags = CAUSAL},
    {.group = "causal", R({129, 129}, {127, 128}), .flags = CAUSAL},
    {.group = "causal", R({4, 1000}, {200, 15}), .flags = CAUSAL},
    {.group = "causal",
     R({200, 1000}, {1000, 1000}),
     .flags = CAUSAL,
     .full_only = true},
    {.group = "q longer than k", R({40, 3}, {2, 1}), .flags = CAUSAL | ALWAYS},
    {.group = "q longer than k", R({200, 65}, {130, 1}), .flags = CAUSAL},
    {.group = "nothing to see",
     R({3, 0}, {0, 0}, {0, 70}),
     .flags = CAUSAL | ALWAYS | NUM_ALL_POISONS},
    {.group = "nothing to see", R({3, 0}, {20, 0}), .flags = NUM_ALL_POISONS},

    {.group = "poison",
     R({5, 21}, {18, 18}),
     .flags = CAUSAL | ALWAYS | NUM_ALL_POISONS},
    {.group = "poison",
     R({65, 33}, {1, 70}),
     .q = NUM_PADDED,
     .k = NUM_PADDED,
     .v = NUM_PADDED,
     .out = NUM_PADDED,
     .lse = NUM_PADDED,
     .flags = NUM_ALL_POISONS},
    {.group = "one buffer",
     R({20, 33}, {3, 4}),
     .flags = CAUSAL | ALWAYS | NUM_ONE_BUFFER},
    {.group = "one buffer",
     R({130, 70}),
     .k = NUM_SWAPPED,
     .flags = NUM_ONE_BUFFER},
    {.group = "strides",
     R({3, 18}, {19, 20}),
     .q = NUM_PADDED,
     .k = NUM_SWAPPED,
     .v = NUM_INTERLEAVED,
     .out = NUM_SWAPPED,
     .lse = NUM_SWAPPED,
     .flags = CAUSAL | ALWAYS},
    {.group = "strides",
     R({18, 70}),
     .q = NUM_SWAPPED,
     .k = NUM_PADDED,
     .v = NUM_SWAPPED,
     .out = NUM_PADDED,
     .lse = NUM_PADDED},
    {.group = "strides",
     R({30, 34}),
     .q = NUM_INTERLEAVED,
     .k = NUM_INTERLEAVED,
     .v = NUM_PADDED,
     .out = NUM_INTERLEAVED,
     .flags = CAUSAL},
    {.group = "far",
     R({2, 3}, {1, 1}),
     .q = NUM_FAR_OUTER,
     .k = NUM_FAR_OUTER,
     .v = NUM_FAR_OUTER,
     .out = NUM_FAR_OUTER,
     .lse = NUM_FAR_OUTER,
     .flags = CAUSAL | ALWAYS},
    {.group = "far",
     R({2, 3}),
     .q = NUM_FAR_INNER,
     .k = NUM_FAR_INNER,
     .v = NUM_FAR_INNER,
     .out = NUM_FAR_INNER,
     .lse = NUM_FAR_INNER,
     .flags = ALWAYS},
    {.group = "far", R({3, 70}), .k = NUM_FAR_OUTER, .v = NUM_FAR_OUTER},
    {.group = "shifted",
     R({4, 20}, {17, 17}),
     .flags = CAUSAL | ALWAYS | MHA_SHIFTED},
    {.group = "long max_q", R({4, 20}, {17, 17}), .flags = CAUSAL | MHA_LONG},

    {.group = "growing", R({20, 130}), .values = MHA_GROWING, .flags = ALWAYS},
    {.group = "growing", R({130, 200}), .values = MHA_GROWING, .flags = CAUSAL},
    {.group = "growing",
     R({7, 1000}, {300, 300}),
     .values = MHA_GROWING,
     .flags = CAUSAL,
     .full_only = true},
    {.group = "constant",
     R({20, 70}),
     .values = MHA_CONSTANT,
     .flags = CAUSAL | ALWAYS},
    {.group = "constant", R({4, 129}, {33, 1}), .values = MHA_CONSTANT},
    {.group = "constant",
     R({2, 1000}, {129, 400}),
     .values = MHA_CONSTANT,
     .full_only = true},
    {.group = "huge scores",
     R({18, 66}),
     .values = MHA_HUGE,
     .flags = CAUSAL | ALWAYS},
    {.group = "huge scores", R({70, 200}), .values = MHA_HUGE},
    {.group = "no lse",
     R({5, 40}, {0, 3}),
     .flags = CAUSAL | ALWAYS | MHA_NO_LSE},

    {.group = "alone",
     R({3, 40}, {6, 50}),
     .flags = CAUSAL | ALWAYS | NUM_WINDOWS},
    {.group = "alone", R({20, 33}, {70, 65}, {2, 9}), .flags = NUM_WINDOWS},
    {.group = "alone",
     R({130, 200}, {33, 20}, {40, 64}),
     .flags = CAUSAL | NUM_WINDOWS},
    {.group = "alone",
     R({70, 200}, {33, 100}),
     .values = MHA_GROWING,
     .flags = CAUSAL | NUM_WINDOWS},
    {.group = "clamped",
     R({3, 5}, {0, 4}, {20, 20}, {1, 0}, {4, 40}),
     .flags = CAUSAL | NUM_CLAMPED},
};

enum { SHAPES = sizeof(mha_shapes) / sizeof(mha_shapes[0]) };

/* Which cases ------------------------------------------------------------- */

/* Thread instructions of a launch beyond which a case is left out. */
static const double quick_launch = 20e6, full_launch = 2000e6;

/* Thread instructions of a launch, about: 3.2 warp instructions per MMA of
 * 2,048 multiply-adds, on whole tiles of 128 rows; and some 1,500 per warp of
 * 16 rows. */
static double work_of(const struct num_subject *s,
                      const struct mha_shape *shape)
{
    const mla_kernel_info *k = &s->info;
    double work = 0;

    for (int b = 0; b < shape->batch; b++) {
        double rows = (shape->request[b].q + 15) / 16 * 16;
        double keys = (shape->request[b].k + 63) / 64 * 64;
        work += rows * keys * (k->nope + k->rope + k->v) * 3.2 / 2048 +
                (rows > 0 ? 8 * 1500 : 0);
    }
    return 32 * work * k->heads;
}

/* Within the set that was asked for, and short enough on a virtual GPU. */
static bool runs(const struct num_subject *s, const struct mha_shape *shape,
                 const struct num_options *o)
{
    if (shape->full_only && !o->full)
        return false;
    return shape->flags & MHA_ALWAYS ||
           work_of(s, shape) <= (o->full ? full_launch : quick_launch);
}

/* Groups ------------------------------------------------------------------ */

/* The cases first .. end - 1 of one group, and their row. */
static void run_group(struct num_device *d, struct num_subject *s, int first,
                      int end, const struct num_options *o,
                      struct num_totals *totals)
{
    struct num_verdict v = {0};

    for (int i = first; i < end; i++) {
        struct num_case *c;
        if (!runs(s, &mha_shapes[i], o))
            continue;
        if (!num_recover(d, s, &v))
            break;
        c = mha_case_make(s, &mha_shapes[i], num_case_seed(s, o, i));
        num_check_case(d, c, o->schedules, &v);
        mha_case_free(c);
    }
    if (v.cases || v.failures)
        num_report_group(s->info.symbol, mha_shapes[first].group,
                         mha_family.bar, &v, o, totals);
}

/* No requests, or none that has tokens, with NULL for every address. */
static void check_empty(struct num_device *d, struct num_case *c,
                        struct num_verdict *v)
{
    static const char *const counts[] = {"batch", "max_q"};
    const struct num_run run = {NUM_POISON_NAN, 0, 0, 0, true, true};
    uint64_t nowhere[NUM_MAX_TENSORS] = {0};

    for (int k = 0; k < 2; k++) {
        int64_t *count = NULL, before = 0;

        for (int i = 0; i < c->ints; i++)
            if (strcmp(c->integer[i].name, counts[k]) == 0)
                count = &c->integer[i].value;
        if (count) {
            before = *count;
            *count = 0;
        }
        v->cases++;
        num_launch(d, c, &run, nowhere, NULL, v);
        if (count)
            *count = before;
    }
}

/* One case, one function, as in suite.c. */
static void run_special(struct num_device *d, struct num_subject *s,
                        const char *group,
                        void (*check)(struct num_device *, struct num_case *,
                                      struct num_verdict *),
                        const struct num_options *o, struct num_totals *totals)
{
    struct num_verdict v = {0};

    if (num_recover(d, s, &v)) {
        struct num_case *c =
            mha_case_make(s, &mha_shapes[0], num_case_seed(s, o, -1));
        check(d, c, &v);
        mha_case_free(c);
    }
    num_report_group(s->info.symbol, group, "refused or untouched", &v, o,
                     totals);
}

/* Groups are neighbours of one name in the table. */
bool mha_suite_run(struct num_device *d, struct num_subject *s,
                   const struct num_options *o, struct num_totals *totals)
{
    int end;

    if (strcmp(s->info.family, mha_family.name))
        return false;
    for (int i = 0; i < SHAPES; i = end) {
        num_report_progress(s->info.symbol, mha_shapes[i].group, i, SHAPES, o);
        for (end = i + 1; end < SHAPES; end++)
            if (strcmp(mha_shapes[end].group, mha_shapes[i].group))
                break;
        run_group(d, s, i, end, o, totals);
    }
    run_special(d, s, "no requests", check_empty, o, totals);
    run_special(d, s, "refusals", num_check_refusals, o, totals);
    return true;
}
