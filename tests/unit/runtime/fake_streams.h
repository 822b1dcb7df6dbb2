/* SPDX-License-Identifier: Apache-2.0
 *
 * fake_streams.h: streams and events for unit tests.  Nothing enqueued runs
 * before the test says so, and a copy reads its source when it runs, as
 * copies out of pinned memory do.
 *
 * A handle given to the runtime is a struct fake_stream *; NULL is the
 * default stream.  Any call can be told to fail: fake_calls counts those
 * that can, and the one numbered fake_fail_at returns FAKE_ERROR.
 */
#ifndef FAKE_STREAMS_H
#define FAKE_STREAMS_H

#include "fake_driver.h"

enum { FAKE_OPS = 4096, FAKE_ERROR = 719 };

struct fake_event {
    uint64_t recorded, done; /* serial numbers of records */
};

struct fake_op {
    enum { FAKE_COPY, FAKE_RECORD, FAKE_WAIT, FAKE_FILL } kind;
    void *to;
    const void *from;
    size_t bytes;
    struct fake_event *event;
    uint64_t serial;
};

struct fake_stream {
    struct fake_op op[FAKE_OPS];
    int first, count;
    int capturing;
};

static struct fake_stream fake_default;
static struct fake_stream *fake_all[4] = {&fake_default};
static int fake_streams = 1;
static uint64_t fake_serial;
static int fake_calls, fake_fail_at, fake_copies, fake_uploads, fake_waits;
static int fake_events, fake_pinned;
static int64_t fake_host_bytes; /* read by enqueued host-to-device copies */

static struct fake_stream *fake_stream_of(void *handle)
{
    return handle ? handle : &fake_default;
}

static bool fake_fails(void)
{
    return ++fake_calls == fake_fail_at;
}

static int fake_enqueue(void *stream, struct fake_op op)
{
    struct fake_stream *s = fake_stream_of(stream);
    if (fake_fails())
        return FAKE_ERROR;
    if (s->count == FAKE_OPS)
        abort();
    s->op[(s->first + s->count++) % FAKE_OPS] = op;
    return 0;
}

/* Runs up to n operations; stops at a wait for what is not recorded yet. */
static int fake_run(void *stream, int n)
{
    struct fake_stream *s = fake_stream_of(stream);
    int ran = 0;

    for (; ran < n && s->count; ran++) {
        struct fake_op *op = &s->op[s->first];
        if (op->kind == FAKE_WAIT && op->event->done < op->serial)
            break;
        if (op->kind == FAKE_COPY)
            memcpy(op->to, op->from, op->bytes);
        if (op->kind == FAKE_FILL)
            memset(op->to, (int)op->serial, op->bytes);
        if (op->kind == FAKE_RECORD && op->event->done < op->serial)
            op->event->done = op->serial;
        s->first = (s->first + 1) % FAKE_OPS;
        s->count--;
    }
    return ran;
}

static void fake_run_all(void)
{
    int ran;
    do {
        ran = 0;
        for (int i = 0; i < fake_streams; i++)
            ran += fake_run(fake_all[i], FAKE_OPS);
    } while (ran);
}

static int fake_write_async(uint64_t to, const void *from, size_t bytes,
                            void *stream)
{
    struct fake_op op = {.kind = FAKE_COPY,
                         .to = (void *)(uintptr_t)to,
                         .from = from,
                         .bytes = bytes};
    fake_uploads++;
    fake_host_bytes += (int64_t)bytes;
    return fake_enqueue(stream, op);
}

static int fake_read_async(void *to, uint64_t from, size_t bytes, void *stream)
{
    struct fake_op op = {.kind = FAKE_COPY,
                         .to = to,
                         .from = (void *)(uintptr_t)from,
                         .bytes = bytes};
    return fake_enqueue(stream, op);
}

static int fake_copy_async(uint64_t to, uint64_t from, size_t bytes,
                           void *stream)
{
    struct fake_op op = {.kind = FAKE_COPY,
                         .to = (void *)(uintptr_t)to,
                         .from = (void *)(uintptr_t)from,
                         .bytes = bytes};
    char *a = op.to;
    const char *b = op.from;
    if (a < b + bytes && b < a + bytes)
        abort(); /* cuMemcpy between overlapping blocks is undefined */
    fake_copies++;
    return fake_enqueue(stream, op);
}

/* Fresh memory holds rubbish. */
static int fake_dirty_alloc(uint64_t *address, size_t bytes)
{
    int result = fake_mem_alloc(address, bytes);
    if (!result)
        memset((void *)(uintptr_t)*address, 0xa5, bytes);
    return result;
}

static int fake_mem_set(uint64_t to, unsigned char value, size_t bytes)
{
    if (fake_fails())
        return FAKE_ERROR;
    memset((void *)(uintptr_t)to, value, bytes);
    return 0;
}

static int fake_host_alloc(void **block, size_t bytes, unsigned flags)
{
    (void)flags;
    if (fake_fails())
        return FAKE_ERROR;
    fake_pinned++;
    *block = malloc(bytes);
    return *block ? 0 : 2;
}

static int fake_host_free(void *block)
{
    fake_pinned--;
    free(block);
    return 0;
}

static int fake_event_create(void **event, unsigned flags)
{
    (void)flags;
    if (fake_fails())
        return FAKE_ERROR;
    fake_events++;
    *event = calloc(1, sizeof(struct fake_event));
    return *event ? 0 : 2;
}

static int fake_event_destroy(void *event)
{
    fake_events--;
    free(event);
    return 0;
}

static int fake_event_record(void *event, void *stream)
{
    struct fake_event *e = event;
    struct fake_op op = {
        .kind = FAKE_RECORD, .event = e, .serial = fake_serial + 1};
    int result = fake_enqueue(stream, op);
    if (!result)
        e->recorded = ++fake_serial;
    return result;
}

static int fake_event_query(void *event)
{
    struct fake_event *e = event;
    if (fake_fails())
        return FAKE_ERROR;
    return e->done >= e->recorded ? 0 : MLA__CUDA_NOT_READY;
}

static int fake_event_wait(void *event)
{
    struct fake_event *e = event;
    if (fake_fails())
        return FAKE_ERROR;
    fake_waits++;
    while (e->done < e->recorded) {
        uint64_t before = e->done;
        fake_run_all();
        if (e->done == before)
            abort(); /* would wait forever */
    }
    return 0;
}

static int fake_device_wait(void)
{
    fake_run_all();
    return 0;
}

static int fake_stream_wait(void *stream, void *event, unsigned flags)
{
    struct fake_event *e = event;
    struct fake_op op = {.kind = FAKE_WAIT, .event = e, .serial = e->recorded};
    (void)flags;
    return fake_enqueue(stream, op);
}

static int fake_capturing(void *stream, int *status)
{
    *status = fake_stream_of(stream)->capturing;
    return fake_fails() ? FAKE_ERROR : 0;
}

/* Work of the test's own on a stream: fills memory when it is run. */
__attribute__((unused)) static void fake_fill(void *stream, uint64_t to,
                                              int value, size_t bytes)
{
    struct fake_op op = {.kind = FAKE_FILL,
                         .to = (void *)(uintptr_t)to,
                         .bytes = bytes,
                         .serial = (uint64_t)value};
    fake_enqueue(stream, op);
}

/* A new stream; at most three, freed by fake_streams_free. */
__attribute__((unused)) static void *fake_stream_new(void)
{
    struct fake_stream *s = calloc(1, sizeof(*s));
    if (!s || fake_streams == 4)
        abort();
    fake_all[fake_streams++] = s;
    return s;
}

static void fake_streams_free(void)
{
    while (fake_streams > 1)
        free(fake_all[--fake_streams]);
    memset(&fake_default, 0, sizeof(fake_default));
}

/* fake_context with the streams' part of the table filled in as well. */
static mla_context *fake_stream_context(const mla_options *options)
{
    mla_context *ctx = fake_context(options);
    struct mla__driver *d;

    if (!ctx)
        return NULL;
    d = &ctx->driver;
    d->ctx_synchronize = fake_device_wait;
    d->mem_alloc = fake_dirty_alloc;
    d->mem_set = fake_mem_set;
    d->mem_write_async = fake_write_async;
    d->mem_read_async = fake_read_async;
    d->mem_copy_async = fake_copy_async;
    d->host_alloc = fake_host_alloc;
    d->host_free = fake_host_free;
    d->event_create = fake_event_create;
    d->event_destroy = fake_event_destroy;
    d->event_record = fake_event_record;
    d->event_query = fake_event_query;
    d->event_wait = fake_event_wait;
    d->stream_wait = fake_stream_wait;
    d->stream_capturing = fake_capturing;
    fake_calls = fake_fail_at = fake_copies = fake_uploads = fake_waits = 0;
    fake_host_bytes = 0;
    return ctx;
}

#endif
