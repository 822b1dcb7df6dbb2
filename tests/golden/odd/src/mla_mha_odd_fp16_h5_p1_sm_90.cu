// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// mha: softmax(scale * Q K^T) V of every request and head, K as k_nope and the heads' k_rope, O in
// fp16, LSE in fp32.
//
// overrides  none
// command    mlagen gen odd.yaml
//
// tile       128 rows x 32 keys; 4 warps of 32 rows, K and V double-buffered
// smem       49,152 B: 13,312 per stage of keys, Q 22,528 kept beside them; 2 CTAs per SM
// registers  O 112 + S 32 + P 16 + Q 0 of 255
// mma        384 x m16n8k16 per key tile: 160 for S, 224 for O
// bytes      384 per key row (floor), 20,480 of queries per CTA
// saves      the concatenation pass: 1,344 B per key (reads 544, writes 800)
namespace mla_mha_odd_fp16_h5_p1_sm_90_ns {

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

// Read anew at every call, instead of being kept.
static __device__ __forceinline__ mla_u32 thread_index()
{
    mla_u32 tid;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(tid));
    return tid;
}

// Keeps a lane's address in one register instead of being derived anew in every loop.
static __device__ __forceinline__ mla_u32 pinned(mla_u32 x)
{
    mla_u32 y;
    asm volatile("mov.b32 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

static __device__ __forceinline__ mla_i64 pinned_wide(mla_i64 x)
{
    mla_i64 y;
    asm volatile("mov.b64 %0, %1;" : "=l"(y) : "l"(x));
    return y;
}

// The same value, of which the compiler knows nothing.
static __device__ __forceinline__ float hidden(float x)
{
    float y;
    asm volatile("mov.b32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Zeros that are made once, not anew for every way into and past a loop.
static __device__ __forceinline__ float4 zeros()
{
    float4 v;
    asm volatile("mov.b64 {%0, %1}, %2;" : "=f"(v.x), "=f"(v.y) : "l"(0ll));
    asm volatile("mov.b64 {%0, %1}, %2;" : "=f"(v.z), "=f"(v.w) : "l"(0ll));
    return v;
}

// Copies 16 bytes to shared memory without waiting.
template <int TO, int FROM>
static __device__ __forceinline__ void copy16(mla_u32 to, const char *from)
{
    asm volatile("cp.async.cg.shared.global [%0+%2], [%1+%3], 16;"
                 :
                 : "r"(to), "l"(from), "n"(TO), "n"(FROM)
                 : "memory");
}

// The same; bytes 0 writes zeros and reads nothing.
template <int TO, int FROM>
static __device__ __forceinline__ void copy16(mla_u32 to, const char *from, mla_u32 bytes)
{
    asm volatile("cp.async.cg.shared.global [%0+%2], [%1+%3], 16, %4;"
                 :
                 : "r"(to), "l"(from), "n"(TO), "n"(FROM), "r"(bytes)
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

// The same, each matrix transposed.
template <int OFFSET>
static __device__ __forceinline__ mla_v4 matrices_transposed(mla_u32 row)
{
    mla_v4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4+%5];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(row), "n"(OFFSET)
                 : "memory");
    return v;
}

// The value of lane ^ DISTANCE.
template <int DISTANCE>
static __device__ __forceinline__ float butterfly(float x)
{
    float y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=f"(y) : "f"(x), "n"(DISTANCE));
    return y;
}

template <int OFFSET>
static __device__ __forceinline__ void put_word(mla_u32 to, mla_u32 x)
{
    asm volatile("st.shared.b32 [%0+%1], %2;" : : "r"(to), "n"(OFFSET), "r"(x) : "memory");
}

template <int OFFSET>
static __device__ __forceinline__ mla_v4 get_words(mla_u32 from)
{
    mla_v4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4+%5];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from), "n"(OFFSET)
                 : "memory");
    return v;
}

// c = A * B, 16 x 8 x 16, one warp.
static __device__ __forceinline__ void mma_new(float4 &c, mla_v4 a, mla_u32 b0, mla_u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
                 : "=f"(c.x), "=f"(c.y), "=f"(c.z), "=f"(c.w)
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1), "f"(0.0f));
}

static __device__ __forceinline__ float exp_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

static __device__ __forceinline__ float log_2(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
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

// A score of key KEY becomes -inf unless its row sees more keys than that.  Opaque, because a
// compiler that knows how these conditions imply each other makes a tree of branches of them.
template <int KEY>
static __device__ __forceinline__ void hide(float &score, mla_i32 sees)
{
    asm("{\n\t.reg .pred p;\n\t"
        "setp.gt.s32 p, %1, %2;\n\t"
        "selp.f32 %0, %0, 0fFF800000, p;\n\t}"
        : "+f"(score)
        : "r"(sees), "n"(KEY));
}

// The same for a lane's four scores of keys KEY and KEY + 1.
template <int KEY>
static __device__ __forceinline__ void hide_beyond(float4 &s, mla_i32 upper, mla_i32 lower)
{
    hide<KEY>(s.x, upper);
    hide<KEY + 1>(s.y, upper);
    hide<KEY>(s.z, lower);
    hide<KEY + 1>(s.w, lower);
}

// The upper or the lower row of a fragment of O, times a factor.
static __device__ __forceinline__ void scale_upper(float4 &o, float factor)
{
    o.x *= factor;
    o.y *= factor;
}

static __device__ __forceinline__ void scale_lower(float4 &o, float factor)
{
    o.z *= factor;
    o.w *= factor;
}

// exp of two neighbouring scores, rounded to a pair, and added to `sum` or the first of it.
template <bool FIRST>
static __device__ __forceinline__ mla_u32 weights(float s0, float s1, float scale, float reference,
                                                  float &sum)
{
    const float p0 = exp_2(fmaf(s0, scale, reference));
    const float p1 = exp_2(fmaf(s1, scale, reference));
    sum = FIRST ? p0 : sum + p0;
    sum += p1;
    return pack2(p0, p1);
}

struct mla_mha_args {
    const void *q;               // [tokens, H, DN + DR]
    mla_i64 q_token_stride;      // q from token to token, bytes
    mla_i64 q_head_stride;       // q from head to head, bytes
    const void *k_nope;          // [keys, H, DN]
    mla_i64 k_nope_token_stride; // k_nope from token to token, bytes
    mla_i64 k_nope_head_stride;  // k_nope from head to head, bytes
    const void *k_rope;          // [keys, DR], rotated, of all heads
    mla_i64 k_rope_token_stride; // k_rope from token to token, bytes
    const void *v;               // [keys, H, DV]
    mla_i64 v_token_stride;      // v from token to token, bytes
    mla_i64 v_head_stride;       // v from head to head, bytes
    void *out;                   // [tokens, H, DV]
    mla_i64 out_token_stride;    // out from token to token, bytes
    mla_i64 out_head_stride;     // out from head to head, bytes
    float *lse;                  // [tokens, H]; NULL: not wanted
    mla_i64 lse_token_stride;    // lse from token to token, bytes
    mla_i64 lse_head_stride;     // lse from head to head, bytes
    const mla_i32 *cu_q;         // [batch + 1], first token of each request
    const mla_i32 *cu_k;         // [batch + 1], first key of each request
    float softmax_scale;         // factor of the scores
    mla_i32 batch;               // requests
    mla_i32 max_q;               // tokens of the longest request
    mla_i32 causal;              // 1: token i sees keys up to i + k_len - q_len; 0: all
};

// This thread's pieces of a row of q, to TO bytes past `to`.
template <int TO>
static __device__ __forceinline__ void row_of_q(mla_u32 to, const char *from)
{
    copy16<TO, 0>(to, from);
    if (threadIdx.x % 8u < 2u)
        copy16<TO + 128, 128>(to, from);
}

// The same of row ROW past the one at `from`, where rows up to `last` exist; else zeros.
template <int TO, int ROW>
static __device__ __forceinline__ void some_row_of_q(mla_u32 to, const char *from,
                                                  mla_i64 stride, mla_i32 last)
{
    const mla_u32 bytes = last < ROW ? 0u : 16u;
    from += (last < ROW ? last : ROW) * stride; // an address that exists
    copy16<TO, 0>(to, from, bytes);
    if (threadIdx.x % 8u < 2u)
        copy16<TO + 128, 128>(to, from, bytes);
}

// This thread's piece of a row of k_nope, to TO bytes past `to`.
template <int TO>
static __device__ __forceinline__ void row_of_k_nope(mla_u32 to, const char *from)
{
    if (threadIdx.x % 8u < 6u)
        copy16<TO, 0>(to, from);
}

// The same of row ROW past the one at `from`, where rows up to `last` exist; else zeros.
template <int TO, int ROW>
static __device__ __forceinline__ void some_row_of_k_nope(mla_u32 to, const char *from,
                                                  mla_i64 stride, mla_i32 last)
{
    const mla_u32 bytes = last < ROW ? 0u : 16u;
    from += (last < ROW ? last : ROW) * stride; // an address that exists
    if (threadIdx.x % 8u < 6u)
        copy16<TO, 0>(to, from, bytes);
}

// This thread's piece of a row of k_rope, to TO bytes past `to`.
template <int TO>
static __device__ __forceinline__ void row_of_k_rope(mla_u32 to, const char *from)
{
    copy16<TO, 0>(to, from);
}

// The same of row ROW past the one at `from`, where rows up to `last` exist; else zeros.
template <int TO, int ROW>
static __device__ __forceinline__ void some_row_of_k_rope(mla_u32 to, const char *from,
                                                  mla_i64 stride, mla_i32 last)
{
    const mla_u32 bytes = last < ROW ? 0u : 16u;
    from += (last < ROW ? last : ROW) * stride; // an address that exists
    copy16<TO, 0>(to, from, bytes);
}

// This thread's pieces of a row of v, to TO bytes past `to`.
template <int TO>
static __device__ __forceinline__ void row_of_v(mla_u32 to, const char *from)
{
    copy16<TO, 0>(to, from);
    if (threadIdx.x % 8u < 6u)
        copy16<TO + 128, 128>(to, from);
}

// The same of row ROW past the one at `from`, where rows up to `last` exist; else zeros.
template <int TO, int ROW>
static __device__ __forceinline__ void some_row_of_v(mla_u32 to, const char *from,
                                                  mla_i64 stride, mla_i32 last)
{
    const mla_u32 bytes = last < ROW ? 0u : 16u;
    from += (last < ROW ? last : ROW) * stride; // an address that exists
    copy16<TO, 0>(to, from, bytes);
    if (threadIdx.x % 8u < 6u)
        copy16<TO + 128, 128>(to, from, bytes);
}

// Copies 128 rows of q from `first`, of which `rows` exist; the others become zeros.
static __device__ __forceinline__ void copy_q(mla_u32 to, const char *first, mla_i64 stride,
                                              mla_i32 rows)
{
    const mla_i32 row = (mla_i32)(threadIdx.x / 8u);
    const mla_u32 column = threadIdx.x % 8u * 16u;
    const char *from = first + row * stride + column;
    to += row * 176u + column;
    if (rows >= 128) {
        row_of_q<0>(to, from);
        from += 16 * stride;
        row_of_q<2816>(to, from);
        from += 16 * stride;
        row_of_q<5632>(to, from);
        from += 16 * stride;
        row_of_q<8448>(to, from);
        from += 16 * stride;
        row_of_q<11264>(to, from);
        from += 16 * stride;
        row_of_q<14080>(to, from);
        from += 16 * stride;
        row_of_q<16896>(to, from);
        from += 16 * stride;
        row_of_q<19712>(to, from);
        return;
    }
    some_row_of_q<0, 0>(to, from, stride, rows - 1 - row);
    some_row_of_q<2816, 16>(to, from, stride, rows - 1 - row);
    some_row_of_q<5632, 32>(to, from, stride, rows - 1 - row);
    some_row_of_q<8448, 48>(to, from, stride, rows - 1 - row);
    some_row_of_q<11264, 64>(to, from, stride, rows - 1 - row);
    some_row_of_q<14080, 80>(to, from, stride, rows - 1 - row);
    some_row_of_q<16896, 96>(to, from, stride, rows - 1 - row);
    some_row_of_q<19712, 112>(to, from, stride, rows - 1 - row);
}

// What a thread copies of every tile of keys: pieces of rows.
struct key_rows {
    // k_nope: the first piece in shared memory, the same in the next tile, and from row to row.
    mla_u32 to_k_nope;
    const char *from_k_nope;
    mla_i64 step_k_nope;
    // k_rope: the first piece in shared memory, the same in the next tile, and from row to row.
    mla_u32 to_k_rope;
    const char *from_k_rope;
    mla_i64 step_k_rope;
    // v: the first piece in shared memory, the same in the next tile, and from row to row.
    mla_u32 to_v;
    const char *from_v;
    mla_i64 step_v;
};

// Copies a tile of keys to the buffers at byte `stage`, and goes on to the next one.  `left` keys
// are left; what is missing of the tile becomes zeros.
static __device__ __forceinline__ void copy_tile(const mla_mha_args &a, key_rows &at,
                                                  mla_u32 stage, mla_i32 left)
{
    if (left >= 32) {
        {
            const mla_u32 to = at.to_k_nope + stage;
            row_of_k_nope<0>(to, at.from_k_nope);
            at.from_k_nope += at.step_k_nope;
            row_of_k_nope<2816>(to, at.from_k_nope);
            at.from_k_nope += at.step_k_nope;
        }
        {
            const mla_u32 to = at.to_k_rope + stage;
            row_of_k_rope<0>(to, at.from_k_rope);
            at.from_k_rope += at.step_k_rope;
        }
        {
            const mla_u32 to = at.to_v + stage;
            row_of_v<0>(to, at.from_v);
            at.from_v += at.step_v;
            row_of_v<3840>(to, at.from_v);
            at.from_v += at.step_v;
        }
        return;
    }
    {
        const mla_u32 to = at.to_k_nope + stage;
        const mla_i32 last = left - 1 - (mla_i32)(threadIdx.x / 8u); // row, from the first on
        some_row_of_k_nope<0, 0>(
            to, at.from_k_nope, a.k_nope_token_stride, last);
        some_row_of_k_nope<2816, 16>(
            to, at.from_k_nope, a.k_nope_token_stride, last);
    }
    {
        const mla_u32 to = at.to_k_rope + stage;
        const mla_i32 last = left - 1 - (mla_i32)(threadIdx.x / 4u); // row, from the first on
        some_row_of_k_rope<0, 0>(
            to, at.from_k_rope, a.k_rope_token_stride, last);
    }
    {
        const mla_u32 to = at.to_v + stage;
        const mla_i32 last = left - 1 - (mla_i32)(threadIdx.x / 8u); // row, from the first on
        some_row_of_v<0, 0>(
            to, at.from_v, a.v_token_stride, last);
        some_row_of_v<3840, 16>(
            to, at.from_v, a.v_token_stride, last);
    }
}

// Where things are in shared memory, in bytes.
enum {
    STAGE = 13312, // two: 32 rows of K, 176 each, and of V, 240 each
    VALUES = 5632,
    QUERIES = 26624, // 128 rows of 176
};

extern "C" __global__ void __launch_bounds__(128, 2)
mla_mha_odd_fp16_h5_p1_sm_90(const mla_mha_args a)
{
    extern __shared__ __align__(128) char shared[];
    const mla_u32 base = (mla_u32)__cvta_generic_to_shared(shared);
    const mla_u32 warp = threadIdx.x >> 5;
    const mla_u32 lane = threadIdx.x & 31u;
    const mla_u32 g = lane >> 2; // lane = 4 g + quad
    const mla_u32 quad = lane & 3u;

    // What stays: the loader's places and steps, and the lane's rows of K, V and Q fragments.
    key_rows rows;
    rows.to_k_nope = pinned(base + threadIdx.x / 8u * 176u
                               + threadIdx.x % 8u * 16u);
    rows.step_k_nope = pinned_wide(16 * a.k_nope_token_stride);
    rows.to_k_rope = pinned(base + 96u + threadIdx.x / 4u * 176u
                               + threadIdx.x % 4u * 16u);
    rows.step_k_rope = pinned_wide(32 * a.k_rope_token_stride);
    rows.to_v = pinned(base + VALUES + threadIdx.x / 8u * 240u
                               + threadIdx.x % 8u * 16u);
    rows.step_v = pinned_wide(16 * a.v_token_stride);
    const mla_u32 k_from =
        pinned(base + (8u * (lane >> 4) + (lane & 7u)) * 176u + 16u * ((lane >> 3) & 1u));
    const mla_u32 v_from =
        pinned(base + VALUES + (lane & 15u) * 240u + 16u * (lane >> 4));
    // exp(x) = 2^(x log2 e)
    const float scale = hidden(a.softmax_scale * 1.442695f);
    const mla_i64 head = blockIdx.y;
    // In a causal request the last rows see most: they start first.
    const mla_i32 first_row = (mla_i32)(gridDim.x - 1u - blockIdx.x) * 128;
    const mla_i32 warp_row = first_row + (mla_i32)warp * 32;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");

#pragma unroll 1
    for (mla_u32 request = blockIdx.z; request < (mla_u32)a.batch; request += gridDim.z) {
        const mla_i64 q_begin = a.cu_q[request];
        const mla_i32 q_len = a.cu_q[request + 1u] - (mla_i32)q_begin;
        if (first_row >= q_len)
            continue;
        const mla_i64 k_begin = a.cu_k[request];
        const mla_i32 k_len = a.cu_k[request + 1u] - (mla_i32)k_begin;

        // Row i sees the keys below seen + i, or all; end_key: keys that some row here sees,
        // warp_end: some row of this warp, and from left < masked_below on not every row.
        const mla_i32 seen = k_len - q_len + 1;
        const mla_i32 block_rows = q_len - first_row < 128 ? q_len - first_row : 128;
        const mla_i32 warp_rows = q_len - warp_row < 32 ? q_len - warp_row : 32;
        const mla_i32 end_key = a.causal ? seen + first_row + block_rows - 1 : k_len;
        const mla_i32 warp_end = warp_rows <= 0 ? 0
                                 : a.causal     ? seen + warp_row + warp_rows - 1
                                                : k_len;
        const mla_i32 warp_sees = (a.causal ? seen + warp_row : k_len) - end_key; // its first row
        const mla_i32 beyond = pinned(end_key - warp_end); // keys at the end that no row of it sees
        const mla_i32 masked_below = pinned(32 - warp_sees);
        const mla_i32 lane_sees =
            pinned(warp_sees + (a.causal ? (mla_i32)g : 0) - 2 * (mla_i32)quad);

        // Rows of this thread.
        rows.from_k_nope = (const char *)a.k_nope
                              + (k_begin + threadIdx.x / 8u) * a.k_nope_token_stride
                              + threadIdx.x % 8u * 16u;
        rows.from_k_nope += head * a.k_nope_head_stride;
        rows.from_k_rope = (const char *)a.k_rope
                              + (k_begin + threadIdx.x / 4u) * a.k_rope_token_stride
                              + threadIdx.x % 4u * 16u;
        rows.from_v = (const char *)a.v
                              + (k_begin + threadIdx.x / 8u) * a.v_token_stride
                              + threadIdx.x % 8u * 16u;
        rows.from_v += head * a.v_head_stride;
        const char *q = (const char *)a.q + (q_begin + first_row) * a.q_token_stride
                        + head * a.q_head_stride;
        copy_q(base + QUERIES, q, a.q_token_stride, block_rows);
        if (end_key > 0) {
            copy_tile(a, rows, 0u, end_key);
        }
        copies_commit();
        const mla_u32 me = thread_index();
        const mla_u32 q_from = pinned(base + QUERIES + (32u * (me >> 5) + (me & 15u)) * 176u
                                      + 16u * (me >> 4 & 1u));

        // O, and per row the reference of its exponents (negated) and the sum of P.
        float4 o0_0 = zeros();
        float4 o0_1 = zeros();
        float4 o0_2 = zeros();
        float4 o0_3 = zeros();
        float4 o0_4 = zeros();
        float4 o0_5 = zeros();
        float4 o0_6 = zeros();
        float4 o0_7 = zeros();
        float4 o0_8 = zeros();
        float4 o0_9 = zeros();
        float4 o0_10 = zeros();
        float4 o0_11 = zeros();
        float4 o0_12 = zeros();
        float4 o0_13 = zeros();
        float4 o1_0 = zeros();
        float4 o1_1 = zeros();
        float4 o1_2 = zeros();
        float4 o1_3 = zeros();
        float4 o1_4 = zeros();
        float4 o1_5 = zeros();
        float4 o1_6 = zeros();
        float4 o1_7 = zeros();
        float4 o1_8 = zeros();
        float4 o1_9 = zeros();
        float4 o1_10 = zeros();
        float4 o1_11 = zeros();
        float4 o1_12 = zeros();
        float4 o1_13 = zeros();
        float reference0 = __uint_as_float(0x7fffffffu); // none yet
        float row_sum0 = 0.0f;
        float reference1 = __uint_as_float(0x7fffffffu); // none yet
        float row_sum1 = 0.0f;
        float reference2 = __uint_as_float(0x7fffffffu); // none yet
        float row_sum2 = 0.0f;
        float reference3 = __uint_as_float(0x7fffffffu); // none yet
        float row_sum3 = 0.0f;
        mla_u32 stage = 0;

        // `left` keys are left, this tile's included.
#pragma unroll 1
        for (mla_i32 left = end_key; left > 0; left -= 32) {
            // This tile is there, and the one before it done with: its stage takes the next one.
            copies_wait<0>();
            __syncthreads();
            if (left > 32) {
                copy_tile(a, rows, STAGE - stage, left - 32);
            }
            copies_commit();
            if (left > beyond) {
                float4 s0_0, s0_1, s0_2, s0_3;
                float4 s1_0, s1_1, s1_2, s1_3;
                const mla_u32 k_tile = k_from + stage;
                {
                    const mla_v4 q0_0 = matrices<0>(q_from);
                    const mla_v4 q1_0 = matrices<2816>(q_from);
                    const mla_v4 k0 = matrices<0>(k_tile);
                    const mla_v4 k2 = matrices<2816>(k_tile);
                    mma_new(s0_0, q0_0, k0.x, k0.y);
                    mma_new(s1_0, q1_0, k0.x, k0.y);
                    mma_new(s0_1, q0_0, k0.z, k0.w);
                    mma_new(s1_1, q1_0, k0.z, k0.w);
                    mma_new(s0_2, q0_0, k2.x, k2.y);
                    mma_new(s1_2, q1_0, k2.x, k2.y);
                    mma_new(s0_3, q0_0, k2.z, k2.w);
                    mma_new(s1_3, q1_0, k2.z, k2.w);
                }
                {
                    const mla_v4 q0_1 = matrices<32>(q_from);
                    const mla_v4 q1_1 = matrices<2848>(q_from);
                    const mla_v4 k0 = matrices<32>(k_tile);
                    const mla_v4 k2 = matrices<2848>(k_tile);
                    mma(s0_0, q0_1.x, q0_1.y, q0_1.z, q0_1.w, k0.x, k0.y);
                    mma(s1_0, q1_1.x, q1_1.y, q1_1.z, q1_1.w, k0.x, k0.y);
                    mma(s0_1, q0_1.x, q0_1.y, q0_1.z, q0_1.w, k0.z, k0.w);
                    mma(s1_1, q1_1.x, q1_1.y, q1_1.z, q1_1.w, k0.z, k0.w);
                    mma(s0_2, q0_1.x, q0_1.y, q0_1.z, q0_1.w, k2.x, k2.y);
                    mma(s1_2, q1_1.x, q1_1.y, q1_1.z, q1_1.w, k2.x, k2.y);
                    mma(s0_3, q0_1.x, q0_1.y, q0_1.z, q0_1.w, k2.z, k2.w);
                    mma(s1_3, q1_1.x, q1_1.y, q1_1.z, q1_1.w, k2.z, k2.w);
                }
                {
                    const mla_v4 q0_2 = matrices<64>(q_from);
                    const mla_v4 q1_2 = matrices<2880>(q_from);
                    const mla_v4 k0 = matrices<64>(k_tile);
                    const mla_v4 k2 = matrices<2880>(k_tile);
                    mma(s0_0, q0_2.x, q0_2.y, q0_2.z, q0_2.w, k0.x, k0.y);
                    mma(s1_0, q1_2.x, q1_2.y, q1_2.z, q1_2.w, k0.x, k0.y);
                    mma(s0_1, q0_2.x, q0_2.y, q0_2.z, q0_2.w, k0.z, k0.w);
                    mma(s1_1, q1_2.x, q1_2.y, q1_2.z, q1_2.w, k0.z, k0.w);
                    mma(s0_2, q0_2.x, q0_2.y, q0_2.z, q0_2.w, k2.x, k2.y);
                    mma(s1_2, q1_2.x, q1_2.y, q1_2.z, q1_2.w, k2.x, k2.y);
                    mma(s0_3, q0_2.x, q0_2.y, q0_2.z, q0_2.w, k2.z, k2.w);
                    mma(s1_3, q1_2.x, q1_2.y, q1_2.z, q1_2.w, k2.z, k2.w);
                }
                {
                    const mla_v4 q0_3 = matrices<96>(q_from);
                    const mla_v4 q1_3 = matrices<2912>(q_from);
                    const mla_v4 k0 = matrices<96>(k_tile);
                    const mla_v4 k2 = matrices<2912>(k_tile);
                    mma(s0_0, q0_3.x, q0_3.y, q0_3.z, q0_3.w, k0.x, k0.y);
                    mma(s1_0, q1_3.x, q1_3.y, q1_3.z, q1_3.w, k0.x, k0.y);
                    mma(s0_1, q0_3.x, q0_3.y, q0_3.z, q0_3.w, k0.z, k0.w);
                    mma(s1_1, q1_3.x, q1_3.y, q1_3.z, q1_3.w, k0.z, k0.w);
                    mma(s0_2, q0_3.x, q0_3.y, q0_3.z, q0_3.w, k2.x, k2.y);
                    mma(s1_2, q1_3.x, q1_3.y, q1_3.z, q1_3.w, k2.x, k2.y);
                    mma(s0_3, q0_3.x, q0_3.y, q0_3.z, q0_3.w, k2.z, k2.w);
                    mma(s1_3, q1_3.x, q1_3.y, q1_3.z, q1_3.w, k2.z, k2.w);
                }
                {
                    const mla_v4 q0_4 = matrices<128>(q_from);
                    const mla_v4 q1_4 = matrices<2944>(q_from);
                    const mla_v4 k0 = matrices<128>(k_tile);
                    const mla_v4 k2 = matrices<2944>(k_tile);
                    mma(s0_0, q0_4.x, q0_4.y, q0_4.z, q0_4.w, k0.x, k0.y);
                    mma(s1_0, q1_4.x, q1_4.y, q1_4.z, q1_4.w, k0.x, k0.y);
                    mma(s0_1, q0_4.x, q0_4.y, q0_4.z, q0_4.w, k0.z, k0.w);
                    mma(s1_1, q1_4.x, q1_4.y, q1_4.z, q1_4.w, k0.z, k0.w);
                    mma(s0_2, q0_4.x, q0_4.y, q0_4.z, q0_4.w, k2.x, k2.y);
                    mma(s1_2, q1_4.x, q1_4.y, q1_4.z, q1_4.w, k2.x, k2.y);
                    mma(s0_3, q0_4.x, q0_4.y, q0_4.z, q0_4.w, k2.z, k2.w);
                    mma(s1_3, q1_4.x, q1_4.y, q1_4.z, q1_4.w, k2.z, k2.w);
                }

                // Keys that a row does not see, in tiles that not every row of the warp sees.
                if (left < masked_below) {
                    const mla_i32 sees0 = lane_sees + left;
                    const mla_i32 sees1 = sees0 + 8 * a.causal;
                    const mla_i32 sees2 = sees1 + 8 * a.causal;
                    const mla_i32 sees3 = sees2 + 8 * a.causal;
                    hide_beyond<0>(s0_0, sees0, sees1);
                    hide_beyond<8>(s0_1, sees0, sees1);
                    hide_beyond<16>(s0_2, sees0, sees1);
                    hide_beyond<24>(s0_3, sees0, sees1);
                    hide_beyond<0>(s1_0, sees2, sees3);
                    hide_beyond<8>(s1_1, sees2, sees3);
                    hide_beyond<16>(s1_2, sees2, sees3);
                    hide_beyond<24>(s1_3, sees2, sees3);
                }

                // A row's first reference: the maximum of its first tile, if it sees any.
                if (__float_as_uint(reference0) == 0x7fffffffu) {
                    {
                        float top = fmaxf(s0_0.x, s0_0.y);
                        top = fmaxf(fmaxf(top, s0_1.x), s0_1.y);
                        top = fmaxf(fmaxf(top, s0_2.x), s0_2.y);
                        top = fmaxf(fmaxf(top, s0_3.x), s0_3.y);
                        top = fmaxf(top, butterfly<1>(top));
                        top = fmaxf(top, butterfly<2>(top));
                        reference0 = -(fmaxf(top, -1e30f) * scale);
                    }
                    {
                        float top = fmaxf(s0_0.z, s0_0.w);
                        top = fmaxf(fmaxf(top, s0_1.z), s0_1.w);
                        top = fmaxf(fmaxf(top, s0_2.z), s0_2.w);
                        top = fmaxf(fmaxf(top, s0_3.z), s0_3.w);
                        top = fmaxf(top, butterfly<1>(top));
                        top = fmaxf(top, butterfly<2>(top));
                        reference1 = -(fmaxf(top, -1e30f) * scale);
                    }
                    {
                        float top = fmaxf(s1_0.x, s1_0.y);
                        top = fmaxf(fmaxf(top, s1_1.x), s1_1.y);
                        top = fmaxf(fmaxf(top, s1_2.x), s1_2.y);
                        top = fmaxf(fmaxf(top, s1_3.x), s1_3.y);
                        top = fmaxf(top, butterfly<1>(top));
                        top = fmaxf(top, butterfly<2>(top));
                        reference2 = -(fmaxf(top, -1e30f) * scale);
                    }
                    {
                        float top = fmaxf(s1_0.z, s1_0.w);
                        top = fmaxf(fmaxf(top, s1_1.z), s1_1.w);
                        top = fmaxf(fmaxf(top, s1_2.z), s1_2.w);
                        top = fmaxf(fmaxf(top, s1_3.z), s1_3.w);
                        top = fmaxf(top, butterfly<1>(top));
                        top = fmaxf(top, butterfly<2>(top));
                        reference3 = -(fmaxf(top, -1e30f) * scale);
                    }
                }

                // P against the references as they stand.  A sum above 256 says that some maximum
                // has outgrown its reference: then the tile is done again, and P is 1 at most.
                mla_v4 p0_0;
                mla_v4 p0_1;
                mla_v4 p1_0;
                mla_v4 p1_1;
                float tile_sum0;
                float tile_sum1;
                float tile_sum2;
                float tile_sum3;
                for (;;) {
                    p0_0.x = weights<true>(s0_0.x, s0_0.y, scale, reference0, tile_sum0);
                    p0_0.y = weights<true>(s0_0.z, s0_0.w, scale, reference1, tile_sum1);
                    p0_0.z = weights<false>(s0_1.x, s0_1.y, scale, reference0, tile_sum0);
                    p0_0.w = weights<false>(s0_1.z, s0_1.w, scale, reference1, tile_sum1);
                    p0_1.x = weights<false>(s0_2.x, s0_2.y, scale, reference0, tile_sum0);
                    p0_1.y = weights<false>(s0_2.z, s0_2.w, scale, reference1, tile_sum1);
                    p0_1.z = weights<false>(s0_3.x, s0_3.y, scale, reference0, tile_sum0);
                    p0_1.w = weights<false>(s0_3.z, s0_3.w, scale, reference1, tile_sum1);
                    p1_0.x = weights<true>(s1_0.x, s1_0.y, scale, reference2, tile_sum2);
                    p1_0.y = weights<true>(s1_0.z, s1_0.w, scale, reference3, tile_sum3);
                    p1_0.z = weights<false>(s1_1.x, s1_1.y, scale, reference2, tile_sum2);
                    p1_0.w = weights<false>(s1_1.z, s1_1.w, scale, reference3, tile_sum3);
                    p1_1.x = weights<false>(s1_2.x, s1_2.y, scale, reference2, tile_sum2);
                    p1_1.y = weights<false>(s1_2.z, s1_2.w, scale, reference3, tile_sum3);
                    p1_1.z = weights<false>(s1_3.x, s1_3.y, scale, reference2, tile_sum2);
                    p1_1.w = weights<false>(s1_3.z, s1_3.w, scale, reference3, tile_sum3);
                    float most = tile_sum0;
                    most = fmaxf(most, tile_sum1);
                    most = fmaxf(most, tile_sum2);
                    most = fmaxf(most, tile_sum3);
                    if (!__any_sync(0xffffffffu, most > 256.0f))
                        break;
                    {
                        float top = fmaxf(hidden(s0_0.x), s0_0.y);
                        top = fmaxf(fmaxf(top, s0_1.x), s0_1.y);
                        top = fmaxf(fmaxf(top, s0_2.x), s0_2.y);
                        top = fmaxf(fmaxf(top, s0_3.x), s0_3.y);
                        top = fmaxf(top, butterfly<1>(top));
                        top = fmaxf(top, butterfly<2>(top));
                        // Only rows that outgrew theirs get a new one, whatever others do.
                        const mla_u32 outgrown = __ballot_sync(0xffffffffu, tile_sum0 > 256.0f);
                        const float old = reference0;
                        if (outgrown >> (4u * g) & 15u)
                            reference0 = -(top * scale);
                        const float shrink = exp_2(reference0 - old);
                        row_sum0 *= shrink;
                        scale_upper(o0_0, shrink);
                        scale_upper(o0_1, shrink);
                        scale_upper(o0_2, shrink);
                        scale_upper(o0_3, shrink);
                        scale_upper(o0_4, shrink);
                        scale_upper(o0_5, shrink);
                        scale_upper(o0_6, shrink);
                        scale_upper(o0_7, shrink);
                        scale_upper(o0_8, shrink);
                        scale_upper(o0_9, shrink);
                        scale_upper(o0_10, shrink);
                        scale_upper(o0_11, shrink);
                        scale_upper(o0_12, shrink);
                        scale_upper(o0_13, shrink);
                    }
                    {
                        float top = fmaxf(hidden(s0_0.z), s0_0.w);
                        top = fmaxf(fmaxf(top, s0_1.z), s0_1.w);
                        top = fmaxf(fmaxf(top, s0_2.z), s0_2.w);
                        top = fmaxf(fmaxf(top, s0_3.z), s0_3.w);
                        top = fmaxf(top, butterfly<1>(top));
                        top = fmaxf(top, butterfly<2>(top));
                        // Only rows that outgrew theirs get a new one, whatever others do.
                        const mla_u32 outgrown = __ballot_sync(0xffffffffu, tile_sum1 > 256.0f);
                        const float old = reference1;
                        if (outgrown >> (4u * g) & 15u)
                            reference1 = -(top * scale);
                        const float shrink = exp_2(reference1 - old);
                        row_sum1 *= shrink;
                        scale_lower(o0_0, shrink);
                        scale_lower(o0_1, shrink);
                        scale_lower(o0_2, shrink);
                        scale_lower(o0_3, shrink);
                        scale_lower(o0_4, shrink);
                        scale_lower(o0_5, shrink);
                        scale_lower(o0_6, shrink);
                        scale_lower(o0_7, shrink);
                        scale_lower(o0_8, shrink);
                        scale_lower(o0_9, shrink);
                        scale_lower(o0_10, shrink);
                        scale_lower(o0_11, shrink);
                        scale_lower(o0_12, shrink);
                        scale_lower(o0_13, shrink);
                    }
                    {
                        float top = fmaxf(hidden(s1_0.x), s1_0.y);
                        top = fmaxf(fmaxf(top, s1_1.x), s1_1.y);
                        top = fmaxf(fmaxf(top, s1_2.x), s1_2.y);
                        top = fmaxf(fmaxf(top, s1_3.x), s1_3.y);
                        top = fmaxf(top, butterfly<1>(top));
                        top = fmaxf(top, butterfly<2>(top));
                        // Only rows that outgrew theirs get a new one, whatever others do.
                        const mla_u32 outgrown = __ballot_sync(0xffffffffu, tile_sum2 > 256.0f);
                        const float old = reference2;
                        if (outgrown >> (4u * g) & 15u)
                            reference2 = -(top * scale);
                        const float shrink = exp_2(reference2 - old);
                        row_sum2 *= shrink;
                        scale_upper(o1_0, shrink);
                        scale_upper(o1_1, shrink);
                        scale_upper(o1_2, shrink);
                        scale_upper(o1_3, shrink);
                        scale_upper(o1_4, shrink);
                        scale_upper(o1_5, shrink);
                        scale_upper(o1_6, shrink);
                        scale_upper(o1_7, shrink);
                        scale_upper(o1_8, shrink);
                        scale_upper(o1_9, shrink);
                        scale_upper(o1_10, shrink);
                        scale_upper(o1_11, shrink);
                        scale_upper(o1_12, shrink);
                        scale_upper(o1_13, shrink);
                    }
                    {
                        float top = fmaxf(hidden(s1_0.z), s1_0.w);
                        top = fmaxf(fmaxf(top, s1_1.z), s1_1.w);
                        top = fmaxf(fmaxf(top, s1_2.z), s1_2.w);
                        top = fmaxf(fmaxf(top, s1_3.z), s1_3.w);
                        top = fmaxf(top, butterfly<1>(top));
                        top = fmaxf(top, butterfly<2>(top));
                        // Only rows that outgrew theirs get a new one, whatever others do.
                        const mla_u32 outgrown = __ballot_sync(0xffffffffu, tile_sum3 > 256.0f);
                        const float old = reference3;
                        if (outgrown >> (4u * g) & 15u)
                            reference3 = -(top * scale);
                        const float shrink = exp_2(reference3 - old);
                        row_sum3 *= shrink;
                        scale_lower(o1_0, shrink);
                        scale_lower(o1_1, shrink);
                        scale_lower(o1_2, shrink);
                        scale_lower(o1_3, shrink);
                        scale_lower(o1_4, shrink);
                        scale_lower(o1_5, shrink);
                        scale_lower(o1_6, shrink);
                        scale_lower(o1_7, shrink);
                        scale_lower(o1_8, shrink);
                        scale_lower(o1_9, shrink);
                        scale_lower(o1_10, shrink);
                        scale_lower(o1_11, shrink);
                        scale_lower(o1_12, shrink);
                        scale_lower(o1_13, shrink);
                    }
                }
                row_sum0 += tile_sum0;
                row_sum1 += tile_sum1;
                row_sum2 += tile_sum2;
                row_sum3 += tile_sum3;

                const mla_u32 v_tile = v_from + stage;
                {
                    const mla_v4 v = matrices_transposed<0>(v_tile);
                    mma(o0_0, p0_0.x, p0_0.y, p0_0.z, p0_0.w, v.x, v.y);
                    mma(o1_0, p1_0.x, p1_0.y, p1_0.z, p1_0.w, v.x, v.y);
                    mma(o0_1, p0_0.x, p0_0.y, p0_0.z, p0_0.w, v.z, v.w);
                    mma(o1_1, p1_0.x, p1_0.y, p1_0.z, p1_0.w, v.z, v.w);
                }
                {
                    const mla_v4 v = matrices_transposed<32>(v_tile);
                    mma(o0_2, p0_0.x, p0_0.y, p0_0.z, p0_0.w, v.x, v.y);
                    mma(o1_2, p1_0.x, p1_0.y, p1_0.z, p1_0.w, v.x, v.y);
                    mma(o0_3, p0_0.x, p0_0.y, p0_0.z, p0_0.w, v.z, v.w);
                    mma(o1_3, p1_0.x, p1_0.y, p1_0.z, p1_0.w, v.z, v.w);
                }
                {
                    const mla_v4 v = matrices_transposed<64>(v_tile);
                    mma(o0_4, p0_0.x, p0_0.y, p0_0.z, p0_0.w, v.x, v.y);
                    mma(o1_4, p1_0.x, p1_0.y, p1_0.z, p1_0.w, v.x, v.y);
                    mma(o0_5, p0_0.x, p0_0.y, p0_0.z, p0_0.w, v.z, v.w);
                    mma(o1_5, p1_0.x, p1_0.y, p1_0.z, p1_0.w, v.z, v.w);
                }
                {
                    const mla_v4 v = matrices_transposed<96>(v_tile);
                    mma(o0_6, p0_0.x, p0_0.y, p0_0.z, p0_0.w, v.x, v.y);
                    mma(o1_6, p1_0.x, p1_0.y, p1_0.z, p1_0.w, v.x, v.y);
                    mma(o0_7, p0_0.x, p0_0.y, p0_0.z, p0_0.w, v.z, v.w);
                    mma(o1_7, p1_0.x, p1_0.y, p1_0.z, p1_0.w, v.z, v.w);
                }
                {
                    const mla_v4 v = matrices_transposed<128>(v_tile);
                    mma(o0_8, p0_0.x, p0_0.y, p0_0.z, p0_0.w, v.x, v.y);
                    mma(o1_8, p1_0.x, p1_0.y, p1_0.z, p1_0.w, v.x, v.y);
                    mma(o0_9, p0_0.x, p0_0.y, p0_0.z, p0_0.w, v.z, v.w);
                    mma(o1_9, p1_0.x, p1_0.y, p1_0.z, p1_0.w, v.z, v.w);
                }
                {
                    const mla_v4 v = matrices_transposed<160>(v_tile);
                    mma(o0_10, p0_0.x, p0_0.y, p0_0.z, p0_0.w, v.x, v.y);
                    mma(o1_10, p1_0.x, p1_0.y, p1_0.z, p1_0.w, v.x, v.y);
                    mma(o0_11, p0_0.x, p0_0.y, p0_0.z, p0_0.w, v.z, v.w);
                    mma(o1_11, p1_0.x, p1_0.y, p1_0.z, p1_0.w, v.z, v.w);
                }
                {
                    const mla_v4 v = matrices_transposed<192>(v_tile);
                    mma(o0_12, p0_0.x, p0_0.y, p0_0.z, p0_0.w, v.x, v.y);
                    mma(o1_12, p1_0.x, p1_0.y, p1_0.z, p1_0.w, v.x, v.y);
                    mma(o0_13, p0_0.x, p0_0.y, p0_0.z, p0_0.w, v.z, v.w);
                    mma(o1_13, p1_0.x, p1_0.y, p1_0.z, p1_0.w, v.z, v.w);
                }
                {
                    const mla_v4 v = matrices_transposed<3840>(v_tile);
                    mma(o0_0, p0_1.x, p0_1.y, p0_1.z, p0_1.w, v.x, v.y);
                    mma(o1_0, p1_1.x, p1_1.y, p1_1.z, p1_1.w, v.x, v.y);
                    mma(o0_1, p0_1.x, p0_1.y, p0_1.z, p0_1.w, v.z, v.w);
                    mma(o1_1, p1_1.x, p1_1.y, p1_1.z, p1_1.w, v.z, v.w);
                }
                {
                    const mla_v4 v = matrices_transposed<3872>(v_tile);
                    mma(o0_2, p0_1.x, p0_1.y, p0_1.z, p0_1.w, v.x, v.y);
                    mma(o1_2, p1_1.x, p1_1.y, p1_1.z, p1_1.w, v.x, v.y);
                    mma(o0_3, p0_1.x, p0_1.y, p0_1.z, p0_1.w, v.z, v.w);
                    mma(o1_3, p1_1.x, p1_1.y, p1_1.z, p1_1.w, v.z, v.w);
                }
                {
                    const mla_v4 v = matrices_transposed<3904>(v_tile);
                    mma(o0_4, p0_1.x, p0_1.y, p0_1.z, p0_1.w, v.x, v.y);
                    mma(o1_4, p1_1.x, p1_1.y, p1_1.z, p1_1.w, v.x, v.y);
                    mma(o0_5, p0_1.x, p0_1.y, p0_1.z, p0_1.w, v.z, v.w);
                    mma(o1_5, p1_1.x, p1_1.y, p1_1.z, p1_1.w, v.z, v.w);
                }
                {
                    const mla_v4 v = matrices_transposed<3936>(v_tile);
                    mma(o0_6, p0_1.x, p0_1.y, p0_1.z, p0_1.w, v.x, v.y);
                    mma(o1_6, p1_1.x, p1_1.y, p1_1.z, p1_1.w, v.x, v.y);
                    mma(o0_7, p0_1.x, p0_1.y, p0_1.z, p0_1.w, v.z, v.w);
                    mma(o1_7, p1_1.x, p1_1.y, p1_1.z, p1_1.w, v.z, v.w);
                }
                {
                    const mla_v4 v = matrices_transposed<3968>(v_tile);
                    mma(o0_8, p0_1.x, p0_1.y, p0_1.z, p0_1.w, v.x, v.y);
                    mma(o1_8, p1_1.x, p1_1.y, p1_1.z, p1_1.w, v.x, v.y);
                    mma(o0_9, p0_1.x, p0_1.y, p0_1.z, p0_1.w, v.z, v.w);
                    mma(o1_9, p1_1.x, p1_1.y, p1_1.z, p1_1.w, v.z, v.w);
                }
                {
                    const mla_v4 v = matrices_transposed<4000>(v_tile);
                    mma(o0_10, p0_1.x, p0_1.y, p0_1.z, p0_1.w, v.x, v.y);
                    mma(o1_10, p1_1.x, p1_1.y, p1_1.z, p1_1.w, v.x, v.y);
                    mma(o0_11, p0_1.x, p0_1.y, p0_1.z, p0_1.w, v.z, v.w);
                    mma(o1_11, p1_1.x, p1_1.y, p1_1.z, p1_1.w, v.z, v.w);
                }
                {
                    const mla_v4 v = matrices_transposed<4032>(v_tile);
                    mma(o0_12, p0_1.x, p0_1.y, p0_1.z, p0_1.w, v.x, v.y);
                    mma(o1_12, p1_1.x, p1_1.y, p1_1.z, p1_1.w, v.x, v.y);
                    mma(o0_13, p0_1.x, p0_1.y, p0_1.z, p0_1.w, v.z, v.w);
                    mma(o1_13, p1_1.x, p1_1.y, p1_1.z, p1_1.w, v.z, v.w);
                }
            }
            stage = STAGE - stage;
        }

        {
            // Where the rows are is looked up again rather than kept while the keys went by.
            const mla_i64 q_begin = a.cu_q[request];
            const mla_i32 q_len = a.cu_q[request + 1u] - (mla_i32)q_begin;
            const mla_u32 thread = thread_index();
            const mla_u32 warp = thread >> 5;
            const mla_u32 lane = thread & 31u;
            const mla_u32 g = lane >> 2;
            const mla_u32 quad = lane & 3u;
            const mla_i32 warp_row =
                (mla_i32)(gridDim.x - 1u - blockIdx.x) * 128 + (mla_i32)warp * 32;
            row_sum0 += butterfly<1>(row_sum0);
            row_sum0 += butterfly<2>(row_sum0);
            row_sum1 += butterfly<1>(row_sum1);
            row_sum1 += butterfly<2>(row_sum1);
            row_sum2 += butterfly<1>(row_sum2);
            row_sum2 += butterfly<2>(row_sum2);
            row_sum3 += butterfly<1>(row_sum3);
            row_sum3 += butterfly<2>(row_sum3);
            if (a.lse && quad == 0u) {
                char *lse = (char *)a.lse + head * a.lse_head_stride;
                const float empty = hidden(__uint_as_float(0x7f800000u)); // made here, not kept
                {
                    const mla_i32 row = warp_row + 0 + (mla_i32)g;
                    const float value = log_2(row_sum0) - reference0;
                    char *to = lse + (q_begin + row) * a.lse_token_stride;
                    if (row < q_len)
                        *(float *)to = row_sum0 != 0.0f ? value : empty;
                }
                {
                    const mla_i32 row = warp_row + 8 + (mla_i32)g;
                    const float value = log_2(row_sum1) - reference1;
                    char *to = lse + (q_begin + row) * a.lse_token_stride;
                    if (row < q_len)
                        *(float *)to = row_sum1 != 0.0f ? value : empty;
                }
                {
                    const mla_i32 row = warp_row + 16 + (mla_i32)g;
                    const float value = log_2(row_sum2) - reference2;
                    char *to = lse + (q_begin + row) * a.lse_token_stride;
                    if (row < q_len)
                        *(float *)to = row_sum2 != 0.0f ? value : empty;
                }
                {
                    const mla_i32 row = warp_row + 24 + (mla_i32)g;
                    const float value = log_2(row_sum3) - reference3;
                    char *to = lse + (q_begin + row) * a.lse_token_stride;
                    if (row < q_len)
                        *(float *)to = row_sum3 != 0.0f ? value : empty;
                }
            }

            // Rows that saw no key get O = 0.
            copies_wait<0>();
            __syncthreads();
            const mla_u32 o_to = base + (32u * warp + g) * 240u + 4u * quad;
            {
                const float factor = row_sum0 != 0.0f ? 1.0f / row_sum0 : 0.0f;
                put_word<0>(o_to, pack2(o0_0.x * factor, o0_0.y * factor));
                put_word<16>(o_to, pack2(o0_1.x * factor, o0_1.y * factor));
                put_word<32>(o_to, pack2(o0_2.x * factor, o0_2.y * factor));
                put_word<48>(o_to, pack2(o0_3.x * factor, o0_3.y * factor));
                put_word<64>(o_to, pack2(o0_4.x * factor, o0_4.y * factor));
                put_word<80>(o_to, pack2(o0_5.x * factor, o0_5.y * factor));
                put_word<96>(o_to, pack2(o0_6.x * factor, o0_6.y * factor));
                put_word<112>(o_to, pack2(o0_7.x * factor, o0_7.y * factor));
                put_word<128>(o_to, pack2(o0_8.x * factor, o0_8.y * factor));
                put_word<144>(o_to, pack2(o0_9.x * factor, o0_9.y * factor));
                put_word<160>(o_to, pack2(o0_10.x * factor, o0_10.y * factor));
                put_word<176>(o_to, pack2(o0_11.x * factor, o0_11.y * factor));
                put_word<192>(o_to, pack2(o0_12.x * factor, o0_12.y * factor));
                put_word<208>(o_to, pack2(o0_13.x * factor, o0_13.y * factor));
            }
            {
                const float factor = row_sum1 != 0.0f ? 1.0f / row_sum1 : 0.0f;
                put_word<1920>(o_to, pack2(o0_0.z * factor, o0_0.w * factor));
                put_word<1936>(o_to, pack2(o0_1.z * factor, o0_1.w * factor));
                put_word<1952>(o_to, pack2(o0_2.z * factor, o0_2.w * factor));
                put_word<1968>(o_to, pack2(o0_3.z * factor, o0_3.w * factor));
                put_word<1984>(o_to, pack2(o0_4.z * factor, o0_4.w * factor));
                put_word<2000>(o_to, pack2(o0_5.z * factor, o0_5.w * factor));
                put_word<2016>(o_to, pack2(o0_6.z * factor, o0_6.w * factor));
                put_word<2032>(o_to, pack2(o0_7.z * factor, o0_7.w * factor));
                put_word<2048>(o_to, pack2(o0_8.z * factor, o0_8.w * factor));
                put_word<2064>(o_to, pack2(o0_9.z * factor, o0_9.w * factor));
                put_word<2080>(o_to, pack2(o0_10.z * factor, o0_10.w * factor));
                put_word<2096>(o_to, pack2(o0_11.z * factor, o0_11.w * factor));
                put_word<2112>(o_to, pack2(o0_12.z * factor, o0_12.w * factor));
                put_word<2128>(o_to, pack2(o0_13.z * factor, o0_13.w * factor));
            }
            {
                const float factor = row_sum2 != 0.0f ? 1.0f / row_sum2 : 0.0f;
                put_word<3840>(o_to, pack2(o1_0.x * factor, o1_0.y * factor));
                put_word<3856>(o_to, pack2(o1_1.x * factor, o1_1.y * factor));
                put_word<3872>(o_to, pack2(o1_2.x * factor, o1_2.y * factor));
                put_word<3888>(o_to, pack2(o1_3.x * factor, o1_3.y * factor));
                put_word<3904>(o_to, pack2(o1_4.x * factor, o1_4.y * factor));
                put_word<3920>(o_to, pack2(o1_5.x * factor, o1_5.y * factor));
                put_word<3936>(o_to, pack2(o1_6.x * factor, o1_6.y * factor));
                put_word<3952>(o_to, pack2(o1_7.x * factor, o1_7.y * factor));
                put_word<3968>(o_to, pack2(o1_8.x * factor, o1_8.y * factor));
                put_word<3984>(o_to, pack2(o1_9.x * factor, o1_9.y * factor));
                put_word<4000>(o_to, pack2(o1_10.x * factor, o1_10.y * factor));
                put_word<4016>(o_to, pack2(o1_11.x * factor, o1_11.y * factor));
                put_word<4032>(o_to, pack2(o1_12.x * factor, o1_12.y * factor));
                put_word<4048>(o_to, pack2(o1_13.x * factor, o1_13.y * factor));
            }
            {
                const float factor = row_sum3 != 0.0f ? 1.0f / row_sum3 : 0.0f;
                put_word<5760>(o_to, pack2(o1_0.z * factor, o1_0.w * factor));
                put_word<5776>(o_to, pack2(o1_1.z * factor, o1_1.w * factor));
                put_word<5792>(o_to, pack2(o1_2.z * factor, o1_2.w * factor));
                put_word<5808>(o_to, pack2(o1_3.z * factor, o1_3.w * factor));
                put_word<5824>(o_to, pack2(o1_4.z * factor, o1_4.w * factor));
                put_word<5840>(o_to, pack2(o1_5.z * factor, o1_5.w * factor));
                put_word<5856>(o_to, pack2(o1_6.z * factor, o1_6.w * factor));
                put_word<5872>(o_to, pack2(o1_7.z * factor, o1_7.w * factor));
                put_word<5888>(o_to, pack2(o1_8.z * factor, o1_8.w * factor));
                put_word<5904>(o_to, pack2(o1_9.z * factor, o1_9.w * factor));
                put_word<5920>(o_to, pack2(o1_10.z * factor, o1_10.w * factor));
                put_word<5936>(o_to, pack2(o1_11.z * factor, o1_11.w * factor));
                put_word<5952>(o_to, pack2(o1_12.z * factor, o1_12.w * factor));
                put_word<5968>(o_to, pack2(o1_13.z * factor, o1_13.w * factor));
            }
            __syncwarp();
            const mla_u32 store_row = lane / 8u;
            const mla_u32 store_chunk = lane % 8u;
            const mla_u32 o_from =
                base + (32u * warp + store_row) * 240u + 16u * store_chunk;
            const mla_i64 token = q_begin + warp_row + (mla_i64)store_row;
            char *out = (char *)a.out + token * a.out_token_stride + head * a.out_head_stride
                        + 16u * store_chunk;
            if (warp_row + 0 + (mla_i32)store_row < q_len) {
                store16(out + 0, get_words<0>(o_from));
                if (store_chunk < 6u)
                    store16(out + 128, get_words<128>(o_from));
            }
            out += 4 * a.out_token_stride;
            if (warp_row + 4 + (mla_i32)store_row < q_len) {
                store16(out + 0, get_words<960>(o_from));
                if (store_chunk < 6u)
                    store16(out + 128, get_words<1088>(o_from));
            }
            out += 4 * a.out_token_stride;
            if (warp_row + 8 + (mla_i32)store_row < q_len) {
                store16(out + 0, get_words<1920>(o_from));
                if (store_chunk < 6u)
                    store16(out + 128, get_words<2048>(o_from));
            }
            out += 4 * a.out_token_stride;
            if (warp_row + 12 + (mla_i32)store_row < q_len) {
                store16(out + 0, get_words<2880>(o_from));
                if (store_chunk < 6u)
                    store16(out + 128, get_words<3008>(o_from));
            }
            out += 4 * a.out_token_stride;
            if (warp_row + 16 + (mla_i32)store_row < q_len) {
                store16(out + 0, get_words<3840>(o_from));
                if (store_chunk < 6u)
                    store16(out + 128, get_words<3968>(o_from));
            }
            out += 4 * a.out_token_stride;
            if (warp_row + 20 + (mla_i32)store_row < q_len) {
                store16(out + 0, get_words<4800>(o_from));
                if (store_chunk < 6u)
                    store16(out + 128, get_words<4928>(o_from));
            }
            out += 4 * a.out_token_stride;
            if (warp_row + 24 + (mla_i32)store_row < q_len) {
                store16(out + 0, get_words<5760>(o_from));
                if (store_chunk < 6u)
                    store16(out + 128, get_words<5888>(o_from));
            }
            out += 4 * a.out_token_stride;
            if (warp_row + 28 + (mla_i32)store_row < q_len) {
                store16(out + 0, get_words<6720>(o_from));
                if (store_chunk < 6u)
                    store16(out + 128, get_words<6848>(o_from));
            }
            out += 4 * a.out_token_stride;
        }
        __syncthreads(); // before the next request's copies
    }
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_mha_odd_fp16_h5_p1_sm_90_launch(
    const mla_mha_args *a, void *stream)
{
    if (!a)
        return cudaErrorInvalidValue;
    if (a->batch < 0 || a->max_q < 0 || (a->causal & ~1) != 0)
        return cudaErrorInvalidValue;
    const mla_u64 grid_x = ((mla_u64)a->max_q + 127) / 128;
    const mla_u64 grid_y = 5ull * 1ull;
    const mla_u64 grid_z = (mla_u64)a->batch;
    if (grid_x == 0 || grid_z == 0)
        return cudaSuccess;
    if (!a->q || !a->k_nope || !a->k_rope || !a->v || !a->out || !a->cu_q || !a->cu_k)
        return cudaErrorInvalidValue;
    const mla_u64 low16 = (mla_u64)a->q | (mla_u64)a->q_token_stride | (mla_u64)a->q_head_stride
        | (mla_u64)a->k_nope | (mla_u64)a->k_nope_token_stride | (mla_u64)a->k_nope_head_stride
        | (mla_u64)a->k_rope | (mla_u64)a->k_rope_token_stride | (mla_u64)a->v
        | (mla_u64)a->v_token_stride | (mla_u64)a->v_head_stride | (mla_u64)a->out
        | (mla_u64)a->out_token_stride | (mla_u64)a->out_head_stride;
    if (low16 & 15)
        return cudaErrorMisalignedAddress;
    const mla_u64 low4 = (mla_u64)a->lse | (mla_u64)a->lse_token_stride
        | (mla_u64)a->lse_head_stride | (mla_u64)a->cu_q | (mla_u64)a->cu_k;
    if (low4 & 3)
        return cudaErrorMisalignedAddress;
    const void *kernel =
        (const void *)mla_mha_odd_fp16_h5_p1_sm_90;
    const dim3 grid((mla_u32)grid_x,
                        (mla_u32)grid_y,
                        (mla_u32)(grid_z < 65535ull ? grid_z : 65535ull));
    const dim3 block(128, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 49152, (cudaStream_t)stream);
}
#endif

} // namespace mla_mha_odd_fp16_h5_p1_sm_90_ns
