@ -- SPDX-License-Identifier: Apache-2.0
@ -- What the kernels of merge_state know about LSEs.  No inputs.
// Infinite or NaN: the LSE of an empty set.
static __device__ __forceinline__ bool is_empty(float lse)
{
    return (__float_as_uint(lse) & 0x7f800000u) == 0x7f800000u;
}

// One value of a [tokens, H] tensor with strides in bytes.
static __device__ __forceinline__ float *lse_at(const void *p, mla_i64 token_stride,
                                                mla_i64 head_stride, mla_u32 token, mla_u32 head)
{
    return (float *)((char *)p + (mla_i64)token * token_stride + (mla_i64)head * head_stride);
}
