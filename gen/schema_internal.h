/* SPDX-License-Identifier: Apache-2.0
 *
 * schema_internal.h: what schema.c (the schema file to rules) and
 * schema_check.c (a document against rules) share.
 */
#ifndef MLAGEN_SCHEMA_INTERNAL_H
#define MLAGEN_SCHEMA_INTERNAL_H

#include <stdint.h>

#include "schema.h"

enum rule_type {
    RULE_MAP,
    RULE_LIST,
    RULE_INT,
    RULE_FLOAT,
    RULE_BOOL,
    RULE_STRING,
    RULE_NAME,
    RULE_ENUM,
    RULE_TYPES
};

/* What messages call them: "a map", "an integer", ... */
extern const char *const mlagen_rule_names[RULE_TYPES];

struct rule;

struct rule_key {
    const char *name;
    struct rule *rule;
};

/* One entry of the schema.  Texts and nodes belong to the schema's document. */
struct rule {
    enum rule_type type;
    bool required, nullable, open, unique, power_of_two;
    const struct mlagen_node *fallback; /* `default`, or NULL */
    const struct mlagen_node *values;   /* list of an enum's texts, or NULL */
    const struct mlagen_node *words;    /* list of extra words, or NULL */
    bool has_min, has_max;
    int64_t min, max, multiple; /* of an int; multiple 0: any */
    double low, high;           /* of a float */
    size_t min_items, max_items;
    struct rule_key *keys; /* [key_count], in the schema's order */
    size_t key_count;
    struct rule *of;
};

struct mlagen_schema {
    struct mlagen_doc *doc;
    struct rule *root;
};

/* Checks `node` against `rule` and builds its canonical value in *out (NULL
 * after an error).  Goes on after a fault, to report them all. */
enum mlagen_status mlagen_rule_check(const struct rule *rule,
                                     const struct mlagen_node *node,
                                     json_t **out, struct mlagen_diags *d);

/* The nearest allowed values on either side of `value`; a bool is false when
 * there is none on that side. */
struct rule_nearest {
    bool has_below, has_above;
    int64_t below, above;
};
struct rule_nearest mlagen_rule_nearest(const struct rule *rule, int64_t value);

/* The entry of a list of texts that is most like `text`, or NULL when none is
 * close enough to be a slip of the finger. */
const char *mlagen_closest(const char *text, const char *const *among,
                           size_t count);

#endif
