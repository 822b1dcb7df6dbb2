-- SPDX-License-Identifier: Apache-2.0
-- plan.lua: what every plan has, whatever its family, and the integer helpers
-- that plan modules share.
--
-- A plan is a table of integers and strings that decides everything about one
-- kernel; a template turns it into text and decides nothing.  Tokens, strides
-- and pointers are run-time arguments; everything else is fixed here.

local symbol = use("lib/symbol")

local M = {}

-- Every global access of the elementwise kernels moves one vector: 16 bytes,
-- eight values of a 2-byte type.  Widths are multiples of 16 values, so a row
-- is a whole, even number of vectors.
M.VECTOR_BYTES = 16
M.VECTOR = 8

function M.ceil_div(a, b)
    return (a + b - 1) // b
end

function M.gcd(a, b)
    while b ~= 0 do
        a, b = b, a % b
    end
    return a
end

-- The smallest power of two that is not below n.
function M.power_of_two(n)
    local p = 1
    while p < n do
        p = 2 * p
    end
    return p
end

function M.log2(n)
    local k = 0
    while (1 << k) < n do
        k = k + 1
    end
    assert((1 << k) == n, "not a power of two")
    return k
end

function M.dims(spec)
    return {
        nope = spec.qk_nope_head_dim,
        rope = spec.qk_rope_head_dim,
        v = spec.v_head_dim,
        latent = spec.kv_lora_rank,
    }
end

-- A size or stride of a tensor map as a list of factors.
local function factors(x)
    return #x > 0 and x or { x }
end

-- Tensor maps: parameters behind the argument struct that tell the copy engine (TMA) how a
-- tensor lies in memory; the launcher makes them from the arguments.  An entry:
--
--     { name = "kv_map", pointer = "kv_cache",  -- field of the args struct
--       dims = { {const = 576}, {arg = "tokens", per = 1} },  -- elements, innermost first
--       strides = { {arg = "row_stride"} },     -- bytes, from dimension 1 on
--       box = { 64, 64 },                       -- elements that one copy moves
--       swizzle = 128,                          -- 128, 64, 32 or 0 bytes
--       elem = "T", l2 = 256 }                  -- type; bytes that L2 fetches at once
--
-- A size or stride is {const = n}, {arg = field, per = n} = ceil(field / n), or a list of
-- those: their product.  A size unknown at launch is a large constant; what lies outside,
-- at a negative coordinate for one, is read as zeros.  back = n: the tensor is taken to begin n
-- steps of dimension 1 before the pointer; nothing there is read unless a coordinate says so.
local function tensor_maps(list, dtype)
    local out = {}
    for i, m in ipairs(list) do
        assert(#m.dims == #m.box and #m.strides == #m.dims - 1 and #m.dims <= 5, m.name .. ": rank")
        local dims, strides = {}, {}
        for k, d in ipairs(m.dims) do
            dims[k] = factors(d)
        end
        for k, s in ipairs(m.strides) do
            strides[k] = factors(s)
        end
        out[i] = {
            name = m.name, pointer = m.pointer, dims = dims, strides = strides, box = m.box,
            swizzle = m.swizzle, elem = m.elem == "T" and dtype or m.elem, l2 = m.l2,
            back = m.back or 0,
        }
    end
    return out
end

-- Registers of a kernel whose warpgroups change their shares (setmaxnreg), and what ptxas
-- needs for wgmma: a group's limit is at least W + 26, W being the registers of accumulators
-- and A fragments in flight; the shares add up to what the block got at its launch, which is
-- a multiple of 8 for whole warpgroups of an SM of four times 16,384 registers.
M.WGMMA_REGISTERS = 26

function M.register_pool(threads)
    local groups = M.ceil_div(threads, 128)
    return groups * (65536 // (128 * groups) // 8 * 8)
end

-- groups: { limit, wgmma } each.
function M.check_groups(threads, groups)
    local sum = 0
    for _, g in ipairs(groups) do
        assert(g.limit % 8 == 0 and g.limit >= 24 and g.limit <= 256, "setmaxnreg: limit")
        assert(g.wgmma + M.WGMMA_REGISTERS <= g.limit, "setmaxnreg: wgmma needs more registers")
        sum = sum + g.limit
    end
    assert(sum <= M.register_pool(threads), "setmaxnreg: groups beyond the launch's registers")
end

-- Remarks of ptxas that no plan may allow: setmaxnreg ignored, wgmma serialised, a wait
-- put between wgmmas.
local NEVER_ALLOWED = { C7507 = true, C7511 = true, C7512 = true, C7515 = true, C7517 = true }

local function check_allowed(allow)
    for _, item in ipairs(allow or {}) do
        assert(not NEVER_ALLOWED[item.code], "plan: " .. item.code .. " is never allowed")
    end
    return allow
end

-- The plan of one kernel.  fields: variant, args, launch, cost (pairs), tile; and, where it
-- is not the family's, template.
-- launch.pdl says that the text waits for its predecessor itself
-- (griddepcontrol.wait before the first global access), so that it may, and
-- need not, be launched with programmatic stream serialization.  launch.cluster = {x, y, z}
-- are the blocks of a cluster, launch.tensor_maps the parameters behind the struct.
function M.new(spec, arch, heads, family, fields)
    local name = symbol.kernel(family, fields.variant or "", spec, heads, arch)
    local launch = fields.launch
    launch.smem_dynamic = launch.smem_dynamic or 0
    launch.min_ctas = launch.min_ctas or 1
    launch.pdl = launch.pdl or false
    launch.tensor_maps = launch.tensor_maps and tensor_maps(launch.tensor_maps, spec.dtype)
    return {
        family = family,
        variant = fields.variant or "",
        symbol = name,
        source = "src/" .. name .. ".cu",
        arch = arch.name,
        dtype = spec.dtype,
        heads = heads,
        page_size = spec.kv_cache.page_size,
        dims = M.dims(spec),
        args = fields.args,
        launch = launch,
        cost = fields.cost,
        tile = fields.tile,
        template = fields.template,
        allow = check_allowed(fields.allow),
    }
end

-- The pool's rows have the working dtype; a quantised cache is another family
-- of kernels.
function M.check_cache(spec, family)
    local cache = spec.kv_cache.dtype
    if cache ~= "auto" and cache ~= spec.dtype then
        fail("%s: kv_cache.dtype %s is not supported with dtype %s; supported: auto, %s",
            family, cache, spec.dtype, spec.dtype)
    end
end

return M
