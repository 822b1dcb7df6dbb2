/* SPDX-License-Identifier: Apache-2.0
 *
 * op_move.c: mov with its packing forms, ld.param, cvta, isspacep, clocks
 * (PTX ISA 9.0, 9.7.9).
 *
 * Kernel parameters are constant rows, so a load from a known parameter
 * address is a move.  A load with a computed address, or from the parameters
 * of an inlined function, goes to the memory side's ld.
 *
 * A mov of a whole register is one copy of a row.  Vector operands of mov are
 * its packing forms: mov.b64 %rd, {%r1, %r2} puts %r1 into the low half.
 */
#include "alu.h"

/* ---- whole registers ----------------------------------------------------- */

/* 8 and 128 bits have handlers of their own: rows of those widths are not
 * what the macros and VG_PUT know. */
VG_UNARY(mov16, uint16_t, uint16_t, x)
VG_UNARY(mov32, uint32_t, uint32_t, x)
VG_UNARY(mov64, uint64_t, uint64_t, x)
VG_HANDLER(mov8)
{
    const uint8_t *a = VG_ROW(uint8_t, 1);
    uint8_t *r = VG_ROW(uint8_t, 0);
    for (int l = 0; l < VG_LANES; l++)
        if (mask >> l & 1)
            r[l] = a[l];
}
/* Both halves are read first: d may be a. */
VG_HANDLER(mov128)
{
    uint64_t r[2 * VG_LANES];
    memcpy(r, vg_row(w, i->op[1]), sizeof r);
    uint64_t *d = vg_row(w, i->op[0]);
    vg_put64(d, r, mask);
    vg_put64(d + VG_LANES, r + VG_LANES, mask);
}
/* A negated source predicate (mov.pred p, !q) is a xor of the mask. */
VG_HANDLER(mov_pred)
{
    uint32_t v = VG_MASK(w, i->op[1]) ^ (i->neg >> 1 & 1 ? VG_ALL : 0);
    vg_put_pred(vg_row(w, i->op[0]), v, mask);
}

/* The move of a register of `bits`, NULL when there is none. */
static vg_fn *mov_of(unsigned bits)
{
    switch (bits) {
    case 1: return mov_pred;
    case 8: return mov8;
    case 16: return mov16;
    case 32: return mov32;
    case 64: return mov64;
    case 128: return mov128;
    default: return NULL;
    }
}

/* ---- packing: the first element is the least significant ----------------- */

VG_BINARY2(pack_2x16, uint32_t, uint16_t, uint16_t,
           (uint32_t)y << 16 | x)
VG_BINARY2(pack_2x32, uint64_t, uint32_t, uint32_t, (uint64_t)y << 32 | x)

/* Lane l of a row of `bits` (8, 16, 32 or 64). */
static uint64_t get(const void *row, unsigned bits, int l)
{
    switch (bits) {
    case 8: return ((const uint8_t *)row)[l];
    case 16: return ((const uint16_t *)row)[l];
    case 32: return ((const uint32_t *)row)[l];
    default: return ((const uint64_t *)row)[l];
    }
}

/* Stores into lane l of such a row. */
static void set(void *row, unsigned bits, int l, uint64_t v)
{
    switch (bits) {
    case 8: ((uint8_t *)row)[l] = (uint8_t)v; break;
    case 16: ((uint16_t *)row)[l] = (uint16_t)v; break;
    case 32: ((uint32_t *)row)[l] = (uint32_t)v; break;
    default: ((uint64_t *)row)[l] = v; break;
    }
}

/* One lane of a whole register, up to 128 bits, as two words. */
struct whole {
    uint64_t word[2];
};
/* Lane l of a row of up to 128 bits, and its inverse. */
static struct whole get_whole(const void *row, unsigned bits, int l)
{
    const uint64_t *q = row;
    struct whole v = {{bits == 128 ? q[l] : get(row, bits, l), 0}};
    if (bits == 128)
        v.word[1] = q[VG_LANES + l];
    return v;
}
static void set_whole(void *row, unsigned bits, int l, struct whole v)
{
    set(row, bits == 128 ? 64 : bits, l, v.word[0]);
    if (bits == 128)
        ((uint64_t *)row)[VG_LANES + l] = v.word[1];
}

/* arg: element width; imm: width of the whole.  rows: d, elements.  All of
 * them are read before d is written: d may be one of the elements' rows. */
VG_HANDLER(pack)
{
    unsigned n = i->nop - 1u, bits = i->arg;
    struct whole r[VG_LANES] = {{{0, 0}}};
    for (unsigned e = 0; e < n; e++)
        for (int l = 0; l < VG_LANES; l++)
            r[l].word[e * bits / 64] |=
                get(vg_row(w, i->op[1 + e]), bits, l) << e * bits % 64;
    for (int l = 0; l < VG_LANES; l++)
        if (mask >> l & 1)
            set_whole(vg_row(w, i->op[0]), (unsigned)i->imm, l, r[l]);
}

/* rows: elements, source; arg and imm as for pack.  The source is read first,
 * for the same reason. */
VG_HANDLER(unpack)
{
    unsigned n = i->nop - 1u, bits = i->arg;
    struct whole a[VG_LANES];
    for (int l = 0; l < VG_LANES; l++)
        a[l] = get_whole(vg_row(w, i->op[n]), (unsigned)i->imm, l);
    for (unsigned e = 0; e < n; e++)
        for (int l = 0; l < VG_LANES; l++)
            if (mask >> l & 1)
                set(vg_row(w, i->op[e]), bits, l,
                    a[l].word[e * bits / 64] >> e * bits % 64);
}
/* The two that compilers write everywhere, without the loop over bits. */
VG_HANDLER(unpack_2x32)
{
    const uint64_t *a = VG_ROW(uint64_t, 2);
    uint32_t lo[VG_LANES], hi[VG_LANES];
    for (int l = 0; l < VG_LANES; l++) {
        lo[l] = (uint32_t)a[l];
        hi[l] = (uint32_t)(a[l] >> 32);
    }
    VG_PUT(0, lo);
    VG_PUT(1, hi);
}
VG_HANDLER(unpack_2x16)
{
    const uint32_t *a = VG_ROW(uint32_t, 2);
    uint16_t lo[VG_LANES], hi[VG_LANES];
    for (int l = 0; l < VG_LANES; l++) {
        lo[l] = (uint16_t)a[l];
        hi[l] = (uint16_t)(a[l] >> 16);
    }
    VG_PUT(0, lo);
    VG_PUT(1, hi);
}

/* mov.b32 d, {a, b} and its kin: the elements fill the register exactly. */
static bool decode_pack(struct vg_dec *d, unsigned bits)
{
    int n = vg_elems(d, 1);
    if (n < 2 || bits % (unsigned)n || bits / (unsigned)n < 8)
        return vg_error(d, "%d elements do not make %u bits", n, bits);
    unsigned each = bits / (unsigned)n;
    d->out->arg = each;
    d->out->imm = bits;
    d->out->fn = n == 2 && each == 16 ? pack_2x16
               : n == 2 && each == 32 ? pack_2x32 : pack;
    bool ok = vg_out(d, 0, -1, bits);
    for (int e = 0; ok && e < n; e++)
        ok = vg_in(d, 1, e, each);
    return ok;
}

/* mov.b32 {d, e}, a and its kin; elements may be sinks: all of them share one
 * row that is wide enough for any. */
static bool decode_unpack(struct vg_dec *d, unsigned bits)
{
    int n = vg_elems(d, 0);
    if (n < 2 || bits % (unsigned)n || bits / (unsigned)n < 8)
        return vg_error(d, "%d elements do not make %u bits", n, bits);
    unsigned each = bits / (unsigned)n;
    d->out->arg = each;
    d->out->imm = bits;
    /* a sink element is wide enough for any of the forms */
    d->out->fn = n == 2 && each == 16 ? unpack_2x16
               : n == 2 && each == 32 ? unpack_2x32 : unpack;
    bool ok = true;
    for (int e = 0; ok && e < n; e++)
        ok = vg_out(d, 0, e, each);
    return ok && vg_in(d, 1, -1, bits);
}

/* ---- clocks -------------------------------------------------------------- */

/* Instructions issued by the CTA: monotonic and a function of the seed. */
VG_HANDLER(clock64)
{
    uint64_t r[VG_LANES];
    for (int l = 0; l < VG_LANES; l++)
        r[l] = w->cta->clock;
    VG_PUT(0, r);
}
/* arg: 32 for the high half. */
VG_HANDLER(clock32)
{
    uint32_t r[VG_LANES];
    for (int l = 0; l < VG_LANES; l++)
        r[l] = (uint32_t)(w->cta->clock >> i->arg);
    VG_PUT(0, r);
}

/* The special registers that no row can hold, since they change while a warp
 * runs.  One count serves all of them: there is no time here. */
static const struct {
    const char *name;
    vg_fn *fn;
    unsigned bits, shift;
} clocks[] = {
    {"clock", clock32, 32, 0},         {"clock64", clock64, 64, 0},
    {"clock_hi", clock32, 32, 32},     {"globaltimer", clock64, 64, 0},
    {"globaltimer_lo", clock32, 32, 0}, {"globaltimer_hi", clock32, 32, 32},
};

/* mov from a clock?  Then decode it: *ok. */
static bool decode_clock(struct vg_dec *d, unsigned bits, bool *ok)
{
    if (!vg_has(d, 1) || d->in->op[1].kind != PTX_OP_SPECIAL)
        return false;
    for (size_t n = 0; n < sizeof clocks / sizeof *clocks; n++)
        if (strcmp(clocks[n].name, d->in->op[1].name) == 0) {
            d->out->fn = clocks[n].fn;
            d->out->arg = clocks[n].shift;
            d->asked |= 2;
            *ok = bits == clocks[n].bits ? vg_out(d, 0, -1, bits)
                                         : vg_error(d, "%%%s is %u bits wide",
                                                    clocks[n].name,
                                                    clocks[n].bits);
            return true;
        }
    return false;
}

/* ---- mov ----------------------------------------------------------------- */

/* mov.type d, a; a may be a register, literal, symbol, special register */
static bool decode_mov(struct vg_dec *d)
{
    enum vg_type t;
    bool ok;
    if (!vg_need_type(d, &t))
        return false;
    unsigned bits = vg_bits(t);
    if (d->in->nops == 2 && d->in->op[1].kind == PTX_OP_VEC)
        return decode_pack(d, bits);
    if (d->in->nops == 2 && d->in->op[0].kind == PTX_OP_VEC)
        return decode_unpack(d, bits);
    if (decode_clock(d, bits, &ok))
        return ok;
    d->out->fn = mov_of(bits);
    if (!d->out->fn)
        return vg_error(d, "type does not go with the opcode");
    return vg_out(d, 0, -1, bits) && vg_in_typed(d, 1, -1, t);
}

/* ---- ld.param ------------------------------------------------------------ */

/* A value of a narrower type into a wider register, from a constant row.
 * arg: width of the source, of the register << 8, signed << 16. */
VG_HANDLER(widen)
{
    unsigned from = i->arg & 0xff, to = i->arg >> 8 & 0xff;
    unsigned shift = 64 - from;
    for (int l = 0; l < VG_LANES; l++) {
        uint64_t v = get(vg_row(w, i->op[1]), from, l);
        if (i->arg >> 16)
            v = (uint64_t)((int64_t)(v << shift) >> shift);
        if (mask >> l & 1)
            set(vg_row(w, i->op[0]), to, l, v);
    }
}

/* rows: d0, s0, d1, s1, ...: element moves of one width, each by the handler
 * of a plain mov.  The sources are constants, so no move disturbs the next. */
VG_HANDLER(move_elements)
{
    for (unsigned n = 0; n < i->nop; n += 2) {
        struct vg_insn one = *i;
        one.op = i->op + n;
        one.nop = 2;
        mov_of(i->arg)(w, &one, mask);
    }
}

/* [parameter of the kernel + constant]: then *at is its byte offset.  False
 * for a register address and for parameters of inlined functions. */
static bool is_static_param(struct vg_dec *d, uint64_t *at)
{
    if (!vg_has(d, 1) || d->in->op[1].kind != PTX_OP_ADDR)
        return false;
    const struct ptx_operand *o = &d->in->op[1], *base = &o->elem[0];
    enum ptx_space space;
    if (base->kind != PTX_OP_SYM ||
        !vg_symbol_place(d, base->sym, &space, at) || space != PTX_PARAM)
        return false;
    *at += (uint64_t)o->imm + (uint64_t)base->imm;
    return true;
}

/* ld.param.vN: a move per element, all of the type's own width. */
static bool decode_param_vector(struct vg_dec *d, enum vg_type t, uint64_t at,
                                int count)
{
    int n = vg_elems(d, 0);
    unsigned bits = vg_bits(t);
    bool ok = true;
    if (d->in->op[0].kind != PTX_OP_VEC || n != count)
        return vg_error(d, "needs a vector of %d registers", count);
    d->out->arg = bits;
    d->out->fn = move_elements;
    for (int e = 0; ok && e < n; e++) {
        if (d->in->op[0].elem[e].kind == PTX_OP_REG &&
            vg_width(d, 0, e) != bits)
            return vg_error(d, "element %d is not %u bits wide", e + 1, bits);
        ok = vg_out(d, 0, e, 0) &&
             vg_in_param(d, at + (uint64_t)e * bits / 8, bits);
    }
    return ok;
}

/* {%rs1, %rs2} of a ld.param.v2.u8: registers wider than the type. */
static bool extends_elements(const struct vg_dec *d, enum vg_type t)
{
    for (int e = 0; e < vg_elems(d, 0); e++)
        if (vg_width(d, 0, e) > vg_bits(t))
            return true;
    return false;
}

/* ld.param{.vN}.type d, [a].  What is no move of a known parameter starts
 * again as an ordinary ld, with all modifiers unconsumed (used = 1: the
 * opcode). */
static bool decode_ld_param(struct vg_dec *d)
{
    uint64_t at;
    if (!is_static_param(d, &at)) {
        d->used = 1;
        return vg_decode_as(d, "ld");
    }
    int vec = vg_mod_of(d, "v2|v4|v8");
    enum vg_type t;
    if (!vg_need_type(d, &t))
        return false;
    if (vec >= 0 && extends_elements(d, t)) {
        d->used = 1;
        return vg_decode_as(d, "ld");
    }
    d->asked |= 2;
    uint64_t end = at + vg_bits(t) / 8 * (vec < 0 ? 1 : 2u << vec);
    if (end > d->lower->program->func->param_bytes)
        return vg_error(d, "reads beyond the kernel's parameters");
    if (vec >= 0)
        return decode_param_vector(d, t, at, 2 << vec);
    unsigned bits = vg_bits(t), to = vg_width(d, 0, -1);
    bool is_signed = t == VG_S8 || t == VG_S16 || t == VG_S32;
    if (to < bits)
        return vg_error(d, "register is narrower than the type");
    d->out->fn = to == bits ? mov_of(bits) : widen;
    d->out->arg = bits | to << 8 | (uint32_t)is_signed << 16;
    return vg_out(d, 0, -1, 0) && vg_in_param(d, at, bits);
}

/* ---- cvta, isspacep ------------------------------------------------------ */

/* The names, and the window of each by its index in them. */
static const char space_names[] =
    "global|const|shared|local|param|shared::cta|shared::cluster";
static uint64_t window_of(int space)
{
    static const uint64_t base[] = {0, 0, VG_SHARED_WINDOW, VG_LOCAL_WINDOW,
                                    VG_PARAM_WINDOW, VG_SHARED_WINDOW,
                                    VG_SHARED_WINDOW};
    return base[space];
}

/* imm: the window to add, negated for cvta.to. */
VG_UNARY(cvta64, uint64_t, uint64_t, x + (uint64_t)i->imm)

/* A generic address is space address + window; .to takes it away again. */
static bool decode_cvta(struct vg_dec *d)
{
    bool to = vg_mod(d, "to");
    vg_mod(d, "entry");
    int space = vg_mod_of(d, space_names);
    enum vg_type t;
    if (!vg_need_type(d, &t))
        return false;
    if (space < 0 || vg_bits(t) != 64)
        return vg_error(d, "needs a state space and .u64");
    /* Parameters of an inlined function live in local memory. */
    if (space == 4 && d->in->nops == 2 && d->in->op[1].kind == PTX_OP_SYM) {
        enum ptx_space own;
        uint64_t at;
        if (!vg_symbol_place(d, d->in->op[1].sym, &own, &at))
            return false;
        space = own == PTX_LOCAL ? 3 : 4;
    }
    uint64_t base = window_of(space);
    d->out->imm = (int64_t)(to ? 0 - base : base);
    d->out->fn = base ? cvta64 : mov64;
    return vg_out(d, 0, -1, 64) && vg_in(d, 1, -1, 64);
}

/* Windows are 2^32 bytes each; what is in none of them is global. */
VG_HANDLER(isspacep)
{
    const uint64_t *a = VG_ROW(uint64_t, 1);
    uint32_t p = 0;
    for (int l = 0; l < VG_LANES; l++) {
        uint64_t base = a[l] & ~(VG_WINDOW_SIZE - 1);
        bool global = base != VG_SHARED_WINDOW && base != VG_LOCAL_WINDOW &&
                      base != VG_PARAM_WINDOW;
        bool own = (a[l] - base) >> 24 == 0;    /* shared::cta */
        bool in = i->arg < 2 ? global && i->arg == 0
                : base == window_of((int)i->arg) && (i->arg != 5 || own);
        p |= (uint32_t)in << l;
    }
    vg_put_pred(vg_row(w, i->op[0]), p, mask);
}

/* isspacep.space p, a */
static bool decode_isspacep(struct vg_dec *d)
{
    int space = vg_mod_of(d, space_names);
    vg_mod(d, "entry");
    if (space < 0)
        return vg_error(d, "needs a state space");
    d->out->arg = (uint32_t)space;
    d->out->fn = isspacep;
    return vg_out(d, 0, -1, 1) && vg_in(d, 1, -1, 64);
}

const struct vg_opcode vg_ops_move[] = {
    {"mov", decode_mov, VG_C_MOVE, 0},
    {"ld.param", decode_ld_param, VG_C_MOVE, 0},
    {"ld.param::entry", decode_ld_param, VG_C_MOVE, 0},
    {"cvta", decode_cvta, VG_C_INT, 0},
    {"isspacep", decode_isspacep, VG_C_PRED, 0},
    {NULL, NULL, 0, 0},
};
