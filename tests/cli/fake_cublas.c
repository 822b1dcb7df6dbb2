/* SPDX-License-Identifier: Apache-2.0
 *
 * fake_cublas.c: the part of cuBLAS that libmla uses, on the host, for
 * tests of how it is called (cuBLAS documentation, sections 2.4 and 2.8.12):
 * column-major matrices, op(A) op(B) with op(A) m x k and op(B) k x n.
 * Memory is the driver's, which is $MLA_DRIVER.  A handle with no workspace,
 * or another type, operation or algorithm than libmla should use, is refused.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_INITIALIZED = 1, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };

struct handle {
    void *stream;
    size_t workspace;
    int (*wait)(void *stream);
    int (*from_device)(void *to, uint64_t from, size_t bytes);
    int (*to_device)(uint64_t to, const void *from, size_t bytes);
};

static void look_up(void *driver, const char *name, void *slot)
{
    void *address = dlsym(driver, name);
    memcpy(slot, &address, sizeof(address));
}

int cublasCreate_v2(void **out)
{
    const char *path = getenv("MLA_DRIVER");
    void *driver = dlopen(path ? path : "", RTLD_NOW);
    struct handle *h = calloc(1, sizeof(*h));

    if (!driver || !h || getenv("FAKE_CUBLAS_BROKEN"))
        return NOT_INITIALIZED;
    look_up(driver, "cuStreamSynchronize", &h->wait);
    look_up(driver, "cuMemcpyDtoH_v2", &h->from_device);
    look_up(driver, "cuMemcpyHtoD_v2", &h->to_device);
    *out = h;
    return 0;
}

int cublasDestroy_v2(void *handle)
{
    free(handle);
    return 0;
}

int cublasGetVersion_v2(void *handle, int *version)
{
    const char *number = getenv("FAKE_CUBLAS_VERSION");

    (void)handle;
    *version = number ? atoi(number) : 130000;
    return 0;
}

int cublasSetMathMode(void *handle, int mode)
{
    return handle && mode == 16 ? 0 : INVALID_VALUE;
}

/* Takes the workspace away, as the real one does. */
int cublasSetStream_v2(void *handle, void *stream)
{
    struct handle *h = handle;

    h->stream = stream;
    h->workspace = 0;
    return 0;
}

int cublasSetWorkspace_v2(void *handle, void *workspace, size_t bytes)
{
    struct handle *h = handle;

    if (!workspace || (uintptr_t)workspace % 256)
        return INVALID_VALUE;
    h->workspace = bytes;
    return 0;
}

static float from_bits(uint16_t bits, int half)
{
    uint32_t wide = (uint32_t)bits << 16;
    _Float16 narrow;
    float value;

    memcpy(&narrow, &bits, sizeof(narrow));
    memcpy(&value, &wide, sizeof(value));
    return half ? (float)narrow : value;
}

static uint16_t to_bits(float value, int half)
{
    _Float16 narrow = (_Float16)value;
    uint32_t wide;
    uint16_t bits;

    memcpy(&wide, &value, sizeof(wide));
    memcpy(&bits, &narrow, sizeof(bits));
    if (value != value)
        return 0x7fff;
    return half ? bits : (uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

/* A matrix of columns, column stride ld, out of device memory. */
static uint16_t *fetch(struct handle *h, const void *from, int rows, int ld,
                       int columns)
{
    size_t n = (size_t)ld * (size_t)(columns - 1) + (size_t)rows;
    uint16_t *copy = malloc(2 * n);

    if (copy && h->from_device(copy, (uintptr_t)from, 2 * n)) {
        free(copy);
        return NULL;
    }
    return copy;
}

/* C[i][j] = sum of A[p][i] B[p][j]: op(A) is A transposed. */
static int multiply(struct handle *h, int m, int n, int k, const uint16_t *a,
                    int lda, const uint16_t *b, int ldb, void *c, int ldc,
                    int half)
{
    uint16_t *column = malloc(2 * (size_t)m);
    int result = column ? 0 : INVALID_VALUE;

    for (int j = 0; j < n && !result; j++) {
        for (int i = 0; i < m; i++) {
            float sum = 0;
            for (int p = 0; p < k; p++)
                sum += from_bits(a[(size_t)i * (size_t)lda + (size_t)p],
                                 half) *
                       from_bits(b[(size_t)j * (size_t)ldb + (size_t)p],
                                 half);
            column[i] = to_bits(sum, half);
        }
        result = h->to_device((uintptr_t)c + 2 * (uintptr_t)j * (uintptr_t)ldc,
                              column, 2 * (size_t)m);
    }
    free(column);
    return result;
}

int cublasGemmEx(void *handle, int op_a, int op_b, int m, int n, int k,
                 const void *alpha, const void *a, int type_a, int lda,
                 const void *b, int type_b, int ldb, const void *beta, void *c,
                 int type_c, int ldc, int compute, int algorithm)
{
    struct handle *h = handle;
    uint16_t *x = NULL, *y = NULL;
    int result = NOT_SUPPORTED;

    if (op_a != 1 || op_b != 0 || type_a != type_b || type_a != type_c ||
        (type_a != 2 && type_a != 14) || compute != 68 || algorithm != -1 ||
        *(const float *)alpha != 1 || *(const float *)beta != 0)
        return NOT_SUPPORTED;
    if (h->workspace < 4 << 20 || lda < k || ldb < k || ldc < m)
        return INVALID_VALUE;
    if (h->wait(h->stream) == 0) {
        x = fetch(h, a, k, lda, m);
        y = fetch(h, b, k, ldb, n);
        if (x && y)
            result = multiply(h, m, n, k, x, lda, y, ldb, c, ldc, type_a == 2);
    }
    free(x);
    free(y);
    return result;
}
