/* SPDX-License-Identifier: Apache-2.0
 *
 * pool_bench.c: what the latent pool's books cost: 1 M pages of 64 tokens
 * and 4,096 sequences, on the host alone.
 *
 *     pool-bench [--json]
 *
 * Each figure is the median of several rounds, in nanoseconds per sequence.
 * Sequences are visited in a shuffled order, as a scheduler's batch is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_bench.h"

enum { PAGES = 1 << 20, SEQUENCES = 4096, WIDTH = 2560, ROUNDS = 15 };

/* A pool full of sequences, their forks, and what a batch call needs. */
struct bench {
    mla_pool *pool;
    mla_seq seq[SEQUENCES], child[SEQUENCES];
    int32_t count[SEQUENCES];
    int64_t *slots;
};

/* One batch of all sequences. */
static void extend(struct bench *b, int32_t count)
{
    for (int i = 0; i < SEQUENCES; i++)
        b->count[i] = count;
    must(mla_pool_extend(b->pool, b->seq, b->count, SEQUENCES, b->slots),
         "extend");
}

/* A token more for each: NULL counts stand for ones. */
static void decode(struct bench *b)
{
    must(mla_pool_extend(b->pool, b->seq, NULL, SEQUENCES, b->slots),
         "extend");
}

/* For callers that derive slots from the block table. */
static void decode_without_slots(struct bench *b)
{
    must(mla_pool_extend(b->pool, b->seq, NULL, SEQUENCES, NULL), "extend");
}

/* 65 tokens: a page each at least, two now and then. */
static void extend_page(struct bench *b)
{
    extend(b, 65);
}

/* Copies of the books, not of pages. */
static void fork_all(struct bench *b)
{
    for (int i = 0; i < SEQUENCES; i++)
        must(mla_pool_fork(b->pool, b->seq[i], -1, &b->child[i]), "fork");
}

static void drop_children(struct bench *b)
{
    for (int i = 0; i < SEQUENCES; i++)
        must(mla_pool_drop(b->pool, b->child[i], NULL), "drop");
}

/* The first token of a fork goes into a page that it shares, which has to be
 * copied first: the copies are asked for and reported done, as a server does
 * it around its own copy kernel. */
static void extend_children(struct bench *b)
{
    int count;
    must(mla_pool_extend(b->pool, b->child, NULL, SEQUENCES, b->slots),
         "extend");
    must(mla_pool_copies(b->pool, NULL, 0, &count), "copies");
    must(mla_pool_copies_done(b->pool, count, NULL), "copies");
}

static void nothing(struct bench *b)
{
    (void)b;
}

/* What is measured, and what is done before and after each round. */
static const struct {
    const char *name;
    void (*before)(struct bench *);
    void (*run)(struct bench *);
    void (*after)(struct bench *);
} figures[] = {
    {"extend by 1", nothing, decode, nothing},
    {"extend by 1, no slots wanted", nothing, decode_without_slots, nothing},
    {"extend by 65", nothing, extend_page, nothing},
    {"fork (of about 38 pages)", nothing, fork_all, drop_children},
    {"extend a fork (copy on write)", fork_all, extend_children,
     drop_children},
    {"drop (of about 38 pages)", fork_all, drop_children, nothing},
};

/* The median of the rounds, in nanoseconds per sequence. */
static double measure(struct bench *b, size_t figure)
{
    double ns[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        double begin;
        figures[figure].before(b);
        begin = now_ns();
        figures[figure].run(b);
        ns[i] = (now_ns() - begin) / SEQUENCES;
        figures[figure].after(b);
    }
    return median(ns, ROUNDS);
}

/* Long sequences whose pages are interleaved in the free list. */
static void fill(struct bench *b)
{
    for (int i = 0; i < SEQUENCES; i++)
        must(mla_pool_add(b->pool, &b->seq[i]), "add");
    for (int i = 0; i < SEQUENCES; i++) {
        int k = (int)((uint32_t)i * 2654435761u % SEQUENCES);
        mla_seq swap = b->seq[i];
        b->seq[i] = b->seq[k];
        b->seq[k] = swap;
    }
    for (int i = 0; i < 20; i++)
        extend(b, 64);
}

/* Ends with a check of the pool's books: a figure of a broken pool is none. */
int main(int argc, char **argv)
{
    static struct bench b;
    int json = argc > 1 && !strcmp(argv[1], "--json");
    mla_pool_options o = MLA_POOL_OPTIONS_INIT;
    mla_context *ctx;

    o.pages = PAGES;
    o.row_bytes = 1152;
    o.max_sequences = 2 * SEQUENCES;
    o.table_width = WIDTH;
    o.host_only = 1;
    b.slots = malloc((size_t)SEQUENCES * 65 * sizeof(*b.slots));
    must(mla_context_create(NULL, &ctx), "context");
    must(mla_pool_create(ctx, &o, &b.pool), "pool");
    if (!b.slots)
        must(MLA_OUT_OF_MEMORY, "slots");
    fill(&b);
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        double ns = measure(&b, i);
        printf(json ? "{\"figure\": \"pool %s\", \"ns\": %.1f, "
                      "\"per_second\": %.0f}\n"
                    : "pool: %-32s %8.1f ns  %12.0f /s\n",
               figures[i].name, ns, 1e9 / ns);
    }
    must(mla_pool_check(b.pool), "check");
    mla_pool_destroy(b.pool);
    mla_context_destroy(ctx);
    free(b.slots);
    return 0;
}
