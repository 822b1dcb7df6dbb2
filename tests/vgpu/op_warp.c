/* SPDX-License-Identifier: Apache-2.0
 *
 * op_warp.c: lanes that talk to each other: shfl, vote, match, redux,
 * activemask, elect, bar.warp.sync (PTX ISA 9.0, 9.7.9.6 and 9.7.13).
 *
 * The scheduler calls a handler of kind VG_MEMBER when all live lanes of the
 * member masks are at the instruction; `mask` may then hold several member
 * sets side by side, so set operations go through `for_each_set`.
 *
 * Example: after a branch lanes 0-15 may execute shfl.sync with the mask
 * 0x0000ffff and lanes 16-31, at the same pc, with 0xffff0000.  When they have
 * merged into one group, one call serves both sets.
 */
#include "alu.h"
#include "warp.h"

/* Appends the member mask as last row and marks the instruction. */
static bool in_members(struct vg_dec *d, int k)
{
    int64_t v;
    d->out->kind = VG_MEMBER;
    d->out->member = d->out->nop;
    if (vg_has(d, k) && d->in->op[k].kind == PTX_OP_IMM &&
        vg_literal(d, k, &v) && (uint32_t)v == VG_ALL)
        d->out->member |= UINT32_C(1) << 31;
    return vg_in(d, k, -1, 32);
}

/* The row of member masks, one per lane: lanes may name different sets. */
static const uint32_t *members_of(const struct vg_warp *w,
                                  const struct vg_insn *i)
{
    return vg_row(w, i->op[i->member & 0xff]);
}

/* The lanes of `mask` that share lane `first`'s member mask. */
static uint32_t set_of(const struct vg_warp *w, const struct vg_insn *i,
                       uint32_t mask, int first)
{
    const uint32_t *m = members_of(w, i);
    uint32_t s = 0;
    for (int l = 0; l < VG_LANES; l++)
        s |= (uint32_t)(m[l] == m[first]) << l;
    return s & mask & m[first];
}

/* Runs the statement that follows once per member set, in `set`. */
#define for_each_set(set)                                                     \
    for (uint32_t left_ = mask, set;                                          \
         left_ && (set = set_of(w, i, left_, __builtin_ctz(left_)));          \
         left_ &= ~set)

/* ---- shfl.sync (ISA 9.7.9.6) --------------------------------------------- */

/* In the order of decode_shfl's words. */
enum { UP, DOWN, BFLY, IDX };

/* Source lane and validity.  c: clamp in bits 0-4, segment mask in 8-12.  An
 * invalid source means the own value and p false; the formulas are the
 * ISA's. */
static int source_lane(uint32_t mode, int lane, uint32_t b, uint32_t c,
                       bool *valid)
{
    int seg = (int)(c >> 8 & 31), clamp = (int)(c & 31), n = (int)(b & 31);
    int max = (lane & seg) | (clamp & ~seg), min = lane & seg, j;
    switch (mode) {
    case UP: j = lane - n; *valid = j >= max; break;
    case DOWN: j = lane + n; *valid = j <= max; break;
    case BFLY: j = lane ^ n; *valid = j <= max; break;
    default: j = min | (n & ~seg); *valid = j <= max; break;
    }
    return *valid ? j : lane;
}

/* rows: d, a, b, c, member mask{, p}.  A lane that does not take part has no
 * defined value: all ones, a NaN in every format. */
VG_HANDLER(shfl)
{
    const uint32_t *a = VG_ROW(uint32_t, 1), *b = VG_ROW(uint32_t, 2),
                   *c = VG_ROW(uint32_t, 3);
    const uint32_t *m = members_of(w, i);
    uint32_t r[VG_LANES], p = 0;
    for (int l = 0; l < VG_LANES; l++) {
        bool valid;
        int j = source_lane(i->arg, l, b[l], c[l], &valid);
        p |= (uint32_t)valid << l;
        r[l] = a[j & 31];
        if (!(mask & m[l] & 1u << (j & 31)))
            r[l] = VG_ALL;
    }
    VG_PUT(0, r);
    if (i->nop > 5)
        vg_put_pred(vg_row(w, i->op[5]), p, mask);
}

/* shfl.sync.mode.b32 d{|p}, a, b, c, membermask */
static bool decode_shfl(struct vg_dec *d)
{
    bool sync = vg_mod(d, "sync");
    int mode = vg_mod_of(d, "up|down|bfly|idx");
    if (!sync || mode < 0 || vg_type(d) != VG_B32)
        return vg_error(d, "needs .sync, .up, .down, .bfly or .idx, and .b32");
    d->out->arg = (uint32_t)mode;
    d->out->fn = shfl;
    if (!vg_out(d, 0, 0, 32))
        return false;
    for (int k = 1; k < 4; k++)
        if (!vg_in(d, k, -1, 32))
            return false;
    return in_members(d, 4) && (d->in->op[0].kind != PTX_OP_PAIR ||
                                vg_out(d, 0, 1, 1));
}

/* ---- vote.sync ----------------------------------------------------------- */

enum { ALL_TRUE, ANY, UNI, BALLOT };
/* The voting predicate, negation applied. */
static uint32_t source_pred(const struct vg_warp *w, const struct vg_insn *i)
{
    return VG_MASK(w, i->op[1]) ^ (i->neg >> 1 & 1 ? VG_ALL : 0);
}

/* All lanes of a set get the same answer. */
VG_HANDLER(vote)
{
    uint32_t a = source_pred(w, i), r = 0;
    for_each_set(set) {
        uint32_t yes = a & set;
        bool t = i->arg == ALL_TRUE ? yes == set
               : i->arg == ANY ? yes != 0 : yes == 0 || yes == set;
        r |= t ? set : 0;
    }
    vg_put_pred(vg_row(w, i->op[0]), r, mask);
}
/* Bit l is lane l's predicate, for the lanes of the set. */
VG_HANDLER(ballot)
{
    uint32_t a = source_pred(w, i), r[VG_LANES] = {0};
    for_each_set(set)
        for (int l = 0; l < VG_LANES; l++)
            r[l] = set >> l & 1 ? a & set : r[l];
    VG_PUT(0, r);
}

/* vote.sync.{all,any,uni}.pred d, {!}a, membermask vote.sync.ballot.b32 d,
 * {!}a, membermask */
static bool decode_vote(struct vg_dec *d)
{
    bool sync = vg_mod(d, "sync");
    int mode = vg_mod_of(d, "all|any|uni|ballot");
    enum vg_type t = vg_type(d);
    if (!sync || mode < 0 || t != (mode == BALLOT ? VG_B32 : VG_PRED))
        return vg_error(d, "needs .sync and .all, .any, .uni .pred or "
                           ".ballot.b32");
    d->out->arg = (uint32_t)mode;
    d->out->fn = mode == BALLOT ? ballot : vote;
    return vg_out(d, 0, -1, mode == BALLOT ? 32 : 1) && vg_in(d, 1, -1, 1) &&
           in_members(d, 2);
}

/* The lanes that execute the instruction together. */
VG_HANDLER(activemask)
{
    uint32_t r[VG_LANES];
    for (int l = 0; l < VG_LANES; l++)
        r[l] = mask;
    VG_PUT(0, r);
}

/* activemask.b32 d: it waits for nobody, so it is no VG_MEMBER. */
static bool decode_activemask(struct vg_dec *d)
{
    if (vg_type(d) != VG_B32)
        return vg_error(d, "needs .b32");
    d->out->fn = activemask;
    return vg_out(d, 0, -1, 32);
}

/* ---- match.sync ---------------------------------------------------------- */

/* arg: the key is 64 bits wide. */
static uint64_t key(const struct vg_warp *w, const struct vg_insn *i, int l)
{
    return i->arg ? ((const uint64_t *)vg_row(w, i->op[1]))[l]
                  : ((const uint32_t *)vg_row(w, i->op[1]))[l];
}

/* The lanes of `set` whose key equals lane's. */
static uint32_t same_key(const struct vg_warp *w, const struct vg_insn *i,
                         uint32_t set, int lane)
{
    uint32_t s = 0;
    for (int l = 0; l < VG_LANES; l++)
        s |= (uint32_t)(key(w, i, l) == key(w, i, lane)) << l;
    return s & set;
}

/* Each lane gets the lanes of its set with the same key. */
VG_HANDLER(match_any)
{
    uint32_t r[VG_LANES] = {0};
    for_each_set(set)
        for (int l = 0; l < VG_LANES; l++)
            if (set >> l & 1)
                r[l] = same_key(w, i, set, l);
    VG_PUT(0, r);
}
/* Do all lanes of the set have the same key?  Then d is the set and p true,
 * else 0 and false.  rows: d, a, member mask{, p} */
VG_HANDLER(match_all)
{
    uint32_t r[VG_LANES] = {0}, p = 0;
    for_each_set(set) {
        bool all = same_key(w, i, set, __builtin_ctz(set)) == set;
        for (int l = 0; l < VG_LANES; l++)
            if (set >> l & 1)
                r[l] = all ? set : 0;
        p |= all ? set : 0;
    }
    VG_PUT(0, r);
    if (i->nop > 3)
        vg_put_pred(vg_row(w, i->op[3]), p, mask);
}

/* match.{any,all}.sync.type d{|p}, a, membermask */
static bool decode_match(struct vg_dec *d)
{
    int mode = vg_mod_of(d, "any|all");
    bool sync = vg_mod(d, "sync");
    enum vg_type t = vg_type(d);
    if (!sync || mode < 0 || (t != VG_B32 && t != VG_B64))
        return vg_error(d, "needs .any or .all, .sync, .b32 or .b64");
    d->out->arg = t == VG_B64;
    d->out->fn = mode ? match_all : match_any;
    return vg_out(d, 0, 0, 32) && vg_in(d, 1, -1, vg_bits(t)) &&
           in_members(d, 2) &&
           (d->in->op[0].kind != PTX_OP_PAIR || vg_out(d, 0, 1, 1));
}

/* ---- redux.sync ---------------------------------------------------------- */

/* arg of redux: the operation, and bits for its type and modifiers. */
enum { R_ADD, R_MIN, R_MAX, R_AND, R_OR, R_XOR };
#define SIGNED_BIT 8u
#define FLOAT_BIT 16u
#define ABS_BIT 32u
#define NAN_BIT 64u

/* min and max of f32 (sm_100a): as the scalar instructions. */
static uint32_t reduce_float(uint32_t x, uint32_t y, uint32_t arg)
{
    union { uint32_t u; float f; } a = {x}, b = {y};
    bool max = (arg & 7) == R_MAX;
    if (a.f != a.f || b.f != b.f)
        return arg & NAN_BIT ? 0x7fffffff
             : a.f != a.f ? (b.f != b.f ? 0x7fffffff : y) : x;
    if (a.f == b.f)
        return (x >> 31 != 0) == max ? y : x;
    return (a.f < b.f) == max ? y : x;
}

/* One step of the reduction of integers or bits. */
static uint32_t reduce(uint32_t x, uint32_t y, uint32_t arg)
{
    bool less = arg & SIGNED_BIT ? (int32_t)x < (int32_t)y : x < y;
    if (arg & FLOAT_BIT)
        return reduce_float(x, y, arg);
    switch (arg & 7) {
    case R_ADD: return x + y;
    case R_MIN: return less ? x : y;
    case R_MAX: return less ? y : x;
    case R_AND: return x & y;
    case R_OR: return x | y;
    default: return x ^ y;
    }
}

/* Reduced in lane order, which matters for no operation: there is no .add of
 * floats. */
VG_HANDLER(redux)
{
    const uint32_t *a = VG_ROW(uint32_t, 1);
    uint32_t r[VG_LANES] = {0}, abs = i->arg & ABS_BIT ? 0x7fffffff : VG_ALL;
    for_each_set(set) {
        int first = __builtin_ctz(set);
        uint32_t v = a[first] & abs;
        if (i->arg & FLOAT_BIT)
            v = reduce_float(v, v, i->arg);     /* a NaN becomes the one */
        for (int l = first + 1; l < VG_LANES; l++)
            if (set >> l & 1)
                v = reduce(v, a[l] & abs, i->arg);
        for (int l = 0; l < VG_LANES; l++)
            r[l] = set >> l & 1 ? v : r[l];
    }
    VG_PUT(0, r);
}

/* redux.sync.op{.abs}{.NaN}.type d, a, membermask */
static bool decode_redux(struct vg_dec *d)
{
    bool sync = vg_mod(d, "sync");
    int op = vg_mod_of(d, "add|min|max|and|or|xor");
    enum vg_type t = vg_type(d);
    bool arithmetic = op >= R_ADD && op <= R_MAX;
    bool minmax = op == R_MIN || op == R_MAX;
    if (!sync || op < 0 ||
        !(t == VG_F32 ? minmax : arithmetic ? t == VG_U32 || t == VG_S32
                                            : t == VG_B32))
        return vg_error(d, "needs .sync, an operation and a type it has");
    d->out->arg = (uint32_t)op | (t == VG_S32 ? SIGNED_BIT : 0) |
                  (t == VG_F32 ? FLOAT_BIT : 0);
    if (t == VG_F32 && vg_mod(d, "abs"))
        d->out->arg |= ABS_BIT;
    if (t == VG_F32 && vg_mod(d, "NaN"))
        d->out->arg |= NAN_BIT;
    d->out->fn = redux;
    return vg_out(d, 0, -1, 32) && vg_in(d, 1, -1, 32) && in_members(d, 2);
}

/* ---- elect.sync, bar.warp.sync ------------------------------------------- */

/* The lowest lane of the set is elected.  rows: d, p, member mask */
VG_HANDLER(elect)
{
    uint32_t r[VG_LANES] = {0}, p = 0;
    for_each_set(set) {
        uint32_t leader = (uint32_t)__builtin_ctz(set);
        for (int l = 0; l < VG_LANES; l++)
            r[l] = set >> l & 1 ? leader : r[l];
        p |= 1u << leader;
    }
    VG_PUT(0, r);
    vg_put_pred(vg_row(w, i->op[1]), p, mask);
}

/* elect.sync d|p, membermask */
static bool decode_elect(struct vg_dec *d)
{
    if (!vg_mod(d, "sync") || !vg_has(d, 0) ||
        d->in->op[0].kind != PTX_OP_PAIR)
        return vg_error(d, "needs .sync and a destination d|p");
    d->out->fn = elect;
    return vg_out(d, 0, 0, 32) && vg_out(d, 0, 1, 1) && in_members(d, 1);
}

/* The scheduler has made the lanes meet; what is left is memory order. */
VG_HANDLER(warp_sync)
{
    for_each_set(set)
        vg_mem_warp_sync(w, set);
}

/* bar.warp.sync membermask */
static bool decode_warp_sync(struct vg_dec *d)
{
    if (!vg_mod(d, "sync"))
        return vg_error(d, "needs .sync");
    d->out->fn = warp_sync;
    return in_members(d, 0);
}

const struct vg_opcode vg_ops_warp[] = {
    {"shfl", decode_shfl, VG_C_WARP, 0},
    {"vote", decode_vote, VG_C_WARP, 0},
    {"match", decode_match, VG_C_WARP, 0},
    {"activemask", decode_activemask, VG_C_WARP, 0},
    {"redux", decode_redux, VG_C_WARP, 0},
    {"elect", decode_elect, VG_C_WARP, 0},
    {"bar.warp", decode_warp_sync, VG_C_SYNC, 0},
    {NULL, NULL, 0, 0},
};
