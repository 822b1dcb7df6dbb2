/* SPDX-License-Identifier: Apache-2.0
 *
 * cubin.c: the fourth stage: each source becomes a cubin, or the cubin of an
 * earlier run is taken over.
 *
 * A cubin fits when the manifest says that it was made from this source, with
 * these options, by this compiler, and when the file on the disk still has the
 * recorded hash; dates mean nothing.  The rest is compiled by a few threads
 * over one queue, each kernel with diagnostics of its own, which are put
 * together in the kernels' order at the end: the messages of a failing build
 * do not depend on which thread was faster.
 */
#include <string.h>

#include "alloc.h"
#include "context.h"
#include "folder_io.h"
#include "manifest.h"
#include "nvrtc.h"
#include "workers.h"

/* One kernel to compile, and what came of it.  The job belongs to one thread
 * until the queue has run. */
struct job {
    const json_t *plan;
    struct mlagen_output *source;
    char shown[PATH_MAX]; /* the source as messages name it */
    struct mlagen_arch arch;
    struct mlagen_compiled made;
    struct mlagen_diags diags;
    enum mlagen_status status;
};

/* What the threads share: they read it, each takes jobs by index. */
struct queue {
    const struct mlagen_nvrtc *nvrtc;
    const struct mlagen_options *options;
    struct job *jobs;
    size_t count;
};

/* --- taking over ----------------------------------------------------------
 */

/* What the manifest of the generation before says of that symbol; NULL when it
 * was not compiled, or there was no such kernel. */
static const json_t *find_build(const json_t *manifest, const char *symbol)
{
    size_t i;
    json_t *kernel;

    json_array_foreach(
        json_object_get(manifest, "kernels"), i,
        kernel) if (strcmp(mlagen_json_text(kernel, "symbol"), symbol) ==
                    0) return json_object_get(kernel, "build");
    return NULL;
}

/* True when `code` is among the plan's exceptions, allow = {{code, reason}}: a
 * remark of ptxas that somebody has looked at. */
static bool allowed(const json_t *plan, const char *code)
{
    size_t i;
    json_t *item;

    json_array_foreach(json_object_get(plan, "allow"), i,
                       item) if (strcmp(mlagen_json_text(item, "code"),
                                        code) == 0) return true;
    return false;
}

/* A plan may have become stricter since the cubin was made. */
static bool findings_allowed(const json_t *plan, const json_t *build)
{
    size_t i;
    json_t *code;

    json_array_foreach(json_object_get(build, "findings"), i, code)
    {
        const char *text = json_string_value(code);

        if (!text || (!allowed(plan, text) && strcmp(text, "compiler") != 0))
            return false;
    }
    return true;
}

/* The options of a plan as the manifest records them; NULL without memory. */
static json_t *options_of(const json_t *plan)
{
    const char *options[MLAGEN_NVRTC_OPTIONS];
    char option[64];
    struct mlagen_arch arch;
    json_t *list = json_array();
    size_t count;

    mlagen_arch_parse(mlagen_json_text(plan, "arch"), &arch);
    count = mlagen_nvrtc_options(arch, option, options);
    for (size_t i = 0; i < count; i++)
        mlagen_json_append(&list, json_string(options[i]));
    return list;
}

/* Whether a recorded build is of this source, by these means.  `compiler`
 * NULL: whichever it was. */
static bool build_fits(const json_t *plan, const json_t *build,
                       struct mlagen_output *source, const char *compiler)
{
    json_t *options = options_of(plan);
    bool fits = strcmp(mlagen_json_text(build, "source_sha256"),
                       mlagen_output_hash(source)) == 0 &&
                json_equal(json_object_get(build, "options"), options) &&
                (!compiler ||
                 strcmp(mlagen_json_text(build, "compiler"), compiler) == 0) &&
                findings_allowed(plan, build);

    json_decref(options);
    return fits;
}

/* Takes over the cubin of one plan.  *taken stays false when there is none
 * that fits. */
static enum mlagen_status take_over(struct mlagen *g,
                                    const struct mlagen_folder *f,
                                    const json_t *plan, const char *compiler,
                                    bool *taken, struct mlagen_diags *d)
{
    const char *symbol = mlagen_json_text(plan, "symbol");
    const char *source = mlagen_json_text(plan, "source");
    const json_t *build = find_build(f->manifest, symbol);
    struct mlagen_buf data = {0};
    char hex[MLAGEN_HASH_HEX];
    enum mlagen_status status;
    const char *path;
    bool found;

    *taken = false;
    if (!build ||
        !build_fits(plan, build, mlagen_outputs_find(&g->texts, source),
                    compiler))
        return MLAGEN_OK;
    path = mlagen_json_text(build, "cubin");
    status = mlagen_folder_read(f, path, &data, &found, d);
    if (status == MLAGEN_OK && found) {
        mlagen_sha256(mlagen_buf_text(&data), data.len, hex);
        *taken = strcmp(hex, mlagen_json_text(build, "cubin_sha256")) == 0;
    }
    if (*taken)
        status = mlagen_outputs_add(&g->cubins, path, mlagen_buf_text(&data),
                                    data.len, d);
    if (*taken && status == MLAGEN_OK &&
        json_object_set(g->builds, symbol, (json_t *)build))
        status = mlagen_no_memory(d);
    mlagen_buf_free(&data);
    return status;
}

/* --- compiling ------------------------------------------------------------
 */

/* Every remark of ptxas that the plan does not list is an error.  A warning of
 * the front end is shown and no more: another version may have new ones. */
static void judge_findings(struct job *job)
{
    const char *symbol = mlagen_json_text(job->plan, "symbol");
    struct mlagen_where where = {job->shown, 0, 0};

    for (size_t i = 0; i < job->made.report.finding_count; i++) {
        const struct mlagen_finding *f = &job->made.report.findings[i];

        if (allowed(job->plan, f->code))
            continue;
        if (strcmp(f->code, "compiler") == 0) {
            mlagen_diag(&job->diags, MLAGEN_WARNING, where, "%s", f->text);
            continue;
        }
        mlagen_diag(&job->diags, MLAGEN_ERROR, where,
                    "%s: [%s] %s (not allowed by the plan)", symbol, f->code,
                    f->text);
        job->status = MLAGEN_CUDA;
    }
}

/* Compiles one kernel; everything it has to say stays in the job. */
static void run_job(const struct mlagen_nvrtc *nvrtc, struct job *job)
{
    job->status =
        mlagen_nvrtc_compile(nvrtc, job->source->data, job->source->path,
                             job->shown, job->arch, &job->made, &job->diags);
    if (job->status == MLAGEN_OK)
        judge_findings(job);
}

/* For the workers. */
static void run_queued(void *user, size_t index)
{
    struct queue *q = user;

    run_job(q->nvrtc, &q->jobs[index]);
}

/* Called from the thread that waits for the workers. */
static void tell_progress(void *user, size_t done, size_t latest)
{
    const struct queue *q = user;
    const struct mlagen_options *o = q->options;

    if (o->progress)
        o->progress(o->progress_user, done, q->count,
                    mlagen_json_text(q->jobs[latest].plan, "symbol"));
}

/* --- recording ------------------------------------------------------------
 */

/* The codes of all remarks, allowed or not; NULL without memory. */
static json_t *finding_codes(const struct mlagen_ptxas *report)
{
    json_t *codes = json_array();

    for (size_t i = 0; i < report->finding_count; i++)
        mlagen_json_append(&codes, json_string(report->findings[i].code));
    return codes;
}

/* What the manifest keeps of one compilation. */
static json_t *describe_build(const struct job *job, const char *compiler,
                              struct mlagen_output *cubin)
{
    const struct mlagen_ptxas *r = &job->made.report;

    return json_pack(
        "{s:s,s:s,s:I,s:s,s:o,s:o,s:s,s:I,s:I,s:I,s:I,s:I,s:I}", "cubin",
        cubin->path, "cubin_sha256", mlagen_output_hash(cubin), "cubin_bytes",
        (json_int_t)cubin->size, "compiler", compiler, "options",
        options_of(job->plan), "findings", finding_codes(r), "source_sha256",
        mlagen_output_hash(job->source), "registers", (json_int_t)r->registers,
        "barriers", (json_int_t)r->barriers, "stack", (json_int_t)r->stack,
        "spill_stores", (json_int_t)r->spill_stores, "spill_loads",
        (json_int_t)r->spill_loads, "smem_static", (json_int_t)r->smem_static);
}

/* A kernel that compiled: its cubin and its record join the generation. */
static enum mlagen_status keep_job(struct mlagen *g, const struct job *job,
                                   const char *compiler,
                                   struct mlagen_diags *d)
{
    char *path = mlagen_cubin_path(job->plan);
    enum mlagen_status status = MLAGEN_INTERNAL;

    if (!path)
        return mlagen_no_memory(d);
    status = mlagen_outputs_add(&g->cubins, path, job->made.cubin,
                                job->made.size, d);
    if (status == MLAGEN_OK &&
        json_object_set_new(
            g->builds, mlagen_json_text(job->plan, "symbol"),
            describe_build(job, compiler,
                           mlagen_outputs_find(&g->cubins, path))))
        status = mlagen_no_memory(d);
    mlagen_free(path);
    return status;
}

/* Moves what one kernel had to say to the caller's list. */
static void forward_diags(const struct job *job, struct mlagen_diags *d)
{
    for (size_t i = 0; i < job->diags.count; i++)
        mlagen_diag(d, job->diags.items[i].severity, job->diags.items[i].where,
                    "%s", job->diags.items[i].message);
    d->lost |= job->diags.lost;
}

/* What the kernels with this outcome had to say, in their order. */
static void forward_all(const struct queue *q, bool failed,
                        struct mlagen_diags *d)
{
    for (size_t i = 0; i < q->count; i++)
        if ((q->jobs[i].status != MLAGEN_OK) == failed)
            forward_diags(&q->jobs[i], d);
}

/* Failures are told first, so that the first line names what went wrong. */
static enum mlagen_status collect(struct mlagen *g, const struct queue *q,
                                  struct mlagen_report *report,
                                  struct mlagen_diags *d)
{
    const char *compiler = mlagen_nvrtc_compiler(q->nvrtc);
    enum mlagen_status status = MLAGEN_OK;

    forward_all(q, true, d);
    forward_all(q, false, d);
    for (size_t i = 0; i < q->count; i++) {
        const struct job *job = &q->jobs[i];
        enum mlagen_status one = job->status;

        if (one == MLAGEN_OK)
            one = keep_job(g, job, compiler, d);
        report->compiled += one == MLAGEN_OK;
        report->failed += one != MLAGEN_OK;
        if (status == MLAGEN_OK)
            status = one;
    }
    return status;
}

/* Queues one plan. */
static enum mlagen_status fill_job(const struct mlagen *g,
                                   const struct mlagen_folder *f,
                                   const json_t *plan, struct job *job,
                                   struct mlagen_diags *d)
{
    const char *source = mlagen_json_text(plan, "source");

    job->plan = plan;
    job->source = mlagen_outputs_find(&g->texts, source);
    mlagen_arch_parse(mlagen_json_text(plan, "arch"), &job->arch);
    return mlagen_join(f->path, source, job->shown, d);
}

/* Runs the queue and collects what came of it. */
static enum mlagen_status compile_jobs(struct mlagen *g, struct queue *q,
                                       struct mlagen_report *report,
                                       struct mlagen_diags *d)
{
    enum mlagen_status status;

    mlagen_workers_run(q->count, q->options->jobs, run_queued, tell_progress,
                       q);
    status = collect(g, q, report, d);
    for (size_t i = 0; i < q->count; i++) {
        mlagen_compiled_free(&q->jobs[i].made);
        mlagen_diags_free(&q->jobs[i].diags);
    }
    return status;
}

/* --- the stage ------------------------------------------------------------
 */

/* Takes over what fits and queues the rest. */
static enum mlagen_status
sort_plans(struct mlagen *g, const struct mlagen_folder *f,
           const struct mlagen_nvrtc *nvrtc, struct queue *q,
           struct mlagen_report *report, struct mlagen_diags *d)
{
    const char *compiler = nvrtc ? mlagen_nvrtc_compiler(nvrtc) : NULL;
    enum mlagen_status status = MLAGEN_OK;
    size_t i;
    json_t *plan;

    json_array_foreach(g->plans, i, plan)
    {
        bool taken = false;

        if (status == MLAGEN_OK)
            status = take_over(g, f, plan, compiler, &taken, d);
        if (status != MLAGEN_OK)
            break;
        report->reused += taken;
        if (!taken)
            status = fill_job(g, f, plan, &q->jobs[q->count++], d);
    }
    return status;
}

/* With MLAGEN_WRITE_NOTHING the kernels that would be compiled are changes. */
static enum mlagen_status list_jobs(const struct mlagen_folder *f,
                                    const struct queue *q,
                                    struct mlagen_report *report,
                                    struct mlagen_diags *d)
{
    enum mlagen_status status = MLAGEN_OK;

    for (size_t i = 0; i < q->count && status == MLAGEN_OK; i++) {
        char *path = mlagen_cubin_path(q->jobs[i].plan);

        status = path ? mlagen_change_add(
                            &report->changes,
                            json_object_get(f->known, path) ? "change" : "add",
                            path, d)
                      : mlagen_no_memory(d);
        mlagen_free(path);
    }
    return status;
}

/* Without MLAGEN_WRITE_CUBINS cubins that fit are still taken over, by
 * whichever compiler: `gen` after `build` must not remove them.  NVRTC is
 * opened only to compile, and then even if all fit, as its version is part
 * of fitting. */
enum mlagen_status mlagen_cubins(struct mlagen *g,
                                 const struct mlagen_folder *f, unsigned flags,
                                 struct mlagen_report *report,
                                 struct mlagen_diags *d)
{
    size_t plans = json_array_size(g->plans);
    struct queue q = {.options = &g->options,
                      .jobs = mlagen_calloc(plans, sizeof *q.jobs)};
    struct mlagen_nvrtc *nvrtc = NULL;
    bool compile = flags & MLAGEN_WRITE_CUBINS;
    enum mlagen_status status = MLAGEN_OK;

    mlagen_outputs_free(&g->cubins);
    json_decref(g->builds);
    g->builds = json_object();
    report->kernels = plans;
    if (!q.jobs || !g->builds)
        status = mlagen_no_memory(d);
    if (status == MLAGEN_OK && compile)
        status = mlagen_nvrtc_open(g->options.nvrtc, &nvrtc, d);
    if (status == MLAGEN_OK)
        status = sort_plans(g, f, nvrtc, &q, report, d);
    q.nvrtc = nvrtc;
    if (status == MLAGEN_OK && compile && q.count > 0)
        status = flags & MLAGEN_WRITE_NOTHING ? list_jobs(f, &q, report, d)
                                              : compile_jobs(g, &q, report, d);
    mlagen_nvrtc_close(nvrtc);
    mlagen_free(q.jobs);
    return status;
}
