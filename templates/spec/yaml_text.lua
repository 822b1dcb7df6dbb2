-- SPDX-License-Identifier: Apache-2.0
-- yaml_text.lua: the text of an imported spec, in the order in which a person
-- reads one: the model, its widths, its positions, what is generated.

local M = {}

-- A number as YAML: integers plain, floats with the fewest digits that read back as the
-- same double.  From 1e15 on, exponents.
local function number(x)
    if math.type(x) == "integer" then
        return string.format("%d", x)
    end
    if x == math.floor(x) and math.abs(x) < 1e15 then
        return string.format("%d", math.tointeger(x))
    end
    for digits = 1, 17 do
        local s = string.format("%." .. digits .. "g", x)
        if tonumber(s) == x then
            return s
        end
    end
end

local function scalar(x)
    if type(x) == "number" then
        return number(x)
    end
    return tostring(x)
end

-- A flow list on one line: factors of longrope are dozens of numbers.
local function list(values)
    local out = {}
    for i, v in ipairs(values) do
        out[i] = scalar(v)
    end
    return "[" .. table.concat(out, ", ") .. "]"
end

-- The order of schema.yaml; the type first, as the others depend on it.
local SCALING_ORDER = {
    "type", "factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "mscale",
    "mscale_all_dim", "attention_factor", "apply_scale", "short_factor", "long_factor",
}

-- What the style needs and no more: without rotation there is neither theta nor
-- scaling.
local function rope_lines(add, spec)
    add("rope:")
    add("  style: " .. spec.rope_style)
    if spec.rope_theta then
        add("  theta: " .. scalar(spec.rope_theta))
    end
    if not spec.rope_scaling then
        return
    end
    add("  scaling:")
    for _, key in ipairs(SCALING_ORDER) do
        local value = spec.rope_scaling[key]
        if type(value) == "table" then
            add("    " .. key .. ": " .. list(value))
        elseif value ~= nil then
            add("    " .. key .. ": " .. scalar(value))
        end
    end
end

-- Factors of q and the latent, where the model has them.
local function factor_lines(add, spec)
    for _, key in ipairs({ "q_lora_scale", "kv_lora_scale" }) do
        if spec[key] then
            add(key .. ": " .. scalar(spec[key]))
        end
    end
    local p = spec.q_position_scale
    if p then
        add("q_position_scale:")
        add("  beta: " .. scalar(p.beta))
        add("  original_max_position_embeddings: " .. scalar(p.original))
    end
end

-- From what the model is to what a row is.
local WIDTHS = {
    "heads", "tp", "layers", "hidden_size", "max_position", "q_lora_rank", "kv_lora_rank",
    "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "rms_norm_eps",
}

-- A key that is not known is left out, for the schema's default; only q_lora_rank is
-- written as null, since its absence is a statement about the model.
local function width_lines(add, spec)
    for _, key in ipairs(WIDTHS) do
        local value = spec[key]
        if key == "q_lora_rank" and value == nil then
            add("q_lora_rank: null")
        elseif type(value) == "table" then
            add(key .. ": " .. list(value))
        elseif value ~= nil then
            add(key .. ": " .. scalar(value))
        end
    end
end

-- spec_text(spec, source, beyond, notes): the file.  `beyond` and `notes` become
-- comments at its head.  What no config says (page size, q_len, LSE, architectures) is
-- written out: it is what a reader will want to change.
function M.spec_text(spec, source, beyond, notes)
    local lines = {}
    local function add(line)
        lines[#lines + 1] = line
    end
    add("# Imported from the config.json of " .. source .. ".")
    for _, f in ipairs(beyond) do
        add("# Beyond dense MLA, left to the engine: " .. f .. ".")
    end
    for _, n in ipairs(notes) do
        add("# Note: " .. n .. ".")
    end
    add("model: " .. spec.model)
    width_lines(add, spec)
    rope_lines(add, spec)
    factor_lines(add, spec)
    add("dtype: " .. spec.dtype)
    add("kv_cache: {page_size: 64}")
    add("decode: {max_q_len: 4}")
    add("lse: {base: e, empty: -inf}")
    add("arch: [sm_80, sm_86, sm_89, sm_90a, sm_100, sm_120]")
    return table.concat(lines, "\n") .. "\n"
end

return M
