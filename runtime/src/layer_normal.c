/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_normal.c: the Normal path of a run: latents become keys and values.
 *
 * One shot: all keys of all rows are gathered, expanded and attended to at
 * once.  Otherwise the new tokens among themselves first, then each chunk of
 * the prefixes for all new tokens, merged by LSE into what there is.  With
 * prefixes of length 0 there are no chunks, and no LSE is asked for.
 */
#include "layer.h"

/* Keys to expand: by slots, or the rows of a page table at `starts` (0: from
 * the first) by the sums `cu`. */
struct keys {
    uint64_t slots, starts, cu;
    int64_t count;
};

/* The device address of the i-th integer of the step's tables. */
static uint64_t int_at(const mla_layer *l, int64_t i)
{
    return MLA__PART(l, ints) + 4 * (uint64_t)i;
}

/* Queries are rotated, and scaled by position, where they lie. */
static mla_status rotate(mla_layer *l, const struct mla__layer_pass *p,
                         const struct mla__run *r)
{
    int64_t head = (int64_t)(l->spec.nope + l->spec.rope) * MLA__ELEM;
    const struct mla__value values[] = {
        {"q", (int64_t)MLA__PART(l, q) + r->first_token * l->heads * head, 0},
        {"q_token_stride", l->heads * head, 0},
        {"q_head_stride", head, 0},
        {"cos_sin", (int64_t)l->options.cos_sin, 0},
        {"cos_sin_stride", l->options.cos_sin_stride, 0},
        {"positions", (int64_t)MLA__PART(l, positions) + 8 * r->first_token,
         0},
        {"heads", l->heads, 0},
        {"tokens", r->tokens, 0},
        {NULL, 0, 0}};

    return l->spec.rotates
               ? mla__call(&l->call[MLA__L_ROPE], values, p->stream)
               : MLA_OK;
}

/* Rows of the pool to contiguous latents and rotated keys. */
static mla_status gather(mla_layer *l, const struct mla__layer_pass *p,
                         const struct mla__run *r, const struct keys *k)
{
    int64_t table = (int64_t)l->tables.block_table +
                    r->first_row * l->tables.block_table_stride;
    const struct mla__value values[] = {
        {"kv_cache", (int64_t)p->cache, 0},
        {"page_stride", l->pool_info.page_stride, 0},
        {"row_stride", l->pool_info.row_stride, 0},
        {"slots", (int64_t)k->slots, 0},
        {"block_table", k->slots ? 0 : table, 0},
        {"block_table_stride", l->tables.block_table_stride, 0},
        {"starts", (int64_t)k->starts, 0},
        {"cu_seqlens", (int64_t)k->cu, 0},
        {"batch", r->rows, 0},
        {"latent", (int64_t)MLA__PART(l, latent), 0},
        {"latent_stride", (int64_t)l->spec.latent * MLA__ELEM, 0},
        {"k_rope", (int64_t)MLA__PART(l, k_rope), 0},
        {"k_rope_stride", (int64_t)l->spec.rope * MLA__ELEM, 0},
        {"tokens", k->count, 0},
        {NULL, 0, 0}};

    return mla__call(&l->call[MLA__L_GATHER], values, p->stream);
}

/* k_nope and v side by side, as kv_b_proj has their rows. */
static mla_status expand_emitted(mla_layer *l, const struct mla__layer_pass *p,
                                 int64_t keys)
{
    const struct mla__layer_spec *d = &l->spec;
    int64_t head = (int64_t)(d->nope + d->v) * MLA__ELEM;
    int64_t kv = (int64_t)MLA__PART(l, kv);
    const struct mla__value values[] = {
        {"latent", (int64_t)MLA__PART(l, latent), 0},
        {"latent_stride", (int64_t)d->latent * MLA__ELEM, 0},
        {"kv_b", (int64_t)p->w->kv_b, 0},
        {"kv_b_head_stride", p->w->kv_b_head_stride, 0},
        {"kv_b_row_stride", p->w->kv_b_row_stride, 0},
        {"k_nope", kv, 0},
        {"k_nope_token_stride", l->heads * head, 0},
        {"k_nope_head_stride", head, 0},
        {"v", kv + (int64_t)d->nope * MLA__ELEM, 0},
        {"v_token_stride", l->heads * head, 0},
        {"v_head_stride", head, 0},
        {"tokens", keys, 0},
        {NULL, 0, 0}};

    return mla__call(&l->call[MLA__L_EXPAND], values, p->stream);
}

/* One plain product where the heads of kv_b_proj follow each other. */
static mla_status expand(mla_layer *l, const struct mla__layer_pass *p,
                         int64_t keys)
{
    const struct mla__layer_spec *d = &l->spec;
    int64_t head = d->nope + d->v, columns = l->heads * head;
    struct mla__matmul product = {MLA__PART(l, latent),
                                   p->w->kv_b,
                                   MLA__PART(l, kv),
                                   (int64_t)d->latent * MLA__ELEM,
                                   p->w->kv_b_row_stride,
                                   columns * MLA__ELEM,
                                   keys,
                                   columns,
                                   d->latent};

    if (!l->gemm.cublas.handle ||
        p->w->kv_b_head_stride != head * p->w->kv_b_row_stride)
        return expand_emitted(l, p, keys);
    return mla__gemm_run(&l->gemm, &product, p->stream);
}

/* The run's new tokens against what is expanded; lse 0: not wanted. */
static mla_status attend(mla_layer *l, const struct mla__layer_pass *p,
                         const struct mla__run *r, uint64_t cu_k, bool causal,
                         uint64_t out, uint64_t lse)
{
    const struct mla__layer_spec *d = &l->spec;
    int64_t head = (int64_t)(d->nope + d->v) * MLA__ELEM;
    int64_t q = (int64_t)(d->nope + d->rope) * MLA__ELEM;
    int64_t v = (int64_t)d->v * MLA__ELEM, kv = (int64_t)MLA__PART(l, kv);
    int64_t first = r->first_token * l->heads;
    const struct mla__value values[] = {
        {"q", (int64_t)MLA__PART(l, q) + first * q, 0},
        {"q_token_stride", l->heads * q, 0},
        {"q_head_stride", q, 0},
        {"k_nope", kv, 0},
        {"k_nope_token_stride", l->heads * head, 0},
        {"k_nope_head_stride", head, 0},
        {"k_rope", (int64_t)MLA__PART(l, k_rope), 0},
        {"k_rope_token_stride", (int64_t)d->rope * MLA__ELEM, 0},
        {"v", kv + (int64_t)d->nope * MLA__ELEM, 0},
        {"v_token_stride", l->heads * head, 0},
        {"v_head_stride", head, 0},
        {"out", (int64_t)out + first * v, 0},
        {"out_token_stride", l->heads * v, 0},
        {"out_head_stride", v, 0},
        {"lse", lse ? (int64_t)lse + 4 * first : 0, 0},
        {"lse_token_stride", 4 * l->heads, 0},
        {"lse_head_stride", 4, 0},
        {"cu_q", (int64_t)int_at(l, r->cu_new), 0},
        {"cu_k", (int64_t)cu_k, 0},
        {"softmax_scale", 0, d->softmax_scale},
        {"batch", r->rows, 0},
        {"max_q", r->q_len, 0},
        {"causal", causal, 0},
        {NULL, 0, 0}};

    return mla__call(&l->call[MLA__L_MHA], values, p->stream);
}

/* What there is takes in a chunk's result, in place. */
static mla_status merge(mla_layer *l, const struct mla__layer_pass *p,
                        const struct mla__run *r)
{
    int64_t v = (int64_t)l->spec.v * MLA__ELEM, token = l->heads * v;
    int64_t first = r->first_token, lse_token = 4 * l->heads;
    int64_t out = (int64_t)MLA__PART(l, heads) + first * token;
    int64_t lse = (int64_t)MLA__PART(l, lse) + first * lse_token;
    const struct mla__value values[] = {
        {"o_a", (int64_t)MLA__PART(l, part) + first * token, 0},
        {"o_a_token_stride", token, 0},
        {"o_a_head_stride", v, 0},
        {"o_b", out, 0},
        {"o_b_token_stride", token, 0},
        {"o_b_head_stride", v, 0},
        {"lse_a", (int64_t)MLA__PART(l, part_lse) + first * lse_token, 0},
        {"lse_a_token_stride", lse_token, 0},
        {"lse_a_head_stride", 4, 0},
        {"lse_b", lse, 0},
        {"lse_b_token_stride", lse_token, 0},
        {"lse_b_head_stride", 4, 0},
        {"o", out, 0},
        {"o_token_stride", token, 0},
        {"o_head_stride", v, 0},
        {"lse", lse, 0},
        {"lse_token_stride", lse_token, 0},
        {"lse_head_stride", 4, 0},
        {"tokens", r->tokens, 0},
        {NULL, 0, 0}};

    return mla__call(&l->call[MLA__L_MERGE], values, p->stream);
}

/* Gathers, expands and attends; lse 0: not wanted. */
static mla_status pass_over(mla_layer *l, const struct mla__layer_pass *p,
                            const struct mla__run *r, const struct keys *k,
                            bool causal, uint64_t out, uint64_t lse)
{
    mla_status status = gather(l, p, r, k);

    if (!status)
        status = expand(l, p, k->count);
    return status ? status : attend(l, p, r, k->cu, causal, out, lse);
}

/* Chunk c of all prefixes, for all new tokens of the run. */
static mla_status add_chunk(mla_layer *l, const struct mla__layer_pass *p,
                            const struct mla__run *r, int c)
{
    struct keys k = {.starts = int_at(l, r->starts + (int64_t)c * r->rows),
                     .cu = int_at(l, r->cu_chunk + (int64_t)c * (r->rows + 1)),
                     .count = l->ints[r->totals + c]};
    mla_status status = pass_over(l, p, r, &k, false, MLA__PART(l, part),
                                  MLA__PART(l, part_lse));

    return status ? status : merge(l, p, r);
}

/* New tokens of a chunked run are gathered by their slots, as they have just
 * been written; one shot reads them through the page table with the rest. */
mla_status mla__layer_normal(mla_layer *l, const struct mla__layer_pass *p,
                             const struct mla__run *r)
{
    struct keys all = {.cu = int_at(l, r->cu_all), .count = r->keys};
    struct keys fresh = {.slots = MLA__PART(l, slots) +
                                  8 * (uint64_t)r->first_token,
                         .cu = int_at(l, r->cu_new),
                         .count = r->tokens};
    mla_status status = rotate(l, p, r);

    if (status)
        return status;
    if (r->one_shot)
        return pass_over(l, p, r, &all, true, MLA__PART(l, heads), 0);
    status = pass_over(l, p, r, &fresh, true, MLA__PART(l, heads),
                       r->chunks ? MLA__PART(l, lse) : 0);
    for (int c = 0; c < r->chunks && !status; c++)
        status = add_chunk(l, p, r, c);
    return status;
}
