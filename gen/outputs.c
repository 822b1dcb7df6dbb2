/* SPDX-License-Identifier: Apache-2.0
 *
 * outputs.c: see outputs.h.  A set holds some hundred files, so a lookup walks
 * the array.
 */
#include "outputs.h"

#include <string.h>

#include "alloc.h"

/* One part of a path, between slashes.  Hidden names are the journal and the
 * temporaries of publish.c. */
static bool part_ok(const char *part, size_t n)
{
    if (n == 0 || part[0] == '.')
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)part[i] < 0x20 || part[i] == 0x7f)
            return false;
    return true;
}

/* Part by part; the empty path has one empty part and fails. */
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

/* Room for one more; the new item is zeroed and not yet counted, so that a
 * failure after this needs no taking back. */
static struct mlagen_output *next_item(struct mlagen_outputs *o)
{
    struct mlagen_output *items =
        mlagen_grow(o->items, o->count, &o->cap, sizeof *items);

    if (!items)
        return NULL;
    o->items = items;
    items[o->count] = (struct mlagen_output){0};
    return &items[o->count];
}

/* A path may be added once, and only if it stays in the folder. */
static enum mlagen_status check_path(const struct mlagen_outputs *o,
                                     const char *path, struct mlagen_diags *d)
{
    const char *wrong = NULL;

    if (!mlagen_output_path_ok(path))
        wrong = "not a name for an output file";
    else if (mlagen_outputs_find(o, path))
        wrong = "two outputs of this name";
    if (!wrong)
        return MLAGEN_OK;
    mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){path, 0, 0}, "%s",
                wrong);
    return MLAGEN_TEMPLATE;
}

/* The path is checked whether there was memory or not, so the fault of a
 * template is told in either case. */
enum mlagen_status mlagen_outputs_add(struct mlagen_outputs *o,
                                      const char *path, const char *data,
                                      size_t size, struct mlagen_diags *d)
{
    struct mlagen_output *item = next_item(o);
    enum mlagen_status status = check_path(o, path, d);

    if (!item)
        return mlagen_no_memory(d);
    if (status != MLAGEN_OK)
        return status;
    item->path = mlagen_strndup(path, strlen(path));
    item->data = mlagen_strndup(data, size);
    item->size = size;
    if (item->path && item->data) {
        o->count++;
        return MLAGEN_OK;
    }
    mlagen_free(item->path);
    mlagen_free(item->data);
    return mlagen_no_memory(d);
}

/* A file that both sets have is refused like one that is added twice. */
enum mlagen_status mlagen_outputs_borrow(struct mlagen_outputs *o,
                                         const struct mlagen_outputs *some,
                                         struct mlagen_diags *d)
{
    enum mlagen_status status = MLAGEN_OK;

    for (size_t i = 0; i < some->count && status == MLAGEN_OK; i++) {
        struct mlagen_output *item = next_item(o);

        status =
            item ? check_path(o, some->items[i].path, d) : mlagen_no_memory(d);
        if (status != MLAGEN_OK)
            break;
        mlagen_output_hash(&some->items[i]); /* once, for both sets */
        *item = some->items[i];
        item->borrowed = true;
        o->count++;
    }
    return status;
}

struct mlagen_output *mlagen_outputs_find(const struct mlagen_outputs *o,
                                          const char *path)
{
    for (size_t i = 0; i < o->count; i++)
        if (strcmp(o->items[i].path, path) == 0)
            return &o->items[i];
    return NULL;
}

const char *mlagen_output_hash(struct mlagen_output *o)
{
    if (!o->sha256[0])
        mlagen_sha256(o->data, o->size, o->sha256);
    return o->sha256;
}

/* Borrowed files are only forgotten. */
void mlagen_outputs_free(struct mlagen_outputs *o)
{
    for (size_t i = 0; i < o->count; i++)
        if (!o->items[i].borrowed) {
            mlagen_free(o->items[i].path);
            mlagen_free(o->items[i].data);
        }
    mlagen_free(o->items);
    *o = (struct mlagen_outputs){0};
}
