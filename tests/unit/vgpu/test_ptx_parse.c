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
#define KERNEL(body)                                                          \
    HEAD ".visible .entry k(.param .u64 p)\n{\n"                              \
         ".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<9>;\n"              \
         ".reg .f32 %f<9>; .reg .b64 %rd<9>;\n" body "\n}\n"

static char err[300];

static struct ptx_module *parse(const char *text)
{
    struct ptx_module *m = ptx_parse(text, strlen(text), err, sizeof err);
    if (!m)
        fail_msg("refused: %s", err);
    return m;
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

static const char *reg_name(const struct ptx_func *f,
                            const struct ptx_operand *op)
{
    assert_int_equal(op->kind, PTX_OP_REG);
    return f->regs[op->reg].name;
}

/* --- module level ------------------------------------------------------------ */

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
    struct ptx_module *m = parse(HEAD
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
    struct ptx_module *m = parse(HEAD
        ".global .align 1 .b8 $str[3] = {97, 98};\n"
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
    struct ptx_module *m = parse(HEAD
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
    struct ptx_module *m = parse(HEAD
        ".entry a() .maxntid 128, 2 .minnctapersm 3 .maxnreg 168\n"
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
    struct ptx_module *m = parse(HEAD
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
    assert_int_equal(f->insts[0].ptx_line, 12);
    ptx_free(m);
}

/* --- opcodes ----------------------------------------------------------------- */

static void opcodes_stay_words(void **state)
{
    (void)state;
    struct ptx_module *m = parse(KERNEL(
        "ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%r1,%r2,%r3,%r4}, "
        "[%rd1];\nld .shared .u32 %r1, [%r2];\nret;"));
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
    struct ptx_module *m = parse(KERNEL("bra end;\nend:"));
    const struct ptx_func *f = m->func[0];
    assert_int_equal(f->ninsts, 2);
    assert_string_equal(f->insts[1].opcode, "ret");
    assert_int_equal(f->insts[0].op[0].target, 1);
    ptx_free(m);
}

static void guards_name_a_predicate(void **state)
{
    (void)state;
    struct ptx_module *m = parse(KERNEL(
        "@%p1 mov.u32 %r1, 1;\n@!%p2 mov.u32 %r1, 2;\nmov.u32 %r1, 3;"));
    const struct ptx_func *f = m->func[0];
    assert_string_equal(f->regs[f->insts[0].guard].name, "%p1");
    assert_false(f->insts[0].guard_negated);
    assert_string_equal(f->regs[f->insts[1].guard].name, "%p2");
    assert_true(f->insts[1].guard_negated);
    assert_int_equal(f->insts[2].guard, -1);
    ptx_free(m);
    refuse(KERNEL("@%r1 ret;"), "ptx:7: found guard '%r1', expected a "
                                "predicate register");
}

/* --- operands ---------------------------------------------------------------- */

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
        char text[900];
        snprintf(text, sizeof text, KERNEL("mov.b64 %%rd1, %s;"), row[i].text);
        /* KERNEL's own register sets have % signs, doubled here. */
        char *doubled = text;
        (void)doubled;
        struct ptx_module *m = parse(text);
        const struct ptx_operand *op = &m->func[0]->insts[0].op[1];
        assert_int_equal(op->kind, row[i].kind);
        assert_true(op->bits == row[i].bits);
        ptx_free(m);
    }
}
