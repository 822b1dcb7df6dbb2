/* SPDX-License-Identifier: Apache-2.0
 *
 * rng.h: reproducible random numbers (splitmix64, Steele, Lea and Flood,
 * OOPSLA 2014): one word of state, the same everywhere.
 */
#ifndef NUM_RNG_H
#define NUM_RNG_H

#include <stdint.h>

struct num_rng {
    uint64_t state;
};

static inline uint64_t num_random(struct num_rng *rng)
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* 0 .. n - 1, n > 0. */
static inline int64_t num_below(struct num_rng *rng, int64_t n)
{
    return (int64_t)(num_random(rng) % (uint64_t)n);
}

/* [0, 1) */
static inline double num_uniform(struct num_rng *rng)
{
    return (double)(num_random(rng) >> 11) * 0x1p-53;
}

/* Mean 0, variance 1, within +-3.5: the sum of four 16-bit uniforms. */
static inline double num_normal(struct num_rng *rng)
{
    uint64_t z = num_random(rng);
    double sum = (double)(z & 0xffff) + (double)(z >> 16 & 0xffff) +
                 (double)(z >> 32 & 0xffff) + (double)(z >> 48);
    return (sum / 65536 - 2) * 1.7320508075688772;
}

/* A random order of 0 .. n - 1 (Fisher and Yates). */
static inline void num_permutation(struct num_rng *rng, int64_t n,
                                   int64_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t j = num_below(rng, i + 1);
        out[i] = out[j];
        out[j] = i;
    }
}

#endif
