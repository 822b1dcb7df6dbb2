@ -- SPDX-License-Identifier: Apache-2.0
@ -- The producer of mha on sm_90a.  Inputs: t, struct, maps (of the plan).
@ local parameters = {}
@ for _, m in ipairs(maps) do
@     parameters[#parameters + 1] = "const mla_tensor_map *" .. m.name
@ end
@ local paired = t.cluster > 1
@ local function wait_empty(barrier, parity)
@     return string.format("%s(base + %s, %s);", paired and "mbarrier_wait_cluster" or "mbarrier_wait", barrier, parity)
@ end
@ -- Loads of rows first .. first + size - 1 of one operand to byte `to`, into both blocks of a
@ -- cluster if it is shared.
@ local function loads(list, rows, to, barrier, indent, shared)
@     local out = {}
@     for _, l in ipairs(list) do
@         local row = string.format("%d - size, first + size", rows)
@         local head = l.map == "k_rope_map" and "" or ", w.head"
@         local at = l.at > 0 and string.format("%s + %du", to, l.at) or to
@         local column = l.whole == 1 and "0" or l.column
@         local name = shared and "tma_multicast" or "tma_load"
@         out[#out + 1] = string.format("%s%s(%s, %s, %s,%s %s, %s%s%s);", indent, name, at, l.map, barrier,
@             shared and " BOTH,\n" .. indent .. string.rep(" ", #name) or "", column, row,
@             l.whole == 1 and ", 0" or "", head)
@     end
@     return table.concat(out, "\n")
@ end
// One thread: loads what the consumers will ask for, as far ahead as the rings are long.
static __device__ __forceinline__ void produce(const ${struct} &a, mla_u32 base,
                                               ${table.concat(parameters, ",\n")})
{
@ if paired then
    const unsigned short BOTH = 3; // blocks
    const mla_u32 rank = cluster_rank();
@ end
    ring k = {0, 1}, v = {0, 1}; // an empty barrier that was never full counts as passed
@ if t.passing == 0 then
    mla_u32 q_parity = 1;
@ end
    work w;
    w.request = 0;
#pragma unroll 1
    for (w.place = ${paired and "blockIdx.x / 2u" or "blockIdx.x"}; find_work(a, w); w.place += ${paired and "gridDim.x / 2u" or "gridDim.x"}) {
        if (w.end_key <= 0)
            continue;

        // Queries, ${t.group_rows} rows for each warpgroup.
@ if t.passing == 0 then
        mbarrier_wait(base + Q_EMPTY, q_parity);
        q_parity ^= 1;
        mbarrier_expect(base + Q_FULL, Q_BYTES);
@ elseif t.q_entries == 1 then
        ${wait_empty("K_EMPTY + 8u * k.stage", "k.parity")}
        mbarrier_expect(base + K_FULL + 8u * k.stage, Q_BYTES);
@ end
#pragma unroll
        for (mla_u32 group = 0; group < 2u; ++group) {
            const mla_i32 row = w.row + ${t.group_rows} * (mla_i32)group;
            const mla_i32 first = w.q_begin + row;
            const mla_i32 size = min(max(w.q_len - row, 0), ${t.group_rows});
@ if t.passing == 0 then
            const mla_u32 to = base + Q + ${t.q_bytes // 2}u * group;
${loads(t.load.q, t.group_rows, "to", "base + Q_FULL", "            ")}
@ elseif t.q_entries == 1 then
            const mla_u32 to = base + K + k.stage * K_BYTES + ${t.q_bytes // 2}u * group;
            const mla_u32 full = base + K_FULL + 8u * k.stage;
${loads(t.load.q, t.group_rows, "to", "full", "            ")}
@ else
            const mla_u32 to = base + K + k.stage * K_BYTES;
            const mla_u32 full = base + K_FULL + 8u * k.stage;
            ${wait_empty("K_EMPTY + 8u * k.stage", "k.parity")}
            mbarrier_expect(full, Q_BYTES / 2u);
${loads(t.load.q, t.group_rows, "to", "full", "            ")}
            advance<K_STAGES>(k);
@ end
        }
@ if t.passing == 1 and t.q_entries == 1 then
        advance<K_STAGES>(k);
@ end

        // Keys and values, from the last tile to the first.
        mla_i32 begin = (w.end_key - 1) / KEYS * KEYS;
#pragma unroll 1
        for (; begin >= 0; begin -= KEYS) {
@ if paired then
            // Half of the rows of each box.
            const mla_i32 half = ${t.n // 2} * (mla_i32)rank;
            const mla_i32 size = min(max(w.end_key - begin - half, 0), ${t.n // 2});
            const mla_i32 first = w.k_begin + begin + half;
@ else
            const mla_i32 size = min(w.end_key - begin, KEYS);
            const mla_i32 first = w.k_begin + begin;
@ end
            const mla_u32 k_full = base + K_FULL + 8u * k.stage;
            const mla_u32 k_to = base + K + k.stage * K_BYTES${paired and " + rank * HALF_BOX" or ""};
            ${wait_empty("K_EMPTY + 8u * k.stage", "k.parity")}
            mbarrier_expect(k_full, K_BYTES);
${loads(t.load.k, t.n // t.cluster, "k_to", "k_full", "            ", paired)}
            advance<K_STAGES>(k);

            const mla_u32 v_full = base + V_FULL + 8u * v.stage;
            const mla_u32 v_to = base + V + v.stage * V_BYTES${paired and " + rank * HALF_BOX" or ""};
            ${wait_empty("V_EMPTY + 8u * v.stage", "v.parity")}
            mbarrier_expect(v_full, V_BYTES);
${loads(t.load.v, t.n // t.cluster, "v_to", "v_full", "            ", paired)}
            advance<V_STAGES>(v);
        }
    }
}
