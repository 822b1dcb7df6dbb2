/* SPDX-License-Identifier: Apache-2.0
 *
 * template.h: from template text to Lua text, line by line.
 *
 *     @ for i = 0, 3 do
 *         float acc${i} = ${f32(init)};
 *     @ end
 *
 * A line whose first non-blank is `@ ` is Lua (`@` alone: nothing); any other
 * line is text in which ${expression} is replaced.  `@@ ` at that place writes
 * `@ `, and `$${` writes `${` anywhere.  Every template line becomes exactly
 * one line of Lua, so that Lua's own errors carry the template's line number.
 *
 *   1 | local _ENV, __emit = ...;  for i = 0, 3 do
 *   2 | __emit(2, (i), (f32(init)));
 *   3 |  end
 *
 * Of several lines without ${} only the first has a call, which emits them all.
 *
 * The text between the expressions stays here, in the compiled template; the
 * host (lua_host.h) runs the Lua and calls mlagen_template_put for each __emit.
 */
#ifndef MLAGEN_TEMPLATE_H
#define MLAGEN_TEMPLATE_H

#include "diag.h"

/* A text line is literal 0, value 0, literal 1, value 1, ... literal n. */
struct mlagen_piece {
    const char *text;
    size_t len;
};

struct mlagen_line {
    size_t values;               /* number of ${} in the line */
    struct mlagen_piece *pieces; /* 2 * values + 1: literals and expressions */
    size_t indent;               /* bytes of leading blanks */
    bool vanishes; /* blanks and one ${}: an empty value emits nothing */
    size_t more;   /* lines after this one that go with its __emit */
};

struct mlagen_template {
    char *path;                /* the chunk's name */
    struct mlagen_buf lua;     /* the chunk's text */
    struct mlagen_line *lines; /* [count]; Lua lines have pieces NULL */
    size_t count;
    char *literals; /* what pieces point into */
};

/* Compiles `len` bytes of `text`.  Line ends may be LF or CRLF, the last one
 * may be missing; a UTF-8 byte order mark is skipped.
 * @return MLAGEN_TEMPLATE with the place of an unterminated ${, an empty
 *         expression, a comment inside one, or a stray carriage return. */
enum mlagen_status mlagen_template_compile(const char *text, size_t len,
                                           const char *path,
                                           struct mlagen_template **out,
                                           struct mlagen_diags *d);
void mlagen_template_free(struct mlagen_template *t);

/* Where each line of a rendered text came from. */
struct mlagen_origin {
    unsigned file; /* index into files */
    unsigned line; /* 1-based */
};

struct mlagen_linemap {
    char **files;
    size_t file_count, file_cap;
    struct mlagen_origin *lines; /* [count], one per emitted line */
    size_t count, cap;
};

/* The origin of emitted line `line` (1-based); file NULL when out of range.
 * The file's name belongs to the map. */
struct mlagen_where mlagen_linemap_find(const struct mlagen_linemap *map,
                                        size_t line);
/* Records one more emitted line.  @return false without memory. */
bool mlagen_linemap_add(struct mlagen_linemap *map, const char *file,
                        unsigned line);
void mlagen_linemap_free(struct mlagen_linemap *map);

/* One value of a line: text, and the origins of its lines when it is itself a
 * rendered text (else NULL). */
struct mlagen_value {
    const char *text;
    size_t len;
    const struct mlagen_linemap *map;
};

/* Appends line `number` (1-based) of `t` with its values in place, and the
 * lines that go with it: a value of several lines keeps the line's indentation
 * (not on its empty lines), and a line that vanishes with its empty value
 * appends nothing.  `map` may be NULL.
 * @return false without memory. */
bool mlagen_template_put(const struct mlagen_template *t, size_t number,
                         const struct mlagen_value *values,
                         struct mlagen_buf *out, struct mlagen_linemap *map);

#endif
