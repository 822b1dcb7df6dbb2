/* SPDX-License-Identifier: Apache-2.0
 *
 * num.c: rounding to and from small number formats; see num.h.
 */
#include "num.h"

#include <math.h>

#if defined __F16C__
#include <immintrin.h>
#endif

/* Mantissa bits, smallest exponent, sign bit, infinity, NaN and the largest
 * number as codes (num.h).  0 for infinity or NaN: the format has none. */
const struct vg_format vg_f16 = {10, -14, 0x8000, 0x7c00, 0x7fff, 0x7bff};
const struct vg_format vg_bf16 = {7, -126, 0x8000, 0x7f80, 0x7fff, 0x7f7f};
const struct vg_format vg_tf32 = {10, -126, 0x40000, 0x3fc00, 0x3ffff,
                                  0x3fbff};
const struct vg_format vg_f32 = {23,         -126,       0x80000000,
                                 0x7f800000, 0x7fffffff, 0x7f7fffff};
const struct vg_format vg_e4m3 = {3, -6, 0x80, 0, 0x7f, 0x7e};
const struct vg_format vg_e5m2 = {2, -14, 0x80, 0x7c, 0x7f, 0x7b};
const struct vg_format vg_e2m1 = {1, 0, 0x8, 0, 0, 0x7};
const struct vg_format vg_e2m3 = {3, 0, 0x20, 0, 0, 0x1f};
const struct vg_format vg_e3m2 = {2, -2, 0x20, 0, 0, 0x1f};
const struct vg_format vg_ue8m0 = {0, -127, 0, 0, 0xff, 0xfe};

static double power(int e)      /* 2^e, -1022 <= e <= 1023 */
{
    return vg_bits_double((uint64_t)(1023 + e) << 52);
}

/* Does the discarded part `rest` (in units of the last place) round n up? */
static bool round_up(uint64_t n, double rest, bool minus,
                     enum vg_rounding mode)
{
    switch (mode) {
    case VG_RN: return rest > 0.5 || (rest == 0.5 && (n & 1));
    case VG_RNA: return rest >= 0.5;
    case VG_RM: return minus && rest > 0;
    case VG_RP: return !minus && rest > 0;
    case VG_RZ: break;
    }
    return false;
}

/* Overflow: to infinity, unless the mode or the format stops at max. */
static uint32_t overflow(const struct vg_format *f, bool minus,
                         enum vg_rounding mode, bool finite)
{
    bool stop = mode == VG_RZ || (mode == VG_RM && !minus) ||
                (mode == VG_RP && minus);
    if (finite || stop)
        return f->max;
    return f->inf ? f->inf : f->nan ? f->nan : f->max;
}

/* scaled = |v| in units of the result's last place, which for subnormal
 * results is the format's smallest number; n, its integer part rounded, is
 * the mantissa with the hidden bit. Adding n to the shifted exponent lets a
 * carry move into the exponent by itself. */
uint32_t vg_narrow(double v, const struct vg_format *f,
                   enum vg_rounding mode, bool finite)
{
    bool minus = vg_double_bits(v) >> 63;
    uint32_t sign = minus ? f->sign : 0;
    double a = fabs(v);
    if (v != v)
        return f->nan ? f->nan : f->max;
    if (minus && !f->sign)
        return a > 0 && f->nan ? f->nan : 0;
    /* Beyond any format's largest number, and too large to be scaled. */
    if (a > power(1023) * 1.99)
        return sign | (isinf(a) && f->inf && !finite
                           ? f->inf : overflow(f, minus, mode, finite));
    int e = (int)(vg_double_bits(a) >> 52) - 1023;
    int unit = (e < f->emin ? f->emin : e) - f->mant;
    double scaled = a * power(-unit);
    uint64_t n = (uint64_t)scaled;
    n += round_up(n, scaled - (double)n, minus, mode);
    uint64_t code = ((uint64_t)(unit + f->mant - f->emin) << f->mant) + n;
    if (f == &vg_ue8m0)     /* no zero, no subnormals: 0 encodes 2^-127 */
        code = n ? code - 1 : 0;
    return sign | (code > f->max ? overflow(f, minus, mode, finite)
                                 : (uint32_t)code);
}

/* NaN for codes above the largest number, which covers both the IEEE formats
 * and e4m3's single NaN. */
double vg_widen(uint32_t bits, const struct vg_format *f)
{
    uint32_t code = f->sign ? bits & (f->sign - 1) : bits;
    double sign = f->sign && (bits & f->sign) ? -1.0 : 1.0;
    if (f->inf && code == f->inf)
        return sign * (double)INFINITY;
    if (code > f->max)
        return (double)NAN;
    if (f == &vg_ue8m0)
        return power((int)code - 127);
    uint32_t e = code >> f->mant, m = code & ((1u << f->mant) - 1);
    if (!e)
        return sign * (double)m * power(f->emin - f->mant);
    return sign * (double)(m | 1u << f->mant) *
           power((int)e - 1 + f->emin - f->mant);
}

/* Knuth's TwoSum gives the rounding error of p + c exactly. When there is
 * one, the last bit is made odd (Boldo and Melquiond, Emulation of FMA and
 * correctly rounded sums, 2008). */
double vg_fma_odd(double a, double b, double c)
{
    double p = a * b;               /* exact: at most 22 bits each side */
    double s = p + c, t = s - p;
    double err = (p - (s - t)) + (c - t);
    uint64_t u = vg_double_bits(s);
    if (err != 0 && !(u & 1) && isfinite(s))
        u += (err > 0) == (s > 0) ? 1 : UINT64_MAX;
    return vg_bits_double(u);
}

/* Whole rows of the common formats, 32 lanes at a time.  NaN becomes the
 * canonical one, as the conversions of the hardware do. */
void vg_row_bf16_to_f32(float *r, const uint16_t *a)
{
    for (int l = 0; l < VG_LANES; l++) {
        uint32_t u = (uint32_t)a[l] << 16;
        r[l] = vg_canonical(vg_bits_float(u));
    }
}

/* Round to nearest even: adding half of the last place, less one where it is
 * even already, carries into the exponent by itself. */
void vg_row_f32_to_bf16(uint16_t *r, const float *a)
{
    for (int l = 0; l < VG_LANES; l++) {
        uint32_t u = vg_float_bits(a[l]);
        uint32_t even = (u + 0x7fff + (u >> 16 & 1)) >> 16;
        r[l] = (uint16_t)(a[l] == a[l] ? even : 0x7fff);
    }
}

#if defined __F16C__
/* The host's own conversions give the same numbers; only NaNs differ. */
void vg_row_f16_to_f32(float *r, const uint16_t *a)
{
    for (int l = 0; l < VG_LANES; l += 8) {
        __m128i h = _mm_loadu_si128((const __m128i *)(a + l));
        _mm256_storeu_ps(r + l, _mm256_cvtph_ps(h));
    }
    for (int l = 0; l < VG_LANES; l++)
        r[l] = vg_canonical(r[l]);
}

void vg_row_f32_to_f16(uint16_t *r, const float *a)
{
    for (int l = 0; l < VG_LANES; l += 8) {
        __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(a + l), 0);
        _mm_storeu_si128((__m128i *)(r + l), h);
    }
    for (int l = 0; l < VG_LANES; l++)
        r[l] = (r[l] & 0x7fff) > 0x7c00 ? 0x7fff : r[l];
}
#else
void vg_row_f16_to_f32(float *r, const uint16_t *a)
{
    for (int l = 0; l < VG_LANES; l++)
        r[l] = vg_canonical((float)vg_widen(a[l], &vg_f16));
}

void vg_row_f32_to_f16(uint16_t *r, const float *a)
{
    for (int l = 0; l < VG_LANES; l++)
        r[l] = (uint16_t)vg_narrow((double)a[l], &vg_f16, VG_RN, false);
}
#endif
