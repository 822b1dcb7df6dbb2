// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// absorb_v: output of the latent path at the width of v. out[t][h] = o[t][h] * W_UV[h]; W_UV[h] is
// rows 16 to 31 of head h of kv_b_proj, read where they lie.
//
// overrides  none
// command    mlagen gen tiny.yaml
//
// tile       warp: 16 columns x 16 of k; CTA: 1 x 1 warps; step: 8 tokens
// weights    2 loads per lane in flight, from W[n][k]
// mma        1 x m16n8k16 per warp and step
// smem       none
// registers  about 62; 32 CTAs per SM
// floor      W 1,536 B once, 192 B per token
// clocks     W 2 of DRAM; per 8 tokens 2 of DRAM, 1 of MMA (108 SMs)
namespace mla_absorb_v_tiny_bf16_h3_p2_sm_80_ns {

typedef unsigned int mla_u32;
typedef unsigned long long mla_u64;
typedef int mla_i32;
typedef long long mla_i64;

// Eight 16-bit values: the unit of every global access.
struct __align__(16) mla_v4 {
    mla_u32 x, y, z, w;
};


// Reads 8 bytes of weights, which are needed once.
static __device__ __forceinline__ uint2 once8(const void *p)
{
    uint2 v;
    asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                 : "=r"(v.x), "=r"(v.y)
                 : "l"(p)
                 : "memory");
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
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
        : "=r"(pair)
        : "f"(hi), "f"(lo));
    return pair;
}

// c = A * B, the first product of a sum.
static __device__ __forceinline__ void mma_first(float4 &c, mla_u32 a0, mla_u32 a1, mla_u32 a2,
                                                 mla_u32 a3, mla_u32 b0, mla_u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
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

struct mla_absorb_v_args {
    const void *o;            // [tokens][heads][latent]
    mla_i64 o_token_stride;   // o, from token to token, bytes
    mla_i64 o_head_stride;    // o, from head to head, bytes
    const void *kv_b;         // kv_b_proj: per head nope + v rows of latent values
    mla_i64 kv_b_head_stride; // kv_b, from head to head, bytes
    mla_i64 kv_b_row_stride;  // kv_b, from row to row, bytes
    void *out;                // [tokens][heads][v]
    mla_i64 out_token_stride; // out, from token to token, bytes
    mla_i64 out_head_stride;  // out, from head to head, bytes
    mla_i32 tokens;           // rows of out
};

extern "C" __global__ void __launch_bounds__(32, 32)
mla_absorb_v_tiny_bf16_h3_p2_sm_80(const mla_absorb_v_args a)
{
    const mla_u32 lane = threadIdx.x & 31u;
    const mla_u32 g = lane >> 2; // MMA group: a token of the step, a run of columns
    const mla_u32 q = lane & 3u; // place in the group: a piece of the contraction
    const mla_u32 head = blockIdx.y;
    const mla_u32 column = blockIdx.x * 16u; // first of the warp's 16
    const mla_u32 tokens = (mla_u32)a.tokens;
    mla_u32 stride = 8u * gridDim.z;
    mla_u32 t = 8u * blockIdx.z;
    if (t >= tokens)
        return;

    // W[n][k]: 2 rows of columns per lane, 2 loads, all on their way before one is needed.
    const char *w = (const char *)a.kv_b + head * a.kv_b_head_stride
                    + (mla_i64)(16u + column + 2u * g) * a.kv_b_row_stride
                    + (8u * q);
    const uint2 w0_0 = once8(w);
    w += a.kv_b_row_stride;
    const uint2 w0_1 = once8(w);

    // Token rows of the first step.
    mla_u32 last = tokens - 1;
    const char *x_lane = (const char *)a.o + head * a.o_head_stride
                         + (8u * q);
    const char *x;
    uint2 x0_0;
    x = x_lane + (mla_i64)min(t + g, last) * a.o_token_stride;
    x0_0 = load8(x);

    mla_u32 pair = 2u * q;
    char *y = (char *)a.out + head * a.out_head_stride + (t + pair) * a.out_token_stride
              + 2u * (column + 2u * g);
    mla_i64 y_step = stride * a.out_token_stride;

    // What every step uses, computed once.
    pin(pair);
    pin(stride);
    pin(last);
    pin(x_lane);
    pin(y_step);

    for (; t < tokens; t += stride) {
        float4 c0_0;
        // k = 0 + 4 q to 3 + 4 q
        mma_first(c0_0, w0_0.x, w0_1.x, w0_0.y, w0_1.y, x0_0.x, x0_0.y);

        // The next step's rows travel while this one is stored.
        if (t + stride < tokens) {
            x = x_lane + (mla_i64)min(t + stride + g, last) * a.o_token_stride;
            x0_0 = load8(x);
        }

        if (t + pair < tokens) {
            const mla_u32 columns = pack2(c0_0.x, c0_0.z);
            store4(y, columns);
        }
        if (t + pair + 1u < tokens) {
            const mla_u32 columns = pack2(c0_0.y, c0_0.w);
            store4(y + 1 * a.out_token_stride, columns);
        }
        y += y_step;
    }
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_absorb_v_tiny_bf16_h3_p2_sm_80_launch(
    const mla_absorb_v_args *a, void *stream)
{
    if (!a)
        return cudaErrorInvalidValue;
    if (a->tokens < 0)
        return cudaErrorInvalidValue;
    const mla_u64 grid_x = 1ull;
    const mla_u64 grid_y = 3ull;
    const mla_u64 grid_z = ((mla_u64)a->tokens + 63) / 64;
    if (grid_z == 0)
        return cudaSuccess;
    if (!a->o || !a->kv_b || !a->out)
        return cudaErrorInvalidValue;
    const mla_u64 low16 = (mla_u64)a->o | (mla_u64)a->o_token_stride | (mla_u64)a->o_head_stride
        | (mla_u64)a->kv_b | (mla_u64)a->kv_b_head_stride | (mla_u64)a->kv_b_row_stride
        | (mla_u64)a->out | (mla_u64)a->out_token_stride | (mla_u64)a->out_head_stride;
    if (low16 & 15)
        return cudaErrorMisalignedAddress;
    const void *kernel =
        (const void *)mla_absorb_v_tiny_bf16_h3_p2_sm_80;
    const dim3 grid((mla_u32)grid_x,
                        (mla_u32)grid_y,
                        (mla_u32)(grid_z < 1152ull ? grid_z : 1152ull));
    const dim3 block(32, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 0, (cudaStream_t)stream);
}
#endif

} // namespace mla_absorb_v_tiny_bf16_h3_p2_sm_80_ns
