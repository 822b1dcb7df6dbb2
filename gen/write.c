/* SPDX-License-Identifier: Apache-2.0
 *
 * write.c: the last stage: texts, cubins and manifest become the content of a
 * folder.  How a file gets there safely is folder.h's business; this file says
 * what is to be there.
 */
#include <string.h>

#include "alloc.h"
#include "context.h"
#include "manifest.h"

/* --- manifest -------------------------------------------------------------
 */

/* For qsort, over pointers. */
static int by_path(const void *a, const void *b)
{
    struct mlagen_output *const *x = a;
    struct mlagen_output *const *y = b;

    return strcmp((*x)->path, (*y)->path);
}

/* files: the texts, sorted by path, NULL without memory.  Cubins stand with
 * their kernels. */
static json_t *list_texts(const struct mlagen_outputs *texts)
{
    struct mlagen_output **sorted =
        mlagen_calloc(texts->count, sizeof *sorted);
    json_t *list = sorted ? json_array() : NULL;

    for (size_t i = 0; list && i < texts->count; i++)
        sorted[i] = &texts->items[i];
    if (list)
        qsort(sorted, texts->count, sizeof *sorted, by_path);
    for (size_t i = 0; list && i < texts->count; i++)
        mlagen_json_append(&list,
                           json_pack("{s:s,s:I,s:s}", "path", sorted[i]->path,
                                     "bytes", (json_int_t)sorted[i]->size,
                                     "sha256", mlagen_output_hash(sorted[i])));
    mlagen_free(sorted);
    return list;
}

/* kernels: each plan, and what its compilation said if it was compiled.
 * Copies, as the plans themselves stay without `build`. */
static json_t *list_kernels(const struct mlagen *g)
{
    json_t *list = json_array();
    size_t i;
    json_t *plan;

    json_array_foreach(g->plans, i, plan)
    {
        json_t *kernel = json_copy(plan);
        json_t *build =
            json_object_get(g->builds, mlagen_json_text(plan, "symbol"));

        if (build && json_object_set(kernel, "build", build)) {
            json_decref(kernel);
            kernel = NULL;
        }
        mlagen_json_append(&list, kernel);
    }
    return list;
}

/* The manifest, as the last file of the generation.  json_pack takes the lists
 * over, and gives NULL when one of them is NULL. */
static enum mlagen_status make_manifest(const struct mlagen *g,
                                        struct mlagen_outputs *all,
                                        struct mlagen_diags *d)
{
    const char *prefix = g->options.symbol_prefix;
    struct mlagen_buf text = {0};
    json_t *m = json_pack(
        "{s:i,s:s,s:s,s:O,s:s,s:s,s:O,s:s,s:s,s:o,s:o}", "format",
        MLAGEN_MANIFEST_FORMAT, "generator", "mlagen " MLAGEN_VERSION, "model",
        mlagen_model(g), "spec", g->spec, "spec_sha256", g->spec_sha256,
        "templates_sha256", g->templates_sha256, "overrides", g->overrides,
        "command", g->command, "symbol_prefix", prefix ? prefix : "", "files",
        list_texts(&g->texts), "kernels", list_kernels(g));
    enum mlagen_status status =
        m ? mlagen_manifest_text(m, &text, d) : mlagen_no_memory(d);

    if (status == MLAGEN_OK)
        status = mlagen_outputs_add(all, MLAGEN_MANIFEST,
                                    mlagen_buf_text(&text), text.len, d);
    mlagen_buf_free(&text);
    json_decref(m);
    return status;
}

/* --- the generation -------------------------------------------------------
 */

/* The whole generation: texts, cubins, manifest.  `all` borrows the first two
 * from the context and must not outlive them. */
static enum mlagen_status assemble(const struct mlagen *g,
                                   struct mlagen_outputs *all,
                                   struct mlagen_diags *d)
{
    enum mlagen_status status = mlagen_outputs_borrow(all, &g->texts, d);

    if (status == MLAGEN_OK)
        status = mlagen_outputs_borrow(all, &g->cubins, d);
    if (status == MLAGEN_OK)
        status = make_manifest(g, all, d);
    return status;
}

/* The texts that were shown stay in the context, since callers
 * keep pointers. */
enum mlagen_status mlagen_files(struct mlagen *g, mlagen_file_fn each,
                                void *user, struct mlagen_diags *d)
{
    enum mlagen_status status = mlagen_render(g, d);

    mlagen_outputs_free(&g->files);
    if (status == MLAGEN_OK)
        status = assemble(g, &g->files, d);
    for (size_t i = 0; i < g->files.count && status == MLAGEN_OK; i++)
        status = each(user, g->files.items[i].path, g->files.items[i].data,
                      g->files.items[i].size);
    return status;
}

/* Compares, and carries out unless nothing is to be written.  Changes that are
 * listed already are cubins that a run would compile (cubin.c). */
static enum mlagen_status settle(const struct mlagen_folder *f,
                                 const struct mlagen_outputs *all,
                                 unsigned flags, struct mlagen_report *report,
                                 struct mlagen_diags *d)
{
    size_t pending = report->changes.count, written = 0;
    enum mlagen_status status =
        mlagen_folder_compare(f, all, &report->changes, d);

    if (status != MLAGEN_OK)
        return status;
    for (size_t i = pending; i < report->changes.count; i++)
        written += strcmp(report->changes.items[i].what, "remove") != 0;
    report->unchanged = all->count - written;
    if (flags & MLAGEN_WRITE_NOTHING)
        return report->changes.count > 0 ? MLAGEN_DIFFERENT : MLAGEN_OK;
    return mlagen_folder_publish(f, all, &report->changes, d);
}

/* A kernel that does not compile does not keep the others from being written:
 * `compiled` remembers the failure, which is returned at the end.  Nothing is
 * locked when nothing is to be written. */
enum mlagen_status mlagen_write(struct mlagen *g, const char *folder,
                                unsigned flags, struct mlagen_report *report,
                                struct mlagen_diags *d)
{
    struct mlagen_folder f = {.lock = -1};
    struct mlagen_outputs all = {0};
    enum mlagen_status status = mlagen_render(g, d), compiled = MLAGEN_OK;

    *report = (struct mlagen_report){0};
    if (status == MLAGEN_OK)
        status =
            mlagen_folder_open(folder, !(flags & MLAGEN_WRITE_NOTHING), &f, d);
    if (status == MLAGEN_OK)
        status = compiled = mlagen_cubins(g, &f, flags, report, d);
    if (compiled == MLAGEN_CUDA && report->failed > 0)
        status = MLAGEN_OK;
    if (status == MLAGEN_OK)
        status = assemble(g, &all, d);
    if (status == MLAGEN_OK)
        status = settle(&f, &all, flags, report, d);
    if (f.path)
        mlagen_folder_close(&f);
    mlagen_outputs_free(&all);
    return status ? status : compiled;
}

void mlagen_report_free(struct mlagen_report *r)
{
    mlagen_changes_free(&r->changes);
    *r = (struct mlagen_report){0};
}

/* --- lists for other tools ------------------------------------------------
 */

/* Renders, since only then it is known which files there are. */
enum mlagen_status mlagen_list_outputs(struct mlagen *g, bool cubins,
                                       struct mlagen_buf *out,
                                       struct mlagen_diags *d)
{
    enum mlagen_status status = mlagen_render(g, d);
    size_t i;
    json_t *plan;

    if (status != MLAGEN_OK)
        return status;
    for (size_t k = 0; k < g->texts.count; k++)
        mlagen_buf_printf(out, "%s\n", g->texts.items[k].path);
    json_array_foreach(g->plans, i, plan)
    {
        if (cubins)
            mlagen_buf_printf(out, "cubin/%s.cubin\n",
                              mlagen_json_text(plan, "symbol"));
    }
    mlagen_buf_str(out, MLAGEN_MANIFEST "\n");
    return out->failed ? mlagen_no_memory(d) : MLAGEN_OK;
}

/* Appends a file name as make reads it: blanks and # escaped, $ doubled. */
static void add_make_name(struct mlagen_buf *out, const char *name)
{
    for (; *name; name++) {
        if (*name == '$')
            mlagen_buf_char(out, '$');
        else if (strchr(" \t#", *name))
            mlagen_buf_char(out, '\\');
        mlagen_buf_char(out, *name);
    }
}

/* An embedded text has no file that make could look at, so it is not named. */
enum mlagen_status mlagen_depfile(struct mlagen *g, const char *target,
                                  struct mlagen_buf *out,
                                  struct mlagen_diags *d)
{
    size_t count = mlagen_tree_count(g->tree);

    add_make_name(out, target);
    mlagen_buf_char(out, ':');
    if (g->spec_path) {
        mlagen_buf_str(out, " \\\n  ");
        add_make_name(out, g->spec_path);
    }
    for (size_t i = 0; g->options.templates && i < count; i++) {
        const struct mlagen_text *text = mlagen_tree_at(g->tree, i);

        if (strncmp(text->path, "templates/", 10) != 0)
            continue;
        mlagen_buf_str(out, " \\\n  ");
        add_make_name(out, text->shown);
    }
    mlagen_buf_char(out, '\n');
    return out->failed ? mlagen_no_memory(d) : MLAGEN_OK;
}
