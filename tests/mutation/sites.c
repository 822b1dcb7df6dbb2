/* SPDX-License-Identifier: Apache-2.0
 *
 * sites.c: finding and taking out synchronising instructions in PTX text.
 *
 * The text is NVRTC's, one instruction a line, inline assembly included; what
 * precedes a site on its line is blanks and at most a guard.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutation.h"

/* What makes an instruction a site, and in which ways it is taken out; an
 * opcode may have two.  A prefix ends at a dot, so "fence" is no part of
 * another word. */
static const struct rule {
    const char *prefix;
    enum mutation_kind kind;
} rules[] = {
    {"bar.sync", MUTATION_REMOVED},
    {"bar.arrive", MUTATION_REMOVED},
    {"bar.warp.sync", MUTATION_REMOVED},
    {"barrier.cta.sync", MUTATION_REMOVED},
    {"barrier.cta.arrive", MUTATION_REMOVED},
    {"barrier.sync", MUTATION_REMOVED},
    {"bar.red", MUTATION_OWN_VOTE},
    {"bar.red", MUTATION_NO_VOTE},
    {"barrier.cta.red", MUTATION_OWN_VOTE},
    {"barrier.cta.red", MUTATION_NO_VOTE},
    {"cp.async.commit_group", MUTATION_REMOVED},
    {"cp.async.wait_group", MUTATION_REMOVED},
    {"cp.async.wait_all", MUTATION_REMOVED},
    {"cp.async.mbarrier.arrive", MUTATION_REMOVED},
    {"shfl.sync", MUTATION_OWN_VALUE},
    {"vote.sync.ballot", MUTATION_OWN_VOTE},
    {"vote.sync.any", MUTATION_OWN_VOTE},
    {"mbarrier.init", MUTATION_REMOVED},
    {"mbarrier.try_wait", MUTATION_NO_WAIT},
    {"mbarrier.arrive", MUTATION_REMOVED},
    {"wgmma.fence", MUTATION_REMOVED},
    {"wgmma.commit_group", MUTATION_REMOVED},
    {"wgmma.wait_group", MUTATION_REMOVED},
    {"barrier.cluster", MUTATION_REMOVED},
    {"setmaxnreg.dec", MUTATION_REMOVED},
    {"membar", MUTATION_REMOVED},
    {"fence", MUTATION_REMOVED},
};

const char *mutation_name(enum mutation_kind kind)
{
    static const char *const names[] = {
        [MUTATION_REMOVED] = "removed",
        [MUTATION_OWN_VALUE] = "yields its own value",
        [MUTATION_OWN_VOTE] = "counts its own vote",
        [MUTATION_NO_VOTE] = "loses the vote, not the barrier",
        [MUTATION_NO_WAIT] = "does not wait"};
    return names[kind];
}

/* Finding ----------------------------------------------------------------- */

/* The instruction of a line: past blanks and a guard. */
static const char *instruction(const char *line)
{
    line += strspn(line, " \t");
    if (*line == '@') {
        line += strcspn(line, " \t\n");
        line += strspn(line, " \t");
    }
    return line;
}

static bool is_word_end(char c)
{
    return c == '.' || c == ';' || c == 0 || isspace((unsigned char)c);
}

/* .loc file line column [, function_name ..., inlined_at file line column]:
 * the last line number is the outermost. */
static int location(const char *line, int current)
{
    const char *inlined = strstr(line, "inlined_at");
    const char *end = strchr(line, '\n');
    int number;

    if (inlined && (!end || inlined < end))
        return sscanf(inlined, "inlined_at %*d %d", &number) == 1 ? number
                                                                  : current;
    return sscanf(line, " .loc %*d %d", &number) == 1 ? number : current;
}

/* The sites found so far. */
struct list {
    struct mutation_site *site;
    int count;
};

/* at: the opcode, past blanks and guard; a site ends with its semicolon.  nth
 * and of come last (number). */
static void add(struct list *l, const char *ptx, const char *at,
                const struct rule *rule, int source_line)
{
    struct mutation_site *s;

    l->site = realloc(l->site, (size_t)(l->count + 1) * sizeof(*l->site));
    if (!l->site)
        abort();
    s = &l->site[l->count];
    memset(s, 0, sizeof(*s));
    s->at = (size_t)(at - ptx);
    s->bytes = strcspn(at, ";") + 1;
    s->kind = rule->kind;
    s->source_line = source_line;
    snprintf(s->opcode, sizeof(s->opcode), "%.*s", (int)strcspn(at, " \t;"),
             at);
    l->count++;
}

/* Numbers the sites of the same opcode and kind, which is how the table of
 * equivalents names them: line numbers change with every edit. */
static void number(struct list *l)
{
    for (int i = 0; i < l->count; i++) {
        struct mutation_site *s = &l->site[i];
        for (int k = 0; k < l->count; k++) {
            int same = strcmp(l->site[k].opcode, s->opcode) == 0 &&
                       l->site[k].kind == s->kind;
            s->nth += same && k <= i;
            s->of += same;
        }
    }
}

struct mutation_site *mutation_sites(const char *ptx, int *count)
{
    struct list l = {NULL, 0};
    int source_line = 0;

    for (const char *line = ptx; line && *line;) {
        const char *at = instruction(line);
        source_line = location(line, source_line);
        for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
            size_t n = strlen(rules[i].prefix);
            if (strncmp(at, rules[i].prefix, n) == 0 && is_word_end(at[n]))
                add(&l, ptx, at, &rules[i], source_line);
        }
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    number(&l);
    *count = l.count;
    return l.site;
}

/* Taking out -------------------------------------------------------------- */

enum { MOST_OPERANDS = 8 };

/* Of an instruction, as text. */
struct operands {
    int count;
    char text[MOST_OPERANDS][32];
};

/* Splits "op a|b, c, d;" at commas; of "a|b" the first counts. */
static struct operands parse(const char *at)
{
    struct operands o = {0};
    const char *p = at + strcspn(at, " \t");

    while (*p && *p != ';' && o.count < MOST_OPERANDS) {
        size_t n;
        p += strspn(p, " \t,");
        n = strcspn(p, " \t,|;");
        if (n && n < sizeof(o.text[0]))
            memcpy(o.text[o.count++], p, n);
        p += n;
        if (*p == '|')
            p += strcspn(p, " \t,;");
        p += strspn(p, " \t");
    }
    return o;
}

/* What stands in the instruction's place. */
static void replacement(const struct mutation_site *s, const char *at,
                        char *out, size_t size)
{
    struct operands o = parse(at);
    bool is_ballot = strstr(s->opcode, ".ballot") != NULL;
    const char *result = o.text[0];

    *out = 0;
    if (s->kind == MUTATION_OWN_VALUE)
        snprintf(out, size, "mov.b32 %s, %s;", result, o.text[1]);
    else if (s->kind == MUTATION_OWN_VOTE && is_ballot)
        snprintf(out, size, "selp.b32 %s, -1, 0, %s;", result, o.text[1]);
    else if (s->kind == MUTATION_OWN_VOTE)
        snprintf(out, size, "mov.pred %s, %s;", result,
                 o.text[strncmp(s->opcode, "vote", 4) ? o.count - 1 : 1]);
    else if (s->kind == MUTATION_NO_VOTE)
        snprintf(out, size, "bar.sync %s%s%s; mov.pred %s, %s;", o.text[1],
                 o.count > 3 ? ", " : "", o.count > 3 ? o.text[2] : "", result,
                 o.text[o.count - 1]);
    else if (s->kind == MUTATION_NO_WAIT)
        snprintf(out, size, "setp.eq.u32 %s, 0, 0;", result);
}

/* A guard before a removed instruction guards a harmless one. */
char *mutation_apply(const char *ptx, const struct mutation_site *s)
{
    char text[160];
    size_t length = strlen(ptx);
    char *out = malloc(length + sizeof(text) + 1);
    size_t tail = s->at + s->bytes;

    if (!out)
        abort();
    replacement(s, ptx + s->at, text, sizeof(text));
    if (!*text && s->at > 0 && ptx[s->at - 1] != '\n') {
        const char *line = ptx + s->at;
        while (line > ptx && line[-1] != '\n')
            line--;
        if (memchr(line, '@', (size_t)(ptx + s->at - line)))
            strcpy(text, "pmevent 0;");
    }
    sprintf(out, "%.*s%s%s", (int)s->at, ptx, text, ptx + tail);
    return out;
}
