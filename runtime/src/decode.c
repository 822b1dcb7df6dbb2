/* SPDX-License-Identifier: Apache-2.0
 *
 * decode.c: the kernels of a decode step.
 *
 * There is one decode_plan and one mqa_combine for a head count and page
 * size, and a few mqa_decode, each made for tiles of so many rows; a step
 * takes the one that its count of rows, q_len * heads, asks for.  That choice
 * depends on neither the batch nor any length.
 */
#include <stdlib.h>
#include <string.h>

#include "decode_step.h"

/* By enum mla__decode_value; they are the names of arguments. */
static const char *const value_names[] = {
#define VALUE_NAME(name) #name,
    MLA__DECODE_VALUES(VALUE_NAME)
#undef VALUE_NAME
};

/* Fields ---------------------------------------------------------------- */

/* The value that an argument of that name takes, or -1. */
static int find_value(const char *name)
{
    for (int i = 0; i < MLA__DECODE_VALUE_COUNT; i++)
        if (strcmp(value_names[i], name) == 0)
            return i;
    return -1;
}

/* Says for each field of the kernel which value fills it, so that a launch
 * compares no names.  A kernel with an argument that nobody here knows is
 * refused now rather than launched with a zero.
 * Error: BAD_MANIFEST (names the argument). */
static mla_status bind(mla_kernel *k, struct mla__decode_kernel *out)
{
    mla_context *ctx = k->owner->ctx;

    out->k = k;
    if (k->field_count > MLA__DECODE_FIELDS ||
        k->args_size > MLA__DECODE_BLOCK)
        return mla__fail(ctx, MLA_BAD_MANIFEST, "%s: too many arguments",
                         k->symbol);
    for (int i = 0; i < k->field_count; i++) {
        int value = find_value(k->fields[i].name);
        if (value < 0)
            return mla__fail(ctx, MLA_BAD_MANIFEST,
                             "%s: argument '%s' is not one that this library "
                             "knows",
                             k->symbol, k->fields[i].name);
        out->value[i] = (unsigned char)value;
    }
    return MLA_OK;
}

/* What the set lacks because an older generator wrote it. */
static mla_status old_manifest(const mla_kernel *k, const char *what)
{
    return mla__fail(k->owner->ctx, MLA_BAD_MANIFEST,
                     "%s: the manifest does not say %s; generate it again",
                     k->symbol, what);
}

/* Kernels --------------------------------------------------------------- */

/* The family's one kernel for the object's heads and pages.  Where the caller
 * left these open, the first kernel that is found fixes them for the rest.
 * Errors: as mla_find and bind. */
static mla_status find_one(mla_decode *d, mla_kernels *set,
                           const char *family, struct mla__decode_kernel *out)
{
    mla_kernel *k;
    mla_status status =
        mla_find(set, family, "", d->heads, d->page_size, &k);

    if (status)
        return status;
    d->heads = k->heads;
    d->page_size = k->page_size;
    return bind(k, out);
}

/* Adds an mqa_decode, in the order of rows per tile: the picking below relies
 * on it, the manifest does not promise it.
 * Error: BAD_MANIFEST (the tile is not described; too many of them). */
static mla_status add_tile(mla_decode *d, mla_kernel *k)
{
    int at = d->tiles;

    if (!k->tile_m || !k->tile_n || !k->max_rows || !k->latent)
        return old_manifest(k, "its tile's m, n and max_rows");
    if (d->tiles == MLA__DECODE_TILES)
        return mla__fail(d->ctx, MLA_BAD_MANIFEST,
                         "%s: more than %d kernels of its family", k->symbol,
                         MLA__DECODE_TILES);
    while (at > 0 && d->tile[at - 1].k->tile_m > k->tile_m) {
        d->tile[at] = d->tile[at - 1];
        at--;
    }
    d->tiles++;
    return bind(k, &d->tile[at]);
}

/* How well an mqa_decode for these heads and pages suits the device; 0: it is
 * not one, or does not run. */
static int rank_of(const mla_decode *d, const mla_kernel *k)
{
    int major = d->ctx->info.major, minor = d->ctx->info.minor;

    if (strcmp(k->family, "mqa_decode") != 0 || k->heads != d->heads ||
        k->page_size != d->page_size ||
        mla__arch_fit(k->arch, major, minor) == MLA__FIT_NONE)
        return 0;
    return mla__arch_rank(k->arch, major, minor);
}

/* All tiles of the architecture that suits the device best: a plan covers
 * every count of rows within one architecture, so tiles of two are not mixed.
 * Error: NO_KERNEL (names heads, pages and device), those of add_tile. */
static mla_status find_tiles(mla_decode *d, mla_kernels *set)
{
    mla_status status = MLA_OK;
    int best = 0;

    for (int i = 0; i < set->count; i++)
        if (rank_of(d, &set->kernel[i]) > best)
            best = rank_of(d, &set->kernel[i]);
    if (!best)
        return mla__fail(d->ctx, MLA_NO_KERNEL,
                         "%s: no kernel mqa_decode for %d heads, pages of %d "
                         "and device %d.%d",
                         set->directory, d->heads, d->page_size,
                         d->ctx->info.major, d->ctx->info.minor);
    for (int i = 0; i < set->count && !status; i++)
        if (rank_of(d, &set->kernel[i]) == best)
            status = add_tile(d, &set->kernel[i]);
    return status;
}

/* max_rows rises with the tile, so the first that reaches is the smallest;
 * the planner has the same rule (templates/plan/decode_tile.lua).  Rows
 * beyond all tiles are several row tiles of the largest. */
const struct mla__decode_kernel *mla__decode_pick(const mla_decode *d,
                                                  int64_t rows)
{
    for (int i = 0; i < d->tiles; i++)
        if (d->tile[i].k->max_rows >= rows)
            return &d->tile[i];
    return &d->tile[d->tiles - 1];
}

/* All that are resident at once: a worker that had to wait for another's end
 * would double the time of a balanced list.  A cluster of blocks works as
 * one. */
int mla__decode_workers(const mla_decode *d, const mla_kernel *k)
{
    int workers = d->ctx->info.sm_count * k->min_ctas;

    if (d->options.ctas)
        return d->options.ctas;
    for (int i = 0; i < 3 && k->cluster[0]; i++)
        workers /= (int)k->cluster[i];
    return workers > 0 ? workers : 1;
}

/* Making ---------------------------------------------------------------- */

/* Takes over what the caller's options have room for, a NULL being all
 * defaults.  Error: RANGE (names the option that is negative). */
static mla_status read_options(mla_kernels *set,
                               const mla_decode_options *given,
                               mla_decode_options *out)
{
    size_t size = given ? given->size : 0;
    const struct {
        const char *name;
        const int *value;
    } rows[] = {{"heads", &out->heads},
                {"page_size", &out->page_size},
                {"ctas", &out->ctas},
                {"min_tiles", &out->min_tiles},
                {"split_keys", &out->split_keys}};

    *out = (mla_decode_options)MLA_DECODE_OPTIONS_INIT;
    if (given)
        memcpy(out, given, size < sizeof(*out) ? size : sizeof(*out));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (*rows[i].value < 0)
            return mla__fail(set->ctx, MLA_RANGE,
                             "%s: decode option '%s': %d is negative",
                             set->directory, rows[i].name, *rows[i].value);
    return MLA_OK;
}

/* decode_plan first: it fixes heads and page size.  Without its description
 * of a work list nothing can be sized. */
static mla_status find_all(mla_decode *d, mla_kernels *set)
{
    mla_status status = find_one(d, set, "decode_plan", &d->plan);

    if (!status && !d->plan.k->work_list.header_ints)
        status = old_manifest(d->plan.k, "what a work list is");
    if (!status)
        status = find_one(d, set, "mqa_combine", &d->combine);
    if (!status)
        status = find_tiles(d, set);
    if (!status) {
        d->latent = d->tile[0].k->latent;
        d->rope = d->tile[0].k->rope;
    }
    return status;
}

/* The object refers to kernels of the set and owns nothing but itself. */
mla_status mla_decode_create(mla_kernels *set,
                             const mla_decode_options *options,
                             mla_decode **out)
{
    mla_decode *d;
    mla_status status;

    if (!set || !out)
        return MLA_INVALID_ARGUMENT;
    *out = NULL;
    if (options && options->size < sizeof(options->size))
        return MLA_INVALID_ARGUMENT;
    d = mla__alloc(set->ctx, sizeof(*d));
    if (!d)
        return mla__fail(set->ctx, MLA_OUT_OF_MEMORY, "decode");
    d->ctx = set->ctx;
    status = read_options(set, options, &d->options);
    d->heads = d->options.heads;
    d->page_size = d->options.page_size;
    if (!status)
        status = find_all(d, set);
    if (status)
        mla_decode_free(d);
    else
        *out = d;
    return status;
}

/* Kernels stay loaded: they are the set's. */
void mla_decode_free(mla_decode *d)
{
    if (d)
        mla__free(d->ctx, d);
}

/* Every tile, as the next step may have another q_len. */
mla_status mla_decode_prepare(mla_decode *d)
{
    mla_kernel *kernels[MLA__DECODE_TILES + 2];

    if (!d)
        return MLA_INVALID_ARGUMENT;
    for (int i = 0; i < d->tiles; i++)
        kernels[i] = d->tile[i].k;
    kernels[d->tiles] = d->plan.k;
    kernels[d->tiles + 1] = d->combine.k;
    return mla_prepare_some(kernels, d->tiles + 2, NULL);
}
