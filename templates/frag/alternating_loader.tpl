@ -- SPDX-License-Identifier: Apache-2.0
@ -- A group's sends, of its half of the columns: cursor_seek, taken, kept, refill.  Inputs: t, struct,
@ -- page_size; after frag/hopper_decode_loader.tpl.
@ --
@ -- Stage 0 has the tiles that come first in their pairs, stage 1 the others, and each stage goes
@ -- its own way through the list: an item with an odd number of tiles leaves stage 1 to the next.
@ local rope = t.rope_blocks > 0
// The first tile of a stage from an item on: the last tile of one, or the last but one, where the
// item has so many.
static __device__ __forceinline__ void cursor_seek(const ${struct} &a, tile_cursor &c,
                                                   mla_u32 stage, mla_u32 lane)
{
    for (;; ++c.item) {
        cursor_find(a, c, lane);
        if (stage == 0u || c.item >= c.end)
            return;
        if (c.tile > c.first_tile) {
            --c.tile;
            cursor_look(a, c, lane);
            return;
        }
    }
}

// O, S and Q fill the registers, so a lane's cursor waits in shared memory until it is needed.
static __device__ __forceinline__ tile_cursor taken(mla_u32 from, mla_i32 end)
{
    tile_cursor c;
    c.end = end;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(c.item), "=r"(c.tile), "=r"(c.first_tile), "=r"(c.request)
                 : "r"(from)
                 : "memory");
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2+16];"
                 : "=r"(c.end_key), "=r"(c.page)
                 : "r"(from)
                 : "memory");
    return c;
}

static __device__ __forceinline__ void kept(mla_u32 to, const tile_cursor &c)
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n\t"
                 "st.shared.v2.b32 [%0+16], {%5, %6};"
                 :
                 : "r"(to), "r"(c.item), "r"(c.tile), "r"(c.first_tile), "r"(c.request),
                   "r"(c.end_key), "r"(c.page)
                 : "memory");
}

// Sends for half of the columns of the stage's next tile, if there is one.  The second half brings
// the rope${rope and "" or ", where there is one"}.  Each half completes at a barrier of its own.
template <int HALF>
static __device__ __forceinline__ void refill(const ${struct} &a,
                                              const mla_tensor_map *kv_map,
@ if rope then
                                              const mla_tensor_map *rope_map,
@ end
                                              mla_u32 base, mla_i32 end, mla_u32 stage,
                                              mla_u32 lane)
{
    if (lane >= ${t.boxes}u)
        return;
    const mla_u32 cursor = base + CURSORS + CURSOR * (2 * HALF + stage) + 32u * lane;
    tile_cursor next = taken(cursor, end);
    if (next.item >= end)
        return;
    const mla_u32 to = base + STAGES + STAGE * stage;
    const mla_u32 full = base + FULL + 16u * stage + 8u * HALF;
    if (lane == 0u)
        mbarrier_expect(full, HALF_BYTES${rope and " + HALF * ROPE_BYTES" or ""});
    const mla_i32 row = (mla_i32)(box_key(next, lane) % ${page_size}u); // of its page
    tma_load(to + HALF * HALF_BYTES + lane * ${t.box_rows * 128 * t.half}u, kv_map, full, 0, 0, HALF * ${t.half},
             row / 8, next.page);
@ if rope then
    if (HALF == 1) {
@     for b = 0, t.rope_blocks - 1 do
        tma_load(to + 2 * HALF_BYTES + ${b > 0 and 8192 * b .. "u + " or ""}lane * ${t.box_rows * 128}u, rope_map, full,
                 ${128 * t.half + 64 * b}, row, next.page);
@     end
    }
@ end
    next.tile -= 2;
    if (next.tile >= next.first_tile) {
        cursor_look(a, next, lane);
    } else {
        ++next.item;
        cursor_seek(a, next, stage, lane);
    }
    kept(cursor, next);
}
