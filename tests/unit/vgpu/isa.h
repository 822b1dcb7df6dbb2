/* SPDX-License-Identifier: Apache-2.0
 *
 * isa.h: table-driven tests of single instructions.
 *
 * A row holds PTX text with $d, $e for destinations and $a, $b, $c for
 * sources, their widths, where the inputs come from, and a C function that
 * computes what the PTX ISA says.  A kernel is made from the row; thread i
 * loads its inputs, runs the text and stores the results; each result is
 * compared with the function's.  Inputs are first all combinations of corner
 * values of their pool, then random, half bits and half corners.
 *
 *   {"add.s32 $d, $a, $b;", "4:44", "ii", add32}
 *
 * signature   destinations : sources; one digit each: 1 predicate, 2 .b16,
 *             4 .b32, 8 .b64
 * pools       i integers, s shift counts, f .f32, g .f64, h .f16, b .bf16,
 *             H .f16x2, B .bf16x2, F .f32 between 2^-24 and 2^24, n 0..63,
 *             u random bits, p 0 or 1, l the lane number, w one value in a
 *             whole warp or a few values mixed, W whole-warp shuffle segments
 */
#ifndef TEST_VGPU_ISA_H
#define TEST_VGPU_ISA_H

#include "gpu.h"

#include <math.h>

enum { ISA_THREADS = 128, ISA_BLOCKS = 16, ISA_N = ISA_THREADS * ISA_BLOCKS };

/* One thread: inputs, and results, in the low bits. */
struct isa_lane {
    uint64_t a, b, c;
    uint64_t d, e;
    unsigned lane;
};

/* How a result is compared.  For the floating-point kinds any NaN equals any
 * NaN; BITS compares all bits. */
enum isa_cmp {
    ISA_BITS,
    ISA_F16,
    ISA_BF16,
    ISA_F16X2,
    ISA_BF16X2,
    ISA_F32,
    ISA_F64
};

struct isa_row {
    const char *text, *signature, *pool;
    void (*ref)(struct isa_lane *x); /* one lane, or */
    enum isa_cmp cmp;
    double relative, absolute;           /* tolerance, either suffices */
    void (*warp)(struct isa_lane x[32]); /* a whole warp */
    int arch;                            /* least, 0: 80 */
};

/* --- inputs -------------------------------------------------------------- */

static uint64_t isa_state;

static inline uint64_t isa_random(void)
{
    uint64_t z = isa_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static const uint64_t isa_ints[] = {0,
                                    1,
                                    2,
                                    3,
                                    31,
                                    32,
                                    33,
                                    63,
                                    64,
                                    0x7f,
                                    0x80,
                                    0xff,
                                    0x100,
                                    0x7fff,
                                    0x8000,
                                    0xffff,
                                    0x10000,
                                    0x7fffffff,
                                    0x80000000,
                                    0x80000001,
                                    0xfffffffe,
                                    0xffffffff,
                                    0x100000000,
                                    0x7fffffffffffffff,
                                    0x8000000000000000,
                                    0x8000000000000001,
                                    0xfffffffffffffffe,
                                    0xffffffffffffffff};
static const uint64_t isa_shifts[] = {
    0,  1,  5,   8,   15,  16,  17,  31,         32,         33,        63,
    64, 65, 127, 128, 255, 256, 257, 0x7fffffff, 0x80000000, 0xffffffff};
static const uint64_t isa_singles[] = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff,
    0x00800000, 0x80800000, 0x00800001, 0x33800000, 0x34000000, 0x3effffff,
    0x3f000000, 0xbf000000, 0x3f7fffff, 0x3f800000, 0xbf800000, 0x3f800001,
    0x3fc00000, 0x40200000, 0xc0200000, 0x40490fdb, 0x4b7fffff, 0x4effffff,
    0x4f000000, 0xcf000000, 0x4f800000, 0x5f000000, 0x7f7fffff, 0xff7fffff,
    0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345};
static const uint64_t isa_doubles[] = {0,
                                       0x8000000000000000,
                                       1,
                                       0x800fffffffffffff,
                                       0x0010000000000000,
                                       0x3fefffffffffffff,
                                       0x3ff0000000000000,
                                       0xbff0000000000000,
                                       0x3ff0000000000001,
                                       0x3ff8000000000000,
                                       0x4004000000000000,
                                       0x3ca0000000000000,
                                       0x41dfffffffc00000,
                                       0xc1e0000000000000,
                                       0x43dfffffffffffff,
                                       0x43e0000000000000,
                                       0xc3e0000000000000,
                                       0x47efffffe0000000,
                                       0x47effffff0000000,
                                       0x36a0000000000000,
                                       0x369fffffffffffff,
                                       0x7fefffffffffffff,
                                       0x7ff0000000000000,
                                       0xfff0000000000000,
                                       0x7ff8000000000000};
static const uint64_t isa_halves[] = {
    0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x0401, 0x1000,
    0x3800, 0x3bff, 0x3c00, 0xbc00, 0x3c01, 0x3e00, 0x4100, 0x4248, 0x5800,
    0x6400, 0x77ff, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe01};
static const uint64_t isa_bfloats[] = {
    0x0000, 0x8000, 0x0001, 0x8001, 0x007f, 0x0080, 0x8080, 0x0081, 0x3380,
    0x3f00, 0x3f7f, 0x3f80, 0xbf80, 0x3f81, 0x3fc0, 0x4020, 0x4049, 0x4300,
    0x4f00, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffc1};
static const uint64_t isa_bools[] = {0, 1};

static const struct {
    char name;
    const uint64_t *v;
    int n;
} isa_pools[] = {
#define ISA_POOL(name, v)                                                     \
    {                                                                         \
        name, v, (int)(sizeof v / sizeof *v)                                  \
    }
    ISA_POOL('i', isa_ints),    ISA_POOL('s', isa_shifts),
    ISA_POOL('f', isa_singles), ISA_POOL('g', isa_doubles),
    ISA_POOL('h', isa_halves),  ISA_POOL('b', isa_bfloats),
    ISA_POOL('p', isa_bools),
};

/* Row of isa_pools, or -1 for a pool without corners. */
static inline int isa_pool(char name)
{
    int n = sizeof isa_pools / sizeof *isa_pools;
    for (int i = 0; i < n; i++)
        if (isa_pools[i].name == name)
            return i;
    return -1;
}

/* A fixed scramble of a small number. */
static inline uint64_t isa_mix(unsigned n)
{
    return (n + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 20;
}

static inline uint64_t isa_corner(char pool)
{
    int k = isa_pool(pool);
    return isa_pools[k].v[isa_random() % (unsigned)isa_pools[k].n];
}

static inline uint64_t isa_random_value(char pool, unsigned thread)
{
    bool corner = isa_random() & 1;
    uint64_t bits = isa_random();
    switch (pool) {
    case 'H':
        return corner ? isa_corner('h') << 16 | isa_corner('h') : bits;
    case 'B':
        return corner ? isa_corner('b') << 16 | isa_corner('b') : bits;
    case 'F':
        return (bits & 0x807fffff) | (uint64_t)(103 + bits / 7 % 48) << 23;
    case 'n':
        return bits % 64;
    case 'u':
        return bits;
    case 'l':
        return thread % 32;
    case 'w':
        return isa_mix(thread / 32) & 2 ? isa_mix(thread / 32) >> 8 & 3
                                        : bits & 3;
    case 'W':
        return (UINT64_C(0x1f1e1c181000) >> 8 * (thread / 32 % 6) & 31) << 8 |
               (thread / 32 & 8 ? 0 : 31);
    case 'p':
        return bits & 1;
    case 'g':
        /* Doubles whose exponents are near enough to interact. */
        return corner ? isa_corner('g')
                      : (bits & 0x800fffffffffffff) | (1000 + bits % 1009 % 60)
                                                          << 52;
    case 'f':
        return corner ? isa_corner('f')
               : bits >> 40 & 1
                   ? (bits & 0x807fffff) | (110 + bits / 11 % 40) << 23
                   : bits;
    default:
        return corner ? isa_corner(pool) : bits;
    }
}

/* Fills in[k][thread]: combinations of corners first, as far as they go. */
static inline void isa_inputs(const char *pool, int n, uint64_t in[3][ISA_N])
{
    uint64_t combinations = n ? 1 : 0;
    for (int k = 0; k < n; k++)
        combinations *= isa_pool(pool[k]) < 0
                            ? 0
                            : (uint64_t)isa_pools[isa_pool(pool[k])].n;
    if (combinations > ISA_N)
        combinations = 0;
    for (unsigned i = 0; i < ISA_N; i++) {
        uint64_t rest = i;
        for (int k = 0; k < n; k++) {
            int p = isa_pool(pool[k]);
            if (i < combinations) {
                in[k][i] = isa_pools[p].v[rest % (unsigned)isa_pools[p].n];
                rest /= (unsigned)isa_pools[p].n;
            } else {
                in[k][i] = isa_random_value(pool[k], i);
            }
        }
    }
}

/* --- the kernel ---------------------------------------------------------- */

static const char *const isa_class[9] = {
    [1] = ".pred", [2] = ".b16", [4] = ".b32", [8] = ".b64"};

/* Text with $x replaced by the register x. */
static inline int isa_expand(char *out, size_t room, const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += snprintf(out + n, room - (size_t)n, *text == '$' ? "v_" : "%c",
                      *text);
    return n;
}

/* `reg` <- the 64 bits at [base + offset], and back. */
static inline int isa_load(char *out, size_t room, char reg, int width, int k)
{
    static const char *const cvt[9] = {
        [1] = "and.b64 x, x, 1; setp.ne.u64 v_%c, x, 0;",
        [2] = "cvt.u16.u64 v_%c, x;",
        [4] = "cvt.u32.u64 v_%c, x;",
        [8] = "mov.b64 v_%c, x;"};
    int n = snprintf(out, room, "ld.global.u64 x, [in+%d];\n", k * ISA_N * 8);
    n += snprintf(out + n, room - (size_t)n, cvt[width], reg);
    return n + snprintf(out + n, room - (size_t)n, "\n");
}

static inline int isa_store(char *out, size_t room, char reg, int width, int k)
{
    static const char *const cvt[9] = {[1] = "selp.b64 x, 1, 0, v_%c;",
                                       [2] = "cvt.u64.u16 x, v_%c;",
                                       [4] = "cvt.u64.u32 x, v_%c;",
                                       [8] = "mov.b64 x, v_%c;"};
    int n = snprintf(out, room, cvt[width], reg);
    return n + snprintf(out + n, room - (size_t)n,
                        "\nst.global.u64 [out+%d], x;\n", k * ISA_N * 8);
}

static inline void isa_kernel(const struct isa_row *r, char *out, size_t room)
{
    const char *colon = strchr(r->signature, ':');
    int ndst = (int)(colon - r->signature), n;
    int nsrc = (int)strlen(colon + 1);
    n = snprintf(out, room,
                 ".version 8.8\n.target sm_%d\n.address_size 64\n"
                 ".visible .entry k(.param .u64 pin, .param .u64 pout)\n"
                 "{\n.reg .b64 in, out, x; .reg .b32 t, u;\n",
                 r->arch ? r->arch : 80);
    for (int k = 0; k < ndst; k++)
        n += snprintf(out + n, room - (size_t)n, ".reg %s v_%c;\n",
                      isa_class[r->signature[k] - '0'], 'd' + k);
    for (int k = 0; k < nsrc; k++)
        n += snprintf(out + n, room - (size_t)n, ".reg %s v_%c;\n",
                      isa_class[colon[1 + k] - '0'], 'a' + k);
    n += snprintf(out + n, room - (size_t)n,
                  "mov.u32 t, %%tid.x;\nmov.u32 u, %%ctaid.x;\n"
                  "mad.lo.u32 t, u, %d, t;\nmul.wide.u32 x, t, 8;\n"
                  "ld.param.u64 in, [pin];\nld.param.u64 out, [pout];\n"
                  "add.u64 in, in, x;\nadd.u64 out, out, x;\n",
                  ISA_THREADS);
    for (int k = 0; k < nsrc; k++)
        n += isa_load(out + n, room - (size_t)n, (char)('a' + k),
                      colon[1 + k] - '0', k);
    n += isa_expand(out + n, room - (size_t)n, r->text);
    n += snprintf(out + n, room - (size_t)n, "\n");
    for (int k = 0; k < ndst; k++)
        n += isa_store(out + n, room - (size_t)n, (char)('d' + k),
                       r->signature[k] - '0', k);
    n += snprintf(out + n, room - (size_t)n, "ret;\n}\n");
    assert_in_range(n, 1, room - 1);
}

/* --- comparison ---------------------------------------------------------- */

static inline double isa_single(uint64_t bits)
{
    uint32_t u = (uint32_t)bits;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline double isa_double(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* f16 to double, from the format's definition (IEEE 754 binary16). */
static inline double isa_half(uint64_t bits)
{
    int e = bits >> 10 & 31;
    double m = (double)(bits & 0x3ff), v;
    if (e == 31)
        v = m ? NAN : INFINITY;
    else
        v = e ? ldexp(m + 1024, e - 25) : ldexp(m, -24);
    return bits & 0x8000 ? -v : v;
}

static inline bool isa_near(double got, double want, uint64_t got_bits,
                            uint64_t want_bits, const struct isa_row *r)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want);
    if (got_bits == want_bits)
        return true;
    if (isinf(got) || isinf(want))
        return r->relative > 0 && got == want;
    double error = fabs(got - want);
    return (r->relative > 0 && error <= r->relative * fabs(want)) ||
           (r->absolute > 0 && error <= r->absolute);
}

static inline bool isa_half_near(uint64_t got, uint64_t want, bool bf16,
                                 const struct isa_row *r)
{
    got &= 0xffff;
    want &= 0xffff;
    return bf16 ? isa_near(isa_single(got << 16), isa_single(want << 16), got,
                           want, r)
                : isa_near(isa_half(got), isa_half(want), got, want, r);
}

static inline bool isa_equal(const struct isa_row *r, uint64_t got,
                             uint64_t want)
{
    switch (r->cmp) {
    case ISA_F16:
    case ISA_BF16:
        return isa_half_near(got, want, r->cmp == ISA_BF16, r);
    case ISA_F16X2:
    case ISA_BF16X2:
        return isa_half_near(got, want, r->cmp == ISA_BF16X2, r) &&
               isa_half_near(got >> 16, want >> 16, r->cmp == ISA_BF16X2, r);
    case ISA_F32:
        return isa_near(isa_single(got), isa_single(want), got, want, r);
    case ISA_F64:
        return isa_near(isa_double(got), isa_double(want), got, want, r);
    default:
        return got == want;
    }
}

static inline uint64_t isa_cut(uint64_t v, int width)
{
    return width == 8   ? v
           : width == 1 ? v & 1
                        : v & ((UINT64_C(1) << 8 * width) - 1);
}

/* --- running ------------------------------------------------------------- */

static uint64_t isa_in[3][ISA_N], isa_out[2][ISA_N];

static inline void isa_launch(const char *ptx)
{
    CUfunction f = gpu_function(gpu_load(ptx), "k");
    CUdeviceptr in = gpu_upload(isa_in, sizeof isa_in), out = 0;
    gpu_ok(gpu.cuMemAlloc_v2(&out, sizeof isa_out));
    void *param[] = {&in, &out};
    gpu_ok(gpu.cuLaunchKernel(f, ISA_BLOCKS, 1, 1, ISA_THREADS, 1, 1, 0, NULL,
                              param, NULL));
    gpu_ok(gpu.cuCtxSynchronize());
    gpu_ok(gpu.cuMemcpyDtoH_v2(isa_out, out, sizeof isa_out));
}

static inline void isa_fail(const struct isa_row *r, const struct isa_lane *x,
                            unsigned i, char name, uint64_t got, uint64_t want)
{
    fail_msg("%s thread %u: a=0x%llx b=0x%llx c=0x%llx: %c is 0x%llx, the ISA "
             "says 0x%llx",
             r->text, i, (unsigned long long)x->a, (unsigned long long)x->b,
             (unsigned long long)x->c, name, (unsigned long long)got,
             (unsigned long long)want);
}

/* Where a row says that any NaN is as good as another, one for all. */
static inline uint64_t isa_one_nan(const struct isa_row *r, uint64_t v)
{
    bool bf16 = r->cmp == ISA_BF16 || r->cmp == ISA_BF16X2;
    if (r->cmp == ISA_BITS)
        return v;
    if (r->cmp == ISA_F64)
        return isnan(isa_double(v)) ? INT64_MAX : v;
    if (r->cmp == ISA_F32)
        return isnan(isa_single(v)) ? INT32_MAX : v;
    for (int k = 0; k < 32; k += 16) {
        uint64_t half = v >> k & 0xffff;
        if (isnan(bf16 ? isa_single(half << 16) : isa_half(half)))
            v |= UINT64_C(0x7fff) << k;
    }
    return v;
}

/* The results for a comparison with another driver. */
static inline void isa_trace(const struct isa_row *r, const char *ptx, int n)
{
    if (r->relative > 0 || r->absolute > 0)
        gpu_loose();
    for (int d = 0; d < n; d++)
        for (unsigned i = 0; i < ISA_N; i++)
            isa_out[d][i] = isa_one_nan(r, isa_out[d][i]);
    gpu_trace_add(r->text, ptx, isa_out, (size_t)n * sizeof isa_out[0]);
}

/* The cmocka test of one row. */
static inline void isa_test(void **state)
{
    const struct isa_row *r = *state;
    const char *colon = strchr(r->signature, ':');
    int ndst = (int)(colon - r->signature), nsrc = (int)strlen(colon + 1);
    char ptx[6000];
    struct isa_lane x[32];
    assert_int_equal(strlen(r->pool), nsrc);
    isa_inputs(r->pool, nsrc, isa_in);
    isa_kernel(r, ptx, sizeof ptx);
    isa_launch(ptx);
    isa_trace(r, ptx, ndst);
    for (unsigned i = 0; i < ISA_N; i++) {
        struct isa_lane *l = &x[i % 32];
        *l = (struct isa_lane){.lane = i % 32};
        l->a = nsrc > 0 ? isa_cut(isa_in[0][i], colon[1] - '0') : 0;
        l->b = nsrc > 1 ? isa_cut(isa_in[1][i], colon[2] - '0') : 0;
        l->c = nsrc > 2 ? isa_cut(isa_in[2][i], colon[3] - '0') : 0;
        if (r->ref)
            r->ref(l);
        if (i % 32 < 31)
            continue;
        if (r->warp)
            r->warp(x);
        for (unsigned k = 0; k < 32; k++) {
            for (int d = 0; d < ndst; d++) {
                uint64_t want =
                    isa_cut(d ? x[k].e : x[k].d, r->signature[d] - '0');
                uint64_t got = isa_out[d][i - 31 + k];
                if (!isa_equal(r, got, want))
                    isa_fail(r, &x[k], i - 31 + k, (char)('d' + d), got, want);
            }
        }
    }
}

/* Runs every row as a test named by its text.  Rows above the device's
 * architecture are not run at all; a profile that has them runs them. */
static inline int isa_main(const char *group, const struct isa_row *row,
                           size_t n, const struct CMUnitTest *more,
                           size_t nmore)
{
    struct CMUnitTest *t = calloc(n + nmore, sizeof *t);
    size_t used = 0;
    const char *seed = getenv("ISA_SEED");
    isa_state = seed ? strtoull(seed, NULL, 0) : 1;
    if (!t || gpu_begin(NULL) || gpu_end(NULL))
        return 1;
    for (size_t i = 0; i < n; i++)
        if (row[i].arch <= gpu.arch)
            t[used++] = (struct CMUnitTest){row[i].text, isa_test, gpu_begin,
                                            gpu_end, (void *)&row[i]};
    for (size_t i = 0; i < nmore; i++)
        t[used++] = more[i];
    int failed = _cmocka_run_group_tests(group, t, used, NULL, NULL);
    free(t);
    return failed;
}

#define ISA_MAIN(group, rows)                                                 \
    int main(void)                                                            \
    {                                                                         \
        return isa_main(group, rows, sizeof rows / sizeof *rows, NULL, 0);    \
    }
/* With further cmocka tests beside the rows. */
#define ISA_MAIN_AND(group, rows, tests)                                      \
    int main(void)                                                            \
    {                                                                         \
        return isa_main(group, rows, sizeof rows / sizeof *rows, tests,       \
                        sizeof tests / sizeof *tests);                        \
    }

#endif
