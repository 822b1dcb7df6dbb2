/* SPDX-License-Identifier: Apache-2.0
 *
 * image.c: where a kernel's image comes from, and the key that the cache
 * knows it by.
 *
 * mla__image_find asks what costs no compilation, mla__image_compile the
 * compiler.  They are apart so that prepare.c can load all of the former
 * before it starts threads for the latter.  A source is read and hashed in
 * either case: that is what a warm start pays for knowing that its kernels are
 * those of the manifest (docs/jit-cache.md).
 */
#include <string.h>

#include "cache.h"

void mla__image_free(mla_context *ctx, struct mla__image *image)
{
    mla__free(ctx, image->data);
    image->data = NULL;
    image->bytes = 0;
}

/* Over everything that decides what comes out: the source, by its hash (the
 * path does not count), every option and with them the architecture, the kind
 * of image and the compiler's own code.  False if there is no compiler: what
 * it would make is not known then. */
static bool make_key(mla_context *ctx, const mla_kernel *k, enum mla__kind kind,
                     char key[MLA__SHA256_HEX + 1])
{
    const char *texts[4 + MLA__NVRTC_OPTIONS];
    const char *identity = mla__nvrtc_identity(ctx);
    char target[64];
    int count;

    if (!*identity)
        return false;
    texts[0] = "libmla cache 1";
    texts[1] = kind == MLA__CUBIN ? "cubin" : "ptx";
    texts[2] = k->source_hash;
    texts[3] = identity;
    count = 4 + mla__nvrtc_options(k->arch, kind, target, texts + 4);
    mla__sha256_texts(texts, (size_t)count, key);
    return true;
}

/* The cubin that came with the set; an edited one is an error. */
static mla_status own_cubin(mla_context *ctx, const mla_kernel *k,
                            struct mla__image *out)
{
    out->kind = MLA__CUBIN;
    return mla__set_file(ctx, k->owner, k->cubin, k->cubin_hash, &out->data,
                         &out->bytes);
}

/* The source, which is what the manifest says or an error.  *source is the
 * caller's to free.  A compiler would take a NUL for the end. */
static mla_status read_source(mla_context *ctx, const mla_kernel *k,
                              char **source)
{
    size_t bytes, length;
    mla_status status = mla__set_file(ctx, k->owner, k->source,
                                      k->source_hash, source, &bytes);

    length = status ? bytes : strlen(*source);
    if (length == bytes)
        return status;
    mla__free(ctx, *source);
    *source = NULL;
    return mla__fail(ctx, MLA_COMPILE, "%s: a NUL behind %zu bytes", k->source,
                     length);
}

/* An edited source is an error, whether or not the cache has the image of the
 * one that the manifest means. */
static mla_status find_cached(mla_context *ctx, const mla_kernel *k,
                              struct mla__image *out, bool *found)
{
    char key[MLA__SHA256_HEX + 1], *source;
    mla_status status = read_source(ctx, k, &source);

    mla__free(ctx, source);
    if (!status && make_key(ctx, k, out->kind, key))
        *found = mla__cache_read(ctx, key, out);
    return status;
}

/* Sets in memory may leave the cubins out although the manifest has them. */
static bool has_cubin(const mla_kernel *k)
{
    const mla_kernels *set = k->owner;

    if (!*k->cubin)
        return false;
    for (int i = 0; i < set->file_count; i++)
        if (strcmp(set->files[i].path, k->cubin) == 0)
            return true;
    return !set->files;
}

/* A cubin of the set wins over the cache and is not kept there. */
mla_status mla__image_find(mla_context *ctx, const mla_kernel *k,
                           enum mla__kind kind, struct mla__image *out,
                           bool *found)
{
    *out = (struct mla__image){NULL, 0, kind};
    *found = kind == MLA__CUBIN && has_cubin(k);
    if (*found)
        return own_cubin(ctx, k, out);
    if (mla__cache_open(ctx) && ctx->cache->folder >= 0)
        return find_cached(ctx, k, out, found);
    return MLA_OK;
}

/* Compiling ---------------------------------------------------------------
 */

/* What a compilation is of; lives on mla__image_compile's stack. */
struct work {
    const mla_kernel *k;
    enum mla__kind kind;
    const char *key;
};

/* A source that reads other files is not known by its own hash.  Emitted ones
 * include nothing. */
static bool includes(const char *source)
{
    for (const char *p = source; (p = strchr(p, '#'));) {
        p += 1 + strspn(p + 1, " \t");
        if (strncmp(p, "include", 7) == 0)
            return true;
    }
    return false;
}

/* Under the key's lock: another process may have published the image while
 * this one waited, so the cache is asked once more. */
static mla_status make(mla_context *ctx, void *user, struct mla__image *out)
{
    const struct work *w = user;
    const mla_kernel *k = w->k;
    char *source;
    mla_status status = read_source(ctx, k, &source);

    if (status)
        return status;
    mla__cache_lock(ctx, w->key);
    if (!mla__cache_read(ctx, w->key, out)) {
        status =
            mla__nvrtc_compile(ctx, source, k->source, k->arch, w->kind, out);
        if (!status && !includes(source))
            mla__cache_write(ctx, w->key, out);
    }
    mla__cache_unlock(ctx, w->key);
    mla__free(ctx, source);
    return status;
}

/* NVRTC first: without it nothing will be written that a sweep makes
 * room for. */
mla_status mla__image_begin(mla_context *ctx)
{
    mla_status status = mla__nvrtc_open(ctx);
    if (!status)
        mla__cache_sweep(ctx);
    return status;
}

/* There is no key only where the file of the NVRTC that is open cannot
 * be read. */
mla_status mla__image_compile(mla_context *ctx, const mla_kernel *k,
                              enum mla__kind kind, struct mla__image *out)
{
    char key[MLA__SHA256_HEX + 1];
    struct work w = {k, kind, key};

    *out = (struct mla__image){NULL, 0, kind};
    if (!make_key(ctx, k, kind, key))
        return mla__fail(ctx, MLA_NO_COMPILER, "NVRTC %s: not a file",
                         ctx->nvrtc.path);
    return mla__flight(ctx, key, make, &w, out);
}
