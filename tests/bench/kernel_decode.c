/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel_decode.c: the decode step on the work that other kernels have been
 * measured with, and the time that a long request takes on the virtual GPU.
 *
 * The work is 4 requests of 1000, 830, 660 and 490 keys, one query token, 128
 * or 16 heads of DeepSeek-V3, whole requests or nearly so per block.  On it
 * FlashInfer's sm_80 kernel (snapshot fb28d72) issues 1.287 M and 0.681 M warp
 * instructions; the bars are 0.62 M and 0.12 M.
 *
 * Exact are the bytes that blocks copy (an item's query rows once, its key
 * rows once; with TMA, its tiles once) and the bank conflicts (none).
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "decode.h"
#include "kernel_bench.h"

/* Of wall time, for the long request. */
static const double long_bar_seconds = 10;

static const struct work {
    struct decode_shape shape;
    const char *name;
    int heads;        /* whose kernels the bar is for; 0: without a bar */
    double insns_bar; /* warp instructions */
} works[] = {
    {{.group = "bench",
      DECODE_LENGTHS(1000, 830, 660, 490),
      .q_len = 1,
      .ctas = 8},
     "4 requests",
     128,
     0.62e6},
    {{.group = "bench",
      DECODE_LENGTHS(1000, 830, 660, 490),
      .q_len = 1,
      .ctas = 4},
     "4 requests",
     16,
     0.12e6},
    {{.group = "bench", DECODE_LENGTHS(4096), .q_len = 1, .ctas = 108,
      .min_tiles = 8},
     "4096 keys",
     0,
     0},
};
enum { WORKS = sizeof(works) / sizeof(works[0]) };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Bytes that TMA reads, 0 where it does not: the boxes that have a key of the
 * request, whole, once for the blocks of a cluster. */
static int64_t sent_for(const struct num_subject *s,
                        const struct decode_task *t)
{
    struct decode_totals all = decode_total(t);
    int64_t box = decode_tile_number(s, "box_rows"), keys = 0;

    if (box == 0)
        return 0;
    for (int64_t u = 0; u < all.units; u++)
        keys += (t->lengths[u / all.row_tiles] + box - 1) / box * box;
    return keys * (decode_tile_number(s, "tile_bytes") /
                   decode_tile_number(s, "n"));
}

/* Bytes that the items of a work list copy by cp.async.  With one query token
 * every row sees every key, and the items of a unit have its keys between
 * them.  Warp-specialised kernels read their queries. */
static int64_t copied(const struct num_subject *s,
                      const struct decode_task *t)
{
    int64_t row_bytes = (int64_t)num_elem_bytes(s->dtype) *
                        (s->info.latent + s->info.rope);
    bool reads_queries = decode_tile_number(s, "cluster") > 0;
    struct decode_totals all = decode_total(t);
    int64_t rows = 0, before = 0;

    for (int64_t u = 0; u < all.units; u++) {
        int64_t tile = u % all.row_tiles;
        int64_t own = (int64_t)t->heads - tile * t->rows;
        if (!reads_queries)
            rows += decode_unit_items(t, &all, u, before) *
                    (own < t->rows ? own : t->rows);
        rows += t->lengths[u / all.row_tiles];
        before += decode_unit_tiles(t, u);
    }
    return rows * row_bytes;
}

static void print(const struct num_subject *s, const struct work *w,
                  const struct bench_traffic *t, int64_t floor, double seconds,
                  bool over, bool json, bool first)
{
    double mma = bench_mmas(t);

    if (json)
        printf("%s\n  {\"kernel\": \"%s\", \"work\": \"%s\", "
               "\"warp_insns\": %.0f, \"mma\": %.0f, \"copied\": %.0f, "
               "\"copied_floor\": %lld, \"conflicts\": %.0f, "
               "\"barriers\": %.0f, \"seconds\": %.3f}",
               first ? "" : ",", s->info.symbol, w->name, t->warp_insns,
               t->mma_count, t->copied, (long long)floor, t->bank_conflicts,
               t->barriers, seconds);
    else
        printf("%-62s %-10s %9.0f %8.3f %12.0f %6.3f %6.0f %8.0f %7.2f%s\n",
               s->info.symbol, w->name, t->warp_insns, t->warp_insns / mma,
               t->copied, t->copied / (double)floor, t->bank_conflicts,
               t->barriers, seconds, over ? "  over the bar" : "");
}

/* One kernel on one work; 1: the counters are not what the work list says.  A
 * bar that is exceeded is shown, and no failure. */
static int measure(struct num_device *device, const struct decode_kernels *k,
                   const struct work *w, bool json, bool first)
{
    const struct num_subject *s = &k->decode;
    struct num_case *c = decode_case_make(k, &w->shape, 1);
    struct decode_task task = decode_task_of(c, 0, c->tokens);
    int64_t sent = sent_for(s, &task);
    int64_t floor = sent ? sent : copied(s, &task);
    struct bench_traffic t;
    double start = now(), seconds;
    const char *why = bench_measure_case(device, c, &t);
    bool over;

    seconds = now() - start;
    if (sent)
        t.copied = t.tma;
    over = w->heads ? s->info.latent + s->info.rope == 576 &&
                          t.warp_insns > w->insns_bar
                    : seconds > long_bar_seconds;
    print(s, w, &t, floor, seconds, over, json, first);
    bench_note(s, w->name, &t);
    if (!why && (t.copied != (double)floor || t.bank_conflicts > 0))
        why = "the counters are not what the work list says";
    decode_case_free(c);
    if (why)
        fprintf(stderr, "kernel-bench: error: %s: %s\n", s->info.symbol, why);
    return why != NULL;
}

/* The work of a kernel: that of its own heads, in the tile that one token's
 * rows go to, and the long request. */
static bool applies(const struct decode_kernels *k, const struct work *w)
{
    int smallest = decode_tile_number(&k->decode, "min_rows");
    int heads = k->decode.info.heads;
    return smallest == heads && (w->heads == 0 || w->heads == heads);
}

int bench_decode(struct num_device *device, const struct num_model *model,
                 bool json)
{
    int failures = 0;
    bool first = true;

    if (json)
        printf(" \"decode\": [");
    else
        printf("%-62s %-10s %9s %8s %12s %6s %6s %8s %7s\n", "kernel", "work",
               "warp insn", "insn/mma", "copied", "floor", "banks", "barriers",
               "seconds");
    for (int i = 0; i < mla_kernels_count(device->set); i++) {
        mla_kernel_info info = {.size = sizeof(info)};
        struct decode_kernels k;
        mla_kernel_describe(mla_kernels_at(device->set, i), &info);
        if (strcmp(info.family, decode_pipeline.name) ||
            decode_kernels_find(device, i, model, &k))
            continue;
        for (int n = 0; n < WORKS; n++)
            if (applies(&k, &works[n])) {
                failures += measure(device, &k, &works[n], json, first);
                first = false;
            }
    }
    printf(json ? "]" : "\n");
    return failures;
}
