@ -- SPDX-License-Identifier: Apache-2.0
@ -- Looks up the pages of this thread's rows of the tile at `at`, one tile before they are needed.
@ -- Inputs: t, shift, at.
@ for i = 0, t.passes - 1 do
{
    const mla_i32 row = ${at} + ${i * t.rows_per_pass} + (mla_i32)load_row;
    page${i} = pages[(row < end_key ? row : end_key - 1) >> ${shift}];
}
@ end
