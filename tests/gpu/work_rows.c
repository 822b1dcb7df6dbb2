/* SPDX-License-Identifier: Apache-2.0
 *
 * work_rows.c: the kernels around the attention, and mha.
 *
 * Bytes: each input and each output once; weights belong to the bytes, since
 * every layer has its own.
 */
#include "gpu_bench.h"

/* One kernel over so many tokens. */
static void begin(struct gpu_work *w, const struct num_subject *s,
                  const struct gpu_case *c)
{
    w->kernel[0] = *s;
    w->kernels = 1;
    w->tokens = c->seq_len;
    gpu_add_int(w, "tokens", c->seq_len);
}

/* A row of the table for each token. */
static void add_angles(struct gpu_work *w, int64_t tokens, int rope)
{
    gpu_add_tensor(w, "cos_sin", 1, tokens, 1, rope);
    gpu_add_index(w, "positions", tokens, 0, 1, 0);
}

/* --- mha ------------------------------------------------------------------ */

/* Requests of seq_len tokens each, causal. */
static const char *make_mha(struct gpu *g, const struct num_subject *s,
                            const struct gpu_case *c, struct gpu_work *w)
{
    const mla_kernel_info *k = &s->info;
    int64_t all = c->batch * c->seq_len;
    double d = k->nope + k->rope, n = (double)c->seq_len;

    (void)g;
    w->kernel[0] = *s;
    w->kernels = 1;
    gpu_add_tensor(w, "q", 1, all, k->heads, k->nope + k->rope);
    gpu_add_tensor(w, "k_nope", 1, all, k->heads, k->nope);
    gpu_add_tensor(w, "k_rope", 1, all, 1, k->rope);
    gpu_add_tensor(w, "k", 1, all, k->heads, k->nope + k->rope);
    gpu_add_tensor(w, "v", 1, all, k->heads, k->v);
    gpu_add_tensor(w, "out", 1, all, k->heads, k->v);
    gpu_add_tensor(w, "lse", 1, all, k->heads, 1);
    gpu_add_index(w, "cu_q", c->batch + 1, 0, c->seq_len, 0);
    gpu_add_index(w, "cu_k", c->batch + 1, 0, c->seq_len, 0);
    gpu_add_int(w, "batch", c->batch);
    gpu_add_int(w, "max_q", c->seq_len);
    gpu_add_int(w, "causal", 1);
    w->flops = 2.0 * (double)c->batch * k->heads * (n * (n + 1) / 2) *
               (d + k->v);
    w->bytes = 2.0 * (double)all *
               (k->heads * (d + 2.0 * k->v) +
                (num_has(s, "k") ? k->heads * d
                                 : (double)k->heads * k->nope + k->rope));
    return NULL;
}

const struct gpu_group gpu_mha = {"mha", "mha", make_mha};

/* --- copies --------------------------------------------------------------- */

/* gpu_group.make: k_nope and the shared k_rope in, K out. */
static const char *make_concat(struct gpu *g, const struct num_subject *s,
                               const struct gpu_case *c, struct gpu_work *w)
{
    const mla_kernel_info *k = &s->info;

    (void)g;
    begin(w, s, c);
    gpu_add_tensor(w, "k_nope", 1, c->seq_len, k->heads, k->nope);
    gpu_add_tensor(w, "k_rope", 1, c->seq_len, 1, k->rope);
    gpu_add_tensor(w, "k", 1, c->seq_len, k->heads, k->nope + k->rope);
    w->bytes = 2.0 * (double)c->seq_len *
               (k->heads * (2.0 * k->nope + k->rope) + k->rope);
    return NULL;
}

const struct gpu_group gpu_concat = {"concat", "concat_mla_k", make_concat};

/* Slots are scattered over a pool of twice as many rows. */
static const char *make_append(struct gpu *g, const struct num_subject *s,
                               const struct gpu_case *c, struct gpu_work *w)
{
    const mla_kernel_info *k = &s->info;
    int64_t width = k->latent + k->rope;
    int64_t pages = 2 * c->seq_len / k->page_size + 1;
    int64_t rows = pages * k->page_size;

    (void)g;
    begin(w, s, c);
    gpu_add_tensor(w, "latent", 1, c->seq_len, 1, k->latent);
    gpu_add_tensor(w, "k_rope", 1, c->seq_len, 1, k->rope);
    gpu_add_tensor(w, "norm_weight", 1, 1, 1, k->latent);
    add_angles(w, c->seq_len, k->rope);
    gpu_add_index(w, "slots", c->seq_len, 1, rows % 7919 ? 7919 : 1, rows);
    gpu_add_tensor(w, "kv_cache", 1, pages, k->page_size, width);
    gpu_add_int(w, "page_stride", 2 * width * k->page_size);
    gpu_add_int(w, "row_stride", 2 * width);
    w->bytes = (double)c->seq_len *
               (2.0 * 2.0 * (double)width + 4.0 * k->rope + 16.0);
    return NULL;
}

const struct gpu_group gpu_append = {"append", "kv_append", make_append};

/* --- products with kv_b_proj ---------------------------------------------- */

/* kv_b_proj as checkpoints have it: per head its rows for k_nope, then those
 * for v. */
static void add_weights(struct gpu_work *w, const mla_kernel_info *k)
{
    gpu_add_tensor(w, "kv_b", 1, (int64_t)k->heads * (k->nope + k->v), 1,
                   k->latent);
    gpu_add_int(w, "kv_b_head_stride",
                2 * (int64_t)(k->nope + k->v) * k->latent);
    gpu_add_int(w, "kv_b_row_stride", 2 * (int64_t)k->latent);
}

/* T x H x depth x width multiply-adds, with the weights read once. */
static void count(struct gpu_work *w, const mla_kernel_info *k, double depth,
                  double width, double other)
{
    double all = (double)w->tokens * k->heads;

    w->flops = 2.0 * all * depth * width;
    w->bytes = 2.0 * (k->heads * depth * width + all * (depth + width)) +
               other;
}

/* gpu_group.make: the product, and q_rope rotated behind it. */
static const char *make_absorb_q(struct gpu *g, const struct num_subject *s,
                                 const struct gpu_case *c, struct gpu_work *w)
{
    const mla_kernel_info *k = &s->info;
    int64_t t = c->seq_len;

    (void)g;
    begin(w, s, c);
    gpu_add_tensor(w, "q_nope", 1, t, k->heads, k->nope);
    gpu_add_tensor(w, "q_rope", 1, t, k->heads, k->rope);
    gpu_add_tensor(w, "q", 1, t, k->heads, k->latent + k->rope);
    add_weights(w, k);
    add_angles(w, t, k->rope);
    count(w, k, k->nope, k->latent,
          4.0 * (double)(t * k->heads) * k->rope + 4.0 * (double)t * k->rope);
    return NULL;
}

const struct gpu_group gpu_absorb_q = {"absorb_q", "absorb_q", make_absorb_q};

/* Of absorb_v's variants the one that reads kv_b_proj itself. */
static const char *make_absorb_v(struct gpu *g, const struct num_subject *s,
                                 const struct gpu_case *c, struct gpu_work *w)
{
    const mla_kernel_info *k = &s->info;

    (void)g;
    if (!num_has(s, "kv_b"))
        return "";
    begin(w, s, c);
    gpu_add_tensor(w, "o", 1, c->seq_len, k->heads, k->latent);
    gpu_add_tensor(w, "out", 1, c->seq_len, k->heads, k->v);
    add_weights(w, k);
    count(w, k, k->latent, k->v, 0);
    return NULL;
}

const struct gpu_group gpu_absorb_v = {"absorb_v", "absorb_v", make_absorb_v};

/* gpu_group.make: one product for all heads, its result in two tensors. */
static const char *make_kv_b(struct gpu *g, const struct num_subject *s,
                             const struct gpu_case *c, struct gpu_work *w)
{
    const mla_kernel_info *k = &s->info;
    double width = (double)k->heads * (k->nope + k->v);

    (void)g;
    begin(w, s, c);
    gpu_add_tensor(w, "latent", 1, c->seq_len, 1, k->latent);
    gpu_add_tensor(w, "k_nope", 1, c->seq_len, k->heads, k->nope);
    gpu_add_tensor(w, "v", 1, c->seq_len, k->heads, k->v);
    add_weights(w, k);
    w->flops = 2.0 * (double)c->seq_len * k->latent * width;
    w->bytes = 2.0 * (k->latent * width +
                      (double)c->seq_len * (k->latent + width));
    return NULL;
}

const struct gpu_group gpu_kv_b = {"kv_b", "kv_b", make_kv_b};
