@ -- SPDX-License-Identifier: Apache-2.0
@ -- Loads this lane's part of the token rows of the step that begins at token `at`.  A lane
@ -- beyond the last token reads the last one again; its column of the MMA is never stored.
@ -- Inputs: tile (plan/stationary.lua); at, stride (from token to token): expressions.
@ local stationary = use("plan/stationary")
@ for j = 0, tile.token_tiles - 1 do
@     local token = j == 0 and at .. " + g" or string.format("%s + %du + g", at, 8 * j)
x = x_lane + (mla_i64)min(${token}, last) * ${stride};
@     for s, step in ipairs(stationary.steps(tile)) do
@         local width = step.width // 2
@         local from = "x" .. stationary.step_offset(tile, step)
@         if step.spare then
if (spare)
    x${j}_${s - 1} = load${width}(${from});
@         else
x${j}_${s - 1} = load${width}(${from});
@         end
@     end
@ end
