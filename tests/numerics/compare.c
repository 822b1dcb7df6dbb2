/* SPDX-License-Identifier: Apache-2.0
 *
 * compare.c: the kept outputs against the oracle, element by element.
 *
 * Bars.  A copy is exact.  A computed value may be off by half a unit in the
 * last place of its own type (it is rounded once) plus what single precision
 * can lose on the way, which each row oracle states next to its formula.  Over
 * all 16-bit outputs of a group the cosine distance stays below 5e-6, which
 * shows errors that all lean one way.
 *
 * Three kinds of expectation: exact bits (copies, zeros, empty sets), a value
 * with a tolerance, and NaN or infinity, which have to come out as such.
 */
#include <math.h>
#include <stdlib.h>

#include "run.h"

/* Relative errors are shown for elements that are not tiny in their row. */
enum { TINY_SHARE = 256 };

/* 0 where both are zero throughout; NaN, which no bar passes, where only one
 * is. */
double num_cosine_distance(const struct num_verdict *v)
{
    if (v->want == 0 && v->got == 0)
        return 0;
    return 1 - v->dot / sqrt(v->want * v->got);
}

/* A finite expectation whose rounding is infinite may come out as infinity. */
static bool overflows(enum num_elem elem, double want, double got)
{
    return isinf(got) && signbit(got) == signbit(want) &&
           fabs(want) > num_max(elem) * (1 - num_half_ulp(elem));
}

/* NaN agrees with any NaN, infinity with itself. */
static bool agrees(enum num_elem elem, double want, double tolerance,
                   double got)
{
    if (isnan(want))
        return isnan(got);
    if (isinf(want))
        return got == want;
    return fabs(got - want) <= tolerance || overflows(elem, want, got);
}

/* Figures for the report, of elements that are finite on both sides. */
static void measure(enum num_elem elem, double want, double tolerance,
                    double got, double row_max, struct num_verdict *v)
{
    double error = fabs(got - want);

    if (!isfinite(want) || !isfinite(got))
        return;
    v->max_abs = fmax(v->max_abs, error);
    if (fabs(want) * TINY_SHARE >= row_max && want != 0)
        v->max_rel = fmax(v->max_rel, error / fabs(want));
    v->worst = fmax(v->worst, error / tolerance);
    if (elem == NUM_F32)
        return;
    v->dot += want * got;
    v->want += want * want;
    v->got += got * got;
}

/* Reports an element by its place, its bits, and what it should have been. */
static void wrong(struct num_case *c, const struct num_tensor *t,
                  const int64_t *i, int64_t k, uint64_t got,
                  const struct num_expect *e, struct num_verdict *v)
{
    unsigned char raw[8], want[8];

    num_set_bits(t->elem, raw, got);
    num_set_bits(t->elem, want, e->bits[k]);
    num_fail(v, c,
             "%s[%lld][%lld][%lld] is %.9g (0x%llx), should be %.9g +- %.3g",
             t->field, (long long)i[0], (long long)i[1], (long long)k,
             num_decode(t->elem, raw), (unsigned long long)got,
             e->exact[k] ? num_decode(t->elem, want) : e->value[k],
             e->exact[k] ? 0 : e->tolerance[k]);
}

/* The largest magnitude of a row's computed part. */
static double largest(const struct num_expect *e, int64_t width)
{
    double most = 0;
    for (int64_t k = 0; k < width; k++)
        if (!e->exact[k] && isfinite(e->value[k]))
            most = fmax(most, fabs(e->value[k]));
    return most;
}

/* One row of one output; a dead row is not the oracle's business. */
static void compare_row(struct num_case *c, const struct num_tensor *t,
                        const int64_t *i, struct num_expect *e,
                        struct num_verdict *v)
{
    size_t es = num_elem_bytes(t->elem);
    int64_t within;
    const struct num_extent *extent = num_locate(t, i[0], i[1], 0, &within);
    const unsigned char *p = extent->kept + within;
    double row_max;

    if (!extent->live[within])
        return;
    c->family->row(c, t, i, e);
    row_max = largest(e, t->width);
    for (int64_t k = 0; k < t->width; k++, p += es) {
        uint64_t bits = num_bits(t->elem, p);
        double got;
        if (e->exact[k]) {
            if (bits != e->bits[k])
                wrong(c, t, i, k, bits, e, v);
            continue;
        }
        got = num_decode(t->elem, p);
        measure(t->elem, e->value[k], e->tolerance[k], got, row_max, v);
        if (!agrees(t->elem, e->value[k], e->tolerance[k], got))
            wrong(c, t, i, k, bits, e, v);
    }
}

/* Row by row, in the order of the claims.  The expectation of one row is
 * large (wide rows in double), hence on the heap. */
void num_compare(struct num_case *c, struct num_verdict *v)
{
    struct num_expect *e = num_alloc(sizeof(*e));

    for (int i = 0; i < c->tensors; i++) {
        struct num_tensor *t = &c->tensor[i];
        for (int64_t r = 0; r < t->rows && t->output && !t->scratch; r++)
            compare_row(c, t, t->row[r].index, e, v);
    }
    free(e);
}
