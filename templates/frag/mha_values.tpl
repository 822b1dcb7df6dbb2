@ -- SPDX-License-Identifier: Apache-2.0
@ -- O += P V, 16 keys and 16 columns at a time.  Input: t.
const mla_u32 v_tile = v_from${t.stages == 2 and " + stage" or ""};
@ for k = 0, t.n // 16 - 1 do
@     for c = 0, t.columns // 16 - 1 do
{
    const mla_v4 v = matrices_transposed<${k * 16 * t.v_stride + 32 * c}>(v_tile);
@         for half = 0, 1 do
@             for i = 0, t.mt - 1 do
@                 local p = string.format("p%d_%d", i, k)
    mma(o${i}_${2 * c + half}, ${p}.x, ${p}.y, ${p}.z, ${p}.w, ${half == 0 and "v.x, v.y" or "v.z, v.w"});
@             end
@         end
}
@     end
@ end
