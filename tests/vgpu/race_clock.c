/* SPDX-License-Identifier: Apache-2.0
 *
 * race_clock.c: who knows what of whom (race.h tells the scheme).
 *
 * An access carries the epoch of its warp.  Whatever publishes a lane's past
 * publishes the current epoch and then advances it, so that what the lane
 * does next is not covered.  Clocks hold one epoch per thread, rows of 32
 * lanes, and are joined by the maximum.
 *
 * Example: warps 0 and 1 are in epoch 5, and a lane of warp 0 writes a word
 * (epoch 5).  Both come to bar.sync.  Warp 0 releases: the barrier's clock
 * gets 5 for all its lanes, and warp 0 goes to epoch 6.  Warp 1 acquires: of
 * warp 0 it now knows 5, so the write is ordered before its next read.
 * Without the barrier it knows `base` only, and the read is a race in every
 * run, however long after the write it comes.
 */
#include "race_internal.h"

#include <stdlib.h>
#include <string.h>

static uint32_t max32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Afterwards `into` knows what either knew.  The loop vectorises: joins are
 * most of the detector's work at a barrier. */
void vg__race_join(uint32_t *into, const uint32_t *from, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        into[i] = max32(into[i], from[i]);
}

/* Threads; with agents also the agents and what is fenced of the threads. */
unsigned vg_race_clock_words(const struct vg_race *r)
{
    return r->nwarps * 32 * (r->nagents ? 2 : 1) + r->nagents;
}

/* ---- storage ------------------------------------------------------------ */

/* Forgets all flags of a CTA. */
static void drop_flags(struct vg_race *r)
{
    for (unsigned i = 0; i < r->nflags; i++)
        free(r->flag[i].clock);
    r->nflags = 0;
}

void vg__race_clocks_free(struct vg_race *r)
{
    drop_flags(r);
    free(r->flag);
    free(r->epoch);
    free(r->has_fenced);
    r->flag = NULL;
    r->epoch = NULL;
    r->has_fenced = NULL;
    r->flags_room = 0;
    r->nwarps = 0;
}

/* Gives every array its size for n warps; all of them live in two blocks, so
 * that one failure check serves and freeing is two calls.  The order here is
 * the order of the parts in the block. */
bool vg__race_clocks_size(struct vg_race *r, unsigned n, unsigned nagents)
{
    size_t row = (size_t)n * n * 32, clocks;
    uint32_t *p;

    vg__race_clocks_free(r);
    r->nwarps = n;
    r->nagents = nagents;
    clocks = (size_t)n * vg_race_clock_words(r);
    p = calloc(4 * n + 2 * row + 2 * clocks + n * n + (size_t)n * 1024 +
                   (n + 1) * nagents, sizeof *p);
    r->has_fenced = calloc(2 * n, sizeof *r->has_fenced);
    r->epoch = p;
    if (!p || !r->has_fenced)
        return false;
    r->has_pending = r->has_fenced + n;
    r->floor = p + n;
    r->live = p + 2 * n;
    r->settled = p + 3 * n;
    r->know = p + 4 * n;
    r->fenced_know = r->know + row;
    r->fenced = r->fenced_know + row;
    r->pending = r->fenced + clocks;
    r->least = r->pending + clocks;
    r->lane = r->least + n * n;
    r->agent_epoch = r->lane + (size_t)n * 1024;
    r->agent_know = r->agent_epoch + nagents;
    return true;
}

/* Everybody knows everything up to base, nobody anything of this CTA.  Agents
 * start at epoch 1 because 0 in a granule means "no access".  Pending and
 * fenced clocks are cleared when they are first used (has_fenced). */
void vg__race_clocks_start(struct vg_race *r, const uint32_t *live)
{
    unsigned n = r->nwarps;

    r->top = r->base + 1;
    for (unsigned w = 0; w < n; w++) {
        r->epoch[w] = r->top;
        r->floor[w] = r->settled[w] = r->base;
        r->live[w] = live[w];
    }
    for (size_t i = 0; i < (size_t)n * n * 32; i++)
        r->know[i] = r->base;
    for (size_t i = 0; r->nagents && i < (size_t)n * n * 32; i++)
        r->fenced_know[i] = r->base;
    for (unsigned i = 0; i < r->nagents; i++)
        r->agent_epoch[i] = 1;
    memset(r->agent_know, 0, n * r->nagents * sizeof *r->agent_know);
    for (unsigned i = 0; i < n * n; i++)
        r->least[i] = r->base;
    memset(r->has_fenced, 0, 2 * n * sizeof *r->has_fenced);
    drop_flags(r);
}

/* ---- synchronisation ---------------------------------------------------- */

/* A new epoch for the warp: what follows is not covered by what has been
 * published. */
void vg__race_advance(struct vg_race *r, unsigned w)
{
    r->top = max32(r->top, ++r->epoch[w]);
}

/* The minimum over all warps of what warp w knows of each: an access with an
 * epoch up to it is ordered before w, whoever made it.  It is what the quick
 * cases of race.c compare with. */
void vg__race_settle(struct vg_race *r, unsigned w)
{
    const uint32_t *least = r->least + w * r->nwarps;
    uint32_t e = r->floor[w];

    for (unsigned u = 0; u < r->nwarps; u++)
        e = u != w && least[u] < e ? least[u] : e;
    r->settled[w] = e;
}

uint32_t vg_race_epoch(const struct vg_race *r, unsigned warp)
{
    return r->epoch[warp];
}

void vg_race_exit(struct vg_race *r, unsigned warp, uint32_t lanes)
{
    r->live[warp] &= ~lanes;
}

/* A lane knows its own epoch and of the others at least the floor.  The lane
 * rows need to be asked only when some live lane is not among `lanes`: with
 * all of them present the row is the current epoch throughout. */
void vg__race_own_row(const struct vg_race *r, unsigned w, uint32_t lanes,
                      uint32_t row[32])
{
    for (unsigned k = 0; k < 32; k++)
        row[k] = lanes >> k & 1 ? r->epoch[w] : r->floor[w];
    if (!(r->live[w] & ~lanes))
        return;
    for (uint32_t m = lanes; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);

        vg__race_join(row, r->lane + (w * 32 + l) * 32, 32);
    }
}

/* With every live lane in it the floor moves up; with only some, each of them
 * gets the row of what they know together. */
void vg_race_warp_sync(struct vg_race *r, unsigned w, uint32_t lanes)
{
    uint32_t row[32];

    if (!(r->live[w] & ~lanes)) {
        r->floor[w] = r->epoch[w];
        vg__race_settle(r, w);
    } else {
        vg__race_own_row(r, w, lanes, row);
        for (uint32_t m = lanes; m; m &= m - 1) {
            unsigned l = (unsigned)__builtin_ctz(m);

            memcpy(r->lane + (w * 32 + l) * 32, row, sizeof row);
        }
    }
    vg__race_advance(r, w);
}

/* Of its own warp it publishes only what the lanes did, of the others what
 * the warp knows; hence the three joins around the own row. */
void vg_race_release(struct vg_race *r, unsigned w, uint32_t lanes,
                     uint32_t *clock)
{
    uint32_t row[32];
    const uint32_t *know = r->know + (size_t)w * r->nwarps * 32;

    vg__race_own_row(r, w, lanes, row);
    vg__race_join(clock, know, w * 32);
    vg__race_join(clock + w * 32, row, 32);
    vg__race_join(clock + (w + 1) * 32, know + (w + 1) * 32,
                  (r->nwarps - w - 1) * 32);
    vg__race_release_agents(r, w, clock + r->nwarps * 32);
    vg__race_advance(r, w);
}

/* The lanes learn `row` of their own warp; what every live lane has learnt
 * of every live lane becomes the floor. */
static void acquire_own(struct vg_race *r, unsigned w, uint32_t lanes,
                        const uint32_t row[32])
{
    uint32_t least = UINT32_MAX;

    for (uint32_t m = r->live[w]; m; m &= m - 1)
        least = row[__builtin_ctz(m)] < least ? row[__builtin_ctz(m)] : least;
    if (!(r->live[w] & ~lanes) && r->live[w])
        r->floor[w] = max32(r->floor[w], least);
    for (uint32_t m = lanes; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);

        vg__race_join(r->lane + (w * 32 + l) * 32, row, 32);
    }
}

/* least[] is brought up to date for every warp, since any row of the clock
 * may have raised one. */
void vg_race_acquire(struct vg_race *r, unsigned w, uint32_t lanes,
                     const uint32_t *clock)
{
    unsigned n = r->nwarps;
    uint32_t *know = r->know + (size_t)w * n * 32;

    acquire_own(r, w, lanes, clock + w * 32);
    vg__race_join(know, clock, n * 32);
    vg__race_acquire_agents(r, w, clock + n * 32);
    for (unsigned u = 0; u < n; u++) {
        uint32_t least = know[u * 32];

        for (unsigned l = 1; l < 32; l++)
            if (know[u * 32 + l] < least)
                least = know[u * 32 + l];
        r->least[w * n + u] = least;
    }
    vg__race_settle(r, w);
}

/* ---- fences and flags --------------------------------------------------- */

/* The flag at off; made when `make`.  NULL: none, or out of memory.  A linear
 * search: kernels have a handful of flags in shared memory. */
static struct vg__flag *flag_at(struct vg_race *r, uint32_t off, bool make)
{
    struct vg__flag *f;

    for (unsigned i = 0; i < r->nflags; i++)
        if (r->flag[i].off == off)
            return &r->flag[i];
    if (!make)
        return NULL;
    if (r->nflags == r->flags_room) {
        unsigned room = r->flags_room ? 2 * r->flags_room : 16;
        void *p = realloc(r->flag, room * sizeof *r->flag);

        if (!p)
            return NULL;
        r->flag = p;
        r->flags_room = room;
    }
    f = &r->flag[r->nflags];
    f->off = off;
    f->clock = calloc(vg_race_clock_words(r), sizeof *f->clock);
    if (!f->clock)
        return NULL;
    r->nflags++;
    return f;
}

/* fence, membar: what earlier strong reads brought is acquired now, and the
 * past of the lanes is kept in `fenced` for later strong writes to carry (PTX
 * ISA 8.8, release and acquire patterns). */
void vg_race_fence(struct vg_race *r, unsigned w, uint32_t lanes)
{
    unsigned n = vg_race_clock_words(r);
    uint32_t *fenced = r->fenced + (size_t)w * n;
    uint32_t *pending = r->pending + (size_t)w * n;

    if (r->has_pending[w])
        vg_race_acquire(r, w, lanes, pending);
    r->has_pending[w] = false;
    if (!r->has_fenced[w])
        memset(fenced, 0, n * sizeof *fenced);
    vg_race_release(r, w, lanes, fenced);
    r->has_fenced[w] = true;
}

/* A strong write to a flag: with .release it carries the lane's past, without
 * it what the last fence covered, and nothing if there was no fence. */
void vg_race_flag_write(struct vg_race *r, unsigned w, uint32_t lanes,
                        const uint32_t *off, bool sync)
{
    unsigned n = vg_race_clock_words(r);

    if (!sync && !r->has_fenced[w])
        return;
    for (uint32_t m = lanes; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        struct vg__flag *f = flag_at(r, off[l], true);

        if (!f)
            r->failed = true;
        else if (sync)
            vg_race_release(r, w, 1u << l, f->clock);
        else
            vg__race_join(f->clock, r->fenced + (size_t)w * n, n);
    }
}

/* A strong read: with .acquire the lane learns what the flag carries, without
 * it that waits for the next fence. */
void vg_race_flag_read(struct vg_race *r, unsigned w, uint32_t lanes,
                       const uint32_t *off, bool sync)
{
    unsigned n = vg_race_clock_words(r);
    uint32_t *pending = r->pending + (size_t)w * n;

    for (uint32_t m = lanes; m && r->nflags; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        const struct vg__flag *f = flag_at(r, off[l], false);

        if (!f)
            continue;
        if (sync) {
            vg_race_acquire(r, w, 1u << l, f->clock);
            continue;
        }
        if (!r->has_pending[w])
            memset(pending, 0, n * sizeof *pending);
        vg__race_join(pending, f->clock, n);
        r->has_pending[w] = true;
    }
}
