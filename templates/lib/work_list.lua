-- SPDX-License-Identifier: Apache-2.0
-- work_list.lua: the work list of a decode step, shared by the kernel that makes
-- it (decode_plan), the one that follows it (mqa_decode) and the one that merges
-- what it split (mqa_combine).
--
-- A tile of rows is `rows_per_tile` (token, head) pairs of one request; a unit is
-- (request, row tile), numbered request * row_tiles + row_tile.  A unit visits the
-- key tiles 0 .. n - 1 that its last row may see.  An item is a run of key tiles of
-- one unit; the items of a unit partition its keys.  A unit of one item writes its
-- result itself; the items of a split unit write partial results to slots, which
-- are numbered unit by unit.
--
-- header    int32[8]   see HEADER
-- items     int32[8]   per item, see ITEM
-- item_begin int32[ctas + 1]   CTA c owns items item_begin[c] .. item_begin[c + 1] - 1
-- unit_slots int32[units + 1]  unit u owns slots unit_slots[u] .. unit_slots[u + 1] - 1
-- partial_lse float[slots][rows_per_tile], natural logarithm whatever the spec says
-- partial_o   float[slots][rows_per_tile][R], normalised
--
-- Cut in balance, c CTAs make at most c - 1 cuts, so at most units + c - 1 items and
-- 2 (c - 1) slots: capacities that depend on no length.  numbers() tells the host.

local M = {}

M.HEADER = { "items", "slots", "status", "tiles" }
M.HEADER_INTS = 8

M.ITEM = { "request", "row_tile", "first_tile", "end_tile", "slot", "seq_len" }
M.ITEM_INTS = 8

-- header.status, bits.
M.STATUS = {
    item_capacity = 1, -- more items than item_capacity: nothing is computed
    slot_capacity = 2, -- more slots than slot_capacity: nothing is computed
    short_request = 4, -- some request has 0 < seq_len < q_len: its rows are NaN
}

-- item.slot of a unit that is not split, and of one that is refused.
M.DIRECT = -1
M.REFUSED = -2

-- What a cut adds to the list: an item, and slots, of which the first cut of a unit
-- needs more than the later ones.
M.CUT = { items = 1, first_slots = 2, slots = 1 }

-- Position of a name in HEADER or ITEM, as an index in C.
function M.index(list, name)
    for i, n in ipairs(list) do
        if n == name then
            return i - 1
        end
    end
    error("work_list: no field " .. name)
end

-- numbers(): what a host has to know to size a list and to read its header.
function M.numbers()
    return {
        header_ints = M.HEADER_INTS, item_ints = M.ITEM_INTS,
        cut_items = M.CUT.items, first_cut_slots = M.CUT.first_slots, cut_slots = M.CUT.slots,
        items_at = M.index(M.HEADER, "items"), slots_at = M.index(M.HEADER, "slots"),
        status_at = M.index(M.HEADER, "status"),
        item_overflow = M.STATUS.item_capacity, slot_overflow = M.STATUS.slot_capacity,
        short_request = M.STATUS.short_request,
    }
end

return M
