/* SPDX-License-Identifier: Apache-2.0
 *
 * hints.c: prefetch, applypriority, discard, createpolicy (PTX ISA 9.7.9.15
 * to 9.7.9.19).  Caches have no contents here, so these do nothing, except
 * that discard makes its bytes unwritten again.
 *
 * Their operands are still decoded and, where the instruction would fault on a
 * bad address, checked: a kernel with a wrong hint is a wrong kernel.
 */
#include "bits.h"
#include "mem_ops.h"

/* The handler of a hint that has no function. */
static void nothing(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    (void)w;
    (void)i;
    (void)mask;
}

/* A prefetch of any address is harmless on the device: no check. */
bool vg_decode_prefetch(struct vg_dec *d)
{
    enum ptx_space space = PTX_GENERIC;

    vg_mod_of(d, "global|local|param|const");
    vg_mod_of(d, "L1|L2|L2::evict_last|L2::evict_normal|tensormap");
    d->out->fn = nothing;
    return vg_in_address(d, 0, &space);
}

/* op: address of 128 bytes.  arg: make them unwritten. */
static void line_hint(struct vg_warp *w, const struct vg_insn *i,
                      uint32_t mask)
{
    struct vg_touch t;
    struct vg_how how = {
        .space = PTX_GENERIC,
        .dir = i->arg ? VG_TOUCH_WRITE : 0,
        .path = VG_PATH_STORE,
        .uncounted = true,
    };

    vg_touch_begin(&t, w, i, 0, 128);
    for (uint32_t todo = mask; todo; todo &= ~t.mask) {
        vg_touch(&t, todo, &how);
        if (!t.alloc)
            vg_fault(w, i, __builtin_ctz(todo), VG_ILLEGAL_ADDRESS,
                     "the address is not in global memory");
        for (uint32_t m = t.mask; m && i->arg; m &= m - 1)
            vg_bits_clear(t.alloc->init, t.off[__builtin_ctz(m)], 128);
    }
}

/* applypriority.global.L2::evict_normal [a], 128 and
 * discard.global.L2 [a], 128: the size is fixed by the ISA. */
static bool decode_line(struct vg_dec *d, bool discard)
{
    enum ptx_space space = PTX_GENERIC;
    int64_t size;

    vg_mod(d, "global");
    if (vg_mod_of(d, discard ? "L2" : "L2::evict_normal") < 0)
        return vg_error(d, "no cache level");
    d->out->fn = line_hint;
    d->out->arg = discard;
    if (!vg_in_address(d, 0, &space))
        return false;
    if (!vg_has(d, 1) || !vg_literal(d, 1, &size) || size != 128)
        return vg_error(d, "the size must be 128");
    return vg_in(d, 1, -1, 32);
}

/* Checked like an access, for the address must be valid, but moves nothing. */
bool vg_decode_applypriority(struct vg_dec *d)
{
    return decode_line(d, false);
}

/* The ISA lets later reads see any value; here they are reads of unwritten
 * memory and fault. */
bool vg_decode_discard(struct vg_dec *d)
{
    return decode_line(d, true);
}

/* A policy is an opaque word: any value will do. */
static void policy(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    uint64_t v[VG_LANES];

    for (int l = 0; l < VG_LANES; l++)
        v[l] = UINT64_C(0x12f0000000000000);
    vg_put64(vg_row(w, i->op[0]), v, mask);
}

/* Three forms: range [a], primary, total; fractional with an optional f32
 * fraction; cvt of a 64-bit word.  Their operands are consumed and unused. */
bool vg_decode_createpolicy(struct vg_dec *d)
{
    int how = vg_mod_of(d, "fractional|range|cvt");
    enum ptx_space space = PTX_GENERIC;
    enum vg_type type;

    if (how < 0)
        return vg_error(d, "no kind of policy (fractional, range, cvt)");
    vg_mod(d, "global");
    vg_mod(d, "L2");
    while (vg_mod_of(d, "L2::evict_last|L2::evict_normal|L2::evict_first|"
                        "L2::evict_unchanged") >= 0)
        ;
    d->out->fn = policy;
    if (!vg_need_type(d, &type) || !vg_out(d, 0, -1, 64))
        return false;
    if (how == 1 && !vg_in_address(d, 1, &space))
        return false;
    for (int k = how == 1 ? 2 : 1; vg_has(d, k); k++)
        if (!(vg_width(d, k, -1) ? vg_in(d, k, -1, 0)
                                 : vg_in_typed(d, k, -1, how ? VG_B64
                                                             : VG_F32)))
            return false;
    return true;
}
