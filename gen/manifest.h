/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest.h: manifest.json, the generation's description of itself.
 *
 * It lists every file with its hash and every kernel with its plan and, once
 * compiled, what the compiler said.  It is JSON in one fixed form (see
 * json_print.c), with no time, no host and no absolute path, so that equal
 * generations have equal manifests.  `manifest_sha256` is the hash
 * of the text with that one value empty: an edit shows.
 */
#ifndef MLAGEN_MANIFEST_H
#define MLAGEN_MANIFEST_H

#include <jansson.h>

#include "outputs.h"

#define MLAGEN_MANIFEST_FORMAT 1

/* Sets manifest_sha256 in `manifest` and appends the text to `out`. */
enum mlagen_status mlagen_manifest_text(json_t *manifest,
                                        struct mlagen_buf *out,
                                        struct mlagen_diags *d);

/* Reads a manifest and checks the shape of what this program uses of it: the
 * format number, files[].{path,sha256}, kernels[].{symbol,source} and, where
 * present, kernels[].build.{cubin,cubin_sha256,...}.
 * @return a new reference, or MLAGEN_IO with an error at `shown`. */
enum mlagen_status mlagen_manifest_parse(const char *text, size_t len,
                                         const char *shown, json_t **out,
                                         struct mlagen_diags *d);

/* True when manifest_sha256 fits the rest. */
bool mlagen_manifest_intact(const json_t *manifest);

/* Calls `each` for every file that the manifest lists: the generated texts,
 * then the cubins. */
typedef void (*mlagen_listed_fn)(void *user, const char *path,
                                 const char *sha256);
void mlagen_manifest_each(const json_t *manifest, mlagen_listed_fn each,
                          void *user);

/* SHA-256 of a JSON value in its compact form with sorted keys: two values
 * are equal exactly when their hashes are. */
enum mlagen_status mlagen_json_hash(const json_t *value,
                                    char hex[MLAGEN_HASH_HEX],
                                    struct mlagen_diags *d);

/* Appends a JSON value in the manifest's form, with a final newline. */
enum mlagen_status mlagen_json_print(const json_t *value,
                                     struct mlagen_buf *out,
                                     struct mlagen_diags *d);

/* Appends `item`, which is taken over, to a list that is being made.  Without
 * memory the list is released and *list becomes NULL, and stays so: a list is
 * complete or not there at all, and is looked at once, when it is used. */
void mlagen_json_append(json_t **list, json_t *item);

/* Shorthand for the text of a string member; "" when absent. */
const char *mlagen_json_text(const json_t *object, const char *key);

#endif
