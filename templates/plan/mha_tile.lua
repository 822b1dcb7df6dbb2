-- SPDX-License-Identifier: Apache-2.0
-- mha_tile.lua: the tile of mha, from a geometry and an architecture.
--
-- A CTA holds M query rows of one head and walks tiles of N keys.  A warp owns whole
-- rows, MT tiles of 16, so softmax and its vote stay inside the warp and P goes from the
-- accumulators of S straight into the A operand of P V.  Registers per thread, of which
-- 255 exist:
--
--   O   MT * C/2    S   MT * N/2    P   MT * N/4    Q   MT * D/4, if it is kept there
--
-- and about 40 for addresses, row state and fragments in flight (C: columns of O).
--
-- Shared memory: K rows of 2 D + 16 bytes and V rows of 2 C + 16 (an odd number of
-- 16-byte units, so that every ldmatrix is free of conflicts at one base register plus
-- constants).  K and V are either both double-buffered (two stages: one barrier per tile)
-- or single buffers that take turns (one stage, two barriers: K of the next tile flies
-- during softmax and P V, V during S).  Q is kept there too, or passes through on its
-- way to registers.
--
-- Choice, first that fits.  Warps of 32 rows read each K and V fragment half as often
-- per MMA, but hold twice the accumulators: they come first, with Q in shared memory and
-- two CTAs of four warps per SM.  Else warps of 16 rows with Q in registers: more keys
-- per tile before more buffers, four warps twice before eight warps once, since two CTAs
-- hide each other's barriers.  Last, Q in shared memory and fewer warps, for widths that
-- no model has yet.  A V wider than 256 is split into chunks of columns, each with a
-- grid of its own that computes S again; the last chunk may overlap the one before it.

local plan = use("lib/plan")

local M = {}

local RESERVED_SMEM = 1024 -- per CTA, of the SM's
local REGISTERS = 255
local TAIL_REGISTERS = 14 -- where mt = 1 and some rows are not shared evenly by their threads
local SPACIOUS = 225 -- of them, for tiles that give the compiler much to load early
local MAX_HELD_DIMS = 256 -- of Q in registers, and of a product that is wholly unrolled
local FIXED_REGISTERS = { [1] = 38, [2] = 45 } -- by m-tiles of a warp
local MAX_COLUMNS, CHUNK_COLUMNS = 256, 192 -- of V in one piece, and of a piece

-- mt: 16-row tiles of a warp; ctas: per SM, what shared memory has to allow.
local CHOICES = {
    { queries = "shared", keys = { 64, 32 }, shapes = {
        { mt = 2, warps = 4, ctas = 2, stages = 2 },
        { mt = 2, warps = 4, ctas = 2, stages = 1 },
    } },
    { queries = "registers", keys = { 64, 32 }, shapes = {
        { mt = 1, warps = 4, ctas = 2, stages = 2 },
        { mt = 1, warps = 8, ctas = 1, stages = 2 },
        { mt = 1, warps = 4, ctas = 2, stages = 1 },
        { mt = 1, warps = 8, ctas = 1, stages = 1 },
    } },
    { queries = "shared", keys = { 64, 32, 16 }, shapes = {
        { mt = 1, warps = 8, ctas = 1, stages = 2 },
        { mt = 1, warps = 8, ctas = 1, stages = 1 },
    } },
    { queries = "shared", keys = { 64, 32, 16 }, shapes = { { mt = 1, warps = 4, ctas = 1, stages = 1 } } },
    { queries = "shared", keys = { 64, 32, 16 }, shapes = { { mt = 1, warps = 2, ctas = 1, stages = 1 } } },
    { queries = "shared", keys = { 64, 32, 16 }, shapes = { { mt = 1, warps = 1, ctas = 1, stages = 1 } } },
}

-- Threads that share the copy of a row of so many elements.
local function lanes_of(width)
    return width > 32 and 8 or width > 16 and 4 or 2
end

-- How a block copies the rows of one tensor: `lanes` threads a row, 16 bytes each, as
-- often as the row is wide; `rows` rows a pass.  to: byte of the tile where its first row is.
local function loader(name, width, n, threads, to, row_stride)
    local chunks = width // 8
    local lanes = lanes_of(width)
    local rows = threads // lanes
    return {
        name = name, to = to, row_stride = row_stride,
        lanes = lanes, rows = rows, passes = plan.ceil_div(n, rows), row_tail = n % rows,
        chunks = plan.ceil_div(chunks, lanes), chunk_tail = chunks % lanes,
        count = n,
    }
end

local function loaders(spec, t, variant)
    local nope, rope = spec.qk_nope_head_dim, spec.qk_rope_head_dim
    local function k(name, width, to)
        return loader(name, width, t.n, t.threads, to, t.k_stride)
    end
    local keys = { k("k", t.dims, 0) }
    if variant == "" then
        keys = { k("k_nope", nope, 0) }
        if rope > 0 then
            keys[2] = k("k_rope", rope, 2 * nope)
        end
    end
    local v = loader("v", t.columns, t.n, t.threads, t.smem.v, t.v_stride)
    -- Threads that hold the same row and chunk of two tensors need one address.
    for _, l in ipairs({ v, keys[2] }) do
        if l.lanes == keys[1].lanes and l.row_stride == keys[1].row_stride then
            l.beside = keys[1].name
        end
    end
    return { q = loader("q", t.dims, t.m, t.threads, 0, t.k_stride), keys = keys, v = v }
end

-- Whether the last pieces of some row are for some of its threads only.
local function has_tail(spec, columns)
    for _, width in ipairs({ spec.qk_nope_head_dim, spec.qk_rope_head_dim, columns }) do
        if width // 8 % lanes_of(width) > 0 then
            return true
        end
    end
    return false
end

local function registers(t, spec)
    local r = {
        o = t.mt * t.columns // 2,
        s = t.mt * t.n // 2,
        p = t.mt * t.n // 4,
        q = t.queries == "registers" and t.mt * t.dims // 4 or 0,
    }
    r.total = r.o + r.s + r.p + r.q + FIXED_REGISTERS[t.mt]
        + (t.mt == 1 and has_tail(spec, t.columns) and TAIL_REGISTERS or 0)
    return r
end

-- Byte offsets.  Q that passes through lies in the second stage when it fits there, so
-- that the first tile is under way beside it; O leaves through the start.
local function memory_map(t)
    local stage = t.n * (t.k_stride + t.v_stride)
    local q, o = t.m * t.k_stride, t.m * t.v_stride
    local keys_end = t.stages * stage
    local map = { stage = stage, v = t.n * t.k_stride, q = 0 }
    if t.queries == "shared" then
        map.q = keys_end
        map.early = true
        map.total = math.max(keys_end + q, o)
        return map
    end
    map.early = t.stages == 2 and q <= stage
    if map.early then
        map.q = stage
    end
    map.total = math.max(keys_end, q, o)
    return map
end

-- Steps of 16 dims that follow each other without a loop: all, or a divisor up to 8.
local function unrolled_steps(dims)
    local steps = dims // 16
    if dims <= MAX_HELD_DIMS then
        return steps
    end
    local most = 8
    while steps % most ~= 0 do
        most = most - 1
    end
    return most
end

local function shape(spec, choice, n)
    local dims = spec.qk_nope_head_dim + spec.qk_rope_head_dim
    local steps = spec.v_head_dim // 16
    local whole = spec.v_head_dim <= MAX_COLUMNS
    local chunks = whole and 1 or plan.ceil_div(spec.v_head_dim, CHUNK_COLUMNS)
    local columns = 16 * plan.ceil_div(steps, chunks)
    local t = {
        mt = choice.mt, warps = choice.warps, threads = 32 * choice.warps,
        m = 16 * choice.mt * choice.warps, n = n,
        stages = choice.stages, queries = choice.queries,
        dims = dims, steps = dims // 16, unrolled = unrolled_steps(dims),
        columns = columns, column_chunks = chunks,
        k_stride = 2 * dims + 16, v_stride = 2 * columns + 16,
    }
    t.registers = registers(t, spec)
    -- Whether what can be derived anew for every tile (the loader's steps, two registers
    -- each, and the scale) may stay in registers.
    t.roomy = t.mt * t.n <= 64 and t.registers.total <= SPACIOUS and 1 or 0
    t.smem = memory_map(t)
    return t
end

-- What is left of 255 is for fragments that the compiler loads early: more of them where a
-- warp has two row tiles, or many keys beside Q.
local function register_limit(t)
    local held = t.queries == "registers"
    if held and t.dims > MAX_HELD_DIMS then
        return 0
    end
    return (t.mt == 2 or held and t.n == 64) and SPACIOUS or REGISTERS
end

local function fits(t, choice, arch)
    local per_cta = arch.smem_sm // choice.ctas - RESERVED_SMEM
    return t.registers.total <= register_limit(t) and t.smem.total <= math.min(per_cta, arch.smem_optin)
end

-- CTAs that an SM holds, shared memory and 255 registers a thread considered.
local function residents(t, arch)
    local by_smem = arch.smem_sm // (t.smem.total + RESERVED_SMEM)
    local by_registers = arch.regs_sm // (256 * t.threads)
    return math.max(1, math.min(by_smem, by_registers))
end

local function first_fit(spec, arch)
    for _, group in ipairs(CHOICES) do
        for _, n in ipairs(group.keys) do
            for _, s in ipairs(group.shapes) do
                local choice = {
                    mt = s.mt, warps = s.warps, ctas = s.ctas, stages = s.stages,
                    queries = group.queries,
                }
                local t = shape(spec, choice, n)
                if fits(t, choice, arch) then
                    return t
                end
            end
        end
    end
    fail("mha: no tile fits nope %d + rope %d, v %d on %s (%d bytes of shared memory)",
        spec.qk_nope_head_dim, spec.qk_rope_head_dim, spec.v_head_dim, arch.name, arch.smem_optin)
end

-- The tile of a variant: "" (k_nope and k_rope apart) or "concat".
function M.tile(spec, arch, variant)
    local t = first_fit(spec, arch)
    t.ctas_per_sm = residents(t, arch)
    t.load = loaders(spec, t, variant)
    return t
end

return M
