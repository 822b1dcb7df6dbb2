/* SPDX-License-Identifier: Apache-2.0
 *
 * bits.h: bitmaps with one bit per byte of some memory.
 *
 * The virtual GPU keeps such a map beside every piece of memory that a kernel
 * can touch: "this byte has been written", "a cp.async to this byte is still
 * in flight".  Bit i of the map is bit (i & 7) of map[i >> 3].  The usual
 * queries are aligned powers of two of at most 16 bytes, which are one load
 * and one compare; everything else takes the general loop.
 */
#ifndef VGPU_BITS_H
#define VGPU_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Mask of the bits [lo, hi) of one map byte, 0 <= lo < hi <= 8. */
static inline unsigned vg_bits_mask(unsigned lo, unsigned hi)
{
    return (0xffu >> (8 - (hi - lo))) << lo;
}

/* Are the n bits from off all set?  n == 0: yes. */
static inline bool vg_bits_all(const unsigned char *map, uint64_t off,
                               uint64_t n)
{
    const unsigned char *p = map + (off >> 3);
    unsigned lo = off & 7;

    if (lo + n <= 8) {
        unsigned m = n ? vg_bits_mask(lo, lo + (unsigned)n) : 0;
        return (*p & m) == m;
    }
    if (lo) {
        if ((*p++ | vg_bits_mask(0, lo)) != 0xff)
            return false;
        n -= 8 - lo;
    }
    for (; n >= 64; n -= 64, p += 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        if (~w)
            return false;
    }
    for (; n >= 8; n -= 8)
        if (*p++ != 0xff)
            return false;
    return n == 0 || (*p | vg_bits_mask((unsigned)n, 8)) == 0xff;
}

/* Is any of the n bits from off set? */
static inline bool vg_bits_any(const unsigned char *map, uint64_t off,
                               uint64_t n)
{
    for (uint64_t i = off, end = off + n; i < end;) {
        unsigned lo = i & 7;
        unsigned hi = end - i < 8 - lo ? lo + (unsigned)(end - i) : 8;

        if (map[i >> 3] & vg_bits_mask(lo, hi))
            return true;
        i += hi - lo;
    }
    return false;
}

/* The first bit in [off, off + n) whose value is not want, or off + n. */
static inline uint64_t vg_bits_find_not(const unsigned char *map, uint64_t off,
                                        uint64_t n, bool want)
{
    uint64_t i = off;

    while (i < off + n && ((map[i >> 3] >> (i & 7)) & 1) == want)
        i++;
    return i;
}

/* Sets the n bits from off.  One writer at a time. */
static inline void vg_bits_set(unsigned char *map, uint64_t off, uint64_t n)
{
    unsigned char *p = map + (off >> 3);
    unsigned lo = off & 7;

    if (!lo && n == 16) {
        memset(p, 0xff, 2);
        return;
    }
    if (lo + n <= 8) {
        *p |= n ? vg_bits_mask(lo, lo + (unsigned)n) : 0;
        return;
    }
    if (lo) {
        *p++ |= vg_bits_mask(lo, 8);
        n -= 8 - lo;
    }
    memset(p, 0xff, n >> 3);
    if (n & 7)
        p[n >> 3] |= vg_bits_mask(0, n & 7);
}

/* Clears the n bits from off.  One writer at a time. */
static inline void vg_bits_clear(unsigned char *map, uint64_t off, uint64_t n)
{
    unsigned char *p = map + (off >> 3);
    unsigned lo = off & 7;

    if (!lo && n == 16) {
        memset(p, 0, 2);
        return;
    }
    if (lo + n <= 8) {
        *p &= n ? ~vg_bits_mask(lo, lo + (unsigned)n) : 0xff;
        return;
    }
    if (lo) {
        *p++ &= ~vg_bits_mask(lo, 8);
        n -= 8 - lo;
    }
    memset(p, 0, n >> 3);
    if (n & 7)
        p[n >> 3] &= ~vg_bits_mask(0, n & 7);
}

/* vg_bits_set for a map that several host threads set bits of: the bytes at
 * the two ends, which a neighbour may share, are updated atomically, and only
 * when they change. */
static inline void vg_bits_set_shared(unsigned char *map, uint64_t off,
                                      uint64_t n)
{
    if (n == 0 || vg_bits_all(map, off, n))
        return;
    for (uint64_t i = off, end = off + n; i < end;) {
        unsigned lo = i & 7;
        unsigned hi = end - i < 8 - lo ? lo + (unsigned)(end - i) : 8;

        if (lo == 0 && end - i >= 8) {
            memset(map + (i >> 3), 0xff, (end - i) >> 3);
            i += (end - i) & ~(uint64_t)7;
        } else {
            __atomic_fetch_or(map + (i >> 3), vg_bits_mask(lo, hi),
                              __ATOMIC_RELAXED);
            i += hi - lo;
        }
    }
}

#endif
