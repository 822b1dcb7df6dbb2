@ -- SPDX-License-Identifier: Apache-2.0
@ -- The item's result: O divided by the sums, and LSE, to the output or to its slot.
@ -- Inputs: t, d, H, lse (spec.lse), slot, row_tile and request (indices of fields).
@ local scorer = t.warps > t.score_warps and " && me.warp < " .. t.score_warps .. "u" or ""
@ local owner = "me.quad == 0u" .. (t.wn > 1 and " && me.wn == 0u" or "") .. scorer
@ local sums = t.rounded and {"row_sum", "rounded_sum"} or {"row_sum"}
@ local empty = lse.empty == "-inf" and "0xff800000u" or "0x7f800000u"
// Sums of the rows, and what O is multiplied with; rows that saw no key get O = 0.
@ if t.wn == 1 then
__syncthreads(); // the last tile's factors have been read
@ end
const mla_i32 *entry = a.items + (mla_i64)(mla_i32)pinned(item) * 8;
const mla_u32 factor_at = base + FACTOR;
const lane_role me = role();
@ for _, sum in ipairs(sums) do
${sum} += __shfl_xor_sync(0xffffffffu, ${sum}, 1);
${sum} += __shfl_xor_sync(0xffffffffu, ${sum}, 2);
@ end
@ if t.wn > 1 then
{
    const mla_u32 parts = base + PARTS + 4u * me.row;
    if (me.quad == 0u${scorer}) {
@     for s, sum in ipairs(sums) do
        put1<${4 * t.m * t.wn * (s - 1)}>(parts + me.wn * ${4 * t.m}u, ${sum});
@     end
    }
    __syncthreads();
@     for s, sum in ipairs(sums) do
    ${sum} = 0.0f;
@         for i = 0, t.wn - 1 do
    ${sum} += get1<${4 * t.m * (t.wn * (s - 1) + i)}>(parts);
@         end
@     end
}
@ end
const mla_i32 slot = entry[${slot}];
// Pinned: with as many heads as rows the compiler sees through row / heads, and
// keeps an address for every row of O, which does not fit beside O.
const mla_i32 first_row = (mla_i32)pinned((mla_u32)entry[${row_tile}] * ${t.m}u);
const mla_i32 rows = a.q_len * ${H} - first_row; // that exist
if (${owner}) {
    put1<0>(factor_at + 4u * me.row, row_sum != 0.0f ? 1.0f / ${sums[#sums]} : 0.0f);
    if ((mla_i32)me.row < rows) {
        const float log2_sum = log_2(row_sum) - reference;
        const float natural =
            row_sum != 0.0f ? log2_sum * ${f32(0.6931471805599453)} : __uint_as_float(0xff800000u);
        if (slot >= 0) {
            a.partial_lse[(mla_i64)slot * ${t.m} + me.row] = natural;
        } else if (a.lse) {
            const mla_i32 row = first_row + (mla_i32)me.row;
            char *lse = (char *)a.lse + entry[${request}] * a.lse_batch_stride
                        + row / ${H} * a.lse_token_stride
                        + row % ${H} * a.lse_head_stride;
            *(float *)lse = ${lse.base == "2" and "row_sum != 0.0f ? log2_sum : __uint_as_float(" .. empty .. ")" or lse.empty == "-inf" and "natural" or "row_sum != 0.0f ? natural : __uint_as_float(" .. empty .. ")"};
        }
    }
}
__syncthreads();

@ for i = 0, t.m // 16 - 1 do
@     for half = 0, 1 do
@         local r = 16 * i + 8 * half
@         local lo, hi = half == 0 and "x" or "z", half == 0 and "y" or "w"
if (${r > 0 and r .. " + " or ""}(mla_i32)me.g < rows) {
    const mla_i32 row = ${r > 0 and r .. " + " or ""}(mla_i32)me.g;
    const float factor = get1<${4 * r}>(factor_at + 4u * me.g);
    if (slot >= 0) {
        float *to = a.partial_o + ((mla_i64)slot * ${t.m} + row) * ${d.latent} + 16u * me.warp
                    + 2u * me.quad;
@         for c = 0, t.column_steps - 1 do
@             local guard = c == t.column_steps - 1 and t.column_tail > 0
@             local pad = guard and "    " or ""
@             if guard then
        if (me.warp < ${t.column_tail}u) {
@             end
@             for z = 0, 1 do
@                 local o = string.format("o%d_%d", i, 2 * c + z)
        ${pad}*(float2 *)(to + ${16 * t.warps * c + 8 * z}) = make_float2(${o}.${lo} * factor, ${o}.${hi} * factor);
@             end
@             if guard then
        }
@             end
@         end
    } else {
        const mla_i32 token = (first_row + row) / ${H};
        const mla_i32 head = (first_row + row) % ${H};
        char *to = (char *)a.out + entry[${request}] * a.out_batch_stride
                   + token * a.out_token_stride + head * a.out_head_stride
                   + 32u * me.warp + 4u * me.quad;
@         for c = 0, t.column_steps - 1 do
@             local guard = c == t.column_steps - 1 and t.column_tail > 0
@             local pad = guard and "    " or ""
@             if guard then
        if (me.warp < ${t.column_tail}u) {
@             end
@             for z = 0, 1 do
@                 local o = string.format("o%d_%d", i, 2 * c + z)
        ${pad}*(mla_u32 *)(to + ${32 * t.warps * c + 16 * z}) = pack2(${o}.${lo} * factor, ${o}.${hi} * factor);
@             end
@             if guard then
        }
@             end
@         end
    }
}
@     end
@ end
