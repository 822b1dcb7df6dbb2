/* SPDX-License-Identifier: Apache-2.0
 *
 * Policies by rules: the worked examples of facts/serving-semantics.md,
 * section 1.7, then the rows of its tables 1.4 and 1.5 one by one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "internal.h"

struct world {
    mla_context *ctx;
};

static int set_up(void **state)
{
    static struct world w;
    *state = &w;
    return mla_context_create(NULL, &w.ctx);
}

static int tear_down(void **state)
{
    struct world *w = *state;
    mla_context_destroy(w->ctx);
    return 0;
}

static void says(struct world *w, const char *text)
{
    if (!strstr(mla_last_error(w->ctx), text))
        fail_msg("'%s' is not in: %s", text, mla_last_error(w->ctx));
}

static mla_policy_options backend(const char *name)
{
    mla_policy_options o = MLA_POLICY_OPTIONS_INIT;
    o.prefill = name;
    return o;
}

static mla_batch one(mla_mode mode, const int32_t *prefix,
                     const int32_t *fresh)
{
    return (mla_batch){sizeof(mla_batch), mode, 1, prefix, fresh, 0, 0};
}

/* The method for a batch under options. */
static mla_method method(struct world *w, const mla_policy_options *o,
                         const mla_batch *b)
{
    mla_decision d = {.size = sizeof(d)};
    mla_policy *policy;
    assert_int_equal(mla_policy_create(w->ctx, o, &policy), MLA_OK);
    assert_int_equal(mla_dispatch(policy, b, NULL, &d), MLA_OK);
    assert_non_null(d.reason);
    mla_policy_free(policy);
    return d.method;
}

/* The same for one request, by name. */
static const char *chosen(struct world *w, const mla_policy_options *o,
                          mla_mode mode, int32_t prefix, int32_t fresh)
{
    mla_batch b = one(mode, &prefix, &fresh);
    return mla_method_name(method(w, o, &b));
}

/* Section 1.7 ------------------------------------------------------------- */

enum { DIS = 1, RAGGED = 2 };

static const struct {
    const char *backend;
    mla_mode mode;
    int rows;
    int32_t prefix[3], fresh[3];
    int flags;
    const char *method;
} examples[] = {
    {"fa3", MLA_MODE_EXTEND, 1, {0}, {131072}, 0, "MHA_ONE_SHOT"},
    {"fa3", MLA_MODE_EXTEND, 1, {0}, {131073}, 0, "MHA_CHUNKED_KV"},
    {"fa3", MLA_MODE_EXTEND, 1, {8191}, {1}, 0, "MLA"},
    {"fa3", MLA_MODE_EXTEND, 2, {4096, 4096}, {1, 1}, 0, "MHA_ONE_SHOT"},
    {"fa3", MLA_MODE_EXTEND, 1, {8192}, {1}, DIS, "MLA"},
    {"fa3", MLA_MODE_EXTEND, 1, {200000}, {64}, 0, "MHA_CHUNKED_KV"},
    {"fa3", MLA_MODE_MIXED, 3, {8000, 0, 192}, {1, 512, 1}, 0, "MHA_ONE_SHOT"},
    {"fa3", MLA_MODE_MIXED, 2, {200000, 9000}, {1, 512}, 0, "MHA_CHUNKED_KV"},
    {"fa3", MLA_MODE_TARGET_VERIFY, 1, {0}, {4}, 0, "MLA"},
    {"flashinfer", MLA_MODE_EXTEND, 1, {0}, {512}, RAGGED, "MLA"},
    {"cutlass_mla", MLA_MODE_EXTEND, 1, {0}, {512}, 0, "MHA_CHUNKED_KV"},
    {"trtllm_mla", MLA_MODE_EXTEND, 1, {1}, {512}, 0, "MHA_CHUNKED_KV"},
    {"trtllm_mla", MLA_MODE_EXTEND, 1, {1}, {512}, DIS, "MLA"},
    {"triton", MLA_MODE_EXTEND, 1, {1}, {512}, 0, "MLA"},
    {"cutedsl_mla", MLA_MODE_EXTEND, 1, {0}, {512}, 0, "MHA"},
    {"fa4", MLA_MODE_DECODE, 1, {4096}, {1}, 0, "MHA_CHUNKED_KV"},
};

static void worked_examples_come_out_as_worked(void **state)
{
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        mla_policy_options o = backend(examples[i].backend);
        mla_batch b = {sizeof(b),
                       examples[i].mode,
                       examples[i].rows,
                       examples[i].prefix,
                       examples[i].fresh,
                       0,
                       0};
        o.disable_chunked_prefix = (examples[i].flags & DIS) != 0;
        o.disable_ragged = (examples[i].flags & RAGGED) != 0;
        if (strcmp(mla_method_name(method(*state, &o, &b)),
                   examples[i].method))
            fail_msg("example %zu: %s", i,
                     mla_method_name(method(*state, &o, &b)));
    }
}

/* Sections 1.4 and 1.5 ---------------------------------------------------- */

static void every_backend_absorbs_what_is_no_plain_extend(void **state)
{
    static const mla_mode modes[] = {MLA_MODE_DECODE, MLA_MODE_IDLE,
                                     MLA_MODE_TARGET_VERIFY,
                                     MLA_MODE_DRAFT_EXTEND};
    const char *name;
    for (int i = 0; (name = mla_policy_backend(i)) != NULL; i++) {
        mla_policy_options o = backend(name);
        o.sm = 100;
        if (!strcmp(name, "ascend") || !strcmp(name, "cost"))
            continue;
        for (size_t m = 0; m < 4; m++)
            assert_string_equal(chosen(*state, &o, modes[m], 9000, 4), "MLA");
    }
}

static void plain_extends_of_all_kinds_are_alike(void **state)
{
    static const mla_mode modes[] = {MLA_MODE_EXTEND, MLA_MODE_MIXED,
                                     MLA_MODE_SPLIT_PREFILL,
                                     MLA_MODE_DLLM_EXTEND};
    mla_policy_options o = backend("flashmla");
    for (size_t m = 0; m < 4; m++)
        assert_string_equal(chosen(*state, &o, modes[m], 0, 4),
                            "MHA_ONE_SHOT");
}

static void captured_graphs_are_absorbed_except_by_aiter_and_fa4(void **state)
{
    const char *name;
    for (int i = 0; (name = mla_policy_backend(i)) != NULL; i++) {
        mla_policy_options o = backend(name);
        int32_t prefix = 0, fresh = 512;
        mla_batch b = one(MLA_MODE_EXTEND, &prefix, &fresh);
        const char *want = "MLA";
        b.captured = 1;
        if (!strcmp(name, "aiter"))
            want = "MHA";
        if (!strcmp(name, "ascend"))
            want = "MHA_NPU";
        if (!strcmp(name, "fa4")) /* on sm_90 */
            want = "MHA_CHUNKED_KV";
        assert_string_equal(mla_method_name(method(*state, &o, &b)), want);
    }
}

static void context_parallel_prefill_is_absorbed_by_common_rules(void **state)
{
    int32_t prefix = 0, fresh = 512;
    mla_batch b = one(MLA_MODE_EXTEND, &prefix, &fresh);
    mla_policy_options o = backend("fa3"), t = backend("trtllm_mla");
    b.context_parallel = 1;
    assert_int_equal(method(*state, &o, &b), MLA_METHOD_MLA);
    assert_int_equal(method(*state, &t, &b), MLA_METHOD_MHA_CHUNKED_KV);
    b.mode = MLA_MODE_SPLIT_PREFILL; /* not one of its modes */
    assert_int_equal(method(*state, &o, &b), MLA_METHOD_MHA_ONE_SHOT);
}

static void thresholds_are_parameters(void **state)
{
    mla_policy_options o = backend("fa3");
    o.chunked_prefix_threshold = 100;
    o.max_chunk_capacity = 1000;
    assert_string_equal(chosen(*state, &o, MLA_MODE_EXTEND, 99, 1), "MLA");
    assert_string_equal(chosen(*state, &o, MLA_MODE_EXTEND, 100, 900),
                        "MHA_ONE_SHOT");
    assert_string_equal(chosen(*state, &o, MLA_MODE_EXTEND, 100, 901),
                        "MHA_CHUNKED_KV");
    o.chunked_prefix_threshold = 0;
    assert_string_equal(chosen(*state, &o, MLA_MODE_EXTEND, 1, 1),
                        "MHA_ONE_SHOT");
}

static void ragged_is_a_matter_of_flashinfer_and_flashmla(void **state)
{
    const char *name;
    for (int i = 0; (name = mla_policy_backend(i)) != NULL; i++) {
        mla_policy_options with = backend(name), without = backend(name);
        bool same;
        without.disable_ragged = 1;
        same = !strcmp(chosen(*state, &with, MLA_MODE_EXTEND, 0, 512),
                       chosen(*state, &without, MLA_MODE_EXTEND, 0, 512));
        assert_int_equal(same, strcmp(name, "flashinfer") &&
                                   strcmp(name, "flashmla"));
    }
}

/* Section 1.6: the backends without one lose the chunked prefix. */
static void a_backend_without_chunked_prefix_loses_it(void **state)
{
    mla_policy_options o = backend("intel_xpu");
    assert_string_equal(chosen(*state, &o, MLA_MODE_EXTEND, 0, 8),
                        "MHA_CHUNKED_KV");
    assert_string_equal(chosen(*state, &o, MLA_MODE_EXTEND, 9000, 8), "MLA");
    o.prefill = "cutlass_mla";
    assert_string_equal(chosen(*state, &o, MLA_MODE_EXTEND, 9000, 8),
                        "MHA_CHUNKED_KV");
}

static void fa4_knows_the_absorbed_form_on_sm100_only(void **state)
{
    mla_policy_options o = backend("fa4");
    o.sm = 103;
    assert_string_equal(chosen(*state, &o, MLA_MODE_DECODE, 9, 1), "MLA");
    assert_string_equal(chosen(*state, &o, MLA_MODE_EXTEND, 0, 8),
                        "MHA_CHUNKED_KV"); /* never one shot */
    assert_string_equal(chosen(*state, &o, MLA_MODE_EXTEND, 9, 8), "MLA");
    o.sm = 120;
    assert_string_equal(chosen(*state, &o, MLA_MODE_EXTEND, 9, 8),
                        "MHA_CHUNKED_KV");
}

static void deterministic_inference_is_absorbed_or_refused(void **state)
{
    struct world *w = *state;
    static const char *const accepted[] = {"fa3", "triton", "fa4"};
    mla_policy *policy;
    for (size_t i = 0; i < 3; i++) {
        mla_policy_options o = backend(accepted[i]);
        o.deterministic = 1;
        o.sm = 100;
        assert_string_equal(chosen(w, &o, MLA_MODE_EXTEND, 0, 512), "MLA");
    }
    mla_policy_options o = backend("flashinfer");
    o.deterministic = 1;
    assert_int_equal(mla_policy_create(w->ctx, &o, &policy),
                     MLA_INVALID_ARGUMENT);
    says(w, "backend flashinfer is not deterministic on sm_90; ascend, fa3");
    o.prefill = "fa4";
    assert_int_equal(mla_policy_create(w->ctx, &o, &policy),
                     MLA_INVALID_ARGUMENT);
    says(w, "fa4 (sm_10x");
}

static void aiter_reads_the_prefix_itself(void **state)
{
    struct world *w = *state;
    mla_policy_options o = backend("aiter");
    mla_decision d = {.size = sizeof(d)};
    int32_t prefix = 700, fresh = 8;
    mla_batch b = one(MLA_MODE_EXTEND, &prefix, &fresh);
    mla_policy *policy;

    o.hip = 1;
    o.sm = 942;
    assert_int_equal(mla_policy_create(w->ctx, &o, &policy), MLA_OK);
    assert_int_equal(mla_dispatch(policy, &b, NULL, &d), MLA_OK);
    assert_int_equal(d.method, MLA_METHOD_MHA_ROCM);
    assert_int_equal(d.run, MLA_METHOD_MHA_ONE_SHOT);
    b.mode = MLA_MODE_DECODE;
    assert_int_equal(mla_dispatch(policy, &b, NULL, &d), MLA_OK);
    assert_int_equal(d.method, MLA_METHOD_MLA_ROCM);
    assert_int_equal(d.run, MLA_METHOD_MLA);
    mla_policy_free(policy);
}

static void chunks_have_no_form_on_hip(void **state)
{
    struct world *w = *state;
    mla_policy_options o = backend("cutlass_mla");
    mla_decision d = {.size = sizeof(d)};
    int32_t prefix = 0, fresh = 8;
    mla_batch b = one(MLA_MODE_EXTEND, &prefix, &fresh);
    mla_policy *policy;

    o.hip = 1;
    assert_int_equal(mla_policy_create(w->ctx, &o, &policy), MLA_OK);
    assert_int_equal(mla_dispatch(policy, &b, NULL, &d), MLA_NO_METHOD);
    says(w, "MHA_CHUNKED_KV has no form for hip");
    assert_null(d.reason);
    mla_policy_free(policy);
}

static void the_cpu_has_a_fused_absorbed_form(void **state)
{
    mla_policy_options o = backend("intel_amx");
    o.cpu_amx = 1;
    assert_string_equal(chosen(*state, &o, MLA_MODE_DECODE, 9, 1),
                        "MLA_FUSED_ROPE_CPU");
    assert_string_equal(chosen(*state, &o, MLA_MODE_EXTEND, 0, 9), "MHA");
}

static void sparse_layers_prefill_densely_while_short(void **state)
{
    struct world *w = *state;
    mla_policy_options o = backend("dsa");
    int32_t prefix[2] = {1000, 2000}, fresh[2] = {1048, 48};
    mla_batch b = {sizeof(b), MLA_MODE_EXTEND, 2, prefix, fresh, 0, 0};

    assert_int_equal(method(w, &o, &b), MLA_METHOD_MHA_ONE_SHOT);
    fresh[1]++; /* one row of 2049 */
    assert_int_equal(method(w, &o, &b), MLA_METHOD_MLA);
    fresh[1]--;
    o.sm = 89;
    assert_int_equal(method(w, &o, &b), MLA_METHOD_MLA);
    o.sm = 109;
    assert_int_equal(method(w, &o, &b), MLA_METHOD_MHA_ONE_SHOT);
    o.sm = 110;
    assert_int_equal(method(w, &o, &b), MLA_METHOD_MLA);
    o.sm = 90;
    o.kv_dtype = "fp4_e2m1";
    assert_int_equal(method(w, &o, &b), MLA_METHOD_MLA);
    o.kv_dtype = "fp8_e4m3";
    assert_int_equal(method(w, &o, &b), MLA_METHOD_MHA_ONE_SHOT);
    o.max_chunk_capacity = 4095;
    assert_int_equal(method(w, &o, &b), MLA_METHOD_MLA);
    o.max_chunk_capacity = 4096;
    assert_int_equal(method(w, &o, &b), MLA_METHOD_MHA_ONE_SHOT);
    b.context_parallel = 1;
    assert_int_equal(method(w, &o, &b), MLA_METHOD_MLA);
    b.context_parallel = 0;
    o.dsa_hisparse = 1;
    assert_int_equal(method(w, &o, &b), MLA_METHOD_MLA);
    o.prefill = "nsa";
    o.dsa_hisparse = 0;
    assert_int_equal(method(w, &o, &b), MLA_METHOD_MHA_ONE_SHOT);
}

static void ascend_has_methods_of_its_own(void **state)
{
    struct world *w = *state;
    mla_policy_options o = backend("ascend");
    assert_string_equal(chosen(w, &o, MLA_MODE_EXTEND, 9, 9), "MHA_NPU");
    assert_string_equal(chosen(w, &o, MLA_MODE_TARGET_VERIFY, 9, 9),
                        "MLA_NPU");
    o.uses_dsa = 1;
    assert_string_equal(chosen(w, &o, MLA_MODE_EXTEND, 9, 9), "DSA_NPU");
    assert_int_equal(mla_method_run(MLA_METHOD_DSA_NPU), MLA_METHOD_NONE);
}

/* Section 1.2: which backend is asked. */
static void decode_and_prefill_may_have_different_backends(void **state)
{
    struct world *w = *state;
    mla_policy_options o = backend("fa3");
    o.decode = "fa4"; /* on sm_90: chunked whatever the mode */
    assert_string_equal(chosen(w, &o, MLA_MODE_DECODE, 9, 1),
                        "MHA_CHUNKED_KV");
    assert_string_equal(chosen(w, &o, MLA_MODE_IDLE, 9, 1), "MHA_CHUNKED_KV");
    assert_string_equal(chosen(w, &o, MLA_MODE_EXTEND, 9, 1), "MLA");
    assert_string_equal(chosen(w, &o, MLA_MODE_TARGET_VERIFY, 9, 1), "MLA");
    o.speculative_decode = 1;
    assert_string_equal(chosen(w, &o, MLA_MODE_TARGET_VERIFY, 9, 1),
                        "MHA_CHUNKED_KV");
    assert_string_equal(chosen(w, &o, MLA_MODE_DRAFT_EXTEND, 9, 1),
                        "MHA_CHUNKED_KV");
}

/* Section 1.6 */
static void page_sizes_and_trees_are_as_each_backend_wants(void **state)
{
    static const struct {
        const char *name;
        int asked, page, trees;
    } rows[] = {{"flashmla", 16, 64, 0},    {"cutlass_mla", 64, 128, -1},
                {"trtllm_mla", 32, 32, 0},  {"trtllm_mla", 64, 64, 0},
                {"trtllm_mla", 1, 64, 0},   {"tokenspeed_mla", 128, 64, 0},
                {"cutedsl_mla", 16, 64, 0}, {"dsa", 1, 64, -1},
                {"fa3", 16, 16, 1},         {"triton", 1, 1, 1},
                {"flashinfer", 8, 8, 0},    {"fa5", 64, -1, -1}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(mla_backend_page_size(rows[i].name, rows[i].asked),
                         rows[i].page);
        assert_int_equal(mla_backend_takes_trees(rows[i].name), rows[i].trees);
    }
}

/* Errors and edges -------------------------------------------------------- */

/* [K16] No silent fall-through to another backend's rules. */
static void an_unknown_backend_is_an_error_that_names_the_known(void **state)
{
    struct world *w = *state;
    mla_policy_options o = backend("fa5");
    mla_policy *policy = (mla_policy *)w;
    assert_int_equal(mla_policy_create(w->ctx, &o, &policy), MLA_NO_POLICY);
    assert_null(policy);
    says(w, "no rules for the backend 'fa5'; there are fa3, fa4, flashinfer");
    says(w, "trtllm_mha, cost");
    o = backend("fa3");
    o.decode = "FA3";
    assert_int_equal(mla_policy_create(w->ctx, &o, &policy), MLA_NO_POLICY);
    says(w, "'FA3'");
    o = backend(NULL);
    assert_int_equal(mla_policy_create(w->ctx, &o, &policy), MLA_NO_POLICY);
    o = backend("fa3");
    o.max_chunk_capacity = 0;
    assert_int_equal(mla_policy_create(w->ctx, &o, &policy),
                     MLA_INVALID_ARGUMENT);
    says(w, "max_chunk_capacity is 0, must be at least 1");
}

static void a_negative_length_is_named(void **state)
{
    struct world *w = *state;
    mla_policy_options o = backend("fa3");
    mla_decision d = {.size = sizeof(d)};
    int32_t prefix[3] = {1, 2, -3}, fresh[3] = {1, 1, 1};
    mla_batch b = {sizeof(b), MLA_MODE_EXTEND, 3, prefix, fresh, 0, 0};
    mla_policy *policy;

    assert_int_equal(mla_policy_create(w->ctx, &o, &policy), MLA_OK);
    assert_int_equal(mla_dispatch(policy, &b, NULL, &d), MLA_RANGE);
    says(w, "row 2: prefix -3, 1 new tokens");
    b.mode = (mla_mode)99;
    assert_int_equal(mla_dispatch(policy, &b, NULL, &d), MLA_INVALID_ARGUMENT);
    mla_policy_free(policy);
}

/* Sums beyond 32 bits must not wrap into "no prefix". */
static void sums_are_64_bit(void **state)
{
    struct world *w = *state;
    static int32_t prefix[4], fresh[4];
    mla_policy_options o = backend("fa3");
    mla_batch b = {sizeof(b), MLA_MODE_EXTEND, 4, prefix, fresh, 0, 0};

    for (int i = 0; i < 4; i++) {
        prefix[i] = 1 << 30;
        fresh[i] = 1;
    }
    assert_int_equal(method(w, &o, &b), MLA_METHOD_MHA_CHUNKED_KV);
}

static void a_batch_without_work_is_absorbed_by_every_backend(void **state)
{
    struct world *w = *state;
    const char *name;
    for (int i = 0; (name = mla_policy_backend(i)) != NULL; i++) {
        mla_policy_options o = backend(name);
        int32_t prefix = 0, fresh = 0;
        mla_batch b = one(MLA_MODE_EXTEND, &prefix, &fresh);
        assert_int_equal(method(w, &o, &b), MLA_METHOD_MLA);
        b.rows = 0;
        assert_int_equal(method(w, &o, &b), MLA_METHOD_MLA);
    }
}

static void a_decision_says_why(void **state)
{
    struct world *w = *state;
    mla_policy_options o = backend("fa3");
    mla_decision d = {.size = sizeof(d)};
    int32_t prefix[2] = {4096, 4096}, fresh[2] = {1, 1};
    mla_batch b = {sizeof(b), MLA_MODE_EXTEND, 2, prefix, fresh, 0, 0};
    char text[256], cut[8];
    mla_policy *policy;
    size_t length;

    assert_int_equal(mla_policy_create(w->ctx, &o, &policy), MLA_OK);
    assert_int_equal(mla_dispatch(policy, &b, NULL, &d), MLA_OK);
    length = mla_dispatch_reason(policy, &d, text, sizeof(text));
    assert_string_equal(
        text, "fa3, EXTEND of 2 rows, prefix 8192 + new 2 = 8194: long "
              "prefix, and all fits one shot -> MHA_ONE_SHOT "
              "(chunked_prefix_threshold 8192, max_chunk_capacity 131072)");
    assert_int_equal(length, strlen(text));
    assert_int_equal(mla_dispatch_reason(policy, &d, cut, sizeof(cut)),
                     length);
    assert_string_equal(cut, "fa3, EX");
    assert_int_equal(mla_dispatch_reason(policy, &d, NULL, 0), length);
    mla_policy_free(policy);
}

static void methods_have_names_meanings_and_a_form(void **state)
{
    int listed = 0;
    (void)state;
#define COUNT(name, number, run, text)                                        \
    listed++;                                                                 \
    assert_string_equal(mla_method_name(MLA_METHOD_##name), #name);           \
    assert_string_equal(mla_method_text(MLA_METHOD_##name), text);            \
    assert_int_equal(mla_method_run(MLA_METHOD_##name), MLA_METHOD_##run);
    MLA_METHOD_LIST(COUNT)
#undef COUNT
    assert_int_equal(listed, 12);
    assert_string_equal(mla_method_name((mla_method)12), "?");
    assert_string_equal(mla_mode_name(MLA_MODE_DRAFT_EXTEND), "DRAFT_EXTEND");
    assert_string_equal(mla_mode_name((mla_mode)-1), "?");
}

/* Chunks: section 2.1 ----------------------------------------------------- */

struct golden {
    int rows;
    int32_t prefix[4];
    int capacity, chunk_len, count;
    int32_t lens[20], cu[25];
};

static const struct golden goldens[] = {
    {3,
     {64, 64, 64},
     48,
     16,
     4,
     {16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16},
     {0, 16, 32, 48, 0, 16, 32, 48, 0, 16, 32, 48, 0, 16, 32, 48}},
    {4,
     {16, 32, 48, 64},
     64,
     16,
     4,
     {16, 16, 16, 16, 0, 16, 16, 16, 0, 0, 16, 16, 0, 0, 0, 16},
     {0, 16, 32, 48, 64, 0, 0, 16, 32, 48, 0, 0, 0, 16, 32, 0, 0, 0, 0, 16}},
    {2,
     {1, 64},
     31,
     15,
     5,
     {1, 15, 0, 15, 0, 15, 0, 15, 0, 4},
     {0, 1, 16, 0, 0, 15, 0, 0, 15, 0, 0, 15, 0, 0, 4}},
    {2, {0, 5}, 8, 4, 2, {0, 4, 0, 1}, {0, 0, 4, 0, 0, 1}},
    {1, {131073}, 131072, 131072, 2, {131072, 1}, {0, 131072, 0, 1}},
};

static void chunks_come_out_as_worked(void **state)
{
    struct world *w = *state;
    mla_chunks *chunks;
    mla_chunk_plan p = {.size = sizeof(p)};

    assert_int_equal(mla_chunks_create(w->ctx, &chunks), MLA_OK);
    for (size_t i = 0; i < sizeof(goldens) / sizeof(goldens[0]); i++) {
        const struct golden *g = &goldens[i];
        size_t lens = (size_t)(g->count * g->rows) * 4;
        size_t cu = (size_t)(g->count * (g->rows + 1)) * 4;
        assert_int_equal(
            mla_chunks_plan(chunks, g->prefix, g->rows, g->capacity, 0, &p),
            MLA_OK);
        assert_int_equal(p.chunk_len, g->chunk_len);
        assert_int_equal(p.count, g->count);
        assert_memory_equal(p.lens, g->lens, lens);
        assert_memory_equal(p.cu, g->cu, cu);
        assert_int_equal(p.block_bytes, lens + cu + (size_t)g->count * 16);
        assert_ptr_equal(p.block, p.lens);
        for (int c = 0; c < g->count; c++)
            assert_int_equal(p.start[c], c * g->chunk_len);
    }
    /* the last golden: 131072 tokens, then 1 */
    assert_int_equal(p.max_len[0], 131072);
    assert_int_equal(p.total[1], 1);
    assert_int_equal(p.has_empty[0], 0);
    assert_int_equal(mla_chunks_plan(chunks, goldens[2].prefix, 2, 31, 0, &p),
                     MLA_OK);
    assert_int_equal(p.max_len[0], 15);
    assert_int_equal(p.total[0], 16);
    assert_int_equal(p.has_empty[0], 0);
    assert_int_equal(p.has_empty[1], 1);
    mla_chunks_free(chunks);
}

static void chunk_edges_are_defined(void **state)
{
    struct world *w = *state;
    const int32_t prefix[5] = {0, 0, 0, 0, 0}, some[5] = {9, 0, 0, 0, 130};
    const int32_t negative[2] = {4, -1};
    mla_chunks *chunks;
    mla_chunk_plan p = {.size = sizeof(p)};

    assert_int_equal(mla_chunks_create(w->ctx, &chunks), MLA_OK);
    assert_int_equal(mla_chunks_plan(chunks, prefix, 5, 4, 0, &p), MLA_OK);
    assert_int_equal(p.count, 0); /* no prefix: nothing to cut */
    assert_int_equal(mla_chunks_plan(chunks, NULL, 0, 4, 0, &p), MLA_OK);
    assert_int_equal(mla_chunks_plan(chunks, some, 5, 4, 0, &p), MLA_RANGE);
    says(w, "a capacity of 4 tokens has no token for each of 5 rows");
    assert_int_equal(mla_chunks_plan(chunks, some, 5, 319, 64, &p), MLA_RANGE);
    says(w, "no page for each of 5 rows");
    assert_int_equal(mla_chunks_plan(chunks, some, 5, 500, 64, &p), MLA_OK);
    assert_int_equal(p.chunk_len, 64); /* 100, in whole pages */
    assert_int_equal(p.count, 3);
    assert_int_equal(p.lens[2 * 5 + 4], 2);
    assert_int_equal(mla_chunks_plan(chunks, negative, 2, 64, 0, &p),
                     MLA_RANGE);
    says(w, "row 1: prefix -1");
    assert_null(p.block);
    assert_int_equal(mla_chunks_plan(chunks, some, 5, (int64_t)1 << 31, 0, &p),
                     MLA_INVALID_ARGUMENT);
    mla_chunks_free(chunks);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(worked_examples_come_out_as_worked),
        TEST(every_backend_absorbs_what_is_no_plain_extend),
        TEST(plain_extends_of_all_kinds_are_alike),
        TEST(captured_graphs_are_absorbed_except_by_aiter_and_fa4),
        TEST(context_parallel_prefill_is_absorbed_by_common_rules),
        TEST(thresholds_are_parameters),
        TEST(ragged_is_a_matter_of_flashinfer_and_flashmla),
        TEST(a_backend_without_chunked_prefix_loses_it),
        TEST(fa4_knows_the_absorbed_form_on_sm100_only),
        TEST(deterministic_inference_is_absorbed_or_refused),
        TEST(aiter_reads_the_prefix_itself),
        TEST(chunks_have_no_form_on_hip),
        TEST(the_cpu_has_a_fused_absorbed_form),
        TEST(sparse_layers_prefill_densely_while_short),
        TEST(ascend_has_methods_of_its_own),
        TEST(decode_and_prefill_may_have_different_backends),
        TEST(page_sizes_and_trees_are_as_each_backend_wants),
        TEST(an_unknown_backend_is_an_error_that_names_the_known),
        TEST(a_negative_length_is_named),
        TEST(sums_are_64_bit),
        TEST(a_batch_without_work_is_absorbed_by_every_backend),
        TEST(a_decision_says_why),
        TEST(methods_have_names_meanings_and_a_form),
        TEST(chunks_come_out_as_worked),
        TEST(chunk_edges_are_defined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
