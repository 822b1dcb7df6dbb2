/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool's books on the host: allocation in the order that engines rely
 * on, sharing, and every misuse refused by name.  The first three tests are
 * the golden rows of facts/serving-semantics.md, section 3.4; the names in
 * brackets are those of facts/known-faults.md.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "internal.h"

struct world {
    mla_context *ctx;
    mla_pool *pool;
};

static int set_up(void **state)
{
    static struct world w;
    w.pool = NULL;
    *state = &w;
    return mla_context_create(NULL, &w.ctx);
}

static int tear_down(void **state)
{
    struct world *w = *state;
    int status = w->pool ? (int)mla_pool_check(w->pool) : 0;
    mla_pool_destroy(w->pool);
    mla_context_destroy(w->ctx);
    return status;
}

static mla_pool *make(struct world *w, int64_t pages, int page_size)
{
    mla_pool_options o = MLA_POOL_OPTIONS_INIT;
    o.pages = pages;
    o.row_bytes = 1152;
    o.page_size = page_size;
    o.max_sequences = 16;
    o.table_width = 8;
    o.host_only = 1;
    assert_int_equal(mla_pool_create(w->ctx, &o, &w->pool), MLA_OK);
    return w->pool;
}

/* The status by name, and the text says what it is about. */
static void expect(mla_pool *pool, mla_status got, mla_status want,
                   const char *says)
{
    char text[512];
    assert_string_equal(mla_status_name(got), mla_status_name(want));
    mla_pool_last_error(pool, text, sizeof(text));
    if (!strstr(text, says))
        fail_msg("'%s' is not in: %s", says, text);
}

static mla_seq grown(mla_pool *pool, int32_t tokens)
{
    mla_seq seq;
    assert_int_equal(mla_pool_add(pool, &seq), MLA_OK);
    assert_int_equal(mla_pool_extend(pool, &seq, &tokens, 1, NULL), MLA_OK);
    return seq;
}

static mla_status extend1(mla_pool *pool, mla_seq seq, int32_t tokens)
{
    return mla_pool_extend(pool, &seq, &tokens, 1, NULL);
}

static mla_pool_stats stats(mla_pool *pool)
{
    mla_pool_stats s = {.size = sizeof(s)};
    assert_int_equal(mla_pool_statistics(pool, &s), MLA_OK);
    return s;
}

/* The pages of a sequence; returns how many. */
static int pages_of(mla_pool *pool, mla_seq seq, int32_t pages[8])
{
    int count;
    assert_int_equal(mla_pool_pages(pool, seq, pages, 8, &count), MLA_OK);
    return count;
}

/* Puts the pool's free pages into the given order: takes every page into a
 * sequence of its own and drops them in that order. */
static void order_free(mla_pool *pool, const int *order, int n)
{
    mla_seq holder[16];
    for (int i = 1; i <= n; i++)
        holder[i] = grown(pool, 1);
    for (int i = 0; i < n; i++)
        assert_int_equal(mla_pool_drop(pool, holder[order[i]], NULL), MLA_OK);
}

/* Allocation order ------------------------------------------------------ */

static void extend_fills_the_last_page_then_takes_pages_in_order(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 8, 4);
    static const int order[] = {7, 2, 1, 3, 4, 5, 6};
    const int64_t want[] = {4, 5, 6, 10, 11, 12, 13, 14, 15, 16};
    int64_t slots[10];
    mla_seq seq[2];
    int32_t counts[2] = {3, 7};

    order_free(pool, order, 7);
    seq[1] = grown(pool, 6); /* pages 7 and 2: the last slot is 9 */
    assert_int_equal(mla_pool_slots(pool, seq[1], 5, 1, slots), MLA_OK);
    assert_int_equal(slots[0], 9);
    assert_int_equal(mla_pool_add(pool, &seq[0]), MLA_OK);
    assert_int_equal(mla_pool_extend(pool, seq, counts, 2, slots), MLA_OK);
    assert_memory_equal(slots, want, sizeof(want));
    assert_int_equal(stats(pool).free_pages, 7 - 2 - 3);
}

static void extend_by_nothing_takes_nothing(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 8, 4);
    static const int order[] = {1, 2, 5, 6, 7, 3, 4};
    const int64_t want[] = {20, 21, 22, 23, 24};
    int64_t slots[5];
    mla_seq seq[2];
    int32_t counts[2] = {0, 5};

    order_free(pool, order, 7);
    seq[0] = grown(pool, 4); /* page 1 */
    seq[1] = grown(pool, 4); /* page 2, last slot 11 */
    assert_int_equal(mla_pool_extend(pool, seq, counts, 2, slots), MLA_OK);
    assert_memory_equal(slots, want, sizeof(want));
    assert_int_equal(stats(pool).used_pages, 4);
}

static void the_last_row_of_a_page_needs_no_new_page(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 10, 4);
    mla_seq seq = grown(pool, 3); /* page 1: the last slot is 6 */
    int64_t slot;

    assert_int_equal(mla_pool_extend(pool, &seq, NULL, 1, &slot), MLA_OK);
    assert_int_equal(slot, 7);
    assert_int_equal(stats(pool).used_pages, 1);
    assert_int_equal(mla_pool_extend(pool, &seq, NULL, 1, &slot), MLA_OK);
    assert_int_equal(slot, 8);
    assert_int_equal(stats(pool).used_pages, 2);
}

static void page_zero_is_never_handed_out(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 9, 1);
    int32_t pages[8];
    mla_seq seq = grown(pool, 8);

    assert_int_equal(pages_of(pool, seq, pages), 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pages[i], i + 1);
    expect(pool, mla_pool_retain(pool, (int32_t[]){0}, 1), MLA_BAD_PAGE,
           "page 0");
}

static void freed_pages_are_used_again_in_the_order_they_came(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 7, 1);
    mla_seq a = grown(pool, 3), b = grown(pool, 2);
    int32_t pages[8];

    assert_int_equal(mla_pool_drop(pool, b, NULL), MLA_OK);        /* 4 5 */
    assert_int_equal(mla_pool_truncate(pool, a, 1, NULL), MLA_OK); /* 2 3 */
    b = grown(pool, 5);
    assert_int_equal(pages_of(pool, b, pages), 5);
    assert_memory_equal(pages, ((int32_t[]){6, 4, 5, 2, 3}), 20);
}

/* Limits: refused, and nothing changed ----------------------------------- */

static void a_batch_that_does_not_fit_changes_nothing(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 6, 4);
    mla_seq seq[2] = {grown(pool, 3), grown(pool, 9)};
    mla_pool_stats before = stats(pool), after;
    int32_t counts[2] = {2, 4}; /* one page each; one is free */

    expect(pool, mla_pool_extend(pool, seq, counts, 2, NULL), MLA_OUT_OF_PAGES,
           "2 pages needed, 1 of 5 are free");
    after = stats(pool);
    assert_memory_equal(&before, &after, sizeof(before));
    counts[0] = 1;
    assert_int_equal(mla_pool_extend(pool, seq, counts, 2, NULL), MLA_OK);
}

/* [B69] 127 committed tokens and 4 drafts need a third page. */
static void a_sequence_cannot_outgrow_its_block_table(void **state)
{
    struct world *w = *state;
    mla_pool_options o = MLA_POOL_OPTIONS_INIT;
    mla_pool *pool;
    mla_seq seq;
    int64_t length;

    o.pages = 9;
    o.row_bytes = 1152;
    o.table_width = 2;
    o.host_only = 1;
    assert_int_equal(mla_pool_create(w->ctx, &o, &pool), MLA_OK);
    w->pool = pool;
    seq = grown(pool, 127);
    expect(pool, extend1(pool, seq, 4), MLA_TOO_LONG,
           "127 + 4 tokens need 3 pages, a block table row has 2");
    assert_int_equal(mla_pool_length(pool, seq, &length), MLA_OK);
    assert_int_equal(length, 127);
    assert_int_equal(extend1(pool, seq, 1), MLA_OK);
    expect(pool, extend1(pool, seq, INT32_MAX), MLA_TOO_LONG, "128 + 2147483");
}

static void the_number_of_sequences_is_bounded(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 4, 4);
    mla_seq seq[16], one_more;

    for (int i = 0; i < 16; i++)
        assert_int_equal(mla_pool_add(pool, &seq[i]), MLA_OK);
    expect(pool, mla_pool_add(pool, &one_more), MLA_OUT_OF_SEQUENCES,
           "max_sequences is 16");
    assert_int_equal(one_more, 0);
    expect(pool, mla_pool_fork(pool, seq[3], 0, &one_more),
           MLA_OUT_OF_SEQUENCES, "16 sequences");
    assert_int_equal(mla_pool_drop(pool, seq[5], NULL), MLA_OK);
    assert_int_equal(mla_pool_add(pool, &one_more), MLA_OK);
    assert_int_not_equal(one_more, seq[5]);
}

/* [B76] Releasing again is an error and changes nothing. */
static void a_dropped_sequence_cannot_be_used_again(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 8, 4);
    mla_seq seq = grown(pool, 6), other = grown(pool, 4), out;
    mla_pool_stats before, after;
    int64_t slot;
    int n;

    assert_int_equal(mla_pool_drop(pool, seq, NULL), MLA_OK);
    before = stats(pool);
    expect(pool, mla_pool_drop(pool, seq, NULL), MLA_DROPPED, "dropped");
    expect(pool, extend1(pool, seq, 1), MLA_DROPPED, "dropped");
    expect(pool, mla_pool_fork(pool, seq, 0, &out), MLA_DROPPED, "");
    expect(pool, mla_pool_truncate(pool, seq, 0, NULL), MLA_DROPPED, "");
    expect(pool, mla_pool_length(pool, seq, &slot), MLA_DROPPED, "");
    expect(pool, mla_pool_pages(pool, seq, NULL, 0, &n), MLA_DROPPED, "");
    expect(pool, mla_pool_slots(pool, seq, 0, 1, &slot), MLA_DROPPED, "");
    expect(pool, mla_pool_own(pool, seq, 0, 0), MLA_DROPPED, "");
    expect(pool, mla_pool_move(pool, seq, &slot, &slot, 1), MLA_DROPPED, "");
    expect(pool, mla_pool_extend(pool, (mla_seq[]){other, seq}, NULL, 2, NULL),
           MLA_DROPPED, "");
    after = stats(pool);
    assert_memory_equal(&before, &after, sizeof(before));
    /* The place is taken by another sequence: the old handle stays dead. */
    for (int i = 0; i < 14; i++)
        assert_int_equal(mla_pool_add(pool, &out), MLA_OK);
    expect(pool, mla_pool_drop(pool, seq, NULL), MLA_DROPPED, "dropped");
}

static void a_sequence_of_another_pool_is_refused(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 8, 4), *other;
    mla_seq seq = grown(pool, 6);

    w->pool = NULL;
    other = make(w, 8, 4);
    grown(other, 6);
    expect(other, mla_pool_drop(other, seq, NULL), MLA_NO_SEQUENCE,
           "no sequence of this pool");
    expect(other, mla_pool_drop(other, 0, NULL), MLA_NO_SEQUENCE, "0");
    expect(other, mla_pool_drop(other, 12345, NULL), MLA_NO_SEQUENCE,
           "0x3039");
    assert_int_equal(mla_pool_check(pool), MLA_OK);
    mla_pool_destroy(pool);
}

static void impossible_counts_and_ranges_are_refused(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 8, 4);
    mla_seq seq = grown(pool, 6), out;
    int64_t slots[8];

    expect(pool, extend1(pool, seq, -1), MLA_INVALID_ARGUMENT, "-1 tokens");
    expect(pool, mla_pool_extend(pool, (mla_seq[]){seq, seq}, NULL, 2, NULL),
           MLA_INVALID_ARGUMENT, "listed twice");
    expect(pool, mla_pool_truncate(pool, seq, 7, NULL), MLA_RANGE,
           "7 tokens of a sequence of 6");
    expect(pool, mla_pool_truncate(pool, seq, -1, NULL), MLA_RANGE, "-1");
    expect(pool, mla_pool_fork(pool, seq, 7, &out), MLA_RANGE, "fork of 7");
    expect(pool, mla_pool_slots(pool, seq, 4, 3, slots), MLA_RANGE,
           "3 tokens from 4 on, of a sequence of 6");
    expect(pool, mla_pool_slots(pool, seq, INT64_MAX, 1, slots), MLA_RANGE,
           "");
    expect(pool, mla_pool_own(pool, seq, 6, 1), MLA_RANGE, "");
    expect(pool, mla_pool_move(pool, seq, (int64_t[]){5}, (int64_t[]){6}, 1),
           MLA_RANGE, "1 tokens from 6");
    expect(pool, mla_pool_flush(pool, NULL), MLA_INVALID_ARGUMENT,
           "host_only");
    assert_int_equal(mla_pool_extend(pool, NULL, NULL, 0, NULL), MLA_OK);
    assert_int_equal(mla_pool_extend(pool, NULL, NULL, 1, NULL),
                     MLA_INVALID_ARGUMENT);
    assert_int_equal(mla_pool_add(NULL, &out), MLA_INVALID_ARGUMENT);
}

static void an_option_out_of_bounds_is_named(void **state)
{
    struct world *w = *state;
    static const struct {
        size_t offset, bytes;
        int64_t value;
        const char *says;
    } rows[] = {
#define OPTION(name)                                                          \
    offsetof(mla_pool_options, name), sizeof(((mla_pool_options *)0)->name)
        {OPTION(pages), 1, "pages is 1, must be 2 to"},
        {OPTION(pages), (int64_t)1 << 31, "pages is 2147483648"},
        {OPTION(row_bytes), 0, "row_bytes is 0"},
        {OPTION(page_size), 48, "page_size is 48, must be a power of two"},
        {OPTION(page_size), 512, "page_size is 512, must be 1 to 256"},
        {OPTION(page_size), -1, "page_size is -1"},
        {OPTION(layers), -3, "layers is -3"},
        {OPTION(layout), 3, "layout is 3"},
        {OPTION(max_sequences), 1 << 24, "max_sequences is 16777216"},
        {OPTION(table_width), INT32_MAX, "table_width is 2147483647"},
        {OPTION(row_stride), 1151, "row_stride is 1151, must be at least"},
        {OPTION(row_stride), 1156, "row_stride is 1156, must be a multiple"},
        {OPTION(page_stride), 1152, "page_stride is 1152, must be at least"},
        {OPTION(layer_stride), 16, "layer_stride is 16, must be at least"},
        {OPTION(page_stride), INT64_MAX - 15, "pool of 6.46e+19 bytes"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        mla_pool_options o = MLA_POOL_OPTIONS_INIT;
        mla_pool *pool = (mla_pool *)w;
        o.pages = 8;
        o.row_bytes = 1152;
        o.host_only = 1;
        memcpy((char *)&o + rows[i].offset, &rows[i].value, rows[i].bytes);
        assert_int_not_equal(mla_pool_create(w->ctx, &o, &pool), MLA_OK);
        assert_null(pool);
        if (!strstr(mla_last_error(w->ctx), rows[i].says))
            fail_msg("'%s' is not in: %s", rows[i].says,
                     mla_last_error(w->ctx));
    }
}

/* Sharing ---------------------------------------------------------------- */

/* [B77] A has 70 tokens, B forks, both go on: the page is copied once. */
static void a_shared_last_page_is_copied_before_it_is_written(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 8, 64);
    mla_seq a = grown(pool, 70), b;
    mla_pool_copy copy;
    int64_t slots[2];
    int32_t pages[8];
    int count;

    assert_int_equal(mla_pool_fork(pool, a, -1, &b), MLA_OK);
    assert_int_equal(stats(pool).shared_pages, 2);
    assert_int_equal(stats(pool).used_pages, 2);
    assert_int_equal(mla_pool_extend(pool, (mla_seq[]){a, b}, NULL, 2, slots),
                     MLA_OK);
    assert_int_equal(slots[0], 3 * 64 + 6); /* a moved to page 3 */
    assert_int_equal(slots[1], 2 * 64 + 6); /* b stayed on page 2 */
    assert_int_equal(mla_pool_copies(pool, &copy, 1, &count), MLA_OK);
    assert_int_equal(count, 1);
    assert_memory_equal(&copy, (&(mla_pool_copy){2, 0, 3, 0, 6}),
                        sizeof(copy));
    assert_int_equal(pages_of(pool, a, pages), 2);
    assert_int_equal(pages[0], 1);
    assert_int_equal(mla_pool_copies_done(pool, 1, NULL), MLA_OK);
    assert_int_equal(mla_pool_drop(pool, a, NULL), MLA_OK);
    assert_int_equal(mla_pool_drop(pool, b, NULL), MLA_OK);
    assert_int_equal(stats(pool).free_pages, 7);
}

static void a_full_shared_page_needs_no_copy(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 8, 4);
    mla_seq a = grown(pool, 8), b;

    assert_int_equal(mla_pool_fork(pool, a, 4, &b), MLA_OK);
    assert_int_equal(extend1(pool, b, 1), MLA_OK);
    assert_int_equal(extend1(pool, a, 1), MLA_OK);
    assert_int_equal(stats(pool).pending_copies, 0);
    assert_int_equal(stats(pool).used_pages, 4);
}

/* Two sharers in one batch need one page, so one free page is enough. */
static void sharers_of_a_batch_need_exactly_what_they_need(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 4, 4);
    mla_seq seq[3];

    seq[0] = grown(pool, 2);
    assert_int_equal(mla_pool_fork(pool, seq[0], -1, &seq[1]), MLA_OK);
    assert_int_equal(mla_pool_fork(pool, seq[0], -1, &seq[2]), MLA_OK);
    assert_int_equal(mla_pool_extend(pool, seq, NULL, 3, NULL), MLA_OK);
    assert_int_equal(stats(pool).free_pages, 0);
    assert_int_equal(stats(pool).pending_copies, 2);
}

static void a_refused_batch_leaves_shared_pages_shared(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 4, 4);
    mla_seq seq[4];
    mla_pool_stats before, after;

    seq[0] = grown(pool, 2);
    for (int i = 1; i < 4; i++)
        assert_int_equal(mla_pool_fork(pool, seq[0], -1, &seq[i]), MLA_OK);
    before = stats(pool);
    expect(pool, mla_pool_extend(pool, seq, NULL, 4, NULL), MLA_OUT_OF_PAGES,
           "3 pages needed, 2 of 3");
    seq[3] = 0;
    expect(pool, mla_pool_extend(pool, seq, NULL, 4, NULL), MLA_NO_SEQUENCE,
           "0");
    after = stats(pool);
    assert_memory_equal(&before, &after, sizeof(before));
    assert_int_equal(mla_pool_check(pool), MLA_OK);
}

static void a_pending_copy_keeps_both_pages(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 4, 4);
    mla_seq a = grown(pool, 2), b;

    assert_int_equal(mla_pool_fork(pool, a, -1, &b), MLA_OK);
    assert_int_equal(extend1(pool, b, 1), MLA_OK);
    assert_int_equal(mla_pool_drop(pool, a, NULL), MLA_OK);
    assert_int_equal(mla_pool_drop(pool, b, NULL), MLA_OK);
    assert_int_equal(stats(pool).pinned_pages, 2);
    assert_int_equal(stats(pool).free_pages, 1);
    assert_int_equal(mla_pool_check(pool), MLA_OK);
    expect(pool, mla_pool_copies_done(pool, 2, NULL), MLA_RANGE,
           "2 of 1 pending");
    assert_int_equal(mla_pool_copies_done(pool, 1, NULL), MLA_OK);
    assert_int_equal(stats(pool).free_pages, 3);
}

/* The caller's own references -------------------------------------------- */

/* [B78] A prefix cache holds pages of a sequence that ends. */
static void retained_pages_outlive_their_sequence(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 8, 4);
    mla_seq a = grown(pool, 8), b = grown(pool, 8), c;
    int32_t node[8], pages[8];

    pages_of(pool, a, node);
    assert_int_equal(mla_pool_retain(pool, node, 2), MLA_OK);
    assert_int_equal(mla_pool_drop(pool, a, NULL), MLA_OK);
    assert_int_equal(stats(pool).used_pages, 4);
    assert_int_equal(mla_pool_adopt(pool, node, 2, 7, &c), MLA_OK);
    assert_int_equal(mla_pool_release(pool, node, 2, NULL), MLA_OK);
    assert_int_equal(stats(pool).used_pages, 4);
    assert_int_equal(pages_of(pool, c, pages), 2);
    assert_memory_equal(pages, node, 8);
    assert_int_equal(mla_pool_drop(pool, c, NULL), MLA_OK);
    pages_of(pool, b, pages); /* b's pages are not among the free ones */
    assert_int_equal(mla_pool_check(pool), MLA_OK);
    assert_int_equal(stats(pool).free_pages, 5);
}

static void releasing_more_than_is_retained_is_a_double_free(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 8, 4);
    mla_seq a = grown(pool, 8);
    int32_t pages[8], twice[2];
    mla_seq out;

    pages_of(pool, a, pages);
    twice[0] = twice[1] = pages[0];
    expect(pool, mla_pool_release(pool, pages, 1, NULL), MLA_DOUBLE_FREE,
           "page 1 is released more often");
    assert_int_equal(mla_pool_retain(pool, pages, 1), MLA_OK);
    expect(pool, mla_pool_release(pool, twice, 2, NULL), MLA_DOUBLE_FREE,
           "page 1");
    assert_int_equal(mla_pool_check(pool), MLA_OK);
    assert_int_equal(mla_pool_release(pool, twice, 1, NULL), MLA_OK);
    expect(pool, mla_pool_release(pool, (int32_t[]){8}, 1, NULL), MLA_BAD_PAGE,
           "page 8; the pool has 1 to 7");
    expect(pool, mla_pool_release(pool, (int32_t[]){5}, 1, NULL), MLA_BAD_PAGE,
           "page 5 is not in use");
    expect(pool, mla_pool_retain(pool, (int32_t[]){1, -1}, 2), MLA_BAD_PAGE,
           "page -1");
    expect(pool, mla_pool_adopt(pool, pages, 2, 4, &out), MLA_RANGE,
           "2 pages of 4 tokens for a length of 4");
    expect(pool, mla_pool_adopt(pool, (int32_t[]){6}, 1, 4, &out),
           MLA_BAD_PAGE, "page 6");
    assert_int_equal(out, 0);
}

static void an_adopted_part_of_a_page_is_copied_on_write(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 8, 4);
    mla_seq a = grown(pool, 4), b;
    mla_pool_copy copy;
    int count;

    assert_int_equal(mla_pool_adopt(pool, (int32_t[]){1}, 1, 3, &b), MLA_OK);
    assert_int_equal(extend1(pool, b, 1), MLA_OK);
    assert_int_equal(mla_pool_copies(pool, &copy, 1, &count), MLA_OK);
    assert_int_equal(count, 1);
    assert_memory_equal(&copy, (&(mla_pool_copy){1, 0, 2, 0, 3}),
                        sizeof(copy));
    assert_int_equal(mla_pool_drop(pool, a, NULL), MLA_OK);
}

/* Moving ----------------------------------------------------------------- */

/* A tree of drafts at 5..9, of which 6, 7 and 9 are accepted. */
static void accepted_drafts_move_in_runs(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 8, 4);
    mla_seq seq = grown(pool, 10);
    const int64_t from[] = {6, 7, 9}, to[] = {4, 5, 6};
    const mla_pool_copy want[] = {{2, 2, 2, 0, 2}, {3, 1, 2, 2, 1}};
    mla_pool_copy copies[4];
    int count;

    assert_int_equal(mla_pool_move(pool, seq, from, to, 3), MLA_OK);
    assert_int_equal(mla_pool_copies(pool, copies, 4, &count), MLA_OK);
    assert_int_equal(count, 2);
    assert_memory_equal(copies, want, sizeof(want));
    assert_int_equal(mla_pool_truncate(pool, seq, 7, NULL), MLA_OK);
    assert_int_equal(stats(pool).pinned_pages, 1); /* page 3 is a source */
    assert_int_equal(mla_pool_copies_done(pool, count, NULL), MLA_OK);
    assert_int_equal(stats(pool).used_pages, 2);
}

static void a_move_never_overlaps_itself(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 8, 16);
    mla_seq seq = grown(pool, 12);
    const int64_t from[] = {5, 6, 7, 8}, to[] = {4, 5, 6, 7};
    mla_pool_copy copies[4];
    int count;

    assert_int_equal(mla_pool_move(pool, seq, from, to, 4), MLA_OK);
    assert_int_equal(mla_pool_copies(pool, copies, 4, &count), MLA_OK);
    assert_int_equal(count, 4);
    assert_memory_equal(&copies[3], (&(mla_pool_copy){1, 8, 1, 7, 1}),
                        sizeof(*copies));
}

static void a_move_into_a_shared_page_copies_it_first(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 8, 4);
    mla_seq a = grown(pool, 7), b;
    mla_pool_copy copies[4];
    int count;

    assert_int_equal(mla_pool_fork(pool, a, -1, &b), MLA_OK);
    assert_int_equal(mla_pool_move(pool, b, (int64_t[]){6}, (int64_t[]){4}, 1),
                     MLA_OK);
    assert_int_equal(mla_pool_copies(pool, copies, 4, &count), MLA_OK);
    assert_int_equal(count, 2);
    assert_memory_equal(&copies[0], (&(mla_pool_copy){2, 0, 3, 0, 3}),
                        sizeof(*copies));
    assert_memory_equal(&copies[1], (&(mla_pool_copy){3, 2, 3, 0, 1}),
                        sizeof(*copies));
}

/* Threads ---------------------------------------------------------------- */

struct worker {
    mla_pool *pool;
    unsigned seed;
    int failures;
};

/* Takes, shares and gives back as engines do; never meets another's state. */
static void *work(void *user)
{
    struct worker *me = user;
    for (int i = 0; i < 2000; i++) {
        mla_seq seq, child;
        int32_t count = (int32_t)(me->seed++ % 7);
        int64_t length = -1;
        if (mla_pool_add(me->pool, &seq)) {
            me->failures++;
            continue;
        }
        me->failures += mla_pool_extend(me->pool, &seq, &count, 1, NULL) != 0;
        me->failures += mla_pool_fork(me->pool, seq, -1, &child) != 0;
        me->failures += mla_pool_drop(me->pool, seq, NULL) != 0;
        me->failures += mla_pool_extend(me->pool, &child, NULL, 1, NULL) != 0;
        me->failures += mla_pool_length(me->pool, child, &length) != 0;
        me->failures += length != count + 1;
        me->failures += mla_pool_drop(me->pool, child, NULL) != 0;
        me->failures += mla_pool_drop(me->pool, child, NULL) != MLA_DROPPED;
    }
    return NULL;
}

static void threads_may_use_a_pool_at_the_same_time(void **state)
{
    struct world *w = *state;
    mla_pool *pool = make(w, 64, 4);
    pthread_t thread[4];
    struct worker worker[4];
    int count;

    for (int i = 0; i < 4; i++) {
        worker[i] = (struct worker){pool, (unsigned)i, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, work, &worker[i]),
                         0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(mla_pool_check(pool), MLA_OK);
        pthread_join(thread[i], NULL);
        assert_int_equal(worker[i].failures, 0);
    }
    assert_int_equal(mla_pool_copies(pool, NULL, 0, &count), MLA_OK);
    assert_int_equal(count, 0); /* a child alone on its page copies nothing */
    assert_int_equal(stats(pool).free_pages, 63);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(extend_fills_the_last_page_then_takes_pages_in_order),
        TEST(extend_by_nothing_takes_nothing),
        TEST(the_last_row_of_a_page_needs_no_new_page),
        TEST(page_zero_is_never_handed_out),
        TEST(freed_pages_are_used_again_in_the_order_they_came),
        TEST(a_batch_that_does_not_fit_changes_nothing),
        TEST(a_sequence_cannot_outgrow_its_block_table),
        TEST(the_number_of_sequences_is_bounded),
        TEST(a_dropped_sequence_cannot_be_used_again),
        TEST(a_sequence_of_another_pool_is_refused),
        TEST(impossible_counts_and_ranges_are_refused),
        TEST(an_option_out_of_bounds_is_named),
        TEST(a_shared_last_page_is_copied_before_it_is_written),
        TEST(a_full_shared_page_needs_no_copy),
        TEST(sharers_of_a_batch_need_exactly_what_they_need),
        TEST(a_refused_batch_leaves_shared_pages_shared),
        TEST(a_pending_copy_keeps_both_pages),
        TEST(retained_pages_outlive_their_sequence),
        TEST(releasing_more_than_is_retained_is_a_double_free),
        TEST(an_adopted_part_of_a_page_is_copied_on_write),
        TEST(accepted_drafts_move_in_runs),
        TEST(a_move_never_overlaps_itself),
        TEST(a_move_into_a_shared_page_copies_it_first),
        TEST(threads_may_use_a_pool_at_the_same_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
