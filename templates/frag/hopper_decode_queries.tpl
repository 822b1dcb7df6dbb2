@ -- SPDX-License-Identifier: Apache-2.0
@ -- Q of an item: fragments to registers, the last k-steps to shared memory.  A row past the
@ -- request's last is read as the last: its scores are those of live data, and nobody writes them.
@ -- Inputs: t, H; first, every (the group stores every `every`th of the last k-steps), barrier (text).
@ for k = 0, t.q_registers - 1 do
mla_v4 q${k};
@ end
{
    const work_item w = item_at(a, index);
    const thread_place me = place();
    const mla_i32 upper = w.first_row + (mla_i32)me.row;
    const char *from0 = query_row(a, w, upper) + 4u * (me.lane % 4u);
    const char *from1 = query_row(a, w, upper + 8) + 4u * (me.lane % 4u);
@ for k = 0, t.q_registers - 1 do
    q${k}.x = *(const mla_u32 *)(from0 + ${32 * k});
    q${k}.y = *(const mla_u32 *)(from1 + ${32 * k});
    q${k}.z = *(const mla_u32 *)(from0 + ${32 * k + 16});
    q${k}.w = *(const mla_u32 *)(from1 + ${32 * k + 16});
@ end
@ if t.q_shared > 0 then

    // Half a row of 32 bytes per thread and k-step.
    const mla_u32 row = 16u * me.warp + me.lane / 2u;
    const mla_u32 half = me.lane % 2u;
    const char *from = query_row(a, w, w.first_row + (mla_i32)row) + 16u * half;
    const mla_u32 to = base + QUERIES + 32u * row + ((half ^ (row >> 2 & 1u)) << 4);
@     for k = t.q_registers + first, t.steps - 1, every do
    put_queries(to + ${2048 * (k - t.q_registers)}u, *(const mla_v4 *)(from + ${32 * k}));
@     end
@ if t.loader ~= "cp.async" then -- else the one behind the wait for keys serves
    proxy_fence();
@ end
    ${barrier};
@ end
}
