/* SPDX-License-Identifier: Apache-2.0
 *
 * family.h: the families of kernels, one file each.
 */
#ifndef NUM_FAMILY_H
#define NUM_FAMILY_H

#include "case.h"

extern const struct num_family num_kv_append;
extern const struct num_family num_kv_gather;
extern const struct num_family num_concat_mla_k;
extern const struct num_family num_derive_weights;
extern const struct num_family num_absorb_q;
extern const struct num_family num_absorb_v;
extern const struct num_family num_merge_state;
extern const struct num_family num_merge_state_n;
extern const struct num_family num_kv_b;
extern const struct num_family num_gemm;
extern const struct num_family num_rms_norm;
extern const struct num_family num_rope_q;

#define NUM_SHAPES(table)                                                    \
    .shapes = table, .shape_count = sizeof(table) / sizeof(table[0])

/* kv_cache: [pages][page_size][latent + rope] with page_stride, row_stride. */
struct num_tensor *num_add_pool(struct num_case *c, int64_t pages,
                                enum num_layout layout);

/* `count` different page ids below *pages, in random order.  With
 * NUM_FAR_IDS they straddle the byte offsets 2^31 and 2^32 of a packed pool
 * and *pages grows accordingly. */
void num_pick_pages(struct num_case *c, int64_t count, int64_t *pages,
                    int64_t *out);

#endif
