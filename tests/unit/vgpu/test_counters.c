/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters: kernels whose traffic is counted by hand, and the JSON.
 */
#include "kernel.h"
#include "mma.h"

/* %d0: in + n tid; %d1: out + n tid; %r0: sm + n tid */
#define AT(n)                                                                 \
    "mul.lo.u32 %r0, %tid, " #n "; cvt.u64.u32 %d0, %r0;\n"                   \
    "add.u64 %d1, %d0, %out; add.u64 %d0, %d0, %in; add.u32 %r0, %r0, %sm;\n"

#define assert_traffic(t, requests_, bytes_, sectors_)                        \
    do {                                                                      \
        assert_int_equal((t).requests, requests_);                            \
        assert_int_equal((t).bytes, bytes_);                                  \
        assert_int_equal((t).sectors, sectors_);                              \
    } while (0)

#define assert_banks(b, requests_, bytes_, wavefronts_, conflicts_)           \
    do {                                                                      \
        assert_int_equal((b).requests, requests_);                            \
        assert_int_equal((b).bytes, bytes_);                                  \
        assert_int_equal((b).wavefronts, wavefronts_);                        \
        assert_int_equal((b).conflicts, conflicts_);                          \
    } while (0)

/* ---- sectors ------------------------------------------------------------ */

static void coalesced_loads(void **state)
{
    (void)state;
    kernel_run((struct kernel){.body = AT(4) "ld.global.u32 %r1, [%d0];\n"});
    assert_ran();
    assert_traffic(ran.counts.global[VG_PATH_LOAD], 1, 128, 4);
    assert_int_equal(ran.counts.unique_load, 4);
    assert_int_equal(ran.counts.l1_miss, 4);
    assert_int_equal(ran.counts.unique_store, 0);
    kernel_run((struct kernel){
        .body = AT(16) "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d0];\n"});
    assert_traffic(ran.counts.global[VG_PATH_LOAD], 1, 512, 16);
}

static void strided_and_broadcast_loads(void **state)
{
    (void)state;
    kernel_run((struct kernel){.body = AT(64) "ld.global.u32 %r1, [%d0];\n"});
    assert_traffic(ran.counts.global[VG_PATH_LOAD], 1, 128, 32);
    kernel_run((struct kernel){.body = "ld.global.u32 %r1, [%in];\n"});
    assert_traffic(ran.counts.global[VG_PATH_LOAD], 1, 128, 1);
    /* 32 words from byte 16 on touch five sectors. */
    kernel_run((struct kernel){.body = AT(4) "ld.global.u32 %r1, [%d0+16];\n"});
    assert_traffic(ran.counts.global[VG_PATH_LOAD], 1, 128, 5);
    /* Only lanes 0 to 7. */
    kernel_run((struct kernel){
        .body = AT(4) "setp.lt.u32 %p0, %tid, 8;\n"
                      "@%p0 ld.global.u32 %r1, [%d0];\n"});
    assert_traffic(ran.counts.global[VG_PATH_LOAD], 1, 32, 1);
}

/* Sectors once per launch, once per block, every time. */
static void repeated_loads(void **state)
{
    static const char twice[] = AT(4) "ld.global.u32 %r1, [%d0];\n"
                                      "ld.global.u32 %r1, [%d0];\n";
    (void)state;
    for (unsigned threads = 1; threads <= 2; threads++) {
        kernel_run((struct kernel){.body = twice, .blocks = 3,
                                   .host_threads = threads});
        assert_traffic(ran.counts.global[VG_PATH_LOAD], 6, 768, 24);
        assert_int_equal(ran.counts.unique_load, 4);
        assert_int_equal(ran.counts.l1_miss, 12);
    }
    kernel_run((struct kernel){
        .body = AT(4) "ld.global.cg.u32 %r1, [%d0];\n"
                      "ld.global.cg.u32 %r1, [%d0];\n"});
    assert_int_equal(ran.counts.l1_miss, 8);
    assert_int_equal(ran.counts.unique_load, 4);
}

static void stores_and_atomics(void **state)
{
    (void)state;
    kernel_run((struct kernel){
        .body = AT(8) "st.global.u64 [%d1], %d0; st.global.u64 [%d1], %d0;\n"});
    assert_traffic(ran.counts.global[VG_PATH_STORE], 2, 512, 16);
    assert_int_equal(ran.counts.unique_store, 8);
    assert_int_equal(ran.counts.unique_load, 0);
    kernel_run((struct kernel){
        .body = "atom.global.add.u32 %r1, [%in], 1;\n"
                "red.global.add.u32 [%in+32], 1;\n"
                "st.shared.u32 [%sm], 0; bar.warp.sync 0xffffffff;\n"
                "atom.shared.add.u32 %r1, [%sm], 1;\n"});
    assert_ran();
    assert_traffic(ran.counts.global[VG_PATH_ATOMIC], 2, 256, 2);
    assert_int_equal(ran.counts.atomic_global, 64);
    assert_int_equal(ran.counts.atomic_shared, 32);
    assert_int_equal(ran.counts.unique_load, 2);
    assert_int_equal(ran.counts.unique_store, 2);
    assert_int_equal(ran.counts.l1_miss, 0);
    assert_int_equal(ran.counts.warp_syncs, 1);
}

/* ---- banks -------------------------------------------------------------- */

static void bank_conflicts(void **state)
{
    static const struct {
        const char *body;
        unsigned bytes, wavefronts, conflicts;
    } rows[] = {
        /* one word each: no conflict; two words apart: two lanes a bank */
        {AT(4) "st.shared.u32 [%r0], %tid;\n", 128, 1, 0},
        {AT(8) "st.shared.u32 [%r0], %tid;\n", 128, 2, 1},
        {AT(16) "st.shared.u32 [%r0], %tid;\n", 128, 4, 3},
        {AT(128) "st.shared.u32 [%r0], %tid;\n", 128, 32, 31},
        {AT(132) "st.shared.u32 [%r0], %tid;\n", 128, 1, 0},
        /* one word for all, and halves of words */
        {AT(0) "st.shared.u32 [%r0], 1;\n", 128, 1, 0},
        {AT(2) "cvt.u16.u32 %h0, %tid; st.shared.u16 [%r0], %h0;\n", 64, 1, 0},
        /* 8 bytes a lane: two phases; 16: four */
        {AT(8) "st.shared.u64 [%r0], %d0;\n", 256, 2, 0},
        {AT(16) "st.shared.u64 [%r0], %d0;\n", 256, 4, 2},
        {AT(16) "st.shared.v2.u64 [%r0], {%d0, %d0};\n", 512, 4, 0},
        {AT(32) "st.shared.v2.u64 [%r0], {%d0, %d0};\n", 512, 8, 4},
        {AT(128) "st.shared.v2.u64 [%r0], {%d0, %d0};\n", 512, 32, 28},
        {AT(144) "st.shared.v2.u64 [%r0], {%d0, %d0};\n", 512, 4, 0},
        /* eight lanes in two of the four phases */
        {AT(16) "setp.lt.u32 %p0, %tid, 10;\n"
                "@%p0 st.shared.v2.u64 [%r0], {%d0, %d0};\n", 160, 2, 0},
    };

    (void)state;
    for (unsigned n = 0; n < sizeof rows / sizeof *rows; n++) {
        kernel_run((struct kernel){.body = rows[n].body});
        assert_ran();
        assert_banks(ran.counts.shared[VG_PATH_STORE], 1, rows[n].bytes,
                     rows[n].wavefronts, rows[n].conflicts);
    }
}

/* Rows of 16 bytes: 128 bytes apart all eight meet in the same banks; 144
 * bytes apart they fill the 32 banks. */
static void matrix_conflicts(void **state)
{
    static const char *const stride[] = {"128", "144"};
    char body[512];

    (void)state;
    for (unsigned n = 0; n < 2; n++) {
        snprintf(body, sizeof body,
                 "mul.lo.u32 %%r0, %%tid, %s; add.u32 %%r0, %%r0, %%sm;\n"
                 "st.shared.v4.u32 [%%r0], {%%tid, %%tid, %%tid, %%tid};\n"
                 "bar.warp.sync 0xffffffff;\n"
                 "ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                 "{%%r1, %%r2, %%r3, %%r4}, [%%r0];\n"
                 "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 "
                 "{%%r1, %%r2}, [%%r0];\n", stride[n]);
        kernel_run((struct kernel){.body = body});
        assert_ran();
        assert_banks(ran.counts.shared[VG_PATH_LDMATRIX], 2, 512 + 256,
                     n ? 6 : 48, n ? 0 : 42);
    }
}

static void cp_async_traffic(void **state)
{
    (void)state;
    kernel_run((struct kernel){
        .body = AT(16)
        "cp.async.cg.shared.global [%r0], [%d0], 16;\n"
        "cp.async.ca.shared.global [%r0+4096], [%d0], 16;\n"
        "mov.u32 %r1, 0;\n"
        "cp.async.cg.shared.global [%r0+2048], [%d0], 16, %r1;\n"
        "cp.async.wait_all;\n"});
    assert_ran();
    assert_traffic(ran.counts.global[VG_PATH_CP_ASYNC], 2, 1024, 32);
    assert_banks(ran.counts.shared[VG_PATH_CP_ASYNC], 3, 1536, 12, 0);
    assert_int_equal(ran.counts.unique_load, 16);
    assert_int_equal(ran.counts.l1_miss, 32);
}

/* ---- instructions ------------------------------------------------------- */

static void instructions_and_divergence(void **state)
{
    uint64_t warps, threads;

    (void)state;
    kernel_run((struct kernel){.body = "", .threads = 40});
    warps = ran.counts.warp_insns;
    threads = ran.counts.thread_insns;
    assert_int_equal(warps % 2, 0);
    assert_int_equal(threads, warps / 2 * 40);
    /* setp and bra by both warps; five adds by lanes 0-3 of warp 0 alone. */
    kernel_run((struct kernel){
        .body = "setp.ge.u32 %p0, %tid, 4; @%p0 bra SKIP;\n"
                "add.u32 %r0, %r0, 1; add.u32 %r0, %r0, 1;\n"
                "add.u32 %r0, %r0, 1; add.u32 %r0, %r0, 1;\n"
                "add.u32 %r0, %r0, 1;\nSKIP:\n", .threads = 40});
    assert_ran();
    assert_int_equal(ran.counts.warp_insns - warps, 4 + 5);
    assert_int_equal(ran.counts.thread_insns - threads, 80 + 20);
}

static void barriers_and_fences(void **state)
{
    (void)state;
    kernel_run((struct kernel){
        .body = "bar.sync 0; bar.sync 0; membar.gl; fence.acq_rel.gpu;\n",
        .threads = 96, .blocks = 2});
    assert_ran();
    assert_int_equal(ran.counts.barriers, 12);
    assert_int_equal(ran.counts.fences, 12);
}

static void local_bytes(void **state)
{
    (void)state;
    kernel_run((struct kernel){
        .body = "st.local.u32 [lm], %tid; st.local.u64 [lm+8], %in;\n"
                "ld.local.u32 %r0, [lm];\n"});
    assert_int_equal(ran.counts.local_store, 32 * 12);
    assert_int_equal(ran.counts.local_load, 32 * 4);
}

/* Nothing depends on host threads or on the seed. */
static void counts_are_deterministic(void **state)
{
    static const char body[] = AT(12)
        "ld.global.u32 %r1, [%d0]; st.shared.u32 [%r0], %r1; bar.sync 0;\n"
        "xor.b32 %r2, %tid, 33; mul.lo.u32 %r2, %r2, 12;\n"
        "add.u32 %r2, %r2, %sm; ld.shared.u32 %r3, [%r2];\n"
        "st.global.u32 [%d1], %r3;\n";
    struct vg_counts first;

    (void)state;
    kernel_run((struct kernel){.body = body, .threads = 128, .blocks = 20});
    assert_ran();
    first = ran.counts;
    for (uint64_t seed = 0; seed < 4; seed++) {
        kernel_run((struct kernel){.body = body, .threads = 128, .blocks = 20,
                                   .seed = seed, .host_threads = 2});
        assert_ran();
        assert_memory_equal(&ran.counts, &first, sizeof first);
    }
}

/* ---- the book ----------------------------------------------------------- */

static void json(void **state)
{
    char *text;

    (void)state;
    kernel_run((struct kernel){
        .body = AT(4) "ld.global.u32 %r1, [%d0];\n"
                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32\n"
                "  {%f0, %f1, %f2, %f3}, {%r1, %r1, %r1, %r1}, {%r1, %r1},\n"
                "  {0., 0., 0., 0.};\n", .blocks = 2});
    assert_ran();
    text = vg_counters_json();
    assert_non_null(text);
    assert_non_null(strstr(text, "{\"launches\":[\n{\"kernel\":\"k\","
                                 "\"grid\":[2,1,1],\"block\":[32,1,1],"));
    assert_non_null(strstr(text, "\"mma\":{\"m16n8k16.f32.bf16.bf16.f32\":"
                                 "{\"count\":2,\"flops\":8192}},"
                                 "\"mma_flops\":8192,"));
    assert_non_null(strstr(text, "\"global\":{\"load\":{\"requests\":2,"
                                 "\"bytes\":256,\"sectors\":8},"));
    assert_non_null(strstr(text, "\"total\":{\"warp_insns\":"));
    free(text);
    vg_counters_reset();
    text = vg_counters_json();
    assert_non_null(strstr(text, "{\"launches\":[],"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coalesced_loads),
        cmocka_unit_test(strided_and_broadcast_loads),
        cmocka_unit_test(repeated_loads),
        cmocka_unit_test(stores_and_atomics),
        cmocka_unit_test(bank_conflicts),
        cmocka_unit_test(matrix_conflicts),
        cmocka_unit_test(cp_async_traffic),
        cmocka_unit_test(instructions_and_divergence),
        cmocka_unit_test(barriers_and_fences),
        cmocka_unit_test(local_bytes),
        cmocka_unit_test(counts_are_deterministic),
        cmocka_unit_test(json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
