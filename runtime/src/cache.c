/* SPDX-License-Identifier: Apache-2.0
 *
 * cache.c: which folder the cache is, whether it may be trusted, and the
 * locks of processes that compile at the same time.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cache.h"

/* A compilation takes a second or so; after 60 somebody has stalled, and doing
 * the work twice is the lesser evil. */
enum { WAIT_MS = 60000, POLL_MS = 10, TELL_MS = 1000 };

/* The folder ---------------------------------------------------------------
 */

/* $name/rest, if the variable holds an absolute path (XDG Base Directory
 * Specification: any other is to be ignored). */
static char *below(mla_context *ctx, const char *name, const char *rest)
{
    const char *root = getenv(name);
    if (!root || *root != '/')
        return NULL;
    return mla__format(ctx, "%s/%s", root, rest);
}

char *mla__cache_path(mla_context *ctx)
{
    const char *named =
        ctx->options.cache ? ctx->options.cache : getenv("MLA_CACHE");
    char *path;

    if (named)
        return *named ? mla__strdup(ctx, named) : NULL;
    path = below(ctx, "XDG_CACHE_HOME", "mla");
    return path ? path : below(ctx, "HOME", ".cache/mla");
}

/* Makes the folder, and the one above it if that is missing too (a home
 * without .cache).  Failures show when the folder is opened. */
static void make_folder(const char *path)
{
    char above[PATH_MAX];
    char *slash;

    snprintf(above, sizeof(above), "%s", path);
    slash = strrchr(above, '/');
    if (slash && slash > above) {
        *slash = 0;
        mkdir(above, 0700);
    }
    mkdir(path, 0700);
}

/* NULL, or why the folder may not be used: code that others can change must
 * not run here. */
static const char *distrust(int folder)
{
    struct stat st;
    if (fstat(folder, &st))
        return strerror(errno);
    if (st.st_uid != geteuid())
        return "it belongs to another user";
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return "others may write to it";
    return NULL;
}

/* Opens the folder, made if need be; c->folder stays -1 when it is not to be
 * used. */
static void open_folder(mla_context *ctx, struct mla__cache *c)
{
    const char *why;

    make_folder(c->path);
    c->folder = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    why = c->folder < 0 ? strerror(errno) : distrust(c->folder);
    if (!why)
        return;
    mla__log(ctx, MLA_LOG_WARNING, "cache %s is not used: %s", c->path, why);
    if (c->folder >= 0)
        close(c->folder);
    c->folder = -1;
}

/* Tells why there is no cache only if somebody could have expected one: an
 * empty MLA_CACHE or option is a wish. */
struct mla__cache *mla__cache_open(mla_context *ctx)
{
    struct mla__cache *c = ctx->cache;

    if (c)
        return c;
    c = mla__alloc(ctx, sizeof(*c));
    if (!c)
        return NULL;
    c->folder = c->lock = -1;
    c->wait_ms = WAIT_MS;
    c->path = mla__cache_path(ctx);
    if (c->path)
        open_folder(ctx, c);
    else if (!ctx->options.cache && !getenv("MLA_CACHE"))
        mla__log(ctx, MLA_LOG_WARNING,
                 "no cache: neither XDG_CACHE_HOME nor HOME is a path");
    ctx->cache = c;
    return c;
}

void mla__cache_close(mla_context *ctx)
{
    struct mla__cache *c = ctx->cache;

    if (!c)
        return;
    if (c->folder >= 0)
        close(c->folder);
    if (c->lock >= 0)
        close(c->lock);
    mla__free(ctx, c->path);
    mla__free(ctx, c);
    ctx->cache = NULL;
}

/* Locks --------------------------------------------------------------------
 *
 * A lock only saves work: entries are whole without it.  It is a byte range
 * of one file, the kernel's and not the file's, so nothing stays behind when
 * a process dies; and whoever cannot have it goes on without.
 */

/* The byte of the lock file that stands for a key: its first 48 bits.  Two
 * keys with the same would wait for each other, which costs time and
 * nothing else. */
static off_t lock_place(const char *key)
{
    char digits[13];
    snprintf(digits, sizeof(digits), "%s", key);
    return (off_t)strtoll(digits, NULL, 16);
}

/* fcntl's answer for the key's byte: 0 or an errno. */
static int set_lock(const struct mla__cache *c, const char *key, short type)
{
    struct flock range = {.l_type = type,
                          .l_whence = SEEK_SET,
                          .l_start = lock_place(key),
                          .l_len = 1};
    return fcntl(c->lock, F_SETLK, &range) ? errno : 0;
}

static void pause_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

/* Polls, as F_SETLKW cannot be told when to give up.  Any other error than
 * "somebody has it" means that there are no locks: then without. */
void mla__cache_lock(mla_context *ctx, const char *key)
{
    struct mla__cache *c = ctx->cache;
    int waited = 0;

    if (!c || c->lock < 0)
        return;
    for (;;) {
        int result = set_lock(c, key, F_WRLCK);
        if (result != EAGAIN && result != EACCES)
            return;
        if (waited == TELL_MS)
            mla__log(ctx, MLA_LOG_INFO,
                     "cache %s: waiting for another process that compiles "
                     "%.12s",
                     c->path, key);
        if (waited >= c->wait_ms)
            break;
        pause_ms(POLL_MS);
        waited += POLL_MS;
    }
    mla__log(ctx, MLA_LOG_WARNING,
             "cache %s: waited %d ms for another process; compiling too",
             c->path, waited);
}

void mla__cache_unlock(mla_context *ctx, const char *key)
{
    if (ctx->cache && ctx->cache->lock >= 0)
        set_lock(ctx->cache, key, F_UNLCK);
}

/* Leftovers ----------------------------------------------------------------
 */

/* A writer holds its folder locked while it lives, and looks for it again once
 * it has the lock (cache_entry.c). */
static void sweep_one(int folder, const char *name)
{
    int fd =
        openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        mla__cache_remove(folder, name);
    close(fd);
}

/* Once per context, as `lock` is opened here: before the first compilation, so
 * that a start that compiles nothing does not walk the folder. */
void mla__cache_sweep(mla_context *ctx)
{
    struct mla__cache *c = mla__cache_open(ctx);
    struct dirent *entry;
    DIR *list;
    int fd;

    if (!c || c->folder < 0 || c->lock >= 0)
        return;
    c->lock = openat(c->folder, "lock",
                     O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    fd = openat(c->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    list = fd < 0 ? NULL : fdopendir(fd);
    if (!list && fd >= 0)
        close(fd);
    while (list && (entry = readdir(list)))
        if (strncmp(entry->d_name, "tmp.", 4) == 0)
            sweep_one(c->folder, entry->d_name);
    if (list)
        closedir(list);
}
