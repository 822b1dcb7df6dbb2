/* SPDX-License-Identifier: Apache-2.0
 *
 * test_isa_mbarrier.c: mbarrier objects (PTX ISA 9.7.13.15).
 *
 * Each test is a short kernel whose threads note what they see; the expected
 * words are the ISA's rules: a phase is over when the pending arrivals and
 * the tx-count are both zero, and the parity of a wait names the phase.
 */
#include "hopper.h"

enum { BAR = 32768 };

static uint32_t out[1024];
static struct ptx_text t;

static void begin(unsigned count)
{
    begin_kernel(&t, "");
    emit_mbarrier(&t, BAR, count);
    emit(&t, "bar.sync 0;\nmov.u32 %%r20, 0;\n");
}

/* Runs what was emitted with `block` threads; out starts as all ones. */
static void run(unsigned block)
{
    struct hopper h = {.block = block, .out = out, .nout = sizeof out};
    memset(out, 0xff, sizeof out);
    end_kernel(&t);
    hopper_ok(&h, t.s);
}

/* Bit n of %r20: is the phase with this parity over? */
static void ask(unsigned bit, unsigned parity)
{
    emit(&t,
         "mbarrier.test_wait.parity.shared::cta.b64 %%p2, [%%r8], %u;\n"
         "@%%p2 or.b32 %%r20, %%r20, %u;\n", parity, 1u << bit);
}

static void note(unsigned word)
{
    emit(&t, "st.global.b32 [%%rd1+%u], %%r20;\n", 4 * word);
}

static void parity_names_the_phase(void **state)
{
    (void)state;
    begin(1);
    emit(&t, "@!%%p1 ret;\n");
    ask(0, 0);      /* fresh: phase 0 runs */
    ask(1, 1);      /* the phase before it counts as over */
    emit(&t, "mbarrier.arrive.shared::cta.b64 _, [%%r8];\n");
    ask(2, 0);      /* phase 0 is over */
    ask(3, 1);      /* phase 1 runs */
    emit(&t, "mbarrier.arrive.shared.b64 %%rd10, [%%r8];\n");
    ask(4, 0);
    ask(5, 1);
    note(0);
    run(32);
    assert_int_equal(out[0], 1u << 1 | 1u << 2 | 1u << 5);
}

static void a_phase_takes_all_arrivals(void **state)
{
    (void)state;
    begin(5);
    emit(&t, "@!%%p1 ret;\n"
             "mbarrier.arrive.shared::cta.b64 _, [%%r8], 3;\n");
    ask(0, 0);
    emit(&t, "mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %%rd10,"
             " [%%r8], 1;\n"
             "mbarrier.pending_count.b64 %%r21, %%rd10;\n"
             "st.global.b32 [%%rd1+4], %%r21;\n");
    ask(1, 0);
    emit(&t, "mbarrier.arrive.release.cta.shared::cta.b64 _, [%%r8];\n");
    ask(2, 0);
    emit(&t, "mbarrier.arrive.shared::cta.b64 _, [%%r8], 5;\n");
    ask(3, 1);      /* the next phase expects five again */
    note(0);
    run(32);
    assert_int_equal(out[0], 1u << 2 | 1u << 3);
    assert_int_equal(out[1], 2);    /* pending before the arrive */
}

static void states_name_phases_too(void **state)
{
    (void)state;
    begin(2);
    emit(&t,
         "@!%%p1 ret;\n"
         "mbarrier.arrive.shared::cta.b64 %%rd10, [%%r8];\n"
         "mbarrier.test_wait.shared::cta.b64 %%p2, [%%r8], %%rd10;\n"
         "@%%p2 or.b32 %%r20, %%r20, 1;\n"
         "mbarrier.arrive.shared::cta.b64 %%rd11, [%%r8];\n"
         "mbarrier.test_wait.shared::cta.b64 %%p2, [%%r8], %%rd10;\n"
         "@%%p2 or.b32 %%r20, %%r20, 2;\n"
         "mbarrier.try_wait.shared::cta.b64 %%p2, [%%r8], %%rd11, 1000;\n"
         "@%%p2 or.b32 %%r20, %%r20, 4;\n");
    note(0);
    run(32);
    assert_int_equal(out[0], 6);
}

static void tx_count_may_be_negative_for_a_while(void **state)
{
    (void)state;
    begin(1);
    emit(&t, "@!%%p1 ret;\n"
             "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%%r8], 48;\n");
    ask(0, 0);
    emit(&t, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r8], 64;\n");
    ask(1, 0);      /* all arrived, 16 bytes are missing */
    emit(&t, "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%%r8], 16;\n");
    ask(2, 0);
    emit(&t, "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%%r8], 8;\n"
             "mbarrier.arrive.shared::cta.b64 _, [%%r8];\n");
    ask(3, 1);
    emit(&t, "mbarrier.complete_tx.shared::cta.b64 [%%r8], 8;\n");
    ask(4, 1);
    note(0);
    run(32);
    assert_int_equal(out[0], 1u << 2 | 1u << 4);
}

static void dropping_out_lowers_the_next_phases(void **state)
{
    (void)state;
    begin(2);
    emit(&t, "@!%%p1 ret;\n"
             "mbarrier.arrive_drop.shared::cta.b64 _, [%%r8];\n");
    ask(0, 0);
    emit(&t, "mbarrier.arrive.shared::cta.b64 _, [%%r8];\n");
    ask(1, 0);
    emit(&t, "mbarrier.arrive.shared::cta.b64 _, [%%r8];\n");
    ask(2, 1);      /* one arrival is enough now */
    note(0);
    run(32);
    assert_int_equal(out[0], 6);
}

static void generic_addresses(void **state)
{
    (void)state;
    begin(1);
    emit(&t, "@!%%p1 ret;\n"
             "cvt.u64.u32 %%rd9, %%r8; cvta.shared.u64 %%rd9, %%rd9;\n"
             "mbarrier.arrive.b64 %%rd10, [%%rd9];\n"
             "mbarrier.try_wait.parity.b64 %%p2, [%%rd9], 0;\n"
             "@%%p2 or.b32 %%r20, %%r20, 1;\n");
    note(0);
    run(32);
    assert_int_equal(out[0], 1);
}

static void every_lane_arrives_for_itself(void **state)
{
    (void)state;
    begin(96);
    emit(&t, "mbarrier.arrive.shared::cta.b64 _, [%%r8];\n");
    emit_wait(&t, "%r8", 0);
    emit(&t, "mul.wide.u32 %%rd5, %%r0, 4; add.u64 %%rd5, %%rd5, %%rd1;\n"
             "st.global.b32 [%%rd5], %%r0;\n");
    run(96);
    for (unsigned i = 0; i < 96; i++)
        assert_int_equal(out[i], i);
}

static void memory_is_free_after_inval(void **state)
{
    (void)state;
    begin(1);
    emit(&t, "@!%%p1 ret;\nmbarrier.inval.shared::cta.b64 [%%r8];\n"
             "mov.u64 %%rd9, 12345; st.shared.b64 [%%r8], %%rd9;\n"
             "ld.shared.b32 %%r20, [%%r8];\n"
             "mbarrier.init.shared::cta.b64 [%%r8], 1;\n"
             "mbarrier.arrive.shared::cta.b64 _, [%%r8];\n");
    note(0);
    run(32);
    assert_int_equal(out[0], 12345);
}

/* A ring of two slots between a producer and a consumer warp: 40 words pass
 * through, each once and in order. */
static void a_ring_between_two_warps(void **state)
{
    (void)state;
    begin_kernel(&t, "");
    for (unsigned n = 0; n < 4; n++)
        emit_mbarrier(&t, BAR + 8 * n, 32);
    emit(&t,
         "bar.sync 0; mov.u32 %%r8, sm; mov.u32 %%r10, 0; mov.u32 %%r20, 0;\n"
         "mul.wide.u32 %%rd5, %%r0, 4; add.u64 %%rd5, %%rd5, %%rd1;\n"
         "setp.lt.u32 %%p3, %%r0, 32;\n"
         "LOOP: and.b32 %%r11, %%r10, 1; shl.b32 %%r12, %%r11, 3;\n"
         "add.u32 %%r12, %%r12, %%r8;\n"        /* full; empty is 16 on */
         "shr.u32 %%r13, %%r10, 1; and.b32 %%r13, %%r13, 1;\n"
         "xor.b32 %%r14, %%r13, 1; shl.b32 %%r15, %%r11, 7;\n"
         "and.b32 %%r16, %%r0, 31; shl.b32 %%r17, %%r16, 2;\n"
         "add.u32 %%r15, %%r15, %%r17; add.u32 %%r15, %%r15, %%r8;\n"
         "@!%%p3 bra CONSUME;\n"
         "P: mbarrier.try_wait.parity.shared::cta.b64 %%p2, [%%r12+%d],"
         " %%r14;\n@!%%p2 bra P;\n"
         "mad.lo.u32 %%r18, %%r10, 100, %%r16; st.shared.b32 [%%r15], %%r18;\n"
         "mbarrier.arrive.shared::cta.b64 _, [%%r12+%d];\nbra NEXT;\n"
         "CONSUME: mbarrier.try_wait.parity.shared::cta.b64 %%p2, [%%r12+%d],"
         " %%r13;\n@!%%p2 bra CONSUME;\n"
         "ld.shared.b32 %%r19, [%%r15];\n"
         "mbarrier.arrive.shared::cta.b64 _, [%%r12+%d];\n"
         "mad.lo.u32 %%r20, %%r20, 3, %%r19;\n"
         "NEXT: add.u32 %%r10, %%r10, 1; setp.lt.u32 %%p4, %%r10, 40;\n"
         "@%%p4 bra LOOP;\n@!%%p3 st.global.b32 [%%rd5], %%r20;\n",
         BAR + 16, BAR, BAR, BAR + 16);
    run(64);
    for (unsigned l = 0; l < 32; l++) {
        uint32_t want = 0;
        for (unsigned i = 0; i < 40; i++)
            want = want * 3 + i * 100 + l;
        assert_int_equal(out[32 + l], want);
    }
}

/* cp.async.mbarrier.arrive: with .noinc one of the expected arrivals. */
static void copies_arrive(void **state)
{
    static uint32_t in[256];
    struct hopper h = {.block = 32, .out = out, .nout = sizeof out,
                       .in = in, .nin = sizeof in};
    (void)state;
    for (unsigned i = 0; i < 256; i++)
        in[i] = i * 7;
    for (int noinc = 0; noinc < 2; noinc++) {
        h.pin = h.pout = 0;
        memset(out, 0xff, sizeof out);
        begin(noinc ? 32 : 1);
        emit(&t,
             "shl.b32 %%r10, %%r0, 4; cvt.u64.u32 %%rd5, %%r10;\n"
             "add.u64 %%rd6, %%rd5, %%rd0; add.u64 %%rd7, %%rd5, %%rd1;\n"
             "mov.u32 %%r11, sm; add.u32 %%r11, %%r11, %%r10;\n"
             "cp.async.cg.shared.global [%%r11], [%%rd6], 16;\n"
             "cp.async.mbarrier.arrive%s.shared::cta.b64 [%%r8];\n",
             noinc ? ".noinc" : "");
        if (!noinc)
            emit(&t, "bar.warp.sync -1;\n"
                     "@%%p1 mbarrier.arrive.shared::cta.b64 _, [%%r8];\n");
        emit_wait(&t, "%r8", 0);
        emit(&t, "xor.b32 %%r11, %%r11, 496;\n"      /* another lane's */
                 "ld.shared.v4.b32 {%%r12,%%r13,%%r14,%%r15}, [%%r11];\n"
                 "st.global.v4.b32 [%%rd7], {%%r12,%%r13,%%r14,%%r15};\n");
        end_kernel(&t);
        hopper_ok(&h, t.s);
        for (unsigned i = 0; i < 128; i++)
            assert_int_equal(out[i], ((i / 4 ^ 31) * 4 + i % 4) * 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, gpu_begin, gpu_end)
        TEST(parity_names_the_phase),
        TEST(a_phase_takes_all_arrivals),
        TEST(states_name_phases_too),
        TEST(tx_count_may_be_negative_for_a_while),
        TEST(dropping_out_lowers_the_next_phases),
        TEST(generic_addresses),
        TEST(every_lane_arrives_for_itself),
        TEST(memory_is_free_after_inval),
        TEST(a_ring_between_two_warps),
        TEST(copies_arrive),
    };
    if (gpu_begin(NULL) || gpu_end(NULL))
        return 1;
    if (hopper_absent())
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
