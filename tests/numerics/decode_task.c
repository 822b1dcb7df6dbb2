/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_task.c: what a work list has to be, from its definition.
 *
 * A unit is a tile of rows of one request.  It visits the tiles of keys that
 * its last row may see; one without keys counts as one tile when work is
 * shared out.  Cut in balance, T tiles go to G blocks and block c begins with
 * tile floor(c T / G); cut invariantly, a unit is cut every split_tiles tiles
 * from its first key on, whatever else is in the batch.
 */
#include "decode.h"

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Tiles of rows of one request: rows are (token, head) pairs. */
static int64_t row_tiles(const struct decode_task *t)
{
    return ceil_div((int64_t)t->q_len * t->heads, t->rows);
}

/* The last row's token sees the keys 0 .. length - q_len + token. */
int64_t decode_unit_tiles(const struct decode_task *t, int64_t unit)
{
    int64_t per = row_tiles(t), rows = (int64_t)t->q_len * t->heads;
    int64_t end = (unit % per + 1) * t->rows;
    int64_t length = t->lengths[unit / per], token;

    if (length < t->q_len)
        return 0;
    token = ((end < rows ? end : rows) - 1) / t->heads;
    return ceil_div(length - t->q_len + token + 1, t->keys);
}

/* What a unit counts when work is shared out: an empty one still has to write
 * its output. */
static int64_t weight(const struct decode_task *t, int64_t unit)
{
    int64_t tiles = decode_unit_tiles(t, unit);
    return tiles > 0 ? tiles : 1;
}

int64_t decode_unit_items(const struct decode_task *t,
                          const struct decode_totals *all, int64_t unit,
                          int64_t before)
{
    int64_t n = weight(t, unit), items = 1;

    if (t->split_tiles > 0)
        return ceil_div(n, t->split_tiles);
    for (int64_t c = 1; c < all->ctas; c++) {
        int64_t cut = c * all->tiles / all->ctas;
        items += cut > before && cut < before + n;
    }
    return items;
}

/* Blocks that get work: at most one per min_tiles tiles, and at least one. */
static int64_t working_ctas(const struct decode_task *t, int64_t tiles)
{
    int64_t least = t->min_tiles > 1 ? t->min_tiles : 1;
    int64_t ctas = tiles / least;
    if (ctas > t->ctas)
        ctas = t->ctas;
    return ctas > 1 ? ctas : 1;
}

/* Two passes: the cuts of a unit depend on the sum of all. */
struct decode_totals decode_total(const struct decode_task *t)
{
    struct decode_totals all = {.row_tiles = row_tiles(t)};
    int64_t before = 0;

    all.units = t->batch * all.row_tiles;
    for (int64_t u = 0; u < all.units; u++)
        all.tiles += weight(t, u);
    all.ctas = working_ctas(t, all.tiles);
    for (int64_t u = 0; u < all.units; u++) {
        int64_t items = decode_unit_items(t, &all, u, before);
        all.items += items;
        all.slots += items > 1 ? items : 0;
        before += weight(t, u);
    }
    for (int64_t b = 0; b < t->batch; b++)
        all.refused |= t->lengths[b] > 0 && t->lengths[b] < t->q_len;
    return all;
}

/* G blocks make at most G - 1 cuts; each adds an item, and two slots if it
 * falls into a unit of its own. */
void decode_capacity(const struct decode_task *t, int64_t *items,
                     int64_t *slots)
{
    struct decode_totals all = decode_total(t);

    *items = all.items;
    *slots = all.slots;
    if (t->split_tiles == 0) {
        *items = all.units + t->ctas - 1;
        *slots = 2 * (t->ctas - 1);
    }
}
