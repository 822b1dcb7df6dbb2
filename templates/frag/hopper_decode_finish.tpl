@ -- SPDX-License-Identifier: Apache-2.0
@ -- The end of an item in the scores group: LSE, what O is multiplied with, the last P.  Inputs: t, H,
@ -- lse, store (text that stores P).
@ local sums = t.rounded and {"sum", "rounded"} or {"sum"}
@ local empty = lse.empty == "-inf" and "0xff800000u" or "0x7f800000u"
// Sums of the rows; rows that saw no key get O = 0.
@ for _, sum in ipairs(sums) do
@     for r = 0, 1 do
@         for _, lanes in ipairs({1, 2}) do
${sum}${r} += __shfl_xor_sync(0xffffffffu, ${sum}${r}, ${lanes});
@         end
@     end
@ end
group_sync<${t.threads}>(P_FREE${t.buffers == 2 and " + (turn + 1u) % 2u" or ""});
const work_item w = item_at(a, (mla_i32)pinned((mla_u32)index));
const thread_place me = place();
if (me.lane % 4u == 0u) {
    const mla_i32 live = a.q_len * ${H} - w.first_row;
@ for r = 0, 1 do
@     local down = r > 0 and " + 8" or ""
    put_float(base + FACTOR + ${t.buffers == 2 and "256u * ((turn + 1u) % 2u) + " or ""}4u * me.row${r > 0 and " + 32u" or ""}, sum${r} != 0.0f ? 1.0f / ${sums[#sums]}${r} : 0.0f);
    if ((mla_i32)me.row${down} < live) {
        const float log2_sum = log_2(sum${r}) + reference${r};
        const float natural = sum${r} != 0.0f ? log2_sum * ${f32(0.6931471805599453)}
                                           : __uint_as_float(0xff800000u);
        const mla_i32 row = w.first_row + (mla_i32)me.row${down};
        if (w.slot >= 0) {
            a.partial_lse[(mla_i64)w.slot * ${t.m} + row % ${t.m}] = natural;
        } else if (a.lse) {
            char *lse = (char *)a.lse + w.request * a.lse_batch_stride
                        + row / ${H} * a.lse_token_stride
                        + row % ${H} * a.lse_head_stride;
            *(float *)lse = ${lse.base == "2" and "sum" .. r .. " != 0.0f ? log2_sum : __uint_as_float(" .. empty .. ")" or lse.empty == "-inf" and "natural" or "sum" .. r .. " != 0.0f ? natural : __uint_as_float(" .. empty .. ")"};
        }
    }
@ end
}
${store}
