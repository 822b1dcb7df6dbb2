@ -- SPDX-License-Identifier: Apache-2.0
@ -- The loaders of mha: copy_q, and what copies a tile of keys: copy_tile (K and V), or copy_keys and
@ -- copy_values where they take turns.  Inputs: load (plan/mha_tile.lua: q, keys, v), together, struct.
@
@ -- The copies of one row of loader l, to `to` and from `from`; size: "" or ", bytes".
@ local function row_copies(l, pass, from, indent, size)
@     local out = {}
@     for c = 0, l.chunks - 1 do
@         local last = c == l.chunks - 1 and l.chunk_tail > 0
@         out[#out + 1] = string.format("%s%scopy16<%d, %d>(to, %s%s);", indent,
@             last and string.format("if (threadIdx.x %% %du < %du) ", l.lanes, l.chunk_tail) or "",
@             pass * l.rows * l.row_stride + 16 * l.lanes * c, 16 * l.lanes * c, from, size)
@     end
@     return table.concat(out, "\n")
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
// What a thread copies of every tile of keys: 16-byte pieces of rows.
struct key_rows {
@ for _, l in ipairs(all) do
    mla_u32 to_${l.name}; // its first piece in shared memory
    const char *from_${l.name}; // the same in the next tile of ${l.name}
    mla_i64 step_${l.name}; // from row to row of the thread's, ${math.min(l.rows, l.count)} apart
@ end
};

// Copies ${load.q.count} rows of q from `first`, of which `rows` exist; the others become zeros.
static __device__ __forceinline__ void copy_q(mla_u32 to, const char *first, mla_i64 stride,
                                              mla_i32 rows)
{
    const mla_i32 row = (mla_i32)(threadIdx.x / ${load.q.lanes}u);
    const mla_u32 column = threadIdx.x % ${load.q.lanes}u * 16u;
    to += row * ${load.q.row_stride}u + column;
    first += column;
    if (rows >= ${load.q.count}) {
        first += row * stride;
        const mla_i64 step = ${load.q.rows} * stride;
@ for i = 0, load.q.passes - 1 do
${row_copies(load.q, i, "first", "        ", "")}
@     if i < load.q.passes - 1 then
        first += step;
@     end
@ end
        return;
    }
@ for i = 0, load.q.passes - 1 do
    {
        const mla_i32 wanted = row + ${i * load.q.rows};
        const char *from = first + (wanted < rows ? wanted : rows - 1) * stride;
        const mla_u32 bytes = wanted < rows ? 16u : 0u;
${row_copies(load.q, i, "from", "        ", ", bytes")}
    }
@ end
}
@ for _, group in ipairs(groups) do
@     local indent = "    "
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
            const mla_u32 to = at.to_${l.name} + stage;
@         for i = 0, l.passes - 1 do
${row_copies(l, i, "at.from_" .. l.name, "            ", "")}
            at.from_${l.name} += at.step_${l.name};
@         end
        }
@     end
        return;
    }
@     for _, l in ipairs(group.parts) do
    ${guard(l)}{
        const mla_u32 to = at.to_${l.name} + stage;
        const mla_i32 last = left - 1 - (mla_i32)(threadIdx.x / ${l.lanes}u); // row, from the first on
@         for i = 0, l.passes - 1 do
        {
            const mla_i32 row = last < ${i * l.rows} ? last : ${i * l.rows};
            const char *from = at.from_${l.name} + row * a.${l.name}_token_stride;
            const mla_u32 bytes = last < ${i * l.rows} ? 0u : 16u;
${row_copies(l, i, "from", "            ", ", bytes")}
        }
@         end
    }
@     end
}
@ end
