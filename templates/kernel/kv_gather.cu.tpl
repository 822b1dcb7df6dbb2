@ -- SPDX-License-Identifier: Apache-2.0
@ -- kv_gather: pool rows to contiguous rows, some lanes per row.  Inputs: plan
@ -- (plan/kv_gather), meta.
@ local args, emit = use("lib/args"), use("lib/emit")
@ local t, d = plan.tile, plan.dims
@ assert(32 % t.lanes == 0 and t.rows_per_cta * t.lanes == emit.threads(plan))
@ assert(1 << t.page_shift == plan.page_size, "kv_gather: page size")
@
@ -- Every vector of a row: its name, byte in the pool row, byte in its output, test of lanes.
@ local vectors = {}
@ local function add_part(name, part, first)
@     for j = 0, part.chunks - 1 do
@         local last = part.remainder > 0 and j == part.chunks - 1
@         vectors[#vectors + 1] = {
@             name = name .. j, from = first + j * t.lanes * 16, part = name,
@             to = j * t.lanes * 16, test = last and "lane < " .. part.remainder or "",
@         }
@     end
@ end
@ add_part("latent", t.latent, 0)
@ add_part("rope", t.rope, d.latent * 2)
@ local shift, mask = t.page_shift, plan.page_size - 1
@ local purpose = "kv_gather: rows of the paged pool, by slots or by page table, made contiguous."
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/memory.tpl", {want = {load_stream = true, store = true}})}

${args.kernel_struct(plan.args)}

// The sequence that owns output row `row`: the last b with cu_seqlens[b] <= row.
static __device__ __forceinline__ mla_i32
sequence_of(const ${plan.args.struct} &a, mla_i32 row)
{
    mla_i32 low = 0;
    mla_i32 high = a.batch;
    while (high - low > 1) {
        const mla_i32 middle = low + (high - low) / 2;
        if (a.cu_seqlens[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// The slot of output row `row` by the page table; negative where the page id is.
static __device__ __forceinline__ mla_i64
slot_of(const ${plan.args.struct} &a, mla_i32 row)
{
    const mla_i32 b = sequence_of(a, row);
    mla_i64 position = row - a.cu_seqlens[b];
    if (a.starts)
        position += a.starts[b];
    const char *pages = (const char *)a.block_table + b * a.block_table_stride;
    const mla_i64 page = ((const mla_i32 *)pages)[position >> ${shift}];
    return page < 0 ? -1 : (page << ${shift}) + (position & ${mask});
}

${emit.signature(plan)}
{
    const mla_u32 lane = threadIdx.x % ${t.lanes}u;
    const mla_i64 index = (mla_i64)blockIdx.x * ${t.rows_per_cta} + threadIdx.x / ${t.lanes}u;
    const mla_u32 column = lane * 16;
    ${include("frag/pdl.tpl", {pdl = plan.launch.pdl})}

    // Rows that exist: the buffer's, and with a page table no more than the sequences have.
    if (index >= a.tokens)
        return;
    const mla_i32 row = (mla_i32)index;
    if (!a.slots && row >= a.cu_seqlens[a.batch])
        return;
    const mla_i64 slot = a.slots ? a.slots[row] : slot_of(a, row);

    // Loads: the whole row, or zeros.
@ for _, v in ipairs(vectors) do
    mla_v4 ${v.name} = {0, 0, 0, 0};
@ end
    if (slot >= 0) {
        const char *from = (const char *)a.kv_cache + (slot >> ${shift}) * a.page_stride
                           + (slot & ${mask}) * a.row_stride + column;
@ for _, v in ipairs(vectors) do
@     if v.test ~= "" then
        if (${v.test})
            ${v.name} = load_stream16(${emit.at("from", 0, "", v.from)});
@     else
        ${v.name} = load_stream16(${emit.at("from", 0, "", v.from)});
@     end
@ end
    }

    // Stores.
    char *latent = (char *)a.latent + row * a.latent_stride + column;
@ if d.rope > 0 then
    char *rope = (char *)a.k_rope + row * a.k_rope_stride + column;
@ end
@ for _, v in ipairs(vectors) do
@     if v.test ~= "" then
    if (${v.test})
        store16(${emit.at(v.part, 0, "", v.to)}, ${v.name});
@     else
    store16(${emit.at(v.part, 0, "", v.to)}, ${v.name});
@     end
@ end
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
