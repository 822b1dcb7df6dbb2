/* SPDX-License-Identifier: Apache-2.0
 *
 * mha_values.c: queries, keys and values of an attention case.
 *
 * The last dim of q and k drives the scores where they are to follow a pattern:
 * a query has x there, key s has y(s), and the rest is noise or nothing.
 */
#include "mha.h"

/* The size of the noise in all dims of q and k but the last. */
static const double noise[MHA_VALUES] = {[MHA_NORMAL] = 1, [MHA_GROWING] = 0.3};

/* The last dim of a query: queries take the three directions in turn, so that
 * some maxima move with every key and some never. */
static double query_driver(struct num_case *c, int64_t row)
{
    static const double direction[] = {1, -1, 0};

    switch (((struct mha_own *)c->own)->shape->values) {
    case MHA_GROWING:
        return direction[row % 3] / c->softmax_scale;
    case MHA_CONSTANT:
        return 2;
    case MHA_HUGE:
        return (row % 2 ? -1 : 1) / c->softmax_scale;
    default:
        return num_normal(&c->rng);
    }
}

/* Of key s of `count`.  A quarter per key is more than any tile's sum may grow
 * by (2^16) in 64 keys. */
static double key_driver(struct num_case *c, int64_t s, int64_t count)
{
    switch (((struct mha_own *)c->own)->shape->values) {
    case MHA_GROWING:
        return 0.25 * (double)s;
    case MHA_CONSTANT:
        return 0.5;
    case MHA_HUGE:
        return s < count / 2 ? -3e4 : 3e4;
    default:
        return num_normal(&c->rng);
    }
}

/* With equal scores a key more or less shows in its column. */
static double value(struct num_case *c, int64_t s, int64_t column)
{
    if (((struct mha_own *)c->own)->shape->values != MHA_CONSTANT)
        return num_normal(&c->rng);
    return s % c->subject->info.v == column ? 64 : 0;
}

/* Noise, and the driver behind it. */
static void fill_queries(struct num_case *c)
{
    const struct mha_own *o = c->own;
    struct num_tensor *q = num_tensor_of(c, "q");
    int heads = c->subject->info.heads;

    for (int64_t i = 0; i < c->tokens; i++)
        for (int64_t h = 0; h < heads; h++) {
            for (int64_t d = 0; d < q->width - 1; d++)
                num_set(q, i, h, d,
                        noise[o->shape->values] * num_normal(&c->rng));
            num_set(q, i, h, q->width - 1, query_driver(c, i * heads + h));
        }
}

/* Where keys are: the first dims in a tensor with heads, the others in k_rope,
 * which all heads share.  Names are looked up once, not for each element. */
struct keys {
    struct num_tensor *first, *rope;
    int dims; /* of the first */
};

static struct keys keys_of(const struct num_case *c)
{
    const mla_kernel_info *k = &c->subject->info;

    if (!num_has(c->subject, "k_nope"))
        return (struct keys){num_tensor_of(c, "k"), NULL, k->nope + k->rope};
    return (struct keys){num_tensor_of(c, "k_nope"),
                         num_tensor_of(c, "k_rope"), k->nope};
}

/* A row and place that dim d of head h is in. */
struct spot {
    struct num_tensor *t;
    int64_t head, column;
};

static inline struct spot spot_of(const struct keys *k, int64_t h, int64_t d)
{
    if (d < k->dims)
        return (struct spot){k->first, h, d};
    return (struct spot){k->rope, 0, d - k->dims};
}

/* Columns of k_rope are set with the first head. */
static void fill_key(struct num_case *c, const struct keys *keys, int64_t key,
                     int64_t s, int64_t count)
{
    const struct mha_own *o = c->own;
    const mla_kernel_info *k = &c->subject->info;
    int dims = k->nope + k->rope;

    for (int64_t h = 0; h < k->heads; h++)
        for (int64_t d = 0; d < dims; d++) {
            struct spot at = spot_of(keys, h, d);
            double x = d < dims - 1
                           ? noise[o->shape->values] * num_normal(&c->rng)
                           : key_driver(c, s, count);
            if (at.head == h)
                num_set(at.t, 1 + key, at.head, at.column, x);
        }
}

static void fill_value(struct num_case *c, int64_t key, int64_t s)
{
    const mla_kernel_info *k = &c->subject->info;
    struct num_tensor *t = num_tensor_of(c, "v");
    int64_t first = t->alias[0] ? k->nope : 0;

    for (int64_t h = 0; h < k->heads; h++)
        for (int64_t i = 0; i < k->v; i++)
            num_set(t, 1 + key, h, first + i, value(c, s, i));
}

/* A key's row for the oracle, [v | k], from what was stored: rounded values
 * are what a kernel sees. */
static void decode(struct num_case *c, const struct keys *keys, int64_t key)
{
    const struct mha_own *o = c->own;
    const mla_kernel_info *k = &c->subject->info;
    struct num_tensor *t = num_tensor_of(c, "v");
    int dims = k->nope + k->rope, width = k->v + dims;

    for (int64_t h = 0; h < k->heads; h++) {
        float *row = o->rows + (h * o->keys + key) * width;
        for (int64_t i = 0; i < k->v; i++)
            row[i] =
                (float)num_get(t, 1 + key, h, i + (t->alias[0] ? k->nope : 0));
        for (int64_t d = 0; d < dims; d++) {
            struct spot at = spot_of(keys, h, d);
            row[k->v + d] = (float)num_get(at.t, 1 + key, at.head, at.column);
        }
    }
}

/* Without answers (a bench) nothing is decoded, which is most of the work. */
void mha_fill(struct num_case *c)
{
    struct mha_own *o = c->own;
    const mla_kernel_info *k = &c->subject->info;
    struct keys keys = keys_of(c);
    int64_t key = 0;

    if (o->shape->values == MHA_UNCHECKED) {
        for (int i = 0; i < c->tensors; i++)
            if (c->tensor[i].input && !c->tensor[i].scratch)
                num_fill_normal(&c->tensor[i], 1, &c->rng);
        return;
    }
    o->rows =
        num_alloc((size_t)(k->heads * o->keys * (k->v + k->nope + k->rope)) *
                  sizeof(float));
    fill_queries(c);
    for (int b = 0; b < o->shape->batch; b++)
        for (int64_t s = 0; s < o->shape->request[b].k; s++, key++) {
            fill_key(c, &keys, key, s, o->shape->request[b].k);
            fill_value(c, key, s);
            decode(c, &keys, key);
        }
}
