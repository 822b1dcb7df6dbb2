/* SPDX-License-Identifier: Apache-2.0
 *
 * mla.h: the public face of libmla, the runtime of generated MLA kernels.
 *
 * `mlagen build` writes a directory: a manifest, one CUDA C file per kernel
 * and their cubins.  This library loads such a directory, finds the kernel
 * that fits the GPU at hand, and launches it.  It prints nothing, never
 * exits, and keeps no global state.  CUDA is reached through dlopen alone,
 * so the library loads, and lists kernels, on a machine without a GPU.
 *
 *     mla_context *ctx;
 *     mla_kernels *set;
 *     mla_kernel *kernel;
 *     mla_args *args;
 *
 *     mla_context_create(NULL, &ctx);
 *     mla_load(ctx, "out/deepseek-v3", &set);
 *     mla_find(set, "kv_gather", "", 0, 0, &kernel);
 *     mla_args_create(kernel, &args);
 *     mla_args_set_ptr(args, "kv_cache", pool);
 *     ...
 *     mla_launch(args, stream);
 *
 * Conventions.  A function that can fail returns mla_status; its outputs come
 * last and are zeroed on failure; mla_last_error has the reason as text.
 * Device addresses are uint64_t (a CUdeviceptr), streams are void * (a
 * CUstream; NULL is the default stream).  Strings that are returned belong to
 * the object they came from and live as long as it does.
 * Threads: a context and all that came from it may be used by one thread at
 * a time; different contexts are independent of each other.
 */
#ifndef MLA_H
#define MLA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MLA_API __attribute__((visibility("default")))
#else
#define MLA_API
#endif

#define MLA_VERSION_MAJOR 0
#define MLA_VERSION_MINOR 1
#define MLA_VERSION_PATCH 0
#define MLA_VERSION_NUMBER                                                   \
    (MLA_VERSION_MAJOR * 10000 + MLA_VERSION_MINOR * 100 + MLA_VERSION_PATCH)

/* ------------------------------------------------------------------------
 * Status
 * --------------------------------------------------------------------- */

/* X(name, number, text).  Numbers are part of the ABI and never change. */
#define MLA_STATUS_LIST(X)                                                   \
    X(OK, 0, "success")                                                      \
    X(INVALID_ARGUMENT, 1, "invalid argument")                               \
    X(OUT_OF_MEMORY, 2, "out of memory")                                     \
    X(IO, 3, "a file cannot be read")                                        \
    X(BAD_MANIFEST, 4, "the manifest is not one that this library reads")    \
    X(CORRUPT, 5, "a file differs from the hash in the manifest")            \
    X(NO_DRIVER, 6, "no usable CUDA driver")                                 \
    X(NO_DEVICE, 7, "no such CUDA device")                                   \
    X(NO_KERNEL, 8, "no kernel of the directory fits")                       \
    X(AMBIGUOUS, 9, "several kernels fit; the query must say more")          \
    X(NO_COMPILER, 10, "no usable NVRTC")                                    \
    X(COMPILE, 11, "NVRTC refused the source")                               \
    X(CUDA, 12, "the CUDA driver reported an error")                         \
    X(DEVICE_LIMIT, 13, "the kernel needs more than the device has")         \
    X(UNKNOWN_FIELD, 14, "the kernel has no such argument")                  \
    X(TYPE, 15, "the argument has another type")                             \
    X(RANGE, 16, "the value does not fit the argument")                      \
    X(UNSET, 17, "an argument has not been set")                             \
    X(NULL_POINTER, 18, "an argument must not be NULL")                      \
    X(MISALIGNED, 19, "a pointer or stride is not aligned as required")      \
    X(VERSION, 20, "header and library versions differ")

typedef enum mla_status {
#define MLA_STATUS_ENUM(name, number, text) MLA_##name = number,
    MLA_STATUS_LIST(MLA_STATUS_ENUM)
#undef MLA_STATUS_ENUM
    MLA_STATUS_MAX_ = 0x7fffffff /* pins the enum's width to 32 bits */
} mla_status;

/* "MLA_CUDA" and "the CUDA driver reported an error"; never NULL. */
MLA_API const char *mla_status_name(mla_status status);
MLA_API const char *mla_status_text(mla_status status);

/* The library's version as number (as MLA_VERSION_NUMBER) and text. */
MLA_API int mla_version(void);
MLA_API const char *mla_version_text(void);

/* ------------------------------------------------------------------------
 * Simple: context, directory, find, set, launch
 * --------------------------------------------------------------------- */

typedef struct mla_context mla_context; /* one device, one error text */
typedef struct mla_kernels mla_kernels; /* a loaded directory */
typedef struct mla_kernel mla_kernel;   /* one kernel of a directory */
typedef struct mla_args mla_args;       /* an argument block being filled */

enum { MLA_LOG_ERROR = 0, MLA_LOG_WARNING = 1, MLA_LOG_INFO = 2 };

/* One line of log without newline.  Called on the caller's thread. */
typedef void (*mla_log_fn)(void *user, int level, const char *text);

/* Reallocates as realloc(3) does; size 0 frees and returns NULL. */
typedef void *(*mla_alloc_fn)(void *user, void *block, size_t size);

/* Start from MLA_OPTIONS_INIT; 0 and NULL mean the default everywhere. */
typedef struct mla_options {
    size_t size;        /* sizeof(mla_options) of the caller */
    int version;        /* MLA_VERSION_NUMBER of the caller's header */
    int device;         /* ordinal of the CUDA device */
    const char *driver; /* library; else $MLA_DRIVER, else libcuda.so.1 */
    const char *nvrtc;  /* library; else $MLA_NVRTC, else searched for */
    mla_alloc_fn alloc; /* else realloc and free */
    void *alloc_user;
    mla_log_fn log; /* else silence */
    void *log_user;
} mla_options;

#define MLA_OPTIONS_INIT                                                     \
    { sizeof(mla_options), MLA_VERSION_NUMBER, 0, NULL, NULL, NULL, NULL,    \
      NULL, NULL }

/* Makes a context.  options may be NULL.  Touches neither driver nor device
 * (safe before fork); the first call that needs them opens them.
 * Errors: VERSION (another major version), INVALID_ARGUMENT, OUT_OF_MEMORY. */
MLA_API mla_status mla_context_create(const mla_options *options,
                                      mla_context **out);

/* Frees the context.  Directories that came from it must be freed before.
 * NULL is a no-op. */
MLA_API void mla_context_destroy(mla_context *ctx);

/* Why the last failed call on this context failed: names what it is about
 * and, for a compilation, holds NVRTC's log.  "" if nothing has failed.
 * Valid until the next failure or the context's end. */
MLA_API const char *mla_last_error(const mla_context *ctx);

/* Reads directory/manifest.json.  No GPU is needed.  Sources and cubins are
 * read, and checked against their hashes, when a kernel is first used; the
 * directory is never written to.
 * Errors: IO, BAD_MANIFEST (with the JSON path), OUT_OF_MEMORY. */
MLA_API mla_status mla_load(mla_context *ctx, const char *directory,
                            mla_kernels **out);

/* Unloads the modules and frees the directory, its kernels and strings.
 * Argument blocks must be freed before.  NULL is a no-op. */
MLA_API void mla_kernels_free(mla_kernels *kernels);

/* The kernel of that family and variant ("" for the plain one) that runs
 * best on the context's device: an exact architecture before an older one of
 * the same generation, that before one whose PTX the driver must compile.
 * heads is the local head count, page_size in tokens; 0: there is one only.
 * Errors: NO_KERNEL (names the field that excludes, and what there is),
 * AMBIGUOUS, NO_DRIVER, NO_DEVICE. */
MLA_API mla_status mla_find(mla_kernels *kernels, const char *family,
                            const char *variant, int heads, int page_size,
                            mla_kernel **out);

/* An empty argument block for the kernel; free it with mla_args_free. */
MLA_API mla_status mla_args_create(mla_kernel *kernel, mla_args **out);
MLA_API void mla_args_free(mla_args *args);

/* Sets the named field.  Pointers are device addresses; integers serve i32
 * and i64 fields; strides are in bytes.
 * Errors: UNKNOWN_FIELD, TYPE, RANGE. */
MLA_API mla_status mla_args_set_ptr(mla_args *args, const char *field,
                                    uint64_t address);
MLA_API mla_status mla_args_set_int(mla_args *args, const char *field,
                                    int64_t value);
MLA_API mla_status mla_args_set_float(mla_args *args, const char *field,
                                      double value);

/* Checks the block and launches the kernel on the stream (NULL: default).
 * A launch without work (zero tokens) succeeds without reaching the device;
 * pointers may then be NULL.  Asynchronous, as every CUDA launch.
 * Errors: UNSET, NULL_POINTER, MISALIGNED, RANGE (each names the field, its
 * value and what is required), DEVICE_LIMIT, and those of mla_prepare. */
MLA_API mla_status mla_launch(mla_args *args, void *stream);

/* ------------------------------------------------------------------------
 * Explicit: what there is, loading ahead, launching a struct
 * --------------------------------------------------------------------- */

/* The context's device.  Set size before the call. */
typedef struct mla_device_info {
    size_t size;
    char name[128];
    int major, minor;       /* compute capability */
    int sm_count;
    int smem_optin;         /* bytes of shared memory a block may ask for */
    int driver_version;     /* 13000 for CUDA 13.0 */
    const char *driver;     /* the library that was opened */
} mla_device_info;

/* Opens driver and device if they are not, and describes them.
 * Errors: NO_DRIVER (names the missing library or symbol), NO_DEVICE, CUDA. */
MLA_API mla_status mla_device(mla_context *ctx, mla_device_info *info);

/* A kernel as its manifest describes it.  Set size before the call. */
typedef struct mla_kernel_info {
    size_t size;
    const char *symbol, *family, *variant;
    const char *arch;   /* "sm_90a" */
    const char *dtype;  /* "bf16" or "fp16" */
    const char *source; /* path inside the directory */
    const char *cubin;  /* the same; "" before `mlagen build` */
    int heads, page_size;
    int nope, rope, v, latent; /* dims; 0 where the kernel has none */
    int field_count;
    size_t args_size; /* bytes of the argument struct */
    int block[3];
    int64_t smem_dynamic; /* bytes */
} mla_kernel_info;

MLA_API int mla_kernels_count(const mla_kernels *kernels);

/* The i-th kernel in manifest order, or NULL. */
MLA_API mla_kernel *mla_kernels_at(const mla_kernels *kernels, int i);

/* The model's name and the text of manifest.json. */
MLA_API const char *mla_kernels_model(const mla_kernels *kernels);
MLA_API const char *mla_kernels_manifest(const mla_kernels *kernels);

MLA_API mla_status mla_kernel_describe(const mla_kernel *kernel,
                                       mla_kernel_info *info);

enum { MLA_PTR = 0, MLA_I64 = 1, MLA_I32 = 2, MLA_F32 = 3 };
enum { MLA_IN = 0, MLA_OUT = 1, MLA_INOUT = 2 };

/* One field of a kernel's argument struct.  Set size before the call. */
typedef struct mla_field_info {
    size_t size;
    const char *name;
    const char *elem; /* pointers: bf16 fp16 f32 i32 i64 byte; else "" */
    const char *doc;
    int type;         /* MLA_PTR ... */
    int access;       /* pointers: MLA_IN ... */
    int nullable;     /* pointers: NULL is allowed */
    int align;        /* pointers: bytes the address is a multiple of */
    int multiple;     /* integers: the value is a multiple of this */
    size_t offset;    /* in the struct, bytes */
} mla_field_info;

MLA_API mla_status mla_kernel_field(const mla_kernel *kernel, int i,
                                    mla_field_info *info);

/* Forgets every value of the block. */
MLA_API void mla_args_clear(mla_args *args);

/* Loads the kernel onto the device now rather than at its first launch.
 * The cubin comes first; if it is absent, or the driver has no use for it,
 * the source is compiled to PTX through NVRTC.
 * Errors: IO, CORRUPT, NO_KERNEL (the device cannot run this one),
 * NO_COMPILER, COMPILE (with the log), CUDA, DEVICE_LIMIT. */
MLA_API mla_status mla_prepare(mla_kernel *kernel);

/* As mla_launch, with the struct of the generated header by address.
 * bytes must be its size. */
MLA_API mla_status mla_launch_struct(mla_kernel *kernel, const void *args,
                                     size_t bytes, void *stream);

/* ------------------------------------------------------------------------
 * Advanced
 * --------------------------------------------------------------------- */

/* Looks a symbol up in the driver library, which need not be NVIDIA's.
 * Errors: NO_DRIVER (library or symbol missing). */
MLA_API mla_status mla_driver_symbol(mla_context *ctx, const char *name,
                                     void **out);

/* Whether the context's device can run the kernel: 0 no, 1 through PTX,
 * 2 by its cubin.
 * Errors: NO_DRIVER, NO_DEVICE. */
MLA_API mla_status mla_kernel_fits(mla_kernel *kernel, int *out);

#ifdef __cplusplus
}
#endif

#endif
