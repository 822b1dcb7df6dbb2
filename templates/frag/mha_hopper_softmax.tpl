@ -- SPDX-License-Identifier: Apache-2.0
@ -- S of a tile becomes exp(S - maximum), in place; row sums.  Input: t.
@ -- Of a lane's scores s0 .., pairs of row g (0) and of row g + 8 (1) of its warp take turns;
@ -- s(4 j), s(4 j + 1) are of columns 8 j + 2 quad and the next.
@ local count = t.n // 2
// Keys that a row does not see, in tiles that not every row of the warp sees.
if (begin + KEYS > warp_sees) {
    const mla_i32 sees0 = lane_sees - begin;
    const mla_i32 sees1 = sees0 + 8 * a.causal;
@ for j = 0, count // 4 - 1 do
    hide_beyond<${8 * j}>(s${4 * j}, s${4 * j + 1}, s${4 * j + 2}, s${4 * j + 3}, sees0, sees1);
@ end
}

// Row maxima, in units of log2; a row that sees nothing yet has -inf.
float top0 = fmaxf(s0, s1);
float top1 = fmaxf(s2, s3);
@ for j = 1, count // 4 - 1 do
top0 = fmaxf(top0, fmaxf(s${4 * j}, s${4 * j + 1}));
top1 = fmaxf(top1, fmaxf(s${4 * j + 2}, s${4 * j + 3}));
@ end
top0 = over_quad(top0) * scale;
top1 = over_quad(top1) * scale;
const bool higher = (top0 > row_max0) | (top1 > row_max1);
const bool rises = __any_sync(0xffffffffu, higher);
// Factors of what was summed against the old maxima.
float shrink0 = 1.0f;
float shrink1 = 1.0f;
if (rises) {
    if (top0 > row_max0) {
        shrink0 = exp_2(row_max0 - top0);
        row_max0 = top0;
    }
    if (top1 > row_max1) {
        shrink1 = exp_2(row_max1 - top1);
        row_max1 = top1;
    }
    row_sum0 *= shrink0;
    row_sum1 *= shrink1;
}
const float minus0 = row_max0 == minus_infinity() ? 0.0f : -row_max0;
const float minus1 = row_max1 == minus_infinity() ? 0.0f : -row_max1;
// P, in place of S, and what this lane has of the row sums.
@ for i = 0, count - 1 do
@     local r = i // 2 % 2
s${i} = exp_2(fmaf(s${i}, scale, minus${r}));
row_sum${r} += s${i};
@ end
