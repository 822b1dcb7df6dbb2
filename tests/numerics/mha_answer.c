/* SPDX-License-Identifier: Apache-2.0
 *
 * mha_answer.c: what an attention call should answer.
 *
 * Bars.  An element of O may be off by 2 u * sum p|v| / sum p, u being half a
 * unit in the last place of the working type (2^-7 for bf16): P is rounded to
 * that type before it meets V, and O once more.  The cosine distance over all
 * of a group stays below 5e-6.  LSE may be off by 1e-6, by 8.01/65536 of itself
 * (the bars of FlashMLA's own tests), or, where it is the small difference of
 * large products, by 2^-22 of their sizes' sum: scores are single precision.
 */
#include <math.h>

#include "mha.h"
#include "oracle_attention.h"

/* Rows hold the value and then the key, so that one set of rows serves as both:
 * the query has zeros where the value is. */
static void output_row(const struct num_case *c, const int64_t *index,
                       struct num_expect *e)
{
    double q[NUM_MAX_WIDTH] = {0}, o[NUM_MAX_WIDTH], size[NUM_MAX_WIDTH];
    struct mha_own *own = c->own;
    const mla_kernel_info *k = &c->subject->info;
    const struct num_model *m = c->subject->model;
    struct mha_place p = mha_place_of(c, index[0]);
    int width = k->v + k->nope + k->rope;
    struct oracle_keys keys = {
        own->rows + (index[1] * own->keys + p.first_key) * width,
        mha_is(c, MHA_CAUSAL) ? p.k - p.q + p.token + 1 : p.k, width, k->v};
    double lse, lse_size;

    if (keys.count < 0)
        keys.count = 0;
    num_get_row(num_tensor_of(c, "q"), index[0], index[1], q + k->v);
    oracle_attention(q, &keys, c->softmax_scale, m->lse_base, m->lse_empty, o,
                     size, &lse, &lse_size);
    own->lse[index[0] * k->heads + index[1]] = (struct mha_lse){
        lse, fmax(fmax(1e-6, 8.01 / 65536 * fabs(lse)), 0x1p-22 * lse_size)};
    for (int i = 0; i < k->v; i++) {
        if (size[i] == 0) {
            num_expect_bits(e, i, 0);
            continue;
        }
        e->exact[i] = false;
        e->value[i] = o[i];
        e->tolerance[i] = 2 * num_half_ulp(c->subject->dtype) * size[i] +
                          num_half_tiny(c->subject->dtype);
    }
}

/* `out` comes before `lse` among the tensors, so the oracle has been there. */
static void lse_row(const struct num_case *c, const int64_t *index,
                    struct num_expect *e)
{
    const struct mha_own *own = c->own;
    struct mha_lse lse = own->lse[index[0] * c->subject->info.heads + index[1]];
    unsigned char raw[4];

    if (isinf(lse.value)) {
        num_encode(NUM_F32, raw, lse.value);
        num_expect_bits(e, 0, num_bits(NUM_F32, raw));
        return;
    }
    e->exact[0] = false;
    e->value[0] = lse.value;
    e->tolerance[0] = lse.tolerance;
}

void mha_row(const struct num_case *c, const struct num_tensor *t,
             const int64_t *index, struct num_expect *e)
{
    if (t == num_tensor_of(c, "lse"))
        lse_row(c, index, e);
    else
        output_row(c, index, e);
}
