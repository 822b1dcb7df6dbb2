/* SPDX-License-Identifier: Apache-2.0
 *
 * family_merge_n.c: merge_state over any number of ranks.
 *
 * Ranks and heads share the inner axis of a tensor: rank-major where the
 * shape has an even number of tokens, head-major where it is odd, so that no
 * two of the kernel's three strides are ever the same.  As with two sides, a
 * side whose LSE is infinite or NaN is empty: its payload must reach neither
 * the sum nor a multiplication, and a single side that is not empty comes out
 * bit for bit.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "family.h"

enum { MAX_RANKS = 37 };

/* 1 to 5 by the number of tokens, so that a sweep meets all of them; 0 or 37
 * where the shape says so. */
static int ranks_of(const struct num_case *c)
{
    if (num_is(c, NUM_NO_RANKS))
        return 0;
    if (num_is(c, NUM_MANY_RANKS))
        return MAX_RANKS;
    return 1 + (int)(c->shape.tokens % 5);
}

/* Index on the inner axis of a rank's head. */
static int64_t inner_of(const struct num_case *c, int rank, int64_t head)
{
    int heads = c->subject->info.heads;
    return c->shape.tokens % 2 ? head * ranks_of(c) + rank
                               : rank * (int64_t)heads + head;
}

/* The inverse of inner_of. */
static int rank_at(const struct num_case *c, int64_t inner)
{
    int heads = c->subject->info.heads;
    return (int)(c->shape.tokens % 2 ? inner % ranks_of(c) : inner / heads);
}

static int64_t head_at(const struct num_case *c, int64_t inner)
{
    int heads = c->subject->info.heads;
    return c->shape.tokens % 2 ? inner / ranks_of(c) : inner % heads;
}

/* The rank on which the output lies in place. */
static int place_of(const struct num_case *c)
{
    return num_is(c, NUM_IN_PLACE_A) ? 0 : ranks_of(c) - 1;
}

static bool in_place(const struct num_case *c)
{
    return num_is(c, NUM_IN_PLACE_A) || num_is(c, NUM_IN_PLACE_B);
}

/* Variant "n_latent" merges in the latent space. */
static int64_t width_of(const struct num_case *c)
{
    const mla_kernel_info *k = &c->subject->info;
    return strcmp(k->variant, "n_latent") == 0 ? k->latent : k->v;
}

/* Tensors --------------------------------------------------------------- */

/* Strides that the case binds as numbers: ranks and heads of one axis. */
static void add_inner_strides(struct num_case *c, const char *rank,
                              const char *head, const struct num_tensor *t)
{
    num_add_int(c, rank, inner_of(c, 1, 0) * t->stride[1]);
    num_add_int(c, head, inner_of(c, 0, 1) * t->stride[1]);
}

/* A tensor of all ranks, without the strides of its inner axis. */
static struct num_tensor *add_parts(struct num_case *c, const char *field,
                                    const char *token_stride,
                                    enum num_elem elem, int64_t width)
{
    struct num_tensor *t = num_add_grid(
        c, field, token_stride, "", elem, c->tokens,
        (int64_t)ranks_of(c) * c->subject->info.heads, width, c->shape.in);
    t->token_axis = 0;
    return t;
}

/* The output as a second name of one rank of the input. */
static void alias(struct num_case *c, struct num_tensor *t, const char *output,
                  const char *head_stride)
{
    strcpy(t->alias, output);
    t->alias_offset = inner_of(c, place_of(c), 0) * t->stride[1];
    t->output = true;
    num_add_int(c, head_stride, inner_of(c, 0, 1) * t->stride[1]);
}

/* In place, the output's rows are those of one rank of the input. */
static void add_tensors(struct num_case *c)
{
    struct num_tensor *o = add_parts(c, "o_parts", "o_parts_token_stride",
                                     c->subject->dtype, width_of(c));
    struct num_tensor *lse =
        add_parts(c, "lse_parts", "lse_parts_token_stride", NUM_F32, 1);

    num_add_int(c, "ranks", ranks_of(c));
    add_inner_strides(c, "o_parts_rank_stride", "o_parts_head_stride", o);
    add_inner_strides(c, "lse_parts_rank_stride", "lse_parts_head_stride",
                      lse);
    if (in_place(c)) {
        alias(c, o, "o", "o_head_stride");
        alias(c, lse, "lse", "lse_head_stride");
    } else {
        num_add_heads(c, "o", c->subject->dtype, width_of(c), c->shape.out);
        num_add_heads(c, "lse", NUM_F32, 1, c->shape.out);
    }
}

/* Values ---------------------------------------------------------------- */

/* A third of the sides are empty; of some rows all are, of some all but one.
 */
static bool is_spoilt(struct num_case *c, int64_t token, int64_t head,
                      int rank)
{
    int64_t row = token * c->subject->info.heads + head;

    if (row % 7 == 0)
        return true;
    if (row % 7 == 1)
        return rank != row % ranks_of(c);
    return num_below(&c->rng, 3) == 0;
}

/* An empty side is -inf, +inf or NaN: peers use all three. */
static double make_lse(struct num_case *c, int64_t token, int64_t head,
                       int rank)
{
    static const double empty[] = {-INFINITY, INFINITY, NAN};
    double lse = 3 * num_normal(&c->rng);

    if (num_is(c, NUM_GRID_LSE))
        lse += 100.0 * (double)token + (double)head;
    if (num_is(c, NUM_HUGE_LSE))
        lse += num_below(&c->rng, 2) ? 3e4 : -3e4;
    if (num_is(c, NUM_EMPTY_LSE) && is_spoilt(c, token, head, rank))
        return empty[num_below(&c->rng, 3)];
    return lse;
}

/* The payload of an empty side: dead, or, where the tensor is written in
 * place and so has to be live, filled with NaN. */
static void spoil(struct num_tensor *o, int64_t token, int64_t inner)
{
    if (!o->output) {
        num_kill(o, token, inner, 0, o->width);
        return;
    }
    for (int64_t k = 0; k < o->width; k++)
        num_set_bits(o->elem, num_at(o, token, inner, k),
                     num_poison_bits(o->elem, NUM_POISON_NAN));
}

/* As for two sides, with the ranks on the inner axis. */
static void build_merge_n(struct num_case *c)
{
    struct num_tensor *o, *lse;

    add_tensors(c);
    num_seal_all(c);
    o = num_tensor_of(c, "o_parts");
    lse = num_tensor_of(c, "lse_parts");
    num_fill_normal(o, 1, &c->rng);
    for (int64_t r = 0; r < lse->rows; r++) {
        const int64_t *i = lse->row[r].index;
        double value = make_lse(c, i[0], head_at(c, i[1]), rank_at(c, i[1]));
        num_set(lse, i[0], i[1], 0, value);
        if (oracle_lse_empty(value))
            spoil(o, i[0], i[1]);
    }
}

/* Expectations ---------------------------------------------------------- */

/* What the LSEs of a row say. */
struct merged {
    double weight[MAX_RANKS], lse;
    int sides, only; /* sides that are not empty, the last of them */
};

/* Weights and LSE of a row, from the inputs as they were given. */
static struct merged merge(const struct num_case *c, int64_t token,
                           int64_t head)
{
    const struct num_model *m = c->subject->model;
    const struct num_tensor *t = num_tensor_of(c, "lse_parts");
    struct merged out = {.sides = 0};
    double lse[MAX_RANKS];

    for (int r = 0; r < ranks_of(c); r++) {
        lse[r] = num_get(t, token, inner_of(c, r, head), 0);
        if (!oracle_lse_empty(lse[r])) {
            out.sides++;
            out.only = r;
        }
    }
    oracle_merge_n(lse, ranks_of(c), m->lse_base, m->lse_empty, out.weight,
                   &out.lse);
    return out;
}

/* A sum of `sides` exponentials and its logarithm, two roundings of a value
 * as large as the largest LSE. */
static void expect_lse(const struct num_case *c, const struct merged *m,
                       struct num_expect *e)
{
    unsigned char raw[4];

    if (m->sides < 2) {
        num_encode(NUM_F32, raw, m->lse);
        num_expect_bits(e, 0, num_bits(NUM_F32, raw));
        return;
    }
    num_expect_value(e, 0, NUM_F32, m->lse,
                     1e-6 + 0x1p-21 * (fabs(m->lse) + log(m->sides)) +
                         ranks_of(c) * 0x1p-23);
}

/* As with two sides 2^-18 of each term, and the sum's own roundings. */
static void expect_output(const struct num_case *c, const struct merged *m,
                          int64_t token, int64_t head, struct num_expect *e)
{
    const struct num_tensor *o = num_tensor_of(c, "o_parts");
    double share = 0x1p-18 + m->sides * 0x1p-23;

    for (int64_t k = 0; k < o->width; k++) {
        double sum = 0, size = 0;
        if (m->sides < 2) {
            int64_t i1 = inner_of(c, m->only, head);
            num_expect_bits(e, k,
                            m->sides == 0
                                ? 0
                                : num_bits(o->elem, num_at(o, token, i1, k)));
            continue;
        }
        for (int r = 0; r < ranks_of(c); r++) {
            double term = m->weight[r];
            if (term == 0)
                continue;
            term *= num_get(o, token, inner_of(c, r, head), k);
            sum += term;
            size += fabs(term);
        }
        num_expect_value(e, k, o->elem, sum, share * size);
    }
}

/* A rank on which nothing is written keeps its bits. */
static void expect_unchanged(const struct num_tensor *t, const int64_t *i,
                             struct num_expect *e)
{
    for (int64_t k = 0; k < t->width; k++)
        num_expect_bits(e, k, num_bits(t->elem, num_at(t, i[0], i[1], k)));
}

/* In place a row of the input tensor is an output on one rank only. */
static void merge_n_row(const struct num_case *c, const struct num_tensor *t,
                        const int64_t *i, struct num_expect *e)
{
    bool aliased = t->alias[0] != 0;
    int64_t head = aliased ? head_at(c, i[1]) : i[1];
    struct merged m;

    if (aliased && rank_at(c, i[1]) != place_of(c)) {
        expect_unchanged(t, i, e);
        return;
    }
    m = merge(c, i[0], head);
    if (t == num_tensor_of(c, "lse"))
        expect_lse(c, &m, e);
    else
        expect_output(c, &m, i[0], head, e);
}

static double merge_n_work(const struct num_subject *s)
{
    double width =
        strcmp(s->info.variant, "n_latent") ? s->info.v : s->info.latent;
    return 24 * s->info.heads * width;
}

static const struct num_shape merge_n_shapes[] = {
    {"strides", 8, NUM_PADDED, NUM_SWAPPED, 0, false},
    {"strides", 3, NUM_SWAPPED, NUM_PADDED, 0, false},
    {"strides", 4, NUM_INTERLEAVED, NUM_TIGHT, 0, false},
    {"no ranks", 3, NUM_TIGHT, NUM_PADDED, NUM_NO_RANKS, false},
    {"one rank", 5, NUM_PADDED, NUM_TIGHT, NUM_EMPTY_LSE, false},
    {"many ranks", 2, NUM_TIGHT, NUM_PADDED, NUM_MANY_RANKS, false},
    {"many ranks", 3, NUM_PADDED, NUM_TIGHT, NUM_MANY_RANKS | NUM_EMPTY_LSE,
     false},
    {"lse layout", 19, NUM_SWAPPED, NUM_TIGHT, NUM_GRID_LSE, false},
    {"lse layout", 8, NUM_TIGHT, NUM_SWAPPED, NUM_GRID_LSE, false},
    {"empty sides", 18, NUM_PADDED, NUM_TIGHT, NUM_EMPTY_LSE, false},
    {"empty sides", 19, NUM_TIGHT, NUM_PADDED, NUM_EMPTY_LSE, false},
    {"huge lse", 8, NUM_TIGHT, NUM_PADDED, NUM_HUGE_LSE, false},
    {"in place", 8, NUM_PADDED, NUM_TIGHT, NUM_IN_PLACE_A, false},
    {"in place", 7, NUM_TIGHT, NUM_TIGHT, NUM_IN_PLACE_B, false},
    {"in place", 18, NUM_TIGHT, NUM_TIGHT, NUM_IN_PLACE_A | NUM_EMPTY_LSE,
     false},
    {"in place", 9, NUM_PADDED, NUM_TIGHT, NUM_IN_PLACE_B | NUM_EMPTY_LSE,
     false},
    {"poison", 8, NUM_PADDED, NUM_PADDED, NUM_ALL_POISONS | NUM_EMPTY_LSE,
     false},
    {"far", 3, NUM_FAR_OUTER, NUM_FAR_OUTER, 0, false},
    {"far", 2, NUM_FAR_INNER, NUM_FAR_INNER, 0, false},
    {"far", 3, NUM_FAR_INNER, NUM_FAR_OUTER, 0, true},
    {"alone", 9, NUM_PADDED, NUM_SWAPPED, NUM_WINDOWS, false},
};

const struct num_family num_merge_state_n = {
    .name = "merge_state_n",
    .bar = "2^-p|y| + 2^-18 w|o|; lse 1e-6 + 2^-21|y|",
    .build = build_merge_n,
    .row = merge_n_row,
    .token_work = merge_n_work,
    NUM_SHAPES(merge_n_shapes),
};
