@ -- SPDX-License-Identifier: Apache-2.0
@ -- A fragments from the rows of a [k][n] matrix: word i of four rows in k holds, for
@ -- m-tile i, row g in the lower and row g + 8 in the upper half.  Inputs: tile; late, "" or
@ -- the name of a zero that the compiler does not know before the text in front of this.
@ local stationary = use("plan/stationary")
@ local ldg = use("frag/ldg")
@ assert(tile.layout == "kn")
@ local plus = late ~= "" and " + " .. late or ""
const mla_u32 low = 0x5410u${plus};
const mla_u32 high = 0x7632u${plus};
@ for e, p in ipairs(stationary.products(tile)) do
// k = ${p.at} + ${p.lane} q to ${p.at + 3} + ${p.lane} q
@     for i = 0, tile.mtw - 1 do
@         local words = {}
@         for r = 0, 3 do
@             words[r + 1] = ldg.word(string.format("w%d_%d", p.s, 4 * p.half + r), 4 * tile.mtw, i)
@         end
const mla_v4 frag${e - 1}_${i} = pair_rows(${table.concat(words, ", ")}, low, high);
@     end
@ end
