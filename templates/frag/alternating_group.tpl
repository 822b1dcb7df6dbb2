@ -- SPDX-License-Identifier: Apache-2.0
@ -- One of the two groups: first_group has S and P of the first tile of a pair and the first half of O,
@ -- second_group the others.  Inputs: t, d, H, dtype, item, struct, lse; half, 0 or 1.
@ local wgmma = use("frag/hopper_wgmma")
@ local O, S = wgmma.names("o", d.latent // 4), wgmma.names("s", 32)
@ local first = half == 0
@ local maps = "kv_map" .. (t.rope_blocks > 0 and ", rope_map" or "")
@ local own_group = first and "GROUP" or "GROUP + 2u"
@ local function refill(stage)
@     return string.format("refill<%d>(a, %s, base, end, %s, thread);", half, maps, stage)
@ end
@ -- This warp has added the P V of a stage; when all four have, the first one sends.
@ local function pass(stage, barrier)
@     return include("frag/alternating_pass.tpl", {barrier = barrier, send = refill(stage)})
@ end
@ local function values(stage, own, fresh)
@     local v = {t = t, dtype = dtype, O = O, stage = stage, half = half, own = own, fresh = fresh}
@     v.maker = 1 - half
@     return include("frag/alternating_values.tpl", v)
@ end
@ local function follow(flies)
@     return include("frag/alternating_follow.tpl", {t = t, maker = 1 - half, O = O, flies = flies})
@ end
@ local soft = {t = t, H = H, dtype = dtype, told = "reference"}
@ soft.rows, soft.flag = "REFERENCE" .. (first and "" or " + 256u"), "GROWN" .. (first and "" or " + 16u")
@ soft.own = include("frag/alternating_shrink.tpl", {O = O, flies = not first})
@ local softmax = include("frag/hopper_decode_softmax.tpl", soft)
@ local weights = include("frag/hopper_decode_weights.tpl", {
@     to = "base + WEIGHTS + " .. (first and "" or "8192u + ") .. "weights_place()",
@     ready = first and "P_READY" or "P_READY + 1", free = false, threads = t.threads})
@ local zero = include("frag/hopper_decode_zero.tpl", {
@     t = t, columns = "base + STAGES" .. (first and "" or " + HALF_BYTES"),
@     group_bytes = 1024 * t.half, barrier = own_group})
@ local both = "group_sync<" .. t.threads .. ">(BOTH)"
@ local queries = include("frag/hopper_decode_queries.tpl", {
@     t = t, H = H, first = half, every = 2, barrier = both})
@ local refused = use("lib/work_list").REFUSED
@ local pad = first and "" or " "
static __device__ __forceinline__ void ${first and "first" or "second"}_group(const ${struct} &a,
                                                   ${pad}const mla_tensor_map *kv_map,
@ if t.rope_blocks > 0 then
                                                   ${pad}const mla_tensor_map *rope_map,
@ end
                                                   ${pad}mla_u32 base, mla_u32 thread)
{
    const mla_i32 begin = a.item_begin[list_number()];
    const mla_i32 end = a.item_begin[list_number() + 1];

    // The first warp sends for the first tile of each stage; then, as soon as a tile's P V has
    // been added, for the one that takes its place.
    if (thread < ${t.boxes}u) {
        for (mla_u32 stage = 0; stage < 2u; ++stage) {
            tile_cursor next;
            next.item = begin;
            next.end = end;
            cursor_seek(a, next, stage, thread);
            kept(base + CURSORS + CURSOR * (${half > 0 and "2u + " or ""}stage) + 32u * thread, next);
            ${refill("stage")}
        }
    }
    mla_u32 parity = 0; // of the barriers of this group's own stage

#pragma unroll 1
    for (mla_i32 index = begin; index < end; ++index) {
        mla_i32 left;  // tiles from this group's on that are left
        mla_i32 clear; // up to so many of them every row sees every key
        mla_u32 dead;  // the first dead row of the item's first tile, 64 if there is none; then 65
        {
            const work_item w = item_at(a, index);
            if (w.tiles <= 0) {
                fill_unit(a, w.request, w.first_row, threadIdx.x, ${t.threads}u,
                          w.slot == ${refused});
                continue;
            }
            left = w.tiles${first and "" or " - 1"};
            const mla_u32 all_see = (mla_u32)(w.seen + token_of(a, w.first_row));
            clear = (mla_i32)((all_see < w.end_key ? all_see : w.end_key) / 64u) - w.first_tile;
            dead = w.end_key - (mla_u32)(w.first_tile + w.tiles - 1) * 64u;
        }
        ${queries}
@ if t.q_shared == 0 then
        ${both}; // both have read the other's sums of the item before
@ end

        // Per row: the exponent's reference, far below every score at first, and the sum of this
        // group's P.
        float reference0 = -1e30f, reference1 = -1e30f;
        float sum0 = 0.0f, sum1 = 0.0f;
@ if t.rounded then
        float rounded0 = 0.0f, rounded1 = 0.0f;
@ end
        ${wgmma.declare(O)}
        ${wgmma.declare(S)}
        mla_u32 ${table.concat(wgmma.names("p", 16), ", ")};

#pragma unroll 1
@ if first then
        for (; left > 0; left -= 2) {
            const mla_u32 not_first = dead > 64u ? 1u : 0u;
            {
                ${include("frag/alternating_scores.tpl", {t = t, dtype = dtype, S = S, stage = half})}
            }
            ${softmax}
            ${weights}
            if (dead < 64u) {
                group_sync<128>(GROUP); // all of S is out of the tensor cores
                ${zero}
            }
            ${values(0, true, "not_first")}
            if (left > 1) {
                group_sync<${t.threads}>(P_READY + 1);
                ${follow(true)}
                ${values(1, false, false)}
                ${wgmma.wait({}, 1)}
                ${pass("0u", own_group .. " + 1u")}
            }
            ${wgmma.wait(O, 0)}
            ${pass("left > 1 ? 1u : 0u", own_group .. " + (left > 1 ? 0u : 1u)")}
            dead = 65u;
        }
@ else
        for (; left >= 0; left -= 2) {
            const mla_u32 not_first = dead > 64u ? 1u : 0u;
            if (left > 0) {
                ${include("frag/alternating_scores.tpl", {t = t, dtype = dtype, S = S, stage = half})}
            }
            group_sync<${t.threads}>(P_READY);
            ${follow(false)}
            if (dead < 64u) {
                ${zero}
            }
            ${values(0, false, "not_first")}
            if (left > 0) {
                ${softmax}
                ${weights}
                ${values(1, true, false)}
                ${wgmma.wait({}, 1)}
                ${pass("0u", own_group .. " + 1u")}
            }
            ${wgmma.wait(O, 0)}
            ${pass("left > 0 ? 1u : 0u", own_group .. " + (left > 0 ? 0u : 1u)")}
            dead = 65u;
        }
@ end
        ${include("frag/alternating_finish.tpl", {t = t, d = d, H = H, lse = lse, half = half})}
    }
}
