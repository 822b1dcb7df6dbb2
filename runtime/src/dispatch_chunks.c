/* SPDX-License-Identifier: Apache-2.0
 *
 * dispatch_chunks.c: how a prefix that does not fit is cut into chunks.
 *
 * Every row gets the same share of the capacity, so chunk c covers the same
 * tokens of all rows; short rows are empty in late chunks.  Numbers are
 * int32 and lie in one block, for one copy to the device: computed once per
 * batch, they serve all layers, and nothing is computed a second time.
 *
 * The arithmetic is that of serving-semantics section 2.1, with two things
 * added: whole pages, for gathers by page, and an error where the share of a
 * row would be nothing.
 */
#include <string.h>

#include "dispatch.h"

/* The block grows to the largest plan made so far and is then reused, so
 * steady serving allocates nothing. */
struct mla_chunks {
    mla_context *ctx;
    int32_t *block;
    size_t room; /* in numbers */
};

/* Nothing is allocated yet for plans: their size depends on the batch. */
mla_status mla_chunks_create(mla_context *ctx, mla_chunks **out)
{
    if (!out)
        return MLA_INVALID_ARGUMENT;
    *out = NULL;
    if (!ctx)
        return MLA_INVALID_ARGUMENT;
    *out = mla__alloc(ctx, sizeof(**out));
    if (!*out)
        return mla__fail(ctx, MLA_OUT_OF_MEMORY, "chunks");
    (*out)->ctx = ctx;
    return MLA_OK;
}

void mla_chunks_free(mla_chunks *chunks)
{
    if (!chunks)
        return;
    mla__free(chunks->ctx, chunks->block);
    mla__free(chunks->ctx, chunks);
}

/* Length and number of the chunks.  A batch without prefixes has none, and
 * plan->count stays 0.  More rows than the capacity has tokens (or pages)
 * would make chunks of length 0, without end: refused. */
static mla_status size_up(mla_chunks *chunks, const int32_t *prefix, int rows,
                          int64_t capacity, int page_size,
                          mla_chunk_plan *plan)
{
    int64_t unit = page_size ? page_size : 1, longest = 0, count;

    for (int i = 0; i < rows; i++) {
        if (prefix[i] < 0)
            return mla__fail(chunks->ctx, MLA_RANGE, "row %d: prefix %d", i,
                             prefix[i]);
        longest = prefix[i] > longest ? prefix[i] : longest;
    }
    plan->rows = rows;
    if (!longest)
        return MLA_OK;
    plan->chunk_len = capacity / rows / unit * unit;
    if (!plan->chunk_len)
        return mla__fail(chunks->ctx, MLA_RANGE,
                         "a capacity of %lld tokens has no %s for each of %d "
                         "rows",
                         (long long)capacity, page_size ? "page" : "token",
                         rows);
    count = (longest + plan->chunk_len - 1) / plan->chunk_len;
    plan->count = (int)count; /* at most longest, an int32 */
    return MLA_OK;
}

/* Room for the six arrays: lens, cu with one more entry per chunk, and four
 * figures.  Moving the block ends the pointers of the plan before. */
static mla_status reserve(mla_chunks *chunks, const mla_chunk_plan *plan)
{
    size_t n = (size_t)plan->count *
               ((size_t)plan->rows + (size_t)plan->rows + 1 + 4);
    int32_t *grown;

    if (n <= chunks->room)
        return MLA_OK;
    grown = chunks->ctx->options.alloc(chunks->ctx->options.alloc_user,
                                       chunks->block, n * sizeof(*grown));
    if (!grown)
        return mla__fail(chunks->ctx, MLA_OUT_OF_MEMORY,
                         "%d chunks of %d rows", plan->count, plan->rows);
    chunks->block = grown;
    chunks->room = n;
    return MLA_OK;
}

/* One chunk: lens[rows], cu[rows + 1], and its four figures. */
static void fill_chunk(const int32_t *prefix, int rows, int64_t start,
                       int64_t chunk_len, int32_t *lens, int32_t *cu,
                       int32_t *figures[4])
{
    int32_t sum = 0, longest = 0, empty = 0;

    for (int i = 0; i < rows; i++) {
        int64_t left = prefix[i] - start;
        int32_t len = (int32_t)(left < 0           ? 0
                                : left < chunk_len ? left
                                                   : chunk_len);
        lens[i] = len;
        cu[i] = sum;
        sum += len;
        longest = len > longest ? len : longest;
        empty |= !len;
    }
    cu[rows] = sum;
    *figures[0]++ = (int32_t)start;
    *figures[1]++ = longest;
    *figures[2]++ = sum;
    *figures[3]++ = empty;
}

/* Lays the arrays out in the block, points the plan at them, and fills them.
 * fill_chunk moves figures[] on, so the plan takes its pointers first. */
static void fill(const mla_chunks *chunks, const int32_t *prefix,
                 mla_chunk_plan *plan)
{
    size_t count = (size_t)plan->count, rows = (size_t)plan->rows;
    int32_t *lens = chunks->block, *cu = lens + count * rows;
    int32_t *figures[4];

    plan->lens = lens;
    plan->cu = cu;
    for (size_t i = 0; i < 4; i++)
        figures[i] = cu + count * (rows + 1) + i * count;
    plan->start = figures[0];
    plan->max_len = figures[1];
    plan->total = figures[2];
    plan->has_empty = figures[3];
    plan->block = lens;
    plan->block_bytes = count * (2 * rows + 5) * sizeof(*lens);
    for (size_t c = 0; c < count; c++)
        fill_chunk(prefix, plan->rows, (int64_t)c * plan->chunk_len,
                   plan->chunk_len, lens + c * rows, cu + c * (rows + 1),
                   figures);
}

/* The capacity is an int32 so that the sums of a chunk, which are at most
 * that, are as well. */
mla_status mla_chunks_plan(mla_chunks *chunks, const int32_t *prefix, int rows,
                           int64_t capacity, int page_size,
                           mla_chunk_plan *out)
{
    mla_chunk_plan plan = {0};
    mla_status status;

    if (!chunks || !out || rows < 0 || (rows && !prefix) || page_size < 0 ||
        capacity < 0 || capacity > INT32_MAX)
        return MLA_INVALID_ARGUMENT;
    status = size_up(chunks, prefix, rows, capacity, page_size, &plan);
    if (!status && plan.count)
        status = reserve(chunks, &plan);
    if (!status && plan.count)
        fill(chunks, prefix, &plan);
    if (status)
        plan = (mla_chunk_plan){0};
    return mla__copy_info(out, &plan, sizeof(plan)) ? MLA_INVALID_ARGUMENT
                                                    : status;
}
