// SPDX-License-Identifier: 0BSD
// Generated code: it is yours.  Permission to use, copy, modify, and/or distribute it for any
// purpose with or without fee is hereby granted.  It is provided "as is", without warranty
// of any kind; see the Zero-Clause BSD licence (0BSD) for the full disclaimer.
//
// mqa_decode: paged MQA over the latent for the items of decode_plan's list; tiles of 32 rows and
// 64 keys.
//
// overrides  none
// command    mlagen gen odd.yaml
//
// tile       32 rows x 64 keys, 3 stages; 4 warps = 2 of rows x 1 of keys x 2 of dims
// rows       for 20 to 20 (token, head) rows of a request, 5 heads
// smem       59,008 B: 3 stages x 15,360, partial sums 8,192, P 4,608; 2 CTAs per SM
// registers  O 32 + Q 16 + S 32 of 255
// mma        192 x m16n8k16 per key tile: 112 for S, 80 for O
// bytes      14,336 per key tile (floor), 7,168 of queries per item
namespace mla_mqa_decode_m32_odd_fp16_h5_p1_sm_90_ns {

typedef unsigned int mla_u32;
typedef unsigned long long mla_u64;
typedef int mla_i32;
typedef long long mla_i64;

// Eight 16-bit values: the unit of every global access.
struct __align__(16) mla_v4 {
    mla_u32 x, y, z, w;
};

// Rounds two floats to nearest-even; `lo` goes to the lower half.
static __device__ __forceinline__ mla_u32 pack2(float lo, float hi)
{
    mla_u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;"
        : "=r"(pair)
        : "f"(hi), "f"(lo));
    return pair;
}

// Keeps a lane's address in one register instead of being derived anew in every loop.
static __device__ __forceinline__ mla_u32 pinned(mla_u32 x)
{
    mla_u32 y;
    asm volatile("mov.b32 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

// Copies 16 bytes to shared memory without waiting; bytes 0 writes zeros and reads nothing.
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

template <int OFFSET>
static __device__ __forceinline__ void put4(mla_u32 to, float x, float y, float z, float w)
{
    asm volatile("st.shared.v4.f32 [%0+%1], {%2, %3, %4, %5};"
                 :
                 : "r"(to), "n"(OFFSET), "f"(x), "f"(y), "f"(z), "f"(w)
                 : "memory");
}

template <int OFFSET>
static __device__ __forceinline__ float4 get4(mla_u32 from)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4+%5];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(from), "n"(OFFSET)
                 : "memory");
    return v;
}

template <int OFFSET>
static __device__ __forceinline__ void put_word(mla_u32 to, mla_u32 x)
{
    asm volatile("st.shared.b32 [%0+%1], %2;" : : "r"(to), "n"(OFFSET), "r"(x) : "memory");
}

template <int OFFSET>
static __device__ __forceinline__ void put1(mla_u32 to, float x)
{
    asm volatile("st.shared.f32 [%0+%1], %2;" : : "r"(to), "n"(OFFSET), "f"(x) : "memory");
}

template <int OFFSET>
static __device__ __forceinline__ float get1(mla_u32 from)
{
    float x;
    asm volatile("ld.shared.f32 %0, [%1+%2];" : "=f"(x) : "r"(from), "n"(OFFSET) : "memory");
    return x;
}

// The two warps that share a tile of S wait for each other.
static __device__ __forceinline__ void pair_barrier(mla_u32 pair)
{
    asm volatile("barrier.cta.sync.aligned %0, 64;" ::"r"(pair + 1u) : "memory");
}

// A barrier of the block; true everywhere if `mine` is true anywhere.
static __device__ __forceinline__ bool barrier_any(bool mine)
{
    mla_u32 any;
    asm volatile("{\n\t.reg .pred p, q;\n\t"
                 "setp.ne.u32 p, %1, 0;\n\t"
                 "barrier.cta.red.or.aligned.pred q, 0, p;\n\t"
                 "selp.u32 %0, 1, 0, q;\n\t}"
                 : "=r"(any)
                 : "r"((mla_u32)mine)
                 : "memory");
    return any != 0u;
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

struct mla_mqa_decode_args {
    const void *q;              // [batch, q_len, H, R + DR], absorbed queries
    mla_i64 q_batch_stride;     // q from request to request, bytes
    mla_i64 q_token_stride;     // q from token to token, bytes
    mla_i64 q_head_stride;      // q from head to head, bytes
    const void *kv_cache;       // [pages, P, R + DR]
    mla_i64 page_stride;        // kv_cache from page to page, bytes
    mla_i64 row_stride;         // kv_cache from row to row of a page, bytes
    const mla_i32 *block_table; // [batch, pages of a request], page ids; below 0: zeros
    mla_i64 block_table_stride; // block_table from request to request, bytes
    const mla_i32 *header;      // [8], of decode_plan
    const mla_i32 *item_begin;  // [ctas + 1], of decode_plan
    const mla_i32 *items;       // [items, 8], of decode_plan
    float *partial_o;           // [slots, rows per tile, R], of split units
    float *partial_lse;         // [slots, rows per tile], natural logarithm
    void *out;                  // [batch, q_len, H, R]
    mla_i64 out_batch_stride;   // out from request to request, bytes
    mla_i64 out_token_stride;   // out from token to token, bytes
    mla_i64 out_head_stride;    // out from head to head, bytes
    float *lse;                 // [batch, q_len, H]; NULL: not wanted
    mla_i64 lse_batch_stride;   // lse from request to request, bytes
    mla_i64 lse_token_stride;   // lse from token to token, bytes
    mla_i64 lse_head_stride;    // lse from head to head, bytes
    float softmax_scale;        // factor of the scores
    mla_i32 batch;              // requests
    mla_i32 q_len;              // query tokens of a request
    mla_i32 ctas;               // blocks, as decode_plan was told
};

// Page of a key; past the last key, of the last one.
static __device__ __forceinline__ mla_i32 page_of(const mla_i32 *pages, mla_u32 key,
                                                  mla_u32 end_key)
{
    return pages[(key < end_key ? key : end_key - 1u) >> 0];
}

// Copies this thread's 16-byte pieces of a key row, TO bytes past `to`.  At and past end_key,
// and where the page id is negative, the row becomes zeros: P is 0 there, and 0 * NaN is not.
template <int TO>
static __device__ __forceinline__ void copy_row(const mla_mqa_decode_args &a, mla_u32 to,
                                                mla_i32 page, mla_u32 key, mla_u32 end_key,
                                                mla_u32 chunk)
{
    const mla_u32 bytes = key < end_key && page >= 0 ? 16u : 0u;
    const mla_u32 row = (key < end_key ? key : end_key - 1u) & 0u;
    const char *from = (const char *)a.kv_cache + page * a.page_stride + row * a.row_stride
                       + chunk * 16u;
    copy16<TO + 0, 0>(to, from, bytes);
    if (chunk < 6u)
        copy16<TO + 128, 128>(to, from, bytes);
}

static __device__ __forceinline__ void refuse_unit(const mla_mqa_decode_args &a, mla_i32 request,
                                                   mla_i32 row_tile)
{
    for (mla_i32 i = threadIdx.x; i < 1280; i += 128) {
        const mla_i32 row = row_tile * 32 + i / 40;
        if (row >= a.q_len * 5)
            return;
        const mla_i32 column = i % 40;
        char *out = (char *)a.out + request * a.out_batch_stride
                    + row / 5 * a.out_token_stride + row % 5 * a.out_head_stride;
        ((mla_u32 *)out)[column] = 0x7fff7fffu;
        if (a.lse && column == 0) {
            char *lse = (char *)a.lse + request * a.lse_batch_stride
                        + row / 5 * a.lse_token_stride + row % 5 * a.lse_head_stride;
            *(float *)lse = __uint_as_float(0x7fffffffu);
        }
    }
}

// Where things are in shared memory, in bytes.
enum {
    PARTIALS = 0, // of S, 2048 per warp, in fragment order
    STAGES = 8192, // 3 of 64 key rows of 240
    STAGE = 15360,
    WEIGHTS = 54272, // P, 32 rows of 144
    FACTOR = 58880, // per row: of O in a redone tile, of O at the end
};

// What a lane does.  Rare branches ask again instead of keeping it: the main loop is short of
// registers.
struct lane_role {
    mla_u32 warp, lane, g, quad; // lane = 4 g + quad
    mla_u32 wk, wn, wm; // the warp's part of dims, keys and rows of S
    mla_u32 row; // of S, that this lane's quad finishes
};
static __device__ __forceinline__ lane_role role()
{
    mla_u32 tid;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(tid));
    lane_role r;
    r.warp = tid >> 5;
    r.lane = tid & 31u;
    r.g = r.lane >> 2;
    r.quad = r.lane & 3u;
    r.wk = r.warp % 2u;
    r.wn = 0u;
    r.wm = r.warp / 2u;
    r.row = 16u * r.wm + 8u * r.wk + r.g;
    return r;
}

extern "C" __global__ void __launch_bounds__(128, 2)
mla_mqa_decode_m32_odd_fp16_h5_p1_sm_90(const mla_mqa_decode_args a)
{
    extern __shared__ __align__(128) char shared[];
    const mla_u32 base = (mla_u32)__cvta_generic_to_shared(shared);
    const lane_role me = role();

    // Addresses that stay: the loader's row and chunk, fragments of K, V and P, partial sums.
    const mla_u32 load_row = threadIdx.x >> 3;
    const mla_u32 load_chunk = threadIdx.x & 7u;
    const mla_u32 load_to = pinned(base + STAGES + load_row * 240u + load_chunk * 16u);
    const mla_u32 k_row = 8u * (me.lane >> 4) + (me.lane & 7u);
    const mla_u32 k_from = pinned(base + STAGES + k_row * 240u + 32u * me.wk
                                  + 16u * ((me.lane >> 3) & 1u));
    const mla_u32 v_from = pinned(base + STAGES + (me.lane & 15u) * 240u + 32u * me.warp
                                  + 16u * (me.lane >> 4));
    const mla_u32 p_from =
        pinned(base + WEIGHTS + (me.lane & 15u) * 144u + 16u * (me.lane >> 4));
    const mla_u32 p_to = pinned(base + WEIGHTS + me.row * 144u
                                + 4u * me.quad);
    const mla_u32 partial_from =
        pinned(base + PARTIALS + me.warp * 2048u + 16u * me.lane);
    const float scale = a.softmax_scale * 1.442695f; // exp(x) = 2^(x log2 e)

    // A work list that did not fit is answered with NaN everywhere, unit by unit.
    if (a.header[2] & 3) {
        const mla_i32 row_tiles = (a.q_len * 5 + 31) / 32;
        for (mla_i64 unit = blockIdx.x; unit < (mla_i64)a.batch * row_tiles; unit += gridDim.x)
            refuse_unit(a, (mla_i32)(unit / row_tiles), (mla_i32)(unit % row_tiles));
        return;
    }

#pragma unroll 1
    for (mla_i32 item = a.item_begin[blockIdx.x]; item < a.item_begin[blockIdx.x + 1]; ++item) {
        // The item: rows row_tile of a request, keys first_key .. end_key - 1.  Keys are unsigned:
        // the tile after the last of 2^31 - 1 still has a number.
        const mla_i32 *entry = a.items + (mla_i64)item * 8;
        const mla_i32 request = entry[0];
        const mla_i32 row_tile = entry[1];
        const mla_u32 first_key = (mla_u32)entry[2] * 64u;
        if (entry[4] == -2) {
            refuse_unit(a, request, row_tile);
            continue;
        }

        // Row r of the tile sees the keys below seen + its token.
        const mla_i32 seen = entry[5] - a.q_len + 1;
        const mla_i32 last_token = a.q_len - 1;
        const mla_i32 unit_token = ((row_tile + 1) * 32 - 1) / 5;
        const mla_i32 unit_end = seen + (unit_token < last_token ? unit_token : last_token);
        const mla_i64 tiles_end = (mla_i64)entry[3] * 64;
        const mla_i32 last_end = tiles_end < unit_end ? (mla_i32)tiles_end : unit_end;
        const mla_u32 end_key = last_end > 0 ? (mla_u32)last_end : 0u;
        const mla_i32 all_see = seen + (row_tile * 32) / 5;
        // Keys below are seen by every row.
        const mla_u32 unmasked = (mla_u32)(all_see < last_end ? all_see : last_end);

        // Q: 32 rows into the last stage; zeros past the request's last row.
        {
            const mla_i32 row = row_tile * 32 + (mla_i32)load_row;
            const bool live = row < a.q_len * 5;
            const char *from = (const char *)a.q + load_chunk * 16u;
            if (live)
                from += request * a.q_batch_stride + row / 5 * a.q_token_stride
                        + row % 5 * a.q_head_stride;
            const mla_u32 bytes = live ? 16u : 0u;
            copy16<30720, 0>(load_to, from, bytes);
            if (load_chunk < 6u)
                copy16<30848, 128>(load_to, from, bytes);
        }
        {
            const mla_i32 row = row_tile * 32 + 16 + (mla_i32)load_row;
            const bool live = row < a.q_len * 5;
            const char *from = (const char *)a.q + load_chunk * 16u;
            if (live)
                from += request * a.q_batch_stride + row / 5 * a.q_token_stride
                        + row % 5 * a.q_head_stride;
            const mla_u32 bytes = live ? 16u : 0u;
            copy16<34560, 0>(load_to, from, bytes);
            if (load_chunk < 6u)
                copy16<34688, 128>(load_to, from, bytes);
        }
        copies_commit();

        // Keys: the first 2 tiles, beside Q.
        const mla_i32 *pages =
            (const mla_i32 *)((const char *)a.block_table + request * a.block_table_stride);
        mla_i32 page0 = 0;
        mla_i32 page1 = 0;
        mla_i32 page2 = 0;
        mla_i32 page3 = 0;
        if (first_key < end_key) {
            page0 = page_of(pages, first_key + load_row, end_key);
            page1 = page_of(pages, first_key + 16u + load_row, end_key);
            page2 = page_of(pages, first_key + 32u + load_row, end_key);
            page3 = page_of(pages, first_key + 48u + load_row, end_key);
        }
        if (first_key < end_key) {
            copy_row<0>(a, load_to, page0,
                        first_key + load_row, end_key, load_chunk);
            copy_row<3840>(a, load_to, page1,
                           first_key + 16u + load_row, end_key, load_chunk);
            copy_row<7680>(a, load_to, page2,
                           first_key + 32u + load_row, end_key, load_chunk);
            copy_row<11520>(a, load_to, page3,
                            first_key + 48u + load_row, end_key, load_chunk);
            page0 = page_of(pages, first_key + 64u + load_row, end_key);
            page1 = page_of(pages, first_key + 80u + load_row, end_key);
            page2 = page_of(pages, first_key + 96u + load_row, end_key);
            page3 = page_of(pages, first_key + 112u + load_row, end_key);
        }
        copies_commit();
        if (first_key + 64u < end_key) {
            copy_row<0>(a, load_to + 15360u, page0,
                        first_key + 64u + load_row, end_key, load_chunk);
            copy_row<3840>(a, load_to + 15360u, page1,
                           first_key + 64u + 16u + load_row, end_key, load_chunk);
            copy_row<7680>(a, load_to + 15360u, page2,
                           first_key + 64u + 32u + load_row, end_key, load_chunk);
            copy_row<11520>(a, load_to + 15360u, page3,
                            first_key + 64u + 48u + load_row, end_key, load_chunk);
            page0 = page_of(pages, first_key + 64u + 64u + load_row, end_key);
            page1 = page_of(pages, first_key + 64u + 80u + load_row, end_key);
            page2 = page_of(pages, first_key + 64u + 96u + load_row, end_key);
            page3 = page_of(pages, first_key + 64u + 112u + load_row, end_key);
        }
        copies_commit();
        copies_wait<2>();
        __syncthreads();
        const mla_u32 q_row = 16u * me.wm + 8u * (((me.lane >> 3) & 1u) ^ me.wk) + (me.lane & 7u);
        const mla_u32 q_from =
            base + STAGES + 30720u + q_row * 240u + 32u * me.wk + 16u * (me.lane >> 4);
        const mla_v4 q0 = matrices<0>(q_from);
        const mla_v4 q1 = matrices<64>(q_from);
        const mla_v4 q2 = matrices<128>(q_from);
        mla_v4 q3 = {0, 0, 0, 0};
        if (me.wk == 0u)
            q3 = matrices<192>(q_from);

        // O, and per row of S the reference of its exponent (negated) and the sum of P.
        float4 o0_0 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        float4 o0_1 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        float4 o0_2 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        float4 o0_3 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        float4 o1_0 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        float4 o1_1 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        float4 o1_2 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        float4 o1_3 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        float reference = 1e30f;
        float row_sum = 0.0f;

        mla_u32 stage = 0;
#pragma unroll 1
        for (mla_u32 key = first_key; key < end_key; key += 64u) {
            // The tile at `key` is there and the one before it done with: its stage takes the next.
            copies_wait<1>();
            __syncthreads();
            if (key + 128u < end_key) {
                const mla_u32 to = load_to + (stage == 0u ? 30720u : stage - STAGE);
                copy_row<0>(a, to, page0,
                            key + 128u + load_row, end_key, load_chunk);
                copy_row<3840>(a, to, page1,
                               key + 128u + 16u + load_row, end_key, load_chunk);
                copy_row<7680>(a, to, page2,
                               key + 128u + 32u + load_row, end_key, load_chunk);
                copy_row<11520>(a, to, page3,
                                key + 128u + 48u + load_row, end_key, load_chunk);
                page0 = page_of(pages, key + 128u + 64u + load_row, end_key);
                page1 = page_of(pages, key + 128u + 80u + load_row, end_key);
                page2 = page_of(pages, key + 128u + 96u + load_row, end_key);
                page3 = page_of(pages, key + 128u + 112u + load_row, end_key);
            }
            copies_commit();

            // S = Q K^T: 8 x 4 m16n8k16, every second step of 16 dims.
            const mla_u32 k_tile = k_from + stage;
            float4 s0;
            float4 s1;
            float4 s2;
            float4 s3;
            float4 s4;
            float4 s5;
            float4 s6;
            float4 s7;
            {
                const mla_v4 k0 = matrices<0>(k_tile);
                const mla_v4 k2 = matrices<3840>(k_tile);
                const mla_v4 k4 = matrices<7680>(k_tile);
                const mla_v4 k6 = matrices<11520>(k_tile);
                mma_new(s0, q0, k0.x, k0.y);
                mma_new(s1, q0, k0.z, k0.w);
                mma_new(s2, q0, k2.x, k2.y);
                mma_new(s3, q0, k2.z, k2.w);
                mma_new(s4, q0, k4.x, k4.y);
                mma_new(s5, q0, k4.z, k4.w);
                mma_new(s6, q0, k6.x, k6.y);
                mma_new(s7, q0, k6.z, k6.w);
            }
            {
                const mla_v4 k0 = matrices<64>(k_tile);
                const mla_v4 k2 = matrices<3904>(k_tile);
                const mla_v4 k4 = matrices<7744>(k_tile);
                const mla_v4 k6 = matrices<11584>(k_tile);
                mma(s0, q1.x, q1.y, q1.z, q1.w, k0.x, k0.y);
                mma(s1, q1.x, q1.y, q1.z, q1.w, k0.z, k0.w);
                mma(s2, q1.x, q1.y, q1.z, q1.w, k2.x, k2.y);
                mma(s3, q1.x, q1.y, q1.z, q1.w, k2.z, k2.w);
                mma(s4, q1.x, q1.y, q1.z, q1.w, k4.x, k4.y);
                mma(s5, q1.x, q1.y, q1.z, q1.w, k4.z, k4.w);
                mma(s6, q1.x, q1.y, q1.z, q1.w, k6.x, k6.y);
                mma(s7, q1.x, q1.y, q1.z, q1.w, k6.z, k6.w);
            }
            {
                const mla_v4 k0 = matrices<128>(k_tile);
                const mla_v4 k2 = matrices<3968>(k_tile);
                const mla_v4 k4 = matrices<7808>(k_tile);
                const mla_v4 k6 = matrices<11648>(k_tile);
                mma(s0, q2.x, q2.y, q2.z, q2.w, k0.x, k0.y);
                mma(s1, q2.x, q2.y, q2.z, q2.w, k0.z, k0.w);
                mma(s2, q2.x, q2.y, q2.z, q2.w, k2.x, k2.y);
                mma(s3, q2.x, q2.y, q2.z, q2.w, k2.z, k2.w);
                mma(s4, q2.x, q2.y, q2.z, q2.w, k4.x, k4.y);
                mma(s5, q2.x, q2.y, q2.z, q2.w, k4.z, k4.w);
                mma(s6, q2.x, q2.y, q2.z, q2.w, k6.x, k6.y);
                mma(s7, q2.x, q2.y, q2.z, q2.w, k6.z, k6.w);
            }
            if (me.wk == 0u) {
                const mla_v4 k0 = matrices<192>(k_tile);
                const mla_v4 k2 = matrices<4032>(k_tile);
                const mla_v4 k4 = matrices<7872>(k_tile);
                const mla_v4 k6 = matrices<11712>(k_tile);
                mma(s0, q3.x, q3.y, q3.z, q3.w, k0.x, k0.y);
                mma(s1, q3.x, q3.y, q3.z, q3.w, k0.z, k0.w);
                mma(s2, q3.x, q3.y, q3.z, q3.w, k2.x, k2.y);
                mma(s3, q3.x, q3.y, q3.z, q3.w, k2.z, k2.w);
                mma(s4, q3.x, q3.y, q3.z, q3.w, k4.x, k4.y);
                mma(s5, q3.x, q3.y, q3.z, q3.w, k4.z, k4.w);
                mma(s6, q3.x, q3.y, q3.z, q3.w, k6.x, k6.y);
                mma(s7, q3.x, q3.y, q3.z, q3.w, k6.z, k6.w);
            }

            // The other warp's rows go there; ours come back and complete the sums.
            const mla_u32 partial_to = base + ((partial_from - base) ^ 2048u);
            put4<0>(partial_to, s0.z, s0.w, s1.z, s1.w);
            put4<512>(partial_to, s2.z, s2.w, s3.z, s3.w);
            put4<1024>(partial_to, s4.z, s4.w, s5.z, s5.w);
            put4<1536>(partial_to, s6.z, s6.w, s7.z, s7.w);
            pair_barrier(me.warp / 2u);
            {
                const float4 other = get4<0>(partial_from);
                s0.x += other.x;
                s0.y += other.y;
                s1.x += other.z;
                s1.y += other.w;
            }
            {
                const float4 other = get4<512>(partial_from);
                s2.x += other.x;
                s2.y += other.y;
                s3.x += other.z;
                s3.y += other.w;
            }
            {
                const float4 other = get4<1024>(partial_from);
                s4.x += other.x;
                s4.y += other.y;
                s5.x += other.z;
                s5.y += other.w;
            }
            {
                const float4 other = get4<1536>(partial_from);
                s6.x += other.x;
                s6.y += other.y;
                s7.x += other.z;
                s7.y += other.w;
            }

            // Keys that this row does not see, in tiles where some row does not see all.
            if (key + 64u > unmasked) {
                const lane_role me = role();
                const mla_i32 *entry = a.items + (mla_i64)(mla_i32)pinned(item) * 8;
                const mla_i32 row = entry[1] * 32 + (mla_i32)me.row;
                const mla_i32 token = row / 5 < a.q_len ? row / 5 : a.q_len - 1;
                const mla_u32 own_end = (mla_u32)(entry[5] - a.q_len + 1 + token);
                const mla_u32 last = own_end < end_key ? own_end : end_key;
                const mla_u32 column = key + 2u * me.quad;
                if (column + 0u >= last)
                    s0.x = __uint_as_float(0xff800000u);
                if (column + 1u >= last)
                    s0.y = __uint_as_float(0xff800000u);
                if (column + 8u >= last)
                    s1.x = __uint_as_float(0xff800000u);
                if (column + 9u >= last)
                    s1.y = __uint_as_float(0xff800000u);
                if (column + 16u >= last)
                    s2.x = __uint_as_float(0xff800000u);
                if (column + 17u >= last)
                    s2.y = __uint_as_float(0xff800000u);
                if (column + 24u >= last)
                    s3.x = __uint_as_float(0xff800000u);
                if (column + 25u >= last)
                    s3.y = __uint_as_float(0xff800000u);
                if (column + 32u >= last)
                    s4.x = __uint_as_float(0xff800000u);
                if (column + 33u >= last)
                    s4.y = __uint_as_float(0xff800000u);
                if (column + 40u >= last)
                    s5.x = __uint_as_float(0xff800000u);
                if (column + 41u >= last)
                    s5.y = __uint_as_float(0xff800000u);
                if (column + 48u >= last)
                    s6.x = __uint_as_float(0xff800000u);
                if (column + 49u >= last)
                    s6.y = __uint_as_float(0xff800000u);
                if (column + 56u >= last)
                    s7.x = __uint_as_float(0xff800000u);
                if (column + 57u >= last)
                    s7.y = __uint_as_float(0xff800000u);
            }

            // P against the reference as it stands.  A sum above 256 says that the row has outgrown
            // it (always so in the first tile): then the tile is done again.
            float tile_sum = 0.0f;
            {
                const float x0 = exp_2(fmaf(s0.x, scale, reference));
                const float y0 = exp_2(fmaf(s0.y, scale, reference));
                tile_sum += x0 + y0;
                const mla_u32 p0 = pack2(x0, y0);
                put_word<0>(p_to, p0);
                const float x1 = exp_2(fmaf(s1.x, scale, reference));
                const float y1 = exp_2(fmaf(s1.y, scale, reference));
                tile_sum += x1 + y1;
                const mla_u32 p1 = pack2(x1, y1);
                put_word<16>(p_to, p1);
                const float x2 = exp_2(fmaf(s2.x, scale, reference));
                const float y2 = exp_2(fmaf(s2.y, scale, reference));
                tile_sum += x2 + y2;
                const mla_u32 p2 = pack2(x2, y2);
                put_word<32>(p_to, p2);
                const float x3 = exp_2(fmaf(s3.x, scale, reference));
                const float y3 = exp_2(fmaf(s3.y, scale, reference));
                tile_sum += x3 + y3;
                const mla_u32 p3 = pack2(x3, y3);
                put_word<48>(p_to, p3);
                const float x4 = exp_2(fmaf(s4.x, scale, reference));
                const float y4 = exp_2(fmaf(s4.y, scale, reference));
                tile_sum += x4 + y4;
                const mla_u32 p4 = pack2(x4, y4);
                put_word<64>(p_to, p4);
                const float x5 = exp_2(fmaf(s5.x, scale, reference));
                const float y5 = exp_2(fmaf(s5.y, scale, reference));
                tile_sum += x5 + y5;
                const mla_u32 p5 = pack2(x5, y5);
                put_word<80>(p_to, p5);
                const float x6 = exp_2(fmaf(s6.x, scale, reference));
                const float y6 = exp_2(fmaf(s6.y, scale, reference));
                tile_sum += x6 + y6;
                const mla_u32 p6 = pack2(x6, y6);
                put_word<96>(p_to, p6);
                const float x7 = exp_2(fmaf(s7.x, scale, reference));
                const float y7 = exp_2(fmaf(s7.y, scale, reference));
                tile_sum += x7 + y7;
                const mla_u32 p7 = pack2(x7, y7);
                put_word<112>(p_to, p7);
            }
            const bool outgrown = tile_sum > 256.0f;
            if (barrier_any(outgrown)) {
                const lane_role me = role();
                const mla_u32 factor_at = base + FACTOR;
                float top = fmaxf(s0.x, s0.y);
                top = fmaxf(top, fmaxf(s1.x, s1.y));
                top = fmaxf(top, fmaxf(s2.x, s2.y));
                top = fmaxf(top, fmaxf(s3.x, s3.y));
                top = fmaxf(top, fmaxf(s4.x, s4.y));
                top = fmaxf(top, fmaxf(s5.x, s5.y));
                top = fmaxf(top, fmaxf(s6.x, s6.y));
                top = fmaxf(top, fmaxf(s7.x, s7.y));
                top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
                top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
                bool again = (__ballot_sync(0xffffffffu, outgrown) >> (4u * me.g) & 15u) != 0u;

                // Only rows that outgrew it get a new one: a row's bits do not depend on others.
                const float old = reference;
                if (again)
                    reference = -(top * scale);
                const float shrink = exp_2(reference - old);
                row_sum *= shrink;
                tile_sum = 0.0f;
                const float x0 = exp_2(fmaf(s0.x, scale, reference));
                const float y0 = exp_2(fmaf(s0.y, scale, reference));
                tile_sum += x0 + y0;
                const mla_u32 p0 = pack2(x0, y0);
                put_word<0>(p_to, p0);
                const float x1 = exp_2(fmaf(s1.x, scale, reference));
                const float y1 = exp_2(fmaf(s1.y, scale, reference));
                tile_sum += x1 + y1;
                const mla_u32 p1 = pack2(x1, y1);
                put_word<16>(p_to, p1);
                const float x2 = exp_2(fmaf(s2.x, scale, reference));
                const float y2 = exp_2(fmaf(s2.y, scale, reference));
                tile_sum += x2 + y2;
                const mla_u32 p2 = pack2(x2, y2);
                put_word<32>(p_to, p2);
                const float x3 = exp_2(fmaf(s3.x, scale, reference));
                const float y3 = exp_2(fmaf(s3.y, scale, reference));
                tile_sum += x3 + y3;
                const mla_u32 p3 = pack2(x3, y3);
                put_word<48>(p_to, p3);
                const float x4 = exp_2(fmaf(s4.x, scale, reference));
                const float y4 = exp_2(fmaf(s4.y, scale, reference));
                tile_sum += x4 + y4;
                const mla_u32 p4 = pack2(x4, y4);
                put_word<64>(p_to, p4);
                const float x5 = exp_2(fmaf(s5.x, scale, reference));
                const float y5 = exp_2(fmaf(s5.y, scale, reference));
                tile_sum += x5 + y5;
                const mla_u32 p5 = pack2(x5, y5);
                put_word<80>(p_to, p5);
                const float x6 = exp_2(fmaf(s6.x, scale, reference));
                const float y6 = exp_2(fmaf(s6.y, scale, reference));
                tile_sum += x6 + y6;
                const mla_u32 p6 = pack2(x6, y6);
                put_word<96>(p_to, p6);
                const float x7 = exp_2(fmaf(s7.x, scale, reference));
                const float y7 = exp_2(fmaf(s7.y, scale, reference));
                tile_sum += x7 + y7;
                const mla_u32 p7 = pack2(x7, y7);
                put_word<112>(p_to, p7);
                if (me.quad == 0u)
                    put1<0>(factor_at + 4u * me.row, shrink);
                __syncthreads();
                {
                    const float upper = get1<0>(factor_at + 4u * me.g);
                    const float lower = get1<32>(factor_at + 4u * me.g);
                    o0_0.x *= upper;
                    o0_0.y *= upper;
                    o0_0.z *= lower;
                    o0_0.w *= lower;
                    o0_1.x *= upper;
                    o0_1.y *= upper;
                    o0_1.z *= lower;
                    o0_1.w *= lower;
                    o0_2.x *= upper;
                    o0_2.y *= upper;
                    o0_2.z *= lower;
                    o0_2.w *= lower;
                    o0_3.x *= upper;
                    o0_3.y *= upper;
                    o0_3.z *= lower;
                    o0_3.w *= lower;
                }
                {
                    const float upper = get1<64>(factor_at + 4u * me.g);
                    const float lower = get1<96>(factor_at + 4u * me.g);
                    o1_0.x *= upper;
                    o1_0.y *= upper;
                    o1_0.z *= lower;
                    o1_0.w *= lower;
                    o1_1.x *= upper;
                    o1_1.y *= upper;
                    o1_1.z *= lower;
                    o1_1.w *= lower;
                    o1_2.x *= upper;
                    o1_2.y *= upper;
                    o1_2.z *= lower;
                    o1_2.w *= lower;
                    o1_3.x *= upper;
                    o1_3.y *= upper;
                    o1_3.z *= lower;
                    o1_3.w *= lower;
                }
            }
            row_sum += tile_sum;

            // O += P V: V is the first columns of the same key rows.
            const mla_u32 v_tile = v_from + stage;
            {
                const mla_v4 p0 = matrices<0>(p_from);
                const mla_v4 p1 = matrices<2304>(p_from);
                {
                    const mla_v4 v = matrices_transposed<0>(v_tile);
                    mma(o0_0, p0.x, p0.y, p0.z, p0.w, v.x, v.y);
                    mma(o0_1, p0.x, p0.y, p0.z, p0.w, v.z, v.w);
                    mma(o1_0, p1.x, p1.y, p1.z, p1.w, v.x, v.y);
                    mma(o1_1, p1.x, p1.y, p1.z, p1.w, v.z, v.w);
                }
                if (me.warp < 1u) {
                    const mla_v4 v = matrices_transposed<128>(v_tile);
                    mma(o0_2, p0.x, p0.y, p0.z, p0.w, v.x, v.y);
                    mma(o0_3, p0.x, p0.y, p0.z, p0.w, v.z, v.w);
                    mma(o1_2, p1.x, p1.y, p1.z, p1.w, v.x, v.y);
                    mma(o1_3, p1.x, p1.y, p1.z, p1.w, v.z, v.w);
                }
            }
            {
                const mla_v4 p0 = matrices<32>(p_from);
                const mla_v4 p1 = matrices<2336>(p_from);
                {
                    const mla_v4 v = matrices_transposed<3840>(v_tile);
                    mma(o0_0, p0.x, p0.y, p0.z, p0.w, v.x, v.y);
                    mma(o0_1, p0.x, p0.y, p0.z, p0.w, v.z, v.w);
                    mma(o1_0, p1.x, p1.y, p1.z, p1.w, v.x, v.y);
                    mma(o1_1, p1.x, p1.y, p1.z, p1.w, v.z, v.w);
                }
                if (me.warp < 1u) {
                    const mla_v4 v = matrices_transposed<3968>(v_tile);
                    mma(o0_2, p0.x, p0.y, p0.z, p0.w, v.x, v.y);
                    mma(o0_3, p0.x, p0.y, p0.z, p0.w, v.z, v.w);
                    mma(o1_2, p1.x, p1.y, p1.z, p1.w, v.x, v.y);
                    mma(o1_3, p1.x, p1.y, p1.z, p1.w, v.z, v.w);
                }
            }
            {
                const mla_v4 p0 = matrices<64>(p_from);
                const mla_v4 p1 = matrices<2368>(p_from);
                {
                    const mla_v4 v = matrices_transposed<7680>(v_tile);
                    mma(o0_0, p0.x, p0.y, p0.z, p0.w, v.x, v.y);
                    mma(o0_1, p0.x, p0.y, p0.z, p0.w, v.z, v.w);
                    mma(o1_0, p1.x, p1.y, p1.z, p1.w, v.x, v.y);
                    mma(o1_1, p1.x, p1.y, p1.z, p1.w, v.z, v.w);
                }
                if (me.warp < 1u) {
                    const mla_v4 v = matrices_transposed<7808>(v_tile);
                    mma(o0_2, p0.x, p0.y, p0.z, p0.w, v.x, v.y);
                    mma(o0_3, p0.x, p0.y, p0.z, p0.w, v.z, v.w);
                    mma(o1_2, p1.x, p1.y, p1.z, p1.w, v.x, v.y);
                    mma(o1_3, p1.x, p1.y, p1.z, p1.w, v.z, v.w);
                }
            }
            {
                const mla_v4 p0 = matrices<96>(p_from);
                const mla_v4 p1 = matrices<2400>(p_from);
                {
                    const mla_v4 v = matrices_transposed<11520>(v_tile);
                    mma(o0_0, p0.x, p0.y, p0.z, p0.w, v.x, v.y);
                    mma(o0_1, p0.x, p0.y, p0.z, p0.w, v.z, v.w);
                    mma(o1_0, p1.x, p1.y, p1.z, p1.w, v.x, v.y);
                    mma(o1_1, p1.x, p1.y, p1.z, p1.w, v.z, v.w);
                }
                if (me.warp < 1u) {
                    const mla_v4 v = matrices_transposed<11648>(v_tile);
                    mma(o0_2, p0.x, p0.y, p0.z, p0.w, v.x, v.y);
                    mma(o0_3, p0.x, p0.y, p0.z, p0.w, v.z, v.w);
                    mma(o1_2, p1.x, p1.y, p1.z, p1.w, v.x, v.y);
                    mma(o1_3, p1.x, p1.y, p1.z, p1.w, v.z, v.w);
                }
            }
            stage = stage == 30720u ? 0u : stage + STAGE;
        }

        {
            // Sums of the rows, and what O is multiplied with; rows that saw no key get O = 0.
            __syncthreads(); // the last tile's factors have been read
            const mla_i32 *entry = a.items + (mla_i64)(mla_i32)pinned(item) * 8;
            const mla_u32 factor_at = base + FACTOR;
            const lane_role me = role();
            row_sum += __shfl_xor_sync(0xffffffffu, row_sum, 1);
            row_sum += __shfl_xor_sync(0xffffffffu, row_sum, 2);
            const mla_i32 slot = entry[4];
            // Pinned: with as many heads as rows the compiler sees through row / heads, and
            // keeps an address for every row of O, which does not fit beside O.
            const mla_i32 first_row = (mla_i32)pinned((mla_u32)entry[1] * 32u);
            const mla_i32 rows = a.q_len * 5 - first_row; // that exist
            if (me.quad == 0u) {
                put1<0>(factor_at + 4u * me.row, row_sum != 0.0f ? 1.0f / row_sum : 0.0f);
                if ((mla_i32)me.row < rows) {
                    const float log2_sum = log_2(row_sum) - reference;
                    const float natural =
                        row_sum != 0.0f ? log2_sum * 0.6931472f : __uint_as_float(0xff800000u);
                    if (slot >= 0) {
                        a.partial_lse[(mla_i64)slot * 32 + me.row] = natural;
                    } else if (a.lse) {
                        const mla_i32 row = first_row + (mla_i32)me.row;
                        char *lse = (char *)a.lse + entry[0] * a.lse_batch_stride
                                    + row / 5 * a.lse_token_stride
                                    + row % 5 * a.lse_head_stride;
                        *(float *)lse = row_sum != 0.0f ? log2_sum : __uint_as_float(0x7f800000u);
                    }
                }
            }
            __syncthreads();

            if ((mla_i32)me.g < rows) {
                const mla_i32 row = (mla_i32)me.g;
                const float factor = get1<0>(factor_at + 4u * me.g);
                if (slot >= 0) {
                    float *to = a.partial_o + ((mla_i64)slot * 32 + row) * 80 + 16u * me.warp
                                + 2u * me.quad;
                    *(float2 *)(to + 0) = make_float2(o0_0.x * factor, o0_0.y * factor);
                    *(float2 *)(to + 8) = make_float2(o0_1.x * factor, o0_1.y * factor);
                    if (me.warp < 1u) {
                        *(float2 *)(to + 64) = make_float2(o0_2.x * factor, o0_2.y * factor);
                        *(float2 *)(to + 72) = make_float2(o0_3.x * factor, o0_3.y * factor);
                    }
                } else {
                    const mla_i32 token = (first_row + row) / 5;
                    const mla_i32 head = (first_row + row) % 5;
                    char *to = (char *)a.out + entry[0] * a.out_batch_stride
                               + token * a.out_token_stride + head * a.out_head_stride
                               + 32u * me.warp + 4u * me.quad;
                    *(mla_u32 *)(to + 0) = pack2(o0_0.x * factor, o0_0.y * factor);
                    *(mla_u32 *)(to + 16) = pack2(o0_1.x * factor, o0_1.y * factor);
                    if (me.warp < 1u) {
                        *(mla_u32 *)(to + 128) = pack2(o0_2.x * factor, o0_2.y * factor);
                        *(mla_u32 *)(to + 144) = pack2(o0_3.x * factor, o0_3.y * factor);
                    }
                }
            }
            if (8 + (mla_i32)me.g < rows) {
                const mla_i32 row = 8 + (mla_i32)me.g;
                const float factor = get1<32>(factor_at + 4u * me.g);
                if (slot >= 0) {
                    float *to = a.partial_o + ((mla_i64)slot * 32 + row) * 80 + 16u * me.warp
                                + 2u * me.quad;
                    *(float2 *)(to + 0) = make_float2(o0_0.z * factor, o0_0.w * factor);
                    *(float2 *)(to + 8) = make_float2(o0_1.z * factor, o0_1.w * factor);
                    if (me.warp < 1u) {
                        *(float2 *)(to + 64) = make_float2(o0_2.z * factor, o0_2.w * factor);
                        *(float2 *)(to + 72) = make_float2(o0_3.z * factor, o0_3.w * factor);
                    }
                } else {
                    const mla_i32 token = (first_row + row) / 5;
                    const mla_i32 head = (first_row + row) % 5;
                    char *to = (char *)a.out + entry[0] * a.out_batch_stride
                               + token * a.out_token_stride + head * a.out_head_stride
                               + 32u * me.warp + 4u * me.quad;
                    *(mla_u32 *)(to + 0) = pack2(o0_0.z * factor, o0_0.w * factor);
                    *(mla_u32 *)(to + 16) = pack2(o0_1.z * factor, o0_1.w * factor);
                    if (me.warp < 1u) {
                        *(mla_u32 *)(to + 128) = pack2(o0_2.z * factor, o0_2.w * factor);
                        *(mla_u32 *)(to + 144) = pack2(o0_3.z * factor, o0_3.w * factor);
                    }
                }
            }
            if (16 + (mla_i32)me.g < rows) {
                const mla_i32 row = 16 + (mla_i32)me.g;
                const float factor = get1<64>(factor_at + 4u * me.g);
                if (slot >= 0) {
                    float *to = a.partial_o + ((mla_i64)slot * 32 + row) * 80 + 16u * me.warp
                                + 2u * me.quad;
                    *(float2 *)(to + 0) = make_float2(o1_0.x * factor, o1_0.y * factor);
                    *(float2 *)(to + 8) = make_float2(o1_1.x * factor, o1_1.y * factor);
                    if (me.warp < 1u) {
                        *(float2 *)(to + 64) = make_float2(o1_2.x * factor, o1_2.y * factor);
                        *(float2 *)(to + 72) = make_float2(o1_3.x * factor, o1_3.y * factor);
                    }
                } else {
                    const mla_i32 token = (first_row + row) / 5;
                    const mla_i32 head = (first_row + row) % 5;
                    char *to = (char *)a.out + entry[0] * a.out_batch_stride
                               + token * a.out_token_stride + head * a.out_head_stride
                               + 32u * me.warp + 4u * me.quad;
                    *(mla_u32 *)(to + 0) = pack2(o1_0.x * factor, o1_0.y * factor);
                    *(mla_u32 *)(to + 16) = pack2(o1_1.x * factor, o1_1.y * factor);
                    if (me.warp < 1u) {
                        *(mla_u32 *)(to + 128) = pack2(o1_2.x * factor, o1_2.y * factor);
                        *(mla_u32 *)(to + 144) = pack2(o1_3.x * factor, o1_3.y * factor);
                    }
                }
            }
            if (24 + (mla_i32)me.g < rows) {
                const mla_i32 row = 24 + (mla_i32)me.g;
                const float factor = get1<96>(factor_at + 4u * me.g);
                if (slot >= 0) {
                    float *to = a.partial_o + ((mla_i64)slot * 32 + row) * 80 + 16u * me.warp
                                + 2u * me.quad;
                    *(float2 *)(to + 0) = make_float2(o1_0.z * factor, o1_0.w * factor);
                    *(float2 *)(to + 8) = make_float2(o1_1.z * factor, o1_1.w * factor);
                    if (me.warp < 1u) {
                        *(float2 *)(to + 64) = make_float2(o1_2.z * factor, o1_2.w * factor);
                        *(float2 *)(to + 72) = make_float2(o1_3.z * factor, o1_3.w * factor);
                    }
                } else {
                    const mla_i32 token = (first_row + row) / 5;
                    const mla_i32 head = (first_row + row) % 5;
                    char *to = (char *)a.out + entry[0] * a.out_batch_stride
                               + token * a.out_token_stride + head * a.out_head_stride
                               + 32u * me.warp + 4u * me.quad;
                    *(mla_u32 *)(to + 0) = pack2(o1_0.z * factor, o1_0.w * factor);
                    *(mla_u32 *)(to + 16) = pack2(o1_1.z * factor, o1_1.w * factor);
                    if (me.warp < 1u) {
                        *(mla_u32 *)(to + 128) = pack2(o1_2.z * factor, o1_2.w * factor);
                        *(mla_u32 *)(to + 144) = pack2(o1_3.z * factor, o1_3.w * factor);
                    }
                }
            }
        }
    }
}

#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int mla_mqa_decode_m32_odd_fp16_h5_p1_sm_90_launch(
    const mla_mqa_decode_args *a, void *stream)
{
    if (!a)
        return cudaErrorInvalidValue;
    if (a->batch < 0 || a->q_len < 0 || a->ctas < 0)
        return cudaErrorInvalidValue;
    const mla_u64 grid_x = ((mla_u64)a->batch + 2147483646) / 2147483647 * (mla_u64)a->ctas;
    const mla_u64 grid_y = 1ull;
    const mla_u64 grid_z = 1ull;
    if (grid_x == 0)
        return cudaSuccess;
    if (!a->q || !a->kv_cache || !a->block_table || !a->header || !a->item_begin || !a->items
        || !a->partial_o || !a->partial_lse || !a->out)
        return cudaErrorInvalidValue;
    const mla_u64 low16 = (mla_u64)a->q | (mla_u64)a->q_batch_stride | (mla_u64)a->q_token_stride
        | (mla_u64)a->q_head_stride | (mla_u64)a->kv_cache | (mla_u64)a->page_stride
        | (mla_u64)a->row_stride | (mla_u64)a->items | (mla_u64)a->partial_o | (mla_u64)a->out
        | (mla_u64)a->out_batch_stride | (mla_u64)a->out_token_stride
        | (mla_u64)a->out_head_stride;
    if (low16 & 15)
        return cudaErrorMisalignedAddress;
    const mla_u64 low4 = (mla_u64)a->block_table | (mla_u64)a->block_table_stride
        | (mla_u64)a->header | (mla_u64)a->item_begin | (mla_u64)a->partial_lse | (mla_u64)a->lse
        | (mla_u64)a->lse_batch_stride | (mla_u64)a->lse_token_stride
        | (mla_u64)a->lse_head_stride;
    if (low4 & 3)
        return cudaErrorMisalignedAddress;
    const void *kernel =
        (const void *)mla_mqa_decode_m32_odd_fp16_h5_p1_sm_90;
    const cudaError_t set =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 59008);
    if (set != cudaSuccess)
        return set;
    const dim3 grid((mla_u32)grid_x, (mla_u32)grid_y, (mla_u32)grid_z);
    const dim3 block(128, 1, 1);
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, 59008, (cudaStream_t)stream);
}
#endif

} // namespace mla_mqa_decode_m32_odd_fp16_h5_p1_sm_90_ns
