@ -- SPDX-License-Identifier: Apache-2.0
@ -- Once all warps of a group are here, its first one sends.  Inputs, as text: barrier, send.
if (thread < 32u) {
    group_sync<128>(${barrier});
    ${send}
} else {
    group_arrive<128>(${barrier});
}
