-- SPDX-License-Identifier: Apache-2.0
-- rope.lua: the angles of the rotary part, computed once, in double.
--
-- A cos/sin table has one fp32 row per position p: [cos(p f_i) m | sin(p f_i) m],
-- i < d/2.  With base b and width d the inverse frequencies are f_i = b^(-2i/d)
-- (RoFormer, arXiv 2104.09864), changed by the context extension:
--
--   linear    f_i / s: positions are interpolated (arXiv 2306.15595)
--   yarn      f_i (1 - r_i) + f_i / s * r_i, where the ramp r goes from 0 to 1
--             between the dimensions that turn beta_fast and beta_slow times over
--             the original context L (arXiv 2309.00071, section 3.2): dimension(n) =
--             d ln(L / (2 pi n)) / (2 ln b), rounded outwards
--   longrope  f_i / factor_i with two lists: short up to the original context,
--             long beyond (arXiv 2402.13753)
--
-- and m, the magnitude: for yarn m(s, mscale) / m(s, mscale_all_dim), m(s, a) =
-- 0.1 a ln s + 1; for longrope sqrt(1 + ln s / ln L), s = max_position / L; else 1;
-- attention_factor in the spec replaces it.

local scale = use("spec/scale")

local M = {}

local PI = 3.14159265358979323846

local function is_set(x)
    return x ~= nil and x ~= null
end

-- b^(-2i/d), i = 0 .. d/2 - 1, each divided by divisor(i).
local function frequencies(base, width, divisor)
    local out = {}
    for i = 0, width // 2 - 1 do
        out[i + 1] = base ^ (-2.0 * i / width) / divisor(i)
    end
    return out
end

-- The dimension, counted in pairs, that turns n times over the original context.
local function yarn_dimension(n, base, width, original)
    return width * math.log(original / (n * 2 * PI)) / (2 * math.log(base))
end

local function yarn_frequencies(base, width, s)
    local original = s.original_max_position_embeddings
    local low = math.floor(yarn_dimension(s.beta_fast, base, width, original))
    local high = math.ceil(yarn_dimension(s.beta_slow, base, width, original))
    low, high = math.max(low, 0), math.min(high, width - 1)
    if low == high then
        high = high + 0.001 -- a step instead of a ramp
    end
    return frequencies(base, width, function(i)
        local ramp = math.max(0.0, math.min(1.0, (i - low) / (high - low)))
        return 1 / ((1 - ramp) + ramp / s.factor)
    end)
end

local function longrope_frequencies(base, width, factors, name)
    if not is_set(factors) then
        return nil
    end
    if #factors ~= width // 2 then
        fail("rope.scaling.%s has %d entries; qk_rope_head_dim %d needs %d", name, #factors, width,
            width // 2)
    end
    return frequencies(base, width, function(i) return factors[i + 1] end)
end

local function longrope_magnitude(spec, s)
    local original = s.original_max_position_embeddings
    local factor = is_set(s.factor) and s.factor or 1.0
    if is_set(spec.max_position) and is_set(original) then
        factor = spec.max_position / original
    end
    return factor <= 1 and 1.0 or math.sqrt(1 + math.log(factor) / math.log(original))
end

local function magnitude(spec, s)
    if not is_set(s) or not s.apply_scale then
        return 1.0
    elseif is_set(s.attention_factor) then
        return s.attention_factor
    elseif s.type == "yarn" then
        return scale.magnitude(s.factor, s.mscale) / scale.magnitude(s.factor, s.mscale_all_dim)
    elseif s.type == "longrope" then
        return longrope_magnitude(spec, s)
    end
    return 1.0
end

-- angles(spec) -> nil where nothing rotates, else { magnitude, short, long }: inverse
-- frequencies up to and beyond the original context.  long is nil unless they
-- differ; short is nil when longrope's factors are not in the spec.
function M.angles(spec)
    local width, base = spec.qk_rope_head_dim, spec.rope.theta
    if width == 0 or spec.rope.style == "none" then
        return nil
    end
    local s = spec.rope.scaling
    local out = { magnitude = magnitude(spec, s) }
    if not is_set(s) then
        out.short = frequencies(base, width, function() return 1.0 end)
    elseif s.type == "linear" then
        out.short = frequencies(base, width, function() return s.factor end)
    elseif s.type == "yarn" then
        out.short = yarn_frequencies(base, width, s)
    else
        out.short = longrope_frequencies(base, width, s.short_factor, "short_factor")
        out.long = longrope_frequencies(base, width, s.long_factor, "long_factor")
    end
    return out
end

return M
