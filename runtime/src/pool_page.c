/* SPDX-License-Identifier: Apache-2.0
 *
 * pool_page.c: the states of pages, and when a stream has let go of one.
 *
 * A page that nobody refers to any more may still be read or written by
 * kernels that are already enqueued.  It goes into the open release.  Sealing
 * a release records one event on every stream that the pool knows: each
 * event comes after all that was enqueued when the page was let go, so once
 * all have passed, nothing can touch the page.  Sealing late is safe, it
 * only takes longer; so it happens once a step and when pages run short,
 * not at every drop.
 */
#include "pool.h"

/* States ---------------------------------------------------------------- */

/* To the end of the ring.  Its room is the number of pages that can be free,
 * so it is never full. */
static void push_free(mla_pool *pool, int32_t page)
{
    int64_t room = pool->options.pages - 1;
    int64_t at = pool->ring_head + pool->free_pages++;
    pool->ring[at < room ? at : at - room] = page;
}

/* From the front: the page that has been free for longest. */
int32_t mla__page_take(mla_pool *pool)
{
    int32_t page = pool->ring[pool->ring_head++];

    if (pool->ring_head == pool->options.pages - 1)
        pool->ring_head = 0;
    pool->free_pages--;
    pool->page[page].refs = 1;
    if (++pool->used_pages > pool->peak_pages)
        pool->peak_pages = pool->used_pages;
    return page;
}

/* Neither used nor pinned any more.  Without a device nobody can still be
 * reading, so the page is free at once. */
static void let_go(mla_pool *pool, int32_t page)
{
    struct mla__release *open = &pool->open;

    if (pool->options.host_only) {
        push_free(pool, page);
        return;
    }
    pool->page[page].next = MLA__NO_PAGE;
    if (open->count++)
        pool->page[open->last].next = page;
    else
        open->first = page;
    open->last = page;
    pool->waiting_pages++;
}

void mla__page_ref(mla_pool *pool, int32_t page)
{
    if (++pool->page[page].refs == 2)
        pool->shared_pages++;
}

/* shared_pages counts pages with more than one reference, and changes here and
 * in mla__page_ref only. */
void mla__page_unref(mla_pool *pool, int32_t page)
{
    struct mla__page *p = &pool->page[page];

    if (--p->refs == 1)
        pool->shared_pages--;
    if (p->refs)
        return;
    pool->used_pages--;
    if (p->pins)
        pool->pinned_pages++;
    else
        let_go(pool, page);
}

void mla__page_pin(mla_pool *pool, int32_t page)
{
    pool->page[page].pins++;
}

/* A copy that is enqueued reads its page in stream order like any kernel, so
 * the page waits for the streams from here on. */
void mla__page_unpin(mla_pool *pool, int32_t page)
{
    struct mla__page *p = &pool->page[page];

    if (--p->pins || p->refs)
        return;
    pool->pinned_pages--;
    let_go(pool, page);
}

/* Streams --------------------------------------------------------------- */

mla_status mla__stream_know(mla_pool *pool, void *stream)
{
    if (pool->options.host_only)
        return MLA_OK;
    for (int i = 0; i < pool->streams; i++)
        if (pool->stream[i] == stream)
            return MLA_OK;
    if (pool->streams == MLA__POOL_STREAMS)
        return mla__pool_fail(pool, MLA_STREAMS,
                              "the pool knows %d streams already; "
                              "mla_pool_forget those that are gone",
                              pool->streams);
    pool->stream[pool->streams++] = stream;
    return MLA_OK;
}

/* Whether work for the stream would end up in a graph, or break a capture. */
static mla_status ask_capturing(mla_pool *pool, void *stream, bool *out)
{
    int result = mla__capturing(&pool->ctx->driver, stream, out);

    if (!result)
        return MLA_OK;
    return mla__pool_cuda_fail(pool, "cuStreamIsCapturing", result);
}

/* Error CAPTURING: work that is recorded into a graph would be done again by
 * every replay, while the books have it once. */
static mla_status refuse_capture(mla_pool *pool, const char *call)
{
    return mla__pool_fail(pool, MLA_CAPTURING,
                          "%s: the stream is being captured; call it before "
                          "the capture and before every replay",
                          call);
}

/* For calls that enqueue work of the pool's own on the stream. */
mla_status mla__stream_usable(mla_pool *pool, void *stream, const char *call)
{
    mla_status status;
    bool capturing;

    if (pool->options.host_only)
        return mla__pool_fail(pool, MLA_INVALID_ARGUMENT,
                              "%s: a host_only pool has no device", call);
    status = ask_capturing(pool, stream, &capturing);
    if (status)
        return status;
    if (capturing)
        return refuse_capture(pool, call);
    return mla__stream_know(pool, stream);
}

/* Whether some stream of the pool is being captured: its events must neither
 * be recorded nor asked for then. */
static mla_status any_capturing(mla_pool *pool, bool *out)
{
    mla_status status = MLA_OK;

    *out = false;
    for (int i = 0; i < pool->streams && !status && !*out; i++)
        status = ask_capturing(pool, pool->stream[i], out);
    return status;
}

/* Releases -------------------------------------------------------------- */

/* Events of a release are made at its first use and kept.  An event of the
 * i-th stream known is the release's i-th; mla_pool_forget, which renumbers
 * streams, first sees to it that no release is left. */
static mla_status record_all(mla_pool *pool, struct mla__release *release)
{
    const struct mla__driver *d = &pool->ctx->driver;
    int result = 0;

    for (int i = 0; i < pool->streams; i++) {
        if (!release->event[i])
            result = d->event_create(&release->event[i], MLA__EVENT_NO_TIMING);
        if (result) {
            release->event[i] = NULL;
            return mla__pool_cuda_fail(pool, "cuEventCreate", result);
        }
        result = d->event_record(release->event[i], pool->stream[i]);
        if (result)
            return mla__pool_cuda_fail(pool, "cuEventRecord", result);
    }
    release->waits = pool->streams;
    return MLA_OK;
}

/* With every slot in flight the open release just stays open. */
static mla_status seal(mla_pool *pool)
{
    struct mla__release *open = &pool->open, *slot;
    mla_status status;

    if (!open->count || pool->sealed_count == MLA__POOL_RELEASES)
        return MLA_OK;
    slot = &pool->sealed[(pool->first_sealed + pool->sealed_count) %
                         MLA__POOL_RELEASES];
    status = record_all(pool, slot);
    if (status)
        return status;
    slot->first = open->first;
    slot->last = open->last;
    slot->count = open->count;
    open->first = open->last = MLA__NO_PAGE;
    open->count = 0;
    pool->sealed_count++;
    return MLA_OK;
}

/* Whether all events of a release have passed. */
static mla_status passed(mla_pool *pool, const struct mla__release *release,
                         bool wait, bool *out)
{
    const struct mla__driver *d = &pool->ctx->driver;

    *out = false;
    for (int i = 0; i < release->waits; i++) {
        int result = wait ? d->event_wait(release->event[i])
                          : d->event_query(release->event[i]);
        if (result == MLA__CUDA_NOT_READY)
            return MLA_OK;
        if (result)
            return mla__pool_cuda_fail(pool, "cuEventQuery", result);
    }
    *out = true;
    return MLA_OK;
}

/* Frees the pages of the oldest sealed release, in the order in which they
 * were let go. */
static void take_back(mla_pool *pool, struct mla__release *release)
{
    for (int32_t page = release->first, next; page != MLA__NO_PAGE;
         page = next) {
        next = pool->page[page].next;
        push_free(pool, page);
    }
    pool->waiting_pages -= release->count;
    release->count = 0;
    pool->first_sealed = (pool->first_sealed + 1) % MLA__POOL_RELEASES;
    pool->sealed_count--;
}

/* Oldest first, and no further than the first that has not passed: pages come
 * back in the order in which they left. */
static mla_status poll(mla_pool *pool, bool wait)
{
    while (pool->sealed_count) {
        struct mla__release *oldest = &pool->sealed[pool->first_sealed];
        bool done;
        mla_status status = passed(pool, oldest, wait, &done);
        if (status || !done)
            return status;
        take_back(pool, oldest);
    }
    return MLA_OK;
}

/* While a stream of the pool is captured nothing can be recorded or asked, so
 * pages simply go on waiting; only who insists on waiting gets an error. */
mla_status mla__reclaim(mla_pool *pool, bool wait)
{
    bool capturing;
    mla_status status = any_capturing(pool, &capturing);

    if (!status && capturing)
        return wait ? refuse_capture(pool, "mla_pool_reclaim") : MLA_OK;
    if (!status)
        status = seal(pool);
    if (!status)
        status = poll(pool, wait);
    /* A release that found no slot before finds one now. */
    if (!status && pool->open.count)
        status = seal(pool);
    if (!status && wait)
        status = poll(pool, wait);
    return status;
}

/* mla__reclaim for callers that have not made the device current. */
static mla_status reclaim_entered(mla_pool *pool, bool wait)
{
    mla_status status;

    if (!pool->waiting_pages)
        return MLA_OK;
    status = mla__pool_enter(pool);
    if (status)
        return status;
    status = mla__reclaim(pool, wait);
    mla__pool_leave(pool);
    return status;
}

/* The device is only asked when pages run short: an extend costs no driver
 * call while there are free ones. */
mla_status mla__pages_need(mla_pool *pool, int64_t need)
{
    if (need > pool->free_pages) {
        mla_status status = reclaim_entered(pool, false);
        if (status)
            return status;
    }
    if (need <= pool->free_pages)
        return MLA_OK;
    return mla__pool_fail(pool, MLA_OUT_OF_PAGES,
                          "%lld pages needed, %lld of %lld are free (%lld "
                          "wait for a stream, %lld for a pending copy)",
                          (long long)need, (long long)pool->free_pages,
                          (long long)pool->options.pages - 1,
                          (long long)pool->waiting_pages,
                          (long long)pool->pinned_pages);
}

/* Public ---------------------------------------------------------------- */

mla_status mla_pool_reclaim(mla_pool *pool, int wait)
{
    mla_status status;

    if (!pool)
        return MLA_INVALID_ARGUMENT;
    pthread_mutex_lock(&pool->lock);
    status = reclaim_entered(pool, wait != 0);
    pthread_mutex_unlock(&pool->lock);
    return status;
}

/* Waits for the stream and for every release that names it. */
static mla_status drain(mla_pool *pool, void *stream)
{
    const struct mla__driver *d = &pool->ctx->driver;
    mla_status status = mla__reclaim(pool, true);
    int result;

    if (status)
        return status;
    result = d->event_record(pool->order_event, stream);
    if (result)
        return mla__pool_cuda_fail(pool, "cuEventRecord", result);
    result = d->event_wait(pool->order_event);
    return result ? mla__pool_cuda_fail(pool, "cuEventSynchronize", result)
                  : MLA_OK;
}

/* The last stream moves to the place that becomes empty.  If the tables' last
 * step was on the stream, the next has nobody to wait for. */
static mla_status forget(mla_pool *pool, void *stream)
{
    mla_status status;
    int i = 0;

    while (i < pool->streams && pool->stream[i] != stream)
        i++;
    if (i == pool->streams)
        return MLA_OK;
    status = mla__pool_enter(pool);
    if (status)
        return status;
    status = drain(pool, stream);
    mla__pool_leave(pool);
    if (status)
        return status;
    pool->stream[i] = pool->stream[--pool->streams];
    if (pool->stepped && pool->last_stream == stream)
        pool->stepped = false;
    return MLA_OK;
}

mla_status mla_pool_forget(mla_pool *pool, void *stream)
{
    mla_status status;

    if (!pool)
        return MLA_INVALID_ARGUMENT;
    pthread_mutex_lock(&pool->lock);
    status = forget(pool, stream);
    pthread_mutex_unlock(&pool->lock);
    return status;
}
