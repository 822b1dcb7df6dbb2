/* SPDX-License-Identifier: Apache-2.0
 *
 * json.h: reading JSON (RFC 8259) into a tree.
 *
 * Small and strict: no comments, no trailing commas, no duplicate keys, depth
 * at most 64.  Integers that fit 64 bits stay integers.  Strings are decoded
 * inside the text that was given, which therefore has to outlive the tree.
 */
#ifndef MLA_JSON_H
#define MLA_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mla.h"

enum mla__json_type {
    MLA__JSON_NULL,
    MLA__JSON_BOOL,
    MLA__JSON_INT,
    MLA__JSON_REAL,
    MLA__JSON_STRING,
    MLA__JSON_ARRAY,
    MLA__JSON_OBJECT
};

struct mla__json {
    enum mla__json_type type;
    char *key;       /* member of an object: its name */
    int64_t integer; /* INT, BOOL (0 or 1) */
    double real;     /* REAL, INT */
    char *string;    /* STRING, UTF-8, NUL-terminated */
    size_t count;    /* ARRAY, OBJECT: children */
    struct mla__json *child, *next;
    struct mla__json *made_before; /* every node of the tree, for freeing */
};

struct mla__json_error {
    int line, column; /* from 1, columns in bytes */
    const char *text; /* static */
};

/* Parses text, which is changed and must end in NUL.  On success *out is the
 * root; free it with mla__json_free(ctx, *out). */
mla_status mla__json_parse(mla_context *ctx, char *text,
                           struct mla__json **out,
                           struct mla__json_error *error);
void mla__json_free(mla_context *ctx, struct mla__json *root);

/* The member of that name, or NULL; also for NULL and other types. */
const struct mla__json *mla__json_get(const struct mla__json *object,
                                      const char *key);

#endif
