@ -- SPDX-License-Identifier: Apache-2.0
@ -- The dead rows of V become zeros: P is 0 there, and 0 * NaN is not.  This group's columns, from row
@ -- `dead` on.  Inputs: t; columns (text), their address, group_bytes from eight rows to the next;
@ -- barrier (text) of the group.
@ local per_row = 8 * t.half -- pieces of 16 bytes
@ local step = 128 // per_row
const mla_u32 piece = thread % ${per_row}u;
const mla_u32 zeros =
    ${columns} + piece / 8u * 1024u + piece % 8u * 16u;
for (mla_u32 row = dead + thread / ${per_row}u; row < 64u; row += ${step}u) {
@ if 128 % per_row ~= 0 then
    if (thread >= ${step * per_row}u)
        break;
@ end
    put_zeros(zeros + row / 8u * ${group_bytes}u + row % 8u * 128u);
}
proxy_fence();
group_sync<128>(${barrier});
