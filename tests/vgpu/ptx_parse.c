/* SPDX-License-Identifier: Apache-2.0
 *
 * ptx_parse.c: statements, functions and the module (PTX ISA 4.1 to 4.3, 7.1
 * and chapter 11).
 *
 * A body becomes one flat array of instructions; braces leave no trace in it
 * but the names they resolved.  Debug sections are stepped over, `.loc` lines
 * end up in the instructions that follow them.
 *
 * Statements are told apart by their first token: a word begins a label or an
 * instruction, '@' a guarded one, a dot a directive.  There is one token of
 * look-ahead and no way back.
 */
#include "ptx_front.h"

#include <stdlib.h>
#include <string.h>

/* --- directives that carry no meaning or a number ------------------------ */

/* .pragma "..."{, "..."};  .alias a, b;  .callprototype ...;  None of them
 * changes what the instructions do. */
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

/* .file INDEX "name"{, time, size} without a semicolon.  Indices may come in
 * any order and leave gaps, so the array grows to the index; 65,535 keeps a
 * bad text from making it grow for ever. */
static void read_file(struct ptx_parser *p)
{
    struct ptx_module *m = p->m;
    ptx__next(p);
    uint64_t i = ptx__integer(p, "a file index");
    if (i > 65535)
        ptx__fail(p, p->prev_line,
                  "found file index %llu, expected at most "
                  "65535",
                  (unsigned long long)i);
    if (p->tok.kind != PTX_T_STRING)
        ptx__expected(p, "a file name in quotes");
    while ((uint64_t)m->nfiles <= i)
        *PTX_PUSH(p, m->file, m->nfiles) = NULL;
    m->file[i] = ptx__strdup(p, p->tok.s, p->tok.n);
    ptx__next(p);
    while (ptx__accept(p, ','))
        ptx__integer(p, "a time stamp or size");
}

/* .loc FILE LINE COLUMN{, function_name LABEL{+N}}{, inlined_at F L C}: holds
 * for the instructions up to the next one.  Of code that was inlined, the
 * place in the inlined function is kept: it is the line that is wrong. */
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
            ptx__fail(p, p->prev_line,
                      "found '%.60s', expected function_name "
                      "or inlined_at",
                      what->s);
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

/* --- instructions -------------------------------------------------------- */

/* The part of @%p or @!%p behind the @.  A guard is a predicate register of
 * the function and nothing else (PTX ISA 9.3). */
static void read_guard(struct ptx_parser *p, struct ptx_inst *inst)
{
    inst->guard_negated = ptx__accept(p, '!');
    struct ptx_name *name = ptx__name(p, "a predicate register");
    if (!name->top || name->top->kind != PTX_BIND_REG ||
        p->fn->regs[name->top->reg].bits != 1)
        ptx__fail(p, p->prev_line,
                  "found guard '%.60s', expected a predicate "
                  "register",
                  name->s);
    inst->guard = name->top->reg;
}

/* `ld .global .u32` with blanks: joins the parts, as if there were none.  Hand-
 * written assembly breaks long opcodes so. */
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

/* Gives a call its three operands, with empty lists where the text has none:
 * call (results), callee, (arguments), prototype */
static void normalise_call(struct ptx_parser *p, struct ptx_inst *inst)
{
    struct ptx_operand *op = ptx__alloc(p, 3 * sizeof *op), *given = inst->op;
    struct ptx_operand *end = given + inst->nops;
    op[0].kind = op[2].kind = PTX_OP_VEC;
    if (given < end && given->kind == PTX_OP_VEC)
        op[0] = *given++;
    if (given == end ||
        (given->kind != PTX_OP_LABEL && given->kind != PTX_OP_REG))
        ptx__fail(p, inst->ptx_line,
                  "found a call of nothing, expected a "
                  "function or a register");
    op[1] = *given++;
    if (given < end && given->kind == PTX_OP_VEC)
        op[2] = *given;
    if (op[1].kind == PTX_OP_REG ||
        !ptx__intern(p, op[1].name, strlen(op[1].name))->is_extern_func)
        p->uses_module_shared = true;
    inst->op = op;
    inst->nops = 3;
}

/* OPCODE operand{, operand}; with the guard already in inst.  Splitting the
 * opcode is done once per distinct opcode; the words are copied because an
 * instruction owns its array. */
static void read_instruction(struct ptx_parser *p, struct ptx_inst inst,
                             struct ptx_name *opcode)
{
    inst.ptx_line = p->prev_line;
    inst.file = p->loc_file;
    inst.line = p->loc_line;
    opcode = join_opcode(p, opcode);
    if (!opcode->word)
        ptx__split(p, opcode);
    inst.opcode = opcode->s;
    inst.nwords = opcode->nwords;
    memcpy(inst.word, opcode->word, sizeof inst.word);
    if (!ptx__is(p, ';')) {
        do {
            ptx__operand(p, PTX_PUSH(p, inst.op, inst.nops));
        } while (ptx__accept(p, ','));
    }
    ptx__expect(p, ';');
    if (strcmp(inst.word[0], "call") == 0)
        normalise_call(p, &inst);
    for (int i = 0; i < inst.nops; i++)
        ptx__await_labels(p, &inst.op[i], inst.ptx_line);
    *PTX_PUSH(p, p->fn->insts, p->fn->ninsts) = inst;
}

/* NAME: .branchtargets L1, L2;  The name then stands for the list, which the
 * operand of brx.idx becomes (PTX ISA 9.7.12.4). */
static void read_branch_targets(struct ptx_parser *p, struct ptx_name *name)
{
    struct ptx_operand *list = ptx__alloc(p, sizeof *list);
    int line = p->tok.line;
    ptx__next(p);
    ptx__operand_list(p, list, ';');
    for (int i = 0; i < list->nelem; i++)
        if (list->elem[i].kind != PTX_OP_LABEL)
            ptx__fail(p, line,
                      "found something else in .branchtargets, "
                      "expected labels");
    ptx__await_labels(p, list, line);
    ptx__bind(p, name, PTX_BIND_LIST)->list = list;
}

/* A label, or an instruction that begins with a word: which of the two shows
 * in the colon behind it. */
static void word_statement(struct ptx_parser *p)
{
    struct ptx_name *name = ptx__name(p, "an instruction");
    if (!ptx__accept(p, ':'))
        read_instruction(p, (struct ptx_inst){.guard = -1}, name);
    else if (ptx__is_dir(p, ".branchtargets"))
        read_branch_targets(p, name);
    else if (ptx__is_dir(p, ".callprototype") ||
             ptx__is_dir(p, ".calltargets"))
        skip_to_semicolon(p);
    else
        ptx__declare_label(p, name);
}

/* One statement of a body, braces excepted.  A lone ';' is an empty one. */
static void statement(struct ptx_parser *p)
{
    enum ptx_space space;
    if (p->tok.kind == PTX_T_WORD) {
        word_statement(p);
    } else if (ptx__accept(p, '@')) {
        struct ptx_inst inst = {.guard = -1};
        read_guard(p, &inst);
        read_instruction(p, inst, ptx__name(p, "an instruction"));
    } else if (ptx__is_dir(p, ".reg")) {
        ptx__declare_registers(p);
    } else if (ptx__at_space(p, &space)) {
        ptx__declare_variables(p, false);
    } else if (!ptx__accept(p, ';') && !common_directive(p)) {
        ptx__expected(p, "an instruction, a declaration, '{' or '}'");
    }
}

/* { statements }, the function's scope being open.  The outermost braces are
 * the function's own, so they open no scope of their own. */
static void read_body(struct ptx_parser *p)
{
    int depth = 1;
    ptx__expect(p, '{');
    while (depth > 0) {
        if (ptx__accept(p, '{')) {
            depth++;
            ptx__open_scope(p);
        } else if (ptx__is(p, '}')) {
            if (--depth > 0)
                ptx__close_scope(p);
            ptx__next(p);
        } else {
            statement(p);
        }
    }
}

/* --- functions ----------------------------------------------------------- */

/* (.param ... name, ...) laid out in the parameter segment of fn; *n counts
 * them.  NULL: none. */
static struct ptx_symbol **read_params(struct ptx_parser *p,
                                       struct ptx_func *fn, int *n)
{
    struct ptx_symbol **list = NULL;
    if (!ptx__accept(p, '('))
        return NULL;
    if (ptx__accept(p, ')'))
        return NULL;
    do {
        struct ptx_symbol *sym = ptx__declare_param(p);
        ptx__place(p, sym, &fn->param_bytes);
        *PTX_PUSH(p, list, *n) = sym;
    } while (ptx__accept(p, ','));
    ptx__expect(p, ')');
    return list;
}

/* .maxntid 128, 1, 1 and its like: up to n numbers, the rest 1, as the
 * directives say of dimensions that are left out. */
static void read_numbers(struct ptx_parser *p, unsigned *to, int n)
{
    for (int i = 1; i < n; i++)
        to[i] = 1;
    for (int i = 0; i < n; i++) {
        uint64_t v = ptx__integer(p, "a positive number");
        if (v == 0 || v > INT32_MAX)
            ptx__fail(p, p->prev_line,
                      "found %llu, expected a positive "
                      "number",
                      (unsigned long long)v);
        to[i] = (unsigned)v;
        if (!ptx__accept(p, ','))
            return;
    }
}

/* Performance and cluster directives between head and body (PTX ISA 11.4 and
 * its neighbours); says whether a directive was there.  Those that only steer
 * ptxas are read and forgotten. */
static bool head_directive(struct ptx_parser *p, struct ptx_func *fn)
{
    unsigned ignored[3];
    const struct {
        const char *name;
        unsigned *to;
        int n;
    } table[] = {
        {".maxntid", fn->maxntid, 3},
        {".reqntid", fn->reqntid, 3},
        {".minnctapersm", &fn->minnctapersm, 1},
        {".maxnctapersm", ignored, 1},
        {".maxnreg", &fn->maxnreg, 1},
        {".reqnctapercluster", fn->cluster, 3},
        {".maxclusterrank", ignored, 1},
        {".abi_preserve", ignored, 1},
        {".abi_preserve_control", ignored, 1},
        {".explicitcluster", NULL, 0},
        {".blocksareclusters", NULL, 0},
        {".noreturn", NULL, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (ptx__is_dir(p, table[i].name)) {
            ptx__next(p);
            read_numbers(p, table[i].to, table[i].n);
            return true;
        }
    }
    if (ptx__is_dir(p, ".attribute"))
        ptx__skip_attribute(p);
    else
        return common_directive(p);
    return true;
}

/* Places the entry's own shared variables, behind those of the module if it
 * can reach them, and ends the array of instructions. */
static void finish_function(struct ptx_parser *p, struct ptx_func *fn)
{
    struct ptx_inst ret = {.opcode = "ret",
                           .word = {"ret"},
                           .nwords = 1,
                           .guard = -1,
                           .ptx_line = p->prev_line,
                           .file = p->loc_file,
                           .line = p->loc_line};
    *PTX_PUSH(p, fn->insts, fn->ninsts) = ret;
    fn->shared_bytes = p->uses_module_shared ? p->module_shared : 0;
    for (int i = 0; i < p->nown_shared; i++)
        ptx__place(p, p->own_shared[i], &fn->shared_bytes);
    uint64_t align = p->dynamic_align > 16 ? p->dynamic_align : 16;
    fn->dynamic_offset = (fn->shared_bytes + align - 1) & ~(align - 1);
}

/* Reads the body.  The function gets its index before, so that it can call
 * itself (which the executor then refuses with a better message).  What
 * belongs to one function in the parser's state starts afresh. */
static void define_function(struct ptx_parser *p, struct ptx_func *fn,
                            struct ptx_name *name)
{
    if (name->func >= 0)
        ptx__fail(p, p->tok.line,
                  "found a second body of '%.60s', expected "
                  "one",
                  name->s);
    name->func = p->m->nfuncs;
    *PTX_PUSH(p, p->m->func, p->m->nfuncs) = fn;
    p->fn = fn;
    p->nown_shared = 0;
    p->own_shared = NULL;
    p->uses_module_shared = false;
    p->dynamic_align = p->loc_file = p->loc_line = 0;
    read_body(p);
    finish_function(p, fn);
    p->fn = NULL;
}

/* .entry NAME (params) directives { body }
 * .func (results) NAME (params) directives { body }, or ; for a prototype */
static void read_function(struct ptx_parser *p, bool is_extern)
{
    struct ptx_func *fn = ptx__alloc(p, sizeof *fn);
    fn->is_entry = ptx__is_dir(p, ".entry");
    ptx__next(p);
    ptx__open_scope(p);
    struct ptx_func scratch = {0};
    if (!fn->is_entry)
        fn->result = read_params(p, &scratch, &fn->nresults);
    struct ptx_name *name = ptx__name(p, "the name of a function");
    fn->name = name->s;
    name->is_func = true;
    name->is_extern_func = is_extern;
    fn->param = read_params(p, fn, &fn->nparams);
    for (int i = 0; i < fn->nresults; i++)
        ptx__place(p, fn->result[i], &fn->param_bytes);
    while (head_directive(p, fn))
        ;
    if (ptx__is(p, '{'))
        define_function(p, fn, name);
    else
        ptx__expect(p, ';');
    ptx__close_scope(p);
}

/* --- the module ---------------------------------------------------------- */

/* Gives each use of a function its index, at the end, since a call may come
 * before the body.  -1: declared, but without a body here. */
static void resolve_functions(struct ptx_parser *p)
{
    for (struct ptx_pending *w = p->scope->pending; w; w = w->next) {
        if (!w->name->is_func)
            ptx__fail(p, w->line,
                      "found '%.60s', expected a declared "
                      "register, variable, function or label",
                      w->name->s);
        w->op->target = w->name->func;
    }
}

/* .version MAJOR.MINOR, the first statement of any module.  The lexer took it
 * for a decimal number; the digits count, not its value. */
static void read_version(struct ptx_parser *p)
{
    char *end;
    if (!ptx__is_dir(p, ".version"))
        ptx__expected(p, "'.version'");
    ptx__next(p);
    const char *s = p->tok.s;
    if (p->tok.kind != PTX_T_F64)
        ptx__expected(p, "a version such as 9.0");
    long major = strtol(s, &end, 10);
    long minor = *end == '.' ? strtol(end + 1, &end, 10) : -1;
    if (end != s + p->tok.n || minor < 0 || minor > 9 || major > 99)
        ptx__expected(p, "a version such as 9.0");
    p->m->version = (int)(major * 10 + minor);
    ptx__next(p);
}

/* .target sm_XX{, option}, the second.  Options (debug, map_f64_to_f32) say
 * nothing that this executor needs. */
static void read_target(struct ptx_parser *p)
{
    if (!ptx__is_dir(p, ".target"))
        ptx__expected(p, "'.target'");
    ptx__next(p);
    if (p->tok.kind != PTX_T_WORD || p->tok.n >= sizeof p->m->target ||
        strncmp(p->tok.s, "sm_", 3) != 0)
        ptx__expected(p, "a target such as sm_80");
    memcpy(p->m->target, p->tok.s, p->tok.n);
    ptx__next(p);
    while (ptx__accept(p, ','))
        ptx__name(p, "a target option");
}

/* .address_size 64: the only size since sm_20 that this reads. */
static void read_address_size(struct ptx_parser *p)
{
    ptx__next(p);
    if (ptx__integer(p, "64") != 64)
        ptx__fail(p, p->prev_line,
                  "found an .address_size that is not 64, "
                  "expected 64");
}

/* .visible, .weak, .extern, .common before a variable or function. */
static void module_statement(struct ptx_parser *p)
{
    enum ptx_space space;
    bool is_extern = false;
    while (ptx__is_dir(p, ".visible") || ptx__is_dir(p, ".weak") ||
           ptx__is_dir(p, ".extern") || ptx__is_dir(p, ".common")) {
        is_extern |= ptx__is_dir(p, ".extern");
        ptx__next(p);
    }
    if (ptx__is_dir(p, ".entry") || ptx__is_dir(p, ".func"))
        read_function(p, is_extern);
    else if (ptx__at_space(p, &space))
        ptx__declare_variables(p, is_extern);
    else if (ptx__is_dir(p, ".address_size"))
        read_address_size(p);
    else if (!ptx__accept(p, ';') && !common_directive(p))
        ptx__expected(p, "a function, a variable or a module directive");
}

/* The whole text: .version and .target first, then anything in any order.  0
 * bytes at its end, as in a C string, are no part of it.  A copy is made, so
 * the caller's text may go. */
static void read_module(struct ptx_parser *p, const char *text, size_t n)
{
    while (n > 0 && text[n - 1] == 0)
        n--;
    p->m = ptx__new_module(p);
    p->at = ptx__strdup(p, text, n);
    p->end = p->at + n;
    p->line = 1;
    ptx__next(p);
    read_version(p);
    read_target(p);
    ptx__open_scope(p);
    while (p->tok.kind != PTX_T_END)
        module_statement(p);
    resolve_functions(p);
}

/* Everything below leaves by longjmp on the first error; the arena then goes
 * whole. */
struct ptx_module *ptx_parse(const char *text, size_t n, char *err,
                             size_t errsize)
{
    struct ptx_parser parser = {.err = err, .errsize = errsize};
    if (setjmp(parser.fail)) {
        ptx__free_chunks(parser.chunks);
        return NULL;
    }
    read_module(&parser, text, n);
    *ptx__module_chunks(parser.m) = parser.chunks;
    return parser.m;
}

void ptx_free(struct ptx_module *m)
{
    if (m)
        ptx__free_chunks(*ptx__module_chunks(m));
}
