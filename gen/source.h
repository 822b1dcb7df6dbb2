/* SPDX-License-Identifier: Apache-2.0
 *
 * source.h: the set of texts the generator works from.
 *
 * Templates, rules, the schema and the architecture table are compiled into
 * the binary as a table of named texts (made by gen/tools/embed.c), so that an
 * installed `mlagen` needs no files beside it.  With -I DIR the part of the
 * set below "templates/" is replaced, wholly, by the files of that folder.
 * Names are always the repository's: "templates/kernel/x.cu.tpl".
 */
#ifndef MLAGEN_SOURCE_H
#define MLAGEN_SOURCE_H

#include "diag.h"
#include "hash.h"

/* The table that embed.c writes, sorted by path (bytewise). */
struct mlagen_embedded {
    const char *path;
    const unsigned char *data;
    size_t size;
};
extern const struct mlagen_embedded mlagen_embedded[];
extern const size_t mlagen_embedded_count;

struct mlagen_text {
    const char *path;  /* "templates/main.lua" */
    const char *shown; /* for messages: path, or DIR/main.lua under -I DIR */
    const char *data;  /* not NUL-terminated in general */
    size_t size;
};

struct mlagen_tree; /* immutable once open; may be shared by threads */

/* Opens the embedded set (dir NULL), or the embedded set with its templates/
 * part taken from `dir`: files *.lua and *.tpl, hidden names left out.
 * @return MLAGEN_IO when the folder or a file cannot be read. */
enum mlagen_status mlagen_tree_open(const char *dir, struct mlagen_tree **tree,
                                    struct mlagen_diags *d);

/* The same over a table of the caller's, which must outlive the tree: for
 * tests, and for programs that bring their own templates. */
enum mlagen_status mlagen_tree_of(const struct mlagen_embedded *table,
                                  size_t count, struct mlagen_tree **tree,
                                  struct mlagen_diags *d);
void mlagen_tree_free(struct mlagen_tree *tree);

/* @return NULL when the set has no such text. */
const struct mlagen_text *mlagen_tree_find(const struct mlagen_tree *tree,
                                           const char *path);

/* All texts, sorted by path. */
size_t mlagen_tree_count(const struct mlagen_tree *tree);
const struct mlagen_text *mlagen_tree_at(const struct mlagen_tree *tree,
                                         size_t i);

/* The template-set hash that emitted files carry: over path and content of
 * every text that shapes the output, in order: all of templates/, and of
 * specs/ the schema and the architecture table but no model's spec. */
void mlagen_tree_hash(const struct mlagen_tree *tree,
                      char hex[MLAGEN_HASH_HEX]);

/* Reads a whole file, "-" being standard input, and appends it to `out`.
 * @return MLAGEN_IO, naming the file and the reason, also when it is larger
 *         than `limit` bytes. */
enum mlagen_status mlagen_read_file(const char *path, size_t limit,
                                    struct mlagen_buf *out,
                                    struct mlagen_diags *d);

#endif
