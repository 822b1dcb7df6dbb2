@ -- SPDX-License-Identifier: Apache-2.0
@ -- The end of an item in the scores group: LSE, what O is multiplied with, the last P.  Inputs: t, H,
@ -- lse, store (text that stores P).
@ local sums = t.rounded and {"sum", "rounded"} or {"sum"}
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
    put_float(base + FACTOR + ${t.buffers == 2 and "256u * ((turn + 1u) % 2u) + " or ""}4u * me.row${r > 0 and " + 32u" or ""}, sum${r} != 0.0f ? 1.0f / ${sums[#sums]}${r} : 0.0f);
    ${include("frag/hopper_decode_lse.tpl", {t = t, H = H, lse = lse, r = r})}
@ end
}
${store}
