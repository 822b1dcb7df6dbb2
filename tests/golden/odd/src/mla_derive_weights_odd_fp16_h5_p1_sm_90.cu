// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// derive_weights: kv_b_proj [H * (DN + DV), R] to w_kc and w_vc, per head, each as it lies or
// transposed.
//
// overrides  none
// command    mlagen gen odd.yaml
//
// tile       block: 64 rows x 64 columns of one head; 4 loads of 16 bytes per thread in flight
// smem       9,216 bytes static, used by transposed outputs
// registers  about 40
// bytes      128,000 in + 128,000 out (floor)
namespace mla_derive_weights_odd_fp16_h5_p1_sm_90_ns {

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

// Four 8x8 matrices, transposed; lane 8j + r names row r of matrix j.
static __device__ __forceinline__ mla_v4 load_matrix_trans(const void *shared_row)
{
    const mla_u32 address = (mla_u32)__cvta_generic_to_shared(shared_row);
    mla_v4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}

struct mla_derive_weights_args {
    const void *kv_b;         // [H * (DN + DV), R]
    mla_i64 kv_b_row_stride;  // kv_b from row to row, bytes
    void *w_kc;               // [H][DN][R], or [H][R][DN]; NULL: not wanted
    mla_i64 w_kc_head_stride; // w_kc from head to head, bytes
    mla_i64 w_kc_row_stride;  // w_kc from row to row, bytes
    mla_i32 w_kc_transposed;  // 1: the second layout
    void *w_vc;               // [H][DV][R], or [H][R][DV]; NULL: not wanted
    mla_i64 w_vc_head_stride; // w_vc from head to head, bytes
    mla_i64 w_vc_row_stride;  // w_vc from row to row, bytes
    mla_i32 w_vc_transposed;  // 1: the second layout
};

extern "C" __global__ void __launch_bounds__(128)
mla_derive_weights_odd_fp16_h5_p1_sm_90(const mla_derive_weights_args a)
{
    // 64 rows of 128 bytes, padded by 16 so that eight rows below each other hit all banks.
    __shared__ mla_v4 s_tile[576];
    const mla_u32 head = blockIdx.y;
    const bool is_v = blockIdx.z >= 1;
    const mla_u32 first = (is_v ? blockIdx.z - 1 : blockIdx.z) * 64;
    const mla_u32 rows = is_v ? 112 : 48;
    char *out = (char *)(is_v ? a.w_vc : a.w_kc);
    if (!out)
        return;
    out += head * (is_v ? a.w_vc_head_stride : a.w_kc_head_stride);
    const mla_i64 out_stride = is_v ? a.w_vc_row_stride : a.w_kc_row_stride;
    const bool transposed = (is_v ? a.w_vc_transposed : a.w_kc_transposed) != 0;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");

    // Loads: eight threads per row of 128 bytes, 16 rows per pass.
    const mla_u32 vector = threadIdx.x % 8;
    const mla_u32 row = threadIdx.x / 8;
    const mla_u32 column = blockIdx.x * 64 + vector * 8;
    const mla_u32 source_row = head * 160 + (is_v ? 48 : 0) + first + row;
    const char *source = (const char *)a.kv_b + source_row * a.kv_b_row_stride + column * 2;
    mla_v4 v0 = {0, 0, 0, 0};
    if (column < 80)
        v0 = load_stream16(source);
    mla_v4 v1 = {0, 0, 0, 0};
    if (first + 16 < rows && column < 80)
        v1 = load_stream16(source + 16 * a.kv_b_row_stride);
    mla_v4 v2 = {0, 0, 0, 0};
    if (first + 32 < rows && column < 80)
        v2 = load_stream16(source + 32 * a.kv_b_row_stride);
    mla_v4 v3 = {0, 0, 0, 0};
    if (first + 48 < rows && column < 80)
        v3 = load_stream16(source + 48 * a.kv_b_row_stride);

    // The layout stays: rows out as they came.
    if (!transposed) {
        out += (first + row) * out_stride + column * 2;
        if (column < 80)
            store16(out, v0);
        if (first + 16 < rows && column < 80)
            store16(out + 16 * out_stride, v1);
        if (first + 32 < rows && column < 80)
            store16(out + 32 * out_stride, v2);
        if (first + 48 < rows && column < 80)
            store16(out + 48 * out_stride, v3);
        return;
    }

    // Row 8q + 2j + b of 32 goes to position 8j + 2q + b: matrix j, its row 2q + b.
    const mla_u32 position = row / 2 % 4 * 8 + row / 8 * 2 + row % 2;
    s_tile[position * 9 + vector] = v0;
    s_tile[(position + 4) * 9 + vector] = v1;
    s_tile[(position + 32) * 9 + vector] = v2;
    s_tile[(position + 36) * 9 + vector] = v3;
    __syncthreads();

    // Register j of a lane is now rows 8q + 2j and 8q + 2j + 1 of one column: q = lane % 4.
    const mla_u32 lane = threadIdx.x % 32;
    const mla_u32 warp = threadIdx.x / 32;
    const mla_u32 out_column = first + lane % 4 * 8;
    const mla_u32 out_row = blockIdx.x * 64 + warp * 16 + lane / 4;
    out += out_row * out_stride + out_column * 2;
    const mla_v4 t00 = load_matrix_trans(&s_tile[lane * 9 + warp * 2]);
    const mla_v4 t01 = load_matrix_trans(&s_tile[(lane + 32) * 9 + warp * 2]);
    const mla_v4 t10 = load_matrix_trans(&s_tile[lane * 9 + warp * 2 + 1]);
    const mla_v4 t11 = load_matrix_trans(&s_tile[(lane + 32) * 9 + warp * 2 + 1]);
    if (out_column < rows && out_row < 80)
        store16(out, t00);
    if (out_column + 32 < rows && out_row < 80)
        store16(out + 64, t01);
    if (out_column < rows && out_row + 8 < 80)
        store16(out + 8 * out_stride, t10);
    if (out_column + 32 < rows && out_row + 8 < 80)
        store16(out + 8 * out_stride + 64, t11);
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_derive_weights_odd_fp16_h5_p1_sm_90_launch(
    const mla_derive_weights_args *a, void *stream)
{
    if (!a)
        return cudaErrorInvalidValue;
    if ((a->w_kc_transposed & ~1) != 0 || (a->w_vc_transposed & ~1) != 0)
        return cudaErrorInvalidValue;
    const mla_u64 grid_x = 2ull;
    const mla_u64 grid_y = 5ull;
    const mla_u64 grid_z = 3ull;
    if (!a->kv_b)
        return cudaErrorInvalidValue;
    const mla_u64 low16 = (mla_u64)a->kv_b | (mla_u64)a->kv_b_row_stride | (mla_u64)a->w_kc
        | (mla_u64)a->w_kc_head_stride | (mla_u64)a->w_kc_row_stride | (mla_u64)a->w_vc
        | (mla_u64)a->w_vc_head_stride | (mla_u64)a->w_vc_row_stride;
    if (low16 & 15)
        return cudaErrorMisalignedAddress;
    const void *kernel =
        (const void *)mla_derive_weights_odd_fp16_h5_p1_sm_90;
    const dim3 grid((mla_u32)grid_x, (mla_u32)grid_y, (mla_u32)grid_z);
    const dim3 block(128, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 0, (cudaStream_t)stream);
}
#endif

} // namespace mla_derive_weights_odd_fp16_h5_p1_sm_90_ns
