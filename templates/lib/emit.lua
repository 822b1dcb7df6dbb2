-- SPDX-License-Identifier: Apache-2.0
-- emit.lua: the parts of an emitted file that do not depend on its family.
--
-- Every kernel/*.cu.tpl has the same skeleton:
--
--     ${emit.head(plan, meta, "what the kernel does, one sentence")}
--     ${emit.open(plan)}
--     ... include("frag/...") for what it uses
--     ${args.kernel_struct(plan.args)}
--     ${emit.signature(plan)}
--     {
--         ...
--     }
--     ${include("host/launcher.tpl", {plan = plan})}
--     ${emit.close(plan)}
--
-- The emitted text belongs to whoever generated it.  It carries the Zero-Clause
-- BSD licence, the freest wording with an SPDX name: use without attribution.

local M = {}

M.WIDTH = 100

-- Breaks text at blanks into lines of at most `width` columns, each behind
-- `prefix` (the first one behind `first`, when given).
function M.wrap(text, width, prefix, first)
    local lines = {}
    local line = first or prefix
    local empty = true
    for word in string.gmatch(text, "%S+") do
        if not empty and #line + 1 + #word > width then
            lines[#lines + 1] = line
            line, empty = prefix, true
        end
        line = line .. (empty and "" or " ") .. word
        empty = false
    end
    lines[#lines + 1] = line
    return lines
end

-- What the file is under, and what it was made from: the same in every file.
-- `spdx` is the first line's comment marker and name.
function M.provenance(meta)
    local overrides = #meta.overrides > 0 and table.concat(meta.overrides, " ") or "none"
    return {
        { "generator", meta.generator },
        { "spec", "sha256 " .. meta.spec_sha256 },
        { "templates", "sha256 " .. meta.templates_sha256 },
        { "overrides", overrides },
        { "command", meta.command },
    }
end

M.LICENCE = {
    "Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any",
    "purpose with or without fee is hereby granted.  It is provided \"as is\", without warranty",
    "of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.",
}

-- Rows of a two-column comment block: name, padded, then wrapped text.
function M.block(pairs_list, width, marker, name_width)
    local lines = {}
    for _, pair in ipairs(pairs_list) do
        local first = marker .. pair[1] .. string.rep(" ", name_width - #pair[1] + 2)
        local prefix = marker .. string.rep(" ", name_width + 2)
        for _, line in ipairs(M.wrap(pair[2], width, prefix, first)) do
            lines[#lines + 1] = line
        end
    end
    return lines
end

local function append(to, lines)
    for _, line in ipairs(lines) do
        to[#to + 1] = line
    end
end

-- The head of a .cu file: licence, purpose, provenance, cost block.
function M.head(plan, meta, purpose)
    local lines = { "// SPDX-License-Identifier: 0BSD" }
    for _, line in ipairs(M.LICENCE) do
        lines[#lines + 1] = "// " .. line
    end
    lines[#lines + 1] = "//"
    append(lines, M.wrap(purpose, M.WIDTH, "// "))
    lines[#lines + 1] = "//"
    append(lines, M.block(M.provenance(meta), M.WIDTH, "// ", 9))
    lines[#lines + 1] = "//"
    append(lines, M.block(plan.cost, M.WIDTH, "// ", 9))
    return table.concat(lines, "\n")
end

-- Everything lives in a namespace of its own, so that any number of emitted
-- files can be pasted into one translation unit.
function M.open(plan)
    return "namespace " .. plan.symbol .. "_ns {"
end

function M.close(plan)
    return "} // namespace " .. plan.symbol .. "_ns"
end

-- "base + 3 * step + 64", without the terms that are zero and the factor 1.
function M.at(base, n, step, offset)
    local out = base
    if n == 1 then
        out = out .. " + " .. step
    elseif n > 1 then
        out = string.format("%s + %d * %s", out, n, step)
    end
    if offset and offset > 0 then
        out = string.format("%s + %d", out, offset)
    end
    return out
end

-- "x * 8u", "x / 8u" or "x % 8u", folded where n is 1.
function M.mul(x, n)
    return n == 1 and x or string.format("%s * %du", x, n)
end

function M.div(x, n)
    return n == 1 and x or string.format("%s / %du", x, n)
end

function M.mod(x, n)
    return n == 1 and "0u" or string.format("%s %% %du", x, n)
end

-- Terms joined by an operator, broken before it at WIDTH (two columns are left for a
-- closing bracket), continued at `indent`.
function M.join(first, terms, operator, indent)
    local text = first .. table.concat(terms, " " .. operator .. "\1")
    text = string.gsub(text, " " .. operator .. "\1", "\1" .. operator .. " ")
    local lines = {}
    local line
    for word in string.gmatch(text, "[^\1]+") do
        if line and #line + 3 + #word > M.WIDTH - indent then
            lines[#lines + 1] = line
            line = string.rep(" ", indent) .. word
        else
            line = line and line .. " " .. word or word
        end
    end
    lines[#lines + 1] = line
    return table.concat(lines, "\n")
end

function M.threads(plan)
    local b = plan.launch.block
    return b[1] * b[2] * b[3]
end

-- The parameters behind the argument struct.
local function map_parameters(plan)
    local out = ""
    for _, m in ipairs(plan.launch.tensor_maps or {}) do
        out = out .. ",\n    const __grid_constant__ mla_tensor_map " .. m.name
    end
    return out
end

-- The kernel's first lines.  Its parameters are `a` and the plan's tensor maps.  A plan with whole_sm states
-- that one block per SM is enough: without it ptxas saves registers for a second, and spills.
function M.signature(plan)
    local bounds = string.format("%d", M.threads(plan))
    if plan.launch.min_ctas > 1 or plan.launch.whole_sm then
        bounds = string.format("%s, %d", bounds, plan.launch.min_ctas)
    end
    local first = "extern \"C\" __global__ void __launch_bounds__(" .. bounds .. ")\n"
    local maps = map_parameters(plan)
    local call = string.format("%s(const %s a)", plan.symbol, plan.args.struct)
    if #call > M.WIDTH or maps ~= "" then
        call = string.format("%s(\n    const %s a%s)", plan.symbol, plan.args.struct, maps)
    end
    return first .. call
end

return M
