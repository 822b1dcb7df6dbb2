@ -- SPDX-License-Identifier: Apache-2.0
@ -- mqa_combine: one warp per row merges its unit's slots.  Inputs: plan (plan/mqa_combine), spec,
@ -- meta.
@ local args, emit, work = use("lib/args"), use("lib/emit"), use("lib/work_list")
@ local t, d, H = plan.tile, plan.dims, plan.heads
@ local groups = (H + t.warps - 1) // t.warps
@ assert(spec.lse.base == "e" or spec.lse.base == "2", "mqa_combine: lse.base")
@ local empty = spec.lse.empty == "-inf" and "0xff800000u" or "0x7f800000u"
@ local scale = spec.lse.base == "2" and f32(1 / math.log(2)) or nil
@ -- The test of lanes that take part in chunk c, or "".
@ local function test(c)
@     return (t.remainder > 0 and c == t.chunks - 1) and "lane < " .. t.remainder .. "u" or ""
@ end
@ local purpose = "mqa_combine: merges the partial results of the units that decode_plan split, by "
@     .. "their LSE."
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/convert.tpl", {dtype = plan.dtype, want = {pack = true}})}

${args.kernel_struct(plan.args)}

static __device__ __forceinline__ float negative_infinity()
{
    return __uint_as_float(0xff800000u);
}

${emit.signature(plan)}
{
    const mla_u32 lane = threadIdx.x & 31u;
    const mla_u32 warp = threadIdx.x >> 5;
    ${include("frag/pdl.tpl", {pdl = plan.launch.pdl})}

    // Row (request, token, head), its unit and its place in the unit's tile.
    const mla_u32 head = ${groups == 1 and "warp" or "blockIdx.x % " .. groups .. "u * " .. t.warps .. "u + warp"};
@ if H % t.warps ~= 0 then
    if (head >= ${H}u)
        return;
@ end
    const mla_u32 token_row = ${emit.div("blockIdx.x", groups)};
    const mla_u32 request = token_row / (mla_u32)a.q_len;
    const mla_u32 token = token_row % (mla_u32)a.q_len;
    const mla_u32 row = token * ${H}u + head;
    const mla_u32 rows = (mla_u32)a.rows_per_tile;
    const mla_u32 row_tiles = ((mla_u32)a.q_len * ${H}u + rows - 1u) / rows;
    const mla_i64 unit = (mla_i64)request * row_tiles + row / rows;
    const mla_i32 first = a.unit_slots[unit];
    const mla_i32 end = a.unit_slots[unit + 1];
    if (first == end || (a.header[${work.index(work.HEADER, "status")}] & ${work.STATUS.item_capacity | work.STATUS.slot_capacity}))
        return;

    // LSE of all slots: a running maximum and a sum, first per lane, then over the warp.
    const float *lses = a.partial_lse + (row % rows);
    float m = negative_infinity();
    for (mla_i32 k = first + (mla_i32)lane; k < end; k += 32)
        m = fmaxf(m, lses[(mla_i64)k * rows]);
    for (mla_u32 d = 16; d > 0; d /= 2)
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
    const bool empty = m == negative_infinity();
    float sum = 0.0f;
    if (!empty) {
        for (mla_i32 k = first + (mla_i32)lane; k < end; k += 32)
            sum += __expf(lses[(mla_i64)k * rows] - m);
        for (mla_u32 d = 16; d > 0; d /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, d);
    }

    // O: the slots in order; one without keys is not read.
@ for c = 0, t.chunks - 1 do
    float4 o${c} = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
@ end
    const float inverse = empty ? 0.0f : 1.0f / sum;
    const float *column = a.partial_o + (mla_i64)(row % rows) * ${d.latent} + 4u * lane;
    for (mla_i32 base = first; base < end && !empty; base += 32) {
        const mla_i32 k = base + (mla_i32)lane;
        const float mine = k < end ? __expf(lses[(mla_i64)k * rows] - m) * inverse : 0.0f;
        const mla_i32 count = end - base < 32 ? end - base : 32;
        for (mla_i32 j = 0; j < count; ++j) {
            const float w = __shfl_sync(0xffffffffu, mine, j);
            if (w == 0.0f)
                continue;
            const float *from = column + (mla_i64)(base + j) * rows * ${d.latent};
@ for c = 0, t.chunks - 1 do
@     local guard = test(c)
@     if guard ~= "" then
            if (${guard}) {
                const float4 v${c} = *(const float4 *)(${emit.at("from", 0, "", c * 128)});
                o${c}.x += w * v${c}.x;
                o${c}.y += w * v${c}.y;
                o${c}.z += w * v${c}.z;
                o${c}.w += w * v${c}.w;
            }
@     else
            const float4 v${c} = *(const float4 *)(${emit.at("from", 0, "", c * 128)});
            o${c}.x += w * v${c}.x;
            o${c}.y += w * v${c}.y;
            o${c}.z += w * v${c}.z;
            o${c}.w += w * v${c}.w;
@     end
@ end
        }
    }

    // Results, rounded once.
    char *out = (char *)a.out + request * a.out_batch_stride + token * a.out_token_stride
                + head * a.out_head_stride + 8u * lane;
@ for c = 0, t.chunks - 1 do
@     local guard = test(c)
@     local indent = guard ~= "" and "    " or ""
@     if guard ~= "" then
    if (${guard})
@     end
    ${indent}*(uint2 *)(${emit.at("out", 0, "", c * 256)}) = make_uint2(pack2(o${c}.x, o${c}.y), pack2(o${c}.z, o${c}.w));
@ end
    if (a.lse && lane == 0u) {
        char *to = (char *)a.lse + request * a.lse_batch_stride + token * a.lse_token_stride
                   + head * a.lse_head_stride;
@ if scale then
        const float total = (m + __logf(sum)) * ${scale};
@ else
        const float total = m + __logf(sum);
@ end
        *(float *)to = empty ? __uint_as_float(${empty}) : total;
    }
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
