-- SPDX-License-Identifier: Apache-2.0
-- kv_gather: rows of the pool, made contiguous for the decompressed path.
--
--     latent[i], k_rope[i] = row(i), i < n
--
-- Row i is named by slots[i], or, with slots NULL, by a page table: sequence b owns
-- output rows cu_seqlens[b] .. cu_seqlens[b+1] - 1, and its row j is position
-- starts[b] + j of that sequence.  A slot or page id below zero gives zeros.
--
-- Floor per row, R = 512 and DR = 64: 1,152 bytes in, 1,152 out, 8 of slot (or 4 of
-- page id, shared by a page's rows).
--
-- Plan: eight neighbouring lanes own a row, so that every access of a warp covers
-- four rows of 128 bytes; all vectors of a row are loaded before the first store:
-- nine per lane at 512 + 64.  With a page table every lane finds its sequence by
-- binary search in cu_seqlens (log2(batch) loads that hit L1).
--
-- Gaps to the floor: none in bytes.  A latent or rope that is no multiple of 64
-- values idles some lanes in its last access.

local args = use("lib/args")
local cost = use("lib/cost")
local launch = use("lib/launch")
local plan = use("lib/plan")
local symbol = use("lib/symbol")

local M = {}

local LANES = 8
local WARPS = 4

local function arguments(spec)
    local fields = {
        args.ptr("kv_cache", "T", "in", "[pages, P, R + DR]"),
        args.stride("page_stride", "kv_cache from page to page"),
        args.stride("row_stride", "kv_cache from row to row of a page"),
        args.ptr("slots", "i64", "in", "[tokens], page * P + row; NULL: by page table",
            { align = 8, null = true }),
        args.ptr("block_table", "i32", "in", "[batch, pages of a sequence], page ids",
            { align = 4, null = true }),
        args.stride("block_table_stride", "block_table from sequence to sequence", 4),
        args.ptr("starts", "i32", "in", "[batch], first position; NULL: 0",
            { align = 4, null = true }),
        args.ptr("cu_seqlens", "i32", "in", "[batch + 1], first output row; [0] is 0",
            { align = 4, null = true }),
        args.count("batch", "sequences of the page table"),
        args.ptr("latent", "T", "out", "[tokens, R]"),
        args.stride("latent_stride", "latent from row to row"),
    }
    local rope = spec.qk_rope_head_dim > 0
    if rope then
        fields[#fields + 1] = args.ptr("k_rope", "T", "out", "[tokens, DR]")
        fields[#fields + 1] = args.stride("k_rope_stride", "k_rope from row to row")
    end
    fields[#fields + 1] = args.count("tokens", "rows of the output")
    local struct = symbol.args_struct("kv_gather", { norope = not rope })
    local a = args.layout(struct, fields, spec.dtype)
    a.one_of = { { "slots" }, { "block_table", "cu_seqlens" } }
    return a
end

-- Vectors of a row of `width` values on LANES lanes: how many accesses, and how
-- many lanes take part in the last one (0: all).
local function part(width)
    local vectors = width // plan.VECTOR
    return { chunks = plan.ceil_div(vectors, LANES), remainder = vectors % LANES }
end

local function tile(spec)
    return {
        lanes = LANES,
        latent = part(spec.kv_lora_rank),
        rope = part(spec.qk_rope_head_dim),
        rows_per_cta = WARPS * 32 // LANES,
        page_shift = plan.log2(spec.kv_cache.page_size),
    }
end

local function costs(spec, t)
    local c = cost.new()
    local row = (spec.kv_lora_rank + spec.qk_rope_head_dim) * 2
    c.add("tile", "warp: 4 rows, %d lanes each, %s of 16 bytes per lane in flight; block: %s",
        t.lanes, cost.plural(t.latent.chunks + t.rope.chunks, "load"),
        cost.plural(t.rows_per_cta, "row"))
    c.add("smem", "none")
    c.add("registers", "about %d", 4 * (t.latent.chunks + t.rope.chunks) + 12)
    c.add("bytes", "per row %s in + %s out + its slot (floor)", cost.grouped(row),
        cost.grouped(row))
    return c.pairs
end

function M.plans(spec, arch, heads)
    plan.check_cache(spec, "kv_gather")
    local t = tile(spec)
    return {
        plan.new(spec, arch, heads, "kv_gather", {
            args = arguments(spec),
            launch = {
                block = { 32 * WARPS, 1, 1 },
                pdl = arch.pdl,
                grid = launch.grid({ launch.per("tokens", t.rows_per_cta) }),
            },
            cost = costs(spec, t),
            tile = t,
        }),
    }
end

return M
