/* SPDX-License-Identifier: Apache-2.0
 *
 * test_isa_half.c: half precision and bfloat16 (PTX ISA 9.7.4 and the half
 * comparisons of 9.7.7), scalar and packed.
 *
 * Each operation is written once, for a format; the packed rows apply it to
 * both halves.
 */
#include "isa.h"
#include "isa_num.h"

struct flags {
    bool ftz, sat, relu, nan, abs;
};

static uint64_t flush16(struct num_format f, uint64_t v)
{
    uint64_t exponent = f.precision == 11 ? 0x7c00 : 0x7f80;
    return v & exponent ? v : v & 0x8000;
}

/* .sat clamps to [0, 1] and turns NaN to 0; .relu turns what is negative
 * into 0 and a NaN into the canonical NaN. */
static uint64_t finish(struct num_format f, uint64_t v, struct flags o)
{
    uint64_t one = f.precision == 11 ? 0x3c00 : 0x3f80;
    v = o.ftz ? flush16(f, v) : v;
    quad q = num_decode(f, v);
    if (o.sat)
        return q > 0 ? (q < 1 ? v : one) : 0;
    return o.relu && !num_is_nan(q) && (q < 0 || v == 0x8000) ? 0 : v;
}

enum operation { ADD, SUB, MUL, FMA, MIN, MAX, NEG, ABS };

static uint64_t extremum(struct num_format f, uint64_t a, uint64_t b,
                         bool want_max, struct flags o)
{
    quad x = num_decode(f, a), y = num_decode(f, b);
    if (num_is_nan(x) && num_is_nan(y))
        return num_nan(f);
    if (num_is_nan(x) || num_is_nan(y))
        return o.nan ? num_nan(f) : num_is_nan(x) ? b : a;
    bool less = x < y || (x == y && num_sign(x) && !num_sign(y));
    return less == want_max ? b : a;
}

static uint64_t compute(struct num_format f, enum operation op, uint64_t a,
                        uint64_t b, uint64_t c, struct flags o)
{
    if (o.ftz)
        a = flush16(f, a), b = flush16(f, b), c = flush16(f, c);
    quad x = num_decode(f, a), y = num_decode(f, b), z = num_decode(f, c);
    switch (op) {
    case ADD:
        return finish(f, num_round(f, num_add(x, y, RN), RN), o);
    case SUB:
        return finish(f, num_round(f, num_add(x, -y, RN), RN), o);
    case MUL:
        return finish(f, num_round(f, num_mul(x, y), RN), o);
    case FMA:
        return finish(f, num_round(f, num_fma(x, y, z, RN), RN), o);
    case MIN:
    case MAX:
        return extremum(f, a, b, op == MAX, o);
    case NEG:
        return a ^ 0x8000;
    default:
        return a & 0x7fff;
    }
}

/* Applies to one or both halves. */
static void apply(struct isa_lane *x, struct num_format f, enum operation op,
                  bool packed, struct flags o)
{
    x->d = compute(f, op, x->a & 0xffff, x->b & 0xffff, x->c & 0xffff, o);
    if (packed)
        x->d |= compute(f, op, x->a >> 16, x->b >> 16, x->c >> 16, o) << 16;
}

/* REFS(op, NAME, suffix, flags): for f16, f16x2, bf16, bf16x2. */
#define REF(name, f, op, packed, ...)                                         \
    static void name(struct isa_lane *x)                                      \
    {                                                                         \
        apply(x, f, op, packed, (struct flags){__VA_ARGS__});                 \
    }
#define REFS(name, op, ...)                                                   \
    REF(h_##name, num_f16, op, false, __VA_ARGS__)                            \
    REF(h2_##name, num_f16, op, true, __VA_ARGS__)                            \
    REF(b_##name, num_bf16, op, false, __VA_ARGS__)                           \
    REF(b2_##name, num_bf16, op, true, __VA_ARGS__)
#define HALF_REFS(name, op, ...)                                              \
    REF(h_##name, num_f16, op, false, __VA_ARGS__)                            \
    REF(h2_##name, num_f16, op, true, __VA_ARGS__)
REFS(add, ADD, 0)
REFS(sub, SUB, 0)
REFS(mul, MUL, 0)
REFS(fma, FMA, 0)
REFS(fma_relu, FMA, .relu = true)
REFS(min, MIN, 0)
REFS(max, MAX, 0)
REFS(min_nan, MIN, .nan = true)
REFS(max_nan, MAX, .nan = true)
REFS(neg, NEG, 0)
REFS(abs, ABS, 0)
HALF_REFS(add_ftz, ADD, .ftz = true)
HALF_REFS(sub_sat, SUB, .sat = true)
HALF_REFS(mul_ftz_sat, MUL, .ftz = true, .sat = true)
HALF_REFS(fma_ftz, FMA, .ftz = true)
HALF_REFS(fma_sat, FMA, .sat = true)
HALF_REFS(min_ftz, MIN, .ftz = true)

/* --- comparisons --------------------------------------------------------- */

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
    static void seth_##name(struct isa_lane *x)                               \
    {                                                                         \
        quad a = num_decode(num_f16, x->a), b = num_decode(num_f16, x->b);    \
        x->d = expression;                                                    \
    }                                                                         \
    static void setb_##name(struct isa_lane *x)                               \
    {                                                                         \
        quad a = num_decode(num_bf16, x->a), b = num_decode(num_bf16, x->b);  \
        x->d = expression;                                                    \
    }
RELATIONS(RELATION_REFS)

/* setp.f16x2 p|q: the low halves decide p, the high halves q. */
static void lt_both(struct isa_lane *x)
{
    x->d = isa_half(x->a) < isa_half(x->b);
    x->e = isa_half(x->a >> 16) < isa_half(x->b >> 16);
}

/* --- approximations ------------------------------------------------------ */

static uint64_t to_format(struct num_format f, double v)
{
    return num_round(f, num_exact((quad)v), RN);
}
#define APPROXIMATION(name, f, packed, function)                              \
    static void name(struct isa_lane *x)                                      \
    {                                                                         \
        double lo = (double)num_decode(f, x->a & 0xffff);                     \
        double hi = (double)num_decode(f, x->a >> 16 & 0xffff);               \
        x->d = to_format(f, function(lo));                                    \
        if (packed)                                                           \
            x->d |= to_format(f, function(hi)) << 16;                         \
    }
APPROXIMATION(h_tanh, num_f16, false, tanh)
APPROXIMATION(h2_tanh, num_f16, true, tanh)
APPROXIMATION(b_tanh, num_bf16, false, tanh)
APPROXIMATION(b2_tanh, num_bf16, true, tanh)
APPROXIMATION(h_ex2, num_f16, false, exp2)
APPROXIMATION(h2_ex2, num_f16, true, exp2)
APPROXIMATION(b_ex2, num_bf16, false, exp2)
APPROXIMATION(b2_ex2, num_bf16, true, exp2)

/* One row per kind: signatures and pools of scalars (s) and pairs (p). */
#define KINDS(op, args, s, p, hs, bs, hp, bp, ref, least)                     \
    {.text = op ".f16" args, s, hs, h_##ref, ISA_F16},                        \
        {.text = op ".bf16" args, s, bs, b_##ref, ISA_BF16, .arch = least},   \
        {.text = op ".f16x2" args, p, hp, h2_##ref, ISA_F16X2},               \
    {                                                                         \
        .text = op ".bf16x2" args, p, bp, b2_##ref, ISA_BF16X2, .arch = least \
    }
#define ONE(op, ref, least)                                                   \
    KINDS(op, " $d, $a;", "2:2", "4:4", "h", "b", "H", "B", ref, least)
#define TWO(op, ref, least)                                                   \
    KINDS(op, " $d, $a, $b;", "2:22", "4:44", "hh", "bb", "HH", "BB", ref,    \
          least)
#define THREE(op, ref, least)                                                 \
    KINDS(op, " $d, $a, $b, $c;", "2:222", "4:444", "hhh", "bbb", "HHH",      \
          "BBB", ref, least)
#define HALF_TWO(op, ref)                                                     \
    {.text = op ".f16 $d, $a, $b;", "2:22", "hh", h_##ref, ISA_F16},          \
    {                                                                         \
        .text = op ".f16x2 $d, $a, $b;", "4:44", "HH", h2_##ref, ISA_F16X2    \
    }
#define HALF_THREE(op, ref)                                                   \
    {.text = op ".f16 $d, $a, $b, $c;", "2:222", "hhh", h_##ref, ISA_F16},    \
    {                                                                         \
        .text = op ".f16x2 $d, $a, $b, $c;", "4:444", "HHH", h2_##ref,        \
        ISA_F16X2                                                             \
    }

static const struct isa_row rows[] = {
    TWO("add.rn", add, 90),
    TWO("sub.rn", sub, 90),
    TWO("mul.rn", mul, 90),
    HALF_TWO("add", add),
    HALF_TWO("sub.rn", sub),
    HALF_TWO("mul.rn", mul),
    HALF_TWO("add.ftz", add_ftz),
    HALF_TWO("sub.sat", sub_sat),
    HALF_TWO("mul.rn.ftz.sat", mul_ftz_sat),
    THREE("fma.rn", fma, 0),
    THREE("fma.rn.relu", fma_relu, 0),
    HALF_THREE("fma.rn.ftz", fma_ftz),
    HALF_THREE("fma.rn.sat", fma_sat),
    TWO("min", min, 0),
    TWO("max", max, 0),
    TWO("min.NaN", min_nan, 0),
    TWO("max.NaN", max_nan, 0),
    HALF_TWO("min.ftz", min_ftz),
    ONE("neg", neg, 0),
    ONE("abs", abs, 0),

#define SET_ROWS(name, expression)                                            \
    {.text = "setp." #name ".f16 $d, $a, $b;", "1:22", "hh", seth_##name},    \
        {.text = "setp." #name ".bf16 $d, $a, $b;",                           \
         "1:22",                                                              \
         "bb",                                                                \
         setb_##name,                                                         \
         .arch = 90},
    RELATIONS(SET_ROWS){
        .text = "setp.lt.f16x2 $d|$e, $a, $b;", "11:44", "HH", lt_both},

    {.text = "tanh.approx.f16 $d, $a;",
     "2:2",
     "h",
     h_tanh,
     ISA_F16,
     .absolute = 0x1p-10},
    {.text = "tanh.approx.f16x2 $d, $a;",
     "4:4",
     "H",
     h2_tanh,
     ISA_F16X2,
     .absolute = 0x1p-10},
    {.text = "tanh.approx.bf16 $d, $a;",
     "2:2",
     "b",
     b_tanh,
     ISA_BF16,
     .absolute = 0x1p-8,
     .arch = 90},
    {.text = "tanh.approx.bf16x2 $d, $a;",
     "4:4",
     "B",
     b2_tanh,
     ISA_BF16X2,
     .absolute = 0x1p-8,
     .arch = 90},
    {.text = "ex2.approx.f16 $d, $a;",
     "2:2",
     "h",
     h_ex2,
     ISA_F16,
     .relative = 0x1p-9,
     .absolute = 0x1p-24},
    {.text = "ex2.approx.f16x2 $d, $a;",
     "4:4",
     "H",
     h2_ex2,
     ISA_F16X2,
     .relative = 0x1p-9,
     .absolute = 0x1p-24},
    {.text = "ex2.approx.ftz.bf16 $d, $a;",
     "2:2",
     "b",
     b_ex2,
     ISA_BF16,
     .relative = 0x1p-7,
     .absolute = 0x1p-125,
     .arch = 90},
    {.text = "ex2.approx.ftz.bf16x2 $d, $a;",
     "4:4",
     "B",
     b2_ex2,
     ISA_BF16X2,
     .relative = 0x1p-7,
     .absolute = 0x1p-125,
     .arch = 90},
};

ISA_MAIN("isa_half", rows)
