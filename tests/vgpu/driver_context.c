/* SPDX-License-Identifier: Apache-2.0
 *
 * driver_context.c: contexts: the primary one with its reference count, any
 * number of others, and the stack of current ones that each thread has.
 *
 * A thread's current context is the top of its stack.  The stack has handles,
 * not pointers: a destroyed context stays on it, and every call that needs it
 * fails until the thread pops it.
 */
#include "driver.h"

#include <stdlib.h>

/* STACK: contexts that one thread may push; the driver names no limit.
 * LIMITS: CUlimit's numbers, from the stack size (0) to the persisting part
 * of L2 (6). */
enum { STACK = 64, LIMITS = 7, LIMIT_STACK_SIZE = 0 };

/* Handles, since a context may die while it is on other threads' stacks. */
static _Thread_local CUcontext stack[STACK];
static _Thread_local int depth;

/* NULL for a handle that is dead or no context's. */
static struct vg_context *find(CUcontext handle)
{
    return vg_drv_object(VG_H_CONTEXT, handle);
}

/* The order of the answers is the driver's: not initialised, no context,
 * destroyed, then what a failed launch has left. */
CUresult vg_drv_current(struct vg_context **ctx)
{
    *ctx = depth ? find(stack[depth - 1]) : NULL;
    if (!vg_driver.is_initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!*ctx)
        return depth && stack[depth - 1] ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                         : CUDA_ERROR_INVALID_CONTEXT;
    return (*ctx)->sticky;
}

/* A context with CUDA's default limits (stack, printf, heap, ...), which is
 * nobody's current one yet; NULL without memory. */
static struct vg_context *create(unsigned flags)
{
    static const size_t limit[LIMITS] = {1024, 1 << 20, 8 << 20, 2,
                                         2048, 128,     0};
    struct vg_context *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->flags = flags;
    c->id = ++vg_driver.next_context_id;
    memcpy(c->limit, limit, sizeof limit);
    c->handle = vg_drv_handle(VG_H_CONTEXT, c, NULL);
    if (!c->handle) {
        free(c);
        return NULL;
    }
    vg_driver.ncontexts++;
    return c;
}

/* Everything that the context owns goes with it; other threads that have it
 * current see CUDA_ERROR_CONTEXT_IS_DESTROYED. */
static void destroy(struct vg_context *c)
{
    vg_drv_destroy_owned(c);
    vg_drv_forget(c->handle);
    vg_driver.ncontexts--;
    free(c);
}

/* --- the primary context ------------------------------------------------- */

/* The first retain makes the context.  It does not become current. */
CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device)
{
    VG_ENTRY;
    CUresult r = vg_drv_check_device(device);
    if (r)
        return r;
    if (!ctx)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vg_driver.primary) {
        vg_driver.primary = create(vg_driver.primary_flags);
        if (!vg_driver.primary)
            return CUDA_ERROR_OUT_OF_MEMORY;
        vg_driver.primary->is_primary = true;
    }
    vg_driver.primary_refs++;
    *ctx = vg_driver.primary->handle;
    return CUDA_SUCCESS;
}

/* The last release destroys it. */
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    VG_ENTRY;
    CUresult r = vg_drv_check_device(device);
    if (r)
        return r;
    if (!vg_driver.primary_refs)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--vg_driver.primary_refs == 0) {
        destroy(vg_driver.primary);
        vg_driver.primary = NULL;
    }
    return CUDA_SUCCESS;
}

/* Destroys what the primary context holds and its sticky error; the handle
 * and its references stay good. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    VG_ENTRY;
    CUresult r = vg_drv_check_device(device);
    if (r || !vg_driver.primary)
        return r;
    vg_drv_destroy_owned(vg_driver.primary);
    vg_driver.primary->sticky = CUDA_SUCCESS;
    vg_driver.primary->grid_barrier = 0;
    return CUDA_SUCCESS;
}

/* Flags choose how a thread waits; here nothing waits, they are remembered. */
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    VG_ENTRY;
    CUresult r = vg_drv_check_device(device);
    if (r)
        return r;
    vg_driver.primary_flags = flags;
    if (vg_driver.primary)
        vg_driver.primary->flags = flags;
    return CUDA_SUCCESS;
}

/* Needs no context: programs ask before they retain one. */
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags,
                                    int *active)
{
    VG_ENTRY;
    CUresult r = vg_drv_check_device(device);
    if (r)
        return r;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = vg_driver.primary_flags;
    *active = vg_driver.primary != NULL;
    return CUDA_SUCCESS;
}

/* --- other contexts ------------------------------------------------------ */

/* The new context becomes current to the calling thread. */
CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned flags, CUdevice device)
{
    VG_ENTRY;
    CUresult r = vg_drv_check_device(device);
    if (r)
        return r;
    if (!ctx)
        return CUDA_ERROR_INVALID_VALUE;
    if (depth == STACK)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct vg_context *c = create(flags);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ctx = stack[depth++] = c->handle;
    return CUDA_SUCCESS;
}

/* Execution affinity needs MPS (the multi-process service), which is not
 * here. */
CUresult cuCtxCreate_v3(CUcontext *ctx, void *affinity, int n, unsigned flags,
                        CUdevice device)
{
    if (affinity || n)
        return CUDA_ERROR_NOT_SUPPORTED;
    return cuCtxCreate_v2(ctx, flags, device);
}

/* The newest form.  CUDA in graphics (cigParams) is not here either. */
CUresult cuCtxCreate_v4(CUcontext *ctx, CUctxCreateParams *params,
                        unsigned flags, CUdevice device)
{
    if (params && (params->numExecAffinityParams || params->cigParams))
        return CUDA_ERROR_NOT_SUPPORTED;
    return cuCtxCreate_v2(ctx, flags, device);
}

/* If it is current to this thread, it is popped from the stack.  The primary
 * context is not destroyed so: it has its own release. */
CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    VG_ENTRY;
    struct vg_context *c = find(ctx);
    if (!vg_driver.is_initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!c || c->is_primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (depth && stack[depth - 1] == ctx)
        depth--;
    destroy(c);
    return CUDA_SUCCESS;
}

/* --- the thread's stack -------------------------------------------------- */

/* A full stack is refused as an invalid context: it is a leak of pushes. */
CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    VG_ENTRY;
    if (!vg_driver.is_initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!find(ctx) || depth == STACK)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = ctx;
    return CUDA_SUCCESS;
}

/* Also pops a context that has been destroyed. */
CUresult cuCtxPopCurrent_v2(CUcontext *ctx)
{
    VG_ENTRY;
    if (!vg_driver.is_initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (ctx)
        *ctx = stack[depth];
    return CUDA_SUCCESS;
}

/* Replaces the top of the stack, or makes it the only one; NULL pops it. */
CUresult cuCtxSetCurrent(CUcontext ctx)
{
    VG_ENTRY;
    if (!vg_driver.is_initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (ctx && !find(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!ctx)
        depth -= depth > 0;
    else if (depth)
        stack[depth - 1] = ctx;
    else
        stack[depth++] = ctx;
    return CUDA_SUCCESS;
}

/* *ctx is NULL, without an error, when there is none. */
CUresult cuCtxGetCurrent(CUcontext *ctx)
{
    VG_ENTRY;
    if (!vg_driver.is_initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!ctx)
        return CUDA_ERROR_INVALID_VALUE;
    *ctx = depth ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

/* --- what a context says ------------------------------------------------- */

/* There is one device, 0. */
CUresult cuCtxGetDevice(CUdevice *device)
{
    VG_ENTRY;
    struct vg_context *c;
    CUresult r = vg_drv_current(&c);
    if (r)
        return r;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return CUDA_SUCCESS;
}

/* As they were given at its creation, or to the primary one since. */
CUresult cuCtxGetFlags(unsigned *flags)
{
    VG_ENTRY;
    struct vg_context *c;
    CUresult r = vg_drv_current(&c);
    if (r)
        return r;
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = c->flags;
    return CUDA_SUCCESS;
}

/* The context behind ctx, or the current one for NULL. */
static CUresult given_or_current(CUcontext ctx, struct vg_context **c)
{
    if (!ctx)
        return vg_drv_current(c);
    *c = find(ctx);
    return *c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* Unique in the process and never reused, unlike a context's address. */
CUresult cuCtxGetId(CUcontext ctx, unsigned long long *id)
{
    VG_ENTRY;
    struct vg_context *c;
    CUresult r = given_or_current(ctx, &c);
    if (r)
        return r;
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    *id = c->id;
    return CUDA_SUCCESS;
}

/* That of the _v2 functions, through which every context here is made. */
CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned *version)
{
    VG_ENTRY;
    struct vg_context *c;
    CUresult r = given_or_current(ctx, &c);
    if (r)
        return r;
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = 3020;
    return CUDA_SUCCESS;
}

/* What was set last, or CUDA's default. */
CUresult cuCtxGetLimit(size_t *value, int limit)
{
    VG_ENTRY;
    struct vg_context *c;
    CUresult r = vg_drv_current(&c);
    if (r)
        return r;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (limit < 0 || limit >= LIMITS)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = c->limit[limit];
    return CUDA_SUCCESS;
}

/* Limits are remembered; local memory is sized by the kernel, whatever the
 * stack limit says. */
CUresult cuCtxSetLimit(int limit, size_t value)
{
    VG_ENTRY;
    struct vg_context *c;
    CUresult r = vg_drv_current(&c);
    if (r)
        return r;
    if (limit < 0 || limit >= LIMITS)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (limit == LIMIT_STACK_SIZE && value > 512 * 1024)
        return CUDA_ERROR_INVALID_VALUE;
    c->limit[limit] = value;
    return CUDA_SUCCESS;
}

/* The range of real devices; priorities have no effect. */
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    VG_ENTRY;
    struct vg_context *c;
    CUresult r = vg_drv_current(&c);
    if (r)
        return r;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

/* All work is done already; reports a sticky error, which is what programs
 * call it for after a launch. */
CUresult cuCtxSynchronize(void)
{
    VG_ENTRY;
    struct vg_context *c;
    CUresult r = vg_drv_current(&c);
    return r ? r : vg_drv_capture_forbids("cuCtxSynchronize");
}
