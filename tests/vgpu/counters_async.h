/* SPDX-License-Identifier: Apache-2.0
 *
 * counters_async.h: the asynchronous part of the counters as JSON.
 */
#ifndef VGPU_COUNTERS_ASYNC_H
#define VGPU_COUNTERS_ASYNC_H

#include "counters.h"

#include <stdio.h>

/* Members "wgmma" to "proxy_warnings" of a counter object (counters.h). */
void vg_counters_put_async(FILE *f, const struct vg_async_counts *c);
uint64_t vg_counters_wgmma_flops(const struct vg_async_counts *c);

#endif
