/* SPDX-License-Identifier: Apache-2.0
 *
 * driver.h: the driver's own objects.
 *
 *   driver.c          environment, handles, the lock, errors, entry points
 *   driver_profile.c  device profiles and device queries
 *   driver_context.c  contexts and the thread's stack of them
 *   driver_module.c   modules: PTX in, kernels and variables out
 *   driver_function.c kernel attributes, occupancy
 *   driver_launch.c   launches
 *   driver_memory.c   allocations, copies, fills
 *   driver_stream.c   streams, events
 *   driver_graph.c    stream capture and graphs
 *
 * A handle is a number that is used once: a destroyed, foreign or wrong-kind
 * handle is found in the handle table, never followed as a pointer.
 *
 * Streams do their work at once, in the order of the calls, which is one of
 * the orders that CUDA allows.  A failed launch returns its error at once and
 * leaves it in the context: every later call that needs the context returns
 * it again, until the context is destroyed or reset, as on a GPU.
 *
 * One lock is held in every entry point, through launches too.
 */
#ifndef VGPU_DRIVER_H
#define VGPU_DRIVER_H

#include "driver_api.h"
#include "exec.h"
#include "mem.h"
#include "vgpu.h"

#include <stdbool.h>

enum { VG_DRIVER_VERSION = 13020, VG_PTX_VERSION = 92 };

struct vg_profile {
    const char *id, *name;
    int arch; /* 90: compute capability 9.0 */
    int sms;
    uint64_t memory;           /* bytes */
    int smem_optin, smem_sm;   /* shared memory per block, per SM; bytes */
    int threads_sm, blocks_sm; /* most resident on one SM */
    int l2;                    /* bytes */
    int bus_bits, memory_khz, clock_khz;
};

struct vg_context {
    CUcontext handle;
    unsigned long long id;
    bool is_primary;
    unsigned flags;
    CUresult sticky; /* of the launch that failed, else 0 */
    size_t limit[7];
    CUdeviceptr grid_barrier; /* workspace of cooperative launches, or 0 */
};

struct vg_function {
    CUfunction handle;
    struct vg_module *module;
    const struct ptx_func *ptx;
    struct vg_program *program;
    int max_dynamic; /* attribute, bytes */
    int carveout, nonportable_cluster, cluster_policy, cache_config;
};

struct vg_module {
    CUmodule handle;
    struct vg_context *ctx;
    struct ptx_module *ptx;
    struct vg_function *function;
    unsigned nfunctions;
    CUdeviceptr *address; /* of ptx->sym[i]; 0: not in memory */
};

struct vg_capture;

struct vg_stream {
    CUstream handle;
    struct vg_context *ctx;
    unsigned flags;
    int priority;
    struct vg_capture *capture;
    uint64_t last_op; /* of this stream in the capture */
    bool is_joined;   /* the origin waits for last_op */
};

struct vg_event {
    CUevent handle;
    struct vg_context *ctx;
    unsigned flags;
    bool is_recorded;
    double time_ms;
    uint64_t capture; /* id of the capture that last recorded
                         it, which may have ended; else 0 */
    CUstream stream;  /* ... in this stream, */
    uint64_t op;      /* behind this operation of it */
};

/* One unit of stream work. */
enum vg_work_kind { VG_WORK_LAUNCH, VG_WORK_COPY, VG_WORK_FILL, VG_WORK_CALL };
struct vg_work {
    enum vg_work_kind kind;
    union {
        struct {
            CUfunction fn;
            uint32_t grid[3], block[3], cluster[3], dynamic;
            bool cooperative;
            bool programmatic; /* stream serialisation attribute */
            const struct vg_stream *stream;
            unsigned char *params; /* owned */
        } launch;
        struct {
            bool to_host, from_host;
            uint64_t dst, src, n;
        } copy;
        struct {
            uint64_t dst, count;
            uint32_t value;
            unsigned width;
        } fill;
        struct {
            CUhostFn *fn;
            CUstreamCallback *stream_fn;
            CUstream stream;
            void *user;
        } call;
    };
};

/* A captured graph, and one made ready to run: a list of work in an order
 * that satisfies all dependencies. */
struct vg_graph {
    struct vg_context *ctx;
    struct vg_work *work;
    int nwork;
};

enum vg_handle_kind {
    VG_H_NONE,
    VG_H_CONTEXT,
    VG_H_MODULE,
    VG_H_FUNCTION,
    VG_H_STREAM,
    VG_H_EVENT,
    VG_H_GRAPH,
    VG_H_EXEC
};

/* The process-wide state, valid under the lock. */
struct vg_driver {
    bool is_initialised;
    struct vg_profile profile;
    uint64_t memory_bytes, seed;
    unsigned checks, threads;
    struct vg_mem *mem;
    struct vg_context *primary;
    unsigned primary_refs, primary_flags, ncontexts;
    unsigned long long next_context_id;
    char *report;
    /* The last work was a launch, in this stream: a programmatic launch there
     * depends on it. */
    bool has_primary;
    const struct vg_stream *primary_stream;
};
extern struct vg_driver vg_driver;

/* --- entry points -------------------------------------------------------- */

/* Every entry point begins with VG_ENTRY, which takes the lock until its
 * return.  Host functions run by a stream may not call the driver again. */
struct vg_guard {
    bool is_locked;
};
struct vg_guard vg_drv_lock(void);
void vg_drv_unlock(struct vg_guard *g);
extern _Thread_local bool vg_drv_in_callback;
#define VG_ENTRY                                                              \
    struct vg_guard guard __attribute__((cleanup(vg_drv_unlock))) =           \
        vg_drv_lock();                                                        \
    if (!guard.is_locked)                                                     \
    return CUDA_ERROR_NOT_PERMITTED

/* A second exported name for a function of this file. */
#define VG_ALIAS(alias_name, target)                                          \
    extern __typeof__(target) alias_name                                      \
        __attribute__((alias(#target), visibility("default")))

/* Sets the text of vgpu_report and returns error. */
CUresult vg_drv_error(CUresult error, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The current context, healthy: else NOT_INITIALIZED, INVALID_CONTEXT or the
 * context's sticky error. */
CUresult vg_drv_current(struct vg_context **ctx);
CUresult vg_drv_check_device(CUdevice device);

/* --- handles ------------------------------------------------------------- */

/* A new handle for object, or NULL when out of memory. */
void *vg_drv_handle(enum vg_handle_kind kind, void *object,
                    struct vg_context *owner);
/* The object behind a handle of that kind, or NULL. */
void *vg_drv_object(enum vg_handle_kind kind, const void *handle);
void vg_drv_forget(const void *handle);
/* Destroys what the context owns. */
void vg_drv_destroy_owned(struct vg_context *owner);

/* --- shared between the files -------------------------------------------- */

const struct vg_profile *vg_drv_profile(const char *id);
/* "a100, a10, ..." */
void vg_drv_profile_names(char *out, size_t n);

struct vg_function *vg_drv_function(CUfunction fn);
int vg_drv_registers(const struct vg_function *f);
int vg_drv_max_threads(const struct vg_function *f);
/* Blocks of that size that fit on one SM at once. */
int vg_drv_occupancy(const struct vg_function *f, int threads,
                     uint64_t dynamic);

/* The stream behind a handle; NULL and the two special handles are the
 * context's default stream, *stream = NULL. */
CUresult vg_drv_stream(CUstream handle, struct vg_context **ctx,
                       struct vg_stream **stream);
/* Does the work now, or appends it to the stream's capture.  Takes over
 * what work owns. */
CUresult vg_drv_submit(struct vg_context *ctx, struct vg_stream *stream,
                       struct vg_work *work);
CUresult vg_drv_run(struct vg_context *ctx, const struct vg_work *work);
CUresult vg_drv_run_launch(struct vg_context *ctx, const struct vg_work *w);
CUresult vg_drv_run_copy(const struct vg_work *w);
CUresult vg_drv_run_fill(const struct vg_work *w);
void vg_drv_work_free(struct vg_work *work);
/* Bytes of a launch's parameters. */
size_t vg_drv_params_bytes(const struct vg_work *w);

/* Refuses a call that would disturb a capture (CUDA Driver API, stream
 * capture): allocation and synchronisation while one is running. */
CUresult vg_drv_capture_forbids(const char *what);
/* The same for work in the default stream, which waits for all streams. */
CUresult vg_drv_capture_forbids_default(const char *what);
CUresult vg_drv_capture_append(struct vg_stream *s, struct vg_work *work);
CUresult vg_drv_capture_wait(struct vg_stream *s, struct vg_event *e);
void vg_drv_capture_record(struct vg_stream *s, struct vg_event *e);
/* Makes EndCapture fail and returns error. */
CUresult vg_drv_capture_break(struct vg_stream *s, CUresult error);

/* Destructors, also called for what a dying context leaves behind. */
void vg_drv_module_destroy(struct vg_module *m);
void vg_drv_stream_destroy(struct vg_stream *s);
void vg_drv_graph_destroy(struct vg_graph *g);
void vg_drv_memory_release(struct vg_context *owner);
/* Allocates device memory owned by ctx; flags of mem.h. */
void vg_drv_free(CUdeviceptr at);
CUresult vg_drv_alloc(struct vg_context *ctx, uint64_t bytes, unsigned flags,
                      const char *name, CUdeviceptr *at);

#endif
