@ -- SPDX-License-Identifier: Apache-2.0
@ -- rms_norm: the norm of the compressed query, a warp per row.
@ -- Inputs: plan (plan/rms_norm.lua), meta.
@ local args, emit = use("lib/args"), use("lib/emit")
@ local t = plan.tile
@ assert(t.rows * 32 == emit.threads(plan))
@ -- The condition before vector j of a lane, or "" where every lane has one.
@ local function guard(j)
@     local last = t.remainder > 0 and j == t.chunks - 1
@     return last and string.format("if (lane < %du)\n        ", t.remainder) or ""
@ end
@ local function at(name, j)
@     return emit.at(name, 0, "", j * 512)
@ end
${emit.head(plan, meta, "rms_norm: RMSNorm of rows of " .. t.width .. ", the compressed query, times a factor.")}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/memory.tpl", {want = {load = true, load_stream = true, store = true}})}

${include("frag/convert.tpl", {dtype = plan.dtype, want = {unpack = true, pack = true}})}

// Adds the squares of a pair.
static __device__ __forceinline__ float add_squares(float sum, mla_u32 pair)
{
    return sum + lo_f32(pair) * lo_f32(pair) + hi_f32(pair) * hi_f32(pair);
}

// value * scale * weight for a pair, rounded once.
static __device__ __forceinline__ mla_u32 scale2(mla_u32 pair, mla_u32 weights, float scale)
{
    return pack2(lo_f32(pair) * scale * lo_f32(weights), hi_f32(pair) * scale * hi_f32(weights));
}

static __device__ __forceinline__ mla_v4 scale8(mla_v4 v, mla_v4 weights, float scale)
{
    const mla_v4 y = {scale2(v.x, weights.x, scale), scale2(v.y, weights.y, scale),
                      scale2(v.z, weights.z, scale), scale2(v.w, weights.w, scale)};
    return y;
}

${args.kernel_struct(plan.args)}

${emit.signature(plan)}
{
    const mla_u32 lane = threadIdx.x & 31u;
    const mla_u32 row = blockIdx.x * ${t.rows}u + (threadIdx.x >> 5);
    ${include("frag/pdl.tpl", {pdl = plan.launch.pdl})}
    if (row >= (mla_u32)a.tokens)
        return;
    const char *const x = (const char *)a.x + (mla_i64)row * a.x_stride + 16u * lane;
    const char *const weight = (const char *)a.weight + 16u * lane;
    char *const y = (char *)a.y + (mla_i64)row * a.y_stride + 16u * lane;

    // The row, before anything is written: y may be x.
@ for j = 0, t.chunks - 1 do
    mla_v4 v${j} = {0, 0, 0, 0};
    ${guard(j)}v${j} = load_stream16(${at("x", j)});
@ end
    float sum = 0.0f;
@ for j = 0, t.chunks - 1 do
@     for _, r in ipairs({"x", "y", "z", "w"}) do
    sum = add_squares(sum, v${j}.${r});
@     end
@ end
@ local mask = 16
@ while mask > 0 do
    sum += __shfl_xor_sync(0xffffffffu, sum, ${mask});
@     mask = mask // 2
@ end
    const float scale = rsqrtf(sum * ${f32(1.0 / t.width)} + a.norm_eps) * a.factor;
@ for j = 0, t.chunks - 1 do
    ${guard(j)}store16(${at("y", j)}, scale8(v${j}, load16(${at("weight", j)}), scale));
@ end
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
