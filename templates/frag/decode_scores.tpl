@ -- SPDX-License-Identifier: Apache-2.0
@ -- S = Q K^T over this warp's half of the dims, then the halves meet.  Inputs: t, declare (the
@ -- scores, rather than use those that are there).
@ -- In s<n>, x and y belong to the row that this lane's quad finishes, z and w to the other warp's.
@ local n_tiles = t.score_tiles
@ local last = t.k_steps - 1
@ -- k-step j is warp 0's alone when the number of steps is odd.
@ local function alone(j)
@     return t.k_tail == 1 and j == last
@ end
// S = Q K^T: ${n_tiles} x ${t.k_steps} m16n8k16, every second step of 16 dims.
const mla_u32 k_tile = k_from + stage;
@ for n = 0, declare and n_tiles - 1 or -1 do
float4 s${n}${alone(0) and " = make_float4(0.0f, 0.0f, 0.0f, 0.0f)" or ""};
@ end
@ if n_tiles == 1 then
@     for j = 0, last, 2 do
@         if j + 1 <= last and not alone(j + 1) then
{
    const mla_v4 k = matrices<${64 * j}>(k_tile);
    ${j == 0 and "mma_new(s0, q0, k.x, k.y)" or string.format("mma(s0, q%d.x, q%d.y, q%d.z, q%d.w, k.x, k.y)", j, j, j, j)};
    mma(s0, q${j + 1}.x, q${j + 1}.y, q${j + 1}.z, q${j + 1}.w, k.z, k.w);
}
@         else
@             for step = j, math.min(j + 1, last) do
${alone(step) and "if (me.wk == 0u) " or ""}{
    const uint2 k = two_matrices<${64 * step}>(k_tile);
    ${step == 0 and "mma_new(s0, q0, k.x, k.y)" or string.format("mma(s0, q%d.x, q%d.y, q%d.z, q%d.w, k.x, k.y)", step, step, step, step)};
}
@             end
@         end
@     end
@ else
@     for j = 0, last do
${alone(j) and "if (me.wk == 0u) " or ""}{
@         for n = 0, n_tiles - 1, 2 do
    const mla_v4 k${n} = matrices<${8 * n * t.row_stride + 64 * j}>(k_tile);
@         end
@         for n = 0, n_tiles - 1, 2 do
@             for half = 0, 1 do
@                 local b = half == 0 and string.format("k%d.x, k%d.y", n, n) or string.format("k%d.z, k%d.w", n, n)
@                 if j == 0 then
    mma_new(s${n + half}, q0, ${b});
@                 else
    mma(s${n + half}, q${j}.x, q${j}.y, q${j}.z, q${j}.w, ${b});
@                 end
@             end
@         end
}
@     end
@ end

// The other warp's rows go there; ours come back and complete the sums.
const mla_u32 partial_to = base + ((partial_from - base) ^ ${256 * n_tiles}u);
@ if n_tiles == 1 then
put2(partial_to, s0.z, s0.w);
pair_barrier(me.warp / 2u);
{
    const float2 other = get2(partial_from);
    s0.x += other.x;
    s0.y += other.y;
}
@ else
@     for n = 0, n_tiles - 1, 2 do
put4<${256 * n}>(partial_to, s${n}.z, s${n}.w, s${n + 1}.z, s${n + 1}.w);
@     end
pair_barrier(me.warp / 2u);
@     for n = 0, n_tiles - 1, 2 do
{
    const float4 other = get4<${256 * n}>(partial_from);
    s${n}.x += other.x;
    s${n}.y += other.y;
    s${n + 1}.x += other.z;
    s${n + 1}.y += other.w;
}
@     end
@ end
