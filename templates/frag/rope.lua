-- SPDX-License-Identifier: Apache-2.0
-- Rotary position embedding of one row of `width` values, as text for a kernel.
--
-- The row's partner is a row of the table cos_sin, fp32
-- [cos of width/2 | sin of width/2].  Pair i = (a, b) becomes
-- (a cos_i - b sin_i, a sin_i + b cos_i), in fp32, rounded once
-- (Su et al., RoFormer, arXiv:2104.09864, eq. 34).  Which values make a pair:
--
--   interleaved  (x[2i], x[2i+1])            GPT-J, DeepSeek
--   neox         (x[i], x[i + width/2])      GPT-NeoX, MiniCPM3
--   none         no rotation: a copy
--
-- A row is cut into `chunks`, one thread's work each, all loads and stores 16
-- bytes wide: interleaved, 4 neighbouring pairs (16 bytes of the row, 4 cos, 4
-- sin); neox, 8 pairs (16 bytes of either half, 8 cos, 8 sin); none, 16 bytes.
--
-- The kernel calls, for chunk c of the row at `from`:
--     rope_chunk(to, from, c)                     style none
--     rope_chunk(to, from, angles, c)             otherwise
-- with angles the row of cos_sin, all pointers const char * (to: char *).  It needs
-- load16 and store16 of memory.tpl, and unless the style is none, convert.tpl.
local M = {}

local CHUNK_BYTES = {interleaved = 16, neox = 32, none = 16}

local function check(style, width)
    assert(CHUNK_BYTES[style], "unknown rope style " .. tostring(style))
    assert(width > 0 and width % 16 == 0, "rope width must be a multiple of 16")
end

-- Threads that one row of `width` 2-byte values keeps busy.
function M.chunks(style, width)
    check(style, width)
    return width * 2 // CHUNK_BYTES[style]
end

-- Does the style read positions and the table?
function M.rotates(style)
    return style ~= "none"
end

local NONE = [[
// 16 bytes of a rope row, copied: this model does not rotate.
static __device__ __forceinline__ void rope_chunk(char *to, const char *from, mla_u32 chunk)
{
    store16(to + 16 * chunk, load16(from + 16 * chunk));
}
]]

local INTERLEAVED = [[
// Rotates one pair (x[2i], x[2i+1]), which is one word.
static __device__ __forceinline__ mla_u32 rotate(mla_u32 pair, float c, float s)
{
    const float a = lo_f32(pair);
    const float b = hi_f32(pair);
    return pack2(a * c - b * s, a * s + b * c);
}

// Pairs 4 * chunk .. + 3 of a row; angles is the row of cos_sin, sin at byte @SIN@.
static __device__ __forceinline__ void rope_chunk(char *to, const char *from,
                                                  const char *angles, mla_u32 chunk)
{
    const mla_v4 v = load16(from + 16 * chunk);
    const float4 c = *(const float4 *)(angles + 16 * chunk);
    const float4 s = *(const float4 *)(angles + @SIN@ + 16 * chunk);
    const mla_v4 turned = {rotate(v.x, c.x, s.x), rotate(v.y, c.y, s.y),
                           rotate(v.z, c.z, s.z), rotate(v.w, c.w, s.w)};
    store16(to + 16 * chunk, turned);
}
]]

local NEOX = [[
// Rotates two neighbouring pairs (x[i], x[i + @HALF@]): a holds the left values of
// both, b the right ones.
static __device__ __forceinline__ void rotate2(mla_u32 &a, mla_u32 &b, float c0, float c1,
                                               float s0, float s1)
{
    const float a0 = lo_f32(a);
    const float a1 = hi_f32(a);
    const float b0 = lo_f32(b);
    const float b1 = hi_f32(b);
    a = pack2(a0 * c0 - b0 * s0, a1 * c1 - b1 * s1);
    b = pack2(a0 * s0 + b0 * c0, a1 * s1 + b1 * c1);
}

// Pairs 8 * chunk .. + 7 of a row; angles is the row of cos_sin, sin at byte @SIN@.
static __device__ __forceinline__ void rope_chunk(char *to, const char *from,
                                                  const char *angles, mla_u32 chunk)
{
    mla_v4 a = load16(from + 16 * chunk);
    mla_v4 b = load16(from + @OTHER@ + 16 * chunk);
    const float4 c0 = *(const float4 *)(angles + 32 * chunk);
    const float4 c1 = *(const float4 *)(angles + 32 * chunk + 16);
    const float4 s0 = *(const float4 *)(angles + @SIN@ + 32 * chunk);
    const float4 s1 = *(const float4 *)(angles + @SIN@ + 32 * chunk + 16);
    rotate2(a.x, b.x, c0.x, c0.y, s0.x, s0.y);
    rotate2(a.y, b.y, c0.z, c0.w, s0.z, s0.w);
    rotate2(a.z, b.z, c1.x, c1.y, s1.x, s1.y);
    rotate2(a.w, b.w, c1.z, c1.w, s1.z, s1.w);
    store16(to + 16 * chunk, a);
    store16(to + @OTHER@ + 16 * chunk, b);
}
]]

local TEXT = {none = NONE, interleaved = INTERLEAVED, neox = NEOX}

-- Definition of rope_chunk for rows of `width`, no newline at the end.
function M.text(style, width)
    check(style, width)
    local number = {SIN = width * 2, OTHER = width, HALF = width // 2}
    local text = TEXT[style]:gsub("@(%u+)@", number):gsub("\n$", "")
    return text
end

return M
