/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel_compile.c: wall time of processes and of NVRTC.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "internal.h"
#include "kernel_bench.h"

extern char **environ;

/* Milliseconds of wall time: a user waits for the compiler, not for its CPU. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* The least of several runs is the one that other programs disturbed least. */
double bench_child(char *const *argv, int runs)
{
    double best = -1;

    for (int i = 0; i < runs; i++) {
        posix_spawn_file_actions_t actions;
        double start = now();
        int status = -1;
        pid_t pid;

        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
        if (posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) == 0)
            waitpid(pid, &status, 0);
        posix_spawn_file_actions_destroy(&actions);
        if (status != 0)
            return -1;
        if (best < 0 || now() - start < best)
            best = now() - start;
    }
    return best;
}

/* Bytes of the machine code, 0 if this NVRTC cannot say.  The runtime itself
 * fetches the image; only here its size alone is wanted. */
static size_t cubin_size(const struct mla__nvrtc *n, void *program)
{
    int (*size)(void *, size_t *) = NULL;
    void *symbol = dlsym(n->handle, "nvrtcGetCUBINSize");
    size_t bytes = 0;
    memcpy(&size, &symbol, sizeof(size));
    return size && size(program, &bytes) == 0 ? bytes : 0;
}

/* The same calls and options as the runtime's, with nothing from its cache.
 * Only create and compile are timed: opening the library happens once. */
const char *bench_compile(const struct num_subject *s,
                          struct bench_compiled *out)
{
    struct mla__nvrtc *n = &s->ctx->nvrtc;
    char target[64], *source;
    const char *options[] = {target, "--std=c++17", "-default-device"};
    size_t bytes;
    void *program = NULL;
    double start;
    int result;

    memset(out, 0, sizeof(*out));
    if (mla__nvrtc_open(s->ctx) ||
        mla__read_file(s->ctx, s->kernel->owner->directory, s->info.source, "",
                       &source, &bytes))
        return mla_last_error(s->ctx);
    snprintf(target, sizeof(target), "--gpu-architecture=%s", s->info.arch);
    start = now();
    result = n->create(&program, source, s->info.source, 0, NULL, NULL);
    if (!result)
        result = n->compile(program, 3, options);
    out->milliseconds = now() - start;
    out->cubin_bytes = result ? 0 : cubin_size(n, program);
    if (program)
        n->destroy(&program);
    mla__free(s->ctx, source);
    return result ? n->error_text(result) : NULL;
}
