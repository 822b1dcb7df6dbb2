/* SPDX-License-Identifier: Apache-2.0
 *
 * Races in shared memory: every missing barrier is reported whatever the
 * order of execution, every correct pattern is silent.  Each kernel runs
 * under several seeds.
 */
#include "kernel.h"

static const uint64_t seeds[] = {0, 1, 2, 3, 77};
#define NSEEDS (sizeof seeds / sizeof *seeds)

/* The kernel must race, with these words in the report, under every seed.
 * (Other checks are off: what is read too early may be unwritten, too.) */
#define races(body_, threads_, ...)                                           \
    for (unsigned s_ = 0; s_ < NSEEDS; s_++) {                                \
        kernel_run((struct kernel){.body = body_, .threads = threads_,        \
                                   .seed = seeds[s_],                         \
                                   .checks = VG_CHECK_RACE});                 \
        assert_fault(VG_FAILED, "race in shared memory", __VA_ARGS__);        \
    }

#define silent(body_, threads_)                                               \
    for (unsigned s_ = 0; s_ < NSEEDS; s_++) {                                \
        kernel_run((struct kernel){.body = body_, .threads = threads_,        \
                                   .seed = seeds[s_]});                       \
        assert_ran();                                                         \
    }

/* %r0: own word; %r1: the word of the thread `n` further on, of `count`. */
#define NEIGHBOUR(n, mask)                                                    \
    "shl.b32 %r0, %tid, 2; add.u32 %r0, %r0, %sm;\n"                          \
    "add.u32 %r1, %tid, " #n "; and.b32 %r1, %r1, " #mask ";\n"               \
    "shl.b32 %r1, %r1, 2; add.u32 %r1, %r1, %sm;\n"
#define PUT "st.shared.u32 [%r0], %tid;\n"
#define GET "ld.shared.u32 %r2, [%r1];\n"
#define BAR "bar.sync 0;\n"

static void write_then_read_by_another_warp(void **state)
{
    (void)state;
    races(NEIGHBOUR(32, 63) PUT GET, 64, "is not ordered after the",
          "ld.shared.u32", "st.shared.u32");
    silent(NEIGHBOUR(32, 63) PUT BAR GET, 64);
}

static void read_then_write_by_another_warp(void **state)
{
    (void)state;
    races(NEIGHBOUR(32, 63) PUT BAR GET PUT, 64, "by warp");
    silent(NEIGHBOUR(32, 63) PUT BAR GET BAR PUT, 64);
}

static void two_writes(void **state)
{
    (void)state;
    races("st.shared.u32 [%sm], %warp;\n", 64, "write of byte 0x0",
          "after the write");
    /* Each warp writes, one after the other, with a barrier between. */
    silent("setp.eq.u32 %p0, %warp, 0; setp.eq.u32 %p1, %warp, 1;\n"
           "setp.eq.u32 %p2, %lane, 0; and.pred %p0, %p0, %p2;\n"
           "and.pred %p1, %p1, %p2;\n"
           "@%p0 st.shared.u32 [%sm], %warp;\n" BAR
           "@%p1 st.shared.u32 [%sm], %warp;\n", 64);
}

/* The report names both sides: instruction, warp and lane. */
static void report_names_both_sides(void **state)
{
    (void)state;
    kernel_run((struct kernel){
        .body = "setp.eq.u32 %p0, %tid, 5; setp.eq.u32 %p1, %tid, 40;\n"
                ".loc 1 77 0\n"
                "@%p0 st.shared.u32 [%sm+64], %tid;\n"
                ".loc 1 88 0\n"
                "@%p1 ld.shared.u32 %r0, [%sm+64];\n"
                ".file 1 \"kernel.cu\"\n",
        .threads = 64});
    assert_fault(VG_FAILED, "kernel.cu:77", "kernel.cu:88", "st.shared.u32",
                 "ld.shared.u32", "lane 8", "warp 0 lane 5", "warp 1", "0x40");
}

static void lanes_of_one_warp(void **state)
{
    (void)state;
    races(NEIGHBOUR(1, 31) PUT GET, 32, "write by warp 0 lane");
    silent(NEIGHBOUR(1, 31) PUT "bar.warp.sync 0xffffffff;\n" GET, 32);
    silent(NEIGHBOUR(1, 31) PUT BAR GET, 32);
    /* A lane's own word needs nothing. */
    silent(NEIGHBOUR(0, 31) PUT GET PUT GET, 32);
}

/* shfl, vote and match wait for lanes; they do not order memory. */
static void collectives_are_no_memory_barrier(void **state)
{
    (void)state;
    races(NEIGHBOUR(1, 31) PUT
          "shfl.sync.idx.b32 %r3, %tid, 0, 31, 0xffffffff;\n" GET, 32, "race");
    races(NEIGHBOUR(1, 31) PUT "setp.eq.u32 %p0, %tid, 3;\n"
          "vote.sync.ballot.b32 %r3, %p0, 0xffffffff;\n" GET, 32, "race");
}

/* bar.warp.sync of half a warp orders that half only. */
static void partial_warp_sync(void **state)
{
    static const char low[] =
        "setp.lt.u32 %p0, %lane, 16;\n"
        "@!%p0 bra SKIP;\n"
        "bar.warp.sync 0xffff;\n"
        "SKIP:\n";
    char body[1024];

    (void)state;
    snprintf(body, sizeof body, "%s%s%s%s", NEIGHBOUR(1, 15) PUT, low,
             "@%p0 ", GET);
    silent(body, 32);
    snprintf(body, sizeof body, "%s%s%s%s", NEIGHBOUR(16, 31) PUT, low,
             "@%p0 ", GET);
    races(body, 32, "lane");
}

/* Lanes that have left need not take part: the others still synchronise. */
static void lanes_exit(void **state)
{
    (void)state;
    silent("setp.ge.u32 %p0, %lane, 16; @%p0 exit;\n" NEIGHBOUR(1, 15) PUT
           "bar.warp.sync 0xffffffff;\n" GET, 32);
    silent("setp.ge.u32 %p0, %lane, 16; @%p0 exit;\n" NEIGHBOUR(1, 15) PUT
           BAR GET, 32);
    silent("setp.ge.u32 %p0, %tid, 32; @%p0 exit;\n" NEIGHBOUR(1, 31) PUT
           BAR GET, 64);
    /* What they did before is not published by their exit. */
    races(NEIGHBOUR(0, 63) PUT "setp.ge.u32 %p0, %tid, 32; @%p0 exit;\n" BAR
          "ld.shared.u32 %r2, [%r0+128];\n", 64, "by warp 1");
}

static void same_instruction(void **state)
{
    (void)state;
    races("st.shared.u32 [%sm], %tid;\n", 32, "lanes 0 and 1",
          "different values");
    silent("mov.u32 %r0, 7; st.shared.u32 [%sm], %r0;\n", 32);
    /* Neighbouring halves of one word are not one byte. */
    silent("shl.b32 %r0, %tid, 1; add.u32 %r0, %r0, %sm;\n"
           "cvt.u16.u32 %h0, %tid; st.shared.u16 [%r0], %h0;\n", 32);
}

/* Halves of one word by two warps: exact to the byte. */
static void bytes_of_one_word(void **state)
{
    static const char put[] =
        "shl.b32 %r0, %warp, 1; add.u32 %r0, %r0, %sm;\n"
        "setp.eq.u32 %p0, %lane, 0; cvt.u16.u32 %h0, %tid;\n"
        "@%p0 st.shared.u16 [%r0], %h0;\n";
    char body[1024];

    (void)state;
    silent(put, 64);
    /* Warp 1 reads its own half, then warp 0's. */
    snprintf(body, sizeof body, "%s%s", put,
             "setp.eq.u32 %p1, %tid, 32; @%p1 ld.shared.u16 %h1, [%sm+2];\n");
    silent(body, 64);
    snprintf(body, sizeof body, "%s%s", put,
             "setp.eq.u32 %p1, %tid, 32; @%p1 ld.shared.u16 %h1, [%sm];\n");
    races(body, 64, "race");
    snprintf(body, sizeof body, "%s%s", put,
             "bar.sync 0; setp.eq.u32 %p1, %tid, 32;\n"
             "@%p1 ld.shared.u32 %r1, [%sm];\n");
    silent(body, 64);
}

/* Two buffers in turn: one barrier per step is enough; with one buffer it is
 * not, and neither is the double buffer without its barrier. */
#define LOOP(step)                                                            \
    NEIGHBOUR(32, 63)                                                         \
    "mov.u32 %r5, 0; mov.u32 %r6, 0;\n"                                       \
    "AGAIN:\n"                                                                \
    "add.u32 %r7, %r0, %r6; add.u32 %r8, %r1, %r6;\n" step                    \
    "xor.b32 %r6, %r6, 256;\n"                                                \
    "add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, 6; @%p0 bra AGAIN;\n"

static void double_buffer(void **state)
{
    (void)state;
    silent(LOOP("st.shared.u32 [%r7], %tid;\n" BAR
                "ld.shared.u32 %r2, [%r8];\n"), 64);
    races(LOOP("st.shared.u32 [%r0], %tid;\n" BAR
               "ld.shared.u32 %r2, [%r1];\n"), 64, "race");
    races(LOOP("st.shared.u32 [%r7], %tid;\n"
               "ld.shared.u32 %r2, [%r8];\n"), 64, "race");
}

/* A tile that warp 0 fills and four warps read, again and again: readers of
 * the rounds before are history, those of this round are not, whichever of
 * them came first.  `after` is what is between the last reads and one more
 * write by warp 0. */
#define ROUNDS(after)                                                         \
    "shl.b32 %r0, %lane, 2; add.u32 %r0, %r0, %sm; mov.u32 %r5, 0;\n"         \
    "setp.eq.u32 %p0, %warp, 0;\n"                                            \
    "setp.lt.u32 %p1, %warp, 3; setp.eq.u32 %p2, %warp, 3;\n"                 \
    "AGAIN:\n"                                                                \
    "@%p0 st.shared.u32 [%r0], %r5;\n" BAR                                    \
    "ld.shared.u32 %r2, [%r0];\n"                                             \
    "add.u32 %r5, %r5, 1; setp.eq.u32 %p3, %r5, 4; @%p3 bra LAST;\n" BAR      \
    "bra AGAIN;\n"                                                            \
    "LAST:\n" after                                                           \
    "@%p0 st.shared.u32 [%r0], %r5;\n"

static void many_read_one_writes(void **state)
{
    (void)state;
    silent(ROUNDS(BAR), 128);
    races(ROUNDS(""), 128, "race");
    /* The fourth warp has read, too, and is not waited for. */
    races(ROUNDS("@%p1 bar.sync 1, 96;\n"), 128, "warp 3");
    silent(ROUNDS("@%p1 bar.sync 1, 128; @%p2 bar.arrive 1, 128;\n"), 128);
}

/* Warp 0 produces, warp 1 consumes, over barriers 1 (full) and 2 (empty). */
#define PRODUCER_CONSUMER(full_arrive, full_wait, empty_wait, empty_arrive)   \
    "shl.b32 %r0, %lane, 2; add.u32 %r0, %r0, %sm; mov.u32 %r5, 0;\n"         \
    "setp.eq.u32 %p0, %warp, 0; @!%p0 bra CONSUME;\n"                         \
    "PRODUCE:\n"                                                              \
    "setp.eq.u32 %p1, %r5, 0; @%p1 bra FIRST;\n" empty_wait                   \
    "FIRST: st.shared.u32 [%r0], %r5;\n" full_arrive                          \
    "add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 4; @%p1 bra PRODUCE;\n"       \
    "bra DONE;\n"                                                             \
    "CONSUME:\n" full_wait                                                    \
    "ld.shared.u32 %r2, [%r0];\n"                                             \
    "setp.eq.u32 %p1, %r5, 3; @%p1 bra LAST;\n" empty_arrive                  \
    "LAST: add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 4;\n"                   \
    "@%p1 bra CONSUME;\n"                                                     \
    "DONE:\n"

static void producer_and_consumer(void **state)
{
    (void)state;
    silent(PRODUCER_CONSUMER("bar.arrive 1, 64;\n", "bar.sync 1, 64;\n",
                             "bar.sync 2, 64;\n", "bar.arrive 2, 64;\n"), 64);
    races(PRODUCER_CONSUMER("", "", "bar.sync 2, 64;\n",
                            "bar.arrive 2, 64;\n"), 64, "race");
    /* Without barrier 2 the producer may also complete barrier 1 alone, and
     * the consumer then waits for ever. */
    for (unsigned s = 0; s < NSEEDS; s++) {
        kernel_run((struct kernel){
            .body = PRODUCER_CONSUMER("bar.arrive 1, 64;\n",
                                      "bar.sync 1, 64;\n", "", ""),
            .threads = 64, .seed = seeds[s], .checks = VG_CHECK_RACE});
        assert_true(strstr(ran.report, "race in shared memory") ||
                    strstr(ran.report, "deadlock"));
    }
}

/* What an arriving warp does after bar.arrive is not covered by it, nor does
 * an arrive make the arriving warp see the others. */
#define TWO_WARPS                                                             \
    "shl.b32 %r0, %lane, 2; add.u32 %r0, %r0, %sm;\n"                         \
    "setp.eq.u32 %p0, %warp, 0; @!%p0 bra OTHER;\n"

static void arrive_covers_only_the_past(void **state)
{
    (void)state;
    races(TWO_WARPS
          "bar.arrive 1, 64; st.shared.u32 [%r0], %tid; bra DONE;\n"
          "OTHER: bar.sync 1, 64; ld.shared.u32 %r2, [%r0]; DONE:\n", 64,
          "race");
    races(TWO_WARPS
          "bar.arrive 1, 64; ld.shared.u32 %r2, [%r0]; bra DONE;\n"
          "OTHER: st.shared.u32 [%r0], %tid; bar.sync 1, 64; DONE:\n", 64,
          "race");
}

/* A barrier of two warps does not order the third. */
static void barrier_of_some_warps(void **state)
{
    (void)state;
    races("shl.b32 %r0, %lane, 2; add.u32 %r0, %r0, %sm;\n"
          "setp.eq.u32 %p0, %warp, 0; @%p0 st.shared.u32 [%r0], %tid;\n"
          "setp.lt.u32 %p1, %warp, 2; @!%p1 bra OTHER;\n"
          "bar.sync 1, 64; bra DONE;\n"
          "OTHER: ld.shared.u32 %r1, [%r0]; DONE:\n", 96, "race");
}

/* Order is transitive: warp 0 to 1 by barrier 1, warp 1 to 2 by barrier 2. */
static void barriers_chain(void **state)
{
    (void)state;
    silent("shl.b32 %r0, %lane, 2; add.u32 %r0, %r0, %sm;\n"
           "setp.eq.u32 %p0, %warp, 0; setp.eq.u32 %p2, %warp, 2;\n"
           "@%p0 st.shared.u32 [%r0], %tid;\n"
           "@%p2 bra SECOND;\n"
           "bar.sync 1, 64;\n"
           "@%p0 bra DONE;\n"
           "SECOND: bar.sync 2, 64;\n"
           "@%p2 ld.shared.u32 %r1, [%r0];\n"
           "DONE:\n", 96);
}

static void bar_red_orders_memory(void **state)
{
    (void)state;
    silent(NEIGHBOUR(32, 63) PUT "setp.eq.u32 %p0, %tid, 1;\n"
           "bar.red.popc.u32 %r3, 0, %p0;\n" GET, 64);
}

static void atomics(void **state)
{
    (void)state;
    /* Among themselves they do not race; with plain accesses they do. */
    silent("setp.eq.u32 %p0, %tid, 0; mov.u32 %r1, 0;\n"
           "@%p0 st.shared.u32 [%sm], %r1;\n" BAR
           "atom.shared.add.u32 %r2, [%sm], 1;\n" BAR
           "ld.shared.u32 %r3, [%sm];\n", 64);
    races("setp.eq.u32 %p0, %tid, 0; mov.u32 %r1, 0;\n"
          "@%p0 st.shared.u32 [%sm], %r1;\n" BAR
          "atom.shared.add.u32 %r2, [%sm], 1;\n"
          "ld.shared.u32 %r3, [%sm];\n", 64, "race");
}

/* A flag in shared memory: release by warp 0, acquire by warp 1. */
#define FLAG(set, get)                                                        \
    "shl.b32 %r0, %lane, 2; add.u32 %r0, %r0, %sm; mov.u32 %r1, 0;\n"         \
    "setp.eq.u32 %p0, %tid, 0; @%p0 st.shared.u32 [%sm+512], %r1;\n" BAR      \
    "setp.eq.u32 %p0, %warp, 0; mov.u32 %r1, 1; @!%p0 bra WAIT;\n"            \
    "st.shared.u32 [%r0], %tid; bar.warp.sync 0xffffffff;\n"                  \
    "setp.eq.u32 %p1, %lane, 0; @!%p1 bra DONE;\n" set "bra DONE;\n"          \
    "WAIT:\n" get                                                             \
    "setp.ne.u32 %p1, %r2, 1; @%p1 bra WAIT;\n"                               \
    "ld.shared.u32 %r3, [%r0];\n"                                             \
    "DONE:\n"

static void flags_release_and_acquire(void **state)
{
    (void)state;
    silent(FLAG("st.release.cta.shared.u32 [%sm+512], %r1;\n",
                "ld.acquire.cta.shared.u32 %r2, [%sm+512];\n"), 64);
    silent(FLAG("fence.acq_rel.cta; st.relaxed.cta.shared.u32 [%sm+512], "
                "%r1;\n",
                "ld.relaxed.cta.shared.u32 %r2, [%sm+512]; "
                "fence.acq_rel.cta;\n"), 64);
    silent(FLAG("membar.cta; st.volatile.shared.u32 [%sm+512], %r1;\n",
                "ld.volatile.shared.u32 %r2, [%sm+512]; membar.cta;\n"), 64);
    races(FLAG("st.relaxed.cta.shared.u32 [%sm+512], %r1;\n",
               "ld.relaxed.cta.shared.u32 %r2, [%sm+512];\n"), 64, "race");
    races(FLAG("st.release.cta.shared.u32 [%sm+512], %r1;\n",
               "ld.relaxed.cta.shared.u32 %r2, [%sm+512];\n"), 64, "race");
}

#define MATRIX                                                                \
    "shl.b32 %r0, %lane, 4; add.u32 %r0, %r0, %sm;\n"                         \
    "st.shared.v4.u32 [%r0], {%tid, %tid, %tid, %tid};\n"
#define LDMATRIX                                                              \
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r0];\n"

static void ldmatrix_reads_others_rows(void **state)
{
    (void)state;
    races(MATRIX LDMATRIX, 32, "ldmatrix");
    silent(MATRIX "bar.warp.sync 0xffffffff;\n" LDMATRIX, 32);
    /* It is done for the whole warp before any lane overwrites the rows. */
    silent(MATRIX "bar.warp.sync 0xffffffff;\n" LDMATRIX MATRIX, 32);
    /* But not for another warp. */
    races("setp.eq.u32 %p0, %warp, 0; mov.u32 %tid, 1;\n"
          "shl.b32 %r0, %lane, 4; add.u32 %r0, %r0, %sm; @!%p0 bra OTHER;\n"
          MATRIX BAR LDMATRIX "bra DONE;\n"
          "OTHER: " BAR "st.shared.u32 [%r0], %tid; DONE:\n", 64, "race");
}

/* The same block state serves block after block. */
static void blocks_do_not_see_each_other(void **state)
{
    (void)state;
    for (unsigned s = 0; s < NSEEDS; s++) {
        kernel_run((struct kernel){.body = NEIGHBOUR(32, 127) PUT BAR GET,
                                   .threads = 128, .blocks = 40,
                                   .seed = seeds[s]});
        assert_ran();
    }
}

static void check_can_be_switched_off(void **state)
{
    (void)state;
    kernel_run((struct kernel){
        .body = "mov.u32 %r0, %tid; st.shared.u32 [%sm], %r0;\n",
        .threads = 64, .checks = VG_CHECK_ALL & ~VG_CHECK_RACE});
    assert_ran();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_then_read_by_another_warp),
        cmocka_unit_test(read_then_write_by_another_warp),
        cmocka_unit_test(two_writes),
        cmocka_unit_test(report_names_both_sides),
        cmocka_unit_test(lanes_of_one_warp),
        cmocka_unit_test(collectives_are_no_memory_barrier),
        cmocka_unit_test(partial_warp_sync),
        cmocka_unit_test(lanes_exit),
        cmocka_unit_test(same_instruction),
        cmocka_unit_test(bytes_of_one_word),
        cmocka_unit_test(double_buffer),
        cmocka_unit_test(many_read_one_writes),
        cmocka_unit_test(producer_and_consumer),
        cmocka_unit_test(arrive_covers_only_the_past),
        cmocka_unit_test(barrier_of_some_warps),
        cmocka_unit_test(barriers_chain),
        cmocka_unit_test(bar_red_orders_memory),
        cmocka_unit_test(atomics),
        cmocka_unit_test(flags_release_and_acquire),
        cmocka_unit_test(ldmatrix_reads_others_rows),
        cmocka_unit_test(blocks_do_not_see_each_other),
        cmocka_unit_test(check_can_be_switched_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
