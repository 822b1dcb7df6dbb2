-- SPDX-License-Identifier: Apache-2.0
-- features.lua: what a model may have beyond dense MLA, by the keys that its
-- config.json shows it with.  The kernels compute dense MLA; whoever imports a
-- model with one of these must know that the rest is left to the engine.

-- { key, phrase } — the phrase is formatted with the key's value.  A key counts
-- as present unless its value is null, false, 0 or an empty list.
local KEYS = {
    { "index_topk", "DSA index: attention over the top %s keys of a separate indexer" },
    { "param_sink_number", "%s learned sink tokens in front of every sequence" },
    { "attention_sink", "attention sinks" },
    { "attention_output_gate", "gate on the attention output" },
    { "gated_attention", "gate on the attention output" },
    { "mla_use_output_gate", "gate on the attention output" },
    { "gated_attention_proj_granularity_type", "gate on the attention output (%s)" },
    { "sliding_window", "sliding window of %s keys" },
    { "sliding_window_list", "sliding windows on some layers" },
    { "use_mla_scaling_factor", "a model-specific softmax scaling factor (use_mla_scaling_factor)" },
    { "k_rope_only_layernorm", "RMSNorm on the rotary part of k" },
    { "use_mome", "MoME convolutions on q, kv and the output" },
    { "layer_rank_list", "ranks that differ per layer" },
    { "attention_bias", "biases in the attention projections" },
}

local M = {}

-- Whether a key asks for its feature: null, false, 0 and empty lists are how configs
-- switch one off.
local function present(value)
    if value == nil or value == null or value == false or value == 0 then
        return false
    end
    return not (type(value) == "table" and #value == 0 and #keys(value) == 0)
end
M.present = present

-- A value for a phrase; 512.0, as some configs write it, reads 512.
local function text_of(value)
    if math.type(value) == "float" and value == math.floor(value) then
        return string.format("%d", math.tointeger(value))
    end
    return tostring(value)
end

-- MLA configs repeat the head count in num_key_value_heads; another number there means
-- that heads share what a latent expands to (Motif-3).
local function grouped_heads(config, heads)
    local kv = config.num_key_value_heads
    if present(kv) and kv ~= heads then
        return string.format("grouped heads: %s query heads over %s latent expansions", text_of(heads), text_of(kv))
    end
end

-- Kimi-Linear lists the layers that are linear attention; the rest are MLA.
local function hybrid_layers(config)
    local linear = config.linear_attn_config
    if type(linear) == "table" and present(linear.kda_layers) then
        return string.format("%d layers of linear attention beside MLA", #linear.kda_layers)
    end
end

-- list(config, heads) -> array of phrases, in a fixed order, without repeats.
function M.list(config, heads)
    local out, seen = {}, {}
    local function add(phrase)
        if phrase and not seen[phrase] then
            seen[phrase] = true
            out[#out + 1] = phrase
        end
    end
    for _, row in ipairs(KEYS) do
        local value = config[row[1]]
        if present(value) then
            add(string.find(row[2], "%s", 1, true) and string.format(row[2], text_of(value)) or row[2])
        end
    end
    add(grouped_heads(config, heads))
    add(hybrid_layers(config))
    return out
end

return M
