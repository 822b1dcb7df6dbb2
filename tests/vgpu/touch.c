/* SPDX-License-Identifier: Apache-2.0
 *
 * touch.c: memory accesses of a warp (touch.h).
 *
 * Order of the checks: alignment, place and bounds, permission, cp.async in
 * flight, initialised, races.  The first that fails ends the launch.
 *
 * The steps of one access, for global memory; the other spaces have the same:
 *   resolve       a generic address names its space by its window
 *   check_align   all lanes' addresses at once
 *   find_alloc    what the first lane points to
 *   choose_lanes  which other lanes point there, too; the rest comes later
 *   lane_beyond   the end of each lane's bytes against the allocation's
 *   check_...     initialised, permitted, ordered
 *   mark, count   shadows and counters
 * Where the lanes lie side by side (dense), most steps are one operation on a
 * range; messages are made only once something has failed.
 */
#include "async.h"
#include "bits.h"

#include <inttypes.h>
#include <stdio.h>

#define OFFSET_BITS 24 /* of a shared address; above: CTA rank + 1 */

static int first_lane(uint32_t mask)
{
    return __builtin_ctz(mask);
}

struct vg_mem_cta *vg_mem_of(struct vg_warp *w, const struct vg_insn *i)
{
    if (!w->cta->mem)
        vg_fault(w, i, -1, VG_OUT_OF_MEMORY,
                 "the host has no memory for the state of a block");
    return w->cta->mem;
}

/* Alignment is the whole access, vectors included: PTX ISA 9.7.9.8 wants
 * v4.f32 at a multiple of 16.  Callers with weaker rules lower it. */
void vg_touch_begin(struct vg_touch *t, struct vg_warp *w,
                    const struct vg_insn *i, int n, unsigned size)
{
    t->w = w;
    t->i = i;
    t->cta = vg_mem_of(w, i);
    t->size = t->align = size;
    t->alloc = NULL;
    t->owner = NULL;
    if (n >= 0)
        vg_addresses(w, i, n, t->addr);
}

/* ---- lanes and ranges --------------------------------------------------- */

/* Bit l: v[l] is below `limit`.  One compare for both ends of a range: with
 * its base taken off, an address before it has wrapped to a huge number. */
static uint32_t lanes_below(const uint64_t v[VG_LANES], uint64_t limit)
{
    uint32_t m = 0;

    for (int l = 0; l < VG_LANES; l++)
        m |= (uint32_t)(v[l] < limit) << l;
    return m;
}

/* Chooses the lanes of todo whose addresses lie in [base, base + size), sets
 * mask, off and dense.  The caller made sure that the first lane does, and
 * that lane's offset stands in for those not chosen.  dense lets every later
 * step treat the warp as one range; the sum of differences finds it without
 * a branch. */
static void choose_lanes(struct vg_touch *t, uint32_t todo, uint64_t base,
                         uint64_t size)
{
    uint64_t first = t->addr[first_lane(todo)] - base, apart = 0;

    for (int l = 0; l < VG_LANES; l++)
        t->off[l] = t->addr[l] - base;
    t->mask = todo & lanes_below(t->off, size);
    if (t->mask != VG_ALL)
        for (int l = 0; l < VG_LANES; l++)
            t->off[l] = t->mask >> l & 1 ? t->off[l] : first;
    for (int l = 0; l < VG_LANES; l++)
        apart |= t->off[l] - t->off[0] - (uint64_t)l * t->size;
    t->dense = t->mask == VG_ALL && apart == 0;
}

/* The first chosen lane whose access ends beyond size, or -1. */
static int lane_beyond(const struct vg_touch *t, uint64_t size)
{
    uint64_t limit = size >= t->size ? size - t->size + 1 : 0;
    uint32_t bad = t->mask & ~lanes_below(t->off, limit);

    return bad ? first_lane(bad) : -1;
}

/* Names for messages. */
static const char *verb(const struct vg_how *how)
{
    return how->dir == VG_TOUCH_READ    ? "read"
           : how->dir == VG_TOUCH_WRITE ? "write"
                                        : "atomic access";
}

/* Of the spaces that an access can have been narrowed to. */
static const char *space_name(enum ptx_space s)
{
    static const char *const name[] = {
        [PTX_GENERIC] = "generic", [PTX_GLOBAL] = "global",
        [PTX_CONST] = "const",     [PTX_SHARED] = "shared",
        [PTX_LOCAL] = "local",     [PTX_PARAM] = "param",
    };
    return name[s];
}

/* One OR over all addresses decides; only a failure looks for its lane.
 * Atomics are always checked: the host's own need the alignment. */
static void check_align(struct vg_touch *t, uint32_t todo,
                        const struct vg_how *how)
{
    uint64_t low = 0;

    if (!vg_checking(t->w, VG_CHECK_ALIGN) && how->path != VG_PATH_ATOMIC)
        return;
    for (int l = 0; l < VG_LANES; l++)
        low |= todo >> l & 1 ? t->addr[l] : 0;
    if (!(low & (t->align - 1)))
        return;
    for (uint32_t m = todo; m; m &= m - 1) {
        int l = first_lane(m);

        if (t->addr[l] & (t->align - 1))
            vg_fault(t->w, t->i, l, VG_MISALIGNED,
                     "misaligned %s of %u bytes at %s address 0x%" PRIx64
                     ", which is no multiple of %u", verb(how), t->size,
                     space_name(how->space), t->addr[l], t->align);
    }
}

/* ---- initialised bytes -------------------------------------------------- */

/* The first chosen lane that reads a byte that is not marked in map, -1 when
 * there is none; *byte is the offset of that byte. */
static int lane_unmarked(const struct vg_touch *t, const unsigned char *map,
                         uint64_t *byte)
{
    if (t->dense && vg_bits_all(map, t->off[0], (uint64_t)VG_LANES * t->size))
        return -1;
    for (uint32_t m = t->mask; m; m &= m - 1) {
        int l = first_lane(m);

        if (!vg_bits_all(map, t->off[l], t->size)) {
            *byte = vg_bits_find_not(map, t->off[l], t->size, true);
            return l;
        }
    }
    return -1;
}

/* Marks what the chosen lanes write.  shared_map: other host threads mark
 * bits of it at the same time. */
static void mark(const struct vg_touch *t, unsigned char *map, bool shared_map)
{
    void (*set)(unsigned char *, uint64_t, uint64_t) =
        shared_map ? vg_bits_set_shared : vg_bits_set;

    if (t->dense) {
        set(map, t->off[0], (uint64_t)VG_LANES * t->size);
        return;
    }
    for (uint32_t m = t->mask; m; m &= m - 1)
        set(map, t->off[first_lane(m)], t->size);
}

/* ---- global memory ------------------------------------------------------ */

/* The allocation that the first lane points to, dead ones too, NULL: none.
 * It was the last one of this instruction more often than not, so each pc
 * (mod 64) remembers one, per worker and therefore without a lock. */
static struct vg_alloc *find_alloc(struct vg_touch *t, uint64_t addr)
{
    unsigned slot = (unsigned)vg_pc(t->w, t->i) & 63;
    struct vg_alloc **cache = &t->cta->worker->cache[slot];
    struct vg_mem *memory = t->w->cta->launch->config.memory;

    if (!*cache || !(*cache)->live || !vg_alloc_holds(*cache, addr, 1))
        *cache = memory ? vg_mem_find(memory, addr) : NULL;
    return *cache;
}

/* Ends the launch: lane's access is not inside one live allocation.  The
 * message names the nearest one and the distance. */
_Noreturn static void fault_bounds(struct vg_touch *t, int lane,
                                   const struct vg_how *how)
{
    struct vg_mem *memory = t->w->cta->launch->config.memory;
    char where[256] = "there is no device memory";

    if (memory)
        vg_mem_describe(memory, t->addr[lane], t->size, where, sizeof where);
    vg_fault(t->w, t->i, lane, VG_ILLEGAL_ADDRESS,
             "out-of-bounds %s of %u bytes at global address 0x%" PRIx64
             ": %s", verb(how), t->size, t->addr[lane], where);
}

/* Faults when a chosen lane reads a byte that neither the host nor a kernel
 * has written: padding rows, tails of pages, forgotten workspaces. */
static void check_global_init(struct vg_touch *t, const struct vg_how *how)
{
    const struct vg_alloc *a = t->alloc;
    uint64_t byte;
    int lane;

    if (!(how->dir & VG_TOUCH_READ) || !vg_checking(t->w, VG_CHECK_UNINIT))
        return;
    lane = lane_unmarked(t, a->init, &byte);
    if (lane >= 0)
        vg_fault(t->w, t->i, lane, VG_FAILED,
                 "%s of uninitialised global memory: byte %" PRIu64
                 " of %s (%" PRIu64 " bytes at 0x%" PRIx64
                 ") was never written; the access is %u bytes at 0x%" PRIx64,
                 verb(how), byte, a->name, a->size, a->base, t->size,
                 t->addr[lane]);
}

/* Books one line of a request where each sector counts once: per launch
 * (floor of the DRAM traffic) and per CTA (an L1 that never evicts). */
static void count_unique(struct vg_touch *t, const struct vg_how *how,
                         const struct vg_line *line)
{
    struct vg_counts *c = vg_counts_of(t);
    struct vg_alloc *a = t->alloc;

    if (how->dir & VG_TOUCH_READ)
        c->unique_load += vg_mark_sectors(a->touched, a->base, line);
    if (how->dir & VG_TOUCH_WRITE)
        c->unique_store += vg_mark_sectors(a->stored, a->base, line);
    if (how->path != VG_PATH_LOAD && how->path != VG_PATH_CP_ASYNC)
        return;
    c->l1_miss += how->bypass_l1
                      ? (unsigned)__builtin_popcount(line->sectors)
                      : vg_line_set_add(&t->cta->loaded, line);
}

/* Requests, bytes and sectors of one access.  `counted` tells the next
 * launch that this allocation's maps need clearing; workers may write it at
 * the same time, all the same value. */
static void count_global(struct vg_touch *t, const struct vg_how *how)
{
    struct vg_traffic *g = &vg_counts_of(t)->global[how->path];
    struct vg_line line[VG_MAX_LINES];
    unsigned n = t->dense
                     ? vg_lines_of_range(t->addr[0],
                                         (uint64_t)VG_LANES * t->size, line)
                     : vg_lines_of(t->addr, t->mask, t->size, line);

    g->requests++;
    g->bytes += (uint64_t)__builtin_popcount(t->mask) * t->size;
    __atomic_store_n(&t->alloc->counted, true, __ATOMIC_RELAXED);
    for (unsigned k = 0; k < n; k++) {
        g->sectors += (unsigned)__builtin_popcount(line[k].sectors);
        count_unique(t, how, &line[k]);
    }
}

/* Global and const memory: finds the allocation, checks in the order that
 * the head of the file gives, marks what is written.  The init map is shared
 * by all workers, hence the atomic marks. */
static void touch_global(struct vg_touch *t, uint32_t todo,
                         const struct vg_how *how)
{
    int first = first_lane(todo), bad;
    struct vg_alloc *a = find_alloc(t, t->addr[first]);

    if (!a || !a->live)
        fault_bounds(t, first, how);
    choose_lanes(t, todo, a->base, a->size);
    bad = lane_beyond(t, a->size);
    if (bad >= 0)
        fault_bounds(t, bad, how);
    t->alloc = a;
    t->base = a->host;
    if ((a->flags & VG_ALLOC_READONLY) && (how->dir & VG_TOUCH_WRITE))
        vg_fault(t->w, t->i, first, VG_ILLEGAL_ADDRESS,
                 "%s to read-only memory %s at 0x%" PRIx64, verb(how), a->name,
                 t->addr[first]);
    check_global_init(t, how);
    if (t->w->cta->launch->config.programmatic)
        for (uint32_t m = t->mask; m; m &= m - 1) {
            int l = first_lane(m);

            vg_grid_check(t->w, t->i, l, a, t->addr[l], t->size,
                          how->dir & VG_TOUCH_WRITE);
        }
    if (how->dir & VG_TOUCH_WRITE)
        mark(t, a->init, true);
    if (!how->uncounted)
        count_global(t, how);
}

/* ---- shared memory ------------------------------------------------------ */

/* A dense access of whole words meets every bank once per phase: no need to
 * work the banks out. */
static void count_shared(struct vg_touch *t, const struct vg_how *how,
                         const uint32_t off[VG_LANES])
{
    struct vg_banks *b = &vg_counts_of(t)->shared[how->path];
    unsigned phases = t->size > 4 ? t->size / 4 : 1, wavefronts = phases;

    if (!t->dense || t->size < 4)
        wavefronts = vg_wavefronts(off, t->mask, t->size, &phases);
    b->requests++;
    b->bytes += (uint64_t)__builtin_popcount(t->mask) * t->size;
    b->wavefronts += wavefronts;
    b->conflicts += wavefronts - phases;
}

/* Ends the launch with both sides of a race.  Threads and offsets of the
 * detector run through the cluster; the message has those of the CTA. */
_Noreturn static void fault_race(struct vg_touch *t,
                                 const struct vg_race_hit *hit)
{
    const struct vg_program *p = t->w->cta->launch->program;
    const struct vg_mem_cta *mc = t->owner->mem;
    unsigned other = hit->other % (t->w->cta->nwarps * VG_LANES);
    unsigned rank = hit->other / (t->w->cta->nwarps * VG_LANES);
    char place[512], block[40] = "";

    if (t->w->cta->cluster->ncta > 1)
        snprintf(block, sizeof block, "block %u of the cluster, ", rank);
    vg_place(p, (int)hit->other_inst, place, sizeof place);
    if (hit->same_instruction)
        vg_fault(t->w, t->i, (int)(hit->thread & 31), VG_FAILED,
                 "race in shared memory: lanes %u and %u of one instruction "
                 "write different values to byte 0x%x", hit->other & 31,
                 hit->thread & 31, hit->off - mc->off0);
    vg_fault(t->w, t->i, (int)(hit->thread & 31), VG_FAILED,
             "race in shared memory: %s of byte 0x%x is not ordered after the "
             "%s by %swarp %u lane %u (thread %u)\n  at %s",
             hit->write ? "write" : "read", hit->off - mc->off0,
             hit->other_write ? "write" : "read", block, other >> 5,
             other & 31, other, place);
}

/* Offsets of the owner's memory become the cluster's where it is not the
 * first CTA.  Also tells the asynchronous side, which checks the accesses
 * against its own proxy. */
void vg_touch_race(struct vg_touch *t, uint32_t mask, const uint32_t *off,
                   unsigned size, const struct vg_how *how)
{
    const struct vg_mem_cta *owner = t->owner->mem;
    struct vg_race_hit hit;
    uint32_t moved[VG_LANES];
    struct vg_race_op op = {
        .warp = vg_race_warp(t->w),
        .mask = mask,
        .kind = how->dir & VG_TOUCH_WRITE ? VG_RACE_WRITE : VG_RACE_READ,
        .flags = how->race,
        .inst = (uint32_t)vg_pc(t->w, t->i),
        .size = size,
        .off = off,
        .values = how->values,
    };

    if (!t->cta->race)
        return;
    for (int l = 0; owner->off0 && l < VG_LANES; l++)
        moved[l] = off[l] + owner->off0;
    if (owner->off0)
        op.off = moved;
    if (owner->async)
        vg_async_touch(t, mask, off, size, how->dir & VG_TOUCH_WRITE);
    if (!vg_race_access(t->cta->race, &op, &hit))
        fault_race(t, &hit);
    if (vg_race_failed(t->cta->race))
        vg_fault(t->w, t->i, -1, VG_OUT_OF_MEMORY,
                 "the host has no memory for the race detector");
}

void vg_race_offsets(const struct vg_mem_cta *owner, const uint64_t *off,
                     uint32_t out[VG_LANES])
{
    for (int l = 0; l < VG_LANES; l++)
        out[l] = owner->off0 + (uint32_t)off[l];
}

/* Faults when a chosen lane touches bytes that a copy is about to fill. */
static void check_flight(struct vg_touch *t, const struct vg_mem_cta *mc,
                         const struct vg_how *how)
{
    bool bulk = mc->async && mc->async->in_flight;

    if ((!mc->copies_in_flight && !bulk) || !vg_checking(t->w, VG_CHECK_ASYNC))
        return;
    for (uint32_t m = t->mask; m; m &= m - 1) {
        int l = first_lane(m);

        if (!vg_bits_any(mc->flight, t->off[l], t->size))
            continue;
        if (bulk)
            vg_async_fault_flight(t->w, t->i, l, t->owner,
                                  vg_bits_find_not(mc->flight, t->off[l],
                                                   t->size, false));
        vg_fault(t->w, t->i, l, VG_FAILED,
                     "cp.async destination %s before wait_group: shared byte "
                     "0x%" PRIx64 " is still in flight",
                     how->dir == VG_TOUCH_READ ? "read" : "written",
                     vg_bits_find_not(mc->flight, t->off[l], t->size, false));
    }
}

/* Faults when a chosen lane reads a byte of shared memory that nobody has
 * written since the CTA started; a copy marks its bytes when it arrives. */
static void check_shared_init(struct vg_touch *t, const struct vg_mem_cta *mc,
                              const struct vg_how *how)
{
    uint64_t byte;
    int lane;

    if (!(how->dir & VG_TOUCH_READ) || !vg_checking(t->w, VG_CHECK_UNINIT))
        return;
    lane = lane_unmarked(t, mc->init, &byte);
    if (lane >= 0)
        vg_fault(t->w, t->i, lane, VG_FAILED,
                 "%s of uninitialised shared memory: byte 0x%" PRIx64
                 " was never written; the access is %u bytes at 0x%" PRIx64,
                 verb(how), byte, t->size, t->off[lane]);
}

/* The CTA whose shared memory an address names. */
static struct vg_cta *owner_of(struct vg_touch *t, int lane)
{
    uint64_t rank = t->addr[lane] >> OFFSET_BITS;
    struct vg_cta *own = t->w->cta;

    if (rank == 0 || rank - 1 == own->rank)
        return own;
    if (rank - 1 < own->cluster->ncta)
        return &own->cluster->cta[rank - 1];
    vg_fault(t->w, t->i, lane, VG_ILLEGAL_ADDRESS,
             "shared address 0x%" PRIx64 " names block %" PRIu64
             " of a cluster of %u", t->addr[lane], rank - 1,
             own->cluster->ncta);
}

/* Shared memory of the own CTA or of another of the cluster: the rank in the
 * address selects it, and only lanes with the same rank are served.  A CTA
 * that has exited no longer owns its memory; on hardware the access may fault
 * or read the next CTA's, so peers must join before they leave.  Marks need
 * no atomics: a cluster runs in one host thread. */
static void touch_shared(struct vg_touch *t, uint32_t todo,
                         const struct vg_how *how)
{
    int first = first_lane(todo), bad;
    struct vg_cta *owner = owner_of(t, first);
    uint64_t window = t->addr[first] >> OFFSET_BITS << OFFSET_BITS;
    struct vg_mem_cta *mc = owner->mem;
    uint32_t off[VG_LANES];

    if (!mc)
        vg_fault(t->w, t->i, first, VG_OUT_OF_MEMORY,
                 "the host has no memory for the state of block %u of the "
                 "cluster", owner->rank);
    choose_lanes(t, todo, window, UINT64_C(1) << OFFSET_BITS);
    bad = lane_beyond(t, owner->shared_bytes);
    if (bad >= 0)
        vg_fault(t->w, t->i, bad, VG_ILLEGAL_ADDRESS,
                 "out-of-bounds %s of %u bytes at shared address 0x%" PRIx64
                 ": %" PRIu64 " bytes beyond the block's %" PRIu64
                 " bytes (static and dynamic)", verb(how), t->size,
                 t->off[bad], t->off[bad] + t->size - owner->shared_bytes,
                 owner->shared_bytes);
    if (owner->live_threads == 0)
        vg_fault(t->w, t->i, first, VG_ILLEGAL_ADDRESS,
                 "%s of the shared memory of block %u of the cluster, which "
                 "has exited", verb(how), owner->rank);
    t->owner = owner;
    t->base = owner->shared;
    for (int l = 0; l < VG_LANES; l++)
        off[l] = (uint32_t)t->off[l];
    check_flight(t, mc, how);
    check_shared_init(t, mc, how);
    if (!how->race_later)
        vg_touch_race(t, t->mask, off, t->size, how);
    if (how->dir & VG_TOUCH_WRITE)
        mark(t, mc->init, false);
    if (mc->async && mc->async->nmbar)
        vg_async_guard(t);
    if (!how->uncounted)
        count_shared(t, how, off);
}

/* ---- local, param ------------------------------------------------------- */

/* Local memory: thread t of the CTA owns local_bytes at t * local_bytes, and
 * the same address means another byte in each lane.  Lanes not served take
 * the first lane's segment, since their own may not exist. */
static void touch_local(struct vg_touch *t, uint32_t todo,
                        const struct vg_how *how)
{
    struct vg_cta *c = t->w->cta;
    uint64_t own = c->local_bytes, byte;
    int bad;

    /* Every lane's address is in the space; its segment is chosen below. */
    choose_lanes(t, todo, 0, UINT64_MAX);
    bad = lane_beyond(t, own);
    if (bad >= 0)
        vg_fault(t->w, t->i, bad, VG_ILLEGAL_ADDRESS,
                 "out-of-bounds %s of %u bytes at local address 0x%" PRIx64
                 " of %" PRIu64, verb(how), t->size, t->off[bad], own);
    for (unsigned l = 0; l < VG_LANES; l++)
        t->off[l] += own * (t->w->index * VG_LANES +
                            (t->mask >> l & 1 ? l
                                              : (unsigned)first_lane(todo)));
    t->base = c->local;
    t->dense = false;
    if ((how->dir & VG_TOUCH_READ) && vg_checking(t->w, VG_CHECK_UNINIT)) {
        bad = lane_unmarked(t, t->cta->local_init, &byte);
        if (bad >= 0)
            vg_fault(t->w, t->i, bad, VG_FAILED,
                     "read of uninitialised local memory: %u bytes at 0x%"
                     PRIx64, t->size, t->addr[bad]);
    }
    if (how->dir & VG_TOUCH_WRITE)
        mark(t, t->cta->local_init, false);
    *(how->dir & VG_TOUCH_WRITE ? &vg_counts_of(t)->local_store
                                : &vg_counts_of(t)->local_load) +=
        (uint64_t)__builtin_popcount(t->mask) * t->size;
}

/* Kernel parameters: bytes of the launch, the same for all, read only, and
 * all of them given by the host, so there is nothing to mark. */
static void touch_param(struct vg_touch *t, uint32_t todo,
                        const struct vg_how *how)
{
    const struct vg_launch *l = t->w->cta->launch;
    uint64_t size = l->program->func->param_bytes;
    int bad;

    if (how->dir & VG_TOUCH_WRITE)
        vg_fault(t->w, t->i, first_lane(todo), VG_ILLEGAL_ADDRESS,
                 "%s to kernel parameters", verb(how));
    choose_lanes(t, todo, 0, UINT64_MAX);
    bad = lane_beyond(t, size);
    if (bad >= 0)
        vg_fault(t->w, t->i, bad, VG_ILLEGAL_ADDRESS,
                 "out-of-bounds read of %u bytes at parameter offset 0x%"
                 PRIx64 " of %" PRIu64, t->size, t->off[bad], size);
    t->base = (unsigned char *)(uintptr_t)l->config.params;
}

/* ---- any space ---------------------------------------------------------- */

/* The window of a generic address; *base is what to take off. */
static enum ptx_space window_of(uint64_t addr, uint64_t *base)
{
    static const struct {
        uint64_t base;
        enum ptx_space space;
    } window[] = {
        {VG_SHARED_WINDOW, PTX_SHARED},
        {VG_LOCAL_WINDOW, PTX_LOCAL},
        {VG_PARAM_WINDOW, PTX_PARAM},
    };

    for (size_t k = 0; k < sizeof window / sizeof *window; k++)
        if (addr - window[k].base < VG_WINDOW_SIZE) {
            *base = window[k].base;
            return window[k].space;
        }
    *base = 0;
    return PTX_GLOBAL;
}

/* Narrows a generic access to the lanes in the first lane's window, and turns
 * their addresses into addresses of that space. */
static enum ptx_space resolve(struct vg_touch *t, uint32_t *todo)
{
    uint64_t base, other;
    enum ptx_space space = window_of(t->addr[first_lane(*todo)], &base);

    for (uint32_t m = *todo; m; m &= m - 1) {
        int l = first_lane(m);

        if (window_of(t->addr[l], &other) != space)
            *todo &= ~(1u << l);
        else
            t->addr[l] -= base;
    }
    return space;
}

/* A generic address is resolved first; alignment is checked on the address
 * within its space.  .const lies in global memory: an allocation that kernels
 * may not write. */
void vg_touch(struct vg_touch *t, uint32_t todo, const struct vg_how *how)
{
    struct vg_how in = *how;

    if (in.space == PTX_GENERIC)
        in.space = resolve(t, &todo);
    check_align(t, todo, &in);
    switch (in.space) {
    case PTX_SHARED:
        touch_shared(t, todo, &in);
        break;
    case PTX_LOCAL:
        touch_local(t, todo, &in);
        break;
    case PTX_PARAM:
        touch_param(t, todo, &in);
        break;
    default:
        touch_global(t, todo, &in);
    }
}
