@ -- SPDX-License-Identifier: Apache-2.0
@ -- refuse_unit: NaN in O and LSE of a unit that is not computed, so that nobody takes what was in
@ -- memory for a result.  Inputs: t (tile), d (dims), H, struct.
@ local nan2 = "0x7fff7fffu"
static __device__ __forceinline__ void refuse_unit(const ${struct} &a, mla_i32 request,
                                                   mla_i32 row_tile)
{
    for (mla_i32 i = threadIdx.x; i < ${t.m * d.latent // 2}; i += ${t.threads}) {
        const mla_i32 row = row_tile * ${t.m} + i / ${d.latent // 2};
        if (row >= a.q_len * ${H})
            return;
        const mla_i32 column = i % ${d.latent // 2};
        char *out = (char *)a.out + request * a.out_batch_stride
                    + row / ${H} * a.out_token_stride + row % ${H} * a.out_head_stride;
        ((mla_u32 *)out)[column] = ${nan2};
        if (a.lse && column == 0) {
            char *lse = (char *)a.lse + request * a.lse_batch_stride
                        + row / ${H} * a.lse_token_stride + row % ${H} * a.lse_head_stride;
            *(float *)lse = __uint_as_float(0x7fffffffu);
        }
    }
}
