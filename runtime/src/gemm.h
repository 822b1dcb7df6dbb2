/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.h: the plain products of a layer, by cuBLAS or by the emitted kernel.
 */
#ifndef MLA_GEMM_H
#define MLA_GEMM_H

#include "internal.h"

/* cublas.c: cuBLAS as a table of function pointers, looked up as the driver
 * and NVRTC are.  X(member, exported symbol, parameters); all return a
 * cublasStatus_t, 0 for success. */
#define MLA__CUBLAS_LIST(X)                                                  \
    X(create, cublasCreate_v2, (void **handle))                              \
    X(destroy, cublasDestroy_v2, (void *handle))                             \
    X(version, cublasGetVersion_v2, (void *handle, int *version))            \
    X(stream, cublasSetStream_v2, (void *handle, void *stream))              \
    X(workspace, cublasSetWorkspace_v2,                                      \
      (void *handle, void *workspace, size_t bytes))                         \
    X(math, cublasSetMathMode, (void *handle, int mode))                     \
    X(gemm, cublasGemmEx,                                                    \
      (void *handle, int op_a, int op_b, int m, int n, int k,                \
       const void *alpha, const void *a, int type_a, int lda, const void *b, \
       int type_b, int ldb, const void *beta, void *c, int type_c, int ldc,  \
       int compute, int algorithm))

struct mla__cublas {
    void *library, *handle;
    char *path;
    int number; /* its version */
#define MLA__CUBLAS_MEMBER(member, symbol, params) int(*member) params;
    MLA__CUBLAS_LIST(MLA__CUBLAS_MEMBER)
#undef MLA__CUBLAS_MEMBER
};

/* y[rows][columns] = x[rows][depth] * w[columns][depth]^T; strides in bytes,
 * multiples of 16; columns and depth are multiples of 8. */
struct mla__matmul {
    uint64_t x, w, y;
    int64_t x_stride, w_stride, y_stride;
    int64_t rows, columns, depth;
};

/* An argument block that is filled by name. */
enum { MLA__CALL_FIELDS = 64 };

struct mla__call {
    mla_kernel *kernel;
    unsigned char *block;
    unsigned char value[MLA__CALL_FIELDS]; /* per field, place in the list */
    bool bound;
};

struct mla__value {
    const char *field; /* NULL ends a list */
    int64_t integer;   /* pointers, strides, counts */
    double real;
};

mla_status mla__call_make(mla_kernel *kernel, struct mla__call *out);
void mla__call_free(struct mla__call *call);

/* Launches with these values; every call of one object lists the same fields
 * in the same order.  Errors: BAD_MANIFEST (an argument without a value),
 * RANGE, and those of mla_launch. */
mla_status mla__call(struct mla__call *call, const struct mla__value *values,
                     void *stream);

struct mla__gemm {
    mla_context *ctx;
    bool half; /* fp16, else bf16 */
    struct mla__cublas cublas; /* handle NULL: the emitted kernel serves */
    struct mla__call emitted;
    int64_t workspace_bytes; /* that begin wants */
};

/* kind is MLA_GEMM_AUTO ... of mla.h; library NULL: $MLA_CUBLAS or the usual
 * names.  Errors: NO_CUBLAS, NO_KERNEL, OUT_OF_MEMORY. */
mla_status mla__gemm_open(mla_kernels *set, int kind, const char *library,
                          struct mla__gemm *out);
void mla__gemm_close(struct mla__gemm *gemm);

/* Before the products of a stream: which one, and scratch memory. */
mla_status mla__gemm_begin(struct mla__gemm *gemm, uint64_t workspace,
                           void *stream);
mla_status mla__gemm_run(struct mla__gemm *gemm, const struct mla__matmul *p,
                         void *stream);

/* Whether a library of that name, or of the usual ones, can be opened. */
bool mla__cublas_present(const char *library);

/* cublas.c.  Errors: NO_CUBLAS (says which library or symbol is missing, or
 * what it answered). */
mla_status mla__cublas_open(mla_context *ctx, const char *library,
                            struct mla__cublas *out);
void mla__cublas_close(mla_context *ctx, struct mla__cublas *cublas);
mla_status mla__cublas_begin(mla_context *ctx, struct mla__cublas *cublas,
                             uint64_t workspace, int64_t bytes, void *stream);
mla_status mla__cublas_gemm(mla_context *ctx, struct mla__cublas *cublas,
                            bool half, const struct mla__matmul *p);

#endif
