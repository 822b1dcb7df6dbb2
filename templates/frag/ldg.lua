-- SPDX-License-Identifier: Apache-2.0
-- Global accesses of 16, 8 and 4 bytes, as text for the head of a kernel.
--
-- `${use("frag/ldg").text{"walk16", "load8"}}` gives the definitions of the helpers
-- it names, each once, in one fixed order.  16-byte activations are memory.tpl's
-- (load16, store16); here is what a kernel of stationary weights needs besides:
--
--   onceN   N bytes of weights that are read a single time, kept out of L1, which is
--           left to the token rows.  Not the read-only path (.nc): ptxas 13.0 moves
--           griddepcontrol.wait in front of .nc loads, and these must be under way
--           before it.
--   walkN   the same, and then the pointer goes on by one row
--   loadN   N bytes of an activation row (N < 16)
--   storeN  N bytes of a result (N < 16)
--
-- An address must be a multiple of N.
local M = {}

-- PTX vector suffix, CUDA type and component names for a width in bytes.
local SHAPE = {
    [16] = { suffix = ".v4", type = "mla_v4", parts = { "x", "y", "z", "w" } },
    [8] = { suffix = ".v2", type = "uint2", parts = { "x", "y" } },
    [4] = { suffix = "", type = "mla_u32", parts = {} },
}

-- CUDA type of a value of `width` bytes.
function M.type(width)
    return SHAPE[width].type
end

-- Word i (from 0) of the variable `name`, which has `width` bytes.
function M.word(name, width, i)
    local part = SHAPE[width].parts[i + 1]
    return part and name .. "." .. part or name
end

-- An initialiser from one expression per word.
function M.init(words)
    return #words == 1 and words[1] or "{" .. table.concat(words, ", ") .. "}"
end

-- An initialiser of `width` zero bytes.
function M.zero(width)
    local words = {}
    for i = 1, width // 4 do
        words[i] = "0"
    end
    return M.init(words)
end

-- Asm operands %first, %first + 1, ... in the braces that a vector needs.
local function operands(shape, first)
    local list = {}
    for i = 1, math.max(#shape.parts, 1) do
        list[i] = "%" .. (first + i - 1)
    end
    return #list == 1 and list[1] or "{" .. table.concat(list, ", ") .. "}"
end

-- Constraints: `"=r"(v.x), "=r"(v.y)`.
local function bindings(shape, width, constraint)
    local list = {}
    for i = 1, width // 4 do
        list[i] = string.format('"%s"(%s)', constraint, M.word("v", width, i - 1))
    end
    return table.concat(list, ", ")
end

local function load_text(name, width, op, comment)
    local shape = SHAPE[width]
    local lines = {
        "// " .. comment,
        string.format("static __device__ __forceinline__ %s %s%d(const void *p)", shape.type,
            name, width),
        "{",
        "    " .. shape.type .. " v;",
        string.format('    asm volatile("%s%s.u32 %s, [%%%d];"', op, shape.suffix,
            operands(shape, 0), width // 4),
        "                 : " .. bindings(shape, width, "=r"),
        '                 : "l"(p)',
        '                 : "memory");',
        "    return v;",
        "}",
    }
    return table.concat(lines, "\n")
end

local function walk_text(width)
    local lines = {
        "// The same; p then goes on by one row.",
        string.format("static __device__ __forceinline__ %s walk%d(const char *&p, mla_i64 row)",
            M.type(width), width),
        "{",
        string.format("    const %s v = once%d(p);", M.type(width), width),
        "    p += row;",
        "    return v;",
        "}",
    }
    return table.concat(lines, "\n")
end

local function store_text(width)
    local shape = SHAPE[width]
    local lines = {
        string.format("// Writes %d bytes.", width),
        string.format("static __device__ __forceinline__ void store%d(void *p, %s v)", width,
            shape.type),
        "{",
        string.format('    asm volatile("st.global%s.u32 [%%0], %s;"', shape.suffix,
            operands(shape, 1)),
        "                 :",
        '                 : "l"(p), ' .. bindings(shape, width, "r"),
        '                 : "memory");',
        "}",
    }
    return table.concat(lines, "\n")
end

local function text_of(kind, width)
    if kind == "once" then
        return load_text("once", width, "ld.global.L1::no_allocate",
            string.format("Reads %d bytes of weights, which are needed once.", width))
    elseif kind == "walk" then
        return walk_text(width)
    elseif kind == "load" then
        return load_text("load", width, "ld.global", string.format("Reads %d bytes.", width))
    end
    return store_text(width)
end

-- Definitions of the named helpers, no newline at the end.  walkN brings the onceN
-- that it is made of.
function M.text(names)
    local wanted = {}
    for _, name in ipairs(names) do
        wanted[name] = true
        if string.find(name, "^walk") then
            wanted["once" .. string.sub(name, 5)] = true
        end
    end
    local out = {}
    for _, kind in ipairs({ "once", "walk", "load", "store" }) do
        for _, width in ipairs({ 16, 8, 4 }) do
            if wanted[kind .. width] then
                out[#out + 1] = text_of(kind, width)
            end
        end
    end
    return table.concat(out, "\n\n")
end

return M
