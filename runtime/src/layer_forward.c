/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_forward.c: one layer of a step, from the hidden states to o_proj.
 *
 *     down = hidden [q_a | kv_a]^T        or hidden kv_a^T without compression
 *     q    = norm(down's q) q_b^T         or hidden q_b^T
 *     pool <- [norm(latent) | RoPE(k)]
 *     heads = attention, run by run
 *     out  = heads o^T
 *
 * (DeepSeek-V2, arXiv 2405.04434, section 2.1.)
 */
#include <string.h>

#include "layer.h"

/* Widths of one row, in elements. */
static int64_t down_width(const mla_layer *l)
{
    return (int64_t)l->spec.q_rank + l->spec.latent + l->spec.rope;
}

static int64_t q_width(const mla_layer *l)
{
    return (int64_t)l->heads * (l->spec.nope + l->spec.rope);
}

static int64_t out_width(const mla_layer *l)
{
    return (int64_t)l->heads * l->spec.v;
}

/* Weights --------------------------------------------------------------- */

/* A matrix of the checkpoint: rows of so many elements. */
struct matrix {
    const char *name;
    bool needed;
    uint64_t *address;
    int64_t *stride, width;
};

/* Missing or misaligned; a stride of 0 becomes that of packed rows. */
static mla_status check_matrix(mla_layer *l, const struct matrix *m)
{
    int64_t row = m->width * MLA__ELEM;

    if (!*m->address)
        return m->needed
                   ? mla__fail(l->ctx, MLA_NULL_POINTER,
                               "mla_layer_forward: weights '%s' must not be "
                               "NULL",
                               m->name)
                   : MLA_OK;
    if (m->stride && *m->stride == 0)
        *m->stride = row;
    if (*m->address % 16 || (m->stride && *m->stride % 16))
        return mla__fail(l->ctx, MLA_MISALIGNED,
                         "mla_layer_forward: weights '%s': 0x%llx, stride "
                         "%lld: not multiples of 16",
                         m->name, (unsigned long long)*m->address,
                         m->stride ? (long long)*m->stride : 0);
    if (m->stride && *m->stride < row)
        return mla__fail(l->ctx, MLA_RANGE,
                         "mla_layer_forward: weights '%s': stride %lld of "
                         "rows of %lld bytes",
                         m->name, (long long)*m->stride, (long long)row);
    return MLA_OK;
}

/* The weights, completed. */
static mla_status check_weights(mla_layer *l, mla_layer_weights *w)
{
    int64_t hidden = l->options.hidden_size;
    bool low = l->spec.q_rank > 0, fused = low && w->qkv_a;
    const struct matrix list[] = {
        {"qkv_a", false, &w->qkv_a, &w->qkv_a_stride, hidden},
        {"q_a", low && !fused, &w->q_a, &w->q_a_stride, hidden},
        {"kv_a", !fused, &w->kv_a, &w->kv_a_stride, hidden},
        {"q_a_norm", low, &w->q_a_norm, NULL, l->spec.q_rank},
        {"kv_a_norm", false, &w->kv_a_norm, NULL, l->spec.latent},
        {"q_b", true, &w->q_b, &w->q_b_stride, low ? l->spec.q_rank : hidden},
        {"kv_b", true, &w->kv_b, &w->kv_b_row_stride, l->spec.latent},
        {"o", true, &w->o, &w->o_stride, out_width(l)}};
    mla_status status = MLA_OK;

    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]) && !status; i++)
        status = check_matrix(l, &list[i]);
    if (!w->kv_b_head_stride)
        w->kv_b_head_stride = (l->spec.nope + l->spec.v) * w->kv_b_row_stride;
    return status;
}

/* Products -------------------------------------------------------------- */

/* A projection of all tokens of the step. */
static mla_status multiply(mla_layer *l, uint64_t x, int64_t x_stride,
                           uint64_t w, int64_t w_stride, uint64_t y,
                           int64_t y_stride, int64_t columns, int64_t depth,
                           void *stream)
{
    struct mla__matmul p = {x,        w,         y,       x_stride, w_stride,
                             y_stride, l->tokens, columns, depth};

    return mla__gemm_run(&l->gemm, &p, stream);
}

/* Where hidden states are read or written. */
struct states {
    uint64_t address;
    int64_t stride;
};

/* Fused or apart, the result lies side by side: [q | latent | k_rope]. */
static mla_status project_down(mla_layer *l, const struct mla__layer_pass *p,
                               const struct states *x)
{
    const mla_layer_weights *w = p->w;
    int64_t hidden = l->options.hidden_size, row = down_width(l) * MLA__ELEM;
    int64_t q = l->spec.q_rank, kv = down_width(l) - q;
    uint64_t down = MLA__PART(l, down);
    mla_status status = MLA_OK;

    if (q && w->qkv_a)
        return multiply(l, x->address, x->stride, w->qkv_a, w->qkv_a_stride,
                        down, row, q + kv, hidden, p->stream);
    if (q)
        status = multiply(l, x->address, x->stride, w->q_a, w->q_a_stride,
                          down, row, q, hidden, p->stream);
    return status ? status
                  : multiply(l, x->address, x->stride, w->kv_a,
                             w->kv_a_stride, down + (uint64_t)q * MLA__ELEM,
                             row, kv, hidden, p->stream);
}

/* In place, times the model's factor. */
static mla_status norm_queries(mla_layer *l, const struct mla__layer_pass *p)
{
    int64_t down = (int64_t)MLA__PART(l, down);
    int64_t row = down_width(l) * MLA__ELEM;
    const struct mla__value values[] = {
        {"x", down, 0},
        {"x_stride", row, 0},
        {"weight", (int64_t)p->w->q_a_norm, 0},
        {"y", down, 0},
        {"y_stride", row, 0},
        {"norm_eps", 0, l->spec.norm_eps},
        {"factor", 0, l->spec.q_factor},
        {"tokens", l->tokens, 0},
        {NULL, 0, 0}};

    return mla__call(&l->call[MLA__L_NORM], values, p->stream);
}

/* From the compressed query, or straight from the hidden states. */
static mla_status project_queries(mla_layer *l,
                                  const struct mla__layer_pass *p,
                                  const struct states *x)
{
    int64_t row = q_width(l) * MLA__ELEM, low = l->spec.q_rank;
    mla_status status = low ? norm_queries(l, p) : MLA_OK;

    if (status)
        return status;
    if (!low)
        return multiply(l, x->address, x->stride, p->w->q_b, p->w->q_b_stride,
                        MLA__PART(l, q), row, q_width(l),
                        l->options.hidden_size, p->stream);
    return multiply(l, MLA__PART(l, down), down_width(l) * MLA__ELEM,
                    p->w->q_b, p->w->q_b_stride, MLA__PART(l, q), row,
                    q_width(l), low, p->stream);
}

/* New rows into the pool, before any of the paths reads it. */
static mla_status append(mla_layer *l, const struct mla__layer_pass *p)
{
    int64_t row = down_width(l) * MLA__ELEM;
    int64_t latent =
        (int64_t)MLA__PART(l, down) + (int64_t)l->spec.q_rank * MLA__ELEM;
    const struct mla__value values[] = {
        {"latent", latent, 0},
        {"latent_stride", row, 0},
        {"k_rope", latent + (int64_t)l->spec.latent * MLA__ELEM, 0},
        {"k_rope_stride", row, 0},
        {"norm_weight", (int64_t)p->w->kv_a_norm, 0},
        {"norm_eps", 0, l->spec.norm_eps},
        {"cos_sin", (int64_t)l->options.cos_sin, 0},
        {"cos_sin_stride", l->options.cos_sin_stride, 0},
        {"positions", (int64_t)MLA__PART(l, positions), 0},
        {"slots", (int64_t)MLA__PART(l, slots), 0},
        {"kv_cache", (int64_t)p->cache, 0},
        {"page_stride", l->pool_info.page_stride, 0},
        {"row_stride", l->pool_info.row_stride, 0},
        {"tokens", l->tokens, 0},
        {NULL, 0, 0}};

    return mla__call(&l->call[MLA__L_APPEND], values, p->stream);
}

/* Forward --------------------------------------------------------------- */

/* Neighbouring absorbed runs go together. */
static mla_status attend(mla_layer *l, const struct mla__layer_pass *p)
{
    mla_status status = MLA_OK;

    for (int i = 0, n; i < l->runs && !status; i += n) {
        const struct mla__run *r = &l->run[i];
        for (n = 1; i + n < l->runs && r->absorbed && r[n].absorbed; n++)
            ;
        status = r->absorbed ? mla__layer_absorb(l, p, r, n)
                             : mla__layer_normal(l, p, r);
    }
    return status;
}

/* out is written when in has been read for the last time. */
static mla_status forward(mla_layer *l, const struct mla__layer_pass *p,
                          const struct states *in, const struct states *out)
{
    mla_status status =
        mla__gemm_begin(&l->gemm, MLA__PART(l, gemm), p->stream);

    if (!status)
        status = project_down(l, p, in);
    if (!status)
        status = project_queries(l, p, in);
    if (!status)
        status = append(l, p);
    if (!status)
        status = attend(l, p);
    return status ? status
                  : multiply(l, MLA__PART(l, heads), out_width(l) * MLA__ELEM,
                             p->w->o, p->w->o_stride, out->address,
                             out->stride, l->options.hidden_size,
                             out_width(l), p->stream);
}

/* A stride of 0 becomes that of packed rows. */
static mla_status check_states(mla_layer *l, const char *name,
                               struct states *s)
{
    int64_t row = (int64_t)l->options.hidden_size * MLA__ELEM;

    if (s->stride == 0)
        s->stride = row;
    if (!s->address)
        return mla__fail(l->ctx, MLA_NULL_POINTER,
                         "mla_layer_forward: '%s' must not be NULL", name);
    if (s->address % 16 || s->stride % 16)
        return mla__fail(l->ctx, MLA_MISALIGNED,
                         "mla_layer_forward: '%s' 0x%llx, stride %lld: not "
                         "multiples of 16",
                         name, (unsigned long long)s->address,
                         (long long)s->stride);
    if (s->stride < row)
        return mla__fail(l->ctx, MLA_RANGE,
                         "mla_layer_forward: '%s': stride %lld of rows of "
                         "%lld bytes",
                         name, (long long)s->stride, (long long)row);
    return MLA_OK;
}

/* One layer, with weights and states that have been taken over. */
static mla_status run_layer(mla_layer *l, mla_layer_weights *w, int index,
                            const mla_layer_states *s, void *stream)
{
    struct mla__layer_pass p = {w, mla_pool_buffer(l->pool, index), stream};
    struct states in = {s->in, s->in_stride}, out = {s->out, s->out_stride};
    mla_status status;

    if (!p.cache)
        return mla__fail(l->ctx, MLA_RANGE,
                         "mla_layer_forward: the pool has no layer %d", index);
    status = check_weights(l, w);
    if (!status)
        status = check_states(l, "in", &in);
    if (!status)
        status = check_states(l, "out", &out);
    return status ? status : forward(l, &p, &in, &out);
}

mla_status mla_layer_forward(mla_layer *l, const mla_layer_weights *weights,
                             int index, const mla_layer_states *states,
                             void *stream)
{
    mla_layer_weights w = {0};
    mla_layer_states s = {0};

    if (!l || !weights || !states || weights->size < sizeof(weights->size) ||
        states->size < sizeof(states->size))
        return MLA_INVALID_ARGUMENT;
    if (!l->begun)
        return mla__fail(l->ctx, MLA_INVALID_ARGUMENT,
                         "mla_layer_forward: no step; mla_layer_begin comes "
                         "first");
    if (l->tokens == 0)
        return MLA_OK;
    memcpy(&w, weights, weights->size < sizeof(w) ? weights->size : sizeof(w));
    memcpy(&s, states, states->size < sizeof(s) ? states->size : sizeof(s));
    return run_layer(l, &w, index, &s, stream);
}
