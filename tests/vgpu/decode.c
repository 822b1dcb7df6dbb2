/* SPDX-License-Identifier: Apache-2.0
 *
 * decode.c: from PTX instructions to executable ones.
 *
 * vg_compile walks the instructions of a kernel.  For each it finds the row
 * of the opcode table whose name matches the most leading words, lets the
 * row's decode function consume modifiers and append operands, and checks
 * that nothing was left over: an instruction is either understood completely
 * or refused with its PTX line.  Calls are inlined, so that no call stack
 * exists at run time; recursion and indirect calls are refused.
 *
 * Example.  ld.global.nc.v4.u32 {%r1, %r2, %r3, _}, [%rd5+16] has the words
 * ld, global, nc, v4, u32.  "ld" is in mem_table.c; vg_decode_ld consumes the
 * other four and appends the rows of %r1, %r2, %r3 and the sink as written,
 * %rd5 as read, sets imm to 16, fn to its handler and aux to what it has
 * learnt.  With .v3 in place of .v4 a word would be left over: an error.
 */
#include "lower.h"

#include <stdio.h>
#include <stdlib.h>

/* Every file of handlers brings one table; where a name stands in two, the
 * earlier table wins. */
static const struct vg_opcode *const tables[] = {
    vg_ops_int,  vg_ops_bits, vg_ops_float, vg_ops_double,  vg_ops_special,
    vg_ops_half, vg_ops_pred, vg_ops_cvt,   vg_ops_move,    vg_ops_flow,
    vg_ops_warp, vg_ops_mem,  vg_ops_async, vg_ops_barrier, vg_ops_mma,
    vg_ops_hopper,
};

/* The one way arrays grow here: doubling, new elements zeroed, false (and
 * the array as it was) when memory is short. */
bool vg_grow(void *array, int *cap, int n, size_t size)
{
    void **p = array;
    if (n <= *cap)
        return true;
    int want = *cap ? *cap : 64;
    while (want < n)
        want *= 2;
    void *q = realloc(*p, (size_t)want * size);
    if (!q)
        return false;
    memset((char *)q + (size_t)*cap * size, 0, (size_t)(want - *cap) * size);
    *p = q;
    *cap = want;
    return true;
}

/* Only the first error of a compilation is kept: later ones are its
 * consequences. */
bool vg_error(struct vg_dec *d, const char *fmt, ...)
{
    struct vg_lower *lo = d->lower;
    if (lo->err[0])
        return false;
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    snprintf(lo->err, lo->errsize, "ptx:%d: %s: %s", d->in->ptx_line,
             d->in->opcode, text);
    return false;
}

/* How many leading words of the instruction the table name covers: 0 none. */
static int name_match(const char *name, const struct ptx_inst *in)
{
    int n = 0;
    while (*name && n < in->nwords) {
        size_t len = strcspn(name, ".");
        if (strlen(in->word[n]) != len || memcmp(in->word[n], name, len) != 0)
            return 0;
        n++;
        name += len;
        name += *name == '.';
    }
    return *name ? 0 : n;
}

/* The table row for an instruction and, in *n, how many words its name
 * covered; NULL: nobody knows it. A linear search: kernels have a few
 * thousand instructions and the tables two hundred rows. */
static const struct vg_opcode *find_opcode(const struct ptx_inst *in, int *n)
{
    const struct vg_opcode *best = NULL;
    *n = 0;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct vg_opcode *o = tables[t]; o->name; o++) {
            int m = name_match(o->name, in);
            if (m > *n) {
                *n = m;
                best = o;
            }
        }
    return best;
}

/* For rows that several files share: `add` of a float type is decoded by the
 * row "add.float", a parameter load by "ld". Modifiers already consumed stay
 * consumed. */
bool vg_decode_as(struct vg_dec *d, const char *name)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct vg_opcode *o = tables[t]; o->name; o++)
            if (strcmp(o->name, name) == 0) {
                d->out->cls = (uint8_t)o->cls;
                d->out->arg = o->arg;
                return o->decode(d);
            }
    return vg_error(d, "no instruction called %s", name);
}

/* Every modifier consumed, every operand appended? */
static bool nothing_left(struct vg_dec *d)
{
    for (int n = 0; n < d->in->nwords; n++)
        if (!(d->used >> n & 1))
            return vg_error(d, "modifier .%s is not known here",
                            d->in->word[n]);
    for (int k = 0; k < d->in->nops; k++)
        if (!(d->asked >> k & 1))
            return vg_error(d, "operand %d is not known here", k + 1);
    return true;
}

/* Every instruction has a guard, so that the executor need not ask: without
 * @%p it is the constant row that is true everywhere. */
static bool guard(struct vg_dec *d)
{
    if (d->in->guard < 0) {
        d->out->guard = vg_constant_row(d->lower, VG_FILL_VALUE, VG_ALL, 0, 1);
        return true;
    }
    d->out->guard = d->lower->frame->reg_base + d->in->guard;
    d->out->guard_not = d->in->guard_negated ? VG_ALL : 0;
    return true;
}

/* Makes room for one instruction and points d at it. */
static bool new_insn(struct vg_lower *lo, const struct ptx_inst *in,
                     struct vg_dec *d)
{
    struct vg_program *p = lo->program;
    /* The three arrays have one capacity: the first two get copies of it to
     * grow by, the last one moves it on. */
    int cap = lo->insn_cap, cap2 = lo->insn_cap;
    if (!vg_grow(&p->insn, &cap, p->ninsn + 1, sizeof *p->insn) ||
        !vg_grow(&p->src, &cap2, p->ninsn + 1, sizeof *p->src) ||
        !vg_grow(&lo->op_at, &lo->insn_cap, p->ninsn + 1, sizeof *lo->op_at))
        return false;
    p->src[p->ninsn] = in;
    lo->op_at[p->ninsn] = lo->nop;
    *d = (struct vg_dec){.in = in, .out = &p->insn[p->ninsn], .lower = lo};
    return true;
}

/* Bodies contain calls and calls contain bodies. */
static bool lower_func(struct vg_lower *lo, struct vg_frame *f);

/* call of a function with a body: its instructions replace the call.  Its
 * registers follow those in use, its local bytes follow the caller's, and its
 * parameters are aliases of the caller's scratch (struct vg_frame). */
static bool inline_call(struct vg_dec *d, const struct ptx_func *callee)
{
    struct vg_lower *lo = d->lower;
    const struct ptx_inst *in = d->in;
    if (in->guard >= 0)
        return vg_error(d, "a guarded call is not supported");
    for (const struct vg_frame *f = lo->frame; f; f = f->caller)
        if (f->func == callee)
            return vg_error(d, "recursion through %s", callee->name);
    if (in->op[2].nelem != callee->nparams ||
        in->op[0].nelem != callee->nresults)
        return vg_error(d, "%s takes %d parameters and returns %d",
                        callee->name, callee->nparams, callee->nresults);
    struct vg_frame f = {.caller = lo->frame,
                         .func = callee,
                         .reg_base = lo->nvreg,
                         .local_base = lo->program->local_bytes,
                         .arg = &in->op[2],
                         .ret = &in->op[0]};
    return lower_func(lo, &f);
}

/* Is it a call with a body?  Then *callee.  A call without one is left to
 * the table: vprintf, __assertfail (op_flow.c). */
static bool inlinable(const struct vg_lower *lo, const struct ptx_inst *in,
                      const struct ptx_func **callee)
{
    if (strcmp(in->word[0], "call") != 0 || in->nops != 3 ||
        in->op[1].kind != PTX_OP_FUNC || in->op[1].target < 0)
        return false;
    *callee = lo->module->func[in->op[1].target];
    return (*callee)->insts != NULL;
}

/* One instruction of the body: refused, replaced by the body it calls, or
 * appended to the program.  32 operands are as many as `asked` has bits; no
 * instruction but a call comes near. */
static bool lower_inst(struct vg_lower *lo, const struct ptx_inst *in)
{
    struct vg_dec d;
    const struct ptx_func *callee;
    int words;
    if (!new_insn(lo, in, &d))
        return false;
    if (in->nops > 31)
        return vg_error(&d, "%d operands", in->nops);
    if (inlinable(lo, in, &callee))
        return inline_call(&d, callee);
    const struct vg_opcode *o = find_opcode(in, &words);
    if (!o)
        return vg_error(&d, "instruction is not known");
    d.used = (1u << words) - 1;
    d.out->cls = (uint8_t)o->cls;
    d.out->arg = o->arg;
    d.out->target = -1;
    if (!guard(&d) || !o->decode(&d) || !nothing_left(&d))
        return false;
    lo->program->ninsn++;
    return true;
}

/* Turns the branch targets of a placed body into pcs.  A label may lie on a
 * call that was replaced by an empty body; pc[] then names the next
 * instruction, which exists: every function ends in ret. */
static void link_targets(struct vg_lower *lo, const struct vg_frame *f,
                         int from)
{
    struct vg_program *p = lo->program;
    for (int pc = from; pc < p->ninsn; pc++) {
        struct vg_insn *i = &p->insn[pc];
        if (i->target <= -2)
            i->target = f->pc[-2 - i->target];
        if (i->fn == vg_brx) {
            struct vg_jumps *t = (struct vg_jumps *)i->aux;
            for (int n = 0; n < t->n; n++)
                if (t->target[n] <= -2)
                    t->target[n] = f->pc[-2 - t->target[n]];
        }
    }
}

/* Lowers one function body at the end of the program.  Branch targets wait
 * as -2 - (ptx instruction) until the whole body is placed. */
static bool lower_func(struct vg_lower *lo, struct vg_frame *f)
{
    const struct vg_frame *caller = lo->frame;
    struct vg_program *p = lo->program;
    int from = p->ninsn;
    bool ok = false;
    f->pc = calloc((size_t)f->func->ninsts + 1, sizeof *f->pc);
    if (!f->pc)
        return false;
    lo->frame = f;
    p->local_bytes = (p->local_bytes + f->func->local_bytes + 15) & ~15ull;
    for (int r = 0; r < f->func->nregs; r++)
        if (vg_new_vreg(lo, f->func->regs[r].bits, false) < 0)
            goto out;
    for (int n = 0; n < f->func->ninsts; n++) {
        f->pc[n] = p->ninsn;
        if (!lower_inst(lo, &f->func->insts[n]))
            goto out;
    }
    f->pc[f->func->ninsts] = p->ninsn;
    link_targets(lo, f, from);
    ok = true;
out:
    free(f->pc);
    lo->frame = caller;
    return ok;
}

/* run[]: how far straight execution goes from each pc, counted from the end.
 * A warp-wide sync that every lane is sure to have reached counts as
 * straight, but only for a warp that is whole ([1]).  The scheduler executes
 * a run without looking at its groups; 60000 because the count is 16 bits. */
static void measure_runs(struct vg_program *p)
{
    for (int pc = p->ninsn - 1; pc >= 0; pc--) {
        struct vg_insn *i = &p->insn[pc];
        bool straight = i->kind == VG_STRAIGHT;
        bool whole = p->src[pc]->guard < 0 && (i->kind == VG_ALIGNED ||
                     (i->kind == VG_MEMBER && i->member >> 31));
        const uint16_t *next = pc + 1 < p->ninsn ? i[1].run : NULL;
        for (int k = 0; k < 2; k++) {
            unsigned after = next ? next[k] : 0;
            unsigned n = straight || (k && whole) ? after + 1 : 0;
            i->run[k] = (uint16_t)(n > 60000 ? 60000 : n);
        }
    }
}

/* Gives every constant its place below base[1] and writes the template.  A
 * row is 32 times its bits: 4 bytes per bit, and a predicate one word.  Rows
 * start at multiples of 64, a host vector.  Those that differ by launch get a
 * patch instead of a value. */
static bool place_constants(struct vg_lower *lo)
{
    struct vg_program *p = lo->program;
    uint32_t at = 0;
    for (int n = 0; n < lo->nconstant; n++) {
        struct vg_constant *c = &lo->constant[n];
        unsigned bytes = c->bits == 1 ? 4 : c->bits * 4;
        at = (at + bytes + 63) & ~63u;
        c->offset = -(int32_t)at;
    }
    p->constant_bytes = at + 64;
    p->constants = aligned_alloc(64, (p->constant_bytes + 63) & ~63u);
    p->patch = calloc((size_t)lo->nconstant + (size_t)lo->nspecial + 1,
                      sizeof *p->patch);
    if (!p->constants || !p->patch)
        return false;
    memset(p->constants, 0, p->constant_bytes);
    for (int n = 0; n < lo->nconstant; n++) {
        struct vg_constant *c = &lo->constant[n];
        vg_fill_row(p->constants + p->constant_bytes + c->offset, c->value,
                    c->high, c->bits);
        if (c->fill != VG_FILL_VALUE)
            p->patch[p->npatch++] = (struct vg_patch){c->fill, c->value,
                                                      c->bits, c->offset};
    }
    return true;
}

/* Virtual rows become byte offsets, registers from base[0] up and constants
 * from base[1] down, and the special registers that were used become patches
 * of their slots. */
static void resolve_rows(struct vg_lower *lo)
{
    struct vg_program *p = lo->program;
    for (int n = 0; n < lo->nop; n++) {
        int32_t v = p->op[n];
        p->op[n] = v >= 0 ? lo->vreg[v].slot : lo->constant[-v - 1].offset;
    }
    for (int pc = 0; pc < p->ninsn; pc++) {
        struct vg_insn *i = &p->insn[pc];
        int32_t v = i->guard;
        i->guard = v >= 0 ? lo->vreg[v].slot : lo->constant[-v - 1].offset;
        i->op = p->op + lo->op_at[pc];
    }
    for (int n = 0; n < lo->nspecial; n++)
        p->patch[p->npatch++] = (struct vg_patch){
            VG_FILL_SPECIAL, lo->special[n].id, lo->special[n].bits,
            lo->vreg[lo->special[n].vreg].slot};
}

/* From the function to a program that can be launched. The passes run in
 * this order because slots must be known before rows become offsets, and
 * kinds before runs can be measured. */
static bool lower_kernel(struct vg_lower *lo, const struct ptx_func *f)
{
    struct vg_program *p = lo->program;
    struct vg_frame frame = {.func = f};
    lo->sink = lo->carry = -1;
    p->shared_bytes = f->shared_bytes;
    p->dynamic_offset = f->dynamic_offset;
    if (!lower_func(lo, &frame) || !vg_watch_registers(lo) ||
        !vg_assign_slots(lo) || !place_constants(lo))
        return false;
    resolve_rows(lo);
    measure_runs(p);
    return true;
}

/* Whatever failed without a message ran out of memory. */
struct vg_program *vg_compile(const struct ptx_module *m,
                              const struct ptx_func *f, vg_where *where,
                              void *ctx, char *err, size_t errsize)
{
    struct vg_program *p = calloc(1, sizeof *p);
    struct vg_lower lo = {.module = m, .program = p, .where = where,
                          .where_ctx = ctx, .err = err, .errsize = errsize};
    bool ok = false;
    err[0] = 0;
    if (p) {
        p->module = m;
        p->func = f;
        ok = lower_kernel(&lo, f);
    }
    if (!ok && !err[0])
        snprintf(err, errsize, "ptx:0: %s: out of memory", f->name);
    free(lo.vreg);
    free(lo.constant);
    free(lo.hash);
    free(lo.op_at);
    free(lo.access);
    if (!ok) {
        vg_program_free(p);
        return NULL;
    }
    return p;
}

/* Blocks are chained through their first word; the second keeps the
 * alignment of 16. */
void *vg_keep(struct vg_dec *d, size_t size)
{
    struct vg_program *p = d->lower->program;
    void **block = calloc(1, size + 2 * sizeof(void *));
    if (!block)
        return NULL;
    block[0] = p->own;
    p->own = block;
    return block + 2;
}

void vg_program_free(struct vg_program *p)
{
    if (!p)
        return;
    for (void **b = p->own; b;) {
        void **next = b[0];
        free(b);
        b = next;
    }
    free(p->insn);
    free(p->src);
    free(p->op);
    free(p->constants);
    free(p->patch);
    free(p->watch);
    free(p);
}
