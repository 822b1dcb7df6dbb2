/* SPDX-License-Identifier: Apache-2.0
 *
 * test_isa_warp.c: what the lanes of a warp do together (PTX ISA 9.7.9.6 and
 * 9.7.13.6 to .14): shfl, vote, match, redux, activemask, elect.
 *
 * The reference functions see all 32 lanes at once and follow the ISA's
 * pseudocode.
 */
#include "isa.h"

/* --- shfl (ISA 9.7.9.6) -------------------------------------------------- */

enum mode { UP, DOWN, BFLY, IDX };

static void shuffle(struct isa_lane x[32], enum mode mode)
{
    for (int lane = 0; lane < 32; lane++) {
        int b = x[lane].b & 31, clamp = x[lane].c & 31;
        int segment = x[lane].c >> 8 & 31;
        int max = (lane & segment) | (clamp & ~segment);
        int min = lane & segment;
        int j = mode == UP     ? lane - b
                : mode == DOWN ? lane + b
                : mode == BFLY ? lane ^ b
                               : min | (b & ~segment);
        bool p = mode == UP ? j >= max : j <= max;
        x[lane].d = x[p ? j : lane].a;
        x[lane].e = p;
    }
}
static void from_3(struct isa_lane *x)
{
    for (int i = 0; i < 32; i++)
        x[i].d = x[3].a;
}
static void up(struct isa_lane *x)
{
    shuffle(x, UP);
}
static void down(struct isa_lane *x)
{
    shuffle(x, DOWN);
}
static void bfly(struct isa_lane *x)
{
    shuffle(x, BFLY);
}
static void idx(struct isa_lane *x)
{
    shuffle(x, IDX);
}

/* --- collective operations over the lanes of a mask ---------------------- */

#define EVEN 0x55555555u

static uint64_t fold(const struct isa_lane x[32], uint32_t mask,
                     uint64_t (*f)(uint64_t, uint64_t))
{
    uint64_t v = 0;
    bool first = true;
    for (int i = 0; i < 32; i++) {
        if (!(mask >> i & 1))
            continue;
        v = first ? x[i].a : f(v, x[i].a);
        first = false;
    }
    return v;
}
#define FOLD(name, expression)                                                \
    static uint64_t f_##name(uint64_t a, uint64_t b)                          \
    {                                                                         \
        return (uint32_t)(expression);                                        \
    }                                                                         \
    static void name(struct isa_lane *x)                                      \
    {                                                                         \
        uint64_t v = fold(x, ~0u, f_##name);                                  \
        for (int i = 0; i < 32; i++)                                          \
            x[i].d = v;                                                       \
    }
FOLD(sum, a + b)
FOLD(min_s, (int32_t)a < (int32_t)b ? a : b)
FOLD(max_s, (int32_t)a > (int32_t)b ? a : b)
FOLD(min_u, a < b ? a : b)
FOLD(max_u, a > b ? a : b)
FOLD(all_and, a &b)
FOLD(all_or, a | b)
FOLD(all_xor, a ^ b)

/* Even lanes add among themselves; odd lanes keep 77. */
static void sum_even(struct isa_lane *x)
{
    uint64_t v = fold(x, EVEN, f_sum);
    for (int i = 0; i < 32; i++)
        x[i].d = i & 1 ? 77 : v;
}

static uint32_t ballot_of(const struct isa_lane x[32], bool inverted)
{
    uint32_t v = 0;
    for (int i = 0; i < 32; i++)
        v |= (uint32_t)((x[i].a & 1) ^ inverted) << i;
    return v;
}
#define VOTE(name, inverted, expression)                                      \
    static void name(struct isa_lane *x)                                      \
    {                                                                         \
        uint32_t v = ballot_of(x, inverted);                                  \
        for (int i = 0; i < 32; i++)                                          \
            x[i].d = expression;                                              \
    }
VOTE(ballot, false, v)
VOTE(ballot_not, true, v)
VOTE(vote_all, false, v == ~0u)
VOTE(vote_any, false, v != 0)
VOTE(vote_uni, false, v == 0 || v == ~0u)
VOTE(vote_any_not, true, v != 0)

/* The same in the even lanes alone. */
VOTE(ballot_even, false, i & 1 ? 77 : v & EVEN)
VOTE(vote_all_even, false, i & 1 ? 0 : (v & EVEN) == EVEN)

static void match_any(struct isa_lane *x)
{
    for (int i = 0; i < 32; i++)
        for (int k = 0; k < 32; k++)
            x[i].d |= (uint64_t)(x[k].a == x[i].a) << k;
}
static void match_all(struct isa_lane *x)
{
    bool same = true;
    for (int i = 0; i < 32; i++)
        same &= x[i].a == x[0].a;
    for (int i = 0; i < 32; i++) {
        x[i].d = same ? UINT32_MAX : 0;
        x[i].e = same;
    }
}

/* activemask inside a branch that the lanes with a & 1 take. */
static void active(struct isa_lane *x)
{
    uint32_t v = ballot_of(x, false);
    for (int i = 0; i < 32; i++)
        x[i].d = x[i].a & 1 ? v : 0;
}

/* elect.sync: one leader among the lanes of the mask; which is up to the
 * implementation, so only "exactly one, and everyone knows it" is tested. */
static void elected(struct isa_lane *x)
{
    x->d = 1;
}

/* movmatrix: an 8 x 8 matrix of b16 across the warp, transposed.  Lane 4 g +
 * q holds row g, columns 2 q and 2 q + 1 (ISA 9.7.14.5.17). */
static void transpose(struct isa_lane *x)
{
    uint64_t m[8][8];
    for (int i = 0; i < 32; i++) {
        m[i / 4][i % 4 * 2] = x[i].a & 0xffff;
        m[i / 4][i % 4 * 2 + 1] = x[i].a >> 16 & 0xffff;
    }
    for (int i = 0; i < 32; i++)
        x[i].d = m[i % 4 * 2][i / 4] | m[i % 4 * 2 + 1][i / 4] << 16;
}

static void laneid(struct isa_lane *x)
{
    x->d = x->lane;
}
#define LANEMASK(name, expression)                                            \
    static void name(struct isa_lane *x)                                      \
    {                                                                         \
        uint64_t one = UINT64_C(1) << x->lane;                                \
        x->d = (uint32_t)(expression);                                        \
    }
LANEMASK(eq, one)
LANEMASK(lt, one - 1)
LANEMASK(le, (one << 1) - 1)
LANEMASK(gt, ~((one << 1) - 1))
LANEMASK(ge, ~(one - 1))

#define SHFL(mode)                                                            \
    {.text = "{ .reg .b32 m; and.b32 m, $c, 0x1f1f; "                         \
             "shfl.sync." #mode ".b32 $d|$e, $a, $b, m, -1; }",               \
     "41:444",                                                                \
     "unu",                                                                   \
     .warp = mode},                                                           \
    {                                                                         \
        .text = "shfl.sync." #mode ".b32 $d|$e, $a, $b, $c, 0xffffffff;",     \
        "41:444", "ulW", .warp = mode                                         \
    }
#define IN_EVEN_LANES(op)                                                     \
    "{ .reg .pred q; .reg .b32 l; mov.u32 l, %laneid; and.b32 l, l, 1; "      \
    "setp.eq.u32 q, l, 0; @q " op " }"

static const struct isa_row rows[] = {
    SHFL(up),
    SHFL(down),
    SHFL(bfly),
    SHFL(idx),
    {.text = "shfl.sync.idx.b32 $d, $a, 3, 31, 0xffffffff;",
     "4:4",
     "u",
     .warp = from_3},

    {.text = "redux.sync.add.u32 $d, $a, 0xffffffff;",
     "4:4",
     "u",
     .warp = sum},
    {.text = "redux.sync.add.s32 $d, $a, 0xffffffff;",
     "4:4",
     "u",
     .warp = sum},
    {.text = "redux.sync.min.s32 $d, $a, 0xffffffff;",
     "4:4",
     "i",
     .warp = min_s},
    {.text = "redux.sync.max.s32 $d, $a, 0xffffffff;",
     "4:4",
     "i",
     .warp = max_s},
    {.text = "redux.sync.min.u32 $d, $a, 0xffffffff;",
     "4:4",
     "i",
     .warp = min_u},
    {.text = "redux.sync.max.u32 $d, $a, 0xffffffff;",
     "4:4",
     "i",
     .warp = max_u},
    {.text = "redux.sync.and.b32 $d, $a, 0xffffffff;",
     "4:4",
     "i",
     .warp = all_and},
    {.text = "redux.sync.or.b32 $d, $a, 0xffffffff;",
     "4:4",
     "i",
     .warp = all_or},
    {.text = "redux.sync.xor.b32 $d, $a, 0xffffffff;",
     "4:4",
     "u",
     .warp = all_xor},
    {.text = "mov.u32 $d, 77; " IN_EVEN_LANES(
         "redux.sync.add.u32 $d, $a, 0x55555555;"),
     "4:4",
     "u",
     .warp = sum_even},

    {.text = "vote.sync.ballot.b32 $d, $a, 0xffffffff;",
     "4:1",
     "w",
     .warp = ballot},
    {.text = "vote.sync.ballot.b32 $d, !$a, 0xffffffff;",
     "4:1",
     "w",
     .warp = ballot_not},
    {.text = "vote.sync.all.pred $d, $a, 0xffffffff;",
     "1:1",
     "w",
     .warp = vote_all},
    {.text = "vote.sync.any.pred $d, $a, 0xffffffff;",
     "1:1",
     "w",
     .warp = vote_any},
    {.text = "vote.sync.uni.pred $d, $a, 0xffffffff;",
     "1:1",
     "w",
     .warp = vote_uni},
    {.text = "vote.sync.any.pred $d, !$a, -1;",
     "1:1",
     "w",
     .warp = vote_any_not},
    {.text = "mov.u32 $d, 77; " IN_EVEN_LANES(
         "vote.sync.ballot.b32 $d, $a, 0x55555555;"),
     "4:1",
     "w",
     .warp = ballot_even},
    {.text = "setp.ne.u32 $d, 0, 0; " IN_EVEN_LANES(
         "vote.sync.all.pred $d, $a, 0x55555555;"),
     "1:1",
     "w",
     .warp = vote_all_even},

    {.text = "match.any.sync.b32 $d, $a, 0xffffffff;",
     "4:4",
     "w",
     .warp = match_any},
    {.text = "match.any.sync.b64 $d, $a, 0xffffffff;",
     "4:8",
     "w",
     .warp = match_any},
    {.text = "match.all.sync.b32 $d|$e, $a, 0xffffffff;",
     "41:4",
     "w",
     .warp = match_all},
    {.text = "match.all.sync.b64 $d|$e, $a, 0xffffffff;",
     "41:8",
     "w",
     .warp = match_all},
    {.text = "{ .reg .pred q; .reg .b32 l; and.b32 l, $a, 1; "
             "setp.eq.u32 q, l, 0; mov.u32 $d, 0; @q bra SKIP; "
             "activemask.b32 $d; SKIP: bar.warp.sync -1; }",
     "4:4",
     "w",
     .warp = active},
    {.text = "{ .reg .pred q; .reg .b32 who, n, own; "
             "elect.sync who|q, 0xffffffff; vote.sync.ballot.b32 n, q, -1; "
             "bfind.u32 own, n; popc.b32 n, n; "
             "{ .reg .pred s; setp.eq.u32 s, own, who; selp.u32 $d, n, 0, s; "
             "} }",
     "4:4",
     "u",
     elected,
     .arch = 90},
    {.text = "movmatrix.sync.aligned.m8n8.trans.b16 $d, $a;",
     "4:4",
     "u",
     .warp = transpose},

    {.text = "mov.u32 $d, %laneid;", "4:4", "u", laneid},
    {.text = "mov.u32 $d, %lanemask_eq;", "4:4", "u", eq},
    {.text = "mov.u32 $d, %lanemask_lt;", "4:4", "u", lt},
    {.text = "mov.u32 $d, %lanemask_le;", "4:4", "u", le},
    {.text = "mov.u32 $d, %lanemask_gt;", "4:4", "u", gt},
    {.text = "mov.u32 $d, %lanemask_ge;", "4:4", "u", ge},
};

ISA_MAIN("isa_warp", rows)
