/* SPDX-License-Identifier: Apache-2.0
 *
 * wgmma_desc.c: matrix descriptors of wgmma (PTX ISA 9.7.15.5.1).
 *
 *   bits  0-13  start address / 16       16-29  leading dimension offset / 16
 *        32-45  stride offset / 16       49-51  base offset
 *        62-63  swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes
 *
 * The unit is the core matrix, eight rows of 16 bytes.  Swizzling XORs
 * address bits 4-6 with bits 7-9 (128 bytes; fewer for less) of the absolute
 * address, which is why software may step through a row by adding to the
 * start address.  A pattern repeats every 1024, 512 or 256 bytes; matrices
 * start at a repeat, and a base offset is what they would need otherwise.
 */
#include "wgmma.h"

#include <stdio.h>

#define RESERVED UINT64_C(0x3ff1c000c000c000)

/* Bits that no field owns must be 0: a descriptor put together wrongly, for
 * instance with an address above 18 bits, shows there first. */
bool vg_desc_read(uint64_t v, struct vg_desc *d, char *err, size_t n)
{
    static const uint8_t mask[] = {0, 7, 3, 1};
    unsigned mode = (unsigned)(v >> 62), base = v >> 49 & 7;

    d->start = (uint32_t)(v & 0x3fff) << 4;
    d->leading = (uint32_t)(v >> 16 & 0x3fff) << 4;
    d->stride = (uint32_t)(v >> 32 & 0x3fff) << 4;
    d->bits = mask[mode];
    d->width = 16 * (d->bits + 1);
    if (v & RESERVED) {
        snprintf(err, n, "descriptor 0x%016llx has reserved bits set",
                 (unsigned long long)v);
        return false;
    }
    if (base) {
        snprintf(err, n, "descriptor 0x%016llx has base offset %u: matrices "
                 "must start at a repeat of the swizzle pattern here",
                 (unsigned long long)v, base);
        return false;
    }
    if (d->start >> 7 & d->bits) {
        snprintf(err, n, "descriptor 0x%016llx: start address 0x%x is not at "
                 "a repeat (%u bytes) of the swizzle pattern and the base "
                 "offset is 0", (unsigned long long)v, d->start,
                 8 * d->width);
        return false;
    }
    return true;
}

static uint32_t place(const struct vg_desc *d, uint32_t off)
{
    uint32_t at = d->start + off;

    return at ^ (at >> 7 & d->bits) << 4;
}

/* half: the first or second 16 bytes of a K step.  Under a swizzle they are
 * neighbours in the row; without one they are `leading` apart. */
uint32_t vg_desc_k_major(const struct vg_desc *d, unsigned mn, unsigned half)
{
    return place(d, mn % 8 * d->width + mn / 8 * d->stride +
                        half * (d->bits ? 16 : d->leading));
}

/* part: eight columns (16 bytes) of MN.  Under a swizzle a row holds `width`
 * bytes of them, and the next block of columns is `leading` away. */
uint32_t vg_desc_mn_major(const struct vg_desc *d, unsigned k, unsigned part)
{
    uint32_t byte = 16 * part;

    if (!d->bits)
        return place(d, part * d->stride + k % 8 * 16 + k / 8 * d->leading);
    return place(d, byte % d->width + byte / d->width * d->leading +
                        k % 8 * d->width + k / 8 * d->stride);
}
