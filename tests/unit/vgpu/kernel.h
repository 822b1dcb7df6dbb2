/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel.h: runs a few lines of PTX on the executor, below the driver API.
 *
 * A test gives the body of a kernel.  Around it: registers %p0-7 (pred),
 * %h0-15 (b16), %r0-63 (b32), %f0-31 (f32), %d0-31 (b64), %e0-15 (f64); shared
 * memory sm[8192], aligned to 1024, and dyn[] (dynamic); local memory
 * lm[256]; and
 *   %tid   thread number        %lane, %warp
 *   %in    device address of 64 KiB of words 0, 1, 2, ...
 *   %out   device address of 64 KiB that nobody has written
 *   %sm    shared address of sm
 */
#ifndef TEST_VGPU_KERNEL_H
#define TEST_VGPU_KERNEL_H

#include "checks.h"
#include "counters.h"
#include "exec.h"
#include "mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#define KERNEL_WORDS 16384
#define KERNEL_BYTES (4 * KERNEL_WORDS)

struct kernel {
    const char *body;
    unsigned threads, blocks;   /* 0: 32, 1 */
    unsigned dynamic;           /* bytes of dyn[] */
    unsigned checks;            /* 0: all; ~0: none */
    unsigned arch;              /* 0: 80 */
    unsigned host_threads;      /* 0: 1 */
    uint64_t seed;
};

/* What became of it. */
static struct {
    enum vg_code code;
    char report[4096];
    uint32_t out[KERNEL_WORDS];
    struct vg_counts counts;
} ran;

static const char kernel_head[] =
    ".version 9.0\n.target sm_%u\n.address_size 64\n"
    ".extern .shared .align 16 .b8 dyn[];\n"
    ".visible .entry k(.param .u64 k_in, .param .u64 k_out)\n{\n"
    ".reg .pred %%p<8>;\n.reg .b16 %%h<16>;\n.reg .b32 %%r<64>;\n"
    ".reg .f32 %%f<32>;\n.reg .b64 %%d<32>;\n.reg .f64 %%e<16>;\n"
    ".reg .b32 %%tid, %%lane, %%warp, %%sm;\n.reg .b64 %%in, %%out;\n"
    ".shared .align 1024 .b8 sm[8192];\n.local .align 16 .b8 lm[256];\n"
    "mov.u32 %%tid, %%tid.x;\nand.b32 %%lane, %%tid, 31;\n"
    "shr.u32 %%warp, %%tid, 5;\nmov.u32 %%sm, sm;\n"
    "ld.param.u64 %%in, [k_in];\nld.param.u64 %%out, [k_out];\n";

static char *kernel_text(const struct kernel *k)
{
    size_t n = sizeof kernel_head + strlen(k->body) + 64;
    char *text = malloc(n);
    int at;

    assert_non_null(text);
    at = snprintf(text, n, kernel_head, k->arch ? k->arch : 80);
    snprintf(text + at, n - (size_t)at, "%s\nret;\n}\n", k->body);
    return text;
}

static uint64_t kernel_where(void *ctx, const struct ptx_symbol *sym)
{
    (void)ctx;
    (void)sym;
    return 0;
}

/* Device memory with both buffers; params gets their addresses. */
static struct vg_mem *kernel_memory(uint64_t params[2])
{
    struct vg_mem *m = vg_mem_new(UINT64_C(1) << 30);
    static uint32_t words[KERNEL_WORDS];

    assert_non_null(m);
    for (uint32_t i = 0; i < KERNEL_WORDS; i++)
        words[i] = i;
    assert_int_equal(vg_mem_alloc(m, KERNEL_BYTES, 0, "in", &params[0]), 0);
    assert_int_equal(vg_mem_alloc(m, KERNEL_BYTES, 0, "out", &params[1]), 0);
    assert_int_equal(vg_mem_write(m, params[0], words, KERNEL_BYTES), 0);
    return m;
}

static void kernel_launch(const struct kernel *k, const struct vg_program *p)
{
    uint64_t params[2];
    struct vg_mem *m = kernel_memory(params);
    struct vg_result r;
    struct vg_config c = {
        .grid = {k->blocks ? k->blocks : 1, 1, 1},
        .block = {k->threads ? k->threads : 32, 1, 1},
        .dynamic_shared = k->dynamic,
        .params = params,
        .seed = k->seed,
        .threads = k->host_threads ? k->host_threads : 1,
        .checks = k->checks == ~0u ? 0 : k->checks ? k->checks : VG_CHECK_ALL,
        .sms = 2,
        .arch = k->arch ? k->arch : 80,
        .memory = m,
    };

    vg_counters_reset();
    ran.code = vg_launch(p, &c, &r);
    snprintf(ran.report, sizeof ran.report, "%s", r.report ? r.report : "");
    vg_counters_total(&ran.counts);
    assert_int_equal(vg_mem_read(m, ran.out, params[1], KERNEL_BYTES), 0);
    vg_result_free(&r);
    vg_mem_delete(m);
}

/* Runs the kernel and fills `ran`. */
static void kernel_run(struct kernel k)
{
    char *text = kernel_text(&k), err[512];
    struct ptx_module *m = ptx_parse(text, strlen(text), err, sizeof err);
    struct vg_program *p;

    if (!m)
        fail_msg("%s\n%s", err, text);
    p = vg_compile(m, m->func[0], kernel_where, NULL, err, sizeof err);
    if (!p)
        fail_msg("%s\n%s", err, text);
    kernel_launch(&k, p);
    vg_program_free(p);
    ptx_free(m);
    free(text);
}

/* The run must have ended well. */
#define assert_ran()                                                          \
    do {                                                                      \
        if (ran.code)                                                         \
            fail_msg("%s", ran.report);                                       \
    } while (0)

/* The run must have failed with this code and words of the report. */
#define assert_fault(want, ...)                                               \
    kernel_fault(want, (const char *const[]){__VA_ARGS__, NULL}, __FILE__,    \
                 __LINE__)

static inline void kernel_fault(enum vg_code code, const char *const *words,
                                const char *file, int line)
{
    if (ran.code != code) {
        print_error("ended with %d, expected %d\n%s\n", ran.code, code,
                    ran.report);
        _fail(file, line);
    }
    for (; *words; words++)
        if (!strstr(ran.report, *words)) {
            print_error("\"%s\" is not in\n%s\n", *words, ran.report);
            _fail(file, line);
        }
}

#endif
