@ -- SPDX-License-Identifier: Apache-2.0
@ -- P = exp(S - reference) against the reference as it stands; a vote decides whether the tile is
@ -- redone with a new one.  Inputs: t, H, half, item_field (name to index).
@ local helped = t.warps > t.score_warps
@ local has_scores = "me.warp < " .. t.score_warps .. "u"
@ local n_tiles = t.score_tiles
@ -- A new reference lies this many powers of two above the row's maximum, so that a growing row
@ -- needs the next one later.  bf16 keeps its precision down there; fp16 would lose it.
@ local headroom = half == "bf16" and 8 or 0
@ local first_column = t.wn > 1 and 8 * n_tiles .. "u * me.wn + " or ""
@ -- Text of P = exp(S - reference) to registers, shared memory and the sums.
@ local function weights()
@     local out = {}
@     for n = 0, n_tiles - 1 do
@         out[#out + 1] = string.format("    const float x%d = exp_2(fmaf(s%d.x, scale, reference));", n, n)
@         out[#out + 1] = string.format("    const float y%d = exp_2(fmaf(s%d.y, scale, reference));", n, n)
@         out[#out + 1] = string.format("    tile_sum += x%d + y%d;", n, n)
@         out[#out + 1] = string.format("    const mla_u32 p%d = pack2(x%d, y%d);", n, n, n)
@         out[#out + 1] = string.format("    put_word<%d>(p_to, p%d);", 16 * n, n)
@         if t.rounded then
@             out[#out + 1] = string.format("    tile_rounded += lo_f32(p%d) + hi_f32(p%d);", n, n)
@         end
@     end
@     return table.concat(out, "\n")
@ end
// Keys that this row does not see, in tiles where some row does not see all.
if (key + ${t.n}u > unmasked) {
    const lane_role me = role();
    const mla_i32 *entry = a.items + (mla_i64)(mla_i32)pinned(item) * 8;
    const mla_i32 row = entry[${item_field.row_tile}] * ${t.m} + (mla_i32)me.row;
    const mla_i32 token = row / ${H} < a.q_len ? row / ${H} : a.q_len - 1;
    const mla_u32 own_end = (mla_u32)(entry[${item_field.seq_len}] - a.q_len + 1 + token);
    const mla_u32 last = own_end < end_key ? own_end : end_key;
    const mla_u32 column = key + ${first_column}2u * me.quad;
@ for n = 0, n_tiles - 1 do
    if (column + ${8 * n}u >= last)
        s${n}.x = __uint_as_float(0xff800000u);
    if (column + ${8 * n + 1}u >= last)
        s${n}.y = __uint_as_float(0xff800000u);
@ end
}

// P against the reference as it stands.  A sum above 256 says that the row has outgrown
// it (always so in the first tile): then the tile is done again.
float tile_sum = 0.0f;
@ if t.rounded then
float tile_rounded = 0.0f;
@ end
${helped and "if (" .. has_scores .. ") " or ""}{
${weights()}
}
const bool outgrown = tile_sum > 256.0f;
if (barrier_any(outgrown)) {
    const lane_role me = role();
    const mla_u32 factor_at = base + FACTOR;
    float top = fmaxf(s0.x, s0.y);
@ for n = 1, n_tiles - 1 do
    top = fmaxf(top, fmaxf(s${n}.x, s${n}.y));
@ end
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
    bool again = (__ballot_sync(0xffffffffu, outgrown) >> (4u * me.g) & 15u) != 0u;
@ if t.wn > 1 then
    const mla_u32 parts = base + PARTS + 4u * me.row;
    if (me.quad == 0u${helped and " && " .. has_scores or ""}) {
        put1<0>(parts + me.wn * ${4 * t.m}u, top);
        put1<${4 * t.m * t.wn}>(parts + me.wn * ${4 * t.m}u, again ? 1.0f : 0.0f);
    }
    __syncthreads();
@     for i = 0, t.wn - 1 do
    top = fmaxf(top, get1<${4 * t.m * i}>(parts));
    again = again || get1<${4 * t.m * (t.wn + i)}>(parts) != 0.0f;
@     end
@ end

    // Only rows that outgrew it get a new one: a row's bits do not depend on others.
    const float old = reference;
    if (again)
        reference = ${headroom == 0 and "-(top * scale)" or string.format("-(top * scale + %s)", f32(headroom))};
    const float shrink = exp_2(reference - old);
    row_sum *= shrink;
@ if t.rounded then
    rounded_sum *= shrink;
    tile_rounded = 0.0f;
@ end
    tile_sum = 0.0f;
@ if helped then
    if (${has_scores}) {
    ${weights()}
    }
@ else
${weights()}
@ end
    if (me.quad == 0u${t.wn > 1 and " && me.wn == 0u" or ""}${helped and " && " .. has_scores or ""})
        put1<0>(factor_at + 4u * me.row, shrink);
    __syncthreads();
@ for i = 0, t.m // 16 - 1 do
    {
        const float upper = get1<${64 * i}>(factor_at + 4u * me.g);
        const float lower = get1<${64 * i + 32}>(factor_at + 4u * me.g);
@     for c = 0, 2 * t.column_steps - 1 do
        o${i}_${c}.x *= upper;
        o${i}_${c}.y *= upper;
        o${i}_${c}.z *= lower;
        o${i}_${c}.w *= lower;
@     end
    }
@ end
}
row_sum += tile_sum;
@ if t.rounded then
rounded_sum += tile_rounded;
@ end
