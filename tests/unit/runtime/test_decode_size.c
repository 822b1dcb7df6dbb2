/* SPDX-License-Identifier: Apache-2.0
 *
 * How large a work list can become: the library's formula against lists made
 * tile by tile, for every batch of lengths.
 *
 * The lists here are made from what docs/decode.md says, walking over single
 * tiles of keys and looking who gets each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "decode_world.h"

enum { MAX_UNITS = 64, MAX_BATCH = 4 };

/* A step on one kernel, in plain numbers. */
struct job {
    int heads, m, n; /* rows and keys of a tile */
    int batch, q_len, longest;
    int ctas, min_tiles, split_tiles;
};

struct list {
    int64_t units, items, slots;
};

/* Simulation -------------------------------------------------------------- */

/* Key tiles of row tile j of a request: its last row's token is the one that
 * sees most. */
static int tiles_of(const struct job *j, int length, int row_tile)
{
    int last = -1, keys, tiles = 0;

    if (length < j->q_len)
        return 1; /* nothing to see, and counted as one */
    for (int row = row_tile * j->m; row < (row_tile + 1) * j->m; row++)
        if (row < j->q_len * j->heads)
            last = row;
    keys = length - j->q_len + last / j->heads + 1;
    for (int k = 0; k < keys; k += j->n)
        tiles++;
    return tiles;
}

/* Tiles of m rows that begin within the rows of a request. */
static int row_tiles_of(const struct job *j)
{
    int count = 0;
    for (int row = 0; row < j->q_len * j->heads; row += j->m)
        count++;
    return count;
}

/* Worker that has tile t of T: worker c has floor(c T / G) and on. */
static int worker_of(int t, int tiles, int workers)
{
    int c = 0;
    while (c + 1 < workers && (c + 1) * tiles / workers <= t)
        c++;
    return c;
}

/* Those that get work: each at least min_tiles. */
static int workers_of(const struct job *j, int tiles)
{
    int workers = tiles / (j->min_tiles > 1 ? j->min_tiles : 1);
    if (workers > j->ctas)
        workers = j->ctas;
    return workers > 1 ? workers : 1;
}

/* Items of a unit of n tiles that begins with tile `first` of the launch. */
static int items_of(const struct job *j, int n, int first, int all)
{
    int items = 1, workers = workers_of(j, all);

    for (int i = 1; i < n; i++)
        if (j->split_tiles)
            items += i % j->split_tiles == 0;
        else
            items += worker_of(first + i, all, workers) !=
                     worker_of(first + i - 1, all, workers);
    return items;
}

/* The list for these lengths, unit by unit. */
static struct list simulate(const struct job *j, const int *length)
{
    struct list l = {0, 0, 0};
    int weight[MAX_UNITS], all = 0, first = 0;

    for (int b = 0; b < j->batch; b++)
        for (int r = 0; r < row_tiles_of(j); r++) {
            weight[l.units] = tiles_of(j, length[b], r);
            all += weight[l.units++];
        }
    for (int u = 0; u < l.units; u++) {
        int items = items_of(j, weight[u], first, all);
        l.items += items;
        l.slots += items > 1 ? items : 0;
        first += weight[u];
    }
    return l;
}

/* The most items and slots that any lengths up to the longest give. */
static struct list worst(const struct job *j)
{
    struct list most = {0, 0, 0};
    int length[MAX_BATCH] = {0}, b = 0;

    while (b < j->batch) {
        struct list l = simulate(j, length);
        most.units = l.units;
        most.items = l.items > most.items ? l.items : most.items;
        most.slots = l.slots > most.slots ? l.slots : most.slots;
        for (b = 0; b < j->batch && ++length[b] > j->longest; b++)
            length[b] = 0;
    }
    return most;
}

/* Bytes of the buffers that docs/decode.md lists, each from a multiple of 256
 * on. */
static int64_t bytes_of(const struct job *j, int latent, const struct list *l)
{
    const int64_t count[] = {8,
                             j->ctas + 1,
                             l->items * 8,
                             l->units + 1,
                             l->slots * j->m,
                             l->slots * j->m * latent};
    int64_t bytes = 0;

    for (int i = 0; i < 6; i++)
        bytes = (bytes + 255) / 256 * 256 + 4 * count[i];
    return bytes;
}

/* The library --------------------------------------------------------------
 */

enum { LATENT = 48 };

static mla_context *ctx;
static mla_kernels *set;

/* A decode object of a set in a context of its own. */
static mla_decode *decode_of(const struct world_spec *spec, int ctas,
                             int min_tiles, int split_keys)
{
    mla_decode_options o = MLA_DECODE_OPTIONS_INIT;
    mla_decode *d;

    ctx = fake_context(NULL);
    set = world_load(ctx, spec, true);
    assert_non_null(set);
    o.ctas = ctas;
    o.min_tiles = min_tiles;
    o.split_keys = split_keys;
    if (mla_decode_create(set, &o, &d))
        fail_msg("%s", mla_last_error(ctx));
    return d;
}

/* Frees all three. */
static void drop(mla_decode *d)
{
    mla_decode_free(d);
    mla_kernels_free(set);
    mla_context_destroy(ctx);
}

/* One whose single tile is the job's. */
static mla_decode *decode_for(const struct job *j)
{
    struct world_tile tile = {"m", "sm_80", j->m, j->n, 1 << 20, 1};
    struct world_spec spec = {.heads = j->heads,
                              .latent = LATENT,
                              .rope = 16,
                              .page_size = 16,
                              .tiles = &tile,
                              .tile_count = 1};
    return decode_of(&spec, j->ctas, j->min_tiles, j->split_tiles * j->n);
}

/* What the library is told of the job. */
static mla_decode_step step_of(const struct job *j)
{
    return (mla_decode_step){.size = sizeof(mla_decode_step),
                             .batch = j->batch,
                             .q_len = j->q_len,
                             .max_seq_len = j->longest};
}

static mla_decode_layout layout_of(mla_decode *d, const struct job *j)
{
    mla_decode_step s = step_of(j);
    mla_decode_layout l = {.size = sizeof(l)};

    if (mla_decode_describe(d, &s, &l))
        fail_msg("%s", mla_last_error(ctx));
    return l;
}

/* More than any other if the step is too large to be counted. */
static int64_t workspace_of(mla_decode *d, const mla_decode_step *s)
{
    int64_t bytes = -1;
    mla_status status = mla_decode_workspace(d, s, &bytes);

    if (status == MLA_RANGE)
        return INT64_MAX;
    assert_int_equal(status, MLA_OK);
    return bytes;
}

#define PRINT                                                                  \
    "%d heads, tiles %d x %d, batch %d, q_len %d, longest %d, ctas %d, min "   \
    "%d, split %d: %s is %lld, not %lld"

/* A failure shows the job. */
static void expect(const struct job *j, const char *what, int64_t is,
                   int64_t want)
{
    if (is != want)
        fail_msg(PRINT, j->heads, j->m, j->n, j->batch, j->q_len, j->longest,
                 j->ctas, j->min_tiles, j->split_tiles, what, (long long)is,
                 (long long)want);
}

/* Batch-invariant --------------------------------------------------------- */

/* The library counts what the worst lengths need, no more. */
static void check_exact(mla_decode *d, const struct job *j)
{
    mla_decode_layout l = layout_of(d, j);
    struct list most = worst(j);

    expect(j, "units", l.units, most.units);
    expect(j, "items", l.item_capacity, most.items);
    expect(j, "slots", l.slot_capacity, most.slots);
    expect(j, "bytes", l.bytes, bytes_of(j, LATENT, &most));
}

/* Heads that divide a tile and heads that do not, tiles of several tokens,
 * requests shorter than their queries. */
static void every_cut_of_an_invariant_list_is_counted_exactly(void **state)
{
    static const int heads[] = {1, 3, 5, 8}, rows[] = {4, 6, 16},
                     keys[] = {1, 2, 3};
    (void)state;
    for (int i = 0; i < 4 * 3 * 3 * 4 * 3 * 3; i++) {
        struct job j = {.heads = heads[i % 4],
                        .m = rows[i / 4 % 3],
                        .n = keys[i / 12 % 3],
                        .q_len = 1 + i / 36 % 4,
                        .split_tiles = 1 + i / 144 % 3,
                        .batch = 1 + i / 432 % 2,
                        .ctas = 5};
        mla_decode *d = decode_for(&j);
        for (j.longest = 1; j.longest < 10; j.longest++)
            check_exact(d, &j);
        drop(d);
    }
}

/* One tile of rows: as many workers as there are tiles, up to `ctas`. */
static void a_single_unit_in_balance_is_counted_exactly(void **state)
{
    (void)state;
    for (int i = 0; i < 3 * 4 * 3; i++) {
        struct job j = {.heads = 2,
                        .m = 4,
                        .n = 1 + i % 3,
                        .q_len = 1,
                        .ctas = 1 + 3 * (i / 3 % 4),
                        .min_tiles = i / 12,
                        .batch = 1};
        mla_decode *d = decode_for(&j);
        for (j.longest = 1; j.longest < 40; j.longest += 1 + i % 5)
            check_exact(d, &j);
        drop(d);
    }
}

/* In balance -------------------------------------------------------------- */

/* The two numbers of a list that is cut in balance suffice.  Where a unit can
 * have a tile for each worker, some lengths need all of them; where all units
 * are short, cuts between them depend on divisions that no formula follows,
 * and a few may be spare.  Returns whether they had to be exact. */
static bool check_enough(mla_decode *d, const struct job *j)
{
    mla_decode_layout l = layout_of(d, j);
    struct list most = worst(j);
    int workers = j->ctas * (j->min_tiles > 1 ? j->min_tiles : 1);
    bool exact = tiles_of(j, j->longest, 0) > workers;

    expect(j, "units", l.units, most.units);
    if (most.items > l.item_capacity || exact)
        expect(j, "items", l.item_capacity, most.items);
    if (most.slots > l.slot_capacity || exact)
        expect(j, "slots", l.slot_capacity, most.slots);
    return exact;
}

static void a_balanced_list_never_outgrows_its_bound(void **state)
{
    int exact = 0;

    (void)state;
    for (int i = 0; i < 3 * 3 * 2 * 4 * 3; i++) {
        struct job j = {.heads = 1 + i % 3,
                        .m = 2 + i / 3 % 3,
                        .n = 1 + i / 9 % 2,
                        .q_len = 1 + i / 9 % 3,
                        .ctas = 1 + 2 * (i / 18 % 4),
                        .min_tiles = i / 72,
                        .batch = 1 + i % 3};
        mla_decode *d = decode_for(&j);
        for (j.longest = 1; j.longest < 17; j.longest += 5)
            exact += check_enough(d, &j);
        drop(d);
    }
    assert_true(exact > 100);
}

/* Bounds ------------------------------------------------------------------ */

static const struct world_tile tiles[] = {{"m4", "sm_80", 4, 2, 4, 2},
                                          {"m16", "sm_80", 16, 1, 16, 1},
                                          {"m6", "sm_80", 6, 3, 6, 2}};

/* Three tiles of different keys and blocks per SM, in no order. */
static struct world_spec spec_of(int heads)
{
    return (struct world_spec){.heads = heads,
                               .latent = LATENT,
                               .rope = 16,
                               .page_size = 16,
                               .tiles = tiles,
                               .tile_count = 3};
}

/* The smallest tile that holds the rows, or the largest there is. */
static const struct world_tile *tile_for(int rows)
{
    const struct world_tile *best = &tiles[1];
    for (int i = 0; i < 3; i++)
        if (tiles[i].m >= rows && tiles[i].m < best->m)
            best = &tiles[i];
    return best;
}

enum { FAKE_SMS = 108, SPLIT = 4 };

/* What the largest step within the bounds needs, q_len by q_len. */
static int64_t largest_need(struct job j)
{
    int64_t most = 0;
    int q_len = j.q_len;

    for (j.q_len = 1; j.q_len <= q_len; j.q_len++) {
        const struct world_tile *t = tile_for(j.q_len * j.heads);
        struct list l;
        j.m = t->m;
        j.n = t->n;
        j.ctas = FAKE_SMS * t->min_ctas;
        j.split_tiles = (SPLIT + t->n - 1) / t->n;
        l = worst(&j);
        if (bytes_of(&j, LATENT, &l) > most)
            most = bytes_of(&j, LATENT, &l);
    }
    return most;
}

static void a_workspace_is_what_the_largest_step_within_needs(void **state)
{
    (void)state;
    for (int heads = 1; heads < 8; heads++) {
        struct world_spec spec = spec_of(heads);
        mla_decode *d = decode_of(&spec, 0, 0, SPLIT);
        for (int i = 0; i < 9 * 4; i++) {
            struct job j = {.heads = heads,
                            .batch = 1 + i % 2,
                            .q_len = 1 + i % 9,
                            .longest = 1 + 4 * (i / 9)};
            mla_decode_step s = step_of(&j);
            expect(&j, "workspace", workspace_of(d, &s), largest_need(j));
        }
        drop(d);
    }
}

static uint64_t random_state = 0x9e3779b97f4a7c15u;

/* 0 to end - 1, small numbers as likely as large ones. */
static int64_t random_below(int64_t end)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int64_t)(random_state >> 8) % end >> random_state % 16;
}

/* Bounds of an engine, the large ones rarely. */
static mla_decode_step random_step(void)
{
    return (mla_decode_step){.size = sizeof(mla_decode_step),
                             .batch = (int)random_below(5000),
                             .q_len = 1 + (int)random_below(64),
                             .max_seq_len = 1 + random_below(200000)};
}

/* b, raised to a wherever it is below. */
static mla_decode_step both(mla_decode_step a, mla_decode_step b)
{
    b.batch = b.batch > a.batch ? b.batch : a.batch;
    b.q_len = b.q_len > a.q_len ? b.q_len : a.q_len;
    b.max_seq_len =
        b.max_seq_len > a.max_seq_len ? b.max_seq_len : a.max_seq_len;
    return b;
}

/* What suffices for larger bounds suffices for smaller ones, and for every
 * step within. */
static void check_growth(mla_decode *d)
{
    for (int i = 0; i < 10000; i++) {
        mla_decode_step a = random_step(), b = both(a, random_step());
        mla_decode_layout l = {.size = sizeof(l)};
        int64_t smaller = workspace_of(d, &a), larger = workspace_of(d, &b);
        if (smaller > larger)
            fail_msg("batch %d, q_len %d, %lld keys need %lld, more than "
                     "%lld of %d, %d, %lld",
                     a.batch, a.q_len, (long long)a.max_seq_len,
                     (long long)smaller, (long long)larger, b.batch, b.q_len,
                     (long long)b.max_seq_len);
        if (larger == INT64_MAX || a.batch == 0)
            continue;
        assert_int_equal(mla_decode_describe(d, &a, &l), MLA_OK);
        assert_true(l.bytes <= larger);
    }
}

/* The bounds, and what is given at creation, one at a time. */
static void a_workspace_grows_with_everything_that_bounds_it(void **state)
{
    static const int options[][3] = {
        {0, 0, 0}, {7, 0, 0}, {500, 8, 0}, {0, 0, 1}, {3, 0, 333}};

    (void)state;
    for (int heads = 1; heads < 20; heads += 6)
        for (int i = 0; i < 5; i++) {
            struct world_spec spec = spec_of(heads);
            mla_decode *d = decode_of(&spec, options[i][0], options[i][1],
                                      options[i][2]);
            check_growth(d);
            drop(d);
        }
}

/* More workers, or a split of half the width. */
static void it_grows_with_workers_and_shrinks_with_wider_splits(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        struct world_spec spec = spec_of(1 + i % 9);
        mla_decode_step s = random_step();
        int ctas = 1 + (int)random_below(1000);
        int split = 1 + (int)random_below(5000);
        mla_decode *d = decode_of(&spec, ctas, 0, i % 2 ? split : 0);
        int64_t less = workspace_of(d, &s), more;
        drop(d);
        d = decode_of(&spec, ctas + (int)random_below(50), 0,
                      i % 2 ? 1 + split / 2 : 0);
        more = workspace_of(d, &s);
        assert_true(less <= more);
        drop(d);
    }
}

/* 63 workers and a closing entry fill 256 bytes, and so do 63 units. */
static void every_entry_has_its_bytes(void **state)
{
    (void)state;
    for (int i = 0; i < 9 * 9; i++) {
        struct job j = {.heads = 1,
                        .m = 4,
                        .n = 2,
                        .q_len = 1,
                        .batch = 60 + i % 9,
                        .longest = 2,
                        .ctas = 60 + i / 9};
        const struct list whole = {j.batch, j.batch, 0};
        mla_decode *d = decode_for(&j);
        mla_decode_layout l = layout_of(d, &j);
        expect(&j, "bytes", l.bytes, bytes_of(&j, LATENT, &whole));
        drop(d);
    }
}

/* Limits ------------------------------------------------------------------ */

/* Both queries refuse, with these words, and leave no size behind. */
static void expect_refused(mla_decode *d, int batch, int q_len,
                           int64_t max_seq_len, const char *names)
{
    mla_decode_step s = {.size = sizeof(s),
                         .batch = batch,
                         .q_len = q_len,
                         .max_seq_len = max_seq_len};
    mla_decode_layout l = {.size = sizeof(l)};
    int64_t bytes = 77;

    assert_int_equal(mla_decode_workspace(d, &s, &bytes), MLA_RANGE);
    assert_int_equal(bytes, 0);
    if (!strstr(mla_last_error(ctx), names))
        fail_msg("'%s' is not in: %s", names, mla_last_error(ctx));
    assert_int_equal(mla_decode_describe(d, &s, &l), MLA_RANGE);
}

static void what_cannot_be_counted_is_refused_by_name(void **state)
{
    struct world_spec spec = spec_of(2);
    mla_decode *d = decode_of(&spec, 0, 0, 64);

    (void)state;
    expect_refused(d, -1, 1, 1, "'batch': -1");
    expect_refused(d, 1, -1, 1, "'q_len': -1");
    expect_refused(d, 1, INT32_MAX / 2, 1, "'q_len': 1073741823");
    expect_refused(d, 1, 1, -1, "'max_seq_len': -1");
    expect_refused(d, 1, 1, (int64_t)1 << 31, "'max_seq_len': 2147483648");
    expect_refused(d, 1, 1, 0, "which split_keys needs");
    /* 2^31 - 1 requests of 2^25 items each */
    expect_refused(d, INT32_MAX, 1, INT32_MAX, "cannot be indexed");
    expect_refused(d, INT32_MAX, 1, 64, "cannot be indexed");
    expect_refused(d, 65, 1, INT32_MAX, "of 2181038080 items");
    drop(d);
    d = decode_of(&spec, 0, 0, 0);
    /* one item each, and 215 cuts on top */
    expect_refused(d, INT32_MAX - 1, 1, 4, "of 2147483861 items");
    drop(d);
}

/* 64 requests of 2^31 - 1 keys: more bytes than 32 bits can count. */
static void sizes_are_64_bits_wide(void **state)
{
    struct world_spec spec = spec_of(2);
    mla_decode *d = decode_of(&spec, 0, 0, 64);
    mla_decode_step s = {sizeof(s), 60, 1, INT32_MAX, 0, 0, 0};
    const int64_t items = 60 * ((int64_t)1 << 31) / 64;
    int64_t least = items * 32 + items * 4 * (LATENT + 1) * 4;
    int64_t bytes = workspace_of(d, &s);

    (void)state;
    /* six buffers' worth of padding, and the small ones */
    assert_true(bytes >= least && bytes < least + 6 * 256 + 4096);
    drop(d);
}

/* The least that a caller may say: batch alone; and less than that. */
static void steps_of_other_sizes_are_taken(void **state)
{
    struct world_spec spec = spec_of(2);
    mla_decode *d = decode_of(&spec, 0, 0, 0);
    mla_decode_step s = {sizeof(s), 3, 1, 0, 0, 0, 0};
    int64_t all = workspace_of(d, &s), bytes;

    (void)state;
    s.size = offsetof(mla_decode_step, q_len);
    s.q_len = -5; /* beyond what it says it has */
    assert_int_equal(workspace_of(d, &s), all);
    s.size = 3;
    assert_int_equal(mla_decode_workspace(d, &s, &bytes),
                     MLA_INVALID_ARGUMENT);
    s = (mla_decode_step){sizeof(s), 0, 1, 0, 0, 0, 0};
    assert_int_equal(workspace_of(d, &s), 0);
    drop(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_of_an_invariant_list_is_counted_exactly),
        cmocka_unit_test(a_single_unit_in_balance_is_counted_exactly),
        cmocka_unit_test(a_balanced_list_never_outgrows_its_bound),
        cmocka_unit_test(a_workspace_is_what_the_largest_step_within_needs),
        cmocka_unit_test(a_workspace_grows_with_everything_that_bounds_it),
        cmocka_unit_test(it_grows_with_workers_and_shrinks_with_wider_splits),
        cmocka_unit_test(every_entry_has_its_bytes),
        cmocka_unit_test(what_cannot_be_counted_is_refused_by_name),
        cmocka_unit_test(sizes_are_64_bits_wide),
        cmocka_unit_test(steps_of_other_sizes_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
