-- SPDX-License-Identifier: Apache-2.0
-- decode_tile.lua: the tiles of mqa_decode, from a geometry and an architecture.
--
-- A CTA holds M rows, rows being (token, head) pairs of one request, and walks tiles
-- of N keys.  Its warps have two roles:
--
--   S = Q K^T   warp (wm, wn, wk) has 16 rows wm, N / WN keys wn and every second
--               k-step of 16 dims, wk = 0 or 1.  Its part of Q stays in registers.  The
--               two partial sums meet through shared memory: each warp of the pair
--               ends up with 8 rows, a quad of lanes per row.
--   O += P V    every warp has all M rows and its share of the columns, in steps of
--               16: V, which is the first R columns of the key rows, is read once per CTA.
--
-- Where the registers of the warps that S needs do not suffice for O (R 1024 in tiles of
-- 16 keys), as many warps again, the helpers, take part in O alone.
--
-- Registers per thread, of which 255 exist:
--
--   O   M/16 * 8 * ceil(R/16 / W)      Q   4 * ceil(D/16 / 2)      S   4 * N/WN / 8
--
-- and about 39 for addresses, fragments in flight and the softmax.
--
-- Shared memory: S stages of N rows of 2 D + 16 bytes (an odd number of 16-byte units,
-- so every ldmatrix is free of conflicts at one base register plus constants), the
-- partial sums, P, and a few words per row.
--
-- Choice: for each class of rows the widest N whose registers and two stages fit, then
-- a third stage where it fits.  N 32 needs a fifth fewer instructions than N 16; N 64
-- saves another twentieth.  Tiles of 16 and 32 rows are bound by memory latency and
-- want two CTAs per SM where the SM has the shared memory of a data-centre part; a
-- tile of 64 rows is bound by MMA and takes the SM for itself.  A class that does not
-- fit is left out: its rows are packed into tiles of the next smaller class.

local plan = use("lib/plan")

local M = {}

local FRAGMENT_REGISTERS = 216
local RESERVED_SMEM = 1024 -- per CTA, of the SM's
local MAX_STAGES = 3

-- Rows, warps along rows, and warps along keys to try.
local CLASSES = {
    { name = "m16", m = 16, wm = 1, wn = { 2, 4 }, pair_up = true, may_help = true },
    { name = "m32", m = 32, wm = 2, wn = { 1, 2 }, pair_up = true },
    { name = "m64", m = 64, wm = 4, wn = { 1 }, pair_up = false },
}
local KEYS = { 64, 32, 16 }

local function registers(t)
    return {
        o = t.m // 16 * 8 * t.column_steps,
        q = 4 * t.k_steps,
        s = 4 * t.score_tiles,
    }
end

-- Byte offsets of everything in shared memory.
local function memory_map(t)
    local map = {}
    local at = 0
    local function place(name, bytes)
        map[name] = at
        at = at + plan.ceil_div(bytes, 16) * 16
    end
    place("partials", t.score_warps * t.score_tiles * 256) -- first: its addresses are xor-ed
    place("stages", t.stages * t.stage_bytes)
    place("p", t.m * t.p_stride)
    place("row_factor", t.m * 4)
    place("row_parts", t.wn > 1 and 2 * t.wn * t.m * 4 or 0)
    map.total = at
    return map
end

-- The tile with these choices.  helped: as many warps again for O alone.
local function shape(spec, class, wn, n, stages, helped)
    local dims = spec.derived.row
    local steps = dims // 16
    local columns = spec.kv_lora_rank // 16
    local score_warps = class.wm * wn * 2
    local warps = helped and 2 * score_warps or score_warps
    local t = {
        m = class.m, n = n, stages = stages,
        wm = class.wm, wn = wn, wk = 2, score_warps = score_warps,
        warps = warps, threads = 32 * warps,
        dims = dims,
        steps = steps,                          -- of 16 dims, both warps of a pair
        k_steps = plan.ceil_div(steps, 2),      -- per warp
        k_tail = steps % 2,                     -- 1: the last one is warp 0's alone
        score_tiles = n // wn // 8,             -- of 8 keys, per warp
        columns = columns,                      -- steps of 16 columns of O
        column_steps = plan.ceil_div(columns, warps), -- per warp
        column_tail = columns % warps,          -- warps that have the last one; 0: all
        row_stride = 2 * dims + 16,
        p_stride = 2 * n + 16,
        rounded = spec.decode.row_sum == "rounded",
    }
    t.stage_bytes = n * t.row_stride
    t.registers = registers(t)
    -- Q passes through the last stages on its way to registers.
    t.q_stages = plan.ceil_div(t.m * t.row_stride, t.stage_bytes)
    t.smem = memory_map(t)
    -- The loader: eight threads a row, 16 bytes each.
    t.rows_per_pass = t.threads // 8
    t.passes = plan.ceil_div(n, t.rows_per_pass)
    t.chunks = plan.ceil_div(dims // 8, 8)
    t.chunk_tail = dims // 8 % 8                -- threads that have the last one; 0: all
    return t
end

local function fits(t, budget)
    local r = t.registers
    return r.o + r.q + r.s <= FRAGMENT_REGISTERS and t.smem.total <= budget and t.q_stages <= t.stages
        and t.score_tiles >= 1
end

-- Shared memory for one CTA, and CTAs per SM.
local function budget_of(class, arch)
    local half = arch.smem_sm // 2 - RESERVED_SMEM
    if class.pair_up and half > 64 * 1024 then
        return half, 2
    end
    return arch.smem_optin, 1
end

local function stages_that_fit(spec, class, wn, n, budget, helped)
    local best
    for stages = 2, MAX_STAGES do
        local t = shape(spec, class, wn, n, stages, helped)
        if fits(t, budget) then
            best = t
        end
    end
    return best
end

local function best_of(spec, class, arch, helped)
    local budget, ctas = budget_of(class, arch)
    local tries = { { budget, ctas } }
    if ctas == 2 then
        tries[2] = { arch.smem_optin, 1 }
    end
    for _, try in ipairs(tries) do
        for _, n in ipairs(KEYS) do
            for _, wn in ipairs(class.wn) do
                local t = stages_that_fit(spec, class, wn, n, try[1], helped)
                if t then
                    t.name, t.ctas_per_sm = class.name, try[2]
                    return t
                end
            end
        end
    end
end

-- Classes in increasing order that fit this geometry on this architecture.
local function fitting(spec, arch)
    local out = {}
    for _, class in ipairs(CLASSES) do
        local t = best_of(spec, class, arch, false)
        if not t and class.may_help then
            t = best_of(spec, class, arch, true)
        end
        if t then
            out[#out + 1] = t
        end
    end
    if #out == 0 then
        fail("mqa_decode: no tile fits latent %d + rope %d on %s (%d bytes of shared memory)",
            spec.kv_lora_rank, spec.qk_rope_head_dim, arch.name, arch.smem_optin)
    end
    return out
end

-- The tile for `rows` rows of a request: the smallest that holds them, or the largest.
local function pick(tiles, rows)
    for _, t in ipairs(tiles) do
        if t.m >= rows then
            return t
        end
    end
    return tiles[#tiles]
end

-- tiles(spec, arch, heads): those that some q_len from 1 to decode.max_q_len uses, in
-- increasing order; each knows from and to which count of rows it is used.
function M.tiles(spec, arch, heads)
    local all = fitting(spec, arch)
    local used = {}
    for q_len = 1, spec.decode.max_q_len do
        local t = pick(all, heads * q_len)
        t.min_rows = t.min_rows or heads * q_len
        t.max_rows = heads * q_len
        if used[#used] ~= t then
            used[#used + 1] = t
        end
    end
    return used
end

return M
