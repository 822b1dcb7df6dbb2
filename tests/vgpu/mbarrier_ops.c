/* SPDX-License-Identifier: Apache-2.0
 *
 * mbarrier_ops.c: the mbarrier instructions (PTX ISA 9.7.13.15).
 *
 * test_wait and try_wait ask at the current moment.  try_wait may suspend the
 * thread, so when no lane's phase is over the lanes wait and ask again;
 * test_wait answers at once and gives the others a turn.
 *
 * A state (the result of arrive) is phase << 32 | pending arrivals.  It says
 * which phase an arrival belonged to, so that test_wait can ask for that one;
 * kernels mostly keep a parity in a register instead.
 */
#include "bulk_ops.h"

#include <stdlib.h>

/* arg of an instruction; index into operation[]. */
enum op { INIT, INVAL, EXPECT_TX, COMPLETE_TX, ARRIVE, DROP, TEST, TRY,
          PENDING };

/* One instruction, decoded; its aux. */
struct mbar_op {
    enum op op;
    enum ptx_space space;
    bool relaxed;        /* no memory ordering */
    bool with_tx;        /* arrive.expect_tx */
    bool no_complete;
    bool has_count, has_state;
    bool parity;
    uint8_t at;          /* index of the address row */
};

/* ---- helpers ------------------------------------------------------------ */

/* Shared addresses of all lanes, generic ones turned. */
static void addresses(struct vg_warp *w, const struct vg_insn *i,
                      const struct mbar_op *x, uint32_t mask,
                      uint64_t out[VG_LANES])
{
    vg_mem_of(w, i);
    vg_addresses(w, i, x->at, out);
    if (x->space != PTX_GENERIC)
        return;
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);

        if (out[l] - VG_SHARED_WINDOW >= VG_WINDOW_SIZE)
            vg_fault(w, i, l, VG_ILLEGAL_ADDRESS,
                     "mbarrier at generic address 0x%llx, which is not in "
                     "shared memory", (unsigned long long)out[l]);
        out[l] -= VG_SHARED_WINDOW;
    }
}

/* 32-bit operand op[n] of one lane. */
static uint32_t word(const struct vg_warp *w, const struct vg_insn *i, int n,
                     int lane)
{
    return ((const uint32_t *)vg_row(w, i->op[n]))[lane];
}

/* ---- init, inval, tx ---------------------------------------------------- */

/* Makes the memory ordinary again.  For the race detector it is a write:
 * every use of the object must be ordered before it. */
static void inval(struct vg_warp *w, const struct vg_insn *i, int lane,
                  struct vg_cta *c, struct vg_mbar *m)
{
    struct vg_touch t = {.w = w, .i = i, .cta = w->cta->mem, .owner = c};
    struct vg_how how = {.space = PTX_SHARED, .dir = VG_TOUCH_WRITE};
    uint32_t at[VG_LANES];
    char state[64];

    vg_mbar_describe(m, state, sizeof state);
    if (m->tx)
        vg_fault(w, i, lane, VG_FAILED,
                 "tx-count mismatch: %s at mbarrier.inval", state);
    m->live = false;
    at[lane] = m->off;
    vg_touch_race(&t, 1u << lane, at, 8, &how);
}

/* init, inval, expect_tx, complete_tx.  op: address, count or tx-count.  Lanes
 * go one after the other; a warp that initialises in all lanes faults at the
 * second. */
static void simple(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    const struct mbar_op *x = i->aux;
    uint64_t at[VG_LANES];

    addresses(w, i, x, mask, at);
    for (uint32_t todo = mask; todo; todo &= todo - 1) {
        int l = __builtin_ctz(todo);
        struct vg_cta *c;
        struct vg_mbar *m;

        if (x->op == INIT) {
            vg_mbar_init(w, i, l, (uint32_t)at[l], word(w, i, 1, l));
            continue;
        }
        m = vg_mbar_at(w, i, l, at[l], &c);
        if (x->op == INVAL)
            inval(w, i, l, c, m);
        else
            vg_mbar_tx(w, i, l, c, m,
                       x->op == EXPECT_TX ? (int64_t)word(w, i, 1, l)
                                          : -(int64_t)word(w, i, 1, l));
    }
    vg_progress(w);
}

/* ---- arrive ------------------------------------------------------------- */

/* One lane's arrival; returns the state before it.  expect_tx comes before
 * the arrival, or the phase could end without the announced bytes (PTX ISA
 * 9.7.13.15.13).  arrive_drop also lowers the count of later phases. */
static uint64_t arrive_lane(struct vg_warp *w, const struct vg_insn *i,
                            const struct mbar_op *x, int lane, uint64_t at)
{
    uint32_t operand = x->has_count ? word(w, i, x->at + 1, lane) : 1;
    uint32_t count = x->with_tx ? 1 : operand;
    struct vg_cta *c;
    struct vg_mbar *m = vg_mbar_at(w, i, lane, at, &c);
    uint64_t state = (uint64_t)m->phase << 32 | m->pending;

    if (x->no_complete && count >= m->pending)
        vg_fault(w, i, lane, VG_FAILED,
                 "mbarrier 0x%x: arrive.noComplete completes the phase",
                 m->off);
    if (x->with_tx)
        vg_mbar_tx(w, i, lane, c, m, operand);
    if (x->op == DROP) {
        if (count > m->expected)
            vg_fault(w, i, lane, VG_FAILED,
                     "mbarrier 0x%x: %u drop out of %u", m->off, count,
                     m->expected);
        m->expected -= count;
    }
    vg_mbar_arrive(w, i, lane, c, m, count, !x->relaxed);
    return state;
}

/* op: [state], address, [count or tx-count]. */
static void arrive(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    const struct mbar_op *x = i->aux;
    uint64_t at[VG_LANES], state[VG_LANES];

    addresses(w, i, x, mask, at);
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);

        state[l] = arrive_lane(w, i, x, l, at[l]);
    }
    if (x->has_state)
        vg_put64(vg_row(w, i->op[0]), state, mask);
    vg_progress(w);
}

/* ---- waits -------------------------------------------------------------- */

/* The parity that a state names; a state older than the last phase is over
 * for certain, and asking for it is an error. */
static uint32_t parity_of(struct vg_warp *w, const struct vg_insn *i,
                          const struct mbar_op *x, int lane,
                          const struct vg_mbar *m)
{
    uint64_t state;

    if (x->parity)
        return word(w, i, 2, lane) & 1;
    state = ((const uint64_t *)vg_row(w, i->op[2]))[lane];
    if (state >> 32 > m->phase || (state >> 32) + 1 < m->phase)
        vg_fault(w, i, lane, VG_FAILED,
                 "mbarrier 0x%x: the state is of phase %u, phase %u is "
                 "running", m->off, (uint32_t)(state >> 32), m->phase);
    return (uint32_t)(state >> 32) & 1;
}

/* op: result, address, state or parity, [hint].  try_wait with no lane's phase
 * over waits here, so its result is never false for all lanes at once; loops
 * around it, as compilers write them, end at the first round.  With some
 * lanes true the others get false and the loop goes on. */
static void wait(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    const struct mbar_op *x = i->aux;
    struct vg_mem_cta *mc = vg_mem_of(w, i);
    uint64_t at[VG_LANES];
    uint32_t over = 0;
    char state[64] = "";

    addresses(w, i, x, mask, at);
    mc->worker->counts.async.mbar_polls++;
    for (uint32_t todo = mask; todo; todo &= todo - 1) {
        int l = __builtin_ctz(todo);
        struct vg_cta *c;
        struct vg_mbar *m = vg_mbar_at(w, i, l, at[l], &c);

        if (c != w->cta)
            vg_fault(w, i, l, VG_ILLEGAL_ADDRESS,
                     "a wait for an mbarrier of another block");
        if (!vg_mbar_over(w, i, l, m, parity_of(w, i, x, l, m))) {
            vg_mbar_describe(m, state, sizeof state);
            continue;
        }
        over |= 1u << l;
        if (!x->relaxed && mc->race)
            vg_race_acquire(mc->race, vg_race_warp(w), 1u << l, m->done);
    }
    if (!over && x->op == TRY) {
        vg_retry(w, "%s", state);
        return;
    }
    mc->worker->counts.async.mbar_waits++;
    vg_put_pred(vg_row(w, i->op[0]), over, mask);
    /* Lanes that got false will ask again: let those they wait for run. */
    w->next = over == mask ? VG_GO : VG_YIELD;
}

/* op: count, state.  The low half of a state. */
static void pending_count(struct vg_warp *w, const struct vg_insn *i,
                          uint32_t mask)
{
    const uint64_t *state = vg_row(w, i->op[1]);
    uint32_t v[VG_LANES];

    for (int l = 0; l < VG_LANES; l++)
        v[l] = (uint32_t)state[l];
    vg_put32(vg_row(w, i->op[0]), v, mask);
}

/* ---- cp.async.mbarrier.arrive ------------------------------------------- */

/* Copies of the lanes b->data[1] have arrived: the phase gets what they had
 * done when they asked for that, kept in b->held. */
static void copies_arrived(struct vg_bulk *b)
{
    const struct vg_insn *i = &b->w->cta->launch->program->insn[b->pc];
    struct vg_mbar *m = &vg_async_of(b->dst)->mbar[b->mbar];

    vg_copies_arrive(b->w, (uint32_t)b->data[1], (uint32_t)b->data[0]);
    if (b->held)
        vg_mbar_gather(b->dst, m, (const uint32_t *)(const void *)b->held);
    for (uint32_t lanes = (uint32_t)b->data[1]; lanes; lanes &= lanes - 1)
        vg_mbar_arrive(b->w, i, __builtin_ctz(lanes), b->dst, m, 1, false);
}

/* Ends the lanes' epoch and keeps their clock for the arrival.  Returns that
 * epoch; 0: nobody watches for races. */
static uint32_t keep_clock(struct vg_bulk *b, const struct vg_insn *i,
                           uint32_t lanes)
{
    struct vg_race *r = ((struct vg_mem_cta *)b->dst->mem)->race;
    uint32_t epoch;

    if (!r)
        return 0;
    b->held = calloc(vg_race_clock_words(r), sizeof(uint32_t));
    if (!b->held)
        vg_fault(b->w, i, -1, VG_OUT_OF_MEMORY,
                 "the host has no memory for an asynchronous copy");
    epoch = vg_race_epoch(r, vg_race_warp(b->w));
    vg_race_release(r, vg_race_warp(b->w), lanes,
                    (uint32_t *)(void *)b->held);
    return epoch;
}

/* op: address.  Without .noinc the pending count grows by one first, so that
 * the arrival is none of the expected ones.  The arrivals of lanes that name
 * the same mbarrier are a copy under way (VG_BULK_ARRIVE), which completes
 * after the lanes' cp.async up to the mark. */
static void copy_arrive(struct vg_warp *w, const struct vg_insn *i,
                        uint32_t mask)
{
    const struct mbar_op *x = i->aux;
    uint64_t at[VG_LANES];

    addresses(w, i, x, mask, at);
    for (uint32_t todo = mask, same; todo; todo &= ~same) {
        int first = __builtin_ctz(todo);
        struct vg_cta *c;
        struct vg_mbar *m = vg_mbar_at(w, i, first, at[first], &c);
        struct vg_bulk *b = vg_bulk_new(w, i, VG_BULK_ARRIVE);

        same = 0;
        for (uint32_t lanes = todo; lanes; lanes &= lanes - 1)
            if (at[__builtin_ctz(lanes)] == at[first])
                same |= lanes & -lanes;
        if (!x->no_complete)
            m->pending += (uint32_t)__builtin_popcount(same);
        b->lane = (unsigned)first;
        b->move = copies_arrived;
        b->dst = c;
        b->mbar = vg_mbar_index(c, m);
        b->data[0] = vg_copies_track(w, same, keep_clock(b, i, same));
        b->data[1] = same;
    }
}

/* ---- decoding ----------------------------------------------------------- */

/* The words that all mbarrier instructions share; NULL after an error. */
static struct mbar_op *begin(struct vg_dec *d, enum op op)
{
    struct mbar_op *x = vg_keep(d, sizeof *x);
    int k;

    if (!x) {
        vg_error(d, "out of memory");
        return NULL;
    }
    d->lower->program->is_async = true;
    x->op = op;
    k = vg_mod_of(d, "release|acquire|relaxed");
    x->relaxed = k == 2;
    vg_mod_of(d, "cta|cluster|gpu");
    k = vg_mod_of(d, "shared|shared::cta|shared::cluster");
    x->space = k < 0 ? PTX_GENERIC : PTX_SHARED;
    if (!vg_mod(d, "b64")) {
        vg_error(d, "needs type .b64");
        return NULL;
    }
    d->out->aux = x;
    return x;
}

/* Appends the address and notes its row. */
static bool address(struct vg_dec *d, struct mbar_op *x, int k)
{
    x->at = d->out->nop;
    return vg_in_address(d, k, &x->space);
}

/* init, inval, expect_tx and complete_tx: address, and all but inval a count
 * of arrivals or bytes. */
static bool decode_simple(struct vg_dec *d)
{
    struct mbar_op *x = begin(d, (enum op)d->out->arg);

    d->out->fn = simple;
    return x && address(d, x, 0) && (x->op == INVAL || vg_in(d, 1, -1, 32));
}

/* arrive{.expect_tx,.noComplete} {state,|_,} [a]{, count}: a result is what
 * stands before the address, and `_` is one that nobody wants. */
static bool decode_arrive(struct vg_dec *d)
{
    bool tx = vg_mod(d, "expect_tx"), partial = vg_mod(d, "noComplete");
    struct mbar_op *x = begin(d, (enum op)d->out->arg);
    int k = 0;

    if (!x)
        return false;
    x->with_tx = tx;
    x->no_complete = partial;
    d->out->fn = arrive;
    if (!vg_has(d, 0))
        return vg_error(d, "no operands");
    if (d->in->op[0].kind == PTX_OP_SINK) {
        d->asked |= 1;
        k = 1;
    } else if (d->in->op[0].kind != PTX_OP_ADDR) {
        x->has_state = true;
        if (!vg_out(d, k++, -1, 64))
            return false;
    }
    if (!address(d, x, k))
        return false;
    x->has_count = vg_has(d, k + 1);
    if (tx && !x->has_count)
        return vg_error(d, "no tx-count");
    return !x->has_count || vg_in(d, k + 1, -1, 32);
}

/* {test,try}_wait{.parity} p, [a], state|parity{, hint}: the suspend-time hint
 * is read and means nothing. */
static bool decode_wait(struct vg_dec *d)
{
    bool parity = vg_mod(d, "parity");
    struct mbar_op *x = begin(d, (enum op)d->out->arg);

    if (!x)
        return false;
    x->parity = parity;
    d->out->fn = wait;
    d->out->kind = VG_CONTROL;
    return vg_out(d, 0, -1, 1) && address(d, x, 1) &&
           vg_in(d, 2, -1, parity ? 32 : 64) &&
           (!vg_has(d, 3) || vg_in(d, 3, -1, 32));
}

/* pending_count d, state: of a state that an arrive returned; no memory. */
static bool decode_pending(struct vg_dec *d)
{
    d->out->fn = pending_count;
    if (!vg_mod(d, "b64"))
        return vg_error(d, "needs type .b64");
    return vg_out(d, 0, -1, 32) && vg_in(d, 1, -1, 64);
}

/* cp.async.mbarrier.arrive{.noinc} [a].  Without .noinc the copies' arrival
 * is added to what the phase waits for, so that it changes nothing on
 * balance; with it the count at init must include it (kept in no_complete). */
static bool decode_copy_arrive(struct vg_dec *d)
{
    bool noinc = vg_mod(d, "noinc");
    struct mbar_op *x = begin(d, ARRIVE);

    if (!x)
        return false;
    x->no_complete = noinc;
    d->out->fn = copy_arrive;
    return address(d, x, 0);
}

/* By enum op.  The operation is the word behind "mbarrier": expect_tx is a
 * modifier of arrive, too. */
static const struct {
    const char *name;
    bool (*decode)(struct vg_dec *d);
} operation[] = {
    [INIT] = {"init", decode_simple},
    [INVAL] = {"inval", decode_simple},
    [EXPECT_TX] = {"expect_tx", decode_simple},
    [COMPLETE_TX] = {"complete_tx", decode_simple},
    [ARRIVE] = {"arrive", decode_arrive},
    [DROP] = {"arrive_drop", decode_arrive},
    [TEST] = {"test_wait", decode_wait},
    [TRY] = {"try_wait", decode_wait},
    [PENDING] = {"pending_count", decode_pending},
};

/* One row of the opcode table serves them all. */
bool vg_decode_mbarrier(struct vg_dec *d)
{
    const char *word = d->in->nwords > 1 ? d->in->word[1] : "";

    for (uint32_t k = 0; k < sizeof operation / sizeof *operation; k++)
        if (strcmp(operation[k].name, word) == 0) {
            d->used |= 1u << 1;
            d->out->arg = k;
            return operation[k].decode(d);
        }
    return vg_error(d, "operation .%s is not known", word);
}

bool vg_decode_cp_async_mbarrier(struct vg_dec *d)
{
    return decode_copy_arrive(d);
}
