// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// rope_q: RoPE (neox) of the last 32 columns of q, in place; rows are multiplied by a factor that
// grows with the position.
//
// overrides  none
// command    mlagen gen odd.yaml
//
// tile       block: one token, 64 heads of 4 threads
// bytes      per token and head 160 in + 160 out, 128 of cos/sin per token (floor)
namespace mla_rope_q_odd_fp16_h5_p1_sm_90_ns {

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

// The values of a pair of fp16.
static __device__ __forceinline__ float lo_f32(mla_u32 pair)
{
    float value;
    asm("{\n\t.reg .b16 lo, hi;\n\t"
        "mov.b32 {lo, hi}, %1;\n\t"
        "cvt.f32.f16 %0, lo;\n\t}"
        : "=f"(value)
        : "r"(pair));
    return value;
}

static __device__ __forceinline__ float hi_f32(mla_u32 pair)
{
    return lo_f32(pair >> 16);
}

// Rounds two floats to nearest-even; `lo` goes to the lower half.
static __device__ __forceinline__ mla_u32 pack2(float lo, float hi)
{
    mla_u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;"
        : "=r"(pair)
        : "f"(hi), "f"(lo));
    return pair;
}

// Reads four values of the first half of a row and their partners in the second.
static __device__ __forceinline__ mla_v4 load_pairs(const char *p)
{
    mla_v4 v;
    asm volatile("ld.global.v2.u32 {%0, %1}, [%4];\n\t"
                 "ld.global.v2.u32 {%2, %3}, [%4 + 32];"
                 : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

static __device__ __forceinline__ void store_pairs(char *p, mla_v4 v)
{
    asm volatile("st.global.v2.u32 [%0], {%1, %2};\n\t"
                 "st.global.v2.u32 [%0 + 32], {%3, %4};"
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

static __device__ __forceinline__ float position_factor(mla_i64 position)
{
    return 1.0f + 0.1f * logf(1.0f + (float)(position / 64));
}

// Four floats in a vector, times a factor.
static __device__ __forceinline__ mla_v4 times4(mla_v4 v, float factor)
{
    v.x = __float_as_uint(__uint_as_float(v.x) * factor);
    v.y = __float_as_uint(__uint_as_float(v.y) * factor);
    v.z = __float_as_uint(__uint_as_float(v.z) * factor);
    v.w = __float_as_uint(__uint_as_float(v.w) * factor);
    return v;
}

// A pair times a factor, rounded once.
static __device__ __forceinline__ mla_u32 times2(mla_u32 pair, float factor)
{
    return pack2(lo_f32(pair) * factor, hi_f32(pair) * factor);
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
mla_rope_q_odd_fp16_h5_p1_sm_90(const mla_rope_q_args a)
{
    const mla_u32 part = threadIdx.x % 4u;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    const mla_i64 position = a.positions[blockIdx.x];
    const char *const angles = (const char *)a.cos_sin + position * a.cos_sin_stride + 16u * part;
    const float factor = position_factor(position);
    const mla_v4 cosines = times4(load16(angles), factor);
    const mla_v4 sines = times4(load16(angles + 64), factor);
    char *const token = (char *)a.q + (mla_i64)blockIdx.x * a.q_token_stride;
    const mla_u32 first = blockIdx.y * 64u + threadIdx.x / 4u;
#pragma unroll 1
    for (mla_u32 head = first; head < (mla_u32)a.heads; head += gridDim.y * 64u) {
        char *const row = token + (mla_i64)head * a.q_head_stride;
#pragma unroll 1
        for (mla_u32 i = part; i < 6u; i += 4u) {
            const mla_v4 v = load16(row + 16u * i);
            const mla_v4 y = {times2(v.x, factor), times2(v.y, factor), times2(v.z, factor),
                              times2(v.w, factor)};
            store16(row + 16u * i, y);
        }
        char *const rope = row + 96u + 8u * part;
        store_pairs(rope, rotate8(load_pairs(rope), cosines, sines));
    }
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_rope_q_odd_fp16_h5_p1_sm_90_launch(
    const mla_rope_q_args *a, void *stream)
{
    if (!a)
        return cudaErrorInvalidValue;
    if (a->heads < 0 || a->tokens < 0)
        return cudaErrorInvalidValue;
    const mla_u64 grid_x = (mla_u64)a->tokens;
    const mla_u64 grid_y = ((mla_u64)a->heads + 63) / 64;
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
        (const void *)mla_rope_q_odd_fp16_h5_p1_sm_90;
    const dim3 grid((mla_u32)grid_x,
                        (mla_u32)(grid_y < 65535ull ? grid_y : 65535ull),
                        (mla_u32)grid_z);
    const dim3 block(256, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 0, (cudaStream_t)stream);
}
#endif

} // namespace mla_rope_q_odd_fp16_h5_p1_sm_90_ns
