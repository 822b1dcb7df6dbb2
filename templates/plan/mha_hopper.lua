-- SPDX-License-Identifier: Apache-2.0
-- mha_hopper: the plan of mha on sm_90a, with TMA, mbarriers and wgmma.
--
-- The contract is that of plan/mha.lua.  Blocks are persistent: block c takes the work items
-- c, c + grid, ... of the launch, an item being 128 query rows of one head of one request,
-- counted by the requests' own lengths.  Items of a request go by groups of heads whose keys
-- and values stay in L2 together, in a group by query block from the last (which in a causal
-- request sees most) to the first, and in a block by head: so blocks that run at the same time
-- have about the same number of tiles, and share keys in L2.
--
-- One tile of a consumer warpgroup, tiles going from the last keys to the first:
--
--   softmax of S(i), P(i-1) V(i-1) running;  O scaled if some maximum of the warp rose;
--   its turn: S(i+1) = Q K(i+1)^T and O += P(i) V(i) issued as one batch
--
-- The turn covers the issue alone: it makes the two warpgroups alternate, so that one's
-- softmax runs under the other's products, however the tensor core arbitrates.  Tiles start at
-- the request's first key whoever asks, and a tile that a row does not see adds exactly
-- nothing to it: a row's bits depend on that row and its keys alone.
--
-- With mha.cluster = 2 two blocks share an item of 256 rows: both walk the tiles that either
-- sees, each loads half of the rows of every box for both, and a stage is free when the warps
-- of both have released it.  L2 then serves 256 flops per byte, which long prefixes may need; a
-- causal diagonal wastes twice as much, so it is not the default.
--
-- Keys and values beyond those that some row of the block sees are not read: see
-- mha_hopper_tile.map.  Their scores become -inf, their values are zeros, so nothing of the
-- next request or of unwritten memory reaches O.

local cost = use("lib/cost")
local launch = use("lib/launch")
local plan = use("lib/plan")
local tile = use("plan/mha_hopper_tile")

local M = {}

local L2_BYTES = 24 * 1024 * 1024 -- of keys and values that are to stay in L2

local function add_bytes(c, spec, heads, variant, t)
    local key = 2 * (t.dims + t.columns)
    c.add("bytes", "%s per key row (floor), %s of queries per CTA", cost.grouped(key),
        cost.grouped(2 * t.m * t.dims))
    if variant == "" and spec.qk_rope_head_dim > 0 then
        c.add("saves", "the concatenation pass: %s B per key", cost.grouped(
            2 * (heads * (2 * spec.qk_nope_head_dim + spec.qk_rope_head_dim) + spec.qk_rope_head_dim)))
    end
    local padded = (t.k_boxes + t.v_boxes) * 64 - t.dims - t.columns
    if padded > 0 then
        c.add("padding", "%d columns of zeros per key row in shared memory, to whole boxes: not "
            .. "read, not computed with; the portable kernel would read none, and issue %d mma.sync "
            .. "per 16 rows and 64 keys", padded, 8 * t.steps + 2 * t.columns)
    end
end

local function costs(spec, heads, variant, t)
    local c = cost.new()
    local r = t.registers
    c.add("tile", "%d rows x %d keys; two consumer warpgroups of %d rows, one producer thread",
        t.m, t.n, t.group_rows)
    c.add("smem", "%s B: %d stages of K, %s each, and %d of V, %s each; Q %s", cost.grouped(t.smem.total),
        t.k_stages, cost.grouped(t.k_bytes), t.v_stages, cost.grouped(t.v_bytes), t.passing == 1
            and "passing through " .. cost.plural(t.q_entries, "stage") .. " of K"
            or cost.grouped(t.q_bytes) .. " beside them")
    c.add("registers", "O %d + S %d + P %d + Q %d (%d of %d k-steps) + %d = %d of %d; producer %d",
        r.o, r.s, r.p, r.q, t.held, t.steps, r.total - r.o - r.s - r.p - r.q, r.total,
        t.consumer_registers, t.producer_registers)
    c.add("mma", "%d x m64n%dk16 for S and %d x m64n%dk16 for O per 64 rows and tile", t.steps, t.n,
        t.n // 16, t.columns)
    c.add("clocks", "%s of MMA per 64 rows and tile, %s of the shared-memory port (%d %%)",
        cost.grouped(t.mma_clocks), cost.grouped(t.port_clocks), 100 * t.port_clocks // t.mma_clocks)
    if t.cluster > 1 then
        c.add("cluster", "%d blocks of neighbouring rows; each loads half of every tile of keys for both",
            t.cluster)
    end
    add_bytes(c, spec, heads, variant, t)
    return c.pairs
end

-- The plan of a variant, with these arguments; nil where no tile fits.
function M.plan_of(spec, arch, heads, variant, arguments)
    local t = tile.tile(spec, arch, variant)
    if not t then
        return nil
    end
    t.l2_keys = L2_BYTES // (2 * (t.dims + t.columns))
    return plan.new(spec, arch, heads, "mha", {
        variant = variant,
        args = arguments,
        launch = {
            block = { t.threads, 1, 1 },
            whole_sm = true,
            smem_dynamic = t.smem.total,
            pdl = arch.pdl,
            tensor_maps = tile.maps(spec, variant, t, heads),
            cluster = t.cluster > 1 and { x = t.cluster, y = 1, z = 1 } or nil,
            grid = launch.grid({ launch.const(t.cluster), launch.per("max_q", t.cluster * t.m),
                launch.const(heads), launch.per("batch", 1),
                max = arch.sm_count // t.cluster * t.cluster }),
        },
        cost = costs(spec, heads, variant, t),
        tile = t,
        template = "kernel/mha_hopper.cu.tpl",
    })

end

return M
