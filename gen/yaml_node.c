/* SPDX-License-Identifier: Apache-2.0
 *
 * yaml_node.c: what is done with a parsed document (yaml_doc.h): finding
 * values and their places, overriding them, and typing them as JSON.
 *
 * There is no index: a spec has a few dozen keys, and the nodes of a list or a
 * map are a chain in the order written.  An override is spliced into that chain
 * before anything is typed, so it passes the same checks as the file and keeps
 * a place of its own, "<-D key.path>".
 */
#include <string.h>

#include "scalar.h"
#include "yaml_internal.h"

/* ---- looking ------------------------------------------------------------- */

const struct mlagen_node *mlagen_doc_root(const struct mlagen_doc *doc) {
    return doc->root;
}

/* The child called key[0, len); NULL also when `map` is none. */
static struct mlagen_node *find_child(const struct mlagen_node *map,
                                      const char *key, size_t len) {
    if (map->kind != MLAGEN_MAP)
        return NULL;
    for (struct mlagen_node *c = map->first; c; c = c->next)
        if (strlen(c->key) == len && !memcmp(c->key, key, len))
            return c;
    return NULL;
}

const struct mlagen_node *mlagen_node_get(const struct mlagen_node *map,
                                          const char *key) {
    return find_child(map, key, strlen(key));
}

/* Item `index`, from 1; NULL also when `list` is none. */
static const struct mlagen_node *list_item(const struct mlagen_node *list,
                                           json_int_t index) {
    if (list->kind != MLAGEN_LIST)
        return NULL;
    const struct mlagen_node *c = list->first;
    while (c && --index > 0)
        c = c->next;
    return c;
}

/* Walks as far as the document goes along the path. */
struct mlagen_where mlagen_doc_where(const struct mlagen_doc *doc,
                                     const json_t *path) {
    const struct mlagen_node *node = doc->root;
    for (size_t i = 0; i < json_array_size(path); i++) {
        const json_t *step = json_array_get(path, i);
        const struct mlagen_node *next =
            json_is_string(step)
                ? mlagen_node_get(node, json_string_value(step))
                : list_item(node, json_integer_value(step));
        if (!next)
            break;
        node = next;
    }
    return node->where;
}

/* ---- -D key.path=value --------------------------------------------------- */

/* Finds or makes the child of `map` called key[0, len).  A new child is an
 * empty map: either the path goes on through it, or the value takes its place.
 */
static struct mlagen_node *make_child(struct mlagen_doc *doc,
                                      struct mlagen_node *map, const char *key,
                                      size_t len, struct mlagen_where where) {
    struct mlagen_node *child = find_child(map, key, len);
    if (child)
        return child;
    child = mlagen_arena_get(doc, sizeof *child);
    const char *name = mlagen_arena_text(doc, key, len);
    if (!child || !name)
        return NULL;
    *child = (struct mlagen_node){
        .kind = MLAGEN_MAP, .where = where, .key = name, .key_where = where};
    mlagen_node_append(map, child);
    return child;
}

/* Puts the value's content in place of the node's, which keeps its key. */
static void replace(struct mlagen_node *node, const struct mlagen_node *value) {
    struct mlagen_node old = *node;
    *node = *value;
    node->key = old.key;
    node->key_where = old.key_where;
    node->next = old.next;
}

/* Walks path[0, len), making maps; *out is the node at its end. */
static enum mlagen_status walk(struct mlagen_doc *doc, const char *path,
                               size_t len, struct mlagen_where where,
                               struct mlagen_node **out,
                               struct mlagen_diags *d) {
    struct mlagen_node *node = doc->root;
    for (const char *p = path, *end = path + len; p <= end;) {
        const char *dot = memchr(p, '.', (size_t)(end - p));
        size_t size = (size_t)((dot ? dot : end) - p);
        if (node->kind != MLAGEN_MAP) {
            mlagen_diag(d, MLAGEN_ERROR, where, "'%.*s' is not a map",
                        p > path ? (int)(p - path) - 1 : 0, path);
            return MLAGEN_SPEC;
        }
        node = make_child(doc, node, p, size, where);
        if (!node)
            return mlagen_no_memory(d);
        p += size + 1;
    }
    *out = node;
    return MLAGEN_OK;
}

/* key.path=... with no empty key; `equals` is the first "=", or NULL. */
static bool well_formed(const char *setting, const char *equals) {
    if (!equals || equals == setting || equals[-1] == '.' || *setting == '.')
        return false;
    const char *twice = strstr(setting, "..");
    return !twice || twice > equals;
}

/* The value is parsed like a file of its own, whose nodes join the document.
 * A fault in it is placed at "<-D key.path>", line 1. */
enum mlagen_status mlagen_doc_set(struct mlagen_doc *doc, const char *setting,
                                  struct mlagen_diags *d) {
    const char *equals = strchr(setting, '=');
    if (!well_formed(setting, equals)) {
        mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){0},
                    "-D %s: expected key.path=value", setting);
        return MLAGEN_USAGE;
    }
    size_t len = (size_t)(equals - setting);
    struct mlagen_buf name = {0};
    mlagen_buf_printf(&name, "<-D %.*s>", (int)len, setting);
    const char *file =
        name.failed ? NULL : mlagen_arena_text(doc, name.data, name.len);
    mlagen_buf_free(&name);
    if (!file)
        return mlagen_no_memory(d);
    struct mlagen_where where = {file, 1, 1};
    struct mlagen_node *value = NULL, *node = NULL;
    enum mlagen_status status =
        mlagen_yaml_build(doc, equals + 1, strlen(equals + 1), file, &value, d);
    if (!status)
        status = walk(doc, setting, len, where, &node, d);
    if (!status)
        replace(node, value);
    return status;
}

/* ---- JSON's typing ------------------------------------------------------- */

static enum mlagen_status to_json(const struct mlagen_node *node, json_t **out,
                                  struct mlagen_diags *d);

/* Types a plain scalar; *out stays NULL only without memory. */
static enum mlagen_status plain_json(const struct mlagen_node *node,
                                     json_t **out, struct mlagen_diags *d) {
    static const char *const words[] = {"true", "false", "null"};
    json_t *const values[] = {json_true(), json_false(), json_null()};
    int64_t integer;
    double real;
    for (size_t i = 0; i < 3; i++)
        if (!strcmp(node->text, words[i]) && strlen(words[i]) == node->len) {
            *out = values[i];
            return MLAGEN_OK;
        }
    if (mlagen_scan_int(node->text, node->len, &integer) == MLAGEN_SCAN_OK) {
        *out = json_integer(integer);
        return MLAGEN_OK;
    }
    enum mlagen_scan scan = mlagen_scan_float(node->text, node->len, &real);
    if (scan == MLAGEN_SCAN_OK) {
        *out = json_real(real);
        return MLAGEN_OK;
    }
    mlagen_diag(d, MLAGEN_ERROR, node->where, "%s%s%s",
                scan == MLAGEN_SCAN_RANGE ? "number out of range: " : "'",
                node->text,
                scan == MLAGEN_SCAN_RANGE ? "" : "' is not a JSON value");
    return MLAGEN_SPEC;
}

/* Adds the children of a list or a map to *out, which the caller releases. */
static enum mlagen_status children_json(const struct mlagen_node *node,
                                        json_t *out, struct mlagen_diags *d) {
    for (const struct mlagen_node *c = node->first; c; c = c->next) {
        json_t *value;
        enum mlagen_status status = to_json(c, &value, d);
        if (status)
            return status;
        if (c->key ? json_object_set_new(out, c->key, value)
                   : json_array_append_new(out, value))
            return mlagen_no_memory(d);
    }
    return MLAGEN_OK;
}

/* A value and all below it; the parser has bounded the depth. */
static enum mlagen_status to_json(const struct mlagen_node *node, json_t **out,
                                  struct mlagen_diags *d) {
    enum mlagen_status status = MLAGEN_OK;
    *out = NULL;
    if (node->kind == MLAGEN_SCALAR && node->plain)
        status = plain_json(node, out, d);
    else if (node->kind == MLAGEN_SCALAR)
        *out = json_stringn(node->text, node->len);
    else
        *out = node->kind == MLAGEN_LIST ? json_array() : json_object();
    if (!status && !*out)
        return mlagen_no_memory(d);
    if (!status)
        status = children_json(node, *out, d);
    if (status) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

enum mlagen_status mlagen_doc_json(const struct mlagen_doc *doc, json_t **out,
                                   struct mlagen_diags *d) {
    return to_json(doc->root, out, d);
}
