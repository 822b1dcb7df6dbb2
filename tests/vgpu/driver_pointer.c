/* SPDX-License-Identifier: Apache-2.0
 *
 * driver_pointer.c: what the driver knows about an address.
 *
 * Programs ask to tell device memory from host memory, and libraries to find
 * the allocation that a pointer is in.
 */
#include "driver.h"

/* The live allocation that holds at, or NULL: freed memory is unknown to the
 * driver, though mem.c remembers it for messages. */
static const struct vg_alloc *find_live(CUdeviceptr at)
{
    const struct vg_alloc *a =
        vg_driver.mem ? vg_mem_find(vg_driver.mem, at) : NULL;
    return a && a->live ? a : NULL;
}

/* Base and size of the allocation that holds `at`; either may be left out. */
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes,
                                 CUdeviceptr at)
{
    VG_ENTRY;
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    if (r)
        return r;
    const struct vg_alloc *a = find_live(at);
    if (!a)
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = a->base;
    if (bytes)
        *bytes = a->size;
    return CUDA_SUCCESS;
}

/* Each attribute has a type of its own (CUDA Driver API,
 * cuPointerGetAttribute).  Host addresses are unknown to the driver. */
CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr at)
{
    VG_ENTRY;
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    if (r)
        return r;
    const struct vg_alloc *a = find_live(at);
    if (!value || !a)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)value = ctx->handle;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value = CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)value = at;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(int *)value = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)value = a->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = a->size;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}
