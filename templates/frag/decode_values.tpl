@ -- SPDX-License-Identifier: Apache-2.0
@ -- O += P V over this warp's columns, 16 keys and 16 columns at a time.  Input: t.
// O += P V: V is the first columns of the same key rows.
const mla_u32 v_tile = v_from + stage;
@ for k = 0, t.n // 16 - 1 do
{
@     for i = 0, t.m // 16 - 1 do
    const mla_v4 p${i} = matrices<${i * 16 * t.p_stride + 32 * k}>(p_from);
@     end
@     for c = 0, t.column_steps - 1 do
@         local some = c == t.column_steps - 1 and t.column_tail > 0
    ${some and string.format("if (me.warp < %du) ", t.column_tail) or ""}{
        const mla_v4 v = matrices_transposed<${k * 16 * t.row_stride + 32 * t.warps * c}>(v_tile);
@         for i = 0, t.m // 16 - 1 do
        mma(o${i}_${2 * c}, p${i}.x, p${i}.y, p${i}.z, p${i}.w, v.x, v.y);
        mma(o${i}_${2 * c + 1}, p${i}.x, p${i}.y, p${i}.z, p${i}.w, v.z, v.w);
@         end
    }
@     end
}
@ end
