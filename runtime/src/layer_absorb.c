/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_absorb.c: the Absorb path of a run: queries go to the latents.
 *
 *     absorb_q, mqa_decode (and mqa_combine), absorb_v
 *
 * Neighbouring runs that differ in their number of new tokens share the
 * products with kv_b_proj, so that it is read once; each has a decode step
 * of its own, and is cut out of the pool's tables by its first row.
 */
#include "layer.h"

/* A run as a decode step. */
static mla_decode_step step_of(const mla_layer *l, const struct mla__run *r)
{
    return (mla_decode_step){
        .size = sizeof(mla_decode_step),
        .batch = r->rows,
        .q_len = (int)r->q_len,
        .max_seq_len = l->max_seq_len,
        .seq_lens = l->tables.seq_lens + 4 * (uint64_t)r->first_row,
        .workspace = MLA__PART(l, decode),
        .workspace_bytes = l->sizes.decode};
}

mla_status mla__layer_plan(mla_layer *l, const struct mla__run *r,
                           void *stream)
{
    mla_decode_step s = step_of(l, r);

    return mla_decode_plan(l->decode, &s, stream);
}

/* The tokens of all runs into the latent space. */
static mla_status absorb(mla_layer *l, const struct mla__layer_pass *p,
                         int64_t first, int64_t tokens)
{
    const struct mla__layer_spec *d = &l->spec;
    int64_t head = (int64_t)(d->nope + d->rope) * MLA__ELEM;
    int64_t wide = (int64_t)(d->latent + d->rope) * MLA__ELEM;
    int64_t q = (int64_t)MLA__PART(l, q) + first * l->heads * head;
    const struct mla__value values[] = {
        {"q_nope", q, 0},
        {"q_nope_token_stride", l->heads * head, 0},
        {"q_nope_head_stride", head, 0},
        {"q_rope", q + (int64_t)d->nope * MLA__ELEM, 0},
        {"q_rope_token_stride", l->heads * head, 0},
        {"q_rope_head_stride", head, 0},
        {"kv_b", (int64_t)p->w->kv_b, 0},
        {"kv_b_head_stride", p->w->kv_b_head_stride, 0},
        {"kv_b_row_stride", p->w->kv_b_row_stride, 0},
        {"cos_sin", (int64_t)l->options.cos_sin, 0},
        {"cos_sin_stride", l->options.cos_sin_stride, 0},
        {"positions", (int64_t)MLA__PART(l, positions) + 8 * first, 0},
        {"q", (int64_t)MLA__PART(l, wide_q) + first * l->heads * wide, 0},
        {"q_token_stride", l->heads * wide, 0},
        {"q_head_stride", wide, 0},
        {"tokens", tokens, 0},
        {NULL, 0, 0}};

    return mla__call(&l->call[MLA__L_ABSORB_Q], values, p->stream);
}

/* And the results out of it. */
static mla_status restore(mla_layer *l, const struct mla__layer_pass *p,
                          int64_t first, int64_t tokens)
{
    const struct mla__layer_spec *d = &l->spec;
    int64_t row = (int64_t)d->latent * MLA__ELEM;
    int64_t v = (int64_t)d->v * MLA__ELEM;
    const struct mla__value values[] = {
        {"o", (int64_t)MLA__PART(l, wide_o) + first * l->heads * row, 0},
        {"o_token_stride", l->heads * row, 0},
        {"o_head_stride", row, 0},
        {"kv_b", (int64_t)p->w->kv_b, 0},
        {"kv_b_head_stride", p->w->kv_b_head_stride, 0},
        {"kv_b_row_stride", p->w->kv_b_row_stride, 0},
        {"out", (int64_t)MLA__PART(l, heads) + first * l->heads * v, 0},
        {"out_token_stride", l->heads * v, 0},
        {"out_head_stride", v, 0},
        {"tokens", tokens, 0},
        {NULL, 0, 0}};

    return mla__call(&l->call[MLA__L_ABSORB_V], values, p->stream);
}

/* The decode step of one run; its list is made here where there are several. */
static mla_status attend(mla_layer *l, const struct mla__layer_pass *p,
                         const struct mla__run *r)
{
    const struct mla__layer_spec *d = &l->spec;
    uint64_t first = (uint64_t)(r->first_token * l->heads) * MLA__ELEM;
    mla_decode_step s = step_of(l, r);
    mla_decode_tensors t = {
        .size = sizeof(t),
        .q = MLA__PART(l, wide_q) + first * (uint64_t)(d->latent + d->rope),
        .kv_cache = p->cache,
        .page_stride = l->pool_info.page_stride,
        .row_stride = l->pool_info.row_stride,
        .block_table =
            l->tables.block_table +
            (uint64_t)(r->first_row * l->tables.block_table_stride),
        .block_table_stride = l->tables.block_table_stride,
        .out = MLA__PART(l, wide_o) + first * (uint64_t)d->latent,
        .softmax_scale = d->softmax_scale};
    mla_status status =
        l->plan_once ? MLA_OK : mla__layer_plan(l, r, p->stream);

    return status ? status : mla_decode_run(l->decode, &s, &t, p->stream);
}

/* `count` neighbouring runs from *r on; their tokens follow each other. */
mla_status mla__layer_absorb(mla_layer *l, const struct mla__layer_pass *p,
                             const struct mla__run *r, int count)
{
    int64_t first = r->first_token, tokens = 0;
    mla_status status;

    for (int i = 0; i < count; i++)
        tokens += r[i].tokens;
    status = absorb(l, p, first, tokens);
    for (int i = 0; i < count && !status; i++)
        status = attend(l, p, &r[i]);
    return status ? status : restore(l, p, first, tokens);
}
