/* SPDX-License-Identifier: Apache-2.0
 *
 * outputs.c: see outputs.h.  A set holds some hundred files, so a lookup walks
 * the array.
 */
#include "outputs.h"

#include <string.h>

#include "alloc.h"

static bool part_ok(const char *part, size_t n)
{
    if (n == 0 || part[0] == '.')
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)part[i] < 0x20 || part[i] == 0x7f)
            return false;
    return true;
}

bool mlagen_output_path_ok(const char *path)
{
    for (;;) {
        size_t n = strcspn(path, "/");

        if (!part_ok(path, n))
            return false;
        if (path[n] == '\0')
            return true;
        path += n + 1;
    }
}

enum mlagen_status mlagen_outputs_add(struct mlagen_outputs *o,
                                      const char *path, const char *data,
                                      size_t size, struct mlagen_diags *d)
{
    struct mlagen_where where = {path, 0, 0};
    struct mlagen_output *item;

    if (!mlagen_output_path_ok(path) || mlagen_outputs_find(o, path)) {
        mlagen_diag(d, MLAGEN_ERROR, where, "%s",
                    mlagen_output_path_ok(path)
                        ? "two outputs of this name"
                        : "not a name for an output file");
        return MLAGEN_TEMPLATE;
    }
    item = mlagen_grow(o->items, o->count, &o->cap, sizeof *item);
    if (!item)
        return mlagen_no_memory(d);
    o->items = item;
    item += o->count;
    item->path = mlagen_strndup(path, strlen(path));
    item->data = mlagen_strndup(data, size);
    if (!item->path || !item->data) {
        mlagen_free(item->path);
        mlagen_free(item->data);
        return mlagen_no_memory(d);
    }
    item->size = size;
    mlagen_sha256(data, size, item->sha256);
    o->count++;
    return MLAGEN_OK;
}

const struct mlagen_output *mlagen_outputs_find(const struct mlagen_outputs *o,
                                                const char *path)
{
    for (size_t i = 0; i < o->count; i++)
        if (strcmp(o->items[i].path, path) == 0)
            return &o->items[i];
    return NULL;
}

void mlagen_outputs_free(struct mlagen_outputs *o)
{
    for (size_t i = 0; i < o->count; i++) {
        mlagen_free(o->items[i].path);
        mlagen_free(o->items[i].data);
    }
    mlagen_free(o->items);
    *o = (struct mlagen_outputs){0};
}
