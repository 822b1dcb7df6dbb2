@ -- SPDX-License-Identifier: Apache-2.0
@ -- rope_q: queries of the Normal path rotated where they lie, four pairs per thread.
@ -- Inputs: plan (plan/rope_q.lua), spec, meta.
@ local args, emit = use("lib/args"), use("lib/emit")
@ local t, d = plan.tile, plan.dims
@ local neox = t.style == "neox"
@ local load, store = neox and "load_pairs" or "load16", neox and "store_pairs" or "store16"
@ assert(t.chunks * 8 == d.rope and t.heads >= 1)
@ local function angle(at)
@     return t.scaled and "times4(load16(" .. at .. "), factor)" or "load16(" .. at .. ")"
@ end
@ local purpose = "rope_q: RoPE (" .. t.style .. ") of the last " .. d.rope .. " columns of q, in place"
@     .. (t.scaled and "; rows are multiplied by a factor that grows with the position." or ".")
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/memory.tpl", {want = {load = true, store = t.scaled or not neox}})}

${include("frag/convert.tpl", {dtype = plan.dtype, want = {unpack = true, pack = true}})}

${include("frag/rope.tpl", {style = t.style, width = d.rope})}
@ if t.scaled then

${include("frag/position_factor.tpl", {scale = spec.q_position_scale})}

// A pair times a factor, rounded once.
static __device__ __forceinline__ mla_u32 times2(mla_u32 pair, float factor)
{
    return pack2(lo_f32(pair) * factor, hi_f32(pair) * factor);
}
@ end

${args.kernel_struct(plan.args)}

${emit.signature(plan)}
{
    const mla_u32 part = threadIdx.x % ${t.chunks}u;
    ${include("frag/pdl.tpl", {pdl = plan.launch.pdl})}
@ if t.heads * t.chunks < emit.threads(plan) then
    if (threadIdx.x >= ${t.heads * t.chunks}u)
        return;
@ end
    const mla_i64 position = a.positions[blockIdx.x];
    const char *const angles = (const char *)a.cos_sin + position * a.cos_sin_stride + 16u * part;
@ if t.scaled then
    const float factor = position_factor(position);
@ end
    const mla_v4 cosines = ${angle("angles")};
    const mla_v4 sines = ${angle("angles + " .. 2 * d.rope)};
    char *const token = (char *)a.q + (mla_i64)blockIdx.x * a.q_token_stride;
    const mla_u32 first = blockIdx.y * ${t.heads}u + threadIdx.x / ${t.chunks}u;
#pragma unroll 1
    for (mla_u32 head = first; head < (mla_u32)a.heads; head += gridDim.y * ${t.heads}u) {
        char *const row = token + (mla_i64)head * a.q_head_stride;
@ if t.scaled then
#pragma unroll 1
        for (mla_u32 i = part; i < ${d.nope // 8}u; i += ${t.chunks}u) {
            const mla_v4 v = load16(row + 16u * i);
            const mla_v4 y = {times2(v.x, factor), times2(v.y, factor), times2(v.z, factor),
                              times2(v.w, factor)};
            store16(row + 16u * i, y);
        }
@ end
        char *const rope = row + ${2 * d.nope}u + ${neox and 8 or 16}u * part;
        ${store}(rope, rotate8(${load}(rope), cosines, sines));
    }
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
