/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c: placing, poisoning, launching, reading back.
 *
 * What a kernel could get away with on zeroed, packed, aligned memory is what
 * the runs take away one by one: foreign bytes are NaN, infinity or 1e30,
 * addresses have the least alignment that the manifest asks for, layouts have
 * gaps, and on the virtual GPU warps run in another order.  None of it may
 * change a bit of the answer.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "run.h"

enum { GUARD = 256 }; /* bytes of canary on each side of a buffer */

/* A tensor's buffer of one run. */
struct placed {
    uint64_t base, address;
    int64_t before; /* bytes from base to address */
};

/* Only the first failure is kept: later ones mostly follow from it. */
void num_fail(struct num_verdict *v, const struct num_case *c,
              const char *format, ...)
{
    va_list list;
    int used;

    if (v->failures++ > 0)
        return;
    used = snprintf(v->why, sizeof(v->why), "%s, %lld tokens: ",
                    c->shape.group, (long long)c->tokens);
    va_start(list, format);
    vsnprintf(v->why + used, sizeof(v->why) - (size_t)used, format, list);
    va_end(list);
}

/* The virtual GPU's report says which instruction and thread it was. */
void num_fail_on_device(struct num_device *d, struct num_verdict *v,
                        const struct num_case *c, const char *error)
{
    d->lost = true;
    num_fail(v, c, "%s%s%s", error, d->report ? "\n" : "",
             d->report ? d->report() : "");
}

/* Masks ----------------------------------------------------------------- */

/* The token that a row belongs to, or -1 if it serves all. */
static int64_t token_of(const struct num_case *c, const struct num_tensor *t,
                        const int64_t *index)
{
    if (t->token_axis == 0 || t->token_axis == 1)
        return index[t->token_axis];
    if (t->output && c->family->owner)
        return c->family->owner(c, t, index);
    return -1;
}

/* The mask byte of a row's first element. */
static unsigned char *mask_at(const struct num_tensor *t, int64_t i0,
                              int64_t i1)
{
    int64_t within;
    struct num_extent *e = num_locate(t, i0, i1, 0, &within);
    return e->mask + within;
}

/* Takes a row of tokens outside the run out of the mask.  A vector with an
 * element per token (NUM_ROW_AXIS) is one row: it loses its ends. */
static void clear_row(const struct num_case *c, struct num_tensor *t,
                      const struct num_row *row, const struct num_run *run)
{
    size_t es = num_elem_bytes(t->elem);
    int64_t token, end = run->first + run->count;

    if (t->token_axis == NUM_ROW_AXIS) {
        unsigned char *mask = mask_at(t, 0, 0);
        memset(mask, 0, es * (size_t)run->first);
        memset(mask + (size_t)end * es, 0, es * (size_t)(c->tokens - end));
        return;
    }
    token = token_of(c, t, row->index);
    if (token >= 0 && (token < run->first || token >= end))
        memset(mask_at(t, row->index[0], row->index[1]), 0,
               es * (size_t)t->width);
}

/* The live bytes of a run: of the case, less other tokens' rows. */
static void make_masks(struct num_case *c, const struct num_run *run)
{
    for (int i = 0; i < c->tensors; i++) {
        struct num_tensor *t = &c->tensor[i];
        for (int k = 0; k < t->extents; k++)
            memcpy(t->extent[k].mask, t->extent[k].live,
                   (size_t)t->extent[k].bytes);
        for (int64_t r = 0; r < t->rows && run->count < c->tokens; r++)
            clear_row(c, t, &t->row[r], run);
    }
}

/* Placing --------------------------------------------------------------- */

/* `bytes` bytes of the element's poison, a tail of part of one included. */
static void fill_poison(enum num_elem elem, enum num_poison poison,
                        unsigned char *to, int64_t bytes)
{
    unsigned char pattern[8];
    size_t es = num_elem_bytes(elem);

    for (size_t k = 0; k < sizeof(pattern); k += es)
        num_set_bits(elem, pattern + k, num_poison_bits(elem, poison));
    for (; bytes >= 8; bytes -= 8, to += 8)
        memcpy(to, pattern, 8);
    memcpy(to, pattern, (size_t)bytes);
}

/* The image of a run: data where the call may read, poison elsewhere.  A mask's
 * bytes are 0 or 1, so that its negative selects without a branch. */
static void make_image(struct num_tensor *t, struct num_extent *e,
                       enum num_poison poison)
{
    unsigned char *restrict sent = e->sent;
    const unsigned char *restrict data = e->data, *restrict mask = e->mask;
    int64_t bytes = t->input ? e->bytes : 0;

    fill_poison(t->elem, poison, sent, e->bytes);
    for (int64_t k = 0; k < bytes; k++) {
        unsigned char own = (unsigned char)-mask[k];
        sent[k] = (unsigned char)((data[k] & own) | (sent[k] & ~own));
    }
}

/* Canaries on both sides, of the same poison as what is inside.  A sparse
 * tensor has its fringes instead. */
static int write_guards(struct num_device *d, const struct num_tensor *t,
                        const struct placed *p, enum num_poison poison)
{
    unsigned char guard[4 * GUARD];
    uint64_t end = p->address + (uint64_t)t->span;
    int result;

    if (p->before == 0)
        return 0;
    fill_poison(t->elem, poison, guard, sizeof(guard));
    result = num_device_write(d, p->base, guard, (size_t)p->before);
    return result ? result : num_device_write(d, end, guard, GUARD);
}

/* With canaries the address is an odd multiple of the alignment that the
 * kernel asks for, so that it cannot rely on more.  A tensor without a byte
 * gets one, to have an address. */
static int place(struct num_device *d, struct num_tensor *t,
                 const struct num_run *run, struct placed *p)
{
    int64_t bytes = t->span;
    int result;

    p->before = 0;
    if (run->guarded && !t->sparse) {
        p->before = GUARD + t->align;
        bytes += p->before + GUARD;
    }
    result = num_device_alloc(d, t->sparse, (uint64_t)(bytes ? bytes : 1),
                              &p->base);
    if (result)
        return result;
    p->address = p->base + (uint64_t)p->before;
    result = write_guards(d, t, p, run->poison);
    for (int k = 0; k < t->extents && !result; k++) {
        struct num_extent *e = &t->extent[k];
        make_image(t, e, run->poison);
        result = num_device_write(d, p->address + (uint64_t)e->offset,
                                  e->sent, (size_t)e->bytes);
    }
    return result;
}

/* Judging --------------------------------------------------------------- */

/* "q[3][1][17]" for a byte of a live row, else the byte's offset. */
static void describe(const struct num_tensor *t, int64_t offset, char *out,
                     size_t size)
{
    int64_t es = (int64_t)num_elem_bytes(t->elem);
    for (int64_t r = 0; r < t->rows; r++) {
        const int64_t *i = t->row[r].index;
        int64_t at = i[0] * t->stride[0] + i[1] * t->stride[1];
        if (offset < at || offset >= at + t->width * es)
            continue;
        snprintf(out, size, "%s[%lld][%lld][%lld]", t->field, (long long)i[0],
                 (long long)i[1], (long long)((offset - at) / es));
        return;
    }
    snprintf(out, size, "%s, byte %lld", t->field, (long long)offset);
}

/* "NaN around, schedule 7, tokens 0..16": enough to see which run it was. */
static const char *run_name(const struct num_run *run, char *out, size_t size)
{
    snprintf(out, size, "%s around, schedule %llu, tokens %lld..%lld",
             num_poison_name(run->poison), (unsigned long long)run->schedule,
             (long long)run->first,
             (long long)(run->first + run->count - 1));
    return out;
}

/* What byte k of an extent has to be: what was sent, and in an output's own
 * rows what the first run left.  *free_bits has all bits set where anything
 * will do: in the outputs of the run that is compared with the oracle. */
static inline unsigned char wanted(const struct num_tensor *t,
                                   const struct num_extent *e, int64_t k,
                                   const struct num_run *run,
                                   unsigned char *free_bits)
{
    unsigned char own = t->output ? (unsigned char)-e->mask[k] : 0;
    *free_bits = run->is_first ? own : 0;
    return t->output ? (e->kept[k] & own) | (e->sent[k] & ~own) : e->sent[k];
}

/* Most extents are as they should be, and some are long: whole blocks first. */
static int64_t first_difference(const struct num_tensor *t,
                                const struct num_extent *e,
                                const unsigned char *got,
                                const struct num_run *run)
{
    enum { BLOCK = 256 };
    unsigned char differs = 0, free_bits;
    int64_t k = 0;

    for (; k + BLOCK <= e->bytes; k += BLOCK) {
        for (int64_t i = k; i < k + BLOCK; i++) {
            unsigned char want = wanted(t, e, i, run, &free_bits);
            differs |= (got[i] ^ want) & ~free_bits;
        }
        if (differs)
            break;
    }
    for (; k < e->bytes; k++) {
        unsigned char want = wanted(t, e, k, run, &free_bits);
        if ((got[k] ^ want) & ~free_bits)
            return k;
    }
    return e->bytes;
}

/* False after the first difference, which is reported. */
static bool judge_extent(struct num_case *c, struct num_tensor *t,
                         struct num_extent *e, const unsigned char *got,
                         const struct num_run *run, struct num_verdict *v)
{
    char where[128], how[128];
    unsigned char want, unused;
    int64_t k = first_difference(t, e, got, run);

    if (k < e->bytes) {
        want = wanted(t, e, k, run, &unused);
        describe(t, e->offset + k, where, sizeof(where));
        run_name(run, how, sizeof(how));
        num_fail(v, c,
                 t->output && e->mask[k]
                     ? "%s differs from the clean run: byte %02x, not %02x "
                       "(%s)"
                     : "%s is not the call's to write: byte %02x, was %02x "
                       "(%s)",
                 where, got[k], want, how);
        return false;
    }
    if (run->is_first && t->output)
        memcpy(e->kept, got, (size_t)e->bytes);
    return true;
}

/* The canaries around a buffer are as they were. */
static bool judge_guards(struct num_device *d, struct num_case *c,
                         struct num_tensor *t, const struct placed *p,
                         enum num_poison poison, struct num_verdict *v)
{
    unsigned char want[4 * GUARD], got[4 * GUARD];
    uint64_t end = p->address + (uint64_t)t->span;

    if (p->before == 0)
        return true;
    fill_poison(t->elem, poison, want, sizeof(want));
    if (num_device_read(d, got, p->base, (size_t)p->before) ||
        memcmp(got, want, (size_t)p->before)) {
        num_fail(v, c, "%s: the bytes before it have changed", t->field);
        return false;
    }
    if (num_device_read(d, got, end, GUARD) || memcmp(got, want, GUARD)) {
        num_fail(v, c, "%s: the bytes after it have changed", t->field);
        return false;
    }
    return true;
}

/* Everything of a buffer: canaries, foreign bytes, the call's own.  What is
 * inside a scratch buffer is the kernel's affair. */
static bool judge(struct num_device *d, struct num_case *c,
                  struct num_tensor *t, const struct placed *p,
                  const struct num_run *run, struct num_verdict *v)
{
    bool good = judge_guards(d, c, t, p, run->poison, v);

    for (int k = 0; k < t->extents && good && !t->scratch; k++) {
        struct num_extent *e = &t->extent[k];
        unsigned char *got = num_alloc((size_t)e->bytes);
        int result = num_device_read(d, got, p->address + (uint64_t)e->offset,
                                     (size_t)e->bytes);
        if (result) {
            num_fail_on_device(d, v, c, num_device_error(d, result));
            good = false;
        } else {
            good = judge_extent(c, t, e, got, run, v);
        }
        free(got);
    }
    return good;
}

/* One run --------------------------------------------------------------- */

/* Buffers that do not fit make the case fail; it is not left out. */
static bool place_all(struct num_device *d, struct num_case *c,
                      const struct num_run *run, struct placed *p,
                      struct num_verdict *v)
{
    make_masks(c, run);
    for (int i = 0; i < c->tensors; i++) {
        int result = place(d, &c->tensor[i], run, &p[i]);
        if (result) {
            num_fail(v, c, "%s (%lld bytes): %s", c->tensor[i].field,
                     (long long)c->tensor[i].span,
                     num_device_error(d, result));
            return false;
        }
    }
    return true;
}

/* From arguments to the end of the kernel. */
bool num_launch(struct num_device *d, struct num_case *c,
                const struct num_run *run, const uint64_t *address,
                void *stream, struct num_verdict *v)
{
    mla_args *args = NULL;
    const char *unknown = NULL;
    mla_status status = mla_args_create(c->subject->kernel, &args);
    int result = 0;

    if (!status)
        unknown = num_bind(c, address, run->first, run->count, args);
    if (!status && !unknown)
        status = mla_launch(args, stream);
    if (!status && !unknown && !stream)
        result = num_device_synchronize(d);
    mla_args_free(args);
    v->launches++;
    if (unknown)
        num_fail(v, c, "no value for argument '%s'", unknown);
    else if (status == MLA_CUDA)
        num_fail_on_device(d, v, c, mla_last_error(c->subject->ctx));
    else if (status)
        num_fail(v, c, "%s", mla_last_error(c->subject->ctx));
    else if (result)
        num_fail_on_device(d, v, c, num_device_error(d, result));
    return !unknown && !status && !result;
}

/* The schedule is set for each run, since other kernels' runs change it; a
 * family may launch in its own way (plan, kernel, combine). */
static bool launch(struct num_device *d, struct num_case *c,
                   const struct num_run *run, const struct placed *p,
                   struct num_verdict *v)
{
    uint64_t address[NUM_MAX_TENSORS] = {0};

    for (int i = 0; i < c->tensors; i++)
        address[i] = p[i].address;
    num_device_schedule(d, run->schedule);
    if (c->family->launch)
        return c->family->launch(d, c, run, address, v);
    return num_launch(d, c, run, address, NULL, v);
}

/* Buffers are new for every run: nothing of a former one can help. */
bool num_run_once(struct num_device *d, struct num_case *c,
                  const struct num_run *run, struct num_verdict *v)
{
    struct placed p[NUM_MAX_TENSORS] = {{0, 0, 0}};
    bool good = place_all(d, c, run, p, v) && launch(d, c, run, p, v);

    /* Inputs are judged as well: nobody may write them. */
    for (int i = 0; i < c->tensors && good; i++)
        good = judge(d, c, &c->tensor[i], &p[i], run, v);
    for (int i = 0; i < c->tensors; i++)
        num_device_free(d, p[i].base);
    return good;
}

/* All runs of a case ---------------------------------------------------- */

/* Parts of the batch on their own: its ends, its middle, all but the first.
 * The bits of a token must not depend on its company.  The case has three
 * tokens or more. */
static void run_windows(struct num_device *d, struct num_case *c,
                        struct num_verdict *v)
{
    const int64_t n = c->tokens;
    const int64_t window[][2] = {{0, 1}, {n - 1, 1}, {n / 2 - 1, 3},
                                 {1, n - 1}};

    for (size_t i = 0; i < sizeof(window) / sizeof(window[0]); i++) {
        struct num_run run = {NUM_POISON_NAN, num_random(&c->rng) | 1,
                              window[i][0], window[i][1], true, false};
        if (!num_run_once(d, c, &run, v))
            return;
    }
}

/* Can a call be so large that the grid's limit along this axis cuts it?  Then
 * a block has to loop, which the clamped run forces.  An argument counts as
 * INT32_MAX, over what one block takes of it. */
static bool can_clamp(const struct mla__axis *axis)
{
    double size = 1;
    for (int i = 0; i < axis->count; i++)
        size *= axis->factor[i].field < 0
                    ? (double)axis->factor[i].constant
                    : (double)INT32_MAX / (double)axis->factor[i].per;
    return size > (double)axis->max;
}

/* Once more with one block along every axis whose limit a batch can exceed,
 * as if there were more tokens than any test has time for.  The limits are
 * changed in the loaded kernel itself, and put back. */
static void run_clamped(struct num_device *d, struct num_case *c,
                        struct num_verdict *v)
{
    struct num_run run = {NUM_POISON_NAN, num_random(&c->rng) | 1, 0,
                          c->tokens, true, false};
    mla_kernel *k = c->subject->kernel;
    struct mla__axis kept[3];

    memcpy(kept, k->grid, sizeof(kept));
    for (int i = 0; i < 3; i++)
        if (can_clamp(&k->grid[i]))
            k->grid[i].max = k->cluster[0] ? k->cluster[i] : 1;
    num_run_once(d, c, &run, v);
    memcpy(k->grid, kept, sizeof(kept));
}

/* The first run is the reference: zeros around it, in order, no canaries, so
 * that the virtual GPU watches the exact ends of the buffers.  Its outputs
 * are compared with the oracle; the others only with the first.
 *
 * Those take the other poisons in turn, beginning with one that is drawn, and
 * a seed each that is odd and so never 0, which would be the order again. */
void num_check_case(struct num_device *d, struct num_case *c, int schedules,
                    struct num_verdict *v)
{
    int runs = num_is(c, NUM_ALL_POISONS) && schedules < NUM_POISONS
                   ? NUM_POISONS
                   : schedules;
    int turn = (int)num_below(&c->rng, 3);

    v->cases++;
    for (int i = 0; i < runs; i++) {
        struct num_run run = {NUM_POISON_ZERO, 0, 0, c->tokens, i > 0, i == 0};
        if (i > 0) {
            run.poison = (enum num_poison)(1 + (turn + i) % 3);
            run.schedule = num_random(&c->rng) | 1;
        }
        if (!num_run_once(d, c, &run, v))
            return;
        if (i == 0)
            (c->family->judge ? c->family->judge : num_compare)(c, v);
    }
    if (num_is(c, NUM_WINDOWS))
        run_windows(d, c, v);
    if (num_is(c, NUM_CLAMPED) && !v->failures)
        run_clamped(d, c, v);
}

/* Twice: with buffers whose every byte must survive, and with NULL pointers,
 * which a caller without tokens may have. */
void num_check_empty(struct num_device *d, struct num_case *c,
                     struct num_verdict *v)
{
    struct num_run run = {NUM_POISON_NAN, 0, 0, 0, true, true};
    uint64_t nowhere[NUM_MAX_TENSORS] = {0};
    mla_args *args = NULL;

    v->cases++;
    num_run_once(d, c, &run, v);
    v->cases++;
    if (mla_args_create(c->subject->kernel, &args) != MLA_OK)
        num_fail(v, c, "%s", mla_last_error(c->subject->ctx));
    else if (num_bind(c, nowhere, 0, 0, args) || mla_launch(args, NULL))
        num_fail(v, c, "no tokens and NULL pointers: %s",
                 mla_last_error(c->subject->ctx));
    mla_args_free(args);
}
