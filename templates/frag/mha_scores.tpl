@ -- SPDX-License-Identifier: Apache-2.0
@ -- S = Q K^T for this warp's rows and the tile's keys.  Input: t.
@ local held = t.queries == "registers"
const mla_u32 k_tile = k_from${t.stages == 2 and " + stage" or ""};
@ for j = 0, t.steps - 1 do
{
@     if not held then
@         for i = 0, t.mt - 1 do
    const mla_v4 q${i}_${j} = matrices<${i * 16 * t.k_stride + 32 * j}>(q_from);
@         end
@     end
@     for n = 0, t.n // 8 - 1, 2 do
    const mla_v4 k${n} = matrices<${8 * n * t.k_stride + 32 * j}>(k_tile);
@     end
@     for n = 0, t.n // 8 - 1 do
@         local b = n % 2 == 0 and string.format("k%d.x, k%d.y", n, n) or string.format("k%d.z, k%d.w", n - 1, n - 1)
@         for i = 0, t.mt - 1 do
@             local q = string.format("q%d_%d", i, j)
@             if j == 0 then
    mma_new(s${i}_${n}, ${q}, ${b});
@             else
    mma(s${i}_${n}, ${q}.x, ${q}.y, ${q}.z, ${q}.w, ${b});
@             end
@         end
@     end
}
@ end
