/* SPDX-License-Identifier: Apache-2.0
 *
 * cp.async: what it copies, and that every way of using its destination too
 * early is reported (PTX ISA 9.7.9.25.3).
 */
#include "kernel.h"

static const uint64_t seeds[] = {0, 1, 2, 9};
#define NSEEDS (sizeof seeds / sizeof *seeds)

/* %r0: 16 bytes of the thread in sm; %d0: the same 16 bytes in `in`. */
#define PLACE                                                                 \
    "shl.b32 %r0, %tid, 4; cvt.u64.u32 %d0, %r0; add.u64 %d2, %d0, %out;\n"   \
    "add.u64 %d0, %d0, %in; add.u32 %r0, %r0, %sm;\n"
#define COPY "cp.async.cg.shared.global [%r0], [%d0], 16;\n"
#define COMMIT "cp.async.commit_group;\n"
#define WAIT(n) "cp.async.wait_group " #n ";\n"
#define WAIT_ALL "cp.async.wait_all;\n"
#define BAR "bar.sync 0;\n"
/* Thread i reads what thread i ^ x copied, and stores it. */
#define TAKE(x)                                                               \
    "xor.b32 %r1, %tid, " #x "; shl.b32 %r1, %r1, 4; add.u32 %r1, %r1, %sm;\n" \
    "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1];\n"                         \
    "st.global.v4.u32 [%d2], {%r4, %r5, %r6, %r7};\n"

static void copies(const char *body, unsigned threads, unsigned partner)
{
    for (unsigned s = 0; s < NSEEDS; s++) {
        kernel_run((struct kernel){.body = body, .threads = threads,
                                   .seed = seeds[s]});
        assert_ran();
        for (unsigned i = 0; i < 4 * threads; i++)
            assert_int_equal(ran.out[i], i ^ 4 * partner);
    }
}

#define fails(body_, threads_, ...)                                           \
    for (unsigned s_ = 0; s_ < NSEEDS; s_++) {                                \
        kernel_run((struct kernel){.body = body_, .threads = threads_,        \
                                   .seed = seeds[s_]});                       \
        assert_fault(VG_FAILED, __VA_ARGS__);                                 \
    }

static void copies_16_bytes(void **state)
{
    (void)state;
    copies(PLACE COPY COMMIT WAIT(0) TAKE(0), 64, 0);
    copies(PLACE COPY WAIT_ALL TAKE(0), 64, 0);
    copies(PLACE COPY COMMIT WAIT(0) BAR TAKE(1), 64, 1);
    copies(PLACE COPY COMMIT WAIT(0) BAR TAKE(32), 64, 32);
    copies(PLACE COPY COMMIT WAIT(0) "bar.warp.sync 0xffffffff;\n" TAKE(1), 64,
           1);
}

static void copies_4_and_8_bytes(void **state)
{
    (void)state;
    copies(PLACE "cp.async.ca.shared.global [%r0], [%d0], 4;\n"
                 "cp.async.ca.shared.global.L2::128B [%r0+8], [%d0+8], 8;\n"
                 "cp.async.ca.shared::cta.global [%r0+4], [%d0+4], 4;\n"
                 WAIT_ALL TAKE(0), 64, 0);
}

/* src-size: the rest is zero; size 0 reads nothing, whatever the address. */
static void short_sources_are_zero_filled(void **state)
{
    (void)state;
    kernel_run((struct kernel){
        .body = PLACE "and.b32 %r2, %tid, 3; shl.b32 %r2, %r2, 2;\n"
                      "setp.eq.u32 %p0, %r2, 0; selp.b64 %d0, 16, %d0, %p0;\n"
                      "cp.async.cg.shared.global [%r0], [%d0], 16, %r2;\n"
                      WAIT_ALL TAKE(0)});
    assert_ran();
    for (unsigned i = 0; i < 128; i++)
        assert_int_equal(ran.out[i], i % 4 < i / 4 % 4 ? i : 0);
}

static void ignore_src_is_zero(void **state)
{
    (void)state;
    kernel_run((struct kernel){
        .body = PLACE "setp.lt.u32 %p0, %tid, 7;\n"
                      "cp.async.ca.shared.global [%r0], [%d0], 16, %p0;\n"
                      WAIT_ALL TAKE(0)});
    assert_ran();
    for (unsigned i = 0; i < 128; i++)
        assert_int_equal(ran.out[i], i / 4 < 7 ? 0 : i);
}

static void missing_wait(void **state)
{
    (void)state;
    fails(PLACE COPY COMMIT TAKE(0), 64, "cp.async destination read before "
          "wait_group", "ld.shared");
    fails(PLACE COPY COMMIT BAR TAKE(32), 64, "before wait_group");
}

static void missing_commit(void **state)
{
    (void)state;
    fails(PLACE COPY WAIT(0) TAKE(0), 64, "before wait_group");
}

static void missing_barrier(void **state)
{
    (void)state;
    /* Another warp: it depends on the order whether the copy is seen in
     * flight or complete; either is reported. */
    for (unsigned s = 0; s < NSEEDS; s++) {
        kernel_run((struct kernel){.body = PLACE COPY WAIT_ALL TAKE(32),
                                   .threads = 64, .seed = seeds[s],
                                   .checks = VG_CHECK_RACE | VG_CHECK_ASYNC});
        assert_int_equal(ran.code, VG_FAILED);
        assert_true(strstr(ran.report, "race in shared memory") ||
                    strstr(ran.report, "before wait_group"));
    }
    /* Another lane of the warp. */
    fails(PLACE COPY WAIT_ALL TAKE(1), 32, "race in shared memory",
          "cp.async.cg");
    /* A barrier before the wait is not one after it. */
    for (unsigned s = 0; s < NSEEDS; s++) {
        kernel_run((struct kernel){.body = PLACE COPY BAR WAIT_ALL TAKE(32),
                                   .threads = 64, .seed = seeds[s],
                                   .checks = VG_CHECK_RACE | VG_CHECK_ASYNC});
        assert_int_equal(ran.code, VG_FAILED);
    }
}

/* Two groups; the second is the one that is read. */
#define TWO_GROUPS                                                            \
    PLACE "cp.async.cg.shared.global [%r0+4096], [%d0], 16;\n" COMMIT COPY    \
    COMMIT

static void wait_group_off_by_one(void **state)
{
    (void)state;
    copies(TWO_GROUPS WAIT(0) TAKE(0), 64, 0);
    fails(TWO_GROUPS WAIT(1) TAKE(0), 64, "before wait_group");
    /* wait_group 1 covers the older one. */
    copies(PLACE COPY COMMIT
           "cp.async.cg.shared.global [%r0+4096], [%d0], 16;\n" COMMIT WAIT(1)
           TAKE(0), 64, 0);
    /* An empty group counts as a group. */
    copies(PLACE COPY COMMIT COMMIT WAIT(1) TAKE(0), 64, 0);
    fails(PLACE COPY COMMIT COMMIT WAIT(2) TAKE(0), 64, "before wait_group");
}

/* Groups are counted per thread: only some lanes copy and commit. */
static void groups_are_per_thread(void **state)
{
    (void)state;
    copies(PLACE "setp.lt.u32 %p0, %lane, 16; @!%p0 bra SKIP;\n"
           "cp.async.cg.shared.global [%r0+4096], [%d0], 16;\n" COMMIT
           "SKIP:\n" COPY COMMIT WAIT(0) TAKE(0), 32, 0);
    fails(PLACE "setp.lt.u32 %p0, %lane, 16;\n" COPY "@%p0 bra SKIP;\n"
          COMMIT "SKIP:\n" WAIT(0) TAKE(0), 32, "before wait_group");
}

static void destination_written_in_flight(void **state)
{
    (void)state;
    fails(PLACE COPY "st.shared.u32 [%r0], %tid;\n" WAIT_ALL, 32,
          "cp.async destination written before wait_group");
    fails(PLACE COPY COPY WAIT_ALL, 32, "written before wait_group");
}

/* A copy into what other warps may still be reading. */
static void overwrites_what_is_read(void **state)
{
    (void)state;
    for (unsigned s = 0; s < NSEEDS; s++) {
        kernel_run((struct kernel){
            .body = PLACE COPY WAIT_ALL BAR TAKE(32) COPY WAIT_ALL,
            .threads = 64, .seed = seeds[s],
            .checks = VG_CHECK_RACE | VG_CHECK_ASYNC});
        assert_int_equal(ran.code, VG_FAILED);
    }
    copies(PLACE COPY WAIT_ALL BAR TAKE(32) BAR COPY WAIT_ALL, 64, 32);
}

static void bad_addresses(void **state)
{
    (void)state;
    kernel_run((struct kernel){
        .body = PLACE "add.u64 %d0, %d0, 8;\n" COPY});
    assert_fault(VG_MISALIGNED, "global", "no multiple of 16");
    kernel_run((struct kernel){
        .body = PLACE "add.u32 %r0, %r0, 4;\n" COPY});
    assert_fault(VG_MISALIGNED, "shared", "no multiple of 16");
    kernel_run((struct kernel){
        .body = PLACE "add.u64 %d0, %d0, 65536;\n" COPY});
    assert_fault(VG_ILLEGAL_ADDRESS, "out-of-bounds", "in (65536 bytes");
    kernel_run((struct kernel){
        .body = PLACE "add.u32 %r0, %r0, 8192;\n" COPY});
    assert_fault(VG_ILLEGAL_ADDRESS, "out-of-bounds", "shared");
    kernel_run((struct kernel){
        .body = PLACE "mov.u32 %r2, 20;\n"
                      "cp.async.cg.shared.global [%r0], [%d0], 16, %r2;\n"});
    assert_fault(VG_FAILED, "src-size 20");
    kernel_run((struct kernel){
        .body = PLACE "sub.u64 %d1, %out, %in; add.u64 %d0, %d0, %d1;\n"
                      COPY});
    assert_fault(VG_FAILED, "uninitialised global");
}

/* With the check off, the copy still comes at the wait. */
static void late_even_unchecked(void **state)
{
    (void)state;
    kernel_run((struct kernel){
        .body = PLACE COPY TAKE(0), .checks = VG_CHECK_ALIGN});
    assert_ran();
    assert_int_equal(ran.out[0], 0xffffffffu);
    kernel_run((struct kernel){
        .body = PLACE COPY WAIT_ALL TAKE(0), .checks = VG_CHECK_ALIGN});
    assert_ran();
    assert_int_equal(ran.out[5], 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_16_bytes),
        cmocka_unit_test(copies_4_and_8_bytes),
        cmocka_unit_test(short_sources_are_zero_filled),
        cmocka_unit_test(ignore_src_is_zero),
        cmocka_unit_test(missing_wait),
        cmocka_unit_test(missing_commit),
        cmocka_unit_test(missing_barrier),
        cmocka_unit_test(wait_group_off_by_one),
        cmocka_unit_test(groups_are_per_thread),
        cmocka_unit_test(destination_written_in_flight),
        cmocka_unit_test(overwrites_what_is_read),
        cmocka_unit_test(bad_addresses),
        cmocka_unit_test(late_even_unchecked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
