/* SPDX-License-Identifier: Apache-2.0
 *
 * test_isa_atom.c: atom and red (PTX ISA 9.7.13.5, .7).
 *
 * In the rows each thread has a word of its own, in shared memory or, as
 * [out], in global memory: it stores a there, applies the operation with b
 * (and c), and shows what it got (d) and what is there now (e).  Contention
 * has tests of its own behind them.
 */
#include "isa.h"
#include "isa_num.h"

/* OP(name, expression): the new value from the old value A and B, C. */
#define OP(name, expression)                                                  \
    static void name(struct isa_lane *x)                                      \
    {                                                                         \
        uint64_t A = x->a, B = x->b, C = x->c;                                \
        (void)A, (void)B, (void)C;                                            \
        x->d = A;                                                             \
        x->e = (uint64_t)(expression);                                        \
    }
OP(add, A + B)
OP(and, A &B)
OP(or, A | B)
OP(xor, A ^ B)
OP(exch, B)
OP(cas, A == B ? C : A)
OP(inc, A >= B ? 0 : A + 1)
OP(dec, A == 0 || A > B ? B : A - 1)
OP(min_u, A < B ? A : B)
OP(max_u, A > B ? A : B)
OP(min_s, (int32_t)A < (int32_t)B ? A : B)
OP(max_s, (int32_t)A > (int32_t)B ? A : B)
OP(min_s64, (int64_t)A < (int64_t)B ? A : B)
OP(max_s64, (int64_t)A > (int64_t)B ? A : B)

static uint64_t sum(struct num_format f, uint64_t a, uint64_t b)
{
    quad x = num_decode(f, a), y = num_decode(f, b);
    return num_round(f, num_add(x, y, RN), RN);
}
/* ISA: on global memory atom.add.f32 flushes subnormals, on shared memory
 * it keeps them. */
OP(add_f32, sum(num_f32, A, B))
OP(add_f32_ftz, num_flush32(sum(num_f32, num_flush32(A), num_flush32(B))))
OP(add_f64, sum(num_f64, A, B))
OP(add_f16, sum(num_f16, A, B))
OP(add_bf16, sum(num_bf16, A, B))
OP(add_f16x2,
   sum(num_f16, A >> 16, B >> 16) << 16 | sum(num_f16, A & 0xffff, B & 0xffff))
OP(add_bf16x2, sum(num_bf16, A >> 16, B >> 16) << 16 |
                   sum(num_bf16, A & 0xffff, B & 0xffff))

#define SLOT                                                                  \
    "{ .shared .align 8 .b8 s[1024]; .reg .b32 q, i; mov.u32 q, s; "          \
    "mov.u32 i, %tid.x; shl.b32 i, i, 3; add.u32 q, q, i; "
#define SHARED(bits, op)                                                      \
    SLOT "st.shared.b" bits " [q], $a; " op " ld.shared.b" bits " $e, [q]; }"
#define GLOBAL(bits, op)                                                      \
    "st.global.b" bits " [out], $a; " op " ld.global.b" bits " $e, [out];"
/* The same operation in both spaces. */
#define BOTH(name, type, bits, sig, pool, ref)                                \
    {.text = SHARED(bits, "atom.shared." name "." type " $d, [q], $b;"),      \
     sig,                                                                     \
     pool,                                                                    \
     ref},                                                                    \
        {.text =                                                              \
             GLOBAL(bits, "atom.global." name "." type " $d, [out], $b;"),    \
         sig,                                                                 \
         pool,                                                                \
         ref},                                                                \
    {                                                                         \
        .text = GLOBAL(bits, "ld.global.b" bits " $d, [out]; "                \
                             "red.global." name "." type " [out], $b;"),      \
        sig, pool, ref                                                        \
    }

static const struct isa_row rows[] = {
    BOTH("add", "u32", "32", "44:44", "ii", add),
    BOTH("add", "s32", "32", "44:44", "ii", add),
    BOTH("add", "u64", "64", "88:88", "ii", add),
    BOTH("min", "u32", "32", "44:44", "ii", min_u),
    BOTH("max", "u32", "32", "44:44", "ii", max_u),
    BOTH("min", "s32", "32", "44:44", "ii", min_s),
    BOTH("max", "s32", "32", "44:44", "ii", max_s),
    BOTH("min", "u64", "64", "88:88", "ii", min_u),
    BOTH("max", "u64", "64", "88:88", "ii", max_u),
    BOTH("min", "s64", "64", "88:88", "ii", min_s64),
    BOTH("max", "s64", "64", "88:88", "ii", max_s64),
    BOTH("and", "b32", "32", "44:44", "ii", and),
    BOTH("or", "b32", "32", "44:44", "ii", or),
    BOTH("xor", "b32", "32", "44:44", "ii", xor),
    BOTH("and", "b64", "64", "88:88", "ii", and),
    BOTH("or", "b64", "64", "88:88", "ii", or),
    BOTH("xor", "b64", "64", "88:88", "ii", xor),
    BOTH("inc", "u32", "32", "44:44", "ii", inc),
    BOTH("dec", "u32", "32", "44:44", "ii", dec),
    {.text = SHARED("32", "atom.shared.exch.b32 $d, [q], $b;"),
     "44:44",
     "ii",
     exch},
    {.text = GLOBAL("64", "atom.global.exch.b64 $d, [out], $b;"),
     "88:88",
     "ii",
     exch},
    {.text = SHARED("32", "atom.shared.cas.b32 $d, [q], $b, $c;"),
     "44:444",
     "iii",
     cas},
    {.text = SHARED("32", "atom.shared.cas.b32 $d, [q], $b, $c;"),
     "44:444",
     "wwu",
     cas},
    {.text = GLOBAL("64", "atom.global.cas.b64 $d, [out], $b, $c;"),
     "88:888",
     "wwu",
     cas},
    {.text = GLOBAL("16", "atom.global.cas.b16 $d, [out], $b, $c;"),
     "22:222",
     "wwu",
     cas},
    {.text = SHARED("32", "atom.shared.add.f32 $d, [q], $b;"),
     "44:44",
     "ff",
     add_f32,
     ISA_F32},
    {.text = GLOBAL("32", "atom.global.add.f32 $d, [out], $b;"),
     "44:44",
     "ff",
     add_f32_ftz,
     ISA_F32},
    {.text = GLOBAL("32", "ld.global.b32 $d, [out]; "
                          "red.global.add.f32 [out], $b;"),
     "44:44",
     "ff",
     add_f32_ftz,
     ISA_F32},
    {.text = SHARED("64", "atom.shared.add.f64 $d, [q], $b;"),
     "88:88",
     "gg",
     add_f64,
     ISA_F64},
    {.text = GLOBAL("64", "atom.global.add.f64 $d, [out], $b;"),
     "88:88",
     "gg",
     add_f64,
     ISA_F64},
    {.text = GLOBAL("16", "atom.global.add.noftz.f16 $d, [out], $b;"),
     "22:22",
     "hh",
     add_f16,
     ISA_F16},
    {.text = GLOBAL("32", "atom.global.add.noftz.f16x2 $d, [out], $b;"),
     "44:44",
     "HH",
     add_f16x2,
     ISA_F16X2},
    {.text = GLOBAL("16", "atom.global.add.noftz.bf16 $d, [out], $b;"),
     "22:22",
     "bb",
     add_bf16,
     ISA_BF16,
     .arch = 90},
    {.text = GLOBAL("32", "atom.global.add.noftz.bf16x2 $d, [out], $b;"),
     "44:44",
     "BB",
     add_bf16x2,
     ISA_BF16X2,
     .arch = 90},
    {.text = GLOBAL("32", "atom.acq_rel.gpu.global.add.u32 $d, [out], $b;"),
     "44:44",
     "ii",
     add},
    {.text = GLOBAL("32", "atom.relaxed.sys.global.or.b32 $d, [out], $b;"),
     "44:44",
     "ii",
     or },
    {.text = GLOBAL("32", "atom.add.release.gpu.u32 $d, [out], $b;"),
     "44:44",
     "ii",
     add},
    {.text = SHARED("32", "atom.shared::cta.add.u32 $d, [q], $b;"),
     "44:44",
     "ii",
     add},
};

/* --- contention ---------------------------------------------------------- */

enum { BLOCKS = 8, THREADS = 256 };

/* All threads of all blocks draw a ticket: each number once. */
static void every_ticket_is_drawn_once(void **state)
{
    (void)state;
    static uint32_t ticket[BLOCKS * THREADS], counter[2];
    static unsigned char seen[BLOCKS * THREADS];
    struct gpu_grid g = {{BLOCKS, 1, 1}, {THREADS, 1, 1}, 0};
    memset(seen, 0, sizeof seen);
    gpu_loose();
    gpu_ok(gpu_run(GPU_HEAD("sm_80")
                       GPU_KERNEL(4) "atom.global.add.u32 %r3, [in], 1; "
                                     "st.global.u32 [out], %r3; ret; }",
                   &g, counter, sizeof counter, ticket, sizeof ticket));
    for (int i = 0; i < BLOCKS * THREADS; i++) {
        assert_in_range(ticket[i], 0, BLOCKS * THREADS - 1);
        assert_int_equal(seen[ticket[i]], 0);
        seen[ticket[i]] = 1;
    }
}

/* A lock of atom.cas and atom.exch guards a counter that is no atomic. */
static void a_spin_lock_excludes(void **state)
{
    (void)state;
    static uint32_t word[BLOCKS * THREADS], lock[2];
    struct gpu_grid g = {{BLOCKS, 1, 1}, {32, 1, 1}, 0};
    gpu_ok(gpu_run(
        GPU_HEAD(
            "sm_80") ".visible .entry k(.param .u64 pin, .param .u64 "
                     "pout)\n{\n"
                     ".reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 in, out;\n"
                     "ld.param.u64 in, [pin]; ld.param.u64 out, [pout];\n"
                     "TRY: atom.acquire.gpu.global.cas.b32 %r1, [in], 0, 1;\n"
                     "setp.ne.u32 %p1, %r1, 0; @%p1 bra TRY;\n"
                     "ld.volatile.global.u32 %r2, [out]; add.u32 %r2, %r2, "
                     "1;\n"
                     "st.volatile.global.u32 [out], %r2; membar.gl;\n"
                     "atom.release.gpu.global.exch.b32 %r3, [in], 0; ret; }",
        &g, lock, sizeof lock, word, sizeof word));
    assert_int_equal(word[0], BLOCKS * 32);
}

/* Vector forms of sm_90: four sums at once. */
static void vectors_add_element_by_element(void **state)
{
    (void)state;
    static float sums[128];
    struct gpu_grid g = {{4, 1, 1}, {32, 1, 1}, 0};
    if (gpu.arch < 90)
        fail_msg("the profile for this test must be sm_90 or later");
    memset(sums, 0, sizeof sums);
    gpu_ok(gpu_run(GPU_HEAD("sm_90") ".visible .entry k(.param .u64 pin, "
                                     ".param .u64 pout)\n{\n"
                                     ".reg .f32 %f<9>; .reg .b64 in, out;\n"
                                     "ld.param.u64 out, [pout];\n"
                                     "red.global.add.v4.f32 [out], "
                                     "{0f3F800000, 0f40000000, 0f40400000, "
                                     "0f40800000};\n"
                                     "atom.global.add.v2.f32 {%f1, %f2}, "
                                     "[out+16], {0f3F800000, "
                                     "0fBF800000}; ret; }",
                   &g, sums, 4, sums, sizeof sums));
    for (int i = 0; i < 4; i++)
        assert_true(sums[i] == (float)(128 * (i + 1)));
    assert_true(sums[4] == 128 && sums[5] == -128);
}

static const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, gpu_begin, gpu_end)
    TEST(every_ticket_is_drawn_once),
    TEST(a_spin_lock_excludes),
    TEST(vectors_add_element_by_element),
};

ISA_MAIN_AND("isa_atom", rows, tests)
