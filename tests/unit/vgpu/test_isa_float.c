/* SPDX-License-Identifier: Apache-2.0
 *
 * test_isa_float.c: single and double precision (PTX ISA 9.7.3), comparison
 * and selection (9.7.6).
 *
 * Exact instructions are compared bit for bit with binary128 arithmetic that
 * is rounded once (isa_num.h); any NaN stands for any NaN.  Approximate ones
 * are compared with libm within the error that the ISA states.
 */
#include "isa.h"
#include "isa_num.h"

static quad f32(uint64_t bits)
{
    return num_decode(num_f32, bits);
}

static quad f64(uint64_t bits)
{
    return num_decode(num_f64, bits);
}

/* Clamp of .sat: NaN and everything below become +0. */
static uint64_t saturate(uint64_t bits)
{
    quad v = f32(bits);
    return v > 0 ? (v < 1 ? bits : 0x3f800000) : 0;
}

/* OP32(name, mode, expression of a, b, c): rounded to .f32; and the same with
 * .ftz, .sat and both.  OP64: .f64. */
#define VARIANT32(name, mode_, expression, in, out)                           \
    static void name(struct isa_lane *x)                                      \
    {                                                                         \
        enum num_mode mode = mode_;                                           \
        quad a = f32(in(x->a)), b = f32(in(x->b)), c = f32(in(x->c));         \
        (void)mode, (void)a, (void)b, (void)c;                                \
        x->d = out(num_round(num_f32, expression, mode_));                    \
    }
#define SAME(v) (v)
#define FLUSH_SATURATE(v) saturate(num_flush32(v))
#define OP32(name, mode, expression)                                          \
    VARIANT32(name, mode, expression, SAME, SAME)                             \
    VARIANT32(name##_ftz, mode, expression, num_flush32, num_flush32)         \
    VARIANT32(name##_sat, mode, expression, SAME, saturate)                   \
    VARIANT32(name##_ftz_sat, mode, expression, num_flush32, FLUSH_SATURATE)
#define OP64(name, mode_, expression)                                         \
    static void name(struct isa_lane *x)                                      \
    {                                                                         \
        enum num_mode mode = mode_;                                           \
        quad a = f64(x->a), b = f64(x->b), c = f64(x->c);                     \
        (void)mode, (void)a, (void)b, (void)c;                                \
        x->d = num_round(num_f64, expression, mode_);                         \
    }
#define MODES(op, name, expression)                                           \
    op(name##_rn, RN, expression) op(name##_rz, RZ, expression)               \
        op(name##_rm, RM, expression) op(name##_rp, RP, expression)

MODES(OP32, add, num_add(a, b, mode))
MODES(OP32, sub, num_add(a, -b, mode))
MODES(OP32, mul, num_mul(a, b))
MODES(OP32, fma, num_fma(a, b, c, mode))
MODES(OP64, add64, num_add(a, b, mode))
MODES(OP64, sub64, num_add(a, -b, mode))
MODES(OP64, mul64, num_mul(a, b))
MODES(OP64, fma64, num_fma(a, b, c, mode))

#define PLAIN32(name, mode, expression)                                       \
    VARIANT32(name, mode, expression, SAME, SAME)                             \
    VARIANT32(name##_ftz, mode, expression, num_flush32, num_flush32)
MODES(PLAIN32, div, num_div(a, b))
MODES(PLAIN32, rcp, num_div(1, a))
MODES(PLAIN32, sqrt, num_sqrt(a))
MODES(OP64, div64, num_div(a, b))
MODES(OP64, rcp64, num_div(1, a))
MODES(OP64, sqrt64, num_sqrt(a))

/* --- min, max: -0 < +0; NaN loses, with .NaN it wins --------------------- */

static uint64_t extremum(uint64_t a, uint64_t b, bool want_max, bool nan)
{
    quad x = f32(a), y = f32(b);
    if (num_is_nan(x) && num_is_nan(y))
        return 0x7fffffff;
    if (num_is_nan(x) || num_is_nan(y))
        return nan ? 0x7fffffff : num_is_nan(x) ? b : a;
    bool a_is_less = x < y || (x == y && num_sign(x) && !num_sign(y));
    return a_is_less == want_max ? b : a;
}

static uint64_t xor_sign(struct isa_lane *x, bool want_max)
{
    uint64_t m =
        extremum(x->a & 0x7fffffff, x->b & 0x7fffffff, want_max, false);
    return m | ((x->a ^ x->b) & 0x80000000);
}

#define REF(name, expression)                                                 \
    static void r_##name(struct isa_lane *x)                                  \
    {                                                                         \
        x->d = (uint64_t)(expression);                                        \
    }
REF(min, extremum(x->a, x->b, false, false))
REF(max, extremum(x->a, x->b, true, false))
REF(minnan, extremum(x->a, x->b, false, true))
REF(maxnan, extremum(x->a, x->b, true, true))
REF(minftz, extremum(num_flush32(x->a), num_flush32(x->b), false, false))
REF(maxftz, extremum(num_flush32(x->a), num_flush32(x->b), true, false))
REF(minxor, xor_sign(x, false))
REF(maxxor, xor_sign(x, true))

static uint64_t extremum64(uint64_t a, uint64_t b, bool want_max)
{
    quad x = f64(a), y = f64(b);
    if (num_is_nan(x) || num_is_nan(y))
        return num_is_nan(x) ? b : a;
    bool a_is_less = x < y || (x == y && num_sign(x) && !num_sign(y));
    return a_is_less == want_max ? b : a;
}
REF(min64, extremum64(x->a, x->b, false))
REF(max64, extremum64(x->a, x->b, true))

REF(neg, x->a ^ 0x80000000)
REF(abs, x->a & 0x7fffffff)
REF(negftz, num_flush32(x->a) ^ 0x80000000)
REF(absftz, num_flush32(x->a) & 0x7fffffff)
REF(neg64, x->a ^ UINT64_C(1) << 63)
REF(abs64, x->a & ~(UINT64_C(1) << 63))
REF(copysign, (x->b & 0x7fffffff) | (x->a & 0x80000000))
REF(copysign64, (x->b & INT64_MAX) | (x->a & UINT64_C(1) << 63))

/* --- testp --------------------------------------------------------------- */

static bool is_subnormal(uint64_t bits)
{
    return !(bits & 0x7f800000) && (bits & 0x7fffff);
}
static bool is_nan32(uint64_t bits)
{
    return (bits & 0x7fffffff) > 0x7f800000;
}
REF(finite, (x->a & 0x7f800000) != 0x7f800000)
REF(infinite, (x->a & 0x7fffffff) == 0x7f800000)
REF(number, !is_nan32(x->a))
REF(notanumber, is_nan32(x->a))
REF(normal, (x->a & 0x7f800000) && (x->a & 0x7f800000) != 0x7f800000)
REF(subnormal, is_subnormal(x->a))

/* --- comparisons --------------------------------------------------------- */

/* The twelve float and six integer relations of ISA 9.7.6; unordered ones
 * (..u, nan) hold when either side is NaN. */
/* clang-format off */
#define RELATIONS(X)                                                          \
    X(eq, a == b)                                                             \
    X(ne, (a < b || a > b))                                                   \
    X(lt, a < b)                                                              \
    X(le, a <= b)                                                             \
    X(gt, a > b)                                                              \
    X(ge, a >= b)                                                             \
    X(equ, !(a < b || a > b))                                                 \
    X(neu, !(a == b))                                                         \
    X(ltu, !(a >= b))                                                         \
    X(leu, !(a > b))                                                          \
    X(gtu, !(a <= b))                                                         \
    X(geu, !(a < b))                                                          \
    X(num, (a == a && b == b))                                                \
    X(nan, (a != a || b != b))
/* clang-format on */
#define RELATION_REFS(name, expression)                                       \
    static void set_##name(struct isa_lane *x)                                \
    {                                                                         \
        quad a = f32(x->a), b = f32(x->b);                                    \
        x->d = expression;                                                    \
    }                                                                         \
    static void set64_##name(struct isa_lane *x)                              \
    {                                                                         \
        quad a = f64(x->a), b = f64(x->b);                                    \
        x->d = expression;                                                    \
    }                                                                         \
    static void setftz_##name(struct isa_lane *x)                             \
    {                                                                         \
        quad a = f32(num_flush32(x->a)), b = f32(num_flush32(x->b));          \
        x->d = expression;                                                    \
    }
RELATIONS(RELATION_REFS)

#define INT_RELATIONS(X)                                                      \
    X(eq, ==) X(ne, !=) X(lt, <) X(le, <=) X(gt, >) X(ge, >=)
#define INT_RELATION_REFS(name, op)                                           \
    static void ints16_##name(struct isa_lane *x)                             \
    {                                                                         \
        x->d = (int16_t)x->a op(int16_t) x->b;                                \
    }                                                                         \
    static void ints32_##name(struct isa_lane *x)                             \
    {                                                                         \
        x->d = (int32_t)x->a op(int32_t) x->b;                                \
    }                                                                         \
    static void ints64_##name(struct isa_lane *x)                             \
    {                                                                         \
        x->d = (int64_t)x->a op(int64_t) x->b;                                \
    }                                                                         \
    static void uints_##name(struct isa_lane *x)                              \
    {                                                                         \
        x->d = x->a op x->b;                                                  \
    }
INT_RELATIONS(INT_RELATION_REFS)

/* Unsigned relations have names of their own. */
#define uints_lo uints_lt
#define uints_ls uints_le
#define uints_hi uints_gt
#define uints_hs uints_ge

/* setp.lt.and p|q, a, b, c: p = (a < b) and c, q = !(a < b) and c. */
#define COMBINED(name, op)                                                    \
    static void name(struct isa_lane *x)                                      \
    {                                                                         \
        bool t = (int32_t)x->a < (int32_t)x->b, c = x->c & 1;                 \
        x->d = t op c;                                                        \
        x->e = !t op c;                                                       \
    }
COMBINED(lt_and, &)
COMBINED(lt_or, |)
COMBINED(lt_xor, ^)
static void r_lt_and_not(struct isa_lane *x)
{
    x->d = (int32_t)x->a < (int32_t)x->b && !(x->c & 1);
}

REF(select, x->c & 1 ? x->a : x->b)
REF(slct, (int32_t)x->c >= 0 ? x->a : x->b)
/* slct on a float: -0 counts as >= 0, NaN as negative. */
REF(slctf, f32(x->c) >= 0 ? x->a : x->b)
REF(set_mask, (int32_t)x->a < (int32_t)x->b ? UINT32_MAX : 0)
REF(set_one, f32(x->a) < f32(x->b) ? 0x3f800000 : 0)

/* --- approximations ------------------------------------------------------ */

static uint64_t single(double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof f);
    return bits;
}
static double of(uint64_t bits)
{
    return isa_single(bits);
}
static double oz(uint64_t bits)
{
    return isa_single(num_flush32(bits));
}
REF(rcpa, single(1 / of(x->a)))
REF(rcpaz, num_flush32(single(1 / oz(x->a))))
REF(sqrta, single(sqrt(of(x->a))))
REF(sqrtaz, single(sqrt(oz(x->a))))
REF(rsqrta, single(1 / sqrt(of(x->a))))
REF(rsqrtaz, single(1 / sqrt(oz(x->a))))
REF(ex2a, single(exp2(of(x->a))))
REF(ex2az, num_flush32(single(exp2(oz(x->a)))))
REF(lg2a, single(log2(of(x->a))))
REF(lg2az, single(log2(oz(x->a))))
REF(tanha, single(tanh(of(x->a))))
REF(diva, single(of(x->a) / of(x->b)))
static void r_rsqrta64(struct isa_lane *x)
{
    double v = 1 / sqrt(isa_double(x->a));
    memcpy(&x->d, &v, sizeof v);
}
/* rcp.approx.ftz.f64: the upper words count, the lower ones are cut. */
static void r_rcpa64(struct isa_lane *x)
{
    uint64_t a = x->a & ~UINT64_C(0xffffffff);
    bool is_small = !(a & UINT64_C(0x7ff0000000000000));
    double v = 1 / isa_double(is_small ? a & UINT64_C(1) << 63 : a);
    memcpy(&x->d, &v, sizeof v);
}

/* The range in which a statement of error holds, made from random bits: an
 * angle in [-pi, pi], a quotient's divisor in [2^-126, 2^126]. */
#define ANGLE                                                                 \
    "{ .reg .f32 q; cvt.rn.f32.s32 q, $a; "                                   \
    "mul.rn.f32 q, q, 0f30C90FDB; "
static void r_sin_angle(struct isa_lane *x)
{
    float q = (float)(int32_t)x->a * isa_single(0x30c90fdb);
    x->d = single(sin(q));
}
static void r_cos_angle(struct isa_lane *x)
{
    float q = (float)(int32_t)x->a * isa_single(0x30c90fdb);
    x->d = single(cos(q));
}

#define ULP(n) .cmp = ISA_F32, .relative = (n)*0x1p-23
#define EXACT .cmp = ISA_F32
#define EXACT64 .cmp = ISA_F64

/* One row per rounding mode; more: modifiers after it, as text and as part
 * of the reference's name. */
#define ROUNDINGS_(op, text_, ref_, type, sig, pool, ref, how)                \
    {.text = op ".rn" text_ type, sig, pool, ref##_rn##ref_, how},            \
        {.text = op ".rz" text_ type, sig, pool, ref##_rz##ref_, how},        \
        {.text = op ".rm" text_ type, sig, pool, ref##_rm##ref_, how},        \
    {                                                                         \
        .text = op ".rp" text_ type, sig, pool, ref##_rp##ref_, how           \
    }
#define ROUNDINGS(op, type, sig, pool, ref, how)                              \
    ROUNDINGS_(op, "", , type, sig, pool, ref, how)
#define FTZ_ROUNDINGS(op, type, sig, pool, ref)                               \
    ROUNDINGS_(op, ".ftz", _ftz, type, sig, pool, ref, EXACT)
#define ARITHMETIC(op, args, sig, pool, ref)                                  \
    ROUNDINGS(op, ".f32 " args, sig, pool, ref, EXACT),                       \
        FTZ_ROUNDINGS(op, ".f32 " args, sig, pool, ref),                      \
        ROUNDINGS_(op, ".sat", _sat, ".f32 " args, sig, pool, ref, EXACT),    \
        ROUNDINGS_(op, ".ftz.sat", _ftz_sat, ".f32 " args, sig, pool, ref,    \
                   EXACT)

static const struct isa_row rows[] = {
    {.text = "add.f32 $d, $a, $b;", "4:44", "ff", add_rn, EXACT},
    {.text = "sub.f32 $d, $a, $b;", "4:44", "ff", sub_rn, EXACT},
    {.text = "mul.f32 $d, $a, $b;", "4:44", "ff", mul_rn, EXACT},
    {.text = "add.ftz.f32 $d, $a, $b;", "4:44", "ff", add_rn_ftz, EXACT},
    {.text = "mul.ftz.sat.f32 $d, $a, $b;",
     "4:44",
     "ff",
     mul_rn_ftz_sat,
     EXACT},
    ARITHMETIC("add", "$d, $a, $b;", "4:44", "ff", add),
    ARITHMETIC("sub", "$d, $a, $b;", "4:44", "ff", sub),
    ARITHMETIC("mul", "$d, $a, $b;", "4:44", "ff", mul),
    ARITHMETIC("fma", "$d, $a, $b, $c;", "4:444", "fff", fma),
    {.text = "mad.rn.f32 $d, $a, $b, $c;", "4:444", "fff", fma_rn, EXACT},
    {.text = "fma.rn.f32 $d, $a, $b, 0f00000000;",
     "4:44",
     "ff",
     fma_rn,
     EXACT},
    {.text = "add.f32 $d, $a, 0.0;", "4:4", "f", add_rn, EXACT},
    ROUNDINGS("add", ".f64 $d, $a, $b;", "8:88", "gg", add64, EXACT64),
    ROUNDINGS("sub", ".f64 $d, $a, $b;", "8:88", "gg", sub64, EXACT64),
    ROUNDINGS("mul", ".f64 $d, $a, $b;", "8:88", "gg", mul64, EXACT64),
    ROUNDINGS("fma", ".f64 $d, $a, $b, $c;", "8:888", "ggg", fma64, EXACT64),
    ROUNDINGS("div", ".f32 $d, $a, $b;", "4:44", "ff", div, EXACT),
    FTZ_ROUNDINGS("div", ".f32 $d, $a, $b;", "4:44", "ff", div),
    ROUNDINGS("div", ".f64 $d, $a, $b;", "8:88", "gg", div64, EXACT64),
    ROUNDINGS("rcp", ".f32 $d, $a;", "4:4", "f", rcp, EXACT),
    FTZ_ROUNDINGS("rcp", ".f32 $d, $a;", "4:4", "f", rcp),
    ROUNDINGS("rcp", ".f64 $d, $a;", "8:8", "g", rcp64, EXACT64),
    ROUNDINGS("sqrt", ".f32 $d, $a;", "4:4", "f", sqrt, EXACT),
    FTZ_ROUNDINGS("sqrt", ".f32 $d, $a;", "4:4", "f", sqrt),
    ROUNDINGS("sqrt", ".f64 $d, $a;", "8:8", "g", sqrt64, EXACT64),

    {.text = "min.f32 $d, $a, $b;", "4:44", "ff", r_min, EXACT},
    {.text = "max.f32 $d, $a, $b;", "4:44", "ff", r_max, EXACT},
    {.text = "min.NaN.f32 $d, $a, $b;", "4:44", "ff", r_minnan, EXACT},
    {.text = "max.NaN.f32 $d, $a, $b;", "4:44", "ff", r_maxnan, EXACT},
    {.text = "min.ftz.f32 $d, $a, $b;", "4:44", "ff", r_minftz, EXACT},
    {.text = "max.ftz.f32 $d, $a, $b;", "4:44", "ff", r_maxftz, EXACT},
    {.text = "min.xorsign.abs.f32 $d, $a, $b;",
     "4:44",
     "FF",
     r_minxor,
     EXACT,
     .arch = 86},
    {.text = "max.xorsign.abs.f32 $d, $a, $b;",
     "4:44",
     "FF",
     r_maxxor,
     EXACT,
     .arch = 86},
    {.text = "min.f64 $d, $a, $b;", "8:88", "gg", r_min64, EXACT64},
    {.text = "max.f64 $d, $a, $b;", "8:88", "gg", r_max64, EXACT64},
    {.text = "neg.f32 $d, $a;", "4:4", "f", r_neg, EXACT},
    {.text = "abs.f32 $d, $a;", "4:4", "f", r_abs, EXACT},
    {.text = "neg.ftz.f32 $d, $a;", "4:4", "f", r_negftz, EXACT},
    {.text = "abs.ftz.f32 $d, $a;", "4:4", "f", r_absftz, EXACT},
    {.text = "neg.f64 $d, $a;", "8:8", "g", r_neg64, EXACT64},
    {.text = "abs.f64 $d, $a;", "8:8", "g", r_abs64, EXACT64},
    {.text = "copysign.f32 $d, $a, $b;", "4:44", "ff", r_copysign},
    {.text = "copysign.f64 $d, $a, $b;", "8:88", "gg", r_copysign64},

    {.text = "testp.finite.f32 $d, $a;", "1:4", "f", r_finite},
    {.text = "testp.infinite.f32 $d, $a;", "1:4", "f", r_infinite},
    {.text = "testp.number.f32 $d, $a;", "1:4", "f", r_number},
    {.text = "testp.notanumber.f32 $d, $a;", "1:4", "f", r_notanumber},
    {.text = "testp.normal.f32 $d, $a;", "1:4", "f", r_normal},
    {.text = "testp.subnormal.f32 $d, $a;", "1:4", "f", r_subnormal},

#define SET_ROWS(name, expression)                                            \
    {.text = "setp." #name ".f32 $d, $a, $b;", "1:44", "ff", set_##name},     \
        {.text = "setp." #name ".ftz.f32 $d, $a, $b;",                        \
         "1:44",                                                              \
         "ff",                                                                \
         setftz_##name},                                                      \
        {.text = "setp." #name ".f64 $d, $a, $b;",                            \
         "1:88",                                                              \
         "gg",                                                                \
         set64_##name},
    RELATIONS(SET_ROWS)
#define INT_SET_ROWS(name, op)                                                \
    {.text = "setp." #name ".s16 $d, $a, $b;", "1:22", "ii", ints16_##name},  \
        {.text = "setp." #name ".s32 $d, $a, $b;",                            \
         "1:44",                                                              \
         "ii",                                                                \
         ints32_##name},                                                      \
        {.text = "setp." #name ".s64 $d, $a, $b;",                            \
         "1:88",                                                              \
         "ii",                                                                \
         ints64_##name},                                                      \
        {.text = "setp." #name ".u16 $d, $a, $b;",                            \
         "1:22",                                                              \
         "ii",                                                                \
         uints_##name},                                                       \
        {.text = "setp." #name ".u32 $d, $a, $b;",                            \
         "1:44",                                                              \
         "ii",                                                                \
         uints_##name},                                                       \
        {.text = "setp." #name ".u64 $d, $a, $b;",                            \
         "1:88",                                                              \
         "ii",                                                                \
         uints_##name},
        INT_RELATIONS(INT_SET_ROWS){
            .text = "setp.lo.u32 $d, $a, $b;", "1:44", "ii", uints_lo},
    {.text = "setp.ls.u32 $d, $a, $b;", "1:44", "ii", uints_ls},
    {.text = "setp.hi.u64 $d, $a, $b;", "1:88", "ii", uints_hi},
    {.text = "setp.hs.u16 $d, $a, $b;", "1:22", "ii", uints_hs},
    {.text = "setp.eq.b16 $d, $a, $b;", "1:22", "ii", uints_eq},
    {.text = "setp.ne.b32 $d, $a, $b;", "1:44", "ii", uints_ne},
    {.text = "setp.eq.b64 $d, $a, $b;", "1:88", "ii", uints_eq},
    {.text = "setp.lt.and.s32 $d|$e, $a, $b, $c;", "11:441", "iip", lt_and},
    {.text = "setp.lt.or.s32 $d|$e, $a, $b, $c;", "11:441", "iip", lt_or},
    {.text = "setp.lt.xor.s32 $d|$e, $a, $b, $c;", "11:441", "iip", lt_xor},
    {.text = "setp.lt.and.s32 $d, $a, $b, !$c;", "1:441", "iip", r_lt_and_not},
    {.text = "set.lt.u32.s32 $d, $a, $b;", "4:44", "ii", r_set_mask},
    {.text = "set.lt.f32.f32 $d, $a, $b;", "4:44", "ff", r_set_one},

    {.text = "selp.b16 $d, $a, $b, $c;", "2:221", "uup", r_select},
    {.text = "selp.b32 $d, $a, $b, $c;", "4:441", "uup", r_select},
    {.text = "selp.b64 $d, $a, $b, $c;", "8:881", "uup", r_select},
    {.text = "selp.s32 $d, $a, $b, $c;", "4:441", "uup", r_select},
    {.text = "selp.u16 $d, $a, $b, $c;", "2:221", "uup", r_select},
    {.text = "selp.f32 $d, $a, $b, $c;", "4:441", "uup", r_select},
    {.text = "selp.f64 $d, $a, $b, $c;", "8:881", "uup", r_select},
    {.text = "slct.b32.s32 $d, $a, $b, $c;", "4:444", "uui", r_slct},
    {.text = "slct.u64.s32 $d, $a, $b, $c;", "8:884", "uui", r_slct},
    {.text = "slct.f32.f32 $d, $a, $b, $c;", "4:444", "uuf", r_slctf},

    {.text = "rcp.approx.f32 $d, $a;", "4:4", "F", r_rcpa, ULP(1)},
    {.text = "rcp.approx.ftz.f32 $d, $a;",
     "4:4",
     "f",
     r_rcpaz,
     ULP(1),
     .absolute = 0x1p-125},
    {.text = "sqrt.approx.f32 $d, $a;",
     "4:4",
     "f",
     r_sqrta,
     ULP(1),
     .absolute = 0x1p-148},
    {.text = "sqrt.approx.ftz.f32 $d, $a;", "4:4", "f", r_sqrtaz, ULP(1)},
    {.text = "rsqrt.approx.f32 $d, $a;", "4:4", "f", r_rsqrta, ULP(1.1)},
    {.text = "rsqrt.approx.ftz.f32 $d, $a;", "4:4", "f", r_rsqrtaz, ULP(1.1)},
    {.text = "rsqrt.approx.f64 $d, $a;",
     "8:8",
     "g",
     r_rsqrta64,
     .cmp = ISA_F64,
     .relative = 1e-8},
    {.text = "{ .reg .b64 q; and.b64 q, $a, 0xffffffff00000000; "
             "rcp.approx.ftz.f64 $d, q; }",
     "8:8",
     "g",
     r_rcpa64,
     .cmp = ISA_F64,
     .relative = 0x1p-20,
     .absolute = 0x1p-1021},
    {.text = "ex2.approx.f32 $d, $a;",
     "4:4",
     "f",
     r_ex2a,
     ULP(2),
     .absolute = 0x1p-148},
    {.text = "ex2.approx.ftz.f32 $d, $a;",
     "4:4",
     "f",
     r_ex2az,
     ULP(2),
     .absolute = 0x1p-125},
    {.text = "lg2.approx.f32 $d, $a;",
     "4:4",
     "f",
     r_lg2a,
     ULP(2),
     .absolute = 0x1p-22},
    {.text = "lg2.approx.ftz.f32 $d, $a;",
     "4:4",
     "f",
     r_lg2az,
     ULP(2),
     .absolute = 0x1p-22},
    {.text = ANGLE "sin.approx.f32 $d, q; }",
     "4:4",
     "i",
     r_sin_angle,
     .cmp = ISA_F32,
     .absolute = 0x1p-20},
    {.text = ANGLE "cos.approx.f32 $d, q; }",
     "4:4",
     "i",
     r_cos_angle,
     .cmp = ISA_F32,
     .absolute = 0x1p-20},
    {.text = "tanh.approx.f32 $d, $a;",
     "4:4",
     "f",
     r_tanha,
     .cmp = ISA_F32,
     .relative = 0x1p-10,
     .absolute = 0x1p-148},
    {.text = "div.approx.f32 $d, $a, $b;", "4:44", "FF", r_diva, ULP(2)},
    {.text = "div.approx.ftz.f32 $d, $a, $b;", "4:44", "FF", r_diva, ULP(2)},
    {.text = "div.full.f32 $d, $a, $b;", "4:44", "FF", r_diva, ULP(2)},
    {.text = "div.full.ftz.f32 $d, $a, $b;", "4:44", "FF", r_diva, ULP(2)},
};

ISA_MAIN("isa_float", rows)
