/* SPDX-License-Identifier: Apache-2.0
 *
 * cublas.c: cuBLAS, when there is one.
 *
 * Never a link-time dependency: the library is opened by name, and a machine
 * without it uses the emitted kernel.  It has column-major matrices, so our
 * row-major y = x w^T is its y^T = w x^T, w being transposed as it lies
 * (cuBLAS documentation, cublasGemmEx).  Scratch memory is the caller's: the
 * library's own would be allocated, which a captured stream does not allow.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "gemm.h"

/* Values of cublas_api.h and library_types.h. */
enum {
    OP_N = 0,
    OP_T = 1,
    TYPE_F16 = 2,
    TYPE_BF16 = 14,
    COMPUTE_F32 = 68,
    DEFAULT_ALGORITHM = -1,
    MATH_NO_REDUCED_SUMS = 16, /* sums stay fp32 between splits of k */
    OLDEST = 110000            /* the first with bf16 */
};

/* Newest first; the bare name comes with development packages. */
static const char *const usual_names[] = {
    "libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so",
    NULL};

/* What the library answered, by number. */
static mla_status answered(mla_context *ctx, mla_status status,
                           const struct mla__cublas *c, const char *call,
                           int result)
{
    return mla__fail(ctx, status, "cuBLAS %s: %s: status %d", c->path, call,
                     result);
}

/* The first of the names that opens. */
static void *open_first(const char *const *names, const char **found)
{
    void *library = NULL;

    for (int i = 0; names[i] && !library; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        *found = names[i];
    }
    return library;
}

/* The first symbol that the library lacks, or NULL when the table is full. */
static const char *fill(struct mla__cublas *c)
{
    void *address;
#define MLA__LOOK_UP(member, symbol, params)                                 \
    address = dlsym(c->library, #symbol);                                    \
    memcpy(&c->member, &address, sizeof(address));                           \
    if (!address)                                                            \
        return #symbol;
    MLA__CUBLAS_LIST(MLA__LOOK_UP)
#undef MLA__LOOK_UP
    return NULL;
}

/* The caller's choice, else the environment's, else what is usual. */
static void *open_library(const char *name, const char **found)
{
    const char *env = getenv("MLA_CUBLAS"), *only[2] = {name, NULL};

    if (!name && env && *env)
        only[0] = env;
    return open_first(only[0] ? only : usual_names, found);
}

/* Opened and closed again; RTLD_NODELETE keeps the code, so the second opening
 * is cheap. */
bool mla__cublas_present(const char *name)
{
    const char *found;
    void *library = open_library(name, &found);

    if (library)
        dlclose(library);
    return library != NULL;
}

/* The library and its functions. */
static mla_status load(mla_context *ctx, const char *name,
                       struct mla__cublas *c)
{
    const char *found = "", *missing;

    c->library = open_library(name, &found);
    if (!c->library)
        return mla__fail(ctx, MLA_NO_CUBLAS, "cuBLAS: %s", dlerror());
    c->path = mla__strdup(ctx, found);
    if (!c->path)
        return mla__fail(ctx, MLA_OUT_OF_MEMORY, "cuBLAS path");
    missing = fill(c);
    return missing ? mla__fail(ctx, MLA_NO_CUBLAS, "cuBLAS %s: no symbol %s",
                               found, missing)
                   : MLA_OK;
}

/* A handle on the context's device. */
static mla_status create(mla_context *ctx, struct mla__cublas *c)
{
    mla_status status = mla__enter(ctx);
    int result;

    if (status)
        return status;
    result = c->create(&c->handle);
    if (result)
        c->handle = NULL;
    else
        result = c->version(c->handle, &c->number);
    if (!result)
        result = c->math(c->handle, MATH_NO_REDUCED_SUMS);
    mla__leave(ctx);
    if (result)
        return answered(ctx, MLA_NO_CUBLAS, c, "cublasCreate", result);
    if (c->number < OLDEST)
        return mla__fail(ctx, MLA_NO_CUBLAS,
                         "cuBLAS %s: version %d, %d or newer is needed",
                         c->path, c->number, OLDEST);
    return MLA_OK;
}

mla_status mla__cublas_open(mla_context *ctx, const char *library,
                            struct mla__cublas *out)
{
    mla_status status;

    *out = (struct mla__cublas){0};
    status = load(ctx, library, out);
    if (!status)
        status = create(ctx, out);
    if (status)
        mla__cublas_close(ctx, out);
    return status;
}

/* Takes half-opened ones; handle before library. */
void mla__cublas_close(mla_context *ctx, struct mla__cublas *c)
{
    if (c->handle && mla__enter(ctx) == MLA_OK) {
        c->destroy(c->handle);
        mla__leave(ctx);
    }
    if (c->library)
        dlclose(c->library);
    mla__free(ctx, c->path);
    *c = (struct mla__cublas){0};
}

/* Setting a stream takes the workspace away again, so that comes second. */
mla_status mla__cublas_begin(mla_context *ctx, struct mla__cublas *c,
                             uint64_t workspace, int64_t bytes, void *stream)
{
    mla_status status = mla__enter(ctx);
    int result;

    if (status)
        return status;
    result = c->stream(c->handle, stream);
    if (!result)
        result = c->workspace(c->handle, (void *)(uintptr_t)workspace,
                              (size_t)bytes);
    mla__leave(ctx);
    return result ? answered(ctx, MLA_CUDA, c, "cublasSetWorkspace", result)
                  : MLA_OK;
}

/* Its sizes and strides are int, the latter in elements of two bytes. */
static mla_status check(mla_context *ctx, const struct mla__matmul *p)
{
    const struct {
        const char *name;
        int64_t value;
    } rows[] = {{"rows", p->rows},           {"columns", p->columns},
                {"depth", p->depth},         {"x_stride", p->x_stride / 2},
                {"w_stride", p->w_stride / 2}, {"y_stride", p->y_stride / 2}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].value > INT_MAX)
            return mla__fail(ctx, MLA_RANGE,
                             "cublasGemmEx: '%s' of %lld does not fit 32 bits",
                             rows[i].name, (long long)rows[i].value);
    return MLA_OK;
}

/* Sums in fp32, as everywhere (CONVENTIONS.md). */
mla_status mla__cublas_gemm(mla_context *ctx, struct mla__cublas *c, bool half,
                            const struct mla__matmul *p)
{
    static const float one = 1, zero = 0;
    int type = half ? TYPE_F16 : TYPE_BF16, result;
    mla_status status = check(ctx, p);

    if (!status)
        status = mla__enter(ctx);
    if (status)
        return status;
    result = c->gemm(c->handle, OP_T, OP_N, (int)p->columns, (int)p->rows,
                     (int)p->depth, &one, (const void *)(uintptr_t)p->w, type,
                     (int)(p->w_stride / 2), (const void *)(uintptr_t)p->x,
                     type, (int)(p->x_stride / 2), &zero,
                     (void *)(uintptr_t)p->y, type, (int)(p->y_stride / 2),
                     COMPUTE_F32, DEFAULT_ALGORITHM);
    mla__leave(ctx);
    return result ? answered(ctx, MLA_CUDA, c, "cublasGemmEx", result)
                  : MLA_OK;
}
