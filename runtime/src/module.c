/* SPDX-License-Identifier: Apache-2.0
 *
 * module.c: a kernel onto the device.
 *
 * The cubin is tried first.  A driver that has no use for it (another GPU,
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
           result == MLA__CUDA_INVALID_IMAGE ||
           result == MLA__CUDA_INVALID_PTX;
}

/* *fall_back: the driver has no use for machine code of this kind. */
static mla_status load_cubin(mla_kernel *k, char *log, bool *fall_back)
{
    mla_context *ctx = k->owner->ctx;
    char *image;
    size_t bytes;
    mla_status status;
    int result;

    status = mla__read_file(ctx, k->owner->directory, k->cubin,
                            k->cubin_hash, &image, &bytes);
    if (status)
        return status;
    result = load_image(k, image, log);
    mla__free(ctx, image);
    *fall_back = wants_ptx(result);
    if (result && !*fall_back)
        return mla__cuda_fail(ctx, "cuModuleLoadDataEx", result);
    if (*fall_back)
        mla__log(ctx, MLA_LOG_INFO,
                 "%s: the driver refuses the cubin (%d); compiling the source",
                 k->symbol, result);
    return MLA_OK;
}

/* Says which toolkit and which driver do not go together. */
static mla_status ptx_refused(mla_kernel *k, int result, const char *log)
{
    mla_context *ctx = k->owner->ctx;
    int version = ctx->info.driver_version;

    mla__cuda_fail(ctx, "cuModuleLoadDataEx", result);
    return mla__fail(ctx, MLA_CUDA,
                     "%s: PTX of NVRTC %d.%d on driver %d.%d (%s): %s%s%s",
                     k->symbol, ctx->nvrtc.major, ctx->nvrtc.minor,
                     version / 1000, version % 1000 / 10, ctx->driver.path,
                     ctx->error ? ctx->error : "", *log ? "\n" : "", log);
}

/* Source to PTX to module; the source's hash is checked before it is
 * compiled. */
static mla_status load_source(mla_kernel *k, char *log)
{
    mla_context *ctx = k->owner->ctx;
    char *source, *ptx = NULL;
    size_t bytes;
    mla_status status;
    int result;

    status = mla__read_file(ctx, k->owner->directory, k->source,
                            k->source_hash, &source, &bytes);
    if (!status)
        status = mla__nvrtc_ptx(ctx, source, k->source, k->arch, &ptx);
    mla__free(ctx, source);
    if (status)
        return status;
    result = load_image(k, ptx, log);
    mla__free(ctx, ptx);
    return result ? ptx_refused(k, result, log) : MLA_OK;
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
    return result ? mla__cuda_fail(ctx, "cuFuncSetAttribute", result)
                  : MLA_OK;
}

/* Leaves nothing loaded on failure. */
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

/* The order of the attempts: cubin, if there is one that could run, then
 * PTX. */
static mla_status load_module(mla_kernel *k, enum mla__fit fit)
{
    mla_context *ctx = k->owner->ctx;
    char *log = mla__alloc(ctx, JIT_LOG_BYTES);
    bool from_source = fit == MLA__FIT_PTX || !*k->cubin;
    mla_status status = MLA_OK;

    if (!log)
        return mla__fail(ctx, MLA_OUT_OF_MEMORY, "%s", k->symbol);
    if (!from_source)
        status = load_cubin(k, log, &from_source);
    if (!status && from_source)
        status = load_source(k, log);
    if (!status)
        status = load_function(k);
    else
        k->module = NULL;
    mla__free(ctx, log);
    return status;
}

mla_status mla_prepare(mla_kernel *k)
{
    mla_context *ctx;
    enum mla__fit fit;
    mla_status status;

    if (!k)
        return MLA_INVALID_ARGUMENT;
    if (k->function)
        return MLA_OK;
    ctx = k->owner->ctx;
    status = mla__device_open(ctx);
    if (status)
        return status;
    fit = mla__arch_fit(k->arch, ctx->info.major, ctx->info.minor);
    if (fit == MLA__FIT_NONE)
        return mla__fail(ctx, MLA_NO_KERNEL,
                         "%s: code for %s does not run on %s (%d.%d)",
                         k->symbol, k->arch_name, ctx->info.name,
                         ctx->info.major, ctx->info.minor);
    status = mla__enter(ctx);
    if (status)
        return status;
    status = load_module(k, fit);
    mla__leave(ctx);
    return status;
}
