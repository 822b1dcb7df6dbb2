/* SPDX-License-Identifier: Apache-2.0
 *
 * models.c: the table of the built-in models.
 *
 * What a model is and how its row reads is Lua (templates/spec/models.lua);
 * here are the specs, loaded one after the other, and the results of runs,
 * which are files.
 */
#include <string.h>

#include "alloc.h"
#include "context.h"
#include "manifest.h"

/* A bound on what is read into memory at once. */
enum { RESULTS_BYTES = 256 << 20 };

/* Whether a built-in text is the spec of a model: it is in specs/ and not a
 * table or a schema. */
static bool is_model(const char *path)
{
    static const char *const others[] = {
        "specs/schema.yaml", "specs/arch.yaml", "specs/arch.schema.yaml"};
    static const char folder[] = "specs/";

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(path, others[i]) == 0)
            return false;
    return strncmp(path, folder, sizeof folder - 1) == 0;
}

/* Canonical specs, in the order of their names.  Warnings about built-in specs
 * are no news to whoever lists them. */
static enum mlagen_status load_specs(struct mlagen *g, json_t *specs,
                                     struct mlagen_diags *d)
{
    enum mlagen_status status = MLAGEN_OK;

    for (size_t i = 0; i < mlagen_tree_count(g->tree); i++) {
        const struct mlagen_text *text = mlagen_tree_at(g->tree, i);
        struct mlagen_diags silent = {0};

        if (status != MLAGEN_OK || !is_model(text->path))
            continue;
        status =
            mlagen_load_text(g, text->data, text->size, text->path, &silent);
        if (status == MLAGEN_OK && json_array_append(specs, g->spec))
            status = mlagen_no_memory(d);
        else if (status != MLAGEN_OK && silent.count > 0)
            mlagen_diag(d, MLAGEN_ERROR, silent.items[0].where, "%s",
                        silent.items[0].message);
        mlagen_diags_free(&silent);
    }
    return status;
}

/* One object of a run: {"rows": [{"kernel":, "of_bar":, "pass":}, ...]};
 * of_bar is the error as a share of what is allowed.  The rest is not
 * looked at. */
static bool is_run(const json_t *run)
{
    const json_t *rows = json_object_get(run, "rows"), *row;
    size_t i;

    if (!json_is_array(rows))
        return false;
    json_array_foreach(rows, i, row)
    {
        if (!json_is_string(json_object_get(row, "kernel")) ||
            !json_is_number(json_object_get(row, "of_bar")) ||
            !json_is_boolean(json_object_get(row, "pass")))
            return false;
    }
    return true;
}

/* A file may hold the objects of several runs, one behind the other. */
static enum mlagen_status parse_runs(const char *path, const char *text,
                                     size_t length, json_t *runs,
                                     struct mlagen_diags *d)
{
    for (size_t at = 0; at < length;) {
        json_error_t error;
        json_t *run =
            json_loadb(text + at, length - at, JSON_DISABLE_EOF_CHECK, &error);

        if (!run || !is_run(run)) {
            mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){path, 0, 0},
                        "not what run-check --json prints%s%s",
                        run ? "" : ": ", run ? "" : error.text);
            json_decref(run);
            return MLAGEN_SPEC;
        }
        if (json_array_append_new(runs, run))
            return mlagen_no_memory(d);
        at += (size_t)error.position;
        at += strspn(text + at, " \t\r\n");
    }
    return MLAGEN_OK;
}

/* Appends the objects of the file to `runs`. */
static enum mlagen_status read_runs(const char *path, json_t *runs,
                                    struct mlagen_diags *d)
{
    struct mlagen_buf text = {0};
    enum mlagen_status status =
        mlagen_read_file(path, RESULTS_BYTES, &text, d);

    if (status == MLAGEN_OK)
        status = parse_runs(path, mlagen_buf_text(&text), text.len, runs, d);
    mlagen_buf_free(&text);
    return status;
}

/* What models() returned: {data=, lines=}, for programs and for people. */
static enum mlagen_status print(const json_t *table, bool json,
                                struct mlagen_buf *out, struct mlagen_diags *d)
{
    size_t i;
    json_t *line;

    if (json)
        return mlagen_json_print(json_object_get(table, "data"), out, d);
    json_array_foreach(json_object_get(table, "lines"), i, line)
        mlagen_buf_printf(out, "%s\n", json_string_value(line));
    return out->failed ? mlagen_no_memory(d) : MLAGEN_OK;
}

/* The results are read first: a wrong file is told before a second is spent on
 * the specs. */
enum mlagen_status mlagen_models(struct mlagen *g, const char *results,
                                 bool json, struct mlagen_buf *out,
                                 struct mlagen_diags *d)
{
    json_t *specs = json_array(), *runs = json_array(), *table = NULL;
    enum mlagen_status status =
        specs && runs ? MLAGEN_OK : mlagen_no_memory(d);

    if (status == MLAGEN_OK && results)
        status = read_runs(results, runs, d);
    if (status == MLAGEN_OK)
        status = load_specs(g, specs, d);
    if (status == MLAGEN_OK) {
        json_t *args[] = {specs, g->archs, runs};

        status = mlagen_host_call(g->host, "models", args, 3, &table, d);
    }
    if (status == MLAGEN_OK)
        status = print(table, json, out, d);
    json_decref(table);
    json_decref(runs);
    json_decref(specs);
    return status;
}
