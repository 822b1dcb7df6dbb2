/* SPDX-License-Identifier: Apache-2.0
 *
 * forward_model.c: a layer without a cache, in double (DeepSeek-V2, arXiv
 * 2405.04434, section 2.1, equations 1 to 12).
 *
 * Nothing is rounded, absorbed, paged or kept: each step computes keys and
 * values of a sequence's whole text anew.  Sizes are chosen so that hidden
 * states, queries, keys and values are about normal.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forward.h"

/* Lengths on both sides of a page's end, single tokens among long rows, rows
 * without any, a fork inside a page that both go on to write, refused drafts,
 * two decode steps with room for rows of nobody. */
const struct story_step story[STORY_STEPS] = {
    {.rows = 2, .row = {{0, 5}, {1, 67}}},
    {.rows = 3, .row = {{0, 1}, {1, 9}, {2, 33}}},
    {.rows = 3, .row = {{2, 1}, {0, 1}, {1, 1}}},
    {.fork = {1, 3, 2}, .rows = 4, .row = {{1, 1}, {0, 0}, {3, 3}, {2, 4}}},
    {.cut = {2, 1}, .rows = 4, .row = {{0, 2}, {3, 2}, {2, 2}, {1, 2}}},
    {.rows = 3, .row = {{1, 1}, {3, 1}, {0, 1}}, .padded = 5, .graph = true},
    {.rows = 3, .row = {{1, 1}, {3, 1}, {0, 1}}, .padded = 5, .graph = true},
};

int story_tokens(const struct story_step *s)
{
    int n = 0;

    for (int i = 0; i < s->rows; i++)
        n += s->row[i].fresh;
    return n;
}

/* Making ------------------------------------------------------------------ */

static double *random_values(enum num_elem elem, int64_t n, double mean,
                             double deviation, struct num_rng *rng)
{
    double *value = num_alloc((size_t)n * sizeof(*value));
    unsigned char raw[8];

    for (int64_t i = 0; i < n; i++) {
        num_encode(elem, raw, mean + deviation * num_normal(rng));
        value[i] = num_decode(elem, raw);
    }
    return value;
}

static void make_weights(struct story_model *m, struct num_rng *rng)
{
    int64_t low = m->q_rank ? m->q_rank : STORY_HIDDEN, heads = m->heads;
    const struct story_matrix list[STORY_WEIGHTS] = {
        [STORY_Q_A] = {"q_a", m->q_rank, STORY_HIDDEN, NULL},
        [STORY_KV_A] = {"kv_a", m->latent + m->rope, STORY_HIDDEN, NULL},
        [STORY_Q_A_NORM] = {"q_a_norm", m->q_rank ? 1 : 0, m->q_rank, NULL},
        [STORY_KV_A_NORM] = {"kv_a_norm", 1, m->latent, NULL},
        [STORY_Q_B] = {"q_b", heads * (m->nope + m->rope), low, NULL},
        [STORY_KV_B] = {"kv_b", heads * (m->nope + m->v), m->latent, NULL},
        [STORY_O] = {"o", STORY_HIDDEN, heads * m->v, NULL}};

    memcpy(m->w, list, sizeof(list));
    for (int i = 0; i < STORY_WEIGHTS; i++) {
        struct story_matrix *w = &m->w[i];
        bool norm = i == STORY_Q_A_NORM || i == STORY_KV_A_NORM;
        double size = 1 / sqrt((double)(w->columns ? w->columns : 1));
        if (i == STORY_Q_B && m->q_rank)
            size /= m->model->q_factor;
        if (i == STORY_KV_B)
            size /= m->model->latent_factor;
        w->value = random_values(m->dtype, w->rows * w->columns, norm,
                                 norm ? 0.25 : size, rng);
    }
}

/* y = W x */
static void multiply(const struct story_matrix *w, const double *x, double *y)
{
    for (int64_t i = 0; i < w->rows; i++) {
        const double *row = w->value + i * w->columns;
        double sum[4] = {0};
        for (int64_t k = 0; k + 4 <= w->columns; k += 4)
            for (int j = 0; j < 4; j++)
                sum[j] += row[k + j] * x[k + j];
        y[i] = sum[0] + sum[1] + sum[2] + sum[3];
    }
}

/* The layer --------------------------------------------------------------- */

/* A sequence's text: rows of hidden states. */
struct text {
    const double *row[STORY_KEYS];
    int length;
};

/* Keys and values of a whole text. */
struct memory {
    double *key;   /* [length][H][DN + DR] */
    double *value; /* [length][H][DV] */
};

static void rotate(const struct story_model *m, int64_t place, const double *x,
                   double *y)
{
    const struct oracle_rope *rope = &m->model->rope;
    double angle[2 * NUM_MAX_PAIRS];

    if (!m->rope)
        return;
    if (rope->style != ORACLE_NO_ROPE)
        oracle_rope_row(rope, (double)(m->first_position + place), true,
                        angle);
    oracle_rotate(rope->style, m->rope, x, angle, y, NULL);
}

/* Key and value of one token, for all heads. */
static void remember(const struct story_model *m, const double *x, int64_t at,
                     struct memory *to)
{
    int wide = m->nope + m->rope, both = m->nope + m->v;
    double down[2048], latent[1024], k_rope[256], *up;

    multiply(&m->w[STORY_KV_A], x, down);
    oracle_rmsnorm(down, m->w[STORY_KV_A_NORM].value, m->latent,
                   m->model->norm_eps, latent);
    for (int i = 0; i < m->latent; i++)
        latent[i] *= m->model->latent_factor;
    rotate(m, at, down + m->latent, k_rope);
    up = num_alloc((size_t)(m->heads * both) * sizeof(*up));
    multiply(&m->w[STORY_KV_B], latent, up);
    for (int h = 0; h < m->heads; h++) {
        double *key = to->key + (at * m->heads + h) * wide;
        memcpy(key, up + h * both, (size_t)m->nope * sizeof(double));
        memcpy(key + m->nope, k_rope, (size_t)m->rope * sizeof(double));
        memcpy(to->value + (at * m->heads + h) * m->v, up + h * both + m->nope,
               (size_t)m->v * sizeof(double));
    }
    free(up);
}

/* Queries of one token, [H][DN + DR]. */
static void ask(const struct story_model *m, const double *x, int64_t at,
                double *q)
{
    int wide = m->nope + m->rope;
    double *low = num_alloc((size_t)(m->q_rank + 1) * sizeof(*low));
    double turned[256], factor = 1;

    if (m->model->factor_beta != 0)
        factor = oracle_position_factor(m->model->factor_beta,
                                        m->model->factor_original,
                                        (double)(m->first_position + at));
    if (m->q_rank) {
        multiply(&m->w[STORY_Q_A], x, low);
        oracle_rmsnorm(low, m->w[STORY_Q_A_NORM].value, m->q_rank,
                       m->model->norm_eps, low);
        for (int i = 0; i < m->q_rank; i++)
            low[i] *= m->model->q_factor;
        x = low;
    }
    multiply(&m->w[STORY_Q_B], x, q);
    for (int h = 0; h < m->heads; h++, q += wide) {
        rotate(m, at, q + m->nope, turned);
        memcpy(q + m->nope, turned, (size_t)m->rope * sizeof(double));
        for (int i = 0; i < wide; i++)
            q[i] *= factor;
    }
    free(low);
}

/* Softmax attention of one head over the first `keys` tokens. */
static void attend(const struct story_model *m, const double *q, int h,
                   const struct memory *from, int64_t keys, double scale,
                   double *out)
{
    int wide = m->nope + m->rope;
    double score[STORY_KEYS], top = -INFINITY, sum = 0;

    for (int64_t s = 0; s < keys; s++) {
        const double *key = from->key + (s * m->heads + h) * wide;
        score[s] = 0;
        for (int i = 0; i < wide; i++)
            score[s] += q[i] * key[i];
        score[s] *= scale;
        top = fmax(top, score[s]);
    }
    memset(out, 0, (size_t)m->v * sizeof(*out));
    for (int64_t s = 0; s < keys; s++) {
        const double *value = from->value + (s * m->heads + h) * m->v;
        double p = exp(score[s] - top);
        sum += p;
        for (int i = 0; i < m->v; i++)
            out[i] += p * value[i];
    }
    for (int i = 0; i < m->v; i++)
        out[i] /= sum;
}

/* The output of the text's token `at`. */
static void answer(const struct story_model *m, const struct text *t,
                   int64_t at, const struct memory *from, double *out)
{
    int wide = m->nope + m->rope;
    double scale = oracle_softmax_scale(&m->model->rope, m->nope);
    double *q = num_alloc((size_t)(m->heads * wide) * sizeof(*q));
    double *all = num_alloc((size_t)(m->heads * m->v) * sizeof(*all));

    ask(m, t->row[at], at, q);
    for (int h = 0; h < m->heads; h++)
        attend(m, q + h * wide, h, from, at + 1, scale, all + h * m->v);
    multiply(&m->w[STORY_O], all, out);
    free(q);
    free(all);
}

/* The story --------------------------------------------------------------- */

/* The new tokens of one row, behind what the sequence has. */
static void tell(const struct story_model *m, struct text *t,
                 const double *hidden, int fresh, double *want)
{
    size_t rows = (size_t)(t->length + fresh) * (size_t)m->heads;
    struct memory memory = {
        num_alloc(rows * (size_t)(m->nope + m->rope) * sizeof(double)),
        num_alloc(rows * (size_t)m->v * sizeof(double))};
    int first = t->length;

    for (int i = 0; i < fresh; i++)
        t->row[t->length++] = hidden + (int64_t)i * STORY_HIDDEN;
    for (int i = 0; i < t->length && fresh; i++)
        remember(m, t->row[i], i, &memory);
    for (int i = 0; i < fresh; i++)
        answer(m, t, first + i, &memory, want + (int64_t)i * STORY_HIDDEN);
    free(memory.key);
    free(memory.value);
}

static void tell_step(struct story_model *m, int step, struct text *text)
{
    const struct story_step *s = &story[step];
    int64_t at = 0;

    if (s->fork.child) {
        text[s->fork.child] = text[s->fork.parent];
        text[s->fork.child].length -= s->fork.less;
    }
    text[s->cut.sequence].length -= s->cut.by;
    for (int i = 0; i < s->rows; i++) {
        tell(m, &text[s->row[i].sequence], m->hidden[step] + at,
             s->row[i].fresh, m->want[step] + at);
        at += (int64_t)s->row[i].fresh * STORY_HIDDEN;
    }
}

struct story_model *story_make(const struct story_model *like, uint64_t seed)
{
    struct story_model *m = num_alloc(sizeof(*m));
    struct num_rng rng = {seed};
    struct text *text = num_alloc(STORY_SEQUENCES * sizeof(*text));

    *m = *like;
    make_weights(m, &rng);
    for (int i = 0; i < STORY_STEPS; i++) {
        int64_t n = (int64_t)story_tokens(&story[i]) * STORY_HIDDEN;
        m->hidden[i] = random_values(m->dtype, n, 0, 1, &rng);
        m->want[i] = num_alloc((size_t)n * sizeof(double));
        tell_step(m, i, text);
    }
    free(text);
    return m;
}

void story_free(struct story_model *m)
{
    for (int i = 0; i < STORY_WEIGHTS; i++)
        free(m->w[i].value);
    for (int i = 0; i < STORY_STEPS; i++) {
        free(m->hidden[i]);
        free(m->want[i]);
    }
    free(m);
}
