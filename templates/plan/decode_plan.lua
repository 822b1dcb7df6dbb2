-- SPDX-License-Identifier: Apache-2.0
-- decode_plan: sequence lengths to the work list of a decode step, on the device
-- (lib/work_list.lua says what a work list is).
--
-- Lengths are read when the kernel runs, so a captured launch stays right when they
-- change.  One block walks the units in chunks of one unit per thread: no shared
-- memory and no register grows with the batch, and any batch is planned.
--
--   pass 1   T = tiles of all units, an empty unit counting as one
--   pass 2   per chunk: tiles, their prefix sum, cuts; prefix sums of items and
--            slots; then one item per thread, found by binary search in the chunk
--
-- balanced   CTA c gets tiles floor(c T / G) .. floor((c + 1) T / G) - 1 of the units
--            in order: all CTAs the same number, plus or minus one.  G is ctas, or
--            fewer when each would get less than min_tiles.
-- invariant  a unit is cut every split_tiles tiles from key 0, so that its cuts
--            depend on its own length alone; items go to the CTA that balanced
--            cutting would give their first tile.
--
-- Floor: 4 B bytes of lengths in; 32 per item, 4 per unit and 4 per CTA out.  Lengths
-- are read twice (the second time from L2): the sum must be known before the cuts.

local args = use("lib/args")
local cost = use("lib/cost")
local launch = use("lib/launch")
local plan = use("lib/plan")
local symbol = use("lib/symbol")
local work = use("lib/work_list")

local M = {}

local THREADS = 1024

local function arguments(spec)
    local i32 = { align = 4 }
    return args.layout(symbol.args_struct("decode_plan"), {
        args.ptr("seq_lens", "i32", "in", "[batch], keys of a request, its q_len new ones included", i32),
        args.ptr("header", "i32", "out", "[8], totals and status", i32),
        args.ptr("item_begin", "i32", "out", "[ctas + 1], first item of each CTA", i32),
        args.ptr("items", "i32", "out", "[item_capacity, 8], the work list"),
        args.ptr("unit_slots", "i32", "out", "[units + 1], first slot of each unit", i32),
        args.count("item_capacity", "items that fit"),
        args.count("slot_capacity", "slots that fit into the partial results"),
        args.count("batch", "requests"),
        args.count("q_len", "query tokens of a request"),
        args.count("rows_per_tile", "rows of a tile of the mqa_decode that follows"),
        args.count("keys_per_tile", "keys of its tiles"),
        args.count("ctas", "blocks that it is launched with"),
        args.count("min_tiles", "fewest tiles worth a block, in balance"),
        args.count("split_tiles", "tiles per split; 0: cut in balance"),
    }, spec.dtype)
end

local function costs()
    local c = cost.new()
    c.add("tile", "one block of %d threads, a unit (request, row tile) per thread and chunk", THREADS)
    c.add("smem", "%s bytes, whatever the batch", cost.grouped(M.smem_bytes()))
    c.add("bytes", "4 per request in (twice), 4 per unit, 32 per item, 4 per CTA out")
    return c.pairs
end

-- Three int64 or int32 columns of a chunk, and the warps' sums of a scan.
function M.smem_bytes()
    return THREADS * (8 + 4 + 4 + 4) + 3 * 32 * 8
end

function M.plans(spec, arch, heads)
    return {
        plan.new(spec, arch, heads, "decode_plan", {
            args = arguments(spec),
            launch = {
                block = { THREADS, 1, 1 },
                pdl = false,
                -- One block; none for a batch of zero.
                grid = launch.grid({ launch.per("batch", launch.MAX_X), max = 1 }),
            },
            cost = costs(),
            tile = { threads = THREADS, work_list = work.numbers() },
        }),
    }
end

return M
