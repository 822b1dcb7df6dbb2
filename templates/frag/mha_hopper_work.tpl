@ -- SPDX-License-Identifier: Apache-2.0
@ -- The work items of mha on sm_90a.  Inputs: t, heads, struct.
@ local rows = t.m * t.cluster
// Query rows row .. row + ${t.m - 1} of a head, as far as the request has them${t.cluster > 1 and "; items of the cluster\n// are twice as high" or ""}.
struct work {
    mla_u32 request, place; // place: of the item among those of the request
    mla_i32 q_begin, q_len, k_begin, k_len;
    mla_i32 row, head;
    mla_i32 end_key; // keys that some row here sees; 0 or less: none
};

// Finds the item at w.place, counted from the first of w.request; false: there are no more.
static __device__ __forceinline__ bool find_work(const ${struct} &a, work &w)
{
    for (;; ++w.request) {
        if (w.request >= (mla_u32)a.batch)
            return false;
        w.q_begin = a.cu_q[w.request];
        w.q_len = a.cu_q[w.request + 1u] - w.q_begin;
        const mla_u32 items = ((mla_u32)w.q_len + ${rows - 1}u) / ${rows}u * ${heads}u;
        if (w.place < items)
            break;
        w.place -= items;
    }
    w.k_begin = a.cu_k[w.request];
    w.k_len = a.cu_k[w.request + 1u] - w.k_begin;

    // Heads whose keys fit L2 together; in such a group the last rows, which see most, go first.
    const mla_u32 blocks = ((mla_u32)w.q_len + ${rows - 1}u) / ${rows}u;
@ if heads > 1 then
    const mla_u32 fitting = ${t.l2_keys}u / ((mla_u32)w.k_len + 1u);
    const mla_u32 group = min(max(fitting, 1u), ${heads}u);
    const mla_u32 first = w.place / (group * blocks) * group;
    const mla_u32 members = min(group, ${heads}u - first);
    const mla_u32 in_group = w.place - first * blocks;
    w.head = (mla_i32)(first + in_group % members);
    w.row = (mla_i32)((blocks - 1u - in_group / members) * ${rows}u);
@ else
    w.head = 0;
    w.row = (mla_i32)((blocks - 1u - w.place) * ${rows}u);
@ end
    const mla_i32 end_row = min(w.row + ${rows}, w.q_len);
@ if t.cluster > 1 then
    w.row += ${t.m} * (mla_i32)cluster_rank();
@ end
    w.end_key = a.causal ? w.k_len - w.q_len + end_row : w.k_len;
    return true;
}
