/* SPDX-License-Identifier: Apache-2.0
 *
 * arch.h: names of GPU architectures and who runs whose code.
 *
 * The rules are those of the CUDA C++ Programming Guide, "Binary
 * Compatibility" and "PTX Compatibility", and of its section on
 * architecture-specific (a) and family-specific (f) features.
 */
#ifndef MLA_ARCH_H
#define MLA_ARCH_H

#include <stdbool.h>

struct mla__arch {
    int major, minor;
    char suffix; /* 'a', 'f' or 0 */
};

enum mla__fit {
    MLA__FIT_NONE = 0,
    MLA__FIT_PTX = 1,  /* the driver can compile its PTX for the device */
    MLA__FIT_CUBIN = 2 /* its machine code runs as it is */
};

/* Reads "sm_90a", "compute_90", "90a" or "9.0a": digits, a point or none
 * (then the last digit is the minor version), at most one suffix letter.
 * Returns false and a static reason for anything else. */
bool mla__arch_parse(const char *text, struct mla__arch *out,
                     const char **reason);

/* How code made for `arch` runs on a device of capability major.minor. */
enum mla__fit mla__arch_fit(struct mla__arch arch, int major, int minor);

/* Order among architectures that fit one device: greater is better. */
int mla__arch_rank(struct mla__arch arch, int major, int minor);

#endif
