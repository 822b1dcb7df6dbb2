@ -- SPDX-License-Identifier: Apache-2.0
@ -- S = Q K^T of the group's own tile, begun when the first half of its columns is there.  Inputs: t,
@ -- dtype, S (names), stage; in the text `parity` of the stage's barriers.
@ local wgmma = use("frag/hopper_wgmma")
@ local halves = {{}, {}}
@ for k = 0, t.steps - 1 do
@     local block, at = k // 4, 2 * (k % 4)
@     local b = {"rope_keys", 512 * (block - t.blocks) + at}
@     if block < t.blocks then
@         local from = block < t.half and 0 or t.half_bytes // 16 - 64 * t.half
@         b = {"keys", from + 64 * block + at}
@     end
@     local q = "q" .. k
@     local a = {"queries", 128 * (k - t.q_registers)}
@     if k < t.q_registers then
@         a = {q .. ".x", q .. ".y", q .. ".z", q .. ".w"}
@     end
@     local half = halves[block < t.half and 1 or 2]
@     half[#half + 1] = {a = a, b = b}
@ end
const mla_u64 keys =
    matrix_descriptor(base + STAGES${stage > 0 and " + STAGE" or ""}, 16u, ${1024 * t.half}u, 1u);
@ if t.rope_blocks > 0 then
const mla_u64 rope_keys =
    matrix_descriptor(base + STAGES + 2 * HALF_BYTES${stage > 0 and " + STAGE" or ""}, 16u, 1024u, 1u);
@ end
@ if t.q_shared > 0 then
const mla_u64 queries = matrix_descriptor(base + QUERIES, 16u, 256u, 3u);
@ end
mbarrier_wait(base + FULL${stage > 0 and " + 16u" or ""}, parity);
${wgmma.batch{dtype = dtype, acc = S, fresh = true, steps = halves[1], fence = true, commit = false}}
mbarrier_wait(base + FULL + ${16 * stage + 8}u, parity);
${wgmma.batch{dtype = dtype, acc = S, fresh = false, steps = halves[2], fence = true, commit = true}}
${wgmma.wait(S, 0)}
parity ^= 1u;
