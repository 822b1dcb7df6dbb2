/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda.c: the driver functions that measuring takes, the arena, and graphs.
 *
 * Every call leaves its reason in gpu.error.  The primary context is current
 * from gpu_open to gpu_close, so that what is not libmla's (events, graphs,
 * cuBLAS) works on the same one.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu_bench.h"
#include "rng.h"
#include "tensor.h"

/* The default stream cannot be recorded, hence one of our own; a recording of
 * this thread must not mind what other threads do. */
enum { L2_BYTES = 38, NON_BLOCKING = 1, THREAD_LOCAL = 1 }; /* of cuda.h */
enum { BLOCK = 1 << 22 }; /* bytes of random numbers, repeated */

bool gpu_good(struct gpu *g, int result, const char *doing)
{
    if (result)
        snprintf(g->error, sizeof(g->error), "%s: %s%s%s", doing,
                 num_device_error(&g->device, result),
                 g->device.report ? "\n" : "",
                 g->device.report ? g->device.report() : "");
    return result == 0;
}

/* A driver without one of them is too old, or no driver: it is named. */
static bool find_calls(struct gpu *g)
{
    void *address;
#define GPU_FIND(member, symbol, params)                                     \
    if (mla_driver_symbol(g->device.ctx, #symbol, &address)) {               \
        snprintf(g->error, sizeof(g->error), "%s",                           \
                 mla_last_error(g->device.ctx));                             \
        return false;                                                        \
    }                                                                        \
    memcpy(&g->member, &address, sizeof(address));
    GPU_CALLS(GPU_FIND)
#undef GPU_FIND
    return true;
}

/* What lives as long as the program: context, stream, the two events. */
static bool make_objects(struct gpu *g)
{
    int l2 = 0;
    bool good = gpu_good(g, g->retain(&g->ctx, 0), "primary context");

    good = good && gpu_good(g, g->push(g->ctx), "current context") &&
           gpu_good(g, g->attribute(&l2, L2_BYTES, 0), "size of the L2") &&
           gpu_good(g, g->stream_create(&g->stream, NON_BLOCKING),
                    "stream") &&
           gpu_good(g, g->event_create(&g->start, 0), "event") &&
           gpu_good(g, g->event_create(&g->end, 0), "event");
    g->l2 = l2;
    return good;
}

/* On failure gpu_close is still to be called. */
bool gpu_open(struct gpu *g)
{
    memset(g, 0, sizeof(*g));
    if (num_device_open(&g->device, NULL, g->error, sizeof(g->error)))
        return false;
    return find_calls(g) && make_objects(g);
}

/* In reverse, and only what has been made. */
void gpu_close(struct gpu *g)
{
    void *ctx;

    if (g->numbers)
        g->release_memory(g->numbers);
    if (g->start)
        g->event_destroy(g->start);
    if (g->end)
        g->event_destroy(g->end);
    if (g->stream)
        g->stream_destroy(g->stream);
    if (g->ctx) {
        g->pop(&ctx);
        g->release(0);
    }
    num_device_close(&g->device);
}

/* --- the arena ------------------------------------------------------------ */

/* The upper halves of fp32 numbers are bf16. */
static void fill_block(uint16_t *block, size_t count)
{
    struct num_rng rng = {1};

    for (size_t i = 0; i < count; i++) {
        float value = 0.5f * (float)num_normal(&rng);
        uint32_t bits;
        memcpy(&bits, &value, sizeof(bits));
        block[i] = (uint16_t)(bits >> 16);
    }
}

bool gpu_write(struct gpu *g, uint64_t to, const void *from, size_t bytes)
{
    return gpu_good(g, g->copy_in(to, from, bytes, g->stream), "writing") &&
           gpu_good(g, g->stream_wait(g->stream), "writing");
}

/* One allocation: many small ones would not lie as far apart. */
bool gpu_make_arena(struct gpu *g, size_t bytes)
{
    uint16_t *numbers = num_alloc(BLOCK);
    bool good = gpu_good(g, g->alloc(&g->numbers, BLOCK + bytes), "arena");

    g->arena = g->numbers + BLOCK;
    g->arena_bytes = bytes;
    fill_block(numbers, BLOCK / sizeof(*numbers));
    good = good && gpu_write(g, g->numbers, numbers, BLOCK);
    free(numbers);
    return good;
}

/* Device to device, block by block: sending them would take seconds. */
bool gpu_refresh(struct gpu *g, size_t bytes)
{
    bool good = true;

    for (size_t at = 0; at < bytes && good; at += BLOCK) {
        size_t n = bytes - at < BLOCK ? bytes - at : BLOCK;
        good = gpu_good(g, g->copy(g->arena + at, g->numbers, n, g->stream),
                        "filling the arena");
    }
    return good && gpu_good(g, g->stream_wait(g->stream), "filling the arena");
}

/* --- graphs --------------------------------------------------------------- */

/* The graph itself is not needed once it can be launched. */
bool gpu_record(struct gpu *g, gpu_enqueue enqueue, void *user, void **exec)
{
    void *graph = NULL;
    bool good, ended;

    *exec = NULL;
    if (!gpu_good(g, g->capture(g->stream, THREAD_LOCAL), "recording"))
        return false;
    good = enqueue(g, user);
    /* The stream must leave its recording whatever has happened; the first
     * reason counts. */
    if (good) {
        ended = gpu_good(g, g->capture_end(g->stream, &graph), "recording");
        good = ended && gpu_good(g, g->instantiate(exec, graph, 0), "graph");
    } else {
        g->capture_end(g->stream, &graph);
    }
    if (graph)
        g->graph_destroy(graph);
    return good;
}

/* The events enclose the graph and nothing else on the stream; the host waits
 * for the second, so that replays never queue up. */
bool gpu_replay(struct gpu *g, void *exec, double *ms)
{
    float elapsed = 0;
    bool good =
        gpu_good(g, g->event_record(g->start, g->stream), "event") &&
        gpu_good(g, g->graph_launch(exec, g->stream), "launch") &&
        gpu_good(g, g->event_record(g->end, g->stream), "event") &&
        gpu_good(g, g->event_wait(g->end), "running") &&
        gpu_good(g, g->event_elapsed(&elapsed, g->start, g->end), "event");

    *ms = elapsed;
    return good;
}
