/* SPDX-License-Identifier: Apache-2.0
 *
 * test_isa_wgmma.c: wgmma.mma_async (PTX ISA 9.7.15): where the elements of
 * A, B and D lie, for all shapes, types, layouts and sources of A.
 *
 * Matrices of small integers are put into shared memory by the layouts that
 * the ISA describes (9.7.15.5.1; the formulas are those of CUTLASS's CuTe,
 * atom/mma_traits_sm90_gmma.hpp), so every product is exact and compared bit
 * for bit.  How sums are rounded is tested at the end.
 */
#include "hopper.h"

#include <math.h>

enum { B_AT = 32768, ROWS = 64, IN_HEAD = 128, REGS_AT = 256 };
enum kind { BF16, F16, TF32, E4M3, E5M2, S8, U8 };
static const char *const kind_name[] = {"bf16", "f16",  "tf32", "e4m3",
                                        "e5m2", "s8", "u8"};
static const unsigned kind_bytes[] = {2, 2, 4, 1, 1, 1, 1};

struct shape {
    enum kind a, b;
    const char *d;       /* "f32", "f16", "s32" */
    unsigned n;
    bool a_regs, a_mn, b_mn;
    unsigned a_mode, b_mode;  /* swizzle field: 0 none, 1 128, 2 64, 3 32 */
    bool keep;           /* scale-d: add to what is there */
    int scale;           /* imm-scale-a */
    unsigned step;       /* K step within a swizzled row */
};

/* ---- elements ----------------------------------------------------------- */

static uint32_t float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* |v| <= 4 as an element. */
static uint32_t encode(enum kind k, int v)
{
    uint32_t u = float_bits((float)v), sign = u >> 31, e = u >> 23 & 255;
    uint32_t m = u & 0x7fffff;
    switch (k) {
    case BF16:
        return u >> 16;
    case TF32:
        return u;
    case F16:
        return v ? sign << 15 | (e - 112) << 10 | m >> 13 : 0;
    case E4M3:
        return v ? sign << 7 | (e - 120) << 3 | m >> 20 : 0;
    case E5M2:
        return v ? sign << 7 | (e - 112) << 2 | m >> 21 : 0;
    default:
        return (uint32_t)v & 255;
    }
}

static int random_value(enum kind k)
{
    int v = (int)(hopper_random() % 9) - 4;
    /* e5m2 has two mantissa bits: 3 fits, all up to 4 do */
    return k == U8 ? (v < 0 ? -v : v) : v;
}

/* ---- layouts (offsets in bytes) ----------------------------------------- */

struct layout {
    unsigned mode, leading, stride, start;
    bool mn_major;
};

static unsigned width_of(unsigned mode)
{
    static const unsigned w[] = {16, 128, 64, 32};
    return w[mode];
}

/* K-major rows pitch, or blocks side by side; k rows of 8. */
static struct layout layout_of(unsigned mode, bool mn_major, unsigned start,
                               unsigned step)
{
    unsigned w = width_of(mode);
    struct layout l = {mode, 16, 8 * w, start, mn_major};
    if (mode == 0) {
        l.leading = 128;
        l.stride = 256;
    } else if (mn_major) {
        l.leading = 16 * w; /* the next W bytes of mn, after 16 k rows */
    } else {
        l.start += 32 * step;
    }
    return l;
}

static unsigned place(const struct layout *l, unsigned mn, unsigned k,
                      unsigned e)
{
    static const unsigned mask[] = {0, 7, 3, 1};
    unsigned w = width_of(l->mode), off;
    if (!l->mn_major) {
        unsigned kb = k * e;
        off = l->mode ? mn % 8 * w + mn / 8 * l->stride + kb
                      : mn % 8 * 16 + mn / 8 * l->stride +
                            kb / 16 * l->leading + kb % 16;
    } else {
        unsigned mb = mn * e;
        off = l->mode ? mb % w + mb / w * l->leading + k % 8 * w +
                            k / 8 * l->stride
                      : mb % 16 + mb / 16 * l->stride + k % 8 * 16 +
                            k / 8 * l->leading;
    }
    unsigned at = l->start + off;
    return at ^ (at >> 7 & mask[l->mode]) << 4;
}

static uint64_t descriptor(const struct layout *l)
{
    return (uint64_t)l->mode << 62 | (uint64_t)(l->stride / 16) << 32 |
           (uint64_t)(l->leading / 16) << 16 | l->start / 16;
}

/* ---- one case ----------------------------------------------------------- */

static struct {
    uint64_t a, b;
    unsigned char pad[IN_HEAD - 16];
    uint32_t areg[128][4], d[128][128];
    unsigned char image[HOPPER_SHARED];
} in;
static uint32_t out[128][128];
static int a[ROWS][32], b[256][32], c[ROWS][256];

static unsigned depth(const struct shape *s)
{
    return 32 / kind_bytes[s->a];
}

static void put(unsigned at, uint32_t v, unsigned bytes)
{
    memcpy(in.image + at, &v, bytes);
}

static void fill(const struct shape *s)
{
    struct layout la = layout_of(s->a_mode, s->a_mn, 0, s->step);
    struct layout lb = layout_of(s->b_mode, s->b_mn, B_AT, s->step);
    unsigned e = kind_bytes[s->a];
    memset(&in, 0, sizeof in);
    for (unsigned k = 0; k < depth(s); k++) {
        for (unsigned m = 0; m < ROWS; m++) {
            a[m][k] = random_value(s->a);
            put(place(&la, m, k, e), encode(s->a, a[m][k]), e);
        }
        for (unsigned n = 0; n < s->n; n++) {
            b[n][k] = random_value(s->b);
            put(place(&lb, n, k, e), encode(s->b, b[n][k]), e);
        }
    }
    in.a = descriptor(&la);
    in.b = descriptor(&lb);
}

/* A's fragment (ISA 9.7.15.5.1.1): 32 bits hold 32 / bits elements along k;
 * registers 1 and 3 are eight rows below, 2 and 3 half a step further. */
static void fill_fragment(const struct shape *s)
{
    unsigned e = kind_bytes[s->a], per = 4 / e;
    for (unsigned t = 0; t < 128; t++)
        for (unsigned r = 0; r < 4; r++)
            for (unsigned i = 0; i < per; i++) {
                unsigned row = 16 * (t / 32) + t % 32 / 4 + 8 * (r & 1);
                unsigned k = t % 4 * per + i + (r >> 1) * 16 / e;
                in.areg[t][r] |= encode(s->a, a[row][k]) << 8 * e * i;
            }
}

/* D's registers (9.7.15.5.1.1): element i of thread t. */
static void d_place(unsigned t, unsigned i, unsigned *row, unsigned *col)
{
    *row = 16 * (t / 32) + t % 32 / 4 + 8 * (i >> 1 & 1);
    *col = 8 * (i >> 2) + 2 * (t % 4) + (i & 1);
}

static uint32_t d_bits(const struct shape *s, int v)
{
    if (strcmp(s->d, "s32") == 0)
        return (uint32_t)v;
    if (strcmp(s->d, "f32") == 0)
        return float_bits((float)v);
    uint32_t u = float_bits((float)v);
    return v ? (u >> 31) << 15 | ((u >> 23 & 255) - 112) << 10 |
                   (u & 0x7fffff) >> 13
             : 0;
}

static bool is_half(const struct shape *s)
{
    return strcmp(s->d, "f16") == 0;
}

/* Registers of a thread for a 64 x n matrix of ints. */
static void to_registers(const struct shape *s, int m[ROWS][256],
                         uint32_t reg[128][128])
{
    for (unsigned t = 0; t < 128; t++)
        for (unsigned i = 0; i < s->n / 2; i++) {
            unsigned row, col;
            d_place(t, i, &row, &col);
            uint32_t v = d_bits(s, m[row][col]);
            if (!is_half(s))
                reg[t][i] = v;
            else
                reg[t][i / 2] = i & 1 ? (reg[t][i / 2] & 0xffff) | v << 16
                                      : v;
        }
}

static void emit_list(struct ptx_text *t, const char *name, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        emit(t, "%s%s%u", i ? "," : "{", name, i);
    emit(t, "}");
}

static void kernel_of(struct ptx_text *t, const struct shape *s)
{
    unsigned nd = s->n / (is_half(s) ? 4 : 2);
    bool is_int = strcmp(s->d, "s32") == 0;
    begin_kernel(t, ".reqntid 128");
    emit_fill(t, IN_HEAD + 2048 + 65536, HOPPER_SHARED);
    emit(t,
         "shl.b32 %%r10, %%r0, 4; cvt.u64.u32 %%rd5, %%r10;\n"
         "add.u64 %%rd5, %%rd5, %%rd0;\n"
         "ld.global.v4.b32 {%%r20,%%r21,%%r22,%%r23}, [%%rd5+%d];\n"
         "shl.b32 %%r10, %%r0, 9; cvt.u64.u32 %%rd6, %%r10;\n"
         "add.u64 %%rd7, %%rd6, %%rd0; add.u64 %%rd8, %%rd6, %%rd1;\n"
         "ld.global.b64 %%rd10, [%%rd0]; ld.global.b64 %%rd11, [%%rd0+8];\n"
         "setp.eq.u32 %%p2, 1, %d;\n",
         IN_HEAD, s->keep);
    for (unsigned i = 0; i < nd; i++)
        emit(t, "ld.global.b32 %%d%u, [%%rd7+%u];\n", i,
             IN_HEAD + 2048 + 4 * i);
    emit(t, "wgmma.fence.sync.aligned;\n"
            "wgmma.mma_async.sync.aligned.m64n%uk%u.%s.%s.%s ", s->n,
         depth(s), s->d, kind_name[s->a], kind_name[s->b]);
    emit_list(t, "%d", nd);
    emit(t, ", %s, %%rd11, %%p2",
         s->a_regs ? "{%r20,%r21,%r22,%r23}" : "%rd10");
    if (!is_int)
        emit(t, ", %d, 1", s->scale ? s->scale : 1);
    if (kind_bytes[s->a] == 2 && !s->a_regs)
        emit(t, ", %d", s->a_mn);
    if (kind_bytes[s->a] == 2)
        emit(t, ", %d", s->b_mn);
    emit(t, ";\nwgmma.commit_group.sync.aligned;\n"
            "wgmma.wait_group.sync.aligned 0;\n");
    for (unsigned i = 0; i < nd; i++)
        emit(t, "st.global.b32 [%%rd8+%u], %%d%u;\n", 4 * i, i);
    end_kernel(t);
}

static void run_case(const struct shape *s)
{
    static struct ptx_text t;
    static uint32_t want[128][128];
    struct hopper h = {.in = &in, .nin = sizeof in, .out = out,
                       .nout = sizeof out};
    fill(s);
    fill_fragment(s);
    for (unsigned m = 0; m < ROWS; m++)
        for (unsigned n = 0; n < s->n; n++)
            c[m][n] = (int)(hopper_random() % 201) - 100;
    to_registers(s, c, in.d);
    kernel_of(&t, s);
    hopper_ok(&h, t.s);
    for (unsigned m = 0; m < ROWS; m++)
        for (unsigned n = 0; n < s->n; n++) {
            int sum = 0;
            for (unsigned k = 0; k < depth(s); k++)
                sum += a[m][k] * b[n][k];
            c[m][n] = (s->keep ? c[m][n] : 0) + (s->scale ? s->scale : 1) *
                                                    sum;
        }
    to_registers(s, c, want);
    unsigned nd = s->n / (is_half(s) ? 4 : 2);
    for (unsigned i = 0; i < 128; i++)
        for (unsigned r = 0; r < nd; r++)
            if (out[i][r] != want[i][r])
                fail_msg("n %u %s.%s.%s: thread %u register %u is 0x%x, the "
                         "ISA says 0x%x", s->n, s->d, kind_name[s->a],
                         kind_name[s->b], i, r, out[i][r], want[i][r]);
}

/* ---- tests -------------------------------------------------------------- */

static void every_n(void **state)
{
    (void)state;
    for (unsigned n = 8; n <= 256; n += 8)
        run_case(&(struct shape){.a = BF16, .b = BF16, .d = "f32", .n = n,
                                 .a_mode = 1, .b_mode = 1, .keep = n & 8});
}

static void every_type(void **state)
{
    static const struct { enum kind a, b; const char *d; } type[] = {
        {BF16, BF16, "f32"}, {F16, F16, "f32"},   {F16, F16, "f16"},
        {TF32, TF32, "f32"}, {E4M3, E4M3, "f32"}, {E4M3, E5M2, "f32"},
        {E5M2, E4M3, "f32"}, {E5M2, E5M2, "f32"}, {E4M3, E4M3, "f16"},
        {E5M2, E4M3, "f16"}, {S8, S8, "s32"},     {S8, U8, "s32"},
        {U8, S8, "s32"},     {U8, U8, "s32"},
    };
    (void)state;
    for (size_t k = 0; k < sizeof type / sizeof *type; k++)
        for (int regs = 0; regs < 2; regs++)
            run_case(&(struct shape){.a = type[k].a, .b = type[k].b,
                                     .d = type[k].d, .n = 48, .a_regs = regs,
                                     .a_mode = 1, .b_mode = 1,
                                     .keep = true});
}

static void every_k_major_layout(void **state)
{
    (void)state;
    for (unsigned m = 0; m < 16; m++)
        run_case(&(struct shape){.a = BF16, .b = BF16, .d = "f32", .n = 64,
                                 .a_mode = m / 4, .b_mode = m % 4});
}

static void every_mn_major_layout(void **state)
{
    (void)state;
    for (unsigned m = 0; m < 4; m++)
        for (unsigned which = 1; which < 4; which++)
            run_case(&(struct shape){.a = F16, .b = F16, .d = "f32",
                                     .n = 192, .a_mode = m, .b_mode = m,
                                     .a_mn = which & 1, .b_mn = which >> 1,
                                     .keep = true});
}

static void mn_major_b_with_registers(void **state)
{
    (void)state;
    run_case(&(struct shape){.a = BF16, .b = BF16, .d = "f32", .n = 256,
                             .a_regs = true, .b_mode = 1, .b_mn = true,
                             .keep = true});
}

static void steps_within_a_swizzled_row(void **state)
{
    (void)state;
    for (unsigned step = 0; step < 4; step++)
        run_case(&(struct shape){.a = BF16, .b = BF16, .d = "f32", .n = 16,
                                 .a_mode = 1, .b_mode = 1, .step = step});
    for (unsigned step = 0; step < 4; step++)
        run_case(&(struct shape){.a = S8, .b = S8, .d = "s32", .n = 32,
                                 .a_mode = 1, .b_mode = 1, .step = step});
}

static void negated_factor(void **state)
{
    (void)state;
    run_case(&(struct shape){.a = BF16, .b = BF16, .d = "f32", .n = 24,
                             .a_mode = 1, .b_mode = 1, .scale = -1,
                             .keep = true});
}

/* ---- rounding ----------------------------------------------------------- */

/* D[0][0] of C + sum of a[0][k] b[0][k], all else 0. */
static float one_sum(enum kind k, float start, const uint32_t *x,
                     const uint32_t *y, unsigned n)
{
    static struct ptx_text t;
    struct shape s = {.a = k, .b = k, .d = "f32", .n = 8, .a_mode = 1,
                      .b_mode = 1, .keep = true};
    struct hopper h = {.in = &in, .nin = sizeof in, .out = out,
                       .nout = sizeof out};
    struct layout la = layout_of(1, false, 0, 0);
    struct layout lb = layout_of(1, false, B_AT, 0);
    float d;
    memset(&in, 0, sizeof in);
    for (unsigned i = 0; i < n; i++) {
        put(place(&la, 0, i, kind_bytes[k]), x[i], kind_bytes[k]);
        put(place(&lb, 0, i, kind_bytes[k]), y[i], kind_bytes[k]);
    }
    in.a = descriptor(&la);
    in.b = descriptor(&lb);
    in.d[0][0] = float_bits(start);
    kernel_of(&t, &s);
    hopper_ok(&h, t.s);
    memcpy(&d, &out[0][0], sizeof d);
    return d;
}

/* F = 25 fraction bits below the largest exponent, cut; then cut to fp32
 * (Li et al., MMA-Sim): 2^-24 twice makes an ulp of 1, 2^-26 sixteen times
 * makes nothing. */
static void bf16_sums_keep_25_bits(void **state)
{
    uint32_t one[16], small[16];
    (void)state;
    for (int i = 0; i < 16; i++) {
        one[i] = encode(BF16, 1);
        small[i] = float_bits(0x1p-24f) >> 16;
    }
    assert_true(one_sum(BF16, 1, one, small, 1) == 1.0f);
    assert_true(one_sum(BF16, 1, one, small, 2) == 1.0f + 0x1p-23f);
    for (int i = 0; i < 16; i++)
        small[i] = float_bits(0x1p-26f) >> 16;
    assert_true(one_sum(BF16, 1, one, small, 16) == 1.0f);
}

/* F = 13, result e8m13: 2^-13 survives beside 1, 2^-14 does not, not even
 * thirty-two times. */
static void fp8_sums_keep_13_bits(void **state)
{
    uint32_t x[32], y[32];
    (void)state;
    for (int i = 0; i < 32; i++) {
        x[i] = 1 << 3;          /* e4m3 2^-6 */
        y[i] = 1 << 3 | 6 << 3; /* e4m3 2^0 */
    }
    x[0] = 1 << 3;              /* 2^-6 ... */
    y[0] = 1;                   /* ... times 2^-9: 2^-15 */
    y[1] = 4;                   /* 2^-6 times 2^-7: 2^-13 */
    assert_true(one_sum(E4M3, 1, x, y, 1) == 1.0f);
    assert_true(one_sum(E4M3, 1, x, y, 2) == 1.0f + 0x1p-13f);
    for (int i = 0; i < 32; i++)
        y[i] = 2;               /* 2^-6 times 2^-8: 2^-14 */
    assert_true(one_sum(E4M3, 1, x, y, 32) == 1.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, gpu_begin, gpu_end)
        TEST(every_n),
        TEST(every_type),
        TEST(every_k_major_layout),
        TEST(every_mn_major_layout),
        TEST(mn_major_b_with_registers),
        TEST(steps_within_a_swizzled_row),
        TEST(negated_factor),
        TEST(bf16_sums_keep_25_bits),
        TEST(fp8_sums_keep_13_bits),
    };
    if (gpu_begin(NULL) || gpu_end(NULL))
        return 1;
    if (hopper_absent())
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
