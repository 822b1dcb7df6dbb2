/* SPDX-License-Identifier: Apache-2.0
 *
 * op_flow.c: branches, calls, the end of a thread, fences and the
 * instructions that only hint (PTX ISA 9.0, 9.7.12, 9.7.13, 9.7.19).
 *
 * A branch does not jump: it moves lanes.  Those that take it go to the target
 * and join whoever is there, the others to the next instruction (sched.c).
 */
#include "alu.h"
#include "warp.h"

/* ---- branches ------------------------------------------------------------ */

/* Stores where a label points, still as an instruction of the PTX: pcs are
 * known once the body is placed (decode.c).  vg_bra itself is in sched.c. */
static bool label_target(struct vg_dec *d, const struct ptx_operand *o,
                         int32_t *target)
{
    if (o->kind != PTX_OP_LABEL)
        return vg_error(d, "the target is no label");
    *target = -2 - o->target;       /* linked when the body is placed */
    return true;
}

/* bra{.uni} label; .uni promises convergence and changes nothing */
static bool decode_bra(struct vg_dec *d)
{
    vg_mod(d, "uni");
    d->out->kind = VG_CONTROL;
    d->out->fn = vg_bra;
    d->asked |= 1;
    return vg_has(d, 0) ? label_target(d, &d->in->op[0], &d->out->target)
                        : vg_error(d, "no target");
}

/* brx.idx: peels off one index value after the other; lanes with the same one
 * stay together.  An index beyond the list is undefined in the ISA and a
 * fault here. */
void vg_brx(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    const struct vg_jumps *t = i->aux;
    const uint32_t *index = vg_row(w, i->op[0]);
    w->next = VG_MOVED;
    while (mask) {
        int first = __builtin_ctz(mask);
        uint32_t v = index[first], same = 0;
        if (v >= (uint32_t)t->n)
            vg_fault(w, i, first, VG_ILLEGAL_INSTRUCTION,
                     "brx.idx: index %u, the list has %d labels", v, t->n);
        for (int l = first; l < VG_LANES; l++)
            same |= (uint32_t)(index[l] == v) << l & mask;
        mask &= ~same;
        vg_move(w, w->cur, same, t->target[v]);
    }
}

/* brx.idx{.uni} index, list of labels */
static bool decode_brx(struct vg_dec *d)
{
    vg_mod(d, "uni");
    if (d->in->nops != 2 || d->in->op[1].kind != PTX_OP_VEC)
        return vg_error(d, "needs an index and a list of labels");
    const struct ptx_operand *list = &d->in->op[1];
    struct vg_jumps *t = vg_keep(d, sizeof *t + (size_t)list->nelem *
                                        sizeof *t->target);
    if (!t)
        return false;
    d->asked |= 2;
    t->n = list->nelem;
    for (int n = 0; n < t->n; n++)
        if (!label_target(d, &list->elem[n], &t->target[n]))
            return false;
    d->out->aux = t;
    d->out->kind = VG_CONTROL;
    d->out->fn = vg_brx;
    return vg_in(d, 0, -1, 32);
}

/* ---- the end of a thread ------------------------------------------------- */

/* exit, and ret of a kernel.  Lanes whose guard is false go on. */
void vg_exit(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    struct vg_group *g = vg_current(w);
    (void)i;
    if (mask != g->mask)
        vg_move(w, w->cur, g->mask & ~mask, g->pc + 1);
    vg_lanes_exit(w, mask);
}

static bool decode_exit(struct vg_dec *d)
{
    d->out->kind = VG_CONTROL;
    d->out->fn = vg_exit;
    return true;
}

/* ret of a kernel ends the thread; of an inlined function it jumps behind
 * the body. */
static bool decode_ret(struct vg_dec *d)
{
    const struct vg_frame *f = d->lower->frame;
    vg_mod(d, "uni");
    if (!f->caller)
        return decode_exit(d);
    d->out->kind = VG_CONTROL;
    d->out->fn = vg_bra;
    d->out->target = -2 - f->func->ninsts;
    return true;
}

/* trap and brkpt: the first lane is the one to report. */
VG_HANDLER(trap)
{
    vg_fault(w, i, __builtin_ctz(mask), VG_FAILED, "%s executed",
             w->cta->launch->program->src[vg_pc(w, i)]->word[0]);
}

/* .kind CONTROL keeps it out of straight runs, so that the counters are right
 * up to it. */
static bool decode_trap(struct vg_dec *d)
{
    d->out->kind = VG_CONTROL;
    d->out->fn = trap;
    return true;
}

/* ---- calls of functions without a body ----------------------------------- */

/* __assertfail: its arguments (text, file, line) are not looked at; the
 * report has the source line from the PTX. */
VG_HANDLER(assertfail)
{
    vg_fault(w, i, __builtin_ctz(mask), VG_ASSERT,
             "device assertion failed");
}

/* For calls and hints without a function. */
VG_HANDLER(nothing)
{
    (void)w, (void)i, (void)mask;
}

/* vprintf prints nothing and returns 0: the call becomes a store into its
 * result variable, "st.param.b32 [result], 0", made up here. */
static bool decode_vprintf(struct vg_dec *d)
{
    const struct ptx_inst *call = d->in;
    struct {
        struct ptx_inst in;
        struct ptx_operand op[2], base;
    } *st = vg_keep(d, sizeof *st);
    if (!st)
        return false;
    d->asked |= 7;
    if (call->op[0].nelem != 1 || call->op[0].elem[0].kind != PTX_OP_SYM) {
        d->out->fn = nothing;
        return true;
    }
    st->base = call->op[0].elem[0];
    st->op[0] = (struct ptx_operand){.kind = PTX_OP_ADDR, .elem = &st->base,
                                     .nelem = 1};
    st->op[1] = (struct ptx_operand){.kind = PTX_OP_IMM};
    st->in = (struct ptx_inst){.opcode = "st.param.b32",
                               .word = {"st", "param", "b32"},
                               .nwords = 3,
                               .guard = call->guard,
                               .op = st->op,
                               .nops = 2,
                               .ptx_line = call->ptx_line};
    uint32_t used = d->used;
    d->in = &st->in;
    d->used = 1;
    bool ok = vg_decode_as(d, "st");
    d->in = call;
    d->used = used;
    return ok;
}

/* Calls of functions with a body never get here: decode.c inlines them. */
static bool decode_call(struct vg_dec *d)
{
    vg_mod(d, "uni");
    if (d->in->nops != 3 || d->in->op[1].kind != PTX_OP_FUNC)
        return vg_error(d, "indirect calls are not supported");
    const char *name = d->in->op[1].name;
    if (strcmp(name, "vprintf") == 0)
        return decode_vprintf(d);
    if (strcmp(name, "__assertfail") != 0)
        return vg_error(d, "function %.60s has no body here", name);
    d->asked |= 7;
    d->out->kind = VG_CONTROL;
    d->out->fn = assertfail;
    return true;
}

/* ---- fences -------------------------------------------------------------- */

/* membar.{cta,gl,sys}: at least as strong as fence.sc of that scope */
static bool decode_membar(struct vg_dec *d)
{
    int scope = vg_mod_of(d, "cta|gl|sys");
    static const enum vg_scope of[] = {VG_SCOPE_CTA, VG_SCOPE_GPU,
                                       VG_SCOPE_SYS};
    d->out->fn = vg_mem_fence;
    if (scope >= 0)
        d->out->arg = vg_fence_arg(of[scope], VG_PROXY_NONE, true);
    else if (vg_mod(d, "proxy") && vg_mod(d, "alias"))
        d->out->arg = vg_fence_arg(VG_SCOPE_SYS, VG_PROXY_ALIAS, false);
    else
        return vg_error(d, "no scope named");
    return true;
}

/* fence.proxy.{alias, async{.space}, tensormap::generic...}: the proxy's
 * number goes into arg; the three spaces of .async follow it in the enum. */
static bool decode_proxy(struct vg_dec *d)
{
    static const enum vg_proxy of[] = {
        VG_PROXY_ALIAS, VG_PROXY_ASYNC, VG_PROXY_TENSORMAP};
    int kind = vg_mod_of(d, "alias|async|tensormap::generic");
    if (kind < 0)
        return vg_error(d, "no proxy named");
    enum vg_proxy p = of[kind];
    if (p == VG_PROXY_ASYNC) {
        int space = vg_mod_of(d, "global|shared::cta|shared::cluster");
        p = (enum vg_proxy)(VG_PROXY_ASYNC + space + 1);
    } else if (p == VG_PROXY_TENSORMAP) {
        vg_mod_of(d, "release|acquire");
        vg_mod_of(d, "cta|cluster|gpu|sys");
        d->asked |= 3;      /* acquire names an address and a size */
    }
    d->out->fn = vg_mem_fence;
    d->out->arg = vg_fence_arg(VG_SCOPE_CTA, p, false);
    return true;
}

/* fence{.sc,.acq_rel,...}.scope, fence.proxy..., fence.mbarrier_init...;
 * without a semantics word a fence is .sc */
static bool decode_fence(struct vg_dec *d)
{
    if (vg_mod(d, "proxy"))
        return decode_proxy(d);
    bool init = vg_mod(d, "mbarrier_init");
    int sem = vg_mod_of(d, "sc|acq_rel|acquire|release");
    vg_mod_of(d, "sync_restrict::shared::cta|sync_restrict::shared::cluster");
    int scope = vg_mod_of(d, "cta|cluster|gpu|sys");
    if (scope < 0)
        return vg_error(d, "no scope named");
    d->out->fn = vg_mem_fence;
    d->out->arg = vg_fence_arg((enum vg_scope)scope,
                               init ? VG_PROXY_MBARRIER_INIT : VG_PROXY_NONE,
                               sem <= 0);
    return true;
}

/* ---- hints --------------------------------------------------------------- */

/* Sleeping is letting every other warp run first. */
VG_HANDLER(yield)
{
    (void)i, (void)mask;
    w->next = VG_YIELD;
}

/* nanosleep.u32 t: lets the others run */
static bool decode_nanosleep(struct vg_dec *d)
{
    if (vg_type(d) != VG_U32)
        return vg_error(d, "needs .u32");
    d->out->kind = VG_CONTROL;
    d->out->fn = yield;
    return vg_in(d, 0, -1, 32);
}

/* Performance counters' triggers. */
static bool decode_pmevent(struct vg_dec *d)
{
    vg_mod(d, "mask");
    d->asked |= 1;
    d->out->fn = nothing;
    return true;
}

const struct vg_opcode vg_ops_flow[] = {
    {"bra", decode_bra, VG_C_BRANCH, 0},
    {"brx.idx", decode_brx, VG_C_BRANCH, 0},
    {"call", decode_call, VG_C_BRANCH, 0},
    {"ret", decode_ret, VG_C_BRANCH, 0},
    {"exit", decode_exit, VG_C_BRANCH, 0},
    {"trap", decode_trap, VG_C_BRANCH, 0},
    {"brkpt", decode_trap, VG_C_BRANCH, 0},
    {"membar", decode_membar, VG_C_SYNC, 0},
    {"fence", decode_fence, VG_C_SYNC, 0},
    {"nanosleep", decode_nanosleep, VG_C_OTHER, 0},
    {"pmevent", decode_pmevent, VG_C_OTHER, 0},
    {NULL, NULL, 0, 0},
};
