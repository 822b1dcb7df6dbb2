/* SPDX-License-Identifier: Apache-2.0
 *
 * schema_check.c: a document against the rules of a schema (schema.h).
 *
 * One function per type turns a node into its canonical JSON value or reports
 * what is wrong with it: what was given, what is allowed, and the nearest value
 * that would have been.  Checking goes on after a fault, so that a spec is
 * mended in one round.
 *
 * The result is JSON (jansson) and not a Lua table, because it is more than
 * Lua's input: the manifest records it and the spec's hash is taken over it.
 * Keys come in the schema's order with defaults in place, so two specs that
 * mean the same are the same value.
 */
#include <string.h>

#include "alloc.h"
#include "scalar.h"
#include "schema_internal.h"

/* One per type.  The node is of the kind that the type wants, and neither null
 * nor one of the rule's words. */
typedef enum mlagen_status check_fn(const struct rule *rule,
                                    const struct mlagen_node *node,
                                    json_t **out, struct mlagen_diags *d);

/* ---- messages ------------------------------------------------------------ */

/* Appends the texts of a list, or a map's key names, joined by ", ". */
static void put_texts(struct mlagen_buf *b, const struct mlagen_node *list) {
    for (const struct mlagen_node *c = list->first; c; c = c->next) {
        mlagen_buf_str(b, c == list->first ? "" : ", ");
        mlagen_buf_str(b, c->text);
    }
}

/* Appends "an integer from 1 to 256, auto or null": all that a rule allows. */
static void put_allowed(struct mlagen_buf *b, const struct rule *rule) {
    if (rule->type == RULE_ENUM) {
        mlagen_buf_str(b, "one of ");
        put_texts(b, rule->values);
    } else if (rule->power_of_two) {
        mlagen_buf_str(b, "a power of two");
    } else {
        mlagen_buf_str(b, mlagen_rule_names[rule->type]);
    }
    bool whole = rule->type == RULE_INT;
    if (rule->has_min && whole)
        mlagen_buf_printf(b, " from %lld", (long long)rule->min);
    else if (rule->has_min)
        mlagen_buf_printf(b, " from %g", rule->low);
    if (rule->has_max && whole)
        mlagen_buf_printf(b, " to %lld", (long long)rule->max);
    else if (rule->has_max)
        mlagen_buf_printf(b, " to %g", rule->high);
    if (rule->multiple > 1)
        mlagen_buf_printf(b, " that is a multiple of %lld",
                          (long long)rule->multiple);
    if (rule->words) {
        mlagen_buf_str(b, ", or ");
        put_texts(b, rule->words);
    }
    if (rule->nullable)
        mlagen_buf_str(b, ", or null");
}

/* Appends what stands in the document, as its author sees it; texts are cut
 * off at 60 bytes, as a whole file may stand in quotes. */
static void put_given(struct mlagen_buf *b, const struct mlagen_node *node) {
    if (node->kind != MLAGEN_SCALAR)
        mlagen_buf_str(b, node->kind == MLAGEN_MAP ? "a map" : "a list");
    else if (node->plain && node->len == 0)
        mlagen_buf_str(b, "nothing");
    else if (node->plain)
        mlagen_buf_printf(b, "'%.60s'", node->text);
    else
        mlagen_buf_printf(b, "the quoted text \"%.60s\"", node->text);
}

/* Reports "<key>: expected <allowed>, got <given><hint>". */
static enum mlagen_status expected(const struct rule *rule,
                                   const struct mlagen_node *node,
                                   const char *hint, struct mlagen_diags *d) {
    struct mlagen_buf text = {0};
    if (node->key)
        mlagen_buf_printf(&text, "%s: ", node->key);
    mlagen_buf_str(&text, "expected ");
    put_allowed(&text, rule);
    mlagen_buf_str(&text, ", got ");
    put_given(&text, node);
    mlagen_buf_str(&text, hint);
    enum mlagen_status status = MLAGEN_SPEC;
    if (text.failed)
        status = mlagen_no_memory(d);
    else
        mlagen_diag(d, MLAGEN_ERROR, node->where, "%s", text.data);
    mlagen_buf_free(&text);
    return status;
}

/* Makes a new reference the result; NULL means that memory ran out. */
static enum mlagen_status give(json_t *value, json_t **out,
                               struct mlagen_diags *d) {
    *out = value;
    return value ? MLAGEN_OK : mlagen_no_memory(d);
}

/* ---- numbers ------------------------------------------------------------- */

/* All of an int rule: bounds, multiple, power of two. */
static bool int_allowed(const struct rule *rule, int64_t v) {
    return !(rule->has_min && v < rule->min) &&
           !(rule->has_max && v > rule->max) &&
           !(rule->multiple > 1 && v % rule->multiple) &&
           !(rule->power_of_two && (v <= 0 || (v & (v - 1))));
}

/* Takes `v` as a candidate on its side of `value`. */
static void consider(struct rule_nearest *near, const struct rule *rule,
                     int64_t value, int64_t v) {
    if (!int_allowed(rule, v))
        return;
    if (v <= value && (!near->has_below || v > near->below)) {
        near->has_below = true;
        near->below = v;
    }
    if (v >= value && (!near->has_above || v < near->above)) {
        near->has_above = true;
        near->above = v;
    }
}

/* The candidates are few: the powers of two, or the multiples next to the
 * value and to both bounds.  Whatever is allowed and nearest is among them. */
struct rule_nearest mlagen_rule_nearest(const struct rule *rule,
                                        int64_t value) {
    struct rule_nearest near = {0};
    int64_t step = rule->multiple > 1 ? rule->multiple : 1;
    int64_t anchors[] = {value, rule->has_min ? rule->min : value,
                         rule->has_max ? rule->max : value};
    for (int bit = 0; rule->power_of_two && bit < 63; bit++)
        consider(&near, rule, value, (int64_t)1 << bit);
    /* The multiple at or below each anchor, and the one after it. */
    for (size_t i = 0; !rule->power_of_two && i < 3; i++) {
        int64_t rest = (anchors[i] % step + step) % step, low, high;
        if (__builtin_sub_overflow(anchors[i], rest, &low))
            continue;
        consider(&near, rule, value, low);
        if (!__builtin_add_overflow(low, step, &high))
            consider(&near, rule, value, high);
    }
    return near;
}

/* Reports an integer that the rule does not allow, with its neighbours. */
static enum mlagen_status int_refused(const struct rule *rule,
                                      const struct mlagen_node *node,
                                      int64_t value, struct mlagen_diags *d) {
    struct rule_nearest near = mlagen_rule_nearest(rule, value);
    struct mlagen_buf hint = {0};
    if (near.has_below || near.has_above)
        mlagen_buf_str(&hint, "; nearest allowed: ");
    if (near.has_below)
        mlagen_buf_printf(&hint, "%lld", (long long)near.below);
    if (near.has_above)
        mlagen_buf_printf(&hint, "%s%lld", near.has_below ? " or " : "",
                          (long long)near.above);
    enum mlagen_status status =
        hint.failed ? mlagen_no_memory(d)
                    : expected(rule, node, mlagen_buf_text(&hint), d);
    mlagen_buf_free(&hint);
    return status;
}

/* A quoted number is a text: who quotes it means one. */
static enum mlagen_status check_int(const struct rule *rule,
                                    const struct mlagen_node *node,
                                    json_t **out, struct mlagen_diags *d) {
    int64_t value;
    double real;
    if (!node->plain)
        return expected(rule, node, " (write it without quotes)", d);
    switch (mlagen_scan_int(node->text, node->len, &value)) {
    case MLAGEN_SCAN_OK:
        break;
    case MLAGEN_SCAN_RANGE:
        return expected(rule, node, " (beyond 64 bits)", d);
    case MLAGEN_SCAN_NO:
        return expected(rule, node,
                        mlagen_scan_float(node->text, node->len, &real)
                            ? ""
                            : " (no fraction, no exponent)",
                        d);
    }
    if (!int_allowed(rule, value))
        return int_refused(rule, node, value, d);
    return give(json_integer(value), out, d);
}

/* Always a JSON real, so that 10000 and 1e4 are the same value. */
static enum mlagen_status check_float(const struct rule *rule,
                                      const struct mlagen_node *node,
                                      json_t **out, struct mlagen_diags *d) {
    double value;
    char hint[64];
    if (!node->plain)
        return expected(rule, node, " (write it without quotes)", d);
    switch (mlagen_scan_float(node->text, node->len, &value)) {
    case MLAGEN_SCAN_OK:
        break;
    case MLAGEN_SCAN_RANGE:
        return expected(rule, node, " (beyond the range of a double)", d);
    case MLAGEN_SCAN_NO:
        return expected(rule, node, "", d);
    }
    bool low = rule->has_min && value < rule->low;
    if (low || (rule->has_max && value > rule->high)) {
        snprintf(hint, sizeof hint, "; nearest allowed: %g",
                 low ? rule->low : rule->high);
        return expected(rule, node, hint, d);
    }
    return give(json_real(value), out, d);
}

/* ---- texts --------------------------------------------------------------- */

/* YAML 1.1's yes, no, on and off are texts here. */
static enum mlagen_status check_bool(const struct rule *rule,
                                     const struct mlagen_node *node,
                                     json_t **out, struct mlagen_diags *d) {
    bool yes = !strcmp(node->text, "true");
    if (!node->plain || (!yes && strcmp(node->text, "false")))
        return expected(rule, node, "", d);
    return give(json_boolean(yes), out, d);
}

/* Quoted or not, the text as written. */
static enum mlagen_status check_string(const struct rule *rule,
                                       const struct mlagen_node *node,
                                       json_t **out, struct mlagen_diags *d) {
    (void)rule;
    return give(json_stringn(node->text, node->len), out, d);
}

/* [A-Za-z0-9][A-Za-z0-9._-]*, spelled out: isalnum would ask the locale. */
static bool is_name(const struct mlagen_node *node) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t len = strspn(node->text, letters);
    while (
        len && len < node->len &&
        (strspn(node->text + len, letters) || strspn(node->text + len, "._-")))
        len++;
    return len && len == node->len;
}

/* A name keeps its text: 9.0a and 10.0 are names. */
static enum mlagen_status check_name(const struct rule *rule,
                                     const struct mlagen_node *node,
                                     json_t **out, struct mlagen_diags *d) {
    if (!is_name(node))
        return expected(rule, node,
                        " (letters, digits, '.', '_' and '-', a letter or "
                        "digit first)",
                        d);
    return check_string(rule, node, out, d);
}

/* The entry of a list of texts that equals the node's text, or NULL.  Lengths
 * are compared too: a quoted text may hold a NUL. */
static const char *among(const struct mlagen_node *texts,
                         const struct mlagen_node *node) {
    for (const struct mlagen_node *c = texts ? texts->first : NULL; c;
         c = c->next)
        if (c->len == node->len && !memcmp(c->text, node->text, c->len))
            return c->text;
    return NULL;
}

/* Reports a word that is none of an enum's, with a suggestion. */
static enum mlagen_status no_such_value(const struct rule *rule,
                                        const struct mlagen_node *node,
                                        struct mlagen_diags *d) {
    char hint[96] = "";
    const char **texts =
        mlagen_calloc(rule->values->count, sizeof(const char *));
    if (!texts)
        return mlagen_no_memory(d);
    size_t n = 0;
    for (const struct mlagen_node *c = rule->values->first; c; c = c->next)
        texts[n++] = c->text;
    const char *close = mlagen_closest(node->text, texts, n);
    if (close)
        snprintf(hint, sizeof hint, "; did you mean '%.60s'?", close);
    mlagen_free(texts);
    return expected(rule, node, hint, d);
}

/* Compared as text, so that an enum value 2 is met by 2 and by "2". */
static enum mlagen_status check_enum(const struct rule *rule,
                                     const struct mlagen_node *node,
                                     json_t **out, struct mlagen_diags *d) {
    if (!among(rule->values, node))
        return no_such_value(rule, node, d);
    return check_string(rule, node, out, d);
}

/* ---- lists and maps ------------------------------------------------------ */

/* Keeps the first bad status but goes on after a fault of the document. */
static bool keep(enum mlagen_status *status, enum mlagen_status next) {
    if (next)
        *status = next;
    return next != MLAGEN_INTERNAL;
}

/* Reports item `node` if its value is already in the list.  Quadratic, but
 * lists of a spec have a handful of items. */
static enum mlagen_status check_unique(const json_t *list, const json_t *value,
                                       const struct mlagen_node *node,
                                       struct mlagen_diags *d) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), value)) {
            mlagen_diag(d, MLAGEN_ERROR, node->where,
                        "item %zu of the list again; items must differ", i + 1);
            return MLAGEN_SPEC;
        }
    return MLAGEN_OK;
}

/* Items that fail are left out of the list; the status tells. */
static enum mlagen_status check_items(const struct rule *rule,
                                      const struct mlagen_node *node,
                                      json_t *list, struct mlagen_diags *d) {
    enum mlagen_status status = MLAGEN_OK;
    for (const struct mlagen_node *c = node->first; c; c = c->next) {
        json_t *value;
        enum mlagen_status next = mlagen_rule_check(rule->of, c, &value, d);
        if (!next && rule->unique)
            next = check_unique(list, value, c, d);
        if (!next && json_array_append(list, value))
            next = mlagen_no_memory(d);
        json_decref(value);
        if (!keep(&status, next))
            break;
    }
    return status;
}

/* The number of items is checked before the items. */
static enum mlagen_status check_list(const struct rule *rule,
                                     const struct mlagen_node *node,
                                     json_t **out, struct mlagen_diags *d) {
    if (node->count < rule->min_items || node->count > rule->max_items) {
        bool few = node->count < rule->min_items;
        mlagen_diag(d, MLAGEN_ERROR, node->where,
                    "%s%sa list of %zu items; at %s %zu allowed",
                    node->key ? node->key : "", node->key ? ": " : "",
                    node->count, few ? "least" : "most",
                    few ? rule->min_items : rule->max_items);
        return MLAGEN_SPEC;
    }
    enum mlagen_status status = give(json_array(), out, d);
    return status ? status : check_items(rule, node, *out, d);
}

/* The rule of a key; of an open map's other keys, `of`. */
static const struct rule *find_rule(const struct rule *map, const char *key) {
    for (size_t i = 0; i < map->key_count; i++)
        if (!strcmp(map->keys[i].name, key))
            return map->keys[i].rule;
    return map->of;
}

/* Reports a key that the map does not know: the nearest one, and all. */
static enum mlagen_status unknown_key(const struct rule *map,
                                      const struct mlagen_node *node,
                                      struct mlagen_diags *d) {
    struct mlagen_buf text = {0};
    const char **names = mlagen_calloc(map->key_count + 1, sizeof *names);
    mlagen_buf_printf(&text, "unknown key '%.60s'", node->key);
    for (size_t i = 0; names && i < map->key_count; i++)
        names[i] = map->keys[i].name;
    const char *close =
        names ? mlagen_closest(node->key, names, map->key_count) : NULL;
    if (close)
        mlagen_buf_printf(&text, "; did you mean '%s'?", close);
    mlagen_buf_str(&text, close ? " Allowed: " : "; allowed: ");
    for (size_t i = 0; names && i < map->key_count; i++)
        mlagen_buf_printf(&text, "%s%s", i ? ", " : "", names[i]);
    enum mlagen_status status = MLAGEN_SPEC;
    if (!names || text.failed)
        status = mlagen_no_memory(d);
    else
        mlagen_diag(d, MLAGEN_ERROR, node->key_where, "%s", text.data);
    mlagen_free(names);
    mlagen_buf_free(&text);
    return status;
}

/* Checks the value of one key and puts it into the map; a fault leaves the
 * key out. */
static enum mlagen_status check_key(const struct rule *rule, const char *key,
                                    const struct mlagen_node *node, json_t *map,
                                    struct mlagen_diags *d) {
    json_t *value;
    enum mlagen_status status = mlagen_rule_check(rule, node, &value, d);
    if (status)
        return status;
    return json_object_set_new(map, key, value) ? mlagen_no_memory(d)
                                                : MLAGEN_OK;
}

/* The place is the map that lacks the key. */
static enum mlagen_status missing_key(const struct mlagen_node *map,
                                      const char *name,
                                      struct mlagen_diags *d) {
    mlagen_diag(d, MLAGEN_ERROR, map->where, "required key '%s' is missing%s%s",
                name, map->key ? " in " : "", map->key ? map->key : "");
    return MLAGEN_SPEC;
}

/* The keys of the rule, in its order: written, defaulted or missing. */
static enum mlagen_status check_known(const struct rule *rule,
                                      const struct mlagen_node *node,
                                      json_t *map, struct mlagen_diags *d) {
    enum mlagen_status status = MLAGEN_OK;
    for (size_t i = 0; i < rule->key_count; i++) {
        const struct rule_key *key = &rule->keys[i];
        const struct mlagen_node *value = mlagen_node_get(node, key->name);
        if (!value)
            value = key->rule->fallback;
        enum mlagen_status next = MLAGEN_OK;
        if (value)
            next = check_key(key->rule, key->name, value, map, d);
        else if (key->rule->required)
            next = missing_key(node, key->name, d);
        if (!keep(&status, next))
            break;
    }
    return status;
}

/* The keys of the document that the rule does not list. */
static enum mlagen_status check_others(const struct rule *rule,
                                       const struct mlagen_node *node,
                                       json_t *map, struct mlagen_diags *d) {
    enum mlagen_status status = MLAGEN_OK;
    for (const struct mlagen_node *c = node->first; c; c = c->next) {
        const struct rule *known = find_rule(rule, c->key);
        enum mlagen_status next = MLAGEN_OK;
        if (!known)
            next = unknown_key(rule, c, d);
        else if (known == rule->of)
            next = check_key(known, c->key, c, map, d);
        if (!keep(&status, next))
            break;
    }
    return status;
}

/* Keys of the document that nobody knows come first: a misspelt key explains
 * the missing one. */
static enum mlagen_status check_map(const struct rule *rule,
                                    const struct mlagen_node *node,
                                    json_t **out, struct mlagen_diags *d) {
    enum mlagen_status status = give(json_object(), out, d);
    if (status)
        return status;
    status = check_others(rule, node, *out, d);
    if (status != MLAGEN_INTERNAL)
        keep(&status, check_known(rule, node, *out, d));
    return status;
}

/* A map's faults are reported in this order: unknown keys as they are written,
 * then the schema's keys in its order, each with its value's faults. */

/* ---- any value ----------------------------------------------------------- */

/* What YAML takes for null when written plain. */
static bool is_null(const struct mlagen_node *node) {
    return node->plain && (!strcmp(node->text, "null") ||
                           !strcmp(node->text, "~") || node->len == 0);
}

/* null comes first, then the rule's words, then the type: `auto` is a value of
 * a number's key if its rule lists it.  Nothing at all counts as null in YAML,
 * and is refused here even where null is allowed: it looks like a slip. */
enum mlagen_status mlagen_rule_check(const struct rule *rule,
                                     const struct mlagen_node *node,
                                     json_t **out, struct mlagen_diags *d) {
    static const struct {
        enum mlagen_node_kind kind;
        check_fn *check;
    } types[RULE_TYPES] = {
        [RULE_MAP] = {MLAGEN_MAP, check_map},
        [RULE_LIST] = {MLAGEN_LIST, check_list},
        [RULE_INT] = {MLAGEN_SCALAR, check_int},
        [RULE_FLOAT] = {MLAGEN_SCALAR, check_float},
        [RULE_BOOL] = {MLAGEN_SCALAR, check_bool},
        [RULE_STRING] = {MLAGEN_SCALAR, check_string},
        [RULE_NAME] = {MLAGEN_SCALAR, check_name},
        [RULE_ENUM] = {MLAGEN_SCALAR, check_enum},
    };
    enum mlagen_status status;
    *out = NULL;
    if (node->kind == MLAGEN_SCALAR && is_null(node))
        status = rule->nullable && node->len ? give(json_null(), out, d)
                                             : expected(rule, node, "", d);
    else if (node->kind == MLAGEN_SCALAR && among(rule->words, node))
        status = check_string(rule, node, out, d);
    else if (node->kind != types[rule->type].kind)
        status = expected(rule, node, "", d);
    else
        status = types[rule->type].check(rule, node, out, d);
    if (status) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

enum mlagen_status mlagen_schema_check(const struct mlagen_schema *schema,
                                       const struct mlagen_doc *doc,
                                       json_t **out, struct mlagen_diags *d) {
    return mlagen_rule_check(schema->root, mlagen_doc_root(doc), out, d);
}
