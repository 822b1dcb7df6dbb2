/* SPDX-License-Identifier: Apache-2.0
 *
 * layer.h: what the files of the layer share.
 *
 * layer.c makes a layer out of a set of kernels and the spec in its manifest
 * (layer_spec.c).  A step begins with layer_batch.c: which rows go which way,
 * in runs of neighbours (layer_runs.c), and what the device has to be told
 * (layer_stage.c sends it).  layer_size.c says where everything lies in the
 * workspace.  layer_forward.c is one layer of the step: products, the pool,
 * and each run by layer_absorb.c or layer_normal.c.
 */
#ifndef MLA_LAYER_H
#define MLA_LAYER_H

#include "gemm.h"
#include "internal.h"

/* X(name, family, once): kernels with one for all sizes; `once` is of any
 * head count.  Those of which a model has no use are left out. */
#define MLA__LAYER_KERNEL_LIST(X)                                            \
    X(APPEND, kv_append, 0)                                                  \
    X(GATHER, kv_gather, 0)                                                  \
    X(EXPAND, kv_b, 0)                                                       \
    X(MHA, mha, 0)                                                           \
    X(MERGE, merge_state, 0)                                                 \
    X(ABSORB_Q, absorb_q, 0)                                                 \
    X(ABSORB_V, absorb_v, 0)                                                 \
    X(NORM, rms_norm, 1)                                                     \
    X(ROPE, rope_q, 1)

enum mla__layer_kernel {
#define MLA__LAYER_KERNEL(name, family, once) MLA__L_##name,
    MLA__LAYER_KERNEL_LIST(MLA__LAYER_KERNEL)
#undef MLA__LAYER_KERNEL
        MLA__LAYER_KERNELS
};

enum { MLA__ELEM = 2 /* bytes of bf16 and fp16 */ };

/* What the manifest says of the model.  Angles: the part of spec.derived
 * that templates/lib/rope.lua makes. */
struct mla__layer_spec {
    int nope, rope, v, latent;
    int hidden, q_rank; /* 0: not stated; no compression */
    bool rotates;
    double softmax_scale, norm_eps, q_factor;
};

/* Rows of the batch that lie side by side and go the same way. */
struct mla__run {
    bool absorbed, one_shot; /* neither: the prefix in chunks */
    int first_row, rows;
    int64_t first_token, tokens;
    int64_t q_len;   /* absorbed: of every row; else of the longest */
    int64_t longest; /* keys of the longest row */
    int64_t keys;    /* of all rows */
    int chunks;
    /* places in the step's table of int32 */
    int64_t cu_new, cu_all;          /* [rows + 1] */
    int64_t starts, cu_chunk;        /* [chunks][rows], [chunks][rows + 1] */
    int64_t totals;                  /* [chunks] keys of each */
};

/* What the size of a workspace depends on. */
struct mla__layer_sizes {
    int64_t tokens;
    int64_t absorbed; /* tokens if some run is, else 0 */
    int64_t expanded; /* keys expanded at once, 0: none */
    int64_t ints;     /* of the table */
    int64_t decode;   /* bytes */
};

/* Offsets into the workspace, in this order. */
#define MLA__LAYER_PARTS(X)                                                  \
    X(positions)                                                             \
    X(slots)                                                                 \
    X(ints)                                                                  \
    X(decode)                                                                \
    X(gemm)                                                                  \
    X(down)   /* [tokens][q_rank + R + DR], the down-projections */          \
    X(q)      /* [tokens][H][DN + DR] */                                     \
    X(heads)  /* [tokens][H][DV], what the attention gives */                \
    X(wide_q) /* [tokens][H][R + DR], absorbed */                            \
    X(wide_o) /* [tokens][H][R] */

struct mla__layer_layout {
#define MLA__LAYER_OFFSET(name) int64_t name;
    MLA__LAYER_PARTS(MLA__LAYER_OFFSET)
#undef MLA__LAYER_OFFSET
    /* over wide_q and wide_o: the Normal path's own */
    int64_t latent, k_rope; /* [expanded][R], [expanded][DR] */
    int64_t kv;             /* [expanded][H][DN + DV] */
    int64_t part;           /* [tokens][H][DV] of a chunk */
    int64_t lse, part_lse;  /* f32 [tokens][H] */
    int64_t bytes;
};

/* Pinned memory that a copy on its way still reads. */
struct mla__layer_stage {
    char *image;
    size_t bytes;
    void *event;
    bool in_flight;
};

struct mla_layer {
    mla_context *ctx;
    mla_kernels *set;
    mla_layer_options options;
    struct mla__layer_spec spec;
    int heads, page_size;
    struct mla__call call[MLA__LAYER_KERNELS];
    struct mla__gemm gemm;
    mla_decode *decode;
    const mla_policy *policy;
    mla_policy *own_policy;
    mla_chunks *chunks;
    struct mla__layer_stage *stage;
    int next_stage;

    /* The step */
    bool begun;
    mla_pool *pool;
    mla_pool_info pool_info;
    mla_pool_tables tables;
    mla_decision decision;
    int rows; /* padded */
    int64_t tokens;
    uint64_t workspace;
    struct mla__layer_layout at;
    struct mla__layer_sizes sizes;
    int64_t max_seq_len; /* of a decode step, 0: any */
    bool plan_once;      /* the work list is made when the step begins */
    struct mla__run *run;
    int runs, run_room;
    int32_t *ints; /* tables of all runs */
    int64_t int_count, int_room;
    int64_t *prefix, *length; /* [rows] */
    int32_t *fresh, *prefix32; /* [rows] */
    mla_method *method;       /* [rows] */
    int row_room;
};

/* layer_spec.c: errors BAD_MANIFEST (names the key). */
mla_status mla__layer_spec(mla_kernels *set, struct mla__layer_spec *out);

/* layer_size.c */
void mla__layer_lay_out(const mla_layer *l, const struct mla__layer_sizes *s,
                        struct mla__layer_layout *out);

/* Bytes of a decode workspace for a run.  Errors: of mla_decode_workspace. */
mla_status mla__layer_decode_bytes(const mla_layer *l, int rows, int64_t q_len,
                                   int64_t max_seq_len, int64_t *bytes);

/* Keys per row and chunk, in whole pages where a page fits. */
int64_t mla__layer_capacity(const mla_layer *l);
int mla__layer_chunk_page(const mla_layer *l, int rows);

/* layer_runs.c: runs out of the rows and their methods, their tables and what
 * they need (l->sizes).  Errors: RANGE, OUT_OF_MEMORY, and those of
 * mla_chunks_plan and mla_decode_workspace. */
mla_status mla__layer_make_runs(mla_layer *l, int64_t max_seq_len);

/* Room for `wanted` items of a growing array, of which `used` stay. */
mla_status mla__layer_reserve(mla_layer *l, void **block, size_t item,
                              int64_t used, int64_t wanted, int64_t *room);

/* layer_stage.c: the tables of the step onto the device by one copy; fill
 * writes the image.  Errors: OUT_OF_MEMORY, CUDA. */
mla_status mla__layer_stages_make(mla_layer *l);
void mla__layer_stages_free(mla_layer *l);
mla_status mla__layer_stage_take(mla_layer *l, size_t bytes, char **image);
mla_status mla__layer_stage_send(mla_layer *l, uint64_t to, size_t bytes,
                                 void *stream);

/* layer_absorb.c, layer_normal.c: runs of one layer; `heads` is written. */
struct mla__layer_pass {
    const mla_layer_weights *w;
    uint64_t cache; /* of the layer */
    void *stream;
};
mla_status mla__layer_plan(mla_layer *l, const struct mla__run *r,
                           void *stream);
mla_status mla__layer_absorb(mla_layer *l, const struct mla__layer_pass *p,
                             const struct mla__run *first, int count);
mla_status mla__layer_normal(mla_layer *l, const struct mla__layer_pass *p,
                             const struct mla__run *r);

/* The address of a part of the workspace, and of a token's row in it. */
#define MLA__PART(l, name) ((l)->workspace + (uint64_t)(l)->at.name)

#endif
