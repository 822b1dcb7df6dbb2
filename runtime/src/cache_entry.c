/* SPDX-License-Identifier: Apache-2.0
 *
 * cache_entry.c: one entry of the cache: believing it, making it, putting it
 * away.
 *
 * Everything goes through the descriptor of the cache's folder and follows no
 * symbolic link, so what was checked when the cache was opened holds here.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache.h"

enum { MAX_SUM = 512, MAX_IMAGE = 1 << 28, NAME = 32, TRIES = 16 };

/* By MLA__CUBIN and MLA__PTX; part of the format. */
static const char *const kind_names[] = {"cubin", "ptx"};

/* The text of an entry's `sum` for this key and image.  An entry is sound
 * if its `sum` is this text: one comparison covers form, kind, key, size
 * and hash. */
static int sum_text(char *out, size_t size, const char *key,
                    const struct mla__image *image)
{
    char hash[MLA__SHA256_HEX + 1];
    mla__sha256_hex(image->data, image->bytes, hash);
    return snprintf(out, size, "libmla cache 1\n%s %s\n%zu %s\n",
                    kind_names[image->kind], key, image->bytes, hash);
}

/* Reading ------------------------------------------------------------------
 */

/* A regular file of ours of at most `most` bytes; -1 for anything else.  A
 * pipe must not make us wait, hence O_NONBLOCK. */
static int open_plain(int folder, const char *name, size_t most, size_t *bytes)
{
    int fd =
        openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        st.st_size < 0 || (size_t)st.st_size > most) {
        close(fd);
        return -1;
    }
    *bytes = (size_t)st.st_size;
    return fd;
}

/* Exactly so many bytes; a file that has become shorter is refused. */
static bool read_whole(int fd, char *out, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = read(fd, out + done, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

/* The bytes of a file of the entry, NUL-terminated; NULL if there is none. */
static char *read_plain(mla_context *ctx, int folder, const char *name,
                        size_t most, size_t *bytes)
{
    int fd = open_plain(folder, name, most, bytes);
    char *data = fd < 0 ? NULL : mla__alloc(ctx, *bytes + 1);

    if (data && !read_whole(fd, data, *bytes)) {
        mla__free(ctx, data);
        data = NULL;
    }
    if (fd >= 0)
        close(fd);
    return data;
}

/* The entry's folder: ours, and of nobody else to write. */
static int open_entry(int cache, const char *key)
{
    int fd =
        openat(cache, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
        !(st.st_mode & (S_IWGRP | S_IWOTH)))
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

/* Image and sum agree with each other and with the key.  out->kind is what the
 * caller wants; *out is empty on failure. */
static bool read_entry(mla_context *ctx, int entry, const char *key,
                       struct mla__image *out)
{
    char want[MAX_SUM];
    size_t bytes;
    char *sum = read_plain(ctx, entry, "sum", MAX_SUM, &bytes);
    bool good = false;

    out->data =
        sum ? read_plain(ctx, entry, "image", MAX_IMAGE, &out->bytes) : NULL;
    if (out->data) {
        sum_text(want, sizeof(want), key, out);
        good = strcmp(want, sum) == 0;
    }
    if (!good)
        mla__image_free(ctx, out);
    mla__free(ctx, sum);
    return good;
}

/* A name that nobody else has.  Without randomness the names of one process
 * still differ from those of others. */
static void fresh_name(char out[NAME])
{
    unsigned long long random = 0;
    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
        random = (unsigned long long)getpid();
    snprintf(out, NAME, "tmp.%016llx", random);
}

/* Something is there under the key's name, but it is no entry of ours (as
 * against: there is nothing, or this process has no descriptor to spare). */
static bool in_the_way(int error)
{
    return error == ENOTDIR || error == ELOOP || error == EPERM ||
           error == EACCES;
}

/* Moves what is no entry out of the way and removes it. */
static void put_away(mla_context *ctx, const char *key)
{
    struct mla__cache *c = ctx->cache;
    char name[NAME];

    mla__log(ctx, MLA_LOG_WARNING,
             "cache %s: entry %.12s is damaged; it is made again", c->path,
             key);
    fresh_name(name);
    if (renameat(c->folder, key, c->folder, name) == 0)
        mla__cache_remove(c->folder, name);
}

/* Nothing there is silence; something there that is no entry is put away, with
 * a line of log. */
bool mla__cache_read(mla_context *ctx, const char *key, struct mla__image *out)
{
    struct mla__cache *c = mla__cache_open(ctx);
    bool good = false;
    int entry;

    if (!c || c->folder < 0)
        return false;
    entry = open_entry(c->folder, key);
    if (entry < 0 && !in_the_way(errno))
        return false;
    if (entry >= 0) {
        good = read_entry(ctx, entry, key, out);
        close(entry);
    }
    if (!good)
        put_away(ctx, key);
    return good;
}

/* Removing -----------------------------------------------------------------
 */

/* Removes the plain files of a folder; it may have lost its permissions. */
static void empty_folder(int folder, const char *name)
{
    struct dirent *entry;
    DIR *list;
    int fd;

    fchmodat(folder, name, 0700, 0);
    fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    list = fd < 0 ? NULL : fdopendir(fd);
    if (!list && fd >= 0)
        close(fd);
    while (list && (entry = readdir(list)))
        if (unlinkat(dirfd(list), entry->d_name, 0) && errno == EISDIR)
            unlinkat(dirfd(list), entry->d_name, AT_REMOVEDIR);
    if (list)
        closedir(list);
}

/* A file, or a folder with files and empty folders in it; what cannot be
 * removed stays, and is tried again by the next sweep. */
void mla__cache_remove(int folder, const char *name)
{
    if (unlinkat(folder, name, 0) == 0)
        return;
    empty_folder(folder, name);
    unlinkat(folder, name, AT_REMOVEDIR);
}

/* Writing ------------------------------------------------------------------
 */

/* A full disk shows here, or at fsync, or at close: all three are asked. */
static bool write_whole(int fd, const char *data, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = write(fd, data + done, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

/* A new file with these bytes, flushed to the disk. */
static bool write_plain(int folder, const char *name, const char *data,
                        size_t bytes)
{
    int fd = openat(folder, name,
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool good;

    if (fd < 0)
        return false;
    good = write_whole(fd, data, bytes) && fsync(fd) == 0;
    return close(fd) == 0 && good;
}

/* Both files and the folder that holds them, each flushed: the rename that
 * follows must not reach the disk before what it names. */
static bool fill_entry(int entry, const char *key,
                       const struct mla__image *image)
{
    char sum[MAX_SUM];
    int bytes = sum_text(sum, sizeof(sum), key, image);

    return write_plain(entry, "image", image->data, image->bytes) &&
           write_plain(entry, "sum", sum, (size_t)bytes) && fsync(entry) == 0;
}

/* Claims the folder against mla__cache_sweep, which may have it at this very
 * moment: then it is waited for, and the folder is gone. */
static int claim(int cache, const char *name, int entry)
{
    struct stat st;
    flock(entry, LOCK_EX);
    return fstatat(cache, name, &st, AT_SYMLINK_NOFOLLOW) ? errno : 0;
}

/* Fills the folder `name` and renames it to its key.  Returns 0 or an errno:
 * ENOENT when a sweep took the folder before it was claimed. */
static int fill_and_move(int cache, const char *name, const char *key,
                         const struct mla__image *image)
{
    int entry =
        openat(cache, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int error;

    if (entry < 0)
        return errno;
    error = claim(cache, name, entry);
    if (!error && (!fill_entry(entry, key, image) ||
                   renameat(cache, name, cache, key)))
        error = errno;
    close(entry);
    return error;
}

/* 0 when the entry is there, else an errno.  Another process may have
 * been first: renaming onto its full folder fails, and its entry is as
 * good as ours. */
static int make_entry_once(int cache, const char *key,
                           const struct mla__image *image)
{
    char name[NAME];
    int error;

    fresh_name(name);
    if (mkdirat(cache, name, 0700))
        return errno;
    error = fill_and_move(cache, name, key, image);
    if (error)
        mla__cache_remove(cache, name);
    else
        fsync(cache);
    return error == EEXIST || error == ENOTEMPTY ? 0 : error;
}

/* Each context sweeps once, so only so many sweeps can come in between. */
static int make_entry(int cache, const char *key,
                      const struct mla__image *image)
{
    int error = ENOENT;
    for (int i = 0; i < TRIES && error == ENOENT; i++)
        error = make_entry_once(cache, key, image);
    return error;
}

/* A failure is told once per cache, not once per kernel. */
void mla__cache_write(mla_context *ctx, const char *key,
                      const struct mla__image *image)
{
    struct mla__cache *c = mla__cache_open(ctx);
    int error;

    if (!c || c->folder < 0)
        return;
    error = make_entry(c->folder, key, image);
    if (error && !atomic_exchange(&c->told, true))
        mla__log(ctx, MLA_LOG_WARNING, "cache %s: nothing can be kept: %s",
                 c->path, strerror(error));
}
