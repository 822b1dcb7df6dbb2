/* SPDX-License-Identifier: Apache-2.0
 *
 * Random operations on a pool beside a model that knows no pages: a sequence
 * is an array of the numbers that were written to its tokens.  The test
 * keeps a memory of slots, performs the pool's copies on it as a device
 * would, and requires that every sequence reads back what was written to it,
 * that the books balance after every operation, and that an operation that
 * the model says must fail does fail, and changes nothing.
 *
 * CASES=full runs twenty times as many; POOL_SEED starts elsewhere.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "internal.h"

enum { SEQUENCES = 6, WIDTH = 5, PAGES = 20, MAX_PAGE = 8, HELD = 4 };
enum { TOKENS = WIDTH * MAX_PAGE };

/* What a sequence should hold. */
struct modelled {
    mla_seq seq; /* 0: none */
    int length;
    uint32_t value[TOKENS];
};

struct world {
    mla_pool *pool;
    int page_size;
    uint32_t memory[PAGES * MAX_PAGE]; /* by slot */
    struct modelled model[SEQUENCES];
    int32_t held[HELD]; /* pages retained */
    uint32_t held_value[HELD][MAX_PAGE];
    int holds;
    uint32_t next_value;
    uint64_t random;
    int refused, copied;
};

static uint32_t below(struct world *w, uint32_t n)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->random >> 33) % n;
}

static int64_t free_pages(struct world *w)
{
    mla_pool_stats s = {.size = sizeof(s)};
    assert_int_equal(mla_pool_statistics(w->pool, &s), MLA_OK);
    assert_int_equal(1 + s.free_pages + s.used_pages + s.waiting_pages +
                         s.pinned_pages,
                     PAGES);
    return s.free_pages;
}

/* Does what a device would do with the pending copies. */
static void perform_copies(struct world *w)
{
    mla_pool_copy c[64];
    int count;
    assert_int_equal(mla_pool_copies(w->pool, c, 64, &count), MLA_OK);
    assert_true(count <= 64);
    for (int i = 0; i < count; i++)
        memmove(w->memory + c[i].to_page * w->page_size + c[i].to_row,
                w->memory + c[i].from_page * w->page_size + c[i].from_row,
                (size_t)c[i].rows * sizeof(uint32_t));
    assert_int_equal(mla_pool_copies_done(w->pool, count, NULL), MLA_OK);
    w->copied += count;
}

/* Any sequence, or NULL if there is none. */
static struct modelled *any(struct world *w)
{
    uint32_t first = below(w, SEQUENCES);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        struct modelled *m = &w->model[(first + i) % SEQUENCES];
        if (m->seq)
            return m;
    }
    return NULL;
}

static struct modelled *none(struct world *w)
{
    for (int i = 0; i < SEQUENCES; i++)
        if (!w->model[i].seq)
            return &w->model[i];
    return NULL;
}

static void check_contents(struct world *w, const struct modelled *m)
{
    int64_t slots[TOKENS], length;
    assert_int_equal(mla_pool_length(w->pool, m->seq, &length), MLA_OK);
    assert_int_equal(length, m->length);
    assert_int_equal(mla_pool_slots(w->pool, m->seq, 0, length, slots),
                     MLA_OK);
    for (int t = 0; t < m->length; t++)
        if (w->memory[slots[t]] != m->value[t])
            fail_msg("token %d of %d reads %u, written was %u", t, m->length,
                     w->memory[slots[t]], m->value[t]);
}

/* Operations -------------------------------------------------------------- */

static void op_add(struct world *w)
{
    struct modelled *m = none(w);
    mla_seq seq;
    if (!m) {
        assert_int_equal(mla_pool_add(w->pool, &seq), MLA_OUT_OF_SEQUENCES);
        w->refused++;
        return;
    }
    assert_int_equal(mla_pool_add(w->pool, &m->seq), MLA_OK);
    m->length = 0;
}

/* One to three different sequences by 0 to 2 pages and a bit. */
static int choose(struct world *w, struct modelled **chosen, mla_seq *seqs,
                  int32_t *counts)
{
    int n = 0;
    for (uint32_t i = 0, want = 1 + below(w, 3); i < want; i++) {
        struct modelled *m = any(w);
        bool twice = false;
        for (int k = 0; k < n; k++)
            twice |= chosen[k] == m;
        if (!m || twice)
            continue;
        chosen[n] = m;
        seqs[n] = m->seq;
        counts[n++] = (int32_t)below(w, 2 * (uint32_t)w->page_size + 2);
    }
    return n;
}

static bool too_long(const struct world *w, struct modelled **chosen,
                     const int32_t *counts, int n)
{
    for (int i = 0; i < n; i++)
        if (chosen[i]->length + counts[i] > WIDTH * w->page_size)
            return true;
    return false;
}

static void op_extend(struct world *w)
{
    struct modelled *chosen[3];
    mla_seq seqs[3];
    int32_t counts[3];
    int64_t slots[6 * MAX_PAGE + 6], *at = slots;
    int n = choose(w, chosen, seqs, counts);
    int64_t before = free_pages(w);
    mla_status status = mla_pool_extend(w->pool, seqs, counts, n, slots);

    if (too_long(w, chosen, counts, n))
        assert_int_equal(status, MLA_TOO_LONG);
    else if (status)
        assert_int_equal(status, MLA_OUT_OF_PAGES);
    if (status) {
        assert_int_equal(free_pages(w), before);
        w->refused++;
        return;
    }
    perform_copies(w);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < counts[i]; k++) {
            w->memory[*at++] = ++w->next_value;
            chosen[i]->value[chosen[i]->length++] = w->next_value;
        }
}

static void op_fork(struct world *w)
{
    struct modelled *from = any(w), *to = none(w);
    int length;
    if (!from || !to)
        return;
    length = (int)below(w, (uint32_t)from->length + 1);
    assert_int_equal(mla_pool_fork(w->pool, from->seq, length, &to->seq),
                     MLA_OK);
    to->length = length;
    memcpy(to->value, from->value, (size_t)length * sizeof(*to->value));
}

static void op_truncate(struct world *w)
{
    struct modelled *m = any(w);
    if (!m)
        return;
    assert_int_equal(mla_pool_truncate(w->pool, m->seq, m->length + 1, NULL),
                     MLA_RANGE);
    m->length = (int)below(w, (uint32_t)m->length + 1);
    assert_int_equal(mla_pool_truncate(w->pool, m->seq, m->length, NULL),
                     MLA_OK);
}

static void op_drop(struct world *w)
{
    struct modelled *m = any(w);
    if (!m)
        return;
    assert_int_equal(mla_pool_drop(w->pool, m->seq, NULL), MLA_OK);
    assert_int_equal(mla_pool_drop(w->pool, m->seq, NULL), MLA_DROPPED);
    m->seq = 0;
}

/* A few tokens to earlier places, as if a tree of drafts was accepted. */
static void op_move(struct world *w)
{
    struct modelled *m = any(w);
    int64_t from[4], to[4];
    int n = 0;
    if (!m || m->length < 2)
        return;
    for (uint32_t i = 0; i < 1 + below(w, 4); i++, n++) {
        from[n] = below(w, (uint32_t)m->length);
        to[n] = below(w, (uint32_t)m->length);
    }
    mla_status status = mla_pool_move(w->pool, m->seq, from, to, n);
    if (status) {
        assert_int_equal(status, MLA_OUT_OF_PAGES);
        w->refused++;
        return;
    }
    for (int i = 0; i < n; i++)
        m->value[to[i]] = m->value[from[i]];
    perform_copies(w);
}

/* Overwrites old tokens in place, after making their pages its own. */
static void op_rewrite(struct world *w)
{
    struct modelled *m = any(w);
    int64_t slots[TOKENS], first, n;
    if (!m)
        return;
    first = below(w, (uint32_t)m->length + 1);
    n = below(w, (uint32_t)(m->length - first) + 1);
    mla_status status = mla_pool_own(w->pool, m->seq, first, n);
    if (status) {
        assert_int_equal(status, MLA_OUT_OF_PAGES);
        w->refused++;
        return;
    }
    perform_copies(w);
    assert_int_equal(mla_pool_slots(w->pool, m->seq, first, n, slots), MLA_OK);
    for (int64_t i = 0; i < n; i++) {
        w->memory[slots[i]] = ++w->next_value;
        m->value[first + i] = w->next_value;
    }
}

/* A prefix cache: keeps a full page, and makes sequences of it later. */
static void op_hold(struct world *w)
{
    struct modelled *m = any(w);
    int32_t pages[WIDTH];
    int count, i;
    if (!m || w->holds == HELD || m->length < w->page_size)
        return;
    assert_int_equal(mla_pool_pages(w->pool, m->seq, pages, WIDTH, &count),
                     MLA_OK);
    i = (int)below(w, (uint32_t)(m->length / w->page_size));
    assert_int_equal(mla_pool_retain(w->pool, &pages[i], 1), MLA_OK);
    w->held[w->holds] = pages[i];
    memcpy(w->held_value[w->holds++], m->value + i * w->page_size,
           (size_t)w->page_size * sizeof(uint32_t));
}

static void op_adopt(struct world *w)
{
    struct modelled *to = none(w);
    if (!to || !w->holds)
        return;
    uint32_t i = below(w, (uint32_t)w->holds);
    to->length = 1 + (int)below(w, (uint32_t)w->page_size);
    assert_int_equal(
        mla_pool_adopt(w->pool, &w->held[i], 1, to->length, &to->seq), MLA_OK);
    memcpy(to->value, w->held_value[i],
           (size_t)w->page_size * sizeof(uint32_t));
}

static void op_release(struct world *w)
{
    int32_t page;
    if (!w->holds)
        return;
    page = w->held[--w->holds];
    assert_int_equal(mla_pool_release(w->pool, &page, 1, NULL), MLA_OK);
    for (int i = 0; i < w->holds; i++)
        if (w->held[i] == page) /* held twice: released once */
            return;
    assert_int_not_equal(mla_pool_release(w->pool, &page, 1, NULL), MLA_OK);
}

/* Operations and how often, in shares of 32. */
static const struct {
    void (*run)(struct world *);
    uint32_t share;
} ops[] = {{op_add, 4},   {op_extend, 12}, {op_fork, 4},    {op_truncate, 3},
           {op_drop, 3},  {op_move, 2},    {op_rewrite, 1}, {op_hold, 1},
           {op_adopt, 1}, {op_release, 1}};

static void one_operation(struct world *w)
{
    uint32_t pick = below(w, 32);
    size_t i = 0;
    while (pick >= ops[i].share)
        pick -= ops[i++].share;
    ops[i].run(w);
}

static void empty(struct world *w)
{
    while (w->holds)
        assert_int_equal(
            mla_pool_release(w->pool, &w->held[--w->holds], 1, NULL), MLA_OK);
    for (int i = 0; i < SEQUENCES; i++)
        if (w->model[i].seq)
            assert_int_equal(mla_pool_drop(w->pool, w->model[i].seq, NULL),
                             MLA_OK);
    assert_int_equal(free_pages(w), PAGES - 1);
}

static void run(int page_size, int64_t operations)
{
    const char *seed = getenv("POOL_SEED");
    mla_pool_options o = MLA_POOL_OPTIONS_INIT;
    mla_context *ctx;
    struct world w;

    memset(&w, 0, sizeof(w));
    w.page_size = page_size;
    w.random = (seed ? strtoull(seed, NULL, 0) : 1) + (uint64_t)page_size;
    o.pages = PAGES;
    o.row_bytes = 1152;
    o.page_size = page_size;
    o.max_sequences = SEQUENCES;
    o.table_width = WIDTH;
    o.host_only = 1;
    assert_int_equal(mla_context_create(NULL, &ctx), MLA_OK);
    assert_int_equal(mla_pool_create(ctx, &o, &w.pool), MLA_OK);
    for (int64_t i = 0; i < operations; i++) {
        one_operation(&w);
        assert_int_equal(mla_pool_check(w.pool), MLA_OK);
        for (int k = 0; k < SEQUENCES; k++)
            if (w.model[k].seq && (i % 8 == 0 || k == (int)(i % SEQUENCES)))
                check_contents(&w, &w.model[k]);
    }
    assert_true(w.refused > operations / 1000); /* it has seen full pools */
    assert_true(w.copied > operations / 1000);  /* and shared pages */
    empty(&w);
    mla_pool_destroy(w.pool);
    mla_context_destroy(ctx);
}

static int64_t operations(void)
{
    const char *cases = getenv("CASES");
    return cases && !strcmp(cases, "full") ? 20 * 1000000 : 1000000;
}

static void pages_of_one_token(void **state)
{
    (void)state;
    run(1, operations());
}

static void pages_of_two_tokens(void **state)
{
    (void)state;
    run(2, operations());
}

static void pages_of_four_tokens(void **state)
{
    (void)state;
    run(4, operations());
}

static void pages_of_eight_tokens(void **state)
{
    (void)state;
    run(8, operations());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_of_one_token),
        cmocka_unit_test(pages_of_two_tokens),
        cmocka_unit_test(pages_of_four_tokens),
        cmocka_unit_test(pages_of_eight_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
