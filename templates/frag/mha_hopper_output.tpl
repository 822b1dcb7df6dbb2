@ -- SPDX-License-Identifier: Apache-2.0
@ -- O divided by the row sums, rounded and stored; LSE.  Inputs: t, lse (spec.lse).
@ -- Lanes of a quad hold neighbouring pairs of columns of every 8.  Two lanes that are neighbours
@ -- exchange a pair each, so that a quad then writes 16 columns of a row, a whole sector, in one
@ -- instruction: the even lane's piece is of the first eight, the odd one's of the second.
@ local empty = tostring(lse.empty) == "-inf" and "0xff800000u" or "0x7f800000u"
@ local function lse_value(r)
@     if tostring(lse.base) == "2" then
@         return string.format("log_2(row_sum%d) + row_max%d", r, r)
@     end
@     return string.format("(log_2(row_sum%d) + row_max%d) * %s", r, r, f32(0.6931471805599453))
@ end
const mla_i64 token = (mla_i64)w.q_begin + warp_row + (mla_i32)g;
// A row's four lanes have summed eight columns in 32 each.
@ for r = 0, 1 do
row_sum${r} += butterfly<1>(row_sum${r});
row_sum${r} += butterfly<2>(row_sum${r});
@ end
if (a.lse && quad == 0u) {
    char *to = (char *)a.lse + token * a.lse_token_stride + w.head * a.lse_head_stride;
    const float empty = __uint_as_float(${empty});
@ for r = 0, 1 do
    const float lse${r} = ${lse_value(r)};
@ end
    if (warp_row + (mla_i32)g < w.q_len)
        *(float *)to = row_sum0 != 0.0f ? lse0 : empty;
    if (warp_row + (mla_i32)g + 8 < w.q_len)
        *(float *)(to + 8 * a.lse_token_stride) = row_sum1 != 0.0f ? lse1 : empty;
}

// Rows that saw no key get O = 0.
const bool odd = quad & 1u;
char *out = (char *)a.out + token * a.out_token_stride + w.head * a.out_head_stride
            + (odd ? 16u : 0u) + (quad & 2u) * 4u;
@ for r = 0, 1 do
{
    const float factor = row_sum${r} != 0.0f ? 1.0f / row_sum${r} : 0.0f;
    const bool live = warp_row + (mla_i32)g${r == 1 and " + 8" or ""} < w.q_len;
@     if r == 1 then
    out += 8 * a.out_token_stride;
@     end
@     for c = 0, t.columns // 16 - 1 do
@         local i = 8 * c + 2 * r
    store_pairs<${32 * c}>(out, pack2(o${i} * factor, o${i + 1} * factor),
                           pack2(o${i + 4} * factor, o${i + 5} * factor), odd, live);
@     end
}
@ end
