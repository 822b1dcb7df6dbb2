-- SPDX-License-Identifier: Apache-2.0
-- absorb_v.lua: the plans of absorb_v, which brings the latent path's output back
-- to the width of v.
--
--     out[t][h] = o[t][h] * W_UV[h]
--
-- (DeepSeek-V2, arXiv:2405.04434, section 2.1).  Two kernels, which differ in
-- where W_UV[h] is read:
--
--   ""     rows nope .. nope + v - 1 of head h of kv_b_proj: [n][k], the latent
--          contiguous.  The words of a load are A fragments as they come.
--   "hrv"  a derived w_vc [head][latent][v]: [k][n], as some engines keep it.  Rows
--          are paired by byte permutes.
--
-- See stationary.lua for the product.

local args = use("lib/args")
local base = use("lib/plan")
local costs = use("lib/cost")
local stationary = use("plan/stationary")
local symbol = use("lib/symbol")

local M = {}

local VARIANTS = {
    {
        name = "", layout = "nk", weights = "kv_b",
        doc = "kv_b_proj: per head nope + v rows of latent values",
    },
    { name = "hrv", layout = "kn", weights = "w_vc", doc = "[heads][latent][v]" },
}

local function fields(variant)
    local w = variant.weights
    return {
        args.ptr("o", "T", "in", "[tokens][heads][latent]"),
        args.stride("o_token_stride", "o, from token to token"),
        args.stride("o_head_stride", "o, from head to head"),
        args.ptr(w, "T", "in", variant.doc),
        args.stride(w .. "_head_stride", w .. ", from head to head"),
        args.stride(w .. "_row_stride", w .. ", from row to row"),
        args.ptr("out", "T", "out", "[tokens][heads][v]"),
        args.stride("out_token_stride", "out, from token to token"),
        args.stride("out_head_stride", "out, from head to head"),
        args.count("tokens", "rows of out"),
    }
end

local function plan(spec, arch, heads, variant)
    local tile = stationary.tile({
        layout = variant.layout, k = spec.kv_lora_rank, n = spec.v_head_dim, heads = heads,
    }, arch)
    tile.weights = variant.weights
    tile.first_row = variant.name == "" and spec.qk_nope_head_dim or 0
    local c = costs.new()
    stationary.cost(c, tile, heads, arch)
    local family = variant.name == "" and "absorb_v" or "absorb_v_" .. variant.name
    return base.new(spec, arch, heads, "absorb_v", {
        variant = variant.name,
        args = args.layout(symbol.args_struct(family), fields(variant), spec.dtype),
        launch = stationary.launch(tile, heads, arch),
        cost = c.pairs,
        tile = tile,
    })
end

-- @return array of the two plans
function M.plans(spec, arch, heads)
    local list = {}
    for _, variant in ipairs(VARIANTS) do
        list[#list + 1] = plan(spec, arch, heads, variant)
    end
    return list
end

return M
