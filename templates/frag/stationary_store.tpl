@ -- SPDX-License-Identifier: Apache-2.0
@ -- Stores a step whose sums are complete in this warp: a lane has 2 mtw neighbouring
@ -- columns of tokens t + 2 q and the one after it, per token tile.
@ -- Inputs: tile; stride, from output token to output token.
@ local ldg = use("frag/ldg")
@ local width = 4 * tile.mtw
@ for j = 0, tile.token_tiles - 1 do
@     for odd = 0, 1 do
@         local lo, hi = odd == 0 and "x" or "y", odd == 0 and "z" or "w"
@         local words = {}
@         for i = 0, tile.mtw - 1 do
@             words[i + 1] = string.format("pack2(c%d_%d.%s, c%d_%d.%s)", j, i, lo, j, i, hi)
@         end
@         local shift = 8 * j + odd
@         local row = shift == 0 and "y" or string.format("y + %d * %s", shift, stride)
if (t + pair${shift > 0 and " + " .. shift .. "u" or ""} < tokens) {
@         if tile.mtw == 4 then
    const mla_v4 columns = {${words[1]}, ${words[2]},
                            ${words[3]}, ${words[4]}};
@         else
    const ${ldg.type(width)} columns = ${ldg.init(words)};
@         end
    store${width}(${row}, columns);
}
@     end
@ end
