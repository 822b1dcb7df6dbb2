/* SPDX-License-Identifier: Apache-2.0
 *
 * wgmma_regs.c: the registers of a wgmma while it is in flight (PTX ISA
 * 9.7.15.1, 9.7.15.7.1).
 *
 * Accumulators and A fragments belong to the tensor core from mma_async until
 * the wait_group that covers it: touching them is undefined.  And a
 * wgmma.fence must lie between an ordinary access to such a register and the
 * next mma_async that uses it.
 *
 * At load time the registers that any wgmma names get numbers, and with them
 * those that plain movs copy them to; instructions that touch one are
 * wrapped.  Copies are special: the front end renames registers between asm
 * statements and around loops, also while they are in flight, and ptxas
 * removes such copies.  So a mov passes the state on instead of counting as
 * an access; and a mov of a constant, which the front end may sink below the
 * fence, counts only while the register is in flight.
 */
#include "bulk_ops.h"
#include "lower.h"
#include "wgmma.h"

#include <stdlib.h>

/* A watched register of an instruction. */
struct ref {
    uint32_t id;
    uint8_t access;
};

struct vg_watch {
    vg_fn *fn;               /* the instruction itself */
    bool is_copy;            /* ref[0] is written, ref[1] read */
    bool is_constant;        /* mov of a constant to ref[0] */
    uint8_t n;
    struct ref ref[];
};

/* ---- run time ----------------------------------------------------------- */

/* What was found at load time about the instruction. */
static const struct vg_watch *watch_of(const struct vg_warp *w,
                                       const struct vg_insn *i)
{
    return w->cta->launch->program->watch[vg_pc(w, i)];
}

/* Does a group that the warp has not waited for own the register? */
static bool in_flight(const struct vg_async_warp *aw, const struct vg_wreg *r)
{
    return r->group > aw->done;
}

_Noreturn static void fault_flight(struct vg_warp *w, const struct vg_insn *i,
                                   const struct vg_wreg *r, bool write)
{
    vg_fault(w, i, -1, VG_FAILED,
             "%s register of a wgmma %s while the wgmma is in flight: no "
             "wgmma.wait_group has covered group %u yet",
             r->is_d ? "accumulator" : "A-fragment",
             write ? "written" : "read", r->group);
}

/* An ordinary access.  The old name of a value that was copied elsewhere is
 * free to be written. */
static void access(struct vg_warp *w, const struct vg_insn *i,
                   struct vg_async_warp *aw, const struct ref *f,
                   bool is_constant)
{
    struct vg_wreg *r = &aw->reg[f->id];
    bool read = f->access & VG_READ, write = f->access & VG_WRITE;

    if (in_flight(aw, r) && (read || !r->is_copied))
        fault_flight(w, i, r, !read);
    if (write) {
        r->group = 0;
        r->is_copied = false;
    }
    if (!is_constant)
        r->touched = aw->fences + 1;
}

/* Passes the state of ref[1] on to ref[0]. */
static void copy(struct vg_warp *w, const struct vg_insn *i,
                 struct vg_async_warp *aw, const struct vg_watch *k)
{
    struct vg_wreg *to = &aw->reg[k->ref[0].id];
    struct vg_wreg *from = &aw->reg[k->ref[1].id];

    if (in_flight(aw, to) && !to->is_copied && to->group != from->group)
        fault_flight(w, i, to, true);
    *to = *from;
    to->is_copied = false;
    from->is_copied = true;
}

/* Stands in for the handler of an instruction that touches such a register;
 * the guard does not matter, for the tensor core owns all 32 lanes. */
static void watched(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    const struct vg_watch *k = watch_of(w, i);
    struct vg_async_warp *aw;

    if (vg_checking(w, VG_CHECK_ASYNC)) {
        vg_mem_of(w, i);
        aw = vg_async_warp_of(w);
        if (k->is_copy)
            copy(w, i, aw, k);
        else
            for (unsigned n = 0; n < k->n; n++)
                access(w, i, aw, &k->ref[n], k->is_constant);
    }
    k->fn(w, i, mask);
}

/* D may be in flight from wgmma of the same shape, A as another's A. */
static void issue(struct vg_warp *w, const struct vg_insn *i,
                  struct vg_async_warp *aw, struct vg_wreg *r, bool is_d,
                  uint16_t shape)
{
    if (in_flight(aw, r) && (r->is_d != is_d || (is_d && r->shape != shape)))
        vg_fault(w, i, -1, VG_FAILED,
                 "wgmma uses a register that is in flight as %s of another "
                 "wgmma", r->is_d ? r->shape != shape ? "accumulator (of "
                 "another shape)" : "accumulator" : "A fragment");
    if (r->touched > aw->fences)
        vg_fault(w, i, -1, VG_FAILED,
                 "wgmma uses %s register that was accessed after the last "
                 "wgmma.fence", is_d ? "an accumulator" : "an A-fragment");
    r->group = aw->groups + 1;
    r->shape = shape;
    r->is_d = is_d;
    r->is_copied = false;
}

/* shape: N and the types; D may stay in flight from one wgmma to the next only
 * with both the same (PTX ISA 9.7.15.7.1). */
void vg_wgmma_registers(struct vg_warp *w, const struct vg_insn *i)
{
    const struct vg_wgmma *x = i->aux;
    const struct vg_watch *k = watch_of(w, i);
    struct vg_async_warp *aw = vg_async_warp_of(w);
    uint16_t shape = (uint16_t)(x->n | x->type << 9);

    if (!vg_checking(w, VG_CHECK_ASYNC))
        return;
    if (!aw->fences)
        vg_fault(w, i, -1, VG_FAILED,
                 "wgmma without a wgmma.fence before the first one");
    for (unsigned n = 0; n < k->n; n++)
        issue(w, i, aw, &aw->reg[k->ref[n].id], n < x->nd, shape);
}

/* ---- load time ---------------------------------------------------------- */

/* Numbers of watched registers while a kernel is lowered; -1: none. */
struct numbers {
    struct vg_lower *lo;
    int *of;
    unsigned n;
};

/* The virtual rows of an instruction, before they become offsets. */
static int32_t *rows_of(const struct vg_lower *lo, int pc)
{
    return lo->program->op + lo->op_at[pc];
}

/* Gives a register its number, once. */
static void number(struct numbers *k, int32_t vreg)
{
    if (vreg >= 0 && k->of[vreg] < 0)
        k->of[vreg] = (int)k->n++;
}

/* mov.b32 d, a between registers, unguarded or not. */
static bool is_copy(const struct vg_lower *lo, int pc)
{
    const struct ptx_inst *in = lo->program->src[pc];
    const int32_t *row = rows_of(lo, pc);

    return strcmp(in->word[0], "mov") == 0 && in->nops == 2 &&
           in->op[0].kind == PTX_OP_REG && in->op[1].kind == PTX_OP_REG &&
           lo->program->insn[pc].nop == 2 && row[0] >= 0 && row[1] >= 0;
}

/* mov.b32 d, literal. */
static bool is_constant(const struct vg_lower *lo, int pc)
{
    const struct ptx_inst *in = lo->program->src[pc];

    return strcmp(in->word[0], "mov") == 0 && in->nops == 2 &&
           in->op[0].kind == PTX_OP_REG &&
           (in->op[1].kind == PTX_OP_IMM || in->op[1].kind == PTX_OP_F32 ||
            in->op[1].kind == PTX_OP_F64);
}

/* Registers that wgmma names, then all that copies of them reach. */
static void number_all(struct numbers *k)
{
    const struct vg_program *p = k->lo->program;
    unsigned before;

    for (int pc = 0; pc < p->ninsn; pc++) {
        const struct vg_wgmma *x = p->insn[pc].aux;

        if (p->insn[pc].fn == vg_wgmma)
            for (unsigned n = 0; n < (unsigned)x->nd + x->na; n++)
                number(k, rows_of(k->lo, pc)[n]);
    }
    do {
        before = k->n;
        for (int pc = 0; pc < p->ninsn; pc++)
            if (is_copy(k->lo, pc) && k->of[rows_of(k->lo, pc)[1]] >= 0)
                number(k, rows_of(k->lo, pc)[0]);
    } while (k->n != before);
}

/* The watched registers among an instruction's rows; false: no memory. */
static bool watch(struct numbers *k, int pc)
{
    struct vg_program *p = k->lo->program;
    struct vg_insn *i = &p->insn[pc];
    const int32_t *row = rows_of(k->lo, pc);
    const uint8_t *access = k->lo->access + k->lo->op_at[pc];
    struct vg_dec d = {.lower = k->lo};
    struct vg_watch *v;
    unsigned n = 0;

    for (unsigned m = 0; m < i->nop; m++)
        n += row[m] >= 0 && k->of[row[m]] >= 0;
    if (!n)
        return true;
    v = vg_keep(&d, sizeof *v + n * sizeof v->ref[0]);
    if (!v)
        return false;
    for (unsigned m = 0; m < i->nop; m++)
        if (row[m] >= 0 && k->of[row[m]] >= 0)
            v->ref[v->n++] = (struct ref){(uint32_t)k->of[row[m]], access[m]};
    v->is_copy = v->n == 2 && is_copy(k->lo, pc);
    v->is_constant = is_constant(k->lo, pc);
    v->fn = i->fn;
    if (i->fn != vg_wgmma)
        i->fn = watched;
    p->watch[pc] = v;
    return true;
}

/* Runs after decoding and before slots are shared, while a register is still
 * one thing. */
bool vg_watch_registers(struct vg_lower *lo)
{
    struct vg_program *p = lo->program;
    struct numbers k = {.lo = lo};
    bool ok = true;

    if (!p->is_async)
        return true;
    k.of = malloc(((size_t)lo->nvreg + 1) * sizeof *k.of);
    p->watch = calloc((size_t)p->ninsn + 1, sizeof *p->watch);
    if (!k.of || !p->watch) {
        free(k.of);
        return false;
    }
    for (int r = 0; r < lo->nvreg; r++)
        k.of[r] = -1;
    number_all(&k);
    for (int pc = 0; ok && pc < p->ninsn; pc++)
        ok = watch(&k, pc);
    p->nwatched = k.n;
    free(k.of);
    return ok;
}
