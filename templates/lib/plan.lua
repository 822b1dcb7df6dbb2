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

-- The plan of one kernel.  fields: variant, args, launch, cost (pairs), tile.
-- launch.pdl says that the text waits for its predecessor itself
-- (griddepcontrol.wait before the first global access), so that it may, and
-- need not, be launched with programmatic stream serialization.
function M.new(spec, arch, heads, family, fields)
    local name = symbol.kernel(family, fields.variant or "", spec, heads, arch)
    local launch = fields.launch
    launch.smem_dynamic = launch.smem_dynamic or 0
    launch.min_ctas = launch.min_ctas or 1
    launch.pdl = launch.pdl or false
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
