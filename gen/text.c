/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c: the third stage: templates/main.lua renders every file of the
 * generation in one call.  The provenance that each of them carries (meta) is
 * made here.
 */
#include <string.h>

#include "alloc.h"
#include "context.h"
#include "crew.h"
#include "manifest.h"

/* Appends one word of a command line, quoted for a POSIX shell if need be: the
 * head of every emitted file shows the command, to be pasted. */
static void add_word(struct mlagen_buf *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_-+=.,:/@%";

    mlagen_buf_char(out, ' ');
    if (*word && strspn(word, plain) == strlen(word)) {
        mlagen_buf_str(out, word);
        return;
    }
    mlagen_buf_char(out, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            mlagen_buf_str(out, "'\\''");
        else
            mlagen_buf_char(out, *word);
    }
    mlagen_buf_char(out, '\'');
}

/* The command that makes this generation again, without the folders of this
 * machine: the same for `gen` and `build`, whatever -o, -I and -j were. */
static char *make_command(const struct mlagen *g)
{
    struct mlagen_buf out = {0};
    size_t i;
    json_t *setting;

    mlagen_buf_str(&out, "mlagen gen");
    add_word(&out, strcmp(g->spec_name, "<stdin>") == 0 ? "-" : g->spec_name);
    json_array_foreach(g->overrides, i, setting)
    {
        mlagen_buf_str(&out, " -D");
        add_word(&out, json_string_value(setting));
    }
    if (g->options.symbol_prefix) {
        mlagen_buf_str(&out, " --symbol-prefix");
        add_word(&out, g->options.symbol_prefix);
    }
    if (out.failed)
        mlagen_buf_free(&out);
    return out.data;
}

/* The provenance that templates print; contract of templates/lib/emit.lua. */
static json_t *make_meta(const struct mlagen *g)
{
    const char *prefix = g->options.symbol_prefix;

    return json_pack("{s:s,s:s,s:s,s:O,s:s,s:s}", "generator",
                     "mlagen " MLAGEN_VERSION, "spec_sha256", g->spec_sha256,
                     "templates_sha256", g->templates_sha256, "overrides",
                     g->overrides, "command", g->command, "symbol_prefix",
                     prefix ? prefix : "");
}

/* --- rendering ----------------------------------------------------------- */

/* A further host loads and compiles the templates again, which takes as long
 * as to render this many kernels. */
enum { KERNELS_PER_HOST = 16 };

/* Job 0 makes the tables, {path, text} of each; job i > 0 the source of the
 * (i - 1)-th plan that is no other's twin. */
struct rendering {
    struct mlagen *g;
    json_t *meta;
    size_t *plan_of; /* of each job but the first */
    size_t *job_of;  /* of each plan: the job that makes it or its twin */
    json_t **made;   /* of each job */
    size_t jobs;
};

/* Plans that say the same of everything but their names: texts that differ in
 * the symbol only, provided that the symbols are of one length, as lines are
 * broken by their width.  A source is rendered without its architecture. */
static bool are_twins(const json_t *a, const json_t *b)
{
    static const char *const quick[] = {"family", "variant"};
    const char *key;
    json_t *value;

    if (strlen(mlagen_json_text(a, "symbol")) !=
            strlen(mlagen_json_text(b, "symbol")) ||
        json_object_size(a) != json_object_size(b))
        return false;
    for (size_t i = 0; i < sizeof quick / sizeof *quick; i++)
        if (strcmp(mlagen_json_text(a, quick[i]),
                   mlagen_json_text(b, quick[i])))
            return false;
    json_object_foreach((json_t *)a, key, value)
    {
        if (strcmp(key, "symbol") && strcmp(key, "source") &&
            strcmp(key, "arch") && !json_equal(value, json_object_get(b, key)))
            return false;
    }
    return true;
}

/* Fills plan_of[] and job_of[]. */
static void find_twins(struct rendering *r)
{
    const json_t *plans = r->g->plans;

    r->jobs = 1;
    for (size_t i = 0; i < json_array_size(plans); i++) {
        size_t k = 1;

        while (k < r->jobs && !are_twins(json_array_get(plans, r->plan_of[k]),
                                         json_array_get(plans, i)))
            k++;
        if (k == r->jobs)
            r->plan_of[r->jobs++] = i;
        r->job_of[i] = k;
    }
}

/* Calls tables(spec, plans, meta) or source(spec, plan, meta). */
static enum mlagen_status render_job(void *user, struct mlagen_host *host,
                                     size_t index, struct mlagen_diags *d)
{
    struct rendering *r = user;
    const struct mlagen *g = r->g;
    json_t *plans = index == 0 ? g->plans
                               : json_array_get(g->plans, r->plan_of[index]);
    json_t *args[] = {g->spec, plans, r->meta};

    json_decref(r->made[index]);
    return mlagen_host_call(host, index == 0 ? "tables" : "source", args, 3,
                            &r->made[index], d);
}

/* Puts `to` for every `from` in a text; both are of one length. */
static void rename_symbol(char *text, size_t size, const char *from,
                          const char *to)
{
    size_t n = strlen(from);
    char *at = text;

    while ((at = memmem(at, size - (size_t)(at - text), from, n))) {
        memcpy(at, to, n);
        at += n;
    }
}

/* A text that Lua returned joins the generation. */
static enum mlagen_status take_text(struct mlagen *g, const char *path,
                                    const json_t *text, struct mlagen_diags *d)
{
    if (json_is_string(text))
        return mlagen_outputs_add(&g->texts, path, json_string_value(text),
                                  json_string_length(text), d);
    mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){0},
                "templates/main.lua returned no text for '%s'", path);
    return MLAGEN_TEMPLATE;
}

/* The source of a plan, made for it or for its twin. */
static enum mlagen_status take_source(const struct rendering *r, size_t i,
                                      struct mlagen_diags *d)
{
    struct mlagen *g = r->g;
    size_t job = r->job_of[i];
    const json_t *plan = json_array_get(g->plans, i);
    const json_t *made_for = json_array_get(g->plans, r->plan_of[job]);
    enum mlagen_status status =
        take_text(g, mlagen_json_text(plan, "source"), r->made[job], d);

    if (status == MLAGEN_OK && plan != made_for) {
        struct mlagen_output *item = &g->texts.items[g->texts.count - 1];

        rename_symbol(item->data, item->size,
                      mlagen_json_text(made_for, "symbol"),
                      mlagen_json_text(plan, "symbol"));
    }
    return status;
}

/* The tables first, then a source per plan. */
static enum mlagen_status take_texts(const struct rendering *r,
                                     struct mlagen_diags *d)
{
    enum mlagen_status status = MLAGEN_OK;
    size_t i;
    json_t *file;

    json_array_foreach(r->made[0], i, file)
    {
        if (status == MLAGEN_OK)
            status = take_text(r->g, mlagen_json_text(file, "path"),
                               json_object_get(file, "text"), d);
    }
    for (i = 0; i < json_array_size(r->g->plans) && status == MLAGEN_OK; i++)
        status = take_source(r, i, d);
    return status;
}

/* Renders what differs, and makes the rest of it. */
static enum mlagen_status render_all(struct mlagen *g, struct mlagen_diags *d)
{
    size_t count = json_array_size(g->plans);
    struct rendering r = {
        .g = g,
        .meta = make_meta(g),
        .plan_of = mlagen_calloc(count + 1, sizeof *r.plan_of),
        .job_of = mlagen_calloc(count, sizeof *r.job_of),
        .made = mlagen_calloc(count + 1, sizeof *r.made),
    };
    enum mlagen_status status = MLAGEN_OK;

    if (!r.meta || !r.plan_of || !r.job_of || !r.made)
        status = mlagen_no_memory(d);
    if (status == MLAGEN_OK) {
        find_twins(&r);
        status = mlagen_crew_run(g, r.jobs, KERNELS_PER_HOST, render_job, &r,
                                 d);
    }
    if (status == MLAGEN_OK)
        status = take_texts(&r, d);
    for (size_t i = 0; r.made && i <= count; i++)
        json_decref(r.made[i]);
    json_decref(r.meta);
    mlagen_free(r.plan_of);
    mlagen_free(r.job_of);
    mlagen_free(r.made);
    return status;
}

/* Each plan's source must be among the files: it is what gets compiled. */
static enum mlagen_status check_sources(const struct mlagen *g,
                                        struct mlagen_diags *d)
{
    size_t i;
    json_t *plan;

    json_array_foreach(g->plans, i, plan)
    {
        const char *source = mlagen_json_text(plan, "source");

        if (!mlagen_outputs_find(&g->texts, source)) {
            mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){source, 0, 0},
                        "no template makes this source of kernel %s",
                        mlagen_json_text(plan, "symbol"));
            return MLAGEN_TEMPLATE;
        }
    }
    return MLAGEN_OK;
}

/* A second call finds the texts there.  The sources are checked here, as from
 * now on a plan's source is taken for granted. */
enum mlagen_status mlagen_render(struct mlagen *g, struct mlagen_diags *d)
{
    enum mlagen_status status;

    if (g->texts.count > 0)
        return MLAGEN_OK;
    status = mlagen_plan(g, d);
    if (status == MLAGEN_OK && !g->command) {
        g->command = make_command(g);
        if (!g->command)
            status = mlagen_no_memory(d);
    }
    if (status == MLAGEN_OK)
        status = render_all(g, d);
    if (status == MLAGEN_OK)
        status = check_sources(g, d);
    if (status != MLAGEN_OK)
        mlagen_outputs_free(&g->texts);
    return status;
}

/* --- one file ------------------------------------------------------------ */

/* The entry {path, template, params} of files(). */
static const json_t *find_entry(const json_t *list, const char *path)
{
    size_t i;
    json_t *entry;

    json_array_foreach(list, i, entry)
    {
        if (strcmp(mlagen_json_text(entry, "path"), path) == 0)
            return entry;
    }
    return NULL;
}

/* The plans that decide on a file: a source's own, else all of them.  A new
 * reference, NULL without memory. */
static json_t *plans_of(const struct mlagen *g, const char *path)
{
    size_t i;
    json_t *plan;

    json_array_foreach(g->plans, i, plan)
    {
        if (strcmp(mlagen_json_text(plan, "source"), path) == 0)
            return json_pack("[O]", plan);
    }
    return json_incref(g->plans);
}

/* The files of some plans, with the parameters of their templates. */
static enum mlagen_status list_files(struct mlagen *g, json_t *plans,
                                     json_t **list, struct mlagen_diags *d)
{
    json_t *meta = make_meta(g);
    json_t *args[] = {g->spec, plans, meta};
    enum mlagen_status status =
        meta && plans ? mlagen_host_call(g->host, "files", args, 3, list, d)
                      : mlagen_no_memory(d);

    json_decref(meta);
    return status;
}

/* files() lists every file without rendering it; only the one asked for is
 * made, with the map of its lines if that is wanted. */
enum mlagen_status mlagen_render_one(struct mlagen *g, const char *path,
                                     struct mlagen_buf *text,
                                     struct mlagen_linemap *map,
                                     struct mlagen_diags *d)
{
    json_t *list = NULL, *plans = NULL;
    const json_t *entry = NULL;
    enum mlagen_status status = mlagen_plan(g, d);

    if (status == MLAGEN_OK) {
        plans = plans_of(g, path);
        status = list_files(g, plans, &list, d);
    }
    if (status == MLAGEN_OK) {
        entry = find_entry(list, path);
        if (!entry) {
            mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){path, 0, 0},
                        "no file of this generation");
            status = MLAGEN_IO;
        }
    }
    if (entry)
        status = mlagen_host_render(
            g->host, mlagen_json_text(entry, "template"),
            json_object_get(entry, "params"), text, map, d);
    json_decref(list);
    json_decref(plans);
    return status;
}
