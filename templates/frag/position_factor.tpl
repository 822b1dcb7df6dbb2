@ -- SPDX-License-Identifier: Apache-2.0
@ -- The factor of q at a position, 1 + beta ln(1 + floor(position / original)), which keeps the
@ -- attention of long contexts from flattening (Llama 4; Mistral's llama_4_scaling).  Input: scale,
@ -- the spec's q_position_scale.  logf is the accurate one: kernels are built without fast maths.
@ local original = scale.original_max_position_embeddings
static __device__ __forceinline__ float position_factor(mla_i64 position)
{
    return 1.0f + ${f32(scale.beta)} * logf(1.0f + (float)(position / ${original}));
}

// Four floats in a vector, times a factor.
static __device__ __forceinline__ mla_v4 times4(mla_v4 v, float factor)
{
@ for _, r in ipairs({"x", "y", "z", "w"}) do
    v.${r} = __float_as_uint(__uint_as_float(v.${r}) * factor);
@ end
    return v;
}
