-- SPDX-License-Identifier: Apache-2.0
-- kv_b.lua: the plan of kv_b, which expands cached latents for the Normal path.
--
--     [k_nope[t][h] | v[t][h]] = latent[t] * kv_b_proj[h]^T
--
-- (DeepSeek-V2, arXiv:2405.04434, equations 10 and 11).  One product: the tokens are
-- the rows, the columns are the H (nope + v) rows of kv_b_proj, both operands have
-- their k, the latent, contiguous.  kv_b_proj is read where it lies, and a column goes
-- to k_nope or to v by its place in its head, so both may be views of one buffer.
--
-- Floor: latents R, columns N = H (nope + v): 2 (T R + N R + T N) bytes and 2 T N R
-- flops.  R is short, so a result is dear: at R = 512 an A100 needs 3.3 times as long
-- for the flops as for the bytes, and the tile is chosen for the tensor cores:
--
--   * A CTA multiplies `rows` tokens by `columns` columns, `depth` of k at a time, in
--     stages filled by cp.async.  A warp has 64 x 64 of it: 8 ldmatrix for 32 MMAs.
--   * A CTA walks `walk` neighbouring column tiles; its stages run on from one to the
--     next, so the pipeline fills once, and a tile is stored under the loads of the
--     next one.
--   * Rows in shared memory are 2 depth + 16 bytes, an odd number of 16-byte units:
--     ldmatrix is free of conflicts.  The loader gives eight lanes one row, or rows that
--     lie an odd multiple apart, so that its writes are, too.
--   * Columns are permuted inside every 32 on the way to shared memory.  After four
--     n-tiles a lane then holds 8 neighbouring columns of a token: results go from
--     registers to memory, 16 bytes a lane, whole sectors.
--
-- Neither operand is resident: 128 latent rows of 512 would take the shared memory of an
-- SM of 99 KiB whole and leave one CTA on it elsewhere, where two hide each other's
-- barriers.  L2 does it instead: CTAs go along the tokens of a block of at most 4 MiB of
-- latents first, then to the next columns.  So a block's latents stay in L2 while W passes
-- once, and DRAM sees each byte of W once per block.
--
-- Rule: the tile with which 1,024 tokens still make a CTA per SM, of 128 x 128, 64 x 128
-- and 64 x 64; the greatest depth dividing R of which two stages fit beside the other
-- CTAs; as many stages (at most 4) as fit; a walk that leaves four waves at 1,024 tokens.
-- Nothing depends on the number of tokens, and k is added in one order: a token's bits are
-- the same in any batch.
--
-- Gaps: L2 serves (1 / rows + 1 / columns) / (1 / T + 1 / N) times the operand bytes; a
-- call of a few tokens wastes the rest of its tile's MMAs, which is hidden while W's
-- bytes take longer (up to about 100 tokens).

local args = use("lib/args")
local base = use("lib/plan")
local costs = use("lib/cost")
local hopper = use("plan/kv_b_hopper")
local launch = use("lib/launch")
local symbol = use("lib/symbol")

local M = {}

local WARP = 32
local THREADS = 128
local PIECE = 8                     -- values of one 16-byte copy
local DEPTHS = { 64, 48, 32, 16 }   -- k of one stage
local MAX_STAGES = 4
local RESERVED_SMEM = 1024          -- per CTA, of the SM's
local TYPICAL_TOKENS = 1024
local WAVES = 4
local BLOCK_BYTES = 4 * 1024 * 1024 -- of latents, that L2 keeps
local OTHER_REGS = 40

-- Tiles, widest first: rows and columns of the CTA, of a warp, CTAs per SM.
local TILES = {
    { rows = 128, columns = 128, warp_rows = 64, warp_columns = 64, ctas = 2 },
    { rows = 64, columns = 128, warp_rows = 32, warp_columns = 64, ctas = 2 },
    { rows = 64, columns = 64, warp_rows = 32, warp_columns = 32, ctas = 4 },
}

local function fields()
    return {
        args.ptr("latent", "T", "in", "[tokens][latent], normed"),
        args.stride("latent_stride", "latent, from token to token"),
        args.ptr("kv_b", "T", "in", "kv_b_proj: per head nope + v rows of latent values"),
        args.stride("kv_b_head_stride", "kv_b, from head to head"),
        args.stride("kv_b_row_stride", "kv_b, from row to row"),
        args.ptr("k_nope", "T", "out", "[tokens][heads][nope]"),
        args.stride("k_nope_token_stride", "k_nope, from token to token"),
        args.stride("k_nope_head_stride", "k_nope, from head to head"),
        args.ptr("v", "T", "out", "[tokens][heads][v]; may lie in one buffer with k_nope"),
        args.stride("v_token_stride", "v, from token to token"),
        args.stride("v_head_stride", "v, from head to head"),
        args.count("tokens", "rows of latent"),
    }
end

-- The widest tile that gives every SM a CTA at TYPICAL_TOKENS, or the narrowest.
local function pick(n, arch)
    for _, t in ipairs(TILES) do
        local ctas = base.ceil_div(TYPICAL_TOKENS, t.rows) * base.ceil_div(n, t.columns)
        if ctas >= arch.sm_count then
            return t
        end
    end
    return TILES[#TILES]
end

-- Depth and number of stages: the greatest depth with two stages, then all that fit.
local function stages_of(shape, k, arch)
    local budget = math.min(arch.smem_optin, arch.smem_sm // shape.ctas - RESERVED_SMEM)
    for _, depth in ipairs(DEPTHS) do
        local stride = 2 * depth + 16
        local stage = (shape.rows + shape.columns) * stride
        local stages = math.min(MAX_STAGES, budget // stage)
        if k % depth == 0 and stages >= 2 then
            return { depth = depth, stride = stride, stage = stage, stages = stages }
        end
    end
    fail("kv_b: no stage of %d + %d rows fits twice into %d bytes", shape.rows, shape.columns, budget)
end

-- The loader: `lanes` threads per row of which `pieces` copy, `pass` rows at a time.
local function loader(shape, depth)
    local pieces = depth // PIECE
    local lanes = base.power_of_two(pieces)
    local pass = THREADS // lanes
    return {
        pieces = pieces, lanes = lanes, pass = pass,
        latent_passes = shape.rows // pass, weight_passes = shape.columns // pass,
    }
end

-- Column tiles per CTA: WAVES waves at TYPICAL_TOKENS, and few enough groups that 32 bits
-- number the CTAs of 2^31 tokens.
local function walk_of(shape, column_tiles, arch)
    local ctas = base.ceil_div(TYPICAL_TOKENS, shape.rows) * column_tiles
    local walk = math.max(1, ctas // (WAVES * shape.ctas * arch.sm_count))
    return math.max(walk, base.ceil_div(column_tiles, 2 * shape.rows - 1))
end

local function registers(tile)
    local sums = tile.warp_rows * tile.warp_columns // WARP
    local fragments = tile.warp_rows // 4 + tile.warp_columns // 4
    return sums + fragments + 2 * (tile.loader.latent_passes + tile.loader.weight_passes) + OTHER_REGS
end

-- The tile of one geometry.  `n` and `k` are those of the product, without tokens.
local function tile_of(spec, arch, heads)
    local width = spec.qk_nope_head_dim + spec.v_head_dim
    local n, k = heads * width, spec.kv_lora_rank
    local shape = pick(n, arch)
    local tile = stages_of(shape, k, arch)
    for _, key in ipairs(keys(shape)) do
        tile[key] = shape[key]
    end
    tile.n, tile.k, tile.head = n, k, width
    tile.steps = k // tile.depth
    tile.warps_n = shape.columns // shape.warp_columns
    tile.warps_m = shape.rows // shape.warp_rows
    assert(tile.warps_m * tile.warps_n * WARP == THREADS)
    tile.loader = loader(shape, tile.depth)
    tile.column_tiles = base.ceil_div(n, shape.columns)
    tile.walk = walk_of(shape, tile.column_tiles, arch)
    tile.groups = base.ceil_div(tile.column_tiles, tile.walk)
    tile.block_tiles = math.max(8, BLOCK_BYTES // (2 * k * shape.rows))
    tile.regs = registers(tile)
    return tile
end

-- Column of a tile that row `p` of its shared memory holds: inside 32, row 8 j + 2 q + e
-- has column 8 q + 2 j + e, so that lane quarter q of the C fragments j = 0 .. 3 (columns
-- 2 q + e each) has 8 q .. 8 q + 7.
function M.column(p)
    return p // 32 * 32 + 8 * (p // 2 % 4) + 2 * (p // 8 % 4) + p % 2
end

local function cost(tile, arch)
    local g = costs.grouped
    local c = costs.new()
    c.add("tile", "CTA: %d tokens x %d columns of %s, walking %s; warp: %d x %d", tile.rows,
        tile.columns, g(tile.n), costs.plural(tile.walk, "column tile"), tile.warp_rows,
        tile.warp_columns)
    c.add("smem", "%s B: %d stages x %s B, %d of k each; %d CTAs per SM", g(tile.stages * tile.stage),
        tile.stages, g(tile.stage), tile.depth, tile.ctas)
    c.add("registers", "about %d", tile.regs)
    c.add("mma", "%d x m16n8k16 per warp and %d of k", tile.warp_rows * tile.warp_columns // 128
        * (tile.depth // 16), tile.depth)
    c.add("order", "tokens first, in blocks of %s; then columns", g(tile.block_tiles * tile.rows))
    c.add("floor", "W %s B once, %s B per token", g(2 * tile.n * tile.k), g(2 * (tile.n + tile.k)))
    c.add("l2", "%s B of W and latents per tile, %s B of results",
        g(2 * tile.k * (tile.rows + tile.columns)), g(2 * tile.rows * tile.columns))
    c.add("clocks", "W %s of DRAM; per %d tokens %s of DRAM, %s of MMA (%d SMs)",
        g(base.ceil_div(2 * tile.n * tile.k, arch.bytes_per_clk)), tile.rows,
        g(base.ceil_div(2 * tile.rows * (tile.n + tile.k), arch.bytes_per_clk)),
        g(base.ceil_div(tile.rows * tile.n * tile.k, arch.mma_fma_clk * arch.sm_count)),
        arch.sm_count)
    return c.pairs
end

local function portable(spec, arch, heads, arguments)
    local tile = tile_of(spec, arch, heads)
    return base.new(spec, arch, heads, "kv_b", {
        args = arguments,
        launch = {
            block = { THREADS, 1, 1 },
            min_ctas = tile.ctas,
            smem_dynamic = tile.stages * tile.stage,
            pdl = arch.pdl,
            grid = launch.grid({ launch.per("tokens", tile.rows) }, { launch.const(tile.groups) }),
        },
        cost = cost(tile, arch),
        tile = tile,
    })
end

-- Where the architecture has wgmma and the latents fit its registers, that kernel.
-- @return array with the one plan of the family
function M.plans(spec, arch, heads)
    local arguments = args.layout(symbol.args_struct("kv_b"), fields(), spec.dtype)
    return {
        arch.wgmma and hopper.plan_of(spec, arch, heads, arguments)
            or portable(spec, arch, heads, arguments),
    }
end

return M
