/* SPDX-License-Identifier: Apache-2.0
 *
 * arch: names of GPU architectures, read as what they are.
 *
 * A target is a compute capability (major, minor) and perhaps a suffix: `a`
 * for features of exactly this chip, `f` for features of its family.  People
 * write it as sm_90a, 90a or 9.0a; tools have read it with isdigit(), with
 * strtod() and with strcmp(), and so lost suffixes, read 12.0 as 12 and put
 * sm_100 before sm_90.  Here it is parsed once, into integers.
 */
#ifndef MLAGEN_ARCH_H
#define MLAGEN_ARCH_H

#include <stdbool.h>
#include <stddef.h>

/* Compute capability; suffix is '\0', 'a' or 'f'. */
struct arch {
    int major;
    int minor;
    char suffix;
};

#define ARCH_NAME_MAX 16 /* bytes that arch_name needs, NUL included */

/* Reads sm_90a, compute_90a, 90a or 9.0a.  The whole text must match; a
 * single digit ("9") has no minor number and is refused, as is anything that
 * follows the suffix ("9.0a+PTX").  On failure *out is zeroed. */
bool arch_parse(const char *text, struct arch *out);

/* Writes the canonical name, sm_90a, and returns `name`. */
const char *arch_name(struct arch a, char name[ARCH_NAME_MAX]);

/* Numeric order: by major, minor, suffix (none, a, f). */
int arch_compare(struct arch a, struct arch b);

#endif
