/* SPDX-License-Identifier: Apache-2.0
 *
 * race_agent.c: asynchronous agents and the async proxy in the vector clocks
 * (race.h tells the scheme).
 *
 * A clock with agents is [threads][agents][threads, fenced].  A release adds
 * all three parts, an acquire takes them over, so "fenced" travels along the
 * chain of synchronisation on which the fence lies, whoever executed it.
 *
 * Example: a thread stores to a tile (epoch 5), executes fence.proxy.async
 * (fenced: 5), and all meet at a barrier.  The thread that then issues a bulk
 * store knows 5, and knows it fenced.  A fence of its own after the barrier
 * would do as well; one by another warp would not, for nothing tells the
 * issuer of it.
 */
#include "race_internal.h"

#define INST_MASK 0x3fffffffu

/* What warp w knows of the agents: the last epoch of each that is over. */
static uint32_t *agents_of(const struct vg_race *r, unsigned w)
{
    return r->agent_know + (size_t)w * r->nagents;
}

/* What warp w knows of the threads' epochs that a proxy fence covers. */
static uint32_t *fenced_of(const struct vg_race *r, unsigned w)
{
    return r->fenced_know + (size_t)w * r->nwarps * 32;
}

/* clock points behind the threads' part.  Without agents there is no such
 * part: kernels before Hopper pay nothing for it. */
void vg__race_release_agents(const struct vg_race *r, unsigned w,
                             uint32_t *clock)
{
    if (!r->nagents)
        return;
    vg__race_join(clock, agents_of(r, w), r->nagents);
    vg__race_join(clock + r->nagents, fenced_of(r, w), r->nwarps * 32);
}

void vg__race_acquire_agents(struct vg_race *r, unsigned w,
                             const uint32_t *clock)
{
    if (!r->nagents)
        return;
    vg__race_join(agents_of(r, w), clock, r->nagents);
    vg__race_join(fenced_of(r, w), clock + r->nagents, r->nwarps * 32);
}

/* ---- agents ------------------------------------------------------------- */

uint32_t vg_race_agent_epoch(const struct vg_race *r, unsigned agent)
{
    return r->agent_epoch[agent];
}

void vg_race_agent_step(struct vg_race *r, unsigned agent)
{
    r->agent_epoch[agent]++;
}

/* Epochs of an agent end in order, so one comparison answers for all of them:
 * wgmma groups do, and of the copies on an mbarrier only a whole phase is ever
 * waited for. */
bool vg_race_agent_known(const struct vg_race *r, unsigned warp,
                         unsigned agent, uint32_t epoch)
{
    return agents_of(r, warp)[agent] >= epoch;
}

const uint32_t *vg_race_agent_row(const struct vg_race *r, unsigned warp)
{
    return agents_of(r, warp);
}

void vg_race_agent_learn(struct vg_race *r, unsigned warp, unsigned agent,
                         uint32_t epoch)
{
    uint32_t *know = &agents_of(r, warp)[agent];

    *know = *know > epoch ? *know : epoch;
}

/* Into a clock that others will acquire: an mbarrier's, when the copy has
 * delivered its bytes. */
void vg_race_agent_publish(const struct vg_race *r, unsigned agent,
                           uint32_t epoch, uint32_t *clock)
{
    uint32_t *at = &clock[r->nwarps * 32 + agent];

    *at = *at > epoch ? *at : epoch;
}

/* ---- the async proxy ---------------------------------------------------- */

/* The fence covers what the lanes did themselves and what they know of
 * others: a barrier before the fence makes one thread's fence enough for the
 * whole CTA, which is the usual pattern before a TMA store.  What follows is
 * a new epoch, not covered. */
void vg_race_proxy_fence(struct vg_race *r, unsigned w, uint32_t lanes)
{
    uint32_t *fenced = fenced_of(r, w), row[32];

    if (!r->nagents)
        return;
    vg__race_join(fenced, r->know + (size_t)w * r->nwarps * 32,
                  r->nwarps * 32);
    vg__race_own_row(r, w, lanes, row);
    vg__race_join(fenced + w * 32, row, 32);
    vg__race_advance(r, w);
}

/* Is one cell's last write covered by a fence? */
static bool is_fenced(const struct vg_race *r, const uint32_t *fenced,
                      const struct vg__cell *c)
{
    return c->w_epoch <= r->base || c->w_epoch <= fenced[c->w_thread];
}

/* Words, or the four byte cells of a split one; the first that is not fenced
 * is reported. */
bool vg_race_proxied(struct vg_race *r, unsigned warp, uint32_t off,
                     uint32_t size, unsigned *thread, uint32_t *inst)
{
    const uint32_t *fenced = fenced_of(r, warp);

    for (uint32_t word = off / 4; word < (off + size + 3) / 4; word++) {
        const struct vg__cell *c = &r->cell[word];
        bool split = c->r_warp == READ_SPLIT;

        if (split)
            c = &r->split[4 * (size_t)c->r_ext];
        for (unsigned b = 0; b < (split ? 4u : 1u); b++)
            if (!is_fenced(r, fenced, &c[b])) {
                *thread = c[b].w_thread;
                *inst = c[b].w_inst & INST_MASK;
                return false;
            }
    }
    return true;
}

/* Are the reads by these lanes of a warp covered by a fence? */
static bool readers_fenced(const struct vg_race *r, const uint32_t *fenced,
                           unsigned w, uint32_t epoch, uint32_t lanes)
{
    for (; epoch > r->base && lanes; lanes &= lanes - 1)
        if (fenced[w * 32 + (unsigned)__builtin_ctz(lanes)] < epoch)
            return false;
    return true;
}

/* The same for all readers of a cell, whatever form they have in it. */
static bool cell_reads_fenced(struct vg_race *r, const uint32_t *fenced,
                              const struct vg__cell *c)
{
    const struct vg__reader *row;

    if (c->r_warp != READ_MANY)
        return readers_fenced(r, fenced, c->r_warp, c->r_epoch, c->r_lanes);
    row = vg__race_readers(r, c->r_ext);
    for (unsigned w = 0; w < r->nwarps; w++)
        if (!readers_fenced(r, fenced, w, row[w].epoch, row[w].lanes))
            return false;
    return true;
}

bool vg_race_reads_proxied(struct vg_race *r, unsigned warp, uint32_t off,
                           uint32_t size)
{
    const uint32_t *fenced = fenced_of(r, warp);

    for (uint32_t word = off / 4; word < (off + size + 3) / 4; word++) {
        const struct vg__cell *c = &r->cell[word];
        bool split = c->r_warp == READ_SPLIT;

        if (split)
            c = &r->split[4 * (size_t)c->r_ext];
        for (unsigned b = 0; b < (split ? 4u : 1u); b++)
            if (!cell_reads_fenced(r, fenced, &c[b]))
                return false;
    }
    return true;
}
