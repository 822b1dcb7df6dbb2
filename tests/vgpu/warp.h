/* SPDX-License-Identifier: Apache-2.0
 *
 * warp.h: what the parts of the running executor know of each other:
 *   launch.c   grids to sets of CTAs to host threads
 *   sched.c    one warp: groups of lanes, divergence, reconvergence
 *   barrier.c  bar, barrier, barrier.cluster
 *   report.c   faults and deadlock reports
 */
#ifndef VGPU_WARP_H
#define VGPU_WARP_H

#include "lower.h"

/* Runs warp w for about `budget` instructions; returns how many it issued,
 * 0 when nothing could run. */
uint64_t vg_warp_run(struct vg_warp *w, uint64_t budget);

static inline struct vg_group *vg_current(struct vg_warp *w)
{
    return &w->group[w->cur];
}
/* Lanes `mask` of group g go to pc and join a group that is there. */
void vg_move(struct vg_warp *w, int g, uint32_t mask, int pc);
/* The current group waits until `need` is part of it; false: it must. */
bool vg_converged(struct vg_warp *w, uint32_t need);
/* Lanes leave for good. */
void vg_lanes_exit(struct vg_warp *w, uint32_t mask);

/* Barriers of a CTA after threads have left. */
void vg_barriers_recheck(struct vg_cta *c);

/* Faults with the state of every warp of the set; does not return. */
_Noreturn void vg_deadlock(struct vg_set *s, bool watchdog);

#endif
