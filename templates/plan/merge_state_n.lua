-- SPDX-License-Identifier: Apache-2.0
-- merge_state_n: any number of partial attention results become one, as the ranks of a
-- context-parallel group leave them.
--
--     lse = log sum_i exp(lse_i),   o = sum_i o_i exp(lse_i - lse)
--
-- with the base, the empty value and the meaning of an empty side of merge_state.lua: it
-- is not read; a single side that is not empty is passed on bit for bit; none at all, or
-- no ranks, give O = 0 and the empty LSE.  Variant "n" has rows of v_head_dim, "n_latent"
-- rows of kv_lora_rank.
--
-- Floor per (token, head), width D, N ranks: N (2 D + 4) bytes in, 2 D + 4 out; an empty
-- side saves its 2 D.
--
-- Plan: the lanes of a row first read its LSEs, one rank a lane, for the largest and the
-- number of sides that are not empty: with the largest known no sum is ever rescaled.
-- Then all of them walk the ranks in order, two at a time so that twice the bytes are in
-- flight, and add e^(lse_i - largest) o_i in fp32; one division at the end.  The second
-- look at an LSE finds it in L1.  Lanes are so many that a row has at most four vectors
-- per lane; rows fall on CTAs as in merge_state.lua.
--
-- Gaps to the floor: none in bytes; a row's bytes of one rank wait for its LSE, a latency
-- of L1.

local args = use("lib/args")
local cost = use("lib/cost")
local launch = use("lib/launch")
local merge = use("plan/merge_state")
local plan = use("lib/plan")
local symbol = use("lib/symbol")

local M = {}

local MAX_CHUNKS = 4
local FEWEST_LANES = 8
local AHEAD = 2 -- ranks whose O is in flight at once

-- D is v_head_dim, and kv_lora_rank in the variant "n_latent".
local function arguments(spec)
    local fields = {}
    local function tensor(name, elem, access, axes, doc, options, multiple)
        fields[#fields + 1] = args.ptr(name, elem, access, doc, options)
        for _, axis in ipairs(axes) do
            fields[#fields + 1] = args.stride(name .. "_" .. axis .. "_stride",
                name .. " from " .. axis .. " to " .. axis, multiple)
        end
    end
    local all, one = { "rank", "token", "head" }, { "token", "head" }
    tensor("o_parts", "T", "in", all, "[ranks, tokens, H, D]")
    tensor("lse_parts", "f32", "in", all, "[ranks, tokens, H]", { align = 4 }, 4)
    tensor("o", "T", "out", one, "[tokens, H, D]; may be a rank of o_parts")
    tensor("lse", "f32", "out", one, "[tokens, H]; may be a rank of lse_parts", { align = 4 }, 4)
    fields[#fields + 1] = args.count("ranks", "partial results; 0: all is empty")
    fields[#fields + 1] = args.count("tokens", "tokens")
    return args.layout(symbol.args_struct("merge_state_n"), fields, spec.dtype)
end

local function lanes_of(width)
    local vectors = width // plan.VECTOR
    local lanes = math.min(FEWEST_LANES, plan.power_of_two(vectors))
    while plan.ceil_div(vectors, lanes) > MAX_CHUNKS do
        lanes = 2 * lanes
    end
    assert(lanes <= 32, "merge_state_n: a row is wider than a warp")
    return lanes
end

local function costs(spec, t)
    local c = cost.new()
    c.add("tile", "warp: %s, %d lanes each, %d ranks x %s per lane in flight; %s share %s",
        cost.plural(32 // t.lanes, "row"), t.lanes, t.ahead, cost.plural(t.chunks, "vector"),
        cost.plural(t.tokens_per_block, "token"), cost.plural(t.blocks, "block"))
    c.add("smem", "none")
    c.add("registers", "about %d", (8 + 4 * t.ahead) * t.chunks + 36)
    c.add("lse", "base %s, empty %s", spec.lse.base, spec.lse.empty)
    c.add("bytes", "per row %s for each rank in, %s out (floor); an empty side saves %s",
        cost.grouped(2 * t.width + 4), cost.grouped(2 * t.width + 4), cost.grouped(2 * t.width))
    return c.pairs
end

local function make(spec, arch, heads, variant, width)
    local t = merge.tile(width, heads, lanes_of(width))
    t.ahead = AHEAD
    return plan.new(spec, arch, heads, "merge_state", {
        variant = variant,
        args = arguments(spec),
        launch = {
            block = { merge.THREADS, 1, 1 },
            pdl = arch.pdl,
            grid = launch.grid(
                { launch.per("tokens", t.tokens_per_block) },
                { launch.const(t.blocks) }),
        },
        cost = costs(spec, t),
        tile = t,
    })
end

function M.plans(spec, arch, heads)
    return {
        make(spec, arch, heads, "n", spec.v_head_dim),
        make(spec, arch, heads, "n_latent", spec.kv_lora_rank),
    }
end

return M
