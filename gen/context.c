/* SPDX-License-Identifier: Apache-2.0
 *
 * context.c: opening a generator: templates, sandbox, schema, architecture
 * table; and what the stages share.
 */
#include "context.h"
#include "crew.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "arch.h"

/* The place of what no file shows: faults of options. */
static const struct mlagen_where nowhere = {NULL, 0, 0};

const char *mlagen_version(void)
{
    return MLAGEN_VERSION;
}

/* --- tables ---------------------------------------------------------------
 */

/* A schema of the source set; its absence is a fault of the build. */
static enum mlagen_status load_schema(const struct mlagen *g, const char *path,
                                      struct mlagen_schema **out,
                                      struct mlagen_diags *d)
{
    const struct mlagen_text *text = mlagen_tree_find(g->tree, path);

    if (text)
        return mlagen_schema_load(text->data, text->size, text->shown, out, d);
    mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){path, 0, 0},
                "not in the source set");
    return MLAGEN_INTERNAL;
}

/* Schema and document are only needed for the check; the table is JSON. */
enum mlagen_status mlagen_load_table(const struct mlagen *g, const char *path,
                                     const char *schema_path, json_t **out,
                                     struct mlagen_diags *d)
{
    const struct mlagen_text *text = mlagen_tree_find(g->tree, path);
    struct mlagen_schema *schema = NULL;
    struct mlagen_doc *doc = NULL;
    enum mlagen_status status = load_schema(g, schema_path, &schema, d);

    if (status == MLAGEN_OK && !text) {
        mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){path, 0, 0},
                    "not in the source set");
        status = MLAGEN_INTERNAL;
    }
    if (status == MLAGEN_OK)
        status =
            mlagen_yaml_parse(text->data, text->size, text->shown, &doc, d);
    if (status == MLAGEN_OK)
        status = mlagen_schema_check(schema, doc, out, d);
    mlagen_doc_free(doc);
    mlagen_schema_free(schema);
    return status;
}

/* --- options --------------------------------------------------------------
 */

/* The beginning of a C name, or nothing: it goes before symbols and into the
 * names of files. */
static bool prefix_ok(const char *prefix)
{
    if (isdigit((unsigned char)*prefix))
        return false;
    for (; *prefix; prefix++)
        if (!isalnum((unsigned char)*prefix) && *prefix != '_')
            return false;
    return true;
}

/* "sm_80,9.0a" -> "arch=[sm_80, sm_90a]": from here on an override like any
 * other, checked by the schema and recorded. */
static enum mlagen_status archs_setting(const char *archs,
                                        struct mlagen_buf *out,
                                        struct mlagen_diags *d)
{
    const char *comma = "";

    mlagen_buf_str(out, "arch=[");
    for (const char *p = archs;; p++) {
        size_t n = strcspn(p, ",");
        char word[MLAGEN_ARCH_NAME], name[MLAGEN_ARCH_NAME];
        struct mlagen_arch arch;

        snprintf(word, sizeof word, "%.*s", (int)n, p);
        if (n >= sizeof word || !mlagen_arch_parse(word, &arch)) {
            mlagen_diag(d, MLAGEN_ERROR, nowhere,
                        "'%.*s' is no architecture; write sm_80, sm_90a or "
                        "9.0a",
                        (int)n, p);
            return MLAGEN_USAGE;
        }
        mlagen_buf_printf(out, "%s%s", comma, mlagen_arch_name(arch, name));
        comma = ", ";
        p += n;
        if (*p == '\0')
            break;
    }
    mlagen_buf_str(out, "]");
    return out->failed ? mlagen_no_memory(d) : MLAGEN_OK;
}

/* Collects the overrides, in the order in which they are applied: -D first, so
 * that --arch has the last word on the key that both may set. */
static enum mlagen_status read_overrides(struct mlagen *g,
                                         struct mlagen_diags *d)
{
    const struct mlagen_options *o = &g->options;
    struct mlagen_buf archs = {0};
    enum mlagen_status status = MLAGEN_OK;

    g->overrides = json_array();
    for (size_t i = 0; i < o->setting_count && status == MLAGEN_OK; i++)
        if (json_array_append_new(g->overrides, json_string(o->settings[i])))
            status = mlagen_no_memory(d);
    if (o->archs && status == MLAGEN_OK) {
        status = archs_setting(o->archs, &archs, d);
        if (status == MLAGEN_OK &&
            json_array_append_new(g->overrides,
                                  json_string(mlagen_buf_text(&archs))))
            status = mlagen_no_memory(d);
    }
    mlagen_buf_free(&archs);
    return status;
}

/* What can be wrong before anything is read.  One size is accepted: a program
 * is linked with the library whose header it was compiled with. */
static enum mlagen_status check_options(const struct mlagen_options *o,
                                        struct mlagen_diags *d)
{
    if (o->size != sizeof *o) {
        mlagen_diag(d, MLAGEN_ERROR, nowhere,
                    "options of %zu bytes; this library's have %zu", o->size,
                    sizeof *o);
        return MLAGEN_USAGE;
    }
    if (o->symbol_prefix && !prefix_ok(o->symbol_prefix)) {
        mlagen_diag(d, MLAGEN_ERROR, nowhere,
                    "symbol prefix '%s' is not the beginning of a C name",
                    o->symbol_prefix);
        return MLAGEN_USAGE;
    }
    return MLAGEN_OK;
}

/* --- life -----------------------------------------------------------------
 */

/* Everything that is the same for every spec.  The overrides come first: a
 * wrong --arch is told before any file is read. */
static enum mlagen_status fill_context(struct mlagen *g,
                                       struct mlagen_diags *d)
{
    enum mlagen_status status = read_overrides(g, d);

    if (status == MLAGEN_OK)
        status = mlagen_tree_open(g->options.templates, &g->tree, d);
    if (status == MLAGEN_OK)
        status = load_schema(g, "specs/schema.yaml", &g->schema, d);
    if (status == MLAGEN_OK)
        status = mlagen_load_table(g, "specs/arch.yaml",
                                   "specs/arch.schema.yaml", &g->archs, d);
    if (status == MLAGEN_OK)
        status = mlagen_host_new(g->tree, NULL, &g->host, d);
    if (status == MLAGEN_OK)
        mlagen_tree_hash(g->tree, g->templates_sha256);
    return status;
}

enum mlagen_status mlagen_open(const struct mlagen_options *options,
                               struct mlagen **out, struct mlagen_diags *d)
{
    enum mlagen_status status = check_options(options, d);
    struct mlagen *g;

    *out = NULL;
    if (status != MLAGEN_OK)
        return status;
    g = mlagen_calloc(1, sizeof *g);
    if (!g)
        return mlagen_no_memory(d);
    g->options = *options;
    status = fill_context(g, d);
    if (status != MLAGEN_OK)
        mlagen_close(g);
    else
        *out = g;
    return status;
}

/* Options, overrides and tables stay; a later load starts from here. */
void mlagen_reset(struct mlagen *g)
{
    mlagen_doc_free(g->doc);
    mlagen_free(g->spec_path);
    mlagen_free(g->spec_name);
    mlagen_free(g->command);
    json_decref(g->spec);
    json_decref(g->plans);
    json_decref(g->builds);
    mlagen_outputs_free(&g->files); /* before the texts that it borrows */
    mlagen_outputs_free(&g->texts);
    mlagen_outputs_free(&g->cubins);
    g->doc = NULL;
    g->spec_path = g->spec_name = g->command = NULL;
    g->spec = g->plans = g->builds = NULL;
}

/* Takes what fill_context left half done, too. */
void mlagen_close(struct mlagen *g)
{
    if (!g)
        return;
    mlagen_reset(g);
    json_decref(g->overrides);
    json_decref(g->archs);
    mlagen_crew_free(g);
    mlagen_host_free(g->host);
    mlagen_schema_free(g->schema);
    mlagen_tree_free(g->tree);
    mlagen_free(g);
}

const char *mlagen_model(const struct mlagen *g)
{
    const char *model = json_string_value(json_object_get(g->spec, "model"));

    return model ? model : "";
}

/* --- rules ----------------------------------------------------------------
 */

/* A path that leads nowhere ends at the nearest value that was
 * written (mlagen_doc_where). */
void mlagen_rule_diags(const json_t *list, enum mlagen_severity severity,
                       const struct mlagen_doc *doc, const char *file,
                       struct mlagen_diags *d)
{
    size_t i;
    json_t *item;

    json_array_foreach(list, i, item)
    {
        const char *text = json_string_value(json_object_get(item, "message"));
        struct mlagen_where where = {file, 0, 0};

        if (doc)
            where = mlagen_doc_where(doc, json_object_get(item, "path"));
        mlagen_diag(d, severity, where, "%s", text ? text : "no message");
    }
}
