-- SPDX-License-Identifier: Apache-2.0
-- import.lua: a Hugging Face config.json becomes a spec.
--
-- Models name the same thing differently (num_attention_heads or n_heads), nest
-- it (text_config), or leave it to the defaults of a class.  The tables below
-- hold the variants; what a config does not say is either the default of its
-- model_type, or an assumption that is written into the spec as a comment and
-- reported as a warning.

local features = use("spec/features")
local yaml = use("spec/yaml_text")

local M = {}

-- Models that see or hear nest the language model under one of these.
local NESTS = { "text_config", "language_config", "llm_config" }

-- spec key -> config keys, first match wins.
local NAMES = {
    heads = { "num_attention_heads", "n_heads" },
    hidden_size = { "hidden_size", "dim" },
    layers = { "num_hidden_layers", "n_layers" },
    max_position = { "max_position_embeddings", "model_max_length" },
    rms_norm_eps = { "rms_norm_eps", "norm_eps" },
    rope_interleave = { "rope_interleave", "rope_interleaved" },
    dtype = { "torch_dtype", "dtype" },
}

-- What torch calls them, and what the spec does.
local DTYPES = {
    bfloat16 = "bf16", bf16 = "bf16",
    float16 = "fp16", fp16 = "fp16", half = "fp16",
}

-- Pairing of the rotary part where the config has no key for it, by model_type.
-- Sources: the models' released modelling code; see docs/adding-a-model.md.
local PAIRING = {
    minicpm3 = "neox",
    deepseek_v2 = "interleaved", deepseek_v3 = "interleaved", deepseek_v32 = "interleaved",
    kimi_k2 = "interleaved", kimi_linear = "interleaved", axk2 = "interleaved",
    glm4_moe_lite = "interleaved", glm_moe_dsa = "interleaved", glm5_next = "interleaved",
    longcat_flash = "interleaved", longcat_flash_ngram = "interleaved",
    pangu_ultra_moe = "interleaved", dots3_note_omni = "interleaved",
}

-- The rope types of configs; `none` here means that positions are used as they are.
local SCALING_TYPES = {
    yarn = "yarn", deepseek_yarn = "yarn",
    linear = "linear",
    longrope = "longrope", su = "longrope",
    default = "none", none = "none",
}

-- The first of the names that has a value; null is none.
local function lookup(config, names)
    for _, name in ipairs(names) do
        local value = config[name]
        if value ~= nil and value ~= null then
            return value
        end
    end
end

-- The part of the config that describes the language model: a nest that has heads, or
-- the config itself.
local function language_part(config)
    for _, name in ipairs(NESTS) do
        local part = config[name]
        if type(part) == "table" and lookup(part, NAMES.heads) then
            return part
        end
    end
    return config
end

-- Why this is no MLA, as a text; nil if it is.  DeepSeek-V4 is told apart by keys of
-- its own, so that the reason can be given.
local function refusal(part)
    if part.use_mla == false then
        return "use_mla is false: this model uses multi-head attention, not MLA"
    end
    if part.o_lora_rank ~= nil and part.compress_ratios ~= nil then
        return "no kv_lora_rank: DeepSeek-V4's compressed attention keeps one KV head of its own "
            .. "(K and V are the same vector), which is not MLA"
    end
    if part.kv_lora_rank == nil or part.kv_lora_rank == null then
        return "no kv_lora_rank: this model does not use MLA"
    end
end

-- Widths that have no sensible default: a wrong guess would compile and be wrong.
local REQUIRED = { "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim" }

-- The first key that an MLA config must have and this one lacks, or nil.
local function missing_key(part)
    if not lookup(part, NAMES.heads) then
        return table.concat(NAMES.heads, " or ")
    end
    for _, name in ipairs(REQUIRED) do
        if lookup(part, { name }) == nil then
            return name
        end
    end
end

-- Numbers in a config may be written 10000 or 10000.0.
local function integer(value)
    return math.tointeger(value) or value
end

-- Where rope parameters may be: rope_scaling in older configs, rope_parameters in newer
-- ones, which have rope_theta in it; some have both.
local function rope_tables(part)
    local list = {}
    for _, name in ipairs({ "rope_scaling", "rope_parameters" }) do
        if type(part[name]) == "table" and part[name] ~= null then
            list[#list + 1] = part[name]
        end
    end
    return list
end

-- The base of the rotation.  10000, the customary one, is assumed aloud.
local function theta_of(part, note)
    local theta = lookup(part, { "rope_theta" })
    for _, t in ipairs(rope_tables(part)) do
        theta = theta or lookup(t, { "rope_theta" })
    end
    if theta == nil then
        note("rope_theta is not in the config; 10000 assumed")
        return 10000
    end
    return theta
end

-- Mistral writes yarn under a key and with names of its own: alpha and beta are the
-- slow and the fast end of the ramp.  apply_scale false means no mscale^2 in the
-- softmax scale; absent, it applies.
local function mistral_yarn(part)
    local y = part.yarn
    if type(y) ~= "table" or y == null then
        return nil
    end
    local apply = y.apply_scale
    return {
        type = "yarn", factor = y.factor,
        original_max_position_embeddings = y.original_max_position_embeddings,
        beta_fast = y.beta, beta_slow = y.alpha,
        mscale = 1, mscale_all_dim = 1,
        apply_scale = apply == nil or apply == null or apply,
    }
end

-- What the spec takes over from a scaling table, under the same names.
local SCALING_KEYS = {
    "factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
    "attention_factor", "short_factor", "long_factor",
}

-- Returns the scaling table or nil, and an error text for a type we do not know.
local function scaling_of(part)
    for _, t in ipairs(rope_tables(part)) do
        local given = lookup(t, { "rope_type", "type" })
        if given ~= nil then
            local kind = SCALING_TYPES[given]
            if kind == nil then
                return nil, string.format("rope scaling type '%s' is not supported; allowed: default, %s",
                    tostring(given), "linear, yarn, deepseek_yarn, longrope")
            end
            if kind ~= "none" then
                local out = { type = kind }
                for _, key in ipairs(SCALING_KEYS) do
                    out[key] = lookup(t, { key })
                end
                return out
            end
        end
    end
    return mistral_yarn(part)
end

-- How pairs of the rotary part are formed: by what the config says, else by its
-- model_type, else assumed.  mla_use_nope keeps the rotary dims and never rotates them.
local function style_of(part, spec, note)
    if spec.qk_rope_head_dim == 0 then
        return "none"
    end
    if part.mla_use_nope == true then
        return "none"
    end
    local interleave = lookup(part, NAMES.rope_interleave)
    if interleave ~= nil then
        return interleave and "interleaved" or "neox"
    end
    local style = PAIRING[part.model_type or ""]
    if style == nil then
        note("the pairing of the rotary part is not in the config; interleaved assumed")
        return "interleaved"
    end
    return style
end

-- MiniCPM3 leaves the key out and means hidden_size / heads.
local function v_dim_of(part, spec, note)
    local v = lookup(part, { "v_head_dim" })
    if v ~= nil then
        return v
    end
    if spec.hidden_size == nil or spec.hidden_size % spec.heads ~= 0 then
        note("v_head_dim is not in the config; qk_nope_head_dim assumed")
        return spec.qk_nope_head_dim
    end
    note("v_head_dim is not in the config; hidden_size / heads assumed")
    return spec.hidden_size // spec.heads
end

-- Layers with MLA: in hybrid models only those that are listed as full attention.
local function layers_of(part)
    local linear = part.linear_attn_config
    if type(linear) == "table" and linear ~= null and features.present(linear.full_attn_layers) then
        return #linear.full_attn_layers
    end
    -- LongCat's num_layers counts shortcut blocks of two attentions each.
    if part.num_layers ~= nil and part.num_hidden_layers == nil then
        return 2 * part.num_layers
    end
    return lookup(part, NAMES.layers)
end

-- The type of activations.  Weights of a checkpoint may be narrower (fp8, int4); its
-- torch_dtype still says what it computes in.
local function dtype_of(config, part, note)
    local given = lookup(part, NAMES.dtype) or lookup(config, NAMES.dtype)
    if given == nil then
        return "bf16"
    end
    if DTYPES[given] == nil then
        note(string.format("torch_dtype %s has no kernels; bf16 assumed", tostring(given)))
        return "bf16"
    end
    return DTYPES[given]
end

-- One GPU, and the widest usual split that the head count allows.
local function tp_of(heads)
    for _, tp in ipairs({ 8, 4, 2 }) do
        if heads % tp == 0 then
            return { 1, tp }
        end
    end
    return { 1 }
end

-- The spec but for rope and factors.  `note` takes what was assumed.
local function build(config, part, name, note)
    local q_rank = lookup(part, { "q_lora_rank" })
    local spec = {
        model = name,
        heads = integer(lookup(part, NAMES.heads)),
        hidden_size = integer(lookup(part, NAMES.hidden_size)),
        layers = layers_of(part),
        max_position = integer(lookup(part, NAMES.max_position)),
        kv_lora_rank = part.kv_lora_rank,
        qk_nope_head_dim = part.qk_nope_head_dim,
        qk_rope_head_dim = part.qk_rope_head_dim,
        rms_norm_eps = lookup(part, NAMES.rms_norm_eps),
        dtype = dtype_of(config, part, note),
    }
    -- 0 is how DeepSeek's own inference code writes "no query compression".
    if q_rank ~= nil and q_rank ~= 0 then
        spec.q_lora_rank = q_rank
    end
    spec.v_head_dim = v_dim_of(part, spec, note)
    spec.tp = tp_of(spec.heads)
    spec.rope_style = style_of(part, spec, note)
    return spec
end

-- Adds rope_theta and rope_scaling to the spec; returns an error text or nil.  Without
-- the factors of longrope the table of angles cannot be made here.
local function add_rope(spec, part, note)
    if spec.rope_style == "none" then
        return nil
    end
    spec.rope_theta = theta_of(part, note)
    local scaling, problem = scaling_of(part)
    if problem then
        return problem
    end
    if scaling and scaling.type == "longrope" and scaling.short_factor == nil then
        note("longrope factors are not in the config; the caller must supply the cos/sin table")
    end
    spec.rope_scaling = scaling
end

-- The keys that ask for a factor sqrt(hidden / rank) on a compressed vector, by the
-- spec's key: LongCat has one for each side, dots3 one for both.  The factor itself is
-- in no config; it is what the models' code computes.
local RANK_SCALES = {
    { key = "q_lora_scale", rank = "q_lora_rank",
        names = { "mla_scale_q_lora", "apply_mla_qkv_lora_rescale" } },
    { key = "kv_lora_scale", rank = "kv_lora_rank",
        names = { "mla_scale_kv_lora", "apply_mla_qkv_lora_rescale" } },
}

-- A side without compression has no vector to scale.  Returns an error text or nil.
local function add_rank_scales(spec, part)
    for _, s in ipairs(RANK_SCALES) do
        if lookup(part, s.names) == true and spec[s.rank] ~= nil then
            if spec.hidden_size == nil then
                return s.names[1] .. " needs hidden_size, which the config does not have"
            end
            spec[s.key] = math.sqrt(spec.hidden_size / spec[s.rank])
        end
    end
end

-- Mistral's factor of q: a block of its own, or a beta beside the rope's parameters.
local function position_scale_of(part)
    local own = part.llama_4_scaling
    if type(own) == "table" and own ~= null then
        return { beta = own.beta, original = own.original_max_position_embeddings }
    end
    for _, t in ipairs(rope_tables(part)) do
        local beta = lookup(t, { "llama_4_scaling_beta" })
        if features.present(beta) then
            return { beta = beta, original = t.original_max_position_embeddings }
        end
    end
end

-- Factors on q and on the latent; returns an error text or nil.
local function add_factors(spec, part)
    local scale = position_scale_of(part)
    if scale and (scale.beta == nil or scale.original == nil) then
        return "the config's position-dependent scale on q lacks beta or "
            .. "original_max_position_embeddings"
    end
    spec.q_position_scale = scale
    return add_rank_scales(spec, part)
end

-- "DeepSeek-V3.json" -> "deepseek-v3"; the schema's alphabet for names.
local function spec_name(name)
    local s = string.gsub(string.lower(name), "[^a-z0-9._-]", "-")
    return (string.gsub(s, "^[._-]+", ""))
end

-- A result with one error.  It has no path: the file is not a spec's.
local function failure(message)
    return { errors = { { message = message } } }
end

-- import(config, {name, strict}) -> { text, warnings } or { errors }.  `name` is
-- the config's file name without suffix; `strict` turns every feature beyond
-- dense MLA, and every assumption, into an error.
function M.import(config, options)
    local part = language_part(config)
    local why = refusal(part)
    if why then
        return failure(why)
    end
    local missing = missing_key(part)
    if missing then
        return failure("the config has no " .. missing)
    end
    local notes = {}
    local function note(text)
        notes[#notes + 1] = text
    end
    local spec = build(config, part, spec_name(options.name), note)
    local problem = add_rope(spec, part, note) or add_factors(spec, part)
    if problem then
        return failure(problem)
    end
    local beyond = features.list(part, spec.heads)
    local messages = {}
    for _, f in ipairs(beyond) do
        messages[#messages + 1] = { message = "beyond dense MLA, left to the engine: " .. f }
    end
    for _, n in ipairs(notes) do
        messages[#messages + 1] = { message = n }
    end
    if options.strict and #messages > 0 then
        return { errors = messages }
    end
    return { text = yaml.spec_text(spec, options.name, beyond, notes), warnings = messages }
end

return M
