@ -- SPDX-License-Identifier: Apache-2.0
@ -- All loads of the warp's W, before anything waits for one of them.
@ -- Inputs: tile (plan/stationary.lua); weights, the name of the argument; first_row, the row
@ -- of a head at which its W begins.  Leaves w<step>_<row>, which stationary_pair.tpl (kn) or
@ -- stationary_product.tpl (nk) use.
@ local stationary = use("plan/stationary")
@ local ldg = use("frag/ldg")
@ assert(tile.layout == "nk" or tile.layout == "kn")
@ local steps = stationary.steps(tile)
@ local row = "a." .. weights .. "_row_stride"
@ local lane_columns = 2 * tile.mtw
@ local slice = tile.warps_k > 1
@
@ if tile.layout == "nk" then
@     local rows = first_row > 0 and string.format("%du + column", first_row) or "column"
@     local from = slice and "2u * first_k + " or ""
// W[n][k]: ${lane_columns} rows of columns per lane, ${stationary.weight_loads(tile)} loads, all on their way before one is needed.
const char *w = (const char *)a.${weights} + head * a.${weights}_head_stride
                + (mla_i64)(${rows} + ${lane_columns}u * g) * ${row}
                + (${from}${stationary.lane_bytes(tile)}u * q);
@     for r = 0, lane_columns - 1 do
@         for s, step in ipairs(steps) do
@             local width = step.width // 2
@             local name = string.format("w%d_%d", s - 1, r)
@             local at = "w" .. stationary.step_offset(tile, step)
@             if step.spare then
${ldg.type(width)} ${name} = ${ldg.zero(width)};
if (spare)
    ${name} = once${width}(${at});
@             else
const ${ldg.type(width)} ${name} = once${width}(${at});
@             end
@         end
@         if r < lane_columns - 1 then
w += ${row};
@         end
@     end
@ else
@     local width = 4 * tile.mtw
@     local first = slice and "first_k + " or ""
// W[k][n]: ${lane_columns} columns per lane, ${stationary.weight_loads(tile)} loads, all on their way before one is needed.
const char *corner = (const char *)a.${weights} + head * a.${weights}_head_stride
                     + 2u * (column + ${lane_columns}u * g);
@     for s, step in ipairs(steps) do
@         local count = step.width // 4
@         local at = step.at > 0 and string.format("%du + ", step.at) or ""
${s == 1 and "const char *w" or "w"} = corner + (mla_i64)(${first}${at}${count}u * q) * ${row};
@         if step.spare then
@             for r = 0, count - 1 do
${ldg.type(width)} w${s - 1}_${r} = ${ldg.zero(width)};
@             end
if (spare) {
@             for r = 0, count - 1 do
    w${s - 1}_${r} = walk${width}(w, ${row});
@             end
}
@         else
@             for r = 0, count - 1 do
const ${ldg.type(width)} w${s - 1}_${r} = walk${width}(w, ${row});
@             end
@         end
@     end
@ end
