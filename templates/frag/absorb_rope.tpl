@ -- SPDX-License-Identifier: Apache-2.0
@ -- The rotary columns of q, shared by all CTAs of a head.  A thread owns one chunk of a row,
@ -- four pairs: 16 bytes, with NeoX pairing 8 bytes of either half (frag/rope.tpl).  A position
@ -- is fetched one pass ahead, so that a pass waits once, not twice.
@ -- Inputs: map (plan/absorb_q.lua: style, lanes per token, chunks per row, tokens per CTA and
@ -- pass), dims, threads of the CTA; scaled: by position_factor, on the cosines and sines.  Leaves late, a zero for stationary_pair.tpl.
@ local rotates, neox = map.style ~= "none", map.style == "neox"
@ local bytes = neox and 8 or 16 -- from chunk to chunk of a row
@ local load, store = neox and "load_pairs" or "load16", neox and "store_pairs" or "store16"
@ local sines = 2 * dims.rope -- bytes from cos to sin in a row of the table
@ local function angle(at)
@     return scaled and "times4(load16(" .. at .. "), factor)" or "load16(" .. at .. ")"
@ end
// ${rotates and "RoPE" or "Copy"} of the rotary columns, ${map.tokens} tokens per CTA and pass, while W is on its way.
const mla_u32 part = threadIdx.x % ${map.lanes}u;
const mla_u32 pass = gridDim.x * gridDim.z * ${map.tokens}u;
mla_u32 token = (blockIdx.z * gridDim.x + blockIdx.x) * ${map.tokens}u + threadIdx.x / ${map.lanes}u;
@ if map.lanes * map.tokens < threads then
if (threadIdx.x >= ${map.lanes * map.tokens}u)
    token = tokens;
@ end
const char *rope = (const char *)a.q_rope + head * a.q_rope_head_stride;
char *out = (char *)a.q + head * a.q_head_stride + ${2 * dims.latent};
@ if rotates then
mla_i64 position = token < tokens ? a.positions[token] : 0;
@ end
while (token < tokens) {
    const mla_u32 next = token + pass;
@ if rotates then
    const mla_i64 next_position = next < tokens ? a.positions[next] : 0;
@ end
@ if scaled then
    const float factor = position_factor(position);
@ end
@ local chunk = "part"
@ local pad = "    "
@ if map.chunks > map.lanes then
@     chunk = "chunk"
    for (mla_u32 chunk = part; chunk < ${map.chunks}u; chunk += ${map.lanes}u) {
@     pad = "        "
@ end
${pad}const char *from = rope + token * a.q_rope_token_stride + ${bytes}u * ${chunk};
${pad}char *to = out + token * a.q_token_stride + ${bytes}u * ${chunk};
@ if rotates then
${pad}const char *angles = (const char *)a.cos_sin + position * a.cos_sin_stride + 16u * ${chunk};
@ end
@ if rotates then
${pad}const mla_v4 pairs = ${load}(from);
${pad}const mla_v4 cosines = ${angle("angles")};
${pad}const mla_v4 sines = ${angle("angles + " .. sines)};
${pad}${store}(to, rotate8(pairs, cosines, sines));
@ else
${pad}store16(to, load16(from));
@ end
@ if map.chunks > map.lanes then
    }
@ end
@ if rotates then
    position = next_position;
@ end
    token = next;
}
// The loop ends with token >= tokens, so late is 0; the compiler must not know, or it moves
// the first use of W, and the wait for it, in front of the loop.
pin(token);
const mla_u32 late = token < tokens ? 1u : 0u;
