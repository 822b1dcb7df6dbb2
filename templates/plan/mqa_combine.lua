-- SPDX-License-Identifier: Apache-2.0
-- mqa_combine: the partial results of split units into O and LSE.
--
--     m = max_k lse_k, w_k = exp(lse_k - m) / sum_j exp(lse_j - m)
--     O = sum_k w_k O_k,  LSE = m + ln sum_j exp(lse_j - m)
--
-- over the slots k of a unit (lib/work_list.lua); slots with LSE -inf are empty: their
-- payload is neither read nor multiplied, and all empty gives O = 0 and the spec's
-- empty LSE.  Slots are merged in order, so the bits depend on the cuts alone.
--
-- Floor per split row: R * 4 bytes of O and 4 of LSE per slot in, R * 2 + 4 out.
--
-- Plan: one warp per row; lane l owns the vectors of four columns l, l + 32, ..., so
-- every access is a whole line.  LSEs are read 32 at a time, one per lane, twice (the
-- second time from L1): any number of slots, no shared memory.  Rows of units that
-- were not split leave after two loads.

local args = use("lib/args")
local cost = use("lib/cost")
local launch = use("lib/launch")
local plan = use("lib/plan")
local symbol = use("lib/symbol")

local M = {}

local WARPS = 4
local VECTOR = 4 -- fp32 values of 16 bytes

local function arguments(spec)
    local i32 = { align = 4 }
    return args.layout(symbol.args_struct("mqa_combine"), {
        args.ptr("header", "i32", "in", "[8], of decode_plan", i32),
        args.ptr("unit_slots", "i32", "in", "[units + 1], first slot of each unit", i32),
        args.ptr("partial_o", "f32", "in", "[slots, rows_per_tile, R]"),
        args.ptr("partial_lse", "f32", "in", "[slots, rows_per_tile], natural logarithm",
            { align = 4 }),
        args.ptr("out", "T", "out", "[batch, q_len, H, R]", { align = 8 }),
        args.stride("out_batch_stride", "out from request to request", 8),
        args.stride("out_token_stride", "out from token to token", 8),
        args.stride("out_head_stride", "out from head to head", 8),
        args.ptr("lse", "f32", "out", "[batch, q_len, H]; NULL: not wanted",
            { align = 4, null = true }),
        args.stride("lse_batch_stride", "lse from request to request", 4),
        args.stride("lse_token_stride", "lse from token to token", 4),
        args.stride("lse_head_stride", "lse from head to head", 4),
        args.count("batch", "requests"),
        args.count("q_len", "query tokens of a request"),
        args.count("rows_per_tile", "rows of a tile of the mqa_decode before"),
    }, spec.dtype)
end

local function tile(spec)
    local vectors = spec.kv_lora_rank // VECTOR
    return {
        warps = WARPS,
        chunks = plan.ceil_div(vectors, 32),
        remainder = vectors % 32,
    }
end

local function costs(spec, t)
    local c = cost.new()
    c.add("tile", "one warp per row of a split unit, %s of 16 bytes per lane and slot",
        cost.plural(t.chunks, "load"))
    c.add("smem", "none")
    c.add("bytes", "per row: %s per slot in, %s out (floor)",
        cost.grouped(spec.kv_lora_rank * 4 + 4), cost.grouped(spec.kv_lora_rank * 2 + 4))
    return c.pairs
end

function M.plans(spec, arch, heads)
    local t = tile(spec)
    return {
        plan.new(spec, arch, heads, "mqa_combine", {
            args = arguments(spec),
            launch = {
                block = { 32 * WARPS, 1, 1 },
                pdl = arch.pdl,
                -- A block per WARPS rows of the launch; rows are (request, token, head).
                grid = launch.grid({ launch.per("batch", 1), launch.per("q_len", 1),
                    launch.const(plan.ceil_div(heads, WARPS)) }),
            },
            cost = costs(spec, t),
            tile = t,
        }),
    }
end

return M
