@ -- SPDX-License-Identifier: Apache-2.0
@ -- c += W * x for one step of tokens: m-tiles and token tiles are independent sums,
@ -- the contraction runs in one fixed order.  Input: tile.
@ local stationary = use("plan/stationary")
@ local ldg = use("frag/ldg")
@ local function a_words(e, p, i)
@     if tile.layout == "kn" then
@         return string.format("frag%d_%d.x, frag%d_%d.y, frag%d_%d.z, frag%d_%d.w",
@             e, i, e, i, e, i, e, i)
@     end
@     local low = string.format("w%d_%d", p.s, 2 * i)
@     local high = string.format("w%d_%d", p.s, 2 * i + 1)
@     local k = 2 * p.half
@     return table.concat({ ldg.word(low, p.width, k), ldg.word(high, p.width, k),
@         ldg.word(low, p.width, k + 1), ldg.word(high, p.width, k + 1) }, ", ")
@ end
@ for e, p in ipairs(stationary.products(tile)) do
// k = ${p.at} + ${p.lane} q to ${p.at + 3} + ${p.lane} q
@     for j = 0, tile.token_tiles - 1 do
@         local x = string.format("x%d_%d", j, p.s)
@         local b = ldg.word(x, p.width, 2 * p.half) .. ", " .. ldg.word(x, p.width, 2 * p.half + 1)
@         for i = 0, tile.mtw - 1 do
${e == 1 and "mma_first" or "mma"}(c${j}_${i}, ${a_words(e - 1, p, i)}, ${b});
@         end
@     end
@ end
