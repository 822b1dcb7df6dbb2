@ -- SPDX-License-Identifier: Apache-2.0
@ -- P = exp(S - reference) against the references as they stand; the warp votes whether the tile is
@ -- redone with new ones.  Inputs: t, dtype.  Row r of a lane is row 16 (r / 2) + 8 (r % 2) + g of its warp's.
@ -- A quad of lanes shares a row.
@ local rows, tiles = 2 * t.mt, t.n // 8
@ -- How far above the maximum, in powers of two, a reference starts.  P in bf16 is as exact when it
@ -- is small, and a rising maximum has further to go; in fp16 it would fall below the normal range.
@ local headroom = dtype == "bf16" and 8 or 0
@ local above = headroom == 0 and "" or " + " .. f32(headroom + 0.0)
@ -- The two columns of row r in tile n of S.
@ local function pair(r, n)
@     local s = string.format("s%d_%d", r // 2, n)
@     if r % 2 == 0 then
@         return s .. ".x", s .. ".y"
@     end
@     return s .. ".z", s .. ".w"
@ end
@ -- Text of P = exp(S - reference), packed as the A operand, and of its sums.
@ local function weights(indent)
@     local out = {}
@     local word = { [0] = "x", "y", "z", "w" }
@     for i = 0, t.mt - 1 do
@         for n = 0, tiles - 1 do
@             for half = 0, 1 do
@                 local r = 2 * i + half
@                 local x, y = pair(r, n)
@                 out[#out + 1] = string.format(
@                     "%sp%d_%d.%s = weights<%s>(%s, %s, scale, reference%d, tile_sum%d);",
@                     indent, i, n // 2, word[2 * (n % 2) + half], n == 0 and "true" or "false", x, y, r, r)
@             end
@         end
@     end
@     return table.concat(out, "\n")
@ end
@ -- Text that leaves row r's maximum in `top`, in all four lanes.  hidden: in a loop that seldom
@ -- turns; the chain starts from a value that the compiler cannot compute before the loop.
@ local function maximum(r, indent, hidden)
@     local x0, y0 = pair(r, 0)
@     local out = { string.format("%sfloat top = fmaxf(%s, %s);", indent, hidden and "hidden(" .. x0 .. ")" or x0, y0) }
@     for n = 1, tiles - 1 do
@         local x, y = pair(r, n)
@         out[#out + 1] = string.format("%stop = fmaxf(fmaxf(top, %s), %s);", indent, x, y)
@     end
@     out[#out + 1] = indent .. "top = fmaxf(top, butterfly<1>(top));"
@     out[#out + 1] = indent .. "top = fmaxf(top, butterfly<2>(top));"
@     return table.concat(out, "\n")
@ end
// Keys that a row does not see, in tiles that not every row of the warp sees.
if (left < masked_below) {
    const mla_i32 sees0 = lane_sees + left;
@ for r = 1, rows - 1 do
    const mla_i32 sees${r} = sees${r - 1} + 8 * a.causal;
@ end
@ for i = 0, t.mt - 1 do
@     for n = 0, tiles - 1 do
    hide_beyond<${8 * n}>(s${i}_${n}, sees${2 * i}, sees${2 * i + 1});
@     end
@ end
}

// A row's first reference: ${headroom > 0 and "2^" .. headroom .. " above" or "the"} maximum of its first tile, if it sees any.
if (__float_as_uint(reference0) == 0x7fffffffu) {
@ for r = 0, rows - 1 do
    {
${maximum(r, "        ")}
        reference${r} = -(fmaxf(top, -1e30f) * scale${above});
    }
@ end
}

// P against the references as they stand.  A sum above 256 says that some maximum
// has outgrown its reference: then the tile is done again, and P is 1 at most.
@ for i = 0, t.mt - 1 do
@     for k = 0, tiles // 2 - 1 do
mla_v4 p${i}_${k};
@     end
@ end
@ for r = 0, rows - 1 do
float tile_sum${r};
@ end
for (;;) {
${weights("    ")}
    float most = tile_sum0;
@ for r = 1, rows - 1 do
    most = fmaxf(most, tile_sum${r});
@ end
    if (!__any_sync(0xffffffffu, most > 256.0f))
        break;
@ for r = 0, rows - 1 do
    {
${maximum(r, "        ", true)}
        // Only rows that outgrew theirs get a new one, whatever others do.
        const mla_u32 outgrown = __ballot_sync(0xffffffffu, tile_sum${r} > 256.0f);
        const float old = reference${r};
        if (outgrown >> (4u * g) & 15u)
            reference${r} = -(top * scale${above});
        const float shrink = exp_2(reference${r} - old);
        row_sum${r} *= shrink;
@     for c = 0, t.columns // 8 - 1 do
        ${r % 2 == 0 and "scale_upper" or "scale_lower"}(o${r // 2}_${c}, shrink);
@     end
    }
@ end
}
@ for r = 0, rows - 1 do
row_sum${r} += tile_sum${r};
@ end
