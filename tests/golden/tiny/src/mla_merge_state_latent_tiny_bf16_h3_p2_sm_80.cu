// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// merge_state: (O, LSE) + (O, LSE) over disjoint keys, LSE to base e, empty = -inf; an empty side
// is never read.
//
// overrides  none
// command    mlagen gen tiny.yaml
//
// tile       warp: 16 rows, 2 lanes each, 2 x 1 vector per lane; 64 tokens share 3 blocks
// smem       none
// registers  about 32
// lse        base e, empty -inf
// bytes      per row 72 in + 36 out (floor); an empty side saves 32
namespace mla_merge_state_latent_tiny_bf16_h3_p2_sm_80_ns {

typedef unsigned int mla_u32;
typedef unsigned long long mla_u64;
typedef int mla_i32;
typedef long long mla_i64;

// Eight 16-bit values: the unit of every global access.
struct __align__(16) mla_v4 {
    mla_u32 x, y, z, w;
};

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

static __device__ __forceinline__ float exp_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

static __device__ __forceinline__ float log_2(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

static __device__ __forceinline__ float exp_e(float x)
{
    return exp_2(x * 1.442695f);
}

static __device__ __forceinline__ float log_e(float x)
{
    return log_2(x) * 0.6931472f;
}

// Infinite or NaN: the LSE of an empty set.
static __device__ __forceinline__ bool is_empty(float lse)
{
    return (__float_as_uint(lse) & 0x7f800000u) == 0x7f800000u;
}

// One value of a [tokens, H] tensor with strides in bytes.
static __device__ __forceinline__ float *lse_at(const void *p, mla_i64 token_stride,
                                                mla_i64 head_stride, mla_u32 token, mla_u32 head)
{
    return (float *)((char *)p + (mla_i64)token * token_stride + (mla_i64)head * head_stride);
}

// a * wa + b * wb for a pair, rounded once.
static __device__ __forceinline__ mla_u32 blend2(mla_u32 a, mla_u32 b, float wa, float wb)
{
    return pack2(lo_f32(a) * wa + lo_f32(b) * wb, hi_f32(a) * wa + hi_f32(b) * wb);
}

static __device__ __forceinline__ mla_v4 blend8(mla_v4 a, mla_v4 b, float wa, float wb)
{
    a.x = blend2(a.x, b.x, wa, wb);
    a.y = blend2(a.y, b.y, wa, wb);
    a.z = blend2(a.z, b.z, wa, wb);
    a.w = blend2(a.w, b.w, wa, wb);
    return a;
}

struct mla_merge_state_args {
    const void *o_a;            // [tokens, H, D]
    mla_i64 o_a_token_stride;   // o_a from token to token, bytes
    mla_i64 o_a_head_stride;    // o_a from head to head, bytes
    const void *o_b;            // [tokens, H, D]
    mla_i64 o_b_token_stride;   // o_b from token to token, bytes
    mla_i64 o_b_head_stride;    // o_b from head to head, bytes
    const float *lse_a;         // [tokens, H]
    mla_i64 lse_a_token_stride; // lse_a from token to token, bytes
    mla_i64 lse_a_head_stride;  // lse_a from head to head, bytes
    const float *lse_b;         // [tokens, H]
    mla_i64 lse_b_token_stride; // lse_b from token to token, bytes
    mla_i64 lse_b_head_stride;  // lse_b from head to head, bytes
    void *o;                    // [tokens, H, D]; may be o_a or o_b
    mla_i64 o_token_stride;     // o from token to token, bytes
    mla_i64 o_head_stride;      // o from head to head, bytes
    float *lse;                 // [tokens, H]; may be lse_a or lse_b
    mla_i64 lse_token_stride;   // lse from token to token, bytes
    mla_i64 lse_head_stride;    // lse from head to head, bytes
    mla_i32 tokens;             // tokens
};

extern "C" __global__ void __launch_bounds__(128)
mla_merge_state_latent_tiny_bf16_h3_p2_sm_80(const mla_merge_state_args a)
{
    const mla_u32 lane = threadIdx.x % 2u;
    const mla_u32 column = lane * 16;
    const mla_u32 row = blockIdx.y * 64u + threadIdx.x / 2u;
    const mla_u32 token = blockIdx.x * 64u + row / 3u;
    const mla_u32 head = row % 3u;
    const bool live = token < (mla_u32)a.tokens;

    // The LSE of both sides, then O of the sides that are not empty.
    const float empty = __uint_as_float(0xff800000u);
    float lse_a = empty;
    float lse_b = empty;
    if (live) {
        lse_a = *lse_at(a.lse_a, a.lse_a_token_stride, a.lse_a_head_stride, token, head);
        lse_b = *lse_at(a.lse_b, a.lse_b_token_stride, a.lse_b_head_stride, token, head);
    }
    const bool has_a = !is_empty(lse_a);
    const bool has_b = !is_empty(lse_b);
    mla_v4 a0 = {0, 0, 0, 0};
    mla_v4 b0 = {0, 0, 0, 0};
    if (has_a) {
        const char *from = (const char *)a.o_a + (mla_i64)token * a.o_a_token_stride
                           + (mla_i64)head * a.o_a_head_stride + column;
        a0 = load_stream16(from);
    }
    if (has_b) {
        const char *from = (const char *)a.o_b + (mla_i64)token * a.o_b_token_stride
                           + (mla_i64)head * a.o_b_head_stride + column;
        b0 = load_stream16(from);
    }

    // All lanes of a row have read its LSE before lane 0 may overwrite it in place.
    __syncwarp();
    if (!live)
        return;
    float lse = has_a ? lse_a : has_b ? lse_b : empty;
    if (has_a && has_b) {
        const float top = fmaxf(lse_a, lse_b);
        const float part_a = exp_e(lse_a - top);
        const float part_b = exp_e(lse_b - top);
        const float total = part_a + part_b;
        const float wa = part_a / total;
        const float wb = part_b / total;
        lse = top + log_e(total);
        a0 = blend8(a0, b0, wa, wb);
    } else if (has_b) {
        a0 = b0;
    }

    // Stores; with both sides empty the row is still zero.
    char *out = (char *)a.o + (mla_i64)token * a.o_token_stride
                + (mla_i64)head * a.o_head_stride + column;
    store16(out, a0);
    if (lane == 0)
        *lse_at(a.lse, a.lse_token_stride, a.lse_head_stride, token, head) = lse;
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_merge_state_latent_tiny_bf16_h3_p2_sm_80_launch(
    const mla_merge_state_args *a, void *stream)
{
    if (!a)
        return cudaErrorInvalidValue;
    if (a->tokens < 0)
        return cudaErrorInvalidValue;
    const mla_u64 grid_x = ((mla_u64)a->tokens + 63) / 64;
    const mla_u64 grid_y = 3ull;
    const mla_u64 grid_z = 1ull;
    if (grid_x == 0)
        return cudaSuccess;
    if (!a->o_a || !a->o_b || !a->lse_a || !a->lse_b || !a->o || !a->lse)
        return cudaErrorInvalidValue;
    const mla_u64 low16 = (mla_u64)a->o_a | (mla_u64)a->o_a_token_stride
        | (mla_u64)a->o_a_head_stride | (mla_u64)a->o_b | (mla_u64)a->o_b_token_stride
        | (mla_u64)a->o_b_head_stride | (mla_u64)a->o | (mla_u64)a->o_token_stride
        | (mla_u64)a->o_head_stride;
    if (low16 & 15)
        return cudaErrorMisalignedAddress;
    const mla_u64 low4 = (mla_u64)a->lse_a | (mla_u64)a->lse_a_token_stride
        | (mla_u64)a->lse_a_head_stride | (mla_u64)a->lse_b | (mla_u64)a->lse_b_token_stride
        | (mla_u64)a->lse_b_head_stride | (mla_u64)a->lse | (mla_u64)a->lse_token_stride
        | (mla_u64)a->lse_head_stride;
    if (low4 & 3)
        return cudaErrorMisalignedAddress;
    const void *kernel =
        (const void *)mla_merge_state_latent_tiny_bf16_h3_p2_sm_80;
    const dim3 grid((mla_u32)grid_x, (mla_u32)grid_y, (mla_u32)grid_z);
    const dim3 block(128, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 0, (cudaStream_t)stream);
}
#endif

} // namespace mla_merge_state_latent_tiny_bf16_h3_p2_sm_80_ns
