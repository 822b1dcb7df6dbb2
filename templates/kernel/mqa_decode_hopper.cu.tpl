@ -- SPDX-License-Identifier: Apache-2.0
@ -- mqa_decode for sm_90a: one warpgroup for S, two for O, tiles by TMA or cp.async.  Inputs: plan
@ -- (plan/mqa_decode, tile of plan/hopper_decode), spec, meta.  docs/hopper.md says what to read first.
@ local args, emit, work = use("lib/args"), use("lib/emit"), use("lib/work_list")
@ local wgmma = use("frag/hopper_wgmma")
@ local t, d, H = plan.tile, plan.dims, plan.heads
@ assert(t.rows == 64 and t.n == 64 and t.threads == 384, "mqa_decode_hopper: shape")
@ assert(d.latent == 128 * t.half and t.blocks == 2 * t.half, "mqa_decode_hopper: columns")
@ assert(t.stages == 3 and t.slots == t.buffers + 1, "mqa_decode_hopper: rings")
@ local fields = {}
@ for i, name in ipairs(work.ITEM) do
@     fields[name] = i - 1
@ end
@ local capacity = work.STATUS.item_capacity | work.STATUS.slot_capacity
@ local pair = t.cluster > 1
@ local purpose = "mqa_decode: paged MQA over the latent for the items of decode_plan's list; tiles "
@     .. "of " .. t.m .. " rows and " .. t.n .. " keys, warp-specialised for sm_90a."
@ local shape = {t = t, d = d, H = H, dtype = plan.dtype, item = fields, struct = plan.args.struct}
@ shape.lse, shape.page_size, shape.shift = spec.lse, plan.page_size, use("lib/plan").log2(plan.page_size)
@ local copies = t.loader == "cp.async"
@ local loads = not copies and (t.rope_blocks > 0 and {5, 3} or {5}) or nil
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/convert.tpl", {dtype = plan.dtype, want = {pack = true, unpack = t.rounded}})}

${include("frag/explog.tpl", {base = "2"})}

${include("frag/hopper_tma.tpl", {want = {remote = pair, load = not pair and loads or nil, multicast = pair and loads or nil}})}

${include("frag/hopper_groups.tpl", {want = {sync = true, arrive = true, finds = t.early, registers = t.moves_registers, cluster = pair}})}

${include("frag/hopper_decode_shared.tpl", {t = t})}

${wgmma.descriptor_text()}
@ if copies then

${include("frag/pin.tpl", {want = {pointer = true}})}
@ end

${args.kernel_struct(plan.args)}

// Where things are in shared memory, in bytes.
enum {
    STAGES = ${t.smem.stages}, // ${t.stages} tiles of ${t.n} keys: [8 keys][${t.blocks} blocks of 64 columns][8][128 bytes]
    STAGE = ${t.stage_bytes},
@ if t.rope_blocks > 0 then
    ROPE = ${t.smem.rope}, // ${t.rope_stages} of ${t.rope_blocks} x [64 keys][128 bytes], what K has beyond V
    ROPE_STAGE = ${t.rope_bytes},
@ end
    WEIGHTS = ${t.smem.weights}, // P, ${t.buffers} x [64 rows][128 bytes]
@ if t.q_shared > 0 then
    QUERIES = ${t.smem.queries}, // the last ${t.q_shared} k-steps of Q: [64 rows][32 bytes] each
@ end
    SHRINK = ${t.smem.shrink}, // per slot and row: what O is multiplied with before a tile
    FACTOR = ${t.smem.factor}, // per ${t.buffers == 2 and "buffer of P and " or ""}row: what O is multiplied with at the end
    GROWN = ${t.smem.grown}, // per slot and warp of rows: whether some row shrinks
    FULL = ${t.smem.full}, // mbarrier per stage: the tile is there
@ if pair then
    FREE = ${t.smem.free}, // mbarrier per stage: both blocks are done with it
@ end
@ if not copies then
    TILE_BYTES = ${t.tile_bytes},
@ end
};

// Named barriers.  Of those that come per tile, the scores group arrives and the values groups
// wait, or the other way round.
@ local names = t.buffers
enum {
    P_READY = 1, // P and its factors are in shared memory
    P_FREE = ${1 + names}, // the values groups have read them
    S_DONE = ${1 + 2 * names}, // the next tile's scores are out of the tensor cores
    SCORES_GROUP = ${1 + 3 * names},
@ if not copies then
    VALUES_GROUP = ${2 + 3 * names}, // and the next one
@ end
};

// How far the scores group is with a tile: not begun, P in registers, P in shared memory.
enum { NONE, WEIGHED, STORED };

${include("frag/hopper_decode_item.tpl", shape)}

${include(copies and "frag/hopper_decode_copies.tpl" or "frag/hopper_decode_loader.tpl", shape)}

${emit.signature(plan)}
{
    extern __shared__ __align__(1024) char swizzled[];
    const mla_u32 base = (mla_u32)__cvta_generic_to_shared(swizzled);
    const mla_u32 thread = threadIdx.x % 128u;
    const mla_u32 group = threadIdx.x / 128u;

    // A work list that did not fit is answered with NaN everywhere, unit by unit.
    if (a.header[${work.index(work.HEADER, "status")}] & ${capacity}) {
        const mla_i32 row_tiles = (a.q_len * ${H} + ${t.m - 1}) / ${t.m};
        const mla_i64 units = (mla_i64)a.batch * row_tiles;
        for (mla_i64 unit = list_number(); unit < units; unit += ${emit.div("gridDim.x", t.cluster)})
            fill_unit(a, (mla_i32)(unit / row_tiles),
                      (mla_i32)(unit % row_tiles) * ${t.m}${pair and " + 64 * (mla_i32)cluster_rank()" or ""},
                      threadIdx.x, ${t.threads}u, true);
        return;
    }

    if (threadIdx.x == 0u) {
        for (mla_u32 s = 0; s < ${t.stages}u; ++s) {
            mbarrier_init(base + FULL + 8u * s, ${copies and 256 or 1}u);
@ if pair then
            mbarrier_init(base + FREE + 8u * s, ${t.cluster}u);
@ end
        }
@ if not copies then
        mbarriers_publish();
@ end
    }
    ${pair and "cluster_sync()" or "__syncthreads()"};
    if (group == 0u) {
        ${include("frag/hopper_decode_scores.tpl", shape)}
    } else {
        ${include("frag/hopper_decode_values.tpl", shape)}
    }
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
