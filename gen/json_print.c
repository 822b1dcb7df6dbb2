/* SPDX-License-Identifier: Apache-2.0
 *
 * json_print.c: JSON for people who read diffs: sorted keys, two blanks of
 * indentation, and any list or object that fits on its line stays on it.
 *
 *     "fields": [
 *       {"align": 16, "name": "q", "type": "ptr"},
 *
 * Reals are jansson's: in 17 digits, which read back as the same number, with
 * a point whatever the locale.
 */
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "manifest.h"

/* Columns that a list may take on one line, and the indentation of a level. */
enum { WIDTH = 160, STEP = 2 };

/* `failed` is jansson's or calloc's failure; the buffer keeps its own. */
struct printer {
    struct mlagen_buf *out;
    bool failed;
};

/* Reals, true, false and null are jansson's. */
static void print_scalar(struct printer *p, const json_t *value)
{
    char text[64];
    size_t n;

    if (json_is_string(value)) {
        mlagen_buf_json(p->out, json_string_value(value),
                        json_string_length(value));
        return;
    }
    if (json_is_integer(value)) {
        const char *digits = mlagen_digits(json_integer_value(value), text, &n);
        mlagen_buf_add(p->out, digits, n);
        return;
    }
    n = json_dumpb(value, text, sizeof text,
                   JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    p->failed |= n == 0 || n > sizeof text;
    if (!p->failed)
        mlagen_buf_add(p->out, text, n);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Tables that come from Lua are in order already, so the array is looked at
 * before it is sorted. */
static void sort_names(const char **names, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (strcmp(names[i - 1], names[i]) > 0) {
            qsort(names, n, sizeof *names, by_name);
            return;
        }
}

/* The sorted keys of an object: an array to be freed, NULL without memory. */
static const char **sorted_keys(const json_t *object)
{
    json_t *o = (json_t *)object; /* jansson's iterators are not const */
    const char **keys = mlagen_calloc(json_object_size(o) + 1, sizeof *keys);
    size_t n = 0;

    if (!keys)
        return NULL;
    for (void *i = json_object_iter(o); i; i = json_object_iter_next(o, i))
        keys[n++] = json_object_iter_key(i);
    sort_names(keys, n);
    return keys;
}

/* Where a value goes: `indent` of its line, or -1 for "all on this line", and
 * the length of the output at which this line is full. */
struct place {
    int indent;
    size_t limit;
};

static bool print_value(struct printer *p, const json_t *value,
                        struct place at);

/* A new line with this indentation. */
static void start_line(struct printer *p, int indent)
{
    static const char blanks[] = "                                ";

    mlagen_buf_char(p->out, '\n');
    for (size_t left = (size_t)indent, n; left; left -= n) {
        n = left < sizeof blanks - 1 ? left : sizeof blanks - 1;
        mlagen_buf_add(p->out, blanks, n);
    }
}

/* What stands before an item: a comma, and on lines of their own the line. */
static void start_item(struct printer *p, bool first, struct place at)
{
    if (!first)
        mlagen_buf_str(p->out, at.indent < 0 ? ", " : ",");
    if (at.indent >= 0)
        start_line(p, at.indent);
}

/* Prints the items of a container in the given manner; false as soon as they
 * do not fit the line they must be on. */
static bool print_items(struct printer *p, const json_t *value,
                        struct place at)
{
    const char **keys = json_is_object(value) ? sorted_keys(value) : NULL;
    size_t n = keys ? json_object_size(value) : json_array_size(value);
    bool fits = true;

    p->failed |= json_is_object(value) && !keys;
    for (size_t i = 0; i < n && fits && !p->failed; i++) {
        start_item(p, i == 0, at);
        if (keys) {
            mlagen_buf_json(p->out, keys[i], strlen(keys[i]));
            mlagen_buf_str(p->out, ": ");
        }
        fits = print_value(p,
                           keys ? json_object_get(value, keys[i])
                                : json_array_get(value, i),
                           at);
        fits = fits && (at.indent >= 0 || p->out->len <= at.limit);
    }
    mlagen_free(keys);
    return fits;
}

/* Brackets and what is between them; false when it had to fit and did not. */
static bool print_container(struct printer *p, const json_t *value,
                            struct place at)
{
    bool fits;

    mlagen_buf_char(p->out, json_is_object(value) ? '{' : '[');
    fits = print_items(p, value, at);
    if (at.indent >= 0)
        start_line(p, at.indent - STEP);
    mlagen_buf_char(p->out, json_is_object(value) ? '}' : ']');
    return fits && (at.indent >= 0 || p->out->len <= at.limit);
}

/* Prints a value: on the line it begins on if it fits, else one item a line.
 * False when it had to fit and did not. */
static bool print_value(struct printer *p, const json_t *value,
                        struct place at)
{
    size_t start = p->out->len;
    struct place one = {-1, at.limit};

    if (!json_is_object(value) && !json_is_array(value)) {
        print_scalar(p, value);
        return true;
    }
    if (at.indent < 0)
        return print_container(p, value, one);
    one.limit = start + WIDTH - (size_t)at.indent;
    if (print_container(p, value, one) || p->failed || p->out->failed)
        return true;
    mlagen_buf_cut(p->out, start);
    at.indent += STEP;
    return print_container(p, value, at);
}

enum mlagen_status mlagen_json_print(const json_t *value,
                                     struct mlagen_buf *out,
                                     struct mlagen_diags *d)
{
    struct printer p = {out, false};

    print_value(&p, value, (struct place){0, 0});
    mlagen_buf_char(out, '\n');
    return p.failed || out->failed ? mlagen_no_memory(d) : MLAGEN_OK;
}
