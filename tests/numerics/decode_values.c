/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_values.c: queries and keys of a decode case.
 *
 * The last dim drives the scores where they are to follow a pattern: a query
 * has x there, key s has y(s), and the rest is noise or nothing.  With a rope
 * part it is no value column; without one the oracle sees it as such.
 *
 * Patterns are made in the score, not in the softmax: a query's x is divided
 * by the softmax scale, so that y(s) is the score itself.
 */
#include <stdlib.h>

#include "decode.h"

/* Where a row stands; x has `dims` numbers, of which `width` are value
 * columns. */
struct maker {
    struct num_rng *rng;
    double scale;
    int dims, width;
    int64_t key, first, end; /* keys of the request: first .. end - 1 */
    int64_t row;             /* of a query */
    double *x;
};

/* noise: all dims random; nothing: all zero. */
static void noise(struct maker *m, double size)
{
    for (int i = 0; i < m->dims; i++)
        m->x[i] = size * num_normal(m->rng);
}

static void nothing(struct maker *m)
{
    for (int i = 0; i < m->dims; i++)
        m->x[i] = 0;
}

static void normal(struct maker *m)
{
    noise(m, 1);
}

/* A quarter per key: more than any tile's sum may grow by (2^8) in 32 keys. */
static void growing_key(struct maker *m)
{
    noise(m, 0.3);
    m->x[m->dims - 1] = 0.25 * (double)(m->key - m->first);
}

static void growing_query(struct maker *m)
{
    static const double direction[] = {1, -1, 0};
    noise(m, 0.3);
    m->x[m->dims - 1] = direction[m->row % 3] / m->scale;
}

/* One key in 37 is 15 above the one before: in a tile of keys that one alone,
 * in one lane of a kernel, outgrows what went before. */
static void spike_key(struct maker *m)
{
    int64_t s = m->key - m->first;
    noise(m, 0.3);
    m->x[m->dims - 1] = s % 37 == 36 ? 15 * (double)(1 + s / 37) : 0;
}

/* A key more or less shows in its column, whatever the length. */
static void constant_key(struct maker *m)
{
    int columns = m->width < m->dims ? m->width : m->width - 1;
    nothing(m);
    m->x[m->key % columns] = 64;
    m->x[m->dims - 1] = 0.5;
}

/* 2 * 0.5: a score of 1 times the scale for every key. */
static void constant_query(struct maker *m)
{
    nothing(m);
    m->x[m->dims - 1] = 2;
}

/* The sign changes in the middle, so that the running maximum jumps by 6e4
 * there for half of the rows. */
static void huge_key(struct maker *m)
{
    noise(m, 0.3);
    m->x[m->dims - 1] = m->key < (m->first + m->end) / 2 ? -3e4 : 3e4;
}

static void huge_query(struct maker *m)
{
    noise(m, 0.3);
    m->x[m->dims - 1] = (m->row % 2 ? -1 : 1) / m->scale;
}

/* Only the newest key has a score and a value: who leaves it out answers 0. */
static void verify_key(struct maker *m)
{
    nothing(m);
    if (m->key < m->end - 1)
        return;
    m->x[0] = 1000;
    m->x[m->dims - 1] = 8;
}

static void verify_query(struct maker *m)
{
    nothing(m);
    m->x[m->dims - 1] = 50 / (8 * m->scale);
}

static void two_key(struct maker *m)
{
    nothing(m);
    m->x[0] = m->x[m->dims - 1] = (double)(m->key % 2);
}

static void two_query(struct maker *m)
{
    nothing(m);
    m->x[m->dims - 1] = 10;
}

/* By enum decode_values. */
static const struct {
    void (*query)(struct maker *m), (*key)(struct maker *m);
} makers[DECODE_VALUES] = {
    [DECODE_NORMAL] = {normal, normal},
    [DECODE_GROWING] = {growing_query, growing_key},
    [DECODE_SPIKES] = {growing_query, spike_key},
    [DECODE_CONSTANT] = {constant_query, constant_key},
    [DECODE_HUGE] = {huge_query, huge_key},
    [DECODE_VERIFY] = {verify_query, verify_key},
    [DECODE_TWO_KEYS] = {two_query, two_key},
};

/* A row of doubles into the image, each rounded once. */
static void store(struct num_tensor *t, int64_t i0, int64_t i1,
                  const double *x)
{
    size_t es = num_elem_bytes(t->elem);
    unsigned char *at = num_at(t, i0, i1, 0);
    for (int64_t k = 0; k < t->width; k++)
        num_encode(t->elem, at + (size_t)k * es, x[k]);
}

/* Row by row: token and head make a place (struct decode_places). */
static void fill_queries(struct num_case *c, struct maker *m)
{
    const struct decode_own *o = c->own;
    struct num_tensor *q = num_tensor_of(c, "q");
    int heads = c->subject->info.heads;

    for (int64_t b = 0; b < c->tokens; b++)
        for (m->row = 0; m->row < o->rows; m->row++) {
            makers[o->shape->values].query(m);
            store(q, b, o->q.token * (m->row / heads) +
                            o->q.head * (m->row % heads), m->x);
        }
}

/* Keys on a page with an id below 0 are zeros. */
static void fill_key(struct num_case *c, struct maker *m, int64_t page,
                     float *decoded)
{
    struct num_tensor *pool = num_tensor_of(c, "kv_cache");
    int64_t row = m->key % c->subject->info.page_size;
    const struct decode_own *o = c->own;

    if (page < 0)
        return;
    makers[o->shape->values].key(m);
    store(pool, page, row, m->x);
    num_get_row(pool, page, row, m->x);
    for (int i = 0; i < m->dims; i++)
        decoded[i] = (float)m->x[i];
}

/* Keys that a request has in either run of a replay. */
static int64_t live_end(const struct decode_own *o, int64_t b)
{
    return o->earlier[b] > o->length[b] ? o->earlier[b] : o->length[b];
}

/* The decoded keys of all requests are one block (num_case.weights), which
 * num_case_free releases. */
static void fill_keys(struct num_case *c, struct maker *m)
{
    struct decode_own *o = c->own;
    int page_size = c->subject->info.page_size;
    float *at;
    int64_t total = 0;

    for (int64_t b = 0; b < c->tokens; b++)
        total += live_end(o, b) - o->first[b];
    at = c->weights = num_alloc((size_t)(total * m->dims) * sizeof(*at));
    for (int64_t b = 0; b < c->tokens; b++) {
        o->keys[b] = at;
        m->first = o->first[b];
        m->end = o->length[b];
        for (m->key = m->first; m->key < live_end(o, b); m->key++) {
            fill_key(c, m, o->page[b][m->key / page_size -
                                      m->first / page_size], at);
            at += m->dims;
        }
    }
}

void decode_fill(struct num_case *c)
{
    double x[NUM_MAX_WIDTH];
    const mla_kernel_info *k = &c->subject->info;
    struct maker m = {.rng = &c->rng,
                      .scale = c->softmax_scale,
                      .dims = k->latent + k->rope,
                      .width = k->latent,
                      .x = x};

    fill_queries(c, &m);
    fill_keys(c, &m);
}
