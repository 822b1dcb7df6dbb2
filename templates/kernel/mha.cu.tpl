@ -- SPDX-License-Identifier: Apache-2.0
@ -- mha: varlen multi-head attention.  Inputs: plan (plan/mha), spec, meta.
@ local args, emit = use("lib/args"), use("lib/emit")
@ local mma = use("frag/mma")
@ local t, d, H = plan.tile, plan.dims, plan.heads
@ assert(t.m == 16 * t.mt * t.warps and t.threads == 32 * t.warps, "mha: rows")
@ assert(t.n % 16 == 0 and t.columns % 16 == 0, "mha: fragments")
@ assert(t.k_stride % 32 == 16 and t.v_stride % 32 == 16, "mha: odd rows of 16 bytes")
@ local double, held = t.stages == 2, t.queries == "registers"
@ local purpose = "mha: softmax(scale * Q K^T) V of every request and head, K as "
@     .. (plan.variant == "concat" and "one tensor" or d.rope > 0 and "k_nope and the heads' k_rope" or "k_nope")
@     .. ", O in " .. plan.dtype .. ", LSE in fp32."
@ -- Copies K of a tile, and V where they go together, into the buffers at byte `to`.
@ local function copy_first(left, to)
@     return string.format("copy_%s(a, rows, %s, %s);", double and "tile" or "keys", to, left)
@ end
@ local loaders = {}
@ for _, l in ipairs(t.load.keys) do
@     loaders[#loaders + 1] = l
@ end
@ loaders[#loaders + 1] = t.load.v
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/memory.tpl", {want = {store = true}})}

${include("frag/convert.tpl", {dtype = plan.dtype, want = {pack = true}})}

${include("frag/mha_shared.tpl", {half = plan.dtype == "bf16" and "bf16" or "f16", steps = t.roomy == 1, fresh = t.unrolled == t.steps})}

${include("frag/explog.tpl", {base = "2"})}

${mma.text(plan.dtype)}

// A score of key KEY becomes -inf unless its row sees more keys than that.  Opaque, because a
// compiler that knows how these conditions imply each other makes a tree of branches of them.
template <int KEY>
static __device__ __forceinline__ void hide(float &score, mla_i32 sees)
{
    asm("{\n\t.reg .pred p;\n\t"
        "setp.gt.s32 p, %1, %2;\n\t"
        "selp.f32 %0, %0, 0fFF800000, p;\n\t}"
        : "+f"(score)
        : "r"(sees), "n"(KEY));
}

// The same for a lane's four scores of keys KEY and KEY + 1.
template <int KEY>
static __device__ __forceinline__ void hide_beyond(float4 &s, mla_i32 upper, mla_i32 lower)
{
    hide<KEY>(s.x, upper);
    hide<KEY + 1>(s.y, upper);
    hide<KEY>(s.z, lower);
    hide<KEY + 1>(s.w, lower);
}

// The upper or the lower row of a fragment of O, times a factor.
static __device__ __forceinline__ void scale_upper(float4 &o, float factor)
{
    o.x *= factor;
    o.y *= factor;
}

static __device__ __forceinline__ void scale_lower(float4 &o, float factor)
{
    o.z *= factor;
    o.w *= factor;
}

// exp of two neighbouring scores, rounded to a pair, and added to `sum` or the first of it.
template <bool FIRST>
static __device__ __forceinline__ mla_u32 weights(float s0, float s1, float scale, float reference,
                                                  float &sum)
{
    const float p0 = exp_2(fmaf(s0, scale, reference));
    const float p1 = exp_2(fmaf(s1, scale, reference));
    sum = FIRST ? p0 : sum + p0;
    sum += p1;
    return pack2(p0, p1);
}

${args.kernel_struct(plan.args)}

${include("frag/mha_load.tpl", {load = t.load, together = double, steps = t.roomy == 1, struct = plan.args.struct})}

// Where things are in shared memory, in bytes.
enum {
@ if double then
    STAGE = ${t.smem.stage}, // two: ${t.n} rows of K, ${t.k_stride} each, and of V, ${t.v_stride} each
@ end
    VALUES = ${t.smem.v},
    QUERIES = ${t.smem.q}, // ${t.m} rows of ${t.k_stride}${held and ", passing through" or ""}
};

${emit.signature(plan)}
{
    extern __shared__ __align__(128) char shared[];
    const mla_u32 base = (mla_u32)__cvta_generic_to_shared(shared);
    const mla_u32 warp = threadIdx.x >> 5;
    const mla_u32 lane = threadIdx.x & 31u;
    const mla_u32 g = lane >> 2; // lane = 4 g + quad
    const mla_u32 quad = lane & 3u;

    // What stays: the loader's places and steps, and the lane's rows of K, V and Q fragments.
    key_rows rows;
@ for _, l in ipairs(loaders) do
@     local origin = l.name == "v" and "base + VALUES" or l.to == 0 and "base" or "base + " .. l.to .. "u"
@     if not l.beside then
    rows.to_${l.name} = pinned(${origin} + threadIdx.x / ${l.lanes}u * ${l.row_stride}u
                               + threadIdx.x % ${l.lanes}u * 16u);
@     end
@     if t.roomy == 1 then
    rows.step_${l.name} = pinned_wide(${math.min(l.rows, l.count)} * a.${l.name}_token_stride);
@     end
@ end
    const mla_u32 k_from =
        pinned(base + (8u * (lane >> 4) + (lane & 7u)) * ${t.k_stride}u + 16u * ((lane >> 3) & 1u));
    const mla_u32 v_from =
        pinned(base + VALUES + (lane & 15u) * ${t.v_stride}u + 16u * (lane >> 4));
    // exp(x) = 2^(x log2 e)
@ local scale = "a.softmax_scale * " .. f32(1.4426950408889634)
    const float scale = ${t.roomy == 1 and "hidden(" .. scale .. ")" or scale};
@ if t.column_chunks > 1 then
    const mla_i64 head = blockIdx.y / ${t.column_chunks}u;
    const mla_i32 first_column = (mla_i32)(blockIdx.y % ${t.column_chunks}u) * ${t.columns}; // of V
@     if t.column_chunks * t.columns > d.v then
    const mla_i32 column = first_column < ${d.v - t.columns} ? first_column : ${d.v - t.columns};
@     else
    const mla_i32 column = first_column;
@     end
@ else
    const mla_i64 head = blockIdx.y;
@ end
    // In a causal request the last rows see most: they start first.
    const mla_i32 first_row = (mla_i32)(gridDim.x - 1u - blockIdx.x) * ${t.m};
    const mla_i32 warp_row = first_row + (mla_i32)warp * ${16 * t.mt};
    ${include("frag/pdl.tpl", {pdl = plan.launch.pdl})}

#pragma unroll 1
    for (mla_u32 request = blockIdx.z; request < (mla_u32)a.batch; request += gridDim.z) {
        const mla_i64 q_begin = a.cu_q[request];
        const mla_i32 q_len = a.cu_q[request + 1u] - (mla_i32)q_begin;
        if (first_row >= q_len)
            continue;
        const mla_i64 k_begin = a.cu_k[request];
        const mla_i32 k_len = a.cu_k[request + 1u] - (mla_i32)k_begin;

        // Row i sees the keys below seen + i, or all; end_key: keys that some row here sees,
        // warp_end: some row of this warp, and from left < masked_below on not every row.
        const mla_i32 seen = k_len - q_len + 1;
        const mla_i32 block_rows = q_len - first_row < ${t.m} ? q_len - first_row : ${t.m};
        const mla_i32 warp_rows = q_len - warp_row < ${16 * t.mt} ? q_len - warp_row : ${16 * t.mt};
        const mla_i32 end_key = a.causal ? seen + first_row + block_rows - 1 : k_len;
        const mla_i32 warp_end = warp_rows <= 0 ? 0
                                 : a.causal     ? seen + warp_row + warp_rows - 1
                                                : k_len;
        const mla_i32 warp_sees = (a.causal ? seen + warp_row : k_len) - end_key; // its first row
        const mla_i32 beyond = pinned(end_key - warp_end); // keys at the end that no row of it sees
        const mla_i32 masked_below = pinned(${t.n} - warp_sees);
        const mla_i32 lane_sees =
            pinned(warp_sees + (a.causal ? (mla_i32)g : 0) - 2 * (mla_i32)quad);

        // Rows of this thread.
@ for _, l in ipairs(loaders) do
@     local column = l.name == "v" and t.column_chunks > 1 and " + 2 * column" or ""
        rows.from_${l.name} = (const char *)a.${l.name}
                              + (k_begin + threadIdx.x / ${l.lanes}u) * a.${l.name}_token_stride
                              + threadIdx.x % ${l.lanes}u * 16u${column};
@     if l.name ~= "k_rope" then
        rows.from_${l.name} += head * a.${l.name}_head_stride;
@     end
@ end
        const char *q = (const char *)a.q + (q_begin + first_row) * a.q_token_stride
                        + head * a.q_head_stride;
        copy_q(base + QUERIES, q, a.q_token_stride, block_rows);
@ if held then
        copies_commit();
@ end
@ if t.smem.early then
        if (end_key > 0) {
            ${copy_first("end_key", "0u")}
        }
        copies_commit();
@ end
        const mla_u32 me = thread_index();
        const mla_u32 q_from = pinned(base + QUERIES + (${16 * t.mt}u * (me >> 5) + (me & 15u)) * ${t.k_stride}u
                                      + 16u * (me >> 4 & 1u));
@ if held then
        copies_wait<${t.smem.early and 1 or 0}>();
        __syncthreads();
@     for j = 0, t.steps - 1 do
@         for i = 0, t.mt - 1 do
        const mla_v4 q${i}_${j} = matrices<${i * 16 * t.k_stride + 32 * j}>(q_from);
@         end
@     end
@     if not t.smem.early then
        __syncthreads();
        if (end_key > 0) {
            ${copy_first("end_key", "0u")}
        }
        copies_commit();
@     end
@ end

        // O, and per row the reference of its exponents (negated) and the sum of P.
@ for i = 0, t.mt - 1 do
@     for c = 0, t.columns // 8 - 1 do
        float4 o${i}_${c} = zeros();
@     end
@ end
@ for r = 0, 2 * t.mt - 1 do
        float reference${r} = __uint_as_float(0x7fffffffu); // none yet
        float row_sum${r} = 0.0f;
@ end
@ if double then
        mla_u32 stage = 0;
@ end

        // `left` keys are left, this tile's included.
#pragma unroll 1
        for (mla_i32 left = end_key; left > 0; left -= ${t.n}) {
@ -- Declares S, eight fragments a line.
@ local function scores_declared()
@     local lines = {}
@     for i = 0, t.mt - 1 do
@         for n = 0, t.n // 8 - 1 do
@             lines[#lines + 1] = (n == 0 and "float4 " or "") .. string.format("s%d_%d", i, n)
@         end
@     end
@     local text = table.concat(lines, ", ")
@     return string.gsub(text, ", float4", ";\nfloat4") .. ";"
@ end
@ if double then
            // This tile is there, and the one before it done with: its stage takes the next one.
            copies_wait<0>();
            __syncthreads();
            if (left > ${t.n}) {
                ${copy_first("left - " .. t.n, "STAGE - stage")}
            }
            copies_commit();
            if (left > beyond) {
                ${scores_declared()}
                ${include("frag/mha_scores.tpl", {t = t})}

                ${include("frag/mha_softmax.tpl", {t = t, dtype = plan.dtype})}

                ${include("frag/mha_values.tpl", {t = t})}
            }
            stage = STAGE - stage;
@ else
            // K is there, and V of the tile before is done with.
            copies_wait<0>();
            __syncthreads();
            copy_values(a, rows, 0u, left);
            copies_commit();
            ${scores_declared()}
            if (left > beyond) {
                ${include("frag/mha_scores.tpl", {t = t})}
            }

            // V is there, and K done with.
            copies_wait<0>();
            __syncthreads();
            if (left > ${t.n}) {
                ${copy_first("left - " .. t.n, "0u")}
            }
            copies_commit();
            if (left > beyond) {
                ${include("frag/mha_softmax.tpl", {t = t, dtype = plan.dtype})}

                ${include("frag/mha_values.tpl", {t = t})}
            }
@ end
        }

        {
            ${include("frag/mha_output.tpl", {t = t, lse = spec.lse, width = d.v})}
        }
        __syncthreads(); // before the next request's copies
    }
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
