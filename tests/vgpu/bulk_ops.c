/* SPDX-License-Identifier: Apache-2.0
 *
 * bulk_ops.c: cp.async.bulk, bulk groups (PTX ISA 9.7.9.25.4, 9.7.9.27.3),
 * and what all bulk copies have in common: targets, global memory, counters.
 *
 * Every copy is made of the same parts: addresses of the issuing lane, the
 * targets (which CTAs, which mbarriers), checks of both ends, an entry in the
 * list of bulk.c with the function that will move the bytes, and counters.
 * tma.c and st.async (bulk_decode.c) differ in the middle only.
 */
#include "bulk_ops.h"
#include "bits.h"

#include <inttypes.h>
#include <stdlib.h>

/* A 32-bit shared address is an offset below the rank of its CTA plus one
 * (exec.h). */
#define OFFSET_BITS 24
#define OFFSET ((1u << OFFSET_BITS) - 1)

/* ---- addresses ---------------------------------------------------------- */

/* vg_addresses for an operand that is not the instruction's only address:
 * a bulk copy has up to four, each with its own width and displacement. */
void vg_bulk_addresses(const struct vg_warp *w, const struct vg_insn *i,
                       struct vg_bulk_addr a, uint64_t out[VG_LANES])
{
    const void *row = vg_row(w, i->op[a.row]);

    for (int l = 0; l < VG_LANES; l++)
        out[l] = a.is_narrow
                     ? (uint32_t)(((const uint32_t *)row)[l] + (uint32_t)a.imm)
                     : ((const uint64_t *)row)[l] + (uint64_t)a.imm;
}

/* The address of one lane. */
static uint64_t address(const struct vg_warp *w, const struct vg_insn *i,
                        struct vg_bulk_addr a, int lane)
{
    uint64_t out[VG_LANES];

    vg_bulk_addresses(w, i, a, out);
    return out[lane];
}

/* A shared address of one lane, with the rank in its high byte.  The operand
 * may be generic: then the window is taken off.  Faults elsewhere. */
static uint64_t shared_address(struct vg_warp *w, const struct vg_insn *i,
                               struct vg_bulk_addr a, int lane)
{
    uint64_t v = address(w, i, a, lane);

    if (v - VG_SHARED_WINDOW < VG_WINDOW_SIZE)
        v -= VG_SHARED_WINDOW;
    if (v >= VG_WINDOW_SIZE)
        vg_fault(w, i, lane, VG_ILLEGAL_ADDRESS,
                 "address 0x%" PRIx64 " is not in shared memory", v);
    return v;
}

/* Only the destination of a bulk copy may be another CTA's; the source is
 * .shared::cta (PTX ISA 9.7.9.25.4.1). */
uint32_t vg_bulk_shared(struct vg_warp *w, const struct vg_insn *i, int lane,
                        const struct vg_bulk_op *op)
{
    uint64_t v = shared_address(w, i, op->source, lane);

    if (v >> OFFSET_BITS && (v >> OFFSET_BITS) - 1 != w->cta->rank)
        vg_fault(w, i, lane, VG_ILLEGAL_ADDRESS,
                 "a bulk copy reads another block's shared memory");
    return (uint32_t)v & OFFSET;
}

/* The mbarrier must be one that the async proxy can see: mbarrier.init is an
 * ordinary write, and without a fence the copy unit may complete on what was
 * there before it (PTX ISA 9.7.13.4). */
static void check_published(struct vg_warp *w, const struct vg_insn *i,
                            int lane, const struct vg_mbar *m)
{
    if (!m->published && vg_checking(w, VG_CHECK_PROXY))
        vg_fault(w, i, lane, VG_FAILED,
                 "mbarrier 0x%x completes an asynchronous copy, but its init "
                 "was followed by neither fence.mbarrier_init nor "
                 "fence.proxy.async", m->off);
}

/* Adds the CTA of this rank with the mbarrier at the same offset in it.  The
 * CTA must still run: a copy into one that has left hits whoever is next. */
static void add_target(struct vg_warp *w, const struct vg_insn *i, int lane,
                       struct vg_bulk_target *t, unsigned rank, uint64_t mbar)
{
    struct vg_cta *c;
    struct vg_mbar *m;
    uint64_t at = (mbar & OFFSET) | (uint64_t)(rank + 1) << OFFSET_BITS;

    if (rank >= w->cta->cluster->ncta)
        vg_fault(w, i, lane, VG_ILLEGAL_ADDRESS,
                 "a copy to block %u of a cluster of %u", rank,
                 w->cta->cluster->ncta);
    m = vg_mbar_at(w, i, lane, at, &c);
    if (c->live_threads == 0)
        vg_fault(w, i, lane, VG_ILLEGAL_ADDRESS,
                 "a copy to block %u of the cluster, which has exited", rank);
    check_published(w, i, lane, m);
    t->cta[t->n] = c;
    t->mbar[t->n++] = m;
}

/* Where the copy of one lane goes.  A multicast goes to the CTAs of its mask
 * and to the same offsets in all of them, data and mbarrier; a plain copy to
 * one CTA, and that must own the mbarrier too (PTX ISA 9.7.9.25.4.1). */
void vg_bulk_targets(struct vg_warp *w, const struct vg_insn *i, int lane,
                     const struct vg_bulk_op *op, struct vg_bulk_target *t)
{
    uint64_t dst = shared_address(w, i, op->shared, lane);
    uint64_t mbar = shared_address(w, i, op->mbar, lane);
    unsigned rank = dst >> OFFSET_BITS ? (unsigned)(dst >> OFFSET_BITS) - 1
                                       : w->cta->rank;
    unsigned other = mbar >> OFFSET_BITS ? (unsigned)(mbar >> OFFSET_BITS) - 1
                                         : w->cta->rank;

    *t = (struct vg_bulk_target){.off = (uint32_t)dst & OFFSET};
    if (op->is_multicast) {
        uint32_t m = ((const uint16_t *)vg_row(w, i->op[op->cta_mask]))[lane];

        if (!m)
            vg_fault(w, i, lane, VG_FAILED, "the multicast mask is empty");
        for (; m; m &= m - 1)
            add_target(w, i, lane, t, (unsigned)__builtin_ctz(m), mbar);
        return;
    }
    if (rank != other)
        vg_fault(w, i, lane, VG_FAILED,
                 "destination in block %u, mbarrier in block %u of the "
                 "cluster", rank, other);
    add_target(w, i, lane, t, rank, mbar);
}

/* ---- global memory ------------------------------------------------------ */

/* The live allocation that holds the range; faults otherwise, and for a write
 * to memory that kernels may not write. */
static struct vg_alloc *find_bytes(const struct vg_async_access *a,
                                   uint64_t addr, uint64_t bytes, bool write)
{
    struct vg_mem *memory = a->w->cta->launch->config.memory;
    struct vg_alloc *at = memory ? vg_mem_find(memory, addr) : NULL;
    char where[256] = "there is no device memory";

    if (!at || !at->live || !vg_alloc_holds(at, addr, bytes)) {
        if (memory)
            vg_mem_describe(memory, addr, bytes, where, sizeof where);
        vg_fault(a->w, a->i, a->lane, VG_ILLEGAL_ADDRESS,
                 "out-of-bounds %s of %" PRIu64 " bytes at global address 0x%"
                 PRIx64 " by %s: %s", write ? "write" : "read", bytes, addr,
                 a->what, where);
    }
    if (write && at->flags & VG_ALLOC_READONLY)
        vg_fault(a->w, a->i, a->lane, VG_ILLEGAL_ADDRESS,
                 "%s to read-only memory %s", a->what, at->name);
    return at;
}

/* The copy unit asks L2, so every sector of a load also misses L1.  1024
 * bytes at a time, which is what vg_lines_of_range takes. */
void vg_bulk_global(const struct vg_async_access *a, uint64_t addr,
                    uint64_t bytes, bool write)
{
    struct vg_alloc *at = find_bytes(a, addr, bytes, write);
    struct vg_counts *c = &vg_mem_of(a->w, a->i)->worker->counts;
    struct vg_line line[VG_MAX_LINES];

    vg_grid_check(a->w, a->i, a->lane, at, addr, bytes, write);
    __atomic_store_n(&at->counted, true, __ATOMIC_RELAXED);
    while (bytes) {
        /* Up to a whole KiB, so that no sector is in two pieces. */
        uint64_t room = 1024 - addr % 1024;
        uint64_t n = bytes < room ? bytes : room;
        unsigned lines = vg_lines_of_range(addr, n, line);

        for (unsigned k = 0; k < lines; k++) {
            unsigned s = (unsigned)__builtin_popcount(line[k].sectors);

            *(write ? &c->async.store_sectors : &c->async.load_sectors) += s;
            if (write) {
                c->unique_store += vg_mark_sectors(at->stored, at->base,
                                                   &line[k]);
                continue;
            }
            c->unique_load += vg_mark_sectors(at->touched, at->base, &line[k]);
            c->l1_miss += s;
        }
        addr += n;
        bytes -= n;
    }
}

/* ---- copies under way --------------------------------------------------- */

/* The agent's current epoch in the race detector: what later waits must have
 * seen for the copy to count as finished; 0 with the check off. */
static uint32_t epoch_of(const struct vg_async_access *a)
{
    const struct vg_mem_cta *mc = a->c->mem;

    return mc->race ? vg_race_agent_epoch(mc->race,
                                          mc->async->agent0 + a->agent) : 0;
}

/* A copy into shared memory: in flight from here until its mbarrier has its
 * bytes.  The mbarrier is remembered by index, for the array may move. */
struct vg_bulk *vg_bulk_load(const struct vg_async_access *a,
                             const struct vg_mbar *m, uint32_t bytes)
{
    struct vg_bulk *b = vg_bulk_new(a->w, a->i, VG_BULK_LOAD);
    struct vg_async *async = vg_async_of(a->c);

    b->lane = (unsigned)a->lane;
    b->dst = a->c;
    b->dst_bytes = b->bytes = bytes;
    b->mbar = vg_mbar_index(a->c, m);
    b->agent = async->agent0 + a->agent;
    b->epoch = epoch_of(a);
    async->in_flight++;
    return b;
}

/* A copy out of shared memory: belongs to the issuing lane's open group. */
struct vg_bulk *vg_bulk_store(const struct vg_async_access *a)
{
    struct vg_bulk *b = vg_bulk_new(a->w, a->i, VG_BULK_STORE);

    b->lane = (unsigned)a->lane;
    b->dst = a->c;
    b->agent = a->agent;
    b->epoch = epoch_of(a);
    b->group = vg_async_warp_of(a->w)->bulk_open[a->lane];
    return b;
}

/* The next operation of the agent is a later one: a wait that saw this epoch
 * says nothing about it. */
void vg_bulk_issued(const struct vg_async_access *a)
{
    const struct vg_mem_cta *mc = a->c->mem;

    if (mc->race)
        vg_race_agent_step(mc->race, mc->async->agent0 + a->agent);
}

/* The report names the instruction that issued the copy. */
void vg_bulk_hold(struct vg_bulk *b, size_t bytes)
{
    b->held = malloc(bytes);
    b->nheld = bytes;
    if (!b->held)
        vg_fault(b->w, &b->w->cta->launch->program->insn[b->pc], -1,
                 VG_OUT_OF_MEMORY, "the host has no memory for a bulk copy");
}

/* L2 is asked once (vg_bulk_global), but each receiving block's memory port
 * takes all the bytes. */
void vg_bulk_count_load(struct vg_warp *w, const struct vg_insn *i,
                        const struct vg_bulk_target *t, uint32_t bytes)
{
    struct vg_async_counts *c = &vg_mem_of(w, i)->worker->counts.async;

    c->loads++;
    c->multicasts += t->n > 1;
    c->load_bytes += (uint64_t)bytes * t->n;
    c->port_tma_write += (uint64_t)bytes * t->n;
}

void vg_bulk_count_store(struct vg_warp *w, const struct vg_insn *i,
                         uint32_t bytes)
{
    struct vg_async_counts *c = &vg_mem_of(w, i)->worker->counts.async;

    c->stores++;
    c->store_bytes += bytes;
    c->port_tma_read += bytes;
}

/* ---- one-dimensional copies --------------------------------------------- */

/* data: source (an offset in shared memory, or a global address), target,
 * and whether the source is the former. */
enum { SOURCE, TARGET, FROM_SHARED };

/* Host address of device memory that was checked at issue. */
static unsigned char *global_at(const struct vg_bulk *b, uint64_t addr,
                                struct vg_alloc **a)
{
    *a = vg_mem_find(b->w->cta->launch->config.memory, addr);
    return (*a)->host + (addr - (*a)->base);
}

/* The move of a load: reads the source now, so that a kernel which changes it
 * while the copy is under way gets the changed bytes. */
static void load_arrives(struct vg_bulk *b)
{
    struct vg_alloc *a;
    const unsigned char *from =
        b->data[FROM_SHARED] ? b->w->cta->shared + b->data[SOURCE]
                             : global_at(b, b->data[SOURCE], &a);

    memcpy(b->dst->shared + b->dst_off, from, b->bytes);
    vg_async_arrived(b->dst, b->dst_off, b->bytes);
}

/* Element by element, each update atomic by itself. */
static void reduce(const struct vg_update *u, unsigned char *to,
                   const unsigned char *from, uint32_t bytes)
{
    for (uint32_t k = 0; k < bytes; k += u->bytes) {
        uint64_t v = 0;

        memcpy(&v, from + k, u->bytes);
        vg_update(u, to + k, v);
    }
}

/* The move of a store, called twice: first it reads the source (from then on
 * wait_group.read may pass and shared memory may be reused), then it writes.
 * Late reading shows up a kernel that overwrites its tile too early. */
static void store_moves(struct vg_bulk *b)
{
    const struct vg_bulk_op *op = b->w->cta->launch->program->insn[b->pc].aux;
    struct vg_alloc *a;

    if (!b->held) {
        vg_bulk_hold(b, b->bytes);
        memcpy(b->held, b->w->cta->shared + b->data[SOURCE], b->bytes);
        return;
    }
    if (op->is_reduction)
        reduce(&op->update, global_at(b, b->data[TARGET], &a), b->held,
               b->bytes);
    else
        memcpy(global_at(b, b->data[TARGET], &a), b->held, b->bytes);
    vg_bits_set_shared(a->init, b->data[TARGET] - a->base, b->bytes);
}

/* 16-byte granules on both sides are a rule of cp.async.bulk (PTX ISA
 * 9.7.9.25.4.1), and shared memory has to hold the whole range. */
static void check_range(struct vg_warp *w, const struct vg_insn *i, int lane,
                        const struct vg_cta *c, uint32_t off, uint32_t bytes)
{
    if (off % 16 || bytes % 16)
        vg_fault(w, i, lane, VG_MISALIGNED,
                 "bulk copy of %u bytes at shared address 0x%x: both must be "
                 "multiples of 16", bytes, off);
    if ((uint64_t)off + bytes > c->shared_bytes)
        vg_fault(w, i, lane, VG_ILLEGAL_ADDRESS,
                 "bulk copy of %u bytes at shared address 0x%x ends beyond "
                 "the block's %" PRIu64 " bytes", bytes, off,
                 c->shared_bytes);
}

/* The address of a bulk copy's other side. */
static void check_global(struct vg_warp *w, const struct vg_insn *i, int lane,
                         uint64_t addr)
{
    if (addr % 16)
        vg_fault(w, i, lane, VG_MISALIGNED,
                 "bulk copy at global address 0x%" PRIx64 ", which is no "
                 "multiple of 16", addr);
}

/* One lane's copy into shared memory, from global memory or from the own
 * CTA's to another's.  The source is checked and recorded when the copy is
 * issued, the destinations poisoned; each target is a copy of its own that
 * completes on its own mbarrier.  Writes are recorded under the mbarrier's
 * agent, reads of shared memory under the warp's: who waits for the one has
 * not waited for the other. */
static void copy_in(struct vg_warp *w, const struct vg_insn *i, int lane,
                    const struct vg_bulk_op *op, uint32_t bytes)
{
    struct vg_async_access src = {
        .w = w, .i = i, .c = w->cta, .lane = lane,
        .agent = vg_bulk_agent(w), .what = "a bulk copy"};
    struct vg_bulk_target t;
    uint64_t from;

    vg_bulk_targets(w, i, lane, op, &t);
    from = op->from_shared ? vg_bulk_shared(w, i, lane, op)
                           : address(w, i, op->global, lane);
    if (op->from_shared) {
        check_range(w, i, lane, w->cta, (uint32_t)from, bytes);
        vg_async_read_range(&src, (uint32_t)from, bytes);
    } else {
        check_global(w, i, lane, from);
        vg_bulk_global(&src, from, bytes, false);
    }
    for (unsigned k = 0; k < t.n; k++) {
        struct vg_async_access a = src;
        struct vg_bulk *b;

        a.c = t.cta[k];
        a.agent = t.mbar[k]->agent;
        check_range(w, i, lane, a.c, t.off, bytes);
        b = vg_bulk_load(&a, t.mbar[k], bytes);
        b->dst_off = t.off;
        b->move = load_arrives;
        b->data[SOURCE] = from;
        b->data[FROM_SHARED] = op->from_shared;
        if (op->from_shared) {
            b->src_agent = vg_async_of(w->cta)->agent0 + src.agent;
            b->src_epoch = epoch_of(&src);
        }
        vg_async_write(&a, t.off, bytes);
        vg_bulk_issued(&a);
    }
    if (op->from_shared)
        vg_bulk_issued(&src);
    vg_bulk_count_load(w, i, &t, bytes);
}

/* A reduction reads what is there, so it must have been written. */
static void check_old_values(const struct vg_async_access *a, uint64_t addr,
                             uint32_t bytes)
{
    const struct vg_alloc *at =
        vg_mem_find(a->w->cta->launch->config.memory, addr);

    if (vg_checking(a->w, VG_CHECK_UNINIT) &&
        !vg_bits_all(at->init, addr - at->base, bytes))
        vg_fault(a->w, a->i, a->lane, VG_FAILED,
                 "bulk reduction into uninitialised global memory: %u bytes "
                 "at 0x%" PRIx64 " of %s", bytes, addr, at->name);
}

/* One lane's copy or reduction out of shared memory.  A reduction counts as
 * a read and a write of its sectors, as an atomic does. */
static void copy_out(struct vg_warp *w, const struct vg_insn *i, int lane,
                     const struct vg_bulk_op *op, uint32_t bytes)
{
    struct vg_async_access a = {
        .w = w, .i = i, .c = w->cta, .lane = lane,
        .agent = vg_bulk_agent(w), .what = "a bulk copy"};
    uint32_t from = vg_bulk_shared(w, i, lane, op);
    uint64_t to = address(w, i, op->global, lane);
    struct vg_bulk *b;

    check_range(w, i, lane, w->cta, from, bytes);
    check_global(w, i, lane, to);
    vg_bulk_global(&a, to, bytes, true);
    if (op->is_reduction) {
        check_old_values(&a, to, bytes);
        vg_bulk_global(&a, to, bytes, false);
    }
    vg_async_read_range(&a, from, bytes);
    b = vg_bulk_store(&a);
    b->move = store_moves;
    b->bytes = bytes;
    b->data[SOURCE] = from;
    b->data[TARGET] = to;
    vg_bulk_issued(&a);
    vg_bulk_count_store(w, i, bytes);
}

/* op->size is a register or a literal; every active lane issues its own copy,
 * so a kernel that forgot elect.sync copies 32 times. */
void vg_bulk_copy(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    const struct vg_bulk_op *op = i->aux;
    const uint32_t *size = vg_row(w, i->op[op->size]);

    vg_mem_of(w, i);
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);

        if (op->is_store)
            copy_out(w, i, l, op, size[l]);
        else
            copy_in(w, i, l, op, size[l]);
    }
    vg_progress(w);
}

/* ---- groups ------------------------------------------------------------- */

/* cp.async.bulk.commit_group: per lane, for groups belong to threads. */
static void commit(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    struct vg_async_warp *aw;

    vg_mem_of(w, i);
    aw = vg_async_warp_of(w);
    for (int l = 0; l < VG_LANES; l++)
        aw->bulk_open[l] += mask >> l & 1;
}

/* arg: how many of the youngest groups may stay | 1 << 31 for .read. */
static void wait_group(struct vg_warp *w, const struct vg_insn *i,
                       uint32_t mask)
{
    vg_mem_of(w, i);
    vg_bulk_wait(w, mask, i->arg & INT32_MAX, i->arg >> 31);
}

/* cp.async.bulk.commit_group has no operands. */
bool vg_decode_bulk_commit(struct vg_dec *d)
{
    d->lower->program->is_async = true;
    d->out->fn = commit;
    return true;
}

/* cp.async.bulk.wait_group{.read} N, N a literal. */
bool vg_decode_bulk_wait(struct vg_dec *d)
{
    bool read = vg_mod(d, "read");
    int64_t n;

    if (!vg_has(d, 0) || !vg_literal(d, 0, &n) || n < 0 || n > INT32_MAX)
        return vg_error(d, "the number of groups must be a literal >= 0");
    d->lower->program->is_async = true;
    d->out->arg = (uint32_t)n | (uint32_t)read << 31;
    d->out->fn = wait_group;
    return true;
}
