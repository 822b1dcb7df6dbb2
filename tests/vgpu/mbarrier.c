/* SPDX-License-Identifier: Apache-2.0
 *
 * mbarrier.c: mbarrier objects (PTX ISA 9.7.13.15).
 *
 * A phase is over when no arrival is pending and as many bytes have come as
 * were announced; which of the two happens first, or whether bytes come
 * before they are announced, does not matter: the tx-count may be negative
 * for a while.  The next phase then starts with the expected number of
 * arrivals.
 *
 * The object itself is kept beside shared memory.  Its eight bytes are out of
 * bounds for ordinary accesses while it is live; for the race detector each
 * use reads them and init writes them, so an mbarrier that is used without a
 * barrier after its init is a race.
 *
 * Arrivals release into `gather`, which joins `done` at the end of the phase;
 * who sees the phase over acquires `done`.
 *
 * Parity: a wait names a phase by its lowest bit and passes when the running
 * phase has the other one.  On a fresh mbarrier (phase 0 running) a wait for
 * parity 0 waits, and one for parity 1 passes at once: producers of a ring
 * begin with it, for their stages are free.
 */
#include "async.h"
#include "bits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A shared address: offset below, rank of the CTA + 1 above.  An mbarrier has
 * 8 bytes and counts up to 2^20 - 1 (PTX ISA 9.7.13.15.1 and .2). */
#define OFFSET_BITS 24
#define BYTES 8
#define MAX_COUNT ((1u << 20) - 1)

/* ---- the table ---------------------------------------------------------- */

/* The rows keep their clocks for the next CTA. */
void vg_mbars_clear(struct vg_async *a)
{
    a->nmbar = 0;
}

unsigned vg_mbar_index(const struct vg_cta *c, const struct vg_mbar *m)
{
    return (unsigned)(m - vg_async_of(c)->mbar);
}

const struct vg_mbar *vg_mbar_overlap(const struct vg_async *a, uint64_t off,
                                      uint64_t n)
{
    for (unsigned k = 0; k < a->nmbar; k++) {
        const struct vg_mbar *m = &a->mbar[k];

        if (m->live && m->off < off + n && off < m->off + BYTES)
            return m;
    }
    return NULL;
}

/* The row of an mbarrier at this offset, dead or alive; NULL: there was never
 * one.  A linear search: kernels have at most a few dozen. */
static struct vg_mbar *find(const struct vg_async *a, uint32_t off)
{
    for (unsigned k = 0; k < a->nmbar; k++)
        if (a->mbar[k].off == off)
            return &a->mbar[k];
    return NULL;
}

static void out_of_memory(struct vg_warp *w, const struct vg_insn *i)
{
    vg_fault(w, i, -1, VG_OUT_OF_MEMORY,
             "the host has no memory for an mbarrier");
}

/* A new row; its storage is kept from CTA to CTA.  words: of a race clock,
 * two of which (gather, done) share a block; warps: of the cluster, any of
 * which may wait or arrive.  Agents are handed out in turn, so with more than
 * VG_MBAR_AGENTS mbarriers two may share one: that can hide a race between
 * their copies and invents none. */
static struct vg_mbar *new_mbar(struct vg_warp *w, const struct vg_insn *i,
                                struct vg_async *a, unsigned words,
                                unsigned warps)
{
    struct vg_mbar *m;

    if (a->nmbar == a->mbar_room) {
        unsigned room = a->mbar_room ? 2 * a->mbar_room : 32;
        void *p = realloc(a->mbar, room * sizeof *a->mbar);

        if (!p)
            out_of_memory(w, i);
        a->mbar = p;
        memset(a->mbar + a->mbar_room, 0,
               (room - a->mbar_room) * sizeof *a->mbar);
        a->mbar_room = room;
    }
    m = &a->mbar[a->nmbar];
    if (!m->gather)
        m->gather = malloc(2 * words * sizeof *m->gather + 1);
    if (!m->seen)
        m->seen = malloc(warps * (sizeof *m->seen + sizeof *m->regular));
    if (!m->gather || !m->seen)
        out_of_memory(w, i);
    m->done = m->gather + words;
    m->regular = (bool *)(m->seen + warps);
    m->agent = 2 * a->nwarps + a->nmbar % VG_MBAR_AGENTS;
    a->nmbar++;
    return m;
}

/* ---- access to the object ----------------------------------------------- */

/* Tells the race detector that lane `lane` uses (init: writes) the object. */
static void race(struct vg_warp *w, const struct vg_insn *i, int lane,
                 struct vg_cta *c, uint32_t off, bool write)
{
    struct vg_touch t = {.w = w, .i = i, .cta = w->cta->mem, .owner = c};
    struct vg_how how = {
        .space = PTX_SHARED,
        .dir = write ? VG_TOUCH_WRITE : VG_TOUCH_READ,
        .race = VG_RACE_STRONG,
    };
    uint32_t at[VG_LANES];

    for (int l = 0; l < VG_LANES; l++)
        at[l] = off;
    if (write)
        how.race = 0;
    vg_touch_race(&t, 1u << lane, at, BYTES, &how);
}

/* The CTA that a shared address names; bounds and alignment are checked. */
static struct vg_cta *owner_of(struct vg_warp *w, const struct vg_insn *i,
                               int lane, uint64_t addr)
{
    struct vg_cta *own = w->cta, *c = own;
    uint64_t rank = addr >> OFFSET_BITS;
    uint32_t off = addr & ((1u << OFFSET_BITS) - 1);

    if (rank > own->cluster->ncta)
        vg_fault(w, i, lane, VG_ILLEGAL_ADDRESS,
                 "mbarrier address 0x%" PRIx64 " is not in shared memory of "
                 "the cluster", addr);
    if (rank)
        c = &own->cluster->cta[rank - 1];
    if (off % BYTES)
        vg_fault(w, i, lane, VG_MISALIGNED,
                 "mbarrier address 0x%x is no multiple of 8", off);
    if (off + BYTES > c->shared_bytes)
        vg_fault(w, i, lane, VG_ILLEGAL_ADDRESS,
                 "mbarrier 0x%x is beyond the block's %" PRIu64 " bytes of "
                 "shared memory", off, c->shared_bytes);
    if (c != own && c->live_threads == 0)
        vg_fault(w, i, lane, VG_ILLEGAL_ADDRESS,
                 "mbarrier 0x%x of block %u of the cluster, which has exited",
                 off, c->rank);
    return c;
}

/* Every use is also a strong read for the race detector, so that one which is
 * not ordered after the init is a race. */
struct vg_mbar *vg_mbar_at(struct vg_warp *w, const struct vg_insn *i,
                           int lane, uint64_t addr, struct vg_cta **c)
{
    uint32_t off = addr & ((1u << OFFSET_BITS) - 1);
    struct vg_mbar *m;

    *c = owner_of(w, i, lane, addr);
    m = find(vg_async_of(*c), off);
    if (!m || !m->live)
        vg_fault(w, i, lane, VG_FAILED,
                 "there is no mbarrier at shared address 0x%x%s: it was %s",
                 off, *c == w->cta ? "" : " of the other block",
                 m ? "invalidated" : "never initialised");
    race(w, i, lane, *c, off, false);
    return m;
}

/* Phase 0 with nobody there. */
static void start(struct vg_mbar *m, uint32_t off, uint32_t count)
{
    m->off = off;
    m->live = true;
    m->published = m->wanted = false;
    m->phase = 0;
    m->expected = m->pending = count;
    m->tx = 0;
}

/* Refuses what makes an mbarrier useless: another CTA's memory, a live one
 * (PTX ISA 9.7.13.15.9: only invalid memory may be initialised), a count out
 * of range.  A row at the same offset is used again. */
void vg_mbar_init(struct vg_warp *w, const struct vg_insn *i, int lane,
                  uint32_t addr, uint32_t count)
{
    struct vg_cta *c = owner_of(w, i, lane, addr);
    struct vg_mem_cta *mc = c->mem;
    struct vg_async *a = mc->async;
    unsigned words = mc->race ? vg_race_clock_words(mc->race) : 0;
    unsigned warps = c->cluster->ncta * c->nwarps;
    uint32_t off = addr & ((1u << OFFSET_BITS) - 1);
    struct vg_mbar *m = find(a, off);

    if (c != w->cta)
        vg_fault(w, i, lane, VG_ILLEGAL_ADDRESS,
                 "mbarrier.init in the shared memory of another block");
    if (m && m->live)
        vg_fault(w, i, lane, VG_FAILED,
                 "mbarrier 0x%x is initialised again while it is live "
                 "(mbarrier.inval comes first)", off);
    if (count == 0 || count > MAX_COUNT)
        vg_fault(w, i, lane, VG_FAILED,
                 "mbarrier 0x%x: count %u, allowed are 1 to %u", off, count,
                 MAX_COUNT);
    race(w, i, lane, c, off, true);
    if (!m)
        m = new_mbar(w, i, a, words, warps);
    start(m, off, count);
    m->owner = w->index * VG_LANES + (unsigned)lane;
    memset(m->gather, 0, 2 * words * sizeof *m->gather);
    for (unsigned k = 0; k < warps; k++) {
        m->seen[k] = -1;
        m->regular[k] = true;
    }
    vg_bits_set(mc->init, off, BYTES);
    mc->worker->counts.async.mbar_inits++;
}

/* fence.mbarrier_init, or a proxy fence: publishes what the lanes themselves
 * have initialised, not what others did. */
void vg_mbars_fence(struct vg_warp *w, uint32_t mask)
{
    struct vg_async *a = vg_async_of(w->cta);

    for (unsigned k = 0; k < a->nmbar; k++) {
        struct vg_mbar *m = &a->mbar[k];

        if (m->owner / VG_LANES == w->index && mask >> m->owner % VG_LANES & 1)
            m->published = true;
    }
}

void vg_mbar_describe(const struct vg_mbar *m, char *out, size_t n)
{
    snprintf(out, n, "mbarrier 0x%x phase %u: %u of %u pending, tx %" PRId64,
             m->off, m->phase, m->pending, m->expected, m->tx);
}

/* ---- phases ------------------------------------------------------------- */

/* `into` learns what `from` holds. */
static void join(const struct vg_cta *c, uint32_t *into, const uint32_t *from)
{
    const struct vg_mem_cta *mc = c->mem;
    unsigned n = vg_race_clock_words(mc->race);

    for (unsigned k = 0; k < n; k++)
        if (from[k] > into[k])
            into[k] = from[k];
}

void vg_mbar_gather(const struct vg_cta *c, struct vg_mbar *m,
                    const uint32_t *clock)
{
    join(c, m->gather, clock);
}

/* Ends the phase when nothing is missing.  What arrived in it can now be
 * acquired.  `done` keeps what came before: a phase that is over says that
 * all earlier ones are. */
static void check_phase(struct vg_cta *c, struct vg_mbar *m)
{
    struct vg_mem_cta *mc = c->mem;

    if (m->pending || m->tx)
        return;
    m->phase++;
    m->pending = m->expected;
    m->wanted = false;
    if (mc->race) {
        join(c, m->done, m->gather);
        memset(m->gather, 0,
               vg_race_clock_words(mc->race) * sizeof *m->gather);
    }
    c->set->idle = 0;
}

/* Bytes beyond the range are a bug of the kernel: thousands of copies that
 * nobody announced. */
static bool tx_in_range(const struct vg_mbar *m)
{
    return m->tx <= (int64_t)MAX_COUNT && m->tx >= -(int64_t)MAX_COUNT;
}

void vg_mbar_arrive(struct vg_warp *w, const struct vg_insn *i, int lane,
                    struct vg_cta *c, struct vg_mbar *m, uint32_t count,
                    bool order)
{
    struct vg_mem_cta *mc = c->mem;

    if (count == 0 || count > m->pending)
        vg_fault(w, i, lane, VG_FAILED,
                 "mbarrier 0x%x phase %u: %u arrive, but only %u of %u are "
                 "pending", m->off, m->phase, count, m->pending, m->expected);
    if (order && mc->race)
        vg_race_release(mc->race, vg_race_warp(w), 1u << lane, m->gather);
    m->pending -= count;
    mc->worker->counts.async.mbar_arrivals++;
    check_phase(c, m);
}

/* expect_tx (bytes > 0) never ends a phase: it only adds to what is missing.
 * complete_tx may. */
void vg_mbar_tx(struct vg_warp *w, const struct vg_insn *i, int lane,
                struct vg_cta *c, struct vg_mbar *m, int64_t bytes)
{
    m->tx += bytes;
    if (!tx_in_range(m))
        vg_fault(w, i, lane, VG_FAILED,
                 "mbarrier 0x%x phase %u: tx-count %" PRId64 " is beyond "
                 "2^20 - 1", m->off, m->phase, m->tx);
    if (bytes < 0)
        check_phase(c, m);
}

/* The copy's agent is published into the phase: who waits for it knows the
 * copy to be over. */
void vg_mbar_complete(struct vg_cta *c, struct vg_mbar *m, unsigned agent,
                      uint32_t epoch, uint32_t bytes)
{
    struct vg_mem_cta *mc = c->mem;

    if (mc->race)
        vg_race_agent_publish(mc->race, agent, epoch, m->gather);
    m->tx -= bytes;
    mc->worker->counts.async.tx_bytes += bytes;
    check_phase(c, m);
}

/* A wait names a phase by its parity only.  A warp that has waited for every
 * phase so far, and now would wait for one while the one it means and the
 * next are over, has been overtaken. */
static void check_overtaken(struct vg_warp *w, const struct vg_insn *i,
                            int lane, const struct vg_mbar *m, uint32_t parity)
{
    unsigned k = vg_race_warp(w);
    int32_t means = m->seen[k] + 1;

    if (m->seen[k] < 0 || !m->regular[k] || ((uint32_t)means & 1) != parity)
        return;
    if ((uint32_t)means + 2 <= m->phase)
        vg_fault(w, i, lane, VG_FAILED,
                 "mbarrier 0x%x: the wait is for phase %d, but phase %u is "
                 "running: two phases late, its parity means another phase",
                 m->off, means, m->phase);
}

/* "wanted" makes the copies of this phase the next to complete (bulk.c).
 * seen[] and regular[] remember how the warp has waited, for check_overtaken:
 * one that skips phases is not judged, for it may know them from elsewhere. */
bool vg_mbar_over(struct vg_warp *w, const struct vg_insn *i, int lane,
                  struct vg_mbar *m, uint32_t parity)
{
    unsigned k = vg_race_warp(w);

    if ((m->phase & 1) == parity) {
        check_overtaken(w, i, lane, m, parity);
        m->wanted = true;
        return false;
    }
    if (m->phase) {
        int32_t last = (int32_t)m->phase - 1;

        if (last > m->seen[k] + 1)
            m->regular[k] = false;
        m->seen[k] = last > m->seen[k] ? last : m->seen[k];
    }
    return true;
}
