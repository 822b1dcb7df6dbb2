/* SPDX-License-Identifier: Apache-2.0
 *
 * bundle.h: the parts of `mlagen bundle` (mlagen.h: mlagen_bundle).
 *
 * bundle.c reads a generated folder and puts its texts together; bundle_data.c
 * turns files into C arrays and compiles PTX.
 */
#ifndef MLAGEN_BUNDLE_H
#define MLAGEN_BUNDLE_H

#include "context.h"

/* A file that goes into the header as an array. */
struct mlagen_bundle_file {
    char *path;
    struct mlagen_buf data;
};

struct mlagen_bundle_files {
    struct mlagen_bundle_file *items;
    size_t count, cap;
};

/* Adds a file, whose data is taken over. */
enum mlagen_status mlagen_bundle_add(struct mlagen_bundle_files *files,
                                     const char *path, struct mlagen_buf *data,
                                     struct mlagen_diags *d);
void mlagen_bundle_files_free(struct mlagen_bundle_files *files);

/* Compiles every kernel of the manifest to PTX, "ptx/<symbol>.ptx". */
enum mlagen_status mlagen_bundle_ptx(const struct mlagen *g,
                                     const struct mlagen_folder *f,
                                     struct mlagen_bundle_files *files,
                                     struct mlagen_diags *d);

/* Appends the arrays and the table of them; `ident` begins every name. */
void mlagen_bundle_arrays(const struct mlagen_bundle_files *files,
                          const char *ident, struct mlagen_buf *out);

/* Reads a file that the manifest lists.
 * @return MLAGEN_DIFFERENT when it is not what the manifest says. */
enum mlagen_status mlagen_listed_file(const struct mlagen_folder *f,
                                      const char *path, const char *sha256,
                                      struct mlagen_buf *out,
                                      struct mlagen_diags *d);

/* The hash that the manifest lists for a file of its own; NULL if none. */
const char *mlagen_listed_hash(const json_t *manifest, const char *path);

/* Opens a folder that must have a manifest. */
enum mlagen_status mlagen_open_generated(const char *path,
                                         struct mlagen_folder *f,
                                         struct mlagen_diags *d);

#endif
