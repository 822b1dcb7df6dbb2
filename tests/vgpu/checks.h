/* SPDX-License-Identifier: Apache-2.0
 *
 * checks.h: which mistakes of a kernel end its launch (VGPU_CHECKS).
 *
 * Bounds of memory, writes to const and param memory and the executor's own
 * checks (deadlock, partial warps) cannot be switched off.
 */
#ifndef VGPU_CHECKS_H
#define VGPU_CHECKS_H

#include <stddef.h>

enum {
    VG_CHECK_ALIGN = 1,  /* "align": address no multiple of the width
                            (of atomics it is always checked) */
    VG_CHECK_UNINIT = 2, /* "uninit": read of bytes that nobody wrote */
    VG_CHECK_RACE = 4,   /* "race": unordered accesses to shared memory */
    VG_CHECK_ASYNC = 8,  /* "async": cp.async destination touched too early */
    VG_CHECK_ALL = 15
};

/* Reads "all", "none" or a comma-separated list of the names above, each
 * added, or taken away when a '-' stands before it ("all,-race").  Returns 0,
 * or -1 with a line that names the bad word and the allowed ones in err. */
int vg_checks_parse(const char *text, unsigned *checks, char *err,
                    size_t errsize);

#endif
