/* SPDX-License-Identifier: Apache-2.0
 *
 * bundle_data.c: files as C arrays, and PTX for them.
 *
 * An array is of 64-bit words: a fifth of the compiler's work of one of bytes,
 * and aligned as the driver wants machine code to be.  The words are those of
 * a little-endian machine, which every machine with such a GPU is; the text
 * says so where it would be wrong.
 */
#include <stdint.h>
#include <string.h>

#include "alloc.h"
#include "bundle.h"
#include "folder_io.h"
#include "manifest.h"
#include "nvrtc.h"
#include "workers.h"

enum { WORDS_PER_LINE = 4 };

/* --- the list ------------------------------------------------------------ */

/* *data is empty after success and the caller's, unchanged, after a failure. */
enum mlagen_status mlagen_bundle_add(struct mlagen_bundle_files *files,
                                     const char *path, struct mlagen_buf *data,
                                     struct mlagen_diags *d)
{
    struct mlagen_bundle_file *grown =
        mlagen_grow(files->items, files->count, &files->cap, sizeof *grown);
    char *copy = mlagen_strndup(path, strlen(path));

    if (grown)
        files->items = grown;
    if (!grown || !copy) {
        mlagen_free(copy);
        return mlagen_no_memory(d);
    }
    files->items[files->count++] = (struct mlagen_bundle_file){copy, *data};
    *data = (struct mlagen_buf){0};
    return MLAGEN_OK;
}

void mlagen_bundle_files_free(struct mlagen_bundle_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        mlagen_free(files->items[i].path);
        mlagen_buf_free(&files->items[i].data);
    }
    mlagen_free(files->items);
    *files = (struct mlagen_bundle_files){0};
}

/* --- arrays -------------------------------------------------------------- */

/* Eight bytes at `at`, zeros beyond the end. */
static uint64_t word_at(const struct mlagen_buf *data, size_t at)
{
    uint64_t word = 0;

    for (size_t i = 0; i < 8 && at + i < data->len; i++)
        word |= (uint64_t)(unsigned char)data->data[at + i] << (8 * i);
    return word;
}

/* At least one zero byte follows the data, so that texts end. */
static void add_array(const struct mlagen_bundle_file *file, size_t index,
                      const char *ident, struct mlagen_buf *out)
{
    size_t words = file->data.len / 8 + 1;

    mlagen_buf_printf(out,
                      "\n/* %s */\nstatic const uint64_t %s_file_%zu[] "
                      "= {",
                      file->path, ident, index);
    for (size_t i = 0; i < words; i++)
        mlagen_buf_printf(out, "%s0x%llx,", i % WORDS_PER_LINE ? " " : "\n    ",
                          (unsigned long long)word_at(&file->data, 8 * i));
    mlagen_buf_str(out, "\n};\n");
}

/* Each array is static, the table of them is not: the header's declaration is
 * what the program sees. */
void mlagen_bundle_arrays(const struct mlagen_bundle_files *files,
                          const char *ident, struct mlagen_buf *out)
{
    mlagen_buf_str(out, "\n/* Files, as words of a little-endian machine. "
                        "*/\n#if defined(__BYTE_ORDER__) && "
                        "__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__\n"
                        "#error \"these arrays are little-endian\"\n#endif\n");
    for (size_t i = 0; i < files->count; i++)
        add_array(&files->items[i], i, ident, out);
    mlagen_buf_printf(out, "\nconst mla_file %s_files[] = {\n", ident);
    for (size_t i = 0; i < files->count; i++)
        mlagen_buf_printf(out, "    {\"%s\", %s_file_%zu, %zu},\n",
                          files->items[i].path, ident, i,
                          files->items[i].data.len);
    mlagen_buf_printf(out, "};\n\nconst int %s_file_count = %zu;\n", ident,
                      files->count);
}

/* --- PTX ----------------------------------------------------------------- */

/* One kernel: its source, and its PTX or what was wrong. */
struct job {
    const json_t *kernel;
    struct mlagen_buf source, ptx;
    struct mlagen_diags diags;
    char shown[PATH_MAX];
    enum mlagen_status status;
};

/* What the threads share; each works on the job of its index. */
struct queue {
    const struct mlagen *g;
    const struct mlagen_nvrtc *nvrtc;
    struct job *jobs;
    size_t count;
};

/* For the workers.  Each job has diagnostics of its own, told in
 * order afterwards. */
static void compile_one(void *user, size_t index)
{
    struct queue *q = user;
    struct job *job = &q->jobs[index];
    struct mlagen_arch arch;
    char *ptx = NULL;
    size_t size;

    if (job->status != MLAGEN_OK)
        return;
    mlagen_arch_parse(mlagen_json_text(job->kernel, "arch"), &arch);
    job->status = mlagen_nvrtc_ptx(q->nvrtc, mlagen_buf_text(&job->source),
                                   mlagen_json_text(job->kernel, "source"),
                                   job->shown, arch, &ptx, &size, &job->diags);
    if (job->status == MLAGEN_OK)
        mlagen_buf_add(&job->ptx, ptx, strlen(ptx));
    mlagen_free(ptx);
}

/* Called from the thread that waits for the workers. */
static void tell_progress(void *user, size_t done, size_t latest)
{
    const struct queue *q = user;
    const struct mlagen_options *o = &q->g->options;

    if (o->progress)
        o->progress(o->progress_user, done, q->count,
                    mlagen_json_text(q->jobs[latest].kernel, "symbol"));
}

/* Sources are read before anything is compiled: a file that is not what the
 * manifest lists shows at once. */
static enum mlagen_status fill_queue(struct queue *q,
                                     const struct mlagen_folder *f,
                                     struct mlagen_diags *d)
{
    const json_t *kernels = json_object_get(f->manifest, "kernels");
    enum mlagen_status status = MLAGEN_OK;

    for (size_t i = 0; i < q->count && status == MLAGEN_OK; i++) {
        struct job *job = &q->jobs[i];
        const char *path;

        job->kernel = json_array_get(kernels, i);
        path = mlagen_json_text(job->kernel, "source");
        status = mlagen_join(f->path, path, job->shown, d);
        if (status == MLAGEN_OK)
            status = mlagen_listed_file(f, path,
                                        mlagen_listed_hash(f->manifest, path),
                                        &job->source, d);
    }
    return status;
}

/* The result of one kernel, in the manifest's order; frees the job. */
static enum mlagen_status take_job(struct job *job,
                                   struct mlagen_bundle_files *files,
                                   struct mlagen_diags *d)
{
    struct mlagen_buf path = {0};
    enum mlagen_status status = job->status;

    for (size_t i = 0; i < job->diags.count; i++)
        mlagen_diag(d, job->diags.items[i].severity, job->diags.items[i].where,
                    "%s", job->diags.items[i].message);
    mlagen_buf_printf(&path, "ptx/%s.ptx",
                      mlagen_json_text(job->kernel, "symbol"));
    if (status == MLAGEN_OK)
        status = mlagen_bundle_add(files, mlagen_buf_text(&path), &job->ptx, d);
    mlagen_buf_free(&path);
    return status;
}

static void free_job(struct job *job)
{
    mlagen_buf_free(&job->source);
    mlagen_buf_free(&job->ptx);
    mlagen_diags_free(&job->diags);
}

/* Kernels that compile are taken although others do not, so that all messages
 * are told; the status is that of the first failure. */
enum mlagen_status mlagen_bundle_ptx(const struct mlagen *g,
                                     const struct mlagen_folder *f,
                                     struct mlagen_bundle_files *files,
                                     struct mlagen_diags *d)
{
    struct mlagen_nvrtc *nvrtc;
    struct queue q = {.g = g};
    enum mlagen_status status = mlagen_nvrtc_open(g->options.nvrtc, &nvrtc, d);

    if (status != MLAGEN_OK)
        return status;
    q.nvrtc = nvrtc;
    q.count = json_array_size(json_object_get(f->manifest, "kernels"));
    q.jobs = mlagen_calloc(q.count, sizeof *q.jobs);
    status = q.jobs ? fill_queue(&q, f, d) : mlagen_no_memory(d);
    if (status == MLAGEN_OK)
        mlagen_workers_run(q.count, g->options.jobs, compile_one,
                           tell_progress, &q);
    for (size_t i = 0; q.jobs && i < q.count; i++) {
        enum mlagen_status one = status == MLAGEN_OK || status == MLAGEN_CUDA
                                     ? take_job(&q.jobs[i], files, d)
                                     : status;

        status = status ? status : one;
        free_job(&q.jobs[i]);
    }
    mlagen_free(q.jobs);
    mlagen_nvrtc_close(nvrtc);
    return status;
}
