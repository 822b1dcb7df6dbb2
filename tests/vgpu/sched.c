/* SPDX-License-Identifier: Apache-2.0
 *
 * sched.c: one warp.
 *
 * A warp is a list of groups: lanes that share a pc.  It starts as one
 * group, branches split it, and groups that meet at a pc merge.  The group
 * with the lowest pc runs, up to the next group's pc, which makes lanes
 * reconverge where compilers lay code out in order.  Nothing depends on
 * that: an instruction that needs other lanes (.aligned, member masks)
 * waits for them, and a group that only spins or waits lets the others run,
 * so every lane makes progress, as on hardware since Volta.
 *
 * Most time is spent in `straight`: a run of instructions that cannot jump
 * or wait, known since load time, executed without looking at groups.
 *
 * Example: if (lane < 16) A; else B; C.  At the branch the warp falls into two
 * groups, at A and at B.  A has the lower pc and runs, jumps over B to C, and
 * stops there; B runs up to C, where another group stands, and joins it.
 */
#include "warp.h"

#include <limits.h>
#include <stdio.h>

/* Backward branches of a diverged group before the others get a turn. */
#define SPINS_IN_ORDER 1024

/* Takes group g off the list.  The last group takes the free place; `cur`
 * follows the group it meant, or points anywhere when that one is gone. */
static void remove_group(struct vg_warp *w, int g)
{
    w->ngroups--;
    if (g != w->ngroups)
        w->group[g] = w->group[w->ngroups];
    if (w->cur == w->ngroups)
        w->cur = g;
}

/* A group at pc that newcomers may join, other than g; -1 none. */
static int group_at(const struct vg_warp *w, int pc, int g)
{
    for (int n = 0; n < w->ngroups; n++)
        if (n != g && w->group[n].pc == pc &&
            w->group[n].state != VG_WAIT_BARRIER)
            return n;
    return -1;
}

/* Lanes of mask join group t, which runs again: if it waited for lanes, these
 * may be the ones. */
static void join(struct vg_group *t, uint32_t mask)
{
    t->mask |= mask;
    t->state = VG_READY;
    t->tired = false;
    t->spins = 0;
}

/* Lanes `mask` of group g go on at pc. Moving a whole group to a free pc keeps
 * its place in the array; else lanes leave it for another group, which may be
 * a new, last one. A group that has arrived at a barrier is never joined:
 * newcomers have not arrived. */
void vg_move(struct vg_warp *w, int g, uint32_t mask, int pc)
{
    struct vg_group *from = &w->group[g];
    int t = group_at(w, pc, g);
    if (from->mask == mask && t < 0) {
        from->pc = pc;
        from->state = VG_READY;
        return;
    }
    from->mask &= ~mask;
    if (t >= 0)
        join(&w->group[t], mask);
    else
        w->group[w->ngroups++] = (struct vg_group){.mask = mask, .pc = pc};
    if (!from->mask)
        remove_group(w, g);
}

/* Not an error yet: the missing lanes may be on their way. Whether they can
 * come at all shows when nothing else can run (vg_deadlock). */
bool vg_converged(struct vg_warp *w, uint32_t need)
{
    struct vg_group *g = vg_current(w);
    if ((g->mask & need) == need)
        return true;
    g->state = VG_WAIT_LANES;
    g->need = need;
    w->next = VG_RETRY;
    return false;
}

/* Groups that wait for lanes look again: a wait may be over, or in vain. */
void vg_lanes_exit(struct vg_warp *w, uint32_t mask)
{
    struct vg_cta *c = w->cta;
    vg_mem_exit(w, mask);
    w->live &= ~mask;
    c->live_threads -= (unsigned)__builtin_popcount(mask);
    struct vg_group *g = vg_current(w);
    g->mask &= ~mask;
    if (!g->mask)
        remove_group(w, w->cur);
    for (int n = 0; n < w->ngroups; n++)
        if (w->group[n].state == VG_WAIT_LANES)
            w->group[n].state = VG_READY;
    w->next = VG_MOVED;
    vg_progress(w);
    vg_barriers_recheck(c);
}

/* The text is kept for a deadlock report; the group polls. */
void vg_retry(struct vg_warp *w, const char *fmt, ...)
{
    struct vg_group *g = vg_current(w);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(g->why, sizeof g->why, fmt, ap);
    va_end(ap);
    w->next = VG_RETRY;
}

/* ---- choosing a group ---------------------------------------------------- */

/* Lowest pc among the groups that may run; -1 none. */
static int lowest(const struct vg_warp *w)
{
    int best = -1;
    for (int n = 0; n < w->ngroups; n++) {
        const struct vg_group *g = &w->group[n];
        if (g->state == VG_READY && !g->tired &&
            (best < 0 || g->pc < w->group[best].pc))
            best = n;
    }
    return best;
}

/* Picks the group to run next, w->cur; false: all of them wait. When only
 * tired groups are left, they are rested. */
static bool choose(struct vg_warp *w)
{
    int best = lowest(w);
    if (best < 0) {
        for (int n = 0; n < w->ngroups; n++) {
            w->group[n].tired = false;
            w->group[n].spins = 0;
        }
        best = lowest(w);
    }
    w->cur = best < 0 ? 0 : best;
    return best >= 0;
}

/* Polling groups try again each time the warp is scheduled. */
static void wake_pollers(struct vg_warp *w)
{
    for (int n = 0; n < w->ngroups; n++)
        if (w->group[n].state == VG_WAIT_POLL)
            w->group[n].state = VG_READY;
}

/* The next pc ahead at which the current group meets another one. */
static int meeting(const struct vg_warp *w)
{
    int pc = w->group[w->cur].pc, stop = INT_MAX;
    for (int n = 0; n < w->ngroups; n++)
        if (n != w->cur && w->group[n].pc > pc && w->group[n].pc < stop)
            stop = w->group[n].pc;
    return stop;
}

/* ---- running ------------------------------------------------------------- */

/* The lanes for which the guard holds. */
static inline uint32_t guarded(const struct vg_warp *w,
                               const struct vg_insn *i, uint32_t mask)
{
    return mask & (VG_MASK(w, i->guard) ^ i->guard_not);
}

/* n instructions from pc on were issued for the lanes of mask. Kept as
 * differences, so that a run costs two additions however long it is. */
static inline void count(struct vg_warp *w, int pc, int n, uint32_t mask)
{
    struct vg_worker *k = w->cta->worker;
    uint64_t lanes = (uint64_t)__builtin_popcount(mask);
    k->hits[pc]++;
    k->hits[pc + n]--;
    k->lanes[pc] += lanes;
    k->lanes[pc + n] -= lanes;
    w->cta->clock += (uint64_t)n;
}

/* The inner loop of the virtual GPU: n instructions that cannot wait or jump.
 * A handler is not called for an empty mask. */
static inline void straight(struct vg_warp *w, const struct vg_insn *i, int n,
                            uint32_t mask)
{
    for (const struct vg_insn *end = i + n; i < end; i++) {
        uint32_t m = guarded(w, i, mask);
        if (m)
            i->fn(w, i, m);
    }
}

/* A diverged group that keeps branching back may be waiting for the others:
 * after so many rounds they get their turn.  With a seed the number is
 * random, so that orders vary. */
static void spin(struct vg_warp *w, struct vg_group *g)
{
    struct vg_cta *c = w->cta;
    uint32_t limit = SPINS_IN_ORDER;
    if (c->launch->config.seed)
        limit = 1 + (uint32_t)(vg_random(c) & 255);
    if (++g->spins > limit) {
        g->tired = true;
        g->spins = 0;
    }
}

/* `mask` holds the lanes that jump. The others become a group of their own
 * at pc + 1, then the jumpers move. */
void vg_bra(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    struct vg_group *g = vg_current(w);
    int pc = g->pc;
    w->next = VG_MOVED;
    if (mask != g->mask)
        vg_move(w, w->cur, g->mask & ~mask, pc + 1);
    /* vg_move may have moved the array's last entry, never the current one:
     * the current group still holds `mask`. */
    if (i->target <= pc && w->ngroups > 1)
        spin(w, vg_current(w));
    vg_move(w, w->cur, mask, i->target);
}

/* Lanes that have exited, or never were, cannot come: no need to wait. */
static void need_whole_warp(struct vg_warp *w, const struct vg_insn *i)
{
    if (w->live != VG_ALL)
        vg_fault(w, i, -1, VG_FAILED,
                 "partial warp: an .aligned instruction needs all 32 lanes, "
                 "only %08x %s", w->live,
                 w->born == VG_ALL ? "have not exited" : "exist");
}

/* A member mask's lanes must all be at this instruction; lanes whose mates
 * are still missing stay behind. */
static bool members(struct vg_warp *w, const struct vg_insn *i)
{
    struct vg_group *g = vg_current(w);
    const uint32_t *m = vg_row(w, i->op[i->member & 0xff]);
    uint32_t ready = 0, need = 0;
    for (int l = 0; l < VG_LANES; l++) {
        if (!(g->mask >> l & 1))
            continue;
        if (!(m[l] >> l & 1))
            vg_fault(w, i, l, VG_FAILED,
                     "lane is not in its own member mask %08x", m[l]);
        if ((m[l] & w->live & ~g->mask) == 0)
            ready |= 1u << l;
        else
            need |= m[l] & w->live;
    }
    if (ready == g->mask)
        return true;
    if (!ready)
        return vg_converged(w, need);
    int pc = g->pc;
    w->group[w->ngroups++] = (struct vg_group){.mask = g->mask & ~ready,
                                               .pc = pc,
                                               .need = need,
                                               .state = VG_WAIT_LANES};
    g->mask = ready;
    return true;
}

/* What the handler asked for in w->next. */
static void finish(struct vg_warp *w)
{
    struct vg_group *g = vg_current(w);
    switch (w->next) {
    case VG_GO:
        vg_move(w, w->cur, g->mask, g->pc + 1);
        break;
    case VG_YIELD:
        g->tired = true;
        vg_move(w, w->cur, g->mask, g->pc + 1);
        break;
    case VG_RETRY:
        if (g->state == VG_READY)
            g->state = VG_WAIT_POLL;
        break;
    case VG_MOVED:
        break;
    }
}

/* One instruction that may wait, jump or split the group.  mask: the lanes
 * for which its guard holds; the others go on before it is executed, so that
 * the handler finds a group that is all its own.  Branches and exits split
 * the group themselves. */
static void control(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    struct vg_group *g = vg_current(w);
    int pc = g->pc;
    w->next = VG_GO;
    if (!mask) {
        vg_move(w, w->cur, g->mask, pc + 1);
        return;
    }
    if (i->fn == vg_bra || i->fn == vg_exit) {
        i->fn(w, i, mask);
        return;
    }
    if (mask != g->mask)
        vg_move(w, w->cur, g->mask & ~mask, pc + 1);
    if (i->kind == VG_ALIGNED) {
        need_whole_warp(w, i);
        if (vg_converged(w, VG_ALL))
            i->fn(w, i, VG_ALL);
    } else if (i->kind != VG_MEMBER || members(w, i)) {
        i->fn(w, i, vg_current(w)->mask);
    }
    finish(w);
}

/* Runs the current group until it meets another, may have changed the list
 * of groups, or has used `budget`.  A branch that the whole only group takes,
 * or does not, is the common one and costs no look at the list. */
static uint64_t run_group(struct vg_warp *w, uint64_t budget)
{
    const struct vg_insn *insn = w->cta->launch->program->insn;
    struct vg_group *g = vg_current(w);
    const uint32_t mask = g->mask;
    const bool whole = mask == VG_ALL;
    const int stop = w->ngroups > 1 ? meeting(w) : INT_MAX;
    uint64_t done = 0;
    int pc = g->pc;
    while (done < budget && pc != stop) {
        const struct vg_insn *i = insn + pc;
        int n = i->run[whole];
        if (n) {
            if (n > stop - pc)
                n = stop - pc;
            /* Counted first: a fault leaves `straight` by longjmp. */
            count(w, pc, n, mask);
            straight(w, i, n, mask);
            pc += n;
            done += (uint64_t)n;
            continue;
        }
        uint32_t m = guarded(w, i, mask);
        if (i->fn == vg_bra && w->ngroups == 1 && (!m || m == mask)) {
            count(w, pc, 1, mask);
            done++;
            pc = m ? i->target : pc + 1;
            continue;
        }
        g->pc = pc;
        control(w, i, m);
        if (w->next == VG_RETRY)
            return done;
        count(w, pc, 1, mask);
        return done + 1;
    }
    g->pc = pc;
    if (pc == stop)
        vg_move(w, w->cur, mask, pc);
    return done;
}

/* Yielding ends the warp's turn too: whoever it waits for may be in another
 * warp. */
uint64_t vg_warp_run(struct vg_warp *w, uint64_t budget)
{
    uint64_t done = 0;
    wake_pollers(w);
    while (done < budget && w->ngroups && choose(w)) {
        w->next = VG_GO;
        done += run_group(w, budget - done);
        if (w->next == VG_YIELD)
            break;
    }
    return done;
}
