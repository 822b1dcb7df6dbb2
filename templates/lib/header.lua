-- SPDX-License-Identifier: Apache-2.0
-- header.lua: what the C header and the descriptor table are made of.

local args = use("lib/args")
local emit = use("lib/emit")

local M = {}

-- deepseek_v3 -> DEEPSEEK_V3
function M.upper(spec)
    return string.upper(spec.derived.ident)
end

-- The structs of all plans, each once, in order of appearance.
function M.structs(plans)
    local seen, out = {}, {}
    for _, plan in ipairs(plans) do
        if not seen[plan.args.struct] then
            seen[plan.args.struct] = true
            out[#out + 1] = { args = plan.args, family = plan.family }
        end
    end
    return out
end

-- The head of the header or the descriptor, as a C comment.
function M.head(meta, purpose)
    local lines = { "/* SPDX-License-Identifier: 0BSD" }
    for _, line in ipairs(emit.LICENCE) do
        lines[#lines + 1] = " * " .. line
    end
    lines[#lines + 1] = " *"
    for _, line in ipairs(emit.wrap(purpose, emit.WIDTH, " * ")) do
        lines[#lines + 1] = line
    end
    lines[#lines + 1] = " *"
    for _, line in ipairs(emit.block(emit.provenance(meta), emit.WIDTH, " * ", 9)) do
        lines[#lines + 1] = line
    end
    lines[#lines + 1] = " */"
    return table.concat(lines, "\n")
end

-- One struct with a comment above every field: what, and what a caller must keep.
function M.struct(a)
    local lines = { "struct " .. a.struct .. " {" }
    for _, f in ipairs(a.fields) do
        local rule = args.rule(f)
        local type_name = f.type == "ptr" and f.elem ~= "byte" and f.elem .. " " or ""
        local doc = type_name .. f.doc .. (rule ~= "" and " (" .. rule .. ")" or "")
        local comment = emit.wrap(doc, emit.WIDTH - 3, "     * ", "    /* ")
        comment[#comment] = comment[#comment] .. " */"
        for _, line in ipairs(comment) do
            lines[#lines + 1] = line
        end
        lines[#lines + 1] = "    " .. args.header_declaration(f)
    end
    lines[#lines + 1] = "};"
    return table.concat(lines, "\n")
end

-- A double that C reads back within 1e-15.
function M.number(x)
    local text = string.format("%.15g", x)
    return string.find(text, "[.eE]") and text or text .. ".0"
end

-- Numbers as the body of an initialiser, `per_line` in a line.
function M.numbers(list, per_line)
    local lines = {}
    for i = 1, #list, per_line do
        local row = {}
        for j = i, math.min(i + per_line - 1, #list) do
            row[#row + 1] = M.number(list[j])
        end
        lines[#lines + 1] = table.concat(row, ", ") .. ","
    end
    return table.concat(lines, "\n")
end

local function factors_of(list, struct)
    local factors = {}
    for _, f in ipairs(list) do
        if f.arg then
            factors[#factors + 1] = string.format("{MLA_AT(%s, %s), %d}", struct, f.arg, f.per or 1)
        else
            factors[#factors + 1] = string.format("{-1, %d}", f.const)
        end
    end
    return table.concat(factors, ",\n  ")
end

-- The initialiser of a launch axis, a factor a line where there are several.
function M.axis(axis, struct)
    return string.format("{{%s}, %d, %d}", factors_of(axis.factors, struct), #axis.factors, axis.max)
end

-- The initialiser of a tensor map's sizes or strides, a line each.
function M.products(list, struct)
    local out = {}
    for i, factors in ipairs(list) do
        out[i] = string.format("{{%s}, %d}", factors_of(factors, struct), #factors)
    end
    return #out > 0 and table.concat(out, ",\n") or "{{{-1, 0}}, 0}"
end

return M
