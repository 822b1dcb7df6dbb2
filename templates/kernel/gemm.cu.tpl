@ -- SPDX-License-Identifier: Apache-2.0
@ -- gemm: a projection, a multistage tensor-core product of any size.
@ -- Inputs: plan (plan/gemm.lua), meta.
@ local args, emit = use("lib/args"), use("lib/emit")
@ local mma, column_of = use("frag/mma"), use("plan/kv_b").column
@ local t = plan.tile
@ local m_tiles, n_tiles, passes = t.warp_tile // 16, t.warp_tile // 8, t.rows // t.pass
@ assert(t.stride % 32 == 16 and t.warp_tile == 32 and t.rows == 2 * t.warp_tile)
@ assert(t.rows == t.columns and (t.lanes == 8 or t.lanes == 4))
@ local last_stage = (t.stages - 1) * t.stage
@ -- Fragments of 32 rows at k-step `k` of a stage.
@ local function fragments(from, k)
@     return string.format("matrices<%d>(%s), matrices<%d>(%s)", 32 * k, from, 16 * t.stride + 32 * k,
@         from)
@ end
${emit.head(plan, meta, "gemm: y = x * w^T, w as checkpoints store it, for the projections of a layer.")}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/memory.tpl", {want = {store = true}})}

${include("frag/convert.tpl", {dtype = plan.dtype, want = {pack = true}})}

${include("frag/cp_async.tpl")}

// The same; bytes 0 writes zeros and reads nothing.
template <int TO>
static __device__ __forceinline__ void copy16(mla_u32 to, const char *from, mla_u32 bytes)
{
    asm volatile("cp.async.cg.shared.global [%0+%2], [%1], 16, %3;"
                 :
                 : "r"(to), "l"(from), "n"(TO), "r"(bytes)
                 : "memory");
}

${mma.text(plan.dtype)}

${args.kernel_struct(plan.args)}

enum {
    STAGE = ${t.stage}, // ${t.rows} rows of x, then ${t.columns} of w, ${t.stride} bytes each
    W = ${t.rows * t.stride},
};

${emit.signature(plan)}
{
    extern __shared__ __align__(128) char shared[];
    const mla_u32 base = (mla_u32)__cvta_generic_to_shared(shared);
    const mla_u32 lane = threadIdx.x & 31u;
    const mla_u32 warp = threadIdx.x >> 5;
    ${include("frag/pdl.tpl", {pdl = plan.launch.pdl})}

    const mla_u32 rows = (mla_u32)a.tokens;
    const mla_u32 columns = (mla_u32)a.columns;
    const mla_u32 steps = ((mla_u32)a.depth + ${t.depth - 1}u) / ${t.depth}u;
    const mla_u32 row_tiles = (rows + ${t.rows - 1}u) / ${t.rows}u;
    const mla_u64 column_tiles = (columns + ${t.columns - 1}u) / ${t.columns}u;

    // The loader: ${t.lanes} lanes a row, ${t.pass} rows a pass; eight lanes fill all banks.
@ if t.lanes == 8 then
    const mla_u32 piece = lane & 7u;
    const mla_u32 row = 4u * warp + (lane >> 3);
@ else
    const mla_u32 piece = lane & 3u;
    const mla_u32 row = 8u * warp + (lane >> 3) + (lane & 4u);
@ end
    const mla_u32 load_to = base + row * ${t.stride}u + 16u * piece;
    // Rows of w are permuted inside every 32, so that a lane's sums are neighbours.
@ local fourth = t.pass < 32 and "1u" or "3u" -- a pass of 16 rows has only the first of a pair
    const mla_u32 in_tile = 8u * ((row >> 1) & 3u) + 2u * ((row >> 3) & ${fourth}) + (row & 1u);

    // Fragments: this warp's ${t.warp_tile} rows of x and of w.
    const mla_u32 warp_row = ${t.warp_tile}u * (warp >> 1);
    const mla_u32 warp_column = ${t.warp_tile}u * (warp & 1u);
    const mla_u32 x_from = base + (warp_row + (lane & 15u)) * ${t.stride}u + 16u * (lane >> 4);
    const mla_u32 w_from = base + W + (warp_column + 8u * (lane >> 4) + (lane & 7u)) * ${t.stride}u
                           + 16u * ((lane >> 3) & 1u);

#pragma unroll 1
    for (mla_u64 id = blockIdx.x; id < row_tiles * column_tiles; id += gridDim.x) {
        // Rows first: the tiles of a block, then the next columns.
        const mla_u32 block = (mla_u32)(id / (${t.block_tiles}u * column_tiles)) * ${t.block_tiles}u;
        const mla_u64 place = id % (${t.block_tiles}u * column_tiles);
        const mla_u32 tiles = min(${t.block_tiles}u, row_tiles - block);
        const mla_u32 first_row = (block + (mla_u32)(place % tiles)) * ${t.rows}u;
        const mla_u32 first_column = (mla_u32)(place / tiles) * ${t.columns}u;

        // Rows beyond the last one read that again.  A warp that has no others only loads.
        const bool busy = first_row + warp_row < rows;
@ for i = 0, passes - 1 do
@     local row = emit.at("first_row + row", 0, "", i * t.pass)
@     local column = emit.at("first_column + in_tile", 0, "", column_of(i * t.pass))
        const mla_i64 row${i} = min(${row}, rows - 1u);
        const mla_i64 column${i} = min(${column}, columns - 1u);
        const char *const x${i} = (const char *)a.x + row${i} * a.x_stride;
        const char *const w${i} = (const char *)a.w + column${i} * a.w_stride;
@ end

        // Copies the next stage, zeros beyond the depth; after the last one an empty group.
        mla_u32 load_step = 0;
        mla_u32 load_stage = 0;
        const auto load = [&]() {
            if (load_step < steps) {
                const mla_u32 k = load_step * ${t.depth}u + 8u * piece;
                const mla_u32 bytes = k < (mla_u32)a.depth ? 16u : 0u;
                const mla_u64 at = bytes ? 2ull * k : 0ull;
                const mla_u32 to = load_to + load_stage;
@ for i = 0, passes - 1 do
                copy16<${i * t.pass * t.stride}>(to, x${i} + at, bytes);
@ end
@ for i = 0, passes - 1 do
                copy16<W + ${i * t.pass * t.stride}>(to, w${i} + at, bytes);
@ end
                ++load_step;
                load_stage = load_stage == ${last_stage}u ? 0u : load_stage + STAGE;
            }
            copies_commit();
        };
        __syncthreads(); // the last tile's stages are read
#pragma unroll 1
        for (mla_i32 i = 0; i < ${t.stages - 1}; ++i)
            load();

        float4 c[${m_tiles}][${n_tiles}];
#pragma unroll
        for (mla_i32 i = 0; i < ${m_tiles * n_tiles}; ++i)
            c[i / ${n_tiles}][i % ${n_tiles}] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        mla_u32 stage = 0;
#pragma unroll 1
        for (mla_u32 step = 0; step < steps; ++step) {
            // The stage is full, and the one that is loaded next is free.
            copies_wait<${t.stages - 2}>();
            __syncthreads();
            load();
            if (busy) {
                const mla_u32 x_stage = x_from + stage;
                const mla_u32 w_stage = w_from + stage;
@ for k = 0, t.depth // 16 - 1 do
                {
                    const mla_v4 x[] = {${fragments("x_stage", k)}};
                    const mla_v4 w[] = {${fragments("w_stage", k)}};
#pragma unroll
                    for (mla_i32 i = 0; i < ${m_tiles * n_tiles}; ++i) {
                        const mla_v4 &u = x[i & 1];
                        const mla_v4 &v = w[i >> 2];
                        mma(c[i & 1][i >> 1], u.x, u.y, u.z, u.w, i & 2 ? v.z : v.x,
                            i & 2 ? v.w : v.y);
                    }
                }
@ end
            }
            stage = stage == ${last_stage}u ? 0u : stage + STAGE;
        }

        // Eight neighbouring columns per lane, of ${2 * m_tiles} rows.
        const mla_u32 at = first_column + warp_column + 8u * (lane & 3u);
        char *const to = (char *)a.y + 2ull * at;
#pragma unroll
        for (mla_i32 m = 0; m < ${m_tiles}; ++m) {
            const float4 *const r = c[m];
            const mla_u32 y = first_row + warp_row + 16u * m + (lane >> 2);
            const mla_v4 low = {pack2(r[0].x, r[0].y), pack2(r[1].x, r[1].y),
                                pack2(r[2].x, r[2].y), pack2(r[3].x, r[3].y)};
            const mla_v4 high = {pack2(r[0].z, r[0].w), pack2(r[1].z, r[1].w),
                                 pack2(r[2].z, r[2].w), pack2(r[3].z, r[3].w)};
            if (at < columns && y < rows)
                store16(to + (mla_i64)y * a.y_stride, low);
            if (at < columns && y + 8u < rows)
                store16(to + (mla_i64)(y + 8u) * a.y_stride, high);
        }
    }
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
