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

/* One output: which rows of a head make it. */
struct part {
    int first_row, rows;
};

static struct part part_of(const struct num_case *c, bool is_v)
{
    const mla_kernel_info *k = &c->subject->info;
    return is_v ? (struct part){k->nope, k->v} : (struct part){0, k->nope};
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

/* kv_b as singles, [heads][latent][nope + v]: exact, and quick to use. */
static void decode_weights(struct num_case *c)
{
    const mla_kernel_info *k = &c->subject->info;
    const struct num_tensor *t = num_tensor_of(c, "kv_b");
    int64_t rows = head_rows(c);
    double row[NUM_MAX_WIDTH];

    c->weights = num_alloc((size_t)(k->heads * rows * k->latent) *
                           sizeof(*c->weights));
    for (int64_t h = 0; h < k->heads; h++)
        for (int64_t i = 0; i < rows; i++) {
            float *column = c->weights + h * rows * k->latent + i;
            num_get_row(t, h, i, row);
            for (int64_t r = 0; r < k->latent; r++)
                column[r * rows] = (float)row[r];
        }
}

/* A NaN in one token's latent must stay in that token's rows. */
static void plant_nans(struct num_case *c)
{
    struct num_tensor *t = num_tensor_of(c, "latent");
    for (int64_t i = 1; i < t->n[0]; i += 3)
        num_set_bits(t->elem, num_at(t, i, 0, 7 * i % t->width),
                     num_poison_bits(t->elem, i % 2 ? NUM_POISON_NAN
                                                    : NUM_POISON_INF));
}

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
static void kv_b_row(const struct num_case *c, const struct num_tensor *t,
                     const int64_t *index, struct num_expect *e)
{
    const mla_kernel_info *k = &c->subject->info;
    const float *w = c->weights + index[1] * head_rows(c) * k->latent;
    bool is_v = t == num_tensor_of(c, "v") && !t->alias[0];
    int first = is_v ? part_of(c, true).first_row : 0;
    double x[NUM_MAX_WIDTH], y[NUM_MAX_WIDTH], size[NUM_MAX_WIDTH];

    num_get_row(num_tensor_of(c, "latent"), index[0], 0, x);
    oracle_product(x, w, k->latent, head_rows(c), y, size);
    for (int64_t i = 0; i < t->width; i++)
        num_expect_value(e, i, t->elem, y[first + i],
                         isfinite(size[first + i])
                             ? k->latent * 0x1p-23 * size[first + i]
                             : 0);
}
