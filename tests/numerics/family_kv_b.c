/* SPDX-License-Identifier: Apache-2.0
 *
 * family_kv_b.c: kv_b, latents expanded to k_nope and v.
 *
 * A head's nope + v rows of kv_b_proj, each of latent elements, times the
 * latent of a token.  The two outputs are tensors of their own or, with
 * NUM_ONE_BUFFER, neighbours in rows of nope + v elements.
 */
#include <math.h>
#include <string.h>

#include "family.h"

/* The rows of a head that make one of the outputs. */
struct part {
    int first, rows;
};

enum { NOPE, VALUE, PARTS };

static struct part part_of(const struct num_case *c, int which)
{
    const mla_kernel_info *k = &c->subject->info;
    return which == NOPE ? (struct part){0, k->nope}
                         : (struct part){k->nope, k->v};
}

static int head_rows(const struct num_case *c)
{
    return c->subject->info.nope + c->subject->info.v;
}

/* The outputs: two tensors of unlike layouts, or v inside k_nope's rows. */
static void add_outputs(struct num_case *c)
{
    const mla_kernel_info *k = &c->subject->info;
    struct num_tensor *t;

    if (!num_is(c, NUM_ONE_BUFFER)) {
        num_add_heads(c, "k_nope", c->subject->dtype, k->nope, c->shape.out);
        num_add_heads(c, "v", c->subject->dtype, k->v, c->shape.in);
        return;
    }
    t = num_add_heads(c, "k_nope", c->subject->dtype, head_rows(c),
                      c->shape.out);
    strcpy(t->alias, "v");
    t->alias_offset = k->nope * (int64_t)num_elem_bytes(t->elem);
}

/* Where the matrix of one part of a head begins: [latent][rows of it]. */
static float *matrix_of(const struct num_case *c, int64_t head, int which)
{
    int64_t row = head * head_rows(c) + part_of(c, which).first;
    return c->weights + row * c->subject->info.latent;
}

/* kv_b as singles: exact, and quick to use. */
static void decode_weights(struct num_case *c)
{
    const mla_kernel_info *k = &c->subject->info;
    const struct num_tensor *t = num_tensor_of(c, "kv_b");
    double row[NUM_MAX_WIDTH];

    c->weights = num_alloc((size_t)(k->heads * head_rows(c) * k->latent) *
                           sizeof(*c->weights));
    for (int64_t r = 0; r < t->rows; r++) {
        const int64_t *at = t->row[r].index;
        int which = at[1] < k->nope ? NOPE : VALUE;
        struct part p = part_of(c, which);
        float *to = matrix_of(c, at[0], which) + (at[1] - p.first);
        num_get_row(t, at[0], at[1], row);
        for (int64_t i = 0; i < k->latent; i++)
            to[i * p.rows] = (float)row[i];
    }
}

/* A NaN in one token's latent must stay in that token's rows. */
static void plant_nans(struct num_case *c)
{
    struct num_tensor *t = num_tensor_of(c, "latent");
    for (int64_t i = 1; i < t->n[0]; i += 3)
        num_set_bits(
            t->elem, num_at(t, i, 0, 7 * i % t->width),
            num_poison_bits(t->elem, i % 2 ? NUM_POISON_NAN : NUM_POISON_INF));
}

/* Weights are scaled so that sums stay near 1. */
static void build_kv_b(struct num_case *c)
{
    const mla_kernel_info *k = &c->subject->info;

    num_add_tokens(c, "latent", k->latent, c->shape.in);
    num_add_grid(c, "kv_b", "kv_b_head_stride", "kv_b_row_stride",
                 c->subject->dtype, k->heads, head_rows(c), k->latent,
                 c->shape.in);
    add_outputs(c);
    num_seal_all(c);
    num_fill_normal(num_tensor_of(c, "latent"), 1, &c->rng);
    num_fill_normal(num_tensor_of(c, "kv_b"), 1 / sqrt(k->latent), &c->rng);
    if (num_is(c, NUM_SPECIAL))
        plant_nans(c);
    decode_weights(c);
}

/* Products are summed in single precision in an order of the kernel's own;
 * tensor cores may truncate: 2^-23 per term of the sum of magnitudes. */
static void expect_part(const struct num_case *c, int which,
                        const int64_t *index, enum num_elem elem,
                        int64_t column, struct num_expect *e)
{
    int depth = c->subject->info.latent, width = part_of(c, which).rows;
    double x[NUM_MAX_WIDTH], y[NUM_MAX_WIDTH], size[NUM_MAX_WIDTH];

    num_get_row(num_tensor_of(c, "latent"), index[0], 0, x);
    oracle_product(x, matrix_of(c, index[1], which), depth, width, y, size);
    for (int i = 0; i < width; i++)
        num_expect_value(e, column + i, elem, y[i],
                         isfinite(size[i]) ? depth * 0x1p-23 * size[i] : 0);
}

/* In one buffer a row holds both parts, and both are expected in it. */
static void kv_b_row(const struct num_case *c, const struct num_tensor *t,
                     const int64_t *index, struct num_expect *e)
{
    if (t == num_tensor_of(c, "k_nope"))
        expect_part(c, NOPE, index, t->elem, 0, e);
    if (t == num_tensor_of(c, "v"))
        expect_part(c, VALUE, index, t->elem,
                    t->alias[0] ? part_of(c, VALUE).first : 0, e);
}

/* Elements of kv_b_proj. */
static double kv_b_weights(const struct num_subject *s)
{
    return (double)s->info.heads * (s->info.nope + s->info.v) * s->info.latent;
}

/* A tile of tokens costs its MMAs however few of them there are. */
static double kv_b_call_work(const struct num_subject *s)
{
    return 2 * kv_b_weights(s);
}

static double kv_b_token_work(const struct num_subject *s)
{
    return kv_b_weights(s) / 32;
}

static const struct num_shape kv_b_shapes[] = {
    {"one buffer", 9, NUM_PADDED, NUM_SWAPPED, NUM_ONE_BUFFER, false},
    {"one buffer", 3, NUM_TIGHT, NUM_TIGHT, NUM_ONE_BUFFER, true},
    {"strides", 2, NUM_PADDED, NUM_SWAPPED, 0, true},
    {"strides", 3, NUM_SWAPPED, NUM_PADDED, 0, true},
    {"strides", 5, NUM_INTERLEAVED, NUM_INTERLEAVED, 0, true},
    {"special values", 9, NUM_TIGHT, NUM_TIGHT, NUM_SPECIAL, false},
    {"poison", 3, NUM_PADDED, NUM_PADDED, NUM_ALL_POISONS, false},
    {"far", 3, NUM_FAR_OUTER, NUM_FAR_OUTER, 0, false},
    {"far", 2, NUM_FAR_INNER, NUM_FAR_INNER, 0, false},
    {"alone", 11, NUM_PADDED, NUM_TIGHT, NUM_WINDOWS, false},
    {"alone", 131, NUM_TIGHT, NUM_PADDED, NUM_WINDOWS, true},
};

const struct num_family num_kv_b = {
    .name = "kv_b",
    .bar = "2^-p|y| + K 2^-23 sum|xw|",
    .build = build_kv_b,
    .row = kv_b_row,
    .token_work = kv_b_token_work,
    .call_work = kv_b_call_work,
    NUM_SHAPES(kv_b_shapes),
};
