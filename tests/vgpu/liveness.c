/* SPDX-License-Identifier: Apache-2.0
 *
 * liveness.c: thousands of virtual registers into a small register file.
 *
 * The textbook way: basic blocks, a backward data-flow pass for live-in and
 * live-out sets, one interval per register (the hull of its live places in
 * program order), and a linear scan that hands out slots.  A small file
 * keeps a warp in the host's nearest cache.
 *
 * Liveness is per thread.  Lanes of a warp may be at different places with
 * different live registers in the same slots; that is why a handler must
 * never write outside its mask.  A guarded write does not end the old value.
 *
 * Places count in half steps: instruction pc reads at 2pc and writes at
 * 2pc + 1, so that a result may take the slot of a source that dies there.
 * An instruction with several results keeps its sources until 2pc + 1: it
 * may read one after having written another.
 *
 * Intervals are hulls: a register that is dead for a while inside a loop keeps
 * its slot.  That costs some slots and makes the scan one pass.
 */
#include "lower.h"

#include <stdlib.h>

/* A basic block: straight code with one entry and one exit. */
struct block {
    int from, to;               /* [from, to) */
    int next[2];                /* blocks, -1 none */
    const struct vg_jumps *jumps;
};

/* What the passes share; every array is freed by vg_assign_slots. */
struct live {
    struct vg_lower *lo;
    struct vg_program *p;
    struct block *block;
    int nblock;
    int *block_of;              /* pc -> block that starts there, or -1 */
    size_t words;
    uint64_t *use, *def, *in, *out;     /* nblock sets of `words` words */
    int *start, *end;           /* interval of each virtual register */
};

/* Instructions after which another block starts. A trap ends the launch and
 * needs no edge; liveness after it is merely pessimistic. */
static bool ends_block(const struct vg_insn *i)
{
    return i->fn == vg_bra || i->fn == vg_brx || i->fn == vg_exit;
}

/* A guarded jump may not be taken, by any lane. */
static bool falls_through(const struct vg_program *p, int pc)
{
    return p->src[pc]->guard >= 0 || !ends_block(&p->insn[pc]);
}

/* Marks the pcs where blocks start, then numbers them. */
static bool find_blocks(struct live *v)
{
    struct vg_program *p = v->p;
    v->block_of = calloc((size_t)p->ninsn + 1, sizeof(int));
    v->block = calloc((size_t)p->ninsn + 1, sizeof *v->block);
    if (!v->block_of || !v->block)
        return false;
    v->block_of[0] = 1;
    for (int pc = 0; pc < p->ninsn; pc++) {
        const struct vg_insn *i = &p->insn[pc];
        const struct vg_jumps *t = i->fn == vg_brx ? i->aux : NULL;
        if (i->target >= 0)
            v->block_of[i->target] = 1;
        for (int n = 0; t && n < t->n; n++)
            v->block_of[t->target[n]] = 1;
        if (ends_block(i))
            v->block_of[pc + 1] = 1;
    }
    for (int pc = 0; pc < p->ninsn; pc++) {
        if (v->block_of[pc]) {
            v->block_of[pc] = v->nblock;
            v->block[v->nblock++].from = pc;
        } else {
            v->block_of[pc] = -1;
        }
        v->block[v->nblock - 1].to = pc + 1;
    }
    return true;
}

/* Successors: the next block, the branch target, the labels of brx.idx. */
static void link_blocks(struct live *v)
{
    for (int b = 0; b < v->nblock; b++) {
        struct block *k = &v->block[b];
        const struct vg_insn *i = &v->p->insn[k->to - 1];
        bool through = falls_through(v->p, k->to - 1);
        k->next[0] = through && b + 1 < v->nblock ? b + 1 : -1;
        k->next[1] = i->target >= 0 ? v->block_of[i->target] : -1;
        k->jumps = i->fn == vg_brx ? i->aux : NULL;
    }
}

/* Calls f(v, register, access, pc) for each register of an instruction. */
typedef void visit_fn(struct live *v, int reg, unsigned access, int pc);
/* Reads come first, then the guard, then writes: the order that `use` needs.
 */
static void visit(struct live *v, int pc, visit_fn *f)
{
    const struct vg_insn *i = &v->p->insn[pc];
    int at = v->lo->op_at[pc];
    for (int n = 0; n < i->nop; n++)
        if (v->p->op[at + n] >= 0 && (v->lo->access[at + n] & VG_READ))
            f(v, v->p->op[at + n], VG_READ, pc);
    if (i->guard >= 0)
        f(v, i->guard, VG_READ, pc);
    for (int n = 0; n < i->nop; n++)
        if (v->p->op[at + n] >= 0 && (v->lo->access[at + n] & VG_WRITE))
            f(v, v->p->op[at + n], VG_WRITE, pc);
}

/* Sets of registers are bit maps, one per block and kind. */
static uint64_t *set_of(uint64_t *sets, const struct live *v, int b)
{
    return sets + (size_t)b * v->words;
}

static bool has(const uint64_t *s, int r)
{
    return s[r >> 6] >> (r & 63) & 1;
}

static void add(uint64_t *s, int r)
{
    s[r >> 6] |= UINT64_C(1) << (r & 63);
}

/* use: read before any write in the block; def: written unconditionally. */
static void use_and_def(struct live *v, int reg, unsigned access, int pc)
{
    int b = v->block_of[pc];
    uint64_t *use = set_of(v->use, v, b), *def = set_of(v->def, v, b);
    if (access == VG_READ) {
        if (!has(def, reg))
            add(use, reg);
    } else if (v->p->src[pc]->guard < 0) {
        add(def, reg);
    }
}

/* live-out |= live-in of a successor; true when that added something. */
static bool merge_in(struct live *v, int b, int next)
{
    uint64_t *out = set_of(v->out, v, b), *in = set_of(v->in, v, next);
    uint64_t change = 0;
    for (size_t w = 0; w < v->words; w++) {
        change |= in[w] & ~out[w];
        out[w] |= in[w];
    }
    return change != 0;
}

/* One step of the data-flow equation in = use | (out & ~def). */
static bool update(struct live *v, int b)
{
    const struct block *k = &v->block[b];
    bool changed = false;
    for (int n = 0; n < 2; n++)
        if (k->next[n] >= 0)
            changed |= merge_in(v, b, k->next[n]);
    for (int n = 0; k->jumps && n < k->jumps->n; n++)
        changed |= merge_in(v, b, v->block_of[k->jumps->target[n]]);
    uint64_t *use = set_of(v->use, v, b), *def = set_of(v->def, v, b);
    uint64_t *in = set_of(v->in, v, b), *out = set_of(v->out, v, b);
    for (size_t w = 0; w < v->words; w++)
        in[w] = use[w] | (out[w] & ~def[w]);
    return changed;
}

/* Iterates backwards to the fixed point. Afterwards block_of[pc] is the
 * block of every pc. */
static bool solve(struct live *v)
{
    v->words = ((size_t)v->lo->nvreg + 63) / 64;
    size_t all = v->words * (size_t)v->nblock;
    /* Four families of sets in one block. */
    v->use = calloc(4 * all + 1, sizeof *v->use);
    if (!v->use)
        return false;
    v->def = v->use + all;
    v->in = v->def + all;
    v->out = v->in + all;
    for (int b = 0; b < v->nblock; b++)
        for (int pc = v->block[b].from; pc < v->block[b].to; pc++) {
            v->block_of[pc] = b;
            visit(v, pc, use_and_def);
        }
    for (bool again = true; again;) {
        again = false;
        for (int b = v->nblock - 1; b >= 0; b--)
            again |= update(v, b);
    }
    return true;
}

/* Makes the interval of a register include a place. */
static void extend(struct live *v, int reg, int place)
{
    if (place < v->start[reg])
        v->start[reg] = place;
    if (place > v->end[reg])
        v->end[reg] = place;
}

/* How many rows the instruction writes. */
static int results(const struct live *v, int pc)
{
    int at = v->lo->op_at[pc], n = 0;
    for (int k = 0; k < v->p->insn[pc].nop; k++)
        n += (v->lo->access[at + k] & VG_WRITE) != 0;
    return n;
}

/* Half steps as the head of this file says. */
static void touch(struct live *v, int reg, unsigned access, int pc)
{
    extend(v, reg, 2 * pc + (access == VG_WRITE || results(v, pc) > 1));
}

/* The hull of all places where a register is live: its touches, and the
 * borders of the blocks through which it lives. */
static bool intervals(struct live *v)
{
    int n = v->lo->nvreg;
    v->start = malloc((size_t)n * 2 * sizeof(int) + 1);
    if (!v->start)
        return false;
    v->end = v->start + n;
    for (int r = 0; r < n; r++) {
        v->start[r] = 2 * v->p->ninsn + 2;
        v->end[r] = -1;
    }
    for (int b = 0; b < v->nblock; b++) {
        const struct block *k = &v->block[b];
        for (int pc = k->from; pc < k->to; pc++)
            visit(v, pc, touch);
        for (int r = 0; r < n; r++) {
            if (has(set_of(v->in, v, b), r))
                extend(v, r, 2 * k->from);
            if (has(set_of(v->out, v, b), r))
                extend(v, r, 2 * k->to - 1);
        }
    }
    return true;
}

/* ---- linear scan --------------------------------------------------------- */

/* 32 lanes; a predicate is one word. */
static unsigned row_bytes(unsigned bits)
{
    return bits == 1 ? 4 : bits * 4;
}

/* Registers in the order in which their intervals start. */
struct order {
    int start, reg;
};

static int by_start(const void *a, const void *b)
{
    const struct order *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->reg > y->reg) - (x->reg < y->reg);
}

/* Linear scan of the registers of one width: each gets the first slot that is
 * free where its interval starts, or a new one; busy[] is where each slot's
 * last interval ends. Pinned registers keep their slot to the end. Returns
 * how many slots there are. */
static int scan_width(struct live *v, const struct order *order, int norder,
                      unsigned bits, int *busy)
{
    int slots = 0;
    for (int n = 0; n < norder; n++) {
        int reg = order[n].reg, s = 0;
        struct vg_vreg *r = &v->lo->vreg[reg];
        if (r->bits != bits)
            continue;
        if (r->pinned)
            s = slots;
        while (s < slots && busy[s] >= order[n].start)
            s++;
        if (s == slots)
            slots++;
        busy[s] = r->pinned ? 2 * v->p->ninsn + 2 : v->end[reg];
        r->slot = s;
    }
    return slots;
}

/* Slot numbers to byte offsets: all slots of one width side by side, cache-
 * line aligned. */
static void place_width(struct live *v, unsigned bits, int slots, uint32_t *at)
{
    unsigned bytes = row_bytes(bits);
    for (int r = 0; r < v->lo->nvreg; r++)
        if (v->lo->vreg[r].bits == bits && v->lo->vreg[r].slot >= 0)
            v->lo->vreg[r].slot = (int32_t)(*at + bytes *
                                            (unsigned)v->lo->vreg[r].slot);
    *at = (*at + bytes * (unsigned)slots + 63) & ~63u;
}

/* The widths one after the other, the most frequent first. Slots of
 * different widths never overlap. */
static bool scan(struct live *v)
{
    static const unsigned widths[] = {32, 64, 16, 1, 8, 128};
    struct vg_lower *lo = v->lo;
    size_t n = (size_t)lo->nvreg;
    struct order *order = malloc(n * sizeof *order + 1);
    int *busy = malloc(n * sizeof *busy + 1);
    int norder = 0;
    bool ok = order && busy;
    for (int r = 0; ok && r < lo->nvreg; r++) {
        if (lo->vreg[r].pinned)
            order[norder++] = (struct order){0, r};
        else if (v->end[r] >= 0)
            order[norder++] = (struct order){v->start[r], r};
    }
    if (ok) {
        qsort(order, (size_t)norder, sizeof *order, by_start);
        uint32_t at = 0;
        for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) {
            int slots = scan_width(v, order, norder, widths[k], busy);
            v->p->max_live += (unsigned)slots * widths[k] / 32;
            place_width(v, widths[k], slots, &at);
        }
        v->p->row_bytes = at;
    }
    free(order);
    free(busy);
    return ok;
}

/* Registers that are never used get no slot, and need none. */
bool vg_assign_slots(struct vg_lower *lo)
{
    struct live v = {.lo = lo, .p = lo->program};
    bool ok = find_blocks(&v);
    if (ok) {
        link_blocks(&v);
        ok = solve(&v) && intervals(&v) && scan(&v);
    }
    free(v.block);
    free(v.block_of);
    free(v.use);
    free(v.start);
    return ok;
}
