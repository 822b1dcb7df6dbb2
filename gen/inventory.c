/* SPDX-License-Identifier: Apache-2.0
 *
 * inventory.c: what this generator knows: the specs that are built in, the
 * kernel families, the architectures and the types.
 */
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "arch.h"
#include "context.h"
#include "manifest.h"

/* "specs/x.yaml" -> "x" for the models among the specs; NULL for schemas and
 * tables, which are not named after a model of theirs.  Only the one key is
 * read: the file need not pass the schema to be listed. */
static json_t *spec_entry(const struct mlagen_text *text)
{
    static const char folder[] = "specs/", suffix[] = ".yaml";
    size_t n = strlen(text->path), head = sizeof folder - 1,
           tail = sizeof suffix - 1;
    struct mlagen_diags silent = {0};
    struct mlagen_doc *doc = NULL;
    const struct mlagen_node *model = NULL;
    json_t *entry = NULL;

    if (n <= head + tail || strncmp(text->path, folder, head) != 0 ||
        strcmp(text->path + n - tail, suffix) != 0)
        return NULL;
    if (mlagen_yaml_parse(text->data, text->size, text->path, &doc, &silent) ==
        MLAGEN_OK)
        model = mlagen_node_get(mlagen_doc_root(doc), "model");
    if (model && model->kind == MLAGEN_SCALAR)
        entry = json_pack("{s:s%,s:s}", "spec", text->path + head,
                          n - head - tail, "model", model->text);
    mlagen_doc_free(doc);
    mlagen_diags_free(&silent);
    return entry;
}

/* The built-in specs, in the order of their names. */
static json_t *list_specs(const struct mlagen *g)
{
    json_t *list = json_array();

    for (size_t i = 0; i < mlagen_tree_count(g->tree); i++) {
        json_t *entry = spec_entry(mlagen_tree_at(g->tree, i));

        if (entry)
            mlagen_json_append(&list, entry);
    }
    return list;
}

/* For qsort: 90 before 100, 90 before 90a. */
static int by_capability(const void *a, const void *b)
{
    return mlagen_arch_compare(*(const struct mlagen_arch *)a,
                               *(const struct mlagen_arch *)b);
}

/* The keys of the architecture table in numeric order, each with the devices
 * it is for.  NULL without memory. */
static json_t *list_archs(const struct mlagen *g)
{
    size_t count = 0;
    struct mlagen_arch *archs =
        mlagen_calloc(json_object_size(g->archs) + 1, sizeof *archs);
    json_t *list = archs ? json_array() : NULL, *value;
    const char *key;

    if (!list)
        return NULL;
    json_object_foreach(g->archs, key, value) count +=
        mlagen_arch_parse(key, &archs[count]);
    qsort(archs, count, sizeof *archs, by_capability);
    for (size_t i = 0; i < count; i++) {
        char name[MLAGEN_ARCH_NAME];

        mlagen_arch_name(archs[i], name);
        value = json_object_get(g->archs, name);
        mlagen_json_append(&list,
                           json_pack("{s:s,s:s}", "arch", name, "devices",
                                     mlagen_json_text(value, "devices")));
    }
    mlagen_free(archs);
    return list;
}

/* One section of text: a title, then an entry a line. */
static void print_pairs(const char *title, const json_t *list,
                        const char *first, const char *second,
                        struct mlagen_buf *out)
{
    size_t i;
    json_t *item;

    mlagen_buf_printf(out, "%s\n", title);
    json_array_foreach(list, i, item)
        mlagen_buf_printf(out, "  %-24s %s\n", mlagen_json_text(item, first),
                          mlagen_json_text(item, second));
}

/* The same for a list of words. */
static void print_words(const char *title, const json_t *list,
                        struct mlagen_buf *out)
{
    size_t i;
    json_t *item;

    mlagen_buf_printf(out, "%s\n", title);
    json_array_foreach(list, i, item)
        mlagen_buf_printf(out, "  %s\n", json_string_value(item));
}

/* For people; scripts take the JSON. */
static void print_text(const json_t *all, struct mlagen_buf *out)
{
    print_pairs("specs (built in)", json_object_get(all, "specs"), "spec",
                "model", out);
    print_words("families", json_object_get(all, "families"), out);
    print_pairs("archs", json_object_get(all, "archs"), "arch", "devices",
                out);
    print_words("dtypes", json_object_get(all, "dtypes"), out);
}

/* Families and types are the templates' to tell, specs and architectures are
 * data of the source set. */
enum mlagen_status mlagen_inventory(struct mlagen *g, bool json,
                                    struct mlagen_buf *out,
                                    struct mlagen_diags *d)
{
    json_t *all = NULL;
    enum mlagen_status status =
        mlagen_host_call(g->host, "inventory", NULL, 0, &all, d);

    if (status == MLAGEN_OK &&
        (json_object_set_new(all, "specs", list_specs(g)) ||
         json_object_set_new(all, "archs", list_archs(g))))
        status = mlagen_no_memory(d);
    if (status == MLAGEN_OK && json)
        status = mlagen_json_print(all, out, d);
    else if (status == MLAGEN_OK)
        print_text(all, out);
    json_decref(all);
    return status;
}
