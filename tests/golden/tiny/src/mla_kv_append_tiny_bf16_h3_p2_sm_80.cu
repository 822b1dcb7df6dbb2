// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// kv_append: RMSNorm of the latent, RoPE (interleaved) of the key, both written to its slot.
//
// overrides  none
// command    mlagen gen tiny.yaml
//
// tile       warp: 8 tokens, 4 lanes each, 1 vector of latent per lane; block: 64 tokens
// smem       32 bytes static: the norm weights
// registers  about 32
// bytes      per token 64 in + 64 out + 64 of cos/sin + indices (floor); the weights (32) once per
//            block
namespace mla_kv_append_tiny_bf16_h3_p2_sm_80_ns {

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

// Reads 16 bytes that are needed once.
static __device__ __forceinline__ mla_v4 load_stream16(const void *p)
{
    mla_v4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
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

// Adds the squares of eight values.
static __device__ __forceinline__ float add_squares(float sum, mla_v4 v)
{
    sum += lo_f32(v.x) * lo_f32(v.x);
    sum += hi_f32(v.x) * hi_f32(v.x);
    sum += lo_f32(v.y) * lo_f32(v.y);
    sum += hi_f32(v.y) * hi_f32(v.y);
    sum += lo_f32(v.z) * lo_f32(v.z);
    sum += hi_f32(v.z) * hi_f32(v.z);
    sum += lo_f32(v.w) * lo_f32(v.w);
    sum += hi_f32(v.w) * hi_f32(v.w);
    return sum;
}

// value * scale * weight for a pair, rounded once.
static __device__ __forceinline__ mla_u32 scale2(mla_u32 pair, mla_u32 weights, float scale)
{
    return pack2(lo_f32(pair) * scale * lo_f32(weights), hi_f32(pair) * scale * hi_f32(weights));
}

static __device__ __forceinline__ mla_v4 scale8(mla_v4 v, mla_v4 weights, float scale)
{
    v.x = scale2(v.x, weights.x, scale);
    v.y = scale2(v.y, weights.y, scale);
    v.z = scale2(v.z, weights.z, scale);
    v.w = scale2(v.w, weights.w, scale);
    return v;
}

struct mla_kv_append_args {
    const void *latent;       // [tokens, R]
    mla_i64 latent_stride;    // latent from token to token, bytes
    const void *k_rope;       // [tokens, DR]
    mla_i64 k_rope_stride;    // k_rope from token to token, bytes
    const void *norm_weight;  // [R]; NULL: no norm
    float norm_eps;           // epsilon of the norm
    const float *cos_sin;     // [positions, cos DR/2 | sin DR/2]
    mla_i64 cos_sin_stride;   // cos_sin from position to position, bytes
    const mla_i64 *positions; // [tokens], row of cos_sin
    const mla_i64 *slots;     // [tokens], page * P + row, distinct; < 0: skip
    void *kv_cache;           // [pages, P, R + DR]
    mla_i64 page_stride;      // kv_cache from page to page, bytes
    mla_i64 row_stride;       // kv_cache from row to row of a page, bytes
    mla_i32 tokens;           // tokens
};

extern "C" __global__ void __launch_bounds__(256)
mla_kv_append_tiny_bf16_h3_p2_sm_80(const mla_kv_append_args a)
{
    __shared__ mla_v4 s_weight[2];
    const mla_u32 lane = threadIdx.x % 4u;
    const mla_u32 token = blockIdx.x * 64u + threadIdx.x / 4u;
    const mla_u32 column = lane * 16;
    const bool norm = a.norm_weight != 0;

    // Everything that depends on nothing: weights, slot, position, latent, rope.
    mla_v4 weight = {0, 0, 0, 0};
    if (norm && threadIdx.x < 2)
        weight = load16((const char *)a.norm_weight + threadIdx.x * 16);
    mla_i64 slot = -1;
    mla_i64 position = 0;
    mla_v4 latent0 = {0, 0, 0, 0};
    mla_v4 rope0 = {0, 0, 0, 0};
    if (token < (mla_u32)a.tokens) {
        slot = a.slots[token];
        position = a.positions[token];
        const char *latent = (const char *)a.latent + (mla_i64)token * a.latent_stride + column;
        if (lane < 2)
            latent0 = load_stream16(latent);
        const char *rope = (const char *)a.k_rope + (mla_i64)token * a.k_rope_stride + column;
        if (lane < 2)
            rope0 = load_stream16(rope);
    }

    // The angles of the position; a skipped token's position may be anything.
    mla_v4 cos0 = {0, 0, 0, 0};
    mla_v4 sin0 = {0, 0, 0, 0};
    if (slot >= 0) {
        const char *angles = (const char *)a.cos_sin + position * a.cos_sin_stride + column;
        if (lane < 2) {
            cos0 = load16(angles);
            sin0 = load16(angles + 32);
        }
    }

    // RMSNorm: every lane of a token gets the sum of its squares.
    if (norm) {
        if (threadIdx.x < 2)
            s_weight[threadIdx.x] = weight;
        __syncthreads();
        float sum = 0.0f;
        sum = add_squares(sum, latent0);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        const float scale = rsqrtf(sum * 0.0625f + a.norm_eps);
        if (lane < 2)
            latent0 = scale8(latent0, s_weight[lane], scale);
    }
    if (slot < 0)
        return;

    // The row of the slot.
    char *out = (char *)a.kv_cache + (slot >> 1) * a.page_stride + column;
    out += (slot & 1) * a.row_stride;
    if (lane < 2)
        store16(out, latent0);
    if (lane < 2)
        store16(out + 32, rotate8(rope0, cos0, sin0));
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_kv_append_tiny_bf16_h3_p2_sm_80_launch(
    const mla_kv_append_args *a, void *stream)
{
    if (!a)
        return cudaErrorInvalidValue;
    if (a->tokens < 0)
        return cudaErrorInvalidValue;
    const mla_u64 grid_x = ((mla_u64)a->tokens + 63) / 64;
    const mla_u64 grid_y = 1ull;
    const mla_u64 grid_z = 1ull;
    if (grid_x == 0)
        return cudaSuccess;
    if (!a->latent || !a->k_rope || !a->cos_sin || !a->positions || !a->slots || !a->kv_cache)
        return cudaErrorInvalidValue;
    const mla_u64 low16 = (mla_u64)a->latent | (mla_u64)a->latent_stride | (mla_u64)a->k_rope
        | (mla_u64)a->k_rope_stride | (mla_u64)a->norm_weight | (mla_u64)a->cos_sin
        | (mla_u64)a->cos_sin_stride | (mla_u64)a->kv_cache | (mla_u64)a->page_stride
        | (mla_u64)a->row_stride;
    if (low16 & 15)
        return cudaErrorMisalignedAddress;
    const mla_u64 low8 = (mla_u64)a->positions | (mla_u64)a->slots;
    if (low8 & 7)
        return cudaErrorMisalignedAddress;
    const void *kernel =
        (const void *)mla_kv_append_tiny_bf16_h3_p2_sm_80;
    const dim3 grid((mla_u32)grid_x, (mla_u32)grid_y, (mla_u32)grid_z);
    const dim3 block(256, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 0, (cudaStream_t)stream);
}
#endif

} // namespace mla_kv_append_tiny_bf16_h3_p2_sm_80_ns
