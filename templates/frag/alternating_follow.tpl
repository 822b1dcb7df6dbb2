@ -- SPDX-License-Identifier: Apache-2.0
@ -- The other group's tile has raised the reference of a row of this warp's: O and the sums shrink as
@ -- theirs did.  Inputs: t, maker, O (names), flies (O may be in the tensor cores).
@ local wgmma = use("frag/hopper_wgmma")
{
    const thread_place me = place();
    if (get_word(base + GROWN + ${16 * maker}u + 4u * me.warp) != 0u) {
        const mla_u32 from = base + REFERENCE + ${256 * maker}u + 4u * me.row;
        const float old0 = reference0;
        const float old1 = reference1;
        reference0 = get_float(from);
        reference1 = get_float(from + 32u);
        const float shrink0 = exp_2(old0 - reference0);
        const float shrink1 = exp_2(old1 - reference1);
@ for _, sum in ipairs(t.rounded and {"sum", "rounded"} or {"sum"}) do
        ${sum}0 *= shrink0;
        ${sum}1 *= shrink1;
@ end
        ${include("frag/alternating_shrink.tpl", {O = O, flies = flies})}
    }
}
