// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// mqa_combine: merges the partial results of the units that decode_plan split, by their LSE.
//
// overrides  none
// command    mlagen gen odd.yaml
//
// tile       one warp per row of a split unit, 1 load of 16 bytes per lane and slot
// smem       none
// bytes      per row: 324 per slot in, 164 out (floor)
namespace mla_mqa_combine_odd_fp16_h5_p1_sm_90_ns {

typedef unsigned int mla_u32;
typedef unsigned long long mla_u64;
typedef int mla_i32;
typedef long long mla_i64;

// Eight 16-bit values: the unit of every global access.
struct __align__(16) mla_v4 {
    mla_u32 x, y, z, w;
};

// Rounds two floats to nearest-even; `lo` goes to the lower half.
static __device__ __forceinline__ mla_u32 pack2(float lo, float hi)
{
    mla_u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;"
        : "=r"(pair)
        : "f"(hi), "f"(lo));
    return pair;
}

struct mla_mqa_combine_args {
    const mla_i32 *header;     // [8], of decode_plan
    const mla_i32 *unit_slots; // [units + 1], first slot of each unit
    const float *partial_o;    // [slots, rows_per_tile, R]
    const float *partial_lse;  // [slots, rows_per_tile], natural logarithm
    void *out;                 // [batch, q_len, H, R]
    mla_i64 out_batch_stride;  // out from request to request, bytes
    mla_i64 out_token_stride;  // out from token to token, bytes
    mla_i64 out_head_stride;   // out from head to head, bytes
    float *lse;                // [batch, q_len, H]; NULL: not wanted
    mla_i64 lse_batch_stride;  // lse from request to request, bytes
    mla_i64 lse_token_stride;  // lse from token to token, bytes
    mla_i64 lse_head_stride;   // lse from head to head, bytes
    mla_i32 batch;             // requests
    mla_i32 q_len;             // query tokens of a request
    mla_i32 rows_per_tile;     // rows of a tile of the mqa_decode before
};

static __device__ __forceinline__ float negative_infinity()
{
    return __uint_as_float(0xff800000u);
}

extern "C" __global__ void __launch_bounds__(128)
mla_mqa_combine_odd_fp16_h5_p1_sm_90(const mla_mqa_combine_args a)
{
    const mla_u32 lane = threadIdx.x & 31u;
    const mla_u32 warp = threadIdx.x >> 5;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");

    // Row (request, token, head), its unit and its place in the unit's tile.
    const mla_u32 head = blockIdx.x % 2u * 4u + warp;
    if (head >= 5u)
        return;
    const mla_u32 token_row = blockIdx.x / 2u;
    const mla_u32 request = token_row / (mla_u32)a.q_len;
    const mla_u32 token = token_row % (mla_u32)a.q_len;
    const mla_u32 row = token * 5u + head;
    const mla_u32 rows = (mla_u32)a.rows_per_tile;
    const mla_u32 row_tiles = ((mla_u32)a.q_len * 5u + rows - 1u) / rows;
    const mla_i64 unit = (mla_i64)request * row_tiles + row / rows;
    const mla_i32 first = a.unit_slots[unit];
    const mla_i32 end = a.unit_slots[unit + 1];
    if (first == end || (a.header[2] & 3))
        return;

    // LSE of all slots: a running maximum and a sum, first per lane, then over the warp.
    const float *lses = a.partial_lse + (row % rows);
    float m = negative_infinity();
    for (mla_i32 k = first + (mla_i32)lane; k < end; k += 32)
        m = fmaxf(m, lses[(mla_i64)k * rows]);
    for (mla_u32 d = 16; d > 0; d /= 2)
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
    const bool empty = m == negative_infinity();
    float sum = 0.0f;
    if (!empty) {
        for (mla_i32 k = first + (mla_i32)lane; k < end; k += 32)
            sum += __expf(lses[(mla_i64)k * rows] - m);
        for (mla_u32 d = 16; d > 0; d /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, d);
    }

    // O: the slots in order; one without keys is not read.
    float4 o0 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const float inverse = empty ? 0.0f : 1.0f / sum;
    const float *column = a.partial_o + (mla_i64)(row % rows) * 80 + 4u * lane;
    for (mla_i32 base = first; base < end && !empty; base += 32) {
        const mla_i32 k = base + (mla_i32)lane;
        const float mine = k < end ? __expf(lses[(mla_i64)k * rows] - m) * inverse : 0.0f;
        const mla_i32 count = end - base < 32 ? end - base : 32;
        for (mla_i32 j = 0; j < count; ++j) {
            const float w = __shfl_sync(0xffffffffu, mine, j);
            if (w == 0.0f)
                continue;
            const float *from = column + (mla_i64)(base + j) * rows * 80;
            if (lane < 20u) {
                const float4 v0 = *(const float4 *)(from);
                o0.x += w * v0.x;
                o0.y += w * v0.y;
                o0.z += w * v0.z;
                o0.w += w * v0.w;
            }
        }
    }

    // Results, rounded once.
    char *out = (char *)a.out + request * a.out_batch_stride + token * a.out_token_stride
                + head * a.out_head_stride + 8u * lane;
    if (lane < 20u)
        *(uint2 *)(out) = make_uint2(pack2(o0.x, o0.y), pack2(o0.z, o0.w));
    if (a.lse && lane == 0u) {
        char *to = (char *)a.lse + request * a.lse_batch_stride + token * a.lse_token_stride
                   + head * a.lse_head_stride;
        const float total = (m + __logf(sum)) * 1.442695f;
        *(float *)to = empty ? __uint_as_float(0x7f800000u) : total;
    }
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_mqa_combine_odd_fp16_h5_p1_sm_90_launch(
    const mla_mqa_combine_args *a, void *stream)
{
    if (!a)
        return cudaErrorInvalidValue;
    if (a->batch < 0 || a->q_len < 0 || a->rows_per_tile < 0)
        return cudaErrorInvalidValue;
    const mla_u64 grid_x = (mla_u64)a->batch * (mla_u64)a->q_len * 2ull;
    const mla_u64 grid_y = 1ull;
    const mla_u64 grid_z = 1ull;
    if (grid_x == 0)
        return cudaSuccess;
    if (!a->header || !a->unit_slots || !a->partial_o || !a->partial_lse || !a->out)
        return cudaErrorInvalidValue;
    const mla_u64 low16 = (mla_u64)a->partial_o;
    if (low16 & 15)
        return cudaErrorMisalignedAddress;
    const mla_u64 low8 = (mla_u64)a->out | (mla_u64)a->out_batch_stride
        | (mla_u64)a->out_token_stride | (mla_u64)a->out_head_stride;
    if (low8 & 7)
        return cudaErrorMisalignedAddress;
    const mla_u64 low4 = (mla_u64)a->header | (mla_u64)a->unit_slots | (mla_u64)a->partial_lse
        | (mla_u64)a->lse | (mla_u64)a->lse_batch_stride | (mla_u64)a->lse_token_stride
        | (mla_u64)a->lse_head_stride;
    if (low4 & 3)
        return cudaErrorMisalignedAddress;
    const void *kernel =
        (const void *)mla_mqa_combine_odd_fp16_h5_p1_sm_90;
    const dim3 grid((mla_u32)(grid_x < 2147483647ull ? grid_x : 2147483647ull),
                        (mla_u32)grid_y,
                        (mla_u32)grid_z);
    const dim3 block(128, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 0, (cudaStream_t)stream);
}
#endif

} // namespace mla_mqa_combine_odd_fp16_h5_p1_sm_90_ns
