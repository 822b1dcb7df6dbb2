/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpu.h: what libvgpu.so offers beyond the CUDA driver API.
 *
 * libvgpu.so is a CUDA driver in software.  A program that reaches CUDA by
 * dlopen opens it in place of libcuda.so.1 and finds the driver's own names
 * in it (driver_api.h lists them); these functions are found the same way.
 *
 * Environment, read by cuInit; a bad value makes cuInit return
 * CUDA_ERROR_INVALID_VALUE, and vgpu_report says what is allowed:
 *   VGPU_DEVICE   the profile to be: a100 (default), a10, rtx3090, rtx4090,
 *                 l40s, h100, h200, b200, rtx5090, orin
 *   VGPU_SEED     0 (default): warps and CTAs in order; else the seed of a
 *                 random schedule with the latest legal completion
 *   VGPU_CHECKS   all (default), none, or a list of check names (checks.h);
 *                 "strict" is all and "release", which makes each warp of a
 *                 warpgroup wait for its own part of a wgmma
 *   VGPU_THREADS  host threads that run CTAs; 0 (default): one per core
 *   VGPU_MEMORY   bytes of device memory; default: the profile's
 * VGPU_SEED, VGPU_CHECKS and VGPU_THREADS may change later: each call of
 * cuInit reads them anew.  VGPU_DEVICE and VGPU_MEMORY are read again while
 * no context exists.
 */
#ifndef VGPU_H
#define VGPU_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Why the last call failed: for a failed check several lines with kernel,
 * PTX line, source line and thread; for a module what the PTX front end
 * refused.  "" when nothing has failed yet.  Valid until the next call of
 * any driver function in any thread. */
const char *vgpu_report(void);

/* Counters of all launches since the last reset, as one JSON object.  The
 * caller frees the text; NULL when out of memory. */
char *vgpu_counters_json(void);
void vgpu_counters_reset(void);

/* An allocation that does not count against the device's memory and costs
 * host memory only where it is touched.  Owned by the current context, freed
 * by cuMemFree; 0 on failure. */
unsigned long long vgpu_alloc_sparse(unsigned long long bytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
