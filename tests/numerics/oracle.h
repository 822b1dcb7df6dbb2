/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle.h: what the kernels should answer, in double, from the formulas.
 *
 * Nothing here has seen a kernel: each function restates a published formula
 * for one row, and tests/unit/numerics checks it against cases worked out by
 * hand.  Inputs are already rounded to the working dtype.
 */
#ifndef NUM_ORACLE_H
#define NUM_ORACLE_H

#include <stdbool.h>

/* y[i] = x[i] / sqrt(mean(x^2) + eps) * w[i]; w NULL: ones.
 * (RMSNorm, arXiv 1910.07467, equation 4, with the epsilon of the
 * DeepSeek-V2 release.) */
void oracle_rmsnorm(const double *x, const double *w, int n, double eps,
                    double *y);

enum oracle_rope_style { ORACLE_INTERLEAVED, ORACLE_NEOX, ORACLE_NO_ROPE };
enum oracle_scaling {
    ORACLE_PLAIN,
    ORACLE_LINEAR,
    ORACLE_YARN,
    ORACLE_LONGROPE
};

struct oracle_rope {
    enum oracle_rope_style style;
    int dim; /* width of the rotary part */
    double theta;
    enum oracle_scaling scaling;
    double factor, original; /* original context length, tokens */
    double beta_fast, beta_slow, mscale, mscale_all_dim;
    double attention_factor; /* NaN: derived */
    bool apply_scale;
    double max_position; /* 0: unknown */
    const double *short_factor, *long_factor; /* [dim / 2], or NULL: ones */
};

/* YaRN's magnitude correction: 0.1 * mscale * ln(factor) + 1, 1 below. */
double oracle_magnitude(double factor, double mscale);

/* The factor of q at a position, 1 + beta ln(1 + floor(position / original)):
 * Llama 4's attention temperature in the form of Mistral's releases. */
double oracle_position_factor(double beta, double original, double position);

/* The multiplier of the attention scores: (nope + rope)^-1/2, times the
 * square of the magnitude at mscale_all_dim under YaRN. */
double oracle_softmax_scale(const struct oracle_rope *rope, int nope);

/* The frequency of pair i; extended: beyond the original context, which only
 * longrope distinguishes. */
double oracle_frequency(const struct oracle_rope *rope, int i, bool extended);

/* The factor of every cos and sin. */
double oracle_cos_factor(const struct oracle_rope *rope);

/* Row `position` of the table: cos of the dim / 2 angles, then their sin. */
void oracle_rope_row(const struct oracle_rope *rope, double position,
                     bool extended, double *cos_sin);

/* Turns the pairs (2i, 2i+1) or (i, i + dim/2) of x by the table's angles
 * (RoFormer, arXiv 2104.09864, equation 34); style none copies.
 * magnitude[i], if not NULL, is |x_a cos| + |x_b sin|: what rounding errors
 * are relative to. */
void oracle_rotate(enum oracle_rope_style style, int dim, const double *x,
                   const double *cos_sin, double *y, double *magnitude);

/* y[n] = sum over k of x[k] * w[k][n]; magnitude[n] = sum of |x[k] w[k][n]|.
 * w is [depth][width], width a multiple of 8. */
void oracle_product(const double *x, const float *w, int depth, int width,
                    double *y, double *magnitude);

/* Whether an LSE stands for an empty set: -inf, +inf and NaN all do. */
bool oracle_lse_empty(double lse);

/* Weights of two partial softmax results (FlashAttention, arXiv 2205.14135,
 * section 3.1, in the log-sum-exp form) and the LSE of their union, in base e
 * or 2.  An empty side has weight 0; if both are, *lse is `empty`. */
void oracle_merge(double lse_a, double lse_b, double base, double empty,
                  double *weight_a, double *weight_b, double *lse);

/* The same of n results, n >= 0; weight[n]. */
void oracle_merge_n(const double *lse, int n, double base, double empty,
                    double *weight, double *out);

#endif
