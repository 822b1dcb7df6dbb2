@ -- SPDX-License-Identifier: Apache-2.0
@ -- P from registers to shared memory, as wgmma reads it: rows of 128 bytes, swizzled.  Inputs, as
@ -- text: to, the barrier `ready`, and `free` or false (its place need not be waited for); threads.
{
@ if free then
    group_sync<${threads}>(${free});
@ end
    const mla_u32 to = ${to};
@ for k = 0, 3 do
    put_weights(to${k > 0 and string.format(" ^ %du", 32 * k) or ""}, p${4 * k}, p${4 * k + 1}, p${4 * k + 2}, p${4 * k + 3});
@ end
    proxy_fence();
    group_arrive<${threads}>(${ready});
}
