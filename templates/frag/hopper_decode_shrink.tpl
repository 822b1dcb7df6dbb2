@ -- SPDX-License-Identifier: Apache-2.0
@ -- O shrinks where the reference of a row of this warp's has grown.  Inputs: t, O (names).
@ local slot = t.slots == 2 and "(turn % 2u)" or "stage"
if (get_word(grown_from + 16u * ${slot}) != 0u) {
    const mla_u32 from = base + SHRINK + 256u * ${slot} + 4u * place().row;
    const float shrink0 = get_float(from);
    const float shrink1 = get_float(from + 32u);
@ for i, name in ipairs(O) do
    ${name} *= shrink${(i - 1) // 2 % 2};
@ end
}
