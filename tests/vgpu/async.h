/* SPDX-License-Identifier: Apache-2.0
 *
 * async.h: what Hopper's asynchronous instructions share.
 *
 *   async_shadow.c  who touched which 16 bytes of shared memory through the
 *                   async proxy, and the checks that follow from it
 *   mbarrier.c      mbarrier objects: phases, arrivals, transaction bytes
 *   mbarrier_ops.c  the mbarrier instructions
 *   bulk.c          copies under way, and when they complete
 *   bulk_ops.c      cp.async.bulk, bulk groups; bulk_decode.c the operands of
 *                   all bulk copies, and st.async
 *   tma.c           cp.async.bulk.tensor; tensor_map.c its maps
 *   wgmma.c         wgmma; wgmma_desc.c its descriptors; wgmma_regs.c its
 *                   registers while they are in flight
 *   cluster.c       mapa, getctarank, setmaxnreg
 *   grid.c          griddepcontrol
 *   hopper_table.c  the opcode table
 *
 * LATE COMPLETION.  A copy that is issued poisons its destination and does
 * nothing more.  It happens when somebody who waits for it cannot go on
 * otherwise (vg_mem_late), in the order of the waiting, with other seeds also
 * at random moments.  A kernel that forgets to wait never gets the data.
 *
 * AGENTS (race.h).  Each CTA has one per warp for the tiles that its wgmma
 * reads, one per warp for the tiles that its bulk stores read, and one per
 * mbarrier for what arrives on it.  A tile that is overwritten too early, or
 * read too early, is an access that no chain of waits orders after the
 * agent's: found in every run, however the warps were interleaved.
 */
#ifndef VGPU_ASYNC_H
#define VGPU_ASYNC_H

#include "touch.h"

#define VG_GRANULE 16
#define VG_MBAR_AGENTS 64 /* per CTA; beyond that mbarriers share them */

/* Sixteen bytes of shared memory.  agent, epoch, pc: the last asynchronous
 * write (epoch 0: none).  readers: bit per reading agent since the last write;
 * generic: threads have accessed it since the last asynchronous write, so the
 * race detector's cells have something to say. */
struct vg_granule {
    uint64_t readers;
    uint32_t epoch, pc;
    uint16_t agent;
    bool generic;
};

/* An mbarrier (PTX ISA 9.7.13.15). */
struct vg_mbar {
    uint32_t off;
    bool live;
    bool published;          /* fence.mbarrier_init or proxy fence since init */
    bool wanted;             /* somebody waits for its current phase */
    uint32_t owner;          /* thread that initialised it */
    uint32_t phase;          /* number of the current phase */
    uint32_t expected, pending;
    int64_t tx;
    unsigned agent;          /* of the CTA */
    uint32_t *gather, *done; /* clocks: arrivals of this phase; of all
                                phases that are over */
    int32_t *seen;           /* per warp: last phase it saw complete, -1 */
    bool *regular;           /* per warp: it has waited for each one */
};

/* A register of a wgmma (wgmma_regs.c). */
struct vg_wreg {
    uint32_t group;          /* in flight until this group is complete */
    uint32_t touched;        /* fence count at the last ordinary access */
    uint16_t shape;
    uint8_t is_d, is_copied;
};

/* wgmma and bulk state of a warp. */
struct vg_async_warp {
    uint32_t groups, done;   /* wgmma groups committed, complete */
    uint32_t issued;         /* wgmma instructions */
    uint32_t fences;         /* wgmma.fence */
    uint32_t used;           /* the youngest group that has a wgmma */
    uint32_t bulk_open[VG_LANES];  /* number of the open bulk group */
    uint32_t registers;      /* setmaxnreg; 0: as launched */
    struct vg_wreg *reg;
};

/* What the first warp of a warpgroup issued, for the other three. */
#define VG_ISSUES 64
struct vg_issue {
    uint32_t number;
    int pc;
    uint64_t a, b;
};

/* The asynchronous side of a CTA; kept and reused with struct vg_mem_cta. */
struct vg_async {
    unsigned nwarps, nregs;         /* nregs: watched registers per warp */
    struct vg_granule *granule;
    uint32_t *read_epoch;           /* [granule][2 * nwarps] */
    size_t granules, room;
    size_t epochs_room;
    struct vg_mbar *mbar;
    unsigned nmbar, mbar_room;
    struct vg_async_warp *warp;
    struct vg_wreg *regs;
    size_t regs_room;
    uint32_t read_pc[2 * VG_LANES]; /* per reading agent: its last read */
    struct vg_issue (*issue)[VG_ISSUES]; /* per warpgroup */
    unsigned agent0;                /* number of its agent 0 in the cluster */
    unsigned in_flight;             /* bulk copies to this CTA's memory */
    int64_t pool;                   /* registers that setmaxnreg freed */
};

/* ---- async_shadow.c ----------------------------------------------------- */

/* Sets up the async side of a CTA (mc->race is ready).  false: no memory. */
bool vg_async_begin(struct vg_cta *c);
void vg_async_free(struct vg_async *a);
unsigned vg_async_agents(const struct vg_cta *c);

static inline struct vg_async *vg_async_of(const struct vg_cta *c)
{
    return ((struct vg_mem_cta *)c->mem)->async;
}
static inline struct vg_async_warp *vg_async_warp_of(const struct vg_warp *w)
{
    return &vg_async_of(w->cta)->warp[w->index];
}
/* A warp's number in the race detector's cluster. */
static inline unsigned vg_race_warp(const struct vg_warp *w)
{
    return ((struct vg_mem_cta *)w->cta->mem)->warp0 + w->index;
}
static inline unsigned vg_wgmma_agent(const struct vg_warp *w)
{
    return w->index;
}
static inline unsigned vg_bulk_agent(const struct vg_warp *w)
{
    return w->cta->nwarps + w->index;
}

/* An asynchronous access in the making: by warp w at instruction i, to the
 * shared memory of CTA c, recorded under an agent of c. */
struct vg_async_access {
    struct vg_warp *w;
    const struct vg_insn *i;
    struct vg_cta *c;
    unsigned agent;
    int lane;               /* the issuing lane, -1: the whole warp */
    const char *what;       /* "wgmma", "TMA load", for reports */
};

/* Checks and records a read of n granules at off[0..n), which lie in shared
 * memory: initialised, nothing in flight, ordered after every write, and each
 * ordinary write fenced for the async proxy. */
void vg_async_read(const struct vg_async_access *x, const uint32_t *off,
                   unsigned n);
/* The same for the bytes [off, off + bytes), whole granules. */
void vg_async_read_range(const struct vg_async_access *x, uint32_t off,
                         uint32_t bytes);

/* Checks and records a write when it is issued: ordered after all accesses.
 * The bytes are poisoned and in flight until vg_async_arrived. */
void vg_async_write(const struct vg_async_access *x, uint32_t off,
                    uint32_t bytes);
void vg_async_arrived(struct vg_cta *c, uint32_t off, uint32_t bytes);

/* An ordinary access by t->w to t->owner's memory: is it ordered after the
 * asynchronous ones?  Also marks it. */
void vg_async_touch(struct vg_touch *t, uint32_t mask, const uint32_t *off,
                    unsigned size, bool write);
/* Faults when a lane of the touch is at a live mbarrier. */
void vg_async_guard(struct vg_touch *t);
_Noreturn void vg_async_fault_flight(struct vg_warp *w,
                                     const struct vg_insn *i, int lane,
                                     const struct vg_cta *c, uint64_t byte);
/* fence.proxy and fence.mbarrier_init. */
void vg_async_fence(struct vg_warp *w, const struct vg_insn *i,
                    uint32_t mask);

/* ---- mbarrier.c --------------------------------------------------------- */

/* The live mbarrier at a shared address of lane `lane` (a 32-bit address with
 * the rank of its CTA); *c gets the CTA.  Faults when there is none, or when
 * its init is not ordered before this. */
struct vg_mbar *vg_mbar_at(struct vg_warp *w, const struct vg_insn *i,
                           int lane, uint64_t addr, struct vg_cta **c);
/* Numbers by which asynchronous operations remember one. */
unsigned vg_mbar_index(const struct vg_cta *c, const struct vg_mbar *m);

/* State changes; they end the phase when it is due.  arrive faults when more
 * arrive than are expected.  order: release what the lane did. */
void vg_mbar_arrive(struct vg_warp *w, const struct vg_insn *i, int lane,
                    struct vg_cta *c, struct vg_mbar *m, uint32_t count,
                    bool order);
void vg_mbar_tx(struct vg_warp *w, const struct vg_insn *i, int lane,
                struct vg_cta *c, struct vg_mbar *m, int64_t bytes);
/* Adds a clock (race.h) to what the running phase will release. */
void vg_mbar_gather(const struct vg_cta *c, struct vg_mbar *m,
                    const uint32_t *clock);
/* An asynchronous operation of `agent` (of CTA c) delivered bytes. */
void vg_mbar_complete(struct vg_cta *c, struct vg_mbar *m, unsigned agent,
                      uint32_t epoch, uint32_t bytes);
/* mbarrier.init by a lane, in the shared memory of its own CTA. */
void vg_mbar_init(struct vg_warp *w, const struct vg_insn *i, int lane,
                  uint32_t addr, uint32_t count);
/* Is the phase with this parity over?  Faults on a wait that is late by two
 * phases. */
bool vg_mbar_over(struct vg_warp *w, const struct vg_insn *i, int lane,
                  struct vg_mbar *m, uint32_t parity);
/* "mbarrier 0x400 phase 3: 1 of 2 pending, 4096 bytes missing" */
void vg_mbar_describe(const struct vg_mbar *m, char *out, size_t n);
void vg_mbars_clear(struct vg_async *a);
void vg_mbars_fence(struct vg_warp *w, uint32_t mask);
/* The live mbarrier that overlaps [off, off + n); NULL: none. */
const struct vg_mbar *vg_mbar_overlap(const struct vg_async *a, uint64_t off,
                                      uint64_t n);

/* ---- bulk.c ------------------------------------------------------------- */

struct vg_bulk;
/* Moves the bytes of a copy that is complete now. */
typedef void vg_bulk_fn(struct vg_bulk *b);

enum vg_bulk_kind {
    VG_BULK_LOAD,    /* completes on an mbarrier */
    VG_BULK_STORE,   /* belongs to a bulk group */
    VG_BULK_ARRIVE   /* cp.async.mbarrier.arrive */
};

/* A copy under way.  data: the instruction's own description. */
struct vg_bulk {
    enum vg_bulk_kind kind;
    vg_bulk_fn *move;
    struct vg_warp *w;          /* that issued it */
    unsigned lane;
    int pc;
    struct vg_cta *dst;         /* LOAD: owner of memory and mbarrier */
    uint32_t dst_off, dst_bytes;/* its range there, for reports */
    unsigned mbar;
    uint32_t bytes;             /* that complete_tx counts */
    unsigned agent;             /* of w's CTA (STORE) or dst */
    uint32_t epoch;
    unsigned src_agent;         /* LOAD from shared memory: its reader */
    uint32_t src_epoch;
    uint32_t group;             /* STORE */
    bool is_read;               /* STORE: the source has been read */
    unsigned char *held;        /* STORE: what was read; ARRIVE: a clock */
    size_t nheld;
    uint64_t data[28];
};

struct vg_bulk *vg_bulk_new(struct vg_warp *w, const struct vg_insn *i,
                            enum vg_bulk_kind kind);
/* Lanes exit; i is the exit. */
void vg_bulk_exit(struct vg_warp *w, const struct vg_insn *i, uint32_t mask);
void vg_bulk_clear(struct vg_mem_worker *mw);
void vg_bulk_wait(struct vg_warp *w, uint32_t mask, uint32_t pending,
                  bool read_only);
/* The copy that is about to fill byte off of a CTA; NULL: none. */
const struct vg_bulk *vg_bulk_covering(const struct vg_cta *c, uint64_t off);

/* ---- wgmma_regs.c, cluster.c -------------------------------------------- */

/* A lane exits or a CTA ends: what must not be left behind. */
void vg_async_exit(struct vg_warp *w, uint32_t mask);

#endif
