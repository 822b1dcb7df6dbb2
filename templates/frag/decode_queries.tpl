@ -- SPDX-License-Identifier: Apache-2.0
@ -- The first tiles of keys are sent for, and Q goes through the last stages into registers.
@ -- Inputs: t, H.
@ local first_q = (t.stages - t.q_stages) * t.stage_bytes
@ local early = math.min(t.stages - 1, t.stages - t.q_stages)
@ local passes = (t.m + t.rows_per_pass - 1) // t.rows_per_pass
@ local function first_key_of(tile)
@     return tile == 0 and "first_key" or "first_key + " .. tile * t.n .. "u"
@ end
@ local function load(tile)
@     local at = first_key_of(tile)
@     local to = tile == 0 and "load_to" or "load_to + " .. tile * t.stage_bytes .. "u"
@     return include("frag/decode_tile.tpl", {t = t, at = at, to = to})
@ end
// Q: ${t.m} rows into the last ${t.q_stages == 1 and "stage" or t.q_stages .. " stages"}; zeros past the request's last row.
@ for i = 0, passes - 1 do
@     local partial = (i + 1) * t.rows_per_pass > t.m
{
    const mla_i32 row = row_tile * ${t.m}${i > 0 and " + " .. i * t.rows_per_pass or ""} + (mla_i32)load_row;
    const bool live = row < a.q_len * ${H};
    const char *from = (const char *)a.q + load_chunk * 16u;
    if (live)
        from += request * a.q_batch_stride + row / ${H} * a.q_token_stride
                + row % ${H} * a.q_head_stride;
    const mla_u32 bytes = live ? 16u : 0u;
@     local indent = ""
@     if partial then
    if (load_row < ${t.m - i * t.rows_per_pass}u) {
@         indent = "    "
@     end
@     for c = 0, t.chunks - 1 do
@         local call = string.format("copy16<%d, %d>(load_to, from, bytes);",
@             first_q + i * t.rows_per_pass * t.row_stride + 128 * c, 128 * c)
@         if c == t.chunks - 1 and t.chunk_tail > 0 then
    ${indent}if (load_chunk < ${t.chunk_tail}u)
    ${indent}    ${call}
@         else
    ${indent}${call}
@         end
@     end
@     if partial then
    }
@     end
}
@ end
copies_commit();

// Keys: ${t.stages - 1 == 1 and "the first tile" or "the first " .. t.stages - 1 .. " tiles"}, ${early == t.stages - 1 and "beside Q" or early == 0 and "after Q" or early .. " of them beside Q"}.
const mla_i32 *pages =
    (const mla_i32 *)((const char *)a.block_table + request * a.block_table_stride);
@ for i = 0, t.passes - 1 do
mla_i32 page${i} = 0;
@ end
if (first_key < end_key) {
@ for i = 0, t.passes - 1 do
    page${i} = page_of(pages, first_key${i > 0 and " + " .. i * t.rows_per_pass .. "u" or ""} + load_row, end_key);
@ end
}
@ for tile = 0, early - 1 do
if (${first_key_of(tile)} < end_key) {
    ${load(tile)}
}
copies_commit();
@ end
copies_wait<${early}>();
__syncthreads();
const mla_u32 q_row = 16u * me.wm + 8u * (((me.lane >> 3) & 1u) ^ me.wk) + (me.lane & 7u);
const mla_u32 q_from =
    base + STAGES + ${first_q}u + q_row * ${t.row_stride}u + 32u * me.wk + 16u * (me.lane >> 4);
@ for j = 0, t.k_steps - 1 do
@     if t.k_tail == 1 and j == t.k_steps - 1 then
mla_v4 q${j} = {0, 0, 0, 0};
if (me.wk == 0u)
    q${j} = matrices<${64 * j}>(q_from);
@     else
const mla_v4 q${j} = matrices<${64 * j}>(q_from);
@     end
@ end
@ if early < t.stages - 1 then
__syncthreads();
@ end
@ for tile = early, t.stages - 2 do
if (${first_key_of(tile)} < end_key) {
    ${load(tile)}
}
copies_commit();
@ end
