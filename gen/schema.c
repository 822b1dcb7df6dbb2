/* SPDX-License-Identifier: Apache-2.0
 *
 * schema.c: from the schema file to rules (schema.h has the words).
 *
 * Rules are made once, and every fault of the schema itself is found then: an
 * unknown word, a bound of the wrong form, a default that its own rule refuses.
 *
 * A rule borrows its texts and its default from the schema's document, which
 * lives beside it: a default is a node like any other and is checked, each time
 * it is used, by the code that checks what a user writes.
 */
#include <string.h>

#include "alloc.h"
#include "scalar.h"
#include "schema_internal.h"

/* Types as messages call them, and as a schema writes them. */
const char *const mlagen_rule_names[RULE_TYPES] = {
    [RULE_MAP] = "a map",          [RULE_LIST] = "a list",
    [RULE_INT] = "an integer",     [RULE_FLOAT] = "a number",
    [RULE_BOOL] = "true or false", [RULE_STRING] = "a string",
    [RULE_NAME] = "a name",        [RULE_ENUM] = "one of its values",
};

static const char *const type_words[RULE_TYPES] = {
    [RULE_MAP] = "map",     [RULE_LIST] = "list", [RULE_INT] = "int",
    [RULE_FLOAT] = "float", [RULE_BOOL] = "bool", [RULE_STRING] = "string",
    [RULE_NAME] = "name",   [RULE_ENUM] = "enum",
};

static enum mlagen_status make_rule(const struct mlagen_node *entry,
                                    struct rule **out, struct mlagen_diags *d);

/* Frees a rule and all below it; it may be incomplete. */
static void free_rule(struct rule *rule) {
    if (!rule)
        return;
    for (size_t i = 0; i < rule->key_count; i++)
        free_rule(rule->keys[i].rule);
    mlagen_free(rule->keys);
    free_rule(rule->of);
    mlagen_free(rule);
}

/* Readers take the node of one word and leave *out alone when it is faulty;
 * whoever gets an error stops, for a schema is the generator's own file and one
 * fault at a time is enough. */

/* ---- one reader for each kind of word ------------------------------------ */

/* Reports a word whose value is not of the form `expected`. */
static enum mlagen_status bad_word(const struct mlagen_node *node,
                                   const char *expected,
                                   struct mlagen_diags *d) {
    mlagen_diag(d, MLAGEN_ERROR, node->where, "schema: '%s' must be %s",
                node->key, expected);
    return MLAGEN_SPEC;
}

/* true or false, nothing else, as for any bool. */
static enum mlagen_status read_flag(const struct mlagen_node *node, bool *out,
                                    struct mlagen_diags *d) {
    *out = node->kind == MLAGEN_SCALAR && !strcmp(node->text, "true");
    if (*out || (node->kind == MLAGEN_SCALAR && !strcmp(node->text, "false")))
        return MLAGEN_OK;
    return bad_word(node, "true or false", d);
}

/* A whole number; left unchecked beyond its form. */
static enum mlagen_status read_int(const struct mlagen_node *node, int64_t *out,
                                   struct mlagen_diags *d) {
    if (node->kind == MLAGEN_SCALAR &&
        mlagen_scan_int(node->text, node->len, out) == MLAGEN_SCAN_OK)
        return MLAGEN_OK;
    return bad_word(node, "an integer", d);
}

/* A number of items. */
static enum mlagen_status read_count(const struct mlagen_node *node,
                                     size_t *out, struct mlagen_diags *d) {
    int64_t value;
    enum mlagen_status status = read_int(node, &value, d);
    if (!status && value < 0)
        status = bad_word(node, "0 or more", d);
    if (!status)
        *out = (size_t)value;
    return status;
}

/* A bound of an int or of a float, whichever the rule is. */
static enum mlagen_status read_bound(const struct mlagen_node *node,
                                     enum rule_type type, int64_t *whole,
                                     double *real, struct mlagen_diags *d) {
    if (type == RULE_INT)
        return read_int(node, whole, d);
    if (type == RULE_FLOAT && node->kind == MLAGEN_SCALAR &&
        mlagen_scan_float(node->text, node->len, real) == MLAGEN_SCAN_OK)
        return MLAGEN_OK;
    return bad_word(node, "a number, and the type int or float", d);
}

/* A list of scalars, kept as the node it is: texts are compared, not typed. */
static enum mlagen_status read_texts(const struct mlagen_node *node,
                                     const struct mlagen_node **out,
                                     struct mlagen_diags *d) {
    if (node->kind != MLAGEN_LIST || !node->count)
        return bad_word(node, "a list of words", d);
    for (const struct mlagen_node *c = node->first; c; c = c->next)
        if (c->kind != MLAGEN_SCALAR)
            return bad_word(node, "a list of words", d);
    *out = node;
    return MLAGEN_OK;
}

/* The type decides how `min` and `max` are read, so it is read first. */
static enum mlagen_status read_type(const struct mlagen_node *node,
                                    enum rule_type *out,
                                    struct mlagen_diags *d) {
    for (int t = 0; node->kind == MLAGEN_SCALAR && t < RULE_TYPES; t++)
        if (!strcmp(node->text, type_words[t])) {
            *out = (enum rule_type)t;
            return MLAGEN_OK;
        }
    return bad_word(
        node, "one of map, list, int, float, bool, string, name, enum", d);
}

/* The entries of a map. */
static enum mlagen_status read_keys(const struct mlagen_node *node,
                                    struct rule *rule, struct mlagen_diags *d) {
    if (node->kind != MLAGEN_MAP)
        return bad_word(node, "a map of entries", d);
    rule->keys = mlagen_calloc(node->count + 1, sizeof *rule->keys);
    if (!rule->keys)
        return mlagen_no_memory(d);
    for (const struct mlagen_node *c = node->first; c; c = c->next) {
        struct rule_key *key = &rule->keys[rule->key_count++];
        key->name = c->key;
        enum mlagen_status status = make_rule(c, &key->rule, d);
        if (status)
            return status;
    }
    return MLAGEN_OK;
}

/* ---- entries ------------------------------------------------------------- */

/* `doc` is for people; only its form is checked. */
static enum mlagen_status read_doc(const struct mlagen_node *node,
                                   struct mlagen_diags *d) {
    return node->kind == MLAGEN_SCALAR ? MLAGEN_OK
                                       : bad_word(node, "one line of text", d);
}

/* Takes one word of an entry into the rule.  The words are those of schema.h;
 * branches rather than a table, as nearly each has a reader of another type. */
static enum mlagen_status take_word(const struct mlagen_node *w,
                                    struct rule *rule, struct mlagen_diags *d) {
    const char *key = w->key;
    if (!strcmp(key, "type"))
        return MLAGEN_OK; /* read before all others */
    if (!strcmp(key, "doc"))
        return read_doc(w, d);
    if (!strcmp(key, "required"))
        return read_flag(w, &rule->required, d);
    if (!strcmp(key, "nullable"))
        return read_flag(w, &rule->nullable, d);
    if (!strcmp(key, "open"))
        return read_flag(w, &rule->open, d);
    if (!strcmp(key, "unique"))
        return read_flag(w, &rule->unique, d);
    if (!strcmp(key, "power_of_two"))
        return read_flag(w, &rule->power_of_two, d);
    if (!strcmp(key, "multiple"))
        return read_int(w, &rule->multiple, d);
    if (!strcmp(key, "min_items"))
        return read_count(w, &rule->min_items, d);
    if (!strcmp(key, "max_items"))
        return read_count(w, &rule->max_items, d);
    if (!strcmp(key, "words"))
        return read_texts(w, &rule->words, d);
    if (!strcmp(key, "values"))
        return read_texts(w, &rule->values, d);
    if (!strcmp(key, "keys"))
        return read_keys(w, rule, d);
    if (!strcmp(key, "of"))
        return make_rule(w, &rule->of, d);
    if (!strcmp(key, "default")) {
        rule->fallback = w;
        return MLAGEN_OK;
    }
    rule->has_min |= !strcmp(key, "min");
    rule->has_max |= !strcmp(key, "max");
    if (!strcmp(key, "min"))
        return read_bound(w, rule->type, &rule->min, &rule->low, d);
    if (!strcmp(key, "max"))
        return read_bound(w, rule->type, &rule->max, &rule->high, d);
    mlagen_diag(d, MLAGEN_ERROR, w->key_where, "schema: unknown word '%s'",
                key);
    return MLAGEN_SPEC;
}

/* What an entry's words must amount to, and its default, which its own rule
 * has to accept: a schema that shipped with a bad default would fail on
 * users' machines. */
static enum mlagen_status check_entry(const struct mlagen_node *entry,
                                      const struct rule *rule,
                                      struct mlagen_diags *d) {
    const char *lack = NULL;
    if (rule->type == RULE_ENUM && !rule->values)
        lack = "an enum needs 'values'";
    else if (rule->type == RULE_LIST && !rule->of)
        lack = "a list needs 'of'";
    else if (rule->type == RULE_MAP && rule->open != (rule->of != NULL))
        lack = "'open: true' and 'of' belong together";
    else if (rule->type == RULE_MAP && !rule->open && !rule->keys)
        lack = "a map needs 'keys' or 'open'";
    else if (rule->multiple < 0)
        lack = "'multiple' must be positive";
    else if (rule->required && rule->fallback)
        lack = "a required key has no default";
    if (lack) {
        mlagen_diag(d, MLAGEN_ERROR, entry->where, "schema: %s", lack);
        return MLAGEN_SPEC;
    }
    if (!rule->fallback)
        return MLAGEN_OK;
    json_t *value;
    enum mlagen_status status =
        mlagen_rule_check(rule, rule->fallback, &value, d);
    json_decref(value);
    return status;
}

/* Makes the rule of one entry; *out may be incomplete after an error, and is
 * freed with what it hangs in. */
static enum mlagen_status make_rule(const struct mlagen_node *entry,
                                    struct rule **out, struct mlagen_diags *d) {
    const struct mlagen_node *type = mlagen_node_get(entry, "type");
    if (!type) {
        mlagen_diag(d, MLAGEN_ERROR, entry->where,
                    "schema: an entry is a map with a 'type'");
        return MLAGEN_SPEC;
    }
    struct rule *rule = *out = mlagen_calloc(1, sizeof *rule);
    if (!rule)
        return mlagen_no_memory(d);
    rule->max_items = SIZE_MAX;
    enum mlagen_status status = read_type(type, &rule->type, d);
    for (const struct mlagen_node *w = entry->first; w && !status; w = w->next)
        status = take_word(w, rule, d);
    return status ? status : check_entry(entry, rule, d);
}

/* The root is an entry when it has a scalar `type`, else a map's keys. */
static enum mlagen_status make_root(struct mlagen_schema *schema,
                                    struct mlagen_diags *d) {
    const struct mlagen_node *node = mlagen_doc_root(schema->doc);
    const struct mlagen_node *type = mlagen_node_get(node, "type");
    if (type && type->kind == MLAGEN_SCALAR)
        return make_rule(node, &schema->root, d);
    if (node->kind != MLAGEN_MAP) {
        mlagen_diag(d, MLAGEN_ERROR, node->where, "schema: expected a map");
        return MLAGEN_SPEC;
    }
    schema->root = mlagen_calloc(1, sizeof *schema->root);
    if (!schema->root)
        return mlagen_no_memory(d);
    schema->root->max_items = SIZE_MAX;
    return read_keys(node, schema->root, d);
}

/* The document stays with the schema: rules point into it. */
enum mlagen_status mlagen_schema_load(const char *text, size_t len,
                                      const char *file,
                                      struct mlagen_schema **out,
                                      struct mlagen_diags *d) {
    *out = NULL;
    struct mlagen_schema *schema = mlagen_calloc(1, sizeof *schema);
    if (!schema)
        return mlagen_no_memory(d);
    enum mlagen_status status =
        mlagen_yaml_parse(text, len, file, &schema->doc, d);
    if (!status)
        status = make_root(schema, d);
    if (status) {
        mlagen_schema_free(schema);
        return status;
    }
    *out = schema;
    return MLAGEN_OK;
}

void mlagen_schema_free(struct mlagen_schema *schema) {
    if (!schema)
        return;
    free_rule(schema->root);
    mlagen_doc_free(schema->doc);
    mlagen_free(schema);
}
