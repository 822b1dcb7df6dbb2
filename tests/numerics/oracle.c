/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle.c: the formulas of oracle.h that are not about positions.
 *
 * Plain loops in double, in the order of the formulas.  Where one is arranged
 * in blocks it is so that a compiler uses vectors: the oracle does the work of
 * a whole GPU on one core.
 */
#include <math.h>
#include <string.h>

#include "oracle.h"

/* The formula as published, in two passes; a kernel keeps a running sum. */
void oracle_rmsnorm(const double *x, const double *w, int n, double eps,
                    double *y)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (int i = 0; i < n; i++)
        y[i] = x[i] / sqrt(sum / n + eps) * (w ? w[i] : 1);
}

/* Eight columns at a time, so that a compiler keeps them in registers. */
static void product_block(const double *x, const float *w, int depth,
                          int width, double *y, double *magnitude)
{
    double sum[8] = {0}, size[8] = {0};
    for (int k = 0; k < depth; k++)
        for (int j = 0; j < 8; j++) {
            double term = x[k] * (double)w[(long)k * width + j];
            sum[j] += term;
            size[j] += fabs(term);
        }
    memcpy(y, sum, sizeof(sum));
    memcpy(magnitude, size, sizeof(size));
}

void oracle_product(const double *x, const float *w, int depth, int width,
                    double *y, double *magnitude)
{
    for (int n = 0; n < width; n += 8)
        product_block(x, w + n, depth, width, y + n, magnitude + n);
}

/* Peers mark an empty set by any of the three, so a merge must take them all
 * as such. */
bool oracle_lse_empty(double lse)
{
    return isnan(lse) || isinf(lse);
}

/* Both sides shifted by the larger LSE, as the formula has to be evaluated in
 * any precision: exp of an LSE itself overflows. */
void oracle_merge(double lse_a, double lse_b, double base, double empty,
                  double *weight_a, double *weight_b, double *lse)
{
    bool no_a = oracle_lse_empty(lse_a), no_b = oracle_lse_empty(lse_b);
    double unit = log(base), top, sum;

    *weight_a = no_a ? 0 : 1;
    *weight_b = no_b ? 0 : 1;
    *lse = no_a ? (no_b ? empty : lse_b) : lse_a;
    if (no_a || no_b)
        return;
    top = fmax(lse_a, lse_b);
    *weight_a = exp((lse_a - top) * unit);
    *weight_b = exp((lse_b - top) * unit);
    sum = *weight_a + *weight_b;
    *weight_a /= sum;
    *weight_b /= sum;
    *lse = top + log(sum) / unit;
}

/* n sides at once, not side by side: the same result in real numbers, and
 * here without the roundings between. */
void oracle_merge_n(const double *lse, int n, double base, double empty,
                    double *weight, double *out)
{
    double unit = log(base), top = -INFINITY, sum = 0;

    for (int i = 0; i < n; i++)
        if (!oracle_lse_empty(lse[i]))
            top = fmax(top, lse[i]);
    for (int i = 0; i < n; i++) {
        weight[i] = oracle_lse_empty(lse[i]) ? 0 : exp((lse[i] - top) * unit);
        sum += weight[i];
    }
    for (int i = 0; i < n && sum > 0; i++)
        weight[i] /= sum;
    *out = sum > 0 ? top + log(sum) / unit : empty;
}
