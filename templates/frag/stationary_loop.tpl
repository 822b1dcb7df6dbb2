@ -- SPDX-License-Identifier: Apache-2.0
@ -- The tokens stream past W: product, loads of the next step, store.
@ -- Inputs: tile (plan/stationary.lua); x and y, names of the arguments in and out; scaled: a
@ -- token's results times position_factor of its position.
@ local stationary = use("plan/stationary")
@ local y_stride = "a." .. y .. "_token_stride"
@ local lane_columns = 2 * tile.mtw
@ local split = tile.warps_k > 1
@ if split then
@     local ex, jobs = tile.exchange, stationary.jobs(tile)
@     local first_job = jobs.per_warp == 1 and "warp_k" or string.format("%du * warp_k + q%s",
@         jobs.per_warp, tile.mtw == 1 and "" or " / " .. tile.mtw .. "u")
@     local terms = { "64u * g" }
@     if tile.mtw > 1 then
@         terms[#terms + 1] = string.format("%du * m_tile", ex.tile_bytes)
@     end
@     if tile.warps_n > 1 then
@         terms[#terms + 1] = string.format("%du * warp_n", tile.warps_k * ex.part)
@     end
@     if jobs.step_bytes and tile.token_tiles == 1 then
@         terms[#terms + 1] = "16u * first_job"
@     elseif jobs.step_bytes then
@         terms[#terms + 1] = string.format("16u * (first_job & 3u) + %du * (first_job >> 2)", ex.slot)
@     end
// Partial sums of the ${tile.warps_k} warps along k meet here: mine is where this lane leaves its
// fragments; theirs, where it reads the same fragment of all warps, 2 columns of 2 tokens.
__shared__ __align__(16) char exchange[${ex.bytes}];
@     if tile.mtw > 1 then
const mla_u32 m_tile = ${tile.mtw == 4 and "q" or string.format("q %% %du", tile.mtw)};
@     end
const mla_u32 first_job = ${first_job};
mla_u32 pair = 2u * first_job;
mla_u32 mine = ${ex.part}u * warp + 16u * lane;
mla_u32 theirs = ${table.concat(terms, " + ")};
mla_u32 buffer = 0;
@ else
mla_u32 pair = 2u * q;
@ end
@ local columns = string.format("column + %du * g%s", lane_columns, split and tile.mtw > 1 and " + 2u * m_tile" or "")
char *y = (char *)a.${y} + head * a.${y}_head_stride + (t + pair) * ${y_stride}
          + 2u * (${columns});
mla_i64 y_step = stride * ${y_stride};

// What every step uses, computed once.
pin(pair);
pin(stride);
pin(last);
pin(x_lane);
pin(y_step);
@ if split then
pin(mine);
pin(theirs);
@ end

for (; t < tokens; t += stride) {
@ for j = 0, tile.token_tiles - 1 do
@     for i = 0, tile.mtw - 1 do
    float4 c${j}_${i};
@     end
@ end
@ if scaled then
    // Factors of the tokens that this lane stores, on their way while it multiplies.
@     for _, n in ipairs(stationary.stored(tile)) do
    const float factor${n} = position_factor(a.positions[min(t + pair${n > 0 and " + " .. n .. "u" or ""}, last)]);
@     end
@ end
    ${include("frag/stationary_product.tpl", {tile = tile})}

    // The next step's rows travel while this one is stored.
    if (t + stride < tokens) {
        ${include("frag/stationary_rows.tpl", {tile = tile, at = "t + stride", stride = "a." .. x .. "_token_stride"})}
    }

    ${include(split and "frag/stationary_exchange.tpl" or "frag/stationary_store.tpl", {tile = tile, stride = y_stride, scaled = scaled})}
    y += y_step;
}
