/* SPDX-License-Identifier: Apache-2.0
 *
 * test_isa_cvt.c: conversions (PTX ISA 9.7.9.21, .22 and cvt.pack), and mov
 * with packing (9.7.9.1).
 */
#include "isa.h"
#include "isa_num.h"

#define REF(name, expression)                                                 \
    static void name(struct isa_lane *x)                                      \
    {                                                                         \
        uint64_t A = x->a, B = x->b, C = x->c;                                \
        (void)A, (void)B, (void)C;                                            \
        x->d = (uint64_t)(expression);                                        \
    }

/* --- between integers ---------------------------------------------------- */

static int64_t sext(uint64_t v, int bits)
{
    return (int64_t)(v << (64 - bits)) >> (64 - bits);
}
static uint64_t zext(uint64_t v, int bits)
{
    return v << (64 - bits) >> (64 - bits);
}

/* The value clamped to a signed or unsigned type of that many bits. */
static int64_t clamp_signed(__int128 v, int bits)
{
    __int128 top = ((__int128)1 << (bits - 1)) - 1;
    return (int64_t)(v > top ? top : v < -top - 1 ? -top - 1 : v);
}
static uint64_t clamp_unsigned(__int128 v, int bits)
{
    __int128 top = ((__int128)1 << bits) - 1;
    return (uint64_t)(v > top ? top : v < 0 ? 0 : v);
}

REF(s8_to, sext(A, 8))
REF(u8_to, zext(A, 8))
REF(s16_to, sext(A, 16))
REF(u16_to, zext(A, 16))
REF(s32_to, sext(A, 32))
REF(u32_to, zext(A, 32))
REF(same, A)
REF(sat_u8_s32, clamp_unsigned(sext(A, 32), 8))
REF(sat_s8_s32, clamp_signed(sext(A, 32), 8))
REF(sat_u16_s32, clamp_unsigned(sext(A, 32), 16))
REF(sat_s16_s64, clamp_signed(sext(A, 64), 16))
REF(sat_s32_u32, clamp_signed(zext(A, 32), 32))
REF(sat_u32_s64, clamp_unsigned(sext(A, 64), 32))
REF(sat_s64_u64, A > INT64_MAX ? INT64_MAX : A)

/* cvt.pack: b in the low, a in the high half; with c: a, b in the low half
 * of the word and c's low half above them. */
REF(pack_s16, zext(sext(clamp_signed(sext(A, 32), 16), 16), 16) << 16 |
                  zext(clamp_signed(sext(B, 32), 16), 16))
REF(pack_u16,
    clamp_unsigned(sext(A, 32), 16) << 16 | clamp_unsigned(sext(B, 32), 16))
REF(pack_u8, zext(C, 16) << 16 | clamp_unsigned(sext(A, 32), 8) << 8 |
                 clamp_unsigned(sext(B, 32), 8))
REF(pack_s8, zext(C, 16) << 16 | zext(clamp_signed(sext(A, 32), 8), 8) << 8 |
                 zext(clamp_signed(sext(B, 32), 8), 8))

/* --- float to integer: rounded, then clamped ----------------------------- */

/* q rounded to an integer, which must fit in 100 bits. */
static __int128 to_integer(quad q, enum num_mode mode)
{
    quad limit = num_power(100), half = 0.5;
    if (q > limit || q < -limit)
        return q > 0 ? (__int128)1 << 100 : -((__int128)1 << 100);
    __int128 i = (__int128)q; /* toward zero */
    quad rest = q - (quad)i, size = rest < 0 ? -rest : rest;
    bool up = (mode == RP && rest > 0) || (mode == RM && rest < 0) ||
              (mode == RN && (size > half || (size == half && (i & 1))));
    return up ? i + (rest > 0 ? 1 : -1) : i;
}

/* ISA: a NaN becomes 0, or, when .f64 or a 64-bit type takes part, the
 * destination's most significant bit alone. */
static uint64_t to_int(quad q, enum num_mode mode, int bits, bool is_signed,
                       bool from_f64)
{
    if (num_is_nan(q))
        return from_f64 || bits == 64 ? UINT64_C(1) << (bits - 1) : 0;
    __int128 i = to_integer(q, mode);
    return is_signed ? (uint64_t)clamp_signed(i, bits)
                     : clamp_unsigned(i, bits);
}
#define TO_INT(type, bits, is_signed)                                         \
    REF(rni_##type##_f32, to_int(F32, RN, bits, is_signed, false))            \
    REF(rzi_##type##_f32, to_int(F32, RZ, bits, is_signed, false))            \
    REF(rmi_##type##_f32, to_int(F32, RM, bits, is_signed, false))            \
    REF(rpi_##type##_f32, to_int(F32, RP, bits, is_signed, false))            \
    REF(rmi_##type##_ftz, to_int(F32Z, RM, bits, is_signed, false))           \
    REF(rni_##type##_f64, to_int(F64, RN, bits, is_signed, true))             \
    REF(rzi_##type##_f64, to_int(F64, RZ, bits, is_signed, true))             \
    REF(rpi_##type##_f64, to_int(F64, RP, bits, is_signed, true))             \
    REF(rni_##type##_f16, to_int(F16, RN, bits, is_signed, false))            \
    REF(rzi_##type##_f16, to_int(F16, RZ, bits, is_signed, false))
#define F32 num_decode(num_f32, A)
#define F32Z num_decode(num_f32, num_flush32(A))
#define F64 num_decode(num_f64, A)
#define F16 num_decode(num_f16, A)
#define BF16 num_decode(num_bf16, A)
TO_INT(s16, 16, true)
TO_INT(u16, 16, false)
TO_INT(s32, 32, true)
TO_INT(u32, 32, false)
TO_INT(s64, 64, true)
TO_INT(u64, 64, false)

/* --- integer to float ---------------------------------------------------- */

#define FROM_INT(name, format, value)                                         \
    REF(rn_##name, num_round(format, num_exact(value), RN))                   \
    REF(rz_##name, num_round(format, num_exact(value), RZ))                   \
    REF(rm_##name, num_round(format, num_exact(value), RM))                   \
    REF(rp_##name, num_round(format, num_exact(value), RP))
FROM_INT(f32_s32, num_f32, sext(A, 32))
FROM_INT(f32_u32, num_f32, A)
FROM_INT(f32_s64, num_f32, sext(A, 64))
FROM_INT(f32_u64, num_f32, A)
FROM_INT(f32_s16, num_f32, sext(A, 16))
FROM_INT(f32_u8, num_f32, zext(A, 8))
FROM_INT(f64_s32, num_f64, sext(A, 32))
FROM_INT(f64_u64, num_f64, A)
FROM_INT(f64_s64, num_f64, sext(A, 64))
FROM_INT(f16_s32, num_f16, sext(A, 32))
FROM_INT(f16_u16, num_f16, A)

/* --- between floats ------------------------------------------------------ */

#define BETWEEN(name, format, value)                                          \
    REF(rn_##name, num_round(format, num_exact(value), RN))                   \
    REF(rz_##name, num_round(format, num_exact(value), RZ))
BETWEEN(f16_f32, num_f16, F32)
BETWEEN(bf16_f32, num_bf16, F32)
BETWEEN(f16_f64, num_f16, F64)
FROM_INT(f32_f64, num_f32, F64)
REF(rn_ftz_f32_f64, num_flush32(num_round(num_f32, num_exact(F64), RN)))
REF(f32_f16, num_round(num_f32, num_exact(F16), RN))
REF(f32_bf16, A << 16)
REF(f64_f16, num_round(num_f64, num_exact(F16), RN))
REF(f64_f32, num_round(num_f64, num_exact(F32), RN))
REF(f64_f32_ftz, num_round(num_f64, num_exact(F32Z), RN))

/* Rounding to an integral value of the same type; the sign of zero stays. */
static uint64_t integral(struct num_format f, quad q, enum num_mode mode)
{
    if (num_is_nan(q) || num_is_inf(q) || q > num_power(90) ||
        q < -num_power(90))
        return num_round(f, num_exact(q), RN);
    quad r = (quad)to_integer(q, mode);
    return num_round(f, num_exact(r == 0 && num_sign(q) ? -(quad)0 : r), RN);
}
REF(rni_f32, integral(num_f32, F32, RN))
REF(rzi_f32, integral(num_f32, F32, RZ))
REF(rmi_f32, integral(num_f32, F32, RM))
REF(rpi_f32, integral(num_f32, F32, RP))
REF(rni_f64, integral(num_f64, F64, RN))
REF(rmi_f64, integral(num_f64, F64, RM))
REF(rni_f16, integral(num_f16, F16, RN))

static uint64_t saturate(uint64_t bits)
{
    quad v = num_decode(num_f32, bits);
    return v > 0 ? (v < 1 ? bits : 0x3f800000) : 0;
}
REF(sat_f32, saturate(A))
REF(sat_f32_f16, saturate(num_round(num_f32, num_exact(F16), RN)))

/* .relu: what is negative, -0 included, becomes +0; a NaN stays one. */
static uint64_t relu(uint64_t half)
{
    return half & 0x8000 && (half & 0x7fff) <= 0x7c00 ? 0 : half;
}
static uint64_t relu_bf16(uint64_t half)
{
    return half & 0x8000 && (half & 0x7fff) <= 0x7f80 ? 0 : half;
}
static uint64_t round_f32(struct num_format f, uint64_t bits,
                          enum num_mode mode)
{
    return num_round(f, num_exact(num_decode(num_f32, bits)), mode);
}
REF(relu_f16, relu(round_f32(num_f16, A, RN)))
REF(relu_bf16_1, relu_bf16(round_f32(num_bf16, A, RN)))

/* Packed: a is the high half, b the low one. */
#define PACKED(name, convert)                                                 \
    static void name(struct isa_lane *x)                                      \
    {                                                                         \
        uint64_t v = x->a, hi = convert;                                      \
        v = x->b;                                                             \
        x->d = hi << 16 | (convert);                                          \
    }
PACKED(f16x2, round_f32(num_f16, v, RN))
PACKED(f16x2_rz, round_f32(num_f16, v, RZ))
PACKED(f16x2_relu, relu(round_f32(num_f16, v, RN)))
PACKED(bf16x2, round_f32(num_bf16, v, RN))
PACKED(bf16x2_rz, round_f32(num_bf16, v, RZ))
PACKED(bf16x2_relu, relu_bf16(round_f32(num_bf16, v, RN)))

/* tf32: the upper 19 bits of .f32. */
REF(rna_tf32, round_f32(num_tf32, A, RNA))
REF(rn_tf32, round_f32(num_tf32, A, RN))
REF(rz_tf32, round_f32(num_tf32, A, RZ))
REF(relu_tf32, num_is_nan(F32) ? 0x7fffffff
               : F32 > 0       ? round_f32(num_tf32, A, RN)
                               : 0)

/* --- eight-bit floats (OCP OFP8; ISA 5.2.3) ------------------------------ */

/* e4m3: bias 7, 0x7f is NaN, no infinity, largest 448.  e5m2: an IEEE format
 * with bias 15, largest 57344. */
static double fp8_value(uint64_t v, int mantissa, int bias)
{
    int m = (int)(v & ((1u << mantissa) - 1));
    int e = (int)(v >> mantissa & (mantissa == 3 ? 15 : 31));
    double d;
    if (mantissa == 3 && (v & 0x7f) == 0x7f)
        d = NAN;
    else if (mantissa == 2 && e == 31)
        d = m ? NAN : INFINITY;
    else if (e == 0)
        d = ldexp(m, 1 - bias - mantissa);
    else
        d = ldexp(m + (1 << mantissa), e - bias - mantissa);
    return v & 0x80 ? -d : d;
}

/* The nearest of all finite codes, ties to the even one; satfinite. */
static uint64_t to_fp8(double v, int mantissa, int bias, bool is_relu)
{
    uint64_t best = 0, top = mantissa == 3 ? 0x7e : 0x7b;
    double least = INFINITY;
    if (isnan(v))
        return 0x7f;
    if (is_relu && v <= 0)
        return 0;
    double size = fabs(v);
    for (uint64_t k = 0; k <= top; k++) {
        double error = fabs(size - fp8_value(k, mantissa, bias));
        if (error < least || (error == least && !(k & 1))) {
            least = error;
            best = k;
        }
    }
    if (size >= fp8_value(top, mantissa, bias))
        best = top;
    return best | (signbit(v) ? 0x80 : 0);
}
#define TO_FP8(name, mantissa, bias, is_relu)                                 \
    REF(name, to_fp8(isa_single(A), mantissa, bias, is_relu) << 8 |           \
                  to_fp8(isa_single(B), mantissa, bias, is_relu))             \
    REF(name##_f16x2, to_fp8(isa_half(A >> 16), mantissa, bias, is_relu)      \
                              << 8 |                                          \
                          to_fp8(isa_half(A), mantissa, bias, is_relu))
TO_FP8(e4m3, 3, 7, false)
TO_FP8(e4m3_relu, 3, 7, true)
TO_FP8(e5m2, 2, 15, false)
TO_FP8(e5m2_relu, 2, 15, true)

static uint64_t half_of_fp8(uint64_t v, int mantissa, int bias)
{
    quad q = (quad)fp8_value(v & 0xff, mantissa, bias);
    return num_round(num_f16, num_exact(q), RN);
}
REF(f16x2_e4m3, half_of_fp8(A >> 8, 3, 7) << 16 | half_of_fp8(A, 3, 7))
REF(f16x2_e5m2, half_of_fp8(A >> 8, 2, 15) << 16 | half_of_fp8(A, 2, 15))
REF(f16x2_e4m3_relu,
    relu(half_of_fp8(A >> 8, 3, 7)) << 16 | relu(half_of_fp8(A, 3, 7)))

/* --- mov ----------------------------------------------------------------- */

REF(pack64, zext(A, 32) | zext(B, 32) << 32)
REF(pack32, zext(A, 16) | zext(B, 16) << 16)
static void unpack64(struct isa_lane *x)
{
    x->d = zext(x->a, 32);
    x->e = x->a >> 32;
}
static void unpack32(struct isa_lane *x)
{
    x->d = zext(x->a, 16);
    x->e = x->a >> 16;
}
REF(upper, A >> 32)

#define ALL_TO_INT(type, d)                                                   \
    {.text = "cvt.rni." #type ".f32 $d, $a;", d ":4", "f", rni_##type##_f32}, \
        {.text = "cvt.rzi." #type ".f32 $d, $a;",                             \
         d ":4",                                                              \
         "f",                                                                 \
         rzi_##type##_f32},                                                   \
        {.text = "cvt.rmi." #type ".f32 $d, $a;",                             \
         d ":4",                                                              \
         "f",                                                                 \
         rmi_##type##_f32},                                                   \
        {.text = "cvt.rpi." #type ".f32 $d, $a;",                             \
         d ":4",                                                              \
         "f",                                                                 \
         rpi_##type##_f32},                                                   \
        {.text = "cvt.rmi.ftz." #type ".f32 $d, $a;",                         \
         d ":4",                                                              \
         "f",                                                                 \
         rmi_##type##_ftz},                                                   \
        {.text = "cvt.rni." #type ".f64 $d, $a;",                             \
         d ":8",                                                              \
         "g",                                                                 \
         rni_##type##_f64},                                                   \
        {.text = "cvt.rzi." #type ".f64 $d, $a;",                             \
         d ":8",                                                              \
         "g",                                                                 \
         rzi_##type##_f64},                                                   \
        {.text = "cvt.rpi." #type ".f64 $d, $a;",                             \
         d ":8",                                                              \
         "g",                                                                 \
         rpi_##type##_f64},                                                   \
        {.text = "cvt.rni." #type ".f16 $d, $a;",                             \
         d ":2",                                                              \
         "h",                                                                 \
         rni_##type##_f16},                                                   \
    {                                                                         \
        .text = "cvt.rzi." #type ".f16 $d, $a;", d ":2", "h",                 \
        rzi_##type##_f16                                                      \
    }
#define ALL_MODES(types, sig, pool, name, how)                                \
    {.text = "cvt.rn" types " $d, $a;", sig, pool, rn_##name, how},           \
        {.text = "cvt.rz" types " $d, $a;", sig, pool, rz_##name, how},       \
        {.text = "cvt.rm" types " $d, $a;", sig, pool, rm_##name, how},       \
    {                                                                         \
        .text = "cvt.rp" types " $d, $a;", sig, pool, rp_##name, how          \
    }

static const struct isa_row rows[] = {
    {.text = "cvt.s32.s8 $d, $a;", "4:4", "i", s8_to},
    {.text = "cvt.u32.u8 $d, $a;", "4:4", "i", u8_to},
    {.text = "cvt.s16.s8 $d, $a;", "2:2", "i", s8_to},
    {.text = "cvt.u16.u8 $d, $a;", "2:2", "i", u8_to},
    {.text = "cvt.u8.u32 $d, $a;", "4:4", "i", u8_to},
    {.text = "cvt.s8.s32 $d, $a;", "4:4", "i", s8_to},
    {.text = "cvt.u16.u32 $d, $a;", "2:4", "i", u16_to},
    {.text = "cvt.u32.u16 $d, $a;", "4:2", "i", u16_to},
    {.text = "cvt.s32.s16 $d, $a;", "4:2", "i", s16_to},
    {.text = "cvt.s64.s16 $d, $a;", "8:2", "i", s16_to},
    {.text = "cvt.u64.u16 $d, $a;", "8:2", "i", u16_to},
    {.text = "cvt.s64.s32 $d, $a;", "8:4", "i", s32_to},
    {.text = "cvt.u64.u32 $d, $a;", "8:4", "i", u32_to},
    {.text = "cvt.u32.u64 $d, $a;", "4:8", "i", u32_to},
    {.text = "cvt.u64.s32 $d, $a;", "8:4", "i", s32_to},
    {.text = "cvt.s64.s8 $d, $a;", "8:4", "i", s8_to},
    {.text = "cvt.u32.u32 $d, $a;", "4:4", "i", same},
    {.text = "cvt.sat.u8.s32 $d, $a;", "4:4", "i", sat_u8_s32},
    {.text = "cvt.sat.s8.s32 $d, $a;", "4:4", "i", sat_s8_s32},
    {.text = "cvt.sat.u16.s32 $d, $a;", "2:4", "i", sat_u16_s32},
    {.text = "cvt.sat.s16.s64 $d, $a;", "2:8", "i", sat_s16_s64},
    {.text = "cvt.sat.s32.u32 $d, $a;", "4:4", "i", sat_s32_u32},
    {.text = "cvt.sat.u32.s64 $d, $a;", "4:8", "i", sat_u32_s64},
    {.text = "cvt.sat.s64.u64 $d, $a;", "8:8", "i", sat_s64_u64},
    {.text = "cvt.pack.sat.s16.s32 $d, $a, $b;", "4:44", "ii", pack_s16},
    {.text = "cvt.pack.sat.u16.s32 $d, $a, $b;", "4:44", "ii", pack_u16},
    {.text = "cvt.pack.sat.u8.s32.b32 $d, $a, $b, $c;",
     "4:444",
     "iii",
     pack_u8},
    {.text = "cvt.pack.sat.s8.s32.b32 $d, $a, $b, $c;",
     "4:444",
     "iii",
     pack_s8},

    ALL_TO_INT(s16, "2"),
    ALL_TO_INT(u16, "2"),
    ALL_TO_INT(s32, "4"),
    ALL_TO_INT(u32, "4"),
    ALL_TO_INT(s64, "8"),
    ALL_TO_INT(u64, "8"),

    ALL_MODES(".f32.s32", "4:4", "i", f32_s32, ISA_F32),
    ALL_MODES(".f32.u32", "4:4", "i", f32_u32, ISA_F32),
    ALL_MODES(".f32.s64", "4:8", "i", f32_s64, ISA_F32),
    ALL_MODES(".f32.u64", "4:8", "i", f32_u64, ISA_F32),
    ALL_MODES(".f32.s16", "4:2", "i", f32_s16, ISA_F32),
    ALL_MODES(".f32.u8", "4:4", "i", f32_u8, ISA_F32),
    ALL_MODES(".f64.s32", "8:4", "i", f64_s32, ISA_F64),
    ALL_MODES(".f64.u64", "8:8", "i", f64_u64, ISA_F64),
    ALL_MODES(".f64.s64", "8:8", "i", f64_s64, ISA_F64),
    ALL_MODES(".f16.s32", "2:4", "i", f16_s32, ISA_F16),
    ALL_MODES(".f16.u16", "2:2", "i", f16_u16, ISA_F16),
    ALL_MODES(".f32.f64", "4:8", "g", f32_f64, ISA_F32),

    {.text = "cvt.rn.f16.f32 $d, $a;", "2:4", "f", rn_f16_f32, ISA_F16},
    {.text = "cvt.rz.f16.f32 $d, $a;", "2:4", "f", rz_f16_f32, ISA_F16},
    {.text = "cvt.rn.bf16.f32 $d, $a;", "2:4", "f", rn_bf16_f32, ISA_BF16},
    {.text = "cvt.rz.bf16.f32 $d, $a;", "2:4", "f", rz_bf16_f32, ISA_BF16},
    {.text = "cvt.rn.relu.f16.f32 $d, $a;", "2:4", "f", relu_f16, ISA_F16},
    {.text = "cvt.rn.relu.bf16.f32 $d, $a;",
     "2:4",
     "f",
     relu_bf16_1,
     ISA_BF16},
    {.text = "cvt.rn.f16.f64 $d, $a;", "2:8", "g", rn_f16_f64, ISA_F16},
    {.text = "cvt.rz.f16.f64 $d, $a;", "2:8", "g", rz_f16_f64, ISA_F16},
    {.text = "cvt.rn.ftz.f32.f64 $d, $a;",
     "4:8",
     "g",
     rn_ftz_f32_f64,
     ISA_F32},
    {.text = "cvt.f32.f16 $d, $a;", "4:2", "h", f32_f16, ISA_F32},
    {.text = "cvt.ftz.f32.f16 $d, $a;", "4:2", "h", f32_f16, ISA_F32},
    {.text = "cvt.f32.bf16 $d, $a;",
     "4:2",
     "b",
     f32_bf16,
     ISA_F32,
     .arch = 90},
    {.text = "cvt.f64.f16 $d, $a;", "8:2", "h", f64_f16, ISA_F64},
    {.text = "cvt.f64.f32 $d, $a;", "8:4", "f", f64_f32, ISA_F64},
    {.text = "cvt.ftz.f64.f32 $d, $a;", "8:4", "f", f64_f32_ftz, ISA_F64},
    {.text = "cvt.rni.f32.f32 $d, $a;", "4:4", "f", rni_f32, ISA_F32},
    {.text = "cvt.rzi.f32.f32 $d, $a;", "4:4", "f", rzi_f32, ISA_F32},
    {.text = "cvt.rmi.f32.f32 $d, $a;", "4:4", "f", rmi_f32, ISA_F32},
    {.text = "cvt.rpi.f32.f32 $d, $a;", "4:4", "f", rpi_f32, ISA_F32},
    {.text = "cvt.rni.f64.f64 $d, $a;", "8:8", "g", rni_f64, ISA_F64},
    {.text = "cvt.rmi.f64.f64 $d, $a;", "8:8", "g", rmi_f64, ISA_F64},
    {.text = "cvt.rni.f16.f16 $d, $a;", "2:2", "h", rni_f16, ISA_F16},
    {.text = "cvt.sat.f32.f32 $d, $a;", "4:4", "f", sat_f32, ISA_F32},
    {.text = "cvt.sat.f32.f16 $d, $a;", "4:2", "h", sat_f32_f16, ISA_F32},

    {.text = "cvt.rn.f16x2.f32 $d, $a, $b;", "4:44", "ff", f16x2, ISA_F16X2},
    {.text = "cvt.rz.f16x2.f32 $d, $a, $b;",
     "4:44",
     "ff",
     f16x2_rz,
     ISA_F16X2},
    {.text = "cvt.rn.relu.f16x2.f32 $d, $a, $b;",
     "4:44",
     "ff",
     f16x2_relu,
     ISA_F16X2},
    {.text = "cvt.rn.bf16x2.f32 $d, $a, $b;",
     "4:44",
     "ff",
     bf16x2,
     ISA_BF16X2},
    {.text = "cvt.rz.bf16x2.f32 $d, $a, $b;",
     "4:44",
     "ff",
     bf16x2_rz,
     ISA_BF16X2},
    {.text = "cvt.rn.relu.bf16x2.f32 $d, $a, $b;",
     "4:44",
     "ff",
     bf16x2_relu,
     ISA_BF16X2},
    {.text = "cvt.rna.tf32.f32 $d, $a;", "4:4", "f", rna_tf32, ISA_F32},
    {.text = "cvt.rn.tf32.f32 $d, $a;",
     "4:4",
     "f",
     rn_tf32,
     ISA_F32,
     .arch = 90},
    {.text = "cvt.rz.tf32.f32 $d, $a;",
     "4:4",
     "f",
     rz_tf32,
     ISA_F32,
     .arch = 90},
    {.text = "cvt.rn.relu.tf32.f32 $d, $a;",
     "4:4",
     "f",
     relu_tf32,
     ISA_F32,
     .arch = 90},

#define FP8_ROWS(type, name)                                                  \
    {.text = "cvt.rn.satfinite." type ".f32 $d, $a, $b;",                     \
     "2:44",                                                                  \
     "ff",                                                                    \
     name,                                                                    \
     .arch = 89},                                                             \
        {.text = "cvt.rn.satfinite." type ".f32 $d, $a, $b;",                 \
         "2:44",                                                              \
         "FF",                                                                \
         name,                                                                \
         .arch = 89},                                                         \
        {.text = "cvt.rn.satfinite.relu." type ".f32 $d, $a, $b;",            \
         "2:44",                                                              \
         "FF",                                                                \
         name##_relu,                                                         \
         .arch = 89},                                                         \
        {.text = "cvt.rn.satfinite." type ".f16x2 $d, $a;",                   \
         "2:4",                                                               \
         "H",                                                                 \
         name##_f16x2,                                                        \
         .arch = 89},                                                         \
    {                                                                         \
        .text = "cvt.rn.satfinite.relu." type ".f16x2 $d, $a;", "2:4", "H",   \
        name##_relu_f16x2, .arch = 89                                         \
    }
    FP8_ROWS("e4m3x2", e4m3),
    FP8_ROWS("e5m2x2", e5m2),
    {.text = "cvt.rn.f16x2.e4m3x2 $d, $a;",
     "4:2",
     "u",
     f16x2_e4m3,
     ISA_F16X2,
     .arch = 89},
    {.text = "cvt.rn.relu.f16x2.e4m3x2 $d, $a;",
     "4:2",
     "u",
     f16x2_e4m3_relu,
     ISA_F16X2,
     .arch = 89},
    {.text = "cvt.rn.f16x2.e5m2x2 $d, $a;",
     "4:2",
     "u",
     f16x2_e5m2,
     ISA_F16X2,
     .arch = 89},

    {.text = "mov.b64 $d, {$a, $b};", "8:44", "uu", pack64},
    {.text = "mov.b32 $d, {$a, $b};", "4:22", "uu", pack32},
    {.text = "mov.b64 {$d, $e}, $a;", "44:8", "u", unpack64},
    {.text = "mov.b32 {$d, $e}, $a;", "22:4", "u", unpack32},
    {.text = "mov.b64 {_, $d}, $a;", "4:8", "u", upper},
    {.text = "mov.u32 $d, $a;", "4:4", "u", same},
    {.text = "mov.b16 $d, $a;", "2:2", "u", same},
    {.text = "mov.f64 $d, $a;", "8:8", "u", same},
    {.text = "mov.pred $d, $a;", "1:1", "p", same},
};

ISA_MAIN("isa_cvt", rows)
