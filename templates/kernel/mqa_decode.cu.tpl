@ -- SPDX-License-Identifier: Apache-2.0
@ -- mqa_decode: paged split-KV MQA over the latent.  Inputs: plan (plan/mqa_decode), spec, meta.
@ local args, emit, work = use("lib/args"), use("lib/emit"), use("lib/work_list")
@ local mma = use("frag/mma")
@ local t, d, H = plan.tile, plan.dims, plan.heads
@ assert(t.wk == 2 and t.m == 16 * t.wm and t.score_warps == t.wm * t.wn * t.wk, "mqa_decode: roles")
@ assert(t.warps == t.score_warps or t.wm == 1, "mqa_decode: helpers")
@ assert(t.n == 8 * t.score_tiles * t.wn and t.n % 16 == 0, "mqa_decode: keys")
@ assert(t.row_stride % 32 == 16 and t.p_stride % 32 == 16, "mqa_decode: odd rows of 16 bytes")
@ local fields = {}
@ for i, name in ipairs(work.ITEM) do
@     fields[name] = i - 1
@ end
@ local half = plan.dtype == "bf16" and "bf16" or "f16"
@ local single = t.score_tiles == 1
@ local uses = {two_matrices = single and t.k_steps % 2 + t.k_tail > 0, pairs = single, quads = not single}
@ local capacity = work.STATUS.item_capacity | work.STATUS.slot_capacity
@ local purpose = "mqa_decode: paged MQA over the latent for the items of decode_plan's list; tiles "
@     .. "of " .. t.m .. " rows and " .. t.n .. " keys."
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/convert.tpl", {dtype = plan.dtype, want = {pack = true, unpack = t.rounded}})}

${include("frag/decode_shared.tpl", {half = half, want = uses})}

${include("frag/explog.tpl", {base = "2"})}

${mma.text(plan.dtype)}

${args.kernel_struct(plan.args)}

${include("frag/decode_load.tpl", {t = t, page_size = plan.page_size, shift = use("lib/plan").log2(plan.page_size), struct = plan.args.struct})}

${include("frag/decode_refuse.tpl", {t = t, d = d, H = H, struct = plan.args.struct})}

// Where things are in shared memory, in bytes.
enum {
    PARTIALS = 0, // of S, ${t.score_tiles * 256} per warp, in fragment order
    STAGES = ${t.smem.stages}, // ${t.stages} of ${t.n} key rows of ${t.row_stride}
    STAGE = ${t.stage_bytes},
    WEIGHTS = ${t.smem.p}, // P, ${t.m} rows of ${t.p_stride}
    FACTOR = ${t.smem.row_factor}, // per row: of O in a redone tile, of O at the end
@ if t.wn > 1 then
    PARTS = ${t.smem.row_parts}, // per warp along keys and row: maximum and sum
@ end
};

// What a lane does.  Rare branches ask again instead of keeping it: the main loop is short of
// registers.
struct lane_role {
    mla_u32 warp, lane, g, quad; // lane = 4 g + quad
    mla_u32 wk, wn, wm; // the warp's part of dims, keys and rows of S
    mla_u32 row; // of S, that this lane's quad finishes
};
static __device__ __forceinline__ lane_role role()
{
    mla_u32 tid;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(tid));
    lane_role r;
    r.warp = tid >> 5;
    r.lane = tid & 31u;
    r.g = r.lane >> 2;
    r.quad = r.lane & 3u;
    r.wk = r.warp % 2u;
    r.wn = ${t.wn == 1 and "0u" or emit.mod("r.warp / 2u", t.wn)};
    r.wm = ${t.wm == 1 and "0u" or "r.warp / " .. 2 * t.wn .. "u"};
    r.row = 16u * r.wm + 8u * r.wk + r.g;
    return r;
}

${emit.signature(plan)}
{
    extern __shared__ __align__(128) char shared[];
    const mla_u32 base = (mla_u32)__cvta_generic_to_shared(shared);
    const lane_role me = role();

    // Addresses that stay: the loader's row and chunk, fragments of K, V and P, partial sums.
    const mla_u32 load_row = threadIdx.x >> 3;
    const mla_u32 load_chunk = threadIdx.x & 7u;
    const mla_u32 load_to = pinned(base + STAGES + load_row * ${t.row_stride}u + load_chunk * 16u);
@ if t.score_tiles > 1 then
    const mla_u32 k_row = ${t.wn > 1 and 8 * t.score_tiles .. "u * me.wn + " or ""}8u * (me.lane >> 4) + (me.lane & 7u);
    const mla_u32 k_from = pinned(base + STAGES + k_row * ${t.row_stride}u + 32u * me.wk
                                  + 16u * ((me.lane >> 3) & 1u));
@ else
    const mla_u32 k_row = 8u * me.wn + (me.lane & 7u);
    const mla_u32 k_from = pinned(base + STAGES + k_row * ${t.row_stride}u + 32u * me.wk
                                  + 64u * (me.lane >> 4) + 16u * ((me.lane >> 3) & 1u));
@ end
    const mla_u32 v_from = pinned(base + STAGES + (me.lane & 15u) * ${t.row_stride}u + 32u * me.warp
                                  + 16u * (me.lane >> 4));
    const mla_u32 p_from =
        pinned(base + WEIGHTS + (me.lane & 15u) * ${t.p_stride}u + 16u * (me.lane >> 4));
    const mla_u32 p_to = pinned(base + WEIGHTS + me.row * ${t.p_stride}u
                                + ${t.wn > 1 and 16 * t.score_tiles .. "u * me.wn + " or ""}4u * me.quad);
    const mla_u32 partial_from =
        pinned(base + PARTIALS + me.warp * ${t.score_tiles * 256}u + ${t.score_tiles > 1 and 16 or 8}u * me.lane);
    const float scale = a.softmax_scale * ${f32(1.4426950408889634)}; // exp(x) = 2^(x log2 e)

    // A work list that did not fit is answered with NaN everywhere, unit by unit.
    if (a.header[${work.index(work.HEADER, "status")}] & ${capacity}) {
        const mla_i32 row_tiles = (a.q_len * ${H} + ${t.m - 1}) / ${t.m};
        for (mla_i64 unit = blockIdx.x; unit < (mla_i64)a.batch * row_tiles; unit += gridDim.x)
            refuse_unit(a, (mla_i32)(unit / row_tiles), (mla_i32)(unit % row_tiles));
        return;
    }

#pragma unroll 1
    for (mla_i32 item = a.item_begin[blockIdx.x]; item < a.item_begin[blockIdx.x + 1]; ++item) {
        ${include("frag/decode_item.tpl", {t = t, H = H, item = fields, refused = work.REFUSED})}

        ${include("frag/decode_queries.tpl", {t = t, H = H})}

        // O, and per row of S the reference of its exponent (negated) and the sum of P.
@ for i = 0, t.m // 16 - 1 do
@     for c = 0, 2 * t.column_steps - 1 do
        float4 o${i}_${c} = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
@     end
@ end
        float reference = 1e30f;
        float row_sum = 0.0f;
@ if t.rounded then
        float rounded_sum = 0.0f;
@ end

        mla_u32 stage = 0;
#pragma unroll 1
        for (mla_u32 key = first_key; key < end_key; key += ${t.n}u) {
            ${include("frag/decode_next_tile.tpl", {t = t})}

@ if t.warps > t.score_warps then
            // The warps from ${t.score_warps} on have no part in S; they help with O.
@     for n = 0, t.score_tiles - 1 do
            float4 s${n} = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
@     end
            if (me.warp < ${t.score_warps}u) {
                ${include("frag/decode_scores.tpl", {t = t, declare = false})}
            }
@ else
            ${include("frag/decode_scores.tpl", {t = t, declare = true})}
@ end

            ${include("frag/decode_softmax.tpl", {t = t, H = H, half = half, item_field = fields})}

            ${include("frag/decode_values.tpl", {t = t})}
            stage = stage == ${(t.stages - 1) * t.stage_bytes}u ? 0u : stage + STAGE;
        }

        {
            ${include("frag/decode_output.tpl", {t = t, d = d, H = H, lse = spec.lse, slot = fields.slot, row_tile = fields.row_tile, request = fields.request})}
        }
    }
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
