/* SPDX-License-Identifier: Apache-2.0
 *
 * test_isa_mem.c: loads and stores of every width, vector and state space,
 * address conversion, cp.async, ldmatrix and stmatrix (PTX ISA 9.7.9,
 * 9.7.14.5.15 and .16), against plain C on the same bytes.
 */
#include "gpu.h"

enum { BYTES = 1 << 16 };
static unsigned char in[BYTES], out[BYTES];

static void randomise(void)
{
    uint32_t v = 12345;
    for (int i = 0; i < BYTES; i++) {
        v = v * 1664525u + 1013904223u;
        in[i] = (unsigned char)(v >> 24);
    }
    memset(out, 0xcd, sizeof out);
}

static void run(const char *ptx, unsigned blocks, unsigned threads)
{
    struct gpu_grid g = {{blocks, 1, 1}, {threads, 1, 1}, 0};
    CUresult r = gpu_run(ptx, &g, in, sizeof in, out, sizeof out);
    if (r)
        fail_msg("error %d: %s\n%s", r, gpu_report(), ptx);
}

/* --- ld and st of every type --------------------------------------------- */

/* A load of n elements into registers of `reg` bits, and what the type makes
 * of the element. */
struct load {
    const char *type;
    int bytes, reg, n;
    bool is_signed;
};
static const struct load loads[] = {
    {"u8", 1, 16, 1, false},  {"s8", 1, 16, 1, true},
    {"u8", 1, 32, 1, false},  {"s8", 1, 32, 1, true},
    {"b8", 1, 16, 1, false},  {"s8", 1, 64, 1, true},
    {"u8", 1, 16, 2, false},  {"u8", 1, 16, 4, false},
    {"u16", 2, 16, 1, false}, {"s16", 2, 32, 1, true},
    {"u16", 2, 32, 1, false}, {"s16", 2, 64, 1, true},
    {"b16", 2, 16, 2, false}, {"u16", 2, 16, 4, false},
    {"u32", 4, 32, 1, false}, {"s32", 4, 32, 1, true},
    {"b32", 4, 32, 1, false}, {"f32", 4, 32, 1, false},
    {"u32", 4, 64, 1, false}, {"s32", 4, 64, 1, true},
    {"u32", 4, 32, 2, false}, {"f32", 4, 32, 4, false},
    {"b32", 4, 32, 4, false}, {"s32", 4, 32, 4, true},
    {"u64", 8, 64, 1, false}, {"f64", 8, 64, 1, false},
    {"b64", 8, 64, 2, false},
};

/* "{%x0, %x1}" or "%x0". */
static int name_registers(char *to, size_t room, int n)
{
    int k = snprintf(to, room, n > 1 ? "{%%x0" : "%%x0");
    for (int i = 1; i < n; i++)
        k += snprintf(to + k, room - (size_t)k, ", %%x%d", i);
    return k + snprintf(to + k, room - (size_t)k, n > 1 ? "}" : "");
}

/* The kernel loads its elements by `ld` (with the type behind it) from
 * [src], and stores each register whole, 8 bytes apart. */
static void build(char *ptx, size_t room, const struct load *l,
                  const char *before, const char *ld)
{
    char regs[64], vec[16] = "";
    int n;
    name_registers(regs, sizeof regs, l->n);
    if (l->n > 1)
        snprintf(vec, sizeof vec, ".v%d", l->n);
    n = snprintf(ptx, room,
                 "%s.reg .b%d %%x<4>; .reg .b64 src, w;\n"
                 "mul.wide.u32 src, %%r1, 32; add.u64 src, in, src;\n%s\n"
                 "%s%s.%s %s, [src];\n",
                 GPU_HEAD("sm_80") GPU_KERNEL(32), l->reg, before, ld, vec,
                 l->type, regs);
    for (int i = 0; i < l->n; i++)
        n += snprintf(ptx + n, room - (size_t)n,
                      "%s w, %%x%d; "
                      "st.global.u64 [out+%d], w;\n",
                      l->reg == 64   ? "mov.b64"
                      : l->reg == 32 ? "cvt.u64.u32"
                                     : "cvt.u64.u16",
                      i, 8 * i);
    snprintf(ptx + n, room - (size_t)n, "ret; }");
}

static void check_load(const struct load *l, const char *ptx)
{
    for (int t = 0; t < 64; t++) {
        for (int i = 0; i < l->n; i++) {
            uint64_t want = 0, got;
            memcpy(&want, in + 32 * t + l->bytes * i, (size_t)l->bytes);
            int up = 64 - 8 * l->bytes, down = 64 - l->reg;
            if (l->is_signed && l->bytes < 8)
                want = (uint64_t)((int64_t)(want << up) >> up);
            want = want << down >> down;
            memcpy(&got, out + 32 * t + 8 * i, 8);
            if (got != want)
                fail_msg("thread %d element %d: 0x%llx, expected 0x%llx\n%s",
                         t, i, (unsigned long long)got,
                         (unsigned long long)want, ptx);
        }
    }
}

static void load_everything(const char *before, const char *ld)
{
    char ptx[3000];
    randomise();
    for (size_t k = 0; k < sizeof loads / sizeof *loads; k++) {
        build(ptx, sizeof ptx, &loads[k], before, ld);
        run(ptx, 1, 64);
        check_load(&loads[k], ptx);
    }
}

static void global_loads_extend_as_typed(void **state)
{
    (void)state;
    load_everything("", "ld.global");
    load_everything("", "ld.global.nc.L1::no_allocate.L2::128B");
    load_everything("cvta.to.global.u64 src, src;", "ld");
}

/* First the thread's 32 bytes go to the space, by two 16-byte stores. */
#define COPY_TO(space)                                                        \
    "{ .reg .b32 c<4>; ld.global.v4.b32 {c0,c1,c2,c3}, [src];\n"              \
    "st." space ".v4.b32 [src2], {c0,c1,c2,c3};\n"                            \
    "ld.global.v4.b32 {c0,c1,c2,c3}, [src+16];\n"                             \
    "st." space ".v4.b32 [src2+16], {c0,c1,c2,c3}; }\n"

static void shared_loads_extend_as_typed(void **state)
{
    (void)state;
    static const char before[] =
        ".shared .align 16 .b8 s[2048]; .reg .b64 src2;\n"
        "mov.u64 src2, s; { .reg .b64 o; mul.wide.u32 o, %r0, 32; "
        "add.u64 src2, src2, o; }\n" COPY_TO("shared") "mov.u64 src, src2;";
    load_everything(before, "ld.shared");
    load_everything(before, "ld.volatile.shared");
    char generic[1200];
    snprintf(generic, sizeof generic, "%s cvta.shared.u64 src, src;", before);
    load_everything(generic, "ld");
}

static void local_loads_extend_as_typed(void **state)
{
    (void)state;
    static const char before[] =
        ".local .align 16 .b8 s[48]; .reg .b64 src2;\n"
        "mov.u64 src2, s; add.u64 src2, src2, 16;\n" COPY_TO(
            "local") "mov.u64 src, src2;";
    load_everything(before, "ld.local");
    char generic[1200];
    snprintf(generic, sizeof generic, "%s cvta.local.u64 src, src;", before);
    load_everything(generic, "ld");
}

static void strong_loads_and_stores_work(void **state)
{
    (void)state;
    static const char *const pair[][2] = {
        {"ld.relaxed.gpu.global", "st.relaxed.gpu.global"},
        {"ld.acquire.gpu.global", "st.release.gpu.global"},
        {"ld.acquire.sys.global", "st.release.sys.global"},
        {"ld.volatile.global", "st.volatile.global"},
        {"ld.global.cg", "st.global.cg"},
        {"ld.global.cv", "st.global.wt"},
        {"ld.global.ca", "st.global.wb"},
        {"ld.global.cs", "st.global.cs"},
        {"ld.global.L1::evict_last", "st.global.L1::no_allocate"},
        {"ldu.global", "st.weak.global"},
    };
    for (size_t k = 0; k < sizeof pair / sizeof *pair; k++) {
        char ptx[2000];
        randomise();
        snprintf(ptx, sizeof ptx,
                 "%smul.wide.u32 %%rd1, %%r1, 4; "
                 "add.u64 %%rd1, in, %%rd1;\n%s.u32 %%r3, [%%rd1];\n"
                 "%s.u32 [out], %%r3; ret; }",
                 GPU_HEAD("sm_80") GPU_KERNEL(4), pair[k][0], pair[k][1]);
        run(ptx, 2, 64);
        assert_memory_equal(in, out, 512);
    }
}

static void stores_write_their_width_only(void **state)
{
    (void)state;
    static const struct {
        const char *st;
        int bytes;
    } row[] = {{"st.global.u8 [out+5], %r3;", 1},
               {"st.global.b8 [out+5], %h1;", 1},
               {"st.global.u16 [out+6], %h1;", 2},
               {"st.global.b32 [out+8], %r3;", 4},
               {"st.global.b64 [out+16], %rd1;", 8},
               {"st.global.v2.u8 [out+2], {%h1, %h1};", 2},
               {"st.global.v4.u8 [out+4], {%h1, %h1, %h1, %h1};", 4},
               {"st.global.v4.u16 [out+8], {%h1, %h1, %h1, %h1};", 8},
               {"st.global.v2.f64 [out+16], {%rd1, %rd1};", 16},
               {"st.global.v4.f32 [out+16], {%f1, %r3, %f1, %r3};", 16},
               {"st.u32 [out+12], %r3;", 4}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        char ptx[2000];
        int written = 0;
        memset(out, 0xcd, sizeof out);
        snprintf(ptx, sizeof ptx,
                 "%smov.b32 %%r3, 0; mov.b16 %%h1, 0; "
                 "mov.b64 %%rd1, 0; mov.f32 %%f1, 0f00000000;\n%s ret; }",
                 GPU_HEAD("sm_80") GPU_KERNEL(32), row[k].st);
        run(ptx, 1, 1);
        for (int i = 0; i < 64; i++)
            written += out[i] != 0xcd;
        assert_int_equal(written, row[k].bytes);
    }
}

static void constants_and_parameters_are_read(void **state)
{
    (void)state;
    static const char ptx[] = GPU_HEAD(
        "sm_80") ".const .align 4 .b32 table[4] = {11, 22, 33, 44};\n"
                 ".const .align 8 .u64 where[1] = {generic(table)};\n"
                 ".visible .entry k(.param .align 8 .b8 s[24])\n"
                 "{ .reg .b32 %r<9>; .reg .b16 %h<4>; .reg .b64 %rd<5>;\n"
                 "ld.param.u64 %rd1, [s+8]; ld.param.u32 %r1, [s];\n"
                 "ld.param.s8 %r2, [s+4]; ld.param.v2.u8 {%h1, %h2}, [s+6];\n"
                 "mov.b64 %rd2, s; cvta.param.u64 %rd3, %rd2; ld.u32 %r3, "
                 "[%rd3+16];\n"
                 "cvt.u32.u16 %r4, %h2; shl.b32 %r5, %r1, 2;\n"
                 "cvt.u64.u32 %rd2, %r5;\n"
                 "mov.u64 %rd4, table; add.u64 %rd4, %rd4, %rd2;\n"
                 "ld.const.u32 %r7, [%rd4]; ld.const.u64 %rd4, [where];\n"
                 "ld.u32 %r8, [%rd4+4]; st.global.v4.u32 [%rd1], "
                 "{%r2,%r3,%r4,%r7};\n"
                 "st.global.u32 [%rd1+16], %r8; ret; }";
    struct {
        uint32_t index;
        int8_t minus, pad;
        uint8_t pair[2];
        CUdeviceptr out;
        uint32_t last, rest;
    } s = {2, -5, 0, {7, 9}, 0, 123456, 0};
    int32_t got[5];
    CUfunction f = gpu_function(gpu_load(ptx), "k");
    gpu_ok(gpu.cuMemAlloc_v2(&s.out, sizeof got));
    void *param[] = {&s};
    gpu_ok(gpu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, param, NULL));
    gpu_ok(gpu.cuMemcpyDtoH_v2(got, s.out, sizeof got));
    assert_int_equal(got[0], -5);
    assert_int_equal(got[1], 123456);
    assert_int_equal(got[2], 9);
    assert_int_equal(got[3], 33);
    assert_int_equal(got[4], 22);
}

/* isspacep and cvta there and back, for an address in each space. */
static void generic_addresses_know_their_space(void **state)
{
    (void)state;
    uint32_t got[8];
    memset(out, 0, sizeof out);
    run(GPU_HEAD("sm_80") ".const .b32 c = 3;\n" GPU_KERNEL(
            32) ".shared .align 8 .b8 s[16]; .local .align 8 .b8 l[16];\n"
                ".reg .b64 g<4>; mov.b64 g0, in; cvta.shared.u64 g1, 8;\n"
                "mov.u64 g2, l; cvta.local.u64 g2, g2; cvta.to.shared.u64 "
                "%rd1, g1;\n"
                "mov.u32 %r7, 0;\n"
                "isspacep.global %p0, g0; isspacep.shared %p1, g1;\n"
                "isspacep.local %p2, g2; isspacep.global %p3, g1;\n"
                "isspacep.shared %p4, g2; isspacep.const %p5, g0;\n"
                "isspacep.local %p6, g0; cvt.u32.u64 %r5, %rd1;\n"
                "selp.u32 %r3, 1, 0, %p0; selp.u32 %r4, 2, 0, %p1; or.b32 "
                "%r3,%r3,%r4;"
                "selp.u32 %r4, 4, 0, %p2; or.b32 %r3, %r3, %r4;\n"
                "selp.u32 %r4, 8, 0, %p3; or.b32 %r3, %r3, %r4;\n"
                "selp.u32 %r4, 16, 0, %p4; or.b32 %r3, %r3, %r4;\n"
                "selp.u32 %r4, 32, 0, %p5; or.b32 %r3, %r3, %r4;\n"
                "selp.u32 %r4, 64, 0, %p6; or.b32 %r3, %r3, %r4;\n"
                "st.global.v2.u32 [out], {%r3, %r5}; ret; }",
        1, 1);
    memcpy(got, out, sizeof got);
    assert_int_equal(got[0], 7);
    assert_int_equal(got[1], 8);
}

/* After discard the bytes may be anything until they are written again. */
static void discarded_bytes_can_be_written_again(void **state)
{
    (void)state;
    uint32_t got[32];
    memset(out, 0, sizeof out);
    run(GPU_HEAD("sm_80") GPU_KERNEL(
            4) "setp.eq.u32 %p1, %r0, 0; @%p1 discard.global.L2 [out], 128;\n"
               "bar.sync 0; add.u32 %r3, %r0, 7; st.global.u32 [out], %r3; "
               "ret; }",
        1, 32);
    memcpy(got, out, sizeof got);
    for (unsigned i = 0; i < 32; i++)
        assert_int_equal(got[i], i + 7);
}

/* --- cp.async ------------------------------------------------------------ */

/* 32 threads copy 16 bytes each by `copy` from in + 16 t to s + 16 t, which
 * holds 0xaa before; the result is s. */
static void copy_by(const char *copy)
{
    char ptx[3000];
    randomise();
    snprintf(ptx, sizeof ptx,
             "%s.shared .align 128 .b8 s[512];\n"
             "mov.u32 %%r3, s; shl.b32 %%r4, %%r0, 4; add.u32 %%r3,%%r3,%%r4;"
             "mul.wide.u32 %%rd1, %%r0, 16; add.u64 %%rd1, in, %%rd1;\n"
             "mov.b32 %%r5, 0xaaaaaaaa; "
             "st.shared.v4.b32 [%%r3], {%%r5,%%r5,%%r5,%%r5};\n"
             "and.b32 %%r6, %%r0, 15; setp.ge.u32 %%p1, %%r0, 16;\n%s\n"
             "cp.async.commit_group; cp.async.wait_group 0;\n"
             "ld.shared.v4.b32 {%%r5,%%r6,%%r7,%%r8}, [%%r3];\n"
             "st.global.v4.b32 [out], {%%r5,%%r6,%%r7,%%r8}; ret; }",
             GPU_HEAD("sm_80") GPU_KERNEL(16), copy);
    run(ptx, 1, 32);
}

/* Byte i of the copy: below `filled` from the source, below `size` zero. */
static void check_copy(int t, int size, int filled)
{
    for (int i = 0; i < 16; i++) {
        int want = i < filled ? in[16 * t + i] : i < size ? 0 : 0xaa;
        if (out[16 * t + i] != want)
            fail_msg("thread %d byte %d: 0x%x, expected 0x%x", t, i,
                     out[16 * t + i], want);
    }
}

static void asynchronous_copies_have_their_size(void **state)
{
    (void)state;
    static const struct {
        const char *copy;
        int size;
    } row[] = {
        {"cp.async.ca.shared.global [%r3], [%rd1], 4;", 4},
        {"cp.async.ca.shared.global [%r3], [%rd1], 8;", 8},
        {"cp.async.ca.shared.global [%r3], [%rd1], 16;", 16},
        {"cp.async.cg.shared.global [%r3], [%rd1], 16;", 16},
        {"cp.async.cg.shared::cta.global.L2::128B [%r3], [%rd1], 16;", 16},
        {"cp.async.cg.shared.global [%r3], [%rd1], 16, 16;", 16},
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        copy_by(row[k].copy);
        for (int t = 0; t < 32; t++)
            check_copy(t, row[k].size, row[k].size);
    }
}

static void short_sources_are_filled_with_zeros(void **state)
{
    (void)state;
    copy_by("cp.async.cg.shared.global [%r3], [%rd1], 16, %r6;");
    for (int t = 0; t < 32; t++)
        check_copy(t, 16, t & 15);
    copy_by("and.b32 %r6, %r6, 3; "
            "cp.async.ca.shared.global [%r3], [%rd1], 4, %r6;");
    for (int t = 0; t < 32; t++)
        check_copy(t, 4, t & 3);
    copy_by("cp.async.cg.shared.global [%r3], [%rd1], 16, %p1;");
    for (int t = 0; t < 32; t++)
        check_copy(t, 16, t >= 16 ? 0 : 16);
}

/* A source of size 0 is not touched, so its address may be anything. */
static void an_empty_source_is_not_touched(void **state)
{
    (void)state;
    copy_by("mov.u64 %rd1, 64; mov.u32 %r6, 0; "
            "cp.async.cg.shared.global [%r3], [%rd1], 16, %r6;");
    for (int t = 0; t < 32; t++)
        check_copy(t, 16, 0);
}

/* Two groups: after wait_group 1 the older one is there. */
static void groups_complete_in_order(void **state)
{
    (void)state;
    randomise();
    run(GPU_HEAD("sm_80") GPU_KERNEL(
            16) ".shared .align 16 .b8 s[1024];\nmov.u32 %r3, s;\n"
                "shl.b32 %r4, %r0, 4; add.u32 %r3, %r3, %r4;\n"
                "mul.wide.u32 %rd1, %r0, 16; add.u64 %rd1, in, %rd1;\n"
                "cp.async.cg.shared.global [%r3], [%rd1], 16;\n"
                "cp.async.commit_group;\n"
                "cp.async.cg.shared.global [%r3+512], [%rd1+512], 16;\n"
                "cp.async.commit_group; cp.async.wait_group 1;\n"
                "ld.shared.v4.b32 {%r5,%r6,%r7,%r8}, [%r3]; "
                "cp.async.wait_all;\n"
                "ld.shared.v4.b32 {%r9,%r10,%r11,%r12}, [%r3+512];\n"
                "st.global.v4.b32 [out], {%r5,%r6,%r7,%r8};\n"
                "st.global.v4.b32 [out+512], {%r9,%r10,%r11,%r12}; ret; }",
        1, 32);
    assert_memory_equal(in, out, 1024);
}

/* --- ldmatrix, stmatrix -------------------------------------------------- */

/* s[row r of matrix j] = in + 16 (8 j + r), rows scattered over s. */
#define SCATTER                                                               \
    ".shared .align 16 .b8 s[2048];\nmov.u32 %r3, s;\n"                       \
    "mul.lo.u32 %r4, %r0, 13; and.b32 %r4, %r4, 31; mul.lo.u32 %r4, %r4, 48;" \
    "add.u32 %r3, %r3, %r4; mul.wide.u32 %rd1, %r0, 16;\n"                    \
    "add.u64 %rd1, in, %rd1;\n"

/* 16-bit element (row, column) of matrix j in the input. */
static unsigned element(int j, int row, int column)
{
    uint16_t v;
    memcpy(&v, in + 16 * (8 * j + row) + 2 * column, 2);
    return v;
}

/* Register j of lane l (ISA 9.7.14.5.15): row l/4, columns 2(l%4) and the
 * next; transposed: column l/4, rows 2(l%4) and the next. */
static void check_matrix(int n, bool trans)
{
    for (int l = 0; l < 32; l++) {
        for (int j = 0; j < n; j++) {
            int g = l / 4, q = 2 * (l % 4);
            uint32_t got,
                want = trans ? element(j, q, g) | element(j, q + 1, g) << 16
                             : element(j, g, q) | element(j, g, q + 1) << 16;
            memcpy(&got, out + 16 * l + 4 * j, 4);
            if (got != want)
                fail_msg("x%d%s lane %d register %d: 0x%x, expected 0x%x", n,
                         trans ? ".trans" : "", l, j, got, want);
        }
    }
}

static void ldmatrix_distributes_rows(void **state)
{
    (void)state;
    static const struct {
        const char *op, *regs;
        int n;
        bool trans;
    } row[] = {
        {"ldmatrix.sync.aligned.m8n8.x1.shared.b16", "{%r5}", 1, false},
        {"ldmatrix.sync.aligned.m8n8.x2.shared.b16", "{%r5,%r6}", 2, false},
        {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", "{%r5,%r6,%r7,%r8}", 4,
         false},
        {"ldmatrix.sync.aligned.x4.m8n8.shared.b16", "{%r5,%r6,%r7,%r8}", 4,
         false},
        {"ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16", "{%r5}", 1, true},
        {"ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16", "{%r5,%r6}", 2,
         true},
        {"ldmatrix.sync.aligned.trans.m8n8.x4.shared.b16", "{%r5,%r6,%r7,%r8}",
         4, true},
        {"cvt.u64.u32 %rd2, %r3; cvta.shared.u64 %rd2, %rd2; "
         "ldmatrix.sync.aligned.m8n8.x4.b16",
         "{%r5,%r6,%r7,%r8}", 4, false},
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        char ptx[3000];
        bool generic = row[k].op[0] == 'c';
        randomise();
        snprintf(ptx, sizeof ptx,
                 "%s%sld.global.v4.b32 {%%r5,%%r6,%%r7,%%r8},"
                 " [%%rd1]; st.shared.v4.b32 [%%r3], {%%r5,%%r6,%%r7,%%r8};\n"
                 "bar.warp.sync -1;\n%s %s, [%s];\n"
                 "st.global.v4.b32 [out], {%%r5,%%r6,%%r7,%%r8}; ret; }",
                 GPU_HEAD("sm_80") GPU_KERNEL(16), SCATTER, row[k].op,
                 row[k].regs, generic ? "%rd2" : "%r3");
        run(ptx, 1, 32);
        check_matrix(row[k].n, row[k].trans);
    }
}

/* stmatrix is the inverse: what ldmatrix would read back. */
static void stmatrix_collects_rows(void **state)
{
    (void)state;
    static const struct {
        const char *op, *regs;
        int n;
        bool trans;
    } row[] = {
        {"stmatrix.sync.aligned.m8n8.x1.shared.b16", "{%r5}", 1, false},
        {"stmatrix.sync.aligned.m8n8.x2.shared.b16", "{%r5,%r6}", 2, false},
        {"stmatrix.sync.aligned.x4.m8n8.shared.b16", "{%r5,%r6,%r7,%r8}", 4,
         false},
        {"stmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16",
         "{%r5,%r6,%r7,%r8}", 4, true},
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        char ptx[3000];
        randomise();
        snprintf(ptx, sizeof ptx,
                 "%s%sld.global.v4.b32 {%%r5,%%r6,%%r7,%%r8},"
                 " [%%rd1]; mov.b32 %%r9, 0;\n"
                 "st.shared.v4.b32 [%%r3], {%%r9,%%r9,%%r9,%%r9};\n"
                 "bar.warp.sync -1;\n%s [%%r3], %s;\nbar.warp.sync -1;\n"
                 "ld.shared.v4.b32 {%%r5,%%r6,%%r7,%%r8}, [%%r3];\n"
                 "st.global.v4.b32 [out], {%%r5,%%r6,%%r7,%%r8}; ret; }",
                 GPU_HEAD("sm_90") GPU_KERNEL(16), SCATTER, row[k].op,
                 row[k].regs);
        run(ptx, 1, 32);
        for (int l = 0; l < 32; l++) {
            for (int c = 0; c < 8; c++) {
                /* Row l % 8 of matrix l / 8 is in lane l's row of s. */
                int j = l / 8, r = row[k].trans ? c : l % 8;
                int col = row[k].trans ? l % 8 : c;
                uint16_t got, want = 0;
                memcpy(&got, out + 16 * l + 2 * c, 2);
                if (j < row[k].n)
                    memcpy(&want,
                           in + 16 * (4 * r + col / 2) + 4 * j + 2 * (col & 1),
                           2);
                if (got != want)
                    fail_msg("%s row %d column %d: 0x%x, expected 0x%x",
                             row[k].op, l, c, got, want);
            }
        }
    }
}

/* --- what must fail ------------------------------------------------------ */

static CUresult error_of(const char *body)
{
    char ptx[2000];
    struct gpu_grid g = {{1, 1, 1}, {32, 1, 1}, 0};
    snprintf(ptx, sizeof ptx, "%s.shared .align 16 .b8 s[256];\n%s ret; }",
             GPU_HEAD("sm_80") GPU_KERNEL(16), body);
    CUresult r = gpu_run(ptx, &g, in, sizeof in, out, sizeof out);
    gpu_ok(gpu_discard());
    assert_int_equal(gpu_begin(NULL), 0);
    return r;
}

static void bad_addresses_have_the_gpus_errors(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        CUresult error;
    } row[] = {
        {"mov.u64 %rd1, 0; ld.global.u32 %r3, [%rd1];",
         CUDA_ERROR_ILLEGAL_ADDRESS},
        {"st.global.u32 [out+1048576000], %r0;", CUDA_ERROR_ILLEGAL_ADDRESS},
        {"mov.u32 %r3, 1048576; ld.shared.u32 %r3, [%r3];",
         CUDA_ERROR_ILLEGAL_ADDRESS},
        {"st.global.u32 [out+2], %r0;", CUDA_ERROR_MISALIGNED_ADDRESS},
        {"ld.global.v4.u32 {%r3,%r4,%r5,%r6}, [in+8];",
         CUDA_ERROR_MISALIGNED_ADDRESS},
        {"cp.async.cg.shared.global [s], [in+4], 16; cp.async.wait_all;",
         CUDA_ERROR_MISALIGNED_ADDRESS},
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        CUresult r = error_of(row[k].body);
        if (r != row[k].error)
            fail_msg("%s gives %d, expected %d", row[k].body, r, row[k].error);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, gpu_begin, gpu_end)
    const struct CMUnitTest tests[] = {
        TEST(global_loads_extend_as_typed),
        TEST(shared_loads_extend_as_typed),
        TEST(local_loads_extend_as_typed),
        TEST(strong_loads_and_stores_work),
        TEST(stores_write_their_width_only),
        TEST(constants_and_parameters_are_read),
        TEST(generic_addresses_know_their_space),
        TEST(discarded_bytes_can_be_written_again),
        TEST(asynchronous_copies_have_their_size),
        TEST(short_sources_are_filled_with_zeros),
        TEST(an_empty_source_is_not_touched),
        TEST(groups_complete_in_order),
        TEST(ldmatrix_distributes_rows),
        TEST(stmatrix_collects_rows),
        TEST(bad_addresses_have_the_gpus_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
