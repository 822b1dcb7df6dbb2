@ -- SPDX-License-Identifier: Apache-2.0
@ -- Turns the ring of stages by one tile.  Input: t.
@ local ahead = (t.stages - 1) * t.n
// The tile at `key` is there and the one before it done with: its stage takes the next.
copies_wait<${t.stages - 2}>();
__syncthreads();
if (key + ${ahead}u < end_key) {
    const mla_u32 to = load_to + (stage == 0u ? ${(t.stages - 1) * t.stage_bytes}u : stage - STAGE);
    ${include("frag/decode_tile.tpl", {t = t, at = "key + " .. ahead .. "u", to = "to"})}
}
copies_commit();
