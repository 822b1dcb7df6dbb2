/* SPDX-License-Identifier: Apache-2.0
 *
 * mlagen.h: the generator as a library (libmlagen).
 *
 * The command `mlagen` is one user of it; a server that reads a spec at start
 * is another.  A context takes one spec through five stages, each of which can
 * be looked at before the next:
 *
 *     load     YAML -> checked, canonical spec
 *     plan     spec -> one plan per kernel, integers only
 *     render   plans -> text, in memory
 *     compile  text -> cubins (NVRTC), in memory
 *     write    the generation -> a folder, file by file, manifest last
 *
 * A stage runs the ones before it that have not run yet.
 *
 * Rules for every function here.  Nothing is printed and nothing exits.  The
 * status says how it went and is the command's exit code (status.h); what
 * there is to say is added to the diagnostics of the caller (diag.h), errors
 * and warnings alike.  Results come last and are empty on failure.  A context
 * is used by one thread at a time; different contexts are independent.
 */
#ifndef MLAGEN_H
#define MLAGEN_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"
#include "diag.h"
#include "folder.h"

/* --- context --------------------------------------------------------------
 */

struct mlagen;

/* Called after each compiled kernel, from the thread that called compile or
 * write.  `symbol` is the kernel just done. */
typedef void (*mlagen_progress_fn)(void *user, size_t done, size_t total,
                                   const char *symbol);

/* Zeroed with `size` set is a full set of defaults.  The texts are borrowed
 * and must outlive the context. */
struct mlagen_options {
    size_t size;                 /* sizeof(struct mlagen_options) */
    const char *templates;       /* folder used in place of the embedded set */
    const char *const *settings; /* "key.path=value", applied in order */
    size_t setting_count;
    const char *archs;         /* "sm_80,9.0a": replaces the spec's list */
    const char *symbol_prefix; /* put before every symbol; [A-Za-z0-9_]* */
    const char *nvrtc;         /* library; NULL: searched (nvrtc.h) */
    unsigned jobs;             /* threads that compile; 0: one per CPU */
    mlagen_progress_fn progress;
    void *progress_user;
};

/* @return MLAGEN_USAGE for options that are malformed, MLAGEN_IO or
 *         MLAGEN_TEMPLATE for templates that cannot be read. */
enum mlagen_status mlagen_open(const struct mlagen_options *options,
                               struct mlagen **out, struct mlagen_diags *d);
void mlagen_close(struct mlagen *g);

/* "0.1.0" */
const char *mlagen_version(void);

/* --- the stages -----------------------------------------------------------
 */

/* Loads a spec: a file, "-" for standard input, or the name of an embedded
 * spec ("deepseek-v3") when it is neither a file nor looks like one.
 * @return MLAGEN_SPEC with every fault at its line; MLAGEN_IO. */
enum mlagen_status mlagen_load(struct mlagen *g, const char *path,
                               struct mlagen_diags *d);

/* The same from memory; `name` is what messages and provenance call it. */
enum mlagen_status mlagen_load_text(struct mlagen *g, const char *text,
                                    size_t len, const char *name,
                                    struct mlagen_diags *d);

/* Makes the plans.  @return MLAGEN_TEMPLATE when a plan cannot be made. */
enum mlagen_status mlagen_plan(struct mlagen *g, struct mlagen_diags *d);

/* Renders every text file of the generation. */
enum mlagen_status mlagen_render(struct mlagen *g, struct mlagen_diags *d);

enum mlagen_write_flags {
    MLAGEN_WRITE_CUBINS = 1, /* compile what is not up to date */
    MLAGEN_WRITE_NOTHING = 2 /* only say what would change */
};

/* What a write did, or with MLAGEN_WRITE_NOTHING would do.  Free with
 * mlagen_report_free. */
struct mlagen_report {
    struct mlagen_changes changes; /* "add", "change", "remove" */
    size_t unchanged;              /* files */
    size_t kernels;
    size_t compiled, reused, failed; /* cubins, with MLAGEN_WRITE_CUBINS */
};

/* Brings `folder` to this generation (see folder.h for what may be touched).
 * Cubins that fit their source, options and compiler are kept.  When a kernel
 * does not compile, the others are written all the same and the manifest
 * records what is there.
 * @return MLAGEN_DIFFERENT with MLAGEN_WRITE_NOTHING when something would
 *         change; MLAGEN_IO; MLAGEN_CUDA when a kernel did not compile, spills
 *         or draws a warning that its plan does not allow. */
enum mlagen_status mlagen_write(struct mlagen *g, const char *folder,
                                unsigned flags, struct mlagen_report *report,
                                struct mlagen_diags *d);
void mlagen_report_free(struct mlagen_report *r);

/* One file of the generation, in memory.  What it returns other than
 * MLAGEN_OK ends the walk. */
typedef enum mlagen_status (*mlagen_file_fn)(void *user, const char *path,
                                             const char *data, size_t size);

/* Calls `each` for the texts of the generation, manifest last, without writing
 * anything: a program may compile them itself.  Path and data live until the
 * context loads another spec or is closed. */
enum mlagen_status mlagen_files(struct mlagen *g, mlagen_file_fn each,
                                void *user, struct mlagen_diags *d);

/* --- looking at it --------------------------------------------------------
 */

/* The model's name, valid after a load; the folder out/<name> is customary. */
const char *mlagen_model(const struct mlagen *g);

/* The plans and the model's analysis: text for people, or one JSON object
 * {"analysis": ..., "kernels": [...]}. */
enum mlagen_status mlagen_describe(struct mlagen *g, bool json,
                                   struct mlagen_buf *out,
                                   struct mlagen_diags *d);

/* What a drawing shows.  Zeroed but for the path is a full set of defaults. */
struct mlagen_plot {
    const char *path;     /* FILE.svg, FILE.png, or FILE.gp for the script */
    const char *counters; /* JSON of a benchmark, drawn in place of the plans'
                             own accounting; NULL: none */
    unsigned batch, seq_len, q_len; /* of the work; 0: the default */
};

/* Draws what bounds each kernel, for every architecture of the spec.  SVG and
 * PNG take gnuplot, which is looked for on PATH.  With `json`, which may be
 * NULL, the numbers that are drawn are appended to it.
 * @return MLAGEN_USAGE for another extension; MLAGEN_SPEC for a file that does
 *         not hold counters; MLAGEN_IO, also when gnuplot is missing or
 *         fails. */
enum mlagen_status mlagen_draw(struct mlagen *g, const struct mlagen_plot *p,
                               struct mlagen_buf *json,
                               struct mlagen_diags *d);

/* Relative paths of all files of the generation, one a line, manifest last. */
enum mlagen_status mlagen_list_outputs(struct mlagen *g, bool cubins,
                                       struct mlagen_buf *out,
                                       struct mlagen_diags *d);

/* A dependency file for make: `target` depends on the spec and, with templates
 * from a folder, on each of them. */
enum mlagen_status mlagen_depfile(struct mlagen *g, const char *target,
                                  struct mlagen_buf *out,
                                  struct mlagen_diags *d);

/* What this generator knows: embedded specs, kernel families, archs, dtypes.
 */
enum mlagen_status mlagen_inventory(struct mlagen *g, bool json,
                                    struct mlagen_buf *out,
                                    struct mlagen_diags *d);

/* The built-in models as a Markdown table, or one JSON object: geometry, bytes
 * in the cache, kernels.  `results`, unless NULL, is a file of one or more of
 * the objects that `run-check --json` prints; it adds the largest errors.
 * Loads every spec; the last one stays loaded.
 * @return MLAGEN_IO when `results` cannot be read, MLAGEN_SPEC when it does
 *         not hold such objects. */
enum mlagen_status mlagen_models(struct mlagen *g, const char *results,
                                 bool json, struct mlagen_buf *out,
                                 struct mlagen_diags *d);

/* --- beside the pipeline --------------------------------------------------
 */

/* Turns a Hugging Face config.json ("-": standard input) into the YAML text of
 * a spec.  What goes beyond dense MLA is a warning, or with `strict` an error.
 * @return MLAGEN_SPEC when the model is not MLA or the file not JSON. */
enum mlagen_status mlagen_import(struct mlagen *g, const char *path,
                                 bool strict, struct mlagen_buf *out,
                                 struct mlagen_diags *d);

/* Checks a folder against its manifest: "changed", "missing" and "extra"
 * files.  A generation by other templates, another generator or another
 * version of an embedded spec is a note.
 * @return MLAGEN_DIFFERENT when `changes` is not empty; MLAGEN_IO. */
enum mlagen_status mlagen_verify(struct mlagen *g, const char *folder,
                                 struct mlagen_changes *changes,
                                 struct mlagen_diags *d);

enum mlagen_bundle_flags {
    MLAGEN_BUNDLE_CUBINS = 1,
    MLAGEN_BUNDLE_PTX = 2, /* compiled now */
    MLAGEN_BUNDLE_SOURCES = 4
};

/* Puts a generated folder into name.cu and name.h (NULL: the model's name):
 * all kernels in one source; declarations, descriptors and, by the flags,
 * files as C arrays in one header.  docs/vendoring.md shows their use.
 * Appends a line of summary to `out`.
 * @return MLAGEN_DIFFERENT when a file is not what the manifest lists;
 *         MLAGEN_IO; MLAGEN_CUDA when PTX cannot be made. */
enum mlagen_status mlagen_bundle(struct mlagen *g, const char *folder,
                                 const char *name, unsigned flags,
                                 struct mlagen_buf *out,
                                 struct mlagen_diags *d);

/* Where a line of a generated file comes from: "FILE:LINE" to the template's
 * line and the expressions in it.  The file is rendered again from the spec in
 * the manifest beside it, and must come out the same.  JSON or text.
 * @return MLAGEN_USAGE for a place that is none, MLAGEN_DIFFERENT when the
 *         file was edited or made by other templates, MLAGEN_IO. */
enum mlagen_status mlagen_explain(struct mlagen *g, const char *place,
                                  bool json, struct mlagen_buf *out,
                                  struct mlagen_diags *d);

/* Versions of the parts, the compiler and the device that are found; always
 * MLAGEN_OK, since what is missing is a finding, not a failure. */
enum mlagen_status mlagen_env(const struct mlagen *g, bool json,
                              struct mlagen_buf *out, struct mlagen_diags *d);

#endif
