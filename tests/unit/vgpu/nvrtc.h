/* SPDX-License-Identifier: Apache-2.0
 *
 * nvrtc.h: CUDA C to PTX for tests, by the NVRTC that the machine has:
 * MLA_NVRTC, CUDA_HOME, /usr/local/cuda, or what scripts/setup.sh fetched.
 */
#ifndef TEST_VGPU_NVRTC_H
#define TEST_VGPU_NVRTC_H

#include <dlfcn.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Opens the library and, first, the builtins beside it. */
static inline void *nvrtc_open_file(const char *file)
{
    char pattern[PATH_MAX + 40], folder[PATH_MAX];
    glob_t g;
    if (!realpath(file, folder))
        return NULL;
    snprintf(pattern, sizeof pattern, "%s/libnvrtc-builtins.so.[0-9]*",
             dirname(folder));
    if (glob(pattern, 0, NULL, &g) == 0) {
        dlopen(g.gl_pathv[0], RTLD_NOW | RTLD_GLOBAL);
        globfree(&g);
    }
    return dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static inline void *nvrtc_open(void)
{
    char places[4][PATH_MAX];
    const char *home = getenv("CUDA_HOME"), *own = getenv("MLA_NVRTC");
    void *lib = NULL;
    snprintf(places[0], PATH_MAX, "%s", own ? own : "");
    snprintf(places[1], PATH_MAX, "%s/lib64/libnvrtc.so*", home ? home : "");
    snprintf(places[2], PATH_MAX, "/usr/local/cuda/lib64/libnvrtc.so*");
    snprintf(places[3], PATH_MAX, "build/cuda/nvidia/*/lib/libnvrtc.so*");
    for (int i = 0; i < 4 && !lib; i++) {
        glob_t g;
        if (glob(places[i], 0, NULL, &g) != 0)
            continue;
        lib = nvrtc_open_file(g.gl_pathv[0]);
        globfree(&g);
    }
    return lib;
}

/* The PTX of a source file, allocated; NULL with a message on stderr. */
static inline char *nvrtc_ptx(const char *path, const char *arch)
{
    static char source[200000], log[20000];
    void *lib = nvrtc_open(), *program = NULL;
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(source, 1, sizeof source - 1, f) : 0;
    char option[64], *ptx = NULL;
    const char *options[] = {option, "-lineinfo"};
    int (*create)(void **, const char *, const char *, int,
                  const char *const *, const char *const *);
    int (*compile)(void *, int, const char *const *);
    int (*get_log)(void *, char *), (*get)(void *, char *);
    int (*get_size)(void *, size_t *);
    if (f)
        fclose(f);
    source[n] = 0;
    if (!n || !lib) {
        fprintf(stderr, "# %s: %s\n", path, n ? "no NVRTC" : "no such file");
        return NULL;
    }
    *(void **)&create = dlsym(lib, "nvrtcCreateProgram");
    *(void **)&compile = dlsym(lib, "nvrtcCompileProgram");
    *(void **)&get_log = dlsym(lib, "nvrtcGetProgramLog");
    *(void **)&get = dlsym(lib, "nvrtcGetPTX");
    *(void **)&get_size = dlsym(lib, "nvrtcGetPTXSize");
    snprintf(option, sizeof option, "--gpu-architecture=%s", arch);
    if (create(&program, source, path, 0, NULL, NULL))
        return NULL;
    if (compile(program, 2, options)) {
        get_log(program, log);
        fprintf(stderr, "# %s\n", log);
        return NULL;
    }
    if (get_size(program, &n) == 0 && (ptx = malloc(n)) != NULL)
        get(program, ptx);
    return ptx;
}

#endif
