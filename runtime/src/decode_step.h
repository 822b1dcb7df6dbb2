/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_step.h: what the files of the decode step share.
 *
 * decode.c finds the kernels, decode_size.c knows how large a work list can
 * become, decode_launch.c fills argument blocks and launches.  What a work
 * list is, is said in the manifest (templates/lib/work_list.lua): the sizes
 * of its parts, what a cut adds to them, where its header has which total.
 */
#ifndef MLA_DECODE_STEP_H
#define MLA_DECODE_STEP_H

#include "internal.h"

enum {
    MLA__DECODE_TILES = 8,      /* mqa_decode kernels of one head count */
    MLA__DECODE_FIELDS = 64,    /* of an argument struct */
    MLA__DECODE_BLOCK = 4096,   /* bytes of an argument struct */
    MLA__WORKSPACE_ALIGN = 256
};

/* Values that arguments of the three kernels are filled with, by name.  A
 * batch stride is followed by its token and head stride (set_rows). */
#define MLA__DECODE_VALUES(X)                                                \
    X(seq_lens)                                                              \
    X(header)                                                                \
    X(item_begin)                                                            \
    X(items)                                                                 \
    X(unit_slots)                                                            \
    X(item_capacity)                                                         \
    X(slot_capacity)                                                         \
    X(batch)                                                                 \
    X(q_len)                                                                 \
    X(rows_per_tile)                                                         \
    X(keys_per_tile)                                                         \
    X(ctas)                                                                  \
    X(min_tiles)                                                             \
    X(split_tiles)                                                           \
    X(q)                                                                     \
    X(q_batch_stride)                                                        \
    X(q_token_stride)                                                        \
    X(q_head_stride)                                                         \
    X(kv_cache)                                                              \
    X(page_stride)                                                           \
    X(row_stride)                                                            \
    X(block_table)                                                           \
    X(block_table_stride)                                                    \
    X(partial_o)                                                             \
    X(partial_lse)                                                           \
    X(out)                                                                   \
    X(out_batch_stride)                                                      \
    X(out_token_stride)                                                      \
    X(out_head_stride)                                                       \
    X(lse)                                                                   \
    X(lse_batch_stride)                                                      \
    X(lse_token_stride)                                                      \
    X(lse_head_stride)                                                       \
    X(softmax_scale)

enum mla__decode_value {
#define MLA__DECODE_ENUM(name) MLA__D_##name,
    MLA__DECODE_VALUES(MLA__DECODE_ENUM)
#undef MLA__DECODE_ENUM
    MLA__DECODE_VALUE_COUNT
};

/* One kernel of the step, and which value each of its fields takes. */
struct mla__decode_kernel {
    mla_kernel *k;
    unsigned char value[MLA__DECODE_FIELDS];
};

/* Nothing in it changes once it is made. */
struct mla_decode {
    mla_context *ctx;
    mla_decode_options options;
    int heads, latent, rope, page_size;
    struct mla__decode_kernel plan, combine;
    struct mla__decode_kernel tile[MLA__DECODE_TILES]; /* by rows, rising */
    int tiles;
};

/* decode.c: the kernel for that many rows of a request; and the blocks or
 * clusters that share the keys when it runs. */
const struct mla__decode_kernel *mla__decode_pick(const mla_decode *d,
                                                  int64_t rows);
int mla__decode_workers(const mla_decode *d, const mla_kernel *k);

/* decode_size.c: the step with its defaults, checked, pointers aside; and what
 * such a step needs.  Errors: RANGE (names the field). */
mla_status mla__decode_step(const mla_decode *d, const mla_decode_step *given,
                            mla_decode_step *out);
mla_status mla__decode_layout(const mla_decode *d,
                              const mla_decode_step *step,
                              mla_decode_layout *out);

#endif
