/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle_rope.c: rotary position embedding and its context extensions.
 *
 * A pair i turns by position * frequency(i).  Plain: theta^(-2i/dim).  Linear
 * interpolation divides by the factor.  YaRN (arXiv 2309.00071, section 3.2)
 * divides only the slow pairs: those that turn less than beta_slow times over
 * the original context are interpolated, those above beta_fast are kept, with
 * a ramp over the pair index between.  LongRoPE (arXiv 2402.13753) has a
 * divisor per pair.
 */
#include <math.h>

#include "oracle.h"

static const double pi = 3.14159265358979323846;

double oracle_magnitude(double factor, double mscale)
{
    return factor > 1 ? 0.1 * mscale * log(factor) + 1 : 1;
}

double oracle_position_factor(double beta, double original, double position)
{
    return 1 + beta * log(1 + floor(position / original));
}

/* The key's own width counts, not that of the latent: absorbing the
 * up-projection does not change what the scores are. */
double oracle_softmax_scale(const struct oracle_rope *rope, int nope)
{
    double scale = 1 / sqrt(nope + rope->dim), m = 1;
    if (rope->scaling == ORACLE_YARN && rope->apply_scale)
        m = oracle_magnitude(rope->factor, rope->mscale_all_dim);
    return scale * m * m;
}

/* The pair (not an integer) that turns `rotations` times over the original
 * context: the inverse of original * theta^(-2i/dim) / (2 pi). */
static double pair_of_rotations(const struct oracle_rope *r, double rotations)
{
    return r->dim * log(r->original / (rotations * 2 * pi)) /
           (2 * log(r->theta));
}

/* 0: keep the frequency; 1: divide it by the factor. */
static double yarn_ramp(const struct oracle_rope *r, int i)
{
    double low = floor(pair_of_rotations(r, r->beta_fast));
    double high = ceil(pair_of_rotations(r, r->beta_slow));
    double at;

    low = fmax(low, 0);
    high = fmin(high, r->dim - 1);
    if (low == high)
        high += 0.001;
    at = (i - low) / (high - low);
    return fmin(fmax(at, 0), 1);
}

/* Radians per position.  A model without factors for one of the two longrope
 * tables has plain frequencies there. */
double oracle_frequency(const struct oracle_rope *r, int i, bool extended)
{
    double plain = pow(r->theta, -2.0 * i / r->dim), ramp;
    const double *divisor = extended ? r->long_factor : r->short_factor;

    switch (r->scaling) {
    case ORACLE_LINEAR:
        return plain / r->factor;
    case ORACLE_YARN:
        ramp = yarn_ramp(r, i);
        return plain * (1 - ramp) + plain / r->factor * ramp;
    case ORACLE_LONGROPE:
        return divisor ? plain / divisor[i] : plain;
    default:
        return plain;
    }
}

/* YaRN scales cos and sin by the ratio of two magnitudes, so that models with
 * equal mscale and mscale_all_dim have a factor of 1 there and the whole
 * correction in the softmax scale.  LongRoPE: sqrt(1 + ln s / ln L), s the
 * stretch over the original length L, unless the release names a factor. */
double oracle_cos_factor(const struct oracle_rope *r)
{
    double stretch = r->factor;

    if (!r->apply_scale || r->scaling == ORACLE_PLAIN ||
        r->scaling == ORACLE_LINEAR)
        return 1;
    if (r->scaling == ORACLE_YARN)
        return oracle_magnitude(r->factor, r->mscale) /
               oracle_magnitude(r->factor, r->mscale_all_dim) *
               (isnan(r->attention_factor) ? 1 : r->attention_factor);
    if (!isnan(r->attention_factor))
        return r->attention_factor;
    if (isnan(stretch))
        stretch = r->max_position / r->original;
    return stretch > 1 ? sqrt(1 + log(stretch) / log(r->original)) : 1;
}

/* In double: a kernel's table is this, rounded to single. */
void oracle_rope_row(const struct oracle_rope *r, double position,
                     bool extended, double *cos_sin)
{
    double factor = oracle_cos_factor(r);
    for (int i = 0; i < r->dim / 2; i++) {
        double angle = position * oracle_frequency(r, i, extended);
        cos_sin[i] = cos(angle) * factor;
        cos_sin[r->dim / 2 + i] = sin(angle) * factor;
    }
}

/* Both of a pair are read before either is written, so y may be x. */
void oracle_rotate(enum oracle_rope_style style, int dim, const double *x,
                   const double *cos_sin, double *y, double *magnitude)
{
    int half = dim / 2;

    for (int i = 0; i < half; i++) {
        int a = style == ORACLE_INTERLEAVED ? 2 * i : i;
        int b = style == ORACLE_INTERLEAVED ? 2 * i + 1 : i + half;
        double c = style == ORACLE_NO_ROPE ? 1 : cos_sin[i];
        double s = style == ORACLE_NO_ROPE ? 0 : cos_sin[half + i];
        double xa = x[a], xb = x[b];
        if (style == ORACLE_NO_ROPE) {
            y[a] = xa;
            y[b] = xb;
        } else {
            y[a] = xa * c - xb * s;
            y[b] = xb * c + xa * s;
        }
        if (magnitude) {
            magnitude[a] = fabs(xa * c) + fabs(xb * s);
            magnitude[b] = fabs(xb * c) + fabs(xa * s);
        }
    }
}
