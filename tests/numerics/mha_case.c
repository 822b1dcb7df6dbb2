/* SPDX-License-Identifier: Apache-2.0
 *
 * mha_case.c: the tensors of an attention call, and its launch.
 *
 * The arrays cu_q and cu_k are workspaces as far as the case goes: what they
 * hold depends on the window of tokens that a run takes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mha.h"

/* Foreign key rows on either side, and how far into its tensors a shifted
 * batch begins. */
enum { MARGIN = 1, SHIFT = 1000 };

struct mha_place mha_place_of(const struct num_case *c, int64_t token)
{
    const struct mha_shape *s = ((struct mha_own *)c->own)->shape;
    struct mha_place p = {0};

    while (token >= p.first_token + s->request[p.request].q) {
        p.first_token += s->request[p.request].q;
        p.first_key += s->request[p.request].k;
        p.request++;
    }
    p.token = token - p.first_token;
    p.q = s->request[p.request].q;
    p.k = s->request[p.request].k;
    return p;
}

/* Tensors ----------------------------------------------------------------- */

/* [keys + 2 margins][heads][width]; the keys are the call's, and the rows at
 * both ends are there to be read by a kernel that counts wrongly. */
static struct num_tensor *add_keys(struct num_case *c, const char *field,
                                   int64_t width, enum num_layout layout)
{
    const struct mha_own *o = c->own;
    char outer[NUM_NAME], inner[NUM_NAME];
    struct num_tensor *t;

    snprintf(outer, sizeof(outer), "%s_token_stride", field);
    snprintf(inner, sizeof(inner), "%s_head_stride", field);
    t = num_add_grid(c, field, outer, inner, c->subject->dtype,
                     o->keys + 2 * MARGIN, c->subject->info.heads, width,
                     layout);
    for (int64_t j = 0; j < o->keys; j++)
        for (int64_t h = 0; h < c->subject->info.heads; h++)
            num_claim(t, MARGIN + j, h);
    t->foreign = t->rows == 0;
    return t;
}

/* k_rope has no heads: all of them share it. */
static void add_rope(struct num_case *c, enum num_layout layout)
{
    const struct mha_own *o = c->own;
    struct num_tensor *t;

    t = num_add_rows(c, "k_rope", "k_rope_token_stride", c->subject->dtype,
                     o->keys + 2 * MARGIN, c->subject->info.rope, layout);
    for (int64_t j = 0; j < o->keys; j++)
        num_claim(t, MARGIN + j, 0);
    t->foreign = t->rows == 0;
}

/* One K, or k_nope and k_rope; v by itself, or in k_nope's rows, as kv_b
 * leaves them.  Which of them a kernel takes, its arguments say. */
static void add_keys_and_values(struct num_case *c)
{
    const struct mha_shape *s = ((struct mha_own *)c->own)->shape;
    const mla_kernel_info *k = &c->subject->info;
    bool apart = num_has(c->subject, "k_nope");
    struct num_tensor *t;

    if (!apart)
        add_keys(c, "k", k->nope + k->rope, s->k);
    if (apart && k->rope > 0)
        add_rope(c, s->v);
    if (!apart || !num_is(c, NUM_ONE_BUFFER)) {
        if (apart)
            add_keys(c, "k_nope", k->nope, s->k);
        add_keys(c, "v", k->v, s->v);
        return;
    }
    t = add_keys(c, "k_nope", k->nope + k->v, s->k);
    strcpy(t->alias, "v");
    t->alias_offset = k->nope * (int64_t)num_elem_bytes(t->elem);
}

/* q, out and lse, each in a layout of its own. */
static void add_queries_and_outputs(struct num_case *c)
{
    const struct mha_shape *s = ((struct mha_own *)c->own)->shape;
    const mla_kernel_info *k = &c->subject->info;

    num_add_heads(c, "q", c->subject->dtype, k->nope + k->rope, s->q);
    num_add_heads(c, "out", c->subject->dtype, k->v, s->out);
    if (mha_is(c, MHA_NO_LSE))
        num_add_null(c, "lse");
    else
        num_add_heads(c, "lse", NUM_F32, 1, s->lse);
}

/* Queries of the longest request: max_q. */
static int32_t longest(const struct mha_shape *s)
{
    int32_t most = 0;
    for (int b = 0; b < s->batch; b++)
        most = s->request[b].q > most ? s->request[b].q : most;
    return most;
}

/* Every tensor and count that a kernel of the family may ask for; max_q may
 * be more than the longest request has (MHA_LONG). */
static void build(struct num_case *c)
{
    const struct mha_shape *s = ((struct mha_own *)c->own)->shape;

    add_queries_and_outputs(c);
    add_keys_and_values(c);
    /* Their contents are the run's. */
    num_add_vector(c, "cu_q", NUM_I32, s->batch + 1)->scratch = true;
    num_add_vector(c, "cu_k", NUM_I32, s->batch + 1)->scratch = true;
    num_add_int(c, "batch", s->batch);
    num_add_int(c, "max_q", longest(s) + (mha_is(c, MHA_LONG) ? 300 : 0));
    num_add_int(c, "causal", mha_is(c, MHA_CAUSAL));
    num_seal_all(c);
    mha_fill(c);
}

/* Tokens and keys are sums over the requests. */
struct num_case *mha_case_make(const struct num_subject *s,
                               const struct mha_shape *shape, uint64_t seed)
{
    struct num_case *c = num_alloc(sizeof(*c));
    struct mha_own *o = num_alloc(sizeof(*o));

    c->subject = s;
    c->family = &mha_family;
    c->own = o;
    c->shape = (struct num_shape){shape->group, 0,    shape->q, shape->out,
                                  shape->flags, false};
    c->rng.state = seed;
    c->softmax_scale =
        (float)oracle_softmax_scale(&s->model->rope, s->info.nope);
    o->shape = shape;
    for (int b = 0; b < shape->batch; b++) {
        c->tokens += shape->request[b].q;
        o->keys += shape->request[b].k;
    }
    c->shape.tokens = c->tokens;
    o->lse =
        num_alloc((size_t)(c->tokens * s->info.heads + 1) * sizeof(*o->lse));
    build(c);
    return c;
}

void mha_case_free(struct num_case *c)
{
    struct mha_own *o = c->own;

    free(o->rows);
    free(o->lse);
    free(o);
    num_case_free(c);
}

/* Launch ------------------------------------------------------------------ */

/* Changes a count of the case. */
static void set_int(struct num_case *c, const char *name, int64_t value)
{
    for (int i = 0; i < c->ints; i++)
        if (strcmp(c->integer[i].name, name) == 0)
            c->integer[i].value = value;
}

/* The requests of a window, cut at both ends; returns how many there are.  A
 * request of which no query is left drops out; one whose last queries are cut
 * off loses, if it is causal, the keys that only they would have seen. */
static int window(const struct num_case *c, const struct num_run *run,
                  int32_t *cu_q, int32_t *cu_k)
{
    const struct mha_shape *s = ((struct mha_own *)c->own)->shape;
    int64_t end = run->first + run->count, q = 0, k = MARGIN;
    int n = 0;

    for (int b = 0; b < s->batch; b++) {
        int64_t begin = q, cut;
        q += s->request[b].q;
        k += s->request[b].k;
        if (run->count < c->tokens && (q <= run->first || begin >= end))
            continue;
        cut = q > end && mha_is(c, MHA_CAUSAL) ? q - end : 0;
        if (cut > s->request[b].k)
            cut = s->request[b].k;
        cu_q[n] =
            (int32_t)((begin > run->first ? begin : run->first) - run->first);
        cu_q[n + 1] = (int32_t)((q < end ? q : end) - run->first);
        cu_k[n] = (int32_t)(k - s->request[b].k);
        cu_k[n + 1] = (int32_t)(k - cut);
        n++;
    }
    return n;
}

/* Shifted, the arrays say SHIFT more and the addresses are as much lower. */
static void shift(struct num_case *c, int n, int32_t *cu_q, int32_t *cu_k,
                  uint64_t *address)
{
    for (int i = 0; i <= n; i++) {
        cu_q[i] += SHIFT;
        cu_k[i] += SHIFT;
    }
    for (int i = 0; i < c->tensors; i++)
        if (c->tensor[i].axes > 0)
            address[i] -= (uint64_t)(SHIFT * c->tensor[i].stride[0]);
}

/* The n + 1 prefix sums of a run into one of the two arrays. */
static bool write_bounds(struct num_device *d, struct num_case *c,
                         const uint64_t *address, const char *field,
                         const int32_t *value, int n, struct num_verdict *v)
{
    int result =
        num_device_write(d, address[num_tensor_of(c, field) - c->tensor], value,
                         (size_t)(n + 1) * sizeof(*value));

    if (result)
        num_fail_on_device(d, v, c, num_device_error(d, result));
    return result == 0;
}

/* Bounds are the run's, not the case's: written here, right before the
 * launch, and the batch is set back after it. */
static bool launch(struct num_device *d, struct num_case *c,
                   const struct num_run *run, const uint64_t *address,
                   struct num_verdict *v)
{
    const struct mha_shape *s = ((struct mha_own *)c->own)->shape;
    size_t room = (size_t)(s->batch + 1) * sizeof(int32_t);
    int32_t *cu_q = num_alloc(room), *cu_k = num_alloc(room);
    uint64_t at[NUM_MAX_TENSORS];
    int n = window(c, run, cu_q, cu_k);
    bool good;

    memcpy(at, address, sizeof(at));
    if (mha_is(c, MHA_SHIFTED))
        shift(c, n, cu_q, cu_k, at);
    set_int(c, "batch", n);
    good = write_bounds(d, c, at, "cu_q", cu_q, n, v) &&
           write_bounds(d, c, at, "cu_k", cu_k, n, v) &&
           num_launch(d, c, run, at, NULL, v);
    set_int(c, "batch", s->batch);
    free(cu_q);
    free(cu_k);
    return good;
}

const struct num_family mha_family = {
    .name = "mha",
    .bar = "2 u sum p|v|; lse 1e-6 | 8.01/65536|y| | 2^-22 sum|qk|",
    .row = mha_row,
    .launch = launch,
};
