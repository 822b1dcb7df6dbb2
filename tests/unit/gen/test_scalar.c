/* SPDX-License-Identifier: Apache-2.0
 *
 * test_scalar.c: numbers by JSON's grammar, whatever the locale.
 */
#include <float.h>
#include <math.h>

#include "comma_locale.h"
#include "scalar.h"
#include "support.h"

static void ints_are_plain_decimal(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"0", 0},
        {"7168", 7168},
        {"-1", -1},
        {"-0", 0},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t value = 42;
        assert_int_equal(
            mlagen_scan_int(cases[i].text, strlen(cases[i].text), &value),
            MLAGEN_SCAN_OK);
        assert_true(value == cases[i].value);
    }
}

static void what_only_looks_like_an_int_is_none(void **state) {
    (void)state;
    static const char *const none[] = {
        "",      "-",    "+5",   "010", " 10", "10 ",  "0x10",
        "1_000", "1e4",  "10.0", "1,0", "--1", "0b1",  "0o7",
        "1:30",  "null", "true", ".5",  "٣",   "1\n2", "1e400"};
    int64_t value;
    for (size_t i = 0; i < COUNT(none); i++)
        assert_int_equal(mlagen_scan_int(none[i], strlen(none[i]), &value),
                         MLAGEN_SCAN_NO);
    assert_int_equal(mlagen_scan_int("12\0", 3, &value), MLAGEN_SCAN_NO);
    static const char *const beyond[] = {"9223372036854775808",
                                         "-9223372036854775809",
                                         "99999999999999999999999999"};
    for (size_t i = 0; i < COUNT(beyond); i++)
        assert_int_equal(mlagen_scan_int(beyond[i], strlen(beyond[i]), &value),
                         MLAGEN_SCAN_RANGE);
}

static const struct {
    const char *text;
    double value;
} floats[] = {
    {"0", 0.0},
    {"1e4", 10000.0},
    {"1E+4", 10000.0},
    {"10000", 10000.0},
    {"1e-06", 0.000001},
    {"-2.5", -2.5},
    {"0.1", 0.1},
    {"1.7976931348623157e308", DBL_MAX},
    {"5e-324", 4.9406564584124654e-324},
    {"1e-999", 0.0},
};

static void assert_floats(void) {
    for (size_t i = 0; i < COUNT(floats); i++) {
        double value = NAN;
        assert_int_equal(
            mlagen_scan_float(floats[i].text, strlen(floats[i].text), &value),
            MLAGEN_SCAN_OK);
        assert_true(value == floats[i].value);
    }
}

static void floats_follow_the_grammar_of_json(void **state) {
    (void)state;
    assert_floats();
    static const char *const none[] = {
        "",     "nan",  "NaN",   "inf",   "Infinity", "-inf", "+1.0", ".5",
        "5.",   "1e",   "1e+",   "0x1p3", "1,5",      "1_0",  " 1",   "1 ",
        "01.5", "1.5f", "1.2.3", "-",     "null",     "auto", ".inf"};
    double value;
    for (size_t i = 0; i < COUNT(none); i++)
        assert_int_equal(mlagen_scan_float(none[i], strlen(none[i]), &value),
                         MLAGEN_SCAN_NO);
    assert_int_equal(mlagen_scan_float("1e999", 5, &value), MLAGEN_SCAN_RANGE);
    assert_int_equal(mlagen_scan_float("-1e999", 6, &value), MLAGEN_SCAN_RANGE);
}

static void floats_are_read_the_same_under_any_locale(void **state) {
    (void)state;
    with_comma_locale(assert_floats);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ints_are_plain_decimal),
        cmocka_unit_test(what_only_looks_like_an_int_is_none),
        cmocka_unit_test(floats_follow_the_grammar_of_json),
        cmocka_unit_test(floats_are_read_the_same_under_any_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
