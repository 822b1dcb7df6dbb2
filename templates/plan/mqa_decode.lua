-- SPDX-License-Identifier: Apache-2.0
-- mqa_decode: paged MQA over the latent, the heart of the Absorb path.
--
--     S[r, s] = softmax_scale * q[r] . kv[s]     D = R + DR dims
--     O[r]    = sum_s softmax(S[r])[s] kv[s][0 .. R-1],  LSE[r] = ln sum_s exp S[r, s]
--
-- for the rows r = (token, head) of every request and the keys s that the token may see
-- (0 .. seq_len - q_len + token).  K and V are the same rows of the pool.  The work list
-- is decode_plan's (lib/work_list.lua); a CTA walks its items.  The tile's shape and its
-- accounting are in plan/decode_tile.lua.
--
-- Floor per item: its key rows (2 D bytes each) once, its query rows once, O once.
-- MMAs per 64 keys and 64 rows: 4 * 8 * D/16 + 4 * 4 * R/8 = 2,176 at 576 / 512.
--
-- A tile of keys takes three barriers: its stage is full (and the stage before it free);
-- the partial sums of S are there (a pair of warps); P is there.  The last is a barrier
-- that also votes, and with the vote goes the row maximum: P is computed against the
-- maximum as it was, and only if some lane's sum of P exceeds 256 is the tile redone
-- with a new one.  A row's bits do not depend on its neighbours: in a redone tile a row
-- whose own sum was in range keeps its old reference.

local args = use("lib/args")
local cost = use("lib/cost")
local launch = use("lib/launch")
local plan = use("lib/plan")
local symbol = use("lib/symbol")
local alternating = use("plan/hopper_alternating")
local hopper = use("plan/hopper_decode")
local latent = use("plan/hopper_latent")
local tile = use("plan/decode_tile")

local M = {}

local function arguments(spec)
    local i32 = { align = 4 }
    return args.layout(symbol.args_struct("mqa_decode"), {
        args.ptr("q", "T", "in", "[batch, q_len, H, R + DR], absorbed queries"),
        args.stride("q_batch_stride", "q from request to request"),
        args.stride("q_token_stride", "q from token to token"),
        args.stride("q_head_stride", "q from head to head"),
        args.ptr("kv_cache", "T", "in", "[pages, P, R + DR]"),
        args.stride("page_stride", "kv_cache from page to page"),
        args.stride("row_stride", "kv_cache from row to row of a page"),
        args.ptr("block_table", "i32", "in", "[batch, pages of a request], page ids; below 0: zeros", i32),
        args.stride("block_table_stride", "block_table from request to request", 4),
        args.ptr("header", "i32", "in", "[8], of decode_plan", i32),
        args.ptr("item_begin", "i32", "in", "[ctas + 1], of decode_plan", i32),
        args.ptr("items", "i32", "in", "[items, 8], of decode_plan"),
        args.ptr("partial_o", "f32", "out", "[slots, rows per tile, R], of split units"),
        args.ptr("partial_lse", "f32", "out", "[slots, rows per tile], natural logarithm", i32),
        args.ptr("out", "T", "out", "[batch, q_len, H, R]"),
        args.stride("out_batch_stride", "out from request to request"),
        args.stride("out_token_stride", "out from token to token"),
        args.stride("out_head_stride", "out from head to head"),
        args.ptr("lse", "f32", "out", "[batch, q_len, H]; NULL: not wanted",
            { align = 4, null = true }),
        args.stride("lse_batch_stride", "lse from request to request", 4),
        args.stride("lse_token_stride", "lse from token to token", 4),
        args.stride("lse_head_stride", "lse from head to head", 4),
        args.f32("softmax_scale", "factor of the scores"),
        args.count("batch", "requests"),
        args.count("q_len", "query tokens of a request"),
        args.count("ctas", "blocks, as decode_plan was told"),
    }, spec.dtype)
end

-- why: the reason why this is planned where there are tensor cores for warpgroups.
local function costs(spec, heads, t, why)
    local c = cost.new()
    local r = t.registers
    local qk = t.m // 16 * (t.n // 8) * t.steps
    local pv = t.m // 16 * (spec.kv_lora_rank // 8) * (t.n // 16)
    c.add("tile", "%d rows x %d keys, %d stages; %d warps = %d of rows x %d of keys x %d of dims%s",
        t.m, t.n, t.stages, t.score_warps, t.wm, t.wn, t.wk,
        t.warps > t.score_warps and string.format(", %d more for O", t.warps - t.score_warps) or "")
    c.add("rows", "for %d to %d (token, head) rows of a request, %d heads", t.min_rows, t.max_rows, heads)
    c.add("smem", "%s B: %d stages x %s, partial sums %s, P %s; %s per SM", cost.grouped(t.smem.total),
        t.stages, cost.grouped(t.stage_bytes), cost.grouped(t.smem.stages),
        cost.grouped(t.m * t.p_stride), cost.plural(t.ctas_per_sm, "CTA"))
    c.add("registers", "O %d + Q %d + S %d of 255", r.o, r.q, r.s)
    c.add("mma", "%s x m16n8k16 per key tile: %s for S, %s for O", cost.grouped(qk + pv),
        cost.grouped(qk), cost.grouped(pv))
    c.add("bytes", "%s per key tile (floor), %s of queries per item", cost.grouped(t.n * 2 * t.dims),
        cost.grouped(t.m * 2 * t.dims))
    if why then
        c.add("portable", "no warp-specialised kernel: %s", why)
    end
    return c.pairs
end

-- How the keys come.
local function loads(spec, t)
    if t.loader ~= "cp.async" then
        return string.format("K by TMA, %d x %d keys per block and tile", t.boxes, t.box_rows)
    end
    return string.format("K by cp.async, 16 bytes each, by the warps of O: pages of %d are less than the "
        .. "8 keys of a box; no pairs of blocks, for a cluster cannot share such copies",
        spec.kv_cache.page_size)
end

-- Why a request's rows go to this tile.
local function choice(t)
    local per = t.per_tile
    if t.cluster > 1 then
        return string.format("beyond %d rows blocks of a request read the same keys: a pair takes %s of L2 "
            .. "per tile and block, not %s", t.rows, cost.grouped(per.l2), cost.grouped(t.cluster * per.l2))
    end
    if t.max_rows > t.rows then
        return string.format("beyond %d rows each block of a request reads its keys from L2, %s cycles of memory "
            .. "per tile for all of them; %s of tensor cores for each", t.rows, cost.grouped(per.dram),
            cost.grouped(per.mma))
    end
    local bound = per.dram > per.mma and "memory" or "tensor cores"
    return string.format("one block holds the rows; bound by %s: a tile takes %s cycles of memory, %s of "
        .. "tensor cores however few rows are live", bound, cost.grouped(per.dram), cost.grouped(per.mma))
end

local function hopper_costs(spec, heads, t)
    local c = cost.new()
    c.add("tile", "%d rows x %d keys in %s of %d rows; one warpgroup for S and its softmax, two for O",
        t.m, t.n, cost.plural(t.cluster, "block"), t.rows)
    c.add("rows", "for %d to %d (token, head) rows of a request, %d heads", t.min_rows, t.max_rows, heads)
    c.add("schedule", "(%s) S of the next tile %s P is stored, %d of 4 k-steps of P V after it; %s of P%s",
        t.schedule, t.early and "before" or "after", t.held, cost.plural(t.buffers, "buffer"),
        t.cluster > 1 and "; tiles shared by a cluster of two blocks" or "")
    c.add("choice", "%s", choice(t))
    c.add("loads", "%s", loads(spec, t))
    c.add("smem", "%s B: %d stages x %s, rope %d x %s, Q %s; 1 CTA per SM", cost.grouped(t.smem.total),
        t.stages, cost.grouped(t.stage_bytes), t.rope_stages, cost.grouped(t.rope_bytes),
        cost.grouped(t.q_shared * t.rows * 32))
    c.add("registers", "%d for S (S 32 + Q %d of %d k-steps), 2 x %d for O (O %d)", t.scores_limit,
        t.q_registers, t.steps, t.values_limit, spec.kv_lora_rank // 4)
    latent.add_traffic(c, spec, t)
    return c.pairs
end

-- What a schedule on sm_90a is written in, and its cost block.
local SCHEDULES = {
    a = { template = "kernel/mqa_decode_alternating.cu.tpl", costs = alternating.costs },
    b = { template = "kernel/mqa_decode_hopper.cu.tpl", costs = hopper_costs },
    c = { template = "kernel/mqa_decode_hopper.cu.tpl", costs = hopper_costs },
}

-- The kernels of sm_90a for TMA and wgmma, or nil and why there are none.
local function hopper_plans(spec, arch, heads)
    local tiles, why = hopper.tiles(spec, arch, heads)
    if not tiles then
        return nil, why
    end
    local out = {}
    for _, t in ipairs(tiles) do
        out[#out + 1] = plan.new(spec, arch, heads, "mqa_decode", {
            variant = t.name,
            template = SCHEDULES[t.schedule].template,
            args = arguments(spec),
            launch = {
                block = { t.threads, 1, 1 },
                whole_sm = true,
                smem_dynamic = t.smem.total,
                cluster = t.cluster > 1 and { x = t.cluster, y = 1, z = 1 } or nil,
                tensor_maps = hopper.tensor_maps(spec, t),
                grid = launch.grid({ launch.const(t.cluster), launch.per("batch", launch.MAX_X),
                    launch.per("ctas", 1), max = launch.MAX_X // t.cluster * t.cluster }),
            },
            cost = SCHEDULES[t.schedule].costs(spec, heads, t),
            tile = t,
        })
    end
    return out
end

function M.plans(spec, arch, heads)
    local out, why
    if arch.wgmma then
        out, why = hopper_plans(spec, arch, heads)
        if out then
            return out
        end
    end
    out = {}
    for _, t in ipairs(tile.tiles(spec, arch, heads)) do
        out[#out + 1] = plan.new(spec, arch, heads, "mqa_decode", {
            variant = t.name,
            args = arguments(spec),
            launch = {
                block = { t.threads, 1, 1 },
                min_ctas = t.ctas_per_sm,
                whole_sm = t.ctas_per_sm == 1,
                smem_dynamic = t.smem.total,
                pdl = false,
                grid = launch.grid({ launch.per("batch", launch.MAX_X), launch.per("ctas", 1) }),
            },
            cost = costs(spec, heads, t, why),
            tile = t,
        })
    end
    return out
end

return M
