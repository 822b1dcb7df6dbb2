/* SPDX-License-Identifier: Apache-2.0
 *
 * nvrtc.c: opening NVRTC, and one source to machine code or PTX.
 *
 * NVRTC opens a second library, libnvrtc-builtins.so.X.Y, by bare name when
 * it first compiles.  If another toolkit stands earlier in the linker's path
 * it gets the wrong one, and if none is in the path it fails.  So the sibling
 * that belongs to the chosen NVRTC is opened first: the linker then resolves
 * the bare name to it.
 */
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { OLDEST_MAJOR = 12 };

/* Opens the library and its table; NULL on success, else what is wrong.
 * NVRTC stays in the process once opened: each unloading leaks what its own
 * C++ runtime holds. */
static const char *open_library(mla_context *ctx, const char *path)
{
    struct mla__nvrtc *n = &ctx->nvrtc;
    n->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!n->handle)
        return dlerror();
#define MLA__LOOK_UP(type, member, symbol, params)                           \
    {                                                                        \
        void *address = dlsym(n->handle, #symbol);                           \
        if (!address)                                                        \
            return "no symbol " #symbol;                                     \
        memcpy(&n->member, &address, sizeof(address));                       \
    }
    MLA__NVRTC_LIST(MLA__LOOK_UP)
#undef MLA__LOOK_UP
    if (n->version(&n->major, &n->minor))
        return "nvrtcVersion fails";
    if (n->major < OLDEST_MAJOR)
        return "it is older than 12.0";
    n->path = mla__strdup(ctx, path);
    return n->path ? NULL : "out of memory";
}

/* A candidate that does not open is logged and passed over: among the places
 * there may be a library of another machine type, or a broken link. */
static bool try_path(mla_context *ctx, const char *path)
{
    const char *why = open_library(ctx, path);
    if (!why)
        return true;
    mla__log(ctx, MLA_LOG_INFO, "NVRTC: %s: %s", path, why);
    mla__nvrtc_close(ctx);
    return false;
}

/* The file that the opened library came from, NULL if it cannot be told. */
static const char *file_of(const struct mla__nvrtc *n, char real[PATH_MAX])
{
    Dl_info info;
    void *symbol;

    memcpy(&symbol, &n->version, sizeof(symbol));
    return dladdr(symbol, &info) ? realpath(info.dli_fname, real) : NULL;
}

/* Without the sibling the linker's path decides, and NVRTC's log tells. */
static void preload_builtins(mla_context *ctx, char *real)
{
    struct mla__nvrtc *n = &ctx->nvrtc;
    char path[PATH_MAX + 64];

    snprintf(path, sizeof(path), "%s/libnvrtc-builtins.so.%d.%d",
             dirname(real), n->major, n->minor);
    n->builtins = dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (!n->builtins)
        mla__log(ctx, MLA_LOG_WARNING, "NVRTC %d.%d: %s", n->major, n->minor,
                 dlerror());
}

/* The library that options or environment name, NULL for none.  An empty text
 * is none as well. */
static const char *named_library(const mla_context *ctx)
{
    const char *named = ctx->options.nvrtc ? ctx->options.nvrtc
                                           : getenv("MLA_NVRTC");
    return named && *named ? named : NULL;
}

/* The named library and no other: falling back to one that was found would
 * compile with a compiler that the caller did not ask for. */
static mla_status open_named(mla_context *ctx, const char *named)
{
    const char *why = open_library(ctx, named);
    mla_status status;

    if (!why)
        return MLA_OK;
    status = mla__fail(ctx, MLA_NO_COMPILER, "NVRTC %s: %s", named, why);
    mla__nvrtc_close(ctx);
    return status;
}

/* The first place that holds a usable library. */
static mla_status open_found(mla_context *ctx)
{
    if (mla__nvrtc_find(ctx, try_path))
        return MLA_OK;
    return mla__fail(ctx, MLA_NO_COMPILER,
                     "NVRTC was found neither by $MLA_NVRTC, in $CUDA_HOME, "
                     "beside the executable, in /usr/local/cuda*, nor in the "
                     "linker's path");
}

/* The identity is read again from the file that was opened, which may be
 * another than the one that the search came upon first. */
mla_status mla__nvrtc_open(mla_context *ctx)
{
    const char *named = named_library(ctx);
    char real[PATH_MAX];
    mla_status status;

    if (ctx->nvrtc.handle)
        return MLA_OK;
    status = named ? open_named(ctx, named) : open_found(ctx);
    if (status)
        return status;
    ctx->nvrtc.identity[0] = 0;
    if (file_of(&ctx->nvrtc, real)) {
        mla__nvrtc_file_identity(real, ctx->nvrtc.identity);
        preload_builtins(ctx, real);
    }
    mla__log(ctx, MLA_LOG_INFO, "NVRTC %d.%d: %s", ctx->nvrtc.major,
             ctx->nvrtc.minor, ctx->nvrtc.path);
    return MLA_OK;
}

/* Ends the search at the first library.  A bare name is the linker's to find,
 * so its file is not known before it is opened; the search ends there too, and
 * mla__nvrtc_identity opens it. */
static bool identify(mla_context *ctx, const char *path)
{
    return !strchr(path, '/') ||
           mla__nvrtc_file_identity(path, ctx->nvrtc.identity);
}

/* Kept once found.  Follows mla__nvrtc_open's choice: the named library, else
 * the first candidate. */
const char *mla__nvrtc_identity(mla_context *ctx)
{
    const char *named = named_library(ctx);

    if (ctx->nvrtc.identity[0] || ctx->nvrtc.handle)
        return ctx->nvrtc.identity;
    if (named)
        identify(ctx, named);
    else
        mla__nvrtc_find(ctx, identify);
    if (!ctx->nvrtc.identity[0])
        mla__nvrtc_open(ctx);
    return ctx->nvrtc.identity;
}

/* RTLD_NODELETE: dlclose gives the handles back, the code stays. */
void mla__nvrtc_close(mla_context *ctx)
{
    struct mla__nvrtc *n = &ctx->nvrtc;
    if (n->handle)
        dlclose(n->handle);
    if (n->builtins)
        dlclose(n->builtins);
    mla__free(ctx, n->path);
    memset(n, 0, sizeof(*n));
}

/* Error COMPILE if this NVRTC has never heard of the architecture: its own
 * message would not say that a newer toolkit is what is needed. */
static mla_status check_arch(mla_context *ctx, struct mla__arch arch)
{
    struct mla__nvrtc *n = &ctx->nvrtc;
    int count = 0, wanted = arch.major * 10 + arch.minor, list[128];
    int newest = 0;

    if (n->arch_count(&count) || count < 1 || count > 128 || n->archs(list))
        return mla__fail(ctx, MLA_NO_COMPILER,
                         "NVRTC %s does not list its architectures", n->path);
    for (int i = 0; i < count; i++) {
        if (list[i] == wanted)
            return MLA_OK;
        newest = list[i] > newest ? list[i] : newest;
    }
    return mla__fail(ctx, MLA_COMPILE,
                     "NVRTC %d.%d (%s) does not know compute_%d: it goes from "
                     "compute_%d to compute_%d; %s toolkit is needed",
                     n->major, n->minor, n->path, wanted, list[0], newest,
                     wanted > newest ? "a newer" : "another");
}

/* What the compiler had to say, or NULL; freed by the caller. */
static char *program_log(mla_context *ctx, void *program)
{
    size_t bytes = 0;
    char *text;
    if (ctx->nvrtc.log_size(program, &bytes) || bytes <= 1)
        return NULL;
    text = mla__alloc(ctx, bytes + 1);
    if (text && ctx->nvrtc.log(program, text))
        *text = 0;
    return text;
}

/* All of them are part of the cache's key (image.c). */
int mla__nvrtc_options(struct mla__arch arch, enum mla__kind kind,
                       char target[64],
                       const char *options[MLA__NVRTC_OPTIONS])
{
    int count = 0;

    snprintf(target, 64, "--gpu-architecture=%s_%d%.1s",
             kind == MLA__CUBIN ? "sm" : "compute",
             arch.major * 10 + arch.minor,
             arch.suffix ? (const char[]){arch.suffix, 0} : "");
    options[count++] = target;
    options[count++] = "--std=c++17";
    options[count++] = "-default-device";
    if (kind == MLA__PTX) /* in a cubin it would keep the current folder */
        options[count++] = "-lineinfo";
    return count;
}

/* The log is part of the error, or goes to the caller's log as a warning. */
static mla_status compile(mla_context *ctx, void *program, const char *name,
                          struct mla__arch arch, enum mla__kind kind)
{
    const char *options[MLA__NVRTC_OPTIONS];
    char target[64], *log;
    int count = mla__nvrtc_options(arch, kind, target, options);
    int result = ctx->nvrtc.compile(program, count, options);
    mla_status status = MLA_OK;

    log = program_log(ctx, program);
    if (result)
        status = mla__fail(ctx, MLA_COMPILE, "%s: NVRTC %d.%d, %s: %s\n%s",
                           name, ctx->nvrtc.major, ctx->nvrtc.minor, target,
                           ctx->nvrtc.error_text(result), log ? log : "");
    else if (log && *log)
        mla__log(ctx, MLA_LOG_WARNING, "%s: %s", name, log);
    mla__free(ctx, log);
    return status;
}

/* What a program was compiled to, with a NUL behind it; out->kind says which
 * of the two.  *out is empty on failure. */
static mla_status take_image(mla_context *ctx, void *program,
                             const char *name, struct mla__image *out)
{
    struct mla__nvrtc *n = &ctx->nvrtc;
    bool cubin = out->kind == MLA__CUBIN;
    int result = (cubin ? n->cubin_size : n->ptx_size)(program, &out->bytes);

    if (!result) {
        out->data = mla__alloc(ctx, out->bytes + 1);
        if (!out->data)
            return mla__fail(ctx, MLA_OUT_OF_MEMORY, "%s: image", name);
        result = (cubin ? n->cubin : n->ptx)(program, out->data);
    }
    if (!result)
        return MLA_OK;
    mla__image_free(ctx, out);
    return mla__fail(ctx, MLA_COMPILE, "%s: %s: %s", name,
                     cubin ? "nvrtcGetCUBIN" : "nvrtcGetPTX",
                     n->error_text(result));
}

/* No headers are handed over, as emitted sources include nothing. */
mla_status mla__nvrtc_compile(mla_context *ctx, const char *source,
                              const char *name, struct mla__arch arch,
                              enum mla__kind kind, struct mla__image *out)
{
    void *program = NULL;
    mla_status status = mla__nvrtc_open(ctx);
    int result;

    *out = (struct mla__image){NULL, 0, kind};
    if (!status)
        status = check_arch(ctx, arch);
    if (status)
        return status;
    result = ctx->nvrtc.create(&program, source, name, 0, NULL, NULL);
    if (result)
        return mla__fail(ctx, MLA_COMPILE, "%s: nvrtcCreateProgram: %s", name,
                         ctx->nvrtc.error_text(result));
    status = compile(ctx, program, name, arch, kind);
    if (!status)
        status = take_image(ctx, program, name, out);
    ctx->nvrtc.destroy(&program);
    return status;
}
