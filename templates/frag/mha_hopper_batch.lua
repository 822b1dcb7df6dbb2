-- SPDX-License-Identifier: Apache-2.0
-- The wgmmas of mha and kv_b on sm_90a as text (frag/hopper_wgmma.lua).  Accumulators and
-- fragments are named scalars: s of S, o of O, p of P, q of Q; c and a of a plain product.
-- Every batch has a fence, also where the one before covers its registers: ptxas would put one
-- there and say so (C7519).
--
-- Words of neighbouring pairs of S, rounded, are the A fragments of P: word j of a thread is
-- (s(2 j), s(2 j + 1)).  K has rows of 128 bytes, in boxes of 64 columns one after the other: a
-- step of 16 columns is 32 bytes inside a row.  V is the same to TMA and MN-major to wgmma: a
-- step of 16 keys is 16 rows.

local wgmma = use("frag/hopper_wgmma")

local M = {}

local WIDTH = 96      -- of a line of the file
local TEXT_WIDTH = 78 -- of a line of a batch, which stands where loops have indented it

M.names = wgmma.names

-- One line in pieces that fit, broken behind commas: of a string literal, or of a list.
local function pieces(line, out)
    local is_literal = line:find("^%s*\"") and line:find("\"$")
    while #line > TEXT_WIDTH do
        local at = line:sub(1, TEXT_WIDTH - 2):find(", [^ ]*$")
        if not at then
            break
        end
        out[#out + 1] = line:sub(1, at) .. (is_literal and " \"" or "")
        line = "    " .. (is_literal and "\"" or "  ") .. line:sub(at + 2)
    end
    out[#out + 1] = line
end

local function fitted(text)
    local out = {}
    for line in (text .. "\n"):gmatch("(.-)\n") do
        pieces(line, out)
    end
    return table.concat(out, "\n")
end

function M.wait(acc, pending)
    return fitted(wgmma.wait(acc, pending))
end

-- Declarations of named scalars of a type, in lines that fit where they are indented by `indent`.
function M.declare(type, names, indent)
    local lines, line = {}, type
    for i, name in ipairs(names) do
        local word = " " .. name .. (i < #names and "," or ";")
        if #line + #word + indent > WIDTH then
            lines[#lines + 1] = line
            line = "   "
        end
        line = line .. word
    end
    lines[#lines + 1] = line
    return table.concat(lines, "\n")
end

local function fragment(prefix, step)
    local i = 4 * step
    return { prefix .. i, prefix .. i + 1, prefix .. i + 2, prefix .. i + 3 }
end

-- S = Q K^T of a tile: the k-steps of Q that are held from registers, the others and K from
-- the descriptors q_matrix and k_matrix.
function M.scores(t, dtype)
    local steps = {}
    for step = 1, t.steps do
        local k, q = t.k_steps[step], t.q_steps[step]
        steps[step] = {
            a = step <= t.held and fragment("q", step - 1)
                or { "q_matrix", q.box * t.group_rows * 8 + 2 * q.part },
            b = { "k_matrix", k.box * t.n * 8 + 2 * k.part },
        }
    end
    return fitted(wgmma.batch({ dtype = dtype, acc = wgmma.names("s", t.n // 2), fresh = true,
        steps = steps, fence = true, commit = true }))
end

-- O += P V of a tile, V from the descriptor v_matrix.
function M.values(t, dtype)
    local steps = {}
    for step = 0, t.n // 16 - 1 do
        steps[step + 1] = { a = fragment("p", step), b = { "v_matrix", 128 * step } }
    end
    return fitted(wgmma.batch({ dtype = dtype, acc = wgmma.names("o", t.columns // 2), fresh = false,
        steps = steps, trans_b = true, fence = true, commit = true }))
end

-- c = (from step 0 on) or += A B^T of the k-steps first .. last, B a stage of four of them at
-- the descriptor `matrix`.
function M.columns(columns, first, last, dtype)
    local steps = {}
    for step = first, last do
        steps[#steps + 1] = { a = fragment("a", step), b = { "matrix", 2 * (step % 4) } }
    end
    return fitted(wgmma.batch({ dtype = dtype, acc = wgmma.names("c", columns // 2), fresh = first == 0,
        steps = steps, fence = true, commit = true }))
end

return M
