-- SPDX-License-Identifier: Apache-2.0
-- files.lua: which files a spec becomes, and which template renders each.
--
--     <ident>.h    structs, descriptor and launcher declarations (C99, C++)
--     <ident>.c    descriptor table, cos/sin table (C99)
--     src/*.cu     one kernel each
--
-- The manifest is written by the generator itself.

local families = use("families")

local M = {}

local function has(list, wanted)
    for _, item in ipairs(list) do
        if item == wanted then
            return true
        end
    end
    return false
end

-- The family's template, unless the plan names one.
local function template_of(plan)
    for _, f in ipairs(families) do
        if f.family == plan.family and has(f.variants, plan.variant) then
            return plan.template or f.template
        end
    end
    error("variant '" .. plan.variant .. "' of " .. plan.family .. " is not in families.lua")
end

-- tables(spec, plans, meta) -> the files that are about all kernels, as { path, template, params }.
function M.tables(spec, plans, meta)
    local shared = { spec = spec, plans = plans, meta = meta }
    return {
        { path = spec.model .. ".h", template = "host/header.h.tpl", params = shared },
        { path = spec.model .. ".c", template = "host/descriptor.c.tpl", params = shared },
    }
end

-- source(spec, plan, meta) -> the file of one kernel.  Its template sees a plan without arch: what
-- differs between architectures is said by the plan's other fields, so that plans which are equal
-- in those have one text but for the symbol, and are rendered once.
function M.source(spec, plan, meta)
    local seen = {}
    for _, key in ipairs(keys(plan)) do
        seen[key] = plan[key]
    end
    seen.arch = nil
    return {
        path = plan.source,
        template = template_of(plan),
        params = { plan = seen, spec = spec, meta = meta },
    }
end

-- files(spec, plans, meta) -> all of them.
function M.files(spec, plans, meta)
    local out = M.tables(spec, plans, meta)
    for _, plan in ipairs(plans) do
        out[#out + 1] = M.source(spec, plan, meta)
    end
    return out
end

return M
