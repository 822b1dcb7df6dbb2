-- SPDX-License-Identifier: Apache-2.0
-- analysis.lua: what a model's attention costs, before any kernel is planned.
--
-- Counts are multiply-adds of one layer, without tensor parallelism; T is
-- q_len, S is kv_len with the prefix.  With A = R*H*(nope + v), N = H*(nope +
-- rope + v) and B = H*(2R + rope):
--
--   Normal  expands S latents, then attends at the original widths:  S*A + T*S*N
--   Absorb  folds the up-projections into q and the output:          T*A + T*S*B
--
-- They meet at T = S*A / (A + S*(B - N)), which tends to A / (B - N) for long S:
-- below it Absorb is cheaper, above it Normal.  For B <= N (a latent narrower than
-- a head) Absorb is never dearer while T <= S.

local M = {}

-- Bytes of an element of the cache, by kv_cache.dtype.
local BYTES = { bf16 = 2, fp16 = 2 }
-- The customary number of key heads, for comparison with a cache of that kind.
local GQA_GROUPS = 8

-- A, N and B of the head comment, in multiply-adds of all heads of the model.
local function costs(spec)
    local h = spec.heads
    local nope, rope, v = spec.qk_nope_head_dim, spec.qk_rope_head_dim, spec.v_head_dim
    local r = spec.kv_lora_rank
    return {
        expand = r * h * (nope + v),
        normal = h * (nope + rope + v),
        absorb = h * (2 * r + rope),
    }
end

-- The T from which Normal is cheaper at kv_len S; nil: never.  Without kv_len, the
-- limit for long S.  A fraction: a count of tokens is for whoever prints it to round.
local function crossover(c, kv_len)
    local widening = c.absorb - c.normal
    if widening <= 0 then
        return nil
    end
    if kv_len == nil then
        return c.expand / widening
    end
    return kv_len * c.expand / (c.expand + kv_len * widening)
end

-- Elements of one token in one layer: what the original heads would cache as keys and
-- values, for every head, for 8 groups and for one, and the latent row of MLA.
local function cache_table(spec)
    local width = spec.qk_nope_head_dim + spec.qk_rope_head_dim + spec.v_head_dim
    return {
        { name = "MHA", elements = spec.heads * width },
        { name = "GQA-" .. GQA_GROUPS, elements = GQA_GROUPS * width },
        { name = "MQA", elements = width },
        { name = "MLA", elements = spec.derived.row },
    }
end

-- 40960 -> "40,960"
local function grouped(n)
    local s = string.format("%d", n)
    local head = #s % 3
    local out = string.gsub(string.sub(s, head + 1), "(%d%d%d)", ",%1")
    if head == 0 then
        return (string.gsub(out, "^,", ""))
    end
    return string.sub(s, 1, head) .. out
end

-- Powers of 1024, the largest last.
local UNITS = { "B", "KiB", "MiB", "GiB", "TiB" }
local function size_text(bytes)
    local unit = 1
    local x = bytes + 0.0
    while x >= 1024 and unit < #UNITS do
        x = x / 1024
        unit = unit + 1
    end
    if unit == 1 then
        return string.format("%d B", bytes)
    end
    return string.format("%.1f %s", x, UNITS[unit])
end

-- The projections around the attention, in multiply-adds per token, as far as the spec
-- has their widths (hidden_size and q_lora_rank may be null).  They are the same on
-- both paths, so they do not move the crossover.  Without query compression q_b reads
-- the hidden state.
local function projections(spec)
    local list = {}
    local hidden = spec.hidden_size
    local head = spec.qk_nope_head_dim + spec.qk_rope_head_dim
    local q_in = spec.q_lora_rank
    local row = spec.derived.row
    if hidden ~= null then
        if q_in ~= null then
            list[#list + 1] = { name = "q_a and kv_a", per_token = hidden * (q_in + row) }
        else
            list[#list + 1] = { name = "kv_a", per_token = hidden * row }
            q_in = hidden
        end
    end
    if q_in ~= null then
        list[#list + 1] = { name = "q_b", per_token = q_in * spec.heads * head }
    end
    if hidden ~= null then
        list[#list + 1] = { name = "o_proj", per_token = spec.heads * spec.v_head_dim * hidden }
    end
    return list
end

-- One line per kind of cache; over all layers only where the spec says how many.
local function cache_lines(add, spec, caches, bytes)
    add("latent cache, per token and layer (%s)", spec.kv_cache.dtype)
    for _, c in ipairs(caches) do
        local all = ""
        if spec.layers ~= null then
            all = string.format("  %s over %d layers", size_text(c.elements * bytes * spec.layers), spec.layers)
        end
        add("  %-6s %9s elements %11s%s", c.name, grouped(c.elements), size_text(c.elements * bytes), all)
    end
end

-- Both paths as sums of a term per key (or query) and one per pair.
local function cost_lines(add, spec, c)
    add("multiply-adds of one layer (T = q_len, S = kv_len)")
    for _, p in ipairs(projections(spec)) do
        add("  %-14s T x %s", p.name, grouped(p.per_token))
    end
    add("  %-14s S x %s  +  T x S x %s", "Normal (MHA)", grouped(c.expand), grouped(c.normal))
    add("  %-14s T x %s  +  T x S x %s", "Absorb (MQA)", grouped(c.expand), grouped(c.absorb))
end

-- Where the crossover is shown besides its limit: for DeepSeek-V3 it is 146 at the
-- first and 171 in the limit.
local KV_LENGTHS = { 1024, 4096, 32768 }

-- The limit first, then how soon it is reached.
local function crossover_lines(add, c)
    local limit = crossover(c)
    if limit == nil then
        add("crossover: none; Absorb is never dearer while T <= S")
        return
    end
    add("crossover: Normal is cheaper from T = %.0f on (long S)", limit)
    for _, s in ipairs(KV_LENGTHS) do
        add("  S = %-6d T = %.0f", s, crossover(c, s))
    end
end

-- The factors that some models put on q and the latent.
local function factor_lines(add, spec)
    local d, p = spec.derived, spec.q_position_scale
    if d.q_lora_scale ~= 1 or d.kv_lora_scale ~= 1 then
        add("factors: compressed q %.7g (the engine's), latent %.7g (kv_append)", d.q_lora_scale,
            d.kv_lora_scale)
    end
    if p ~= null then
        add("factor of q: 1 + %.7g ln(1 + floor(position / %d)) (absorb_q; in the Normal path "
            .. "the engine's)", p.beta, p.original_max_position_embeddings)
    end
end

-- analyse(spec) -> { lines = {text}, data = {...} } for a canonical spec.
function M.analyse(spec)
    local c = costs(spec)
    local caches = cache_table(spec)
    local bytes = BYTES[spec.kv_cache.dtype]
    local lines = {}
    local function add(fmt, ...)
        lines[#lines + 1] = string.format(fmt, ...)
    end
    add("%s: %d heads, latent %d + rope %d, nope %d, v %d, softmax scale %.7g", spec.model, spec.heads,
        spec.kv_lora_rank, spec.qk_rope_head_dim, spec.qk_nope_head_dim, spec.v_head_dim,
        spec.derived.softmax_scale)
    factor_lines(add, spec)
    cache_lines(add, spec, caches, bytes)
    cost_lines(add, spec, c)
    crossover_lines(add, c)
    return {
        lines = lines,
        data = {
            softmax_scale = spec.derived.softmax_scale,
            q_lora_scale = spec.derived.q_lora_scale,
            kv_lora_scale = spec.derived.kv_lora_scale,
            q_position_scale = spec.q_position_scale,
            cache = caches,
            cache_element_bytes = bytes,
            projections = projections(spec),
            expand = c.expand,
            normal_attention = c.normal,
            absorb_attention = c.absorb,
            crossover_tokens = crossover(c) or null,
        },
    }
end

return M
