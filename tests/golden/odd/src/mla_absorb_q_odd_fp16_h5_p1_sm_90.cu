// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// absorb_q: queries of the latent path. Row [t][h] of q = [q_nope[t][h] * W_UK[h] |
// RoPE(q_rope[t][h])]; W_UK[h] is the first 48 rows of head h of kv_b_proj, read where they lie.
// Rows are multiplied by a factor that grows with the position.
//
// overrides  none
// command    mlagen gen odd.yaml
//
// tile       warp: 16 columns x 16 of k; CTA: 1 x 3 warps; step: 8 tokens
// weights    4 loads per lane in flight, from W[k][n]
// mma        1 x m16n8k16 per warp and step
// smem       3,456 B: partial sums, 2 buffers x 3 warps x 576 B
// registers  about 62; 10 CTAs per SM
// floor      W 38,400 B once, 1,280 B per token
// clocks     W 16 of DRAM; per 8 tokens 5 of DRAM, 1 of MMA (132 SMs)
// rope       neox: 4 threads per token, 24 tokens per CTA and pass; 128 B per token and head
// factor     1 + 0.1 ln(1 + floor(position / 64)), per lane and stored token
namespace mla_absorb_q_odd_fp16_h5_p1_sm_90_ns {

typedef unsigned int mla_u32;
typedef unsigned long long mla_u64;
typedef int mla_i32;
typedef long long mla_i64;

// Eight 16-bit values: the unit of every global access.
struct __align__(16) mla_v4 {
    mla_u32 x, y, z, w;
};

// Reads 16 bytes.
static __device__ __forceinline__ mla_v4 load16(const void *p)
{
    mla_v4 v;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

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

// Reads four values of the first half of a row and their partners in the second.
static __device__ __forceinline__ mla_v4 load_pairs(const char *p)
{
    mla_v4 v;
    asm volatile("ld.global.v2.u32 {%0, %1}, [%4];\n\t"
                 "ld.global.v2.u32 {%2, %3}, [%4 + 32];"
                 : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

static __device__ __forceinline__ void store_pairs(char *p, mla_v4 v)
{
    asm volatile("st.global.v2.u32 [%0], {%1, %2};\n\t"
                 "st.global.v2.u32 [%0 + 32], {%3, %4};"
                 :
                 : "l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

// Rotates two pairs, the x's in one register and the y's in the other; c and s are their cosines
// and sines as float bits.
static __device__ __forceinline__ void rotate2(mla_u32 &x, mla_u32 &y, mla_u32 c0, mla_u32 c1,
                                               mla_u32 s0, mla_u32 s1)
{
    const float cos0 = __uint_as_float(c0);
    const float cos1 = __uint_as_float(c1);
    const float sin0 = __uint_as_float(s0);
    const float sin1 = __uint_as_float(s1);
    const float x0 = lo_f32(x);
    const float x1 = hi_f32(x);
    const float y0 = lo_f32(y);
    const float y1 = hi_f32(y);
    x = pack2(x0 * cos0 - y0 * sin0, x1 * cos1 - y1 * sin1);
    y = pack2(y0 * cos0 + x0 * sin0, y1 * cos1 + x1 * sin1);
}

// Rotates four pairs.
static __device__ __forceinline__ mla_v4 rotate8(mla_v4 v, mla_v4 c, mla_v4 s)
{
    rotate2(v.x, v.z, c.x, c.y, s.x, s.y);
    rotate2(v.y, v.w, c.z, c.w, s.z, s.w);
    return v;
}

static __device__ __forceinline__ float position_factor(mla_i64 position)
{
    return 1.0f + 0.1f * logf(1.0f + (float)(position / 64));
}

// Four floats in a vector, times a factor.
static __device__ __forceinline__ mla_v4 times4(mla_v4 v, float factor)
{
    v.x = __float_as_uint(__uint_as_float(v.x) * factor);
    v.y = __float_as_uint(__uint_as_float(v.y) * factor);
    v.z = __float_as_uint(__uint_as_float(v.z) * factor);
    v.w = __float_as_uint(__uint_as_float(v.w) * factor);
    return v;
}

struct mla_absorb_q_args {
    const void *q_nope;          // [tokens][heads][nope]
    mla_i64 q_nope_token_stride; // q_nope, from token to token, bytes
    mla_i64 q_nope_head_stride;  // q_nope, from head to head, bytes
    const void *q_rope;          // [tokens][heads][rope]
    mla_i64 q_rope_token_stride; // q_rope, from token to token, bytes
    mla_i64 q_rope_head_stride;  // q_rope, from head to head, bytes
    const void *kv_b;            // kv_b_proj: per head nope + v rows of latent values
    mla_i64 kv_b_head_stride;    // kv_b, from head to head, bytes
    mla_i64 kv_b_row_stride;     // kv_b, from row to row, bytes
    const float *cos_sin;        // [positions][cos(rope/2) | sin(rope/2)]
    mla_i64 cos_sin_stride;      // cos_sin, from position to position, bytes
    const mla_i64 *positions;    // [tokens], rows of cos_sin
    void *q;                     // [tokens][heads][latent + rope]
    mla_i64 q_token_stride;      // q, from token to token, bytes
    mla_i64 q_head_stride;       // q, from head to head, bytes
    mla_i32 tokens;              // rows of q
};

extern "C" __global__ void __launch_bounds__(96, 10)
mla_absorb_q_odd_fp16_h5_p1_sm_90(const mla_absorb_q_args a)
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
    const char *corner = (const char *)a.kv_b + head * a.kv_b_head_stride
                         + 2u * (column + 2u * g);
    const char *w = corner + (mla_i64)(first_k + 4u * q) * a.kv_b_row_stride;
    const mla_u32 w0_0 = walk4(w, a.kv_b_row_stride);
    const mla_u32 w0_1 = walk4(w, a.kv_b_row_stride);
    const mla_u32 w0_2 = walk4(w, a.kv_b_row_stride);
    const mla_u32 w0_3 = walk4(w, a.kv_b_row_stride);

    // W is older than the kernel before this one; all that follows may be its result.
    asm volatile("griddepcontrol.wait;" ::: "memory");

    // Token rows of the first step.
    mla_u32 last = tokens - 1;
    const char *x_lane = (const char *)a.q_nope + head * a.q_nope_head_stride
                         + (2u * first_k + 8u * q);
    const char *x;
    uint2 x0_0;
    x = x_lane + (mla_i64)min(t + g, last) * a.q_nope_token_stride;
    x0_0 = load8(x);

    // RoPE of the rotary columns, 24 tokens per CTA and pass, while W is on its way.
    const mla_u32 part = threadIdx.x % 4u;
    const mla_u32 pass = gridDim.x * gridDim.z * 24u;
    mla_u32 token = (blockIdx.z * gridDim.x + blockIdx.x) * 24u + threadIdx.x / 4u;
    const char *rope = (const char *)a.q_rope + head * a.q_rope_head_stride;
    char *out = (char *)a.q + head * a.q_head_stride + 160;
    mla_i64 position = token < tokens ? a.positions[token] : 0;
    while (token < tokens) {
        const mla_u32 next = token + pass;
        const mla_i64 next_position = next < tokens ? a.positions[next] : 0;
        const float factor = position_factor(position);
        const char *from = rope + token * a.q_rope_token_stride + 8u * part;
        char *to = out + token * a.q_token_stride + 8u * part;
        const char *angles = (const char *)a.cos_sin + position * a.cos_sin_stride + 16u * part;
        const mla_v4 pairs = load_pairs(from);
        const mla_v4 cosines = times4(load16(angles), factor);
        const mla_v4 sines = times4(load16(angles + 64), factor);
        store_pairs(to, rotate8(pairs, cosines, sines));
        position = next_position;
        token = next;
    }
    // The loop ends with token >= tokens, so late is 0; the compiler must not know, or it moves
    // the first use of W, and the wait for it, in front of the loop.
    pin(token);
    const mla_u32 late = token < tokens ? 1u : 0u;

    // Fragments of W: neighbours in k side by side.
    const mla_u32 low = 0x5410u + late;
    const mla_u32 high = 0x7632u + late;
    // k = 0 + 4 q to 3 + 4 q
    const mla_v4 frag0_0 = pair_rows(w0_0, w0_1, w0_2, w0_3, low, high);

    // Partial sums of the 3 warps along k meet here: mine is where this lane leaves its
    // fragments; theirs, where it reads the same fragment of all warps, 2 columns of 2 tokens.
    __shared__ __align__(16) char exchange[3456];
    const mla_u32 first_job = 4u * warp_k + q;
    mla_u32 pair = 2u * first_job;
    mla_u32 mine = 576u * warp + 16u * lane;
    mla_u32 theirs = 64u * g + 16u * first_job;
    mla_u32 buffer = 0;
    char *y = (char *)a.q + head * a.q_head_stride + (t + pair) * a.q_token_stride
              + 2u * (column + 2u * g);
    mla_i64 y_step = stride * a.q_token_stride;

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
        // Factors of the tokens that this lane stores, on their way while it multiplies.
        const float factor0 = position_factor(a.positions[min(t + pair, last)]);
        const float factor1 = position_factor(a.positions[min(t + pair + 1u, last)]);
        // k = 0 + 4 q to 3 + 4 q
        mma_first(c0_0, frag0_0.x, frag0_0.y, frag0_0.z, frag0_0.w, x0_0.x, x0_0.y);

        // The next step's rows travel while this one is stored.
        if (t + stride < tokens) {
            x = x_lane + (mla_i64)min(t + stride + g, last) * a.q_nope_token_stride;
            x0_0 = load8(x);
        }

        *(float4 *)(exchange + buffer + mine) = c0_0;
        __syncthreads();
        if (first_job < 4u) {
            const char *sums = exchange + buffer + theirs;
            float4 sum = *(const float4 *)sums;
            add4(sum, *(const float4 *)(sums + 576));
            add4(sum, *(const float4 *)(sums + 1152));
            if (t + pair < tokens)
                store4(y, pack2(sum.x * factor0, sum.z * factor0));
            if (t + pair + 1u < tokens)
                store4(y + a.q_token_stride, pack2(sum.y * factor1, sum.w * factor1));
        }
        buffer = 1728u - buffer;
        y += y_step;
    }
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_absorb_q_odd_fp16_h5_p1_sm_90_launch(
    const mla_absorb_q_args *a, void *stream)
{
    if (!a)
        return cudaErrorInvalidValue;
    if (a->tokens < 0)
        return cudaErrorInvalidValue;
    const mla_u64 grid_x = 5ull;
    const mla_u64 grid_y = 5ull;
    const mla_u64 grid_z = ((mla_u64)a->tokens + 63) / 64;
    if (grid_z == 0)
        return cudaSuccess;
    if (!a->q_nope || !a->q_rope || !a->kv_b || !a->cos_sin || !a->positions || !a->q)
        return cudaErrorInvalidValue;
    const mla_u64 low16 = (mla_u64)a->q_nope | (mla_u64)a->q_nope_token_stride
        | (mla_u64)a->q_nope_head_stride | (mla_u64)a->q_rope | (mla_u64)a->q_rope_token_stride
        | (mla_u64)a->q_rope_head_stride | (mla_u64)a->kv_b | (mla_u64)a->kv_b_head_stride
        | (mla_u64)a->kv_b_row_stride | (mla_u64)a->cos_sin | (mla_u64)a->cos_sin_stride
        | (mla_u64)a->q | (mla_u64)a->q_token_stride | (mla_u64)a->q_head_stride;
    if (low16 & 15)
        return cudaErrorMisalignedAddress;
    const mla_u64 low8 = (mla_u64)a->positions;
    if (low8 & 7)
        return cudaErrorMisalignedAddress;
    const void *kernel =
        (const void *)mla_absorb_q_odd_fp16_h5_p1_sm_90;
    const dim3 grid((mla_u32)grid_x, (mla_u32)grid_y, (mla_u32)(grid_z < 52ull ? grid_z : 52ull));
    const dim3 block(96, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 0, (cudaStream_t)stream);
}
#endif

} // namespace mla_absorb_q_odd_fp16_h5_p1_sm_90_ns
