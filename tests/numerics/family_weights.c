/* SPDX-License-Identifier: Apache-2.0
 *
 * family_weights.c: concat_mla_k, derive_weights, absorb_q and absorb_v.
 *
 * kv_b_proj has, per head, nope rows that make k_nope and v rows that make v,
 * each of latent elements.  absorb_q moves a query into the latent space with
 * the first, absorb_v moves an attention result out of it with the second;
 * derive_weights lays both out as other engines want them.
 *
 * Copies are exact, whatever their bits; the products have a bound that grows
 * with their depth.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "family.h"

/* `count` columns of a row, from consecutive elements of a row of `from`. */
static void copy_row(struct num_expect *e, int64_t column,
                     const struct num_tensor *from, int64_t i0, int64_t i1,
                     int64_t count)
{
    size_t es = num_elem_bytes(from->elem);
    const unsigned char *at = num_at(from, i0, i1, 0);
    for (int64_t k = 0; k < count; k++)
        num_expect_bits(e, column + k,
                        num_bits(from->elem, at + (size_t)k * es));
}

/* Normal numbers, or bits of any kind where they are copied; NULL: no such
 * tensor in this case. */
static void fill(struct num_case *c, struct num_tensor *t)
{
    if (!t)
        return;
    if (num_is(c, NUM_SPECIAL))
        num_fill_bits(t, &c->rng);
    else
        num_fill_normal(t, 1, &c->rng);
}

/* concat_mla_k ----------------------------------------------------------- */

/* k = [k_nope | k_rope], the latter the same for all heads. */
static void build_concat(struct num_case *c)
{
    const mla_kernel_info *k = &c->subject->info;

    num_add_heads(c, "k_nope", c->subject->dtype, k->nope, c->shape.in);
    num_add_tokens(c, "k_rope", k->rope, c->shape.in);
    num_add_heads(c, "k", c->subject->dtype, k->nope + k->rope, c->shape.out);
    num_seal_all(c);
    fill(c, num_tensor_of(c, "k_nope"));
    fill(c, num_tensor_of(c, "k_rope"));
}

/* Two copies, of one row each. */
static void concat_row(const struct num_case *c, const struct num_tensor *t,
                       const int64_t *index, struct num_expect *e)
{
    const mla_kernel_info *k = &c->subject->info;
    (void)t;
    copy_row(e, 0, num_tensor_of(c, "k_nope"), index[0], index[1], k->nope);
    copy_row(e, k->nope, num_tensor_of(c, "k_rope"), index[0], 0, k->rope);
}

/* Thread instructions per token: a load and a store of each element. */
static double concat_work(const struct num_subject *s)
{
    return 2.0 * s->info.heads * (s->info.nope + s->info.rope);
}

/* Group, tokens, layouts of the inputs and of k, flags, full only. */
static const struct num_shape concat_shapes[] = {
    {"strides", 5, NUM_PADDED, NUM_SWAPPED, 0, false},
    {"strides", 6, NUM_INTERLEAVED, NUM_PADDED, 0, false},
    {"strides", 7, NUM_SWAPPED, NUM_INTERLEAVED, 0, false},
    {"special values", 9, NUM_TIGHT, NUM_PADDED, NUM_SPECIAL, false},
    {"poison", 7, NUM_PADDED, NUM_PADDED, NUM_ALL_POISONS, false},
    {"far", 3, NUM_FAR_OUTER, NUM_FAR_OUTER, 0, false},
    {"far", 2, NUM_FAR_INNER, NUM_FAR_INNER, 0, false},
    {"alone", 9, NUM_PADDED, NUM_SWAPPED, NUM_WINDOWS, false},
};

const struct num_family num_concat_mla_k = {
    .name = "concat_mla_k",
    .bar = "exact",
    .build = build_concat,
    .row = concat_row,
    .token_work = concat_work,
    NUM_SHAPES(concat_shapes),
};

/* derive_weights ---------------------------------------------------------- */

/* One of the two outputs, in its plain or transposed layout, or NULL.  The
 * flag is bound in either case. */
static void add_derived(struct num_case *c, const char *field,
                        const char *flag, int rows, bool absent,
                        bool transposed)
{
    const mla_kernel_info *k = &c->subject->info;
    char outer[NUM_NAME], inner[NUM_NAME];

    num_add_int(c, flag, transposed);
    if (absent) {
        num_add_null(c, field);
        return;
    }
    snprintf(outer, sizeof(outer), "%s_head_stride", field);
    snprintf(inner, sizeof(inner), "%s_row_stride", field);
    num_add_grid(c, field, outer, inner, c->subject->dtype, k->heads,
                 transposed ? k->latent : rows, transposed ? rows : k->latent,
                 c->shape.out);
}

/* Rows of kv_b that only an absent output would need are dead. */
static void build_derive(struct num_case *c)
{
    const mla_kernel_info *k = &c->subject->info;
    struct num_tensor *kv_b = num_add_rows(
        c, "kv_b", "kv_b_row_stride", c->subject->dtype,
        (int64_t)k->heads * (k->nope + k->v), k->latent, c->shape.in);

    add_derived(c, "w_kc", "w_kc_transposed", k->nope,
                num_is(c, NUM_NO_KC), num_is(c, NUM_KC_TRANSPOSED));
    add_derived(c, "w_vc", "w_vc_transposed", k->v, num_is(c, NUM_NO_VC),
                num_is(c, NUM_VC_TRANSPOSED));
    for (int64_t i = 0; i < kv_b->n[0]; i++)
        if (i % (k->nope + k->v) < k->nope ? !num_is(c, NUM_NO_KC)
                                           : !num_is(c, NUM_NO_VC))
            num_claim(kv_b, i, 0);
    num_seal_all(c);
    fill(c, kv_b);
}

/* A row of w_kc or w_vc: a row of kv_b, or a column of a head's part. */
static void derive_row(const struct num_case *c, const struct num_tensor *t,
                       const int64_t *index, struct num_expect *e)
{
    const mla_kernel_info *k = &c->subject->info;
    bool is_kc = t == num_tensor_of(c, "w_kc");
    bool transposed = num_is(c, is_kc ? NUM_KC_TRANSPOSED
                                      : NUM_VC_TRANSPOSED);
    int64_t row = index[0] * (k->nope + k->v) + (is_kc ? 0 : k->nope);
    const struct num_tensor *kv_b = num_tensor_of(c, "kv_b");

    if (!transposed) {
        copy_row(e, 0, kv_b, row + index[1], 0, t->width);
        return;
    }
    for (int64_t i = 0; i < t->width; i++)
        num_expect_bits(e, i, num_bits(kv_b->elem,
                                       num_at(kv_b, row + i, 0, index[1])));
}

/* Elements of kv_b_proj. */
static double weight_elements(const struct num_subject *s)
{
    return (double)s->info.heads * (s->info.nope + s->info.v) *
           s->info.latent;
}

static double derive_work(const struct num_subject *s)
{
    return 3 * weight_elements(s);
}

#define BOTH_TRANSPOSED (NUM_KC_TRANSPOSED | NUM_VC_TRANSPOSED)

/* Without tokens: the weights are derived once per model. */
static const struct num_shape derive_shapes[] = {
    {"layouts", 0, NUM_TIGHT, NUM_TIGHT, 0, false},
    {"layouts", 0, NUM_TIGHT, NUM_PADDED, NUM_KC_TRANSPOSED, false},
    {"layouts", 0, NUM_PADDED, NUM_TIGHT, NUM_VC_TRANSPOSED, false},
    {"layouts", 0, NUM_PADDED, NUM_SWAPPED, BOTH_TRANSPOSED, false},
    {"one output", 0, NUM_TIGHT, NUM_PADDED, NUM_NO_KC | BOTH_TRANSPOSED,
     false},
    {"one output", 0, NUM_PADDED, NUM_TIGHT, NUM_NO_VC, false},
    {"special values", 0, NUM_TIGHT, NUM_PADDED,
     NUM_SPECIAL | NUM_KC_TRANSPOSED, false},
    {"poison", 0, NUM_PADDED, NUM_PADDED,
     NUM_ALL_POISONS | NUM_VC_TRANSPOSED, false},
    {"far", 0, NUM_FAR_OUTER, NUM_FAR_OUTER, NUM_KC_TRANSPOSED, false},
    {"far", 0, NUM_TIGHT, NUM_FAR_INNER, 0, false},
};

const struct num_family num_derive_weights = {
    .name = "derive_weights",
    .bar = "exact",
    .build = build_derive,
    .row = derive_row,
    .call_work = derive_work,
    NUM_SHAPES(derive_shapes),
};

/* absorb ------------------------------------------------------------------ */

/* A call of either: x[tokens][heads][depth] times a matrix per head. */
struct absorb {
    const char *x, *w, *out;
    int depth, width;
    bool columns;  /* w's rows are the columns of the matrix */
    int first_row; /* of a head, in w */
    int rows;      /* of a head, in w, foreign ones included */
};

/* What the kernel multiplies, by family and variant.  The variant of absorb_v
 * takes w_vc as derive_weights transposes it, [latent][v], and the other one
 * kv_b_proj as it is, whose v rows follow a head's nope rows. */
static struct absorb absorb_of(const struct num_case *c)
{
    const mla_kernel_info *k = &c->subject->info;

    if (c->family == &num_absorb_q)
        return (struct absorb){"q_nope", "kv_b", "q", k->nope, k->latent,
                               false, 0, k->nope + k->v};
    if (k->variant[0])
        return (struct absorb){"o", "w_vc", "out", k->latent, k->v, false, 0,
                               k->latent};
    return (struct absorb){"o", "kv_b", "out", k->latent, k->v, true,
                           k->nope, k->nope + k->v};
}

/* Of a head's rows the call owns those of its own half of kv_b. */
static void add_weights(struct num_case *c, const struct absorb *a)
{
    const mla_kernel_info *k = &c->subject->info;
    bool is_kv_b = a->w[0] == 'k';
    struct num_tensor *t = num_add_grid(
        c, a->w, is_kv_b ? "kv_b_head_stride" : "w_vc_head_stride",
        is_kv_b ? "kv_b_row_stride" : "w_vc_row_stride", c->subject->dtype,
        k->heads, a->rows, a->columns ? a->depth : a->width, c->shape.in);
    int used = a->columns ? a->width : a->depth;

    for (int64_t h = 0; h < k->heads; h++)
        for (int64_t i = 0; i < used; i++)
            num_claim(t, h, a->first_row + i);
}

/* The matrices as singles, [heads][depth][width]: exact, and quick to use.
 * Where w's rows are the matrix's columns they are turned here, so that one
 * product serves both. */
static void decode_weights(struct num_case *c, const struct absorb *a)
{
    const struct num_tensor *t = num_tensor_of(c, a->w);
    int heads = c->subject->info.heads;
    float *out = num_alloc((size_t)heads * (size_t)a->depth *
                           (size_t)a->width * sizeof(*out));
    double row[NUM_MAX_WIDTH];

    c->weights = out;
    for (int64_t r = 0; r < t->rows; r++) {
        int64_t h = t->row[r].index[0];
        int64_t i = t->row[r].index[1] - a->first_row;
        float *head = out + h * a->depth * a->width;
        num_get_row(t, h, t->row[r].index[1], row);
        for (int64_t k = 0; k < t->width; k++)
            head[a->columns ? k * a->width + i : i * a->width + k] =
                (float)row[k];
    }
}

/* A NaN in one token's query must stay in that token's row. */
static void plant_nans(struct num_case *c, const char *field)
{
    struct num_tensor *t = num_tensor_of(c, field);
    for (int64_t i = 1; t && i < t->n[0]; i += 3)
        num_set_bits(t->elem, num_at(t, i, i % t->n[1], i % t->width),
                     num_poison_bits(t->elem, NUM_POISON_NAN));
}

/* Weights are scaled so that sums stay near 1 at any depth. */
static void build_absorb(struct num_case *c)
{
    const mla_kernel_info *k = &c->subject->info;
    struct absorb a = absorb_of(c);
    bool rope = c->family == &num_absorb_q && k->rope > 0;

    num_add_heads(c, a.x, c->subject->dtype, a.depth, c->shape.in);
    add_weights(c, &a);
    num_add_heads(c, a.out, c->subject->dtype,
                  a.width + (rope ? k->rope : 0), c->shape.out);
    if (rope) {
        num_add_heads(c, "q_rope", c->subject->dtype, k->rope, c->shape.in);
        num_add_angles(c);
    }
    num_seal_all(c);
    num_fill_normal(num_tensor_of(c, a.x), 1, &c->rng);
    num_fill_normal(num_tensor_of(c, a.w), 1 / sqrt(a.depth), &c->rng);
    if (rope) {
        num_fill_normal(num_tensor_of(c, "q_rope"), 1, &c->rng);
        num_fill_angles(c);
    }
    if (num_is(c, NUM_SPECIAL)) {
        plant_nans(c, a.x);
        plant_nans(c, "q_rope");
    }
    decode_weights(c, &a);
}

/* Products are summed in single precision in an order of the kernel's own;
 * tensor cores may truncate: 2^-23 per term of the sum of magnitudes. */
static void absorb_row(const struct num_case *c, const struct num_tensor *t,
                       const int64_t *index, struct num_expect *e)
{
    struct absorb a = absorb_of(c);
    double x[NUM_MAX_WIDTH], y[NUM_MAX_WIDTH], size[NUM_MAX_WIDTH];
    double factor = c->family == &num_absorb_q
                        ? num_position_factor(c, index[0])
                        : 1;

    num_get_row(num_tensor_of(c, a.x), index[0], index[1], x);
    oracle_product(x, c->weights + index[1] * a.depth * a.width, a.depth,
                   a.width, y, size);
    for (int k = 0; k < a.width; k++)
        num_expect_value(e, k, t->elem, factor * y[k],
                         isfinite(size[k])
                             ? (a.depth + 4) * 0x1p-23 * factor * size[k]
                             : 0);
    if (t->width > a.width)
        num_expect_rope(c, e, a.width, num_tensor_of(c, "q_rope"), index[0],
                        index[1], factor);
}

/* Weights are loaded once per call (about two instructions an element), and
 * a token costs one MMA row. */
static double absorb_call_work(const struct num_subject *s)
{
    return weight_elements(s);
}

static double absorb_token_work(const struct num_subject *s)
{
    return weight_elements(s) / 32;
}

static const struct num_shape absorb_shapes[] = {
    {"strides", 2, NUM_PADDED, NUM_SWAPPED, 0, false},
    {"strides", 3, NUM_SWAPPED, NUM_PADDED, 0, false},
    {"strides", 5, NUM_INTERLEAVED, NUM_INTERLEAVED, 0, true},
    {"special values", 9, NUM_TIGHT, NUM_TIGHT, NUM_SPECIAL, false},
    {"poison", 3, NUM_PADDED, NUM_PADDED, NUM_ALL_POISONS, false},
    {"far", 3, NUM_FAR_OUTER, NUM_FAR_OUTER, 0, false},
    {"far", 2, NUM_FAR_INNER, NUM_FAR_INNER, 0, false},
    {"alone", 11, NUM_PADDED, NUM_TIGHT, NUM_WINDOWS, false},
    {"clamped grid", 67, NUM_TIGHT, NUM_PADDED, NUM_CLAMPED, false},
};

const struct num_family num_absorb_q = {
    .name = "absorb_q",
    .bar = "2^-p|y| + K 2^-23 sum|xw|",
    .build = build_absorb,
    .row = absorb_row,
    .token_work = absorb_token_work,
    .call_work = absorb_call_work,
    NUM_SHAPES(absorb_shapes),
};

const struct num_family num_absorb_v = {
    .name = "absorb_v",
    .bar = "2^-p|y| + K 2^-23 sum|xw|",
    .build = build_absorb,
    .row = absorb_row,
    .token_work = absorb_token_work,
    .call_work = absorb_call_work,
    NUM_SHAPES(absorb_shapes),
};
