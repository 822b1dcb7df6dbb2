/* SPDX-License-Identifier: Apache-2.0
 *
 * race.c: the cells of the race detector (race.h tells the scheme; the
 * clocks are in race_clock.c).
 *
 * A cell is 32 bytes.  Epoch 0 stands for "never", and vg_race_begin starts
 * the next CTA at an epoch above all that were ever used, with everybody
 * knowing all of them: old contents are ordered before everything, and no
 * cell needs to be cleared between CTAs.
 *
 * Most accesses are the first to their word since a barrier, or one more read
 * by the same warp, or meet a tile that a whole CTA reads: comparisons with
 * `settled` find that out (the common cases, below).  The general code is for
 * the rest, and is the definition.
 */
#include "race_internal.h"

#include <stdlib.h>
#include <string.h>

/* The tag of an access: 30 bits of instruction number, two of flags.  Epochs
 * are 32 bits; a detector that has used half of them starts afresh with the
 * next CTA, which leaves 2^31 synchronisations for one CTA. */
#define INST_MASK 0x3fffffffu
#define FLAG_STRONG 0x40000000u
#define FLAG_COLLECTIVE 0x80000000u
#define EPOCH_LIMIT 0x80000000u

/* ---- storage ------------------------------------------------------------ */

struct vg_race *vg_race_new(void)
{
    return calloc(1, sizeof(struct vg_race));
}

void vg_race_free(struct vg_race *r)
{
    if (!r)
        return;
    vg__race_clocks_free(r);
    free(r->cell);
    free(r->readers);
    free(r->split);
    free(r);
}

/* Drops every cell: another number of warps, or epochs used up. */
static bool reset(struct vg_race *r, unsigned nwarps, unsigned nagents)
{
    memset(r->cell, 0, r->ncells * sizeof *r->cell);
    free(r->readers);
    free(r->split);
    r->readers = NULL;
    r->split = NULL;
    r->nreaders = r->readers_room = r->nsplit = r->split_room = 0;
    r->base = 0;
    r->top = 0;
    return vg__race_clocks_size(r, nwarps, nagents);
}

/* Room for n words of shared memory; new cells say "never". */
static bool reserve_cells(struct vg_race *r, uint32_t n)
{
    struct vg__cell *p;

    if (n <= r->ncells)
        return true;
    p = realloc(r->cell, n * sizeof *p);
    if (!p)
        return false;
    memset(p + r->ncells, 0, (n - r->ncells) * sizeof *p);
    r->cell = p;
    r->ncells = n;
    return true;
}

bool vg_race_begin(struct vg_race *r, unsigned nwarps, const uint32_t *live,
                   uint32_t bytes)
{
    return vg_race_begin_agents(r, nwarps, live, bytes, 0);
}

/* See the head of the file: with base at the top of all epochs handed out,
 * the cells of the last CTA need no clearing. */
bool vg_race_begin_agents(struct vg_race *r, unsigned nwarps,
                          const uint32_t *live, uint32_t bytes,
                          unsigned nagents)
{
    bool same = nwarps == r->nwarps && nagents == r->nagents &&
                r->top < EPOCH_LIMIT;

    if (!reserve_cells(r, (bytes + 3) / 4))
        return false;
    if (!same && !reset(r, nwarps, nagents))
        return false;
    r->failed = false;
    r->base = r->top;
    vg__race_clocks_start(r, live);
    return true;
}

bool vg_race_failed(const struct vg_race *r)
{
    return r->failed;
}

void vg_race_fail(struct vg_race *r)
{
    r->failed = true;
}

/* Makes room for one more of `size` bytes in a growing array that starts
 * with element 1.  NULL when memory ran out. */
static void *grow(void *array, uint32_t *count, uint32_t *room, size_t size)
{
    if (*count + 2 > *room) {
        uint32_t n = *room ? 2 * *room : 256;
        void *p = realloc(array, n * size);

        if (!p)
            return NULL;
        *room = n;
        array = p;
    }
    ++*count;
    return array;
}

/* The row of readers with this number: one entry per warp. */
struct vg__reader *vg__race_readers(struct vg_race *r, uint32_t index)
{
    return r->readers + (size_t)index * r->nwarps;
}

/* Gives the cell an empty row of one reader entry per warp.  A row stays
 * with its cell (r_ext) while r_warp says whether it is in use.  Returns
 * false when out of memory. */
static bool need_readers(struct vg_race *r, struct vg__cell *c)
{
    size_t size = r->nwarps * sizeof(struct vg__reader);
    void *p;

    if (!c->r_ext) {
        p = grow(r->readers, &r->nreaders, &r->readers_room, size);
        if (!p)
            return false;
        r->readers = p;
        c->r_ext = r->nreaders;
    }
    memset(vg__race_readers(r, c->r_ext), 0, size);
    return true;
}

/* Splits a word's cell into four byte cells with the same history. */
static struct vg__cell *split_cell(struct vg_race *r, uint32_t word)
{
    struct vg__cell old = r->cell[word];
    void *p = grow(r->split, &r->nsplit, &r->split_room,
                   4 * sizeof(struct vg__cell));

    if (!p)
        return NULL;
    r->split = p;
    for (unsigned b = 0; b < 4; b++) {
        struct vg__cell *c = &r->split[4 * r->nsplit + b];

        *c = old;
        c->r_ext = 0;
        if (old.r_warp != READ_MANY)
            continue;
        if (!need_readers(r, c))
            return NULL;
        memcpy(vg__race_readers(r, c->r_ext), vg__race_readers(r, old.r_ext),
               r->nwarps * sizeof(struct vg__reader));
    }
    r->cell[word].r_warp = READ_SPLIT;
    r->cell[word].r_ext = r->nsplit;
    return &r->split[4 * r->nsplit];
}

/* ---- one access of one lane to one cell --------------------------------- */

/* One access in progress; hit is NULL for vg_race_record, which checks
 * nothing. */
struct access {
    struct vg_race *r;
    const struct vg_race_op *op;
    struct vg_race_hit *hit;
    unsigned lane;
    uint32_t off, size;     /* bytes of the cell */
    uint32_t tag;           /* op->inst with its flags */
};

static unsigned thread_of(const struct access *a)
{
    return a->op->warp * 32 + a->lane;
}

/* Fills *hit with both sides of a race and returns false, for the caller to
 * return. */
static bool report(const struct access *a, unsigned other, uint32_t inst,
                   bool other_write, bool same)
{
    *a->hit = (struct vg_race_hit){
        .thread = thread_of(a),
        .other = other,
        .inst = a->op->inst,
        .other_inst = inst & INST_MASK,
        .write = a->op->kind == VG_RACE_WRITE,
        .other_write = other_write,
        .same_instruction = same,
        .off = a->off,
        .size = a->size,
    };
    return false;
}

/* Did lane `other` of the instruction being executed store the same bytes
 * here as the lane of a?  Which of two lanes wins is undefined, and does not
 * matter when both write the same. */
static bool same_values(const struct access *a, unsigned other)
{
    const struct vg_race_op *op = a->op;
    const unsigned char *v = op->values;

    return v && !memcmp(v + a->lane * op->size + (a->off - op->off[a->lane]),
                        v + other * op->size + (a->off - op->off[other]),
                        a->size);
}

/* Checks a against the cell's last write.  w_seq tells a write of this very
 * instruction, of which no lane can be ordered before another, from an older
 * one. */
static bool check_write(const struct access *a, const struct vg__cell *c)
{
    const struct vg_race_op *op = a->op;
    bool strong = op->flags & VG_RACE_STRONG && c->w_inst & FLAG_STRONG;

    if (op->flags & VG_RACE_WARP && c->w_thread >> 5 == op->warp)
        return true;
    if (vg__race_ordered(a->r, op->warp, a->lane, c->w_thread, c->w_epoch) ||
        strong)
        return true;
    if (op->kind == VG_RACE_WRITE && c->w_seq == a->r->seq)
        return same_values(a, c->w_thread & 31) ||
               report(a, c->w_thread, c->w_inst, true, true);
    return report(a, c->w_thread, c->w_inst, true, false);
}

/* Checks a write against the readers of one warp: first the answers that hold
 * for all of them at once, then lane by lane. */
static bool check_readers(const struct access *a, unsigned warp,
                          uint32_t epoch, uint32_t lanes, uint32_t inst)
{
    const struct vg_race_op *op = a->op;

    if (epoch <= a->r->base)
        return true;
    if (op->flags & VG_RACE_STRONG && inst & FLAG_STRONG)
        return true;
    if (warp == op->warp && (inst & FLAG_COLLECTIVE ||
                             op->flags & VG_RACE_WARP))
        return true;
    if (vg__race_ordered_warp(a->r, op->warp, warp, epoch))
        return true;
    for (; lanes; lanes &= lanes - 1) {
        unsigned t = warp * 32 + (unsigned)__builtin_ctz(lanes);

        if (!vg__race_ordered(a->r, op->warp, a->lane, t, epoch))
            return report(a, t, inst, false, false);
    }
    return true;
}

/* Checks a write against all reads since the last write: those of one warp in
 * the cell itself, or a row with an entry for each warp. */
static bool check_reads(const struct access *a, const struct vg__cell *c)
{
    const struct vg__reader *row;

    if (c->r_warp != READ_MANY)
        return check_readers(a, c->r_warp, c->r_epoch, c->r_lanes, c->r_inst);
    row = vg__race_readers(a->r, c->r_ext);
    for (unsigned w = 0; w < a->r->nwarps; w++)
        if (!check_readers(a, w, row[w].epoch, row[w].lanes, row[w].inst))
            return false;
    return true;
}

/* The instruction number with the flags that later accesses ask about. */
static uint32_t tagged_inst(const struct vg_race_op *op)
{
    return (op->inst & INST_MASK) |
           (op->flags & VG_RACE_STRONG ? FLAG_STRONG : 0) |
           (op->flags & VG_RACE_COLLECTIVE ? FLAG_COLLECTIVE : 0);
}

/* Makes the lane the last writer.  Earlier reads are ordered before it (they
 * were checked), so whoever is ordered after this write is after them: they
 * can be forgotten, which is what keeps a cell small. */
static void record_write(const struct access *a, struct vg__cell *c)
{
    c->w_epoch = a->r->epoch[a->op->warp];
    c->w_seq = a->r->seq;
    c->w_inst = a->tag;
    c->w_thread = (uint16_t)thread_of(a);
    c->r_warp = 0;
    c->r_epoch = 0;
    c->r_lanes = 0;
}

/* Adds the lane to the readers of its own warp.  Lanes that read in an older
 * epoch stay unless they are ordered before this read; keeping them under
 * the newer epoch is exact enough, because whoever races with them races
 * with this read too. */
static void merge_reader(const struct access *a, struct vg__reader *e)
{
    const struct vg_race *r = a->r;
    unsigned w = a->op->warp;
    uint32_t now = r->epoch[w], tag = a->tag;

    if (e->epoch != now) {
        if (e->epoch <= r->floor[w])
            e->lanes = 0;
        else
            for (uint32_t m = e->lanes; m; m &= m - 1) {
                unsigned l = (unsigned)__builtin_ctz(m);

                if (vg__race_ordered(r, w, a->lane, w * 32 + l, e->epoch))
                    e->lanes &= ~(1u << l);
            }
        e->epoch = now;
    }
    if (e->lanes)
        tag &= e->inst | INST_MASK;
    e->lanes |= 1u << a->lane;
    e->inst = tag;
}

/* Are all readers in the cell, of another warp, ordered before this read? */
static bool readers_done(const struct access *a, const struct vg__cell *c)
{
    unsigned w = c->r_warp;

    if (c->r_epoch <= a->r->base ||
        vg__race_ordered_warp(a->r, a->op->warp, w, c->r_epoch))
        return true;
    for (uint32_t m = c->r_lanes; m; m &= m - 1) {
        unsigned t = w * 32 + (unsigned)__builtin_ctz(m);

        if (!vg__race_ordered(a->r, a->op->warp, a->lane, t, c->r_epoch))
            return false;
    }
    return true;
}

/* Adds the lane to the cell's readers.  One warp fits in the cell; a row is
 * needed when a second warp reads and the first is not ordered before it, as
 * with every tile that a whole CTA reads. */
static void record_read(const struct access *a, struct vg__cell *c)
{
    unsigned w = a->op->warp;
    struct vg__reader one = {c->r_epoch, c->r_lanes, c->r_inst};

    if (c->r_warp == READ_MANY) {
        merge_reader(a, &vg__race_readers(a->r, c->r_ext)[w]);
        return;
    }
    if (c->r_warp != w && readers_done(a, c))
        one = (struct vg__reader){0, 0, 0};
    else if (c->r_warp != w) {
        if (!need_readers(a->r, c)) {
            a->r->failed = true;
            return;
        }
        vg__race_readers(a->r, c->r_ext)[c->r_warp] = one;
        merge_reader(a, &vg__race_readers(a->r, c->r_ext)[w]);
        c->r_warp = READ_MANY;
        return;
    }
    merge_reader(a, &one);
    c->r_warp = (uint16_t)w;
    c->r_epoch = one.epoch;
    c->r_lanes = one.lanes;
    c->r_inst = one.inst;
}

/* Checks and records an access to one cell.  A read races only with the last
 * write; a write also with the reads since then. */
static bool access_cell(const struct access *a, struct vg__cell *c)
{
    if (!check_write(a, c))
        return false;
    if (a->op->kind == VG_RACE_READ) {
        record_read(a, c);
        return true;
    }
    /* A cell that nobody has read since its last write needs no look. */
    if (c->r_epoch | (c->r_warp == READ_MANY) && !check_reads(a, c))
        return false;
    record_write(a, c);
    return true;
}

/* ---- the words of an access --------------------------------------------- */

/* What to do with one cell: check and record, record, or check. */
typedef bool cell_fn(const struct access *a, struct vg__cell *c);

/* A word that is split, or accessed in part: byte by byte.  A word that has
 * been split stays so until the detector is reset.  Without memory for the
 * split the access goes unrecorded and `failed` ends the launch. */
static bool access_bytes(struct access *a, uint32_t off, unsigned n,
                         cell_fn *fn)
{
    struct vg_race *r = a->r;
    uint32_t word = off >> 2;
    struct vg__cell *c;

    if (r->cell[word].r_warp == READ_SPLIT)
        c = &r->split[4 * (size_t)r->cell[word].r_ext];
    else
        c = split_cell(r, word);
    if (!c) {
        r->failed = true;
        return true;
    }
    for (unsigned b = off & 3; n--; b++) {
        a->off = (off & ~3u) + b;
        a->size = 1;
        if (!fn(a, &c[b]))
            return false;
    }
    return true;
}

/* The access of one lane, without its first `skip` bytes. */
static bool access_lane(struct access *a, unsigned skip, cell_fn *fn)
{
    uint32_t off = a->op->off[a->lane] + skip;
    uint32_t end = a->op->off[a->lane] + a->op->size;

    while (off < end) {
        unsigned lo = off & 3, n = 4 - lo;
        struct vg__cell *c = &a->r->cell[off >> 2];

        if (n > end - off)
            n = end - off;
        a->off = off;
        a->size = n;
        if (n < 4 || c->r_warp == READ_SPLIT) {
            if (!access_bytes(a, off, n, fn))
                return false;
        } else if (!fn(a, c)) {
            return false;
        }
        off += n;
    }
    return true;
}

/* ---- the common cases --------------------------------------------------- */

/* A second warp has come to a cell that was read by several before: its row
 * of readers is there.  Readers who are ordered before this one stay in it,
 * which changes no answer: whoever is ordered after this one is after them. */
static inline void add_second_warp(struct vg_race *r, struct vg__cell *c,
                                   unsigned w, struct vg__reader second)
{
    struct vg__reader *row = vg__race_readers(r, c->r_ext);

    for (unsigned i = 0; i < r->nwarps; i++)
        row[i].epoch = row[i].lanes = 0;
    row[c->r_warp] = (struct vg__reader){c->r_epoch, c->r_lanes, c->r_inst};
    row[w] = second;
    c->r_warp = READ_MANY;
}

/* Whole words whose last write is settled: the reader is the first since
 * then, or joins readers of its own warp, or of one other.  Returns false when
 * it is anything else. */
static inline bool read_settled(struct vg_race *r, struct vg__cell *c,
                                unsigned w, uint32_t settled, uint32_t bit,
                                uint32_t tag)
{
    uint32_t now = r->epoch[w];
    struct vg__reader *e;

    if (c->w_epoch > settled || c->r_warp == READ_SPLIT)
        return false;
    if (c->r_warp == READ_MANY) {
        e = &vg__race_readers(r, c->r_ext)[w];
        if (e->epoch <= settled)
            *e = (struct vg__reader){now, bit, tag};
        else if (e->epoch != now || (e->inst ^ tag) & ~INST_MASK)
            return false;
        e->lanes |= bit;
        return true;
    }
    if (c->r_epoch <= settled) {
        c->r_warp = (uint16_t)w;
        c->r_epoch = now;
        c->r_lanes = bit;
        c->r_inst = tag;
        return true;
    }
    if (c->r_warp != w && c->r_ext) {
        add_second_warp(r, c, w, (struct vg__reader){now, bit, tag});
        return true;
    }
    if (c->r_warp != w || c->r_epoch != now || (c->r_inst ^ tag) & ~INST_MASK)
        return false;
    c->r_lanes |= bit;
    return true;
}

/* Nothing has happened to the cell that is not settled. */
static inline bool is_settled(struct vg_race *r, const struct vg__cell *c,
                              uint32_t settled)
{
    const struct vg__reader *row;
    uint32_t last = 0;

    if (c->w_epoch > settled || c->r_warp == READ_SPLIT)
        return false;
    if (c->r_warp != READ_MANY)
        return c->r_epoch <= settled;
    row = vg__race_readers(r, c->r_ext);
    for (unsigned w = 0; w < r->nwarps; w++)
        last = row[w].epoch > last ? row[w].epoch : last;
    return last <= settled;
}

/* Does one lane's access word by word as long as they are common cases;
 * returns how many bytes it did. */
static inline unsigned access_words(const struct access *a)
{
    const struct vg_race_op *op = a->op;
    struct vg_race *r = a->r;
    uint32_t settled = r->settled[op->warp], bit = 1u << a->lane;
    struct vg__cell *c = &r->cell[op->off[a->lane] >> 2];
    unsigned n = 0;

    if (op->kind == VG_RACE_READ) {
        while (n < op->size &&
               read_settled(r, c, op->warp, settled, bit, a->tag)) {
            n += 4;
            c++;
        }
        return n;
    }
    for (; n < op->size && is_settled(r, c, settled); n += 4)
        record_write(a, c++);
    return n;
}

/* Does what it can of a lane's whole words; how many bytes that was. */
typedef unsigned words_fn(const struct access *a);

/* One instruction, lane by lane: the quick cases first, the general code does
 * the rest; both leave cells behind that give the same answers. */
static inline __attribute__((always_inline)) bool
each_lane(struct access *a, words_fn *quick, cell_fn *general)
{
    const struct vg_race_op *op = a->op;

    a->r->seq++;
    for (uint32_t m = op->mask; m; m &= m - 1) {
        unsigned done = 0;

        a->lane = (unsigned)__builtin_ctz(m);
        if (!((op->off[a->lane] | op->size) & 3))
            done = quick(a);
        if (done < op->size && !access_lane(a, done, general))
            return false;
    }
    return true;
}

bool vg_race_access(struct vg_race *r, const struct vg_race_op *op,
                    struct vg_race_hit *hit)
{
    struct access a = {
        .r = r, .op = op, .hit = hit, .tag = tagged_inst(op)};

    return each_lane(&a, access_words, access_cell);
}

static bool record_cell(const struct access *a, struct vg__cell *c)
{
    uint32_t epoch = a->op->epochs ? a->op->epochs[a->lane] : 0;

    record_write(a, c);
    if (epoch)
        c->w_epoch = epoch;
    return true;
}

/* Words as far as none is split. */
static inline unsigned record_words(const struct access *a)
{
    struct vg__cell *c = &a->r->cell[a->op->off[a->lane] >> 2];
    unsigned n = 0;

    for (; n < a->op->size && c->r_warp != READ_SPLIT; n += 4)
        record_cell(a, c++);
    return n;
}

/* For cp.async: the copy's bytes are written at the wait, by lanes that may
 * have moved on, or when an mbarrier was told to track it; it was checked at
 * the issue. */
void vg_race_record(struct vg_race *r, const struct vg_race_op *op)
{
    struct access a = {.r = r, .op = op, .tag = tagged_inst(op)};

    each_lane(&a, record_words, record_cell);
}

/* ---- without recording -------------------------------------------------- */

/* Both directions, as access_cell, and nothing changes. */
static bool check_cell(const struct access *a, struct vg__cell *c)
{
    return check_write(a, c) &&
           (a->op->kind == VG_RACE_READ || check_reads(a, c));
}

/* Words that race with nothing because all about them is settled. */
static inline unsigned settled_words(const struct access *a)
{
    const struct vg_race_op *op = a->op;
    const struct vg__cell *c = &a->r->cell[op->off[a->lane] >> 2];
    uint32_t settled = a->r->settled[op->warp];
    unsigned n = 0;

    while (n < op->size && is_settled(a->r, c++, settled))
        n += 4;
    return n;
}

/* For asynchronous accesses, which are recorded as agents' (async_shadow.c). */
bool vg_race_check(struct vg_race *r, const struct vg_race_op *op,
                   struct vg_race_hit *hit)
{
    struct access a = {
        .r = r, .op = op, .hit = hit, .tag = tagged_inst(op)};

    return each_lane(&a, settled_words, check_cell);
}

/* Nobody has read or written it.  w_inst and w_thread mean nothing then. */
static void forget_cell(struct vg__cell *c)
{
    c->w_epoch = c->r_epoch = c->r_lanes = 0;
    c->r_warp = 0;
}

/* Split words stay split, their byte cells forgotten. */
void vg_race_forget(struct vg_race *r, uint32_t off, uint32_t size)
{
    for (uint32_t word = off / 4; word < (off + size) / 4; word++) {
        struct vg__cell *c = &r->cell[word];

        if (c->r_warp != READ_SPLIT)
            forget_cell(c);
        else
            for (unsigned b = 0; b < 4; b++)
                forget_cell(&r->split[4 * (size_t)c->r_ext + b]);
    }
}
