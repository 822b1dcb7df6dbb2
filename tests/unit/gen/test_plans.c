/* SPDX-License-Identifier: Apache-2.0
 *
 * test_plans.c: what the plans of the elementwise and absorb kernels promise,
 * whatever the geometry: the argument structs are the ABI, every head and
 * column has exactly one owner, launches stay inside the hardware's limits.
 *
 * The structs below are the ABI written a second time, as C; the compiler's
 * offsets are the judge of those that the plans compute.
 */
#include "plans.h"

struct kv_append {
    const void *latent;
    int64_t latent_stride;
    const void *k_rope;
    int64_t k_rope_stride;
    const void *norm_weight;
    float norm_eps;
    const float *cos_sin;
    int64_t cos_sin_stride;
    const int64_t *positions, *slots;
    void *kv_cache;
    int64_t page_stride, row_stride;
    int32_t tokens;
};

struct kv_append_norope {
    const void *latent;
    int64_t latent_stride;
    const void *norm_weight;
    float norm_eps;
    const int64_t *slots;
    void *kv_cache;
    int64_t page_stride, row_stride;
    int32_t tokens;
};

struct kv_gather {
    const void *kv_cache;
    int64_t page_stride, row_stride;
    const int64_t *slots;
    const int32_t *block_table;
    int64_t block_table_stride;
    const int32_t *starts, *cu_seqlens;
    int32_t batch;
    void *latent;
    int64_t latent_stride;
    void *k_rope;
    int64_t k_rope_stride;
    int32_t tokens;
};

struct concat_mla_k {
    const void *k_nope;
    int64_t k_nope_token_stride, k_nope_head_stride;
    const void *k_rope;
    int64_t k_rope_stride;
    void *k;
    int64_t k_token_stride, k_head_stride;
    int32_t tokens;
};

struct derive_weights {
    const void *kv_b;
    int64_t kv_b_row_stride;
    void *w_kc;
    int64_t w_kc_head_stride, w_kc_row_stride;
    int32_t w_kc_transposed;
    void *w_vc;
    int64_t w_vc_head_stride, w_vc_row_stride;
    int32_t w_vc_transposed;
};

struct absorb_q {
    const void *q_nope;
    int64_t q_nope_token_stride, q_nope_head_stride;
    const void *q_rope;
    int64_t q_rope_token_stride, q_rope_head_stride;
    const void *kv_b;
    int64_t kv_b_head_stride, kv_b_row_stride;
    const float *cos_sin;
    int64_t cos_sin_stride;
    const int64_t *positions;
    void *q;
    int64_t q_token_stride, q_head_stride;
    int32_t tokens;
};

struct absorb_v {
    const void *o;
    int64_t o_token_stride, o_head_stride;
    const void *kv_b;
    int64_t kv_b_head_stride, kv_b_row_stride;
    void *out;
    int64_t out_token_stride, out_head_stride;
    int32_t tokens;
};

struct merge_state {
    const void *o_a;
    int64_t o_a_token_stride, o_a_head_stride;
    const void *o_b;
    int64_t o_b_token_stride, o_b_head_stride;
    const float *lse_a;
    int64_t lse_a_token_stride, lse_a_head_stride;
    const float *lse_b;
    int64_t lse_b_token_stride, lse_b_head_stride;
    void *o;
    int64_t o_token_stride, o_head_stride;
    float *lse;
    int64_t lse_token_stride, lse_head_stride;
    int32_t tokens;
};

struct merge_state_n {
    const void *o_parts;
    int64_t o_parts_rank_stride, o_parts_token_stride, o_parts_head_stride;
    const float *lse_parts;
    int64_t lse_parts_rank_stride, lse_parts_token_stride;
    int64_t lse_parts_head_stride;
    void *o;
    int64_t o_token_stride, o_head_stride;
    float *lse;
    int64_t lse_token_stride, lse_head_stride;
    int32_t ranks, tokens;
};

struct kv_b {
    const void *latent;
    int64_t latent_stride;
    const void *kv_b;
    int64_t kv_b_head_stride, kv_b_row_stride;
    void *k_nope;
    int64_t k_nope_token_stride, k_nope_head_stride;
    void *v;
    int64_t v_token_stride, v_head_stride;
    int32_t tokens;
};

struct field {
    const char *name;
    size_t offset;
};

#define F(s, f)                                                                \
    { #f, offsetof(struct s, f) }

static const struct field kv_append_fields[] = {
    F(kv_append, latent),      F(kv_append, latent_stride),
    F(kv_append, k_rope),      F(kv_append, k_rope_stride),
    F(kv_append, norm_weight), F(kv_append, norm_eps),
    F(kv_append, cos_sin),     F(kv_append, cos_sin_stride),
    F(kv_append, positions),   F(kv_append, slots),
    F(kv_append, kv_cache),    F(kv_append, page_stride),
    F(kv_append, row_stride),  F(kv_append, tokens),
};
static const struct field kv_append_norope_fields[] = {
    F(kv_append_norope, latent),      F(kv_append_norope, latent_stride),
    F(kv_append_norope, norm_weight), F(kv_append_norope, norm_eps),
    F(kv_append_norope, slots),       F(kv_append_norope, kv_cache),
    F(kv_append_norope, page_stride), F(kv_append_norope, row_stride),
    F(kv_append_norope, tokens),
};
static const struct field kv_gather_fields[] = {
    F(kv_gather, kv_cache),      F(kv_gather, page_stride),
    F(kv_gather, row_stride),    F(kv_gather, slots),
    F(kv_gather, block_table),   F(kv_gather, block_table_stride),
    F(kv_gather, starts),        F(kv_gather, cu_seqlens),
    F(kv_gather, batch),         F(kv_gather, latent),
    F(kv_gather, latent_stride), F(kv_gather, k_rope),
    F(kv_gather, k_rope_stride), F(kv_gather, tokens),
};
static const struct field concat_mla_k_fields[] = {
    F(concat_mla_k, k_nope),
    F(concat_mla_k, k_nope_token_stride),
    F(concat_mla_k, k_nope_head_stride),
    F(concat_mla_k, k_rope),
    F(concat_mla_k, k_rope_stride),
    F(concat_mla_k, k),
    F(concat_mla_k, k_token_stride),
    F(concat_mla_k, k_head_stride),
    F(concat_mla_k, tokens),
};
static const struct field derive_weights_fields[] = {
    F(derive_weights, kv_b),
    F(derive_weights, kv_b_row_stride),
    F(derive_weights, w_kc),
    F(derive_weights, w_kc_head_stride),
    F(derive_weights, w_kc_row_stride),
    F(derive_weights, w_kc_transposed),
    F(derive_weights, w_vc),
    F(derive_weights, w_vc_head_stride),
    F(derive_weights, w_vc_row_stride),
    F(derive_weights, w_vc_transposed),
};
static const struct field absorb_q_fields[] = {
    F(absorb_q, q_nope),
    F(absorb_q, q_nope_token_stride),
    F(absorb_q, q_nope_head_stride),
    F(absorb_q, q_rope),
    F(absorb_q, q_rope_token_stride),
    F(absorb_q, q_rope_head_stride),
    F(absorb_q, kv_b),
    F(absorb_q, kv_b_head_stride),
    F(absorb_q, kv_b_row_stride),
    F(absorb_q, cos_sin),
    F(absorb_q, cos_sin_stride),
    F(absorb_q, positions),
    F(absorb_q, q),
    F(absorb_q, q_token_stride),
    F(absorb_q, q_head_stride),
    F(absorb_q, tokens),
};
static const struct field absorb_v_fields[] = {
    F(absorb_v, o),
    F(absorb_v, o_token_stride),
    F(absorb_v, o_head_stride),
    F(absorb_v, kv_b),
    F(absorb_v, kv_b_head_stride),
    F(absorb_v, kv_b_row_stride),
    F(absorb_v, out),
    F(absorb_v, out_token_stride),
    F(absorb_v, out_head_stride),
    F(absorb_v, tokens),
};
static const struct field merge_state_fields[] = {
    F(merge_state, o_a),
    F(merge_state, o_a_token_stride),
    F(merge_state, o_a_head_stride),
    F(merge_state, o_b),
    F(merge_state, o_b_token_stride),
    F(merge_state, o_b_head_stride),
    F(merge_state, lse_a),
    F(merge_state, lse_a_token_stride),
    F(merge_state, lse_a_head_stride),
    F(merge_state, lse_b),
    F(merge_state, lse_b_token_stride),
    F(merge_state, lse_b_head_stride),
    F(merge_state, o),
    F(merge_state, o_token_stride),
    F(merge_state, o_head_stride),
    F(merge_state, lse),
    F(merge_state, lse_token_stride),
    F(merge_state, lse_head_stride),
    F(merge_state, tokens),
};

static const struct field merge_state_n_fields[] = {
    F(merge_state_n, o_parts),
    F(merge_state_n, o_parts_rank_stride),
    F(merge_state_n, o_parts_token_stride),
    F(merge_state_n, o_parts_head_stride),
    F(merge_state_n, lse_parts),
    F(merge_state_n, lse_parts_rank_stride),
    F(merge_state_n, lse_parts_token_stride),
    F(merge_state_n, lse_parts_head_stride),
    F(merge_state_n, o),
    F(merge_state_n, o_token_stride),
    F(merge_state_n, o_head_stride),
    F(merge_state_n, lse),
    F(merge_state_n, lse_token_stride),
    F(merge_state_n, lse_head_stride),
    F(merge_state_n, ranks),
    F(merge_state_n, tokens),
};
static const struct field kv_b_fields[] = {
    F(kv_b, latent),
    F(kv_b, latent_stride),
    F(kv_b, kv_b),
    F(kv_b, kv_b_head_stride),
    F(kv_b, kv_b_row_stride),
    F(kv_b, k_nope),
    F(kv_b, k_nope_token_stride),
    F(kv_b, k_nope_head_stride),
    F(kv_b, v),
    F(kv_b, v_token_stride),
    F(kv_b, v_head_stride),
    F(kv_b, tokens),
};

static const struct abi {
    const char *family, *variant;
    size_t size;
    const struct field *fields;
    size_t count;
} abis[] = {
#define ABI(f, v, s)                                                           \
    { #f, v, sizeof(struct s), s##_fields, COUNT(s##_fields) }
    ABI(kv_append, "", kv_append),
    ABI(kv_gather, "", kv_gather),
    ABI(concat_mla_k, "", concat_mla_k),
    ABI(derive_weights, "", derive_weights),
    ABI(absorb_q, "", absorb_q),
    ABI(absorb_v, "", absorb_v),
    ABI(merge_state, "", merge_state),
    ABI(merge_state, "latent", merge_state),
    ABI(kv_b, "", kv_b),
    {"merge_state", "n", sizeof(struct merge_state_n), merge_state_n_fields,
     COUNT(merge_state_n_fields)},
    {"merge_state", "n_latent", sizeof(struct merge_state_n),
     merge_state_n_fields, COUNT(merge_state_n_fields)},
};

/* ---- plans of a spec ----------------------------------------------------- */

struct geometry {
    int heads, latent, nope, rope, v, page;
    const char *style;
};

static const struct geometry v3 = {128, 512, 128, 64, 128, 64, "interleaved"};

/* The kernels array of `mlagen plan --json`; a new reference.  archs is the
 * inside of a YAML list. */
static json_t *plans_of(const struct geometry *g, const char *archs) {
    char *spec = NULL;

    assert_true(asprintf(&spec,
                         "model: some\nheads: %d\nkv_lora_rank: %d\n"
                         "qk_nope_head_dim: %d\nqk_rope_head_dim: %d\n"
                         "v_head_dim: %d\nrope: {style: %s}\n"
                         "kv_cache: {page_size: %d}\narch: [%s]\n",
                         g->heads, g->latent, g->nope, g->rope, g->v, g->style,
                         g->page, archs) > 0);
    return plans_of_spec(spec);
}

/* ---- tests --------------------------------------------------------------- */

static void assert_abi(const json_t *kernels, const struct abi *abi) {
    const json_t *plan = plan_of(kernels, abi->family, abi->variant);
    assert_non_null(plan);
    json_t *args = json_object_get(plan, "args"), *field;
    size_t i;

    assert_int_equal(number(args, "size"), abi->size);
    args = json_object_get(args, "fields");
    assert_int_equal(json_array_size(args), abi->count);
    json_array_foreach(args, i, field) {
        assert_string_equal(text(field, "name"), abi->fields[i].name);
        assert_int_equal(number(field, "offset"), abi->fields[i].offset);
    }
}

static void argument_structs_are_those_of_the_abi(void **state) {
    (void)state;
    json_t *kernels = plans_of(&v3, "sm_80");
    for (size_t i = 0; i < COUNT(abis); i++)
        assert_abi(kernels, &abis[i]);
    json_decref(kernels);
}

static void a_model_without_rotary_part_has_no_rope_arguments(void **state) {
    (void)state;
    static const struct geometry g = {64, 512, 256, 0, 256, 64, "none"};
    static const struct abi abi = ABI(kv_append, "", kv_append_norope);
    json_t *kernels = plans_of(&g, "sm_80");
    assert_abi(kernels, &abi);
    assert_null(plan_of(kernels, "concat_mla_k", ""));
    json_decref(kernels);
}

/* One struct name is one layout, in all models together. */
static void equal_struct_names_mean_equal_layouts(void **state) {
    (void)state;
    static const struct geometry models[] = {
        {128, 512, 128, 64, 128, 64, "interleaved"},
        {96, 512, 128, 64, 128, 64, "none"},
        {64, 512, 256, 0, 256, 64, "none"},
        {40, 256, 64, 32, 64, 64, "neox"},
    };
    json_t *seen = json_object();
    for (size_t m = 0; m < COUNT(models); m++) {
        json_t *kernels = plans_of(&models[m], "sm_80"), *plan, *field;
        size_t i, f;
        json_array_foreach(kernels, i, plan) {
            json_t *args = json_object_get(plan, "args");
            json_t *names = json_array();
            json_array_foreach(json_object_get(args, "fields"), f, field) {
                json_array_append_new(names, json_string(text(field, "name")));
            }
            json_t *before = json_object_get(seen, text(args, "struct"));
            if (before)
                assert_true(json_equal(before, names));
            else
                json_object_set(seen, text(args, "struct"), names);
            json_decref(names);
        }
        json_decref(kernels);
    }
    json_decref(seen);
}

/* Axis limits of every GPU (CUDA C++ Programming Guide, table of technical
 * specifications): x 2^31 - 1, y and z 65,535; 1,024 threads per block. */
static void launches_stay_within_the_hardware(void **state) {
    (void)state;
    static const struct geometry models[] = {
        {1, 16, 16, 16, 16, 1, "neox"},
        {256, 1024, 512, 128, 512, 256, "interleaved"},
        {127, 48, 80, 48, 144, 2, "neox"},
    };
    for (size_t m = 0; m < COUNT(models); m++) {
        json_t *kernels = plans_of(&models[m], "sm_80, sm_90"), *plan, *axis;
        size_t i, a, f;
        json_array_foreach(kernels, i, plan) {
            json_t *launch = json_object_get(plan, "launch"), *factor, *n;
            int threads = 1;
            json_array_foreach(json_object_get(launch, "block"), a, n) {
                threads *= json_integer_value(n);
            }
            assert_true(threads >= 32 && threads <= 1024 && threads % 32 == 0);
            json_array_foreach(json_object_get(launch, "grid"), a, axis) {
                int limit = a == 0 ? 2147483647 : 65535, fixed = 1;
                assert_true(number(axis, "max") <= limit);
                json_array_foreach(json_object_get(axis, "factors"), f,
                                   factor) {
                    if (json_object_get(factor, "const"))
                        fixed *= number(factor, "const");
                }
                assert_true(fixed >= 1 && fixed <= limit);
            }
        }
        json_decref(kernels);
    }
}

/* The runs of heads that warps copy tile 0 .. heads - 1: none is left out, and
 * no warp lies wholly beyond the last head. */
static void concat_gives_every_head_to_one_warp(void **state) {
    (void)state;
    for (int heads = 1; heads <= 256; heads += heads < 40 ? 1 : 9) {
        static const int widths[] = {16, 64, 80, 128, 192, 512};
        for (size_t w = 0; w < COUNT(widths); w++) {
            struct geometry g = v3;
            g.heads = heads;
            g.nope = widths[w];
            json_t *kernels = plans_of(&g, "sm_80");
            json_t *plan = plan_of(kernels, "concat_mla_k", "");
            json_t *t = json_object_get(plan, "tile");
            int run = number(t, "heads_per_warp");
            int runs = number(t, "groups");

            assert_true(runs * run >= heads && (runs - 1) * run < heads);
            assert_int_equal(number(t, "lanes") * number(t, "chunks") * 8,
                             g.nope);
            assert_int_equal(number(t, "lanes") * number(t, "heads_per_step"),
                             32);
            json_decref(kernels);
        }
    }
}

/* Rows of a merge block are whole tokens: no lane is idle at any head count. */
static void merge_blocks_hold_whole_tokens(void **state) {
    (void)state;
    for (int heads = 1; heads <= 256; heads++) {
        struct geometry g = v3;
        g.heads = heads;
        json_t *kernels = plans_of(&g, "sm_80");
        json_t *t =
            json_object_get(plan_of(kernels, "merge_state", ""), "tile");
        assert_int_equal(number(t, "blocks") * number(t, "rows_per_cta"),
                         number(t, "tokens_per_block") * heads);
        json_decref(kernels);
    }
}

/* Shared memory of an SM, less 1 KiB per block, and what a block may ask for
 * (CUDA C++ Programming Guide, compute capabilities 8.0 and 12.0). */
static void assert_kv_b_fits(const json_t *plan, int sm, int optin)
{
    json_t *t = json_object_get(plan, "tile");
    int bytes = number(t, "stages") * number(t, "stage");

    assert_int_equal(
        number(json_object_get(plan, "launch"), "smem_dynamic"), bytes);
    assert_true(bytes <= optin);
    assert_true(number(t, "ctas") * (bytes + 1024) <= sm);
    assert_true(number(t, "stages") >= 2);
    assert_int_equal(number(t, "steps") * number(t, "depth"),
                     number(json_object_get(plan, "dims"), "latent"));
    /* an odd number of 16-byte units per row */
    assert_int_equal(number(t, "stride") % 32, 16);
}

/* Every column tile belongs to one group, and CTAs are numbered in 32 bits
 * however many tokens there are. */
static void assert_kv_b_covers(const json_t *plan, int columns)
{
    json_t *t = json_object_get(plan, "tile");
    int tiles = number(t, "column_tiles"), walk = number(t, "walk");
    int groups = number(t, "groups"), rows = number(t, "rows");

    assert_true(tiles * number(t, "columns") >= columns);
    assert_true((tiles - 1) * number(t, "columns") < columns);
    assert_true(groups * walk >= tiles && (groups - 1) * walk < tiles);
    assert_true((2147483647 / rows + 1) * groups <= 4294967295);
}

static void kv_b_fits_and_covers_any_geometry(void **state)
{
    static const int widths[][2] = {{128, 128}, {192, 256}, {16, 32},
                                    {512, 512}, {64, 64},   {96, 128}};
    (void)state;
    for (int latent = 16; latent <= 1024; latent += 16) {
        size_t w = (size_t)latent / 16 % COUNT(widths);
        struct geometry g = v3;
        g.latent = latent;
        g.heads = 1 + latent * 7 % 256;
        g.nope = widths[w][0];
        g.v = widths[w][1];
        json_t *kernels = plans_of(&g, "sm_80");
        assert_kv_b_fits(plan_of(kernels, "kv_b", ""), 167936, 166912);
        assert_kv_b_covers(plan_of(kernels, "kv_b", ""),
                           (json_int_t)g.heads * (g.nope + g.v));
        json_decref(kernels);
        kernels = plans_of(&g, "sm_120");
        assert_kv_b_fits(plan_of(kernels, "kv_b", ""), 102400, 101376);
        json_decref(kernels);
    }
}

static void only_sm_90_and_later_wait_for_their_predecessor(void **state) {
    (void)state;
    json_t *kernels = plans_of(&v3, "sm_80, sm_86, sm_89, sm_90, sm_100, "
                                    "sm_120");
    json_t *plan;
    size_t i;
    json_array_foreach(kernels, i, plan) {
        if (strtol(text(plan, "arch") + 3, NULL, 10) < 90)
            assert_false(json_is_true(
                json_object_get(json_object_get(plan, "launch"), "pdl")));
    }
    json_decref(kernels);
}

/* mla_<family>[_<variant>]_<model>_<dtype>_h<heads>_p<page>_<arch> */
static void symbols_name_everything_that_differs(void **state) {
    (void)state;
    json_t *kernels = plans_of(&v3, "sm_80"), *plan;
    size_t i;
    json_array_foreach(kernels, i, plan) {
        char want[256];
        const char *variant = text(plan, "variant");
        snprintf(want, sizeof want, "mla_%s%s%s_some_bf16_h128_p64_sm_80",
                 text(plan, "family"), *variant ? "_" : "", variant);
        assert_string_equal(text(plan, "symbol"), want);
        snprintf(want, sizeof want, "src/%s.cu", text(plan, "symbol"));
        assert_string_equal(text(plan, "source"), want);
    }
    json_decref(kernels);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(argument_structs_are_those_of_the_abi),
        cmocka_unit_test(a_model_without_rotary_part_has_no_rope_arguments),
        cmocka_unit_test(equal_struct_names_mean_equal_layouts),
        cmocka_unit_test(launches_stay_within_the_hardware),
        cmocka_unit_test(concat_gives_every_head_to_one_warp),
        cmocka_unit_test(merge_blocks_hold_whole_tokens),
        cmocka_unit_test(kv_b_fits_and_covers_any_geometry),
        cmocka_unit_test(only_sm_90_and_later_wait_for_their_predecessor),
        cmocka_unit_test(symbols_name_everything_that_differs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
