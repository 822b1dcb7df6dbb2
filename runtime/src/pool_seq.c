/* SPDX-License-Identifier: Apache-2.0
 *
 * pool_seq.c: sequences: add, extend, fork, truncate, drop, adopt.
 *
 * A handle is [tag 16 | generation 24 | index 24]: the tag tells pools apart,
 * the generation a sequence from the one that had its place before.
 *
 * Extend follows facts that engines rely on: first the rest of the last
 * page, then whole new pages, in batch order, from the front of a first-in
 * first-out list.  It plans before it acts: the plan takes each sequence's
 * reference off a shared last page, so that of two sharers in one batch only
 * the first needs a page, and gives it back when there are too few.
 */
#include <string.h>

#include "pool.h"

/* Of a handle; pool.c's MAX_SEQUENCES is what the index can tell apart. */
enum { INDEX_BITS = 24, GENERATION_MASK = 0xffffff };

/* Never 0: the tag is not. */
static mla_seq handle_of(const mla_pool *pool, const struct mla__sequence *s)
{
    return (uint64_t)pool->tag << 48 |
           (uint64_t)(s->generation & GENERATION_MASK) << INDEX_BITS |
           (uint64_t)(s - pool->sequence);
}

/* The tag tells a handle of another pool (or a number made up) from one
 * whose sequence was dropped.  Generations come round after 2^24 uses of
 * one place. */
mla_status mla__sequence_find(mla_pool *pool, mla_seq seq,
                              struct mla__sequence **out)
{
    uint32_t index = (uint32_t)seq & ((1u << INDEX_BITS) - 1);
    struct mla__sequence *s;

    if (seq >> 48 != pool->tag ||
        index >= (uint32_t)pool->options.max_sequences)
        return mla__pool_fail(pool, MLA_NO_SEQUENCE,
                              "%#llx is no sequence of this pool",
                              (unsigned long long)seq);
    s = &pool->sequence[index];
    if (!s->alive || handle_of(pool, s) != seq)
        return mla__pool_fail(pool, MLA_DROPPED,
                              "sequence %#llx has been dropped",
                              (unsigned long long)seq);
    *out = s;
    return MLA_OK;
}

/* Written so that no sum can overflow. */
mla_status mla__sequence_range(mla_pool *pool, const struct mla__sequence *s,
                               int64_t first, int64_t n)
{
    if (first >= 0 && n >= 0 && first <= s->length && n <= s->length - first)
        return MLA_OK;
    return mla__pool_fail(
        pool, MLA_RANGE, "%lld tokens from %lld on, of a sequence of %lld",
        (long long)n, (long long)first, (long long)s->length);
}

/* Add and fork ---------------------------------------------------------- */

/* The place is taken from the front and given back at the end, so that a
 * generation lasts as long as possible.  The new sequence is empty. */
static mla_status take_place(mla_pool *pool, struct mla__sequence **out)
{
    struct mla__sequence *s;

    if (pool->free_first < 0)
        return mla__pool_fail(pool, MLA_OUT_OF_SEQUENCES,
                              "%lld sequences are alive, max_sequences is %d",
                              (long long)pool->sequences,
                              pool->options.max_sequences);
    s = &pool->sequence[pool->free_first];
    pool->free_first = s->next;
    if (pool->free_first < 0)
        pool->free_last = -1;
    pool->sequences++;
    s->alive = true;
    s->length = 0;
    s->pages = 0;
    *out = s;
    return MLA_OK;
}

/* Ends all handles of the place by its next generation. */
static void give_place(mla_pool *pool, struct mla__sequence *s)
{
    int32_t index = (int32_t)(s - pool->sequence);

    s->alive = false;
    s->generation++;
    s->next = -1;
    if (pool->free_last < 0)
        pool->free_first = index;
    else
        pool->sequence[pool->free_last].next = index;
    pool->free_last = index;
    pool->sequences--;
}

/* No page yet: the first extend takes one. */
static mla_status add(mla_pool *pool, mla_seq *out)
{
    struct mla__sequence *s;
    mla_status status = take_place(pool, &s);
    if (!status)
        *out = handle_of(pool, s);
    return status;
}

/* Fills a new sequence with pages that gain a reference each. */
static void share(mla_pool *pool, struct mla__sequence *s,
                  const int32_t *pages, int64_t count, int64_t length)
{
    memcpy(mla__row(pool, s), pages, (size_t)count * sizeof(*pages));
    for (int64_t i = 0; i < count; i++)
        mla__page_ref(pool, pages[i]);
    s->pages = (int32_t)count;
    s->length = length;
    pool->tokens += length;
}

/* Shares all pages under the tokens, the half-filled last one included: who
 * extends first copies it.  Its rows beyond `length` are the parent's and are
 * not read. */
static mla_status fork(mla_pool *pool, mla_seq parent, int64_t length,
                       mla_seq *out)
{
    struct mla__sequence *from, *s;
    mla_status status = mla__sequence_find(pool, parent, &from);

    if (status)
        return status;
    if (length == -1)
        length = from->length;
    if (length < 0 || length > from->length)
        return mla__pool_fail(pool, MLA_RANGE,
                              "fork of %lld tokens of a sequence of %lld",
                              (long long)length, (long long)from->length);
    status = take_place(pool, &s);
    if (status)
        return status;
    share(pool, s, mla__row(pool, from), mla__pages_for(pool, length), length);
    pool->forks++;
    *out = handle_of(pool, s);
    return MLA_OK;
}

/* Extend ---------------------------------------------------------------- */

/* What a call needs in all. */
struct need {
    int64_t pages, copies;
};

/* Checks one sequence of the call and adds what it needs.  A sequence that is
 * listed twice carries the mark of this call's serial.  Nothing has been
 * changed when it fails.
 *
 * A shared last page must be replaced if it gets rows.  The reference to it is
 * given up here, so that the last of several sharers finds itself alone and
 * writes in place. */
static mla_status plan(mla_pool *pool, struct mla__sequence *s, int64_t count,
                       struct need *need)
{
    int64_t size = pool->options.page_size;
    int64_t pages = mla__pages_for(pool, s->length + count);

    if (count < 0)
        return mla__pool_fail(pool, MLA_INVALID_ARGUMENT,
                              "extend by %lld tokens", (long long)count);
    if (s->mark == pool->serial)
        return mla__pool_fail(pool, MLA_INVALID_ARGUMENT,
                              "sequence %#llx is listed twice",
                              (unsigned long long)handle_of(pool, s));
    if (pages > pool->options.table_width)
        return mla__pool_fail(pool, MLA_TOO_LONG,
                              "%lld + %lld tokens need %lld pages, a block "
                              "table row has %d",
                              (long long)s->length, (long long)count,
                              (long long)pages, pool->options.table_width);
    s->mark = pool->serial;
    need->pages += pages - s->pages;
    if (count && s->length % size) {
        int32_t last = mla__row(pool, s)[s->pages - 1];
        if (pool->page[last].refs > 1) {
            mla__page_unref(pool, last);
            s->split = true;
            need->pages++;
            need->copies++;
        }
    }
    return MLA_OK;
}

/* Gives the references back that plan has taken; n sequences are planned. */
static void undo(mla_pool *pool, const mla_seq *seqs, int n)
{
    for (int i = 0; i < n; i++) {
        uint32_t index = (uint32_t)seqs[i] & ((1u << INDEX_BITS) - 1);
        struct mla__sequence *s = &pool->sequence[index];
        if (s->split)
            mla__page_ref(pool, mla__row(pool, s)[s->pages - 1]);
        s->split = false;
    }
}

/* Plans every sequence, then asks for pages and room once, for all of them.  A
 * failure leaves sequences and references as they were. */
static mla_status plan_all(mla_pool *pool, const mla_seq *seqs,
                           const int32_t *counts, int n, struct need *need)
{
    mla_status status = MLA_OK;
    int i;

    pool->serial++;
    for (i = 0; i < n && !status; i++) {
        struct mla__sequence *s;
        status = mla__sequence_find(pool, seqs[i], &s);
        if (!status)
            status = plan(pool, s, counts ? counts[i] : 1, need);
    }
    if (status) {
        undo(pool, seqs, i - 1);
        return status;
    }
    status = mla__pages_need(pool, need->pages);
    if (!status && need->copies)
        status = mla__copy_reserve(pool, need->copies);
    if (status)
        undo(pool, seqs, n);
    return status;
}

/* Writes the slots of the newest count tokens and returns what follows. */
static int64_t *write_slots(const mla_pool *pool,
                            const struct mla__sequence *s, int64_t first,
                            int64_t count, int64_t *slots)
{
    const int32_t *row = mla__row(pool, s);
    int64_t size = pool->options.page_size;

    for (int64_t t = first; t < first + count; t++)
        *slots++ = row[t / size] * size + t % size;
    return slots;
}

/* Cannot fail: plan has seen to everything. */
static void grow(mla_pool *pool, struct mla__sequence *s, int64_t count)
{
    int64_t pages = mla__pages_for(pool, s->length + count);
    int32_t *row = mla__row(pool, s);

    if (s->split)
        mla__copy_on_write(pool, s, s->pages - 1,
                           (int32_t)(s->length % pool->options.page_size));
    s->split = false;
    while (s->pages < pages)
        row[s->pages++] = mla__page_take(pool);
    s->length += count;
    pool->tokens += count;
}

/* Plans all, then grows in batch order; after plan_all nothing can fail.  The
 * handles have been checked, so their index alone is used. */
static mla_status extend(mla_pool *pool, const mla_seq *seqs,
                         const int32_t *counts, int n, int64_t *slots)
{
    struct need need = {0, 0};
    mla_status status = plan_all(pool, seqs, counts, n, &need);

    if (status)
        return status;
    for (int i = 0; i < n; i++) {
        uint32_t index = (uint32_t)seqs[i] & ((1u << INDEX_BITS) - 1);
        struct mla__sequence *s = &pool->sequence[index];
        int64_t before = s->length, count = counts ? counts[i] : 1;
        grow(pool, s, count);
        if (slots)
            slots = write_slots(pool, s, before, count, slots);
    }
    pool->extends += (uint64_t)n;
    return MLA_OK;
}

/* Truncate and drop ----------------------------------------------------- */

/* Lets go of the pages beyond the new length.  Rows beyond it in the last page
 * stay as they are: nobody reads past a length. */
static void shorten(mla_pool *pool, struct mla__sequence *s, int64_t length)
{
    int32_t *row = mla__row(pool, s);
    int32_t keep = (int32_t)mla__pages_for(pool, length);

    for (int32_t i = keep; i < s->pages; i++)
        mla__page_unref(pool, row[i]);
    s->pages = keep;
    pool->tokens -= s->length - length;
    s->length = length;
}

/* The stream is remembered before pages are let go, so that the release that
 * they end up in waits for it. */
static mla_status truncate_to(mla_pool *pool, mla_seq seq, int64_t length,
                              void *stream)
{
    struct mla__sequence *s;
    mla_status status = mla__sequence_find(pool, seq, &s);

    if (!status && (length < 0 || length > s->length))
        status = mla__pool_fail(pool, MLA_RANGE,
                                "truncate to %lld tokens of a sequence of "
                                "%lld",
                                (long long)length, (long long)s->length);
    if (!status)
        status = mla__stream_know(pool, stream);
    if (!status)
        shorten(pool, s, length);
    return status;
}

/* As truncate to nothing, and the handle ends. */
static mla_status drop(mla_pool *pool, mla_seq seq, void *stream)
{
    struct mla__sequence *s;
    mla_status status = mla__sequence_find(pool, seq, &s);

    if (!status)
        status = mla__stream_know(pool, stream);
    if (status)
        return status;
    shorten(pool, s, 0);
    give_place(pool, s);
    pool->drops++;
    return MLA_OK;
}

/* References of the caller's own ---------------------------------------- */

/* Error BAD_PAGE for the first that is not a page in use; page 0 never is. */
static mla_status check_pages(mla_pool *pool, const int32_t *pages, int n)
{
    for (int i = 0; i < n; i++) {
        int32_t page = pages[i];
        if (page < 1 || page >= pool->options.pages)
            return mla__pool_fail(pool, MLA_BAD_PAGE,
                                  "page %d; the pool has 1 to %lld", page,
                                  (long long)pool->options.pages - 1);
        if (!pool->page[page].refs)
            return mla__pool_fail(pool, MLA_BAD_PAGE, "page %d is not in use",
                                  page);
    }
    return MLA_OK;
}

/* Counts for every time a page is listed. */
static mla_status retain(mla_pool *pool, const int32_t *pages, int n)
{
    mla_status status = check_pages(pool, pages, n);

    for (int i = 0; i < n && !status; i++) {
        mla__page_ref(pool, pages[i]);
        pool->page[pages[i]].held++;
    }
    return status;
}

/* A page may be listed as often as it is retained, and no more often. */
static mla_status release(mla_pool *pool, const int32_t *pages, int n,
                          void *stream)
{
    mla_status status = check_pages(pool, pages, n);
    int i;

    if (!status)
        status = mla__stream_know(pool, stream);
    if (status)
        return status;
    /* Counted down one by one, and up again on failure, as a page may be
     * listed twice. */
    for (i = 0; i < n && pool->page[pages[i]].held; i++)
        pool->page[pages[i]].held--;
    if (i < n) {
        status = mla__pool_fail(pool, MLA_DOUBLE_FREE,
                                "page %d is released more often than it was "
                                "retained",
                                pages[i]);
        while (i-- > 0)
            pool->page[pages[i]].held++;
        return status;
    }
    for (i = 0; i < n; i++)
        mla__page_unref(pool, pages[i]);
    return MLA_OK;
}

/* A sequence over pages that somebody else keeps in use; the references that
 * it takes are its own, so the retained ones may be released at once. */
static mla_status adopt(mla_pool *pool, const int32_t *pages, int n,
                        int64_t length, mla_seq *out)
{
    struct mla__sequence *s;
    mla_status status = check_pages(pool, pages, n);

    if (!status && n > pool->options.table_width)
        status = mla__pool_fail(pool, MLA_TOO_LONG,
                                "%d pages, a block table row has %d", n,
                                pool->options.table_width);
    if (!status && (length < 0 || mla__pages_for(pool, length) != n))
        status = mla__pool_fail(pool, MLA_RANGE,
                                "%d pages of %d tokens for a length of %lld",
                                n, pool->options.page_size, (long long)length);
    if (!status)
        status = take_place(pool, &s);
    if (status)
        return status;
    share(pool, s, pages, n, length);
    *out = handle_of(pool, s);
    return MLA_OK;
}

/* Public: each locks, checks for NULL and does the above ------------------ */

/* Ends the function that it stands in, with the call's status. */
#define LOCKED(pool, call)                                                    \
    do {                                                                      \
        mla_status status_;                                                   \
        pthread_mutex_lock(&(pool)->lock);                                    \
        status_ = (call);                                                     \
        pthread_mutex_unlock(&(pool)->lock);                                  \
        return status_;                                                       \
    } while (0)

mla_status mla_pool_add(mla_pool *pool, mla_seq *out)
{
    if (!pool || !out)
        return MLA_INVALID_ARGUMENT;
    *out = 0;
    LOCKED(pool, add(pool, out));
}

mla_status mla_pool_fork(mla_pool *pool, mla_seq parent, int64_t length,
                         mla_seq *out)
{
    if (!pool || !out)
        return MLA_INVALID_ARGUMENT;
    *out = 0;
    LOCKED(pool, fork(pool, parent, length, out));
}

mla_status mla_pool_extend(mla_pool *pool, const mla_seq *seqs,
                           const int32_t *counts, int n, int64_t *slots)
{
    if (!pool || n < 0 || (n && !seqs))
        return MLA_INVALID_ARGUMENT;
    LOCKED(pool, extend(pool, seqs, counts, n, slots));
}

mla_status mla_pool_truncate(mla_pool *pool, mla_seq seq, int64_t length,
                             void *stream)
{
    if (!pool)
        return MLA_INVALID_ARGUMENT;
    LOCKED(pool, truncate_to(pool, seq, length, stream));
}

mla_status mla_pool_drop(mla_pool *pool, mla_seq seq, void *stream)
{
    if (!pool)
        return MLA_INVALID_ARGUMENT;
    LOCKED(pool, drop(pool, seq, stream));
}

mla_status mla_pool_retain(mla_pool *pool, const int32_t *pages, int n)
{
    if (!pool || n < 0 || (n && !pages))
        return MLA_INVALID_ARGUMENT;
    LOCKED(pool, retain(pool, pages, n));
}

mla_status mla_pool_release(mla_pool *pool, const int32_t *pages, int n,
                            void *stream)
{
    if (!pool || n < 0 || (n && !pages))
        return MLA_INVALID_ARGUMENT;
    LOCKED(pool, release(pool, pages, n, stream));
}

mla_status mla_pool_adopt(mla_pool *pool, const int32_t *pages, int n,
                          int64_t length, mla_seq *out)
{
    if (!pool || n < 0 || (n && !pages) || !out)
        return MLA_INVALID_ARGUMENT;
    *out = 0;
    LOCKED(pool, adopt(pool, pages, n, length, out));
}

/* Questions ------------------------------------------------------------- */

mla_status mla_pool_length(mla_pool *pool, mla_seq seq, int64_t *length)
{
    struct mla__sequence *s;
    mla_status status;

    if (!pool || !length)
        return MLA_INVALID_ARGUMENT;
    *length = 0;
    pthread_mutex_lock(&pool->lock);
    status = mla__sequence_find(pool, seq, &s);
    if (!status)
        *length = s->length;
    pthread_mutex_unlock(&pool->lock);
    return status;
}

/* *count is the number that there are, so capacity 0 asks for the size. */
mla_status mla_pool_pages(mla_pool *pool, mla_seq seq, int32_t *pages,
                          int capacity, int *count)
{
    struct mla__sequence *s;
    mla_status status;

    if (!pool || !count || capacity < 0 || (capacity && !pages))
        return MLA_INVALID_ARGUMENT;
    *count = 0;
    pthread_mutex_lock(&pool->lock);
    status = mla__sequence_find(pool, seq, &s);
    if (!status) {
        int n = s->pages < capacity ? s->pages : capacity;
        *count = s->pages;
        if (n)
            memcpy(pages, mla__row(pool, s), (size_t)n * sizeof(*pages));
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

mla_status mla_pool_slots(mla_pool *pool, mla_seq seq, int64_t first,
                          int64_t n, int64_t *slots)
{
    struct mla__sequence *s;
    mla_status status;

    if (!pool || (n && !slots))
        return MLA_INVALID_ARGUMENT;
    pthread_mutex_lock(&pool->lock);
    status = mla__sequence_find(pool, seq, &s);
    if (!status)
        status = mla__sequence_range(pool, s, first, n);
    if (!status)
        write_slots(pool, s, first, n, slots);
    pthread_mutex_unlock(&pool->lock);
    return status;
}
