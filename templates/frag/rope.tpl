@ -- SPDX-License-Identifier: Apache-2.0
@ -- Rotates eight values in fp32 and rounds once: the pairs (x, y) of four angles per register.
@ -- Inputs: style, interleaved or neox; dtype names nothing here (frag/convert is needed first).
@ --
@ -- A pair (x, y) with angle t becomes (x cos t - y sin t, y cos t + x sin t).  Interleaved:
@ -- the pair is the two halves of a register.  NeoX: x is in the first half of the row, y at the
@ -- same column of the second half, so two vectors rotate together (RoFormer, arXiv 2104.09864,
@ -- and GPT-NeoX's ordering of the same planes).
@ assert(style == "interleaved" or style == "neox", "rope.tpl: style")
@ if style == "interleaved" then
// Rotates the pair in a register by the angle whose cosine and sine are c and s.
static __device__ __forceinline__ mla_u32 rotate2(mla_u32 pair, float c, float s)
{
    const float x = lo_f32(pair);
    const float y = hi_f32(pair);
    return pack2(x * c - y * s, y * c + x * s);
}

// Rotates four neighbouring pairs; c and s hold their cosines and sines as float bits.
static __device__ __forceinline__ mla_v4 rotate8(mla_v4 v, mla_v4 c, mla_v4 s)
{
    v.x = rotate2(v.x, __uint_as_float(c.x), __uint_as_float(s.x));
    v.y = rotate2(v.y, __uint_as_float(c.y), __uint_as_float(s.y));
    v.z = rotate2(v.z, __uint_as_float(c.z), __uint_as_float(s.z));
    v.w = rotate2(v.w, __uint_as_float(c.w), __uint_as_float(s.w));
    return v;
}
@ else
// Rotates two pairs, x's in one register and y's in another, by two angles.
static __device__ __forceinline__ void rotate2(mla_u32 &x, mla_u32 &y, mla_u32 c0, mla_u32 c1,
                                               mla_u32 s0, mla_u32 s1)
{
    const float cos0 = __uint_as_float(c0);
    const float cos1 = __uint_as_float(c1);
    const float sin0 = __uint_as_float(s0);
    const float sin1 = __uint_as_float(s1);
    const float x0 = lo_f32(x);
    const float x1 = hi_f32(x);
    const float y0 = lo_f32(y);
    const float y1 = hi_f32(y);
    x = pack2(x0 * cos0 - y0 * sin0, x1 * cos1 - y1 * sin1);
    y = pack2(y0 * cos0 + x0 * sin0, y1 * cos1 + x1 * sin1);
}

// Rotates eight pairs; ca, cb and sa, sb hold their cosines and sines as float bits.
static __device__ __forceinline__ void rotate16(mla_v4 &x, mla_v4 &y, mla_v4 ca, mla_v4 cb,
                                                mla_v4 sa, mla_v4 sb)
{
    rotate2(x.x, y.x, ca.x, ca.y, sa.x, sa.y);
    rotate2(x.y, y.y, ca.z, ca.w, sa.z, sa.w);
    rotate2(x.z, y.z, cb.x, cb.y, sb.x, sb.y);
    rotate2(x.w, y.w, cb.z, cb.w, sb.z, sb.w);
}
@ end
