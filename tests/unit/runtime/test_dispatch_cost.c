/* SPDX-License-Identifier: Apache-2.0
 *
 * The policy "cost" against formulas worked by hand and against a search of
 * every assignment of forms to rows.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "internal.h"

/* A device without a memory bound: time is arithmetic. */
static const mla_device_profile pure = {
    sizeof(pure), "pure", 1e15, 1e30, 0, 1, 1, 1, 1};

struct world {
    mla_context *ctx;
    mla_policy *policy;
};

static int set_up(void **state)
{
    static struct world w;
    w.policy = NULL;
    *state = &w;
    return mla_context_create(NULL, &w.ctx);
}

static int tear_down(void **state)
{
    struct world *w = *state;
    mla_policy_free(w->policy);
    mla_context_destroy(w->ctx);
    return 0;
}

static mla_policy *make(struct world *w, const mla_device_profile *profile)
{
    mla_policy_options o = MLA_POLICY_OPTIONS_INIT;
    o.prefill = "cost";
    o.profile = profile;
    mla_policy_free(w->policy);
    assert_int_equal(mla_policy_create(w->ctx, &o, &w->policy), MLA_OK);
    return w->policy;
}

static mla_decision decide(struct world *w, int rows, const int32_t *prefix,
                           const int32_t *fresh, mla_method *methods)
{
    mla_decision d = {.size = sizeof(d)};
    mla_batch b = {sizeof(b), MLA_MODE_MIXED, rows, prefix, fresh, 0, 0};
    assert_int_equal(mla_dispatch(w->policy, &b, methods, &d), MLA_OK);
    return d;
}

static bool absorbs(struct world *w, int32_t prefix, int32_t fresh)
{
    return decide(w, 1, &prefix, &fresh, NULL).method == MLA_METHOD_MLA;
}

/* [B92] DeepSeek-V3: A / (B - N) = 512 * 256 / (1088 - 320) = 170.67.  The
 * forms meet where pairs = prefix * 170.67: at T = 170.56 behind 131072
 * tokens, at T = 109.8 behind 100, and never without a prefix. */
static void forms_meet_where_the_formulas_say(void **state)
{
    struct world *w = *state;
    make(w, &pure);
    assert_true(absorbs(w, 131072, 1));
    assert_true(absorbs(w, 131072, 170));
    assert_false(absorbs(w, 131072, 171));
    assert_false(absorbs(w, 131072, 2048));
    assert_true(absorbs(w, 100, 1));
    assert_true(absorbs(w, 100, 109));
    assert_false(absorbs(w, 100, 110));
    for (int32_t t = 1; t < 5000; t = 3 * t)
        assert_false(absorbs(w, 0, t));
}

/* A latent narrower than a head: absorbed is never dearer behind a prefix. */
static void a_narrow_latent_is_always_absorbed(void **state)
{
    struct world *w = *state;
    mla_policy_options o = MLA_POLICY_OPTIONS_INIT;
    mla_cost_model narrow = {sizeof(narrow), 9, 64, 32, 64, 32, 2};
    o.prefill = "cost";
    o.profile = &pure;
    o.model = &narrow;
    assert_int_equal(mla_policy_create(w->ctx, &o, &w->policy), MLA_OK);
    assert_true(absorbs(w, 1, 4096));
    assert_true(absorbs(w, 100000, 4096));
}

/* [B28] The form of a row follows from its own length and context, whatever
 * its neighbours are and in whatever order they come. */
static void rows_are_judged_by_themselves(void **state)
{
    struct world *w = *state;
    const int32_t context[] = {0, 0, 900, 100, 100, 0, 7};
    const int32_t fresh[] = {4, 4, 1, 4, 4, 4, 5};
    const int32_t reversed_context[] = {7, 0, 100, 100, 900, 0, 0};
    const int32_t reversed_fresh[] = {5, 4, 4, 4, 1, 4, 4};
    mla_method methods[7], reversed[7];

    make(w, &pure);
    assert_int_equal(decide(w, 7, context, fresh, methods).split, 1);
    decide(w, 7, reversed_context, reversed_fresh, reversed);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(methods[i],
                         context[i] ? MLA_METHOD_MLA : MLA_METHOD_MHA);
        assert_int_equal(reversed[6 - i], methods[i]);
    }
}

/* [B92] One long prompt and three decodes, also in an order of decodes. */
static void a_long_prompt_and_decodes_are_split(void **state)
{
    struct world *w = *state;
    const int32_t context[] = {0, 131072, 131072, 131072};
    const int32_t fresh[] = {131072, 1, 1, 1};
    mla_method methods[4];
    mla_decision d;

    make(w, NULL);
    d = decide(w, 4, context, fresh, methods);
    assert_int_equal(d.split, 1);
    assert_int_equal(d.method, MLA_METHOD_MHA);
    assert_int_equal(d.absorbed_rows, 3);
    assert_int_equal(methods[0], MLA_METHOD_MHA);
    for (int i = 1; i < 4; i++)
        assert_int_equal(methods[i], MLA_METHOD_MLA);
    assert_true(d.time < d.normal_time && d.time < d.absorbed_time);
}

/* Two passes over the weights cost more than what four tokens save. */
static void a_split_that_saves_nothing_is_not_made(void **state)
{
    struct world *w = *state;
    const int32_t context[] = {0, 7}, fresh[] = {4, 5};
    mla_method methods[2];
    make(w, NULL);
    assert_int_equal(decide(w, 2, context, fresh, methods).split, 0);
    assert_int_equal(methods[0], methods[1]);
}

static void decode_on_a_real_device_is_absorbed(void **state)
{
    struct world *w = *state;
    const mla_device_profile *p;
    for (int i = 0; (p = mla_profile_at(i)) != NULL; i++) {
        make(w, p);
        for (int32_t context = 256; context < 200000; context *= 3)
            assert_true(absorbs(w, context, 1));
        assert_false(absorbs(w, 0, 4096));
    }
}

static void graphs_and_determinism_fix_the_form(void **state)
{
    struct world *w = *state;
    mla_policy_options o = MLA_POLICY_OPTIONS_INIT;
    mla_decision d = {.size = sizeof(d)};
    int32_t prefix = 0, fresh = 4096;
    mla_batch b = {sizeof(b), MLA_MODE_EXTEND, 1, &prefix, &fresh, 1, 0};

    make(w, NULL);
    assert_int_equal(mla_dispatch(w->policy, &b, NULL, &d), MLA_OK);
    assert_int_equal(d.method, MLA_METHOD_MLA);
    assert_string_equal(d.reason, "inside a captured graph");
    mla_policy_free(w->policy);
    o.prefill = "cost";
    o.deterministic = 1;
    assert_int_equal(mla_policy_create(w->ctx, &o, &w->policy), MLA_OK);
    assert_true(absorbs(w, 0, 4096));
}

/* The form of the expanded rows follows their figures, not the batch's. */
static void expanded_rows_take_one_shot_or_chunks(void **state)
{
    struct world *w = *state;
    const int32_t one[] = {1000, 60000}, more[] = {1000, 140000};
    const int32_t fresh[] = {4096, 1}, many[] = {4096, 4096};
    mla_method methods[2];

    make(w, &pure);
    decide(w, 2, one, fresh, methods);
    assert_int_equal(methods[0], MLA_METHOD_MHA_ONE_SHOT);
    assert_int_equal(methods[1], MLA_METHOD_MLA);
    decide(w, 2, more, fresh, methods); /* the rest is beyond the capacity */
    assert_int_equal(methods[0], MLA_METHOD_MHA_ONE_SHOT);
    decide(w, 2, more, many, methods);
    assert_int_equal(methods[0], MLA_METHOD_MHA_CHUNKED_KV);
    assert_int_equal(methods[1], MLA_METHOD_MHA_CHUNKED_KV);
}

/* The formulas of docs/dispatch.md, written out a second time for DeepSeek-V3
 * on an H200: widths 128 * 320, row 576, A = 2^24. */
static double normal_time(double prefix, double t)
{
    double s = prefix + t, pairs = t * prefix + t * (t + 1) / 2;
    double byte = 1 / (4.8e12 * 0.85);
    double expand =
        fmax(2 * 16777216 * s / (989e12 * 0.75), 2 * s * (576 + 40960) * byte);
    return expand + fmax(2 * 40960 * pairs / (989e12 * 0.65),
                         2 * (s + t) * 40960 * byte);
}

static double absorbed_time(double prefix, double t)
{
    double s = prefix + t, pairs = t * prefix + t * (t + 1) / 2;
    double byte = 1 / (4.8e12 * 0.85);
    double absorb = fmax(2 * 16777216 * t / (989e12 * 0.75),
                         2 * t * 128 * (128 + 1024 + 128) * byte);
    return absorb + fmax(2 * 128 * 1088 * pairs / (989e12 * 0.65),
                         2 * (s * 576 + t * 128 * 1088) * byte);
}

static double fixed_time(void)
{
    return 2 * 16777216 / (4.8e12 * 0.85) + 4 * 3e-6;
}

/* Every assignment of forms to rows; a form that is used costs once. */
static double best_time(int rows, const int32_t *prefix, const int32_t *fresh)
{
    double best = 1e9;
    for (unsigned mask = 0; mask < 1u << rows; mask++) {
        double time = mask ? fixed_time() : 0;
        if (mask != (1u << rows) - 1)
            time += fixed_time();
        for (int i = 0; i < rows; i++)
            time += mask >> i & 1 ? normal_time(prefix[i], fresh[i])
                                  : absorbed_time(prefix[i], fresh[i]);
        best = fmin(best, time);
    }
    return best;
}

static void no_assignment_is_predicted_faster(void **state)
{
    struct world *w = *state;
    uint32_t random = 12345;
    int splits = 0;

    make(w, mla_profile_find("H200"));
    for (int round = 0; round < 2000; round++) {
        int32_t prefix[6], fresh[6];
        int rows;
        double want;
        mla_decision d;
        random = random * 1664525 + 1013904223;
        rows = 1 + (int)(random >> 16) % 6;
        for (int i = 0; i < rows; i++) {
            random = random * 1664525 + 1013904223;
            prefix[i] = (int32_t)((random >> 8) % (1u << (random >> 28)));
            fresh[i] =
                1 + (int32_t)((random >> 4) % (1u << (random >> 29)) * 31);
        }
        want = best_time(rows, prefix, fresh);
        d = decide(w, rows, prefix, fresh, NULL);
        assert_true(fabs(d.time - want) < 1e-6 * want);
        splits += d.split;
    }
    assert_true(splits > 50);
}

static void a_cost_decision_shows_its_times(void **state)
{
    struct world *w = *state;
    const int32_t context[] = {0, 131072}, fresh[] = {131072, 1};
    mla_decision d;
    char text[256];

    make(w, NULL);
    d = decide(w, 2, context, fresh, NULL);
    mla_dispatch_reason(w->policy, &d, text, sizeof(text));
    assert_non_null(strstr(text, "cost, MIXED of 2 rows, prefix 131072 + new "
                                 "131073 = 262145: each row in its faster "
                                 "form -> MHA (expanded "));
    assert_non_null(strstr(text, " with 1 of 2 rows absorbed)"));
}

static void an_impossible_model_or_profile_is_refused(void **state)
{
    struct world *w = *state;
    mla_policy_options o = MLA_POLICY_OPTIONS_INIT;
    mla_cost_model no_heads = {sizeof(no_heads), 0, 128, 64, 128, 512, 2};
    mla_device_profile no_speed = pure;

    o.prefill = "cost";
    o.model = &no_heads;
    assert_int_equal(mla_policy_create(w->ctx, &o, &w->policy),
                     MLA_INVALID_ARGUMENT);
    assert_non_null(strstr(mla_last_error(w->ctx), "0 heads"));
    o.model = NULL;
    no_speed.flops = 0;
    o.profile = &no_speed;
    assert_int_equal(mla_policy_create(w->ctx, &o, &w->policy),
                     MLA_INVALID_ARGUMENT);
    assert_non_null(strstr(mla_last_error(w->ctx), "0 FLOP/s"));
    assert_null(mla_profile_find("h300"));
    assert_null(mla_profile_find(NULL));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(forms_meet_where_the_formulas_say),
        TEST(a_narrow_latent_is_always_absorbed),
        TEST(rows_are_judged_by_themselves),
        TEST(a_long_prompt_and_decodes_are_split),
        TEST(a_split_that_saves_nothing_is_not_made),
        TEST(decode_on_a_real_device_is_absorbed),
        TEST(graphs_and_determinism_fix_the_form),
        TEST(expanded_rows_take_one_shot_or_chunks),
        TEST(no_assignment_is_predicted_faster),
        TEST(a_cost_decision_shows_its_times),
        TEST(an_impossible_model_or_profile_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
