/* SPDX-License-Identifier: Apache-2.0
 *
 * ptx.h: what the front end hands to the executor.
 *
 * ptx_parse turns the text that NVRTC makes into one ptx_module: symbols,
 * entry functions, and for each function a flat array of instructions whose
 * registers and branch targets are already resolved through the nested { }
 * scopes.  The front end knows the grammar of PTX (PTX ISA 9.0, chapters 4
 * to 6) and no instruction's meaning: an opcode stays a list of words.
 */
#ifndef VGPU_PTX_H
#define VGPU_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ptx_space {
    PTX_GENERIC,
    PTX_GLOBAL,
    PTX_CONST,
    PTX_SHARED,
    PTX_LOCAL,
    PTX_PARAM
};

/* A declared register.  bits: 1 (pred), 8, 16, 32, 64 or 128. */
struct ptx_reg {
    char *name;
    unsigned bits;
};

struct ptx_symbol;

/* A word of an initialiser that is the address of another variable: width
 * bytes at offset receive address(sym) + addend.  generic: the generic
 * address, `generic(x)`; else the address within its state space. */
struct ptx_reloc {
    uint64_t offset;
    unsigned width;
    bool generic;
    const struct ptx_symbol *sym;
    int64_t addend;
};

/* A variable: module scope (global, const, shared) or function scope
 * (shared, local, param).  size 0: dynamic shared memory.  init holds size
 * bytes or is NULL (zero).  offset: its place in the function's shared,
 * local or param segment, set by the parser; for global and const, unset.
 * is_scratch: a .param declared inside a body, for the operands of a call;
 * it is private memory of a thread and its offset is in the local segment. */
struct ptx_symbol {
    char *name;
    enum ptx_space space;
    bool is_extern, is_scratch;
    unsigned align;
    uint64_t size, offset;
    unsigned char *init;
    struct ptx_reloc *reloc;
    int nrelocs;
};

enum ptx_operand_kind {
    PTX_OP_REG,     /* reg; negated: !%p */
    PTX_OP_IMM,     /* bits: integer literal, sign-extended to 64 */
    PTX_OP_F32,     /* bits: IEEE single in the low half (0f... literals) */
    PTX_OP_F64,     /* bits: IEEE double (0d... and decimal literals) */
    PTX_OP_SYM,     /* sym (+ imm): the symbol's address */
    PTX_OP_SPECIAL, /* name of a special register, "tid.x" without % */
    PTX_OP_LABEL,   /* target: instruction index */
    PTX_OP_SINK,    /* _ */
    PTX_OP_ADDR,    /* [elem[0] + imm], elem[0] REG, SYM or IMM; further
                       elem: the coordinates of a tensor address */
    PTX_OP_VEC,     /* {elem[0], ... } */
    PTX_OP_PAIR,    /* elem[0] | elem[1]  (d|p of shfl, setp, elect) */
    PTX_OP_FUNC     /* name of a function; target: index into
                       ptx_module.func, -1 when it has no body here */
};

struct ptx_operand {
    enum ptx_operand_kind kind;
    bool negated;
    int reg;    /* index into ptx_func.regs */
    int target; /* index into ptx_func.insts */
    const struct ptx_symbol *sym;
    const char *name;
    uint64_t bits;
    int64_t imm;
    struct ptx_operand *elem;
    int nelem;
};

#define PTX_MAX_WORDS 20

/* Two instructions have a fixed operand shape whatever the text left out:
 * call      VEC of results, FUNC or REG, VEC of arguments (VECs may be empty)
 * brx.idx   index, VEC of LABELs (the .branchtargets list) */
struct ptx_inst {
    const char *opcode;              /* whole: "ld.global.nc.v4.u32" */
    const char *word[PTX_MAX_WORDS]; /* word[0] = "ld", then modifiers */
    int nwords;
    int guard; /* register index or -1 */
    bool guard_negated;
    struct ptx_operand *op;
    int nops;
    int ptx_line;
    int file, line; /* from .loc; 0 when unknown */
};

struct ptx_func {
    char *name;
    bool is_entry;
    struct ptx_symbol **param; /* space PTX_PARAM, offsets set */
    int nparams;
    struct ptx_symbol **result; /* of a .func: after the params in the
                                   param segment */
    int nresults;
    uint64_t param_bytes, shared_bytes, local_bytes;
    bool uses_dynamic_shared;
    uint64_t dynamic_offset; /* where dynamic shared memory starts:
                                shared_bytes, aligned for it */
    struct ptx_reg *regs;
    int nregs;
    struct ptx_inst *insts; /* a `ret` always ends the array */
    int ninsts;
    /* launch directives; 0 where absent, missing dimensions are 1 */
    unsigned maxntid[3], reqntid[3], minnctapersm, maxnreg, cluster[3];
};

struct ptx_module {
    int version;     /* 90 for .version 9.0 */
    char target[16]; /* "sm_90a" */
    char **file;     /* file[i] for .file i, may be NULL */
    int nfiles;
    struct ptx_symbol **sym; /* module scope */
    int nsyms;
    struct ptx_func **func;
    int nfuncs;
};

/* Parses text[0..n).  Returns NULL on error and writes one line
 * "ptx:LINE: what was found, what is allowed" into err.  The module owns
 * everything it points to; free it with ptx_free. */
struct ptx_module *ptx_parse(const char *text, size_t n, char *err,
                             size_t errsize);
void ptx_free(struct ptx_module *m);

#endif
