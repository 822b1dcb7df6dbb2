/* SPDX-License-Identifier: Apache-2.0
 *
 * nvrtc_find.c: the places where NVRTC may be, in the order of nvrtc.h.
 *
 * The generator looks in the same places (gen/nvrtc_find.c), so that a set is
 * compiled at run time by the compiler that `mlagen build` would have used.
 * A place is a pattern, as files carry their version in their names.
 */
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

/* root/pattern, with the root's own wildcard characters made plain: a
 * directory may be called anything.  An empty root leaves the pattern alone;
 * what does not fit is cut off and then matches nothing. */
static void join(char *out, size_t size, const char *root, const char *pattern)
{
    size_t n = 0;
    for (; *root && n + 3 < size; root++) {
        if (strchr("*?[]\\", *root))
            out[n++] = '\\';
        out[n++] = *root;
    }
    snprintf(out + n, size - n, "%s%s", n ? "/" : "", pattern);
}

/* Newest version first; digits compare as numbers, so that 13 is newer
 * than 9. */
static int newest_first(const void *a, const void *b)
{
    return strverscmp(*(char *const *)b, *(char *const *)a);
}

/* What is below root, newest version first within each pattern; true once
 * take() has accepted one. */
static bool try_globs(mla_context *ctx, const char *root,
                      const char *const *patterns, mla__candidate_fn take)
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
            found = take(ctx, hits.gl_pathv[k]);
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

/* CUDA_HOME is the user's word, so it comes first; the linker's path is last
 * as it may hold the library of another toolkit than the one in use. */
bool mla__nvrtc_find(mla_context *ctx, mla__candidate_fn take)
{
    const char *home = getenv("CUDA_HOME");
    char here[PATH_MAX];

    if (home && *home && try_globs(ctx, home, home_globs, take))
        return true;
    executable_directory(here);
    if (*here && try_globs(ctx, here, wheel_globs, take))
        return true;
    if (try_globs(ctx, "", system_globs, take))
        return true;
    for (int i = 0; bare_names[i]; i++)
        if (take(ctx, bare_names[i]))
            return true;
    return false;
}
