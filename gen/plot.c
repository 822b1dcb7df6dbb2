/* SPDX-License-Identifier: Apache-2.0
 *
 * plot.c: a drawing of the plans.
 *
 * What is drawn, and how, is Lua (templates/spec/roofline.lua): it returns a
 * gnuplot script with its data inside.  Here the script is given to gnuplot, a
 * child process whose three streams are temporary files, so that neither side
 * ever waits for the other; its output is written like any other file, whole
 * or not at all.
 */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc.h"
#include "context.h"
#include "manifest.h"

extern char **environ;

enum { COUNTERS_BYTES = 64 << 20 };

static const struct mlagen_where nowhere = {NULL, 0, 0};

/* --- formats --------------------------------------------------------------
 */

/* By the end of the name.  A script is written as it is. */
static const struct format {
    const char *extension, *name;
    const char *magic; /* what gnuplot's output begins with; NULL: no output */
} formats[] = {{".svg", "svg", "<?xml"},
               {".png", "png", "\x89PNG"},
               {".gp", "svg", NULL}};

/* NULL for any other name, and for a bare extension. */
static const struct format *format_of(const char *path)
{
    size_t n = strlen(path);

    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        size_t m = strlen(formats[i].extension);

        if (n > m && strcmp(path + n - m, formats[i].extension) == 0)
            return &formats[i];
    }
    return NULL;
}

/* --- gnuplot --------------------------------------------------------------
 */

/* Standard input, output and error of the child. */
enum { STREAMS = 3 };

/* Temporary files go away with it. */
static void close_streams(FILE *stream[STREAMS])
{
    for (int i = 0; i < STREAMS; i++)
        if (stream[i])
            fclose(stream[i]);
}

/* The script to be read; output and errors empty. */
static bool open_streams(const char *script, FILE *stream[STREAMS])
{
    bool good = true;

    for (int i = 0; i < STREAMS; i++) {
        stream[i] = tmpfile();
        good = good && stream[i];
    }
    good = good && fputs(script, stream[0]) >= 0 && fflush(stream[0]) == 0;
    if (good)
        rewind(stream[0]);
    return good;
}

/* Runs gnuplot on the streams; its exit status, or -1 with errno. */
static int run_gnuplot(FILE *stream[STREAMS])
{
    char name[] = "gnuplot";
    char *argv[] = {name, NULL};
    posix_spawn_file_actions_t actions;
    int status = -1, error;
    pid_t pid;

    posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < STREAMS; i++)
        posix_spawn_file_actions_adddup2(&actions, fileno(stream[i]), i);
    error = posix_spawnp(&pid, name, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error) {
        errno = error;
        return -1;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* All that a child has written. */
static void take(FILE *stream, struct mlagen_buf *out)
{
    char part[4096];
    size_t n;

    rewind(stream);
    while ((n = fread(part, 1, sizeof part, stream)) > 0)
        mlagen_buf_add(out, part, n);
}

/* The first line of what gnuplot complained about. */
static enum mlagen_status refused(FILE *errors, struct mlagen_diags *d)
{
    struct mlagen_buf text = {0};
    const char *line;

    take(errors, &text);
    line = mlagen_buf_text(&text);
    line += strspn(line, "\n");
    mlagen_diag(d, MLAGEN_ERROR, nowhere, "gnuplot has failed: %.*s",
                (int)strcspn(line, "\n"), line);
    mlagen_buf_free(&text);
    return MLAGEN_IO;
}

/* The picture in `out`.  What gnuplot prints is looked at, since an unknown
 * terminal makes it complain and succeed. */
static enum mlagen_status draw(const char *script, const struct format *f,
                               struct mlagen_buf *out, struct mlagen_diags *d)
{
    FILE *stream[STREAMS] = {NULL};
    enum mlagen_status status = MLAGEN_OK;
    int code = open_streams(script, stream) ? run_gnuplot(stream) : -1;

    if (code < 0) {
        mlagen_diag(d, MLAGEN_ERROR, nowhere,
                    "cannot run gnuplot: %s; install it, or write the script "
                    "(--plot FILE.gp) and draw it elsewhere",
                    strerror(errno));
        status = MLAGEN_IO;
    } else {
        take(stream[1], out);
        if (code > 0 || strncmp(mlagen_buf_text(out), f->magic,
                                strlen(f->magic)) != 0)
            status = refused(stream[2], d);
    }
    close_streams(stream);
    return status;
}

/* --- what Lua is told -----------------------------------------------------
 */

/* Only the list is checked here; what is in it, where it is used. */
static enum mlagen_status read_counters(const char *path, json_t **out,
                                        struct mlagen_diags *d)
{
    struct mlagen_buf text = {0};
    json_error_t error;
    enum mlagen_status status =
        mlagen_read_file(path, COUNTERS_BYTES, &text, d);

    if (status == MLAGEN_OK) {
        *out = json_loadb(mlagen_buf_text(&text), text.len, 0, &error);
        if (!json_is_array(json_object_get(*out, "launches"))) {
            mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){path, 0, 0},
                        "not the counters of a benchmark%s%s",
                        *out ? "" : ": ", *out ? "" : error.text);
            status = MLAGEN_SPEC;
        }
    }
    mlagen_buf_free(&text);
    return status;
}

/* 0 means the default, which is Lua's. */
static json_t *make_request(const struct mlagen_plot *p,
                            const struct format *f, json_t *counters)
{
    json_t *request =
        json_pack("{s:s,s:I,s:I,s:I}", "format", f->name, "batch",
                  (json_int_t)p->batch, "seq_len", (json_int_t)p->seq_len,
                  "q_len", (json_int_t)p->q_len);

    if (request && counters &&
        json_object_set(request, "counters", counters)) {
        json_decref(request);
        return NULL;
    }
    return request;
}

/* {script=, data=}; the plans are made if they are not. */
static enum mlagen_status ask(struct mlagen *g, const struct mlagen_plot *p,
                              const struct format *f, json_t **answer,
                              struct mlagen_diags *d)
{
    json_t *counters = NULL, *request = NULL;
    enum mlagen_status status = MLAGEN_OK;

    if (p->counters)
        status = read_counters(p->counters, &counters, d);
    if (status == MLAGEN_OK) {
        request = make_request(p, f, counters);
        status = request ? mlagen_plan(g, d) : mlagen_no_memory(d);
    }
    if (status == MLAGEN_OK) {
        json_t *args[] = {g->spec, g->archs, g->plans, request};

        status = mlagen_host_call(g->host, "roofline", args, 4, answer, d);
    }
    json_decref(request);
    json_decref(counters);
    return status;
}

enum mlagen_status mlagen_draw(struct mlagen *g, const struct mlagen_plot *p,
                               struct mlagen_buf *json, struct mlagen_diags *d)
{
    const struct format *f = format_of(p->path);
    struct mlagen_buf image = {0};
    json_t *answer = NULL;
    enum mlagen_status status;

    if (!f) {
        mlagen_diag(d, MLAGEN_ERROR, nowhere,
                    "'%s' ends in none of .svg, .png and .gp", p->path);
        return MLAGEN_USAGE;
    }
    status = ask(g, p, f, &answer, d);
    if (status == MLAGEN_OK && f->magic)
        status = draw(mlagen_json_text(answer, "script"), f, &image, d);
    else if (status == MLAGEN_OK)
        mlagen_buf_str(&image, mlagen_json_text(answer, "script"));
    if (status == MLAGEN_OK && image.failed)
        status = mlagen_no_memory(d);
    if (status == MLAGEN_OK)
        status = mlagen_write_file(p->path, mlagen_buf_text(&image),
                                   image.len, d);
    if (status == MLAGEN_OK && json)
        status = mlagen_json_print(json_object_get(answer, "data"), json, d);
    mlagen_buf_free(&image);
    json_decref(answer);
    return status;
}
