/* SPDX-License-Identifier: Apache-2.0
 *
 * op_pred.c: comparisons and selection (PTX ISA 9.0, 9.7.6, 9.7.7): setp,
 * set, selp, slct, testp, copysign.
 *
 * A comparison first becomes a 32-bit lane mask, by one of three relations
 * (less, equal, unordered) per type; the operator is then logic on masks:
 * le = less | equal, gtu = ~(less | equal), and so on.
 *
 * A predicate is a mask already, so what setp yields is stored as it is, and
 * its boolean operator is one more word operation.
 */
#include "alu.h"
#include "num.h"

#include <math.h>

/* ---- relations ----------------------------------------------------------- */

/* Masks of the lanes where x < y, x == y, and either is NaN. */
struct relation {
    uint32_t less, equal, nan;
};
typedef struct relation relate_fn(const void *a, const void *b, uint32_t ftz);

/* Lane results of 0 or -1 to a mask.  Written so that it vectorises. */
static inline uint32_t pack_mask(const int32_t *v)
{
    uint32_t m = 0;
    for (int l = 0; l < VG_LANES; l++)
        m |= (uint32_t)v[l] & 1u << l;
    return m;
}

/* A relation for type T; ftz flushes subnormals first (f32 only).  The three
 * results go to arrays, which is what lets the loop vectorise. */
#define RELATE(S, T, LOAD, NAN_TEST)                                          \
    static struct relation relate_##S(const void *pa, const void *pb,         \
                                      uint32_t ftz)                           \
    {                                                                         \
        const T *a = pa, *b = pb;                                             \
        int32_t lt[VG_LANES], eq[VG_LANES], un[VG_LANES];                     \
        (void)ftz;                                                            \
        for (int l = 0; l < VG_LANES; l++) {                                  \
            LOAD;                                                             \
            lt[l] = -(x < y);                                                 \
            eq[l] = -(x == y);                                                \
            un[l] = NAN_TEST;                                                 \
        }                                                                     \
        return (struct relation){pack_mask(lt), pack_mask(eq),                \
                                 pack_mask(un)};                             \
    }
#define INT_LOAD(T) T x = a[l], y = b[l]
RELATE(u16, uint16_t, INT_LOAD(uint16_t), 0)
RELATE(s16, int16_t, INT_LOAD(int16_t), 0)
RELATE(u32, uint32_t, INT_LOAD(uint32_t), 0)
RELATE(s32, int32_t, INT_LOAD(int32_t), 0)
RELATE(u64, uint64_t, INT_LOAD(uint64_t), 0)
RELATE(s64, int64_t, INT_LOAD(int64_t), 0)
RELATE(f64, double, INT_LOAD(double), -(x != x || y != y))
RELATE(f32, float, float x = ftz ? vg_flush(a[l]) : a[l];
       float y = ftz ? vg_flush(b[l]) : b[l], -(x != x || y != y))

/* Halves at stride 1 (scalars) or 2 (one half of each pair). */
static void halves(const void *row, int stride, bool bf16, uint32_t ftz,
                   float *r)
{
    uint16_t h[VG_LANES];
    for (int l = 0; l < VG_LANES; l++) {
        h[l] = ((const uint16_t *)row)[l * stride];
        if (ftz && !(h[l] & (bf16 ? 0x7f80 : 0x7c00)))
            h[l] &= 0x8000;
    }
    (bf16 ? vg_row_bf16_to_f32 : vg_row_f16_to_f32)(r, h);
}

/* NULL: a half type, or one that cannot be compared. */
static relate_fn *relate_of(enum vg_type t)
{
    static relate_fn *const ints[VG_INTS] = {relate_u16, relate_s16,
                                             relate_u32, relate_s32,
                                             relate_u64, relate_s64};
    int index = vg_int_index(t);
    return index >= 0 ? ints[index] : t == VG_F32 ? relate_f32
         : t == VG_F64 ? relate_f64 : NULL;
}

/* ---- operators ----------------------------------------------------------- */

/* lo, ls, hi, hs are the unsigned orders: their types are unsigned anyway. */
#define CMP_NAMES                                                             \
    "eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan"
enum cmp { EQ, NE, LT, LE, GT, GE, LO, LS, HI, HS, EQU, NEU, LTU, LEU, GTU,
           GEU, NUM, NAN_ };

/* The unordered operators are true when either side is NaN, the ordered ones
 * false (ISA 9.7.7, table of comparison operators). */
static uint32_t decide(struct relation r, enum cmp op)
{
    uint32_t ordered = ~r.nan, le = r.less | r.equal;
    switch (op) {
    case EQ: return r.equal;
    case NE: return ~r.equal & ordered;
    case LT: case LO: return r.less;
    case LE: case LS: return le;
    case GT: case HI: return ~le & ordered;
    case GE: case HS: return ~r.less & ordered;
    case EQU: return r.equal | r.nan;
    case NEU: return ~r.equal;
    case LTU: return r.less | r.nan;
    case LEU: return le | r.nan;
    case GTU: return ~le;
    case GEU: return ~r.less;
    case NUM: return ordered;
    case NAN_: return r.nan;
    }
    return 0;
}

/* What a setp or set instruction does; its aux. */
struct compare {
    relate_fn *relate;      /* NULL: halves */
    enum cmp op;
    int combine;            /* -1 none, 0 and, 1 or, 2 xor */
    bool ftz, bf16, pairs, as_float;
    int src;                /* index in op of the first source */
    unsigned bits;          /* of set's result */
};

/* (a op b) BoolOp {!}c, on lane masks; c is the row behind the sources. */
static uint32_t combine(const struct vg_warp *w, const struct vg_insn *i,
                        const struct compare *k, uint32_t v)
{
    if (k->combine < 0)
        return v;
    int n = k->src + 2;
    uint32_t c = VG_MASK(w, i->op[n]) ^ (i->neg >> n & 1 ? VG_ALL : 0);
    return k->combine == 0 ? v & c : k->combine == 1 ? v | c : v ^ c;
}

/* Comparison of the scalars, or of half `h` of the pairs (0 low, 1 high).
 * Halves are compared as f32, which holds all of them. */
static uint32_t compare(const struct vg_warp *w, const struct vg_insn *i,
                        const struct compare *k, int h)
{
    const uint16_t *a = vg_row(w, i->op[k->src]);
    const uint16_t *b = vg_row(w, i->op[k->src + 1]);
    if (k->relate)
        return decide(k->relate(a, b, k->ftz), k->op);
    float x[VG_LANES], y[VG_LANES];
    int stride = k->pairs ? 2 : 1;
    halves(a + h, stride, k->bf16, k->ftz, x);
    halves(b + h, stride, k->bf16, k->ftz, y);
    return decide(relate_f32(x, y, 0), k->op);
}

/* p{|q} = (a op b) bool c; q = !(a op b) bool c.  Pairs: p low, q high. */
VG_HANDLER(setp)
{
    const struct compare *k = i->aux;
    uint32_t v = compare(w, i, k, 0);
    uint32_t p = combine(w, i, k, v);
    if (k->src == 2) {
        uint32_t q = k->pairs ? compare(w, i, k, 1) : ~v;
        vg_put_pred(vg_row(w, i->op[1]), combine(w, i, k, q), mask);
    }
    vg_put_pred(vg_row(w, i->op[0]), p, mask);
}

/* The common setps: integers and f32, one result, no combination.  Loops are
 * made of these, and they save a call through a pointer and aux. */
#define SETP_FAST(S)                                                          \
    VG_HANDLER(setp_##S)                                                      \
    {                                                                         \
        struct relation r = relate_##S(vg_row(w, i->op[1]),                   \
                                       vg_row(w, i->op[2]), 0);               \
        vg_put_pred(vg_row(w, i->op[0]), decide(r, i->arg), mask);            \
    }
SETP_FAST(u16)
SETP_FAST(s16)
SETP_FAST(u32)
SETP_FAST(s32)
SETP_FAST(u64)
SETP_FAST(s64)
SETP_FAST(f32)

/* set.  Results are all ones, or 1.0 for float result types; halves likewise
 * in 16 bits.  Where the comparison is false the result is 0 in either. */
VG_HANDLER(set)
{
    const struct compare *k = i->aux;
    uint32_t lo = combine(w, i, k, compare(w, i, k, 0)), r[VG_LANES];
    uint32_t hi = k->pairs ? combine(w, i, k, compare(w, i, k, 1)) : 0;
    uint32_t one = k->bits == 32 && !k->pairs ? 0x3f800000
                 : k->bf16 ? 0x3f80 : 0x3c00;
    uint16_t s[VG_LANES];
    for (int l = 0; l < VG_LANES; l++) {
        uint32_t t = k->as_float ? one : k->pairs ? 0xffff : VG_ALL;
        r[l] = (lo >> l & 1 ? t : 0) | (hi >> l & 1 ? t << 16 : 0);
        s[l] = (uint16_t)r[l];
    }
    if (k->bits == 16)
        vg_put16(vg_row(w, i->op[0]), s, mask);
    else
        VG_PUT(0, r);
}

/* ---- decoding ------------------------------------------------------------ */

/* The modifiers that setp and set share; NULL after an error. */
static struct compare *new_compare(struct vg_dec *d)
{
    struct compare *k = vg_keep(d, sizeof *k);
    int op = vg_mod_of(d, CMP_NAMES);
    if (!k || op < 0) {
        vg_error(d, "no comparison named");
        return NULL;
    }
    k->op = (enum cmp)op;
    k->combine = vg_mod_of(d, "and|or|xor");
    k->ftz = vg_mod(d, "ftz");
    return k;
}

/* Sources of type t, then the predicate to combine with. */
static bool compare_sources(struct vg_dec *d, struct compare *k,
                            enum vg_type t)
{
    bool half = t == VG_F16 || t == VG_BF16 || t == VG_F16X2 ||
                t == VG_BF16X2;
    k->relate = relate_of(t);
    k->bf16 = t == VG_BF16 || t == VG_BF16X2;
    k->pairs = t == VG_F16X2 || t == VG_BF16X2;
    if (!k->relate && !half)
        return vg_error(d, "no comparison of this type");
    return vg_in_typed(d, 1, -1, t) && vg_in_typed(d, 2, -1, t) &&
           (k->combine < 0 || vg_in(d, 3, -1, 1));
}

/* setp.op{.bool}{.ftz}.type p{|q}, a, b{, {!}c} */
static bool decode_setp(struct vg_dec *d)
{
    static vg_fn *const fast[VG_INTS] = {setp_u16, setp_s16, setp_u32,
                                         setp_s32, setp_u64, setp_s64};
    struct compare *k = new_compare(d);
    enum vg_type t;
    if (!k || !vg_need_type(d, &t))
        return false;
    bool two = vg_has(d, 0) && d->in->op[0].kind == PTX_OP_PAIR;
    k->src = two ? 2 : 1;
    d->out->aux = k;
    d->out->arg = k->op;
    d->out->fn = setp;
    if (!two && k->combine < 0 && !k->ftz) {
        int index = vg_int_index(t);
        d->out->fn = index >= 0 ? fast[index] : t == VG_F32 ? setp_f32 : setp;
    }
    return vg_out(d, 0, 0, 1) && (!two || vg_out(d, 0, 1, 1)) &&
           compare_sources(d, k, t);
}

/* set.CmpOp{.bool}{.ftz}.dtype.stype d, a, b{, {!}c} */
static bool decode_set(struct vg_dec *d)
{
    struct compare *k = new_compare(d);
    enum vg_type dt, st;
    if (!k || !vg_need_type(d, &dt) || !vg_need_type(d, &st))
        return false;
    k->src = 1;
    k->bits = vg_bits(dt);
    k->as_float = dt == VG_F32 || dt == VG_F16 || dt == VG_BF16 ||
                  dt == VG_F16X2 || dt == VG_BF16X2;
    d->out->aux = k;
    d->out->fn = set;
    if (k->bits != 16 && k->bits != 32)
        return vg_error(d, "result type is not 16 or 32 bits");
    bool ok = vg_out(d, 0, -1, k->bits) && compare_sources(d, k, st);
    if (dt == VG_BF16 || dt == VG_BF16X2)
        k->bf16 = true;
    return ok;
}

/* ---- selection ----------------------------------------------------------- */

/* Sources are read whole, so d may be either of them. */
#define SELP(S, T)                                                            \
    VG_HANDLER(selp_##S)                                                      \
    {                                                                         \
        const T *a = VG_ROW(T, 1), *b = VG_ROW(T, 2);                         \
        uint32_t p = VG_MASK(w, i->op[3]) ^ (i->neg >> 3 & 1 ? VG_ALL : 0);   \
        T r[VG_LANES];                                                        \
        for (int l = 0; l < VG_LANES; l++)                                    \
            r[l] = p >> l & 1 ? a[l] : b[l];                                  \
        VG_PUT(0, r);                                                         \
    }
SELP(b16, uint16_t)
SELP(b32, uint32_t)
SELP(b64, uint64_t)

/* slct d, a, b, c: c >= 0 ? a : b; c is s32 or f32 (NaN selects b). */
#define SLCT(S, T)                                                            \
    VG_TERNARY2(slct_##S##_s32, T, T, T, int32_t, z >= 0 ? x : y)             \
    VG_TERNARY2(slct_##S##_f32, T, T, T, float, z >= 0.0f ? x : y)            \
    VG_TERNARY2(slct_##S##_ftz, T, T, T, float,                               \
                vg_flush(z) >= 0.0f ? x : y)
SLCT(b16, uint16_t)
SLCT(b32, uint32_t)
SLCT(b64, uint64_t)

/* Index by width of selp's and slct's tables. */
static int size_index(enum vg_type t)
{
    return vg_bits(t) == 16 ? 0 : vg_bits(t) == 32 ? 1
         : vg_bits(t) == 64 ? 2 : -1;
}

/* selp.type d, a, b, p: d = p ? a : b */
static bool decode_selp(struct vg_dec *d)
{
    static vg_fn *const fn[] = {selp_b16, selp_b32, selp_b64};
    enum vg_type t;
    if (!vg_need_type(d, &t))
        return false;
    int index = size_index(t);
    if (index < 0)
        return vg_error(d, "type does not go with the opcode");
    d->out->fn = fn[index];
    return vg_out(d, 0, -1, vg_bits(t)) && vg_in_typed(d, 1, -1, t) &&
           vg_in_typed(d, 2, -1, t) && vg_in(d, 3, -1, 1);
}

/* slct{.ftz}.type.{s32,f32} d, a, b, c */
static bool decode_slct(struct vg_dec *d)
{
    static vg_fn *const fn[][3] = {
        {slct_b16_s32, slct_b16_f32, slct_b16_ftz},
        {slct_b32_s32, slct_b32_f32, slct_b32_ftz},
        {slct_b64_s32, slct_b64_f32, slct_b64_ftz}};
    bool ftz = vg_mod(d, "ftz");
    enum vg_type t = vg_type(d), c = vg_type(d);
    int index = size_index(t);
    if (index < 0 || (c != VG_S32 && c != VG_F32))
        return vg_error(d, "needs a type and .s32 or .f32");
    d->out->fn = fn[index][c == VG_S32 ? 0 : ftz ? 2 : 1];
    return vg_out(d, 0, -1, vg_bits(t)) && vg_in_typed(d, 1, -1, t) &&
           vg_in_typed(d, 2, -1, t) && vg_in_typed(d, 3, -1, c);
}

/* ---- testp, copysign ----------------------------------------------------- */

/* In the order of test()'s cases. */
#define TESTP_NAMES "finite|infinite|number|notanumber|normal|subnormal"
/* smallest: the least normal number of the type. */
static bool test(double v, double smallest, uint32_t what)
{
    switch (what) {
    case 0: return isfinite(v);
    case 1: return isinf(v);
    case 2: return v == v;
    case 3: return v != v;
    case 4: return isfinite(v) && fabs(v) >= smallest;
    default: return v != 0 && fabs(v) < smallest;
    }
}
/* .ftz does not exist for testp: subnormals are what one asks about. */
VG_HANDLER(testp_f32)
{
    uint32_t p = 0;
    for (int l = 0; l < VG_LANES; l++)
        p |= (uint32_t)test((double)VG_ROW(float, 1)[l], 0x1p-126, i->arg)
             << l;
    vg_put_pred(vg_row(w, i->op[0]), p, mask);
}
/* The same in double. */
VG_HANDLER(testp_f64)
{
    uint32_t p = 0;
    for (int l = 0; l < VG_LANES; l++)
        p |= (uint32_t)test(VG_ROW(double, 1)[l], 0x1p-1022, i->arg) << l;
    vg_put_pred(vg_row(w, i->op[0]), p, mask);
}

/* testp.property.{f32,f64} p, a */
static bool decode_testp(struct vg_dec *d)
{
    int what = vg_mod_of(d, TESTP_NAMES);
    enum vg_type t = vg_type(d);
    if (what < 0 || (t != VG_F32 && t != VG_F64))
        return vg_error(d, "needs a property and .f32 or .f64");
    d->out->arg = (uint32_t)what;
    d->out->fn = t == VG_F32 ? testp_f32 : testp_f64;
    return vg_out(d, 0, -1, 1) && vg_in_typed(d, 1, -1, t);
}

/* copysign d, a, b: the sign of a on the magnitude of b (ISA 9.7.3.2). */
#define SIGN64 (UINT64_C(1) << 63)
VG_BINARY(copysign_f32, uint32_t, uint32_t,
          (x & 0x80000000) | (y & 0x7fffffff))
VG_BINARY(copysign_f64, uint64_t, uint64_t, (x & SIGN64) | (y & ~SIGN64))

/* copysign.{f32,f64} d, a, b */
static bool decode_copysign(struct vg_dec *d)
{
    enum vg_type t = vg_type(d);
    if (t != VG_F32 && t != VG_F64)
        return vg_error(d, "needs .f32 or .f64");
    d->out->fn = t == VG_F32 ? copysign_f32 : copysign_f64;
    return vg_out(d, 0, -1, vg_bits(t)) && vg_in_typed(d, 1, -1, t) &&
           vg_in_typed(d, 2, -1, t);
}

const struct vg_opcode vg_ops_pred[] = {
    {"setp", decode_setp, VG_C_PRED, 0},
    {"set", decode_set, VG_C_PRED, 0},
    {"selp", decode_selp, VG_C_PRED, 0},
    {"slct", decode_slct, VG_C_PRED, 0},
    {"testp", decode_testp, VG_C_PRED, 0},
    {"copysign", decode_copysign, VG_C_FLOAT, 0},
    {NULL, NULL, 0, 0},
};
