/* SPDX-License-Identifier: Apache-2.0
 *
 * equivalence_absorb.c: the Absorb path, which leaves the cache as it is.
 *
 * A decode step takes the same number of new tokens, at most max_q_len, of
 * every request in it.  Requests with more go in several steps, each of which
 * sees the keys up to its own last token; those that have as many tokens left
 * share a step.
 *
 * A step: absorb_q of each request's tokens, decode_plan, mqa_decode and
 * mqa_combine once for all, absorb_v of each request's results.
 */
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "equivalence.h"

/* Blocks of mqa_decode: few enough to be quick, and more than there are
 * requests, so that requests are split and combined. */
enum { CTAS = 7 };

/* A decode step. */
struct step {
    int q_len, requests;
    int request[LAYER_MAX_REQUESTS];
    int64_t first[LAYER_MAX_REQUESTS];  /* new token, of the batch's */
    int32_t length[LAYER_MAX_REQUESTS]; /* keys, with these q_len */
    const struct layer_tile *tile;
    int64_t items, slots, units;
    uint64_t q, o; /* [requests][q_len][H][R + DR], [..][R] */
    uint64_t lengths, table, header, item_begin, item, unit_slots;
    uint64_t partial_o, partial_lse;
};

/* Planning ---------------------------------------------------------------- */

/* New tokens of request b that no step has taken yet. */
static int left_of(const struct layer *l, const int *done, int b)
{
    return l->shape->request[b].fresh - done[b];
}

/* The longest step that some request has tokens for, and all that have as
 * many; done[] moves on.  False: nothing is left. */
static bool next_step(const struct layer *l, int *done, struct step *s)
{
    int64_t first = 0;

    memset(s, 0, sizeof(*s));
    for (int b = 0; b < l->shape->requests; b++)
        if (left_of(l, done, b) > s->q_len)
            s->q_len = left_of(l, done, b);
    if (s->q_len > l->max_q_len)
        s->q_len = l->max_q_len;
    for (int b = 0; b < l->shape->requests && s->q_len; b++) {
        if (left_of(l, done, b) >= s->q_len) {
            s->request[s->requests] = b;
            s->first[s->requests] = first + done[b];
            done[b] += s->q_len;
            s->length[s->requests++] = l->prefix[b] + done[b];
        }
        first += l->shape->request[b].fresh;
    }
    return s->q_len > 0;
}

/* The smallest tile that holds a request's rows, or the largest: of two that
 * both hold them the smaller is better, of two that both do not the larger. */
static const struct layer_tile *pick_tile(const struct layer_run *r, int rows)
{
    const struct layer_tile *best = &r->kernels->tile[0];

    for (int i = 1; i < r->kernels->tiles; i++) {
        const struct layer_tile *t = &r->kernels->tile[i];
        bool fits = t->rows >= rows;
        if (fits == (best->rows >= rows) ? fits == (t->rows < best->rows)
                                         : fits)
            best = t;
    }
    return best;
}

/* Tile, capacities and units of the step, the latter two by the rules that
 * the cases of mqa_decode are made with (decode.h). */
static void size_up(const struct layer_run *r, struct step *s)
{
    struct decode_task task = {.lengths = s->length,
                               .batch = s->requests,
                               .q_len = s->q_len,
                               .heads = r->layer->heads,
                               .ctas = CTAS,
                               .min_tiles = 1};

    s->tile = pick_tile(r, s->q_len * r->layer->heads);
    task.rows = s->tile->rows;
    task.keys = s->tile->keys;
    decode_capacity(&task, &s->items, &s->slots);
    s->units = decode_total(&task).units;
}

/* Rows of the block table for the requests of the step. */
static bool make_table(struct layer_run *r, struct step *s)
{
    const struct layer *l = r->layer;
    size_t row = (size_t)l->table_width * sizeof(int32_t);
    unsigned char *table = num_alloc((size_t)s->requests * row);
    bool good;

    for (int i = 0; i < s->requests; i++)
        memcpy(table + (size_t)i * row,
               l->input[LAYER_TABLE].data + (size_t)s->request[i] * row, row);
    good = layer_new(r, "block_table of a step", NUM_I32,
                     s->requests * l->table_width, table, &s->table);
    free(table);
    return good;
}

/* All that a step needs beside the layer's own; poisoned, so that a plan that
 * leaves a word unwritten shows. */
static bool make_buffers(struct layer_run *r, struct step *s)
{
    const struct layer *l = r->layer;
    int64_t rows = (int64_t)s->requests * s->q_len * l->heads;
    int64_t partials = s->slots * s->tile->rows;
    const struct {
        const char *name;
        enum num_elem elem;
        int64_t count;
        const void *data;
        uint64_t *address;
    } buffer[] = {
        {"absorbed q", l->dtype, rows * (l->latent + l->rope), NULL, &s->q},
        {"latent output", l->dtype, rows * l->latent, NULL, &s->o},
        {"seq_lens", NUM_I32, s->requests, s->length, &s->lengths},
        {"header", NUM_I32, 8, NULL, &s->header},
        {"item_begin", NUM_I32, CTAS + 1, NULL, &s->item_begin},
        {"items", NUM_I32, 8 * s->items, NULL, &s->item},
        {"unit_slots", NUM_I32, s->units + 1, NULL, &s->unit_slots},
        {"partial_o", NUM_F32, partials * l->latent, NULL, &s->partial_o},
        {"partial_lse", NUM_F32, partials, NULL, &s->partial_lse},
    };

    for (size_t i = 0; i < sizeof(buffer) / sizeof(buffer[0]); i++)
        if (!layer_new(r, buffer[i].name, buffer[i].elem, buffer[i].count,
                       buffer[i].data, buffer[i].address))
            return false;
    return make_table(r, s);
}

/* The products ------------------------------------------------------------ */

/* The i-th request's tokens of the step into the latent space. */
static bool absorb(struct layer_run *r, const struct step *s, int i)
{
    const struct layer *l = r->layer;
    int64_t head = layer_bytes(l, l->nope + l->rope), token = l->heads * head;
    int64_t wide = layer_bytes(l, l->latent + l->rope);
    int64_t row = layer_bytes(l, l->latent);
    uint64_t q = r->input[LAYER_RAW_Q] + (uint64_t)(s->first[i] * token);
    const struct layer_arg arg[] = {
        LAYER_PTR("q_nope", q),
        LAYER_INT("q_nope_token_stride", token),
        LAYER_INT("q_nope_head_stride", head),
        LAYER_PTR("q_rope", q + (uint64_t)layer_bytes(l, l->nope)),
        LAYER_INT("q_rope_token_stride", token),
        LAYER_INT("q_rope_head_stride", head),
        LAYER_PTR("kv_b", r->input[LAYER_WEIGHTS]),
        LAYER_INT("kv_b_head_stride", (l->nope + l->v) * row),
        LAYER_INT("kv_b_row_stride", row),
        LAYER_PTR("cos_sin", r->input[LAYER_COS_SIN]),
        LAYER_INT("cos_sin_stride", l->rope * (int64_t)sizeof(float)),
        LAYER_PTR("positions", r->input[LAYER_Q_POSITIONS] +
                                   (uint64_t)s->first[i] * sizeof(int64_t)),
        LAYER_PTR("q", s->q + (uint64_t)(i * s->q_len * l->heads * wide)),
        LAYER_INT("q_token_stride", l->heads * wide),
        LAYER_INT("q_head_stride", wide),
        LAYER_INT("tokens", s->q_len),
        LAYER_END};

    return layer_call(r, r->kernels->one[LAYER_ABSORB_Q], arg);
}

/* And their results out of it. */
static bool release(struct layer_run *r, const struct step *s, int i,
                    uint64_t out)
{
    const struct layer *l = r->layer;
    int64_t v = layer_bytes(l, l->v), row = layer_bytes(l, l->latent);
    uint64_t values = r->input[LAYER_WEIGHTS];
    const struct layer_arg arg[] = {
        LAYER_PTR("o", s->o + (uint64_t)(i * s->q_len * l->heads * row)),
        LAYER_INT("o_token_stride", l->heads * row),
        LAYER_INT("o_head_stride", row),
        LAYER_PTR("kv_b", values),
        LAYER_INT("kv_b_head_stride", (l->nope + l->v) * row),
        LAYER_INT("kv_b_row_stride", row),
        LAYER_PTR("out", out + (uint64_t)(s->first[i] * l->heads * v)),
        LAYER_INT("out_token_stride", l->heads * v),
        LAYER_INT("out_head_stride", v),
        LAYER_INT("tokens", s->q_len),
        LAYER_END};

    return layer_call(r, r->kernels->one[LAYER_ABSORB_V], arg);
}

/* The decode kernels ------------------------------------------------------ */

/* Lengths become the work list, on the device.  split_tiles 0: the planner
 * decides. */
static bool plan(struct layer_run *r, const struct step *s)
{
    const struct layer_arg arg[] = {LAYER_PTR("seq_lens", s->lengths),
                                    LAYER_PTR("header", s->header),
                                    LAYER_PTR("item_begin", s->item_begin),
                                    LAYER_PTR("items", s->item),
                                    LAYER_PTR("unit_slots", s->unit_slots),
                                    LAYER_INT("item_capacity", s->items),
                                    LAYER_INT("slot_capacity", s->slots),
                                    LAYER_INT("batch", s->requests),
                                    LAYER_INT("q_len", s->q_len),
                                    LAYER_INT("rows_per_tile", s->tile->rows),
                                    LAYER_INT("keys_per_tile", s->tile->keys),
                                    LAYER_INT("ctas", CTAS),
                                    LAYER_INT("min_tiles", 1),
                                    LAYER_INT("split_tiles", 0),
                                    LAYER_END};

    return layer_call(r, r->kernels->one[LAYER_PLAN], arg);
}

/* Without an LSE of its own (a NULL pointer): nobody merges a decode step. */
static bool decode(struct layer_run *r, const struct step *s)
{
    const struct layer *l = r->layer;
    int64_t wide = layer_bytes(l, l->latent + l->rope);
    int64_t row = layer_bytes(l, l->latent), token = l->heads * row;
    const struct layer_arg arg[] = {
        LAYER_PTR("q", s->q),
        LAYER_INT("q_batch_stride", s->q_len * l->heads * wide),
        LAYER_INT("q_token_stride", l->heads * wide),
        LAYER_INT("q_head_stride", wide),
        LAYER_PTR("kv_cache", r->pool),
        LAYER_INT("page_stride", r->page_stride),
        LAYER_INT("row_stride", r->row_stride),
        LAYER_PTR("block_table", s->table),
        LAYER_INT("block_table_stride",
                  l->table_width * (int64_t)sizeof(int32_t)),
        LAYER_PTR("header", s->header),
        LAYER_PTR("item_begin", s->item_begin),
        LAYER_PTR("items", s->item),
        LAYER_PTR("partial_o", s->partial_o),
        LAYER_PTR("partial_lse", s->partial_lse),
        LAYER_PTR("out", s->o),
        LAYER_INT("out_batch_stride", s->q_len * token),
        LAYER_INT("out_token_stride", token),
        LAYER_INT("out_head_stride", row),
        LAYER_PTR("lse", 0),
        LAYER_INT("lse_batch_stride", 0),
        LAYER_INT("lse_token_stride", 0),
        LAYER_INT("lse_head_stride", 0),
        LAYER_REAL("softmax_scale", l->softmax_scale),
        LAYER_INT("batch", s->requests),
        LAYER_INT("q_len", s->q_len),
        LAYER_INT("ctas", CTAS),
        LAYER_END};

    return layer_call(r, s->tile->kernel, arg);
}

/* Sums up units that were split; the others are final already.  It and
 * mqa_decode learn from the header on the device what there is to do, so no
 * length is read back between the launches. */
static bool combine(struct layer_run *r, const struct step *s)
{
    const struct layer *l = r->layer;
    int64_t row = layer_bytes(l, l->latent), token = l->heads * row;
    const struct layer_arg arg[] = {
        LAYER_PTR("header", s->header),
        LAYER_PTR("unit_slots", s->unit_slots),
        LAYER_PTR("partial_o", s->partial_o),
        LAYER_PTR("partial_lse", s->partial_lse),
        LAYER_PTR("out", s->o),
        LAYER_INT("out_batch_stride", s->q_len * token),
        LAYER_INT("out_token_stride", token),
        LAYER_INT("out_head_stride", row),
        LAYER_PTR("lse", 0),
        LAYER_INT("lse_batch_stride", 0),
        LAYER_INT("lse_token_stride", 0),
        LAYER_INT("lse_head_stride", 0),
        LAYER_INT("batch", s->requests),
        LAYER_INT("q_len", s->q_len),
        LAYER_INT("rows_per_tile", s->tile->rows),
        LAYER_END};

    return layer_call(r, r->kernels->one[LAYER_COMBINE], arg);
}

/* What the work list's header says of it: word 2 is the status, and not 0 if
 * a capacity was too small. */
static bool check_status(struct layer_run *r, const struct step *s)
{
    int32_t header[8];

    if (!layer_read(r, header, s->header, sizeof(header)))
        return false;
    return header[2] == 0 ||
           layer_fail(r, "decode_plan: status %d", (int)header[2]);
}

/* ------------------------------------------------------------------------- */

/* Its buffers are released at the end, whatever has happened. */
static bool run_step(struct layer_run *r, struct step *s, uint64_t out)
{
    int mark = r->buffers;
    bool good;

    size_up(r, s);
    good = make_buffers(r, s);
    for (int i = 0; i < s->requests && good; i++)
        good = absorb(r, s, i);
    good = good && plan(r, s) && decode(r, s) && combine(r, s) &&
           check_status(r, s);
    for (int i = 0; i < s->requests && good; i++)
        good = release(r, s, i, out);
    return layer_release(r, mark) && good;
}

bool layer_absorbed(struct layer_run *r, uint64_t out)
{
    int done[LAYER_MAX_REQUESTS] = {0};
    struct step s;
    bool good = true;

    while (good && next_step(r->layer, done, &s))
        good = run_step(r, &s, out);
    return good;
}
