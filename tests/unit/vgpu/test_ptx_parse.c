/* SPDX-License-Identifier: Apache-2.0
 *
 * test_ptx_parse.c: the PTX front end against the grammar (PTX ISA 9.0,
 * chapters 4 to 6, 7.1 and 11) and against the text that compilers print.
 *
 * Each trap has a few lines of PTX of its own.  The sample at the end is
 * shaped like the output of nvcc 13.0 for a kernel with an assertion, a
 * printf, a device function, inline assembly and debug sections; it is cut
 * after every byte, and each prefix must be refused or parsed, never crash.
 */
#include "ptx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HEAD ".version 9.0\n.target sm_80\n.address_size 64\n"
/* A kernel's first seven lines; the body begins on line 8. */
#define PROLOGUE                                                              \
    HEAD ".visible .entry k(.param .u64 p)\n{\n"                              \
         ".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<9>;\n"              \
         ".reg .f32 %f<9>; .reg .b64 %rd<9>;\n"

static char err[300];

static struct ptx_module *parse(const char *text)
{
    struct ptx_module *m = ptx_parse(text, strlen(text), err, sizeof err);
    if (!m)
        fail_msg("refused: %s", err);
    return m;
}

/* The body in a kernel with a few registers of each kind. */
static struct ptx_module *parse_body(const char *body)
{
    char text[4000];
    int n = snprintf(text, sizeof text, "%s%s\n}\n", PROLOGUE, body);
    assert_in_range(n, 1, sizeof text - 1);
    return parse(text);
}

/* The text is refused with exactly this message. */
static void refuse(const char *text, const char *message)
{
    err[0] = 0;
    struct ptx_module *m = ptx_parse(text, strlen(text), err, sizeof err);
    ptx_free(m);
    assert_null(m);
    assert_string_equal(err, message);
}

static void refuse_body(const char *body, const char *message)
{
    char text[4000];
    snprintf(text, sizeof text, "%s%s\n}\n", PROLOGUE, body);
    refuse(text, message);
}

static const char *reg_name(const struct ptx_func *f,
                            const struct ptx_operand *op)
{
    assert_int_equal(op->kind, PTX_OP_REG);
    return f->regs[op->reg].name;
}

/* --- module level -------------------------------------------------------- */

static void reads_version_and_target(void **state)
{
    (void)state;
    struct ptx_module *m =
        parse(".version 8.7\n.target sm_90a, debug\n.address_size 64\n");
    assert_int_equal(m->version, 87);
    assert_string_equal(m->target, "sm_90a");
    assert_int_equal(m->nfuncs, 0);
    ptx_free(m);
}

static void variables_have_size_alignment_and_bytes(void **state)
{
    (void)state;
    struct ptx_module *m = parse(
        HEAD
        ".const .align 4 .b8 tab[8] = {0, 0, 128, 63, 255, 0x10, 010};\n"
        ".visible .global .u32 counter = 7;\n"
        ".global .align 8 .f32 grid[2][3] = {{1.0, -2.5}, {0f3F800000}};\n"
        ".global .s16 minus[2] = {-1, -2};\n"
        ".global .f64 d = 0d3FF8000000000000;\n"
        ".global .v4 .f32 quad;\n"
        ".extern .shared .align 1024 .b8 dyn[];\n");
    static const unsigned char tab[8] = {0, 0, 128, 63, 255, 16, 8, 0};
    const float grid[6] = {1.0f, -2.5f, 0, 1.0f, 0, 0};
    assert_int_equal(m->nsyms, 7);
    assert_int_equal(m->sym[0]->space, PTX_CONST);
    assert_memory_equal(m->sym[0]->init, tab, 8);
    assert_int_equal(*(uint32_t *)m->sym[1]->init, 7);
    assert_int_equal(m->sym[1]->align, 4);
    assert_int_equal(m->sym[2]->size, 24);
    assert_int_equal(m->sym[2]->align, 8);
    assert_memory_equal(m->sym[2]->init, grid, 24);
    assert_int_equal(((int16_t *)m->sym[3]->init)[1], -2);
    assert_true(*(double *)m->sym[4]->init == 1.5);
    assert_int_equal(m->sym[5]->size, 16);
    assert_int_equal(m->sym[5]->align, 16);
    assert_null(m->sym[5]->init);
    assert_true(m->sym[6]->is_extern);
    assert_int_equal(m->sym[6]->space, PTX_SHARED);
    assert_int_equal(m->sym[6]->size, 0);
    assert_int_equal(m->sym[6]->align, 1024);
    ptx_free(m);
}

static void initialisers_may_hold_addresses(void **state)
{
    (void)state;
    struct ptx_module *m = parse(
        HEAD ".global .align 1 .b8 $str[3] = {97, 98};\n"
             ".global .align 8 .u64 t[3] = {generic($str), 5, $str+2};\n");
    const struct ptx_symbol *t = m->sym[1];
    assert_int_equal(t->nrelocs, 2);
    assert_true(t->reloc[0].generic);
    assert_int_equal(t->reloc[0].offset, 0);
    assert_ptr_equal(t->reloc[0].sym, m->sym[0]);
    assert_false(t->reloc[1].generic);
    assert_int_equal(t->reloc[1].offset, 16);
    assert_int_equal(t->reloc[1].addend, 2);
    assert_int_equal(t->reloc[1].width, 8);
    assert_int_equal(((uint64_t *)t->init)[1], 5);
    ptx_free(m);
}

static void parameters_are_laid_out_by_alignment(void **state)
{
    (void)state;
    struct ptx_module *m = parse(
        HEAD
        ".entry k(.param .u8 a, .param .u64 .ptr .global .align 16 b,\n"
        ".param .align 64 .b8 c[130], .param .u16 d, .param .f32 e) { ret; }");
    const struct ptx_func *f = m->func[0];
    const unsigned offset[] = {0, 8, 64, 194, 196};
    assert_int_equal(f->nparams, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(f->param[i]->offset, offset[i]);
    assert_int_equal(f->param_bytes, 200);
    ptx_free(m);
}

static void launch_directives_are_kept(void **state)
{
    (void)state;
    struct ptx_module *m = parse(
        HEAD ".entry a() .maxntid 128, 2 .minnctapersm 3 .maxnreg 168\n"
             ".pragma \"nounroll\"; { ret; }\n"
             ".weak .entry b() .reqntid 64,1,1 .reqnctapercluster 2, 1, 1\n"
             ".explicitcluster .maxclusterrank 8 .noreturn { ret; }\n");
    const struct ptx_func *a = m->func[0], *b = m->func[1];
    assert_int_equal(a->maxntid[0], 128);
    assert_int_equal(a->maxntid[1], 2);
    assert_int_equal(a->maxntid[2], 1);
    assert_int_equal(a->minnctapersm, 3);
    assert_int_equal(a->maxnreg, 168);
    assert_int_equal(a->reqntid[0], 0);
    assert_int_equal(b->reqntid[0], 64);
    assert_int_equal(b->cluster[0], 2);
    assert_int_equal(b->cluster[2], 1);
    ptx_free(m);
}

static void debug_text_is_stepped_over(void **state)
{
    (void)state;
    struct ptx_module *m = parse(
        HEAD
        "\t.file\t1 \"/tmp/a \\\"b\\\".cu\", 1700000000, 99\n"
        ".section .debug_str\n{\n$L__info_string0:\n.b8 95,90,0\n}\n"
        ".entry k() {\n.reg .b32 %r<3>;\n"
        "\t.loc\t1 7 3\n\tmov.u32 %r1, 1;\n"
        "\t.loc\t1 9 1, function_name $L__info_string0, inlined_at 1 7 3\n"
        "\tmov.u32 %r2, 2;\n"
        "\t.loc\t1 10 1, function_name $L__info_string0+8, inlined_at 1 7 3\n"
        "\tret;\n$L__func_end0:\n}\n"
        ".section\t.debug_abbrev\n{\n.b8 1\n.b8 17\n.b32 .debug_info\n}\n");
    const struct ptx_func *f = m->func[0];
    assert_string_equal(m->file[1], "/tmp/a \\\"b\\\".cu");
    assert_int_equal(f->insts[0].line, 7);
    assert_int_equal(f->insts[0].file, 1);
    assert_int_equal(f->insts[1].line, 9);
    assert_int_equal(f->insts[2].line, 10);
    assert_int_equal(f->insts[0].ptx_line, 13);
    ptx_free(m);
}

/* --- opcodes ------------------------------------------------------------- */

static void opcodes_stay_words(void **state)
{
    (void)state;
    struct ptx_module *m = parse_body(
        "ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%r1,%r2,%r3,%r4}, "
        "[%rd1];\nld .shared .u32 %r1, [%r2];\nret;");
    const struct ptx_inst *i = m->func[0]->insts;
    assert_string_equal(i[0].opcode,
                        "ld.global.nc.L1::no_allocate.L2::128B.v4.u32");
    assert_int_equal(i[0].nwords, 7);
    assert_string_equal(i[0].word[0], "ld");
    assert_string_equal(i[0].word[3], "L1::no_allocate");
    assert_string_equal(i[0].word[6], "u32");
    assert_string_equal(i[1].opcode, "ld.shared.u32");
    assert_int_equal(i[1].nwords, 3);
    ptx_free(m);
}

static void a_ret_always_ends_a_function(void **state)
{
    (void)state;
    struct ptx_module *m = parse_body("bra end;\nend:");
    const struct ptx_func *f = m->func[0];
    assert_int_equal(f->ninsts, 2);
    assert_string_equal(f->insts[1].opcode, "ret");
    assert_int_equal(f->insts[0].op[0].target, 1);
    ptx_free(m);
}

static void guards_name_a_predicate(void **state)
{
    (void)state;
    struct ptx_module *m = parse_body(
        "@%p1 mov.u32 %r1, 1;\n@!%p2 mov.u32 %r1, 2;\nmov.u32 %r1, 3;");
    const struct ptx_func *f = m->func[0];
    assert_string_equal(f->regs[f->insts[0].guard].name, "%p1");
    assert_false(f->insts[0].guard_negated);
    assert_string_equal(f->regs[f->insts[1].guard].name, "%p2");
    assert_true(f->insts[1].guard_negated);
    assert_int_equal(f->insts[2].guard, -1);
    ptx_free(m);
    refuse_body("@%r1 ret;", "ptx:8: found guard '%r1', expected a "
                             "predicate register");
}

/* --- operands ------------------------------------------------------------ */

static void literals_keep_their_bits(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum ptx_operand_kind kind;
        uint64_t bits;
    } row[] = {
        {"0", PTX_OP_IMM, 0},
        {"-5", PTX_OP_IMM, (uint64_t)-5},
        {"0xFFFFFFFF", PTX_OP_IMM, 0xffffffff},
        {"0x10U", PTX_OP_IMM, 16},
        {"017", PTX_OP_IMM, 15},
        {"0b101", PTX_OP_IMM, 5},
        {"1364590687093260288", PTX_OP_IMM, UINT64_C(1364590687093260288)},
        {"18446744073709551615", PTX_OP_IMM, UINT64_MAX},
        {"-9223372036854775808", PTX_OP_IMM, UINT64_C(1) << 63},
        {"~0", PTX_OP_IMM, UINT64_MAX},
        {"WARP_SZ", PTX_OP_IMM, 32},
        {"0f3F800000", PTX_OP_F32, 0x3f800000},
        {"0Fff800000", PTX_OP_F32, 0xff800000},
        {"-0f3F800000", PTX_OP_F32, 0xbf800000},
        {"0d3FF0000000000000", PTX_OP_F64, UINT64_C(0x3ff0000000000000)},
        {"0.", PTX_OP_F64, 0},
        {"-0.0", PTX_OP_F64, UINT64_C(1) << 63},
        {"1.5e-3", PTX_OP_F64, UINT64_C(0x3f589374bc6a7efa)},
        {"2e1", PTX_OP_F64, UINT64_C(0x4034000000000000)},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char body[80];
        snprintf(body, sizeof body, "mov.b64 %%rd1, %s;", row[i].text);
        struct ptx_module *m = parse_body(body);
        const struct ptx_operand *op = &m->func[0]->insts[0].op[1];
        assert_int_equal(op->kind, row[i].kind);
        assert_true(op->bits == row[i].bits);
        ptx_free(m);
    }
}

static void numbers_that_are_none_are_refused(void **state)
{
    (void)state;
    refuse_body("mov.b32 %r1, 0f3F80;",
                "ptx:8: found '0f3F80', expected 0f and 8 hexadecimal digits");
    refuse_body("mov.b32 %r1, 0f3F8000000;",
                "ptx:8: found '0f3F8000000', expected 0f and 8 hexadecimal "
                "digits");
    refuse_body("mov.b64 %rd1, 0d3F;",
                "ptx:8: found '0d3F', expected 0d and 16 hexadecimal digits");
    refuse_body("mov.b64 %rd1, 18446744073709551616;",
                "ptx:8: found '18446744073709551616', expected an integer of "
                "at most 64 bits");
    refuse_body("mov.b32 %r1, 12ab;",
                "ptx:8: found '12ab', expected a number");
    refuse_body("mov.b32 %r1, 0x;", "ptx:8: found '0x', expected a number");
    refuse_body("mov.b32 %r1, 089;", "ptx:8: found '089', expected a number");
}

/* The row-sum trick of attention kernels: sinks and decimal floats inside
 * the vectors of an mma. */
static void vectors_hold_sinks_and_literals(void **state)
{
    (void)state;
    struct ptx_module *m = parse_body(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, _, %f2, _},"
        " {%r1,%r2,%r3,%r4}, {%r5, %r6}, {%f3, 0., %f4, 0f3F800000};");
    const struct ptx_func *f = m->func[0];
    const struct ptx_inst *i = f->insts;
    assert_int_equal(i->nops, 4);
    assert_int_equal(i->op[0].kind, PTX_OP_VEC);
    assert_int_equal(i->op[0].nelem, 4);
    assert_string_equal(reg_name(f, &i->op[0].elem[0]), "%f1");
    assert_int_equal(i->op[0].elem[1].kind, PTX_OP_SINK);
    assert_int_equal(i->op[2].nelem, 2);
    assert_int_equal(i->op[3].elem[1].kind, PTX_OP_F64);
    assert_int_equal(i->op[3].elem[3].kind, PTX_OP_F32);
    ptx_free(m);
}

static void addresses_have_base_and_offset(void **state)
{
    (void)state;
    struct ptx_module *m = parse_body(
        ".shared .align 16 .b8 buf[64];\n"
        "ld.global.u32 %r1, [%rd1];\nld.global.u32 %r1, [%rd1+16];\n"
        "ld.global.u32 %r1, [%rd1+-16];\nld.global.u32 %r1, [%rd1 - 16];\n"
        "ld.param.u64 %rd1, [p];\nld.shared.u32 %r1, [buf+8+4];\n"
        "ld.shared.u32 %r1, [64];\nmov.u32 %r1, buf+4;\n"
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::"
        "complete_tx::bytes [%r1], [%rd2, {%r2, 7}], [%r3+8], %rd4;");
    const struct ptx_func *f = m->func[0];
    const struct ptx_inst *i = f->insts;
    const int64_t offset[] = {0, 16, -16, -16, 0, 12, 0};
    for (int k = 0; k < 7; k++) {
        assert_int_equal(i[k].op[1].kind, PTX_OP_ADDR);
        assert_int_equal(i[k].op[1].imm, offset[k]);
    }
    assert_string_equal(reg_name(f, &i[0].op[1].elem[0]), "%rd1");
    assert_int_equal(i[4].op[1].elem[0].kind, PTX_OP_SYM);
    assert_ptr_equal(i[4].op[1].elem[0].sym, f->param[0]);
    assert_string_equal(i[5].op[1].elem[0].sym->name, "buf");
    assert_int_equal(i[6].op[1].elem[0].kind, PTX_OP_IMM);
    assert_int_equal(i[6].op[1].elem[0].bits, 64);
    assert_int_equal(i[7].op[1].kind, PTX_OP_SYM);
    assert_int_equal(i[7].op[1].imm, 4);
    assert_int_equal(i[8].nops, 4);
    assert_int_equal(i[8].op[1].nelem, 3);
    assert_string_equal(reg_name(f, &i[8].op[1].elem[1]), "%r2");
    assert_int_equal(i[8].op[1].elem[2].bits, 7);
    assert_int_equal(i[8].op[2].imm, 8);
    ptx_free(m);
}

static void pairs_negations_and_special_registers(void **state)
{
    (void)state;
    struct ptx_module *m =
        parse_body("shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;\n"
                   "setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3;\n"
                   "elect.sync _|%p1, 0xffffffff;\n"
                   "mov.u32 %r1, %ctaid.y;\nmov.u32 %r1, %envreg2;\n"
                   "mov.u64 %rd1, %globaltimer;\nmov.b64 %rd1, {%r1, %r2};");
    const struct ptx_func *f = m->func[0];
    const struct ptx_inst *i = f->insts;
    assert_int_equal(i[0].op[0].kind, PTX_OP_PAIR);
    assert_string_equal(reg_name(f, &i[0].op[0].elem[1]), "%p1");
    assert_true(i[1].op[3].negated);
    assert_int_equal(i[2].op[0].elem[0].kind, PTX_OP_SINK);
    assert_int_equal(i[3].op[1].kind, PTX_OP_SPECIAL);
    assert_string_equal(i[3].op[1].name, "ctaid.y");
    assert_string_equal(i[4].op[1].name, "envreg2");
    assert_string_equal(i[5].op[1].name, "globaltimer");
    assert_int_equal(i[6].op[1].nelem, 2);
    ptx_free(m);
    refuse_body("mov.u32 %r1, %tidy;",
                "ptx:8: found '%tidy', expected a declared register, "
                "variable, function or label");
    refuse_body("setp.eq.s32 %p1|3, %r1, %r2;",
                "ptx:8: found 'a number' beside '|', expected a register or "
                "'_'");
}

/* --- scopes -------------------------------------------------------------- */

/* A CUTLASS wait loop leaves LAB_WAIT, DONE and P1 in a block of its own,
 * dozens of times in one kernel. */
static void labels_belong_to_their_braces(void **state)
{
    (void)state;
    struct ptx_module *m =
        parse_body("{ .reg .pred P1;\nLAB_WAIT: setp.eq.s32 P1, %r1, 0;\n"
                   "@P1 bra DONE;\nbra LAB_WAIT;\nDONE: }\n"
                   "{ .reg .pred P1;\nLAB_WAIT: setp.eq.s32 P1, %r1, 0;\n"
                   "@P1 bra DONE;\nbra LAB_WAIT;\nDONE: }\n"
                   "@%p1 bra OUT;\n{ bra OUT; }\nOUT: ret;");
    const struct ptx_inst *i = m->func[0]->insts;
    assert_int_equal(i[1].op[0].target, 3);
    assert_int_equal(i[2].op[0].target, 0);
    assert_int_equal(i[4].op[0].target, 6);
    assert_int_equal(i[5].op[0].target, 3);
    assert_int_equal(i[6].op[0].target, 8);
    assert_int_equal(i[7].op[0].target, 8);
    assert_int_not_equal(i[0].op[0].reg, i[3].op[0].reg);
    ptx_free(m);
}

static void inner_registers_shadow_outer_ones(void **state)
{
    (void)state;
    struct ptx_module *m =
        parse_body(".reg .b32 t;\nmov.u32 t, 1;\n{ .reg .b64 t; mov.u64 t, 2; "
                   "{ mov.u64 t, 3; } }\nmov.u32 t, 4;\n"
                   "{ .reg .b64 %r<3>; mov.u64 %r2, 5; mov.u32 %r3, 6; }");
    const struct ptx_func *f = m->func[0];
    const unsigned bits[] = {32, 64, 64, 32, 64, 32};
    for (int k = 0; k < 6; k++)
        assert_int_equal(f->regs[f->insts[k].op[0].reg].bits, bits[k]);
    assert_int_equal(f->insts[0].op[0].reg, f->insts[3].op[0].reg);
    ptx_free(m);
}

static void names_of_a_closed_scope_are_gone(void **state)
{
    (void)state;
    refuse_body("{ .reg .b32 q; }\nmov.u32 q, 1;",
                "ptx:9: found 'q', expected a declared register, variable, "
                "function or label");
    refuse_body("{ L: }\nbra L;",
                "ptx:9: found 'L', expected a declared register, variable, "
                "function or label");
    refuse_body("L: ret;\nL: ret;",
                "ptx:8: found label 'L' twice, expected it once per scope");
    refuse_body(".reg .b32 q;\n.reg .b32 q;",
                "ptx:9: found a second declaration of 'q', expected one per "
                "scope");
}

static void branch_targets_become_a_vector(void **state)
{
    (void)state;
    struct ptx_module *m =
        parse_body("$L_brx_0: .branchtargets A, B,\n A;\n"
                   "@%p1 brx.idx %r1, $L_brx_0;\nA: mov.u32 %r1, 1;\nB: ret;");
    const struct ptx_inst *i = m->func[0]->insts;
    assert_string_equal(i[0].opcode, "brx.idx");
    assert_int_equal(i[0].op[1].kind, PTX_OP_VEC);
    assert_int_equal(i[0].op[1].nelem, 3);
    assert_int_equal(i[0].op[1].elem[0].target, 1);
    assert_int_equal(i[0].op[1].elem[1].target, 2);
    assert_int_equal(i[0].op[1].elem[2].target, 1);
    ptx_free(m);
}

/* --- memory of a function ------------------------------------------------ */

static void shared_memory_is_laid_out_per_kernel(void **state)
{
    (void)state;
    struct ptx_module *m = parse(
        HEAD
        ".shared .align 4 .b8 common[20];\n"
        ".extern .shared .align 128 .b8 dyn[];\n"
        ".entry uses() { .shared .align 16 .b8 own[8]; .reg .b32 %r<3>;\n"
        "mov.u32 %r1, common; mov.u32 %r2, own; mov.u32 %r2, dyn; ret; }\n"
        ".entry plain() { .shared .align 16 .b8 own[8]; .reg .b32 %r<3>;\n"
        "mov.u32 %r2, own; ret; }\n"
        ".entry none() { ret; }\n");
    const struct ptx_func *uses = m->func[0], *plain = m->func[1];
    assert_int_equal(uses->insts[0].op[1].sym->offset, 0);
    assert_int_equal(uses->insts[1].op[1].sym->offset, 32);
    assert_int_equal(uses->shared_bytes, 40);
    assert_true(uses->uses_dynamic_shared);
    assert_int_equal(uses->dynamic_offset, 128);
    assert_int_equal(plain->insts[0].op[1].sym->offset, 0);
    assert_int_equal(plain->shared_bytes, 8);
    assert_false(plain->uses_dynamic_shared);
    assert_int_equal(m->func[2]->shared_bytes, 0);
    ptx_free(m);
}

static void calls_have_three_operands(void **state)
{
    (void)state;
    struct ptx_module *m = parse(
        HEAD ".extern .func (.param .b32 retval) vprintf\n(\n.param .b64 a,\n"
             ".param .b64 b\n)\n;\n"
             ".func (.param .b32 r) twice(.param .b32 x);\n"
             ".entry k() { .reg .b32 %r<3>;\n"
             "{ // callseq 0, 0\n.reg .b32 temp_param_reg;\n"
             ".param .b64 param0;\nst.param.b64 [param0+0], 7;\n"
             ".param .b64 param1;\nst.param.b64 [param1+0], 8;\n"
             ".param .b32 retval0;\n"
             "call.uni (retval0), \nvprintf, \n(\nparam0, \nparam1\n);\n"
             "ld.param.b32 %r1, [retval0+0];\n} // callseq 0\n"
             "{ .param .b32 param0; .param .b32 retval0;\n"
             "call.uni (retval0), twice, (param0); }\n"
             "call helper;\nret; }\n"
             ".func (.param .b32 r) twice(.param .b32 x) { ret; }\n"
             ".func helper() { ret; }\n");
    const struct ptx_func *k = m->func[0];
    const struct ptx_inst *print = &k->insts[2], *twice = &k->insts[4];
    assert_int_equal(m->nfuncs, 3);
    assert_int_equal(print->nops, 3);
    assert_int_equal(print->op[0].nelem, 1);
    assert_int_equal(print->op[1].kind, PTX_OP_FUNC);
    assert_string_equal(print->op[1].name, "vprintf");
    assert_int_equal(print->op[1].target, -1);
    assert_int_equal(print->op[2].nelem, 2);
    assert_true(print->op[2].elem[1].sym->is_scratch);
    assert_int_equal(twice->op[1].target, 1);
    assert_int_equal(k->insts[5].op[0].nelem, 0);
    assert_int_equal(k->insts[5].op[1].target, 2);
    assert_int_equal(k->insts[5].op[2].nelem, 0);
    assert_int_equal(m->func[1]->nresults, 1);
    assert_int_equal(m->func[1]->result[0]->offset, 4);
    assert_true(k->local_bytes >= 8 + 8 + 4 + 4 + 4);
    ptx_free(m);
}

/* --- refusals ------------------------------------------------------------ */

static void errors_say_line_found_and_expected(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } row[] = {
        {"", "ptx:1: found the end of the text, expected '.version'"},
        {".version 9\n", "ptx:1: found '9', expected a version such as 9.0"},
        {".version 9.0\n.target compute_80\n",
         "ptx:2: found 'compute_80', expected a target such as sm_80"},
        {".version 9.0\n.target sm_80\n.address_size 32\n",
         "ptx:3: found an .address_size that is not 64, expected 64"},
        {HEAD "bogus\n", "ptx:4: found 'bogus', expected a function, a "
                         "variable or a module directive"},
        {HEAD ".entry k() {\n", "ptx:5: found the end of the text, expected "
                                "an instruction, a declaration, '{' or '}'"},
        {HEAD ".entry k() {\nret }\n", "ptx:5: found '}', expected an "
                                       "operand"},
        {HEAD ".entry k(.param .u64) { ret; }",
         "ptx:4: found ')', expected the name of a variable"},
        {HEAD ".global .b8 a[2] = {1, 2, 3};",
         "ptx:4: found more initial values than 'a' has elements, expected at "
         "most 2"},
        {HEAD ".global .align 3 .b8 a;", "ptx:4: found alignment 3, expected "
                                         "a power of two up to 65536"},
        {HEAD ".global .b8 a[];", "ptx:4: found no size for 'a', expected one "
                                  "except for .extern .shared"},
        {HEAD "/* no end", "ptx:4: found a comment without end, expected "
                           "'*/'"},
        {HEAD ".file 1 \"x\n", "ptx:4: found a string without end, expected "
                               "'\"'"},
        {HEAD ".entry k() { \x01 }", "ptx:4: found byte 0x01, expected PTX "
                                     "text"},
        {HEAD ".entry k() { ret; }\n.entry k() { ret; }",
         "ptx:5: found a second body of 'k', expected one"},
        {HEAD ".local .b32 x;", "ptx:4: found 'x' outside a function, "
                                "expected .global, .const or .shared"},
        {HEAD ".entry k() {\ncall nobody;\n}",
         "ptx:5: found 'nobody', expected a declared register, variable, "
         "function or label"},
        {HEAD ".entry k() { .reg .b32 %r<99999999>; }",
         "ptx:4: found a set of 99999999 registers, expected at most 1048576"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        refuse(row[i].text, row[i].message);
}

static void an_error_buffer_of_one_byte_is_respected(void **state)
{
    (void)state;
    char small[2] = {'x', 'y'};
    assert_null(ptx_parse("bogus", 5, small, 1));
    assert_int_equal(small[0], 0);
    assert_int_equal(small[1], 'y');
}

/* --- whole texts --------------------------------------------------------- */

static const char sample[] =
    "//\n// Generated by NVIDIA NVVM Compiler\n//\n\n"
    ".version 9.0\n.target sm_80, debug\n.address_size 64\n\n"
    ".extern .func __assertfail\n(\n\t.param .b64 a0,\n\t.param .b32 "
    "a1\n)\n;\n"
    ".global .align 1 .b8 $str[3] = {97, 98};\n"
    ".global .align 8 .u64 names[1] = {generic($str)};\n"
    ".extern .shared .align 1024 .b8 dyn[];\n"
    ".func  (.param .b32 func_retval0) _Z6helperi(\n\t.param .b32 "
    "_Z6helperi_param_0\n)\n{\n\t.reg .b32 \t%r<3>;\n\t.loc\t1 8 0\n"
    "\t// demoted variable\n\t.shared .align 4 .b8 q[32];\n"
    "\tld.param.u32 \t%r1, [_Z6helperi_param_0];\n"
    "\tst.param.b32 \t[func_retval0+0], %r1;\n\tret;\n\n}\n"
    "\t// .globl\tk\n.visible .entry k(\n\t.param .u64 k_param_0,\n"
    "\t.param .align 8 .b8 k_param_1[40]\n)\n.maxntid 128, 1, 1\n"
    ".minnctapersm 2\n{\n\t.local .align 16 .b8 \t__local_depot1[96];\n"
    "\t.reg .b64 \t%SP;\n\t.reg .b64 \t%SPL;\n\t.reg .pred \t%p<3>;\n"
    "\t.reg .b32 \t%r<20>;\n\t.reg .f32 \t%f<9>;\n\t.reg .b64 \t%rd<9>;\n"
    "\t.loc\t1 10 0\n$L__func_begin1:\n"
    "\tmov.u64 \t%SPL, __local_depot1;\n\tcvta.local.u64 \t%SP, %SPL;\n"
    "\tld.param.v2.u8 \t{%r1, %r2}, [k_param_1+34];\n"
    "\t// begin inline asm\n\t{ .reg .pred p; .reg .b32 t<3>; "
    "L: @p bra L2; mov.u32 t1, 3; bra L; L2: }\n\t// end inline asm\n"
    "\tsetp.gt.s32 \t%p1, %r1, 3;\n\t@!%p1 bra \t$L__BB1_2;\n"
    "\t.loc\t1 15 17, function_name $L__info_string0, inlined_at 1 12 1\n"
    "\t{ // callseq 0, 0\n\t.reg .b32 temp_param_reg;\n"
    "\t.param .b64 param0;\n\tst.param.b64 \t[param0+0], %rd6;\n"
    "\t.param .b32 param1;\n\tst.param.b32 \t[param1+0], 15;\n"
    "\tcall.uni \n\t__assertfail, \n\t(\n\tparam0, \n\tparam1\n\t);\n"
    "\t} // callseq 0\n\n$L__BB1_2:\n\t.pragma \"nounroll\";\n"
    "\tmma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
    "{%f1, _, %f2, _}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f3, 0., %f4, "
    "0f3F800000};\n\tld.global.nc.L2::128B.v4.u32 {%r1, %r2, %r3, %r4}, "
    "[%rd1+-16];\n\tshfl.sync.bfly.b32 %r9|%p2, %r1, 16, 31, -1;\n"
    "\tmov.u64 %rd2, 1364590687093260288;\n\tret;\n$L__func_end1:\n\n}\n"
    "\t.file\t1 \"/tmp/n.cu\", 1700000000, 99\n"
    "\t.section\t.debug_loc\n\t{\n.b64 $L__tmp14\n.b8 5\n\t}\n";

static void every_prefix_is_refused_or_parsed(void **state)
{
    (void)state;
    ptx_free(parse(sample));
    for (size_t n = 0; n < sizeof sample; n++) {
        /* An exact copy, so that a sanitizer sees one byte too far. */
        char *text = malloc(n ? n : 1);
        assert_non_null(text);
        memcpy(text, sample, n);
        err[0] = 0;
        struct ptx_module *m = ptx_parse(text, n, err, sizeof err);
        assert_true(m ? err[0] == 0 : strncmp(err, "ptx:", 4) == 0);
        ptx_free(m);
        free(text);
    }
}

/* One byte replaced by each of a few that matter to the grammar. */
static void every_damaged_byte_is_refused_or_parsed(void **state)
{
    (void)state;
    static const char damage[] = "{}[]().,;:%$_@!|-+09fxU\"/*\n<>=\200";
    char *text = malloc(sizeof sample);
    assert_non_null(text);
    for (size_t i = 0; i + 1 < sizeof sample; i++) {
        memcpy(text, sample, sizeof sample);
        text[i] = damage[(i * 7 + i / 31) % (sizeof damage - 1)];
        err[0] = 0;
        struct ptx_module *m =
            ptx_parse(text, sizeof sample - 1, err, sizeof err);
        assert_true(m ? err[0] == 0 : strncmp(err, "ptx:", 4) == 0);
        ptx_free(m);
    }
    free(text);
}

/* 8,000 scopes deep, as a stack overflow would need. */
static void deep_nesting_is_no_recursion(void **state)
{
    (void)state;
    enum { DEPTH = 8000 };
    size_t head = strlen(HEAD ".entry k() {");
    char *text = malloc(head + 2 * DEPTH + 2);
    assert_non_null(text);
    memcpy(text, HEAD ".entry k() {", head);
    memset(text + head, '{', DEPTH);
    memset(text + head + DEPTH, '}', DEPTH + 1);
    struct ptx_module *m =
        ptx_parse(text, head + 2 * DEPTH + 1, err, sizeof err);
    assert_non_null(m);
    ptx_free(m);
    free(text);
}

/* Half a megabyte of PTX in 50 ms, the bar for loading a large kernel;
 * sanitizers and a busy machine get ten times that. */
static void half_a_megabyte_parses_quickly(void **state)
{
    (void)state;
    enum { BYTES = 500000 };
    char *text = malloc(BYTES + 400);
    assert_non_null(text);
    int n = sprintf(text, "%s", PROLOGUE);
    for (int i = 0; n < BYTES; i++)
        n += sprintf(text + n,
                     "\t.loc\t1 %d 3\n\tmma.sync.aligned.m16n8k16.row.col.f32."
                     "bf16.bf16.f32 {%%f1,%%f2,%%f3,%%f4}, {%%r1,%%r2,%%r3,"
                     "%%r4}, {%%r5,%%r6}, {%%f1,%%f2,%%f3,0.};\n"
                     "L%d:\n\t@%%p1 bra L%d;\n",
                     i, i, i);
    n += sprintf(text + n, "}\n");
    clock_t start = clock();
    struct ptx_module *m = ptx_parse(text, (size_t)n, err, sizeof err);
    double ms = 1e3 * (double)(clock() - start) / CLOCKS_PER_SEC;
    assert_non_null(m);
    ptx_free(m);
    free(text);
    if (ms > 500)
        fail_msg("%.1f ms for %d bytes", ms, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_version_and_target),
        cmocka_unit_test(variables_have_size_alignment_and_bytes),
        cmocka_unit_test(initialisers_may_hold_addresses),
        cmocka_unit_test(parameters_are_laid_out_by_alignment),
        cmocka_unit_test(launch_directives_are_kept),
        cmocka_unit_test(debug_text_is_stepped_over),
        cmocka_unit_test(opcodes_stay_words),
        cmocka_unit_test(a_ret_always_ends_a_function),
        cmocka_unit_test(guards_name_a_predicate),
        cmocka_unit_test(literals_keep_their_bits),
        cmocka_unit_test(numbers_that_are_none_are_refused),
        cmocka_unit_test(vectors_hold_sinks_and_literals),
        cmocka_unit_test(addresses_have_base_and_offset),
        cmocka_unit_test(pairs_negations_and_special_registers),
        cmocka_unit_test(labels_belong_to_their_braces),
        cmocka_unit_test(inner_registers_shadow_outer_ones),
        cmocka_unit_test(names_of_a_closed_scope_are_gone),
        cmocka_unit_test(branch_targets_become_a_vector),
        cmocka_unit_test(shared_memory_is_laid_out_per_kernel),
        cmocka_unit_test(calls_have_three_operands),
        cmocka_unit_test(errors_say_line_found_and_expected),
        cmocka_unit_test(an_error_buffer_of_one_byte_is_respected),
        cmocka_unit_test(every_prefix_is_refused_or_parsed),
        cmocka_unit_test(every_damaged_byte_is_refused_or_parsed),
        cmocka_unit_test(deep_nesting_is_no_recursion),
        cmocka_unit_test(half_a_megabyte_parses_quickly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
