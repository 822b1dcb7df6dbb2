@ -- SPDX-License-Identifier: Apache-2.0
@ -- Sends for the tile of keys at `at`, into the stage `to` (an address), and looks up the pages of
@ -- the tile after it.  Inputs: t, at, to.
@ local tail = t.n % t.rows_per_pass
@ local function plus(offset)
@     return offset == 0 and at or at .. " + " .. offset .. "u"
@ end
@ for i = 0, t.passes - 1 do
@     local key = plus(i * t.rows_per_pass) .. " + load_row"
@     local call = string.format("copy_row<%d>(a, %s, page%d,", i * t.rows_per_pass * t.row_stride, to, i)
@     local rest = key .. ", end_key, load_chunk);"
@     if i == t.passes - 1 and tail > 0 then
if (load_row < ${tail}u)
    ${call}
${string.rep(" ", 4 + #string.match(call, "^[^(]*%("))}${rest}
@     else
${call}
${string.rep(" ", #string.match(call, "^[^(]*%("))}${rest}
@     end
@ end
@ for i = 0, t.passes - 1 do
page${i} = page_of(pages, ${plus(t.n + i * t.rows_per_pass)} + load_row, end_key);
@ end
