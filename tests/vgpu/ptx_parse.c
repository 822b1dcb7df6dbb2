/* SPDX-License-Identifier: Apache-2.0
 *
 * ptx_parse.c: statements, functions and the module (PTX ISA 4.1 to 4.3, 7.1
 * and chapter 11).
 *
 * A body becomes one flat array of instructions; braces leave no trace in it
 * but the names they resolved.  Debug sections are stepped over, `.loc` lines
 * end up in the instructions that follow them.
 */
#include "ptx_front.h"

#include <stdlib.h>
#include <string.h>

/* --- directives that carry no meaning or a number ------------------------- */

/* .pragma "..."{, "..."};  .alias a, b;  .callprototype ...; */
static void skip_to_semicolon(struct ptx_parser *p)
{
    while (!ptx__is(p, ';')) {
        if (p->tok.kind == PTX_T_END)
            ptx__expected(p, "';'");
        ptx__next(p);
    }
    ptx__next(p);
}

/* .section NAME { ... }: DWARF, which has no nested braces. */
static void skip_section(struct ptx_parser *p)
{
    while (!ptx__is(p, '{')) {
        if (p->tok.kind == PTX_T_END)
            ptx__expected(p, "'{'");
        ptx__next(p);
    }
    while (!ptx__is(p, '}')) {
        if (p->tok.kind == PTX_T_END)
            ptx__expected(p, "'}'");
        ptx__next(p);
    }
    ptx__next(p);
}

/* .file INDEX "name"{, time, size} without a semicolon. */
static void read_file(struct ptx_parser *p)
{
    struct ptx_module *m = p->m;
    ptx__next(p);
    uint64_t i = ptx__integer(p, "a file index");
    if (i > 65535)
        ptx__fail(p, p->prev_line, "found file index %llu, expected at most "
                  "65535", (unsigned long long)i);
    if (p->tok.kind != PTX_T_STRING)
        ptx__expected(p, "a file name in quotes");
    while ((uint64_t)m->nfiles <= i)
        *PTX_PUSH(p, m->file, m->nfiles) = NULL;
    m->file[i] = ptx__strdup(p, p->tok.s, p->tok.n);
    ptx__next(p);
    while (ptx__accept(p, ','))
        ptx__integer(p, "a time stamp or size");
}

/* .loc FILE LINE COLUMN{, function_name LABEL{+N}}{, inlined_at F L C} */
static void read_loc(struct ptx_parser *p)
{
    ptx__next(p);
    p->loc_file = (int)(ptx__integer(p, "a file index") & 0xffff);
    p->loc_line = (int)(ptx__integer(p, "a line number") & 0x7fffffff);
    ptx__integer(p, "a column number");
    while (ptx__accept(p, ',')) {
        struct ptx_name *what = ptx__name(p, "function_name or inlined_at");
        if (strcmp(what->s, "inlined_at") == 0) {
            for (int i = 0; i < 3; i++)
                ptx__integer(p, "file, line and column");
        } else if (strcmp(what->s, "function_name") == 0) {
            ptx__name(p, "a label");
            if (ptx__accept(p, '+'))
                ptx__integer(p, "an offset");
        } else {
            ptx__fail(p, p->prev_line, "found '%.60s', expected function_name "
                      "or inlined_at", what->s);
        }
    }
}

/* Directives that may stand anywhere; says whether it was one. */
static bool common_directive(struct ptx_parser *p)
{
    if (ptx__is_dir(p, ".loc"))
        read_loc(p);
    else if (ptx__is_dir(p, ".file"))
        read_file(p);
    else if (ptx__is_dir(p, ".section"))
        skip_section(p);
    else if (ptx__is_dir(p, ".pragma") || ptx__is_dir(p, ".alias"))
        skip_to_semicolon(p);
    else
        return false;
    return true;
}

/* --- instructions --------------------------------------------------------- */

static void read_guard(struct ptx_parser *p, struct ptx_inst *inst)
{
    inst->guard_negated = ptx__accept(p, '!');
    struct ptx_name *name = ptx__name(p, "a predicate register");
    if (!name->top || name->top->kind != PTX_BIND_REG ||
        p->fn->regs[name->top->reg].bits != 1)
        ptx__fail(p, p->prev_line, "found guard '%.60s', expected a predicate "
                  "register", name->s);
    inst->guard = name->top->reg;
}

/* `ld .global .u32` with blanks: joins the parts. */
static struct ptx_name *join_opcode(struct ptx_parser *p,
                                    struct ptx_name *name)
{
    while (p->tok.kind == PTX_T_DIR) {
        char *s = ptx__alloc(p, name->n + p->tok.n + 1);
        memcpy(s, name->s, name->n);
        memcpy(s + name->n, p->tok.s, p->tok.n);
        name = ptx__intern(p, s, name->n + p->tok.n);
        ptx__next(p);
    }
    return name;
}

static bool is_paren_list(const struct ptx_operand *op, int line_is_vec)
{
    return line_is_vec && op->kind == PTX_OP_VEC;
}

/* Fills in the empty lists of a call and marks its callee. */
static void normalise_call(struct ptx_parser *p, struct ptx_inst *inst)
{
    struct ptx_operand *op = ptx__alloc(p, 3 * sizeof *op);
    int i = 0;
    op[0].kind = op[2].kind = PTX_OP_VEC;
    if (i < inst->nops && is_paren_list(&inst->op[i], 1))
        op[0] = inst->op[i++];
    if (i < inst->nops)
        op[1] = inst->op[i++];
    if (i < inst->nops && is_paren_list(&inst->op[i], 1))
        op[2] = inst->op[i++];
    if (op[1].kind == PTX_OP_LABEL)
        op[1].kind = PTX_OP_FUNC;
    if (op[1].kind != PTX_OP_FUNC && op[1].kind != PTX_OP_REG)
        ptx__fail(p, inst->ptx_line, "found a call of something else, "
                  "expected a function or a register");
    p->uses_module_shared = true;
    inst->op = op;
    inst->nops = 3;
}
