-- SPDX-License-Identifier: Apache-2.0
-- hopper_alternating.lua: schedule (a) of mqa_decode for wgmma and TMA, two warpgroups that take turns.
--
-- A block holds 64 rows and walks tiles of 64 keys, as (b) and (c) do (plan/hopper_decode.lua), but
-- with 256 threads and no setmaxnreg: every thread has the 255 registers of its launch.  Group g
-- owns O's columns g R/2 .. (g+1) R/2 - 1.  Tiles come in pairs, K0 and K1:
--
--   group 0   S0 = Q K0^T, softmax, P0 stored | O += P0 V0 | O += P1 V1
--   group 1   S1 = Q K1^T | O += P0 V0 | softmax, P1 stored | O += P1 V1
--
-- Each P is used twice: by its maker out of registers, by the other group out of shared memory.
-- S1 runs under the softmax of S0, both halves of P0 V0 under that of S1.  The reference of a
-- row's exponent goes from group to group with the tiles, so that both know the same one.  A last
-- tile without a partner is group 0's; group 1 then only adds its P V.
--
-- There is room for two tiles of keys, one for either group's S.  A stage has three parts: the
-- columns of V in two halves, and the rope behind the second.  A group sends for the half that
-- it alone reads as V as soon as it is through with it, so a stage fills while the other tile of
-- the pair is worked on: P1 V1, 1,024 cycles, or the next S0, 1,152.  S begins when the first
-- half is there.
--
-- Floor per tile, in cycles of an SM (4,096 FLOP of wgmma, 128 bytes of shared memory each), at
-- 576 / 512 with 11 of 36 k-steps of Q in registers:
--
--   MMA   32 per k-step of S, R/4 per k-step of P V and group: 2,176
--   port  TMA writes the tile 73,728, S reads it 73,728 and 25 k-steps of Q 51,200, P V reads V
--         65,536 and one P 8,192, P is written 8,192: 280,576 bytes, 2,192
--
-- With one block of Q in registers, four k-steps, the port would take 2,304.  (b) takes 1,936: there
-- one group alone reads Q, and has 31 k-steps in registers.
--
-- Shared memory at 576 / 512:
--
--   2 stages    147,456   2 x ([8 row groups][4 blocks of 64 columns][8][128 B]) and the rope
--   P0, P1       16,384   128-byte swizzle
--   Q            51,200   25 k-steps, 32-byte swizzle
--   rows          1,024   references of the exponents, sums
--   flags, FULL      64   an mbarrier per stage and half
--   cursors         128   which tile a group sends for next in a stage, per page of a tile
--   in all      216,256   of 232,448

local cost = use("lib/cost")
local latent = use("plan/hopper_latent")
local plan = use("lib/plan")

local M = {}

local ROWS, KEYS, BLOCK = latent.ROWS, latent.KEYS, latent.BLOCK
local THREADS = 256
local STAGES = 2
local REGISTERS = 255 -- of a thread: what an instruction can name
local SPARE = 9 -- registers that ptxas wants beyond those that wgmma and P need

-- k-steps of Q that fit into registers beside O, S and the P that S becomes.
local function steps_in_registers(steps, o, rounded)
    local s, p, sums = latent.SCORE_REGISTERS, latent.SCORE_REGISTERS // 2, rounded and 2 or 0
    return math.min(steps, (REGISTERS - plan.WGMMA_REGISTERS - SPARE - o - s - p - sums) // 4)
end

local function memory_map(t)
    local map, place = latent.memory_map()
    place("stages", STAGES * t.stage_bytes)
    place("weights", 2 * ROWS * 128)
    place("queries", t.q_shared * ROWS * 32)
    place("reference", 2 * ROWS * 4)
    place("sums", (t.rounded and 3 or 2) * ROWS * 4)
    place("grown", 2 * 16)
    place("cursors", 2 * STAGES * t.boxes * 32)
    place("full", STAGES * 2 * 8)
    return map
end

local function per_tile(t, d, arch)
    return {
        mma = 32 * t.steps + 2 * d.latent,
        port = (t.stage_bytes + KEYS * 2 * 16 * t.steps + t.q_shared * ROWS * 32 + KEYS * 2 * d.latent
            + 2 * ROWS * 2 * KEYS) // 128,
        l2 = t.stage_bytes,
        dram = t.stage_bytes * arch.sm_count // arch.bytes_per_clk,
    }
end

-- tile(spec, arch) -> the tile, which serves any number of rows, or nil and why there is none.
function M.tile(spec, arch)
    local d = plan.dims(spec)
    local why = latent.unfit_rank(d.latent) or latent.unfit_page(spec.kv_cache.page_size)
    if why then
        return nil, why
    end
    local steps = spec.derived.row // 16
    local rounded = spec.decode.row_sum == "rounded"
    local in_registers = steps_in_registers(steps, d.latent // 4, rounded)
    local box_rows = math.min(spec.kv_cache.page_size, KEYS)
    local half = d.latent // BLOCK // 2
    local t = {
        name = "m64", m = ROWS, n = KEYS, rows = ROWS, cluster = 1, threads = THREADS,
        schedule = "a", stages = STAGES, rounded = rounded,
        steps = steps, q_registers = in_registers, q_shared = steps - in_registers,
        loader = "TMA", blocks = 2 * half, half = half, rope_blocks = plan.ceil_div(d.rope, BLOCK),
        box_rows = box_rows, boxes = KEYS // box_rows, box_blocks = half,
    }
    t.half_bytes = KEYS * 128 * half
    t.rope_bytes = KEYS * 128 * t.rope_blocks
    t.stage_bytes = 2 * t.half_bytes + t.rope_bytes
    t.tile_bytes = t.stage_bytes
    t.smem = memory_map(t)
    t.per_tile = per_tile(t, d, arch)
    why = latent.unfit_smem(t.smem.total, arch)
    if why then
        return nil, why
    end
    local group = { limit = 256, wgmma = d.latent // 4 + latent.SCORE_REGISTERS + 4 * in_registers }
    assert(group.wgmma + plan.WGMMA_REGISTERS <= REGISTERS, "hopper_alternating: registers")
    plan.check_groups(THREADS, { group, group })
    return t
end

-- Rows of the cost block.
function M.costs(spec, heads, t)
    local c = cost.new()
    c.add("tile", "%d rows x %d keys; two warpgroups take turns with the tiles, half of O each", t.m, t.n)
    c.add("rows", "for %d to %d (token, head) rows of a request, %d heads", t.min_rows, t.max_rows, heads)
    c.add("schedule", "(a) tiles in pairs; P from registers for its maker, from shared memory for the other")
    c.add("choice", "decode.hopper.schedule asks for it; the planner's own is (b), and (c) beyond %d rows",
        t.rows)
    c.add("smem", "%s B: %d stages x %s, Q %s; 1 CTA per SM", cost.grouped(t.smem.total), t.stages,
        cost.grouped(t.stage_bytes), cost.grouped(t.q_shared * t.rows * 32))
    c.add("registers", "O %d + S %d + Q %d of %d k-steps, of %d", spec.kv_lora_rank // 4,
        latent.SCORE_REGISTERS, t.q_registers, t.steps, REGISTERS)
    latent.add_traffic(c, spec, t)
    return c.pairs
end

return M
