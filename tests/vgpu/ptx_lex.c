/* SPDX-License-Identifier: Apache-2.0
 *
 * ptx_lex.c: characters to tokens (PTX ISA 4.1 to 4.5).
 *
 * PTX glues an opcode and its modifiers with dots, so a word swallows the
 * .parts that follow it (`ld.global.L2::128B.v4.u32` is one token); special
 * registers (`%tid.x`) come out whole by the same rule.  A directive is a dot
 * with one word.  The text ends with a 0 byte that this file relies on.
 *
 *     @%p1 ld.global.u32 %r1, [%rd1+4];
 *     '@'  %p1  ld.global.u32  %r1  ','  '['  %rd1  '+'  4  ']'  ';'
 */
#include "ptx_front.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a character can be: the start of a name (`%`, `$` and `_` included),
 * a further character of one, a decimal or hexadecimal digit, a blank.  Line
 * ends are none of these: they are counted. */
enum { C_START = 1, C_PART = 2, C_DIGIT = 4, C_HEX = 8, C_BLANK = 16 };

#define LETTER (C_START | C_PART)
#define HEXLETTER (C_START | C_PART | C_HEX)

static const unsigned char char_class[256] = {
    ['\t'] = C_BLANK,
    ['\r'] = C_BLANK,
    [' '] = C_BLANK,
    ['\f'] = C_BLANK,
    ['\v'] = C_BLANK,
    ['0' ... '9'] = C_PART | C_DIGIT | C_HEX,
    ['a' ... 'f'] = HEXLETTER,
    ['g' ... 'z'] = LETTER,
    ['A' ... 'F'] = HEXLETTER,
    ['G' ... 'Z'] = LETTER,
    ['_'] = LETTER,
    ['$'] = LETTER,
    ['%'] = LETTER,
};

/* Is c of one of these classes? */
static bool is(char c, unsigned cls)
{
    return char_class[(unsigned char)c] & cls;
}

/* The one way out of a bad text: the message goes to the caller's buffer, cut
 * where it ends, and control to ptx_parse. */
void ptx__fail(struct ptx_parser *p, int line, const char *fmt, ...)
{
    int n = snprintf(p->err, p->errsize, "ptx:%d: ", line);
    if (n > 0 && (size_t)n < p->errsize) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(p->err + n, p->errsize - (size_t)n, fmt, ap);
        va_end(ap);
    }
    longjmp(p->fail, 1);
}

/* Shows at most 60 characters of what was found: a token may be a string of
 * any length. */
void ptx__expected(struct ptx_parser *p, const char *what)
{
    const struct ptx_token *t = &p->tok;
    int n = t->n > 60 ? 60 : (int)t->n;
    if (t->kind == PTX_T_END)
        ptx__fail(p, t->line, "found the end of the text, expected %s", what);
    ptx__fail(p, t->line, "found '%.*s', expected %s", n, t->s, what);
}

/* --- blanks and comments ------------------------------------------------- */

/* Steps over a comment; its lines count.  Comments do not nest. */
static void skip_block_comment(struct ptx_parser *p)
{
    int first = p->line;
    for (p->at += 2; p->at[0] != '*' || p->at[1] != '/'; p->at++) {
        if (p->at >= p->end)
            ptx__fail(p, first, "found a comment without end, expected '*/'");
        p->line += *p->at == '\n';
    }
    p->at += 2;
}

/* Steps over everything that separates tokens. */
static void skip_blanks(struct ptx_parser *p)
{
    for (;;) {
        if (is(*p->at, C_BLANK)) {
            p->at++;
        } else if (*p->at == '\n') {
            p->at++;
            p->line++;
        } else if (p->at[0] == '/' && p->at[1] == '/') {
            p->at += strcspn(p->at, "\n");
        } else if (p->at[0] == '/' && p->at[1] == '*') {
            skip_block_comment(p);
        } else {
            return;
        }
    }
}

/* --- words --------------------------------------------------------------- */

/* The end of a run of name characters, `::` between two of them included. */
static const char *run_end(const char *s)
{
    for (;;) {
        while (is(*s, C_PART))
            s++;
        if (s[0] != ':' || s[1] != ':' || !is(s[2], C_PART))
            return s;
        s += 2;
    }
}

/* name{.part}: the parts may begin with a digit (.4d, .L2::128B). */
static void lex_word(struct ptx_parser *p)
{
    const char *s = run_end(p->at);
    while (s[0] == '.' && is(s[1], C_PART))
        s = run_end(s + 1);
    p->tok.kind = PTX_T_WORD;
    p->at = s;
}

/* .directive: nothing is swallowed behind it, since `.align 16` and
 * `.b8 x[4]` follow their own rules. */
static void lex_directive(struct ptx_parser *p)
{
    p->tok.kind = PTX_T_DIR;
    p->at = run_end(p->at + 1);
}

/* "...": kept as written; a backslash protects the character behind it. */
static void lex_string(struct ptx_parser *p)
{
    const char *s = p->at + 1;
    while (*s != '"') {
        if (*s == 0 || *s == '\n')
            ptx__fail(p, p->line, "found a string without end, expected '\"'");
        s += s[0] == '\\' && s[1] != 0 && s[1] != '\n' ? 2 : 1;
    }
    p->tok.kind = PTX_T_STRING;
    p->tok.s = p->at + 1;
    p->at = s + 1;
}

/* --- numbers (PTX ISA 4.5) ----------------------------------------------- */

/* Reports the whole run of characters that was meant as a number. */
static _Noreturn void bad_number(struct ptx_parser *p, const char *expected)
{
    p->tok.kind = PTX_T_INT;
    p->tok.n = (size_t)(run_end(p->at) - p->at);
    ptx__expected(p, expected);
}

/* 0f and 0d literals: exactly `digits` hexadecimal digits. */
static void lex_bit_pattern(struct ptx_parser *p, int digits)
{
    const char *s = p->at + 2;
    p->tok.kind = digits == 8 ? PTX_T_F32 : PTX_T_F64;
    for (int i = 0; i < digits; i++, s++) {
        if (!is(*s, C_HEX))
            bad_number(p, digits == 8 ? "0f and 8 hexadecimal digits"
                                      : "0d and 16 hexadecimal digits");
        unsigned v = is(*s, C_DIGIT) ? *s - '0' : (*s | 32) - 'a' + 10;
        p->tok.bits = p->tok.bits << 4 | v;
    }
    if (is(*s, C_PART))
        bad_number(p, digits == 8 ? "0f and 8 hexadecimal digits"
                                  : "0d and 16 hexadecimal digits");
    p->at = s;
}

/* 1.5, 0., 2e-3: always a double; who uses it as .f32 rounds it. */
static void lex_decimal_float(struct ptx_parser *p)
{
    char *end;
    double d = strtod(p->at, &end);
    if (is(*end, C_PART))
        bad_number(p, "a number");
    p->tok.kind = PTX_T_F64;
    memcpy(&p->tok.bits, &d, sizeof d);
    p->at = end;
}

/* Digits of the base from s on, with an optional U behind them. */
static void lex_integer(struct ptx_parser *p, const char *s, unsigned base)
{
    const char *first = s;
    uint64_t v = 0;
    for (; is(*s, C_HEX); s++) {
        unsigned d = is(*s, C_DIGIT) ? *s - '0' : (*s | 32) - 'a' + 10;
        if (d >= base)
            break;
        if (__builtin_mul_overflow(v, (uint64_t)base, &v) ||
            __builtin_add_overflow(v, (uint64_t)d, &v))
            bad_number(p, "an integer of at most 64 bits");
    }
    const char *digits_end = s;
    s += *s == 'U';
    if (is(*s, C_PART) || digits_end == first)
        bad_number(p, "a number");
    p->tok.kind = PTX_T_INT;
    p->tok.bits = v;
    p->at = s;
}

/* Which kind of number it is shows in the second character: 0f 0d 0x 0b, an
 * octal digit, or a dot or exponent behind decimal digits. */
static void lex_number(struct ptx_parser *p)
{
    const char *s = p->at;
    char second = s[0] == '0' ? s[1] | 32 : 0;
    if (second == 'f' || second == 'd')
        lex_bit_pattern(p, second == 'f' ? 8 : 16);
    else if (second == 'x')
        lex_integer(p, s + 2, 16);
    else if (second == 'b')
        lex_integer(p, s + 2, 2);
    else {
        while (is(*s, C_DIGIT))
            s++;
        if (*s == '.' || *s == 'e' || *s == 'E')
            lex_decimal_float(p);
        else if (p->at[0] == '0' && s > p->at + 1)
            lex_integer(p, p->at, 8);
        else
            lex_integer(p, p->at, 10);
    }
}

/* --- the face of the lexer ----------------------------------------------- */

/* Any other printable character stands for itself.  The 0 at the end of the
 * text is the end; a 0 or any other control character before it an error. */
static void lex_punct(struct ptx_parser *p)
{
    unsigned char c = (unsigned char)*p->at;
    if (p->at >= p->end) {
        p->tok.kind = PTX_T_END;
        return;
    }
    if (c < 32 || c > 126)
        ptx__fail(p, p->line, "found byte 0x%02x, expected PTX text", c);
    p->tok.kind = PTX_T_PUNCT;
    p->at++;
}

/* Reads the next token into p->tok.  The line of the token consumed is kept
 * for messages and instructions. */
void ptx__next(struct ptx_parser *p)
{
    p->prev_line = p->tok.line;
    skip_blanks(p);
    p->tok = (struct ptx_token){.s = p->at, .n = 1, .line = p->line};
    if (is(*p->at, C_START))
        lex_word(p);
    else if (is(*p->at, C_DIGIT))
        lex_number(p);
    else if (p->at[0] == '.' && is(p->at[1], C_START))
        lex_directive(p);
    else if (*p->at == '"')
        lex_string(p);
    else
        lex_punct(p);
    p->tok.n = (size_t)(p->at - p->tok.s) - (p->tok.kind == PTX_T_STRING);
}

/* Is the next token this character? */
bool ptx__is(const struct ptx_parser *p, char punct)
{
    return p->tok.kind == PTX_T_PUNCT && p->tok.s[0] == punct;
}

/* Is it this directive, dot included? */
bool ptx__is_dir(const struct ptx_parser *p, const char *directive)
{
    return p->tok.kind == PTX_T_DIR && strlen(directive) == p->tok.n &&
           memcmp(directive, p->tok.s, p->tok.n) == 0;
}

bool ptx__accept(struct ptx_parser *p, char punct)
{
    bool yes = ptx__is(p, punct);
    if (yes)
        ptx__next(p);
    return yes;
}

/* Consumes it, or fails. */
void ptx__expect(struct ptx_parser *p, char punct)
{
    char what[] = {'\'', punct, '\'', 0};
    if (!ptx__accept(p, punct))
        ptx__expected(p, what);
}

/* Consumes an integer without a sign; what: for the message. */
uint64_t ptx__integer(struct ptx_parser *p, const char *what)
{
    uint64_t v = p->tok.bits;
    if (p->tok.kind != PTX_T_INT)
        ptx__expected(p, what);
    ptx__next(p);
    return v;
}

/* `- -8` is 8: compilers print signs as they find them. */
int64_t ptx__signed(struct ptx_parser *p, const char *what)
{
    bool minus = false;
    while (ptx__accept(p, '-'))
        minus = !minus;
    uint64_t v = ptx__integer(p, what);
    return (int64_t)(minus ? -v : v);
}
