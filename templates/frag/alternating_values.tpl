@ -- SPDX-License-Identifier: Apache-2.0
@ -- O += P V, the group's half of the columns, sent off.  Inputs: t, dtype, O (names), stage, half, own
@ -- (P is in this group's registers), maker (else whose it is), fresh.
@ local wgmma = use("frag/hopper_wgmma")
@ local steps = {}
@ for k = 0, 3 do
@     local a = {"weights", 2 * k}
@     if own then
@         a = {"p" .. 4 * k, "p" .. 4 * k + 1, "p" .. 4 * k + 2, "p" .. 4 * k + 3}
@     end
@     steps[#steps + 1] = {a = a, b = {"columns" .. stage, 128 * t.half * k}}
@ end
@ if not own then
@     local whose = maker > 0 and " + 8192u" or ""
const mla_u64 weights = matrix_descriptor(base + WEIGHTS${whose}, 16u, 1024u, 1u);
@ end
@ local where = "STAGES" .. (half > 0 and " + HALF_BYTES" or "") .. (stage > 0 and " + STAGE" or "")
const mla_u64 columns${stage} =
    matrix_descriptor(base + ${where}, 1024u, ${1024 * t.half}u, 1u);
${wgmma.batch{dtype = dtype, acc = O, fresh = fresh, steps = steps, trans_b = true, fence = true, commit = true}}
