-- SPDX-License-Identifier: Apache-2.0
-- scale.lua: the softmax scale that the kernels receive.
--
-- scale = (nope + rope)^-1/2 * m^2, where m = 0.1 * mscale_all_dim * ln(factor)
-- + 1 under yarn with factor > 1 (YaRN, arXiv 2309.00071, section 3.4, in the
-- form of DeepSeek-V2's release, whose config names the multiplier
-- mscale_all_dim), and m = 1 otherwise.  The width is that of the original
-- head, never of the absorbed one: absorbing leaves every dot product as is.

local M = {}

-- m(factor, mscale): yarn's magnitude correction.  1 for factor <= 1.
function M.magnitude(factor, mscale)
    if factor <= 1 then
        return 1.0
    end
    return 0.1 * mscale * math.log(factor) + 1.0
end

-- The scale of a schema-checked spec, as a float.
function M.softmax_scale(spec)
    if spec.softmax_scale ~= "auto" then
        return spec.softmax_scale
    end
    local scale = (spec.qk_nope_head_dim + spec.qk_rope_head_dim) ^ -0.5
    local scaling = spec.rope.scaling
    if scaling ~= null and scaling.type == "yarn" and scaling.apply_scale then
        local m = M.magnitude(scaling.factor, scaling.mscale_all_dim)
        scale = scale * m * m
    end
    return scale
end

return M
