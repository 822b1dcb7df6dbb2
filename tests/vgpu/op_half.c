/* SPDX-License-Identifier: Apache-2.0
 *
 * op_half.c: f16, bf16 and their packed pairs (PTX ISA 9.0, 9.7.4 and 9.7.5).
 *
 * A row of scalars is 32 halves, a row of pairs 64 (low half first).  Sources
 * widen to double, where sums and products of two halves are exact or round
 * harmlessly; the fused multiply-add goes through an odd-rounded double, so
 * that rounding to the half is the only rounding.
 */
#include "alu.h"
#include "num.h"

#include <math.h>

/* Bits of arg. */
#define FTZ 1u
#define SAT 2u
#define RELU 4u
#define NAN_WINS 8u
#define XORSIGN 16u
#define BF16 32u
#define PAIR 64u
#define OP(arg) ((arg) >> 8)

/* MIN3 and MAX3 are min and max with three sources; sources: of each. */
enum op { ADD, SUB, MUL, FMA, MIN, MAX, MIN3, MAX3, NEG, ABS };
static const int sources[] = {
    [ADD] = 2, [SUB] = 2, [MUL] = 2, [FMA] = 3, [MIN] = 2,
    [MAX] = 2, [MIN3] = 3, [MAX3] = 3, [NEG] = 1, [ABS] = 1,
};

/* min and max as for f32: -0 < +0, a NaN loses unless .NaN wins; .xorsign
 * compares magnitudes and multiplies the signs. */
static double extreme(double x, double y, bool max, uint32_t arg)
{
    bool minus = signbit(x) != signbit(y);
    if (x != x || y != y)
        return (arg & NAN_WINS) ? (double)NAN : x == x ? x : y;
    if (arg & XORSIGN) {
        x = fabs(x);
        y = fabs(y);
        double r = (x < y) == max ? y : x;
        return minus ? -r : r;
    }
    if (x == y)
        return (signbit(x) != 0) == max ? y : x;
    return (x < y) == max ? y : x;
}

/* On exact doubles; see the head of this file for why one rounding is left.
 */
static double compute(double x, double y, double z, uint32_t arg)
{
    switch (OP(arg)) {
    case ADD: return x + y;
    case SUB: return x - y;
    case MUL: return x * y;
    case FMA: return vg_fma_odd(x, y, z);
    case MIN: return extreme(x, y, false, arg);
    case MAX: return extreme(x, y, true, arg);
    case MIN3: return extreme(extreme(x, y, false, arg), z, false, arg);
    case MAX3: return extreme(extreme(x, y, true, arg), z, true, arg);
    case NEG: return -x;
    default: return fabs(x);
    }
}

/* Subnormal halves to zero of the same sign. */
static uint32_t flush(uint32_t h, uint32_t arg)
{
    uint32_t exponent = arg & BF16 ? 0x7f80 : 0x7c00;
    return (arg & FTZ) && !(h & exponent) ? h & 0x8000 : h;
}

/* One element from source bits to result bits, with all modifiers, in the
 * order of the ISA: flush the sources, compute, saturate, round, flush. */
static uint16_t one(const uint16_t h[3], uint32_t arg)
{
    const struct vg_format *f = arg & BF16 ? &vg_bf16 : &vg_f16;
    double v[3];
    for (int n = 0; n < 3; n++)
        v[n] = vg_widen(flush(h[n], arg), f);
    double r = compute(v[0], v[1], v[2], arg);
    if (arg & SAT)
        r = r > 0 ? (r < 1 ? r : 1) : 0;
    if ((arg & RELU) && r == r)
        r = r > 0 ? r : 0;
    return (uint16_t)flush(vg_narrow(r, f, VG_RN, false), arg);
}

/* Any operation with any modifier, element by element: slow, and rare. */
VG_HANDLER(arith)
{
    int n = i->arg & PAIR ? 2 * VG_LANES : VG_LANES;
    const uint16_t *a = VG_ROW(uint16_t, 1);
    const uint16_t *b = i->nop > 2 ? VG_ROW(uint16_t, 2) : a;
    const uint16_t *c = i->nop > 3 ? VG_ROW(uint16_t, 3) : a;
    uint16_t r[2 * VG_LANES];
    for (int l = 0; l < n; l++)
        r[l] = one((const uint16_t[3]){a[l], b[l], c[l]}, i->arg);
    if (i->arg & PAIR)
        vg_put32(vg_row(w, i->op[0]), (const void *)r, mask);
    else
        vg_put16(vg_row(w, i->op[0]), r, mask);
}

/* add, sub, mul of f16 without modifiers, through f32: 24 bits are more than
 * twice 11, so the second rounding is harmless. */
#define PLAIN(name, EXPR)                                                     \
    static void name##_part(uint16_t *r, const uint16_t *a,                   \
                            const uint16_t *b)                                \
    {                                                                         \
        float x[VG_LANES], y[VG_LANES];                                       \
        vg_row_f16_to_f32(x, a);                                              \
        vg_row_f16_to_f32(y, b);                                              \
        for (int l = 0; l < VG_LANES; l++)                                    \
            x[l] = EXPR;                                                      \
        vg_row_f32_to_f16(r, x);                                              \
    }                                                                         \
    VG_HANDLER(name)                                                          \
    {                                                                         \
        const uint16_t *a = VG_ROW(uint16_t, 1), *b = VG_ROW(uint16_t, 2);    \
        uint16_t r[2 * VG_LANES];                                             \
        name##_part(r, a, b);                                                 \
        if (!(i->arg & PAIR)) {                                               \
            vg_put16(vg_row(w, i->op[0]), r, mask);                           \
            return;                                                           \
        }                                                                     \
        name##_part(r + VG_LANES, a + VG_LANES, b + VG_LANES);                \
        vg_put32(vg_row(w, i->op[0]), (const void *)r, mask);                 \
    }
PLAIN(add_plain, x[l] + y[l])
PLAIN(sub_plain, x[l] - y[l])
PLAIN(mul_plain, x[l] * y[l])

/* neg and abs touch the sign bits only. */
VG_UNARY(neg16, uint16_t, uint16_t, x ^ 0x8000)
VG_UNARY(abs16, uint16_t, uint16_t, x & 0x7fff)
VG_UNARY(neg32, uint32_t, uint32_t, x ^ 0x80008000)
VG_UNARY(abs32, uint32_t, uint32_t, x & 0x7fff7fff)

/* The fastest handler that honours the flags.  bf16 has no plain forms of its
 * own: kernels add and multiply in f32. */
static vg_fn *handler(enum op op, uint32_t flags)
{
    static vg_fn *const plain[] = {[ADD] = add_plain, [SUB] = sub_plain,
                                   [MUL] = mul_plain};
    if (op <= MUL && !(flags & ~PAIR))
        return plain[op];
    if (op == NEG && !(flags & FTZ))
        return flags & PAIR ? neg32 : neg16;
    if (op == ABS && !(flags & FTZ))
        return flags & PAIR ? abs32 : abs16;
    return arith;
}

/* Modifiers may stand in any order; .abs only belongs to .xorsign. */
static uint32_t flags_of(struct vg_dec *d)
{
    static const struct {
        const char *word;
        uint32_t flag;
    } known[] = {{"ftz", FTZ}, {"sat", SAT}, {"relu", RELU},
                 {"NaN", NAN_WINS}, {"xorsign", XORSIGN}, {"rn", 0}};
    uint32_t flags = 0;
    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
        if (vg_mod(d, known[n].word))
            flags |= known[n].flag;
    if (flags & XORSIGN)
        vg_mod(d, "abs");
    return flags;
}

/* op{.rn}{.ftz}{.sat}{.relu}{.NaN}{.xorsign.abs}.type d, a{, b{, c}} */
static bool decode(struct vg_dec *d)
{
    enum op op = d->out->arg;
    uint32_t flags = flags_of(d);
    enum vg_type t;
    if (!vg_need_type(d, &t))
        return false;
    if (t == VG_BF16 || t == VG_BF16X2)
        flags |= BF16;
    if (t == VG_F16X2 || t == VG_BF16X2)
        flags |= PAIR;
    if ((op == MIN || op == MAX) && d->in->nops == 4)
        op = op == MIN ? MIN3 : MAX3;
    d->out->arg = flags | (uint32_t)op << 8;
    d->out->fn = handler(op, flags);
    bool ok = vg_out(d, 0, -1, vg_bits(t));
    for (int n = 1; ok && n <= sources[op]; n++)
        ok = vg_in(d, n, -1, vg_bits(t));
    return ok;
}

/* Reached from the rows without ".half" by the type; all but FMA also as
 * pairs. */
const struct vg_opcode vg_ops_half[] = {
    {"add.half", decode, VG_C_HALF, ADD},
    {"sub.half", decode, VG_C_HALF, SUB},
    {"mul.half", decode, VG_C_HALF, MUL},
    {"fma.half", decode, VG_C_HALF, FMA},
    {"min.half", decode, VG_C_HALF, MIN},
    {"max.half", decode, VG_C_HALF, MAX},
    {"neg.half", decode, VG_C_HALF, NEG},
    {"abs.half", decode, VG_C_HALF, ABS},
    {NULL, NULL, 0, 0},
};
