/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.c: who computes a plain product.
 *
 * cuBLAS where there is one, the emitted kernel otherwise.  cuBLAS talks to
 * NVIDIA's driver and to no other, so where the context uses another driver
 * (a software GPU) it is not even looked for unless it is asked for.
 */
#include <string.h>

#include "gemm.h"

/* Scratch memory that cuBLAS recommends (its documentation,
 * cublasSetWorkspace), by compute capability. */
static int64_t recommended(int major)
{
    const int64_t mib = 1 << 20;

    if (major == 9 || major == 10)
        return 32 * mib;
    return (major >= 12 ? 12 : 4) * mib;
}

/* By the name of the library that was opened. */
static bool is_nvidias(const mla_context *ctx)
{
    const char *slash = strrchr(ctx->driver.path, '/');
    const char *name = slash ? slash + 1 : ctx->driver.path;

    return strncmp(name, "libcuda.so", strlen("libcuda.so")) == 0;
}

/* One kernel for all head counts. */
static mla_status open_emitted(mla_kernels *set, struct mla__gemm *g)
{
    mla_kernel *k;
    mla_status status = mla_find(set, "gemm", "", 0, 0, &k);

    if (!status)
        status = mla__call_make(k, &g->emitted);
    return status ? status : mla_prepare(k);
}

mla_status mla__gemm_open(mla_kernels *set, int kind, const char *library,
                          struct mla__gemm *g)
{
    mla_context *ctx = set->ctx;
    bool wanted = kind == MLA_GEMM_CUBLAS;
    mla_status status = mla__device_open(ctx);

    *g = (struct mla__gemm){.ctx = ctx};
    if (status)
        return status;
    g->half = set->count && strcmp(set->kernel[0].dtype, "fp16") == 0;
    if (wanted || (kind == MLA_GEMM_AUTO && is_nvidias(ctx) &&
                   mla__cublas_present(library)))
        status = mla__cublas_open(ctx, library, &g->cublas);
    if (status && wanted)
        return status;
    if (!g->cublas.handle) {
        mla__log(ctx, MLA_LOG_INFO, "plain products by the emitted gemm");
        return open_emitted(set, g);
    }
    g->workspace_bytes = recommended(ctx->info.major);
    return MLA_OK;
}

void mla__gemm_close(struct mla__gemm *g)
{
    if (!g->ctx)
        return;
    mla__cublas_close(g->ctx, &g->cublas);
    mla__call_free(&g->emitted);
}

mla_status mla__gemm_begin(struct mla__gemm *g, uint64_t workspace,
                           void *stream)
{
    return g->cublas.handle
               ? mla__cublas_begin(g->ctx, &g->cublas, workspace,
                                   g->workspace_bytes, stream)
               : MLA_OK;
}

/* y = x w^T; no rows, no launch. */
mla_status mla__gemm_run(struct mla__gemm *g, const struct mla__matmul *p,
                         void *stream)
{
    const struct mla__value values[] = {
        {"x", (int64_t)p->x, 0},        {"x_stride", p->x_stride, 0},
        {"w", (int64_t)p->w, 0},        {"w_stride", p->w_stride, 0},
        {"y", (int64_t)p->y, 0},        {"y_stride", p->y_stride, 0},
        {"tokens", p->rows, 0},         {"columns", p->columns, 0},
        {"depth", p->depth, 0},         {NULL, 0, 0}};

    if (p->rows == 0)
        return MLA_OK;
    return g->cublas.handle ? mla__cublas_gemm(g->ctx, &g->cublas, g->half, p)
                            : mla__call(&g->emitted, values, stream);
}
