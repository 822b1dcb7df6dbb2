/* SPDX-License-Identifier: Apache-2.0
 *
 * family_layer.c: gemm, rms_norm and rope_q, what a layer needs around its
 * attention.
 *
 * gemm multiplies rows of x by rows of w, any number and length of them.
 * rms_norm is the norm of the compressed query, rope_q the rotation of the
 * Normal path's queries; both may work in place.
 */
#include <math.h>
#include <stdio.h>

#include "family.h"

/* gemm -------------------------------------------------------------------- */

/* Columns and depths around a tile of 64 x 64 and stages of 32 and 64: less
 * than one, a little more, several; and a depth that fills no stage. */
static void product_size(const struct num_case *c, int *columns, int *depth)
{
    static const int size[][2] = {{72, 136}, {8, 8},   {64, 64}, {264, 328},
                                  {16, 520}, {128, 96}, {56, 40}};
    int n = (int)(sizeof(size) / sizeof(size[0]));

    *columns = size[c->shape.tokens % n][0];
    *depth = size[c->shape.tokens % n][1];
}

/* w as singles, [depth][columns]: exact, and quick to use. */
static void decode_columns(struct num_case *c, int columns, int depth)
{
    const struct num_tensor *w = num_tensor_of(c, "w");
    double row[NUM_MAX_WIDTH];

    c->weights = num_alloc((size_t)columns * (size_t)depth * sizeof(float));
    for (int n = 0; n < columns; n++) {
        num_get_row(w, n, 0, row);
        for (int k = 0; k < depth; k++)
            c->weights[k * columns + n] = (float)row[k];
    }
}

/* A NaN in one token must stay in that token. */
static void plant_nans(struct num_tensor *t)
{
    for (int64_t i = 1; i < t->n[0]; i += 3)
        num_set_bits(
            t->elem, num_at(t, i, 0, 7 * i % t->width),
            num_poison_bits(t->elem, i % 2 ? NUM_POISON_NAN : NUM_POISON_INF));
}

/* x, w and y are tokens, columns and tokens; sizes change with the number of
 * tokens, so that a sweep meets all of them. */
static void build_gemm(struct num_case *c)
{
    int columns, depth;

    product_size(c, &columns, &depth);
    num_add_int(c, "columns", columns);
    num_add_int(c, "depth", depth);
    num_add_tokens(c, "x", depth, c->shape.in);
    num_add_rows(c, "w", "w_stride", c->subject->dtype, columns, depth,
                 c->shape.in);
    num_add_tokens(c, "y", columns, c->shape.out);
    num_seal_all(c);
    num_fill_normal(num_tensor_of(c, "x"), 1, &c->rng);
    num_fill_normal(num_tensor_of(c, "w"), 1 / sqrt(depth), &c->rng);
    if (num_is(c, NUM_SPECIAL))
        plant_nans(num_tensor_of(c, "x"));
    decode_columns(c, columns, depth);
}

/* Products are summed in single precision in an order of the kernel's own;
 * tensor cores may truncate: 2^-23 per term of the sum of magnitudes. */
static void gemm_row(const struct num_case *c, const struct num_tensor *t,
                     const int64_t *index, struct num_expect *e)
{
    double x[NUM_MAX_WIDTH], y[NUM_MAX_WIDTH], size[NUM_MAX_WIDTH];
    int columns, depth;

    product_size(c, &columns, &depth);
    num_get_row(num_tensor_of(c, "x"), index[0], 0, x);
    oracle_product(x, c->weights, depth, columns, y, size);
    for (int n = 0; n < columns; n++)
        num_expect_value(e, n, t->elem, y[n],
                         isfinite(size[n]) ? depth * 0x1p-23 * size[n] : 0);
}

/* A tile costs its MMAs however few of its rows there are. */
static double gemm_call_work(const struct num_subject *s)
{
    (void)s;
    return 100e3;
}

static double gemm_token_work(const struct num_subject *s)
{
    (void)s;
    return 2e3;
}

/* Group, tokens, layouts of the inputs and of y, flags, full only. */
static const struct num_shape gemm_shapes[] = {
    {"strides", 5, NUM_PADDED, NUM_SWAPPED, 0, false},
    {"strides", 6, NUM_INTERLEAVED, NUM_INTERLEAVED, 0, false},
    {"special values", 10, NUM_TIGHT, NUM_PADDED, NUM_SPECIAL, false},
    {"poison", 3, NUM_PADDED, NUM_PADDED, NUM_ALL_POISONS, false},
    {"far", 3, NUM_FAR_OUTER, NUM_FAR_OUTER, 0, false},
    {"alone", 66, NUM_PADDED, NUM_TIGHT, NUM_WINDOWS, false},
    {"clamped grid", 598, NUM_TIGHT, NUM_PADDED, NUM_CLAMPED, false},
};

const struct num_family num_gemm = {
    .name = "gemm",
    .bar = "2^-p|y| + K 2^-23 sum|xw|",
    .build = build_gemm,
    .row = gemm_row,
    .token_work = gemm_token_work,
    .call_work = gemm_call_work,
    NUM_SHAPES(gemm_shapes),
};

/* rms_norm ---------------------------------------------------------------- */

/* Width of the compressed query; models without one have no rms_norm. */
static int norm_width(const struct num_case *c)
{
    return c->subject->model->q_lora_rank;
}

/* Rows of very different size, so that epsilon matters to some. */
static void build_norm(struct num_case *c)
{
    bool in_place = num_is(c, NUM_IN_PLACE_A);
    struct num_tensor *x;

    c->factor = c->shape.tokens % 2 ? 1 : 1.7320508;
    x = num_add_tokens(c, in_place ? "y" : "x", norm_width(c), c->shape.in);
    if (in_place) {
        snprintf(x->alias, sizeof(x->alias), "x");
        x->input = true;
    } else {
        num_add_tokens(c, "y", norm_width(c), c->shape.out);
    }
    num_add_vector(c, "weight", c->subject->dtype, norm_width(c));
    num_seal_all(c);
    num_fill_normal(num_tensor_of(c, "weight"), 1, &c->rng);
    x = num_tensor_of(c, "x");
    for (int64_t i = 0; i < x->n[0]; i++) {
        double scale = ldexp(1, 3 - (int)num_below(&c->rng, 14));
        for (int64_t k = 0; k < x->width; k++)
            num_set(x, i, 0, k, scale * num_normal(&c->rng));
    }
    if (num_is(c, NUM_SPECIAL))
        plant_nans(x);
}

/* n squares are summed in single precision; all terms are positive. */
static void norm_row(const struct num_case *c, const struct num_tensor *t,
                     const int64_t *index, struct num_expect *e)
{
    double x[NUM_MAX_WIDTH], w[NUM_MAX_WIDTH], y[NUM_MAX_WIDTH];
    int n = norm_width(c);

    num_get_row(num_tensor_of(c, "x"), index[0], 0, x);
    num_get_row(num_tensor_of(c, "weight"), 0, 0, w);
    oracle_rmsnorm(x, w, n, c->norm_eps, y);
    for (int k = 0; k < n; k++)
        num_expect_value(e, k, t->elem, c->factor * y[k],
                         isfinite(y[k]) ? (n + 16) * 0x1p-24 *
                                              fabs(c->factor * y[k])
                                        : 0);
}

/* Thread instructions per token. */
static double norm_work(const struct num_subject *s)
{
    return 14.0 * s->model->q_lora_rank;
}

static const struct num_shape norm_shapes[] = {
    {"strides", 5, NUM_PADDED, NUM_INTERLEAVED, 0, false},
    {"in place", 6, NUM_PADDED, NUM_PADDED, NUM_IN_PLACE_A, false},
    {"in place", 9, NUM_INTERLEAVED, NUM_TIGHT, NUM_IN_PLACE_A, false},
    {"special values", 12, NUM_TIGHT, NUM_PADDED, NUM_SPECIAL, false},
    {"poison", 7, NUM_PADDED, NUM_PADDED, NUM_ALL_POISONS, false},
    {"far", 3, NUM_FAR_OUTER, NUM_FAR_OUTER, 0, false},
    {"alone", 9, NUM_PADDED, NUM_PADDED, NUM_WINDOWS, false},
};

const struct num_family num_rms_norm = {
    .name = "rms_norm",
    .bar = "2^-p|y| + (K+16)2^-24|y|",
    .build = build_norm,
    .row = norm_row,
    .token_work = norm_work,
    NUM_SHAPES(norm_shapes),
};

/* rope_q ------------------------------------------------------------------ */

/* One head, some, and more than one block of threads has room for. */
static int query_heads(const struct num_case *c)
{
    static const int heads[] = {5, 1, 16, 67};
    return heads[c->shape.tokens % 4];
}

/* Where the model has no factor the nope columns are not the call's. */
static void build_rope(struct num_case *c)
{
    const mla_kernel_info *k = &c->subject->info;
    struct num_tensor *q = num_add_grid(
        c, "q", "q_token_stride", "q_head_stride", c->subject->dtype,
        c->tokens, query_heads(c), k->nope + k->rope, c->shape.in);

    q->token_axis = 0;
    num_add_int(c, "heads", query_heads(c));
    num_add_angles(c);
    num_seal_all(c);
    num_fill_angles(c);
    if (num_is(c, NUM_SPECIAL))
        num_fill_bits(q, &c->rng);
    else
        num_fill_normal(q, 1, &c->rng);
}

/* The nope columns keep their bits, or are multiplied by the factor of the
 * position; the rope columns turn. */
static void rope_row(const struct num_case *c, const struct num_tensor *t,
                     const int64_t *index, struct num_expect *e)
{
    int nope = c->subject->info.nope;
    double factor = num_position_factor(c, index[0]);

    for (int i = 0; i < nope; i++)
        if (c->subject->model->factor_beta == 0)
            num_expect_bits(
                e, i, num_bits(t->elem, num_at(t, index[0], index[1], i)));
        else {
            double y = factor * num_get(t, index[0], index[1], i);
            num_expect_value(e, i, t->elem, y,
                             isfinite(y) ? 4 * 0x1p-24 * fabs(y) : 0);
        }
    num_expect_rope_at(c, e, nope, t, index[0], index[1], nope, factor);
}

static double rope_work(const struct num_subject *s)
{
    return 16.0 * (s->info.nope + s->info.rope) * 4;
}

static const struct num_shape rope_shapes[] = {
    {"strides", 5, NUM_PADDED, NUM_PADDED, 0, false},
    {"strides", 6, NUM_INTERLEAVED, NUM_PADDED, 0, false},
    {"strides", 7, NUM_SWAPPED, NUM_INTERLEAVED, 0, false},
    {"special values", 10, NUM_TIGHT, NUM_PADDED, NUM_SPECIAL, false},
    {"poison", 7, NUM_PADDED, NUM_PADDED, NUM_ALL_POISONS, false},
    {"far", 4, NUM_FAR_OUTER, NUM_FAR_OUTER, 0, false},
    {"far", 2, NUM_FAR_INNER, NUM_FAR_INNER, 0, false},
    {"alone", 9, NUM_PADDED, NUM_SWAPPED, NUM_WINDOWS, false},
    {"clamped grid", 11, NUM_TIGHT, NUM_PADDED, NUM_CLAMPED, false},
};

const struct num_family num_rope_q = {
    .name = "rope_q",
    .bar = "2^-p|y| + 4 2^-24(|xc|+|ys|)",
    .build = build_rope,
    .row = rope_row,
    .token_work = rope_work,
    NUM_SHAPES(rope_shapes),
};
