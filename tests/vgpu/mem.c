/* SPDX-License-Identifier: Apache-2.0
 *
 * mem.c: device memory (the design is told in mem.h).
 *
 * The table of allocations is sorted by address because addresses only grow;
 * a lookup is a binary search.  Dead allocations stay in it, without their
 * mappings, so that a use after free can be told from a wild pointer.
 *
 * Locks: a readers-writer lock guards the table.  Lookups of running kernels
 * take it for reading; allocation, release and host transfers for writing.
 * Kernels write bytes and marks without it: bytes because two blocks that
 * write the same ones race on a GPU as well, marks atomically (bits.h).
 */
#include "mem.h"
#include "bits.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* FIRST_ADDRESS is above the windows of generic addresses (exec.h) and 2^47,
 * so no user-space pointer of x86-64 lies there: host memory handed to a
 * kernel by mistake is found out.  GAP: see mem.h.  SECTOR: the unit in which
 * DRAM and L2 move bytes, one bit of the touched and stored maps. */
#define FIRST_ADDRESS (UINT64_C(1) << 47)
#define LAST_ADDRESS (UINT64_C(1) << 62)
#define GAP (UINT64_C(1) << 28)
#define SECTOR 32

/* next: where the last allocation ended.  used, capacity: bytes, without
 * the sparse allocations.  serial: numbers allocations in messages. */
struct vg_mem {
    pthread_rwlock_t lock;
    struct vg_alloc **table; /* ascending base */
    size_t count, room;
    uint64_t next, used, capacity;
    unsigned serial;
};

/* Nothing is reserved on the host until an allocation is made. */
struct vg_mem *vg_mem_new(uint64_t capacity)
{
    struct vg_mem *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    if (pthread_rwlock_init(&m->lock, NULL)) {
        free(m);
        return NULL;
    }
    m->next = FIRST_ADDRESS;
    m->capacity = capacity;
    return m;
}

/* Bytes of a map with one bit per `unit` bytes of a's memory. */
static size_t map_bytes(const struct vg_alloc *a, unsigned unit)
{
    uint64_t bits = (a->size + unit - 1) / unit;

    return (size_t)(bits / 8 + 8);
}

/* n zero bytes that cost host memory only where they are touched, or NULL.
 * MAP_NORESERVE: a sparse allocation may be larger than the host's memory. */
static void *map_pages(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* Gives up what an earlier launch left for vg_grid_check. */
static void drop_prior(struct vg_alloc *a)
{
    if (a->prior_read)
        munmap(a->prior_read, map_bytes(a, SECTOR));
    if (a->prior_stored)
        munmap(a->prior_stored, map_bytes(a, SECTOR));
    a->prior_read = a->prior_stored = NULL;
}

/* Releases the bytes and all maps; also undoes a map_alloc that got only
 * some of them.  The struct stays: it is the record of a dead allocation. */
static void unmap_alloc(struct vg_alloc *a)
{
    if (a->host)
        munmap(a->host, a->size);
    if (a->init)
        munmap(a->init, map_bytes(a, 1));
    if (a->touched)
        munmap(a->touched, map_bytes(a, SECTOR));
    if (a->stored)
        munmap(a->stored, map_bytes(a, SECTOR));
    drop_prior(a);
    a->host = a->init = a->touched = a->stored = NULL;
    a->live = false;
}

/* Bytes and maps of a new allocation, all zero: no byte is written, no
 * sector touched.  False, and nothing mapped, without host memory. */
static bool map_alloc(struct vg_alloc *a)
{
    a->host = map_pages(a->size);
    a->init = map_pages(map_bytes(a, 1));
    a->touched = map_pages(map_bytes(a, SECTOR));
    a->stored = map_pages(map_bytes(a, SECTOR));
    a->live = true;
    if (a->host && a->init && a->touched && a->stored)
        return true;
    unmap_alloc(a);
    return false;
}

void vg_mem_delete(struct vg_mem *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++) {
        unmap_alloc(m->table[i]);
        free(m->table[i]);
    }
    free(m->table);
    pthread_rwlock_destroy(&m->lock);
    free(m);
}

/* Appends a to the table; its base is above all others. */
static bool append(struct vg_mem *m, struct vg_alloc *a)
{
    if (m->count == m->room) {
        size_t room = m->room ? 2 * m->room : 64;
        void *p = realloc(m->table, room * sizeof *m->table);

        if (!p)
            return false;
        m->table = p;
        m->room = room;
    }
    m->table[m->count++] = a;
    return true;
}

/* The next free address: an odd multiple of 256, behind the gap. */
static uint64_t place(const struct vg_mem *m)
{
    uint64_t unit = 2 * VG_ALLOC_ALIGN;

    return (m->next + GAP + unit - 1) / unit * unit + VG_ALLOC_ALIGN;
}

/* vg_mem_alloc under the writer's lock: a has its size and flags and gets
 * address, memory and name.  On failure m is as before and a the caller's. */
static enum vg_mem_status alloc_locked(struct vg_mem *m, struct vg_alloc *a,
                                       const char *name)
{
    bool counts = !(a->flags & VG_ALLOC_SPARSE);

    a->base = place(m);
    if (a->size > LAST_ADDRESS || a->base > LAST_ADDRESS - a->size)
        return VG_MEM_NOMEM;
    if (counts && a->size > m->capacity - m->used)
        return VG_MEM_NOMEM;
    if (!map_alloc(a))
        return VG_MEM_NOMEM;
    if (!append(m, a)) {
        unmap_alloc(a);
        return VG_MEM_NOMEM;
    }
    m->serial++;
    if (name)
        snprintf(a->name, sizeof a->name, "%s", name);
    else
        snprintf(a->name, sizeof a->name, "allocation %u", m->serial);
    m->next = a->base + a->size;
    m->used += counts ? a->size : 0;
    if (a->flags & VG_ALLOC_INITED)
        vg_bits_set(a->init, 0, a->size);
    return VG_MEM_OK;
}

/* The struct is made outside the lock; the table owns it from success on. */
enum vg_mem_status vg_mem_alloc(struct vg_mem *m, uint64_t size,
                                unsigned flags, const char *name,
                                uint64_t *addr)
{
    struct vg_alloc *a;
    enum vg_mem_status st;

    *addr = 0;
    if (size == 0)
        return VG_MEM_INVALID;
    a = calloc(1, sizeof *a);
    if (!a)
        return VG_MEM_NOMEM;
    a->size = size;
    a->flags = flags;
    pthread_rwlock_wrlock(&m->lock);
    st = alloc_locked(m, a, name);
    pthread_rwlock_unlock(&m->lock);
    if (st == VG_MEM_OK)
        *addr = a->base;
    else
        free(a);
    return st;
}

/* Index of the last allocation whose base is <= addr, or -1.  With it and
 * the one behind it all neighbours of an address are known. */
static ptrdiff_t index_below(const struct vg_mem *m, uint64_t addr)
{
    size_t lo = 0, hi = m->count;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (m->table[mid]->base <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return (ptrdiff_t)lo - 1;
}

/* vg_mem_find for callers that hold the lock, for reading at least. */
static struct vg_alloc *find_locked(struct vg_mem *m, uint64_t addr)
{
    ptrdiff_t i = index_below(m, addr);

    return i >= 0 && vg_alloc_holds(m->table[i], addr, 1) ? m->table[i] : NULL;
}

/* The result outlives the lock: structs die only with the memory, and a
 * kernel that races a cuMemFree sees ->live go. */
struct vg_alloc *vg_mem_find(struct vg_mem *m, uint64_t addr)
{
    struct vg_alloc *a;

    pthread_rwlock_rdlock(&m->lock);
    a = find_locked(m, addr);
    pthread_rwlock_unlock(&m->lock);
    return a;
}

/* Only the exact start of a live allocation will do, as for cuMemFree: a
 * second release finds it dead, a pointer into it is refused. */
enum vg_mem_status vg_mem_free(struct vg_mem *m, uint64_t addr)
{
    enum vg_mem_status st = VG_MEM_INVALID;
    struct vg_alloc *a;

    pthread_rwlock_wrlock(&m->lock);
    a = find_locked(m, addr);
    if (a && a->live && a->base == addr) {
        m->used -= a->flags & VG_ALLOC_SPARSE ? 0 : a->size;
        unmap_alloc(a);
        st = VG_MEM_OK;
    }
    pthread_rwlock_unlock(&m->lock);
    return st;
}

/* The live allocation that holds the whole range, or NULL.  A range of no
 * bytes needs an allocation too. */
static struct vg_alloc *range_locked(struct vg_mem *m, uint64_t addr,
                                     uint64_t n)
{
    struct vg_alloc *a = find_locked(m, addr);

    return a && a->live && vg_alloc_holds(a, addr, n ? n : 1) ? a : NULL;
}

/* The writer's lock also for bytes: the marks next to them are bytes that
 * two writers may share. */
enum vg_mem_status vg_mem_write(struct vg_mem *m, uint64_t dst,
                                const void *src, uint64_t n)
{
    struct vg_alloc *a;

    pthread_rwlock_wrlock(&m->lock);
    a = range_locked(m, dst, n);
    if (a) {
        memcpy(a->host + (dst - a->base), src, n);
        vg_bits_set(a->init, dst - a->base, n);
    }
    pthread_rwlock_unlock(&m->lock);
    return a ? VG_MEM_OK : VG_MEM_INVALID;
}

/* Bytes that were never written read as the zeros they are: the host may
 * copy a padded buffer whole; only kernels are told off. */
enum vg_mem_status vg_mem_read(struct vg_mem *m, void *dst, uint64_t src,
                               uint64_t n)
{
    struct vg_alloc *a;

    pthread_rwlock_rdlock(&m->lock);
    a = range_locked(m, src, n);
    if (a)
        memcpy(dst, a->host + (src - a->base), n);
    pthread_rwlock_unlock(&m->lock);
    return a ? VG_MEM_OK : VG_MEM_INVALID;
}

/* Copies the written marks of n bytes between two places that may overlap:
 * from the far end where the destination lies above the source, as memmove
 * does.  A source written throughout, the usual case, needs no loop. */
static void copy_marks(struct vg_alloc *d, uint64_t doff,
                       const struct vg_alloc *s, uint64_t soff, uint64_t n)
{
    bool down = d == s && doff > soff;

    if (vg_bits_all(s->init, soff, n)) {
        vg_bits_set(d->init, doff, n);
        return;
    }
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = down ? n - 1 - k : k;

        if (vg_bits_all(s->init, soff + i, 1))
            vg_bits_set(d->init, doff + i, 1);
        else
            vg_bits_clear(d->init, doff + i, 1);
    }
}

/* Both ranges are looked up before a byte moves. */
enum vg_mem_status vg_mem_copy(struct vg_mem *m, uint64_t dst, uint64_t src,
                               uint64_t n)
{
    struct vg_alloc *d, *s;

    pthread_rwlock_wrlock(&m->lock);
    d = range_locked(m, dst, n);
    s = range_locked(m, src, n);
    if (d && s) {
        memmove(d->host + (dst - d->base), s->host + (src - s->base), n);
        copy_marks(d, dst - d->base, s, src - s->base, n);
    }
    pthread_rwlock_unlock(&m->lock);
    return d && s ? VG_MEM_OK : VG_MEM_INVALID;
}

/* The division is the overflow check of width * count. */
enum vg_mem_status vg_mem_set(struct vg_mem *m, uint64_t dst, uint32_t value,
                              unsigned width, uint64_t count)
{
    uint64_t n = width * count;
    struct vg_alloc *a;

    if (count && n / count != width)
        return VG_MEM_INVALID;
    pthread_rwlock_wrlock(&m->lock);
    a = range_locked(m, dst, n);
    if (a) {
        unsigned char *p = a->host + (dst - a->base);

        if (width == 1)
            memset(p, (int)value, n);
        else
            for (uint64_t i = 0; i < n; i += width)
                memcpy(p + i, &value, width);
        vg_bits_set(a->init, dst - a->base, n);
    }
    pthread_rwlock_unlock(&m->lock);
    return a ? VG_MEM_OK : VG_MEM_INVALID;
}

void vg_mem_usage(struct vg_mem *m, uint64_t *used, uint64_t *capacity)
{
    pthread_rwlock_rdlock(&m->lock);
    *used = m->used;
    *capacity = m->capacity;
    pthread_rwlock_unlock(&m->lock);
}

/* Says where [addr, addr + n) lies relative to a, the nearest below it, or
 * before b, the nearest above it.  Either may be NULL. */
static void describe_near(const struct vg_alloc *a, const struct vg_alloc *b,
                          uint64_t addr, uint64_t n, char *out, size_t size)
{
    if (a && addr - a->base < a->size && !a->live)
        snprintf(out, size,
                 "%" PRIu64 " bytes into %s (%" PRIu64
                 " bytes at 0x%" PRIx64 "), which has been freed",
                 addr - a->base, a->name, a->size, a->base);
    else if (a && addr - a->base < a->size + GAP)
        snprintf(out, size,
                 "%" PRIu64 " bytes beyond the end of %s (%" PRIu64
                 " bytes at 0x%" PRIx64 "%s)",
                 addr + n - (a->base + a->size), a->name, a->size, a->base,
                 a->live ? "" : ", freed");
    else if (b && b->base - addr < GAP)
        snprintf(out, size,
                 "%" PRIu64 " bytes before the start of %s (%" PRIu64
                 " bytes at 0x%" PRIx64 "%s)",
                 b->base - addr, b->name, b->size, b->base,
                 b->live ? "" : ", freed");
    else
        snprintf(out, size, "no allocation is near");
}

/* Two candidates, the allocation below and the one above; the nearer end
 * wins, for the one below by default. */
void vg_mem_describe(struct vg_mem *m, uint64_t addr, uint64_t n, char *out,
                     size_t outsize)
{
    const struct vg_alloc *a, *b;
    ptrdiff_t i;

    pthread_rwlock_rdlock(&m->lock);
    i = index_below(m, addr);
    a = i >= 0 ? m->table[i] : NULL;
    b = i + 1 < (ptrdiff_t)m->count ? m->table[i + 1] : NULL;
    if (a && b && addr - a->base >= a->size &&
        b->base - addr < addr - (a->base + a->size))
        a = NULL;
    describe_near(a, b, addr, n, out, outsize);
    pthread_rwlock_unlock(&m->lock);
}

/* MADV_DONTNEED gives zero pages back without touching them: a map of tens
 * of gigabytes costs what the last launch touched and no more. */
void vg_mem_clear_touched(struct vg_mem *m)
{
    pthread_rwlock_wrlock(&m->lock);
    for (size_t i = 0; i < m->count; i++) {
        struct vg_alloc *a = m->table[i];

        drop_prior(a);
        if (a->live && a->counted) {
            madvise(a->touched, map_bytes(a, SECTOR), MADV_DONTNEED);
            madvise(a->stored, map_bytes(a, SECTOR), MADV_DONTNEED);
            a->counted = false;
        }
    }
    pthread_rwlock_unlock(&m->lock);
}

/* The old maps become the prior ones, new ones take their place.  Without
 * host memory for them nothing is kept. */
static void keep_prior(struct vg_alloc *a)
{
    unsigned char *read = map_pages(map_bytes(a, SECTOR));
    unsigned char *stored = map_pages(map_bytes(a, SECTOR));

    if (read && stored) {
        a->prior_read = a->touched;
        a->prior_stored = a->stored;
        a->touched = read;
        a->stored = stored;
        return;
    }
    if (read)
        munmap(read, map_bytes(a, SECTOR));
    if (stored)
        munmap(stored, map_bytes(a, SECTOR));
}

/* For a grid that may overlap the one before (programmatic launch): only one
 * predecessor is kept, since a grid can overlap no more than that one. */
void vg_mem_keep_touched(struct vg_mem *m)
{
    pthread_rwlock_wrlock(&m->lock);
    for (size_t i = 0; i < m->count; i++) {
        struct vg_alloc *a = m->table[i];

        drop_prior(a);
        if (a->live && a->counted)
            keep_prior(a);
        a->counted = false;
    }
    pthread_rwlock_unlock(&m->lock);
}
