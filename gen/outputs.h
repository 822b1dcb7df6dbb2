/* SPDX-License-Identifier: Apache-2.0
 *
 * outputs.h: the files of one generation, still in memory.
 *
 * Nothing is written before everything is made, so a fault in the last kernel
 * leaves the folder as it was.  Paths are relative to the output folder, with
 * "/" between parts, and are checked when a file is added.
 */
#ifndef MLAGEN_OUTPUTS_H
#define MLAGEN_OUTPUTS_H

#include "diag.h"
#include "hash.h"

struct mlagen_output {
    char *path;
    char *data; /* NUL-terminated for convenience; the NUL is not counted */
    size_t size;
    char sha256[MLAGEN_HASH_HEX]; /* empty until asked for */
    bool borrowed;                /* path and data belong to another set */
};

/* A zeroed struct is an empty set. */
struct mlagen_outputs {
    struct mlagen_output *items;
    size_t count, cap;
};

/* True for a path that stays inside the folder: relative, no empty, "." or
 * ".." part, no part that begins with a dot, no control character. */
bool mlagen_output_path_ok(const char *path);

/* Adds a file; path and data are copied.
 * @return MLAGEN_TEMPLATE for a bad path or one that is there already. */
enum mlagen_status mlagen_outputs_add(struct mlagen_outputs *o,
                                      const char *path, const char *data,
                                      size_t size, struct mlagen_diags *d);

/* Adds every file of `some`, whose texts stay its own and must outlive `o`. */
enum mlagen_status mlagen_outputs_borrow(struct mlagen_outputs *o,
                                         const struct mlagen_outputs *some,
                                         struct mlagen_diags *d);

/* @return NULL when there is no such file. */
struct mlagen_output *mlagen_outputs_find(const struct mlagen_outputs *o,
                                          const char *path);

/* The hash of a file, computed when it is first asked for. */
const char *mlagen_output_hash(struct mlagen_output *o);

void mlagen_outputs_free(struct mlagen_outputs *o);

#endif
