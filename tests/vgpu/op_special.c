/* SPDX-License-Identifier: Apache-2.0
 *
 * op_special.c: the approximate functions ex2, lg2, rsqrt, sin, cos, tanh
 * (PTX ISA 9.0, 9.7.3.16 to .22), in f32 and where they exist in f16.
 *
 * The ISA bounds their error and leaves the bits open; here they are
 * computed in double and rounded once, which is inside every bound.  ex2,
 * lg2 and rsqrt, which attention runs per score, vectorise.
 */
#include "alu.h"
#include "num.h"

#include <math.h>

#define FTZ 1u

/* 2^x: x = n + f with |f| <= 1/2, Taylor series of e^(f ln 2) to f^8 (error
 * below 2^-30), scaled in two steps so that subnormal results round once. */
static inline float exp2_of(float v)
{
    double x = (double)v;
    x = x < -300.0 ? -300.0 : x > 300.0 ? 300.0 : x;
    /* adding and taking away 1.5 * 2^52 rounds to an integer */
    double n = x + 0x1.8p52 - 0x1.8p52, t = (x - n) * 0.69314718055994530942;
    double p = 1.0 / 40320;
    p = p * t + 1.0 / 5040;
    p = p * t + 1.0 / 720;
    p = p * t + 1.0 / 120;
    p = p * t + 1.0 / 24;
    p = p * t + 1.0 / 6;
    p = p * t + 0.5;
    p = p * t + 1.0;
    p = p * t + 1.0;
    double scale = vg_bits_double((uint64_t)((int64_t)n + 1023) << 52);
    return v == v ? (float)(p * scale) : v;
}

/* log2: mantissa m in [sqrt(1/2), sqrt(2)), log2 m = 2/ln2 * atanh(s) with
 * s = (m - 1) / (m + 1), |s| < 0.172, series to s^15. */
static inline float log2_of(float v)
{
    double x = (double)v;
    uint64_t u = vg_double_bits(x);
    int64_t e = (int64_t)((u + UINT64_C(0x95f619980c433)) >> 52) - 1023;
    double m = vg_bits_double(u - ((uint64_t)e << 52));
    double s = (m - 1.0) / (m + 1.0), q = s * s, p = 1.0 / 15;
    p = p * q + 1.0 / 13;
    p = p * q + 1.0 / 11;
    p = p * q + 1.0 / 9;
    p = p * q + 1.0 / 7;
    p = p * q + 1.0 / 5;
    p = p * q + 1.0 / 3;
    p = p * q + 1.0;
    float r = (float)((double)e + p * s * 2.8853900817779268147);
    r = v == INFINITY ? v : r;
    r = v == 0.0f ? -INFINITY : r;
    return v >= 0.0f ? r : NAN;
}

/* 1 / sqrt(x): two roundings in double, one to single; double precision makes
 * the first two harmless. */
static inline float rsqrt_of(float v)
{
    return (float)(1.0 / sqrt((double)v));
}
/* The C library's, lane by lane: these need not be fast. */
static float sin_of(float v)
{
    return (float)sin((double)v);
}
static float cos_of(float v)
{
    return (float)cos((double)v);
}
static float tanh_of(float v)
{
    return (float)tanh((double)v);
}

/* A function over 32 lanes. */
#define FUNCTION(name, f)                                                     \
    static void row_##name(float *r, const float *a)                          \
    {                                                                         \
        for (int l = 0; l < VG_LANES; l++)                                    \
            r[l] = f(a[l]);                                                   \
    }
FUNCTION(ex2, exp2_of)
FUNCTION(lg2, log2_of)
FUNCTION(rsqrt, rsqrt_of)
FUNCTION(sin, sin_of)
FUNCTION(cos, cos_of)
FUNCTION(tanh, tanh_of)

enum op { EX2, LG2, RSQRT, SIN, COS, TANH };
static void (*const rows[])(float *, const float *) = {
    [EX2] = row_ex2, [LG2] = row_lg2, [RSQRT] = row_rsqrt,
    [SIN] = row_sin, [COS] = row_cos, [TANH] = row_tanh,
};

/* f32.  arg: FTZ | op << 8.  A NaN result is the canonical one. */
VG_HANDLER(single)
{
    const float *a = VG_ROW(float, 1);
    float x[VG_LANES], r[VG_LANES];
    bool ftz = i->arg & FTZ;
    for (int l = 0; l < VG_LANES; l++)
        x[l] = ftz ? vg_flush(a[l]) : a[l];
    rows[i->arg >> 8](r, x);
    for (int l = 0; l < VG_LANES; l++) {
        float v = vg_canonical(r[l]);
        r[l] = ftz ? vg_flush(v) : v;
    }
    VG_PUT(0, r);
}

/* ex2 and tanh of halves.  A row of pairs is 64 halves.
 * arg: FTZ | bf16 << 1 | op << 8 */
VG_HANDLER(half)
{
    bool bf16 = i->arg & 2, pairs = i->imm;
    const uint16_t *a = VG_ROW(uint16_t, 1);
    uint16_t r[2 * VG_LANES];
    for (int at = 0; at < (pairs ? 2 : 1) * VG_LANES; at += VG_LANES) {
        float x[VG_LANES], y[VG_LANES];
        (bf16 ? vg_row_bf16_to_f32 : vg_row_f16_to_f32)(x, a + at);
        for (int l = 0; l < VG_LANES && (i->arg & FTZ); l++)
            x[l] = vg_flush(x[l]);
        rows[i->arg >> 8](y, x);
        (bf16 ? vg_row_f32_to_bf16 : vg_row_f32_to_f16)(r + at, y);
    }
    if (pairs)
        vg_put32(vg_row(w, i->op[0]), (const void *)r, mask);
    else
        vg_put16(vg_row(w, i->op[0]), r, mask);
}

/* op.approx{.ftz}.f32 d, a; ex2 and tanh also for halves and pairs of them.
 * rsqrt.approx.f64 is op_double.c's: its decoder wants to see the words that
 * were consumed here, so they are given back. */
static bool decode(struct vg_dec *d)
{
    enum op op = d->out->arg;
    bool approx = vg_mod(d, "approx"), ftz = vg_mod(d, "ftz");
    enum vg_type t;
    uint32_t used = d->used;
    if (!vg_need_type(d, &t))
        return false;
    bool is_half = t == VG_F16 || t == VG_BF16 || t == VG_F16X2 ||
                   t == VG_BF16X2;
    if (t == VG_F64 && op == RSQRT) {
        d->used = used;
        for (int n = 1; n < d->in->nwords; n++)
            if (strcmp(d->in->word[n], "approx") == 0 ||
                strcmp(d->in->word[n], "ftz") == 0)
                d->used &= ~(1u << n);
        return vg_decode_as(d, "rsqrt.double");
    }
    if (!approx || !(t == VG_F32 || (is_half && (op == EX2 || op == TANH))))
        return vg_error(d, "needs .approx and a type it exists for");
    d->out->arg = (ftz ? FTZ : 0) | (uint32_t)op << 8;
    d->out->fn = is_half ? half : single;
    if (t == VG_BF16 || t == VG_BF16X2)
        d->out->arg |= 2;
    d->out->imm = t == VG_F16X2 || t == VG_BF16X2;
    return vg_out(d, 0, -1, vg_bits(t)) && vg_in_typed(d, 1, -1, t);
}

const struct vg_opcode vg_ops_special[] = {
    {"ex2", decode, VG_C_SPECIAL, EX2},
    {"lg2", decode, VG_C_SPECIAL, LG2},
    {"rsqrt", decode, VG_C_SPECIAL, RSQRT},
    {"sin", decode, VG_C_SPECIAL, SIN},
    {"cos", decode, VG_C_SPECIAL, COS},
    {"tanh", decode, VG_C_SPECIAL, TANH},
    {NULL, NULL, 0, 0},
};
