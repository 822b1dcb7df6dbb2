/* SPDX-License-Identifier: Apache-2.0
 *
 * test_exec.c: warps, groups, barriers, CTAs and schedules of the executor,
 * on hand-written PTX through vg_compile and vg_launch.
 *
 * Every kernel has one parameter, the address of a zeroed array of 32-bit
 * words, and registers declared by PROLOGUE: %r0 tid, %r1 lane, %r2 ctaid,
 * %r3 the number of the thread in the grid, %rd0 the array, %rd1 the thread's
 * own word in it.
 */
#include "exec.h"
#include "mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 8192
#define PROLOGUE                                                              \
    ".reg .b16 %h<8>;\n.reg .b32 %r<40>;\n.reg .b64 %rd<16>;\n"               \
    ".reg .pred %p<8>;\n.reg .f32 %f<16>;\n"                                  \
    "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %laneid;\nmov.u32 %r2, %ctaid.x;\n"   \
    "mov.u32 %r4, %ntid.x;\nmad.lo.s32 %r3, %r2, %r4, %r0;\n"                 \
    "ld.param.u64 %rd0, [out];\nmul.wide.u32 %rd1, %r3, 4;\n"                 \
    "add.s64 %rd1, %rd0, %rd1;\n"
#define STORE(r) "st.global.u32 [%rd1], " r ";\n"

/* ---- harness ------------------------------------------------------------- */

struct box {
    struct ptx_module *module;
    struct vg_program *program;
    struct vg_mem *mem;
    struct vg_config config;
    struct vg_result result;
    uint64_t out;
    uint32_t word[WORDS];
    char err[512];
};

static struct box *box_new(const char *before, const char *body)
{
    struct box *b = calloc(1, sizeof *b);
    char *text = NULL;
    assert_non_null(b);
    assert_true(asprintf(&text,
                         ".version 9.0\n.target sm_90a\n.address_size 64\n"
                         "%s\n.visible .entry k(.param .u64 out)\n{\n%s%s"
                         "\nret;\n}\n",
                         before, PROLOGUE, body) > 0);
    b->module = ptx_parse(text, strlen(text), b->err, sizeof b->err);
    free(text);
    if (!b->module)
        fail_msg("%s", b->err);
    for (int n = 0; n < b->module->nfuncs; n++)
        if (b->module->func[n]->is_entry)
            b->program = vg_compile(b->module, b->module->func[n], NULL, NULL,
                                    b->err, sizeof b->err);
    b->mem = vg_mem_new(1 << 20);
    assert_non_null(b->mem);
    assert_int_equal(vg_mem_alloc(b->mem, sizeof b->word, 0, "out", &b->out),
                     VG_MEM_OK);
    b->config = (struct vg_config){.grid = {1, 1, 1}, .block = {32, 1, 1},
                                   .params = &b->out, .memory = b->mem,
                                   .threads = 1, .sms = 132, .arch = 90};
    return b;
}

static void box_free(struct box *b)
{
    vg_result_free(&b->result);
    vg_program_free(b->program);
    ptx_free(b->module);
    vg_mem_delete(b->mem);
    free(b);
}

/* Runs the kernel on a zeroed array; the array comes back in b->word. */
static enum vg_code box_run(struct box *b)
{
    if (!b->program)
        fail_msg("%s", b->err);
    vg_result_free(&b->result);
    vg_mem_set(b->mem, b->out, 0, 4, WORDS);
    enum vg_code r = vg_launch(b->program, &b->config, &b->result);
    vg_mem_read(b->mem, b->word, b->out, sizeof b->word);
    return r;
}

static struct box *run_ok(const char *body, uint32_t grid, uint32_t block)
{
    struct box *b = box_new("", body);
    b->config.grid[0] = grid;
    b->config.block[0] = block;
    if (box_run(b) != VG_OK)
        fail_msg("%s", b->result.report);
    return b;
}

/* Runs a kernel that must fail; the report must contain every given text. */
static void run_fault(const char *body, uint32_t block, enum vg_code code,
                      ...)
{
    struct box *b = box_new("", body);
    const char *want;
    va_list ap;
    b->config.block[0] = block;
    b->config.watchdog = 100000;
    assert_int_equal(box_run(b), code);
    va_start(ap, code);
    while ((want = va_arg(ap, const char *)))
        if (!b->result.report || !strstr(b->result.report, want))
            fail_msg("no '%s' in: %s", want, b->result.report);
    va_end(ap);
    box_free(b);
}

static void refused(const char *before, const char *body, const char *want)
{
    struct box *b = box_new(before, body);
    assert_null(b->program);
    if (!strstr(b->err, want))
        fail_msg("no '%s' in: %s", want, b->err);
    box_free(b);
}

/* ---- divergence ---------------------------------------------------------- */

static void test_both_sides_of_a_branch_run_and_meet_again(void **state)
{
    (void)state;
    struct box *b = run_ok("setp.lt.u32 %p0, %r1, 10;\n"
                           "@%p0 bra LOW;\n"
                           "mov.u32 %r5, 100;\nactivemask.b32 %r6;\n"
                           "bra JOIN;\n"
                           "LOW: mov.u32 %r5, 200;\nactivemask.b32 %r6;\n"
                           "JOIN: activemask.b32 %r7;\n"
                           "setp.ne.u32 %p1, %r7, 0xffffffff;\n"
                           "@%p1 mov.u32 %r5, 0;\n"
                           "setp.eq.u32 %p2, %r1, 31;\n"
                           "@%p2 mov.u32 %r5, %r6;\n"
                           STORE("%r5"), 1, 32);
    for (int l = 0; l < 31; l++)
        assert_int_equal(b->word[l], l < 10 ? 200 : 100);
    assert_int_equal(b->word[31], 0xfffffc00);
    box_free(b);
}

/* Lane l: sum over i < l of (sum over j < i of 1) = l (l - 1) / 2. */
#define NESTED                                                                \
    "mov.u32 %r5, 0;\nmov.u32 %r6, 0;\n"                                      \
    "OUTER: setp.ge.u32 %p0, %r6, %r1;\n@%p0 bra DONE;\n"                     \
    "mov.u32 %r7, 0;\n"                                                       \
    "INNER: setp.ge.u32 %p1, %r7, %r6;\n@%p1 bra NEXT;\n"                     \
    "add.u32 %r5, %r5, 1;\nadd.u32 %r7, %r7, 1;\nbra INNER;\n"                \
    "NEXT: add.u32 %r6, %r6, 1;\nbra OUTER;\n"                                \
    "DONE: activemask.b32 %r8;\nsetp.ne.u32 %p2, %r8, -1;\n"                  \
    "@%p2 add.u32 %r5, %r5, 1000000;\n" STORE("%r5")

static void test_nested_loops_with_trip_counts_per_lane(void **state)
{
    (void)state;
    struct box *b = run_ok(NESTED, 1, 32);
    for (int l = 0; l < 32; l++)
        assert_int_equal(b->word[l], l * (l - 1) / 2);
    box_free(b);
}

/* Values that live across a divergent region must survive what the other
 * side does with the registers that are free there. */
static void test_slots_are_not_shared_between_diverged_lanes(void **state)
{
    (void)state;
    struct box *b = run_ok(
        "add.u32 %r10, %r1, 1000;\nadd.u32 %r11, %r1, 2000;\n"
        "setp.lt.u32 %p0, %r1, 16;\n@%p0 bra A;\n"
        "add.u32 %r20, %r10, 1;\nadd.u32 %r21, %r20, 1;\n"
        "add.u32 %r22, %r21, 1;\nadd.u32 %r5, %r22, %r11;\nbra J;\n"
        "A: mul.lo.u32 %r23, %r11, 3;\nmul.lo.u32 %r24, %r23, 3;\n"
        "add.u32 %r5, %r24, %r10;\n"
        "J:\n" STORE("%r5"), 1, 32);
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(b->word[l], l < 16 ? (l + 2000) * 9 + l + 1000
                                            : 2 * l + 3003);
    box_free(b);
}

static void test_brx_idx_sends_each_lane_to_its_label(void **state)
{
    (void)state;
    struct box *b = run_ok("and.b32 %r5, %r1, 3;\n"
                           "ts: .branchtargets L0, L1, L2, L3;\n"
                           "brx.idx %r5, ts;\n"
                           "L0: mov.u32 %r6, 10;\nbra E;\n"
                           "L1: mov.u32 %r6, 11;\nbra E;\n"
                           "L2: mov.u32 %r6, 12;\nbra E;\n"
                           "L3: mov.u32 %r6, 13;\n"
                           "E:\n" STORE("%r6"), 1, 32);
    for (int l = 0; l < 32; l++)
        assert_int_equal(b->word[l], 10 + l % 4);
    box_free(b);
}

static void test_functions_are_inlined_with_their_own_registers(void **state)
{
    static const char func[] =
        ".func (.param .b32 res) twice(.param .b32 x)\n{\n.reg .b32 %r<4>;\n"
        ".reg .pred %p<2>;\n"
        "ld.param.u32 %r1, [x];\nsetp.gt.u32 %p1, %r1, 20;\n@%p1 bra BIG;\n"
        "add.u32 %r2, %r1, %r1;\nst.param.b32 [res], %r2;\nret;\n"
        "BIG: mov.u32 %r3, 7;\nst.param.b32 [res], %r3;\nret;\n}\n";
#define CALL(r)                                                               \
    "{\n.param .b32 p0;\nst.param.b32 [p0], " r ";\n.param .b32 q0;\n"       \
    "call.uni (q0), twice, (p0);\nld.param.b32 %r5, [q0];\n}\n"
    (void)state;
    struct box *b = box_new(func, CALL("%r1") CALL("%r5")
                            "add.u32 %r5, %r5, %r1;\n" STORE("%r5"));
    assert_int_equal(box_run(b), VG_OK);
    for (int l = 0; l < 32; l++) {
        int x = l > 20 ? 7 : 2 * l;
        assert_int_equal(b->word[l], (x > 20 ? 7 : 2 * x) + l);
    }
    box_free(b);
}

/* ---- forward progress ---------------------------------------------------- */

/* Lane 0 spins until lane 31, which is behind it in the code, sets a flag. */
static void test_a_lane_may_wait_for_another_lane_of_its_warp(void **state)
{
    (void)state;
    struct box *b = run_ok("setp.ne.u32 %p0, %r1, 0;\n@%p0 bra OTHERS;\n"
                           "SPIN: ld.relaxed.gpu.global.u32 %r5, "
                           "[%rd0 + 400];\n"
                           "setp.eq.u32 %p1, %r5, 0;\n@%p1 bra SPIN;\n"
                           "mov.u32 %r6, 5;\n" STORE("%r6") "bra END;\n"
                           "OTHERS: setp.ne.u32 %p2, %r1, 31;\n"
                           "@%p2 bra END;\nmov.u32 %r7, 1;\n"
                           "st.relaxed.gpu.global.u32 [%rd0 + 400], %r7;\n"
                           "END:\n", 1, 32);
    assert_int_equal(b->word[0], 5);
    box_free(b);
}

/* Warp 0 waits for warp 1, warp 1 for warp 2, which starts the chain. */
#define CHAIN                                                                 \
    "shr.u32 %r5, %r0, 5;\nmul.wide.u32 %rd2, %r5, 4;\n"                      \
    "add.s64 %rd2, %rd0, %rd2;\nsetp.eq.u32 %p0, %r5, 2;\n@%p0 bra GO;\n"     \
    "W: ld.relaxed.gpu.global.u32 %r6, [%rd2 + 4004];\n"                      \
    "setp.eq.u32 %p1, %r6, 0;\n@%p1 bra W;\n"                                 \
    "GO: mov.u32 %r7, 1;\nst.relaxed.gpu.global.u32 [%rd2 + 4000], %r7;\n"    \
    STORE("%r7")

static void test_a_warp_may_wait_for_another_warp(void **state)
{
    struct box *b = run_ok(CHAIN, 1, 96);
    (void)state;
    for (int t = 0; t < 96; t++)
        assert_int_equal(b->word[t], 1);
    box_free(b);
}

static void test_endless_spinning_is_reported(void **state)
{
    (void)state;
    run_fault("W: ld.relaxed.gpu.global.u32 %r6, [%rd0];\n"
              "setp.eq.u32 %p1, %r6, 0;\n@%p1 bra W;\n", 32, VG_TIMEOUT,
              "no store, barrier or exit", "warp 0 lanes ffffffff running",
              "ptx line", NULL);
}

/* ---- barriers ------------------------------------------------------------ */

/* Thread t leaves t in shared memory and reads its mirror's. */
#define MIRROR(sync)                                                          \
    ".shared .align 4 .b32 s[128];\nmov.u32 %r5, s;\n"                        \
    "shl.b32 %r6, %r0, 2;\nadd.u32 %r7, %r5, %r6;\n"                          \
    "st.shared.u32 [%r7], %r0;\n" sync                                        \
    "sub.u32 %r8, 508, %r6;\nadd.u32 %r9, %r5, %r8;\n"                        \
    "ld.shared.u32 %r10, [%r9];\n" STORE("%r10")

static void test_barrier_orders_shared_memory(void **state)
{
    static const char *const sync[] = {
        MIRROR("bar.sync 0;\n"), MIRROR("barrier.sync.aligned 3, 128;\n"),
        MIRROR("barrier.cta.sync 15;\n"),
        MIRROR("mov.u32 %r11, 9;\nmov.u32 %r12, 128;\n"
               "bar.sync %r11, %r12;\n")};
    (void)state;
    for (size_t n = 0; n < sizeof sync / sizeof *sync; n++) {
        struct box *b = run_ok(sync[n], 1, 128);
        for (int t = 0; t < 128; t++)
            assert_int_equal(b->word[t], 127 - t);
        box_free(b);
    }
}

static void test_barrier_does_not_wait_for_exited_threads(void **state)
{
    (void)state;
    struct box *b = run_ok("setp.ge.u32 %p0, %r0, 50;\n@%p0 bra E;\n"
                           "bar.sync 0;\nmov.u32 %r5, 1;\n" STORE("%r5")
                           "E:\n", 1, 128);
    for (int t = 0; t < 128; t++)
        assert_int_equal(b->word[t], t < 50);
    box_free(b);
}

static void test_barrier_waits_for_lanes_that_come_later(void **state)
{
    (void)state;
    struct box *b = run_ok("setp.lt.u32 %p0, %r1, 5;\n@%p0 bra B;\n"
                           "bra S;\nB: mov.u32 %r6, 0;\n"
                           "L: add.u32 %r6, %r6, 1;\n"
                           "setp.lt.u32 %p1, %r6, 5000;\n@%p1 bra L;\n"
                           "S: bar.sync 0;\nactivemask.b32 %r7;\n"
                           STORE("%r7"), 1, 64);
    for (int t = 0; t < 64; t++)
        assert_int_equal(b->word[t], 0xffffffff);
    box_free(b);
}

/* Warps 0 and 1 arrive and go on; warp 2 waits for both. */
static void test_arrive_does_not_wait(void **state)
{
    (void)state;
    struct box *b = run_ok("setp.ge.u32 %p0, %r0, 64;\n@%p0 bra C;\n"
                           "atom.add.relaxed.cta.global.u32 %r6, "
                           "[%rd0 + 4000], 1;\n"
                           "bar.arrive 1, 96;\nbra E;\n"
                           "C: bar.sync 1, 96;\n"
                           "ld.relaxed.cta.global.u32 %r5, [%rd0 + 4000];\n"
                           STORE("%r5") "E:\n", 1, 96);
    for (int t = 64; t < 96; t++)
        assert_int_equal(b->word[t], 64);
    box_free(b);
}

static void test_barrier_reductions(void **state)
{
    (void)state;
    struct box *b = run_ok("setp.lt.u32 %p0, %r0, 37;\n"
                           "setp.lt.u32 %p1, %r0, 64;\n"
                           "bar.red.popc.u32 %r5, 0, %p0;\n"
                           "bar.red.and.pred %p2, 1, %p1;\n"
                           "bar.red.or.pred %p3, 1, 64, !%p0;\n"
                           "bar.red.and.pred %p4, 2, 64, !%p0;\n"
                           "selp.u32 %r6, 1000, 0, %p2;\n"
                           "selp.u32 %r7, 10000, 0, %p3;\n"
                           "selp.u32 %r8, 100000, 0, %p4;\n"
                           "add.u32 %r5, %r5, %r6;\nadd.u32 %r5, %r5, %r7;\n"
                           "add.u32 %r5, %r5, %r8;\n" STORE("%r5"), 1, 64);
    for (int t = 0; t < 64; t++)
        assert_int_equal(b->word[t], 11037);
    box_free(b);
}

static void test_barrier_misuse_is_named(void **state)
{
    (void)state;
    run_fault("bar.sync 1, 40;\n", 64, VG_FAILED, "no multiple of 32", NULL);
    run_fault("mov.u32 %r5, 16;\nbar.sync %r5;\n", 64, VG_FAILED,
              "barrier 16: there are 16", NULL);
    run_fault("shr.u32 %r5, %r0, 5;\nadd.u32 %r5, %r5, 2;\n"
              "shl.b32 %r5, %r5, 5;\nbar.sync 1, %r5;\n", 96, VG_FAILED,
              "expects 96 threads here but 64", NULL);
    run_fault("bar.sync %r1;\n", 32, VG_FAILED, "barrier id differs", NULL);
}

static void test_deadlock_report_shows_every_warp(void **state)
{
    (void)state;
    run_fault("setp.ge.u32 %p0, %r0, 32;\n@%p0 bra B;\nbar.sync 1, 64;\n"
              "bra E;\nB: bar.sync 2, 64;\nE:\n", 64, VG_FAILED,
              "k: deadlock: no warp can run",
              "block (0,0,0) warp 0 lanes ffffffff waits at barrier 1: "
              "32 of 64 threads arrived, at ptx line",
              "warp 1 lanes ffffffff waits at barrier 2: 32 of 64", NULL);
}

/* ---- whole warps and member masks ---------------------------------------- */

static void test_aligned_instruction_in_a_partial_warp_faults(void **state)
{
    (void)state;
    run_fault("setp.lt.u32 %p0, %r1, 16;\n@%p0 bra B;\nbar.sync 0;\nbra E;\n"
              "B: bar.sync 0;\nE:\n", 32, VG_FAILED, "partial warp",
              "bar.sync", "lanes 0000ffff", "lanes ffff0000", NULL);
    run_fault("setp.lt.u32 %p0, %r1, 16;\n"
              "@%p0 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r6];\n"
              "bar.sync 0;\n", 32, VG_FAILED, "partial warp", "ldmatrix",
              NULL);
    run_fault("setp.ge.u32 %p0, %r1, 30;\n@%p0 exit;\n"
              "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r6];\n", 32,
              VG_FAILED, "partial warp", "only 3fffffff have not exited",
              NULL);
    run_fault("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r6];\n", 20,
              VG_FAILED, "partial warp", "only 000fffff exist", NULL);
}

/* Two half warps vote with their own masks at different times. */
static void test_member_masks_divide_a_warp(void **state)
{
    (void)state;
    struct box *b = run_ok(
        "setp.lt.u32 %p0, %r1, 16;\nselp.b32 %r5, 0xffff, 0xffff0000, %p0;\n"
        "and.b32 %r6, %r1, 1;\nsetp.eq.u32 %p1, %r6, 0;\n"
        "@%p0 bra S;\nmov.u32 %r7, 0;\nL: add.u32 %r7, %r7, 1;\n"
        "setp.lt.u32 %p2, %r7, 3000;\n@%p2 bra L;\n"
        "S: vote.sync.ballot.b32 %r8, %p1, %r5;\n" STORE("%r8"), 1, 32);
    for (int l = 0; l < 32; l++)
        assert_int_equal(b->word[l], l < 16 ? 0x5555 : 0x55550000);
    box_free(b);
}

static void test_member_that_never_comes_is_reported(void **state)
{
    (void)state;
    run_fault("setp.lt.u32 %p0, %r1, 8;\n@%p0 bra B;\n"
              "shfl.sync.bfly.b32 %r5, %r1, 1, 31, -1;\nbra E;\n"
              "B: bar.warp.sync 0xff;\nshfl.sync.bfly.b32 %r5, %r1, 1, 31, "
              "-1;\nE:\n", 32, VG_FAILED, "member mask", "shfl.sync", NULL);
    run_fault("bar.warp.sync 0xfffffffe;\n", 32, VG_FAILED,
              "not in its own member mask", "lane 0", NULL);
}

/* Exited lanes are not waited for. */
static void test_member_mask_ignores_exited_lanes(void **state)
{
    (void)state;
    struct box *b = run_ok("setp.ge.u32 %p0, %r1, 8;\n@%p0 exit;\n"
                           "setp.eq.u32 %p1, %r1, %r1;\n"
                           "vote.sync.ballot.b32 %r5, %p1, -1;\n"
                           STORE("%r5"), 1, 32);
    for (int l = 0; l < 32; l++)
        assert_int_equal(b->word[l], l < 8 ? 0xff : 0);
    box_free(b);
}

/* ---- grids, sets, seeds -------------------------------------------------- */

static void test_every_cta_runs_once_in_any_order(void **state)
{
    (void)state;
    struct box *b = box_new("",
        "mov.u32 %r5, %ctaid.y;\nmov.u32 %r6, %ctaid.z;\n"
        "mov.u32 %r7, %nctaid.y;\nmov.u32 %r8, %nctaid.x;\n"
        "mad.lo.u32 %r9, %r6, %r7, %r5;\nmad.lo.u32 %r9, %r9, %r8, %r2;\n"
        "mul.wide.u32 %rd2, %r9, 4;\nadd.s64 %rd2, %rd0, %rd2;\n"
        "red.relaxed.gpu.global.add.u32 [%rd2], 1;\n");
    memcpy(b->config.grid, (uint32_t[3]){7, 5, 3}, sizeof b->config.grid);
    for (unsigned n = 0; n < 12; n++) {
        b->config.seed = n;
        b->config.threads = 1 + n % 3;
        assert_int_equal(box_run(b), VG_OK);
        for (int c = 0; c < 128; c++)
            assert_int_equal(b->word[c], c < 105 ? 32 : 0);
    }
    box_free(b);
}

/* The order in which warps of a CTA pass an atomic counter, per CTA. */
#define ORDER                                                                 \
    "mul.wide.u32 %rd2, %r2, 4;\nadd.s64 %rd2, %rd0, %rd2;\n"                 \
    "mov.u32 %r5, 0;\nL: add.u32 %r5, %r5, 1;\n"                              \
    "setp.lt.u32 %p0, %r5, 40;\n@%p0 bra L;\n"                                \
    "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra E;\n"                                 \
    "atom.relaxed.gpu.global.add.u32 %r6, [%rd2 + 16000], 1;\n"               \
    STORE("%r6") "E:\n"

static void test_a_seed_means_one_schedule_for_any_thread_count(void **state)
{
    static uint32_t first[WORDS];
    struct box *b = box_new("", ORDER);
    int orders = 0;
    (void)state;
    b->config.grid[0] = 13;
    b->config.block[0] = 256;
    for (uint64_t seed = 0; seed < 6; seed++) {
        b->config.seed = seed;
        b->config.threads = 1;
        assert_int_equal(box_run(b), VG_OK);
        orders += seed && memcmp(first, b->word, sizeof first) != 0;
        memcpy(first, b->word, sizeof first);
        for (unsigned threads = 1; threads <= 4; threads++) {
            b->config.threads = threads;
            assert_int_equal(box_run(b), VG_OK);
            assert_memory_equal(first, b->word, sizeof first);
        }
    }
    assert_int_equal(orders, 5);
    box_free(b);
}

static void test_results_do_not_depend_on_the_seed(void **state)
{
    static const char *const body[] = {NESTED, CHAIN, MIRROR("bar.sync 0;\n")};
    static const uint32_t block[] = {32, 96, 128};
    static uint32_t want[WORDS];
    (void)state;
    for (size_t n = 0; n < sizeof body / sizeof *body; n++) {
        struct box *b = run_ok(body[n], 1, block[n]);
        memcpy(want, b->word, sizeof want);
        for (b->config.seed = 1; b->config.seed < 30; b->config.seed++) {
            if (box_run(b) != VG_OK)
                fail_msg("seed %d: %s", (int)b->config.seed,
                         b->result.report);
            if (n == 0)     /* NESTED marks lanes that did not reconverge */
                for (int l = 0; l < 32; l++)
                    b->word[l] %= 1000000;
            assert_memory_equal(want, b->word, sizeof want);
        }
        box_free(b);
    }
}

/* The fault of the first CTA in launch order wins, whoever is faster. */
static void test_the_reported_fault_does_not_depend_on_threads(void **state)
{
    struct box *b = box_new("", "setp.gt.u32 %p0, %r2, 2;\n@%p0 trap;\n");
    char *first = NULL;
    (void)state;
    b->config.grid[0] = 64;
    for (unsigned n = 0; n < 24; n++) {
        b->config.threads = 1 + n % 4;
        b->config.seed = n / 4;
        assert_int_equal(box_run(b), VG_FAILED);
        if (n % 4 == 0) {
            free(first);
            first = strdup(b->result.report);
        }
        assert_string_equal(first, b->result.report);
    }
    free(first);
    box_free(b);
}

/* A cooperative grid: every CTA waits for all others. */
static void test_cooperative_ctas_are_resident_together(void **state)
{
    struct box *b = box_new("",
        "bar.sync 0;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra S;\n"
        "atom.add.release.gpu.global.u32 %r5, [%rd0 + 30000], 1;\n"
        "W: ld.acquire.gpu.global.u32 %r6, [%rd0 + 30000];\n"
        "mov.u32 %r7, %nctaid.x;\nsetp.lt.u32 %p1, %r6, %r7;\n@%p1 bra W;\n"
        "S: bar.sync 0;\nld.relaxed.gpu.global.u32 %r8, [%rd0 + 30000];\n"
        STORE("%r8"));
    (void)state;
    b->config.grid[0] = 40;
    b->config.block[0] = 64;
    b->config.cooperative = true;
    for (b->config.seed = 0; b->config.seed < 4; b->config.seed++) {
        if (box_run(b) != VG_OK)
            fail_msg("%s", b->result.report);
        for (int t = 0; t < 40 * 64; t++)
            assert_int_equal(b->word[t], 40);
    }
    box_free(b);
}

static void test_cluster_ranks_and_cluster_barrier(void **state)
{
    struct box *b = box_new("",
        "mov.u32 %r5, %cluster_ctarank;\nmov.u32 %r6, %clusterid.x;\n"
        "mov.u32 %r7, %cluster_nctarank;\nmul.wide.u32 %rd2, %r6, 4;\n"
        "add.s64 %rd2, %rd0, %rd2;\n"
        "atom.add.relaxed.gpu.global.u32 %r8, [%rd2 + 30000], 1;\n"
        "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
        "ld.relaxed.gpu.global.u32 %r8, [%rd2 + 30000];\n"
        "mad.lo.u32 %r9, %r5, 1000, %r8;\nmad.lo.u32 %r9, %r7, 10000, %r9;\n"
        STORE("%r9"));
    (void)state;
    b->config.grid[0] = 12;
    b->config.block[0] = 64;
    memcpy(b->config.cluster, (uint32_t[3]){4, 1, 1}, sizeof b->config.cluster);
    for (b->config.seed = 0; b->config.seed < 4; b->config.seed++) {
        if (box_run(b) != VG_OK)
            fail_msg("%s", b->result.report);
        for (uint32_t t = 0; t < 12 * 64; t++)
            assert_int_equal(b->word[t], 40000 + t / 64 % 4 * 1000 + 256);
    }
    box_free(b);
}

/* ---- counts, clocks, refusals -------------------------------------------- */

static void test_issue_counts_are_exact(void **state)
{
    struct box *b = run_ok("mov.u32 %r5, 0;\n"
                           "L: add.u32 %r5, %r5, 1;\n"
                           "setp.lt.u32 %p0, %r5, 10;\n@%p0 bra L;\n"
                           "setp.ge.u32 %p1, %r1, 24;\n@%p1 bra E;\n"
                           STORE("%r5") "E:\n", 3, 64);
    (void)state;
    for (int pc = 0; pc < b->program->ninsn; pc++) {
        const char *op = b->program->src[pc]->opcode;
        if (strcmp(op, "add.u32") == 0) {
            assert_int_equal(b->result.hits[pc], 3 * 2 * 10);
            assert_int_equal(b->result.lanes[pc], 3 * 64 * 10);
        }
        if (strcmp(op, "st.global.u32") == 0) {
            assert_int_equal(b->result.hits[pc], 3 * 2);
            assert_int_equal(b->result.lanes[pc], 3 * 48);
        }
    }
    /* 8 of PROLOGUE, 1, 3 in the loop ten times, 2, store, ret */
    assert_int_equal(b->result.warp_insns, 6 * (8 + 1 + 30 + 2 + 1 + 1));
    box_free(b);
}

static void test_trap_names_the_place(void **state)
{
    (void)state;
    run_fault("setp.eq.u32 %p0, %r0, 37;\n@%p0 trap;\n", 64, VG_FAILED,
              "k: trap executed", "at ptx line", "block (0,0,0) warp 1 lane 5 "
              "thread (37,0,0)", NULL);
}

static void test_what_is_not_known_is_refused_by_name(void **state)
{
    (void)state;
    refused("", "frobnicate.u32 %r5, %r6;\n", "frobnicate.u32: instruction");
    refused("", "add.sideways.u32 %r5, %r6, %r7;\n", "modifier .sideways");
    refused("", "add.u32 %r5, %r6, %r7, %r8;\n", "operand 4");
    refused("", "add.u32 %r5, %r6, %rd2;\n", "64 bits wide, 32 are needed");
    refused("", "mov.u32 %r5, %pm0;\n", "%pm0 is not known");
    refused(".func f()\n{\ncall.uni f;\nret;\n}\n", "call.uni f;\n",
            "recursion through f");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_sides_of_a_branch_run_and_meet_again),
        cmocka_unit_test(test_nested_loops_with_trip_counts_per_lane),
        cmocka_unit_test(test_slots_are_not_shared_between_diverged_lanes),
        cmocka_unit_test(test_brx_idx_sends_each_lane_to_its_label),
        cmocka_unit_test(test_functions_are_inlined_with_their_own_registers),
        cmocka_unit_test(test_a_lane_may_wait_for_another_lane_of_its_warp),
        cmocka_unit_test(test_a_warp_may_wait_for_another_warp),
        cmocka_unit_test(test_endless_spinning_is_reported),
        cmocka_unit_test(test_barrier_orders_shared_memory),
        cmocka_unit_test(test_barrier_does_not_wait_for_exited_threads),
        cmocka_unit_test(test_barrier_waits_for_lanes_that_come_later),
        cmocka_unit_test(test_arrive_does_not_wait),
        cmocka_unit_test(test_barrier_reductions),
        cmocka_unit_test(test_barrier_misuse_is_named),
        cmocka_unit_test(test_deadlock_report_shows_every_warp),
        cmocka_unit_test(test_aligned_instruction_in_a_partial_warp_faults),
        cmocka_unit_test(test_member_masks_divide_a_warp),
        cmocka_unit_test(test_member_that_never_comes_is_reported),
        cmocka_unit_test(test_member_mask_ignores_exited_lanes),
        cmocka_unit_test(test_every_cta_runs_once_in_any_order),
        cmocka_unit_test(test_a_seed_means_one_schedule_for_any_thread_count),
        cmocka_unit_test(test_results_do_not_depend_on_the_seed),
        cmocka_unit_test(test_the_reported_fault_does_not_depend_on_threads),
        cmocka_unit_test(test_cooperative_ctas_are_resident_together),
        cmocka_unit_test(test_cluster_ranks_and_cluster_barrier),
        cmocka_unit_test(test_issue_counts_are_exact),
        cmocka_unit_test(test_trap_names_the_place),
        cmocka_unit_test(test_what_is_not_known_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
