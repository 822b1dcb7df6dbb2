/* SPDX-License-Identifier: Apache-2.0
 *
 * pool_check.c: what the pool counts, and a recount that trusts nothing.
 *
 * The recount starts from the lists and rows (ring, releases, sequences,
 * pending copies), works out what each page should be, and compares that with
 * what the page says of itself and with the counters.  The first difference
 * is the error.
 */
#include <string.h>

#include "pool.h"

/* Under the lock, so that the figures belong to one moment. */
mla_status mla_pool_statistics(mla_pool *pool, mla_pool_stats *stats)
{
    mla_pool_stats known;

    if (!pool)
        return MLA_INVALID_ARGUMENT;
    pthread_mutex_lock(&pool->lock);
    known = (mla_pool_stats){
        .free_pages = pool->free_pages,
        .used_pages = pool->used_pages,
        .waiting_pages = pool->waiting_pages,
        .pinned_pages = pool->pinned_pages,
        .shared_pages = pool->shared_pages,
        .peak_pages = pool->peak_pages,
        .sequences = pool->sequences,
        .tokens = pool->tokens,
        .pending_copies = pool->copies,
        .extends = pool->extends,
        .forks = pool->forks,
        .drops = pool->drops,
        .page_copies = pool->page_copies,
        .steps = pool->steps,
        .step_waits = pool->step_waits,
    };
    pthread_mutex_unlock(&pool->lock);
    return mla__copy_info(stats, &known, sizeof(known));
}

/* The recount ----------------------------------------------------------- */

enum { FREE = 1, WAITING = 2 };

/* What a page should be by the lists and rows that name it. */
struct tally {
    uint32_t refs, pins;
    int state; /* FREE or WAITING if a list has the page */
};

#define BROKEN(pool, ...) mla__pool_fail(pool, MLA_BROKEN, __VA_ARGS__)

/* Lists a page as free or waiting, once. */
static mla_status list(mla_pool *pool, struct tally *tally, int32_t page,
                       int state)
{
    if (page < 1 || page >= pool->options.pages)
        return BROKEN(pool, "page %d is in a list", page);
    if (tally[page].state)
        return BROKEN(pool, "page %d is in a list twice", page);
    tally[page].state = state;
    return MLA_OK;
}

/* The ring: free_pages entries from ring_head on. */
static mla_status tally_free(mla_pool *pool, struct tally *tally)
{
    int64_t room = pool->options.pages - 1;
    mla_status status = MLA_OK;

    for (int64_t i = 0; i < pool->free_pages && !status; i++)
        status =
            list(pool, tally, pool->ring[(pool->ring_head + i) % room], FREE);
    return status;
}

/* Follows the chain as far as it counts, not to its end mark: a chain that
 * runs in a circle meets a page that is listed already. */
static mla_status tally_release(mla_pool *pool, struct tally *tally,
                                const struct mla__release *release,
                                int64_t *sum)
{
    int32_t page = release->first;
    mla_status status = MLA_OK;

    for (int64_t i = 0; i < release->count && !status; i++) {
        status = list(pool, tally, page, WAITING);
        if (!status)
            page = pool->page[page].next;
    }
    *sum += release->count;
    return status;
}

/* The open release and the sealed ones, oldest first. */
static mla_status tally_waiting(mla_pool *pool, struct tally *tally)
{
    int64_t sum = 0;
    mla_status status = tally_release(pool, tally, &pool->open, &sum);

    for (int i = 0; i < pool->sealed_count && !status; i++)
        status = tally_release(
            pool, tally,
            &pool->sealed[(pool->first_sealed + i) % MLA__POOL_RELEASES],
            &sum);
    if (!status && sum != pool->waiting_pages)
        status = BROKEN(pool, "%lld pages wait, %lld are counted",
                        (long long)sum, (long long)pool->waiting_pages);
    return status;
}

/* A sequence has exactly the pages that its tokens need, all of them page ids,
 * and no extend is half done. */
static mla_status tally_sequence(mla_pool *pool, struct tally *tally, int i,
                                 int64_t *tokens)
{
    const struct mla__sequence *s = &pool->sequence[i];
    const int32_t *row = mla__row(pool, s);

    if (s->pages != mla__pages_for(pool, s->length) ||
        s->pages > pool->options.table_width || s->split)
        return BROKEN(pool, "sequence %d has %d pages for %lld tokens", i,
                      s->pages, (long long)s->length);
    for (int32_t k = 0; k < s->pages; k++) {
        if (row[k] < 1 || row[k] >= pool->options.pages)
            return BROKEN(pool, "sequence %d has page %d", i, row[k]);
        tally[row[k]].refs++;
    }
    *tokens += s->length;
    return MLA_OK;
}

/* Every place is looked at, whatever the free chain says of it. */
static mla_status tally_sequences(mla_pool *pool, struct tally *tally)
{
    int64_t alive = 0, tokens = 0;
    mla_status status = MLA_OK;

    for (int i = 0; i < pool->options.max_sequences && !status; i++)
        if (pool->sequence[i].alive) {
            alive++;
            status = tally_sequence(pool, tally, i, &tokens);
        }
    if (!status && (alive != pool->sequences || tokens != pool->tokens))
        status = BROKEN(pool,
                        "%lld sequences of %lld tokens, counted are "
                        "%lld of %lld",
                        (long long)alive, (long long)tokens,
                        (long long)pool->sequences, (long long)pool->tokens);
    return status;
}

/* One page against what was tallied of it.  It is in a list, free or waiting,
 * if and only if nobody refers to it and no copy pins it. */
static mla_status check_page(mla_pool *pool, const struct tally *t,
                             int32_t page)
{
    const struct mla__page *p = &pool->page[page];

    if (p->refs != t->refs + p->held)
        return BROKEN(pool,
                      "page %d has %u references, %u of them held, "
                      "but is in %u places",
                      page, p->refs, p->held, t->refs);
    if (p->pins != t->pins)
        return BROKEN(pool, "page %d has %u pins, but %u copies name it", page,
                      p->pins, t->pins);
    if (!t->state != (p->refs || p->pins))
        return BROKEN(pool, "page %d has %u references and %u pins and is %s",
                      page, p->refs, p->pins,
                      t->state == FREE      ? "free"
                      : t->state == WAITING ? "waiting"
                                            : "lost");
    return MLA_OK;
}

/* All pages, and the counters that statistics and errors show. */
static mla_status check_pages(mla_pool *pool, const struct tally *tally)
{
    int64_t used = 0, pinned = 0, shared = 0;
    mla_status status = MLA_OK;

    if (pool->page[0].refs || pool->page[0].pins)
        return BROKEN(pool, "page 0 is in use");
    for (int32_t i = 1; i < pool->options.pages && !status; i++) {
        const struct mla__page *p = &pool->page[i];
        status = check_page(pool, &tally[i], i);
        used += p->refs > 0;
        shared += p->refs > 1;
        pinned += !p->refs && p->pins;
    }
    if (!status && (used != pool->used_pages || pinned != pool->pinned_pages ||
                    shared != pool->shared_pages))
        status =
            BROKEN(pool,
                   "%lld used, %lld shared, %lld pinned pages, "
                   "counted are %lld, %lld, %lld",
                   (long long)used, (long long)shared, (long long)pinned,
                   (long long)pool->used_pages, (long long)pool->shared_pages,
                   (long long)pool->pinned_pages);
    return status;
}

/* Everything that names pages, then the pages themselves.  tally is zeroed. */
static mla_status recount(mla_pool *pool, struct tally *tally)
{
    mla_status status = tally_free(pool, tally);

    if (!status)
        status = tally_waiting(pool, tally);
    if (!status)
        status = tally_sequences(pool, tally);
    for (int i = 0; i < pool->copies && !status; i++) {
        tally[pool->copy[i].rows.from_page].pins++;
        tally[pool->copy[i].rows.to_page].pins++;
    }
    return status ? status : check_pages(pool, tally);
}

/* Takes time and memory in proportion to the pool's pages and table entries,
 * and holds the lock: for tests and for hunting a fault, not for every step. */
mla_status mla_pool_check(mla_pool *pool)
{
    struct tally *tally;
    mla_status status;

    if (!pool)
        return MLA_INVALID_ARGUMENT;
    pthread_mutex_lock(&pool->lock);
    tally =
        mla__alloc(pool->ctx, (size_t)pool->options.pages * sizeof(*tally));
    status = tally ? recount(pool, tally)
                   : mla__pool_fail(pool, MLA_OUT_OF_MEMORY,
                                    "recount of %lld pages",
                                    (long long)pool->options.pages);
    mla__free(pool->ctx, tally);
    pthread_mutex_unlock(&pool->lock);
    return status;
}
