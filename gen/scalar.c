/* SPDX-License-Identifier: Apache-2.0
 *
 * scalar.c: see scalar.h.  The grammar is checked by hand; only text that fits
 * it reaches strtod_l, which would accept hexadecimal, infinities and blanks.
 */
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "scalar.h"

/* The first byte that is no digit; isdigit would ask the locale. */
static const char *skip_digits(const char *p) {
    while (*p >= '0' && *p <= '9')
        p++;
    return p;
}

/* -?(0|[1-9][0-9]*): the byte after it, or NULL. */
static const char *skip_int(const char *p) {
    p += *p == '-';
    if (*p == '0')
        return p + 1;
    const char *end = skip_digits(p);
    return end > p ? end : NULL;
}

/* The byte after a JSON number, or NULL. */
static const char *skip_number(const char *p) {
    p = skip_int(p);
    if (p && *p == '.') {
        const char *digits = p + 1;
        p = skip_digits(digits);
        if (p == digits)
            return NULL;
    }
    if (p && (*p == 'e' || *p == 'E')) {
        p++;
        p += *p == '+' || *p == '-';
        const char *digits = p;
        p = skip_digits(digits);
        if (p == digits)
            return NULL;
    }
    return p;
}

/* skip_int stops at the first NUL, so one inside the text fails the comparison
 * with its end. */
enum mlagen_scan mlagen_scan_int(const char *text, size_t len, int64_t *out) {
    if (skip_int(text) != text + len)
        return MLAGEN_SCAN_NO;
    /* Counted downwards, where there is room for one more. */
    int64_t value = 0;
    for (const char *p = text + (*text == '-'); *p; p++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, *p - '0', &value))
            return MLAGEN_SCAN_RANGE;
    if (*text != '-' && __builtin_sub_overflow((int64_t)0, value, &value))
        return MLAGEN_SCAN_RANGE;
    *out = value;
    return MLAGEN_SCAN_OK;
}

enum mlagen_scan mlagen_scan_float(const char *text, size_t len, double *out) {
    if (skip_number(text) != text + len)
        return MLAGEN_SCAN_NO;
    /* The C locale is static in libc: this neither allocates nor fails. */
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale)
        return MLAGEN_SCAN_RANGE;
    double value = strtod_l(text, NULL, c_locale);
    freelocale(c_locale);
    if (!isfinite(value))
        return MLAGEN_SCAN_RANGE;
    *out = value;
    return MLAGEN_SCAN_OK;
}
