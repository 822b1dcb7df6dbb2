/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster.c: addresses in a cluster's shared memory (PTX ISA 9.7.9.22 mapa,
 * 9.7.9.23 getctarank) and setmaxnreg (9.7.20.5).
 *
 * A shared::cluster address is 32 bits: the offset in the low 24, the CTA's
 * rank + 1 above; 0 above means the own CTA, so that a shared::cta address
 * is a shared::cluster address, as the ISA has it.  In a cluster of two,
 * 0x00000400 is byte 0x400 of whoever uses it, 0x01000400 that of CTA 0, and
 * 0x02000400 that of CTA 1.
 */
#include "bulk_ops.h"
#include "warp.h"

#define OFFSET_BITS 24
#define OFFSET ((UINT64_C(1) << OFFSET_BITS) - 1)

/* ---- mapa, getctarank --------------------------------------------------- */

/* Row op[n] of 32 or 64 bits, zero-extended. */
static void get(const struct vg_warp *w, const struct vg_insn *i, int n,
                bool wide, uint64_t v[VG_LANES])
{
    for (int l = 0; l < VG_LANES; l++)
        v[l] = wide ? ((const uint64_t *)vg_row(w, i->op[n]))[l]
                    : ((const uint32_t *)vg_row(w, i->op[n]))[l];
}

/* Stores into row op[0] of 32 or 64 bits. */
static void put(struct vg_warp *w, const struct vg_insn *i, bool wide,
                const uint64_t v[VG_LANES], uint32_t mask)
{
    uint32_t low[VG_LANES];

    for (int l = 0; l < VG_LANES; l++)
        low[l] = (uint32_t)v[l];
    if (wide)
        vg_put64(vg_row(w, i->op[0]), v, mask);
    else
        vg_put32(vg_row(w, i->op[0]), low, mask);
}

enum { WIDE = 1, GENERIC = 2 };

/* op: d, address, rank.  arg: WIDE, GENERIC. */
static void mapa(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    const uint32_t *rank = vg_row(w, i->op[2]);
    uint64_t base = i->arg & GENERIC ? VG_SHARED_WINDOW : 0, v[VG_LANES];

    get(w, i, 1, i->arg & WIDE, v);
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);

        if (v[l] - base >= VG_WINDOW_SIZE)
            vg_fault(w, i, l, VG_ILLEGAL_ADDRESS,
                     "mapa of address 0x%llx, which is not in shared memory",
                     (unsigned long long)v[l]);
        if (rank[l] >= w->cta->cluster->ncta)
            vg_fault(w, i, l, VG_ILLEGAL_ADDRESS,
                     "mapa to block %u of a cluster of %u", rank[l],
                     w->cta->cluster->ncta);
        v[l] = base + ((v[l] & OFFSET) |
                       (uint64_t)(rank[l] + 1) << OFFSET_BITS);
    }
    put(w, i, i->arg & WIDE, v, mask);
}

/* op: d, address. */
static void getctarank(struct vg_warp *w, const struct vg_insn *i,
                       uint32_t mask)
{
    uint64_t v[VG_LANES];
    uint32_t rank[VG_LANES];

    get(w, i, 1, i->arg & WIDE, v);
    for (int l = 0; l < VG_LANES; l++) {
        uint32_t high = (uint32_t)v[l] >> OFFSET_BITS;

        rank[l] = high ? high - 1 : w->cta->rank;
    }
    vg_put32(vg_row(w, i->op[0]), rank, mask);
}

/* mapa{.shared::cluster}.u32/.u64 d, a, rank
 * getctarank{.shared::cluster}.u32/.u64 d, a: the type is the address's */
bool vg_decode_mapa(struct vg_dec *d)
{
    bool rank = d->out->arg, shared = vg_mod(d, "shared::cluster");
    enum vg_type t;

    if (!vg_need_type(d, &t))
        return false;
    if (t != VG_U32 && t != VG_U64)
        return vg_error(d, "needs .u32 or .u64");
    d->out->arg = (t == VG_U64 ? WIDE : 0) | (shared ? 0 : GENERIC);
    d->out->fn = rank ? getctarank : mapa;
    return vg_out(d, 0, -1, rank ? 32 : vg_bits(t)) &&
           vg_in(d, 1, -1, vg_bits(t)) && (rank || vg_in(d, 2, -1, 32));
}

/* ---- setmaxnreg --------------------------------------------------------- */

/* Registers per thread that the CTA was launched with: 64 K divided among
 * whole warpgroups of all resident CTAs, in steps of 8.  0: the kernel does
 * not say how many threads it has, and setmaxnreg does nothing. */
static uint32_t launch_registers(const struct ptx_func *f)
{
    unsigned n = f->reqntid[0] * f->reqntid[1] * f->reqntid[2];
    uint32_t r;

    n = n ? n : f->maxntid[0] * f->maxntid[1] * f->maxntid[2];
    if (!n)
        return 0;
    n = (n + 127) / 128 * 128 * (f->minnctapersm ? f->minnctapersm : 1);
    r = 65536 / n / 8 * 8;
    if (f->maxnreg && f->maxnreg < r)
        r = f->maxnreg;
    return r < 255 ? r : 255;
}

/* Registers come from and go to a pool of the CTA: .inc waits until others
 * have given back enough.  arg: count | 1 << 31 for .inc.  Counted per warp,
 * a quarter of what the warpgroup takes. */
static void setmaxnreg(struct vg_warp *w, const struct vg_insn *i,
                       uint32_t mask)
{
    uint32_t n = i->arg & 0xffff, now, launch;
    struct vg_async *a;

    (void)mask;
    if (!vg_converged(w, w->live))
        return;
    vg_mem_of(w, i);
    a = vg_async_of(w->cta);
    launch = launch_registers(w->cta->launch->program->func);
    if (!launch)
        return;
    if (w->live != VG_ALL || w->cta->nwarps < (w->index | 3) + 1)
        vg_fault(w, i, -1, VG_FAILED,
                 "setmaxnreg is for whole warpgroups of 4 warps");
    now = a->warp[w->index].registers;
    now = now ? now : launch;
    if (i->arg >> 31 ? n < now : n > now)
        vg_fault(w, i, -1, VG_FAILED,
                 "setmaxnreg.%s %u, but the warp has %u registers per thread",
                 i->arg >> 31 ? "inc" : "dec", n, now);
    if ((int64_t)n - now > a->pool) {
        vg_retry(w, "setmaxnreg.inc %u: the pool lacks %d", n,
                 (int)((int64_t)n - now - a->pool));
        return;
    }
    a->pool -= (int64_t)n - now;
    a->warp[w->index].registers = n;
    vg_progress(w);
}

/* setmaxnreg.{inc,dec}.sync.aligned.u32 n */
bool vg_decode_setmaxnreg(struct vg_dec *d)
{
    int64_t n;
    int what = vg_mod_of(d, "inc|dec");
    bool sync = vg_mod(d, "sync"), aligned = vg_mod(d, "aligned");

    if (what < 0 || !sync || !aligned || vg_type(d) != VG_U32 ||
        !vg_literal(d, 0, &n))
        return vg_error(d, "needs .inc or .dec, .sync.aligned.u32 and a "
                           "literal");
    d->asked |= 1;
    if (n < 24 || n > 256 || n % 8)
        return vg_error(d, "%lld is no multiple of 8 from 24 to 256",
                        (long long)n);
    d->lower->program->is_async = true;
    d->out->arg = (uint32_t)n | (what == 0 ? 1u << 31 : 0);
    d->out->kind = VG_CONTROL;
    d->out->fn = setmaxnreg;
    return true;
}

/* ---- exits -------------------------------------------------------------- */

/* The exit itself is the instruction that a report names. */
void vg_async_exit(struct vg_warp *w, uint32_t mask)
{
    const struct vg_program *p = w->cta->launch->program;
    const struct vg_insn *i = &p->insn[vg_current(w)->pc];
    struct vg_async_warp *aw = vg_async_warp_of(w);

    if (aw->used > aw->done && vg_checking(w, VG_CHECK_ASYNC))
        vg_fault(w, i, -1, VG_FAILED,
                 "the warp exits while its wgmma is in flight (no "
                 "wgmma.wait_group 0)");
    vg_bulk_exit(w, i, mask);
}
