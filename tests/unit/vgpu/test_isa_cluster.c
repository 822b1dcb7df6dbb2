/* SPDX-License-Identifier: Apache-2.0
 *
 * test_isa_cluster.c: clusters: ranks, mapa (PTX ISA 9.7.9.22), distributed
 * shared memory, barrier.cluster (9.7.13.4), remote arrivals, st.async,
 * multicast; and setmaxnreg (9.7.20.5).
 */
#include "hopper.h"

enum { BAR = 32768 };

static uint32_t out[4096];
static struct ptx_text t;

#define CLUSTER_SYNC                                                          \
    "barrier.cluster.arrive.release.aligned;\n"                               \
    "barrier.cluster.wait.acquire.aligned;\n"

/* %r10 rank, %r11 number of CTAs, %rd5 = out + 4 (threads of the grid). */
static void begin(const char *directives)
{
    begin_kernel(&t, directives);
    emit(&t, "mov.u32 %%r10, %%cluster_ctarank;\n"
             "mov.u32 %%r11, %%cluster_nctarank;\n"
             "mov.u32 %%r12, %%ctaid.x; mov.u32 %%r13, %%ntid.x;\n"
             "mad.lo.u32 %%r12, %%r12, %%r13, %%r0;\n"
             "mul.wide.u32 %%rd5, %%r12, 4; add.u64 %%rd5, %%rd5, %%rd1;\n"
             "mov.u32 %%r14, sm;\n");
}

static void run(unsigned grid, unsigned block, unsigned cluster,
                const void *in, size_t nin)
{
    struct hopper h = {.grid = grid, .block = block, .cluster = cluster,
                       .in = in, .nin = nin, .out = out, .nout = sizeof out};
    memset(out, 0xff, sizeof out);
    end_kernel(&t);
    hopper_ok(&h, t.s);
}

static void ranks_and_sizes(void **state)
{
    (void)state;
    begin("");
    emit(&t, "mov.u32 %%r15, %%clusterid.x; mov.u32 %%r16, %%nclusterid.x;\n"
             "shl.b32 %%r10, %%r10, 12; shl.b32 %%r11, %%r11, 8;\n"
             "shl.b32 %%r15, %%r15, 4; or.b32 %%r10, %%r10, %%r11;\n"
             "or.b32 %%r10, %%r10, %%r15; or.b32 %%r10, %%r10, %%r16;\n"
             "st.global.b32 [%%rd5], %%r10;\n");
    run(8, 32, 4, NULL, 0);
    for (unsigned c = 0; c < 8; c++)
        assert_int_equal(out[32 * c],
                         (c % 4) << 12 | 4 << 8 | (c / 4) << 4 | 2);
}

static void a_cluster_by_directive(void **state)
{
    (void)state;
    begin(".explicitcluster .reqnctapercluster 2, 1, 1");
    emit(&t, "st.global.b32 [%%rd5], %%r10;\n");
    run(4, 32, 0, NULL, 0);
    for (unsigned c = 0; c < 4; c++)
        assert_int_equal(out[32 * c], c % 2);
}

/* Each CTA reads what its neighbour wrote, writes into the one after, and
 * counts in CTA 0. */
static void distributed_shared_memory(void **state)
{
    (void)state;
    begin("");
    emit(&t,
         "shl.b32 %%r15, %%r0, 2; add.u32 %%r15, %%r15, %%r14;\n"
         "mad.lo.u32 %%r16, %%r10, 1000, %%r0; st.shared.b32 [%%r15], %%r16;\n"
         "setp.eq.u32 %%p1, %%r0, 0; mov.u32 %%r24, 0;\n"
         "@%%p1 st.shared.b32 [%%r14+1024], %%r24;\n"
         CLUSTER_SYNC
         "add.u32 %%r17, %%r10, 1; rem.u32 %%r17, %%r17, %%r11;\n"
         "mapa.shared::cluster.u32 %%r18, %%r15, %%r17;\n"
         "ld.shared::cluster.b32 %%r19, [%%r18];\n"
         "getctarank.shared::cluster.u32 %%r20, %%r18;\n"
         "mad.lo.u32 %%r19, %%r20, 100000, %%r19;\n"
         "st.shared::cluster.b32 [%%r18+2048], %%r16;\n"
         "cvt.u64.u32 %%rd9, %%r14; cvta.shared.u64 %%rd9, %%rd9;\n"
         "mapa.u64 %%rd9, %%rd9, 0;\n"           /* generic, CTA 0 */
         "atom.add.u32 %%r21, [%%rd9+1024], 1;\n"
         CLUSTER_SYNC
         "ld.shared.b32 %%r22, [%%r15+2048]; sub.u32 %%r22, %%r22, %%r0;\n"
         "add.u32 %%r19, %%r19, %%r22;\n"
         "st.global.b32 [%%rd5], %%r19;\n"
         "setp.eq.u32 %%p2, %%r12, 0; @!%%p2 bra END;\n"
         "ld.shared.b32 %%r23, [%%r14+1024];\n"
         "st.global.b32 [%%rd1+8192], %%r23;\nEND:\n");
    run(4, 64, 4, NULL, 0);
    for (unsigned c = 0; c < 4; c++)
        for (unsigned i = 0; i < 64; i++) {
            unsigned next = (c + 1) % 4, before = (c + 3) % 4;
            assert_int_equal(out[64 * c + i], next * 100000 + next * 1000 +
                                                  i + before * 1000);
        }
    assert_int_equal(out[2048], 256);
}

/* Both CTAs arrive at the mbarrier of CTA 0, whose threads wait. */
static void remote_arrivals(void **state)
{
    (void)state;
    begin("");
    emit_mbarrier(&t, BAR, 64);
    emit(&t, CLUSTER_SYNC
         "shl.b32 %%r15, %%r0, 2; add.u32 %%r15, %%r15, %%r14;\n"
         "mapa.shared::cluster.u32 %%r16, %%r15, 0;\n"
         "shl.b32 %%r17, %%r10, 10; add.u32 %%r16, %%r16, %%r17;\n"
         "add.u32 %%r18, %%r0, %%r17; st.shared::cluster.b32 [%%r16], %%r18;\n"
         "mapa.shared::cluster.u32 %%r19, %%r8, 0;\n"
         "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%%r19];\n"
         "setp.ne.u32 %%p2, %%r10, 0; @%%p2 bra END;\n"
         "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %%p3,"
         " [%%r8], 0;\n@!%%p3 bra W;\n"
         "ld.shared.b32 %%r20, [%%r15]; ld.shared.b32 %%r21, [%%r15+1024];\n"
         "add.u32 %%r20, %%r20, %%r21; st.global.b32 [%%rd5], %%r20;\nEND:\n"
         CLUSTER_SYNC);
    run(2, 32, 2, NULL, 0);
    for (unsigned i = 0; i < 32; i++)
        assert_int_equal(out[i], 2 * i + 1024);
}

static void st_async_completes_on_the_peers_mbarrier(void **state)
{
    (void)state;
    begin("");
    emit_mbarrier(&t, BAR, 1);
    emit(&t, "@%%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r8], 512;"
             "\n" CLUSTER_SYNC
         "xor.b32 %%r15, %%r10, 1; shl.b32 %%r16, %%r0, 4;\n"
         "add.u32 %%r17, %%r14, %%r16;\n"
         "mapa.shared::cluster.u32 %%r18, %%r17, %%r15;\n"
         "mapa.shared::cluster.u32 %%r19, %%r8, %%r15;\n"
         "mad.lo.u32 %%r20, %%r10, 100, %%r0; cvt.s64.s32 %%rd9, %%r20;\n"
         "neg.s64 %%rd10, %%rd9;\n"
         "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.s64"
         " [%%r18], {%%rd9, %%rd10}, [%%r19];\n");
    emit_wait(&t, "%r8", 0);
    emit(&t, "ld.shared.v2.s64 {%%rd11, %%rd12}, [%%r17];\n"
             "cvt.u32.u64 %%r21, %%rd11; cvt.u32.u64 %%r22, %%rd12;\n"
             "mad.lo.u32 %%r21, %%r22, 1000, %%r21;\n"
             "st.global.b32 [%%rd5], %%r21;\n" CLUSTER_SYNC);
    run(2, 32, 2, NULL, 0);
    for (unsigned c = 0; c < 2; c++)
        for (int i = 0; i < 32; i++) {
            int v = (int)(c ^ 1) * 100 + i;
            assert_int_equal((int)out[32 * c + (unsigned)i], v - 1000 * v);
        }
}

/* One load to both CTAs, each with its own mbarrier. */
static void multicast(void **state)
{
    static uint32_t in[1024];
    (void)state;
    for (unsigned i = 0; i < 1024; i++)
        in[i] = i * i;
    begin("");
    emit_mbarrier(&t, BAR, 1);
    emit(&t, "@%%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r8],"
             " 4096;\n" CLUSTER_SYNC
         "mul.wide.u32 %%rd9, %%r10, 2048; add.u64 %%rd9, %%rd9, %%rd0;\n"
         "shl.b32 %%r15, %%r10, 11; add.u32 %%r15, %%r15, %%r14;\n"
         "mov.u16 %%h1, 3;\n"
         "@%%p1 cp.async.bulk.shared::cluster.global"
         ".mbarrier::complete_tx::bytes.multicast::cluster [%%r15], [%%rd9],"
         " 2048, [%%r8], %%h1;\n");
    emit_wait(&t, "%r8", 0);
    emit(&t, "shl.b32 %%r16, %%r0, 5; add.u32 %%r16, %%r16, %%r14;\n"
             "ld.shared.b32 %%r17, [%%r16]; st.global.b32 [%%rd5], %%r17;\n"
             CLUSTER_SYNC);
    run(2, 128, 2, in, sizeof in);
    for (unsigned c = 0; c < 2; c++)
        for (unsigned i = 0; i < 128; i++)
            assert_int_equal(out[128 * c + i], in[8 * i]);
}

/* A bulk copy from the own shared memory to the peer's. */
static void bulk_copy_between_ctas(void **state)
{
    (void)state;
    begin("");
    emit_mbarrier(&t, BAR, 1);
    emit(&t, "@%%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r8],"
             " 512;\n"
         "shl.b32 %%r15, %%r0, 2; add.u32 %%r15, %%r15, %%r14;\n"
         "mad.lo.u32 %%r16, %%r10, 1000, %%r0; st.shared.b32 [%%r15], %%r16;\n"
         "fence.proxy.async.shared::cta;\n" CLUSTER_SYNC
         "xor.b32 %%r17, %%r10, 1; add.u32 %%r18, %%r14, 4096;\n"
         "mapa.shared::cluster.u32 %%r18, %%r18, %%r17;\n"
         "mapa.shared::cluster.u32 %%r19, %%r8, %%r17;\n"
         "@%%p1 cp.async.bulk.shared::cluster.shared::cta"
         ".mbarrier::complete_tx::bytes [%%r18], [%%r14], 512, [%%r19];\n");
    emit_wait(&t, "%r8", 0);
    emit(&t, "ld.shared.b32 %%r20, [%%r15+4096];\n"
             "st.global.b32 [%%rd5], %%r20;\n" CLUSTER_SYNC);
    run(2, 128, 2, NULL, 0);
    for (unsigned c = 0; c < 2; c++)
        for (unsigned i = 0; i < 128; i++)
            assert_int_equal(out[128 * c + i], (c ^ 1) * 1000 + i);
}

/* 384 threads start with 168 registers each; two warpgroups give up 40 per
 * thread, the third takes 72 of the 80. */
static void registers_change_hands(void **state)
{
    (void)state;
    begin(".maxntid 384, 1, 1");
    emit(&t, "setp.lt.u32 %%p2, %%r0, 128; @%%p2 bra TAKE;\n"
             "setmaxnreg.dec.sync.aligned.u32 128;\nbra NEXT;\n"
             "TAKE: setmaxnreg.inc.sync.aligned.u32 240;\n"
             "NEXT: st.global.b32 [%%rd5], %%r0;\n");
    run(1, 384, 0, NULL, 0);
    for (unsigned i = 0; i < 384; i++)
        assert_int_equal(out[i], i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, gpu_begin, gpu_end)
        TEST(ranks_and_sizes),
        TEST(a_cluster_by_directive),
        TEST(distributed_shared_memory),
        TEST(remote_arrivals),
        TEST(st_async_completes_on_the_peers_mbarrier),
        TEST(multicast),
        TEST(bulk_copy_between_ctas),
        TEST(registers_change_hands),
    };
    if (gpu_begin(NULL) || gpu_end(NULL))
        return 1;
    if (hopper_absent())
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
