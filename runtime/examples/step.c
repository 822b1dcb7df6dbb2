/* SPDX-License-Identifier: Apache-2.0
 *
 * step.c: see step.h.
 */
#include "step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Numbers ------------------------------------------------------------------
 */

/* bf16 is the upper half of a float. */
static double from_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, sizeof(f));
    return f;
}

/* To nearest, ties to even.  Inputs here are finite, so a carry into NaN
 * cannot happen. */
static uint16_t to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Uniform in [-1, 1), the same on every machine (xorshift64). */
static double random_number(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) * 0x1p-52 - 1;
}

/* Uniform in [-size, size), rounded; NULL without memory. */
static uint16_t *random_values(size_t count, double size, uint64_t *state)
{
    uint16_t *values = malloc(count * sizeof(*values));
    for (size_t i = 0; values && i < count; i++)
        values[i] = to_bf16((float)(size * random_number(state)));
    return values;
}

/* Inputs -------------------------------------------------------------------
 */

/* Of every key, and of the one query of each request, which is its
 * newest token. */
static void fill_positions(struct step *s)
{
    int64_t *p = s->positions;
    for (int b = 0; b < s->batch; b++) {
        for (int i = 0; i < s->length[b]; i++)
            *p++ = i;
        s->q_positions[b] = s->length[b] - 1;
    }
}

/* One row per position, [cos | sin] (CONVENTIONS.md).  The base is 10000
 * whatever the model's is: kernels and reference read the same table. */
static void fill_cos_sin(struct step *s)
{
    int half = s->m.DR / 2;
    for (int p = 0; p < s->longest; p++)
        for (int i = 0; i < half; i++) {
            double angle = p * pow(10000, -2.0 * i / s->m.DR);
            s->cos_sin[p * s->m.DR + i] = (float)cos(angle);
            s->cos_sin[p * s->m.DR + half + i] = (float)sin(angle);
        }
}

/* Weights are small enough for outputs to be of the inputs' size; queries are
 * larger, so that scores differ and softmax has something to do. */
static int allocate(struct step *s)
{
    const struct step_model *m = &s->m;
    uint64_t state = 0x9e3779b97f4a7c15u;
    size_t T = (size_t)s->tokens, B = (size_t)s->batch, H = (size_t)m->H;

    s->latent = random_values(T * (size_t)m->R, 1, &state);
    s->k_rope = random_values(T * (size_t)m->DR, 1, &state);
    s->q_nope = random_values(B * H * (size_t)m->DN, 3, &state);
    s->q_rope = random_values(B * H * (size_t)m->DR, 3, &state);
    s->kv_b = random_values(H * (size_t)(m->DN + m->DV) * (size_t)m->R,
                            1 / sqrt(m->R), &state);
    s->cos_sin = malloc((size_t)s->longest * (size_t)m->DR * sizeof(float));
    s->positions = malloc(T * sizeof(int64_t));
    s->q_positions = malloc(B * sizeof(int64_t));
    return s->latent && s->k_rope && s->q_nope && s->q_rope && s->kv_b &&
           s->cos_sin && s->positions && s->q_positions;
}

int step_make(struct step *s, const struct step_model *m, const int *length,
              int batch)
{
    *s = (struct step){.m = *m, .batch = batch};
    for (int b = 0; b < batch; b++) {
        s->length[b] = length[b];
        s->tokens += length[b];
        s->longest = length[b] > s->longest ? length[b] : s->longest;
    }
    if (!allocate(s)) {
        step_free(s);
        return -1;
    }
    fill_positions(s);
    fill_cos_sin(s);
    return 0;
}

void step_free(struct step *s)
{
    free(s->latent);
    free(s->k_rope);
    free(s->q_nope);
    free(s->q_rope);
    free(s->kv_b);
    free(s->cos_sin);
    free(s->positions);
    free(s->q_positions);
    *s = (struct step){0};
}

/* Reference ----------------------------------------------------------------
 *
 * Attention as papers write it: K and V of every head are made from the
 * latent, nothing is absorbed, nothing is rounded.
 */

/* Rotates DR columns by a position's angles.  Pairs are (i, i + DR/2) in the
 * neox style, (2i, 2i + 1) in the interleaved one. */
static void rotate(const struct step *s, const uint16_t *x, int64_t position,
                   double *out)
{
    int half = s->m.DR / 2;
    const float *angle = s->cos_sin + position * s->m.DR;

    for (int i = 0; i < half; i++) {
        int a = s->m.neox ? i : 2 * i, b = s->m.neox ? i + half : 2 * i + 1;
        double c = angle[i], d = angle[half + i];
        double u = from_bf16(x[a]), v = from_bf16(x[b]);
        out[a] = u * c - v * d;
        out[b] = v * c + u * d;
    }
}

/* One row of kv_b times one latent. */
static double project(const struct step *s, int head, int row,
                      const uint16_t *latent)
{
    size_t at = (size_t)(head * (s->m.DN + s->m.DV) + row) * (size_t)s->m.R;
    double sum = 0;
    for (int r = 0; r < s->m.R; r++)
        sum += from_bf16(s->kv_b[at + (size_t)r]) * from_bf16(latent[r]);
    return sum;
}

/* The score of one key for one head of one request: q_nope . W_UK latent +
 * q_rope . k_rope.  Expanding K for every query is slow, and obvious. */
static double score(const struct step *s, int b, int head, int token)
{
    const struct step_model *m = &s->m;
    const uint16_t *q = s->q_nope + (size_t)(b * m->H + head) * (size_t)m->DN;
    double qr[256], kr[256], sum = 0;

    for (int i = 0; i < m->DN; i++)
        sum += from_bf16(q[i]) *
               project(s, head, i, s->latent + (size_t)token * (size_t)m->R);
    rotate(s, s->q_rope + (size_t)(b * m->H + head) * (size_t)m->DR,
           s->q_positions[b], qr);
    rotate(s, s->k_rope + (size_t)token * (size_t)m->DR, s->positions[token],
           kr);
    for (int i = 0; i < m->DR; i++)
        sum += qr[i] * kr[i];
    return sum * m->scale;
}

/* out[DV] of one head of one request, whose first key is `first`; zeros
 * without memory, which the comparison then finds wrong. */
static void attend(const struct step *s, int b, int head, int first,
                   double *out)
{
    double *p = malloc((size_t)s->length[b] * sizeof(*p)), top = -INFINITY,
           sum = 0;

    memset(out, 0, (size_t)s->m.DV * sizeof(*out));
    for (int i = 0; p && i < s->length[b]; i++) {
        p[i] = score(s, b, head, first + i);
        top = fmax(top, p[i]);
    }
    for (int i = 0; p && i < s->length[b]; i++)
        sum += p[i] = exp(p[i] - top);
    for (int i = 0; p && i < s->length[b]; i++)
        for (int v = 0; v < s->m.DV; v++)
            out[v] += p[i] / sum *
                      project(s, head, s->m.DN + v,
                              s->latent + (size_t)(first + i) * (size_t)s->m.R);
    free(p);
}

/* In the norm over all outputs: bf16 errors of single ones, near zero,
 * mean nothing. */
double step_error(const struct step *s, const uint16_t *got)
{
    double want[1024], wrong = 0, size = 0;
    int first = 0;

    for (int b = 0; b < s->batch; first += s->length[b++])
        for (int h = 0; h < s->m.H; h++) {
            const uint16_t *g =
                got + (size_t)(b * s->m.H + h) * (size_t)s->m.DV;
            attend(s, b, h, first, want);
            for (int v = 0; v < s->m.DV; v++) {
                double off = from_bf16(g[v]) - want[v];
                wrong += off * off;
                size += want[v] * want[v];
            }
        }
    return sqrt(wrong / size);
}
