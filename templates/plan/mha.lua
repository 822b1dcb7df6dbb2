-- SPDX-License-Identifier: Apache-2.0
-- mha: varlen multi-head attention, the heart of the Normal path.
--
--     S[i, j] = softmax_scale * q[i, h] . [k_nope[j, h] | k_rope[j]]     D = DN + DR dims
--     O[i, h] = sum_j softmax(S[i])[j] v[j, h],  LSE[i, h] = ln sum_j exp S[i, j]
--
-- for every request b, its tokens i of q (cu_q) and j of k and v (cu_k), and head h.
-- With causal set, the last token of q sees the last of k (bottom-right aligned): i sees
-- j <= i + k_len - q_len.  A row that sees nothing gets O = 0 and an empty LSE.
--
-- Variant "": k_nope and the shared k_rope are read where they are, so no concatenated K
-- is ever written: it saves the concatenation's 2 (2 D - DR) + 2 DR / H bytes per token and
-- head, and here the rope part of a key row is one row for all heads, so it hits L2.
-- Variant "concat": one K of D columns, for callers that have it.
--
-- Floor per CTA: the M query rows once, and each key row that some of its rows see once.
-- MMAs per 16 rows and 64 keys: 8 * D/16 + 4 * DV/8.  Tiles above the diagonal are neither
-- loaded nor computed, and a warp skips those that none of its own rows see.
--
-- The softmax is lazy: P = exp(S - reference) against the row's reference as it stands.
-- Only when some lane's sum over the tile exceeds 256 does the warp redo the tile with a
-- new reference, the row's maximum.  In the steady state there is no maximum, no shuffle
-- and no rescaling of O.  In a redone tile a row whose own sum was in range keeps its
-- reference, and key tiles start at the request's first key: a row's bits depend on
-- that row and its keys alone.  The tile's shape and its accounting are in
-- plan/mha_tile.lua.

local args = use("lib/args")
local cost = use("lib/cost")
local launch = use("lib/launch")
local plan = use("lib/plan")
local symbol = use("lib/symbol")
local hopper = use("plan/mha_hopper")
local tile = use("plan/mha_tile")

local M = {}

local function key_arguments(spec, variant)
    if variant == "concat" then
        return {
            args.ptr("k", "T", "in", "[keys, H, DN + DR]"),
            args.stride("k_token_stride", "k from token to token"),
            args.stride("k_head_stride", "k from head to head"),
        }
    end
    local list = {
        args.ptr("k_nope", "T", "in", "[keys, H, DN]"),
        args.stride("k_nope_token_stride", "k_nope from token to token"),
        args.stride("k_nope_head_stride", "k_nope from head to head"),
    }
    if spec.qk_rope_head_dim > 0 then
        list[4] = args.ptr("k_rope", "T", "in", "[keys, DR], rotated, of all heads")
        list[5] = args.stride("k_rope_token_stride", "k_rope from token to token")
    end
    return list
end

local function struct_name(spec, variant)
    if variant == "concat" then
        return symbol.args_struct("mha_concat")
    end
    return symbol.args_struct("mha", { norope = spec.qk_rope_head_dim == 0 })
end

local function arguments(spec, variant)
    local i32 = { align = 4 }
    local list = {
        args.ptr("q", "T", "in", "[tokens, H, DN + DR]"),
        args.stride("q_token_stride", "q from token to token"),
        args.stride("q_head_stride", "q from head to head"),
    }
    for _, field in ipairs(key_arguments(spec, variant)) do
        list[#list + 1] = field
    end
    for _, field in ipairs({
        args.ptr("v", "T", "in", "[keys, H, DV]"),
        args.stride("v_token_stride", "v from token to token"),
        args.stride("v_head_stride", "v from head to head"),
        args.ptr("out", "T", "out", "[tokens, H, DV]"),
        args.stride("out_token_stride", "out from token to token"),
        args.stride("out_head_stride", "out from head to head"),
        args.ptr("lse", "f32", "out", "[tokens, H]; NULL: not wanted", { align = 4, null = true }),
        args.stride("lse_token_stride", "lse from token to token", 4),
        args.stride("lse_head_stride", "lse from head to head", 4),
        args.ptr("cu_q", "i32", "in", "[batch + 1], first token of each request", i32),
        args.ptr("cu_k", "i32", "in", "[batch + 1], first key of each request", i32),
        args.f32("softmax_scale", "factor of the scores"),
        args.count("batch", "requests"),
        args.count("max_q", "tokens of the longest request"),
        args.flag("causal", "1: token i sees keys up to i + k_len - q_len; 0: all"),
    }) do
        list[#list + 1] = field
    end
    return args.layout(struct_name(spec, variant), list, spec.dtype)
end

local function add_bytes(c, spec, heads, variant, t)
    local nope, rope = spec.qk_nope_head_dim, spec.qk_rope_head_dim
    local key = 2 * (t.dims + t.columns)
    c.add("bytes", "%s per key row (floor), %s of queries per CTA", cost.grouped(key),
        cost.grouped(2 * t.m * t.dims))
    if variant == "concat" then
        c.add("saves", "one pointer and one loader; needs concat_mla_k before it unless K exists")
    elseif rope > 0 then
        c.add("saves", "the concatenation pass: %s B per key (reads %s, writes %s)",
            cost.grouped(2 * (heads * (2 * nope + rope) + rope)), cost.grouped(2 * (heads * nope + rope)),
            cost.grouped(2 * heads * t.dims))
    end
end

local function costs(spec, heads, variant, t)
    local c = cost.new()
    local r = t.registers
    local qk = t.m // 16 * (t.n // 8) * t.steps
    local pv = t.m // 16 * (t.columns // 8) * (t.n // 16)
    c.add("tile", "%d rows x %d keys; %s of %d rows, K and V %s", t.m, t.n,
        cost.plural(t.warps, "warp"), 16 * t.mt,
        t.stages == 2 and "double-buffered" or "in single buffers that take turns")
    c.add("smem", "%s B: %s per stage of keys, Q %s %s; %s per SM", cost.grouped(t.smem.total),
        cost.grouped(t.smem.stage), cost.grouped(t.m * t.k_stride),
        t.queries == "shared" and "kept beside them" or "passing through to registers",
        cost.plural(t.ctas_per_sm, "CTA"))
    c.add("registers", "O %d + S %d + P %d + Q %d of 255", r.o, r.s, r.p, r.q)
    if t.column_chunks > 1 then
        c.add("columns", "%d chunks of %d of %d columns of V, each computing S",
            t.column_chunks, t.columns, spec.v_head_dim)
    end
    c.add("mma", "%s x m16n8k16 per key tile: %s for S, %s for O", cost.grouped(qk + pv),
        cost.grouped(qk), cost.grouped(pv))
    add_bytes(c, spec, heads, variant, t)
    return c.pairs
end

local function portable(spec, arch, heads, variant)
    local t = tile.tile(spec, arch, variant)
    return plan.new(spec, arch, heads, "mha", {
        variant = variant,
        args = arguments(spec, variant),
        launch = {
            block = { t.threads, 1, 1 },
            min_ctas = t.ctas_per_sm,
            smem_dynamic = t.smem.total,
            pdl = arch.pdl,
            grid = launch.grid(
                { launch.per("max_q", t.m) },
                { launch.const(heads), launch.const(t.column_chunks) },
                { launch.per("batch", 1) }),
        },
        cost = costs(spec, heads, variant, t),
        tile = t,
    })
end

-- Where the architecture has wgmma and a tile for it fits, that kernel.
local function plan_of(spec, arch, heads, variant)
    return arch.wgmma and hopper.plan_of(spec, arch, heads, variant, arguments(spec, variant))
        or portable(spec, arch, heads, variant)
end

function M.plans(spec, arch, heads)
    local out = { plan_of(spec, arch, heads, "") }
    if spec.qk_rope_head_dim > 0 then
        out[2] = plan_of(spec, arch, heads, "concat")
    end
    return out
end

return M
