-- SPDX-License-Identifier: Apache-2.0
-- rms_norm.lua: the plan of rms_norm, the norm of the compressed query.
--
--     y[t] = x[t] / sqrt(mean(x[t]^2) + eps) * weight * factor
--
-- (RMSNorm, arXiv 1910.07467; DeepSeek-V2, arXiv 2405.04434, section 2.1).  The latent's norm
-- is part of kv_append.
--
-- Floor per row: q_lora_rank values in and out.  A warp owns a row and keeps it in registers,
-- so it is read once, and may be written where it came from.  The weights are read per row,
-- out of L1 by all warps of a block but the first: 2 bytes of L2 per 16 of the floor's 32.
--
-- The width is fixed by the spec.  A model without query compression has no such kernel, nor
-- has one whose rank is not a whole number of 16-byte vectors or does not fit registers.

local args = use("lib/args")
local base = use("lib/plan")
local costs = use("lib/cost")
local launch = use("lib/launch")
local symbol = use("lib/symbol")

local M = {}

local WARPS = 4
local LANES = 32
local MAX_CHUNKS = 24 -- vectors of a lane: 96 registers, and as many for weights
local MAX_CTAS = 8

local function fields()
    return {
        args.ptr("x", "T", "in", "[tokens][q_lora_rank]"),
        args.stride("x_stride", "x, from token to token"),
        args.ptr("weight", "T", "in", "[q_lora_rank]"),
        args.ptr("y", "T", "out", "[tokens][q_lora_rank]; may be x, with its stride"),
        args.stride("y_stride", "y, from token to token"),
        args.f32("norm_eps", "epsilon of the norm"),
        args.f32("factor", "of every result"),
        args.count("tokens", "rows"),
    }
end

local function cost(t)
    local c = costs.new()
    c.add("tile", "warp: one row, %s per lane; block: %d rows", costs.plural(t.chunks, "vector"),
        WARPS)
    c.add("registers", "about %d", 4 * t.chunks + 24)
    c.add("bytes", "per row %s in + %s out (floor); the weights (%s) once per block",
        costs.grouped(2 * t.width), costs.grouped(2 * t.width), costs.grouped(2 * t.width))
    return c.pairs
end

-- Blocks per SM that leave a lane its row, as many weights ahead, and addresses: what
-- ptxas aims at by itself is 64 registers, and on sm_100 a spill.
local function ctas_per_sm(arch, chunks)
    local registers = math.min(8 * chunks + 48, 255)
    return math.max(1, math.min(arch.regs_sm // (WARPS * LANES * registers), MAX_CTAS))
end

-- @return array with the one plan of the family, or none
function M.plans(spec, arch, heads)
    local width = spec.q_lora_rank
    if width == null or width % base.VECTOR ~= 0 or width > MAX_CHUNKS * LANES * base.VECTOR then
        return {}
    end
    local vectors = width // base.VECTOR
    local t = {
        width = width, chunks = base.ceil_div(vectors, LANES), remainder = vectors % LANES,
        rows = WARPS,
    }
    return {
        base.new(spec, arch, heads, "rms_norm", {
            args = args.layout(symbol.args_struct("rms_norm"), fields(), spec.dtype),
            launch = {
                block = { LANES * WARPS, 1, 1 },
                min_ctas = ctas_per_sm(arch, t.chunks),
                pdl = arch.pdl,
                grid = launch.grid({ launch.per("tokens", WARPS) }),
            },
            cost = cost(t),
            tile = t,
        }),
    }
end

return M
