@ -- SPDX-License-Identifier: Apache-2.0
@ -- A group's sends, of its half of the columns: refill.  Inputs: t, struct, page_size; after
@ -- frag/hopper_decode_loader.tpl.
@ local rope = t.rope_blocks > 0
// Sends for half of the columns of the cursor's tile, if there is one, into the stage of that
// parity, and moves on.  The second half brings the rope${rope and "" or ", where there is one"}.  Each half completes at a barrier of its own.
template <int HALF>
static __device__ __forceinline__ void refill(const ${struct} &a, tile_cursor &next,
                                              const mla_tensor_map *kv_map,
@ if rope then
                                              const mla_tensor_map *rope_map,
@ end
                                              mla_u32 base, mla_u32 parity, mla_u32 lane)
{
    if (next.item >= next.end)
        return;
    const mla_u32 stage = base + STAGES + STAGE * parity;
    const mla_u32 full = base + FULL + 16u * parity + 8u * HALF;
    if (lane == 0u)
        mbarrier_expect(full, HALF_BYTES${rope and " + HALF * ROPE_BYTES" or ""});
    if (lane < ${t.boxes}u) {
        const mla_i32 row = (mla_i32)(box_key(next, lane) % ${page_size}u); // of its page
        tma_load(stage + HALF * HALF_BYTES + lane * ${t.box_rows * 128 * t.half}u, kv_map, full, 0, 0, HALF * ${t.half},
                 row / 8, next.page);
@ if rope then
        if (HALF == 1) {
@     for b = 0, t.rope_blocks - 1 do
            tma_load(stage + 2 * HALF_BYTES + ${b > 0 and 8192 * b .. "u + " or ""}lane * ${t.box_rows * 128}u, rope_map, full,
                     ${128 * t.half + 64 * b}, row, next.page);
@     end
        }
@ end
    }
    cursor_next(a, next, lane);
}
