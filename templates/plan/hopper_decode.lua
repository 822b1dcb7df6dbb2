-- SPDX-License-Identifier: Apache-2.0
-- hopper_decode.lua: the warp-specialised tiles of mqa_decode for wgmma and TMA, schedules (b) and (c);
-- decode.hopper.schedule may ask for (a) of plan/hopper_alternating.lua instead.
--
-- A block holds 64 rows, rows being (token, head) pairs of one request, and walks tiles of 64
-- keys.  Three warpgroups of 128 threads:
--
--   scores   S = Q K^T (m64n64k16), softmax, P to shared memory.  Q stays in registers, as
--            far as they reach; the last k-steps come from shared memory.
--   values   two groups, O += P V, R/2 columns each (m64n(R/2)k16).  The first warp of the
--            first one sends for the tiles, two ahead; or all eight warps copy them.
--
-- K and V are the same bytes.  A stage has the R columns of V; what K has beyond, the rope,
-- is in stages of its own, which are free as soon as S is done.
--
-- Order within a tile.  The scores group cannot begin S(i+1) before its softmax is through
-- with S(i); if it stored P(i) first, the tensor cores would idle in every softmax.  So it
-- sends off S(i+1), then stores P(i); and the values groups hold back all but the first of
-- P(i) V(i)'s four k-steps until S(i+1) is done, so that they cover softmax(i+1).
--
-- Floor per tile, in cycles of an SM (4,096 FLOP of wgmma, 128 bytes of shared memory each):
--
--   MMA   32 per k-step of S, R/4 per k-step of P V and group: 2,176 at 576 / 512
--   port  TMA writes the tile, S reads it and the part of Q that is not in registers,
--         P V reads V, and P once per group; P is written once: 1,936
--
-- A cluster of two blocks (tiles of 128 rows) loads every tile once: each block sends for
-- half of it, into both.
--
-- Pages of less than 8 keys.  A box of the copy engine is whole groups of 8 rows, so the rows come
-- one by one, by cp.async.  Floor: 64 rows of 2 (R + DR) bytes, 512 bytes per warp instruction, are
-- 144 at 576; page ids, addresses and the list take each of the eight warps 25 more.  FULL counts
-- the 256 threads' copies as they land (cp.async.mbarrier.arrive), so that nobody waits for them
-- and two tiles stay in flight, as with the copy engine: to wait for a tile before the next is
-- asked for would leave the memory idle for its latency.  The proxy fence that the copies need
-- before wgmma is the scores group's, behind its wait for FULL; rows past the end arrive as zeros,
-- so V needs no zeroing.  A cluster cannot share such copies: one block for any number of rows.

local alternating = use("plan/hopper_alternating")
local latent = use("plan/hopper_latent")
local plan = use("lib/plan")

local M = {}

local ROWS, KEYS, BLOCK, GROUP_ROWS = latent.ROWS, latent.KEYS, latent.BLOCK, latent.GROUP_ROWS
local THREADS = 384
local STAGES = 3
local SCORE_REGISTERS = latent.SCORE_REGISTERS
local SPARE = 16 -- registers beyond those of wgmma's, where there is the choice: at 8 ptxas spills
local STEP = 8 -- setmaxnreg's

-- Shares of the warpgroups: what a launch of 384 threads gets (168 each); or, where Q needs more,
-- as much as holds Q for the scores group, if the values groups can do without it.  With fewer
-- than 8 to spare those spill beside several blocks of rope (384 + 256 columns): then they get
-- a step more, if Q stays where it is.
local function shares(steps, values_wgmma)
    local pool = plan.register_pool(THREADS)
    local even = pool // 3
    local needed = SCORE_REGISTERS + 4 * steps + plan.WGMMA_REGISTERS
    if needed + SPARE <= even then
        return even, even, false
    end
    local least = plan.ceil_div(values_wgmma + plan.WGMMA_REGISTERS, STEP) * STEP
    local values = math.max(least,
        (pool - plan.ceil_div(needed + SPARE, STEP) * STEP) // (2 * STEP) * STEP)
    local tight = values - values_wgmma - plan.WGMMA_REGISTERS < SPARE // 2
    if tight and pool - 2 * (values + STEP) >= needed + SPARE // 2 then
        values = values + STEP
    end
    return pool - 2 * values, values, true
end

-- Byte offsets of everything in shared memory.
local function memory_map(t)
    local map, place = latent.memory_map()
    place("stages", STAGES * t.stage_bytes)
    place("rope", t.rope_stages * t.rope_bytes)
    place("weights", t.buffers * ROWS * 128)
    place("queries", t.q_shared * ROWS * 32)
    place("shrink", t.slots * ROWS * 4)
    place("factor", t.buffers * ROWS * 4)
    place("grown", t.slots * 16)
    place("full", STAGES * 8)
    place("free", STAGES * 8)
    return map
end

-- Cycles and bytes per tile of 64 keys and 64 rows; dram: cycles in which an SM's share of the
-- memory brings the tile.
local function costs(t, d, arch)
    local rope = t.loader == "TMA" and BLOCK * t.rope_blocks or d.rope
    local k_bytes = KEYS * 2 * (d.latent + rope)
    return {
        mma = 32 * t.steps + 2 * d.latent,
        port = (k_bytes + KEYS * 2 * 16 * t.steps + t.q_shared * ROWS * 32 + KEYS * 2 * d.latent
            + 3 * ROWS * 2 * KEYS) // 128,
        l2 = k_bytes // t.cluster,
        dram = k_bytes * arch.sm_count // arch.bytes_per_clk,
    }
end

-- The tile of `cluster` blocks with the spec's options, or nil and why not.
local function shape(spec, arch, cluster)
    local d = plan.dims(spec)
    local why = latent.unfit_rank(d.latent)
    if why then
        return nil, why
    end
    local by_rows = spec.kv_cache.page_size < GROUP_ROWS
    local steps = spec.derived.row // 16
    local scores_limit, values_limit, moved = shares(steps, d.latent // 4)
    local in_registers = math.min(steps,
        (scores_limit - plan.WGMMA_REGISTERS - SCORE_REGISTERS) // 4)
    local box_rows = not by_rows and math.min(spec.kv_cache.page_size, KEYS // cluster) or nil
    local t = {
        m = ROWS * cluster, n = KEYS, rows = ROWS, cluster = cluster, threads = THREADS,
        schedule = cluster == 1 and "b" or "c",
        stages = STAGES, buffers = spec.decode.hopper.p_buffers,
        early = spec.decode.hopper.early_scores, held = 4 - spec.decode.hopper.first_steps,
        rounded = spec.decode.row_sum == "rounded",
        steps = steps, q_registers = in_registers, q_shared = steps - in_registers,
        blocks = d.latent // BLOCK, half = d.latent // BLOCK // 2,
        rope_blocks = plan.ceil_div(d.rope, BLOCK), rope_stages = d.rope > 0 and 2 or 0,
        scores_limit = scores_limit, values_limit = values_limit, moves_registers = moved,
        loader = by_rows and "cp.async" or "TMA",
        -- TMA: one copy brings box_rows rows of a page; a block sends for `boxes` of them.
        box_rows = box_rows, boxes = box_rows and KEYS // cluster // box_rows or nil,
        box_blocks = d.latent // BLOCK,
    }
    t.stage_bytes = KEYS * 2 * d.latent
    t.rope_bytes = KEYS * 128 * t.rope_blocks
    t.tile_bytes = t.stage_bytes + t.rope_bytes
    t.slots = t.buffers + 1 -- tiles whose factors may be wanted
    t.smem = memory_map(t)
    t.per_tile = costs(t, d, arch)
    why = latent.unfit_smem(t.smem.total, arch)
    if why then
        return nil, why
    end
    plan.check_groups(THREADS, {
        { limit = scores_limit, wgmma = SCORE_REGISTERS + 4 * in_registers },
        { limit = values_limit, wgmma = d.latent // 4 },
        { limit = values_limit, wgmma = d.latent // 4 },
    })
    return t
end

-- Tensor maps.  A page is [row group][column block][8 rows][64 columns] to the copy engine, so
-- that one copy of any page lands in the order in which wgmma reads: 8 rows of 128 bytes, the
-- blocks of 64 columns next to each other.  nil: nothing comes by the copy engine.
function M.tensor_maps(spec, t)
    if t.loader ~= "TMA" then
        return nil
    end
    local pages = { const = 2147483647 } -- as far as a caller's pool goes
    local P = spec.kv_cache.page_size
    local maps = {
        {
            name = "kv_map", pointer = "kv_cache", elem = "T", swizzle = 128, l2 = 256,
            dims = { { const = BLOCK }, { const = GROUP_ROWS }, { const = t.blocks },
                { const = P // GROUP_ROWS }, pages },
            strides = { { arg = "row_stride" }, { const = 2 * BLOCK },
                { { arg = "row_stride" }, { const = GROUP_ROWS } }, { arg = "page_stride" } },
            box = { BLOCK, GROUP_ROWS, t.box_blocks, t.box_rows // GROUP_ROWS, 1 },
        },
    }
    if t.rope_blocks > 0 then
        maps[2] = {
            name = "rope_map", pointer = "kv_cache", elem = "T", swizzle = 128, l2 = 256,
            dims = { { const = spec.derived.row }, { const = P }, pages },
            strides = { { arg = "row_stride" }, { arg = "page_stride" } },
            box = { BLOCK, t.box_rows, 1 },
        }
    end
    return maps
end

-- tiles(spec, arch, heads) -> the tiles that some q_len uses, in increasing order, or nil and the
-- reason why the portable kernel is planned instead.
function M.tiles(spec, arch, heads)
    local alternates = spec.decode.hopper.schedule == "alternating"
    local one, why = (alternates and alternating.tile or shape)(spec, arch, 1)
    if not one then
        return nil, why
    elseif alternates then
        one.min_rows, one.max_rows = heads, heads * spec.decode.max_q_len
        return { one }
    end
    local used = {}
    local pair = heads * spec.decode.max_q_len > ROWS and spec.decode.hopper.cluster
        and one.loader == "TMA" and shape(spec, arch, 2) or nil
    for q_len = 1, spec.decode.max_q_len do
        local rows = heads * q_len
        local t = pair and rows > ROWS and pair or one
        t.min_rows = t.min_rows or rows
        t.max_rows = rows
        if used[#used] ~= t then
            used[#used + 1] = t
        end
    end
    one.name = "m64"
    if pair then
        pair.name = "m128"
    end
    return used
end

return M
