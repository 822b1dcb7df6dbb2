/* SPDX-License-Identifier: Apache-2.0
 *
 * driver.c: opening the CUDA driver library and filling its table.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Options before environment before the name that every installation has.  The
 * one chosen is the only one tried: another driver would be another device. */
static const char *library_name(const mla_context *ctx)
{
    const char *env = getenv("MLA_DRIVER");
    if (ctx->options.driver)
        return ctx->options.driver;
    return env && *env ? env : "libcuda.so.1";
}

/* A data pointer becomes a function pointer the way POSIX asks for. */
static bool look_up(void *handle, const char *symbol, void *slot)
{
    void *address = dlsym(handle, symbol);
    memcpy(slot, &address, sizeof(address));
    return address != NULL;
}

/* The first symbol that the library lacks, or NULL when the table is
 * full.  What only some kernels need may be missing; whoever needs it
 * asks for NULL. */
static const char *fill(struct mla__driver *d)
{
#define MLA__LOOK_UP(type, member, symbol, params)                           \
    if (!look_up(d->handle, #symbol, &d->member))                            \
        return #symbol;
    MLA__DRIVER_LIST(MLA__LOOK_UP)
#undef MLA__LOOK_UP
#define MLA__LOOK_UP(type, member, symbol, params)                           \
    look_up(d->handle, #symbol, &d->member);
    MLA__DRIVER_OPTIONAL(MLA__LOOK_UP)
#undef MLA__LOOK_UP
    return NULL;
}

/* A driver has threads of its own, so it is never unloaded. */
mla_status mla__driver_open(mla_context *ctx)
{
    struct mla__driver *d = &ctx->driver;
    const char *name = library_name(ctx), *missing;
    mla_status status;

    if (d->handle)
        return MLA_OK;
    d->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!d->handle)
        return mla__fail(ctx, MLA_NO_DRIVER, "CUDA driver: %s", dlerror());
    d->path = mla__strdup(ctx, name);
    missing = fill(d);
    if (d->path && !missing)
        return MLA_OK;
    status = missing ? mla__fail(ctx, MLA_NO_DRIVER,
                                 "CUDA driver %s: no symbol %s", name,
                                 missing)
                     : mla__fail(ctx, MLA_OUT_OF_MEMORY, "driver path");
    mla__driver_close(ctx);
    return status;
}

/* RTLD_NODELETE: dlclose gives the handle back, the code stays. */
void mla__driver_close(mla_context *ctx)
{
    if (ctx->driver.handle)
        dlclose(ctx->driver.handle);
    mla__free(ctx, ctx->driver.path);
    memset(&ctx->driver, 0, sizeof(ctx->driver));
}

mla_status mla_driver_symbol(mla_context *ctx, const char *name, void **out)
{
    mla_status status;

    if (!ctx || !name || !out)
        return MLA_INVALID_ARGUMENT;
    *out = NULL;
    status = mla__driver_open(ctx);
    if (status)
        return status;
    *out = dlsym(ctx->driver.handle, name);
    return *out ? MLA_OK
                : mla__fail(ctx, MLA_NO_DRIVER, "CUDA driver %s: no symbol %s",
                            ctx->driver.path, name);
}
