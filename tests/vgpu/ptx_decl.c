/* SPDX-License-Identifier: Apache-2.0
 *
 * ptx_decl.c: declarations (PTX ISA chapter 5): registers, variables with
 * their initialisers, parameters, and where each lies in its segment.
 *
 *     .reg .b32 %r<67>;                        67 registers
 *     .shared .align 16 .b8 tile[4096];        4096 bytes
 *     .global .v4 .f32 table[2] = {...};       32 bytes with values
 *     .extern .shared .align 16 .b8 x[];       dynamic: size 0
 */
#include "ptx_front.h"

#include <string.h>

/* Bounds that no real module reaches; they keep a bad text from taking the
 * host's memory. */
enum {
    MAX_REGISTERS = 1 << 20,   /* of one function */
    MAX_INITIALISED = 1 << 28, /* bytes of a variable with an initialiser */
    MAX_NESTING = 8            /* of { } in an initialiser */
};

/* Fundamental types (PTX ISA 5.2.1): bytes in memory (.pred has none), bits
 * of a register, and whether an initialiser is read as a float. */
static const struct {
    const char *name;
    unsigned char bytes, bits;
    bool is_float;
} type_table[] = {
    {".pred", 0, 1, 0}, {".b8", 1, 8, 0},      {".u8", 1, 8, 0},
    {".s8", 1, 8, 0},   {".b16", 2, 16, 0},    {".u16", 2, 16, 0},
    {".s16", 2, 16, 0}, {".f16", 2, 16, 1},    {".bf16", 2, 16, 1},
    {".b32", 4, 32, 0}, {".u32", 4, 32, 0},    {".s32", 4, 32, 0},
    {".f32", 4, 32, 1}, {".f16x2", 4, 32, 1},  {".bf16x2", 4, 32, 1},
    {".b64", 8, 64, 0}, {".u64", 8, 64, 0},    {".s64", 8, 64, 0},
    {".f64", 8, 64, 1}, {".b128", 16, 128, 0},
};

/* The row of a fundamental type, or -1.  Indices of rows, not names, are what
 * the rest of the file hands on as `type`. */
static int type_of(const struct ptx_token *t)
{
    if (t->kind != PTX_T_DIR)
        return -1;
    for (int i = 0; i < (int)(sizeof type_table / sizeof *type_table); i++)
        if (strlen(type_table[i].name) == t->n &&
            memcmp(type_table[i].name, t->s, t->n) == 0)
            return i;
    return -1;
}

/* .reg is no state space of this table: registers have rules of their own. */
bool ptx__at_space(const struct ptx_parser *p, enum ptx_space *space)
{
    static const struct {
        const char *name;
        enum ptx_space space;
    } table[] = {{".global", PTX_GLOBAL}, {".const", PTX_CONST},
                 {".shared", PTX_SHARED}, {".shared::cta", PTX_SHARED},
                 {".local", PTX_LOCAL},   {".param", PTX_PARAM}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (ptx__is_dir(p, table[i].name)) {
            *space = table[i].space;
            return true;
        }
    }
    return false;
}

/* --- registers ----------------------------------------------------------- */

/* Declares one register of the function in the current scope.  Registers of
 * inner scopes are the function's, too, with indices of their own: two
 * registers of one name never share an index. */
static void add_register(struct ptx_parser *p, const char *s, size_t n,
                         unsigned bits)
{
    struct ptx_func *fn = p->fn;
    if (fn->nregs >= MAX_REGISTERS)
        ptx__fail(p, p->prev_line, "found more registers, expected at most %d",
                  MAX_REGISTERS);
    struct ptx_name *name = ptx__intern(p, s, n);
    ptx__bind(p, name, PTX_BIND_REG)->reg = fn->nregs;
    *PTX_PUSH(p, fn->regs, fn->nregs) =
        (struct ptx_reg){.name = name->s, .bits = bits};
}

/* prefix0 .. prefix(count-1), as `.reg .b32 %r<67>` says.  The digits are
 * written by hand, for kernels declare thousands of registers. */
static void add_register_set(struct ptx_parser *p, const char *prefix,
                             size_t n, unsigned bits)
{
    uint64_t count = ptx__integer(p, "the size of a register set");
    ptx__expect(p, '>');
    char *name = ptx__alloc(p, n + 20);
    memcpy(name, prefix, n);
    if (count > MAX_REGISTERS)
        ptx__fail(p, p->prev_line,
                  "found a set of %llu registers, expected "
                  "at most %d",
                  (unsigned long long)count, MAX_REGISTERS);
    for (unsigned i = 0; i < count; i++) {
        char digit[20];
        size_t nd = 0;
        for (unsigned v = i; nd == 0 || v; v /= 10)
            digit[nd++] = (char)('0' + v % 10);
        for (size_t k = 0; k < nd; k++)
            name[n + k] = digit[nd - 1 - k];
        add_register(p, name, n + nd, bits);
    }
}

/* .reg TYPE name{, name}; with name or prefix<count> */
void ptx__declare_registers(struct ptx_parser *p)
{
    ptx__next(p);
    int type = type_of(&p->tok);
    if (type < 0)
        ptx__expected(p, "a register type");
    ptx__next(p);
    do {
        struct ptx_token t = p->tok;
        if (t.kind != PTX_T_WORD)
            ptx__expected(p, "a register name");
        ptx__next(p);
        if (ptx__accept(p, '<'))
            add_register_set(p, t.s, t.n, type_table[type].bits);
        else
            add_register(p, t.s, t.n, type_table[type].bits);
    } while (ptx__accept(p, ','));
    ptx__expect(p, ';');
}

/* --- initialisers -------------------------------------------------------- */

/* Where the next element of an initialiser goes: `at` bytes into the
 * variable. */
struct cursor {
    struct ptx_symbol *sym;
    uint64_t at;
    int type;
};

/* The bits of a number in the element's own type: integers cut to its width
 * by the caller, decimal floats rounded to .f32 or kept as .f64.  16-bit
 * floats have no literals in PTX. */
static uint64_t convert(struct ptx_parser *p, int type, bool minus)
{
    const struct ptx_token *t = &p->tok;
    uint64_t bits = t->bits;
    double d;
    memcpy(&d, &bits, sizeof d);
    if (t->kind == PTX_T_INT && !type_table[type].is_float)
        return minus ? -bits : bits;
    if (t->kind == PTX_T_F32)
        return bits ^ (minus ? UINT64_C(1) << 31 : 0);
    if (t->kind == PTX_T_INT)
        d = (double)bits;
    else if (t->kind != PTX_T_F64)
        ptx__expected(p, "a constant");
    d = minus ? -d : d;
    float f = (float)d;
    uint32_t single;
    memcpy(&single, &f, sizeof f);
    memcpy(&bits, &d, sizeof d);
    if (type_table[type].bytes < 4)
        ptx__expected(p, "an integer constant for a 16-bit type");
    return type_table[type].bytes == 8 ? bits : single;
}

/* An address as the next element: name, name+4 or generic(name).  It is known
 * when the module is loaded; until then the element is zero. */
static void add_reloc(struct ptx_parser *p, struct cursor *c)
{
    struct ptx_reloc r = {.offset = c->at, .width = type_table[c->type].bytes};
    struct ptx_name *name = ptx__name(p, "a constant");
    r.generic =
        name->n == 7 && memcmp(name->s, "generic", 7) == 0 && ptx__is(p, '(');
    if (r.generic) {
        ptx__next(p);
        name = ptx__name(p, "a variable");
        ptx__expect(p, ')');
    }
    if (!name->top || name->top->kind != PTX_BIND_SYM || r.width < 4)
        ptx__fail(p, p->prev_line,
                  "found '%.60s' in an initialiser, expected "
                  "a constant or the address of a declared variable in a "
                  "32- or 64-bit element",
                  name->s);
    r.sym = name->top->sym;
    while (ptx__is(p, '+') || ptx__is(p, '-')) {
        bool minus = ptx__is(p, '-');
        ptx__next(p);
        uint64_t v = (uint64_t)ptx__signed(p, "an integer offset");
        r.addend = (int64_t)((uint64_t)r.addend + (minus ? -v : v));
    }
    *PTX_PUSH(p, c->sym->reloc, c->sym->nrelocs) = r;
}

/* One value of an initialiser, at the cursor, which moves on. */
static void init_element(struct ptx_parser *p, struct cursor *c)
{
    unsigned width = type_table[c->type].bytes;
    if (c->at + width > c->sym->size)
        ptx__fail(p, p->tok.line,
                  "found more initial values than '%.60s' has "
                  "elements, expected at most %llu",
                  c->sym->name, (unsigned long long)(c->sym->size / width));
    bool minus = false;
    while (ptx__accept(p, '-'))
        minus = !minus;
    if (p->tok.kind == PTX_T_WORD) {
        add_reloc(p, c);
    } else {
        uint64_t bits[2] = {convert(p, c->type, minus), 0};
        memcpy(c->sym->init + c->at, bits, width);
        ptx__next(p);
    }
    c->at += width;
}

/* { value, ... }.  An inner list fills one row of `dim`: what it leaves out
 * stays zero. */
static void init_list(struct ptx_parser *p, struct cursor *c,
                      const uint64_t *row, int depth)
{
    if (ptx__accept(p, '}'))
        return;
    do {
        if (!ptx__accept(p, '{')) {
            init_element(p, c);
            continue;
        }
        if (depth + 1 >= MAX_NESTING || row[depth + 1] == 0)
            ptx__fail(p, p->prev_line,
                      "found nested braces, expected no more "
                      "of them than '%.60s' has dimensions",
                      c->sym->name);
        uint64_t at = c->at;
        init_list(p, c, row, depth + 1);
        if (c->at - at > row[depth + 1])
            ptx__fail(p, p->prev_line,
                      "found more initial values in a row "
                      "than '%.60s' has columns, expected at most %llu bytes",
                      c->sym->name, (unsigned long long)row[depth + 1]);
        c->at = at + row[depth + 1];
    } while (ptx__accept(p, ','));
    ptx__expect(p, '}');
}

/* --- variables ----------------------------------------------------------- */

/* What stands before the name: alignment, vector length, type. */
struct shape {
    unsigned align, vector;
    int type;
};

/* `.attribute(.managed)` and such: no meaning here.  Parentheses nest. */
void ptx__skip_attribute(struct ptx_parser *p)
{
    int depth = 0;
    ptx__next(p);
    ptx__expect(p, '(');
    for (depth = 1; depth > 0; ptx__next(p)) {
        if (p->tok.kind == PTX_T_END)
            ptx__expected(p, "')'");
        depth += ptx__is(p, '(') - ptx__is(p, ')');
    }
}

/* .align N.  A variable keeps it at its place in the segment; 65,536 is more
 * than any segment needs. */
static unsigned read_align(struct ptx_parser *p)
{
    ptx__next(p);
    uint64_t a = ptx__integer(p, "an alignment");
    if (a == 0 || (a & (a - 1)) != 0 || a > 65536)
        ptx__fail(p, p->prev_line,
                  "found alignment %llu, expected a power of "
                  "two up to 65536",
                  (unsigned long long)a);
    return (unsigned)a;
}

/* What `.ptr` says about a pointer parameter: space and alignment of what it
 * points to, not of the parameter. */
static void skip_ptr(struct ptx_parser *p)
{
    enum ptx_space ignored;
    ptx__next(p);
    if (ptx__at_space(p, &ignored))
        ptx__next(p);
    if (ptx__is_dir(p, ".align"))
        read_align(p);
}

/* The words between state space and name, in any order: compilers write
 * .align before the type, hand-written text after it.  Without .align the
 * natural alignment of the whole vector holds (PTX ISA 5.4.5). */
static struct shape read_shape(struct ptx_parser *p)
{
    struct shape s = {.vector = 1, .type = -1};
    unsigned align = 0;
    for (;;) {
        int type = type_of(&p->tok);
        if (type >= 0) {
            s.type = type;
            ptx__next(p);
        } else if (ptx__is_dir(p, ".align")) {
            align = read_align(p);
        } else if (ptx__is_dir(p, ".v2") || ptx__is_dir(p, ".v4")) {
            s.vector = (unsigned)(p->tok.s[2] - '0');
            ptx__next(p);
        } else if (ptx__is_dir(p, ".attribute")) {
            ptx__skip_attribute(p);
        } else if (ptx__is_dir(p, ".ptr") && s.type >= 0) {
            skip_ptr(p);
        } else {
            break;
        }
    }
    if (s.type < 0 || type_table[s.type].bytes == 0)
        ptx__expected(p, "the type of a variable");
    unsigned natural = type_table[s.type].bytes * s.vector;
    s.align = align ? align : natural;
    return s;
}

/* [4], [2][3], [].  row[k] becomes the bytes of one element of dimension k;
 * row[0] is the whole.  Returns whether the first dimension is open. */
static bool read_dimensions(struct ptx_parser *p, uint64_t element,
                            uint64_t row[MAX_NESTING])
{
    uint64_t dim[MAX_NESTING];
    int n = 0;
    bool open = false;
    while (ptx__accept(p, '[')) {
        if (n == MAX_NESTING - 1)
            ptx__fail(p, p->prev_line,
                      "found too many dimensions, expected "
                      "at most %d",
                      MAX_NESTING - 1);
        bool empty = n == 0 && ptx__is(p, ']');
        open |= empty;
        dim[n++] = empty ? 1 : ptx__integer(p, "a dimension");
        ptx__expect(p, ']');
    }
    uint64_t bytes = element;
    memset(row, 0, MAX_NESTING * sizeof *row);
    for (int i = n - 1; i >= 0; i--) {
        row[i + 1] = bytes;
        if (__builtin_mul_overflow(bytes, dim[i], &bytes) ||
            bytes > UINT64_C(1) << 40)
            ptx__fail(p, p->prev_line,
                      "found a variable above 2^40 bytes, expected less");
    }
    row[0] = bytes;
    return open;
}

/* What follows `=`: one value, or a list.  What is not named is zero, as the
 * arena's memory is. */
static void read_initialiser(struct ptx_parser *p, struct ptx_symbol *sym,
                             int type, const uint64_t *row)
{
    struct cursor c = {.sym = sym, .type = type};
    if (sym->size > MAX_INITIALISED)
        ptx__fail(p, p->prev_line,
                  "found an initialiser for %llu bytes, "
                  "expected at most %d",
                  (unsigned long long)sym->size, MAX_INITIALISED);
    sym->init = ptx__alloc(p, sym->size);
    if (ptx__accept(p, '{'))
        init_list(p, &c, row, 0);
    else
        init_element(p, &c);
}

/* Puts sym behind *end, at its alignment.  Also the guard against segments
 * that no memory could hold. */
void ptx__place(struct ptx_parser *p, struct ptx_symbol *sym, uint64_t *end)
{
    uint64_t at = (*end + sym->align - 1) & ~(uint64_t)(sym->align - 1);
    sym->offset = at;
    *end = at + sym->size;
    if (*end > UINT64_C(1) << 41)
        ptx__fail(p, p->prev_line,
                  "found a segment above 2^41 bytes at "
                  "'%.60s', expected less",
                  sym->name);
}

/* Gives sym its place.  The shared variables of an entry are placed at its
 * end, when it is known whether those of the module come first; all others
 * of the module and of device functions share one area. */
static void assign_place(struct ptx_parser *p, struct ptx_symbol *sym)
{
    struct ptx_func *fn = p->fn;
    if (sym->space == PTX_PARAM || sym->space == PTX_LOCAL) {
        if (!fn)
            ptx__fail(p, p->prev_line,
                      "found '%.60s' outside a function, "
                      "expected .global, .const or .shared",
                      sym->name);
        sym->is_scratch = sym->space == PTX_PARAM;
        ptx__place(p, sym, &fn->local_bytes);
    } else if (sym->space == PTX_SHARED && fn && fn->is_entry) {
        *PTX_PUSH(p, p->own_shared, p->nown_shared) = sym;
    } else if (sym->space == PTX_SHARED && sym->size > 0) {
        ptx__place(p, sym, &p->module_shared);
        p->uses_module_shared |= fn != NULL;
    }
}

/* NAME{[n]...}{= values}: a variable without a place yet.  Bound last: an
 * initialiser cannot name its own variable. */
static struct ptx_symbol *declare_one(struct ptx_parser *p,
                                      enum ptx_space space,
                                      const struct shape *s, bool is_extern)
{
    uint64_t row[MAX_NESTING];
    struct ptx_name *name = ptx__name(p, "the name of a variable");
    struct ptx_symbol *sym = ptx__alloc(p, sizeof *sym);
    *sym = (struct ptx_symbol){.name = name->s,
                               .space = space,
                               .is_extern = is_extern,
                               .align = s->align};
    bool open = read_dimensions(p, type_table[s->type].bytes * s->vector, row);
    sym->size = open ? 0 : row[0];
    if (ptx__accept(p, '=')) {
        if (space != PTX_GLOBAL && space != PTX_CONST)
            ptx__fail(p, p->prev_line,
                      "found an initialiser for '%.60s', "
                      "expected one only in .global and .const",
                      name->s);
        read_initialiser(p, sym, s->type, row);
    }
    ptx__bind(p, name, PTX_BIND_SYM)->sym = sym;
    return sym;
}

/* SPACE shape NAME...{, NAME...};  Constants and globals of a function body
 * belong to the module like all others. */
void ptx__declare_variables(struct ptx_parser *p, bool is_extern)
{
    enum ptx_space space = PTX_GENERIC;
    if (!ptx__at_space(p, &space))
        ptx__expected(p, "a state space");
    ptx__next(p);
    struct shape s = read_shape(p);
    do {
        struct ptx_symbol *sym = declare_one(p, space, &s, is_extern);
        if (sym->size == 0 && !(is_extern && space == PTX_SHARED))
            ptx__fail(p, p->prev_line,
                      "found no size for '%.60s', expected "
                      "one except for .extern .shared",
                      sym->name);
        assign_place(p, sym);
        if (!p->fn || space == PTX_GLOBAL || space == PTX_CONST)
            *PTX_PUSH(p, p->m->sym, p->m->nsyms) = sym;
    } while (ptx__accept(p, ','));
    ptx__expect(p, ';');
}

/* One `.param` of a function's head; its place is the caller's to give. */
struct ptx_symbol *ptx__declare_param(struct ptx_parser *p)
{
    if (!ptx__is_dir(p, ".param"))
        ptx__expected(p, "'.param'");
    ptx__next(p);
    struct shape s = read_shape(p);
    return declare_one(p, PTX_PARAM, &s, false);
}
