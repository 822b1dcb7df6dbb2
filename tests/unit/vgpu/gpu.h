/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu.h: a CUDA driver for tests, virtual or real.
 *
 * Without MLA_DRIVER the tests call the virtual GPU that is linked in; with
 * it they open the library it names (libcuda.so.1 on a machine with a GPU)
 * and call that instead.  Either way through one structure of function
 * pointers, so a test cannot tell which.  The virtual GPU is an h200 unless
 * VGPU_DEVICE says otherwise: it runs PTX of sm_80 to sm_90a.
 *
 * A real driver gets one context for all tests, as long as no test has broken
 * it, since making one takes it a quarter of a second; and a driver older than
 * the PTX of the tests gets the PTX version that it knows.
 */
#ifndef TEST_VGPU_GPU_H
#define TEST_VGPU_GPU_H

#include "driver_api.h"
#include "gpu_trace.h"
#include "vgpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPU_FIELD(name, suffix, since, args) CUresult(*name##suffix) args;
static struct {
    VG_API(GPU_FIELD)
    const char *(*report)(void);
    bool is_virtual;
    int arch; /* 80, 90, ... */
    int ptx;  /* newest PTX version of a real driver: 88; 0: any */
    CUcontext ctx;
} gpu;

static inline const char *gpu_report(void)
{
    return gpu.report ? gpu.report() : "";
}

#define GPU_LOAD(name, suffix, since, args)                                   \
    *(void **)&gpu.name##suffix = dlsym(lib, #name #suffix);
#define GPU_LINK(name, suffix, since, args) gpu.name##suffix = name##suffix;

static inline int gpu_open(void)
{
    const char *path = getenv("MLA_DRIVER");
    gpu.is_virtual = !path;
    gpu.report = vgpu_report;
    VG_API(GPU_LINK)
    if (!path)
        return setenv("VGPU_DEVICE", "h200", 0);
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        fprintf(stderr, "# %s\n", dlerror());
        return 1;
    }
    VG_API(GPU_LOAD)
    *(void **)&gpu.report = dlsym(lib, "vgpu_report");
    gpu.is_virtual = gpu.report != NULL;
    return gpu.cuInit ? 0 : 1;
}

/* Fails the test with the driver's own words. */
#define gpu_ok(call) gpu_check((call), #call, __FILE__, __LINE__)
static inline void gpu_check(CUresult r, const char *call, const char *file,
                             int line)
{
    const char *name = NULL;
    if (!r)
        return;
    gpu.cuGetErrorName(r, &name);
    print_error("%s: %s (%d)\n%s\n", call, name ? name : "?", r, gpu_report());
    _fail(file, line);
}

/* Whether there is a context that no error sticks to, on a real driver. */
static inline bool gpu_is_healthy(void)
{
    return !gpu.is_virtual && gpu.ctx && gpu.cuCtxSynchronize() == 0;
}

/* PTX versions that came with CUDA 12.0 and later (PTX ISA, release notes);
 * later CUDA runs all that is here. */
static inline int gpu_ptx_version(void)
{
    static const int of_12[] = {80, 81, 82, 83, 84, 85, 85, 86, 87, 88};
    int cuda = 0, minor;
    if (gpu.is_virtual || gpu.cuDriverGetVersion(&cuda) || cuda >= 13000)
        return 0;
    minor = cuda % 1000 / 10;
    return cuda < 12000 ? 78 : of_12[minor < 10 ? minor : 9];
}

/* A fresh context in the current thread: set-up of every test, so that the
 * sticky error of a failed test does not reach the next. */
static inline int gpu_begin(void **state)
{
    int major = 0, minor = 0;
    (void)state;
    gpu_trace.loose = false;
    if (!gpu.cuInit && gpu_open())
        return 1;
    if (gpu_is_healthy())
        return 0;
    if (gpu.cuInit(0) || gpu.cuCtxCreate_v2(&gpu.ctx, 0, 0) ||
        gpu.cuDeviceGetAttribute(&major, 75, 0) ||
        gpu.cuDeviceGetAttribute(&minor, 76, 0)) {
        fprintf(stderr, "# %s\n", gpu_report());
        return 1;
    }
    gpu.arch = 10 * major + minor;
    gpu.ptx = gpu_ptx_version();
    return 0;
}

/* Ends the context for good, after an error that was wanted.  A real driver may
 * return that error once more. */
static inline CUresult gpu_discard(void)
{
    CUresult r = gpu.cuCtxDestroy_v2(gpu.ctx);
    gpu.ctx = NULL;
    return gpu.is_virtual ? r : CUDA_SUCCESS;
}

static inline int gpu_end(void **state)
{
    (void)state;
    if (gpu_is_healthy())
        return 0;
    return gpu_discard() ? 1 : 0;
}

static inline CUdeviceptr gpu_upload(const void *bytes, size_t n)
{
    CUdeviceptr at = 0;
    gpu_ok(gpu.cuMemAlloc_v2(&at, n));
    gpu_ok(gpu.cuMemcpyHtoD_v2(at, bytes, n));
    return at;
}

/* The text with a version that the driver knows; freed by the caller. */
static inline char *gpu_ptx_for_driver(const char *ptx)
{
    char *text = strdup(ptx), *at = text ? strstr(text, ".version 8.") : NULL;
    if (at && gpu.ptx && 80 + at[11] - '0' > gpu.ptx) {
        at[9] = (char)('0' + gpu.ptx / 10);
        at[11] = (char)('0' + gpu.ptx % 10);
    }
    assert_non_null(text);
    return text;
}

/* Loads PTX text; a refusal fails the test with the report. */
static inline CUmodule gpu_load(const char *ptx)
{
    CUmodule m = NULL;
    char *text = gpu_ptx_for_driver(ptx);
    char log[2000] = "";
    int option[2] = {CU_JIT_ERROR_LOG_BUFFER,
                     CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *value[2] = {log, (void *)sizeof log};
    CUresult r = gpu.cuModuleLoadDataEx(&m, text, 2, option, value);
    free(text);
    if (r)
        fail_msg("PTX refused (%d): %s\n%s", r, log, ptx);
    return m;
}

static inline CUfunction gpu_function(CUmodule m, const char *name)
{
    CUfunction f = NULL;
    gpu_ok(gpu.cuModuleGetFunction(&f, m, name));
    return f;
}

/* Runs kernel k(in, out) of the PTX text; in and out are copied there and
 * back.  Returns the launch's result, which the caller judges. */
struct gpu_grid {
    unsigned grid[3], block[3], dynamic;
};
static inline CUresult gpu_run(const char *ptx, const struct gpu_grid *g,
                               const void *in, size_t nin, void *out,
                               size_t nout)
{
    CUfunction f = gpu_function(gpu_load(ptx), "k");
    CUdeviceptr pin = gpu_upload(in, nin), pout = gpu_upload(out, nout);
    void *param[] = {&pin, &pout};
    if (g->dynamic > 48 * 1024)
        gpu_ok(gpu.cuFuncSetAttribute(f, 8, (int)g->dynamic));
    CUresult r = gpu.cuLaunchKernel(f, g->grid[0], g->grid[1], g->grid[2],
                                    g->block[0], g->block[1], g->block[2],
                                    g->dynamic, NULL, param, NULL);
    r = r ? r : gpu.cuCtxSynchronize();
    r = r ? r : gpu.cuMemcpyDtoH_v2(out, pout, nout);
    if (!r)
        gpu_trace_add("kernel", ptx, out, nout);
    return r;
}

/* The head of such a kernel: in and out are in registers of that name; %r0
 * is the thread's number in the block, out has been advanced to its word
 * out[block * threads + thread] of `width` bytes. */
#define GPU_HEAD(target) ".version 8.8\n.target " target "\n.address_size 64\n"
#define GPU_KERNEL(width)                                                     \
    ".visible .entry k(.param .u64 pin, .param .u64 pout)\n{\n"               \
    ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<40>;\n"                  \
    ".reg .f32 %f<16>; .reg .b64 %rd<16>, in, out;\n"                         \
    "ld.param.u64 in, [pin]; ld.param.u64 out, [pout];\n"                     \
    "mov.u32 %r0, %tid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %ctaid.x;\n"     \
    "mad.lo.u32 %r1, %r1, %r2, %r0; mul.wide.u32 %rd0, %r1, " #width ";\n"    \
    "add.u64 out, out, %rd0;\n"

#endif
