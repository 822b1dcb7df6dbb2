@ -- SPDX-License-Identifier: Apache-2.0
@ -- Copies the tile of keys at `at` into the stage at byte `to`, then looks up the pages of the
@ -- tile at `next`.  Rows at and past end_key become zeros: P is 0 there, and 0 * NaN is not.
@ -- Inputs: t, page_size, shift, at, to, next.
@ local tail = t.n % t.rows_per_pass
@ local function row_bytes(i)
@     return i * t.rows_per_pass * t.row_stride
@ end
@ for i = 0, t.passes - 1 do
@     local only = i == t.passes - 1 and tail > 0
{
    const mla_i32 row = ${at} + ${i * t.rows_per_pass} + (mla_i32)load_row;
    const mla_i32 row_key = row < end_key ? row : end_key - 1;
    const char *from = (const char *)a.kv_cache + page${i} * a.page_stride
                       + (row_key & ${page_size - 1}) * a.row_stride + load_chunk * 16u;
    const mla_u32 bytes = row < end_key && page${i} >= 0 ? 16u : 0u;
    const mla_u32 to = load_to + ${to};
@     local indent = only and "    " or ""
@     if only then
    if (load_row < ${tail}u) {
@     end
@     for c = 0, t.chunks - 1 do
@         local last = c == t.chunks - 1 and t.chunk_tail > 0
@         local call = string.format("copy16<%d, %d>(to, from, bytes);", row_bytes(i) + 128 * c, 128 * c)
@         if last then
    ${indent}if (load_chunk < ${t.chunk_tail}u)
    ${indent}    ${call}
@         else
    ${indent}${call}
@         end
@     end
@     if only then
    }
@     end
}
@ end
${include("frag/decode_pages.tpl", {t = t, shift = shift, at = next})}
