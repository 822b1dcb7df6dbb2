/* SPDX-License-Identifier: Apache-2.0
 *
 * buf.h: text that grows.
 *
 * Appending cannot be checked call by call without drowning the reader, so a
 * buffer remembers its first failure: after it every append does nothing, and
 * the caller looks at `failed` once, at the end.  A zeroed struct is an empty
 * buffer.  Not thread-safe; use one buffer per thread.
 */
#ifndef MLAGEN_BUF_H
#define MLAGEN_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct mlagen_buf {
    char *data; /* NUL-terminated once anything was appended; else NULL */
    size_t len; /* bytes, the NUL not counted */
    size_t cap;
    bool failed; /* memory ran out; data is what fitted before that */
};

void mlagen_buf_add(struct mlagen_buf *b, const void *bytes, size_t len);
void mlagen_buf_str(struct mlagen_buf *b, const char *text);
void mlagen_buf_char(struct mlagen_buf *b, char c);
void mlagen_buf_printf(struct mlagen_buf *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void mlagen_buf_vprintf(struct mlagen_buf *b, const char *format, va_list ap)
    __attribute__((format(printf, 2, 0)));

/* Appends `text` as a JSON string with its quotes.  Bytes that are no UTF-8
 * become U+FFFD, so that the result is JSON whatever came in. */
void mlagen_buf_json(struct mlagen_buf *b, const char *text, size_t len);

/* Appends `text` with control characters as \n, \t or \xNN: one line stays one
 * line, and a terminal is not driven by a file's content. */
void mlagen_buf_visible(struct mlagen_buf *b, const char *text, size_t len);

/* An integer in decimal, faster than printf: a generation holds some hundred
 * thousand.  @return where it begins in `room`, with its length in *len; no
 * NUL follows. */
enum { MLAGEN_DIGITS = 24 };
const char *mlagen_digits(long long value, char room[MLAGEN_DIGITS],
                          size_t *len);

/* True when the bytes are UTF-8 by RFC 3629. */
bool mlagen_utf8_valid(const char *text, size_t len);

/* The content as a C string; "" when empty.  Owned by the buffer. */
const char *mlagen_buf_text(const struct mlagen_buf *b);

/* Takes back what lies behind the first `len` bytes. */
void mlagen_buf_cut(struct mlagen_buf *b, size_t len);
void mlagen_buf_clear(struct mlagen_buf *b); /* keeps the memory, not failed */
void mlagen_buf_free(struct mlagen_buf *b);  /* leaves an empty buffer */

#endif
