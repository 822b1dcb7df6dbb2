/* SPDX-License-Identifier: Apache-2.0
 *
 * decode.h: cases of the decode pipeline.
 *
 * Three kernels make a decode step: decode_plan turns lengths into a work
 * list, mqa_decode works it off, mqa_combine merges what was split.  They
 * share a workspace, so they are tested together, on cases described by
 * struct decode_shape; decode_plan and mqa_combine also have cases of their
 * own (decode_list.c, decode_merge.c), in which the work list and the partial
 * results are looked at rather than passed on.
 *
 * A case is a num_case, so that placing, poisoning and judging are run.c's.
 * Its "tokens" are requests, and a row of q, out and lse is a (token, head)
 * pair of a request: axis 0 of those tensors counts requests, axis 1 places
 * for rows, in an order that depends on the layout.
 */
#ifndef NUM_DECODE_H
#define NUM_DECODE_H

#include "family.h"
#include "suite.h"

enum { DECODE_MAX_BATCH = 16 };

/* The kernels of a step, and the tile of mqa_decode. */
struct decode_kernels {
    struct num_subject plan, decode, combine;
    int rows, keys; /* of a tile */
};

/* What queries and keys are made of. */
enum decode_values {
    DECODE_NORMAL,   /* independent normal numbers */
    DECODE_GROWING,  /* scores that grow, fall or stay with the key, by row */
    DECODE_SPIKES,   /* few keys far above the others, each above the last */
    DECODE_CONSTANT, /* equal scores; each key's value in a column of its own */
    DECODE_HUGE,     /* scores of +-3e4; the sign changes at half the keys */
    DECODE_VERIFY,   /* the newest key has score 50 and V = 1000 in column 0,
                      * all others 0 and V = 0 */
    DECODE_TWO_KEYS, /* raw scores 0 and 10, V 0 and 1 */
    DECODE_VALUES
};

/* Beside the flags of case.h; NUM_HOLES: page ids below 0 in the used range;
 * NUM_FAR_IDS, NUM_ALL_POISONS, NUM_WINDOWS as there. */
enum decode_flag {
    DECODE_NO_LSE = 1 << 24,
    DECODE_TAILS = 1 << 25,       /* table entries past the used: -1, garbage */
    DECODE_REPLAY = 1 << 26,      /* other lengths before, same buffers */
    DECODE_GRAPH = 1 << 27,       /* the same, as one recorded graph */
    DECODE_FEW_ITEMS = 1 << 28,   /* one item less than needed */
    DECODE_FEW_SLOTS = 1 << 29,   /* one slot less than needed */
    DECODE_LAST_KEYS = 1 << 30    /* lengths of 2^31 - 1, of which only the
                                   * last keys are visited */
};

struct decode_shape {
    const char *group;
    const int *lengths;
    int batch, q_len;
    int ctas, min_tiles, split_tiles; /* split_tiles 0: cut in balance */
    enum decode_values values;
    enum num_layout q, out, lse, pool;
    unsigned flags;
    bool full_only;
};

#define DECODE_LENGTHS(...)                                                  \
    .lengths = (const int[]){__VA_ARGS__},                                   \
    .batch = sizeof((const int[]){__VA_ARGS__}) / sizeof(int)

/* Finds decode_plan and mqa_combine for the index-th kernel, an mqa_decode.
 * Returns what is wrong, or NULL; the text lives as long as the context. */
const char *decode_kernels_find(struct num_device *device, int index,
                                const struct num_model *model,
                                struct decode_kernels *out);

/* A number of the plan's free-form "tile" in the manifest, or 0. */
int decode_tile_number(const struct num_subject *s, const char *key);

/* Work lists ------------------------------------------------------------- */

/* What decode_plan is told. */
struct decode_task {
    const int32_t *lengths;
    int64_t batch;
    int q_len, heads, rows, keys; /* of a tile */
    int ctas, min_tiles, split_tiles;
};

/* What follows from it by the contract. */
struct decode_totals {
    int64_t units, row_tiles;
    int64_t tiles; /* an empty unit counts as one */
    int64_t ctas;  /* that get work */
    int64_t items, slots;
    bool refused; /* some request is shorter than q_len, and not empty */
};

/* Key tiles that a unit visits: 0 for an empty or refused request. */
int64_t decode_unit_tiles(const struct decode_task *t, int64_t unit);

/* Runs of keys that a unit is cut into, given the tiles before it. */
int64_t decode_unit_items(const struct decode_task *t,
                          const struct decode_totals *all, int64_t unit,
                          int64_t tiles_before);
struct decode_totals decode_total(const struct decode_task *t);

/* Capacities that suffice, by the rule of the plan: in balance they depend on
 * no length. */
void decode_capacity(const struct decode_task *t, int64_t *items,
                     int64_t *slots);

/* Cases ------------------------------------------------------------------ */

/* Places of the rows of a request in a tensor. */
struct decode_places {
    int64_t token, head, count; /* place = token * t + head * h */
};

/* The row that a place holds; only for places of rows. */
struct decode_place {
    int64_t request, row, token, head; /* row = token * heads + head */
};
struct decode_place decode_place_of(const struct num_case *c,
                                    const struct decode_places *places,
                                    const int64_t *index);

/* Names of a tensor and its batch, token and head stride. */
extern const char *const decode_q_names[4], *const decode_out_names[4],
    *const decode_lse_names[4];

/* [batch][places][width], without a claim. */
struct num_tensor *decode_add_grid(struct num_case *c,
                                   const char *const names[4],
                                   enum num_elem elem, int64_t width,
                                   int q_len, enum num_layout layout,
                                   struct decode_places *places);

/* What a case keeps beside its tensors (num_case.own). */
struct decode_own {
    const struct decode_kernels *kernels;
    const struct decode_shape *shape;
    int64_t rows, row_tiles; /* of a request */
    int32_t length[DECODE_MAX_BATCH];
    int32_t earlier[DECODE_MAX_BATCH]; /* of the run before, in a replay */
    int64_t first[DECODE_MAX_BATCH];   /* first key that is visited */
    int64_t pages[DECODE_MAX_BATCH];   /* that hold keys */
    int64_t *page[DECODE_MAX_BATCH];   /* their ids */
    const float *keys[DECODE_MAX_BATCH]; /* decoded, from `first` on */
    struct decode_places q, out, lse;
    struct decode_lse {
        double value, tolerance;
    } *lse_of; /* [batch][rows], as the oracle finds them */
    int64_t items, slots; /* capacities */
    bool overflows; /* the work list does not fit: NaN everywhere */
};

struct num_case *decode_case_make(const struct decode_kernels *k,
                                  const struct decode_shape *shape,
                                  uint64_t seed);
void decode_case_free(struct num_case *c);

static inline bool decode_is(const struct num_case *c, enum decode_flag flag)
{
    return (c->shape.flags & (unsigned)flag) != 0;
}

/* Fills q, the pool and the decoded keys (decode_values.c). */
void decode_fill(struct num_case *c);

/* The task of a case, for `batch` of its requests from `first` on. */
struct decode_task decode_task_of(const struct num_case *c, int64_t first,
                                  int64_t batch);

/* Launches of a run: the three kernels, replayed or as a graph if the case
 * says so; or mqa_decode by itself (decode_launch.c). */
bool decode_launch_step(struct num_device *d, struct num_case *c,
                        const struct num_run *run, const uint64_t *address,
                        struct num_verdict *v);
bool decode_launch_alone(struct num_device *d, struct num_case *c,
                         const struct num_run *run, const uint64_t *address,
                         struct num_verdict *v);

/* The three kernels as one family, mqa_decode alone on a hand-made list, and
 * the families of decode_plan and mqa_combine. */
extern const struct num_family decode_pipeline, decode_last_keys;
extern const struct num_family decode_list, decode_merge;

/* Cases of the two families above. */
struct decode_list_shape {
    const char *group;
    int64_t batch;
    int longest; /* lengths are 0 .. longest, or as `lengths` says */
    const int *lengths;
    int q_len, rows, keys;
    int ctas, min_tiles, split_tiles;
    int item_capacity, slot_capacity; /* below what is needed; 0: as needed */
    bool full_only;
};
struct num_case *decode_list_make(const struct num_subject *plan,
                                  const struct decode_list_shape *shape,
                                  uint64_t seed);
void decode_list_free(struct num_case *c);

struct decode_merge_shape {
    const char *group;
    const int *splits; /* slots of each unit, in order, over and over */
    int kinds;         /* entries of splits */
    int batch, q_len, rows; /* rows: of a tile */
    int status;             /* of the header; not 0: nothing to be done */
    enum num_layout out, lse;
    unsigned flags; /* NUM_HUGE_LSE, NUM_EMPTY_LSE, DECODE_NO_LSE, ... */
    bool full_only;
};
struct num_case *decode_merge_make(const struct num_subject *combine,
                                   const struct decode_merge_shape *shape,
                                   uint64_t seed);
void decode_merge_free(struct num_case *c);

/* The cases of each (decode_shapes.c), groups together. */
extern const struct decode_shape decode_shapes[];
extern const struct decode_list_shape decode_list_shapes[];
extern const struct decode_merge_shape decode_merge_shapes[];
extern const int decode_shape_count, decode_list_shape_count,
    decode_merge_shape_count;

/* Runs what concerns the subject's kernel, one of the three, and prints its
 * rows.  False: it is none of them. */
bool decode_suite_run(struct num_device *device, struct num_subject *s,
                      const struct num_options *options,
                      struct num_totals *totals);

#endif
