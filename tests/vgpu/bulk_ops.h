/* SPDX-License-Identifier: Apache-2.0
 *
 * bulk_ops.h: what the bulk copies share (bulk_ops.c, tma.c, st_async.c).
 */
#ifndef VGPU_BULK_OPS_H
#define VGPU_BULK_OPS_H

#include "async.h"
#include "lower.h"
#include "mem_ops.h"

/* An address operand: its row and displacement. */
struct vg_bulk_addr {
    uint8_t row;
    bool is_narrow, is_generic;
    int64_t imm;
};

/* One bulk copy. */
struct vg_bulk_op {
    bool is_store;             /* to global memory, in a bulk group */
    bool from_shared;          /* from the own CTA to one of the cluster */
    bool is_multicast;
    bool is_reduction;         /* to global memory */
    struct vg_update update;
    uint8_t rank;              /* of a tensor copy */
    uint8_t coordinate;        /* row of the first coordinate */
    uint8_t size, cta_mask;    /* rows */
    struct vg_bulk_addr shared, source, global, map, mbar;
};

/* Where a load goes: the CTAs, each with its mbarrier; off in all of them. */
struct vg_bulk_target {
    unsigned n;
    uint32_t off;
    struct vg_cta *cta[16];
    struct vg_mbar *mbar[16];
};

void vg_bulk_addresses(const struct vg_warp *w, const struct vg_insn *i,
                       struct vg_bulk_addr a, uint64_t out[VG_LANES]);
void vg_bulk_targets(struct vg_warp *w, const struct vg_insn *i, int lane,
                     const struct vg_bulk_op *op, struct vg_bulk_target *t);
/* Offset of the shared source in the own CTA. */
uint32_t vg_bulk_shared(struct vg_warp *w, const struct vg_insn *i, int lane,
                        const struct vg_bulk_op *op);

/* Checks global bytes that a copy reads or writes, and counts them. */
void vg_bulk_global(const struct vg_async_access *a, uint64_t addr,
                    uint64_t bytes, bool write);

/* Puts a copy under way for the access.  The caller fills data and move,
 * records the access (vg_async_write, vg_async_read) and ends with issued. */
struct vg_bulk *vg_bulk_load(const struct vg_async_access *a,
                             const struct vg_mbar *m, uint32_t bytes);
struct vg_bulk *vg_bulk_store(const struct vg_async_access *a);
void vg_bulk_issued(const struct vg_async_access *a);
/* Memory for what a store has read; faults when there is none. */
void vg_bulk_hold(struct vg_bulk *b, size_t bytes);

void vg_bulk_count_load(struct vg_warp *w, const struct vg_insn *i,
                        const struct vg_bulk_target *t, uint32_t bytes);
void vg_bulk_count_store(struct vg_warp *w, const struct vg_insn *i,
                         uint32_t bytes);

/* Handlers and decoders. */
vg_fn vg_tma, vg_bulk_copy;
bool vg_decode_bulk(struct vg_dec *d);
bool vg_decode_bulk_tensor(struct vg_dec *d);
bool vg_decode_bulk_prefetch(struct vg_dec *d);
bool vg_decode_bulk_reduce(struct vg_dec *d);
bool vg_decode_bulk_commit(struct vg_dec *d);
bool vg_decode_bulk_wait(struct vg_dec *d);
bool vg_decode_st_async(struct vg_dec *d);
bool vg_decode_mbarrier(struct vg_dec *d);
bool vg_decode_cp_async_mbarrier(struct vg_dec *d);
bool vg_decode_mapa(struct vg_dec *d);
bool vg_decode_setmaxnreg(struct vg_dec *d);
bool vg_decode_wgmma(struct vg_dec *d);
bool vg_decode_wgmma_sync(struct vg_dec *d);
bool vg_decode_griddep(struct vg_dec *d);

#endif
