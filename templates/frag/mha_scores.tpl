@ -- SPDX-License-Identifier: Apache-2.0
@ -- S = Q K^T for this warp's rows and the tile's keys.  Input: t.
@ local held = t.queries == "registers"
@ local looped = t.unrolled < t.steps
@ assert(not (held and looped), "mha_scores: Q in registers has no loop")
${looped and "" or "const "}mla_u32 k_tile = k_from${t.stages == 2 and " + stage" or ""};
@ if looped then
@     for i = 0, t.mt - 1 do
@         for n = 0, t.n // 8 - 1 do
s${i}_${n} = zeros();
@         end
@     end
// ${t.unrolled} of ${t.steps} steps of 16 dims at a time; the end is hidden so that it stays a loop.
const mla_u32 q_end = pinned(q_from + ${32 * t.steps}u);
for (mla_u32 q_step = q_from; q_step != q_end; q_step += ${32 * t.unrolled}u, k_tile += ${32 * t.unrolled}u) {
@ end
@ local pad = looped and "    " or ""
@ for j = 0, t.unrolled - 1 do
${pad}{
@     if not held then
@         for i = 0, t.mt - 1 do
${pad}    const mla_v4 q${i}_${j} = matrices<${i * 16 * t.k_stride + 32 * j}>(${looped and "q_step" or "q_from"});
@         end
@     end
@     for n = 0, t.n // 8 - 1, 2 do
${pad}    const mla_v4 k${n} = matrices<${8 * n * t.k_stride + 32 * j}>(k_tile);
@     end
@     for n = 0, t.n // 8 - 1 do
@         local b = n % 2 == 0 and string.format("k%d.x, k%d.y", n, n) or string.format("k%d.z, k%d.w", n - 1, n - 1)
@         for i = 0, t.mt - 1 do
@             local q = string.format("q%d_%d", i, j)
@             if j == 0 and not looped then
    mma_new(s${i}_${n}, ${q}, ${b});
@             else
${pad}    mma(s${i}_${n}, ${q}.x, ${q}.y, ${q}.z, ${q}.w, ${b});
@             end
@         end
@     end
${pad}}
@ end
@ if looped then
}
@ end
