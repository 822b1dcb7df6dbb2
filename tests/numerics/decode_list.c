/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_list.c: decode_plan by itself.
 *
 * Its result is not compared with another work list but with what makes one
 * right: the keys of every unit are there once and in order, the blocks have
 * the same number of tiles plus or minus one, or cuts that depend on a
 * request's own length alone; slots are prefix sums; totals and status tell
 * the truth.
 *
 * A work list in memory: a header (items, slots, status, tiles), for each
 * block where its items begin, the items (request, tile of rows, first and
 * last tile of keys, slot, length), and for each unit where its slots begin.
 */
#include <stdlib.h>
#include <string.h>

#include "decode.h"

/* The contract's numbers: words of an item and of the header and how many of
 * them mean something; words of an item; slots that are none; bits of the
 * status. */
enum { ITEM_INTS = 8, ITEM_USED = 6, HEADER_INTS = 8, HEADER_USED = 4 };
enum { REQUEST, ROW_TILE, FIRST_TILE, END_TILE, SLOT, SEQ_LEN };
enum { DIRECT = -1, REFUSED = -2 };
enum { ITEM_STATUS = 1, SLOT_STATUS = 2, SHORT_STATUS = 4 };

/* What a case keeps: the task, what follows from it, and the capacities that
 * the kernel is told. */
struct list_own {
    struct decode_task task;
    struct decode_totals all;
    int64_t item_capacity, slot_capacity;
    int32_t length[]; /* [batch] */
};

/* Making ------------------------------------------------------------------ */

/* Lengths of all sizes: zeros, a few beside q_len, and the rest spread over
 * the whole range. */
static int32_t make_length(struct num_rng *rng,
                           const struct decode_list_shape *s, int64_t i)
{
    int64_t kind = num_below(rng, 8);

    if (s->lengths)
        return s->lengths[i];
    /* One in eight is empty, one in eight about as long as its queries. */
    if (kind == 0)
        return 0;
    if (kind == 1)
        return (int32_t)num_below(rng, 2 * s->q_len + 1);
    return (int32_t)(num_below(rng, s->longest) >> (kind == 2 ? 6 : 0));
}

/* The shape's own capacities replace the sufficient ones. */
static struct list_own *make_own(const struct num_subject *plan,
                                 const struct decode_list_shape *s,
                                 struct num_rng *rng)
{
    struct list_own *o = num_alloc(sizeof(*o) + (size_t)s->batch *
                                                    sizeof(*o->length));
    for (int64_t i = 0; i < s->batch; i++)
        o->length[i] = make_length(rng, s, i);
    o->task = (struct decode_task){o->length,   s->batch,
                                   s->q_len,    plan->info.heads,
                                   s->rows,     s->keys,
                                   s->ctas,     s->min_tiles,
                                   s->split_tiles};
    o->all = decode_total(&o->task);
    decode_capacity(&o->task, &o->item_capacity, &o->slot_capacity);
    if (s->item_capacity)
        o->item_capacity = s->item_capacity;
    if (s->slot_capacity)
        o->slot_capacity = s->slot_capacity;
    return o;
}

/* Is there room for the whole list? */
static bool fits(const struct list_own *o)
{
    return o->all.items <= o->item_capacity &&
           o->all.slots <= o->slot_capacity;
}

/* When the list does not fit, only the header means anything. */
static void add_tensors(struct num_case *c, const struct list_own *o)
{
    bool scratch = !fits(o);
    struct num_tensor *items;

    num_add_vector(c, "seq_lens", NUM_I32, o->task.batch)->token_axis =
        NUM_ROW_AXIS;
    num_add_vector(c, "header", NUM_I32, HEADER_INTS);
    num_add_vector(c, "item_begin", NUM_I32, o->task.ctas + 1)->scratch =
        scratch;
    num_add_vector(c, "unit_slots", NUM_I32, o->all.units + 1)->scratch =
        scratch;
    items = num_add_rows(c, "items", "", NUM_I32, o->item_capacity, ITEM_INTS,
                         NUM_TIGHT);
    items->scratch = scratch;
    for (int64_t i = 0; i < o->all.items && !scratch; i++)
        num_claim(items, i, 0);
    items->foreign = items->rows == 0;
}

static void add_ints(struct num_case *c, const struct list_own *o)
{
    num_add_int(c, "item_capacity", o->item_capacity);
    num_add_int(c, "slot_capacity", o->slot_capacity);
    num_add_int(c, "batch", o->task.batch);
    num_add_int(c, "q_len", o->task.q_len);
    num_add_int(c, "rows_per_tile", o->task.rows);
    num_add_int(c, "keys_per_tile", o->task.keys);
    num_add_int(c, "ctas", o->task.ctas);
    num_add_int(c, "min_tiles", o->task.min_tiles);
    num_add_int(c, "split_tiles", o->task.split_tiles);
}

struct num_case *decode_list_make(const struct num_subject *plan,
                                  const struct decode_list_shape *shape,
                                  uint64_t seed)
{
    struct num_case *c = num_alloc(sizeof(*c));
    struct list_own *o;

    c->subject = plan;
    c->family = &decode_list;
    c->shape.group = shape->group;
    c->shape.tokens = c->tokens = shape->batch;
    c->rng.state = seed;
    o = make_own(plan, shape, &c->rng);
    c->own = o;
    add_tensors(c, o);
    add_ints(c, o);
    num_seal_all(c);
    num_kill(num_tensor_of(c, "header"), 0, 0, HEADER_USED,
             HEADER_INTS - HEADER_USED);
    for (int64_t i = 0; i < num_tensor_of(c, "items")->rows; i++)
        num_kill(num_tensor_of(c, "items"), i, 0, ITEM_USED,
                 ITEM_INTS - ITEM_USED);
    for (int64_t i = 0; i < shape->batch; i++)
        num_set(num_tensor_of(c, "seq_lens"), 0, 0, i, o->length[i]);
    return c;
}

void decode_list_free(struct num_case *c)
{
    free(c->own);
    num_case_free(c);
}

/* Judging ----------------------------------------------------------------- */

/* What the kernel wrote. */
static int64_t got(struct num_case *c, const char *field, int64_t row,
                   int64_t column)
{
    int64_t within;
    struct num_extent *e = num_locate(num_tensor_of(c, field), row, 0,
                                      column, &within);
    return (int32_t)num_bits(NUM_I32, e->kept + within);
}

/* Fails the case when a number is not what it has to be; false then. */
static bool expect(struct num_case *c, struct num_verdict *v,
                   const char *what, int64_t index, int64_t is, int64_t want)
{
    if (is == want)
        return true;
    num_fail(v, c, "%s of %lld is %lld, not %lld", what, (long long)index,
             (long long)is, (long long)want);
    return false;
}

/* Totals saturate at 2^31 - 1 in the header. */
static int64_t clamped(int64_t n)
{
    return n < INT32_MAX ? n : INT32_MAX;
}

/* Totals are those of the whole list even if it does not fit: they say what
 * would. */
static void judge_header(struct num_case *c, const struct list_own *o,
                         struct num_verdict *v)
{
    /* The bits are independent: a list may overflow in both ways. */
    int64_t status = 0;

    if (o->all.items > o->item_capacity)
        status |= ITEM_STATUS;
    if (o->all.slots > o->slot_capacity)
        status |= SLOT_STATUS;
    if (o->all.refused)
        status |= SHORT_STATUS;
    expect(c, v, "status", 2, got(c, "header", 0, 2), status);
    expect(c, v, "items", 0, got(c, "header", 0, 0), clamped(o->all.items));
    expect(c, v, "slots", 1, got(c, "header", 0, 1), clamped(o->all.slots));
    expect(c, v, "tiles", 3, got(c, "header", 0, 3), clamped(o->all.tiles));
}

/* How far the judge has come. */
struct walk {
    int64_t unit, item, slot, tiles; /* before the unit */
};

/* The k-th of the `count` items of a unit, which has n tiles of keys. */
static bool judge_item(struct num_case *c, const struct list_own *o,
                       const struct walk *w, int64_t k, int64_t count,
                       int64_t n, struct num_verdict *v)
{
    int64_t i = w->item + k, request = w->unit / o->all.row_tiles;
    int64_t first = got(c, "items", i, FIRST_TILE);
    int64_t end = got(c, "items", i, END_TILE), slot = DIRECT;
    int32_t length = o->length[request];

    if (length > 0 && length < o->task.q_len)
        slot = REFUSED;
    else if (count > 1)
        slot = w->slot + k;
    if (!expect(c, v, "request", i, got(c, "items", i, REQUEST), request) ||
        !expect(c, v, "row tile", i, got(c, "items", i, ROW_TILE),
                w->unit % o->all.row_tiles) ||
        !expect(c, v, "length", i, got(c, "items", i, SEQ_LEN), length) ||
        !expect(c, v, "slot", i, got(c, "items", i, SLOT), slot) ||
        !expect(c, v, "first tile", i, first,
                k ? got(c, "items", i - 1, END_TILE) : 0))
        return false;
    if (o->task.split_tiles &&
        !expect(c, v, "cut", i, first, k * o->task.split_tiles))
        return false;
    if (n > 0 && end <= first)
        return expect(c, v, "end of an item without keys", i, end, first + 1);
    return k + 1 < count || expect(c, v, "last tile", i, end, n);
}

/* All items of the next unit, and where its slots begin; false: stop, for
 * what follows would only repeat the error. */
static bool judge_unit(struct num_case *c, const struct list_own *o,
                       struct walk *w, struct num_verdict *v)
{
    int64_t n = decode_unit_tiles(&o->task, w->unit);
    int64_t count = decode_unit_items(&o->task, &o->all, w->unit, w->tiles);

    if (!expect(c, v, "first slot", w->unit,
                got(c, "unit_slots", 0, w->unit), w->slot))
        return false;
    for (int64_t k = 0; k < count; k++)
        if (!judge_item(c, o, w, k, count, n, v))
            return false;
    w->unit++;
    w->item += count;
    w->slot += count > 1 ? count : 0;
    w->tiles += n > 0 ? n : 1;
    return true;
}

/* Tiles before each item of the launch, an empty unit counting as one. */
static int64_t *item_starts(struct num_case *c, const struct list_own *o)
{
    int64_t *start = num_alloc(((size_t)o->all.items + 1) * sizeof(*start));
    int64_t unit = -1, before = 0, weight = 0;

    for (int64_t i = 0; i < o->all.items; i++) {
        int64_t first = got(c, "items", i, FIRST_TILE);
        if (first == 0) { /* the next unit */
            int64_t n = decode_unit_tiles(&o->task, ++unit);
            before += weight;
            weight = n > 0 ? n : 1;
        }
        start[i] = before + first;
    }
    start[o->all.items] = o->all.tiles;
    return start;
}

/* Block c has the items whose first tile lies in its share; in balance they
 * fill it exactly. */
static void judge_blocks(struct num_case *c, const struct list_own *o,
                         struct num_verdict *v)
{
    int64_t *start = item_starts(c, o), ctas = o->all.ctas;

    expect(c, v, "first item", 0, got(c, "item_begin", 0, 0), 0);
    for (int64_t k = 0; k < o->task.ctas && !v->failures; k++) {
        int64_t begin = got(c, "item_begin", 0, k);
        int64_t end = got(c, "item_begin", 0, k + 1), load;
        int64_t low = k < ctas ? k * o->all.tiles / ctas : o->all.tiles;
        int64_t high = k < ctas ? (k + 1) * o->all.tiles / ctas : low;

        if (begin > end || end > o->all.items) {
            expect(c, v, "end of block", k, end, begin);
            break;
        }
        for (int64_t i = begin; i < end; i++)
            if (start[i] < low || start[i] >= high)
                num_fail(v, c,
                         "item %lld begins with tile %lld, but its block "
                         "%lld has tiles %lld..%lld",
                         (long long)i, (long long)start[i], (long long)k,
                         (long long)low, (long long)high - 1);
        load = start[end] - start[begin];
        if (o->task.split_tiles == 0)
            expect(c, v, "tiles of block", k, load, high - low);
    }
    expect(c, v, "end of the last block", o->task.ctas,
           got(c, "item_begin", 0, o->task.ctas), o->all.items);
    free(start);
}

/* Header first; the list itself only where it fits. */
static void judge_list(struct num_case *c, struct num_verdict *v)
{
    const struct list_own *o = c->own;
    struct walk w = {0};

    judge_header(c, o, v);
    while (fits(o) && w.unit < o->all.units)
        if (!judge_unit(c, o, &w, v))
            return;
    if (!fits(o) || v->failures)
        return;
    expect(c, v, "first slot", o->all.units,
           got(c, "unit_slots", 0, o->all.units), o->all.slots);
    judge_blocks(c, o, v);
}

const struct num_family decode_list = {
    .name = "decode_plan",
    .bar = "every key once, in order; shares equal +- 1 tile",
    .judge = judge_list,
};
