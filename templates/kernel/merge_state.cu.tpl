@ -- SPDX-License-Identifier: Apache-2.0
@ -- merge_state: (O, LSE) + (O, LSE), some lanes per row.  Inputs: plan (plan/merge_state), spec,
@ -- meta.
@ local args, emit = use("lib/args"), use("lib/emit")
@ local t, H = plan.tile, plan.heads
@ assert(t.blocks * t.rows_per_cta == t.tokens_per_block * H, "merge_state: rows per block")
@ assert(t.rows_per_cta * t.lanes == emit.threads(plan))
@ local base, empty = tostring(spec.lse.base), tostring(spec.lse.empty)
@ assert(base == "e" or base == "2", "merge_state: lse.base")
@ assert(empty == "-inf" or empty == "+inf", "merge_state: lse.empty")
@ local empty_bits = empty == "-inf" and "0xff800000u" or "0x7f800000u"
@ local exp, log = base == "e" and "exp_e" or "exp_2", base == "e" and "log_e" or "log_2"
@
@ local function test(j)
@     return t.remainder > 0 and j == t.chunks - 1 and "lane < " .. t.remainder or ""
@ end
@ local purpose = "merge_state: (O, LSE) + (O, LSE) over disjoint keys, LSE to base " .. base ..
@     ", empty = " .. empty .. "; an empty side is never read."
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/memory.tpl", {want = {load_stream = true, store = true}})}

${include("frag/convert.tpl", {dtype = plan.dtype, want = {unpack = true, pack = true}})}

${include("frag/explog.tpl", {base = base})}

${include("frag/lse.tpl")}

// a * wa + b * wb for a pair, rounded once.
static __device__ __forceinline__ mla_u32 blend2(mla_u32 a, mla_u32 b, float wa, float wb)
{
    return pack2(lo_f32(a) * wa + lo_f32(b) * wb, hi_f32(a) * wa + hi_f32(b) * wb);
}

static __device__ __forceinline__ mla_v4 blend8(mla_v4 a, mla_v4 b, float wa, float wb)
{
@ for _, r in ipairs({"x", "y", "z", "w"}) do
    a.${r} = blend2(a.${r}, b.${r}, wa, wb);
@ end
    return a;
}

${args.kernel_struct(plan.args)}

${emit.signature(plan)}
{
    const mla_u32 lane = threadIdx.x % ${t.lanes}u;
    const mla_u32 column = lane * 16;
    const mla_u32 row = ${emit.mul("blockIdx.y", t.rows_per_cta)} + threadIdx.x / ${t.lanes}u;
    const mla_u32 token = ${emit.mul("blockIdx.x", t.tokens_per_block)} + row / ${H}u;
    const mla_u32 head = row % ${H}u;
    const bool live = token < (mla_u32)a.tokens;
    ${include("frag/pdl.tpl", {pdl = plan.launch.pdl})}

    // The LSE of both sides, then O of the sides that are not empty.
    const float empty = __uint_as_float(${empty_bits});
    float lse_a = empty;
    float lse_b = empty;
    if (live) {
        lse_a = *lse_at(a.lse_a, a.lse_a_token_stride, a.lse_a_head_stride, token, head);
        lse_b = *lse_at(a.lse_b, a.lse_b_token_stride, a.lse_b_head_stride, token, head);
    }
@ for _, side in ipairs({"a", "b"}) do
    const bool has_${side} = !is_empty(lse_${side});
@ end
@ for _, side in ipairs({"a", "b"}) do
@     for j = 0, t.chunks - 1 do
    mla_v4 ${side}${j} = {0, 0, 0, 0};
@     end
@ end
@ for _, side in ipairs({"a", "b"}) do
    if (has_${side}) {
        const char *from = (const char *)a.o_${side} + (mla_i64)token * a.o_${side}_token_stride
                           + (mla_i64)head * a.o_${side}_head_stride + column;
@     for j = 0, t.chunks - 1 do
@         local from = emit.at("from", 0, "", j * t.lanes * 16)
@         if test(j) ~= "" then
        if (${test(j)})
            ${side}${j} = load_stream16(${from});
@         else
        ${side}${j} = load_stream16(${from});
@         end
@     end
    }
@ end

    // All lanes of a row have read its LSE before lane 0 may overwrite it in place.
    __syncwarp();
    if (!live)
        return;
    float lse = has_a ? lse_a : has_b ? lse_b : empty;
    if (has_a && has_b) {
        const float top = fmaxf(lse_a, lse_b);
        const float part_a = ${exp}(lse_a - top);
        const float part_b = ${exp}(lse_b - top);
        const float total = part_a + part_b;
        const float wa = part_a / total;
        const float wb = part_b / total;
        lse = top + ${log}(total);
@ for j = 0, t.chunks - 1 do
        a${j} = blend8(a${j}, b${j}, wa, wb);
@ end
    } else if (has_b) {
@ for j = 0, t.chunks - 1 do
        a${j} = b${j};
@ end
    }

    // Stores; with both sides empty the row is still zero.
    char *out = (char *)a.o + (mla_i64)token * a.o_token_stride
                + (mla_i64)head * a.o_head_stride + column;
@ for j = 0, t.chunks - 1 do
@     local to = emit.at("out", 0, "", j * t.lanes * 16)
@     if test(j) ~= "" then
    if (${test(j)})
        store16(${to}, a${j});
@     else
    store16(${to}, a${j});
@     end
@ end
    if (lane == 0)
        *lse_at(a.lse, a.lse_token_stride, a.lse_head_stride, token, head) = lse;
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
