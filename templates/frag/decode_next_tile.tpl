@ -- SPDX-License-Identifier: Apache-2.0
@ -- Turns the ring of stages by one tile.  Inputs: t, page_size, shift.
@ local ahead = (t.stages - 1) * t.n
// The tile at `key` is there, the one before it is done with: its stage takes the next one.
copies_wait<${t.stages - 2}>();
__syncthreads();
if (key + ${ahead} < end_key) {
    const mla_u32 free_stage = stage == 0u ? ${(t.stages - 1) * t.stage_bytes}u : stage - STAGE;
    ${include("frag/decode_load.tpl", {t = t, page_size = page_size, shift = shift, at = "key + " .. ahead, to = "free_stage", next = "key + " .. ahead + t.n})}
}
copies_commit();
