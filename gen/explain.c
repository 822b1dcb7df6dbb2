/* SPDX-License-Identifier: Apache-2.0
 *
 * explain.c: from a line of a generated file to the template that made it.
 *
 * A generated folder carries no map: its manifest holds the spec, and from
 * that the file is made once more, this time noting where each line comes
 * from.  The hash of the new text decides whether the answer is worth
 * anything.
 */
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "bundle.h"
#include "folder_io.h"
#include "manifest.h"

/* What was asked, and what came out. */
struct question {
    struct mlagen_buf folder; /* that holds the manifest */
    const char *file;         /* as asked for */
    char real[PATH_MAX];      /* and where it is */
    const char *path;         /* of the file, in the folder */
    unsigned line;
    struct mlagen_buf text; /* of the file */
    struct mlagen_linemap map;
    struct mlagen_where from; /* template and line; the map's text */
    struct mlagen_template *template;
};

/* The place of what is about the question and not about a file. */
static const struct mlagen_where nowhere = {NULL, 0, 0};

/* --- the place ----------------------------------------------------------- */

/* "dir/src/x.cu:12" -> "dir/src/x.cu", 12. */
static enum mlagen_status split_place(const char *place,
                                      struct mlagen_buf *file, unsigned *line,
                                      struct mlagen_diags *d)
{
    const char *colon = strrchr(place, ':');
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;

    *line = colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
    if (!colon || colon == place || digits == 0 || digits > 9 ||
        colon[1 + digits] != '\0' || *line == 0) {
        mlagen_diag(d, MLAGEN_ERROR, nowhere,
                    "'%s' is no FILE:LINE; write out/x/src/y.cu:12", place);
        return MLAGEN_USAGE;
    }
    mlagen_buf_add(file, place, (size_t)(colon - place));
    return file->failed ? mlagen_no_memory(d) : MLAGEN_OK;
}

/* Whether there is a manifest in the folder of the first `len` bytes; leaves
 * that folder's path in `folder`.  No bytes mean the current one. */
static bool has_manifest(const char *file, size_t len,
                         struct mlagen_buf *folder)
{
    struct mlagen_folder f;
    struct mlagen_diags silent = {0};
    bool found = false;

    mlagen_buf_clear(folder);
    mlagen_buf_add(folder, len ? file : ".", len ? len : 1);
    if (mlagen_folder_open(mlagen_buf_text(folder), false, &f, &silent) ==
        MLAGEN_OK) {
        found = f.manifest != NULL;
        mlagen_folder_close(&f);
    }
    mlagen_diags_free(&silent);
    return found;
}

/* The folder is the file's own, or the one above that: sources lie in src/,
 * headers at the top.  q->path becomes the path within it. */
static enum mlagen_status find_folder(struct question *q,
                                      struct mlagen_diags *d)
{
    const char *file = realpath(q->file, q->real) ? q->real : q->file;
    const char *end = file + strlen(file);

    for (int up = 0; up < 2; up++) {
        while (end > file && end[-1] != '/')
            end--;
        q->path = end;
        if (has_manifest(file, (size_t)(end - file), &q->folder))
            return MLAGEN_OK;
        end -= end > file;
    }
    mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){file, 0, 0},
                "no manifest.json beside it or above: not in a folder that "
                "mlagen wrote");
    return MLAGEN_IO;
}

/* --- making the file again ----------------------------------------------- */

/* The manifest stands for the spec that was loaded then.  Overrides are in its
 * spec already, and are taken for the provenance at the head of the file. */
static void take_spec(struct mlagen *g, json_t *manifest)
{
    mlagen_reset(g);
    g->spec = json_incref(json_object_get(manifest, "spec"));
    json_decref(g->overrides);
    g->overrides = json_incref(json_object_get(manifest, "overrides"));
    g->options.symbol_prefix = mlagen_json_text(manifest, "symbol_prefix");
    g->command = mlagen_strndup(mlagen_json_text(manifest, "command"),
                                strlen(mlagen_json_text(manifest, "command")));
    snprintf(g->spec_sha256, sizeof g->spec_sha256, "%s",
             mlagen_json_text(manifest, "spec_sha256"));
}

/* The text has to be the same, for the lines to be: another generator with the
 * same templates could print otherwise. */
static enum mlagen_status check_same(const struct question *q,
                                     const json_t *manifest,
                                     struct mlagen_diags *d)
{
    char hex[MLAGEN_HASH_HEX];

    mlagen_sha256(mlagen_buf_text(&q->text), q->text.len, hex);
    if (strcmp(hex, mlagen_listed_hash(manifest, q->path)) == 0)
        return MLAGEN_OK;
    mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){q->file, 0, 0},
                "this generator makes another file from the same spec: the "
                "folder is by %s",
                mlagen_json_text(manifest, "generator"));
    return MLAGEN_DIFFERENT;
}

/* Asked before the file is made again: other templates may fail in any way. */
static enum mlagen_status check_templates(const struct mlagen *g,
                                          const json_t *manifest,
                                          struct mlagen_diags *d)
{
    const char *theirs = mlagen_json_text(manifest, "templates_sha256");

    if (strcmp(theirs, g->templates_sha256) == 0)
        return MLAGEN_OK;
    mlagen_diag(d, MLAGEN_ERROR, nowhere,
                "the folder was made by templates %.12s, these are %.12s; name "
                "theirs with -I",
                theirs, g->templates_sha256);
    return MLAGEN_DIFFERENT;
}

/* Only what a template made has an origin. */
static enum mlagen_status check_listed(const struct question *q,
                                       const struct mlagen_folder *f,
                                       struct mlagen_diags *d)
{
    struct mlagen_buf text = {0};
    const char *hash = mlagen_listed_hash(f->manifest, q->path);
    enum mlagen_status status;

    if (!hash) {
        mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){q->file, 0, 0},
                    "not made by a template: the manifest does not list it");
        return MLAGEN_IO;
    }
    status = mlagen_listed_file(f, q->path, hash, &text, d);
    mlagen_buf_free(&text);
    return status;
}

/* The file as listed, the templates as then, the text as before; each failing
 * step says what is different. */
static enum mlagen_status make_again(struct question *q, struct mlagen *g,
                                     const struct mlagen_folder *f,
                                     struct mlagen_diags *d)
{
    enum mlagen_status status = check_listed(q, f, d);

    if (status == MLAGEN_OK)
        status = check_templates(g, f->manifest, d);
    if (status != MLAGEN_OK)
        return status;
    take_spec(g, f->manifest);
    status = g->command ? mlagen_render_one(g, q->path, &q->text, &q->map, d)
                        : mlagen_no_memory(d);
    return status ? status : check_same(q, f->manifest, d);
}

/* The template as it was compiled: its lines tell their expressions. */
static enum mlagen_status find_line(struct question *q, const struct mlagen *g,
                                    struct mlagen_diags *d)
{
    const struct mlagen_text *text;

    q->from = mlagen_linemap_find(&q->map, q->line);
    if (!q->from.file) {
        mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){q->file, 0, 0},
                    "there is no line %u; it has %zu", q->line, q->map.count);
        return MLAGEN_USAGE;
    }
    text = mlagen_tree_find(g->tree, q->from.file);
    if (!text)
        return MLAGEN_INTERNAL;
    return mlagen_template_compile(text->data, text->size, text->path,
                                   &q->template, d);
}

/* --- telling ------------------------------------------------------------- */

/* Line `number` of a text, without its end. */
static struct mlagen_piece line_of(const char *text, size_t len,
                                   unsigned number)
{
    const char *end = text + len, *p = text;

    for (; number > 1 && p < end; number--) {
        const char *next = memchr(p, '\n', (size_t)(end - p));

        p = next ? next + 1 : end;
    }
    len = (size_t)(end - p);
    if (len > 0 && memchr(p, '\n', len))
        len = (size_t)((const char *)memchr(p, '\n', len) - p);
    return (struct mlagen_piece){p, len};
}

/* The template's line and the places of both, ready to be told. */
struct answer {
    const struct mlagen_text *source;
    const struct mlagen_line *line;
    struct mlagen_piece emitted, written;
};

static struct answer make_answer(const struct question *q,
                                 const struct mlagen *g)
{
    struct answer a = {.source = mlagen_tree_find(g->tree, q->from.file),
                       .line = &q->template->lines[q->from.line - 1]};

    a.emitted = line_of(mlagen_buf_text(&q->text), q->text.len, q->line);
    a.written = line_of(a.source->data, a.source->size, q->from.line);
    return a;
}

static void tell_text(const struct question *q, const struct answer *a,
                      const char *place, struct mlagen_buf *out)
{
    mlagen_buf_printf(out, "%s: from %s:%u\n", place, a->source->shown,
                      q->from.line);
    mlagen_buf_printf(out, "  emitted   %.*s\n", (int)a->emitted.len,
                      a->emitted.text);
    mlagen_buf_printf(out, "  template  %.*s\n", (int)a->written.len,
                      a->written.text);
    for (size_t i = 0; i < a->line->values; i++)
        mlagen_buf_printf(out, "  Lua       %.*s\n",
                          (int)a->line->pieces[2 * i + 1].len,
                          a->line->pieces[2 * i + 1].text);
}

/* Places as in text, and the expressions as a list. */
static enum mlagen_status tell_json(const struct question *q,
                                    const struct answer *a,
                                    struct mlagen_buf *out,
                                    struct mlagen_diags *d)
{
    json_t *expressions = json_array(), *all;
    enum mlagen_status status;

    for (size_t i = 0; i < a->line->values; i++)
        mlagen_json_append(&expressions,
                           json_stringn(a->line->pieces[2 * i + 1].text,
                                        a->line->pieces[2 * i + 1].len));
    all = json_pack("{s:s,s:i,s:s%,s:s,s:i,s:s%,s:o}", "file", q->path, "line",
                    (int)q->line, "emitted", a->emitted.text, a->emitted.len,
                    "template", a->source->shown, "template_line",
                    (int)q->from.line, "text", a->written.text, a->written.len,
                    "expressions", expressions);
    status = all ? mlagen_json_print(all, out, d) : mlagen_no_memory(d);
    json_decref(all);
    return status;
}

/* --- public -------------------------------------------------------------- */

/* The part that needs the folder open, and whose manifest lends its texts to
 * the context until the end. */
static enum mlagen_status answer(struct question *q, struct mlagen *g,
                                 const char *place, bool json,
                                 struct mlagen_buf *out, struct mlagen_diags *d)
{
    struct mlagen_folder f;
    struct answer a;
    enum mlagen_status status =
        mlagen_open_generated(mlagen_buf_text(&q->folder), &f, d);

    if (status != MLAGEN_OK)
        return status;
    status = make_again(q, g, &f, d);
    if (status == MLAGEN_OK)
        status = find_line(q, g, d);
    if (status == MLAGEN_OK) {
        a = make_answer(q, g);
        if (json)
            status = tell_json(q, &a, out, d);
        else
            tell_text(q, &a, place, out);
    }
    g->options.symbol_prefix = NULL; /* it was the manifest's */
    mlagen_folder_close(&f);
    return status;
}

enum mlagen_status mlagen_explain(struct mlagen *g, const char *place,
                                  bool json, struct mlagen_buf *out,
                                  struct mlagen_diags *d)
{
    struct mlagen_buf file = {0};
    struct question q = {0};
    enum mlagen_status status = split_place(place, &file, &q.line, d);

    q.file = mlagen_buf_text(&file);
    if (status == MLAGEN_OK)
        status = find_folder(&q, d);
    if (status == MLAGEN_OK)
        status = answer(&q, g, place, json, out, d);
    mlagen_template_free(q.template);
    mlagen_linemap_free(&q.map);
    mlagen_buf_free(&q.text);
    mlagen_buf_free(&q.folder);
    mlagen_buf_free(&file);
    mlagen_reset(g);
    return status;
}
