@ -- SPDX-License-Identifier: Apache-2.0
@ -- LSE of the thread's row r (0 or 1), to its slot or to the output.  Inputs: t, H, lse, r; in the text
@ -- sum and reference of the row, w, me, live (rows that exist).
@ local empty = lse.empty == "-inf" and "0xff800000u" or "0x7f800000u"
@ local down = r > 0 and " + 8" or ""
if ((mla_i32)me.row${down} < live) {
    const float log2_sum = log_2(sum${r}) + reference${r};
    const float natural = sum${r} != 0.0f ? log2_sum * ${f32(0.6931471805599453)}
                                       : __uint_as_float(0xff800000u);
    const mla_i32 row = w.first_row + (mla_i32)me.row${down};
    if (w.slot >= 0) {
        a.partial_lse[(mla_i64)w.slot * ${t.m} + row % ${t.m}] = natural;
    } else if (a.lse) {
        char *lse = (char *)a.lse + w.request * a.lse_batch_stride
                    + row / ${H} * a.lse_token_stride
                    + row % ${H} * a.lse_head_stride;
        *(float *)lse = ${lse.base == "2" and "sum" .. r .. " != 0.0f ? log2_sum : __uint_as_float(" .. empty .. ")" or lse.empty == "-inf" and "natural" or "sum" .. r .. " != 0.0f ? natural : __uint_as_float(" .. empty .. ")"};
    }
}
