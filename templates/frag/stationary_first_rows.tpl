@ -- SPDX-License-Identifier: Apache-2.0
@ -- The token rows of the first step.  Inputs: tile (plan/stationary.lua); x, the name of the
@ -- argument.  Leaves x<token tile>_<step>, x_lane, last.
@ local stationary = use("plan/stationary")
@ local ldg = use("frag/ldg")
@ local from = tile.warps_k > 1 and "2u * first_k + " or ""
mla_u32 last = tokens - 1;
const char *x_lane = (const char *)a.${x} + head * a.${x}_head_stride
                     + (${from}${stationary.lane_bytes(tile)}u * q);
const char *x;
@ for j = 0, tile.token_tiles - 1 do
@     for s, step in ipairs(stationary.steps(tile)) do
@         local width = step.width // 2
${ldg.type(width)} x${j}_${s - 1}${step.spare and " = " .. ldg.zero(width) or ""};
@     end
@ end
${include("frag/stationary_rows.tpl", {tile = tile, at = "t", stride = "a." .. x .. "_token_stride"})}
