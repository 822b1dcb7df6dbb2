/* SPDX-License-Identifier: Apache-2.0
 *
 * diag.c: see diag.h.
 *
 * Messages are kept as they were given and made fit for a line of output only
 * when they become text (buf.h has the two encodings), so that the JSON form
 * loses nothing.  The list owns copies: places usually point into a document or
 * a template set that is gone by the time main.c prints.
 */
#include <string.h>

#include "alloc.h"
#include "diag.h"

static const char *const severity_names[] = {
    [MLAGEN_ERROR] = "error",
    [MLAGEN_WARNING] = "warning",
    [MLAGEN_NOTE] = "note",
};

/* Reporting must not fail: when memory is short, a diagnostic degrades to a
 * count and a flag. */

/* Copies the parts of a diagnostic into *out; false leaves nothing behind. */
static bool fill(struct mlagen_diag *out, struct mlagen_where where,
                 const char *format, va_list ap) {
    struct mlagen_buf message = {0};
    mlagen_buf_vprintf(&message, format, ap);
    mlagen_buf_str(&message, "");
    char *file =
        where.file ? mlagen_strndup(where.file, strlen(where.file)) : NULL;
    if (message.failed || (where.file && !file)) {
        mlagen_buf_free(&message);
        mlagen_free(file);
        return false;
    }
    out->where = (struct mlagen_where){file, where.line, where.col};
    out->message = message.data;
    return true;
}

/* The count goes up first: an error without memory for its text still makes the
 * run fail. */
void mlagen_vdiag(struct mlagen_diags *d, enum mlagen_severity severity,
                  struct mlagen_where where, const char *format, va_list ap) {
    d->errors += severity == MLAGEN_ERROR;
    d->warnings += severity == MLAGEN_WARNING;
    struct mlagen_diag *items =
        mlagen_grow(d->items, d->count, &d->cap, sizeof *items);
    if (items)
        d->items = items;
    if (!items || !fill(&items[d->count], where, format, ap)) {
        d->lost = true;
        return;
    }
    items[d->count++].severity = severity;
}

void mlagen_diag(struct mlagen_diags *d, enum mlagen_severity severity,
                 struct mlagen_where where, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    mlagen_vdiag(d, severity, where, format, ap);
    va_end(ap);
}

enum mlagen_status mlagen_no_memory(struct mlagen_diags *d) {
    mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){0}, "out of memory");
    return MLAGEN_INTERNAL;
}

/* One line; a column without a line would say nothing and is left out. */
static void put_gnu(const struct mlagen_diag *item, struct mlagen_buf *out) {
    const char *file = item->where.file ? item->where.file : "mlagen";
    mlagen_buf_visible(out, file, strlen(file));
    if (item->where.line)
        mlagen_buf_printf(out, ":%u", item->where.line);
    if (item->where.line && item->where.col)
        mlagen_buf_printf(out, ":%u", item->where.col);
    mlagen_buf_printf(out, ": %s: ", severity_names[item->severity]);
    mlagen_buf_visible(out, item->message, strlen(item->message));
    mlagen_buf_char(out, '\n');
}

/* Appends ,"key":value, with null for unknown (0). */
static void put_json_number(struct mlagen_buf *out, const char *key,
                            unsigned value) {
    mlagen_buf_printf(out, ",\"%s\":", key);
    if (value)
        mlagen_buf_printf(out, "%u", value);
    else
        mlagen_buf_str(out, "null");
}

/* One object on one line (JSON Lines), keys always the same four and the
 * message. */
static void put_json(const struct mlagen_diag *item, struct mlagen_buf *out) {
    mlagen_buf_printf(
        out, "{\"severity\":\"%s\",\"file\":", severity_names[item->severity]);
    if (item->where.file)
        mlagen_buf_json(out, item->where.file, strlen(item->where.file));
    else
        mlagen_buf_str(out, "null");
    put_json_number(out, "line", item->where.line);
    put_json_number(out, "column", item->where.col);
    mlagen_buf_str(out, ",\"message\":");
    mlagen_buf_json(out, item->message, strlen(item->message));
    mlagen_buf_str(out, "}\n");
}

void mlagen_diags_text(const struct mlagen_diags *d,
                       enum mlagen_diag_format format, struct mlagen_buf *out) {
    static char lost_text[] = "out of memory while reporting";
    struct mlagen_diag lost = {MLAGEN_ERROR, {0}, lost_text};
    void (*put)(const struct mlagen_diag *, struct mlagen_buf *) =
        format == MLAGEN_DIAG_JSON ? put_json : put_gnu;
    for (size_t i = 0; i < d->count; i++)
        put(&d->items[i], out);
    if (d->lost)
        put(&lost, out);
}

/* Warnings and errors counted so far are forgotten too. */
void mlagen_diags_free(struct mlagen_diags *d) {
    for (size_t i = 0; i < d->count; i++) {
        mlagen_free((char *)d->items[i].where.file);
        mlagen_free(d->items[i].message);
    }
    mlagen_free(d->items);
    *d = (struct mlagen_diags){0};
}
