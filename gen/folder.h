/* SPDX-License-Identifier: Apache-2.0
 *
 * folder.h: an output folder, and how a generation gets into it.
 *
 * A generation is a set of files in memory (outputs.h).  Publishing compares
 * it with what lies on the disk and touches only what differs: a new or
 * changed file is written beside its place, flushed, and renamed into it; a
 * file of the generation before that is no longer wanted is removed;
 * manifest.json comes last.  Whatever moment the machine stops at, each file
 * is either the old one or the new one, whole, and the next run knows both for
 * its own.
 *
 * What is "its own": a file that the old manifest lists with this hash, or
 * that the journal of an interrupted run lists.  A file that nobody lists is
 * never overwritten, and a listed file that somebody edited is never removed.
 */
#ifndef MLAGEN_FOLDER_H
#define MLAGEN_FOLDER_H

#include <jansson.h>

#include "outputs.h"

#define MLAGEN_MANIFEST "manifest.json"
#define MLAGEN_JOURNAL ".mlagen-journal"
#define MLAGEN_TEMP_SUFFIX ".mlagen-tmp" /* of files that are being written   \
                                          */

struct mlagen_folder {
    char *path;
    int lock;         /* file descriptor; -1 when opened for reading only */
    json_t *manifest; /* of the generation before; NULL when there is none */
    json_t *known;    /* path -> array of hashes that mlagen wrote there */
    bool interrupted; /* a journal was found */
};

/* Opens a folder, which need not exist.  For writing it is locked against
 * other runs (the lock is the kernel's and dies with the process); a folder
 * that another run holds is an error at once.  It is created when the first
 * file is written.
 * @return MLAGEN_IO: it is a file, it cannot be read, its manifest is not
 * ours.
 */
enum mlagen_status mlagen_folder_open(const char *path, bool write,
                                      struct mlagen_folder *f,
                                      struct mlagen_diags *d);
void mlagen_folder_close(struct mlagen_folder *f);

/* Reads one file of the folder.  *found says whether there is such a regular
 * file; anything else of that name is an error. */
enum mlagen_status mlagen_folder_read(const struct mlagen_folder *f,
                                      const char *path, struct mlagen_buf *out,
                                      bool *found, struct mlagen_diags *d);

/* One difference between the folder and what should be in it. */
struct mlagen_change {
    const char *what; /* static text: "add", "change", "remove", ... */
    char *path;
};

struct mlagen_changes {
    struct mlagen_change *items;
    size_t count, cap;
};

enum mlagen_status mlagen_change_add(struct mlagen_changes *c,
                                     const char *what, const char *path,
                                     struct mlagen_diags *d);
void mlagen_changes_free(struct mlagen_changes *c);

/* Compares: fills `changes` with "add", "change" and "remove", in the order of
 * the set, removals last.  Warns about edits that would be lost and about
 * edited files that stay.
 * @return MLAGEN_IO when a file that mlagen did not make is in the way. */
enum mlagen_status mlagen_folder_compare(const struct mlagen_folder *f,
                                         const struct mlagen_outputs *o,
                                         struct mlagen_changes *changes,
                                         struct mlagen_diags *d);

/* Carries the changes out.  The last file of `o` is the manifest. */
enum mlagen_status mlagen_folder_publish(const struct mlagen_folder *f,
                                         const struct mlagen_outputs *o,
                                         const struct mlagen_changes *changes,
                                         struct mlagen_diags *d);

/* Writes one file with the same care (temporary, flush, rename), or leaves it
 * alone when it holds this text already. */
enum mlagen_status mlagen_write_file(const char *path, const char *data,
                                     size_t size, struct mlagen_diags *d);

/* Calls `visit` with the relative path of everything below the folder that is
 * not itself a folder, sorted.  A folder that does not exist is empty.
 * @return what a visit returned first, MLAGEN_IO, or MLAGEN_OK. */
typedef enum mlagen_status (*mlagen_visit_fn)(void *user, const char *path);
enum mlagen_status mlagen_folder_walk(const char *path, mlagen_visit_fn visit,
                                      void *user, struct mlagen_diags *d);

#endif
