/* SPDX-License-Identifier: Apache-2.0
 *
 * yaml_doc.h: text to a tree of nodes that know where they stand.
 *
 * libyaml parses; this module builds a tree whose scalars are still text.
 * Nothing is guessed here: whether `10.0`, `no` or `1e4` is a number, a word
 * or a mistake is decided later, by the schema (schema.h) or, for a
 * config.json, by JSON's own grammar (mlagen_doc_json).  JSON is read by the
 * same reader.
 *
 * Refused, with a place: duplicate keys, anchors and aliases, tags, several
 * documents, keys that are no scalars, nesting beyond MLAGEN_YAML_DEPTH,
 * more than MLAGEN_YAML_NODES nodes, text that is not UTF-8, and NUL.
 */
#ifndef MLAGEN_YAML_DOC_H
#define MLAGEN_YAML_DOC_H

#include <jansson.h>

#include "diag.h"

#define MLAGEN_YAML_BYTES ((size_t)8 << 20) /* largest file read */
#define MLAGEN_YAML_DEPTH 64
#define MLAGEN_YAML_NODES 1000000

enum mlagen_node_kind { MLAGEN_SCALAR, MLAGEN_LIST, MLAGEN_MAP };

/* One value.  Everything it points to belongs to the document. */
struct mlagen_node {
    enum mlagen_node_kind kind;
    struct mlagen_where where; /* of the value itself */
    /* scalars */
    const char *text; /* NUL-terminated, may hold NULs when quoted */
    size_t len;
    bool plain; /* written without quotes */
    /* the entry of a map: its key; else NULL */
    const char *key;
    struct mlagen_where key_where;
    /* children of lists and maps, in the order written */
    struct mlagen_node *first, *last, *next;
    size_t count;
};

struct mlagen_doc; /* owns its nodes; not thread-safe while it is patched */

/* Parses `len` bytes of `text`; `file` is the name that messages use.
 * @return MLAGEN_SPEC after exactly one error. */
enum mlagen_status mlagen_yaml_parse(const char *text, size_t len,
                                     const char *file, struct mlagen_doc **doc,
                                     struct mlagen_diags *d);

/* Reads and parses a file ("-": standard input). */
enum mlagen_status mlagen_yaml_read(const char *path, struct mlagen_doc **doc,
                                    struct mlagen_diags *d);
void mlagen_doc_free(struct mlagen_doc *doc);

/* The root; never NULL. */
const struct mlagen_node *mlagen_doc_root(const struct mlagen_doc *doc);

/* @return the child of a map with that key, or NULL. */
const struct mlagen_node *mlagen_node_get(const struct mlagen_node *map,
                                          const char *key);

/* Applies one `-D key.path=value`: the value is YAML text (`8`, `[1, 8]`,
 * `{a: 1}`), missing maps on the way are made, and everything the value
 * brings stands at "<-D key.path>".
 * @return MLAGEN_USAGE when `setting` is malformed, MLAGEN_SPEC when the path
 *         runs through something that is no map. */
enum mlagen_status mlagen_doc_set(struct mlagen_doc *doc, const char *setting,
                                  struct mlagen_diags *d);

/* The place of the value at `path`, an array of keys and 1-based indices as
 * rules written in Lua give it; the nearest ancestor that was written when the
 * value itself was not (a default, a missing key).  Valid as long as doc. */
struct mlagen_where mlagen_doc_where(const struct mlagen_doc *doc,
                                     const json_t *path);

/* The document typed by JSON's grammar: quoted scalars are strings, plain ones
 * must be true, false, null or a JSON number (NaN and Infinity are refused).
 * @return a new reference in *out. */
enum mlagen_status mlagen_doc_json(const struct mlagen_doc *doc, json_t **out,
                                   struct mlagen_diags *d);

#endif
