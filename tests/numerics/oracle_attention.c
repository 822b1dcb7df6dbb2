/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle_attention.c: the formulas of oracle_attention.h.
 *
 * The error of a sum of n terms in double is below n 2^-53 of their sizes:
 * with 4,096 keys less than 2^-41, nothing beside the 2^-8 or 2^-11 of a
 * kernel's own rounding.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle_attention.h"

/* Eight sums at a time, so that a compiler uses vectors; dims is a multiple
 * of 16. */
static double dot(const double *q, const float *key, int dims)
{
    double sum[8] = {0};
    for (int d = 0; d < dims; d += 8)
        for (int j = 0; j < 8; j++)
            sum[j] += q[d + j] * (double)key[d + j];
    return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] +
           sum[7];
}

/* Adds p times a value to o, and its magnitude to size. */
static void add_value(double p, const float *value, int width, double *o,
                      double *size)
{
    for (int c = 0; c < width; c++) {
        double term = p * (double)value[c];
        o[c] += term;
        size[c] += fabs(term);
    }
}

static void divide(double *x, int n, double by)
{
    for (int i = 0; i < n; i++)
        x[i] /= by;
}

/* Sum of the magnitudes of a dot product's terms: what its rounding error is
 * relative to. */
static double dot_size(const double *q, const float *key, int dims)
{
    double sum = 0;
    for (int d = 0; d < dims; d++)
        sum += fabs(q[d] * (double)key[d]);
    return sum;
}

/* Scores of all keys; returns the key with the greatest. */
static int64_t all_scores(const double *q, const struct oracle_keys *keys,
                          double scale, double *score)
{
    int64_t top = 0;
    for (int64_t s = 0; s < keys->count; s++) {
        score[s] = scale * dot(q, keys->row + s * keys->dims, keys->dims);
        top = score[s] > score[top] ? s : top;
    }
    return top;
}

/* All scores first, then their maximum, then the sum: the definition, which
 * needs memory for the scores and has no running correction to get wrong.
 * Ends the program without memory, as tests do. */
void oracle_attention(const double *q, const struct oracle_keys *keys,
                      double scale, double base, double empty, double *o,
                      double *size, double *lse, double *lse_size)
{
    size_t room = keys->count > 0 ? (size_t)keys->count : 1;
    double *score = malloc(room * sizeof(*score));
    double sum = 0;
    int64_t top;

    if (!score)
        abort();
    memset(o, 0, (size_t)keys->width * sizeof(*o));
    memset(size, 0, (size_t)keys->width * sizeof(*size));
    *lse = empty;
    *lse_size = 0;
    top = all_scores(q, keys, scale, score);
    for (int64_t s = 0; s < keys->count; s++) {
        double p = exp(score[s] - score[top]);
        sum += p;
        /* Below that a term is lost in a double's last place. */
        if (p > 1e-30)
            add_value(p, keys->row + s * keys->dims, keys->width, o, size);
    }
    if (keys->count > 0) {
        divide(o, keys->width, sum);
        divide(size, keys->width, sum);
        *lse = (score[top] + log(sum)) / log(base);
        *lse_size = fabs(scale) / log(base) *
                    dot_size(q, keys->row + top * keys->dims, keys->dims);
    }
    free(score);
}

/* A part of no keys has an LSE of -inf, hence weight 0, and its o is not
 * looked at. */
void oracle_combine(const struct oracle_part *part, int n, int width,
                    double base, double empty, double *o, double *size,
                    double *lse)
{
    double top = -INFINITY, sum = 0;

    memset(o, 0, (size_t)width * sizeof(*o));
    memset(size, 0, (size_t)width * sizeof(*size));
    *lse = empty;
    for (int k = 0; k < n; k++)
        top = fmax(top, part[k].lse);
    if (isinf(top))
        return;
    for (int k = 0; k < n; k++) {
        double weight = exp(part[k].lse - top);
        sum += weight;
        for (int c = 0; c < width && !isinf(part[k].lse); c++) {
            o[c] += weight * part[k].o[c];
            size[c] += weight * fabs(part[k].o[c]);
        }
    }
    divide(o, width, sum);
    divide(size, width, sum);
    *lse = (top + log(sum)) / log(base);
}
