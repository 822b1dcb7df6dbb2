/* SPDX-License-Identifier: Apache-2.0
 *
 * mem.c: device memory (the design is told in mem.h).
 *
 * The table of allocations is sorted by address because addresses only grow;
 * a lookup is a binary search.  Dead allocations stay in it, without their
 * mappings, so that a use after free can be told from a wild pointer.
 */
#include "mem.h"
#include "bits.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Above the windows of generic addresses (exec.h). */
#define FIRST_ADDRESS (UINT64_C(1) << 47)
#define LAST_ADDRESS (UINT64_C(1) << 62)
#define GAP (UINT64_C(1) << 28)
#define SECTOR 32

struct vg_mem {
    pthread_rwlock_t lock;
    struct vg_alloc **table; /* ascending base */
    size_t count, room;
    uint64_t next, used, capacity;
    unsigned serial;
};

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

static void *map_pages(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

static void drop_prior(struct vg_alloc *a)
{
    if (a->prior_read)
        munmap(a->prior_read, map_bytes(a, SECTOR));
    if (a->prior_stored)
        munmap(a->prior_stored, map_bytes(a, SECTOR));
    a->prior_read = a->prior_stored = NULL;
}

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

/* Index of the last allocation whose base is <= addr, or -1. */
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

static struct vg_alloc *find_locked(struct vg_mem *m, uint64_t addr)
{
    ptrdiff_t i = index_below(m, addr);

    return i >= 0 && vg_alloc_holds(m->table[i], addr, 1) ? m->table[i] : NULL;
}

struct vg_alloc *vg_mem_find(struct vg_mem *m, uint64_t addr)
{
    struct vg_alloc *a;

    pthread_rwlock_rdlock(&m->lock);
    a = find_locked(m, addr);
    pthread_rwlock_unlock(&m->lock);
    return a;
}

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

/* Copies the written marks of n bytes between two places that may overlap. */
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
