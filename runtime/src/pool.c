/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.c: making and ending a latent pool: options, strides, buffers.
 *
 * All memory is asked for here, the books of the host as well as the buffers
 * of the device, so that a pool that could be made does not run out of memory
 * while it serves; only the queue of pending copies may grow.  Options are
 * judged before anything is made, each by name and with its bounds.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "pool.h"

/* What a pool may be.  Page sizes are those that kernels are made for; layers
 * and row bytes are bounds against nonsense, and keep products in 64 bits. */
enum {
    MAX_PAGE_SIZE = 256,
    MAX_SEQUENCES = (1 << 24) - 1, /* bits of a handle */
    MAX_LAYERS = 4096,
    MAX_ROW_BYTES = 1 << 16,
    ROW_ALIGN = 16 /* what the kernels' wide accesses want */
};

/* 2^31 pages of 2^8 rows of 2^16 bytes are 2^55 bytes: nothing overflows. */
static const double MAX_BYTES = 4e18;

/* Errors and the device ------------------------------------------------- */

/* A pool has an error text of its own, of fixed size: it may be used by
 * several threads at a time, where a context's text is for one. */
mla_status mla__pool_fail(mla_pool *pool, mla_status status,
                          const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(pool->error, sizeof(pool->error), format, list);
    va_end(list);
    mla__log(pool->ctx, MLA_LOG_ERROR, "%s", pool->error);
    return status;
}

/* As mla__cuda_fail, into the pool's text. */
mla_status mla__pool_cuda_fail(mla_pool *pool, const char *call, int result)
{
    const char *name = NULL, *text = NULL;
    pool->ctx->driver.error_name(result, &name);
    pool->ctx->driver.error_text(result, &text);
    return mla__pool_fail(pool, MLA_CUDA, "%s: %s (%d): %s", call,
                          name ? name : "unknown error", result,
                          text ? text : "");
}

mla_status mla__pool_enter(mla_pool *pool)
{
    int result;
    if (pool->options.host_only)
        return MLA_OK;
    result = pool->ctx->driver.ctx_push(pool->ctx->cuda);
    return result ? mla__pool_cuda_fail(pool, "cuCtxPushCurrent", result)
                  : MLA_OK;
}

void mla__pool_leave(mla_pool *pool)
{
    void *mine;
    if (!pool->options.host_only)
        pool->ctx->driver.ctx_pop(&mine);
}

/* Copied under the lock, as another thread may fail meanwhile. */
void mla_pool_last_error(mla_pool *pool, char *text, size_t size)
{
    if (!text || !size)
        return;
    *text = '\0';
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    snprintf(text, size, "%s", pool->error);
    pthread_mutex_unlock(&pool->lock);
}

/* Options --------------------------------------------------------------- */

/* One integer option: its default and its bounds. */
struct bound {
    const char *name;
    int64_t value, least, most;
};

/* Error INVALID_ARGUMENT, with the option, its value and its bounds.  The
 * table is as wide as lengths fit an int32, which is what kernels read; cu_q
 * has one entry more than a batch has rows. */
static mla_status check_bounds(mla_pool *pool)
{
    const mla_pool_options *o = &pool->options;
    const struct bound bounds[] = {
        {"pages", o->pages, 2, INT32_MAX},
        {"row_bytes", o->row_bytes, 1, MAX_ROW_BYTES},
        {"page_size", o->page_size, 1, MAX_PAGE_SIZE},
        {"layers", o->layers, 1, MAX_LAYERS},
        {"layout", o->layout, MLA_LAYER_FIRST, MLA_TOKEN_FIRST},
        {"max_sequences", o->max_sequences, 1, MAX_SEQUENCES},
        {"table_width", o->table_width, 1, INT32_MAX / o->page_size},
        {"max_batch", o->max_batch, 1, INT32_MAX - 1},
        {"max_tokens", o->max_tokens, 1, INT32_MAX},
        {"stages", o->stages, 1, 1024},
    };
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        const struct bound *b = &bounds[i];
        if (b->value < b->least || b->value > b->most)
            return mla__pool_fail(pool, MLA_INVALID_ARGUMENT,
                                  "pool option %s is %lld, must be %lld to "
                                  "%lld",
                                  b->name, (long long)b->value,
                                  (long long)b->least, (long long)b->most);
    }
    if (o->page_size & (o->page_size - 1))
        return mla__pool_fail(pool, MLA_INVALID_ARGUMENT,
                              "pool option page_size is %d, must be a power "
                              "of two",
                              o->page_size);
    return MLA_OK;
}

/* a * b, or the largest aligned number when that is too large: a stride of
 * that size passes check_strides' alignment and is refused for its span. */
static int64_t times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX - ROW_ALIGN + 1
                                                  : product;
}

/* a + b with the same end, for a and b of 0 and more. */
static int64_t plus(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX - ROW_ALIGN + 1
                                              : sum;
}

/* Strides that were not given: the layout packs the axes, innermost first,
 * onto those that were. */
static void pack_strides(mla_pool_options *o)
{
    enum { ROW, PAGE, LAYER };
    static const int inner_first[3][3] = {
        [MLA_LAYER_FIRST] = {ROW, PAGE, LAYER},
        [MLA_PAGE_FIRST] = {ROW, LAYER, PAGE},
        [MLA_TOKEN_FIRST] = {LAYER, ROW, PAGE}};
    int64_t *stride[3] = {&o->row_stride, &o->page_stride, &o->layer_stride};
    const int64_t count[3] = {o->page_size, o->pages, o->layers};
    int64_t packed = o->row_bytes;

    for (int i = 0; i < 3; i++) {
        int axis = inner_first[o->layout][i];
        if (!*stride[axis])
            *stride[axis] = packed;
        packed = times(*stride[axis], count[axis]);
    }
}

/* Bytes from the first byte of the first row to the last of the last; a
 * double, as absurd options must not overflow. */
static double span(const mla_pool_options *o)
{
    double layers = o->buffers ? 0 : o->layers - 1;
    return layers * (double)o->layer_stride +
           (double)(o->pages - 1) * (double)o->page_stride +
           (double)(o->page_size - 1) * (double)o->row_stride +
           (double)o->row_bytes;
}

/* Rows of a page must not overlap, nor pages.  Layers need only be a row
 * apart: in MLA_TOKEN_FIRST they lie between the rows of a page. */
static mla_status check_strides(mla_pool *pool)
{
    const mla_pool_options *o = &pool->options;
    const struct bound strides[] = {
        {"row_stride", o->row_stride, o->row_bytes, INT64_MAX},
        {"page_stride", o->page_stride,
         plus(times(o->page_size - 1, o->row_stride), o->row_bytes), INT64_MAX},
        {"layer_stride", o->layer_stride, o->row_bytes, INT64_MAX}};

    for (size_t i = 0; i < 3; i++) {
        const struct bound *s = &strides[i];
        if (s->value < s->least)
            return mla__pool_fail(pool, MLA_INVALID_ARGUMENT,
                                  "pool option %s is %lld, must be at least "
                                  "%lld",
                                  s->name, (long long)s->value,
                                  (long long)s->least);
        if (s->value % ROW_ALIGN)
            return mla__pool_fail(pool, MLA_MISALIGNED,
                                  "pool option %s is %lld, must be a "
                                  "multiple of %d",
                                  s->name, (long long)s->value, ROW_ALIGN);
    }
    if (span(o) > MAX_BYTES)
        return mla__pool_fail(pool, MLA_INVALID_ARGUMENT, "pool of %.3g bytes",
                              span(o));
    return MLA_OK;
}

/* The defaults that mla.h states; a 0 stands for them. */
static void fill_defaults(mla_pool_options *o)
{
    if (!o->page_size)
        o->page_size = 64;
    if (!o->layers)
        o->layers = 1;
    if (!o->max_sequences)
        o->max_sequences = 256;
    if (!o->table_width)
        o->table_width = 1024;
    if (!o->max_batch)
        o->max_batch = o->max_sequences;
    if (!o->max_tokens)
        o->max_tokens = 8192;
    if (!o->stages)
        o->stages = 4;
}

/* The caller's options, as far as its header has them, with defaults
 * and strides filled in.  Options up to row_bytes are the least that
 * makes a pool. */
static mla_status read_options(mla_pool *pool, const mla_pool_options *given)
{
    mla_pool_options *o = &pool->options;
    size_t size = given->size;
    mla_status status;

    if (size < offsetof(mla_pool_options, page_size))
        return mla__pool_fail(pool, MLA_INVALID_ARGUMENT,
                              "mla_pool_options.size is %zu", size);
    memcpy(o, given, size < sizeof(*o) ? size : sizeof(*o));
    o->size = sizeof(*o);
    fill_defaults(o);
    if (o->page_size < 1) /* check_bounds divides by it */
        return mla__pool_fail(pool, MLA_INVALID_ARGUMENT,
                              "pool option page_size is %d", o->page_size);
    status = check_bounds(pool);
    if (status)
        return status;
    pack_strides(o);
    return check_strides(pool);
}

/* Buffers --------------------------------------------------------------- */

/* Whether copies may span layers: only in the pool's own, packed memory. */
static void find_blocks(mla_pool *pool)
{
    const mla_pool_options *o = &pool->options;
    bool packed = !o->buffers || o->layers == 1;

    pool->page_in_one =
        packed && o->row_stride == o->row_bytes &&
        (o->layers == 1 || o->layer_stride == o->page_size * o->row_stride) &&
        o->page_stride == o->layers * o->page_size * o->row_stride;
    pool->tokens_in_one =
        packed && (o->layers == 1 || o->layer_stride == o->row_bytes) &&
        o->row_stride == o->layers * o->row_bytes;
}

/* A padded row of a graph reads page 0, so that must hold numbers.  In one
 * piece where all layers are together, else by layer, else row by row. */
static mla_status zero_page(mla_pool *pool)
{
    const mla_pool_options *o = &pool->options;
    const struct mla__driver *d = &pool->ctx->driver;
    bool whole = pool->page_in_one || pool->tokens_in_one;
    int layers = whole ? 1 : o->layers, result = 0;
    int block = whole || o->row_stride == o->row_bytes ? o->page_size : 1;
    int64_t bytes = (whole ? (int64_t)o->layers : 1) * block * o->row_bytes;

    for (int l = 0; l < layers && !result; l++)
        for (int r = 0; r < o->page_size && !result; r += block)
            result =
                d->mem_set(pool->buffer[l] + (uint64_t)(r * o->row_stride), 0,
                           (size_t)bytes);
    return result ? mla__pool_cuda_fail(pool, "cuMemsetD8", result) : MLA_OK;
}

/* One allocation for all layers, or the caller's addresses; then page 0 is
 * zeroed in either case. */
static mla_status make_buffers(mla_pool *pool)
{
    const mla_pool_options *o = &pool->options;
    size_t bytes = (size_t)span(o);
    char call[64];
    int result;

    if (!o->buffers) {
        snprintf(call, sizeof(call), "cuMemAlloc of %zu bytes", bytes);
        result = pool->ctx->driver.mem_alloc(&pool->owned, bytes);
        if (result) {
            pool->owned = 0;
            return mla__pool_cuda_fail(pool, call, result);
        }
        pool->device_bytes += bytes;
    }
    for (int l = 0; l < o->layers; l++)
        pool->buffer[l] = o->buffers
                              ? o->buffers[l]
                              : pool->owned + (uint64_t)(l * o->layer_stride);
    pool->options.buffers = NULL; /* the caller's array may go */
    return zero_page(pool);
}

/* Books ----------------------------------------------------------------- */

/* Memory that is not zeroed: a table of 4,096 long sequences is large, and
 * only what sequences use of it is ever touched. */
static void *raw_alloc(mla_context *ctx, int64_t count, int64_t bytes)
{
    if (count > INT64_MAX / bytes)
        return NULL;
    return ctx->options.alloc(ctx->options.alloc_user, NULL,
                              (size_t)(count * bytes));
}

/* Everything that the books of the host need, once and for all.  Page ids 1
 * and up are free in order, so a fresh pool hands out neighbours; sequences
 * are chained through `next`. */
static mla_status make_books(mla_pool *pool)
{
    const mla_pool_options *o = &pool->options;
    int64_t cells = (int64_t)o->max_sequences * o->table_width;

    pool->page = mla__alloc(pool->ctx, (size_t)o->pages * sizeof(*pool->page));
    pool->sequence = mla__alloc(pool->ctx, (size_t)o->max_sequences *
                                               sizeof(*pool->sequence));
    pool->buffer =
        mla__alloc(pool->ctx, (size_t)o->layers * sizeof(*pool->buffer));
    pool->ring = raw_alloc(pool->ctx, o->pages - 1, sizeof(*pool->ring));
    pool->table = raw_alloc(pool->ctx, cells, sizeof(*pool->table));
    if (!pool->page || !pool->sequence || !pool->buffer || !pool->ring ||
        !pool->table)
        return mla__pool_fail(pool, MLA_OUT_OF_MEMORY,
                              "books of a pool of %lld pages",
                              (long long)o->pages);
    pool->free_pages = o->pages - 1;
    for (int32_t i = 0; i < pool->free_pages; i++)
        pool->ring[i] = i + 1;
    pool->free_last = o->max_sequences - 1;
    for (int32_t i = 0; i < o->max_sequences; i++)
        pool->sequence[i].next = i < pool->free_last ? i + 1 : -1;
    pool->open.first = pool->open.last = MLA__NO_PAGE;
    return MLA_OK;
}

/* Pools of one context differ in their tags, those of two almost surely. */
static uint32_t make_tag(mla_context *ctx)
{
    uint64_t seed = (uint64_t)(uintptr_t)ctx * 0x9e3779b97f4a7c15u;
    return (uint32_t)(((seed >> 40) + ctx->pools++) % 0xffff) + 1;
}

/* Create and destroy ---------------------------------------------------- */

/* Fills the pool; what is there on failure is mla_pool_destroy's to free.  The
 * step's tables come last: a host_only pool ends with its books. */
static mla_status build(mla_pool *pool, const mla_pool_options *options)
{
    mla_status status = read_options(pool, options);

    if (!status && pthread_mutex_init(&pool->lock, NULL))
        status = mla__pool_fail(pool, MLA_OUT_OF_MEMORY, "pool mutex");
    if (status)
        return status;
    pool->lock_made = true;
    pool->tag = make_tag(pool->ctx);
    find_blocks(pool);
    status = make_books(pool);
    if (status || pool->options.host_only)
        return status;
    status = mla__pool_enter(pool);
    if (status)
        return status;
    status = make_buffers(pool);
    if (!status)
        status = mla__tables_create(pool);
    mla__pool_leave(pool);
    return status;
}

/* Header versions before host_only mean a pool with a device.  Of a pool that
 * cannot be made, the error text moves to the context before it is freed. */
mla_status mla_pool_create(mla_context *ctx, const mla_pool_options *options,
                           mla_pool **out)
{
    mla_status status = MLA_OK;
    mla_pool *pool;

    if (!out)
        return MLA_INVALID_ARGUMENT;
    *out = NULL;
    if (!ctx || !options)
        return MLA_INVALID_ARGUMENT;
    if (options->size < sizeof(*options) || !options->host_only)
        status = mla__device_open(ctx);
    if (status)
        return status;
    pool = mla__alloc(ctx, sizeof(*pool));
    if (!pool)
        return mla__fail(ctx, MLA_OUT_OF_MEMORY, "pool");
    pool->ctx = ctx;
    status = build(pool, options);
    if (status) {
        mla__fail(ctx, status, "%s", pool->error);
        mla_pool_destroy(pool);
        return status;
    }
    *out = pool;
    return MLA_OK;
}

/* Waits for the whole device first: kernels may still read rows or tables. */
static void free_device(mla_pool *pool)
{
    const struct mla__driver *d = &pool->ctx->driver;

    if (mla__pool_enter(pool))
        return;
    d->ctx_synchronize();
    mla__tables_destroy(pool);
    for (int i = 0; i < MLA__POOL_RELEASES; i++)
        for (int k = 0; k < MLA__POOL_STREAMS; k++)
            if (pool->sealed[i].event[k])
                d->event_destroy(pool->sealed[i].event[k]);
    if (pool->owned)
        d->mem_free(pool->owned);
    mla__pool_leave(pool);
}

void mla_pool_destroy(mla_pool *pool)
{
    if (!pool)
        return;
    if (pool->lock_made && !pool->options.host_only)
        free_device(pool);
    mla__free(pool->ctx, pool->page);
    mla__free(pool->ctx, pool->sequence);
    mla__free(pool->ctx, pool->buffer);
    mla__free(pool->ctx, pool->ring);
    mla__free(pool->ctx, pool->table);
    mla__free(pool->ctx, pool->copy);
    if (pool->lock_made)
        pthread_mutex_destroy(&pool->lock);
    mla__free(pool->ctx, pool);
}

/* Descriptions ---------------------------------------------------------- */

/* Without the lock, as nothing of this changes after create. */
mla_status mla_pool_describe(mla_pool *pool, mla_pool_info *info)
{
    mla_pool_info known;

    if (!pool)
        return MLA_INVALID_ARGUMENT;
    const mla_pool_options *o = &pool->options;
    known = (mla_pool_info){
        .pages = o->pages,
        .row_bytes = o->row_bytes,
        .row_stride = o->row_stride,
        .page_stride = o->page_stride,
        .layer_stride = o->layer_stride,
        .page_size = o->page_size,
        .layers = o->layers,
        .max_sequences = o->max_sequences,
        .table_width = o->table_width,
        .max_batch = o->max_batch,
        .stages = o->stages,
        .max_tokens = o->max_tokens,
        .device_bytes = pool->device_bytes,
        .pinned_bytes = pool->pinned_bytes,
    };
    return mla__copy_info(info, &known, sizeof(known));
}

uint64_t mla_pool_buffer(mla_pool *pool, int layer)
{
    if (!pool || layer < 0 || layer >= pool->options.layers)
        return 0;
    return pool->buffer[layer];
}
