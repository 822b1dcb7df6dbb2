@ -- SPDX-License-Identifier: Apache-2.0
@ -- kv_b on sm_90a: latents in registers, kv_b_proj through a ring of TMA stages, wgmma.
@ -- Inputs: plan (plan/kv_b_hopper.lua), meta.
@ local args, emit = use("lib/args"), use("lib/emit")
@ local batch, wgmma = use("frag/mha_hopper_batch"), use("frag/hopper_wgmma")
@ local t, d = plan.tile, plan.dims
@ assert(t.stage % 1024 == 0 and t.group_rows == 64 and t.rows == 128, "kv_b_hopper: stages")
@ assert(t.columns % 16 == 0 and t.columns <= 256 and t.k % 16 == 0, "kv_b_hopper: wgmma shapes")
@ local sums = batch.names("c", t.columns // 2)
@ local whole = t.head_tiles * t.columns == t.head -- no columns beyond the head's
@ local one_output = d.nope % t.columns == 0 and whole -- a tile is of k_nope or of v
@ local purpose = "kv_b: latents expanded by kv_b_proj.  k_nope[t][h] and v[t][h] are the latent "
@     .. string.format("of token t times the first %d and the other %d rows of head h, ", d.nope, d.v)
@     .. "which are read where they lie."
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/convert.tpl", {dtype = plan.dtype, want = {pack = true}})}

${include("frag/hopper_tma.tpl", {want = {arrive = true, load = {2, 3}}})}

${include("frag/hopper_groups.tpl", {want = {sync = true, arrive = true, registers = true}})}

${wgmma.descriptor_text()}

${include("frag/hopper_rows.tpl")}

${args.kernel_struct(plan.args)}

enum {
    STAGES = ${t.stages},
    STAGE = ${t.stage}, // rows of ${t.depth} k: ${t.columns} of kv_b_proj, or ${t.rows} latents
    FULL = ${t.stages * t.stage}, // barriers, 8 bytes each
    EMPTY = FULL + 8 * STAGES,
    WARPS = 8, // that consume
    SWIZZLE = ${wgmma.SWIZZLE[128]}, // 128 bytes
    CHUNKS = ${t.chunks}, // stages of a row
    COLUMN_TILES = ${t.column_tiles}, // ${t.head_tiles} a head
};

${include("frag/hopper_ring.tpl")}

// The tiles of this block: of all of them in order, columns first, a range that is as long as any
// other block's, give or take one.
struct range {
    mla_u64 next, end;
};

static __device__ __forceinline__ range tiles_of(mla_i32 tokens)
{
    const mla_u64 all = ((mla_u64)tokens + ${t.rows - 1}u) / ${t.rows}u * COLUMN_TILES;
    const mla_u64 each = all / gridDim.x;
    const mla_u64 more = all % gridDim.x; // of the first blocks
    range r;
    r.next = each * blockIdx.x + min((mla_u64)blockIdx.x, more);
    r.end = r.next + each + (blockIdx.x < more ? 1u : 0u);
    return r;
}

// One thread: loads latents when the block of tokens changes, then kv_b_proj, tile after tile.
static __device__ __forceinline__ void produce(const ${plan.args.struct} &a, mla_u32 base,
                                               const mla_tensor_map *latent_map,
                                               const mla_tensor_map *weight_map)
{
    ring s = {0, 1}; // an empty barrier that was never full counts as passed
    const range r = tiles_of(a.tokens);
    mla_u32 rows = (mla_u32)(r.next / COLUMN_TILES);
    mla_u32 tile = (mla_u32)(r.next % COLUMN_TILES);
    bool fresh = true; // rows
#pragma unroll 1
    for (mla_u64 i = r.next; i < r.end; ++i) {
#pragma unroll 1
        for (mla_i32 chunk = 0; fresh && chunk < CHUNKS; ++chunk) {
            const mla_u32 to = base + s.stage * STAGE;
            const mla_u32 full = base + FULL + 8u * s.stage;
            mbarrier_wait(base + EMPTY + 8u * s.stage, s.parity);
            mbarrier_expect(full, ${t.latent_bytes});
            tma_load(to, latent_map, full, ${t.depth} * chunk, (mla_i32)(rows * ${t.rows}u));
            tma_load(to + ${t.latent_bytes // 2}u, latent_map, full, ${t.depth} * chunk,
                     (mla_i32)(rows * ${t.rows}u + ${t.group_rows}u));
            advance<STAGES>(s);
        }
@ if t.head_tiles == 1 then
        const mla_i32 head = (mla_i32)tile;
        const mla_i32 row = 0;
@ else
        const mla_i32 head = (mla_i32)(tile / ${t.head_tiles}u);
        const mla_i32 row = (mla_i32)(tile % ${t.head_tiles}u * ${t.columns}u);
@ end
#pragma unroll 1
        for (mla_i32 chunk = 0; chunk < CHUNKS; ++chunk) {
            const mla_u32 full = base + FULL + 8u * s.stage;
            mbarrier_wait(base + EMPTY + 8u * s.stage, s.parity);
            mbarrier_expect(full, ${t.weight_bytes});
            tma_load(base + s.stage * STAGE, weight_map, full, ${t.depth} * chunk, row, head);
            advance<STAGES>(s);
        }
        fresh = ++tile == COLUMN_TILES;
        if (fresh) {
            tile = 0;
            ++rows;
        }
    }
}

${emit.signature(plan)}
{
    extern __shared__ __align__(1024) char swizzled[];
    const mla_u32 base = (mla_u32)__cvta_generic_to_shared(swizzled);
    // Full: the producer's arrival and its bytes.  Empty: one arrival of each warp that consumes.
    if (threadIdx.x == 0) {
        for (mla_u32 s = 0; s < STAGES; ++s) {
            mbarrier_init(base + FULL + 8u * s, 1);
            mbarrier_init(base + EMPTY + 8u * s, WARPS);
        }
        mbarriers_publish();
    }
    __syncthreads();
    ${include("frag/pdl.tpl", {pdl = plan.launch.pdl})}

    const mla_u32 group = threadIdx.x >> 7; // warpgroup
    if (group == 2u) {
        registers_down<${t.producer_registers}>();
        if (threadIdx.x == 256u)
            produce(a, base, &latent_map, &weight_map);
        return;
    }
    registers_up<${t.consumer_registers}>();
    const mla_u32 lane = threadIdx.x & 31u;
    const mla_u32 quad = lane & 3u; // lane = 4 g + quad
    const mla_u32 warp = threadIdx.x >> 5 & 3u; // of the warpgroup, 16 rows each
    const bool odd = quad & 1u;
    const mla_u32 row_in_stage =
        (64u * group + 16u * warp + (lane & 15u)) * 128u + (((lane >> 4) ^ (lane & 7u)) << 4);
    const mla_u32 row_in_tile = 64u * group + 16u * warp + (lane >> 2);
    const mla_u64 first_stage = matrix_descriptor(base, 16u, 1024u, SWIZZLE);
    ring s = {0, 0};
    if (group == 1u)
        pass_turn(1); // the other one begins

    const range r = tiles_of(a.tokens);
    mla_u32 rows = (mla_u32)(r.next / COLUMN_TILES);
    mla_u32 tile = (mla_u32)(r.next % COLUMN_TILES);
    bool fresh = true; // rows
    ${batch.declare("mla_u32", batch.names("a", 4 * t.steps), 4)}
#pragma unroll 1
    for (mla_u64 i = r.next; i < r.end; ++i) {
        if (fresh) { // latents to registers, then their stages are free
            ring done = s;
@ for chunk = 0, t.chunks - 1 do
            {
                const mla_u32 from = base + s.stage * STAGE + row_in_stage;
                mbarrier_wait(base + FULL + 8u * s.stage, s.parity);
@     for step = 4 * chunk, math.min(4 * chunk + 3, t.steps - 1) do
                load_matrices(from ^ ${32 * (step % 4)}u, a${4 * step}, a${4 * step + 1},
                              a${4 * step + 2}, a${4 * step + 3});
@     end
                advance<STAGES>(s);
            }
@ end
            proxy_fence();
            __syncwarp();
#pragma unroll 1
            for (mla_i32 chunk = 0; lane == 0 && chunk < CHUNKS; ++chunk) {
                mbarrier_arrive(base + EMPTY + 8u * done.stage);
                advance<STAGES>(done);
            }
        }

        // ${t.columns} columns, ${t.depth} of k at a time, in two turns; a stage is free when the next one's
        // products are on their way and its own are done.
        ${batch.declare("float", sums, 8)}
        mla_u32 free_stage;
@ for chunk = 0, t.chunks - 1 do
@     local first, last = 4 * chunk, math.min(4 * chunk + 3, t.steps - 1)
@     if chunk == 0 or chunk == t.half then
        take_turn(group);
@     end
        {
            const mla_u64 matrix = first_stage + s.stage * (STAGE / 16u);
            mbarrier_wait(base + FULL + 8u * s.stage, s.parity);
            ${batch.columns(t.columns, first, last, plan.dtype)}
@     if chunk > 0 then
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            if (lane == 0)
                mbarrier_arrive(base + EMPTY + 8u * free_stage);
@     end
            free_stage = s.stage;
            advance<STAGES>(s);
        }
@     if chunk == t.chunks - 1 or chunk == t.half - 1 then
        pass_turn(group);
@     end
@ end
        ${batch.wait(sums, 0)}
        if (lane == 0)
            mbarrier_arrive(base + EMPTY + 8u * free_stage);

        // 16 columns of a row per quad and store.
@ local split = t.head_tiles > 1
        const mla_i64 head = tile${split and " / " .. t.head_tiles .. "u" or ""};
        const mla_i32 first = ${split and "(mla_i32)(tile % " .. t.head_tiles .. "u * " .. t.columns .. "u)" or "0"};
        const mla_i64 token = (mla_i64)rows * ${t.rows} + row_in_tile;
        const mla_i32 in_row = (odd ? 16 : 0) + (mla_i32)(quad & 2u) * 4;
        char *k_to = (char *)a.k_nope + head * a.k_nope_head_stride + token * a.k_nope_token_stride
                     + 2 * first + in_row;
        char *v_to = (char *)a.v + head * a.v_head_stride + token * a.v_token_stride
                     + 2 * (first - ${d.nope}) + in_row;
@ if one_output then
        const mla_i64 stride = first < ${d.nope} ? a.k_nope_token_stride : a.v_token_stride;
        char *to = first < ${d.nope} ? k_to : v_to;
@ end
@ for row = 0, 1 do
        {
            const bool live = token${row == 1 and " + 8" or ""} < a.tokens;
@     if row == 1 and one_output then
            to += 8 * stride;
@     elseif row == 1 then
            k_to += 8 * a.k_nope_token_stride;
            v_to += 8 * a.v_token_stride;
@     end
@     for u = 0, t.columns // 16 - 1 do
@         local c = 8 * u + 2 * row
@         local to, alive = "to", "live"
@         if not one_output then
@             to = string.format("first + %d < %d ? k_to : v_to", 16 * u, d.nope)
@         end
@         if not whole then
@             alive = string.format("live && first + %d < %d", 16 * u, t.head)
@         end
            store_pairs<${32 * u}>(${to}, pack2(c${c}, c${c + 1}),
                           pack2(c${c + 4}, c${c + 5}), odd, ${alive});
@     end
        }
@ end

        fresh = ++tile == COLUMN_TILES;
        if (fresh) {
            tile = 0;
            ++rows;
        }
    }
    if (group == 0u)
        take_turn(0); // the last one that the other passed
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
