/* SPDX-License-Identifier: Apache-2.0
 *
 * op_float.c: single precision (PTX ISA 9.0, 9.7.3) and f32x2.
 *
 * The common forms (round to nearest, no modifier) have handlers of their
 * own.  Everything else goes through one: copy the sources, flush them for
 * .ftz, set the host's rounding mode, run the operation's row function,
 * flush, saturate.  A NaN result is always 0x7fffffff (section 5.2.3).
 */
#include "alu.h"
#include "num.h"

#include <fenv.h>
#include <math.h>

/* Bits of arg. */
#define FTZ 1u
#define SAT 2u
#define XORSIGN 4u
#define NAN_WINS 8u
#define ROUND(arg) ((arg) >> 4 & 3)
#define OP(arg) ((arg) >> 8)

/* ---- the common forms ---------------------------------------------------- */

/* canonical: the hardware knows one NaN, the host many. */
VG_BINARY(add_plain, float, float, vg_canonical(x + y))
VG_BINARY(sub_plain, float, float, vg_canonical(x - y))
VG_BINARY(mul_plain, float, float, vg_canonical(x * y))
VG_TERNARY(fma_plain, float, float, vg_canonical(__builtin_fmaf(x, y, z)))

/* -0 is less than +0; a NaN loses against a number. */
static inline float min_of(float x, float y)
{
    uint32_t both = vg_float_bits(x) | vg_float_bits(y);
    float r = x < y ? x : y;            /* y when unordered or equal */
    r = x == y ? (x == 0.0f ? vg_bits_float(both & 0x80000000) : x) : r;
    return y != y ? x : r;
}
/* The same with the larger of two zeros: + & - is +. */
static inline float max_of(float x, float y)
{
    uint32_t both = vg_float_bits(x) & vg_float_bits(y);
    float r = x > y ? x : y;
    r = x == y ? (x == 0.0f ? vg_bits_float(both & 0x80000000) : x) : r;
    return y != y ? x : r;
}
VG_BINARY(min_plain, float, float, vg_canonical(min_of(x, y)))
VG_BINARY(max_plain, float, float, vg_canonical(max_of(x, y)))
VG_UNARY(neg_plain, uint32_t, uint32_t, x ^ 0x80000000)
VG_UNARY(abs_plain, uint32_t, uint32_t, x & 0x7fffffff)

/* ---- the general form ---------------------------------------------------- */

typedef void row_fn(float *r, const float *a, const float *b, const float *c,
                    uint32_t arg);
#define ROW(name, EXPR)                                                       \
    static void name(float *r, const float *a, const float *b,                \
                     const float *c, uint32_t arg)                            \
    {                                                                         \
        for (int l = 0; l < VG_LANES; l++) {                                  \
            float x = a[l], y = b[l], z = c[l];                               \
            (void)y, (void)z, (void)arg;                                      \
            r[l] = EXPR;                                                      \
        }                                                                     \
    }

/* min, max with modifiers: .NaN makes a NaN win, .xorsign.abs compares
 * magnitudes and multiplies the signs. */
static float extreme(float x, float y, bool max, uint32_t arg)
{
    uint32_t sign = (vg_float_bits(x) ^ vg_float_bits(y)) & 0x80000000;
    if ((arg & NAN_WINS) && (x != x || y != y))
        return NAN;
    if (!(arg & XORSIGN))
        return max ? max_of(x, y) : min_of(x, y);
    float r = max ? max_of(fabsf(x), fabsf(y)) : min_of(fabsf(x), fabsf(y));
    return r != r ? r : vg_bits_float((vg_float_bits(r) & 0x7fffffff) | sign);
}

/* ISA 9.7.3.8: beyond 2^126 the approximate quotient is 0. */
static float div_approx(float x, float y)
{
    if (fabsf(y) > 0x1p126f && !isinf(y))
        return isinf(x) || x != x ? NAN : copysignf(0.0f, x) *
                                              copysignf(1.0f, y);
    return x / y;
}

/* sub, mul and div round once by themselves; fma is the fused one, whatever
 * the compiler may do with x * y + z. */
ROW(row_add, x + y)
ROW(row_sub, x - y)
ROW(row_mul, x * y)
ROW(row_fma, __builtin_fmaf(x, y, z))
ROW(row_div, x / y)
ROW(row_div_approx, div_approx(x, y))
ROW(row_min, extreme(x, y, false, arg))
ROW(row_max, extreme(x, y, true, arg))
ROW(row_min3, extreme(extreme(x, y, false, arg), z, false, arg))
ROW(row_max3, extreme(extreme(x, y, true, arg), z, true, arg))
ROW(row_neg, -x)
ROW(row_abs, fabsf(x))
ROW(row_rcp, 1.0f / x)
ROW(row_sqrt, sqrtf(x))

/* The operations: row function, handler of the plain form if there is one,
 * number of sources. */
enum op { ADD, SUB, MUL, FMA, DIV, DIV_APPROX, MIN, MAX, MIN3, MAX3, NEG, ABS,
          RCP, SQRT };
static const struct {
    row_fn *row;
    vg_fn *plain;
    int nsrc;
} ops[] = {
    [ADD] = {row_add, add_plain, 2},
    [SUB] = {row_sub, sub_plain, 2},
    [MUL] = {row_mul, mul_plain, 2},
    [FMA] = {row_fma, fma_plain, 3},
    [DIV] = {row_div, NULL, 2},
    [DIV_APPROX] = {row_div_approx, NULL, 2},
    [MIN] = {row_min, min_plain, 2},
    [MAX] = {row_max, max_plain, 2},
    [MIN3] = {row_min3, NULL, 3},
    [MAX3] = {row_max3, NULL, 3},
    [NEG] = {row_neg, neg_plain, 1},
    [ABS] = {row_abs, abs_plain, 1},
    [RCP] = {row_rcp, NULL, 1},
    [SQRT] = {row_sqrt, NULL, 1},
};

/* The row function runs behind a pointer, so that no compiler moves its
 * arithmetic out of the region with the other rounding mode. */
static void run_row(float *r, const float *a, const float *b, const float *c,
                    uint32_t arg)
{
    static const int host[] = {[VG_RN] = FE_TONEAREST,
                               [VG_RZ] = FE_TOWARDZERO,
                               [VG_RM] = FE_DOWNWARD,
                               [VG_RP] = FE_UPWARD};
    row_fn *volatile f = ops[OP(arg)].row;
    if (ROUND(arg) == VG_RN) {
        f(r, a, b, c, arg);
        return;
    }
    int before = fegetround();
    fesetround(host[ROUND(arg)]);
    f(r, a, b, c, arg);
    fesetround(before);
}

/* Sources are copied even without .ftz: the row functions then never see
 * their result row among them. */
static void load(float *to, const float *from, bool flush)
{
    for (int l = 0; l < VG_LANES; l++)
        to[l] = flush ? vg_flush(from[l]) : from[l];
}

/* What happens to every result, in the order of the ISA: one NaN, flush,
 * clamp to [0, 1]. */
static void end(float *r, uint32_t arg)
{
    for (int l = 0; l < VG_LANES; l++) {
        float v = vg_canonical(r[l]);
        v = arg & FTZ ? vg_flush(v) : v;
        r[l] = arg & SAT ? vg_saturate(v) : v;
    }
}

/* 32 numbers from each source, starting at element `at` of the rows: once for
 * f32, twice for f32x2. */
static void part(const struct vg_warp *w, const struct vg_insn *i, int at,
                 float *r)
{
    float src[3][VG_LANES] = {{0}};
    for (int n = 0; n < ops[OP(i->arg)].nsrc; n++)
        load(src[n], (const float *)vg_row(w, i->op[n + 1]) + at,
             i->arg & FTZ);
    run_row(r, src[0], src[1], src[2], i->arg);
    end(r, i->arg);
}

/* Every f32 instruction with a modifier, and those without a plain handler.
 */
VG_HANDLER(general)
{
    float r[VG_LANES];
    part(w, i, 0, r);
    VG_PUT(0, r);
}

/* f32x2: a 64-bit row is 64 singles. */
VG_HANDLER(general_x2)
{
    float r[2 * VG_LANES];
    part(w, i, 0, r);
    part(w, i, VG_LANES, r + VG_LANES);
    vg_put64(vg_row(w, i->op[0]), (const void *)r, mask);
}

/* ---- decoding ------------------------------------------------------------ */

/* Appends d and the sources and picks the handler. */
static bool finish(struct vg_dec *d, enum op op, uint32_t flags,
                   enum vg_type t)
{
    int nsrc = ops[op].nsrc;
    d->out->arg = flags | (uint32_t)op << 8;
    d->out->fn = t == VG_F32X2 ? general_x2
               : !flags && ops[op].plain ? ops[op].plain : general;
    bool ok = vg_out(d, 0, -1, vg_bits(t));
    for (int n = 1; ok && n <= nsrc; n++)
        ok = vg_in_typed(d, n, -1, t);
    return ok;
}

/* The default is .rn where the ISA allows leaving it out. */
static uint32_t rounding(struct vg_dec *d)
{
    int mode = vg_mod_of(d, "rn|rz|rm|rp");
    return mode < 0 ? 0 : (uint32_t)mode << 4;
}

/* Rounding, .ftz and .sat as bits of arg. */
static uint32_t common_flags(struct vg_dec *d)
{
    uint32_t flags = rounding(d);
    if (vg_mod(d, "ftz"))
        flags |= FTZ;
    if (vg_mod(d, "sat"))
        flags |= SAT;
    return flags;
}

/* Other widths have files of their own. */
static bool other_width(struct vg_dec *d, const char *f64, const char *half,
                        enum vg_type t, bool *ok)
{
    bool is_half = t == VG_F16 || t == VG_BF16 || t == VG_F16X2 ||
                   t == VG_BF16X2;
    if (t == VG_F64 && f64)
        *ok = vg_decode_as(d, f64);
    else if (is_half && half)
        *ok = vg_decode_as(d, half);
    else if (t == VG_F32 || t == VG_F32X2)
        return false;
    else
        *ok = vg_error(d, "type does not go with the opcode");
    return true;
}

/* The type without consuming it: the other width's decoder wants it too. */
static enum vg_type peek_type(struct vg_dec *d)
{
    uint32_t used = d->used;
    enum vg_type t = vg_type(d);
    if (t == VG_F32 || t == VG_F32X2)
        return t;
    d->used = used;
    return t;
}

/* add, sub, mul, fma, mad: arg is the operation. */
static bool decode_arith(struct vg_dec *d)
{
    static const char *const names[][2] = {
        [ADD] = {"add.double", "add.half"}, [SUB] = {"sub.double", "sub.half"},
        [MUL] = {"mul.double", "mul.half"}, [FMA] = {"fma.double", "fma.half"},
    };
    enum op op = d->out->arg;
    enum vg_type t = peek_type(d);
    bool ok;
    if (other_width(d, names[op][0], names[op][1], t, &ok))
        return ok;
    return finish(d, op, common_flags(d), t);
}

/* div{.approx,.full,.rnd}{.ftz}.f32 d, a, b: full is correctly rounded here,
 * which is inside its two ulp */
static bool decode_div(struct vg_dec *d)
{
    enum vg_type t = peek_type(d);
    bool ok;
    if (other_width(d, "div.double", NULL, t, &ok))
        return ok;
    bool approx = vg_mod(d, "approx"), full = vg_mod(d, "full");
    return finish(d, approx && !full ? DIV_APPROX : DIV, common_flags(d), t);
}

/* {min,max}{.ftz}{.NaN}{.xorsign.abs}.f32 d, a, b{, c} */
static bool decode_minmax(struct vg_dec *d)
{
    bool max = d->out->arg == MAX, ok;
    enum vg_type t = peek_type(d);
    if (other_width(d, max ? "max.double" : "min.double",
                    max ? "max.half" : "min.half", t, &ok))
        return ok;
    uint32_t flags = common_flags(d);
    if (vg_mod(d, "NaN"))
        flags |= NAN_WINS;
    if (vg_mod(d, "xorsign") && vg_mod(d, "abs"))
        flags |= XORSIGN;
    bool three = d->in->nops == 4;
    return finish(d, max ? three ? MAX3 : MAX : three ? MIN3 : MIN, flags, t);
}

/* {neg,abs}{.ftz}.f32 d, a */
static bool decode_sign(struct vg_dec *d)
{
    bool is_neg = d->out->arg == NEG, ok;
    enum vg_type t = peek_type(d);
    if (other_width(d, is_neg ? "neg.double" : "abs.double",
                    is_neg ? "neg.half" : "abs.half", t, &ok))
        return ok;
    return finish(d, is_neg ? NEG : ABS, common_flags(d), t);
}

/* rcp, sqrt: the approximations are allowed to be exact. */
static bool decode_root(struct vg_dec *d)
{
    bool rcp = d->out->arg == RCP, ok;
    enum vg_type t = peek_type(d);
    if (other_width(d, rcp ? "rcp.double" : "sqrt.double", NULL, t, &ok))
        return ok;
    vg_mod(d, "approx");
    return finish(d, rcp ? RCP : SQRT, common_flags(d), t);
}

/* Names with ".float" are reached from the integer opcodes of that name. */
const struct vg_opcode vg_ops_float[] = {
    {"add.float", decode_arith, VG_C_FLOAT, ADD},
    {"sub.float", decode_arith, VG_C_FLOAT, SUB},
    {"mul.float", decode_arith, VG_C_FLOAT, MUL},
    {"mad.float", decode_arith, VG_C_FLOAT, FMA},
    {"fma", decode_arith, VG_C_FLOAT, FMA},
    {"div.float", decode_div, VG_C_FLOAT, DIV},
    {"min.float", decode_minmax, VG_C_FLOAT, MIN},
    {"max.float", decode_minmax, VG_C_FLOAT, MAX},
    {"neg.float", decode_sign, VG_C_FLOAT, NEG},
    {"abs.float", decode_sign, VG_C_FLOAT, ABS},
    {"rcp", decode_root, VG_C_SPECIAL, RCP},
    {"sqrt", decode_root, VG_C_SPECIAL, SQRT},
    {NULL, NULL, 0, 0},
};
