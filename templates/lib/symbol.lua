-- SPDX-License-Identifier: Apache-2.0
-- symbol.lua: names.
--
--     mla_<family>[_<variant>]_<model>_<dtype>_h<heads>_p<page>_<arch>
--
-- A symbol says everything that tells two kernels apart, so that all kernels of
-- all models can be linked into one program.

local M = {}

function M.kernel(family, variant, spec, heads, arch)
    local name = variant == "" and family or family .. "_" .. variant
    return string.format("mla_%s_%s_%s_h%d_p%d_%s", name, spec.derived.ident, spec.dtype, heads,
        spec.kv_cache.page_size, arch.name)
end

-- The struct of arguments belongs to the family: all models share it.  Where the
-- spec takes fields away the struct has another name, so that headers of several
-- models can be included together.  options: norope (the model has no rotary
-- part), unrotated (rope.style none: no cos_sin, no positions).
function M.args_struct(family, options)
    options = options or {}
    local suffix = options.norope and "_norope" or options.unrotated and "_unrotated" or ""
    return "mla_" .. family .. suffix .. "_args"
end

return M
