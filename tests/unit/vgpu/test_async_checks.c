/* SPDX-License-Identifier: Apache-2.0
 *
 * test_async_checks.c: mistakes with asynchronous instructions are found.
 *
 * A row is a kernel with one part that is needed, between [[ and ]], or one
 * that is wrong, between << and >>.  With the needed part and without the
 * wrong one it must run silently, under several seeds; the other way round it
 * must end with a report that has the row's words in it, under each seed.
 */
#include "hopper.h"

struct mistake {
    const char *name, *body, *words;
    unsigned block, grid, cluster;   /* 0: 128, 1, none */
    const char *directives, *checks; /* NULL: none, all */
};

/* ---- pieces of kernels -------------------------------------------------- */

/* 16 KiB of zeros, an mbarrier at 32768 in %r8, %p1: thread 0. */
#define BARRIER(count)                                                        \
    "setp.eq.u32 %p1, %r0, 0; mov.u32 %r8, sm; add.u32 %r8, %r8, 32768;\n"    \
    "mov.u32 %r9, sm;\n"                                                      \
    "@%p1 mbarrier.init.shared::cta.b64 [%r8], " #count ";\n"
#define PUBLISH "@%p1 fence.mbarrier_init.release.cluster;\nbar.sync 0;\n"
#define ZERO                                                                  \
    "mov.u32 %r2, sm; shl.b32 %r1, %r0, 4; add.u32 %r2, %r2, %r1;\n"          \
    "mov.u32 %r3, 0;\n"                                                       \
    "ZERO: st.shared.v4.b32 [%r2], {0, 0, 0, 0};\n"                           \
    "add.u32 %r2, %r2, 2048; add.u32 %r3, %r3, 1;\n"                          \
    "setp.lt.u32 %p0, %r3, 8; @%p0 bra ZERO;\n"                               \
    "mov.u32 %r2, sm; add.u32 %r2, %r2, %r1;\n"
#define PROXY "fence.proxy.async.shared::cta;\n"
#define SYNC "bar.sync 0;\n"
/* Matrices at 0 and 8192, swizzled by 128 bytes. */
#define DESC                                                                  \
    "mov.u64 %rd10, 0x4000004000010000; mov.u64 %rd11, 0x4000004000010200;\n"
#define MMA                                                                   \
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "                    \
    "{%d0,%d1,%d2,%d3}, %rd10, %rd11, 0, 1, 1, 0, 0;\n"
#define MMA_RS                                                                \
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "                    \
    "{%d0,%d1,%d2,%d3}, {%r20,%r21,%r22,%r23}, %rd11, 0, 1, 1, 0;\n"
#define GO "wgmma.fence.sync.aligned;\n"
#define COMMIT "wgmma.commit_group.sync.aligned;\n"
#define WAIT "wgmma.wait_group.sync.aligned 0;\n"
#define READY ZERO PROXY SYNC DESC
/* A plain bulk load of 2048 bytes to 0 that thread 0 issues. */
#define EXPECT(n)                                                             \
    "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], " #n ";\n"
#define LOAD                                                                  \
    "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes " \
    "[%r9], [%rd0], 2048, [%r8];\n"
#define LANDED(parity)                                                        \
    "{ W: mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r8], " #parity      \
    ";\n@!%p7 bra W; }\n"
#define STORE                                                                 \
    "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r9], 2048;\n" \
    "@%p1 cp.async.bulk.commit_group;\n"
#define READ "@%p1 cp.async.bulk.wait_group.read 0;\n"
#define TOUCH                                                                 \
    "mov.u32 %r2, sm; shl.b32 %r1, %r0, 4; add.u32 %r2, %r2, %r1;\n"
/* 16 bytes per thread and 2048, of A and B, from global memory. */
#define COPY                                                                  \
    "shl.b32 %r1, %r0, 4; mov.u32 %r2, sm; add.u32 %r2, %r2, %r1;\n"          \
    "cvt.u64.u32 %rd5, %r1; add.u64 %rd5, %rd5, %rd0;\nmov.u32 %r3, 0;\n"    \
    "COPY: cp.async.cg.shared.global [%r2], [%rd5], 16;\n"                    \
    "add.u32 %r2, %r2, 2048; add.u32 %r3, %r3, 1;\n"                          \
    "setp.lt.u32 %p0, %r3, 8; @%p0 bra COPY;\n"
#define COPIED "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r8];\n"
#define CLUSTER                                                               \
    "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"

/* ---- the mistakes ------------------------------------------------------- */

#define ROW(row_name, row_body, ...)                                          \
    {.name = row_name, .body = row_body, .words = __VA_ARGS__}
static const struct mistake mistakes[] = {
    /* mbarriers */
    ROW("mbarrier used without a barrier after init",
     BARRIER(128) "[[bar.sync 0;\n]]"
     "mbarrier.arrive.shared::cta.b64 _, [%r8];\n" LANDED(0),
     "race in shared memory|mbarrier.init||never initialised"),
    ROW("mbarrier of a copy without fence.mbarrier_init",
     BARRIER(1) "[[@%p1 fence.mbarrier_init.release.cluster;\n]]" SYNC
     EXPECT(2048) LOAD LANDED(0), "fence.mbarrier_init|0x8000"),
    ROW("mbarrier initialised while it is live",
     BARRIER(1) "[[@%p1 mbarrier.inval.shared::cta.b64 [%r8];\n]]"
     "@%p1 mbarrier.init.shared::cta.b64 [%r8], 2;\n",
     "initialised again|0x8000"),
    ROW("more arrivals than expected",
     BARRIER(1) SYNC "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r8];\n"
     "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r8][[]]<<, 2>>;\n",
     "2 arrive, but only 1 of 1"),
    ROW("mbarrier that was never initialised",
     "mov.u32 %r8, sm; setp.eq.u32 %p1, %r0, 0;\n"
     "[[@%p1 mbarrier.init.shared::cta.b64 [%r8], 1;\n]]"
     "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r8];\n",
     "never initialised"),
    ROW("ordinary access to a live mbarrier",
     BARRIER(1) SYNC "<<@%p1 ld.shared.b32 %r20, [%r8];\n>>",
     "live mbarrier 0x8000"),
    ROW("waiter two phases late",
     BARRIER(1) SYNC "@!%p1 ret;\n"
     "mbarrier.arrive.shared::cta.b64 _, [%r8];\n" LANDED(0)
     "mbarrier.arrive.shared::cta.b64 _, [%r8];\n"
     "<<mbarrier.arrive.shared::cta.b64 _, [%r8];\n>>" LANDED(1),
     "two phases late"),
    ROW("more bytes announced than delivered",
     BARRIER(1) PUBLISH EXPECT([[2048]]<<4096>>) LOAD LANDED(0),
     "deadlock|mbarrier 0x8000 phase 0: 0 of 1 pending, tx 2048"),
    ROW("more bytes delivered than announced",
     BARRIER(1) PUBLISH "[[" EXPECT(2048) "]]<<" EXPECT(1024) ">>" LOAD
     "[[" LANDED(0) "]]<<" LANDED(1) TOUCH "@!%p1 ret;\n>>",
     "the block exits while a copy"),
    ROW("tx-count left over",
     BARRIER(2) SYNC
     "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r8], 64;\n"
     "[[@%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r8], 64;\n]]",
     "tx-count mismatch|tx 64"),
    ROW("wait without anybody who arrives",
     BARRIER(1) SYNC "[[@%p1 mbarrier.arrive.shared::cta.b64 _, [%r8];\n]]"
     LANDED(0), "deadlock|mbarrier 0x8000 phase 0: 1 of 1 pending"),

    /* copies to shared memory */
    ROW("destination read before the wait",
     BARRIER(1) PUBLISH EXPECT(2048) LOAD "[[" LANDED(0) "]]" TOUCH
     "ld.shared.b32 %r20, [%r2];\n<<" LANDED(0) ">>",
     "before it is complete|cp.async.bulk||uninitialised"),
    ROW("destination read by a thread that only saw a flag",
     BARRIER(1) "add.u32 %r10, %r9, 36864; @%p1 st.shared.b32 [%r10], 0;\n"
     PUBLISH EXPECT(2048) LOAD "@!%p1 bra SPIN;\n" LANDED(0)
     "st.volatile.shared.b32 [%r10], 1;\n"
     "SPIN: ld.volatile.shared.b32 %r11, [%r10];\n"
     "setp.eq.u32 %p3, %r11, 0; @%p3 bra SPIN;\n[[" LANDED(0) "]]" TOUCH
     "ld.shared.b32 %r20, [%r2];\n",
     "not ordered after the asynchronous write|cp.async.bulk"),
    ROW("destination still read by others",
     BARRIER(1) PUBLISH EXPECT(2048) LOAD LANDED(0) TOUCH
     "ld.shared.b32 %r20, [%r2];\n[[" SYNC "]]" EXPECT(2048) LOAD LANDED(1),
     "race in shared memory|write by a bulk copy"),
    ROW("destination not aligned",
     BARRIER(1) PUBLISH EXPECT(2048) "[[]]<<add.u32 %r9, %r9, 8;\n>>" LOAD
     LANDED(0), "multiples of 16"),
    ROW("exit while a copy is under way",
     BARRIER(1) PUBLISH EXPECT(2048) LOAD "[[" LANDED(0) "]]",
     "the block exits while a copy"),
    ROW("no tensor map at the address",
     BARRIER(1) PUBLISH "[[@!%p1 ret;\n]]mov.u32 %r20, 0;\n"
     "<<@%p1 cp.async.bulk.tensor.1d.shared::cluster.global"
     ".mbarrier::complete_tx::bytes [%r9], [%rd2, {%r20}], [%r8];\n>>",
     "there is no tensor map"),
    ROW("tensor map that is a copy in local memory",
     ".local .align 64 .b8 lm[128];\n" BARRIER(1) PUBLISH
     "mov.u32 %r20, 0; <<mov.u64 %rd9, lm; cvta.local.u64 %rd2, %rd9;\n"
     "@%p1 cp.async.bulk.tensor.1d.shared::cluster.global"
     ".mbarrier::complete_tx::bytes [%r9], [%rd2, {%r20}], [%r8];\n>>",
     "not __grid_constant__"),
    ROW("source out of bounds",
     BARRIER(1) PUBLISH EXPECT(2048) "<<add.u64 %rd0, %rd0, 63488;\n"
     "add.u64 %rd0, %rd0, 16;\n>>" LOAD LANDED(0), "out-of-bounds read"),

    /* copies to global memory */
    ROW("ordinary writes stored by a bulk copy without a proxy fence",
     BARRIER(1) ZERO "[[" PROXY "]]" SYNC STORE READ,
     "without a fence.proxy.async|st.shared"),
    ROW("stmatrix stored by a bulk copy without a proxy fence",
     "setp.eq.u32 %p1, %r0, 0; mov.u32 %r9, sm;\n"
     "shl.b32 %r1, %r0, 4; add.u32 %r2, %r9, %r1;\n"
     "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r2], "
     "{%r0, %r0, %r0, %r0};\n[[" PROXY "]]" SYNC STORE READ,
     "without a fence.proxy.async|stmatrix"),
    ROW("source of a bulk store overwritten before wait_group.read",
     BARRIER(1) ZERO PROXY SYNC STORE "[[" READ "]]" SYNC
     "st.shared.b32 [%r2], %r0;\n<<" READ ">>",
     "not ordered after the asynchronous read|cp.async.bulk"),
    ROW("exit without wait_group.read", BARRIER(1) ZERO PROXY SYNC STORE
     "[[" READ "]]", "still reads shared memory"),

    /* wgmma */
    ROW("operands written without a proxy fence",
     ZERO "[[" PROXY "]]" SYNC DESC GO MMA COMMIT WAIT,
     "wgmma reads byte|without a fence.proxy.async"),
    ROW("operands copied by cp.async without a proxy fence",
     COPY "cp.async.wait_all;\n[[" PROXY "]]" SYNC DESC GO MMA COMMIT WAIT,
     "wgmma reads byte|without a fence.proxy.async|cp.async"),
    ROW("operands that an mbarrier tracks, no fence behind the wait",
     BARRIER(128) SYNC COPY COPIED LANDED(0) "[[" PROXY "]]" DESC GO MMA
     COMMIT WAIT, "wgmma reads byte|without a fence.proxy.async|cp.async"),
    ROW("operands copied by cp.async, the mbarrier not waited for",
     BARRIER(128) SYNC COPY COPIED "[[" LANDED(0) "]]" PROXY DESC GO MMA
     COMMIT WAIT "<<" LANDED(0) ">>",
     "before it is complete||not ordered after||uninitialised"),
    ROW("an arrival of copies does not speak for later writes",
     BARRIER(128) SYNC COPY COPIED "add.u32 %r9, %r9, 36864;\n"
     "add.u32 %r9, %r9, %r1; st.shared.b32 [%r9], %r0;\n" LANDED(0)
     "[[" SYNC "]]" "xor.b32 %r1, %r1, 1024; mov.u32 %r9, sm;\n"
     "add.u32 %r9, %r9, 36864; add.u32 %r9, %r9, %r1;\n"
     "ld.shared.b32 %r20, [%r9];\n",
     "race in shared memory|st.shared||uninitialised"),
    ROW("operands written by others without a barrier",
     ZERO PROXY "[[" SYNC "]]" DESC GO MMA COMMIT WAIT,
     "race in shared memory|read by wgmma||uninitialised"),
    ROW("operands never written", "[[" ZERO "]]" PROXY SYNC DESC GO MMA COMMIT
     WAIT, "uninitialised shared memory"),
    ROW("tile overwritten by a thread while wgmma reads it",
     READY GO MMA COMMIT "[[" WAIT "]]" SYNC "st.shared.b32 [%r2], %r0;\n"
     "<<" WAIT ">>", "not ordered after the asynchronous read|wgmma"),
    ROW("tile overwritten by a copy while wgmma reads it",
     BARRIER(1) PUBLISH READY GO MMA COMMIT "[[" WAIT "]]" SYNC EXPECT(2048)
     LOAD LANDED(0) "<<" WAIT ">>",
     "not ordered after the asynchronous read|wgmma"),
    ROW("tile still under way when wgmma reads it",
     BARRIER(1) PUBLISH READY EXPECT(2048) LOAD "[[" LANDED(0) "]]" GO MMA
     COMMIT WAIT "<<" LANDED(0) ">>", "before it is complete"),
    ROW("accumulator read before wait_group",
     READY GO MMA COMMIT "[[" WAIT "]]" "add.u32 %r20, %d0, 1;\n<<" WAIT ">>",
     "accumulator register|read while the wgmma is in flight"),
    ROW("accumulator of the younger group read",
     READY GO MMA COMMIT
     "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
     "{%d4,%d5,%d6,%d7}, %rd10, %rd11, 0, 1, 1, 0, 0;\n" COMMIT
     "wgmma.wait_group.sync.aligned 1;\nadd.u32 %r20, %d0, 1;\n"
     "[[" WAIT "]]" "add.u32 %r20, %d4, 1;\n<<" WAIT ">>",
     "group 2"),
    ROW("A fragment overwritten before wait_group",
     READY "mov.u32 %r20, 0; mov.u32 %r21, 0; mov.u32 %r22, 0;\n"
     "mov.u32 %r23, 0;\n" GO MMA_RS COMMIT "[[" WAIT "]]"
     "mov.u32 %r21, 7;\n<<" WAIT ">>",
     "A-fragment register|written while"),
    ROW("no wgmma.fence after the registers were written",
     READY GO MMA COMMIT WAIT "add.u32 %d0, %d0, 0;\n[[" GO "]]" MMA COMMIT
     WAIT, "after the last wgmma.fence"),
    ROW("no wgmma.fence after the registers were read",
     READY GO MMA COMMIT WAIT "add.u32 %r20, %d0, 0;\n[[" GO "]]" MMA COMMIT
     WAIT, "after the last wgmma.fence"),
    ROW("accumulator computed, not only set, below the fence",
     READY GO "mov.u32 %d0, 0;\n<<add.u32 %d0, %d0, 0;\n>>" MMA COMMIT WAIT,
     "after the last wgmma.fence"),
    ROW("no wgmma.fence at all", READY "[[" GO "]]" MMA COMMIT WAIT,
     "without a wgmma.fence"),
    ROW("exit while wgmma is in flight", READY GO MMA COMMIT "[[" WAIT "]]",
     "exits while its wgmma"),
    ROW("wgmma by three warps of four",
     READY "<<setp.ge.u32 %p2, %r0, 96; @%p2 exit;\n>>" GO MMA COMMIT WAIT,
     "partial warpgroup||not issued by warp 3"),
    ROW("warps of a warpgroup at different wgmma",
     READY GO "[[]]setp.ge.u32 %p2, %r0, 96;\n<<@%p2 bra OTHER;\n>>" MMA
     "bra JOIN;\nOTHER:" MMA "JOIN:" COMMIT WAIT, "different wgmma"),
    ROW("descriptors that differ between warps",
     READY "setp.ge.u32 %p2, %r0, 96;\n"
     "<<@%p2 add.u64 %rd11, %rd11, 2;\n>>" GO MMA COMMIT WAIT,
     "descriptors differ between warps"),
    ROW("descriptor with a base offset",
     READY "<<or.b64 %rd10, %rd10, 0x0002000000000000;\n>>" GO MMA COMMIT
     WAIT, "base offset 1"),
    ROW("matrix that starts within a swizzle pattern",
     READY "<<add.u64 %rd10, %rd10, 8;\n>>" GO MMA COMMIT WAIT,
     "not at a repeat"),
    ROW("matrix beyond shared memory",
     READY "<<add.u64 %rd11, %rd11, 0xe00;\n>>" GO MMA COMMIT WAIT,
     "beyond the block's"),
    ROW("release by one warp of four",
     BARRIER([[4]]<<1>>) PUBLISH READY GO MMA COMMIT WAIT
     "and.b32 %r10, %r0, [[31]]<<127>>; setp.eq.u32 %p3, %r10, 0;\n"
     "@%p3 mbarrier.arrive.shared::cta.b64 _, [%r8];\n"
     "@!%p1 bra END;\n" LANDED(0)
     "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 2048;\n"
     "add.u32 %r9, %r9, 8192;\n" LOAD
     "[[mbarrier.arrive.shared::cta.b64 _, [%r8], 3;\n]]" LANDED(1) "END:\n",
     "not ordered after the asynchronous read", .checks = "strict"),

    /* clusters, registers */
    ROW("shared memory of a block that has exited",
     "mov.u32 %r10, %cluster_ctarank; setp.eq.u32 %p2, %r10, 1;\n"
     "mov.u32 %r9, sm; st.shared.b32 [%r9], 0;\n" CLUSTER
     "@%p2 bra LEAVE;\nmapa.shared::cluster.u32 %r11, %r9, 1;\n"
     "mov.u32 %r30, 0;\n"
     "SPIN: add.u32 %r30, %r30, 1; setp.lt.u32 %p3, %r30, 40000;\n"
     "@%p3 bra SPIN;\nld.shared::cluster.b32 %r12, [%r11];\n"
     "LEAVE: [[" CLUSTER "]]", "which has exited", .block = 32, .grid = 2,
        .cluster = 2),
    ROW("distributed shared memory without a cluster barrier",
     "mov.u32 %r10, %cluster_ctarank; mov.u32 %r9, sm;\n"
     "st.shared.b32 [%r9], 0;\n[[" CLUSTER "]]"
     "xor.b32 %r12, %r10, 1; mapa.shared::cluster.u32 %r11, %r9, %r12;\n"
     "ld.shared::cluster.b32 %r13, [%r11];\n" CLUSTER,
     "race in shared memory|of the cluster||uninitialised", .block = 32,
        .grid = 2, .cluster = 2),
    ROW("registers that the pool does not have",
     "setp.lt.u32 %p2, %r0, 128; @%p2 bra TAKE;\n"
     "setmaxnreg.dec.sync.aligned.u32 160;\nbra NEXT;\n"
     "TAKE: setmaxnreg.inc.sync.aligned.u32 [[184]]<<208>>;\n"
     "NEXT: bar.sync 0;\n", "setmaxnreg.inc 208: the pool lacks",
        .block = 384, .directives = ".maxntid 384, 1, 1"),
};

/* ---- both versions ------------------------------------------------------ */

/* Copies body without the parts between `open` and `close`, and without the
 * marks of the other kind. */
static void version(struct ptx_text *t, const char *body, bool right)
{
    bool keep = true;
    for (const char *p = body; *p; p++) {
        bool needed = strncmp(p, "[[", 2) == 0;
        bool wrong = strncmp(p, "<<", 2) == 0;
        if (needed || wrong) {
            keep = needed == right;
            p++;
        } else if (strncmp(p, "]]", 2) == 0 || strncmp(p, ">>", 2) == 0) {
            keep = true;
            p++;
        } else if (keep) {
            t->s[t->n++] = *p;
        }
    }
    t->s[t->n] = 0;
}

static void make(struct ptx_text *t, const struct mistake *m, bool right)
{
    begin_kernel(t, m->directives ? m->directives : "");
    version(t, m->body, right);
    end_kernel(t);
}

/* A fresh context under a seed. */
static void restart(const char *seed, const char *checks)
{
    gpu_end(NULL);
    setenv("VGPU_SEED", seed, 1);
    setenv("VGPU_CHECKS", checks ? checks : "all", 1);
    assert_int_equal(gpu_begin(NULL), 0);
}

static CUresult run(const struct mistake *m, const char *ptx)
{
    static unsigned char in[65536], out[65536];
    struct hopper h = {.grid = m->grid, .block = m->block,
                       .cluster = m->cluster, .in = in, .nin = sizeof in,
                       .out = out, .nout = sizeof out};
    return hopper_run(&h, ptx);
}

/* Are all of the words, "a|b", in the report?  "||" separates alternatives:
 * what is found first may depend on the schedule. */
static bool has_words(const char *report, const char *words)
{
    char word[100];
    bool all = true;
    for (;;) {
        size_t n = strcspn(words, "|");
        snprintf(word, sizeof word, "%.*s", (int)n, words);
        all &= strstr(report, word) != NULL;
        words += n;
        if (!*words)
            return all;
        if (*++words == '|') {
            if (all)
                return true;
            all = true;
            words++;
        }
    }
}

static const char *const seeds[] = {"0", "1", "2", "77"};

static void test_mistake(void **state)
{
    const struct mistake *m = *state;
    static struct ptx_text t;
    for (size_t s = 0; s < sizeof seeds / sizeof *seeds; s++) {
        restart(seeds[s], m->checks);
        make(&t, m, true);
        CUresult r = run(m, t.s);
        if (r)
            fail_msg("the right kernel, seed %s: %s\n%s", seeds[s],
                     gpu_report(), t.s);
        restart(seeds[s], m->checks);
        make(&t, m, false);
        r = run(m, t.s);
        if (!r)
            fail_msg("the wrong kernel ran, seed %s\n%s", seeds[s], t.s);
        if (!has_words(gpu_report(), m->words))
            fail_msg("seed %s: not \"%s\" in\n%s", seeds[s], m->words,
                     gpu_report());
    }
    restart("0", NULL);
}

/* ---- warnings that are counted ------------------------------------------ */

static unsigned long counter(const char *name)
{
    char *json = vgpu_counters_json();
    char *at = strstr(json, "\"total\":"), key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    at = strstr(at, key);
    assert_non_null(at);
    unsigned long v = strtoul(at + strlen(key), NULL, 10);
    free(json);
    return v;
}

/* cp.async to wgmma without a proxy fence is what CUTLASS does: on request it
 * is no error. */
static void cp_async_to_wgmma_without_a_fence_counts(void **state)
{
    static const struct mistake m = {
        .body = COPY "cp.async.wait_all;\n[[" PROXY "]]" SYNC DESC GO MMA
                COMMIT WAIT};
    static struct ptx_text t;
    (void)state;
    restart("0", "all,-copies");
    for (int right = 0; right < 2; right++) {
        vgpu_counters_reset();
        make(&t, &m, right);
        assert_int_equal(run(&m, t.s), 0);
        /* 64 rows of A once, 8 of B by each of four warps, two pieces each */
        assert_int_equal(counter("unfenced_copy"),
                         right ? 0 : 64 * 2 + 8 * 2 * 4);
    }
    restart("0", NULL);
}

/* ---- boxes -------------------------------------------------------------- */

/* A box of 1 KiB at 128-byte steps is fine, at 64 it is not. */
static void a_box_begins_at_a_multiple_of_128(void **state)
{
    static _Alignas(64) unsigned char map[128];
    static unsigned char in[4096];
    static struct ptx_text t;
    const uint64_t dim[] = {1024};
    const uint32_t box[] = {256}, step[] = {1};
    (void)state;
    for (unsigned at = 64; at <= 128; at += 64) {
        struct hopper h = {.nin = 0};
        restart("0", NULL);
        h.pin = gpu_upload(in, sizeof in);
        gpu_ok(gpu.cuTensorMapEncodeTiled(map, 2, 1,
                                          (void *)(uintptr_t)h.pin, dim, dim,
                                          box, step, 0, 0, 0, 0));
        memcpy(h.map, map, sizeof map);
        begin_kernel(&t, "");
        emit_mbarrier(&t, 32768, 1);
        emit(&t, "bar.sync 0; mov.u32 %%r9, sm; add.u32 %%r9, %%r9, %u;\n"
                 "mov.u32 %%r20, 0;\n"
                 "@%%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r8],"
                 " 1024;\n@%%p1 cp.async.bulk.tensor.1d.shared::cluster"
                 ".global.mbarrier::complete_tx::bytes [%%r9],"
                 " [%%rd2, {%%r20}], [%%r8];\n", at);
        emit_wait(&t, "%r8", 0);
        end_kernel(&t);
        assert_int_equal(hopper_run(&h, t.s), at == 64 ? 716 : 0);
        if (at == 64)
            assert_non_null(strstr(gpu_report(), "no multiple of 128"));
    }
    restart("0", NULL);
}

/* ---- programmatic launches ---------------------------------------------- */

/* The first kernel writes out; the second, launched to overlap with it,
 * reads that before or after its griddepcontrol.wait. */
static void results_of_the_previous_grid(void **state)
{
    static struct ptx_text first, second;
    static uint32_t out[128];
    (void)state;
    for (int right = 0; right < 2; right++)
        for (int overlap = 0; overlap < 2; overlap++) {
            struct hopper a = {.out = out, .nout = sizeof out}, b;
            restart("0", NULL);
            begin_kernel(&first, "");
            emit(&first, "mul.wide.u32 %%rd5, %%r0, 4;\n"
                         "add.u64 %%rd5, %%rd5, %%rd1;\n"
                         "st.global.b32 [%%rd5], %%r0;\n"
                         "griddepcontrol.launch_dependents;\n");
            end_kernel(&first);
            begin_kernel(&second, "");
            emit(&second, "mul.wide.u32 %%rd5, %%r0, 4;\n"
                          "add.u64 %%rd5, %%rd5, %%rd1;\n%s"
                          "ld.global.b32 %%r4, [%%rd5];\n%s",
                 right ? "griddepcontrol.wait;\n" : "",
                 right ? "" : "griddepcontrol.wait;\n");
            end_kernel(&second);
            a.pin = gpu_upload(out, 16);
            a.pout = gpu_upload(out, sizeof out);
            b = a;
            b.programmatic = overlap;
            CUfunction f = gpu_function(gpu_load(first.s), "k");
            CUfunction g = gpu_function(gpu_load(second.s), "k");
            gpu_ok(hopper_launch(&a, f));
            CUresult r = hopper_launch(&b, g);
            assert_int_equal(r, !right && overlap ? 719 : 0);
            if (r)
                assert_non_null(strstr(gpu_report(),
                                       "before griddepcontrol.wait"));
        }
    restart("0", NULL);
}

int main(void)
{
    enum { N = sizeof mistakes / sizeof *mistakes };
    struct CMUnitTest tests[N + 3];
    if (gpu_begin(NULL) || gpu_end(NULL))
        return 1;
    if (!gpu.is_virtual || hopper_absent())
        return 0;
    for (int i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){mistakes[i].name, test_mistake,
                                       gpu_begin, gpu_end,
                                       (void *)&mistakes[i]};
    tests[N] = (struct CMUnitTest)cmocka_unit_test_setup_teardown(
        cp_async_to_wgmma_without_a_fence_counts, gpu_begin, gpu_end);
    tests[N + 1] = (struct CMUnitTest)cmocka_unit_test_setup_teardown(
        results_of_the_previous_grid, gpu_begin, gpu_end);
    tests[N + 2] = (struct CMUnitTest)cmocka_unit_test_setup_teardown(
        a_box_begins_at_a_multiple_of_128, gpu_begin, gpu_end);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
