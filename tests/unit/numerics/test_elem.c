/* SPDX-License-Identifier: Apache-2.0
 *
 * The element types, over all 65,536 patterns of the 16-bit ones.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "elem.h"
#include "rng.h"

static void every_bf16_is_the_upper_half_of_a_single(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint32_t wide = bits << 16;
        double value = num_from_bf16((uint16_t)bits);
        float single;
        memcpy(&single, &wide, sizeof(single));
        if (isnan(single)) {
            assert_true(isnan(value));
            assert_true(isnan(num_from_bf16(num_to_bf16(value))));
            continue;
        }
        assert_true(value == single);
        assert_int_equal(num_to_bf16(value), bits);
    }
}

/* binary16 by the words of IEEE 754: (-1)^s 2^(e-15) (1 + m/1024), and
 * subnormals (-1)^s 2^-14 m/1024. */
static void every_fp16_has_the_value_of_its_fields(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        int e = bits >> 10 & 31, m = bits & 1023;
        double sign = bits >> 15 ? -1 : 1;
        double value = num_from_fp16((uint16_t)bits);
        if (e == 31) {
            assert_true(m ? isnan(value) : value == sign * INFINITY);
            continue;
        }
        assert_true(value == (e ? sign * pow(2, e - 15) * (1 + m / 1024.0)
                                : sign * pow(2, -14) * m / 1024));
        assert_int_equal(num_to_fp16(value), bits);
    }
}

/* Between two neighbours: below the middle, at it (even wins), above it. */
static void check_neighbours(enum num_elem elem, uint32_t last)
{
    for (uint32_t low = 0; low < last; low++) {
        uint32_t high = low + 1, even = low & 1 ? high : low;
        unsigned char raw[8];
        double a, b, middle;
        num_set_bits(elem, raw, low);
        a = num_decode(elem, raw);
        num_set_bits(elem, raw, high);
        b = num_decode(elem, raw);
        middle = a + (b - a) / 2;
        num_encode(elem, raw, middle);
        assert_int_equal(num_bits(elem, raw), even);
        num_encode(elem, raw, nextafter(middle, 0));
        assert_int_equal(num_bits(elem, raw), low);
        num_encode(elem, raw, nextafter(middle, INFINITY));
        assert_int_equal(num_bits(elem, raw), high);
    }
}

static void rounding_is_to_nearest_even_everywhere(void **state)
{
    (void)state;
    check_neighbours(NUM_BF16, 0x7f7f);
    check_neighbours(NUM_FP16, 0x7bff);
}

static void beyond_the_largest_value_lies_infinity(void **state)
{
    (void)state;
    assert_true(num_max(NUM_FP16) == 65504);
    assert_true(num_max(NUM_BF16) == 0x1.fep127);
    assert_int_equal(num_to_fp16(65519.99), 0x7bff);
    assert_int_equal(num_to_fp16(65520), 0x7c00);
    assert_int_equal(num_to_fp16(-1e300), 0xfc00);
    assert_int_equal(num_to_bf16(0x1.fep127), 0x7f7f);
    assert_int_equal(num_to_bf16(0x1.ffp127), 0x7f80);
    assert_int_equal(num_to_bf16(-INFINITY), 0xff80);
}

static void signed_zero_and_the_smallest_values_survive(void **state)
{
    (void)state;
    assert_int_equal(num_to_fp16(-0.0), 0x8000);
    assert_int_equal(num_to_bf16(-0.0), 0x8000);
    assert_int_equal(num_to_fp16(0x1p-24), 1);
    assert_int_equal(num_to_fp16(0x1p-25), 0);
    assert_int_equal(num_to_fp16(0x1.8p-25), 1);
    assert_int_equal(num_to_bf16(0x1p-133), 1);
    assert_true(num_half_tiny(NUM_FP16) == 0x1p-25);
    assert_true(num_half_tiny(NUM_BF16) == 0x1p-134);
}

/* The host's own conversion is the independent witness. */
static void singles_agree_with_the_hosts(void **state)
{
    struct num_rng rng = {1};
    (void)state;
    for (int i = 0; i < 200000; i++) {
        uint64_t raw = num_random(&rng);
        double value;
        float host;
        unsigned char mine[8];
        memcpy(&value, &raw, sizeof(value));
        if (i & 1)
            value = ldexp(num_normal(&rng), (int)num_below(&rng, 300) - 160);
        if (isnan(value))
            continue;
        host = (float)value;
        num_encode(NUM_F32, mine, value);
        assert_memory_equal(mine, &host, sizeof(host));
    }
}

static void integers_keep_every_bit(void **state)
{
    unsigned char raw[8];
    (void)state;
    num_encode(NUM_I32, raw, -1);
    assert_int_equal(num_bits(NUM_I32, raw), 0xffffffff);
    assert_true(num_decode(NUM_I32, raw) == -1);
    num_encode(NUM_I64, raw, -5e12);
    assert_true(num_decode(NUM_I64, raw) == -5e12);
    num_set_bits(NUM_I64, raw, UINT64_C(0x7fffffffffffffff));
    assert_true(num_bits(NUM_I64, raw) == UINT64_C(0x7fffffffffffffff));
}

static void poisons_are_what_they_are_called(void **state)
{
    static const enum num_elem elems[] = {NUM_BF16, NUM_FP16, NUM_F32};
    (void)state;
    for (int i = 0; i < 3; i++) {
        unsigned char raw[8];
        num_set_bits(elems[i], raw, num_poison_bits(elems[i],
                                                    NUM_POISON_NAN));
        assert_true(isnan(num_decode(elems[i], raw)));
        num_set_bits(elems[i], raw, num_poison_bits(elems[i],
                                                    NUM_POISON_INF));
        assert_true(isinf(num_decode(elems[i], raw)));
        num_set_bits(elems[i], raw, num_poison_bits(elems[i],
                                                    NUM_POISON_HUGE));
        assert_true(num_decode(elems[i], raw) >=
                    (elems[i] == NUM_FP16 ? 65504 : 0.99e30));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bf16_is_the_upper_half_of_a_single),
        cmocka_unit_test(every_fp16_has_the_value_of_its_fields),
        cmocka_unit_test(rounding_is_to_nearest_even_everywhere),
        cmocka_unit_test(beyond_the_largest_value_lies_infinity),
        cmocka_unit_test(signed_zero_and_the_smallest_values_survive),
        cmocka_unit_test(singles_agree_with_the_hosts),
        cmocka_unit_test(integers_keep_every_bit),
        cmocka_unit_test(poisons_are_what_they_are_called),
    };
    return cmocka_run_group_tests_name("elem", tests, NULL, NULL);
}
