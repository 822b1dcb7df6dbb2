@ -- SPDX-License-Identifier: Apache-2.0
@ -- mqa_decode for sm_90a, schedule (a): two warpgroups that take turns with the tiles, each with half
@ -- of O.  Inputs: plan (plan/mqa_decode, tile of plan/hopper_alternating), spec, meta.
@ local args, emit, work = use("lib/args"), use("lib/emit"), use("lib/work_list")
@ local wgmma = use("frag/hopper_wgmma")
@ local t, d, H = plan.tile, plan.dims, plan.heads
@ assert(t.rows == 64 and t.n == 64 and t.threads == 256, "mqa_decode_alternating: shape")
@ assert(d.latent == 128 * t.half and t.stages == 2, "mqa_decode_alternating: columns, stages")
@ local fields = {}
@ for i, name in ipairs(work.ITEM) do
@     fields[name] = i - 1
@ end
@ local capacity = work.STATUS.item_capacity | work.STATUS.slot_capacity
@ local purpose = "mqa_decode: paged MQA over the latent for the items of decode_plan's list; tiles "
@     .. "of " .. t.m .. " rows and " .. t.n .. " keys, two warpgroups of sm_90a that alternate."
@ local shape = {t = t, d = d, H = H, dtype = plan.dtype, item = fields, struct = plan.args.struct}
@ shape.lse, shape.page_size, shape.shift = spec.lse, plan.page_size, use("lib/plan").log2(plan.page_size)
@ local maps = "&kv_map" .. (t.rope_blocks > 0 and ", &rope_map" or "")
@ local rope_too = t.rope_blocks > 0 and ", then the rope" or ""
@ local function group(half)
@     shape.half = half
@     return include("frag/alternating_group.tpl", shape)
@ end
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/convert.tpl", {dtype = plan.dtype, want = {pack = true, unpack = t.rounded}})}

${include("frag/explog.tpl", {base = "2"})}

${include("frag/hopper_tma.tpl", {want = {load = t.rope_blocks > 0 and {5, 3} or {5}}})}

${include("frag/hopper_groups.tpl", {want = {sync = true, arrive = true}})}

${include("frag/hopper_decode_shared.tpl", {t = t})}

${wgmma.descriptor_text()}

${args.kernel_struct(plan.args)}

// Where things are in shared memory, in bytes.
enum {
    STAGES = ${t.smem.stages}, // ${t.stages} tiles of ${t.n} keys: the columns of V in two halves${rope_too}
    STAGE = ${t.stage_bytes},
    HALF_BYTES = ${t.half_bytes}, // [8 keys][${t.half} blocks of 64 columns][8][128 bytes]
@ if t.rope_blocks > 0 then
    ROPE_BYTES = ${t.rope_bytes}, // ${t.rope_blocks} x [64 keys][128 bytes], what K has beyond V
@ end
    WEIGHTS = ${t.smem.weights}, // P per group: [64 rows][128 bytes]
@ if t.q_shared > 0 then
    QUERIES = ${t.smem.queries}, // the last ${t.q_shared} k-steps of Q: [64 rows][32 bytes] each
@ end
    REFERENCE = ${t.smem.reference}, // per group and row: the exponent's reference since its last tile
    GROWN = ${t.smem.grown}, // per group and warp of rows: whether that tile raised some row's
    SUMS = ${t.smem.sums}, // per group and row, at the end
    CURSORS = ${t.smem.cursors}, // per group, stage and lane that sends: the next tile
    CURSOR = ${32 * t.boxes},
    FULL = ${t.smem.full}, // mbarrier per stage and half: the columns are there
};

// Named barriers.
enum {
    P_READY = 1, // the first group's P is in shared memory, and its references; 2: the second's
    BOTH = 3, // both groups are here
    GROUP = 4, // all warps of the first group are; 6: of the second
    // 5, 7: they are through with stage 0; 4 and 6 else say so of stage 1.
};

${include("frag/hopper_decode_item.tpl", shape)}

${include("frag/hopper_decode_loader.tpl", shape)}

${include("frag/alternating_loader.tpl", shape)}

${group(0)}

${group(1)}

${emit.signature(plan)}
{
    extern __shared__ __align__(1024) char swizzled[];
    const mla_u32 base = (mla_u32)__cvta_generic_to_shared(swizzled);

    // A work list that did not fit is answered with NaN everywhere, unit by unit.
    if (a.header[${work.index(work.HEADER, "status")}] & ${capacity}) {
        const mla_i32 row_tiles = (a.q_len * ${H} + ${t.m - 1}) / ${t.m};
        const mla_i64 units = (mla_i64)a.batch * row_tiles;
        for (mla_i64 unit = list_number(); unit < units; unit += gridDim.x)
            fill_unit(a, (mla_i32)(unit / row_tiles), (mla_i32)(unit % row_tiles) * ${t.m},
                      threadIdx.x, ${t.threads}u, true);
        return;
    }

    if (threadIdx.x == 0u) {
        for (mla_u32 s = 0; s < ${2 * t.stages}u; ++s)
            mbarrier_init(base + FULL + 8u * s, 1u);
        mbarriers_publish();
    }
    __syncthreads();
    if (threadIdx.x < 128u)
        first_group(a, ${maps}, base, threadIdx.x);
    else
        second_group(a, ${maps}, base, threadIdx.x - 128u);
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
