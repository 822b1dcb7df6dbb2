/* SPDX-License-Identifier: Apache-2.0
 *
 * mma_int.c: mma.sync on integers, single bits and doubles.
 *
 * Straight from the definition: gather both matrices, then one dot product per
 * element of D.  No kernel here spends its time in these.
 */
#include "mma.h"

#include <math.h>

/* The largest K of a shape with integer elements (m16n8k64, 4 bits). */
#define MAX_K 64

static unsigned elem_bits(enum vg_elem e)
{
    return e == VG_ELEM_S8 || e == VG_ELEM_U8 ? 8 : 4;
}

/* Element number `part` of a register, sign- or zero-extended: shifted to the
 * top of the word, then down arithmetically or not. */
static int16_t integer(uint32_t reg, unsigned part, enum vg_elem e)
{
    unsigned bits = elem_bits(e);
    int32_t v = (int32_t)(reg << (32 - bits * (part + 1)));

    if (e == VG_ELEM_S8 || e == VG_ELEM_S4)
        return (int16_t)(v >> (32 - bits));
    return (int16_t)((uint32_t)v >> (32 - bits));
}

/* .satfinite clamps to the range of s32; without it the sum wraps (PTX ISA
 * 9.7.14.5). */
static int32_t clamp(int64_t v, bool saturate)
{
    if (saturate && v > INT32_MAX)
        return INT32_MAX;
    if (saturate && v < INT32_MIN)
        return INT32_MIN;
    return (int32_t)(uint32_t)(uint64_t)v;
}

/* The matrices of an instruction: a[row][k], b[col][k], so that a dot product
 * runs along both.  16 bits hold u8 as well as s8. */
struct int_tile {
    int16_t a[16][MAX_K], b[8][MAX_K];
};

/* From the registers of 32 lanes to matrices; A and B may differ in sign but
 * not in width, so one `bits` serves both. */
static void gather_ints(const struct vg_mma_kind *kind,
                        const uint32_t *const *a, const uint32_t *const *b,
                        struct int_tile *t)
{
    unsigned bits = elem_bits(kind->a), parts = 32 / bits;

    for (unsigned r = 0; r < kind->nreg[0]; r++)
        for (unsigned l = 0; l < 32; l++)
            for (unsigned i = 0; i < parts; i++)
                t->a[vg_frag_a_row(kind->m, r, l)]
                    [vg_frag_a_k(kind->m, bits, r, l, i)] =
                        integer(a[r][l], i, kind->a);
    for (unsigned r = 0; r < kind->nreg[1]; r++)
        for (unsigned l = 0; l < 32; l++)
            for (unsigned i = 0; i < parts; i++)
                t->b[l / 4][vg_frag_b_k(bits, r, l, i)] =
                    integer(b[r][l], i, kind->b);
}

/* D of one element: the dot product of n integers added to c.  64 products of
 * 8 bits fit 32 bits many times over, so only adding c can overflow. */
static int32_t dot(const int16_t *a, const int16_t *b, unsigned n, int32_t c,
                   bool saturate)
{
    int32_t sum = 0;

    for (unsigned k = 0; k < n; k++)
        sum += a[k] * b[k];
    return clamp((int64_t)sum + c, saturate);
}

/* The same for the bits of n registers: xor.popc or and.popc.  There is no
 * .satfinite for single bits. */
static uint32_t bit_dot(const uint32_t *a, const uint32_t *b, unsigned n,
                        uint32_t c, bool and)
{
    for (unsigned k = 0; k < n; k++)
        c += (uint32_t)__builtin_popcount(and ? a[k] & b[k] : a[k] ^ b[k]);
    return c;
}

/* b1: a row of A or a column of B is K bits in whole registers, 8 at most. */
static void mma_bits(const struct vg_mma_kind *kind, unsigned flags,
                     const uint32_t *const *a, const uint32_t *const *b,
                     const uint32_t *const *c, uint32_t *const *d)
{
    uint32_t ta[16][8], tb[8][8];
    unsigned words = kind->k / 32;

    for (unsigned r = 0; r < kind->nreg[0]; r++)
        for (unsigned l = 0; l < 32; l++)
            ta[vg_frag_a_row(kind->m, r, l)]
              [vg_frag_a_k(kind->m, 1, r, l, 0) / 32] = a[r][l];
    for (unsigned r = 0; r < kind->nreg[1]; r++)
        for (unsigned l = 0; l < 32; l++)
            tb[l / 4][vg_frag_b_k(1, r, l, 0) / 32] = b[r][l];
    for (unsigned i = 0; i < kind->nreg[2]; i++)
        for (unsigned l = 0; l < 32; l++)
            d[i][l] = bit_dot(ta[vg_frag_c_row(i, l)],
                              tb[vg_frag_c_col(i, l)], words, c[i][l],
                              flags & VG_MMA_AND);
}

/* d may be c: element by element, each read before it is written. */
void vg_mma_int(const struct vg_mma_kind *kind, unsigned flags,
                const uint32_t *const *a, const uint32_t *const *b,
                const uint32_t *const *c, uint32_t *const *d)
{
    struct int_tile t;

    if (kind->a == VG_ELEM_B1) {
        mma_bits(kind, flags, a, b, c, d);
        return;
    }
    gather_ints(kind, a, b, &t);
    for (unsigned i = 0; i < kind->nreg[2]; i++)
        for (unsigned l = 0; l < 32; l++)
            d[i][l] = (uint32_t)dot(t.a[vg_frag_c_row(i, l)],
                                    t.b[vg_frag_c_col(i, l)], kind->k,
                                    (int32_t)c[i][l],
                                    flags & VG_MMA_SATFINITE);
}

/* DMMA is a chain of fused multiply-adds in ascending k, rounded at each
 * step, starting with C. */
void vg_mma_f64(const struct vg_mma_kind *kind, const double *const *a,
                const double *const *b, const double *const *c,
                double *const *d)
{
    double ta[16][16], tb[8][16];

    for (unsigned r = 0; r < kind->nreg[0]; r++)
        for (unsigned l = 0; l < 32; l++)
            ta[vg_frag_a_row(kind->m, r, l)]
              [vg_frag_a_k(kind->m, 64, r, l, 0)] = a[r][l];
    for (unsigned r = 0; r < kind->nreg[1]; r++)
        for (unsigned l = 0; l < 32; l++)
            tb[l / 4][vg_frag_b_k(64, r, l, 0)] = b[r][l];
    for (unsigned i = 0; i < kind->nreg[2]; i++)
        for (unsigned l = 0; l < 32; l++) {
            const double *x = ta[vg_frag_c_row(i, l)];
            const double *y = tb[vg_frag_c_col(i, l)];
            double sum = c[i][l];

            for (unsigned k = 0; k < kind->k; k++)
                sum = fma(x[k], y[k], sum);
            d[i][l] = sum;
        }
}
