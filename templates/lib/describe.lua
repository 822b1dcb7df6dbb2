-- SPDX-License-Identifier: Apache-2.0
-- describe.lua: plans as text for people (verb `plan`).
--
--     merge_state latent, 16 heads: sm_80 sm_86 sm_89 sm_90 sm_100 sm_120
--       launch  128 threads, grid tokens x 1 x 1, no dynamic shared memory
--       tile    warp: 4 rows, 8 lanes each, 2 x 8 vectors per lane; ...
--
-- Architectures whose plans do not differ share an entry.

local emit = use("lib/emit")

local M = {}

local WIDTH = 100
local NAME_WIDTH = 9

local function factor(f)
    if f.const then
        return string.format("%d", f.const)
    end
    return f.per == 1 and f.arg or string.format("ceil(%s / %d)", f.arg, f.per)
end

-- The axis as a product, without the factors that are 1.
local function axis(a)
    local terms = {}
    for _, f in ipairs(a.factors) do
        if f.const ~= 1 then
            terms[#terms + 1] = factor(f)
        end
    end
    return #terms > 0 and table.concat(terms, " * ") or "1"
end

local function launch(plan)
    local l = plan.launch
    local axes = {}
    for i, a in ipairs(l.grid) do
        axes[i] = axis(a)
    end
    local smem = "no dynamic shared memory"
    if l.smem_dynamic > 0 then
        smem = string.format("%d bytes of dynamic shared memory", l.smem_dynamic)
    end
    local ctas = l.min_ctas > 1 and string.format(", %d blocks per SM", l.min_ctas) or ""
    local cluster = ""
    if l.cluster then
        cluster = string.format(" in clusters of %d", l.cluster.x * l.cluster.y * l.cluster.z)
    end
    local maps = l.tensor_maps and string.format(", %d tensor maps", #l.tensor_maps) or ""
    return string.format("%d threads%s, grid %s%s, %s%s", emit.threads(plan), ctas,
        table.concat(axes, " x "), cluster, smem, maps)
end

-- The entry without its architectures.
local function body(plan)
    local rows = { { "launch", launch(plan) } }
    for _, pair in ipairs(plan.cost) do
        rows[#rows + 1] = pair
    end
    return emit.block(rows, WIDTH, "  ", NAME_WIDTH)
end

local function title(plan)
    local variant = plan.variant ~= "" and " " .. plan.variant or ""
    local heads = string.format("%d head%s", plan.heads, plan.heads == 1 and "" or "s")
    return string.format("%s%s, %s, %s, pages of %d", plan.family, variant, plan.dtype, heads,
        plan.page_size)
end

-- describe(plans) -> { lines }.
function M.describe(plans)
    local entries, by_key = {}, {}
    for _, plan in ipairs(plans) do
        local text = body(plan)
        local key = title(plan) .. "\n" .. table.concat(text, "\n")
        if not by_key[key] then
            by_key[key] = { title = title(plan), body = text, archs = {} }
            entries[#entries + 1] = by_key[key]
        end
        local archs = by_key[key].archs
        archs[#archs + 1] = plan.arch
    end
    local lines = {}
    for _, e in ipairs(entries) do
        lines[#lines + 1] = e.title .. ": " .. table.concat(e.archs, " ")
        for _, line in ipairs(e.body) do
            lines[#lines + 1] = line
        end
    end
    return { lines = lines }
end

return M
