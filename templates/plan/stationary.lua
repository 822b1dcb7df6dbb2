-- SPDX-License-Identifier: Apache-2.0
-- stationary.lua: the plan that absorb_q and absorb_v share.
--
-- Per head, out[t][n] = sum over k of x[t][k] * W[k][n], for a W of 64 KiB to a
-- megabyte and anything from one token to some thousands.  The work is moving W:
-- with T tokens a weight takes part in T multiply-adds, and the tensor cores do
-- hundreds in the time that memory takes to bring it.  So W is read exactly
-- once, straight from the rows of kv_b_proj, and stays in registers while the
-- tokens stream past it:
--
--   * A warp owns 16 * mtw columns (n) and one slice of the contraction (k).  All
--     its loads of W are issued before the first use: up to 16 KiB in flight per
--     warp, which is what hides DRAM latency, without shared memory or stages.
--   * W is the A operand of mma.sync m16n8k16 (rows: columns n), eight tokens
--     are the B operand.  A single token wastes 7/8 of an MMA that costs nothing.
--   * Both orders are ours to choose, and make every access 16 bytes wide:
--       contraction  lane 4g + q takes k = 32 s + 8 q .. + 7, so that one load of
--                    a token row holds the B fragments of two MMAs.  Where 16
--                    remain ("k16 step"), k = 4 q .. + 3: one 8-byte load, one MMA.
--       columns      lane 4g + q takes n = 2 mtw g .. + 2 mtw - 1; m-tile i has
--                    n = 2 mtw g + 2 i in row g and the one after it in row g + 8,
--                    so a lane ends up with 2 mtw neighbouring outputs of a token.
--   * Where warps split k, their fp32 partial sums meet in shared memory, added
--     in the order of k.  Nothing depends on the number of tokens: a token's bits
--     are the same in any batch.
--
-- The order of issue is half of the plan, and ptxas 13.0 has its own mind about it:
-- griddepcontrol.launch_dependents is a fence to it, so it stands before W;
-- griddepcontrol.wait moves up over .nc loads, so W is loaded without .nc; and the first
-- use of W moves up over the RoPE loop, unless it depends on it (absorb_rope.tpl).  With
-- all three, SASS has W, wait, token rows, RoPE, first use.  An A fragment is an aligned
-- quad of registers: [n][k] rows, whose words are right as they come, still cost one MOV
-- per word, once.
--
-- Floor: W + T (K + N) 2-byte values per head, and 2 N K T flops, which is below
-- the time of the bytes on every target up to some hundred tokens.  Gaps: x is
-- requested once per column block (L1 and L2 serve all but the first), and where the
-- grid leaves SMs idle, more than 64 tokens are cut into chunks, each of which requests W
-- from L2 again.  Where n is no multiple of 64 a lane's accesses are 8 or 4 bytes wide
-- (32 is the least that is contiguous, a sector).

local base = use("lib/plan")
local costs = use("lib/cost")

local M = {}

local UNIT = 16           -- k and n of one MMA
local TOKENS_PER_MMA = 8
local WARP = 32
local PARTITIONS = 4      -- of an SM, each with a quarter of the registers
local RESERVED_SMEM = 1024
local MAX_UNITS = 8       -- longest k slice of a warp: 128
local MAX_WARPS_K = 8     -- 8 slices cover kv_lora_rank 1024
local MAX_REGS = 248      -- of 255: the estimate is not the compiler
local OTHER_REGS = 52     -- addresses, counters, RoPE's temporaries
local MAX_STATIC_SMEM = 48 * 1024
local CHUNK_TOKENS = 64   -- fewest tokens for which W is worth another read of L2
local WARP_TILE_BYTES = 16384

-- The most m-tiles (4, 2 or 1) into which n divides: 16, 8 or 4 bytes per lane.
local function widest(n, most)
    local mtw = most
    while n % (UNIT * mtw) ~= 0 do
        mtw = mtw // 2
    end
    return mtw
end

-- Splits `units` of 16 over warps, at most `cap` each: equal parts where at most
-- twice the fewest warps allow it, else some warps take one unit more.
-- @return warps, units of every warp, number of warps with one more
function M.split(units, cap)
    local fewest = base.ceil_div(units, cap)
    for warps = fewest, math.min(2 * fewest, MAX_WARPS_K) do
        if units % warps == 0 then
            return warps, units // warps, 0
        end
    end
    return fewest, units // fewest, units % fewest
end

-- A step of the contraction is one load per row and lane.
-- @return array of { width = 32 or 16, at = first k in the slice, spare = bool };
--   only the first `spare` warps along k have the spare one.
function M.steps(tile)
    local list = {}
    for s = 0, tile.k32 - 1 do
        list[#list + 1] = { width = 32, at = 32 * s, spare = false }
    end
    if tile.k16 == 1 then
        list[#list + 1] = { width = 16, at = 32 * tile.k32, spare = false }
    end
    if tile.spare > 0 then
        list[#list + 1] = { width = 16, at = 32 * tile.k32 + 16 * tile.k16, spare = true }
    end
    return list
end

-- Where a lane finds step `step` of a row in which k is contiguous: bytes from the
-- lane's pointer, which is at 16 q where there is a k32 step and at 8 q otherwise.
function M.lane_bytes(tile)
    return tile.k32 > 0 and 16 or 8
end

function M.step_offset(tile, step)
    local text = step.at > 0 and string.format(" + %d", 2 * step.at) or ""
    return step.width == 16 and tile.k32 > 0 and text .. " - 8 * q" or text
end

-- The k16 pieces in order, two to a k32 step: { s, half, width, at, lane }: step
-- (from 0) and half of the lane's load of `width` bytes; the lane's four k are
-- at + lane q .. + 3.
function M.products(tile)
    local list = {}
    for s, step in ipairs(M.steps(tile)) do
        for half = 0, step.width // 16 - 1 do
            list[#list + 1] = {
                s = s - 1, half = half, width = step.width // 2,
                at = step.at + 4 * half, lane = step.width // 4,
            }
        end
    end
    return list
end

-- 2-byte values per lane and step, in 4-byte words.
local function step_words(tile)
    return 4 * tile.k32 + 2 * tile.k16 + (tile.spare > 0 and 2 or 0)
end

-- Registers per thread: W, the token rows, the accumulators, the rest.
local function registers(tile, token_tiles)
    local words = step_words(tile)
    return 2 * tile.mtw * words + token_tiles * (words + 4 * tile.mtw) + OTHER_REGS
end

-- Bytes of the exchange of partial sums: two buffers (one barrier per step), a
-- slot per warp and token tile.  An m-tile is 32 lanes x 16 bytes plus a pad of
-- 16 * jobs, which spreads the readers' 16-byte words over all banks.
local function exchange(tile, token_tiles)
    local jobs = 4 // tile.mtw
    local tile_bytes = 16 * (WARP + jobs)
    local slot = tile.mtw * tile_bytes
    local part = token_tiles * slot
    local half = tile.warps_k * tile.warps_n * part
    return {
        tile_bytes = tile_bytes, slot = slot, part = part, half = half,
        bytes = tile.warps_k > 1 and 2 * half or 0,
    }
end

-- CTAs that fit on one SM.  A warp lives in one of the SM's four partitions and takes
-- its registers there, in units of 8 per thread: with 170 to 255 registers that is two
-- warps per partition, not the 10 per SM that dividing the whole file would promise.
local function resident(arch, threads, regs, smem)
    local per_thread = base.ceil_div(regs, 8) * 8
    local warps = PARTITIONS * (arch.regs_sm // PARTITIONS // (WARP * per_thread))
    local fit = math.min(warps * WARP, arch.threads_sm) // threads
    if smem > 0 then
        fit = math.min(fit, arch.smem_sm // (smem + RESERVED_SMEM))
    end
    return math.min(fit, arch.ctas_sm)
end

-- Many heads: 16 KiB of W per warp.  Few heads: a quarter of that, so that four
-- times the warps ask for it.  Columns of an [n][k] matrix split without loss;
-- those of a [k][n] matrix are what makes its loads wide, so there k is split
-- first, and n only where k would need too many warps.
local function warp_tile(shape, narrow)
    local units = shape.k // UNIT
    local mtw, cap = widest(shape.n, 4), MAX_UNITS
    if narrow and shape.layout == "nk" then
        mtw = 1
    elseif narrow then
        cap = 2
        while base.ceil_div(units, cap) > MAX_WARPS_K do
            cap = 2 * cap
            mtw = math.max(mtw // 2, 1)
        end
    end
    local warps, each, spare = M.split(units, cap)
    return { mtw = mtw, warps_k = warps, units = each, spare = spare }
end

-- Two column blocks per CTA share token rows through L1, where that leaves the
-- CTA small.
local function warps_along_n(shape, tile, narrow)
    local blocks = shape.n // tile.columns
    return not narrow and tile.warps_k <= 2 and blocks % 2 == 0 and 2 or 1
end

-- One or two token tiles a step.  Two keep twice the token bytes in flight, and
-- are taken where they cost no CTA that the grid would have used.
local function choose_token_tiles(tile, arch, ctas, narrow)
    local function slots(n)
        return arch.sm_count
            * resident(arch, tile.threads, registers(tile, n), exchange(tile, n).bytes)
    end
    if narrow or registers(tile, 2) > MAX_REGS or exchange(tile, 2).bytes > MAX_STATIC_SMEM then
        return 1
    end
    return (slots(2) >= ctas or slots(1) < ctas) and 2 or 1
end

-- The tile of one product.
-- shape: layout "kn" (n contiguous) or "nk" (k contiguous), k, n, heads.
function M.tile(shape, arch)
    local weights = 2 * shape.k * shape.n * shape.heads
    local narrow = weights < 2 * arch.sm_count * WARP_TILE_BYTES
    local tile = warp_tile(shape, narrow)
    tile.layout = shape.layout
    tile.k, tile.n = shape.k, shape.n
    tile.k32, tile.k16 = tile.units // 2, tile.units % 2
    tile.columns = UNIT * tile.mtw
    tile.warps_n = warps_along_n(shape, tile, narrow)
    tile.threads = WARP * tile.warps_k * tile.warps_n
    tile.blocks = shape.n // (tile.columns * tile.warps_n)
    local ctas = tile.blocks * shape.heads
    tile.token_tiles = choose_token_tiles(tile, arch, ctas, narrow)
    tile.step = TOKENS_PER_MMA * tile.token_tiles
    tile.regs = registers(tile, tile.token_tiles)
    tile.exchange = exchange(tile, tile.token_tiles)
    tile.min_ctas = resident(arch, tile.threads, tile.regs, tile.exchange.bytes)
    if tile.regs > MAX_REGS or tile.min_ctas < 1 or tile.exchange.bytes > MAX_STATIC_SMEM then
        fail("no plan for a product of %d x %d per head: %d registers, %d threads, %d bytes of "
            .. "shared memory", shape.k, shape.n, tile.regs, tile.threads, tile.exchange.bytes)
    end
    tile.chunks = math.max(1, tile.min_ctas * arch.sm_count // ctas)
    return tile
end

-- Grid: column block (fastest: the CTAs of a head share its rows in L2), head,
-- token chunk.  No tokens, no grid.
function M.launch(tile, heads, arch)
    return {
        block = { tile.threads, 1, 1 },
        min_ctas = tile.min_ctas,
        grid = {
            { factors = { { const = tile.blocks } }, max = 2147483647 },
            { factors = { { const = heads } }, max = 65535 },
            { factors = { { arg = "tokens", per = CHUNK_TOKENS } }, max = tile.chunks },
        },
        pdl = arch.pdl,
    }
end

-- Jobs of the exchange: job i is the pair of tokens 2 i, 2 i + 1 of a step.  The warps
-- of one column block take 4 / mtw each per round.  Where `step_bytes` is not nil, a
-- round's fragments lie that far behind those of the round before.
function M.jobs(tile)
    local per_warp = 4 // tile.mtw
    local round = per_warp * tile.warps_k
    local step_bytes
    if tile.token_tiles == 1 then
        step_bytes = 16 * round
    elseif round % 4 == 0 then
        step_bytes = round // 4 * tile.exchange.slot
    end
    local count = 4 * tile.token_tiles
    return {
        per_warp = per_warp, count = count, round = round, step_bytes = step_bytes,
        rounds = base.ceil_div(count, round),
    }
end

-- The tokens that a lane stores in one step, counted from its first: pairs, one per round
-- of the exchange, or per token tile.
function M.stored(tile)
    local list = {}
    local count, apart = tile.token_tiles, TOKENS_PER_MMA
    if tile.warps_k > 1 then
        local jobs = M.jobs(tile)
        count, apart = jobs.rounds, 2 * jobs.round
    end
    for i = 0, count - 1 do
        list[#list + 1] = i * apart
        list[#list + 1] = i * apart + 1
    end
    return list
end

-- The 16-byte accesses (frag/memory.tpl) that the text of a tile calls, and those of
-- rotary columns of this style, if any; NeoX halves are 8 bytes (frag/rope.tpl).
function M.vectors(tile, rope_style)
    local direct = tile.warps_k == 1 and tile.mtw == 4
    local rope = rope_style ~= nil
    return { load = tile.k32 > 0 or rope, store = direct or rope and rope_style ~= "neox" }
end

-- The helpers of frag/ldg that the text of a tile calls.
function M.accesses(tile)
    local names = {}
    for _, step in ipairs(M.steps(tile)) do
        if tile.layout == "nk" then
            names[#names + 1] = "once" .. step.width // 2
        end
        if step.width == 16 then
            names[#names + 1] = "load8"
        end
    end
    if tile.layout == "kn" then
        names[#names + 1] = "walk" .. 4 * tile.mtw
    end
    if tile.warps_k > 1 or tile.mtw == 1 then
        names[#names + 1] = "store4"
    elseif tile.mtw == 2 then
        names[#names + 1] = "store8"
    end
    return names
end

-- 16-, 8- or 4-byte loads of W per lane.
function M.weight_loads(tile)
    local n = 0
    for _, step in ipairs(M.steps(tile)) do
        n = n + (tile.layout == "nk" and 2 * tile.mtw or step.width // 4)
    end
    return n
end

-- MMAs of one warp per step.
function M.mmas(tile)
    return tile.mtw * tile.token_tiles * (step_words(tile) // 2)
end

local function floor_lines(c, tile, heads, arch)
    local g = costs.grouped
    local weights = 2 * tile.k * tile.n * heads
    local token = 2 * (tile.k + tile.n) * heads
    local macs = tile.k * tile.n * heads * TOKENS_PER_MMA
    c.add("floor", "W %s B once, %s B per token", g(weights), g(token))
    c.add("clocks", "W %s of DRAM; per 8 tokens %s of DRAM, %s of MMA (%d SMs)",
        g(base.ceil_div(weights, arch.bytes_per_clk)),
        g(base.ceil_div(TOKENS_PER_MMA * token, arch.bytes_per_clk)),
        g(base.ceil_div(macs, arch.mma_fma_clk * arch.sm_count)), arch.sm_count)
end

-- The cost block of a product, added to `c`.
function M.cost(c, tile, heads, arch)
    local slice = UNIT * (tile.units + (tile.spare > 0 and 1 or 0))
    c.add("tile", "warp: %d columns x %s%d of k; CTA: %d x %d warps; step: %d tokens",
        tile.columns, tile.spare > 0 and "up to " or "", slice, tile.warps_n, tile.warps_k,
        tile.step)
    c.add("weights", "%s per lane in flight, from W[%s]", costs.plural(M.weight_loads(tile), "load"),
        tile.layout == "kn" and "k][n" or "n][k")
    c.add("mma", "%d x m16n8k16 per warp and step", M.mmas(tile))
    if tile.exchange.bytes > 0 then
        c.add("smem", "%s B: partial sums, 2 buffers x %d warps x %s B",
            costs.grouped(tile.exchange.bytes), tile.warps_k * tile.warps_n,
            costs.grouped(tile.exchange.part))
    else
        c.add("smem", "none")
    end
    c.add("registers", "about %d; %s per SM", tile.regs, costs.plural(tile.min_ctas, "CTA"))
    floor_lines(c, tile, heads, arch)
end

return M
