/* SPDX-License-Identifier: Apache-2.0
 *
 * op_bits.c: logic, shifts, bit fields, byte permutation and the dot
 * products of bytes (PTX ISA 9.0, 9.7.1 and 9.7.8).
 *
 * Everything here is exact; the ISA's own pseudo-code is the definition, and
 * closed forms stand in for its loops where they exist.
 */
#include "alu.h"

/* ---- logic --------------------------------------------------------------- */

/* shl and shr: `y & 63` only keeps C's shift defined; the comparison decides.
 * Signed right shifts have handlers of their own. */
#define LOGIC(S, T)                                                           \
    VG_BINARY(and_##S, T, T, x & y)                                           \
    VG_BINARY(or_##S, T, T, x | y)                                            \
    VG_BINARY(xor_##S, T, T, x ^ y)                                           \
    VG_UNARY(not_##S, T, T, ~x)                                               \
    VG_UNARY(cnot_##S, T, T, x == 0)                                          \
    VG_BINARY2(shl_##S, T, T, uint32_t,                                       \
               y < 8 * sizeof(T) ? (uint64_t)x << (y & 63) : 0)               \
    VG_BINARY2(shr_##S, T, T, uint32_t,                                       \
               y < 8 * sizeof(T) ? (uint64_t)x >> (y & 63) : 0)
#define SHR_SIGNED(S, T)                                                      \
    VG_BINARY2(shr_##S, T, T, uint32_t,                                       \
               x >> (y < 8 * sizeof(T) ? y : 8 * sizeof(T) - 1))
LOGIC(b16, uint16_t)
LOGIC(b32, uint32_t)
LOGIC(b64, uint64_t)
SHR_SIGNED(s16, int16_t)
SHR_SIGNED(s32, int32_t)
SHR_SIGNED(s64, int64_t)

/* A predicate source with its negation applied: instructions may say !p where
 * they read p. */
static uint32_t truth(const struct vg_warp *w, const struct vg_insn *i, int n)
{
    return VG_MASK(w, i->op[n]) ^ (i->neg >> n & 1 ? VG_ALL : 0);
}
/* Logic on predicates is logic on lane masks. */
#define PRED(name, EXPR)                                                      \
    VG_HANDLER(name)                                                          \
    {                                                                         \
        uint32_t x = truth(w, i, 1), y = i->nop > 2 ? truth(w, i, 2) : 0;     \
        (void)y;                                                              \
        vg_put_pred(vg_row(w, i->op[0]), EXPR, mask);                         \
    }
PRED(and_pred, x & y)
PRED(or_pred, x | y)
PRED(xor_pred, x ^ y)
PRED(not_pred, ~x)

/* Handlers by operation and width; NULL: the ISA has no such form. */
enum { AND, OR, XOR, NOT, CNOT, SHL, SHR };
static vg_fn *const logic[][4] = {      /* pred, b16, b32, b64 */
    [AND] = {and_pred, and_b16, and_b32, and_b64},
    [OR] = {or_pred, or_b16, or_b32, or_b64},
    [XOR] = {xor_pred, xor_b16, xor_b32, xor_b64},
    [NOT] = {not_pred, not_b16, not_b32, not_b64},
    [CNOT] = {NULL, cnot_b16, cnot_b32, cnot_b64},
    [SHL] = {NULL, shl_b16, shl_b32, shl_b64},
    [SHR] = {NULL, shr_b16, shr_b32, shr_b64},
};
static vg_fn *const shr_signed[4] = {NULL, shr_s16, shr_s32, shr_s64};

/* Index into the rows of `logic`, -1: no such width. */
static int width_index(unsigned bits)
{
    return bits == 1 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : bits == 64 ? 3
                                                                        : -1;
}

/* {and,or,xor}.type d, a, b {not,cnot}.type d, a */
static bool decode_logic(struct vg_dec *d)
{
    enum vg_type t;
    if (!vg_need_type(d, &t))
        return false;
    int index = width_index(vg_bits(t));
    return vg_simple(d, index < 0 ? NULL : logic[d->out->arg][index],
                     vg_bits(t), d->out->arg >= NOT ? 1 : 2);
}

/* {shl,shr}.type d, a, b: b is always 32 bits; counts beyond the width give
 * 0, or the sign for shr.s (ISA 9.7.8.11, .12). */
static bool decode_shift(struct vg_dec *d)
{
    enum vg_type t;
    if (!vg_need_type(d, &t))
        return false;
    bool is_signed = t == VG_S16 || t == VG_S32 || t == VG_S64;
    int index = width_index(vg_bits(t));
    if (index < 1)
        return vg_error(d, "type does not go with the opcode");
    d->out->fn = d->out->arg == SHR && is_signed ? shr_signed[index]
                                                 : logic[d->out->arg][index];
    return vg_out(d, 0, -1, vg_bits(t)) && vg_in(d, 1, -1, vg_bits(t)) &&
           vg_in(d, 2, -1, 32);
}

/* ---- lop3: any function of three bits ------------------------------------ */

/* ISA 9.7.8.6: bit k of the table is the result where (a, b, c) = k, a the
 * highest of the three bits. */
static uint32_t lop3_row(uint32_t x, uint32_t y, uint32_t z, uint32_t lut)
{
    uint32_t r = 0;
    for (unsigned k = 0; k < 8; k++)
        r |= (lut >> k & 1 ? VG_ALL : 0) & (k & 4 ? x : ~x) &
             (k & 2 ? y : ~y) & (k & 1 ? z : ~z);
    return r;
}
VG_TERNARY(lop3, uint32_t, uint32_t, lop3_row(x, y, z, i->arg))

/* lop3.BoolOp d|p, a, b, c, lut, q: p = (d != 0) BoolOp q.
 * rows: d a b c p q */
VG_HANDLER(lop3_bool)
{
    const uint32_t *x = VG_ROW(uint32_t, 1), *y = VG_ROW(uint32_t, 2),
                   *z = VG_ROW(uint32_t, 3);
    uint32_t r[VG_LANES], q = truth(w, i, 5), p = 0;
    for (int l = 0; l < VG_LANES; l++) {
        r[l] = lop3_row(x[l], y[l], z[l], i->arg & 0xff);
        p |= (uint32_t)(r[l] != 0) << l;
    }
    VG_PUT(0, r);
    vg_put_pred(vg_row(w, i->op[4]), i->arg >> 8 ? p & q : p | q, mask);
}

/* lop3{.BoolOp}.b32 d{|p}, a, b, c, immLut{, q} */
static bool decode_lop3(struct vg_dec *d)
{
    int op = vg_mod_of(d, "or|and");
    int64_t lut;
    if (vg_type(d) != VG_B32 || !vg_literal(d, 4, &lut) || lut < 0 ||
        lut > 255)
        return vg_error(d, "needs .b32 and a literal 0..255");
    d->out->arg = (uint32_t)lut | (op == 1 ? 256 : 0);
    d->out->fn = op < 0 ? lop3 : lop3_bool;
    bool ok = vg_out(d, 0, 0, 32);
    for (int k = 1; ok && k < 4; k++)
        ok = vg_in(d, k, -1, 32);
    return ok && (op < 0 || (vg_out(d, 0, 1, 1) && vg_in(d, 5, -1, 1)));
}

/* ---- funnel shift: rows d, low a, high b, count c ------------------------ */

/* The 64 bits that are shifted.  .wrap takes the count modulo 32, .clamp
 * stops at 32. */
#define PAIR_UP ((uint64_t)y << 32 | x)
VG_TERNARY(shf_l_wrap, uint32_t, uint32_t, PAIR_UP << (z & 31) >> 32)
VG_TERNARY(shf_r_wrap, uint32_t, uint32_t, PAIR_UP >> (z & 31))
VG_TERNARY(shf_l_clamp, uint32_t, uint32_t,
           z >= 32 ? x : PAIR_UP << (z & 31) >> 32)
VG_TERNARY(shf_r_clamp, uint32_t, uint32_t,
           z >= 32 ? y : PAIR_UP >> (z & 31))

/* shf.{l,r}.{wrap,clamp}.b32 d, a, b, c (ISA 9.7.8.10) */
static bool decode_shf(struct vg_dec *d)
{
    static vg_fn *const fn[2][2] = {{shf_l_wrap, shf_l_clamp},
                                    {shf_r_wrap, shf_r_clamp}};
    int dir = vg_mod_of(d, "l|r"), mode = vg_mod_of(d, "wrap|clamp");
    if (dir < 0 || mode < 0 || vg_type(d) != VG_B32)
        return vg_error(d, "needs .l or .r, .wrap or .clamp, .b32");
    return vg_simple(d, fn[dir][mode], 32, 3);
}

/* ---- bit fields ---------------------------------------------------------- */

/* n ones, n up to 64. */
static uint64_t low_ones(unsigned n)
{
    return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;
}

/* ISA 9.7.1.24, closed form: `len` bits of v from `pos`, msb the type's top
 * bit.  Position and length are the low 8 bits of their operands.  A field
 * that reaches beyond the top is filled with the top bit when signed.  v: the
 * source sign-extended when is_signed. */
static uint64_t extract(uint64_t v, uint32_t p, uint32_t n, unsigned msb,
                        bool is_signed)
{
    unsigned pos = p & 255, len = n & 255;
    unsigned have = pos > msb ? 0 : len < msb + 1 - pos ? len : msb + 1 - pos;
    unsigned top = pos + len > msb + 1 || pos > msb ? msb : pos + len - 1;
    uint64_t field = have ? v >> pos & low_ones(have) : 0;
    bool sign = is_signed && len && (v >> (top & 63) & 1);
    return sign ? field | ~low_ones(have) : field;
}
/* ISA 9.7.1.25: f bits of x put into y. */
static uint64_t insert(uint64_t x, uint64_t y, uint32_t p, uint32_t n,
                       unsigned msb)
{
    unsigned pos = p & 255, len = n & 255;
    if (pos > msb || !len)
        return y;
    uint64_t field = low_ones(len < msb + 1 - pos ? len : msb + 1 - pos) << pos;
    return (y & ~field) | (x << pos & field);
}
VG_TERNARY2(bfe_u32, uint32_t, uint32_t, uint32_t, uint32_t,
            extract(x, y, z, 31, false))
VG_TERNARY2(bfe_s32, uint32_t, int32_t, uint32_t, uint32_t,
            extract((uint64_t)(int64_t)x, y, z, 31, true))
VG_TERNARY2(bfe_u64, uint64_t, uint64_t, uint32_t, uint32_t,
            extract(x, y, z, 63, false))
VG_TERNARY2(bfe_s64, uint64_t, uint64_t, uint32_t, uint32_t,
            extract(x, y, z, 63, true))

/* bfe.type d, a, position, length */
static bool decode_bfe(struct vg_dec *d)
{
    static vg_fn *const fn[VG_INTS] = {
        [VG_IU32] = bfe_u32, [VG_IS32] = bfe_s32,
        [VG_IU64] = bfe_u64, [VG_IS64] = bfe_s64};
    enum vg_type t;
    if (!vg_need_type(d, &t))
        return false;
    int index = vg_int_index(t);
    if (index < 0 || !fn[index])
        return vg_error(d, "needs a 32-bit or 64-bit integer type");
    d->out->fn = fn[index];
    return vg_out(d, 0, -1, vg_bits(t)) && vg_in(d, 1, -1, vg_bits(t)) &&
           vg_in(d, 2, -1, 32) && vg_in(d, 3, -1, 32);
}

/* rows: d, a (bits), b (into), position, length */
#define BFI(S, T, MSB)                                                        \
    VG_HANDLER(bfi_##S)                                                       \
    {                                                                         \
        const T *a = VG_ROW(T, 1), *b = VG_ROW(T, 2);                         \
        const uint32_t *p = VG_ROW(uint32_t, 3), *n = VG_ROW(uint32_t, 4);    \
        T r[VG_LANES];                                                        \
        for (int l = 0; l < VG_LANES; l++)                                    \
            r[l] = (T)insert(a[l], b[l], p[l], n[l], MSB);                    \
        VG_PUT(0, r);                                                         \
    }
BFI(b32, uint32_t, 31)
BFI(b64, uint64_t, 63)

/* bfi.type d, a, b, position, length */
static bool decode_bfi(struct vg_dec *d)
{
    enum vg_type t;
    if (!vg_need_type(d, &t))
        return false;
    unsigned bits = vg_bits(t);
    if (t != VG_B32 && t != VG_B64)
        return vg_error(d, "needs .b32 or .b64");
    d->out->fn = bits == 32 ? bfi_b32 : bfi_b64;
    return vg_out(d, 0, -1, bits) && vg_in(d, 1, -1, bits) &&
           vg_in(d, 2, -1, bits) && vg_in(d, 3, -1, 32) &&
           vg_in(d, 4, -1, 32);
}

/* ---- counting and finding ------------------------------------------------ */

/* Swaps neighbouring bits, pairs, nibbles, then bytes. */
static uint32_t rev32(uint32_t x)
{
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}
/* The same for 64 bits: both halves reversed and exchanged. */
static uint64_t rev64(uint64_t x)
{
    return (uint64_t)rev32((uint32_t)x) << 32 | rev32((uint32_t)(x >> 32));
}
static uint32_t top_bit(uint64_t x)     /* -1: none */
{
    return x ? 63u - (uint32_t)__builtin_clzll(x) : VG_ALL;
}
/* Distance of the top bit from msb, as bfind.shiftamt wants it. */
static uint32_t top_shift(uint64_t x, uint32_t msb)
{
    return x ? msb - top_bit(x) : VG_ALL;
}
/* bfind of a negative number looks for the top 0 bit. */
static uint64_t magnitude(int64_t x)
{
    return (uint64_t)(x < 0 ? ~x : x);
}
VG_UNARY(brev_b32, uint32_t, uint32_t, rev32(x))
VG_UNARY(brev_b64, uint64_t, uint64_t, rev64(x))
VG_UNARY(popc_b32, uint32_t, uint32_t, __builtin_popcount(x))
VG_UNARY(popc_b64, uint32_t, uint64_t, __builtin_popcountll(x))
VG_UNARY(clz_b32, uint32_t, uint32_t, x ? __builtin_clz(x) : 32)
VG_UNARY(clz_b64, uint32_t, uint64_t, x ? __builtin_clzll(x) : 64)
VG_UNARY(bfind_u32, uint32_t, uint32_t, top_bit(x))
VG_UNARY(bfind_s32, uint32_t, int32_t, top_bit(magnitude(x)))
VG_UNARY(bfind_u64, uint32_t, uint64_t, top_bit(x))
VG_UNARY(bfind_s64, uint32_t, int64_t, top_bit(magnitude(x)))
VG_UNARY(bfind_sh_u32, uint32_t, uint32_t, top_shift(x, 31))
VG_UNARY(bfind_sh_s32, uint32_t, int32_t, top_shift(magnitude(x), 31))
VG_UNARY(bfind_sh_u64, uint32_t, uint64_t, top_shift(x, 63))
VG_UNARY(bfind_sh_s64, uint32_t, int64_t, top_shift(magnitude(x), 63))

/* brev; popc and clz (32-bit result); arg selects. */
enum { BREV, POPC, CLZ };
static bool decode_count(struct vg_dec *d)
{
    static vg_fn *const fn[][2] = {[BREV] = {brev_b32, brev_b64},
                                   [POPC] = {popc_b32, popc_b64},
                                   [CLZ] = {clz_b32, clz_b64}};
    enum vg_type t;
    if (!vg_need_type(d, &t))
        return false;
    if (t != VG_B32 && t != VG_B64)
        return vg_error(d, "needs .b32 or .b64");
    d->out->fn = fn[d->out->arg][t == VG_B64];
    return vg_out(d, 0, -1, d->out->arg == BREV ? vg_bits(t) : 32) &&
           vg_in(d, 1, -1, vg_bits(t));
}

/* bfind{.shiftamt}.type d, a: -1 when there is no such bit */
static bool decode_bfind(struct vg_dec *d)
{
    static vg_fn *const fn[VG_INTS][2] = {
        [VG_IU32] = {bfind_u32, bfind_sh_u32},
        [VG_IS32] = {bfind_s32, bfind_sh_s32},
        [VG_IU64] = {bfind_u64, bfind_sh_u64},
        [VG_IS64] = {bfind_s64, bfind_sh_s64}};
    bool shift = vg_mod(d, "shiftamt");
    enum vg_type t;
    if (!vg_need_type(d, &t))
        return false;
    int index = vg_int_index(t);
    if (index < VG_IU32)
        return vg_error(d, "needs a 32-bit or 64-bit integer type");
    d->out->fn = fn[index][shift];
    return vg_out(d, 0, -1, 32) && vg_in(d, 1, -1, vg_bits(t));
}

/* ISA 9.7.1.18: position of the n-th set bit from base on, upwards or, for a
 * negative offset, downwards; offset 0 asks about base itself.  All ones:
 * there is none. */
static uint32_t nth_set(uint32_t bits, uint32_t base, int32_t offset)
{
    int step = offset < 0 ? -1 : 1, left = offset < 0 ? -offset : offset;
    if (!offset)
        return base < 32 && (bits >> base & 1) ? base : VG_ALL;
    for (int64_t at = base; at >= 0 && at < 32; at += step)
        if ((bits >> at & 1) && --left == 0)
            return (uint32_t)at;
    return VG_ALL;
}
VG_TERNARY2(fns, uint32_t, uint32_t, uint32_t, int32_t, nth_set(x, y, z))

/* fns.b32 d, mask, base, offset */
static bool decode_fns(struct vg_dec *d)
{
    if (vg_type(d) != VG_B32)
        return vg_error(d, "needs .b32");
    return vg_simple(d, fns, 32, 3);
}

/* szext: the n low bits of x, zero- or sign-extended.  .wrap takes n modulo
 * 32, .clamp leaves x alone from 32 on. */
static uint32_t extend_low(uint32_t x, uint32_t n, bool is_signed)
{
    if (n >= 32)
        return x;
    uint32_t low = x & (uint32_t)low_ones(n);
    bool sign = is_signed && n && (x >> (n - 1) & 1);
    return sign ? low | ~(uint32_t)low_ones(n) : low;
}
VG_BINARY(szext_u_wrap, uint32_t, uint32_t, extend_low(x, y & 31, false))
VG_BINARY(szext_s_wrap, uint32_t, uint32_t, extend_low(x, y & 31, true))
VG_BINARY(szext_u_clamp, uint32_t, uint32_t, extend_low(x, y, false))
VG_BINARY(szext_s_clamp, uint32_t, uint32_t, extend_low(x, y, true))
/* n ones from position p, cut at bit 31. */
static uint32_t ones_at(uint32_t p, uint32_t n)
{
    return p >= 32 ? 0 : (uint32_t)(low_ones(n > 32 ? 32 : n) << p);
}
VG_BINARY(bmsk_wrap, uint32_t, uint32_t, ones_at(x & 31, y & 31))
VG_BINARY(bmsk_clamp, uint32_t, uint32_t, ones_at(x, y))

/* szext.{wrap,clamp}.{u32,s32} d, a, n */
static bool decode_szext(struct vg_dec *d)
{
    static vg_fn *const fn[2][2] = {{szext_u_wrap, szext_s_wrap},
                                    {szext_u_clamp, szext_s_clamp}};
    int mode = vg_mod_of(d, "wrap|clamp");
    enum vg_type t = vg_type(d);
    if (mode < 0 || (t != VG_U32 && t != VG_S32))
        return vg_error(d, "needs .wrap or .clamp and .u32 or .s32");
    return vg_simple(d, fn[mode][t == VG_S32], 32, 2);
}

/* bmsk.{wrap,clamp}.b32 d, position, length */
static bool decode_bmsk(struct vg_dec *d)
{
    int mode = vg_mod_of(d, "wrap|clamp");
    if (mode < 0 || vg_type(d) != VG_B32)
        return vg_error(d, "needs .wrap or .clamp and .b32");
    return vg_simple(d, mode ? bmsk_clamp : bmsk_wrap, 32, 2);
}

/* ---- prmt (ISA 9.7.8.7) -------------------------------------------------- */

/* The modes, in the order of decode_prmt's words. */
enum { PRMT, F4E, B4E, RC8, ECL, ECR, RC16 };
/* The pool is {b, a}, byte 0 lowest. Mode 0 takes four nibbles of the
 * selector, whose top bit replicates the byte's sign; the others its low two
 * bits. */
static uint32_t permute(uint32_t x, uint32_t y, uint32_t sel, uint32_t mode)
{
    uint64_t pool = (uint64_t)y << 32 | x;
    uint32_t r = 0, s = sel & 3;
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t index[] = {[PRMT] = sel >> 4 * k & 7,
                            [F4E] = s + k,
                            [B4E] = (s - k) & 7,
                            [RC8] = s,
                            [ECL] = k > s ? k : s,
                            [ECR] = k < s ? k : s,
                            [RC16] = (s & 1) * 2 + (k & 1)};
        uint32_t byte = (uint32_t)(pool >> 8 * index[mode]) & 255;
        if (mode == PRMT && (sel >> 4 * k & 8))
            byte = byte & 128 ? 255 : 0;
        r |= byte << 8 * k;
    }
    return r;
}
VG_TERNARY(prmt, uint32_t, uint32_t, permute(x, y, z, PRMT))
VG_TERNARY(prmt_mode, uint32_t, uint32_t, permute(x, y, z, i->arg))

/* prmt.b32{.mode} d, a, b, selector */
static bool decode_prmt(struct vg_dec *d)
{
    if (vg_type(d) != VG_B32)
        return vg_error(d, "needs .b32");
    d->out->arg = (uint32_t)(vg_mod_of(d, "f4e|b4e|rc8|ecl|ecr|rc16") + 1);
    return vg_simple(d, d->out->arg ? prmt_mode : prmt, 32, 3);
}

/* ---- dp4a, dp2a (ISA 9.7.1.22, .23) -------------------------------------- */

/* Field of `bits` at bit `at`, extended. */
static int32_t part(uint32_t v, unsigned at, unsigned bits, bool is_signed)
{
    uint32_t field = v >> at << (32 - bits);
    return is_signed ? (int32_t)field >> (32 - bits)
                     : (int32_t)(field >> (32 - bits));
}
/* arg of dp4a and dp2a: which operand is signed, and dp2a's half of b. */
#define A_SIGNED 1u
#define B_SIGNED 2u
#define HIGH_HALF 4u
/* Four products of bytes, or two of a 16-bit and an 8-bit number, added to c;
 * sums wrap. */
static uint32_t dot4(uint32_t x, uint32_t y, uint32_t z, uint32_t how)
{
    for (unsigned k = 0; k < 32; k += 8)
        z += (uint32_t)(part(x, k, 8, how & A_SIGNED) *
                        part(y, k, 8, how & B_SIGNED));
    return z;
}
static uint32_t dot2(uint32_t x, uint32_t y, uint32_t z, uint32_t how)
{
    unsigned base = how & HIGH_HALF ? 16 : 0;
    for (unsigned k = 0; k < 2; k++)
        z += (uint32_t)(part(x, 16 * k, 16, how & A_SIGNED) *
                        part(y, base + 8 * k, 8, how & B_SIGNED));
    return z;
}
VG_TERNARY(dp4a, uint32_t, uint32_t, dot4(x, y, z, i->arg))
VG_TERNARY(dp2a, uint32_t, uint32_t, dot2(x, y, z, i->arg))

/* dp4a.atype.btype d, a, b, c dp2a.{lo,hi}.atype.btype d, a, b, c */
static bool decode_dot(struct vg_dec *d)
{
    bool two = strcmp(d->in->word[0], "dp2a") == 0;
    int half = two ? vg_mod_of(d, "lo|hi") : 0;
    enum vg_type a = vg_type(d), b = vg_type(d);
    if (half < 0 || (a != VG_U32 && a != VG_S32) ||
        (b != VG_U32 && b != VG_S32))
        return vg_error(d, "needs two of .u32, .s32, and dp2a .lo or .hi");
    d->out->arg = (a == VG_S32 ? A_SIGNED : 0) | (b == VG_S32 ? B_SIGNED : 0) |
                  (half ? HIGH_HALF : 0);
    return vg_simple(d, two ? dp2a : dp4a, 32, 3);
}

const struct vg_opcode vg_ops_bits[] = {
    {"and", decode_logic, VG_C_INT, AND},
    {"or", decode_logic, VG_C_INT, OR},
    {"xor", decode_logic, VG_C_INT, XOR},
    {"not", decode_logic, VG_C_INT, NOT},
    {"cnot", decode_logic, VG_C_INT, CNOT},
    {"shl", decode_shift, VG_C_INT, SHL},
    {"shr", decode_shift, VG_C_INT, SHR},
    {"shf", decode_shf, VG_C_INT, 0},
    {"lop3", decode_lop3, VG_C_INT, 0},
    {"bfe", decode_bfe, VG_C_INT, 0},
    {"bfi", decode_bfi, VG_C_INT, 0},
    {"brev", decode_count, VG_C_INT, BREV},
    {"popc", decode_count, VG_C_INT, POPC},
    {"clz", decode_count, VG_C_INT, CLZ},
    {"bfind", decode_bfind, VG_C_INT, 0},
    {"fns", decode_fns, VG_C_INT, 0},
    {"szext", decode_szext, VG_C_INT, 0},
    {"bmsk", decode_bmsk, VG_C_INT, 0},
    {"prmt", decode_prmt, VG_C_INT, 0},
    {"dp4a", decode_dot, VG_C_INT, 0},
    {"dp2a", decode_dot, VG_C_INT, 0},
    {NULL, NULL, 0, 0},
};
