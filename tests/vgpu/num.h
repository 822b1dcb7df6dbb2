/* SPDX-License-Identifier: Apache-2.0
 *
 * num.h: number formats of PTX and rounding into them.
 *
 * Every value of every format up to f64 is exact in a double, so narrowing is
 * one function for all formats: scale to units of the last place, split into
 * integer and rest, round by the mode, re-encode (num.c).  Formats: PTX ISA
 * 9.0 section 5.2.3 and the OCP 8-bit specification.
 */
#ifndef VGPU_NUM_H
#define VGPU_NUM_H

#include "exec.h"

enum vg_rounding { VG_RN, VG_RZ, VG_RM, VG_RP, VG_RNA };

struct vg_format {
    int mant;           /* explicit mantissa bits */
    int emin;           /* exponent of the smallest normal number */
    uint32_t sign;      /* sign bit, 0 for unsigned formats */
    uint32_t inf;       /* encoding of infinity, 0: there is none */
    uint32_t nan;       /* canonical NaN, 0: there is none */
    uint32_t max;       /* encoding of the largest finite number */
};
extern const struct vg_format vg_f16, vg_bf16, vg_tf32, vg_f32, vg_e4m3,
    vg_e5m2, vg_e2m1, vg_e2m3, vg_e3m2, vg_ue8m0;

/* v rounded to format f.  finite: overflow and infinity give the largest
 * finite number (.satfinite). */
uint32_t vg_narrow(double v, const struct vg_format *f,
                   enum vg_rounding mode, bool finite);
/* The number that `bits` encodes in format f. */
double vg_widen(uint32_t bits, const struct vg_format *f);

/* Double to odd-rounded double of the exact a*b + c: rounding it once more,
 * to any format of at most 51 bits, gives the correctly rounded fma. */
double vg_fma_odd(double a, double b, double c);

/* Rows of 32: fast forms of the common conversions.  Results are canonical:
 * NaN becomes 0x7fff, 0x7fffffff. */
void vg_row_f16_to_f32(float *r, const uint16_t *a);
void vg_row_f32_to_f16(uint16_t *r, const float *a);
void vg_row_bf16_to_f32(float *r, const uint16_t *a);
void vg_row_f32_to_bf16(uint16_t *r, const float *a);

static inline uint32_t vg_float_bits(float v)
{
    union { float f; uint32_t u; } x = {.f = v};
    return x.u;
}
static inline float vg_bits_float(uint32_t v)
{
    union { uint32_t u; float f; } x = {.u = v};
    return x.f;
}
static inline uint64_t vg_double_bits(double v)
{
    union { double d; uint64_t u; } x = {.d = v};
    return x.u;
}
static inline double vg_bits_double(uint64_t v)
{
    union { uint64_t u; double d; } x = {.u = v};
    return x.d;
}
/* Subnormals to zero of the same sign. */
static inline float vg_flush(float v)
{
    uint32_t u = vg_float_bits(v);
    return vg_bits_float(u & 0x7f800000 ? u : u & 0x80000000);
}
/* Any NaN to the one that the hardware makes. */
static inline float vg_canonical(float v)
{
    return v == v ? v : vg_bits_float(0x7fffffff);
}
static inline float vg_saturate(float v)    /* NaN: +0 */
{
    return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f;
}

#endif
