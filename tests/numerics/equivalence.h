/* SPDX-License-Identifier: Apache-2.0
 *
 * equivalence.h: the attention of a whole layer, by every way there is.
 *
 * The Normal path expands cached latents into keys and values and runs
 * multi-head attention on them, at once or in chunks of the prefix; the Absorb
 * path moves the queries into the latent space instead.  By the associativity
 * of the products all are the same function (DeepSeek-V2, arXiv 2405.04434,
 * section 2.1), so with the same weights and inputs they have to agree with
 * each other, and with a reference in double that has no cache.
 *
 *     equivalence_layer.c   weights, inputs and the reference
 *     equivalence_device.c  buffers with poison around them, and launches
 *     equivalence_normal.c  one shot, and in chunks
 *     equivalence_absorb.c  absorbed, with the decode kernels
 *     equivalence_suite.c   which kernels, which batches, which rows
 */
#ifndef NUM_EQUIVALENCE_H
#define NUM_EQUIVALENCE_H

#include "suite.h"

enum { LAYER_MAX_REQUESTS = 4, LAYER_MAX_TILES = 8 };

/* Kernels ----------------------------------------------------------------- */

/* X(name, family, variant): the kernels of a layer with one for all sizes. */
#define LAYER_KERNEL_LIST(X)                                                   \
    X(LAYER_KV_APPEND, "kv_append", "")                                        \
    X(LAYER_KV_GATHER, "kv_gather", "")                                        \
    X(LAYER_KV_B, "kv_b", "")                                                  \
    X(LAYER_MHA, "mha", "")                                                    \
    X(LAYER_MERGE, "merge_state", "")                                          \
    X(LAYER_ABSORB_Q, "absorb_q", "")                                          \
    X(LAYER_ABSORB_V, "absorb_v", "")                                          \
    X(LAYER_PLAN, "decode_plan", "")                                           \
    X(LAYER_COMBINE, "mqa_combine", "")

enum layer_kernel {
#define LAYER_KERNEL_NAME(name, family, variant) name,
    LAYER_KERNEL_LIST(LAYER_KERNEL_NAME)
#undef LAYER_KERNEL_NAME
        LAYER_DECODE, /* the tiles of mqa_decode, below */
    LAYER_KERNELS
};

struct layer_kernels {
    mla_kernel *one[LAYER_DECODE]; /* NULL: missing */
    int tiles;
    struct layer_tile {
        mla_kernel *kernel;
        int rows, keys;
    } tile[LAYER_MAX_TILES];
};

/* The layer --------------------------------------------------------------- */

struct layer_request {
    int prefix, fresh; /* tokens in the cache, and new ones */
};

struct layer_shape {
    const char *group;
    int requests;
    struct layer_request request[LAYER_MAX_REQUESTS];
    int chunks; /* that the longest prefix is cut into, at least */
    bool full_only;
};

/* What the device is given.  H heads, T new tokens, S tokens in all; tokens
 * are in the order of requests, a request's prefix before its new ones. */
enum layer_input {
    LAYER_LATENTS,     /* [S][R] before the norm */
    LAYER_K_ROPE,      /* [S][DR] before the rotation */
    LAYER_NORM_WEIGHT, /* [R] */
    LAYER_WEIGHTS,     /* kv_b_proj, [H][DN + DV][R] */
    LAYER_RAW_Q,       /* [T][H][DN + DR], as q_b_proj leaves it */
    LAYER_Q,           /* the same, rotated and scaled */
    LAYER_COS_SIN,     /* [positions][DR] */
    LAYER_POSITIONS,   /* [S] */
    LAYER_Q_POSITIONS, /* [T] */
    LAYER_OLD_SLOTS,   /* [S], -1 for new tokens */
    LAYER_NEW_SLOTS,   /* [S], -1 for those of prefixes */
    LAYER_TABLE,       /* [requests][table_width], page ids */
    LAYER_PREFIX,      /* [requests] */
    LAYER_CU_Q,        /* [requests + 1], new tokens before */
    LAYER_CU_ALL,      /* [requests + 1], tokens before */
    LAYER_INPUTS
};

struct layer_image {
    const char *name;
    enum num_elem elem;
    int64_t count; /* elements */
    unsigned char *data;
};

struct layer {
    const struct num_model *model;
    const struct layer_shape *shape;
    enum num_elem dtype;
    int heads, page_size, nope, rope, v, latent; /* H, P, DN, DR, DV, R */
    int max_q_len;                               /* of a decode step */
    double softmax_scale;                        /* as a kernel gets it */
    int32_t prefix[LAYER_MAX_REQUESTS];
    int64_t tokens, keys, longest_prefix, most_fresh; /* T, S, ... */
    int64_t pages, table_width;
    struct layer_image input[LAYER_INPUTS];
    double *stored; /* [S][R + DR]: rows of the cache, rounded once */
    double *want;   /* [T][H][DV]: the reference */
};

/* Dims, dtype and page size come from *like, an all-zero layer but for those,
 * model and max_q_len.  Returns a layer for layer_free. */
struct layer *layer_make(const struct layer *like,
                         const struct layer_shape *shape, uint64_t seed);
void layer_free(struct layer *l);

static inline int64_t layer_out_elements(const struct layer *l)
{
    return l->tokens * l->heads * l->v;
}

/* Running ----------------------------------------------------------------- */

struct layer_buffer {
    const char *name;
    enum num_elem elem;
    uint64_t base, address;
    int64_t bytes;
    const unsigned char *unchanged; /* what it has to hold to the end */
};

enum { LAYER_MAX_BUFFERS = 64, LAYER_GUARD = 256 };

/* One run: a poison, a schedule, the inputs on the device, the pool filled. */
struct layer_run {
    struct num_device *device;
    const struct layer *layer;
    const struct layer_kernels *kernels;
    enum num_poison poison;
    uint64_t schedule;
    bool guarded; /* canaries, else buffers of exactly their size */
    uint64_t input[LAYER_INPUTS], pool;
    int64_t row_stride, page_stride;
    int buffers;
    struct layer_buffer buffer[LAYER_MAX_BUFFERS];
    struct num_verdict *verdict; /* of the way that is being run */
};

/* The first failure stays in the verdict; always false. */
bool layer_fail(struct layer_run *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A buffer of `count` elements, filled with `data` or, if that is NULL, with
 * poison.  Of 0 elements it has an address, too.  False: the run has failed. */
bool layer_new(struct layer_run *r, const char *name, enum num_elem elem,
               int64_t count, const void *data, uint64_t *address);

/* Frees the buffers from the mark-th on.  False: a canary or an input among
 * them has changed. */
bool layer_release(struct layer_run *r, int mark);

/* A kernel's arguments by name; those that it lacks are left out. */
struct layer_arg {
    const char *field;
    uint64_t address;
    int64_t integer;
    double real;
};
#define LAYER_PTR(name, value)                                                 \
    {                                                                          \
        .field = (name), .address = (value)                                    \
    }
#define LAYER_INT(name, value)                                                 \
    {                                                                          \
        .field = (name), .integer = (value)                                    \
    }
#define LAYER_REAL(name, value)                                                \
    {                                                                          \
        .field = (name), .real = (value)                                       \
    }
#define LAYER_END                                                              \
    {                                                                          \
        .field = NULL                                                          \
    }

/* Launches and waits; `arg` ends with LAYER_END. */
bool layer_call(struct layer_run *r, mla_kernel *kernel,
                const struct layer_arg *arg);
bool layer_read(struct layer_run *r, void *to, uint64_t from, size_t bytes);

/* Uploads the inputs and writes every token to the pool, prefixes first. */
bool layer_begin(struct layer_run *r);

/* Bytes of `count` elements of the working dtype. */
static inline int64_t layer_bytes(const struct layer *l, int64_t count)
{
    return count * (int64_t)num_elem_bytes(l->dtype);
}

/* The ways: each writes the layer's output, [T][H][DV] of the working dtype,
 * to `out` on the device. */
bool layer_one_shot(struct layer_run *r, uint64_t out);
bool layer_chunked(struct layer_run *r, uint64_t out);
bool layer_chunked_by_page(struct layer_run *r, uint64_t out);
bool layer_absorbed(struct layer_run *r, uint64_t out);

/* The suite: rows of its own, after those of the kernels.  heads 0: the
 * smallest head count, with options->full every one up to 32.  A way whose
 * kernels the directory has none of is reported as not run; `strict` makes
 * that a failure.  Returns how many ways ran. */
int layer_suite_run(struct num_device *device, const struct num_model *model,
                    int heads, bool strict, const struct num_options *options,
                    struct num_totals *totals);

#endif
