@ -- SPDX-License-Identifier: Apache-2.0
@ -- Rotates four pairs in fp32 and rounds once.  Inputs: style, interleaved or neox; width of the
@ -- rotary part.  Needs frag/convert with both conversions.
@ --
@ -- A pair (x, y) with angle t becomes (x cos t - y sin t, y cos t + x sin t) (RoFormer, arXiv
@ -- 2104.09864).  Interleaved: pair i is values 2i and 2i + 1, so that four pairs are one vector of
@ -- 16 bytes.  NeoX: pair i is values i and i + width / 2, so that four pairs are 8 bytes of either
@ -- half; load_pairs puts them side by side: the x's in v.x and v.y, their y's in v.z and v.w.
@ assert(style == "interleaved" or style == "neox", "rope.tpl: style")
@ if style == "interleaved" then
// Rotates the pair in a register; c and s are its cosine and sine as float bits.
static __device__ __forceinline__ mla_u32 rotate2(mla_u32 pair, mla_u32 c, mla_u32 s)
{
    const float x = lo_f32(pair);
    const float y = hi_f32(pair);
    const float cosine = __uint_as_float(c);
    const float sine = __uint_as_float(s);
    return pack2(x * cosine - y * sine, y * cosine + x * sine);
}

// Rotates four neighbouring pairs.
static __device__ __forceinline__ mla_v4 rotate8(mla_v4 v, mla_v4 c, mla_v4 s)
{
    v.x = rotate2(v.x, c.x, s.x);
    v.y = rotate2(v.y, c.y, s.y);
    v.z = rotate2(v.z, c.z, s.z);
    v.w = rotate2(v.w, c.w, s.w);
    return v;
}
@ else
// Reads four values of the first half of a row and their partners in the second.
static __device__ __forceinline__ mla_v4 load_pairs(const char *p)
{
    mla_v4 v;
    asm volatile("ld.global.v2.u32 {%0, %1}, [%4];\n\t"
                 "ld.global.v2.u32 {%2, %3}, [%4 + ${width}];"
                 : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

static __device__ __forceinline__ void store_pairs(char *p, mla_v4 v)
{
    asm volatile("st.global.v2.u32 [%0], {%1, %2};\n\t"
                 "st.global.v2.u32 [%0 + ${width}], {%3, %4};"
                 :
                 : "l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

// Rotates two pairs, the x's in one register and the y's in the other; c and s are their cosines
// and sines as float bits.
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

// Rotates four pairs.
static __device__ __forceinline__ mla_v4 rotate8(mla_v4 v, mla_v4 c, mla_v4 s)
{
    rotate2(v.x, v.z, c.x, c.y, s.x, s.y);
    rotate2(v.y, v.w, c.z, c.w, s.z, s.w);
    return v;
}
@ end
