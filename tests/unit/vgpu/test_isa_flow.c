/* SPDX-License-Identifier: Apache-2.0
 *
 * test_isa_flow.c: control flow, barriers, special registers, calls (PTX ISA
 * 9.7.11, 9.7.13.1 to .4, 9.7.19, chapter 10).  Each test is a small kernel
 * whose result is worked out in C.
 */
#include "gpu.h"

enum { MOST = 4096 };
static uint32_t in[MOST], out[MOST];

static void run(const char *ptx, unsigned blocks, unsigned threads)
{
    struct gpu_grid g = {{blocks, 1, 1}, {threads, 1, 1}, 0};
    memset(out, 0xcd, sizeof out);
    gpu_ok(gpu_run(ptx, &g, in, sizeof in, out, sizeof out));
}

/* The error with which the body, run by two warps, ends. */
static CUresult error_of(const char *body)
{
    char ptx[3000];
    struct gpu_grid g = {{1, 1, 1}, {64, 1, 1}, 0};
    snprintf(ptx, sizeof ptx, "%s%s%s ret; }",
             GPU_HEAD("sm_80") ".extern .func __assertfail (.param .b64 a, "
                               ".param .b64 b, .param .b32 c, .param .b64 d, "
                               ".param .b64 e);\n",
             GPU_KERNEL(4), body);
    return gpu_run(ptx, &g, in, sizeof in, out, sizeof out);
}

/* --- divergence ---------------------------------------------------------- */

/* Lane i goes round i % 7 times; then all meet in a shuffle. */
static void loops_of_unequal_length_meet_again(void **state)
{
    (void)state;
    run(GPU_HEAD("sm_80") GPU_KERNEL(
            4) "rem.u32 %r3, %r0, 7; mov.u32 %r4, 0; mov.u32 %r5, 0;\n"
               "LOOP: setp.ge.u32 %p1, %r4, %r3; @%p1 bra DONE;\n"
               "add.u32 %r5, %r5, %r0; add.u32 %r4, %r4, 1; bra LOOP;\n"
               "DONE: bar.warp.sync 0xffffffff;\n"
               "shfl.sync.down.b32 %r6, %r5, 1, 31, -1;\n"
               "st.global.u32 [out], %r6; ret; }",
        1, 64);
    for (unsigned i = 0; i < 64; i++) {
        unsigned from = i % 32 == 31 ? i : i + 1;
        assert_int_equal(out[i], from * (from % 7));
    }
}

static void nested_branches_and_early_returns(void **state)
{
    (void)state;
    run(GPU_HEAD("sm_80") GPU_KERNEL(
            4) "and.b32 %r3, %r0, 3; setp.eq.u32 %p1, %r3, 0;\n"
               "mov.u32 %r4, 1; st.global.u32 [out], %r4;\n@%p1 ret;\n"
               "setp.eq.u32 %p1, %r3, 1; @%p1 bra ONE;\n"
               "and.b32 %r5, %r0, 4; setp.ne.u32 %p2, %r5, 0; mov.u32 %r4, "
               "20;\n"
               "@%p2 bra FOUR; mov.u32 %r4, 30; bra JOIN;\n"
               "FOUR: setp.eq.u32 %p3, %r3, 3; @!%p3 bra JOIN;\n"
               "mov.u32 %r4, 40; bra JOIN;\nONE: mov.u32 %r4, 10;\n"
               "JOIN: st.global.u32 [out], %r4; exit; }",
        2, 96);
    for (unsigned i = 0; i < 192; i++) {
        unsigned t = i % 96, k = t & 3;
        unsigned want = k == 0     ? 1
                        : k == 1   ? 10
                        : !(t & 4) ? 30
                        : k == 3   ? 40
                                   : 20;
        assert_int_equal(out[i], want);
    }
}

static void a_jump_table_goes_where_it_says(void **state)
{
    (void)state;
    run(GPU_HEAD("sm_80") GPU_KERNEL(
            4) "and.b32 %r3, %r0, 3;\nts: .branchtargets A, B, C, A;\n"
               "brx.idx %r3, ts;\nA: mov.u32 %r4, 100; bra.uni END;\n"
               "B: mov.u32 %r4, 200; bra END;\nC: mov.u32 %r4, 300;\n"
               "END: st.global.u32 [out], %r4; ret; }",
        1, 32);
    static const unsigned want[] = {100, 200, 300, 100};
    for (unsigned i = 0; i < 32; i++)
        assert_int_equal(out[i], want[i & 3]);
}

/* A lane that waits for another lane of its warp to write: independent
 * thread scheduling (Volta and later) must let the writer run. */
static void a_spinning_lane_lets_others_run(void **state)
{
    (void)state;
    run(GPU_HEAD("sm_80") GPU_KERNEL(
            4) ".shared .align 4 .b32 flag;\n"
               "setp.ne.u32 %p1, %r0, 0; mov.u32 %r3, 0;\n"
               "@!%p1 st.volatile.shared.u32 [flag], %r3;\nbar.sync 0;\n"
               "setp.eq.u32 %p2, %r0, 31; @%p2 bra SET;\n"
               "SPIN: ld.volatile.shared.u32 %r3, [flag];\n"
               "setp.eq.u32 %p3, %r3, 0; @%p3 bra SPIN; bra END;\n"
               "SET: mov.u32 %r3, 5; st.volatile.shared.u32 [flag], %r3;\n"
               "END: st.global.u32 [out], %r3; ret; }",
        1, 32);
    for (unsigned i = 0; i < 32; i++)
        assert_int_equal(out[i], 5);
}

static void guards_write_only_their_lanes(void **state)
{
    (void)state;
    run(GPU_HEAD("sm_80")
            GPU_KERNEL(4) "setp.lt.u32 %p1, %r0, 10; mov.u32 %r3, 1;\n"
                          "@%p1 mov.u32 %r3, 2; @!%p1 add.u32 %r3, %r3, 5;\n"
                          "@%p1 st.global.u32 [out], %r3; @!%p1 st.global.u32 "
                          "[out], %r3;\n"
                          "ret; }",
        1, 32);
    for (unsigned i = 0; i < 32; i++)
        assert_int_equal(out[i], i < 10 ? 2 : 6);
}

/* --- barriers ------------------------------------------------------------ */

/* Reversal through shared memory, in every spelling of a full barrier. */
static void barriers_order_shared_memory(void **state)
{
    (void)state;
    static const char *const barrier[] = {
        "bar.sync 0;",     "bar.sync 3, 256;",
        "barrier.sync 0;", "barrier.sync.aligned 1, 256;",
        "bar.cta.sync 2;", "mov.u32 %r9, 4; barrier.cta.sync %r9, 256;"};
    for (size_t k = 0; k < sizeof barrier / sizeof *barrier; k++) {
        char ptx[2000];
        snprintf(ptx, sizeof ptx,
                 "%s.shared .align 4 .b8 s[1024];\n"
                 "mov.u32 %%r3, s; shl.b32 %%r4, %%r0, 2; "
                 "add.u32 %%r4, %%r3, %%r4; st.shared.u32 [%%r4], %%r0;\n%s\n"
                 "sub.u32 %%r5, 255, %%r0; shl.b32 %%r5, %%r5, 2; "
                 "add.u32 %%r5, %%r3, %%r5; ld.shared.u32 %%r6, [%%r5]; "
                 "st.global.u32 [out], %%r6; ret; }",
                 GPU_HEAD("sm_80") GPU_KERNEL(4), barrier[k]);
        run(ptx, 1, 256);
        for (unsigned i = 0; i < 256; i++)
            assert_int_equal(out[i], 255 - i);
    }
}

/* Warp 0 produces and arrives, warp 1 consumes and waits: 64 in all. */
static void arrive_and_sync_pair_producer_and_consumer(void **state)
{
    (void)state;
    run(GPU_HEAD("sm_80") GPU_KERNEL(
            4) ".shared .align 4 .b8 s[128];\n"
               "and.b32 %r3, %r0, 31; shl.b32 %r3, %r3, 2; mov.u32 %r4, s;\n"
               "add.u32 %r4, %r4, %r3; setp.ge.u32 %p1, %r0, 32; @%p1 bra "
               "USE;\n"
               "mul.lo.u32 %r5, %r0, 3; st.shared.u32 [%r4], %r5;\n"
               "bar.arrive 1, 64; st.global.u32 [out], %r0; ret;\n"
               "USE: bar.sync 1, 64; ld.shared.u32 %r5, [%r4];\n"
               "st.global.u32 [out], %r5; ret; }",
        1, 64);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(out[i], i < 32 ? i : (i - 32) * 3);
}

static void reductions_over_a_barrier(void **state)
{
    (void)state;
    run(GPU_HEAD("sm_80") GPU_KERNEL(
            4) "setp.lt.u32 %p1, %r0, 70; setp.lt.u32 %p2, %r0, 128;\n"
               "bar.red.popc.u32 %r3, 0, %p1;\nbar.red.and.pred %p3, 0, %p2;\n"
               "bar.red.or.pred %p4, 1, 128, !%p2;\n"
               "barrier.red.popc.u32 %r4, 2, !%p1;\n"
               "barrier.red.and.pred %p5, 0, %p1;\n"
               "shl.b32 %r4, %r4, 8; or.b32 %r3, %r3, %r4;\n"
               "selp.u32 %r5, 0x10000, 0, %p3; or.b32 %r3, %r3, %r5;\n"
               "selp.u32 %r5, 0x20000, 0, %p4; or.b32 %r3, %r3, %r5;\n"
               "selp.u32 %r5, 0x40000, 0, %p5; or.b32 %r3, %r3, %r5;\n"
               "st.global.u32 [out], %r3; ret; }",
        1, 128);
    for (unsigned i = 0; i < 128; i++)
        assert_int_equal(out[i], 70 | 58 << 8 | 0x10000);
}

/* Lanes of one warp exchange through shared memory with bar.warp.sync. */
static void warp_barriers_order_a_warp(void **state)
{
    (void)state;
    run(GPU_HEAD("sm_80") GPU_KERNEL(
            4) ".shared .align 4 .b8 s[256];\n"
               "mov.u32 %r3, s; shl.b32 %r4, %r0, 2; add.u32 %r4, %r3, %r4;\n"
               "st.shared.u32 [%r4], %r0; bar.warp.sync 0xffffffff;\n"
               "xor.b32 %r5, %r0, 17; shl.b32 %r5, %r5, 2; add.u32 %r5, %r3, "
               "%r5;\n"
               "ld.shared.u32 %r6, [%r5]; st.global.u32 [out], %r6; ret; }",
        1, 64);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(out[i], i ^ 17);
}

/* Threads that have exited are not waited for. */
static void exited_threads_do_not_block_a_barrier(void **state)
{
    (void)state;
    run(GPU_HEAD("sm_80")
            GPU_KERNEL(4) "st.global.u32 [out], %r0; setp.ge.u32 %p1, %r0, "
                          "32; @%p1 exit;\n"
                          "bar.sync 0; add.u32 %r3, %r0, 100; st.global.u32 "
                          "[out], %r3; ret; }",
        1, 96);
    for (unsigned i = 0; i < 96; i++)
        assert_int_equal(out[i], i < 32 ? i + 100 : i);
}

/* Orders between blocks have no value of their own to test: they must run. */
static void fences_and_hints_change_nothing(void **state)
{
    (void)state;
    run(GPU_HEAD("sm_90") GPU_KERNEL(
            4) "membar.cta; membar.gl; membar.sys; fence.acq_rel.gpu; "
               "fence.sc.sys;\n"
               "fence.acq_rel.cta; fence.proxy.async; "
               "fence.proxy.async.shared::cta;\n"
               "fence.proxy.alias; fence.mbarrier_init.release.cluster;\n"
               "griddepcontrol.wait; griddepcontrol.launch_dependents;\n"
               "nanosleep.u32 20;\n"
               "prefetch.global.L2 [out]; prefetch.global.L1 [out];\n"
               "prefetchu.L1 [out]; prefetch.global.L2::evict_last [out]; "
               "pmevent 3;"
               "and.b64 %rd3, out, -128; { .reg .pred q; setp.ge.u32 q, %r0, "
               "32;\n"
               "@q applypriority.global.L2::evict_normal [%rd3], 128; }\n"
               "createpolicy.fractional.L2::evict_first.b64 %rd1, 1.0;\n"
               "mov.u32 %r3, 42; st.global.L2::cache_hint.u32 [out], %r3, "
               "%rd1;\n"
               "ret; }",
        1, 128);
    for (unsigned i = 0; i < 128; i++)
        assert_int_equal(out[i], 42);
}

/* Registers are given up and taken by whole warpgroups; values stay. */
static void register_budgets_keep_values(void **state)
{
    (void)state;
    run(GPU_HEAD("sm_90a") GPU_KERNEL(
            4) "mul.lo.u32 %r3, %r0, 3; setmaxnreg.dec.sync.aligned.u32 40;\n"
               "bar.sync 0; setmaxnreg.inc.sync.aligned.u32 64;\n"
               "st.global.u32 [out], %r3; ret; }",
        1, 128);
    for (unsigned i = 0; i < 128; i++)
        assert_int_equal(out[i], 3 * i);
}

/* --- special registers --------------------------------------------------- */

static void special_registers_place_a_thread(void **state)
{
    (void)state;
    static uint32_t got[2 * 3 * 2][60][8];
    struct gpu_grid g = {{2, 3, 2}, {5, 4, 3}, 512};
    memset(got, 0xcd, sizeof got);
    gpu_ok(gpu_run(
        GPU_HEAD(
            "sm_80") ".visible .entry k(.param .u64 pin, .param .u64 "
                     "pout)\n{\n"
                     ".reg .b32 %r<20>; .reg .b64 %rd<4>;\n"
                     "mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, "
                     "%tid.z;\n"
                     "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y; mov.u32 "
                     "%r5, %ctaid.z;"
                     "mov.u32 %r6, %ntid.x; mov.u32 %r7, %ntid.y; mov.u32 "
                     "%r8, %ntid.z;\n"
                     "mov.u32 %r9, %nctaid.x; mov.u32 %r10, %nctaid.y;\n"
                     "mov.u32 %r11, %nctaid.z; mov.u32 %r15, "
                     "%dynamic_smem_size;\n"
                     "mad.lo.u32 %r12, %r2, %r7, %r1; mad.lo.u32 %r12, %r12, "
                     "%r6, %r0;\n"
                     "mad.lo.u32 %r13, %r5, %r10, %r4; mad.lo.u32 %r13, %r13, "
                     "%r9, %r3;\n"
                     "mul.lo.u32 %r14, %r6, %r7; mul.lo.u32 %r14, %r14, %r8;\n"
                     "mad.lo.u32 %r14, %r13, %r14, %r12; mul.wide.u32 %rd1, "
                     "%r14, 32;\n"
                     "ld.param.u64 %rd2, [pout]; add.u64 %rd2, %rd2, %rd1;\n"
                     "st.global.v4.u32 [%rd2], {%r0, %r1, %r2, %r3};\n"
                     "mov.u32 %r16, %laneid;\n"
                     "st.global.v4.u32 [%rd2+16], {%r4, %r5, %r15, %r16}; "
                     "ret; }",
        &g, in, 4, got, sizeof got));
    for (unsigned b = 0; b < 12; b++) {
        for (unsigned t = 0; t < 60; t++) {
            const uint32_t want[8] = {t % 5,     t / 5 % 4, t / 20, b % 2,
                                      b / 2 % 3, b / 6,     512,    t % 32};
            assert_memory_equal(got[b][t], want, sizeof want);
        }
    }
}

/* What the ISA leaves to the machine has at least its bounds. */
static void machine_registers_are_in_bounds(void **state)
{
    (void)state;
    struct gpu_grid g = {{3, 1, 1}, {96, 1, 1}, 1000};
    gpu_ok(gpu_run(
        GPU_HEAD("sm_90") GPU_KERNEL(
            4) ".shared .align 4 .b8 s[200];\n"
               "mov.u32 %r3, %warpid; mov.u32 %r4, %nwarpid;\n"
               "setp.lt.u32 %p1, %r3, %r4; setp.ge.u32 %p2, %r4, 3;\n"
               "mov.u32 %r3, %smid; mov.u32 %r4, %nsmid;\n"
               "setp.lt.u32 %p3, %r3, %r4; mov.u64 %rd1, %gridid;\n"
               "mov.u32 %r5, %total_smem_size; setp.ge.u32 %p4, %r5, 1200;\n"
               "setp.le.u32 %p5, %r5, 2400; mov.u32 %r6, %aggr_smem_size;\n"
               "setp.ge.u32 %p6, %r6, %r5; mov.u32 %r7, s;\n"
               "and.pred %p1, %p1, %p2; and.pred %p3, %p3, %p4;\n"
               "and.pred %p5, %p5, %p6; and.pred %p1, %p1, %p3;\n"
               "and.pred %p1, %p1, %p5; selp.u32 %r3, 1, 0, %p1;\n"
               "st.global.u32 [out], %r3; ret; }",
        &g, in, 4, out, sizeof out));
    for (unsigned i = 0; i < 3 * 96; i++)
        assert_int_equal(out[i], 1);
}

/* A grid of 4 x 2 blocks in clusters of 2 x 1: the cluster's coordinates, and
 * a barrier across it. */
static void clusters_have_coordinates_and_a_barrier(void **state)
{
    (void)state;
    static uint32_t got[8][8];
    struct gpu_grid g = {{4, 2, 1}, {32, 1, 1}, 0};
    gpu_ok(gpu_run(
        GPU_HEAD(
            "sm_90") ".visible .entry k(.param .u64 pin, .param .u64 pout)\n"
                     ".explicitcluster .reqnctapercluster 2, 1, 1\n"
                     "{ .reg .pred %p<3>; .reg .b32 %r<20>; .reg .b64 "
                     "%rd<3>;\n"
                     "mov.u32 %r0, %clusterid.x; mov.u32 %r1, %clusterid.y;\n"
                     "mov.u32 %r2, %nclusterid.x; mov.u32 %r3, "
                     "%nclusterid.y;\n"
                     "mov.u32 %r4, %cluster_ctaid.x; mov.u32 %r5, "
                     "%cluster_ctarank;\n"
                     "mov.u32 %r6, %cluster_nctarank; mov.u32 %r7, "
                     "%cluster_nctaid.x;\n"
                     "mov.u32 %r8, %clusterid.z; mov.u32 %r9, %nclusterid.z;\n"
                     "mad.lo.u32 %r9, %r8, 100, %r9; mov.u32 %r8, "
                     "%cluster_ctaid.y;\n"
                     "mad.lo.u32 %r9, %r8, 100, %r9; mov.u32 %r8, "
                     "%cluster_ctaid.z;\n"
                     "mad.lo.u32 %r9, %r8, 100, %r9; mov.u32 %r8, "
                     "%cluster_nctaid.y;\n"
                     "mad.lo.u32 %r9, %r8, 100, %r9; mov.u32 %r8, "
                     "%cluster_nctaid.z;\n"
                     "mad.lo.u32 %r9, %r8, 1000, %r9; mov.pred %p1, "
                     "%is_explicit_cluster; selp.u32 %r8, 5000, 0, %p1;\n"
                     "add.u32 %r7, %r7, %r9; add.u32 %r7, %r7, %r8;\n"
                     "barrier.cluster.arrive.release.aligned;\n"
                     "barrier.cluster.wait.acquire.aligned;\n"
                     "barrier.cluster.arrive.relaxed; barrier.cluster.wait;\n"
                     "mov.u32 %r10, %ctaid.x; mov.u32 %r11, %ctaid.y;\n"
                     "mad.lo.u32 %r10, %r11, 4, %r10; mul.wide.u32 %rd1, "
                     "%r10, 32;\n"
                     "ld.param::entry.u64 %rd2, [pout]; add.u64 %rd2, %rd2, "
                     "%rd1;\n"
                     "st.global.v4.u32 [%rd2], {%r0, %r1, %r2, %r3};\n"
                     "st.global.v4.u32 [%rd2+16], {%r4, %r5, %r6, %r7}; ret; "
                     "}",
        &g, in, 4, got, sizeof got));
    for (unsigned b = 0; b < 8; b++) {
        const uint32_t want[8] = {
            b % 4 / 2, b / 4, 2, 2,
            b % 2,     b % 2, 2, 2 + 1 + 100 + 1000 + 5000};
        assert_memory_equal(got[b], want, sizeof want);
    }
}

/* Time does not run backwards. */
static void clocks_run_forward(void **state)
{
    (void)state;
    run(GPU_HEAD("sm_80") GPU_KERNEL(
            4) "mov.u64 %rd1, %clock64; mov.u64 %rd3, %globaltimer;\n"
               "bar.sync 0; mov.u64 %rd2, %clock64; mov.u64 %rd4, "
               "%globaltimer;\n"
               "setp.gt.u64 %p1, %rd1, %rd2; setp.gt.u64 %p2, %rd3, %rd4;\n"
               "or.pred %p1, %p1, %p2; selp.u32 %r3, 1, 0, %p1;\n"
               "st.global.u32 [out], %r3; ret; }",
        1, 64);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(out[i], 0);
}

/* --- ends ---------------------------------------------------------------- */

static void a_trap_fails_the_launch(void **state)
{
    (void)state;
    assert_int_equal(error_of("setp.eq.u32 %p1, %r0, 33; @%p1 trap;"),
                     CUDA_ERROR_LAUNCH_FAILED);
}

static void a_breakpoint_fails_the_launch(void **state)
{
    (void)state;
    assert_int_not_equal(error_of("brkpt;"), CUDA_SUCCESS);
}

static void an_assertion_says_so(void **state)
{
    (void)state;
    assert_int_equal(
        error_of(
            "setp.ne.u32 %p1, %r0, 5; @%p1 bra FINE;\n"
            "{ .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d;\n"
            ".param .b64 e; st.param.b64 [a], 0; st.param.b64 [b], 0;\n"
            "st.param.b32 [c], 7; st.param.b64 [d], 0; st.param.b64 [e], 1;\n"
            "call.uni __assertfail, (a, b, c, d, e); }\nFINE:"),
        CUDA_ERROR_ASSERT);
}

static void a_deadlock_is_reported(void **state)
{
    (void)state;
    if (!gpu.is_virtual)
        return;
    CUresult r = error_of("setp.lt.u32 %p1, %r0, 32; @%p1 bar.sync 0, 96;");
    assert_int_not_equal(r, CUDA_SUCCESS);
    assert_non_null(strstr(gpu_report(), "deadlock"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, gpu_begin, gpu_end)
    const struct CMUnitTest tests[] = {
        TEST(loops_of_unequal_length_meet_again),
        TEST(nested_branches_and_early_returns),
        TEST(a_jump_table_goes_where_it_says),
        TEST(a_spinning_lane_lets_others_run),
        TEST(guards_write_only_their_lanes),
        TEST(barriers_order_shared_memory),
        TEST(arrive_and_sync_pair_producer_and_consumer),
        TEST(reductions_over_a_barrier),
        TEST(warp_barriers_order_a_warp),
        TEST(exited_threads_do_not_block_a_barrier),
        TEST(fences_and_hints_change_nothing),
        TEST(register_budgets_keep_values),
        TEST(special_registers_place_a_thread),
        TEST(machine_registers_are_in_bounds),
        TEST(clusters_have_coordinates_and_a_barrier),
        TEST(clocks_run_forward),
        TEST(a_trap_fails_the_launch),
        TEST(a_breakpoint_fails_the_launch),
        TEST(an_assertion_says_so),
        TEST(a_deadlock_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
