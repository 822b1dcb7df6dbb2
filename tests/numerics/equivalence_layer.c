/* SPDX-License-Identifier: Apache-2.0
 *
 * equivalence_layer.c: a layer's weights and inputs, and what comes out.
 *
 * Sizes are chosen so that everything has a say in the result: keys, values
 * and queries are about normal, and the scores' parts from DN and DR have a
 * standard deviation of about 1 each.  With 200 keys a single one left out, or
 * seen too much, then moves a row by several percent.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "equivalence.h"
#include "oracle_attention.h"

/* Numbers ----------------------------------------------------------------- */

/* The value that the type holds for it. */
static double rounded(enum num_elem elem, double value)
{
    unsigned char raw[8];
    num_encode(elem, raw, value);
    return num_decode(elem, raw);
}

/* Images are flat arrays of one type. */
static unsigned char *element(const struct layer_image *m, int64_t i)
{
    return m->data + i * (int64_t)num_elem_bytes(m->elem);
}

static void set(struct layer_image *m, int64_t i, double value)
{
    num_encode(m->elem, element(m, i), value);
}

static double get(const struct layer_image *m, int64_t i)
{
    return num_decode(m->elem, element(m, i));
}

static void get_row(const struct layer_image *m, int64_t first, int64_t n,
                    double *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = get(m, first + i);
}

static void fill_normal(struct layer_image *m, double mean, double deviation,
                        struct num_rng *rng)
{
    for (int64_t i = 0; i < m->count; i++)
        set(m, i, mean + deviation * num_normal(rng));
}

/* Sizes ------------------------------------------------------------------- */

/* A factor of q by position is 1 up to the original context: there the
 * sequences lie across its first step. */
static int64_t first_position(const struct layer *l)
{
    if (l->model->factor_beta == 0)
        return 0;
    return (int64_t)l->model->factor_original - 40;
}

/* Totals over the requests, and the sizes of pool and table. */
static void count_tokens(struct layer *l)
{
    int64_t longest = 0;

    for (int b = 0; b < l->shape->requests; b++) {
        struct layer_request r = l->shape->request[b];
        int64_t length = r.prefix + r.fresh;
        l->prefix[b] = r.prefix;
        l->tokens += r.fresh;
        l->keys += length;
        longest = length > longest ? length : longest;
        l->most_fresh = r.fresh > l->most_fresh ? r.fresh : l->most_fresh;
        l->longest_prefix =
            r.prefix > l->longest_prefix ? r.prefix : l->longest_prefix;
        l->pages += (length + l->page_size - 1) / l->page_size;
    }
    /* One column more than the longest needs. */
    l->table_width = (longest + l->page_size - 1) / l->page_size + 1;
    l->pages += 2;
}

/* Names, types and sizes of all inputs; their contents come later. */
static void make_images(struct layer *l)
{
    int64_t head = l->nope + l->rope, q = l->tokens * l->heads * head;
    int64_t n = l->shape->requests;
    const struct layer_image image[LAYER_INPUTS] = {
        [LAYER_LATENTS] = {"latent", l->dtype, l->keys * l->latent, NULL},
        [LAYER_K_ROPE] = {"k_rope", l->dtype, l->keys * l->rope, NULL},
        [LAYER_NORM_WEIGHT] = {"norm_weight", l->dtype, l->latent, NULL},
        [LAYER_WEIGHTS] = {"kv_b_proj", l->dtype,
                           (int64_t)l->heads * (l->nope + l->v) * l->latent,
                           NULL},
        [LAYER_RAW_Q] = {"q before the rotation", l->dtype, q, NULL},
        [LAYER_Q] = {"q", l->dtype, q, NULL},
        [LAYER_COS_SIN] = {"cos_sin", NUM_F32,
                           (first_position(l) + l->table_width * l->page_size) *
                               l->rope,
                           NULL},
        [LAYER_POSITIONS] = {"positions", NUM_I64, l->keys, NULL},
        [LAYER_Q_POSITIONS] = {"positions of q", NUM_I64, l->tokens, NULL},
        [LAYER_OLD_SLOTS] = {"slots of prefixes", NUM_I64, l->keys, NULL},
        [LAYER_NEW_SLOTS] = {"slots of new tokens", NUM_I64, l->keys, NULL},
        [LAYER_TABLE] = {"block_table", NUM_I32, n * l->table_width, NULL},
        [LAYER_PREFIX] = {"prefix lengths", NUM_I32, n, NULL},
        [LAYER_CU_Q] = {"cu_q", NUM_I32, n + 1, NULL},
        [LAYER_CU_ALL] = {"cu_k", NUM_I32, n + 1, NULL},
    };

    memcpy(l->input, image, sizeof(image));
    for (int i = 0; i < LAYER_INPUTS; i++)
        l->input[i].data = num_alloc((size_t)l->input[i].count *
                                     num_elem_bytes(l->input[i].elem));
}

/* Inputs ------------------------------------------------------------------ */

/* Pages are scattered, page 0 is nobody's, and entries that no token needs
 * hold what no table is long enough for. */
static void fill_table(struct layer *l, struct num_rng *rng)
{
    struct layer_image *table = &l->input[LAYER_TABLE];
    int64_t *id = num_alloc((size_t)l->pages * sizeof(*id)), next = 0;

    num_permutation(rng, l->pages - 1, id);
    for (int b = 0; b < l->shape->requests; b++) {
        int64_t length =
            l->shape->request[b].prefix + l->shape->request[b].fresh;
        for (int64_t k = 0; k < l->table_width; k++)
            set(table, b * l->table_width + k,
                k * l->page_size < length ? (double)(1 + id[next++])
                                          : INT32_MAX);
    }
    free(id);
}

/* Slot and position of the s-th token of a request; `key` counts all. */
static void place_token(struct layer *l, int b, int64_t s, int64_t key)
{
    int64_t page = (int64_t)get(&l->input[LAYER_TABLE],
                                b * l->table_width + s / l->page_size);
    int64_t slot = page * l->page_size + s % l->page_size;
    bool old = s < l->prefix[b];

    set(&l->input[LAYER_POSITIONS], key, (double)(first_position(l) + s));
    set(&l->input[LAYER_OLD_SLOTS], key, old ? (double)slot : -1);
    set(&l->input[LAYER_NEW_SLOTS], key, old ? -1 : (double)slot);
}

/* Positions, slots and prefix sums, request by request. */
static void place_tokens(struct layer *l)
{
    int64_t key = 0, token = 0;

    for (int b = 0; b < l->shape->requests; b++) {
        int64_t length = l->prefix[b] + l->shape->request[b].fresh;
        set(&l->input[LAYER_PREFIX], b, l->prefix[b]);
        for (int64_t s = 0; s < length; s++, key++) {
            place_token(l, b, s, key);
            if (s >= l->prefix[b])
                set(&l->input[LAYER_Q_POSITIONS], token++,
                    (double)(first_position(l) + s));
        }
        set(&l->input[LAYER_CU_Q], b + 1, (double)token);
        set(&l->input[LAYER_CU_ALL], b + 1, (double)key);
    }
}

/* Rows of positions that are not used keep a value that would show. */
static void fill_angles(struct layer *l)
{
    struct layer_image *table = &l->input[LAYER_COS_SIN];
    double row[2 * NUM_MAX_PAIRS];

    for (int64_t i = 0; i < first_position(l) * l->rope; i++)
        set(table, i, 1e30);
    for (int64_t p = first_position(l); p * l->rope < table->count; p++) {
        oracle_rope_row(&l->model->rope, (double)p, false, row);
        for (int i = 0; i < l->rope; i++)
            set(table, p * l->rope + i, row[i]);
    }
}

/* Scaled so that the parts of a score from nope and from rope each have a
 * standard deviation of 1; `turn` is what the rotation's factor adds. */
static void fill_queries(struct layer *l, struct num_rng *rng)
{
    struct layer_image *q = &l->input[LAYER_RAW_Q];
    double turn = oracle_cos_factor(&l->model->rope);
    int head = l->nope + l->rope;
    double nope = 1 / (l->softmax_scale * sqrt(l->nope));
    double rope =
        1 / (l->softmax_scale * sqrt(l->rope ? l->rope : 1) * turn * turn);

    for (int64_t i = 0; i < q->count; i++)
        set(q, i, (i % head < l->nope ? nope : rope) * num_normal(rng));
}

/* What the rotation makes of `n` columns at a position; style none copies. */
static void rotate(const struct layer *l, const double *x, int64_t position,
                   double *out)
{
    double angle[2 * NUM_MAX_PAIRS];

    get_row(&l->input[LAYER_COS_SIN], position * l->rope, l->rope, angle);
    oracle_rotate(l->model->rope.style, l->rope, x, angle, out, NULL);
}

/* The Normal path's q: rotated and scaled by whoever calls mha (absorb_q does
 * both itself), and rounded. */
static void finish_queries(struct layer *l)
{
    const struct num_model *m = l->model;
    double x[NUM_MAX_PAIRS * 2], y[NUM_MAX_PAIRS * 2];
    int head = l->nope + l->rope;

    for (int64_t i = 0; i < l->tokens * l->heads; i++) {
        int64_t position =
            (int64_t)get(&l->input[LAYER_Q_POSITIONS], i / l->heads);
        double factor =
            m->factor_beta == 0
                ? 1
                : oracle_position_factor(m->factor_beta, m->factor_original,
                                         (double)position);
        get_row(&l->input[LAYER_RAW_Q], i * head + l->nope, l->rope, x);
        rotate(l, x, position, y);
        for (int k = 0; k < l->nope; k++)
            set(&l->input[LAYER_Q], i * head + k,
                factor * get(&l->input[LAYER_RAW_Q], i * head + k));
        for (int k = 0; k < l->rope; k++)
            set(&l->input[LAYER_Q], i * head + l->nope + k, factor * y[k]);
    }
}

/* In an order in which each needs only what is before it. */
static void fill_inputs(struct layer *l, struct num_rng *rng)
{
    fill_table(l, rng);
    place_tokens(l);
    fill_angles(l);
    fill_normal(&l->input[LAYER_LATENTS], 0, 2, rng);
    fill_normal(&l->input[LAYER_K_ROPE], 0, 1, rng);
    fill_normal(&l->input[LAYER_NORM_WEIGHT], 1, 0.25, rng);
    fill_normal(&l->input[LAYER_WEIGHTS], 0,
                1 / (l->model->latent_factor * sqrt(l->latent)), rng);
    fill_queries(l, rng);
    finish_queries(l);
}

/* Reference --------------------------------------------------------------- */

/* The rows that a cache would hold, [norm(latent) | RoPE(k_rope)], rounded
 * once: the cache's dtype belongs to the function, its layout does not. */
static void store(struct layer *l)
{
    double x[NUM_MAX_PAIRS * 32], w[NUM_MAX_PAIRS * 32];

    l->stored = num_alloc((size_t)(l->keys * (l->latent + l->rope)) *
                          sizeof(*l->stored));
    get_row(&l->input[LAYER_NORM_WEIGHT], 0, l->latent, w);
    for (int64_t s = 0; s < l->keys; s++) {
        double *row = l->stored + s * (l->latent + l->rope);
        get_row(&l->input[LAYER_LATENTS], s * l->latent, l->latent, x);
        oracle_rmsnorm(x, w, l->latent, l->model->norm_eps, row);
        for (int k = 0; k < l->latent; k++)
            row[k] = rounded(l->dtype, l->model->latent_factor * row[k]);
        get_row(&l->input[LAYER_K_ROPE], s * l->rope, l->rope, x);
        rotate(l, x, (int64_t)get(&l->input[LAYER_POSITIONS], s),
               row + l->latent);
        for (int k = 0; k < l->rope; k++)
            row[l->latent + k] = rounded(l->dtype, row[l->latent + k]);
    }
}

/* A head's part of kv_b_proj, [R][DN + DV]: exact in singles. */
static void head_weights(const struct layer *l, int h, float *out)
{
    const struct layer_image *w = &l->input[LAYER_WEIGHTS];
    int64_t rows = l->nope + l->v, first = h * rows * l->latent;

    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < l->latent; k++)
            out[k * rows + i] = (float)get(w, first + i * l->latent + k);
}

/* Keys and values of a head, [S][v | k_nope | k_rope], in single precision:
 * 2^-24 of error where a kernel has 2^-8 or 2^-11. */
static void head_keys(const struct layer *l, const float *weights, float *out)
{
    int64_t rows = l->nope + l->v, width = rows + l->rope;
    double y[NUM_MAX_PAIRS * 16], size[NUM_MAX_PAIRS * 16];

    for (int64_t s = 0; s < l->keys; s++) {
        const double *row = l->stored + s * (l->latent + l->rope);
        float *key = out + s * width;
        oracle_product(row, weights, l->latent, (int)rows, y, size);
        for (int i = 0; i < l->v; i++)
            key[i] = (float)y[l->nope + i];
        for (int i = 0; i < l->nope; i++)
            key[l->v + i] = (float)y[i];
        for (int i = 0; i < l->rope; i++)
            key[rows + i] = (float)row[l->latent + i];
    }
}

/* The query in double, with zeros where the value is. */
static void full_query(const struct layer *l, int64_t row, double *q)
{
    const struct num_model *m = l->model;
    const struct layer_image *raw = &l->input[LAYER_RAW_Q];
    int64_t position =
        (int64_t)get(&l->input[LAYER_Q_POSITIONS], row / l->heads);
    int64_t first = row * (l->nope + l->rope);
    double rope[NUM_MAX_PAIRS * 2];
    double factor =
        m->factor_beta == 0
            ? 1
            : oracle_position_factor(m->factor_beta, m->factor_original,
                                     (double)position);

    memset(q, 0, (size_t)l->v * sizeof(*q));
    get_row(raw, first, l->nope, q + l->v);
    get_row(raw, first + l->nope, l->rope, rope);
    rotate(l, rope, position, q + l->v + l->nope);
    for (int i = 0; i < l->nope + l->rope; i++)
        q[l->v + i] *= factor;
}

/* Softmax attention of all new tokens for one head. */
static void attend(const struct layer *l, int h, const float *keys)
{
    int width = l->v + l->nope + l->rope;
    double q[NUM_MAX_PAIRS * 32], size[NUM_MAX_PAIRS * 16], lse, lse_size;
    int64_t first = 0, token = 0;

    for (int b = 0; b < l->shape->requests; b++) {
        struct layer_request r = l->shape->request[b];
        for (int i = 0; i < r.fresh; i++, token++) {
            int64_t row = token * l->heads + h;
            struct oracle_keys seen = {keys + first * width, r.prefix + i + 1,
                                       width, l->v};
            full_query(l, row, q);
            oracle_attention(q, &seen, l->softmax_scale, exp(1), -INFINITY,
                             l->want + row * l->v, size, &lse, &lse_size);
        }
        first += r.prefix + r.fresh;
    }
}

/* Head by head, so that the expanded keys of one head are all that has to be
 * kept. */
static void find_reference(struct layer *l)
{
    size_t rows = (size_t)(l->nope + l->v);
    float *weights = num_alloc(rows * (size_t)l->latent * sizeof(*weights));
    float *keys =
        num_alloc((size_t)l->keys * (rows + (size_t)l->rope) * sizeof(*keys));

    store(l);
    l->want = num_alloc((size_t)layer_out_elements(l) * sizeof(*l->want));
    for (int h = 0; h < l->heads; h++) {
        head_weights(l, h, weights);
        head_keys(l, weights, keys);
        attend(l, h, keys);
    }
    free(weights);
    free(keys);
}

/* ------------------------------------------------------------------------- */

struct layer *layer_make(const struct layer *like,
                         const struct layer_shape *shape, uint64_t seed)
{
    struct layer *l = num_alloc(sizeof(*l));
    struct num_rng rng = {seed};

    *l = *like;
    l->shape = shape;
    l->softmax_scale = (float)oracle_softmax_scale(&l->model->rope, l->nope);
    count_tokens(l);
    make_images(l);
    fill_inputs(l, &rng);
    find_reference(l);
    return l;
}

void layer_free(struct layer *l)
{
    for (int i = 0; i < LAYER_INPUTS; i++)
        free(l->input[i].data);
    free(l->stored);
    free(l->want);
    free(l);
}
