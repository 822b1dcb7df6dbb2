@ -- SPDX-License-Identifier: Apache-2.0
@ -- kv_append: norm, rotation and scatter of new tokens into the pool, some lanes per token.
@ -- Inputs: plan (plan/kv_append), spec, meta.
@ local args, cost, emit = use("lib/args"), use("lib/cost"), use("lib/emit")
@ local t, d = plan.tile, plan.dims
@ local style = spec.rope.style
@ local rotates = d.rope > 0 and style ~= "none"
@ local neox = rotates and style == "neox"
@ assert(32 % t.lanes == 0 and t.tokens_per_cta * t.lanes == emit.threads(plan))
@ assert(t.weight_vectors <= emit.threads(plan), "kv_append: one weight vector per thread")
@
@ -- The test of a lane's vector j of `count`, or "" where every lane has one.
@ local function guard(j, count, remainder)
@     return remainder > 0 and j == count - 1 and "lane < " .. remainder or ""
@ end
@ local function latent_guard(j)
@     return guard(j, t.chunks, t.remainder)
@ end
@ local function rope_guard(j)
@     return guard(j, t.rope_chunks, t.rope_remainder)
@ end
@ local purpose = "kv_append: " .. (rotates and "RMSNorm of the latent, RoPE (" .. style .. ") of "
@     .. "the key, both" or "RMSNorm of the latent, and the whole row") .. " written to its slot."
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/memory.tpl", {want = {load = true, load_stream = true, store = true}})}

${include("frag/convert.tpl", {dtype = plan.dtype, want = {unpack = true, pack = true}})}

@ if rotates then
${include("frag/rope.tpl", {style = style})}

@ end
// Adds the squares of eight values.
static __device__ __forceinline__ float add_squares(float sum, mla_v4 v)
{
@ for _, r in ipairs({"x", "y", "z", "w"}) do
    sum += lo_f32(v.${r}) * lo_f32(v.${r});
    sum += hi_f32(v.${r}) * hi_f32(v.${r});
@ end
    return sum;
}

// value * scale * weight for a pair, rounded once.
static __device__ __forceinline__ mla_u32 scale2(mla_u32 pair, mla_u32 weights, float scale)
{
    return pack2(lo_f32(pair) * scale * lo_f32(weights), hi_f32(pair) * scale * hi_f32(weights));
}

static __device__ __forceinline__ mla_v4 scale8(mla_v4 v, mla_v4 weights, float scale)
{
@ for _, r in ipairs({"x", "y", "z", "w"}) do
    v.${r} = scale2(v.${r}, weights.${r}, scale);
@ end
    return v;
}

${args.kernel_struct(plan.args)}

${emit.signature(plan)}
{
    __shared__ mla_v4 s_weight[${t.weight_vectors}];
    const mla_u32 lane = threadIdx.x % ${t.lanes}u;
    const mla_u32 token = blockIdx.x * ${t.tokens_per_cta}u + threadIdx.x / ${t.lanes}u;
    const mla_u32 column = lane * 16;
    const bool norm = a.norm_weight != 0;
    ${include("frag/pdl.tpl", {pdl = plan.launch.pdl})}

    // Everything that depends on nothing: weights, slot, ${rotates and "position, " or ""}latent${d.rope > 0 and ", rope" or ""}.
    mla_v4 weight = {0, 0, 0, 0};
    if (norm && threadIdx.x < ${t.weight_vectors})
        weight = load16((const char *)a.norm_weight + threadIdx.x * 16);
    mla_i64 slot = -1;
@ if rotates then
    mla_i64 position = 0;
@ end
@ for j = 0, t.chunks - 1 do
    mla_v4 latent${j} = {0, 0, 0, 0};
@ end
@ for j = 0, (d.rope > 0 and t.rope_chunks or 0) - 1 do
    mla_v4 rope${j} = {0, 0, 0, 0};
@     if neox then
    mla_v4 other${j} = {0, 0, 0, 0};
@     end
@ end
    if (token < (mla_u32)a.tokens) {
        slot = a.slots[token];
@ if rotates then
        position = a.positions[token];
@ end
        const char *latent = (const char *)a.latent + (mla_i64)token * a.latent_stride + column;
@ for j = 0, t.chunks - 1 do
@     local from = emit.at("latent", 0, "", j * t.lanes * 16)
@     if latent_guard(j) ~= "" then
        if (${latent_guard(j)})
            latent${j} = load_stream16(${from});
@     else
        latent${j} = load_stream16(${from});
@     end
@ end
@ if d.rope > 0 then
        const char *rope = (const char *)a.k_rope + (mla_i64)token * a.k_rope_stride + column;
@     for j = 0, t.rope_chunks - 1 do
@         local from = j * t.lanes * 16
@         local brace = rope_guard(j) ~= ""
@         if brace then
        if (${rope_guard(j)}) {
@         end
        ${brace and "    " or ""}rope${j} = load_stream16(${emit.at("rope", 0, "", from)});
@         if neox then
        ${brace and "    " or ""}other${j} = load_stream16(${emit.at("rope", 0, "", d.rope + from)});
@         end
@         if brace then
        }
@         end
@     end
@ end
    }
@ if rotates then

    // The angles of the position; a skipped token's position may be anything.
@     local parts = neox and {"cos_a", "cos_b", "sin_a", "sin_b"} or {"cos", "sin"}
@     local step = neox and 32 or 16
@     for j = 0, t.rope_chunks - 1 do
@         for _, part in ipairs(parts) do
    mla_v4 ${part}${j} = {0, 0, 0, 0};
@         end
@     end
    if (slot >= 0) {
        const char *angles = (const char *)a.cos_sin + position * a.cos_sin_stride + lane * ${step};
@     for j = 0, t.rope_chunks - 1 do
@         local test = rope_guard(j)
@         if test ~= "" then
        if (${test}) {
@         end
@         for i, part in ipairs(parts) do
@             local half = (i > #parts // 2) and d.rope * 2 or 0
@             local within = neox and (i - 1) % 2 * 16 or 0
@             local from = emit.at("angles", 0, "", half + j * t.lanes * step + within)
        ${test ~= "" and "    " or ""}${part}${j} = load16(${from});
@         end
@         if test ~= "" then
        }
@         end
@     end
    }
@ end

    // RMSNorm: every lane of a token gets the sum of its squares.
    if (norm) {
        if (threadIdx.x < ${t.weight_vectors})
            s_weight[threadIdx.x] = weight;
        __syncthreads();
        float sum = 0.0f;
@ for j = 0, t.chunks - 1 do
        sum = add_squares(sum, latent${j});
@ end
@ local mask = t.lanes // 2
@ while mask > 0 do
        sum += __shfl_xor_sync(0xffffffffu, sum, ${mask});
@     mask = mask // 2
@ end
        const float scale = rsqrtf(sum * ${f32(1.0 / d.latent)} + a.norm_eps);
@ for j = 0, t.chunks - 1 do
@     local weights = "s_weight[" .. emit.at("lane", 0, "", j * t.lanes) .. "]"
@     if latent_guard(j) ~= "" then
        if (${latent_guard(j)})
            latent${j} = scale8(latent${j}, ${weights}, scale);
@     else
        latent${j} = scale8(latent${j}, ${weights}, scale);
@     end
@ end
    }
    if (slot < 0)
        return;

    // The row of the slot.
@ local page, row = "slot >> " .. t.page_shift, "(slot & " .. plan.page_size - 1 .. ") * a.row_stride"
@ if t.page_shift == 0 then
@     page, row = "slot", ""
@ end
    char *out = (char *)a.kv_cache + (${page}) * a.page_stride + column;
@ if row ~= "" then
    out += ${row};
@ end
@ for j = 0, t.chunks - 1 do
@     local to = emit.at("out", 0, "", j * t.lanes * 16)
@     if latent_guard(j) ~= "" then
    if (${latent_guard(j)})
        store16(${to}, latent${j});
@     else
    store16(${to}, latent${j});
@     end
@ end
@ for j = 0, (d.rope > 0 and t.rope_chunks or 0) - 1 do
@     local test = rope_guard(j)
@     local pad = test ~= "" and "    " or ""
@     local to = d.latent * 2 + j * t.lanes * 16
@     if test ~= "" then
    if (${test}) {
@     end
@     if neox then
    ${pad}rotate16(rope${j}, other${j}, cos_a${j}, cos_b${j}, sin_a${j}, sin_b${j});
    ${pad}store16(out + ${to}, rope${j});
    ${pad}store16(out + ${to + d.rope}, other${j});
@     elseif rotates then
    ${pad}store16(out + ${to}, rotate8(rope${j}, cos${j}, sin${j}));
@     else
    ${pad}store16(out + ${to}, rope${j});
@     end
@     if test ~= "" then
    }
@     end
@ end
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
