@ -- SPDX-License-Identifier: Apache-2.0
@ -- kv_append: norm, rotation and scatter of new tokens into the pool, some lanes per token.
@ -- Inputs: plan (plan/kv_append), spec, meta.
@ local args, cost, emit = use("lib/args"), use("lib/cost"), use("lib/emit")
@ local t, d = plan.tile, plan.dims
@ local style = spec.rope.style
@ local rotates = d.rope > 0 and style ~= "none"
@ local neox = rotates and style == "neox"
@ -- How a lane's four pairs lie in a row: one vector, or 8 bytes of either half.
@ local rope_bytes = neox and 8 or 16
@ local rope_column = neox and "lane * 8" or "column"
@ local load_rope = neox and "load_pairs" or "load_stream16"
@ local store_rope = neox and "store_pairs" or "store16"
@ local factor = spec.derived.kv_lora_scale
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
@ local norm = factor == 1 and "RMSNorm of the latent, " or
@     string.format("RMSNorm of the latent times %.7g, ", factor)
@ local purpose = "kv_append: " .. norm .. (rotates and "RoPE (" .. style .. ") of "
@     .. "the key, both" or "and the whole row") .. " written to its slot."
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/memory.tpl", {want = {load = true, load_stream = true, store = true}})}

${include("frag/convert.tpl", {dtype = plan.dtype, want = {unpack = true, pack = true}})}

@ if rotates then
${include("frag/rope.tpl", {style = style, width = d.rope})}

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

@ if factor ~= 1 then
// value * scale for eight values, each rounded once.
static __device__ __forceinline__ mla_v4 times8(mla_v4 v, float scale)
{
@ for _, r in ipairs({"x", "y", "z", "w"}) do
    v.${r} = pack2(lo_f32(v.${r}) * scale, hi_f32(v.${r}) * scale);
@ end
    return v;
}

@ end
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
        const char *rope = (const char *)a.k_rope + (mla_i64)token * a.k_rope_stride + ${rope_column};
@     for j = 0, t.rope_chunks - 1 do
@         local from = emit.at("rope", 0, "", j * t.lanes * rope_bytes)
@         if rope_guard(j) ~= "" then
        if (${rope_guard(j)})
            rope${j} = ${load_rope}(${from});
@         else
        rope${j} = ${load_rope}(${from});
@         end
@     end
@ end
    }
@ if rotates then

    // The angles of the position; a skipped token's position may be anything.
@     for j = 0, t.rope_chunks - 1 do
    mla_v4 cos${j} = {0, 0, 0, 0};
    mla_v4 sin${j} = {0, 0, 0, 0};
@     end
    if (slot >= 0) {
        const char *angles = (const char *)a.cos_sin + position * a.cos_sin_stride + column;
@     for j = 0, t.rope_chunks - 1 do
@         local cosines = emit.at("angles", 0, "", j * t.lanes * 16)
@         local sines = emit.at("angles", 0, "", d.rope * 2 + j * t.lanes * 16)
@         if rope_guard(j) ~= "" then
        if (${rope_guard(j)}) {
            cos${j} = load16(${cosines});
            sin${j} = load16(${sines});
        }
@         else
        cos${j} = load16(${cosines});
        sin${j} = load16(${sines});
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
        const float scale = rsqrtf(sum * ${f32(1.0 / d.latent)} + a.norm_eps)${factor ~= 1 and " * " .. f32(factor) or ""};
@ for j = 0, t.chunks - 1 do
@     local weights = "s_weight[" .. emit.at("lane", 0, "", j * t.lanes) .. "]"
@     if latent_guard(j) ~= "" then
        if (${latent_guard(j)})
            latent${j} = scale8(latent${j}, ${weights}, scale);
@     else
        latent${j} = scale8(latent${j}, ${weights}, scale);
@     end
@ end
@ if factor ~= 1 then
    } else {
@     for j = 0, t.chunks - 1 do
        latent${j} = times8(latent${j}, ${f32(factor)});
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
@ if neox then
    out -= column - ${rope_column};
@ end
@ for j = 0, (d.rope > 0 and t.rope_chunks or 0) - 1 do
@     local to = emit.at("out", 0, "", d.latent * 2 + j * t.lanes * rope_bytes)
@     local value = rotates and "rotate8(rope" .. j .. ", cos" .. j .. ", sin" .. j .. ")"
@         or "rope" .. j
@     if rope_guard(j) ~= "" then
    if (${rope_guard(j)})
        ${store_rope}(${to}, ${value});
@     else
    ${store_rope}(${to}, ${value});
@     end
@ end
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
