// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// absorb_q: queries of the latent path. Row [t][h] of q = [q_nope[t][h] * W_UK[h] |
// RoPE(q_rope[t][h])]; W_UK[h] is the first 16 rows of head h of kv_b_proj, read where they lie.
//
// overrides  none
// command    mlagen gen tiny.yaml
//
// tile       warp: 16 columns x 16 of k; CTA: 1 x 1 warps; step: 8 tokens
// weights    4 loads per lane in flight, from W[k][n]
// mma        1 x m16n8k16 per warp and step
// smem       none
// registers  about 62; 32 CTAs per SM
// floor      W 1,536 B once, 192 B per token
// clocks     W 2 of DRAM; per 8 tokens 2 of DRAM, 1 of MMA (108 SMs)
// rope       interleaved: 2 threads per token, 16 tokens per CTA and pass; 64 B per token and head
namespace mla_absorb_q_tiny_bf16_h3_p2_sm_80_ns {

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

// Writes 16 bytes.
static __device__ __forceinline__ void store16(void *p, mla_v4 v)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
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

// The values of a pair; bf16 is the upper half of a float.
static __device__ __forceinline__ float lo_f32(mla_u32 pair)
{
    return __uint_as_float(pair << 16);
}

static __device__ __forceinline__ float hi_f32(mla_u32 pair)
{
    return __uint_as_float(pair & 0xffff0000u);
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

// An A fragment from four words, word k of which holds A[g][k] in its lower and A[g + 8][k]
// in its upper half: neighbours in k come together.  low and high select those halves.
static __device__ __forceinline__ mla_v4 pair_rows(mla_u32 k0, mla_u32 k1, mla_u32 k2,
                                                   mla_u32 k3, mla_u32 low, mla_u32 high)
{
    const mla_v4 a = {__byte_perm(k0, k1, low), __byte_perm(k0, k1, high),
                      __byte_perm(k2, k3, low), __byte_perm(k2, k3, high)};
    return a;
}

// Rotates the pair in a register; c and s are its cosine and sine as float bits.
static __device__ __forceinline__ mla_u32 rotate2(mla_u32 pair, mla_u32 c, mla_u32 s)
{
    const float x = lo_f32(pair);
    const float y = hi_f32(pair);
    const float cosine = __uint_as_float(c);
    const float sine = __uint_as_float(s);
    return pack2(x * cosine - y * sine, y * cosine + x * sine);
}

// Rotates four neighbouring pairs.
static __device__ __forceinline__ mla_v4 rotate8(mla_v4 v, mla_v4 c, mla_v4 s)
{
    v.x = rotate2(v.x, c.x, s.x);
    v.y = rotate2(v.y, c.y, s.y);
    v.z = rotate2(v.z, c.z, s.z);
    v.w = rotate2(v.w, c.w, s.w);
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

extern "C" __global__ void __launch_bounds__(32, 32)
mla_absorb_q_tiny_bf16_h3_p2_sm_80(const mla_absorb_q_args a)
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

    // W[k][n]: 2 columns per lane, 4 loads, all on their way before one is needed.
    const char *corner = (const char *)a.kv_b + head * a.kv_b_head_stride
                         + 2u * (column + 2u * g);
    const char *w = corner + (mla_i64)(4u * q) * a.kv_b_row_stride;
    const mla_u32 w0_0 = walk4(w, a.kv_b_row_stride);
    const mla_u32 w0_1 = walk4(w, a.kv_b_row_stride);
    const mla_u32 w0_2 = walk4(w, a.kv_b_row_stride);
    const mla_u32 w0_3 = walk4(w, a.kv_b_row_stride);

    // Token rows of the first step.
    mla_u32 last = tokens - 1;
    const char *x_lane = (const char *)a.q_nope + head * a.q_nope_head_stride
                         + (8u * q);
    const char *x;
    uint2 x0_0;
    x = x_lane + (mla_i64)min(t + g, last) * a.q_nope_token_stride;
    x0_0 = load8(x);

    // RoPE of the rotary columns, 16 tokens per CTA and pass, while W is on its way.
    const mla_u32 part = threadIdx.x % 2u;
    const mla_u32 pass = gridDim.x * gridDim.z * 16u;
    mla_u32 token = (blockIdx.z * gridDim.x + blockIdx.x) * 16u + threadIdx.x / 2u;
    const char *rope = (const char *)a.q_rope + head * a.q_rope_head_stride;
    char *out = (char *)a.q + head * a.q_head_stride + 32;
    mla_i64 position = token < tokens ? a.positions[token] : 0;
    while (token < tokens) {
        const mla_u32 next = token + pass;
        const mla_i64 next_position = next < tokens ? a.positions[next] : 0;
        const char *from = rope + token * a.q_rope_token_stride + 16u * part;
        char *to = out + token * a.q_token_stride + 16u * part;
        const char *angles = (const char *)a.cos_sin + position * a.cos_sin_stride + 16u * part;
        const mla_v4 pairs = load16(from);
        const mla_v4 cosines = load16(angles);
        const mla_v4 sines = load16(angles + 32);
        store16(to, rotate8(pairs, cosines, sines));
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

    mla_u32 pair = 2u * q;
    char *y = (char *)a.q + head * a.q_head_stride + (t + pair) * a.q_token_stride
              + 2u * (column + 2u * g);
    mla_i64 y_step = stride * a.q_token_stride;

    // What every step uses, computed once.
    pin(pair);
    pin(stride);
    pin(last);
    pin(x_lane);
    pin(y_step);

    for (; t < tokens; t += stride) {
        float4 c0_0;
        // k = 0 + 4 q to 3 + 4 q
        mma_first(c0_0, frag0_0.x, frag0_0.y, frag0_0.z, frag0_0.w, x0_0.x, x0_0.y);

        // The next step's rows travel while this one is stored.
        if (t + stride < tokens) {
            x = x_lane + (mla_i64)min(t + stride + g, last) * a.q_nope_token_stride;
            x0_0 = load8(x);
        }

        if (t + pair < tokens) {
            const mla_u32 columns = pack2(c0_0.x, c0_0.z);
            store4(y, columns);
        }
        if (t + pair + 1u < tokens) {
            const mla_u32 columns = pack2(c0_0.y, c0_0.w);
            store4(y + 1 * a.q_token_stride, columns);
        }
        y += y_step;
    }
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_absorb_q_tiny_bf16_h3_p2_sm_80_launch(
    const mla_absorb_q_args *a, void *stream)
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
        (const void *)mla_absorb_q_tiny_bf16_h3_p2_sm_80;
    const dim3 grid((mla_u32)grid_x,
                        (mla_u32)grid_y,
                        (mla_u32)(grid_z < 1152ull ? grid_z : 1152ull));
    const dim3 block(32, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 0, (cudaStream_t)stream);
}
#endif

} // namespace mla_absorb_q_tiny_bf16_h3_p2_sm_80_ns
