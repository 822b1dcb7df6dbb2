/* SPDX-License-Identifier: Apache-2.0
 *
 * isa_num.h: exact arithmetic for the expected values.
 *
 * A result is computed in binary128 (113 bits), together with the sign of
 * what binary128 itself rounded away, and is then rounded once to the format
 * and mode of the instruction.  Nothing here uses the host's rounding of
 * float or double.
 */
#ifndef TEST_VGPU_ISA_NUM_H
#define TEST_VGPU_ISA_NUM_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef __float128 quad;
typedef unsigned __int128 u128;

/* precision counts the hidden bit; exponents are of the leading bit. */
struct num_format {
    int precision, emin, emax, bits;
};
static const struct num_format num_f64 = {53, -1022, 1023, 64};
static const struct num_format num_f32 = {24, -126, 127, 32};
static const struct num_format num_tf32 = {11, -126, 127, 32};
static const struct num_format num_f16 = {11, -14, 15, 16};
static const struct num_format num_bf16 = {8, -126, 127, 16};

/* RN to nearest even, RZ to zero, RM down, RP up, RNA to nearest, ties away */
enum num_mode { RN, RZ, RM, RP, RNA };

/* A value and the sign of (exact value - value): -1, 0, 1. */
struct num {
    quad v;
    int rest;
};

/* 2^e for any e that binary128 holds. */
static inline quad num_power(int e)
{
    u128 bits = (u128)(unsigned)(e + 16383) << 112;
    quad q;
    memcpy(&q, &bits, sizeof q);
    return q;
}

static inline bool num_is_nan(quad q)
{
    return q != q;
}
static inline bool num_is_inf(quad q)
{
    return q - q != 0 && !num_is_nan(q);
}
static inline bool num_sign(quad q)
{
    u128 bits;
    memcpy(&bits, &q, sizeof q);
    return bits >> 127;
}

/* The value of `bits` in a format with f's layout (IEEE interchange). */
static inline quad num_decode(struct num_format f, uint64_t bits)
{
    int frac = f.precision - 1, ebits = f.bits - f.precision;
    if (f.bits == 32)
        frac = 23, ebits = 8;
    uint64_t m = bits & ((UINT64_C(1) << frac) - 1);
    int e = (int)(bits >> frac & ((1u << ebits) - 1));
    bool sign = bits >> (f.bits - 1) & 1;
    quad v;
    if (e == (1 << ebits) - 1)
        v = m ? (quad)NAN : (quad)INFINITY;
    else if (e == 0)
        v = (quad)m * num_power(f.emin - frac);
    else
        v = ((quad)m + num_power(frac)) * num_power(e - 1 + f.emin - frac);
    return sign ? -v : v;
}

static inline uint64_t num_pack(struct num_format f, bool sign, uint64_t e,
                                uint64_t m)
{
    int frac = f.bits == 32 ? 23 : f.precision - 1;
    return (uint64_t)sign << (f.bits - 1) | e << frac | m;
}

/* Does a magnitude round away from zero?  cut: what is cut off, in units of
 * which half the last place has `half`; odd: the last bit that is kept. */
static inline bool num_rounds_up(enum num_mode mode, bool sign, bool odd,
                                 u128 cut, u128 half)
{
    switch (mode) {
    case RN:
        return cut > half || (cut == half && odd);
    case RNA:
        return cut >= half;
    case RM:
        return sign && cut;
    case RP:
        return !sign && cut;
    default:
        return false;
    }
}

/* What stands for a magnitude beyond the largest finite one. */
static inline uint64_t num_overflow(struct num_format f, bool sign,
                                    enum num_mode mode)
{
    int drop = (f.bits == 32 ? 24 : f.precision) - f.precision;
    bool to_max = mode == RZ || (mode == RM && !sign) || (mode == RP && sign);
    uint64_t top = (uint64_t)(f.emax - f.emin + 1);
    if (!to_max)
        return num_pack(f, sign, top + 1, 0);
    return num_pack(f, sign, top,
                    ((UINT64_C(1) << (f.precision - 1)) - 1) << drop);
}

static inline uint64_t num_nan(struct num_format f)
{
    return f.bits == 64 ? UINT64_C(0x7fffffffffffffff)
                        : (UINT64_C(1) << (f.bits - 1)) - 1;
}

/* x rounded to f. */
static inline uint64_t num_round(struct num_format f, struct num x,
                                 enum num_mode mode)
{
    u128 bits;
    memcpy(&bits, &x.v, sizeof bits);
    bool sign = bits >> 127;
    int biased = (int)(bits >> 112 & 0x7fff);
    u128 m = bits & (((u128)1 << 112) - 1);
    if (num_is_nan(x.v))
        return num_nan(f);
    if (num_is_inf(x.v))
        return num_pack(f, sign, (uint64_t)(f.emax - f.emin + 2), 0);
    if (biased == 0)
        return num_pack(f, sign, 0, 0);
    /* The magnitude is m 2^low, two bits longer for the rest. */
    int e = biased - 16383, low = e - 114;
    m = (m | (u128)1 << 112) << 2;
    m += (u128)(x.rest * (sign ? -1 : 1));
    e -= !(m >> 114);
    int last = (e > f.emin ? e : f.emin) - (f.precision - 1);
    int shift = last - low;
    u128 kept = shift > 126 ? 0 : m >> shift;
    u128 half = (u128)1 << (shift > 126 ? 126 : shift - 1);
    kept += num_rounds_up(mode, sign, kept & 1,
                          shift > 126 ? 1 : m - (kept << shift), half);
    if (kept >> f.precision)
        kept >>= 1, last++;
    if (last + f.precision - 1 > f.emax)
        return num_overflow(f, sign, mode);
    int drop = f.bits == 32 ? 24 - f.precision : 0;
    uint64_t hidden = UINT64_C(1) << (f.precision - 1);
    if (!(kept & hidden))
        return num_pack(f, sign, 0, (uint64_t)kept << drop);
    uint64_t exponent = (uint64_t)(last + f.precision - 1 - f.emin + 1);
    return num_pack(f, sign, exponent, (uint64_t)(kept - hidden) << drop);
}

/* --- operations ---------------------------------------------------------- */

static inline struct num num_exact(quad v)
{
    return (struct num){v, 0};
}

static inline int num_signum(quad q)
{
    return (q > 0) - (q < 0);
}

/* a + b, with the sign of the error (Knuth's TwoSum, exact in binary128).
 * The sign of an exact zero sum follows IEEE 754: - only for RM. */
static inline struct num num_add(quad a, quad b, enum num_mode mode)
{
    quad s = a + b;
    if (num_is_nan(s) || num_is_inf(s))
        return num_exact(s);
    quad bb = s - a;
    quad error = (a - (s - bb)) + (b - bb);
    if (s == 0 && (a != 0 || num_sign(a) != num_sign(b)))
        s = mode == RM ? -(quad)0 : (quad)0;
    return (struct num){s, num_signum(error)};
}

/* Exact for factors of at most 53 bits. */
static inline struct num num_mul(quad a, quad b)
{
    return num_exact(a * b);
}

static inline struct num num_fma(quad a, quad b, quad c, enum num_mode mode)
{
    return num_add(a * b, c, mode);
}

/* binary128's own rounding is harmless: a quotient or root of numbers of at
 * most 53 bits is representable, or further from every tie of at most 53
 * bits than 2^-108. */
static inline struct num num_div(quad a, quad b)
{
    return num_exact(a / b);
}

static inline struct num num_sqrt(quad a)
{
    if (!(a > 0) || num_is_inf(a))
        return num_exact(a < 0 ? (quad)NAN : a);
    quad scale = 1;
    while (a < num_power(-1000))
        a *= num_power(400), scale *= num_power(-200);
    quad s = (quad)sqrtl((long double)a);
    s = (s + a / s) / 2;
    s = (s + a / s) / 2;
    return num_exact(s * scale);
}

/* Flush to zero: a subnormal of the format becomes a zero of its sign. */
static inline uint64_t num_flush32(uint64_t bits)
{
    return bits & 0x7f800000 ? bits : bits & 0x80000000;
}

#endif
