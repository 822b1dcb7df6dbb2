/* SPDX-License-Identifier: Apache-2.0
 *
 * nvrtc.c: finding NVRTC, and one source to PTX.
 *
 * NVRTC opens a second library, libnvrtc-builtins.so.X.Y, by bare name when
 * it first compiles.  If another toolkit stands earlier in the linker's path
 * it gets the wrong one, and if none is in the path it fails.  So the sibling
 * that belongs to the chosen NVRTC is opened first: the linker then resolves
 * the bare name to it.
 */
#include <dlfcn.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

/* Below $CUDA_HOME, the executable's directory, and the root. */
static const char *const home_globs[] = {"lib64/libnvrtc.so*",
                                         "lib/libnvrtc.so*", NULL};
static const char *const wheel_globs[] = {
    "cuda/nvidia/cu[0-9]*/lib/libnvrtc.so*",
    "cuda/nvidia/cuda_nvrtc/lib/libnvrtc.so*", NULL};
static const char *const system_globs[] = {
    "/usr/local/cuda/lib64/libnvrtc.so*",
    "/usr/local/cuda-*/lib64/libnvrtc.so*", NULL};
static const char *const bare_names[] = {"libnvrtc.so.13", "libnvrtc.so.12",
                                         "libnvrtc.so", NULL};

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
    n->path = mla__strdup(ctx, path);
    return n->path ? NULL : "out of memory";
}

/* A candidate that does not open is logged and passed over. */
static bool try_path(mla_context *ctx, const char *path)
{
    const char *why = open_library(ctx, path);
    if (!why)
        return true;
    mla__log(ctx, MLA_LOG_INFO, "NVRTC: %s: %s", path, why);
    mla__nvrtc_close(ctx);
    return false;
}

/* root/pattern, with the root's own wildcard characters made plain: a
 * directory may be called anything. */
static void join(char *out, size_t size, const char *root,
                 const char *pattern)
{
    size_t n = 0;
    for (; *root && n + 3 < size; root++) {
        if (strchr("*?[]\\", *root))
            out[n++] = '\\';
        out[n++] = *root;
    }
    snprintf(out + n, size - n, "%s%s", n ? "/" : "", pattern);
}

/* Newest version first; digits compare as numbers. */
static int newest_first(const void *a, const void *b)
{
    return strverscmp(*(char *const *)b, *(char *const *)a);
}

/* The first library below root that opens, newest version first. */
static bool try_globs(mla_context *ctx, const char *root,
                      const char *const *patterns)
{
    bool found = false;
    for (int i = 0; patterns[i] && !found; i++) {
        char pattern[2 * PATH_MAX];
        glob_t hits;
        join(pattern, sizeof(pattern), root, patterns[i]);
        if (glob(pattern, GLOB_NOSORT, NULL, &hits))
            continue;
        qsort(hits.gl_pathv, hits.gl_pathc, sizeof(hits.gl_pathv[0]),
              newest_first);
        for (size_t k = 0; k < hits.gl_pathc && !found; k++)
            found = try_path(ctx, hits.gl_pathv[k]);
        globfree(&hits);
    }
    return found;
}

/* The directory of this process' executable, "" if unknown. */
static void executable_directory(char out[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = 0;
    if (*out)
        memmove(out, dirname(out), strlen(dirname(out)) + 1);
}

/* The places of nvrtc.h, in that order. */
static bool search(mla_context *ctx)
{
    const char *home = getenv("CUDA_HOME");
    char here[PATH_MAX];

    if (home && *home && try_globs(ctx, home, home_globs))
        return true;
    executable_directory(here);
    if (*here && try_globs(ctx, here, wheel_globs))
        return true;
    if (try_globs(ctx, "", system_globs))
        return true;
    for (int i = 0; bare_names[i]; i++)
        if (try_path(ctx, bare_names[i]))
            return true;
    return false;
}

/* Without the sibling the linker's path decides, and NVRTC's log tells. */
static void preload_builtins(mla_context *ctx)
{
    struct mla__nvrtc *n = &ctx->nvrtc;
    char real[PATH_MAX], path[PATH_MAX + 64];
    Dl_info info;
    void *symbol;

    memcpy(&symbol, &n->version, sizeof(symbol));
    if (!dladdr(symbol, &info) || !realpath(info.dli_fname, real))
        return;
    snprintf(path, sizeof(path), "%s/libnvrtc-builtins.so.%d.%d",
             dirname(real), n->major, n->minor);
    n->builtins = dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (!n->builtins)
        mla__log(ctx, MLA_LOG_WARNING, "NVRTC %d.%d: %s", n->major, n->minor,
                 dlerror());
}

mla_status mla__nvrtc_open(mla_context *ctx)
{
    const char *env = getenv("MLA_NVRTC");
    const char *named = ctx->options.nvrtc ? ctx->options.nvrtc : env;
    const char *why;

    if (ctx->nvrtc.handle)
        return MLA_OK;
    if (named && *named) {
        why = open_library(ctx, named);
        if (why) {
            mla_status status = mla__fail(ctx, MLA_NO_COMPILER,
                                          "NVRTC %s: %s", named, why);
            mla__nvrtc_close(ctx);
            return status;
        }
    } else if (!search(ctx)) {
        return mla__fail(ctx, MLA_NO_COMPILER,
                         "NVRTC was found neither by $MLA_NVRTC, in "
                         "$CUDA_HOME, beside the executable, in "
                         "/usr/local/cuda*, nor in the linker's path");
    }
    preload_builtins(ctx);
    mla__log(ctx, MLA_LOG_INFO, "NVRTC %d.%d: %s", ctx->nvrtc.major,
             ctx->nvrtc.minor, ctx->nvrtc.path);
    return MLA_OK;
}

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

/* Errors COMPILE if this NVRTC has never heard of the architecture. */
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

/* The log is part of the error, or goes to the caller's log as a warning. */
static mla_status compile(mla_context *ctx, void *program, const char *name,
                          struct mla__arch arch)
{
    char target[64];
    const char *options[] = {target, "--std=c++17", "-default-device",
                             "-lineinfo"};
    char suffix[2] = {arch.suffix, 0}, *log;
    int result;
    mla_status status = MLA_OK;

    snprintf(target, sizeof(target), "--gpu-architecture=compute_%d%s",
             arch.major * 10 + arch.minor, suffix);
    result = ctx->nvrtc.compile(program, 4, options);
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

/* The text of a program that has been compiled. */
static mla_status take_ptx(mla_context *ctx, void *program, const char *name,
                           char **ptx)
{
    size_t bytes = 0;
    int result = ctx->nvrtc.ptx_size(program, &bytes);

    if (!result) {
        *ptx = mla__alloc(ctx, bytes + 1);
        if (!*ptx)
            return mla__fail(ctx, MLA_OUT_OF_MEMORY, "%s: PTX", name);
        result = ctx->nvrtc.ptx(program, *ptx);
    }
    if (!result)
        return MLA_OK;
    mla__free(ctx, *ptx);
    *ptx = NULL;
    return mla__fail(ctx, MLA_COMPILE, "%s: nvrtcGetPTX: %s", name,
                     ctx->nvrtc.error_text(result));
}

mla_status mla__nvrtc_ptx(mla_context *ctx, const char *source,
                          const char *name, struct mla__arch arch, char **ptx)
{
    void *program = NULL;
    mla_status status = mla__nvrtc_open(ctx);
    int result;

    *ptx = NULL;
    if (!status)
        status = check_arch(ctx, arch);
    if (status)
        return status;
    result = ctx->nvrtc.create(&program, source, name, 0, NULL, NULL);
    if (result)
        return mla__fail(ctx, MLA_COMPILE, "%s: nvrtcCreateProgram: %s", name,
                         ctx->nvrtc.error_text(result));
    status = compile(ctx, program, name, arch);
    if (!status)
        status = take_ptx(ctx, program, name, ptx);
    ctx->nvrtc.destroy(&program);
    return status;
}
