/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.h: the latent pool from inside.
 *
 * A page is in exactly one state:
 *
 *   free     in the ring of free pages
 *   used     refs > 0: references by sequences and by the caller (held)
 *   pinned   refs = 0, but a pending copy still reads or writes it
 *   waiting  in a release, until every stream has passed the release's events
 *
 * The files: pool.c (create, destroy, errors), pool_page.c (states of pages,
 * streams, releases), pool_seq.c (sequences), pool_copy.c (pending copies),
 * pool_rows.c (copies on the device, export, import), pool_step.c (tables of
 * a step), pool_check.c (statistics, audit).  Public functions lock the pool
 * and call a static one of the same name; everything declared here expects
 * the lock to be held.
 */
#ifndef MLA_POOL_H
#define MLA_POOL_H

#include <pthread.h>

#include "internal.h"

enum {
    MLA__POOL_STREAMS = 8,   /* that a pool can know at once */
    MLA__POOL_RELEASES = 16, /* sealed releases in flight */
    MLA__POOL_ERROR = 512,   /* bytes of the error text */
    MLA__NO_PAGE = -1
};

struct mla__page {
    uint32_t refs; /* sequences and held together */
    uint32_t held; /* of these, the caller's */
    uint32_t pins; /* pending copies that name the page */
    int32_t next;  /* in a release */
};

struct mla__sequence {
    int64_t length; /* tokens */
    uint64_t mark;  /* serial of the last call that listed it */
    uint32_t generation;
    int32_t pages; /* entries of its row of pool->table */
    int32_t next;  /* free sequences: the next one, or -1 */
    bool alive;
    bool split; /* during extend: its last page is to be replaced */
};

/* Pages that were let go, chained by mla__page.next in order, and the events
 * they wait for.  The events are made at the slot's first use and kept. */
struct mla__release {
    int32_t first, last;
    int64_t count;
    int waits; /* events in use */
    void *event[MLA__POOL_STREAMS];
};

/* A pending copy, as the public list shows it. */
struct mla__copy {
    mla_pool_copy rows;
    bool fresh; /* the target page holds nothing else */
};

/* One pinned image of the device's tables.  Rows of the block table are only
 * written where they differ from what the last step with this stage left. */
struct mla__stage {
    unsigned char *image;
    int32_t *filled; /* per row: leading entries that are not 0 */
    int64_t stride;  /* of the rows as filled counts them */
    void *event;     /* its last copy */
    bool in_flight;
};

struct mla_pool {
    mla_context *ctx;
    mla_pool_options options; /* defaults filled in, strides in bytes */
    pthread_mutex_t lock;
    bool lock_made;
    char error[MLA__POOL_ERROR];
    uint32_t tag; /* upper bits of its handles */

    /* rows on the device */
    uint64_t *buffer;   /* [layers] */
    uint64_t owned;     /* the pool's allocation, or 0 */
    bool page_in_one;   /* a page of all layers is one block */
    bool tokens_in_one; /* tokens of all layers follow each other */

    /* pages */
    struct mla__page *page;
    int32_t *ring; /* free pages, oldest first */
    int64_t ring_head, free_pages;
    int64_t used_pages, pinned_pages, waiting_pages, shared_pages, peak_pages;
    struct mla__release open;                       /* not sealed yet */
    struct mla__release sealed[MLA__POOL_RELEASES]; /* a ring */
    int first_sealed, sealed_count;
    void *stream[MLA__POOL_STREAMS];
    int streams;

    /* sequences */
    struct mla__sequence *sequence;
    int32_t *table; /* [max_sequences, table_width], page ids */
    int32_t free_first, free_last;
    int64_t sequences, tokens;
    uint64_t serial;

    /* pending copies */
    struct mla__copy *copy;
    int copies, copy_room;

    /* tables of a step */
    uint64_t device_tables;
    int64_t offset_cu_q, offset_slots, offset_tables, stride;
    struct mla__stage *stage;
    int next_stage;
    void *order_event, *last_stream;
    bool stepped; /* last_stream is valid */

    uint64_t extends, forks, drops, page_copies, steps, step_waits;
    size_t device_bytes, pinned_bytes;
};

/* Shorthands ------------------------------------------------------------ */

/* The sequence's row of the table: its page ids, in order of tokens. */
static inline int32_t *mla__row(const mla_pool *pool,
                                const struct mla__sequence *s)
{
    return pool->table +
           (size_t)(s - pool->sequence) * (size_t)pool->options.table_width;
}

/* Pages that hold so many tokens. */
static inline int64_t mla__pages_for(const mla_pool *pool, int64_t tokens)
{
    return (tokens + pool->options.page_size - 1) / pool->options.page_size;
}

/* The slot of a token that is there, as kernels address it. */
static inline int64_t mla__slot(const mla_pool *pool,
                                const struct mla__sequence *s, int64_t token)
{
    int64_t size = pool->options.page_size;
    return (int64_t)mla__row(pool, s)[token / size] * size + token % size;
}

/* pool.c ---------------------------------------------------------------- */

/* Records the text and returns the status. */
mla_status mla__pool_fail(mla_pool *pool, mla_status status,
                          const char *format, ...)
    __attribute__((format(printf, 3, 4)));
mla_status mla__pool_cuda_fail(mla_pool *pool, const char *call, int result);

/* Makes the device current and takes it back; no-ops for a host pool. */
mla_status mla__pool_enter(mla_pool *pool);
void mla__pool_leave(mla_pool *pool);

/* pool_page.c ----------------------------------------------------------- */

/* A free page with one reference; the caller has checked that there is. */
int32_t mla__page_take(mla_pool *pool);
/* One more reference, or one less; a page that loses its last goes into the
 * open release, unless a pending copy pins it. */
void mla__page_ref(mla_pool *pool, int32_t page);
void mla__page_unref(mla_pool *pool, int32_t page);
/* One more or one less pending copy that reads or writes the page. */
void mla__page_pin(mla_pool *pool, int32_t page);
void mla__page_unpin(mla_pool *pool, int32_t page);

/* Remembers a stream that may use pages; any for a host pool.
 * Error: STREAMS. */
mla_status mla__stream_know(mla_pool *pool, void *stream);

/* Error CAPTURING, which names the call, if the stream is being captured. */
mla_status mla__stream_usable(mla_pool *pool, void *stream, const char *call);

/* Seals what has been released and takes back what has passed, or waits for
 * all of it.  The device is current. */
mla_status mla__reclaim(mla_pool *pool, bool wait);

/* Error OUT_OF_PAGES unless so many pages are free, after a reclaim. */
mla_status mla__pages_need(mla_pool *pool, int64_t need);

/* pool_seq.c ------------------------------------------------------------ */

/* The sequence of a handle.  Errors: NO_SEQUENCE, DROPPED. */
mla_status mla__sequence_find(mla_pool *pool, mla_seq seq,
                              struct mla__sequence **out);

/* Error RANGE unless tokens first .. first + n - 1 are there. */
mla_status mla__sequence_range(mla_pool *pool, const struct mla__sequence *s,
                               int64_t first, int64_t n);

/* pool_copy.c ----------------------------------------------------------- */

/* Makes room for so many more copies.  Error: OUT_OF_MEMORY. */
mla_status mla__copy_reserve(mla_pool *pool, int64_t more);

/* Replaces page i of a sequence, whose reference to it is already gone, by a
 * free one, and queues the copy of the first `rows` rows. */
void mla__copy_on_write(mla_pool *pool, struct mla__sequence *s, int32_t i,
                        int32_t rows);

/* mla_pool_own on a sequence that has been found. */
mla_status mla__own(mla_pool *pool, struct mla__sequence *s, int64_t first,
                    int64_t n);

/* The first count copies are on their way: forgets them. */
void mla__copies_done(mla_pool *pool, int count);

/* pool_rows.c ----------------------------------------------------------- */

/* Enqueues all pending copies.  The device is current. */
mla_status mla__copies_flush(mla_pool *pool, void *stream);

/* pool_step.c ----------------------------------------------------------- */

/* Stages, events and the device's tables; destroy takes half-made ones too.
 * The device is current. */
mla_status mla__tables_create(mla_pool *pool);
void mla__tables_destroy(mla_pool *pool);

#endif
