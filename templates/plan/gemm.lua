-- SPDX-License-Identifier: Apache-2.0
-- gemm.lua: the plan of gemm, a plain projection of a layer where there is no cuBLAS.
--
--     y[t][n] = sum over k of x[t][k] w[n][k]
--
-- Both operands have k contiguous, as checkpoints store weights.  Tokens, columns and depth
-- are arguments, so one kernel serves every projection of a model at every head count.
--
-- Floor: 2 (T K + N K + T N) bytes, 2 T N K flops.  A decode step has few rows, and is as
-- long as w takes to arrive; a prefill is bound by the tensor cores.  One tile serves both:
--
--   * 64 x 64, four warps of 32 x 32: per 16 of k a warp has 4 ldmatrix for 8 MMAs, so the
--     shared-memory port and an A100's tensor cores are busy for about as long (64 clocks).
--     An idle row of the tile costs MMAs that are hidden while w arrives: a stage of w, 8
--     KB, takes an SM 400 clocks on an H200 and 800 on an A100, its MMAs 256; with at most
--     32 rows, 128, since warps without a row do nothing but load.
--   * 64 of k a stage, 32 on the parts of 99 KiB, as many stages (at most 4) as fit with two
--     CTAs per SM.  Rows in shared memory are an odd number of 16-byte units, and the loader
--     gives eight lanes one row, or rows that lie four apart: no bank conflicts.
--   * What lies beyond a matrix is never read: rows are clamped to the last one and not
--     stored; beyond k both operands are filled with zeros.
--   * Columns are permuted as in kv_b.lua, so that a lane stores 16 bytes at once.
--   * CTAs go along 8 tiles of rows, then to the next columns: x of a block stays in L2.
--
-- Gaps: N / 64 CTAs fill a GPU only where N is about 8,000; a projection to 2,112 columns
-- reaches a quarter of an H200's bandwidth with few rows, and no k is split among CTAs.  A
-- prefill reaches about half of what 128 x 128 tiles do.  cuBLAS is there for that.
--
-- k is added in one order, so a row's bits do not depend on the other rows.

local args = use("lib/args")
local base = use("lib/plan")
local costs = use("lib/cost")
local launch = use("lib/launch")
local symbol = use("lib/symbol")

local M = {}

local THREADS = 128
local ROWS, COLUMNS, WARP_TILE = 64, 64, 32
local DEPTHS = { 64, 32 }
local MIN_STAGES, MAX_STAGES = 3, 4
local CTAS = 2
local RESERVED_SMEM = 1024 -- per CTA, of the SM's
local BLOCK_TILES = 8      -- of rows, before the next columns

-- A count of whole 16-byte vectors.
local function vectors(name, doc)
    local f = args.count(name, doc)
    f.multiple = base.VECTOR
    return f
end

local function fields()
    return {
        args.ptr("x", "T", "in", "[tokens][depth]"),
        args.stride("x_stride", "x, from token to token"),
        args.ptr("w", "T", "in", "[columns][depth]"),
        args.stride("w_stride", "w, from row to row"),
        args.ptr("y", "T", "out", "[tokens][columns]"),
        args.stride("y_stride", "y, from token to token"),
        args.count("tokens", "rows of x and y"),
        vectors("columns", "columns of y, rows of w"),
        vectors("depth", "columns of x and w"),
    }
end

-- The greatest depth with MIN_STAGES, and all stages that fit.
local function stages_of(arch)
    local budget = math.min(arch.smem_optin, arch.smem_sm // CTAS - RESERVED_SMEM)
    for _, depth in ipairs(DEPTHS) do
        local stride = 2 * depth + 16
        local stage = (ROWS + COLUMNS) * stride
        local stages = math.min(MAX_STAGES, budget // stage)
        if stages >= MIN_STAGES then
            return { depth = depth, stride = stride, stage = stage, stages = stages }
        end
    end
    fail("gemm: %d stages do not fit into %d bytes", MIN_STAGES, budget)
end

local function tile_of(arch)
    local t = stages_of(arch)
    t.rows, t.columns, t.warp_tile = ROWS, COLUMNS, WARP_TILE
    t.ctas, t.block_tiles = CTAS, BLOCK_TILES
    t.lanes = t.depth // base.VECTOR
    t.pass = THREADS // t.lanes
    return t
end

local function cost(t)
    local c = costs.new()
    c.add("tile", "CTA: %d rows x %d columns, warp: %d x %d", t.rows, t.columns, t.warp_tile,
        t.warp_tile)
    c.add("smem", "%s B: %d stages x %s B, %d of k each; %d CTAs per SM",
        costs.grouped(t.stages * t.stage), t.stages, costs.grouped(t.stage), t.depth, t.ctas)
    c.add("registers", "about 96")
    c.add("mma", "%d x m16n8k16 per warp and %d of k", t.depth // 16 * 8, t.depth)
    c.add("order", "rows first, in blocks of %d; then columns", t.block_tiles * t.rows)
    c.add("floor", "2 (tokens depth + columns depth + tokens columns) B")
    return c.pairs
end

-- @return array with the one plan of the family
function M.plans(spec, arch, heads)
    local t = tile_of(arch)
    return {
        base.new(spec, arch, heads, "gemm", {
            args = args.layout(symbol.args_struct("gemm"), fields(), spec.dtype),
            launch = {
                block = { THREADS, 1, 1 },
                min_ctas = t.ctas,
                smem_dynamic = t.stages * t.stage,
                pdl = arch.pdl,
                grid = launch.grid({ launch.per("tokens", t.rows), launch.per("columns", t.columns) }),
            },
            cost = cost(t),
            tile = t,
        }),
    }
end

return M
