/* SPDX-License-Identifier: Apache-2.0
 *
 * scalar.h: text to numbers, by JSON's grammar and no locale.
 */
#ifndef MLAGEN_SCALAR_H
#define MLAGEN_SCALAR_H

#include <stddef.h>
#include <stdint.h>

enum mlagen_scan {
    MLAGEN_SCAN_OK,
    MLAGEN_SCAN_NO,   /* not of that form */
    MLAGEN_SCAN_RANGE /* of that form, but beyond what the type holds */
};

/* -?(0|[1-9][0-9]*) within 64 bits: no sign +, no 0x10, no 010, no 1_000.
 * `text` is NUL-terminated; one with a NUL inside `len` is no number. */
enum mlagen_scan mlagen_scan_int(const char *text, size_t len, int64_t *out);

/* A JSON number (RFC 8259 section 6); *out is the nearest double.  A number
 * beyond DBL_MAX is MLAGEN_SCAN_RANGE, one below the least denormal is 0. */
enum mlagen_scan mlagen_scan_float(const char *text, size_t len, double *out);

#endif
