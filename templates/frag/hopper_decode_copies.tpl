@ -- SPDX-License-Identifier: Apache-2.0
@ -- Tiles of keys by cp.async, for pages of less than 8 keys, which no box of the copy engine takes:
@ -- tile_cursor, cursor_find, cursor_next, copy_tile.  Inputs: t, d, struct, page_size, shift.
@ --
@ -- A warp of the values groups brings 8 rows of a tile, a lane the 16-byte pieces lane % 8 of each
@ -- block of 64 columns of two of them, rows lane / 8 and four more: a lane needs no address but its
@ -- own, eight lanes read the 128 bytes of a line, and what differs from block to block is an
@ -- immediate.  O leaves few registers: of an item's tiles the cursor keeps the pages and a count.
@ local whole = d.rope // 64 -- blocks of the rope that are full
@ local pieces = d.rope % 64 // 8 -- of the last one
@ assert(page_size <= 4, "hopper_decode_copies: a lane's rows have one place in their pages")
// Copies 16 bytes to shared memory without waiting, past L1; of 0 bytes, zeros.
template <int TO, int FROM>
static __device__ __forceinline__ void copy16(mla_u32 to, const char *from, mla_u32 bytes)
{
    asm volatile("cp.async.cg.shared.global [%0+%2], [%1+%3], 16, %4;"
                 :
                 : "r"(to), "l"(from), "n"(TO), "n"(FROM), "r"(bytes)
                 : "memory");
}

// Arrives when all copies of this thread so far are done: one of the arrivals that are expected.
static __device__ __forceinline__ void mbarrier_arrive_copied(mla_u32 barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];"
                 :
                 : "r"(barrier)
                 : "memory");
}

// This warp among the eight that copy.
static __device__ __forceinline__ mla_u32 copier()
{
    return threadIdx.x / 32u - 4u;
}

// The next tile to copy: its item, of which `left` tiles are left; where the block table has the
// page of this lane's first row, and that page and the other row's.  Past the last item, item is
// `end`.
struct tile_cursor {
    mla_i32 item, end, left;
    const mla_i32 *pages;
    mla_i32 page, page_below;
};

// The last tile of the next item that has any: tiles are visited from the end, so that only the
// first ones of an item have keys that not all rows see.  Rows past the last key, only there too,
// have no page, which reads as zeros.
static __device__ __forceinline__ void cursor_find(const ${struct} &a, tile_cursor &c,
                                                   mla_u32 lane)
{
    for (; c.item < c.end; ++c.item) {
        const work_item w = item_at(a, c.item);
        if (w.tiles > 0) {
            const mla_u32 key = (mla_u32)(w.first_tile + w.tiles - 1) * 64u
                                + 8u * copier() + lane / 8u;
            c.left = w.tiles;
            c.pages = (const mla_i32 *)((const char *)a.block_table
                                        + w.request * a.block_table_stride)
                      + (key >> ${shift});
            c.page = -1;
            c.page_below = -1;
            if (key < w.end_key)
                c.page = c.pages[0];
            if (key + 4u < w.end_key)
                c.page_below = c.pages[${4 // page_size}];
            return;
        }
    }
}

// Looks up the pages a tile before they are wanted.
static __device__ __forceinline__ void cursor_next(const ${struct} &a, tile_cursor &c,
                                                   mla_u32 lane)
{
    if (c.left > 1) {
        --c.left;
        c.pages -= ${64 // page_size};
        c.page = c.pages[0];
        c.page_below = c.pages[${4 // page_size}];
    } else {
        ++c.item;
        cursor_find(a, c, lane);
    }
}

// Where this lane's first piece goes within its warp's rows, which are swizzled.  The other row's
// goes to ^ 576, four rows on, since whatever is added is a multiple of 1024.
static __device__ __forceinline__ mla_u32 piece_place(mla_u32 lane)
{
    return lane / 8u * 128u + ((lane % 8u ^ lane / 8u) << 4);
}

// This lane's first piece of a key of page 0.
static __device__ __forceinline__ const char *piece_source(const ${struct} &a,
                                                           mla_u32 lane)
{
    return (const char *)a.kv_cache + ${page_size > 1 and string.format("lane / 8u %% %du * a.row_stride + ", page_size) or ""}lane % 8u * 16u;
}

// Copies this lane's pieces of the cursor's tile to these places in its stages; `full` counts the
// lane once they are there.
static __device__ __forceinline__ void copy_tile(const ${struct} &a, const tile_cursor &c,
                                                 const char *source, mla_u32 stage,
                                                 mla_u32 rope, mla_u32 full, mla_u32 lane)
{
@ for r, page in ipairs({"c.page", "c.page_below"}) do
@     local swap = r > 1 and " ^ 576u" or ""
    {
        const char *from = source + ${page} * a.page_stride;
        const mla_u32 bytes = ${page} >= 0 ? 16u : 0u;
@     for b = 0, t.blocks - 1 do
        copy16<${1024 * b}, ${128 * b}>(stage${swap}, from, bytes);
@     end
@     for b = 0, whole - 1 do
        copy16<${8192 * b}, ${2 * d.latent + 128 * b}>(rope${swap}, from, bytes);
@     end
@     if pieces > 0 then
        if (lane % 8u < ${pieces}u)
            copy16<${8192 * whole}, ${2 * d.latent + 128 * whole}>(rope${swap}, from, bytes);
@     end
    }
@ end
@ if d.rope == 0 then
    (void)rope;
@ end
@ if pieces == 0 then
    (void)lane;
@ end
    mbarrier_arrive_copied(full);
}
