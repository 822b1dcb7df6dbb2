/* SPDX-License-Identifier: Apache-2.0
 *
 * cache.h: compiled kernels of earlier runs, on disk.
 *
 *     <cache>/<key>/image    what the compiler made
 *     <cache>/<key>/sum      format, key, bytes, SHA-256 of the image
 *     <cache>/tmp.<random>   an entry that is being made
 *     <cache>/lock           empty; a byte range per key is locked
 *
 * An entry is a directory that is filled and flushed under another name and
 * then renamed to its key, so it is there as a whole or not at all.  Reading
 * believes nothing: name, size and hash must agree, otherwise the entry is
 * put away and made again.  Nothing depends on times.  The kernel drops locks
 * with the process that holds them, and waiting for one ends.
 *
 * The cache is never necessary.  One that is missing, read-only, full, not
 * ours or writable by others is not used, and one line of log says so.
 */
#ifndef MLA_CACHE_H
#define MLA_CACHE_H

#include <stdatomic.h>

#include "internal.h"

struct mla__cache {
    int folder;  /* descriptor; -1: there is no cache */
    int lock;    /* descriptor of the lock file; -1: not to be had */
    int wait_ms; /* longest wait for another process' compilation */
    char *path;
    atomic_bool told; /* that nothing can be written */
};

/* The folder by options, environment and XDG rules; NULL if they name none.
 * Freed by the caller. */
char *mla__cache_path(mla_context *ctx);

/* Opens the cache on the first call; NULL without memory. */
struct mla__cache *mla__cache_open(mla_context *ctx);
void mla__cache_close(mla_context *ctx);

/* Reads the entry; false if there is none that is sound. */
bool mla__cache_read(mla_context *ctx, const char *key, struct mla__image *out);

/* Publishes an entry; on failure there is none, and a line of log. */
void mla__cache_write(mla_context *ctx, const char *key,
                      const struct mla__image *image);

/* Waits, up to the cache's limit, until no other process compiles the key,
 * and says to others that this one does. */
void mla__cache_lock(mla_context *ctx, const char *key);
void mla__cache_unlock(mla_context *ctx, const char *key);

/* Removes what processes left that were killed while they made an entry. */
void mla__cache_sweep(mla_context *ctx);

/* cache_entry.c, for cache.c: removes a folder of plain files, or a file. */
void mla__cache_remove(int folder, const char *name);

/* flight.c: runs make(), unless another thread of this process runs it for
 * the same key: then waits, and takes a copy of what came out. */
typedef mla_status (*mla__make_fn)(mla_context *ctx, void *user,
                                   struct mla__image *out);
mla_status mla__flight(mla_context *ctx, const char *key, mla__make_fn make,
                       void *user, struct mla__image *out);

#endif
