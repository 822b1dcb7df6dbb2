// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// kv_append: RMSNorm of the latent times 2.5, RoPE (neox) of the key, both written to its slot.
//
// overrides  none
// command    mlagen gen odd.yaml
//
// tile       warp: 8 tokens, 4 lanes each, 3 vectors of latent per lane; block: 64 tokens
// smem       160 bytes static: the norm weights
// registers  about 56
// bytes      per token 224 in + 224 out + 128 of cos/sin + indices (floor); the weights (160) once
//            per block
namespace mla_kv_append_odd_fp16_h5_p1_sm_90_ns {

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

// value * scale for eight values, each rounded once.
static __device__ __forceinline__ mla_v4 times8(mla_v4 v, float scale)
{
    v.x = pack2(lo_f32(v.x) * scale, hi_f32(v.x) * scale);
    v.y = pack2(lo_f32(v.y) * scale, hi_f32(v.y) * scale);
    v.z = pack2(lo_f32(v.z) * scale, hi_f32(v.z) * scale);
    v.w = pack2(lo_f32(v.w) * scale, hi_f32(v.w) * scale);
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
mla_kv_append_odd_fp16_h5_p1_sm_90(const mla_kv_append_args a)
{
    __shared__ mla_v4 s_weight[10];
    const mla_u32 lane = threadIdx.x % 4u;
    const mla_u32 token = blockIdx.x * 64u + threadIdx.x / 4u;
    const mla_u32 column = lane * 16;
    const bool norm = a.norm_weight != 0;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");

    // Everything that depends on nothing: weights, slot, position, latent, rope.
    mla_v4 weight = {0, 0, 0, 0};
    if (norm && threadIdx.x < 10)
        weight = load16((const char *)a.norm_weight + threadIdx.x * 16);
    mla_i64 slot = -1;
    mla_i64 position = 0;
    mla_v4 latent0 = {0, 0, 0, 0};
    mla_v4 latent1 = {0, 0, 0, 0};
    mla_v4 latent2 = {0, 0, 0, 0};
    mla_v4 rope0 = {0, 0, 0, 0};
    if (token < (mla_u32)a.tokens) {
        slot = a.slots[token];
        position = a.positions[token];
        const char *latent = (const char *)a.latent + (mla_i64)token * a.latent_stride + column;
        latent0 = load_stream16(latent);
        latent1 = load_stream16(latent + 64);
        if (lane < 2)
            latent2 = load_stream16(latent + 128);
        const char *rope = (const char *)a.k_rope + (mla_i64)token * a.k_rope_stride + lane * 8;
        rope0 = load_pairs(rope);
    }

    // The angles of the position; a skipped token's position may be anything.
    mla_v4 cos0 = {0, 0, 0, 0};
    mla_v4 sin0 = {0, 0, 0, 0};
    if (slot >= 0) {
        const char *angles = (const char *)a.cos_sin + position * a.cos_sin_stride + column;
        cos0 = load16(angles);
        sin0 = load16(angles + 64);
    }

    // RMSNorm: every lane of a token gets the sum of its squares.
    if (norm) {
        if (threadIdx.x < 10)
            s_weight[threadIdx.x] = weight;
        __syncthreads();
        float sum = 0.0f;
        sum = add_squares(sum, latent0);
        sum = add_squares(sum, latent1);
        sum = add_squares(sum, latent2);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        const float scale = rsqrtf(sum * 0.0125f + a.norm_eps) * 2.5f;
        latent0 = scale8(latent0, s_weight[lane], scale);
        latent1 = scale8(latent1, s_weight[lane + 4], scale);
        if (lane < 2)
            latent2 = scale8(latent2, s_weight[lane + 8], scale);
    } else {
        latent0 = times8(latent0, 2.5f);
        latent1 = times8(latent1, 2.5f);
        latent2 = times8(latent2, 2.5f);
    }
    if (slot < 0)
        return;

    // The row of the slot.
    char *out = (char *)a.kv_cache + (slot) * a.page_stride + column;
    store16(out, latent0);
    store16(out + 64, latent1);
    if (lane < 2)
        store16(out + 128, latent2);
    out -= column - lane * 8;
    store_pairs(out + 160, rotate8(rope0, cos0, sin0));
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_kv_append_odd_fp16_h5_p1_sm_90_launch(
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
        (const void *)mla_kv_append_odd_fp16_h5_p1_sm_90;
    const dim3 grid((mla_u32)grid_x, (mla_u32)grid_y, (mla_u32)grid_z);
    const dim3 block(256, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 0, (cudaStream_t)stream);
}
#endif

} // namespace mla_kv_append_odd_fp16_h5_p1_sm_90_ns
