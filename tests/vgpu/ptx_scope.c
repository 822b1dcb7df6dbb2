/* SPDX-License-Identifier: Apache-2.0
 *
 * ptx_scope.c: the memory of a module, its interned names, and scopes.
 *
 * `{ }` in PTX opens a scope for registers, variables and labels alike (PTX
 * ISA 4.3.1 and 7.1), and inlined assembly makes much use of it: the label
 * DONE may stand in a kernel forty times.  Each name keeps a stack of its
 * meanings; closing a scope pops what the scope declared.  Labels are looked
 * for when their scope closes, since a branch may come before its target:
 * what the scope does not declare moves to the scope around it.
 *
 * Nothing is freed before the module is, and a parse that fails frees all.
 */
#include "ptx_front.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- arena --------------------------------------------------------------- */

/* A block of the arena: bytes [0, used) are given away, the rest is zero. */
struct ptx_chunk {
    struct ptx_chunk *next;
    size_t used, size;
    _Alignas(16) unsigned char byte[];
};

/* The public module with the memory it lives in. */
struct owned_module {
    struct ptx_module m;
    struct ptx_chunk *chunks;
};

/* Bytes of an ordinary chunk: a kernel of some thousand instructions takes a
 * handful. */
enum { CHUNK = 256 * 1024 };

/* A chunk with room for n bytes; a large n gets one of its own. */
static struct ptx_chunk *new_chunk(struct ptx_parser *p, size_t n)
{
    size_t size = n > CHUNK / 4 ? n : CHUNK;
    struct ptx_chunk *c = calloc(1, sizeof *c + size);
    if (!c)
        ptx__fail(p, p->line, "found no memory for %zu bytes, expected some",
                  size);
    c->size = size;
    return c;
}

/* Zeroed memory that lives as long as the module.  A large block gets a
 * chunk of its own behind the current one, which stays in use. */
void *ptx__alloc(struct ptx_parser *p, size_t n)
{
    struct ptx_chunk *c = p->chunks;
    n = (n + 15) & ~(size_t)15;
    if (!c || c->size - c->used < n) {
        c = new_chunk(p, n);
        if (p->chunks && c->size != CHUNK) {
            c->next = p->chunks->next;
            p->chunks->next = c;
        } else {
            c->next = p->chunks;
            p->chunks = c;
        }
    }
    void *at = c->byte + c->used;
    c->used += n;
    return at;
}

/* Room for element `count` of an array whose capacity is the next power of
 * two of its length (at least 8). */
void *ptx__grow(struct ptx_parser *p, void *array, int count, size_t size)
{
    size_t n = (size_t)count;
    if (n != 0 && (n < 8 || (n & (n - 1)) != 0))
        return array;
    void *bigger = ptx__alloc(p, (n ? 2 * n : 8) * size);
    if (n)
        memcpy(bigger, array, n * size);
    return bigger;
}

/* The n characters at s, with a 0 behind them. */
char *ptx__strdup(struct ptx_parser *p, const char *s, size_t n)
{
    char *copy = ptx__alloc(p, n + 1);
    memcpy(copy, s, n);
    return copy;
}

/* The module lies in the arena that it owns. */
struct ptx_module *ptx__new_module(struct ptx_parser *p)
{
    struct owned_module *o = ptx__alloc(p, sizeof *o);
    return &o->m;
}

/* Where a finished module keeps the memory it lies in. */
struct ptx_chunk **ptx__module_chunks(struct ptx_module *m)
{
    return &((struct owned_module *)m)->chunks;
}

/* The module goes with them. */
void ptx__free_chunks(struct ptx_chunk *chunks)
{
    while (chunks) {
        struct ptx_chunk *next = chunks->next;
        free(chunks);
        chunks = next;
    }
}

/* --- names --------------------------------------------------------------- */

/* FNV-1a. */
static uint32_t hash_of(const char *s, size_t n)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h;
}

/* Doubles the table; the old one stays behind in the arena. */
static void rehash(struct ptx_parser *p)
{
    size_t n = p->nbuckets ? 2 * p->nbuckets : 1024;
    struct ptx_name **bucket = ptx__alloc(p, n * sizeof *bucket);
    for (size_t i = 0; i < p->nbuckets; i++) {
        for (struct ptx_name *a = p->bucket[i], *next; a; a = next) {
            next = a->next_in_bucket;
            a->next_in_bucket = bucket[a->hash & (n - 1)];
            bucket[a->hash & (n - 1)] = a;
        }
    }
    p->bucket = bucket;
    p->nbuckets = n;
}

/* The one struct ptx_name of that word, made on first sight. */
struct ptx_name *ptx__intern(struct ptx_parser *p, const char *s, size_t n)
{
    if (p->nnames >= p->nbuckets)
        rehash(p);
    uint32_t h = hash_of(s, n);
    struct ptx_name **slot = &p->bucket[h & (p->nbuckets - 1)];
    for (struct ptx_name *a = *slot; a; a = a->next_in_bucket)
        if (a->hash == h && a->n == n && memcmp(a->s, s, n) == 0)
            return a;
    struct ptx_name *a = ptx__alloc(p, sizeof *a);
    *a = (struct ptx_name){.s = ptx__strdup(p, s, n),
                           .n = n,
                           .hash = h,
                           .target = -1,
                           .func = -1,
                           .next_in_bucket = *slot};
    *slot = a;
    p->nnames++;
    return a;
}

struct ptx_name *ptx__name(struct ptx_parser *p, const char *what)
{
    if (p->tok.kind != PTX_T_WORD)
        ptx__expected(p, what);
    struct ptx_name *name = ptx__intern(p, p->tok.s, p->tok.n);
    ptx__next(p);
    return name;
}

/* Splits an opcode at its dots; done once per distinct opcode. */
void ptx__split(struct ptx_parser *p, struct ptx_name *name)
{
    char *s = ptx__strdup(p, name->s, name->n);
    name->word = ptx__alloc(p, PTX_MAX_WORDS * sizeof *name->word);
    for (char *part; (part = strsep(&s, ".")) != NULL;) {
        if (name->nwords == PTX_MAX_WORDS)
            ptx__fail(p, p->prev_line,
                      "found '%.60s', expected at most %d words in an opcode",
                      name->s, PTX_MAX_WORDS);
        name->word[name->nwords++] = part;
    }
}

/* Special registers, PTX ISA chapter 10; envreg and pm carry numbers. */
static const char special_names[] =
    " aggr_smem_size clock clock64 clock_hi cluster_ctaid cluster_ctarank"
    " cluster_nctaid cluster_nctarank clusterid ctaid current_graph_exec"
    " dynamic_smem_size envreg globaltimer globaltimer_hi globaltimer_lo"
    " gridid is_explicit_cluster laneid lanemask_eq lanemask_ge lanemask_gt"
    " lanemask_le lanemask_lt nclusterid nctaid nsmid ntid nwarpid pm"
    " reserved_smem_offset_0 reserved_smem_offset_1"
    " reserved_smem_offset_begin reserved_smem_offset_cap"
    " reserved_smem_offset_end smid tid total_smem_size warpid ";

/* %NAME or %NAME.x: is NAME one of them? */
bool ptx__is_special(const struct ptx_name *name)
{
    const char *s = name->s + 1;
    char word[40];
    int n = (int)strcspn(s, ".");
    if (strncmp(s, "envreg", 6) == 0)
        n = 6;
    else if (strncmp(s, "pm", 2) == 0)
        n = 2;
    if (name->s[0] != '%' || n == 0 || n > 37)
        return false;
    snprintf(word, sizeof word, " %.*s ", n, s);
    return strstr(special_names, word) != NULL;
}

/* --- scopes -------------------------------------------------------------- */

/* Names declared from here on end with the matching ptx__close_scope. */
void ptx__open_scope(struct ptx_parser *p)
{
    struct ptx_scope *s = ptx__alloc(p, sizeof *s);
    s->outer = p->scope;
    p->scope = s;
}

/* The new meaning shadows outer ones until the scope closes. */
struct ptx_binding *ptx__bind(struct ptx_parser *p, struct ptx_name *name,
                              enum ptx_binding_kind kind)
{
    if (name->top && name->top->scope == p->scope)
        ptx__fail(p, p->prev_line,
                  "found a second declaration of '%.60s', expected one per "
                  "scope",
                  name->s);
    struct ptx_binding *b = ptx__alloc(p, sizeof *b);
    *b = (struct ptx_binding){.kind = kind,
                              .name = name,
                              .scope = p->scope,
                              .shadowed = name->top,
                              .next_in_scope = p->scope->bindings};
    name->top = p->scope->bindings = b;
    return b;
}

/* name stands for the next instruction.  That it is declared once is checked
 * when the scope closes. */
void ptx__declare_label(struct ptx_parser *p, struct ptx_name *name)
{
    struct ptx_label *l = ptx__alloc(p, sizeof *l);
    *l = (struct ptx_label){.name = name,
                            .target = p->fn->ninsts,
                            .line = p->prev_line,
                            .next = p->scope->labels};
    p->scope->labels = l;
}

/* Only operands that can be labels wait: those whose name was not declared
 * when they were read. */
void ptx__await_labels(struct ptx_parser *p, struct ptx_operand *op, int line)
{
    for (int i = 0; i < op->nelem; i++)
        ptx__await_labels(p, &op->elem[i], line);
    if (op->kind != PTX_OP_LABEL || op->target >= 0)
        return;
    struct ptx_pending *w = ptx__alloc(p, sizeof *w);
    *w = (struct ptx_pending){.op = op,
                              .line = line,
                              .name =
                                  ptx__intern(p, op->name, strlen(op->name)),
                              .next = p->scope->pending};
    p->scope->pending = w;
}

/* The error of a name that means nothing by the end of its scopes. */
static _Noreturn void undeclared(struct ptx_parser *p,
                                 const struct ptx_pending *w)
{
    ptx__fail(p, w->line,
              "found '%.60s', expected a declared register, variable, "
              "function or label",
              w->name->s);
}

/* Binds the scope's waiting operands to its labels; the others move outward.
 * A name that no scope of the function declares as a label may still be a
 * function, whose index is known at the end of the module. */
static void resolve_labels(struct ptx_parser *p, struct ptx_scope *s)
{
    for (struct ptx_label *l = s->labels; l; l = l->next) {
        if (l->name->target >= 0)
            ptx__fail(p, l->line > 0 ? l->line : 1,
                      "found label '%.60s' twice, expected it once per scope",
                      l->name->s);
        l->name->target = l->target;
    }
    for (struct ptx_pending *w = s->pending, *next; w; w = next) {
        next = w->next;
        if (w->name->target >= 0) {
            w->op->target = w->name->target;
        } else if (s->outer && s->outer->outer) {
            w->next = s->outer->pending;
            s->outer->pending = w;
        } else if (w->name->s[0] == '%') {
            undeclared(p, w);
        } else {
            w->next = s->outer->pending;
            s->outer->pending = w;
            w->op->kind = PTX_OP_FUNC;
        }
    }
    for (struct ptx_label *l = s->labels; l; l = l->next)
        l->name->target = -1;
}

/* Finds labels, then brings back what the scope's names meant outside. */
void ptx__close_scope(struct ptx_parser *p)
{
    struct ptx_scope *s = p->scope;
    resolve_labels(p, s);
    for (struct ptx_binding *b = s->bindings; b; b = b->next_in_scope)
        b->name->top = b->shadowed;
    p->scope = s->outer;
}
