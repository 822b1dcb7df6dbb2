/* SPDX-License-Identifier: Apache-2.0
 *
 * counters.h: what a kernel did, in numbers that a regression can diff.
 *
 * Every worker thread counts into its own struct vg_counts; at the end of a
 * launch they are added up, stored under the kernel's name and added to the
 * total since the last reset.  All numbers are sums over warps, so they do
 * not depend on host threads or on the order of execution, except where a
 * kernel itself depends on it (polling loops).
 *
 * JSON (vg_counters_json), one object:
 *   {"launches": [L, ...], "dropped": n, "total": C}
 *   L = C with "kernel", "grid":[x,y,z], "block":[x,y,z], "shared_bytes",
 *       "seed", "device": arch as 80, 90, 120
 *   C = {
 *     "warp_insns", "thread_insns": instructions issued, guarded-off ones
 *         included; "idle_lanes": 32 warp_insns - thread_insns, that is
 *         divergence and partial warps
 *     "class": {"int": n, ...}    warp instructions by enum vg_class
 *     "mma": {"m16n8k16.f32.bf16.bf16.f32": {"count", "flops"}, ...}
 *     "mma_flops": 2 m n k each
 *     "global": {"load": T, "store": T, "atomic": T, "cp_async": T,
 *         "unique_load_sectors", "unique_store_sectors": each sector once
 *             per launch: the floor of DRAM traffic (atomics count in both)
 *         "l1_miss_sectors": load and cp_async.ca sectors that their CTA had
 *             not loaded before, plus all sectors of cp_async.cg and of
 *             loads that bypass L1: traffic behind an L1 that never evicts}
 *     T = {"requests": warp instructions, "bytes": asked for by lanes,
 *         "sectors": 32-byte sectors, each once per request}
 *     "shared": {"load": B, "store": B, "atomic": B, "cp_async": B,
 *         "ldmatrix": B, "stmatrix": B}
 *     B = {"requests", "bytes", "wavefronts", "conflicts"}: wavefronts are
 *         passes through 32 banks of 4 bytes; conflicts are the wavefronts
 *         beyond the one per phase (see vg_wavefronts)
 *     "local": {"load_bytes", "store_bytes"}
 *     "atomics": {"global", "shared"}: lanes
 *     "barriers": warps arriving at bar/barrier; "warp_syncs"; "fences"
 *     "wgmma": {"m64n64k16.f32.bf16.bf16": {"count": warps that issued it (4
 *         per instruction of a warpgroup), "flops"}, ...}; the flops are in
 *         "mma_flops" too
 *     "mma_cycles": wgmma at the dense rate of an SM of sm_90: n / 2 each
 *     "smem_port": {"wgmma_a", "wgmma_b", "tma_write", "tma_read": bytes,
 *         "cycles": all of them at 128 bytes a cycle}: traffic that is not in
 *         "shared"; with its wavefronts it is the port's whole load.  B is
 *         read once per warpgroup.
 *     "tma": {"loads", "multicasts", "load_bytes": delivered, once per
 *         receiving block, "load_sectors": asked of L2, once however many
 *         blocks receive them, "stores", "store_bytes", "store_sectors",
 *         "st_async_bytes"}: tensor and plain bulk copies.  The sectors are
 *         also in unique_*_sectors and l1_miss_sectors.
 *     "mbarrier": {"inits", "arrivals", "waits": that passed, "polls",
 *         "tx_bytes"}
 *     "proxy_warnings": {"unfenced_copy": 16-byte pieces that cp.async wrote
 *         and wgmma or a bulk copy read without a fence.proxy.async,
 *         "unfenced_reuse": pieces that a bulk copy overwrote after ordinary
 *         accesses without one}
 *   }
 */
#ifndef VGPU_COUNTERS_H
#define VGPU_COUNTERS_H

#include "exec.h"
#include "mem.h"

#define VG_SECTOR 32

enum vg_path {
    VG_PATH_LOAD, VG_PATH_STORE, VG_PATH_ATOMIC, VG_PATH_CP_ASYNC,
    VG_PATH_LDMATRIX, VG_PATH_STMATRIX, VG_PATHS
};

/* Global memory, by path. */
struct vg_traffic {
    uint64_t requests, bytes, sectors;
};

/* Shared memory, by path. */
struct vg_banks {
    uint64_t requests, bytes, wavefronts, conflicts;
};

#define VG_MMA_SHAPES 96 /* rows of the table in mma_ops.c, see mma.h */

/* Asynchronous instructions; nothing but uint64_t. */
struct vg_async_counts {
    uint64_t wgmma[16][33];   /* warp instructions by type and n / 8 */
    uint64_t mma_cycles_8;
    uint64_t port_a, port_b, port_tma_write, port_tma_read;
    uint64_t loads, multicasts, load_bytes, load_sectors;
    uint64_t stores, store_bytes, store_sectors, st_async_bytes;
    uint64_t tx_bytes, mbar_inits, mbar_arrivals, mbar_waits, mbar_polls;
    uint64_t unfenced_copy, unfenced_reuse;
};

/* All counters of a worker, a launch or the book; nothing but uint64_t, so
 * that vg_counts_add can treat it as an array. */
struct vg_counts {
    uint64_t warp_insns, thread_insns;
    uint64_t cls[VG_C_COUNT];
    uint64_t mma[VG_MMA_SHAPES];
    struct vg_traffic global[VG_PATH_CP_ASYNC + 1];
    uint64_t unique_load, unique_store, l1_miss;
    struct vg_banks shared[VG_PATHS];
    uint64_t local_load, local_store;
    uint64_t atomic_global, atomic_shared;
    uint64_t barriers, warp_syncs, fences;
    struct vg_async_counts async;
};

/* ---- pure parts --------------------------------------------------------- */

/* The 128-byte lines that one request touches, with a bit per sector. */
struct vg_line {
    uint64_t line;      /* address / 128 */
    unsigned sectors;   /* bits 0-3 */
};

/* Sorts the accesses of a warp (size bytes at addr[lane], lanes of mask) into
 * lines.  out has room for VG_MAX_LINES; returns how many, each line once. */
#define VG_MAX_LINES 64
unsigned vg_lines_of(const uint64_t addr[VG_LANES], uint32_t mask,
                     unsigned size, struct vg_line out[VG_MAX_LINES]);

/* The same for the n <= 32 * 32 contiguous bytes at addr. */
unsigned vg_lines_of_range(uint64_t addr, uint64_t n,
                           struct vg_line out[VG_MAX_LINES]);

/* Wavefronts of one shared-memory request: lanes of mask access size bytes
 * (1, 2, 4, 8 or 16) at off[lane].  The hardware serves up to 4 bytes per
 * lane for 32 lanes at once, 8 bytes for 16 lanes, 16 bytes for 8 lanes: these
 * groups are the phases.  A phase takes as many wavefronts as the busiest of
 * the 32 banks has different words in it; lanes on one word share it.
 * *phases: phases with an active lane, the conflict-free number. */
unsigned vg_wavefronts(const uint32_t off[VG_LANES], uint32_t mask,
                       unsigned size, unsigned *phases);

/* The lines that a CTA has loaded. */
struct vg_line_set {
    uint64_t *slot;     /* line * 16 + sectors; 0 is free */
    uint32_t room, count;
};
void vg_line_set_clear(struct vg_line_set *s);
void vg_line_set_free(struct vg_line_set *s);
/* Adds a line; returns how many of its sectors are new.  Out of memory: all
 * count as new. */
unsigned vg_line_set_add(struct vg_line_set *s, const struct vg_line *l);

/* Marks a request's sectors in one of the allocation's maps (touched or
 * stored); returns how many were not marked.  Threads may race. */
unsigned vg_mark_sectors(unsigned char *map, uint64_t base,
                         const struct vg_line *l);

/* ---- the book ----------------------------------------------------------- */

void vg_counts_add(struct vg_counts *into, const struct vg_counts *c);

/* Adds a finished launch to the book.  Any thread. */
void vg_counters_record(const struct vg_launch *l, const struct vg_counts *c);

/* Empties the book. */
void vg_counters_reset(void);

/* The book as JSON text; the caller frees it.  NULL: out of memory. */
char *vg_counters_json(void);

/* Copies the total. */
void vg_counters_total(struct vg_counts *out);

#endif
