/* SPDX-License-Identifier: Apache-2.0
 *
 * verify.c: is a folder what its manifest says?  Hand edits, missing files and
 * files that nobody lists are faults; that another generator would make it
 * differently today is worth a note.
 */
#include <string.h>

#include "context.h"
#include "folder_io.h"
#include "manifest.h"

/* What the walk over the manifest, and then over the folder, carries along. */
struct check {
    const struct mlagen_folder *folder;
    struct mlagen_changes *changes;
    struct mlagen_diags *d;
    json_t *listed; /* path -> true */
    enum mlagen_status status;
};

/* One file that the manifest lists.  After a fault of reading, the rest is not
 * looked at. */
static void check_listed(void *user, const char *path, const char *sha256)
{
    struct check *c = user;
    struct mlagen_buf data = {0};
    char hex[MLAGEN_HASH_HEX];
    const char *what = NULL;
    bool found = false;

    if (c->status != MLAGEN_OK)
        return;
    json_object_set_new(c->listed, path, json_true());
    c->status = mlagen_folder_read(c->folder, path, &data, &found, c->d);
    if (c->status == MLAGEN_OK) {
        mlagen_sha256(mlagen_buf_text(&data), data.len, hex);
        if (!found)
            what = "missing";
        else if (strcmp(hex, sha256) != 0)
            what = "changed";
    }
    if (what)
        c->status = mlagen_change_add(c->changes, what, path, c->d);
    mlagen_buf_free(&data);
}

/* One file of the folder: hidden ones too, as nothing of ours stays hidden
 * after a run. */
static enum mlagen_status check_present(void *user, const char *path)
{
    struct check *c = user;

    if (strcmp(path, MLAGEN_MANIFEST) == 0 || json_object_get(c->listed, path))
        return MLAGEN_OK;
    return mlagen_change_add(c->changes, "extra", path, c->d);
}

/* Whether the embedded spec of this model, if there is one, is another by now;
 * faults of such a trial are nobody's business.  A folder with overrides is
 * not compared: its spec was another to begin with. */
static bool embedded_spec_differs(struct mlagen *g, const json_t *manifest)
{
    const char *model = mlagen_json_text(manifest, "model");
    struct mlagen_diags silent = {0};
    struct mlagen_buf path = {0};
    const struct mlagen_text *text;
    bool differs = false;

    mlagen_buf_printf(&path, "specs/%s.yaml", model);
    text = mlagen_tree_find(g->tree, mlagen_buf_text(&path));
    if (text && json_array_size(json_object_get(manifest, "overrides")) == 0 &&
        mlagen_load_text(g, text->data, text->size, text->path, &silent) ==
            MLAGEN_OK)
        differs = strcmp(g->spec_sha256,
                         mlagen_json_text(manifest, "spec_sha256")) != 0;
    mlagen_diags_free(&silent);
    mlagen_buf_free(&path);
    return differs;
}

/* What another run of this program would do differently. */
static void note_staleness(struct mlagen *g, const struct mlagen_folder *f,
                           const char *shown, struct mlagen_diags *d)
{
    static const char self[] = "mlagen " MLAGEN_VERSION;
    const char *generator = mlagen_json_text(f->manifest, "generator");
    struct mlagen_where where = {shown, 0, 0};

    if (f->interrupted)
        mlagen_diag(d, MLAGEN_NOTE, where,
                    "a run was interrupted here; gen or build completes it");
    if (strcmp(generator, self) != 0)
        mlagen_diag(d, MLAGEN_NOTE, where, "made by %s; this is %s", generator,
                    self);
    if (strcmp(mlagen_json_text(f->manifest, "templates_sha256"),
               g->templates_sha256) != 0)
        mlagen_diag(d, MLAGEN_NOTE, where,
                    "made by another set of templates; stale");
    if (embedded_spec_differs(g, f->manifest))
        mlagen_diag(d, MLAGEN_NOTE, where,
                    "made from another spec than the embedded one of %s",
                    mlagen_json_text(f->manifest, "model"));
}

/* Every listed file, the manifest itself, and every file that lies there.
 * Differences are listed, and only in the end become a status. */
static enum mlagen_status check_folder(const struct mlagen_folder *f,
                                       const char *folder,
                                       struct mlagen_changes *changes,
                                       struct mlagen_diags *d)
{
    struct check c = {f, changes, d, json_object(), MLAGEN_OK};

    if (!c.listed)
        return mlagen_no_memory(d);
    mlagen_manifest_each(f->manifest, check_listed, &c);
    if (c.status == MLAGEN_OK && !mlagen_manifest_intact(f->manifest))
        c.status = mlagen_change_add(changes, "changed", MLAGEN_MANIFEST, d);
    if (c.status == MLAGEN_OK)
        c.status = mlagen_folder_walk(folder, check_present, &c, d);
    json_decref(c.listed);
    if (c.status == MLAGEN_OK && changes->count > 0)
        c.status = MLAGEN_DIFFERENT;
    return c.status;
}

/* Opened for reading: verify changes nothing and waits for nobody. */
enum mlagen_status mlagen_verify(struct mlagen *g, const char *folder,
                                 struct mlagen_changes *changes,
                                 struct mlagen_diags *d)
{
    char shown[PATH_MAX];
    struct mlagen_folder f;
    enum mlagen_status status = mlagen_join(folder, MLAGEN_MANIFEST, shown, d);

    *changes = (struct mlagen_changes){0};
    if (status == MLAGEN_OK)
        status = mlagen_folder_open(folder, false, &f, d);
    if (status != MLAGEN_OK)
        return status;
    if (f.manifest) {
        status = check_folder(&f, folder, changes, d);
        note_staleness(g, &f, shown, d);
    } else {
        mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){shown, 0, 0},
                    "no such file; not a folder that mlagen wrote");
        status = MLAGEN_IO;
    }
    mlagen_folder_close(&f);
    return status;
}
