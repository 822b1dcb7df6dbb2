/* SPDX-License-Identifier: Apache-2.0
 *
 * race.h: data races in shared memory, found by happens-before.
 *
 * Two accesses to a byte race when one is a plain write and no chain of
 * barriers orders them (PTX ISA 8.10: morally strong operations, and
 * synchronisation by bar/barrier, bar.warp.sync, fences and release/acquire).
 * The detector keeps that order in vector clocks, so it reports a missing
 * barrier in every run, whichever way the warps happened to interleave.
 *
 * The scheme is FastTrack's (Flanagan and Freund, PLDI 2009) fitted to warps.
 * Time is an epoch number per warp, which advances when any lane of the warp
 * synchronises.  A memory cell remembers its last write (thread, epoch) and
 * the reads since then (per warp: epoch and lanes).  "Ordered before thread
 * t" is answered by
 *   - floor[w]:      what every lane of a warp knows of its own warp,
 *   - lane[w][l][]:  what lane l knows beyond that, after a bar.warp.sync of
 *                    only some lanes,
 *   - know[w][]:     what the warp knows of every thread of other warps.
 * Knowledge of other warps is kept per warp: when only some lanes acquire
 * something, all lanes of that warp are taken to know it.  That can hide a
 * race and never invents one.  Releases are exact, lane by lane.
 *
 * What does not order memory, as in the ISA: shfl, vote, match, redux, mma
 * and ldmatrix (they wait for lanes, not for memory), bar.arrive for the
 * arriving warp itself, and the lockstep of a converged warp.
 *
 * Cells are words; a word that is accessed in parts is split into bytes, so
 * results are exact to the byte.
 *
 * One object serves one cluster at a time (warps and bytes of its CTAs one
 * after the other) and is reused for the next.
 *
 * AGENTS.  Hopper's asynchronous operations are no threads: a TMA load that
 * completes on an mbarrier, a wgmma that reads a tile.  Each such source is
 * an agent with an epoch of its own, and clocks carry one number per agent
 * beside the threads': how much of it is known to be over.  Which bytes an
 * agent touched is kept elsewhere (async_shadow.c); here is only the order.
 *
 * PROXIES.  Agents access memory through the async proxy.  An ordinary access
 * precedes theirs only if a fence.proxy.async lies on the way (PTX ISA 8.9.5,
 * proxy-preserved base causality order), so with agents every clock has a
 * second half: what is known *and* fenced.
 */
#ifndef VGPU_RACE_H
#define VGPU_RACE_H

#include <stdbool.h>
#include <stdint.h>

struct vg_race;

enum vg_race_kind { VG_RACE_READ, VG_RACE_WRITE };

enum {
    /* Atomics, volatile, relaxed, acquire, release: no race among them. */
    VG_RACE_STRONG = 1,
    /* ldmatrix: done for the whole warp before any lane goes on, so a later
     * write by a lane of the same warp does not race with it. */
    VG_RACE_COLLECTIVE = 2,
    /* vg_race_check: all lanes act together (wgmma), so whatever lanes of
     * the same warp did comes before. */
    VG_RACE_WARP = 4
};

/* One instruction of one warp: each lane of mask accesses size bytes at
 * off[lane] (an offset in the CTA's shared memory, in bounds).  values, for
 * writes: size bytes per lane, consecutive; lanes of one instruction may
 * write one byte if they write the same value.  NULL: they may not. */
struct vg_race_op {
    unsigned warp;
    uint32_t mask;
    enum vg_race_kind kind;
    unsigned flags;
    uint32_t inst;            /* below 2^30; comes back in a hit */
    unsigned size;
    const uint32_t *off;
    const unsigned char *values;
    const uint32_t *epochs;   /* vg_race_record: when each lane wrote, 0 or
                                 NULL for now */
};

/* A race: thread `thread` at `inst` against the earlier access of `other` at
 * `other_inst`, on bytes [off, off + size). */
struct vg_race_hit {
    unsigned thread, other;
    uint32_t inst, other_inst;
    bool write, other_write;
    bool same_instruction;    /* two lanes of it wrote different values */
    uint32_t off, size;
};

/* NULL when the host is out of memory. */
struct vg_race *vg_race_new(void);
void vg_race_free(struct vg_race *r);

/* Starts a CTA of nwarps warps with `bytes` of shared memory; live[w] are the
 * lanes that exist.  Returns false when the host is out of memory. */
bool vg_race_begin(struct vg_race *r, unsigned nwarps, const uint32_t *live,
                   uint32_t bytes);

/* The same with agents, which start at epoch 0 and are known by nobody. */
bool vg_race_begin_agents(struct vg_race *r, unsigned nwarps,
                          const uint32_t *live, uint32_t bytes,
                          unsigned nagents);

/* Lanes of a warp exit: they need not take part in synchronisation. */
void vg_race_exit(struct vg_race *r, unsigned warp, uint32_t lanes);

/* Has host memory run out, so that some history is missing?  Callers that
 * could not give a clock its memory say so with vg_race_fail. */
bool vg_race_failed(const struct vg_race *r);
void vg_race_fail(struct vg_race *r);

/* Checks and records an access.  Returns false and fills *hit on a race. */
bool vg_race_access(struct vg_race *r, const struct vg_race_op *op,
                    struct vg_race_hit *hit);

/* The epoch that the warp's accesses carry now; a release ends it. */
uint32_t vg_race_epoch(const struct vg_race *r, unsigned warp);

/* Records writes (op->kind is ignored) without checking them: a copy that
 * was checked when it was issued and is complete now. */
void vg_race_record(struct vg_race *r, const struct vg_race_op *op);

/* Checks an access without recording it. */
bool vg_race_check(struct vg_race *r, const struct vg_race_op *op,
                   struct vg_race_hit *hit);

/* Whole words were overwritten by an agent: what was before is history. */
void vg_race_forget(struct vg_race *r, uint32_t off, uint32_t size);

/* ---- agents and proxies (race_agent.c) ---------------------------------- */

/* The epoch that an agent's accesses carry now; step ends it. */
uint32_t vg_race_agent_epoch(const struct vg_race *r, unsigned agent);
void vg_race_agent_step(struct vg_race *r, unsigned agent);
/* Does the warp know that the agent's epoch is over? */
bool vg_race_agent_known(const struct vg_race *r, unsigned warp,
                         unsigned agent, uint32_t epoch);
/* The epochs of all agents that the warp knows to be over. */
const uint32_t *vg_race_agent_row(const struct vg_race *r, unsigned warp);
/* The warp waited for the agent itself; the clock will tell others. */
void vg_race_agent_learn(struct vg_race *r, unsigned warp, unsigned agent,
                         uint32_t epoch);
void vg_race_agent_publish(const struct vg_race *r, unsigned agent,
                           uint32_t epoch, uint32_t *clock);

/* fence.proxy.async by lanes: all they did and know is fenced. */
void vg_race_proxy_fence(struct vg_race *r, unsigned warp, uint32_t lanes);

/* Was the last write to each of these bytes fenced, as far as the warp
 * knows?  false: *thread and *inst say whose and which write was not. */
bool vg_race_proxied(struct vg_race *r, unsigned warp, uint32_t off,
                     uint32_t size, unsigned *thread, uint32_t *inst);
/* The same for reads since then: for an asynchronous write to come. */
bool vg_race_reads_proxied(struct vg_race *r, unsigned warp, uint32_t off,
                           uint32_t size);

/* bar.warp.sync among lanes. */
void vg_race_warp_sync(struct vg_race *r, unsigned warp, uint32_t lanes);

/* A clock is what a barrier or a flag has collected: vg_race_clock_words
 * words, all 0 at first, owned by the caller.  Release adds what lanes know
 * and did; acquire takes over what is in it. */
unsigned vg_race_clock_words(const struct vg_race *r);
void vg_race_release(struct vg_race *r, unsigned warp, uint32_t lanes,
                     uint32_t *clock);
void vg_race_acquire(struct vg_race *r, unsigned warp, uint32_t lanes,
                     const uint32_t *clock);

/* Fences and flags in shared memory.  A fence makes earlier strong reads
 * acquire and later strong writes release; `sync` on a write or read says
 * that it is .release or .acquire itself. */
void vg_race_fence(struct vg_race *r, unsigned warp, uint32_t lanes);
void vg_race_flag_write(struct vg_race *r, unsigned warp, uint32_t lanes,
                        const uint32_t *off, bool sync);
void vg_race_flag_read(struct vg_race *r, unsigned warp, uint32_t lanes,
                       const uint32_t *off, bool sync);

#endif
