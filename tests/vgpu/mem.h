/* SPDX-License-Identifier: Apache-2.0
 *
 * mem.h: the virtual GPU's device memory.
 *
 * An allocation is a host mapping plus a device address that has nothing to
 * do with it.  Device addresses come from a counter that only grows, with a
 * quarter of a gibibyte of nothing between two allocations, so
 *   - every access is checked against the exact bounds of one allocation,
 *   - a 32-bit offset gone wrong lands in the gap and not in a neighbour,
 *   - an address is never used twice: a stale pointer names the dead
 *     allocation it belonged to,
 *   - addresses are the same in every run.
 * They are 256-byte aligned, as cuMemAlloc promises, and no better: every
 * allocation starts at an odd multiple of 256.
 *
 * Beside the bytes lies a bit per byte, "this byte has been written", which
 * host copies, memsets and kernels set and kernels' reads check.  Mappings
 * are not reserved, so a "sparse" allocation of tens of gigabytes costs only
 * the pages that are touched.
 *
 * Threads: allocation, release and host transfers lock; lookups may run on
 * any number of threads beside them.  A struct vg_alloc stays valid (though
 * not its bytes) until vg_mem_delete, so kernels may keep pointers to it.
 */
#ifndef VGPU_MEM_H
#define VGPU_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VG_ALLOC_ALIGN 256

enum {
    VG_ALLOC_SPARSE = 1,   /* does not count against the capacity */
    VG_ALLOC_READONLY = 2, /* kernels may not write: const variables */
    VG_ALLOC_INITED = 4    /* starts as written zeros: module variables */
};

struct vg_alloc {
    uint64_t base, size;     /* device address and bytes */
    unsigned char *host;     /* its bytes, NULL once freed */
    unsigned char *init;     /* bit per byte: has been written */
    unsigned char *touched;  /* bit per 32-byte sector, see counters.h: read */
    unsigned char *stored;   /* the same for written sectors */
    unsigned char *prior_read, *prior_stored; /* of the previous launch, when
                                it may still run; else NULL */
    unsigned flags;
    bool live;
    bool counted;            /* touched or stored has bits of this launch */
    char name[72];           /* for messages: "cuMemAlloc #3" */
};

struct vg_mem;

enum vg_mem_status {
    VG_MEM_OK,
    VG_MEM_NOMEM,   /* capacity or address space exhausted */
    VG_MEM_INVALID  /* the address range is not inside one live allocation */
};

/* A device memory of capacity bytes; NULL when the host is out of memory. */
struct vg_mem *vg_mem_new(uint64_t capacity);
void vg_mem_delete(struct vg_mem *m);

/* Makes an allocation of size > 0 bytes and stores its device address.  name
 * is for messages; NULL numbers it ("allocation 7"). */
enum vg_mem_status vg_mem_alloc(struct vg_mem *m, uint64_t size,
                                unsigned flags, const char *name,
                                uint64_t *addr);

/* Releases the allocation that starts at addr. */
enum vg_mem_status vg_mem_free(struct vg_mem *m, uint64_t addr);

/* Host transfers.  They fail, and copy nothing, unless the whole range lies
 * in one live allocation.  Writes mark bytes written; a device-to-device copy
 * copies the marks too, so an unwritten byte stays one. */
enum vg_mem_status vg_mem_write(struct vg_mem *m, uint64_t dst,
                                const void *src, uint64_t n);
enum vg_mem_status vg_mem_read(struct vg_mem *m, void *dst, uint64_t src,
                               uint64_t n);
enum vg_mem_status vg_mem_copy(struct vg_mem *m, uint64_t dst, uint64_t src,
                               uint64_t n);

/* Fills count elements of width 1, 2 or 4 bytes with value. */
enum vg_mem_status vg_mem_set(struct vg_mem *m, uint64_t dst, uint32_t value,
                              unsigned width, uint64_t count);

/* Bytes in use (sparse ones excluded) and the capacity. */
void vg_mem_usage(struct vg_mem *m, uint64_t *used, uint64_t *capacity);

/* The allocation that holds addr, live or dead; NULL when none does.  The
 * caller checks ->live. */
struct vg_alloc *vg_mem_find(struct vg_mem *m, uint64_t addr);

/* Describes an address range that is not inside one live allocation, for a
 * fault message: which allocation is nearest, its size, how far beyond or
 * before it the range reaches, or that it has been freed. */
void vg_mem_describe(struct vg_mem *m, uint64_t addr, uint64_t n, char *out,
                     size_t outsize);

/* Forgets which sectors were touched: called at the start of a launch. */
void vg_mem_clear_touched(struct vg_mem *m);

/* The same, but what the previous launch touched goes to prior_read and
 * prior_stored. */
void vg_mem_keep_touched(struct vg_mem *m);

/* Does [addr, addr + n) lie in a?  Overflow-safe, n >= 1. */
static inline bool vg_alloc_holds(const struct vg_alloc *a, uint64_t addr,
                                  uint64_t n)
{
    return addr - a->base < a->size && n <= a->size - (addr - a->base);
}

#endif
