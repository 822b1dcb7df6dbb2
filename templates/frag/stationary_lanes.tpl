@ -- SPDX-License-Identifier: Apache-2.0
@ -- Who this thread is: lane, warp, head, columns, slice of the contraction; and the first
@ -- token of its CTA.  Input: tile (plan/stationary.lua).
@ local k, n = tile.warps_k, tile.warps_n
const mla_u32 lane = threadIdx.x & 31u;
const mla_u32 g = lane >> 2; // MMA group: a token of the step, a run of columns
const mla_u32 q = lane & 3u; // place in the group: a piece of the contraction
const mla_u32 head = blockIdx.y;
@ if k > 1 or n > 1 then
const mla_u32 warp = threadIdx.x >> 5;
@ end
@ if k > 1 and n > 1 then
const mla_u32 warp_k = warp % ${k}u;
const mla_u32 warp_n = warp / ${k}u;
@ elseif k > 1 then
const mla_u32 warp_k = warp;
@ end
@ local block = n == 1 and "blockIdx.x"
@     or string.format("(blockIdx.x * %du + %s)", n, k > 1 and "warp_n" or "warp")
const mla_u32 column = ${block} * ${tile.columns}u; // first of the warp's ${tile.columns}
@ if tile.spare > 0 then
const bool spare = warp_k < ${tile.spare}u; // this slice is 16 longer
const mla_u32 first_k = ${16 * tile.units}u * warp_k + 16u * min(warp_k, ${tile.spare}u);
@ elseif k > 1 then
const mla_u32 first_k = ${16 * tile.units}u * warp_k;
@ end
const mla_u32 tokens = (mla_u32)a.tokens;
mla_u32 stride = ${tile.step}u * gridDim.z;
mla_u32 t = ${tile.step}u * blockIdx.z;
if (t >= tokens)
    return;
