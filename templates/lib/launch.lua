-- SPDX-License-Identifier: Apache-2.0
-- launch.lua: the launch rule of a plan as C expressions over the arguments `a`.
--
-- launch.grid is three axes, each { factors, max }: an axis is the product of
-- its factors, {const = n} or {arg = field, per = n} = ceil(field / n), clamped
-- to max.  A product of zero launches nothing.  Where max can clamp, the kernel
-- walks the axis with stride gridDim; x reaches 2^31 - 1, y and z 65,535.

local M = {}

M.MAX_X = 2147483647
M.MAX_YZ = 65535

function M.const(n)
    return { const = n }
end

function M.per(field, n)
    return { arg = field, per = n }
end

-- A grid of these axes, each a list of factors, with `max` where the hardware's limit is not the
-- one; an axis that is left out has one block.
function M.grid(x, y, z)
    local out = {}
    for i, factors in ipairs({ x, y or {}, z or {} }) do
        local axis = { factors = {}, max = factors.max or (i == 1 and M.MAX_X or M.MAX_YZ) }
        for k, factor in ipairs(factors) do
            axis.factors[k] = factor
        end
        axis.factors[1] = axis.factors[1] or M.const(1)
        out[i] = axis
    end
    return out
end

-- The largest value an axis can have when every count is 2^31 - 1.
local function bound(axis)
    local product = 1
    for _, f in ipairs(axis.factors) do
        product = product * (f.const or (M.MAX_X + f.per - 1) // f.per)
    end
    return product
end

local function is_const(axis)
    for _, f in ipairs(axis.factors) do
        if f.arg then
            return false
        end
    end
    return true
end

-- Factors as a C expression in 64 bits.
local function product(factors)
    local terms = {}
    for _, f in ipairs(factors) do
        if f.const then
            terms[#terms + 1] = string.format("%dull", f.const)
        elseif (f.per or 1) == 1 then
            terms[#terms + 1] = string.format("(mla_u64)a->%s", f.arg)
        else
            terms[#terms + 1] = string.format("((mla_u64)a->%s + %d) / %d", f.arg, f.per - 1, f.per)
        end
    end
    return table.concat(terms, " * ")
end

-- The unclamped size of an axis.
function M.axis(axis)
    return product(axis.factors)
end

-- The size of axis `i` as it is launched.
function M.clamped(plan, i)
    local axis = plan.launch.grid[i]
    local name = "grid_" .. string.sub("xyz", i, i)
    if bound(axis) <= axis.max then
        return "(mla_u32)" .. name
    end
    return string.format("(mla_u32)(%s < %dull ? %s : %dull)", name, axis.max, name, axis.max)
end

-- True when nothing is to be done: some axis is empty.
function M.zero_test(plan)
    local terms = {}
    for i, axis in ipairs(plan.launch.grid) do
        if not is_const(axis) then
            terms[#terms + 1] = "grid_" .. string.sub("xyz", i, i) .. " == 0"
        end
    end
    return table.concat(terms, " || ")
end

-- Conditions under which a count or a flag is refused.
function M.count_checks(plan)
    local out = {}
    for _, f in ipairs(plan.args.fields) do
        if f.flag then
            out[#out + 1] = string.format("(a->%s & ~1) != 0", f.name)
        elseif f.type == "i32" then
            out[#out + 1] = string.format("a->%s < 0", f.name)
            if f.multiple > 1 then
                out[#out + 1] = string.format("a->%s %% %d != 0", f.name, f.multiple)
            end
        end
    end
    return out
end

local function all_set(names)
    local terms = {}
    for _, name in ipairs(names) do
        terms[#terms + 1] = "a->" .. name
    end
    local text = table.concat(terms, " && ")
    return #names > 1 and "(" .. text .. ")" or text
end

-- Conditions under which a pointer is missing.  args.one_of lists sets of which
-- one must be complete.
function M.pointer_checks(plan)
    local out = {}
    for _, f in ipairs(plan.args.fields) do
        if f.type == "ptr" and not f.null then
            out[#out + 1] = "!a->" .. f.name
        end
    end
    if plan.args.one_of then
        local sets = {}
        for _, names in ipairs(plan.args.one_of) do
            sets[#sets + 1] = all_set(names)
        end
        out[#out + 1] = "!(" .. table.concat(sets, " || ") .. ")"
    end
    return out
end

local TENSOR_TYPE = { byte = 0, fp16 = 6, f32 = 7, bf16 = 9 } -- CUtensorMapDataType
local SWIZZLE = { [0] = 0, [32] = 1, [64] = 2, [128] = 3 }
local PROMOTION = { [0] = 0, [64] = 1, [128] = 2, [256] = 3 }

-- The plan's tensor maps in the words of cuTensorMapEncodeTiled: { name, pointer, type, rank,
-- dims, strides, box, steps, swizzle, promotion }, the lists as initialisers over `a`; back as
-- in lib/plan.lua.
function M.tensor_maps(plan)
    local out = {}
    for i, m in ipairs(plan.launch.tensor_maps or {}) do
        local dims, strides, ones = {}, {}, {}
        for k, d in ipairs(m.dims) do
            dims[k], ones[k] = product(d), "1"
        end
        for k, s in ipairs(m.strides) do
            strides[k] = product(s)
        end
        out[i] = {
            name = m.name, pointer = m.pointer, rank = #m.dims, back = m.back,
            type = assert(TENSOR_TYPE[m.elem], "tensor map: elem"),
            dims = dims, strides = #strides > 0 and strides or { "0" },
            box = table.concat(m.box, ", "), steps = table.concat(ones, ", "),
            swizzle = assert(SWIZZLE[m.swizzle], "tensor map: swizzle"),
            promotion = assert(PROMOTION[m.l2], "tensor map: l2"),
        }
    end
    return out
end

-- What must be a multiple of what: { multiple, terms } per multiple, largest first.
function M.alignment_groups(plan)
    local groups = {}
    for _, multiple in ipairs({ 16, 8, 4, 2 }) do
        local terms = {}
        for _, f in ipairs(plan.args.fields) do
            if (f.align or f.multiple) == multiple and f.type ~= "i32" then
                terms[#terms + 1] = "(mla_u64)a->" .. f.name
            end
        end
        if #terms > 0 then
            groups[#groups + 1] = { multiple = multiple, terms = terms }
        end
    end
    return groups
end

return M
