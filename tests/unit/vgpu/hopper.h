/* SPDX-License-Identifier: Apache-2.0
 *
 * hopper.h: what the tests of sm_90a's instructions share: building PTX
 * text, running a kernel through the driver API, and the verdicts.
 *
 * A kernel is k(in, out, map): two buffers and a tensor map, which most do
 * not use.  Its registers are %r, %rd, %f, %p, %h; in %r0 the thread's
 * number, in %rd0 and %rd1 the buffers, in %rd2 the address of the map, and
 * sm is 64 KiB of dynamic shared memory at offset 0.
 */
#ifndef TEST_VGPU_HOPPER_H
#define TEST_VGPU_HOPPER_H

#include "gpu.h"

#include <stdint.h>

enum { HOPPER_SHARED = 65536, HOPPER_MAP = 128 };

struct ptx_text {
    char s[100000];
    size_t n;
};

__attribute__((format(printf, 2, 3)))
static inline void emit(struct ptx_text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    t->n += (size_t)vsnprintf(t->s + t->n, sizeof t->s - t->n, fmt, ap);
    va_end(ap);
    assert_true(t->n < sizeof t->s);
}

/* The head up to the first instruction of the test. */
static inline void begin_kernel(struct ptx_text *t, const char *directives)
{
    t->n = 0;
    emit(t,
         ".version 8.4\n.target sm_90a\n.address_size 64\n"
         ".extern .shared .align 1024 .b8 sm[];\n"
         ".visible .entry k(.param .u64 pin, .param .u64 pout,\n"
         "    .param .align 64 .b8 pmap[128]) %s\n{\n"
         ".reg .pred %%p<8>; .reg .b16 %%h<8>; .reg .b32 %%r<64>;\n"
         ".reg .f32 %%f<140>; .reg .b64 %%rd<32>; .reg .b32 %%d<140>;\n"
         "ld.param.u64 %%rd0, [pin]; ld.param.u64 %%rd1, [pout];\n"
         "mov.b64 %%rd3, pmap; cvta.param.u64 %%rd2, %%rd3;\n"
         "mov.u32 %%r0, %%tid.x;\n",
         directives);
}

static inline void end_kernel(struct ptx_text *t)
{
    emit(t, "ret;\n}\n");
}

/* One launch. */
struct hopper {
    unsigned grid, block, cluster; /* 0: 1, 128, none */
    const void *in;
    size_t nin;
    void *out;
    size_t nout;
    unsigned char map[HOPPER_MAP]; /* made by the caller, or zero */
    CUdeviceptr pin, pout;         /* made here unless set */
    bool programmatic;
};

static inline CUresult hopper_launch(struct hopper *h, CUfunction f)
{
    CUlaunchAttribute a[2];
    CUlaunchConfig c = {.gridDimX = h->grid ? h->grid : 1,
                        .gridDimY = 1,
                        .gridDimZ = 1,
                        .blockDimX = h->block ? h->block : 128,
                        .blockDimY = 1,
                        .blockDimZ = 1,
                        .sharedMemBytes = HOPPER_SHARED,
                        .attrs = a};
    void *param[] = {&h->pin, &h->pout, h->map};
    memset(a, 0, sizeof a);
    if (h->cluster) {
        a[c.numAttrs].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        a[c.numAttrs].value.clusterDim.x = h->cluster;
        a[c.numAttrs].value.clusterDim.y = 1;
        a[c.numAttrs++].value.clusterDim.z = 1;
    }
    if (h->programmatic) {
        a[c.numAttrs].id =
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        a[c.numAttrs++].value.programmaticStreamSerializationAllowed = 1;
    }
    gpu_ok(gpu.cuFuncSetAttribute(f, 8, HOPPER_SHARED));
    return gpu.cuLaunchKernelEx(&c, f, param, NULL);
}

/* Loads the text, runs it and fetches out.  Returns the launch's result. */
static inline CUresult hopper_run(struct hopper *h, const char *ptx)
{
    CUfunction f = gpu_function(gpu_load(ptx), "k");
    static const char none[16];
    if (!h->pin)
        h->pin = gpu_upload(h->nin ? h->in : none, h->nin ? h->nin : 16);
    if (!h->pout)
        h->pout = gpu_upload(h->nout ? h->out : none, h->nout ? h->nout : 16);
    CUresult r = hopper_launch(h, f);
    r = r ? r : gpu.cuCtxSynchronize();
    if (r || !h->nout)
        return r;
    r = gpu.cuMemcpyDtoH_v2(h->out, h->pout, h->nout);
    gpu_trace_add("kernel", ptx, h->out, h->nout);
    return r;
}

static inline void hopper_ok(struct hopper *h, const char *ptx)
{
    CUresult r = hopper_run(h, ptx);
    if (r)
        fail_msg("%d: %s\n%s", r, gpu_report(), ptx);
}

/* Fresh random numbers, the same in every run. */
static uint64_t hopper_state = 1;
static inline uint64_t hopper_random(void)
{
    uint64_t z = hopper_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Copies n bytes (a multiple of 2048) from %rd0 + from to shared memory, 128
 * threads, and makes them visible to the async proxy. */
static inline void emit_fill(struct ptx_text *t, unsigned from, unsigned n)
{
    emit(t,
         "shl.b32 %%r1, %%r0, 4; cvt.u64.u32 %%rd4, %%r1;\n"
         "add.u64 %%rd4, %%rd4, %%rd0; mov.u32 %%r2, sm;\n"
         "add.u32 %%r2, %%r2, %%r1; mov.u32 %%r3, 0;\n"
         "FILL: ld.global.v4.b32 {%%r4,%%r5,%%r6,%%r7}, [%%rd4+%u];\n"
         "st.shared.v4.b32 [%%r2], {%%r4,%%r5,%%r6,%%r7};\n"
         "add.u64 %%rd4, %%rd4, 2048; add.u32 %%r2, %%r2, 2048;\n"
         "add.u32 %%r3, %%r3, 2048; setp.lt.u32 %%p0, %%r3, %u;\n"
         "@%%p0 bra FILL;\n"
         "fence.proxy.async.shared::cta; bar.sync 0;\n",
         from, n);
}

/* An mbarrier at a shared address with a count, made by thread 0. */
static inline void emit_mbarrier(struct ptx_text *t, unsigned at,
                                 unsigned count)
{
    emit(t,
         "mov.u32 %%r8, sm; add.u32 %%r8, %%r8, %u;\n"
         "setp.eq.u32 %%p1, %%r0, 0;\n"
         "@%%p1 mbarrier.init.shared::cta.b64 [%%r8], %u;\n"
         "@%%p1 fence.mbarrier_init.release.cluster;\n",
         at, count);
}

/* Waits for a parity of the mbarrier in register r (a name). */
static inline void emit_wait(struct ptx_text *t, const char *mbarrier,
                             unsigned parity)
{
    emit(t,
         "{ .reg .pred q; W: mbarrier.try_wait.parity.shared::cta.b64 q, "
         "[%s], %u;\n@q bra D; bra W; D: }\n",
         mbarrier, parity);
}

/* sm_90 is needed; other devices have nothing to test here. */
static inline bool hopper_absent(void)
{
    return gpu.arch != 90;
}

#endif
