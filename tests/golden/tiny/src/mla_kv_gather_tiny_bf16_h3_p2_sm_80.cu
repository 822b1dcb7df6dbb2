// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// kv_gather: rows of the paged pool, by slots or by page table, made contiguous.
//
// overrides  none
// command    mlagen gen tiny.yaml
//
// tile       warp: 4 rows, 8 lanes each, 2 loads of 16 bytes per lane in flight; block: 16 rows
// smem       none
// registers  about 20
// bytes      per row 64 in + 64 out + its slot (floor)
namespace mla_kv_gather_tiny_bf16_h3_p2_sm_80_ns {

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

struct mla_kv_gather_args {
    const void *kv_cache;       // [pages, P, R + DR]
    mla_i64 page_stride;        // kv_cache from page to page, bytes
    mla_i64 row_stride;         // kv_cache from row to row of a page, bytes
    const mla_i64 *slots;       // [tokens], page * P + row; NULL: by page table
    const mla_i32 *block_table; // [batch, pages of a sequence], page ids
    mla_i64 block_table_stride; // block_table from sequence to sequence, bytes
    const mla_i32 *starts;      // [batch], first position; NULL: 0
    const mla_i32 *cu_seqlens;  // [batch + 1], first output row; [0] is 0
    mla_i32 batch;              // sequences of the page table
    void *latent;               // [tokens, R]
    mla_i64 latent_stride;      // latent from row to row, bytes
    void *k_rope;               // [tokens, DR]
    mla_i64 k_rope_stride;      // k_rope from row to row, bytes
    mla_i32 tokens;             // rows of the output
};

// The sequence that owns output row `row`: the last b with cu_seqlens[b] <= row.
static __device__ __forceinline__ mla_i32
sequence_of(const mla_kv_gather_args &a, mla_i32 row)
{
    mla_i32 low = 0;
    mla_i32 high = a.batch;
    while (high - low > 1) {
        const mla_i32 middle = low + (high - low) / 2;
        if (a.cu_seqlens[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// The slot of output row `row` by the page table; negative where the page id is.
static __device__ __forceinline__ mla_i64
slot_of(const mla_kv_gather_args &a, mla_i32 row)
{
    const mla_i32 b = sequence_of(a, row);
    mla_i64 position = row - a.cu_seqlens[b];
    if (a.starts)
        position += a.starts[b];
    const char *pages = (const char *)a.block_table + b * a.block_table_stride;
    const mla_i64 page = ((const mla_i32 *)pages)[position >> 1];
    return page < 0 ? -1 : (page << 1) + (position & 1);
}

extern "C" __global__ void __launch_bounds__(128)
mla_kv_gather_tiny_bf16_h3_p2_sm_80(const mla_kv_gather_args a)
{
    const mla_u32 lane = threadIdx.x % 8u;
    const mla_i64 index = (mla_i64)blockIdx.x * 16 + threadIdx.x / 8u;
    const mla_u32 column = lane * 16;

    // Rows that exist: the buffer's, and with a page table no more than the sequences have.
    if (index >= a.tokens)
        return;
    const mla_i32 row = (mla_i32)index;
    if (!a.slots && row >= a.cu_seqlens[a.batch])
        return;
    const mla_i64 slot = a.slots ? a.slots[row] : slot_of(a, row);

    // Loads: the whole row, or zeros.
    mla_v4 latent0 = {0, 0, 0, 0};
    mla_v4 rope0 = {0, 0, 0, 0};
    if (slot >= 0) {
        const char *from = (const char *)a.kv_cache + (slot >> 1) * a.page_stride
                           + (slot & 1) * a.row_stride + column;
        if (lane < 2)
            latent0 = load_stream16(from);
        if (lane < 2)
            rope0 = load_stream16(from + 32);
    }

    // Stores.
    char *latent = (char *)a.latent + row * a.latent_stride + column;
    char *rope = (char *)a.k_rope + row * a.k_rope_stride + column;
    if (lane < 2)
        store16(latent, latent0);
    if (lane < 2)
        store16(rope, rope0);
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_kv_gather_tiny_bf16_h3_p2_sm_80_launch(
    const mla_kv_gather_args *a, void *stream)
{
    if (!a)
        return cudaErrorInvalidValue;
    if (a->batch < 0 || a->tokens < 0)
        return cudaErrorInvalidValue;
    const mla_u64 grid_x = ((mla_u64)a->tokens + 15) / 16;
    const mla_u64 grid_y = 1ull;
    const mla_u64 grid_z = 1ull;
    if (grid_x == 0)
        return cudaSuccess;
    if (!a->kv_cache || !a->latent || !a->k_rope
        || !(a->slots || (a->block_table && a->cu_seqlens)))
        return cudaErrorInvalidValue;
    const mla_u64 low16 = (mla_u64)a->kv_cache | (mla_u64)a->page_stride | (mla_u64)a->row_stride
        | (mla_u64)a->latent | (mla_u64)a->latent_stride | (mla_u64)a->k_rope
        | (mla_u64)a->k_rope_stride;
    if (low16 & 15)
        return cudaErrorMisalignedAddress;
    const mla_u64 low8 = (mla_u64)a->slots;
    if (low8 & 7)
        return cudaErrorMisalignedAddress;
    const mla_u64 low4 = (mla_u64)a->block_table | (mla_u64)a->block_table_stride
        | (mla_u64)a->starts | (mla_u64)a->cu_seqlens;
    if (low4 & 3)
        return cudaErrorMisalignedAddress;
    const void *kernel =
        (const void *)mla_kv_gather_tiny_bf16_h3_p2_sm_80;
    const dim3 grid((mla_u32)grid_x, (mla_u32)grid_y, (mla_u32)grid_z);
    const dim3 block(128, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 0, (cudaStream_t)stream);
}
#endif

} // namespace mla_kv_gather_tiny_bf16_h3_p2_sm_80_ns
