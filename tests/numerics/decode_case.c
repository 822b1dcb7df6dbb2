/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_case.c: the tensors of a decode step.
 *
 * A case is built in this order because each step needs the one before: the
 * lengths, capacities of the work list, pages for the keys, then tensors,
 * whose live rows are what the lengths and pages say, then their contents.
 */
#include <stdlib.h>
#include <string.h>

#include "decode.h"

/* ITEM_INTS, HEADER_INTS: words of a work item and of the header, as the
 * contract of decode_plan has them.  SPARE_ENTRIES: columns of the block table
 * behind the last that is used. */
enum { ITEM_INTS = 8, HEADER_INTS = 8, SPARE_ENTRIES = 3 };

/* Tensor, batch stride, token stride, head stride: the names of the manifest.
 * A num_tensor has two axes, so token and head strides are bound as numbers
 * that follow from one of them (struct decode_places). */
const char *const decode_q_names[4] = {"q", "q_batch_stride",
                                       "q_token_stride", "q_head_stride"};
const char *const decode_out_names[4] = {
    "out", "out_batch_stride", "out_token_stride", "out_head_stride"};
const char *const decode_lse_names[4] = {
    "lse", "lse_batch_stride", "lse_token_stride", "lse_head_stride"};

/* Lengths and pages ------------------------------------------------------- */

struct decode_task decode_task_of(const struct num_case *c, int64_t first,
                                  int64_t batch)
{
    const struct decode_own *o = c->own;
    const struct decode_shape *s = o->shape;

    return (struct decode_task){
        o->length + first, batch,
        s->q_len,          o->kernels->decode.info.heads,
        o->kernels->rows,  o->kernels->keys,
        s->ctas,           s->min_tiles,
        s->split_tiles};
}

/* Of a request whose last keys alone are visited, `length` says how many. */
static void set_lengths(struct num_case *c)
{
    struct decode_own *o = c->own;
    const struct decode_shape *s = o->shape;

    for (int b = 0; b < s->batch; b++) {
        o->length[b] = s->lengths[b];
        if (decode_is(c, DECODE_REPLAY))
            o->earlier[b] = s->lengths[(b + 1) % s->batch];
        if (!decode_is(c, DECODE_LAST_KEYS))
            continue;
        o->length[b] = INT32_MAX;
        o->first[b] = (INT32_MAX - (int64_t)s->lengths[b]) /
                      o->kernels->keys * o->kernels->keys;
    }
}

/* Every third page is a hole, with ids of all sizes below 0. */
static int64_t hole(struct num_rng *rng, int64_t i)
{
    return i % 2 ? -1 : -1 - num_below(rng, INT32_MAX);
}

/* Gives each request its pages; returns how many the pool has. */
static int64_t choose_pages(struct num_case *c)
{
    struct decode_own *o = c->own;
    int64_t p = c->subject->info.page_size, total = 0, pages, at = 0;
    int64_t *id;

    for (int b = 0; b < o->shape->batch; b++) {
        int32_t end = o->earlier[b] > o->length[b] ? o->earlier[b]
                                                   : o->length[b];
        o->pages[b] = end > 0 ? (end - 1) / p - o->first[b] / p + 1 : 0;
        total += o->pages[b];
    }
    /* All requests draw from one permutation: their pages are mixed up. */
    id = num_alloc((size_t)(total + 1) * sizeof(*id));
    num_pick_pages(c, total, &pages, id);
    for (int64_t i = 0; i < total && num_is(c, NUM_HOLES); i++)
        if (i % 3 == 1)
            id[i] = hole(&c->rng, i);
    for (int b = 0; b < o->shape->batch; b++) {
        o->page[b] = num_alloc((size_t)(o->pages[b] + 1) * sizeof(*id));
        memcpy(o->page[b], id + at, (size_t)o->pages[b] * sizeof(*id));
        at += o->pages[b];
    }
    free(id);
    return pages;
}

/* The capacities that the contract asks for, or one less. */
static void choose_capacity(struct num_case *c)
{
    struct decode_own *o = c->own;
    struct decode_task task = decode_task_of(c, 0, c->tokens);
    struct decode_totals all = decode_total(&task);
    int64_t items, slots;

    decode_capacity(&task, &o->items, &o->slots);
    if (decode_is(c, DECODE_REPLAY)) {
        task.lengths = o->earlier;
        decode_capacity(&task, &items, &slots);
        o->items = items > o->items ? items : o->items;
        o->slots = slots > o->slots ? slots : o->slots;
    }
    /* One less than the list needs, not than its capacity would be. */
    if (decode_is(c, DECODE_FEW_ITEMS))
        o->items = all.items - 1;
    if (decode_is(c, DECODE_FEW_SLOTS))
        o->slots = all.slots - 1;
    o->overflows = all.items > o->items || all.slots > o->slots;
}

/* Tensors ----------------------------------------------------------------- */

/* A workspace: poisoned before, not judged after. */
static struct num_tensor *add_scratch(struct num_case *c, const char *field,
                                      enum num_elem elem, int64_t width)
{
    struct num_tensor *t = num_add_vector(c, field, elem, width);
    t->scratch = true;
    return t;
}

/* What decode_plan writes and the others read. */
static void add_work_list(struct num_case *c)
{
    const struct decode_own *o = c->own;
    /* by the case, not by the plan */
    bool given = decode_is(c, DECODE_LAST_KEYS);

    c->subject = given ? &o->kernels->decode : &o->kernels->plan;
    if (!given)
        num_add_vector(c, "seq_lens", NUM_I32, c->tokens)->token_axis =
            NUM_ROW_AXIS;
    num_add_vector(c, "header", NUM_I32, HEADER_INTS)->scratch = !given;
    num_add_vector(c, "item_begin", NUM_I32, o->shape->ctas + 1)->scratch =
        !given;
    num_add_vector(c, "items", NUM_I32,
                   ITEM_INTS * (given ? c->tokens * o->row_tiles : o->items))
        ->scratch = !given;
    if (!given)
        add_scratch(c, "unit_slots", NUM_I32, c->tokens * o->row_tiles + 1);
    c->subject = &o->kernels->decode;
    add_scratch(c, "partial_o", NUM_F32,
                o->slots * o->kernels->rows * c->subject->info.latent);
    add_scratch(c, "partial_lse", NUM_F32, o->slots * o->kernels->rows);
}

/* Places with a gap where the layout has one: heads inside tokens, or, when
 * the axes are swapped, tokens inside heads. */
static struct decode_places places_of(int64_t heads, int64_t q_len,
                                      enum num_layout layout)
{
    switch (layout) {
    case NUM_SWAPPED:
        return (struct decode_places){1, q_len + 1, heads * (q_len + 1)};
    case NUM_PADDED:
        return (struct decode_places){heads + 1, 1, q_len * (heads + 1)};
    default:
        return (struct decode_places){heads, 1, q_len * heads};
    }
}

struct num_tensor *decode_add_grid(struct num_case *c,
                                   const char *const names[4],
                                   enum num_elem elem, int64_t width,
                                   int q_len, enum num_layout layout,
                                   struct decode_places *places)
{
    struct num_tensor *t;

    *places = places_of(c->subject->info.heads, q_len, layout);
    t = num_add_grid(c, names[0], names[1], "", elem, c->tokens,
                     places->count, width, layout);
    t->token_axis = 0;
    num_add_int(c, names[2], places->token * t->stride[1]);
    num_add_int(c, names[3], places->head * t->stride[1]);
    return t;
}

struct decode_place decode_place_of(const struct num_case *c,
                                    const struct decode_places *p,
                                    const int64_t *index)
{
    bool heads_outside = p->head > p->token;
    int64_t outer = heads_outside ? p->head : p->token;
    int64_t token = heads_outside ? index[1] % outer : index[1] / outer;
    int64_t head = heads_outside ? index[1] / outer : index[1] % outer;

    return (struct decode_place){
        index[0], token * c->subject->info.heads + head, token, head};
}

/* A grid of places, all rows of which are the call's; the places between them
 * are foreign. */
static void add_rows(struct num_case *c, const char *const names[4],
                     enum num_elem elem, int64_t width,
                     enum num_layout layout, struct decode_places *places)
{
    const struct decode_own *o = c->own;
    int heads = c->subject->info.heads;
    struct num_tensor *t = decode_add_grid(c, names, elem, width,
                                           o->shape->q_len, layout, places);

    for (int64_t b = 0; b < c->tokens; b++)
        for (int64_t r = 0; r < o->rows; r++)
            num_claim(t, b, places->token * (r / heads) +
                                places->head * (r % heads));
}

/* q, out and lse: three layouts that need not agree. */
static void add_queries_and_outputs(struct num_case *c)
{
    struct decode_own *o = c->own;
    const mla_kernel_info *k = &c->subject->info;
    enum num_elem dtype = c->subject->dtype;

    add_rows(c, decode_q_names, dtype, k->latent + k->rope, o->shape->q,
             &o->q);
    add_rows(c, decode_out_names, dtype, k->latent, o->shape->out, &o->out);
    if (decode_is(c, DECODE_NO_LSE))
        num_add_null(c, "lse");
    else
        add_rows(c, decode_lse_names, NUM_F32, 1, o->shape->lse, &o->lse);
}

/* Claims the rows that hold keys, of the longer of both lengths in a replay;
 * every other row is foreign. */
static void add_pool(struct num_case *c, int64_t pages)
{
    const struct decode_own *o = c->own;
    int64_t p = c->subject->info.page_size;
    struct num_tensor *pool = num_add_pool(c, pages, o->shape->pool);

    for (int b = 0; b < o->shape->batch; b++) {
        int64_t end = o->earlier[b] > o->length[b] ? o->earlier[b]
                                                   : o->length[b];
        for (int64_t s = o->first[b]; s < end; s++) {
            int64_t page = o->page[b][s / p - o->first[b] / p];
            if (page >= 0)
                num_claim(pool, page, s % p);
        }
    }
    pool->foreign = pool->rows == 0;
}

/* A row of entries per request, or, when only the last keys of billions
 * exist, single entries far apart. */
static void add_table(struct num_case *c)
{
    const struct decode_own *o = c->own;
    int64_t p = c->subject->info.page_size, entries = SPARE_ENTRIES;
    struct num_tensor *t;

    /* Columns behind the used ones exist in every table of a server. */
    for (int b = 0; b < o->shape->batch; b++) {
        int64_t end = o->first[b] / p + o->pages[b] + SPARE_ENTRIES;
        entries = end > entries ? end : entries;
    }
    if (!decode_is(c, DECODE_LAST_KEYS)) {
        num_add_rows(c, "block_table", "block_table_stride", NUM_I32,
                     c->tokens, entries, o->shape->pool == NUM_TIGHT
                                             ? NUM_TIGHT
                                             : NUM_PADDED)
            ->token_axis = 0;
        return;
    }
    t = num_add_grid(c, "block_table", "block_table_stride", "", NUM_I32,
                     c->tokens, entries, 1, NUM_TIGHT);
    t->sparse = true;
    t->token_axis = 0;
    for (int b = 0; b < o->shape->batch; b++)
        for (int64_t i = 0; i < o->pages[b]; i++)
            num_claim(t, b, o->first[b] / p + i);
}

/* The counts; each of the three kernels binds those it has. */
static void add_ints(struct num_case *c)
{
    const struct decode_own *o = c->own;
    const struct decode_shape *s = o->shape;

    num_add_int(c, "batch", s->batch);
    num_add_int(c, "q_len", s->q_len);
    num_add_int(c, "ctas", s->ctas);
    num_add_int(c, "min_tiles", s->min_tiles);
    num_add_int(c, "split_tiles", s->split_tiles);
    num_add_int(c, "rows_per_tile", o->kernels->rows);
    num_add_int(c, "keys_per_tile", o->kernels->keys);
    num_add_int(c, "item_capacity", o->items);
    num_add_int(c, "slot_capacity", o->slots);
}

/* Contents ---------------------------------------------------------------- */

/* Entries past the used ones are dead, or hold what is easily left there. */
static void fill_table(struct num_case *c)
{
    static const int32_t left[] = {-1, -7777777, INT32_MAX, 999999};
    const struct decode_own *o = c->own;
    struct num_tensor *t = num_tensor_of(c, "block_table");
    int64_t p = c->subject->info.page_size;
    bool sparse = decode_is(c, DECODE_LAST_KEYS);

    for (int b = 0; b < o->shape->batch; b++) {
        for (int64_t i = 0; i < o->pages[b]; i++)
            num_set(t, b, sparse ? o->first[b] / p + i : 0, sparse ? 0 : i,
                    (double)o->page[b][i]);
        for (int64_t i = o->pages[b]; i < t->width && !sparse; i++)
            if (decode_is(c, DECODE_TAILS))
                num_set(t, b, 0, i, left[(b + i) % 4]);
            else
                num_kill(t, b, 0, i, 1);
    }
}

/* One item per unit, from the first visited key to the last, written
 * directly; block k gets items k, k + 1, ... of the units in order. */
static void fill_work_list(struct num_case *c)
{
    const struct decode_own *o = c->own;
    int64_t units = c->tokens * o->row_tiles, n = o->kernels->keys;
    struct num_tensor *items = num_tensor_of(c, "items");

    num_set(num_tensor_of(c, "header"), 0, 0, 0, (double)units);
    for (int64_t k = 0; k <= o->shape->ctas; k++)
        num_set(num_tensor_of(c, "item_begin"), 0, 0, k,
                (double)(k * units / o->shape->ctas));
    for (int64_t u = 0; u < units; u++) {
        int64_t b = u / o->row_tiles;
        const int64_t item[] = {b, u % o->row_tiles, o->first[b] / n,
                                (o->length[b] - 1) / n + 1, -1,
                                o->length[b]};
        for (int i = 0; i < 6; i++)
            num_set(items, 0, 0, ITEM_INTS * u + i, (double)item[i]);
    }
}

static void build(struct num_case *c)
{
    struct decode_own *o = c->own;
    int64_t pages;

    set_lengths(c);
    /* The last keys of 2^31 come with a work list, hence no capacities. */
    if (!decode_is(c, DECODE_LAST_KEYS))
        choose_capacity(c);
    pages = choose_pages(c);
    add_work_list(c);
    add_queries_and_outputs(c);
    add_pool(c, pages);
    add_table(c);
    add_ints(c);
    num_seal_all(c);
    decode_fill(c);
    fill_table(c);
    if (decode_is(c, DECODE_LAST_KEYS))
        fill_work_list(c);
    for (int64_t b = 0; b < c->tokens && !decode_is(c, DECODE_LAST_KEYS); b++)
        num_set(num_tensor_of(c, "seq_lens"), 0, 0, b, o->length[b]);
}

/* Ends the program for a batch beyond DECODE_MAX_BATCH: an error in a table of
 * shapes. */
struct num_case *decode_case_make(const struct decode_kernels *k,
                                  const struct decode_shape *shape,
                                  uint64_t seed)
{
    struct num_case *c = num_alloc(sizeof(*c));
    struct decode_own *o = num_alloc(sizeof(*o));
    const mla_kernel_info *info = &k->decode.info;

    if (shape->batch > DECODE_MAX_BATCH)
        abort();
    c->subject = &k->decode;
    c->family = shape->flags & DECODE_LAST_KEYS ? &decode_last_keys
                                                : &decode_pipeline;
    c->own = o;
    c->shape = (struct num_shape){shape->group, shape->batch, shape->q,
                                  shape->out,   shape->flags, false};
    c->tokens = shape->batch;
    c->rng.state = seed;
    c->softmax_scale = (float)oracle_softmax_scale(&k->decode.model->rope,
                                                   info->nope);
    o->kernels = k;
    o->shape = shape;
    o->rows = (int64_t)shape->q_len * info->heads;
    o->row_tiles = (o->rows + k->rows - 1) / k->rows;
    o->lse_of = num_alloc((size_t)(shape->batch * o->rows + 1) *
                          sizeof(*o->lse_of));
    build(c);
    return c;
}

void decode_case_free(struct num_case *c)
{
    struct decode_own *o = c->own;

    for (int b = 0; b < DECODE_MAX_BATCH; b++)
        free(o->page[b]);
    free(o->lse_of);
    free(o);
    num_case_free(c);
}
