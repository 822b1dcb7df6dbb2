/* SPDX-License-Identifier: Apache-2.0
 *
 * mma_kind.c: the shapes and types of mma.sync, and running one of them on
 * registers (PTX ISA 9.7.14.5, table of shapes).
 *
 * Registers become matrices through transposed copies: with lane = 4 g + q, a
 * register holds, for each q, a column of eight rows at stride 4.
 *
 * Example: part 0 of the first A register of bf16 m16n8k16 is element (g, 2 q)
 * in lane 4 g + q.  For q = 1 those are lanes 1, 5, 9, ..., which become rows
 * 0 to 7 of column k = 2.
 */
#include "mma.h"
#include "small_float.h"

#include <stddef.h>
#include <string.h>

/* A row: shape, PTX names of D, A and B (C is D's), their VG_ELEM_ names, and
 * registers per lane of A, B and C. */
#define KIND(M, N, K, D, A, B, ED, EA, EB, NA, NB, NC)                        \
    {"m" #M "n" #N "k" #K "." #D "." #A "." #B "." #D, M, N, K,               \
     VG_ELEM_##EA, VG_ELEM_##EB, VG_ELEM_##ED, {NA, NB, NC}}

/* f16 and bf16: accumulators are f32, for f16 also f16 (two to a register). */
#define HALF(K, NA, NB)                                                       \
    KIND(16, 8, K, f32, f16, f16, F32, F16, F16, NA, NB, 4),                  \
    KIND(16, 8, K, f16, f16, f16, F16, F16, F16, NA, NB, 2),                  \
    KIND(16, 8, K, f32, bf16, bf16, F32, BF16, BF16, NA, NB, 4)

/* The four pairs of two 8-bit or 4-bit types. */
#define PAIRS(M, K, D, ED, X, EX, Y, EY, NA, NB, NC)                          \
    KIND(M, 8, K, D, X, X, ED, EX, EX, NA, NB, NC),                           \
    KIND(M, 8, K, D, X, Y, ED, EX, EY, NA, NB, NC),                           \
    KIND(M, 8, K, D, Y, X, ED, EY, EX, NA, NB, NC),                           \
    KIND(M, 8, K, D, Y, Y, ED, EY, EY, NA, NB, NC)

/* All shapes of mma.sync without sparsity and block scaling.  The position of
 * a row is its index in vg_counts.mma: VG_MMA_SHAPES must be no smaller. */
static const struct vg_mma_kind kinds[] = {
    HALF(8, 2, 1),
    HALF(16, 4, 2),
    KIND(16, 8, 4, f32, tf32, tf32, F32, TF32, TF32, 2, 1, 4),
    KIND(16, 8, 8, f32, tf32, tf32, F32, TF32, TF32, 4, 2, 4),
    PAIRS(16, 16, f32, F32, e4m3, E4M3, e5m2, E5M2, 2, 1, 4),
    PAIRS(16, 16, f16, F16, e4m3, E4M3, e5m2, E5M2, 2, 1, 2),
    PAIRS(16, 32, f32, F32, e4m3, E4M3, e5m2, E5M2, 4, 2, 4),
    PAIRS(16, 32, f16, F16, e4m3, E4M3, e5m2, E5M2, 4, 2, 2),
    PAIRS(8, 16, s32, S32, s8, S8, u8, U8, 1, 1, 2),
    PAIRS(16, 16, s32, S32, s8, S8, u8, U8, 2, 1, 4),
    PAIRS(16, 32, s32, S32, s8, S8, u8, U8, 4, 2, 4),
    PAIRS(8, 32, s32, S32, s4, S4, u4, U4, 1, 1, 2),
    PAIRS(16, 32, s32, S32, s4, S4, u4, U4, 2, 1, 4),
    PAIRS(16, 64, s32, S32, s4, S4, u4, U4, 4, 2, 4),
    KIND(8, 8, 128, s32, b1, b1, S32, B1, B1, 1, 1, 2),
    KIND(16, 8, 128, s32, b1, b1, S32, B1, B1, 2, 1, 4),
    KIND(16, 8, 256, s32, b1, b1, S32, B1, B1, 4, 2, 4),
    KIND(8, 8, 4, f64, f64, f64, F64, F64, F64, 1, 1, 2),
    KIND(16, 8, 4, f64, f64, f64, F64, F64, F64, 2, 1, 4),
    KIND(16, 8, 8, f64, f64, f64, F64, F64, F64, 4, 2, 4),
    KIND(16, 8, 16, f64, f64, f64, F64, F64, F64, 8, 4, 4),
};

#define NKINDS (sizeof kinds / sizeof *kinds)

const struct vg_mma_kind *vg_mma_kind(unsigned i)
{
    return i < NKINDS ? &kinds[i] : NULL;
}

const char *vg_mma_name(unsigned i)
{
    return i < NKINDS ? kinds[i].name : "";
}

uint64_t vg_mma_flops(unsigned i)
{
    return i < NKINDS ? 2ull * kinds[i].m * kinds[i].n * kinds[i].k : 0;
}

int vg_mma_find(const char *name)
{
    for (unsigned i = 0; i < NKINDS; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return (int)i;
    return -1;
}

static bool is_fp8(enum vg_elem e)
{
    return e == VG_ELEM_E4M3 || e == VG_ELEM_E5M2;
}

/* The table of mma.h.  `whole` is the K of a full instruction of the type:
 * before sm_90 it runs as two steps of half of it, while the shapes with half
 * that K are one step. */
struct vg_mma_model vg_mma_model(const struct vg_mma_kind *kind,
                                 unsigned arch)
{
    bool fp8 = is_fp8(kind->a), old = arch < 90;
    unsigned whole = fp8 ? 32 : kind->a == VG_ELEM_TF32 ? 8 : 16;
    struct vg_mma_model m = {
        .fraction = arch == 89 && fp8 ? 13 : old ? 24 : 25,
        .step = old && kind->k == whole ? kind->k / 2 : kind->k,
        .round = kind->c == VG_ELEM_F16 ? VG_ROUND_F16 : VG_ROUND_F32,
    };

    if (arch == 89 && fp8 && m.round == VG_ROUND_F32)
        m.round = VG_ROUND_E8M13;
    return m;
}

/* ---- registers to matrices ---------------------------------------------- */

/* Smallest normal number of a type.  bf16 and tf32 have fp32's exponents. */
static float least_of(enum vg_elem e)
{
    switch (e) {
    case VG_ELEM_F16:
    case VG_ELEM_E5M2:
        return 0x1p-14f;
    case VG_ELEM_E4M3:
        return 0x1p-6f;
    default:
        return 0x1p-126f;
    }
}

/* Bits that an element takes in a register: tf32 has one to itself.  Only the
 * types of the float path come here. */
static unsigned bits_of_elem(enum vg_elem e)
{
    return is_fp8(e) ? 8 : e == VG_ELEM_TF32 ? 32 : 16;
}

#define WIDEN(CONVERT, SHIFT)                                                 \
    for (unsigned l = 0; l < 32; l++)                                         \
        out[l] = CONVERT(reg[l] >> (SHIFT))

/* Part i of a register row, as floats.  Inlined with a constant type, so that
 * the switch disappears and the loop becomes vector code. */
static inline void widen(const uint32_t reg[32], enum vg_elem e, unsigned i,
                         float out[32])
{
    switch (e) {
    case VG_ELEM_F16:
        WIDEN(vg_sf_from_f16, 16 * i);
        break;
    case VG_ELEM_BF16:
        WIDEN(vg_sf_from_bf16, 16 * i);
        break;
    case VG_ELEM_TF32:
        WIDEN(vg_sf_from_tf32, 0);
        break;
    case VG_ELEM_E4M3:
        WIDEN(vg_sf_from_e4m3, 8 * i);
        break;
    default:
        WIDEN(vg_sf_from_e5m2, 8 * i);
    }
}

/* Spreads 32 lanes over four rows of eight: to[q * stride + g] = v[4 g + q];
 * collect is the inverse.  With 512-bit vectors both are a few shuffles. */
#ifdef __AVX512F__
typedef float v16 __attribute__((vector_size(64)));
typedef float v8 __attribute__((vector_size(32)));

static inline void spread(const float v[32], float *to, unsigned stride)
{
    v16 lo, hi;
    v8 row;

    memcpy(&lo, v, sizeof lo);
    memcpy(&hi, v + 16, sizeof hi);
#define ROW(q)                                                                \
    row = __builtin_shufflevector(lo, hi, q, 4 + q, 8 + q, 12 + q, 16 + q,    \
                                  20 + q, 24 + q, 28 + q);                    \
    memcpy(to + q * stride, &row, sizeof row)
    ROW(0);
    ROW(1);
    ROW(2);
    ROW(3);
#undef ROW
}

static inline void collect(const float *from, unsigned stride, float v[32])
{
    float pair[2][16];
    v16 lo, hi, out;

    for (unsigned q = 0; q < 4; q++)
        memcpy(&pair[q >> 1][8 * (q & 1)], from + q * stride, 32);
    memcpy(&lo, pair[0], sizeof lo);
    memcpy(&hi, pair[1], sizeof hi);
    out = __builtin_shufflevector(lo, hi, 0, 8, 16, 24, 1, 9, 17, 25, 2, 10,
                                  18, 26, 3, 11, 19, 27);
    memcpy(v, &out, sizeof out);
    out = __builtin_shufflevector(lo, hi, 4, 12, 20, 28, 5, 13, 21, 29, 6, 14,
                                  22, 30, 7, 15, 23, 31);
    memcpy(v + 16, &out, sizeof out);
}
#else
static inline void spread(const float v[32], float *to, unsigned stride)
{
    for (unsigned q = 0; q < 4; q++)
        for (unsigned g = 0; g < 8; g++)
            to[q * stride + g] = v[4 * g + q];
}

static inline void collect(const float *from, unsigned stride, float v[32])
{
    for (unsigned q = 0; q < 4; q++)
        for (unsigned g = 0; g < 8; g++)
            v[4 * g + q] = from[q * stride + g];
}
#endif

/* A's registers to o->a[k][row].  Lane 4 g + q has in part i of register r
 * row g + 8 (r & 1) of column parts * (q + 4 (r >> 1)) + i, so neighbouring q
 * are `parts` columns of 16 floats apart.  Always inlined: see below. */
static inline __attribute__((always_inline)) void
gather_a(enum vg_elem e, unsigned n, const void *const *a,
         struct vg_mma_operands *o)
{
    unsigned parts = 32 / bits_of_elem(e);
    float v[32];

    for (unsigned r = 0; r < n; r++)
        for (unsigned i = 0; i < parts; i++) {
            widen(a[r], e, i, v);
            spread(v, &o->a[i + 4 * parts * (r >> 1)][8 * (r & 1)],
                   16 * parts);
        }
    o->least_a = least_of(e);
}

/* B's registers to o->b[k][column]: part i of register r is element
 * parts * (q + 4 r) + i of column g; rows of k have 8 floats. */
static inline __attribute__((always_inline)) void
gather_b(enum vg_elem e, unsigned n, const void *const *b,
         struct vg_mma_operands *o)
{
    unsigned parts = 32 / bits_of_elem(e);
    float v[32];

    for (unsigned r = 0; r < n; r++)
        for (unsigned i = 0; i < parts; i++) {
            widen(b[r], e, i, v);
            spread(v, o->b[i + 4 * parts * r], 8 * parts);
        }
    o->least_b = least_of(e);
}

/* The common types get code of their own: inlined with e a constant. */
void vg_mma_put_a(enum vg_elem e, unsigned n, const void *const *a,
                  struct vg_mma_operands *o)
{
    if (e == VG_ELEM_BF16)
        gather_a(VG_ELEM_BF16, n, a, o);
    else if (e == VG_ELEM_F16)
        gather_a(VG_ELEM_F16, n, a, o);
    else
        gather_a(e, n, a, o);
}

void vg_mma_put_b(enum vg_elem e, unsigned n, const void *const *b,
                  struct vg_mma_operands *o)
{
    if (e == VG_ELEM_BF16)
        gather_b(VG_ELEM_BF16, n, b, o);
    else if (e == VG_ELEM_F16)
        gather_b(VG_ELEM_F16, n, b, o);
    else
        gather_b(e, n, b, o);
}

void vg_mma_least(enum vg_elem a, enum vg_elem b, struct vg_mma_operands *o)
{
    o->least_a = least_of(a);
    o->least_b = least_of(b);
}

/* Eight halves side by side. */
void vg_mma_widen8(enum vg_elem e, const void *from, float *to)
{
    uint16_t h[8];

    memcpy(h, from, sizeof h);
    for (unsigned j = 0; j < 8; j++)
        to[j] = e == VG_ELEM_BF16 ? vg_sf_from_bf16(h[j])
                                  : vg_sf_from_f16(h[j]);
}

/* C's registers to acc[col][row]: element i of a lane goes to column
 * 2 q + (i & 1), row g + 8 (i >> 1).  Neighbouring q are two columns apart,
 * 32 floats. */
void vg_mma_get_c(enum vg_elem e, const void *const *c, float acc[8][16])
{
    float v[32];

    for (unsigned i = 0; i < 4; i++) {
        if (e == VG_ELEM_F16)
            widen(c[i >> 1], VG_ELEM_F16, i & 1, v);
        else
            memcpy(v, c[i], sizeof v);
        spread(v, &acc[i & 1][8 * (i >> 1)], 32);
    }
}

/* The inverse of vg_mma_get_c: rounding has been done, so the conversion to
 * f16 is exact. */
void vg_mma_put_d(enum vg_elem e, float acc[8][16], void *const *d)
{
    float v[4][32];

    for (unsigned i = 0; i < 4; i++)
        collect(&acc[i & 1][8 * (i >> 1)], 32, v[i]);
    for (unsigned r = 0; r < (e == VG_ELEM_F16 ? 2u : 4u); r++) {
        uint32_t *reg = d[r];

        if (e != VG_ELEM_F16)
            memcpy(reg, v[r], sizeof v[r]);
        else
            for (unsigned l = 0; l < 32; l++)
                reg[l] = vg_sf_to_f16(v[2 * r][l]) |
                         vg_sf_to_f16(v[2 * r + 1][l]) << 16;
    }
}

/* Registers to matrices, the product, and back. */
static void run_float(const struct vg_mma_kind *kind, unsigned arch,
                      const void *const *a, const void *const *b,
                      const void *const *c, void *const *d)
{
    struct vg_mma_model m = vg_mma_model(kind, arch);
    struct vg_mma_operands o;
    float acc[8][16];

    vg_mma_put_a(kind->a, kind->nreg[0], a, &o);
    vg_mma_put_b(kind->b, kind->nreg[1], b, &o);
    vg_mma_get_c(kind->c, c, acc);
    vg_mma_float(&o, kind->k, &m, acc);
    vg_mma_put_d(kind->c, acc, d);
}

/* C's type says which arithmetic it is: A and B of one C are of one family. */
void vg_mma_run(const struct vg_mma_kind *kind, unsigned arch, unsigned flags,
                const void *const *a, const void *const *b,
                const void *const *c, void *const *d)
{
    if (kind->c == VG_ELEM_S32)
        vg_mma_int(kind, flags, (const uint32_t *const *)a,
                   (const uint32_t *const *)b, (const uint32_t *const *)c,
                   (uint32_t *const *)d);
    else if (kind->c == VG_ELEM_F64)
        vg_mma_f64(kind, (const double *const *)a, (const double *const *)b,
                   (const double *const *)c, (double *const *)d);
    else
        run_float(kind, arch, a, b, c, d);
}
