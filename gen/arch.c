/* SPDX-License-Identifier: Apache-2.0
 *
 * arch: see arch.h.  The grammar is
 *
 *     arch   := prefix? number suffix?
 *     prefix := "sm_" | "compute_"
 *     number := digits "." digit | digits digit
 *     suffix := "a" | "f"
 *
 * with the last digit the minor number, as NVIDIA spells it (sm_120 is 12.0).
 */
#include "arch.h"

#include <stdio.h>
#include <string.h>

enum { MAJOR_MAX = 99 };

static const char *skip_prefix(const char *text)
{
    static const char *const prefixes[] = {"sm_", "compute_"};

    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t n = strlen(prefixes[i]);

        if (strncmp(text, prefixes[i], n) == 0)
            return text + n;
    }
    return text;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The digits before the suffix, with the dot taken out: at least two, no
 * leading zero.  Returns the end of the number or NULL. */
static const char *parse_number(const char *p, struct mlagen_arch *out)
{
    int value = 0;
    int digits = 0;
    bool dot = false;

    for (; is_digit(*p) || (*p == '.' && !dot && digits > 0); p++) {
        if (*p == '.') {
            dot = true;
            if (!is_digit(p[1]) || is_digit(p[2]))
                return NULL;
            continue;
        }
        if (digits == 0 && *p == '0')
            return NULL;
        value = value * 10 + (*p - '0');
        digits++;
        if (value > MAJOR_MAX * 10 + 9)
            return NULL;
    }
    if (digits < 2)
        return NULL;
    out->major = value / 10;
    out->minor = value % 10;
    return p;
}

bool mlagen_arch_parse(const char *text, struct mlagen_arch *out)
{
    struct mlagen_arch a = {0, 0, '\0'};
    const char *p = parse_number(skip_prefix(text), &a);

    *out = (struct mlagen_arch){0, 0, '\0'};
    if (!p)
        return false;
    if (*p == 'a' || *p == 'f')
        a.suffix = *p++;
    if (*p)
        return false;
    *out = a;
    return true;
}

const char *mlagen_arch_name(struct mlagen_arch a, char name[MLAGEN_ARCH_NAME])
{
    char suffix[2] = {a.suffix, '\0'};

    snprintf(name, MLAGEN_ARCH_NAME, "sm_%d%d%s", a.major % 100, a.minor % 10,
             suffix);
    return name;
}

int mlagen_arch_compare(struct mlagen_arch a, struct mlagen_arch b)
{
    if (a.major != b.major)
        return a.major < b.major ? -1 : 1;
    if (a.minor != b.minor)
        return a.minor < b.minor ? -1 : 1;
    return (a.suffix > b.suffix) - (a.suffix < b.suffix);
}
