@ -- SPDX-License-Identifier: Apache-2.0
@ -- merge_state of any number of sides, some lanes per row.  Inputs: plan (plan/merge_state_n),
@ -- spec, meta.
@ local args, emit = use("lib/args"), use("lib/emit")
@ local t, H = plan.tile, plan.heads
@ assert(t.blocks * t.rows_per_cta == t.tokens_per_block * H, "merge_state_n: rows per block")
@ assert(t.rows_per_cta * t.lanes == emit.threads(plan))
@ local base, empty = tostring(spec.lse.base), tostring(spec.lse.empty)
@ assert(base == "e" or base == "2", "merge_state_n: lse.base")
@ assert(empty == "-inf" or empty == "+inf", "merge_state_n: lse.empty")
@ local empty_bits = empty == "-inf" and "0xff800000u" or "0x7f800000u"
@ local exp, log = base == "e" and "exp_e" or "exp_2", base == "e" and "log_e" or "log_2"
@ -- The test of a lane's vector j, where not every lane has one.
@ local function some(j)
@     return t.remainder > 0 and j == t.chunks - 1 and "if (lane < " .. t.remainder .. ")" or ""
@ end
@ local purpose = "merge_state: any number of (O, LSE) over disjoint keys, LSE to base " .. base ..
@     ", empty = " .. empty .. "; an empty side is never read."
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/memory.tpl", {want = {load_stream = true, store = true}})}

${include("frag/convert.tpl", {dtype = plan.dtype, want = {unpack = true, pack = true}})}

${include("frag/explog.tpl", {base = base})}

${include("frag/lse.tpl")}

// sum += weight * eight values.
static __device__ __forceinline__ void add8(float (&sum)[8], mla_v4 v, float weight)
{
@ for i, r in ipairs({"x", "y", "z", "w"}) do
    sum[${2 * i - 2}] += lo_f32(v.${r}) * weight;
    sum[${2 * i - 1}] += hi_f32(v.${r}) * weight;
@ end
}

// sum / total, rounded once.
static __device__ __forceinline__ mla_v4 divide8(const float (&sum)[8], float total)
{
    const mla_v4 v = {pack2(sum[0] / total, sum[1] / total), pack2(sum[2] / total, sum[3] / total),
                      pack2(sum[4] / total, sum[5] / total), pack2(sum[6] / total, sum[7] / total)};
    return v;
}

${args.kernel_struct(plan.args)}

// This lane's vectors of a row.
struct row_part {
    mla_v4 v[${t.chunks}];
};

static __device__ __forceinline__ row_part zero_row()
{
    row_part r;
#pragma unroll
    for (mla_i32 j = 0; j < ${t.chunks}; ++j)
        r.v[j] = {0, 0, 0, 0};
    return r;
}

static __device__ __forceinline__ row_part load_row(const char *from, mla_u32 lane)
{
    row_part r = zero_row();
@ for j = 0, t.chunks - 1 do
@     local from = emit.at("from", 0, "", j * t.lanes * 16)
@     if some(j) ~= "" then
    ${some(j)}
        r.v[${j}] = load_stream16(${from});
@     else
    r.v[${j}] = load_stream16(${from});
@     end
@ end
    return r;
}

${emit.signature(plan)}
{
    const mla_u32 lane = threadIdx.x % ${t.lanes}u;
    const mla_u32 row = ${emit.mul("blockIdx.y", t.rows_per_cta)} + threadIdx.x / ${t.lanes}u;
    const mla_u32 token = ${emit.mul("blockIdx.x", t.tokens_per_block)} + row / ${H}u;
    const mla_u32 head = row % ${H}u;
    const bool live = token < (mla_u32)a.tokens;
    const mla_u32 ranks = live ? (mla_u32)a.ranks : 0u;
    ${include("frag/pdl.tpl", {pdl = plan.launch.pdl})}
    const char *const lses = (const char *)lse_at(a.lse_parts, a.lse_parts_token_stride,
                                                  a.lse_parts_head_stride, token, head);
    const char *const parts = (const char *)a.o_parts + (mla_i64)token * a.o_parts_token_stride
                              + (mla_i64)head * a.o_parts_head_stride + lane * 16;

    // The largest LSE and the number of sides that are not empty, one rank a lane.
    const float empty = __uint_as_float(${empty_bits});
    const float lowest = __uint_as_float(0xff7fffffu);
    float top = lowest;
    mla_u32 sides = 0;
#pragma unroll 1
    for (mla_u32 rank = lane; rank < ranks; rank += ${t.lanes}u) {
        const float lse = *(const float *)(lses + rank * a.lse_parts_rank_stride);
        if (!is_empty(lse)) {
            top = fmaxf(top, lse);
            ++sides;
        }
    }
    __syncwarp();
@ local mask = t.lanes // 2
@ while mask > 0 do
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, ${mask}));
    sides += __shfl_xor_sync(0xffffffffu, sides, ${mask});
@     mask = mask // 2
@ end

    // The sides in order, ${t.ahead} at a time; the last one of them as it is.
    float sum[${t.chunks}][8] = {};
    float total = 0.0f;
    row_part out = zero_row();
#pragma unroll 1
    for (mla_u32 rank = 0; rank < ranks; rank += ${t.ahead}u) {
@ for i = 0, t.ahead - 1 do
@     if i == 0 then
        const float lse${i} = *(const float *)(lses + rank * a.lse_parts_rank_stride);
@     else
        const float lse${i} = rank + ${i}u < ranks
                               ? *(const float *)(lses + (rank + ${i}u) * a.lse_parts_rank_stride)
                               : empty;
@     end
@ end
@ for i = 0, t.ahead - 1 do
@     local rank = i == 0 and "rank" or "(rank + " .. i .. "u)"
        row_part part${i} = zero_row();
        if (!is_empty(lse${i}))
            part${i} = load_row(parts + ${rank} * a.o_parts_rank_stride, lane);
@ end
@ for i = 0, t.ahead - 1 do
        if (!is_empty(lse${i})) {
            const float weight = ${exp}(lse${i} - top);
            total += weight;
#pragma unroll
            for (mla_i32 j = 0; j < ${t.chunks}; ++j)
                add8(sum[j], part${i}.v[j], weight);
            out = part${i};
        }
@ end
    }

    // All lanes of a row have read its LSEs before lane 0 may overwrite one in place.
    __syncwarp();
    if (!live)
        return;
    if (sides > 1) {
#pragma unroll
        for (mla_i32 j = 0; j < ${t.chunks}; ++j)
            out.v[j] = divide8(sum[j], total);
    }
    char *to = (char *)a.o + (mla_i64)token * a.o_token_stride + (mla_i64)head * a.o_head_stride
               + lane * 16;
@ for j = 0, t.chunks - 1 do
@     local to = emit.at("to", 0, "", j * t.lanes * 16)
@     local call = string.format("store16(%s, out.v[%d]);", to, j)
@     if some(j) ~= "" then
    ${some(j)}
        ${call}
@     else
    ${call}
@     end
@ end
    if (lane == 0) {
        const float lse = sides > 1 ? top + ${log}(total) : sides == 1 ? top : empty;
        *lse_at(a.lse, a.lse_token_stride, a.lse_head_stride, token, head) = lse;
    }
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
