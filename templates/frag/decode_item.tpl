@ -- SPDX-License-Identifier: Apache-2.0
@ -- The item's fields and the bounds of its keys.  Inputs: t, H, refused, item (name of a field
@ -- to its index).
// The item: rows row_tile of a request, keys first_key .. end_key - 1.  Keys are unsigned:
// the tile after the last of 2^31 - 1 still has a number.
const mla_i32 *entry = a.items + (mla_i64)item * 8;
const mla_i32 request = entry[${item.request}];
const mla_i32 row_tile = entry[${item.row_tile}];
const mla_u32 first_key = (mla_u32)entry[${item.first_tile}] * ${t.n}u;
if (entry[${item.slot}] == ${refused}) {
    refuse_unit(a, request, row_tile);
    continue;
}

// Row r of the tile sees the keys below seen + its token.
const mla_i32 seen = entry[${item.seq_len}] - a.q_len + 1;
const mla_i32 last_token = a.q_len - 1;
const mla_i32 unit_token = ((row_tile + 1) * ${t.m} - 1) / ${H};
const mla_i32 unit_end = seen + (unit_token < last_token ? unit_token : last_token);
const mla_i64 tiles_end = (mla_i64)entry[${item.end_tile}] * ${t.n};
const mla_i32 last_end = tiles_end < unit_end ? (mla_i32)tiles_end : unit_end;
const mla_u32 end_key = last_end > 0 ? (mla_u32)last_end : 0u;
const mla_i32 all_see = seen + (row_tile * ${t.m}) / ${H};
// Keys below are seen by every row.
const mla_u32 unmasked = (mla_u32)(all_see < last_end ? all_see : last_end);
