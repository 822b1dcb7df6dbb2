// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// gemm: y = x * w^T, w as checkpoints store it, for the projections of a layer.
//
// overrides  none
// command    mlagen gen tiny.yaml
//
// tile       CTA: 64 rows x 64 columns, warp: 32 x 32
// smem       73,728 B: 4 stages x 18,432 B, 64 of k each; 2 CTAs per SM
// registers  about 96
// mma        32 x m16n8k16 per warp and 64 of k
// order      rows first, in blocks of 512; then columns
// floor      2 (tokens depth + columns depth + tokens columns) B
namespace mla_gemm_tiny_bf16_h3_p2_sm_80_ns {

typedef unsigned int mla_u32;
typedef unsigned long long mla_u64;
typedef int mla_i32;
typedef long long mla_i64;

// Eight 16-bit values: the unit of every global access.
struct __align__(16) mla_v4 {
    mla_u32 x, y, z, w;
};

// Writes 16 bytes.
static __device__ __forceinline__ void store16(void *p, mla_v4 v)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
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

// Copies 16 bytes to shared memory at `to` + TO without waiting, past L1.
template <int TO>
static __device__ __forceinline__ void copy16(mla_u32 to, const char *from)
{
    asm volatile("cp.async.cg.shared.global [%0+%2], [%1], 16;"
                 :
                 : "r"(to), "l"(from), "n"(TO)
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

// The same; bytes 0 writes zeros and reads nothing.
template <int TO>
static __device__ __forceinline__ void copy16(mla_u32 to, const char *from, mla_u32 bytes)
{
    asm volatile("cp.async.cg.shared.global [%0+%2], [%1], 16, %3;"
                 :
                 : "r"(to), "l"(from), "n"(TO), "r"(bytes)
                 : "memory");
}

// c += A * B, 16 x 8 x 16, one warp; fragments as in the PTX ISA.
static __device__ __forceinline__ void mma(float4 &c, mla_u32 a0, mla_u32 a1, mla_u32 a2,
                                           mla_u32 a3, mla_u32 b0, mla_u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

struct mla_gemm_args {
    const void *x;    // [tokens][depth]
    mla_i64 x_stride; // x, from token to token, bytes
    const void *w;    // [columns][depth]
    mla_i64 w_stride; // w, from row to row, bytes
    void *y;          // [tokens][columns]
    mla_i64 y_stride; // y, from token to token, bytes
    mla_i32 tokens;   // rows of x and y
    mla_i32 columns;  // columns of y, rows of w
    mla_i32 depth;    // columns of x and w
};

enum {
    STAGE = 18432, // 64 rows of x, then 64 of w, 144 bytes each
    W = 9216,
};

extern "C" __global__ void __launch_bounds__(128, 2)
mla_gemm_tiny_bf16_h3_p2_sm_80(const mla_gemm_args a)
{
    extern __shared__ __align__(128) char shared[];
    const mla_u32 base = (mla_u32)__cvta_generic_to_shared(shared);
    const mla_u32 lane = threadIdx.x & 31u;
    const mla_u32 warp = threadIdx.x >> 5;

    const mla_u32 rows = (mla_u32)a.tokens;
    const mla_u32 columns = (mla_u32)a.columns;
    const mla_u32 steps = ((mla_u32)a.depth + 63u) / 64u;
    const mla_u32 row_tiles = (rows + 63u) / 64u;
    const mla_u64 column_tiles = (columns + 63u) / 64u;

    // The loader: 8 lanes a row, 16 rows a pass; eight lanes fill all banks.
    const mla_u32 piece = lane & 7u;
    const mla_u32 row = 4u * warp + (lane >> 3);
    const mla_u32 load_to = base + row * 144u + 16u * piece;
    // Rows of w are permuted inside every 32, so that a lane's sums are neighbours.
    const mla_u32 in_tile = 8u * ((row >> 1) & 3u) + 2u * ((row >> 3) & 1u) + (row & 1u);

    // Fragments: this warp's 32 rows of x and of w.
    const mla_u32 warp_row = 32u * (warp >> 1);
    const mla_u32 warp_column = 32u * (warp & 1u);
    const mla_u32 x_from = base + (warp_row + (lane & 15u)) * 144u + 16u * (lane >> 4);
    const mla_u32 w_from = base + W + (warp_column + 8u * (lane >> 4) + (lane & 7u)) * 144u
                           + 16u * ((lane >> 3) & 1u);

#pragma unroll 1
    for (mla_u64 id = blockIdx.x; id < row_tiles * column_tiles; id += gridDim.x) {
        // Rows first: the tiles of a block, then the next columns.
        const mla_u32 block = (mla_u32)(id / (8u * column_tiles)) * 8u;
        const mla_u64 place = id % (8u * column_tiles);
        const mla_u32 tiles = min(8u, row_tiles - block);
        const mla_u32 first_row = (block + (mla_u32)(place % tiles)) * 64u;
        const mla_u32 first_column = (mla_u32)(place / tiles) * 64u;

        // Rows beyond the last one read that again.  A warp that has no others only loads.
        const bool busy = first_row + warp_row < rows;
        const mla_i64 row0 = min(first_row + row, rows - 1u);
        const mla_i64 column0 = min(first_column + in_tile, columns - 1u);
        const char *const x0 = (const char *)a.x + row0 * a.x_stride;
        const char *const w0 = (const char *)a.w + column0 * a.w_stride;
        const mla_i64 row1 = min(first_row + row + 16, rows - 1u);
        const mla_i64 column1 = min(first_column + in_tile + 4, columns - 1u);
        const char *const x1 = (const char *)a.x + row1 * a.x_stride;
        const char *const w1 = (const char *)a.w + column1 * a.w_stride;
        const mla_i64 row2 = min(first_row + row + 32, rows - 1u);
        const mla_i64 column2 = min(first_column + in_tile + 32, columns - 1u);
        const char *const x2 = (const char *)a.x + row2 * a.x_stride;
        const char *const w2 = (const char *)a.w + column2 * a.w_stride;
        const mla_i64 row3 = min(first_row + row + 48, rows - 1u);
        const mla_i64 column3 = min(first_column + in_tile + 36, columns - 1u);
        const char *const x3 = (const char *)a.x + row3 * a.x_stride;
        const char *const w3 = (const char *)a.w + column3 * a.w_stride;

        // Copies the next stage, zeros beyond the depth; after the last one an empty group.
        mla_u32 load_step = 0;
        mla_u32 load_stage = 0;
        const auto load = [&]() {
            if (load_step < steps) {
                const mla_u32 k = load_step * 64u + 8u * piece;
                const mla_u32 bytes = k < (mla_u32)a.depth ? 16u : 0u;
                const mla_u64 at = bytes ? 2ull * k : 0ull;
                const mla_u32 to = load_to + load_stage;
                copy16<0>(to, x0 + at, bytes);
                copy16<2304>(to, x1 + at, bytes);
                copy16<4608>(to, x2 + at, bytes);
                copy16<6912>(to, x3 + at, bytes);
                copy16<W + 0>(to, w0 + at, bytes);
                copy16<W + 2304>(to, w1 + at, bytes);
                copy16<W + 4608>(to, w2 + at, bytes);
                copy16<W + 6912>(to, w3 + at, bytes);
                ++load_step;
                load_stage = load_stage == 55296u ? 0u : load_stage + STAGE;
            }
            copies_commit();
        };
        __syncthreads(); // the last tile's stages are read
#pragma unroll 1
        for (mla_i32 i = 0; i < 3; ++i)
            load();

        float4 c[2][4];
#pragma unroll
        for (mla_i32 i = 0; i < 8; ++i)
            c[i / 4][i % 4] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        mla_u32 stage = 0;
#pragma unroll 1
        for (mla_u32 step = 0; step < steps; ++step) {
            // The stage is full, and the one that is loaded next is free.
            copies_wait<2>();
            __syncthreads();
            load();
            if (busy) {
                const mla_u32 x_stage = x_from + stage;
                const mla_u32 w_stage = w_from + stage;
                {
                    const mla_v4 x[] = {matrices<0>(x_stage), matrices<2304>(x_stage)};
                    const mla_v4 w[] = {matrices<0>(w_stage), matrices<2304>(w_stage)};
#pragma unroll
                    for (mla_i32 i = 0; i < 8; ++i) {
                        const mla_v4 &u = x[i & 1];
                        const mla_v4 &v = w[i >> 2];
                        mma(c[i & 1][i >> 1], u.x, u.y, u.z, u.w, i & 2 ? v.z : v.x,
                            i & 2 ? v.w : v.y);
                    }
                }
                {
                    const mla_v4 x[] = {matrices<32>(x_stage), matrices<2336>(x_stage)};
                    const mla_v4 w[] = {matrices<32>(w_stage), matrices<2336>(w_stage)};
#pragma unroll
                    for (mla_i32 i = 0; i < 8; ++i) {
                        const mla_v4 &u = x[i & 1];
                        const mla_v4 &v = w[i >> 2];
                        mma(c[i & 1][i >> 1], u.x, u.y, u.z, u.w, i & 2 ? v.z : v.x,
                            i & 2 ? v.w : v.y);
                    }
                }
                {
                    const mla_v4 x[] = {matrices<64>(x_stage), matrices<2368>(x_stage)};
                    const mla_v4 w[] = {matrices<64>(w_stage), matrices<2368>(w_stage)};
#pragma unroll
                    for (mla_i32 i = 0; i < 8; ++i) {
                        const mla_v4 &u = x[i & 1];
                        const mla_v4 &v = w[i >> 2];
                        mma(c[i & 1][i >> 1], u.x, u.y, u.z, u.w, i & 2 ? v.z : v.x,
                            i & 2 ? v.w : v.y);
                    }
                }
                {
                    const mla_v4 x[] = {matrices<96>(x_stage), matrices<2400>(x_stage)};
                    const mla_v4 w[] = {matrices<96>(w_stage), matrices<2400>(w_stage)};
#pragma unroll
                    for (mla_i32 i = 0; i < 8; ++i) {
                        const mla_v4 &u = x[i & 1];
                        const mla_v4 &v = w[i >> 2];
                        mma(c[i & 1][i >> 1], u.x, u.y, u.z, u.w, i & 2 ? v.z : v.x,
                            i & 2 ? v.w : v.y);
                    }
                }
            }
            stage = stage == 55296u ? 0u : stage + STAGE;
        }

        // Eight neighbouring columns per lane, of 4 rows.
        const mla_u32 at = first_column + warp_column + 8u * (lane & 3u);
        char *const to = (char *)a.y + 2ull * at;
#pragma unroll
        for (mla_i32 m = 0; m < 2; ++m) {
            const float4 *const r = c[m];
            const mla_u32 y = first_row + warp_row + 16u * m + (lane >> 2);
            const mla_v4 low = {pack2(r[0].x, r[0].y), pack2(r[1].x, r[1].y),
                                pack2(r[2].x, r[2].y), pack2(r[3].x, r[3].y)};
            const mla_v4 high = {pack2(r[0].z, r[0].w), pack2(r[1].z, r[1].w),
                                 pack2(r[2].z, r[2].w), pack2(r[3].z, r[3].w)};
            if (at < columns && y < rows)
                store16(to + (mla_i64)y * a.y_stride, low);
            if (at < columns && y + 8u < rows)
                store16(to + (mla_i64)(y + 8u) * a.y_stride, high);
        }
    }
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_gemm_tiny_bf16_h3_p2_sm_80_launch(
    const mla_gemm_args *a, void *stream)
{
    if (!a)
        return cudaErrorInvalidValue;
    if (a->tokens < 0 || a->columns < 0 || a->columns % 8 != 0 || a->depth < 0
        || a->depth % 8 != 0)
        return cudaErrorInvalidValue;
    const mla_u64 grid_x = ((mla_u64)a->tokens + 63) / 64 * ((mla_u64)a->columns + 63) / 64;
    const mla_u64 grid_y = 1ull;
    const mla_u64 grid_z = 1ull;
    if (grid_x == 0)
        return cudaSuccess;
    if (!a->x || !a->w || !a->y)
        return cudaErrorInvalidValue;
    const mla_u64 low16 = (mla_u64)a->x | (mla_u64)a->x_stride | (mla_u64)a->w
        | (mla_u64)a->w_stride | (mla_u64)a->y | (mla_u64)a->y_stride;
    if (low16 & 15)
        return cudaErrorMisalignedAddress;
    const void *kernel =
        (const void *)mla_gemm_tiny_bf16_h3_p2_sm_80;
    const cudaError_t set =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 73728);
    if (set != cudaSuccess)
        return set;
    const dim3 grid((mla_u32)(grid_x < 2147483647ull ? grid_x : 2147483647ull),
                        (mla_u32)grid_y,
                        (mla_u32)grid_z);
    const dim3 block(128, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 73728, (cudaStream_t)stream);
}
#endif

} // namespace mla_gemm_tiny_bf16_h3_p2_sm_80_ns
