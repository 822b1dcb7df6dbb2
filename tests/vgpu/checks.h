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
    VG_CHECK_ASYNC = 8,  /* "async": destination of a copy, or register of a
                            wgmma, touched while in flight */
    VG_CHECK_PROXY = 16, /* "proxy": ordinary write read by wgmma or a bulk
                            copy without fence.proxy.async */
    VG_CHECK_GRID = 32,  /* "grid": results of the previous grid used before
                            griddepcontrol.wait */
    VG_CHECK_COPIES = 64, /* "copies": the same of cp.async, which is an
                            ordinary write (PTX ISA 8.6); CUTLASS does without
                            that fence, and off, it only counts */
    VG_CHECK_ALL = 127,
    VG_CHECK_RELEASE = 128, /* "release", not in "all": each warp of a
                            warpgroup vouches for its own part of a wgmma
                            only.  The ISA lets one warp's wait_group vouch
                            for all four: a wgmma-group is the warpgroup's */
    VG_CHECK_STRICT = 255
};

/* Reads "all", "none" or a comma-separated list of the names above, each
 * added, or taken away when a '-' stands before it ("all,-race").  Returns 0,
 * or -1 with a line that names the bad word and the allowed ones in err. */
int vg_checks_parse(const char *text, unsigned *checks, char *err,
                    size_t errsize);

#endif
