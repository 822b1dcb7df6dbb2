@ -- SPDX-License-Identifier: Apache-2.0
@ -- decode_plan: lengths to a work list, one block.  Inputs: plan (plan/decode_plan), meta.
@ local args, emit, work = use("lib/args"), use("lib/emit"), use("lib/work_list")
@ local T, H = plan.tile.threads, plan.heads
@ assert(T % 32 == 0 and T <= 1024 and T // 32 <= 32, "decode_plan: threads")
@ local warps = T // 32
@ local function item(name)
@     return work.index(work.ITEM, name)
@ end
@ local function header(name)
@     return work.index(work.HEADER, name)
@ end
@ local purpose = "decode_plan: sequence lengths to the work list of mqa_decode and the slots that "
@     .. "mqa_combine merges."
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${args.kernel_struct(plan.args)}

// Inclusive sum over the block of one value per thread; sums[${warps}] is scratch.
static __device__ __forceinline__ mla_i64 block_scan(mla_i64 value, mla_i64 *sums)
{
    const mla_u32 lane = threadIdx.x & 31u;
    const mla_u32 warp = threadIdx.x >> 5;
    for (mla_u32 d = 1; d < 32; d *= 2) {
        const mla_i64 left = __shfl_up_sync(0xffffffffu, value, d);
        if (lane >= d)
            value += left;
    }
    if (lane == 31u)
        sums[warp] = value;
    __syncthreads();
    if (warp == 0u) {
        mla_i64 sum = lane < ${warps}u ? sums[lane] : 0;
        for (mla_u32 d = 1; d < 32; d *= 2) {
            const mla_i64 left = __shfl_up_sync(0xffffffffu, sum, d);
            if (lane >= d)
                sum += left;
        }
        if (lane < ${warps}u)
            sums[lane] = sum;
    }
    __syncthreads();
    return warp == 0u ? value : value + sums[warp - 1u];
}

static __device__ __forceinline__ mla_i32 saturated(mla_i64 x)
{
    return x < 0x7fffffff ? (mla_i32)x : 0x7fffffff;
}

// What every thread knows of the launch.
struct work_shape {
    mla_i64 units;     // batch * row_tiles
    mla_i32 row_tiles; // ceil(q_len * ${H} / rows_per_tile)
    mla_i64 tiles;     // of all units
    mla_i64 ctas;      // that get work
};

// Key tiles of unit (request, row_tile): its last row's token sees keys
// 0 .. seq_len - q_len + token.
static __device__ __forceinline__ mla_i32 unit_tiles(
    const ${plan.args.struct} &a, mla_i32 row_tile, mla_i32 seq_len)
{
    if (seq_len < a.q_len)
        return 0;
    mla_i32 last_row = (row_tile + 1) * a.rows_per_tile;
    if (last_row > a.q_len * ${H})
        last_row = a.q_len * ${H};
    const mla_i64 keys = (mla_i64)seq_len - a.q_len + (last_row - 1) / ${H} + 1;
    return (mla_i32)((keys + a.keys_per_tile - 1) / a.keys_per_tile);
}

// Unit u of the launch: its tiles (an empty unit counts as one in the cutting), and its
// request's length.
static __device__ __forceinline__ mla_i32 weigh(
    const ${plan.args.struct} &a, const work_shape &s, mla_i64 u, mla_i32 *seq_len)
{
    *seq_len = a.seq_lens[u / s.row_tiles];
    const mla_i32 tiles = unit_tiles(a, (mla_i32)(u % s.row_tiles), *seq_len);
    return tiles > 0 ? tiles : 1;
}

// First tile of CTA c, and the CTA that owns tile t.
static __device__ __forceinline__ mla_i64 first_tile_of(const work_shape &s, mla_i64 c)
{
    return c * s.tiles / s.ctas;
}
static __device__ __forceinline__ mla_i32 cta_of(const work_shape &s, mla_i64 t)
{
    return (mla_i32)(((t + 1) * s.ctas - 1) / s.tiles);
}

// Items of a unit of n tiles that begins at tile t of the launch.
static __device__ __forceinline__ mla_i32 count_items(
    const ${plan.args.struct} &a, const work_shape &s, mla_i64 t, mla_i32 n)
{
    if (a.split_tiles > 0)
        return (n - 1) / a.split_tiles + 1;
    return cta_of(s, t + n - 1) - cta_of(s, t) + 1;
}

// First tile, counted in the unit, of its item k (k = the count of items: n).
static __device__ __forceinline__ mla_i32 item_tile(
    const ${plan.args.struct} &a, const work_shape &s, mla_i64 t, mla_i32 n, mla_i32 k)
{
    if (k == 0)
        return 0;
    const mla_i64 cut = a.split_tiles > 0 ? (mla_i64)k * a.split_tiles
                                          : first_tile_of(s, cta_of(s, t) + (mla_i64)k) - t;
    return cut < n ? (mla_i32)cut : n;
}

${emit.signature(plan)}
{
    __shared__ mla_i64 sums[32];
    __shared__ mla_i64 unit_first_tile[${T}];
    __shared__ mla_i32 unit_weight[${T}];
    __shared__ mla_i32 unit_length[${T}];
    __shared__ mla_i32 unit_items_end[${T}];
    const mla_u32 tid = threadIdx.x;

    work_shape s;
    s.row_tiles = (a.q_len * ${H} + a.rows_per_tile - 1) / a.rows_per_tile;
    s.units = (mla_i64)a.batch * s.row_tiles;

    // Pass 1: tiles of all units.
    mla_i64 mine = 0;
    for (mla_i64 u = tid; u < s.units; u += ${T}) {
        mla_i32 seq_len;
        mine += weigh(a, s, u, &seq_len);
    }
    const mla_i64 inclusive = block_scan(mine, sums);
    s.tiles = sums[${warps - 1}];
    (void)inclusive;
    s.ctas = a.min_tiles > 1 ? s.tiles / a.min_tiles : s.tiles;
    if (s.ctas > a.ctas)
        s.ctas = a.ctas;
    if (s.ctas < 1)
        s.ctas = 1;

    // Pass 2: chunk by chunk; carries are the same in every thread.
    mla_i64 tiles_before = 0;
    mla_i64 items_before = 0;
    mla_i64 slots_before = 0;
    mla_i32 last_cta = -1;
    mla_i32 status = 0;
    for (mla_i64 chunk = 0; chunk < s.units; chunk += ${T}) {
        const mla_i64 u = chunk + tid;
        const bool live = u < s.units;
        mla_i32 seq_len = 0;
        const mla_i32 n = live ? weigh(a, s, u, &seq_len) : 0;
        const bool refused = seq_len > 0 && seq_len < a.q_len;

        __syncthreads();
        const mla_i64 tiles_end = tiles_before + block_scan(n, sums);
        const mla_i64 first = tiles_end - n;
        const mla_i64 chunk_tiles = sums[${warps - 1}];
        __syncthreads();
        const mla_i32 count = live ? count_items(a, s, first, n) : 0;
        const mla_i64 items_end = block_scan(count, sums);
        const mla_i64 chunk_items = sums[${warps - 1}];
        __syncthreads();
        const mla_i64 slots_end = slots_before + block_scan(count > 1 ? count : 0, sums);
        const mla_i64 chunk_slots = sums[${warps - 1}];
        if (live)
            a.unit_slots[u] = (mla_i32)(slots_end - (count > 1 ? count : 0));
        unit_first_tile[tid] = first;
        unit_weight[tid] = n;
        unit_length[tid] = seq_len;
        unit_items_end[tid] = (mla_i32)items_end;
        if (__syncthreads_or(refused))
            status |= ${work.STATUS.short_request};

        // One item per thread: the unit that has it is the first whose items end beyond it.  A
        // list that has outgrown its capacity is not followed: it may be endless.
        const bool follow = items_before + chunk_items <= a.item_capacity;
        for (mla_i64 k = tid; follow && k < chunk_items; k += ${T}) {
            mla_u32 low = 0;
            mla_u32 high = ${T - 1};
            while (low < high) {
                const mla_u32 middle = (low + high) / 2u;
                if (unit_items_end[middle] > k)
                    high = middle;
                else
                    low = middle + 1u;
            }
            const mla_i64 t = unit_first_tile[low];
            const mla_i32 weight = unit_weight[low];
            const mla_i32 length = unit_length[low];
            const mla_i32 begin = low == 0u ? 0 : unit_items_end[low - 1u];
            const mla_i32 split = (mla_i32)k - begin;
            const mla_i32 splits = unit_items_end[low] - begin;
            const mla_i64 unit = chunk + low;
            const mla_i32 row_tile = (mla_i32)(unit % s.row_tiles);
            const mla_i32 tiles = unit_tiles(a, row_tile, length);
            const mla_i32 from = item_tile(a, s, t, weight, split);
            const mla_i32 to = item_tile(a, s, t, weight, split + 1);
            const mla_i64 item = items_before + k;
            mla_i32 slot = ${work.DIRECT};
            if (length > 0 && length < a.q_len)
                slot = ${work.REFUSED};
            else if (splits > 1)
                slot = a.unit_slots[unit] + split;
            mla_i32 *out = a.items + item * ${plan.tile.work_list.item_ints};
            out[${item("request")}] = (mla_i32)(unit / s.row_tiles);
            out[${item("row_tile")}] = row_tile;
            out[${item("first_tile")}] = from;
            out[${item("end_tile")}] = to < tiles ? to : tiles;
            out[${item("slot")}] = slot;
            out[${item("seq_len")}] = length;

            // This item begins the CTAs after the one before it.
            mla_i32 before = last_cta;
            if (k > 0) {
                const mla_u32 owner = split > 0 ? low : low - 1u;
                const mla_i32 owner_begin = owner == 0u ? 0 : unit_items_end[owner - 1u];
                const mla_i64 owner_tile = unit_first_tile[owner];
                before = cta_of(s, owner_tile
                                       + item_tile(a, s, owner_tile, unit_weight[owner],
                                                   (mla_i32)k - 1 - owner_begin));
            }
            const mla_i32 cta = cta_of(s, t + from);
            for (mla_i32 c = before + 1; c <= cta; ++c)
                a.item_begin[c] = (mla_i32)item;
        }

        // The chunk's last item tells the next chunk where it stands.
        if (follow) {
            const mla_i64 last_unit = s.units - chunk < ${T} ? s.units - chunk - 1 : ${T - 1};
            const mla_i32 last_begin = last_unit == 0 ? 0 : unit_items_end[last_unit - 1];
            const mla_i64 last_tile = unit_first_tile[last_unit];
            last_cta = cta_of(s, last_tile
                                     + item_tile(a, s, last_tile, unit_weight[last_unit],
                                                 unit_items_end[last_unit] - last_begin - 1));
        }
        tiles_before += chunk_tiles;
        items_before += chunk_items;
        slots_before += chunk_slots;
    }

    // CTAs without work end where all items end.
    const bool fits = items_before <= a.item_capacity;
    for (mla_i32 c = last_cta + 1 + (mla_i32)tid; fits && c <= a.ctas; c += ${T})
        a.item_begin[c] = (mla_i32)items_before;
    if (tid == 0u) {
        if (!fits)
            status |= ${work.STATUS.item_capacity};
        if (slots_before > a.slot_capacity)
            status |= ${work.STATUS.slot_capacity};
        a.unit_slots[s.units] = saturated(slots_before);
        a.header[${header("items")}] = saturated(items_before);
        a.header[${header("slots")}] = saturated(slots_before);
        a.header[${header("status")}] = status;
        a.header[${header("tiles")}] = saturated(s.tiles);
    }
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
