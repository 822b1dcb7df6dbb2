@ -- SPDX-License-Identifier: Apache-2.0
@ -- What a lane of a consumer warpgroup does with its rows: fragments in, results out, turns.
@ -- No inputs; after frag/hopper_groups.tpl.
// Four 8x8 matrices of shared memory; lane 8j + r names row r of matrix j.
static __device__ __forceinline__ void load_matrices(mla_u32 row, mla_u32 &x, mla_u32 &y,
                                                     mla_u32 &z, mla_u32 &w)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                 : "r"(row)
                 : "memory");
}

// This lane's pairs of the first and the second eight of 16 columns.  A lane keeps one and
// gets its neighbour's of the same eight.
template <int BYTE>
static __device__ __forceinline__ void store_pairs(char *to, mla_u32 first, mla_u32 second,
                                                   bool odd, bool live)
{
    const mla_u32 other = __shfl_xor_sync(0xffffffffu, odd ? first : second, 1);
    if (live)
        asm volatile("st.global.v2.b32 [%0+%1], {%2, %3};"
                     ::"l"(to), "n"(BYTE), "r"(odd ? other : first), "r"(odd ? second : other)
                     : "memory");
}

// The turn of a warpgroup to issue wgmmas: barrier 1 + group, which the other one arrives at.
static __device__ __forceinline__ void take_turn(mla_u32 group)
{
    group_sync<256>(1u + group);
}

static __device__ __forceinline__ void pass_turn(mla_u32 group)
{
    group_arrive<256>(2u - group);
}
