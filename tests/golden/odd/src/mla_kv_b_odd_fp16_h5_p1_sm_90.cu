// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// kv_b: latents expanded by kv_b_proj. k_nope[t][h] and v[t][h] are the latent of token t times the
// first 48 and the other 112 rows of head h, which are read where they lie.
//
// overrides  none
// command    mlagen gen odd.yaml
//
// tile       CTA: 64 tokens x 64 columns of 800, walking 1 column tile; warp: 32 x 32
// smem       24,576 B: 4 stages x 6,144 B, 16 of k each; 4 CTAs per SM
// registers  about 92
// mma        8 x m16n8k16 per warp and 16 of k
// order      tokens first, in blocks of 26,176; then columns
// floor      W 128,000 B once, 1,760 B per token
// l2         20,480 B of W and latents per tile, 8,192 B of results
// clocks     W 53 of DRAM; per 64 tokens 47 of DRAM, 16 of MMA (132 SMs)
namespace mla_kv_b_odd_fp16_h5_p1_sm_90_ns {

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
    asm("cvt.rn.f16x2.f32 %0, %1, %2;"
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

// c += A * B, 16 x 8 x 16, one warp; fragments as in the PTX ISA.
static __device__ __forceinline__ void mma(float4 &c, mla_u32 a0, mla_u32 a1, mla_u32 a2,
                                           mla_u32 a3, mla_u32 b0, mla_u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

struct mla_kv_b_args {
    const void *latent;          // [tokens][latent], normed
    mla_i64 latent_stride;       // latent, from token to token, bytes
    const void *kv_b;            // kv_b_proj: per head nope + v rows of latent values
    mla_i64 kv_b_head_stride;    // kv_b, from head to head, bytes
    mla_i64 kv_b_row_stride;     // kv_b, from row to row, bytes
    void *k_nope;                // [tokens][heads][nope]
    mla_i64 k_nope_token_stride; // k_nope, from token to token, bytes
    mla_i64 k_nope_head_stride;  // k_nope, from head to head, bytes
    void *v;                     // [tokens][heads][v]; may lie in one buffer with k_nope
    mla_i64 v_token_stride;      // v, from token to token, bytes
    mla_i64 v_head_stride;       // v, from head to head, bytes
    mla_i32 tokens;              // rows of latent
};

enum {
    STAGE = 6144, // 64 latents, then 64 rows of W, 48 bytes each
    W = 3072,
    COLUMNS = 800, // 5 heads of 48 + 112
};

// Row `column` of kv_b_proj, the last one for those beyond.
static __device__ __forceinline__ const char *weights(const mla_kv_b_args &a, mla_u32 column)
{
    const mla_u32 row = min(column, COLUMNS - 1u);
    return (const char *)a.kv_b + (mla_i64)(row / 160u) * a.kv_b_head_stride
           + (mla_i64)(row % 160u) * a.kv_b_row_stride;
}

// c += x * w, 16 of k; a fragment of w is two n-tiles.
static __device__ __forceinline__ void multiply(float4 (&c)[2][4],
                                                const mla_v4 (&x)[2],
                                                const mla_v4 (&w)[2])
{
#pragma unroll
    for (mla_i32 n = 0; n < 2; ++n) {
#pragma unroll
        for (mla_i32 m = 0; m < 2; ++m) {
            mma(c[m][2 * n], x[m].x, x[m].y, x[m].z, x[m].w, w[n].x, w[n].y);
            mma(c[m][2 * n + 1], x[m].x, x[m].y, x[m].z, x[m].w, w[n].z, w[n].w);
        }
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
mla_kv_b_odd_fp16_h5_p1_sm_90(const mla_kv_b_args a)
{
    extern __shared__ __align__(128) char shared[];
    const mla_u32 base = (mla_u32)__cvta_generic_to_shared(shared);
    const mla_u32 lane = threadIdx.x & 31u;
    const mla_u32 warp = threadIdx.x >> 5;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");

    // Tokens first: the tiles of a block of latents, then the next columns.
    const mla_u32 tokens = (mla_u32)a.tokens;
    const mla_u32 token_tiles = (tokens + 63u) / 64u;
    const mla_u32 id = blockIdx.y * gridDim.x + blockIdx.x;
    const mla_u32 block = id / 5317u * 409u;
    const mla_u32 place = id % 5317u;
    const mla_u32 tiles = min(409u, token_tiles - block);
    const mla_u32 first_token = (block + place % tiles) * 64u;
    const mla_u32 first_column = place / tiles * 64u;
    const mla_u32 end_column = first_column + 64u;

    // The loader: 2 lanes a row, 64 rows a pass; eight lanes fill all banks.
    const mla_u32 piece = lane & 1u;
    const mla_u32 row = 16u * warp + 8u * (lane >> 4) + ((lane >> 3) & 1u) + (lane & 6u);
    const mla_u32 load_to = base + row * 48u + 16u * piece;
    const mla_u32 in_tile = 8u * ((row >> 1) & 3u) + 2u * ((row >> 3) & 3u)
                            + (row & 1u) + (row & ~31u);
    const char *x[1];
    const char *w[1];
    x[0] = (const char *)a.latent + 16u * piece
           + (mla_i64)min(first_token + row, tokens - 1) * a.latent_stride;

    // Copies the next stage; after the last one an empty group, so that waiting counts on.
    mla_u32 load_column = first_column;
    mla_i32 load_step = 0;
    mla_u32 load_stage = 0;
    const auto load = [&]() {
        if (load_column < end_column) {
            if (load_step == 0) {
                w[0] = weights(a, load_column + in_tile) + 16u * piece;
            }
            const mla_u32 to = load_to + load_stage;
            copy16<0>(to, x[0]);
            copy16<W + 0>(to, w[0]);
#pragma unroll
            for (mla_i32 i = 0; i < 1; ++i)
                w[i] += 32;
#pragma unroll
            for (mla_i32 i = 0; i < 1; ++i)
                x[i] += 32;
            if (++load_step == 5) { // the next column tile, the same latents
                load_step = 0;
                load_column += 64u;
#pragma unroll
                for (mla_i32 i = 0; i < 1; ++i)
                    x[i] -= 160;
            }
            load_stage = load_stage == 18432u ? 0u : load_stage + STAGE;
        }
        copies_commit();
    };
#pragma unroll 1
    for (mla_i32 i = 0; i < 3; ++i)
        load();

    // Fragments: this warp's 32 rows of latents, its 32 rows of W.
    const mla_u32 warp_row = 32u * (warp / 2u);
    const mla_u32 warp_column = 32u * (warp % 2u);
    const bool busy = first_token + warp_row < tokens; // else it has no token, and only loads
    const mla_u32 x_from = base + (warp_row + (lane & 15u)) * 48u + 16u * (lane >> 4);
    const mla_u32 w_from = base + W + (warp_column + 8u * (lane >> 4) + (lane & 7u)) * 48u
                           + 16u * ((lane >> 3) & 1u);
    mla_u32 stage = 0;
#pragma unroll 1
    for (mla_u32 column = first_column; column < end_column; column += 64u) {
        float4 c[2][4];
#pragma unroll
        for (mla_i32 i = 0; i < 8; ++i)
            c[i / 4][i % 4] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);

#pragma unroll 1
        for (mla_i32 step = 0; step < 5; ++step) {
            // The stage is full, and the one that is loaded next is free.
            copies_wait<2>();
            __syncthreads();
            load();

            if (busy) {
                // 16 of k, in order.
                const mla_u32 x_stage = x_from + stage;
                const mla_u32 w_stage = w_from + stage;
                {
                    const mla_v4 x[] = {matrices<0>(x_stage), matrices<768>(x_stage)};
                    const mla_v4 w[] = {matrices<0>(w_stage), matrices<768>(w_stage)};
                    multiply(c, x, w);
                }
            }
            stage = stage == 18432u ? 0u : stage + STAGE;
        }

        // Eight neighbouring columns per lane, of 4 tokens.
#pragma unroll
        for (mla_i32 i = 0; i < 1; ++i) {
            const mla_u32 at = column + warp_column + 32u * i + 8u * (lane & 3u);
            const mla_u32 head = at / 160u;
            const mla_u32 in_head = at % 160u;
            const bool is_k = in_head < 48u;
            const mla_i64 stride = is_k ? a.k_nope_token_stride : a.v_token_stride;
            char *to = is_k ? (char *)a.k_nope + head * a.k_nope_head_stride + 2u * in_head
                            : (char *)a.v + head * a.v_head_stride + 2u * (in_head - 48u);
#pragma unroll
            for (mla_i32 m = 0; m < 2; ++m) {
                const float4 *const r = &c[m][4 * i];
                const mla_u32 token = first_token + warp_row + 16u * m + (lane >> 2);
                const mla_v4 low = {pack2(r[0].x, r[0].y), pack2(r[1].x, r[1].y),
                                    pack2(r[2].x, r[2].y), pack2(r[3].x, r[3].y)};
                const mla_v4 high = {pack2(r[0].z, r[0].w), pack2(r[1].z, r[1].w),
                                     pack2(r[2].z, r[2].w), pack2(r[3].z, r[3].w)};
                if (at < COLUMNS && token < tokens)
                    store16(to + (mla_i64)token * stride, low);
                if (at < COLUMNS && token + 8u < tokens)
                    store16(to + (mla_i64)(token + 8u) * stride, high);
            }
        }
    }
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_kv_b_odd_fp16_h5_p1_sm_90_launch(
    const mla_kv_b_args *a, void *stream)
{
    if (!a)
        return cudaErrorInvalidValue;
    if (a->tokens < 0)
        return cudaErrorInvalidValue;
    const mla_u64 grid_x = ((mla_u64)a->tokens + 63) / 64;
    const mla_u64 grid_y = 13ull;
    const mla_u64 grid_z = 1ull;
    if (grid_x == 0)
        return cudaSuccess;
    if (!a->latent || !a->kv_b || !a->k_nope || !a->v)
        return cudaErrorInvalidValue;
    const mla_u64 low16 = (mla_u64)a->latent | (mla_u64)a->latent_stride | (mla_u64)a->kv_b
        | (mla_u64)a->kv_b_head_stride | (mla_u64)a->kv_b_row_stride | (mla_u64)a->k_nope
        | (mla_u64)a->k_nope_token_stride | (mla_u64)a->k_nope_head_stride | (mla_u64)a->v
        | (mla_u64)a->v_token_stride | (mla_u64)a->v_head_stride;
    if (low16 & 15)
        return cudaErrorMisalignedAddress;
    const void *kernel =
        (const void *)mla_kv_b_odd_fp16_h5_p1_sm_90;
    const dim3 grid((mla_u32)grid_x, (mla_u32)grid_y, (mla_u32)grid_z);
    const dim3 block(128, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 24576, (cudaStream_t)stream);
}
#endif

} // namespace mla_kv_b_odd_fp16_h5_p1_sm_90_ns
