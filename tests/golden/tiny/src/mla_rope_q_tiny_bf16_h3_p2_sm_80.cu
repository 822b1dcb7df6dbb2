// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// rope_q: RoPE (interleaved) of the last 16 columns of q, in place.
//
// overrides  none
// command    mlagen gen tiny.yaml
//
// tile       block: one token, 128 heads of 2 threads
// bytes      per token and head 32 in + 32 out, 64 of cos/sin per token (floor)
namespace mla_rope_q_tiny_bf16_h3_p2_sm_80_ns {

typedef unsigned int mla_u32;
typedef unsigned long long mla_u64;
typedef int mla_i32;
typedef long long mla_i64;

// Eight 16-bit values: the unit of every global access.
struct __align__(16) mla_v4 {
    mla_u32 x, y, z, w;
};

// Reads 16 bytes.
static __device__ __forceinline__ mla_v4 load16(const void *p)
{
    mla_v4 v;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

// Writes 16 bytes.
static __device__ __forceinline__ void store16(void *p, mla_v4 v)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

// The values of a pair; bf16 is the upper half of a float.
static __device__ __forceinline__ float lo_f32(mla_u32 pair)
{
    return __uint_as_float(pair << 16);
}

static __device__ __forceinline__ float hi_f32(mla_u32 pair)
{
    return __uint_as_float(pair & 0xffff0000u);
}

// Rounds two floats to nearest-even; `lo` goes to the lower half.
static __device__ __forceinline__ mla_u32 pack2(float lo, float hi)
{
    mla_u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
        : "=r"(pair)
        : "f"(hi), "f"(lo));
    return pair;
}

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

struct mla_rope_q_args {
    void *q;                  // [tokens][heads][nope + rope]
    mla_i64 q_token_stride;   // q, from token to token, bytes
    mla_i64 q_head_stride;    // q, from head to head, bytes
    const float *cos_sin;     // [positions][cos(rope/2) | sin(rope/2)]
    mla_i64 cos_sin_stride;   // cos_sin, from position to position, bytes
    const mla_i64 *positions; // [tokens], rows of cos_sin
    mla_i32 heads;            // heads of q
    mla_i32 tokens;           // tokens
};

extern "C" __global__ void __launch_bounds__(256)
mla_rope_q_tiny_bf16_h3_p2_sm_80(const mla_rope_q_args a)
{
    const mla_u32 part = threadIdx.x % 2u;
    const mla_i64 position = a.positions[blockIdx.x];
    const char *const angles = (const char *)a.cos_sin + position * a.cos_sin_stride + 16u * part;
    const mla_v4 cosines = load16(angles);
    const mla_v4 sines = load16(angles + 32);
    char *const token = (char *)a.q + (mla_i64)blockIdx.x * a.q_token_stride;
    const mla_u32 first = blockIdx.y * 128u + threadIdx.x / 2u;
#pragma unroll 1
    for (mla_u32 head = first; head < (mla_u32)a.heads; head += gridDim.y * 128u) {
        char *const row = token + (mla_i64)head * a.q_head_stride;
        char *const rope = row + 32u + 16u * part;
        store16(rope, rotate8(load16(rope), cosines, sines));
    }
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_rope_q_tiny_bf16_h3_p2_sm_80_launch(
    const mla_rope_q_args *a, void *stream)
{
    if (!a)
        return cudaErrorInvalidValue;
    if (a->heads < 0 || a->tokens < 0)
        return cudaErrorInvalidValue;
    const mla_u64 grid_x = (mla_u64)a->tokens;
    const mla_u64 grid_y = ((mla_u64)a->heads + 127) / 128;
    const mla_u64 grid_z = 1ull;
    if (grid_x == 0 || grid_y == 0)
        return cudaSuccess;
    if (!a->q || !a->cos_sin || !a->positions)
        return cudaErrorInvalidValue;
    const mla_u64 low16 = (mla_u64)a->q | (mla_u64)a->q_token_stride | (mla_u64)a->q_head_stride
        | (mla_u64)a->cos_sin | (mla_u64)a->cos_sin_stride;
    if (low16 & 15)
        return cudaErrorMisalignedAddress;
    const mla_u64 low8 = (mla_u64)a->positions;
    if (low8 & 7)
        return cudaErrorMisalignedAddress;
    const void *kernel =
        (const void *)mla_rope_q_tiny_bf16_h3_p2_sm_80;
    const dim3 grid((mla_u32)grid_x,
                        (mla_u32)(grid_y < 65535ull ? grid_y : 65535ull),
                        (mla_u32)grid_z);
    const dim3 block(256, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 0, (cudaStream_t)stream);
}
#endif

} // namespace mla_rope_q_tiny_bf16_h3_p2_sm_80_ns
