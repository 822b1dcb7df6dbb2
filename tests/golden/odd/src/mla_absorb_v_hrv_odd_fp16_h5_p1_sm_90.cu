// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// absorb_v: output of the latent path at the width of v. out[t][h] = o[t][h] * W_UV[h]; W_UV[h] is
// w_vc[h], [latent][v].
//
// overrides  none
// command    mlagen gen odd.yaml
//
// tile       warp: 16 columns x 16 of k; CTA: 1 x 5 warps; step: 8 tokens
// weights    4 loads per lane in flight, from W[k][n]
// mma        1 x m16n8k16 per warp and step
// smem       5,760 B: partial sums, 2 buffers x 5 warps x 576 B
// registers  about 62; 6 CTAs per SM
// floor      W 89,600 B once, 1,920 B per token
// clocks     W 37 of DRAM; per 8 tokens 7 of DRAM, 2 of MMA (132 SMs)
namespace mla_absorb_v_hrv_odd_fp16_h5_p1_sm_90_ns {

typedef unsigned int mla_u32;
typedef unsigned long long mla_u64;
typedef int mla_i32;
typedef long long mla_i64;

// Eight 16-bit values: the unit of every global access.
struct __align__(16) mla_v4 {
    mla_u32 x, y, z, w;
};


// Reads 4 bytes of weights, which are needed once.
static __device__ __forceinline__ mla_u32 once4(const void *p)
{
    mla_u32 v;
    asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];"
                 : "=r"(v)
                 : "l"(p)
                 : "memory");
    return v;
}

// The same; p then goes on by one row.
static __device__ __forceinline__ mla_u32 walk4(const char *&p, mla_i64 row)
{
    const mla_u32 v = once4(p);
    p += row;
    return v;
}

// Reads 8 bytes.
static __device__ __forceinline__ uint2 load8(const void *p)
{
    uint2 v;
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];"
                 : "=r"(v.x), "=r"(v.y)
                 : "l"(p)
                 : "memory");
    return v;
}

// Writes 4 bytes.
static __device__ __forceinline__ void store4(void *p, mla_u32 v)
{
    asm volatile("st.global.u32 [%0], %1;"
                 :
                 : "l"(p), "r"(v)
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

// c = A * B, the first product of a sum.
static __device__ __forceinline__ void mma_first(float4 &c, mla_u32 a0, mla_u32 a1, mla_u32 a2,
                                                 mla_u32 a3, mla_u32 b0, mla_u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
                 : "=f"(c.x), "=f"(c.y), "=f"(c.z), "=f"(c.w)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(0.0f));
}

// Keeps v in a register as it is: no more can be known about it.  No instruction.
static __device__ __forceinline__ void pin(mla_u32 &v)
{
    asm volatile("" : "+r"(v));
}

static __device__ __forceinline__ void pin(mla_i64 &v)
{
    asm volatile("" : "+l"(v));
}

static __device__ __forceinline__ void pin(const char *&v)
{
    asm volatile("" : "+l"(v));
}

// An A fragment from four words, word k of which holds A[g][k] in its lower and A[g + 8][k]
// in its upper half: neighbours in k come together.  low and high select those halves.
static __device__ __forceinline__ mla_v4 pair_rows(mla_u32 k0, mla_u32 k1, mla_u32 k2,
                                                   mla_u32 k3, mla_u32 low, mla_u32 high)
{
    const mla_v4 a = {__byte_perm(k0, k1, low), __byte_perm(k0, k1, high),
                      __byte_perm(k2, k3, low), __byte_perm(k2, k3, high)};
    return a;
}

// sum += v
static __device__ __forceinline__ void add4(float4 &sum, float4 v)
{
    sum.x += v.x;
    sum.y += v.y;
    sum.z += v.z;
    sum.w += v.w;
}

struct mla_absorb_v_hrv_args {
    const void *o;            // [tokens][heads][latent]
    mla_i64 o_token_stride;   // o, from token to token, bytes
    mla_i64 o_head_stride;    // o, from head to head, bytes
    const void *w_vc;         // [heads][latent][v]
    mla_i64 w_vc_head_stride; // w_vc, from head to head, bytes
    mla_i64 w_vc_row_stride;  // w_vc, from row to row, bytes
    void *out;                // [tokens][heads][v]
    mla_i64 out_token_stride; // out, from token to token, bytes
    mla_i64 out_head_stride;  // out, from head to head, bytes
    mla_i32 tokens;           // rows of out
};

extern "C" __global__ void __launch_bounds__(160, 6)
mla_absorb_v_hrv_odd_fp16_h5_p1_sm_90(const mla_absorb_v_hrv_args a)
{
    const mla_u32 lane = threadIdx.x & 31u;
    const mla_u32 g = lane >> 2; // MMA group: a token of the step, a run of columns
    const mla_u32 q = lane & 3u; // place in the group: a piece of the contraction
    const mla_u32 head = blockIdx.y;
    const mla_u32 warp = threadIdx.x >> 5;
    const mla_u32 warp_k = warp;
    const mla_u32 column = blockIdx.x * 16u; // first of the warp's 16
    const mla_u32 first_k = 16u * warp_k;
    const mla_u32 tokens = (mla_u32)a.tokens;
    mla_u32 stride = 8u * gridDim.z;
    mla_u32 t = 8u * blockIdx.z;
    if (t >= tokens)
        return;
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");

    // W[k][n]: 2 columns per lane, 4 loads, all on their way before one is needed.
    const char *corner = (const char *)a.w_vc + head * a.w_vc_head_stride
                         + 2u * (column + 2u * g);
    const char *w = corner + (mla_i64)(first_k + 4u * q) * a.w_vc_row_stride;
    const mla_u32 w0_0 = walk4(w, a.w_vc_row_stride);
    const mla_u32 w0_1 = walk4(w, a.w_vc_row_stride);
    const mla_u32 w0_2 = walk4(w, a.w_vc_row_stride);
    const mla_u32 w0_3 = walk4(w, a.w_vc_row_stride);

    // W is older than the kernel before this one; all that follows may be its result.
    asm volatile("griddepcontrol.wait;" ::: "memory");

    // Token rows of the first step.
    mla_u32 last = tokens - 1;
    const char *x_lane = (const char *)a.o + head * a.o_head_stride
                         + (2u * first_k + 8u * q);
    const char *x;
    uint2 x0_0;
    x = x_lane + (mla_i64)min(t + g, last) * a.o_token_stride;
    x0_0 = load8(x);

    // Fragments of W: neighbours in k side by side.
    const mla_u32 low = 0x5410u;
    const mla_u32 high = 0x7632u;
    // k = 0 + 4 q to 3 + 4 q
    const mla_v4 frag0_0 = pair_rows(w0_0, w0_1, w0_2, w0_3, low, high);

    // Partial sums of the 5 warps along k meet here: mine is where this lane leaves its
    // fragments; theirs, where it reads the same fragment of all warps, 2 columns of 2 tokens.
    __shared__ __align__(16) char exchange[5760];
    const mla_u32 first_job = 4u * warp_k + q;
    mla_u32 pair = 2u * first_job;
    mla_u32 mine = 576u * warp + 16u * lane;
    mla_u32 theirs = 64u * g + 16u * first_job;
    mla_u32 buffer = 0;
    char *y = (char *)a.out + head * a.out_head_stride + (t + pair) * a.out_token_stride
              + 2u * (column + 2u * g);
    mla_i64 y_step = stride * a.out_token_stride;

    // What every step uses, computed once.
    pin(pair);
    pin(stride);
    pin(last);
    pin(x_lane);
    pin(y_step);
    pin(mine);
    pin(theirs);

    for (; t < tokens; t += stride) {
        float4 c0_0;
        // k = 0 + 4 q to 3 + 4 q
        mma_first(c0_0, frag0_0.x, frag0_0.y, frag0_0.z, frag0_0.w, x0_0.x, x0_0.y);

        // The next step's rows travel while this one is stored.
        if (t + stride < tokens) {
            x = x_lane + (mla_i64)min(t + stride + g, last) * a.o_token_stride;
            x0_0 = load8(x);
        }

        *(float4 *)(exchange + buffer + mine) = c0_0;
        __syncthreads();
        if (first_job < 4u) {
            const char *sums = exchange + buffer + theirs;
            float4 sum = *(const float4 *)sums;
            add4(sum, *(const float4 *)(sums + 576));
            add4(sum, *(const float4 *)(sums + 1152));
            add4(sum, *(const float4 *)(sums + 1728));
            add4(sum, *(const float4 *)(sums + 2304));
            if (t + pair < tokens)
                store4(y, pack2(sum.x, sum.z));
            if (t + pair + 1u < tokens)
                store4(y + a.out_token_stride, pack2(sum.y, sum.w));
        }
        buffer = 2880u - buffer;
        y += y_step;
    }
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_absorb_v_hrv_odd_fp16_h5_p1_sm_90_launch(
    const mla_absorb_v_hrv_args *a, void *stream)
{
    if (!a)
        return cudaErrorInvalidValue;
    if (a->tokens < 0)
        return cudaErrorInvalidValue;
    const mla_u64 grid_x = 7ull;
    const mla_u64 grid_y = 5ull;
    const mla_u64 grid_z = ((mla_u64)a->tokens + 63) / 64;
    if (grid_z == 0)
        return cudaSuccess;
    if (!a->o || !a->w_vc || !a->out)
        return cudaErrorInvalidValue;
    const mla_u64 low16 = (mla_u64)a->o | (mla_u64)a->o_token_stride | (mla_u64)a->o_head_stride
        | (mla_u64)a->w_vc | (mla_u64)a->w_vc_head_stride | (mla_u64)a->w_vc_row_stride
        | (mla_u64)a->out | (mla_u64)a->out_token_stride | (mla_u64)a->out_head_stride;
    if (low16 & 15)
        return cudaErrorMisalignedAddress;
    const void *kernel =
        (const void *)mla_absorb_v_hrv_odd_fp16_h5_p1_sm_90;
    const dim3 grid((mla_u32)grid_x, (mla_u32)grid_y, (mla_u32)(grid_z < 22ull ? grid_z : 22ull));
    const dim3 block(160, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 0, (cudaStream_t)stream);
}
#endif

} // namespace mla_absorb_v_hrv_odd_fp16_h5_p1_sm_90_ns
