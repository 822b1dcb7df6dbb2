/* SPDX-License-Identifier: Apache-2.0
 *
 * wgmma.h: what the three parts of wgmma know of each other.
 */
#ifndef VGPU_WGMMA_H
#define VGPU_WGMMA_H

#include "async.h"
#include "mma.h"

/* Types that go together (PTX ISA 9.7.15.5); k is one step's depth. */
struct vg_wgmma_type {
    const char *name;
    enum vg_elem d, a, b;
    uint8_t k;
};
#define VG_WGMMA_TYPES 16
extern const struct vg_wgmma_type vg_wgmma_type[VG_WGMMA_TYPES];

/* One wgmma.mma_async.  Rows: nd of D, then na of A or one descriptor, B's
 * descriptor, scale-d. */
struct vg_wgmma {
    uint8_t type;
    uint8_t nd, na;          /* registers; na 0: A is in shared memory */
    bool a_mn, b_mn;         /* MN-major */
    bool negative;           /* scale-a times scale-b is -1 */
    bool satfinite;
    uint16_t n;
    const struct vg_mma_kind *kind;   /* integers: m16n8k32 */
};

/* ---- descriptors (wgmma_desc.c) ----------------------------------------- */

/* A matrix in shared memory (PTX ISA 9.7.15.5.1.2). */
struct vg_desc {
    uint32_t start, leading, stride;  /* bytes */
    uint32_t width;                   /* of a swizzled row: 16 to 128 */
    uint32_t bits;                    /* mask of the XOR */
};

/* false: err says which field is wrong. */
bool vg_desc_read(uint64_t v, struct vg_desc *d, char *err, size_t n);

/* Offset of 16 bytes of one K step.  K-major: row mn, half 0 or 1 of its 32
 * bytes.  MN-major (16-bit types): elements 8 part .. 8 part + 7 at depth k. */
uint32_t vg_desc_k_major(const struct vg_desc *d, unsigned mn, unsigned half);
uint32_t vg_desc_mn_major(const struct vg_desc *d, unsigned k, unsigned part);

/* ---- registers (wgmma_regs.c) ------------------------------------------- */

/* Checks D and A of a wgmma that is being issued and marks them in flight. */
void vg_wgmma_registers(struct vg_warp *w, const struct vg_insn *i);

vg_fn vg_wgmma;

#endif
