/* SPDX-License-Identifier: Apache-2.0
 *
 * yaml_internal.h: what yaml_doc.c (text to nodes) and yaml_node.c (what is
 * done with nodes) share.
 */
#ifndef MLAGEN_YAML_INTERNAL_H
#define MLAGEN_YAML_INTERNAL_H

#include "yaml_doc.h"

struct mlagen_chunk;

/* Nodes and texts live in chunks of memory that are freed together. */
struct mlagen_doc {
    struct mlagen_node *root;
    struct mlagen_chunk *chunks;
    size_t nodes; /* made so far, for the limit */
};

/* Memory that lives as long as the document; NULL when there is none. */
void *mlagen_arena_get(struct mlagen_doc *doc, size_t size);
const char *mlagen_arena_text(struct mlagen_doc *doc, const char *text,
                              size_t len);

/* Hangs a child behind the others of a list or a map. */
void mlagen_node_append(struct mlagen_node *parent, struct mlagen_node *child);

/* Parses `text` into nodes of `doc` that stand in `file`; *root is the
 * outermost.  The document's own root is left alone. */
enum mlagen_status mlagen_yaml_build(struct mlagen_doc *doc, const char *text,
                                     size_t len, const char *file,
                                     struct mlagen_node **root,
                                     struct mlagen_diags *d);

#endif
