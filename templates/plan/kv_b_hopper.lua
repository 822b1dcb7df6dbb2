-- SPDX-License-Identifier: Apache-2.0
-- kv_b_hopper: the plan of kv_b on sm_90a, with TMA and wgmma.
--
-- The contract and the floor are those of plan/kv_b.lua.  At R = 512 the flops of a token take
-- 2.3 times as long as its bytes, so the tensor core has to stay busy and nothing else may be
-- in its way:
--
--   * 128 latents of a block stay in registers, 64 in each of two consumer warpgroups: R/4 per
--     thread.  Only kv_b_proj streams, in stages of 64 of k, through one ring for both: the
--     shared-memory port then has 3/4 of the MMA's clocks to serve (with the latents in shared
--     memory and tiles of 128 x 256, all of them).
--   * A tile is the 64 rows of each warpgroup and `columns` columns of one head: the sums take
--     columns/2 registers, R/4 + columns/2 + 26 in all, of 240.
--   * The two halves of a tile's k are the warpgroups' turns to issue: they stay half a tile
--     apart, and one stores while the other multiplies.
--   * Blocks are persistent, each with a range of (block of 128 tokens, tile of columns), tokens
--     outermost: ranges differ by one tile at most, latents are loaded once or twice, and
--     blocks pass over kv_b_proj at the same pace, which leaves reading it again to L2.
--
-- Latents arrive through stages of the ring, the two warpgroups' 64 x 64 in one.  Rows of 128
-- bytes, swizzled; tokens beyond the last, rows beyond a head's and columns beyond R are out of
-- the tensors' bounds: zeros, and not read.  A tile's columns are those of one head, so a width
-- that is not whole tiles leaves columns that are computed and not stored.
--
-- k is added in one order: a token's bits are the same in any batch.

local costs = use("lib/cost")
local launch = use("lib/launch")
local base = use("lib/plan")

local M = {}

local ROWS, GROUP_ROWS = 128, 64
local DEPTH, ROW_BYTES = 64, 128    -- k of a stage, and bytes of its rows
local CONSUMER, PRODUCER, OTHER = 240, 24, 26
local MAX_COLUMNS = 256             -- the widest wgmma
local LEAST_COLUMNS = 48            -- of a tile: fewer would wait for their A fragments
local MAX_STAGES = 12
local BARRIERS = 256                -- bytes

-- Columns per tile of a head's `width`, at most `most`: the widest tile that computes at most a
-- sixteenth more columns than there are, else the one that computes the fewest.
local function columns_of(width, most)
    local best, least
    for columns = 16, most, 16 do
        local sum = base.ceil_div(width, columns) * columns
        if 16 * sum <= 17 * width then
            best = columns
        end
        if not least or sum <= least.sum then
            least = { columns = columns, sum = sum }
        end
    end
    return best or least and least.columns
end

local function tile_of(spec, arch, heads)
    local k, width = spec.kv_lora_rank, spec.qk_nope_head_dim + spec.v_head_dim
    local columns = columns_of(width, math.min(MAX_COLUMNS, 2 * (CONSUMER - OTHER - k // 4)))
    if not columns or columns < math.min(LEAST_COLUMNS, width) then
        return nil
    end
    local t = {
        rows = ROWS, group_rows = GROUP_ROWS, columns = columns, threads = 384, k = k,
        head = width, n = heads * width, depth = DEPTH, steps = k // 16,
        chunks = base.ceil_div(k, DEPTH), head_tiles = base.ceil_div(width, columns),
        consumer_registers = CONSUMER, producer_registers = PRODUCER,
        registers = k // 4 + columns // 2 + OTHER,
    }
    t.column_tiles = heads * t.head_tiles
    t.half = base.ceil_div(t.chunks, 2) -- stages of a warpgroup's first turn
    t.stage = math.max(columns, ROWS) * ROW_BYTES
    t.weight_bytes = columns * ROW_BYTES
    t.latent_bytes = ROWS * ROW_BYTES
    t.stages = math.min(MAX_STAGES, (arch.smem_optin - BARRIERS) // t.stage)
    t.smem = t.stages * t.stage + BARRIERS
    assert(t.chunks <= t.stages, "kv_b_hopper: latents pass through the ring at once")
    return t
end

local function maps(t)
    return {
        { name = "latent_map", pointer = "latent", elem = "T", swizzle = 128, l2 = 256,
            dims = { { const = t.k }, { arg = "tokens", per = 1 } },
            strides = { { arg = "latent_stride" } }, box = { DEPTH, GROUP_ROWS } },
        { name = "weight_map", pointer = "kv_b", elem = "T", swizzle = 128, l2 = 256,
            dims = { { const = t.k }, { const = t.head }, { const = t.n // t.head } },
            strides = { { arg = "kv_b_row_stride" }, { arg = "kv_b_head_stride" } },
            box = { DEPTH, t.columns, 1 } },
    }
end

local function cost(t, arch)
    local g = costs.grouped
    local c = costs.new()
    local mma = t.steps * t.columns // 2 -- clocks of 64 rows
    local port = t.chunks * t.columns * 3 // 2
    c.add("tile", "CTA: %d tokens, whose latents stay in registers, x %d columns of %s; two consumer "
        .. "warpgroups, one producer thread", t.rows, t.columns, g(t.n))
    c.add("smem", "%s B: %d stages x %s B, %d of k each", g(t.smem), t.stages, g(t.stage), t.depth)
    c.add("registers", "latents %d + sums %d + 26 = %d of %d; producer %d", t.k // 4, t.columns // 2,
        t.registers, t.consumer_registers, t.producer_registers)
    c.add("mma", "%d x m64n%dk16 per warpgroup and tile", t.steps, t.columns)
    c.add("order", "a range of tiles per CTA, columns fastest, then tokens")
    c.add("floor", "W %s B once, %s B per token", g(2 * t.n * t.k), g(2 * (t.n + t.k)))
    c.add("clocks", "%s of MMA per 64 rows and tile, %s of the shared-memory port (%d %%)", g(mma), g(port),
        100 * port // mma)
    c.add("l2", "W once per %d tokens: %d flops per byte", t.rows, t.rows)
    c.add("dram", "%s clocks per %d tokens, %s of MMA (%d SMs)",
        g(base.ceil_div(2 * t.rows * (t.n + t.k), arch.bytes_per_clk)), t.rows,
        g(base.ceil_div(t.rows * t.n * t.k, arch.mma_fma_clk * arch.sm_count)), arch.sm_count)
    return c.pairs
end

-- The plan, with these arguments; nil where the latents do not fit the registers.
function M.plan_of(spec, arch, heads, arguments)
    local t = tile_of(spec, arch, heads)
    if not t then
        return nil
    end
    return base.new(spec, arch, heads, "kv_b", {
        args = arguments,
        launch = {
            block = { t.threads, 1, 1 },
            whole_sm = true,
            smem_dynamic = t.smem,
            pdl = arch.pdl,
            tensor_maps = maps(t),
            grid = launch.grid({ launch.per("tokens", t.rows), launch.const(t.column_tiles),
                max = arch.sm_count }),
        },
        cost = cost(t, arch),
        tile = t,
        template = "kernel/kv_b_hopper.cu.tpl",
    })

end

return M
