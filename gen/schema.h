/* SPDX-License-Identifier: Apache-2.0
 *
 * schema.h: which keys a YAML file may have, of which type, within which
 * bounds; the schema itself is a YAML file (specs/schema.yaml).
 *
 * Each entry of a schema is a map with these keys:
 *   type      map | list | int | float | bool | string | name | enum
 *   doc       what the key means, one line
 *   required  true: the key must be written
 *   default   the value when it is not; checked by the entry's own rule
 *   nullable  true: `null` is allowed
 *   words     plain words allowed besides the type, e.g. [auto]; the result is
 *             the word as a string
 *   min, max              int and float, inclusive
 *   multiple, power_of_two            int
 *   values    enum: the allowed texts
 *   keys      map: its entries;   open: true with `of`: any key, values by `of`
 *   of        list: the rule of its items; map with open: of its values
 *   min_items, max_items, unique      list
 * The file's root is such an entry too (with `type`), or directly the `keys` of
 * a map.  A name is [A-Za-z0-9][A-Za-z0-9._-]*.
 *
 * A scalar is read by the type its rule asks for and by nothing else: an int is
 * -?(0|[1-9][0-9]*) within 64 bits, a float a JSON number, a bool true or
 * false; strings, names and enums keep their text untouched, so that `9.0`,
 * `10.0`, `no` or `2` as an enum value are what was written.  No locale is
 * consulted.
 */
#ifndef MLAGEN_SCHEMA_H
#define MLAGEN_SCHEMA_H

#include "yaml_doc.h"

struct mlagen_schema; /* immutable once loaded; may be shared by threads */

/* Compiles a schema from YAML text.  A fault in the schema is an error at its
 * place in `file`.
 * @return MLAGEN_SPEC */
enum mlagen_status mlagen_schema_load(const char *text, size_t len,
                                      const char *file,
                                      struct mlagen_schema **schema,
                                      struct mlagen_diags *d);
void mlagen_schema_free(struct mlagen_schema *schema);

/* Checks a document, reporting every fault it has, and builds its canonical
 * value: typed, defaults filled in, keys in the schema's order.  An optional
 * key without default that is not written stays absent.
 * @return a new reference in *out, or MLAGEN_SPEC. */
enum mlagen_status mlagen_schema_check(const struct mlagen_schema *schema,
                                       const struct mlagen_doc *doc,
                                       json_t **out, struct mlagen_diags *d);

#endif
