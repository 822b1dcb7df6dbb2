/* SPDX-License-Identifier: Apache-2.0
 *
 * buf.c: see buf.h.  Capacity doubles; a NUL always follows the text, so that
 * `data` can be handed to anything that wants a C string.
 *
 * Two of the ways to append are for text of unknown origin.  A diagnostic may
 * quote a file that is no text at all, and it still has to be one line of valid
 * UTF-8 on a terminal, or a valid string in JSON.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "buf.h"

/* Makes room for `more` bytes and the NUL; false marks the buffer failed.
 * Half of SIZE_MAX is the limit, so that doubling cannot overflow. */
static bool reserve(struct mlagen_buf *b, size_t more) {
    if (b->failed || more > SIZE_MAX / 2 - b->len) {
        b->failed = true;
        return false;
    }
    size_t need = b->len + more + 1;
    if (need <= b->cap)
        return true;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap *= 2;
    char *data = mlagen_realloc(b->data, cap);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

/* Bytes, whatever they are; a NUL among them ends the C string, not
 * the text. */
void mlagen_buf_add(struct mlagen_buf *b, const void *bytes, size_t len) {
    if (!reserve(b, len))
        return;
    if (len)
        memcpy(b->data + b->len, bytes, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void mlagen_buf_str(struct mlagen_buf *b, const char *text) {
    mlagen_buf_add(b, text, strlen(text));
}

void mlagen_buf_char(struct mlagen_buf *b, char c) {
    mlagen_buf_add(b, &c, 1);
}

void mlagen_buf_printf(struct mlagen_buf *b, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    mlagen_buf_vprintf(b, format, ap);
    va_end(ap);
}

/* Formats twice: once for the length, once into place. */
void mlagen_buf_vprintf(struct mlagen_buf *b, const char *format, va_list ap) {
    va_list again;
    va_copy(again, ap);
    int len = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (len < 0) {
        b->failed = true;
        return;
    }
    if (!reserve(b, (size_t)len))
        return;
    vsnprintf(b->data + b->len, (size_t)len + 1, format, ap);
    b->len += (size_t)len;
}

/* The digits are written from the last one backwards. */
const char *mlagen_digits(long long value, char room[MLAGEN_DIGITS],
                          size_t *len) {
    char *at = room + MLAGEN_DIGITS;
    unsigned long long rest =
        value < 0 ? 0 - (unsigned long long)value : (unsigned long long)value;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (value < 0)
        *--at = '-';
    *len = (size_t)(room + MLAGEN_DIGITS - at);
    return at;
}

/* Length of the well-formed UTF-8 sequence at p, 0 when there is none
 * (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF).  A row of the
 * table is a form of Unicode's Table 3-7, "Well-Formed UTF-8 Byte Sequences",
 * ASCII aside: only the second byte's range depends on the first byte. */
static size_t utf8_len(const unsigned char *p, size_t left) {
    static const struct {
        unsigned char lead_min, lead_max, second_min, second_max, len;
    } forms[] = {
        {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3},
        {0xEE, 0xEF, 0x80, 0xBF, 3}, {0xF0, 0xF0, 0x90, 0xBF, 4},
        {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    if (*p < 0x80)
        return 1;
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        size_t len = forms[f].len;
        if (*p < forms[f].lead_min || *p > forms[f].lead_max)
            continue;
        if (len > left)
            return 0;
        if (p[1] < forms[f].second_min || p[1] > forms[f].second_max)
            return 0;
        for (size_t i = 2; i < len; i++)
            if ((p[i] & 0xC0) != 0x80)
                return 0;
        return len;
    }
    return 0;
}

/* Length of the run of ASCII at p; eight bytes at a time, for most text is
 * nothing else. */
static size_t ascii_run(const unsigned char *p, size_t left) {
    size_t n = 0;
    for (uint64_t eight; left - n >= sizeof eight; n += sizeof eight) {
        memcpy(&eight, p + n, sizeof eight);
        if (eight & 0x8080808080808080u)
            break;
    }
    while (n < left && p[n] < 0x80)
        n++;
    return n;
}

/* The empty text is valid. */
bool mlagen_utf8_valid(const char *text, size_t len) {
    const unsigned char *p = (const unsigned char *)text;
    for (size_t i = ascii_run(p, len), n; i < len;
         i += ascii_run(p + i, len - i)) {
        if (!(n = utf8_len(p + i, len - i)))
            return false;
        i += n;
    }
    return true;
}

/* Length of the run at p that a JSON string holds as it is: printable ASCII
 * but quote and backslash. */
static size_t plain_run(const unsigned char *p, size_t left) {
    size_t n = 0;
    while (n < left && p[n] >= 0x20 && p[n] < 0x7F && p[n] != '"' &&
           p[n] != '\\')
        n++;
    return n;
}

/* What stands for the one character at p, which is `n` bytes long (0: no
 * character at all). */
static void add_escaped(struct mlagen_buf *b, const unsigned char *p,
                        size_t n) {
    if (n == 0)
        mlagen_buf_str(b, "\\ufffd");
    else if (*p == '"' || *p == '\\')
        mlagen_buf_printf(b, "\\%c", *p);
    else if (*p < 0x20 || *p == 0x7F)
        mlagen_buf_printf(b, "\\u%04x", *p);
    else
        mlagen_buf_add(b, p, n);
}

/* Besides what JSON demands, DEL is escaped: it is no text either. */
void mlagen_buf_json(struct mlagen_buf *b, const char *text, size_t len) {
    const unsigned char *p = (const unsigned char *)text;
    mlagen_buf_char(b, '"');
    for (size_t i = 0; i < len;) {
        size_t plain = plain_run(p + i, len - i);
        mlagen_buf_add(b, p + i, plain);
        i += plain;
        if (i < len) {
            size_t n = utf8_len(p + i, len - i);
            add_escaped(b, p + i, n);
            i += n ? n : 1;
        }
    }
    mlagen_buf_char(b, '"');
}

/* Well-formed UTF-8 passes unchanged, the rest byte by byte. */
void mlagen_buf_visible(struct mlagen_buf *b, const char *text, size_t len) {
    const unsigned char *p = (const unsigned char *)text;
    for (size_t i = 0, n; i < len; i += n ? n : 1) {
        n = utf8_len(p + i, len - i);
        if (p[i] == '\n')
            mlagen_buf_str(b, "\\n");
        else if (p[i] == '\t')
            mlagen_buf_str(b, "\\t");
        else if (n == 0 || p[i] < 0x20 || p[i] == 0x7F)
            mlagen_buf_printf(b, "\\x%02x", p[i]);
        else
            mlagen_buf_add(b, p + i, n);
    }
}

/* Never NULL, so that a caller can print an empty or failed buffer. */
const char *mlagen_buf_text(const struct mlagen_buf *b) {
    return b->data ? b->data : "";
}

/* Longer than the text is no cut: a failed buffer has less than its
 * user thinks. */
void mlagen_buf_cut(struct mlagen_buf *b, size_t len) {
    if (len >= b->len)
        return;
    b->len = len;
    b->data[len] = '\0';
}

/* For a buffer that is filled again and again. */
void mlagen_buf_clear(struct mlagen_buf *b) {
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = '\0';
}

/* The buffer may be used again afterwards. */
void mlagen_buf_free(struct mlagen_buf *b) {
    mlagen_free(b->data);
    *b = (struct mlagen_buf){0};
}
