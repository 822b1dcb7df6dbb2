/* SPDX-License-Identifier: Apache-2.0
 *
 * ptx_front.h: what the files of the PTX front end share.
 *
 *   ptx_lex.c      characters -> tokens; the one place that counts lines
 *   ptx_scope.c    memory, names, and the { } scopes in which a name means
 *                  a register, a variable or a branch target
 *   ptx_operand.c  operands of an instruction
 *   ptx_decl.c     state-space declarations and their initialisers
 *   ptx_parse.c    statements, functions, the module
 *
 * All memory of a module is one arena: nothing is freed alone, a module is
 * freed whole.  An error anywhere leaves by one longjmp to ptx_parse, so no
 * function below returns a status.
 */
#ifndef VGPU_PTX_FRONT_H
#define VGPU_PTX_FRONT_H

#include "ptx.h"

#include <setjmp.h>

enum ptx_token_kind {
    PTX_T_END,
    PTX_T_WORD,   /* name, opcode or %special: a word with its .parts */
    PTX_T_DIR,    /* .directive: a dot and one word (:: included) */
    PTX_T_INT,    /* bits */
    PTX_T_F32,    /* bits: IEEE single */
    PTX_T_F64,    /* bits: IEEE double */
    PTX_T_STRING, /* s, n: without the quotes, escapes as written */
    PTX_T_PUNCT   /* s[0] */
};

struct ptx_token {
    enum ptx_token_kind kind;
    const char *s;
    size_t n;
    uint64_t bits;
    int line;
};

enum ptx_binding_kind {
    PTX_BIND_REG, /* reg: index into the function's registers */
    PTX_BIND_SYM, /* sym */
    PTX_BIND_LIST /* list: a PTX_OP_VEC of labels, .branchtargets */
};

/* One meaning of a name; an inner scope's meaning shadows the outer one. */
struct ptx_binding {
    enum ptx_binding_kind kind;
    struct ptx_name *name;
    struct ptx_scope *scope;
    struct ptx_binding *shadowed, *next_in_scope;
    int reg;
    struct ptx_symbol *sym;
    struct ptx_operand *list;
};

/* An interned word.  Two equal words are the same struct ptx_name. */
struct ptx_name {
    char *s;
    size_t n;
    uint32_t hash;
    struct ptx_name *next_in_bucket;
    struct ptx_binding *top;
    int target; /* while a scope closes: its label, or -1 */
    bool is_func, is_extern_func;
    int func;          /* index in the module when it has a body */
    const char **word; /* the parts between the dots, once split */
    int nwords;
};

struct ptx_label {
    struct ptx_name *name;
    int target, line;
    struct ptx_label *next;
};

/* An operand that names a label which may stand further down. */
struct ptx_pending {
    struct ptx_operand *op;
    struct ptx_name *name;
    int line;
    struct ptx_pending *next;
};

struct ptx_scope {
    struct ptx_scope *outer;
    struct ptx_binding *bindings;
    struct ptx_label *labels;
    struct ptx_pending *pending;
};

struct ptx_chunk;

struct ptx_parser {
    struct ptx_module *m;
    struct ptx_chunk *chunks;
    jmp_buf fail;
    char *err;
    size_t errsize;

    const char *at, *end; /* the unread text; *end is 0 */
    int line;
    struct ptx_token tok; /* the token to be consumed next */
    int prev_line;        /* line of the token consumed last */

    struct ptx_name **bucket;
    size_t nbuckets, nnames;
    struct ptx_scope *scope;

    struct ptx_func *fn; /* the function being read, or NULL */
    int loc_file, loc_line;
    struct ptx_symbol **own_shared; /* .shared of the entry being read */
    int nown_shared;
    bool uses_module_shared;
    uint64_t dynamic_align; /* of the dynamic shared memory it uses */
    uint64_t module_shared; /* bytes of the module's .shared so far */
};

/* An array that grows in the arena by doubling.  PTX_PUSH appends a zeroed
 * element and yields its address. */
#define PTX_PUSH(p, array, count)                                             \
    ((array) = ptx__grow((p), (array), (count), sizeof *(array)),             \
     &(array)[(count)++])

/* ptx_lex.c */
void ptx__next(struct ptx_parser *p);
_Noreturn void ptx__fail(struct ptx_parser *p, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* "found TOKEN, expected WHAT" at the current token. */
_Noreturn void ptx__expected(struct ptx_parser *p, const char *what);
bool ptx__is(const struct ptx_parser *p, char punct);
bool ptx__is_dir(const struct ptx_parser *p, const char *directive);
/* Consumes punct when it is next, and says whether it was. */
bool ptx__accept(struct ptx_parser *p, char punct);
void ptx__expect(struct ptx_parser *p, char punct);
uint64_t ptx__integer(struct ptx_parser *p, const char *what);
/* An integer with any number of leading minus signs. */
int64_t ptx__signed(struct ptx_parser *p, const char *what);

/* ptx_scope.c */
void *ptx__alloc(struct ptx_parser *p, size_t n);
void *ptx__grow(struct ptx_parser *p, void *array, int count, size_t size);
char *ptx__strdup(struct ptx_parser *p, const char *s, size_t n);
struct ptx_name *ptx__intern(struct ptx_parser *p, const char *s, size_t n);
/* Consumes a word and returns its name; what: for the error message. */
struct ptx_name *ptx__name(struct ptx_parser *p, const char *what);
void ptx__split(struct ptx_parser *p, struct ptx_name *name);
void ptx__open_scope(struct ptx_parser *p);
void ptx__close_scope(struct ptx_parser *p);
/* A new meaning of name in the current scope; twice there is an error. */
struct ptx_binding *ptx__bind(struct ptx_parser *p, struct ptx_name *name,
                              enum ptx_binding_kind kind);
void ptx__declare_label(struct ptx_parser *p, struct ptx_name *name);
/* Files op and its elements for label resolution at the scope's end. */
void ptx__await_labels(struct ptx_parser *p, struct ptx_operand *op, int line);
bool ptx__is_special(const struct ptx_name *name);
void ptx__free_chunks(struct ptx_chunk *chunks);
struct ptx_chunk **ptx__module_chunks(struct ptx_module *m);
struct ptx_module *ptx__new_module(struct ptx_parser *p);

/* ptx_operand.c */
void ptx__operand(struct ptx_parser *p, struct ptx_operand *op);
void ptx__operand_list(struct ptx_parser *p, struct ptx_operand *vec,
                       char close);

/* ptx_decl.c */
/* Bytes of a fundamental type directive (".b32" -> 4), 0 for another. */
unsigned ptx__type_bytes(const struct ptx_token *t);
/* Is a state space next, and which? */
bool ptx__at_space(const struct ptx_parser *p, enum ptx_space *space);
void ptx__declare_registers(struct ptx_parser *p);
void ptx__declare_variables(struct ptx_parser *p, bool is_extern);
struct ptx_symbol *ptx__declare_param(struct ptx_parser *p);
/* Puts sym behind *end, aligned; *end becomes the end of sym. */
void ptx__place(struct ptx_parser *p, struct ptx_symbol *sym, uint64_t *end);
void ptx__skip_attribute(struct ptx_parser *p);

#endif
