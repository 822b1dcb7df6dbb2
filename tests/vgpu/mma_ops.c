/* SPDX-License-Identifier: Apache-2.0
 *
 * mma_ops.c: mma.sync as an instruction.  The arithmetic is behind mma.h.
 *
 * The words shape, D, A, B and C are put together to the name of a row of
 * mma_kind.c; everything else about the instruction is in that row.
 */
#include "mem_ops.h"
#include "mma.h"

#include <stdio.h>

/* Registers of one matrix per lane, at most: m16n8k16.f64 has 8 for A. */
#define MAX_REGS 8

/* op: nreg[2] destinations, then A, B, C.  arg: kind in the low 16 bits,
 * VG_MMA_* flags above.  A lane that is guarded off would leave holes in A
 * and B: the ISA calls that undefined.  Results go to a local array first,
 * because D's rows may be A's or B's. */
static void mma(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    unsigned index = i->arg & 0xffff;
    const struct vg_mma_kind *kind = vg_mma_kind(index);
    const void *src[3][MAX_REGS];
    uint64_t result[MAX_REGS][VG_LANES];
    void *dst[MAX_REGS];
    unsigned nd = kind->nreg[2], at = nd;

    if (w->live & ~mask)
        vg_fault(w, i, __builtin_ctz(w->live & ~mask), VG_FAILED,
                 "mma.sync without all lanes of the warp");
    for (unsigned m = 0; m < 3; m++)
        for (unsigned r = 0; r < kind->nreg[m]; r++)
            src[m][r] = vg_row(w, i->op[at++]);
    for (unsigned r = 0; r < nd; r++)
        dst[r] = result[r];
    vg_mma_run(kind, w->cta->launch->config.arch, i->arg >> 16, src[0], src[1],
               src[2], dst);
    for (unsigned r = 0; r < nd; r++)
        if (kind->c == VG_ELEM_F64)
            vg_put64(vg_row(w, i->op[r]), result[r], mask);
        else
            vg_put32(vg_row(w, i->op[r]), (uint32_t *)result[r], mask);
    vg_mem_of(w, i)->worker->counts.mma[index]++;
}

/* The kind that the words name: shape, D, A, B, C in this order; -1 after an
 * error.  The position of the types matters, so they cannot be a set. */
static int find_kind(struct vg_dec *d)
{
    char name[64];
    enum vg_type t[4];
    int shape = -1;

    for (int n = 0; n < d->in->nwords; n++)
        if (d->in->word[n][0] == 'm' && d->in->word[n][1] >= '0' &&
            d->in->word[n][1] <= '9')
            shape = n;
    if (shape < 0) {
        vg_error(d, "no shape");
        return -1;
    }
    vg_mod(d, d->in->word[shape]);
    for (int n = 0; n < 4; n++)
        if (!vg_need_type(d, &t[n]))
            return -1;
    snprintf(name, sizeof name, "%s.%s.%s.%s.%s", d->in->word[shape],
             vg_type_name(t[0]), vg_type_name(t[1]), vg_type_name(t[2]),
             vg_type_name(t[3]));
    shape = vg_mma_find(name);
    if (shape < 0)
        vg_error(d, "shape and types %s are not known", name);
    return shape;
}

/* Appends the registers of operand k; literals are allowed in C (compilers
 * write {0., 0., 0., 0.} there), with the type `literal`. */
static bool registers(struct vg_dec *d, int k, unsigned n, unsigned bits,
                      bool out, enum vg_type literal)
{
    if (!vg_has(d, k) || vg_elems(d, k) != (int)n)
        return vg_error(d, "operand %d has not %u registers", k + 1, n);
    for (unsigned r = 0; r < n; r++) {
        int at = d->in->op[k].kind == PTX_OP_VEC ? (int)r : -1;

        if (out ? !vg_out(d, k, at, bits)
            : vg_width(d, k, at) ? !vg_in(d, k, at, bits)
                                 : !vg_in_typed(d, k, at, literal))
            return false;
    }
    return true;
}

/* mma.sync.aligned.SHAPE.row.col{.kind::f8f6f4}{.satfinite}.D.A.B.C{.op.popc}
 * d, a, b, c */
bool vg_decode_mma(struct vg_dec *d)
{
    const struct vg_mma_kind *kind;
    unsigned flags = 0, bits;
    enum vg_type literal;
    int index, op;
    bool f8f6f4;

    vg_mod(d, "aligned");
    if (!vg_mod(d, "row") || !vg_mod(d, "col"))
        return vg_error(d, "only .row.col");
    f8f6f4 = vg_mod(d, "kind::f8f6f4");
    flags |= vg_mod(d, "satfinite") ? VG_MMA_SATFINITE : 0;
    op = vg_mod_of(d, "xor|and");
    flags |= op == 1 ? VG_MMA_AND : 0;
    vg_mod(d, "popc");
    index = find_kind(d);
    if (index < 0)
        return false;
    kind = vg_mma_kind((unsigned)index);
    if ((kind->a == VG_ELEM_B1) != (op >= 0))
        return vg_error(d, "b1, and only b1, needs .xor.popc or .and.popc");
    if (f8f6f4 && kind->a != VG_ELEM_E4M3 && kind->a != VG_ELEM_E5M2)
        return vg_error(d, ".kind::f8f6f4 is for e4m3 and e5m2 here");
    bits = kind->c == VG_ELEM_F64 ? 64 : 32;
    literal = kind->c == VG_ELEM_F64   ? VG_F64
              : kind->c == VG_ELEM_F32 ? VG_F32
                                       : VG_B32;
    d->out->fn = mma;
    d->out->kind = VG_ALIGNED;
    d->out->arg = (uint32_t)index | flags << 16;
    return registers(d, 0, kind->nreg[2], bits, true, VG_NOTYPE) &&
           registers(d, 1, kind->nreg[0], bits, false, literal) &&
           registers(d, 2, kind->nreg[1], bits, false, literal) &&
           registers(d, 3, kind->nreg[2], bits, false, literal);
}
