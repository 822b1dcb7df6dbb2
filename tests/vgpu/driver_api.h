/* SPDX-License-Identifier: Apache-2.0
 *
 * driver_api.h: the CUDA driver API as one table.
 *
 * The virtual GPU must not need a CUDA toolkit, so the few types and numbers
 * of the driver's ABI are declared here, with the names and values that its
 * public documentation gives them (CUDA Driver API reference, 13.0).  VG_API
 * lists every function: X(NAME, VERSION SUFFIX, SINCE, ARGUMENTS), where
 * SINCE is the CUDA version that cuGetProcAddress_v2 compares with.  From it
 * come the prototypes, the table behind cuGetProcAddress, and, in the tests,
 * the structure of function pointers through which any driver is called.
 */
#ifndef VGPU_DRIVER_API_H
#define VGPU_DRIVER_API_H

#include <stddef.h>
#include <stdint.h>

/* ---- types -------------------------------------------------------------- */

/* Handles are pointers to structures that exist in no file: only the driver
 * that made one knows what it means. */
typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct {
    char bytes[16];
} CUuuid;
typedef void CUhostFn(void *user);
typedef void CUstreamCallback(CUstream stream, CUresult status, void *user);
typedef size_t CUoccupancyB2DSize(int block_size);

/* Streams without a handle, and the keys of a launch's `extra` list. */
#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)
#define CU_LAUNCH_PARAM_END ((void *)0x0)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x1)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)0x2)

/* The errors that the virtual GPU can return, with the texts of
 * cuGetErrorString. */
#define VG_ERRORS(X)                                                          \
    X(CUDA_SUCCESS, 0, "no error")                                            \
    X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                        \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                           \
    X(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error")                  \
    X(CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")        \
    X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")               \
    X(CUDA_ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")        \
    X(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")              \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209,                                      \
      "no kernel image is available for execution on the device")             \
    X(CUDA_ERROR_UNSUPPORTED_LIMIT, 215,                                      \
      "limit is not supported on this architecture")                          \
    X(CUDA_ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")            \
    X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222,                                \
      "the provided PTX was compiled with an unsupported toolchain.")         \
    X(CUDA_ERROR_FILE_NOT_FOUND, 301, "file not found")                       \
    X(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle")              \
    X(CUDA_ERROR_ILLEGAL_STATE, 401,                                          \
      "the operation cannot be performed in the present state")               \
    X(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")                    \
    X(CUDA_ERROR_NOT_READY, 600, "device not ready")                          \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700,                                        \
      "an illegal memory access was encountered")                             \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701,                                \
      "too many resources requested for launch")                              \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702,                                         \
      "the launch timed out and was terminated")                              \
    X(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708,                                 \
      "cannot set while device is active in this process")                    \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")           \
    X(CUDA_ERROR_ASSERT, 710, "device-side assert triggered")                 \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712,                         \
      "part or all of the requested memory range is already mapped")          \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713,                             \
      "pointer does not correspond to a registered memory region")            \
    X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715,                                    \
      "an illegal instruction was encountered")                               \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716, "misaligned address")               \
    X(CUDA_ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")            \
    X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720,                           \
      "too many blocks in cooperative launch")                                \
    X(CUDA_ERROR_NOT_PERMITTED, 800, "operation not permitted")               \
    X(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")               \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900,                             \
      "operation not permitted when stream is capturing")                     \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901,                             \
      "operation failed due to a previous error during capture")              \
    X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902,                                   \
      "operation would result in a merge of separate capture sequences")      \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903,                               \
      "capture was not ended in the same stream as it began")                 \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904,                                \
      "capturing stream has unjoined work")                                   \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905,                               \
      "dependency created on uncaptured work in another stream")              \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906,                                \
      "operation would make the legacy stream depend on a capturing "         \
      "blocking stream")                                                      \
    X(CUDA_ERROR_CAPTURED_EVENT, 907,                                         \
      "operation not permitted on an event last recorded in a capturing "     \
      "stream")                                                               \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908,                            \
      "attempt to terminate a thread-local capture sequence from another "    \
      "thread")                                                               \
    X(CUDA_ERROR_INVALID_CLUSTER_SIZE, 912, "invalid cluster configuration")  \
    X(CUDA_ERROR_UNKNOWN, 999, "unknown error")

/* The numbers are the driver's: callers compare with those of cuda.h. */
#define VG_ERROR_ENUM(name, value, text) name = value,
enum { VG_ERRORS(VG_ERROR_ENUM) };

/* ---- numbers ------------------------------------------------------------ */

/* CUdevice_attribute: those that the driver answers with more than 0 (see
 * driver_profile.c), and the last that CUDA 13.0 knows. */
enum {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
    CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY = 9,
    CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
    CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
    CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
    CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
    CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK = 111,
    CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH = 120,
    CU_DEVICE_ATTRIBUTE_LAST_KNOWN = 142
};

/* CUfunction_attribute. */
enum {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
    CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
    CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
    CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
    CU_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
    CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET = 10,
    CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH = 11,
    CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT = 12,
    CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH = 13,
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
    CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15
};

/* CUpointer_attribute, as far as it says something about device memory. */
enum {
    CU_POINTER_ATTRIBUTE_CONTEXT = 1,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
    CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
    CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
    CU_POINTER_ATTRIBUTE_MAPPED = 13
};
enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2 };

/* CUjit_option: the four of the logs.  Sizes travel in the option values
 * themselves. */
enum {
    CU_JIT_INFO_LOG_BUFFER = 3,
    CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4,
    CU_JIT_ERROR_LOG_BUFFER = 5,
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6
};

/* Flags and modes of streams, captures and events. */
enum { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
enum {
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2
};
enum {
    CU_STREAM_CAPTURE_STATUS_NONE = 0,
    CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
    CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2
};
enum { CU_EVENT_DISABLE_TIMING = 2 };

/* CUlaunchAttributeID: the three that change a launch; others are accepted
 * and ignored up to the last known one. */
enum {
    CU_LAUNCH_ATTRIBUTE_IGNORE = 0,
    CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
    CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
    CU_LAUNCH_ATTRIBUTE_LAST_KNOWN = 18
};

/* CUlaunchAttribute and CUlaunchConfig have the driver's layout: the value
 * starts at byte 8 and takes 64. */
typedef struct {
    int id;
    char pad[4];
    union {
        char pad[64];
        int cooperative;
        struct {
            unsigned x, y, z;
        } clusterDim;
        int programmaticStreamSerializationAllowed;
    } value;
} CUlaunchAttribute;

typedef struct {
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;

/* What cuCtxCreate_v4 takes: execution affinity needs MPS, and CIG graphics;
 * neither exists here. */
typedef struct {
    void *execAffinityParams;
    int numExecAffinityParams;
    void *cigParams;
} CUctxCreateParams;

/* ---- functions ---------------------------------------------------------- */

/* A suffix is part of the exported name only: programs ask cuGetProcAddress
 * for the name without it. */
#define VG_API(X)                                                             \
    X(cuInit, , 2000, (unsigned flags))                                       \
    X(cuDriverGetVersion, , 2020, (int *version))                             \
    X(cuGetErrorName, , 6000, (CUresult error, const char **name))            \
    X(cuGetErrorString, , 6000, (CUresult error, const char **text))          \
    X(cuGetProcAddress, , 11030,                                              \
      (const char *symbol, void **fn, int version, uint64_t flags))           \
    X(cuGetProcAddress, _v2, 12000,                                           \
      (const char *symbol, void **fn, int version, uint64_t flags,            \
       int *status))                                                          \
    /* devices */                                                             \
    X(cuDeviceGet, , 2000, (CUdevice * device, int ordinal))                  \
    X(cuDeviceGetCount, , 2000, (int *count))                                 \
    X(cuDeviceGetName, , 2000, (char *name, int n, CUdevice device))          \
    X(cuDeviceGetUuid, , 9020, (CUuuid * uuid, CUdevice device))              \
    X(cuDeviceGetUuid, _v2, 11040, (CUuuid * uuid, CUdevice device))          \
    X(cuDeviceTotalMem, _v2, 3020, (size_t * bytes, CUdevice device))         \
    X(cuDeviceGetAttribute, , 2000,                                           \
      (int *value, int attribute, CUdevice device))                           \
    X(cuDeviceComputeCapability, , 2000,                                      \
      (int *major, int *minor, CUdevice device))                              \
    /* contexts */                                                            \
    X(cuDevicePrimaryCtxRetain, , 7000, (CUcontext * ctx, CUdevice device))   \
    X(cuDevicePrimaryCtxRelease, _v2, 11000, (CUdevice device))               \
    X(cuDevicePrimaryCtxReset, _v2, 11000, (CUdevice device))                 \
    X(cuDevicePrimaryCtxSetFlags, _v2, 11000,                                 \
      (CUdevice device, unsigned flags))                                      \
    X(cuDevicePrimaryCtxGetState, , 7000,                                     \
      (CUdevice device, unsigned *flags, int *active))                        \
    X(cuCtxCreate, _v2, 3020,                                                 \
      (CUcontext * ctx, unsigned flags, CUdevice device))                     \
    X(cuCtxCreate, _v3, 11040,                                                \
      (CUcontext * ctx, void *affinity, int n, unsigned flags,                \
       CUdevice device))                                                      \
    X(cuCtxCreate, _v4, 12050,                                                \
      (CUcontext * ctx, CUctxCreateParams * params, unsigned flags,           \
       CUdevice device))                                                      \
    X(cuCtxDestroy, _v2, 4000, (CUcontext ctx))                               \
    X(cuCtxPushCurrent, _v2, 4000, (CUcontext ctx))                           \
    X(cuCtxPopCurrent, _v2, 4000, (CUcontext * ctx))                          \
    X(cuCtxSetCurrent, , 4000, (CUcontext ctx))                               \
    X(cuCtxGetCurrent, , 4000, (CUcontext * ctx))                             \
    X(cuCtxGetDevice, , 2000, (CUdevice * device))                            \
    X(cuCtxGetFlags, , 7000, (unsigned *flags))                               \
    X(cuCtxGetId, , 12000, (CUcontext ctx, unsigned long long *id))           \
    X(cuCtxGetApiVersion, , 3020, (CUcontext ctx, unsigned *version))         \
    X(cuCtxGetLimit, , 3010, (size_t * value, int limit))                     \
    X(cuCtxSetLimit, , 3010, (int limit, size_t value))                       \
    X(cuCtxGetStreamPriorityRange, , 5050, (int *least, int *greatest))       \
    X(cuCtxSynchronize, , 2000, (void))                                       \
    /* modules and functions */                                               \
    X(cuModuleLoad, , 2000, (CUmodule * module, const char *path))            \
    X(cuModuleLoadData, , 2000, (CUmodule * module, const void *image))       \
    X(cuModuleLoadDataEx, , 2010,                                             \
      (CUmodule * module, const void *image, unsigned n, int *options,        \
       void **values))                                                        \
    X(cuModuleLoadFatBinary, , 2000, (CUmodule * module, const void *image))  \
    X(cuModuleUnload, , 2000, (CUmodule module))                              \
    X(cuModuleGetFunction, , 2000,                                            \
      (CUfunction * fn, CUmodule module, const char *name))                   \
    X(cuModuleGetFunctionCount, , 12040, (unsigned *count, CUmodule module))  \
    X(cuModuleGetGlobal, _v2, 3020,                                           \
      (CUdeviceptr * at, size_t * bytes, CUmodule module, const char *name))  \
    X(cuModuleGetLoadingMode, , 11070, (int *mode))                           \
    X(cuFuncGetAttribute, , 2020, (int *value, int attribute, CUfunction fn)) \
    X(cuFuncSetAttribute, , 9000, (CUfunction fn, int attribute, int value))  \
    X(cuFuncSetCacheConfig, , 3000, (CUfunction fn, int config))              \
    X(cuFuncGetModule, , 11000, (CUmodule * module, CUfunction fn))           \
    X(cuFuncGetName, , 12030, (const char **name, CUfunction fn))             \
    X(cuFuncGetParamInfo, , 12040,                                            \
      (CUfunction fn, size_t i, size_t * offset, size_t * bytes))             \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, , 6050,                    \
      (int *blocks, CUfunction fn, int block_size, size_t dynamic))           \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, , 7000,           \
      (int *blocks, CUfunction fn, int block_size, size_t dynamic,            \
       unsigned flags))                                                       \
    X(cuOccupancyAvailableDynamicSMemPerBlock, , 10020,                       \
      (size_t * dynamic, CUfunction fn, int blocks, int block_size))          \
    /* launches */                                                            \
    X(cuLaunchKernel, , 4000,                                                 \
      (CUfunction fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx,     \
       unsigned by, unsigned bz, unsigned dynamic, CUstream stream,           \
       void **params, void **extra))                                          \
    X(cuLaunchKernelEx, , 11060,                                              \
      (const CUlaunchConfig *config, CUfunction fn, void **params,            \
       void **extra))                                                         \
    X(cuLaunchCooperativeKernel, , 9000,                                      \
      (CUfunction fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx,     \
       unsigned by, unsigned bz, unsigned dynamic, CUstream stream,           \
       void **params))                                                        \
    X(cuLaunchHostFunc, , 10000,                                              \
      (CUstream stream, CUhostFn * fn, void *user))                           \
    /* memory */                                                              \
    X(cuMemGetInfo, _v2, 3020, (size_t * available, size_t * total))          \
    X(cuMemAlloc, _v2, 3020, (CUdeviceptr * at, size_t bytes))                \
    X(cuMemAllocPitch, _v2, 3020,                                             \
      (CUdeviceptr * at, size_t * pitch, size_t width, size_t height,         \
       unsigned element))                                                     \
    X(cuMemFree, _v2, 3020, (CUdeviceptr at))                                 \
    X(cuMemAllocAsync, , 11020,                                               \
      (CUdeviceptr * at, size_t bytes, CUstream stream))                      \
    X(cuMemFreeAsync, , 11020, (CUdeviceptr at, CUstream stream))             \
    X(cuMemGetAddressRange, _v2, 3020,                                        \
      (CUdeviceptr * base, size_t * bytes, CUdeviceptr at))                   \
    X(cuMemAllocHost, _v2, 3020, (void **at, size_t bytes))                   \
    X(cuMemHostAlloc, , 2020, (void **at, size_t bytes, unsigned flags))      \
    X(cuMemFreeHost, , 2000, (void *at))                                      \
    X(cuMemHostRegister, _v2, 6050, (void *at, size_t bytes, unsigned flags)) \
    X(cuMemHostUnregister, , 4000, (void *at))                                \
    X(cuMemcpy, , 4000, (CUdeviceptr dst, CUdeviceptr src, size_t n))         \
    X(cuMemcpyHtoD, _v2, 3020, (CUdeviceptr dst, const void *src, size_t n))  \
    X(cuMemcpyDtoH, _v2, 3020, (void *dst, CUdeviceptr src, size_t n))        \
    X(cuMemcpyDtoD, _v2, 3020, (CUdeviceptr dst, CUdeviceptr src, size_t n))  \
    X(cuMemcpyAsync, , 4000,                                                  \
      (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream))          \
    X(cuMemcpyHtoDAsync, _v2, 3020,                                           \
      (CUdeviceptr dst, const void *src, size_t n, CUstream stream))          \
    X(cuMemcpyDtoHAsync, _v2, 3020,                                           \
      (void *dst, CUdeviceptr src, size_t n, CUstream stream))                \
    X(cuMemcpyDtoDAsync, _v2, 3020,                                           \
      (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream))          \
    X(cuMemsetD8, _v2, 3020, (CUdeviceptr dst, unsigned char v, size_t n))    \
    X(cuMemsetD16, _v2, 3020, (CUdeviceptr dst, unsigned short v, size_t n))  \
    X(cuMemsetD32, _v2, 3020, (CUdeviceptr dst, unsigned v, size_t n))        \
    X(cuMemsetD8Async, , 3020,                                                \
      (CUdeviceptr dst, unsigned char v, size_t n, CUstream stream))          \
    X(cuMemsetD16Async, , 3020,                                               \
      (CUdeviceptr dst, unsigned short v, size_t n, CUstream stream))         \
    X(cuMemsetD32Async, , 3020,                                               \
      (CUdeviceptr dst, unsigned v, size_t n, CUstream stream))               \
    X(cuPointerGetAttribute, , 4000,                                          \
      (void *value, int attribute, CUdeviceptr at))                           \
    /* streams and events */                                                  \
    X(cuStreamCreate, , 2000, (CUstream * stream, unsigned flags))            \
    X(cuStreamCreateWithPriority, , 5050,                                     \
      (CUstream * stream, unsigned flags, int priority))                      \
    X(cuStreamDestroy, _v2, 4000, (CUstream stream))                          \
    X(cuStreamQuery, , 2000, (CUstream stream))                               \
    X(cuStreamSynchronize, , 2000, (CUstream stream))                         \
    X(cuStreamGetFlags, , 5050, (CUstream stream, unsigned *flags))           \
    X(cuStreamGetPriority, , 5050, (CUstream stream, int *priority))          \
    X(cuStreamGetCtx, , 9020, (CUstream stream, CUcontext * ctx))             \
    X(cuStreamWaitEvent, , 3020,                                              \
      (CUstream stream, CUevent event, unsigned flags))                       \
    X(cuStreamAddCallback, , 5000,                                            \
      (CUstream stream, CUstreamCallback * fn, void *user, unsigned flags))   \
    X(cuEventCreate, , 2000, (CUevent * event, unsigned flags))               \
    X(cuEventDestroy, _v2, 4000, (CUevent event))                             \
    X(cuEventRecord, , 2000, (CUevent event, CUstream stream))                \
    X(cuEventRecordWithFlags, , 11010,                                        \
      (CUevent event, CUstream stream, unsigned flags))                       \
    X(cuEventQuery, , 2000, (CUevent event))                                  \
    X(cuEventSynchronize, , 2000, (CUevent event))                            \
    X(cuEventElapsedTime, , 2000, (float *ms, CUevent start, CUevent end))    \
    X(cuEventElapsedTime, _v2, 12080,                                         \
      (float *ms, CUevent start, CUevent end))                                \
    /* capture and graphs */                                                  \
    X(cuStreamBeginCapture, _v2, 10010, (CUstream stream, int mode))          \
    X(cuStreamEndCapture, , 10000, (CUstream stream, CUgraph * graph))        \
    X(cuStreamIsCapturing, , 10000, (CUstream stream, int *status))           \
    X(cuThreadExchangeStreamCaptureMode, , 10010, (int *mode))                \
    X(cuGraphGetNodes, , 10000,                                               \
      (CUgraph graph, CUgraphNode * nodes, size_t * count))                   \
    X(cuGraphInstantiateWithFlags, , 11040,                                   \
      (CUgraphExec * exec, CUgraph graph, unsigned long long flags))          \
    X(cuGraphUpload, , 11010, (CUgraphExec exec, CUstream stream))            \
    X(cuGraphLaunch, , 10000, (CUgraphExec exec, CUstream stream))            \
    X(cuGraphExecDestroy, , 10000, (CUgraphExec exec))                        \
    X(cuGraphDestroy, , 10000, (CUgraph graph))                               \
    /* tensor maps */                                                         \
    X(cuTensorMapEncodeTiled, , 12000,                                        \
      (void *map, int type, unsigned rank, void *address,                     \
       const uint64_t *dim, const uint64_t *stride, const uint32_t *box,      \
       const uint32_t *step, int interleave, int swizzle, int promotion,      \
       int fill))                                                             \
    X(cuTensorMapReplaceAddress, , 12000, (void *map, void *address))

#define VG_API_PROTOTYPE(name, suffix, since, args) CUresult name##suffix args;
#pragma GCC visibility push(default)
VG_API(VG_API_PROTOTYPE)
#pragma GCC visibility pop

#endif
