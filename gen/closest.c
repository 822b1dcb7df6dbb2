/* SPDX-License-Identifier: Apache-2.0
 *
 * closest.c: "did you mean": the optimal string alignment distance, which
 * counts an insertion, a deletion, a replacement and a swap of neighbours as
 * one slip each.
 */
#include <string.h>

#include "schema_internal.h"

#define LONGEST 48 /* keys longer than this are nobody's slip */

/* The smallest of three. */
static size_t least(size_t a, size_t b, size_t c) {
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Number of slips between a and b; LONGEST when one of them is too long.  Row
 * i of the table of prefixes needs the two rows above it (a swap looks two
 * back), so three rows take turns. */
static size_t distance(const char *a, const char *b) {
    size_t la = strlen(a), lb = strlen(b);
    size_t rows[3][LONGEST + 1];
    if (la >= LONGEST || lb >= LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= lb; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t *now = rows[i % 3], *up = rows[(i + 2) % 3],
               *up2 = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t same = a[i - 1] == b[j - 1] ? 0 : 1;
            now[j] = least(up[j] + 1, now[j - 1] + 1, up[j - 1] + same);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], up2[j - 2] + 1, LONGEST);
        }
    }
    return rows[la % 3][lb];
}

/* Of two that are equally close the first wins; a third of the letters wrong is
 * too far, and so is a name with no letter in common. */
const char *mlagen_closest(const char *text, const char *const *among,
                           size_t count) {
    const char *best = NULL;
    size_t limit = strlen(text) / 3 > 2 ? strlen(text) / 3 : 2;
    for (size_t i = 0; i < count; i++) {
        size_t slips = distance(text, among[i]);
        if (slips > limit || slips >= strlen(among[i]))
            continue;
        best = among[i];
        limit = slips - (slips > 0);
        if (slips == 0)
            break;
    }
    return best;
}
