/* SPDX-License-Identifier: Apache-2.0
 *
 * forward.h: libmla's layer through several steps of a story, by every policy.
 *
 * A story is a handful of sequences that are prefilled, extended, decoded,
 * forked and cut back in mixed batches.  Whatever way the layer takes, its
 * output has to be that of a layer without any cache, in double, which is
 * given the whole text of a sequence each time.
 *
 *     forward_model.c   weights, texts, and the layer without a cache
 *     forward_run.c     the story on the device, through mla_layer
 *     forward_suite.c   which ways, and what their answers have to share
 */
#ifndef NUM_FORWARD_H
#define NUM_FORWARD_H

#include "equivalence.h"

enum {
    STORY_STEPS = 7,
    STORY_ROWS = 4,
    STORY_SEQUENCES = 4,
    STORY_KEYS = 128, /* of a sequence, at most */
    STORY_HIDDEN = 128
};

/* A step: perhaps a sequence is forked or cut back, then these rows come. */
struct story_step {
    struct {
        int parent, child, less; /* the child lacks so many tokens */
    } fork;
    struct {
        int sequence, by;
    } cut;
    int rows;
    struct {
        int sequence, fresh;
    } row[STORY_ROWS];
    int padded; /* 0: no padding */
    bool graph; /* may be captured, or replayed */
};

extern const struct story_step story[STORY_STEPS];

/* New tokens of a step. */
int story_tokens(const struct story_step *s);

/* Weights, as the device gets them: [rows][columns]. */
enum story_weight {
    STORY_Q_A,
    STORY_KV_A,
    STORY_Q_A_NORM,
    STORY_KV_A_NORM,
    STORY_Q_B,
    STORY_KV_B,
    STORY_O,
    STORY_WEIGHTS
};

struct story_matrix {
    const char *name;
    int64_t rows, columns;
    double *value; /* of the working dtype */
};

struct story_model {
    const struct num_model *model;
    enum num_elem dtype;
    int heads, page_size, nope, rope, v, latent, q_rank;
    int64_t first_position; /* of every sequence */
    struct story_matrix w[STORY_WEIGHTS];
    double *hidden[STORY_STEPS]; /* [tokens][STORY_HIDDEN] */
    double *want[STORY_STEPS];
};

/* Dims come from *like, an all-zero model but for those. */
struct story_model *story_make(const struct story_model *like, uint64_t seed);
void story_free(struct story_model *m);

/* A way through the story. */
struct story_way {
    const char *name;
    int method;          /* of mla_layer_batch */
    const char *backend; /* or a policy with small thresholds */
    int64_t chunk_capacity;
    bool separate; /* q_a and kv_a, gaps between rows of weights */
    bool emitted;  /* products by our own kernel, whatever there is */
    bool graph;    /* decode steps are captured, and replayed */
    int split_keys;
};

/* What the story's ways have done. */
struct story_seen {
    int shot, chunks, absorbed, split; /* steps */
};

/* Runs the story; out[step] is [tokens][STORY_HIDDEN] of the working dtype.
 * turn 0 is clean, others have poison around and in the workspace.
 * False: the verdict says what is wrong. */
bool story_run(struct layer_run *r, const struct story_model *m,
               const struct story_way *way, int turn,
               unsigned char *const *out, struct story_seen *seen);

/* The suite: rows of its own.  Returns how many ways ran. */
int forward_suite_run(struct num_device *device, const struct num_model *model,
                      int heads, bool strict,
                      const struct num_options *options,
                      struct num_totals *totals);

#endif
