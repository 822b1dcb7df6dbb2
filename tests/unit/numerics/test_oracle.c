/* SPDX-License-Identifier: Apache-2.0
 *
 * The oracle against cases that were worked out by hand or published.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "oracle.h"

static void near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%.12g is not %.12g +- %g", got, want, tolerance);
}

/* DeepSeek-V3: YaRN, factor 40 over 4,096 tokens, rope 64. */
static struct oracle_rope deepseek(void)
{
    return (struct oracle_rope){.style = ORACLE_INTERLEAVED,
                                .dim = 64,
                                .theta = 10000,
                                .scaling = ORACLE_YARN,
                                .factor = 40,
                                .original = 4096,
                                .beta_fast = 32,
                                .beta_slow = 1,
                                .mscale = 1,
                                .mscale_all_dim = 1,
                                .attention_factor = NAN,
                                .apply_scale = true};
}

/* RMSNorm ---------------------------------------------------------------- */

static void rmsnorm_divides_by_the_root_mean_square(void **state)
{
    const double x[] = {3, -4, 0, 0}, w[] = {1, 2, 3, 4};
    double y[4];
    (void)state;
    /* mean of squares 25/4, root 2.5 */
    oracle_rmsnorm(x, NULL, 4, 0, y);
    near(y[0], 1.2, 1e-15);
    near(y[1], -1.6, 1e-15);
    oracle_rmsnorm(x, w, 4, 0, y);
    near(y[1], -3.2, 1e-15);
    /* 25/4 + 0.75 = 7 */
    oracle_rmsnorm(x, w, 4, 0.75, y);
    near(y[0], 3 / sqrt(7), 1e-15);
    near(y[2], 0, 0);
}

/* Scale ------------------------------------------------------------------ */

/* The published configs' softmax scales; the first two also appear, with
 * what goes wrong instead, in onnxruntime/mobius#548. */
static void softmax_scales_are_those_of_the_models(void **state)
{
    struct oracle_rope r = deepseek();
    (void)state;
    near(oracle_softmax_scale(&r, 128), 0.13523378, 5e-9);
    r.mscale = r.mscale_all_dim = 0.707; /* V2-Lite */
    near(oracle_softmax_scale(&r, 128), 0.11472139, 5e-9);
    r = deepseek();
    r.factor = 32; /* Kimi-K2 */
    near(oracle_softmax_scale(&r, 128), 0.1308608, 5e-8);
    r.factor = 64; /* Kimi-K2-Thinking */
    near(oracle_softmax_scale(&r, 128), 0.14467963, 5e-9);
    r.apply_scale = false; /* Mistral-Large-3 */
    near(oracle_softmax_scale(&r, 128), 0.07216878, 5e-9);
    r.scaling = ORACLE_PLAIN; /* GLM: 192 + 64 */
    near(oracle_softmax_scale(&r, 192), 0.0625, 1e-15);
    r.dim = 32; /* MiniCPM3: 64 + 32; longrope does not scale the softmax */
    r.scaling = ORACLE_LONGROPE;
    near(oracle_softmax_scale(&r, 64), 0.10206207, 5e-9);
}

/* Two keys with raw scores 0 and 10: the second one's weight is
 * sigmoid(10 scale). */
static void a_missing_multiplier_would_show_in_two_keys(void **state)
{
    struct oracle_rope r = deepseek();
    double weight = 1 / (1 + exp(-10 * oracle_softmax_scale(&r, 128)));
    (void)state;
    near(weight, 0.7945, 5e-5);
    r.scaling = ORACLE_PLAIN;
    weight = 1 / (1 + exp(-10 * oracle_softmax_scale(&r, 128)));
    near(weight, 0.6730, 5e-5);
}

/* Mistral: beta 0.1 over 8,192 positions.  ln 2 = 0.693147, ln 4 = 1.386294. */
static void the_factor_of_q_steps_at_multiples_of_the_context(void **state)
{
    (void)state;
    near(oracle_position_factor(0.1, 8192, 0), 1, 0);
    near(oracle_position_factor(0.1, 8192, 8191), 1, 0);
    near(oracle_position_factor(0.1, 8192, 8192), 1.0693147, 1e-7);
    near(oracle_position_factor(0.1, 8192, 3 * 8192 + 4), 1.1386294, 1e-7);
}

static void magnitude_is_one_without_extension(void **state)
{
    (void)state;
    near(oracle_magnitude(40, 1), 1.368888, 5e-7);
    near(oracle_magnitude(1, 1), 1, 0);
    near(oracle_magnitude(0.5, 1), 1, 0);
    near(oracle_magnitude(40, 0), 1, 0);
}

static void cos_and_sin_are_scaled_by_the_ratio_of_magnitudes(void **state)
{
    struct oracle_rope r = deepseek();
    (void)state;
    near(oracle_cos_factor(&r), 1, 0);
    r.mscale_all_dim = 0;
    near(oracle_cos_factor(&r), 1.368888, 5e-7);
    r.attention_factor = 0.5;
    near(oracle_cos_factor(&r), 0.684444, 5e-7);
    r.apply_scale = false;
    near(oracle_cos_factor(&r), 1, 0);
}

/* Rotation --------------------------------------------------------------- */

static void plain_angles_fall_by_powers_of_theta(void **state)
{
    struct oracle_rope r = deepseek();
    (void)state;
    r.scaling = ORACLE_PLAIN;
    near(oracle_frequency(&r, 0, false), 1, 0);
    near(oracle_frequency(&r, 16, false), 0.01, 1e-15);
    near(oracle_frequency(&r, 8, false), 0.1, 1e-15);
    r.scaling = ORACLE_LINEAR;
    r.factor = 4;
    near(oracle_frequency(&r, 16, false), 0.0025, 1e-15);
}

/* 32 rotations over 4,096 tokens: pair 64 ln(4096 / 64 pi) / (2 ln 1e4) =
 * 10.47, so low is 10; 1 rotation: 22.51, so high is 23. */
static void yarn_keeps_fast_pairs_and_interpolates_slow_ones(void **state)
{
    struct oracle_rope r = deepseek(), plain = r;
    (void)state;
    plain.scaling = ORACLE_PLAIN;
    for (int i = 0; i <= 10; i++)
        near(oracle_frequency(&r, i, false),
             oracle_frequency(&plain, i, false), 0);
    for (int i = 23; i < 32; i++)
        near(oracle_frequency(&r, i, false),
             oracle_frequency(&plain, i, false) / 40, 1e-18);
    /* pair 11 has gone 1/13 of the way from 1 to 1/40 */
    near(oracle_frequency(&r, 11, false) / oracle_frequency(&plain, 11, false),
         1 - (1 - 1 / 40.0) / 13, 1e-14);
    near(oracle_frequency(&r, 22, false) / oracle_frequency(&plain, 22, false),
         1 - (1 - 1 / 40.0) * 12 / 13, 1e-14);
}

/* Equal betas leave no ramp: the ramp's width becomes a thousandth. */
static void yarn_survives_equal_betas(void **state)
{
    struct oracle_rope r = deepseek(), plain = r;
    (void)state;
    plain.scaling = ORACLE_PLAIN;
    r.original = 64 * 3.14159265358979323846; /* both bounds are pair 0 */
    r.beta_fast = r.beta_slow = 32;
    near(oracle_frequency(&r, 0, false), 1, 1e-12);
    near(oracle_frequency(&r, 1, false),
         oracle_frequency(&plain, 1, false) / 40, 1e-15);
}

static void longrope_divides_each_pair_by_its_own_factor(void **state)
{
    const double shorter[] = {1, 2}, longer[] = {1, 8};
    struct oracle_rope r = deepseek();
    (void)state;
    r.dim = 4;
    r.scaling = ORACLE_LONGROPE;
    r.short_factor = shorter;
    r.long_factor = longer;
    near(oracle_frequency(&r, 1, false), 0.005, 1e-17);
    near(oracle_frequency(&r, 1, true), 0.00125, 1e-17);
    near(oracle_frequency(&r, 0, true), 1, 0);
    /* sqrt(1 + ln 8 / ln 4096) = sqrt(1.25) */
    r.factor = 8;
    near(oracle_cos_factor(&r), sqrt(1.25), 1e-15);
    r.factor = NAN;
    r.max_position = 4096 * 8;
    near(oracle_cos_factor(&r), sqrt(1.25), 1e-15);
    r.max_position = 4096;
    near(oracle_cos_factor(&r), 1, 0);
}

/* Position 1 turns pair 0 by one radian. */
static void basis_vectors_land_on_their_partner(void **state)
{
    struct oracle_rope r = deepseek();
    double row[64], x[64] = {0}, y[64];
    (void)state;
    r.scaling = ORACLE_PLAIN;
    oracle_rope_row(&r, 1, false, row);
    near(row[0], cos(1), 1e-15);
    near(row[32], sin(1), 1e-15);
    x[0] = 1;
    oracle_rotate(ORACLE_INTERLEAVED, 64, x, row, y, NULL);
    near(y[0], cos(1), 1e-15);
    near(y[1], sin(1), 1e-15);
    near(y[32], 0, 0);
    oracle_rotate(ORACLE_NEOX, 64, x, row, y, NULL);
    near(y[0], cos(1), 1e-15);
    near(y[1], 0, 0);
    near(y[32], sin(1), 1e-15);
    /* e_1 is the second of pair 0, or the first of pair 1 */
    x[0] = 0;
    x[1] = 1;
    oracle_rotate(ORACLE_INTERLEAVED, 64, x, row, y, NULL);
    near(y[0], -sin(1), 1e-15);
    near(y[1], cos(1), 1e-15);
    oracle_rotate(ORACLE_NEOX, 64, x, row, y, NULL);
    near(y[1], cos(pow(1e4, -1.0 / 32)), 1e-15);
    near(y[33], sin(pow(1e4, -1.0 / 32)), 1e-15);
    oracle_rotate(ORACLE_NO_ROPE, 64, x, row, y, NULL);
    near(y[1], 1, 0);
}

/* Rotated vectors' products depend on the distance alone. */
static void only_the_distance_of_positions_counts(void **state)
{
    struct oracle_rope r = deepseek();
    double a[64], b[64], q[64], k[64], rq[64], rk[64], near_dot = 0,
           far_dot = 0;
    (void)state;
    for (int i = 0; i < 64; i++) {
        q[i] = sin(i + 1);
        k[i] = cos(3 * i);
    }
    oracle_rope_row(&r, 5, false, a);
    oracle_rope_row(&r, 2, false, b);
    oracle_rotate(ORACLE_NEOX, 64, q, a, rq, NULL);
    oracle_rotate(ORACLE_NEOX, 64, k, b, rk, NULL);
    for (int i = 0; i < 64; i++)
        near_dot += rq[i] * rk[i];
    oracle_rope_row(&r, 1005, false, a);
    oracle_rope_row(&r, 1002, false, b);
    oracle_rotate(ORACLE_NEOX, 64, q, a, rq, NULL);
    oracle_rotate(ORACLE_NEOX, 64, k, b, rk, NULL);
    for (int i = 0; i < 64; i++)
        far_dot += rq[i] * rk[i];
    near(far_dot, near_dot, 1e-10);
}

/* Product ---------------------------------------------------------------- */

static void products_and_their_magnitudes_add_up(void **state)
{
    const double x[] = {1, -2, 0.5};
    float w[3 * 16];
    double y[16], size[16];
    (void)state;
    for (int k = 0; k < 3; k++)
        for (int n = 0; n < 16; n++)
            w[k * 16 + n] = (float)(10 * k + n);
    oracle_product(x, w, 3, 16, y, size);
    for (int n = 0; n < 16; n++) {
        near(y[n], n - 2 * (10 + n) + 0.5 * (20 + n), 1e-12);
        near(size[n], n + 2 * (10 + n) + 0.5 * (20 + n), 1e-12);
    }
}

/* Merge ------------------------------------------------------------------ */

/* Z = 2 with value 0 and Z = 8 with value 1 make 0.8; a wrong base makes
 * 0.8808 or 0.7233. */
static void partition_sums_are_weighted_in_the_stated_base(void **state)
{
    double a, b, lse;
    (void)state;
    oracle_merge(log(2), log(8), exp(1), -INFINITY, &a, &b, &lse);
    near(b, 0.8, 1e-15);
    near(a + b, 1, 1e-15);
    near(lse, log(10), 1e-14);
    oracle_merge(1, 3, 2, -INFINITY, &a, &b, &lse);
    near(b, 0.8, 1e-15);
    near(lse, log2(10), 1e-14);
    /* 3,072 keys and 64, all logits equal */
    oracle_merge(log(3072), log(64), exp(1), -INFINITY, &a, &b, &lse);
    near(b, 64 / 3136.0, 1e-15);
}

static void an_empty_side_is_the_identity(void **state)
{
    static const double empties[] = {-INFINITY, INFINITY, NAN};
    double a, b, lse;
    (void)state;
    for (int i = 0; i < 3; i++) {
        oracle_merge(empties[i], 1.25, exp(1), -INFINITY, &a, &b, &lse);
        near(a, 0, 0);
        near(b, 1, 0);
        near(lse, 1.25, 0);
        oracle_merge(-7, empties[i], exp(1), -INFINITY, &a, &b, &lse);
        near(a, 1, 0);
        near(b, 0, 0);
        near(lse, -7, 0);
        for (int k = 0; k < 3; k++) {
            oracle_merge(empties[i], empties[k], 2, INFINITY, &a, &b, &lse);
            near(a, 0, 0);
            near(b, 0, 0);
            assert_true(lse == INFINITY);
        }
    }
}

static void huge_scores_do_not_overflow(void **state)
{
    double a, b, lse;
    (void)state;
    oracle_merge(3e4, 3e4, exp(1), -INFINITY, &a, &b, &lse);
    near(a, 0.5, 1e-15);
    near(lse, 3e4 + log(2), 1e-10);
    oracle_merge(3e4, -3e4, exp(1), -INFINITY, &a, &b, &lse);
    near(a, 1, 0);
    near(b, 0, 0);
    near(lse, 3e4, 0);
}

/* Ranks with Z = 1, 2, none and 5: shares of eighths; none at all. */
static void many_partition_sums_are_weighted_alike(void **state)
{
    const double lse[] = {0, 1, NAN, log2(5)};
    double weight[4], out;
    (void)state;
    oracle_merge_n(lse, 4, 2, -INFINITY, weight, &out);
    near(weight[0], 0.125, 1e-15);
    near(weight[1], 0.25, 1e-15);
    near(weight[2], 0, 0);
    near(weight[3], 0.625, 1e-15);
    near(out, 3, 1e-14);
    oracle_merge_n(lse + 2, 1, 2, -INFINITY, weight, &out);
    near(weight[0], 0, 0);
    assert_true(out == -INFINITY);
    oracle_merge_n(NULL, 0, 2, INFINITY, NULL, &out);
    assert_true(out == INFINITY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rmsnorm_divides_by_the_root_mean_square),
        cmocka_unit_test(softmax_scales_are_those_of_the_models),
        cmocka_unit_test(a_missing_multiplier_would_show_in_two_keys),
        cmocka_unit_test(the_factor_of_q_steps_at_multiples_of_the_context),
        cmocka_unit_test(magnitude_is_one_without_extension),
        cmocka_unit_test(cos_and_sin_are_scaled_by_the_ratio_of_magnitudes),
        cmocka_unit_test(plain_angles_fall_by_powers_of_theta),
        cmocka_unit_test(yarn_keeps_fast_pairs_and_interpolates_slow_ones),
        cmocka_unit_test(yarn_survives_equal_betas),
        cmocka_unit_test(longrope_divides_each_pair_by_its_own_factor),
        cmocka_unit_test(basis_vectors_land_on_their_partner),
        cmocka_unit_test(only_the_distance_of_positions_counts),
        cmocka_unit_test(products_and_their_magnitudes_add_up),
        cmocka_unit_test(partition_sums_are_weighted_in_the_stated_base),
        cmocka_unit_test(an_empty_side_is_the_identity),
        cmocka_unit_test(huge_scores_do_not_overflow),
        cmocka_unit_test(many_partition_sums_are_weighted_alike),
    };
    return cmocka_run_group_tests_name("oracle", tests, NULL, NULL);
}
