#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# mla_pool.sh: the latent pool through its public face on a driver: the
# virtual GPU, or whatever MLA_DRIVER names.
. "$(dirname "$0")/lib.sh"

cat >pool.c <<'C'
#include <stdio.h>
#include <string.h>
#include "mla.h"

enum { LAYERS = 3, ROW = 64, PAGE = 16, TOKENS = 40 };

static mla_context *ctx;
static mla_pool *pool;
static int (*set_current)(void *), (*synchronize)(void);
static int (*read_back)(void *, uint64_t, size_t);
static int (*stream_create)(void **, unsigned);
static int (*begin)(void *, int), (*end)(void *, void **);

static int look_up(const char *name, void *slot)
{
    void *address;
    int status = mla_driver_symbol(ctx, name, &address);
    memcpy(slot, &address, sizeof(address));
    return status;
}

/* The context in which the pool's memory lives, for calls of our own. */
static int open_driver(void)
{
    int (*retain)(void **, int);
    mla_device_info info = {sizeof(info)};
    void *primary;
    return mla_device(ctx, &info) ||
           look_up("cuDevicePrimaryCtxRetain", &retain) ||
           look_up("cuCtxSetCurrent", &set_current) ||
           look_up("cuCtxSynchronize", &synchronize) ||
           look_up("cuMemcpyDtoH_v2", &read_back) ||
           look_up("cuStreamCreate", &stream_create) ||
           look_up("cuStreamBeginCapture_v2", &begin) ||
           look_up("cuStreamEndCapture", &end) || retain(&primary, 0) ||
           set_current(primary);
}

static int make(int layout)
{
    mla_pool_options o = MLA_POOL_OPTIONS_INIT;
    o.pages = 16;
    o.row_bytes = ROW;
    o.page_size = PAGE;
    o.layers = LAYERS;
    o.layout = layout;
    o.table_width = 8;
    return mla_pool_create(ctx, &o, &pool);
}

static unsigned char rows[LAYERS][TOKENS][ROW], back[LAYERS][TOKENS][ROW];

/* A sequence with known rows, its fork, and both extended by a token. */
static int share(mla_seq seq[2], void *stream)
{
    int32_t n = TOKENS;
    size_t i;
    for (i = 0; i < sizeof(rows); i++)
        (&rows[0][0][0])[i] = (unsigned char)(i * 31 >> 3);
    return mla_pool_add(pool, &seq[0]) ||
           mla_pool_extend(pool, &seq[0], &n, 1, NULL) ||
           mla_pool_import(pool, seq[0], 0, TOKENS, rows, stream) ||
           mla_pool_fork(pool, seq[0], -1, &seq[1]) ||
           mla_pool_extend(pool, seq, NULL, 2, NULL) ||
           mla_pool_flush(pool, stream);
}

static int same(mla_seq seq, void *stream)
{
    memset(back, 0, sizeof(back));
    return !mla_pool_export(pool, seq, 0, TOKENS, back, stream) &&
           !synchronize() && !memcmp(rows, back, sizeof(rows));
}

/* The tables of a step against the host's view of the sequences. */
static int tables(mla_seq seq[2], void *stream)
{
    mla_pool_batch b = {sizeof(b)};
    mla_pool_tables t = {sizeof(t)};
    int32_t lens[2], table[2][8], pages[8];
    int i, n;
    b.seqs = seq;
    b.rows = 2;
    if (mla_pool_step(pool, &b, stream, &t) || synchronize() ||
        read_back(lens, t.seq_lens, sizeof(lens)) ||
        read_back(table, t.block_table, sizeof(table)))
        return 0;
    for (i = 0; i < 2; i++)
        if (mla_pool_pages(pool, seq[i], pages, 8, &n) ||
            memcmp(pages, table[i], (size_t)n * 4) || table[i][n] ||
            lens[i] != TOKENS + 1)
            return 0;
    return 1;
}

static int refused_in_capture(mla_seq *seq, void *stream)
{
    mla_pool_batch b = {sizeof(b)};
    mla_pool_tables t = {sizeof(t)};
    mla_status status;
    void *graph = NULL;
    b.seqs = seq;
    b.rows = 1;
    if (begin(stream, 2))
        return 0;
    status = mla_pool_step(pool, &b, stream, &t);
    return status == MLA_CAPTURING && !end(stream, &graph) && graph;
}

static int all_free(mla_seq seq[2], void *stream)
{
    mla_pool_stats s = {sizeof(s)};
    return !mla_pool_drop(pool, seq[0], stream) &&
           !mla_pool_drop(pool, seq[1], stream) &&
           !mla_pool_reclaim(pool, 1) && !mla_pool_check(pool) &&
           !mla_pool_statistics(pool, &s) && s.free_pages == 15 &&
           !mla_pool_forget(pool, stream);
}

int main(void)
{
    int layout;
    if (mla_context_create(NULL, &ctx) || open_driver()) {
        printf("driver: %s\n", mla_last_error(ctx));
        return 1;
    }
    for (layout = 0; layout < 3; layout++) {
        mla_seq seq[2];
        void *stream;
        if (make(layout) || stream_create(&stream, 0) ||
            share(seq, stream)) {
            printf("pool: %s\n", mla_last_error(ctx));
            return 1;
        }
        printf("%d: rows", layout);
        printf(" %d", same(seq[0], stream));
        printf(" %d", same(seq[1], stream));
        printf(", tables %d", tables(seq, stream));
        printf(", capture %d", refused_in_capture(seq, stream));
        printf(", free %d\n", all_free(seq, stream));
        mla_pool_destroy(pool);
    }
    mla_context_destroy(ctx);
    return 0;
}
C

run "${CC:-cc}" -std=c99 -Wall -Wextra -Wno-missing-field-initializers \
    -Werror pool.c -I"$root/runtime/include" "$BUILD/libmla.so" -o pool
expect_exit 0 "a program that uses the pool compiles as C99"
cp "$BUILD/libmla.so" libmla.so.0
MLA_DRIVER=${MLA_DRIVER:-$BUILD/libvgpu.so}
export MLA_DRIVER
run env LD_LIBRARY_PATH=. ./pool
expect_exit 0 "and runs"
for layout in 0 1 2; do
    expect_stdout "^$layout: rows 1 1," "layout $layout: shared rows stay"
    expect_stdout "^$layout:.* tables 1," "layout $layout: tables arrive"
    expect_stdout "^$layout:.* capture 1," \
        "layout $layout: a capture is refused and goes on"
    expect_stdout "^$layout:.* free 1$" "layout $layout: all pages come back"
done

finish
