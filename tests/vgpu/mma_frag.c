/* SPDX-License-Identifier: Apache-2.0
 *
 * mma_frag.c: which lane holds which element (PTX ISA 9.7.14.5.7-14).
 *
 * All mma.sync shapes follow one rule.  With lane = 4 g + q and p elements to
 * a register:
 *   A  register r, part i: row g + 8 (r & 1), k = p q + i + 4 p (r >> 1);
 *      m8: row g, k = p q + i + 4 p r
 *   B  k = p q + i + 4 p r, column g
 *   C  element i: row g + 8 (i >> 1), column 2 q + (i & 1)
 */
#include "mma.h"

unsigned vg_frag_a_row(unsigned m, unsigned reg, unsigned lane)
{
    return lane / 4 + (m == 16 ? 8 * (reg & 1) : 0);
}

unsigned vg_frag_a_k(unsigned m, unsigned bits, unsigned reg, unsigned lane,
                     unsigned part)
{
    unsigned p = bits < 32 ? 32 / bits : 1;

    return p * (lane & 3) + part + 4 * p * (m == 16 ? reg >> 1 : reg);
}

unsigned vg_frag_b_k(unsigned bits, unsigned reg, unsigned lane, unsigned part)
{
    unsigned p = bits < 32 ? 32 / bits : 1;

    return p * (lane & 3) + part + 4 * p * reg;
}

unsigned vg_frag_c_row(unsigned i, unsigned lane)
{
    return lane / 4 + 8 * (i >> 1);
}

unsigned vg_frag_c_col(unsigned i, unsigned lane)
{
    return 2 * (lane & 3) + (i & 1);
}
