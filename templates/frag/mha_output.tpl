@ -- SPDX-License-Identifier: Apache-2.0
@ -- O divided by the sums and rounded, through the warp's own rows of shared memory to 16-byte
@ -- stores; LSE.  Inputs: t, lse (spec.lse), width (of V).
@ local rows = 2 * t.mt
@ local empty = tostring(lse.empty) == "-inf" and "0xff800000u" or "0x7f800000u"
@ local chunks = t.columns // 8
@ local lanes = chunks > 4 and 8 or chunks > 2 and 4 or 2
@ local per_lane, tail = (chunks + lanes - 1) // lanes, chunks % lanes
@ -- LSE of row r, in the spec's base.
@ local function lse_value(r)
@     local log2 = string.format("log_2(row_sum%d) - reference%d", r, r)
@     return tostring(lse.base) == "2" and log2 or string.format("(%s) * %s", log2, f32(0.6931471805599453))
@ end
@ local overlap = t.column_chunks * t.columns - width
// Where the rows are is looked up again rather than kept while the keys went by.
const mla_i64 q_begin = a.cu_q[request];
const mla_i32 q_len = a.cu_q[request + 1u] - (mla_i32)q_begin;
const mla_u32 thread = thread_index();
const mla_u32 warp = thread >> 5;
const mla_u32 lane = thread & 31u;
const mla_u32 g = lane >> 2;
const mla_u32 quad = lane & 3u;
const mla_i32 warp_row =
    (mla_i32)(gridDim.x - 1u - blockIdx.x) * ${t.m} + (mla_i32)warp * ${16 * t.mt};
@ for r = 0, rows - 1 do
row_sum${r} += butterfly<1>(row_sum${r});
row_sum${r} += butterfly<2>(row_sum${r});
@ end
if (a.lse && quad == 0u${t.column_chunks > 1 and " && column == 0" or ""}) {
    char *lse = (char *)a.lse + head * a.lse_head_stride;
    const float empty = hidden(__uint_as_float(${empty})); // made here, not kept
@ for r = 0, rows - 1 do
    {
        const mla_i32 row = warp_row + ${16 * (r // 2) + 8 * (r % 2)} + (mla_i32)g;
        const float value = ${lse_value(r)};
        char *to = lse + (q_begin + row) * a.lse_token_stride;
        if (row < q_len)
            *(float *)to = row_sum${r} != 0.0f ? value : empty;
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
@         local byte = (16 * (r // 2) + 8 * (r % 2)) * t.v_stride + 16 * c
    put_word<${byte}>(o_to, pack2(${o}.${lo} * factor, ${o}.${hi} * factor));
@     end
}
@ end
__syncwarp();
const mla_u32 store_row = lane / ${lanes}u;
const mla_u32 store_chunk = lane % ${lanes}u;
const mla_u32 o_from =
    base + (${16 * t.mt}u * warp + store_row) * ${t.v_stride}u + 16u * store_chunk;
const mla_i64 token = q_begin + warp_row + (mla_i64)store_row;
char *out = (char *)a.out + token * a.out_token_stride + head * a.out_head_stride
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
@         if #tests > 0 then
    if (${table.concat(tests, " && ")})
        store16(out + ${16 * lanes * c}, get_words<${i * t.v_stride + 16 * lanes * c}>(o_from));
@         else
    store16(out + ${16 * lanes * c}, get_words<${i * t.v_stride + 16 * lanes * c}>(o_from));
@         end
@     end
}
out += ${32 // lanes} * a.out_token_stride;
@ end
