/* SPDX-License-Identifier: Apache-2.0
 *
 * matrix.c: ldmatrix, stmatrix, movmatrix (PTX ISA 9.7.14.5.15 to .17).
 *
 * Shape m8n8, b16: lane 8 j + r gives the address of row r of matrix j, 16
 * bytes.  With lane = 4 g + q, register j of a lane holds the elements of row
 * g, columns 2 q and 2 q + 1; with .trans those of column g, rows 2 q and
 * 2 q + 1.  The b8 and sub-byte shapes of sm_100 are refused by name.
 *
 * For the race detector the lane that receives (sends) a word of row g is the
 * one that reads (writes) it, .trans or not.
 *
 *     lane          0      1      2      3      4  ...
 *     plain         (0,0)  (0,2)  (0,4)  (0,6)  (1,0)    row, first column
 *     .trans        (0,0)  (2,0)  (4,0)  (6,0)  (0,1)    first row, column
 */
#include "mem_ops.h"

/* One ldmatrix or stmatrix, decoded. */
struct matrix {
    enum ptx_space space;
    uint8_t n;          /* registers per lane */
    bool trans;
};

/* Rows that a warp names: the first 8 n lanes give addresses. */
static uint32_t row_lanes(const struct matrix *x)
{
    return x->n == 4 ? VG_ALL : (1u << 8 * x->n) - 1;
}

/* Guarded-off lanes would leave holes in everybody's registers. */
static void need_whole_warp(struct vg_warp *w, const struct vg_insn *i,
                            uint32_t mask)
{
    if (w->live & ~mask)
        vg_fault(w, i, __builtin_ctz(w->live & ~mask), VG_FAILED,
                 ".aligned instruction without all lanes of the warp");
}

/* Checks the rows; off[l] of the touch are their offsets afterwards. */
static void touch_rows(struct vg_touch *t, const struct matrix *x,
                       const struct vg_how *how)
{
    uint32_t lanes = row_lanes(x);

    vg_touch(t, lanes, how);
    if (t->owner != t->w->cta || t->mask != lanes)
        vg_fault(t->w, t->i, __builtin_ctz(lanes & ~t->mask ? lanes & ~t->mask
                                                            : lanes),
                 VG_ILLEGAL_ADDRESS,
                 "a row is not in the block's own shared memory");
}

/* The words of matrix j by receiving lane. */
static void check_words(struct vg_touch *t, unsigned j,
                        const struct vg_how *how, const unsigned char *values)
{
    struct vg_how word = *how;
    uint32_t off[VG_LANES];

    if (!t->cta->race)
        return;
    for (unsigned l = 0; l < VG_LANES; l++)
        off[l] = (uint32_t)t->off[8 * j + l / 4] + 4 * (l & 3);
    word.values = values;
    vg_touch_race(t, VG_ALL, off, 4, &word);
}

/* ---- ldmatrix ----------------------------------------------------------- */

/* By memcpy: the memory has no C type. */
static uint32_t half_at(const unsigned char *p)
{
    uint16_t h;

    memcpy(&h, p, sizeof h);
    return h;
}

/* Matrix j into register j of all lanes; t->off has the rows. */
static void load_matrix(const struct vg_touch *t, unsigned j, bool trans,
                        uint32_t out[VG_LANES])
{
    for (unsigned l = 0; l < VG_LANES; l++) {
        unsigned g = l / 4, q = l & 3;
        const uint64_t *row = &t->off[8 * j];

        if (trans)
            out[l] = half_at(t->base + row[2 * q] + 2 * g) |
                     half_at(t->base + row[2 * q + 1] + 2 * g) << 16;
        else
            memcpy(&out[l], t->base + row[g] + 4 * q, 4);
    }
}

/* op: n destinations, address.  All matrices are read before any register is
 * written: a destination may be the address row. */
static void ldmatrix(struct vg_warp *w, const struct vg_insn *i,
                     uint32_t mask)
{
    const struct matrix *x = i->aux;
    uint32_t v[4][VG_LANES];
    struct vg_touch t;
    struct vg_how how = {
        .space = x->space,
        .dir = VG_TOUCH_READ,
        .path = VG_PATH_LDMATRIX,
        .race = VG_RACE_COLLECTIVE,
        .race_later = true,
    };

    need_whole_warp(w, i, mask);
    vg_touch_begin(&t, w, i, x->n, 16);
    touch_rows(&t, x, &how);
    for (unsigned j = 0; j < x->n; j++) {
        check_words(&t, j, &how, NULL);
        load_matrix(&t, j, x->trans, v[j]);
    }
    for (unsigned j = 0; j < x->n; j++)
        vg_put32(vg_row(w, i->op[j]), v[j], mask);
}

/* ---- stmatrix ----------------------------------------------------------- */

/* Rows of matrix j from register v: row[r][0..16). */
static void fill_rows(const uint32_t v[VG_LANES], bool trans,
                      unsigned char row[8][16])
{
    for (unsigned l = 0; l < VG_LANES; l++) {
        unsigned g = l / 4, q = l & 3;
        uint16_t lo = (uint16_t)v[l], hi = (uint16_t)(v[l] >> 16);

        if (!trans) {
            memcpy(&row[g][4 * q], &v[l], 4);
        } else {
            memcpy(&row[2 * q][2 * g], &lo, 2);
            memcpy(&row[2 * q + 1][2 * g], &hi, 2);
        }
    }
}

/* op: address, n sources.  Matrix by matrix, so that two rows at one address
 * race as two writes do. */
static void stmatrix(struct vg_warp *w, const struct vg_insn *i,
                     uint32_t mask)
{
    const struct matrix *x = i->aux;
    struct vg_touch t;
    struct vg_how how = {
        .space = x->space,
        .dir = VG_TOUCH_WRITE,
        .path = VG_PATH_STMATRIX,
        .race_later = true,
    };

    need_whole_warp(w, i, mask);
    vg_touch_begin(&t, w, i, 0, 16);
    touch_rows(&t, x, &how);
    for (unsigned j = 0; j < x->n; j++) {
        unsigned char row[8][16];

        fill_rows(vg_row(w, i->op[1 + j]), x->trans, row);
        check_words(&t, j, &how, row[0]);
        for (unsigned r = 0; r < 8; r++)
            memcpy(t.base + t.off[8 * j + r], row[r], 16);
    }
    vg_progress(w);
}

/* ---- movmatrix ---------------------------------------------------------- */

/* op: destination, source.  A transposition through rows that are in no
 * memory. */
static void movmatrix(struct vg_warp *w, const struct vg_insn *i,
                      uint32_t mask)
{
    unsigned char row[8][16];
    uint32_t v[VG_LANES];

    need_whole_warp(w, i, mask);
    fill_rows(vg_row(w, i->op[1]), true, row);
    for (unsigned l = 0; l < VG_LANES; l++)
        memcpy(&v[l], &row[l / 4][4 * (l & 3)], 4);
    vg_put32(vg_row(w, i->op[0]), v, mask);
}

/* ---- decoding ----------------------------------------------------------- */

/* The words of ldmatrix and stmatrix, in any order; NULL after an error. */
static struct matrix *begin(struct vg_dec *d)
{
    static const uint8_t count[] = {1, 2, 4};
    struct matrix *x = vg_keep(d, sizeof *x);
    bool shape;
    int n;

    if (!x) {
        vg_error(d, "out of memory");
        return NULL;
    }
    vg_mod(d, "sync");
    vg_mod(d, "aligned");
    shape = vg_mod(d, "m8n8");
    n = vg_mod_of(d, "x1|x2|x4");
    x->trans = vg_mod(d, "trans");
    x->space = vg_mod_of(d, "shared|shared::cta") < 0 ? PTX_GENERIC
                                                      : PTX_SHARED;
    if (!shape || n < 0) {
        vg_error(d, "only shape m8n8 with a count of x1, x2 or x4");
        return NULL;
    }
    x->n = count[n];
    d->out->kind = VG_ALIGNED;
    d->out->aux = x;
    return x;
}

/* Of all forms of m8n8. */
static bool check_type(struct vg_dec *d)
{
    enum vg_type type;

    return vg_need_type(d, &type) &&
           (type == VG_B16 || vg_error(d, "only type .b16"));
}

/* Appends the n registers of vector operand k. */
static bool registers(struct vg_dec *d, const struct matrix *x, int k,
                      bool out)
{
    if (!vg_has(d, k) || vg_elems(d, k) != x->n)
        return vg_error(d, "operand %d has not %d registers", k + 1, x->n);
    for (int e = 0; e < x->n; e++) {
        int at = d->in->op[k].kind == PTX_OP_VEC ? e : -1;

        if (!(out ? vg_out(d, k, at, 32) : vg_in(d, k, at, 32)))
            return false;
    }
    return true;
}

/* ldmatrix.sync.aligned.m8n8.xN{.trans}{.shared}.b16 {r...}, [a] */
bool vg_decode_ldmatrix(struct vg_dec *d)
{
    struct matrix *x = begin(d);

    d->out->fn = ldmatrix;
    return x && check_type(d) && registers(d, x, 0, true) &&
           vg_in_address(d, 1, &x->space);
}

/* stmatrix.sync.aligned.m8n8.xN{.trans}{.shared}.b16 [a], {r...} */
bool vg_decode_stmatrix(struct vg_dec *d)
{
    struct matrix *x = begin(d);

    d->out->fn = stmatrix;
    return x && check_type(d) && vg_in_address(d, 0, &x->space) &&
           registers(d, x, 1, false);
}

/* movmatrix.sync.aligned.m8n8.trans.b16 d, a */
bool vg_decode_movmatrix(struct vg_dec *d)
{
    vg_mod(d, "sync");
    vg_mod(d, "aligned");
    if (!vg_mod(d, "m8n8") || !vg_mod(d, "trans"))
        return vg_error(d, "only .m8n8.trans");
    d->out->fn = movmatrix;
    d->out->kind = VG_ALIGNED;
    return check_type(d) && vg_out(d, 0, -1, 32) && vg_in(d, 1, -1, 32);
}
