/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c: reading a file of a set, and knowing that it is the one.
 *
 * A set is a directory, or files that the caller has in memory; both are read
 * by the path that the manifest has for them and checked against its hash each
 * time, so a source or cubin that was edited never reaches the GPU.  The
 * manifest itself is believed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "internal.h"

/* 256 MiB: a path that leads to something else than a source or a cubin is
 * refused before memory is asked for. */
enum { MAX_FILE_BYTES = 1 << 28 };

/* A path of a manifest stays below its directory: not empty, not absolute, no
 * component "..".  Symbolic links are the directory's owner's business. */
static bool is_inside(const char *path)
{
    if (*path == 0 || *path == '/')
        return false;
    for (const char *p = path; p; p = strchr(p, '/')) {
        p += *p == '/';
        if (p[0] == '.' && p[1] == '.' && (p[2] == '/' || p[2] == 0))
            return false;
    }
    return true;
}

/* The whole of a regular file of reasonable size, NUL-terminated; a
 * directory or a device is not one.  On failure *out may hold memory, which
 * the caller frees. */
static mla_status read_stream(mla_context *ctx, FILE *file, const char *path,
                              char **out, size_t *bytes)
{
    struct stat st;
    if (fstat(fileno(file), &st))
        return mla__fail(ctx, MLA_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_size > MAX_FILE_BYTES)
        return mla__fail(ctx, MLA_IO, "%s: not a file of at most %d bytes",
                         path, MAX_FILE_BYTES);
    *bytes = (size_t)st.st_size;
    *out = mla__alloc(ctx, *bytes + 1);
    if (!*out)
        return mla__fail(ctx, MLA_OUT_OF_MEMORY, "%s", path);
    if (fread(*out, 1, *bytes, file) != *bytes)
        return mla__fail(ctx, MLA_IO, "%s: it ends before its size", path);
    return MLA_OK;
}

/* Error CORRUPT.  An empty `want` means that the manifest states no hash. */
static mla_status check_hash(mla_context *ctx, const char *path,
                             const char *want, const char *data, size_t bytes)
{
    char have[MLA__SHA256_HEX + 1];
    if (!*want)
        return MLA_OK;
    mla__sha256_hex(data, bytes, have);
    if (strcmp(have, want) == 0)
        return MLA_OK;
    return mla__fail(ctx, MLA_CORRUPT,
                     "%s: SHA-256 is %s, the manifest says %s", path, have,
                     want);
}

/* The file of a set in memory, copied, as callers free what they get.  Paths
 * are compared as text: both are the manifest's. */
static mla_status copy_file(mla_context *ctx, const mla_kernels *set,
                            const char *path, char **out, size_t *bytes)
{
    for (int i = 0; i < set->file_count; i++) {
        const mla_file *f = &set->files[i];
        if (strcmp(f->path, path))
            continue;
        *out = mla__alloc(ctx, f->bytes + 1);
        if (!*out)
            return mla__fail(ctx, MLA_OUT_OF_MEMORY, "%s", path);
        if (f->bytes)
            memcpy(*out, f->data, f->bytes);
        *bytes = f->bytes;
        return MLA_OK;
    }
    return mla__fail(ctx, MLA_IO, "%s: no file %s in memory", set->directory,
                     path);
}

/* Copies and checks a file in memory like one on disk: the caller of
 * mla_load_files may have it from anywhere. */
mla_status mla__set_file(mla_context *ctx, const mla_kernels *set,
                         const char *path, const char *hash, char **out,
                         size_t *bytes)
{
    mla_status status;

    if (!set->files)
        return mla__read_file(ctx, set->directory, path, hash, out, bytes);
    *out = NULL;
    *bytes = 0;
    status = copy_file(ctx, set, path, out, bytes);
    if (!status)
        status = check_hash(ctx, path, hash, *out, *bytes);
    if (status) {
        mla__free(ctx, *out);
        *out = NULL;
        *bytes = 0;
    }
    return status;
}

/* Path and hash are the manifest's; the directory is the caller's and may be
 * anything that fopen takes. */
mla_status mla__read_file(mla_context *ctx, const char *directory,
                          const char *path, const char *hash, char **out,
                          size_t *bytes)
{
    char *full = NULL;
    FILE *file = NULL;
    mla_status status;

    *out = NULL;
    *bytes = 0;
    if (!is_inside(path))
        return mla__fail(ctx, MLA_BAD_MANIFEST,
                         "path '%s' leads out of the directory", path);
    full = mla__format(ctx, "%s/%s", directory, path);
    if (!full)
        return mla__fail(ctx, MLA_OUT_OF_MEMORY, "%s", path);
    file = fopen(full, "rb");
    status = file ? read_stream(ctx, file, full, out, bytes)
                  : mla__fail(ctx, MLA_IO, "%s: %s", full, strerror(errno));
    if (!status)
        status = check_hash(ctx, full, hash, *out, *bytes);
    if (file)
        fclose(file);
    mla__free(ctx, full);
    if (status) {
        mla__free(ctx, *out);
        *out = NULL;
        *bytes = 0;
    }
    return status;
}
