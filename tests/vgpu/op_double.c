/* SPDX-License-Identifier: Apache-2.0
 *
 * op_double.c: double precision (PTX ISA 9.0, 9.7.3).  No .ftz, no .sat;
 * all four rounding modes.
 *
 * Attention kernels hardly compute in double: here everything is the host's
 * own arithmetic, and nothing has a fast form.
 */
#include "alu.h"
#include "num.h"

#include <fenv.h>
#include <math.h>

/* arg: the rounding mode (enum vg_rounding), and the operation above it. */
#define ROUND(arg) ((arg) & 3)
#define OP(arg) ((arg) >> 8)
#define NAN64 UINT64_C(0x7fffffffffffffff)

/* One operation on 32 lanes.  They run behind a pointer, so that no compiler
 * moves their arithmetic out of the region with another rounding mode. */
typedef void row_fn(double *r, const double *a, const double *b,
                    const double *c);
#define ROW(name, EXPR)                                                       \
    static void name(double *r, const double *a, const double *b,             \
                     const double *c)                                         \
    {                                                                         \
        for (int l = 0; l < VG_LANES; l++) {                                  \
            double x = a[l], y = b[l], z = c[l];                              \
            (void)y, (void)z;                                                 \
            r[l] = EXPR;                                                      \
        }                                                                     \
    }

/* -0 < +0; a NaN loses against a number; two NaNs give the canonical one. */
static double extreme(double x, double y, bool max)
{
    if (x != x || y != y)
        return x == x ? x : y == y ? y
                                   : vg_bits_double(NAN64);
    if (x == y)
        return (signbit(x) != 0) == max ? y : x;
    return (x < y) == max ? y : x;
}

/* rcp.approx.ftz.f64, rsqrt.approx.ftz.f64: only the high word counts. */
static double high_word(double v)
{
    return vg_bits_double(vg_double_bits(v) & ~UINT64_C(0xffffffff));
}
/* A subnormal becomes a zero of its sign. */
static double flush(double v)
{
    return fabs(v) < 0x1p-1022 ? copysign(0.0, v) : v;
}

/* -ffp-contract=off: x * y stays a rounded product, and what fuses says so. */
ROW(row_add, x + y)
ROW(row_sub, x - y)
ROW(row_mul, x * y)
ROW(row_fma, fma(x, y, z))
ROW(row_div, x / y)
ROW(row_min, extreme(x, y, false))
ROW(row_max, extreme(x, y, true))
ROW(row_neg, -x)
ROW(row_abs, fabs(x))
ROW(row_rcp, 1.0 / x)
ROW(row_sqrt, sqrt(x))
ROW(row_rsqrt, 1.0 / sqrt(x))
ROW(row_rcp_approx, flush(high_word(1.0 / flush(high_word(x)))))
ROW(row_rsqrt_approx, flush(high_word(1.0 / sqrt(flush(high_word(x))))))

/* The operations, their row functions and how many sources each has. */
enum op { ADD, SUB, MUL, FMA, DIV, MIN, MAX, NEG, ABS, RCP, SQRT, RSQRT,
          RCP_APPROX, RSQRT_APPROX };
static const struct {
    row_fn *row;
    int nsrc;
} ops[] = {
    [ADD] = {row_add, 2},   [SUB] = {row_sub, 2},
    [MUL] = {row_mul, 2},   [FMA] = {row_fma, 3},
    [DIV] = {row_div, 2},   [MIN] = {row_min, 2},
    [MAX] = {row_max, 2},   [NEG] = {row_neg, 1},
    [ABS] = {row_abs, 1},   [RCP] = {row_rcp, 1},
    [SQRT] = {row_sqrt, 1}, [RSQRT] = {row_rsqrt, 1},
    [RCP_APPROX] = {row_rcp_approx, 1},
    [RSQRT_APPROX] = {row_rsqrt_approx, 1},
};

/* Missing sources repeat the first; their row functions ignore them.  The
 * host's rounding mode is per thread and back to nearest before anything else
 * runs. */
VG_HANDLER(arith)
{
    static const int host[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD,
                               FE_UPWARD};
    row_fn *volatile f = ops[OP(i->arg)].row;
    const double *a = VG_ROW(double, 1);
    const double *b = i->nop > 2 ? VG_ROW(double, 2) : a;
    const double *c = i->nop > 3 ? VG_ROW(double, 3) : a;
    double r[VG_LANES];
    if (ROUND(i->arg) == VG_RN) {
        f(r, a, b, c);
    } else {
        int before = fegetround();
        fesetround(host[ROUND(i->arg)]);
        f(r, a, b, c);
        fesetround(before);
    }
    VG_PUT(0, r);
}

/* op{.rnd}.f64 d, a{, b{, c}}; the approximations also .approx.ftz */
static bool decode(struct vg_dec *d)
{
    enum op op = d->out->arg;
    int mode = vg_mod_of(d, "rn|rz|rm|rp");
    if ((op == RCP || op == RSQRT) && vg_mod(d, "approx")) {
        bool ftz = vg_mod(d, "ftz");
        op = op == RSQRT && !ftz ? RSQRT
           : op == RCP ? RCP_APPROX : RSQRT_APPROX;
    }
    if (vg_type(d) != VG_F64)
        return vg_error(d, "needs .f64");
    d->out->arg = (mode < 0 ? 0 : (uint32_t)mode) | (uint32_t)op << 8;
    d->out->fn = arith;
    bool ok = vg_out(d, 0, -1, 64);
    for (int n = 1; ok && n <= ops[op].nsrc; n++)
        ok = vg_in_typed(d, n, -1, VG_F64);
    return ok;
}

/* Reached from the rows without ".double" when the type is .f64. */
const struct vg_opcode vg_ops_double[] = {
    {"add.double", decode, VG_C_DOUBLE, ADD},
    {"sub.double", decode, VG_C_DOUBLE, SUB},
    {"mul.double", decode, VG_C_DOUBLE, MUL},
    {"fma.double", decode, VG_C_DOUBLE, FMA},
    {"div.double", decode, VG_C_DOUBLE, DIV},
    {"min.double", decode, VG_C_DOUBLE, MIN},
    {"max.double", decode, VG_C_DOUBLE, MAX},
    {"neg.double", decode, VG_C_DOUBLE, NEG},
    {"abs.double", decode, VG_C_DOUBLE, ABS},
    {"rcp.double", decode, VG_C_DOUBLE, RCP},
    {"sqrt.double", decode, VG_C_DOUBLE, SQRT},
    {"rsqrt.double", decode, VG_C_DOUBLE, RSQRT},
    {NULL, NULL, 0, 0},
};
