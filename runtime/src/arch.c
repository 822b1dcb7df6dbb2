/* SPDX-License-Identifier: Apache-2.0
 *
 * arch.c: names of GPU architectures and who runs whose code.
 *
 * Three traps are avoided here: names are numbers and never compared as text
 * (sm_100 > sm_90); the minor version is the last digit alone (sm_120 is
 * 12.0); and a suffix binds: code with `a` runs on exactly its own
 * capability, code with `f` on its own generation from its minor version up.
 */
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "arch.h"

/* Boards whose machine code is exchanged with no other capability (the
 * Programming Guide excludes Tegra from binary compatibility). */
static const struct mla__arch tegra[] = {
    {5, 3, 0}, {6, 2, 0}, {7, 2, 0}, {8, 7, 0}, {10, 1, 0}, {11, 0, 0}
};

/* The text behind sm_ or compute_, or the text itself. */
static const char *skip_prefix(const char *text)
{
    static const char *const prefix[] = {"sm_", "compute_"};
    for (size_t i = 0; i < sizeof(prefix) / sizeof(prefix[0]); i++) {
        size_t n = strlen(prefix[i]);
        if (strncmp(text, prefix[i], n) == 0)
            return text + n;
    }
    return text;
}

/* Up to three digits; *digits says how many there were. */
static int number(const char **text, int *digits)
{
    int value = 0;
    *digits = 0;
    while (isdigit((unsigned char)**text) && *digits < 4) {
        value = value * 10 + (*(*text)++ - '0');
        ++*digits;
    }
    return value;
}

bool mla__arch_parse(const char *text, struct mla__arch *out,
                     const char **reason)
{
    const char *p = skip_prefix(text);
    int digits, value = number(&p, &digits), minor_digits = 1;
    struct mla__arch arch = {value / 10, value % 10, 0};
    bool dotted = *p == '.';

    *out = (struct mla__arch){0, 0, 0};
    if (dotted) {
        p++;
        arch.major = value;
        arch.minor = number(&p, &minor_digits);
    }
    if (*p == 'a' || *p == 'f')
        arch.suffix = *p++;
    *reason = NULL;
    if (digits == 0)
        *reason = "it does not begin with a version number";
    else if (digits > (dotted ? 2 : 3) || minor_digits != 1)
        *reason = "the version is major and one digit of minor";
    else if (!dotted && digits == 1)
        *reason = "the minor version is missing";
    else if (arch.major < 5)
        *reason = "no such generation (12.0 is written sm_120)";
    else if (*p != 0)
        *reason = "only the suffixes a and f are known";
    if (*reason)
        return false;
    *out = arch;
    return true;
}

static bool is_tegra(int major, int minor)
{
    for (size_t i = 0; i < sizeof(tegra) / sizeof(tegra[0]); i++)
        if (tegra[i].major == major && tegra[i].minor == minor)
            return true;
    return false;
}

/* Cubins: same capability, or the same generation from the lower minor version
 * up, Tegra aside.  PTX: any device that is not older.  Suffixes bind first. */
enum mla__fit mla__arch_fit(struct mla__arch arch, int major, int minor)
{
    bool exact = arch.major == major && arch.minor == minor;
    bool generation = arch.major == major && arch.minor <= minor;
    bool older = arch.major < major || generation;

    if (exact)
        return MLA__FIT_CUBIN;
    if (arch.suffix == 'a')
        return MLA__FIT_NONE;
    if (arch.suffix == 'f' && !generation)
        return MLA__FIT_NONE;
    if (generation && !is_tegra(major, minor) &&
        !is_tegra(arch.major, arch.minor))
        return MLA__FIT_CUBIN;
    return older ? MLA__FIT_PTX : MLA__FIT_NONE;
}

/* Kind of fit first, then the newest version, then the narrowest suffix. */
int mla__arch_rank(struct mla__arch arch, int major, int minor)
{
    int fit = mla__arch_fit(arch, major, minor);
    int suffix = arch.suffix == 'a' ? 2 : arch.suffix == 'f' ? 1 : 0;
    if (fit == MLA__FIT_NONE)
        return 0;
    return fit * 100000 + (arch.major * 10 + arch.minor) * 10 + suffix;
}
