@ -- SPDX-License-Identifier: Apache-2.0
@ -- A consumer warpgroup of mha on sm_90a.  Inputs: plan, t, lse, S, O (names of accumulators).
@ local batch = use("frag/mha_hopper_batch")
@ local first_item = t.cluster > 1 and "blockIdx.x / 2u" or "blockIdx.x"
@ local item_step = t.cluster > 1 and "gridDim.x / 2u" or "gridDim.x"
@ local Q = batch.names("q", 4 * t.held)
    const mla_u32 lane = threadIdx.x & 31u;
    const mla_u32 g = lane >> 2; // lane = 4 g + quad
    const mla_u32 quad = lane & 3u;
    const mla_u32 warp = threadIdx.x >> 5 & 3u; // of the warpgroup, 16 rows each
    const float scale = a.softmax_scale * ${f32(1.4426950408889634)}; // exp(x) = 2^(x log2 e)
    const mla_u64 k_first = matrix_descriptor(base + K, 16u, 1024u, SWIZZLE);
    const mla_u64 v_first = matrix_descriptor(base + V, ${128 * t.n}u, 1024u, SWIZZLE);
    ring k = {0, 0};
    ring v = {0, 0};
@ if t.passing == 0 then
    mla_u32 q_parity = 0;
    const mla_u64 q_matrix = matrix_descriptor(base + Q + group * ${t.q_bytes // 2}u, 16u, 1024u, SWIZZLE);
@ end
    if (group == 1u)
        pass_turn(1); // the other one begins

    work w;
    w.request = 0;
#pragma unroll 1
    for (w.place = ${first_item}; find_work(a, w); w.place += ${item_step}) {
        // Row i of the request sees the keys below w.k_len - w.q_len + 1 + i, or all.
        const mla_i32 group_row = w.row + ${t.group_rows} * (mla_i32)group;
        const mla_i32 warp_row = group_row + 16 * (mla_i32)warp;
        const mla_i32 diagonal = w.k_len - w.q_len + 1;
        const mla_i32 group_end = group_row >= w.q_len ? 0
                                  : a.causal           ? diagonal + min(group_row + ${t.group_rows}, w.q_len) - 1
                                                       : w.k_len;
        const mla_i32 warp_sees = a.causal ? diagonal + warp_row : w.k_len; // its first row
        const mla_i32 lane_sees = warp_sees + a.causal * (mla_i32)g - 2 * (mla_i32)quad;
        float row_max0 = minus_infinity();
        float row_max1 = minus_infinity();
        float row_sum0 = 0.0f;
        float row_sum1 = 0.0f;
        ${batch.declare("float", O, 8)}
@ for i = 0, #O - 1, 8 do
        ${table.concat(O, " = ", i + 1, math.min(i + 8, #O))} = 0.0f;
@ end
        if (w.end_key > 0) {
            ${batch.declare("float", S, 12)}
            ${batch.declare("mla_u32", batch.names("p", t.n // 4), 12)}
@ if t.held > 0 then
            ${batch.declare("mla_u32", Q, 12)}
@ end
            mla_u64 k_matrix, v_matrix;

            // Queries to registers, as A fragments: k-step i is q(4 i) to q(4 i + 3).  Lane l reads
            // row l % 16 and its left or right half; 16-byte units are swizzled by the row.
@ local function fragments(from)
@     local out = { string.format("const mla_u32 q_from = base + %s;", from) }
@     out[2] = "const mla_u32 q_row = q_from + (16u * warp + (lane & 15u)) * 128u\n"
@         .. "                      + (((lane >> 4) ^ (lane & 7u)) << 4);"
@     for i = 0, t.held - 1 do
@         local s = t.q_steps[i + 1]
@         local at = string.format(s.box > 0 and "(q_row ^ %du) + %du" or "q_row ^ %du", 32 * s.part,
@             s.box * t.group_rows * 128)
@         out[#out + 1] = string.format("load_matrices(%s, q%d, q%d, q%d, q%d);", at, 4 * i, 4 * i + 1,
@             4 * i + 2, 4 * i + 3)
@     end
@     return table.concat(out, "\n")
@ end
@ if t.passing == 0 then
            mbarrier_wait(base + Q_FULL, q_parity);
            q_parity ^= 1u;
@     if t.held > 0 then
            ${fragments("Q + group * " .. t.q_bytes // 2 .. "u")}
            proxy_fence();
@     end
@ elseif t.q_entries == 1 then
            mbarrier_wait(base + K_FULL + 8u * k.stage, k.parity);
            ${fragments("K + k.stage * K_BYTES + group * " .. t.q_bytes // 2 .. "u")}
            proxy_fence();
            __syncwarp();
            release(base + K_EMPTY + 8u * k.stage, lane);
            advance<K_STAGES>(k);
@ else
            // Each warpgroup's in a stage of its own, the first one's first; both release both.
            const ring first = k;
            advance<K_STAGES>(k);
            const ring mine = group == 0u ? first : k;
            mbarrier_wait(base + K_FULL + 8u * mine.stage, mine.parity);
            ${fragments("K + mine.stage * K_BYTES")}
            proxy_fence();
            __syncwarp();
            mbarrier_wait(base + K_FULL + 8u * k.stage, k.parity);
            release(base + K_EMPTY + 8u * first.stage, lane);
            release(base + K_EMPTY + 8u * k.stage, lane);
            advance<K_STAGES>(k);
@ end

            // Tiles that only the other warpgroup's rows see, or all, if there are no rows here:
            // given back as soon as they are there, in step with the other's turns.
            mla_i32 begin = (w.end_key - 1) / KEYS * KEYS;
#pragma unroll 1
            for (; begin >= group_end && begin >= 0; begin -= KEYS) {
                mbarrier_wait(base + K_FULL + 8u * k.stage, k.parity);
                mbarrier_wait(base + V_FULL + 8u * v.stage, v.parity);
                release(base + K_EMPTY + 8u * k.stage, lane);
                release(base + V_EMPTY + 8u * v.stage, lane);
                advance<K_STAGES>(k);
                advance<V_STAGES>(v);
                take_turn(group);
                pass_turn(group);
            }
            if (begin >= 0) {
                // S of the first tile.  Score s(4 j + i) is of row g + 8 (i / 2) of the warp and
                // key 8 j + 2 quad + i % 2 of the tile.
                mbarrier_wait(base + K_FULL + 8u * k.stage, k.parity);
                k_matrix = k_first + k.stage * (K_BYTES / 16u);
                take_turn(group);
                ${batch.scores(t, plan.dtype)}
                pass_turn(group);
                ${batch.wait(S, 0)}
                bool fresh = true; // nothing in O
#pragma unroll 1
                for (;;) {
                    release(base + K_EMPTY + 8u * k.stage, lane);
                    advance<K_STAGES>(k);

                    ${include("frag/mha_hopper_softmax.tpl", {t = t})}

                    // O is out of flight, and V of the tile before is done with.  It is scaled only
                    // where a maximum of the warp's rows rose, by 1 for the other rows.
                    ${batch.wait(O, 0)}
                    if (!fresh) {
                        release(base + V_EMPTY + 8u * v.stage, lane);
                        advance<V_STAGES>(v);
                        if (rises) {
@ for i = 0, #O - 1 do
                            o${i} *= shrink${i // 2 % 2};
@ end
                        }
                    }
@ for i = 0, t.n // 4 - 1 do
                    p${i} = pack2(s${2 * i}, s${2 * i + 1});
@ end
                    if (begin == 0)
                        break;

                    // S of the next tile and O of this one go to the tensor core together; softmax
                    // of the next begins when its S is there, and runs under the rest.
                    begin -= KEYS;
                    fresh = false;
                    mbarrier_wait(base + K_FULL + 8u * k.stage, k.parity);
                    k_matrix = k_first + k.stage * (K_BYTES / 16u);
                    v_matrix = v_first + v.stage * (V_BYTES / 16u);
                    take_turn(group);
                    ${batch.scores(t, plan.dtype)}
                    mbarrier_wait(base + V_FULL + 8u * v.stage, v.parity);
                    ${batch.values(t, plan.dtype)}
                    pass_turn(group);
                    ${batch.wait(S, 1)}
                }

                // O of the last tile.
@ if t.passing == 0 then
                if (lane == 0)
                    mbarrier_arrive(base + Q_EMPTY);
@ end
                v_matrix = v_first + v.stage * (V_BYTES / 16u);
                mbarrier_wait(base + V_FULL + 8u * v.stage, v.parity);
                take_turn(group);
                ${batch.values(t, plan.dtype)}
                pass_turn(group);
                ${batch.wait(O, 0)}
                release(base + V_EMPTY + 8u * v.stage, lane);
                advance<V_STAGES>(v);
            } else {
@ if t.passing == 0 then
                if (lane == 0)
                    mbarrier_arrive(base + Q_EMPTY);
@ end
                take_turn(group);
                pass_turn(group);
            }
        }

        {
            ${include("frag/mha_hopper_output.tpl", {t = t, lse = lse})}
        }
    }
    if (group == 0u)
        take_turn(0); // the last one that the other passed
