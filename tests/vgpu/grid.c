/* SPDX-License-Identifier: Apache-2.0
 *
 * grid.c: griddepcontrol (PTX ISA 9.7.13.13) and what it orders.
 *
 * A grid launched with programmatic stream serialisation may start before
 * the previous grid of its stream has ended; only griddepcontrol.wait makes
 * that grid's results visible.  Here grids run one after the other, so a
 * kernel that forgets the wait, or reads too early, would pass.  The sectors
 * that the previous grid read and wrote are kept (mem.c), and a thread that
 * has not waited yet may neither read what was written nor write what was
 * touched.
 */
#include "async.h"
#include "bulk_ops.h"

#include <inttypes.h>

/* Lets the next grid start.  Grids run one after the other here, and what the
 * next one may rely on is checked in it. */
static void launch_dependents(struct vg_warp *w, const struct vg_insn *i,
                              uint32_t mask)
{
    (void)w, (void)i, (void)mask;
}

/* Per lane: another thread's wait does not help. */
static void wait(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    (void)i;
    w->grid_waited |= mask;
}

static bool marked(const unsigned char *map, uint64_t sector)
{
    return map && map[sector / 8] >> (sector & 7) & 1;
}

/* Reads must not see what the previous grid wrote, and writes must not destroy
 * what it still reads or writes. */
void vg_grid_check(struct vg_warp *w, const struct vg_insn *i, int lane,
                   const struct vg_alloc *a, uint64_t addr, uint64_t bytes,
                   bool write)
{
    const struct vg_config *c = &w->cta->launch->config;
    /* Maps start at the 128-byte line of the allocation's base. */
    uint64_t first = (addr - a->base) / VG_SECTOR;
    uint64_t last = (addr - a->base + bytes - 1) / VG_SECTOR;

    if (!c->programmatic || !(c->checks & VG_CHECK_GRID) ||
        (lane >= 0 && w->grid_waited >> lane & 1))
        return;
    for (uint64_t s = first; s <= last; s++)
        if (marked(a->prior_stored, s) || (write && marked(a->prior_read, s)))
            vg_fault(w, i, lane, VG_FAILED,
                     "%s of global address 0x%" PRIx64 " (%s), which the "
                     "previous grid %s, before griddepcontrol.wait",
                     write ? "write" : "read", addr, a->name,
                     marked(a->prior_stored, s) ? "wrote" : "reads");
}

/* griddepcontrol.{launch_dependents, wait} */
bool vg_decode_griddep(struct vg_dec *d)
{
    static vg_fn *const fn[] = {launch_dependents, wait};
    int what = vg_mod_of(d, "launch_dependents|wait");

    if (what < 0)
        return vg_error(d, "needs launch_dependents or wait");
    d->out->fn = fn[what];
    return true;
}
