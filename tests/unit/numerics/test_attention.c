/* SPDX-License-Identifier: Apache-2.0
 *
 * The attention oracle, and the work list's arithmetic, against cases worked
 * out by hand or published.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "decode.h"
#include "oracle_attention.h"

enum { DIMS = 16, WIDTH = 8, MOST = 4096 };

static float row[MOST * DIMS];
static double q[DIMS], o[WIDTH], size[WIDTH], lse, lse_size;

static void near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%.12g is not %.12g +- %g", got, want, tolerance);
}

static int clear(void **state)
{
    (void)state;
    memset(row, 0, sizeof(row));
    memset(q, 0, sizeof(q));
    return 0;
}

/* Key s: value v in column 0, and y in the last dim, which no value has. */
static void set_key(int64_t s, double v, double y)
{
    row[s * DIMS] = (float)v;
    row[s * DIMS + DIMS - 1] = (float)y;
}

static void attend(int64_t count, double x, double scale, double base,
                   double empty)
{
    struct oracle_keys keys = {row, count, DIMS, WIDTH};
    q[DIMS - 1] = x;
    oracle_attention(q, &keys, scale, base, empty, o, size, &lse, &lse_size);
}

/* Attention --------------------------------------------------------------- */

static void one_key_is_copied(void **state)
{
    (void)state;
    set_key(0, -3, 5);
    attend(1, 2, 0.5, exp(1), -INFINITY);
    near(o[0], -3, 0);
    near(size[0], 3, 0);
    near(o[1], 0, 0);
    near(lse, 5, 1e-15);
    near(lse_size, 5, 1e-15);
}

/* n equal scores c: the mean of the values, c + ln n. */
static void equal_scores_give_the_mean(void **state)
{
    (void)state;
    for (int64_t s = 0; s < 1000; s++)
        set_key(s, (double)s, 0.25);
    attend(1000, 4, 1, exp(1), -INFINITY);
    near(o[0], 499.5, 1e-9);
    near(lse, 1 + log(1000), 1e-12);
}

/* Scores s ln 2 over values of 1 at the last key alone: weights 2^s. */
static void weights_are_powers_of_two(void **state)
{
    (void)state;
    for (int64_t s = 0; s < 10; s++)
        set_key(s, s == 9, (double)s);
    attend(10, 1, log(2), exp(1), -INFINITY);
    near(o[0], 512.0 / 1023, 1e-12);
    near(lse, log(1023), 1e-12);
    attend(10, 1, log(2), 2, -INFINITY);
    near(lse, log2(1023), 1e-12);
}

/* The weight of the second of two keys with raw scores 0 and 10 is the
 * sigmoid of 10 * scale; the scales of DeepSeek-V3, of V3 without its
 * multiplier, and with the row's 576 dims by mistake. */
static void two_keys_show_the_scale(void **state)
{
    static const double scale[] = {0.135234, 0.0721688, 0.0416667};
    static const double weight[] = {0.7945, 0.6730, 0.6027};
    (void)state;
    set_key(0, 0, 0);
    set_key(1, 1, 1);
    for (int i = 0; i < 3; i++) {
        attend(2, 10, scale[i], exp(1), -INFINITY);
        near(o[0], weight[i], 5e-5);
        near(o[0], 1 / (1 + exp(-10 * scale[i])), 1e-15);
    }
}

/* 63 old keys and two new: the first new row must not see the second's key,
 * which has score 50 and value 1000. */
static void a_verify_row_sees_no_later_draft(void **state)
{
    (void)state;
    set_key(64, 1000, 50);
    attend(64, 1, 1, exp(1), -INFINITY);
    near(o[0], 0, 0);
    near(size[0], 0, 0);
    near(lse, log(64), 1e-13);
    attend(65, 1, 1, exp(1), -INFINITY);
    near(o[0], 1000, 1e-15 * 1000 + 64 * 1000 * exp(-50));
}

static void no_keys_give_zero_and_the_empty_lse(void **state)
{
    (void)state;
    memset(o, 0x55, sizeof(o));
    attend(0, 1, 1, exp(1), -INFINITY);
    near(o[0], 0, 0);
    assert_true(lse == -INFINITY);
    attend(-3, 1, 1, 2, INFINITY);
    assert_true(lse == INFINITY);
}

static void huge_scores_do_not_overflow(void **state)
{
    (void)state;
    set_key(0, 1, -3e4);
    set_key(1, 3, 3e4);
    set_key(2, 5, 3e4);
    attend(3, 1, 1, exp(1), -INFINITY);
    near(o[0], 4, 0);
    near(lse, 3e4 + log(2), 1e-10);
}

/* Combining --------------------------------------------------------------- */

/* Partition sums 2 and 8 over values 0 and 1: 0.8 (log2 taken for ln would
 * give 0.8808, ln for log2 0.7233). */
static void parts_are_weighted_by_their_sums(void **state)
{
    const double zero = 0, one = 1;
    const struct oracle_part part[] = {{&zero, log(2)}, {&one, log(8)}};
    double out, weight, total;
    (void)state;
    oracle_combine(part, 2, 1, exp(1), -INFINITY, &out, &weight, &total);
    near(out, 0.8, 1e-15);
    near(total, log(10), 1e-15);
    oracle_combine(part, 2, 1, 2, -INFINITY, &out, &weight, &total);
    near(total, log2(10), 1e-15);
}

/* 3,072 and 64 keys of equal score. */
static void parts_of_equal_scores_count_their_keys(void **state)
{
    const double zero = 0, one = 1;
    const struct oracle_part part[] = {{&zero, 7 + log(3072)},
                                       {&one, 7 + log(64)}};
    double out, weight, total;
    (void)state;
    oracle_combine(part, 2, 1, exp(1), -INFINITY, &out, &weight, &total);
    near(out, 64.0 / 3136, 1e-15);
}

static void empty_parts_are_not_read(void **state)
{
    const double one = 1;
    const struct oracle_part part[] = {{NULL, -INFINITY}, {&one, 3},
                                       {NULL, -INFINITY}};
    double out, weight, total;
    (void)state;
    oracle_combine(part, 3, 1, exp(1), -INFINITY, &out, &weight, &total);
    near(out, 1, 0);
    near(total, 3, 0);
    oracle_combine(part, 1, 1, exp(1), INFINITY, &out, &weight, &total);
    near(out, 0, 0);
    assert_true(total == INFINITY);
}

/* A split anywhere changes nothing but rounding. */
static void combined_parts_are_the_whole(void **state)
{
    double whole[WIDTH], part_o[2][WIDTH], want;
    struct oracle_part part[2] = {{part_o[0], 0}, {part_o[1], 0}};
    struct num_rng rng = {7};
    (void)state;
    for (int i = 0; i < 100 * DIMS; i++)
        row[i] = (float)num_normal(&rng);
    for (int i = 0; i < DIMS; i++)
        q[i] = num_normal(&rng);
    attend(100, 1, 1, exp(1), -INFINITY);
    memcpy(whole, o, sizeof(whole));
    want = lse;
    for (int side = 0; side < 2; side++) {
        struct oracle_keys keys = {row + 37 * side * DIMS,
                                   side ? 63 : 37, DIMS, WIDTH};
        oracle_attention(q, &keys, 1, exp(1), -INFINITY, part_o[side], size,
                         &part[side].lse, &lse_size);
    }
    oracle_combine(part, 2, WIDTH, exp(1), -INFINITY, o, size, &lse);
    near(lse, want, 1e-12);
    for (int c = 0; c < WIDTH; c++)
        near(o[c], whole[c], 1e-12);
}

/* Work lists -------------------------------------------------------------- */

/* 8 heads, 3 tokens: rows 0..15 (tokens 0, 1) and 16..23 (token 2) in tiles
 * of 16; of 65 keys the first tile sees 64, the second all. */
static void a_unit_sees_as_far_as_its_last_row(void **state)
{
    static const int32_t length[] = {65, 3, 2, 0};
    struct decode_task t = {length, 4, 3, 8, 16, 32, 4, 1, 0};
    (void)state;
    assert_int_equal(decode_unit_tiles(&t, 0), 2);
    assert_int_equal(decode_unit_tiles(&t, 1), 3);
    assert_int_equal(decode_unit_tiles(&t, 2), 1);
    assert_int_equal(decode_unit_tiles(&t, 4), 0); /* 2 keys for 3 tokens */
    assert_int_equal(decode_unit_tiles(&t, 6), 0);
}

/* 10 tiles for 4 blocks begin at 0, 2, 5 and 7; units of 3, 6 and 1 tiles. */
static void balanced_cuts_fall_on_equal_shares(void **state)
{
    static const int32_t length[] = {96, 192, 5};
    struct decode_task t = {length, 3, 1, 16, 16, 32, 4, 1, 0};
    struct decode_totals all = decode_total(&t);
    int64_t items, slots;
    (void)state;
    assert_int_equal(all.tiles, 10);
    assert_int_equal(decode_unit_items(&t, &all, 0, 0), 2);
    assert_int_equal(decode_unit_items(&t, &all, 1, 3), 3);
    assert_int_equal(decode_unit_items(&t, &all, 2, 9), 1);
    assert_int_equal(all.items, 6);
    assert_int_equal(all.slots, 5);
    decode_capacity(&t, &items, &slots);
    assert_int_equal(items, 6);
    assert_int_equal(slots, 6);
}

static void blocks_without_enough_tiles_stay_idle(void **state)
{
    static const int32_t length[] = {320};
    struct decode_task t = {length, 1, 1, 16, 16, 32, 108, 3, 0};
    (void)state;
    assert_int_equal(decode_total(&t).ctas, 3); /* 10 tiles, at least 3 each */
    t.min_tiles = 100;
    assert_int_equal(decode_total(&t).ctas, 1);
}

static void invariant_cuts_ignore_the_batch(void **state)
{
    static const int32_t length[] = {320, 1, 33};
    struct decode_task t = {length, 3, 1, 16, 16, 32, 7, 1, 3};
    struct decode_totals all = decode_total(&t);
    (void)state;
    assert_int_equal(all.items, 4 + 1 + 1);
    assert_int_equal(all.slots, 4);
    t.ctas = 108;
    assert_int_equal(decode_total(&t).slots, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_key_is_copied, clear),
        cmocka_unit_test_setup(equal_scores_give_the_mean, clear),
        cmocka_unit_test_setup(weights_are_powers_of_two, clear),
        cmocka_unit_test_setup(two_keys_show_the_scale, clear),
        cmocka_unit_test_setup(a_verify_row_sees_no_later_draft, clear),
        cmocka_unit_test_setup(no_keys_give_zero_and_the_empty_lse, clear),
        cmocka_unit_test_setup(huge_scores_do_not_overflow, clear),
        cmocka_unit_test(parts_are_weighted_by_their_sums),
        cmocka_unit_test(parts_of_equal_scores_count_their_keys),
        cmocka_unit_test(empty_parts_are_not_read),
        cmocka_unit_test_setup(combined_parts_are_the_whole, clear),
        cmocka_unit_test(a_unit_sees_as_far_as_its_last_row),
        cmocka_unit_test(balanced_cuts_fall_on_equal_shares),
        cmocka_unit_test(blocks_without_enough_tiles_stay_idle),
        cmocka_unit_test(invariant_cuts_ignore_the_batch),
    };
    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}
