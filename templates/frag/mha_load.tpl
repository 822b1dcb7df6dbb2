@ -- SPDX-License-Identifier: Apache-2.0
@ -- The loaders of mha: copy_q, and a copy_<name> for every tensor that a tile of keys is made of.
@ -- Input: load (plan/mha_tile.lua): q, keys, v.
@
@ -- The copies of one row of loader l, TO bytes past `to`; `bytes`: with a size.
@ local function row_copies(l, pass, indent, bytes)
@     local out = {}
@     for c = 0, l.chunks - 1 do
@         local last = c == l.chunks - 1 and l.chunk_tail > 0
@         out[#out + 1] = string.format("%s%scopy16<%d, %d>(to, from%s);", indent,
@             last and string.format("if (chunk < %du) ", l.chunk_tail) or "",
@             pass * l.rows * l.row_stride + 16 * l.lanes * c, 16 * l.lanes * c, bytes)
@     end
@     return table.concat(out, "\n")
@ end
@ local function thread_row(l)
@     return string.format("(mla_i32)(threadIdx.x / %du)", l.lanes)
@ end
// Copies this thread's 16-byte pieces of ${load.q.count} rows of q, of which `rows` exist; the others become
// zeros.  `first` is the first row.
static __device__ __forceinline__ void copy_q(mla_u32 to, const char *first, mla_i64 stride,
                                              mla_i32 rows)
{
    const mla_i32 row = ${thread_row(load.q)};
    const mla_u32 chunk = threadIdx.x % ${load.q.lanes}u;
    first += chunk * 16u;
    to += row * ${load.q.row_stride} + chunk * 16u;
@ for i = 0, load.q.passes - 1 do
    {
        const mla_i32 wanted = row + ${i * load.q.rows};
        const char *from = first + (wanted < rows ? wanted : rows - 1) * stride;
        const mla_u32 bytes = wanted < rows ? 16u : 0u;
${row_copies(load.q, i, "        ", ", bytes")}
    }
@ end
}
@ local list = {}
@ for _, l in ipairs(load.keys) do
@     list[#list + 1] = l
@ end
@ list[#list + 1] = load.v
@ for _, l in ipairs(list) do

// Copies this thread's pieces of a tile of ${l.count} rows of ${l.name}, of which `left` exist (the others
// become zeros).  `from` is the thread's first row, and goes on to the next tile.
static __device__ __forceinline__ void copy_${l.name}(mla_u32 to, const char *&from_row, mla_i64 stride,
                                                   mla_i32 left)
{
@     if l.chunk_tail > 0 then
    const mla_u32 chunk = threadIdx.x % ${l.lanes}u;
@     end
@     if l.row_tail > 0 then
    if (threadIdx.x >= ${l.count * l.lanes}u)
        return;
@     end
    if (left >= ${l.count}) {
@     for i = 0, l.passes - 1 do
        {
            const char *from = from_row;
${row_copies(l, i, "            ", "")}
            from_row += ${math.min(l.rows, l.count)} * stride;
        }
@     end
        return;
    }
    const mla_i32 last = left - 1 - ${thread_row(l)};
@     for i = 0, l.passes - 1 do
    {
        const char *from = from_row + (last < ${i * l.rows} ? last : ${i * l.rows}) * stride;
        const mla_u32 bytes = last < ${i * l.rows} ? 0u : 16u;
${row_copies(l, i, "        ", ", bytes")}
    }
@     end
}
@ end
