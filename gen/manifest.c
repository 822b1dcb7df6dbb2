/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest.c: see manifest.h.
 */
#include "manifest.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"

#define SELF_HASH "manifest_sha256"

/* Nothing that a reader or a locale could do differently: no blanks, keys
 * sorted, ASCII, and reals with the 17 digits that give a double back. */
static const size_t compact = JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY |
                              JSON_ENSURE_ASCII | JSON_REAL_PRECISION(17);

/* jansson's output goes into a buffer, which remembers its own failure. */
static int append(const char *bytes, size_t len, void *user)
{
    mlagen_buf_add(user, bytes, len);
    return 0;
}

/* Hashes before it looks whether there was memory: then the hash is
 * not used. */
enum mlagen_status mlagen_json_hash(const json_t *value,
                                    char hex[MLAGEN_HASH_HEX],
                                    struct mlagen_diags *d)
{
    struct mlagen_buf text = {0};
    bool ok =
        json_dump_callback(value, append, &text, compact) == 0 && !text.failed;

    mlagen_sha256(mlagen_buf_text(&text), text.len, hex);
    mlagen_buf_free(&text);
    return ok ? MLAGEN_OK : mlagen_no_memory(d);
}

/* Appends the manifest with an empty self-hash, and hashes that text.  Leaves
 * the empty value in `manifest`. */
static enum mlagen_status print_blank(json_t *manifest, struct mlagen_buf *out,
                                      char hex[MLAGEN_HASH_HEX],
                                      struct mlagen_diags *d)
{
    size_t before = out->len;
    enum mlagen_status status =
        json_object_set_new(manifest, SELF_HASH, json_string("")) == 0
            ? mlagen_json_print(manifest, out, d)
            : mlagen_no_memory(d);

    if (status == MLAGEN_OK)
        mlagen_sha256(out->data + before, out->len - before, hex);
    return status;
}

/* Printed once: the hash is put into the text where the empty value stands.  A
 * string cannot hold the mark by chance, as its quotes would be escaped. */
enum mlagen_status mlagen_manifest_text(json_t *manifest,
                                        struct mlagen_buf *out,
                                        struct mlagen_diags *d)
{
    static const char mark[] = "\"" SELF_HASH "\": \"";
    struct mlagen_buf blank = {0};
    char hex[MLAGEN_HASH_HEX];
    enum mlagen_status status = print_blank(manifest, &blank, hex, d);

    if (status == MLAGEN_OK) {
        const char *at = strstr(blank.data, mark) + sizeof mark - 1;

        mlagen_buf_add(out, blank.data, (size_t)(at - blank.data));
        mlagen_buf_str(out, hex);
        mlagen_buf_str(out, at);
        if (out->failed)
            status = mlagen_no_memory(d);
    }
    mlagen_buf_free(&blank);
    return status;
}

/* A shallow copy will do: only the one member is replaced. */
bool mlagen_manifest_intact(const json_t *manifest)
{
    json_t *copy = json_copy((json_t *)manifest);
    struct mlagen_diags silent = {0};
    struct mlagen_buf text = {0};
    char hex[MLAGEN_HASH_HEX];
    bool ok = copy && print_blank(copy, &text, hex, &silent) == MLAGEN_OK &&
              strcmp(hex, mlagen_json_text(manifest, SELF_HASH)) == 0;

    mlagen_buf_free(&text);
    mlagen_diags_free(&silent);
    json_decref(copy);
    return ok;
}

/* jansson takes an item over even when it cannot append it. */
void mlagen_json_append(json_t **list, json_t *item)
{
    if (*list && json_array_append_new(*list, item) == 0)
        return;
    if (!*list)
        json_decref(item);
    json_decref(*list);
    *list = NULL;
}

const char *mlagen_json_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* --- shape --------------------------------------------------------------- */

/* True when each of the keys has a text. */
static bool all_strings(const json_t *object, const char *const *keys)
{
    for (; *keys; keys++)
        if (!json_is_string(json_object_get(object, *keys)))
            return false;
    return true;
}

/* Paths in a manifest are as careful as paths of outputs: what is listed may
 * be removed. */
static bool path_member_ok(const json_t *object, const char *key)
{
    return mlagen_output_path_ok(mlagen_json_text(object, key));
}

/* files[]: what verify and publish read. */
static bool file_ok(const json_t *file)
{
    static const char *const keys[] = {"path", "sha256", NULL};

    return all_strings(file, keys) && path_member_ok(file, "path");
}

/* kernels[]: what taking over a cubin reads. */
static bool kernel_ok(const json_t *kernel)
{
    static const char *const keys[] = {"symbol", "source", "arch", NULL};
    static const char *const build_keys[] = {
        "cubin", "cubin_sha256", "compiler", "source_sha256", NULL};
    const json_t *build = json_object_get(kernel, "build");

    if (!all_strings(kernel, keys))
        return false;
    return !build ||
           (all_strings(build, build_keys) && path_member_ok(build, "cubin") &&
            json_is_array(json_object_get(build, "options")) &&
            json_is_array(json_object_get(build, "findings")));
}

/* True for an empty array, false for what is no array. */
static bool every(const json_t *array, bool (*ok)(const json_t *))
{
    size_t i;
    json_t *item;

    json_array_foreach(array, i, item) if (!ok(item)) return false;
    return json_is_array(array);
}

/* What is wrong with the manifest, or NULL. */
static const char *fault(const json_t *m)
{
    const json_t *format = json_object_get(m, "format");

    if (!json_is_object(m) || !json_is_integer(format))
        return "not a manifest of mlagen";
    if (json_integer_value(format) != MLAGEN_MANIFEST_FORMAT)
        return "a manifest of another format; made by another mlagen?";
    if (!every(json_object_get(m, "files"), file_ok))
        return "damaged: the list \"files\"";
    if (!every(json_object_get(m, "kernels"), kernel_ok))
        return "damaged: the list \"kernels\"";
    return NULL;
}

/* Parses JSON.  jansson's lexer tells lack of memory as a fault of syntax: a
 * second try, and a small request that must succeed, tell them apart. */
static json_t *load_json(const char *text, size_t len, json_error_t *error,
                         bool *no_memory)
{
    json_t *value = json_loadb(text, len, JSON_REJECT_DUPLICATES, error);
    json_t *probe;

    *no_memory = false;
    if (!value)
        value = json_loadb(text, len, JSON_REJECT_DUPLICATES, error);
    if (value)
        return value;
    probe = json_array();
    *no_memory = !probe;
    json_decref(probe);
    return NULL;
}

/* Only the shape that is relied upon is checked; members that a later version
 * adds are left alone. */
enum mlagen_status mlagen_manifest_parse(const char *text, size_t len,
                                         const char *shown, json_t **out,
                                         struct mlagen_diags *d)
{
    json_error_t error;
    bool no_memory;
    json_t *m = load_json(text, len, &error, &no_memory);
    struct mlagen_where where = {shown, 0, 0};
    const char *wrong;

    *out = NULL;
    if (no_memory)
        return mlagen_no_memory(d);
    if (!m) {
        where.line = error.line > 0 ? (unsigned)error.line : 0;
        where.col = error.column > 0 ? (unsigned)error.column : 0;
        mlagen_diag(d, MLAGEN_ERROR, where, "not a manifest: %s", error.text);
        return MLAGEN_IO;
    }
    wrong = fault(m);
    if (wrong) {
        mlagen_diag(d, MLAGEN_ERROR, where, "%s", wrong);
        json_decref(m);
        return MLAGEN_IO;
    }
    *out = m;
    return MLAGEN_OK;
}

/* To be called with a manifest that has been parsed: its members are there. */
void mlagen_manifest_each(const json_t *manifest, mlagen_listed_fn each,
                          void *user)
{
    size_t i;
    json_t *item;

    json_array_foreach(json_object_get(manifest, "files"), i, item)
        each(user, mlagen_json_text(item, "path"),
             mlagen_json_text(item, "sha256"));
    json_array_foreach(json_object_get(manifest, "kernels"), i, item)
    {
        const json_t *build = json_object_get(item, "build");

        if (build)
            each(user, mlagen_json_text(build, "cubin"),
                 mlagen_json_text(build, "cubin_sha256"));
    }
}
