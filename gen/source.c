/* SPDX-License-Identifier: Apache-2.0
 *
 * source.c: see source.h.  A tree is a sorted array of texts; those of a folder
 * are read when it is opened, so that a file that changes during a run cannot
 * give half of the output one version and half of it another.
 *
 * Texts of the embedded table are borrowed, those of a folder are owned; a flag
 * beside each text tells which.  A name of the set is always "templates/" plus
 * the path below the folder, whatever the folder is called, so that the same
 * texts have the same hash on every machine; `shown` keeps the path on disk for
 * messages, where an editor wants to jump to the real file.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "source.h"

/* The part that -I replaces, and bounds on what a folder may hold: a template
 * is some kilobytes, and the set's own folders do not nest. */
#define TEMPLATES "templates/"
#define MAX_FILE ((size_t)4 << 20)
#define MAX_DEPTH 16

/* The two arrays grow together and are searched by bisection once sorted. */
struct mlagen_tree {
    struct mlagen_text *texts; /* sorted by path */
    bool *owned;               /* path, shown and data are the tree's own */
    size_t count, cap, owned_cap;
};

/* Reports errno at `path`; to be called before anything can change errno. */
static enum mlagen_status io_error(struct mlagen_diags *d, const char *path) {
    mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){path, 0, 0}, "%s",
                strerror(errno));
    return MLAGEN_IO;
}

/* ---- files --------------------------------------------------------------- */

/* Reads fd to its end; at most limit bytes, one more being an error.  In
 * chunks, as the size of a pipe is not known. */
static enum mlagen_status read_all(int fd, const char *path, size_t limit,
                                   struct mlagen_buf *out,
                                   struct mlagen_diags *d) {
    size_t start = out->len;
    char chunk[16384];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return io_error(d, path);
        mlagen_buf_add(out, chunk, (size_t)n);
        if (out->failed)
            return mlagen_no_memory(d);
        if (n == 0)
            return MLAGEN_OK;
        if (out->len - start > limit) {
            mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){path, 0, 0},
                        "larger than the limit of %zu bytes", limit);
            return MLAGEN_IO;
        }
    }
}

enum mlagen_status mlagen_read_file(const char *path, size_t limit,
                                    struct mlagen_buf *out,
                                    struct mlagen_diags *d) {
    if (!strcmp(path, "-"))
        return read_all(STDIN_FILENO, "<stdin>", limit, out, d);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return io_error(d, path);
    enum mlagen_status status = read_all(fd, path, limit, out, d);
    close(fd);
    return status;
}

/* ---- the tree ------------------------------------------------------------ */

/* Appends a text; `owned` says that the tree frees its three parts. */
static bool add_text(struct mlagen_tree *t, struct mlagen_text text,
                     bool owned) {
    struct mlagen_text *texts =
        mlagen_grow(t->texts, t->count, &t->cap, sizeof *texts);
    if (!texts)
        return false;
    t->texts = texts;
    /* Texts have grown already; without flags the new room is simply
     * not used. */
    bool *flags = mlagen_grow(t->owned, t->count, &t->owned_cap, sizeof *flags);
    if (!flags)
        return false;
    t->owned = flags;
    t->texts[t->count] = text;
    t->owned[t->count++] = owned;
    return true;
}

/* Frees the parts of an owned text. */
static void free_text(struct mlagen_text *text) {
    mlagen_free((char *)text->path);
    mlagen_free((char *)text->shown);
    mlagen_free((char *)text->data);
}

void mlagen_tree_free(struct mlagen_tree *tree) {
    if (!tree)
        return;
    for (size_t i = 0; i < tree->count; i++)
        if (tree->owned[i])
            free_text(&tree->texts[i]);
    mlagen_free(tree->texts);
    mlagen_free(tree->owned);
    mlagen_free(tree);
}

/* The part of the set that -I DIR replaces. */
static bool in_templates(const char *path) {
    return !strncmp(path, TEMPLATES, sizeof TEMPLATES - 1);
}

/* Adds the table's texts, those below templates/ only if asked for. */
static bool add_table(struct mlagen_tree *t,
                      const struct mlagen_embedded *table, size_t count,
                      bool templates) {
    for (size_t i = 0; i < count; i++) {
        const char *path = table[i].path;
        if (in_templates(path) && !templates)
            continue;
        struct mlagen_text text = {path, path, (const char *)table[i].data,
                                   table[i].size};
        if (!add_text(t, text, false))
            return false;
    }
    return true;
}

/* Insertion sort that keeps `owned` in step; the embedded part comes sorted. */
static void sort_texts(struct mlagen_tree *t) {
    for (size_t i = 1; i < t->count; i++) {
        struct mlagen_text text = t->texts[i];
        bool owned = t->owned[i];
        size_t j = i;
        for (; j && strcmp(t->texts[j - 1].path, text.path) > 0; j--) {
            t->texts[j] = t->texts[j - 1];
            t->owned[j] = t->owned[j - 1];
        }
        t->texts[j] = text;
        t->owned[j] = owned;
    }
}

/* Three texts in a row, in memory of their own; NULL without memory. */
static char *join(const char *a, const char *between, const char *b) {
    struct mlagen_buf joined = {0};
    mlagen_buf_printf(&joined, "%s%s%s", a, between, b);
    if (joined.failed)
        mlagen_buf_free(&joined);
    return joined.data;
}

/* Reads file `shown` in as text `path`. */
static enum mlagen_status add_file(struct mlagen_tree *t, const char *path,
                                   const char *shown, struct mlagen_diags *d) {
    struct mlagen_buf data = {0};
    enum mlagen_status status = mlagen_read_file(shown, MAX_FILE, &data, d);
    if (status) {
        mlagen_buf_free(&data);
        return status;
    }
    struct mlagen_text text = {join(path, "", ""), join(shown, "", ""),
                               data.data, data.len};
    if (!text.path || !text.shown || !add_text(t, text, true)) {
        free_text(&text);
        return mlagen_no_memory(d);
    }
    return MLAGEN_OK;
}

/* What a folder contributes: the build embeds the same two kinds. */
static bool is_template_name(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && (!strcmp(dot, ".lua") || !strcmp(dot, ".tpl"));
}

static enum mlagen_status add_folder(struct mlagen_tree *t, const char *path,
                                     const char *shown, int depth,
                                     struct mlagen_diags *d);

/* One entry of a folder: a text, a folder to descend into, or neither.  A
 * link is followed; one that leads nowhere matters only if it is called like
 * a template. */
static enum mlagen_status add_entry(struct mlagen_tree *t, const char *folder,
                                    const char *shown_folder, const char *name,
                                    int depth, struct mlagen_diags *d) {
    enum mlagen_status status = MLAGEN_OK;
    struct stat st;
    char *path = join(folder, name, "");
    size_t len = strlen(shown_folder); /* -I templates/ is -I templates */
    bool slash = len && shown_folder[len - 1] == '/';
    char *shown = join(shown_folder, slash ? "" : "/", name);
    if (!path || !shown)
        status = mlagen_no_memory(d);
    else if (stat(shown, &st))
        status = is_template_name(name) ? io_error(d, shown) : MLAGEN_OK;
    else if (S_ISREG(st.st_mode) && is_template_name(name))
        status = add_file(t, path, shown, d);
    else if (S_ISDIR(st.st_mode)) {
        char *below = join(path, "/", "");
        status = below ? add_folder(t, below, shown, depth + 1, d)
                       : mlagen_no_memory(d);
        mlagen_free(below);
    }
    mlagen_free(path);
    mlagen_free(shown);
    return status;
}

/* Adds what lies below folder `shown`; `path` ("templates/...") ends in /. */
static enum mlagen_status add_folder(struct mlagen_tree *t, const char *path,
                                     const char *shown, int depth,
                                     struct mlagen_diags *d) {
    if (depth > MAX_DEPTH) {
        mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){shown, 0, 0},
                    "folders nest deeper than %d", MAX_DEPTH);
        return MLAGEN_IO;
    }
    DIR *dir = opendir(shown);
    if (!dir)
        return io_error(d, shown);
    enum mlagen_status status = MLAGEN_OK;
    for (struct dirent *e; !status && (e = readdir(dir));)
        if (e->d_name[0] != '.')
            status = add_entry(t, path, shown, e->d_name, depth, d);
    closedir(dir);
    return status;
}

/* Both ways to open a tree: a table, and with `dir` a folder on top of it. */
static enum mlagen_status open_tree(const struct mlagen_embedded *table,
                                    size_t count, const char *dir,
                                    struct mlagen_tree **tree,
                                    struct mlagen_diags *d) {
    *tree = NULL;
    struct mlagen_tree *t = mlagen_calloc(1, sizeof *t);
    if (!t)
        return mlagen_no_memory(d);
    enum mlagen_status status = add_table(t, table, count, dir == NULL)
                                    ? MLAGEN_OK
                                    : mlagen_no_memory(d);
    if (!status && dir)
        status = add_folder(t, TEMPLATES, dir, 0, d);
    if (status) {
        mlagen_tree_free(t);
        return status;
    }
    sort_texts(t);
    *tree = t;
    return MLAGEN_OK;
}

enum mlagen_status mlagen_tree_open(const char *dir, struct mlagen_tree **tree,
                                    struct mlagen_diags *d) {
    return open_tree(mlagen_embedded, mlagen_embedded_count, dir, tree, d);
}

enum mlagen_status mlagen_tree_of(const struct mlagen_embedded *table,
                                  size_t count, struct mlagen_tree **tree,
                                  struct mlagen_diags *d) {
    return open_tree(table, count, NULL, tree, d);
}

/* Of bsearch: a path against a text. */
static int by_path(const void *key, const void *text) {
    return strcmp(key, ((const struct mlagen_text *)text)->path);
}

/* Names are compared, never resolved: "a/../b" finds nothing. */
const struct mlagen_text *mlagen_tree_find(const struct mlagen_tree *tree,
                                           const char *path) {
    if (!tree->count)
        return NULL;
    return bsearch(path, tree->texts, tree->count, sizeof *tree->texts,
                   by_path);
}

/* Order and count are the same on every machine: paths are sorted by bytes. */
size_t mlagen_tree_count(const struct mlagen_tree *tree) {
    return tree->count;
}

const struct mlagen_text *mlagen_tree_at(const struct mlagen_tree *tree,
                                         size_t i) {
    return &tree->texts[i];
}

void mlagen_tree_hash(const struct mlagen_tree *tree,
                      char hex[MLAGEN_HASH_HEX]) {
    static const char *const data[] = {
        "specs/arch.yaml", "specs/arch.schema.yaml", "specs/schema.yaml"};
    struct mlagen_hash h;
    mlagen_hash_init(&h);
    for (size_t i = 0; i < tree->count; i++) {
        const struct mlagen_text *text = &tree->texts[i];
        bool shapes = in_templates(text->path);
        for (size_t k = 0; k < sizeof data / sizeof *data; k++)
            shapes |= !strcmp(text->path, data[k]);
        if (!shapes)
            continue;
        mlagen_hash_add(&h, text->path, strlen(text->path));
        mlagen_hash_add(&h, text->data, text->size);
    }
    mlagen_hash_end(&h, hex);
}
