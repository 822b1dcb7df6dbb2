/* SPDX-License-Identifier: Apache-2.0
 *
 * template.c: see template.h.
 *
 * The compiler makes one pass.  Literals (with escapes undone) and expressions
 * are copied one after another into `literals`, which is never larger than the
 * template, so that pieces can point into it; the Lua text holds only control
 * lines and one __emit call per text line.  Keeping the literals out of Lua
 * means that no text has to be quoted and that an error can show the expression
 * as its author wrote it.
 *
 * An expression is copied into the Lua text verbatim, in parentheses, which cut
 * several results to one.  The scanner knows just enough Lua to find the
 * closing brace: strings, long strings, nested braces.  What else is wrong with
 * an expression Lua says itself, on the right line.
 *
 * The second half of the file puts an emitted line together again, with the
 * rules for values of several lines and for lines that vanish.
 */
#include <string.h>

#include "alloc.h"
#include "template.h"

/* The state of one compilation. */
struct compiler {
    struct mlagen_template *t;
    struct mlagen_diags *d;
    const char *line, *end; /* the line at hand, without its line end */
    size_t number;          /* 1-based */
    char *literal;          /* next free byte of t->literals */
    size_t piece_cap, line_cap;
    size_t plain; /* the first of the lines without ${} just above, or 0 */
};

/* Blanks of a template are spaces and tabs; isspace would ask the locale. */
static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* Reports a fault at `at`, a byte of the line at hand, and ends the
 * compilation: one fault of a template at a time. */
static enum mlagen_status fault(struct compiler *c, const char *at,
                                const char *message) {
    struct mlagen_where where = {c->t->path, (unsigned)c->number,
                                 (unsigned)(at - c->line) + 1};
    mlagen_diag(c->d, MLAGEN_ERROR, where, "%s", message);
    return MLAGEN_TEMPLATE;
}

/* ---- expressions --------------------------------------------------------- */

/* p at a quote: the byte after the closing one, or NULL. */
static const char *skip_quoted(const char *p, const char *end) {
    char quote = *p++;
    for (; p < end && *p != quote; p++)
        if (*p == '\\' && ++p == end)
            return NULL;
    return p < end ? p + 1 : NULL;
}

/* p at '[': the byte after a long string [[...]] or [=[...]=], p itself when no
 * long string begins here, NULL when it does not end on this line. */
static const char *skip_long(const char *p, const char *end) {
    const char *q = p + 1;
    while (q < end && *q == '=')
        q++;
    if (q == end || *q != '[')
        return p;
    size_t level = (size_t)(q - p) - 1;
    for (q++; q < end; q++) {
        const char *r = q + 1;
        if (*q != ']')
            continue;
        while (r < end && *r == '=')
            r++;
        if (r < end && *r == ']' && (size_t)(r - q) - 1 == level)
            return r + 1;
    }
    return NULL;
}

/* p after "${": the closing brace, or NULL.  *comment is set when the
 * expression holds "--", which would swallow the rest of the Lua line. */
static const char *expression_end(const char *p, const char *end,
                                  bool *comment) {
    int depth = 0;
    while (p && p < end) {
        if (*p == '\'' || *p == '"') {
            p = skip_quoted(p, end);
            continue;
        }
        if (*p == '[') {
            const char *after = skip_long(p, end);
            p = after == p ? p + 1 : after;
            continue;
        }
        if (*p == '-' && p + 1 < end && p[1] == '-')
            *comment = true;
        if (*p == '}' && depth-- == 0)
            return p;
        depth += *p == '{';
        p++;
    }
    return NULL;
}

/* True also for the empty range. */
static bool only_blanks(const char *p, const char *end) {
    while (p < end && is_blank(*p))
        p++;
    return p == end;
}

/* ---- lines --------------------------------------------------------------- */

/* Appends a piece that begins at `start` in literals and ends at
 * c->literal.  Room is made two at a time: an expression's piece always
 * follows a literal's. */
static bool add_piece(struct compiler *c, const char *start) {
    struct mlagen_line *line = &c->t->lines[c->number - 1];
    size_t used = 2 * line->values;
    if (line->pieces && c->piece_cap < used + 2) {
        struct mlagen_piece *grown = mlagen_realloc(
            line->pieces, (c->piece_cap = 2 * used + 4) * sizeof *grown);
        if (!grown)
            return false;
        line->pieces = grown;
    } else if (!line->pieces) {
        c->piece_cap = 4;
        line->pieces = mlagen_calloc(c->piece_cap, sizeof *line->pieces);
        if (!line->pieces)
            return false;
    }
    line->pieces[used] =
        (struct mlagen_piece){start, (size_t)(c->literal - start)};
    return true;
}

/* Takes the expression after "${" at p, both as a piece and as a Lua argument;
 * *next is the byte after its brace. */
static enum mlagen_status add_expression(struct compiler *c, const char *p,
                                         const char **next) {
    bool comment = false;
    const char *close = expression_end(p, c->end, &comment);
    if (!close)
        return fault(c, p - 2, "unterminated ${ (it must close on this line)");
    if (comment)
        return fault(c, p - 2, "a comment inside ${}");
    if (only_blanks(p, close))
        return fault(c, p - 2, "an empty ${}");
    size_t len = (size_t)(close - p);
    struct mlagen_line *line = &c->t->lines[c->number - 1];
    line->pieces[2 * line->values + 1] = (struct mlagen_piece){c->literal, len};
    line->values++;
    memcpy(c->literal, p, len);
    c->literal += len;
    mlagen_buf_str(&c->t->lua, ", (");
    mlagen_buf_add(&c->t->lua, p, len);
    mlagen_buf_char(&c->t->lua, ')');
    *next = close + 1;
    return MLAGEN_OK;
}

/* Copies text up to the next "${" or the line's end, undoing "$${"; returns
 * where it stopped. */
static const char *copy_literal(struct compiler *c, const char *p) {
    while (p < c->end) {
        size_t left = (size_t)(c->end - p);
        if (left >= 3 && !memcmp(p, "$${", 3)) {
            *c->literal++ = '$';
            *c->literal++ = '{';
            p += 3;
        } else if (left >= 2 && !memcmp(p, "${", 2)) {
            return p;
        } else {
            *c->literal++ = *p++;
        }
    }
    return p;
}

/* Lets the __emit of the lines above speak for this one, whose own begins at
 * byte `call` of the Lua text. */
static void join_plain(struct compiler *c, size_t call) {
    if (c->t->lines[c->number - 1].values) {
        c->plain = 0;
    } else if (c->plain) {
        c->t->lines[c->plain - 1].more++;
        mlagen_buf_cut(&c->t->lua, call);
    } else {
        c->plain = c->number;
    }
}

/* A text line; p is where its text goes on after `indent` leading blanks.  What
 * it is made of goes two ways: literals and expressions, as pieces, into the
 * template; expressions also into the Lua text, as arguments. */
static enum mlagen_status text_line(struct compiler *c, size_t indent,
                                    const char *p) {
    struct mlagen_line *line = &c->t->lines[c->number - 1];
    const char *start = c->literal;
    size_t call = c->t->lua.len;
    line->indent = indent;
    memcpy(c->literal, c->line, indent);
    c->literal += indent;
    mlagen_buf_printf(&c->t->lua, "__emit(%zu", c->number);
    for (;;) {
        p = copy_literal(c, p);
        if (!add_piece(c, start))
            return mlagen_no_memory(c->d);
        if (p == c->end)
            break;
        enum mlagen_status status = add_expression(c, p + 2, &p);
        if (status)
            return status;
        start = c->literal;
    }
    mlagen_buf_str(&c->t->lua, ");");
    join_plain(c, call);
    const struct mlagen_piece *last = &line->pieces[2 * line->values];
    line->vanishes = line->values == 1 && line->pieces[0].len == indent &&
                     only_blanks(last->text, last->text + last->len);
    return MLAGEN_OK;
}

/* Tells Lua from text: one @ and a blank (or the end of the line) is Lua, two
 * are an escaped one. */
static enum mlagen_status compile_line(struct compiler *c) {
    const char *p = c->line;
    const char *stray = memchr(p, '\r', (size_t)(c->end - p));
    if (stray) /* Lua would count it as a line of its own */
        return fault(c, stray, "a carriage return inside a line");
    while (p < c->end && is_blank(*p))
        p++;
    size_t indent = (size_t)(p - c->line);
    size_t ats = 0;
    while (p + ats < c->end && p[ats] == '@')
        ats++;
    bool mark = p + ats == c->end || is_blank(p[ats]);
    if (ats == 1 && mark) {
        c->plain = 0;
        mlagen_buf_add(&c->t->lua, p + 1, (size_t)(c->end - p) - 1);
        return MLAGEN_OK;
    }
    return text_line(c, indent, ats == 2 && mark ? p + 1 : p);
}

/* ---- the whole ----------------------------------------------------------- */

/* Splits the text into lines; whatever ends them, the Lua text has LF. */
static enum mlagen_status compile_all(struct compiler *c, const char *p,
                                      const char *end) {
    struct mlagen_template *t = c->t;
    if (end - p >= 3 && !memcmp(p, "\xEF\xBB\xBF", 3))
        p += 3;
    mlagen_buf_str(&t->lua, "local _ENV, __emit = ...; ");
    while (p < end) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        c->line = p;
        c->end = newline ? newline : end;
        p = newline ? newline + 1 : end;
        if (c->end > c->line && c->end[-1] == '\r')
            c->end--;
        struct mlagen_line *lines =
            mlagen_grow(t->lines, t->count, &c->line_cap, sizeof *lines);
        if (!lines)
            return mlagen_no_memory(c->d);
        t->lines = lines;
        lines[t->count] = (struct mlagen_line){0};
        c->number = ++t->count;
        enum mlagen_status status = compile_line(c);
        if (status)
            return status;
        mlagen_buf_char(&t->lua, '\n');
    }
    return t->lua.failed ? mlagen_no_memory(c->d) : MLAGEN_OK;
}

enum mlagen_status mlagen_template_compile(const char *text, size_t len,
                                           const char *path,
                                           struct mlagen_template **out,
                                           struct mlagen_diags *d) {
    *out = NULL;
    struct mlagen_template *t = mlagen_calloc(1, sizeof *t);
    if (!t)
        return mlagen_no_memory(d);
    struct compiler c = {.t = t, .d = d};
    enum mlagen_status status;
    t->path = mlagen_strndup(path, strlen(path));
    t->literals = c.literal = mlagen_realloc(NULL, len + 1);
    if (!t->path || !t->literals)
        status = mlagen_no_memory(d);
    else
        status = compile_all(&c, text, text + len);
    if (status) {
        mlagen_template_free(t);
        return status;
    }
    *out = t;
    return MLAGEN_OK;
}

/* A template that failed half-way is freed here too. */
void mlagen_template_free(struct mlagen_template *t) {
    if (!t)
        return;
    for (size_t i = 0; i < t->count; i++)
        mlagen_free(t->lines[i].pieces);
    mlagen_free(t->lines);
    mlagen_free(t->literals);
    mlagen_free(t->path);
    mlagen_buf_free(&t->lua);
    mlagen_free(t);
}

/* ---- the map of emitted lines -------------------------------------------- */

/* Lines are looked up by index: the map has one entry each. */
struct mlagen_where mlagen_linemap_find(const struct mlagen_linemap *map,
                                        size_t line) {
    if (line == 0 || line > map->count)
        return (struct mlagen_where){0};
    const struct mlagen_origin *o = &map->lines[line - 1];
    return (struct mlagen_where){map->files[o->file], o->line, 0};
}

/* The index of `file` in the map, added if new; -1 without memory. */
static long file_index(struct mlagen_linemap *map, const char *file) {
    for (size_t i = map->file_count; i-- > 0;)
        if (!strcmp(map->files[i], file))
            return (long)i;
    char **files =
        mlagen_grow(map->files, map->file_count, &map->file_cap, sizeof *files);
    if (!files)
        return -1;
    map->files = files;
    files[map->file_count] = mlagen_strndup(file, strlen(file));
    if (!files[map->file_count])
        return -1;
    return (long)map->file_count++;
}

/* A template names few files, so the last one is looked for first. */
bool mlagen_linemap_add(struct mlagen_linemap *map, const char *file,
                        unsigned line) {
    long index = file_index(map, file);
    struct mlagen_origin *lines =
        mlagen_grow(map->lines, map->count, &map->cap, sizeof *lines);
    if (lines)
        map->lines = lines;
    if (!lines || index < 0)
        return false;
    lines[map->count++] = (struct mlagen_origin){(unsigned)index, line};
    return true;
}

void mlagen_linemap_free(struct mlagen_linemap *map) {
    for (size_t i = 0; i < map->file_count; i++)
        mlagen_free(map->files[i]);
    mlagen_free(map->files);
    mlagen_free(map->lines);
    *map = (struct mlagen_linemap){0};
}

/* ---- putting a line together --------------------------------------------- */

/* One template line on its way out. */
struct writer {
    struct mlagen_buf *out;
    struct mlagen_linemap *map;  /* NULL: not wanted */
    struct mlagen_piece indent;  /* what begins further lines of values */
    struct mlagen_where own, at; /* the template line; the emitted line */
    bool fresh;                  /* only blanks on the emitted line so far */
    bool owes_indent;            /* after a value's newline */
};

/* Text without newlines. */
static void put_span(struct writer *w, const char *text, size_t len) {
    if (len == 0)
        return;
    if (w->owes_indent)
        mlagen_buf_add(w->out, w->indent.text, w->indent.len);
    w->owes_indent = false;
    w->fresh = w->fresh && only_blanks(text, text + len);
    mlagen_buf_add(w->out, text, len);
}

/* Ends the emitted line and records where it came from. */
static bool end_line(struct writer *w) {
    mlagen_buf_char(w->out, '\n');
    w->fresh = true;
    return !w->map || mlagen_linemap_add(w->map, w->at.file, w->at.line);
}

/* Line 1 of a value shares the emitted line with what stands before it; only
 * when that was blank does the line belong to the value's origin. */
static bool put_value(struct writer *w, const struct mlagen_value *v) {
    const char *p = v->text, *end = v->text + v->len;
    for (size_t line = 1;; line++) {
        if (!w->fresh && line == 1)
            w->at = w->own;
        else if (v->map && v->map->count >= line)
            w->at = mlagen_linemap_find(v->map, line);
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        put_span(w, p, (size_t)((newline ? newline : end) - p));
        if (!newline)
            return true;
        if (!end_line(w))
            return false;
        w->at = w->own;
        w->owes_indent = true;
        p = newline + 1;
    }
}

/* Lines `first` to `last` (1-based), which have no values. */
static bool put_plain(const struct mlagen_template *t, size_t first,
                      size_t last, struct mlagen_buf *out,
                      struct mlagen_linemap *map) {
    for (size_t number = first; number <= last; number++) {
        const struct mlagen_piece *text = t->lines[number - 1].pieces;
        mlagen_buf_add(out, text->text, text->len);
        mlagen_buf_char(out, '\n');
        if (map && !mlagen_linemap_add(map, t->path, (unsigned)number))
            return false;
    }
    return !out->failed;
}

bool mlagen_template_put(const struct mlagen_template *t, size_t number,
                         const struct mlagen_value *values,
                         struct mlagen_buf *out, struct mlagen_linemap *map) {
    const struct mlagen_line *line = &t->lines[number - 1];
    if (line->values == 0)
        return put_plain(t, number, number + line->more, out, map);
    if (line->vanishes && values[0].len == 0)
        return true;
    struct mlagen_where own = {t->path, (unsigned)number, 0};
    struct writer w = {
        .out = out,
        .map = map,
        .indent = {line->pieces[0].text, line->indent},
        .own = own,
        .at = own,
        .fresh = true,
    };
    for (size_t i = 0; i <= line->values; i++) {
        put_span(&w, line->pieces[2 * i].text, line->pieces[2 * i].len);
        if (i < line->values && !put_value(&w, &values[i]))
            return false;
    }
    return end_line(&w) && !out->failed;
}
