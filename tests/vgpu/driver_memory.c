/* SPDX-License-Identifier: Apache-2.0
 *
 * driver_memory.c: allocations, copies and fills.
 *
 * The bytes are mem.c's.  Here is who owns an allocation, so that a context
 * takes its memory with it, and the driver's rules for each call.
 *
 * Copies and fills are units of work (struct vg_work): the asynchronous calls
 * submit them to their stream, which runs them at once or, while it captures,
 * keeps them for the graph.  The synchronous calls submit to the default
 * stream, which cannot capture.
 */
#include "driver.h"

#include <stdlib.h>

/* --- ownership ----------------------------------------------------------- */

/* Who made which allocation.  The order does not matter: freeing moves the
 * last entry into the gap. */
static struct allocation {
    CUdeviceptr at;
    struct vg_context *ctx;
} * owned;
static size_t nowned, room;

/* Records an allocation; false when out of host memory. */
static bool own(struct vg_context *ctx, CUdeviceptr at)
{
    if (nowned == room) {
        size_t n = room ? 2 * room : 64;
        void *bigger = realloc(owned, n * sizeof *owned);
        if (!bigger)
            return false;
        owned = bigger;
        room = n;
    }
    owned[nowned++] = (struct allocation){at, ctx};
    return true;
}

/* The entry of the allocation that starts at `at`, or nowned.  From the end:
 * what was allocated last is usually freed first. */
static size_t find(CUdeviceptr at)
{
    size_t i = nowned;
    while (i > 0 && owned[i - 1].at != at)
        i--;
    return i ? i - 1 : nowned;
}

/* Releases without asking whether a capture forbids it. */
void vg_drv_free(CUdeviceptr at)
{
    size_t i = find(at);
    if (i < nowned)
        owned[i] = owned[--nowned];
    vg_mem_free(vg_driver.mem, at);
}

/* Whatever a dying context still has. */
void vg_drv_memory_release(struct vg_context *owner)
{
    for (size_t i = nowned; i-- > 0;)
        if (owned[i].ctx == owner)
            vg_drv_free(owned[i].at);
}

/* The report says what was asked for: out-of-memory in a test is a size that
 * went wrong. */
CUresult vg_drv_alloc(struct vg_context *ctx, uint64_t bytes, unsigned flags,
                      const char *name, CUdeviceptr *at)
{
    uint64_t address;
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (vg_mem_alloc(vg_driver.mem, bytes, flags, name, &address) != VG_MEM_OK)
        return vg_drv_error(CUDA_ERROR_OUT_OF_MEMORY,
                            "no %llu bytes of device memory left",
                            (unsigned long long)bytes);
    if (!own(ctx, address)) {
        vg_mem_free(vg_driver.mem, address);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *at = address;
    return CUDA_SUCCESS;
}

/* --- allocation ---------------------------------------------------------- */

/* Memory comes unwritten: a kernel that reads it before writing it is
 * reported. */
static CUresult alloc(CUdeviceptr *at, size_t bytes, unsigned flags)
{
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    if (r)
        return r;
    if (!at)
        return CUDA_ERROR_INVALID_VALUE;
    *at = 0;
    r = vg_drv_capture_forbids("cuMemAlloc");
    return r ? r : vg_drv_alloc(ctx, bytes, flags, NULL, at);
}

CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes)
{
    VG_ENTRY;
    return alloc(at, bytes, 0);
}

/* Not an entry point of the CUDA API, so the guard is spelt out: VG_ENTRY
 * returns a CUresult. */
unsigned long long vgpu_alloc_sparse(unsigned long long bytes)
{
    struct vg_guard guard __attribute__((cleanup(vg_drv_unlock))) =
        vg_drv_lock();
    CUdeviceptr at = 0;
    return guard.is_locked && !alloc(&at, bytes, VG_ALLOC_SPARSE) ? at : 0;
}

/* Rows start at multiples of 512 bytes. */
CUresult cuMemAllocPitch_v2(CUdeviceptr *at, size_t *pitch, size_t width,
                            size_t height, unsigned element)
{
    VG_ENTRY;
    size_t row = (width + 511) & ~(size_t)511, bytes;
    if (!pitch || (element != 4 && element != 8 && element != 16) ||
        row < width || __builtin_mul_overflow(row, height, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    *pitch = row;
    return alloc(at, bytes, 0);
}

/* cuMemFree of 0 is allowed and does nothing; any other address must be the
 * exact start of a live allocation. */
static CUresult release(CUdeviceptr at)
{
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    if (r || !at)
        return r;
    r = vg_drv_capture_forbids("cuMemFree");
    if (r)
        return r;
    if (find(at) == nowned)
        return vg_drv_error(CUDA_ERROR_INVALID_VALUE,
                            "cuMemFree of 0x%llx, which is not the start of a "
                            "live allocation",
                            at);
    vg_drv_free(at);
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr at)
{
    VG_ENTRY;
    return release(at);
}

/* Stream-ordered allocation.  In a capture it would become a graph node that
 * owns memory, which this driver does not have. */
static CUresult refuse_in_capture(CUstream handle, const char *what)
{
    struct vg_context *ctx;
    struct vg_stream *s;
    CUresult r = vg_drv_stream(handle, &ctx, &s);
    if (!r && s && s->capture)
        r = vg_drv_capture_break(
            s, vg_drv_error(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                            "%s in a capturing stream", what));
    return r;
}

/* There is one pool, and a stream is always up to date. */
CUresult cuMemAllocAsync(CUdeviceptr *at, size_t bytes, CUstream stream)
{
    VG_ENTRY;
    CUresult r = refuse_in_capture(stream, "cuMemAllocAsync");
    return r ? r : alloc(at, bytes, 0);
}
VG_ALIAS(cuMemAllocAsync_ptsz, cuMemAllocAsync);

/* At once: a stream has nothing left that could use the memory. */
CUresult cuMemFreeAsync(CUdeviceptr at, CUstream stream)
{
    VG_ENTRY;
    CUresult r = refuse_in_capture(stream, "cuMemFreeAsync");
    return r ? r : release(at);
}
VG_ALIAS(cuMemFreeAsync_ptsz, cuMemFreeAsync);

/* Sparse allocations use none of the capacity (vgpu.h). */
CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
    VG_ENTRY;
    struct vg_context *ctx;
    uint64_t used, capacity;
    CUresult r = vg_drv_current(&ctx);
    if (r)
        return r;
    if (!available || !total)
        return CUDA_ERROR_INVALID_VALUE;
    vg_mem_usage(vg_driver.mem, &used, &capacity);
    *available = capacity - used;
    *total = capacity;
    return CUDA_SUCCESS;
}

/* --- pinned host memory: page-aligned memory of this process ------------- */

/* Host memory is not mapped into the device: a kernel that is given such a
 * pointer faults. */
CUresult cuMemHostAlloc(void **at, size_t bytes, unsigned flags)
{
    VG_ENTRY;
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    if (r)
        return r;
    if (!at || !bytes || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    *at = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    return *at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The older name, without flags. */
CUresult cuMemAllocHost_v2(void **at, size_t bytes)
{
    return cuMemHostAlloc(at, bytes, 0);
}

/* Not looked up: a wrong pointer is the C library's to report. */
CUresult cuMemFreeHost(void *at)
{
    VG_ENTRY;
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    if (r)
        return r;
    if (!at)
        return CUDA_ERROR_INVALID_VALUE;
    free(at);
    return CUDA_SUCCESS;
}

/* All host memory can be copied from, so there is nothing to do. */
CUresult cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags)
{
    VG_ENTRY;
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    if (r)
        return r;
    return at && bytes && flags < 16 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The counterpart; which range it was is not remembered. */
CUresult cuMemHostUnregister(void *at)
{
    VG_ENTRY;
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    if (r)
        return r;
    return at ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- copies and fills ---------------------------------------------------- */

/* Turns a refused transfer into an error that says where it reached; at, n:
 * the device's side of it. */
static CUresult refused(enum vg_mem_status s, uint64_t at, uint64_t n,
                        const char *what)
{
    char text[300];
    if (s == VG_MEM_OK)
        return CUDA_SUCCESS;
    vg_mem_describe(vg_driver.mem, at, n, text, sizeof text);
    return vg_drv_error(CUDA_ERROR_INVALID_VALUE, "%s: %s", what, text);
}

/* A transfer that would leave an allocation copies nothing and says how far
 * it would have reached. */
CUresult vg_drv_run_copy(const struct vg_work *w)
{
    struct vg_mem *m = vg_driver.mem;
    uint64_t dst = w->copy.dst, src = w->copy.src, n = w->copy.n;
    void *to = (void *)(uintptr_t)dst;
    const void *from = (const void *)(uintptr_t)src;
    if (n == 0)
        return CUDA_SUCCESS;
    if (w->copy.to_host && w->copy.from_host) {
        memmove(to, from, n);
        return CUDA_SUCCESS;
    }
    if (w->copy.from_host)
        return refused(vg_mem_write(m, dst, from, n), dst, n,
                       "copy to the device");
    if (w->copy.to_host)
        return refused(vg_mem_read(m, to, src, n), src, n,
                       "copy from the device");
    enum vg_mem_status s = vg_mem_copy(m, dst, src, n);
    const struct vg_alloc *a = vg_mem_find(m, dst);
    bool dst_is_good = a && a->live && vg_alloc_holds(a, dst, n);
    return refused(s, dst_is_good ? src : dst, n,
                   dst_is_good ? "copy on the device, source"
                               : "copy on the device, destination");
}

/* Elements must be aligned to their width, as in the driver. */
CUresult vg_drv_run_fill(const struct vg_work *w)
{
    if (w->fill.count == 0)
        return CUDA_SUCCESS;
    if (w->fill.dst % w->fill.width)
        return vg_drv_error(CUDA_ERROR_INVALID_VALUE,
                            "fill of 0x%llx is not aligned to %u bytes",
                            (unsigned long long)w->fill.dst, w->fill.width);
    enum vg_mem_status s =
        vg_mem_set(vg_driver.mem, w->fill.dst, w->fill.value, w->fill.width,
                   w->fill.count);
    return refused(s, w->fill.dst, w->fill.count * w->fill.width, "fill");
}

/* Submits to a stream.  is_sync: one of the calls without a stream, which
 * work in the default stream and wait, so they may not be called while a
 * capture is on. */
static CUresult submit(CUstream handle, bool is_sync, struct vg_work *work)
{
    struct vg_context *ctx;
    struct vg_stream *s;
    CUresult r = vg_drv_stream(is_sync ? NULL : handle, &ctx, &s);
    if (!r && is_sync)
        r = vg_drv_capture_forbids("a synchronous copy or fill");
    return r ? r : vg_drv_submit(ctx, s, work);
}

/* One copy in any direction; the flags say which addresses are the host's.
 * 0 bytes are a success whatever the pointers, as in the driver. */
static CUresult copy(CUstream stream, bool is_sync, bool to_host,
                     bool from_host, uint64_t dst, uint64_t src, size_t n)
{
    struct vg_work w = {.kind = VG_WORK_COPY,
                        .copy = {to_host, from_host, dst, src, n}};
    if (n && (!dst || !src))
        return CUDA_ERROR_INVALID_VALUE;
    return submit(stream, is_sync, &w);
}

static uint64_t address(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

/* The entry points differ in direction, in the stream, and in whether they
 * wait.  The _ptds and _ptsz names are what a program compiled for per-thread
 * default streams asks for. */
CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t n)
{
    VG_ENTRY;
    return copy(NULL, true, false, true, dst, address(src), n);
}
VG_ALIAS(cuMemcpyHtoD_v2_ptds, cuMemcpyHtoD_v2);

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n)
{
    VG_ENTRY;
    return copy(NULL, true, true, false, address(dst), src, n);
}
VG_ALIAS(cuMemcpyDtoH_v2_ptds, cuMemcpyDtoH_v2);

CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    VG_ENTRY;
    return copy(NULL, true, false, false, dst, src, n);
}
VG_ALIAS(cuMemcpyDtoD_v2_ptds, cuMemcpyDtoD_v2);

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n,
                              CUstream stream)
{
    VG_ENTRY;
    return copy(stream, false, false, true, dst, address(src), n);
}
VG_ALIAS(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync_v2);

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n,
                              CUstream stream)
{
    VG_ENTRY;
    return copy(stream, false, true, false, address(dst), src, n);
}
VG_ALIAS(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync_v2);

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n,
                              CUstream stream)
{
    VG_ENTRY;
    return copy(stream, false, false, false, dst, src, n);
}
VG_ALIAS(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync_v2);

/* Unified addressing: an address that was ever the device's is the device's,
 * any other is the host's. */
static bool is_host(CUdeviceptr at)
{
    return vg_driver.mem && !vg_mem_find(vg_driver.mem, at);
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    VG_ENTRY;
    return copy(NULL, true, is_host(dst), is_host(src), dst, src, n);
}
VG_ALIAS(cuMemcpy_ptds, cuMemcpy);

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n,
                       CUstream stream)
{
    VG_ENTRY;
    return copy(stream, false, is_host(dst), is_host(src), dst, src, n);
}
VG_ALIAS(cuMemcpyAsync_ptsz, cuMemcpyAsync);

/* count elements of `width` bytes; alignment is checked when it runs. */
static CUresult fill(CUstream stream, bool is_sync, CUdeviceptr dst,
                     uint32_t value, unsigned width, size_t count)
{
    struct vg_work w = {.kind = VG_WORK_FILL,
                        .fill = {dst, count, value, width}};
    return submit(stream, is_sync, &w);
}

CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char v, size_t n)
{
    VG_ENTRY;
    return fill(NULL, true, dst, v, 1, n);
}
VG_ALIAS(cuMemsetD8_v2_ptds, cuMemsetD8_v2);

CUresult cuMemsetD16_v2(CUdeviceptr dst, unsigned short v, size_t n)
{
    VG_ENTRY;
    return fill(NULL, true, dst, v, 2, n);
}
VG_ALIAS(cuMemsetD16_v2_ptds, cuMemsetD16_v2);

CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned v, size_t n)
{
    VG_ENTRY;
    return fill(NULL, true, dst, v, 4, n);
}
VG_ALIAS(cuMemsetD32_v2_ptds, cuMemsetD32_v2);

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char v, size_t n,
                         CUstream stream)
{
    VG_ENTRY;
    return fill(stream, false, dst, v, 1, n);
}
VG_ALIAS(cuMemsetD8Async_ptsz, cuMemsetD8Async);

CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short v, size_t n,
                          CUstream stream)
{
    VG_ENTRY;
    return fill(stream, false, dst, v, 2, n);
}
VG_ALIAS(cuMemsetD16Async_ptsz, cuMemsetD16Async);

CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned v, size_t n,
                          CUstream stream)
{
    VG_ENTRY;
    return fill(stream, false, dst, v, 4, n);
}
VG_ALIAS(cuMemsetD32Async_ptsz, cuMemsetD32Async);
