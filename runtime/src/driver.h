/* SPDX-License-Identifier: Apache-2.0
 *
 * driver.h: the CUDA driver API as a table of function pointers.
 *
 * No CUDA header and no link-time dependency: the functions are looked up by
 * their versioned names (as cuda.h's macros would choose them) in libcuda.so.1
 * or in any library that exports them, a software GPU for one.
 * Types: CUresult, CUdevice and enums are int; CUdeviceptr is uint64_t; every
 * handle is void *.
 */
#ifndef MLA_DRIVER_H
#define MLA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "mla.h"

/* X(return type, member, exported symbol, parameters) */
#define MLA__DRIVER_LIST(X)                                                  \
    X(int, init, cuInit, (unsigned flags))                                   \
    X(int, version, cuDriverGetVersion, (int *version))                      \
    X(int, error_name, cuGetErrorName, (int result, const char **text))      \
    X(int, error_text, cuGetErrorString, (int result, const char **text))    \
    X(int, device_count, cuDeviceGetCount, (int *count))                     \
    X(int, device_get, cuDeviceGet, (int *device, int ordinal))              \
    X(int, device_name, cuDeviceGetName, (char *name, int size, int device)) \
    X(int, device_attribute, cuDeviceGetAttribute,                           \
      (int *value, int attribute, int device))                               \
    X(int, ctx_retain, cuDevicePrimaryCtxRetain, (void **ctx, int device))   \
    X(int, ctx_release, cuDevicePrimaryCtxRelease_v2, (int device))          \
    X(int, ctx_push, cuCtxPushCurrent_v2, (void *ctx))                       \
    X(int, ctx_pop, cuCtxPopCurrent_v2, (void **ctx))                        \
    X(int, ctx_synchronize, cuCtxSynchronize, (void))                        \
    X(int, module_load, cuModuleLoadDataEx,                                  \
      (void **module, const void *image, unsigned count, int *options,       \
       void **values))                                                       \
    X(int, module_unload, cuModuleUnload, (void *module))                    \
    X(int, module_function, cuModuleGetFunction,                             \
      (void **function, void *module, const char *name))                     \
    X(int, function_set, cuFuncSetAttribute,                                 \
      (void *function, int attribute, int value))                            \
    X(int, launch, cuLaunchKernel,                                           \
      (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,    \
       unsigned block_x, unsigned block_y, unsigned block_z,                 \
       unsigned smem, void *stream, void **params, void **extra))            \
    X(int, mem_alloc, cuMemAlloc_v2, (uint64_t *address, size_t bytes))      \
    X(int, mem_free, cuMemFree_v2, (uint64_t address))                       \
    X(int, mem_write, cuMemcpyHtoD_v2,                                       \
      (uint64_t to, const void *from, size_t bytes))                         \
    X(int, mem_read, cuMemcpyDtoH_v2,                                        \
      (void *to, uint64_t from, size_t bytes))                               \
    X(int, mem_set, cuMemsetD8_v2,                                           \
      (uint64_t to, unsigned char value, size_t bytes))                      \
    X(int, mem_write_async, cuMemcpyHtoDAsync_v2,                            \
      (uint64_t to, const void *from, size_t bytes, void *stream))           \
    X(int, mem_read_async, cuMemcpyDtoHAsync_v2,                             \
      (void *to, uint64_t from, size_t bytes, void *stream))                 \
    X(int, mem_copy_async, cuMemcpyDtoDAsync_v2,                             \
      (uint64_t to, uint64_t from, size_t bytes, void *stream))              \
    X(int, host_alloc, cuMemHostAlloc,                                       \
      (void **block, size_t bytes, unsigned flags))                          \
    X(int, host_free, cuMemFreeHost, (void *block))                          \
    X(int, event_create, cuEventCreate, (void **event, unsigned flags))      \
    X(int, event_destroy, cuEventDestroy_v2, (void *event))                  \
    X(int, event_record, cuEventRecord, (void *event, void *stream))         \
    X(int, event_query, cuEventQuery, (void *event))                         \
    X(int, event_wait, cuEventSynchronize, (void *event))                    \
    X(int, stream_wait, cuStreamWaitEvent,                                   \
      (void *stream, void *event, unsigned flags))                           \
    X(int, stream_capturing, cuStreamIsCapturing,                            \
      (void *stream, int *status))

/* Functions that only some kernels need: a driver that is older than CUDA 12
 * has none of them, and their members are NULL then. */
#define MLA__DRIVER_OPTIONAL(X)                                              \
    X(int, launch_ex, cuLaunchKernelEx,                                      \
      (const struct mla__launch_config *config, void *function,              \
       void **params, void **extra))                                         \
    X(int, encode_tiled, cuTensorMapEncodeTiled,                             \
      (void *map, int type, unsigned rank, void *address,                    \
       const uint64_t *dims, const uint64_t *strides, const uint32_t *box,   \
       const uint32_t *steps, int interleave, int swizzle, int promotion,    \
       int fill))

/* CUlaunchAttribute and CUlaunchConfig of cuda.h. */
struct mla__launch_attribute {
    int id;
    char pad[4];
    union {
        unsigned cluster[3];
        char room[64];
    } value;
};

struct mla__launch_config {
    unsigned grid[3], block[3], smem;
    void *stream;
    struct mla__launch_attribute *attributes;
    unsigned count;
};

struct mla__driver {
    void *handle;
    char *path;
#define MLA__DRIVER_MEMBER(type, member, symbol, params) type(*member) params;
    MLA__DRIVER_LIST(MLA__DRIVER_MEMBER)
    MLA__DRIVER_OPTIONAL(MLA__DRIVER_MEMBER)
#undef MLA__DRIVER_MEMBER
};

/* Values of cuda.h that the runtime uses. */
enum mla__cuda {
    MLA__CUDA_SUCCESS = 0,
    MLA__CUDA_NO_DEVICE = 100,
    MLA__CUDA_INVALID_DEVICE = 101,
    MLA__CUDA_INVALID_IMAGE = 200,
    MLA__CUDA_NO_BINARY_FOR_GPU = 209,
    MLA__CUDA_INVALID_PTX = 218,
    MLA__CUDA_UNSUPPORTED_PTX_VERSION = 222,
    MLA__CUDA_NOT_READY = 600,
    MLA__CUDA_CAPTURE_IMPLICIT = 906, /* the default stream, beside one */
    MLA__EVENT_NO_TIMING = 2,
    MLA__ATTR_SM_COUNT = 16,
    MLA__ATTR_MAJOR = 75,
    MLA__ATTR_MINOR = 76,
    MLA__ATTR_SMEM_OPTIN = 97,
    MLA__FUNC_MAX_DYNAMIC_SMEM = 8,
    MLA__JIT_ERROR_LOG = 5,
    MLA__JIT_ERROR_LOG_SIZE = 6,
    MLA__LAUNCH_CLUSTER = 4
};

/* Opens the library named by the options, $MLA_DRIVER or libcuda.so.1 and
 * looks every symbol up.  Error NO_DRIVER names what is missing; the optional
 * ones may be. */
mla_status mla__driver_open(mla_context *ctx);
void mla__driver_close(mla_context *ctx);

#endif
