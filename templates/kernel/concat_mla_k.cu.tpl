@ -- SPDX-License-Identifier: Apache-2.0
@ -- concat_mla_k: one warp copies a run of heads of one token.  Inputs: plan (plan/concat_mla_k),
@ -- meta.
@ local args, cost, emit = use("lib/args"), use("lib/cost"), use("lib/emit")
@ local t, d, H = plan.tile, plan.dims, plan.heads
@ assert(d.nope > 0 and d.rope > 0, "concat_mla_k: both parts must exist")
@ assert(t.lanes * t.heads_per_step == 32 and t.rope_lanes * t.rope_heads_per_step == 32)
@ assert(t.groups * t.heads_per_warp >= H)
@
@ -- May an access that starts at head `first` of a run pass head H in the last run?
@ local last_run = (t.groups - 1) * t.heads_per_warp
@ local function passes(first, count)
@     return last_run + first + count > H
@ end
@
@ -- The test that keeps a rope store inside its warp's run, and inside H.
@ local function rope_guard(first)
@     local tests = {}
@     local count = math.min(t.rope_heads_per_step, t.heads_per_warp - first)
@     if count < t.rope_heads_per_step then
@         tests[1] = emit.div("lane", t.rope_lanes) .. " < " .. count
@     end
@     if passes(first, count) then
@         tests[#tests + 1] = emit.at("rope_head", 0, "", first) .. " < " .. H
@     end
@     return table.concat(tests, " && ")
@ end
@
@ local function nope_name(j, c)
@     return t.chunks == 1 and "nope" .. j or "nope" .. j .. "_" .. c
@ end
@ local function rope_name(c)
@     return t.rope_chunks == 1 and "rope0" or "rope0_" .. c
@ end
@ local copies = cost.plural(t.rope_heads_per_step, "copy"):gsub("copys", "copies")
@ local purpose = "concat_mla_k: K = [k_nope | k_rope] for every head; the heads of a token share "
@     .. "its k_rope row."
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/memory.tpl", {want = {load_stream = true, store = true}})}

${args.kernel_struct(plan.args)}

${emit.signature(plan)}
{
    const mla_u32 lane = threadIdx.x & 31u;
    const mla_u32 warp = threadIdx.x >> 5;
    const mla_u32 token = ${emit.mul("blockIdx.x", t.tokens_per_cta)} + ${emit.div("warp", t.groups_per_cta)};
    const mla_u32 run = ${emit.mul("blockIdx.y", t.groups_per_cta)} + ${emit.mod("warp", t.groups_per_cta)};
    if (token >= (mla_u32)a.tokens)
        return;
    const mla_u32 first_head = ${emit.mul("run", t.heads_per_warp)};
    const mla_u32 head = first_head + ${emit.div("lane", t.lanes)};
    const mla_u32 rope_head = first_head + ${emit.div("lane", t.rope_lanes)};
    const mla_u32 column = (${emit.mod("lane", t.lanes)}) * 16u;
    const mla_u32 rope_column = (${emit.mod("lane", t.rope_lanes)}) * 16u;
    ${include("frag/pdl.tpl", {pdl = plan.launch.pdl})}

    // Loads: ${cost.plural(t.heads_per_step, "head")} per access, and ${copies} of the rope row side by side.
    const char *nope = (const char *)a.k_nope + (mla_i64)token * a.k_nope_token_stride
                       + (mla_i64)head * a.k_nope_head_stride + column;
    const char *rope = (const char *)a.k_rope + (mla_i64)token * a.k_rope_stride + rope_column;
@ if t.steps > 1 then
    const mla_i64 nope_step = ${t.heads_per_step} * a.k_nope_head_stride;
@ end
@ for c = 0, t.rope_chunks - 1 do
    const mla_v4 ${rope_name(c)} = load_stream16(${emit.at("rope", 0, "", c * t.rope_lanes * 16)});
@ end
@ for j = 0, t.steps - 1 do
@     local guarded = passes(j * t.heads_per_step, t.heads_per_step)
@     if guarded then
    const bool live${j} = ${emit.at("head", 0, "", j * t.heads_per_step)} < ${H};
@     end
@     for c = 0, t.chunks - 1 do
@         local from = emit.at("nope", j, "nope_step", c * t.lanes * 16)
@         if guarded then
    mla_v4 ${nope_name(j, c)} = {0, 0, 0, 0};
    if (live${j})
        ${nope_name(j, c)} = load_stream16(${from});
@         else
    const mla_v4 ${nope_name(j, c)} = load_stream16(${from});
@         end
@     end
@ end

    // Stores: the nope columns of each head, then its rope columns.
    char *row = (char *)a.k + (mla_i64)token * a.k_token_stride;
    char *out = row + (mla_i64)head * a.k_head_stride + column;
@ if t.steps > 1 then
    const mla_i64 out_step = ${t.heads_per_step} * a.k_head_stride;
@ end
@ for j = 0, t.steps - 1 do
@     for c = 0, t.chunks - 1 do
@         if passes(j * t.heads_per_step, t.heads_per_step) then
    if (live${j})
        store16(${emit.at("out", j, "out_step", c * t.lanes * 16)}, ${nope_name(j, c)});
@         else
    store16(${emit.at("out", j, "out_step", c * t.lanes * 16)}, ${nope_name(j, c)});
@         end
@     end
@ end
    out = row + (mla_i64)rope_head * a.k_head_stride + ${d.nope * 2} + rope_column;
@ if t.rope_steps > 1 then
    const mla_i64 rope_step = ${t.rope_heads_per_step} * a.k_head_stride;
@ end
@ for j = 0, t.rope_steps - 1 do
@     local guard = rope_guard(j * t.rope_heads_per_step)
@     for c = 0, t.rope_chunks - 1 do
@         local to = emit.at("out", j, "rope_step", c * t.rope_lanes * 16)
@         if guard ~= "" then
    if (${guard})
        store16(${to}, ${rope_name(c)});
@         else
    store16(${to}, ${rope_name(c)});
@         end
@     end
@ end
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
