/* SPDX-License-Identifier: Apache-2.0
 *
 * tensor.c: layouts, live rows, and access to the image.
 *
 * Example: q of 3 tokens, 2 heads and 64 columns, padded.  Rows of 128 bytes
 * at strides of, say, 160 (head) and 336 (token): one extent of 2 * 336 + 160
 * + 128 bytes, of which the six rows are live.  The 32 bytes behind each row
 * and the 16 behind each token are foreign: a kernel may neither use nor
 * change them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor.h"

/* Foreign bytes on both sides of a sparse tensor's rows that are checked. */
enum { FRINGE = 64 };

/* A block of 0 bytes has an address, too: tests of empty batches need one. */
void *num_alloc(size_t bytes)
{
    void *block = calloc(1, bytes ? bytes : 1);
    if (!block)
        abort();
    return block;
}

/* Layout ---------------------------------------------------------------- */

/* n, raised to a multiple of unit. */
static int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* One to three units: gaps differ, so that no stride is a multiple of another
 * by chance. */
static int64_t gap(struct num_rng *rng, int64_t unit)
{
    return unit * (1 + num_below(rng, 3));
}

/* A stride with which the last of n blocks lies beyond 2^32 bytes, and, with
 * three of them, the second beyond 2^31. */
static int64_t far_step(int64_t n, int64_t block, int64_t unit)
{
    int64_t steps = n > 1 ? n - 1 : 1;
    return round_up(((int64_t)1 << 32) / steps + block, unit) + unit;
}

/* Rows of one token each: axis 0 counts tokens.  Without heads to exchange,
 * SWAPPED is PADDED. */
static void lay_out_one(struct num_tensor *t, enum num_layout layout,
                        int64_t row, int64_t unit, struct num_rng *rng)
{
    switch (layout) {
    case NUM_PADDED:
    case NUM_SWAPPED:
        t->stride[0] = row + gap(rng, unit);
        break;
    case NUM_INTERLEAVED:
        t->stride[0] = row * 3;
        break;
    case NUM_FAR_OUTER:
    case NUM_FAR_INNER:
        t->stride[0] = far_step(t->n[0], row, unit);
        break;
    default:
        t->stride[0] = row;
    }
}

/* Rows of one token and head, or page and slot: axis 0 is the token or page.
 * FAR_INNER is SWAPPED with the inner axis spread over 4 GiB. */
static void lay_out_two(struct num_tensor *t, enum num_layout layout,
                        int64_t row, int64_t unit, struct num_rng *rng)
{
    int64_t *outer = &t->stride[0], *inner = &t->stride[1];

    *inner = row;
    switch (layout) {
    case NUM_PADDED:
        *inner = row + gap(rng, unit);
        *outer = t->n[1] * *inner + gap(rng, unit);
        break;
    case NUM_SWAPPED:
        *outer = row + unit * num_below(rng, 2);
        *inner = t->n[0] * *outer + gap(rng, unit);
        break;
    case NUM_INTERLEAVED:
        *outer = t->n[1] * *inner * 3;
        break;
    case NUM_FAR_OUTER:
        *outer = far_step(t->n[0], t->n[1] * row, unit);
        break;
    case NUM_FAR_INNER:
        *outer = row + unit;
        *inner = far_step(t->n[1], t->n[0] * *outer, unit);
        break;
    default:
        *outer = t->n[1] * *inner;
    }
}

/* Rows are rounded up to `unit`, the alignment that the kernel asks of a
 * stride. */
void num_lay_out(struct num_tensor *t, enum num_layout layout, int64_t unit,
                 struct num_rng *rng)
{
    int64_t row = t->width * (int64_t)num_elem_bytes(t->elem);

    row = round_up(row, unit);
    t->sparse = layout >= NUM_LAYOUTS;
    if (t->axes == 1)
        lay_out_one(t, layout, row, unit, rng);
    else if (t->axes == 2)
        lay_out_two(t, layout, row, unit, rng);
}

/* Rows ------------------------------------------------------------------ */

/* Rows may be claimed in any order. */
void num_claim(struct num_tensor *t, int64_t i0, int64_t i1)
{
    if (t->rows == t->row_room) {
        t->row_room = t->row_room ? 2 * t->row_room : 64;
        t->row = realloc(t->row, (size_t)t->row_room * sizeof(*t->row));
        if (!t->row)
            abort();
    }
    t->row[t->rows++] = (struct num_row){{i0, i1}};
}

/* Every row of a tensor, which may have none, one or two axes. */
void num_claim_all(struct num_tensor *t)
{
    int64_t n0 = t->axes > 0 ? t->n[0] : 1, n1 = t->axes > 1 ? t->n[1] : 1;
    if (t->width == 0)
        return;
    for (int64_t i = 0; i < n0; i++)
        for (int64_t j = 0; j < n1; j++)
            num_claim(t, i, j);
}

static int64_t row_bytes(const struct num_tensor *t)
{
    return t->width * (int64_t)num_elem_bytes(t->elem);
}

/* Bytes from the tensor's first element to that of a row. */
static int64_t row_offset(const struct num_tensor *t, int64_t i0, int64_t i1)
{
    return i0 * t->stride[0] + i1 * t->stride[1];
}

static int by_offset(const void *a, const void *b)
{
    const struct num_extent *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* One extent per live row with its fringe; touching ones are joined, so that
 * no byte has two images. */
static void sparse_extents(struct num_tensor *t)
{
    int last = 0;

    t->extent = num_alloc(((size_t)t->rows + 1) * sizeof(*t->extent));
    for (int64_t r = 0; r < t->rows; r++) {
        struct num_extent *e = &t->extent[r];
        int64_t at = row_offset(t, t->row[r].index[0], t->row[r].index[1]);
        int64_t end = at + row_bytes(t) + FRINGE;
        e->offset = at > FRINGE ? at - FRINGE : 0;
        e->bytes = (end < t->span ? end : t->span) - e->offset;
    }
    qsort(t->extent, (size_t)t->rows, sizeof(*t->extent), by_offset);
    for (int64_t r = 1; r < t->rows; r++) {
        struct num_extent *e = &t->extent[last], *next = &t->extent[r];
        int64_t end = next->offset + next->bytes;
        if (next->offset > e->offset + e->bytes)
            t->extent[++last] = *next;
        else if (end > e->offset + e->bytes)
            e->bytes = end - e->offset;
    }
    t->extents = t->rows ? last + 1 : 0;
}

/* The extent that holds the offset, by binary search.  An offset in none is an
 * error of the test itself and ends it. */
static struct num_extent *extent_of(const struct num_tensor *t, int64_t offset)
{
    int low = 0, high = t->extents - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (t->extent[middle].offset <= offset)
            low = middle;
        else
            high = middle - 1;
    }
    if (offset < t->extent[low].offset ||
        offset >= t->extent[low].offset + t->extent[low].bytes) {
        fprintf(stderr, "%s: the test itself reads outside its tensor\n",
                t->field);
        abort();
    }
    return &t->extent[low];
}

/* An axis of length 0, or a width of 0, makes a span of 0.  Each array has an
 * element to spare, so that an empty extent can be pointed into. */
void num_seal(struct num_tensor *t)
{
    int64_t last[NUM_AXES];
    size_t es = num_elem_bytes(t->elem);
    bool none = t->width == 0;

    for (int i = 0; i < NUM_AXES; i++) {
        last[i] = i < t->axes ? t->n[i] - 1 : 0;
        none = none || last[i] < 0;
    }
    t->span = none ? 0 : row_offset(t, last[0], last[1]) + row_bytes(t);
    if (t->sparse) {
        sparse_extents(t);
    } else {
        t->extents = 1;
        t->extent = num_alloc(sizeof(*t->extent));
        t->extent[0].bytes = t->span;
    }
    for (int i = 0; i < t->extents; i++) {
        struct num_extent *e = &t->extent[i];
        e->data = num_alloc((size_t)e->bytes + es);
        e->live = num_alloc((size_t)e->bytes + es);
        e->mask = num_alloc((size_t)e->bytes + es);
        e->sent = num_alloc((size_t)e->bytes + es);
        e->kept = t->output ? num_alloc((size_t)e->bytes + es) : NULL;
    }
    for (int64_t r = 0; r < t->rows; r++) {
        int64_t at = row_offset(t, t->row[r].index[0], t->row[r].index[1]);
        struct num_extent *e = extent_of(t, at);
        memset(e->live + (at - e->offset), 1, (size_t)row_bytes(t));
    }
}

/* What a tensor owns; the struct is the case's. */
void num_tensor_free(struct num_tensor *t)
{
    for (int i = 0; i < t->extents; i++) {
        free(t->extent[i].data);
        free(t->extent[i].live);
        free(t->extent[i].mask);
        free(t->extent[i].sent);
        free(t->extent[i].kept);
    }
    free(t->extent);
    free(t->row);
}

/* Access ---------------------------------------------------------------- */

struct num_extent *num_locate(const struct num_tensor *t, int64_t i0,
                              int64_t i1, int64_t column, int64_t *within)
{
    int64_t at = row_offset(t, i0, i1) +
                 column * (int64_t)num_elem_bytes(t->elem);
    struct num_extent *e = extent_of(t, at);
    *within = at - e->offset;
    return e;
}

unsigned char *num_at(const struct num_tensor *t, int64_t i0, int64_t i1,
                      int64_t column)
{
    int64_t within;
    struct num_extent *e = num_locate(t, i0, i1, column, &within);
    return e->data + within;
}

double num_get(const struct num_tensor *t, int64_t i0, int64_t i1,
               int64_t column)
{
    return num_decode(t->elem, num_at(t, i0, i1, column));
}

void num_set(struct num_tensor *t, int64_t i0, int64_t i1, int64_t column,
             double value)
{
    num_encode(t->elem, num_at(t, i0, i1, column), value);
}

/* Within one row: a row lies in one extent. */
void num_kill(struct num_tensor *t, int64_t i0, int64_t i1, int64_t column,
              int64_t count)
{
    int64_t within;
    struct num_extent *e;

    if (count <= 0)
        return;
    e = num_locate(t, i0, i1, column, &within);
    memset(e->live + within, 0, (size_t)count * num_elem_bytes(t->elem));
}

/* The whole row must lie in one extent, which a claimed row does. */
void num_get_row(const struct num_tensor *t, int64_t i0, int64_t i1,
                 double *out)
{
    size_t es = num_elem_bytes(t->elem);
    const unsigned char *at = num_at(t, i0, i1, 0);
    for (int64_t k = 0; k < t->width; k++)
        out[k] = num_decode(t->elem, at + (size_t)k * es);
}

/* Filling --------------------------------------------------------------- */

/* bf16 takes the upper half of a single: any bf16 value is as good as the
 * nearest one, and weights have millions of them. */
static void encode_fast(enum num_elem elem, unsigned char *at, double value)
{
    float single = (float)value;
    if (elem == NUM_BF16)
        memcpy(at, (unsigned char *)&single + 2, 2);
    else
        num_encode(elem, at, value);
}

/* Row by row in the order of the claims, so that the values of a seed do not
 * depend on the layout. */
void num_fill_normal(struct num_tensor *t, double scale, struct num_rng *rng)
{
    size_t es = num_elem_bytes(t->elem);
    for (int64_t r = 0; r < t->rows; r++) {
        unsigned char *at = num_at(t, t->row[r].index[0], t->row[r].index[1],
                                   0);
        for (int64_t k = 0; k < t->width; k++, at += es)
            encode_fast(t->elem, at, scale * num_normal(rng));
    }
}

/* Random bits are rarely NaN or infinity; a quarter of the elements is made to
 * be one. */
void num_fill_bits(struct num_tensor *t, struct num_rng *rng)
{
    size_t es = num_elem_bytes(t->elem);
    for (int64_t r = 0; r < t->rows; r++) {
        unsigned char *at = num_at(t, t->row[r].index[0], t->row[r].index[1],
                                   0);
        for (int64_t k = 0; k < t->width; k++, at += es) {
            uint64_t bits = num_random(rng);
            /* One element in four has all exponent bits set. */
            if ((bits >> 40 & 3) == 0)
                bits |= num_poison_bits(t->elem, NUM_POISON_INF);
            num_set_bits(t->elem, at, bits);
        }
    }
}

int64_t num_live_bytes(const struct num_tensor *t)
{
    int64_t count = 0;
    for (int i = 0; i < t->extents; i++)
        for (int64_t k = 0; k < t->extent[i].bytes; k++)
            count += t->extent[i].live[k];
    return count;
}
