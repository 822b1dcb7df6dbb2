/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c: the third stage: templates/main.lua renders every file of the
 * generation in one call.  The provenance that each of them carries (meta) is
 * made here.
 */
#include <string.h>

#include "alloc.h"
#include "context.h"
#include "manifest.h"
#include "workers.h"

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

/* A host of its own loads and compiles the templates again, which pays for
 * itself with this many kernels. */
enum { KERNELS_PER_HOST = 32, MAX_HOSTS = 16 };

/* Every `step`-th file from `first` (1-based), on one host. */
struct part {
    json_t *texts; /* what render() returned */
    enum mlagen_status status;
};

struct rendering {
    const struct mlagen *g;
    json_t *meta;
    size_t step;
    struct part parts[MAX_HOSTS];
};

/* Calls render(spec, plans, meta, first, step). */
static enum mlagen_status call_render(const struct rendering *r,
                                      struct mlagen_host *host, size_t first,
                                      size_t step, json_t **texts,
                                      struct mlagen_diags *d)
{
    json_t *from = json_integer((json_int_t)first);
    json_t *by = json_integer((json_int_t)step);
    json_t *args[] = {r->g->spec, r->g->plans, r->meta, from, by};
    enum mlagen_status status =
        from && by ? mlagen_host_call(host, "render", args, 5, texts, d)
                   : mlagen_no_memory(d);

    json_decref(from);
    json_decref(by);
    return status;
}

/* One part, on a host of its own.  What goes wrong is not told from here. */
static void render_part(void *user, size_t index)
{
    struct rendering *r = user;
    struct part *part = &r->parts[index];
    struct mlagen_host *host = NULL;
    struct mlagen_diags silent = {0};

    part->status = mlagen_host_new(r->g->tree, NULL, &host, &silent);
    if (part->status == MLAGEN_OK)
        part->status =
            call_render(r, host, index + 1, r->step, &part->texts, &silent);
    mlagen_host_free(host);
    mlagen_diags_free(&silent);
}

/* One text that render() returned, {path, text}, joins the generation. */
static enum mlagen_status take_text(struct mlagen *g, const json_t *file,
                                    struct mlagen_diags *d)
{
    const json_t *text = json_object_get(file, "text");
    const char *path = mlagen_json_text(file, "path");

    if (json_is_string(text))
        return mlagen_outputs_add(&g->texts, path, json_string_value(text),
                                  json_string_length(text), d);
    mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){0},
                "templates/main.lua: render() returned no text for '%s'",
                path);
    return MLAGEN_TEMPLATE;
}

/* Puts the parts together again: file i is in part i mod step. */
static enum mlagen_status
take_texts(struct mlagen *g, const struct rendering *r, struct mlagen_diags *d)
{
    enum mlagen_status status = MLAGEN_OK;

    for (size_t i = 0; status == MLAGEN_OK; i++) {
        const json_t *file =
            json_array_get(r->parts[i % r->step].texts, i / r->step);

        if (!file)
            break;
        status = take_text(g, file, d);
    }
    return status;
}

/* How many hosts to use: more than one only where there are CPUs and work. */
static size_t host_count(const struct mlagen *g)
{
    size_t cpus = g->options.jobs ? g->options.jobs : mlagen_cpu_count();
    size_t useful = json_array_size(g->plans) / KERNELS_PER_HOST;
    size_t n = cpus < useful ? cpus : useful;

    n = n < MAX_HOSTS ? n : MAX_HOSTS;
    return n > 1 ? n : 1;
}

/* Releases what the parts hold. */
static void drop_parts(struct rendering *r)
{
    for (size_t i = 0; i < MAX_HOSTS; i++)
        json_decref(r->parts[i].texts);
    memset(r->parts, 0, sizeof r->parts);
}

/* Renders on r->step hosts at once.  @return false when any of them failed. */
static bool render_apart(struct rendering *r)
{
    bool whole = true;

    mlagen_workers_run(r->step, r->step, render_part, NULL, r);
    for (size_t i = 0; i < r->step; i++)
        whole = whole && r->parts[i].status == MLAGEN_OK;
    return whole;
}

/* Renders all of it on the context's own host, in order. */
static enum mlagen_status render_here(struct rendering *r,
                                      struct mlagen_diags *d)
{
    drop_parts(r);
    r->step = 1;
    return call_render(r, r->g->host, 1, 1, &r->parts[0].texts, d);
}

/* A fault that one of several hosts met is looked for again in order, so that
 * the same one is told on every machine. */
static enum mlagen_status render_all(struct mlagen *g, struct mlagen_diags *d)
{
    struct rendering r = {.g = g, .meta = make_meta(g), .step = host_count(g)};
    enum mlagen_status status = r.meta ? MLAGEN_OK : mlagen_no_memory(d);

    if (status == MLAGEN_OK && (r.step == 1 || !render_apart(&r)))
        status = render_here(&r, d);
    if (status == MLAGEN_OK)
        status = take_texts(g, &r, d);
    drop_parts(&r);
    json_decref(r.meta);
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

/* The list of all files, with the parameters of their templates. */
static enum mlagen_status list_files(struct mlagen *g, json_t **list,
                                     struct mlagen_diags *d)
{
    json_t *meta = make_meta(g);
    json_t *args[] = {g->spec, g->plans, meta};
    enum mlagen_status status =
        meta ? mlagen_host_call(g->host, "files", args, 3, list, d)
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
    json_t *list = NULL;
    const json_t *entry = NULL;
    enum mlagen_status status = mlagen_plan(g, d);

    if (status == MLAGEN_OK)
        status = list_files(g, &list, d);
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
    return status;
}
