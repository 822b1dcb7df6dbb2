/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel_attention.c: one launch of mha per shape, its counters beside what
 * its plan says they have to be.
 *
 * Exact are the MMAs (none for a tile that no row of a warp sees), the bytes
 * that blocks copy (their query rows once, each key row that some of their rows
 * see once) and the bank conflicts (none).  Warp instructions per MMA have a
 * bar at the widths of DeepSeek-V3.
 */
#include <stdio.h>
#include <string.h>

#include "decode.h"
#include "kernel_bench.h"
#include "mha.h"

static const double insns_bar = 3.2;

static const struct mha_shape shapes[] = {
    {.group = "bench",
     MHA_REQUESTS({512, 512}),
     .values = MHA_UNCHECKED,
     .flags = MHA_CAUSAL},
    {.group = "bench", MHA_REQUESTS({256, 2048}), .values = MHA_UNCHECKED},
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

struct tile {
    int64_t rows, keys, warp_rows, mma; /* mma: of a warp, per tile of keys */
    int64_t query_bytes, key_bytes, chunks; /* bytes of a row */
};

static struct tile tile_of(const struct num_subject *s)
{
    int64_t dims = decode_tile_number(s, "dims");
    int64_t columns = decode_tile_number(s, "columns");
    struct tile t = {.rows = decode_tile_number(s, "m"),
                     .keys = decode_tile_number(s, "n"),
                     .warp_rows = 16 * decode_tile_number(s, "mt"),
                     .chunks = decode_tile_number(s, "column_chunks")};

    t.mma = t.warp_rows / 16 * t.keys / 8 * (dims + columns) / 16;
    t.query_bytes = 2 * dims;
    t.key_bytes = 2 * (dims + columns);
    return t;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Keys that the rows before `end` see. */
static int64_t seen(const struct mha_shape *shape, int64_t end)
{
    const struct mha_request *r = shape->request;
    return shape->flags & MHA_CAUSAL ? r->k - r->q + end : r->k;
}

/* What a head takes: MMAs, and bytes copied. */
static void expect(const struct mha_shape *shape, const struct tile *t,
                   int64_t *mma, int64_t *bytes)
{
    int64_t q = shape->request->q;

    *mma = *bytes = 0;
    for (int64_t row = 0; row < q; row += t->warp_rows) {
        int64_t keys = seen(shape, least(row + t->warp_rows, q));
        *mma += t->chunks * t->mma * ((keys + t->keys - 1) / t->keys);
    }
    for (int64_t row = 0; row < q; row += t->rows) {
        int64_t end = least(row + t->rows, q);
        *bytes += t->chunks * ((end - row) * t->query_bytes +
                               seen(shape, end) * t->key_bytes);
    }
}

static bool has_bar(const struct num_subject *s)
{
    return s->info.nope == 128 && s->info.rope == 64 && s->info.v == 128;
}

static void print(const struct num_subject *s, const struct mha_shape *shape,
                  const struct bench_traffic *t, int64_t mma, int64_t bytes,
                  bool json, bool first)
{
    double insns = t->warp_insns / (t->mma_count > 0 ? t->mma_count : 1);
    char size[32];

    snprintf(size, sizeof(size), "%dx%d%s", shape->request->q,
             shape->request->k, shape->flags & MHA_CAUSAL ? " causal" : "");
    if (json)
        printf("%s\n  {\"kernel\": \"%s\", \"shape\": \"%s\", \"mma\": %.0f, "
               "\"mma_floor\": %lld, \"copied\": %.0f, \"copied_floor\": %lld, "
               "\"warp_insns\": %.0f, \"conflicts\": %.0f}",
               first ? "" : ",", s->info.symbol, size, t->mma_count,
               (long long)mma, t->copied, (long long)bytes, t->warp_insns,
               t->bank_conflicts);
    else
        printf("%-62s %-14s %9.0f %6.3f %13.0f %6.3f %7.0f %7.3f%s\n",
               s->info.symbol, size, t->mma_count, t->mma_count / (double)mma,
               t->copied, t->copied / (double)bytes, t->bank_conflicts, insns,
               has_bar(s) && insns > insns_bar ? "  over the bar" : "");
}

static int measure(struct num_device *device, const struct num_subject *s,
                   const struct mha_shape *shape, bool json, bool first)
{
    struct tile tile = tile_of(s);
    struct num_case *c = mha_case_make(s, shape, 1);
    struct bench_traffic t;
    const char *why = bench_measure_case(device, c, &t);
    int64_t mma, bytes;

    expect(shape, &tile, &mma, &bytes);
    mma *= s->info.heads;
    bytes *= s->info.heads;
    mha_case_free(c);
    print(s, shape, &t, mma, bytes, json, first);
    if (!why && (t.mma_count != (double)mma || t.copied != (double)bytes ||
                 t.bank_conflicts > 0))
        why = "the counters are not what the plan says";
    if (why)
        fprintf(stderr, "kernel-bench: error: %s: %s\n", s->info.symbol, why);
    return why != NULL;
}

int bench_attention(struct num_device *device, const struct num_model *model,
                    bool json)
{
    int failures = 0;
    bool first = true;

    if (json)
        printf(" \"attention\": [");
    else
        printf("%-62s %-14s %9s %6s %13s %6s %7s %7s\n", "kernel", "q x k",
               "mma", "floor", "copied", "floor", "banks", "insn/mma");
    for (int i = 0; i < mla_kernels_count(device->set); i++) {
        struct num_subject s;
        if (num_subject_read(device->ctx, device->set, i, model, &s) ||
            strcmp(s.info.family, mha_family.name))
            continue;
        for (int k = 0; k < SHAPES; k++, first = false)
            failures += measure(device, &s, &shapes[k], json, first);
    }
    printf(json ? "]" : "\n");
    return failures;
}
