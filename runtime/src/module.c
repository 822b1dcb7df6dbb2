/* SPDX-License-Identifier: Apache-2.0
 *
 * module.c: an image onto the device.
 *
 * Machine code is tried first.  A driver that has no use for it (another GPU,
 * or a GPU made of software) says so with one of three errors, and then the
 * kernel's source goes through NVRTC to PTX, which any driver that is new
 * enough takes.  Every other error is final: a damaged file, a compiler that
 * refuses, a limit of the device are reported, never worked around.
 */
#include <string.h>

#include "internal.h"

enum { JIT_LOG_BYTES = 8192 };

/* cuModuleLoadDataEx with the driver's error log. */
static int load_image(mla_kernel *k, const char *image, char *log)
{
    int options[] = {MLA__JIT_ERROR_LOG, MLA__JIT_ERROR_LOG_SIZE};
    void *values[] = {log, (void *)(uintptr_t)(JIT_LOG_BYTES - 1)};
    memset(log, 0, JIT_LOG_BYTES);
    return k->owner->ctx->driver.module_load(&k->module, image, 2, options,
                                             values);
}

/* The three ways in which a driver says that the image is not for it. */
static bool wants_ptx(int result)
{
    return result == MLA__CUDA_NO_BINARY_FOR_GPU ||
           result == MLA__CUDA_INVALID_IMAGE || result == MLA__CUDA_INVALID_PTX;
}

/* A refusal of code that was made for the device holds for all of it, unless
 * machine code has been taken before. */
static void learn(mla_kernel *k, int result)
{
    mla_context *ctx = k->owner->ctx;

    mla__log(ctx, MLA_LOG_INFO,
             "%s: the driver refuses the cubin (%d); compiling the source",
             k->symbol, result);
    if (result == MLA__CUDA_NO_BINARY_FOR_GPU &&
        ctx->takes == MLA__TAKES_UNKNOWN)
        ctx->takes = MLA__TAKES_PTX;
}

/* Says which compiler and which driver do not go together. */
static mla_status ptx_refused(mla_kernel *k, int result, const char *image,
                              const char *log)
{
    mla_context *ctx = k->owner->ctx;
    const char *version = strstr(image, ".version ");
    int driver = ctx->info.driver_version;

    mla__cuda_fail(ctx, "cuModuleLoadDataEx", result);
    return mla__fail(ctx, MLA_CUDA, "%s: PTX %.*s on driver %d.%d (%s): %s%s%s",
                     k->symbol, version ? (int)strcspn(version, "\n") : 0,
                     version ? version : "", driver / 1000, driver % 1000 / 10,
                     ctx->driver.path, ctx->error ? ctx->error : "",
                     *log ? "\n" : "", log);
}

/* The opt-in limit is asked before the driver is, so that the error can say
 * how much is missing. */
static mla_status opt_into_smem(mla_kernel *k)
{
    mla_context *ctx = k->owner->ctx;
    int64_t need = k->smem_dynamic + k->smem_static;
    int result;

    if (need > MLA__SMEM_DEFAULT && need > ctx->info.smem_optin)
        return mla__fail(ctx, MLA_DEVICE_LIMIT,
                         "%s: %lld bytes of shared memory; %s allows %d "
                         "per block",
                         k->symbol, (long long)need, ctx->info.name,
                         ctx->info.smem_optin);
    if (k->smem_dynamic <= MLA__SMEM_DEFAULT)
        return MLA_OK;
    result = ctx->driver.function_set(k->function, MLA__FUNC_MAX_DYNAMIC_SMEM,
                                      (int)k->smem_dynamic);
    return result ? mla__cuda_fail(ctx, "cuFuncSetAttribute", result) : MLA_OK;
}

/* The kernel's function from its module, with its shared memory granted.
 * Leaves nothing loaded on failure. */
static mla_status load_function(mla_kernel *k)
{
    mla_context *ctx = k->owner->ctx;
    mla_status status;
    int result;

    result = ctx->driver.module_function(&k->function, k->module, k->symbol);
    status = result ? mla__cuda_fail(ctx, "cuModuleGetFunction", result)
                    : opt_into_smem(k);
    if (status) {
        ctx->driver.module_unload(k->module);
        k->module = k->function = NULL;
    }
    return status;
}

/* An answer of cuModuleLoadDataEx other than success. */
static mla_status refuse(mla_kernel *k, const struct mla__image *image,
                         int result, const char *log, bool *refused)
{
    k->module = NULL;
    if (image->kind == MLA__PTX)
        return ptx_refused(k, result, image->data, log);
    *refused = wants_ptx(result);
    if (!*refused)
        return mla__cuda_fail(k->owner->ctx, "cuModuleLoadDataEx", result);
    learn(k, result);
    return MLA_OK;
}

/* Machine code that loads once settles what the driver takes for
 * this context. */
mla_status mla__module_load(mla_kernel *k, const struct mla__image *image,
                            bool *refused)
{
    mla_context *ctx = k->owner->ctx;
    char *log = mla__alloc(ctx, JIT_LOG_BYTES);
    mla_status status;
    int result;

    *refused = false;
    if (!log)
        return mla__fail(ctx, MLA_OUT_OF_MEMORY, "%s", k->symbol);
    result = load_image(k, image->data, log);
    status = result ? refuse(k, image, result, log, refused) : load_function(k);
    if (!result && image->kind == MLA__CUBIN)
        ctx->takes = MLA__TAKES_CUBINS;
    mla__free(ctx, log);
    return status;
}

/* PTX where the device runs no machine code for that architecture, or where
 * the driver has refused machine code before. */
mla_status mla__module_kind(mla_kernel *k, enum mla__kind *kind)
{
    mla_context *ctx = k->owner->ctx;
    enum mla__fit fit =
        mla__arch_fit(k->arch, ctx->info.major, ctx->info.minor);

    *kind = fit == MLA__FIT_CUBIN && ctx->takes != MLA__TAKES_PTX ? MLA__CUBIN
                                                                  : MLA__PTX;
    if (fit != MLA__FIT_NONE)
        return MLA_OK;
    return mla__fail(ctx, MLA_NO_KERNEL,
                     "%s: code for %s does not run on %s (%d.%d)", k->symbol,
                     k->arch_name, ctx->info.name, ctx->info.major,
                     ctx->info.minor);
}
