/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_merge.c: mqa_combine by itself, on made-up partial results.
 *
 * Units have any number of slots, none and one included.  A slot whose LSE is
 * -inf has no keys: its payload is foreign memory.  Rows past a request's last
 * one have neither payload nor LSE.
 *
 * The partial results are random, not those of any attention: a merge has to
 * be right for every weight, and for LSEs that no softmax would give.
 */
#include <math.h>
#include <stdlib.h>

#include "decode.h"
#include "oracle_attention.h"

/* Of decode_plan's header, in words. */
enum { HEADER_INTS = 8, STATUS = 2 };

/* What a case keeps: which slots each unit has, and every partial LSE. */
struct merge_own {
    const struct decode_merge_shape *shape;
    int64_t rows, row_tiles, units, slots; /* rows: of a request */
    int64_t *first_slot;                   /* [units + 1] */
    double *lse;                           /* [slots][rows of a tile] */
    struct decode_places out_places, lse_places;
};

/* Making ------------------------------------------------------------------ */

/* Whether row r of a unit's tile is a row of its request. */
static bool exists(const struct merge_own *o, int64_t unit, int64_t r)
{
    return unit % o->row_tiles * o->shape->rows + r < o->rows;
}

/* Rounded to single, as the kernel gets it; -inf: a slot without keys.  Where
 * there are such, every fifth row has keys in no slot at all.  Huge ones
 * alternate in sign: one slot's weight vanishes beside the next one's. */
static double make_lse(struct num_case *c, int64_t row, int64_t slot)
{
    double lse = 3 * num_normal(&c->rng);

    if (num_is(c, NUM_EMPTY_LSE) &&
        (row % 5 == 0 || num_below(&c->rng, 3) == 0))
        return -INFINITY;
    if (num_is(c, NUM_HUGE_LSE))
        lse += slot % 2 ? 3e4 : -3e4;
    return (float)lse;
}

/* Splits of the shape are dealt to the units over and over. */
static struct merge_own *make_own(struct num_case *c,
                                  const struct decode_merge_shape *s)
{
    struct merge_own *o = num_alloc(sizeof(*o));

    c->own = o;
    o->shape = s;
    o->rows = (int64_t)s->q_len * c->subject->info.heads;
    o->row_tiles = (o->rows + s->rows - 1) / s->rows;
    o->units = s->batch * o->row_tiles;
    o->first_slot = num_alloc((size_t)(o->units + 1) * sizeof(int64_t));
    for (int64_t u = 0; u < o->units; u++)
        o->first_slot[u + 1] = o->first_slot[u] + s->splits[u % s->kinds];
    o->slots = o->first_slot[o->units];
    o->lse = num_alloc((size_t)(o->slots * s->rows + 1) * sizeof(double));
    for (int64_t i = 0; i < o->slots * s->rows; i++)
        o->lse[i] = make_lse(c, i % s->rows, i / s->rows);
    return o;
}

/* Partial results: what exists, and O only where there are keys. */
static void add_partials(struct num_case *c, const struct merge_own *o)
{
    int64_t m = o->shape->rows;
    struct num_tensor *po =
        num_add_rows(c, "partial_o", "", NUM_F32, o->slots * m,
                     c->subject->info.latent, NUM_TIGHT);
    struct num_tensor *pl = num_add_rows(c, "partial_lse", "", NUM_F32,
                                         o->slots * m, 1, NUM_TIGHT);

    for (int64_t u = 0; u < o->units; u++)
        for (int64_t i = o->first_slot[u] * m; i < o->first_slot[u + 1] * m;
             i++) {
            if (!exists(o, u, i % m))
                continue;
            num_claim(pl, i, 0);
            if (isfinite(o->lse[i]))
                num_claim(po, i, 0);
        }
    po->foreign = po->rows == 0;
    pl->foreign = pl->rows == 0;
}

/* Rows of units that were split; the others are mqa_decode's. */
static void add_output(struct num_case *c, const char *const names[4],
                       enum num_elem elem, int64_t width,
                       enum num_layout layout, struct decode_places *places)
{
    const struct merge_own *o = c->own;
    int heads = c->subject->info.heads;
    struct num_tensor *t = decode_add_grid(c, names, elem, width,
                                           o->shape->q_len, layout, places);

    for (int64_t b = 0; b < c->tokens; b++)
        for (int64_t r = 0; r < o->rows; r++) {
            int64_t unit = b * o->row_tiles + r / o->shape->rows;
            if (o->first_slot[unit] < o->first_slot[unit + 1] &&
                o->shape->status == 0)
                num_claim(t, b, places->token * (r / heads) +
                                    places->head * (r % heads));
        }
    t->foreign = t->rows == 0;
}

/* Of the header only the status is the call's to read. */
static void fill(struct num_case *c, const struct merge_own *o)
{
    struct num_tensor *slots = num_tensor_of(c, "unit_slots");
    struct num_tensor *lse = num_tensor_of(c, "partial_lse");
    struct num_tensor *header = num_tensor_of(c, "header");

    num_fill_normal(num_tensor_of(c, "partial_o"), 1, &c->rng);
    for (int64_t i = 0; i < lse->rows; i++)
        num_set(lse, lse->row[i].index[0], 0, 0,
                o->lse[lse->row[i].index[0]]);
    for (int64_t u = 0; u <= o->units; u++)
        num_set(slots, 0, 0, u, (double)o->first_slot[u]);
    num_kill(header, 0, 0, 0, STATUS);
    num_kill(header, 0, 0, STATUS + 1, HEADER_INTS - STATUS - 1);
    num_set(header, 0, 0, STATUS, o->shape->status);
}

/* The tensors are added in the order in which the oracle is asked. */
struct num_case *decode_merge_make(const struct num_subject *combine,
                                   const struct decode_merge_shape *shape,
                                   uint64_t seed)
{
    struct num_case *c = num_alloc(sizeof(*c));
    struct merge_own *o;

    c->subject = combine;
    c->family = &decode_merge;
    c->shape = (struct num_shape){shape->group, shape->batch, shape->out,
                                  shape->lse,   shape->flags, false};
    c->tokens = shape->batch;
    c->rng.state = seed;
    o = make_own(c, shape);
    num_add_vector(c, "header", NUM_I32, HEADER_INTS);
    num_add_vector(c, "unit_slots", NUM_I32, o->units + 1);
    add_partials(c, o);
    add_output(c, decode_out_names, combine->dtype, combine->info.latent,
               shape->out, &o->out_places);
    if (decode_is(c, DECODE_NO_LSE))
        num_add_null(c, "lse");
    else
        add_output(c, decode_lse_names, NUM_F32, 1, shape->lse,
                   &o->lse_places);
    num_add_int(c, "batch", shape->batch);
    num_add_int(c, "q_len", shape->q_len);
    num_add_int(c, "rows_per_tile", shape->rows);
    num_seal_all(c);
    fill(c, o);
    return c;
}

void decode_merge_free(struct num_case *c)
{
    struct merge_own *o = c->own;

    free(o->first_slot);
    free(o->lse);
    free(o);
    num_case_free(c);
}

/* Expecting --------------------------------------------------------------- */

/* The parts of a row, with room for their payloads at `o`. */
static int collect(const struct num_case *c, const struct decode_place *p,
                   struct oracle_part *part, double *payload)
{
    const struct merge_own *o = c->own;
    const struct num_tensor *t = num_tensor_of(c, "partial_o");
    int64_t m = o->shape->rows, unit = p->request * o->row_tiles + p->row / m;
    int n = 0;

    for (int64_t k = o->first_slot[unit]; k < o->first_slot[unit + 1]; k++) {
        int64_t i = k * m + p->row % m;
        part[n].lse = o->lse[i];
        part[n].o = payload;
        if (isfinite(o->lse[i]))
            num_get_row(t, i, 0, payload);
        payload += t->width;
        n++;
    }
    return n;
}

/* A weight carries the errors of a difference of LSEs, an exponential and a
 * division, and up to 300 terms are added: 2^-17 of the terms' sizes. */
static void expect_output(const struct num_case *c, struct num_expect *e,
                          const double *o, const double *size, double lse)
{
    for (int i = 0; i < c->subject->info.latent; i++)
        if (isinf(lse))
            num_expect_bits(e, i, 0);
        else
            num_expect_value(e, i, c->subject->dtype, o[i],
                             0x1p-17 * size[i]);
}

/* Exact where nothing was merged: the empty set's LSE is a bit pattern. */
static void expect_lse(struct num_expect *e, double lse)
{
    unsigned char raw[4];

    num_encode(NUM_F32, raw, lse);
    if (isinf(lse))
        num_expect_bits(e, 0, num_bits(NUM_F32, raw));
    else
        num_expect_value(e, 0, NUM_F32, lse, 1e-6 + 0x1p-21 * fabs(lse));
}

/* A row of out or lse, from the parts that the case has made. */
static void merge_row(const struct num_case *c, const struct num_tensor *t,
                      const int64_t *index, struct num_expect *e)
{
    const struct merge_own *own = c->own;
    const struct num_model *m = c->subject->model;
    bool is_lse = t == num_tensor_of(c, "lse");
    struct decode_place p = decode_place_of(
        c, is_lse ? &own->lse_places : &own->out_places, index);
    int width = c->subject->info.latent;
    struct oracle_part *part = num_alloc((size_t)own->slots * sizeof(*part));
    double *payload = num_alloc((size_t)(own->slots * width) * sizeof(double));
    double o[NUM_MAX_WIDTH], size[NUM_MAX_WIDTH], lse;
    int n = collect(c, &p, part, payload);

    oracle_combine(part, n, width, m->lse_base, m->lse_empty, o, size, &lse);
    if (is_lse)
        expect_lse(e, lse);
    else
        expect_output(c, e, o, size, lse);
    free(payload);
    free(part);
}

const struct num_family decode_merge = {
    .name = "mqa_combine",
    .bar = "2^-p|y| + 2^-17 w|o|; lse 1e-6 + 2^-21|y|",
    .row = merge_row,
};
