/* SPDX-License-Identifier: Apache-2.0
 *
 * internal.h: what the runtime's files share and callers do not see.
 *
 * The parts, from the ground up: context.c (memory, errors, log), driver.c
 * and nvrtc*.c (tables of dlopened functions), arch.c (names and order of
 * architectures), file.c and manifest.c (a set's files, JSON to the structs
 * below), kernels.c (which kernel for this device), cache*.c, flight.c and
 * image.c (compiled code, from the cache or the compiler), module.c (code
 * onto the device), prepare.c (many at once), args.c (the argument block),
 * capture.c, tensor_map.c (parameters for the copy engine) and launch.c (grid
 * rule and launch).  Beside them pool*.c (the latent pool, see pool.h),
 * decode*.c (the decode step, see decode_step.h), dispatch*.c (policies, see
 * dispatch.h) and, on top of all, layer*.c (a whole layer, see layer.h) with
 * call.c (argument blocks by name), gemm.c and cublas.c (plain products).
 */
#ifndef MLA_INTERNAL_H
#define MLA_INTERNAL_H

#include <stdarg.h>
#include <stdbool.h>

#include "mla.h"
#include "arch.h"
#include "driver.h"
#include "image.h"
#include "nvrtc.h"

enum {
    MLA__MAX_FACTORS = 4, /* per grid axis, and per size of a tensor map */
    MLA__MAX_MAPS = 6,    /* tensor maps of a kernel */
    MLA__MAX_RANK = 5,    /* of a tensor map */
    MLA__SHA256_HEX = 64, /* characters of a hash as text */
    MLA__SMEM_DEFAULT = 49152 /* bytes of dynamic smem without opt-in */
};

struct mla_context {
    mla_options options; /* strings are owned copies */
    char *error;         /* NULL until the first failure */
    bool device_open;
    struct mla__driver driver;
    struct mla__nvrtc nvrtc;
    int device; /* CUdevice */
    void *cuda; /* CUcontext: the device's primary context, retained */
    mla_device_info info;
    long opened_by; /* the process that opened the device */
    enum { MLA__TAKES_UNKNOWN, MLA__TAKES_CUBINS, MLA__TAKES_PTX } takes;
    struct mla__cache *cache; /* NULL before the first use */
    unsigned pools; /* made so far, so that their handles differ */
};

/* One field of an argument struct, as the manifest states it. */
struct mla__field {
    char *name, *elem, *doc;
    int type, access;
    bool nullable, flag; /* flag: an integer that is 0 or 1 */
    unsigned choices;    /* sets of one_of that the pointer belongs to */
    int64_t align, multiple;
    size_t offset;
};

/* A factor of a grid axis: `constant`, or ceil(fields[field] / per). */
struct mla__factor {
    int field; /* index, or -1 for the constant */
    int64_t constant, per;
};

struct mla__axis {
    int count;
    struct mla__factor factor[MLA__MAX_FACTORS];
    int64_t max;
};

/* What decode_plan's manifest says of its work list (decode_step.h). */
struct mla__work_list {
    int header_ints, item_ints;                    /* sizes, in int32 */
    int cut_items, first_cut_slots, cut_slots;     /* what a cut adds */
    int items_at, slots_at, status_at;             /* in the header */
    int item_overflow, slot_overflow, short_request; /* status bits */
};

/* A product of factors; a factor may be the constant alone. */
struct mla__product {
    int count;
    struct mla__factor factor[MLA__MAX_FACTORS];
};

/* A parameter behind the argument struct: how the copy engine sees a tensor
 * whose address is an argument (cuTensorMapEncodeTiled).  Bytes of stride[i]
 * lie between neighbours along dimension i + 1. */
struct mla__tensor_map {
    char *name;
    int pointer; /* field */
    int back;    /* steps of dimension 1 that the tensor begins before it */
    int rank;
    struct mla__product dim[MLA__MAX_RANK], stride[MLA__MAX_RANK - 1];
    uint32_t box[MLA__MAX_RANK];
    int type, swizzle, promotion; /* cuda.h's numbers */
};

struct mla_kernel {
    mla_kernels *owner;
    char *symbol, *family, *variant, *arch_name, *dtype, *source, *cubin;
    char *source_hash, *cubin_hash; /* hex SHA-256, "" if not stated */
    struct mla__arch arch;
    int heads, page_size, nope, rope, v, latent, tile_m, tile_n;
    int field_count;
    struct mla__field *fields;
    size_t args_size;
    unsigned all_choices; /* a bit per set of one_of; 0: no such rule */
    int block[3];
    int min_ctas; /* blocks per SM that it is made for */
    int max_rows; /* mqa_decode: most rows that its tile is the best for */
    struct mla__work_list work_list; /* decode_plan */
    int64_t smem_dynamic, smem_static;
    struct mla__axis grid[3];
    unsigned cluster[3]; /* blocks; 0: not launched in clusters */
    int map_count;
    struct mla__tensor_map *maps; /* in the order of the parameters */
    void *module, *function; /* CUmodule, CUfunction; NULL until prepared */
};

struct mla_kernels {
    mla_context *ctx;
    char *directory;       /* the name of a set in memory */
    const mla_file *files; /* NULL: the set is a directory */
    int file_count;
    char *model, *text;
    int count;
    mla_kernel *kernel;
};

struct mla_args {
    mla_kernel *kernel;
    bool *set;            /* per field */
    unsigned char *block; /* kernel->args_size bytes */
};

/* context.c ------------------------------------------------------------- */

/* Zeroed memory from the context's allocator, NULL when there is none. */
void *mla__alloc(mla_context *ctx, size_t bytes);
void mla__free(mla_context *ctx, void *block);
char *mla__strdup(mla_context *ctx, const char *text);

/* printf into allocated memory; NULL when there is none. */
char *mla__format(mla_context *ctx, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Records the error text, logs it, and returns the status. */
mla_status mla__fail(mla_context *ctx, mla_status status, const char *format,
                     ...) __attribute__((format(printf, 3, 4)));

void mla__log(mla_context *ctx, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Opens driver and device on the first call. */
mla_status mla__device_open(mla_context *ctx);

/* Makes the context's CUDA context current and takes it back again. */
mla_status mla__enter(mla_context *ctx);
void mla__leave(mla_context *ctx);

/* Turns a CUresult into MLA_CUDA: "call: NAME (number): text". */
mla_status mla__cuda_fail(mla_context *ctx, const char *call, int result);

/* Copies min(size asked for, size known) bytes; the caller's size stays. */
mla_status mla__copy_info(void *to, const void *from, size_t known);

/* manifest.c, file.c, sha256.c ------------------------------------------- */

/* Fills kernels from the JSON text kernels->text. */
mla_status mla__manifest_parse(mla_kernels *kernels);

/* The bytes of directory/path, NUL-terminated; *out is freed by the caller.
 * hash is the hex SHA-256 that they must have, "" for none. */
mla_status mla__read_file(mla_context *ctx, const char *directory,
                          const char *path, const char *hash, char **out,
                          size_t *bytes);

/* As mla__read_file, for a file of a set. */
mla_status mla__set_file(mla_context *ctx, const mla_kernels *set,
                         const char *path, const char *hash, char **out,
                         size_t *bytes);

/* 2 n lower-case digits and a NUL. */
void mla__hex(const unsigned char *bytes, size_t n, char *out);

/* FIPS 180-4; hex is lower case and NUL-terminated. */
void mla__sha256_hex(const void *data, size_t bytes,
                     char hex[MLA__SHA256_HEX + 1]);

/* Over the whole file; false when it cannot be read. */
bool mla__sha256_file(int fd, char hex[MLA__SHA256_HEX + 1]);

/* Over texts, each behind its length: ("ab", "c") is not ("a", "bc"). */
void mla__sha256_texts(const char *const *texts, size_t count,
                       char hex[MLA__SHA256_HEX + 1]);

/* module.c --------------------------------------------------------------- */

/* Loads the image and takes the kernel's function from it; k->function is
 * set.  *refused: the driver has no use for images of this kind. */
mla_status mla__module_load(mla_kernel *k, const struct mla__image *image,
                            bool *refused);

/* Which kind of image to try first for the kernel, NO_KERNEL if the device
 * cannot run it. */
mla_status mla__module_kind(mla_kernel *k, enum mla__kind *kind);

/* capture.c -------------------------------------------------------------- */

/* Whether work for the stream would end up in a graph, or break a capture.
 * Returns a CUresult. */
int mla__capturing(const struct mla__driver *driver, void *stream, bool *out);

/* mla_prepare, unless the stream is being captured: then the kernel has to be
 * there.  Error CAPTURING. */
mla_status mla__ready(mla_kernel *kernel, void *stream);

/* args.c, launch.c ------------------------------------------------------- */

/* Index of the field, or -1. */
int mla__field_index(const mla_kernel *kernel, const char *name);

/* The value of an integer or pointer field of a block. */
int64_t mla__field_int(const mla_kernel *kernel, int field,
                       const unsigned char *block);

/* NULL, alignment and multiples of every field of a block. */
mla_status mla__check_fields(const mla_kernel *kernel,
                             const unsigned char *block);

/* The grid for a block; any axis 0 means that there is nothing to do.
 * Errors: RANGE if a count is negative (names it). */
mla_status mla__grid(const mla_kernel *kernel, const unsigned char *block,
                     unsigned grid[3]);

/* tensor_map.c ----------------------------------------------------------- */

/* What cuTensorMapEncodeTiled fills: opaque, for the device alone. */
struct mla__map_bytes {
    _Alignas(128) unsigned char byte[128];
};

/* Encodes the kernel's tensor maps for a block whose fields have been checked.
 * Errors: NO_DRIVER if the driver knows no tensor maps, RANGE or MISALIGNED if
 * the tensor is beyond them (names the map). */
mla_status mla__encode_maps(const mla_kernel *kernel,
                            const unsigned char *block,
                            struct mla__map_bytes maps[MLA__MAX_MAPS]);

#endif
