// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// merge_state: any number of (O, LSE) over disjoint keys, LSE to base 2, empty = +inf; an empty
// side is never read.
//
// overrides  none
// command    mlagen gen odd.yaml
//
// tile       warp: 4 rows, 8 lanes each, 2 ranks x 2 vectors per lane in flight; 16 tokens share 5
//            blocks
// smem       none
// registers  about 68
// lse        base 2, empty +inf
// bytes      per row 228 for each rank in, 228 out (floor); an empty side saves 224
namespace mla_merge_state_n_odd_fp16_h5_p1_sm_90_ns {

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

// sum += weight * eight values.
static __device__ __forceinline__ void add8(float (&sum)[8], mla_v4 v, float weight)
{
    sum[0] += lo_f32(v.x) * weight;
    sum[1] += hi_f32(v.x) * weight;
    sum[2] += lo_f32(v.y) * weight;
    sum[3] += hi_f32(v.y) * weight;
    sum[4] += lo_f32(v.z) * weight;
    sum[5] += hi_f32(v.z) * weight;
    sum[6] += lo_f32(v.w) * weight;
    sum[7] += hi_f32(v.w) * weight;
}

// sum / total, rounded once.
static __device__ __forceinline__ mla_v4 divide8(const float (&sum)[8], float total)
{
    const mla_v4 v = {pack2(sum[0] / total, sum[1] / total), pack2(sum[2] / total, sum[3] / total),
                      pack2(sum[4] / total, sum[5] / total), pack2(sum[6] / total, sum[7] / total)};
    return v;
}

struct mla_merge_state_n_args {
    const void *o_parts;            // [ranks, tokens, H, D]
    mla_i64 o_parts_rank_stride;    // o_parts from rank to rank, bytes
    mla_i64 o_parts_token_stride;   // o_parts from token to token, bytes
    mla_i64 o_parts_head_stride;    // o_parts from head to head, bytes
    const float *lse_parts;         // [ranks, tokens, H]
    mla_i64 lse_parts_rank_stride;  // lse_parts from rank to rank, bytes
    mla_i64 lse_parts_token_stride; // lse_parts from token to token, bytes
    mla_i64 lse_parts_head_stride;  // lse_parts from head to head, bytes
    void *o;                        // [tokens, H, D]; may be a rank of o_parts
    mla_i64 o_token_stride;         // o from token to token, bytes
    mla_i64 o_head_stride;          // o from head to head, bytes
    float *lse;                     // [tokens, H]; may be a rank of lse_parts
    mla_i64 lse_token_stride;       // lse from token to token, bytes
    mla_i64 lse_head_stride;        // lse from head to head, bytes
    mla_i32 ranks;                  // partial results; 0: all is empty
    mla_i32 tokens;                 // tokens
};

// This lane's vectors of a row.
struct row_part {
    mla_v4 v[2];
};

static __device__ __forceinline__ row_part zero_row()
{
    row_part r;
#pragma unroll
    for (mla_i32 j = 0; j < 2; ++j)
        r.v[j] = {0, 0, 0, 0};
    return r;
}

static __device__ __forceinline__ row_part load_row(const char *from, mla_u32 lane)
{
    row_part r = zero_row();
    r.v[0] = load_stream16(from);
    if (lane < 6)
        r.v[1] = load_stream16(from + 128);
    return r;
}

extern "C" __global__ void __launch_bounds__(128)
mla_merge_state_n_odd_fp16_h5_p1_sm_90(const mla_merge_state_n_args a)
{
    const mla_u32 lane = threadIdx.x % 8u;
    const mla_u32 row = blockIdx.y * 16u + threadIdx.x / 8u;
    const mla_u32 token = blockIdx.x * 16u + row / 5u;
    const mla_u32 head = row % 5u;
    const bool live = token < (mla_u32)a.tokens;
    const mla_u32 ranks = live ? (mla_u32)a.ranks : 0u;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    const char *const lses = (const char *)lse_at(a.lse_parts, a.lse_parts_token_stride,
                                                  a.lse_parts_head_stride, token, head);
    const char *const parts = (const char *)a.o_parts + (mla_i64)token * a.o_parts_token_stride
                              + (mla_i64)head * a.o_parts_head_stride + lane * 16;

    // The largest LSE and the number of sides that are not empty, one rank a lane.
    const float empty = __uint_as_float(0x7f800000u);
    const float lowest = __uint_as_float(0xff7fffffu);
    float top = lowest;
    mla_u32 sides = 0;
#pragma unroll 1
    for (mla_u32 rank = lane; rank < ranks; rank += 8u) {
        const float lse = *(const float *)(lses + rank * a.lse_parts_rank_stride);
        if (!is_empty(lse)) {
            top = fmaxf(top, lse);
            ++sides;
        }
    }
    __syncwarp();
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 4));
    sides += __shfl_xor_sync(0xffffffffu, sides, 4);
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
    sides += __shfl_xor_sync(0xffffffffu, sides, 2);
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    sides += __shfl_xor_sync(0xffffffffu, sides, 1);

    // The sides in order, 2 at a time; the last one of them as it is.
    float sum[2][8] = {};
    float total = 0.0f;
    row_part out = zero_row();
#pragma unroll 1
    for (mla_u32 rank = 0; rank < ranks; rank += 2u) {
        const float lse0 = *(const float *)(lses + rank * a.lse_parts_rank_stride);
        const float lse1 = rank + 1u < ranks
                               ? *(const float *)(lses + (rank + 1u) * a.lse_parts_rank_stride)
                               : empty;
        row_part part0 = zero_row();
        if (!is_empty(lse0))
            part0 = load_row(parts + rank * a.o_parts_rank_stride, lane);
        row_part part1 = zero_row();
        if (!is_empty(lse1))
            part1 = load_row(parts + (rank + 1u) * a.o_parts_rank_stride, lane);
        if (!is_empty(lse0)) {
            const float weight = exp_2(lse0 - top);
            total += weight;
#pragma unroll
            for (mla_i32 j = 0; j < 2; ++j)
                add8(sum[j], part0.v[j], weight);
            out = part0;
        }
        if (!is_empty(lse1)) {
            const float weight = exp_2(lse1 - top);
            total += weight;
#pragma unroll
            for (mla_i32 j = 0; j < 2; ++j)
                add8(sum[j], part1.v[j], weight);
            out = part1;
        }
    }

    // All lanes of a row have read its LSEs before lane 0 may overwrite one in place.
    __syncwarp();
    if (!live)
        return;
    if (sides > 1) {
#pragma unroll
        for (mla_i32 j = 0; j < 2; ++j)
            out.v[j] = divide8(sum[j], total);
    }
    char *to = (char *)a.o + (mla_i64)token * a.o_token_stride + (mla_i64)head * a.o_head_stride
               + lane * 16;
    store16(to, out.v[0]);
    if (lane < 6)
        store16(to + 128, out.v[1]);
    if (lane == 0) {
        const float lse = sides > 1 ? top + log_2(total) : sides == 1 ? top : empty;
        *lse_at(a.lse, a.lse_token_stride, a.lse_head_stride, token, head) = lse;
    }
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_merge_state_n_odd_fp16_h5_p1_sm_90_launch(
    const mla_merge_state_n_args *a, void *stream)
{
    if (!a)
        return cudaErrorInvalidValue;
    if (a->ranks < 0 || a->tokens < 0)
        return cudaErrorInvalidValue;
    const mla_u64 grid_x = ((mla_u64)a->tokens + 15) / 16;
    const mla_u64 grid_y = 5ull;
    const mla_u64 grid_z = 1ull;
    if (grid_x == 0)
        return cudaSuccess;
    if (!a->o_parts || !a->lse_parts || !a->o || !a->lse)
        return cudaErrorInvalidValue;
    const mla_u64 low16 = (mla_u64)a->o_parts | (mla_u64)a->o_parts_rank_stride
        | (mla_u64)a->o_parts_token_stride | (mla_u64)a->o_parts_head_stride | (mla_u64)a->o
        | (mla_u64)a->o_token_stride | (mla_u64)a->o_head_stride;
    if (low16 & 15)
        return cudaErrorMisalignedAddress;
    const mla_u64 low4 = (mla_u64)a->lse_parts | (mla_u64)a->lse_parts_rank_stride
        | (mla_u64)a->lse_parts_token_stride | (mla_u64)a->lse_parts_head_stride | (mla_u64)a->lse
        | (mla_u64)a->lse_token_stride | (mla_u64)a->lse_head_stride;
    if (low4 & 3)
        return cudaErrorMisalignedAddress;
    const void *kernel =
        (const void *)mla_merge_state_n_odd_fp16_h5_p1_sm_90;
    const dim3 grid((mla_u32)grid_x, (mla_u32)grid_y, (mla_u32)grid_z);
    const dim3 block(128, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 0, (cudaStream_t)stream);
}
#endif

} // namespace mla_merge_state_n_odd_fp16_h5_p1_sm_90_ns
