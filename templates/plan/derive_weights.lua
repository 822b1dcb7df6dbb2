-- SPDX-License-Identifier: Apache-2.0
-- derive_weights: kv_b_proj as the per-head weights that other engines' absorbed
-- path reads.
--
-- kv_b is [H * (nope + v), R]: per head nope rows of W_UK, then v rows of W_UV.
-- w_kc becomes [H][nope][R] or, transposed, [H][R][nope]; w_vc likewise with v.  Our
-- own absorb kernels read kv_b itself and need no copy; this is for engines that
-- keep the two apart, at load time and, in place, at every reload of weights.
--
-- Floor: 2 * R * (nope + v) bytes per head in, as many out.
--
-- Plan: a block moves a tile of 64 rows x 64 columns of one head's W_UK or W_UV.
-- Rows go straight from registers where the layout stays; a transposed tile goes
-- through shared memory: 16-byte rows in, ldmatrix.trans out.  The rows of a tile are
-- stored in the order that hands a lane eight consecutive rows of one column, so that
-- it writes them as one vector: row 8q + 2j + b lies at position 8j + 2q + b of its
-- 32, the row 2q + b of matrix j.  A pitch of 144 bytes keeps both ways free of bank
-- conflicts.
--
-- Gaps to the floor: none; a transposed tile writes pieces of 64 bytes.

local args = use("lib/args")
local cost = use("lib/cost")
local launch = use("lib/launch")
local plan = use("lib/plan")
local symbol = use("lib/symbol")

local M = {}

local TILE = 64
local THREADS = 128

local function arguments(spec)
    local fields = {
        args.ptr("kv_b", "T", "in", "[H * (DN + DV), R]"),
        args.stride("kv_b_row_stride", "kv_b from row to row"),
    }
    for _, w in ipairs({ { "w_kc", "DN" }, { "w_vc", "DV" } }) do
        local name, rows = w[1], w[2]
        fields[#fields + 1] = args.ptr(name, "T", "out",
            "[H][" .. rows .. "][R], or [H][R][" .. rows .. "]; NULL: not wanted", { null = true })
        fields[#fields + 1] = args.stride(name .. "_head_stride", name .. " from head to head")
        fields[#fields + 1] = args.stride(name .. "_row_stride", name .. " from row to row")
        fields[#fields + 1] = args.flag(name .. "_transposed", "1: the second layout")
    end
    return args.layout(symbol.args_struct("derive_weights"), fields, spec.dtype)
end

local function tile(spec)
    return {
        rows = TILE,
        columns = TILE,
        pitch = TILE // plan.VECTOR + 1,
        passes = TILE // (THREADS // (TILE // plan.VECTOR)),
        rows_per_pass = THREADS // (TILE // plan.VECTOR),
        k_tiles = plan.ceil_div(spec.qk_nope_head_dim, TILE),
        v_tiles = plan.ceil_div(spec.v_head_dim, TILE),
        column_tiles = plan.ceil_div(spec.kv_lora_rank, TILE),
    }
end

local function costs(spec, heads, t)
    local c = cost.new()
    local bytes = heads * (spec.qk_nope_head_dim + spec.v_head_dim) * spec.kv_lora_rank * 2
    c.add("tile", "block: %d rows x %d columns of one head; %s of 16 bytes per thread in flight",
        t.rows, t.columns, cost.plural(t.passes, "load"))
    c.add("smem", "%s bytes static, used by transposed outputs",
        cost.grouped(t.rows * t.pitch * plan.VECTOR_BYTES))
    c.add("registers", "about %d", 4 * t.passes + 24)
    c.add("bytes", "%s in + %s out (floor)", cost.grouped(bytes), cost.grouped(bytes))
    return c.pairs
end

function M.plans(spec, arch, heads)
    local t = tile(spec)
    return {
        plan.new(spec, arch, heads, "derive_weights", {
            args = arguments(spec),
            launch = {
                block = { THREADS, 1, 1 },
                pdl = arch.pdl,
                grid = launch.grid(
                    { launch.const(t.column_tiles) },
                    { launch.const(heads) },
                    { launch.const(t.k_tiles + t.v_tiles) }),
            },
            cost = costs(spec, heads, t),
            tile = t,
        }),
    }
end

return M
