/* SPDX-License-Identifier: Apache-2.0
 *
 * step.h: a decode step of one attention layer on the host: made-up inputs in
 * bf16, and in double precision what should come out.  It stands for the
 * engine around the kernels in both examples.
 */
#ifndef EXAMPLE_STEP_H
#define EXAMPLE_STEP_H

#include <stddef.h>
#include <stdint.h>

enum { STEP_MAX_BATCH = 8 };

/* Widths: H heads, DN and DR columns of q and k without and with position, DV
 * of v, R of the latent. */
struct step_model {
    int H, DN, DR, DV, R;
    int neox;     /* how rope pairs columns: i with i + DR / 2, else 2i, 2i+1 */
    double scale; /* of the scores */
};

struct step {
    struct step_model m;
    int batch, length[STEP_MAX_BATCH]; /* keys of a request, its newest too */
    int tokens, longest;
    uint16_t *latent;     /* [tokens, R] of all keys, request after request */
    uint16_t *k_rope;     /* [tokens, DR] before rotation */
    uint16_t *q_nope;     /* [batch, H, DN] */
    uint16_t *q_rope;     /* [batch, H, DR] before rotation */
    uint16_t *kv_b;       /* [H, DN + DV, R], the checkpoint's kv_b_proj */
    float *cos_sin;       /* [longest, cos DR/2 | sin DR/2] */
    int64_t *positions;   /* [tokens] */
    int64_t *q_positions; /* [batch] */
};

/* Makes the inputs.  cos_sin is a plain table of base 10000; a caller with
 * the model's own overwrites it.  Returns 0, or -1 without memory. */
int step_make(struct step *s, const struct step_model *m, const int *length,
              int batch);
void step_free(struct step *s);

/* |got - want| / |want| over all outputs, got being bf16 [batch, H, DV].
 * Three roundings to bf16 lie on the way, each of at most 2^-9. */
double step_error(const struct step *s, const uint16_t *got);
#define STEP_TOLERANCE 0.01

#endif
