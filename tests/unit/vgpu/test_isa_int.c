/* SPDX-License-Identifier: Apache-2.0
 *
 * test_isa_int.c: integer, bit and extended-precision instructions (PTX ISA
 * 9.7.1, 9.7.2, 9.7.8 and the shifts of 9.7.8), row by row.
 *
 * Expected values come from 128-bit or bit-by-bit arithmetic in C, written
 * from the ISA's pseudocode.
 */
#include "isa.h"

typedef __int128 i128;
typedef unsigned __int128 u128;

static int64_t s64(uint64_t v)
{
    return (int64_t)v;
}
static int64_t s32(uint64_t v)
{
    return (int32_t)v;
}
static int64_t s16(uint64_t v)
{
    return (int16_t)v;
}
static uint64_t u32(uint64_t v)
{
    return (uint32_t)v;
}
static uint64_t u16(uint64_t v)
{
    return (uint16_t)v;
}
static uint64_t magnitude(int64_t v)
{
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

/* OP(name, expression): a reference function.  A, B, C are the inputs. */
#define OP(name, expression)                                                  \
    static void name(struct isa_lane *x)                                      \
    {                                                                         \
        uint64_t A = x->a, B = x->b, C = x->c;                                \
        (void)A, (void)B, (void)C;                                            \
        x->d = (uint64_t)(expression);                                        \
    }

OP(add, A + B)
OP(sub, A - B)
OP(neg, 0 - A)
OP(abs32, magnitude(s32(A)))
OP(abs64, magnitude(s64(A)))
OP(abs16, magnitude(s16(A)))

static int64_t saturate32(int64_t v)
{
    return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
}
OP(addsat, saturate32(s32(A) + s32(B)))
OP(subsat, saturate32(s32(A) - s32(B)))

/* mul: low half, high half, full width. */
OP(mullo, A *B)
OP(mulhis16, (s16(A) * s16(B)) >> 16)
OP(mulhiu16, (u16(A) * u16(B)) >> 16)
OP(mulhis32, (s32(A) * s32(B)) >> 32)
OP(mulhiu32, (u32(A) * u32(B)) >> 32)
OP(mulhis64, ((i128)s64(A) * s64(B)) >> 64)
OP(mulhiu64, ((u128)A * B) >> 64)
OP(mulwides16, s16(A) * s16(B))
OP(mulwideu16, u16(A) * u16(B))
OP(mulwides32, s32(A) * s32(B))
OP(mulwideu32, u32(A) * u32(B))
OP(madlo, A *B + C)
OP(madhis32, (uint64_t)((s32(A) * s32(B)) >> 32) + C)
OP(madhiu32, ((u32(A) * u32(B)) >> 32) + C)
OP(madhiu64, (uint64_t)(((u128)A * B) >> 64) + C)
OP(madwides16, (uint64_t)(s16(A) * s16(B)) + C)
OP(madwideu16, u16(A) * u16(B) + C)
OP(madwides32, (uint64_t)(s32(A) * s32(B)) + C)
OP(madwideu32, u32(A) * u32(B) + C)
OP(madhisat, saturate32(((s32(A) * s32(B)) >> 32) + s32(C)))

static int64_t s24(uint64_t v)
{
    return (int32_t)((uint32_t)v << 8) >> 8;
}
static uint64_t u24(uint64_t v)
{
    return v & 0xffffff;
}
OP(mul24los, s24(A) * s24(B))
OP(mul24lou, u24(A) * u24(B))
OP(mul24his, (s24(A) * s24(B)) >> 16)
OP(mul24hiu, (u24(A) * u24(B)) >> 16)
OP(mad24los, (uint64_t)(s24(A) * s24(B)) + C)
OP(mad24lou, u24(A) * u24(B) + C)

/* Division by zero is unspecified: the divisor is made odd, which also keeps
 * INT_MIN / -1 for the quotient's overflow to be avoided by the text. */
OP(divs32, s32(A) / s32(B | 1))
OP(divu32, u32(A) / u32(B | 1))
OP(divu64, A / (B | 1))
OP(divs16, s16(A) / s16(B | 1))
OP(divu16, u16(A) / u16(B | 1))
OP(rems32, s32(A) % s32(B | 1))
OP(remu32, u32(A) % u32(B | 1))
OP(remu64, A % (B | 1))
OP(divs64, (i128)s64(A) / s64(B | 1))
OP(rems64, (i128)s64(A) % s64(B | 1))

OP(mins32, s32(A) < s32(B) ? A : B)
OP(maxs32, s32(A) > s32(B) ? A : B)
OP(minu32, u32(A) < u32(B) ? A : B)
OP(maxu32, u32(A) > u32(B) ? A : B)
OP(mins16, s16(A) < s16(B) ? A : B)
OP(maxs16, s16(A) > s16(B) ? A : B)
OP(minu16, u16(A) < u16(B) ? A : B)
OP(maxu16, u16(A) > u16(B) ? A : B)
OP(mins64, s64(A) < s64(B) ? A : B)
OP(maxs64, s64(A) > s64(B) ? A : B)
OP(minu64, A < B ? A : B)
OP(maxu64, A > B ? A : B)
OP(mins32relu, s32(A) < s32(B) ? (s32(A) < 0 ? 0 : A) : s32(B) < 0 ? 0 : B)
OP(sads32, magnitude(s32(A) - s32(B)) + C)
OP(sadu32, (A > B ? A - B : B - A) + C)
OP(sadu16, (A > B ? A - B : B - A) + C)
OP(sadu64, (A > B ? A - B : B - A) + C)

/* Two 16-bit halves. */
static uint64_t halves(uint64_t a, uint64_t b,
                       uint64_t (*f)(uint64_t, uint64_t))
{
    return u16(f(u16(a), u16(b))) | u16(f(u16(a >> 16), u16(b >> 16))) << 16;
}
static uint64_t f_add(uint64_t a, uint64_t b)
{
    return a + b;
}
static uint64_t f_mins(uint64_t a, uint64_t b)
{
    return s16(a) < s16(b) ? a : b;
}
static uint64_t f_maxu(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}
OP(add16x2, halves(A, B, f_add))
OP(mins16x2, halves(A, B, f_mins))
OP(maxu16x2, halves(A, B, f_maxu))

/* --- logic and bits ------------------------------------------------------ */

OP(and, A &B)
OP(or, A | B)
OP(xor, A ^ B)
OP(not, ~A)
OP(cnot, A == 0)
OP(shl16, B > 15 ? 0 : A << B)
OP(shl32, B > 31 ? 0 : A << B)
OP(shl64, B > 63 ? 0 : A << B)
OP(shru16, B > 15 ? 0 : A >> B)
OP(shru32, B > 31 ? 0 : A >> B)
OP(shru64, B > 63 ? 0 : A >> B)
OP(shrs16, s16(A) >> (B > 15 ? 15 : B))
OP(shrs32, s32(A) >> (B > 31 ? 31 : B))
OP(shrs64, s64(A) >> (B > 63 ? 63 : B))

static uint64_t pair(uint64_t lo, uint64_t hi)
{
    return hi << 32 | u32(lo);
}
static unsigned clamp32(uint64_t c)
{
    return c > 32 ? 32 : (unsigned)c;
}
OP(shflw, (pair(A, B) << (C & 31)) >> 32)
OP(shfrw, pair(A, B) >> (C & 31))
OP(shflc, clamp32(C) == 32 ? A : (pair(A, B) << clamp32(C)) >> 32)
OP(shfrc, clamp32(C) == 32 ? B : pair(A, B) >> clamp32(C))

static uint64_t reverse(uint64_t v, int bits)
{
    uint64_t r = 0;
    for (int i = 0; i < bits; i++)
        r |= (v >> i & 1) << (bits - 1 - i);
    return r;
}
OP(brev32, reverse(A, 32))
OP(brev64, reverse(A, 64))

static uint64_t count_ones(uint64_t v)
{
    uint64_t n = 0;
    for (; v; v >>= 1)
        n += v & 1;
    return n;
}
OP(popc, count_ones(A))

static uint64_t leading_zeros(uint64_t v, int bits)
{
    int n = 0;
    while (n < bits && !(v >> (bits - 1 - n) & 1))
        n++;
    return (uint64_t)n;
}
OP(clz32, leading_zeros(A, 32))
OP(clz64, leading_zeros(A, 64))

/* bfind: the most significant bit that differs from the sign, counted from
 * bit 0, or with .shiftamt from the top; -1 when there is none. */
static uint64_t find(uint64_t v, int bits, bool is_signed, bool shiftamt)
{
    if (is_signed && v >> (bits - 1) & 1)
        v = ~v & (bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1);
    uint64_t n = leading_zeros(v, bits);
    if (n == (uint64_t)bits)
        return UINT32_MAX;
    return shiftamt ? n : (uint64_t)bits - 1 - n;
}
OP(bfindu32, find(A, 32, false, false))
OP(bfinds32, find(A, 32, true, false))
OP(bfindu64, find(A, 64, false, false))
OP(bfinds64, find(A, 64, true, false))
OP(bfindshift, find(A, 32, false, true))
OP(bfindshifts, find(A, 32, true, true))

/* bfe, from the pseudocode of ISA 9.7.1.19. */
static uint64_t extract(uint64_t a, uint64_t b, uint64_t c, int bits,
                        bool is_signed)
{
    int msb = bits - 1, pos = b & 0xff, len = c & 0xff;
    int at = pos + len - 1 < msb ? pos + len - 1 : msb;
    bool sign = is_signed && len && (a >> at & 1);
    uint64_t d = 0;
    for (int i = 0; i <= msb; i++) {
        bool bit = i < len && pos + i <= msb ? a >> (pos + i) & 1 : sign;
        d |= (uint64_t)bit << i;
    }
    return d;
}
OP(bfeu32, extract(A, B, C, 32, false))
OP(bfes32, extract(A, B, C, 32, true))
OP(bfeu64, extract(A, B, C, 64, false))
OP(bfes64, extract(A, B, C, 64, true))

/* bfi, from the pseudocode of ISA 9.7.1.20; a, b inserted at c's low byte
 * for c's second byte of bits. */
static uint64_t insert(uint64_t a, uint64_t b, unsigned pos, unsigned len,
                       unsigned bits)
{
    for (unsigned i = 0; i < len && pos + i < bits; i++) {
        b &= ~(UINT64_C(1) << (pos + i));
        b |= (a >> i & 1) << (pos + i);
    }
    return b;
}
OP(bfi32, insert(A, B, C & 0xff, C >> 8 & 0xff, 32))
OP(bfi64, insert(A, B, C & 0xff, C >> 8 & 0xff, 64))

/* szext: extends a from bit b-1; bmsk: b ones from bit a. */
static uint64_t extend(uint64_t a, uint64_t n, bool is_signed)
{
    uint64_t d = 0;
    bool sign = is_signed && n && (a >> (n - 1) & 1);
    for (unsigned i = 0; i < 32; i++)
        d |= (uint64_t)(i < n ? a >> i & 1 : sign) << i;
    return d;
}
OP(szextwu, extend(A, B & 31, false))
OP(szextws, extend(A, B & 31, true))
OP(szextcu, extend(A, clamp32(B), false))
OP(szextcs, extend(A, clamp32(B), true))
OP(bmskw, insert(~0u, 0, A & 31, B & 31, 32))
OP(bmskc, insert(~0u, 0, clamp32(A), clamp32(B), 32))

/* prmt: bytes 0-3 of a and 4-7 of b; selector nibbles, bit 3 replicates the
 * sign (default mode); the other modes derive the selectors (ISA 9.7.8.7). */
static uint64_t permute(uint64_t a, uint64_t b, const int select[4])
{
    uint64_t v = pair(a, b), d = 0;
    for (int i = 0; i < 4; i++) {
        uint64_t byte = v >> 8 * (select[i] & 7) & 0xff;
        if (select[i] & 8)
            byte = byte & 0x80 ? 0xff : 0;
        d |= byte << 8 * i;
    }
    return d;
}

/* The selectors of the modes f4e, b4e, rc8, rc16, ecl and ecr for c = 0..3,
 * least significant byte first: the table of ISA 9.7.8.7. */
static const int mode_table[6][4][4] = {
    {{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}},
    {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}},
    {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}},
    {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}},
    {{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}},
    {{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}},
};
static void prmt(struct isa_lane *x)
{
    int s[4];
    for (int i = 0; i < 4; i++)
        s[i] = x->c >> 4 * i & 15;
    x->d = permute(x->a, x->b, s);
}
OP(prmtf4e, permute(A, B, mode_table[0][C & 3]))
OP(prmtb4e, permute(A, B, mode_table[1][C & 3]))
OP(prmtrc8, permute(A, B, mode_table[2][C & 3]))
OP(prmtrc16, permute(A, B, mode_table[3][C & 3]))
OP(prmtecl, permute(A, B, mode_table[4][C & 3]))
OP(prmtecr, permute(A, B, mode_table[5][C & 3]))

/* lop3: bit by bit, the table's bit is chosen by (a, b, c). */
static uint64_t lop3(const struct isa_lane *x, unsigned lut)
{
    uint64_t d = 0;
    for (int i = 0; i < 32; i++) {
        unsigned k =
            (x->a >> i & 1) << 2 | (x->b >> i & 1) << 1 | (x->c >> i & 1);
        d |= (uint64_t)(lut >> k & 1) << i;
    }
    return d;
}
#define LOP3(lut)                                                             \
    static void lop_##lut(struct isa_lane *x)                                 \
    {                                                                         \
        x->d = lop3(x, 0x##lut);                                              \
    }
LOP3(00)
LOP3(01)
LOP3(1b)
LOP3(3c)
LOP3(6a)
LOP3(80)
LOP3(96)
LOP3(c0)
LOP3(ca)
LOP3(e8)
LOP3(f8)
LOP3(fe)
LOP3(ff)

static void lop3bool(struct isa_lane *x)
{
    x->d = lop3(x, 0x96);
    x->e = x->d != 0;
}

/* --- dot products -------------------------------------------------------- */

static int64_t byte_of(uint64_t v, int i, bool is_signed)
{
    return is_signed ? (int8_t)(v >> 8 * i) : (uint8_t)(v >> 8 * i);
}
static uint64_t dot4(const struct isa_lane *x, bool sa, bool sb)
{
    uint64_t d = x->c;
    for (int i = 0; i < 4; i++)
        d += (uint64_t)(byte_of(x->a, i, sa) * byte_of(x->b, i, sb));
    return d;
}
static uint64_t dot2(const struct isa_lane *x, bool sa, bool sb, int first)
{
    uint64_t d = x->c;
    for (int i = 0; i < 2; i++) {
        int64_t a = sa ? s16(x->a >> 16 * i) : (int64_t)u16(x->a >> 16 * i);
        d += (uint64_t)(a * byte_of(x->b, first + i, sb));
    }
    return d;
}
static void dp4ass(struct isa_lane *x)
{
    x->d = dot4(x, true, true);
}
static void dp4auu(struct isa_lane *x)
{
    x->d = dot4(x, false, false);
}
static void dp4asu(struct isa_lane *x)
{
    x->d = dot4(x, true, false);
}
static void dp2alo(struct isa_lane *x)
{
    x->d = dot2(x, true, true, 0);
}
static void dp2ahi(struct isa_lane *x)
{
    x->d = dot2(x, false, false, 2);
}

/* --- carry chains -------------------------------------------------------- */

/* 64-bit sums of 32-bit halves: the carry shows in the upper half. */
OP(addcc, A + B)
OP(subcc, A - B)
static void carry(struct isa_lane *x)
{
    x->d = u32(x->a + x->b);
    x->e = ((u32(x->a) + u32(x->b)) >> 32) + x->c;
}
static void borrow(struct isa_lane *x)
{
    x->d = u32(x->a - x->b);
    x->e = x->c - (u32(x->a) < u32(x->b));
}
static void carry64(struct isa_lane *x)
{
    u128 sum = (u128)x->a + x->b;
    x->d = (uint64_t)sum;
    x->e = (uint64_t)(sum >> 64) + x->c;
}
/* A 64 x 32 bit product plus c by mad.lo.cc and madc.hi. */
static void wide_mad(struct isa_lane *x)
{
    uint64_t p = u32(x->a) * u32(x->b), sum = u32(p) + u32(x->c);
    x->d = u32(sum);
    x->e = (p >> 32) + (sum >> 32);
}

/* fns: the n-th set bit of a from bit `base`, upwards for n > 0 (ISA
 * 9.7.1.18).  The row's text makes base = b % 32 and n = c % 64 - 32. */
static void fns(struct isa_lane *x)
{
    int64_t offset = (int64_t)(x->c & 63) - 32, base = (int64_t)(x->b & 31);
    x->d = UINT32_MAX;
    if (offset == 0) {
        x->d = x->a >> base & 1 ? (uint64_t)base : UINT32_MAX;
        return;
    }
    int64_t step = offset > 0 ? 1 : -1, left = offset > 0 ? offset : -offset;
    for (int64_t i = base; i >= 0 && i < 32; i += step) {
        if (!(x->a >> i & 1))
            continue;
        if (--left == 0) {
            x->d = (uint64_t)i;
            return;
        }
    }
}

#define ODD32 "{ .reg .b32 q; or.b32 q, $b, 1; "
#define ODD64 "{ .reg .b64 q; or.b64 q, $b, 1; "
#define ODD16 "{ .reg .b16 q; or.b16 q, $b, 1; "
/* c = len * 256 + pos for bfi. */
#define UNPACK                                                                \
    "{ .reg .b32 pos, len; and.b32 pos, $c, 255; "                            \
    "shr.u32 len, $c, 8; and.b32 len, len, 255; "

static const struct isa_row rows[] = {
    {.text = "add.s32 $d, $a, $b;", "4:44", "ii", add},
    {.text = "add.u32 $d, $a, $b;", "4:44", "ii", add},
    {.text = "add.s16 $d, $a, $b;", "2:22", "ii", add},
    {.text = "add.u16 $d, $a, $b;", "2:22", "ii", add},
    {.text = "add.s64 $d, $a, $b;", "8:88", "ii", add},
    {.text = "add.u64 $d, $a, $b;", "8:88", "ii", add},
    {.text = "add.sat.s32 $d, $a, $b;", "4:44", "ii", addsat},
    {.text = "add.u16x2 $d, $a, $b;", "4:44", "uu", add16x2, .arch = 90},
    {.text = "add.s16x2 $d, $a, $b;", "4:44", "ii", add16x2, .arch = 90},
    {.text = "sub.s32 $d, $a, $b;", "4:44", "ii", sub},
    {.text = "sub.u16 $d, $a, $b;", "2:22", "ii", sub},
    {.text = "sub.s64 $d, $a, $b;", "8:88", "ii", sub},
    {.text = "sub.sat.s32 $d, $a, $b;", "4:44", "ii", subsat},
    {.text = "neg.s16 $d, $a;", "2:2", "i", neg},
    {.text = "neg.s32 $d, $a;", "4:4", "i", neg},
    {.text = "neg.s64 $d, $a;", "8:8", "i", neg},
    {.text = "abs.s16 $d, $a;", "2:2", "i", abs16},
    {.text = "abs.s32 $d, $a;", "4:4", "i", abs32},
    {.text = "abs.s64 $d, $a;", "8:8", "i", abs64},

    {.text = "mul.lo.s16 $d, $a, $b;", "2:22", "ii", mullo},
    {.text = "mul.lo.u16 $d, $a, $b;", "2:22", "ii", mullo},
    {.text = "mul.lo.s32 $d, $a, $b;", "4:44", "ii", mullo},
    {.text = "mul.lo.u32 $d, $a, $b;", "4:44", "ii", mullo},
    {.text = "mul.lo.s64 $d, $a, $b;", "8:88", "ii", mullo},
    {.text = "mul.hi.s16 $d, $a, $b;", "2:22", "ii", mulhis16},
    {.text = "mul.hi.u16 $d, $a, $b;", "2:22", "ii", mulhiu16},
    {.text = "mul.hi.s32 $d, $a, $b;", "4:44", "ii", mulhis32},
    {.text = "mul.hi.u32 $d, $a, $b;", "4:44", "ii", mulhiu32},
    {.text = "mul.hi.s64 $d, $a, $b;", "8:88", "ii", mulhis64},
    {.text = "mul.hi.u64 $d, $a, $b;", "8:88", "ii", mulhiu64},
    {.text = "mul.wide.s16 $d, $a, $b;", "4:22", "ii", mulwides16},
    {.text = "mul.wide.u16 $d, $a, $b;", "4:22", "ii", mulwideu16},
    {.text = "mul.wide.s32 $d, $a, $b;", "8:44", "ii", mulwides32},
    {.text = "mul.wide.u32 $d, $a, $b;", "8:44", "ii", mulwideu32},
    {.text = "mad.lo.s16 $d, $a, $b, $c;", "2:222", "iii", madlo},
    {.text = "mad.lo.s32 $d, $a, $b, $c;", "4:444", "iii", madlo},
    {.text = "mad.lo.u64 $d, $a, $b, $c;", "8:888", "iii", madlo},
    {.text = "mad.hi.s32 $d, $a, $b, $c;", "4:444", "iii", madhis32},
    {.text = "mad.hi.u32 $d, $a, $b, $c;", "4:444", "iii", madhiu32},
    {.text = "mad.hi.u64 $d, $a, $b, $c;", "8:888", "iii", madhiu64},
    {.text = "mad.hi.sat.s32 $d, $a, $b, $c;", "4:444", "iii", madhisat},
    {.text = "mad.wide.s16 $d, $a, $b, $c;", "4:224", "iii", madwides16},
    {.text = "mad.wide.u16 $d, $a, $b, $c;", "4:224", "iii", madwideu16},
    {.text = "mad.wide.s32 $d, $a, $b, $c;", "8:448", "iii", madwides32},
    {.text = "mad.wide.u32 $d, $a, $b, $c;", "8:448", "iii", madwideu32},
    {.text = "mul24.lo.s32 $d, $a, $b;", "4:44", "ii", mul24los},
    {.text = "mul24.lo.u32 $d, $a, $b;", "4:44", "ii", mul24lou},
    {.text = "mul24.hi.s32 $d, $a, $b;", "4:44", "ii", mul24his},
    {.text = "mul24.hi.u32 $d, $a, $b;", "4:44", "ii", mul24hiu},
    {.text = "mad24.lo.s32 $d, $a, $b, $c;", "4:444", "iii", mad24los},
    {.text = "mad24.lo.u32 $d, $a, $b, $c;", "4:444", "iii", mad24lou},

    {.text = ODD32 "div.s32 $d, $a, q; }", "4:44", "iu", divs32},
    {.text = ODD32 "div.u32 $d, $a, q; }", "4:44", "ii", divu32},
    {.text = ODD64 "div.s64 $d, $a, q; }", "8:88", "iu", divs64},
    {.text = ODD64 "div.u64 $d, $a, q; }", "8:88", "ii", divu64},
    {.text = ODD16 "div.s16 $d, $a, q; }", "2:22", "iu", divs16},
    {.text = ODD16 "div.u16 $d, $a, q; }", "2:22", "ii", divu16},
    {.text = ODD32 "rem.s32 $d, $a, q; }", "4:44", "iu", rems32},
    {.text = ODD32 "rem.u32 $d, $a, q; }", "4:44", "ii", remu32},
    {.text = ODD64 "rem.s64 $d, $a, q; }", "8:88", "iu", rems64},
    {.text = ODD64 "rem.u64 $d, $a, q; }", "8:88", "ii", remu64},

    {.text = "min.s32 $d, $a, $b;", "4:44", "ii", mins32},
    {.text = "max.s32 $d, $a, $b;", "4:44", "ii", maxs32},
    {.text = "min.u32 $d, $a, $b;", "4:44", "ii", minu32},
    {.text = "max.u32 $d, $a, $b;", "4:44", "ii", maxu32},
    {.text = "min.s16 $d, $a, $b;", "2:22", "ii", mins16},
    {.text = "max.s16 $d, $a, $b;", "2:22", "ii", maxs16},
    {.text = "min.u16 $d, $a, $b;", "2:22", "ii", minu16},
    {.text = "max.u16 $d, $a, $b;", "2:22", "ii", maxu16},
    {.text = "min.s64 $d, $a, $b;", "8:88", "ii", mins64},
    {.text = "max.s64 $d, $a, $b;", "8:88", "ii", maxs64},
    {.text = "min.u64 $d, $a, $b;", "8:88", "ii", minu64},
    {.text = "max.u64 $d, $a, $b;", "8:88", "ii", maxu64},
    {.text = "min.relu.s32 $d, $a, $b;", "4:44", "ii", mins32relu, .arch = 90},
    {.text = "min.s16x2 $d, $a, $b;", "4:44", "uu", mins16x2, .arch = 90},
    {.text = "max.u16x2 $d, $a, $b;", "4:44", "uu", maxu16x2, .arch = 90},
    {.text = "sad.s32 $d, $a, $b, $c;", "4:444", "iii", sads32},
    {.text = "sad.u32 $d, $a, $b, $c;", "4:444", "iii", sadu32},
    {.text = "sad.u16 $d, $a, $b, $c;", "2:222", "iii", sadu16},
    {.text = "sad.u64 $d, $a, $b, $c;", "8:888", "iii", sadu64},

    {.text = "and.b16 $d, $a, $b;", "2:22", "uu", and},
    {.text = "and.b32 $d, $a, $b;", "4:44", "uu", and},
    {.text = "and.b64 $d, $a, $b;", "8:88", "uu", and},
    {.text = "and.pred $d, $a, $b;", "1:11", "pp", and},
    {.text = "or.b16 $d, $a, $b;", "2:22", "uu", or },
    {.text = "or.b32 $d, $a, $b;", "4:44", "uu", or },
    {.text = "or.b64 $d, $a, $b;", "8:88", "uu", or },
    {.text = "or.pred $d, $a, $b;", "1:11", "pp", or },
    {.text = "xor.b16 $d, $a, $b;", "2:22", "uu", xor},
    {.text = "xor.b32 $d, $a, $b;", "4:44", "uu", xor},
    {.text = "xor.b64 $d, $a, $b;", "8:88", "uu", xor},
    {.text = "xor.pred $d, $a, $b;", "1:11", "pp", xor},
    {.text = "not.b16 $d, $a;", "2:2", "u", not },
    {.text = "not.b32 $d, $a;", "4:4", "u", not },
    {.text = "not.b64 $d, $a;", "8:8", "u", not },
    {.text = "not.pred $d, $a;", "1:1", "p", not },
    {.text = "cnot.b16 $d, $a;", "2:2", "i", cnot},
    {.text = "cnot.b32 $d, $a;", "4:4", "i", cnot},
    {.text = "cnot.b64 $d, $a;", "8:8", "i", cnot},
    {.text = "shl.b16 $d, $a, $b;", "2:24", "is", shl16},
    {.text = "shl.b32 $d, $a, $b;", "4:44", "is", shl32},
    {.text = "shl.b64 $d, $a, $b;", "8:84", "is", shl64},
    {.text = "shr.u16 $d, $a, $b;", "2:24", "is", shru16},
    {.text = "shr.u32 $d, $a, $b;", "4:44", "is", shru32},
    {.text = "shr.b32 $d, $a, $b;", "4:44", "is", shru32},
    {.text = "shr.u64 $d, $a, $b;", "8:84", "is", shru64},
    {.text = "shr.s16 $d, $a, $b;", "2:24", "is", shrs16},
    {.text = "shr.s32 $d, $a, $b;", "4:44", "is", shrs32},
    {.text = "shr.s64 $d, $a, $b;", "8:84", "is", shrs64},
    {.text = "shf.l.wrap.b32 $d, $a, $b, $c;", "4:444", "uus", shflw},
    {.text = "shf.r.wrap.b32 $d, $a, $b, $c;", "4:444", "uus", shfrw},
    {.text = "shf.l.clamp.b32 $d, $a, $b, $c;", "4:444", "uus", shflc},
    {.text = "shf.r.clamp.b32 $d, $a, $b, $c;", "4:444", "uus", shfrc},
    {.text = "brev.b32 $d, $a;", "4:4", "i", brev32},
    {.text = "brev.b64 $d, $a;", "8:8", "i", brev64},
    {.text = "popc.b32 $d, $a;", "4:4", "i", popc},
    {.text = "popc.b64 $d, $a;", "4:8", "i", popc},
    {.text = "clz.b32 $d, $a;", "4:4", "i", clz32},
    {.text = "clz.b64 $d, $a;", "4:8", "i", clz64},
    {.text = "bfind.u32 $d, $a;", "4:4", "i", bfindu32},
    {.text = "bfind.s32 $d, $a;", "4:4", "i", bfinds32},
    {.text = "bfind.u64 $d, $a;", "4:8", "i", bfindu64},
    {.text = "bfind.s64 $d, $a;", "4:8", "i", bfinds64},
    {.text = "bfind.shiftamt.u32 $d, $a;", "4:4", "i", bfindshift},
    {.text = "bfind.shiftamt.s32 $d, $a;", "4:4", "i", bfindshifts},
    {.text = "bfe.u32 $d, $a, $b, $c;", "4:444", "iss", bfeu32},
    {.text = "bfe.s32 $d, $a, $b, $c;", "4:444", "iss", bfes32},
    {.text = "bfe.u64 $d, $a, $b, $c;", "8:844", "iss", bfeu64},
    {.text = "bfe.s64 $d, $a, $b, $c;", "8:844", "iss", bfes64},
    {.text = "bfe.u32 $d, $a, $b, $c;", "4:444", "unn", bfeu32},
    {.text = "bfe.s64 $d, $a, $b, $c;", "8:844", "unn", bfes64},
    {.text = UNPACK "bfi.b32 $d, $a, $b, pos, len; }", "4:444", "uui", bfi32},
    {.text = UNPACK "bfi.b64 $d, $a, $b, pos, len; }", "8:884", "uui", bfi64},
    {.text = UNPACK "bfi.b32 $d, $a, $b, pos, len; }", "4:444", "uuu", bfi32},
    {.text = "szext.wrap.u32 $d, $a, $b;", "4:44", "us", szextwu},
    {.text = "szext.wrap.s32 $d, $a, $b;", "4:44", "us", szextws},
    {.text = "szext.clamp.u32 $d, $a, $b;", "4:44", "us", szextcu},
    {.text = "szext.clamp.s32 $d, $a, $b;", "4:44", "us", szextcs},
    {.text = "bmsk.wrap.b32 $d, $a, $b;", "4:44", "ss", bmskw},
    {.text = "bmsk.clamp.b32 $d, $a, $b;", "4:44", "ss", bmskc},
    {.text = "prmt.b32 $d, $a, $b, $c;", "4:444", "uuu", prmt},
    {.text = "prmt.b32.f4e $d, $a, $b, $c;", "4:444", "uuu", prmtf4e},
    {.text = "prmt.b32.b4e $d, $a, $b, $c;", "4:444", "uuu", prmtb4e},
    {.text = "prmt.b32.rc8 $d, $a, $b, $c;", "4:444", "uuu", prmtrc8},
    {.text = "prmt.b32.rc16 $d, $a, $b, $c;", "4:444", "uuu", prmtrc16},
    {.text = "prmt.b32.ecl $d, $a, $b, $c;", "4:444", "uuu", prmtecl},
    {.text = "prmt.b32.ecr $d, $a, $b, $c;", "4:444", "uuu", prmtecr},
#define LOP3_ROW(lut)                                                         \
    {                                                                         \
        .text = "lop3.b32 $d, $a, $b, $c, 0x" #lut ";", "4:444", "uuu",       \
        lop_##lut                                                             \
    }
    LOP3_ROW(00),
    LOP3_ROW(01),
    LOP3_ROW(1b),
    LOP3_ROW(3c),
    LOP3_ROW(6a),
    LOP3_ROW(80),
    LOP3_ROW(96),
    LOP3_ROW(c0),
    LOP3_ROW(ca),
    LOP3_ROW(e8),
    LOP3_ROW(f8),
    LOP3_ROW(fe),
    LOP3_ROW(ff),
    {.text = "{ .reg .pred f; setp.ne.u32 f, 0, 0; "
             "lop3.or.b32 $d|$e, $a, $b, $c, 0x96, f; }",
     "41:444",
     "iii",
     lop3bool},
    {.text = "{ .reg .b32 s, o; and.b32 s, $b, 31; and.b32 o, $c, 63; "
             "sub.s32 o, o, 32; fns.b32 $d, $a, s, o; }",
     "4:444",
     "unn",
     fns},

    {.text = "dp4a.s32.s32 $d, $a, $b, $c;", "4:444", "uuu", dp4ass},
    {.text = "dp4a.u32.u32 $d, $a, $b, $c;", "4:444", "uuu", dp4auu},
    {.text = "dp4a.s32.u32 $d, $a, $b, $c;", "4:444", "uuu", dp4asu},
    {.text = "dp2a.lo.s32.s32 $d, $a, $b, $c;", "4:444", "uuu", dp2alo},
    {.text = "dp2a.hi.u32.u32 $d, $a, $b, $c;", "4:444", "uuu", dp2ahi},

    {.text = "add.cc.u32 $d, $a, $b; addc.u32 $e, $c, 0;",
     "44:444",
     "iii",
     carry},
    {.text = "sub.cc.u32 $d, $a, $b; subc.u32 $e, $c, 0;",
     "44:444",
     "iii",
     borrow},
    {.text = "add.cc.u64 $d, $a, $b; addc.u64 $e, $c, 0;",
     "88:888",
     "iii",
     carry64},
    {.text = "mad.lo.cc.u32 $d, $a, $b, $c; madc.hi.u32 $e, $a, $b, 0;",
     "44:444",
     "iii",
     wide_mad},
    {.text = "{ .reg .b32 al, ah, bl, bh, dl, dh; mov.b64 {al, ah}, $a; "
             "mov.b64 {bl, bh}, $b; add.cc.s32 dl, al, bl; "
             "addc.cc.s32 dh, ah, bh; mov.b64 $d, {dl, dh}; }",
     "8:88",
     "ii",
     addcc},
    {.text = "{ .reg .b32 al, ah, bl, bh, dl, dh; mov.b64 {al, ah}, $a; "
             "mov.b64 {bl, bh}, $b; sub.cc.u32 dl, al, bl; "
             "subc.cc.u32 dh, ah, bh; mov.b64 $d, {dl, dh}; }",
     "8:88",
     "ii",
     subcc},
};

ISA_MAIN("isa_int", rows)
