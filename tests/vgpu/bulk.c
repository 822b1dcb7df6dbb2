/* SPDX-License-Identifier: Apache-2.0
 *
 * bulk.c: asynchronous copies under way (async.h: late completion).
 *
 * All copies of a set are in one list of its worker, in the order of issue.
 * Loads leave it when somebody waits for their mbarrier and nothing else can
 * run; with a seed some leave it earlier, at random.  Stores leave it when
 * their thread waits for their bulk group: a .read wait takes the bytes out
 * of shared memory, the full wait (or the end of the CTA) puts them into
 * global memory.
 *
 * A load, in time: issued (checked, destination poisoned, in flight) ... a
 * thread waits for its mbarrier and nothing else can run ... the bytes move,
 * the mbarrier gets them, its phase ends, the thread goes on.  A kernel that
 * reads before it waits finds poison, and is told so if the check is on.
 */
#include "async.h"
#include "bits.h"

#include <stdlib.h>

/* The list belongs to the worker: a set runs in one host thread, so it needs
 * no lock. */
static struct vg_mem_worker *worker_of(const struct vg_warp *w)
{
    return w->cta->worker->mem;
}

/* ---- the list ----------------------------------------------------------- */

/* Appends a copy with its kind and origin; everything else is zero and the
 * caller's to fill.  The list owns it.  Faults without host memory. */
struct vg_bulk *vg_bulk_new(struct vg_warp *w, const struct vg_insn *i,
                            enum vg_bulk_kind kind)
{
    struct vg_mem_worker *mw = worker_of(w);
    struct vg_bulk *b = calloc(1, sizeof *b);

    if (b && mw->nbulk == mw->bulk_room) {
        unsigned room = mw->bulk_room ? 2 * mw->bulk_room : 64;
        void *p = realloc(mw->bulk, room * sizeof *mw->bulk);

        if (p) {
            mw->bulk = p;
            mw->bulk_room = room;
        }
    }
    if (!b || mw->nbulk == mw->bulk_room) {
        free(b);
        vg_fault(w, i, -1, VG_OUT_OF_MEMORY,
                 "the host has no memory for an asynchronous copy");
    }
    b->kind = kind;
    b->w = w;
    b->pc = vg_pc(w, i);
    mw->bulk[mw->nbulk++] = b;
    return b;
}

/* Takes copy n off the list; the others keep their order, which is that of
 * their issue. */
static void drop(struct vg_mem_worker *mw, unsigned n)
{
    free(mw->bulk[n]->held);
    free(mw->bulk[n]);
    mw->nbulk--;
    memmove(&mw->bulk[n], &mw->bulk[n + 1],
            (mw->nbulk - n) * sizeof *mw->bulk);
}

void vg_bulk_clear(struct vg_mem_worker *mw)
{
    while (mw->nbulk)
        drop(mw, mw->nbulk - 1);
}

/* By its range, which for a swizzled box is the whole box. */
const struct vg_bulk *vg_bulk_covering(const struct vg_cta *c, uint64_t off)
{
    struct vg_mem_worker *mw = c->worker->mem;

    for (unsigned n = 0; n < mw->nbulk; n++) {
        const struct vg_bulk *b = mw->bulk[n];

        if (b->kind == VG_BULK_LOAD && b->dst == c &&
            off - b->dst_off < b->dst_bytes)
            return b;
    }
    return NULL;
}

/* ---- loads -------------------------------------------------------------- */

/* The bytes land, then the mbarrier hears of it.  A copy between two CTAs has
 * also read its source: who acquires the phase knows that read to be over. */
static void complete_load(struct vg_bulk *b)
{
    struct vg_async *a = vg_async_of(b->dst);

    b->move(b);
    a->in_flight--;
    if (b->src_epoch && ((struct vg_mem_cta *)b->dst->mem)->race)
        vg_race_agent_publish(((struct vg_mem_cta *)b->dst->mem)->race,
                              b->src_agent, b->src_epoch,
                              a->mbar[b->mbar].gather);
    vg_mbar_complete(b->dst, &a->mbar[b->mbar], b->agent, b->epoch, b->bytes);
}

/* Does somebody wait for the phase that this load completes? */
static bool is_wanted(const struct vg_bulk *b)
{
    return b->kind != VG_BULK_STORE &&
           vg_async_of(b->dst)->mbar[b->mbar].wanted;
}

/* The copy to complete next: the oldest that is waited for, then the oldest
 * at all; with a seed any of the first kind, or of all. -1: only stores. */
static int choose(struct vg_set *s, const struct vg_mem_worker *mw)
{
    struct vg_cta *c = &s->cta[0];
    unsigned start = 0, wanted = 0, loads = 0;

    for (unsigned n = 0; n < mw->nbulk; n++) {
        wanted += is_wanted(mw->bulk[n]);
        loads += mw->bulk[n]->kind != VG_BULK_STORE;
    }
    if (!loads)
        return -1;
    if (c->launch->config.seed)
        start = (unsigned)(vg_random(c) % (wanted ? wanted : loads));
    for (unsigned n = 0; n < mw->nbulk; n++) {
        const struct vg_bulk *b = mw->bulk[n];

        if (wanted ? is_wanted(b) : b->kind != VG_BULK_STORE)
            if (start-- == 0)
                return (int)n;
    }
    return -1;
}

/* Arrivals of copies at the mbarrier of *b, which they are one tile to: those
 * under way land together.  Else a seed that is eager with loads would never
 * have such a tile complete early, for a tile takes many warps. */
static void complete_arrivals(struct vg_mem_worker *mw, const struct vg_bulk *b)
{
    const struct vg_cta *dst = b->dst;
    unsigned mbar = b->mbar;

    for (unsigned n = 0; n < mw->nbulk;) {
        struct vg_bulk *other = mw->bulk[n];

        if (other->kind != VG_BULK_ARRIVE || other->dst != dst ||
            other->mbar != mbar) {
            n++;
            continue;
        }
        other->move(other);
        drop(mw, n);
    }
}

/* Called by the scheduler when nothing can run, and with a seed at random
 * moments.  Completing a copy is progress, whoever waits for it. */
bool vg_mem_late(struct vg_set *s)
{
    struct vg_mem_worker *mw = s->cta[0].worker->mem;
    int n = mw && mw->nbulk ? choose(s, mw) : -1;
    struct vg_bulk *b;

    if (n < 0)
        return false;
    b = mw->bulk[n];
    s->idle = 0;
    if (b->kind == VG_BULK_ARRIVE) {
        complete_arrivals(mw, b);
        return true;
    }
    complete_load(b);
    drop(mw, (unsigned)n);
    return true;
}

/* ---- stores ------------------------------------------------------------- */

/* Takes the bytes out of shared memory; from now on they may change, and the
 * issuing warp knows it.  A store's move does its reading on the first call
 * and its writing on the second (bulk_ops.c, tma.c). */
static void read_store(struct vg_bulk *b)
{
    const struct vg_mem_cta *mc = b->w->cta->mem;

    if (b->is_read)
        return;
    b->is_read = true;
    b->move(b);
    if (mc->race)
        vg_race_agent_learn(mc->race, vg_race_warp(b->w),
                            mc->async->agent0 + b->agent, b->epoch);
}

/* A store is over for lanes of mask when its group is older than the
 * `pending` youngest. */
static bool is_due(const struct vg_bulk *b, const struct vg_warp *w,
                   uint32_t mask, uint32_t pending)
{
    uint32_t open;

    if (b->kind != VG_BULK_STORE || b->w != w || !(mask >> b->lane & 1))
        return false;
    open = vg_async_warp_of(w)->bulk_open[b->lane];
    return b->group < open && open - b->group > pending;
}

/* cp.async.bulk.wait_group{.read}: with read_only the stores stay listed,
 * read but not yet written: global memory shows them later. */
void vg_bulk_wait(struct vg_warp *w, uint32_t mask, uint32_t pending,
                  bool read_only)
{
    struct vg_mem_worker *mw = worker_of(w);

    for (unsigned n = 0; n < mw->nbulk;) {
        struct vg_bulk *b = mw->bulk[n];

        if (!is_due(b, w, mask, pending)) {
            n++;
            continue;
        }
        read_store(b);
        if (read_only) {
            n++;
            continue;
        }
        b->move(b);
        drop(mw, n);
    }
}

/* ---- the end of threads and CTAs ---------------------------------------- */

/* Nobody can know any more when the copy is over. */
_Noreturn static void fault_left(struct vg_warp *w, const struct vg_insn *i,
                                 const struct vg_bulk *b, const char *what)
{
    char place[512];

    vg_place(w->cta->launch->program, b->pc, place, sizeof place);
    vg_fault(w, i, (int)b->lane, VG_FAILED, "%s\n  copy at %s", what, place);
}

/* The thread is leaving.  Its stores complete, which the ISA promises; but
 * shared memory may be gone before they have read it, so an unread one is a
 * fault. */
static void finish_stores(struct vg_warp *w, const struct vg_insn *i,
                          uint32_t mask)
{
    struct vg_mem_worker *mw = worker_of(w);

    for (unsigned n = 0; n < mw->nbulk;) {
        struct vg_bulk *b = mw->bulk[n];

        if (b->kind != VG_BULK_STORE || b->w != w || !(mask >> b->lane & 1)) {
            n++;
            continue;
        }
        if (!b->is_read && vg_checking(w, VG_CHECK_ASYNC))
            fault_left(w, i, b, "the thread exits while its bulk copy still "
                       "reads shared memory (no cp.async.bulk.wait_group"
                       "{.read} for it)");
        read_store(b);
        b->move(b);
        drop(mw, n);
    }
}

/* Copies that would land in memory that is nobody's. */
static void check_landing(struct vg_warp *w, const struct vg_insn *i)
{
    struct vg_mem_worker *mw = worker_of(w);

    for (unsigned n = 0; n < mw->nbulk; n++)
        if (mw->bulk[n]->kind == VG_BULK_LOAD && mw->bulk[n]->dst == w->cta &&
            vg_checking(w, VG_CHECK_ASYNC))
            fault_left(w, i, mw->bulk[n], "the block exits while a copy to "
                       "its shared memory is under way");
}

/* A tx-count that is not 0 at the end: bytes were announced that never came,
 * or came unannounced.  The last phase hid it because nobody waited. */
static void check_tx(struct vg_warp *w, const struct vg_insn *i)
{
    const struct vg_async *a = vg_async_of(w->cta);
    char state[64];

    for (unsigned k = 0; k < a->nmbar; k++) {
        if (!a->mbar[k].live || !a->mbar[k].tx)
            continue;
        vg_mbar_describe(&a->mbar[k], state, sizeof state);
        vg_fault(w, i, -1, VG_FAILED,
                 "tx-count mismatch: the block exits with %s: announced and "
                 "delivered bytes differ", state);
    }
}

/* The last threads of a CTA answer for its memory as well. */
void vg_bulk_exit(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    unsigned leaving = (unsigned)__builtin_popcount(mask);

    if (worker_of(w)->nbulk)
        finish_stores(w, i, mask);
    if (w->cta->live_threads > leaving)
        return;
    check_landing(w, i);
    if (vg_checking(w, VG_CHECK_ASYNC))
        check_tx(w, i);
}
