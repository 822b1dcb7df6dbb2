/* SPDX-License-Identifier: Apache-2.0
 *
 * driver_graph.c: stream capture, and graphs as recorded lists.
 *
 * A capture gathers the work of its streams in the order of the calls, which
 * satisfies every dependency that events can express, so a graph is a list
 * and its launch is a loop.  The rules of capture are the driver's (CUDA
 * Driver API, "Stream Management"): what may not be called while capturing,
 * how an event carries a capture to another stream, and that every such fork
 * must be joined before the end.  A broken rule invalidates the capture.
 *
 * Life of a capture: begun in one stream (the origin), other streams join it
 * by waiting for an event that was recorded in it, and are joined again when a
 * capturing stream waits for an event behind their last work.  It ends in the
 * origin, as a graph or, if a rule was broken, as an error.
 */
#include "driver.h"

#include <pthread.h>
#include <stdlib.h>

/* Streams of one capture beside its origin; the driver names no limit. */
enum { MAX_FORKS = 64 };

/* A capture that is running.  id: what events remember, since a capture may
 * end while they live. */
struct vg_capture {
    uint64_t id;
    struct vg_stream *origin;
    struct vg_stream *fork[MAX_FORKS]; /* the other capturing streams */
    int nforks;
    int mode;
    pthread_t thread;
    bool is_broken;
    struct vg_work *work;
    int nwork, room;
    uint64_t nops; /* numbers the work, for last_op and events */
    struct vg_capture *next;
};

static struct vg_capture *captures; /* all that are running */
static uint64_t last_id;
static _Thread_local int thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* --- what may not happen during a capture -------------------------------- */

/* The thread's own mode relaxes the rule for its calls: GLOBAL heeds every
 * global capture, THREAD_LOCAL only the thread's own, RELAXED none. */
static bool heeds(const struct vg_capture *c)
{
    bool is_mine = pthread_equal(c->thread, pthread_self());
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
        c->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    return is_mine || (c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                       thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

/* Allocation, release and synchronisation are "unsafe" during a capture: they
 * break it and fail. */
CUresult vg_drv_capture_forbids(const char *what)
{
    CUresult r = CUDA_SUCCESS;
    for (struct vg_capture *c = captures; c; c = c->next) {
        if (heeds(c)) {
            c->is_broken = true;
            r = vg_drv_error(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                             "%s while a stream is capturing", what);
        }
    }
    return r;
}

/* The default stream waits for blocking streams, so it would pull work into
 * their capture. */
CUresult vg_drv_capture_forbids_default(const char *what)
{
    CUresult r = CUDA_SUCCESS;
    for (struct vg_capture *c = captures; c; c = c->next) {
        if (!(c->origin->flags & CU_STREAM_NON_BLOCKING)) {
            c->is_broken = true;
            r = vg_drv_error(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                             "%s while a blocking stream is capturing", what);
        }
    }
    return r;
}

/* What has been recorded stays until the end, where it is thrown away. */
CUresult vg_drv_capture_break(struct vg_stream *s, CUresult error)
{
    s->capture->is_broken = true;
    return error;
}

/* --- recording ----------------------------------------------------------- */

/* The capture owns the work from here on. */
CUresult vg_drv_capture_append(struct vg_stream *s, struct vg_work *work)
{
    struct vg_capture *c = s->capture;
    CUresult r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (c->is_broken)
        goto out;
    if (c->nwork == c->room) {
        int n = c->room ? 2 * c->room : 16;
        void *bigger = realloc(c->work, (size_t)n * sizeof *c->work);
        r = CUDA_ERROR_OUT_OF_MEMORY;
        if (!bigger)
            goto out;
        c->work = bigger;
        c->room = n;
    }
    c->work[c->nwork++] = *work;
    s->last_op = ++c->nops;
    s->is_joined = false;
    return CUDA_SUCCESS;
out:
    vg_drv_work_free(work);
    return r;
}

/* The event stands behind the last work of its stream so far. */
void vg_drv_capture_record(struct vg_stream *s, struct vg_event *e)
{
    e->capture = s->capture->id;
    e->stream = s->handle;
    e->op = s->last_op;
}

/* A stream that waits for a captured event joins its capture.  Until it has
 * been joined again (join_stream) the capture cannot end. */
static CUresult fork_stream(struct vg_capture *c, struct vg_stream *s)
{
    if (c->nforks == MAX_FORKS)
        return vg_drv_error(CUDA_ERROR_OUT_OF_MEMORY,
                            "more than %d streams in one capture", MAX_FORKS);
    c->fork[c->nforks++] = s;
    s->capture = c;
    s->last_op = 0;
    s->is_joined = false;
    return CUDA_SUCCESS;
}

/* The running capture of that id, or NULL. */
static struct vg_capture *find_capture(uint64_t id)
{
    struct vg_capture *c = captures;
    while (c && c->id != id)
        c = c->next;
    return c;
}

/* A capturing stream waits for an event of its own capture: the stream of
 * the event is joined if the event stands behind its last work. */
static void join_stream(struct vg_stream *s, const struct vg_event *e)
{
    struct vg_stream *other = vg_drv_object(VG_H_STREAM, e->stream);
    if (!other || other == s)
        return;
    other->is_joined |= e->op == other->last_op;
    s->is_joined = false;
}

/* Four cases: an event of no capture (nothing to do, but a capturing stream
 * must not depend on work outside), of another capture (a merge breaks both),
 * of this one in a stream that does not capture yet (it joins), and in one
 * that does (the event's stream may be joined). */
CUresult vg_drv_capture_wait(struct vg_stream *s, struct vg_event *e)
{
    struct vg_capture *c = find_capture(e->capture);
    if (e->capture && !c)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (!c && s->capture && e->is_recorded)
        return vg_drv_capture_break(s, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    if (!c)
        return CUDA_SUCCESS;
    if (s->capture && s->capture != c) {
        c->is_broken = true;
        return vg_drv_capture_break(s, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    if (c->is_broken)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!s->capture)
        return fork_stream(c, s);
    join_stream(s, e);
    return CUDA_SUCCESS;
}

/* --- begin and end ------------------------------------------------------- */

/* From now on the stream's work is recorded. */
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    VG_ENTRY;
    struct vg_context *ctx;
    struct vg_stream *s;
    CUresult r = vg_drv_stream(stream, &ctx, &s);
    if (r)
        return r;
    if (mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (!s)
        return vg_drv_error(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                            "the default stream cannot capture");
    if (s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct vg_capture *c = calloc(1, sizeof *c);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->id = ++last_id;
    c->origin = s;
    c->mode = mode;
    c->thread = pthread_self();
    c->next = captures;
    captures = c;
    s->capture = c;
    s->last_op = 0;
    return CUDA_SUCCESS;
}
VG_ALIAS(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture_v2);

/* A list of n and what each owns. */
static void free_work(struct vg_work *work, int n)
{
    for (int i = 0; i < n; i++)
        vg_drv_work_free(&work[i]);
    free(work);
}

/* Takes the capture off its streams and off the list; the work stays. */
static void detach(struct vg_capture *c)
{
    struct vg_capture **at = &captures;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    c->origin->capture = NULL;
    for (int i = 0; i < c->nforks; i++)
        if (c->fork[i])
            c->fork[i]->capture = NULL;
}

/* Why the capture cannot become a graph. */
static CUresult judge(const struct vg_capture *c)
{
    if (c->is_broken)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    for (int i = 0; i < c->nforks; i++)
        if (!c->fork[i] || !c->fork[i]->is_joined)
            return vg_drv_error(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                                "a stream that joined the capture was not "
                                "waited for at its end");
    return CUDA_SUCCESS;
}

/* Takes over work when it succeeds. */
static CUresult make_graph(struct vg_context *ctx, enum vg_handle_kind kind,
                           struct vg_work *work, int n, void **handle)
{
    struct vg_graph *g = calloc(1, sizeof *g);
    *handle = g ? vg_drv_handle(kind, g, ctx) : NULL;
    if (!*handle) {
        free(g);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *g = (struct vg_graph){.ctx = ctx, .work = work, .nwork = n};
    return CUDA_SUCCESS;
}

/* The capture ends even when it failed, and *graph is NULL then. */
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    VG_ENTRY;
    struct vg_context *ctx;
    struct vg_stream *s;
    void *handle = NULL;
    CUresult r = vg_drv_stream(stream, &ctx, &s);
    if (r)
        return r;
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = NULL;
    struct vg_capture *c = s ? s->capture : NULL;
    if (!c)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (c->origin != s)
        return vg_drv_capture_break(s, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(c->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    r = judge(c);
    detach(c);
    if (!r)
        r = make_graph(ctx, VG_H_GRAPH, c->work, c->nwork, &handle);
    if (r)
        free_work(c->work, c->nwork);
    *graph = handle;
    free(c);
    return r;
}
VG_ALIAS(cuStreamEndCapture_ptsz, cuStreamEndCapture);

/* A broken capture still counts as one until it is ended. */
CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
    VG_ENTRY;
    struct vg_context *ctx;
    struct vg_stream *s;
    CUresult r = vg_drv_stream(stream, &ctx, &s);
    if (r)
        return r;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    const struct vg_capture *c = s ? s->capture : NULL;
    *status = !c             ? CU_STREAM_CAPTURE_STATUS_NONE
              : c->is_broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                             : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}
VG_ALIAS(cuStreamIsCapturing_ptsz, cuStreamIsCapturing);

/* Swaps the calling thread's own mode. */
CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
    VG_ENTRY;
    if (!mode || *mode < 0 || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    int old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

/* A stream that dies in a capture breaks it; the origin ends it. */
void vg_drv_stream_destroy(struct vg_stream *s)
{
    struct vg_capture *c = s->capture;
    if (c && c->origin == s) {
        detach(c);
        free_work(c->work, c->nwork);
        free(c);
    } else if (c) {
        c->is_broken = true;
        for (int i = 0; i < c->nforks; i++)
            if (c->fork[i] == s)
                c->fork[i] = NULL;
    }
    free(s);
}

/* --- graphs -------------------------------------------------------------- */

/* Either kind: a captured graph or an executable one. */
void vg_drv_graph_destroy(struct vg_graph *g)
{
    free_work(g->work, g->nwork);
    free(g);
}

/* A copy of a list of work with its own parameters; NULL when out of
 * memory.  One entry more than n, so that an empty list is no NULL. */
static struct vg_work *copy_work(const struct vg_work *work, int n)
{
    struct vg_work *copy = calloc((size_t)n + 1, sizeof *copy);
    for (int i = 0; copy && i < n; i++) {
        copy[i] = work[i];
        if (work[i].kind != VG_WORK_LAUNCH || !work[i].launch.params)
            continue;
        size_t bytes = vg_drv_params_bytes(&work[i]);
        copy[i].launch.params = malloc(bytes ? bytes : 1);
        if (!copy[i].launch.params) {
            free_work(copy, i);
            return NULL;
        }
        memcpy(copy[i].launch.params, work[i].launch.params, bytes);
    }
    return copy;
}

/* The executable graph has its own copy: the graph may be destroyed. */
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                     unsigned long long flags)
{
    VG_ENTRY;
    struct vg_context *ctx;
    void *handle = NULL;
    CUresult r = vg_drv_current(&ctx);
    const struct vg_graph *g = vg_drv_object(VG_H_GRAPH, graph);
    if (r)
        return r;
    if (!exec || flags > 15)
        return CUDA_ERROR_INVALID_VALUE;
    if (!g)
        return CUDA_ERROR_INVALID_VALUE;
    struct vg_work *work = copy_work(g->work, g->nwork);
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = make_graph(ctx, VG_H_EXEC, work, g->nwork, &handle);
    if (r)
        free_work(work, g->nwork);
    *exec = handle;
    return r;
}

/* The graph behind a handle and the stream to run it in. */
static CUresult find_exec(CUgraphExec exec, CUstream stream,
                          struct vg_context **ctx, struct vg_stream **s,
                          struct vg_graph **g)
{
    CUresult r = vg_drv_stream(stream, ctx, s);
    if (r)
        return r;
    *g = vg_drv_object(VG_H_EXEC, exec);
    return *g ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Nothing to upload; the handles are checked all the same. */
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    VG_ENTRY;
    struct vg_context *ctx;
    struct vg_stream *s;
    struct vg_graph *g;
    return find_exec(exec, stream, &ctx, &s, &g);
}
VG_ALIAS(cuGraphUpload_ptsz, cuGraphUpload);

/* Runs the list; the first error ends it.  In a capturing stream it
 * would become a child graph, which these lists do not have. */
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    VG_ENTRY;
    struct vg_context *ctx;
    struct vg_stream *s;
    struct vg_graph *g;
    CUresult r = find_exec(exec, stream, &ctx, &s, &g);
    if (!r && s && s->capture)
        r = vg_drv_capture_break(
            s, vg_drv_error(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                            "cuGraphLaunch in a capturing stream"));
    if (!r && !s)
        r = vg_drv_capture_forbids_default("cuGraphLaunch");
    for (int i = 0; !r && i < g->nwork; i++)
        r = vg_drv_run(ctx, &g->work[i]);
    return r;
}
VG_ALIAS(cuGraphLaunch_ptsz, cuGraphLaunch);

/* The number of nodes; nodes have no handles of their own here. */
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    VG_ENTRY;
    const struct vg_graph *g = vg_drv_object(VG_H_GRAPH, graph);
    if (!g || !count)
        return CUDA_ERROR_INVALID_VALUE;
    if (nodes)
        return CUDA_ERROR_NOT_SUPPORTED;
    *count = (size_t)g->nwork;
    return CUDA_SUCCESS;
}

/* kind: a graph's handle does not destroy an executable one. */
static CUresult destroy_graph(enum vg_handle_kind kind, const void *handle)
{
    struct vg_graph *g = vg_drv_object(kind, handle);
    if (!g)
        return CUDA_ERROR_INVALID_VALUE;
    vg_drv_forget(handle);
    vg_drv_graph_destroy(g);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    VG_ENTRY;
    return destroy_graph(VG_H_EXEC, exec);
}

CUresult cuGraphDestroy(CUgraph graph)
{
    VG_ENTRY;
    return destroy_graph(VG_H_GRAPH, graph);
}
