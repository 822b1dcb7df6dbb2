// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// concat_mla_k: K = [k_nope | k_rope] for every head; the heads of a token share its k_rope row.
//
// overrides  none
// command    mlagen gen tiny.yaml
//
// tile       warp: 1 token x 16 heads, 1 load of 16 bytes per lane in flight; block: 8 tokens
// lanes      2 per head of nope, 2 per copy of rope
// smem       none
// registers  about 22
// bytes      per token 128 in + 192 out (floor); rope is read 1 time from L1
namespace mla_concat_mla_k_tiny_bf16_h3_p2_sm_80_ns {

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

struct mla_concat_mla_k_args {
    const void *k_nope;          // [tokens, H, DN]
    mla_i64 k_nope_token_stride; // k_nope from token to token, bytes
    mla_i64 k_nope_head_stride;  // k_nope from head to head, bytes
    const void *k_rope;          // [tokens, DR], shared by the heads
    mla_i64 k_rope_stride;       // k_rope from token to token, bytes
    void *k;                     // [tokens, H, DN + DR]
    mla_i64 k_token_stride;      // k from token to token, bytes
    mla_i64 k_head_stride;       // k from head to head, bytes
    mla_i32 tokens;              // rows
};

extern "C" __global__ void __launch_bounds__(256)
mla_concat_mla_k_tiny_bf16_h3_p2_sm_80(const mla_concat_mla_k_args a)
{
    const mla_u32 lane = threadIdx.x & 31u;
    const mla_u32 warp = threadIdx.x >> 5;
    const mla_u32 token = blockIdx.x * 8u + warp;
    const mla_u32 run = blockIdx.y + 0u;
    if (token >= (mla_u32)a.tokens)
        return;
    const mla_u32 first_head = run * 16u;
    const mla_u32 head = first_head + lane / 2u;
    const mla_u32 rope_head = first_head + lane / 2u;
    const mla_u32 column = (lane % 2u) * 16u;
    const mla_u32 rope_column = (lane % 2u) * 16u;

    // Loads: 16 heads per access, and 16 copies of the rope row side by side.
    const char *nope = (const char *)a.k_nope + (mla_i64)token * a.k_nope_token_stride
                       + (mla_i64)head * a.k_nope_head_stride + column;
    const char *rope = (const char *)a.k_rope + (mla_i64)token * a.k_rope_stride + rope_column;
    const mla_v4 rope0 = load_stream16(rope);
    const bool live0 = head < 3;
    mla_v4 nope0 = {0, 0, 0, 0};
    if (live0)
        nope0 = load_stream16(nope);

    // Stores: the nope columns of each head, then its rope columns.
    char *row = (char *)a.k + (mla_i64)token * a.k_token_stride;
    char *out = row + (mla_i64)head * a.k_head_stride + column;
    if (live0)
        store16(out, nope0);
    out = row + (mla_i64)rope_head * a.k_head_stride + 32 + rope_column;
    if (rope_head < 3)
        store16(out, rope0);
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_concat_mla_k_tiny_bf16_h3_p2_sm_80_launch(
    const mla_concat_mla_k_args *a, void *stream)
{
    if (!a)
        return cudaErrorInvalidValue;
    if (a->tokens < 0)
        return cudaErrorInvalidValue;
    const mla_u64 grid_x = ((mla_u64)a->tokens + 7) / 8;
    const mla_u64 grid_y = 1ull;
    const mla_u64 grid_z = 1ull;
    if (grid_x == 0)
        return cudaSuccess;
    if (!a->k_nope || !a->k_rope || !a->k)
        return cudaErrorInvalidValue;
    const mla_u64 low16 = (mla_u64)a->k_nope | (mla_u64)a->k_nope_token_stride
        | (mla_u64)a->k_nope_head_stride | (mla_u64)a->k_rope | (mla_u64)a->k_rope_stride
        | (mla_u64)a->k | (mla_u64)a->k_token_stride | (mla_u64)a->k_head_stride;
    if (low16 & 15)
        return cudaErrorMisalignedAddress;
    const void *kernel =
        (const void *)mla_concat_mla_k_tiny_bf16_h3_p2_sm_80;
    const dim3 grid((mla_u32)grid_x, (mla_u32)grid_y, (mla_u32)grid_z);
    const dim3 block(256, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 0, (cudaStream_t)stream);
}
#endif

} // namespace mla_concat_mla_k_tiny_bf16_h3_p2_sm_80_ns
