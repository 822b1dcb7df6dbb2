/* SPDX-License-Identifier: Apache-2.0
 *
 * folder.c: reading an output folder and comparing it with a generation; the
 * writing half is publish.c.  See folder.h for the rules.
 */
#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "folder_io.h"
#include "manifest.h"
#include "source.h"

/* A bound on what is read into memory, and so on what a damaged name
 * can cost. */
#define FILE_LIMIT ((size_t)256 << 20) /* no file of ours is near that */

/* errno is read first of all, so nothing may come between it and this call. */
enum mlagen_status mlagen_io_error(struct mlagen_diags *d, const char *path,
                                   const char *doing)
{
    mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){path, 0, 0}, "%s: %s",
                doing, strerror(errno));
    return MLAGEN_IO;
}

/* Paths that would be cut off are refused: half a path may be another file. */
enum mlagen_status mlagen_join(const char *folder, const char *path,
                               char full[PATH_MAX], struct mlagen_diags *d)
{
    int n = snprintf(full, PATH_MAX, "%s/%s", folder, path);

    if (n > 0 && n < PATH_MAX)
        return MLAGEN_OK;
    errno = ENAMETOOLONG;
    return mlagen_io_error(d, path, "cannot use");
}

/* A link to a folder is one. */
static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* From the top down, part by part.  EEXIST is fine: another process may make
 * the same folder; if it is a file, the next part fails. */
enum mlagen_status mlagen_make_folder(const char *path, struct mlagen_diags *d)
{
    char part[PATH_MAX];
    size_t n = strlen(path);

    if (n == 0 || n >= sizeof part) {
        errno = n ? ENAMETOOLONG : ENOENT;
        return mlagen_io_error(d, path, "cannot create folder");
    }
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (!is_folder(part) && mkdir(part, 0777) != 0 && errno != EEXIST)
            return mlagen_io_error(d, part, "cannot create folder");
    }
    return MLAGEN_OK;
}

/* --- what lies on the disk ------------------------------------------------
 */

/* lstat: a symbolic link is no regular file, so nothing outside the folder is
 * read, and later written, through one. */
enum mlagen_status mlagen_folder_read(const struct mlagen_folder *f,
                                      const char *path, struct mlagen_buf *out,
                                      bool *found, struct mlagen_diags *d)
{
    char full[PATH_MAX];
    struct stat st;
    enum mlagen_status status = mlagen_join(f->path, path, full, d);

    *found = false;
    if (status != MLAGEN_OK)
        return status;
    if (lstat(full, &st) != 0)
        return errno == ENOENT ? MLAGEN_OK
                               : mlagen_io_error(d, full, "cannot read");
    if (!S_ISREG(st.st_mode)) {
        mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){full, 0, 0},
                    "not a regular file, and in the way of an output");
        return MLAGEN_IO;
    }
    *found = true;
    return mlagen_read_file(full, FILE_LIMIT, out, d);
}

/* Adds one hash to the set of those that mlagen wrote at a path.  Without
 * memory the whole set is dropped, which mlagen_folder_open looks at. */
static void know(void *user, const char *path, const char *sha256)
{
    struct mlagen_folder *f = user;
    json_t *hashes = json_object_get(f->known, path);

    if (!hashes && json_object_set_new(f->known, path, json_array()) == 0)
        hashes = json_object_get(f->known, path);
    if (json_array_append_new(hashes, json_string(sha256)) == 0)
        return;
    json_decref(f->known);
    f->known = NULL;
}

/* True when mlagen wrote exactly this at that path, in the generation of the
 * manifest or in an interrupted run: only then may it be replaced silently. */
static bool is_known(const struct mlagen_folder *f, const char *path,
                     const char *sha256)
{
    size_t i;
    json_t *hash;

    json_array_foreach(json_object_get(f->known, path), i,
                       hash) if (strcmp(json_string_value(hash), sha256) ==
                                 0) return true;
    return false;
}

/* Takes the manifest of the generation before, if there is one, and the hashes
 * that it lists. */
static enum mlagen_status read_manifest(struct mlagen_folder *f,
                                        struct mlagen_diags *d)
{
    struct mlagen_buf text = {0};
    char full[PATH_MAX];
    bool found;
    enum mlagen_status status =
        mlagen_folder_read(f, MLAGEN_MANIFEST, &text, &found, d);

    if (status == MLAGEN_OK && found)
        status = mlagen_join(f->path, MLAGEN_MANIFEST, full, d);
    if (status == MLAGEN_OK && found)
        status = mlagen_manifest_parse(mlagen_buf_text(&text), text.len, full,
                                       &f->manifest, d);
    if (status == MLAGEN_OK && found)
        mlagen_manifest_each(f->manifest, know, f);
    mlagen_buf_free(&text);
    return status;
}

/* The journal: lines "<hash> <path>" of what an interrupted run was writing.
 * A line that is not of this form was cut off and names nothing; nor does one
 * whose path leads out of the folder. */
static enum mlagen_status read_journal(struct mlagen_folder *f,
                                       struct mlagen_diags *d)
{
    struct mlagen_buf text = {0};
    char *save = NULL;
    enum mlagen_status status =
        mlagen_folder_read(f, MLAGEN_JOURNAL, &text, &f->interrupted, d);

    if (status == MLAGEN_OK && text.data)
        for (char *line = strtok_r(text.data, "\n", &save); line;
             line = strtok_r(NULL, "\n", &save)) {
            size_t n = strcspn(line, " ");

            if (n != MLAGEN_HASH_HEX - 1 || line[n] != ' ' ||
                !mlagen_output_path_ok(line + n + 1))
                continue;
            line[n] = '\0';
            know(f, line + n + 1, line);
        }
    mlagen_buf_free(&text);
    return status;
}

/* Takes the kernel's lock on the folder, which is made if need be, as there
 * must be something to lock.  File systems without locks (some network mounts)
 * go without. */
static enum mlagen_status lock_folder(struct mlagen_folder *f,
                                      struct mlagen_diags *d)
{
    enum mlagen_status status = mlagen_make_folder(f->path, d);

    if (status != MLAGEN_OK)
        return status;
    f->lock = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->lock < 0)
        return mlagen_io_error(d, f->path, "cannot open folder");
    if (flock(f->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){f->path, 0, 0},
                    "another mlagen is writing to this folder");
        return MLAGEN_IO;
    }
    return MLAGEN_OK;
}

/* A path that exists and is no folder is refused here, in plain words. */
static enum mlagen_status check_is_folder(const char *path,
                                          struct mlagen_diags *d)
{
    struct stat st;

    if (stat(path, &st) != 0 || S_ISDIR(st.st_mode))
        return MLAGEN_OK;
    errno = ENOTDIR;
    return mlagen_io_error(d, path, "cannot use as an output folder");
}

/* The lock comes before anything is read, so that what is read stays true
 * until the folder is closed. */
enum mlagen_status mlagen_folder_open(const char *path, bool write,
                                      struct mlagen_folder *f,
                                      struct mlagen_diags *d)
{
    enum mlagen_status status = check_is_folder(path, d);

    *f = (struct mlagen_folder){.lock = -1};
    if (status != MLAGEN_OK)
        return status;
    f->path = mlagen_strndup(path, strlen(path));
    f->known = json_object();
    if (!f->path || !f->known)
        status = mlagen_no_memory(d);
    if (status == MLAGEN_OK && write)
        status = lock_folder(f, d);
    if (status == MLAGEN_OK)
        status = read_manifest(f, d);
    if (status == MLAGEN_OK)
        status = read_journal(f, d);
    if (status == MLAGEN_OK && !f->known)
        status = mlagen_no_memory(d);
    if (status != MLAGEN_OK)
        mlagen_folder_close(f);
    return status;
}

/* Closing the descriptor gives the lock back. */
void mlagen_folder_close(struct mlagen_folder *f)
{
    if (f->lock >= 0)
        close(f->lock);
    mlagen_free(f->path);
    json_decref(f->manifest);
    json_decref(f->known);
    *f = (struct mlagen_folder){.lock = -1};
}

/* --- changes --------------------------------------------------------------
 */

/* `what` is static text, the path is copied. */
enum mlagen_status mlagen_change_add(struct mlagen_changes *c,
                                     const char *what, const char *path,
                                     struct mlagen_diags *d)
{
    struct mlagen_change *items =
        mlagen_grow(c->items, c->count, &c->cap, sizeof *items);

    if (!items)
        return mlagen_no_memory(d);
    c->items = items;
    items[c->count].what = what;
    items[c->count].path = mlagen_strndup(path, strlen(path));
    if (!items[c->count].path)
        return mlagen_no_memory(d);
    c->count++;
    return MLAGEN_OK;
}

void mlagen_changes_free(struct mlagen_changes *c)
{
    for (size_t i = 0; i < c->count; i++)
        mlagen_free(c->items[i].path);
    mlagen_free(c->items);
    *c = (struct mlagen_changes){0};
}

/* Judges a file that is to be replaced or removed and whose text differs from
 * every text that mlagen wrote there. */
static enum mlagen_status judge_foreign(const struct mlagen_folder *f,
                                        const char *path,
                                        struct mlagen_diags *d)
{
    char full[PATH_MAX];
    enum mlagen_status status = mlagen_join(f->path, path, full, d);
    struct mlagen_where where = {full, 0, 0};

    if (status != MLAGEN_OK)
        return status;
    if (json_object_get(f->known, path)) {
        mlagen_diag(d, MLAGEN_WARNING, where,
                    "edited by hand; generating it again discards the edit");
        return MLAGEN_OK;
    }
    mlagen_diag(d, MLAGEN_ERROR, where,
                "not made by mlagen (%s does not list it); move it away",
                MLAGEN_MANIFEST);
    return MLAGEN_IO;
}

/* One file of the new generation against the disk: the same, "add", "change",
 * or in the way.  The manifest needs no hash in itself: one that could be read
 * is ours. */
static enum mlagen_status compare_output(const struct mlagen_folder *f,
                                         const struct mlagen_output *o,
                                         struct mlagen_changes *changes,
                                         struct mlagen_diags *d)
{
    struct mlagen_buf text = {0};
    char hex[MLAGEN_HASH_HEX];
    bool found;
    enum mlagen_status status =
        mlagen_folder_read(f, o->path, &text, &found, d);

    if (status != MLAGEN_OK)
        goto out;
    if (!found) {
        status = mlagen_change_add(changes, "add", o->path, d);
        goto out;
    }
    if (text.len == o->size &&
        (o->size == 0 || memcmp(text.data, o->data, o->size) == 0))
        goto out;
    mlagen_sha256(mlagen_buf_text(&text), text.len, hex);
    if (strcmp(o->path, MLAGEN_MANIFEST) != 0 && !is_known(f, o->path, hex))
        status = judge_foreign(f, o->path, d);
    if (status == MLAGEN_OK)
        status = mlagen_change_add(changes, "change", o->path, d);
out:
    mlagen_buf_free(&text);
    return status;
}

/* A file of an earlier run that the new generation does not have: removed if
 * it is as it was written, else left to whoever edited it. */
static enum mlagen_status compare_stale(const struct mlagen_folder *f,
                                        const char *path,
                                        struct mlagen_changes *changes,
                                        struct mlagen_diags *d)
{
    struct mlagen_buf text = {0};
    char hex[MLAGEN_HASH_HEX], full[PATH_MAX];
    bool found;
    enum mlagen_status status = mlagen_folder_read(f, path, &text, &found, d);

    if (status != MLAGEN_OK || !found)
        goto out;
    mlagen_sha256(mlagen_buf_text(&text), text.len, hex);
    if (is_known(f, path, hex)) {
        status = mlagen_change_add(changes, "remove", path, d);
        goto out;
    }
    status = mlagen_join(f->path, path, full, d);
    if (status == MLAGEN_OK)
        mlagen_diag(d, MLAGEN_WARNING, (struct mlagen_where){full, 0, 0},
                    "no longer generated, but edited by hand: left in place");
out:
    mlagen_buf_free(&text);
    return status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The known paths, sorted, so that reports do not depend on a hash table's
 * order.  The array is the caller's, the texts are the object's. */
static const char **sorted_keys(json_t *object)
{
    size_t n = 0;
    const char **keys =
        mlagen_calloc(json_object_size(object) + 1, sizeof *keys);
    const char *key;
    json_t *value;

    if (!keys)
        return NULL;
    json_object_foreach(object, key, value) keys[n++] = key;
    qsort(keys, n, sizeof *keys, by_name);
    return keys;
}

/* Goes on after a fault, so that all files in the way are named at once; stale
 * ones are not looked at then. */
enum mlagen_status mlagen_folder_compare(const struct mlagen_folder *f,
                                         const struct mlagen_outputs *o,
                                         struct mlagen_changes *changes,
                                         struct mlagen_diags *d)
{
    enum mlagen_status status = MLAGEN_OK;
    const char **keys = sorted_keys(f->known);

    if (!keys)
        return mlagen_no_memory(d);
    for (size_t i = 0; i < o->count; i++) {
        enum mlagen_status one = compare_output(f, &o->items[i], changes, d);

        status = status ? status : one;
    }
    for (const char **key = keys; *key && status == MLAGEN_OK; key++)
        if (!mlagen_outputs_find(o, *key))
            status = compare_stale(f, *key, changes, d);
    mlagen_free(keys);
    return status;
}

/* --- walking --------------------------------------------------------------
 */

/* Filter and order for scandir: by bytes, because alphasort follows the
 * locale. */
static int not_dots(const struct dirent *e)
{
    return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* What a walk carries along; `below` in the functions is the way from the
 * root, "" at the root itself. */
struct walk {
    const char *root;
    mlagen_visit_fn visit;
    void *user;
    struct mlagen_diags *d;
};

static enum mlagen_status walk(const struct walk *w, const char *below,
                               int depth);

/* A folder is entered, anything else visited; links are not followed, so a
 * walk ends. */
static enum mlagen_status walk_entry(const struct walk *w, const char *below,
                                     const char *name, int depth)
{
    char path[PATH_MAX], full[PATH_MAX];
    struct stat st;
    enum mlagen_status status =
        *below ? mlagen_join(below, name, path, w->d)
               : (snprintf(path, sizeof path, "%s", name), MLAGEN_OK);

    if (status == MLAGEN_OK)
        status = mlagen_join(w->root, path, full, w->d);
    if (status != MLAGEN_OK)
        return status;
    if (lstat(full, &st) != 0)
        return mlagen_io_error(w->d, full, "cannot read");
    return S_ISDIR(st.st_mode) ? walk(w, path, depth + 1)
                               : w->visit(w->user, path);
}

/* A root that is not there is empty; a folder that vanishes meanwhile is
 * a fault. */
static enum mlagen_status walk(const struct walk *w, const char *below,
                               int depth)
{
    enum mlagen_status status;
    char full[PATH_MAX];
    struct dirent **entries = NULL;
    int n;

    status = *below ? mlagen_join(w->root, below, full, w->d)
                    : (snprintf(full, sizeof full, "%s", w->root), MLAGEN_OK);
    if (status != MLAGEN_OK)
        return status;
    n = scandir(full, &entries, not_dots, by_bytes);
    if (n < 0)
        return errno == ENOENT && depth == 0
                   ? MLAGEN_OK
                   : mlagen_io_error(w->d, full, "cannot read folder");
    for (int i = 0; i < n; i++) {
        if (status == MLAGEN_OK)
            status = walk_entry(w, below, entries[i]->d_name, depth);
        free(entries[i]);
    }
    free(entries);
    return status;
}

enum mlagen_status mlagen_folder_walk(const char *path, mlagen_visit_fn visit,
                                      void *user, struct mlagen_diags *d)
{
    struct walk w = {path, visit, user, d};

    return walk(&w, "", 0);
}
