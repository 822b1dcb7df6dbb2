-- SPDX-License-Identifier: Apache-2.0
-- rope_q.lua: the plan of rope_q, which rotates the queries of the Normal path in place.
--
--     q[t][h] = factor(t) * [ q_nope[t][h] | RoPE(q_rope[t][h]) ]
--
-- absorb_q does the same on its way to the latent space.  Where the model has no factor by
-- position (q_position_scale) the nope part is not touched; where nothing rotates there is no
-- such kernel.
--
-- Floor per token and head: the columns that change, in and out; cos and sin once per token.
-- A thread has four pairs, 16 bytes (with NeoX pairing 8 bytes of either half); the threads of
-- a row are neighbours, so cos and sin come out of L1 for all heads of a block but the first.
-- The number of heads is an argument.

local args = use("lib/args")
local base = use("lib/plan")
local costs = use("lib/cost")
local launch = use("lib/launch")
local symbol = use("lib/symbol")

local M = {}

local THREADS = 256

local function fields()
    return {
        args.ptr("q", "T", "inout", "[tokens][heads][nope + rope]"),
        args.stride("q_token_stride", "q, from token to token"),
        args.stride("q_head_stride", "q, from head to head"),
        args.ptr("cos_sin", "f32", "in", "[positions][cos(rope/2) | sin(rope/2)]"),
        args.stride("cos_sin_stride", "cos_sin, from position to position"),
        args.ptr("positions", "i64", "in", "[tokens], rows of cos_sin", { align = 8 }),
        args.count("heads", "heads of q"),
        args.count("tokens", "tokens"),
    }
end

local function cost(spec, t)
    local c = costs.new()
    local width = spec.qk_rope_head_dim + (t.scaled and spec.qk_nope_head_dim or 0)
    c.add("tile", "block: one token, %s of %s", costs.plural(t.heads, "head"),
        costs.plural(t.chunks, "thread"))
    c.add("bytes", "per token and head %s in + %s out, %s of cos/sin per token (floor)",
        costs.grouped(2 * width), costs.grouped(2 * width),
        costs.grouped(4 * spec.qk_rope_head_dim))
    return c.pairs
end

-- @return array with the one plan of the family, or none
function M.plans(spec, arch, heads)
    if spec.qk_rope_head_dim == 0 or spec.rope.style == "none" then
        return {}
    end
    local chunks = spec.qk_rope_head_dim // base.VECTOR
    local t = {
        style = spec.rope.style, chunks = chunks, heads = THREADS // chunks,
        scaled = spec.q_position_scale ~= null,
    }
    return {
        base.new(spec, arch, heads, "rope_q", {
            args = args.layout(symbol.args_struct("rope_q"), fields(), spec.dtype),
            launch = {
                block = { THREADS, 1, 1 },
                pdl = arch.pdl,
                grid = launch.grid({ launch.per("tokens", 1) }, { launch.per("heads", t.heads) }),
            },
            cost = cost(spec, t),
            tile = t,
        }),
    }
end

return M
