/* SPDX-License-Identifier: Apache-2.0
 *
 * surrogates.c: see surrogates.h.
 */
#include <string.h>

#include "surrogates.h"

/* The value of "\uXXXX" at p, or -1 when no such escape stands there.  | 0x20
 * makes letters lower case and leaves digits alone. */
static long escape_at(const char *p, const char *end) {
    static const char digits[] = "0123456789abcdef";
    long value = 0;
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        const char *digit = memchr(digits, p[i] | 0x20, 16);
        if (!digit)
            return -1;
        value = value * 16 + (digit - digits);
    }
    return value;
}

/* The first half of a pair (Unicode 3.8, D71). */
static bool is_high(long value) {
    return value >= 0xD800 && value < 0xDC00;
}

/* The second half (D73). */
static bool is_low(long value) {
    return value >= 0xDC00 && value < 0xE000;
}

/* The first half is enough: alone it is an error either way. */
bool mlagen_has_surrogates(const char *text, size_t len) {
    const char *p = text, *end = text + len;
    while (p < end && strchr(" \t\r\n", *p) && *p)
        p++;
    if (p == end || (*p != '{' && *p != '['))
        return false;
    while ((p = memchr(p, '\\', (size_t)(end - p)))) {
        if (is_high(escape_at(p, end)))
            return true;
        p++;
    }
    return false;
}

void mlagen_join_surrogates(const char *text, size_t len,
                            struct mlagen_buf *out) {
    const char *p = text, *end = text + len;
    for (const char *slash; (slash = memchr(p, '\\', (size_t)(end - p)));) {
        long high = escape_at(slash, end);
        long low = is_high(high) ? escape_at(slash + 6, end) : -1;
        mlagen_buf_add(out, p, (size_t)(slash - p));
        if (is_low(low)) {
            mlagen_buf_printf(out, "\\U%08lX",
                              0x10000 + ((high - 0xD800) << 10) + low - 0xDC00);
            p = slash + 12;
        } else {
            /* An escape is taken with what it escapes: "\\ud83d" is none. */
            size_t size = end - slash < 2 ? 1 : 2;
            mlagen_buf_add(out, slash, size);
            p = slash + size;
        }
    }
    mlagen_buf_add(out, p, (size_t)(end - p));
}
