/* SPDX-License-Identifier: Apache-2.0
 *
 * mma.h: the arithmetic of mma.sync (PTX ISA 9.7.14.5), without warps.
 *
 * Three layers, each usable alone:
 *   fragments  registers of 32 lanes <-> matrices          (mma_frag.c)
 *   products   D = A B + C on matrices, in the hardware's arithmetic
 *                                       (mma_float.c, mma_int.c)
 *   kinds      the table of shapes and types               (mma_kind.c)
 * mma_ops.c decodes the instruction and calls vg_mma_run; a warp of a wgmma
 * is m16nNkK, so it can use the products directly, eight columns at a time.
 *
 * FLOATING POINT.  Tensor cores do not add in fp32 steps.  The published bit
 * model (Li et al., "MMA-Sim: bit-accurate reference model of tensor cores
 * and matrix cores", microsoft/MMA-Sim) says, per output element:
 *   1. products are exact; a product's exponent is the sum of its factors'
 *      exponents (its significand lies in [0, 4)); a zero counts as exponent
 *      -126, a subnormal as the smallest exponent of its type;
 *   2. all products of a step and C are shifted to the largest exponent and
 *      cut (toward zero) after F fraction bits;
 *   3. their sum is exact, and is rounded once: toward zero to fp32 (or to 13
 *      fraction bits, "e8m13"), to nearest even to f16;
 *   4. NaN results are 0x7fffffff (f16: 0x7fff).
 * By architecture:
 *   sm_80, 86, 87  F = 24; an instruction runs as two steps of half its K
 *                  (f16/bf16 k16, tf32 k8); k8 and k4 shapes in one
 *   sm_89          the same; fp8: F = 13, e8m13, two steps
 *   sm_90          F = 25, one step; fp8 mma the same (wgmma: F = 13, e8m13)
 *   sm_100, 120    F = 25, one step, fp8 too
 * sm_75 and earlier are not modelled.  f64 is a chain of fused multiply-adds
 * in ascending k.  Integers are exact and wrap, or saturate with .satfinite.
 *
 * The model is always on: the vector path computes it exactly, and operands
 * that it cannot handle (NaN, infinities, extreme exponents) take a scalar
 * path with the same definition.
 */
#ifndef VGPU_MMA_H
#define VGPU_MMA_H

#include <stdbool.h>
#include <stdint.h>

enum vg_elem {
    VG_ELEM_F16, VG_ELEM_BF16, VG_ELEM_TF32, VG_ELEM_E4M3, VG_ELEM_E5M2,
    VG_ELEM_F32, VG_ELEM_F64,
    VG_ELEM_S8, VG_ELEM_U8, VG_ELEM_S4, VG_ELEM_U4, VG_ELEM_B1, VG_ELEM_S32
};

/* One row of the table: shape and types.  Registers are 32 bits wide (f64:
 * 64); nreg[] is how many of A, B, C and D a lane holds. */
struct vg_mma_kind {
    const char *name;       /* "m16n8k16.f32.bf16.bf16.f32" (D A B C) */
    uint8_t m, n;
    uint16_t k;
    enum vg_elem a, b, c;   /* D has C's type */
    uint8_t nreg[3];        /* A, B, C and D */
};

enum { VG_MMA_SATFINITE = 1, VG_MMA_AND = 2 /* b1: and.popc, else xor */ };

/* ---- kinds (mma_kind.c) ------------------------------------------------- */

/* Row i of the table; NULL beyond its end.  The index is the one of
 * vg_counts.mma. */
const struct vg_mma_kind *vg_mma_kind(unsigned i);
const char *vg_mma_name(unsigned i);
uint64_t vg_mma_flops(unsigned i);

/* Index of the kind with this name, or -1. */
int vg_mma_find(const char *name);

/* D = A B + C on the registers of 32 lanes: a[r] is register r, 32 lanes in a
 * row (uint32_t; f64: double).  d may be c.  arch: 80, 89, 90, 100, 120;
 * flags: VG_MMA_*. */
void vg_mma_run(const struct vg_mma_kind *kind, unsigned arch, unsigned flags,
                const void *const *a, const void *const *b,
                const void *const *c, void *const *d);

/* ---- fragments (mma_frag.c) --------------------------------------------- */

/* Element i of lane l: where ISA 9.7.14.5.7-14 put it.  bits: of an element
 * (a register holds 32 / bits of them; f64 and tf32: one). */
unsigned vg_frag_a_row(unsigned m, unsigned reg, unsigned lane);
unsigned vg_frag_a_k(unsigned m, unsigned bits, unsigned reg, unsigned lane,
                     unsigned part);
unsigned vg_frag_b_k(unsigned bits, unsigned reg, unsigned lane,
                     unsigned part);
unsigned vg_frag_c_row(unsigned i, unsigned lane);
unsigned vg_frag_c_col(unsigned i, unsigned lane);

/* ---- floating-point products (mma_float.c) ------------------------------ */

#define VG_MMA_MAX_K 32

/* Operands as floats, transposed for 16-wide vectors: a[k][row], b[k][col].
 * least_a, least_b: the smallest exponent of the element types as a power of
 * two (2^-14 for f16), which subnormals count as. */
struct vg_mma_operands {
    float a[VG_MMA_MAX_K][16];
    float b[VG_MMA_MAX_K][8];
    float least_a, least_b;
};

struct vg_mma_model {
    unsigned fraction;   /* F */
    unsigned step;       /* products summed at once */
    enum vg_mma_round { VG_ROUND_F32, VG_ROUND_E8M13, VG_ROUND_F16 } round;
};

/* acc[col][row] += sum over k < K of a[k][row] b[k][col], 16 rows, 8 columns.
 * acc holds fp32 values, or values that f16 can represent (VG_ROUND_F16). */
void vg_mma_float(const struct vg_mma_operands *o, unsigned k,
                  const struct vg_mma_model *m, float acc[8][16]);

/* Registers of 32 lanes to operands and back, for those who bring their own
 * products (wgmma): n registers of A or B; C and D of type f32 or f16, eight
 * columns.  widen8: eight f16 or bf16.  least: fills least_a, least_b. */
void vg_mma_put_a(enum vg_elem e, unsigned n, const void *const *a,
                  struct vg_mma_operands *o);
void vg_mma_put_b(enum vg_elem e, unsigned n, const void *const *b,
                  struct vg_mma_operands *o);
void vg_mma_get_c(enum vg_elem e, const void *const *c, float acc[8][16]);
void vg_mma_put_d(enum vg_elem e, float acc[8][16], void *const *d);
void vg_mma_widen8(enum vg_elem e, const void *from, float *to);
void vg_mma_least(enum vg_elem a, enum vg_elem b, struct vg_mma_operands *o);

/* The model of an architecture for a kind. */
struct vg_mma_model vg_mma_model(const struct vg_mma_kind *kind,
                                 unsigned arch);

/* ---- integer and double products (mma_int.c) ---------------------------- */

void vg_mma_int(const struct vg_mma_kind *kind, unsigned flags,
                const uint32_t *const *a, const uint32_t *const *b,
                const uint32_t *const *c, uint32_t *const *d);
void vg_mma_f64(const struct vg_mma_kind *kind, const double *const *a,
                const double *const *b, const double *const *c,
                double *const *d);

#endif
