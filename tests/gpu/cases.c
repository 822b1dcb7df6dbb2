/* SPDX-License-Identifier: Apache-2.0
 *
 * cases.c: what is measured, in order of importance: a budget of time leaves
 * the end of the list out.
 *
 * Decode: 1, 16 and 128 requests, 16, 64 and 128 heads, one and two tokens,
 * 1k to 32k keys.  mha: 16,384 tokens in requests of 2k to 16k.  The tokens
 * of the other kernels are those of decode batches and of prefill chunks.
 */
#include "gpu_bench.h"

/* A list being filled; it is counted on beyond its room. */
struct list {
    struct gpu_case *out;
    int count, room;
};

/* Appends one case. */
static void add(struct list *l, const struct gpu_group *group, int heads,
                int64_t batch, int64_t q_len, int64_t seq_len)
{
    if (l->count < l->room)
        l->out[l->count] =
            (struct gpu_case){group, heads, batch, q_len, seq_len};
    l->count++;
}

/* A loop over values that are written where they are used. */
#define EACH(type, name, ...)                                                \
    for (const type name##_list[] = {__VA_ARGS__}, *name = name##_list;      \
         name < name##_list + sizeof(name##_list) / sizeof(*name##_list);    \
         name++)

/* From one request to a full batch of drafts, at every head count: weights
 * dominate the first, products the last. */
static void add_tokens(struct list *l, const struct gpu_group *group)
{
    EACH(int, heads, 128, 64, 16)
        EACH(int64_t, tokens, 1, 16, 128, 512)
            add(l, group, *heads, 1, 1, *tokens);
}

/* kv_b comes first, since it may have to stand in for cuBLAS; then what the
 * project is judged by. */
static void add_full(struct list *l)
{
    EACH(int, heads, 128, 16)
        EACH(int64_t, tokens, 4096, 16384)
            add(l, &gpu_kv_b, *heads, 1, 1, *tokens);
    EACH(int64_t, batch, 128, 16, 1)
        EACH(int64_t, q_len, 1, 2)
            EACH(int, heads, 128, 16, 64)
                EACH(int64_t, keys, 4096, 16384, 1024, 32768)
                    add(l, &gpu_decode, *heads, *batch, *q_len, *keys);
    EACH(int, heads, 16, 128)
        EACH(int64_t, keys, 2048, 4096, 8192, 16384)
            add(l, &gpu_mha, *heads, 16384 / *keys, *keys, *keys);
    EACH(int64_t, tokens, 2048, 8192, 32768)
        add(l, &gpu_concat, 128, 1, 1, *tokens);
    add_tokens(l, &gpu_absorb_q);
    add_tokens(l, &gpu_absorb_v);
    EACH(int64_t, tokens, 1, 128, 8192)
        add(l, &gpu_append, 128, 1, 1, *tokens);
    EACH(int64_t, batch, 1, 16, 128)
        add(l, &gpu_plan, 128, *batch, 1, 4096);
}

/* Every group once or twice, for any small model: 0 heads are those of the
 * first kernel. */
static void add_tiny(struct list *l)
{
    add(l, &gpu_kv_b, 0, 1, 1, 16);
    EACH(int64_t, batch, 1, 3)
        EACH(int64_t, q_len, 1, 2)
            add(l, &gpu_decode, 0, *batch, *q_len, 70);
    add(l, &gpu_mha, 0, 2, 40, 40);
    add(l, &gpu_concat, 0, 1, 1, 5);
    add(l, &gpu_absorb_q, 0, 1, 1, 9);
    add(l, &gpu_absorb_v, 0, 1, 1, 9);
    add(l, &gpu_append, 0, 1, 1, 6);
    add(l, &gpu_plan, 0, 3, 1, 70);
}

int gpu_cases(bool tiny, struct gpu_case *out, int room)
{
    struct list l = {out, 0, room};

    (tiny ? add_tiny : add_full)(&l);
    return l.count;
}
