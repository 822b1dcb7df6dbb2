/* SPDX-License-Identifier: Apache-2.0
 *
 * touch.h: one memory instruction of one warp, checked and counted.
 *
 * Every instruction that accesses memory goes through vg_touch.  It takes the
 * addresses of 32 lanes, finds what they point to, runs the checks, updates
 * shadows and counters, and leaves host pointers behind.  What remains for
 * the handlers of ld, st, atom, cp.async, ldmatrix is to move bytes.
 *
 * Lanes may point to different things (two allocations, generic addresses in
 * different windows, other CTAs of the cluster), so vg_touch serves the lanes
 * that share the first lane's place and returns them; callers loop:
 *
 *     for (uint32_t todo = mask; todo; todo &= ~t.mask) {
 *         vg_touch(&t, todo, &how);
 *         ... move bytes of t.mask ...
 *     }
 */
#ifndef VGPU_TOUCH_H
#define VGPU_TOUCH_H

#include "checks.h"
#include "counters.h"
#include "exec.h"
#include "mem.h"
#include "race.h"

/* What a barrier has collected, for two generations in turn. */
struct vg_bar_clock {
    bool used;
    uint32_t generation;
    uint32_t *clock;
};

/* cp.async of one warp, see cp_async.c. */
struct vg_copies {
    struct vg_copy *copy;
    unsigned first, count, room; /* copy[first .. count - 1] are queued */
    uint32_t issued;
    uint32_t group[VG_LANES];   /* number of the open group of each lane */
};

/* The memory side of a running CTA.  Kept by the worker and reused. */
struct vg_mem_cta {
    struct vg_mem_cta *next;
    struct vg_mem_worker *worker;
    struct vg_race *race;       /* of the cluster; NULL: check is off */
    struct vg_race *own_race;   /* the race of a cluster's first CTA */
    unsigned warp0, off0;       /* of this CTA's first warp and byte there */
    struct vg_async *async;     /* NULL: the kernel has nothing asynchronous */
    struct vg_async *async_kept; /* its storage */
    unsigned char *init;        /* bit per shared byte: written */
    unsigned char *flight;      /* bit per shared byte: cp.async under way */
    size_t shared_room;         /* bytes of each of the two maps */
    unsigned char *local_init;
    size_t local_room;
    unsigned copies_in_flight;
    struct vg_copies *copies;   /* per warp */
    unsigned nwarps;
    struct vg_bar_clock clock[VG_BARRIERS + 1][2]; /* last: cluster */
    struct vg_line_set loaded;  /* lines that an L1 would hold */
};

/* The memory side of a worker thread. */
struct vg_mem_worker {
    struct vg_counts counts;
    struct vg_alloc *cache[64]; /* last allocation, by instruction */
    struct vg_mem_cta *spare;
    struct vg_bulk **bulk;      /* copies under way in the set */
    unsigned nbulk, bulk_room;
};

enum { VG_TOUCH_READ = 1, VG_TOUCH_WRITE = 2 };

struct vg_how {
    enum ptx_space space;
    unsigned dir;               /* VG_TOUCH_* */
    enum vg_path path;          /* where it counts */
    unsigned race;              /* VG_RACE_* flags */
    bool bypass_l1;
    bool uncounted;             /* no traffic: a hint, or counted elsewhere */
    bool race_later;            /* the caller runs vg_touch_race itself */
    /* Writes: size bytes per lane, in lane order; NULL: not known yet. */
    const unsigned char *values;
};

struct vg_touch {
    struct vg_warp *w;
    const struct vg_insn *i;
    struct vg_mem_cta *cta;
    unsigned size;              /* bytes per lane */
    unsigned align;             /* what addresses must be a multiple of */
    uint64_t addr[VG_LANES];
    /* Set by vg_touch: */
    uint32_t mask;              /* lanes served */
    unsigned char *base;
    uint64_t off[VG_LANES];     /* base + off[l]; lanes outside the mask get
                                   a copy of one inside: loads may ignore it */
    bool dense;                 /* 32 lanes, off[l] = off[0] + l * size */
    struct vg_alloc *alloc;     /* global memory */
    struct vg_cta *owner;       /* shared memory */
};

/* Starts a touch of size bytes per lane, aligned to size, at the addresses of
 * operand n; n < 0: the caller fills addr. */
void vg_touch_begin(struct vg_touch *t, struct vg_warp *w,
                    const struct vg_insn *i, int n, unsigned size);

/* See above; faults and does not return when a check fails. */
void vg_touch(struct vg_touch *t, uint32_t todo, const struct vg_how *how);

/* The memory side of the warp's CTA; faults when the host ran out of memory
 * for it. */
struct vg_mem_cta *vg_mem_of(struct vg_warp *w, const struct vg_insn *i);

static inline struct vg_counts *vg_counts_of(struct vg_touch *t)
{
    return &t->cta->worker->counts;
}

static inline bool vg_checking(const struct vg_warp *w, unsigned check)
{
    return w->cta->launch->config.checks & check;
}

/* Runs the race check of a shared-memory access by lanes of mask at off
 * (offsets in the memory of t->owner), or faults. */
void vg_touch_race(struct vg_touch *t, uint32_t mask, const uint32_t *off,
                   unsigned size, const struct vg_how *how);

/* grid.c: may lane `lane` (-1: nobody has waited) use bytes that the previous
 * grid touched? */
void vg_grid_check(struct vg_warp *w, const struct vg_insn *i, int lane,
                   const struct vg_alloc *a, uint64_t addr, uint64_t bytes,
                   bool write);

/* Offsets of the lanes in the race detector's cluster. */
void vg_race_offsets(const struct vg_mem_cta *owner, const uint64_t *off,
                     uint32_t out[VG_LANES]);

/* cp_async.c: an mbarrier tracks the copies of some lanes from `epoch` on;
 * they arrive; lanes leave; a new CTA starts. */
uint32_t vg_copies_track(struct vg_warp *w, uint32_t lanes, uint32_t epoch);
void vg_copies_arrive(struct vg_warp *w, uint32_t lanes, uint32_t until);
void vg_copies_exit(struct vg_warp *w, uint32_t mask);
void vg_copies_clear(struct vg_copies *c);

#endif
