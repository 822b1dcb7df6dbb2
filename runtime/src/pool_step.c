/* SPDX-License-Identifier: Apache-2.0
 *
 * pool_step.c: the device's tables, brought up to date once a step.
 *
 * One block of device memory holds, in this order,
 *
 *   seq_lens i32 [max_batch] | cu_q i32 [max_batch + 1] |
 *   slots i64 [max_tokens] | block table i32 [max_batch, stride]
 *
 * and a step copies its beginning, up to the last row in use.  A copy reads
 * host memory when it runs, not when it is enqueued, so the host builds each
 * image in the next of several pinned stages and touches a stage again only
 * when the copy out of it has passed.
 */
#include <string.h>

#include "pool.h"

/* Sections begin where an allocation of their own could, at multiples of 256
 * bytes.  A compact stride changes with the batch; coarse steps keep it from
 * changing, and thereby clearing the stage's tables, with every page. */
enum {
    SECTION_ALIGN = 256,
    COMPACT_ENTRIES = 64 /* compact strides are multiples of so many pages */
};

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* Memory ---------------------------------------------------------------- */

/* Bytes of an image with so many rows: the tables are last for this reason. */
static size_t image_bytes(const mla_pool *pool, int64_t rows, int64_t stride)
{
    return (size_t)(pool->offset_tables + rows * stride);
}

/* Offsets are those of the largest batch, so that addresses are the same in
 * every step.  Rows of the block table begin at multiples of 16 bytes. */
static void lay_out(mla_pool *pool)
{
    const mla_pool_options *o = &pool->options;
    int64_t batch = o->max_batch;

    pool->offset_cu_q = round_up(batch * 4, SECTION_ALIGN);
    pool->offset_slots =
        pool->offset_cu_q + round_up((batch + 1) * 4, SECTION_ALIGN);
    pool->offset_tables =
        pool->offset_slots + round_up(o->max_tokens * 8, SECTION_ALIGN);
    pool->stride = round_up((int64_t)o->table_width * 4, 16);
}

/* Zeroed: table entries that no row has used name page 0, which holds zeros. */
static mla_status make_stage(mla_pool *pool, struct mla__stage *stage)
{
    const struct mla__driver *d = &pool->ctx->driver;
    size_t bytes = image_bytes(pool, pool->options.max_batch, pool->stride);
    void *block;
    int result;

    stage->filled = mla__alloc(pool->ctx, (size_t)pool->options.max_batch *
                                              sizeof(*stage->filled));
    if (!stage->filled)
        return mla__pool_fail(pool, MLA_OUT_OF_MEMORY, "stage of a pool");
    result = d->host_alloc(&block, bytes, 0);
    if (result)
        return mla__pool_cuda_fail(pool, "cuMemHostAlloc", result);
    stage->image = block;
    memset(stage->image, 0, bytes);
    pool->pinned_bytes += bytes;
    stage->stride = pool->stride;
    result = d->event_create(&stage->event, MLA__EVENT_NO_TIMING);
    if (result) {
        stage->event = NULL;
        return mla__pool_cuda_fail(pool, "cuEventCreate", result);
    }
    return MLA_OK;
}

/* One order_event serves all: a stream that waits for it takes note of its
 * last record when the wait is enqueued. */
mla_status mla__tables_create(mla_pool *pool)
{
    const struct mla__driver *d = &pool->ctx->driver;
    mla_status status = MLA_OK;
    size_t bytes;
    int result;

    lay_out(pool);
    bytes = image_bytes(pool, pool->options.max_batch, pool->stride);
    pool->stage = mla__alloc(pool->ctx, (size_t)pool->options.stages *
                                            sizeof(*pool->stage));
    if (!pool->stage)
        return mla__pool_fail(pool, MLA_OUT_OF_MEMORY, "stages of a pool");
    for (int i = 0; i < pool->options.stages && !status; i++)
        status = make_stage(pool, &pool->stage[i]);
    if (status)
        return status;
    result = d->event_create(&pool->order_event, MLA__EVENT_NO_TIMING);
    if (result) {
        pool->order_event = NULL;
        return mla__pool_cuda_fail(pool, "cuEventCreate", result);
    }
    result = d->mem_alloc(&pool->device_tables, bytes);
    if (result) {
        pool->device_tables = 0;
        return mla__pool_cuda_fail(pool, "cuMemAlloc of the tables", result);
    }
    pool->device_bytes += bytes;
    result = d->mem_set(pool->device_tables, 0, bytes);
    return result ? mla__pool_cuda_fail(pool, "cuMemsetD8", result) : MLA_OK;
}

/* Takes one that make_stage left half done. */
static void free_stage(mla_pool *pool, struct mla__stage *stage)
{
    const struct mla__driver *d = &pool->ctx->driver;

    if (stage->event)
        d->event_destroy(stage->event);
    if (stage->image)
        d->host_free(stage->image);
    mla__free(pool->ctx, stage->filled);
}

void mla__tables_destroy(mla_pool *pool)
{
    const struct mla__driver *d = &pool->ctx->driver;

    for (int i = 0; pool->stage && i < pool->options.stages; i++)
        free_stage(pool, &pool->stage[i]);
    mla__free(pool->ctx, pool->stage);
    if (pool->order_event)
        d->event_destroy(pool->order_event);
    if (pool->device_tables)
        d->mem_free(pool->device_tables);
}

/* Checking a batch ------------------------------------------------------ */

/* rows and padded of the tables; padded below rows means no padding. */
static mla_status check_sizes(mla_pool *pool, const mla_pool_batch *b,
                              mla_pool_tables *out)
{
    out->rows = b->rows;
    out->padded = b->padded > b->rows ? b->padded : b->rows;
    if (out->padded > pool->options.max_batch)
        return mla__pool_fail(pool, MLA_RANGE,
                              "%d rows in a step, max_batch is %d",
                              out->padded, pool->options.max_batch);
    return MLA_OK;
}

/* One row, added to tokens and max_seq_len.  The q_len new tokens have been
 * extended into the pool before the step, so the length includes them. */
static mla_status check_row(mla_pool *pool, const mla_pool_batch *b, int i,
                            mla_pool_tables *out)
{
    struct mla__sequence *s;
    int32_t q_len = b->q_lens ? b->q_lens[i] : 1;
    mla_status status = mla__sequence_find(pool, b->seqs[i], &s);

    if (status)
        return status;
    if (q_len < 0 || q_len > s->length)
        return mla__pool_fail(pool, MLA_RANGE,
                              "row %d: q_len %d of a sequence of %lld", i,
                              q_len, (long long)s->length);
    out->tokens += q_len;
    if (s->length > out->max_seq_len)
        out->max_seq_len = s->length;
    return MLA_OK;
}

/* Everything that can be wrong with a batch, before anything is enqueued. */
static mla_status check_batch(mla_pool *pool, const mla_pool_batch *b,
                              mla_pool_tables *out)
{
    mla_status status = check_sizes(pool, b, out);

    for (int i = 0; i < b->rows && !status; i++)
        status = check_row(pool, b, i, out);
    if (!status && out->tokens > pool->options.max_tokens)
        status = mla__pool_fail(pool, MLA_RANGE,
                                "%lld new tokens in a step, max_tokens is "
                                "%lld",
                                (long long)out->tokens,
                                (long long)pool->options.max_tokens);
    return status;
}

/* Building an image ----------------------------------------------------- */

/* Another stride moves every entry, so the old ones go. */
static void set_stride(mla_pool *pool, struct mla__stage *stage,
                       int64_t stride)
{
    size_t rows = (size_t)pool->options.max_batch;

    if (stage->stride == stride)
        return;
    memset(stage->image + pool->offset_tables, 0, rows * (size_t)pool->stride);
    memset(stage->filled, 0, rows * sizeof(*stage->filled));
    stage->stride = stride;
}

/* Copies the pages and clears what an earlier, longer row has left. */
static void write_row(const mla_pool *pool, struct mla__stage *stage, int i,
                      const int32_t *pages, int32_t n)
{
    int32_t *row = (int32_t *)(void *)(stage->image + pool->offset_tables +
                                       i * stage->stride);

    if (n)
        memcpy(row, pages, (size_t)n * sizeof(*row));
    if (stage->filled[i] > n)
        memset(row + n, 0, (size_t)(stage->filled[i] - n) * sizeof(*row));
    stage->filled[i] = n;
}

/* The slots of the q_len newest tokens; returns what follows them. */
static int64_t *write_new(const mla_pool *pool, const struct mla__sequence *s,
                          int32_t q_len, int64_t *slots)
{
    for (int64_t t = s->length - q_len; t < s->length; t++)
        *slots++ = mla__slot(pool, s, t);
    return slots;
}

/* Rows beyond the batch are empty: no keys, no queries, no slots, and a table
 * of zeros.  Handles have been checked, so their index bits suffice. */
static void write_image(const mla_pool *pool, struct mla__stage *stage,
                        const mla_pool_batch *b, int padded)
{
    int32_t *seq_lens = (int32_t *)(void *)stage->image;
    int32_t *cu_q = (int32_t *)(void *)(stage->image + pool->offset_cu_q);
    int64_t *slots = (int64_t *)(void *)(stage->image + pool->offset_slots);

    cu_q[0] = 0;
    for (int i = 0; i < b->rows; i++) {
        const struct mla__sequence *s = &pool->sequence[b->seqs[i] & 0xffffff];
        int32_t q_len = b->q_lens ? b->q_lens[i] : 1;
        seq_lens[i] = (int32_t)s->length;
        cu_q[i + 1] = cu_q[i] + q_len;
        slots = write_new(pool, s, q_len, slots);
        write_row(pool, stage, i, mla__row(pool, s), s->pages);
    }
    for (int i = b->rows; i < padded; i++) {
        seq_lens[i] = 0;
        cu_q[i + 1] = cu_q[i];
        write_row(pool, stage, i, NULL, 0);
    }
}

/* On its way ------------------------------------------------------------ */

/* The next stage, once its last copy has passed. */
static mla_status take_stage(mla_pool *pool, struct mla__stage **out)
{
    const struct mla__driver *d = &pool->ctx->driver;
    struct mla__stage *stage = &pool->stage[pool->next_stage];

    *out = stage;
    if (stage->in_flight) {
        int result = d->event_query(stage->event);
        if (result == MLA__CUDA_NOT_READY) {
            pool->step_waits++;
            result = d->event_wait(stage->event);
        }
        if (result)
            return mla__pool_cuda_fail(pool, "cuEventSynchronize", result);
        stage->in_flight = false;
    }
    return MLA_OK;
}

/* The tables are one piece of memory: a step on another stream must not
 * overwrite what the last one's kernels still read. */
static mla_status order_after_last(mla_pool *pool, void *stream)
{
    const struct mla__driver *d = &pool->ctx->driver;
    int result;

    if (!pool->stepped || pool->last_stream == stream)
        return MLA_OK;
    result = d->event_record(pool->order_event, pool->last_stream);
    if (result)
        return mla__pool_cuda_fail(pool, "cuEventRecord", result);
    result = d->stream_wait(stream, pool->order_event, 0);
    return result ? mla__pool_cuda_fail(pool, "cuStreamWaitEvent", result)
                  : MLA_OK;
}

/* One copy, its event, and only then the books: a stage whose copy was not
 * enqueued is used again by the next step. */
static mla_status send(mla_pool *pool, struct mla__stage *stage, size_t bytes,
                       void *stream)
{
    const struct mla__driver *d = &pool->ctx->driver;
    int result =
        d->mem_write_async(pool->device_tables, stage->image, bytes, stream);
    if (result)
        return mla__pool_cuda_fail(pool, "cuMemcpyHtoDAsync", result);
    /* The event comes after the copy on the same stream: once it has passed,
     * nobody reads the stage any more. */
    result = d->event_record(stage->event, stream);
    if (result) /* without its event the stage is safe only after this */
        d->ctx_synchronize();
    if (result)
        return mla__pool_cuda_fail(pool, "cuEventRecord", result);
    stage->in_flight = true;
    pool->next_stage = (pool->next_stage + 1) % pool->options.stages;
    pool->last_stream = stream;
    pool->stepped = true;
    pool->steps++;
    return MLA_OK;
}

/* Bytes between rows of the block table, in this step. */
static int64_t stride_of(const mla_pool *pool, const mla_pool_batch *b,
                         int64_t max_seq_len)
{
    int64_t pages = mla__pages_for(pool, max_seq_len);
    int64_t compact = round_up(pages ? pages : 1, COMPACT_ENTRIES) * 4;
    return b->compact && compact < pool->stride ? compact : pool->stride;
}

/* Builds the image in the next stage and sends it; out has rows, padded and
 * lengths already, and gets the addresses. */
static mla_status upload(mla_pool *pool, const mla_pool_batch *b, void *stream,
                         mla_pool_tables *out)
{
    struct mla__stage *stage;
    int64_t stride = stride_of(pool, b, out->max_seq_len);
    mla_status status = take_stage(pool, &stage);

    if (status)
        return status;
    set_stride(pool, stage, stride);
    write_image(pool, stage, b, out->padded);
    out->bytes = image_bytes(pool, out->padded, stride);
    out->block_table_stride = stride;
    out->block_table = pool->device_tables + (uint64_t)pool->offset_tables;
    out->seq_lens = pool->device_tables;
    out->cu_q = pool->device_tables + (uint64_t)pool->offset_cu_q;
    out->slots = pool->device_tables + (uint64_t)pool->offset_slots;
    status = order_after_last(pool, stream);
    return status ? status : send(pool, stage, out->bytes, stream);
}

/* Copies come before the tables, and reclaiming after both: the events that
 * seal a release are then recorded behind all that this step enqueues. */
static mla_status step(mla_pool *pool, const mla_pool_batch *b, void *stream,
                       mla_pool_tables *out)
{
    mla_status status = mla__stream_usable(pool, stream, "mla_pool_step");

    if (!status)
        status = check_batch(pool, b, out);
    if (!status)
        status = mla__copies_flush(pool, stream);
    if (!status)
        status = upload(pool, b, stream, out);
    if (!status && pool->waiting_pages)
        status = mla__reclaim(pool, false);
    return status;
}

/* Tables of the caller's header may be shorter than ours, as its batch may. */
mla_status mla_pool_step(mla_pool *pool, const mla_pool_batch *batch,
                         void *stream, mla_pool_tables *out)
{
    mla_pool_batch b = {0};
    mla_pool_tables tables = {0};
    mla_status status;

    if (!pool || !batch || !out || batch->size < sizeof(batch->size))
        return MLA_INVALID_ARGUMENT;
    memcpy(&b, batch, batch->size < sizeof(b) ? batch->size : sizeof(b));
    if (b.rows < 0 || b.padded < 0 || (b.rows && !b.seqs))
        return MLA_INVALID_ARGUMENT;
    pthread_mutex_lock(&pool->lock);
    status = mla__pool_enter(pool);
    if (!status) {
        status = step(pool, &b, stream, &tables);
        mla__pool_leave(pool);
    }
    pthread_mutex_unlock(&pool->lock);
    if (status)
        tables = (mla_pool_tables){0};
    return mla__copy_info(out, &tables, sizeof(tables)) ? MLA_INVALID_ARGUMENT
                                                        : status;
}
