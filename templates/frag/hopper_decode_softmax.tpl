@ -- SPDX-License-Identifier: Apache-2.0
@ -- P = exp(S - reference), in registers as pairs, and its sums.  The reference follows a row's
@ -- maximum only when that has outgrown it: then O and the sums shrink.  P may go up to 2^room.  A
@ -- new reference lies as far above the maximum, so that a growing row needs the next one later:
@ -- bf16 keeps its precision down there; fp16 would lose it.  Inputs: t, H, dtype; told ("shrink" or
@ -- "reference"), what others learn of rows that have grown, rows and flag, where; own (text or ""),
@ -- what else of this group shrinks.
@ local room = dtype == "bf16" and 12 or 8
@ local above = dtype == "bf16" and string.format(" + %s", f32(room)) or ""
@ local function maximum(first)
@     local out = {}
@     for i = 0, 31 do
@         if i // 2 % 2 == first then
@             out[#out + 1] = "s" .. i
@         end
@     end
@     return out
@ end
@ local upper, lower = maximum(0), maximum(1)
// Keys that a row does not see, in tiles where some row does not see all.
if (left > clear) {
    const work_item w = item_at(a, (mla_i32)pinned((mla_u32)index));
    const thread_place me = place();
    const mla_i32 row = w.first_row + (mla_i32)me.row;
    const mla_u32 end0 = (mla_u32)(w.seen + token_of(a, row));
    const mla_u32 end1 = (mla_u32)(w.seen + token_of(a, row + 8));
    const mla_u32 tile = (mla_u32)(w.first_tile + left - 1);
    const mla_u32 column = tile * 64u + 2u * (me.lane % 4u);
    const mla_u32 last0 = end0 < w.end_key ? end0 : w.end_key;
    const mla_u32 last1 = end1 < w.end_key ? end1 : w.end_key;
@ for i = 0, 31 do
@     local at = 8 * (i // 4) + i % 2
    s${i} = column${at > 0 and string.format(" + %du", at) or ""} >= last${i // 2 % 2} ? __uint_as_float(0xff800000u) : s${i};
@ end
}

const float scale = exponent_scale(a.softmax_scale);
float top0 = fmaxf(${upper[1]}, ${upper[2]});
float top1 = fmaxf(${lower[1]}, ${lower[2]});
@ for i = 3, 15, 2 do
top0 = fmaxf(top0, fmaxf(${upper[i]}, ${upper[i + 1]}));
top1 = fmaxf(top1, fmaxf(${lower[i]}, ${lower[i + 1]}));
@ end
@ for _, lanes in ipairs({1, 2}) do
top0 = fmaxf(top0, __shfl_xor_sync(0xffffffffu, top0, ${lanes}));
top1 = fmaxf(top1, __shfl_xor_sync(0xffffffffu, top1, ${lanes}));
@ end
top0 *= scale;
top1 *= scale;
const bool grown0 = top0 > reference0 + ${f32(room)};
const bool grown1 = top1 > reference1 + ${f32(room)};
const bool grown = __any_sync(0xffffffffu, grown0 || grown1);
if (grown) {
    // Only rows that have grown get a new reference: rows do not depend on others.
    const float old0 = reference0;
    const float old1 = reference1;
    reference0 = grown0 ? top0${above} : reference0;
    reference1 = grown1 ? top1${above} : reference1;
    const float shrink0 = exp_2(old0 - reference0);
    const float shrink1 = exp_2(old1 - reference1);
    sum0 *= shrink0;
    sum1 *= shrink1;
@ if t.rounded then
    rounded0 *= shrink0;
    rounded1 *= shrink1;
@ end
    const thread_place me = place();
    if (me.lane % 4u == 0u) {
        const mla_u32 to = base + ${rows} + 4u * me.row;
        put_float(to, ${told}0);
        put_float(to + 32u, ${told}1);
    }
@ if own ~= "" then
    ${own}
@ end
}
{
    const thread_place me = place();
    if (me.lane == 0u)
        put_word(base + ${flag} + 4u * me.warp, grown ? 1u : 0u);
}
@ for j = 0, 15 do
@     local r = j % 2
s${2 * j} = exp_2(fmaf(s${2 * j}, scale, -reference${r}));
s${2 * j + 1} = exp_2(fmaf(s${2 * j + 1}, scale, -reference${r}));
sum${r} += s${2 * j};
sum${r} += s${2 * j + 1};
p${j} = pack2(s${2 * j}, s${2 * j + 1});
@     if t.rounded then
rounded${r} += lo_f32(p${j}) + hi_f32(p${j});
@     end
@ end
