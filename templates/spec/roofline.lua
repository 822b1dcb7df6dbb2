-- SPDX-License-Identifier: Apache-2.0
-- roofline.lua: what bounds a kernel, by the accounting of its plan or by counters.
--
-- A launch has four totals, and a device does so many of each per clock:
--
--   bytes  of DRAM, each input and each output once          bytes_per_clk
--   fmas   multiply-adds of MMAs, the padding of tiles with  mma_fma_clk per SM
--          them
--   port   cycles of the shared-memory port (128 bytes each) 1 per SM
--   insns  warp instructions                                 4 per SM
--
-- The largest of the four times is the prediction: what the kernel would take if all
-- overlapped perfectly and the work filled every SM.  Launches, waits and the last,
-- half-empty wave come on top.
--
-- The work: a decode step of `batch` requests with seq_len keys and q_len new tokens
-- each, and, for the kernels of prefill, one prompt of seq_len tokens.
--
-- Bytes, multiply-adds and port follow from dims and tile, and are what the virtual GPU
-- counts but for the ends of decode's items.  Instructions are its counts of PTX per MMA
-- and per 512 bytes moved, at the widths of DeepSeek-V3 and long work: right to about a
-- third there, and an order of magnitude elsewhere.  The plans of wgmma kernels count the
-- port themselves, per block of 64 rows (tile.per_tile.port, tile.port_clocks).

local plan = use("lib/plan")
local draw = use("spec/roofline_plot")

local M = {}

local DEFAULT = { batch = 128, seq_len = 4096, q_len = 1 }
local ISSUE_PER_SM, PORT_BYTES = 4, 128

-- Warp instructions per MMA (m16n8k16) and per 512 bytes that a kernel moves.
local INSNS = {
    kv_append = { 0, 46 }, kv_gather = { 0, 6 }, concat_mla_k = { 0, 5 },
    derive_weights = { 0, 9 }, merge_state = { 0, 40 }, mqa_combine = { 0, 30 },
    decode_plan = { 0, 100 },
    absorb_q = { 3, 6 }, absorb_v = { 3, 6 }, kv_b = { 2.4, 0 },
    mha = { 2.8, 0 }, mqa_decode = { 3.2, 0 },
}
-- One wgmma is 32 of them or more.
local WGMMA_INSNS = { mha = { 1.5, 0 }, mqa_decode = { 0.9, 0 }, kv_b = { 1.2, 0 } }
local MMA_FMAS = 16 * 8 * 16

-- ---- attention --------------------------------------------------------------

-- Keys that q_len rows at the end of n keys see, added up.
local function visible(q_len, n)
    return q_len * n - q_len * (q_len - 1) // 2
end

-- Bytes through the port for a tile of keys of mqa_decode: written by cp.async, K read
-- by each row of warps, V once, P by every warp, the partial sums there and back.
local function decode_port(p, t)
    if t.per_tile then
        return t.per_tile.port * (t.m // t.rows)
    end
    if not (t.wm and t.warps) then
        return 0
    end
    local d, r = t.dims, p.dims.latent
    local bytes = (1 + t.wm) * t.n * 2 * d + t.n * 2 * r + (1 + t.warps) * t.m * t.n * 2
        + 2 * 4 * t.m * t.n
    return bytes / PORT_BYTES
end

local function mqa_decode(p, w)
    local t, d, r = p.tile, p.dims.latent + p.dims.rope, p.dims.latent
    local rows = w.q_len * p.heads
    local tiles = w.batch * plan.ceil_div(rows, t.m) * plan.ceil_div(w.seq_len, t.n)
    return {
        bytes = 2 * w.batch * (w.seq_len * d + rows * (d + r)) + 4 * w.batch * rows,
        fmas = tiles * t.m * t.n * (d + r),
        port = tiles * decode_port(p, t),
        flops = 2 * w.batch * p.heads * visible(w.q_len, w.seq_len) * (d + r),
    }
end

-- Tiles of keys of one head, causal, q = k = n.
local function causal_tiles(n, rows, keys)
    local tiles = 0
    for first = 0, n - 1, rows do
        tiles = tiles + plan.ceil_div(math.min(first + rows, n), keys)
    end
    return tiles
end

-- Tiles of a head, causal: of the block, and of its warps, which leave out what none of
-- their rows sees.
local function mha_tiles(t, n)
    local rows = t.mt and 16 * t.mt or t.m
    return causal_tiles(n, t.m, t.n), causal_tiles(n, rows, t.n), rows
end

-- K and V written for the block, read by each warp, with Q where that is not kept in
-- registers; Q in and O out once.
local function mha_port(t, n, tiles, warp_tiles, rows)
    if t.port_clocks then
        return tiles * t.port_clocks * (t.m // t.group_rows)
    end
    if not t.queries then
        return 0
    end
    local keys = t.n * 2 * (t.dims + t.columns)
    local shared = t.queries == "shared"
    local once = n * (2 * t.dims * (shared and 1 or 2) + 4 * t.columns)
    return (tiles * keys + warp_tiles * (keys + (shared and rows * 2 * t.dims or 0)) + once) / PORT_BYTES
end

local function mha(p, w)
    local t, d, h, n = p.tile, p.dims, p.heads, w.seq_len
    local dims = d.nope + d.rope
    local tiles, warp_tiles, rows = mha_tiles(t, n)
    local walks = h * (t.column_chunks or 1)
    local key = p.variant == "concat" and h * dims or h * d.nope + d.rope
    return {
        bytes = 2 * n * (h * (dims + 2 * d.v) + key) + 4 * n * h,
        fmas = walks * warp_tiles * rows * t.n * (dims + (t.columns or d.v)),
        port = walks * mha_port(t, n, tiles, warp_tiles, rows),
        flops = 2 * h * visible(n, n) * (dims + d.v),
    }
end

-- ---- products ---------------------------------------------------------------

-- tokens x depth times depth x width for each head, weights read once.  Tokens come in
-- eights.  Partial sums of the warps that share a product go through shared memory and
-- back.
local function product(p, tokens, depth, width, more)
    local fmas = p.heads * depth * width
    local padded = plan.ceil_div(tokens, 8) * 8
    local sharing = p.tile.warps_k or 1
    return {
        bytes = 2 * fmas + 2 * tokens * p.heads * (depth + width) + (more or 0),
        fmas = padded * fmas,
        port = sharing > 1 and 2 * sharing * 4 * padded * p.heads * width / PORT_BYTES or 0,
        flops = 2 * tokens * fmas,
    }
end

local function absorb_q(p, w)
    local d, tokens = p.dims, w.batch * w.q_len
    return product(p, tokens, d.nope, d.latent, tokens * d.rope * (4 * p.heads + 4))
end

local function absorb_v(p, w)
    return product(p, w.batch * w.q_len, p.dims.latent, p.dims.v)
end

local function kv_b(p, w)
    local d, t, n = p.dims, p.tile, w.seq_len
    local width = p.heads * (d.nope + d.v)
    local out = {
        bytes = 2 * (d.latent * width + n * (d.latent + width)),
        fmas = plan.ceil_div(n, t.rows) * t.rows * d.latent * width,
        port = 0,
        flops = 2 * n * d.latent * width,
    }
    local tiles = plan.ceil_div(n, t.rows) * plan.ceil_div(width, t.columns)
    if t.group_rows then -- latents in registers; W written once, read by each warpgroup
        out.port = tiles * (1 + t.rows // t.group_rows) * t.columns * 2 * d.latent / PORT_BYTES
    elseif t.warps_m then
        local warps = t.warps_m * t.warps_n * (t.warp_rows + t.warp_columns)
        out.port = tiles * 2 * d.latent * (t.rows + t.columns + warps) / PORT_BYTES
    end
    return out
end

-- ---- the rest: bytes --------------------------------------------------------

local function moves(bytes)
    return { bytes = bytes, fmas = 0, port = 0, flops = 0 }
end

local function kv_append(p, w)
    local d, tokens = p.dims, w.batch * w.q_len
    return moves(tokens * (4 * (d.latent + d.rope) + 4 * d.rope + 16) + 2 * d.latent)
end

local function kv_gather(p, w)
    return moves(w.seq_len * (4 * (p.dims.latent + p.dims.rope) + 8))
end

local function concat_mla_k(p, w)
    local d = p.dims
    return moves(2 * w.seq_len * (p.heads * (2 * d.nope + d.rope) + d.rope))
end

local function derive_weights(p, _)
    return moves(4 * p.heads * (p.dims.nope + p.dims.v) * p.dims.latent)
end

-- Two states into one: of a prompt's chunks, or of a step's ranks.
local function merge_state(p, w)
    local latent = string.find(p.variant, "latent", 1, true)
    local rows = p.heads * (latent and w.batch * w.q_len or w.seq_len)
    return moves(3 * rows * (2 * (latent and p.dims.latent or p.dims.v) + 4))
end

-- At most: a block's share begins and ends within a unit, which makes two slots, and no
-- slot has less than a tile of keys (32; 64 rows).
local function mqa_combine(p, w, arch)
    local rows = math.min(w.q_len * p.heads, 64)
    local units = w.batch * plan.ceil_div(w.q_len * p.heads, 64)
    local slots = math.min(2 * arch.sm_count, units * plan.ceil_div(w.seq_len, 32))
    return moves(slots * rows * 4 * (p.dims.latent + 1) + slots // 2 * rows * 2 * p.dims.latent)
end

local function decode_plan(_, w, arch)
    return moves(4 * w.batch + 36 * (w.batch + arch.sm_count))
end

local MODELS = {
    mqa_decode = mqa_decode, mha = mha, absorb_q = absorb_q, absorb_v = absorb_v, kv_b = kv_b,
    kv_append = kv_append, kv_gather = kv_gather, concat_mla_k = concat_mla_k,
    derive_weights = derive_weights, merge_state = merge_state, mqa_combine = mqa_combine,
    decode_plan = decode_plan,
}

-- ---- times ------------------------------------------------------------------

local LIMITS = { "bytes", "mma", "port", "issue" }

local function whole(x)
    return math.floor(x + 0.5)
end

-- Nanoseconds of the four totals on a device.
local function times(totals, arch)
    local clocks = {
        bytes = totals.bytes / arch.bytes_per_clk,
        mma = totals.fmas / (arch.mma_fma_clk * arch.sm_count),
        port = totals.port / arch.sm_count,
        issue = totals.insns / (ISSUE_PER_SM * arch.sm_count),
    }
    local ns, limit = {}, LIMITS[1]
    for _, name in ipairs(LIMITS) do
        ns[name] = whole(clocks[name] * 1000 / arch.clk_mhz)
        limit = ns[name] > ns[limit] and name or limit
    end
    return ns, limit
end

-- A row of the drawing.
local function row(p, label, totals, arch)
    local ns, limit = times(totals, arch)
    return {
        symbol = p.symbol, family = p.family, variant = p.variant, arch = p.arch, heads = p.heads,
        label = label, ns = ns, limit = limit, predicted_ns = ns[limit],
        bytes = whole(totals.bytes), fmas = whole(totals.fmas), port = whole(totals.port),
        insns = whole(totals.insns), flops = whole(totals.flops),
    }
end

local function by_model(p, w, arch)
    local totals = MODELS[p.family](p, w, arch)
    local per = arch.wgmma and WGMMA_INSNS[p.family] or INSNS[p.family]
    totals.insns = per[1] * totals.fmas / MMA_FMAS + per[2] * totals.bytes / 512
    return totals
end

local function label_of(p)
    local variant = p.variant ~= "" and " " .. p.variant or ""
    return string.format("%s%s, %d", p.family, variant, p.heads)
end

-- Whether a decode kernel takes the rows of the work: its own, or, as the largest there
-- is, more.
local function takes(p, w, plans)
    local t, rows = p.tile, w.q_len * p.heads
    if p.family ~= "mqa_decode" or not t.max_rows then
        return true
    end
    if rows <= t.max_rows then
        return rows >= t.min_rows
    end
    for _, q in ipairs(plans) do
        if q.family == p.family and q.arch == p.arch and q.heads == p.heads
            and (q.tile.max_rows or 0) > t.max_rows then
            return false
        end
    end
    return true
end

-- ---- doors ------------------------------------------------------------------

local function device(archs, name)
    local a = archs[name]
    if not a.clk_mhz then
        fail("specs/arch.yaml has no clk_mhz for %s", name)
    end
    local first = string.match(a.devices, "^[^,]+")
    return {
        name = name, title = string.format("%s (%s)", first, name), sm_count = a.sm_count,
        bytes_per_clk = a.bytes_per_clk, mma_fma_clk = a.mma_fma_clk, clk_mhz = a.clk_mhz,
        wgmma = a.wgmma,
    }
end

local function workload(request)
    local w = {}
    for _, key in ipairs(keys(DEFAULT)) do
        w[key] = request[key] > 0 and request[key] or DEFAULT[key]
    end
    if w.q_len > w.seq_len then
        fail("q_len %d is longer than seq_len %d", w.q_len, w.seq_len)
    end
    return w
end

-- Rows of the plans, and the families that have no model here.
local function planned(spec, archs, plans, w)
    local rows, missing, seen = {}, {}, {}
    for _, p in ipairs(plans) do
        if not MODELS[p.family] then
            if not seen[p.family] then
                seen[p.family] = true
                missing[#missing + 1] = p.family
            end
        elseif takes(p, w, plans) then
            local arch = device(archs, p.arch)
            rows[#rows + 1] = row(p, label_of(p), by_model(p, w, arch), arch)
        end
    end
    return rows, missing
end

-- Rows of counters: {kernel, work, bytes, flops, port, insns} each.  Those of kernels
-- that the spec does not have are an error, since their device is not known.
local function counted(archs, plans, counters)
    local by_symbol, rows = {}, {}
    for _, p in ipairs(plans) do
        by_symbol[p.symbol] = p
    end
    for _, l in ipairs(counters.launches) do
        local p = by_symbol[l.kernel]
        if not p then
            fail("counters of %s, which this spec does not have", l.kernel)
        end
        local totals = {
            bytes = l.bytes, fmas = l.flops / 2, port = l.port, insns = l.insns, flops = l.flops,
        }
        rows[#rows + 1] = row(p, label_of(p) .. ": " .. l.work, totals, device(archs, p.arch))
    end
    return rows, {}
end

-- roofline(spec, archs, plans, request) -> { script, data }
-- request: format "svg" or "png"; batch, seq_len, q_len (0: default); counters or nil.
function M.roofline(spec, archs, plans, request)
    local w = workload(request)
    local rows, missing
    if request.counters then
        rows, missing = counted(archs, plans, request.counters)
    else
        rows, missing = planned(spec, archs, plans, w)
    end
    if #rows == 0 then
        fail("there is nothing to draw")
    end
    local devices = {}
    for _, name in ipairs(spec.arch) do
        devices[#devices + 1] = device(archs, name)
    end
    local picture = {
        model = spec.model, format = request.format, counted = request.counters ~= nil,
        work = w, devices = devices, rows = rows, missing = missing, limits = LIMITS,
        dims = { latent = spec.kv_lora_rank, rope = spec.qk_rope_head_dim,
            nope = spec.qk_nope_head_dim, v = spec.v_head_dim },
    }
    return {
        script = draw.script(picture),
        data = { model = spec.model, work = w, kernels = rows, missing = missing },
    }
end

return M
