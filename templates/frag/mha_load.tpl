@ -- SPDX-License-Identifier: Apache-2.0
@ -- The loaders of mha: copy_q, and what copies a tile of keys: copy_tile (K and V), or copy_keys and
@ -- copy_values where they take turns.  Inputs: load (plan/mha_tile.lua: q, keys, v), together, steps
@ -- (whether they are kept), struct.
@
@ -- The copies of a row of loader l from `from`; size: "" or ", bytes".
@ local function pieces(l, size)
@     local out = {}
@     for c = 0, l.chunks - 1 do
@         local last = c == l.chunks - 1 and l.chunk_tail > 0
@         local at = 16 * l.lanes * c
@         out[#out + 1] = string.format("    %scopy16<%s, %d>(to, from%s);",
@             last and string.format("if (threadIdx.x %% %du < %du)\n        ", l.lanes, l.chunk_tail) or "",
@             at == 0 and "TO" or "TO + " .. at, at, size)
@     end
@     return table.concat(out, "\n")
@ end
@ local function shared_byte(l, pass)
@     return pass * l.rows * l.row_stride + (l.beside and l.to or 0)
@ end
@ local groups = { { name = "keys", parts = load.keys }, { name = "values", parts = { load.v } } }
@ local all = {}
@ for _, group in ipairs(groups) do
@     for _, l in ipairs(group.parts) do
@         all[#all + 1] = l
@     end
@ end
@ if together then
@     groups = { { name = "tile", parts = all } }
@ end
@ for _, l in ipairs({ load.q, table.unpack(all) }) do
// This thread's ${l.chunks == 1 and "piece" or "pieces"} of a row of ${l.name}, to TO bytes past `to`.
template <int TO>
static __device__ __forceinline__ void row_of_${l.name}(mla_u32 to, const char *from)
{
${pieces(l, "")}
}

// The same of row ROW past the one at `from`, where rows up to `last` exist; else zeros.
template <int TO, int ROW>
static __device__ __forceinline__ void some_row_of_${l.name}(mla_u32 to, const char *from,
                                                  mla_i64 stride, mla_i32 last)
{
    const mla_u32 bytes = last < ROW ? 0u : 16u;
    from += (last < ROW ? last : ROW) * stride; // an address that exists
${pieces(l, ", bytes")}
}

@ end
// Copies ${load.q.count} rows of q from `first`, of which `rows` exist; the others become zeros.
static __device__ __forceinline__ void copy_q(mla_u32 to, const char *first, mla_i64 stride,
                                              mla_i32 rows)
{
    const mla_i32 row = (mla_i32)(threadIdx.x / ${load.q.lanes}u);
    const mla_u32 column = threadIdx.x % ${load.q.lanes}u * 16u;
    const char *from = first + row * stride + column;
    to += row * ${load.q.row_stride}u + column;
    if (rows >= ${load.q.count}) {
@ for i = 0, load.q.passes - 1 do
        row_of_q<${shared_byte(load.q, i)}>(to, from);
@     if i < load.q.passes - 1 then
        from += ${load.q.rows} * stride;
@     end
@ end
        return;
    }
@ for i = 0, load.q.passes - 1 do
    some_row_of_q<${shared_byte(load.q, i)}, ${i * load.q.rows}>(to, from, stride, rows - 1 - row);
@ end
}

// What a thread copies of every tile of keys: pieces of rows.
struct key_rows {
@ for _, l in ipairs(all) do
    // ${l.name}: the first piece in shared memory, the same in the next tile${steps and ", and from row to row" or ""}.
@     if not l.beside then
    mla_u32 to_${l.name};
@     end
    const char *from_${l.name};
@     if steps then
    mla_i64 step_${l.name};
@     end
@ end
};
@ for _, group in ipairs(groups) do
@     local function step(l)
@         return steps and "at.step_" .. l.name
@             or string.format("%d * a.%s_token_stride", math.min(l.rows, l.count), l.name)
@     end
@     -- Where a pass covers more rows than there are, only the first threads copy.
@     local function guard(l)
@         return l.row_tail > 0 and string.format("if (threadIdx.x < %du) ", l.count * l.lanes) or ""
@     end

// Copies a tile of keys to the buffers at byte `stage`, and goes on to the next one.  `left` keys
// are left; what is missing of the tile becomes zeros.
static __device__ __forceinline__ void copy_${group.name}(const ${struct} &a, key_rows &at,
                                                  mla_u32 stage, mla_i32 left)
{
    if (left >= ${load.v.count}) {
@     for _, l in ipairs(group.parts) do
        ${guard(l)}{
            const mla_u32 to = at.to_${l.beside or l.name} + stage;
@         for i = 0, l.passes - 1 do
            row_of_${l.name}<${shared_byte(l, i)}>(to, at.from_${l.name});
            at.from_${l.name} += ${step(l)};
@         end
        }
@     end
        return;
    }
@     for _, l in ipairs(group.parts) do
    ${guard(l)}{
        const mla_u32 to = at.to_${l.beside or l.name} + stage;
        const mla_i32 last = left - 1 - (mla_i32)(threadIdx.x / ${l.lanes}u); // row, from the first on
@         for i = 0, l.passes - 1 do
        some_row_of_${l.name}<${shared_byte(l, i)}, ${i * l.rows}>(
            to, at.from_${l.name}, a.${l.name}_token_stride, last);
@         end
    }
@     end
}
@ end
