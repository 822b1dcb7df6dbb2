/* SPDX-License-Identifier: Apache-2.0
 *
 * alu.h: shapes of arithmetic handlers.
 *
 * Most instructions compute r = EXPR(x, y, z) lane by lane.  The macros below
 * write such a handler: sources are rows op[1], op[2], op[3], the result row
 * is op[0].  The loop has 32 rounds, no branch and a local result, which is
 * what makes compilers vectorise it; the store honours the mask.
 */
#ifndef VGPU_ALU_H
#define VGPU_ALU_H

#include "lower.h"

#define VG_ROW(T, n) ((T *)vg_row(w, i->op[n]))
#define VG_HANDLER(name)                                                      \
    static void name(struct vg_warp *w, const struct vg_insn *i,              \
                     uint32_t mask)

/* Stores r, an array of 32 elements of 16, 32 or 64 bits, to row op[n]. */
#define VG_PUT(n, r)                                                          \
    do {                                                                      \
        void *row_ = vg_row(w, i->op[n]);                                     \
        if (sizeof (r)[0] == 2)                                               \
            vg_put16(row_, (const void *)(r), mask);                          \
        else if (sizeof (r)[0] == 4)                                          \
            vg_put32(row_, (const void *)(r), mask);                          \
        else                                                                  \
            vg_put64(row_, (const void *)(r), mask);                          \
    } while (0)

#define VG_UNARY(name, R, T, EXPR)                                            \
    VG_HANDLER(name)                                                          \
    {                                                                         \
        const T *a_ = VG_ROW(const T, 1);                                     \
        R r_[VG_LANES];                                                       \
        for (int l_ = 0; l_ < VG_LANES; l_++) {                               \
            T x = a_[l_];                                                     \
            r_[l_] = (R)(EXPR);                                               \
        }                                                                     \
        VG_PUT(0, r_);                                                        \
    }

/* The second source may have another type (shift counts are 32 bits). */
#define VG_BINARY2(name, R, T, T2, EXPR)                                      \
    VG_HANDLER(name)                                                          \
    {                                                                         \
        const T *a_ = VG_ROW(const T, 1);                                     \
        const T2 *b_ = VG_ROW(const T2, 2);                                   \
        R r_[VG_LANES];                                                       \
        for (int l_ = 0; l_ < VG_LANES; l_++) {                               \
            T x = a_[l_];                                                     \
            T2 y = b_[l_];                                                    \
            r_[l_] = (R)(EXPR);                                               \
        }                                                                     \
        VG_PUT(0, r_);                                                        \
    }
#define VG_BINARY(name, R, T, EXPR) VG_BINARY2(name, R, T, T, EXPR)

#define VG_TERNARY2(name, R, T, T2, T3, EXPR)                                 \
    VG_HANDLER(name)                                                          \
    {                                                                         \
        const T *a_ = VG_ROW(const T, 1);                                     \
        const T2 *b_ = VG_ROW(const T2, 2);                                   \
        const T3 *c_ = VG_ROW(const T3, 3);                                   \
        R r_[VG_LANES];                                                       \
        for (int l_ = 0; l_ < VG_LANES; l_++) {                               \
            T x = a_[l_];                                                     \
            T2 y = b_[l_];                                                    \
            T3 z = c_[l_];                                                    \
            r_[l_] = (R)(EXPR);                                               \
        }                                                                     \
        VG_PUT(0, r_);                                                        \
    }
#define VG_TERNARY(name, R, T, EXPR) VG_TERNARY2(name, R, T, T, T, EXPR)

/* Rows of function tables are indexed by vg_int_index. */
enum { VG_IU16, VG_IS16, VG_IU32, VG_IS32, VG_IU64, VG_IS64, VG_INTS };
/* u16 .. s64 (b types count as unsigned) to the index, or -1. */
int vg_int_index(enum vg_type t);

/* Appends d, then nsrc sources, all of `bits`, and sets the handler; NULL is
 * the error "no such type". */
bool vg_simple(struct vg_dec *d, vg_fn *fn, unsigned bits, int nsrc);

#endif
