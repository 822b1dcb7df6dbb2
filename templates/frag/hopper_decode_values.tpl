@ -- SPDX-License-Identifier: Apache-2.0
@ -- The values groups: O += P V, half of the columns each; the first warp sends for the tiles, or all
@ -- warps copy them.
@ -- Inputs: t, d, H, dtype, item, struct.
@ local wgmma = use("frag/hopper_wgmma")
@ local two, pair, copies = t.buffers == 2, t.cluster > 1, t.loader == "cp.async"
@ local O = wgmma.names("o", d.latent // 4)
@ local hs = 4 - t.held
@ local function k_steps(first, last)
@     local steps = {}
@     for k = first, last do
@         steps[#steps + 1] = {a = {"weights", 2 * k}, b = {"columns", 128 * t.blocks * k}}
@     end
@     return steps
@ end
@ local maps = "&kv_map" .. (t.rope_blocks > 0 and ", &rope_map" or "")
@ local rope_at = t.rope_blocks > 0 and "base + ROPE + ROPE_STAGE * (turn % 2u)" or "0u"
@ if t.moves_registers then
registers_down<${t.values_limit}>();
@ end
const mla_u32 half = group - 1u;
const mla_u32 lane = thread % 32u;
@ if not copies then
const bool sender = threadIdx.x / 32u == 4u;
@ end
@ for b = 0, t.buffers - 1 do
group_arrive<${t.threads}>(P_FREE${b > 0 and " + 1" or ""});
@ end

// The first two tiles; from then on the tile after next takes the place of the one before.
const mla_i32 begin = a.item_begin[list_number()];
const mla_i32 end = a.item_begin[list_number() + 1];
tile_cursor next;
next.item = begin;
@ if copies then
// This lane's place in page 0, and in the first stages of V and of the rope.
const char *source = piece_source(a, lane);
pin(source);
const mla_u32 into = pinned(base + STAGES + ${1024 * t.blocks}u * copier() + piece_place(lane));
const mla_u32 rope_into = ${t.rope_blocks > 0 and "pinned(base + ROPE + 1024u * copier() + piece_place(lane))" or "0u"};
next.end = end;
cursor_find(a, next, lane);
for (mla_u32 s = 0; s < 2u; ++s) {
    if (next.item < next.end) {
        copy_tile(a, next, source, into + STAGE * s,
                  rope_into${t.rope_blocks > 0 and " + ROPE_STAGE * s" or ""},
                  base + FULL + 8u * s, lane);
        cursor_next(a, next, lane);
    }
}
@ else
next.end = sender ? end : begin;
if (sender) {
    cursor_find(a, next, lane);
    for (mla_u32 s = 0; s < 2u; ++s) {
        if (next.item < next.end) {
            const mla_u32 full = base + FULL + 8u * s;
            if (lane == 0u)
                mbarrier_expect(full, TILE_BYTES);
            send_tile(next, ${maps}, base + STAGES + STAGE * s,
                      ${t.rope_blocks > 0 and "base + ROPE + ROPE_STAGE * s" or "0u"}, full, lane);
            cursor_next(a, next, lane);
        }
    }
}
@ end
const mla_u32 own_columns = base + STAGES + ${1024 * t.half}u * half;
const mla_u32 grown_from = base + GROWN + 4u * (thread / 32u);
mla_u32 turn = 0; // of six, as in the scores group
@ if pair then
mla_u32 free_parity = 0; // a bit per stage
@ end

#pragma unroll 1
for (mla_i32 index = begin; index < end; ++index) {
    mla_i32 left;
@ if copies then
    mla_u32 not_first = 0; // the first tile's; the copies have made zeros of its dead rows
@ else
    mla_u32 dead; // the first dead row of the first tile, 64 if there is none; then 65
@ end
    {
        const work_item w = item_at(a, index);
        if (w.tiles <= 0) {
            fill_unit(a, w.request, w.first_row, threadIdx.x - 128u, 256u, w.slot == ${use("lib/work_list").REFUSED});
            continue;
        }
        left = w.tiles;
@ if not copies then
        dead = w.end_key - (mla_u32)(w.first_tile + w.tiles - 1) * 64u;
@ end
    }
    ${wgmma.declare(O)}
#pragma unroll 1
    for (; left > 0; --left) {
@ if not copies then
        const mla_u32 not_first = dead > 64u ? 1u : 0u;
@ end
        const mla_u32 stage = turn < 3u ? turn : turn - 3u;
        group_sync<${t.threads}>(P_READY${two and " + turn % 2u" or ""});
        const mla_u32 spare = stage == 0u ? ${t.stages - 1}u : stage - 1u; // the tile before was there
@ if copies then
        if (next.item < next.end) {
            copy_tile(a, next, source, into + STAGE * spare,
                      rope_into${t.rope_blocks > 0 and " + ROPE_STAGE * (turn % 2u)" or ""},
                      base + FULL + 8u * spare, lane);
            cursor_next(a, next, lane);
        }
@ else
        const bool sends = next.item < next.end;
        if (sends) {
            const mla_u32 full = base + FULL + 8u * spare;
            if (lane == 0u)
                mbarrier_expect(full, TILE_BYTES);
@ if pair then
            // Both blocks send into both: each says that it is ready to get.
            if (lane < ${t.cluster}u)
                mbarrier_arrive_at(base + FREE + 8u * spare, lane);
@ else
            send_tile(next, ${maps}, base + STAGES + STAGE * spare,
                      ${rope_at}, full, lane);
            cursor_next(a, next, lane);
@ end
        }
@ end
        if (not_first) {
            ${include("frag/hopper_decode_shrink.tpl", {t = t, O = O})}
@ if not copies then
        } else if (dead < 64u) {
            ${include("frag/hopper_decode_zero.tpl", {t = t, columns = "own_columns + STAGE * stage", group_bytes = 1024 * t.blocks, barrier = "VALUES_GROUP + half"})}
@ end
        }

        // O += P V: ${hs} of 4 k-steps, the rest when the tensor cores have the next scores.
        const mla_u64 weights =
            matrix_descriptor(base + WEIGHTS${two and " + 8192u * (turn % 2u)" or ""}, 16u, 1024u, 1u);
        const mla_u64 columns =
            matrix_descriptor(own_columns + STAGE * stage, 1024u, ${1024 * t.blocks}u, 1u);
@ if hs > 0 then
        ${wgmma.batch{dtype = dtype, acc = O, fresh = "not_first", steps = k_steps(0, hs - 1), trans_b = true, fence = true, commit = hs == 4}}
@ end
@ if pair then
        if (sends) {
            const mla_u32 free = base + FREE + 8u * spare;
            mbarrier_wait_cluster(free, free_parity >> spare & 1u);
            free_parity ^= 1u << spare;
            send_tile(next, ${maps}, base + STAGES + STAGE * spare,
                      ${rope_at},
                      base + FULL + 8u * spare, lane);
            cursor_next(a, next, lane);
        }
@ end
        if (left > 1)
            group_sync<${t.threads}>(S_DONE${two and " + (turn + 1u) % 2u" or ""});
@ if hs < 4 then
        ${wgmma.batch{dtype = dtype, acc = O, fresh = hs == 0 and "not_first" or false, steps = k_steps(hs, 3), trans_b = true, fence = true, commit = true}}
@ end
        ${wgmma.wait(O, 0)}
        ${copies and "not_first = 1u" or "dead = 65u"};
        if (left > 1)
            group_arrive<${t.threads}>(P_FREE${two and " + turn % 2u" or ""});
        turn = turn == 5u ? 0u : turn + 1u;
    }
    const work_item w = item_at(a, (mla_i32)pinned((mla_u32)index));
    const thread_place me = place();
    const mla_u32 factors = base + FACTOR + ${two and "256u * ((turn + 1u) % 2u) + " or ""}4u * me.row;
    const float factor0 = get_float(factors);
    const float factor1 = get_float(factors + 32u);
    group_arrive<${t.threads}>(P_FREE${two and " + (turn + 1u) % 2u" or ""});
    ${include("frag/hopper_decode_output.tpl", {t = t, d = d, H = H})}
}
