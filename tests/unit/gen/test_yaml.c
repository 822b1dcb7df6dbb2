/* SPDX-License-Identifier: Apache-2.0
 *
 * test_yaml.c: text to nodes, and the refusals on the way.
 */
#include "support.h"
#include "yaml_doc.h"

/* ---- helpers ------------------------------------------------------------- */

static struct mlagen_doc *parse(const char *text) {
    struct mlagen_diags d = {0};
    struct mlagen_doc *doc;
    enum mlagen_status status =
        mlagen_yaml_parse(text, strlen(text), "f.yaml", &doc, &d);
    assert_diags(&d, "");
    assert_int_equal(status, MLAGEN_OK);
    return doc;
}

static const struct mlagen_node *get(const struct mlagen_doc *doc,
                                     const char *key) {
    const struct mlagen_node *node = mlagen_node_get(mlagen_doc_root(doc), key);
    assert_non_null(node);
    return node;
}

static void assert_where(struct mlagen_where where, unsigned line,
                         unsigned col) {
    assert_string_equal(where.file, "f.yaml");
    assert_int_equal(where.line, line);
    assert_int_equal(where.col, col);
}

/* Asserts that `len` bytes are refused with exactly one error, `text`. */
static void assert_refused_bytes(const char *bytes, size_t len,
                                 const char *text) {
    struct mlagen_diags d = {0};
    struct mlagen_doc *doc;
    assert_int_equal(mlagen_yaml_parse(bytes, len, "f", &doc, &d), MLAGEN_SPEC);
    assert_null(doc);
    assert_diags(&d, text);
}

static void assert_refused(const char *bytes, const char *text) {
    assert_refused_bytes(bytes, strlen(bytes), text);
}

/* ---- what is read -------------------------------------------------------- */

static void nodes_know_where_they_stand(void **state) {
    (void)state;
    struct mlagen_doc *doc = parse("# a comment\n"
                                   "model: x\n"
                                   "rope:\n"
                                   "  theta: 1e4   # text until typed\n"
                                   "arch: [sm_80, \"sm_90a\"]\n"
                                   "list:\n"
                                   "- 1\n"
                                   "- {a: b}\n");
    const struct mlagen_node *root = mlagen_doc_root(doc);
    assert_int_equal(root->kind, MLAGEN_MAP);
    assert_int_equal(root->count, 4);
    const struct mlagen_node *rope = get(doc, "rope");
    assert_where(rope->key_where, 3, 1);
    assert_where(rope->first->where, 4, 10);
    assert_string_equal(rope->first->text, "1e4");
    assert_true(rope->first->plain);
    const struct mlagen_node *arch = get(doc, "arch");
    assert_int_equal(arch->kind, MLAGEN_LIST);
    assert_where(arch->where, 5, 7);
    assert_where(arch->last->where, 5, 15);
    assert_false(arch->last->plain);
    assert_string_equal(arch->last->text, "sm_90a");
    assert_where(get(doc, "list")->last->first->where, 8, 7);
    mlagen_doc_free(doc);
}

static void scalars_stay_the_text_that_was_written(void **state) {
    (void)state;
    static const char *const texts[] = {
        "10.0",   "9.0a", "no",  "yes",  "on",         "0x10", "010",
        "1_000",  "1e4",  "~",   "null", "12:30",      ".inf", "+5",
        "sm_90a", "-inf", "9.0", "true", "2024-01-01", "0b11", ".5"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        char yaml[64];
        snprintf(yaml, sizeof yaml, "k: %s\n", texts[i]);
        struct mlagen_doc *doc = parse(yaml);
        assert_string_equal(get(doc, "k")->text, texts[i]);
        assert_true(get(doc, "k")->plain);
        mlagen_doc_free(doc);
    }
}

static void line_ends_marks_and_missing_newlines_are_read(void **state) {
    (void)state;
    static const char *const same[] = {"a: 1\nb: [x, y]\n",
                                       "a: 1\nb: [x, y]",
                                       "a: 1\r\nb: [x, y]\r\n",
                                       "\xEF\xBB\xBF\x61: 1\nb: [x, y]\n",
                                       "---\na: 1\nb: [x, y]\n...\n",
                                       "{\"a\": 1, \"b\": [\"x\", \"y\"]}",
                                       "{\n\t\"a\":1,\n\t\"b\":[\"x\",\"y\"]}"};
    for (size_t i = 0; i < COUNT(same); i++) {
        struct mlagen_doc *doc = parse(same[i]);
        assert_string_equal(get(doc, "a")->text, "1");
        assert_string_equal(get(doc, "b")->first->text, "x");
        assert_string_equal(get(doc, "b")->last->text, "y");
        assert_int_equal(mlagen_doc_root(doc)->count, 2);
        mlagen_doc_free(doc);
    }
}

static void a_quoted_nul_is_part_of_its_text(void **state) {
    (void)state;
    struct mlagen_doc *doc = parse("a: \"x\\0y\"\n");
    assert_int_equal(get(doc, "a")->len, 3);
    assert_memory_equal(get(doc, "a")->text, "x\0y", 4);
    mlagen_doc_free(doc);
}

/* ---- what is refused ----------------------------------------------------- */

static void a_duplicate_key_names_both_lines(void **state) {
    (void)state;
    assert_refused("heads: 1\nmodel: x\nheads: 2\n",
                   "f:3:1: error: key 'heads' is given twice; the first is at "
                   "line 1\n");
    assert_refused("a:\n  {b: 1, c: 2, 'b': 3}\n",
                   "f:2:16: error: key 'b' is given twice; the first is at "
                   "line 2\n");
}

static void anchors_aliases_tags_and_documents_are_refused(void **state) {
    (void)state;
    assert_refused("a: &x 1\n", "f:1:4: error: anchors are not allowed\n");
    assert_refused("a: &x [1]\n", "f:1:4: error: anchors are not allowed\n");
    assert_refused("a: &x {b: 1}\n", "f:1:4: error: anchors are not allowed\n");
    assert_refused("a: *x\n", "f:1:4: error: aliases are not allowed\n");
    assert_refused("a: !!int 1\n", "f:1:4: error: tags are not allowed\n");
    assert_refused("a: !x [1]\n", "f:1:4: error: tags are not allowed\n");
    assert_refused("a: !x {b: 1}\n", "f:1:4: error: tags are not allowed\n");
    assert_refused("a: 1\n---\nb: 2\n",
                   "f:2:1: error: a second document begins here\n");
    assert_refused("? [a, b]\n: 1\n", "f:1:3: error: a key must be a scalar\n");
    assert_refused("? {a: b}\n: 1\n", "f:1:3: error: a key must be a scalar\n");
    assert_refused("\"a\\0b\": 1\n",
                   "f:1:1: error: a key holds a NUL character\n");
}

/* The classic: nine levels of nine references each, a billion values. */
static void an_alias_bomb_stops_at_its_first_anchor(void **state) {
    (void)state;
    char text[2048] = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 9; i++) {
        char line[128];
        snprintf(line, sizeof line,
                 "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i,
                 i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
        strcat(text, line);
    }
    assert_refused(text, "f:1:5: error: anchors are not allowed\n");
}

static void truncated_and_malformed_text_gives_one_error(void **state) {
    (void)state;
    assert_refused("", "f:1:1: error: there is nothing in it\n");
    assert_refused("# only a comment\n",
                   "f:1:1: error: there is nothing in it\n");
    assert_refused("a: {b: 1, c: [2",
                   "f:1:16: error: while parsing a flow sequence: did not find "
                   "expected ',' or ']'\n");
    assert_refused("{\"a\": {\"b\": 1},\n",
                   "f:2:1: error: while parsing a flow node: did not find "
                   "expected node content\n");
    assert_refused("{\"a\":\n {\"b\": [1}}\n",
                   "f:2:10: error: while parsing a flow sequence: did not find "
                   "expected ',' or ']'\n");
    assert_refused("a: \"unfinished\n",
                   "f:2:1: error: while scanning a quoted scalar begun at line "
                   "1: found unexpected end of stream\n");
    assert_refused("a: b: c\n", "f:1:5: error: mapping values are not allowed "
                                "in this context\n");
    assert_refused("a: 1\n\tb: 2\n",
                   "f:2:1: error: while scanning a plain scalar begun at line "
                   "1: found a tab character that violates indentation\n");
    assert_refused("a: }\n",
                   "f:1:4: error: while parsing a block node: did not "
                   "find expected node content\n");
}

static void text_that_is_not_utf8_is_refused_at_its_place(void **state) {
    (void)state;
    static const char nul[] = "a: 1\nb: \0\n";
    static const char utf16[] = "\xFF\xFE"
                                "a\0:\0 \0001\0\n\0";
    assert_refused("a: 1\nb: \xC3\xA9\xFF\n",
                   "f:2:5: error: not UTF-8 text: invalid leading UTF-8 "
                   "octet\n");
    assert_refused_bytes(nul, sizeof nul - 1,
                         "f:2:4: error: not UTF-8 text: control characters are "
                         "not allowed\n");
    assert_refused_bytes(utf16, sizeof utf16 - 1,
                         "f:1:1: error: not UTF-8 text: invalid leading UTF-8 "
                         "octet\n");
    assert_refused("a: \xED\xA0\x80\n", "f:1:4: error: not UTF-8 text: invalid "
                                        "Unicode character\n");
    assert_refused("a: \xE2\x82", "f:1:4: error: not UTF-8 text: incomplete "
                                  "UTF-8 octet sequence\n");
}

/* Every byte string of a fixed generator: an error or a document, no crash,
 * and never more than one error line. */
static void binary_junk_gives_one_error(void **state) {
    (void)state;
    uint32_t seed = 12345;
    for (int round = 0; round < 2000; round++) {
        char junk[96];
        size_t len = (size_t)(round % 96);
        for (size_t i = 0; i < len; i++) {
            seed = seed * 1664525 + 1013904223;
            junk[i] = (char)(seed >> 24);
        }
        struct mlagen_diags d = {0};
        struct mlagen_doc *doc;
        enum mlagen_status status = mlagen_yaml_parse(junk, len, "f", &doc, &d);
        assert_int_equal(d.count, status ? 1 : 0);
        assert_true((doc == NULL) == (status != MLAGEN_OK));
        if (d.count)
            assert_true(d.items[0].where.line >= 1 &&
                        d.items[0].where.col >= 1);
        mlagen_doc_free(doc);
        mlagen_diags_free(&d);
    }
}

static void deep_nesting_is_refused_quickly(void **state) {
    (void)state;
    size_t len = 100000;
    char *text = malloc(len + 1);
    memset(text, '[', len);
    text[len] = '\0';
    assert_refused(text, "f:1:65: error: values nest deeper than 64\n");
    for (size_t i = 0; i + 1 < len; i += 2)
        memcpy(text + i, "- ", 2);
    assert_refused(text, "f:1:129: error: values nest deeper than 64\n");
    memset(text, '{', len);
    assert_refused(text, "f:1:2: error: a key must be a scalar\n");
    free(text);
    struct mlagen_doc *doc; /* 64 levels are fine */
    struct mlagen_diags d = {0};
    char ok[129];
    memset(ok, '[', 64);
    memset(ok + 64, ']', 64);
    assert_int_equal(mlagen_yaml_parse(ok, 128, "f", &doc, &d), MLAGEN_OK);
    mlagen_doc_free(doc);
}

static void a_file_beyond_the_limits_is_refused(void **state) {
    (void)state;
    size_t len = MLAGEN_YAML_BYTES + 1;
    char *text = malloc(len);
    memset(text, ' ', len);
    assert_refused_bytes(text, len,
                         "f:1:1: error: the file is larger than 8 MiB\n");
    text[0] = '[';
    for (size_t i = 1; i + 1 < 2 * (MLAGEN_YAML_NODES + 1); i += 2)
        memcpy(text + i, "1,", 2);
    assert_refused_bytes(text, 2 * (MLAGEN_YAML_NODES + 1),
                         "f:1:2000000: error: too many values in one file\n");
    free(text);
}

static void a_missing_file_is_named(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_doc *doc;
    assert_int_equal(mlagen_yaml_read("/nonexistent.yaml", &doc, &d),
                     MLAGEN_IO);
    assert_null(doc);
    assert_diags(&d, "/nonexistent.yaml: error: No such file or directory\n");
}

/* ---- places -------------------------------------------------------------- */

static void a_path_finds_its_value_or_the_nearest_ancestor(void **state) {
    (void)state;
    struct mlagen_doc *doc = parse("rope:\n"
                                   "  theta: 5\n"
                                   "tp: [1,\n"
                                   "     8]\n");
    static const struct {
        const char *path;
        unsigned line, col;
    } cases[] = {
        {"[\"rope\", \"theta\"]", 2, 10},
        {"[\"rope\", \"scaling\", \"factor\"]", 2, 3}, /* rope's map */
        {"[\"tp\", 2]", 4, 6},
        {"[\"tp\", 3]", 3, 5},
        {"[\"tp\", \"x\"]", 3, 5},
        {"[\"rope\", 1]", 2, 3},
        {"[\"heads\"]", 1, 1},
        {"[]", 1, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *path = json_loads(cases[i].path, 0, NULL);
        assert_where(mlagen_doc_where(doc, path), cases[i].line, cases[i].col);
        json_decref(path);
    }
    mlagen_doc_free(doc);
}

/* ---- -D ------------------------------------------------------------------ */

static void overrides_replace_and_make_values(void **state) {
    (void)state;
    struct mlagen_doc *doc = parse("heads: 128\nrope: {theta: 1}\n");
    struct mlagen_diags d = {0};
    static const char *const settings[] = {
        "heads=16",
        "tp=[1, 8]",
        "rope.theta=1e6",
        "lse.empty=+inf",
        "rope.scaling={type: yarn, factor: 4}",
        "note=a=b"};
    for (size_t i = 0; i < COUNT(settings); i++)
        assert_int_equal(mlagen_doc_set(doc, settings[i], &d), MLAGEN_OK);
    assert_diags(&d, "");
    assert_string_equal(get(doc, "heads")->text, "16");
    assert_string_equal(get(doc, "heads")->where.file, "<-D heads>");
    assert_string_equal(get(doc, "heads")->key_where.file, "f.yaml");
    assert_string_equal(get(doc, "tp")->last->text, "8");
    assert_int_equal(get(doc, "tp")->last->where.col, 5);
    assert_string_equal(mlagen_node_get(get(doc, "rope"), "theta")->text,
                        "1e6");
    assert_string_equal(mlagen_node_get(get(doc, "lse"), "empty")->text,
                        "+inf");
    assert_string_equal(get(doc, "note")->text, "a=b");
    assert_int_equal(mlagen_doc_root(doc)->count, 5);
    json_t *path = json_loads("[\"rope\",\"scaling\",\"factor\"]", 0, NULL);
    assert_string_equal(mlagen_doc_where(doc, path).file, "<-D rope.scaling>");
    json_decref(path);
    mlagen_doc_free(doc);
}

static void malformed_overrides_are_usage_errors(void **state) {
    (void)state;
    static const char *const bad[] = {"heads", "=1",     ".a=1",
                                      "a.=1",  "a..b=1", ""};
    struct mlagen_doc *doc = parse("a: 1\n");
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct mlagen_diags d = {0};
        char text[80];
        snprintf(text, sizeof text,
                 "mlagen: error: -D %s: expected key.path=value\n", bad[i]);
        assert_int_equal(mlagen_doc_set(doc, bad[i], &d), MLAGEN_USAGE);
        assert_diags(&d, text);
    }
    mlagen_doc_free(doc);
}

static void overrides_that_cannot_apply_say_why(void **state) {
    (void)state;
    struct mlagen_doc *doc = parse("a: {b: 1}\n");
    struct mlagen_diags d = {0};
    assert_int_equal(mlagen_doc_set(doc, "a.b.c=1", &d), MLAGEN_SPEC);
    assert_diags(&d, "<-D a.b.c>:1:1: error: 'a.b' is not a map\n");
    assert_int_equal(mlagen_doc_set(doc, "a=[1", &d), MLAGEN_SPEC);
    assert_diags(&d, "<-D a>:1:3: error: while parsing a flow sequence: did "
                     "not find expected ',' or ']'\n");
    assert_int_equal(mlagen_doc_set(doc, "a=", &d), MLAGEN_SPEC);
    assert_diags(&d, "<-D a>:1:1: error: there is nothing in it\n");
    mlagen_doc_free(doc);
    doc = parse("[1]\n");
    assert_int_equal(mlagen_doc_set(doc, "a=1", &d), MLAGEN_SPEC);
    assert_diags(&d, "<-D a>:1:1: error: '' is not a map\n");
    mlagen_doc_free(doc);
}

/* ---- JSON typing --------------------------------------------------------- */

/* jansson, which shares no code with libyaml, is the judge. */
static void a_config_json_means_what_json_says(void **state) {
    (void)state;
    static const char text[] =
        "{\n"
        "  \"heads\": 128, \"eps\": 1e-06, \"theta\": 10000.0,\n"
        "  \"neg\": -3, \"half\": -0.5, \"big\": 9223372036854775807,\n"
        "  \"yes\": true, \"no\": false, \"none\": null,\n"
        "  \"text\": \"no\", \"number\": \"128\", \"esc\": "
        "\"a\\n\\u00e9\\/\",\n"
        "  \"list\": [1, 2.5, [], {}], \"nest\": {\"a\": {\"b\": \"c\"}}\n"
        "}\n";
    struct mlagen_doc *doc = parse(text);
    struct mlagen_diags d = {0};
    json_t *value, *right = json_loads(text, 0, NULL);
    assert_int_equal(mlagen_doc_json(doc, &value, &d), MLAGEN_OK);
    assert_true(json_equal(value, right));
    json_decref(value);
    json_decref(right);
    mlagen_doc_free(doc);
}

static void
characters_beyond_16_bits_are_read_as_json_writes_them(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{\"a\": \"\\ud83d\\ude00\"}",
        " [\"x\\uD83D\\uDE00y\\\\\\ud834\\udd1e\\n\"]",
        "{\"a\": \"\\\\ud83d\\\\ude00\"}",
        "[\"\\udbff\\udfff\\ud800\\udc00\"]"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct mlagen_diags d = {0};
        struct mlagen_doc *doc = parse(texts[i]);
        json_t *value, *right = json_loads(texts[i], 0, NULL);
        assert_non_null(right);
        assert_int_equal(mlagen_doc_json(doc, &value, &d), MLAGEN_OK);
        assert_true(json_equal(value, right));
        json_decref(value);
        json_decref(right);
        mlagen_doc_free(doc);
    }
    assert_refused("[\"\\ud83d\"]",
                   "f:1:5: error: while parsing a quoted scalar: found invalid "
                   "Unicode character escape code\n");
    assert_refused("[\"\\ud83d\\u0041\"]",
                   "f:1:5: error: while parsing a quoted scalar: found invalid "
                   "Unicode character escape code\n");
    struct mlagen_doc *doc = parse("a: \\ud83d\\ude00\n"); /* plain text */
    assert_string_equal(get(doc, "a")->text, "\\ud83d\\ude00");
    mlagen_doc_free(doc);
}

static void what_json_does_not_know_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *diags;
    } cases[] = {
        {"{\"a\": NaN}", "f.yaml:1:7: error: 'NaN' is not a JSON value\n"},
        {"{\"a\": Infinity}",
         "f.yaml:1:7: error: 'Infinity' is not a JSON value\n"},
        {"{\"a\": [1,\n -inf]}",
         "f.yaml:2:2: error: '-inf' is not a JSON value\n"},
        {"{\"a\": True}", "f.yaml:1:7: error: 'True' is not a JSON value\n"},
        {"{\"a\": 01}", "f.yaml:1:7: error: '01' is not a JSON value\n"},
        {"{\"a\": 0x10}", "f.yaml:1:7: error: '0x10' is not a JSON value\n"},
        {"{\"a\": }", "f.yaml:1:7: error: '' is not a JSON value\n"},
        {"{\"a\": 1e999}", "f.yaml:1:7: error: number out of range: 1e999\n"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct mlagen_doc *doc = parse(cases[i].text);
        struct mlagen_diags d = {0};
        json_t *value;
        assert_int_equal(mlagen_doc_json(doc, &value, &d), MLAGEN_SPEC);
        assert_null(value);
        assert_diags(&d, cases[i].diags);
        mlagen_doc_free(doc);
    }
}

/* ---- out of memory ------------------------------------------------------- */

static enum mlagen_status read_set_and_type(struct mlagen_diags *d) {
    static const char text[] = "{a: 1, b: [x, {c: \"d\"}], e: {f: null}}";
    struct mlagen_doc *doc;
    json_t *value = NULL;
    enum mlagen_status status =
        mlagen_yaml_parse(text, sizeof text - 1, "f", &doc, d);
    if (!status)
        status = mlagen_doc_set(doc, "e.g.h=[1, 2]", d);
    if (!status)
        status = mlagen_doc_set(doc, "b=[1, true, \"x\"]", d);
    if (!status)
        status = mlagen_doc_json(doc, &value, d);
    json_decref(value);
    mlagen_doc_free(doc);
    return status;
}

static void documents_survive_no_memory(void **state) {
    (void)state;
    assert_survives_no_memory(read_set_and_type);
}

/* libyaml asks libc directly; where no sanitizer owns malloc, this program's
 * own definition comes first and can refuse the n-th request of a parse. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#if !defined(SANITIZED) && !defined(__SANITIZE_ADDRESS__)
void *__libc_malloc(size_t size);
void *__libc_realloc(void *ptr, size_t size);

static size_t libc_refuses; /* counts down; 1: this request; 0: never */

static bool libc_says_no(void) {
    return libc_refuses && --libc_refuses == 0;
}

void *malloc(size_t size) {
    return libc_says_no() ? NULL : __libc_malloc(size);
}

void *realloc(void *ptr, size_t size) {
    return libc_says_no() ? NULL : __libc_realloc(ptr, size);
}

static void libyaml_without_memory_is_no_syntax_error(void **state) {
    (void)state;
    static const char text[] = "{a: 1, b: [x, {c: \"d e\"}]}";
    size_t refused = 0;
    for (size_t n = 1, left = 0; left == 0; n++) {
        struct mlagen_diags d = {0};
        struct mlagen_doc *doc;
        libc_refuses = n;
        enum mlagen_status status =
            mlagen_yaml_parse(text, sizeof text - 1, "f", &doc, &d);
        left = libc_refuses;
        libc_refuses = 0;
        assert_int_equal(status, left ? MLAGEN_OK : MLAGEN_INTERNAL);
        assert_true((d.errors > 0) == (status != MLAGEN_OK));
        refused += status != MLAGEN_OK;
        mlagen_doc_free(doc);
        mlagen_diags_free(&d);
    }
    assert_true(refused > 20);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_know_where_they_stand),
        cmocka_unit_test(scalars_stay_the_text_that_was_written),
        cmocka_unit_test(line_ends_marks_and_missing_newlines_are_read),
        cmocka_unit_test(a_quoted_nul_is_part_of_its_text),
        cmocka_unit_test(a_duplicate_key_names_both_lines),
        cmocka_unit_test(anchors_aliases_tags_and_documents_are_refused),
        cmocka_unit_test(an_alias_bomb_stops_at_its_first_anchor),
        cmocka_unit_test(truncated_and_malformed_text_gives_one_error),
        cmocka_unit_test(text_that_is_not_utf8_is_refused_at_its_place),
        cmocka_unit_test(binary_junk_gives_one_error),
        cmocka_unit_test(deep_nesting_is_refused_quickly),
        cmocka_unit_test(a_file_beyond_the_limits_is_refused),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(a_path_finds_its_value_or_the_nearest_ancestor),
        cmocka_unit_test(overrides_replace_and_make_values),
        cmocka_unit_test(malformed_overrides_are_usage_errors),
        cmocka_unit_test(overrides_that_cannot_apply_say_why),
        cmocka_unit_test(a_config_json_means_what_json_says),
        cmocka_unit_test(
            characters_beyond_16_bits_are_read_as_json_writes_them),
        cmocka_unit_test(what_json_does_not_know_is_refused),
        cmocka_unit_test(documents_survive_no_memory),
#if !defined(SANITIZED) && !defined(__SANITIZE_ADDRESS__)
        cmocka_unit_test(libyaml_without_memory_is_no_syntax_error),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
