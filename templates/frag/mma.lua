-- SPDX-License-Identifier: Apache-2.0
-- mma.sync m16n8k16 with fp32 accumulators, and the packing of its A operand, as
-- text for the head of a kernel.
--
-- Fragments (PTX ISA 9.7.14.5.8, m16n8k16 for .f16 and .bf16).  In lane 4g + q,
-- with two values per 32-bit register:
--
--   A  a0  row g      k 2q, 2q+1         a1  row g + 8  k 2q, 2q+1
--      a2  row g      k 2q+8, 2q+9       a3  row g + 8  k 2q+8, 2q+9
--   B  b0  k 2q, 2q+1    column g        b1  k 2q+8, 2q+9  column g
--   C  x   row g      column 2q          y   row g      column 2q+1
--      z   row g + 8  column 2q          w   row g + 8  column 2q+1
--
-- The k of A and B are only names for what is multiplied with what: a kernel may
-- hand any 16 values of the contraction to the 16 places, if it does so on both
-- sides.  Rows of A may be permuted too, if the rows of C are read accordingly.
local M = {}

local MMA = [[
// c += A * B, 16 x 8 x 16, one warp; fragments as in the PTX ISA.
static __device__ __forceinline__ void mma(float4 &c, mla_u32 a0, mla_u32 a1, mla_u32 a2,
                                           mla_u32 a3, mla_u32 b0, mla_u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.@T@.@T@.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
]]

local MMA_FIRST = [[
// c = A * B, the first product of a sum.
static __device__ __forceinline__ void mma_first(float4 &c, mla_u32 a0, mla_u32 a1, mla_u32 a2,
                                                 mla_u32 a3, mla_u32 b0, mla_u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.@T@.@T@.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
                 : "=f"(c.x), "=f"(c.y), "=f"(c.z), "=f"(c.w)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(0.0f));
}
]]

local PAIR_ROWS = [[
// An A fragment from four words, word k of which holds A[g][k] in its lower and A[g + 8][k]
// in its upper half: neighbours in k come together.  low and high select those halves.
static __device__ __forceinline__ mla_v4 pair_rows(mla_u32 k0, mla_u32 k1, mla_u32 k2,
                                                   mla_u32 k3, mla_u32 low, mla_u32 high)
{
    const mla_v4 a = {__byte_perm(k0, k1, low), __byte_perm(k0, k1, high),
                      __byte_perm(k2, k3, low), __byte_perm(k2, k3, high)};
    return a;
}
]]

local ADD4 = [[
// sum += v
static __device__ __forceinline__ void add4(float4 &sum, float4 v)
{
    sum.x += v.x;
    sum.y += v.y;
    sum.z += v.z;
    sum.w += v.w;
}
]]

local PTX_TYPE = {bf16 = "bf16", fp16 = "f16"}

local function trimmed(text) return (text:gsub("\n$", "")) end

-- Definition of mma for "bf16" or "fp16" operands.
function M.text(dtype)
    local type = PTX_TYPE[dtype] or fail("mma: no fragment type for dtype %s", dtype)
    return trimmed((MMA:gsub("@T@", type)))
end

-- Definition of mma_first.
function M.first_text(dtype)
    local type = PTX_TYPE[dtype] or fail("mma: no fragment type for dtype %s", dtype)
    return trimmed((MMA_FIRST:gsub("@T@", type)))
end

-- Definition of pair_rows, for weights whose contiguous axis is not k.
function M.pair_rows_text()
    return trimmed(PAIR_ROWS)
end

-- Definition of add4, for the sum of C fragments.
function M.add_text()
    return trimmed(ADD4)
end

return M
