/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels.c: a loaded directory: making it, listing it, freeing it, and
 * choosing from it.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* The set of a directory (files NULL) or of files in memory.  Only the
 * manifest is read now; it must be one text, as a parser of C strings would
 * stop at a NUL. */
static mla_status load(mla_context *ctx, const char *name,
                       const mla_file *files, int count, mla_kernels **out)
{
    mla_kernels *set = mla__alloc(ctx, sizeof(*set));
    size_t bytes;
    mla_status status;

    if (!set)
        return mla__fail(ctx, MLA_OUT_OF_MEMORY, "%s", name);
    set->ctx = ctx;
    set->directory = mla__strdup(ctx, name);
    set->files = files;
    set->file_count = count;
    status = set->directory
                 ? mla__set_file(ctx, set, "manifest.json", "", &set->text,
                                 &bytes)
                 : mla__fail(ctx, MLA_OUT_OF_MEMORY, "%s", name);
    if (!status && strlen(set->text) < bytes)
        status = mla__fail(ctx, MLA_BAD_MANIFEST,
                           "%s/manifest.json: a NUL behind %zu bytes", name,
                           strlen(set->text));
    if (!status)
        status = mla__manifest_parse(set);
    if (status)
        mla_kernels_free(set);
    else
        *out = set;
    return status;
}

mla_status mla_load(mla_context *ctx, const char *directory,
                    mla_kernels **out)
{
    if (!ctx || !directory || !out)
        return MLA_INVALID_ARGUMENT;
    *out = NULL;
    return load(ctx, directory, NULL, 0, out);
}

/* The array stays the caller's: it is looked into whenever a kernel
 * is prepared. */
mla_status mla_load_files(mla_context *ctx, const char *name,
                          const mla_file *files, int count, mla_kernels **out)
{
    if (!ctx || !name || !files || !out)
        return MLA_INVALID_ARGUMENT;
    *out = NULL;
    for (int i = 0; i < count; i++)
        if (!files[i].path || (!files[i].data && files[i].bytes))
            return mla__fail(ctx, MLA_INVALID_ARGUMENT,
                             "%s: file %d has no path or no data", name, i);
    return load(ctx, name, files, count, out);
}

/* What the kernel owns; also the module, if the device is still there to
 * unload it from (in a forked child it is not). */
static void free_kernel(mla_context *ctx, mla_kernel *k)
{
    char *const text[] = {k->symbol, k->family, k->variant, k->arch_name,
                          k->dtype, k->source, k->cubin, k->source_hash,
                          k->cubin_hash};

    if (k->module && mla__enter(ctx) == MLA_OK) {
        ctx->driver.module_unload(k->module);
        mla__leave(ctx);
    }
    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++)
        mla__free(ctx, text[i]);
    for (int i = 0; i < k->field_count; i++) {
        mla__free(ctx, k->fields[i].name);
        mla__free(ctx, k->fields[i].elem);
        mla__free(ctx, k->fields[i].doc);
    }
    mla__free(ctx, k->fields);
    for (int i = 0; i < k->map_count; i++)
        mla__free(ctx, k->maps[i].name);
    mla__free(ctx, k->maps);
}

/* Takes sets that a failed parse left half read. */
void mla_kernels_free(mla_kernels *set)
{
    if (!set)
        return;
    for (int i = 0; i < set->count; i++)
        free_kernel(set->ctx, &set->kernel[i]);
    mla__free(set->ctx, set->kernel);
    mla__free(set->ctx, set->directory);
    mla__free(set->ctx, set->model);
    mla__free(set->ctx, set->text);
    mla__free(set->ctx, set);
}

int mla_kernels_count(const mla_kernels *set)
{
    return set ? set->count : 0;
}

mla_kernel *mla_kernels_at(const mla_kernels *set, int i)
{
    return set && i >= 0 && i < set->count ? &set->kernel[i] : NULL;
}

const char *mla_kernels_model(const mla_kernels *set)
{
    return set->model;
}

const char *mla_kernels_manifest(const mla_kernels *set)
{
    return set->text;
}

/* Texts stay the set's. */
mla_status mla_kernel_describe(const mla_kernel *k, mla_kernel_info *info)
{
    mla_kernel_info full;

    if (!k)
        return MLA_INVALID_ARGUMENT;
    full = (mla_kernel_info){
        .symbol = k->symbol, .family = k->family, .variant = k->variant,
        .arch = k->arch_name, .dtype = k->dtype, .source = k->source,
        .cubin = k->cubin, .heads = k->heads, .page_size = k->page_size,
        .nope = k->nope, .rope = k->rope, .v = k->v, .latent = k->latent,
        .field_count = k->field_count, .args_size = k->args_size,
        .block = {k->block[0], k->block[1], k->block[2]},
        .smem_dynamic = k->smem_dynamic,
        .tile_m = k->tile_m, .tile_n = k->tile_n};
    return mla__copy_info(info, &full, sizeof(full));
}

mla_status mla_kernel_field(const mla_kernel *k, int i, mla_field_info *info)
{
    const struct mla__field *f;
    mla_field_info full;

    if (!k || i < 0 || i >= k->field_count)
        return MLA_INVALID_ARGUMENT;
    f = &k->fields[i];
    full = (mla_field_info){
        .name = f->name, .elem = f->elem, .doc = f->doc, .type = f->type,
        .access = f->access, .nullable = f->nullable,
        .align = (int)f->align, .multiple = (int)f->multiple,
        .offset = f->offset};
    return mla__copy_info(info, &full, sizeof(full));
}

/* mla__fit's numbers are those that mla.h promises. */
mla_status mla_kernel_fits(mla_kernel *k, int *out)
{
    mla_status status;

    if (!k || !out)
        return MLA_INVALID_ARGUMENT;
    *out = 0;
    status = mla__device_open(k->owner->ctx);
    if (!status)
        *out = (int)mla__arch_fit(k->arch, k->owner->ctx->info.major,
                                  k->owner->ctx->info.minor);
    return status;
}

/* Choosing -------------------------------------------------------------- */

/* What a query asks for, narrowed one field at a time so that an error can
 * name the field that left nothing over. */
struct query {
    const char *family, *variant;
    int heads, page_size, major, minor;
};

/* The order in which a query is narrowed: what a caller chooses comes before
 * what the device is. */
enum stage { FAMILY, VARIANT, HEADS, PAGE, ARCH, STAGES };

/* Whether the kernel is what the query asks for at that stage. */
static bool passes(const mla_kernel *k, const struct query *q, int stage)
{
    switch (stage) {
    case FAMILY:
        return strcmp(k->family, q->family) == 0;
    case VARIANT:
        return strcmp(k->variant, q->variant) == 0;
    case HEADS:
        return q->heads == 0 || k->heads == q->heads;
    case PAGE:
        return q->page_size == 0 || k->page_size == q->page_size;
    default:
        return mla__arch_fit(k->arch, q->major, q->minor) != MLA__FIT_NONE;
    }
}

/* How many stages the kernel passes, from the first on.  The furthest over all
 * kernels is the stage to blame when none passes all. */
static int passed(const mla_kernel *k, const struct query *q)
{
    int stage = 0;
    while (stage < STAGES && passes(k, q, stage))
        stage++;
    return stage;
}

/* The kernel's value of the field that a stage looks at. */
static void value_text(const mla_kernel *k, int stage, char *out, size_t size)
{
    const char *text = stage == FAMILY    ? k->family
                       : stage == VARIANT ? k->variant
                                          : k->arch_name;
    if (stage == HEADS || stage == PAGE)
        snprintf(out, size, "%d", stage == HEADS ? k->heads : k->page_size);
    else
        snprintf(out, size, "%s", *text ? text : "(plain)");
}

/* The distinct values that kernels have at the stage where all failed, as " a,
 * b, c"; cut off at the buffer's size. */
static void list_values(const mla_kernels *set, const struct query *q,
                        int stage, char *out, size_t size)
{
    size_t used = 0;
    *out = 0;
    for (int i = 0; i < set->count && used < size - 1; i++) {
        char value[64], between[70];
        if (passed(&set->kernel[i], q) != stage)
            continue;
        value_text(&set->kernel[i], stage, value, sizeof(value));
        snprintf(between, sizeof(between), " %s,", value);
        if (strstr(out, between))
            continue;
        used += (size_t)snprintf(out + used, size - used, " %s,", value);
    }
    if (used > 0 && used < size)
        out[used - 1] = 0;
}

/* Names the field that left no kernel over, what was asked, and what there
 * is. */
static mla_status nothing_fits(mla_kernels *set, const struct query *q,
                               int stage)
{
    static const char *const names[] = {"family", "variant", "heads",
                                        "page_size", "arch"};
    char values[512], asked[64];

    list_values(set, q, stage, values, sizeof(values));
    if (stage == FAMILY || stage == VARIANT)
        snprintf(asked, sizeof(asked), "%s",
                 stage == FAMILY ? q->family : q->variant);
    else if (stage == ARCH)
        snprintf(asked, sizeof(asked), "device %d.%d", q->major, q->minor);
    else
        snprintf(asked, sizeof(asked), "%d",
                 stage == HEADS ? q->heads : q->page_size);
    return mla__fail(set->ctx, MLA_NO_KERNEL,
                     "%s: no kernel %s%s%s for %s '%s'; there is%s",
                     set->directory, q->family, *q->variant ? " " : "",
                     q->variant, names[stage], asked,
                     *values ? values : " none");
}

/* Both symbols are named: they hold heads and page size. */
static mla_status ambiguous(mla_kernels *set, const mla_kernel *a,
                            const mla_kernel *b)
{
    return mla__fail(set->ctx, MLA_AMBIGUOUS,
                     "%s: both %s and %s fit; name heads and page_size",
                     set->directory, a->symbol, b->symbol);
}

/* The best architecture among kernels that pass every stage.  Two that
 * differ in heads or page size make the query ambiguous: they answer
 * differently. */
static mla_status choose(mla_kernels *set, const struct query *q,
                         mla_kernel **out)
{
    int furthest = 0, best_rank = 0;
    mla_kernel *best = NULL;

    for (int i = 0; i < set->count; i++) {
        mla_kernel *k = &set->kernel[i];
        int rank = mla__arch_rank(k->arch, q->major, q->minor);
        int stage = passed(k, q);
        furthest = stage > furthest ? stage : furthest;
        if (stage < STAGES)
            continue;
        if (best && (best->heads != k->heads ||
                     best->page_size != k->page_size))
            return ambiguous(set, best, k);
        if (rank > best_rank) {
            best = k;
            best_rank = rank;
        }
    }
    *out = best;
    return best ? MLA_OK : nothing_fits(set, q, furthest);
}

/* The device must be known, since the best architecture is the
 * device's best. */
mla_status mla_find(mla_kernels *set, const char *family, const char *variant,
                    int heads, int page_size, mla_kernel **out)
{
    struct query q = {family, variant ? variant : "", heads, page_size, 0, 0};
    mla_status status;

    if (!set || !family || !out)
        return MLA_INVALID_ARGUMENT;
    *out = NULL;
    status = mla__device_open(set->ctx);
    if (status)
        return status;
    q.major = set->ctx->info.major;
    q.minor = set->ctx->info.minor;
    return choose(set, &q, out);
}
