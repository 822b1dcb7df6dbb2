-- SPDX-License-Identifier: Apache-2.0
-- wgmma m64nNk16 with fp32 accumulators (PTX ISA 9.7.15), as text.
--
-- A batch of wgmmas on one accumulator is one asm statement: registers that the front end
-- moved in between would make ptxas serialise them.  Between statements with wgmmas in
-- flight may stand whatever leaves their registers alone: barriers, copies, stores.
--
-- Operands.  The accumulator is N/2 registers per thread: register i holds row 16 w + g +
-- 8 ((i / 2) % 2), column 8 (i / 4) + 2 q + i % 2 in warp w, lane 4 g + q.  A is four
-- registers as in mma.sync, or a descriptor; B is a descriptor.  A descriptor's address
-- advances along K by adding to it in units of 16 bytes.
--
-- Descriptors (9.7.15.5.1).  K-major, 128-byte swizzle: rows of 128 bytes, eight of them a
-- group, `stride` bytes from group to group; `lead` is not used.  MN-major, 128-byte
-- swizzle: groups of eight k of 64 columns each, `lead` bytes from one block of 64 columns
-- to the next, `stride` from one group of k to the next.  K-major, 32-byte swizzle: rows of
-- 32 bytes, `stride` bytes from eight rows to the next.

local M = {}

local WIDTH = 76 -- of what stands in a line, so that it fits 100 where it is indented

local TYPE = { bf16 = "bf16", fp16 = "f16" }

-- Bytes of the layout's swizzle to bits 62 and 63.
M.SWIZZLE = { [0] = 0, [128] = 1, [64] = 2, [32] = 3 }

local DESCRIPTOR = [[
// Describes a matrix in shared memory to wgmma: distances in bytes, swizzle as in bits 62-63.
static __device__ __forceinline__ mla_u64 matrix_descriptor(mla_u32 address, mla_u32 lead,
                                                            mla_u32 stride, mla_u32 swizzle)
{
    mla_u64 d;
    asm("mov.b64 %0, {%1, %2};"
        : "=l"(d)
        : "r"((address >> 4) + (lead << 12)), "r"(stride >> 4 | swizzle << 30));
    return d;
}
]]

local function trimmed(text) return (text:gsub("\n$", "")) end

-- Definition of matrix_descriptor.
function M.descriptor_text()
    return trimmed(DESCRIPTOR)
end

-- names(prefix, n) -> { prefix0, prefix1, ... }
function M.names(prefix, n)
    local out = {}
    for i = 1, n do
        out[i] = prefix .. i - 1
    end
    return out
end

-- Words, each followed by a blank, in lines of at most `width` columns.
local function fill(words, width)
    local lines, line = {}, ""
    for _, word in ipairs(words) do
        if line ~= "" and #line + #word + 1 > width then
            lines[#lines + 1] = line
            line = ""
        end
        line = line == "" and word or line .. " " .. word
    end
    lines[#lines + 1] = line
    return lines
end

-- Definition of the floats, several a line: "float s0, s1, ...;"
function M.declare(names)
    local words = { "float" }
    for i, name in ipairs(names) do
        words[#words + 1] = name .. (i < #names and "," or ";")
    end
    return table.concat(fill(words, WIDTH), "\n    ")
end

-- Operands of an asm statement: each distinct (constraint, expression) once.
local function operand_list()
    local list = { out = {}, input = {}, index = {}, count = 0 }
    function list.add(kind, constraint, expression)
        local key = constraint .. expression
        if not list.index[key] then
            list.index[key] = list.count
            list.count = list.count + 1
            local to = kind == "out" and list.out or list.input
            to[#to + 1] = string.format("\"%s\"(%s)", constraint, expression)
        end
        return "%" .. list.index[key]
    end
    return list
end

local function braces(words)
    return "{" .. table.concat(words, ", ") .. "}"
end

-- Text lines of asm strings: long instructions are broken behind commas.
local function quote(instructions)
    local out = {}
    for _, text in ipairs(instructions) do
        local words = {}
        for word in string.gmatch(text, "%S+") do
            words[#words + 1] = word
        end
        local pieces = fill(words, WIDTH)
        for i, piece in ipairs(pieces) do
            out[#out + 1] = string.format("\"%s%s\"", piece, i < #pieces and " " or "\\n\\t")
        end
    end
    return out
end

local function clause(mark, list, width)
    local words = {}
    for i, text in ipairs(list) do
        words[i] = text .. (i < #list and "," or "")
    end
    local lines = #words > 0 and fill(words, width or WIDTH) or { "" }
    return mark .. " " .. table.concat(lines, "\n    ")
end

-- An operand in shared memory: a descriptor `{ variable, offset }`, offset in 16-byte units.
-- Appends what computes it into `register` and returns its name.
local function described(list, lines, operand, register)
    local base = list.add("in", "l", operand[1])
    if operand[2] == 0 then
        return base
    end
    lines[#lines + 1] = string.format("add.s64 %s, %s, %d;", register, base, operand[2])
    return register
end

-- One asm statement that issues wgmmas on one accumulator:
--
--     dtype   "bf16" or "fp16"
--     acc     names of the accumulator's registers, N/2 of them
--     fresh   true: the first step begins a new sum; false: all add; or a C expression that
--             is 0 when it begins
--     steps   { a = , b = } each: a four registers' names or { descriptor, offset },
--             b = { descriptor, offset }
--     trans_b B is MN-major
--     fence, commit   wgmma.fence before, commit_group behind
function M.batch(t)
    local list = operand_list()
    local acc = {}
    for i, name in ipairs(t.acc) do
        acc[i] = list.add("out", t.fresh == true and "=f" or "+f", name)
    end
    local type = TYPE[t.dtype] or fail("wgmma: no operand type for dtype %s", t.dtype)
    local lines = { "{", ".reg .b64 left, right;" }
    local scale = t.fresh == true and "0" or "1"
    if t.fresh and t.fresh ~= true then
        lines[#lines + 1] = ".reg .pred add;"
        lines[#lines + 1] = "setp.ne.u32 add, " .. list.add("in", "r", t.fresh) .. ", 0;"
        scale = "add"
    end
    if t.fence then
        lines[#lines + 1] = "wgmma.fence.sync.aligned;"
    end
    for _, step in ipairs(t.steps) do
        local from_registers = #step.a == 4
        local a = from_registers and {} or described(list, lines, step.a, "left")
        if from_registers then
            for i, name in ipairs(step.a) do
                a[i] = list.add("in", "r", name)
            end
            a = braces(a)
        end
        local b = described(list, lines, step.b, "right")
        lines[#lines + 1] = string.format(
            "wgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s %s, %s, %s, %s, 1, 1%s, %d;",
            2 * #t.acc, type, type, braces(acc), a, b, scale, from_registers and "" or ", 0",
            t.trans_b and 1 or 0)
        scale = "1"
    end
    if t.commit then
        lines[#lines + 1] = "wgmma.commit_group.sync.aligned;"
    end
    lines[#lines + 1] = "}"
    local text = quote(lines)
    text[#text] = string.gsub(text[#text], "\\n\\t\"$", "\"")
    return "asm volatile(\n    " .. table.concat(text, "\n    ") .. "\n    "
        .. clause(":", list.out) .. "\n    " .. clause(":", list.input) .. "\n    : \"memory\");"
end

-- One asm statement that waits until at most `pending` of the youngest groups are in flight,
-- after which the accumulator's registers may be used.  width: of its lines where it stands deep.
function M.wait(acc, pending, width)
    local list = operand_list()
    for _, name in ipairs(acc) do
        list.add("out", "+f", name)
    end
    return string.format("asm volatile(\"wgmma.wait_group.sync.aligned %d;\"\n    ", pending)
        .. clause(":", list.out, width) .. "\n    :\n    : \"memory\");"
end

return M
