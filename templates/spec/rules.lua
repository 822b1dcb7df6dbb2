-- SPDX-License-Identifier: Apache-2.0
-- rules.lua: what a spec must satisfy beyond the schema, and what follows
-- from it.  The schema (specs/schema.yaml) knows one key at a time; every rule
-- that ties two keys together, or a key to the list of architectures, is here.

local rope = use("lib/rope")
local scale = use("spec/scale")

local M = {}

-- What the kernels are made and tested for (README.md).
local MAX_LOCAL_HEADS = 256
-- The widest row of the pool whose queries mqa_decode can hold in registers.
local MAX_ROW = 1152
-- The largest and the smallest normal number of float32.
local FLOAT32_MAX = 3.4028234663852886e38
local FLOAT32_MIN = 1.1754943508222875e-38

-- A collector of {path, message} pairs.  A path is keys and indices from 1, and gen
-- turns it into the line and column of the spec.
local function reports()
    local list = {}
    local function add(path, fmt, ...)
        list[#list + 1] = { path = path, message = string.format(fmt, ...) }
    end
    return list, add
end

-- Tensor parallelism gives every rank whole heads.
local function check_heads(spec, err)
    for i, tp in ipairs(spec.tp) do
        if spec.heads % tp ~= 0 then
            err({ "tp", i }, "tp %d does not divide heads %d", tp, spec.heads)
        elseif spec.heads // tp > MAX_LOCAL_HEADS then
            err({ "tp", i }, "tp %d leaves %d local heads; at most %d are supported",
                tp, spec.heads // tp, MAX_LOCAL_HEADS)
        end
    end
end

-- beta_fast and beta_slow bound the ramp between scaled and unscaled frequencies.
local function check_yarn(scaling, err)
    local path = { "rope", "scaling" }
    if scaling.factor == null then
        err(path, "yarn needs 'factor'")
    end
    if scaling.original_max_position_embeddings == null then
        err(path, "yarn needs 'original_max_position_embeddings'")
    end
    if scaling.beta_fast < scaling.beta_slow then
        err({ "rope", "scaling", "beta_fast" }, "beta_fast %g is below beta_slow %g",
            scaling.beta_fast, scaling.beta_slow)
    end
end

-- A factor divides the frequency of one pair of dims.  None at all is allowed: then the
-- caller brings the table of angles.
local function check_longrope(spec, scaling, err)
    local pairs_of_dims = spec.qk_rope_head_dim // 2
    for _, key in ipairs({ "short_factor", "long_factor" }) do
        local list = scaling[key]
        if list ~= null and #list ~= pairs_of_dims then
            err({ "rope", "scaling", key }, "%d factors given; qk_rope_head_dim %d needs %d",
                #list, spec.qk_rope_head_dim, pairs_of_dims)
        end
    end
    if (scaling.short_factor == null) ~= (scaling.long_factor == null) then
        err({ "rope", "scaling" }, "longrope needs short_factor and long_factor together, or neither")
    end
end

-- What the type of scaling needs beyond what the schema can ask of all types.
local function check_rope(spec, err)
    local rope = spec.rope
    if spec.qk_rope_head_dim == 0 and rope.style ~= "none" then
        err({ "rope", "style" }, "qk_rope_head_dim is 0, so the style must be none, not %s", rope.style)
    end
    if rope.scaling == null then
        return
    end
    if rope.style == "none" then
        err({ "rope", "scaling" }, "style none rotates nothing, so there is nothing to scale")
    elseif rope.scaling.type == "yarn" then
        check_yarn(rope.scaling, err)
    elseif rope.scaling.type == "longrope" then
        check_longrope(spec, rope.scaling, err)
    elseif rope.scaling.factor == null then
        err({ "rope", "scaling" }, "linear needs 'factor'")
    end
end

-- The pool's row.  `auto` becomes the spec's dtype here, so that everything after this
-- sees a type.
local function check_cache(spec, err)
    local row = spec.kv_lora_rank + spec.qk_rope_head_dim
    if row > MAX_ROW then
        err({ "qk_rope_head_dim" }, "a row of %d (kv_lora_rank %d + qk_rope_head_dim %d) is wider than %d; "
            .. "at most %d here", row, spec.kv_lora_rank, spec.qk_rope_head_dim, MAX_ROW,
            MAX_ROW - spec.kv_lora_rank)
    end
    local dtype = spec.kv_cache.dtype
    if dtype == "auto" then
        spec.kv_cache.dtype = spec.dtype
    elseif dtype ~= spec.dtype then
        err({ "kv_cache", "dtype" },
            "a %s cache under dtype %s is not supported; allowed: auto, %s", dtype, spec.dtype, spec.dtype)
    end
end

-- "sm_90", "9.0", "90a", "sm_90a+PTX" ... -> the nearest name we would know, as part of
-- a message; "" if there is none.
local function suggest(name, known)
    local digits = string.gsub(string.lower(name), "[^0-9a-z]", "")
    digits = string.gsub(digits, "^sm", "")
    digits = string.gsub(digits, "ptx$", "")
    digits = string.gsub(digits, "^compute", "")
    local plain = string.gsub(digits, "[af]$", "")
    for _, arch in ipairs(known) do
        if arch == "sm_" .. digits or arch == "sm_" .. plain then
            return string.format(" (did you mean %s?)", arch)
        end
    end
    return ""
end

-- An architecture's number, so that lists sort as sm_80, sm_90, sm_90a, sm_100.
local function number_of(name)
    return tonumber(string.match(name, "^sm_(%d+)")) or 0
end

-- All names of the architecture table, by generation.
function M.arch_names(archs)
    local names = keys(archs)
    table.sort(names, function(a, b)
        local x, y = number_of(a), number_of(b)
        return x < y or (x == y and a < b)
    end)
    return names
end

-- Names only: whether a kernel fits an architecture's limits is the plans' to say.
local function check_arch(spec, archs, err)
    local known = M.arch_names(archs)
    for i, name in ipairs(spec.arch) do
        if archs[name] == nil then
            err({ "arch", i }, "unknown architecture '%s'%s; supported: %s",
                name, suggest(name, known), table.concat(known, ", "))
        end
    end
end

-- Judged as the float that kernels take: 1e-50 is positive as a double, and 0 there.
local function check_scale(spec, err)
    local s = spec.softmax_scale
    if s ~= "auto" and (s < FLOAT32_MIN or s > FLOAT32_MAX) then
        err({ "softmax_scale" }, "%g is not a positive normal number in float32", s)
    end
end

-- A factor needs what it acts on.
local function check_factors(spec, err)
    if spec.q_lora_scale ~= null and spec.q_lora_rank == null then
        err({ "q_lora_scale" }, "q_lora_scale acts on the compressed q, and q_lora_rank is null")
    end
    if spec.q_position_scale ~= null and spec.rope.style == "none" then
        err({ "q_position_scale" }, "q_position_scale needs positions, and rope.style none has none")
    end
end

-- What has a meaning in the specialised schedule of mqa_decode alone, with its default.
local SPECIALISED = {
    { key = "first_steps", default = 1 }, { key = "early_scores", default = true },
    { key = "p_buffers", default = 1 }, { key = "cluster", default = true },
}

local function check_schedule(spec, err)
    local hopper = spec.decode.hopper
    if hopper.schedule ~= "alternating" then
        return
    end
    for _, option in ipairs(SPECIALISED) do
        if hopper[option.key] ~= option.default then
            err({ "decode", "hopper", option.key }, "%s is of schedule specialised; schedule alternating "
                .. "has none, so leave it at %s", option.key, tostring(option.default))
        end
    end
end

-- C identifiers allow neither '-' nor '.'.
local function identifier(name)
    return (string.gsub(string.lower(name), "[^a-z0-9]", "_"))
end

-- The neutral factor for one that is not given.
local function or_one(x)
    return x == null and 1.0 or x
end

-- What every plan and template would otherwise compute for itself: one identifier, the
-- local head counts in the order of tp, the width of a row, factors as numbers, angles.
local function derive(spec)
    local heads = {}
    local seen = {}
    for _, tp in ipairs(spec.tp) do
        local h = spec.heads // tp
        if not seen[h] then
            seen[h] = true
            heads[#heads + 1] = h
        end
    end
    return {
        ident = identifier(spec.model),
        local_heads = heads,
        row = spec.kv_lora_rank + spec.qk_rope_head_dim,
        softmax_scale = scale.softmax_scale(spec),
        q_lora_scale = or_one(spec.q_lora_scale),
        kv_lora_scale = or_one(spec.kv_lora_scale),
        rope = rope.angles(spec) or null,
    }
end

-- check(spec, archs) -> { spec, errors, warnings }.  `spec` is the table that
-- passed the schema, defaults filled in; it comes back canonical, with `derived`
-- added when there is no error.
function M.check(spec, archs)
    local errors, err = reports()
    local warnings, warn = reports()
    check_heads(spec, err)
    check_rope(spec, err)
    check_cache(spec, err)
    check_arch(spec, archs, err)
    check_scale(spec, err)
    check_factors(spec, err)
    check_schedule(spec, err)
    local scaling = spec.rope.scaling
    if scaling ~= null and scaling.type == "longrope" and scaling.short_factor == null then
        warn({ "rope", "scaling" }, "no longrope factors: the caller must supply the cos/sin table")
    end
    if #errors == 0 then
        spec.derived = derive(spec)
    end
    return { spec = spec, errors = errors, warnings = warnings }
end

return M
