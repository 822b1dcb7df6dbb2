/* SPDX-License-Identifier: Apache-2.0
 *
 * pool_copy.c: copies that sharing and moving make necessary.
 *
 * The pool decides on the host, the device copies later and in order, so a
 * decision is a queue entry.  Both pages of an entry are pinned: neither is
 * handed out before the copy is on its way, even if all who referred to them
 * are gone by then.
 */
#include <string.h>

#include "pool.h"

/* The queue ------------------------------------------------------------- */

/* At least doubles, so that a long queue costs few moves.  Called before a
 * decision is carried out: `queue` itself cannot fail. */
mla_status mla__copy_reserve(mla_pool *pool, int64_t more)
{
    int64_t need = pool->copies + more, room = pool->copy_room;
    struct mla__copy *grown;

    if (need <= room)
        return MLA_OK;
    room = need > 2 * room ? need : 2 * room;
    grown = room > INT32_MAX
                ? NULL
                : pool->ctx->options.alloc(pool->ctx->options.alloc_user,
                                           pool->copy,
                                           (size_t)room * sizeof(*grown));
    if (!grown)
        return mla__pool_fail(pool, MLA_OUT_OF_MEMORY,
                              "list of %lld pending copies", (long long)need);
    pool->copy = grown;
    pool->copy_room = (int)room;
    return MLA_OK;
}

/* Appends; both pages are pinned until the copy has been enqueued. */
static void queue(mla_pool *pool, struct mla__copy copy)
{
    mla__page_pin(pool, copy.rows.from_page);
    mla__page_pin(pool, copy.rows.to_page);
    pool->copy[pool->copies++] = copy;
    pool->page_copies++;
}

/* Copies are always finished from the front: a later one may read what an
 * earlier one writes. */
void mla__copies_done(mla_pool *pool, int count)
{
    for (int i = 0; i < count; i++) {
        mla__page_unpin(pool, pool->copy[i].rows.from_page);
        mla__page_unpin(pool, pool->copy[i].rows.to_page);
    }
    pool->copies -= count;
    if (pool->copies)
        memmove(pool->copy, pool->copy + count,
                (size_t)pool->copies * sizeof(*pool->copy));
}

/* Copy on write --------------------------------------------------------- */

/* The whole page is fresh, so its dead rows may be overwritten: where a page
 * of all layers is one block, it is copied in one piece (pool_rows.c). */
void mla__copy_on_write(mla_pool *pool, struct mla__sequence *s, int32_t i,
                        int32_t rows)
{
    int32_t *entry = &mla__row(pool, s)[i];
    struct mla__copy copy = {{*entry, 0, 0, 0, rows}, true};

    copy.rows.to_page = mla__page_take(pool);
    queue(pool, copy);
    *entry = copy.rows.to_page;
}

/* Rows of page i that the sequence uses. */
static int32_t rows_in_use(const mla_pool *pool, const struct mla__sequence *s,
                           int64_t i)
{
    int64_t size = pool->options.page_size, left = s->length - i * size;
    return (int32_t)(left < size ? left : size);
}

/* The pages under a range of tokens, as [*begin, *end). */
static void pages_under(const mla_pool *pool, int64_t first, int64_t n,
                        int32_t *begin, int32_t *end)
{
    *begin = (int32_t)(first / pool->options.page_size);
    *end = n ? (int32_t)mla__pages_for(pool, first + n) : *begin;
}

/* Counts the shared pages first, so that either all are replaced or none is.
 * Unsharing happens page by page, as a page that occurs once more in the range
 * would be alone by then. */
mla_status mla__own(mla_pool *pool, struct mla__sequence *s, int64_t first,
                    int64_t n)
{
    int32_t *row = mla__row(pool, s), begin, end;
    int64_t shared = 0;
    mla_status status = mla__sequence_range(pool, s, first, n);

    if (status)
        return status;
    pages_under(pool, first, n, &begin, &end);
    for (int32_t i = begin; i < end; i++)
        shared += pool->page[row[i]].refs > 1;
    status = mla__pages_need(pool, shared);
    if (!status && shared)
        status = mla__copy_reserve(pool, shared);
    for (int32_t i = begin; i < end && !status; i++) {
        if (pool->page[row[i]].refs < 2)
            continue;
        mla__page_unref(pool, row[i]);
        mla__copy_on_write(pool, s, i, rows_in_use(pool, s, i));
    }
    return status;
}

/* Move ------------------------------------------------------------------ */

/* Where the targets lie, once every index is known to be good. */
static mla_status move_bounds(mla_pool *pool, const struct mla__sequence *s,
                              const int64_t *from, const int64_t *to, int n,
                              int64_t *low, int64_t *high)
{
    *low = s->length;
    *high = 0;
    for (int i = 0; i < n; i++) {
        mla_status status = mla__sequence_range(pool, s, from[i], 1);
        if (!status)
            status = mla__sequence_range(pool, s, to[i], 1);
        if (status)
            return status;
        *low = to[i] < *low ? to[i] : *low;
        *high = to[i] >= *high ? to[i] + 1 : *high;
    }
    return MLA_OK;
}

/* Whether b continues a: the next rows of the same pages, and no row of one
 * side is a row of the other, as copies must not overlap themselves. */
static bool continues(const mla_pool_copy *a, const mla_pool_copy *b)
{
    int32_t rows = a->rows + b->rows;
    int32_t apart = a->from_row < a->to_row ? a->to_row - a->from_row
                                            : a->from_row - a->to_row;
    return a->from_page == b->from_page && a->to_page == b->to_page &&
           a->from_row + a->rows == b->from_row &&
           a->to_row + a->rows == b->to_row &&
           (a->from_page != a->to_page || apart >= rows);
}

/* One row, from the place of one token to that of another. */
static mla_pool_copy row_copy(const mla_pool *pool,
                              const struct mla__sequence *s, int64_t from,
                              int64_t to)
{
    int64_t size = pool->options.page_size;
    const int32_t *row = mla__row(pool, s);
    return (mla_pool_copy){row[from / size], (int32_t)(from % size),
                           row[to / size], (int32_t)(to % size), 1};
}

/* Consecutive rows become one copy.  Order is kept: a target may be the source
 * of a later move. */
static void queue_moves(mla_pool *pool, const struct mla__sequence *s,
                        const int64_t *from, const int64_t *to, int n)
{
    struct mla__copy run = {{0, 0, 0, 0, 0}, false};

    for (int i = 0; i < n; i++) {
        mla_pool_copy next = row_copy(pool, s, from[i], to[i]);
        if (from[i] == to[i])
            continue;
        if (run.rows.rows && continues(&run.rows, &next)) {
            run.rows.rows++;
            continue;
        }
        if (run.rows.rows)
            queue(pool, run);
        run.rows = next;
    }
    if (run.rows.rows)
        queue(pool, run);
}

/* Only targets are written, so only their pages must be the sequence's own; a
 * source may stay shared. */
static mla_status move(mla_pool *pool, mla_seq seq, const int64_t *from,
                       const int64_t *to, int n)
{
    struct mla__sequence *s;
    int64_t low, high;
    mla_status status = mla__sequence_find(pool, seq, &s);

    if (!status)
        status = move_bounds(pool, s, from, to, n, &low, &high);
    if (status || !n)
        return status;
    /* Room for the moves and for the pages that own may have to copy. */
    status = mla__copy_reserve(pool, n + mla__pages_for(pool, high - low) + 1);
    if (!status)
        status = mla__own(pool, s, low, high - low);
    if (!status)
        queue_moves(pool, s, from, to, n);
    return status;
}

/* Public ---------------------------------------------------------------- */

mla_status mla_pool_own(mla_pool *pool, mla_seq seq, int64_t first, int64_t n)
{
    struct mla__sequence *s;
    mla_status status;

    if (!pool)
        return MLA_INVALID_ARGUMENT;
    pthread_mutex_lock(&pool->lock);
    status = mla__sequence_find(pool, seq, &s);
    if (!status)
        status = mla__own(pool, s, first, n);
    pthread_mutex_unlock(&pool->lock);
    return status;
}

mla_status mla_pool_move(mla_pool *pool, mla_seq seq, const int64_t *from,
                         const int64_t *to, int n)
{
    mla_status status;

    if (!pool || n < 0 || (n && (!from || !to)))
        return MLA_INVALID_ARGUMENT;
    pthread_mutex_lock(&pool->lock);
    status = move(pool, seq, from, to, n);
    pthread_mutex_unlock(&pool->lock);
    return status;
}

/* *count is the number that there are, so capacity 0 asks for the size. */
mla_status mla_pool_copies(mla_pool *pool, mla_pool_copy *copies, int capacity,
                           int *count)
{
    if (!pool || !count || capacity < 0 || (capacity && !copies))
        return MLA_INVALID_ARGUMENT;
    pthread_mutex_lock(&pool->lock);
    *count = pool->copies;
    for (int i = 0; i < pool->copies && i < capacity; i++)
        copies[i] = pool->copy[i].rows;
    pthread_mutex_unlock(&pool->lock);
    return MLA_OK;
}

/* The pool forgets the copies without enqueuing them: the caller has, on that
 * stream, which the pages therefore wait for. */
mla_status mla_pool_copies_done(mla_pool *pool, int count, void *stream)
{
    mla_status status = MLA_OK;

    if (!pool)
        return MLA_INVALID_ARGUMENT;
    pthread_mutex_lock(&pool->lock);
    if (count < 0 || count > pool->copies)
        status = mla__pool_fail(pool, MLA_RANGE, "%d of %d pending copies",
                                count, pool->copies);
    if (!status)
        status = mla__stream_know(pool, stream);
    if (!status)
        mla__copies_done(pool, count);
    pthread_mutex_unlock(&pool->lock);
    return status;
}
