@ -- SPDX-License-Identifier: Apache-2.0
@ -- The end of an item: both groups' sums together, LSE by the first one, O.  Inputs: t, d, H, lse, half.
@ local divisor = t.rounded and "rounded" or "sum"
@ for _, sum in ipairs(t.rounded and {"sum", "rounded"} or {"sum"}) do
@     for r = 0, 1 do
@         for _, lanes in ipairs({1, 2}) do
${sum}${r} += __shfl_xor_sync(0xffffffffu, ${sum}${r}, ${lanes});
@         end
@     end
@ end
const work_item w = item_at(a, (mla_i32)pinned((mla_u32)index));
const thread_place me = place();
const mla_u32 sums = base + SUMS + 4u * me.row;
if (me.lane % 4u == 0u) {
    put_float(sums${half > 0 and " + 256u" or ""}, ${divisor}0);
    put_float(sums + ${256 * half + 32}u, ${divisor}1);
@ if t.rounded and half == 1 then
    put_float(sums + 512u, sum0);
    put_float(sums + 544u, sum1);
@ end
}
group_sync<${t.threads}>(BOTH);
${divisor}0 += get_float(sums${half == 0 and " + 256u" or ""});
${divisor}1 += get_float(sums + ${256 * (1 - half) + 32}u);
@ if half == 0 then
@     if t.rounded then
sum0 += get_float(sums + 512u);
sum1 += get_float(sums + 544u);
@     end
if (me.lane % 4u == 0u) {
    const mla_i32 live = a.q_len * ${H} - w.first_row;
@     for r = 0, 1 do
    ${include("frag/hopper_decode_lse.tpl", {t = t, H = H, lse = lse, r = r})}
@     end
}
@ end
// Rows that saw no key get O = 0.
const float factor0 = ${divisor}0 != 0.0f ? 1.0f / ${divisor}0 : 0.0f;
const float factor1 = ${divisor}1 != 0.0f ? 1.0f / ${divisor}1 : 0.0f;
const mla_u32 half = ${half}u;
${include("frag/hopper_decode_output.tpl", {t = t, d = d, H = H})}
