-- SPDX-License-Identifier: Apache-2.0
-- absorb_q.lua: the plan of absorb_q, which makes the queries of the latent path.
--
--     q[t][h] = [ q_nope[t][h] * W_UK[h] | RoPE(q_rope[t][h]) ]
--
-- in one pass (DeepSeek-V2, arXiv:2405.04434, section 2.1: W_UK is absorbed into
-- the query).  W_UK[h] is rows 0 .. nope - 1 of head h of kv_b_proj, [k][n] with
-- the latent contiguous, and is read where it lies: no derived copy.  See
-- stationary.lua for the product.
--
-- The rotary part belongs to all CTAs of a head: each takes every so many tokens,
-- a chunk of the row per thread, after its loads of W are on their way and before
-- their first use.  So the two latencies in a row that a rotation needs (position,
-- then cos and sin) pass while W is coming.
--
-- A model with q_position_scale has both parts of a row times its factor, in fp32 before
-- the only rounding.

local args = use("lib/args")
local base = use("lib/plan")
local costs = use("lib/cost")
local stationary = use("plan/stationary")
local symbol = use("lib/symbol")

local M = {}

local function rope_fields(spec)
    if spec.qk_rope_head_dim == 0 then
        return {}
    end
    return {
        args.ptr("q_rope", "T", "in", "[tokens][heads][rope]"),
        args.stride("q_rope_token_stride", "q_rope, from token to token"),
        args.stride("q_rope_head_stride", "q_rope, from head to head"),
    }
end

local function angle_fields(spec)
    if spec.qk_rope_head_dim == 0 or spec.rope.style == "none" then
        return {}
    end
    return {
        args.ptr("cos_sin", "f32", "in", "[positions][cos(rope/2) | sin(rope/2)]"),
        args.stride("cos_sin_stride", "cos_sin, from position to position"),
        args.ptr("positions", "i64", "in", "[tokens], rows of cos_sin", { align = 8 }),
    }
end

local function append(to, list)
    for _, item in ipairs(list) do
        to[#to + 1] = item
    end
    return to
end

local function fields(spec)
    local list = {
        args.ptr("q_nope", "T", "in", "[tokens][heads][nope]"),
        args.stride("q_nope_token_stride", "q_nope, from token to token"),
        args.stride("q_nope_head_stride", "q_nope, from head to head"),
    }
    append(list, rope_fields(spec))
    append(list, {
        args.ptr("kv_b", "T", "in", "kv_b_proj: per head nope + v rows of latent values"),
        args.stride("kv_b_head_stride", "kv_b, from head to head"),
        args.stride("kv_b_row_stride", "kv_b, from row to row"),
    })
    append(list, angle_fields(spec))
    return append(list, {
        args.ptr("q", "T", "out", "[tokens][heads][latent + rope]"),
        args.stride("q_token_stride", "q, from token to token"),
        args.stride("q_head_stride", "q, from head to head"),
        args.count("tokens", "rows of q"),
    })
end

-- How the rotary rows are handed to threads: `chunks` threads per token, `tokens`
-- tokens per CTA and pass.  A CTA smaller than a row goes along it in strides.
local function rope_map(spec, tile)
    if spec.qk_rope_head_dim == 0 then
        return null
    end
    local chunks = spec.qk_rope_head_dim // base.VECTOR
    local lanes = math.min(chunks, tile.threads)
    return { style = spec.rope.style, chunks = chunks, lanes = lanes, tokens = tile.threads // lanes }
end

local function add_factor_cost(c, spec)
    local s = spec.q_position_scale
    if s ~= null then
        c.add("factor", "1 + %g ln(1 + floor(position / %d)), per lane and stored token", s.beta,
            s.original_max_position_embeddings)
    end
end

local function add_rope_cost(c, spec, map)
    if map == null then
        return
    end
    local bytes = 2 * 2 * spec.qk_rope_head_dim
    c.add("rope", "%s: %s per token, %s per CTA and pass; %d B per token and head", map.style,
        costs.plural(map.lanes, "thread"), costs.plural(map.tokens, "token"), bytes)
end

-- @return array with the one plan of the family
function M.plans(spec, arch, heads)
    local tile = stationary.tile({
        layout = "kn", k = spec.qk_nope_head_dim, n = spec.kv_lora_rank, heads = heads,
    }, arch)
    tile.rope = rope_map(spec, tile)
    local c = costs.new()
    stationary.cost(c, tile, heads, arch)
    add_rope_cost(c, spec, tile.rope)
    add_factor_cost(c, spec)
    local struct = symbol.args_struct("absorb_q", {
        norope = spec.qk_rope_head_dim == 0,
        unrotated = spec.rope.style == "none",
    })
    return {
        base.new(spec, arch, heads, "absorb_q", {
            args = args.layout(struct, fields(spec), spec.dtype),
            launch = stationary.launch(tile, heads, arch),
            cost = c.pairs,
            tile = tile,
        }),
    }
end

return M
