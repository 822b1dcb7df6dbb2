/* SPDX-License-Identifier: Apache-2.0
 *
 * pool_rows.c: rows on the move: pending copies on the device, and the rows
 * of a sequence to and from host memory.
 *
 * Only bytes of rows are ever copied: what lies between rows or pages when
 * strides are wider than that may be somebody else's.
 */
#include "pool.h"

/* Where a row of a layer begins. */
static uint64_t row_at(const mla_pool *pool, int layer, int64_t page,
                       int64_t row)
{
    return pool->buffer[layer] + (uint64_t)(page * pool->options.page_stride +
                                            row * pool->options.row_stride);
}

/* Whether the rows of a page follow each other without a gap. */
static bool rows_touch(const mla_pool *pool)
{
    return pool->options.row_stride == pool->options.row_bytes;
}

/* Pending copies -------------------------------------------------------- */

/* One copy within the device, enqueued on the stream. */
static mla_status copy_bytes(mla_pool *pool, uint64_t to, uint64_t from,
                             int64_t bytes, void *stream)
{
    int result =
        pool->ctx->driver.mem_copy_async(to, from, (size_t)bytes, stream);
    return result ? mla__pool_cuda_fail(pool, "cuMemcpyDtoDAsync", result)
                  : MLA_OK;
}

/* Row by row where rows have gaps, else all rows at once. */
static mla_status copy_in_layer(mla_pool *pool, const mla_pool_copy *c,
                                int layer, void *stream)
{
    int64_t bytes = pool->options.row_bytes;
    int32_t block = rows_touch(pool) ? c->rows : 1;
    mla_status status = MLA_OK;

    for (int32_t r = 0; r < c->rows && !status; r += block)
        status =
            copy_bytes(pool, row_at(pool, layer, c->to_page, c->to_row + r),
                       row_at(pool, layer, c->from_page, c->from_row + r),
                       block * bytes, stream);
    return status;
}

/* In one piece where the layout allows: a fresh page with all its layers,
 * dead rows included, or tokens with all their layers. */
static mla_status copy_rows(mla_pool *pool, const struct mla__copy *copy,
                            void *stream)
{
    const mla_pool_copy *c = &copy->rows;
    mla_status status = MLA_OK;

    if (pool->page_in_one && copy->fresh)
        return copy_bytes(pool, row_at(pool, 0, c->to_page, 0),
                          row_at(pool, 0, c->from_page, 0),
                          pool->options.page_stride, stream);
    if (pool->tokens_in_one)
        return copy_bytes(pool, row_at(pool, 0, c->to_page, c->to_row),
                          row_at(pool, 0, c->from_page, c->from_row),
                          c->rows * pool->options.row_stride, stream);
    for (int l = 0; l < pool->options.layers && !status; l++)
        status = copy_in_layer(pool, c, l, stream);
    return status;
}

/* What has been enqueued is forgotten even if a later copy fails, so that a
 * second attempt does not do it twice. */
mla_status mla__copies_flush(mla_pool *pool, void *stream)
{
    mla_status status = MLA_OK;
    int done = 0;

    while (done < pool->copies && !status) {
        status = copy_rows(pool, &pool->copy[done], stream);
        done += !status;
    }
    mla__copies_done(pool, done);
    return status;
}

static mla_status flush(mla_pool *pool, void *stream)
{
    mla_status status = mla__stream_usable(pool, stream, "mla_pool_flush");

    return status ? status : mla__copies_flush(pool, stream);
}

mla_status mla_pool_flush(mla_pool *pool, void *stream)
{
    mla_status status;

    if (!pool)
        return MLA_INVALID_ARGUMENT;
    pthread_mutex_lock(&pool->lock);
    status = mla__pool_enter(pool);
    if (!status) {
        status = flush(pool, stream);
        mla__pool_leave(pool);
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

/* Export and import ----------------------------------------------------- */

/* A transfer: tokens of a sequence, host memory, direction. */
struct transfer {
    const struct mla__sequence *s;
    int64_t first, n;
    char *host;
    bool import;
    void *stream;
};

/* Enqueues one copy of rows that lie side by side on the device and, as the
 * host's layout has no gaps, there as well. */
static mla_status transfer_block(mla_pool *pool, const struct transfer *t,
                                 int layer, int64_t token, int64_t rows)
{
    const struct mla__driver *d = &pool->ctx->driver;
    int64_t size = pool->options.page_size, bytes = pool->options.row_bytes;
    uint64_t device =
        row_at(pool, layer, mla__row(pool, t->s)[token / size], token % size);
    char *host = t->host + (layer * t->n + token - t->first) * bytes;
    int result = t->import
                     ? d->mem_write_async(device, host, (size_t)(rows * bytes),
                                          t->stream)
                     : d->mem_read_async(host, device, (size_t)(rows * bytes),
                                         t->stream);

    return result ? mla__pool_cuda_fail(pool,
                                        t->import ? "cuMemcpyHtoDAsync"
                                                  : "cuMemcpyDtoHAsync",
                                        result)
                  : MLA_OK;
}

/* How many tokens from `token` on, below end, lie side by side in a layer:
 * within the page, or over pages that happen to be neighbours. */
static int64_t run_length(const mla_pool *pool, const struct mla__sequence *s,
                          int64_t token, int64_t end)
{
    const mla_pool_options *o = &pool->options;
    const int32_t *row = mla__row(pool, s);
    bool pages_touch = o->page_stride == o->page_size * o->row_stride;
    int64_t stop = (token / o->page_size + 1) * o->page_size;

    if (!rows_touch(pool))
        return 1;
    while (pages_touch && stop < end &&
           row[stop / o->page_size] == row[stop / o->page_size - 1] + 1)
        stop += o->page_size;
    return (stop < end ? stop : end) - token;
}

/* Layer by layer, as the host's rows[layers][n] are. */
static mla_status transfer_all(mla_pool *pool, const struct transfer *t)
{
    int64_t end = t->first + t->n, rows;
    mla_status status = MLA_OK;

    for (int l = 0; l < pool->options.layers; l++)
        for (int64_t token = t->first; token < end && !status; token += rows) {
            rows = run_length(pool, t->s, token, end);
            status = transfer_block(pool, t, l, token, rows);
        }
    return status;
}

/* Everything is checked before the first page changes.  Pending copies go
 * first: an export must see the rows that they bring, and an import must not
 * be overwritten by them. */
static mla_status transfer(mla_pool *pool, mla_seq seq, struct transfer *t)
{
    struct mla__sequence *s;
    const char *call = t->import ? "mla_pool_import" : "mla_pool_export";
    mla_status status = mla__sequence_find(pool, seq, &s);

    if (!status)
        status = mla__sequence_range(pool, s, t->first, t->n);
    if (!status)
        status = mla__stream_usable(pool, t->stream, call);
    if (!status && t->import)
        status = mla__own(pool, s, t->first, t->n);
    if (!status)
        status = mla__copies_flush(pool, t->stream);
    t->s = s;
    return status ? status : transfer_all(pool, t);
}

/* Export and import: the same steps with the direction in *t. */
static mla_status locked_transfer(mla_pool *pool, mla_seq seq,
                                  struct transfer *t)
{
    mla_status status;

    if (!pool || (t->n && !t->host))
        return MLA_INVALID_ARGUMENT;
    pthread_mutex_lock(&pool->lock);
    status = mla__pool_enter(pool);
    if (!status) {
        status = transfer(pool, seq, t);
        mla__pool_leave(pool);
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

mla_status mla_pool_export(mla_pool *pool, mla_seq seq, int64_t first,
                           int64_t n, void *rows, void *stream)
{
    struct transfer t = {NULL, first, n, rows, false, stream};
    return locked_transfer(pool, seq, &t);
}

mla_status mla_pool_import(mla_pool *pool, mla_seq seq, int64_t first,
                           int64_t n, const void *rows, void *stream)
{
    /* Host memory is only written to by an export. */
    struct transfer t = {NULL, first, n, (char *)(uintptr_t)rows,
                         true, stream};
    return locked_transfer(pool, seq, &t);
}
