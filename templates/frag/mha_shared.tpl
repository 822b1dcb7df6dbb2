@ -- SPDX-License-Identifier: Apache-2.0
@ -- What mha does with shared memory: asynchronous copies, fragments, the way out of O.
@ -- Inputs: half, the PTX name of the working dtype; steps, whether 64-bit values are pinned too;
@ -- fresh, whether S begins with its first product.
@ -- Offsets are template parameters so that they become immediates of the address.
@ assert(half == "bf16" or half == "f16", "mha_shared.tpl: type")
// Read anew at every call, instead of being kept.
static __device__ __forceinline__ mla_u32 thread_index()
{
    mla_u32 tid;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(tid));
    return tid;
}

// Keeps a lane's address in one register instead of being derived anew in every loop.
static __device__ __forceinline__ mla_u32 pinned(mla_u32 x)
{
    mla_u32 y;
    asm volatile("mov.b32 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

@ if steps then
static __device__ __forceinline__ mla_i64 pinned_wide(mla_i64 x)
{
    mla_i64 y;
    asm volatile("mov.b64 %0, %1;" : "=l"(y) : "l"(x));
    return y;
}

@ end
// The same value, of which the compiler knows nothing.
static __device__ __forceinline__ float hidden(float x)
{
    float y;
    asm volatile("mov.b32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Zeros that are made once, not anew for every way into and past a loop.
static __device__ __forceinline__ float4 zeros()
{
    float4 v;
    asm volatile("mov.b64 {%0, %1}, %2;" : "=f"(v.x), "=f"(v.y) : "l"(0ll));
    asm volatile("mov.b64 {%0, %1}, %2;" : "=f"(v.z), "=f"(v.w) : "l"(0ll));
    return v;
}

// Copies 16 bytes to shared memory without waiting.
template <int TO, int FROM>
static __device__ __forceinline__ void copy16(mla_u32 to, const char *from)
{
    asm volatile("cp.async.cg.shared.global [%0+%2], [%1+%3], 16;"
                 :
                 : "r"(to), "l"(from), "n"(TO), "n"(FROM)
                 : "memory");
}

// The same; bytes 0 writes zeros and reads nothing.
template <int TO, int FROM>
static __device__ __forceinline__ void copy16(mla_u32 to, const char *from, mla_u32 bytes)
{
    asm volatile("cp.async.cg.shared.global [%0+%2], [%1+%3], 16, %4;"
                 :
                 : "r"(to), "l"(from), "n"(TO), "n"(FROM), "r"(bytes)
                 : "memory");
}

static __device__ __forceinline__ void copies_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most PENDING of this thread's youngest groups are in flight.
template <int PENDING>
static __device__ __forceinline__ void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Four 8x8 matrices; lane 8j + r names row r of matrix j.
template <int OFFSET>
static __device__ __forceinline__ mla_v4 matrices(mla_u32 row)
{
    mla_v4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4+%5];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(row), "n"(OFFSET)
                 : "memory");
    return v;
}

// The same, each matrix transposed.
template <int OFFSET>
static __device__ __forceinline__ mla_v4 matrices_transposed(mla_u32 row)
{
    mla_v4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4+%5];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(row), "n"(OFFSET)
                 : "memory");
    return v;
}

// The value of lane ^ DISTANCE.
template <int DISTANCE>
static __device__ __forceinline__ float butterfly(float x)
{
    float y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=f"(y) : "f"(x), "n"(DISTANCE));
    return y;
}

template <int OFFSET>
static __device__ __forceinline__ void put_word(mla_u32 to, mla_u32 x)
{
    asm volatile("st.shared.b32 [%0+%1], %2;" : : "r"(to), "n"(OFFSET), "r"(x) : "memory");
}

template <int OFFSET>
static __device__ __forceinline__ mla_v4 get_words(mla_u32 from)
{
    mla_v4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4+%5];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from), "n"(OFFSET)
                 : "memory");
    return v;
}
@ if fresh then

// c = A * B, 16 x 8 x 16, one warp.
static __device__ __forceinline__ void mma_new(float4 &c, mla_v4 a, mla_u32 b0, mla_u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.${half}.${half}.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
                 : "=f"(c.x), "=f"(c.y), "=f"(c.z), "=f"(c.w)
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1), "f"(0.0f));
}
@ end
