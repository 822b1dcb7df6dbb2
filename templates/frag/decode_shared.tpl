@ -- SPDX-License-Identifier: Apache-2.0
@ -- What mqa_decode does with shared memory: asynchronous copies, fragments, exchange, barriers.
@ -- Input: half, the PTX name of the working dtype.  Offsets are template parameters so that they
@ -- become immediates of the address.
@ -- want, a set of: two_matrices, pairs (put2, get2), quads (put4, get4).
@ assert(half == "bf16" or half == "f16", "decode_shared.tpl: type")
// Keeps a lane's address in one register instead of being derived anew in every loop.
static __device__ __forceinline__ mla_u32 pinned(mla_u32 x)
{
    mla_u32 y;
    asm volatile("mov.b32 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

// Copies 16 bytes to shared memory without waiting; bytes 0 writes zeros and reads nothing.
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

@ if want.two_matrices then
// Two 8x8 matrices; lanes 0 to 15 name their rows.
template <int OFFSET>
static __device__ __forceinline__ uint2 two_matrices(mla_u32 row)
{
    uint2 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2+%3];"
                 : "=r"(v.x), "=r"(v.y)
                 : "r"(row), "n"(OFFSET)
                 : "memory");
    return v;
}

@ end
@ if want.quads then
template <int OFFSET>
static __device__ __forceinline__ void put4(mla_u32 to, float x, float y, float z, float w)
{
    asm volatile("st.shared.v4.f32 [%0+%1], {%2, %3, %4, %5};"
                 :
                 : "r"(to), "n"(OFFSET), "f"(x), "f"(y), "f"(z), "f"(w)
                 : "memory");
}

template <int OFFSET>
static __device__ __forceinline__ float4 get4(mla_u32 from)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4+%5];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(from), "n"(OFFSET)
                 : "memory");
    return v;
}

@ end
@ if want.pairs then
static __device__ __forceinline__ void put2(mla_u32 to, float x, float y)
{
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" : : "r"(to), "f"(x), "f"(y) : "memory");
}

static __device__ __forceinline__ float2 get2(mla_u32 from)
{
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                 : "=f"(v.x), "=f"(v.y)
                 : "r"(from)
                 : "memory");
    return v;
}

@ end
template <int OFFSET>
static __device__ __forceinline__ void put_word(mla_u32 to, mla_u32 x)
{
    asm volatile("st.shared.b32 [%0+%1], %2;" : : "r"(to), "n"(OFFSET), "r"(x) : "memory");
}

template <int OFFSET>
static __device__ __forceinline__ void put1(mla_u32 to, float x)
{
    asm volatile("st.shared.f32 [%0+%1], %2;" : : "r"(to), "n"(OFFSET), "f"(x) : "memory");
}

template <int OFFSET>
static __device__ __forceinline__ float get1(mla_u32 from)
{
    float x;
    asm volatile("ld.shared.f32 %0, [%1+%2];" : "=f"(x) : "r"(from), "n"(OFFSET) : "memory");
    return x;
}

// The two warps that share a tile of S wait for each other.
static __device__ __forceinline__ void pair_barrier(mla_u32 pair)
{
    asm volatile("barrier.cta.sync.aligned %0, 64;" ::"r"(pair + 1u) : "memory");
}

// A barrier of the block; true everywhere if `mine` is true anywhere.
static __device__ __forceinline__ bool barrier_any(bool mine)
{
    mla_u32 any;
    asm volatile("{\n\t.reg .pred p, q;\n\t"
                 "setp.ne.u32 p, %1, 0;\n\t"
                 "barrier.cta.red.or.aligned.pred q, 0, p;\n\t"
                 "selp.u32 %0, 1, 0, q;\n\t}"
                 : "=r"(any)
                 : "r"((mla_u32)mine)
                 : "memory");
    return any != 0u;
}

// c = A * B, 16 x 8 x 16, one warp.
static __device__ __forceinline__ void mma_new(float4 &c, mla_v4 a, mla_u32 b0, mla_u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.${half}.${half}.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
                 : "=f"(c.x), "=f"(c.y), "=f"(c.z), "=f"(c.w)
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1), "f"(0.0f));
}
