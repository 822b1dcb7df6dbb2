/* SPDX-License-Identifier: Apache-2.0
 *
 * mem_hooks.c: the memory side's part in launches, workers and CTAs, and what
 * synchronisation means to the race detector (hooks declared in exec.h).
 */
#include "async.h"
#include "bits.h"

#include <pthread.h>
#include <stdlib.h>

#define POISON 0xff /* unwritten shared and local memory: NaNs, wild indices */

/* The memory side of a launch: workers add their counts when they end. */
struct mem_launch {
    pthread_mutex_t lock;
    struct vg_counts counts;
};

/* ---- launch ------------------------------------------------------------- */

/* What the previous grid touched is kept only for a launch that may start
 * before that grid ends; for any other it is history. */
bool vg_mem_launch_begin(struct vg_launch *l)
{
    struct mem_launch *ml = calloc(1, sizeof *ml);

    if (!ml)
        return false;
    if (pthread_mutex_init(&ml->lock, NULL)) {
        free(ml);
        return false;
    }
    l->mem = ml;
    if (l->config.memory && l->config.programmatic)
        vg_mem_keep_touched(l->config.memory);
    else if (l->config.memory)
        vg_mem_clear_touched(l->config.memory);
    return true;
}

/* Instruction counts come from the executor, per instruction: a class is
 * known at load time, so no handler counts itself. */
static void count_instructions(const struct vg_launch *l, struct vg_counts *c)
{
    const struct vg_program *p = l->program;
    const struct vg_result *r = l->result;

    c->warp_insns = r->warp_insns;
    c->thread_insns = r->thread_insns;
    for (int pc = 0; pc < p->ninsn && r->hits; pc++)
        c->cls[p->insn[pc].cls] += r->hits[pc];
}

/* Faulted launches go into the book too: what they did until then is often
 * the hint. */
void vg_mem_launch_end(struct vg_launch *l)
{
    struct mem_launch *ml = l->mem;

    if (!ml)
        return;
    count_instructions(l, &ml->counts);
    vg_counters_record(l, &ml->counts);
    pthread_mutex_destroy(&ml->lock);
    free(ml);
    l->mem = NULL;
}

/* ---- worker ------------------------------------------------------------- */

/* NULL on failure is noticed by the first CTA, see vg_mem_cta_begin. */
void vg_mem_worker_begin(struct vg_worker *k)
{
    k->mem = calloc(1, sizeof(struct vg_mem_worker));
}

/* Releases the state of a CTA and all that it kept for the next one. */
static void free_cta(struct vg_mem_cta *mc)
{
    if (!mc)
        return;
    vg_race_free(mc->own_race);
    vg_async_free(mc->async_kept);
    free(mc->init);
    free(mc->flight);
    free(mc->local_init);
    for (unsigned w = 0; w < mc->nwarps; w++)
        free(mc->copies[w].copy);
    free(mc->copies);
    for (unsigned b = 0; b <= VG_BARRIERS; b++)
        for (unsigned g = 0; g < 2; g++)
            free(mc->clock[b][g].clock);
    vg_line_set_free(&mc->loaded);
    free(mc);
}

/* Counts reach the launch here, once per worker, so that no counter is
 * shared while instructions run. */
void vg_mem_worker_end(struct vg_worker *k)
{
    struct vg_mem_worker *mw = k->mem;
    struct mem_launch *ml = k->launch->mem;

    if (!mw)
        return;
    while (mw->spare) {
        struct vg_mem_cta *mc = mw->spare;

        mw->spare = mc->next;
        free_cta(mc);
    }
    vg_bulk_clear(mw);
    free(mw->bulk);
    pthread_mutex_lock(&ml->lock);
    vg_counts_add(&ml->counts, &mw->counts);
    pthread_mutex_unlock(&ml->lock);
    free(mw);
    k->mem = NULL;
}

/* ---- CTA ---------------------------------------------------------------- */

/* Gives *map room for n bytes, all zero; *room grows as needed and never
 * shrinks: CTAs of a launch are alike.  False: out of memory. */
static bool zero_map(unsigned char **map, size_t *room, size_t n)
{
    if (n > *room) {
        free(*map);
        *map = malloc(n);
        *room = *map ? n : 0;
    }
    if (n && *map)
        memset(*map, 0, n);
    return n == 0 || *map;
}

/* The two maps of shared memory, and poison in its bytes: with the checks
 * off a kernel that reads what nobody wrote still gets NaNs. */
static bool shared_maps(struct vg_mem_cta *mc, const struct vg_cta *c)
{
    size_t n = c->shared_bytes / 8 + 1, room = mc->shared_room;

    if (!zero_map(&mc->init, &mc->shared_room, n))
        return false;
    if (!zero_map(&mc->flight, &room, n))
        return false;
    if (c->shared_bytes)
        memset(c->shared, POISON, c->shared_bytes);
    return true;
}

/* The same for local memory.  The map has room for whole warps, because
 * lanes are numbered 32 to a warp; the bytes exist for real threads only. */
static bool local_map(struct vg_mem_cta *mc, const struct vg_cta *c)
{
    size_t bytes = (size_t)c->nwarps * VG_LANES * c->local_bytes;

    if (!zero_map(&mc->local_init, &mc->local_room, bytes / 8 + 1))
        return false;
    if (c->local_bytes)
        memset(c->local, POISON, c->nthreads * c->local_bytes);
    return true;
}

/* An empty queue of cp.async for each warp.  The array only grows, and with
 * it what each queue has already allocated is kept. */
static bool warp_states(struct vg_mem_cta *mc, struct vg_cta *c)
{
    if (c->nwarps > mc->nwarps) {
        void *p = realloc(mc->copies, c->nwarps * sizeof *mc->copies);

        if (!p)
            return false;
        mc->copies = p;
        memset(mc->copies + mc->nwarps, 0,
               (c->nwarps - mc->nwarps) * sizeof *mc->copies);
        mc->nwarps = c->nwarps;
    }
    for (unsigned w = 0; w < c->nwarps; w++) {
        vg_copies_clear(&mc->copies[w]);
        c->warp[w].mem = &mc->copies[w];
    }
    return true;
}

/* One detector serves a cluster, so that accesses to the shared memory of
 * another CTA are ordered as those to the own: its first CTA starts it, the
 * others find their place in it.  Warps are numbered through the cluster, and
 * CTA r's byte 0 is at r * stride; a stride of whole 16-byte granules keeps
 * two CTAs out of one shadow word.  Agents: what the asynchronous units of
 * all CTAs count as (race_agent.c). */
static bool start_race(struct vg_mem_cta *mc, const struct vg_cta *c)
{
    const struct vg_cluster *k = c->cluster;
    unsigned nwarps = k->ncta * c->nwarps;
    uint32_t stride = (uint32_t)(c->shared_bytes + 15) & ~15u, *live;
    bool ok;

    for (unsigned b = 0; b <= VG_BARRIERS; b++)
        mc->clock[b][0].used = mc->clock[b][1].used = false;
    mc->warp0 = c->rank * c->nwarps;
    mc->off0 = c->rank * stride;
    mc->race = NULL;
    if (!(c->launch->config.checks & VG_CHECK_RACE) || !c->shared_bytes)
        return true;
    if (c->rank) {
        const struct vg_mem_cta *first = k->cta[0].mem;

        mc->race = first ? first->own_race : NULL;
        return mc->race;
    }
    if (!mc->own_race)
        mc->own_race = vg_race_new();
    live = malloc(nwarps * sizeof *live);
    for (unsigned w = 0; live && w < nwarps; w++)
        live[w] = k->cta[w / c->nwarps].warp[w % c->nwarps].born;
    mc->race = mc->own_race;
    ok = live && mc->race &&
         vg_race_begin_agents(mc->race, nwarps, live, k->ncta * stride,
                              k->ncta * vg_async_agents(c));
    free(live);
    return ok;
}

/* Takes a state from the worker's spares or makes one.  The hook cannot
 * fail: c->mem stays NULL without host memory, and the first access or
 * barrier that needs it ends the launch (vg_mem_of). */
void vg_mem_cta_begin(struct vg_cta *c)
{
    struct vg_mem_worker *mw = c->worker->mem;
    struct vg_mem_cta *mc = mw ? mw->spare : NULL;

    c->mem = NULL;
    if (mc)
        mw->spare = mc->next;
    else if (mw)
        mc = calloc(1, sizeof *mc);
    if (!mc)
        return;
    /* What the last CTA left: only what a CTA must not see is cleared. */
    mc->worker = mw;
    mc->copies_in_flight = 0;
    vg_line_set_clear(&mc->loaded);
    if (shared_maps(mc, c) && local_map(mc, c) && warp_states(mc, c) &&
        start_race(mc, c)) {
        c->mem = mc;
        if (vg_async_begin(c))
            return;
        c->mem = NULL;
    }
    free_cta(mc);
}

/* Bulk copies of the set still under way are dropped: their memory is about
 * to be reused.  A kernel that leaves them behind has been told at exit. */
void vg_mem_cta_end(struct vg_cta *c)
{
    struct vg_mem_cta *mc = c->mem;

    if (!mc)
        return;
    vg_bulk_clear(mc->worker);
    mc->next = mc->worker->spare;
    mc->worker->spare = mc;
    c->mem = NULL;
}

/* ---- synchronisation ---------------------------------------------------- */

/* Each part is told that the lanes are gone: their cp.async arrive, bulk
 * groups close, and nobody waits for their clocks any more. */
void vg_mem_exit(struct vg_warp *w, uint32_t mask)
{
    struct vg_mem_cta *mc = w->cta->mem;

    if (!mc)
        return;
    vg_copies_exit(w, mask);
    if (mc->async)
        vg_async_exit(w, mask);
    if (mc->race)
        vg_race_exit(mc->race, vg_race_warp(w), mask);
}

/* The clock of barrier b's generation, empty if it is new; NULL when the
 * host is out of memory.  Clocks are as long as a warp count makes them, and
 * a CTA state may serve kernels of different sizes only one after another in
 * one launch, so the length never changes. */
static struct vg_bar_clock *clock_of(struct vg_cta *c,
                                     const struct vg_barrier *b,
                                     uint32_t generation)
{
    bool named = b >= c->barrier && b < c->barrier + VG_BARRIERS;
    struct vg_mem_cta *mc = named ? c->mem : c->cluster->cta[0].mem;
    unsigned n = named ? (unsigned)(b - c->barrier) : VG_BARRIERS;
    struct vg_bar_clock *k = &mc->clock[n][generation & 1];
    size_t bytes = vg_race_clock_words(mc->race) * sizeof *k->clock;

    if (!k->clock)
        k->clock = malloc(bytes);
    if (!k->clock)
        vg_race_fail(mc->race);
    if (k->clock && (!k->used || k->generation != generation))
        memset(k->clock, 0, bytes);
    k->used = true;
    k->generation = generation;
    return k->clock ? k : NULL;
}

/* The hooks of a barrier: arriving releases (the warp's clock joins the
 * barrier's), leaving acquires.  Two generations are kept in turn because
 * fast warps arrive at the next while slow ones still leave the last; nobody
 * can be two ahead. */
void vg_mem_arrive(struct vg_warp *w, uint32_t mask, struct vg_barrier *b)
{
    struct vg_mem_cta *mc = w->cta->mem;
    const struct vg_bar_clock *k;

    if (!mc)
        return;
    mc->worker->counts.barriers++;
    if (!mc->race)
        return;
    k = clock_of(w->cta, b, b->generation);
    if (k)
        vg_race_release(mc->race, vg_race_warp(w), mask, k->clock);
}

/* A named barrier is left before its generation counts up (barrier.c), so b
 * still has the right one; a cluster's may have moved on by then, so the warp
 * has kept the number of the one that it arrived at. */
void vg_mem_leave(struct vg_warp *w, uint32_t mask, struct vg_barrier *b)
{
    struct vg_mem_cta *mc = w->cta->mem;
    struct vg_cta *c = w->cta;
    bool named = b >= c->barrier && b < c->barrier + VG_BARRIERS;
    const struct vg_bar_clock *k;

    if (!mc || !mc->race)
        return;
    k = clock_of(c, b, named ? b->generation : w->cluster_generation);
    if (k)
        vg_race_acquire(mc->race, vg_race_warp(w), mask, k->clock);
}

/* bar.warp.sync orders the memory accesses of its participants (PTX ISA
 * 9.7.13.2). */
void vg_mem_warp_sync(struct vg_warp *w, uint32_t mask)
{
    struct vg_mem_cta *mc = w->cta->mem;

    if (!mc)
        return;
    mc->worker->counts.warp_syncs++;
    if (mc->race)
        vg_race_warp_sync(mc->race, vg_race_warp(w), mask);
}

/* Bits 8-15 of arg name a proxy: such a fence orders that proxy with the
 * generic one and is the asynchronous side's; any other is a memory fence. */
void vg_mem_fence(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    struct vg_mem_cta *mc = w->cta->mem;

    if (!mc)
        return;
    mc->worker->counts.fences++;
    if (mc->async && i->arg >> 8 & 0xff)
        vg_async_fence(w, i, mask);
    else if (mc->race)
        vg_race_fence(mc->race, vg_race_warp(w), mask);
}
