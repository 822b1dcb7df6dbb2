/* SPDX-License-Identifier: Apache-2.0
 *
 * diag.h: what the generator has to say about its input.
 *
 * A function that finds fault adds a diagnostic (severity, place, message) to
 * the list its caller gave it and returns a status.  Nothing below main.c
 * prints: the list is turned into text once, in the form gcc uses, which every
 * editor can jump from, or as one JSON object a line for programs.
 */
#ifndef MLAGEN_DIAG_H
#define MLAGEN_DIAG_H

#include "buf.h"
#include "status.h"

enum mlagen_severity { MLAGEN_ERROR, MLAGEN_WARNING, MLAGEN_NOTE };

/* A place in a text.  line and col start at 1; 0 means unknown.  `file` may be
 * NULL (no place at all); whoever hands out a place says who owns it. */
struct mlagen_where {
    const char *file;
    unsigned line, col;
};

struct mlagen_diag {
    enum mlagen_severity severity;
    struct mlagen_where where; /* file owned by the list */
    char *message;             /* owned by the list; no trailing newline */
};

/* A zeroed struct is an empty list. */
struct mlagen_diags {
    struct mlagen_diag *items;
    size_t count, cap;
    size_t errors, warnings;
    bool lost; /* a diagnostic did not fit in memory; texts say so */
};

enum mlagen_diag_format { MLAGEN_DIAG_GNU, MLAGEN_DIAG_JSON };

/* Adds one diagnostic; file and message are copied.  Without memory the list
 * is marked `lost`, and an error still counts as an error. */
void mlagen_diag(struct mlagen_diags *d, enum mlagen_severity severity,
                 struct mlagen_where where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void mlagen_vdiag(struct mlagen_diags *d, enum mlagen_severity severity,
                  struct mlagen_where where, const char *format, va_list ap)
    __attribute__((format(printf, 4, 0)));

/* Shorthand: adds "out of memory" as an error and returns MLAGEN_INTERNAL. */
enum mlagen_status mlagen_no_memory(struct mlagen_diags *d);

/* Appends every diagnostic of the list, one line each:
 *   GNU   file:line:col: error: message   (unknown parts left out;
 *                                          "mlagen: error: ..." without a file)
 *   JSON  {"severity":"error","file":...,"line":1,"column":1,"message":...}
 *         (unknown parts are null) */
void mlagen_diags_text(const struct mlagen_diags *d,
                       enum mlagen_diag_format format, struct mlagen_buf *out);

void mlagen_diags_free(struct mlagen_diags *d); /* leaves an empty list */

#endif
