/* SPDX-License-Identifier: Apache-2.0
 *
 * driver_launch.c: from cuLaunchKernel's arguments to a grid that runs.
 *
 * A launch is validated when it is called, as in the driver, so that a
 * captured launch is refused at capture.  Parameters are copied then, too.
 *
 * Order: grid, block, cluster, dynamic shared memory, residency, parameters.
 * Each refusal names the kernel, what was asked for and what is allowed.
 */
#include "driver.h"

#include <stdlib.h>

/* --- validation ---------------------------------------------------------- */

/* The text of a refusal: kernel 'NAME': WHAT GOT, LIMIT ALLOWED. */
static CUresult refuse(const struct vg_function *f, CUresult error,
                       const char *what, unsigned long long got,
                       const char *limit, unsigned long long allowed)
{
    return vg_drv_error(error, "kernel '%s': %s %llu, %s %llu", f->ptx->name,
                        what, got, limit, allowed);
}

/* 2^31 - 1 by 65,535 by 65,535 (CUDA C++ Programming Guide, technical
 * specifications). */
static CUresult check_grid(const struct vg_function *f, const uint32_t grid[3])
{
    static const unsigned most[3] = {INT32_MAX, 65535, 65535};
    static const char *const what[3] = {"grid x", "grid y", "grid z"};
    for (int i = 0; i < 3; i++)
        if (grid[i] == 0 || grid[i] > most[i])
            return refuse(f, CUDA_ERROR_INVALID_VALUE, what[i], grid[i],
                          "allowed are 1 to", most[i]);
    return CUDA_SUCCESS;
}

/* At most 1024 x 1024 x 64, no more threads than .maxntid and exactly
 * .reqntid. */
static CUresult check_block(const struct vg_function *f,
                            const uint32_t block[3])
{
    static const unsigned most[3] = {1024, 1024, 64};
    static const char *const what[3] = {"block x", "block y", "block z"};
    for (int i = 0; i < 3; i++)
        if (block[i] == 0 || block[i] > most[i])
            return refuse(f, CUDA_ERROR_INVALID_VALUE, what[i], block[i],
                          "allowed are 1 to", most[i]);
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (threads > (unsigned)vg_drv_max_threads(f))
        return refuse(f, CUDA_ERROR_INVALID_VALUE, "threads per block",
                      threads, "at most",
                      (unsigned long long)vg_drv_max_threads(f));
    for (int i = 0; i < 3; i++)
        if (f->ptx->reqntid[0] && block[i] != f->ptx->reqntid[i])
            return refuse(f, CUDA_ERROR_INVALID_VALUE, what[i], block[i],
                          ".reqntid demands", f->ptx->reqntid[i]);
    return CUDA_SUCCESS;
}

/* Fills in the kernel's own cluster; then clusters of at most 8 blocks (16
 * with the attribute) must tile the grid. */
static CUresult check_cluster(const struct vg_function *f, struct vg_work *w)
{
    uint32_t *cluster = w->launch.cluster;
    uint32_t most = f->nonportable_cluster ? 16 : 8;
    if (f->ptx->cluster[0] && !cluster[0])
        memcpy(cluster, f->ptx->cluster, sizeof w->launch.cluster);
    if (!cluster[0])
        return CUDA_SUCCESS;
    uint64_t n = (uint64_t)cluster[0] * cluster[1] * cluster[2];
    if (vg_driver.profile.arch < 90 && n > 1)
        return vg_drv_error(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                            "kernel '%s': clusters need sm_90, this is %s",
                            f->ptx->name, vg_driver.profile.id);
    if (n == 0 || n > most)
        return refuse(f, CUDA_ERROR_INVALID_CLUSTER_SIZE, "cluster size", n,
                      "allowed are 1 to", most);
    for (int i = 0; i < 3; i++) {
        if (f->ptx->cluster[0] && cluster[i] != f->ptx->cluster[i])
            return refuse(f, CUDA_ERROR_INVALID_CLUSTER_SIZE, "cluster size",
                          cluster[i], ".reqnctapercluster demands",
                          f->ptx->cluster[i]);
        if (w->launch.grid[i] % cluster[i])
            return refuse(f, CUDA_ERROR_INVALID_CLUSTER_SIZE, "grid size",
                          w->launch.grid[i], "must be a multiple of",
                          cluster[i]);
    }
    return CUDA_SUCCESS;
}

/* A cooperative grid waits for itself, so all of it must be resident. */
static CUresult check_residency(const struct vg_function *f,
                                const struct vg_work *w)
{
    const uint32_t *b = w->launch.block, *g = w->launch.grid;
    int threads = (int)(b[0] * b[1] * b[2]);
    uint64_t blocks = (uint64_t)g[0] * g[1] * g[2];
    uint64_t most = (uint64_t)vg_drv_occupancy(f, threads, w->launch.dynamic) *
                    (uint64_t)vg_driver.profile.sms;
    if (w->launch.cooperative && blocks > most)
        return refuse(f, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                      "cooperative blocks", blocks, "at most", most);
    return CUDA_SUCCESS;
}

/* All checks that need no parameters.  Fills in w's cluster. */
static CUresult validate(const struct vg_function *f, struct vg_work *w)
{
    CUresult r = check_grid(f, w->launch.grid);
    r = r ? r : check_block(f, w->launch.block);
    r = r ? r : check_cluster(f, w);
    if (!r && w->launch.dynamic > (unsigned)f->max_dynamic)
        r = refuse(f, CUDA_ERROR_INVALID_VALUE,
                   "bytes of dynamic shared memory", w->launch.dynamic,
                   "the function's attribute allows",
                   (unsigned long long)f->max_dynamic);
    return r ? r : check_residency(f, w);
}

/* --- parameters ---------------------------------------------------------- */

/* 0 when the function is gone, as when a graph outlives its module. */
size_t vg_drv_params_bytes(const struct vg_work *w)
{
    const struct vg_function *f = vg_drv_function(w->launch.fn);
    return f ? f->ptx->param_bytes : 0;
}

/* extra: a list of key, value with one buffer that is laid out already (CUDA
 * Driver API, cuLaunchKernel).  Any other key is an error. */
static CUresult read_extra(void **extra, const void **buffer, size_t *size)
{
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            *buffer = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1])
            *size = *(const size_t *)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    return *buffer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Lays the parameters out as the kernel reads them: from one pointer each, or
 * from a buffer. */
static CUresult gather_params(const struct vg_function *f, void **params,
                              void **extra, unsigned char *out)
{
    const struct ptx_func *ptx = f->ptx;
    const void *buffer = NULL;
    size_t size = 0;
    if (ptx->nparams == 0)
        return CUDA_SUCCESS;
    if (params && extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (params) {
        for (int i = 0; i < ptx->nparams; i++) {
            const struct ptx_symbol *s = ptx->param[i];
            if (!params[i])
                return vg_drv_error(CUDA_ERROR_INVALID_VALUE,
                                    "kernel '%s': no pointer to parameter %d",
                                    ptx->name, i);
            memcpy(out + s->offset, params[i], s->size);
        }
        return CUDA_SUCCESS;
    }
    CUresult r =
        extra ? read_extra(extra, &buffer, &size) : CUDA_ERROR_INVALID_VALUE;
    if (r)
        return vg_drv_error(r,
                            "kernel '%s' has %d parameters, the launch "
                            "gives none",
                            ptx->name, ptx->nparams);
    if (size < ptx->param_bytes)
        return refuse(f, CUDA_ERROR_INVALID_VALUE, "bytes of parameters", size,
                      "needed are", ptx->param_bytes);
    memcpy(out, buffer, ptx->param_bytes);
    return CUDA_SUCCESS;
}

/* --- running ------------------------------------------------------------- */

/* 256 bytes of zeros, in which the blocks of a cooperative grid meet: the
 * workspace that grid.sync() finds through %envreg1 and 2.  Kept by the
 * context, and cleared for each launch, since a faulted one leaves it half
 * way. */
static CUresult grid_barrier(struct vg_context *ctx)
{
    enum { BYTES = 256 };
    CUresult r = CUDA_SUCCESS;
    if (!ctx->grid_barrier)
        r = vg_drv_alloc(ctx, BYTES, VG_ALLOC_INITED, "grid barrier",
                         &ctx->grid_barrier);
    if (!r)
        vg_mem_set(vg_driver.mem, ctx->grid_barrier, 0, 4, BYTES / 4);
    return r;
}

/* Runs the grid.  An error of the kernel itself (700 and above) is sticky; one
 * of the host (out of memory) is not.  A programmatic launch is one only when
 * the work before it was a launch in the same stream: anything else in between
 * has ended when it starts. */
CUresult vg_drv_run_launch(struct vg_context *ctx, const struct vg_work *w)
{
    const struct vg_function *f = vg_drv_function(w->launch.fn);
    struct vg_result result = {0};
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    struct vg_config c = {.dynamic_shared = w->launch.dynamic,
                          .params = w->launch.params,
                          .cooperative = w->launch.cooperative,
                          .seed = vg_driver.seed,
                          .threads = vg_driver.threads,
                          .checks = vg_driver.checks,
                          .sms = (unsigned)vg_driver.profile.sms,
                          .arch = (unsigned)vg_driver.profile.arch,
                          .programmatic =
                              w->launch.programmatic &&
                              vg_driver.has_primary &&
                              vg_driver.primary_stream == w->launch.stream,
                          .memory = vg_driver.mem};
    memcpy(c.grid, w->launch.grid, sizeof c.grid);
    memcpy(c.block, w->launch.block, sizeof c.block);
    memcpy(c.cluster, w->launch.cluster, sizeof c.cluster);
    /* The address of the workspace, high word first (grid.sync reads it
     * from %envreg1 and %envreg2). */
    if (w->launch.cooperative) {
        CUresult r = grid_barrier(ctx);
        if (r)
            return r;
        c.envreg[0] = ctx->grid_barrier >> 32;
        c.envreg[1] = ctx->grid_barrier & UINT32_MAX;
    }
    CUresult r = (CUresult)vg_launch(f->program, &c, &result);
    vg_driver.has_primary = true;
    vg_driver.primary_stream = w->launch.stream;
    if (r) {
        vg_drv_error(r, "%s", result.report ? result.report : "");
        ctx->sticky = r >= CUDA_ERROR_ILLEGAL_ADDRESS ? r : CUDA_SUCCESS;
    }
    vg_result_free(&result);
    return r;
}

/* --- entry points -------------------------------------------------------- */

/* What all three ways to launch share.  Takes over nothing but w's copy of
 * the parameters: the caller's may change as soon as this returns. */
static CUresult launch(struct vg_work *w, CUstream handle, void **params,
                       void **extra)
{
    struct vg_context *ctx;
    struct vg_stream *s;
    CUresult r = vg_drv_stream(handle, &ctx, &s);
    const struct vg_function *f = vg_drv_function(w->launch.fn);
    if (r)
        return r;
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    if (f->module->ctx != ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    r = validate(f, w);
    if (r)
        return r;
    w->launch.stream = s;
    size_t bytes = f->ptx->param_bytes;
    w->launch.params = calloc(1, bytes ? bytes : 1);
    if (!w->launch.params)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = gather_params(f, params, extra, w->launch.params);
    if (r)
        vg_drv_work_free(w);
    return r ? r : vg_drv_submit(ctx, s, w);
}

/* The three ways to launch differ in what they can say; no attribute: an
 * ordinary grid. */
CUresult cuLaunchKernel(CUfunction fn, unsigned gx, unsigned gy, unsigned gz,
                        unsigned bx, unsigned by, unsigned bz,
                        unsigned dynamic, CUstream stream, void **params,
                        void **extra)
{
    VG_ENTRY;
    struct vg_work w = {.kind = VG_WORK_LAUNCH,
                        .launch = {.fn = fn,
                                   .grid = {gx, gy, gz},
                                   .block = {bx, by, bz},
                                   .dynamic = dynamic}};
    return launch(&w, stream, params, extra);
}
VG_ALIAS(cuLaunchKernel_ptsz, cuLaunchKernel);

/* As cuLaunchKernel, without `extra`; all blocks must be resident at once. */
CUresult cuLaunchCooperativeKernel(CUfunction fn, unsigned gx, unsigned gy,
                                   unsigned gz, unsigned bx, unsigned by,
                                   unsigned bz, unsigned dynamic,
                                   CUstream stream, void **params)
{
    VG_ENTRY;
    struct vg_work w = {.kind = VG_WORK_LAUNCH,
                        .launch = {.fn = fn,
                                   .grid = {gx, gy, gz},
                                   .block = {bx, by, bz},
                                   .dynamic = dynamic,
                                   .cooperative = true}};
    return launch(&w, stream, params, NULL);
}
VG_ALIAS(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel);

/* Applies a launch attribute.  Those that only tune (priorities, cache
 * windows, memory domains) change nothing here; programmatic stream
 * serialisation allows an early start, which "at once, in order" satisfies,
 * but the kernel is checked for relying on that (grid.c). */
static CUresult apply(const CUlaunchAttribute *a, struct vg_work *w)
{
    if (a->id < 0 || a->id > CU_LAUNCH_ATTRIBUTE_LAST_KNOWN)
        return CUDA_ERROR_INVALID_VALUE;
    if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
        w->launch.cooperative = a->value.cooperative != 0;
    if (a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
        w->launch.programmatic =
            a->value.programmaticStreamSerializationAllowed != 0;
    if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
        w->launch.cluster[0] = a->value.clusterDim.x;
        w->launch.cluster[1] = a->value.clusterDim.y;
        w->launch.cluster[2] = a->value.clusterDim.z;
        if (!a->value.clusterDim.x || !a->value.clusterDim.y ||
            !a->value.clusterDim.z)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* Attributes are applied in their order; a later one wins. */
CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction fn,
                          void **params, void **extra)
{
    VG_ENTRY;
    if (!c || (c->numAttrs && !c->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    struct vg_work w = {
        .kind = VG_WORK_LAUNCH,
        .launch = {.fn = fn,
                   .grid = {c->gridDimX, c->gridDimY, c->gridDimZ},
                   .block = {c->blockDimX, c->blockDimY, c->blockDimZ},
                   .dynamic = c->sharedMemBytes}};
    for (unsigned i = 0; i < c->numAttrs; i++) {
        CUresult r = apply(&c->attrs[i], &w);
        if (r)
            return r;
    }
    return launch(&w, c->hStream, params, extra);
}
VG_ALIAS(cuLaunchKernelEx_ptsz, cuLaunchKernelEx);
