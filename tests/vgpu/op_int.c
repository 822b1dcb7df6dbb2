/* SPDX-License-Identifier: Apache-2.0
 *
 * op_int.c: integer arithmetic (PTX ISA 9.0, 9.7.1 and 9.7.2).
 *
 * Results wrap.  What the ISA leaves open follows the hardware where it is
 * known: x / 0 is all ones and x % 0 is x.
 *
 * A handler is named operation_type; tables list them by vg_int_index, with
 * NULL where the ISA has no such type.
 */
#include "alu.h"

/* The b types have no sign and count as unsigned. */
int vg_int_index(enum vg_type t)
{
    switch (t) {
    case VG_U16: case VG_B16: return VG_IU16;
    case VG_S16: return VG_IS16;
    case VG_U32: case VG_B32: return VG_IU32;
    case VG_S32: return VG_IS32;
    case VG_U64: case VG_B64: return VG_IU64;
    case VG_S64: return VG_IS64;
    default: return -1;
    }
}

/* The shape of most decoders: op.type d, a{, b{, c}} with one width. */
bool vg_simple(struct vg_dec *d, vg_fn *fn, unsigned bits, int nsrc)
{
    if (!fn)
        return vg_error(d, "type or modifiers do not go with the opcode");
    d->out->fn = fn;
    if (!vg_out(d, 0, -1, bits))
        return false;
    for (int n = 1; n <= nsrc; n++)
        if (!vg_in(d, n, -1, bits))
            return false;
    return true;
}

/* ---- handlers of one type: S suffix, T type, U its unsigned twin --------- */

/* Arithmetic is done in the unsigned twin, where it wraps; a signed overflow
 * would be the compiler's to exploit.  1u * keeps 16-bit operands, which C
 * promotes to int, from overflowing in it. */
#define IMAX(x, y) ((x) > (y) ? (x) : (y))
#define IMIN(x, y) ((x) < (y) ? (x) : (y))
#define COMMON(S, T, U)                                                       \
    VG_BINARY(add_##S, T, T, (U)x + (U)y)                                     \
    VG_BINARY(sub_##S, T, T, (U)x - (U)y)                                     \
    VG_BINARY(mul_##S, T, T, 1u * (U)x * (U)y)                                 \
    VG_TERNARY(mad_##S, T, T, 1u * (U)x * (U)y + (U)z)                         \
    VG_BINARY(min_##S, T, T, IMIN(x, y))                                      \
    VG_BINARY(max_##S, T, T, IMAX(x, y))                                      \
    VG_TERNARY(sad_##S, T, T,                                                 \
               (U)z + (x > y ? (U)x - (U)y : (U)y - (U)x))
#define SIGNED(S, T, U)                                                       \
    COMMON(S, T, U)                                                           \
    VG_UNARY(neg_##S, T, T, (U)0 - (U)x)                                      \
    VG_UNARY(abs_##S, T, T, x < 0 ? (U)0 - (U)x : (U)x)                       \
    VG_BINARY(div_##S, T, T, y == 0 ? -1 : y == -1 ? (T)((U)0 - (U)x) : x / y)\
    VG_BINARY(rem_##S, T, T, y == 0 ? x : y == -1 ? 0 : x % y)
#define UNSIGNED(S, T)                                                        \
    COMMON(S, T, T)                                                           \
    VG_BINARY(div_##S, T, T, y == 0 ? (T)-1 : x / y)                          \
    VG_BINARY(rem_##S, T, T, y == 0 ? x : x % y)
/* The high half of a product, and that plus the addend; W: twice as wide, N:
 * bits of T. */
#define HIGH(S, T, W, N)                                                      \
    VG_BINARY(mulhi_##S, T, T, (W)x * (W)y >> N)                              \
    VG_TERNARY(madhi_##S, T, T, (uint64_t)((W)x * (W)y >> N) + (uint64_t)z)
/* The whole product in a type twice as wide (UW: its unsigned twin). */
#define WIDE(S, T, W, UW)                                                     \
    VG_BINARY(mulwide_##S, W, T, (W)x * (W)y)                                 \
    VG_TERNARY2(madwide_##S, W, T, T, W, (UW)((W)x * (W)y) + (UW)z)

/* For the high halves of 64-bit products. */
__extension__ typedef __int128 s128;
__extension__ typedef unsigned __int128 u128;

UNSIGNED(u16, uint16_t)
SIGNED(s16, int16_t, uint16_t)
UNSIGNED(u32, uint32_t)
SIGNED(s32, int32_t, uint32_t)
UNSIGNED(u64, uint64_t)
SIGNED(s64, int64_t, uint64_t)
HIGH(u16, uint16_t, uint32_t, 16)
HIGH(s16, int16_t, int32_t, 16)
HIGH(u32, uint32_t, uint64_t, 32)
HIGH(s32, int32_t, int64_t, 32)
HIGH(u64, uint64_t, u128, 64)
HIGH(s64, int64_t, s128, 64)
WIDE(u16, uint16_t, uint32_t, uint32_t)
WIDE(s16, int16_t, int32_t, uint32_t)
WIDE(u32, uint32_t, uint64_t, uint64_t)
WIDE(s32, int32_t, int64_t, uint64_t)

/* Saturation to s32, the only type that has .sat (PTX ISA 9.7.1); and .relu,
 * which cuts at 0. */
static int32_t clamp32(int64_t v)
{
    return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v;
}
VG_BINARY(add_sat, int32_t, int32_t, clamp32((int64_t)x + y))
VG_BINARY(sub_sat, int32_t, int32_t, clamp32((int64_t)x - y))
VG_TERNARY(madhi_sat, int32_t, int32_t,
           clamp32(((int64_t)x * y >> 32) + z))
VG_BINARY(min_relu, int32_t, int32_t, IMAX(IMIN(x, y), 0))
VG_BINARY(max_relu, int32_t, int32_t, IMAX(IMAX(x, y), 0))

/* Handlers of an operation by vg_int_index; NULL: the type does not have it. */
#define ALL(op)                                                               \
    {op##_u16, op##_s16, op##_u32, op##_s32, op##_u64, op##_s64}
#define SIGNED_ONLY(op) {NULL, op##_s16, NULL, op##_s32, NULL, op##_s64}
#define NARROW(op) {op##_u16, op##_s16, op##_u32, op##_s32, NULL, NULL}
typedef vg_fn *const by_type[VG_INTS];
static by_type add_fn = ALL(add), sub_fn = ALL(sub), min_fn = ALL(min),
               max_fn = ALL(max), sad_fn = ALL(sad), div_fn = ALL(div),
               rem_fn = ALL(rem), mul_fn = ALL(mul), mad_fn = ALL(mad),
               mulhi_fn = ALL(mulhi), madhi_fn = ALL(madhi),
               neg_fn = SIGNED_ONLY(neg), abs_fn = SIGNED_ONLY(abs),
               mulwide_fn = NARROW(mulwide), madwide_fn = NARROW(madwide);

/* ---- 24-bit multiplication ----------------------------------------------- */

/* The low 24 bits as a signed number: moved to the top and back.  mul24 exists
 * for devices that multiplied 24 bits faster than 32. */
static int64_t s24(int32_t v)
{
    return (int64_t)((uint64_t)(uint32_t)v << 40) >> 40;
}
/* The low 24 bits as an unsigned number. */
static uint64_t u24(uint32_t v)
{
    return v & 0xffffff;
}
/* .lo keeps bits 0 to 31 of the 48-bit product, .hi bits 16 to 47. */
VG_BINARY(mul24lo_u32, uint32_t, uint32_t, u24(x) * u24(y))
VG_BINARY(mul24lo_s32, int32_t, int32_t, s24(x) * s24(y))
VG_BINARY(mul24hi_u32, uint32_t, uint32_t, u24(x) * u24(y) >> 16)
VG_BINARY(mul24hi_s32, int32_t, int32_t, s24(x) * s24(y) >> 16)
VG_TERNARY(mad24lo_u32, uint32_t, uint32_t, u24(x) * u24(y) + z)
VG_TERNARY(mad24lo_s32, uint32_t, int32_t, (uint64_t)(s24(x) * s24(y) + z))
VG_TERNARY(mad24hi_u32, uint32_t, uint32_t, (u24(x) * u24(y) >> 16) + z)
VG_TERNARY(mad24hi_s32, uint32_t, int32_t,
           (uint64_t)((s24(x) * s24(y) >> 16) + z))
VG_TERNARY(mad24hi_sat, int32_t, int32_t,
           clamp32((int64_t)(int32_t)(s24(x) * s24(y) >> 16) + z))

/* ---- two 16-bit halves --------------------------------------------------- */

/* A handler for pairs: EXPR on x and y, once for each 16-bit half. */
#define HALVES(name, T, EXPR)                                                 \
    static uint32_t name##_pair(uint32_t p, uint32_t q)                       \
    {                                                                         \
        uint32_t r = 0;                                                       \
        for (int h = 0; h < 32; h += 16) {                                    \
            T x = (T)(p >> h), y = (T)(q >> h);                               \
            r |= (uint32_t)(uint16_t)(EXPR) << h;                             \
        }                                                                     \
        return r;                                                             \
    }                                                                         \
    VG_BINARY(name, uint32_t, uint32_t, name##_pair(x, y))
HALVES(add_x2, uint16_t, x + y)
HALVES(min_u16x2, uint16_t, IMIN(x, y))
HALVES(max_u16x2, uint16_t, IMAX(x, y))
HALVES(min_s16x2, int16_t, IMIN(x, y))
HALVES(max_s16x2, int16_t, IMAX(x, y))
HALVES(min_s16x2_relu, int16_t, IMAX(IMIN(x, y), 0))
HALVES(max_s16x2_relu, int16_t, IMAX(IMAX(x, y), 0))

/* ---- extended precision: carry in op[n], see vg_in_carry ----------------- */

/* Appended order: d, sources, then the carry row.  IN, OUT: constants.  SUM
 * is computed in WIDEST, which has at least one bit more than U; that bit is
 * the carry, or the borrow of a subtraction. */
#define CARRIED(name, T, U, WIDEST, SRCS, IN, OUT, SUM)                       \
    VG_HANDLER(name)                                                          \
    {                                                                         \
        const T *a_ = VG_ROW(const T, 1), *b_ = VG_ROW(const T, 2);           \
        const T *c_ = VG_ROW(const T, SRCS);                                  \
        uint32_t cf = VG_MASK(w, i->op[SRCS + 1]), out = 0;                   \
        U r_[VG_LANES];                                                       \
        for (int l = 0; l < VG_LANES; l++) {                                  \
            WIDEST x = (WIDEST)a_[l], y = (WIDEST)b_[l], z = (WIDEST)c_[l];   \
            WIDEST k = IN ? cf >> l & 1 : 0;                                  \
            WIDEST s = SUM;                                                   \
            (void)x, (void)y, (void)z, (void)k;                               \
            r_[l] = (U)s;                                                     \
            out |= (uint32_t)(s >> (8 * sizeof(U)) & 1) << l;                 \
        }                                                                     \
        VG_PUT(0, r_);                                                        \
        if (OUT)                                                              \
            vg_put_pred(&VG_MASK(w, i->op[SRCS + 1]), out, mask);             \
    }
/* The forms that do not depend on the sign of the type. */
#define CARRY_TYPE(S, U, W)                                                   \
    CARRIED(add_cc_##S, U, U, W, 2, 0, 1, x + y)                              \
    CARRIED(addc_##S, U, U, W, 2, 1, 0, x + y + k)                            \
    CARRIED(addc_cc_##S, U, U, W, 2, 1, 1, x + y + k)                         \
    CARRIED(sub_cc_##S, U, U, W, 2, 0, 1, x - y)                              \
    CARRIED(subc_##S, U, U, W, 2, 1, 0, x - y - k)                            \
    CARRIED(subc_cc_##S, U, U, W, 2, 1, 1, x - y - k)                         \
    CARRIED(madlo_cc_##S, U, U, W, 3, 0, 1, (W)(U)(x * y) + z)                \
    CARRIED(madloc_##S, U, U, W, 3, 1, 0, (W)(U)(x * y) + z + k)              \
    CARRIED(madloc_cc_##S, U, U, W, 3, 1, 1, (W)(U)(x * y) + z + k)
/* madhi and madhic: the high half of a product does depend on it. */
#define CARRY_HIGH(S, T, U, W, SW)                                            \
    CARRIED(madhi_cc_##S, T, U, W, 3, 0, 1,                                   \
            (W)(U)((SW)a_[l] * (SW)b_[l] >> 8 * sizeof(U)) + (W)(U)z)         \
    CARRIED(madhic_##S, T, U, W, 3, 1, 0,                                     \
            (W)(U)((SW)a_[l] * (SW)b_[l] >> 8 * sizeof(U)) + (W)(U)z + k)     \
    CARRIED(madhic_cc_##S, T, U, W, 3, 1, 1,                                  \
            (W)(U)((SW)a_[l] * (SW)b_[l] >> 8 * sizeof(U)) + (W)(U)z + k)
CARRY_TYPE(32, uint32_t, uint64_t)
CARRY_TYPE(64, uint64_t, u128)
CARRY_HIGH(u32, uint32_t, uint32_t, uint64_t, uint64_t)
CARRY_HIGH(s32, int32_t, uint32_t, uint64_t, int64_t)
CARRY_HIGH(u64, uint64_t, uint64_t, u128, u128)
CARRY_HIGH(s64, int64_t, uint64_t, u128, s128)

/* [carry in][carry out] */
typedef vg_fn *const by_carry[2][2];
static by_carry addc32 = {{NULL, add_cc_32}, {addc_32, addc_cc_32}},
                addc64 = {{NULL, add_cc_64}, {addc_64, addc_cc_64}},
                subc32 = {{NULL, sub_cc_32}, {subc_32, subc_cc_32}},
                subc64 = {{NULL, sub_cc_64}, {subc_64, subc_cc_64}},
                madc32 = {{NULL, madlo_cc_32}, {madloc_32, madloc_cc_32}},
                madc64 = {{NULL, madlo_cc_64}, {madloc_64, madloc_cc_64}};
#define HIGH_CARRY(S) {{NULL, madhi_cc_##S}, {madhic_##S, madhic_cc_##S}}
static by_carry madhic[VG_INTS] = {
    [VG_IU32] = HIGH_CARRY(u32),
    [VG_IS32] = HIGH_CARRY(s32),
    [VG_IU64] = HIGH_CARRY(u64),
    [VG_IS64] = HIGH_CARRY(s64),
};

/* vg_simple for an extended-precision instruction: appends the carry row
 * behind the sources; in, out: is it read, written. */
static bool carried(struct vg_dec *d, vg_fn *fn, unsigned bits, int nsrc,
                    bool in, bool out)
{
    if (!vg_simple(d, fn, bits, nsrc))
        return false;
    return in && out ? vg_inout_carry(d) : in ? vg_in_carry(d)
                                              : vg_out_carry(d);
}

/* ---- decoding ------------------------------------------------------------ */

/* The opcode words of integer and float arithmetic are the same; the type
 * tells them apart. */
static bool is_float(const struct vg_dec *d)
{
    static const char *const names[] = {"f32", "f64", "f16", "bf16", "f16x2",
                                        "bf16x2", "f32x2"};
    for (int n = 1; n < d->in->nwords; n++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (strcmp(d->in->word[n], names[k]) == 0)
                return true;
    return false;
}

/* arg of the rows that decode_arith serves. */
enum { ADD, SUB, MIN, MAX, DIV, REM, NEG, ABS, SAD };
static const by_type *const plain[] = {
    [ADD] = &add_fn, [SUB] = &sub_fn, [MIN] = &min_fn, [MAX] = &max_fn,
    [DIV] = &div_fn, [REM] = &rem_fn, [NEG] = &neg_fn, [ABS] = &abs_fn,
    [SAD] = &sad_fn,
};

/* s32 with .sat or .relu, and the packed 16-bit forms; NULL when plain. */
static vg_fn *special_int(struct vg_dec *d, uint32_t op, enum vg_type t)
{
    bool sat = t == VG_S32 && (op == ADD || op == SUB) && vg_mod(d, "sat");
    bool relu = (op == MIN || op == MAX) && vg_mod(d, "relu");
    if (sat)
        return op == ADD ? add_sat : sub_sat;
    if (relu && t == VG_S32)
        return op == MIN ? min_relu : max_relu;
    if (relu && t == VG_S16X2)
        return op == MIN ? min_s16x2_relu : max_s16x2_relu;
    if (t == VG_U16X2 || t == VG_S16X2)
        return op == ADD ? add_x2
             : op == MIN ? (t == VG_U16X2 ? min_u16x2 : min_s16x2)
             : op == MAX ? (t == VG_U16X2 ? max_u16x2 : max_s16x2)
                         : NULL;
    return NULL;
}

/* op{.sat}{.relu}{.cc}.type d, a{, b}, and sad.type d, a, b, c */
static bool decode_arith(struct vg_dec *d)
{
    static const char *const in_float[] = {
        [ADD] = "add.float", [SUB] = "sub.float", [MIN] = "min.float",
        [MAX] = "max.float", [DIV] = "div.float", [NEG] = "neg.float",
        [ABS] = "abs.float", [SAD] = NULL,
    };
    uint32_t op = d->out->arg;
    enum vg_type t;
    if (is_float(d) && in_float[op])
        return vg_decode_as(d, in_float[op]);
    if (!vg_need_type(d, &t))
        return false;
    int index = vg_int_index(t), nsrc = op == SAD ? 3 : op >= NEG ? 1 : 2;
    if (vg_mod(d, "cc") && op <= SUB && index >= VG_IU32) {
        bool wide = vg_bits(t) == 64;
        return carried(d, op == ADD ? (wide ? addc64 : addc32)[0][1]
                                    : (wide ? subc64 : subc32)[0][1],
                       vg_bits(t), 2, false, true);
    }
    vg_fn *fn = special_int(d, op, t);
    if (!fn && index >= 0)
        fn = (*plain[op])[index];
    return vg_simple(d, fn, vg_bits(t), nsrc);
}

/* addc{.cc}, subc{.cc}: always with carry in. */
static bool decode_addc(struct vg_dec *d)
{
    bool out = vg_mod(d, "cc"), sub = d->out->arg == SUB;
    enum vg_type t;
    if (!vg_need_type(d, &t))
        return false;
    int index = vg_int_index(t);
    if (index < VG_IU32)
        return vg_error(d, "needs a 32-bit or 64-bit integer type");
    return carried(d, vg_bits(t) == 64 ? (sub ? subc64 : addc64)[1][out]
                                       : (sub ? subc32 : addc32)[1][out],
                   vg_bits(t), 2, true, out);
}

/* {mul,mad}.wide: the result and the addend are twice as wide.  There is no
 * 128-bit integer type, hence no .wide of 64 bits. */
static bool decode_wide(struct vg_dec *d, bool mad, int index, unsigned bits)
{
    d->out->fn = (mad ? madwide_fn : mulwide_fn)[index];
    if (!d->out->fn)
        return vg_error(d, "no .wide for 64-bit types");
    return vg_out(d, 0, -1, 2 * bits) && vg_in(d, 1, -1, bits) &&
           vg_in(d, 2, -1, bits) && (!mad || vg_in(d, 3, -1, 2 * bits));
}

/* mul, mad, madc: {.hi, .lo, .wide}{.cc}{.sat}.  part: 0 lo, 1 hi, 2 wide.
 * Only mad has .cc, and .sat belongs to mad.hi.s32 alone (PTX ISA 9.7.1). */
static bool decode_mul(struct vg_dec *d)
{
    bool mad = strcmp(d->in->word[0], "mul") != 0;
    bool in = strcmp(d->in->word[0], "madc") == 0;
    enum vg_type t;
    if (is_float(d))
        return vg_decode_as(d, mad ? "mad.float" : "mul.float");
    if (!vg_need_type(d, &t))
        return false;
    int part = vg_mod_of(d, "lo|hi|wide"), index = vg_int_index(t);
    if (part < 0 || index < 0)
        return vg_error(d, "needs .lo, .hi or .wide and an integer type");
    if (part == 2)
        return decode_wide(d, mad, index, vg_bits(t));
    bool out = mad && vg_mod(d, "cc");
    if (in || out) {
        if (index < VG_IU32)
            return vg_error(d, "needs a 32-bit or 64-bit integer type");
        vg_fn *fn = part ? madhic[index][in][out]
                  : (vg_bits(t) == 64 ? madc64 : madc32)[in][out];
        return carried(d, fn, vg_bits(t), 3, in, out);
    }
    vg_fn *fn = (mad ? part ? madhi_fn : mad_fn
                     : part ? mulhi_fn : mul_fn)[index];
    if (mad && part && t == VG_S32 && vg_mod(d, "sat"))
        fn = madhi_sat;
    return vg_simple(d, fn, vg_bits(t), mad ? 3 : 2);
}

/* mul24.{lo,hi}.type d, a, b and mad24.{lo,hi}{.sat}.type d, a, b, c; the
 * table is indexed by mad, part and sign. */
static bool decode_mul24(struct vg_dec *d)
{
    static vg_fn *const fn[2][2][2] = {
        {{mul24lo_u32, mul24lo_s32}, {mul24hi_u32, mul24hi_s32}},
        {{mad24lo_u32, mad24lo_s32}, {mad24hi_u32, mad24hi_s32}},
    };
    bool mad = strcmp(d->in->word[0], "mad24") == 0;
    int part = vg_mod_of(d, "lo|hi");
    enum vg_type t = vg_type(d);
    if (part < 0 || (t != VG_U32 && t != VG_S32))
        return vg_error(d, "needs .lo or .hi and .u32 or .s32");
    if (mad && part && t == VG_S32 && vg_mod(d, "sat"))
        return vg_simple(d, mad24hi_sat, 32, 3);
    return vg_simple(d, fn[mad][part][t == VG_S32], 32, mad ? 3 : 2);
}

/* These names are also the floating-point ones: decode_arith and decode_mul
 * send those on. */
const struct vg_opcode vg_ops_int[] = {
    {"add", decode_arith, VG_C_INT, ADD},
    {"sub", decode_arith, VG_C_INT, SUB},
    {"min", decode_arith, VG_C_INT, MIN},
    {"max", decode_arith, VG_C_INT, MAX},
    {"div", decode_arith, VG_C_INT, DIV},
    {"rem", decode_arith, VG_C_INT, REM},
    {"neg", decode_arith, VG_C_INT, NEG},
    {"abs", decode_arith, VG_C_INT, ABS},
    {"sad", decode_arith, VG_C_INT, SAD},
    {"addc", decode_addc, VG_C_INT, ADD},
    {"subc", decode_addc, VG_C_INT, SUB},
    {"mul", decode_mul, VG_C_INT, 0},
    {"mad", decode_mul, VG_C_INT, 0},
    {"madc", decode_mul, VG_C_INT, 0},
    {"mul24", decode_mul24, VG_C_INT, 0},
    {"mad24", decode_mul24, VG_C_INT, 0},
    {NULL, NULL, 0, 0},
};
