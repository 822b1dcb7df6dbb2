/* SPDX-License-Identifier: Apache-2.0
 *
 * barrier.c: named barriers of a CTA and the barrier of a cluster.
 *
 * bar{rier}.sync, .arrive and .red (PTX ISA 9.0, 9.7.13.1): 16 barriers per
 * CTA, each counts threads.  Without a thread count a barrier waits for all
 * threads of the CTA that have not exited.  The .aligned forms (bar.* always)
 * count a whole warp and need it converged; barrier.* without .aligned counts
 * the threads that execute it.  barrier.cluster (9.7.13.4) counts all live
 * threads of the cluster's CTAs.
 *
 * Producer and consumer: one warp says bar.arrive 1, 64 and goes on, another
 * bar.sync 1, 64 and waits until 64 threads have come, its own included.
 */
#include "warp.h"

/* POPC and above are .red. */
enum mode { SYNC, ARRIVE, POPC, AND, OR };

/* arg of an instruction: mode | ALIGNED_BIT | COUNT_BIT (op[1] is a count) */
#define MODE_BITS 7u
#define ALIGNED_BIT 8u
#define COUNT_BIT 16u

/* Without a count the threads that have exited are not expected (CUDA C
 * Programming Guide, synchronisation functions). */
static bool complete(const struct vg_cta *c, const struct vg_barrier *b)
{
    if (b->expected)
        return b->arrived >= b->expected;
    return b->arrived && b->arrived >= c->live_threads;
}

/* .red: the result goes to the lanes that waited, as ISA 9.7.13.1 says. */
static void reduction(struct vg_warp *w, const struct vg_group *g,
                      const struct vg_barrier *b, const struct vg_insn *i)
{
    void *d = vg_row(w, i->op[0]);
    uint32_t r[VG_LANES];
    switch (i->arg & MODE_BITS) {
    case POPC:
        for (int l = 0; l < VG_LANES; l++)
            r[l] = b->red_popc;
        vg_put32(d, r, g->mask);
        break;
    case AND:
        vg_put_pred(d, b->red_and ? 0 : VG_ALL, g->mask);
        break;
    case OR:
        vg_put_pred(d, b->red_or ? VG_ALL : 0, g->mask);
        break;
    default:
        break;
    }
}

/* Lets the waiting groups of one warp go; groups may merge while at it. */
static void release_warp(struct vg_warp *w, unsigned id, struct vg_barrier *b)
{
    const struct vg_insn *insn = w->cta->launch->program->insn;
    for (int n = 0; n < w->ngroups;) {
        struct vg_group *g = &w->group[n];
        if (g->state != VG_WAIT_BARRIER || g->barrier != id ||
            g->generation != b->generation) {
            n++;
            continue;
        }
        reduction(w, g, b, &insn[g->pc]);
        vg_mem_leave(w, g->mask, b);
        g->state = VG_READY;
        vg_move(w, n, g->mask, g->pc + 1);
        n = 0;
    }
}

/* Lets everybody go and makes the barrier ready for its next use. */
static void release(struct vg_cta *c, unsigned id)
{
    struct vg_barrier *b = &c->barrier[id];
    for (unsigned n = 0; n < c->nwarps; n++)
        release_warp(&c->warp[n], id, b);
    b->generation++;
    b->arrived = b->expected = 0;
    b->red_popc = b->red_and = b->red_or = 0;
    c->set->idle = 0;
}

/* All live threads of all CTAs of the cluster have arrived? */
static bool cluster_complete(struct vg_cluster *k)
{
    unsigned live = 0;
    for (unsigned n = 0; n < k->ncta; n++)
        live += k->cta[n].live_threads;
    return k->barrier.arrived && k->barrier.arrived >= live;
}

/* Waiting groups poll the generation, so nobody needs to be woken. */
static void cluster_release(struct vg_cta *c)
{
    struct vg_cluster *k = c->cluster;
    if (!cluster_complete(k))
        return;
    k->barrier.generation++;
    k->barrier.arrived = 0;
    c->set->idle = 0;
}

/* Threads that exit may have been the last ones missing. */
void vg_barriers_recheck(struct vg_cta *c)
{
    for (unsigned id = 0; id < VG_BARRIERS; id++)
        if (c->barrier[id].arrived && complete(c, &c->barrier[id]))
            release(c, id);
    cluster_release(c);
}

/* The value that all lanes of the group must agree on. */
static uint32_t uniform(struct vg_warp *w, const struct vg_insn *i, int n,
                        uint32_t mask, const char *what)
{
    const uint32_t *v = vg_row(w, i->op[n]);
    int first = __builtin_ctz(mask);
    for (int l = first; l < VG_LANES; l++)
        if ((mask >> l & 1) && v[l] != v[first])
            vg_fault(w, i, l, VG_FAILED,
                     "%s differs between lanes: %u here, %u in lane %d", what,
                     v[l], v[first], first);
    return v[first];
}

/* Counts the group in; participants must agree on the number expected. */
static void arrive(struct vg_warp *w, const struct vg_insn *i, uint32_t mask,
                   struct vg_barrier *b, unsigned id, unsigned expected)
{
    bool aligned = i->arg & ALIGNED_BIT;
    unsigned lanes = (unsigned)__builtin_popcount(mask);
    if (b->arrived && b->expected != expected)
        vg_fault(w, i, -1, VG_FAILED,
                 "barrier %u: expects %u threads here but %u where others "
                 "arrived (0: the whole CTA)", id, expected, b->expected);
    b->expected = expected;
    b->arrived += aligned && expected ? VG_LANES : lanes;
    if (expected && b->arrived > expected)
        vg_fault(w, i, -1, VG_FAILED,
                 "barrier %u: %u threads arrived, %u are expected", id,
                 b->arrived, expected);
}

/* op: [d] id [count] [p]; d and p only for .red.  See decode_bar. */
static void bar(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    unsigned mode = i->arg & MODE_BITS, at = mode >= POPC, expected = 0;
    if ((i->arg & ALIGNED_BIT) && !vg_converged(w, w->live))
        return;
    uint32_t id = uniform(w, i, (int)at, mask, "barrier id");
    if (id >= VG_BARRIERS)
        vg_fault(w, i, -1, VG_FAILED, "barrier %u: there are 16", id);
    if (i->arg & COUNT_BIT) {
        expected = uniform(w, i, (int)at + 1, mask, "thread count");
        if (expected == 0 || expected % VG_LANES)
            vg_fault(w, i, -1, VG_FAILED,
                     "barrier %u: thread count %u is no multiple of 32", id,
                     expected);
    }
    struct vg_barrier *b = &w->cta->barrier[id];
    arrive(w, i, mask, b, id, expected);
    vg_mem_arrive(w, mask, b);
    if (mode >= POPC) {
        int p = i->nop - 1;
        uint32_t v = VG_MASK(w, i->op[p]) ^ (i->neg >> p & 1 ? VG_ALL : 0);
        b->red_popc += (uint32_t)__builtin_popcount(v & mask);
        b->red_and |= ~v & mask;
        b->red_or |= v & mask;
    }
    /* The state is set before completeness is asked: this group may be the
     * last to arrive, and is then released with the others. */
    struct vg_group *g = vg_current(w);
    w->next = VG_MOVED;
    if (mode == ARRIVE) {
        vg_move(w, w->cur, mask, g->pc + 1);
    } else {
        g->state = VG_WAIT_BARRIER;
        g->barrier = (uint8_t)id;
        g->generation = b->generation;
    }
    if (complete(w->cta, b))
        release(w->cta, id);
}

/* The generation at the arrival is remembered: the wait is over when it has
 * passed, even when the next one has begun. */
static void cluster_arrive(struct vg_warp *w, const struct vg_insn *i,
                           uint32_t mask)
{
    struct vg_barrier *b = &w->cta->cluster->barrier;
    if ((i->arg & ALIGNED_BIT) && !vg_converged(w, w->live))
        return;
    if (w->at_cluster & mask)
        vg_fault(w, i, __builtin_ctz(w->at_cluster & mask), VG_FAILED,
                 "barrier.cluster.arrive twice without a wait");
    w->at_cluster |= mask;
    w->cluster_generation = b->generation;
    b->arrived += (unsigned)__builtin_popcount(mask);
    if (!(i->arg & COUNT_BIT))      /* .relaxed orders no memory */
        vg_mem_arrive(w, mask, b);
    cluster_release(w->cta);
}

/* Asks again each time the warp is scheduled, see vg_retry. */
static void cluster_wait(struct vg_warp *w, const struct vg_insn *i,
                         uint32_t mask)
{
    struct vg_barrier *b = &w->cta->cluster->barrier;
    if ((i->arg & ALIGNED_BIT) && !vg_converged(w, w->live))
        return;
    if (mask & ~w->at_cluster)
        vg_fault(w, i, __builtin_ctz(mask & ~w->at_cluster), VG_FAILED,
                 "barrier.cluster.wait without an arrive");
    if (w->cluster_generation == b->generation) {
        vg_retry(w, "cluster barrier, %u threads arrived", b->arrived);
        return;
    }
    w->at_cluster &= ~mask;
    vg_mem_leave(w, mask, b);
}

/* ---- decoding ------------------------------------------------------------ */

/* bar{.cta}.sync a{,b}  barrier{.cta}.arrive{.aligned} a,b
 * bar.red.popc.u32 d,a{,b},{!}p  bar.red.and.pred p,a{,b},{!}c */
static bool decode_bar(struct vg_dec *d)
{
    int mode = vg_mod_of(d, "sync|arrive|red"), k = 0;
    bool bar_form = strcmp(d->in->word[0], "bar") == 0;
    vg_mod(d, "cta");
    if (vg_mod(d, "aligned") || bar_form)
        d->out->arg |= ALIGNED_BIT;
    if (mode < 0)
        return vg_error(d, "neither sync, arrive nor red");
    if (mode == 2) {
        int op = vg_mod_of(d, "popc|and|or");
        enum vg_type t = vg_type(d);
        if (op < 0 || t != (op ? VG_PRED : VG_U32))
            return vg_error(d, "needs popc.u32, and.pred or or.pred");
        mode = POPC + op;
        if (!vg_out(d, k++, -1, op ? 1 : 32))
            return false;
    }
    int counts = d->in->nops - k - (mode >= POPC);
    if (counts < 1 || counts > 2 || (mode == ARRIVE && counts != 2))
        return vg_error(d, "%d operands", d->in->nops);
    d->out->arg |= (uint32_t)mode | (counts == 2 ? COUNT_BIT : 0);
    d->out->kind = VG_CONTROL;
    d->out->fn = bar;
    for (; counts; counts--)
        if (!vg_in(d, k++, -1, 32))
            return false;
    return mode < POPC || vg_in(d, k, -1, 1);
}

/* barrier.cluster.arrive{.release,.relaxed}{.aligned} and
 * barrier.cluster.wait{.acquire}{.aligned} */
static bool decode_cluster(struct vg_dec *d)
{
    int what = vg_mod_of(d, "arrive|wait");
    int order = vg_mod_of(d, "release|acquire|relaxed");
    if (what < 0)
        return vg_error(d, "neither arrive nor wait");
    d->out->kind = VG_CONTROL;
    d->out->fn = what ? cluster_wait : cluster_arrive;
    d->out->arg = (vg_mod(d, "aligned") ? ALIGNED_BIT : 0) |
                  (order == 2 ? COUNT_BIT : 0);
    return true;
}

/* "bar" is "barrier" with .aligned implied. */
const struct vg_opcode vg_ops_barrier[] = {
    {"bar", decode_bar, VG_C_SYNC, 0},
    {"barrier", decode_bar, VG_C_SYNC, 0},
    {"barrier.cluster", decode_cluster, VG_C_SYNC, 0},
    {NULL, NULL, 0, 0},
};
