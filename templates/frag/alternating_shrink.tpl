@ -- SPDX-License-Identifier: Apache-2.0
@ -- O times shrink0 and shrink1; before the first P V it holds nothing, and P V does not ask.  Inputs: O
@ -- (names), flies (it may be in the tensor cores).
@ if flies then
${use("frag/hopper_wgmma").wait(O, 0, 70)}
@ end
@ for i, name in ipairs(O) do
${name} *= shrink${(i - 1) // 2 % 2};
@ end
