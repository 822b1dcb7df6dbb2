/* SPDX-License-Identifier: Apache-2.0
 *
 * work_decode.c: the decode step, and the work list by itself.
 *
 * A step is mqa_decode and mqa_combine on a work list that decode_plan has
 * made before: an engine makes it once for all layers.  So it is measured by
 * others, too.  All requests have the same length; the pages of a request lie
 * far apart in the pool.
 *
 * Counted are 2 (D + R) operations for each query row and visible key, and
 * the bytes of the keys, the queries and O, each once.
 */
#include <string.h>

#include "decode.h"
#include "gpu_bench.h"

enum { HEADER_INTS = 8, ITEM_INTS = 8, MIN_TILES = 1 };

const char *gpu_sibling(struct gpu *g, const struct num_subject *s,
                        const char *family, struct num_subject *out)
{
    for (int i = 0; i < mla_kernels_count(g->device.set); i++) {
        const char *why = num_subject_read(g->device.ctx, g->device.set, i,
                                           &g->model, out);
        if (!why && strcmp(out->info.family, family) == 0 &&
            strcmp(out->info.arch, s->info.arch) == 0 &&
            out->info.heads == s->info.heads &&
            out->info.page_size == s->info.page_size)
            return NULL;
    }
    return "the kernels beside it are not in the directory";
}

/* What a launch is cut into. */
struct cut {
    int64_t rows, keys, units, items, slots;
    int64_t ctas; /* that share the keys; a cluster counts as one */
};

static struct cut cut_of(struct gpu *g, const struct num_subject *s,
                         const struct gpu_case *c)
{
    int per_sm = decode_tile_number(s, "ctas_per_sm");
    int cluster = decode_tile_number(s, "cluster");
    struct cut t = {.rows = s->info.tile_m, .keys = s->info.tile_n};
    int64_t tiles;

    t.ctas = (int64_t)g->device.info.sm_count * (per_sm > 0 ? per_sm : 1) /
             (cluster > 0 ? cluster : 1);
    tiles = (c->q_len * s->info.heads + t.rows - 1) / t.rows;
    t.units = c->batch * tiles;
    t.items = t.units + t.ctas;
    t.slots = 2 * t.ctas;
    return t;
}

/* Whether some tile of the same kernel holds more rows. */
static bool is_outgrown(struct gpu *g, const struct num_subject *s, int most)
{
    struct num_subject o;

    for (int i = 0; i < mla_kernels_count(g->device.set); i++)
        if (!num_subject_read(g->device.ctx, g->device.set, i, &g->model,
                              &o) &&
            strcmp(o.info.family, s->info.family) == 0 &&
            strcmp(o.info.arch, s->info.arch) == 0 &&
            o.info.heads == s->info.heads &&
            decode_tile_number(&o, "max_rows") > most)
            return true;
    return false;
}

/* Whether these rows go to this tile: the smallest that holds them, or the
 * largest there is.  Variants that share a range are all measured. */
static bool is_for(struct gpu *g, const struct num_subject *s, int64_t rows)
{
    int least = decode_tile_number(s, "min_rows");
    int most = decode_tile_number(s, "max_rows");

    if (most == 0 || (rows >= least && rows <= most))
        return true;
    return rows > most && !is_outgrown(g, s, most);
}

/* Everything that decode_plan makes and the others read, and what it is told;
 * an argument that a kernel lacks is no harm. */
static void add_list(struct gpu_work *w, const struct cut *t, int latent)
{
    gpu_add_tensor(w, "header", 1, 1, 1, HEADER_INTS);
    gpu_add_tensor(w, "item_begin", 1, 1, 1, t->ctas + 1);
    gpu_add_tensor(w, "items", 1, 1, t->items, ITEM_INTS);
    gpu_add_tensor(w, "unit_slots", 1, 1, 1, t->units + 1);
    gpu_add_tensor(w, "partial_o", 1, t->slots, t->rows, latent);
    gpu_add_tensor(w, "partial_lse", 1, 1, t->slots, t->rows);
    gpu_add_int(w, "item_capacity", t->items);
    gpu_add_int(w, "slot_capacity", t->slots);
    gpu_add_int(w, "rows_per_tile", t->rows);
    gpu_add_int(w, "keys_per_tile", t->keys);
    gpu_add_int(w, "ctas", t->ctas);
    gpu_add_int(w, "min_tiles", MIN_TILES);
    gpu_add_int(w, "split_tiles", 0);
}

/* A multiplier without a common factor with n, so that i * it mod n takes
 * every value once. */
static int64_t stride_through(int64_t n)
{
    static const int64_t prime[] = {7919, 104729, 611953};
    for (int i = 0; i < 3; i++)
        if (n % prime[i])
            return prime[i] % n ? prime[i] : 1;
    return 1;
}

/* Pages exactly as many as the requests need, no two shared. */
static void add_pool(struct gpu_work *w, const mla_kernel_info *k,
                     const struct gpu_case *c)
{
    int64_t width = k->latent + k->rope;
    int64_t each = (c->seq_len + k->page_size - 1) / k->page_size;
    int64_t pages = each * c->batch;

    gpu_add_tensor(w, "kv_cache", 1, pages, k->page_size, width);
    gpu_add_int(w, "page_stride", 2 * width * k->page_size);
    gpu_add_int(w, "row_stride", 2 * width);
    gpu_add_index(w, "block_table", pages, 0, stride_through(pages), pages);
    gpu_add_int(w, "block_table_stride", 4 * each);
    gpu_add_index(w, "seq_lens", c->batch, c->seq_len, 0, 0);
}

/* Keys that the tokens of a request see, added up. */
static double visible(int64_t q_len, int64_t keys)
{
    double last = (double)keys, first = (double)(keys - q_len + 1);
    return (double)q_len * (first + last) / 2;
}

/* Queries and O count for every row, keys once however many tiles of rows
 * read them. */
static void count(struct gpu_work *w, const mla_kernel_info *k,
                  const struct gpu_case *c)
{
    double d = k->latent + k->rope, rows = (double)(c->q_len * k->heads);

    w->flops = 2.0 * (double)c->batch * k->heads *
               visible(c->q_len, c->seq_len) * (d + k->latent);
    w->bytes = 2.0 * (double)c->batch *
               ((double)c->seq_len * d + rows * (d + k->latent));
}

/* What is not the work list. */
static void add_step(struct gpu_work *w, const mla_kernel_info *k,
                     const struct gpu_case *c)
{
    gpu_add_tensor(w, "q", c->batch, c->q_len, k->heads, k->latent + k->rope);
    gpu_add_tensor(w, "out", c->batch, c->q_len, k->heads, k->latent);
    gpu_add_tensor(w, "lse", c->batch, c->q_len, k->heads, 1);
    gpu_add_int(w, "batch", c->batch);
    gpu_add_int(w, "q_len", c->q_len);
    add_pool(w, k, c);
}

/* gpu_group.make. */
static const char *make_decode(struct gpu *g, const struct num_subject *s,
                               const struct gpu_case *c, struct gpu_work *w)
{
    struct cut t;
    const char *why;

    if (!is_for(g, s, c->q_len * s->info.heads))
        return "";
    w->kernel[0] = *s;
    w->kernels = 2;
    why = gpu_sibling(g, s, "mqa_combine", &w->kernel[1]);
    if (!why)
        why = gpu_sibling(g, s, "decode_plan", &w->first);
    if (why)
        return why;
    w->has_first = true;
    t = cut_of(g, s, c);
    add_step(w, &s->info, c);
    add_list(w, &t, s->info.latent);
    count(w, &s->info, c);
    return NULL;
}

const struct gpu_group gpu_decode = {"decode", "mqa_decode", make_decode};

/* --- the work list -------------------------------------------------------- */

/* gpu_group.make, for a tile like that of some decode kernel: the list depends
 * on little else. */
static const char *make_plan(struct gpu *g, const struct num_subject *s,
                             const struct gpu_case *c, struct gpu_work *w)
{
    struct num_subject decode;
    const char *why = gpu_sibling(g, s, "mqa_decode", &decode);
    struct cut t;

    if (why)
        return why;
    t = cut_of(g, &decode, c);
    w->kernel[0] = *s;
    w->kernels = 1;
    gpu_add_index(w, "seq_lens", c->batch, c->seq_len, 0, 0);
    gpu_add_int(w, "batch", c->batch);
    gpu_add_int(w, "q_len", c->q_len);
    add_list(w, &t, s->info.latent);
    w->bytes = 4.0 * (double)(c->batch + HEADER_INTS + t.ctas + 1 + t.units +
                              1 + t.items * ITEM_INTS);
    return NULL;
}

const struct gpu_group gpu_plan = {"plan", "decode_plan", make_plan};
