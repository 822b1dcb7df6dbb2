/* SPDX-License-Identifier: Apache-2.0
 *
 * traffic.c: how a warp's accesses fall into sectors and banks.
 *
 * Pure arithmetic on addresses; counters.h has the definitions.
 *
 * Examples.  32 lanes that load consecutive words touch one line, four
 * sectors, one wavefront.  At a stride of 128 bytes they touch 32 lines with
 * a sector each in global memory, and in shared memory one bank 32 times: 32
 * wavefronts, 31 of them conflicts.
 */
#include "counters.h"

#include <stdlib.h>

/* An L1 line and the 32 banks are both 128 bytes wide: four sectors. */
#define LINE 128

/* Adds sectors to a line of the list, the most recent lines first: neighbour
 * lanes are on one line more often than not.  Returns the new length. */
static unsigned add_line(struct vg_line *out, unsigned n, uint64_t line,
                         unsigned sectors)
{
    for (unsigned k = n; k--;)
        if (out[k].line == line) {
            out[k].sectors |= sectors;
            return n;
        }
    out[n] = (struct vg_line){line, sectors};
    return n + 1;
}

/* Sectors of one line that [addr, addr + n) covers, both in that line. */
static unsigned sector_mask(uint64_t addr, unsigned n)
{
    unsigned first = (unsigned)(addr % LINE) / VG_SECTOR;
    unsigned last = (unsigned)((addr % LINE) + n - 1) / VG_SECTOR;

    return ((2u << last) - 1) & ~((1u << first) - 1);
}

/* An access may straddle two lines, so 32 lanes can touch 64. */
unsigned vg_lines_of(const uint64_t addr[VG_LANES], uint32_t mask,
                     unsigned size, struct vg_line out[VG_MAX_LINES])
{
    unsigned n = 0;

    for (; mask; mask &= mask - 1) {
        uint64_t a = addr[__builtin_ctz(mask)], left = size;

        while (left) {
            uint64_t part = LINE - a % LINE;

            if (part > left)
                part = left;
            n = add_line(out, n, a / LINE, sector_mask(a, (unsigned)part));
            a += part;
            left -= part;
        }
    }
    return n;
}

/* Every line of a contiguous range is new, so none need be looked for. */
unsigned vg_lines_of_range(uint64_t addr, uint64_t n,
                           struct vg_line out[VG_MAX_LINES])
{
    unsigned lines = 0;

    while (n) {
        uint64_t part = LINE - addr % LINE;

        if (part > n)
            part = n;
        out[lines].line = addr / LINE;
        out[lines++].sectors = sector_mask(addr, (unsigned)part);
        addr += part;
        n -= part;
    }
    return lines;
}

/* Wavefronts of one phase: the largest number of different words that fall
 * into one bank.  At most 32 words. */
static unsigned phase_wavefronts(const uint32_t *word, unsigned n)
{
    uint32_t seen[32][32];
    unsigned count[32] = {0}, most = 0;

    for (unsigned k = 0; k < n; k++) {
        unsigned bank = word[k] & 31, m = 0;

        while (m < count[bank] && seen[bank][m] != word[k])
            m++;
        if (m == count[bank])
            seen[bank][count[bank]++] = word[k];
        if (count[bank] > most)
            most = count[bank];
    }
    return most;
}

/* The common case of wide accesses: lanes of a phase that are aligned to size
 * and fill different parts of the 128 bytes that the banks are wide.  Then no
 * bank is asked twice, whatever the lines. */
static bool parts_differ(const uint32_t *off, uint32_t lanes, unsigned size)
{
    uint32_t seen = 0, low = 0, m = lanes;

    for (; m; m &= m - 1) {
        uint32_t o = off[__builtin_ctz(m)];

        low |= o;
        seen |= 1u << (o / size & (LINE / size - 1));
    }
    return !(low & (size - 1)) &&
           __builtin_popcount(seen) == __builtin_popcount(lanes);
}

/* A phase without active lanes costs nothing. */
unsigned vg_wavefronts(const uint32_t off[VG_LANES], uint32_t mask,
                       unsigned size, unsigned *phases)
{
    unsigned words = size > 4 ? size / 4 : 1, lanes = VG_LANES / words;
    unsigned total = 0;

    *phases = 0;
    for (unsigned first = 0; first < VG_LANES; first += lanes) {
        uint32_t all = lanes == VG_LANES ? VG_ALL : (1u << lanes) - 1;
        uint32_t active = mask & all << first, word[VG_LANES];
        unsigned n = 0;

        if (!active)
            continue;
        ++*phases;
        if (size >= 4 && parts_differ(off, active, size)) {
            total++;
            continue;
        }
        for (uint32_t m = active; m; m &= m - 1)
            for (unsigned k = 0; k < words; k++)
                word[n++] = off[__builtin_ctz(m)] / 4 + k;
        total += phase_wavefronts(word, n);
    }
    return total;
}

/* ---- sets of sectors ---------------------------------------------------- */

/* The table keeps its size: the CTAs of a launch load alike. */
void vg_line_set_clear(struct vg_line_set *s)
{
    if (s->count)
        memset(s->slot, 0, s->room * sizeof *s->slot);
    s->count = 0;
}

void vg_line_set_free(struct vg_line_set *s)
{
    free(s->slot);
    *s = (struct vg_line_set){0};
}

/* The slot of a line, or the free slot where it belongs. */
static uint64_t *find_slot(const struct vg_line_set *s, uint64_t line)
{
    uint64_t h = line * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    uint32_t i = (uint32_t)h & (s->room - 1);

    while (s->slot[i] && s->slot[i] >> 4 != line)
        i = (i + 1) & (s->room - 1);
    return &s->slot[i];
}

/* Doubles the table; it stays at most half full, so probes are short.  On
 * failure the set is as it was. */
static bool grow_set(struct vg_line_set *s)
{
    struct vg_line_set big = {.room = s->room ? 2 * s->room : 1024};

    big.slot = calloc(big.room, sizeof *big.slot);
    if (!big.slot)
        return false;
    for (uint32_t i = 0; i < s->room; i++)
        if (s->slot[i])
            *find_slot(&big, s->slot[i] >> 4) = s->slot[i];
    big.count = s->count;
    free(s->slot);
    *s = big;
    return true;
}

/* slot = line << 4 | sectors: line 0, which would look free, cannot occur,
 * since device addresses start far above it (mem.c). */
unsigned vg_line_set_add(struct vg_line_set *s, const struct vg_line *l)
{
    uint64_t *slot;
    unsigned fresh;

    if (2 * s->count >= s->room && !grow_set(s))
        return (unsigned)__builtin_popcount(l->sectors);
    slot = find_slot(s, l->line);
    if (!*slot) {
        *slot = l->line << 4;
        s->count++;
    }
    fresh = l->sectors & ~(unsigned)(*slot & 15);
    *slot |= l->sectors;
    return (unsigned)__builtin_popcount(fresh);
}

/* Bits of one line never leave a map byte: allocations start at 256 bytes,
 * a line is four bits, and 8 is a multiple of it.  The plain load first saves
 * the atomic where another warp has been. */
unsigned vg_mark_sectors(unsigned char *map, uint64_t base,
                         const struct vg_line *l)
{
    uint64_t bit = (l->line * LINE - base) / VG_SECTOR;
    unsigned char *p = map + bit / 8;
    unsigned m = l->sectors << (bit & 7), old;

    if ((__atomic_load_n(p, __ATOMIC_RELAXED) & m) == m)
        return 0;
    old = __atomic_fetch_or(p, (unsigned char)m, __ATOMIC_RELAXED);
    return (unsigned)__builtin_popcount(m & ~old);
}
