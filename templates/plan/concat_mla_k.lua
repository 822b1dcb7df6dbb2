-- SPDX-License-Identifier: Apache-2.0
-- concat_mla_k: K[tokens, H, nope + rope] = k_nope joined with the k_rope row that
-- all heads of a token share.
--
-- Floor per token: H * nope * 2 bytes of k_nope and rope * 2 of k_rope in,
-- H * (nope + rope) * 2 out (82,048 at 128 heads of 128 + 64).
--
-- Plan: a warp owns one token and a run of heads.  `lanes` neighbouring lanes
-- share a head (lanes = gcd(vectors per head, 32)), so one access covers 32 / lanes
-- heads and no lane idles at any width.  All loads of the warp are issued before
-- its first store: about eight vectors per lane in flight.  The k_rope row is
-- loaded once per warp, in copies side by side, and stored for several heads per
-- access.  The head count is unrolled: only a run that ends past H has predicates.
--
-- Gaps to the floor: k_rope is read once per warp instead of once per token (from
-- L1 after the first; 1.1 % of the bytes at 128 heads).  Widths whose vector count
-- is 2 mod 4 (nope 48, 80, 112, ...) touch 32-byte pieces per head and access:
-- whole sectors, hence no extra bytes, but more wavefronts per access.

local args = use("lib/args")
local cost = use("lib/cost")
local launch = use("lib/launch")
local plan = use("lib/plan")
local symbol = use("lib/symbol")

local M = {}

-- Vectors per lane that are in flight: what is aimed at, and the most.
local FLIGHT_MAX = 12
local STEP_OVERHEAD = 2
local PAD_PENALTY = 4
local WARPS = 8

local function arguments(spec)
    return args.layout(symbol.args_struct("concat_mla_k"), {
        args.ptr("k_nope", "T", "in", "[tokens, H, DN]"),
        args.stride("k_nope_token_stride", "k_nope from token to token"),
        args.stride("k_nope_head_stride", "k_nope from head to head"),
        args.ptr("k_rope", "T", "in", "[tokens, DR], shared by the heads"),
        args.stride("k_rope_stride", "k_rope from token to token"),
        args.ptr("k", "T", "out", "[tokens, H, DN + DR]"),
        args.stride("k_token_stride", "k from token to token"),
        args.stride("k_head_stride", "k from head to head"),
        args.count("tokens", "rows"),
    }, spec.dtype)
end

-- Accesses per warp: few warps per token, little padding past the last head.
local function steps_per_warp(total, chunks)
    local best, best_cost
    for s = 1, math.max(1, FLIGHT_MAX // chunks) do
        local warps = plan.ceil_div(total, s)
        local c = warps * (s + STEP_OVERHEAD) + PAD_PENALTY * (warps * s - total)
        if not best_cost or c < best_cost then
            best, best_cost = s, c
        end
    end
    return best
end

local function largest_divisor(n, limit)
    for d = math.min(n, limit), 1, -1 do
        if n % d == 0 then
            return d
        end
    end
end

-- The head split: lanes, accesses and warps, for nope and rope.
local function tile(spec, heads)
    local nope = spec.qk_nope_head_dim // plan.VECTOR
    local rope = spec.qk_rope_head_dim // plan.VECTOR
    local lanes, rope_lanes = plan.gcd(nope, 32), plan.gcd(rope, 32)
    local t = {
        lanes = lanes,
        chunks = nope // lanes,
        heads_per_step = 32 // lanes,
        rope_lanes = rope_lanes,
        rope_chunks = rope // rope_lanes,
        rope_heads_per_step = 32 // rope_lanes,
    }
    local total = plan.ceil_div(heads, t.heads_per_step)
    t.steps = steps_per_warp(total, t.chunks)
    t.heads_per_warp = t.steps * t.heads_per_step
    t.rope_steps = plan.ceil_div(t.heads_per_warp, t.rope_heads_per_step)
    t.groups = plan.ceil_div(total, t.steps)
    t.groups_per_cta = largest_divisor(t.groups, WARPS)
    t.tokens_per_cta = math.max(1, WARPS // t.groups_per_cta)
    return t
end

local function costs(spec, heads, t)
    local c = cost.new()
    local nope, rope = spec.qk_nope_head_dim, spec.qk_rope_head_dim
    local input = (heads * nope + rope) * 2
    local output = heads * (nope + rope) * 2
    c.add("tile", "warp: 1 token x %s, %s of 16 bytes per lane in flight; block: %s",
        cost.plural(t.heads_per_warp, "head"), cost.plural(t.steps * t.chunks, "load"),
        cost.plural(t.tokens_per_cta, "token"))
    c.add("lanes", "%d per head of nope, %d per copy of rope", t.lanes, t.rope_lanes)
    c.add("smem", "none")
    c.add("registers", "about %d", 4 * (t.steps * t.chunks + t.rope_chunks) + 14)
    c.add("bytes", "per token %s in + %s out (floor); rope is read %s from L1",
        cost.grouped(input), cost.grouped(output), cost.plural(t.groups, "time"))
    return c.pairs
end

function M.plans(spec, arch, heads)
    if spec.qk_rope_head_dim == 0 then
        return {}
    end
    local t = tile(spec, heads)
    return {
        plan.new(spec, arch, heads, "concat_mla_k", {
            args = arguments(spec),
            launch = {
                block = { 32 * t.groups_per_cta * t.tokens_per_cta, 1, 1 },
                pdl = arch.pdl,
                grid = launch.grid(
                    { launch.per("tokens", t.tokens_per_cta) },
                    { launch.const(t.groups // t.groups_per_cta) }),
            },
            cost = costs(spec, heads, t),
            tile = t,
        }),
    }
end

return M
