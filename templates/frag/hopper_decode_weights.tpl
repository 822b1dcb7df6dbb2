@ -- SPDX-License-Identifier: Apache-2.0
@ -- P of the tile before `turn` from registers to shared memory, as wgmma reads it: rows of 128
@ -- bytes, swizzled.  Inputs: t, last (the caller has waited for P_FREE).
@ local two = t.buffers == 2
@ local which = two and " + (turn + 1u) % 2u" or ""
{
@ if not last then
    group_sync<${t.threads}>(P_FREE${which});
@ end
    const mla_u32 to = ${t.rounded and "base + WEIGHTS + weights_place()" or "weights_to"}${two and " + 8192u * ((turn + 1u) % 2u)" or ""};
@ for k = 0, 3 do
    put_weights(to${k > 0 and string.format(" ^ %du", 32 * k) or ""}, p${4 * k}, p${4 * k + 1}, p${4 * k + 2}, p${4 * k + 3});
@ end
    proxy_fence();
    group_arrive<${t.threads}>(P_READY${which});
}
