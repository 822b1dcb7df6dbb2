/* SPDX-License-Identifier: Apache-2.0
 *
 * mma.sync: where elements lie (the ISA's formulas, case by case), what is
 * computed (an independent exact reference in integers), and the instruction.
 */
#include "kernel.h"
#include "mma.h"

#include <math.h>

typedef unsigned __int128 u128;

static uint64_t rng = 1;

static uint64_t rnd(void)
{
    uint64_t z = rng += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* ---- element types ------------------------------------------------------ */

static const struct format {
    unsigned bits, exp, man;
    int bias;
    bool has_inf;
} formats[] = {
    [VG_ELEM_F16] = {16, 5, 10, 15, true},
    [VG_ELEM_BF16] = {16, 8, 7, 127, true},
    [VG_ELEM_TF32] = {32, 8, 10, 127, true},
    [VG_ELEM_E4M3] = {8, 4, 3, 7, false},
    [VG_ELEM_E5M2] = {8, 5, 2, 15, true},
    [VG_ELEM_F32] = {32, 8, 23, 127, true},
};

static bool is_float(enum vg_elem e)
{
    return e <= VG_ELEM_F32;
}

static unsigned bits_of(enum vg_elem e)
{
    if (is_float(e))
        return formats[e].bits;
    return e == VG_ELEM_S8 || e == VG_ELEM_U8   ? 8
           : e == VG_ELEM_S4 || e == VG_ELEM_U4 ? 4
           : e == VG_ELEM_B1                    ? 1
           : e == VG_ELEM_F64                   ? 64
                                                : 32;
}

/* A small integer as an element. */
static uint64_t encode(int v, enum vg_elem e)
{
    const struct format *f = &formats[is_float(e) ? e : VG_ELEM_F32];
    unsigned mag = (unsigned)abs(v), top = 31;
    uint64_t bits;
    double d = v;

    if (e == VG_ELEM_F64) {
        memcpy(&bits, &d, sizeof bits);
        return bits;
    }
    if (!is_float(e))
        return (uint64_t)(int64_t)v & ((UINT64_C(1) << bits_of(e)) - 1);
    if (!v)
        return 0;
    while (!(mag >> top))
        top--;
    bits = (uint64_t)((int)top + f->bias) << f->man;
    bits |= ((uint64_t)mag << f->man >> top) & ((1u << f->man) - 1);
    bits <<= e == VG_ELEM_TF32 ? 13 : 0;
    return bits | (uint64_t)(v < 0) << (f->bits - 1);
}

/* ---- layouts, as ISA 9.7.14.5 states them ------------------------------- */

/* Row and k of A's element i. */
static void place_a(const struct vg_mma_kind *k, unsigned lane, unsigned i,
                    unsigned *row, unsigned *col)
{
    unsigned g = lane >> 2, q = lane % 4, bits = bits_of(k->a);

    *row = g;
    switch (bits) {
    case 16:                            /* m16n8k8, m16n8k16 */
        *row = i < 2 || (i >= 4 && i < 6) ? g : g + 8;
        *col = q * 2 + (i & 1) + (i >= 4 ? 8 : 0);
        break;
    case 32:                            /* m16n8k4, m16n8k8 tf32 */
        *row = i % 2 == 0 ? g : g + 8;
        *col = i < 2 ? q : q + 4;
        break;
    case 64:                            /* f64 */
        *row = i % 2 == 0 ? g : g + 8;
        *col = i / 2 * 4 + q;
        break;
    case 8:                             /* m8n8k16, m16n8k16, m16n8k32 */
        *row = i < 4 || (i >= 8 && i < 12) ? g : g + 8;
        *col = q * 4 + (i & 3) + (i >= 8 ? 16 : 0);
        break;
    case 4:                             /* m8n8k32, m16n8k32, m16n8k64 */
        *row = i < 8 || (i >= 16 && i < 24) ? g : g + 8;
        *col = q * 8 + (i & 7) + (i >= 16 ? 32 : 0);
        break;
    default:                            /* b1: k128, k256 */
        *row = i < 32 || (i >= 64 && i < 96) ? g : g + 8;
        *col = q * 32 + (i & 31) + (i >= 64 ? 128 : 0);
    }
}

/* k and column of B's element i. */
static void place_b(const struct vg_mma_kind *k, unsigned lane, unsigned i,
                    unsigned *row, unsigned *col)
{
    unsigned g = lane >> 2, q = lane % 4, bits = bits_of(k->b);

    *col = g;
    switch (bits) {
    case 16:
        *row = q * 2 + (i & 1) + (i >= 2 ? 8 : 0);
        break;
    case 32:
    case 64:
        *row = q + 4 * i;
        break;
    case 8:
        *row = q * 4 + (i & 3) + (i >= 4 ? 16 : 0);
        break;
    case 4:
        *row = q * 8 + (i & 7) + (i >= 8 ? 32 : 0);
        break;
    default:
        *row = q * 32 + (i & 31) + (i >= 32 ? 128 : 0);
    }
}

static void place_c(unsigned lane, unsigned i, unsigned *row, unsigned *col)
{
    *row = i < 2 ? lane >> 2 : (lane >> 2) + 8;
    *col = lane % 4 * 2 + (i & 1);
}

/* ---- registers of a warp ------------------------------------------------ */

struct regs {
    uint64_t v[8][32];      /* f64 */
    uint32_t w[8][32];
    const void *in[8];
    void *out[8];
};

static void point(struct regs *r, bool wide)
{
    for (unsigned i = 0; i < 8; i++)
        r->in[i] = r->out[i] = wide ? (void *)r->v[i] : (void *)r->w[i];
}

/* Puts element i of a lane into its register. */
static void put(struct regs *r, unsigned bits, unsigned lane, unsigned i,
                uint64_t v)
{
    unsigned parts = bits < 32 ? 32 / bits : 1, at = i % parts * bits;

    if (bits == 64) {
        r->v[i][lane] = v;
        return;
    }
    if (at == 0)
        r->w[i / parts][lane] = 0;
    r->w[i / parts][lane] |= (uint32_t)v << at;
}

static uint64_t get(const struct regs *r, unsigned bits, unsigned lane,
                    unsigned i)
{
    unsigned parts = bits < 32 ? 32 / bits : 1;

    if (bits == 64)
        return r->v[i][lane];
    return r->w[i / parts][lane] >> i % parts * bits &
           (bits == 32 ? 0xffffffffu : (1u << bits) - 1);
}

struct matrices {
    uint64_t a[16][256], b[256][8], c[16][8], d[16][8]; /* bits */
    struct regs ra, rb, rc, rd;
};

static unsigned elements(unsigned nreg, unsigned bits)
{
    return bits < 32 ? nreg * 32 / bits : nreg;
}

static void load(const struct vg_mma_kind *k, struct matrices *m)
{
    unsigned ba = bits_of(k->a), bb = bits_of(k->b), bc = bits_of(k->c);
    unsigned row, col;

    point(&m->ra, ba == 64);
    point(&m->rb, bb == 64);
    point(&m->rc, bc == 64);
    point(&m->rd, bc == 64);
    for (unsigned l = 0; l < 32; l++) {
        for (unsigned i = 0; i < elements(k->nreg[0], ba); i++) {
            place_a(k, l, i, &row, &col);
            put(&m->ra, ba, l, i, m->a[row][col]);
        }
        for (unsigned i = 0; i < elements(k->nreg[1], bb); i++) {
            place_b(k, l, i, &row, &col);
            put(&m->rb, bb, l, i, m->b[row][col]);
        }
        for (unsigned i = 0; i < elements(k->nreg[2], bc); i++) {
            place_c(l, i, &row, &col);
            put(&m->rc, bc, l, i, m->c[row][col]);
        }
    }
}

static void run(const struct vg_mma_kind *k, unsigned arch, unsigned flags,
                struct matrices *m)
{
    unsigned bc = bits_of(k->c), row, col;

    load(k, m);
    vg_mma_run(k, arch, flags, m->ra.in, m->rb.in, m->rc.in, m->rd.out);
    for (unsigned l = 0; l < 32; l++)
        for (unsigned i = 0; i < elements(k->nreg[2], bc); i++) {
            place_c(l, i, &row, &col);
            m->d[row][col] = get(&m->rd, bc, l, i);
        }
}

/* ---- layouts: exact small integers -------------------------------------- */

static int small(enum vg_elem e)
{
    switch (e) {
    case VG_ELEM_U8:
        return (int)(rnd() % 256);
    case VG_ELEM_S8:
        return (int)(rnd() % 256) - 128;
    case VG_ELEM_U4:
        return (int)(rnd() % 16);
    case VG_ELEM_S4:
        return (int)(rnd() % 16) - 8;
    case VG_ELEM_B1:
        return (int)(rnd() & 1);
    default:
        return (int)(rnd() % 9) - 4;
    }
}

static void check_layout(const struct vg_mma_kind *k, unsigned flags)
{
    static struct matrices m;
    int a[16][256], b[256][8], c[16][8];

    for (unsigned r = 0; r < k->m; r++)
        for (unsigned i = 0; i < k->k; i++)
            m.a[r][i] = encode(a[r][i] = small(k->a), k->a);
    for (unsigned i = 0; i < k->k; i++)
        for (unsigned n = 0; n < 8; n++)
            m.b[i][n] = encode(b[i][n] = small(k->b), k->b);
    for (unsigned r = 0; r < k->m; r++)
        for (unsigned n = 0; n < 8; n++)
            m.c[r][n] = encode(c[r][n] = (int)(rnd() % 9) - 4, k->c);
    run(k, 90, flags, &m);
    for (unsigned r = 0; r < k->m; r++)
        for (unsigned n = 0; n < 8; n++) {
            int sum = c[r][n];

            for (unsigned i = 0; i < k->k; i++)
                sum += k->a != VG_ELEM_B1   ? a[r][i] * b[i][n]
                       : flags & VG_MMA_AND ? (a[r][i] & b[i][n])
                                            : (a[r][i] ^ b[i][n]);
            if (m.d[r][n] != encode(sum, k->c))
                fail_msg("%s row %u column %u: %llx, want %d", k->name, r, n,
                         (unsigned long long)m.d[r][n], sum);
        }
}

static void elements_lie_where_the_isa_says(void **state)
{
    (void)state;
    for (unsigned i = 0; vg_mma_kind(i); i++) {
        check_layout(vg_mma_kind(i), 0);
        if (vg_mma_kind(i)->a == VG_ELEM_B1)
            check_layout(vg_mma_kind(i), VG_MMA_AND);
    }
}

static void integers_wrap_or_saturate(void **state)
{
    const struct vg_mma_kind *k =
        vg_mma_kind((unsigned)vg_mma_find("m16n8k32.s32.u8.s8.s32"));
    static struct matrices m;

    (void)state;
    for (unsigned i = 0; i < 32; i++) {
        m.a[3][i] = 255;
        m.b[i][2] = 127;
        m.a[4][i] = 255;
        m.b[i][5] = 0x80;
    }
    m.c[3][2] = 0x7fffff00;
    m.c[4][5] = 0x80000100u;
    run(k, 80, 0, &m);
    assert_int_equal(m.d[3][2], (uint32_t)(0x7fffff00u + 255 * 127 * 32));
    assert_int_equal(m.d[4][5], (uint32_t)(0x80000100u - 255 * 128 * 32));
    run(k, 80, VG_MMA_SATFINITE, &m);
    assert_int_equal(m.d[3][2], 0x7fffffff);
    assert_int_equal(m.d[4][5], 0x80000000u);
}

/* ---- the floating-point model, in integers ------------------------------ */

/* value = (-1)^neg sig 2^(exp - frac) */
struct number {
    bool neg, nan, inf;
    uint64_t sig;
    int exp, frac;
};

static struct number decode(uint64_t bits, enum vg_elem e)
{
    const struct format *f = &formats[e];
    struct number n = {.frac = (int)f->man};
    uint64_t field, man;

    if (e == VG_ELEM_TF32)
        bits = (bits & 0xffffffff) >> 13;
    man = bits & ((UINT64_C(1) << f->man) - 1);
    field = bits >> f->man & ((1u << f->exp) - 1);
    n.neg = bits >> (f->man + f->exp) & 1;
    if (f->has_inf && field == (1u << f->exp) - 1) {
        n.nan = man != 0;
        n.inf = man == 0;
    }
    if (!f->has_inf && (bits & 0x7f) == 0x7f)
        n.nan = true;
    n.exp = (int)(field ? field : 1) - f->bias;
    n.sig = man | (field ? UINT64_C(1) << f->man : 0);
    if (!n.sig)
        n.exp = -126;
    return n;
}

/* sig 2^(F - frac) shifted right by `shift`, cut. */
static int64_t aligned(const struct number *n, unsigned fraction, int shift)
{
    int right = shift + n->frac - (int)fraction;
    u128 x = n->sig;

    if (right >= 100)
        x = 0;
    else if (right >= 0)
        x >>= right;
    else
        x <<= -right;
    return n->neg ? -(int64_t)x : (int64_t)x;
}

/* sum 2^exp to fp32, keeping `keep` fraction bits, toward zero; or to f16 to
 * nearest even.  Returns bits. */
static uint64_t rounded(int64_t sum, int exp, bool f16, int keep)
{
    uint64_t mag = (uint64_t)(sum < 0 ? -sum : sum), sign = sum < 0, r;
    int least = f16 ? -14 : -126, top = 63, quantum, drop;

    if (!mag)
        return 0;
    while (!(mag >> top))
        top--;
    quantum = (top + exp < least ? least : top + exp) - keep;
    drop = quantum - exp;
    if (drop > 62)
        r = 0;
    else if (drop <= 0)
        r = mag << -drop;
    else {
        r = mag >> drop;
        if (f16) {
            uint64_t rest = mag & ((UINT64_C(1) << drop) - 1);
            uint64_t half = UINT64_C(1) << (drop - 1);

            r += rest > half || (rest == half && (r & 1));
        }
    }
    if (!r)
        return 0;
    if (f16) {
        double v = ldexp((double)r, quantum);
        int e = r >> 11 ? quantum + 11 : r >> 10 ? quantum + 10 : -15;

        if (v >= 65536)
            return sign << 15 | 0x7c00;
        if (e < -14)
            return sign << 15 | r;
        return sign << 15 | (uint64_t)(e + 15) << 10 |
               ((uint64_t)ldexp(v, 10 - e) & 0x3ff);
    } else {
        float v = ldexpf((float)r, quantum);
        uint32_t bits;

        memcpy(&bits, &v, sizeof bits);
        return bits | sign << 31;
    }
}

struct model {
    unsigned fraction, step;
    int keep;
};

/* The table of mma.h, typed in again. */
static struct model model_of(const struct vg_mma_kind *k, unsigned arch)
{
    bool fp8 = bits_of(k->a) == 8;
    bool halved = !strncmp(k->name, "m16n8k16.f32.f16", 16) ||
                  !strncmp(k->name, "m16n8k16.f16.f16", 16) ||
                  !strncmp(k->name, "m16n8k16.f32.bf16", 17) ||
                  !strncmp(k->name, "m16n8k8.f32.tf32", 16) ||
                  (fp8 && k->k == 32);
    struct model m = {25, k->k, k->c == VG_ELEM_F16 ? 10 : 23};

    if (arch < 90) {
        m.fraction = 24;
        m.step = halved ? k->k / 2 : k->k;
    }
    if (arch == 89 && fp8) {
        m.fraction = 13;
        if (k->c == VG_ELEM_F32)
            m.keep = 13;
    }
    return m;
}

/* One step of one element. */
static uint64_t step(const struct vg_mma_kind *k, const struct model *m,
                     const struct number *a, const struct number *b,
                     uint64_t c_bits)
{
    struct number c = decode(c_bits, k->c), p[32];
    bool f16 = k->c == VG_ELEM_F16, nan = c.nan, plus, minus;
    int most = c.exp;
    int64_t sum;

    plus = c.inf && !c.neg;
    minus = c.inf && c.neg;
    for (unsigned i = 0; i < m->step; i++) {
        bool zero = (!a[i].sig && !a[i].inf) || (!b[i].sig && !b[i].inf);

        p[i] = (struct number){
            .neg = a[i].neg != b[i].neg, .sig = a[i].sig * b[i].sig,
            .exp = a[i].exp + b[i].exp, .frac = a[i].frac + b[i].frac};
        nan |= a[i].nan || b[i].nan || ((a[i].inf || b[i].inf) && zero);
        plus |= (a[i].inf || b[i].inf) && !p[i].neg;
        minus |= (a[i].inf || b[i].inf) && p[i].neg;
        most = p[i].exp > most ? p[i].exp : most;
    }
    if (nan || (plus && minus))
        return f16 ? 0x7fff : 0x7fffffff;
    if (plus || minus)
        return (f16 ? 0x7c00u : 0x7f800000u) |
               (uint64_t)minus << (f16 ? 15 : 31);
    sum = aligned(&c, m->fraction, most - c.exp);
    for (unsigned i = 0; i < m->step; i++)
        sum += aligned(&p[i], m->fraction, most - p[i].exp);
    return rounded(sum, most - (int)m->fraction, f16, m->keep);
}

/* ---- distributions of operands ------------------------------------------ */

enum { NEAR_ONE, ANY_BITS, WITH_ZEROS, WIDE, TINY, HUGE_ONES, DISTRIBUTIONS };

/* A random element.  The exponent field's range depends on the kind of data;
 * NaN and infinity come with ANY_BITS only. */
static uint64_t random_elem(enum vg_elem e, int how)
{
    const struct format *f = &formats[e];
    uint64_t top = (1u << f->exp) - 2, field, lo = 0, hi = top;
    uint64_t bits, mid = (uint64_t)f->bias;

    if (how == ANY_BITS && rnd() % 8 == 0)
        return rnd() & (f->bits == 32 ? 0xffffffff : (1u << f->bits) - 1);
    if (how == WITH_ZEROS && rnd() % 2)
        return rnd() % 2 ? 0 : UINT64_C(1) << (f->bits - 1);
    if (how == NEAR_ONE || how == ANY_BITS || how == WITH_ZEROS)
        lo = mid > 3 ? mid - 3 : 0, hi = mid + 3;
    if (how == WIDE)
        lo = mid > 20 ? mid - 20 : 0, hi = mid + 20;
    if (how == TINY)
        hi = top / 4;
    if (how == HUGE_ONES)
        lo = top - top / 4;
    hi = hi > top ? top : hi;
    field = lo + rnd() % (hi - lo + 1);
    bits = (rnd() & 1) << (f->exp + f->man) | field << f->man |
           (rnd() & ((1u << f->man) - 1));
    return e == VG_ELEM_TF32 ? bits << 13 | (rnd() & 0x1fff) : bits;
}

static void check_model(const struct vg_mma_kind *k, unsigned arch, int how)
{
    struct model m = model_of(k, arch);
    static struct matrices x;

    for (unsigned i = 0; i < k->k; i++) {
        for (unsigned r = 0; r < 16; r++)
            x.a[r][i] = random_elem(k->a, how);
        for (unsigned n = 0; n < 8; n++)
            x.b[i][n] = random_elem(k->b, how);
    }
    for (unsigned r = 0; r < 16; r++)
        for (unsigned n = 0; n < 8; n++)
            x.c[r][n] = rnd() % 4 ? random_elem(k->c, how) : 0;
    run(k, arch, 0, &x);
    for (unsigned r = 0; r < 16; r++)
        for (unsigned n = 0; n < 8; n++) {
            uint64_t want = x.c[r][n];

            for (unsigned i = 0; i < k->k; i += m.step) {
                struct number a[32], b[32];

                for (unsigned j = 0; j < m.step; j++) {
                    a[j] = decode(x.a[r][i + j], k->a);
                    b[j] = decode(x.b[i + j][n], k->b);
                }
                want = step(k, &m, a, b, want);
            }
            if (x.d[r][n] != want)
                fail_msg("%s sm_%u data %d, row %u column %u: %llx, want %llx",
                         k->name, arch, how, r, n,
                         (unsigned long long)x.d[r][n],
                         (unsigned long long)want);
        }
}

static void sums_are_cut_as_published(void **state)
{
    static const unsigned arch[] = {80, 86, 89, 90, 100, 120};

    (void)state;
    for (unsigned i = 0; vg_mma_kind(i); i++) {
        const struct vg_mma_kind *k = vg_mma_kind(i);

        if (!is_float(k->a))
            continue;
        for (unsigned n = 0; n < sizeof arch / sizeof *arch; n++)
            for (int how = 0; how < DISTRIBUTIONS; how++)
                for (int again = 0; again < 12; again++)
                    check_model(k, arch[n], how);
    }
}

/* Worked by hand: 1 + 2^-24 stays 1 with F = 24 (fp32 cuts), while two 2^-24
 * make 2^-23; 2^-25 is lost for F = 24 and kept for F = 25. */
static void cut_bits_by_hand(void **state)
{
    const struct vg_mma_kind *k =
        vg_mma_kind((unsigned)vg_mma_find("m16n8k8.f32.bf16.bf16.f32"));
    static struct matrices m;

    (void)state;
    memset(&m, 0, sizeof m);
    m.c[0][0] = 0x3f800000;
    for (unsigned i = 0; i < 4; i++) {
        m.a[0][i] = 0x3f80;                             /* 1 */
        m.b[i][0] = (uint64_t)(127 - 25) << 7;          /* 2^-25 */
    }
    run(k, 80, 0, &m);
    assert_int_equal(m.d[0][0], 0x3f800000);
    run(k, 90, 0, &m);
    assert_int_equal(m.d[0][0], 0x3f800001);
    for (unsigned i = 0; i < 2; i++)
        m.b[i][0] = (uint64_t)(127 - 24) << 7;
    m.b[2][0] = m.b[3][0] = 0;
    run(k, 80, 0, &m);
    assert_int_equal(m.d[0][0], 0x3f800001);
    m.b[1][0] = 0;
    run(k, 80, 0, &m);
    assert_int_equal(m.d[0][0], 0x3f800000);
}

/* f64 is a chain of fused multiply-adds in ascending k. */
static void doubles_are_fused(void **state)
{
    const struct vg_mma_kind *k =
        vg_mma_kind((unsigned)vg_mma_find("m8n8k4.f64.f64.f64.f64"));
    static struct matrices m;
    double a[8][4], b[4][8], c, d;

    (void)state;
    for (unsigned i = 0; i < 4; i++)
        for (unsigned r = 0; r < 8; r++) {
            a[r][i] = (double)(int64_t)rnd() * 0x1p-63;
            b[i][r] = (double)(int64_t)rnd() * 0x1p-60;
            memcpy(&m.a[r][i], &a[r][i], 8);
            memcpy(&m.b[i][r], &b[i][r], 8);
        }
    for (unsigned r = 0; r < 8; r++)
        for (unsigned n = 0; n < 8; n++) {
            c = (double)(r * 8 + n) / 7;
            memcpy(&m.c[r][n], &c, 8);
        }
    run(k, 80, 0, &m);
    for (unsigned r = 0; r < 8; r++)
        for (unsigned n = 0; n < 8; n++) {
            c = (double)(r * 8 + n) / 7;
            for (unsigned i = 0; i < 4; i++)
                c = fma(a[r][i], b[i][n], c);
            memcpy(&d, &m.d[r][n], 8);
            assert_true(c == d);
        }
}

/* ---- the instruction ---------------------------------------------------- */

/* A = all ones (f16), B = lane's g + 1 in every k: D column n = 16 (n + 1).
 * Literals in C, a sink in D. */
static void the_instruction(void **state)
{
    (void)state;
    kernel_run((struct kernel){
        .body = "mov.b32 %r0, 0x3c003c00;\n"
                "shr.u32 %r1, %lane, 2; add.u32 %r1, %r1, 1;\n"
                "cvt.rn.f32.u32 %f0, %r1; cvt.rn.f16x2.f32 %r1, %f0, %f0;\n"
                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32\n"
                "  {%f1, _, %f2, %f3}, {%r0, %r0, %r0, %r0}, {%r1, %r1},\n"
                "  {0f3F800000, 2.0, 0., %f0};\n"
                "shl.b32 %r2, %lane, 4; cvt.u64.u32 %d0, %r2;\n"
                "add.u64 %d0, %d0, %out;\n"
                "st.global.v2.f32 [%d0], {%f1, %f2};\n"
                "st.global.f32 [%d0+8], %f3;\n"});
    assert_ran();
    for (unsigned l = 0; l < 32; l++) {
        float d[3], n = (float)(l % 4 * 2 + 1);

        memcpy(d, &ran.out[4 * l], sizeof d);
        assert_true(d[0] == 16 * n + 1);
        assert_true(d[1] == 16 * n);
        assert_true(d[2] == 16 * (n + 1) + (float)(l / 4 + 1));
    }
    assert_int_equal(
        ran.counts.mma[vg_mma_find("m16n8k16.f32.f16.f16.f32")], 1);
}

/* Destination registers may be those of any source. */
static void results_replace_operands(void **state)
{
    (void)state;
    kernel_run((struct kernel){
        .body = "mov.b32 %r0, 0x3c003c00; mov.b32 %r1, 0x40004000;\n"
                "mov.b32 %r2, 0x3c003c00; mov.b32 %r3, 0x40004000;\n"
                "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16\n"
                "  {%r1, %r0}, {%r0, %r1, %r2, %r3}, {%r0, %r1}, {%r0, %r1};\n"
                "shl.b32 %r2, %lane, 3; cvt.u64.u32 %d0, %r2;\n"
                "add.u64 %d0, %d0, %out;\n"
                "st.global.v2.u32 [%d0], {%r1, %r0};\n"});
    assert_ran();
    /* Rows 0-7: 8 k of 1*1 + 8 k of 1*2, + 1 = 25; rows 8-15: 8 k of 2*1 + 8
     * k of 2*2, + 2 = 50. */
    for (unsigned l = 0; l < 32; l++) {
        assert_int_equal(ran.out[2 * l], 0x4e404e40);
        assert_int_equal(ran.out[2 * l + 1], 0x52405240);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_lie_where_the_isa_says),
        cmocka_unit_test(integers_wrap_or_saturate),
        cmocka_unit_test(sums_are_cut_as_published),
        cmocka_unit_test(cut_bits_by_hand),
        cmocka_unit_test(doubles_are_fused),
        cmocka_unit_test(the_instruction),
        cmocka_unit_test(results_replace_operands),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
