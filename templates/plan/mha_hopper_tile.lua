-- SPDX-License-Identifier: Apache-2.0
-- mha_hopper_tile.lua: the tile of mha on sm_90a, from a geometry.
--
-- 384 threads: two consumer warpgroups of 64 query rows each, and a producer warpgroup of
-- which one thread issues TMA loads.  A tile is 128 rows and N keys; a warpgroup computes
-- S = Q K^T as D/16 x m64nNk16 and O += P V as N/16 x m64n(DV)k16.  Registers of a consumer:
--
--   S   N/2    O   DV/2    P   N/4, apart from S so that P V may run under the next softmax
--   Q   4 per 16 dims that are kept in registers, 4 of a D/16
--
-- and 26 for everything else, of 240: the pool gives 384 threads 168 each at launch, which
-- setmaxnreg makes 240 + 240 + 24.  ptxas keeps to this rule to the register: with less it
-- spills and serialises the wgmmas (C7512).
--
-- Shared memory is rows of 128 bytes, swizzled, in boxes of 64 columns: a matrix of W columns
-- takes ceil(W / 64) boxes, of which only W columns are computed with.  K and V have rings of
-- their own.  Where all of Q is in registers, Q passes through stages of K's ring: the
-- next work item's is on its way while this one's last tiles are computed.  Else Q has a
-- place of its own, and wgmma reads from there what registers do not hold.
--
-- Shared-memory port, in clocks of 128 bytes per 64 x N block: B operands (D + DV) N / 64,
-- A operands 16 per k-step of Q that is read from there, TMA (boxes of K and V) N / 2,
-- against MMA clocks (D + DV) N / 32.  Q in registers therefore comes first, then the most
-- keys: N up to 144, since the causal diagonal wastes more the further N is from M.

local plan = use("lib/plan")

local M = {}

local ROWS, GROUP_ROWS = 128, 64
local BOX, ROW_BYTES = 64, 128         -- columns of a box, and bytes
local CONSUMER, PRODUCER = 240, 24     -- registers per thread
local POOL = 504                       -- of a thread in each of the three warpgroups
local OTHER = 26
local SECOND_STAGE = 8                 -- registers that Q in two stages takes
local SHARED_BOXES = 5                 -- of K and V, whose places a cluster's producer can hold
local MOST_KEYS, LEAST_KEYS = 144, 48
local BARRIERS = 128                   -- bytes
local MAX_COLUMNS = 256                -- of V: the widest wgmma

assert(2 * CONSUMER + PRODUCER <= POOL)

local function boxes(columns)
    return plan.ceil_div(columns, BOX)
end

-- What the tensors of K are, in the order of their columns: name and width.
local function key_parts(spec, variant)
    local nope, rope = spec.qk_nope_head_dim, spec.qk_rope_head_dim
    if variant == "concat" then
        return { { name = "k", width = nope + rope } }
    end
    local parts = { { name = "k_nope", width = nope } }
    if rope > 0 then
        parts[2] = { name = "k_rope", width = rope }
    end
    return parts
end

-- Whether one load brings all boxes of a tile: their width is whole boxes, and it is not one
-- of two blocks of a cluster, each of which brings half of the rows of every box.
local function is_whole(width, cluster)
    return width % BOX == 0 and cluster == 1
end

-- The loads of one tensor's tile of `rows` rows: one of all boxes, or one for each.
-- at: byte of the first box; boxes lie one after the other.
local function loads_of(list, name, width, rows, at, cluster)
    local whole = is_whole(width, cluster)
    local count = whole and 1 or boxes(width)
    for i = 0, count - 1 do
        list[#list + 1] = {
            map = name .. "_map", column = BOX * i, whole = whole and 1 or 0,
            at = at + i * rows * ROW_BYTES,
        }
    end
    return at + boxes(width) * rows * ROW_BYTES
end

-- The place of every k-step of Q and K: its box and which of the four in it.
local function steps_of(parts)
    local list, box = {}, 0
    for _, part in ipairs(parts) do
        for i = 0, part.width // 16 - 1 do
            list[#list + 1] = { box = box + i // 4, part = i % 4 }
        end
        box = box + boxes(part.width)
    end
    return list
end

-- A tile of n keys with `held` k-steps of Q in registers, without stages.
local function shape(spec, variant, n, held)
    local dims, columns = spec.qk_nope_head_dim + spec.qk_rope_head_dim, spec.v_head_dim
    local t = {
        m = ROWS, group_rows = GROUP_ROWS, n = n, threads = 384,
        dims = dims, columns = columns, steps = dims // 16, held = held,
        cluster = spec.mha.cluster,
        consumer_registers = CONSUMER, producer_registers = PRODUCER,
    }
    t.passing = held == t.steps and 1 or 0 -- Q passes through K's ring
    t.q_boxes, t.k_boxes, t.v_boxes = boxes(dims), 0, boxes(columns)
    for _, part in ipairs(key_parts(spec, variant)) do
        t.k_boxes = t.k_boxes + boxes(part.width)
    end
    if t.k_boxes + t.v_boxes > SHARED_BOXES then
        t.cluster = 1
    end
    t.q_bytes = ROWS * t.q_boxes * ROW_BYTES
    t.k_bytes = n * t.k_boxes * ROW_BYTES
    t.v_bytes = n * t.v_boxes * ROW_BYTES
    -- Stages of K's ring that Q takes: one, or one for each warpgroup.
    t.q_entries = t.q_bytes <= t.k_bytes and 1 or 2
    t.registers = {
        s = n // 2, o = columns // 2, p = n // 4, q = 4 * held,
        total = n // 2 + columns // 2 + n // 4 + 4 * held + OTHER,
    }
    return t
end

-- Adds the shared-memory map for so many stages; nil where it does not fit.
local function staged(t, k_stages, v_stages, arch)
    local map = { q = 0 }
    map.k = t.passing == 1 and 0 or t.q_bytes
    map.v = map.k + k_stages * t.k_bytes
    map.barriers = map.v + v_stages * t.v_bytes
    map.total = map.barriers + BARRIERS
    if map.total > arch.smem_optin then
        return nil
    end
    t.k_stages, t.v_stages, t.smem = k_stages, v_stages, map
    return t
end

-- All of Q in registers, through K's ring, with so many stages of K and V at least.
local function passing(spec, variant, arch, least)
    local steps = (spec.qk_nope_head_dim + spec.qk_rope_head_dim) // 16
    for n = MOST_KEYS, 96, -16 do
        local t = shape(spec, variant, n, steps)
        local fits = t.registers.total <= CONSUMER - (t.q_entries - 1) * SECOND_STAGE
            and t.q_bytes <= t.q_entries * t.k_bytes
        local s = fits and staged(t, least.k, least.v, arch)
        if s then
            return staged(t, s.k_stages, s.v_stages + 1, arch) or s
        end
    end
end

-- Q in shared memory, and as many k-steps of it in registers as there is room for.
local function resident(spec, variant, arch)
    for n = MOST_KEYS, LEAST_KEYS, -16 do
        local t = shape(spec, variant, n, 0)
        local held = math.min((CONSUMER - t.registers.total) // 4, t.steps - 1)
        if held >= 0 then
            local s = staged(shape(spec, variant, n, held), 2, 2, arch)
            if s then
                return s
            end
        end
    end
end

local function loads(spec, variant, t)
    local q, k, v = {}, {}, {}
    loads_of(q, "q", t.dims, GROUP_ROWS, 0, 1)
    local at = 0
    for _, part in ipairs(key_parts(spec, variant)) do
        at = loads_of(k, part.name, part.width, t.n, at, t.cluster)
    end
    loads_of(v, "v", t.columns, t.n, 0, t.cluster)
    return { q = q, k = k, v = v }
end

-- The tile of a variant, or nil where none fits: then the portable kernel serves.
function M.tile(spec, arch, variant)
    if spec.v_head_dim > MAX_COLUMNS then
        return nil
    end
    local t = passing(spec, variant, arch, { k = 3, v = 2 })
        or passing(spec, variant, arch, { k = 2, v = 2 }) or resident(spec, variant, arch)
    if not t then
        return nil
    end
    assert(t.registers.total <= CONSUMER, "mha_hopper: registers")
    t.load = loads(spec, variant, t)
    t.k_steps = steps_of(key_parts(spec, variant))
    t.q_steps = steps_of({ { width = t.dims } })
    -- Clocks of one 64 x N block.
    t.mma_clocks = (t.dims + t.columns) * t.n // 32
    t.port_clocks = (t.dims + t.columns) * t.n // 64 + 16 * (t.steps - t.held)
        + (t.k_bytes + t.v_bytes) // 256
    return t
end

-- The tensor map of one operand: boxes of `rows` rows that end where the caller says.
-- Dim 1 counts the rows of a box, dim 2 those of the tensor, in the same steps: a load of
-- rows first .. first + size - 1 starts at rows - size and first + size of a tensor that is
-- taken to begin `rows` rows before it does, so that the rest of the box is out of bounds
-- and becomes zeros without being read.
function M.map(name, width, rows, heads, cluster)
    local step = { arg = name .. "_token_stride" }
    local whole = is_whole(width, cluster)
    local map = {
        name = name .. "_map", pointer = name, elem = "T", swizzle = 128, l2 = 256, back = rows,
        dims = { { const = whole and BOX or width }, { const = rows }, { const = 2147483647 } },
        strides = { step, { arg = name .. "_token_stride" } },
        box = { BOX, rows, 1 },
    }
    local function dim(size, stride, box)
        map.dims[#map.dims + 1] = { const = size }
        map.strides[#map.strides + 1] = stride
        map.box[#map.box + 1] = box
    end
    if whole then
        dim(width // BOX, { const = ROW_BYTES }, width // BOX)
    end
    if heads then
        dim(heads, { arg = name .. "_head_stride" }, 1)
    end
    return map
end

-- The tensor maps of a kernel, in the order of its parameters.
function M.maps(spec, variant, t, heads)
    local list = { M.map("q", t.dims, GROUP_ROWS, heads, 1) }
    local rows = t.n // t.cluster
    for _, part in ipairs(key_parts(spec, variant)) do
        list[#list + 1] = M.map(part.name, part.width, rows, part.name ~= "k_rope" and heads or nil,
            t.cluster)
    end
    list[#list + 1] = M.map("v", t.columns, rows, heads, t.cluster)
    return list
end

return M
