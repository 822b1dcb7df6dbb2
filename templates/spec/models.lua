-- SPDX-License-Identifier: Apache-2.0
-- models.lua: the table of all built-in models (`mlagen list --models`), as Markdown.
--
-- A row is a spec: its attention, what a token costs in the cache per layer, how many
-- kernels one architecture gets, and, where results of `run-check --json` are at hand,
-- the largest error that they show, as a share of what each case tolerates.

local M = {}

-- Bytes of an element of the cache, by kv_cache.dtype.
local BYTES = { bf16 = 2, fp16 = 2 }

-- The plans of a spec for the first of its architectures: all have the same kernels,
-- but for the tiles.
local function plans_of(kernels, spec, archs)
    local one = {}
    for _, key in ipairs(keys(spec)) do
        one[key] = spec[key]
    end
    one.arch = { spec.arch[1] }
    return kernels(one, archs)
end

-- 10000, 8e7, 3.2e7: an exponent without its sign and zeros.
local function short(x)
    local text = string.format("%.6g", x)
    return (string.gsub(text, "e%+0*", "e"))
end

-- How the rotary part is rotated and stretched, in a few words.
local function rope_text(spec)
    local scaling = spec.rope.scaling
    if spec.qk_rope_head_dim == 0 then
        return "none"
    elseif spec.rope.style == "none" then
        return "stored, not rotated"
    elseif scaling == null then
        return string.format("%s, %s", spec.rope.style, short(spec.rope.theta))
    end
    local factor = scaling.factor ~= null and " " .. short(scaling.factor) or ""
    return string.format("%s, %s, %s%s", spec.rope.style, short(spec.rope.theta), scaling.type, factor)
end

-- The factors beside softmax scale and rope, or "-": most models have none.
local function factor_text(spec)
    local list = {}
    local d = spec.derived
    if d.q_lora_scale ~= 1 then
        list[#list + 1] = string.format("q %.4g", d.q_lora_scale)
    end
    if d.kv_lora_scale ~= 1 then
        list[#list + 1] = string.format("latent %.4g", d.kv_lora_scale)
    end
    if spec.q_position_scale ~= null then
        list[#list + 1] = string.format("q by position, %g", spec.q_position_scale.beta)
    end
    return #list > 0 and table.concat(list, ", ") or "-"
end

-- The rows of all runs whose kernels are this model's, told by the middle of their
-- symbols: mla_<family>_<ident>_<dtype>_h<heads>_...
local function rows_of(spec, results)
    local name = "_" .. spec.derived.ident .. "_" .. spec.dtype .. "_h"
    local list = {}
    for _, run in ipairs(results) do
        for _, row in ipairs(run.rows) do
            if string.find(row.kernel, name, 1, true) then
                list[#list + 1] = row
            end
        end
    end
    return list
end

-- { groups, failed, of_bar, kernel } over those rows, or nil without any.
local function worst(spec, results)
    local rows = rows_of(spec, results)
    if #rows == 0 then
        return nil
    end
    local out = { groups = #rows, failed = 0, of_bar = 0.0, kernel = "" }
    for _, row in ipairs(rows) do
        if not row.pass then
            out.failed = out.failed + 1
        end
        if row.of_bar > out.of_bar then
            out.of_bar, out.kernel = row.of_bar, row.kernel
        end
    end
    return out
end

-- A failure goes before any figure: an error beyond the bar is not a share of it.
local function worst_text(w)
    if w == nil then
        return "-"
    elseif w.failed > 0 then
        return string.format("%d of %d groups FAIL", w.failed, w.groups)
    end
    return string.format("%.2f of the bar", w.of_bar)
end

-- The families of the plans, each once, in the order of planning.
local function counted(plans)
    local families, seen = {}, {}
    for _, plan in ipairs(plans) do
        if not seen[plan.family] then
            seen[plan.family] = true
            families[#families + 1] = plan.family
        end
    end
    return families
end

-- What the table and the JSON say of one model.
local function entry(kernels, spec, archs, results)
    local plans = plans_of(kernels, spec, archs)
    return {
        model = spec.model,
        heads = spec.heads,
        local_heads = spec.derived.local_heads,
        q_lora_rank = spec.q_lora_rank,
        kv_lora_rank = spec.kv_lora_rank,
        qk_nope_head_dim = spec.qk_nope_head_dim,
        qk_rope_head_dim = spec.qk_rope_head_dim,
        v_head_dim = spec.v_head_dim,
        rope = rope_text(spec),
        factors = factor_text(spec),
        softmax_scale = spec.derived.softmax_scale,
        cache_bytes = spec.derived.row * BYTES[spec.kv_cache.dtype],
        kernels = #plans,
        families = counted(plans),
        worst = worst(spec, results) or null,
    }
end

-- Columns: title, right-aligned, text of an entry.
local COLUMNS = {
    { "model", false, function(e) return e.model end },
    { "heads", true, function(e) return tostring(e.heads) end },
    { "local heads", false, function(e)
        local list = {}
        for i, h in ipairs(e.local_heads) do
            list[i] = tostring(h)
        end
        return table.concat(list, " ")
    end },
    { "q rank", true, function(e) return e.q_lora_rank == null and "-" or tostring(e.q_lora_rank) end },
    { "latent", true, function(e) return tostring(e.kv_lora_rank) end },
    { "nope", true, function(e) return tostring(e.qk_nope_head_dim) end },
    { "rope", true, function(e) return tostring(e.qk_rope_head_dim) end },
    { "v", true, function(e) return tostring(e.v_head_dim) end },
    { "rotation", false, function(e) return e.rope end },
    { "factors", false, function(e) return e.factors end },
    { "softmax scale", true, function(e) return string.format("%.6f", e.softmax_scale) end },
    { "cache B", true, function(e) return tostring(e.cache_bytes) end },
    { "kernels", true, function(e) return tostring(e.kernels) end },
}
-- Only there with results.
local WORST = { "worst error", false, function(e)
    return worst_text(e.worst ~= null and e.worst or nil)
end }

-- A Markdown table: titles, rules with the alignment, a line per entry.
local function table_lines(add, columns, entries)
    local function line(cells)
        add("| " .. table.concat(cells, " | ") .. " |")
    end
    local titles, rules = {}, {}
    for i, c in ipairs(columns) do
        titles[i], rules[i] = c[1], c[2] and "--:" or "---"
    end
    line(titles)
    line(rules)
    for _, e in ipairs(entries) do
        local cells = {}
        for i, c in ipairs(columns) do
            cells[i] = c[3](e)
        end
        line(cells)
    end
end

-- Lists of families are short; order is theirs.
local function includes(list, name)
    for _, item in ipairs(list) do
        if item == name then
            return true
        end
    end
    return false
end

-- Which kernels those are: every family, and the models that have none of it.
local function family_lines(add, names, entries)
    for _, name in ipairs(names) do
        local without = {}
        for _, e in ipairs(entries) do
            if not includes(e.families, name) then
                without[#without + 1] = e.model
            end
        end
        add("* `" .. name .. "`" .. (#without > 0 and ", not for " .. table.concat(without, ", ") or ""))
    end
end

-- models(kernels, families, specs, archs, results) -> { lines, data }.  `kernels` plans a
-- spec, `families` are the names of all, `specs` canonical, `results` the objects that
-- run-check --json has printed (an empty list: no column of errors).
function M.models(kernels, families, specs, archs, results)
    local entries, lines = {}, {}
    for i, spec in ipairs(specs) do
        entries[i] = entry(kernels, spec, archs, results)
    end
    local function add(text)
        lines[#lines + 1] = text
    end
    local columns = {}
    for i, c in ipairs(COLUMNS) do
        columns[i] = c
    end
    if #results > 0 then
        columns[#columns + 1] = WORST
    end
    table_lines(add, columns, entries)
    add("")
    family_lines(add, families, entries)
    return { lines = lines, data = { models = entries } }
end

return M
