/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_pipeline.c: what a decode step should answer.
 *
 * Bars.  An element of O may be off by 8e-4, by 2.01/128 of itself (the bars
 * of FlashMLA's own tests), or by u * (sum p|v| / sum p + |o|), u being half a
 * unit in the last place of the working type: P is rounded to that type before
 * it meets V and O after, so that even an exact softmax is off by that much
 * where few keys cancel.  The cosine distance over a group stays below 5e-6.
 * LSE may be off by 1e-6, by 8.01/65536 of itself, or, where it is the small
 * difference of large products, by 2^-22 of their sizes' sum: scores are
 * single precision.
 */
#include <math.h>

#include "decode.h"
#include "oracle_attention.h"

/* Expecting --------------------------------------------------------------- */

/* Keys 0 .. length - q_len + token, of which the first may not be visited. */
static int64_t visible_keys(const struct decode_own *o,
                            const struct decode_place *p)
{
    int64_t end = (int64_t)o->length[p->request] - o->shape->q_len + p->token;
    return end + 1 - o->first[p->request];
}

/* Nothing was computed: the work list did not fit, or the request is shorter
 * than its queries. */
static bool is_refused(const struct decode_own *o, int64_t request)
{
    int32_t length = o->length[request];
    return o->overflows || (length > 0 && length < o->shape->q_len);
}

static void expect(struct num_expect *e, int64_t column, double value,
                   double tolerance)
{
    e->exact[column] = false;
    e->value[column] = value;
    e->tolerance[column] = tolerance;
}

/* Without any value the sum of P V is exactly 0. */
static void expect_output(struct num_expect *e, int64_t column, double value,
                          double size, double unit)
{
    if (size == 0)
        num_expect_bits(e, column, 0);
    else
        expect(e, column, value,
               fmax(fmax(8e-4, 2.01 / 128 * fabs(value)),
                    unit * (size + fabs(value))));
}

/* Keeps the LSE, which the same call of the oracle yields, for lse_row. */
static void output_row(const struct num_case *c, const struct decode_place *p,
                       struct num_expect *e)
{
    double q[NUM_MAX_WIDTH], o[NUM_MAX_WIDTH], size[NUM_MAX_WIDTH];
    double lse, lse_size;
    struct decode_own *own = c->own;
    const mla_kernel_info *k = &c->subject->info;
    const struct num_model *m = c->subject->model;
    struct oracle_keys keys = {own->keys[p->request], visible_keys(own, p),
                               k->latent + k->rope, k->latent};

    if (own->length[p->request] <= 0)
        keys.count = 0;
    num_get_row(num_tensor_of(c, "q"), p->request,
                own->q.token * p->token + own->q.head * p->head, q);
    oracle_attention(q, &keys, c->softmax_scale, m->lse_base, m->lse_empty, o,
                     size, &lse, &lse_size);
    own->lse_of[p->request * own->rows + p->row] = (struct decode_lse){
        lse, fmax(fmax(1e-6, 8.01 / 65536 * fabs(lse)), 0x1p-22 * lse_size)};
    for (int i = 0; i < k->latent; i++)
        expect_output(e, i, o[i], size[i], num_half_ulp(c->subject->dtype));
}

/* `out` comes before `lse` among the tensors, so the oracle has been there. */
static void lse_row(const struct num_case *c, const struct decode_place *p,
                    struct num_expect *e)
{
    const struct decode_own *o = c->own;
    struct decode_lse lse = o->lse_of[p->request * o->rows + p->row];
    unsigned char raw[4];

    if (o->length[p->request] > 0) {
        expect(e, 0, lse.value, lse.tolerance);
    } else {
        num_encode(NUM_F32, raw, lse.value);
        num_expect_bits(e, 0, num_bits(NUM_F32, raw));
    }
}

/* NaN throughout where nothing was computed; else by tensor. */
static void pipeline_row(const struct num_case *c, const struct num_tensor *t,
                         const int64_t *index, struct num_expect *e)
{
    const struct decode_own *o = c->own;
    bool is_lse = t == num_tensor_of(c, "lse");
    struct decode_place p =
        decode_place_of(c, is_lse ? &o->lse : &o->out, index);

    if (is_refused(o, p.request))
        for (int64_t i = 0; i < t->width; i++)
            expect(e, i, NAN, 0);
    else if (is_lse)
        lse_row(c, &p, e);
    else
        output_row(c, &p, e);
}

static const char bar[] = "8e-4 | 2.01/128|o| | u (sum p|v| + |o|); lse 1e-6 | "
                          "8.01/65536|y| | 2^-22 sum|qk|";

const struct num_family decode_pipeline = {
    .name = "mqa_decode",
    .bar = bar,
    .row = pipeline_row,
    .launch = decode_launch_step,
};

const struct num_family decode_last_keys = {
    .name = "mqa_decode",
    .bar = bar,
    .row = pipeline_row,
    .launch = decode_launch_alone,
};
