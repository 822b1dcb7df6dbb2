/* SPDX-License-Identifier: Apache-2.0
 *
 * start-bench [--json] DIR: how long a server waits for its kernels.
 *
 * Every kernel of a generated directory that the device would use is put onto
 * it, cold (with an empty cache: all are compiled) and warm (from the cache);
 * as PTX, and as machine code, for which a driver that accepts everything
 * stands in.  The driver's own time is told apart: on the virtual GPU it is
 * the parsing of PTX and says nothing about a GPU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

static bool json;
static double in_driver; /* milliseconds */
static int (*real_load)(void **, const void *, unsigned, int *, void **);

/* Wall time: what a server waits for. */
static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Of this process, all threads: what a busy machine does not change. */
static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* The driver's module load, with a clock around it. */
static int timed_load(void **module, const void *image, unsigned count,
                      int *options, void **values)
{
    double start = now_ms();
    int result = real_load(module, image, count, options, values);
    in_driver += now_ms() - start;
    return result;
}

/* The driver that accepts machine code: it is never launched. */
static int take_load(void **module, const void *image, unsigned count,
                     int *options, void **values)
{
    (void)image, (void)count, (void)options, (void)values;
    *module = module;
    return 0;
}

/* The rest of the driver that accepts everything: a module is its own
 * function. */
static int take_unload(void *module)
{
    (void)module;
    return 0;
}

static int take_function(void **function, void *module, const char *name)
{
    (void)name;
    *function = module;
    return 0;
}

static int take_set(void *function, int attribute, int value)
{
    (void)function, (void)attribute, (void)value;
    return 0;
}

/* Puts stand-ins into this context's table of driver calls: those for machine
 * code, which the virtual GPU cannot load, and the clock. */
static void replace_driver(mla_context *ctx, bool machine_code)
{
    struct mla__driver *d = &ctx->driver;

    if (machine_code) {
        d->module_load = take_load;
        d->module_unload = take_unload;
        d->module_function = take_function;
        d->function_set = take_set;
    }
    real_load = d->module_load;
    d->module_load = timed_load;
}

static int fail(const mla_context *ctx, const char *what)
{
    fprintf(stderr, "%s: %s\n", what, mla_last_error(ctx));
    return 1;
}

/* Called after each kernel; the last call has the number of all. */
static void count(void *user, int done, int total, const mla_kernel *k)
{
    (void)done, (void)k;
    *(int *)user = total;
}

/* One start, from the making of a context to the last kernel. */
static int start(const char *directory, bool machine_code, const char *name)
{
    mla_options options = MLA_OPTIONS_INIT;
    mla_device_info info = {.size = sizeof(info)};
    int kernels = 0;
    mla_prepare_options prepare = {sizeof(prepare), 0, count, &kernels};
    mla_context *ctx;
    mla_kernels *set = NULL;
    double begin, cpu;

    if (mla_context_create(&options, &ctx))
        return 1;
    if (mla_device(ctx, &info))
        return fail(ctx, "device");
    replace_driver(ctx, machine_code);
    in_driver = 0;
    begin = now_ms();
    cpu = cpu_ms();
    if (mla_load(ctx, directory, &set))
        return fail(ctx, directory);
    if (mla_prepare_all(set, &prepare))
        return fail(ctx, "prepare");
    printf(json ? "{\"figure\": \"start, %s, %s\", \"kernels\": %d, "
                  "\"ms\": %.1f, \"cpu_ms\": %.1f, \"driver_ms\": %.1f}\n"
                : "start, %-5s %-5s %3d kernels %9.1f ms (CPU %.1f, "
                  "driver %.1f)\n",
           machine_code ? "cubin" : "ptx", name, kernels, now_ms() - begin,
           cpu_ms() - cpu, in_driver);
    mla_kernels_free(set);
    mla_context_destroy(ctx);
    return 0;
}

/* In this order: the warm starts find what the cold ones have left in the
 * cache. */
int main(int argc, char **argv)
{
    const char *folder = argv[argc - 1];

    json = argc == 3 && strcmp(argv[1], "--json") == 0;
    if (argc != 2 + json) {
        fprintf(stderr, "usage: start-bench [--json] DIR (MLA_CACHE names an "
                        "empty folder)\n");
        return 2;
    }
    return start(folder, false, "cold") || start(folder, false, "warm") ||
           start(folder, true, "cold") || start(folder, true, "warm");
}
