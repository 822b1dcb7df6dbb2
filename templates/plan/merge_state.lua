-- SPDX-License-Identifier: Apache-2.0
-- merge_state: two partial attention results become one.
--
--     lse = log(exp(lse_a) + exp(lse_b)),  o = (o_a e^lse_a + o_b e^lse_b) / e^lse
--
-- with the base and the empty value of the spec's `lse`.  (O, LSE) of an empty set
-- is the identity: a side whose LSE is infinite or NaN is not read, the other one
-- is passed on bit for bit, and two empties give O = 0 and the empty LSE.
-- Variant "" has rows of v_head_dim (after the V projection), "latent" rows of
-- kv_lora_rank (before it); for more than two sides see merge_state_n.lua.
--
-- Floor per (token, head), width D: 2 * 2 * D bytes of O and 8 of LSE in, 2 * D and 4
-- out; an empty side saves its 2 * D.
--
-- Plan: eight neighbouring lanes own a row (16 where it has more than 64 vectors),
-- at least two vectors per lane at width 128, so that the weights are computed once
-- for several vectors.  Rows are numbered inside a block of whole tokens, which
-- makes the head of a row a 32-bit remainder; tokens per block = rows per block /
-- gcd(heads, rows per block), so that no lane idles at any head count.
--
-- Gaps to the floor: none in bytes; the loads of O wait for the LSE, one latency
-- that other warps fill.

local args = use("lib/args")
local cost = use("lib/cost")
local launch = use("lib/launch")
local plan = use("lib/plan")
local symbol = use("lib/symbol")

local M = {}

local WARPS = 4
M.THREADS = 32 * WARPS
local LANES, LANES_WIDE = 8, 16

-- D is v_head_dim, and kv_lora_rank in the variant "latent".
local function arguments(spec)
    local rows = "[tokens, H, D]"
    local fields = {}
    local function tensor(name, elem, access, doc, options, multiple)
        fields[#fields + 1] = args.ptr(name, elem, access, doc, options)
        for _, axis in ipairs({ "token", "head" }) do
            fields[#fields + 1] = args.stride(name .. "_" .. axis .. "_stride",
                name .. " from " .. axis .. " to " .. axis, multiple)
        end
    end
    tensor("o_a", "T", "in", rows)
    tensor("o_b", "T", "in", rows)
    tensor("lse_a", "f32", "in", "[tokens, H]", { align = 4 }, 4)
    tensor("lse_b", "f32", "in", "[tokens, H]", { align = 4 }, 4)
    tensor("o", "T", "out", rows .. "; may be o_a or o_b")
    tensor("lse", "f32", "out", "[tokens, H]; may be lse_a or lse_b", { align = 4 }, 4)
    fields[#fields + 1] = args.count("tokens", "tokens")
    return args.layout(symbol.args_struct("merge_state"), fields, spec.dtype)
end

-- Lanes for a row of `width` values.
local function lanes_of(width)
    local vectors = width // plan.VECTOR
    return vectors > 64 and LANES_WIDE or math.min(LANES, plan.power_of_two(vectors))
end

-- How the rows of whole tokens fall on CTAs, `lanes` lanes each.
function M.tile(width, heads, lanes)
    local vectors = width // plan.VECTOR
    local rows = WARPS * 32 // lanes
    local tokens = rows // plan.gcd(heads, rows)
    return {
        width = width,
        lanes = lanes,
        chunks = plan.ceil_div(vectors, lanes),
        remainder = vectors % lanes,
        rows_per_cta = rows,
        tokens_per_block = tokens,
        blocks = tokens * heads // rows,
    }
end

local function costs(spec, t)
    local c = cost.new()
    c.add("tile", "warp: %s, %d lanes each, 2 x %s per lane; %s share %s",
        cost.plural(32 // t.lanes, "row"), t.lanes, cost.plural(t.chunks, "vector"),
        cost.plural(t.tokens_per_block, "token"), cost.plural(t.blocks, "block"))
    c.add("smem", "none")
    c.add("registers", "about %d", 8 * t.chunks + 24)
    c.add("lse", "base %s, empty %s", spec.lse.base, spec.lse.empty)
    c.add("bytes", "per row %s in + %s out (floor); an empty side saves %s",
        cost.grouped(4 * t.width + 8), cost.grouped(2 * t.width + 4), cost.grouped(2 * t.width))
    return c.pairs
end

local function make(spec, arch, heads, variant, width)
    local t = M.tile(width, heads, lanes_of(width))
    return plan.new(spec, arch, heads, "merge_state", {
        variant = variant,
        args = arguments(spec),
        launch = {
            block = { M.THREADS, 1, 1 },
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
        make(spec, arch, heads, "", spec.v_head_dim),
        make(spec, arch, heads, "latent", spec.kv_lora_rank),
    }
end

return M
