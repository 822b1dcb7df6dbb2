/* SPDX-License-Identifier: Apache-2.0
 *
 * ceilings.c: what this device does at best, by measurement: a large copy of
 * the driver's for bytes, a large product of cuBLAS's for multiply-adds.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_bench.h"
#include "tensor.h"

/* Few: a ceiling is a long launch, and does not scatter. */
enum { REPLAYS = 9 };

/* Microseconds of what `enqueue` puts on the stream: the median. */
static bool time_graph(struct gpu *g, gpu_enqueue enqueue, void *user,
                       double *us)
{
    void *exec = NULL;
    double ms[REPLAYS];
    bool good = gpu_record(g, enqueue, user, &exec) &&
                gpu_replay(g, exec, &ms[0]); /* warms up */

    for (int i = 0; i < REPLAYS && good; i++)
        good = gpu_replay(g, exec, &ms[i]);
    if (exec)
        g->exec_destroy(exec);
    *us = good ? 1e3 * gpu_median(ms, REPLAYS) : 0;
    return good;
}

/* --- bytes ---------------------------------------------------------------- */

/* From the first half of the arena to the second. */
static bool enqueue_copy(struct gpu *g, void *user)
{
    size_t bytes = *(size_t *)user;
    return gpu_good(g, g->copy(g->arena + bytes, g->arena, bytes, g->stream),
                    "copy");
}

/* Two gigabytes are dozens of times any L2. */
bool gpu_copy_ceiling(struct gpu *g, const struct gpu_settings *s,
                      struct gpu_ceilings *out)
{
    size_t most = s->tiny ? (size_t)1 << 20 : (size_t)2 << 30;
    size_t bytes = g->arena_bytes / 2 < most ? g->arena_bytes / 2 : most;
    double us;
    bool good = time_graph(g, enqueue_copy, &bytes, &us);

    out->copy_gbs = us > 0 ? 2 * (double)bytes / us * 1e-3 : 0;
    return good;
}

/* --- multiply-adds -------------------------------------------------------- */

/* What is taken from cuBLAS: its exported C functions, with the values that
 * its reference gives the enumerations. */
enum { OP_N = 0, R_32F = 0, R_16BF = 14, COMPUTE_32F = 68, ALGO_DEFAULT = -1 };

#define BLAS_CALLS(X)                                                        \
    X(create, cublasCreate_v2, (void **handle))                              \
    X(destroy, cublasDestroy_v2, (void *handle))                             \
    X(version, cublasGetVersion_v2, (void *handle, int *version))            \
    X(set_stream, cublasSetStream_v2, (void *handle, void *stream))          \
    X(gemm, cublasGemmEx,                                                    \
      (void *handle, int op_a, int op_b, int m, int n, int k,                \
       const void *alpha, const void *a, int type_a, int lda, const void *b, \
       int type_b, int ldb, const void *beta, void *c, int type_c, int ldc,  \
       int compute, int algorithm))

/* An open library and its handle; products are n x n x n. */
struct blas {
#define BLAS_MEMBER(member, symbol, params) int(*member) params;
    BLAS_CALLS(BLAS_MEMBER)
#undef BLAS_MEMBER
    void *library, *handle;
    int n;
};

/* The newest of those that are installed.  It is not closed: cuBLAS leaves
 * threads behind. */
static bool open_blas(struct blas *b)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12",
                                        "libcublas.so.11", "libcublas.so"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !b->library; i++)
        b->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!b->library)
        return false;
#define BLAS_FIND(member, symbol, params)                                    \
    {                                                                        \
        void *address = dlsym(b->library, #symbol);                          \
        memcpy(&b->member, &address, sizeof(address));                       \
        if (!address)                                                        \
            return false;                                                    \
    }
    BLAS_CALLS(BLAS_FIND)
#undef BLAS_FIND
    return b->create(&b->handle) == 0;
}

/* Operands and result one behind the other in the arena. */
static bool enqueue_gemm(struct gpu *g, void *user)
{
    const struct blas *b = user;
    const float one = 1, zero = 0;
    size_t bytes = 2 * (size_t)b->n * (size_t)b->n;
    const void *a = (const void *)(uintptr_t)g->arena;
    const void *c = (const void *)(uintptr_t)(g->arena + bytes);
    void *out = (void *)(uintptr_t)(g->arena + 2 * bytes);
    int result = b->gemm(b->handle, OP_N, OP_N, b->n, b->n, b->n, &one, a,
                         R_16BF, b->n, c, R_16BF, b->n, &zero, out, R_16BF,
                         b->n, COMPUTE_32F, ALGO_DEFAULT);

    if (result)
        snprintf(g->error, sizeof(g->error), "cublasGemmEx: status %d",
                 result);
    return result == 0;
}

/* One product outside the graph first: cuBLAS may load and allocate then. */
static bool time_blas(struct gpu *g, struct blas *b, double *us)
{
    return b->set_stream(b->handle, g->stream) == 0 &&
           gpu_refresh(g, 4 * (size_t)b->n * (size_t)b->n) &&
           enqueue_gemm(g, b) &&
           gpu_good(g, g->stream_wait(g->stream), "cuBLAS") &&
           time_graph(g, enqueue_gemm, b, us);
}

/* What goes wrong here fails nothing: the ceiling is then another one, and the
 * head of the table says which and why. */
void gpu_gemm_ceiling(struct gpu *g, struct gpu_ceilings *out)
{
    struct blas b = {.n = 8192};
    double us = 0;
    int version = 0;

    out->gemm_tflops = 0;
    if (g->device.is_virtual || !open_blas(&b)) {
        snprintf(out->gemm, sizeof(out->gemm), "%s",
                 g->device.is_virtual ? "a virtual device" : "no cuBLAS");
        return;
    }
    if (time_blas(g, &b, &us) && us > 0) {
        b.version(b.handle, &version);
        out->gemm_tflops = 2.0 * b.n * b.n * b.n / us * 1e-6;
        snprintf(out->gemm, sizeof(out->gemm),
                 "cuBLAS %d.%d, bf16 %d x %d x %d", version / 10000,
                 version / 100 % 100, b.n, b.n, b.n);
    } else {
        snprintf(out->gemm, sizeof(out->gemm), "cuBLAS failed: %.100s",
                 g->error);
    }
    b.destroy(b.handle);
}
