@ -- SPDX-License-Identifier: Apache-2.0
@ -- The item's O, divided by the sums, to the output or to its slot.  Inputs: t, d, H.
const mla_i32 rows = a.q_len * ${H} - w.first_row; // that exist
@ for r = 0, 1 do
@     local down = r > 0 and " + 8" or ""
if ((mla_i32)me.row${down} < rows) {
    const mla_i32 row = w.first_row + (mla_i32)me.row${down};
    if (w.slot >= 0) {
        float *to = a.partial_o + ((mla_i64)w.slot * ${t.m} + row % ${t.m}) * ${d.latent}
                    + ${d.latent // 2}u * half + 2u * (me.lane % 4u);
@     for j = 0, d.latent // 16 - 1 do
@         local i = 4 * j + 2 * r
        *(float2 *)(to + ${8 * j}) = make_float2(o${i} * factor${r}, o${i + 1} * factor${r});
@     end
    } else {
        char *to = (char *)a.out + w.request * a.out_batch_stride
                   + row / ${H} * a.out_token_stride + row % ${H} * a.out_head_stride
                   + ${d.latent}u * half + 4u * (me.lane % 4u);
@     for j = 0, d.latent // 16 - 1 do
@         local i = 4 * j + 2 * r
        *(mla_u32 *)(to + ${16 * j}) = pack2(o${i} * factor${r}, o${i + 1} * factor${r});
@     end
    }
}
@ end
