/* SPDX-License-Identifier: Apache-2.0
 *
 * cp_async.c: cp.async (non-bulk), its groups and waits (PTX ISA
 * 9.7.9.25.3).
 *
 * The copy happens as late as the rules allow: at the wait that covers it.
 * Until then its destination holds poison and is marked as in flight, so
 * that touching it is reported as what it is.  At the wait the bytes become
 * a write of the copying thread, made at that moment: other threads need a
 * barrier after the wait, and the race detector sees to it.  A copy that is
 * never waited for never arrives.  Copies that an mbarrier tracks
 * (cp.async.mbarrier.arrive) are writes of the moment when it was told: the
 * arrival speaks for them, not for what the thread does until they land.
 *
 * Groups are counted per thread.  group[l] is the number of the group that
 * lane l is filling; commit closes it.
 *
 * A lane, in time: two cp.async, commit (group 0), one more, commit (group 1),
 * wait_group 1: the first two arrive, for one group may stay; wait_group 0:
 * the third.
 */
#include "bits.h"
#include "mem_ops.h"

#include <inttypes.h>
#include <stdlib.h>

#define POISON 0xff

/* One cp.async of the lanes in mask, all of them filling group `group`. */
struct vg_copy {
    uint32_t mask, group;
    uint32_t number;                     /* in the order of issue */
    int pc;
    unsigned bytes;                      /* at the destination */
    uint32_t dst[VG_LANES];
    const unsigned char *src[VG_LANES];
    uint32_t epoch[VG_LANES];            /* since when tracked; 0: it is not */
    uint8_t n[VG_LANES];                 /* bytes to read; the rest is 0 */
};

/* The instruction: two addresses and what to do about short sources. */
struct cp_async {
    struct vg_mem_words words;
    uint8_t bytes;
    enum { WHOLE, SIZE, IGNORE } kind;   /* src-size, ignore-src */
    int64_t imm[2];                      /* offsets of dst, src */
    bool narrow[2];
};

/* ---- the queue of a warp ------------------------------------------------ */

void vg_copies_clear(struct vg_copies *c)
{
    c->first = c->count = c->issued = 0;
    memset(c->group, 0, sizeof c->group);
}

/* Forgets copies at the head of the queue that are complete; some that are may
 * be left behind others, and have an empty mask. */
static void drop_complete(struct vg_copies *c)
{
    while (c->first < c->count && !c->copy[c->first].mask)
        c->first++;
    if (c->first == c->count)
        c->first = c->count = 0;
}

/* Moves the queue to the front of its memory. */
static void close_gaps(struct vg_copies *c)
{
    unsigned kept = 0;

    for (unsigned n = c->first; n < c->count; n++)
        if (c->copy[n].mask)
            c->copy[kept++] = c->copy[n];
    c->first = 0;
    c->count = kept;
}

/* One more copy at the end of the warp's queue; faults without memory. */
static struct vg_copy *push(struct vg_touch *t, struct vg_copies *c)
{
    if (c->count == c->room)
        close_gaps(c);
    if (c->count == c->room) {
        unsigned room = c->room ? 2 * c->room : 32;
        void *p = realloc(c->copy, room * sizeof *c->copy);

        if (!p)
            vg_fault(t->w, t->i, -1, VG_OUT_OF_MEMORY,
                     "the host has no memory for a cp.async");
        c->copy = p;
        c->room = room;
    }
    return &c->copy[c->count++];
}

/* n bytes of one lane, then zeros up to `bytes`; nearly always 16 and none. */
static inline void put(unsigned char *to, const unsigned char *from, unsigned n,
                       unsigned bytes)
{
    if (n == 16) {
        memcpy(to, from, 16);
        return;
    }
    if (n)
        memcpy(to, from, n);
    memset(to + n, 0, bytes - n);
}

/* Performs the copy for some of its lanes: the source is read now, the rest of
 * the destination filled with zeros.  To the race detector it is a write of
 * these lanes, recorded without a check: that was made at the issue. */
static void complete(struct vg_warp *w, struct vg_copy *k, uint32_t lanes)
{
    struct vg_mem_cta *mc = w->cta->mem;
    struct vg_race_op op = {
        .warp = mc->warp0 + w->index,
        .mask = lanes,
        .inst = (uint32_t)k->pc,
        .size = k->bytes,
        .epochs = k->epoch,
    };

    for (uint32_t m = lanes; m; m &= m - 1) {
        int l = __builtin_ctz(m);

        put(w->cta->shared + k->dst[l], k->src[l], k->n[l], k->bytes);
        vg_bits_set(mc->init, k->dst[l], k->bytes);
        vg_bits_clear(mc->flight, k->dst[l], k->bytes);
        mc->copies_in_flight--;
    }
    if (mc->race) {
        uint32_t off[VG_LANES];

        for (int l = 0; l < VG_LANES; l++)
            off[l] = mc->off0 + k->dst[l];
        op.off = off;
        vg_race_record(mc->race, &op);
    }
    k->mask &= ~lanes;
}

/* Completes copies of lanes in mask whose group is below limit[lane]. */
static void complete_groups(struct vg_warp *w, uint32_t mask,
                            const uint32_t limit[VG_LANES])
{
    struct vg_copies *c = w->mem;

    for (unsigned n = c->first; n < c->count; n++) {
        struct vg_copy *k = &c->copy[n];
        uint32_t ready = 0;

        for (uint32_t m = k->mask & mask; m; m &= m - 1) {
            int l = __builtin_ctz(m);

            ready |= (uint32_t)(k->group < limit[l]) << l;
        }
        if (ready)
            complete(w, k, ready);
    }
    drop_complete(c);
}

/* The lanes' copies so far are those of this epoch, unless an earlier one has
 * them already.  Returns how many copies the warp has queued, a mark for
 * vg_copies_arrive: copies are kept in the order of their issue, so those of
 * a lane before the mark are the ones with a lower number. */
uint32_t vg_copies_track(struct vg_warp *w, uint32_t lanes, uint32_t epoch)
{
    struct vg_copies *c = w->mem;

    for (unsigned n = c->first; n < c->count; n++) {
        struct vg_copy *k = &c->copy[n];

        for (uint32_t m = k->mask & lanes; m; m &= m - 1) {
            int l = __builtin_ctz(m);

            k->epoch[l] = k->epoch[l] ? k->epoch[l] : epoch;
        }
    }
    return c->issued;
}

/* Completes the lanes' copies that were issued before the mark. */
void vg_copies_arrive(struct vg_warp *w, uint32_t lanes, uint32_t until)
{
    struct vg_copies *c = w->mem;

    for (unsigned n = c->first; n < c->count; n++) {
        struct vg_copy *k = &c->copy[n];

        if (k->number < until && k->mask & lanes)
            complete(w, k, k->mask & lanes);
    }
    drop_complete(c);
}

/* The bytes of leaving lanes stay in flight for ever: nobody can know when
 * they arrive. */
void vg_copies_exit(struct vg_warp *w, uint32_t mask)
{
    struct vg_copies *c = w->mem;

    for (unsigned n = c->first; n < c->count; n++)
        c->copy[n].mask &= ~mask;
    drop_complete(c);
}

/* ---- cp.async ----------------------------------------------------------- */

/* vg_addresses for one of the two address operands. */
static void addresses(const struct vg_warp *w, const struct vg_insn *i,
                      const struct cp_async *x, int n,
                      uint64_t out[VG_LANES])
{
    const void *row = vg_row(w, i->op[n]);

    if (x->narrow[n])
        for (int l = 0; l < VG_LANES; l++)
            out[l] = (uint32_t)(((const uint32_t *)row)[l] +
                                (uint32_t)x->imm[n]);
    else
        for (int l = 0; l < VG_LANES; l++)
            out[l] = ((const uint64_t *)row)[l] + (uint64_t)x->imm[n];
}

/* Bytes that each lane reads: all of them, src-size, or none with ignore-src.
 * What is missing becomes zeros (PTX ISA 9.7.9.25.3.1). */
static void source_sizes(struct vg_warp *w, const struct vg_insn *i,
                         const struct cp_async *x, uint32_t mask,
                         uint8_t n[VG_LANES])
{
    uint32_t ignored = 0;

    if (x->kind == IGNORE)
        ignored = VG_MASK(w, i->op[2]) ^ (i->neg >> 2 & 1 ? VG_ALL : 0);
    for (int l = 0; l < VG_LANES; l++) {
        uint32_t want = x->bytes;

        if (x->kind == SIZE && mask >> l & 1)
            want = ((const uint32_t *)vg_row(w, i->op[2]))[l];
        if (want > x->bytes)
            vg_fault(w, i, l, VG_FAILED,
                     "cp.async src-size %u is larger than cp-size %u", want,
                     x->bytes);
        n[l] = ignored >> l & 1 ? 0 : (uint8_t)want;
    }
}

/* Checks the sources, and finds their host addresses: lanes that read the
 * same number of bytes together; lanes that read none touch nothing. */
static void touch_sources(struct vg_touch *t, const struct cp_async *x,
                          uint32_t mask, struct vg_copy *k)
{
    struct vg_how how = {
        .space = PTX_GLOBAL,
        .dir = VG_TOUCH_READ,
        .path = VG_PATH_CP_ASYNC,
        .bypass_l1 = x->words.bypass_l1,
    };

    while (mask) {
        uint8_t n = k->n[__builtin_ctz(mask)];
        uint32_t same = 0;

        for (int l = 0; l < VG_LANES; l++)
            same |= (uint32_t)(k->n[l] == n) << l;
        same &= mask;
        mask &= ~same;
        /* Alignment is that of cp-size even where less is read (PTX ISA
         * 9.7.9.25.3.1). */
        t->size = n;
        t->align = x->bytes;
        for (uint32_t todo = same; todo && n; todo &= ~t->mask) {
            vg_touch(t, todo, &how);
            if (!t->alloc)
                vg_fault(t->w, t->i, __builtin_ctz(todo), VG_ILLEGAL_ADDRESS,
                         "the cp.async source is not in global memory");
            for (uint32_t m = t->mask; m; m &= m - 1) {
                int l = __builtin_ctz(m);

                k->src[l] = t->base + t->off[l];
            }
        }
    }
}

/* Checks the destinations, poisons them and marks them as in flight. */
static void touch_destinations(struct vg_touch *t, const struct cp_async *x,
                               uint32_t mask, struct vg_copy *k)
{
    bool check = vg_checking(t->w, VG_CHECK_ASYNC);
    struct vg_how how = {
        .space = PTX_SHARED,
        .dir = VG_TOUCH_WRITE,
        .path = VG_PATH_CP_ASYNC,
    };

    t->size = t->align = x->bytes;
    vg_touch(t, mask, &how);
    if (t->owner != t->w->cta || t->mask != mask)
        vg_fault(t->w, t->i, -1, VG_ILLEGAL_ADDRESS,
                 "cp.async writes to another block's shared memory");
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        uint32_t off = (uint32_t)t->off[l];

        k->dst[l] = off;
        memset(t->base + off, POISON, x->bytes);
        vg_bits_set(t->cta->flight, off, x->bytes);
        if (check)
            vg_bits_clear(t->cta->init, off, x->bytes);
        t->cta->copies_in_flight++;
    }
}

/* Queues the copy, once per open group number among its lanes. */
static void enqueue(struct vg_touch *t, const struct vg_copy *k)
{
    struct vg_copies *c = t->w->mem;

    for (uint32_t left = k->mask; left;) {
        uint32_t group = c->group[__builtin_ctz(left)], same = 0;
        struct vg_copy *q = push(t, c);

        for (uint32_t m = left; m; m &= m - 1) {
            int l = __builtin_ctz(m);

            same |= (uint32_t)(c->group[l] == group) << l;
        }
        *q = *k;
        q->mask = same;
        q->group = group;
        q->number = c->issued;
        left &= ~same;
    }
    c->issued++;
}

/* op: destination, source, [src-size or ignore-src].  Both ends are checked
 * when the copy is issued, in the reading thread's name. */
static void cp_async(struct vg_warp *w, const struct vg_insn *i,
                     uint32_t mask)
{
    const struct cp_async *x = i->aux;
    struct vg_copy k; /* whole only when queued: it is long */
    struct vg_touch t;

    k.mask = mask;
    k.pc = vg_pc(w, i);
    k.bytes = x->bytes;
    memset(k.epoch, 0, sizeof k.epoch);
    source_sizes(w, i, x, mask, k.n);
    vg_touch_begin(&t, w, i, -1, x->bytes);
    addresses(w, i, x, 1, t.addr);
    touch_sources(&t, x, mask, &k);
    addresses(w, i, x, 0, t.addr);
    touch_destinations(&t, x, mask, &k);
    enqueue(&t, &k);
}

/* cp.async.commit_group, per lane: an empty group is a group. */
static void commit(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    struct vg_copies *c = w->mem;

    vg_mem_of(w, i);
    for (int l = 0; l < VG_LANES; l++)
        c->group[l] += mask >> l & 1;
}

/* arg: how many of the youngest groups may stay; op: none. */
static void wait_group(struct vg_warp *w, const struct vg_insn *i,
                       uint32_t mask)
{
    struct vg_copies *c = w->mem;
    uint32_t limit[VG_LANES];

    vg_mem_of(w, i);
    for (int l = 0; l < VG_LANES; l++)
        limit[l] = c->group[l] > i->arg ? c->group[l] - i->arg : 0;
    complete_groups(w, mask, limit);
}

/* Like commit_group and wait_group 0. */
static void wait_all(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    commit(w, i, mask);
    wait_group(w, i, mask);
}

/* ---- decoding ----------------------------------------------------------- */

/* The operand after cp-size: src-size (32 bits), ignore-src (predicate), or
 * the cache policy (64 bits), which may also follow them. */
static bool decode_rest(struct vg_dec *d, struct cp_async *x)
{
    int k = 3;
    unsigned bits;

    x->kind = WHOLE;
    if (vg_has(d, k) && !(x->words.policy && !vg_has(d, k + 1) &&
                          vg_width(d, k, -1) == 64)) {
        bits = vg_width(d, k, -1);
        x->kind = bits == 1 ? IGNORE : SIZE;
        if (!vg_in(d, k, -1, bits == 1 ? 1 : 32))
            return false;
        k++;
    }
    return vg_mem_policy(d, &x->words, k);
}

/* Appends operand k, keeping its displacement and width in x. */
static bool decode_address(struct vg_dec *d, struct cp_async *x, int k,
                           enum ptx_space *space)
{
    if (!vg_in_address(d, k, space))
        return false;
    x->imm[k] = d->out->imm;
    x->narrow[k] = d->out->narrow;
    return true;
}

/* .cg moves 16 bytes and leaves L1 out; .ca 4, 8 or 16. */
bool vg_decode_cp_async(struct vg_dec *d)
{
    struct cp_async *x = vg_keep(d, sizeof *x);
    enum ptx_space dst = PTX_SHARED, src = PTX_GLOBAL;
    bool ca = vg_mod(d, "ca"), cg = vg_mod(d, "cg");
    int64_t size;

    if (!x)
        return vg_error(d, "out of memory");
    if (vg_mod_of(d, "shared|shared::cta") < 0 || !vg_mod(d, "global"))
        return vg_error(d, "not from .global to .shared");
    vg_mem_words(d, &x->words);
    x->words.bypass_l1 = cg;
    if (!decode_address(d, x, 0, &dst) || !decode_address(d, x, 1, &src))
        return false;
    if (!vg_has(d, 2) || !vg_literal(d, 2, &size) || ca == cg ||
        !(size == 16 || (ca && (size == 4 || size == 8))))
        return vg_error(d, "cp-size must be 4, 8 or 16 for .ca, 16 for .cg");
    d->asked |= 1u << 2;
    x->bytes = (uint8_t)size;
    d->out->fn = cp_async;
    d->out->aux = x;
    return decode_rest(d, x);
}

bool vg_decode_cp_async_commit(struct vg_dec *d)
{
    d->out->fn = commit;
    return true;
}

/* How many groups may be left is a constant in PTX, never a register. */
bool vg_decode_cp_async_wait_group(struct vg_dec *d)
{
    int64_t n;

    if (!vg_has(d, 0) || !vg_literal(d, 0, &n) || n < 0 || n > INT32_MAX)
        return vg_error(d, "the number of groups must be a literal >= 0");
    d->asked |= 1;
    d->out->arg = (uint32_t)n;
    d->out->fn = wait_group;
    return true;
}

bool vg_decode_cp_async_wait_all(struct vg_dec *d)
{
    d->out->arg = 0;
    d->out->fn = wait_all;
    return true;
}
