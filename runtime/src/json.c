/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c: a recursive descent over RFC 8259.
 *
 * The parser keeps the first error and the place where it stood; every
 * function returns NULL or false after it.  Nodes form a chain, newest first,
 * so that a failed parse frees what it made without walking a broken tree.
 *
 * It is here because memory comes from the context's allocator, node by node:
 * JSON libraries have one allocator per process.  Reading a manifest of some
 * hundred kilobytes takes about a millisecond.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "json.h"

/* The parser calls itself once per level, so depth is stack; manifests are
 * about 8 levels deep. */
enum { MAX_DEPTH = 64 };

struct parser {
    mla_context *ctx;
    char *p;
    struct mla__json *last; /* chain of all nodes */
    const char *error;
    bool no_memory;
    /* Of the text as it came: strings are decoded in place, so a newline that
     * lies behind p may be one of theirs. */
    int line;
    const char *line_start;
};

static struct mla__json *value(struct parser *s, int depth);

/* Keeps the first error, whose place is where the parser stands.  Returns
 * NULL so that any function can end with it; later errors are consequences of
 * the first. */
static void *refuse(struct parser *s, const char *error)
{
    if (!s->error)
        s->error = error;
    return NULL;
}

/* The four blanks of RFC 8259 section 2. */
static void skip_space(struct parser *s)
{
    for (;; s->p++) {
        if (*s->p == '\n') {
            s->line++;
            s->line_start = s->p + 1;
        } else if (*s->p != ' ' && *s->p != '\t' && *s->p != '\r') {
            return;
        }
    }
}

/* Steps over the character if it is next, leading blanks included. */
static bool take(struct parser *s, char c)
{
    skip_space(s);
    if (*s->p != c)
        return false;
    s->p++;
    return true;
}

/* A new node, at the head of the chain. */
static struct mla__json *node(struct parser *s, enum mla__json_type type)
{
    struct mla__json *n = mla__alloc(s->ctx, sizeof(*n));
    if (!n) {
        s->no_memory = true;
        return refuse(s, "out of memory");
    }
    n->type = type;
    n->made_before = s->last;
    s->last = n;
    return n;
}

/* Strings --------------------------------------------------------------- */

/* Four hexadecimal digits as a number, or -1; stops at the end of the text. */
static int hex4(const char *p)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdefABCDEF", *at;
        at = p[i] ? strchr(digits, p[i]) : NULL;
        if (!at)
            return -1;
        v = v * 16 + (int)(at - digits < 16 ? at - digits : at - digits - 6);
    }
    return v;
}

/* Appends a code point and returns the new end. */
static char *put_utf8(char *out, unsigned c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    } else {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 63));
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    }
    return out;
}

/* \uXXXX after the 'u', with its second half if it is a surrogate.  \u0000 is
 * refused: strings end with NUL here. */
static char *unicode_escape(struct parser *s, char *out)
{
    int c = hex4(s->p), low;
    if (c <= 0)
        return refuse(s, "bad \\u escape");
    s->p += 4;
    if (c >= 0xd800 && c < 0xe000) {
        low = c < 0xdc00 && s->p[0] == '\\' && s->p[1] == 'u' ? hex4(s->p + 2)
                                                              : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return refuse(s, "half of a surrogate pair");
        s->p += 6;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    return put_utf8(out, (unsigned)c);
}

/* One escape behind its backslash; returns the new end, or NULL. */
static char *escape(struct parser *s, char *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *at;
    char c = *s->p;

    if (c == 'u') {
        s->p++;
        return unicode_escape(s, out);
    }
    at = c ? strchr(from, c) : NULL;
    if (!at)
        return refuse(s, "unknown escape");
    s->p++;
    *out = to[at - from];
    return out + 1;
}

/* Decodes in place: no escape is shorter than what it stands for, and the NUL
 * overwrites the closing quote at the latest.  Bytes above 0x7f are kept as
 * they are. */
static char *string(struct parser *s)
{
    char *begin, *out;

    if (!take(s, '"'))
        return refuse(s, "a string is expected");
    begin = out = s->p;
    while (out && *s->p != '"') {
        if ((unsigned char)*s->p < 0x20)
            return refuse(s, *s->p ? "control character in a string"
                                   : "the text ends inside a string");
        if (*s->p == '\\') {
            s->p++;
            out = escape(s, out);
        } else {
            *out++ = *s->p++;
        }
    }
    if (!out)
        return NULL;
    s->p++;
    *out = 0;
    return begin;
}

/* Numbers and words ----------------------------------------------------- */

/* The end of a run of digits, which may be empty. */
static char *digits(char *p)
{
    return p + strspn(p, "0123456789");
}

/* End of a number by the grammar, or NULL; *integral: no fraction. */
static char *number_end(char *p, bool *integral)
{
    char *q;
    *integral = true;
    p += *p == '-';
    q = *p == '0' ? p + 1 : digits(p);
    if (q == p)
        return NULL;
    if (*q == '.') {
        *integral = false;
        p = q + 1;
        q = digits(p);
        if (q == p)
            return NULL;
    }
    if (*q == 'e' || *q == 'E') {
        *integral = false;
        p = q + 1;
        p += *p == '+' || *p == '-';
        q = digits(p);
        if (q == p)
            return NULL;
    }
    return q;
}

/* An integer that 64 bits cannot hold is refused rather than rounded. */
static struct mla__json *number(struct parser *s)
{
    bool integral;
    char *end = number_end(s->p, &integral);
    struct mla__json *n;

    if (!end)
        return refuse(s, "a value is expected");
    n = node(s, integral ? MLA__JSON_INT : MLA__JSON_REAL);
    if (!n)
        return NULL;
    n->real = strtod(s->p, NULL);
    errno = 0;
    if (integral)
        n->integer = strtoll(s->p, NULL, 10);
    if (errno == ERANGE || !isfinite(n->real))
        return refuse(s, "number out of range");
    s->p = end;
    return n;
}

/* true, false, null; anything else must be a number, whose error is the one
 * for a character that begins no value. */
static struct mla__json *word(struct parser *s)
{
    static const struct {
        const char *text;
        enum mla__json_type type;
        int value;
    } words[] = {{"true", MLA__JSON_BOOL, 1},
                 {"false", MLA__JSON_BOOL, 0},
                 {"null", MLA__JSON_NULL, 0}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t length = strlen(words[i].text);
        if (strncmp(s->p, words[i].text, length) == 0) {
            struct mla__json *n = node(s, words[i].type);
            if (n)
                n->integer = words[i].value;
            s->p += length;
            return n;
        }
    }
    return number(s);
}

/* Containers ------------------------------------------------------------ */

/* Behind the '['.  Children are appended at the tail, so they keep
 * their order. */
static struct mla__json *array(struct parser *s, int depth)
{
    struct mla__json *n = node(s, MLA__JSON_ARRAY);
    struct mla__json **tail = n ? &n->child : NULL;

    if (!n || take(s, ']'))
        return n;
    do {
        *tail = value(s, depth + 1);
        if (!*tail)
            return NULL;
        tail = &(*tail)->next;
        n->count++;
    } while (take(s, ','));
    return take(s, ']') ? n : refuse(s, "',' or ']' is expected");
}

/* "key": value; the value goes to *tail.  Looking for the key among the
 * members before it is quadratic, but objects of a manifest have a few dozen
 * at most. */
static bool named_member(struct parser *s, struct mla__json *object,
                         struct mla__json **tail, int depth)
{
    char *key;

    skip_space(s);
    key = string(s);
    if (!key)
        return false;
    if (mla__json_get(object, key))
        return refuse(s, "a key appears twice");
    if (!take(s, ':'))
        return refuse(s, "':' is expected");
    *tail = value(s, depth + 1);
    if (!*tail)
        return false;
    (*tail)->key = key;
    object->count++;
    return true;
}

/* Behind the '{'. */
static struct mla__json *object(struct parser *s, int depth)
{
    struct mla__json *n = node(s, MLA__JSON_OBJECT);
    struct mla__json **tail = n ? &n->child : NULL;

    if (!n || take(s, '}'))
        return n;
    do {
        if (!named_member(s, n, tail, depth))
            return NULL;
        tail = &(*tail)->next;
    } while (take(s, ','));
    return take(s, '}') ? n : refuse(s, "',' or '}' is expected");
}

static struct mla__json *value(struct parser *s, int depth)
{
    struct mla__json *n;

    if (depth > MAX_DEPTH)
        return refuse(s, "nested too deeply");
    if (take(s, '{'))
        return object(s, depth);
    if (take(s, '['))
        return array(s, depth);
    if (*s->p != '"')
        return word(s);
    n = node(s, MLA__JSON_STRING);
    if (n)
        n->string = string(s);
    return n && n->string ? n : NULL;
}

/* Face ------------------------------------------------------------------ */

/* Every node exactly once, however broken the tree is. */
static void free_chain(mla_context *ctx, struct mla__json *n)
{
    while (n) {
        struct mla__json *before = n->made_before;
        mla__free(ctx, n);
        n = before;
    }
}

/* The root is the oldest node; it carries the chain's newest end so that the
 * tree can be freed from the root alone. */
static struct mla__json *close_chain(struct mla__json *last,
                                     struct mla__json *root)
{
    struct mla__json *n = last;
    if (n == root)
        return root;
    while (n->made_before != root)
        n = n->made_before;
    n->made_before = NULL;
    root->made_before = last;
    return root;
}

/* Line and column of the place where the parser stopped. */
static void locate(const struct parser *s, struct mla__json_error *error)
{
    error->line = s->line;
    error->column = (int)(s->p - s->line_start) + 1;
    error->text = s->error;
}

/* The chain is closed only when all went well: until then s.last is what owns
 * the nodes. */
mla_status mla__json_parse(mla_context *ctx, char *text,
                           struct mla__json **out,
                           struct mla__json_error *error)
{
    struct parser s = {
        .ctx = ctx, .p = text, .line = 1, .line_start = text};
    struct mla__json *root = value(&s, 0);

    *out = NULL;
    skip_space(&s);
    if (root && *s.p)
        refuse(&s, "text after the value");
    if (s.error) {
        locate(&s, error);
        free_chain(ctx, s.last);
        return s.no_memory ? MLA_OUT_OF_MEMORY : MLA_BAD_MANIFEST;
    }
    *out = close_chain(s.last, root);
    return MLA_OK;
}

void mla__json_free(mla_context *ctx, struct mla__json *root)
{
    free_chain(ctx, root);
}

const struct mla__json *mla__json_get(const struct mla__json *object,
                                      const char *key)
{
    const struct mla__json *n;

    if (!object || object->type != MLA__JSON_OBJECT)
        return NULL;
    for (n = object->child; n; n = n->next)
        if (n->key && strcmp(n->key, key) == 0)
            return n;
    return NULL;
}
