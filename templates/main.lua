-- SPDX-License-Identifier: Apache-2.0
-- main.lua: the doors between the generator (C) and everything that knows
-- MLA.  The generator calls these functions by name, with plain tables, and
-- knows nothing else about what is under templates/.
--
--   check(spec, archs)       cross-field rules; canonical spec with `derived`
--   import(config, options)  Hugging Face config.json -> spec text
--   analyse(spec)            cache sizes and multiply-adds of both paths
--   kernels(spec, archs)     every plan, in a fixed order
--   describe(plans)          the plans as a table for people
--   files(spec, plans, meta) which text to render from which template
--   tables(spec, plans, meta)  the texts that are about all kernels
--   source(spec, plan, meta)   the text of one kernel
--   roofline(spec, archs, plans, request)  what bounds each kernel, as a drawing
--   inventory()              what `mlagen list` shows beside specs and archs
--   models(specs, archs, results)  the table of `mlagen list --models`
--
-- All of them are pure: same tables in, same tables out.

local families = use("families")
local files = use("lib/files")

-- One architecture's limits, with its name beside them.
local function named(archs, name)
    local out = { name = name }
    for _, key in ipairs(keys(archs[name])) do
        out[key] = archs[name][key]
    end
    return out
end

local function kernels(spec, archs)
    local plans = {}
    local seen = {}
    for _, arch_name in ipairs(spec.arch) do
        local arch = named(archs, arch_name)
        for i, heads in ipairs(spec.derived.local_heads) do
            for _, family in ipairs(families) do
                local all = i == 1 or not family.once
                for _, plan in ipairs(all and use(family.plan).plans(spec, arch, heads) or {}) do
                    assert(not seen[plan.symbol], "symbol " .. plan.symbol .. " planned twice")
                    seen[plan.symbol] = true
                    plans[#plans + 1] = plan
                end
            end
        end
    end
    return plans
end

local function rendered(file)
    return include(file.template, file.params) .. "\n"
end

local function source(spec, plan, meta)
    return rendered(files.source(spec, plan, meta))
end

local function tables(spec, plans, meta)
    local texts = {}
    for i, file in ipairs(files.tables(spec, plans, meta)) do
        texts[i] = { path = file.path, text = rendered(file) }
    end
    return texts
end

local function family_names()
    local names, seen = {}, {}
    for _, family in ipairs(families) do
        if not seen[family.family] then
            seen[family.family] = true
            names[#names + 1] = family.family
        end
    end
    return names
end

local function inventory()
    return { families = family_names(), dtypes = { "bf16", "fp16" } }
end

local function models(specs, archs, results)
    return use("spec/models").models(kernels, family_names(), specs, archs, results)
end

return {
    check = use("spec/rules").check,
    import = use("spec/import").import,
    analyse = use("spec/analysis").analyse,
    kernels = kernels,
    describe = use("lib/describe").describe,
    files = files.files,
    tables = tables,
    source = source,
    roofline = function(...)
        return use("spec/roofline").roofline(...)
    end,
    inventory = inventory,
    models = models,
}
