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

-- files(spec, plans, meta) -> array of { path, template, params }.
function M.files(spec, plans, meta)
    local shared = { spec = spec, plans = plans, meta = meta }
    local out = {
        { path = spec.model .. ".h", template = "host/header.h.tpl", params = shared },
        { path = spec.model .. ".c", template = "host/descriptor.c.tpl", params = shared },
    }
    for _, plan in ipairs(plans) do
        out[#out + 1] = {
            path = plan.source,
            template = template_of(plan),
            params = { plan = plan, spec = spec, meta = meta },
        }
    end
    return out
end

return M
