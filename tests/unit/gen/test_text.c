/* SPDX-License-Identifier: Apache-2.0
 *
 * test_text.c: buffers and diagnostics.
 */
#include <limits.h>

#include "support.h"

static void buffer_grows_and_keeps_its_nul(void **state) {
    (void)state;
    struct mlagen_buf b = {0};
    assert_string_equal(mlagen_buf_text(&b), "");
    for (int i = 0; i < 5000; i++)
        mlagen_buf_printf(&b, "%d,", i % 10);
    assert_int_equal(b.len, 10000);
    assert_int_equal(strlen(b.data), 10000);
    assert_memory_equal(b.data + 9990, "5,6,7,8,9,", 10);
    mlagen_buf_clear(&b);
    assert_string_equal(mlagen_buf_text(&b), "");
    mlagen_buf_free(&b);
}

static void buffer_remembers_that_memory_ran_out(void **state) {
    (void)state;
    struct mlagen_buf b = {0};
    mlagen_set_allocator(failing_realloc, NULL);
    failing.requests = 0;
    failing.fail_at = 2;
    failing.for_good = false;
    for (int i = 0; i < 100; i++)
        mlagen_buf_str(&b, "0123456789");
    assert_true(b.failed);
    assert_int_equal(b.len, 60); /* what the first 64 bytes hold */
    mlagen_buf_free(&b);
    mlagen_set_allocator(NULL, NULL);
}

/* jansson is the judge of what is JSON. */
static void json_text_is_json_whatever_comes_in(void **state) {
    (void)state;
    for (unsigned a = 0; a < 256; a++)
        for (unsigned c = 0; c < 256; c += 5) {
            char raw[] = {'x', (char)a, (char)c, '"', '\\', '\n'};
            struct mlagen_buf b = {0};
            mlagen_buf_json(&b, raw, sizeof raw);
            json_t *value = json_loadb(b.data, b.len,
                                       JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
            assert_non_null(value);
            if (a < 128 && c < 128) {
                assert_int_equal(json_string_length(value), sizeof raw);
                assert_memory_equal(json_string_value(value), raw, sizeof raw);
            }
            json_decref(value);
            mlagen_buf_free(&b);
        }
}

static void json_text_replaces_what_is_not_utf8(void **state) {
    (void)state;
    static const struct {
        const char *raw, *json;
    } cases[] = {
        {"\xC3\xA9", "\"\xC3\xA9\""},                  /* U+00E9 */
        {"\xF0\x9F\x98\x80", "\"\xF0\x9F\x98\x80\""},  /* U+1F600 */
        {"\xC0\xAF", "\"\\ufffd\\ufffd\""},            /* overlong */
        {"\xED\xA0\x80", "\"\\ufffd\\ufffd\\ufffd\""}, /* a surrogate */
        {"\xF4\x90\x80\x80",                           /* beyond U+10FFFF */
         "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},
        {"a\xE2\x82", "\"a\\ufffd\\ufffd\""}, /* cut short */
        {"\x7F\x01", "\"\\u007f\\u0001\""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct mlagen_buf b = {0};
        mlagen_buf_json(&b, cases[i].raw, strlen(cases[i].raw));
        assert_string_equal(b.data, cases[i].json);
        mlagen_buf_free(&b);
    }
}

static void diagnostics_have_the_form_of_gcc(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    mlagen_diag(&d, MLAGEN_ERROR, (struct mlagen_where){"a.yaml", 3, 7},
                "bad %s", "key");
    mlagen_diag(&d, MLAGEN_WARNING, (struct mlagen_where){"t.tpl", 4, 0}, "w");
    mlagen_diag(&d, MLAGEN_NOTE, (struct mlagen_where){"f", 0, 0}, "n");
    mlagen_diag(&d, MLAGEN_ERROR, (struct mlagen_where){0}, "e");
    assert_int_equal(d.errors, 2);
    assert_int_equal(d.warnings, 1);
    assert_diags(&d, "a.yaml:3:7: error: bad key\n"
                     "t.tpl:4: warning: w\n"
                     "f: note: n\n"
                     "mlagen: error: e\n");
}

static void one_diagnostic_is_one_line(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    mlagen_diag(&d, MLAGEN_ERROR, (struct mlagen_where){"a\nb", 1, 1},
                "x\ny\t\x1b[31m\xff");
    assert_diags(&d, "a\\nb:1:1: error: x\\ny\\t\\x1b[31m\\xff\n");
}

static void diagnostics_as_json_keep_every_part(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_buf out = {0};
    mlagen_diag(&d, MLAGEN_ERROR, (struct mlagen_where){"a \"b\"", 3, 7},
                "two\nlines");
    mlagen_diag(&d, MLAGEN_WARNING, (struct mlagen_where){0}, "w");
    mlagen_diags_text(&d, MLAGEN_DIAG_JSON, &out);
    char *second = strchr(out.data, '\n') + 1;
    json_t *value = json_loadb(out.data, (size_t)(second - out.data), 0, NULL);
    json_t *right =
        json_pack("{s:s,s:s,s:i,s:i,s:s}", "severity", "error", "file",
                  "a \"b\"", "line", 3, "column", 7, "message", "two\nlines");
    assert_true(json_equal(value, right));
    assert_string_equal(second, "{\"severity\":\"warning\",\"file\":null,"
                                "\"line\":null,\"column\":null,"
                                "\"message\":\"w\"}\n");
    json_decref(value);
    json_decref(right);
    mlagen_buf_free(&out);
    mlagen_diags_free(&d);
}

static void an_error_counts_even_when_its_text_is_lost(void **state) {
    (void)state;
    for (size_t n = 1; n <= 3; n++) { /* the list, the message, the file */
        struct mlagen_diags d = {0};
        struct mlagen_buf out = {0};
        mlagen_set_allocator(failing_realloc, NULL);
        failing.requests = failing.live = 0;
        failing.fail_at = n;
        failing.for_good = true;
        mlagen_diag(&d, MLAGEN_ERROR, (struct mlagen_where){"f", 1, 1}, "e");
        failing.fail_at = 0;
        assert_int_equal(d.errors, 1);
        assert_true(d.lost);
        mlagen_diags_text(&d, MLAGEN_DIAG_GNU, &out);
        assert_string_equal(out.data,
                            "mlagen: error: out of memory while reporting\n");
        mlagen_buf_free(&out);
        mlagen_diags_free(&d);
        assert_int_equal(failing.live, 0);
        mlagen_set_allocator(NULL, NULL);
    }
}

static void digits_are_those_of_printf(void **state) {
    const long long values[] = {0,  1,         -1,        9,        10,
                                -10, 4294967296, LLONG_MAX, LLONG_MIN};
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char room[MLAGEN_DIGITS], want[32];
        size_t len;
        const char *at = mlagen_digits(values[i], room, &len);
        int n = snprintf(want, sizeof want, "%lld", values[i]);
        assert_int_equal(len, n);
        assert_memory_equal(at, want, len);
    }
}

/* Eight bytes at a time, then one by one: a bad byte is found at any place. */
static void one_bad_byte_anywhere_is_no_utf8(void **state) {
    char text[40];
    (void)state;
    for (size_t len = 1; len <= sizeof text; len++) {
        memset(text, 'a', sizeof text);
        assert_true(mlagen_utf8_valid(text, len));
        for (size_t bad = 0; bad < len; bad++) {
            text[bad] = (char)0xFF;
            assert_false(mlagen_utf8_valid(text, len));
            text[bad] = 'a';
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_are_those_of_printf),
        cmocka_unit_test(one_bad_byte_anywhere_is_no_utf8),
        cmocka_unit_test(buffer_grows_and_keeps_its_nul),
        cmocka_unit_test(buffer_remembers_that_memory_ran_out),
        cmocka_unit_test(json_text_is_json_whatever_comes_in),
        cmocka_unit_test(json_text_replaces_what_is_not_utf8),
        cmocka_unit_test(diagnostics_have_the_form_of_gcc),
        cmocka_unit_test(one_diagnostic_is_one_line),
        cmocka_unit_test(diagnostics_as_json_keep_every_part),
        cmocka_unit_test(an_error_counts_even_when_its_text_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
