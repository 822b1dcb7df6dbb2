@ -- SPDX-License-Identifier: Apache-2.0
@ -- O divided by the sums and rounded, through the warp's own rows of shared memory to 16-byte
@ -- stores; LSE.  Inputs: t, lse (spec.lse), width (of V).
@ local rows = 2 * t.mt
@ local empty = tostring(lse.empty) == "-inf" and "0xff800000u" or "0x7f800000u"
@ local chunks = t.columns // 8
@ local lanes = chunks > 4 and 8 or chunks > 2 and 4 or 2
@ local per_lane, tail = (chunks + lanes - 1) // lanes, chunks % lanes
@ local overlap = t.column_chunks * t.columns - width
@ for r = 0, rows - 1 do
row_sum${r} += butterfly<1>(row_sum${r});
row_sum${r} += butterfly<2>(row_sum${r});
@ end
if (a.lse && quad == 0u${t.column_chunks > 1 and " && column == 0" or ""}) {
    char *lse = (char *)a.lse + head * a.lse_head_stride;
@ for r = 0, rows - 1 do
    {
        const mla_i32 row = warp_row + ${16 * (r // 2) + 8 * (r % 2)} + (mla_i32)g;
        const float value = ${tostring(lse.base) == "2" and string.format("log_2(row_sum%d) - reference%d", r, r) or string.format("(log_2(row_sum%d) - reference%d) * %s", r, r, f32(0.6931471805599453))};
        if (row < q_len)
            *(float *)(lse + (q_begin + row) * a.lse_token_stride) = row_sum${r} != 0.0f ? value : __uint_as_float(${empty});
    }
@ end
}

// Rows that saw no key get O = 0.
copies_wait<0>();
__syncthreads();
const mla_u32 o_to = base + (${16 * t.mt}u * warp + g) * ${t.v_stride}u + 4u * quad;
@ for r = 0, rows - 1 do
{
    const float factor = row_sum${r} != 0.0f ? 1.0f / row_sum${r} : 0.0f;
@     local lo, hi = r % 2 == 0 and "x" or "z", r % 2 == 0 and "y" or "w"
@     for c = 0, chunks - 1 do
@         local o = string.format("o%d_%d", r // 2, c)
    put_word<${(16 * (r // 2) + 8 * (r % 2)) * t.v_stride + 16 * c}>(o_to, pack2(${o}.${lo} * factor, ${o}.${hi} * factor));
@     end
}
@ end
__syncwarp();
const mla_u32 store_row = lane / ${lanes}u;
const mla_u32 store_chunk = lane % ${lanes}u;
const mla_u32 o_from = base + (${16 * t.mt}u * warp + store_row) * ${t.v_stride}u + 16u * store_chunk;
char *out = (char *)a.out + (q_begin + warp_row + (mla_i64)store_row) * a.out_token_stride + head * a.out_head_stride
            + 16u * store_chunk${t.column_chunks > 1 and " + 2 * column" or ""};
@ for i = 0, 16 * t.mt - 1, 32 // lanes do
if (warp_row + ${i} + (mla_i32)store_row < q_len) {
@     for c = 0, per_lane - 1 do
@         local tests = {}
@         if c == per_lane - 1 and tail > 0 then
@             tests[#tests + 1] = "store_chunk < " .. tail .. "u"
@         end
@         if overlap > 0 then
@             tests[#tests + 1] = string.format("column + 8 * (mla_i32)store_chunk + %d >= first_column", 8 * lanes * c)
@         end
    ${#tests > 0 and "if (" .. table.concat(tests, " && ") .. ") " or ""}store16(out + ${16 * lanes * c}, get_words<${i * t.v_stride + 16 * lanes * c}>(o_from));
@     end
}
out += ${32 // lanes} * a.out_token_stride;
@ end
