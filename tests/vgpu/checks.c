/* SPDX-License-Identifier: Apache-2.0
 *
 * checks.c: reading VGPU_CHECKS.
 *
 *     VGPU_CHECKS=all            (default)       VGPU_CHECKS=none
 *     VGPU_CHECKS=all,-race      all but one     VGPU_CHECKS=align,uninit
 */
#include "checks.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Names and what they switch.  A minus before a name takes its bits away. */
static const struct {
    const char *name;
    unsigned bits;
} names[] = {
    {"all", VG_CHECK_ALL},       {"none", 0},
    {"strict", VG_CHECK_STRICT},
    {"align", VG_CHECK_ALIGN},   {"uninit", VG_CHECK_UNINIT},
    {"race", VG_CHECK_RACE},     {"async", VG_CHECK_ASYNC},
    {"proxy", VG_CHECK_PROXY},   {"release", VG_CHECK_RELEASE},
    {"grid", VG_CHECK_GRID},     {"copies", VG_CHECK_COPIES},
};

#define NNAMES (sizeof names / sizeof *names)

/* The row of the word s[0..n), or -1. */
static int find(const char *s, size_t n)
{
    for (size_t k = 0; k < NNAMES; k++)
        if (strlen(names[k].name) == n && memcmp(names[k].name, s, n) == 0)
            return (int)k;
    return -1;
}

/* Words take effect from left to right, so "all,-race" and "none,align" mean
 * what they say.  *checks is 0 after an error. */
int vg_checks_parse(const char *text, unsigned *checks, char *err,
                    size_t errsize)
{
    unsigned bits = 0;

    *checks = 0;
    while (*text) {
        size_t n = strcspn(text, ",");
        bool minus = *text == '-';
        int k = find(text + minus, n - minus);

        if (k < 0) {
            snprintf(err, errsize,
                     "VGPU_CHECKS: \"%.*s\" is not a check; allowed: all, "
                     "none, align, uninit, race, async, proxy, copies, grid, "
                     "release, strict, each with a leading - to exclude it",
                     (int)n, text);
            return -1;
        }
        bits = minus ? bits & ~names[k].bits : bits | names[k].bits;
        text += n + (text[n] == ',');
    }
    *checks = bits;
    return 0;
}
