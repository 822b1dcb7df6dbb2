/* SPDX-License-Identifier: Apache-2.0
 *
 * surrogates.h: the one escape that JSON has and YAML has not.
 *
 * JSON writes a character beyond U+FFFF as two escapes, "\ud83d\ude00" (RFC
 * 8259 section 7); YAML writes it as one, "\U0001F600", and libyaml refuses the
 * halves.  This is the translation, for texts that are JSON.
 */
#ifndef MLAGEN_SURROGATES_H
#define MLAGEN_SURROGATES_H

#include "buf.h"

/* True when the first character of the text that is no blank opens a JSON
 * object or array, and the text holds an escape of a surrogate. */
bool mlagen_has_surrogates(const char *text, size_t len);

/* Appends the text to `out` with each pair of escapes joined.  A half that
 * stands alone stays, to be refused by the parser.  Columns after a pair are
 * two less than in the file. */
void mlagen_join_surrogates(const char *text, size_t len,
                            struct mlagen_buf *out);

#endif
