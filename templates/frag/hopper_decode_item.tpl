@ -- SPDX-License-Identifier: Apache-2.0
@ -- Items of the work list, and units that need no tile: item_at, fill_unit.  Inputs: t, d, H, item
@ -- (name of a field to its index), lse, struct.
@ local refused = use("lib/work_list").REFUSED
@ local empty = lse.empty == "-inf" and "0xff800000u" or "0x7f800000u"
// This block's list of items, as decode_plan counts.
static __device__ __forceinline__ mla_i32 list_number()
{
    mla_u32 block;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    return (mla_i32)${t.cluster > 1 and "(block / " .. t.cluster .. "u)" or "block"};
}

// An item: rows from first_row on of a request, tiles of keys first_tile .. first_tile + tiles - 1,
// of which keys at and past end_key are dead.
struct work_item {
    mla_i32 request, first_row, first_tile, tiles, slot;
    mla_u32 end_key;
    mla_i32 seen; // row r sees the keys below seen + its token
};

static __device__ __forceinline__ work_item item_at(const ${struct} &a, mla_i32 index)
{
    const mla_i32 *entry = a.items + (mla_i64)index * 8;
    const mla_i32 row_tile = entry[${item.row_tile}];
    const mla_i32 end_tile = entry[${item.end_tile}];
    work_item w;
    w.request = entry[${item.request}];
    w.first_row = row_tile * ${t.m}${t.cluster > 1 and " + 64 * (mla_i32)cluster_rank()" or ""};
    w.first_tile = entry[${item.first_tile}];
    w.tiles = end_tile - w.first_tile;
    w.slot = entry[${item.slot}];
    w.seen = entry[${item.seq_len}] - a.q_len + 1;
    const mla_i32 last_token = ((row_tile + 1) * ${t.m} - 1) / ${H};
    const mla_u32 unit_end = (mla_u32)(w.seen + (last_token < a.q_len ? last_token : a.q_len - 1));
    const mla_u32 tiles_end = (mla_u32)end_tile * 64u;
    w.end_key = tiles_end < unit_end ? tiles_end : unit_end;
    return w;
}

// Token of a row; of one past the request's last, the last.
static __device__ __forceinline__ mla_i32 token_of(const ${struct} &a, mla_i32 row)
{
    const mla_i32 token = row / ${H};
    return token < a.q_len ? token : a.q_len - 1;
}

// Q of a row; of one past the request's last, the last.
static __device__ __forceinline__ const char *query_row(const ${struct} &a,
                                                        const work_item &w, mla_i32 row)
{
    const mla_i32 rows = a.q_len * ${H};
    const mla_i32 live = row < rows ? row : rows - 1;
    return (const char *)a.q + w.request * a.q_batch_stride + live / ${H} * a.q_token_stride
           + live % ${H} * a.q_head_stride;
}

// O and LSE of the rows of a unit that visits no key: of nothing, or, refused, NaN, so that
// nobody takes what was in memory for a result.
static __device__ __forceinline__ void fill_unit(const ${struct} &a, mla_i32 request,
                                                 mla_i32 first_row, mla_u32 thread,
                                                 mla_u32 threads, bool refused)
{
    for (mla_u32 i = thread; i < ${t.rows * d.latent // 2}u; i += threads) {
        const mla_i32 row = first_row + (mla_i32)(i / ${d.latent // 2}u);
        if (row >= a.q_len * ${H})
            return;
        const mla_u32 column = i % ${d.latent // 2}u;
        char *out = (char *)a.out + request * a.out_batch_stride + row / ${H} * a.out_token_stride
                    + row % ${H} * a.out_head_stride;
        ((mla_u32 *)out)[column] = refused ? 0x7fff7fffu : 0u;
        if (a.lse && column == 0u) {
            char *lse = (char *)a.lse + request * a.lse_batch_stride
                        + row / ${H} * a.lse_token_stride + row % ${H} * a.lse_head_stride;
            *(float *)lse = __uint_as_float(refused ? 0x7fffffffu : ${empty});
        }
    }
}
@ assert(refused < 0, "hopper_decode_item: refused")
