@ -- SPDX-License-Identifier: Apache-2.0
@ -- The scores group: S = Q K^T, its softmax, P.  Inputs: t, d, H, dtype, item, struct, lse.
@ local wgmma = use("frag/hopper_wgmma")
@ local two = t.buffers == 2
@ local per_block = 4 -- k-steps
@ local steps = {}
@ for k = 0, t.steps - 1 do
@     local block, at = k // per_block, 2 * (k % per_block)
@     local b = block < t.blocks and {"keys", 64 * block + at} or {"rope_keys", 512 * (block - t.blocks) + at}
@     local a = {"queries", 128 * (k - t.q_registers)}
@     if k < t.q_registers then
@         local q = "q" .. k
@         a = {q .. ".x", q .. ".y", q .. ".z", q .. ".w"}
@     end
@     steps[#steps + 1] = {a = a, b = b}
@ end
@ local S = wgmma.names("s", 32)
@ -- P of the tile before `turn`, when the values groups have read the one before; at the end the wait is over.
@ local buffer = two and " + (turn + 1u) % 2u" or ""
@ local weights = {to = t.rounded and "base + WEIGHTS + weights_place()" or "weights_to", ready = "P_READY" .. buffer, threads = t.threads}
@ weights.to, weights.free = weights.to .. (two and " + 8192u * ((turn + 1u) % 2u)" or ""), false
@ local last_store = include("frag/hopper_decode_weights.tpl", weights)
@ weights.free = "P_FREE" .. buffer
@ local store = include("frag/hopper_decode_weights.tpl", weights)
@ local slot_of = t.slots == 2 and "turn % 2u" or "stage"
@ if t.moves_registers then
registers_up<${t.scores_limit}>();
@ end
// Nearly all registers hold Q, S and P: a thread's place and the item's bounds are asked
// for again where they are needed.
@ if not t.rounded then
const mla_u32 weights_to = base + WEIGHTS + weights_place();
@ end
mla_u32 turn = 0; // of six: three stages, each with two parities

#pragma unroll 1
for (mla_i32 index = a.item_begin[list_number()]; index < a.item_begin[list_number() + 1];
     ++index) {
    mla_i32 left;  // tiles that are left
    mla_i32 clear; // up to so many of them every row sees every key
    {
        const work_item w = item_at(a, index);
        left = w.tiles;
        const mla_u32 all_see = (mla_u32)(w.seen + token_of(a, w.first_row));
        clear = (mla_i32)((all_see < w.end_key ? all_see : w.end_key) / 64u) - w.first_tile;
    }
    if (left <= 0)
        continue;
    ${include("frag/hopper_decode_queries.tpl", {t = t, H = H, first = 0, every = 1, barrier = "group_sync<128>(SCORES_GROUP)"})}

    // Per row: the exponent's reference, far below every score at first, and the sum of P.
    float reference0 = -1e30f, reference1 = -1e30f;
    float sum0 = 0.0f, sum1 = 0.0f;
@ if t.rounded then
    float rounded0 = 0.0f, rounded1 = 0.0f;
@ end
    mla_u32 ${table.concat(wgmma.names("p", 16), ", ")};
    mla_u32 before = NONE; // what there is of the tile before

#pragma unroll 1
    for (; left > 0; --left) {
        const mla_u32 stage = turn < 3u ? turn : turn - 3u;
        const mla_u32 full = base + FULL + 8u * stage;
        const mla_u32 parity = turn < 3u ? 0u : 1u;
@ if t.early then
        // Where the keys are late, P goes first, so that the values groups need not
        // wait for them.  The warps decide together: a warpgroup issues its wgmmas as one.
        if (before == WEIGHED && !group_finds<128>(SCORES_GROUP, full, parity)) {
            ${store}
            before = STORED;
        }
@ else
        if (before == WEIGHED) {
            ${store}
            before = STORED;
        }
@ end
        mbarrier_wait(full, parity);
@ if t.loader == "cp.async" then
        // The copies are ordinary writes to wgmma; P_READY tells the values groups of this.
        proxy_fence();
@ end
        const mla_u64 keys =
            matrix_descriptor(base + STAGES + STAGE * stage, 16u, ${1024 * t.blocks}u, 1u);
@ if t.rope_blocks > 0 then
        const mla_u64 rope_keys =
            matrix_descriptor(base + ROPE + ROPE_STAGE * (turn % 2u), 16u, 1024u, 1u);
@ end
@ if t.q_shared > 0 then
        const mla_u64 queries = matrix_descriptor(base + QUERIES, 16u, 256u, 3u);
@ end

        // S = Q K^T: ${t.q_registers} k-steps with Q in registers, ${t.q_shared} with Q in shared memory.
        ${wgmma.declare(S)}
        ${wgmma.batch{dtype = dtype, acc = S, fresh = true, steps = steps, fence = true, commit = true}}
@ if t.early then
        if (before == WEIGHED) {
            ${store}
        }
@ end
        ${wgmma.wait(S, 0)}
        if (before != NONE)
            group_arrive<${t.threads}>(S_DONE${two and " + turn % 2u" or ""});
        ${include("frag/hopper_decode_softmax.tpl", {t = t, H = H, dtype = dtype, rows = "SHRINK + 256u * (" .. slot_of .. ")", flag = "GROWN + 16u * (" .. slot_of .. ")", told = "shrink", own = ""})}
        before = WEIGHED;
        turn = turn == 5u ? 0u : turn + 1u;
    }
    ${include("frag/hopper_decode_finish.tpl", {t = t, H = H, lse = lse, store = last_store})}
}
@ for b = 0, t.buffers - 1 do
group_sync<${t.threads}>(P_FREE${b > 0 and " + 1" or ""}); // what the values groups have left open
@ end
