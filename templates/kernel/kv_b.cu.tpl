@ -- SPDX-License-Identifier: Apache-2.0
@ -- kv_b: k_nope and v of cached latents, a multistage tensor-core product.
@ -- Inputs: plan (plan/kv_b.lua), meta.
@ local args, emit = use("lib/args"), use("lib/emit")
@ local mma, column_of = use("frag/mma"), use("plan/kv_b").column
@ local t, d, load = plan.tile, plan.dims, plan.tile.loader
@ local m_tiles, n_tiles = t.warp_rows // 16, t.warp_columns // 8
@ assert(t.stride % 32 == 16, "kv_b: rows of an odd number of 16-byte units")
@ assert(t.steps * t.depth == t.k and t.n == plan.heads * t.head and t.head == d.nope + d.v)
@ assert(t.warp_columns % 32 == 0 and t.columns % load.pass == 0 and t.rows % load.pass == 0)
@ assert(load.lanes == 8 or load.lanes == 4 or load.lanes == 2)
@ local last_stage = (t.stages - 1) * t.stage
@ local some = load.pieces < load.lanes
@ -- Fragments of `count` times 16 rows at k-step `k` of a stage, two to a line.
@ local function fragments(from, count, k)
@     local list = {}
@     for i = 0, count - 1 do
@         list[i + 1] = string.format("matrices<%d>(%s)", 16 * i * t.stride + 32 * k, from)
@     end
@     return (table.concat(list, ", "):gsub("(, [^,]*), ", "%1,\n" .. string.rep(" ", 20)))
@ end
@ local purpose = "kv_b: latents expanded by kv_b_proj.  k_nope[t][h] and v[t][h] are the latent "
@     .. string.format("of token t times the first %d and the other %d rows of head h, ", d.nope, d.v)
@     .. "which are read where they lie."
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/memory.tpl", {want = {store = true}})}

${include("frag/convert.tpl", {dtype = plan.dtype, want = {pack = true}})}

${include("frag/cp_async.tpl")}

${mma.text(plan.dtype)}

${args.kernel_struct(plan.args)}

enum {
    STAGE = ${t.stage}, // ${t.rows} latents, then ${t.columns} rows of W, ${t.stride} bytes each
    W = ${t.rows * t.stride},
    COLUMNS = ${t.n}, // ${plan.heads} heads of ${d.nope} + ${d.v}
};

// Row `column` of kv_b_proj, the last one for those beyond.
static __device__ __forceinline__ const char *weights(const ${plan.args.struct} &a, mla_u32 column)
{
    const mla_u32 row = min(column, COLUMNS - 1u);
    return (const char *)a.kv_b + (mla_i64)(row / ${t.head}u) * a.kv_b_head_stride
           + (mla_i64)(row % ${t.head}u) * a.kv_b_row_stride;
}

// c += x * w, 16 of k; a fragment of w is two n-tiles.
static __device__ __forceinline__ void multiply(float4 (&c)[${m_tiles}][${n_tiles}],
                                                const mla_v4 (&x)[${m_tiles}],
                                                const mla_v4 (&w)[${n_tiles // 2}])
{
#pragma unroll
    for (mla_i32 n = 0; n < ${n_tiles // 2}; ++n) {
#pragma unroll
        for (mla_i32 m = 0; m < ${m_tiles}; ++m) {
            mma(c[m][2 * n], x[m].x, x[m].y, x[m].z, x[m].w, w[n].x, w[n].y);
            mma(c[m][2 * n + 1], x[m].x, x[m].y, x[m].z, x[m].w, w[n].z, w[n].w);
        }
    }
}

${emit.signature(plan)}
{
    extern __shared__ __align__(128) char shared[];
    const mla_u32 base = (mla_u32)__cvta_generic_to_shared(shared);
    const mla_u32 lane = threadIdx.x & 31u;
    const mla_u32 warp = threadIdx.x >> 5;
    ${include("frag/pdl.tpl", {pdl = plan.launch.pdl})}

    // Tokens first: the tiles of a block of latents, then the next columns.
    const mla_u32 tokens = (mla_u32)a.tokens;
    const mla_u32 token_tiles = (tokens + ${t.rows - 1}u) / ${t.rows}u;
    const mla_u32 id = blockIdx.y * gridDim.x + blockIdx.x;
    const mla_u32 block = id / ${t.block_tiles * t.groups}u * ${t.block_tiles}u;
    const mla_u32 place = id % ${t.block_tiles * t.groups}u;
    const mla_u32 tiles = min(${t.block_tiles}u, token_tiles - block);
    const mla_u32 first_token = (block + place % tiles) * ${t.rows}u;
    const mla_u32 first_column = place / tiles * ${t.walk * t.columns}u;
@ if t.walk == 1 then
    const mla_u32 end_column = first_column + ${t.columns}u;
@ else
    const mla_u32 end_column = min(first_column + ${t.walk * t.columns}u, (mla_u32)COLUMNS);
@ end

    // The loader: ${load.lanes} lanes a row, ${load.pass} rows a pass; eight lanes fill all banks.
@ if load.lanes == 8 then
    const mla_u32 piece = lane & 7u;
    const mla_u32 row = 4u * warp + (lane >> 3);
@ elseif load.lanes == 4 then
    const mla_u32 piece = lane & 3u;
    const mla_u32 row = 8u * warp + (lane >> 3) + (lane & 4u);
@ else
    const mla_u32 piece = lane & 1u;
    const mla_u32 row = 16u * warp + 8u * (lane >> 4) + ((lane >> 3) & 1u) + (lane & 6u);
@ end
    const mla_u32 load_to = base + row * ${t.stride}u + 16u * piece;
@ -- Row p of W's tile holds column(p); a pass adds a constant to both.
@ local j_mask = load.pass < 32 and "1u" or "3u"
@ local beyond_32 = load.pass > 32 and " + (row & ~31u)" or ""
    const mla_u32 in_tile = 8u * ((row >> 1) & 3u) + 2u * ((row >> 3) & ${j_mask})
                            + (row & 1u)${beyond_32};
    const char *x[${load.latent_passes}];
    const char *w[${load.weight_passes}];
@ for i = 0, load.latent_passes - 1 do
@     local token = emit.at("first_token + row", 0, "", i * load.pass)
    x[${i}] = (const char *)a.latent + 16u * piece
           + (mla_i64)min(${token}, tokens - 1) * a.latent_stride;
@ end

    // Copies the next stage; after the last one an empty group, so that waiting counts on.
    mla_u32 load_column = first_column;
    mla_i32 load_step = 0;
    mla_u32 load_stage = 0;
    const auto load = [&]() {
        if (load_column < end_column) {
            if (load_step == 0) {
@ for i = 0, load.weight_passes - 1 do
@     local at = emit.at("load_column + in_tile", 0, "", column_of(i * load.pass))
                w[${i}] = weights(a, ${at}) + 16u * piece;
@ end
            }
            const mla_u32 to = load_to + load_stage;
@ local pad = some and "    " or ""
@ if some then
            if (piece < ${load.pieces}u) {
@ end
@ for i = 0, load.latent_passes - 1 do
            ${pad}copy16<${i * load.pass * t.stride}>(to, x[${i}]);
@ end
@ for i = 0, load.weight_passes - 1 do
            ${pad}copy16<W + ${i * load.pass * t.stride}>(to, w[${i}]);
@ end
@ if some then
            }
@ end
#pragma unroll
            for (mla_i32 i = 0; i < ${load.weight_passes}; ++i)
                w[i] += ${2 * t.depth};
#pragma unroll
            for (mla_i32 i = 0; i < ${load.latent_passes}; ++i)
                x[i] += ${2 * t.depth};
            if (++load_step == ${t.steps}) { // the next column tile, the same latents
                load_step = 0;
                load_column += ${t.columns}u;
#pragma unroll
                for (mla_i32 i = 0; i < ${load.latent_passes}; ++i)
                    x[i] -= ${2 * t.k};
            }
            load_stage = load_stage == ${last_stage}u ? 0u : load_stage + STAGE;
        }
        copies_commit();
    };
#pragma unroll 1
    for (mla_i32 i = 0; i < ${t.stages - 1}; ++i)
        load();

    // Fragments: this warp's ${t.warp_rows} rows of latents, its ${t.warp_columns} rows of W.
    const mla_u32 warp_row = ${t.warp_rows}u * (warp / ${t.warps_n}u);
    const mla_u32 warp_column = ${t.warp_columns}u * (warp % ${t.warps_n}u);
    const bool busy = first_token + warp_row < tokens; // else it has no token, and only loads
    const mla_u32 x_from = base + (warp_row + (lane & 15u)) * ${t.stride}u + 16u * (lane >> 4);
    const mla_u32 w_from = base + W + (warp_column + 8u * (lane >> 4) + (lane & 7u)) * ${t.stride}u
                           + 16u * ((lane >> 3) & 1u);
    mla_u32 stage = 0;
#pragma unroll 1
    for (mla_u32 column = first_column; column < end_column; column += ${t.columns}u) {
        float4 c[${m_tiles}][${n_tiles}];
#pragma unroll
        for (mla_i32 i = 0; i < ${m_tiles * n_tiles}; ++i)
            c[i / ${n_tiles}][i % ${n_tiles}] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);

#pragma unroll 1
        for (mla_i32 step = 0; step < ${t.steps}; ++step) {
            // The stage is full, and the one that is loaded next is free.
            copies_wait<${t.stages - 2}>();
            __syncthreads();
            load();

            if (busy) {
                // ${t.depth} of k, in order.
                const mla_u32 x_stage = x_from + stage;
                const mla_u32 w_stage = w_from + stage;
@ for k = 0, t.depth // 16 - 1 do
                {
                    const mla_v4 x[] = {${fragments("x_stage", m_tiles, k)}};
                    const mla_v4 w[] = {${fragments("w_stage", n_tiles // 2, k)}};
                    multiply(c, x, w);
                }
@ end
            }
            stage = stage == ${last_stage}u ? 0u : stage + STAGE;
        }

        // Eight neighbouring columns per lane, of ${2 * m_tiles} tokens.
#pragma unroll
        for (mla_i32 i = 0; i < ${t.warp_columns // 32}; ++i) {
            const mla_u32 at = column + warp_column + 32u * i + 8u * (lane & 3u);
            const mla_u32 head = at / ${t.head}u;
            const mla_u32 in_head = at % ${t.head}u;
            const bool is_k = in_head < ${d.nope}u;
            const mla_i64 stride = is_k ? a.k_nope_token_stride : a.v_token_stride;
            char *to = is_k ? (char *)a.k_nope + head * a.k_nope_head_stride + 2u * in_head
                            : (char *)a.v + head * a.v_head_stride + 2u * (in_head - ${d.nope}u);
#pragma unroll
            for (mla_i32 m = 0; m < ${m_tiles}; ++m) {
                const float4 *const r = &c[m][4 * i];
                const mla_u32 token = first_token + warp_row + 16u * m + (lane >> 2);
                const mla_v4 low = {pack2(r[0].x, r[0].y), pack2(r[1].x, r[1].y),
                                    pack2(r[2].x, r[2].y), pack2(r[3].x, r[3].y)};
                const mla_v4 high = {pack2(r[0].z, r[0].w), pack2(r[1].z, r[1].w),
                                     pack2(r[2].z, r[2].w), pack2(r[3].z, r[3].w)};
                if (at < COLUMNS && token < tokens)
                    store16(to + (mla_i64)token * stride, low);
                if (at < COLUMNS && token + 8u < tokens)
                    store16(to + (mla_i64)(token + 8u) * stride, high);
            }
        }
    }
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
