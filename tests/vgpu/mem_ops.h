/* SPDX-License-Identifier: Apache-2.0
 *
 * mem_ops.h: what the decoders of memory instructions share.
 */
#ifndef VGPU_MEM_OPS_H
#define VGPU_MEM_OPS_H

#include "touch.h"

/* Modifiers of a memory instruction that are not its type. */
struct vg_mem_words {
    enum ptx_space space;
    bool strong;             /* volatile, relaxed, acquire, release, mmio */
    bool acquire, release;
    bool bypass_l1;          /* cg, cv and strong accesses: served by L2 */
    bool policy;             /* L2::cache_hint: one more operand */
};

/* Consumes state space, ordering, scope, cache operators and hints. */
void vg_mem_words(struct vg_dec *d, struct vg_mem_words *m);

/* Appends operand k, the cache policy that .L2::cache_hint promises. */
bool vg_mem_policy(struct vg_dec *d, const struct vg_mem_words *m, int k);

/* Moves one value of `bytes` (1, 2, 4, 8) per lane; memory at + t->off[l]. */
void vg_gather(const struct vg_touch *t, unsigned at, unsigned bytes,
               uint64_t out[VG_LANES]);

/* Stores 64-bit values into a register row of `bits`, lanes of mask. */
void vg_put_row(void *row, unsigned bits, const uint64_t v[VG_LANES],
                uint32_t mask);
/* Reads a register row of `bits`, zero-extended. */
void vg_get_row(const void *row, unsigned bits, uint64_t v[VG_LANES]);

/* Release and acquire of a flag in the CTA's own shared memory. */
void vg_flag_order(struct vg_touch *t, const struct vg_mem_words *m,
                   bool write);

/* One update of a value in global memory as red does it (atom.c), for the
 * bulk reductions: operation and type by the words of the instruction. */
struct vg_update {
    uint8_t op, bytes;
    enum vg_type type;
};
bool vg_decode_update(struct vg_dec *d, struct vg_update *u);
void vg_update(const struct vg_update *u, void *at, uint64_t value);

/* Decoders, by file; the tables are in mem_table.c. */
bool vg_decode_ld(struct vg_dec *d);
bool vg_decode_st(struct vg_dec *d);
bool vg_decode_atom(struct vg_dec *d);
bool vg_decode_red(struct vg_dec *d);
bool vg_decode_prefetch(struct vg_dec *d);
bool vg_decode_applypriority(struct vg_dec *d);
bool vg_decode_discard(struct vg_dec *d);
bool vg_decode_createpolicy(struct vg_dec *d);
bool vg_decode_ldmatrix(struct vg_dec *d);
bool vg_decode_stmatrix(struct vg_dec *d);
bool vg_decode_movmatrix(struct vg_dec *d);
bool vg_decode_cp_async(struct vg_dec *d);
bool vg_decode_cp_async_commit(struct vg_dec *d);
bool vg_decode_cp_async_wait_group(struct vg_dec *d);
bool vg_decode_cp_async_wait_all(struct vg_dec *d);
bool vg_decode_mma(struct vg_dec *d);

#endif
