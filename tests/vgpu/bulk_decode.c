/* SPDX-License-Identifier: Apache-2.0
 *
 * bulk_decode.c: the operands of the bulk copies, and st.async.
 *
 *   cp.async.bulk.DST.SRC.mbarrier::complete_tx::bytes{.multicast::cluster}
 *       {.L2::cache_hint} [dst], [src], size, [mbar]{, mask}{, policy}
 *   cp.async.bulk.global.shared::cta.bulk_group{.L2::cache_hint}
 *       [dst], [src], size{, policy}
 *   cp.async.bulk.tensor.Nd.DST.global{.tile}.mbarrier...{.multicast}{.hint}
 *       [dst], [map, {coordinates}], [mbar]{, mask}{, policy}
 *   cp.async.bulk.tensor.Nd.global.shared::cta{.tile}.bulk_group{.hint}
 *       [map, {coordinates}], [src]{, policy}
 *   cp.reduce.async.bulk.global.shared::cta.bulk_group{.hint}.op.type
 *       [dst], [src], size{, policy}
 *   st.async{.weak}.shared::cluster.mbarrier::complete_tx::bytes{.vec}.type
 *       [a], value, [mbar]
 */
#include "bulk_ops.h"

/* The handler of a prefetch. */
static void nothing(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    (void)w, (void)i, (void)mask;
}

/* Appends the address operand k and keeps where its row and displacement
 * are: out->imm and out->narrow hold those of one address only. */
static bool in_address(struct vg_dec *d, int k, struct vg_bulk_addr *a)
{
    enum ptx_space space = PTX_GENERIC;

    a->row = d->out->nop;
    if (!vg_in_address(d, k, &space))
        return false;
    a->is_narrow = d->out->narrow;
    a->imm = d->out->imm;
    return true;
}

/* Consumes the words of direction and completion.  They are a set, as
 * everywhere; which sets make sense is decided at the end: loads complete on
 * an mbarrier, stores in a bulk group, and shared to shared is a load whose
 * source is the own CTA. */
static bool direction(struct vg_dec *d, struct vg_bulk_op *x)
{
    bool global = vg_mod(d, "global"), cta = vg_mod(d, "shared::cta");
    bool cluster = vg_mod(d, "shared::cluster");
    bool group = vg_mod(d, "bulk_group");
    bool mbar = vg_mod(d, "mbarrier::complete_tx::bytes");

    vg_mod(d, "tile");
    x->is_multicast = vg_mod(d, "multicast::cluster");
    x->is_store = group;
    x->from_shared = mbar && !global;
    if (group == mbar || (group && (!global || !cta)) ||
        (x->from_shared && (!cta || !cluster)) || (mbar && !cta && !cluster))
        return vg_error(d, "direction and completion do not go together");
    return true;
}

/* The optional operands at the end: multicast mask, cache policy. */
static bool tail(struct vg_dec *d, struct vg_bulk_op *x, int k)
{
    if (x->is_multicast) {
        x->cta_mask = d->out->nop;
        if (!vg_in(d, k++, -1, 16))
            return false;
    }
    return !vg_mod(d, "L2::cache_hint") || vg_in(d, k, -1, 64);
}

/* What all bulk copies begin with; NULL after an error. */
static struct vg_bulk_op *begin(struct vg_dec *d)
{
    struct vg_bulk_op *x = vg_keep(d, sizeof *x);

    if (!x) {
        vg_error(d, "out of memory");
        return NULL;
    }
    d->lower->program->is_async = true;
    d->out->aux = x;
    return direction(d, x) ? x : NULL;
}

/* The operands come in the order of the text; the handler finds them by the
 * rows noted in x. */
bool vg_decode_bulk(struct vg_dec *d)
{
    struct vg_bulk_op *x = begin(d);

    if (!x)
        return false;
    d->out->fn = vg_bulk_copy;
    if (!in_address(d, 0, x->is_store ? &x->global : &x->shared) ||
        !in_address(d, 1, x->is_store || x->from_shared ? &x->source
                                                        : &x->global))
        return false;
    x->size = d->out->nop;
    if (!vg_in(d, 2, -1, 32))
        return false;
    if (x->is_store)
        return tail(d, x, 3);
    return in_address(d, 3, &x->mbar) && tail(d, x, 4);
}

/* The ISA has reductions into shared memory of the cluster, too; they are
 * refused by name. */
bool vg_decode_bulk_reduce(struct vg_dec *d)
{
    struct vg_bulk_op *x = begin(d);

    if (!x)
        return false;
    if (!x->is_store)
        return vg_error(d, "only .global.shared::cta.bulk_group");
    x->is_reduction = true;
    d->out->fn = vg_bulk_copy;
    if (!vg_decode_update(d, &x->update) || !in_address(d, 0, &x->global) ||
        !in_address(d, 1, &x->source))
        return false;
    x->size = d->out->nop;
    return vg_in(d, 2, -1, 32) && tail(d, x, 3);
}

/* The map's address and the coordinates of operand k. */
static bool in_tensor(struct vg_dec *d, struct vg_bulk_op *x, int k)
{
    if (!in_address(d, k, &x->map))
        return false;
    if (d->in->op[k].nelem != 1 + x->rank)
        return vg_error(d, "%d coordinates for %d dimensions",
                        d->in->op[k].nelem - 1, x->rank);
    x->coordinate = d->out->nop;
    for (int e = 1; e <= x->rank; e++)
        if (!vg_in(d, k, e, 32))
            return false;
    return true;
}

/* 1 to 5; 0: no dimension is named. */
static int rank_of(struct vg_dec *d)
{
    return 1 + vg_mod_of(d, "1d|2d|3d|4d|5d");
}

/* im2col and gather modes are words that nobody here consumes, so they are
 * refused as not known. */
bool vg_decode_bulk_tensor(struct vg_dec *d)
{
    int rank = rank_of(d);
    struct vg_bulk_op *x = begin(d);

    if (!x)
        return false;
    if (!rank)
        return vg_error(d, "no dimension (1d to 5d)");
    if (x->from_shared)
        return vg_error(d, "not between global and shared memory");
    x->rank = (uint8_t)rank;
    d->out->fn = vg_tma;
    if (x->is_store)
        return in_tensor(d, x, 0) && in_address(d, 1, &x->source) &&
               tail(d, x, 2);
    return in_address(d, 0, &x->shared) && in_tensor(d, x, 1) &&
           in_address(d, 2, &x->mbar) && tail(d, x, 3);
}

/* cp.async.bulk.prefetch{.tensor.Nd}.L2.global ...: a hint. */
bool vg_decode_bulk_prefetch(struct vg_dec *d)
{
    struct vg_bulk_op x = {.rank = 0};
    bool tensor = vg_mod(d, "tensor");

    x.rank = (uint8_t)rank_of(d);
    vg_mod(d, "tile");
    if (!vg_mod(d, "L2") || !vg_mod(d, "global"))
        return vg_error(d, "only .L2.global");
    d->out->fn = nothing;
    if (tensor ? !in_tensor(d, &x, 0)
               : !in_address(d, 0, &x.global) || !vg_in(d, 1, -1, 32))
        return false;
    return !vg_mod(d, "L2::cache_hint") ||
           vg_in(d, tensor ? 1 : 2, -1, 64);
}

/* ---- st.async ----------------------------------------------------------- */

/* aux of st.async: the target, then how the value is made. */
struct st_async {
    struct vg_bulk_op op;      /* first: vg_bulk_targets reads it */
    uint8_t bytes, n, value;   /* of an element, elements, first row */
};

/* The value was kept in the copy itself. */
static void arrives(struct vg_bulk *b)
{
    memcpy(b->dst->shared + b->dst_off, b->data, b->bytes);
    vg_async_arrived(b->dst, b->dst_off, b->bytes);
}

/* st.async is a bulk copy of one value per lane, from registers: it completes
 * on an mbarrier in the CTA that it writes to.  The value must be kept, since
 * the registers move on. */
static void st_async(struct vg_warp *w, const struct vg_insn *i,
                     uint32_t mask)
{
    const struct st_async *x = i->aux;
    uint32_t bytes = (uint32_t)x->bytes * x->n;

    vg_mem_of(w, i);
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        struct vg_async_access a = {
            .w = w, .i = i, .lane = l, .what = "st.async"};
        struct vg_bulk_target t;
        struct vg_bulk *b;

        vg_bulk_targets(w, i, l, &x->op, &t);
        a.c = t.cta[0];
        a.agent = t.mbar[0]->agent;
        if (t.off % bytes || t.off + (uint64_t)bytes > a.c->shared_bytes)
            vg_fault(w, i, l, t.off % bytes ? VG_MISALIGNED
                                            : VG_ILLEGAL_ADDRESS,
                     "st.async of %u bytes at shared address 0x%x", bytes,
                     t.off);
        b = vg_bulk_load(&a, t.mbar[0], bytes);
        b->dst_off = t.off;
        b->move = arrives;
        for (unsigned e = 0; e < x->n; e++)
            memcpy((char *)b->data + e * x->bytes,
                   (const char *)vg_row(w, i->op[x->value + e]) + l * x->bytes,
                   x->bytes);
        vg_async_write(&a, t.off, bytes);
        vg_bulk_issued(&a);
        vg_mem_of(w, i)->worker->counts.async.st_async_bytes += bytes;
    }
    vg_progress(w);
}

/* .b32, .b64 and their vectors, 16 bytes at most (PTX ISA 9.7.9.12). */
bool vg_decode_st_async(struct vg_dec *d)
{
    struct st_async *x = vg_keep(d, sizeof *x);
    enum vg_type type;
    int vec;

    if (!x)
        return vg_error(d, "out of memory");
    vg_mod(d, "weak");
    if (!vg_mod(d, "shared::cluster") ||
        !vg_mod(d, "mbarrier::complete_tx::bytes"))
        return vg_error(d, "only .shared::cluster with "
                           ".mbarrier::complete_tx::bytes");
    vec = vg_mod_of(d, "v2|v4");
    if (!vg_need_type(d, &type))
        return false;
    x->bytes = (uint8_t)(vg_bits(type) / 8);
    x->n = vec < 0 ? 1 : vec ? 4 : 2;
    if ((x->bytes != 4 && x->bytes != 8) || x->bytes * x->n > 16)
        return vg_error(d, "elements of 4 or 8 bytes, 16 in all");
    d->lower->program->is_async = true;
    d->out->aux = x;
    d->out->fn = st_async;
    if (!in_address(d, 0, &x->op.shared))
        return false;
    x->value = d->out->nop;
    if (!vg_has(d, 1) || vg_elems(d, 1) != x->n)
        return vg_error(d, "operand 2 has not %d elements", x->n);
    for (int e = 0; e < x->n; e++)
        if (!vg_in(d, 1, x->n == 1 ? -1 : e, 8u * x->bytes))
            return false;
    return in_address(d, 2, &x->op.mbar);
}
