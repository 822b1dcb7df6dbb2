-- SPDX-License-Identifier: Apache-2.0
-- kv_append: new latents and rope keys into the pool.
--
--     row(slot) = [ RMSNorm(latent) * weight | RoPE(k_rope, position) ]
--
-- Floor per token, R = 512 and DR = 64: 1,152 bytes in, 1,152 out, 256 of cos/sin,
-- 16 of slot and position; the norm weights (1,024) once per launch.
--
-- Plan: `lanes` neighbouring lanes own a token, so that a lane holds about four
-- vectors of its latent in registers: 16 lanes at R = 512, two tokens per warp.
-- Slot, position, latent and rope are loaded before anything depends on one of
-- them; only the cos/sin row waits for its position.  The sum of squares is an
-- xor-shuffle among the lanes of a token.  A lane rotates four pairs, whose cosines
-- and sines are 16 bytes each; with NeoX pairing they are 8 bytes of either half of
-- the row instead of one vector.  The norm weights go through shared memory, once
-- per block of eight warps.  A slot below zero (a padded token of a captured graph)
-- stores nothing, and its position is not looked up.
--
-- Gaps to the floor: the weights are read once per block, 64 bytes per token at
-- 16 tokens per block (2.5 %); a launch of a few tokens is latency, not bytes.
-- Where the latent is no multiple of lanes * 8 the last vectors idle some lanes,
-- and lanes beyond the rope's vectors idle during the rotation.
--
-- A model with kv_lora_scale has its factor on the latent, with a norm or without one,
-- in fp32 before the only rounding.

local args = use("lib/args")
local cost = use("lib/cost")
local launch = use("lib/launch")
local plan = use("lib/plan")
local symbol = use("lib/symbol")

local M = {}

local WARPS = 8
local CHUNKS = 4 -- vectors of the latent per lane, aimed at
local ROPE_CHUNKS = 2
local LANES_MIN, LANES_MAX = 4, 16

local function arguments(spec)
    local rope = spec.qk_rope_head_dim > 0
    local fields = {
        args.ptr("latent", "T", "in", "[tokens, R]"),
        args.stride("latent_stride", "latent from token to token"),
    }
    local function add(f)
        fields[#fields + 1] = f
    end
    if rope then
        add(args.ptr("k_rope", "T", "in", "[tokens, DR]"))
        add(args.stride("k_rope_stride", "k_rope from token to token"))
    end
    add(args.ptr("norm_weight", "T", "in", "[R]; NULL: no norm", { null = true }))
    add(args.f32("norm_eps", "epsilon of the norm"))
    if rope and spec.rope.style ~= "none" then
        add(args.ptr("cos_sin", "f32", "in", "[positions, cos DR/2 | sin DR/2]"))
        add(args.stride("cos_sin_stride", "cos_sin from position to position"))
        add(args.ptr("positions", "i64", "in", "[tokens], row of cos_sin", { align = 8 }))
    end
    add(args.ptr("slots", "i64", "in", "[tokens], page * P + row, distinct; < 0: skip",
        { align = 8 }))
    add(args.ptr("kv_cache", "T", "out", "[pages, P, R + DR]"))
    add(args.stride("page_stride", "kv_cache from page to page"))
    add(args.stride("row_stride", "kv_cache from row to row of a page"))
    add(args.count("tokens", "tokens"))
    local variant = { norope = not rope, unrotated = rope and spec.rope.style == "none" }
    return args.layout(symbol.args_struct("kv_append", variant), fields, spec.dtype)
end

-- How a token's vectors lie on its lanes.  A remainder r > 0 means: the last
-- vector of a lane exists for its first r lanes only.
local function tile(spec)
    local latent = spec.kv_lora_rank // plan.VECTOR
    local rope = spec.qk_rope_head_dim // plan.VECTOR
    local lanes = plan.power_of_two(math.max(plan.ceil_div(latent, CHUNKS),
        plan.ceil_div(rope, ROPE_CHUNKS)))
    lanes = math.max(LANES_MIN, math.min(LANES_MAX, lanes))
    return {
        lanes = lanes,
        chunks = plan.ceil_div(latent, lanes),
        remainder = latent % lanes,
        rope_chunks = plan.ceil_div(rope, lanes),
        rope_remainder = rope % lanes,
        tokens_per_warp = 32 // lanes,
        tokens_per_cta = WARPS * 32 // lanes,
        weight_vectors = latent,
        page_shift = plan.log2(spec.kv_cache.page_size),
    }
end

local function costs(spec, t)
    local c = cost.new()
    local row = (spec.kv_lora_rank + spec.qk_rope_head_dim) * 2
    local table_row = 0
    if spec.qk_rope_head_dim > 0 and spec.rope.style ~= "none" then
        table_row = spec.qk_rope_head_dim * 4
    end
    c.add("tile", "warp: %s, %d lanes each, %s of latent per lane; block: %s",
        cost.plural(t.tokens_per_warp, "token"), t.lanes, cost.plural(t.chunks, "vector"),
        cost.plural(t.tokens_per_cta, "token"))
    c.add("smem", "%s bytes static: the norm weights", cost.grouped(spec.kv_lora_rank * 2))
    c.add("registers", "about %d", 12 * (t.chunks + t.rope_chunks) + 8)
    c.add("bytes", "per token %s in + %s out + %d of cos/sin + indices (floor); "
        .. "the weights (%s) once per block", cost.grouped(row), cost.grouped(row), table_row,
        cost.grouped(spec.kv_lora_rank * 2))
    return c.pairs
end

function M.plans(spec, arch, heads)
    plan.check_cache(spec, "kv_append")
    local t = tile(spec)
    return {
        plan.new(spec, arch, heads, "kv_append", {
            args = arguments(spec),
            launch = {
                block = { 32 * WARPS, 1, 1 },
                pdl = arch.pdl,
                grid = launch.grid({ launch.per("tokens", t.tokens_per_cta) }),
            },
            cost = costs(spec, t),
            tile = t,
        }),
    }
end

return M
