/* SPDX-License-Identifier: Apache-2.0
 *
 * family_pool.c: kv_append and kv_gather, the two ways through the latent
 * pool.
 *
 * kv_append writes a token's row [norm(latent) | RoPE(k_rope)] to its slot.
 * kv_gather reads rows back, by a list of slots or by page table and range.
 * Slot s is row s % P of page s / P.
 *
 * The pool is the case's whole pool: rows that no slot names, pages that are
 * not the call's and the gaps between pages are foreign, and poisoned.
 */
#include <math.h>
#include <stdlib.h>

#include "family.h"

/* The pool --------------------------------------------------------------- */

/* [pages][P][latent | rope], without a claim. */
struct num_tensor *num_add_pool(struct num_case *c, int64_t pages,
                                enum num_layout layout)
{
    const mla_kernel_info *k = &c->subject->info;
    struct num_tensor *t = num_add_grid(
        c, "kv_cache", "page_stride", "row_stride", c->subject->dtype, pages,
        k->page_size, k->latent + k->rope, layout);
    t->sparse = t->sparse || num_is(c, NUM_FAR_IDS);
    return t;
}

/* `count` different ids, scattered; *pages: how many the pool has.  With
 * NUM_FAR_IDS they lie on both sides of the page at 2^31 bytes and beyond that
 * at 2^32, where 32-bit offsets go wrong. */
void num_pick_pages(struct num_case *c, int64_t count, int64_t *pages,
                    int64_t *out)
{
    const mla_kernel_info *k = &c->subject->info;
    int64_t bytes = (int64_t)k->page_size * (k->latent + k->rope) *
                    (int64_t)num_elem_bytes(c->subject->dtype);
    int64_t edge = ((int64_t)1 << 31) / bytes;
    int64_t first = c->shape.tokens % 2 ? 0 : 2;

    *pages = count + first;
    /* The pool is as long as its greatest id says, though few pages of it
     * exist (it is sparse). */
    if (num_is(c, NUM_FAR_IDS))
        *pages = 2 * edge + count + 2;
    num_permutation(&c->rng, count, out);
    for (int64_t i = 0; i < count && num_is(c, NUM_FAR_IDS); i++)
        out[i] += out[i] % 2 ? 2 * edge - 1 : edge - 1;
    for (int64_t i = 0; i < count && !num_is(c, NUM_FAR_IDS); i++)
        out[i] += first; /* page 0 is in use, or is not the call's at all */
}

/* Normal numbers, or bits of any kind for cases whose rows are copied. */
static void fill(struct num_case *c, struct num_tensor *t, double scale)
{
    if (num_is(c, NUM_SPECIAL))
        num_fill_bits(t, &c->rng);
    else
        num_fill_normal(t, scale, &c->rng);
}

/* Of a row of the pool. */
static double row_elements(const struct num_subject *s)
{
    return s->info.latent + s->info.rope;
}

/* kv_append -------------------------------------------------------------- */

/* Where the greatest or the least page id is. */
static int64_t end_page(const int64_t *page, int64_t count, bool greatest)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (greatest ? page[i] > page[best] : page[i] < page[best])
            best = i;
    return best;
}

/* Moves the value to place `at` of a permutation of n numbers. */
static void bring(int64_t *order, int64_t n, int64_t value, int64_t at)
{
    for (int64_t i = 0; i < n; i++)
        if (order[i] == value) {
            order[i] = order[at];
            order[at] = value;
            return;
        }
}

/* Every token gets a slot of its own, on scattered pages; token 0 the last
 * slot there is, so that a row too long leaves the pool, token 2 the first. */
static int64_t *make_slots(struct num_case *c, int64_t *pages)
{
    int64_t p = c->subject->info.page_size, n = c->tokens;
    int64_t count = n / p + 3;
    int64_t *page = num_alloc((size_t)count * sizeof(*page));
    int64_t *order = num_alloc((size_t)(count * p) * sizeof(*order));

    num_pick_pages(c, count, pages, page);
    num_permutation(&c->rng, count * p, order);
    bring(order, count * p, end_page(page, count, true) * p + p - 1, 0);
    if (n > 2)
        bring(order, count * p, end_page(page, count, false) * p, 2);
    for (int64_t i = 0; i < n; i++)
        order[i] = page[order[i] / p] * p + order[i] % p;
    for (int64_t i = 1; i < n && num_is(c, NUM_HOLES); i += 3)
        order[i] = i % 2 ? -1 : -1 - num_below(&c->rng, (int64_t)1 << 40);
    free(page);
    return order;
}

/* Only the rows that slots name belong to the call; all others of the pool
 * are foreign. */
static void append_tensors(struct num_case *c, const int64_t *slot,
                           int64_t pages)
{
    const mla_kernel_info *k = &c->subject->info;
    struct num_tensor *pool;

    num_add_tokens(c, "latent", k->latent, c->shape.in);
    if (k->rope)
        num_add_tokens(c, "k_rope", k->rope, c->shape.in);
    if (num_is(c, NUM_NO_NORM))
        num_add_null(c, "norm_weight");
    else
        num_add_vector(c, "norm_weight", c->subject->dtype, k->latent);
    num_add_angles(c);
    num_add_vector(c, "slots", NUM_I64, c->tokens)->token_axis = NUM_ROW_AXIS;
    pool = num_add_pool(c, pages, c->shape.out);
    for (int64_t i = 0; i < c->tokens; i++)
        if (slot[i] >= 0)
            num_claim(pool, slot[i] / k->page_size, slot[i] % k->page_size);
    /* A batch without a slot writes nothing: all of the pool is foreign. */
    pool->foreign = pool->rows == 0;
}

/* Rows of very different size, so that epsilon matters to some: normal numbers
 * times 2^-10 to 2^3. */
static void fill_rows(struct num_case *c, struct num_tensor *t)
{
    size_t es = num_elem_bytes(t->elem);
    for (int64_t i = 0; i < t->n[0]; i++) {
        double scale = ldexp(1, 3 - (int)num_below(&c->rng, 14));
        unsigned char *at = num_at(t, i, 0, 0);
        for (int64_t k = 0; k < t->width; k++)
            num_encode(t->elem, at + (size_t)k * es,
                       scale * num_normal(&c->rng));
    }
}

/* Tokens without a slot are dead: their rows may hold anything. */
static void build_append(struct num_case *c)
{
    int64_t pages, *slot = make_slots(c, &pages);
    struct num_tensor *t;

    append_tensors(c, slot, pages);
    num_seal_all(c);
    num_fill_angles(c);
    for (int64_t i = 0; i < c->tokens; i++)
        num_set_bits(NUM_I64, num_at(num_tensor_of(c, "slots"), 0, 0, i),
                     (uint64_t)slot[i]);
    if (num_is(c, NUM_SPECIAL))
        num_fill_bits(num_tensor_of(c, "latent"), &c->rng);
    else
        fill_rows(c, num_tensor_of(c, "latent"));
    t = num_tensor_of(c, "k_rope");
    if (t)
        fill(c, t, 1);
    t = num_tensor_of(c, "norm_weight");
    if (t)
        num_fill_normal(t, 1, &c->rng);
    for (int64_t i = 0; i < c->tokens; i++) {
        if (slot[i] >= 0)
            continue;
        num_kill(num_tensor_of(c, "latent"), i, 0, 0,
                 c->subject->info.latent);
        if (c->subject->info.rope)
            num_kill(num_tensor_of(c, "k_rope"), i, 0, 0,
                     c->subject->info.rope);
    }
    free(slot);
}

/* The token that a row of the pool comes from. */
static int64_t append_owner(const struct num_case *c,
                            const struct num_tensor *t, const int64_t *index)
{
    const struct num_tensor *slots = num_tensor_of(c, "slots");
    int64_t slot = index[0] * c->subject->info.page_size + index[1];
    (void)t;
    for (int64_t i = 0; i < c->tokens; i++)
        if ((int64_t)num_bits(NUM_I64, num_at(slots, 0, 0, i)) == slot)
            return i;
    return -1;
}

/* Columns 0 .. R - 1: copied, or normalised in single precision; times the
 * model's factor. */
static void expect_latent(const struct num_case *c, struct num_expect *e,
                          int64_t token)
{
    const struct num_tensor *x = num_tensor_of(c, "latent");
    const struct num_tensor *weight = num_tensor_of(c, "norm_weight");
    double in[NUM_MAX_WIDTH], w[NUM_MAX_WIDTH], out[NUM_MAX_WIDTH];
    double factor = c->subject->model->latent_factor;
    int n = c->subject->info.latent;

    if (!weight && factor != 1) {
        num_get_row(x, token, 0, in);
        for (int k = 0; k < n; k++)
            num_expect_value(e, k, x->elem, factor * in[k],
                             isfinite(in[k]) ? 0x1p-23 * fabs(factor * in[k])
                                             : 0);
        return;
    }
    if (!weight) {
        for (int k = 0; k < n; k++)
            num_expect_bits(e, k,
                            num_bits(x->elem, num_at(x, token, 0, k)));
        return;
    }
    num_get_row(x, token, 0, in);
    num_get_row(weight, 0, 0, w);
    oracle_rmsnorm(in, w, n, c->norm_eps, out);
    /* n squares are summed in single precision; all terms are positive. */
    for (int k = 0; k < n; k++) {
        double y = factor * out[k];
        num_expect_value(e, k, x->elem, y,
                         isfinite(y) ? (n + 16) * 0x1p-24 * fabs(y) : 0);
    }
}

/* A row of the pool, from the token that its slot belongs to. */
static void append_row(const struct num_case *c, const struct num_tensor *t,
                       const int64_t *index, struct num_expect *e)
{
    int64_t token = append_owner(c, t, index);
    expect_latent(c, e, token);
    if (c->subject->info.rope)
        num_expect_rope(c, e, c->subject->info.latent,
                        num_tensor_of(c, "k_rope"), token, 0, 1);
}

/* Thread instructions per token, measured roughly. */
static double append_work(const struct num_subject *s)
{
    return 14 * row_elements(s);
}

/* Group, tokens, layouts of the inputs and of the pool, flags, full only.
 *
 * Unless its ids are far, an even number of tokens leaves pages 0 and 1 to
 * others, an odd one uses them (num_pick_pages).  Special values go without
 * the norm: a copy has to keep every bit of a NaN. */
static const struct num_shape append_shapes[] = {
    {"strides", 5, NUM_PADDED, NUM_INTERLEAVED, 0, false},
    {"strides", 6, NUM_INTERLEAVED, NUM_SWAPPED, 0, false},
    {"skipped slots", 17, NUM_TIGHT, NUM_PADDED, NUM_HOLES, false},
    {"without norm", 9, NUM_PADDED, NUM_TIGHT, NUM_NO_NORM, false},
    {"special values", 12, NUM_TIGHT, NUM_PADDED, NUM_NO_NORM | NUM_SPECIAL,
     false},
    {"poison", 7, NUM_PADDED, NUM_PADDED, NUM_ALL_POISONS | NUM_HOLES, false},
    {"far", 3, NUM_FAR_OUTER, NUM_FAR_OUTER, 0, false},
    {"far", 3, NUM_TIGHT, NUM_FAR_INNER, 0, false},
    {"far", 6, NUM_PADDED, NUM_TIGHT, NUM_FAR_IDS, false},
    {"alone", 9, NUM_PADDED, NUM_PADDED, NUM_WINDOWS | NUM_HOLES, false},
};

const struct num_family num_kv_append = {
    .name = "kv_append",
    .bar = "2^-p|y| + (R+16)2^-24|y|",
    .build = build_append,
    .row = append_row,
    .owner = append_owner,
    .token_work = append_work,
    NUM_SHAPES(append_shapes),
};

/* kv_gather -------------------------------------------------------------- */

/* Which row of the pool an output row comes from; page < 0: zeros. */
struct source {
    int64_t page, row;
};

/* Of the pool a gather may read those rows, and no others: where there is none,
 * nothing, and not all of it as by default. */
static void claim_sources(struct num_tensor *pool, const struct source *from,
                          int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (from[i].page >= 0)
            num_claim(pool, from[i].page, from[i].row);
    pool->foreign = pool->rows == 0;
}

/* Slots may repeat: two output rows from one.  Row 0 is the pool's last, row 2
 * its first. */
static void gather_by_slot(struct num_case *c, struct source *from)
{
    int64_t p = c->subject->info.page_size, n = c->tokens, pages;
    int64_t count = n / p + 2;
    int64_t *page = num_alloc((size_t)count * sizeof(*page));

    num_pick_pages(c, count, &pages, page);
    for (int64_t i = 0; i < n; i++) {
        from[i].page = page[num_below(&c->rng, count)];
        from[i].row = num_below(&c->rng, p);
        if (i == 0 || i == 2) {
            from[i].page = page[end_page(page, count, i == 0)];
            from[i].row = i == 0 ? p - 1 : 0;
        }
        if (num_is(c, NUM_HOLES) && i % 3 == 1)
            from[i].page = -1;
    }
    free(page);
    num_add_vector(c, "slots", NUM_I64, n)->token_axis = NUM_ROW_AXIS;
    num_add_null(c, "block_table");
    num_add_null(c, "starts");
    num_add_null(c, "cu_seqlens");
    num_add_int(c, "batch", 0);
    claim_sources(num_add_pool(c, pages, c->shape.in), from, n);
    num_seal_all(c);
    for (int64_t i = 0; i < n; i++)
        num_set(num_tensor_of(c, "slots"), 0, 0, i,
                from[i].page < 0 ? -1 - (double)num_below(&c->rng, 9)
                                 : (double)(from[i].page * p + from[i].row));
}

/* Requests of a gather by page: where each begins in its own sequence, and how
 * many rows come before it. */
struct batch {
    int64_t size, width; /* requests, columns of the table */
    int64_t *start, *first; /* [size], [size + 1] */
    int64_t *page;          /* [size][width]; -2: not used */
};

/* Lengths with empty requests at both ends and between: a search for a row's
 * request must step over them. */
static void make_lengths(struct num_case *c, struct batch *b)
{
    int64_t p = c->subject->info.page_size, total = c->tokens, longest = 0;

    /* SHORT: the lengths' sum is more than the output has rows; EXCESS: less,
     * and the rows beyond it must not be touched. */
    if (num_is(c, NUM_SHORT))
        total += 5;
    if (num_is(c, NUM_EXCESS))
        total -= total / 3;
    b->size = 4 + total / 9;
    b->start = num_alloc((size_t)b->size * sizeof(*b->start));
    b->first = num_alloc((size_t)(b->size + 1) * sizeof(*b->first));
    for (int64_t i = 0; i < b->size; i++) {
        int64_t left = total - b->first[i];
        int64_t length = i % 3 == 0 ? 0 : num_below(&c->rng, 24);
        if (length > left || i == b->size - 2)
            length = left;
        b->first[i + 1] = b->first[i] + length;
        b->start[i] = num_is(c, NUM_NO_STARTS)
                          ? 0
                          : num_below(&c->rng, 3 * p + 2);
        if (b->start[i] + length > longest)
            longest = b->start[i] + length;
    }
    b->width = longest / p + 2;
}

/* Pages for the ranges that are read; a hole is one page of a request. */
static int64_t make_pages(struct num_case *c, struct batch *b)
{
    int64_t p = c->subject->info.page_size, pages, next = 0;
    int64_t cells = b->size * b->width;
    int64_t *id = num_alloc((size_t)cells * sizeof(*id));

    b->page = num_alloc((size_t)cells * sizeof(*b->page));
    num_pick_pages(c, cells, &pages, id);
    for (int64_t i = 0; i < cells; i++)
        b->page[i] = -2;
    for (int64_t i = 0; i < b->size; i++) {
        int64_t end = b->start[i] + b->first[i + 1] - b->first[i];
        for (int64_t k = b->start[i] / p; k * p < end; k++)
            b->page[i * b->width + k] = id[next++];
        if (num_is(c, NUM_HOLES) && b->start[i] < end)
            b->page[i * b->width + b->start[i] / p] = -1;
    }
    free(id);
    return pages;
}

/* By page, `slots` is NULL; by slot, everything else is. */
static void gather_tensors(struct num_case *c, struct batch *b, int64_t pages,
                           const struct source *from, int64_t rows)
{
    num_add_null(c, "slots");
    num_add_rows(c, "block_table", "block_table_stride", NUM_I32, b->size,
                 b->width, c->shape.in);
    if (num_is(c, NUM_NO_STARTS))
        num_add_null(c, "starts");
    else
        num_add_vector(c, "starts", NUM_I32, b->size);
    num_add_vector(c, "cu_seqlens", NUM_I32, b->size + 1);
    num_add_int(c, "batch", b->size);
    claim_sources(num_add_pool(c, pages, c->shape.in), from, rows);
    num_seal_all(c);
}

/* Table entries that no row needs are dead: a kernel must not follow them. */
static void fill_batch(struct num_case *c, const struct batch *b)
{
    struct num_tensor *table = num_tensor_of(c, "block_table");
    struct num_tensor *starts = num_tensor_of(c, "starts");

    for (int64_t i = 0; i < b->size; i++)
        for (int64_t k = 0; k < b->width; k++) {
            int64_t page = b->page[i * b->width + k];
            num_set(table, i, 0, k, (double)page);
            if (page == -2)
                num_kill(table, i, 0, k, 1);
        }
    for (int64_t i = 0; i < b->size && starts; i++)
        num_set(starts, 0, 0, i, (double)b->start[i]);
    for (int64_t i = 0; i <= b->size; i++)
        num_set(num_tensor_of(c, "cu_seqlens"), 0, 0, i,
                (double)b->first[i]);
}

/* Returns how many output rows are written. */
static int64_t gather_by_page(struct num_case *c, struct source *from)
{
    int64_t p = c->subject->info.page_size, rows, pages;
    struct batch b = {0};

    make_lengths(c, &b);
    pages = make_pages(c, &b);
    rows = b.first[b.size] < c->tokens ? b.first[b.size] : c->tokens;
    for (int64_t i = 0; i < b.size; i++)
        for (int64_t r = b.first[i]; r < b.first[i + 1] && r < rows; r++) {
            int64_t at = b.start[i] + r - b.first[i];
            from[r].page = b.page[i * b.width + at / p];
            from[r].row = at % p;
        }
    gather_tensors(c, &b, pages, from, rows);
    fill_batch(c, &b);
    free(b.start);
    free(b.first);
    free(b.page);
    return rows;
}

/* Output rows beyond the lengths' sum stay as they are. */
static void build_gather(struct num_case *c)
{
    const mla_kernel_info *k = &c->subject->info;
    struct source *from = num_alloc((size_t)(c->tokens + 1) * sizeof(*from));
    int64_t rows = c->tokens;

    num_add_tokens(c, "latent", k->latent, c->shape.out);
    if (k->rope)
        num_add_tokens(c, "k_rope", k->rope, c->shape.out);
    if (num_is(c, NUM_BY_PAGE))
        rows = gather_by_page(c, from);
    else
        gather_by_slot(c, from);
    for (int64_t i = rows; i < c->tokens; i++) {
        num_kill(num_tensor_of(c, "latent"), i, 0, 0, k->latent);
        if (k->rope)
            num_kill(num_tensor_of(c, "k_rope"), i, 0, 0, k->rope);
    }
    fill(c, num_tensor_of(c, "kv_cache"), 1);
    free(from);
}

/* Where row `token` of the output comes from, by the arguments alone and not
 * by the list that they were made from.  Rows beyond the lengths' sum are dead
 * (build_gather) and never asked for, so the search for a request ends. */
static struct source source_of(const struct num_case *c, int64_t token)
{
    int64_t p = c->subject->info.page_size, i = 0, at;
    const struct num_tensor *slots = num_tensor_of(c, "slots");
    const struct num_tensor *cu = num_tensor_of(c, "cu_seqlens");
    const struct num_tensor *starts = num_tensor_of(c, "starts");

    if (slots) {
        at = (int64_t)num_get(slots, 0, 0, token);
        return (struct source){at < 0 ? -1 : at / p, at < 0 ? 0 : at % p};
    }
    while (token >= num_get(cu, 0, 0, i + 1))
        i++;
    at = token - (int64_t)num_get(cu, 0, 0, i);
    at += starts ? (int64_t)num_get(starts, 0, 0, i) : 0;
    return (struct source){
        (int64_t)num_get(num_tensor_of(c, "block_table"), i, 0, at / p),
        at % p};
}

/* Both outputs are columns of one row of the pool. */
static void gather_row(const struct num_case *c, const struct num_tensor *t,
                       const int64_t *index, struct num_expect *e)
{
    const struct num_tensor *pool = num_tensor_of(c, "kv_cache");
    struct source from = source_of(c, index[0]);
    int64_t skip = t == num_tensor_of(c, "latent") ? 0
                                                   : c->subject->info.latent;

    for (int64_t k = 0; k < t->width; k++)
        num_expect_bits(e, k,
                        from.page < 0
                            ? 0
                            : num_bits(pool->elem, num_at(pool, from.page,
                                                          from.row, skip + k)));
}

static double gather_work(const struct num_subject *s)
{
    return 8 * row_elements(s);
}

/* Group, rows, layouts of the pool and of the outputs, flags, full only.
 *
 * By page there are 4 + rows / 9 requests (make_lengths): 1 row has four, of
 * which most are empty, and 1,021 rows have 117. */
static const struct num_shape gather_shapes[] = {
    {"strides", 5, NUM_PADDED, NUM_INTERLEAVED, 0, false},
    {"strides", 6, NUM_INTERLEAVED, NUM_PADDED, 0, false},
    {"missing slots", 17, NUM_PADDED, NUM_TIGHT, NUM_HOLES, false},
    {"by page", 1, NUM_TIGHT, NUM_TIGHT, NUM_BY_PAGE, false},
    {"by page", 33, NUM_PADDED, NUM_PADDED, NUM_BY_PAGE, false},
    {"by page", 130, NUM_SWAPPED, NUM_TIGHT, NUM_BY_PAGE, false},
    {"by page", 64, NUM_TIGHT, NUM_TIGHT, NUM_BY_PAGE | NUM_NO_STARTS, false},
    {"by page", 29, NUM_TIGHT, NUM_PADDED, NUM_BY_PAGE | NUM_HOLES, false},
    {"by page", 21, NUM_TIGHT, NUM_TIGHT, NUM_BY_PAGE | NUM_SHORT, false},
    {"by page", 23, NUM_TIGHT, NUM_PADDED, NUM_BY_PAGE | NUM_EXCESS, false},
    {"by page", 1021, NUM_PADDED, NUM_TIGHT, NUM_BY_PAGE, true},
    {"special values", 12, NUM_TIGHT, NUM_PADDED, NUM_SPECIAL, false},
    {"special values", 13, NUM_TIGHT, NUM_TIGHT, NUM_SPECIAL | NUM_BY_PAGE,
     false},
    {"poison", 19, NUM_PADDED, NUM_PADDED,
     NUM_ALL_POISONS | NUM_BY_PAGE | NUM_HOLES, false},
    {"far", 3, NUM_FAR_OUTER, NUM_FAR_OUTER, 0, false},
    {"far", 5, NUM_FAR_INNER, NUM_TIGHT, 0, false},
    {"far", 6, NUM_TIGHT, NUM_PADDED, NUM_FAR_IDS, false},
    {"far", 7, NUM_TIGHT, NUM_PADDED, NUM_FAR_IDS | NUM_BY_PAGE, false},
    {"alone", 9, NUM_PADDED, NUM_PADDED, NUM_WINDOWS | NUM_HOLES, false},
};

const struct num_family num_kv_gather = {
    .name = "kv_gather",
    .bar = "exact",
    .build = build_gather,
    .row = gather_row,
    .token_work = gather_work,
    NUM_SHAPES(gather_shapes),
};
