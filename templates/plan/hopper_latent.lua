-- SPDX-License-Identifier: Apache-2.0
-- hopper_latent.lua: what the schedules of mqa_decode on sm_90a have in common: a tile's shape, the
-- ranks that two groups of columns can hold, the map of shared memory.

local cost = use("lib/cost")
local plan = use("lib/plan")

local M = {}

M.ROWS, M.KEYS = 64, 64
M.BLOCK = 64 -- columns of a swizzled row of 128 bytes
M.GROUP_ROWS = 8 -- rows of a swizzled pattern
M.SCORE_REGISTERS = M.KEYS // 2 -- of S, per thread

-- Why two groups cannot hold O of that rank, R/4 registers per thread each; nil if they can.
function M.unfit_rank(latent)
    if latent % (2 * M.BLOCK) ~= 0 then
        return string.format("latent %d is not two groups of whole blocks of %d columns", latent, M.BLOCK)
    elseif latent > 512 then
        return string.format("O of %d columns is beyond the registers of two groups", latent)
    end
end

-- Why TMA cannot bring pages of so many keys; nil if it can.
function M.unfit_page(page)
    if page < M.GROUP_ROWS then
        return string.format("pages of %d keys are not whole groups of %d rows", page, M.GROUP_ROWS)
    end
end

-- Why so much shared memory cannot be had; nil if it can.
function M.unfit_smem(total, arch)
    if total > arch.smem_optin then
        return string.format("%d bytes of shared memory, of which there are %d", total, arch.smem_optin)
    end
end

-- map, place: place(name, bytes) enters the next offset into the map; map.total is the end.
function M.memory_map()
    local map = { total = 0 }
    return map, function(name, bytes)
        map[name] = map.total
        map.total = map.total + plan.ceil_div(bytes, 16) * 16
    end
end

-- The last rows of a tile's cost block: what it costs per tile, and to begin an item.
function M.add_traffic(c, spec, t)
    local per = t.per_tile
    c.add("cycles", "per block and key tile: %s of MMA, %s of the shared-memory port",
        cost.grouped(per.mma), cost.grouped(per.port))
    c.add("bytes", "%s of L2 per block and key tile, %s of queries per item", cost.grouped(per.l2),
        cost.grouped(t.m * 2 * spec.derived.row))
end

return M
