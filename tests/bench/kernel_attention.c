/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel_attention.c: one launch of mha per shape, its counters beside what
 * its plan says they have to be.
 *
 * Exact are the MMAs (none for a tile that no row of a warp sees), the bytes
 * that blocks copy (their query rows once, each key row that some of their rows
 * see once) and the bank conflicts (none).  Warp instructions per MMA have a
 * bar at the widths of DeepSeek-V3.
 *
 * A kernel of wgmmas is held to the clocks of its MMAs (none for a tile that no
 * row of a warpgroup sees), to those of the shared-memory port (operands of
 * wgmma, what TMA writes, Q on its way to registers), and to the same bytes;
 * its instructions count per 16 x 8 x 16 products, as the others' do.
 */
#include <stdio.h>
#include <string.h>

#include "decode.h"
#include "kernel_bench.h"
#include "mha.h"

/* Warp instructions per MMA. */
static const double insns_bar = 3.2;
/* 2,000 per 64 x 128 block of 1,280 (facts: hopper-mha.md, section 4), and as
 * much again for what a block of rows takes beside its tiles; see bar_of. */
static const double wgmma_insns_bar = 2000.0 / 1280, wgmma_block_insns = 11000;

/* A causal prefill, and new tokens against a long prefix. */
static const struct mha_shape shapes[] = {
    {.group = "bench",
     MHA_REQUESTS({512, 512}),
     .values = MHA_UNCHECKED,
     .flags = MHA_CAUSAL},
    {.group = "bench", MHA_REQUESTS({256, 2048}), .values = MHA_UNCHECKED},
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

/* How a kernel cuts its work, from the manifest's tile. */
struct tile {
    int64_t rows, keys, warp_rows, mma; /* mma: of a warp, per tile of keys */
    int64_t query_bytes, key_bytes, chunks; /* bytes of a row */
    /* Clocks per warpgroup and tile of keys, the rest of the port's per tile
     * and per block of rows; 0: no wgmmas. */
    int64_t clocks, operands, tile_writes, block_writes;
    int64_t shared; /* blocks that share their tiles of keys */
};

/* What a head takes: MMAs, or their clocks; bytes copied; clocks of the port;
 * and blocks of rows. */
struct expected {
    int64_t mma, bytes, port, blocks;
};

enum { PORT_BYTES = 128, GROUP_ROWS = 64 };

/* From the manifest's tile: m, n, and what the plans of mha add to them. */
static struct tile tile_of(const struct num_subject *s)
{
    int64_t dims = decode_tile_number(s, "dims");
    int64_t columns = decode_tile_number(s, "columns");
    struct tile t = {.rows = decode_tile_number(s, "m"),
                     .keys = decode_tile_number(s, "n"),
                     .warp_rows = 16 * decode_tile_number(s, "mt"),
                     .chunks = decode_tile_number(s, "column_chunks"),
                     .shared = 1};

    t.query_bytes = 2 * dims;
    t.key_bytes = 2 * (dims + columns);
    if (decode_tile_number(s, "group_rows") == GROUP_ROWS) {
        int64_t held = decode_tile_number(s, "held");
        int64_t stage = decode_tile_number(s, "k_bytes") +
                        decode_tile_number(s, "v_bytes");
        t.warp_rows = GROUP_ROWS;
        t.chunks = 1;
        t.shared = decode_tile_number(s, "cluster");
        t.clocks = t.keys / 2 * (dims / 16) + t.keys / 16 * (columns / 2);
        t.operands = (t.keys * t.key_bytes +
                      (dims / 16 - held) * GROUP_ROWS * 16 * 2) / PORT_BYTES;
        t.tile_writes = stage / PORT_BYTES;
        t.block_writes = (decode_tile_number(s, "q_bytes") +
                          t.rows * 32 * held) / PORT_BYTES;
    }
    t.mma = t.clocks ? t.clocks
                     : t.warp_rows / 16 * t.keys / 8 * (dims + columns) / 16;
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

static int64_t tiles_of(int64_t keys, const struct tile *t)
{
    return (keys + t->keys - 1) / t->keys;
}

static struct expected expect(const struct mha_shape *shape,
                              const struct tile *t)
{
    int64_t q = shape->request->q;
    struct expected e = {0, 0, 0, 0};

    for (int64_t row = 0; row < q; row += t->warp_rows) {
        int64_t tiles =
            tiles_of(seen(shape, least(row + t->warp_rows, q)), t);
        e.mma += t->chunks * t->mma * tiles;
        e.port += t->operands * tiles;
    }
    for (int64_t row = 0, rows = t->shared * t->rows; row < q; row += rows) {
        int64_t end = least(row + rows, q), keys = seen(shape, end);
        e.bytes += t->chunks * ((end - row) * t->query_bytes +
                                keys * t->key_bytes);
        e.port += t->shared * (t->block_writes +
                               t->tile_writes * tiles_of(keys, t));
        e.blocks += t->shared;
    }
    return e;
}

/* The bar is for the widths of DeepSeek-V3, 128 + 64 and 128. */
static bool has_bar(const struct num_subject *s)
{
    return s->info.nope == 128 && s->info.rope == 64 && s->info.v == 128;
}

/* Instructions per MMA that a shape may take. */
static double bar_of(const struct tile *tile, const struct expected *e,
                     const struct bench_traffic *t)
{
    if (!tile->clocks)
        return insns_bar;
    return wgmma_insns_bar +
           wgmma_block_insns * (double)e->blocks / bench_mmas(t);
}

/* Each figure over its floor, which the plan gives exactly. */
static void print(const struct num_subject *s, const struct mha_shape *shape,
                  const struct tile *tile, const struct bench_traffic *t,
                  const struct expected *e, bool json, bool first)
{
    double insns = t->warp_insns / bench_mmas(t);
    double mma = tile->clocks ? t->mma_cycles : t->mma_count;
    double copied = tile->clocks ? t->tma : t->copied;
    bool over = has_bar(s) && insns > bar_of(tile, e, t);
    char size[32];

    snprintf(size, sizeof(size), "%dx%d%s", shape->request->q,
             shape->request->k, shape->flags & MHA_CAUSAL ? " causal" : "");
    if (json)
        printf("%s\n  {\"kernel\": \"%s\", \"shape\": \"%s\", \"mma\": %.0f, "
               "\"mma_floor\": %lld, \"copied\": %.0f, \"copied_floor\": %lld, "
               "\"warp_insns\": %.0f, \"conflicts\": %.0f, \"port\": %.0f}",
               first ? "" : ",", s->info.symbol, size, mma, (long long)e->mma,
               copied, (long long)e->bytes, t->warp_insns, t->bank_conflicts,
               t->port_cycles);
    else
        printf("%-62s %-14s %9.0f %6.3f %13.0f %6.3f %7.0f %7.3f %6.3f%s\n",
               s->info.symbol, size, mma, mma / (double)e->mma, copied,
               copied / (double)e->bytes, t->bank_conflicts, insns,
               tile->clocks ? t->port_cycles / t->mma_cycles : 0,
               over ? "  over the bar" : "");
}

/* Whether the counters are what the plan says. */
static bool as_planned(const struct tile *tile, const struct bench_traffic *t,
                       const struct expected *e)
{
    if (tile->clocks)
        return t->mma_cycles == (double)e->mma &&
               t->tma == (double)e->bytes &&
               t->port_cycles == (double)e->port && t->bank_conflicts == 0;
    return t->mma_count == (double)e->mma && t->copied == (double)e->bytes &&
           t->bank_conflicts == 0;
}

/* One kernel on one shape; 1: the counters are not what they have to be. */
static int measure(struct num_device *device, const struct num_subject *s,
                   const struct mha_shape *shape, bool json, bool first)
{
    struct tile tile = tile_of(s);
    struct num_case *c = mha_case_make(s, shape, 1);
    struct bench_traffic t;
    const char *why = bench_measure_case(device, c, &t);
    struct expected e = expect(shape, &tile);

    e.mma *= s->info.heads;
    e.bytes *= s->info.heads;
    e.port *= s->info.heads;
    e.blocks *= s->info.heads;
    mha_case_free(c);
    print(s, shape, &tile, &t, &e, json, first);
    bench_note(s, shape->flags & MHA_CAUSAL ? "causal" : "full", &t);
    if (!why && !as_planned(&tile, &t, &e))
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
        printf("%-62s %-14s %9s %6s %13s %6s %7s %7s %6s\n", "kernel",
               "q x k", "mma", "floor", "copied", "floor", "banks",
               "insn/mma", "port");
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
