/* SPDX-License-Identifier: Apache-2.0
 *
 * nvrtc_find.c: the search is a table of places.  A place is a shell pattern
 * below a root; what a pattern matches is tried from the highest version down,
 * versions being compared number by number (so that 12.10 is above 12.9).
 */
#include "nvrtc_find.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libnvrtc.so*"

/* Where a pattern of the table begins. */
enum root { ROOT_CUDA_HOME, ROOT_PROGRAM, ROOT_SYSTEM };

static const struct place {
    enum root root;
    const char *pattern;
} places[] = {
    {ROOT_CUDA_HOME, "lib64/" LIBRARY},
    {ROOT_CUDA_HOME, "lib/" LIBRARY},
    {ROOT_PROGRAM, "cuda/nvidia/cu[0-9]*/lib/" LIBRARY},
    {ROOT_PROGRAM, "cuda/nvidia/cuda_nvrtc/lib/" LIBRARY},
    {ROOT_SYSTEM, "usr/local/cuda/lib64/" LIBRARY},
    {ROOT_SYSTEM, "usr/local/cuda-*/lib64/" LIBRARY},
};

/* Left to the dynamic linker, newest first; libnvrtc.so alone comes with
 * development packages. */
static const char *const linker_names[] = {"libnvrtc.so.13", "libnvrtc.so.12",
                                           "libnvrtc.so"};

/* Writes the folder of a root, without a final slash; false when the machine
 * has none (CUDA_HOME not set). */
static bool root_folder(enum root root, char folder[PATH_MAX])
{
    const char *home = getenv("CUDA_HOME");
    ssize_t n;

    switch (root) {
    case ROOT_CUDA_HOME:
        snprintf(folder, PATH_MAX, "%s", home ? home : "");
        return folder[0] != '\0';
    case ROOT_PROGRAM:
        n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
        if (n <= 0)
            return false;
        folder[n] = '\0';
        *strrchr(folder, '/') = '\0';
        return true;
    case ROOT_SYSTEM:
        folder[0] = '\0';
        return true;
    }
    return false;
}

/* Characters that glob would read as part of a pattern are escaped: a folder
 * may be called anything. */
static void escape(const char *text, char *out, size_t size)
{
    size_t n = 0;

    for (; *text && n + 3 < size; text++) {
        if (strchr("*?[]\\", *text))
            out[n++] = '\\';
        out[n++] = *text;
    }
    out[n] = '\0';
}

/* glob's array holds char *; digits compare as numbers, and the shorter of two
 * equal beginnings (libnvrtc.so against libnvrtc.so.13) comes last. */
static int by_version_down(const void *a, const void *b)
{
    return -strverscmp(*(char *const *)a, *(char *const *)b);
}

/* Offers everything that matches one place of the table. */
static bool try_place(const struct place *place, mlagen_candidate_fn take,
                      void *user)
{
    char folder[PATH_MAX];
    char pattern[2 * PATH_MAX];
    bool taken = false;
    size_t n;
    glob_t found;

    if (!root_folder(place->root, folder))
        return false;
    escape(folder, pattern, PATH_MAX);
    n = strlen(pattern);
    snprintf(pattern + n, sizeof pattern - n, "/%s", place->pattern);
    if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
        return false;
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv,
          by_version_down);
    for (size_t i = 0; i < found.gl_pathc && !taken; i++)
        taken = take(user, found.gl_pathv[i]);
    globfree(&found);
    return taken;
}

/* A library that is named is the only candidate: a search that went on would
 * compile with another compiler than the one asked for. */
bool mlagen_nvrtc_find(mlagen_candidate_fn take, void *user)
{
    const char *only = getenv("MLA_NVRTC");

    if (only && *only)
        return take(user, only);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (try_place(&places[i], take, user))
            return true;
    for (size_t i = 0; i < sizeof linker_names / sizeof *linker_names; i++)
        if (take(user, linker_names[i]))
            return true;
    return false;
}
