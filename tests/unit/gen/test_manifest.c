/* SPDX-License-Identifier: Apache-2.0
 *
 * test_manifest.c: the one form of JSON that the generator writes, and reading
 * it back: stable, exact, whatever the locale, and an edit shows.
 */
#include <float.h>
#include <math.h>

#include "comma_locale.h"
#include "support.h"

#include "manifest.h"

/* ---- the form ------------------------------------------------------------ */

static void assert_prints(const char *json, const char *expected) {
    struct mlagen_diags d = {0};
    struct mlagen_buf out = {0};
    json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    assert_int_equal(mlagen_json_print(value, &out, &d), MLAGEN_OK);
    assert_string_equal(mlagen_buf_text(&out), expected);
    mlagen_buf_free(&out);
    json_decref(value);
    assert_diags(&d, "");
}

static void keys_are_sorted_and_short_values_stay_on_a_line(void **state) {
    (void)state;
    assert_prints("{\"b\": [1, 2.5, null], \"a\": {\"y\": true, \"x\": \"\"}}",
                  "{\"a\": {\"x\": \"\", \"y\": true}, \"b\": [1, 2.5, null]}"
                  "\n");
    assert_prints("[]", "[]\n");
    assert_prints("{\"a\": {}}", "{\"a\": {}}\n");
    assert_prints("\"\\u00e9\\n\\\"\"", "\"\xc3\xa9\\u000a\\\"\"\n");
}

/* 170 columns do not fit; what is inside may. */
static void long_values_are_one_item_a_line(void **state) {
    (void)state;
    char wide[171], json[512], expected[512];
    memset(wide, 'w', 170);
    wide[170] = '\0';
    snprintf(json, sizeof json, "{\"b\": [\"%s\", {\"c\": [1, 2]}], \"a\": 1}",
             wide);
    snprintf(expected, sizeof expected,
             "{\n"
             "  \"a\": 1,\n"
             "  \"b\": [\n"
             "    \"%s\",\n"
             "    {\"c\": [1, 2]}\n"
             "  ]\n"
             "}\n",
             wide);
    assert_prints(json, expected);
}

static void reals_read_back_as_the_same_number(void **state) {
    (void)state;
    static const double values[] = {
        0.1,     1.0 / 3.0,   0.13523377888691401, 1e-6, DBL_MAX,
        DBL_MIN, 0x1p-1074,   123456789.125,       -0.0, 3.0,
        1e22,    0.072168784, 1.0 + DBL_EPSILON};
    for (size_t i = 0; i < COUNT(values); i++) {
        struct mlagen_diags d = {0};
        struct mlagen_buf out = {0};
        json_t *value = json_real(values[i]);
        assert_int_equal(mlagen_json_print(value, &out, &d), MLAGEN_OK);
        json_t *back = json_loads(mlagen_buf_text(&out), JSON_DECODE_ANY, NULL);
        assert_true(json_is_real(back));
        double read = json_real_value(back);
        assert_memory_equal(&read, &values[i], sizeof read);
        json_decref(back);
        json_decref(value);
        mlagen_buf_free(&out);
    }
}

static void print_reals(void) {
    assert_prints("[0.5, 1234567.25]", "[0.5, 1234567.25]\n");
}

static void a_locale_with_commas_changes_nothing(void **state) {
    (void)state;
    with_comma_locale(print_reals);
}

/* ---- hashes -------------------------------------------------------------- */

static void hash_of(const char *json, char hex[MLAGEN_HASH_HEX]) {
    struct mlagen_diags d = {0};
    json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    assert_int_equal(mlagen_json_hash(value, hex, &d), MLAGEN_OK);
    json_decref(value);
}

static void the_hash_of_a_value_is_that_of_its_content(void **state) {
    (void)state;
    char a[MLAGEN_HASH_HEX], b[MLAGEN_HASH_HEX];
    /* printf '{"a":1,"b":[true,null]}' | sha256sum */
    hash_of("{ \"b\" : [ true, null ],\n \"a\" : 1 }", a);
    assert_string_equal(a, "1cc69c7fa23616ca2ec3ee70d24390a6"
                           "225c8832db8a4c814c7e0e7f942f8668");
    hash_of("{\"a\":1.0,\"b\":[true,null]}", b);
    assert_string_not_equal(a, b);
    hash_of("{\"a\":1,\"b\":[null,true]}", b);
    assert_string_not_equal(a, b);
}

/* ---- a manifest ---------------------------------------------------------- */

static const char good[] =
    "{\"format\": 1, \"files\": [{\"path\": \"a.h\", \"sha256\": \"00\"}],"
    " \"kernels\": [{\"symbol\": \"k\", \"source\": \"src/k.cu\","
    " \"arch\": \"sm_80\", \"build\": {\"cubin\": \"cubin/k.cubin\","
    " \"cubin_sha256\": \"11\", \"compiler\": \"NVRTC 1.2.3\","
    " \"source_sha256\": \"22\", \"options\": [], \"findings\": []}}]}";

static json_t *parse_good(void) {
    struct mlagen_diags d = {0};
    json_t *m;
    assert_int_equal(
        mlagen_manifest_parse(good, sizeof good - 1, "m.json", &m, &d),
        MLAGEN_OK);
    assert_diags(&d, "");
    return m;
}

static void print(json_t *m, struct mlagen_buf *out) {
    struct mlagen_diags d = {0};
    assert_int_equal(mlagen_manifest_text(m, out, &d), MLAGEN_OK);
    assert_diags(&d, "");
}

static void the_self_hash_is_of_the_text_without_it(void **state) {
    (void)state;
    struct mlagen_buf text = {0};
    json_t *m = parse_good();
    print(m, &text);
    char *at = strstr(text.data, "\"manifest_sha256\": \"");
    assert_non_null(at);
    at += strlen("\"manifest_sha256\": \"");
    char claimed[MLAGEN_HASH_HEX], hex[MLAGEN_HASH_HEX];
    memcpy(claimed, at, 64);
    claimed[64] = '\0';
    memmove(at, at + 64, strlen(at + 64) + 1);
    mlagen_sha256(text.data, strlen(text.data), hex);
    assert_string_equal(claimed, hex);
    mlagen_buf_free(&text);
    json_decref(m);
}

static void printing_what_was_read_gives_the_same_text(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_buf one = {0}, two = {0};
    json_t *m = parse_good(), *again;
    print(m, &one);
    assert_int_equal(
        mlagen_manifest_parse(one.data, one.len, "m.json", &again, &d),
        MLAGEN_OK);
    assert_true(mlagen_manifest_intact(again));
    print(again, &two);
    assert_string_equal(one.data, two.data);
    mlagen_buf_free(&one);
    mlagen_buf_free(&two);
    json_decref(m);
    json_decref(again);
}

static void an_edit_anywhere_shows(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_buf text = {0};
    json_t *m = parse_good();
    print(m, &text);
    json_decref(m);
    /* Digits and letters inside values; the result must still be a manifest. */
    static const char *const edits[][2] = {{"a.h", "b.h"},
                                           {"\"00\"", "\"01\""},
                                           {"1.2.3", "1.2.4"},
                                           {"sm_80", "sm_86"},
                                           {"cubin/k", "cubin/j"}};
    for (size_t i = 0; i < COUNT(edits); i++) {
        char *at = strstr(text.data, edits[i][0]);
        assert_non_null(at);
        memcpy(at, edits[i][1], strlen(edits[i][1]));
        assert_int_equal(
            mlagen_manifest_parse(text.data, text.len, "m.json", &m, &d),
            MLAGEN_OK);
        assert_false(mlagen_manifest_intact(m));
        json_decref(m);
        memcpy(at, edits[i][0], strlen(edits[i][0]));
    }
    assert_int_equal(
        mlagen_manifest_parse(text.data, text.len, "m.json", &m, &d),
        MLAGEN_OK);
    assert_true(mlagen_manifest_intact(m));
    json_decref(m);
    mlagen_buf_free(&text);
}

static void what_is_no_manifest_is_refused_with_the_reason(void **state) {
    (void)state;
    static const struct {
        const char *text, *diag;
    } cases[] = {
        {"[]", "m.json: error: not a manifest of mlagen\n"},
        {"{}", "m.json: error: not a manifest of mlagen\n"},
        {"{\"format\": \"1\"}", "m.json: error: not a manifest of mlagen\n"},
        {"{\"format\": 2}", "m.json: error: a manifest of another format; "
                            "made by another mlagen?\n"},
        {"{\"format\": 1}", "m.json: error: damaged: the list \"files\"\n"},
        {"{\"format\": 1, \"files\": {}}",
         "m.json: error: damaged: the list \"files\"\n"},
        {"{\"format\": 1, \"files\": [{\"path\": \"a\"}]}",
         "m.json: error: damaged: the list \"files\"\n"},
        {"{\"format\": 1, \"files\": [{\"path\": \"../a\", \"sha256\": "
         "\"\"}]}",
         "m.json: error: damaged: the list \"files\"\n"},
        {"{\"format\": 1, \"files\": []}",
         "m.json: error: damaged: the list \"kernels\"\n"},
        {"{\"format\": 1, \"files\": [], \"kernels\": [{\"symbol\": \"k\", "
         "\"source\": \"k.cu\", \"arch\": \"sm_80\", \"build\": {}}]}",
         "m.json: error: damaged: the list \"kernels\"\n"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct mlagen_diags d = {0};
        json_t *m;
        assert_int_equal(mlagen_manifest_parse(cases[i].text,
                                               strlen(cases[i].text), "m.json",
                                               &m, &d),
                         MLAGEN_IO);
        assert_null(m);
        assert_diags(&d, cases[i].diag);
    }
}

static void a_manifest_cut_off_anywhere_is_refused_at_its_place(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof good - 1; n++) {
        struct mlagen_diags d = {0};
        json_t *m;
        assert_int_equal(mlagen_manifest_parse(good, n, "m.json", &m, &d),
                         MLAGEN_IO);
        assert_null(m);
        assert_int_equal(d.errors, 1);
        assert_int_equal(d.items[0].where.line, 1);
        mlagen_diags_free(&d);
    }
}

static void note_listed(void *user, const char *path, const char *sha256) {
    mlagen_buf_printf(user, "%s=%s ", path, sha256);
}

static void texts_and_cubins_are_listed(void **state) {
    (void)state;
    struct mlagen_buf list = {0};
    json_t *m = parse_good();
    mlagen_manifest_each(m, note_listed, &list);
    assert_string_equal(mlagen_buf_text(&list), "a.h=00 cubin/k.cubin=11 ");
    mlagen_buf_free(&list);
    json_decref(m);
}

/* ---- memory -------------------------------------------------------------- */

static enum mlagen_status read_and_print(struct mlagen_diags *d) {
    struct mlagen_buf text = {0};
    char hex[MLAGEN_HASH_HEX];
    json_t *m;
    enum mlagen_status status =
        mlagen_manifest_parse(good, sizeof good - 1, "m.json", &m, d);
    if (status == MLAGEN_OK)
        status = mlagen_json_hash(m, hex, d);
    if (status == MLAGEN_OK)
        status = mlagen_manifest_text(m, &text, d);
    mlagen_buf_free(&text);
    json_decref(m);
    return status;
}

static void a_manifest_survives_no_memory(void **state) {
    (void)state;
    assert_survives_no_memory(read_and_print);
}

static enum mlagen_status make_a_list(struct mlagen_diags *d) {
    json_t *list = json_array();
    for (int i = 0; i < 20; i++)
        mlagen_json_append(&list, json_integer(i));
    if (!list)
        return mlagen_no_memory(d);
    assert_int_equal(json_array_size(list), 20);
    json_decref(list);
    return MLAGEN_OK;
}

static void a_list_is_whole_or_not_there(void **state) {
    (void)state;
    assert_survives_no_memory(make_a_list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_sorted_and_short_values_stay_on_a_line),
        cmocka_unit_test(long_values_are_one_item_a_line),
        cmocka_unit_test(reals_read_back_as_the_same_number),
        cmocka_unit_test(a_locale_with_commas_changes_nothing),
        cmocka_unit_test(the_hash_of_a_value_is_that_of_its_content),
        cmocka_unit_test(the_self_hash_is_of_the_text_without_it),
        cmocka_unit_test(printing_what_was_read_gives_the_same_text),
        cmocka_unit_test(an_edit_anywhere_shows),
        cmocka_unit_test(what_is_no_manifest_is_refused_with_the_reason),
        cmocka_unit_test(a_manifest_cut_off_anywhere_is_refused_at_its_place),
        cmocka_unit_test(texts_and_cubins_are_listed),
        cmocka_unit_test(a_manifest_survives_no_memory),
        cmocka_unit_test(a_list_is_whole_or_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
