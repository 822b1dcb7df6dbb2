/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_size.c: how large the work list of a decode step can become.
 *
 * A unit is a tile of M rows of one request; row r belongs to token r / heads,
 * which sees seq_len - q_len + token + 1 keys.  Cut every W keys, a unit with
 * k keys is ceil(k / W) items; more than one of them take a slot each.  Cut in
 * balance, G workers make G - 1 cuts, of which only those inside a unit count,
 * and a unit of n tiles has room for n - 1.  Both grow with every length, so
 * the worst batch is the one whose requests all have max_seq_len keys.
 *
 * All arithmetic saturates at INT64_MAX, which no limit below lets pass.
 */
#include <stdlib.h>
#include <string.h>

#include "decode_step.h"

enum { INT_BYTES = 4, FLOAT_BYTES = 4 };

/* A step on one kernel. */
struct task {
    int64_t batch, q_len, heads, max_len, row_tiles;
    int64_t m, n; /* rows and keys of a tile */
};

/* Numbers, none of them negative ---------------------------------------- */

/* a * b, or INT64_MAX where it is more. */
static int64_t times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* a + b, or INT64_MAX where it is more. */
static int64_t plus(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ceil(a / b) without overflow, b > 0. */
static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* The greatest, by Euclid. */
static int64_t common_divisor(int64_t a, int64_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

/* Units ----------------------------------------------------------------- */

/* Row tiles of a request of max_len keys that see more than `keys` of them.
 * Token max_len - q_len + t + 1 > keys is the first that does, and every tile
 * counts that ends in it or behind it: all but floor(t * heads / M). */
static int64_t tiles_beyond(const struct task *t, int64_t keys)
{
    int64_t token = keys - t->max_len + t->q_len;

    if (token <= 0)
        return t->row_tiles;
    if (token >= t->q_len)
        return 0;
    return t->row_tiles - token * t->heads / t->m;
}

/* Pieces of at most `width` keys that the row tiles of one request have in
 * all, one at least for each, and how many of these tiles have several.
 *
 *     sum_j ceil(k_j / width) = sum_{v >= 0} #{j: k_j > v * width}
 *
 * Up to the keys of the first tile, which has the fewest, all tiles count;
 * from there on the tiles differ by less than q_len keys, so the loop is
 * short.  A request of fewer keys than queries has empty units. */
static int64_t pieces_of(const struct task *t, int64_t width, int64_t *several)
{
    int64_t token = (least(t->m, t->q_len * t->heads) - 1) / t->heads, sum;
    int64_t fewest = t->max_len - t->q_len + token + 1;

    *several = t->max_len < t->q_len ? 0 : tiles_beyond(t, width);
    if (t->max_len < t->q_len)
        return t->row_tiles;
    sum = times(t->row_tiles, ceil_div(fewest, width));
    for (int64_t v = ceil_div(fewest, width); v * width < t->max_len; v++)
        sum = plus(sum, tiles_beyond(t, v * width));
    return sum;
}

/* Cut every split_tiles tiles: the list is the sum of what each request has by
 * itself, so these numbers are reached by a batch of longest requests. */
static void cut_invariantly(const struct task *t, mla_decode_layout *out)
{
    int64_t several;
    int64_t pieces = pieces_of(t, out->split_tiles * t->n, &several);

    out->item_capacity = times(t->batch, pieces);
    out->slot_capacity =
        times(t->batch, pieces - (t->row_tiles - several));
}

/* Cut in balance.  The first cut of a unit adds more slots than later ones,
 * and at most every unit with several tiles has one.  Reached where a unit
 * can have a tile for each worker; else some cut may have to fall between two
 * units, which this does not know of. */
static void cut_in_balance(const struct task *t,
                           const struct mla__work_list *w,
                           mla_decode_layout *out)
{
    int64_t several, first;
    int64_t tiles = times(t->batch, pieces_of(t, t->n, &several));
    int64_t workers = least(out->ctas, tiles / out->min_tiles);
    int64_t cuts = least(workers > 0 ? workers - 1 : 0, tiles - out->units);

    first = least(cuts, times(t->batch, several));
    out->item_capacity = plus(out->units, cuts * w->cut_items);
    out->slot_capacity =
        first * w->first_cut_slots + (cuts - first) * w->cut_slots;
}

/* Layout ---------------------------------------------------------------- */

/* Takes `count` elements off the workspace; returns where they begin: at a
 * multiple of 256 bytes, as memory from the driver does, which is more than
 * any argument asks for. */
static int64_t place(mla_decode_layout *l, int64_t count, int64_t bytes)
{
    int64_t at = plus(l->bytes, MLA__WORKSPACE_ALIGN - 1) /
                 MLA__WORKSPACE_ALIGN * MLA__WORKSPACE_ALIGN;
    l->bytes = plus(at, times(count, bytes));
    return at;
}

/* The parts in the order of docs/decode.md; the large one last, so that the
 * others are where they were when a bound grows.  The end is not rounded. */
static void place_all(const mla_decode *d, mla_decode_layout *l)
{
    const struct mla__work_list *w = &d->plan.k->work_list;
    int64_t partials = times(l->slot_capacity, l->rows_per_tile);

    l->bytes = 0;
    l->header = place(l, w->header_ints, INT_BYTES);
    l->item_begin = place(l, (int64_t)l->ctas + 1, INT_BYTES);
    l->items = place(l, times(l->item_capacity, w->item_ints), INT_BYTES);
    l->unit_slots = place(l, plus(l->units, 1), INT_BYTES);
    l->partial_lse = place(l, partials, FLOAT_BYTES);
    l->partial_o = place(l, times(partials, d->latent), FLOAT_BYTES);
}

/* Counts are 32 bits in the kernels, and decode_plan multiplies tiles by
 * workers in 64. */
static mla_status check_limits(const mla_decode *d, const struct task *t,
                               const mla_decode_layout *l)
{
    int64_t tiles = times(times(t->batch, t->row_tiles),
                          ceil_div(plus(t->max_len, 1), t->n));

    if (l->units < INT32_MAX && l->item_capacity <= INT32_MAX &&
        l->slot_capacity <= INT32_MAX && l->bytes < INT64_MAX &&
        times(tiles, (int64_t)l->ctas + 1) < INT64_MAX)
        return MLA_OK;
    return mla__fail(d->ctx, MLA_RANGE,
                     "%s: batch %lld, q_len %lld, max_seq_len %lld: a work "
                     "list of %lld items and %lld slots cannot be indexed",
                     l->plan->symbol, (long long)t->batch,
                     (long long)t->q_len, (long long)t->max_len,
                     (long long)l->item_capacity,
                     (long long)l->slot_capacity);
}

/* The step on that kernel, whatever kernel it would get. */
static mla_status layout_on(const mla_decode *d, const mla_decode_step *s,
                            mla_kernel *k, mla_decode_layout *l)
{
    struct task t = {s->batch,       s->q_len, d->heads, s->max_seq_len, 0,
                     k->tile_m, k->tile_n};

    t.row_tiles = ceil_div(t.q_len * t.heads, t.m);
    *l = (mla_decode_layout){.plan = d->plan.k,
                             .decode = k,
                             .combine = d->combine.k,
                             .rows_per_tile = k->tile_m,
                             .keys_per_tile = k->tile_n,
                             .ctas = mla__decode_workers(d, k),
                             .min_tiles = d->options.min_tiles};
    l->min_tiles += l->min_tiles == 0;
    l->split_tiles = (int)ceil_div(d->options.split_keys, t.n);
    l->units = times(t.batch, t.row_tiles);
    if (l->split_tiles)
        cut_invariantly(&t, l);
    else
        cut_in_balance(&t, &d->plan.k->work_list, l);
    place_all(d, l);
    return check_limits(d, &t, l);
}

/* On the kernel that it gets. */
mla_status mla__decode_layout(const mla_decode *d, const mla_decode_step *s,
                              mla_decode_layout *out)
{
    int64_t rows = (int64_t)s->q_len * d->heads;
    return layout_on(d, s, mla__decode_pick(d, rows)->k, out);
}

/* Steps ----------------------------------------------------------------- */

/* RANGE, with the field of the step and its value. */
static mla_status out_of_range(const mla_decode *d, const char *field,
                               int64_t value, const char *wanted)
{
    return mla__fail(d->ctx, MLA_RANGE, "%s: step '%s': %lld is not %s",
                     d->plan.k->symbol, field, (long long)value, wanted);
}

/* The step as the caller gave it, zeros not yet replaced.  The kernels count
 * (token, head) pairs in 32 bits, a whole tile past the last. */
static mla_status check_step(const mla_decode *d, const mla_decode_step *s)
{
    int64_t rows = (int64_t)s->q_len * d->heads;

    if (s->batch < 0)
        return out_of_range(d, "batch", s->batch, "0 or more");
    if (s->q_len < 0 ||
        rows > INT32_MAX - d->tile[d->tiles - 1].k->tile_m)
        return out_of_range(d, "q_len", s->q_len,
                            "a count of tokens that can be indexed");
    if (s->max_seq_len < 0 || s->max_seq_len > INT32_MAX)
        return out_of_range(d, "max_seq_len", s->max_seq_len,
                            "0 to 2147483647");
    if (d->options.split_keys && s->max_seq_len == 0)
        return out_of_range(d, "max_seq_len", 0,
                            "a bound, which split_keys needs");
    return MLA_OK;
}

/* *out is what the caller's struct has room for, with its defaults in place;
 * after an error its batch may be negative, but nothing is read twice. */
mla_status mla__decode_step(const mla_decode *d, const mla_decode_step *given,
                            mla_decode_step *out)
{
    mla_status status;

    *out = (mla_decode_step){0};
    if (given->size < sizeof(given->size))
        return MLA_INVALID_ARGUMENT;
    memcpy(out, given,
           given->size < sizeof(*out) ? given->size : sizeof(*out));
    status = check_step(d, out);
    out->q_len += out->q_len == 0;
    if (out->max_seq_len == 0)
        out->max_seq_len = INT32_MAX;
    return status;
}

/* A batch of 0 has a layout too: a header and the ends of empty lists. */
mla_status mla_decode_describe(mla_decode *d, const mla_decode_step *given,
                               mla_decode_layout *out)
{
    mla_decode_step step;
    mla_decode_layout full;
    mla_status status;

    if (!d || !given || !out)
        return MLA_INVALID_ARGUMENT;
    status = mla__decode_step(d, given, &step);
    if (!status)
        status = mla__decode_layout(d, &step, &full);
    return status ? status : mla__copy_info(out, &full, sizeof(full));
}

/* The largest need ------------------------------------------------------ */

/* Raises *bytes to what the bounds need at that q_len, on the kernel that it
 * gets.  Errors: as layout_on. */
static mla_status raise(const mla_decode *d, const mla_decode_step *bounds,
                        int64_t q_len, mla_kernel *k, int64_t *bytes)
{
    mla_decode_step s = *bounds;
    mla_decode_layout l;
    mla_status status;

    s.q_len = (int)q_len;
    status = layout_on(d, &s, k, &l);
    if (!status && l.bytes > *bytes)
        *bytes = l.bytes;
    return status;
}

/* Over the q_len from `first` to `last` that all get kernel k.  Tiles begin at
 * the same place of a token again every `period` tokens; a period more only
 * adds tiles, so the last period decides.  Above max_seq_len no request has
 * its keys, and more rows are more units without any. */
static mla_status raise_on(const mla_decode *d, const mla_decode_step *bounds,
                           int64_t first, int64_t last, mla_kernel *k,
                           int64_t *bytes)
{
    int64_t period = k->tile_m / common_divisor(k->tile_m, d->heads);
    int64_t end = least(last, bounds->max_seq_len);
    mla_status status = MLA_OK;

    if (last > end && last >= first)
        status = raise(d, bounds, last, k, bytes);
    for (int64_t q = end; q >= first && q > end - period && !status; q--)
        status = raise(d, bounds, q, k, bytes);
    return status;
}

/* Each kernel has a range of q_len, up to what its max_rows holds and the last
 * one without end; the need is the largest over the ranges within the bounds.
 * It is not monotone from one kernel to the next, which is why a query at the
 * largest q_len alone would not do. */
mla_status mla_decode_workspace(mla_decode *d, const mla_decode_step *given,
                                int64_t *bytes)
{
    mla_decode_step bounds;
    mla_status status;
    int64_t first = 1;

    if (!d || !given || !bytes)
        return MLA_INVALID_ARGUMENT;
    *bytes = 0;
    status = mla__decode_step(d, given, &bounds);
    if (status || bounds.batch == 0)
        return status;
    for (int i = 0; i < d->tiles && !status; i++) {
        int64_t last = d->tile[i].k->max_rows / d->heads;
        if (i == d->tiles - 1 || last > bounds.q_len)
            last = bounds.q_len;
        status = raise_on(d, &bounds, first, last, d->tile[i].k, bytes);
        first = last + 1 > first ? last + 1 : first;
    }
    if (status)
        *bytes = 0;
    return status;
}
