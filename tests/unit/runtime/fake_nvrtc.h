/* SPDX-License-Identifier: Apache-2.0
 *
 * fake_nvrtc.h: a compiler for tests of the cache, as a filled function table.
 *
 * It "compiles" a source to a header and the source itself, so that a test
 * can tell whose image it was given.  Its calls are counted in memory that
 * child processes share.
 */
#ifndef FAKE_NVRTC_H
#define FAKE_NVRTC_H

#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "fake_driver.h"

enum { FAKE_SOURCES = 16 };

static struct fake_compiler {
    atomic_int compiled[FAKE_SOURCES]; /* by the number in the source */
    atomic_int under_way, most_under_way;
    int ms;       /* that a compilation takes */
    int refusing; /* the number of a source that does not compile; -1 */
} * fake_compiler;

struct fake_program {
    char *source;
    int cubin;
};

static int fake_nvrtc_version(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return 0;
}

static const char *fake_nvrtc_error(int result)
{
    return result ? "NVRTC_ERROR_COMPILATION" : "NVRTC_SUCCESS";
}

static int fake_nvrtc_arch_count(int *count)
{
    *count = 3;
    return 0;
}

static int fake_nvrtc_archs(int *list)
{
    list[0] = 80;
    list[1] = 86;
    list[2] = 90;
    return 0;
}

static int fake_nvrtc_create(void **program, const char *source,
                             const char *name, int headers,
                             const char *const *contents,
                             const char *const *names)
{
    struct fake_program *p = calloc(1, sizeof(*p));
    (void)name;
    (void)headers;
    (void)contents;
    (void)names;
    p->source = strdup(source);
    *program = p;
    return 0;
}

/* The number behind "source " in the text. */
static int fake_source_number(const char *source)
{
    const char *mark = strstr(source, "source ");
    return mark ? atoi(mark + 7) % FAKE_SOURCES : 0;
}

static int fake_nvrtc_compile(void *program, int count,
                              const char *const *options)
{
    struct fake_program *p = program;
    int number = fake_source_number(p->source);
    int now = atomic_fetch_add(&fake_compiler->under_way, 1) + 1;
    struct timespec t = {0, fake_compiler->ms * 1000000L};

    (void)count;
    p->cubin = strstr(options[0], "=sm_") != NULL;
    if (now > atomic_load(&fake_compiler->most_under_way))
        atomic_store(&fake_compiler->most_under_way, now);
    nanosleep(&t, NULL);
    atomic_fetch_add(&fake_compiler->compiled[number], 1);
    atomic_fetch_sub(&fake_compiler->under_way, 1);
    return number == fake_compiler->refusing ? 6 : 0;
}

static int fake_nvrtc_size(void *program, size_t *bytes)
{
    struct fake_program *p = program;
    *bytes = strlen(p->source) + 6;
    return 0;
}

static int fake_nvrtc_image(void *program, char *out)
{
    struct fake_program *p = program;
    sprintf(out, "%s %s", p->cubin ? "\177ELF" : "//PT", p->source);
    return 0;
}

static int fake_nvrtc_log_size(void *program, size_t *bytes)
{
    (void)program;
    *bytes = 12;
    return 0;
}

static int fake_nvrtc_log(void *program, char *out)
{
    (void)program;
    strcpy(out, "a log line.");
    return 0;
}

static int fake_nvrtc_destroy(void **program)
{
    struct fake_program *p = *program;
    free(p->source);
    free(p);
    *program = NULL;
    return 0;
}

/* Shared with children; forgets what was counted. */
static void fake_compiler_reset(void)
{
    if (!fake_compiler)
        fake_compiler =
            mmap(NULL, sizeof(*fake_compiler), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fake_compiler == MAP_FAILED)
        abort();
    memset(fake_compiler, 0, sizeof(*fake_compiler));
    fake_compiler->refusing = -1;
}

/* Puts the compiler into a context, under a name of its own. */
static void fake_nvrtc(mla_context *ctx, const char *identity)
{
    ctx->nvrtc = (struct mla__nvrtc){
        .handle = dlopen(NULL, RTLD_NOW),
        .path = mla__strdup(ctx, "libfakertc.so"),
        .major = 13,
        .version = fake_nvrtc_version,
        .error_text = fake_nvrtc_error,
        .arch_count = fake_nvrtc_arch_count,
        .archs = fake_nvrtc_archs,
        .create = fake_nvrtc_create,
        .compile = fake_nvrtc_compile,
        .ptx_size = fake_nvrtc_size,
        .ptx = fake_nvrtc_image,
        .cubin_size = fake_nvrtc_size,
        .cubin = fake_nvrtc_image,
        .log_size = fake_nvrtc_log_size,
        .log = fake_nvrtc_log,
        .destroy = fake_nvrtc_destroy,
    };
    snprintf(ctx->nvrtc.identity, sizeof(ctx->nvrtc.identity), "%s", identity);
}

/* All compilations so far. */
__attribute__((unused)) static int fake_compilations(void)
{
    int sum = 0;
    for (int i = 0; i < FAKE_SOURCES; i++)
        sum += atomic_load(&fake_compiler->compiled[i]);
    return sum;
}

#endif
