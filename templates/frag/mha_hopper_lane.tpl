@ -- SPDX-License-Identifier: Apache-2.0
@ -- Scores and maxima of a consumer's lane of mha on sm_90a.  No inputs.
// A score of key KEY becomes -inf unless its row sees more keys than that.  Opaque, because a
// compiler that knows how these conditions imply each other makes a tree of branches of them.
template <int KEY>
static __device__ __forceinline__ void hide(float &score, mla_i32 sees)
{
    asm("{\n\t.reg .pred p;\n\t"
        "setp.gt.s32 p, %1, %2;\n\t"
        "selp.f32 %0, %0, 0fFF800000, p;\n\t}"
        : "+f"(score)
        : "r"(sees), "n"(KEY));
}

// The same for a lane's four scores of keys KEY and KEY + 1, of its upper and its lower row.
template <int KEY>
static __device__ __forceinline__ void hide_beyond(float &s0, float &s1, float &s2, float &s3,
                                                   mla_i32 upper, mla_i32 lower)
{
    hide<KEY>(s0, upper);
    hide<KEY + 1>(s1, upper);
    hide<KEY>(s2, lower);
    hide<KEY + 1>(s3, lower);
}

static __device__ __forceinline__ float minus_infinity()
{
    return __uint_as_float(0xff800000u);
}

// The value of lane ^ DISTANCE.
template <int DISTANCE>
static __device__ __forceinline__ float butterfly(float x)
{
    float y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=f"(y) : "f"(x), "n"(DISTANCE));
    return y;
}

// The greatest value in a quad of lanes.
static __device__ __forceinline__ float over_quad(float x)
{
    x = fmaxf(x, butterfly<1>(x));
    return fmaxf(x, butterfly<2>(x));
}
