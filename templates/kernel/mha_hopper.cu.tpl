@ -- SPDX-License-Identifier: Apache-2.0
@ -- mha on sm_90a: TMA, mbarriers and wgmma.  Inputs: plan (plan/mha_hopper), spec, meta.
@ local args, emit = use("lib/args"), use("lib/emit")
@ local batch, wgmma = use("frag/mha_hopper_batch"), use("frag/hopper_wgmma")
@ local t, d = plan.tile, plan.dims
@ assert(t.threads == 384 and t.m == 2 * t.group_rows and t.group_rows == 64, "mha_hopper: rows")
@ assert(t.n % 16 == 0 and t.columns % 16 == 0 and t.columns <= 256, "mha_hopper: wgmma shapes")
@ assert(t.k_bytes % 1024 == 0 and t.v_bytes % 1024 == 0 and t.q_bytes % 1024 == 0, "mha_hopper: swizzle")
@ local S, O = batch.names("s", t.n // 2), batch.names("o", t.columns // 2)
@ -- Ranks of the tensor maps first .. last, each once.
@ local function ranks(first, last)
@     local list = {}
@     for rank = 2, 5 do
@         for i = first, last do
@             if #plan.launch.tensor_maps[i].dims == rank and list[#list] ~= rank then
@                 list[#list + 1] = rank
@             end
@         end
@     end
@     return list
@ end
@ -- The first map is Q's, which is never shared.
@ local paired, last = t.cluster > 1, #plan.launch.tensor_maps
@ local tma = {arrive = not paired or t.passing == 0, remote = paired, load = ranks(1, paired and 1 or last),
@     multicast = paired and ranks(2, last) or nil}
@ local purpose = "mha: softmax(scale * Q K^T) V of every request and head, K as "
@     .. (plan.variant == "concat" and "one tensor" or d.rope > 0 and "k_nope and the heads' k_rope" or "k_nope")
@     .. ", O in " .. plan.dtype .. ", LSE in fp32."
@ local maps = {}
@ for i, m in ipairs(plan.launch.tensor_maps) do
@     maps[i] = "&" .. m.name
@ end
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/convert.tpl", {dtype = plan.dtype, want = {pack = true}})}

${include("frag/explog.tpl", {base = "2"})}

${include("frag/hopper_tma.tpl", {want = tma})}

${include("frag/hopper_groups.tpl", {want = {sync = true, arrive = true, registers = true, cluster = paired}})}

${wgmma.descriptor_text()}

${include("frag/hopper_rows.tpl")}

${include("frag/mha_hopper_lane.tpl")}

${args.kernel_struct(plan.args)}

// The tile, and where things are in shared memory, in bytes.
enum {
    KEYS = ${t.n},
    K_STAGES = ${t.k_stages},
    V_STAGES = ${t.v_stages},
    Q_BYTES = ${t.q_bytes}, // ${t.m} rows
    K_BYTES = ${t.k_bytes}, // of a stage
    V_BYTES = ${t.v_bytes},
@ if t.passing == 0 then
    Q = 0,
@ end
    K = ${t.smem.k},
    V = ${t.smem.v},
    K_FULL = ${t.smem.barriers}, // barriers, 8 bytes each
    K_EMPTY = K_FULL + 8 * K_STAGES,
    V_FULL = K_EMPTY + 8 * K_STAGES,
    V_EMPTY = V_FULL + 8 * V_STAGES,
@ if t.passing == 0 then
    Q_FULL = V_EMPTY + 8 * V_STAGES,
    Q_EMPTY = Q_FULL + 8,
@ end
    WARPS = ${8 * t.cluster}, // that consume${paired and ", of both blocks" or ""}
@ if paired then
    HALF_BOX = ${t.n // 2 * 128},
@ end
    SWIZZLE = ${wgmma.SWIZZLE[128]}, // 128 bytes
};

${include("frag/hopper_ring.tpl")}

// A warp is done with a stage${paired and ", for both blocks' producers: lane i tells block i" or ""}.
static __device__ __forceinline__ void release(mla_u32 empty, mla_u32 lane)
{
@ if paired then
    if (lane < 2u)
        mbarrier_arrive_at(empty, lane);
@ else
    if (lane == 0)
        mbarrier_arrive(empty);
@ end
}

${include("frag/mha_hopper_work.tpl", {t = t, heads = plan.heads, struct = plan.args.struct})}

${include("frag/mha_hopper_produce.tpl", {t = t, struct = plan.args.struct, maps = plan.launch.tensor_maps})}

${emit.signature(plan)}
{
    extern __shared__ __align__(1024) char swizzled[];
    const mla_u32 base = (mla_u32)__cvta_generic_to_shared(swizzled);
    // Full: the producer's arrival and its bytes.  Empty: one arrival of each warp that consumes.
    if (threadIdx.x == 0) {
        for (mla_u32 s = 0; s < K_STAGES; ++s) {
            mbarrier_init(base + K_FULL + 8u * s, 1);
            mbarrier_init(base + K_EMPTY + 8u * s, WARPS);
        }
        for (mla_u32 s = 0; s < V_STAGES; ++s) {
            mbarrier_init(base + V_FULL + 8u * s, 1);
            mbarrier_init(base + V_EMPTY + 8u * s, WARPS);
        }
@ if t.passing == 0 then
        mbarrier_init(base + Q_FULL, 1);
        mbarrier_init(base + Q_EMPTY, 8);
@ end
        mbarriers_publish();
    }
    ${paired and "cluster_sync();" or "__syncthreads();"}
    ${include("frag/pdl.tpl", {pdl = plan.launch.pdl})}

    const mla_u32 group = threadIdx.x >> 7; // warpgroup
    if (group == 2u) {
        registers_down<${t.producer_registers}>();
        if (threadIdx.x == 256u)
            produce(a, base, ${table.concat(maps, ", ")});
@ if paired then
        __syncwarp();
        cluster_sync(); // the other block may still write here
@ end
        return;
    }
    registers_up<${t.consumer_registers}>();
${include("frag/mha_hopper_consume.tpl", {plan = plan, t = t, lse = spec.lse, S = S, O = O})}
@ if paired then
    cluster_sync();
@ end
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
