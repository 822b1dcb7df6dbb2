/* SPDX-License-Identifier: Apache-2.0
 *
 * test_isa_mma.c: mma.sync (PTX ISA 9.7.14.5), every shape and type.
 *
 * Matrices are made in C, laid into fragments by the ISA's rule, multiplied
 * by the instruction, and compared with a plain triple loop:
 *   exactly, on small integers, where no order of summation and no internal
 *   width of a tensor core can make a difference, and
 *   within the instruction's precision, on random fractions.
 *
 * The rule of all shapes, with g = lane / 4, q = lane % 4, and e elements of
 * consecutive k in a register (two of 16 bits, four of 8, ...):
 *   A  register r, element i: row g + 8 (r % 2), k = e q + i + 4 e (r / 2)
 *   B  register r, element i: k = e q + i + 4 e r, column g
 *   C  32 or 64 bits: row g + 8 (r / 2), column 2 q + r % 2
 *      .f16, two in a register: row g + 8 r, column 2 q + i
 * With m = 8 there is no row g + 8, so all registers of A are r / 2 = r.
 */
#include "gpu.h"

#include <math.h>

enum type { F16, BF16, TF32, E4M3, E5M2, F32, F64, S8, U8, S4, U4, B1, S32 };
static const struct {
    const char *name;
    int bits, most; /* integers up to `most` are exact in the test */
} types[] = {
    [F16] = {"f16", 16, 4},       [BF16] = {"bf16", 16, 4},
    [TF32] = {"tf32", 32, 4},     [E4M3] = {"e4m3", 8, 4},
    [E5M2] = {"e5m2", 8, 4},      [F32] = {"f32", 32, 50},
    [F64] = {"f64", 64, 50},      [S8] = {"s8", 8, 127},
    [U8] = {"u8", 8, 255},        [S4] = {"s4", 4, 7},
    [U4] = {"u4", 4, 15},         [B1] = {"b1", 1, 1},
    [S32] = {"s32", 32, 1000000},
};

struct kind {
    int m, k;
    enum type d, a, b;
    int arch;
    const char *option, *suffix; /* ".satfinite", ".xor.popc" */
};

/* --- numbers ------------------------------------------------------------- */

/* The code of v in a small float format with that many fraction bits, bias
 * and width; v is exactly representable or is rounded to nearest. */
static uint32_t encode(double v, int fraction, int bias, int width)
{
    int e;
    double m = frexp(fabs(v), &e); /* |v| = m 2^e, m in [0.5, 1) */
    uint32_t sign = signbit(v) ? 1u << (width - 1) : 0;
    if (v == 0)
        return sign;
    int exponent = e - 1 + bias;
    if (exponent < 1)
        return sign | (uint32_t)lrint(ldexp(fabs(v), bias - 1 + fraction));
    uint32_t f = (uint32_t)lrint(ldexp(2 * m - 1, fraction));
    return sign | (((uint32_t)exponent << fraction) + f);
}

static double decode(uint32_t bits, int fraction, int bias, int width)
{
    uint32_t f = bits & ((1u << fraction) - 1);
    int e = (int)(bits >> fraction & ((1u << (width - 1 - fraction)) - 1));
    double v = e ? ldexp(f + (1u << fraction), e - bias - fraction)
                 : ldexp(f, 1 - bias - fraction);
    return bits >> (width - 1) & 1 ? -v : v;
}

static uint64_t to_bits(enum type t, double v)
{
    uint64_t u = 0;
    float f = (float)v;
    switch (t) {
    case F16:
        return encode(v, 10, 15, 16);
    case BF16:
        return encode(v, 7, 127, 16);
    case TF32:
        return (uint64_t)encode(v, 10, 127, 19) << 13;
    case E4M3:
        return encode(v, 3, 7, 8);
    case E5M2:
        return encode(v, 2, 15, 8);
    case F32:
        memcpy(&u, &f, 4);
        return u;
    case F64:
        memcpy(&u, &v, 8);
        return u;
    default:
        return (uint64_t)(int64_t)v;
    }
}

static double from_bits(enum type t, uint64_t u)
{
    float f;
    double d;
    switch (t) {
    case F16:
        return decode((uint32_t)u, 10, 15, 16);
    case BF16:
        return decode((uint32_t)u, 7, 127, 16);
    case TF32:
        return decode((uint32_t)(u >> 13), 10, 127, 19);
    case E4M3:
        return decode((uint32_t)u, 3, 7, 8);
    case E5M2:
        return decode((uint32_t)u, 2, 15, 8);
    case F32:
        memcpy(&f, &u, 4);
        return f;
    case F64:
        memcpy(&d, &u, 8);
        return d;
    case S32:
        return (int32_t)u;
    case S8:
        return (int8_t)u;
    case S4:
        return (int)((u & 15) ^ 8) - 8;
    default:
        return (double)(u & ((UINT64_C(1) << types[t].bits) - 1));
    }
}

static bool is_float(enum type t)
{
    return t <= F64;
}

/* --- one product --------------------------------------------------------- */

enum { WARPS = 4, REGS = 8 };
static double A[WARPS][16][256], B[WARPS][256][8], C[WARPS][16][8];
static uint64_t in[WARPS * 32][3][REGS], out[WARPS * 32][REGS];

static uint64_t random64(void)
{
    static uint64_t s = 88172645463325252u;
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return s;
}

/* A small integer of the type, or (fine) a fraction rounded to it. */
static double number(enum type t, bool fine)
{
    int most = types[t].most;
    bool has_sign = is_float(t) || t == S8 || t == S4 || t == S32;
    double v = has_sign
                   ? (double)(random64() % (2 * (unsigned)most + 1)) - most
                   : (double)(random64() % ((unsigned)most + 1));
    if (fine && is_float(t))
        v = ldexp((double)(int64_t)random64(), -62);
    return from_bits(t, to_bits(t, v));
}

static void make_matrices(const struct kind *s, bool fine)
{
    for (int w = 0; w < WARPS; w++) {
        for (int k = 0; k < s->k; k++) {
            for (int i = 0; i < s->m; i++)
                A[w][i][k] = number(s->a, fine);
            for (int j = 0; j < 8; j++)
                B[w][k][j] = number(s->b, fine);
        }
        for (int i = 0; i < s->m; i++)
            for (int j = 0; j < 8; j++)
                C[w][i][j] = number(s->d, fine);
    }
}

static int elements(enum type t)
{
    return types[t].bits >= 32 ? 1 : 32 / types[t].bits;
}

/* Registers a lane holds of A, B, C. */
static void register_counts(const struct kind *s, int n[3])
{
    n[0] = s->m * s->k / 32 / elements(s->a);
    n[1] = 8 * s->k / 32 / elements(s->b);
    n[2] = s->m * 8 / 32 / (s->d == F16 ? 2 : 1);
}

static void add_bits(uint64_t *reg, enum type t, int i, double v)
{
    int bits = types[t].bits;
    uint64_t u = to_bits(t, v);
    if (bits < 64)
        u &= (UINT64_C(1) << bits) - 1;
    *reg |= u << (bits * i);
}

/* Where element i of register r of C lies. */
static void place_c(const struct kind *s, int lane, int r, int i, int *row,
                    int *col)
{
    bool packed = s->d == F16;
    *row = lane / 4 + 8 * (packed ? r : r / 2);
    *col = lane % 4 * 2 + (packed ? i : r % 2);
}

static void fill_fragments(const struct kind *s)
{
    int n[3], ea = elements(s->a), eb = elements(s->b);
    register_counts(s, n);
    memset(in, 0, sizeof in);
    for (int t = 0; t < WARPS * 32; t++) {
        int w = t / 32, lane = t % 32, g = lane / 4, q = lane % 4;
        for (int r = 0; r < n[0]; r++) {
            int half = s->m == 16 ? r % 2 : 0, step = s->m == 16 ? r / 2 : r;
            for (int i = 0; i < ea; i++)
                add_bits(&in[t][0][r], s->a, i,
                         A[w][g + 8 * half][ea * q + i + 4 * ea * step]);
        }
        for (int r = 0; r < n[1]; r++)
            for (int i = 0; i < eb; i++)
                add_bits(&in[t][1][r], s->b, i,
                         B[w][eb * q + i + 4 * eb * r][g]);
        for (int r = 0; r < n[2]; r++) {
            for (int i = 0; i < (s->d == F16 ? 2 : 1); i++) {
                int row, col;
                place_c(s, lane, r, i, &row, &col);
                add_bits(&in[t][2][r], s->d, i, C[w][row][col]);
            }
        }
    }
}

static int list(char *to, size_t room, char name, int n)
{
    int k = snprintf(to, room, "{%c0", name);
    for (int i = 1; i < n; i++)
        k += snprintf(to + k, room - (size_t)k, ", %c%d", name, i);
    return k + snprintf(to + k, room - (size_t)k, "}");
}

static void name_of(const struct kind *s, char *to, size_t room)
{
    const char *d = types[s->d].name;
    snprintf(to, room, "mma.sync.aligned.m%dn8k%d.row.col%s.%s.%s.%s.%s%s",
             s->m, s->k, s->option ? s->option : "", d, types[s->a].name,
             types[s->b].name, d, s->suffix ? s->suffix : "");
}

static void run(const struct kind *s)
{
    char ptx[6000], name[100];
    int n[3], bits = s->d == F64 ? 64 : 32, len;
    struct gpu_grid g = {{1, 1, 1}, {WARPS * 32, 1, 1}, 0};
    register_counts(s, n);
    name_of(s, name, sizeof name);
    len = snprintf(ptx, sizeof ptx,
                   ".version 8.8\n.target sm_%d\n"
                   ".address_size 64\n%s.reg .b%d a<8>, b<8>, c<8>, d<8>;\n"
                   ".reg .b64 w; mul.wide.u32 w, %%r0, %d; add.u64 in, in, w;"
                   "\n",
                   s->arch, GPU_KERNEL(64), bits, 3 * REGS * 8);
    for (int m = 0; m < 3; m++)
        for (int r = 0; r < n[m]; r++)
            len += snprintf(ptx + len, sizeof ptx - (size_t)len,
                            "ld.global.b%d %c%d, [in+%d];\n", bits, 'a' + m, r,
                            8 * (REGS * m + r));
    len += snprintf(ptx + len, sizeof ptx - (size_t)len, "%s ", name);
    for (int m = 0; m < 4; m++) {
        len += list(ptx + len, sizeof ptx - (size_t)len, "dabc"[m],
                    n[m ? m - 1 : 2]);
        len += snprintf(ptx + len, sizeof ptx - (size_t)len,
                        m < 3 ? ", " : ";\n");
    }
    for (int r = 0; r < n[2]; r++)
        len += snprintf(ptx + len, sizeof ptx - (size_t)len,
                        "st.global.b%d [out+%d], d%d;\n", bits, 8 * r, r);
    snprintf(ptx + len, sizeof ptx - (size_t)len, "ret; }");
    memset(out, 0, sizeof out);
    gpu_ok(gpu_run(ptx, &g, in, sizeof in, out, sizeof out));
}

/* --- comparison ---------------------------------------------------------- */

/* The sum that the instruction forms, and the sum of magnitudes. */
static double product(const struct kind *s, int w, int row, int col,
                      double *size)
{
    double sum = C[w][row][col];
    *size = fabs(sum);
    for (int k = 0; k < s->k; k++) {
        int a = (int)A[w][row][k], b = (int)B[w][k][col];
        double p = A[w][row][k] * B[w][k][col];
        if (s->a == B1)
            p = s->suffix[1] == 'x' ? a ^ b : a & b;
        sum += p;
        *size += fabs(p);
    }
    return sum;
}

/* Integers wrap, or with .satfinite clamp, at 32 bits. */
static double finish(const struct kind *s, double sum)
{
    if (s->d != S32)
        return sum;
    if (s->option)
        return sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return (int32_t)(uint32_t)(int64_t)sum;
}

static void check(const struct kind *s, double precision)
{
    int n[3];
    char name[100];
    name_of(s, name, sizeof name);
    register_counts(s, n);
    for (int t = 0; t < WARPS * 32; t++) {
        for (int r = 0; r < n[2]; r++) {
            for (int i = 0; i < (s->d == F16 ? 2 : 1); i++) {
                int row, col;
                double size;
                place_c(s, t % 32, r, i, &row, &col);
                double want = finish(s, product(s, t / 32, row, col, &size));
                uint64_t bits = out[t][r] >> 16 * i;
                double got =
                    from_bits(s->d, s->d == F16 ? bits & 0xffff : bits);
                if (!(fabs(got - want) <= precision * size))
                    fail_msg("%s: D[%d][%d] is %.9g, expected %.9g", name, row,
                             col, got, want);
            }
        }
    }
}

#define FP8(m, k, d, arch)                                                    \
    {m, k, d, E4M3, E4M3, arch, NULL, NULL},                                  \
        {m, k, d, E4M3, E5M2, arch, NULL, NULL},                              \
        {m, k, d, E5M2, E4M3, arch, NULL, NULL},                              \
    {                                                                         \
        m, k, d, E5M2, E5M2, arch, NULL, NULL                                 \
    }
#define INTEGER(m, k, s, u)                                                   \
    {m, k, S32, s, s, 80, NULL, NULL}, {m, k, S32, s, u, 80, NULL, NULL},     \
        {m, k, S32, u, s, 80, NULL, NULL}, {m, k, S32, u, u, 80, NULL, NULL}, \
        {m, k, S32, s, s, 80, ".satfinite", NULL},                            \
    {                                                                         \
        m, k, S32, u, u, 80, ".satfinite", NULL                               \
    }
#define BITS(m, k)                                                            \
    {m, k, S32, B1, B1, 80, NULL, ".xor.popc"},                               \
    {                                                                         \
        m, k, S32, B1, B1, 80, NULL, ".and.popc"                              \
    }
static const struct kind kinds[] = {
    {16, 8, F32, F16, F16, 80, NULL, NULL},
    {16, 8, F16, F16, F16, 80, NULL, NULL},
    {16, 8, F32, BF16, BF16, 80, NULL, NULL},
    {16, 16, F32, F16, F16, 80, NULL, NULL},
    {16, 16, F16, F16, F16, 80, NULL, NULL},
    {16, 16, F32, BF16, BF16, 80, NULL, NULL},
    {16, 4, F32, TF32, TF32, 80, NULL, NULL},
    {16, 8, F32, TF32, TF32, 80, NULL, NULL},
    FP8(16, 16, F32, 89),
    FP8(16, 16, F16, 89),
    FP8(16, 32, F32, 89),
    FP8(16, 32, F16, 89),
    INTEGER(8, 16, S8, U8),
    INTEGER(16, 16, S8, U8),
    INTEGER(16, 32, S8, U8),
    INTEGER(8, 32, S4, U4),
    INTEGER(16, 32, S4, U4),
    INTEGER(16, 64, S4, U4),
    BITS(8, 128),
    BITS(16, 128),
    BITS(16, 256),
    {8, 4, F64, F64, F64, 80, NULL, NULL},
    {16, 4, F64, F64, F64, 90, NULL, NULL},
    {16, 8, F64, F64, F64, 90, NULL, NULL},
    {16, 16, F64, F64, F64, 90, NULL, NULL},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void integers_are_exact(void **state)
{
    const struct kind *s = *state;
    for (int round = 0; round < 3; round++) {
        make_matrices(s, false);
        fill_fragments(s);
        run(s);
        check(s, 0);
    }
}

/* 2^-10: the narrowest result, .f16, and the narrowest sum that a tensor core
 * is known to form (13 fraction bits), on a sum of at most 32 products. */
static void fractions_are_near(void **state)
{
    const struct kind *s = *state;
    make_matrices(s, true);
    fill_fragments(s);
    gpu_loose();
    run(s);
    check(s, s->d == F64                                   ? 0x1p-48
             : s->d == F16 || s->a == E4M3 || s->a == E5M2 ? 0x1p-10
                                                           : 0x1p-20);
}

/* Near the ends of 32 bits: wrap without .satfinite, clamp with it. */
static void sums_end_as_the_option_says(void **state)
{
    const struct kind *s = *state;
    make_matrices(s, false);
    for (int w = 0; w < WARPS; w++)
        for (int i = 0; i < s->m; i++)
            for (int j = 0; j < 8; j++)
                C[w][i][j] = (i + j) % 2 ? INT32_MAX - j : INT32_MIN + i;
    fill_fragments(s);
    run(s);
    check(s, 0);
}

/* Infinities and NaNs of A go to their row of D and to no other. */
static void infinities_and_nans_stay_in_their_row(void **state)
{
    static const struct kind s = {16, 16, F32, F16, F16, 80, NULL, NULL};
    (void)state;
    make_matrices(&s, false);
    for (int k = 0; k < 16; k++)
        for (int j = 0; j < 8; j++)
            B[0][k][j] = 1;
    fill_fragments(&s);
    /* Lane 4 g holds A[g][0] in the low half of register 0. */
    in[4 * 3][0][0] = (in[4 * 3][0][0] & 0xffff0000) | 0x7c00;
    in[4 * 5][0][0] = (in[4 * 5][0][0] & 0xffff0000) | 0x7e00;
    run(&s);
    for (int t = 0; t < 32; t++) {
        for (int r = 0; r < 4; r++) {
            int row, col;
            place_c(&s, t, r, 0, &row, &col);
            double d = from_bits(F32, out[t][r]);
            if (row == 3)
                assert_true(isinf(d) && d > 0);
            else if (row == 5)
                assert_true(isnan(d));
            else
                assert_true(isfinite(d));
        }
    }
}

int main(void)
{
    static struct CMUnitTest tests[3 * KINDS + 1];
    static char name[3 * KINDS][140];
    size_t n = 0;
    if (gpu_begin(NULL) || gpu_end(NULL))
        return 1;
    for (int i = 0; i < KINDS; i++) {
        char op[100];
        if (kinds[i].arch > gpu.arch)
            continue;
        name_of(&kinds[i], op, sizeof op);
        static const struct {
            const char *what;
            CMUnitTestFunction fn;
        } part[] = {{"exact", integers_are_exact},
                    {"near", fractions_are_near},
                    {"ends", sums_end_as_the_option_says}};
        for (int k = 0; k < 3; k++) {
            bool is_int = kinds[i].d == S32;
            if ((k == 1 && is_int) ||
                (k == 2 && (!is_int || kinds[i].a == B1)))
                continue;
            snprintf(name[n], sizeof name[n], "%s %s", op, part[k].what);
            tests[n] = (struct CMUnitTest){name[n], part[k].fn, gpu_begin,
                                           gpu_end, (void *)&kinds[i]};
            n++;
        }
    }
    tests[n++] = (struct CMUnitTest)cmocka_unit_test_setup_teardown(
        infinities_and_nans_stay_in_their_row, gpu_begin, gpu_end);
    return _cmocka_run_group_tests("isa_mma", tests, n, NULL, NULL);
}
