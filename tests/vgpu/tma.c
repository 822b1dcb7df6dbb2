/* SPDX-License-Identifier: Apache-2.0
 *
 * tma.c: cp.async.bulk.tensor, tiled mode (PTX ISA 5.5, 9.7.9.27).
 *
 * A box of up to five dimensions lies in shared memory densely, dimension 0
 * fastest; the swizzle exchanges 16-byte chunks by a XOR on the absolute
 * address.  Elements outside the tensor are filled (load) or left out
 * (store); a load counts its whole box on the mbarrier in any case.
 *
 * Example: a box of 64 x 8 bf16 has rows of 128 bytes.  Row r starts at dst +
 * 128 r.  With the 128-byte swizzle its chunk c (16 bytes) goes to chunk
 * c ^ (r & 7) of the row, when dst is a multiple of 1024.
 */
#include "async.h"
#include "bits.h"
#include "bulk_ops.h"
#include "tensor_map.h"

#include <inttypes.h>

/* Bytes that stay together under every swizzle, and the granule of the async
 * proxy. */
#define CHUNK 16

/* What struct vg_bulk keeps of the instruction. */
struct tma {
    struct vg_tensor_map map;
    int32_t start[VG_MAX_RANK];
    uint32_t shared;              /* offset in the CTA's shared memory */
};

/* One row of a box: its first byte in the dense box, the global address of
 * its first element, and which of its bytes lie in the tensor. */
struct row {
    uint32_t linear;
    uint64_t global;
    uint32_t lo, hi;
};

/* The instruction's part of a copy. */
static struct tma *tma_of(struct vg_bulk *b)
{
    _Static_assert(sizeof(struct tma) <= sizeof b->data, "size");
    return (struct tma *)b->data;
}

/* ---- geometry ----------------------------------------------------------- */

/* Where byte `linear` of the dense box lies in the CTA's shared memory.  The
 * XOR is on the address, not on the offset in the box: PTX ISA 5.5.7; address
 * bits 4-6 by bits 7-9, fewer for 64 and 32 bytes. */
static uint32_t swizzle(const struct tma *x, uint32_t linear)
{
    uint32_t addr = x->shared + linear;
    uint32_t bits = x->map.swizzle ? (1u << x->map.swizzle) - 1 : 0;

    return addr ^ ((addr >> 7 & bits) << 4);
}

/* Bytes of a row of the box, and rows: dimension 0 by all the others. */
static uint32_t row_bytes(const struct tma *x)
{
    return x->map.box[0] * vg_tensor_bytes(x->map.type);
}

static uint32_t row_count(const struct tma *x)
{
    return vg_tensor_box_bytes(&x->map) / row_bytes(x);
}

/* Bytes of dimension 0 inside the tensor, for a row that is inside in the
 * other dimensions. */
static void clip(const struct tma *x, struct row *r)
{
    int64_t size = vg_tensor_bytes(x->map.type), first = x->start[0];
    int64_t lo = first < 0 ? -first : 0;
    int64_t hi = (int64_t)x->map.dim[0] - first;

    if (hi > x->map.box[0])
        hi = x->map.box[0];
    r->lo = lo < hi ? (uint32_t)(lo * size) : 0;
    r->hi = lo < hi ? (uint32_t)(hi * size) : 0;
}

/* Row n of the box: its coordinates in dimensions 1 and up, whether they are
 * inside the tensor, and the byte range [lo, hi) that is inside in dimension
 * 0.  lo == hi: nothing is.  Coordinates may be negative. */
static void find_row(const struct tma *x, uint32_t n, struct row *r)
{
    int64_t size = vg_tensor_bytes(x->map.type);
    int64_t at = (int64_t)x->map.address + x->start[0] * size;
    bool inside = true;

    r->linear = n * row_bytes(x);
    for (unsigned d = 1; d < x->map.rank; d++) {
        unsigned extent = vg_tensor_extent(&x->map, d);
        int64_t c = x->start[d] + (int64_t)(n % extent) * x->map.step[d];

        n /= extent;
        inside &= c >= 0 && (uint64_t)c < x->map.dim[d];
        at += c * (int64_t)x->map.stride[d - 1];
    }
    r->global = (uint64_t)at;
    r->lo = r->hi = 0;
    if (inside)
        clip(x, r);
}

/* ---- tensor map --------------------------------------------------------- */

/* Finds and reads the map at a generic address: a kernel parameter or global
 * memory.  Local memory is what a parameter becomes that was copied, and the
 * message says so. */
static void read_map(struct vg_warp *w, const struct vg_insn *i, int lane,
                     uint64_t addr, struct vg_tensor_map *map)
{
    const struct vg_launch *l = w->cta->launch;
    uint64_t off = addr - VG_PARAM_WINDOW;
    const unsigned char *at = NULL;
    struct vg_alloc *a;

    if (off < VG_WINDOW_SIZE) {
        if (off + VG_TENSOR_MAP_BYTES <= l->program->func->param_bytes)
            at = (const unsigned char *)l->config.params + off;
    } else if (addr - VG_LOCAL_WINDOW < VG_WINDOW_SIZE) {
        vg_fault(w, i, lane, VG_ILLEGAL_ADDRESS,
                 "the tensor map is in local memory: its kernel parameter is "
                 "not __grid_constant__, or its address was not taken with "
                 "cvta.param");
    } else {
        a = l->config.memory ? vg_mem_find(l->config.memory, addr) : NULL;
        if (a && a->live && vg_alloc_holds(a, addr, VG_TENSOR_MAP_BYTES))
            at = a->host + (addr - a->base);
    }
    if (addr % 64)
        vg_fault(w, i, lane, VG_MISALIGNED,
                 "tensor map at 0x%" PRIx64 ", which is no multiple of 64",
                 addr);
    if (!at || !vg_tensor_unpack(at, map))
        vg_fault(w, i, lane, VG_ILLEGAL_ADDRESS,
                 "there is no tensor map at address 0x%" PRIx64, addr);
}

/* ---- global memory ------------------------------------------------------ */

/* Checks the part of a row that lies in the tensor, and counts it. */
static void touch_rows(const struct vg_async_access *a, const struct tma *x,
                       bool write)
{
    uint32_t n = row_count(x);
    struct row r;

    for (uint32_t k = 0; k < n; k++) {
        find_row(x, k, &r);
        if (r.hi > r.lo)
            vg_bulk_global(a, r.global + r.lo, r.hi - r.lo, write);
    }
}

/* ---- loads -------------------------------------------------------------- */

/* Sixteen bytes of a row, those outside the tensor filled; from: the row's
 * first byte inside. */
static void load_chunk(const struct tma *x, const struct row *r,
                       const unsigned char *from, uint32_t at,
                       unsigned char out[CHUNK])
{
    uint32_t lo = at > r->lo ? at : r->lo;
    uint32_t hi = at + CHUNK < r->hi ? at + CHUNK : r->hi;

    memset(out, x->map.nan_fill ? 0xff : 0, CHUNK);
    if (lo < hi)
        memcpy(out + (lo - at), from + (lo - r->lo), hi - lo);
}

/* The box arrives: the move of a load.  Global memory is read now, row by row,
 * and each chunk goes to its swizzled place. */
static void deliver(struct vg_bulk *b)
{
    const struct tma *x = tma_of(b);
    struct vg_mem *memory = b->w->cta->launch->config.memory;
    uint32_t n = row_count(x), size = row_bytes(x);
    struct vg_alloc *a = NULL;
    struct row r;

    for (uint32_t k = 0; k < n; k++) {
        const unsigned char *from = NULL;

        find_row(x, k, &r);
        if (r.hi > r.lo) {
            if (!a || !vg_alloc_holds(a, r.global + r.lo, 1))
                a = vg_mem_find(memory, r.global + r.lo);
            from = a->host + (r.global + r.lo - a->base);
        }
        for (uint32_t at = 0; at < size; at += CHUNK) {
            uint32_t to = swizzle(x, r.linear + at);
            unsigned char v[CHUNK];

            load_chunk(x, &r, from, at, v);
            memcpy(b->dst->shared + to, v, CHUNK);
            if (x->map.swizzle)
                vg_async_arrived(b->dst, to, CHUNK);
        }
        if (!x->map.swizzle)
            vg_async_arrived(b->dst, x->shared + r.linear, size);
    }
}

/* The copy to one CTA.  A box of whole 128-byte lines is closed under the
 * swizzle, so its destination is one range; any other is recorded chunk by
 * chunk. */
static void issue_load(const struct vg_async_access *a, const struct tma *x,
                       const struct vg_mbar *m)
{
    struct vg_bulk *b = vg_bulk_load(a, m, vg_tensor_box_bytes(&x->map));
    uint32_t size = row_bytes(x), n = row_count(x);

    *tma_of(b) = *x;
    b->move = deliver;
    b->dst_off = x->shared;
    if (b->bytes % 128 == 0)
        vg_async_write(a, x->shared, b->bytes);
    for (uint32_t k = 0; k < n && b->bytes % 128; k++)
        for (uint32_t at = 0; at < size; at += CHUNK)
            vg_async_write(a, swizzle(x, k * size + at), CHUNK);
    vg_bulk_issued(a);
}

/* Tensor copies want 128-byte alignment in shared memory; a swizzle wants its
 * own repeat besides, which the XOR on absolute addresses takes care of. */
static void check_box(struct vg_warp *w, const struct vg_insn *i, int lane,
                      const struct vg_cta *c, const struct tma *x)
{
    uint32_t bytes = vg_tensor_box_bytes(&x->map);

    if (x->shared % 128)
        vg_fault(w, i, lane, VG_MISALIGNED,
                 "the box of a tensor copy is at shared address 0x%x, which "
                 "is no multiple of 128", x->shared);
    if (x->shared + (uint64_t)bytes > c->shared_bytes)
        vg_fault(w, i, lane, VG_ILLEGAL_ADDRESS,
                 "the box of %u bytes at shared address 0x%x ends beyond the "
                 "block's %" PRIu64 " bytes", bytes, x->shared,
                 c->shared_bytes);
}

/* One lane's load: sectors are counted once, for the first receiver, since a
 * multicast asks L2 once. */
static void load_lane(struct vg_warp *w, const struct vg_insn *i, int lane,
                      struct tma *x)
{
    const struct vg_bulk_op *op = i->aux;
    struct vg_bulk_target t;

    vg_bulk_targets(w, i, lane, op, &t);
    x->shared = t.off;
    for (unsigned k = 0; k < t.n; k++) {
        struct vg_async_access a = {
            .w = w, .i = i, .c = t.cta[k], .lane = lane,
            .agent = t.mbar[k]->agent, .what = "a TMA load"};

        check_box(w, i, lane, t.cta[k], x);
        /* L2 is asked once, however many blocks receive the box. */
        if (k == 0)
            touch_rows(&a, x, false);
        issue_load(&a, x, t.mbar[k]);
    }
    vg_bulk_count_load(w, i, &t, vg_tensor_box_bytes(&x->map));
}

/* ---- stores ------------------------------------------------------------- */

/* The move of a store.  First call: the bytes leave shared memory for `held`;
 * second: they reach global memory, those inside the tensor only. */
static void store(struct vg_bulk *b)
{
    const struct tma *x = tma_of(b);
    struct vg_mem *memory = b->w->cta->launch->config.memory;
    uint32_t n = row_count(x), size = row_bytes(x);
    struct row r;

    for (uint32_t k = 0; b->held && k < n; k++) {
        struct vg_alloc *a;

        find_row(x, k, &r);
        if (r.hi <= r.lo)
            continue;
        a = vg_mem_find(memory, r.global + r.lo);
        memcpy(a->host + (r.global + r.lo - a->base),
               b->held + r.linear + r.lo, r.hi - r.lo);
        vg_bits_set_shared(a->init, r.global + r.lo - a->base, r.hi - r.lo);
    }
    if (b->held)
        return;
    vg_bulk_hold(b, (size_t)n * size);
    for (uint32_t at = 0; at < n * size; at += CHUNK)
        memcpy(b->held + at, b->w->cta->shared + swizzle(x, at), CHUNK);
}

/* Only chunks with bytes inside the tensor are read, so a partial last tile
 * may leave the rest of its box unwritten. */
static void store_lane(struct vg_warp *w, const struct vg_insn *i, int lane,
                       struct tma *x)
{
    const struct vg_bulk_op *op = i->aux;
    struct vg_async_access a = {
        .w = w, .i = i, .c = w->cta, .lane = lane,
        .agent = vg_bulk_agent(w), .what = "a TMA store"};
    uint32_t n = row_count(x), size;
    struct vg_bulk *b;
    struct row r;

    x->shared = vg_bulk_shared(w, i, lane, op);
    size = row_bytes(x);
    check_box(w, i, lane, w->cta, x);
    touch_rows(&a, x, true);
    for (uint32_t k = 0; k < n; k++) {
        find_row(x, k, &r);
        for (uint32_t at = r.lo / CHUNK * CHUNK; at < r.hi; at += CHUNK)
            vg_async_read_range(&a, swizzle(x, k * size + at), CHUNK);
    }
    b = vg_bulk_store(&a);
    *tma_of(b) = *x;
    b->move = store;
    vg_bulk_issued(&a);
    vg_bulk_count_store(w, i, vg_tensor_box_bytes(&x->map));
}

/* ---- the instruction ---------------------------------------------------- */

/* op: see bulk_ops.h; each active lane copies a box of its own. */
void vg_tma(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    const struct vg_bulk_op *op = i->aux;
    uint64_t map[VG_LANES];

    vg_mem_of(w, i);
    vg_bulk_addresses(w, i, op->map, map);
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        struct tma x = {.shared = 0};

        read_map(w, i, l, map[l], &x.map);
        if (x.map.rank != op->rank)
            vg_fault(w, i, l, VG_FAILED,
                     "a %ud copy with a tensor map of rank %u", op->rank,
                     x.map.rank);
        for (unsigned d = 0; d < op->rank; d++)
            x.start[d] =
                ((const int32_t *)vg_row(w, i->op[op->coordinate + d]))[l];
        if (op->is_store)
            store_lane(w, i, l, &x);
        else
            load_lane(w, i, l, &x);
    }
    vg_progress(w);
}
