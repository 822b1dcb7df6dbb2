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
struct mlagen_arch {
    int major;
    int minor;
    char suffix;
};

#define MLAGEN_ARCH_NAME 16 /* bytes of a canonical name, NUL included */

/* Reads sm_90a, compute_90a, 90a or 9.0a.  The whole text must match; a
 * single digit ("9") has no minor number and is refused, as is anything that
 * follows the suffix ("9.0a+PTX").  On failure *out is zeroed. */
bool mlagen_arch_parse(const char *text, struct mlagen_arch *out);

/* Writes the canonical name, sm_90a, and returns `name`. */
const char *mlagen_arch_name(struct mlagen_arch a,
                             char name[MLAGEN_ARCH_NAME]);

/* Numeric order: by major, minor, suffix (none, a, f). */
int mlagen_arch_compare(struct mlagen_arch a, struct mlagen_arch b);

#endif
