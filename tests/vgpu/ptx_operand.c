/* SPDX-License-Identifier: Apache-2.0
 *
 * ptx_operand.c: operands (PTX ISA chapter 6).
 *
 *   %r1  !%p1  -5  0f3F800000  sym  sym+8  %tid.x  label  _
 *   {a, b, _, 0.}   d|p   [%rd1+16]   [sym]   [map, {%r1, %r2}]
 *
 * Registers and variables must be declared before use and are resolved at
 * once; any other word is taken for a label, which may come later.
 */
#include "ptx_front.h"

#include <string.h>

/* Remembers what the function needs of shared memory beside its own: a
 * variable of the module, or the dynamic part (.extern .shared x[]), whose
 * alignment decides where it starts. */
static void note_shared_use(struct ptx_parser *p, const struct ptx_binding *b)
{
    if (b->sym->space != PTX_SHARED || b->scope->outer)
        return;
    if (b->sym->size > 0) {
        p->uses_module_shared = true;
    } else {
        p->fn->uses_dynamic_shared = true;
        if (b->sym->align > p->dynamic_align)
            p->dynamic_align = b->sym->align;
    }
}

/* A word is, in this order: something declared, a special register, the
 * sink, the constant WARP_SZ, or a label that may still come. */
static void word_operand(struct ptx_parser *p, struct ptx_operand *op)
{
    struct ptx_name *name = ptx__name(p, "an operand");
    struct ptx_binding *b = name->top;
    op->name = name->s;
    if (b && b->kind == PTX_BIND_REG) {
        op->kind = PTX_OP_REG;
        op->reg = b->reg;
    } else if (b && b->kind == PTX_BIND_SYM) {
        op->kind = PTX_OP_SYM;
        op->sym = b->sym;
        note_shared_use(p, b);
    } else if (b) {
        *op = *b->list;
    } else if (ptx__is_special(name)) {
        op->kind = PTX_OP_SPECIAL;
        op->name = name->s + 1;
    } else if (name->n == 1 && name->s[0] == '_') {
        op->kind = PTX_OP_SINK;
    } else if (name->n == 7 && memcmp(name->s, "WARP_SZ", 7) == 0) {
        op->kind = PTX_OP_IMM;
        op->bits = 32;
    } else {
        op->kind = PTX_OP_LABEL;
        op->target = -1;
    }
}

/* A literal after `minus`, or a '~' or '!' of an integer constant. */
static void literal_operand(struct ptx_parser *p, struct ptx_operand *op,
                            bool minus)
{
    op->bits = p->tok.bits;
    switch (p->tok.kind) {
    case PTX_T_INT:
        op->kind = PTX_OP_IMM;
        op->bits = minus ? -op->bits : op->bits;
        break;
    case PTX_T_F32:
        op->kind = PTX_OP_F32;
        op->bits ^= minus ? UINT64_C(1) << 31 : 0;
        break;
    case PTX_T_F64:
        op->kind = PTX_OP_F64;
        op->bits ^= minus ? UINT64_C(1) << 63 : 0;
        break;
    default:
        ptx__expected(p, minus ? "a number after '-'" : "an operand");
    }
    ptx__next(p);
}

/* What can stand inside a vector: no brackets, no further braces.  Signs and
 * operators may be repeated: macros leave them behind. */
static void simple_operand(struct ptx_parser *p, struct ptx_operand *op)
{
    bool minus = false, inverted = false;
    while (ptx__is(p, '-') || ptx__is(p, '+')) {
        minus ^= ptx__is(p, '-');
        ptx__next(p);
    }
    while (ptx__accept(p, '!'))
        op->negated = !op->negated;
    while (ptx__accept(p, '~'))
        inverted = !inverted;
    if (p->tok.kind != PTX_T_WORD || minus || inverted) {
        if (op->negated || (inverted && p->tok.kind != PTX_T_INT))
            ptx__expected(p, op->negated ? "a predicate after '!'"
                                         : "an integer after '~'");
        literal_operand(p, op, minus);
        op->bits = inverted ? ~op->bits : op->bits;
        return;
    }
    word_operand(p, op);
    if (op->negated && op->kind != PTX_OP_REG)
        ptx__fail(p, p->prev_line,
                  "found '!%.60s', expected a predicate "
                  "register after '!'",
                  op->name);
}

/* `+ 8`, `- 8`, `+-8`, any number of times; 0 when there is none.  NVRTC
 * writes [%rd1+-8] for a negative one. */
static int64_t displacement(struct ptx_parser *p)
{
    uint64_t sum = 0;
    while (ptx__is(p, '+') || ptx__is(p, '-')) {
        bool minus = ptx__is(p, '-');
        ptx__next(p);
        uint64_t v = (uint64_t)ptx__signed(p, "an integer offset");
        sum += minus ? -v : v;
    }
    return (int64_t)sum;
}

/* Elements up to `close`; none at all is a list, too (call (), f, ()). */
void ptx__operand_list(struct ptx_parser *p, struct ptx_operand *vec,
                       char close)
{
    vec->kind = PTX_OP_VEC;
    vec->elem = NULL;
    if (ptx__accept(p, close))
        return;
    do {
        simple_operand(p, PTX_PUSH(p, vec->elem, vec->nelem));
    } while (ptx__accept(p, ','));
    ptx__expect(p, close);
}

/* After `[`: a base and displacement, then the coordinates, if any: only
 * tensor copies have them, and their number is checked where the dimension is
 * known. */
static void address_operand(struct ptx_parser *p, struct ptx_operand *op)
{
    op->kind = PTX_OP_ADDR;
    struct ptx_operand *base = PTX_PUSH(p, op->elem, op->nelem);
    simple_operand(p, base);
    if (base->kind != PTX_OP_REG && base->kind != PTX_OP_SYM &&
        base->kind != PTX_OP_IMM)
        ptx__fail(p, p->prev_line,
                  "found '%.60s' in an address, expected a "
                  "register, a variable or an integer",
                  base->name ? base->name : "a float");
    op->imm = displacement(p);
    if (ptx__accept(p, ',')) {
        struct ptx_operand coords = {0};
        ptx__expect(p, '{');
        ptx__operand_list(p, &coords, '}');
        for (int i = 0; i < coords.nelem; i++)
            *PTX_PUSH(p, op->elem, op->nelem) = coords.elem[i];
    }
    ptx__expect(p, ']');
}

/* first | second: the two destinations of shfl, setp, elect and lop3. */
static void pair_operand(struct ptx_parser *p, struct ptx_operand *op)
{
    struct ptx_operand first = *op;
    *op = (struct ptx_operand){.kind = PTX_OP_PAIR};
    *PTX_PUSH(p, op->elem, op->nelem) = first;
    simple_operand(p, PTX_PUSH(p, op->elem, op->nelem));
    for (int i = 0; i < 2; i++)
        if (op->elem[i].kind != PTX_OP_REG && op->elem[i].kind != PTX_OP_SINK)
            ptx__fail(p, p->prev_line,
                      "found '%.60s' beside '|', expected a "
                      "register or '_'",
                      op->elem[i].name ? op->elem[i].name : "a number");
}

/* One operand of an instruction, told apart by its first character. */
void ptx__operand(struct ptx_parser *p, struct ptx_operand *op)
{
    if (ptx__accept(p, '[')) {
        address_operand(p, op);
    } else if (ptx__accept(p, '{')) {
        ptx__operand_list(p, op, '}');
    } else if (ptx__accept(p, '(')) {
        ptx__operand_list(p, op, ')');
    } else {
        simple_operand(p, op);
        if (op->kind == PTX_OP_SYM)
            op->imm = displacement(p);
        if (ptx__accept(p, '|'))
            pair_operand(p, op);
    }
}
