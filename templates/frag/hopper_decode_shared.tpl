@ -- SPDX-License-Identifier: Apache-2.0
@ -- Words, floats and fragments in shared memory, for mqa_decode on sm_90a.  Input: t.
// Hides from the compiler where x comes from: what follows from it is computed where it stands.
static __device__ __forceinline__ mla_u32 pinned(mla_u32 x)
{
    mla_u32 y;
    asm volatile("mov.b32 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

// Where a thread stands in its warpgroup: rows `row` and row + 8 of a tile are its own.
struct thread_place {
    mla_u32 warp, lane, row;
};
static __device__ __forceinline__ thread_place place()
{
    mla_u32 tid;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(tid));
    thread_place me;
    me.warp = tid / 32u % 4u;
    me.lane = tid % 32u;
    me.row = 16u * me.warp + me.lane / 4u;
    return me;
}

// Where a thread's first row of four matrices of P goes: rows of 128 bytes, swizzled.
static __device__ __forceinline__ mla_u32 weights_place()
{
    const thread_place me = place();
    const mla_u32 row = 16u * me.warp + me.lane % 16u;
    return row * 128u + ((me.lane / 16u ^ me.lane % 8u) << 4);
}

// exp(scale x) = 2^(x scale log2 e)
static __device__ __forceinline__ float exponent_scale(float scale)
{
    float y;
    asm volatile("mul.f32 %0, %1, %2;" : "=f"(y) : "f"(scale), "f"(${f32(1.4426950408889634)}));
    return y;
}

static __device__ __forceinline__ void put_word(mla_u32 to, mla_u32 x)
{
    asm volatile("st.shared.b32 [%0], %1;" : : "r"(to), "r"(x) : "memory");
}

static __device__ __forceinline__ mla_u32 get_word(mla_u32 from)
{
    mla_u32 x;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
    return x;
}

static __device__ __forceinline__ void put_float(mla_u32 to, float x)
{
    asm volatile("st.shared.f32 [%0], %1;" : : "r"(to), "f"(x) : "memory");
}

static __device__ __forceinline__ float get_float(mla_u32 from)
{
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
    return x;
}
@ if t.loader ~= "cp.async" then

static __device__ __forceinline__ void put_zeros(mla_u32 to)
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" : : "r"(to), "r"(0u) : "memory");
}
@ end
@ if t.q_shared > 0 then

static __device__ __forceinline__ void put_queries(mla_u32 to, mla_v4 v)
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}
@ end

// Four 8x8 matrices of P; lane 8j + r names row r of matrix j.
static __device__ __forceinline__ void put_weights(mla_u32 row, mla_u32 p0, mla_u32 p1,
                                                   mla_u32 p2, mla_u32 p3)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(row), "r"(p0), "r"(p1), "r"(p2), "r"(p3)
                 : "memory");
}
