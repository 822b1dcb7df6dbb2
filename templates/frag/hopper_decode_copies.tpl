@ -- SPDX-License-Identifier: Apache-2.0
@ -- Tiles of keys by cp.async, for pages of less than 8 keys, which no box of the copy engine takes:
@ -- tile_cursor, cursor_look, copy_tile.  Inputs: t, d, struct, page_size, shift.
@ --
@ -- A warp of the values groups brings 8 rows of a tile, a lane the 16-byte pieces lane % 8 of each
@ -- block of 64 columns of two of them, rows lane / 8 and four more: a lane needs no address but its
@ -- own, eight lanes read the 128 bytes of a line, and what differs from block to block is an immediate.
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

// The next tile to copy: its item, and the pages of this lane's two rows.  Past the last item,
// item is `end`.
struct tile_cursor {
    mla_i32 item, end, tile, first_tile, request;
    mla_u32 end_key;
    mla_i32 page, page_below;
};

// Key of this lane's first row; the other one is 4 below.
static __device__ __forceinline__ mla_u32 row_key(const tile_cursor &c, mla_u32 lane)
{
    return (mla_u32)c.tile * 64u + (threadIdx.x / 32u - 4u) * 8u + lane / 8u;
}

// Looks up the pages of this lane's rows, a tile before they are wanted; past the last key none,
// which reads as zeros.
static __device__ __forceinline__ void cursor_look(const ${struct} &a, tile_cursor &c,
                                                   mla_u32 lane)
{
    const mla_u32 key = row_key(c, lane);
    const mla_i32 *pages =
        (const mla_i32 *)((const char *)a.block_table + c.request * a.block_table_stride)
        + (key >> ${shift});
    c.page = -1;
    c.page_below = -1;
    if (key < c.end_key)
        c.page = pages[0];
    if (key + 4u < c.end_key)
        c.page_below = pages[${4 // page_size}];
}

// Copies this lane's pieces of the cursor's tile into these stages; `full` counts the lane once
// they are there.
static __device__ __forceinline__ void copy_tile(const ${struct} &a, const tile_cursor &c,
                                                 mla_u32 stage, mla_u32 rope, mla_u32 full,
                                                 mla_u32 lane)
{
    const mla_u32 chunk = lane % 8u;
    const mla_u32 warp = threadIdx.x / 32u - 4u;
    const mla_u32 place = lane / 8u * 128u + ((chunk ^ lane / 8u) << 4); // swizzled
@ if page_size > 1 then
    const mla_i64 in_page = row_key(c, lane) % ${page_size}u * a.row_stride + 16u * chunk; // of both rows
@ end
@ for r, page in ipairs({"c.page", "c.page_below"}) do
    {
        const char *from = (const char *)a.kv_cache + ${page} * a.page_stride + ${page_size > 1 and "in_page" or "16u * chunk"};
        const mla_u32 bytes = ${page} >= 0 ? 16u : 0u;
        const mla_u32 to = stage + warp * ${1024 * t.blocks}u + ${r > 1 and "(place ^ 576u)" or "place"};
@     for b = 0, t.blocks - 1 do
        copy16<${1024 * b}, ${128 * b}>(to, from, bytes);
@     end
@     if d.rope > 0 then
        const mla_u32 to_rope = rope + warp * 1024u + ${r > 1 and "(place ^ 576u)" or "place"};
@     end
@     for b = 0, whole - 1 do
        copy16<${8192 * b}, ${2 * d.latent + 128 * b}>(to_rope, from, bytes);
@     end
@     if pieces > 0 then
        if (chunk < ${pieces}u)
            copy16<${8192 * whole}, ${2 * d.latent + 128 * whole}>(to_rope, from, bytes);
@     end
    }
@ end
@ if d.rope == 0 then
    (void)rope;
@ end
    mbarrier_arrive_copied(full);
}
