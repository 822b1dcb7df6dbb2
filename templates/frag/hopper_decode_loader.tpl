@ -- SPDX-License-Identifier: Apache-2.0
@ -- The warp that sends for tiles: tile_cursor, cursor_next, cursor_find, send_tile.  Inputs: t, d,
@ -- item, struct, page_size, shift.
@ local emit = use("lib/emit")
@ local pair = t.cluster > 1
@ local send = pair and "tma_multicast" or "tma_load"
@ local mask = pair and string.format(", (unsigned short)%d", (1 << t.cluster) - 1) or ""
// The next tile to send for: its item, and in lane k the page of the k-th of the ${t.boxes} boxes of ${t.box_rows}
// keys that this block sends for.  Past the last item, item is `end`.
struct tile_cursor {
    mla_i32 item, end, tile, first_tile, request;
    mla_u32 end_key;
    mla_i32 page;
};

// First key of this lane's box.
static __device__ __forceinline__ mla_u32 box_key(const tile_cursor &c, mla_u32 lane)
{
    return (mla_u32)c.tile * 64u + (${pair and emit.mul("cluster_rank()", t.boxes) .. " + lane" or "lane"}) * ${t.box_rows}u;
}

// Looks up the page of this lane's box; past the last key none, which reads as zeros.
static __device__ __forceinline__ void cursor_look(const ${struct} &a, tile_cursor &c,
                                                   mla_u32 lane)
{
    const mla_i32 *pages =
        (const mla_i32 *)((const char *)a.block_table + c.request * a.block_table_stride);
    const mla_u32 key = box_key(c, lane);
    c.page = -1;
    if (lane < ${t.boxes}u && key < c.end_key)
        c.page = pages[key >> ${shift}];
}

// The last tile of the next item that has any: tiles are visited from the end, so that only the
// first ones of an item have keys that not all rows see.
static __device__ __forceinline__ void cursor_find(const ${struct} &a, tile_cursor &c,
                                                   mla_u32 lane)
{
    for (; c.item < c.end; ++c.item) {
        const work_item w = item_at(a, c.item);
        if (w.tiles > 0) {
            c.first_tile = w.first_tile;
            c.tile = w.first_tile + w.tiles - 1;
            c.request = w.request;
            c.end_key = w.end_key;
            cursor_look(a, c, lane);
            return;
        }
    }
}
@ if t.schedule ~= "a" then -- (a) goes on by stages: frag/alternating_loader.tpl

static __device__ __forceinline__ void cursor_next(const ${struct} &a, tile_cursor &c,
                                                   mla_u32 lane)
{
    if (c.tile > c.first_tile) {
        --c.tile;
        cursor_look(a, c, lane);
    } else {
        ++c.item;
        cursor_find(a, c, lane);
    }
}

// Sends for the boxes of the cursor's tile, into these stages; they complete at `full`, which
// expects them already.
@ local maps = {"const mla_tensor_map *kv_map", t.rope_blocks > 0 and "const mla_tensor_map *rope_map" or nil}
static __device__ __forceinline__ void send_tile(const tile_cursor &c, ${maps[1]},
@ if maps[2] then
                                                 ${maps[2]},
@ end
                                                 mla_u32 stage, mla_u32 rope, mla_u32 full,
                                                 mla_u32 lane)
{
    if (lane >= ${t.boxes}u)
        return;
    const mla_u32 box = ${pair and emit.mul("cluster_rank()", t.boxes) .. " + lane" or "lane"};
    const mla_i32 row = (mla_i32)(box_key(c, lane) % ${page_size}u); // of its page
    ${send}(stage + box * ${t.box_rows * 2 * d.latent}u, kv_map, full${mask}, 0, 0, 0, row / 8, c.page);
@ for b = 0, t.rope_blocks - 1 do
    ${send}(rope + ${b > 0 and 8192 * b .. "u + " or ""}box * ${t.box_rows * 128}u, rope_map, full${mask}, ${d.latent + 64 * b}, row, c.page);
@ end
@ if t.rope_blocks == 0 then
    (void)rope;
@ end
}
@ end
