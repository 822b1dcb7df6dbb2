-- SPDX-License-Identifier: Apache-2.0
-- cost.lua: the cost block, the ordered { name, text } pairs that open every
-- emitted kernel and that the verb `plan` prints.
--
--     local c = cost.new()
--     c.add("tile", "one warp: %d tokens", 4)
--     plan.cost = c.pairs

local M = {}

function M.new()
    local list = {}
    return {
        pairs = list,
        add = function(name, fmt, ...)
            list[#list + 1] = { name, string.format(fmt, ...) }
        end,
    }
end

-- 82048 -> "82,048"
function M.grouped(n)
    local s = string.format("%d", n)
    local out = ""
    while #s > 3 do
        out = "," .. string.sub(s, -3) .. out
        s = string.sub(s, 1, -4)
    end
    return s .. out
end

-- "1 token", "4 tokens"
function M.plural(n, what)
    return string.format("%d %s%s", n, what, n == 1 and "" or "s")
end

return M
