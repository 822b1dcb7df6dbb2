/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_launch.c: running a decode step.
 *
 * Once; or twice in the same buffers, first with other lengths; or recorded as
 * a graph that is launched once with other lengths and once with the right
 * ones, as a serving engine does for as long as it lives.
 */
#include <string.h>

#include "decode.h"
#include "internal.h"

/* Changes a count of the case; unknown names are left alone. */
static void set_int(struct num_case *c, const char *name, int64_t value)
{
    for (int i = 0; i < c->ints; i++)
        if (strcmp(c->integer[i].name, name) == 0)
            c->integer[i].value = value;
}

/* The step's kernels in order on a stream; NULL waits after each. */
static bool launch_all(struct num_device *d, struct num_case *c,
                       const struct num_run *run, const uint64_t *address,
                       void *stream, struct num_verdict *v)
{
    const struct decode_kernels *k = ((struct decode_own *)c->own)->kernels;
    const struct num_subject *order[] = {&k->plan, &k->decode, &k->combine};
    bool good = true;

    for (int i = 0; i < 3 && good; i++) {
        c->subject = order[i];
        good = num_launch(d, c, run, address, stream, v);
    }
    c->subject = &k->decode;
    return good;
}

/* New lengths into the buffer of seq_lens, between two launches. */
static bool write_lengths(struct num_device *d, struct num_case *c,
                          const uint64_t *address, const int32_t *length,
                          struct num_verdict *v)
{
    size_t bytes = (size_t)c->tokens * sizeof(*length);
    int result = num_device_write(
        d, address[num_tensor_of(c, "seq_lens") - c->tensor], length, bytes);

    if (result)
        num_fail_on_device(d, v, c, num_device_error(d, result));
    return result == 0;
}

/* Graphs ------------------------------------------------------------------ */

/* X(member, exported symbol, parameters): what recording takes, beyond the
 * runtime's own table. */
#define GRAPH_CALLS(X)                                                       \
    X(stream_create, cuStreamCreate, (void **stream, unsigned flags))        \
    X(stream_destroy, cuStreamDestroy_v2, (void *stream))                    \
    X(begin, cuStreamBeginCapture_v2, (void *stream, int mode))              \
    X(end, cuStreamEndCapture, (void *stream, void **graph))                 \
    X(instantiate, cuGraphInstantiateWithFlags,                              \
      (void **exec, void *graph, unsigned long long flags))                  \
    X(launch, cuGraphLaunch, (void *exec, void *stream))                     \
    X(exec_destroy, cuGraphExecDestroy, (void *exec))                        \
    X(graph_destroy, cuGraphDestroy, (void *graph))

enum { NON_BLOCKING = 1, THREAD_LOCAL = 1 }; /* of CUDA's own enumerations */

/* The driver calls that a graph takes, and what they have made. */
struct graph {
#define GRAPH_MEMBER(member, symbol, params) int(*member) params;
    GRAPH_CALLS(GRAPH_MEMBER)
#undef GRAPH_MEMBER
    void *stream, *graph, *exec;
};

/* False: the driver lacks one; the context has the text. */
static bool find_calls(struct num_device *d, struct graph *g)
{
    void *address;
#define GRAPH_FIND(member, symbol, params)                                   \
    if (mla_driver_symbol(d->ctx, #symbol, &address))                        \
        return false;                                                        \
    memcpy(&g->member, &address, sizeof(address));
    GRAPH_CALLS(GRAPH_FIND)
#undef GRAPH_FIND
    return true;
}

/* Kernels are loaded before: nothing may be loaded while recording. */
static bool prepare(struct num_case *c)
{
    const struct decode_kernels *k = ((struct decode_own *)c->own)->kernels;
    return !mla_prepare(k->plan.kernel) && !mla_prepare(k->decode.kernel) &&
           !mla_prepare(k->combine.kernel);
}

/* Begins, launches the step into the stream, ends, instantiates.  The capture
 * is ended even when a launch has failed, or the stream would stay in it. */
static bool record(struct num_device *d, struct num_case *c,
                   const struct num_run *run, const uint64_t *address,
                   struct graph *g, struct num_verdict *v)
{
    int result = g->stream_create(&g->stream, NON_BLOCKING);
    bool good = false;

    if (!result)
        result = g->begin(g->stream, THREAD_LOCAL);
    if (!result) {
        good = launch_all(d, c, run, address, g->stream, v);
        result = g->end(g->stream, &g->graph);
    }
    if (!result)
        result = g->instantiate(&g->exec, g->graph, 0);
    if (result)
        num_fail_on_device(d, v, c, num_device_error(d, result));
    return good && !result;
}

/* Launches the graph with these lengths and waits for its end. */
static bool play(struct num_device *d, struct num_case *c,
                 const uint64_t *address, const int32_t *length,
                 struct graph *g, struct num_verdict *v)
{
    int result;

    if (!write_lengths(d, c, address, length, v))
        return false;
    result = g->launch(g->exec, g->stream);
    if (!result)
        result = num_device_synchronize(d);
    if (result)
        num_fail_on_device(d, v, c, num_device_error(d, result));
    return result == 0;
}

/* Whatever of it has been made. */
static void discard(struct graph *g)
{
    if (g->exec)
        g->exec_destroy(g->exec);
    if (g->graph)
        g->graph_destroy(g->graph);
    if (g->stream)
        g->stream_destroy(g->stream);
}

/* The same graph twice: first with the lengths of the run before, then with
 * the right ones, whose answer counts. */
static bool launch_graph(struct num_device *d, struct num_case *c,
                         const struct num_run *run, const uint64_t *address,
                         struct num_verdict *v)
{
    const struct decode_own *o = c->own;
    struct graph g = {0};
    bool good;

    if (!prepare(c) || !find_calls(d, &g) || mla__enter(d->ctx)) {
        num_fail(v, c, "%s", mla_last_error(d->ctx));
        return false;
    }
    good = record(d, c, run, address, &g, v) &&
           play(d, c, address, o->earlier, &g, v) &&
           play(d, c, address, o->length, &g, v);
    discard(&g);
    mla__leave(d->ctx);
    return good;
}

/* ------------------------------------------------------------------------- */

/* A part of the batch on its own gets another number of blocks, too: in
 * batch-invariant mode that must not show either. */
bool decode_launch_step(struct num_device *d, struct num_case *c,
                        const struct num_run *run, const uint64_t *address,
                        struct num_verdict *v)
{
    const struct decode_own *o = c->own;
    int64_t ctas = o->shape->ctas;

    if (run->count < c->tokens && ctas > 1)
        ctas = 1 + run->count % ctas;
    set_int(c, "batch", run->count);
    set_int(c, "ctas", ctas);
    if (decode_is(c, DECODE_GRAPH))
        return launch_graph(d, c, run, address, v);
    if (decode_is(c, DECODE_REPLAY) &&
        !(write_lengths(d, c, address, o->earlier, v) &&
          launch_all(d, c, run, address, NULL, v) &&
          write_lengths(d, c, address, o->length, v)))
        return false;
    return launch_all(d, c, run, address, NULL, v);
}

/* mqa_decode by itself, on a work list that the case has written. */
bool decode_launch_alone(struct num_device *d, struct num_case *c,
                         const struct num_run *run, const uint64_t *address,
                         struct num_verdict *v)
{
    return num_launch(d, c, run, address, NULL, v);
}
