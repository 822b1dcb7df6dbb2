/* SPDX-License-Identifier: Apache-2.0
 *
 * async_shadow.c: shared memory as the async proxy sees it (async.h), in
 * granules of 16 bytes: nothing asynchronous is smaller, save st.async.
 *
 * Order is checked in both directions.  An asynchronous access must come
 * after what threads did (the race detector's cells, asked on behalf of the
 * issuing warp) and after other agents' accesses (the granule); a thread's
 * access must come after the agents'.  Cells are asked only where threads
 * have been since the last asynchronous write: tiles that travel from TMA to
 * wgmma cost one look at the granule.
 *
 * Life of a granule in a ring of stages: a TMA load makes the mbarrier's agent
 * its writer; warps that have waited know that epoch to be over, and their
 * wgmma become readers; the next load into it is checked against the readers,
 * which the producer knows to be done only by way of the mbarrier on which
 * the consumers arrived after their wait_group.
 */
#include "async.h"
#include "bits.h"

#include <inttypes.h>
#include <stdlib.h>

/* Destination of a copy until it arrives: NaNs in every type. */
#define POISON 0xff

/* ---- storage ------------------------------------------------------------ */

/* Two per warp (wgmma reads, bulk reads), then the mbarriers (async.h). */
unsigned vg_async_agents(const struct vg_cta *c)
{
    return c->launch->program->is_async ? 2 * c->nwarps + VG_MBAR_AGENTS : 0;
}

/* gather and done share a block, seen and regular another (mbarrier.c). */
void vg_async_free(struct vg_async *a)
{
    if (!a)
        return;
    for (unsigned n = 0; n < a->mbar_room; n++) {
        free(a->mbar[n].gather);
        free(a->mbar[n].seen);
    }
    free(a->mbar);
    free(a->granule);
    free(a->read_epoch);
    free(a->warp);
    free(a->regs);
    free(a->issue);
    free(a);
}

/* Makes *array hold n zeroed elements; their old contents are not kept. */
static bool room_for(void *array, size_t *room, size_t n, size_t size)
{
    void **p = array;

    if (n <= *room)
        return true;
    free(*p);
    *p = calloc(n, size);
    *room = *p ? n : 0;
    return *p;
}

/* Sizes everything for this kernel: a CTA's state serves one launch. */
static bool size_async(struct vg_async *a, const struct vg_cta *c)
{
    size_t n = (c->shared_bytes + VG_GRANULE - 1) / VG_GRANULE + 1;
    unsigned watched = c->launch->program->nwatched;

    a->nwarps = c->nwarps;
    a->nregs = watched;
    a->granules = n;
    if (!a->warp)
        a->warp = calloc(c->nwarps, sizeof *a->warp);
    if (!a->issue)
        a->issue = calloc((c->nwarps + 3) / 4, sizeof *a->issue);
    return a->warp && a->issue &&
           room_for(&a->granule, &a->room, n, sizeof *a->granule) &&
           room_for(&a->read_epoch, &a->epochs_room, n * 2 * c->nwarps,
                    sizeof *a->read_epoch) &&
           room_for(&a->regs, &a->regs_room,
                    (size_t)watched * c->nwarps + 1, sizeof *a->regs);
}

/* The state of a CTA that has not started: nothing touched, no registers in
 * flight, no mbarrier alive. */
static void clear_async(struct vg_async *a)
{
    memset(a->granule, 0, a->granules * sizeof *a->granule);
    memset(a->regs, 0, (size_t)a->nregs * a->nwarps * sizeof *a->regs);
    memset(a->warp, 0, a->nwarps * sizeof *a->warp);
    memset(a->issue, 0, (a->nwarps + 3) / 4 * sizeof *a->issue);
    for (unsigned w = 0; w < a->nwarps; w++)
        a->warp[w].reg = a->regs + (size_t)w * a->nregs;
    a->in_flight = 0;
    a->pool = 0;
    vg_mbars_clear(a);
}

/* A kernel without asynchronous instructions has mc->async NULL, and every
 * check of this file is skipped for it. */
bool vg_async_begin(struct vg_cta *c)
{
    struct vg_mem_cta *mc = c->mem;

    mc->async = NULL;
    if (!c->launch->program->is_async)
        return true;
    if (!mc->async_kept)
        mc->async_kept = calloc(1, sizeof *mc->async_kept);
    mc->async = mc->async_kept;
    if (!mc->async || !size_async(mc->async, c))
        return false;
    mc->async->agent0 = c->rank * vg_async_agents(c);
    clear_async(mc->async);
    return true;
}

/* ---- reports ------------------------------------------------------------ */

/* Also serves cp.async, which shares the map but is no bulk copy. */
void vg_async_fault_flight(struct vg_warp *w, const struct vg_insn *i,
                           int lane, const struct vg_cta *c, uint64_t byte)
{
    const struct vg_bulk *b = vg_bulk_covering(c, byte);
    char place[512] = "cp.async";

    if (b)
        vg_place(w->cta->launch->program, b->pc, place, sizeof place);
    vg_fault(w, i, lane, VG_FAILED,
             "destination of an asynchronous copy touched before it is "
             "complete: shared byte 0x%" PRIx64 " is still in flight\n  "
             "copy at %s", byte, place);
}

/* The access x at byte `off` came too early after an agent's. */
_Noreturn static void fault_agent(const struct vg_async_access *x,
                                  uint32_t off, bool write, bool other_write,
                                  uint32_t pc)
{
    char place[512];

    vg_place(x->w->cta->launch->program, (int)pc, place, sizeof place);
    vg_fault(x->w, x->i, x->lane, VG_FAILED,
             "race in shared memory: %s by %s of byte 0x%x is not ordered "
             "after the asynchronous %s\n  at %s", write ? "write" : "read",
             x->what, off, other_write ? "write" : "read", place);
}

/* The access x is not ordered after a thread's. */
_Noreturn static void fault_thread(const struct vg_async_access *x,
                                   const struct vg_race_hit *hit)
{
    const struct vg_mem_cta *mc = x->c->mem;
    unsigned other = hit->other % (x->c->nwarps * VG_LANES);
    char place[512];

    vg_place(x->w->cta->launch->program, (int)hit->other_inst, place,
             sizeof place);
    vg_fault(x->w, x->i, x->lane, VG_FAILED,
             "race in shared memory: %s by %s of byte 0x%x is not ordered "
             "after the %s by block rank %u warp %u lane %u\n  at %s",
             hit->write ? "write" : "read", x->what, hit->off - mc->off0,
             hit->other_write ? "write" : "read",
             hit->other / (x->c->nwarps * VG_LANES), other >> 5, other & 31,
             place);
}

/* ---- against threads ---------------------------------------------------- */

/* Threads' accesses to bytes of a granule, before x: asks the cells on behalf
 * of the issuing lane, or of the whole warp for wgmma, without becoming an
 * access there. */
static void check_threads(const struct vg_async_access *x, uint32_t at,
                          uint32_t size, bool write)
{
    const struct vg_mem_cta *mc = x->c->mem;
    uint32_t off[VG_LANES];
    int lane = x->lane < 0 ? 0 : x->lane;
    struct vg_race_hit hit;
    struct vg_race_op op = {
        .warp = vg_race_warp(x->w),
        .mask = 1u << lane,
        .kind = write ? VG_RACE_WRITE : VG_RACE_READ,
        .flags = x->lane < 0 ? VG_RACE_WARP : 0,
        .inst = (uint32_t)vg_pc(x->w, x->i),
        .size = size,
        .off = off,
    };

    off[lane] = mc->off0 + at;
    if (!vg_race_check(mc->race, &op, &hit))
        fault_thread(x, &hit);
}

/* Ordinary writes that x reads must be fenced for the async proxy (PTX ISA
 * 9.7.13.4).  cp.async is one (8.6), but CUTLASS's kernels go without the
 * fence: for them the check can be switched off, and it is counted. */
static void check_fenced(const struct vg_async_access *x, uint32_t granule)
{
    const struct vg_mem_cta *mc = x->c->mem;
    const struct vg_program *p = x->w->cta->launch->program;
    unsigned thread = 0;
    uint32_t inst = 0;
    char place[512];

    if (!vg_checking(x->w, VG_CHECK_PROXY) ||
        vg_race_proxied(mc->race, vg_race_warp(x->w),
                        mc->off0 + granule * VG_GRANULE, VG_GRANULE, &thread,
                        &inst))
        return;
    if (p->insn[inst].cls == VG_C_ASYNC &&
        !vg_checking(x->w, VG_CHECK_COPIES)) {
        mc->worker->counts.async.unfenced_copy++;
        return;
    }
    vg_place(p, (int)inst, place, sizeof place);
    thread %= x->c->nwarps * VG_LANES;
    vg_fault(x->w, x->i, x->lane, VG_FAILED,
             "%s reads byte 0x%x, which warp %u lane %u wrote without a "
             "fence.proxy.async since\n  at %s", x->what,
             granule * VG_GRANULE, thread >> 5, thread & 31, place);
}

/* An asynchronous write after ordinary accesses ought to be fenced as well;
 * no kernel in use does it for reads, so it counts. */
static void count_unfenced(const struct vg_async_access *x, uint32_t granule)
{
    struct vg_mem_cta *mc = x->c->mem;
    uint32_t off = mc->off0 + granule * VG_GRANULE, inst;
    unsigned warp = vg_race_warp(x->w), thread;

    if (!vg_race_proxied(mc->race, warp, off, VG_GRANULE, &thread, &inst) ||
        !vg_race_reads_proxied(mc->race, warp, off, VG_GRANULE))
        mc->worker->counts.async.unfenced_reuse++;
}

/* ---- asynchronous accesses ---------------------------------------------- */

/* The 16 bits of a granule's bytes in a map with one bit per byte. */
static unsigned map16(const unsigned char *map, uint32_t granule)
{
    return map[2 * granule] | (unsigned)map[2 * granule + 1] << 8;
}

/* The last asynchronous write must be known to be over. */
static void check_written(const struct vg_async_access *x, uint32_t granule,
                          bool write)
{
    const struct vg_mem_cta *mc = x->c->mem;
    const struct vg_granule *g = &mc->async->granule[granule];

    if (g->epoch && !vg_race_agent_known(mc->race, vg_race_warp(x->w),
                                         mc->async->agent0 + g->agent,
                                         g->epoch))
        fault_agent(x, granule * VG_GRANULE, write, true, g->pc);
}

/* So must all asynchronous reads since. */
static void check_readers(const struct vg_async_access *x, uint32_t granule)
{
    const struct vg_mem_cta *mc = x->c->mem;
    struct vg_async *a = mc->async;
    struct vg_granule *g = &a->granule[granule];
    const uint32_t *epoch = a->read_epoch + (size_t)granule * 2 * a->nwarps;

    for (uint64_t m = g->readers; m; m &= m - 1) {
        unsigned agent = (unsigned)__builtin_ctzll(m);

        if (!vg_race_agent_known(mc->race, vg_race_warp(x->w),
                                 a->agent0 + agent, epoch[agent]))
            fault_agent(x, granule * VG_GRANULE, true, false,
                        a->read_pc[agent]);
    }
    g->readers = 0;
}

void vg_async_read_range(const struct vg_async_access *x, uint32_t off,
                         uint32_t bytes)
{
    for (uint32_t end = off + bytes; off < end; off += VG_GRANULE)
        vg_async_read(x, &off, 1);
}

/* Called for every 16 bytes that a wgmma reads, so the usual granule (written
 * by TMA, known to be complete, untouched by threads) costs a few compares. */
void vg_async_read(const struct vg_async_access *x, const uint32_t *off,
                   unsigned count)
{
    const struct vg_mem_cta *mc = x->c->mem;
    struct vg_async *a = mc->async;
    bool flight = (mc->copies_in_flight || a->in_flight) &&
                  vg_checking(x->w, VG_CHECK_ASYNC);
    bool init = vg_checking(x->w, VG_CHECK_UNINIT);
    unsigned nr = 2 * a->nwarps;
    uint32_t epoch = mc->race ? vg_race_agent_epoch(mc->race,
                                                    a->agent0 + x->agent) : 0;
    const uint32_t *know = mc->race ? vg_race_agent_row(mc->race,
                                                        vg_race_warp(x->w)) +
                                          a->agent0 : NULL;

    for (unsigned k = 0; k < count; k++) {
        uint32_t n = off[k] / VG_GRANULE;
        struct vg_granule *g = &a->granule[n];

        if (flight && map16(mc->flight, n))
            vg_async_fault_flight(x->w, x->i, x->lane, x->c,
                                  n * VG_GRANULE);
        if (init && map16(mc->init, n) != 0xffff)
            vg_fault(x->w, x->i, x->lane, VG_FAILED,
                     "%s reads uninitialised shared memory: 16 bytes at 0x%x",
                     x->what, n * VG_GRANULE);
        if (!mc->race)
            continue;
        if (g->epoch > know[g->agent])
            check_written(x, n, false);
        if (g->generic) {
            check_threads(x, n * VG_GRANULE, VG_GRANULE, false);
            check_fenced(x, n);
        }
        g->readers |= UINT64_C(1) << x->agent;
        a->read_epoch[(size_t)n * nr + x->agent] = epoch;
    }
    a->read_pc[x->agent] = (uint32_t)vg_pc(x->w, x->i);
}

/* Checks bytes of one granule and makes the agent its last writer. */
static void write_granule(const struct vg_async_access *x, uint32_t off,
                          uint32_t end, uint32_t epoch)
{
    uint32_t n = off / VG_GRANULE;
    const struct vg_mem_cta *mc = x->c->mem;
    struct vg_granule *g = &mc->async->granule[n];

    check_written(x, n, true);
    check_readers(x, n);
    if (g->generic) {
        check_threads(x, off, end - off, true);
        count_unfenced(x, n);
        vg_race_forget(mc->race, mc->off0 + off, end - off);
        g->generic = end - off < VG_GRANULE;
    }
    g->epoch = epoch;
    g->agent = (uint16_t)x->agent;
    g->pc = (uint32_t)vg_pc(x->w, x->i);
}

/* The granules at both ends may be partial (st.async, at 4 bytes); bytes of
 * them outside the range keep their history.  Without the async check the
 * bytes stay initialised: a kernel that reads them early gets poison. */
void vg_async_write(const struct vg_async_access *x, uint32_t off,
                    uint32_t bytes)
{
    struct vg_mem_cta *mc = x->c->mem;
    struct vg_async *a = mc->async;
    uint32_t end = off + bytes, next;
    uint32_t epoch = mc->race ? vg_race_agent_epoch(mc->race,
                                                    a->agent0 + x->agent) : 0;
    const struct vg_mbar *m = vg_mbar_overlap(a, off, bytes);
    bool check = vg_checking(x->w, VG_CHECK_ASYNC);

    if (m)
        vg_fault(x->w, x->i, x->lane, VG_FAILED,
                 "%s overwrites the live mbarrier 0x%x", x->what, m->off);
    if (check && (a->in_flight || mc->copies_in_flight) &&
        vg_bits_any(mc->flight, off, bytes))
        vg_async_fault_flight(x->w, x->i, x->lane, x->c,
                              vg_bits_find_not(mc->flight, off, bytes,
                                               false));
    for (uint32_t at = off; mc->race && at < end; at = next) {
        next = at / VG_GRANULE * VG_GRANULE + VG_GRANULE;
        next = next < end ? next : end;
        write_granule(x, at, next, epoch);
    }
    memset(x->c->shared + off, POISON, bytes);
    vg_bits_set(mc->flight, off, bytes);
    if (check)
        vg_bits_clear(mc->init, off, bytes);
}

/* The bytes are the copy's now: in flight no longer, and initialised. */
void vg_async_arrived(struct vg_cta *c, uint32_t off, uint32_t bytes)
{
    struct vg_mem_cta *mc = c->mem;

    vg_bits_clear(mc->flight, off, bytes);
    vg_bits_set(mc->init, off, bytes);
}

/* ---- ordinary accesses -------------------------------------------------- */

/* A thread's access to granule n: after the last asynchronous write, and a
 * write after all asynchronous reads as well. */
static void touch_granule(const struct vg_async_access *x, uint32_t n,
                          bool write)
{
    struct vg_granule *g = &vg_async_of(x->c)->granule[n];

    if (g->epoch)
        check_written(x, n, write);
    if (write && g->readers)
        check_readers(x, n);
    g->generic = true;
}

/* A lane's access may touch two granules, or more with 16-byte vectors at odd
 * places. */
void vg_async_touch(struct vg_touch *t, uint32_t mask, const uint32_t *off,
                    unsigned size, bool write)
{
    struct vg_async_access x = {
        .w = t->w, .i = t->i, .c = t->owner, .what = "a thread"};

    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        uint32_t first = off[l] / VG_GRANULE;
        uint32_t last = (off[l] + size - 1) / VG_GRANULE;

        x.lane = l;
        for (uint32_t n = first; n <= last; n++)
            touch_granule(&x, n, write);
    }
}

/* One look at the range that the whole warp spans; lanes only when a live
 * mbarrier lies in it. */
void vg_async_guard(struct vg_touch *t)
{
    const struct vg_async *a = ((struct vg_mem_cta *)t->owner->mem)->async;
    uint64_t low = UINT64_MAX, high = 0;

    for (uint32_t m = t->mask; m; m &= m - 1) {
        uint64_t off = t->off[__builtin_ctz(m)];

        low = off < low ? off : low;
        high = off + t->size > high ? off + t->size : high;
    }
    if (!vg_mbar_overlap(a, low, high - low))
        return;
    for (uint32_t m = t->mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        const struct vg_mbar *b = vg_mbar_overlap(a, t->off[l], t->size);

        if (b)
            vg_fault(t->w, t->i, l, VG_FAILED,
                     "ordinary access to the live mbarrier 0x%x; its bytes "
                     "are for mbarrier instructions only", b->off);
    }
}

/* ---- fences and exits --------------------------------------------------- */

/* Both kinds of fence publish the mbarriers that the lanes initialised.
 * .alias and .tensormap concern neither shared memory nor copies here. */
void vg_async_fence(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    struct vg_mem_cta *mc = w->cta->mem;
    enum vg_proxy proxy = (enum vg_proxy)(i->arg >> 8 & 0xff);

    if (proxy == VG_PROXY_ALIAS || proxy == VG_PROXY_TENSORMAP)
        return;
    vg_mbars_fence(w, mask);
    if (proxy != VG_PROXY_MBARRIER_INIT && mc->race &&
        proxy != VG_PROXY_ASYNC_GLOBAL)
        vg_race_proxy_fence(mc->race, vg_race_warp(w), mask);
}
