/* SPDX-License-Identifier: Apache-2.0
 *
 * race_internal.h: what race.c (cells) and race_clock.c (clocks) share.
 */
#ifndef VGPU_RACE_INTERNAL_H
#define VGPU_RACE_INTERNAL_H

#include "race.h"

#include <stddef.h>

/* Values of vg__cell.r_warp beyond a warp's number. */
#define READ_MANY 0xffffu  /* the readers are in row r_ext */
#define READ_SPLIT 0xfffeu /* r_ext: the word's four byte cells */

/* The last write and the reads since then.  An instruction carries its flags
 * in the top two bits. */
struct vg__cell {
    uint32_t w_epoch, w_seq, w_inst;
    uint32_t r_epoch, r_lanes, r_inst, r_ext;
    uint16_t w_thread, r_warp;
};

/* Lanes of one warp that read a cell. */
struct vg__reader {
    uint32_t epoch, lanes, inst;
};

/* What a shared-memory flag carries from its writers to its readers. */
struct vg__flag {
    uint32_t off;
    uint32_t *clock;
};

struct vg_race {
    unsigned nwarps;
    uint32_t base;             /* epochs up to here precede everything */
    uint32_t top;              /* largest epoch handed out */
    uint32_t seq;              /* number of the instruction being checked */
    bool failed;               /* host memory ran out: history is missing */
    struct vg__cell *cell;     /* one per word */
    uint32_t ncells;
    struct vg__reader *readers; /* rows of nwarps, from row 1 */
    uint32_t nreaders, readers_room;
    struct vg__cell *split;    /* groups of 4, from group 1 */
    uint32_t nsplit, split_room;

    uint32_t *epoch, *floor, *live; /* [nwarps] */
    uint32_t *settled;         /* [nwarps]: whatever any thread did up to this
                                  epoch is ordered before the warp: minimum of
                                  floor and least */
    uint32_t *know;            /* [nwarps][32 * nwarps] */
    uint32_t *least;           /* [nwarps][nwarps]: minimum of know's lanes */
    uint32_t *lane;            /* [nwarps][32][32] */
    uint32_t *fenced;          /* [nwarps][32 * nwarps]: at the last fence */
    uint32_t *pending;         /* the same: read by strong reads, no fence
                                  yet */
    bool *has_fenced, *has_pending;
    struct vg__flag *flag;
    unsigned nflags, flags_room;

    unsigned nagents;
    uint32_t *agent_epoch;     /* [nagents] */
    uint32_t *agent_know;      /* [nwarps][nagents] */
    uint32_t *fenced_know;     /* [nwarps][32 * nwarps]: fenced for the async
                                  proxy, along any chain of fences */
};

/* Recomputes settled[w]; called when floor or least has changed. */
void vg__race_settle(struct vg_race *r, unsigned w);

bool vg__race_clocks_size(struct vg_race *r, unsigned nwarps,
                          unsigned nagents);
void vg__race_clocks_start(struct vg_race *r, const uint32_t *live);
void vg__race_clocks_free(struct vg_race *r);

/* What the lanes together know of each lane of their own warp, themselves
 * included. */
void vg__race_own_row(const struct vg_race *r, unsigned w, uint32_t lanes,
                      uint32_t row[32]);
void vg__race_join(uint32_t *into, const uint32_t *from, unsigned n);
void vg__race_advance(struct vg_race *r, unsigned w);
/* The parts of a clock behind the threads' (race_agent.c). */
void vg__race_release_agents(const struct vg_race *r, unsigned w,
                             uint32_t *clock);
void vg__race_acquire_agents(struct vg_race *r, unsigned w,
                             const uint32_t *clock);
struct vg__reader *vg__race_readers(struct vg_race *r, uint32_t index);

/* Is an access of any lane of warp `other` at `epoch` ordered before what
 * warp w does now?  false: not known for all lanes. */
static inline bool vg__race_ordered_warp(const struct vg_race *r, unsigned w,
                                         unsigned other, uint32_t epoch)
{
    return epoch <= (w == other ? r->floor[w]
                                : r->least[w * r->nwarps + other]);
}

/* Is an access of thread `other` at `epoch` ordered before what lane l of
 * warp w does now? */
static inline bool vg__race_ordered(const struct vg_race *r, unsigned w,
                                    unsigned l, unsigned other, uint32_t epoch)
{
    unsigned ow = other >> 5, ol = other & 31;

    if (epoch <= r->base || vg__race_ordered_warp(r, w, ow, epoch))
        return true;
    if (w == ow)
        return l == ol || epoch <= r->lane[(w * 32 + l) * 32 + ol];
    return epoch <= r->know[(size_t)w * r->nwarps * 32 + other];
}

#endif
