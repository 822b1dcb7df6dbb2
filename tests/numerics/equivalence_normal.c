/* SPDX-License-Identifier: Apache-2.0
 *
 * equivalence_normal.c: the Normal path, which expands what is cached.
 *
 * One shot: gather all rows of the pool, expand them, attend causally.  In
 * chunks: the new tokens causally among themselves, then each chunk of the
 * prefix by itself and for all new tokens, merged by LSE into what there is.
 * Workspace for expanded keys and values is then that of a chunk.
 *
 * Chunks are planned by the runtime (mla_chunks_plan), whose plan is under test
 * here, too: it must cut every prefix whole, name the requests that are empty
 * in a chunk, and refuse a workspace that is too small.
 */
#include "equivalence.h"

/* Rows taken out of the pool and expanded. */
struct expanded {
    uint64_t kv, k_rope; /* [n][H][DN + DV], [n][DR] */
};

/* The n rows at `starts` (0: at the first) of all requests, by `cu`. */
static bool gather(struct layer_run *r, uint64_t starts, uint64_t cu, int64_t n,
                   uint64_t latent, uint64_t k_rope)
{
    const struct layer *l = r->layer;
    const struct layer_arg arg[] = {
        LAYER_PTR("kv_cache", r->pool),
        LAYER_INT("page_stride", r->page_stride),
        LAYER_INT("row_stride", r->row_stride),
        LAYER_PTR("slots", 0),
        LAYER_PTR("block_table", r->input[LAYER_TABLE]),
        LAYER_INT("block_table_stride",
                  l->table_width * (int64_t)sizeof(int32_t)),
        LAYER_PTR("starts", starts),
        LAYER_PTR("cu_seqlens", cu),
        LAYER_INT("batch", l->shape->requests),
        LAYER_PTR("latent", latent),
        LAYER_INT("latent_stride", layer_bytes(l, l->latent)),
        LAYER_PTR("k_rope", k_rope),
        LAYER_INT("k_rope_stride", layer_bytes(l, l->rope)),
        LAYER_INT("tokens", n),
        LAYER_END};

    return layer_call(r, r->kernels->one[LAYER_KV_GATHER], arg);
}

/* k_nope and v of a head side by side, as kv_b_proj has them. */
static bool multiply(struct layer_run *r, uint64_t latent, int64_t n,
                     uint64_t kv)
{
    const struct layer *l = r->layer;
    int64_t row = layer_bytes(l, l->latent), rows = l->nope + l->v;
    int64_t head = layer_bytes(l, rows);
    const struct layer_arg arg[] = {
        LAYER_PTR("latent", latent),
        LAYER_INT("latent_stride", row),
        LAYER_PTR("kv_b", r->input[LAYER_WEIGHTS]),
        LAYER_INT("kv_b_head_stride", rows * row),
        LAYER_INT("kv_b_row_stride", row),
        LAYER_PTR("k_nope", kv),
        LAYER_INT("k_nope_token_stride", l->heads * head),
        LAYER_INT("k_nope_head_stride", head),
        LAYER_PTR("v", kv + (uint64_t)layer_bytes(l, l->nope)),
        LAYER_INT("v_token_stride", l->heads * head),
        LAYER_INT("v_head_stride", head),
        LAYER_INT("tokens", n),
        LAYER_END};

    return layer_call(r, r->kernels->one[LAYER_KV_B], arg);
}

/* Gathers n rows of the pool and multiplies them out.  starts and cu are
 * device addresses: where each request's rows begin, and how many come before
 * each. */
static bool expand(struct layer_run *r, uint64_t starts, uint64_t cu, int64_t n,
                   struct expanded *out)
{
    const struct layer *l = r->layer;
    uint64_t latent;

    return layer_new(r, "gathered latents", l->dtype, n * l->latent, NULL,
                     &latent) &&
           layer_new(r, "gathered k_rope", l->dtype, n * l->rope, NULL,
                     &out->k_rope) &&
           layer_new(r, "k_nope and v", l->dtype,
                     n * l->heads * (l->nope + l->v), NULL, &out->kv) &&
           gather(r, starts, cu, n, latent, out->k_rope) &&
           multiply(r, latent, n, out->kv);
}

/* All new tokens against expanded keys; lse 0: not wanted. */
static bool attend(struct layer_run *r, const struct expanded *e, uint64_t cu,
                   bool causal, uint64_t out, uint64_t lse)
{
    const struct layer *l = r->layer;
    int64_t q = layer_bytes(l, l->nope + l->rope);
    int64_t head = layer_bytes(l, l->nope + l->v), v = layer_bytes(l, l->v);
    const struct layer_arg arg[] = {
        LAYER_PTR("q", r->input[LAYER_Q]),
        LAYER_INT("q_token_stride", l->heads * q),
        LAYER_INT("q_head_stride", q),
        LAYER_PTR("k_nope", e->kv),
        LAYER_INT("k_nope_token_stride", l->heads * head),
        LAYER_INT("k_nope_head_stride", head),
        LAYER_PTR("k_rope", e->k_rope),
        LAYER_INT("k_rope_token_stride", layer_bytes(l, l->rope)),
        LAYER_PTR("v", e->kv + (uint64_t)layer_bytes(l, l->nope)),
        LAYER_INT("v_token_stride", l->heads * head),
        LAYER_INT("v_head_stride", head),
        LAYER_PTR("out", out),
        LAYER_INT("out_token_stride", l->heads * v),
        LAYER_INT("out_head_stride", v),
        LAYER_PTR("lse", lse),
        LAYER_INT("lse_token_stride", l->heads * (int64_t)sizeof(float)),
        LAYER_INT("lse_head_stride", (int64_t)sizeof(float)),
        LAYER_PTR("cu_q", r->input[LAYER_CU_Q]),
        LAYER_PTR("cu_k", cu),
        LAYER_REAL("softmax_scale", l->softmax_scale),
        LAYER_INT("batch", l->shape->requests),
        LAYER_INT("max_q", l->most_fresh),
        LAYER_INT("causal", causal),
        LAYER_END};

    return layer_call(r, r->kernels->one[LAYER_MHA], arg);
}

/* All keys at once, causal: where a new token stands among its keys follows
 * from cu_q and cu_k. */
bool layer_one_shot(struct layer_run *r, uint64_t out)
{
    struct expanded e;

    return expand(r, 0, r->input[LAYER_CU_ALL], r->layer->keys, &e) &&
           attend(r, &e, r->input[LAYER_CU_ALL], true, out, 0);
}

/* Chunks ------------------------------------------------------------------ */

/* The accumulator takes in a chunk's result, in place. */
static bool merge(struct layer_run *r, uint64_t part, uint64_t part_lse,
                  uint64_t out, uint64_t lse)
{
    const struct layer *l = r->layer;
    int64_t v = layer_bytes(l, l->v), token = l->heads * v;
    int64_t f = (int64_t)sizeof(float), lse_token = l->heads * f;
    const struct layer_arg arg[] = {LAYER_PTR("o_a", part),
                                    LAYER_INT("o_a_token_stride", token),
                                    LAYER_INT("o_a_head_stride", v),
                                    LAYER_PTR("o_b", out),
                                    LAYER_INT("o_b_token_stride", token),
                                    LAYER_INT("o_b_head_stride", v),
                                    LAYER_PTR("lse_a", part_lse),
                                    LAYER_INT("lse_a_token_stride", lse_token),
                                    LAYER_INT("lse_a_head_stride", f),
                                    LAYER_PTR("lse_b", lse),
                                    LAYER_INT("lse_b_token_stride", lse_token),
                                    LAYER_INT("lse_b_head_stride", f),
                                    LAYER_PTR("o", out),
                                    LAYER_INT("o_token_stride", token),
                                    LAYER_INT("o_head_stride", v),
                                    LAYER_PTR("lse", lse),
                                    LAYER_INT("lse_token_stride", lse_token),
                                    LAYER_INT("lse_head_stride", f),
                                    LAYER_INT("tokens", l->tokens),
                                    LAYER_END};

    return layer_call(r, r->kernels->one[LAYER_MERGE], arg);
}

/* A new output and its LSE. */
static bool new_state(struct layer_run *r, uint64_t *out, uint64_t *lse)
{
    const struct layer *l = r->layer;

    return layer_new(r, "lse", NUM_F32, l->tokens * l->heads, NULL, lse) &&
           (!out || layer_new(r, "a chunk's output", l->dtype,
                              layer_out_elements(l), NULL, out));
}

/* Chunk c of all prefixes: gather, expand, attend to all of it, merge. */
static bool add_chunk(struct layer_run *r, const mla_chunk_plan *p, int c,
                      uint64_t cu, uint64_t out, uint64_t lse)
{
    int32_t start[LAYER_MAX_REQUESTS];
    uint64_t starts, part, part_lse;
    struct expanded e;
    int mark = r->buffers;
    bool good;

    for (int b = 0; b < p->rows; b++)
        start[b] = p->start[c];
    good = layer_new(r, "starts", NUM_I32, p->rows, start, &starts) &&
           new_state(r, &part, &part_lse) &&
           expand(r, starts, cu, p->total[c], &e) &&
           attend(r, &e, cu, false, part, part_lse) &&
           merge(r, part, part_lse, out, lse);
    return layer_release(r, mark) && good;
}

/* Uploads the plan's block once, then adds chunk after chunk; each finds its
 * cu_seqlens in the block. */
static bool add_prefix(struct layer_run *r, const mla_chunk_plan *p,
                       uint64_t out, uint64_t lse)
{
    uint64_t block;
    bool good;

    good = layer_new(r, "chunks", NUM_I32,
                     (int64_t)(p->block_bytes / sizeof(int32_t)), p->block,
                     &block);
    for (int c = 0; c < p->count && good; c++) {
        const int32_t *cu = p->cu + c * (p->rows + 1);
        good = add_chunk(
            r, p, c,
            block + (uint64_t)((const char *)cu - (const char *)p->block), out,
            lse);
    }
    return good;
}

/* As many tokens as cut the longest prefix into the chunks that the shape asks
 * for, and a few that do not make up another for each request. */
static int64_t capacity_of(const struct layer *l, int page_size)
{
    int64_t unit = page_size ? page_size : 1, requests = l->shape->requests;
    int64_t length = (l->longest_prefix - 1) / (l->shape->chunks - 1) / unit;

    return requests * unit * (length ? length : 1) + requests - 1;
}

/* Fewer tokens than requests are refused. */
static bool check_refusal(struct layer_run *r, mla_chunks *chunks,
                          int page_size)
{
    const struct layer *l = r->layer;
    int64_t unit = page_size ? page_size : 1;
    mla_chunk_plan p = {.size = sizeof(p)};

    if (mla_chunks_plan(chunks, l->prefix, l->shape->requests,
                        l->shape->requests * unit - 1, page_size,
                        &p) == MLA_RANGE)
        return true;
    return layer_fail(r, "a capacity below a chunk per request was accepted");
}

/* A shape of this suite that does not make the chunks it is there for. */
static bool check_plan(struct layer_run *r, const mla_chunk_plan *p,
                       int page_size)
{
    int empty = 0;

    for (int c = 0; c < p->count; c++)
        empty |= p->has_empty[c];
    if (p->count >= (page_size ? 2 : r->layer->shape->chunks) && empty)
        return true;
    return layer_fail(r, "%d chunks, %s: not what the shape is for", p->count,
                      empty ? "some empty" : "none empty");
}

/* page_size 0: chunks may begin anywhere; else at a page's first row.  The
 * new tokens come first, so that the accumulator is never empty. */
static bool in_chunks(struct layer_run *r, uint64_t out, int page_size)
{
    const struct layer *l = r->layer;
    mla_chunk_plan p = {.size = sizeof(p)};
    mla_chunks *chunks = NULL;
    struct expanded e;
    uint64_t lse;
    bool good;

    if (mla_chunks_create(r->device->ctx, &chunks) ||
        !check_refusal(r, chunks, page_size) ||
        mla_chunks_plan(chunks, l->prefix, l->shape->requests,
                        capacity_of(l, page_size), page_size, &p)) {
        layer_fail(r, "chunks: %s", mla_last_error(r->device->ctx));
        mla_chunks_free(chunks);
        return false;
    }
    good = check_plan(r, &p, page_size) && new_state(r, NULL, &lse) &&
           expand(r, r->input[LAYER_PREFIX], r->input[LAYER_CU_Q], l->tokens,
                  &e) &&
           attend(r, &e, r->input[LAYER_CU_Q], true, out, lse) &&
           add_prefix(r, &p, out, lse);
    mla_chunks_free(chunks);
    return good;
}

/* The same with chunks that begin anywhere, and at pages' first rows. */
bool layer_chunked(struct layer_run *r, uint64_t out)
{
    return in_chunks(r, out, 0);
}

bool layer_chunked_by_page(struct layer_run *r, uint64_t out)
{
    return in_chunks(r, out, r->layer->page_size);
}
