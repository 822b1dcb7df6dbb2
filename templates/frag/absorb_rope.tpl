@ -- SPDX-License-Identifier: Apache-2.0
@ -- The rotary columns of q, shared by all CTAs of a head.  A position is fetched one pass
@ -- ahead, so that a pass waits once, not twice.
@ -- Inputs: map (plan/absorb_q.lua: lanes per token, chunks per row, tokens per CTA and pass);
@ -- latent; rotates; threads of the CTA.
@ local idle = map.lanes * map.tokens < threads
${rotates and "// RoPE" or "// Copy"} of the rotary columns, ${map.tokens} tokens per CTA and pass, while W is on its way.
{
    const mla_u32 part = threadIdx.x % ${map.lanes}u;
    const mla_u32 pass = gridDim.x * gridDim.z * ${map.tokens}u;
    mla_u32 token = (blockIdx.z * gridDim.x + blockIdx.x) * ${map.tokens}u + threadIdx.x / ${map.lanes}u;
@ if idle then
    if (threadIdx.x >= ${map.lanes * map.tokens}u)
        token = tokens;
@ end
    const char *from = (const char *)a.q_rope + head * a.q_rope_head_stride;
    char *to = (char *)a.q + head * a.q_head_stride + ${2 * latent};
@ if rotates then
    mla_i64 position = token < tokens ? a.positions[token] : 0;
@ end
    while (token < tokens) {
        const mla_u32 next = token + pass;
@ local call = "to + token * a.q_token_stride, from + token * a.q_rope_token_stride"
@ if rotates then
        const mla_i64 next_position = next < tokens ? a.positions[next] : 0;
        const char *angles = (const char *)a.cos_sin + position * a.cos_sin_stride;
@     call = call .. ", angles"
@ end
@ if map.chunks > map.lanes then
        for (mla_u32 chunk = part; chunk < ${map.chunks}u; chunk += ${map.lanes}u)
            rope_chunk(${call}, chunk);
@ else
        rope_chunk(${call}, part);
@ end
@ if rotates then
        position = next_position;
@ end
        token = next;
    }
}
