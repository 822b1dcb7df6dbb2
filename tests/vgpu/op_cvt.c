/* SPDX-License-Identifier: Apache-2.0
 *
 * op_cvt.c: cvt (PTX ISA 9.0, 9.7.9.21) and cvt.pack.
 *
 * Any type converts to any other through one intermediate: 64-bit integers
 * for integers, doubles for floats, where every source value is exact.  The
 * pairs that kernels convert all day have vectorised handlers, listed in the
 * table `fast`.  Registers may be wider than the type: a source is cut, a
 * result extended.
 *
 * The two ways give the same bits: the fast one is for conversions that C
 * makes exactly as PTX does (widening, cutting, round to nearest), and for
 * those that num.h has for whole rows.
 */
#include "alu.h"
#include "num.h"

#include <fenv.h>
#include <math.h>

/* ---- fast pairs ---------------------------------------------------------- */

/* Integer to integer: the register is read as RT, cut to the source type ST
 * and extended to the destination's DT by C's own rules. */
#define WIDTH(name, DT, ST, RT) VG_UNARY(name, DT, RT, (ST)x)
WIDTH(u32_u16, uint32_t, uint16_t, uint16_t)
WIDTH(s32_s16, int32_t, int16_t, int16_t)
WIDTH(u64_u32, uint64_t, uint32_t, uint32_t)
WIDTH(s64_s32, int64_t, int32_t, int32_t)
WIDTH(u32_u64, uint32_t, uint32_t, uint64_t)
WIDTH(u16_u32, uint16_t, uint16_t, uint32_t)
WIDTH(u64_u16, uint64_t, uint16_t, uint16_t)
WIDTH(s64_s16, int64_t, int16_t, int16_t)
WIDTH(u32_u8, uint32_t, uint8_t, uint16_t)
WIDTH(s32_s8, int32_t, int8_t, uint32_t)
WIDTH(u32_u8r, uint32_t, uint8_t, uint32_t)
VG_UNARY(f32_s32, float, int32_t, x)
VG_UNARY(f32_u32, float, uint32_t, x)
VG_UNARY(f64_f32, double, float, x)

/* Toward zero, clamped, NaN to 0 (ISA 9.7.9.21); written without branches. */
static inline int32_t to_s32(float x)
{
    int32_t v = x >= 0x1p31f ? INT32_MAX : x <= -0x1p31f ? INT32_MIN
              : (int32_t)x;
    return x == x ? v : 0;
}
static inline uint32_t to_u32(float x)
{
    return x >= 0x1p32f ? UINT32_MAX : x > 0.0f ? (uint32_t)x : 0;
}
VG_UNARY(s32_f32, int32_t, float, to_s32(x))
VG_UNARY(u32_f32, uint32_t, float, to_u32(x))

/* Handlers around the conversions of whole rows in num.h. */
#define ROW_FN(name, T, U, f)                                                 \
    VG_HANDLER(name)                                                          \
    {                                                                         \
        T r[VG_LANES];                                                        \
        f(r, VG_ROW(U, 1));                                                   \
        VG_PUT(0, r);                                                         \
    }
ROW_FN(f32_f16, float, uint16_t, vg_row_f16_to_f32)
ROW_FN(f32_bf16, float, uint16_t, vg_row_bf16_to_f32)
ROW_FN(f16_f32, uint16_t, float, vg_row_f32_to_f16)
ROW_FN(bf16_f32, uint16_t, float, vg_row_f32_to_bf16)

/* d = {a high, b low} */
#define PACK_FN(name, f)                                                      \
    VG_HANDLER(name)                                                          \
    {                                                                         \
        uint16_t hi[VG_LANES], lo[VG_LANES];                                  \
        uint32_t r[VG_LANES];                                                 \
        f(hi, VG_ROW(float, 1));                                              \
        f(lo, VG_ROW(float, 2));                                              \
        for (int l = 0; l < VG_LANES; l++)                                    \
            r[l] = (uint32_t)hi[l] << 16 | lo[l];                             \
        VG_PUT(0, r);                                                         \
    }
PACK_FN(f16x2_f32, vg_row_f32_to_f16)
PACK_FN(bf16x2_f32, vg_row_f32_to_bf16)

/* src, dst: register widths.  round: the .rn or .rzi word, NULL none.
 *
 * Between integers the source's sign decides how it is extended; the
 * destination's changes no bit of the register, nor does either when it is
 * cut.  So one handler serves up to four pairs of types. */
static const struct {
    enum vg_type dt, st;
    uint8_t dst, src;
    const char *round;
    vg_fn *fn;
} fast[] = {
    {VG_U32, VG_U16, 32, 16, NULL, u32_u16},
    {VG_S32, VG_U16, 32, 16, NULL, u32_u16},
    {VG_S32, VG_S16, 32, 16, NULL, s32_s16},
    {VG_U32, VG_S16, 32, 16, NULL, s32_s16},
    {VG_U64, VG_U32, 64, 32, NULL, u64_u32},
    {VG_S64, VG_U32, 64, 32, NULL, u64_u32},
    {VG_S64, VG_S32, 64, 32, NULL, s64_s32},
    {VG_U64, VG_S32, 64, 32, NULL, s64_s32},
    {VG_U32, VG_U64, 32, 64, NULL, u32_u64},
    {VG_U32, VG_S64, 32, 64, NULL, u32_u64},
    {VG_S32, VG_U64, 32, 64, NULL, u32_u64},
    {VG_S32, VG_S64, 32, 64, NULL, u32_u64},
    {VG_U16, VG_U32, 16, 32, NULL, u16_u32},
    {VG_U16, VG_S32, 16, 32, NULL, u16_u32},
    {VG_S16, VG_U32, 16, 32, NULL, u16_u32},
    {VG_S16, VG_S32, 16, 32, NULL, u16_u32},
    {VG_U64, VG_U16, 64, 16, NULL, u64_u16},
    {VG_S64, VG_S16, 64, 16, NULL, s64_s16},
    {VG_U32, VG_U8, 32, 16, NULL, u32_u8},
    {VG_S32, VG_S8, 32, 32, NULL, s32_s8},
    {VG_U32, VG_U8, 32, 32, NULL, u32_u8r},
    {VG_F32, VG_S32, 32, 32, "rn", f32_s32},
    {VG_F32, VG_U32, 32, 32, "rn", f32_u32},
    {VG_S32, VG_F32, 32, 32, "rzi", s32_f32},
    {VG_U32, VG_F32, 32, 32, "rzi", u32_f32},
    {VG_F64, VG_F32, 64, 32, NULL, f64_f32},
    {VG_F32, VG_F16, 32, 16, NULL, f32_f16},
    {VG_F32, VG_BF16, 32, 16, NULL, f32_bf16},
    {VG_F16, VG_F32, 16, 32, "rn", f16_f32},
    {VG_BF16, VG_F32, 16, 32, "rn", bf16_f32},
    {VG_F16X2, VG_F32, 32, 32, "rn", f16x2_f32},
    {VG_BF16X2, VG_F32, 32, 32, "rn", bf16x2_f32},
};

/* ---- any to any ---------------------------------------------------------- */

enum round { RN, RZ, RM, RP, RNA, RNI, RZI, RMI, RPI, NONE };
#define ROUND_NAMES "rn|rz|rm|rp|rna|rni|rzi|rmi|rpi"

/* What a cvt does; its aux. */
struct convert {
    enum vg_type dt, st;
    enum round round;
    bool ftz, sat, relu, finite;
    unsigned dst, src;          /* register widths */
};

/* The b types count as unsigned here as well.  By the order of enum vg_type:
 * the integers of each width lie together. */
static bool is_int(enum vg_type t)
{
    return (t >= VG_B8 && t <= VG_S16) || (t >= VG_B32 && t <= VG_S32) ||
           (t >= VG_B64 && t <= VG_S64);
}
static bool is_signed(enum vg_type t)
{
    return t == VG_S8 || t == VG_S16 || t == VG_S32 || t == VG_S64;
}

/* The element format of a float type, NULL for f64 and integers. */
static const struct vg_format *format_of(enum vg_type t)
{
    switch (t) {
    case VG_F16: case VG_F16X2: return &vg_f16;
    case VG_BF16: case VG_BF16X2: return &vg_bf16;
    case VG_F32: return &vg_f32;
    case VG_TF32: return &vg_tf32;
    case VG_E4M3X2: return &vg_e4m3;
    case VG_E5M2X2: return &vg_e5m2;
    case VG_E2M1X2: return &vg_e2m1;
    case VG_E2M3X2: return &vg_e2m3;
    case VG_E3M2X2: return &vg_e3m2;
    case VG_UE8M0X2: return &vg_ue8m0;
    default: return NULL;
    }
}

/* The raw bits of lane l of a register row. */
static uint64_t raw(const void *row, unsigned bits, int l)
{
    switch (bits) {
    case 8: return ((const uint8_t *)row)[l];
    case 16: return ((const uint16_t *)row)[l];
    case 32: return ((const uint32_t *)row)[l];
    default: return ((const uint64_t *)row)[l];
    }
}

/* The low bits of a register as a number of type t. */
static int64_t as_int(uint64_t v, enum vg_type t)
{
    unsigned shift = 64 - vg_bits(t);
    return is_signed(t) ? (int64_t)(v << shift) >> shift
                        : (int64_t)(v << shift >> shift);
}

/* A float source; .ftz flushes f32 inputs. */
static double as_double(uint64_t v, enum vg_type t, bool ftz)
{
    if (t == VG_F64)
        return vg_bits_double(v);
    if (t == VG_F32) {
        float f = vg_bits_float((uint32_t)v);
        return (double)(ftz ? vg_flush(f) : f);
    }
    return vg_widen((uint32_t)v & 0xffff, format_of(t));
}

/* The mode of a conversion between floats; integer roundings have been done
 * by then. */
static enum vg_rounding mode_of(enum round r)
{
    static const enum vg_rounding m[] = {VG_RN, VG_RZ, VG_RM, VG_RP, VG_RNA};
    return r <= RNA ? m[r] : VG_RN;
}

/* For conversions that the host does in one rounding. */
static int host_mode(enum round r)
{
    return r == RZ ? FE_TOWARDZERO : r == RM ? FE_DOWNWARD
         : r == RP ? FE_UPWARD : FE_TONEAREST;
}

/* A float to the bits of a float type, .sat (to [0, 1], NaN to 0) and .relu
 * first.  tf32 sits in the upper 19 bits of its register. */
static uint64_t from_double(double v, const struct convert *k, enum vg_type t)
{
    if (k->sat)
        v = v > 0 ? (v < 1 ? v : 1) : 0;
    if (k->relu && v == v)
        v = v > 0 ? v : 0;
    if (t == VG_F64)
        return vg_double_bits(v);
    uint32_t r = vg_narrow(v, format_of(t), mode_of(k->round), k->finite);
    if (t == VG_TF32)
        r = r == vg_tf32.nan ? 0x7fffffff : r << 13;
    if (t == VG_F32 && k->ftz)
        r = vg_float_bits(vg_flush(vg_bits_float(r)));
    return r;
}

/* The integer rounding of .rni, .rzi, .rmi, .rpi; trunc when none is named.
 */
static double to_integral(double v, enum round r)
{
    switch (r) {
    case RNI: return nearbyint(v);
    case RMI: return floor(v);
    case RPI: return ceil(v);
    default: return trunc(v);
    }
}

/* An integral double to integer type t: clamped.  A NaN is 0, or, if .f64 or
 * a 64-bit type takes part, the top bit alone (ISA 9.7.9.21). */
static uint64_t clamp_double(double v, enum vg_type from, enum vg_type t)
{
    unsigned n = vg_bits(t);
    if (v != v)
        return from == VG_F64 || n == 64 ? UINT64_C(1) << (n - 1) : 0;
    if (is_signed(t)) {
        double top = ldexp(1.0, (int)n - 1);
        if (v >= top)
            return (UINT64_C(1) << (n - 1)) - 1;
        return v <= -top ? UINT64_C(1) << (n - 1) : (uint64_t)(int64_t)v;
    }
    if (v >= ldexp(1.0, (int)n))
        return n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
    return v > 0 ? (uint64_t)v : 0;
}

/* .sat between integers: clamp to the range of t. */
static int64_t clamp_int(int64_t v, enum vg_type from, enum vg_type t)
{
    unsigned n = vg_bits(t);
    bool huge = from == VG_U64 && v < 0;    /* above INT64_MAX */
    if (is_signed(t)) {
        int64_t top = (int64_t)((UINT64_C(1) << (n - 1)) - 1);
        return huge || v > top ? top : v < -top - 1 ? -top - 1 : v;
    }
    if (v < 0 && !huge)
        return 0;
    if (n == 64)
        return v;
    int64_t top = (int64_t)((UINT64_C(1) << n) - 1);
    return huge || v > top ? top : v;
}

/* Integer to float.  f32 and f64 by the host in the right mode; halves from
 * an odd-rounded double. */
static uint64_t int_to_float(int64_t v, const struct convert *k)
{
    bool big = !is_signed(k->st) && v < 0;
    /* volatile: converted here, under the rounding mode that `any` has set,
     * and not where a compiler would rather have it. */
    volatile double d = big ? (double)(uint64_t)v : (double)v;
    volatile float f = big ? (float)(uint64_t)v : (float)v;
    if (k->dt == VG_F64)
        return vg_double_bits(d);
    if (k->dt == VG_F32 && !k->sat)
        return vg_float_bits(f);
    /* host mode is RZ here (see convert): make the last bit sticky */
    uint64_t u = vg_double_bits(d);
    bool exact = big ? (uint64_t)d == (uint64_t)v : (int64_t)d == v;
    return from_double(vg_bits_double(exact ? u : u | 1), k, k->dt);
}

/* One value from source bits to result bits: integers and floats on either
 * side, four ways. */
static uint64_t convert_lane(uint64_t v, const struct convert *k)
{
    if (is_int(k->st)) {
        int64_t n = as_int(v, k->st);
        if (!is_int(k->dt))
            return int_to_float(n, k);
        return (uint64_t)(k->sat ? clamp_int(n, k->st, k->dt) : n);
    }
    double d = as_double(v, k->st, k->ftz);
    if (is_int(k->dt))
        return clamp_double(to_integral(d, k->round), k->st, k->dt);
    if (k->round >= RNI && k->round < NONE)
        d = copysign(to_integral(d, k->round), d);
    return from_double(d, k, k->dt);
}

/* Result bits of type t into a register of `bits`, for the lanes of mask: an
 * integer is extended to the register's width, a float zero-extended. */
static void store(struct vg_warp *w, const struct vg_insn *i, uint32_t mask,
                  const uint64_t *r, enum vg_type t, unsigned bits)
{
    for (int l = 0; l < VG_LANES; l++) {
        if (!(mask >> l & 1))
            continue;
        uint64_t v = is_int(t) ? (uint64_t)as_int(r[l], t) : r[l];
        void *row = vg_row(w, i->op[0]);
        if (bits == 8)
            ((uint8_t *)row)[l] = (uint8_t)v;
        else if (bits == 16)
            ((uint16_t *)row)[l] = (uint16_t)v;
        else if (bits == 32)
            ((uint32_t *)row)[l] = (uint32_t)v;
        else
            ((uint64_t *)row)[l] = v;
    }
}

/* The general conversion of single values.  An integer becomes f32 or f64 in
 * one rounding by the host, in the instruction's mode; anything narrower goes
 * through a double rounded toward zero (int_to_float). */
VG_HANDLER(any)
{
    const struct convert *k = i->aux;
    bool direct = is_int(k->st) && (k->dt == VG_F64 || (k->dt == VG_F32 &&
                                                        !k->sat));
    uint64_t r[VG_LANES];
    int before = fegetround();
    if (is_int(k->st) && !is_int(k->dt))
        fesetround(direct ? host_mode(k->round) : FE_TOWARDZERO);
    for (int l = 0; l < VG_LANES; l++)
        r[l] = convert_lane(raw(vg_row(w, i->op[1]), k->src, l), k);
    fesetround(before);
    store(w, i, mask, r, k->dt, k->dst);
}

/* ---- pairs --------------------------------------------------------------- */

/* Two floats packed: op[1] becomes the high element, op[2] the low one. */
VG_HANDLER(pack)
{
    const struct convert *k = i->aux;
    unsigned half = vg_bits(k->dt) / 2;
    uint64_t r[VG_LANES];
    for (int l = 0; l < VG_LANES; l++) {
        double hi = as_double(VG_ROW(uint32_t, 1)[l], VG_F32, k->ftz);
        double lo = as_double(VG_ROW(uint32_t, 2)[l], VG_F32, k->ftz);
        r[l] = from_double(hi, k, k->dt) << half | from_double(lo, k, k->dt);
    }
    store(w, i, mask, r, k->dt, k->dst);
}

/* A pair to a pair of another format. */
VG_HANDLER(repack)
{
    const struct convert *k = i->aux;
    unsigned from = vg_bits(k->st) / 2, to = vg_bits(k->dt) / 2;
    uint64_t r[VG_LANES];
    for (int l = 0; l < VG_LANES; l++) {
        uint64_t v = raw(vg_row(w, i->op[1]), k->src, l);
        uint32_t lo = (uint32_t)v & ((1u << from) - 1);
        uint32_t hi = (uint32_t)(v >> from) & ((1u << from) - 1);
        r[l] = from_double(vg_widen(hi, format_of(k->st)), k, k->dt) << to |
               from_double(vg_widen(lo, format_of(k->st)), k, k->dt);
    }
    store(w, i, mask, r, k->dt, k->dst);
}

/* Types that hold two floats. */
static bool is_pair(enum vg_type t)
{
    return format_of(t) && t != VG_F16 && t != VG_BF16 && t != VG_F32 &&
           t != VG_TF32;
}

/* ---- decoding ------------------------------------------------------------ */

/* NULL when a modifier or a width asks for the general handler.  A linear
 * search, but once per instruction of the text, not per execution. */
static vg_fn *find_fast(const struct convert *k)
{
    static const char *const names[] = {"rn", "rz", "rm", "rp", "rna",
                                        "rni", "rzi", "rmi", "rpi"};
    const char *round = k->round == NONE ? NULL : names[k->round];
    if (k->ftz || k->sat || k->relu || k->finite)
        return NULL;
    for (size_t n = 0; n < sizeof fast / sizeof *fast; n++)
        if (fast[n].dt == k->dt && fast[n].st == k->st &&
            fast[n].dst == k->dst && fast[n].src == k->src &&
            (!fast[n].round ? !round
                            : round && strcmp(fast[n].round, round) == 0))
            return fast[n].fn;
    return NULL;
}

/* What exists in the ISA, by kind and number of operands: pairs come from two
 * f32 registers or from another pair, single values from single values.
 * Nothing converts from tf32. */
static bool convertible(const struct vg_dec *d, const struct convert *k)
{
    bool known = (is_int(k->dt) || k->dt == VG_F64 || format_of(k->dt)) &&
                 (is_int(k->st) || k->st == VG_F64 || format_of(k->st));
    if (!known || k->st == VG_TF32)
        return false;
    if (is_pair(k->dt))
        return is_pair(k->st) ? d->in->nops == 2
                              : k->st == VG_F32 && d->in->nops == 3;
    return !is_pair(k->st) && d->in->nops == 2;
}

/* dtype comes before atype in every spelling. */
static bool flags(struct vg_dec *d, struct convert *k)
{
    int round = vg_mod_of(d, ROUND_NAMES);
    k->round = round < 0 ? NONE : (enum round)round;
    k->ftz = vg_mod(d, "ftz");
    k->sat = vg_mod(d, "sat");
    k->relu = vg_mod(d, "relu");
    k->finite = vg_mod(d, "satfinite");
    return vg_need_type(d, &k->dt) && vg_need_type(d, &k->st);
}

/* cvt{.rnd}{.ftz}{.sat}{.relu}{.satfinite}.dtype.atype d, a{, b} */
static bool decode_cvt(struct vg_dec *d)
{
    struct convert *k = vg_keep(d, sizeof *k);
    if (!k || !flags(d, k))
        return false;
    if (!convertible(d, k))
        return vg_error(d, "no conversion between these types");
    /* .e4m3x2 and the smaller formats always saturate */
    if (is_pair(k->dt) && vg_bits(k->dt) < 32 && k->dt != VG_UE8M0X2)
        k->finite = true;
    k->dst = vg_width(d, 0, -1);
    k->src = vg_width(d, 1, -1);
    if (!k->src)
        k->src = vg_bits(k->st) < 16 ? 16 : vg_bits(k->st);
    if (k->dst < vg_bits(k->dt) || k->src < vg_bits(k->st))
        return vg_error(d, "register is narrower than the type");
    vg_fn *f = find_fast(k);
    d->out->aux = k;
    d->out->fn = f ? f : is_pair(k->st) ? repack : is_pair(k->dt) ? pack
                                                                  : any;
    bool ok = vg_out(d, 0, -1, 0) &&
              (is_int(k->st) || is_pair(k->st) || vg_bits(k->st) < 32
                   ? vg_in(d, 1, -1, k->src) : vg_in_typed(d, 1, -1, k->st));
    return ok && (d->in->nops == 2 || vg_in_typed(d, 2, -1, k->st));
}

/* cvt.pack.sat.dt.s32{.b32} d, a, b{, c}: a and b saturated to dt; a above
 * b, and above them the low half of c (ISA 9.7.9.22). */
VG_HANDLER(pack_int)
{
    const struct convert *k = i->aux;
    unsigned n = vg_bits(k->dt);
    uint32_t r[VG_LANES], ones = (1u << n) - 1;
    for (int l = 0; l < VG_LANES; l++) {
        int64_t a = clamp_int(VG_ROW(int32_t, 1)[l], VG_S32, k->dt);
        int64_t b = clamp_int(VG_ROW(int32_t, 2)[l], VG_S32, k->dt);
        uint32_t c = i->nop > 3 ? VG_ROW(uint32_t, 3)[l] : 0;
        uint64_t high = (uint64_t)c << 2 * n;
        r[l] = (uint32_t)high | ((uint32_t)a & ones) << n |
               ((uint32_t)b & ones);
    }
    VG_PUT(0, r);
}

/* cvt.pack.sat.dtype.s32{.b32} d, a, b{, c} */
static bool decode_pack(struct vg_dec *d)
{
    struct convert *k = vg_keep(d, sizeof *k);
    if (!k)
        return false;
    bool sat = vg_mod(d, "sat"), three = d->in->nops == 4;
    k->dt = vg_type(d);
    k->st = vg_type(d);
    if (!sat || !is_int(k->dt) || vg_bits(k->dt) > 16 || k->st != VG_S32 ||
        (three && vg_type(d) != VG_B32))
        return vg_error(d, "needs .sat, a type of at most 16 bits and .s32");
    d->out->aux = k;
    return vg_simple(d, pack_int, 32, three ? 3 : 2);
}

/* The longer name wins, so cvt.pack never reaches decode_cvt. */
const struct vg_opcode vg_ops_cvt[] = {
    {"cvt", decode_cvt, VG_C_CVT, 0},
    {"cvt.pack", decode_pack, VG_C_CVT, 0},
    {NULL, NULL, 0, 0},
};
