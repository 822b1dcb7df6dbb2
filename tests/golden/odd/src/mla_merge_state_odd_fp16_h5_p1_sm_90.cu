// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// merge_state: (O, LSE) + (O, LSE) over disjoint keys, LSE to base 2, empty = +inf; an empty side
// is never read.
//
// overrides  none
// command    mlagen gen odd.yaml
//
// tile       warp: 4 rows, 8 lanes each, 2 x 2 vectors per lane; 16 tokens share 5 blocks
// smem       none
// registers  about 40
// lse        base 2, empty +inf
// bytes      per row 456 in + 228 out (floor); an empty side saves 224
namespace mla_merge_state_odd_fp16_h5_p1_sm_90_ns {

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
mla_merge_state_odd_fp16_h5_p1_sm_90(const mla_merge_state_args a)
{
    const mla_u32 lane = threadIdx.x % 8u;
    const mla_u32 column = lane * 16;
    const mla_u32 row = blockIdx.y * 16u + threadIdx.x / 8u;
    const mla_u32 token = blockIdx.x * 16u + row / 5u;
    const mla_u32 head = row % 5u;
    const bool live = token < (mla_u32)a.tokens;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");

    // The LSE of both sides, then O of the sides that are not empty.
    const float empty = __uint_as_float(0x7f800000u);
    float lse_a = empty;
    float lse_b = empty;
    if (live) {
        lse_a = *lse_at(a.lse_a, a.lse_a_token_stride, a.lse_a_head_stride, token, head);
        lse_b = *lse_at(a.lse_b, a.lse_b_token_stride, a.lse_b_head_stride, token, head);
    }
    const bool has_a = !is_empty(lse_a);
    const bool has_b = !is_empty(lse_b);
    mla_v4 a0 = {0, 0, 0, 0};
    mla_v4 a1 = {0, 0, 0, 0};
    mla_v4 b0 = {0, 0, 0, 0};
    mla_v4 b1 = {0, 0, 0, 0};
    if (has_a) {
        const char *from = (const char *)a.o_a + (mla_i64)token * a.o_a_token_stride
                           + (mla_i64)head * a.o_a_head_stride + column;
        a0 = load_stream16(from);
        if (lane < 6)
            a1 = load_stream16(from + 128);
    }
    if (has_b) {
        const char *from = (const char *)a.o_b + (mla_i64)token * a.o_b_token_stride
                           + (mla_i64)head * a.o_b_head_stride + column;
        b0 = load_stream16(from);
        if (lane < 6)
            b1 = load_stream16(from + 128);
    }

    // All lanes of a row have read its LSE before lane 0 may overwrite it in place.
    __syncwarp();
    if (!live)
        return;
    float lse = has_a ? lse_a : has_b ? lse_b : empty;
    if (has_a && has_b) {
        const float top = fmaxf(lse_a, lse_b);
        const float part_a = exp_2(lse_a - top);
        const float part_b = exp_2(lse_b - top);
        const float total = part_a + part_b;
        const float wa = part_a / total;
        const float wb = part_b / total;
        lse = top + log_2(total);
        a0 = blend8(a0, b0, wa, wb);
        a1 = blend8(a1, b1, wa, wb);
    } else if (has_b) {
        a0 = b0;
        a1 = b1;
    }

    // Stores; with both sides empty the row is still zero.
    char *out = (char *)a.o + (mla_i64)token * a.o_token_stride
                + (mla_i64)head * a.o_head_stride + column;
    store16(out, a0);
    if (lane < 6)
        store16(out + 128, a1);
    if (lane == 0)
        *lse_at(a.lse, a.lse_token_stride, a.lse_head_stride, token, head) = lse;
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_merge_state_odd_fp16_h5_p1_sm_90_launch(
    const mla_merge_state_args *a, void *stream)
{
    if (!a)
        return cudaErrorInvalidValue;
    if (a->tokens < 0)
        return cudaErrorInvalidValue;
    const mla_u64 grid_x = ((mla_u64)a->tokens + 15) / 16;
    const mla_u64 grid_y = 5ull;
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
        (const void *)mla_merge_state_odd_fp16_h5_p1_sm_90;
    const dim3 grid((mla_u32)grid_x, (mla_u32)grid_y, (mla_u32)grid_z);
    const dim3 block(128, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 0, (cudaStream_t)stream);
}
#endif

} // namespace mla_merge_state_odd_fp16_h5_p1_sm_90_ns
