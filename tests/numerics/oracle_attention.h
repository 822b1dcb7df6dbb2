/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle_attention.h: softmax attention of one query, in double, with the
 * scores in memory: no tiles, no running maximum, no split.
 */
#ifndef NUM_ORACLE_ATTENTION_H
#define NUM_ORACLE_ATTENTION_H

#include <stdint.h>

/* The keys that a query sees.  A value is the first `width` columns of its
 * key, as in MLA's cache (DeepSeek-V2, arXiv 2405.04434, section 2.1.2). */
struct oracle_keys {
    const float *row; /* [count][dims], 16-bit values, which floats hold */
    int64_t count;
    int dims, width;
};

/* score[s] = scale * q . row[s]                      (Vaswani et al., eq. 1)
 * o[c]     = sum_s exp(score[s]) row[s][c] / sum_s exp(score[s])
 * size[c]  = the same with |row[s][c]|: what rounding errors are relative to
 * lse      = log of sum_s exp(score[s]), in `base`
 * lse_size = sum_i |scale q[i] row[s][i]| for the s of the highest score, in
 *            the same units
 * Without keys o, size and lse_size are 0 and lse is `empty`. */
void oracle_attention(const double *q, const struct oracle_keys *keys,
                      double scale, double base, double empty, double *o,
                      double *size, double *lse, double *lse_size);

/* One part of a softmax result and the LSE of its keys. */
struct oracle_part {
    const double *o; /* [width]; not read if the part is empty */
    double lse;      /* natural; -inf: no keys */
};

/* The union of n parts, weights exp(lse[k] - max lse) over their sum; the
 * extension of oracle_merge to n sides.  lse is in `base`. */
void oracle_combine(const struct oracle_part *part, int n, int width,
                    double base, double empty, double *o, double *size,
                    double *lse);

#endif
