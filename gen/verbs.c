/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs.c: see verbs.h.  A verb is a function in a table; those that need no
 * generator (help, version, run-check) get none.
 */
#include "verbs.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "alloc.h"
#include "manifest.h"

/* What a verb works with. */
struct run {
    const struct mlagen_args *a;
    struct mlagen *g;
    struct mlagen_buf *out;
    struct mlagen_diags *d;
};

/* Does one verb; what it has to say is appended to r->out and r->d. */
typedef enum mlagen_status (*verb_fn)(const struct run *r);

/* --- reading verbs --------------------------------------------------------
 */

static enum mlagen_status run_import(const struct run *r)
{
    return mlagen_import(r->g, r->a->operand, r->a->strict, r->out, r->d);
}

/* A spec that loads is right: loading is checking. */
static enum mlagen_status run_check(const struct run *r)
{
    enum mlagen_status status = mlagen_load(r->g, r->a->operand, r->d);

    if (status == MLAGEN_OK && !r->a->quiet)
        mlagen_buf_printf(r->out, "%s: ok\n", mlagen_model(r->g));
    return status;
}

static enum mlagen_status draw_plan(const struct run *r)
{
    const struct mlagen_args *a = r->a;
    struct mlagen_plot plot = {a->plot, a->counters, a->batch, a->seq_len,
                               a->q_len};
    enum mlagen_status status =
        mlagen_draw(r->g, &plot, a->json ? r->out : NULL, r->d);

    if (status == MLAGEN_OK && !a->json && !a->quiet)
        mlagen_buf_printf(r->out, "%s: written\n", a->plot);
    return status;
}

/* The analysis and the plans; nothing is rendered. */
static enum mlagen_status run_plan(const struct run *r)
{
    enum mlagen_status status = mlagen_load(r->g, r->a->operand, r->d);

    if (status == MLAGEN_OK && r->a->plot)
        return draw_plan(r);
    return status ? status : mlagen_describe(r->g, r->a->json, r->out, r->d);
}

/* What is built in, or with --models the table of what each model needs. */
static enum mlagen_status run_list(const struct run *r)
{
    if (r->a->models)
        return mlagen_models(r->g, r->a->results, r->a->json, r->out, r->d);
    return mlagen_inventory(r->g, r->a->json, r->out, r->d);
}

static enum mlagen_status run_env(const struct run *r)
{
    return mlagen_env(r->g, r->a->json, r->out, r->d);
}

/* --- changes --------------------------------------------------------------
 */

/* The sign that stands for a change in lists: + new, ~ different, - gone. */
static char sign_of(const char *what)
{
    static const struct {
        const char *what;
        char sign;
    } signs[] = {{"add", '+'},     {"extra", '+'},  {"change", '~'},
                 {"changed", '~'}, {"remove", '-'}, {"missing", '-'}};

    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strcmp(what, signs[i].what) == 0)
            return signs[i].sign;
    return '?';
}

/* One change a line, as diff and git mark them. */
static void print_changes(const struct mlagen_changes *c,
                          struct mlagen_buf *out)
{
    for (size_t i = 0; i < c->count; i++)
        mlagen_buf_printf(out, "%c %s\n", sign_of(c->items[i].what),
                          c->items[i].path);
}

/* [{"what":, "path":}], NULL without memory. */
static json_t *changes_json(const struct mlagen_changes *c)
{
    json_t *list = json_array();

    for (size_t i = 0; i < c->count; i++)
        mlagen_json_append(&list,
                           json_pack("{s:s,s:s}", "what", c->items[i].what,
                                     "path", c->items[i].path));
    return list;
}

/* Prints and releases `value`, which may be NULL for lack of memory. */
static enum mlagen_status print_json(const struct run *r, json_t *value)
{
    enum mlagen_status status = value ? mlagen_json_print(value, r->out, r->d)
                                      : mlagen_no_memory(r->d);

    json_decref(value);
    return status;
}

/* --- writing verbs --------------------------------------------------------
 */

/* How many changes are of this kind. */
static size_t count_changes(const struct mlagen_report *report,
                            const char *what)
{
    size_t n = 0;

    for (size_t i = 0; i < report->changes.count; i++)
        n += strcmp(report->changes.items[i].what, what) == 0;
    return n;
}

/* The report with all its counts; "up_to_date" are cubins that were
 * taken over. */
static enum mlagen_status summary_json(const struct run *r, const char *folder,
                                       const struct mlagen_report *report)
{
    return print_json(r, json_pack("{s:s,s:o,s:I,s:I,s:I,s:I,s:I}", "folder",
                                   folder, "changes",
                                   changes_json(&report->changes), "unchanged",
                                   (json_int_t)report->unchanged, "kernels",
                                   (json_int_t)report->kernels, "compiled",
                                   (json_int_t)report->compiled, "up_to_date",
                                   (json_int_t)report->reused, "failed",
                                   (json_int_t)report->failed));
}

/* One line: files first, then, after a build, kernels. */
static void summary_text(const struct run *r, const char *folder,
                         const struct mlagen_report *report)
{
    size_t removed = count_changes(report, "remove");

    mlagen_buf_printf(r->out, "%s: %zu written, %zu unchanged", folder,
                      report->changes.count - removed, report->unchanged);
    if (removed > 0)
        mlagen_buf_printf(r->out, ", %zu removed", removed);
    if (r->a->verb == MLAGEN_VERB_BUILD)
        mlagen_buf_printf(r->out,
                          "; %zu kernels: %zu compiled, %zu up to date",
                          report->kernels, report->compiled, report->reused);
    if (report->failed > 0)
        mlagen_buf_printf(r->out, ", %zu failed", report->failed);
    mlagen_buf_char(r->out, '\n');
}

/* What was done, or with --check what would be. */
static enum mlagen_status summarise(const struct run *r, const char *folder,
                                    const struct mlagen_report *report)
{
    if (r->a->json)
        return summary_json(r, folder, report);
    if (r->a->check || r->a->verbose)
        print_changes(&report->changes, r->out);
    if (!r->a->check && !r->a->quiet)
        summary_text(r, folder, report);
    return MLAGEN_OK;
}

/* --list-outputs: the names as they are from here, folder included. */
static enum mlagen_status list_outputs(const struct run *r, const char *folder)
{
    struct mlagen_buf names = {0};
    enum mlagen_status status = mlagen_list_outputs(
        r->g, r->a->verb == MLAGEN_VERB_BUILD, &names, r->d);

    if (status == MLAGEN_OK)
        for (const char *p = mlagen_buf_text(&names); *p;) {
            size_t n = strcspn(p, "\n");

            mlagen_buf_printf(r->out, "%s/%.*s\n", folder, (int)n, p);
            p += n + (p[n] == '\n');
        }
    mlagen_buf_free(&names);
    return status;
}

/* -MD and -MF: what the manifest depends on.  The default name lies beside the
 * output folder, which holds nothing but the generation. */
static enum mlagen_status write_depfile(const struct run *r,
                                        const char *folder)
{
    struct mlagen_buf target = {0}, name = {0}, text = {0};
    enum mlagen_status status;

    mlagen_buf_printf(&target, "%s/%s", folder, MLAGEN_MANIFEST);
    if (r->a->depfile)
        mlagen_buf_str(&name, r->a->depfile);
    else
        mlagen_buf_printf(&name, "%s.d", folder);
    status = mlagen_depfile(r->g, mlagen_buf_text(&target), &text, r->d);
    if (status == MLAGEN_OK && (target.failed || name.failed))
        status = mlagen_no_memory(r->d);
    if (status == MLAGEN_OK)
        status = mlagen_write_file(mlagen_buf_text(&name),
                                   mlagen_buf_text(&text), text.len, r->d);
    mlagen_buf_free(&target);
    mlagen_buf_free(&name);
    mlagen_buf_free(&text);
    return status;
}

/* -o, without its trailing slashes, or out/<model>. */
static enum mlagen_status choose_folder(const struct run *r,
                                        struct mlagen_buf *folder)
{
    if (r->a->out)
        mlagen_buf_str(folder, r->a->out);
    else
        mlagen_buf_printf(folder, "out/%s", mlagen_model(r->g));
    if (folder->failed)
        return mlagen_no_memory(r->d);
    while (folder->len > 1 && folder->data[folder->len - 1] == '/')
        folder->data[--folder->len] = '\0';
    return MLAGEN_OK;
}

/* Writes, tells, and leaves a dependency file if one is wanted. */
static enum mlagen_status write_folder(const struct run *r, const char *folder)
{
    unsigned flags =
        (r->a->verb == MLAGEN_VERB_BUILD ? MLAGEN_WRITE_CUBINS : 0) |
        (r->a->check ? MLAGEN_WRITE_NOTHING : 0);
    struct mlagen_report report;
    enum mlagen_status status =
        mlagen_write(r->g, folder, flags, &report, r->d);
    enum mlagen_status next = MLAGEN_OK;

    if (status == MLAGEN_OK || status == MLAGEN_DIFFERENT ||
        status == MLAGEN_CUDA)
        next = summarise(r, folder, &report);
    if (next == MLAGEN_OK && status == MLAGEN_OK && !r->a->check &&
        (r->a->depend || r->a->depfile))
        next = write_depfile(r, folder);
    mlagen_report_free(&report);
    return status ? status : next;
}

/* gen and build: they differ in a flag of mlagen_write. */
static enum mlagen_status run_gen(const struct run *r)
{
    struct mlagen_buf folder = {0};
    enum mlagen_status status = mlagen_load(r->g, r->a->operand, r->d);

    if (status == MLAGEN_OK)
        status = choose_folder(r, &folder);
    if (status == MLAGEN_OK)
        status = r->a->list_outputs
                     ? list_outputs(r, mlagen_buf_text(&folder))
                     : write_folder(r, mlagen_buf_text(&folder));
    mlagen_buf_free(&folder);
    return status;
}

/* --- verify ---------------------------------------------------------------
 */

/* Notes are diagnostics, and for programs part of the result. */
static enum mlagen_status verify_json(const struct run *r, bool ok,
                                      const struct mlagen_changes *changes)
{
    json_t *notes = json_array();

    for (size_t i = 0; i < r->d->count; i++)
        if (r->d->items[i].severity == MLAGEN_NOTE)
            mlagen_json_append(&notes, json_string(r->d->items[i].message));
    return print_json(r, json_pack("{s:s,s:b,s:o,s:o}", "folder",
                                   r->a->operand, "ok", ok, "faults",
                                   changes_json(changes), "notes", notes));
}

/* Faults go to standard output, one a line: they are the result. */
static enum mlagen_status run_verify(const struct run *r)
{
    struct mlagen_changes changes;
    enum mlagen_status status =
        mlagen_verify(r->g, r->a->operand, &changes, r->d);
    enum mlagen_status next = MLAGEN_OK;
    bool told = status == MLAGEN_OK || status == MLAGEN_DIFFERENT;

    if (told && r->a->json)
        next = verify_json(r, status == MLAGEN_OK, &changes);
    else if (told)
        for (size_t i = 0; i < changes.count; i++)
            mlagen_buf_printf(r->out, "%-8s %s\n", changes.items[i].what,
                              changes.items[i].path);
    if (status == MLAGEN_OK && !r->a->json && !r->a->quiet)
        mlagen_buf_printf(r->out, "%s: ok\n", r->a->operand);
    mlagen_changes_free(&changes);
    return status ? status : next;
}

/* --- generated folders ----------------------------------------------------
 */

/* The library's line of summary is the result, unless -q. */
static enum mlagen_status run_bundle(const struct run *r)
{
    unsigned flags = (r->a->cubins ? MLAGEN_BUNDLE_CUBINS : 0u) |
                     (r->a->ptx ? MLAGEN_BUNDLE_PTX : 0u) |
                     (r->a->sources ? MLAGEN_BUNDLE_SOURCES : 0u);
    struct mlagen_buf summary = {0};
    enum mlagen_status status = mlagen_bundle(r->g, r->a->operand, r->a->out,
                                              flags, &summary, r->d);

    if (status == MLAGEN_OK && !r->a->quiet)
        mlagen_buf_str(r->out, mlagen_buf_text(&summary));
    mlagen_buf_free(&summary);
    return status;
}

static enum mlagen_status run_explain(const struct run *r)
{
    return mlagen_explain(r->g, r->a->operand, r->a->json, r->out, r->d);
}

/* --- without a generator --------------------------------------------------
 */

/* "help VERB" is "VERB -h". */
static enum mlagen_status run_help(const struct run *r)
{
    struct mlagen_args about;
    char help[] = "mlagen", flag[] = "-h";
    char *argv[] = {help, (char *)r->a->operand, flag, NULL};

    if (!r->a->operand) {
        mlagen_args_overview(r->out);
        return MLAGEN_OK;
    }
    if (mlagen_args_read(argv, &about, r->d) != MLAGEN_OK)
        return MLAGEN_USAGE;
    mlagen_args_help(about.verb, r->out);
    mlagen_args_free(&about);
    return MLAGEN_OK;
}

/* The line that a bug report begins with; `env` has the rest. */
static enum mlagen_status run_version(const struct run *r)
{
    mlagen_buf_printf(r->out, "mlagen %s\n", mlagen_version());
    return MLAGEN_OK;
}

/* mlagen-run-check is a program of its own, so that the generator stays free
 * of the runtime and the oracle: the one beside this program, else on PATH. */
static enum mlagen_status run_run_check(const struct run *r)
{
    static const char name[] = "mlagen-run-check";
    char path[PATH_MAX + sizeof name];
    size_t count = 0;
    char **argv;
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);

    while (r->a->rest[count])
        count++;
    argv = mlagen_calloc(count + 2, sizeof *argv);
    if (!argv)
        return mlagen_no_memory(r->d);
    argv[0] = (char *)name;
    memcpy(argv + 1, r->a->rest, count * sizeof *argv);
    signal(SIGPIPE, SIG_DFL); /* ignored here, but not for others */
    if (n > 0) {
        path[n] = '\0';
        strcpy(strrchr(path, '/') + 1, name);
        execv(path, argv);
    }
    execvp(name, argv);
    mlagen_diag(r->d, MLAGEN_ERROR, (struct mlagen_where){0},
                "cannot run %s, beside mlagen or on PATH: %s", name,
                strerror(errno));
    mlagen_free(argv);
    return MLAGEN_IO;
}

/* --- the table ------------------------------------------------------------
 */

static const struct {
    verb_fn run;
    bool generator; /* needs a context */
} table[MLAGEN_VERBS] = {
    [MLAGEN_VERB_IMPORT] = {run_import, true},
    [MLAGEN_VERB_CHECK] = {run_check, true},
    [MLAGEN_VERB_PLAN] = {run_plan, true},
    [MLAGEN_VERB_GEN] = {run_gen, true},
    [MLAGEN_VERB_BUILD] = {run_gen, true},
    [MLAGEN_VERB_VERIFY] = {run_verify, true},
    [MLAGEN_VERB_BUNDLE] = {run_bundle, true},
    [MLAGEN_VERB_EXPLAIN] = {run_explain, true},
    [MLAGEN_VERB_RUN_CHECK] = {run_run_check, false},
    [MLAGEN_VERB_LIST] = {run_list, true},
    [MLAGEN_VERB_ENV] = {run_env, true},
    [MLAGEN_VERB_HELP] = {run_help, false},
    [MLAGEN_VERB_VERSION] = {run_version, false},
};

/* Texts stay those of argv. */
static struct mlagen_options make_options(const struct mlagen_args *a,
                                          mlagen_progress_fn progress)
{
    return (struct mlagen_options){
        .size = sizeof(struct mlagen_options),
        .templates = a->templates,
        .settings = a->settings,
        .setting_count = a->setting_count,
        .archs = a->archs,
        .symbol_prefix = a->symbol_prefix,
        .jobs = a->jobs,
        .progress = progress,
    };
}

/* Help needs no generator: -h works although templates or a spec are broken. */
enum mlagen_status mlagen_run(const struct mlagen_args *a,
                              mlagen_progress_fn progress, struct mlagen **g,
                              struct mlagen_buf *out, struct mlagen_diags *d)
{
    struct mlagen_options options = make_options(a, progress);
    struct run r = {a, NULL, out, d};
    enum mlagen_status status = MLAGEN_OK;

    *g = NULL;
    if (a->help) {
        mlagen_args_help(a->verb, out);
        return MLAGEN_OK;
    }
    if (table[a->verb].generator)
        status = mlagen_open(&options, g, d);
    r.g = *g;
    if (status == MLAGEN_OK)
        status = table[a->verb].run(&r);
    if (status == MLAGEN_OK && out->failed)
        status = mlagen_no_memory(d);
    return status;
}
