/* SPDX-License-Identifier: Apache-2.0
 *
 * test_isa_tma.c: cuTensorMapEncodeTiled, cp.async.bulk.tensor and
 * cp.async.bulk (PTX ISA 5.5, 9.7.9.25.4, 9.7.9.27).
 *
 * A tensor holds the byte pattern of its addresses; what arrives in shared
 * memory, and what a store leaves in global memory, is computed element by
 * element from the ISA's definition of boxes, swizzles and out-of-bounds
 * elements.
 */
#include "hopper.h"

#include <math.h>

enum { U8 = 0, U16 = 1, U32 = 2, U64 = 4, F16 = 6, F32 = 7 };
enum { BAR = 64992, TENSOR = 1 << 18 };

struct box {
    int type, rank, swizzle, fill;
    uint64_t dim[5], stride[4];
    uint32_t size[5], step[5];
    int start[5];
};

static unsigned bytes_of(int type)
{
    static const unsigned b[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
    return b[type];
}

static CUresult encode(const struct box *b, CUdeviceptr at, void *map)
{
    static _Alignas(64) unsigned char raw[128];
    uint32_t step[5];
    for (int i = 0; i < 5; i++)
        step[i] = b->step[i] ? b->step[i] : 1;
    CUresult r = gpu.cuTensorMapEncodeTiled(
        raw, b->type, (unsigned)b->rank, (void *)(uintptr_t)at, b->dim,
        b->stride, b->size, step, 0, b->swizzle, 0, b->fill);
    memcpy(map, raw, sizeof raw);
    return r;
}

/* Elements of the box in dimension d: every step-th of size. */
static unsigned extent(const struct box *b, int d)
{
    unsigned step = d && b->step[d] ? b->step[d] : 1;
    return d < b->rank ? (b->size[d] + step - 1) / step : 1;
}

static unsigned box_bytes(const struct box *b)
{
    unsigned n = bytes_of(b->type);
    for (int d = 0; d < b->rank; d++)
        n *= extent(b, d);
    return n;
}

/* Element n of the box: its offset in the tensor, or -1 outside. */
static int64_t source_of(const struct box *b, unsigned n)
{
    int64_t at = 0;
    for (int d = 0; d < b->rank; d++) {
        unsigned step = d && b->step[d] ? b->step[d] : 1;
        int64_t c = b->start[d] + (int64_t)(n % extent(b, d)) * step;
        if (c < 0 || (uint64_t)c >= b->dim[d])
            return -1;
        at += c * (int64_t)(d ? b->stride[d - 1] : bytes_of(b->type));
        n /= extent(b, d);
    }
    return at;
}

/* ISA 5.5.7: 16-byte chunk bits 4-6 are exchanged by bits 7-9. */
static unsigned swizzled(const struct box *b, unsigned at)
{
    static const unsigned mask[] = {0, 1, 3, 7};
    return at ^ (at >> 7 & mask[b->swizzle]) << 4;
}

static void emit_coordinates(struct ptx_text *t, const struct box *b)
{
    for (int d = 0; d < b->rank; d++)
        emit(t, "mov.s32 %%r%d, %d;\n", 40 + d, b->start[d]);
}

static void emit_address(struct ptx_text *t, const struct box *b)
{
    emit(t, "[%%rd2, {");
    for (int d = 0; d < b->rank; d++)
        emit(t, "%s%%r%d", d ? "," : "", 40 + d);
    emit(t, "}]");
}

/* All shared memory to out, 128 threads. */
static void emit_dump(struct ptx_text *t, unsigned n)
{
    emit(t,
         "shl.b32 %%r1, %%r0, 4; cvt.u64.u32 %%rd4, %%r1;\n"
         "add.u64 %%rd4, %%rd4, %%rd1; mov.u32 %%r2, sm;\n"
         "add.u32 %%r2, %%r2, %%r1; mov.u32 %%r3, %%r1;\n"
         "DUMP: setp.ge.u32 %%p0, %%r3, %u; @%%p0 bra DONE;\n"
         "ld.shared.v4.b32 {%%r4,%%r5,%%r6,%%r7}, [%%r2];\n"
         "st.global.v4.b32 [%%rd4], {%%r4,%%r5,%%r6,%%r7};\n"
         "add.u64 %%rd4, %%rd4, 2048; add.u32 %%r2, %%r2, 2048;\n"
         "add.u32 %%r3, %%r3, 2048; bra DUMP;\nDONE:\n", n);
}

/* ---- loads -------------------------------------------------------------- */

static unsigned char tensor[TENSOR], result[HOPPER_SHARED];

static void fill_tensor(void)
{
    for (unsigned i = 0; i < TENSOR; i++)
        tensor[i] = (unsigned char)(i * 37u ^ i >> 8 ^ i >> 13);
}

/* Even ranks with a cache policy, which changes nothing. */
static void load_kernel(struct ptx_text *t, const struct box *b)
{
    bool policy = b->rank % 2 == 0;
    begin_kernel(t, "");
    emit_mbarrier(t, BAR, 1);
    emit(t, "bar.sync 0;\n");
    emit_coordinates(t, b);
    emit(t, "mov.u32 %%r9, sm;\n@!%%p1 bra NEXT;\n"
            "prefetch.tensormap [%%rd2];\n"
            "createpolicy.fractional.L2::evict_first.b64 %%rd12, 1.0;\n"
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r8], %u;\n"
            "cp.async.bulk.tensor.%dd.shared::cluster.global.tile"
            ".mbarrier::complete_tx::bytes%s [%%r9], ", box_bytes(b), b->rank,
         policy ? ".L2::cache_hint" : "");
    emit_address(t, b);
    emit(t, ", [%%r8]%s;\nNEXT:\n", policy ? ", %rd12" : "");
    emit_wait(t, "%r8", 0);
    emit_dump(t, box_bytes(b));
    end_kernel(t);
}

static void check_load(const struct box *b)
{
    static struct ptx_text t;
    unsigned e = bytes_of(b->type), n = box_bytes(b) / e;
    struct hopper h = {.out = result, .nout = sizeof result};
    static unsigned char zero[16];
    fill_tensor();
    h.pin = gpu_upload(tensor, sizeof tensor);
    if (encode(b, h.pin, h.map))
        fail_msg("%s", gpu_report());
    load_kernel(&t, b);
    hopper_ok(&h, t.s);
    for (unsigned i = 0; i < n; i++) {
        int64_t from = source_of(b, i);
        const unsigned char *got = result + swizzled(b, i * e);
        const unsigned char *want = from < 0 ? zero : tensor + from;
        if (b->fill && from < 0) {
            float x;
            memcpy(&x, got, sizeof x);
            assert_true(isnan(x));
        } else if (memcmp(got, want, e)) {
            fail_msg("rank %d swizzle %d: element %u is wrong", b->rank,
                     b->swizzle, i);
        }
    }
}

static void loads_of_every_rank(void **state)
{
    static const struct box box[] = {
        {U32, 1, 0, 0, {1000}, {0}, {64}, {0}, {100}},
        {U16, 2, 0, 0, {100, 50}, {208}, {64, 8}, {0}, {16, 3}},
        {U8, 3, 0, 0, {64, 10, 9}, {64, 640}, {32, 4, 5}, {0}, {7, 2, 1}},
        {U64, 4, 0, 0, {16, 8, 6, 5}, {128, 1024, 8192}, {4, 3, 2, 2}, {0},
         {3, 1, 2, 1}},
        {F16, 5, 0, 0, {16, 5, 4, 3, 6}, {32, 160, 640, 1920},
         {8, 3, 2, 3, 4}, {0}, {5, 1, 1, 0, 2}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof box / sizeof *box; i++)
        check_load(&box[i]);
}

static void every_swizzle(void **state)
{
    (void)state;
    for (int s = 0; s < 4; s++)
        for (uint32_t rows = 8; rows <= 64; rows *= 2)
            check_load(&(struct box){F16, 2, s, 0, {256, 300}, {512},
                                     {s ? 8u << s : 64, rows}, {0},
                                     {64, 11}});
}

static void elements_outside_are_zero(void **state)
{
    static const int start[][3] = {{-5, 3, 0}, {90, 0, 0}, {0, -3, 1},
                                   {0, 47, 2}, {3, 2, -1}, {200, 0, 0},
                                   {-200, 60, 9}};
    (void)state;
    for (size_t i = 0; i < sizeof start / sizeof *start; i++)
        check_load(&(struct box){U16, 3, 3, 0, {100, 50, 3}, {208, 10400},
                                 {64, 8, 2}, {0},
                                 {start[i][0], start[i][1], start[i][2]}});
}

static void elements_outside_are_nan_on_request(void **state)
{
    (void)state;
    check_load(&(struct box){F32, 2, 0, 1, {20, 20}, {80}, {32, 8}, {0},
                             {-3, 15}});
}

static void traversal_strides(void **state)
{
    (void)state;
    check_load(&(struct box){U32, 3, 0, 0, {64, 60, 4}, {256, 15360},
                             {16, 9, 3}, {1, 2, 3}, {8, 5, 0}});
}

static void dimensions_in_any_order(void **state)
{
    (void)state;
    check_load(&(struct box){F16, 4, 3, 0, {64, 30, 2, 3}, {768, 128, 256},
                             {64, 16, 2, 1}, {0}, {0, 9, 0, 1}});
}

/* ---- stores ------------------------------------------------------------- */

static void store_kernel(struct ptx_text *t, const struct box *b)
{
    begin_kernel(t, "");
    emit_fill(t, 0, (box_bytes(b) + 2047) / 2048 * 2048);
    emit_coordinates(t, b);
    emit(t, "mov.u32 %%r9, sm; setp.eq.u32 %%p1, %%r0, 0;\n@!%%p1 ret;\n"
            "cp.async.bulk.tensor.%dd.global.shared::cta.tile.bulk_group ",
         b->rank);
    emit_address(t, b);
    emit(t, ", [%%r9];\ncp.async.bulk.commit_group;\n"
            "cp.async.bulk.wait_group 0;\n");
    end_kernel(t);
}

static void check_store(const struct box *b)
{
    static struct ptx_text t;
    static unsigned char want[TENSOR], image[HOPPER_SHARED];
    unsigned e = bytes_of(b->type), n = box_bytes(b) / e;
    struct hopper h = {.in = image, .nin = sizeof image, .out = tensor,
                       .nout = sizeof tensor};
    fill_tensor();
    memcpy(want, tensor, sizeof want);
    for (unsigned i = 0; i < sizeof image; i++)
        image[i] = (unsigned char)hopper_random();
    for (unsigned i = 0; i < n; i++)
        if (source_of(b, i) >= 0)
            memcpy(want + source_of(b, i), image + swizzled(b, i * e), e);
    h.pout = gpu_upload(tensor, sizeof tensor);
    if (encode(b, h.pout, h.map))
        fail_msg("%s", gpu_report());
    store_kernel(&t, b);
    hopper_ok(&h, t.s);
    assert_memory_equal(tensor, want, sizeof want);
}

static void stores_skip_elements_outside(void **state)
{
    static const struct box box[] = {
        {U32, 1, 0, 0, {1000}, {0}, {64}, {0}, {960}},
        {F16, 2, 3, 0, {100, 50}, {208}, {64, 16}, {0}, {64, 40}},
        {F16, 3, 2, 0, {64, 10, 9}, {128, 1280}, {32, 4, 5}, {0}, {40, 8, 6}},
        {U16, 4, 1, 0, {16, 8, 6, 5}, {32, 256, 1536}, {16, 3, 2, 2}, {0},
         {0, 6, 2, 1}},
        {F16, 5, 0, 0, {16, 5, 4, 3, 6}, {32, 160, 640, 1920},
         {8, 3, 2, 3, 4}, {0}, {8, 1, 1, 0, 2}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof box / sizeof *box; i++)
        check_store(&box[i]);
}

/* ---- plain copies ------------------------------------------------------- */

static void plain_copies_both_ways(void **state)
{
    static struct ptx_text t;
    static unsigned char back[32768];
    struct hopper h = {.in = tensor, .nin = 32768, .out = back,
                       .nout = sizeof back};
    (void)state;
    fill_tensor();
    begin_kernel(&t, "");
    emit_mbarrier(&t, BAR, 1);
    emit(&t, "@!%%p1 ret;\nmov.u32 %%r9, sm; mov.u32 %%r10, 8192;\n"
             "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r8], 32768;\n"
             "mov.u32 %%r3, 0;\n"
             "L: cp.async.bulk.shared::cluster.global"
             ".mbarrier::complete_tx::bytes [%%r9], [%%rd0], %%r10, [%%r8];\n"
             "add.u32 %%r9, %%r9, 8192; add.u64 %%rd0, %%rd0, 8192;\n"
             "add.u32 %%r3, %%r3, 1; setp.lt.u32 %%p2, %%r3, 4;\n"
             "@%%p2 bra L;\n");
    emit_wait(&t, "%r8", 0);
    emit(&t, "mov.u32 %%r9, sm; mov.u32 %%r3, 0;\n"
             "M: cp.async.bulk.global.shared::cta.bulk_group"
             " [%%rd1], [%%r9], 16384;\ncp.async.bulk.commit_group;\n"
             "add.u32 %%r9, %%r9, 16384; add.u64 %%rd1, %%rd1, 16384;\n"
             "add.u32 %%r3, %%r3, 1; setp.lt.u32 %%p2, %%r3, 2;\n"
             "@%%p2 bra M;\ncp.async.bulk.wait_group.read 1;\n"
             "cp.async.bulk.wait_group 0;\n");
    end_kernel(&t);
    hopper_ok(&h, t.s);
    assert_memory_equal(back, tensor, sizeof back);
}

/* One reduction of 2 KiB each: sums, a maximum, an or. */
static void reductions(void **state)
{
    static const char *const op[] = {"add.f32", "add.u32", "max.s32",
                                     "or.b32", "add.noftz.bf16"};
    static struct ptx_text t;
    static uint32_t in[512], was[512], out[512];
    (void)state;
    for (unsigned k = 0; k < sizeof op / sizeof *op; k++) {
        struct hopper h = {.in = in, .nin = sizeof in, .out = out,
                           .nout = sizeof out};
        for (unsigned i = 0; i < 512; i++) {
            float x = (float)(i % 7) - 3, y = (float)(i % 5);
            memcpy(&in[i], &x, 4);
            memcpy(&was[i], &y, 4);
        }
        memcpy(out, was, sizeof out);
        begin_kernel(&t, "");
        emit_fill(&t, 0, 2048);
        emit(&t, "mov.u32 %%r9, sm; setp.eq.u32 %%p1, %%r0, 0;\n"
                 "@!%%p1 ret;\ncp.reduce.async.bulk.global.shared::cta"
                 ".bulk_group.%s [%%rd1], [%%r9], 2048;\n"
                 "cp.async.bulk.commit_group;\n"
                 "cp.async.bulk.wait_group 0;\n", op[k]);
        end_kernel(&t);
        hopper_ok(&h, t.s);
        for (unsigned i = 0; i < 512; i++) {
            uint32_t a = was[i], b = in[i], want;
            float x = (float)(i % 7) - 3 + (float)(i % 5);
            memcpy(&want, &x, 4);
            want = k == 1   ? a + b
                   : k == 2 ? (int32_t)a > (int32_t)b ? a : b
                   : k == 3 ? a | b
                            : want;
            assert_int_equal(out[i], want);
        }
    }
}

/* ---- rules of cuTensorMapEncodeTiled ------------------------------------ */

static void rules_of_encoding(void **state)
{
    static const struct box good = {F16, 3, 3, 0, {64, 8, 8}, {128, 1024},
                                    {64, 8, 8}, {0}, {0}};
    static const struct {
        const char *word;
        int what;
        uint64_t value;
    } bad[] = {
        {"tensorDataType", 0, 99},  {"tensorRank", 1, 0},
        {"tensorRank", 1, 6},       {"swizzle", 2, 9},
        {"oobFill", 3, 2},          {"globalDim[1]", 4, 0},
        {"globalDim[1]", 4, (UINT64_C(1) << 32) + 1},
        {"globalStrides[0]", 5, 120},
        {"globalStrides[0]", 5, UINT64_C(1) << 40},
        {"boxDim[1]", 6, 0},        {"boxDim[1]", 6, 257},
        {"boxDim[0]", 7, 4},        {"boxDim[0]", 7, 128},
        {"elementStrides[1]", 8, 9}, {"globalAddress", 9, 8},
    };
    _Alignas(64) unsigned char map[128];
    (void)state;
    CUdeviceptr at = gpu_upload(tensor, sizeof tensor);
    assert_int_equal(encode(&good, at, map), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct box b = good;
        uint64_t v = bad[i].value;
        CUdeviceptr where = at;
        switch (bad[i].what) {
        case 0: b.type = (int)v; break;
        case 1: b.rank = (int)v; break;
        case 2: b.swizzle = (int)v; break;
        case 3: b.fill = (int)v; break;
        case 4: b.dim[1] = v; break;
        case 5: b.stride[0] = v; break;
        case 6: b.size[1] = (uint32_t)v; break;
        case 7: b.size[0] = (uint32_t)v; break;
        case 8: b.step[1] = (uint32_t)v; break;
        default: where += v;
        }
        assert_int_equal(encode(&b, where, map), CUDA_ERROR_INVALID_VALUE);
        if (gpu.is_virtual && !strstr(gpu_report(), bad[i].word))
            fail_msg("\"%s\" does not name %s", gpu_report(), bad[i].word);
    }
}

static void a_replaced_address(void **state)
{
    static struct ptx_text t;
    struct box b = {U32, 1, 0, 0, {64}, {0}, {64}, {0}, {0}};
    struct hopper h = {.out = result, .nout = sizeof result};
    _Alignas(64) unsigned char map[128];
    (void)state;
    fill_tensor();
    h.pin = gpu_upload(tensor, sizeof tensor);
    assert_int_equal(encode(&b, h.pin, map), 0);
    assert_int_equal(gpu.cuTensorMapReplaceAddress(
                         map, (void *)(uintptr_t)(h.pin + 4096)), 0);
    memcpy(h.map, map, sizeof map);
    load_kernel(&t, &b);
    hopper_ok(&h, t.s);
    assert_memory_equal(result, tensor + 4096, 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, gpu_begin, gpu_end)
        TEST(loads_of_every_rank),
        TEST(every_swizzle),
        TEST(elements_outside_are_zero),
        TEST(elements_outside_are_nan_on_request),
        TEST(traversal_strides),
        TEST(dimensions_in_any_order),
        TEST(stores_skip_elements_outside),
        TEST(plain_copies_both_ways),
        TEST(reductions),
        TEST(rules_of_encoding),
        TEST(a_replaced_address),
    };
    if (gpu_begin(NULL) || gpu_end(NULL))
        return 1;
    if (hopper_absent())
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
