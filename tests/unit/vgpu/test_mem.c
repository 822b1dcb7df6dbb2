/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory, and the checks of a kernel's accesses: bounds, alignment,
 * initialised bytes, permissions, generic windows.
 */
#include "bits.h"
#include "kernel.h"

#include <inttypes.h>
#include <pthread.h>

/* ---- bitmaps ------------------------------------------------------------ */

/* Every function against one bit at a time. */
static void bitmaps(void **state)
{
    unsigned char map[24], was[24];

    (void)state;
    for (unsigned off = 0; off < 40; off++)
        for (unsigned n = 0; n < 100; n++) {
            memset(map, 0, sizeof map);
            vg_bits_set(map, off, n);
            for (unsigned i = 0; i < 8 * sizeof map; i++)
                assert_int_equal(map[i / 8] >> i % 8 & 1,
                                 i >= off && i < off + n);
            assert_true(vg_bits_all(map, off, n));
            assert_int_equal(vg_bits_any(map, off, n), n > 0);
            assert_false(vg_bits_all(map, off, n + 1));
            assert_false(off > 0 && vg_bits_all(map, off - 1, n + 1));
            assert_int_equal(vg_bits_find_not(map, off, n + 1, true), off + n);
            memcpy(was, map, sizeof map);
            memset(map, 0, sizeof map);
            vg_bits_set_shared(map, off, n);
            assert_memory_equal(map, was, sizeof map);
            memset(map, 0xff, sizeof map);
            vg_bits_clear(map, off, n);
            for (unsigned i = 0; i < sizeof map; i++)
                assert_int_equal(map[i], 0xff & ~was[i]);
        }
}

/* ---- allocations -------------------------------------------------------- */

static uint64_t take(struct vg_mem *m, uint64_t n, unsigned flags,
                     const char *name)
{
    uint64_t a;

    assert_int_equal(vg_mem_alloc(m, n, flags, name, &a), VG_MEM_OK);
    return a;
}

static void addresses_are_aligned_apart_and_never_reused(void **state)
{
    struct vg_mem *m = vg_mem_new(1 << 20);
    uint64_t last = 0;

    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        uint64_t a = take(m, i * 37 + 1, 0, NULL);

        assert_int_equal(a % 256, 0);
        assert_int_equal(a % 512, 256);
        assert_true(a > last + (1 << 27));
        assert_int_equal(vg_mem_free(m, a), VG_MEM_OK);
        assert_int_equal(vg_mem_free(m, a), VG_MEM_INVALID);
        last = a;
    }
    vg_mem_delete(m);
}

static void capacity_is_kept(void **state)
{
    struct vg_mem *m = vg_mem_new(1000);
    uint64_t a, used, capacity;

    (void)state;
    assert_int_equal(vg_mem_alloc(m, 1001, 0, NULL, &a), VG_MEM_NOMEM);
    assert_int_equal(a, 0);
    assert_int_equal(vg_mem_alloc(m, 0, 0, NULL, &a), VG_MEM_INVALID);
    a = take(m, 600, 0, NULL);
    take(m, 400, 0, NULL);
    vg_mem_usage(m, &used, &capacity);
    assert_int_equal(used, 1000);
    assert_int_equal(capacity, 1000);
    assert_int_equal(vg_mem_free(m, a), VG_MEM_OK);
    take(m, 500, 0, NULL);
    assert_int_equal(vg_mem_alloc(m, UINT64_MAX, 0, NULL, &a), VG_MEM_NOMEM);
    vg_mem_delete(m);
}

/* Forty gigabytes; what is far apart does not meet. */
static void sparse_allocations(void **state)
{
    struct vg_mem *m = vg_mem_new(1000);
    uint64_t n = UINT64_C(40) << 30, a = take(m, n, VG_ALLOC_SPARSE, NULL);
    uint32_t x = 0x12345678, y = 0;

    (void)state;
    assert_int_equal(vg_mem_write(m, a + n - 4, &x, 4), VG_MEM_OK);
    assert_int_equal(vg_mem_read(m, &y, a + n - 4, 4), VG_MEM_OK);
    assert_int_equal(y, x);
    assert_int_equal(vg_mem_read(m, &y, a + (n >> 1), 4), VG_MEM_OK);
    assert_int_equal(y, 0);
    assert_true(vg_bits_all(vg_mem_find(m, a)->init, n - 4, 4));
    assert_false(vg_bits_any(vg_mem_find(m, a)->init, n >> 1, 4096));
    vg_mem_delete(m);
}

static void transfers_stay_inside(void **state)
{
    struct vg_mem *m = vg_mem_new(1 << 20);
    uint64_t a = take(m, 100, 0, NULL), b = take(m, 100, 0, NULL);
    char text[200] = "";

    (void)state;
    assert_int_equal(vg_mem_write(m, a, text, 100), VG_MEM_OK);
    assert_int_equal(vg_mem_write(m, a, text, 101), VG_MEM_INVALID);
    assert_int_equal(vg_mem_write(m, a - 1, text, 4), VG_MEM_INVALID);
    assert_int_equal(vg_mem_read(m, text, a + 99, 2), VG_MEM_INVALID);
    assert_int_equal(vg_mem_copy(m, b + 1, a, 100), VG_MEM_INVALID);
    assert_int_equal(vg_mem_copy(m, b, a + UINT64_MAX - 50, 60),
                     VG_MEM_INVALID);
    assert_int_equal(vg_mem_set(m, a, 0, 4, 26), VG_MEM_INVALID);
    assert_int_equal(vg_mem_set(m, a, 0, 4, UINT64_C(1) << 62),
                     VG_MEM_INVALID);
    assert_int_equal(vg_mem_free(m, a), VG_MEM_OK);
    assert_int_equal(vg_mem_read(m, text, a, 1), VG_MEM_INVALID);
    vg_mem_delete(m);
}

static void transfers_carry_marks(void **state)
{
    struct vg_mem *m = vg_mem_new(1 << 20);
    uint64_t a = take(m, 64, 0, NULL), b = take(m, 64, 0, NULL);
    const struct vg_alloc *x = vg_mem_find(m, a), *y = vg_mem_find(m, b);
    uint16_t v[4];

    (void)state;
    assert_int_equal(vg_mem_set(m, a + 8, 0xabcd1234, 2, 4), VG_MEM_OK);
    assert_int_equal(vg_mem_read(m, v, a + 8, 8), VG_MEM_OK);
    assert_int_equal(v[3], 0x1234);
    assert_true(vg_bits_all(x->init, 8, 8));
    assert_false(vg_bits_any(x->init, 0, 8));
    assert_false(vg_bits_any(x->init, 16, 48));
    assert_int_equal(vg_mem_set(m, b, 7, 1, 64), VG_MEM_OK);
    assert_int_equal(vg_mem_copy(m, b + 3, a + 4, 20), VG_MEM_OK);
    assert_false(vg_bits_any(y->init, 3, 4));
    assert_true(vg_bits_all(y->init, 7, 8));
    assert_false(vg_bits_any(y->init, 15, 8));
    assert_true(vg_bits_all(y->init, 23, 41));
    /* Overlapping, both ways. */
    assert_int_equal(vg_mem_copy(m, a + 9, a + 8, 9), VG_MEM_OK);
    assert_true(vg_bits_all(x->init, 8, 9));
    assert_false(vg_bits_any(x->init, 17, 1));
    assert_int_equal(vg_mem_copy(m, a + 6, a + 8, 8), VG_MEM_OK);
    assert_true(vg_bits_all(x->init, 6, 8));
    vg_mem_delete(m);
}

static void descriptions(void **state)
{
    struct vg_mem *m = vg_mem_new(1 << 20);
    uint64_t a = take(m, 100, 0, "first"), b = take(m, 50, 0, "second");
    char text[256];

    (void)state;
    vg_mem_describe(m, a + 98, 4, text, sizeof text);
    assert_non_null(strstr(text, "2 bytes beyond the end of first (100 bytes"));
    vg_mem_describe(m, b - 8, 4, text, sizeof text);
    assert_non_null(strstr(text, "8 bytes before the start of second"));
    vg_mem_describe(m, 4096, 4, text, sizeof text);
    assert_non_null(strstr(text, "no allocation is near"));
    assert_int_equal(vg_mem_free(m, a), VG_MEM_OK);
    vg_mem_describe(m, a + 16, 4, text, sizeof text);
    assert_non_null(strstr(text, "16 bytes into first"));
    assert_non_null(strstr(text, "freed"));
    vg_mem_delete(m);
}

/* Lookups run beside allocation. */
static void *look(void *arg)
{
    uint64_t *p = arg;
    struct vg_mem *m = (struct vg_mem *)(uintptr_t)p[0];

    for (unsigned i = 0; i < 20000; i++)
        if (!vg_mem_find(m, p[1] + i % 100))
            return m;
    return NULL;
}

static void lookups_beside_allocation(void **state)
{
    struct vg_mem *m = vg_mem_new(1 << 20);
    uint64_t arg[2] = {(uintptr_t)m, take(m, 100, 0, NULL)};
    pthread_t t;
    void *bad;

    (void)state;
    assert_int_equal(pthread_create(&t, NULL, look, arg), 0);
    for (unsigned i = 0; i < 300; i++)
        vg_mem_free(m, take(m, 64, 0, NULL));
    pthread_join(t, &bad);
    assert_null(bad);
    vg_mem_delete(m);
}

/* ---- a kernel's accesses ------------------------------------------------ */

/* %d0: in + 4 tid, %d1: out + 4 tid, %r0: sm + 4 tid */
#define WORD                                                                  \
    "shl.b32 %r0, %tid, 2; cvt.u64.u32 %d0, %r0; add.u64 %d1, %d0, %out;\n"   \
    "add.u64 %d0, %d0, %in; add.u32 %r0, %r0, %sm;\n"

#define faults(code_, body_, ...)                                             \
    kernel_run((struct kernel){.body = body_});                               \
    assert_fault(code_, __VA_ARGS__)

static void global_bounds(void **state)
{
    (void)state;
    /* Lane 31 reads the first word beyond the end. */
    faults(VG_ILLEGAL_ADDRESS,
           WORD "add.u64 %d0, %d0, 65412; ld.global.u32 %r1, [%d0];\n",
           "out-of-bounds read of 4 bytes", "4 bytes beyond the end of in "
           "(65536 bytes", "lane 31", "ld.global.u32");
    faults(VG_ILLEGAL_ADDRESS, WORD "st.global.u32 [%in+-4], %r0;\n",
           "out-of-bounds write", "4 bytes before the start of in", "lane 0");
    /* The first byte is inside, the last is not. */
    kernel_run((struct kernel){
        .body = "add.u64 %d0, %in, 65528;\n"
                "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%d0];\n",
        .checks = VG_CHECK_UNINIT});
    assert_fault(VG_ILLEGAL_ADDRESS, "8 bytes beyond the end");
    faults(VG_ILLEGAL_ADDRESS, "mov.u64 %d0, 0; ld.global.u32 %r0, [%d0];\n",
           "no allocation is near");
    faults(VG_ILLEGAL_ADDRESS, "mov.u64 %d0, 0; ld.u32 %r0, [%d0];\n",
           "global address 0x0");
    faults(VG_ILLEGAL_ADDRESS,
           "mov.u64 %d0, -4; atom.global.add.u32 %r0, [%d0], 1;\n",
           "atomic access");
}

/* A lane that the guard switches off may point anywhere. */
static void guarded_lanes_are_not_checked(void **state)
{
    (void)state;
    kernel_run((struct kernel){
        .body = WORD "setp.lt.u32 %p0, %tid, 5;\n"
                     "selp.b64 %d0, %d0, 3, %p0;\n"
                     "@%p0 ld.global.u32 %r1, [%d0];\n"
                     "@%p0 st.global.u32 [%d1], %r1;\n"});
    assert_ran();
    assert_int_equal(ran.out[4], 4);
    assert_int_equal(ran.out[5], 0);
}

static void alignment(void **state)
{
    (void)state;
    faults(VG_MISALIGNED, WORD "ld.global.u32 %r1, [%d0+2];\n",
           "misaligned read of 4 bytes", "global");
    faults(VG_MISALIGNED,
           WORD "ld.global.v2.u32 {%r1, %r2}, [%d0];\n", "misaligned read of "
           "8 bytes", "lane 1");
    faults(VG_MISALIGNED, WORD "st.shared.u64 [%r0], %d0;\n", "shared");
    faults(VG_MISALIGNED, "mov.u64 %d0, lm; st.local.u32 [%d0+1], %tid;\n",
           "local");
    kernel_run((struct kernel){
        .body = WORD "ld.global.u32 %r1, [%d0+2];\n"
                     "st.global.u32 [%d1], %r1;\n",
        .checks = VG_CHECK_UNINIT});
    assert_ran();
    assert_int_equal(ran.out[1], 0x20000);
}

static void uninitialised(void **state)
{
    (void)state;
    faults(VG_FAILED, WORD "ld.global.u32 %r1, [%d1];\n",
           "uninitialised global memory", "byte 0 of out");
    faults(VG_FAILED, WORD "ld.shared.u32 %r1, [%r0];\n",
           "uninitialised shared memory");
    faults(VG_FAILED, "ld.local.u32 %r1, [lm+8];\n",
           "uninitialised local memory");
    faults(VG_FAILED, WORD "atom.global.add.u32 %r1, [%d1], 1;\n",
           "uninitialised global");
    /* Three bytes of four were written. */
    faults(VG_FAILED,
           WORD "cvt.u16.u32 %h0, %tid; st.global.u16 [%d1], %h0;\n"
                "st.global.u8 [%d1+2], %h0; ld.global.u32 %r1, [%d1];\n",
           "byte 3 of out");
    kernel_run((struct kernel){
        .body = WORD "st.global.u32 [%d1], %tid; ld.global.u32 %r1, [%d1];\n"
                     "st.shared.u32 [%r0], %r1; ld.shared.u32 %r1, [%r0];\n"
                     "st.local.u32 [lm], %r1; ld.local.u32 %r1, [lm];\n"
                     "add.u32 %r1, %r1, 3; st.global.u32 [%d1], %r1;\n"});
    assert_ran();
    assert_int_equal(ran.out[31], 34);
    kernel_run((struct kernel){
        .body = WORD "ld.shared.u32 %r1, [%r0]; st.global.u32 [%d1], %r1;\n",
        .checks = VG_CHECK_ALL & ~VG_CHECK_UNINIT});
    assert_ran();
    assert_int_equal(ran.out[3], 0xffffffffu);
}

/* Blocks do not see what earlier blocks left in shared and local memory. */
static void memory_is_fresh_in_every_block(void **state)
{
    (void)state;
    kernel_run((struct kernel){
        .body = WORD "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p0, %r1, 0;\n"
                     "@%p0 st.shared.u32 [%r0], %tid;\n"
                     "ld.shared.u32 %r2, [%r0];\n",
        .blocks = 2});
    assert_fault(VG_FAILED, "uninitialised shared", "block (1,0,0)");
    kernel_run((struct kernel){
        .body = WORD "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p0, %r1, 0;\n"
                     "@%p0 st.local.u32 [lm], %tid;\n"
                     "ld.local.u32 %r2, [lm];\n",
        .blocks = 2});
    assert_fault(VG_FAILED, "uninitialised local", "block (1,0,0)");
}

static void shared_bounds(void **state)
{
    (void)state;
    faults(VG_ILLEGAL_ADDRESS, "st.shared.u32 [%sm+8192], %tid;\n",
           "out-of-bounds write of 4 bytes at shared address 0x2000",
           "4 bytes beyond the block's 8192 bytes");
    kernel_run((struct kernel){
        .body = "mov.u32 %r0, dyn; st.shared.u32 [%r0+60], %tid;\n",
        .dynamic = 64, .checks = VG_CHECK_ALIGN});
    assert_ran();
    kernel_run((struct kernel){
        .body = "mov.u32 %r0, dyn; st.shared.u32 [%r0+64], %tid;\n",
        .dynamic = 64, .checks = VG_CHECK_ALIGN});
    assert_fault(VG_ILLEGAL_ADDRESS, "beyond the block's 8256 bytes");
    faults(VG_ILLEGAL_ADDRESS, "st.local.u32 [lm+256], %tid;\n", "local");
    faults(VG_ILLEGAL_ADDRESS,
           "mov.u32 %r0, 0x3000010; ld.shared.u32 %r1, [%r0];\n",
           "names block 2 of a cluster of 1");
}

static void generic_addresses(void **state)
{
    (void)state;
    /* Even lanes read shared, odd lanes global memory, in one instruction. */
    kernel_run((struct kernel){
        .body = WORD "add.u32 %r1, %tid, 1000; st.shared.u32 [%r0], %r1;\n"
                     "cvt.u64.u32 %d2, %r0; cvta.shared.u64 %d2, %d2;\n"
                     "and.b32 %r2, %tid, 1; setp.eq.u32 %p0, %r2, 0;\n"
                     "selp.b64 %d3, %d2, %d0, %p0; ld.u32 %r3, [%d3];\n"
                     "cvta.global.u64 %d4, %d1; st.u32 [%d4], %r3;\n"});
    assert_ran();
    for (unsigned i = 0; i < 32; i++)
        assert_int_equal(ran.out[i], i % 2 ? i : i + 1000);
    kernel_run((struct kernel){
        .body = WORD "mov.u64 %d2, lm; cvta.local.u64 %d2, %d2;\n"
                     "st.u32 [%d2+4], %tid; ld.local.u32 %r1, [lm+4];\n"
                     "st.global.u32 [%d1], %r1;\n"});
    assert_ran();
    assert_int_equal(ran.out[17], 17);
    faults(VG_ILLEGAL_ADDRESS,
           "mov.b64 %d0, k_in; cvta.param.u64 %d0, %d0; st.u32 [%d0], %tid;\n",
           "kernel parameters");
    kernel_run((struct kernel){
        .body = WORD "mov.b64 %d2, k_in; cvta.param.u64 %d2, %d2;\n"
                     "ld.u64 %d3, [%d2]; sub.u64 %d3, %d3, %in;\n"
                     "st.global.u32 [%d1], %r0;\n"
                     "cvt.u32.u64 %r1, %d3; st.global.u32 [%d1], %r1;\n"});
    assert_ran();
    assert_int_equal(ran.out[9], 0);
}

static uint64_t const_place(void *ctx, const struct ptx_symbol *sym)
{
    (void)sym;
    return *(uint64_t *)ctx;
}

static void const_memory_is_read_only(void **state)
{
    static const char text[] =
        ".version 9.0\n.target sm_80\n.address_size 64\n"
        ".const .align 4 .b8 table[16] = {1, 2, 3, 4};\n"
        ".visible .entry k()\n{\n.reg .b32 %r<4>;\n.reg .b64 %d<4>;\n"
        "ld.const.u32 %r0, [table+4];\n"
        "mov.u64 %d0, table; cvta.const.u64 %d0, %d0;\n"
        "st.global.u32 [%d0], %r0;\nret;\n}\n";
    struct vg_mem *m = vg_mem_new(1 << 20);
    uint64_t at = take(m, 16, VG_ALLOC_READONLY | VG_ALLOC_INITED,
                       "variable table");
    struct vg_config c = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .threads = 1,
                          .checks = VG_CHECK_ALL, .sms = 1, .arch = 80,
                          .memory = m};
    char err[256];
    struct ptx_module *p = ptx_parse(text, strlen(text), err, sizeof err);
    struct vg_program *k;
    struct vg_result r;

    (void)state;
    assert_non_null(p);
    k = vg_compile(p, p->func[0], const_place, &at, err, sizeof err);
    assert_non_null(k);
    assert_int_equal(vg_launch(k, &c, &r), VG_ILLEGAL_ADDRESS);
    assert_non_null(strstr(r.report, "read-only memory variable table"));
    vg_result_free(&r);
    vg_program_free(k);
    ptx_free(p);
    vg_mem_delete(m);
}

/* ---- ld and st ---------------------------------------------------------- */

static void widths_and_extension(void **state)
{
    (void)state;
    kernel_run((struct kernel){
        .body = WORD
        "mov.u32 %r1, 0xfedc80ff; st.shared.u32 [%r0], %r1;\n"
        "ld.shared.s8 %r2, [%r0]; ld.shared.u8 %r3, [%r0];\n"
        "ld.shared.s16 %r4, [%r0]; ld.shared.u16 %r5, [%r0];\n"
        "ld.shared.s32 %d4, [%r0]; ld.shared.u32 %d5, [%r0];\n"
        "st.global.v4.b32 [%out], {%r2, %r3, %r4, %r5};\n"
        "st.global.v2.b64 [%out+16], {%d4, %d5};\n"
        "ld.shared.v2.u16 {%h0, %h1}, [%r0]; mov.b32 %r6, {%h1, %h0};\n"
        "st.global.u32 [%out+32], %r6;\n"
        "ld.shared.v4.u8 {%h0, %h1, %h2, %h3}, [%r0];\n"
        "st.global.v4.u8 [%out+36], {%h3, %h2, %h1, %h0};\n"
        "st.global.u8 [%out+40], %h1;\n"
        "st.global.v2.f32 [%out+48], {0f3F800000, 0f40000000};\n"
        "st.global.u32 [%out+56], 5; st.global.u16 [%out+60], %r1;\n",
        .threads = 1});
    assert_ran();
    assert_int_equal(ran.out[0], 0xffffffffu);
    assert_int_equal(ran.out[1], 0xff);
    assert_int_equal(ran.out[2], 0xffff80ffu);
    assert_int_equal(ran.out[3], 0x80ff);
    assert_int_equal(ran.out[4], 0xfedc80ffu);
    assert_int_equal(ran.out[5], 0xffffffffu);
    assert_int_equal(ran.out[6], 0xfedc80ffu);
    assert_int_equal(ran.out[7], 0);
    assert_int_equal(ran.out[8], 0x80fffedcu);
    assert_int_equal(ran.out[9], 0xff80dcfeu);
    assert_int_equal(ran.out[10] & 0xff, 0x80);
    assert_int_equal(ran.out[12], 0x3f800000);
    assert_int_equal(ran.out[13], 0x40000000);
    assert_int_equal(ran.out[14], 5);
    assert_int_equal(ran.out[15] & 0xffff, 0x80ff);
}

/* The address register may be a destination, and _ stands for nothing. */
static void vectors(void **state)
{
    (void)state;
    kernel_run((struct kernel){
        .body = WORD
        "shl.b32 %r1, %tid, 4; cvt.u64.u32 %d2, %r1;\n"
        "add.u64 %d3, %d2, %out; add.u64 %d2, %d2, %in;\n"
        "ld.global.nc.L1::no_allocate.L2::128B.v2.u64 {%d2, %d4}, [%d2];\n"
        "st.global.L1::evict_last.v2.u64 [%d3], {%d4, %d2};\n"});
    assert_ran();
    for (unsigned i = 0; i < 32; i++) {
        assert_int_equal(ran.out[4 * i], 4 * i + 2);
        assert_int_equal(ran.out[4 * i + 1], 4 * i + 3);
        assert_int_equal(ran.out[4 * i + 2], 4 * i);
        assert_int_equal(ran.out[4 * i + 3], 4 * i + 1);
    }
    kernel_run((struct kernel){
        .body = WORD "ld.global.v4.u32 {_, %r1, _, %r2}, [%in];\n"
                     "add.u32 %r1, %r1, %r2; st.global.u32 [%d1], %r1;\n"});
    assert_ran();
    assert_int_equal(ran.out[8], 4);
    /* 256-bit loads of sm_100. */
    kernel_run((struct kernel){
        .body = "ld.global.v8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, "
                "[%in+32]; st.global.v4.b64 [%out], {%d0, %d0, %d0, %d0};\n"
                "st.global.v8.b32 [%out+32], "
                "{%r7, %r6, %r5, %r4, %r3, %r2, %r1, %r0};\n",
        .threads = 1, .arch = 100});
    assert_ran();
    assert_int_equal(ran.out[8], 15);
    assert_int_equal(ran.out[15], 8);
}

static void check_names(void **state)
{
    char err[256];
    unsigned c;

    (void)state;
    assert_int_equal(vg_checks_parse("all", &c, err, sizeof err), 0);
    assert_int_equal(c, VG_CHECK_ALL);
    assert_int_equal(vg_checks_parse("none", &c, err, sizeof err), 0);
    assert_int_equal(c, 0);
    assert_int_equal(vg_checks_parse("race,uninit", &c, err, sizeof err), 0);
    assert_int_equal(c, VG_CHECK_RACE | VG_CHECK_UNINIT);
    assert_int_equal(vg_checks_parse("all,-race", &c, err, sizeof err), 0);
    assert_int_equal(c, VG_CHECK_ALL & ~VG_CHECK_RACE);
    assert_int_equal(vg_checks_parse("race,typo", &c, err, sizeof err), -1);
    assert_int_equal(c, 0);
    assert_non_null(strstr(err, "\"typo\""));
    assert_non_null(strstr(err, "uninit"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bitmaps),
        cmocka_unit_test(addresses_are_aligned_apart_and_never_reused),
        cmocka_unit_test(capacity_is_kept),
        cmocka_unit_test(sparse_allocations),
        cmocka_unit_test(transfers_stay_inside),
        cmocka_unit_test(transfers_carry_marks),
        cmocka_unit_test(descriptions),
        cmocka_unit_test(lookups_beside_allocation),
        cmocka_unit_test(global_bounds),
        cmocka_unit_test(guarded_lanes_are_not_checked),
        cmocka_unit_test(alignment),
        cmocka_unit_test(uninitialised),
        cmocka_unit_test(memory_is_fresh_in_every_block),
        cmocka_unit_test(shared_bounds),
        cmocka_unit_test(generic_addresses),
        cmocka_unit_test(const_memory_is_read_only),
        cmocka_unit_test(widths_and_extension),
        cmocka_unit_test(vectors),
        cmocka_unit_test(check_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
