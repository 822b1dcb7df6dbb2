/* SPDX-License-Identifier: Apache-2.0
 *
 * small_float.h: 16-bit and narrower floats to fp32 and back, exactly.
 *
 * Branch-free integer code that compilers vectorise; independent of the
 * host's rounding and flush modes as long as subnormals are honoured.
 */
#ifndef VGPU_SMALL_FLOAT_H
#define VGPU_SMALL_FLOAT_H

#include <stdint.h>
#include <string.h>

static inline float vg_sf_float(uint32_t u)
{
    float x;

    memcpy(&x, &u, sizeof x);
    return x;
}

static inline uint32_t vg_sf_bits(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof u);
    return u;
}

/* A float with e exponent bits of bias `bias` and m mantissa bits below a
 * sign bit: shifting its magnitude to fp32's place scales it by
 * 2^(bias - 127), subnormals included. */
static inline float vg_sf_widen(uint32_t v, unsigned e, unsigned m,
                                unsigned bias)
{
    uint32_t sign = v >> (e + m) << 31;
    uint32_t mag = (v & ((1u << (e + m)) - 1)) << (23 - m);
    float x = vg_sf_float(mag) * vg_sf_float((254 - bias) << 23);

    return vg_sf_float(vg_sf_bits(x) | sign);
}

/* IEEE-like formats: the largest exponent is infinity and NaN. */
static inline float vg_sf_from_f16(uint32_t v)
{
    uint32_t special = (v & 0x7c00) == 0x7c00 ? 0x7f800000u : 0;

    return vg_sf_float(vg_sf_bits(vg_sf_widen(v & 0xffff, 5, 10, 15)) |
                       special);
}

static inline float vg_sf_from_bf16(uint32_t v)
{
    return vg_sf_float(v << 16);
}

/* The hardware reads the upper 19 bits of a tf32 register. */
static inline float vg_sf_from_tf32(uint32_t v)
{
    return vg_sf_float(v & 0xffffe000u);
}

static inline float vg_sf_from_e5m2(uint32_t v)
{
    uint32_t special = (v & 0x7c) == 0x7c ? 0x7f800000u : 0;

    return vg_sf_float(vg_sf_bits(vg_sf_widen(v & 0xff, 5, 2, 15)) | special);
}

/* e4m3 has no infinity; 0x7f and 0xff are NaN. */
static inline float vg_sf_from_e4m3(uint32_t v)
{
    uint32_t nan = (v & 0x7f) == 0x7f ? 0x7fc00000u : 0;

    return vg_sf_float(vg_sf_bits(vg_sf_widen(v & 0xff, 4, 3, 7)) | nan);
}

/* fp32 to the nearest f16 and bf16, ties to even; NaN: 0x7fff. */
static inline uint32_t vg_sf_to_f16(float x)
{
    uint32_t sign = vg_sf_bits(x) >> 16 & 0x8000;
    uint32_t mag = vg_sf_bits(x) & 0x7fffffff;
    /* Subnormals: adding 0.5 leaves x / 2^-24, rounded, in the low bits. */
    uint32_t tiny = vg_sf_bits(vg_sf_float(mag) + 0.5f) - 0x3f000000u;
    uint32_t odd = mag >> 13 & 1;
    uint32_t h = ((mag + 0xfff + odd) >> 13) - (112u << 10);

    h = mag < 0x38800000u ? tiny : h;
    h = mag >= 0x477ff000u ? 0x7c00 : h;
    return mag > 0x7f800000u ? 0x7fff : sign | h;
}

static inline uint32_t vg_sf_to_bf16(float x)
{
    uint32_t u = vg_sf_bits(x);
    uint32_t r = (u + 0x7fff + (u >> 16 & 1)) >> 16;

    return (u & 0x7fffffff) > 0x7f800000u ? 0x7fff : r;
}

#endif
