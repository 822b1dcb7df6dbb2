/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool on a device whose streams run when the test says so: copies in
 * every layout, pages that wait for their streams, tables and their stages,
 * stream capture, and every allocation and driver call failing once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake_streams.h"

enum { LAYERS = 3, ROW = 32, PAGE = 4, PAGES = 12 };

struct world {
    mla_context *ctx;
    mla_pool *pool;
};

static int set_up(void **state)
{
    static struct world w;
    w.pool = NULL;
    w.ctx = fake_stream_context(NULL);
    *state = &w;
    return w.ctx == NULL;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    int bad = w->pool ? (int)mla_pool_check(w->pool) : 0;
    mla_pool_destroy(w->pool);
    fake_run_all();
    fake_streams_free();
    mla_context_destroy(w->ctx);
    return bad | fake.current | fake_events | fake_pinned;
}

static mla_pool_options options(int layout)
{
    mla_pool_options o = MLA_POOL_OPTIONS_INIT;
    o.pages = PAGES;
    o.row_bytes = ROW;
    o.page_size = PAGE;
    o.layers = LAYERS;
    o.layout = layout;
    o.max_sequences = 8;
    o.table_width = 8;
    o.max_tokens = 64;
    o.stages = 2;
    return o;
}

static mla_pool *make(struct world *w, const mla_pool_options *o)
{
    mla_pool_options plain = options(MLA_LAYER_FIRST);
    assert_int_equal(mla_pool_create(w->ctx, o ? o : &plain, &w->pool),
                     MLA_OK);
    return w->pool;
}

static void expect(mla_pool *pool, mla_status got, mla_status want,
                   const char *says)
{
    char text[512];
    assert_string_equal(mla_status_name(got), mla_status_name(want));
    mla_pool_last_error(pool, text, sizeof(text));
    if (!strstr(text, says))
        fail_msg("'%s' is not in: %s", says, text);
}

static mla_pool_stats stats(mla_pool *pool)
{
    mla_pool_stats s = {.size = sizeof(s)};
    assert_int_equal(mla_pool_statistics(pool, &s), MLA_OK);
    return s;
}

static mla_seq grown(mla_pool *pool, int32_t tokens)
{
    mla_seq seq;
    assert_int_equal(mla_pool_add(pool, &seq), MLA_OK);
    assert_int_equal(mla_pool_extend(pool, &seq, &tokens, 1, NULL), MLA_OK);
    return seq;
}

static mla_status step(mla_pool *pool, const mla_seq *seqs, int rows,
                       void *stream, mla_pool_tables *out)
{
    mla_pool_batch b = {.size = sizeof(b), .seqs = seqs, .rows = rows};
    out->size = sizeof(*out);
    return mla_pool_step(pool, &b, stream, out);
}

/* A row in device memory, which is host memory here. */
static unsigned char *row_of(mla_pool *pool, mla_seq seq, int layer,
                             int64_t token)
{
    mla_pool_info i = {.size = sizeof(i)};
    int64_t slot;
    assert_int_equal(mla_pool_describe(pool, &i), MLA_OK);
    assert_int_equal(mla_pool_slots(pool, seq, token, 1, &slot), MLA_OK);
    return (unsigned char *)(uintptr_t)(mla_pool_buffer(pool, layer) +
                                        (uint64_t)(slot / i.page_size *
                                                   i.page_stride)) +
           slot % i.page_size * i.row_stride;
}

/* Every byte of a row names layer and token. */
static void write_row(mla_pool *pool, mla_seq seq, int layer, int64_t token)
{
    memset(row_of(pool, seq, layer, token), 16 * layer + (int)token + 1, ROW);
}

static void write_rows(mla_pool *pool, mla_seq seq, int64_t n)
{
    for (int l = 0; l < LAYERS; l++)
        for (int64_t t = 0; t < n; t++)
            write_row(pool, seq, l, t);
}

static void assert_row(mla_pool *pool, mla_seq seq, int layer, int64_t token,
                       int64_t written_as)
{
    unsigned char want[ROW];
    memset(want, 16 * layer + (int)written_as + 1, ROW);
    assert_memory_equal(row_of(pool, seq, layer, token), want, ROW);
}

static void assert_rows(mla_pool *pool, mla_seq seq, int64_t n)
{
    for (int l = 0; l < LAYERS; l++)
        for (int64_t t = 0; t < n; t++)
            assert_row(pool, seq, l, t, t);
}

/* Layouts ---------------------------------------------------------------- */

/* Strides worked by hand: 3 layers, 12 pages of 4 rows of 32 bytes. */
static void layouts_have_the_strides_of_their_names(void **state)
{
    struct world *w = *state;
    static const int64_t want[3][3] = {
        {32, 128, 1536}, {32, 384, 128}, {96, 384, 32}};

    for (int layout = 0; layout < 3; layout++) {
        mla_pool_options o = options(layout);
        mla_pool_info i = {.size = sizeof(i)};
        mla_pool *pool = make(w, &o);
        assert_int_equal(mla_pool_describe(pool, &i), MLA_OK);
        assert_int_equal(i.row_stride, want[layout][0]);
        assert_int_equal(i.page_stride, want[layout][1]);
        assert_int_equal(i.layer_stride, want[layout][2]);
        assert_int_equal(mla_pool_buffer(pool, 2) - mla_pool_buffer(pool, 0),
                         2 * want[layout][2]);
        assert_int_equal(mla_pool_buffer(pool, 3), 0);
        mla_pool_destroy(pool);
        w->pool = NULL;
    }
}

static void page_zero_is_zeroed_in_every_layer(void **state)
{
    struct world *w = *state;
    static const unsigned char zero[ROW];
    static unsigned char memory[3][2048];
    uint64_t buffers[3];
    mla_pool_options o = options(MLA_LAYER_FIRST);

    memset(memory, 0xee, sizeof(memory));
    for (int l = 0; l < 3; l++)
        buffers[l] = (uint64_t)(uintptr_t)memory[l];
    o.buffers = buffers;
    o.row_stride = 48;
    make(w, &o);
    for (int l = 0; l < 3; l++)
        for (int r = 0; r < PAGE; r++) {
            assert_memory_equal(memory[l] + r * 48, zero, ROW);
            assert_int_equal(memory[l][r * 48 + ROW], 0xee);
        }
    assert_int_equal(memory[0][PAGE * 48], 0xee);
}

/* Pages of one layer further apart than they are long: what is between them
 * may be another pool's. */
static void nothing_behind_page_zero_is_touched(void **state)
{
    struct world *w = *state;
    static const unsigned char zero[PAGE * ROW];
    static unsigned char memory[2 * PAGE * ROW * PAGES];
    uint64_t buffer = (uint64_t)(uintptr_t)memory;
    mla_pool_options o = options(MLA_LAYER_FIRST);

    memset(memory, 0xee, sizeof(memory));
    o.layers = 1;
    o.buffers = &buffer;
    o.page_stride = 2 * PAGE * ROW;
    make(w, &o);
    assert_memory_equal(memory, zero, sizeof(zero));
    for (size_t i = sizeof(zero); i < 2 * sizeof(zero); i++)
        assert_int_equal(memory[i], 0xee);
}

static void page_zero_is_zeroed_in_every_layout(void **state)
{
    struct world *w = *state;
    for (int layout = 0; layout < 3; layout++) {
        mla_pool_options o = options(layout);
        static const unsigned char zero[ROW];
        mla_pool *pool = make(w, &o);
        mla_pool_info is = {.size = sizeof(is)};
        assert_int_equal(mla_pool_describe(pool, &is), MLA_OK);
        for (int l = 0; l < LAYERS; l++)
            for (int r = 0; r < PAGE; r++)
                assert_memory_equal(
                    (char *)(uintptr_t)mla_pool_buffer(pool, l) +
                        r * is.row_stride,
                    zero, ROW);
        mla_pool_destroy(pool);
        w->pool = NULL;
    }
}

/* Fork and extend under one set of options; returns the copies made. */
static int copies_for(struct world *w, const mla_pool_options *o)
{
    mla_pool *pool = make(w, o);
    mla_seq a = grown(pool, 7), b;
    int made;

    write_rows(pool, a, 7);
    assert_int_equal(mla_pool_fork(pool, a, -1, &b), MLA_OK);
    assert_int_equal(mla_pool_extend(pool, &b, NULL, 1, NULL), MLA_OK);
    fake_copies = 0;
    assert_int_equal(mla_pool_flush(pool, NULL), MLA_OK);
    made = fake_copies;
    fake_run_all();
    assert_rows(pool, a, 7);
    assert_rows(pool, b, 7);
    assert_true(row_of(pool, a, 0, 6) != row_of(pool, b, 0, 6));
    assert_int_equal(mla_pool_check(pool), MLA_OK);
    mla_pool_destroy(pool);
    w->pool = NULL;
    return made;
}

static void a_copy_covers_every_layer_in_every_layout(void **state)
{
    struct world *w = *state;
    mla_pool_options o = options(MLA_LAYER_FIRST);
    assert_int_equal(copies_for(w, &o), LAYERS);
    o = options(MLA_PAGE_FIRST);
    assert_int_equal(copies_for(w, &o), 1);
    o = options(MLA_TOKEN_FIRST);
    assert_int_equal(copies_for(w, &o), 1);
    o = options(MLA_LAYER_FIRST);
    o.row_stride = ROW + 16; /* rows apart: row by row */
    o.page_stride = PAGE * (ROW + 16);
    o.layer_stride = PAGES * PAGE * (ROW + 16);
    assert_int_equal(copies_for(w, &o), 3 * LAYERS);
}

static void bytes_between_rows_are_left_alone(void **state)
{
    struct world *w = *state;
    mla_pool_options o = options(MLA_LAYER_FIRST);
    mla_pool *pool;
    mla_seq a, b;

    o.row_stride = ROW + 16;
    o.page_stride = PAGE * (ROW + 16);
    o.layer_stride = PAGES * PAGE * (ROW + 16);
    pool = make(w, &o);
    a = grown(pool, 3);
    write_rows(pool, a, 3);
    assert_int_equal(mla_pool_fork(pool, a, -1, &b), MLA_OK);
    assert_int_equal(mla_pool_extend(pool, &b, NULL, 1, NULL), MLA_OK);
    memset(row_of(pool, a, 0, 0) + ROW, 0xaa, 16);
    memset(row_of(pool, b, 0, 0) + ROW, 0xbb, 16);
    assert_int_equal(mla_pool_flush(pool, NULL), MLA_OK);
    fake_run_all();
    assert_rows(pool, b, 3);
    assert_int_equal(row_of(pool, b, 0, 0)[ROW], 0xbb);
    assert_int_equal(row_of(pool, b, 0, 0)[ROW + 15], 0xbb);
}

static void a_move_leaves_the_other_rows_of_a_page(void **state)
{
    struct world *w = *state;
    for (int layout = 0; layout < 3; layout++) {
        mla_pool_options o = options(layout);
        mla_pool *pool = make(w, &o);
        mla_seq a = grown(pool, 8);
        write_rows(pool, a, 8);
        assert_int_equal(
            mla_pool_move(pool, a, (int64_t[]){4, 6}, (int64_t[]){0, 1}, 2),
            MLA_OK);
        assert_int_equal(mla_pool_flush(pool, NULL), MLA_OK);
        fake_run_all();
        for (int l = 0; l < LAYERS; l++) {
            assert_row(pool, a, l, 0, 4);
            assert_row(pool, a, l, 1, 6);
            assert_row(pool, a, l, 2, 2);
            assert_row(pool, a, l, 3, 3);
        }
        mla_pool_destroy(pool);
        w->pool = NULL;
    }
}

/* Export and import ------------------------------------------------------ */

static void exported_rows_come_back_by_import(void **state)
{
    struct world *w = *state;
    for (int layout = 0; layout < 3; layout++) {
        mla_pool_options o = options(layout);
        mla_pool *pool = make(w, &o);
        mla_seq a = grown(pool, 11), b, shared;
        unsigned char rows[LAYERS][9][ROW];

        write_rows(pool, a, 11);
        assert_int_equal(mla_pool_export(pool, a, 1, 9, rows, NULL), MLA_OK);
        fake_run_all();
        for (int l = 0; l < LAYERS; l++)
            for (int t = 0; t < 9; t++)
                assert_int_equal(rows[l][t][ROW - 1], 16 * l + t + 2);
        b = grown(pool, 11);
        write_rows(pool, b, 1);
        assert_int_equal(mla_pool_fork(pool, b, 8, &shared), MLA_OK);
        assert_int_equal(mla_pool_import(pool, b, 1, 9, rows, NULL), MLA_OK);
        fake_run_all();
        assert_rows(pool, b, 10); /* token 0 by copy on write */
        assert_true(row_of(pool, b, 0, 4) != row_of(pool, shared, 0, 4));
        mla_pool_destroy(pool);
        w->pool = NULL;
    }
}

/* Neighbouring pages go in one copy per layer, so 9 rows are 3 copies. */
static void export_joins_neighbouring_pages(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, NULL);
    mla_seq a = grown(pool, 11);
    unsigned char rows[LAYERS][11][ROW];

    write_rows(pool, a, 11);
    fake_calls = 0;
    assert_int_equal(mla_pool_export(pool, a, 0, 11, rows, NULL), MLA_OK);
    assert_int_equal(fake_calls, 1 + LAYERS); /* and the capture query */
    fake_run_all();
}

/* Release ---------------------------------------------------------------- */

/* [B80] A decode is in flight while its sequence ends. */
static void pages_wait_for_the_stream_that_uses_them(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, NULL);
    void *stream = fake_stream_new();
    mla_seq a = grown(pool, 7 * PAGE), b;
    int32_t n = 5 * PAGE;

    fake_fill(stream, (uint64_t)(uintptr_t)row_of(pool, a, 0, 0), 9, ROW);
    assert_int_equal(mla_pool_drop(pool, a, stream), MLA_OK);
    assert_int_equal(stats(pool).waiting_pages, 7);
    assert_int_equal(mla_pool_add(pool, &b), MLA_OK);
    expect(pool, mla_pool_extend(pool, &b, &n, 1, NULL), MLA_OUT_OF_PAGES,
           "5 pages needed, 4 of 11 are free (7 wait for a stream");
    assert_int_equal(mla_pool_check(pool), MLA_OK);
    fake_run(stream, 1); /* the kernel, but not yet the event behind it */
    expect(pool, mla_pool_extend(pool, &b, &n, 1, NULL), MLA_OUT_OF_PAGES,
           "7 wait");
    fake_run_all();
    assert_int_equal(mla_pool_extend(pool, &b, &n, 1, NULL), MLA_OK);
    assert_int_equal(stats(pool).waiting_pages, 0);
}

/* A page that two streams have used waits for both, whichever is first. */
static void pages_wait_for_every_stream_the_pool_knows(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, NULL);
    void *stream[2] = {fake_stream_new(), fake_stream_new()};

    for (int first = 0; first < 2; first++) {
        mla_seq a = grown(pool, 4), b;
        assert_int_equal(mla_pool_fork(pool, a, -1, &b), MLA_OK);
        assert_int_equal(mla_pool_drop(pool, a, stream[0]), MLA_OK);
        assert_int_equal(mla_pool_drop(pool, b, stream[1]), MLA_OK);
        assert_int_equal(mla_pool_reclaim(pool, 0), MLA_OK);
        fake_run(stream[first], FAKE_OPS);
        assert_int_equal(mla_pool_reclaim(pool, 0), MLA_OK);
        assert_int_equal(stats(pool).waiting_pages, 1);
        fake_run(stream[!first], FAKE_OPS);
        assert_int_equal(mla_pool_reclaim(pool, 0), MLA_OK);
        assert_int_equal(stats(pool).waiting_pages, 0);
    }
}

/* Twenty, with sixteen slots for sealed ones. */
static void reclaim_can_wait_however_many_releases_there_are(void **state)
{
    struct world *w = *state;
    mla_pool_options o = options(MLA_LAYER_FIRST);
    mla_pool *pool;

    o.pages = 64;
    pool = make(w, &o);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(mla_pool_drop(pool, grown(pool, 1), NULL), MLA_OK);
        assert_int_equal(mla_pool_reclaim(pool, 0), MLA_OK);
    }
    assert_int_equal(stats(pool).waiting_pages, 20);
    assert_int_equal(mla_pool_check(pool), MLA_OK);
    assert_int_equal(mla_pool_reclaim(pool, 1), MLA_OK);
    assert_int_equal(stats(pool).free_pages, 63);
}

static void a_stream_that_ends_is_waited_for_and_forgotten(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, NULL);
    void *stream = fake_stream_new();
    mla_seq a = grown(pool, 4), b = grown(pool, 4);
    mla_pool_tables t;

    assert_int_equal(step(pool, &a, 1, stream, &t), MLA_OK);
    assert_int_equal(mla_pool_drop(pool, a, stream), MLA_OK);
    assert_int_equal(mla_pool_forget(pool, stream), MLA_OK);
    assert_int_equal(stats(pool).waiting_pages, 0);
    assert_int_equal(((struct fake_stream *)stream)->count, 0);
    ((struct fake_stream *)stream)->capturing = 1; /* whoever asks it fails */
    assert_int_equal(step(pool, &b, 1, NULL, &t), MLA_OK);
    assert_int_equal(fake_default.op[0].kind, FAKE_COPY);
    assert_int_equal(mla_pool_forget(pool, stream), MLA_OK);
}

static void a_ninth_stream_is_refused_until_one_is_forgotten(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, NULL);
    static struct fake_stream streams[9];
    mla_seq seq = grown(pool, 4);

    for (int i = 0; i < 8; i++)
        assert_int_equal(mla_pool_truncate(pool, seq, 4, &streams[i]), MLA_OK);
    expect(pool, mla_pool_truncate(pool, seq, 1, &streams[8]), MLA_STREAMS,
           "knows 8 streams already; mla_pool_forget");
    assert_int_equal(stats(pool).tokens, 4);
    fake_all[fake_streams++] = &streams[3];
    assert_int_equal(mla_pool_forget(pool, &streams[3]), MLA_OK);
    fake_streams--;
    assert_int_equal(mla_pool_truncate(pool, seq, 1, &streams[8]), MLA_OK);
}

/* Steps ------------------------------------------------------------------ */

static void a_step_brings_all_tables_by_one_copy(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, NULL);
    mla_seq seq[3] = {grown(pool, 6), grown(pool, 1), grown(pool, 4)};
    const int32_t q_lens[3] = {3, 0, 1};
    const int32_t seq_lens[4] = {6, 1, 4, 0}, cu_q[5] = {0, 3, 3, 4, 4};
    const int32_t tables[4][8] = {{1, 2}, {3}, {4}, {0}};
    const int64_t slots[4] = {7, 8, 9, 19};
    mla_pool_batch b = {sizeof(b), seq, q_lens, 3, 4, 0};
    mla_pool_tables t = {.size = sizeof(t)};

    assert_int_equal(mla_pool_step(pool, &b, NULL, &t), MLA_OK);
    assert_int_equal(fake_uploads, 1);
    assert_int_equal(fake_host_bytes, t.bytes);
    fake_run_all();
    assert_int_equal(t.rows, 3);
    assert_int_equal(t.padded, 4);
    assert_int_equal(t.tokens, 4);
    assert_int_equal(t.max_seq_len, 6);
    assert_int_equal(t.block_table_stride, 32);
    assert_memory_equal((void *)(uintptr_t)t.seq_lens, seq_lens, 16);
    assert_memory_equal((void *)(uintptr_t)t.cu_q, cu_q, 20);
    assert_memory_equal((void *)(uintptr_t)t.slots, slots, 32);
    assert_memory_equal((void *)(uintptr_t)t.block_table, tables, 128);
}

static void a_shorter_row_leaves_no_pages_behind(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, NULL);
    mla_seq a = grown(pool, 30);
    const int32_t want[8] = {1};
    mla_pool_tables t;

    for (int i = 0; i < 2; i++) /* both stages */
        assert_int_equal(step(pool, &a, 1, NULL, &t), MLA_OK);
    assert_int_equal(mla_pool_truncate(pool, a, 3, NULL), MLA_OK);
    assert_int_equal(step(pool, &a, 1, NULL, &t), MLA_OK);
    fake_run_all();
    assert_memory_equal((void *)(uintptr_t)t.block_table, want, 32);
}

static void a_compact_step_sends_fewer_bytes(void **state)
{
    struct world *w = *state;
    mla_pool_options o = options(MLA_LAYER_FIRST);
    mla_pool *pool;
    mla_seq seq[2];
    mla_pool_batch b = {sizeof(b), seq, NULL, 2, 0, 1};
    mla_pool_tables t = {.size = sizeof(t)}, wide = {.size = sizeof(t)};

    o.table_width = 1000;
    pool = make(w, &o);
    seq[0] = grown(pool, 5);
    seq[1] = grown(pool, 9);
    b.compact = 0;
    assert_int_equal(mla_pool_step(pool, &b, NULL, &wide), MLA_OK);
    b.compact = 1;
    for (int i = 0; i < 2; i++)
        assert_int_equal(mla_pool_step(pool, &b, NULL, &t), MLA_OK);
    fake_run_all();
    assert_int_equal(wide.block_table_stride, 4000);
    assert_int_equal(t.block_table_stride, 256);
    assert_int_equal(wide.bytes - t.bytes, 2 * (4000 - 256));
    assert_memory_equal((char *)(uintptr_t)t.block_table + 256,
                        ((int32_t[]){3, 4, 5, 0}), 16);
    b.compact = 0;
    assert_int_equal(mla_pool_step(pool, &b, NULL, &t), MLA_OK);
    fake_run_all();
    assert_memory_equal((char *)(uintptr_t)t.block_table + 4000,
                        ((int32_t[]){3, 4, 5, 0}), 16);
}

/* [B81] Copies run late; each finds the image it was enqueued with. */
static void a_stage_is_not_touched_before_its_copy_has_run(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, NULL);
    mla_seq a = grown(pool, 5), b = grown(pool, 9);
    mla_pool_tables t;
    const int32_t *length;

    assert_int_equal(step(pool, &a, 1, NULL, &t), MLA_OK);
    assert_int_equal(step(pool, &b, 1, NULL, &t), MLA_OK);
    length = (const int32_t *)(uintptr_t)t.seq_lens;
    fake_run(NULL, 1);
    assert_int_equal(*length, 5);
    fake_run(NULL, 2);
    assert_int_equal(*length, 9);
    /* Two stages: the second of these waits until the first has begun. */
    assert_int_equal(step(pool, &a, 1, NULL, &t), MLA_OK);
    assert_int_equal(stats(pool).step_waits, 0);
    assert_int_equal(step(pool, &b, 1, NULL, &t), MLA_OK);
    assert_int_equal(stats(pool).step_waits, 1);
    fake_run_all();
    assert_int_equal(*length, 9);
}

/* [B84] The tables are one piece of memory. */
static void a_step_on_another_stream_waits_for_the_last(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, NULL);
    void *one = fake_stream_new(), *two = fake_stream_new();
    mla_seq a = grown(pool, 5), b = grown(pool, 9);
    mla_pool_tables t;
    const int32_t *length;

    assert_int_equal(step(pool, &a, 1, one, &t), MLA_OK);
    fake_fill(one, mla_pool_buffer(pool, 0), 1, 1); /* a kernel of step one */
    assert_int_equal(step(pool, &b, 1, two, &t), MLA_OK);
    length = (const int32_t *)(uintptr_t)t.seq_lens;
    assert_int_equal(fake_run(two, 1), 0);
    fake_run(one, 1);
    assert_int_equal(*length, 5);
    assert_int_equal(fake_run(two, 1), 0); /* the kernel has not run */
    fake_run_all();
    assert_int_equal(*length, 9);
}

/* [B85] A graph holds the addresses; they fit the largest batch. */
static void addresses_stay_the_same_for_every_batch(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, NULL);
    mla_seq seq[8];
    mla_pool_tables first = {0}, t;

    for (int i = 0; i < 8; i++) {
        seq[i] = grown(pool, 1);
        assert_int_equal(step(pool, seq, i + 1, NULL, &t), MLA_OK);
        if (!i)
            first = t;
        assert_int_equal(t.block_table, first.block_table);
        assert_int_equal(t.block_table_stride, first.block_table_stride);
        assert_int_equal(t.seq_lens, first.seq_lens);
        assert_int_equal(t.cu_q, first.cu_q);
        assert_int_equal(t.slots, first.slots);
    }
}

static void a_batch_beyond_the_tables_is_refused(void **state)
{
    struct world *w = *state;
    mla_pool_options o = options(MLA_LAYER_FIRST);
    mla_pool *pool;
    mla_seq seq[3];
    int32_t q_lens[3] = {3, 3, 3};
    mla_pool_batch b = {sizeof(b), seq, q_lens, 3, 0, 0};
    mla_pool_tables t = {.size = sizeof(t)};

    o.max_batch = 2;
    o.max_tokens = 5;
    pool = make(w, &o);
    for (int i = 0; i < 3; i++)
        seq[i] = grown(pool, 3);
    expect(pool, mla_pool_step(pool, &b, NULL, &t), MLA_RANGE,
           "3 rows in a step, max_batch is 2");
    b.rows = 2;
    expect(pool, mla_pool_step(pool, &b, NULL, &t), MLA_RANGE,
           "6 new tokens in a step, max_tokens is 5");
    b.rows = 1;
    b.padded = 3;
    expect(pool, mla_pool_step(pool, &b, NULL, &t), MLA_RANGE, "3 rows");
    b.padded = 0;
    q_lens[0] = 4;
    expect(pool, mla_pool_step(pool, &b, NULL, &t), MLA_RANGE,
           "row 0: q_len 4 of a sequence of 3");
    assert_int_equal(t.block_table, 0);
    assert_int_equal(fake_uploads, 0);
}

/* [B19] Nothing is enqueued, so the capture stays good. */
static void a_stream_in_capture_is_refused_by_name(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, NULL);
    mla_seq a = grown(pool, 6), b;
    unsigned char rows[LAYERS][6][ROW];
    mla_pool_tables t;

    assert_int_equal(mla_pool_fork(pool, a, -1, &b), MLA_OK);
    assert_int_equal(mla_pool_extend(pool, &b, NULL, 1, NULL), MLA_OK);
    fake_default.capturing = 1;
    expect(pool, step(pool, &a, 1, NULL, &t), MLA_CAPTURING,
           "mla_pool_step: the stream is being captured");
    expect(pool, mla_pool_flush(pool, NULL), MLA_CAPTURING, "mla_pool_flush");
    expect(pool, mla_pool_export(pool, a, 0, 6, rows, NULL), MLA_CAPTURING,
           "mla_pool_export");
    expect(pool, mla_pool_import(pool, a, 0, 6, rows, NULL), MLA_CAPTURING,
           "mla_pool_import");
    assert_int_equal(fake_default.count, 0);
    assert_int_equal(stats(pool).pending_copies, 1);
    fake_default.capturing = 0;
    assert_int_equal(step(pool, &a, 1, NULL, &t), MLA_OK);
    assert_int_equal(stats(pool).pending_copies, 0);
}

/* An event that is recorded or asked for would end the capture. */
static void no_event_is_touched_while_a_known_stream_is_captured(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, NULL);
    struct fake_stream *stream = fake_stream_new();
    mla_seq a = grown(pool, 8 * PAGE), b;
    int32_t n = 4 * PAGE;

    assert_int_equal(mla_pool_drop(pool, a, stream), MLA_OK);
    assert_int_equal(mla_pool_add(pool, &b), MLA_OK);
    stream->capturing = 1;
    expect(pool, mla_pool_extend(pool, &b, &n, 1, NULL), MLA_OUT_OF_PAGES,
           "8 wait for a stream");
    expect(pool, mla_pool_reclaim(pool, 1), MLA_CAPTURING, "mla_pool_reclaim");
    expect(pool, mla_pool_forget(pool, stream), MLA_CAPTURING, "captured");
    assert_int_equal(stream->count, 0);
    stream->capturing = 0;
    assert_int_equal(mla_pool_reclaim(pool, 1), MLA_OK);
    assert_int_equal(mla_pool_extend(pool, &b, &n, 1, NULL), MLA_OK);
}

/* Failures --------------------------------------------------------------- */

/* Once a counter reaches the chosen number, that allocation fails. */
struct miser {
    int count, fail_at;
    int64_t alive;
};

static void *miser_alloc(void *user, void *block, size_t size)
{
    struct miser *m = user;
    if (!size) {
        m->alive -= block != NULL;
        free(block);
        return NULL;
    }
    if (++m->count == m->fail_at)
        return NULL;
    m->alive += block == NULL;
    return realloc(block, size);
}

/* One of everything that can fail; the first failure ends it. */
static mla_status scenario(mla_context *ctx, mla_pool **out)
{
    mla_pool_options o = options(MLA_LAYER_FIRST);
    static unsigned char rows[LAYERS][6][ROW];
    int32_t many = 6;
    mla_pool_tables t;
    mla_seq a = 0, b = 0;
    mla_status status = mla_pool_create(ctx, &o, out);
    mla_pool *pool = *out;
    void *other = fake_streams > 1 ? fake_all[1] : fake_stream_new();

#define TRY(call)                                                             \
    if (!status)                                                              \
    status = (call)
    TRY(mla_pool_add(pool, &a));
    TRY(mla_pool_extend(pool, &a, &many, 1, NULL));
    TRY(mla_pool_fork(pool, a, -1, &b));
    TRY(mla_pool_extend(pool, (mla_seq[]){a, b}, NULL, 2, NULL));
    TRY(mla_pool_move(pool, a, (int64_t[]){5}, (int64_t[]){1}, 1));
    TRY(step(pool, &a, 1, NULL, &t));
    TRY(step(pool, &a, 1, other, &t));
    TRY(mla_pool_import(pool, b, 0, 6, rows, NULL));
    TRY(mla_pool_export(pool, b, 0, 6, rows, NULL));
    TRY(mla_pool_drop(pool, a, NULL));
    TRY(step(pool, &b, 1, NULL, &t));
    TRY(mla_pool_reclaim(pool, 1));
    TRY(mla_pool_drop(pool, b, other));
    TRY(mla_pool_check(pool));
    TRY(mla_pool_forget(pool, other));
#undef TRY
    return status;
}

static void every_allocation_may_fail(void **state)
{
    mla_status status = MLA_OUT_OF_MEMORY;
    int tried = 0;
    (void)state;

    for (int at = 1; status == MLA_OUT_OF_MEMORY; at++, tried++) {
        struct miser m = {0, 0, 0};
        mla_options o = MLA_OPTIONS_INIT;
        mla_context *ctx;
        mla_pool *pool;
        o.alloc = miser_alloc;
        o.alloc_user = &m;
        ctx = fake_stream_context(&o);
        assert_non_null(ctx);
        m.count = 0;
        m.fail_at = at;
        status = scenario(ctx, &pool);
        m.fail_at = 0;
        if (pool)
            assert_int_equal(mla_pool_check(pool), MLA_OK);
        mla_pool_destroy(pool);
        mla_context_destroy(ctx);
        fake_run_all();
        assert_int_equal(m.alive, 0);
        assert_int_equal(fake_events, 0);
        assert_int_equal(fake_pinned, 0);
    }
    assert_int_equal(status, MLA_OK);
    assert_true(tried > 10);
}

static void every_driver_call_may_fail(void **state)
{
    mla_status status = MLA_CUDA;
    int tried = 0;
    (void)state;

    for (int at = 1; status == MLA_CUDA; at++, tried++) {
        mla_context *ctx = fake_stream_context(NULL);
        mla_pool *pool;
        fake_fail_at = at;
        status = scenario(ctx, &pool);
        if (status && pool)
            expect(pool, status, MLA_CUDA, "LAUNCH_FAILED (719)");
        fake_fail_at = 0;
        if (pool)
            assert_int_equal(mla_pool_check(pool), MLA_OK);
        mla_pool_destroy(pool);
        fake_run_all();
        assert_int_equal(fake.current, 0);
        assert_int_equal(fake_events, 0);
        assert_int_equal(fake_pinned, 0);
        mla_context_destroy(ctx);
    }
    assert_int_equal(status, MLA_OK);
    assert_true(tried > 30);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(layouts_have_the_strides_of_their_names),
        TEST(page_zero_is_zeroed_in_every_layer),
        TEST(page_zero_is_zeroed_in_every_layout),
        TEST(nothing_behind_page_zero_is_touched),
        TEST(a_copy_covers_every_layer_in_every_layout),
        TEST(bytes_between_rows_are_left_alone),
        TEST(a_move_leaves_the_other_rows_of_a_page),
        TEST(exported_rows_come_back_by_import),
        TEST(export_joins_neighbouring_pages),
        TEST(pages_wait_for_the_stream_that_uses_them),
        TEST(pages_wait_for_every_stream_the_pool_knows),
        TEST(reclaim_can_wait_however_many_releases_there_are),
        TEST(a_stream_that_ends_is_waited_for_and_forgotten),
        TEST(a_ninth_stream_is_refused_until_one_is_forgotten),
        TEST(a_step_brings_all_tables_by_one_copy),
        TEST(a_shorter_row_leaves_no_pages_behind),
        TEST(a_compact_step_sends_fewer_bytes),
        TEST(a_stage_is_not_touched_before_its_copy_has_run),
        TEST(a_step_on_another_stream_waits_for_the_last),
        TEST(addresses_stay_the_same_for_every_batch),
        TEST(a_batch_beyond_the_tables_is_refused),
        TEST(a_stream_in_capture_is_refused_by_name),
        TEST(no_event_is_touched_while_a_known_stream_is_captured),
        TEST(every_allocation_may_fail),
        TEST(every_driver_call_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
