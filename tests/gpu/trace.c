/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.c: gpu-trace, which compares what two drivers made of the same
 * kernels.
 *
 *     gpu-trace FIRST SECOND
 *
 * The files are those that GPU_TRACE made (tests/unit/vgpu/gpu_trace.h).  A
 * strict record must be in both, bit for bit; loose ones that differ are
 * counted.  Exit status: 0 alike, 1 a difference, 2 usage, 5 a file.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 20 }; /* differences that are printed */

/* One record; it points into the text of its trace. */
struct record {
    const char *name; /* with the hash behind it */
    size_t name_length, bytes;
    const unsigned char *data;
    bool is_loose, is_met;
};

/* A file, whole in memory, and its records in order. */
struct trace {
    const char *path;
    char *text;
    struct record *record;
    int count;
};

/* What the last line says. */
struct sums {
    int strict, loose, differ, loose_differ, missing;
};

/* --- reading -------------------------------------------------------------- */

/* The bytes with a NUL behind them; NULL, with errno, without the file. */
static char *read_all(const char *path, size_t *length)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    long size = -1;

    if (f && fseek(f, 0, SEEK_END) == 0)
        size = ftell(f);
    if (size >= 0)
        text = malloc((size_t)size + 1);
    if (text) {
        rewind(f);
        *length = fread(text, 1, (size_t)size, f);
        text[*length] = 0;
    }
    if (f)
        fclose(f);
    return text;
}

/* The record that begins at `at`; NULL if it is none, or cut off. */
static const char *read_record(const char *at, const char *end,
                               struct record *out)
{
    const char *line = memchr(at, '\n', (size_t)(end - at));
    const char *tab = line ? memchr(at, '\t', (size_t)(line - at)) : NULL;
    char kind[8];

    if (!tab || sscanf(tab, "\t%7s\t%zu", kind, &out->bytes) != 2 ||
        out->bytes > (size_t)(end - line - 1))
        return NULL;
    out->name = at;
    out->name_length = (size_t)(tab - at);
    out->is_loose = strcmp(kind, "loose") == 0;
    out->is_met = false;
    out->data = (const unsigned char *)line + 1;
    return line + 1 + out->bytes;
}

/* A file that ends within a record is refused as a whole: its test died. */
static bool read_trace(struct trace *t)
{
    size_t length = 0;
    const char *at, *end;
    struct record r;

    t->text = read_all(t->path, &length);
    at = t->text;
    end = t->text + length;
    while (at && at < end) {
        at = read_record(at, end, &r);
        t->record = realloc(t->record,
                            ((size_t)t->count + 1) * sizeof(*t->record));
        if (!t->record)
            abort();
        if (at)
            t->record[t->count++] = r;
    }
    if (!at)
        fprintf(stderr, "%s: error: no trace, or cut off\n", t->path);
    return at != NULL;
}

/* --- comparing ------------------------------------------------------------ */

/* The first one of that name that has not been met: tests that run a kernel
 * twice have two of them, in order. */
static struct record *find(struct trace *t, const struct record *r)
{
    for (int i = 0; i < t->count; i++) {
        struct record *o = &t->record[i];
        if (!o->is_met && o->name_length == r->name_length &&
            memcmp(o->name, r->name, r->name_length) == 0) {
            o->is_met = true;
            return o;
        }
    }
    return NULL;
}

/* The name, how much differs, and the first word that does; after a number of
 * them only the count goes on. */
static void show(const struct record *a, const struct record *b, int shown)
{
    size_t at = 0, differ = 0, n = a->bytes < b->bytes ? a->bytes : b->bytes;
    uint32_t x = 0, y = 0;

    for (size_t i = 0; i < n; i++)
        if (a->data[i] != b->data[i]) {
            at = differ++ ? at : i / 4 * 4;
        }
    if (shown > SHOWN)
        return;
    memcpy(&x, a->data + at, n - at < 4 ? n - at : 4);
    memcpy(&y, b->data + at, n - at < 4 ? n - at : 4);
    printf("differs: %.*s\n  %zu of %zu bytes; at byte %zu %08" PRIx32
           " and %08" PRIx32 "\n",
           (int)a->name_length, a->name, differ, n, at, x, y);
}

/* Two records of one name; loose if the first one says so. */
static void compare(const struct record *a, const struct record *b,
                    struct sums *s)
{
    bool alike = a->bytes == b->bytes &&
                 memcmp(a->data, b->data, a->bytes) == 0;

    if (a->is_loose) {
        s->loose++;
        s->loose_differ += !alike;
    } else {
        s->strict++;
        s->differ += !alike;
        if (!alike)
            show(a, b, s->differ);
    }
}

/* A record without its other half: a test failed on one side. */
static void miss(const struct record *r, const char *path, struct sums *s)
{
    if (++s->missing <= SHOWN)
        printf("missing: %.*s is not in %s\n", (int)r->name_length, r->name,
               path);
}

/* Marks the second trace as it goes, to find what only that one has. */
static struct sums compare_all(struct trace *a, struct trace *b)
{
    struct sums s = {0};

    for (int i = 0; i < a->count; i++) {
        const struct record *other = find(b, &a->record[i]);
        if (other)
            compare(&a->record[i], other, &s);
        else
            miss(&a->record[i], b->path, &s);
    }
    for (int i = 0; i < b->count; i++)
        if (!b->record[i].is_met)
            miss(&b->record[i], a->path, &s);
    return s;
}

int main(int argc, char **argv)
{
    struct trace a = {0}, b = {0};
    struct sums s;

    if (argc != 3) {
        fprintf(stderr, "usage: gpu-trace FIRST SECOND\n");
        return 2;
    }
    a.path = argv[1];
    b.path = argv[2];
    if (!read_trace(&a) || !read_trace(&b))
        return 5;
    s = compare_all(&a, &b);
    printf("%d kernels alike bit for bit, %d differ, %d in one file only; "
           "of %d loose ones %d differ\n",
           s.strict - s.differ, s.differ, s.missing, s.loose,
           s.loose_differ);
    free(a.record);
    free(b.record);
    free(a.text);
    free(b.text);
    return s.differ + s.missing > 0 || s.strict + s.loose == 0;
}
