/* SPDX-License-Identifier: Apache-2.0
 *
 * context.c: memory, error text, log, and the device of a context.
 *
 * There is no state outside contexts but for compilations under way
 * (flight.c).  Everything a context owns comes from its caller's allocator;
 * everything it has to say goes to its caller's log, and the last error's text
 * stays with it.  Driver and device are opened by the first call that needs
 * them, so that a program may fork between making a context and using it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache.h"
#include "internal.h"

/* Two steps, so that x is expanded before it becomes text. */
#define MLA__TEXT_(x) #x
#define MLA__TEXT(x) MLA__TEXT_(x)

int mla_version(void)
{
    return MLA_VERSION_NUMBER;
}

const char *mla_version_text(void)
{
    return MLA__TEXT(MLA_VERSION_MAJOR) "." MLA__TEXT(
        MLA_VERSION_MINOR) "." MLA__TEXT(MLA_VERSION_PATCH);
}

/* Searched by number, not indexed: numbers are an ABI that may get gaps. */
static const struct {
    int number;
    const char *name, *text;
} statuses[] = {
#define MLA__STATUS_ROW(name, number, text) {number, "MLA_" #name, text},
    MLA_STATUS_LIST(MLA__STATUS_ROW)
#undef MLA__STATUS_ROW
};

const char *mla_status_name(mla_status status)
{
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        if (statuses[i].number == (int)status)
            return statuses[i].name;
    return "MLA_?";
}

const char *mla_status_text(mla_status status)
{
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        if (statuses[i].number == (int)status)
            return statuses[i].text;
    return "unknown status";
}

/* Memory ---------------------------------------------------------------- */

/* realloc(3), with size 0 made to mean free in every C library. */
static void *default_alloc(void *user, void *block, size_t size)
{
    (void)user;
    if (size)
        return realloc(block, size);
    free(block);
    return NULL;
}

/* At least one byte, so that NULL means that there is no memory and nothing
 * else, whatever the caller's allocator does with 0. */
void *mla__alloc(mla_context *ctx, size_t bytes)
{
    void *block = ctx->options.alloc(ctx->options.alloc_user, NULL,
                                     bytes ? bytes : 1);
    if (block)
        memset(block, 0, bytes ? bytes : 1);
    return block;
}

void mla__free(mla_context *ctx, void *block)
{
    if (block)
        ctx->options.alloc(ctx->options.alloc_user, block, 0);
}

char *mla__strdup(mla_context *ctx, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = mla__alloc(ctx, bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

/* vprintf into memory of the context; NULL when there is none. */
static char *format_list(mla_context *ctx, const char *format, va_list list)
{
    va_list again;
    char *text = NULL;
    int length;

    /* The first pass over the arguments only measures. */
    va_copy(again, list);
    length = vsnprintf(NULL, 0, format, list);
    if (length >= 0)
        text = mla__alloc(ctx, (size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

char *mla__format(mla_context *ctx, const char *format, ...)
{
    va_list list;
    char *text;
    va_start(list, format);
    text = format_list(ctx, format, list);
    va_end(list);
    return text;
}

/* Errors and log -------------------------------------------------------- */

/* Without memory for the text the last error is "" and the status says enough.
 * Errors go to the log as well, so that one that a caller swallows is seen. */
mla_status mla__fail(mla_context *ctx, mla_status status, const char *format,
                     ...)
{
    va_list list;
    char *text;

    /* The new text may quote the old one, so that is freed last. */
    va_start(list, format);
    text = format_list(ctx, format, list);
    va_end(list);
    mla__free(ctx, ctx->error);
    ctx->error = text;
    if (text && ctx->options.log)
        ctx->options.log(ctx->options.log_user, MLA_LOG_ERROR, text);
    return status;
}

/* Formats nothing when there is no log: callers need not ask.  A line for
 * which there is no memory is lost. */
void mla__log(mla_context *ctx, int level, const char *format, ...)
{
    va_list list;
    char *text;

    if (!ctx->options.log)
        return;
    va_start(list, format);
    text = format_list(ctx, format, list);
    va_end(list);
    if (text)
        ctx->options.log(ctx->options.log_user, level, text);
    mla__free(ctx, text);
}

const char *mla_last_error(const mla_context *ctx)
{
    return ctx && ctx->error ? ctx->error : "";
}

/* A driver that is newer than this library's list may return numbers without a
 * name; both calls leave NULL then. */
mla_status mla__cuda_fail(mla_context *ctx, const char *call, int result)
{
    const char *name = NULL, *text = NULL;
    ctx->driver.error_name(result, &name);
    ctx->driver.error_text(result, &text);
    return mla__fail(ctx, MLA_CUDA, "%s: %s (%d): %s", call,
                     name ? name : "unknown error", result, text ? text : "");
}

/* Every info struct of mla.h begins with its size, which is read by memcpy as
 * the struct's type is not known here.  Members that the caller's header does
 * not have are not written; those that this library does not know stay. */
mla_status mla__copy_info(void *to, const void *from, size_t known)
{
    size_t size;
    if (!to)
        return MLA_INVALID_ARGUMENT;
    memcpy(&size, to, sizeof(size));
    if (size < sizeof(size))
        return MLA_INVALID_ARGUMENT;
    memcpy((char *)to + sizeof(size), (const char *)from + sizeof(size),
           (size < known ? size : known) - sizeof(size));
    return MLA_OK;
}

/* Context --------------------------------------------------------------- */

/* Takes over what the caller's options have room for; size and version are the
 * least.  A header newer than the library is refused too: its caller may rely
 * on options that nobody here reads. */
static mla_status read_options(const mla_options *given, mla_options *out)
{
    *out = (mla_options)MLA_OPTIONS_INIT;
    if (given) {
        size_t size = given->size;
        if (size < offsetof(mla_options, device))
            return MLA_INVALID_ARGUMENT;
        memcpy(out, given, size < sizeof(*out) ? size : sizeof(*out));
        out->size = sizeof(*out);
    }
    if (out->version / 10000 != MLA_VERSION_MAJOR ||
        out->version > MLA_VERSION_NUMBER)
        return MLA_VERSION;
    if (!out->alloc)
        out->alloc = default_alloc;
    return out->device < 0 ? MLA_INVALID_ARGUMENT : MLA_OK;
}

/* Replaces the caller's text, which may be NULL, by a copy.  False without
 * memory; *text is NULL then, so that destroy frees nothing of the caller's. */
static bool own_text(mla_context *ctx, const char **text)
{
    const char *theirs = *text;
    *text = theirs ? mla__strdup(ctx, theirs) : NULL;
    return *text || !theirs;
}

/* No driver, no thread, no file: a program may make its context, fork, and use
 * the context in the child. */
mla_status mla_context_create(const mla_options *options, mla_context **out)
{
    mla_options wanted;
    mla_context *ctx;
    mla_status status;

    if (!out)
        return MLA_INVALID_ARGUMENT;
    *out = NULL;
    status = read_options(options, &wanted);
    if (status)
        return status;
    ctx = wanted.alloc(wanted.alloc_user, NULL, sizeof(*ctx));
    if (!ctx)
        return MLA_OUT_OF_MEMORY;
    memset(ctx, 0, sizeof(*ctx));
    ctx->options = wanted;
    /* & and not &&: after one failure the others must still cease to be the
     * caller's, as destroy frees all three. */
    if (own_text(ctx, &ctx->options.driver) &
        own_text(ctx, &ctx->options.nvrtc) &
        own_text(ctx, &ctx->options.cache)) {
        *out = ctx;
        return MLA_OK;
    }
    mla_context_destroy(ctx);
    return MLA_OUT_OF_MEMORY;
}

/* In a forked child the primary context is the parent's and is left alone. */
void mla_context_destroy(mla_context *ctx)
{
    if (!ctx)
        return;
    if (ctx->device_open && ctx->opened_by == (long)getpid())
        ctx->driver.ctx_release(ctx->device);
    mla__driver_close(ctx);
    mla__nvrtc_close(ctx);
    mla__cache_close(ctx);
    mla__free(ctx, (char *)ctx->options.driver);
    mla__free(ctx, (char *)ctx->options.nvrtc);
    mla__free(ctx, (char *)ctx->options.cache);
    mla__free(ctx, ctx->error);
    mla__free(ctx, ctx);
}

/* Device ---------------------------------------------------------------- */

/* Everything about the device that selection and limits are decided by. */
static mla_status describe_device(mla_context *ctx)
{
    struct mla__driver *d = &ctx->driver;
    mla_device_info *info = &ctx->info;
    const struct {
        int attribute, *value;
    } wanted[] = {{MLA__ATTR_MAJOR, &info->major},
                  {MLA__ATTR_MINOR, &info->minor},
                  {MLA__ATTR_SM_COUNT, &info->sm_count},
                  {MLA__ATTR_SMEM_OPTIN, &info->smem_optin}};
    int result = d->device_name(info->name, sizeof(info->name), ctx->device);

    if (result)
        return mla__cuda_fail(ctx, "cuDeviceGetName", result);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        result = d->device_attribute(wanted[i].value, wanted[i].attribute,
                                     ctx->device);
        if (result)
            return mla__cuda_fail(ctx, "cuDeviceGetAttribute", result);
    }
    info->driver = d->path;
    result = d->version(&info->driver_version);
    return result ? mla__cuda_fail(ctx, "cuDriverGetVersion", result) : MLA_OK;
}

/* A driver without devices and an ordinal beyond them are the same error, so
 * cuInit's NO_DEVICE is read as a count of 0. */
static mla_status choose_device(mla_context *ctx)
{
    int count = 0, result = ctx->driver.init(0);

    if (!result)
        result = ctx->driver.device_count(&count);
    if (result && result != MLA__CUDA_NO_DEVICE)
        return mla__cuda_fail(ctx, "cuInit", result);
    if (ctx->options.device >= count)
        return mla__fail(ctx, MLA_NO_DEVICE,
                         "device %d: driver %s has %d device%s",
                         ctx->options.device, ctx->driver.path, count,
                         count == 1 ? "" : "s");
    result = ctx->driver.device_get(&ctx->device, ctx->options.device);
    return result ? mla__cuda_fail(ctx, "cuDeviceGet", result) : MLA_OK;
}

/* CUDA does not survive a fork: a child gets an error instead of a hang. */
static mla_status check_process(mla_context *ctx)
{
    if (ctx->opened_by == (long)getpid())
        return MLA_OK;
    return mla__fail(ctx, MLA_FORKED,
                     "process %ld opened device %d and forked this one; make "
                     "a context after the fork",
                     ctx->opened_by, ctx->options.device);
}

/* A failure leaves the context as it was, but for the driver's table; a later
 * call tries again.  The primary context is shared with whoever else uses CUDA
 * in the process: the runtime API, PyTorch. */
mla_status mla__device_open(mla_context *ctx)
{
    mla_status status;
    int result;

    if (ctx->device_open)
        return check_process(ctx);
    status = mla__driver_open(ctx);
    if (!status)
        status = choose_device(ctx);
    if (!status)
        status = describe_device(ctx);
    if (status)
        return status;
    result = ctx->driver.ctx_retain(&ctx->cuda, ctx->device);
    if (result)
        return mla__cuda_fail(ctx, "cuDevicePrimaryCtxRetain", result);
    ctx->device_open = true;
    ctx->opened_by = (long)getpid();
    return MLA_OK;
}

/* Pushes, so that a caller's own current context comes back with mla__leave;
 * every success needs one. */
mla_status mla__enter(mla_context *ctx)
{
    mla_status status = mla__device_open(ctx);
    int result;

    if (status)
        return status;
    result = ctx->driver.ctx_push(ctx->cuda);
    return result ? mla__cuda_fail(ctx, "cuCtxPushCurrent", result) : MLA_OK;
}

/* Popping what mla__enter pushed cannot fail in a way that a caller could act
 * on; the result is not looked at. */
void mla__leave(mla_context *ctx)
{
    void *mine;
    ctx->driver.ctx_pop(&mine);
}

mla_status mla_device(mla_context *ctx, mla_device_info *info)
{
    mla_status status;
    if (!ctx)
        return MLA_INVALID_ARGUMENT;
    status = mla__device_open(ctx);
    return status ? status : mla__copy_info(info, &ctx->info,
                                            sizeof(ctx->info));
}
