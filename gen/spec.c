/* SPDX-License-Identifier: Apache-2.0
 *
 * spec.c: the first stage.  Text becomes nodes (yaml_doc.h), overrides are put
 * in, the schema types and completes them, and the rules in templates/spec
 * turn the result into the canonical spec, or say at which key it is wrong.
 * `import`, which makes such a text from a config.json, is here too.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "alloc.h"
#include "context.h"
#include "manifest.h"

/* Provenance keeps the name of a spec and not where it lay. */
static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static char *copy_text(const char *text)
{
    return mlagen_strndup(text, strlen(text));
}

/* Puts the overrides into the document; schema and rules then see one spec,
 * and cannot tell where a value came from. */
static enum mlagen_status apply_overrides(struct mlagen *g,
                                          struct mlagen_diags *d)
{
    enum mlagen_status status = MLAGEN_OK;
    size_t i;
    json_t *setting;

    json_array_foreach(g->overrides, i, setting)
    {
        if (status == MLAGEN_OK)
            status = mlagen_doc_set(g->doc, json_string_value(setting), d);
    }
    return status;
}

/* Calls check(spec, archs) and takes its verdict: {errors=, warnings=,
 * spec=}.  Warnings are told even where there are errors.  The hash is over
 * the canonical spec, so that layout, comments and key order of the file do
 * not count. */
static enum mlagen_status apply_rules(struct mlagen *g, json_t *typed,
                                      struct mlagen_diags *d)
{
    json_t *args[] = {typed, g->archs};
    json_t *result = NULL;
    json_t *errors;
    enum mlagen_status status =
        mlagen_host_call(g->host, "check", args, 2, &result, d);

    if (status != MLAGEN_OK)
        return status;
    errors = json_object_get(result, "errors");
    mlagen_rule_diags(errors, MLAGEN_ERROR, g->doc, NULL, d);
    mlagen_rule_diags(json_object_get(result, "warnings"), MLAGEN_WARNING,
                      g->doc, NULL, d);
    if (json_array_size(errors) > 0) {
        status = MLAGEN_SPEC;
    } else if (!json_is_object(json_object_get(result, "spec"))) {
        mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){0},
                    "templates/main.lua: check() returned no spec");
        status = MLAGEN_TEMPLATE;
    } else {
        g->spec = json_incref(json_object_get(result, "spec"));
        status = mlagen_json_hash(g->spec, g->spec_sha256, d);
    }
    json_decref(result);
    return status;
}

/* From the parsed document on; the document is the context's. */
static enum mlagen_status check_document(struct mlagen *g,
                                         struct mlagen_diags *d)
{
    json_t *typed = NULL;
    enum mlagen_status status = apply_overrides(g, d);

    if (status == MLAGEN_OK)
        status = mlagen_schema_check(g->schema, g->doc, &typed, d);
    if (status == MLAGEN_OK)
        status = apply_rules(g, typed, d);
    json_decref(typed);
    return status;
}

/* After a fault the context has no spec at all, not half of one. */
enum mlagen_status mlagen_load_text(struct mlagen *g, const char *text,
                                    size_t len, const char *name,
                                    struct mlagen_diags *d)
{
    enum mlagen_status status;

    mlagen_reset(g);
    g->spec_name = copy_text(last_part(name));
    if (!g->spec_name)
        return mlagen_no_memory(d);
    status = mlagen_yaml_parse(text, len, name, &g->doc, d);
    if (status == MLAGEN_OK)
        status = check_document(g, d);
    if (status != MLAGEN_OK)
        mlagen_reset(g);
    return status;
}

/* "deepseek-v3": a bare name for which there is no file.  A name with a slash
 * is a path, and its absence an error of its own. */
static const struct mlagen_text *find_embedded(const struct mlagen *g,
                                               const char *name)
{
    char path[256];

    if (strchr(name, '/') || access(name, F_OK) == 0)
        return NULL;
    snprintf(path, sizeof path, "specs/%s.yaml", name);
    return mlagen_tree_find(g->tree, path);
}

/* A file wins over an embedded spec of that name.  The path is kept for files
 * alone: a dependency file names what make can look at. */
enum mlagen_status mlagen_load(struct mlagen *g, const char *path,
                               struct mlagen_diags *d)
{
    const struct mlagen_text *embedded = find_embedded(g, path);
    struct mlagen_buf text = {0};
    enum mlagen_status status;

    if (embedded)
        return mlagen_load_text(g, embedded->data, embedded->size,
                                embedded->path, d);
    status = mlagen_read_file(path, MLAGEN_YAML_BYTES, &text, d);
    if (status == MLAGEN_OK)
        status =
            mlagen_load_text(g, mlagen_buf_text(&text), text.len,
                             strcmp(path, "-") == 0 ? "<stdin>" : path, d);
    if (status == MLAGEN_OK && strcmp(path, "-") != 0) {
        g->spec_path = copy_text(path);
        if (!g->spec_path)
            status = mlagen_no_memory(d);
    }
    mlagen_buf_free(&text);
    return status;
}

/* --- import ---------------------------------------------------------------
 */

/* The name a config's file suggests: its stem; for a plain "config.json" the
 * folder it lies in, as in a checkout of the model; else "model". */
static void suggest_name(const char *path, char *name, size_t size)
{
    const char *base = last_part(path);
    size_t n = strlen(base);

    if (strcmp(base, "config.json") == 0 && base > path) {
        const char *end = base - 1;

        base = end;
        while (base > path && base[-1] != '/')
            base--;
        n = (size_t)(end - base);
    } else if (n > 5 && strcmp(base + n - 5, ".json") == 0) {
        n -= 5;
    }
    if (n == 0 || base[0] == '.' || base[0] == '-')
        snprintf(name, size, "model");
    else
        snprintf(name, size, "%.*s", (int)n, base);
}

/* Sorts what import() returned into text and diagnostics.  A config has no
 * places that Lua knows of, so faults name the file alone. */
static enum mlagen_status take_import(const json_t *result, const char *file,
                                      struct mlagen_buf *out,
                                      struct mlagen_diags *d)
{
    const json_t *errors = json_object_get(result, "errors");
    const char *text = json_string_value(json_object_get(result, "text"));

    mlagen_rule_diags(errors, MLAGEN_ERROR, NULL, file, d);
    mlagen_rule_diags(json_object_get(result, "warnings"), MLAGEN_WARNING,
                      NULL, file, d);
    if (json_array_size(errors) > 0)
        return MLAGEN_SPEC;
    if (!text) {
        mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){0},
                    "templates/main.lua: import() returned no text");
        return MLAGEN_TEMPLATE;
    }
    mlagen_buf_str(out, text);
    return out->failed ? mlagen_no_memory(d) : MLAGEN_OK;
}

/* The config is read by the reader of YAML, of which JSON is a part, and typed
 * by JSON's grammar; what it means is Lua's (templates/spec/import.lua). */
enum mlagen_status mlagen_import(struct mlagen *g, const char *path,
                                 bool strict, struct mlagen_buf *out,
                                 struct mlagen_diags *d)
{
    const char *shown = strcmp(path, "-") == 0 ? "<stdin>" : path;
    struct mlagen_doc *doc = NULL;
    json_t *config = NULL, *options = NULL, *result = NULL;
    char name[256];
    enum mlagen_status status = mlagen_yaml_read(path, &doc, d);

    suggest_name(path, name, sizeof name);
    if (status == MLAGEN_OK)
        status = mlagen_doc_json(doc, &config, d);
    if (status == MLAGEN_OK && !json_is_object(config)) {
        mlagen_diag(d, MLAGEN_ERROR, mlagen_doc_root(doc)->where,
                    "a config.json is an object");
        status = MLAGEN_SPEC;
    }
    if (status == MLAGEN_OK) {
        options = json_pack("{s:s%,s:b}", "name", name, strlen(name), "strict",
                            strict);
        if (!options)
            status = mlagen_no_memory(d);
    }
    if (status == MLAGEN_OK) {
        json_t *args[] = {config, options};

        status = mlagen_host_call(g->host, "import", args, 2, &result, d);
    }
    if (status == MLAGEN_OK)
        status = take_import(result, shown, out, d);
    json_decref(result);
    json_decref(options);
    json_decref(config);
    mlagen_doc_free(doc);
    return status;
}
