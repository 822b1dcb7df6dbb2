@ -- SPDX-License-Identifier: Apache-2.0
@ -- Stores a step whose sums are complete in this warp: a lane has 2 mtw neighbouring
@ -- columns of tokens t + 2 q and the one after it, per token tile.
@ -- Inputs: tile; stride, from output token to output token; scaled, by factor<token>.
@ local ldg = use("frag/ldg")
@ local width = 4 * tile.mtw
@ for j = 0, tile.token_tiles - 1 do
@     for odd = 0, 1 do
@         local lo, hi = odd == 0 and "x" or "y", odd == 0 and "z" or "w"
@         local words = {}
@         local shift = 8 * j + odd
@         local times = scaled and " * factor" .. shift or ""
@         for i = 0, tile.mtw - 1 do
@             words[i + 1] = string.format("pack2(c%d_%d.%s%s, c%d_%d.%s%s)", j, i, lo, times, j, i, hi, times)
@         end
@         local row = shift == 0 and "y" or string.format("y + %d * %s", shift, stride)
if (t + pair${shift > 0 and " + " .. shift .. "u" or ""} < tokens) {
@         local first = "const " .. ldg.type(width) .. " columns = "
@         local apart = ",\n" .. string.rep(" ", #first + 1)
    ${first}${#words == 1 and words[1] or "{" .. table.concat(words, apart) .. "}"};
    store${width}(${row}, columns);
}
@     end
@ end
