/* SPDX-License-Identifier: Apache-2.0
 *
 * operand.c: what decode functions see of an instruction.
 *
 * Modifiers are a set: vg_mod and friends consume words wherever they stand,
 * because compilers and hand-written asm order them differently.  Operands
 * become rows: a register is its slot; a literal, a kernel parameter, a
 * symbol's address or a launch-wide special register is a constant row with
 * the same value in all lanes, made once however often it is used.
 *
 * Example.  In mad.lo.s32 %r3, %r1, %ntid.x, -1 the rows are %r3, %r1, a
 * constant that launch.c fills for each launch, and a constant with 0xffffffff
 * in all lanes.  The handler sees four arrays of 32 words.
 */
#include "lower.h"

#include <stdlib.h>

/* ---- modifiers ----------------------------------------------------------- */

/* word[0] is the opcode itself and never a modifier. */
bool vg_mod(struct vg_dec *d, const char *word)
{
    for (int n = 1; n < d->in->nwords; n++)
        if (!(d->used >> n & 1) && strcmp(d->in->word[n], word) == 0) {
            d->used |= 1u << n;
            return true;
        }
    return false;
}

/* The words are tried in the order of the list, not of the instruction. */
int vg_mod_of(struct vg_dec *d, const char *words)
{
    char word[40];
    for (int index = 0; *words; index++) {
        size_t len = strcspn(words, "|");
        memcpy(word, words, len);
        word[len] = 0;
        if (vg_mod(d, word))
            return index;
        words += len;
        words += *words == '|';
    }
    return -1;
}

/* Names as PTX spells them and bits of one element; packed types (f16x2) are
 * one element of twice the bits. */
static const struct {
    const char *name;
    unsigned bits;
} types[] = {
    [VG_NOTYPE] = {"none", 0},
    [VG_PRED] = {"pred", 1},
    [VG_B8] = {"b8", 8},
    [VG_U8] = {"u8", 8},
    [VG_S8] = {"s8", 8},
    [VG_B16] = {"b16", 16},
    [VG_U16] = {"u16", 16},
    [VG_S16] = {"s16", 16},
    [VG_F16] = {"f16", 16},
    [VG_BF16] = {"bf16", 16},
    [VG_B32] = {"b32", 32},
    [VG_U32] = {"u32", 32},
    [VG_S32] = {"s32", 32},
    [VG_F32] = {"f32", 32},
    [VG_TF32] = {"tf32", 32},
    [VG_F16X2] = {"f16x2", 32},
    [VG_BF16X2] = {"bf16x2", 32},
    [VG_U16X2] = {"u16x2", 32},
    [VG_S16X2] = {"s16x2", 32},
    [VG_B64] = {"b64", 64},
    [VG_U64] = {"u64", 64},
    [VG_S64] = {"s64", 64},
    [VG_F64] = {"f64", 64},
    [VG_F32X2] = {"f32x2", 64},
    [VG_B128] = {"b128", 128},
    [VG_E4M3] = {"e4m3", 8},
    [VG_E5M2] = {"e5m2", 8},
    [VG_E4M3X2] = {"e4m3x2", 16},
    [VG_E5M2X2] = {"e5m2x2", 16},
    [VG_E2M1] = {"e2m1", 4},
    [VG_E2M3] = {"e2m3", 8},
    [VG_E3M2] = {"e3m2", 8},
    [VG_E2M1X2] = {"e2m1x2", 8},
    [VG_E2M3X2] = {"e2m3x2", 16},
    [VG_E3M2X2] = {"e3m2x2", 16},
    [VG_UE8M0X2] = {"ue8m0x2", 16},
    [VG_UE8M0] = {"ue8m0", 8},
    [VG_S4] = {"s4", 4},
    [VG_U4] = {"u4", 4},
    [VG_B1] = {"b1", 1},
};

/* The table is complete by construction: every vg_type has a row. */
unsigned vg_bits(enum vg_type t)
{
    return types[t].bits;
}

const char *vg_type_name(enum vg_type t)
{
    return types[t].name;
}

/* Words come in the order of the text, so cvt.rn.f16.f32 yields f16 first. */
enum vg_type vg_type(struct vg_dec *d)
{
    for (int n = 1; n < d->in->nwords; n++) {
        if (d->used >> n & 1)
            continue;
        for (unsigned t = 1; t < sizeof types / sizeof *types; t++)
            if (strcmp(types[t].name, d->in->word[n]) == 0) {
                d->used |= 1u << n;
                return (enum vg_type)t;
            }
    }
    return VG_NOTYPE;
}

bool vg_need_type(struct vg_dec *d, enum vg_type *t)
{
    *t = vg_type(d);
    return *t != VG_NOTYPE || vg_error(d, "no type named");
}

/* ---- rows ---------------------------------------------------------------- */

/* A new virtual register, its slot not yet known; -1 when out of memory. */
int vg_new_vreg(struct vg_lower *lo, unsigned bits, bool pinned)
{
    if (!vg_grow(&lo->vreg, &lo->vreg_cap, lo->nvreg + 1, sizeof *lo->vreg))
        return -1;
    lo->vreg[lo->nvreg] = (struct vg_vreg){bits, pinned, -1};
    return lo->nvreg++;
}

/* Multiplicative hashing (Knuth 6.4); the high bits are the good ones. */
static unsigned constant_hash(const struct vg_constant *c)
{
    uint64_t h = c->value * UINT64_C(0x9e3779b97f4a7c15) ^ c->high;
    h ^= (uint64_t)c->bits << 3 ^ (uint64_t)c->fill;
    return (unsigned)((h * UINT64_C(0xbf58476d1ce4e5b9)) >> 33);
}

/* Doubles the table; it is kept at most half full, so that probes are short
 * and always end. */
static bool rehash(struct vg_lower *lo)
{
    int size = lo->hash_size ? lo->hash_size * 2 : 256;
    int *h = malloc((size_t)size * sizeof *h);
    if (!h)
        return false;
    for (int n = 0; n < size; n++)
        h[n] = -1;
    for (int n = 0; n < lo->nconstant; n++) {
        unsigned at = constant_hash(&lo->constant[n]) & (unsigned)(size - 1);
        while (h[at] >= 0)
            at = (at + 1) & (unsigned)(size - 1);
        h[at] = n;
    }
    free(lo->hash);
    lo->hash = h;
    lo->hash_size = size;
    return true;
}

/* Returns the virtual row, or 0 when out of memory: constants are < 0. */
int32_t vg_constant_row(struct vg_lower *lo, enum vg_fill fill,
                        uint64_t value, uint64_t high, unsigned bits)
{
    struct vg_constant c = {fill, value, high, bits, 0};
    if (2 * (lo->nconstant + 1) > lo->hash_size && !rehash(lo))
        return 0;
    unsigned mask = (unsigned)lo->hash_size - 1;
    unsigned at = constant_hash(&c) & mask;
    for (; lo->hash[at] >= 0; at = (at + 1) & mask) {
        const struct vg_constant *k = &lo->constant[lo->hash[at]];
        if (k->value == value && k->high == high && k->bits == bits &&
            k->fill == fill)
            return -lo->hash[at] - 1;
    }
    if (!vg_grow(&lo->constant, &lo->constant_cap, lo->nconstant + 1, sizeof c))
        return 0;
    lo->hash[at] = lo->nconstant;
    lo->constant[lo->nconstant] = c;
    return -++lo->nconstant;
}

/* A row's number in the instruction is the order of these calls; handlers
 * rely on it. */
bool vg_append(struct vg_dec *d, int32_t row, unsigned access)
{
    struct vg_lower *lo = d->lower;
    /* Two arrays of one capacity, as in decode.c's new_insn. */
    int cap = lo->op_cap;
    if (d->out->nop == 255)
        return vg_error(d, "more than 255 operands");
    if (!vg_grow(&lo->program->op, &cap, lo->nop + 1, sizeof(int32_t)) ||
        !vg_grow(&lo->access, &lo->op_cap, lo->nop + 1, 1))
        return false;
    lo->program->op[lo->nop] = row;
    lo->access[lo->nop++] = (uint8_t)access;
    d->out->nop++;
    return true;
}

/* Values are cut to their width first, so that -1 and 0xffffffff as .b32 are
 * one row. 128-bit literals are sign-extended. */
static bool append_constant(struct vg_dec *d, enum vg_fill fill, uint64_t v,
                            unsigned bits)
{
    if (fill == VG_FILL_VALUE && bits < 64)
        v &= (UINT64_C(1) << (bits == 1 ? 32 : bits)) - 1;
    uint64_t high = bits == 128 && (int64_t)v < 0 ? ~UINT64_C(0) : 0;
    int32_t row = vg_constant_row(d->lower, fill, v, high, bits);
    return row < 0 && vg_append(d, row, VG_READ);
}

/* A predicate constant is the whole mask. */
bool vg_in_const(struct vg_dec *d, uint64_t v, unsigned bits)
{
    return append_constant(d, VG_FILL_VALUE,
                           bits == 1 ? (v ? VG_ALL : 0) : v, bits);
}

/* A constant row that the launch fills (launch.c, fill_constants). */
bool vg_in_param(struct vg_dec *d, uint64_t offset, unsigned bits)
{
    return append_constant(d, VG_FILL_PARAM, offset, bits);
}

/* The row of a special register: a constant when launch-wide, else a pinned
 * register that launch.c fills when the CTA starts. */
static bool append_special(struct vg_dec *d, const char *name, unsigned bits)
{
    struct vg_lower *lo = d->lower;
    unsigned own;
    bool uniform;
    int id = vg_special_find(name, &own, &uniform);
    if (id < 0)
        return vg_error(d, "special register %%%s is not known", name);
    if (!bits)
        bits = own;
    if (uniform)
        return append_constant(d, VG_FILL_SPECIAL, (uint64_t)id, bits);
    for (int n = 0; n < lo->nspecial; n++)
        if (lo->special[n].id == (unsigned)id && lo->special[n].bits == bits)
            return vg_append(d, lo->special[n].vreg, VG_READ);
    if (lo->nspecial == (int)(sizeof lo->special / sizeof *lo->special))
        return vg_error(d, "too many special registers");
    int v = vg_new_vreg(lo, bits, true);
    if (v < 0)
        return false;
    lo->special[lo->nspecial].id = (unsigned)id;
    lo->special[lo->nspecial].bits = bits;
    lo->special[lo->nspecial++].vreg = v;
    return vg_append(d, v, VG_READ);
}

/* ---- symbols ------------------------------------------------------------- */

/* Parameter n of an inlined function is the caller's n-th argument. */
static const struct ptx_symbol *alias(const struct vg_frame *f,
                                      const struct ptx_symbol *s)
{
    for (int n = 0; n < f->func->nparams; n++)
        if (f->func->param[n] == s)
            return f->arg->elem[n].sym;
    for (int n = 0; n < f->func->nresults; n++)
        if (f->func->result[n] == s)
            return f->ret->elem[n].sym;
    return NULL;
}

/* Is s a parameter or result of the inlined function? */
static bool in_frame(const struct vg_frame *f, const struct ptx_symbol *s)
{
    return f->func->is_entry == false && alias(f, s) != NULL;
}

/* Walks outwards while the symbol is a parameter of an inlined function:
 * what the caller passed may itself be a parameter of the caller. */
bool vg_symbol_place(struct vg_dec *d, const struct ptx_symbol *s,
                     enum ptx_space *space, uint64_t *at)
{
    struct vg_lower *lo = d->lower;
    const struct vg_frame *f = lo->frame;
    while (f->caller && in_frame(f, s)) {
        s = alias(f, s);
        f = f->caller;
    }
    *space = s->is_scratch ? PTX_LOCAL : s->space;
    *at = s->offset;
    if (*space == PTX_LOCAL)
        *at += f->local_base;
    if (*space == PTX_SHARED && (s->size == 0 || s->is_extern))
        *at = lo->program->dynamic_offset;
    if (*space == PTX_PARAM && f->caller)
        return vg_error(d, "parameter %.40s of %s is not a plain .param",
                        s->name, f->func->name);
    if (*space == PTX_GLOBAL || *space == PTX_CONST) {
        if (!lo->where)
            return vg_error(d, "no address for variable %.60s", s->name);
        *at = lo->where(lo->where_ctx, s);
    }
    return true;
}

/* mov %rd, symbol: the address within the symbol's space, as PTX wants it
 * (cvta makes it generic). */
static bool append_symbol(struct vg_dec *d, const struct ptx_operand *o,
                          unsigned bits)
{
    enum ptx_space space;
    uint64_t at;
    if (!vg_symbol_place(d, o->sym, &space, &at))
        return false;
    return append_constant(d, VG_FILL_VALUE, at + (uint64_t)o->imm,
                           bits ? bits : 64);
}

/* Three forms of base: [%rd+8], [symbol+8], [4096].  A constant address is 64
 * bits wide, since `narrow` is about registers. */
bool vg_in_address(struct vg_dec *d, int k, enum ptx_space *space)
{
    if (!vg_has(d, k) || d->in->op[k].kind != PTX_OP_ADDR)
        return vg_error(d, "operand %d is no address", k + 1);
    const struct ptx_operand *o = &d->in->op[k], *base = &o->elem[0];
    d->asked |= 1u << k;
    d->out->imm = o->imm;
    if (base->kind == PTX_OP_REG) {
        unsigned bits = vg_width(d, k, 0);
        if (bits != 32 && bits != 64)
            return vg_error(d, "address register is %u bits wide", bits);
        d->out->narrow = bits == 32;
        return vg_append(d, d->lower->frame->reg_base + base->reg, VG_READ);
    }
    if (base->kind == PTX_OP_SYM) {
        enum ptx_space own;
        uint64_t at;
        if (!vg_symbol_place(d, base->sym, &own, &at))
            return false;
        *space = own;
        d->out->imm += base->imm;
        return append_constant(d, VG_FILL_VALUE, at, 64);
    }
    if (base->kind == PTX_OP_IMM)
        return append_constant(d, VG_FILL_VALUE, base->bits, 64);
    return vg_error(d, "address base is neither register, symbol nor number");
}

/* ---- operands ------------------------------------------------------------ */

/* Optional operands are asked for by this before they are appended. */
bool vg_has(const struct vg_dec *d, int k)
{
    return k < d->in->nops;
}

int vg_elems(const struct vg_dec *d, int k)
{
    const struct ptx_operand *o = &d->in->op[k];
    return o->kind == PTX_OP_VEC || o->kind == PTX_OP_PAIR ? o->nelem : 1;
}

/* Operand k, or its element e when e >= 0, marked as asked for. A scalar is
 * its own element 0, so decoders need not tell v1 from v2. */
static const struct ptx_operand *operand(struct vg_dec *d, int k, int e)
{
    if (!vg_has(d, k)) {
        vg_error(d, "operand %d is missing", k + 1);
        return NULL;
    }
    const struct ptx_operand *o = &d->in->op[k];
    d->asked |= 1u << k;
    if (e < 0)
        return o;
    if (o->kind != PTX_OP_VEC && o->kind != PTX_OP_PAIR && e == 0)
        return o;
    if (e >= o->nelem) {
        vg_error(d, "operand %d has %d elements, not %d", k + 1, o->nelem,
                 e + 1);
        return NULL;
    }
    return &o->elem[e];
}

/* The width of a literal, symbol or sink is whatever is asked for: 0.  For an
 * address, element 0 is its base. */
unsigned vg_width(const struct vg_dec *d, int k, int e)
{
    const struct ptx_operand *o = &d->in->op[k];
    if (e >= 0 && (o->kind == PTX_OP_VEC || o->kind == PTX_OP_PAIR ||
                   o->kind == PTX_OP_ADDR))
        o = &o->elem[e];
    return o->kind == PTX_OP_REG ? d->lower->frame->func->regs[o->reg].bits
                                 : 0;
}

/* Marks the operand as asked for even when it is no literal: the caller's
 * error is the better one. */
bool vg_literal(struct vg_dec *d, int k, int64_t *v)
{
    const struct ptx_operand *o = operand(d, k, -1);
    if (!o || o->kind != PTX_OP_IMM)
        return false;
    *v = (int64_t)o->bits;
    return true;
}

/* PTX demands matching widths; where it does not (ld, st, cvt), decoders
 * pass bits = 0. */
static bool append_register(struct vg_dec *d, const struct ptx_operand *o,
                            int k, unsigned bits, unsigned access)
{
    unsigned have = d->lower->frame->func->regs[o->reg].bits;
    if (bits && have != bits)
        return vg_error(d, "operand %d is %u bits wide, %u are needed", k + 1,
                        have, bits);
    if (o->negated) {
        if (have != 1 || access != VG_READ || d->out->nop > 31)
            return vg_error(d, "operand %d cannot be negated", k + 1);
        d->out->neg |= 1u << d->out->nop;
    }
    return vg_append(d, d->lower->frame->reg_base + o->reg, access);
}

/* A literal's value in type t, .f64 or else .f32; f16 operands are never float
 * literals in PTX (the ISA has only 0f and 0d forms). */
static uint64_t float_bits(enum vg_type t, double v)
{
    union { double d; uint64_t u; } d = {v};
    union { float f; uint32_t u; } f = {(float)v};
    return t == VG_F64 ? d.u : f.u;
}

/* Literal to the bits of type t.  An integer literal is taken as bits. */
static uint64_t literal_bits(const struct ptx_operand *o, enum vg_type t)
{
    union { uint32_t u; float f; } f = {(uint32_t)o->bits};
    union { uint64_t u; double d; } d = {o->bits};
    if (o->kind == PTX_OP_F32)
        return t == VG_F64 ? float_bits(t, (double)f.f) : o->bits;
    if (o->kind == PTX_OP_F64)
        return t == VG_F64 ? o->bits : float_bits(VG_F32, d.d);
    return o->bits;
}

/* What may stand where a value is read. t matters for float literals only. */
static bool append_source(struct vg_dec *d, int k, int e, enum vg_type t,
                          unsigned bits)
{
    const struct ptx_operand *o = operand(d, k, e);
    if (!o)
        return false;
    switch (o->kind) {
    case PTX_OP_REG:
        return append_register(d, o, k, bits, VG_READ);
    case PTX_OP_IMM:
        return bits == 1 ? vg_in_const(d, o->bits, 1)
                         : append_constant(d, VG_FILL_VALUE, o->bits,
                                           bits ? bits : 64);
    case PTX_OP_F32:
        return append_constant(d, VG_FILL_VALUE, literal_bits(o, t),
                               bits ? bits : 32);
    case PTX_OP_F64:
        if (t == VG_NOTYPE)
            t = bits == 64 ? VG_F64 : VG_F32;
        return append_constant(d, VG_FILL_VALUE, literal_bits(o, t),
                               bits ? bits : 64);
    case PTX_OP_SYM:
        return append_symbol(d, o, bits);
    case PTX_OP_SPECIAL:
        return append_special(d, o->name, bits);
    default:
        return vg_error(d, "operand %d is no value", k + 1);
    }
}

/* The type of a float literal follows from the width: 64 bits are .f64. */
bool vg_in(struct vg_dec *d, int k, int e, unsigned bits)
{
    return append_source(d, k, e, VG_NOTYPE, bits);
}

bool vg_in_typed(struct vg_dec *d, int k, int e, enum vg_type t)
{
    return append_source(d, k, e, t, vg_bits(t));
}

/* What may stand where a value is written. All sinks share one row that
 * nobody reads. */
static bool append_target(struct vg_dec *d, int k, int e, unsigned bits,
                          unsigned access)
{
    struct vg_lower *lo = d->lower;
    const struct ptx_operand *o = operand(d, k, e);
    if (!o)
        return false;
    if (o->kind == PTX_OP_REG)
        return append_register(d, o, k, bits, access);
    if (o->kind != PTX_OP_SINK)
        return vg_error(d, "operand %d is no register", k + 1);
    if (lo->sink < 0)
        lo->sink = vg_new_vreg(lo, 128, true);
    return lo->sink >= 0 && vg_append(d, lo->sink, VG_WRITE);
}

/* A written row is read by nobody in the instruction; vg_inout's is, so its
 * old value must live until here (liveness.c). */
bool vg_out(struct vg_dec *d, int k, int e, unsigned bits)
{
    return append_target(d, k, e, bits, VG_WRITE);
}

bool vg_inout(struct vg_dec *d, int k, int e, unsigned bits)
{
    return append_target(d, k, e, bits, VG_READ | VG_WRITE);
}

/* The condition-code register is an ordinary predicate nobody can name. */
static bool carry(struct vg_dec *d, unsigned access)
{
    struct vg_lower *lo = d->lower;
    if (lo->carry < 0)
        lo->carry = vg_new_vreg(lo, 1, true);
    return lo->carry >= 0 && vg_append(d, lo->carry, access);
}

/* add.cc writes it, addc reads it.  One pinned row serves all chains of a
 * kernel, as the one condition code of a thread does. */
bool vg_in_carry(struct vg_dec *d)
{
    return carry(d, VG_READ);
}

bool vg_out_carry(struct vg_dec *d)
{
    return carry(d, VG_WRITE);
}

bool vg_inout_carry(struct vg_dec *d)
{
    return carry(d, VG_READ | VG_WRITE);
}
