@ -- SPDX-License-Identifier: Apache-2.0
@ -- The tokens stream past W: product, loads of the next step, store.
@ -- Inputs: tile (plan/stationary.lua); x and y, names of the arguments in and out.
@ local x_stride = "a." .. x .. "_token_stride"
@ local y_stride = "a." .. y .. "_token_stride"
@ local lane_columns = 2 * tile.mtw
@ local split = tile.warps_k > 1
@ if split then
@     local per_warp = 4 // tile.mtw
@     local ex = tile.exchange
@     local group = tile.warps_n > 1 and string.format("warp_n * %du + ", tile.warps_k * ex.part) or ""
@     local m_tile = tile.mtw == 1 and "" or tile.mtw == 4 and "q" or string.format("q %% %du", tile.mtw)
// Sums over the ${tile.warps_k} warps along k: where this lane leaves its fragments, where it reads the
// others', and the columns that it then stores.
__shared__ __align__(16) char exchange[${ex.bytes}];
@     if m_tile ~= "" then
const mla_u32 m_tile = ${m_tile};
@     end
@     local job = per_warp == 1 and "warp_k"
@         or string.format("%du * warp_k + q%s", per_warp, tile.mtw == 1 and "" or " / " .. tile.mtw .. "u")
const mla_u32 first_job = ${job}; // a pair of tokens
char *mine = exchange + (warp * ${ex.part}u + 16u * lane);
const char *theirs = exchange + (${group}${m_tile ~= "" and "m_tile * " .. ex.tile_bytes .. "u + " or ""}64u * g);
char *y_lane = (char *)a.${y} + head * a.${y}_head_stride
               + 2u * (column + ${lane_columns}u * g${m_tile ~= "" and " + 2u * m_tile" or ""});
mla_u32 slot = 0;
@ else
char *y_lane = (char *)a.${y} + head * a.${y}_head_stride
               + 2u * (column + ${lane_columns}u * g);
@ end

for (; t < tokens; t += stride) {
@ for j = 0, tile.token_tiles - 1 do
@     for i = 0, tile.mtw - 1 do
    float4 c${j}_${i} = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
@     end
@ end
    ${include("frag/stationary_product.tpl", {tile = tile})}

    // The next step's rows travel while this one is stored.
    if (t + stride < tokens) {
        ${include("frag/stationary_rows.tpl", {tile = tile, at = "t + stride", stride = x_stride})}
    }

    ${include(split and "frag/stationary_exchange.tpl" or "frag/stationary_store.tpl", {tile = tile, stride = y_stride})}
}
