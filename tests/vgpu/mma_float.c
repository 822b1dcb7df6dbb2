/* SPDX-License-Identifier: Apache-2.0
 *
 * mma_float.c: floating-point matrix products as tensor cores round them
 * (the model is in mma.h).
 *
 * The vector path works on one column of D at a time: 16 rows are one vector,
 * b[k][col] is a broadcast.  A step is
 *   e      = max over k of exponent(a) + exponent(b), and exponent(C)
 *   sum    = sum over k of (int)(a b 2^(F - e))        exact, cut toward zero
 *   result = round(sum 2^(e - F))
 * Exponents are handled as the exponent fields of fp32 numbers, in place.
 * Products of f16, bf16, tf32 and fp8 are exact in fp32 as long as they do
 * not leave its range: the vector path wants |a|, |b| from 2^-78 to 2^31 or 0,
 * and e from -90 to 100 or no product at all, and leaves the rest to the
 * scalar path.  Within these bounds a factor of zero (exponent -126 in the
 * model) is never the largest exponent, so it may count as NOTHING.  Eight
 * products are below 8 * 4 * 2^25 = 2^30 together, so 32-bit sums of eight are
 * exact.
 *
 * Example, F = 25 with products 1 and 2^-26 and C = 0: the largest exponent is
 * 0, the second product is cut to a multiple of 2^-25, to 0, and the result is
 * 1, whatever the number of such products.  A sum in double, rounded at the
 * end, would show them.
 */
#include "mma.h"

#include <math.h>
#include <string.h>

#define ROWS 16
#define COLS 8
#define EXPONENT 0x7f800000u
#define FIELD(e) ((127 + (e)) << 23) /* the exponent field of 2^e */
#define NOTHING (-0x20000000)        /* the "exponent field" of zero */
#define NAN_F32 0x7fffffffu
#define NAN_F16 0x7fe00000u /* 0x7fff as fp32: all f16 mantissa bits */

static inline uint32_t bits_of(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float float_of(uint32_t u)
{
    float x;

    memcpy(&x, &u, sizeof x);
    return x;
}

static inline uint64_t bits_of_double(double x)
{
    uint64_t u;

    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double double_of(uint64_t u)
{
    double x;

    memcpy(&x, &u, sizeof x);
    return x;
}

/* ---- one rounding ------------------------------------------------------- */

/* Cuts x toward zero after `keep` fraction bits (23 or 13) in fp32's range. */
static inline float cut(double x, unsigned keep)
{
    uint64_t drop = (UINT64_C(1) << (52 - keep)) - 1;

    return (float)double_of(bits_of_double(x) & ~drop);
}

/* The same for any x: below 2^-126 the grid is 2^-126-keep, beyond the range
 * lies infinity. */
static float cut_any(double x, unsigned keep)
{
    double tiny = 0x1p-126;

    if (fabs(x) < tiny) {
        double grid = ldexp(tiny, -(int)keep);

        return (float)(trunc(x / grid) * grid + 0.0); /* never -0 */
    }
    return cut(x, keep);
}

/* x to the nearest f16, ties to even.  Adding and subtracting 1.5 * 2^52
 * quanta rounds to a multiple of the quantum. */
static inline float nearest_f16(double x)
{
    uint64_t e = bits_of_double(x) & UINT64_C(0x7ff0000000000000);
    uint64_t least = (UINT64_C(1023) - 14) << 52;
    double magic;
    double r;

    e = e > least ? e : least;
    magic = double_of(e + ((UINT64_C(52) - 10) << 52)) * 1.5;
    r = (x + magic) - magic;
    return (float)(r > 65504 ? INFINITY : r < -65504 ? -INFINITY : r);
}

/* ---- scalar path -------------------------------------------------------- */

/* Exponent in the model: subnormals count as the type's smallest, zero as
 * -126. */
static int exponent_of(float x, int least)
{
    int e;

    if (x == 0)
        return -126;
    frexpf(x, &e);
    return e - 1 < least ? least : e - 1;
}

/* C's smallest exponent: it has the type of the result. */
static inline int least_of_c(const struct vg_mma_model *m)
{
    return m->round == VG_ROUND_F16 ? -14 : -126;
}

/* Rounding r of any x, inside or outside the type's normal range. */
static float round_any(double x, enum vg_mma_round r)
{
    if (r == VG_ROUND_F16)
        return nearest_f16(x);
    return cut_any(x, r == VG_ROUND_F32 ? 23 : 13);
}

/* What NaN or infinity among the operands leads to; false if there is none.
 * The sum in double decides: finite terms stay finite in it, and inf - inf or
 * 0 * inf become NaN, of which the model has only the one pattern. */
static bool special(const float *a, const float *b, unsigned n, float c,
                    enum vg_mma_round r, float *out)
{
    double sum = c;

    for (unsigned k = 0; k < n; k++)
        sum += (double)a[k] * b[k];
    if (!isnan(sum) && !isinf(sum))
        return false;
    *out = isinf(sum) ? (float)sum
                      : float_of(r == VG_ROUND_F16 ? NAN_F16 : NAN_F32);
    return true;
}

/* One element, one step, straight from the definition. */
static float scalar_step(const float *a, const float *b, unsigned n, float c,
                         int least_a, int least_b, const struct vg_mma_model *m)
{
    int e[VG_MMA_MAX_K], most = exponent_of(c, least_of_c(m));
    double sum;
    float out;

    if (special(a, b, n, c, m->round, &out))
        return out;
    for (unsigned k = 0; k < n; k++) {
        e[k] = exponent_of(a[k], least_a) + exponent_of(b[k], least_b);
        most = e[k] > most ? e[k] : most;
    }
    sum = trunc(ldexp(c, (int)m->fraction - most));
    for (unsigned k = 0; k < n; k++)
        sum += trunc(ldexp((double)a[k] * b[k], (int)m->fraction - most));
    return round_any(ldexp(sum, most - (int)m->fraction), m->round);
}

/* Some rows of one column, one step, element by element: c is C, acc D. */
static void scalar_rows(const struct vg_mma_operands *o, unsigned k0,
                        unsigned n, unsigned col, uint32_t some,
                        const struct vg_mma_model *m, const float *c,
                        float *acc)
{
    int least_a = ilogbf(o->least_a), least_b = ilogbf(o->least_b);

    for (; some; some &= some - 1) {
        unsigned row = (unsigned)__builtin_ctz(some);
        float a[VG_MMA_MAX_K], b[VG_MMA_MAX_K];

        for (unsigned k = 0; k < n; k++) {
            a[k] = o->a[k0 + k][row];
            b[k] = o->b[k0 + k][col];
        }
        acc[row] = scalar_step(a, b, n, c[row], least_a, least_b, m);
    }
}

/* ---- vector path -------------------------------------------------------- */

/* Vectors in the compilers' own notation (gcc and clang, any target), as wide
 * as the target's: plain loops came out three to eight times slower. */
#if defined __AVX512F__
#define LANES 16
#elif defined __AVX__
#define LANES 8
#else
#define LANES 4
#endif
#define CHUNKS (ROWS / LANES)
#define INLINE static inline __attribute__((always_inline))

typedef float vfloat __attribute__((vector_size(4 * LANES)));
typedef int32_t vint __attribute__((vector_size(4 * LANES)));
typedef uint32_t vuint __attribute__((vector_size(4 * LANES)));
typedef int32_t vhalf __attribute__((vector_size(4 * LANES / 2)));
typedef float vfhalf __attribute__((vector_size(4 * LANES / 2)));
typedef double vdouble __attribute__((vector_size(8 * LANES / 2)));
typedef int64_t vlong __attribute__((vector_size(8 * LANES / 2)));

/* Lane by lane: yes where the mask is -1, no where it is 0. */
INLINE vint choose(vint mask, vint yes, vint no)
{
    return (mask & yes) | (~mask & no);
}

/* Spelt as a loop, which gcc knows for a vector maximum. */
INLINE vint vmax(vint a, vint b)
{
    union {
        vint v;
        int32_t lane[LANES];
    } x = {a}, y = {b};

    for (unsigned r = 0; r < LANES; r++)
        x.lane[r] = x.lane[r] > y.lane[r] ? x.lane[r] : y.lane[r];
    return x.v;
}

/* Is a lane of the mask set? */
INLINE bool any(vint mask)
{
    int32_t lane[LANES], r = 0;

    memcpy(lane, &mask, sizeof lane);
    for (unsigned i = 0; i < LANES; i++)
        r |= lane[i];
    return r != 0;
}

/* Unaligned load of one vector. */
INLINE vfloat load(const float *p)
{
    vfloat v;

    memcpy(&v, p, sizeof v);
    return v;
}

/* Exponent fields, at least `least`; NOTHING for 0. */
INLINE vint vfields(vfloat x, int32_t least)
{
    vint e = vmax((vint)x & (int32_t)EXPONENT, (vint){0} + least);

    return choose(x == 0, (vint){0} + NOTHING, e);
}

/* Exponent fields of all operands.  beyond: rows of A, and in beyond_b some
 * lane, where one is above 2^30 or below 2^-78 and not zero; with both factors
 * above 2^-78 no product comes near NOTHING. */
struct fields {
    vint a[VG_MMA_MAX_K * CHUNKS];
    int32_t b[VG_MMA_MAX_K][COLS];
    vint beyond[CHUNKS], beyond_b;
};

INLINE vint is_beyond(vint e)
{
    return (e > FIELD(30)) | ((e < FIELD(-78)) & (e != NOTHING));
}

/* Once per instruction: the fields serve all steps and all columns. */
INLINE void find_fields(const struct vg_mma_operands *o, unsigned k,
                        struct fields *f)
{
    int32_t least_a = (int32_t)bits_of(o->least_a);
    int32_t least_b = (int32_t)bits_of(o->least_b);
    const float *a = (const float *)o->a, *b = (const float *)o->b;

    for (unsigned c = 0; c < CHUNKS; c++)
        f->beyond[c] = (vint){0};
    f->beyond_b = (vint){0};
    for (unsigned i = 0; i < k * CHUNKS; i++) {
        f->a[i] = vfields(load(a + i * LANES), least_a);
        f->beyond[i % CHUNKS] |= is_beyond(f->a[i]);
    }
    for (unsigned i = 0; i < k * COLS; i += LANES) {
        vint e = vfields(load(b + i), least_b);

        memcpy((int32_t *)f->b + i, &e, sizeof e);
        f->beyond_b |= is_beyond(e);
    }
}

/* The largest exponent of each row's products and C, as a field.  The bias is
 * taken off before the sum: two fields together do not fit 32 bits.  Where a
 * factor is beyond, the sum may wrap: those columns do not use it. */
INLINE vint largest(const struct fields *f, unsigned k0, unsigned n,
                    unsigned col, unsigned chunk, vfloat acc, int least)
{
    vint e = vfields(acc, FIELD(least));

    for (unsigned k = k0; k < k0 + n; k++)
        e = vmax(e, (vint)((vuint)f->a[k * CHUNKS + chunk] +
                           (uint32_t)(f->b[k][col] - FIELD(0))));
    return e;
}

/* Lanes whose largest exponent the vector path cannot handle. */
INLINE vint is_extreme(vint e)
{
    return (e > FIELD(100)) | ((e < FIELD(-90)) & (e > NOTHING / 2));
}

/* nearest_f16 for a vector. */
INLINE vdouble vnearest_f16(vdouble x)
{
    vlong e = (vlong)x & (INT64_C(0x7ff) << 52);
    vlong least = (vlong){0} + (INT64_C(1009) << 52);
    vlong low = e < least, inf = (vlong){0} + (INT64_C(0x7ff) << 52);
    vdouble magic, r;
    vlong over;

    e = (low & least) | (~low & e);
    magic = (vdouble)(e + (INT64_C(42) << 52)) * 1.5;
    r = (x + magic) - magic;
    over = (r > 65504) | (r < -65504);
    inf |= (vlong)x & INT64_MIN;
    return (vdouble)((over & inf) | (~over & (vlong)r));
}

/* Rounds the sums of `parts` vectors, in units of 2^(e - F), into acc.
 * Doubles hold them exactly; half of the lanes at a time. */
INLINE void finish(const vint *part, unsigned parts, vint e,
                   const struct vg_mma_model *m, float *acc)
{
    unsigned keep = m->round == VG_ROUND_F32 ? 23 : 13;
    vint unit = e - (int32_t)(m->fraction << 23);

    for (unsigned h = 0; h < LANES; h += LANES / 2) {
        vdouble sum = {0};
        vfhalf grid, out;

        memcpy(&grid, (const char *)&unit + 4 * h, sizeof grid);
        for (unsigned i = 0; i < parts; i++) {
            vhalf x;

            memcpy(&x, (const char *)&part[i] + 4 * h, sizeof x);
            sum += __builtin_convertvector(x, vdouble);
        }
        sum *= __builtin_convertvector(grid, vdouble);
        if (m->round == VG_ROUND_F16)
            sum = vnearest_f16(sum);
        else
            sum = (vdouble)((vlong)sum & ~((INT64_C(1) << (52 - keep)) - 1));
        out = __builtin_convertvector(sum, vfhalf);
        memcpy(acc + h, &out, sizeof out);
    }
}

/* Some rows of a column; their largest exponents e are not extreme.  acc
 * points to the first of the rows.  Sums are unsigned: those of rows that are
 * computed apart may wrap. */
INLINE void rows(const struct vg_mma_operands *o, unsigned k0, unsigned n,
                 unsigned col, unsigned chunk, vint e,
                 const struct vg_mma_model *m, float *acc)
{
    vint part[VG_MMA_MAX_K / 8 + 1];
    unsigned parts = 1;
    vfloat scale;

    e = choose(e > 0, e, (vint){0} + FIELD(0));
    scale = (vfloat)(FIELD(127) - e + (int32_t)(m->fraction << 23));
    part[0] = __builtin_convertvector(load(acc) * scale, vint);
    for (unsigned k1 = k0; k1 < k0 + n; k1 += 8, parts++) {
        part[parts] = (vint){0};
        for (unsigned k = k1; k < k1 + 8 && k < k0 + n; k++)
            part[parts] = (vint)(
                (vuint)part[parts] +
                (vuint)__builtin_convertvector(
                    load(&o->a[k][chunk * LANES]) * o->b[k][col] * scale,
                    vint));
    }
    finish(part, parts, e, m, acc);
}

/* Bit r: the mask of row r is set. */
INLINE uint32_t bits_of_mask(const vint *mask)
{
    int32_t lane[ROWS];
    uint32_t bits = 0;

    memcpy(lane, mask, sizeof lane);
    for (unsigned r = 0; r < ROWS; r++)
        bits |= (uint32_t)(lane[r] & 1) << r;
    return bits;
}

/* One column where something is beyond or extreme: those rows are computed
 * apart, and what the vectors make of them is replaced. */
static void slow_column(const struct vg_mma_operands *o,
                        const struct fields *f, unsigned k0, unsigned n,
                        unsigned col, const vint *e,
                        const struct vg_mma_model *m, float *acc)
{
    vint all = (vint){0} - (int32_t)any(f->beyond_b), why[CHUNKS];
    float before[ROWS];

    memcpy(before, acc, sizeof before);
    for (unsigned c = 0; c < CHUNKS; c++) {
        why[c] = f->beyond[c] | is_extreme(e[c]) | all;
        rows(o, k0, n, col, c, choose(why[c], (vint){0} + FIELD(0), e[c]), m,
             acc + c * LANES);
    }
    scalar_rows(o, k0, n, col, bits_of_mask(why), m, before, acc);
}

/* One step of all columns.  Nearly always no lane is bad, which one test
 * finds out; only then are columns told apart. */
INLINE void step(const struct vg_mma_operands *o, const struct fields *f,
                 unsigned k0, unsigned n, const struct vg_mma_model *m,
                 float acc[COLS][ROWS])
{
    vint e[COLS][CHUNKS], bad = f->beyond_b;

    for (unsigned c = 0; c < CHUNKS; c++)
        bad |= f->beyond[c];
    for (unsigned col = 0; col < COLS; col++)
        for (unsigned c = 0; c < CHUNKS; c++) {
            e[col][c] = largest(f, k0, n, col, c, load(acc[col] + c * LANES),
                                least_of_c(m));
            bad |= is_extreme(e[col][c]);
        }
    if (any(bad)) {
        for (unsigned col = 0; col < COLS; col++)
            slow_column(o, f, k0, n, col, e[col], m, acc[col]);
        return;
    }
    for (unsigned col = 0; col < COLS; col++)
        for (unsigned c = 0; c < CHUNKS; c++)
            rows(o, k0, n, col, c, e[col][c], m, acc[col] + c * LANES);
}

/* All steps; n is a constant at every call but one. */
INLINE void product(const struct vg_mma_operands *o, unsigned k, unsigned n,
                    const struct vg_mma_model *m, float acc[COLS][ROWS])
{
    struct fields f;

    find_fields(o, k, &f);
    for (unsigned k0 = 0; k0 < k; k0 += n)
        step(o, &f, k0, n, m, acc);
}

/* Constant step lengths let the compiler unroll the sums over k. */
void vg_mma_float(const struct vg_mma_operands *o, unsigned k,
                  const struct vg_mma_model *m, float acc[8][16])
{
    switch (m->step) {
    case 4:
        product(o, k, 4, m, acc);
        break;
    case 8:
        product(o, k, 8, m, acc);
        break;
    case 16:
        product(o, k, 16, m, acc);
        break;
    default:
        product(o, k, m->step, m, acc);
    }
}
