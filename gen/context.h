/* SPDX-License-Identifier: Apache-2.0
 *
 * context.h: what a generation has so far; the inside of struct mlagen.
 *
 * Each stage reads the fields of the stages above it and fills its own.
 * Nobody else writes them.
 */
#ifndef MLAGEN_CONTEXT_H
#define MLAGEN_CONTEXT_H

#include <jansson.h>

#include "lua_host.h"
#include "mlagen.h"
#include "outputs.h"
#include "schema.h"
#include "source.h"
#include "yaml_doc.h"

/* Hosts beside the context's own; no generation has work for more. */
enum { MLAGEN_CREW = 15 };

struct mlagen {
    struct mlagen_options options;

    /* context.c: the same for every spec */
    struct mlagen_tree *tree;
    struct mlagen_host *host;
    struct mlagen_host *crew[MLAGEN_CREW]; /* crew.c: of further threads */
    struct mlagen_schema *schema;
    json_t *archs; /* specs/arch.yaml */
    char templates_sha256[MLAGEN_HASH_HEX];
    json_t *overrides; /* array of "key.path=value", archs included */

    /* spec.c */
    struct mlagen_doc *doc; /* places of the spec's values */
    char *spec_path;        /* as given; NULL for a text or an embedded spec */
    char *spec_name;        /* last part of the path, for provenance */
    json_t *spec;           /* canonical, with `derived` */
    char spec_sha256[MLAGEN_HASH_HEX];

    /* plan.c */
    json_t *plans; /* array */

    /* text.c */
    struct mlagen_outputs texts; /* all but the manifest */
    char *command;               /* that makes this generation again */

    /* cubin.c */
    struct mlagen_outputs files; /* write.c: what mlagen_files showed */
    struct mlagen_outputs cubins;
    json_t *builds; /* symbol -> what the compiler said (manifest) */
};

/* Drops everything that belongs to one spec. */
void mlagen_reset(struct mlagen *g);

/* Reads and checks an embedded YAML file against an embedded schema. */
enum mlagen_status mlagen_load_table(const struct mlagen *g, const char *path,
                                     const char *schema_path, json_t **out,
                                     struct mlagen_diags *d);

/* Adds the entries {message=, path=} that a rule returned, placed in `doc`
 * (or at `file` when doc is NULL). */
void mlagen_rule_diags(const json_t *list, enum mlagen_severity severity,
                       const struct mlagen_doc *doc, const char *file,
                       struct mlagen_diags *d);

/* text.c: renders one file of the generation alone, with the origin of each
 * line.  `map` is to be freed with mlagen_linemap_free.
 * @return MLAGEN_IO when no such file is generated. */
enum mlagen_status mlagen_render_one(struct mlagen *g, const char *path,
                                     struct mlagen_buf *text,
                                     struct mlagen_linemap *map,
                                     struct mlagen_diags *d);

/* plan.c: the file a plan is compiled to, "cubin/<symbol>.cubin"; owned by the
 * caller.  NULL without memory. */
char *mlagen_cubin_path(const json_t *plan);

/* cubin.c: takes over the cubins of `f` that still fit their source; with
 * `compile`, makes the others.  Fills g->cubins, g->builds and the counts of
 * the report. */
enum mlagen_status mlagen_cubins(struct mlagen *g,
                                 const struct mlagen_folder *f, unsigned flags,
                                 struct mlagen_report *report,
                                 struct mlagen_diags *d);

#endif
