/* SPDX-License-Identifier: Apache-2.0
 *
 * special.c: the special registers (PTX ISA 9.0, section 10) as rows.
 *
 * A special register is read like any other operand.  What is the same for
 * the whole launch (%ntid, %nctaid, %lanemask_lt, ...) becomes a constant
 * row; what depends on the CTA or the warp (%tid, %ctaid, ...) a register
 * row that launch.c fills when the CTA starts.  The clocks change while a
 * warp runs and are therefore read by handlers of their own (op_move.c).
 *
 * To add one: a function that gives a lane's value, a row in the table, and
 * the name in ptx_scope.c's list, without which the parser takes it for an
 * undeclared register.
 */
#include "lower.h"

/* How far the value is the same: a launch, a CTA, or a warp. */
enum scope { LAUNCH, CTA, WARP };

/* Value of one lane; n is the row's own number, mostly the dimension.  c and
 * w are NULL for scope LAUNCH. */
typedef uint64_t value_fn(const struct vg_launch *l, const struct vg_cta *c,
                          const struct vg_warp *w, unsigned lane, unsigned n);

/* A launch without clusters has clusters of one CTA. */
static unsigned cluster_dim(const struct vg_launch *l, unsigned n)
{
    uint32_t c = l->config.cluster[n];
    return c ? c : 1;
}

static unsigned cluster_size(const struct vg_launch *l)
{
    return cluster_dim(l, 0) * cluster_dim(l, 1) * cluster_dim(l, 2);
}

/* The grid is a multiple of the cluster where there is one; rounding up only
 * keeps a wrong launch from dividing to nothing. */
static unsigned cluster_count(const struct vg_launch *l, unsigned n)
{
    return (l->config.grid[n] + cluster_dim(l, n) - 1) / cluster_dim(l, n);
}

/* The functions below have one signature, and most need little of it. */
#define VALUE(name)                                                           \
    static uint64_t name(const struct vg_launch *l, const struct vg_cta *c,   \
                         const struct vg_warp *w, unsigned lane, unsigned n)
#define UNUSED (void)l, (void)c, (void)w, (void)lane, (void)n

/* Threads are numbered x fastest and cut into warps in that order. */
VALUE(tid)
{
    UNUSED;
    unsigned t = w->index * VG_LANES + lane;
    unsigned x = l->config.block[0], y = l->config.block[1];
    return n == 0 ? t % x : n == 1 ? t / x % y : t / x / y;
}
/* What the launch says. */
VALUE(ntid)
{
    UNUSED;
    return l->config.block[n];
}
VALUE(ctaid)
{
    UNUSED;
    return c->id[n];
}
VALUE(nctaid)
{
    UNUSED;
    return l->config.grid[n];
}
VALUE(laneid)
{
    UNUSED;
    return lane;
}
/* n: 0 eq, 1 le, 2 lt, 3 ge, 4 gt */
VALUE(lanemask)
{
    UNUSED;
    uint32_t eq = 1u << lane, lt = eq - 1;
    uint32_t v[] = {eq, lt | eq, lt, ~lt, ~(lt | eq)};
    return v[n];
}
VALUE(warpid)
{
    UNUSED;
    return w->index;
}
/* Most warps that an SM holds: 2048 threads on the data-centre parts.  The
 * ISA promises no exact value. */
VALUE(nwarpid)
{
    UNUSED;
    return 2048 / VG_LANES;
}
/* Some SM: the ISA lets it change at any time, and a kernel that counts on
 * its being spread over the SMs gets that. */
VALUE(smid)
{
    UNUSED;
    return c->linear % (l->config.sms ? l->config.sms : 1);
}
VALUE(nsmid)
{
    UNUSED;
    return l->config.sms;
}
/* %gridid: one grid at a time. */
VALUE(zero)
{
    UNUSED;
    return 0;
}
/* Words of the cooperative-groups workspace; cooperative_groups reads its
 * address from %envreg1 and 2. */
VALUE(envreg)
{
    UNUSED;
    return l->config.envreg[n];
}
/* Bytes of dynamic shared memory. */
VALUE(dynamic_smem)
{
    UNUSED;
    return l->config.dynamic_shared;
}
/* Static and dynamic.  %aggr_smem_size would add what the system reserves. */
VALUE(total_smem)
{
    UNUSED;
    return l->program->dynamic_offset + l->config.dynamic_shared;
}
/* Cluster coordinates follow from the CTA's: clusters tile the grid. */
VALUE(clusterid)
{
    UNUSED;
    return c->id[n] / cluster_dim(l, n);
}
VALUE(nclusterid)
{
    UNUSED;
    return cluster_count(l, n);
}
VALUE(cluster_ctaid)
{
    UNUSED;
    return c->id[n] % cluster_dim(l, n);
}
VALUE(cluster_nctaid)
{
    UNUSED;
    return cluster_dim(l, n);
}
/* x fastest within the cluster (launch.c, place_cta). */
VALUE(cluster_ctarank)
{
    UNUSED;
    return c->rank;
}
VALUE(cluster_nctarank)
{
    UNUSED;
    return cluster_size(l);
}
/* Was the launch given a cluster, be it of one CTA? */
VALUE(is_explicit_cluster)
{
    UNUSED;
    return l->config.cluster[0] != 0;
}

/* Every special register that kernels use.  %clock and %globaltimer are in
 * op_move.c; the performance counters %pm0 and on are not there. */
static const struct {
    const char *name;
    value_fn *value;
    enum scope scope;
    uint8_t n, bits;
} specials[] = {
    {"tid.x", tid, WARP, 0, 32},
    {"tid.y", tid, WARP, 1, 32},
    {"tid.z", tid, WARP, 2, 32},
    {"ntid.x", ntid, LAUNCH, 0, 32},
    {"ntid.y", ntid, LAUNCH, 1, 32},
    {"ntid.z", ntid, LAUNCH, 2, 32},
    {"ctaid.x", ctaid, CTA, 0, 32},
    {"ctaid.y", ctaid, CTA, 1, 32},
    {"ctaid.z", ctaid, CTA, 2, 32},
    {"nctaid.x", nctaid, LAUNCH, 0, 32},
    {"nctaid.y", nctaid, LAUNCH, 1, 32},
    {"nctaid.z", nctaid, LAUNCH, 2, 32},
    {"laneid", laneid, LAUNCH, 0, 32},
    {"lanemask_eq", lanemask, LAUNCH, 0, 32},
    {"lanemask_le", lanemask, LAUNCH, 1, 32},
    {"lanemask_lt", lanemask, LAUNCH, 2, 32},
    {"lanemask_ge", lanemask, LAUNCH, 3, 32},
    {"lanemask_gt", lanemask, LAUNCH, 4, 32},
    {"warpid", warpid, WARP, 0, 32},
    {"nwarpid", nwarpid, LAUNCH, 0, 32},
    {"smid", smid, CTA, 0, 32},
    {"nsmid", nsmid, LAUNCH, 0, 32},
    {"gridid", zero, LAUNCH, 0, 64},
    {"envreg1", envreg, LAUNCH, 0, 32},
    {"envreg2", envreg, LAUNCH, 1, 32},
    {"dynamic_smem_size", dynamic_smem, LAUNCH, 0, 32},
    {"total_smem_size", total_smem, LAUNCH, 0, 32},
    {"aggr_smem_size", total_smem, LAUNCH, 0, 32},
    {"clusterid.x", clusterid, CTA, 0, 32},
    {"clusterid.y", clusterid, CTA, 1, 32},
    {"clusterid.z", clusterid, CTA, 2, 32},
    {"nclusterid.x", nclusterid, LAUNCH, 0, 32},
    {"nclusterid.y", nclusterid, LAUNCH, 1, 32},
    {"nclusterid.z", nclusterid, LAUNCH, 2, 32},
    {"cluster_ctaid.x", cluster_ctaid, CTA, 0, 32},
    {"cluster_ctaid.y", cluster_ctaid, CTA, 1, 32},
    {"cluster_ctaid.z", cluster_ctaid, CTA, 2, 32},
    {"cluster_nctaid.x", cluster_nctaid, LAUNCH, 0, 32},
    {"cluster_nctaid.y", cluster_nctaid, LAUNCH, 1, 32},
    {"cluster_nctaid.z", cluster_nctaid, LAUNCH, 2, 32},
    {"cluster_ctarank", cluster_ctarank, CTA, 0, 32},
    {"cluster_nctarank", cluster_nctarank, LAUNCH, 0, 32},
    {"is_explicit_cluster", is_explicit_cluster, LAUNCH, 0, 1},
};

/* bits: the register's own width; reading it as another is allowed. */
int vg_special_find(const char *name, unsigned *bits, bool *uniform)
{
    for (size_t n = 0; n < sizeof specials / sizeof *specials; n++)
        if (strcmp(specials[n].name, name) == 0) {
            *bits = specials[n].bits;
            *uniform = specials[n].scope == LAUNCH;
            return (int)n;
        }
    return -1;
}

/* Per lane, because %tid, %laneid and %lanemask differ between lanes. */
void vg_special_fill(int id, unsigned bits, const struct vg_launch *l,
                     const struct vg_cta *c, const struct vg_warp *w,
                     void *row)
{
    uint32_t mask = 0;
    for (unsigned lane = 0; lane < VG_LANES; lane++) {
        uint64_t v = specials[id].value(l, c, w, lane, specials[id].n);
        if (bits == 1)
            mask |= (uint32_t)(v != 0) << lane;
        else if (bits == 16)
            ((uint16_t *)row)[lane] = (uint16_t)v;
        else if (bits == 32)
            ((uint32_t *)row)[lane] = (uint32_t)v;
        else
            ((uint64_t *)row)[lane] = v;
    }
    if (bits == 1)
        *(uint32_t *)row = mask;
}

/* Writes one value into every lane of a row.  bits 1: value is the mask. */
void vg_fill_row(void *row, uint64_t value, uint64_t high, unsigned bits)
{
    for (unsigned lane = 0; lane < VG_LANES; lane++)
        switch (bits) {
        case 1: *(uint32_t *)row = (uint32_t)value; break;
        case 8: ((uint8_t *)row)[lane] = (uint8_t)value; break;
        case 16: ((uint16_t *)row)[lane] = (uint16_t)value; break;
        case 32: ((uint32_t *)row)[lane] = (uint32_t)value; break;
        case 128:
            ((uint64_t *)row)[VG_LANES + lane] = high;
            ((uint64_t *)row)[lane] = value;
            break;
        default: ((uint64_t *)row)[lane] = value; break;
        }
}
