-- SPDX-License-Identifier: Apache-2.0
-- args.lua: the one struct that a kernel takes by value.
--
-- A family declares its fields once, in the order of the ABI.  From that list
-- come the offsets, the struct in the kernel's source, the struct in the C
-- header, the compile-time checks, the descriptor table and the manifest: no
-- number is copied by hand.
--
--     local a = args.layout("mla_kv_gather_args", {
--         args.ptr("kv_cache", "T", "in", "paged rows"),
--         args.stride("page_stride", "bytes from page to page"),
--         args.count("tokens", "rows of the output"),
--     }, "bf16")
--
-- All strides are int64 bytes; counts are int32.  The layout is that of C on
-- every 64-bit target CUDA has: natural alignment, size rounded up to 8.

local M = {}

local SIZE = { ptr = 8, i64 = 8, i32 = 4, f32 = 4 }

-- C names of the element types, in the header and in a kernel's source.
local HEADER_TYPE = {
    bf16 = "void", fp16 = "void", byte = "void",
    f32 = "float", i32 = "int32_t", i64 = "int64_t",
}
local KERNEL_TYPE = {
    bf16 = "void", fp16 = "void", byte = "void",
    f32 = "float", i32 = "mla_i32", i64 = "mla_i64",
}
local ELEM_BYTES = { bf16 = 2, fp16 = 2, byte = 1, f32 = 4, i32 = 4, i64 = 8 }

-- A pointer.  elem: "T" (the working dtype), f32, i32, i64 or byte; access:
-- in, out or inout; options: align (bytes, 16 unless told) and null (may be
-- NULL, with the meaning that doc gives).
function M.ptr(name, elem, access, doc, options)
    options = options or {}
    return {
        name = name, type = "ptr", elem = elem, access = access, doc = doc,
        align = options.align or 16, null = options.null or false,
    }
end

-- A distance in bytes.  `multiple` is what it must be a multiple of: 16 unless
-- told, the width of one access.
function M.stride(name, doc, multiple)
    return { name = name, type = "i64", multiple = multiple or 16, doc = doc .. ", bytes" }
end

-- A number of things, never negative.
function M.count(name, doc)
    return { name = name, type = "i32", multiple = 1, doc = doc }
end

-- A 0-or-1 choice made at run time.
function M.flag(name, doc)
    return { name = name, type = "i32", multiple = 1, flag = true, doc = doc }
end

function M.f32(name, doc)
    return { name = name, type = "f32", doc = doc }
end

local function aligned(offset, to)
    return (offset + to - 1) // to * to
end

-- Lays the fields out.  `dtype` replaces the element "T".
-- @return { struct, size, fields } with an offset in every field.
function M.layout(struct, fields, dtype)
    local offset = 0
    local seen = {}
    for _, f in ipairs(fields) do
        assert(not seen[f.name], struct .. ": field " .. f.name .. " twice")
        seen[f.name] = true
        if f.elem == "T" then
            f.elem = dtype
        end
        assert(f.type ~= "ptr" or ELEM_BYTES[f.elem], struct .. "." .. f.name .. ": bad elem")
        offset = aligned(offset, SIZE[f.type])
        f.offset = offset
        offset = offset + SIZE[f.type]
    end
    return { struct = struct, size = aligned(offset, 8), fields = fields }
end

-- The field called `name`, or nil.
function M.field(a, name)
    for _, f in ipairs(a.fields) do
        if f.name == name then
            return f
        end
    end
end

function M.elem_bytes(elem)
    return assert(ELEM_BYTES[elem], "unknown element type")
end

local function declaration(f, types, i64, i32)
    if f.type == "ptr" then
        local const = f.access == "in" and "const " or ""
        return const .. types[f.elem] .. " *" .. f.name .. ";"
    end
    return ({ i64 = i64, i32 = i32, f32 = "float" })[f.type] .. " " .. f.name .. ";"
end

-- The field as the C header declares it, without its comment.
function M.header_declaration(f)
    return declaration(f, HEADER_TYPE, "int64_t", "int32_t")
end

-- The struct as a kernel's source declares it, comments in one column.
function M.kernel_struct(a)
    local width = 0
    for _, f in ipairs(a.fields) do
        width = math.max(width, #declaration(f, KERNEL_TYPE, "mla_i64", "mla_i32"))
    end
    local lines = { "struct " .. a.struct .. " {" }
    for _, f in ipairs(a.fields) do
        local text = declaration(f, KERNEL_TYPE, "mla_i64", "mla_i32")
        lines[#lines + 1] = "    " .. text .. string.rep(" ", width - #text) .. " // " .. f.doc
    end
    lines[#lines + 1] = "};"
    return table.concat(lines, "\n")
end

-- What a caller must keep, in words: "in, 16-byte aligned", "a multiple of 16".
function M.rule(f)
    if f.type == "ptr" then
        local null = f.null and ", may be NULL" or ""
        return string.format("%s, %d-byte aligned%s", f.access, f.align, null)
    end
    if f.multiple and f.multiple > 1 then
        return string.format("a multiple of %d", f.multiple)
    end
    if f.flag then
        return "0 or 1"
    end
    return ""
end

return M
