/* SPDX-License-Identifier: Apache-2.0
 *
 * publish.c: carries a comparison (folder.c) out.  The order is the point:
 *
 *   journal    what is about to be written, by hash
 *   files      each: temporary beside its place, flush, rename
 *   removals   of files no longer wanted
 *   manifest   the same way as a file; from here on the generation is the new
 *   journal    removed
 *
 * A run that dies leaves a journal, and the next run takes every file that it
 * lists for its own work.  Temporaries are written in batches and flushed
 * after the whole batch, because the first flush of a journalling file system
 * carries the others along: 100 files cost 15 ms, not 100 flushes.
 */
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "alloc.h"
#include "folder_io.h"

enum { BATCH = 64 };

/* A file on its way: written to `temp`, then renamed to `full`. */
struct pending {
    int fd;
    char full[PATH_MAX];
    char temp[PATH_MAX];
};

/* dir/name -> dir/.name.mlagen-tmp */
static enum mlagen_status name_temp(struct pending *p, struct mlagen_diags *d)
{
    const char *slash = strrchr(p->full, '/');
    int folder = slash ? (int)(slash - p->full) + 1 : 0;
    int n = snprintf(p->temp, sizeof p->temp, "%.*s.%s" MLAGEN_TEMP_SUFFIX,
                     folder, p->full, p->full + folder);

    if (n > 0 && n < (int)sizeof p->temp)
        return MLAGEN_OK;
    errno = ENAMETOOLONG;
    return mlagen_io_error(d, p->full, "cannot write");
}

static enum mlagen_status write_all(int fd, const char *data, size_t size,
                                    const char *path, struct mlagen_diags *d)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return mlagen_io_error(d, path, "cannot write");
        data += n;
        size -= (size_t)n;
    }
    return MLAGEN_OK;
}

/* Creates the temporary of `full` and fills it. */
static enum mlagen_status begin_file(struct pending *p, const char *data,
                                     size_t size, struct mlagen_diags *d)
{
    enum mlagen_status status = name_temp(p, d);

    p->fd = -1;
    if (status != MLAGEN_OK)
        return status;
    p->fd = open(p->temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                 0666);
    if (p->fd < 0)
        return mlagen_io_error(d, p->full, "cannot write");
    return write_all(p->fd, data, size, p->full, d);
}

/* Flushes, closes, renames. */
static enum mlagen_status finish_file(struct pending *p,
                                      struct mlagen_diags *d)
{
    int failed = fsync(p->fd) != 0 && errno != EINVAL && errno != ENOSYS;
    int error = errno;

    if (close(p->fd) != 0 && !failed) {
        failed = 1;
        error = errno;
    }
    p->fd = -1;
    errno = error;
    if (failed || rename(p->temp, p->full) != 0)
        return mlagen_io_error(d, p->full, "cannot write");
    return MLAGEN_OK;
}

static void abandon_file(struct pending *p)
{
    if (p->fd < 0)
        return;
    close(p->fd);
    unlink(p->temp);
}

/* The names in a folder are data of the folder: flush them too.  File systems
 * that cannot are left alone. */
static void flush_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

static enum mlagen_status replace_file(const char *path, const char *data,
                                       size_t size, struct mlagen_diags *d)
{
    struct pending p = {.fd = -1};
    enum mlagen_status status = MLAGEN_OK;

    if (snprintf(p.full, sizeof p.full, "%s", path) >= (int)sizeof p.full) {
        errno = ENAMETOOLONG;
        return mlagen_io_error(d, path, "cannot write");
    }
    status = begin_file(&p, data, size, d);
    if (status == MLAGEN_OK)
        status = finish_file(&p, d);
    if (status != MLAGEN_OK)
        abandon_file(&p);
    return status;
}

/* --- a generation --------------------------------------------------------- */

static bool is_write(const struct mlagen_change *c)
{
    return strcmp(c->what, "remove") != 0;
}

static bool is_manifest(const struct mlagen_change *c)
{
    return strcmp(c->path, MLAGEN_MANIFEST) == 0;
}

/* Files that are to go are journalled too, with every hash they may have, so
 * that a second interruption does not orphan them. */
static void journal_removal(const struct mlagen_folder *f, const char *path,
                            struct mlagen_buf *text)
{
    size_t i;
    json_t *hash;

    json_array_foreach(json_object_get(f->known, path), i, hash)
        mlagen_buf_printf(text, "%s %s\n", json_string_value(hash), path);
}

static enum mlagen_status write_journal(const struct mlagen_folder *f,
                                        const struct mlagen_outputs *o,
                                        const struct mlagen_changes *changes,
                                        struct mlagen_diags *d)
{
    struct mlagen_buf text = {0};
    char full[PATH_MAX];
    enum mlagen_status status = mlagen_join(f->path, MLAGEN_JOURNAL, full, d);

    for (size_t i = 0; i < changes->count; i++) {
        const char *path = changes->items[i].path;

        if (is_write(&changes->items[i]))
            mlagen_buf_printf(&text, "%s %s\n",
                              mlagen_outputs_find(o, path)->sha256, path);
        else
            journal_removal(f, path, &text);
    }
    if (text.failed)
        status = mlagen_no_memory(d);
    if (status == MLAGEN_OK)
        status = replace_file(full, mlagen_buf_text(&text), text.len, d);
    mlagen_buf_free(&text);
    return status;
}

/* Makes the folder that an output lies in. */
static enum mlagen_status make_parent(const char *full, struct mlagen_diags *d)
{
    char folder[PATH_MAX];

    snprintf(folder, sizeof folder, "%s", full);
    *strrchr(folder, '/') = '\0';
    return access(folder, F_OK) == 0 ? MLAGEN_OK
                                     : mlagen_make_folder(folder, d);
}

/* Writes a batch of changes; those that are no writes are passed over. */
static enum mlagen_status write_batch(const struct mlagen_folder *f,
                                      const struct mlagen_outputs *o,
                                      const struct mlagen_change *changes,
                                      size_t count, struct mlagen_diags *d)
{
    struct pending *files = mlagen_calloc(BATCH, sizeof *files);
    enum mlagen_status status = files ? MLAGEN_OK : mlagen_no_memory(d);
    size_t begun = 0;

    for (size_t i = 0; i < count && status == MLAGEN_OK; i++) {
        const struct mlagen_output *out;
        struct pending *p;

        if (!is_write(&changes[i]) || is_manifest(&changes[i]))
            continue;
        out = mlagen_outputs_find(o, changes[i].path);
        p = &files[begun++];
        p->fd = -1;
        status = mlagen_join(f->path, out->path, p->full, d);
        if (status == MLAGEN_OK)
            status = make_parent(p->full, d);
        if (status == MLAGEN_OK)
            status = begin_file(p, out->data, out->size, d);
    }
    for (size_t i = 0; i < begun && status == MLAGEN_OK; i++)
        status = finish_file(&files[i], d);
    for (size_t i = 0; i < begun && status != MLAGEN_OK; i++)
        abandon_file(&files[i]);
    mlagen_free(files);
    return status;
}

/* Removes a file and the folders that this empties, but not the root. */
static enum mlagen_status remove_file(const struct mlagen_folder *f,
                                      const char *path, struct mlagen_diags *d)
{
    char full[PATH_MAX];
    size_t root = strlen(f->path);
    enum mlagen_status status = mlagen_join(f->path, path, full, d);
    char *slash;

    if (status != MLAGEN_OK)
        return status;
    if (unlink(full) != 0 && errno != ENOENT)
        return mlagen_io_error(d, full, "cannot remove");
    while ((slash = strrchr(full, '/')) != NULL &&
           (size_t)(slash - full) > root) {
        *slash = '\0';
        if (rmdir(full) != 0)
            break;
    }
    return MLAGEN_OK;
}

static enum mlagen_status write_manifest(const struct mlagen_folder *f,
                                         const struct mlagen_outputs *o,
                                         struct mlagen_diags *d)
{
    const struct mlagen_output *m = mlagen_outputs_find(o, MLAGEN_MANIFEST);
    char full[PATH_MAX];
    enum mlagen_status status = mlagen_join(f->path, m->path, full, d);

    return status ? status : replace_file(full, m->data, m->size, d);
}

static enum mlagen_status apply(const struct mlagen_folder *f,
                                const struct mlagen_outputs *o,
                                const struct mlagen_changes *changes,
                                struct mlagen_diags *d)
{
    enum mlagen_status status = write_journal(f, o, changes, d);
    bool manifest = false;

    for (size_t i = 0; i < changes->count && status == MLAGEN_OK; i += BATCH) {
        size_t left = changes->count - i;

        status = write_batch(f, o, changes->items + i,
                             left < BATCH ? left : BATCH, d);
    }
    for (size_t i = 0; i < changes->count && status == MLAGEN_OK; i++) {
        const struct mlagen_change *c = &changes->items[i];

        if (!is_write(c))
            status = remove_file(f, c->path, d);
        else
            manifest |= is_manifest(c);
    }
    if (status == MLAGEN_OK && manifest)
        status = write_manifest(f, o, d);
    return status;
}

/* Temporaries that a killed run left. */
static enum mlagen_status sweep(void *user, const char *path)
{
    const struct mlagen_folder *f = user;
    size_t n = strlen(path), suffix = strlen(MLAGEN_TEMP_SUFFIX);
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    char full[PATH_MAX];

    if (name[0] == '.' && n > suffix &&
        strcmp(path + n - suffix, MLAGEN_TEMP_SUFFIX) == 0 &&
        snprintf(full, sizeof full, "%s/%s", f->path, path) <
            (int)sizeof full)
        unlink(full);
    return MLAGEN_OK;
}

static enum mlagen_status remove_journal(const struct mlagen_folder *f,
                                         struct mlagen_diags *d)
{
    char full[PATH_MAX];
    enum mlagen_status status = mlagen_join(f->path, MLAGEN_JOURNAL, full, d);

    if (status == MLAGEN_OK && unlink(full) != 0 && errno != ENOENT)
        status = mlagen_io_error(d, full, "cannot remove");
    return status;
}

enum mlagen_status mlagen_folder_publish(const struct mlagen_folder *f,
                                         const struct mlagen_outputs *o,
                                         const struct mlagen_changes *changes,
                                         struct mlagen_diags *d)
{
    enum mlagen_status status = MLAGEN_OK;

    if (f->interrupted)
        status = mlagen_folder_walk(f->path, sweep, (void *)f, d);
    if (status == MLAGEN_OK && changes->count > 0)
        status = apply(f, o, changes, d);
    if (status == MLAGEN_OK && changes->count > 0)
        flush_folder(f->path);
    if (status == MLAGEN_OK && (changes->count > 0 || f->interrupted))
        status = remove_journal(f, d);
    return status;
}

/* --- a single file -------------------------------------------------------- */

static bool holds(const char *path, const char *data, size_t size)
{
    char block[4096];
    size_t done = 0;
    bool same = true;
    FILE *f = fopen(path, "rbe");

    if (!f)
        return false;
    while (same) {
        size_t n = fread(block, 1, sizeof block, f);

        if (n == 0)
            break;
        same = n <= size - done && memcmp(block, data + done, n) == 0;
        done += n;
    }
    same = same && done == size && !ferror(f);
    fclose(f);
    return same;
}

enum mlagen_status mlagen_write_file(const char *path, const char *data,
                                     size_t size, struct mlagen_diags *d)
{
    return holds(path, data, size) ? MLAGEN_OK
                                   : replace_file(path, data, size, d);
}
