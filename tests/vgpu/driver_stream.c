/* SPDX-License-Identifier: Apache-2.0
 *
 * driver_stream.c: streams and events.
 *
 * Work is done when it is submitted, so a stream is always idle: queries say
 * "ready" and waits return at once.  What remains real is validation, error
 * reporting, time, and stream capture (driver_graph.c).
 *
 * The default stream has no object here: NULL, CU_STREAM_LEGACY and
 * CU_STREAM_PER_THREAD all mean it, and *stream is NULL for it throughout the
 * driver.  It cannot capture.
 */
#include "driver.h"

#include <stdlib.h>
#include <time.h>

/* Host time: what events record. */
static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* --- work ---------------------------------------------------------------- */

/* While it runs, the driver refuses every call of this thread. */
static CUresult run_call(const struct vg_work *w)
{
    vg_drv_in_callback = true;
    if (w->call.fn)
        w->call.fn(w->call.user);
    else
        w->call.stream_fn(w->call.stream, CUDA_SUCCESS, w->call.user);
    vg_drv_in_callback = false;
    return CUDA_SUCCESS;
}

/* Does one unit of work now.  After anything but a launch a programmatic
 * launch has no primary that could still be running. */
CUresult vg_drv_run(struct vg_context *ctx, const struct vg_work *work)
{
    if (work->kind != VG_WORK_LAUNCH)
        vg_driver.has_primary = false;
    switch (work->kind) {
    case VG_WORK_LAUNCH:
        return vg_drv_run_launch(ctx, work);
    case VG_WORK_COPY:
        return vg_drv_run_copy(work);
    case VG_WORK_FILL:
        return vg_drv_run_fill(work);
    case VG_WORK_CALL:
        return run_call(work);
    }
    return CUDA_ERROR_UNKNOWN;
}

/* Only launches own something: their parameters. */
void vg_drv_work_free(struct vg_work *work)
{
    if (work->kind == VG_WORK_LAUNCH)
        free(work->launch.params);
}

/* A capturing stream keeps the work, any other runs it at once; either way it
 * is the caller's no more. */
CUresult vg_drv_submit(struct vg_context *ctx, struct vg_stream *stream,
                       struct vg_work *work)
{
    CUresult r;
    if (stream && stream->capture)
        return vg_drv_capture_append(stream, work);
    r = stream ? CUDA_SUCCESS
               : vg_drv_capture_forbids_default("work in the default stream");
    r = r ? r : vg_drv_run(ctx, work);
    vg_drv_work_free(work);
    return r;
}

/* --- streams ------------------------------------------------------------- */

/* A stream of another context than the current one is refused. */
CUresult vg_drv_stream(CUstream handle, struct vg_context **ctx,
                       struct vg_stream **stream)
{
    CUresult r = vg_drv_current(ctx);
    *stream = NULL;
    if (r || !handle || handle == CU_STREAM_LEGACY ||
        handle == CU_STREAM_PER_THREAD)
        return r;
    *stream = vg_drv_object(VG_H_STREAM, handle);
    if (!*stream)
        return CUDA_ERROR_INVALID_HANDLE;
    return (*stream)->ctx == *ctx ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Priorities outside the range are brought into it. */
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags,
                                    int priority)
{
    VG_ENTRY;
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    if (r)
        return r;
    if (!stream || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    struct vg_stream *s = calloc(1, sizeof *s);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    s->ctx = ctx;
    s->flags = flags;
    s->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    s->handle = vg_drv_handle(VG_H_STREAM, s, ctx);
    if (!s->handle) {
        free(s);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *stream = s->handle;
    return CUDA_SUCCESS;
}

/* Priority 0, the lowest. */
CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    return cuStreamCreateWithPriority(stream, flags, 0);
}

/* Also ends a capture that began in it. */
CUresult cuStreamDestroy_v2(CUstream stream)
{
    VG_ENTRY;
    struct vg_context *ctx;
    struct vg_stream *s = vg_drv_object(VG_H_STREAM, stream);
    CUresult r = vg_drv_current(&ctx);
    if (r)
        return r;
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    vg_drv_forget(stream);
    vg_drv_stream_destroy(s);
    return CUDA_SUCCESS;
}

/* Waiting for or asking a capturing stream breaks its capture. */
static CUresult wait_for(CUstream handle, const char *what)
{
    struct vg_context *ctx;
    struct vg_stream *s;
    CUresult r = vg_drv_stream(handle, &ctx, &s);
    if (r)
        return r;
    if (s && s->capture)
        return vg_drv_capture_break(
            s, vg_drv_error(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                            "%s of a capturing stream", what));
    return s ? CUDA_SUCCESS : vg_drv_capture_forbids_default(what);
}

/* "Ready", always: CUDA_ERROR_NOT_READY never comes from here. */
CUresult cuStreamQuery(CUstream stream)
{
    VG_ENTRY;
    return wait_for(stream, "cuStreamQuery");
}
VG_ALIAS(cuStreamQuery_ptsz, cuStreamQuery);

/* Returns the sticky error of a failed launch, if there is one. */
CUresult cuStreamSynchronize(CUstream stream)
{
    VG_ENTRY;
    return wait_for(stream, "cuStreamSynchronize");
}
VG_ALIAS(cuStreamSynchronize_ptsz, cuStreamSynchronize);

/* What the stream was created with; the default stream has none. */
CUresult cuStreamGetFlags(CUstream stream, unsigned *flags)
{
    VG_ENTRY;
    struct vg_context *ctx;
    struct vg_stream *s;
    CUresult r = vg_drv_stream(stream, &ctx, &s);
    if (r)
        return r;
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = s ? s->flags : CU_STREAM_DEFAULT;
    return CUDA_SUCCESS;
}
VG_ALIAS(cuStreamGetFlags_ptsz, cuStreamGetFlags);

/* After it was brought into the range. */
CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
    VG_ENTRY;
    struct vg_context *ctx;
    struct vg_stream *s;
    CUresult r = vg_drv_stream(stream, &ctx, &s);
    if (r)
        return r;
    if (!priority)
        return CUDA_ERROR_INVALID_VALUE;
    *priority = s ? s->priority : 0;
    return CUDA_SUCCESS;
}
VG_ALIAS(cuStreamGetPriority_ptsz, cuStreamGetPriority);

/* That of the stream, which is the current one: others were refused. */
CUresult cuStreamGetCtx(CUstream stream, CUcontext *out)
{
    VG_ENTRY;
    struct vg_context *ctx;
    struct vg_stream *s;
    CUresult r = vg_drv_stream(stream, &ctx, &s);
    if (r)
        return r;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = ctx->handle;
    return CUDA_SUCCESS;
}
VG_ALIAS(cuStreamGetCtx_ptsz, cuStreamGetCtx);

/* A host function as stream work. */
static CUresult submit_call(CUstream handle, struct vg_work *w)
{
    struct vg_context *ctx;
    struct vg_stream *s;
    CUresult r = vg_drv_stream(handle, &ctx, &s);
    if (r)
        return r;
    if (!w->call.fn && !w->call.stream_fn)
        return CUDA_ERROR_INVALID_VALUE;
    return vg_drv_submit(ctx, s, w);
}

/* The function runs before this returns, or when a graph does. */
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn *fn, void *user)
{
    VG_ENTRY;
    struct vg_work w = {.kind = VG_WORK_CALL,
                        .call = {.fn = fn, .user = user}};
    return submit_call(stream, &w);
}
VG_ALIAS(cuLaunchHostFunc_ptsz, cuLaunchHostFunc);

/* The older form, which is told stream and status; flags must be 0. */
CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback *fn, void *user,
                             unsigned flags)
{
    VG_ENTRY;
    struct vg_work w = {
        .kind = VG_WORK_CALL,
        .call = {.stream_fn = fn, .stream = stream, .user = user}};
    return flags ? CUDA_ERROR_INVALID_VALUE : submit_call(stream, &w);
}
VG_ALIAS(cuStreamAddCallback_ptsz, cuStreamAddCallback);

/* --- events -------------------------------------------------------------- */

/* The event behind a handle, in a healthy context. */
static CUresult find_event(CUevent handle, struct vg_event **e)
{
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    if (r)
        return r;
    *e = vg_drv_object(VG_H_EVENT, handle);
    return *e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* flags: blocking, no timing, interprocess; only the second matters here. */
CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    VG_ENTRY;
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    if (r)
        return r;
    if (!event || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    struct vg_event *e = calloc(1, sizeof *e);
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->ctx = ctx;
    e->flags = flags;
    e->handle = vg_drv_handle(VG_H_EVENT, e, ctx);
    if (!e->handle) {
        free(e);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *event = e->handle;
    return CUDA_SUCCESS;
}

/* A capture that the event is part of does not need it any more. */
CUresult cuEventDestroy_v2(CUevent event)
{
    VG_ENTRY;
    struct vg_event *e;
    CUresult r = find_event(event, &e);
    if (r)
        return r;
    vg_drv_forget(event);
    free(e);
    return CUDA_SUCCESS;
}

/* In a capturing stream the event marks a place in the capture; elsewhere it
 * takes the time. */
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    VG_ENTRY;
    struct vg_context *ctx;
    struct vg_stream *s;
    struct vg_event *e;
    CUresult r = vg_drv_stream(stream, &ctx, &s);
    r = r ? r : find_event(event, &e);
    if (r)
        return r;
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (e->ctx != ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    if (s && s->capture) {
        vg_drv_capture_record(s, e);
        return CUDA_SUCCESS;
    }
    e->capture = 0;
    e->is_recorded = true;
    e->time_ms = now_ms();
    return CUDA_SUCCESS;
}
VG_ALIAS(cuEventRecordWithFlags_ptsz, cuEventRecordWithFlags);

/* The older form, without flags. */
CUresult cuEventRecord(CUevent event, CUstream stream)
{
    return cuEventRecordWithFlags(event, stream, 0);
}
VG_ALIAS(cuEventRecord_ptsz, cuEventRecord);

/* An event outside a capture is always complete; one that a capture recorded
 * cannot be asked. */
static CUresult ask_event(CUevent event)
{
    struct vg_event *e;
    CUresult r = find_event(event, &e);
    if (r)
        return r;
    return e->capture ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
    VG_ENTRY;
    return ask_event(event);
}

CUresult cuEventSynchronize(CUevent event)
{
    VG_ENTRY;
    return ask_event(event);
}

/* Both must have been recorded, with timing, outside a capture. */
CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    VG_ENTRY;
    struct vg_event *a, *b;
    CUresult r = find_event(start, &a);
    r = r ? r : find_event(end, &b);
    if (r)
        return r;
    if (!ms)
        return CUDA_ERROR_INVALID_VALUE;
    if (!a->is_recorded || !b->is_recorded ||
        ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    if (a->capture || b->capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    *ms = (float)(b->time_ms - a->time_ms);
    return CUDA_SUCCESS;
}

/* Before CUDA 12.8; the same answer. */
CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    return cuEventElapsedTime_v2(ms, start, end);
}

/* Outside captures everything before the event is done already. */
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    VG_ENTRY;
    struct vg_context *ctx;
    struct vg_stream *s;
    struct vg_event *e;
    CUresult r = vg_drv_stream(stream, &ctx, &s);
    r = r ? r : find_event(event, &e);
    if (r)
        return r;
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (!s)
        return e->capture ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
    return vg_drv_capture_wait(s, e);
}
VG_ALIAS(cuStreamWaitEvent_ptsz, cuStreamWaitEvent);
