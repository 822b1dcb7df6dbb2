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
 * a time; different contexts are independent of each other.  Pools have a
 * rule of their own.
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
    X(VERSION, 20, "header and library versions differ")                     \
    X(OUT_OF_PAGES, 21, "the pool has too few free pages")                   \
    X(OUT_OF_SEQUENCES, 22, "the pool has no room for another sequence")     \
    X(TOO_LONG, 23, "the sequence would outgrow its block table")            \
    X(NO_SEQUENCE, 24, "no sequence of this pool")                           \
    X(DROPPED, 25, "the sequence has been dropped")                          \
    X(BAD_PAGE, 26, "no page in use of this pool")                           \
    X(DOUBLE_FREE, 27, "the page is not retained")                           \
    X(STREAMS, 28, "the pool has been given too many streams")               \
    X(CAPTURING, 29, "not while the stream is being captured")               \
    X(BROKEN, 30, "the pool's books do not balance")                         \
    X(NO_POLICY, 31, "no dispatch policy of that name")                      \
    X(NO_METHOD, 32, "the policy has no method for the batch")               \
    X(FORKED, 33, "the context was in use before a fork")                    \
    X(NO_CUBLAS, 34, "no usable cuBLAS")

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

/* Reallocates as realloc(3) does; size 0 frees and returns NULL.  Called from
 * several threads where mla_prepare_some compiles. */
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
    const char *cache; /* folder of compiled kernels, "" for none; else
                          $MLA_CACHE, else $XDG_CACHE_HOME/mla or
                          ~/.cache/mla */
} mla_options;

#define MLA_OPTIONS_INIT                                                     \
    { sizeof(mla_options), MLA_VERSION_NUMBER, 0, NULL, NULL, NULL, NULL,    \
      NULL, NULL, NULL }

/* Makes a context.  options may be NULL.  Touches neither driver nor device
 * (safe before fork); the first call that needs them opens them.  After
 * that a child process cannot use the context: its calls return FORKED.
 * Errors: VERSION (a header of another major version, or newer than the
 * library), INVALID_ARGUMENT, OUT_OF_MEMORY. */
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
    int tile_m, tile_n; /* rows and keys per tile; 0 where it has none */
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

/* One file of a set that is in memory. */
#ifndef MLA_FILE_DEFINED
#define MLA_FILE_DEFINED
typedef struct mla_file {
    const char *path; /* as in the manifest: "src/x.cu" */
    const void *data;
    size_t bytes;
} mla_file;
#endif

/* As mla_load, from memory: manifest.json, and of sources and cubins what
 * there is (sources alone will do, and so will cubins).  name is what errors
 * call the set.  paths and data must stay until mla_kernels_free.
 * Errors: as mla_load. */
MLA_API mla_status mla_load_files(mla_context *ctx, const char *name,
                                  const mla_file *files, int count,
                                  mla_kernels **out);

/* Loads the kernel onto the device now rather than at its first launch.
 * The set's cubin comes first; if it is absent, or the driver has no use for
 * it, the source is compiled through NVRTC, or what an earlier compilation
 * of it left in the cache is taken (docs/jit-cache.md).
 * Errors: IO, CORRUPT, NO_KERNEL (the device cannot run this one),
 * NO_COMPILER, COMPILE (with the log), CUDA, DEVICE_LIMIT, FORKED. */
MLA_API mla_status mla_prepare(mla_kernel *kernel);

/* A kernel is on the device, the done-th of total.  Called on the caller's
 * thread. */
typedef void (*mla_progress_fn)(void *user, int done, int total,
                                const mla_kernel *kernel);

/* Start from {sizeof(mla_prepare_options)}. */
typedef struct mla_prepare_options {
    size_t size;
    int jobs; /* threads that compile; 0: one per CPU */
    mla_progress_fn progress;
    void *user;
} mla_prepare_options;

/* mla_prepare for count kernels of one set, or for each that mla_find would
 * choose on the device; what has to be compiled is compiled in parallel.
 * The others are prepared even if one fails; the first failure is returned.
 * options may be NULL.  Errors: as mla_prepare, INVALID_ARGUMENT. */
MLA_API mla_status mla_prepare_some(mla_kernel *const *kernels, int count,
                                    const mla_prepare_options *options);
MLA_API mla_status mla_prepare_all(mla_kernels *kernels,
                                   const mla_prepare_options *options);

/* As mla_launch, with the struct of the generated header by address.
 * bytes must be its size. */
MLA_API mla_status mla_launch_struct(mla_kernel *kernel, const void *args,
                                     size_t bytes, void *stream);

/* ------------------------------------------------------------------------
 * Latent pool: pages, sequences, block tables
 *
 * Rows live in pages of page_size tokens; a sequence owns a list of pages,
 * and pages are shared between sequences by counted references.  Page 0 is
 * zeroed and never handed out: padding may read it.  The pool keeps the
 * books on the host; on the device it owns (or is given) the row buffers,
 * and one set of tables for the step at hand.
 *
 *     mla_pool_add(pool, &seq);
 *     mla_pool_extend(pool, &seq, &prompt_length, 1, NULL);
 *     mla_pool_step(pool, &batch, stream, &step);   one async copy
 *     ... kernels on the stream, with step.block_table and so on ...
 *     mla_pool_drop(pool, seq, stream);
 *
 * Threads: every function but create and destroy may be called from any
 * thread at any time, also while another thread uses the context (a mutex
 * inside; allocator and log function must allow for it).  Errors go to
 * mla_pool_last_error, not to mla_last_error.
 * A call that fails with another status than CUDA has changed nothing.
 * --------------------------------------------------------------------- */

typedef struct mla_pool mla_pool;

/* A sequence.  0 is never one; a handle is not used twice. */
typedef uint64_t mla_seq;

/* Order of the axes in memory, outermost first. */
enum {
    MLA_LAYER_FIRST = 0, /* [layers, pages, page_size, row] */
    MLA_PAGE_FIRST = 1,  /* [pages, layers, page_size, row] */
    MLA_TOKEN_FIRST = 2  /* [pages, page_size, layers, row] */
};

/* Start from MLA_POOL_OPTIONS_INIT and set pages and row_bytes; 0 and NULL
 * mean the default. */
typedef struct mla_pool_options {
    size_t size;       /* sizeof(mla_pool_options) of the caller */
    int64_t pages;     /* page 0 included, at least 2 */
    int64_t row_bytes; /* of one token in one layer: (R + DR) * element */
    int page_size;     /* tokens, a power of two up to 256; default 64 */
    int layers;        /* default 1 */
    int layout;        /* MLA_LAYER_FIRST ...: strides that are not given */
    int64_t row_stride, page_stride, layer_stride; /* bytes */
    const uint64_t *buffers; /* [layers] the caller's; else one allocation */
    int max_sequences; /* alive at once; default 256, at most 2^24 - 1 */
    int table_width;   /* pages of the longest sequence; default 1024 */
    int max_batch;     /* rows of a step; default max_sequences */
    int64_t max_tokens; /* new tokens of a step; default 8192 */
    int stages;    /* pinned copies of the tables, steps ahead; default 4 */
    int host_only; /* books only: no device, pages are free at once */
} mla_pool_options;

#define MLA_POOL_OPTIONS_INIT                                                \
    { sizeof(mla_pool_options), 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, \
      0 }

/* Makes a pool; everything that steps and sequences need is allocated here,
 * later calls allocate only when many page copies are pending.
 * Errors (in mla_last_error): INVALID_ARGUMENT (names the option),
 * MISALIGNED (a stride), OUT_OF_MEMORY, NO_DRIVER, NO_DEVICE, CUDA. */
MLA_API mla_status mla_pool_create(mla_context *ctx,
                                   const mla_pool_options *options,
                                   mla_pool **out);

/* Waits for the device and frees everything.  NULL is a no-op. */
MLA_API void mla_pool_destroy(mla_pool *pool);

/* Copies the text of the last failed call into text[size]; "" if none.
 * Among several threads it is the one that failed last. */
MLA_API void mla_pool_last_error(mla_pool *pool, char *text, size_t size);

/* What the pool became of its options.  Set size before the call. */
typedef struct mla_pool_info {
    size_t size;
    int64_t pages, row_bytes, row_stride, page_stride, layer_stride;
    int page_size, layers, max_sequences, table_width, max_batch, stages;
    int64_t max_tokens;
    size_t device_bytes, pinned_bytes; /* allocated by the pool */
} mla_pool_info;

MLA_API mla_status mla_pool_describe(mla_pool *pool, mla_pool_info *info);

/* The address of row 0 of page 0 of a layer; 0 if there is none.  Slot s is
 * at address + s / page_size * page_stride + s % page_size * row_stride. */
MLA_API uint64_t mla_pool_buffer(mla_pool *pool, int layer);

/* An empty sequence.  Error: OUT_OF_SEQUENCES. */
MLA_API mla_status mla_pool_add(mla_pool *pool, mla_seq *out);

/* Grows n different sequences by counts[i] >= 0 tokens (NULL: by one each),
 * all or none.  slots, if not NULL, receives the slots of the new tokens in
 * batch order.  Tokens fill the last page first, then new pages in the order
 * of the free list.  A last page that is shared is replaced, and its rows in
 * use become a pending copy.
 * Errors: OUT_OF_PAGES (says how many are waiting for a stream), TOO_LONG,
 * NO_SEQUENCE, DROPPED, INVALID_ARGUMENT, OUT_OF_MEMORY. */
MLA_API mla_status mla_pool_extend(mla_pool *pool, const mla_seq *seqs,
                                   const int32_t *counts, int n,
                                   int64_t *slots);

/* A sequence that shares the first length tokens (-1: all) of another.
 * Errors: RANGE (longer than the parent), OUT_OF_SEQUENCES, NO_SEQUENCE,
 * DROPPED. */
MLA_API mla_status mla_pool_fork(mla_pool *pool, mla_seq parent,
                                 int64_t length, mla_seq *out);

/* Shortens a sequence to length tokens (drafts that were refused) or ends
 * it.  stream is one that may still use the pages; they are handed out again
 * when it, and every other stream that the pool has been given, has passed
 * the point it has reached by then.
 * Errors: RANGE (longer than the sequence), NO_SEQUENCE, DROPPED, STREAMS. */
MLA_API mla_status mla_pool_truncate(mla_pool *pool, mla_seq seq,
                                     int64_t length, void *stream);
MLA_API mla_status mla_pool_drop(mla_pool *pool, mla_seq seq, void *stream);

/* Tokens of a sequence; its pages, at most capacity of them (*count is their
 * number); the slots of tokens first .. first + n - 1. */
MLA_API mla_status mla_pool_length(mla_pool *pool, mla_seq seq,
                                   int64_t *length);
MLA_API mla_status mla_pool_pages(mla_pool *pool, mla_seq seq, int32_t *pages,
                                  int capacity, int *count);
MLA_API mla_status mla_pool_slots(mla_pool *pool, mla_seq seq, int64_t first,
                                  int64_t n, int64_t *slots);

/* References of the caller's own, for a prefix cache that outlives its
 * sequences: retain and release count per page, adopt makes a sequence of
 * length tokens out of n pages, ceil(length / page_size) of them, which
 * must be in use.  All pages or none.
 * Errors: BAD_PAGE (page 0, beyond the pool, or not in use), DOUBLE_FREE
 * (release of what is not retained), RANGE, OUT_OF_SEQUENCES, TOO_LONG. */
MLA_API mla_status mla_pool_retain(mla_pool *pool, const int32_t *pages,
                                   int n);
MLA_API mla_status mla_pool_release(mla_pool *pool, const int32_t *pages,
                                    int n, void *stream);
MLA_API mla_status mla_pool_adopt(mla_pool *pool, const int32_t *pages, int n,
                                  int64_t length, mla_seq *out);

/* Rows to be copied within the pool, in every layer, in this order. */
typedef struct mla_pool_copy {
    int32_t from_page, from_row, to_page, to_row, rows;
} mla_pool_copy;

/* Gives the sequence pages of its own under tokens first .. first + n - 1,
 * as mla_pool_extend does for new ones; whoever writes old rows calls it.
 * Errors: OUT_OF_PAGES, RANGE, NO_SEQUENCE, DROPPED, OUT_OF_MEMORY. */
MLA_API mla_status mla_pool_own(mla_pool *pool, mla_seq seq, int64_t first,
                                int64_t n);

/* Moves the rows of tokens from[i] to tokens to[i] of a sequence, one after
 * the other (drafts of a tree that were accepted), as pending copies.  The
 * target's pages become the sequence's own.  Errors as mla_pool_own. */
MLA_API mla_status mla_pool_move(mla_pool *pool, mla_seq seq,
                                 const int64_t *from, const int64_t *to,
                                 int n);

/* Pending copies: mla_pool_step and mla_pool_flush enqueue them on a stream.
 * A caller with buffers of its own beside the pool's (an indexer's keys)
 * reads the list (*count is its length), performs it, and reports the first
 * count of it as enqueued. */
MLA_API mla_status mla_pool_copies(mla_pool *pool, mla_pool_copy *copies,
                                   int capacity, int *count);
MLA_API mla_status mla_pool_copies_done(mla_pool *pool, int count,
                                        void *stream);
MLA_API mla_status mla_pool_flush(mla_pool *pool, void *stream);

/* Start from {sizeof(mla_pool_batch)}. */
typedef struct mla_pool_batch {
    size_t size;
    const mla_seq *seqs;   /* [rows] */
    const int32_t *q_lens; /* [rows] newest tokens of each; NULL: one each */
    int rows;
    int padded;  /* rows of the tables, at least rows; the rest are empty */
    int compact; /* stride fits this batch: fewer bytes, not for graphs */
} mla_pool_batch;

/* Tables of a step, on the device.  Addresses never change, and the stride
 * does not unless compact is set, so a captured graph may hold them. */
typedef struct mla_pool_tables {
    size_t size;
    uint64_t block_table; /* i32 [padded, stride]; unused entries are 0 */
    int64_t block_table_stride; /* bytes */
    uint64_t seq_lens;          /* i32 [padded] */
    uint64_t cu_q;              /* i32 [padded + 1] */
    uint64_t slots;             /* i64 [tokens], of the q_lens newest */
    int rows, padded;
    int64_t tokens, max_seq_len;
    size_t bytes; /* of the one copy */
} mla_pool_tables;

/* Begins a step on the stream: enqueues the pending copies, brings the
 * tables of the batch up to date by one asynchronous copy, and takes back
 * pages whose streams have passed.  A step on another stream than the last
 * one waits for that (an event, no host wait).  The host waits only when
 * `stages` earlier steps have not begun yet.
 * Errors: RANGE (batch beyond max_batch or max_tokens, q_len beyond the
 * sequence), NO_SEQUENCE, DROPPED, STREAMS, CAPTURING, CUDA,
 * INVALID_ARGUMENT (host_only). */
MLA_API mla_status mla_pool_step(mla_pool *pool, const mla_pool_batch *batch,
                                 void *stream, mla_pool_tables *out);

/* Copies tokens first .. first + n - 1 between a sequence and host memory,
 * rows[layers][n][row_bytes] without gaps, asynchronously on the stream: the
 * memory must stay (and be pinned, if the host is not to wait).  Import
 * writes to pages of the sequence's own, export enqueues pending copies
 * first, as import does.
 * Errors: those of mla_pool_own and mla_pool_flush. */
MLA_API mla_status mla_pool_export(mla_pool *pool, mla_seq seq, int64_t first,
                                   int64_t n, void *rows, void *stream);
MLA_API mla_status mla_pool_import(mla_pool *pool, mla_seq seq, int64_t first,
                                   int64_t n, const void *rows, void *stream);

/* Takes back the pages whose streams have passed; with wait, waits until all
 * of them have.  mla_pool_extend does the former when pages run short.  While
 * a stream that the pool knows is being captured, nothing is taken back, and
 * waiting is refused.  Errors: CAPTURING, CUDA. */
MLA_API mla_status mla_pool_reclaim(mla_pool *pool, int wait);

/* Forgets a stream, after waiting for what it still holds; to be called
 * before it is destroyed.  A stream that the pool does not know is fine.
 * Errors: CAPTURING, CUDA. */
MLA_API mla_status mla_pool_forget(mla_pool *pool, void *stream);

/* Set size before the call.  pages = 1 + free + used + waiting + pinned. */
typedef struct mla_pool_stats {
    size_t size;
    int64_t free_pages, used_pages;
    int64_t waiting_pages; /* released, a stream has not passed yet */
    int64_t pinned_pages;  /* released, a pending copy still needs them */
    int64_t shared_pages;  /* used by more than one */
    int64_t peak_pages;    /* most used at once */
    int64_t sequences, tokens;
    int64_t pending_copies;
    uint64_t extends, forks, drops, page_copies, steps; /* so far */
    uint64_t step_waits; /* steps that waited for a stage */
} mla_pool_stats;

MLA_API mla_status mla_pool_statistics(mla_pool *pool, mla_pool_stats *stats);

/* Recounts the books.  Errors: BROKEN (names the page or sequence and what
 * is wrong), OUT_OF_MEMORY. */
MLA_API mla_status mla_pool_check(mla_pool *pool);

/* ------------------------------------------------------------------------
 * Decode: a step of the absorbed path (docs/decode.md)
 *
 * Lengths become a work list on the device, mqa_decode works it off, and
 * mqa_combine merges what was split.  Every layer of a step has the same
 * lengths, so the list is made once and used by all:
 *
 *     mla_decode_create(set, &options, &decode);
 *     mla_decode_prepare(decode);
 *     mla_decode_workspace(decode, &bounds, &bytes);   once; allocate it
 *
 *     mla_decode_plan(decode, &step, stream);          once per step
 *     mla_decode_run(decode, &step, &tensors, stream); once per layer
 *
 * Neither call allocates, waits, or reads a length on the host, so both may
 * be captured into a graph; replays read the lengths that are there then.
 * --------------------------------------------------------------------- */

/* The kernels of one head count and page size, for any q_len. */
typedef struct mla_decode mla_decode;

/* Start from MLA_DECODE_OPTIONS_INIT; 0 means the default. */
typedef struct mla_decode_options {
    size_t size;
    int heads, page_size; /* as mla_find; 0: there is one only */
    int ctas;       /* workers that share the keys; default: all that fit on
                       the device at once */
    int min_tiles;  /* fewest key tiles worth a worker; default 1 */
    int split_keys; /* > 0: batch-invariant, a request is cut every split_keys
                       keys (rounded up to whole tiles) from key 0, so that
                       its bits depend on its own length alone; 0: cut so
                       that all workers get the same */
} mla_decode_options;

#define MLA_DECODE_OPTIONS_INIT { sizeof(mla_decode_options), 0, 0, 0, 0, 0 }

/* Finds the kernels that run best on the device.  The set must stay.
 * Errors: as mla_find (NO_KERNEL names what is missing), RANGE (a negative
 * option), BAD_MANIFEST (a kernel that this library cannot drive),
 * OUT_OF_MEMORY. */
MLA_API mla_status mla_decode_create(mla_kernels *kernels,
                                     const mla_decode_options *options,
                                     mla_decode **out);
MLA_API void mla_decode_free(mla_decode *decode);

/* mla_prepare for all of its kernels; needed before a capture. */
MLA_API mla_status mla_decode_prepare(mla_decode *decode);

/* A step: what the host knows of it.  Start from {sizeof(mla_decode_step)}.
 * max_seq_len bounds the lengths of this and, in a graph, of every replay; a
 * step that outgrows it gives NaN, and mla_decode_check says so. */
typedef struct mla_decode_step {
    size_t size;
    int batch;           /* requests; 0: every call is a no-op */
    int q_len;           /* query tokens of each, above 1 for MTP; 0: 1 */
    int64_t max_seq_len; /* 0: 2^31 - 1 */
    uint64_t seq_lens;   /* i32 [batch], keys, the q_len new ones included; a
                            request of length 0 gives O = 0 and empty LSE */
    uint64_t workspace;  /* aligned to 256 bytes; contents do not matter */
    int64_t workspace_bytes;
} mla_decode_step;

/* Bytes that suffice for every step of at most that batch, q_len and
 * max_seq_len (the rest of the step is ignored): what the largest of them
 * needs, no more.  Grows with each of the three, and with `ctas`; shrinks
 * with `split_keys`.
 * Errors: RANGE (negative or absurd values, named; more than int32 items or
 * int64 bytes; split_keys without max_seq_len). */
MLA_API mla_status mla_decode_workspace(mla_decode *decode,
                                        const mla_decode_step *bounds,
                                        int64_t *bytes);

/* What one step needs and uses, for callers that launch the kernels by
 * themselves.  Offsets are bytes from the workspace.  Set size. */
typedef struct mla_decode_layout {
    size_t size;
    mla_kernel *plan, *decode, *combine;
    int rows_per_tile, keys_per_tile; /* of the decode kernel */
    int ctas, min_tiles, split_tiles;
    int64_t units, item_capacity, slot_capacity;
    int64_t header, item_begin, items, unit_slots, partial_o, partial_lse;
    int64_t bytes;
} mla_decode_layout;

/* Errors: as mla_decode_workspace. */
MLA_API mla_status mla_decode_describe(mla_decode *decode,
                                       const mla_decode_step *step,
                                       mla_decode_layout *out);

/* Makes the step's work list in its workspace, asynchronously.
 * Errors: RANGE (as mla_decode_workspace; a workspace that is too small, with
 * both sizes), NULL_POINTER, MISALIGNED, CAPTURING (a kernel is not on the
 * device yet; names mla_prepare), and those of mla_launch. */
MLA_API mla_status mla_decode_plan(mla_decode *decode,
                                   const mla_decode_step *step, void *stream);

/* The tensors of one layer.  Start from {sizeof(mla_decode_tensors)};
 * addresses are the device's, strides bytes, and a stride of 0 stands for
 * that of a tensor without gaps. */
typedef struct mla_decode_tensors {
    size_t size;
    uint64_t q; /* [batch, q_len, heads, R + DR], as absorb_q writes it */
    int64_t q_batch_stride, q_token_stride, q_head_stride;
    uint64_t kv_cache; /* [pages, page_size, R + DR] */
    int64_t page_stride, row_stride;
    uint64_t block_table; /* i32 [batch, pages of a request]; below 0: zeros */
    int64_t block_table_stride; /* must be given when batch > 1 */
    uint64_t out;               /* [batch, q_len, heads, R] */
    int64_t out_batch_stride, out_token_stride, out_head_stride;
    uint64_t lse; /* f32 [batch, q_len, heads], or 0: not wanted */
    int64_t lse_batch_stride, lse_token_stride, lse_head_stride;
    double softmax_scale; /* of the scores, the model's */
} mla_decode_tensors;

/* Attention of one layer over the work list that mla_decode_plan has made for
 * the same step and workspace, asynchronously.  Everything is checked before
 * the first launch.  Errors: as mla_decode_plan. */
MLA_API mla_status mla_decode_run(mla_decode *decode,
                                  const mla_decode_step *step,
                                  const mla_decode_tensors *tensors,
                                  void *stream);

/* Waits for the device and says whether the last planned step in the
 * workspace was computed.  For debugging; not during a capture.
 * Errors: RANGE (a length beyond max_seq_len, all outputs are NaN; a request
 * with 0 < seq_len < q_len, its outputs are NaN), CAPTURING, CUDA. */
MLA_API mla_status mla_decode_check(mla_decode *decode,
                                    const mla_decode_step *step,
                                    void *stream);

/* ------------------------------------------------------------------------
 * Dispatch: which form of the attention a batch takes
 *
 * Every layer can be computed in the original (Normal) form, which expands
 * latents to keys and values per head, or in the absorbed form, which works
 * on the latents themselves.  A policy chooses; the answer is the same.
 * A policy is immutable: any number of threads may ask one, each with a
 * decision of its own (failures, which use the context's error text, aside).
 * --------------------------------------------------------------------- */

/* X(name, number, run as, meaning).  "Run as" is the one of MHA,
 * MHA_ONE_SHOT, MHA_CHUNKED_KV and MLA that libmla executes for it, or NONE
 * where it has no kernels of that kind. */
#define MLA_METHOD_LIST(X)                                                   \
    X(MHA, 0, MHA, "expanded keys and values, new tokens only")              \
    X(MLA, 1, MLA, "absorbed: queries against the latents")                  \
    X(MHA_CHUNKED_KV, 2, MHA_CHUNKED_KV,                                     \
      "expanded; the prefix in chunks, merged by LSE")                       \
    X(MHA_ONE_SHOT, 3, MHA_ONE_SHOT,                                         \
      "expanded; prefix and new tokens together")                            \
    X(MLA_FUSED_ROPE_ROCM, 4, MLA, "absorbed decode, rope and write fused")  \
    X(MLA_FUSED_ROPE_CPU, 5, MLA, "absorbed, one AMX operation before it")   \
    X(MHA_NPU, 6, MHA, "expanded, on Ascend")                                \
    X(MLA_NPU, 7, MLA, "absorbed, on Ascend")                                \
    X(DSA_NPU, 8, NONE, "sparse, on Ascend")                                 \
    X(MHA_ROCM, 9, MHA, "expanded, on ROCm")                                 \
    X(MHA_ONE_SHOT_ROCM, 10, MHA_ONE_SHOT, "one shot, on ROCm")              \
    X(MLA_ROCM, 11, MLA, "absorbed, on ROCm")

typedef enum mla_method {
    MLA_METHOD_NONE = -1,
#define MLA_METHOD_ENUM(name, number, run, text)                             \
    MLA_METHOD_##name = number,
    MLA_METHOD_LIST(MLA_METHOD_ENUM)
#undef MLA_METHOD_ENUM
    MLA_METHOD_MAX_ = 0x7fffffff
} mla_method;

/* X(name, number, "is a plain extend").  A verify has drafts for queries, a
 * draft extend is not counted as an extend. */
#define MLA_MODE_LIST(X)                                                     \
    X(EXTEND, 0, 1)                                                          \
    X(DECODE, 1, 0)                                                          \
    X(MIXED, 2, 1)                                                           \
    X(IDLE, 3, 0)                                                            \
    X(TARGET_VERIFY, 4, 0)                                                   \
    X(DRAFT_EXTEND, 5, 0)                                                    \
    X(SPLIT_PREFILL, 6, 1)                                                   \
    X(DLLM_EXTEND, 7, 1)

typedef enum mla_mode {
#define MLA_MODE_ENUM(name, number, plain) MLA_MODE_##name = number,
    MLA_MODE_LIST(MLA_MODE_ENUM)
#undef MLA_MODE_ENUM
    MLA_MODE_MAX_ = 0x7fffffff
} mla_mode;

/* "MHA_ONE_SHOT"; "absorbed: ..."; "DECODE".  "?" for what is not listed. */
MLA_API const char *mla_method_name(mla_method method);
MLA_API const char *mla_method_text(mla_method method);
MLA_API mla_method mla_method_run(mla_method method);
MLA_API const char *mla_mode_name(mla_mode mode);

/* Dims of one layer. */
typedef struct mla_cost_model {
    size_t size;
    int heads; /* on this GPU */
    int nope, rope, v, latent;
    int elem_bytes; /* of activations, weights and cache; 0: 2 */
} mla_cost_model;

/* What a device does per second, and how much of it kernels reach. */
typedef struct mla_device_profile {
    size_t size;
    const char *name;
    double flops;     /* dense bf16 */
    double bandwidth; /* bytes of device memory */
    double launch;    /* seconds from one kernel's end to the next's work */
    double gemm_share, mha_share, mla_share; /* of flops */
    double bandwidth_share;
} mla_device_profile;

/* A profile by name ("h200"), in any case; the i-th one, or NULL. */
MLA_API const mla_device_profile *mla_profile_find(const char *name);
MLA_API const mla_device_profile *mla_profile_at(int i);

/* Start from MLA_POLICY_OPTIONS_INIT; here 0 means 0. */
typedef struct mla_policy_options {
    size_t size;
    const char *prefill; /* backend whose rules apply, or "cost" */
    const char *decode;  /* for decode and idle; NULL: as prefill */
    int speculative_decode; /* verify and draft extend ask decode's rules */
    int sm;                 /* 10 * major + minor of the device; 90 */

    /* thresholds, in tokens */
    int64_t chunked_prefix_threshold; /* 8192: shorter prefixes are absorbed */
    int64_t max_chunk_capacity;       /* 131072: one shot, and chunks */
    int64_t dsa_dense_threshold;      /* 2048: longest sequence kept dense */

    int disable_chunked_prefix;
    int disable_ragged; /* flashinfer and flashmla: no expanded prefill */
    int deterministic;
    int uses_dsa;       /* ascend: the layer is a sparse one */
    int dsa_hisparse;   /* dsa: never dense */
    const char *kv_dtype; /* dsa: dense needs "bf16" or "fp8_e4m3" */
    int hip; /* AMD; sm is then the gfx number, 942 or 950 */
    int fused_rope_rocm;
    int cpu_amx;              /* AMX with a fused qkv_a projection */

    /* policy "cost" */
    const mla_cost_model *model;       /* NULL: DeepSeek-V3, 128 heads */
    const mla_device_profile *profile; /* NULL: "h200" */
    int allow_split; /* both forms in one batch; 1 */
} mla_policy_options;

#define MLA_POLICY_OPTIONS_INIT                                              \
    { sizeof(mla_policy_options), NULL, NULL, 0, 90, 8192, 131072, 2048, 0,  \
      0, 0, 0, 0, "bf16", 0, 0, 0, NULL, NULL, 1 }

typedef struct mla_policy mla_policy;

/* Makes a policy out of the rules of one or two backends.  What the choice
 * of backend implies (no chunked prefix where it has none) is applied.
 * Errors: NO_POLICY (an unknown backend; names all there are),
 * INVALID_ARGUMENT (an option that the backend refuses), OUT_OF_MEMORY. */
MLA_API mla_status mla_policy_create(mla_context *ctx,
                                     const mla_policy_options *options,
                                     mla_policy **out);
MLA_API void mla_policy_free(mla_policy *policy);

/* The i-th backend that there are rules for, or NULL. */
MLA_API const char *mla_policy_backend(int i);

/* The page size that a backend works with when asked for page_size, -1 for an
 * unknown backend; whether it takes trees of drafts (top-k above 1), -1 where
 * that is not known. */
MLA_API int mla_backend_page_size(const char *backend, int page_size);
MLA_API int mla_backend_takes_trees(const char *backend);

/* Start from {sizeof(mla_batch)}. */
typedef struct mla_batch {
    size_t size;
    mla_mode mode;
    int rows;
    const int32_t *prefix; /* [rows] tokens in the cache; NULL: none */
    const int32_t *fresh;  /* [rows] new tokens; NULL: one each */
    int captured;          /* inside a captured prefill graph */
    int context_parallel;  /* prefill split over ranks */
} mla_batch;

/* What was decided and why.  Set size before the call. */
typedef struct mla_decision {
    size_t size;
    mla_method method; /* what the rules say */
    mla_method run;    /* what libmla executes */
    mla_mode mode;
    const char *backend; /* whose rule hit */
    const char *reason;  /* the rule in words */
    int rows;
    int absorbed_rows; /* rows that take the absorbed form */
    int split;         /* both forms are used; method is the expanded one's */
    int64_t prefix, total, longest; /* sum of prefixes, of all, longest row */
    double normal_time, absorbed_time, time; /* "cost": seconds of a layer */
} mla_decision;

/* Decides for a batch.  methods, if not NULL, receives one per row (of those
 * that libmla executes).  A batch without rows or new tokens is MLA.
 * Errors: RANGE (a negative length; names the row), NO_METHOD,
 * INVALID_ARGUMENT. */
MLA_API mla_status mla_dispatch(const mla_policy *policy,
                                const mla_batch *batch, mla_method *methods,
                                mla_decision *out);

/* The decision as a line of text with its figures, at most size bytes with
 * the NUL.  Returns the length that the whole line has. */
MLA_API size_t mla_dispatch_reason(const mla_policy *policy,
                                   const mla_decision *decision, char *text,
                                   size_t size);

/* The policy as a text table: thresholds, rules in order, and what they say
 * about a grid of batches.  Returns and truncates as mla_dispatch_reason. */
MLA_API size_t mla_dispatch_table(const mla_policy *policy, char *text,
                                  size_t size);

/* Chunked prefix: chunk c holds tokens [c * chunk_len, (c + 1) * chunk_len)
 * of every prefix.  An object is reused from batch to batch. */
typedef struct mla_chunks mla_chunks;

typedef struct mla_chunk_plan {
    size_t size;
    int count;     /* chunks; 0: no row has a prefix, all else is 0 */
    int rows;
    int64_t chunk_len;
    const int32_t *lens; /* [count, rows] */
    const int32_t *cu;   /* [count, rows + 1], sums of lens before each row */
    const int32_t *start;     /* [count] = c * chunk_len */
    const int32_t *max_len;   /* [count] */
    const int32_t *total;     /* [count], at most the capacity */
    const int32_t *has_empty; /* [count] some row has no token in it */
    const void *block; /* all of these, one behind the other as listed */
    size_t block_bytes;
} mla_chunk_plan;

MLA_API mla_status mla_chunks_create(mla_context *ctx, mla_chunks **out);
MLA_API void mla_chunks_free(mla_chunks *chunks);

/* chunk_len is capacity div rows, with page_size > 0 rounded down to whole
 * pages.  The plan is good until the next call.
 * Errors: RANGE (a negative prefix; more rows than the capacity has tokens,
 * or pages), OUT_OF_MEMORY. */
MLA_API mla_status mla_chunks_plan(mla_chunks *chunks, const int32_t *prefix,
                                   int rows, int64_t capacity, int page_size,
                                   mla_chunk_plan *out);

/* ------------------------------------------------------------------------
 * Layer: the attention of a whole layer (docs/layer.md)
 *
 * From the hidden states through the projections and the pool to o_proj, for
 * a batch that mixes prefill, extend and decode; kv_b_proj serves both forms
 * of the attention where it lies.
 *
 *     mla_layer_create(set, &options, &layer);       one for all layers
 *     mla_layer_workspace(layer, &limits, &bytes);   once; allocate it
 *
 *     mla_pool_extend(pool, seqs, q_lens, rows, NULL);
 *     mla_layer_begin(layer, pool, &batch, stream);  once per step
 *     mla_layer_forward(layer, &weights, i, &states, stream);   per layer
 *
 * forward allocates nothing, waits for nothing and reads no length on the
 * host where all rows are absorbed; such a step may be captured into a graph,
 * with a begin before the capture and before every replay.
 * --------------------------------------------------------------------- */

/* The kernels and the arithmetic of one model's layers.  Used by one thread
 * at a time, one step at a time. */
typedef struct mla_layer mla_layer;

/* Rows first .. first + rows - 1 of the model's table of cosines and sines,
 * [rows][cos rope/2 | sin rope/2].  long_context: longrope's factors beyond
 * the original context.  Needs no device.
 * Errors: INVALID_ARGUMENT (the model rotates nothing, or its spec lacks
 * longrope's factors), BAD_MANIFEST. */
MLA_API mla_status mla_rope_table(mla_kernels *kernels, int64_t first,
                                  int64_t rows, int long_context,
                                  float *table);

/* Who computes plain products. */
enum {
    MLA_GEMM_AUTO = 0,   /* cuBLAS where it can be opened, else emitted */
    MLA_GEMM_CUBLAS = 1, /* or an error */
    MLA_GEMM_EMITTED = 2 /* the set's gemm kernel */
};

/* Start from {sizeof(mla_layer_options)}; 0 and NULL mean the default. */
typedef struct mla_layer_options {
    size_t size;
    int heads, page_size; /* as mla_find; 0: there is one only */
    int hidden_size;      /* 0: the spec's */
    const mla_policy *policy; /* must stay; NULL: "cost" for this layer on
                                 this device */
    uint64_t cos_sin; /* device, f32 [positions][cos rope/2 | sin rope/2];
                         not for a model that rotates nothing */
    int64_t cos_sin_stride; /* bytes; 0: packed */
    int64_t positions;      /* rows of it */
    int64_t chunk_capacity; /* keys expanded at once; 0: the policy's
                               max_chunk_capacity.  More are cut into
                               chunks, whatever the method */
    int gemm;               /* MLA_GEMM_AUTO ... */
    const char *cublas;     /* library; else $MLA_CUBLAS, else by name */
    int ctas, min_tiles;    /* as in mla_decode_options */
    int split_keys; /* the same; > 0 also chooses the emitted gemm, so that a
                       row's bits do not depend on the batch (among steps of
                       one method) */
    int stages;     /* steps begun ahead of the device; default 4 */
} mla_layer_options;

/* Finds the kernels and puts them onto the device.  The set must stay.
 * Errors: NO_KERNEL, NO_CUBLAS (asked for), BAD_MANIFEST (names the key),
 * INVALID_ARGUMENT, NULL_POINTER, MISALIGNED, RANGE (name the option), and
 * those of mla_prepare_some, mla_decode_create and mla_policy_create. */
MLA_API mla_status mla_layer_create(mla_kernels *kernels,
                                    const mla_layer_options *options,
                                    mla_layer **out);

/* Waits for the copies of the last steps and frees.  NULL is a no-op. */
MLA_API void mla_layer_free(mla_layer *layer);

/* Steps that a workspace is for.  Start from {sizeof(mla_layer_limits)}. */
typedef struct mla_layer_limits {
    size_t size;
    int rows;
    int64_t tokens;   /* new ones of all rows */
    int64_t expanded; /* keys that a Normal step expands at once: the larger
                         of its new tokens and its keys, the latter at most
                         chunk_capacity; 0: absorbed steps only */
    int64_t max_seq_len; /* for `expanded` and `split_keys` */
} mla_layer_limits;

/* Bytes that suffice for every step within the limits; grows with each of
 * them.  Errors: RANGE (names the limit). */
MLA_API mla_status mla_layer_workspace(mla_layer *layer,
                                       const mla_layer_limits *limits,
                                       int64_t *bytes);

/* A step.  Start from MLA_LAYER_BATCH_INIT.  Neighbours in the batch with
 * the same form and, absorbed, the same number of new tokens share their
 * launches: keep them together. */
typedef struct mla_layer_batch {
    size_t size;
    const mla_seq *seqs;    /* [rows], extended by their new tokens before */
    const int32_t *q_lens;  /* [rows] new tokens; NULL: one each */
    int rows;
    int padded; /* rows of a graph; those beyond `rows` are of nobody, and
                   their hidden states may be anything */
    const int64_t *positions; /* [tokens], host, rows of cos_sin; NULL: the
                                 tokens' places in their sequences */
    int mode;     /* mla_mode, or -1: as lengths say */
    int method;   /* mla_method for all rows; MLA_METHOD_NONE: the policy's */
    int captured; /* inside a captured prefill graph, for the policy */
    int64_t max_seq_len; /* with split_keys: of this step and its replays;
                            0: the longest */
    uint64_t workspace; /* device, aligned to 256 bytes; contents do not
                           matter; the layer's until the next begin */
    int64_t workspace_bytes;
} mla_layer_batch;

#define MLA_LAYER_BATCH_INIT                                                 \
    { sizeof(mla_layer_batch), NULL, NULL, 0, 0, NULL, -1, MLA_METHOD_NONE,  \
      0, 0, 0, 0 }

/* Begins a step: mla_pool_step, a method for each row, one copy of tables.
 * To be called again after every change of the sequences.
 * Errors: RANGE (a q_len beyond its sequence, a position beyond cos_sin, a
 * workspace that is too small, with both sizes), NO_METHOD, NULL_POINTER,
 * MISALIGNED, INVALID_ARGUMENT, OUT_OF_MEMORY, and those of mla_pool_step,
 * mla_dispatch, mla_chunks_plan and mla_decode_plan. */
MLA_API mla_status mla_layer_begin(mla_layer *layer, mla_pool *pool,
                                   const mla_layer_batch *batch,
                                   void *stream);

/* A checkpoint's tensors, on the device, as they are stored: [rows][columns],
 * H being the local heads.  Strides are from row to row in bytes, 0 for rows
 * without gaps; addresses and strides are multiples of 16.
 * Start from {sizeof(mla_layer_weights)}. */
typedef struct mla_layer_weights {
    size_t size;
    uint64_t qkv_a; /* [q_lora_rank + R + DR][hidden], fused; or */
    int64_t qkv_a_stride;
    uint64_t q_a, kv_a; /* [q_lora_rank][hidden], [R + DR][hidden] */
    int64_t q_a_stride, kv_a_stride;
    uint64_t q_a_norm;  /* [q_lora_rank]; not without compression */
    uint64_t kv_a_norm; /* [R]; 0: no norm */
    uint64_t q_b; /* [H (DN + DR)][q_lora_rank]; without compression q_proj,
                     [H (DN + DR)][hidden] */
    int64_t q_b_stride;
    uint64_t kv_b; /* [H][DN + DV][R] */
    int64_t kv_b_head_stride, kv_b_row_stride;
    uint64_t o; /* [hidden][H DV] */
    int64_t o_stride;
} mla_layer_weights;

/* Hidden states of the step's tokens in batch order, [tokens][hidden]; a
 * stride of 0 is that of packed rows.  out may be in, with its stride.  Under
 * tensor parallelism out is this rank's part of a sum. */
typedef struct mla_layer_states {
    size_t size;
    uint64_t in, out;
    int64_t in_stride, out_stride;
} mla_layer_states;

/* One layer of the step that has begun, asynchronously, on begin's stream;
 * index is the pool's layer.  A step without tokens is a no-op.
 * Errors: INVALID_ARGUMENT (no step has begun), RANGE, NULL_POINTER,
 * MISALIGNED (name the weight or state), CUDA, and those of mla_launch. */
MLA_API mla_status mla_layer_forward(mla_layer *layer,
                                     const mla_layer_weights *weights,
                                     int index,
                                     const mla_layer_states *states,
                                     void *stream);

/* The layer, and the step that has begun.  Set size before the call. */
typedef struct mla_layer_info {
    size_t size;
    int heads, page_size, hidden_size;
    int q_lora_rank; /* 0: no compression */
    int latent, rope, nope, v;
    int64_t row_bytes; /* for mla_pool_options */
    double softmax_scale, norm_eps;
    int cublas;     /* its version, 0: the emitted gemm */
    int64_t tokens; /* of the step, padded */
    int64_t workspace_bytes; /* that it needs */
    mla_decision decision;   /* its method, and why */
} mla_layer_info;

MLA_API mla_status mla_layer_describe(const mla_layer *layer,
                                      mla_layer_info *info);

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
