/* SPDX-License-Identifier: Apache-2.0
 *
 * test_template.c: the template engine, from text to text.
 */
#include "lua_host.h"
#include "support.h"

/* ---- helpers ------------------------------------------------------------- */

/* Templates of a test: (path, text) pairs with main.lua added. */
struct set {
    struct mlagen_embedded table[10];
    struct mlagen_tree *tree;
    struct mlagen_host *host;
};

static struct set open_set(const char *const *pairs) {
    struct set set;
    struct mlagen_diags d = {0};
    set.tree = make_tree(set.table, pairs);
    assert_int_equal(mlagen_host_new(set.tree, NULL, &set.host, &d), MLAGEN_OK);
    return set;
}

static void close_set(struct set *set) {
    mlagen_host_free(set->host);
    mlagen_tree_free(set->tree);
}

/* Renders t.tpl of `text` with parameters in JSON; the caller frees *out. */
static enum mlagen_status render_text(const char *text, const char *params,
                                      struct mlagen_buf *out,
                                      struct mlagen_diags *d) {
    const char *const pairs[] = {"templates/t.tpl", text, NULL};
    struct set set = open_set(pairs);
    json_t *p = json_loads(params, 0, NULL);
    assert_non_null(p);
    enum mlagen_status status =
        mlagen_host_render(set.host, "t.tpl", p, out, NULL, d);
    json_decref(p);
    close_set(&set);
    return status;
}

static void assert_renders(const char *text, const char *params,
                           const char *right) {
    struct mlagen_diags d = {0};
    struct mlagen_buf out = {0};
    enum mlagen_status status = render_text(text, params, &out, &d);
    assert_diags(&d, "");
    assert_int_equal(status, MLAGEN_OK);
    assert_string_equal(mlagen_buf_text(&out), right);
    mlagen_buf_free(&out);
}

static void assert_fails(const char *text, const char *params,
                         const char *first) {
    struct mlagen_diags d = {0};
    struct mlagen_buf out = {0};
    assert_int_equal(render_text(text, params, &out, &d), MLAGEN_TEMPLATE);
    assert_int_equal(out.len, 0);
    assert_int_equal(d.errors, 1);
    assert_first_diag(&d, first);
    mlagen_buf_free(&out);
}

/* ---- text ---------------------------------------------------------------- */

static void loops_and_values_make_text(void **state) {
    (void)state;
    assert_renders("@ for i = 0, 2 do\n"
                   "float acc${i} = ${f32(init)};\n"
                   "@ end\n"
                   "done\n",
                   "{\"init\": 0.5}",
                   "float acc0 = 0.5f;\n"
                   "float acc1 = 0.5f;\n"
                   "float acc2 = 0.5f;\n"
                   "done\n");
}

static void locals_and_functions_span_lines(void **state) {
    (void)state;
    assert_renders("@ local names = {\n"
                   "@     \"a\", \"b\",\n"
                   "@ }\n"
                   "@ local function twice(x)\n"
                   "${x}, ${x};\n"
                   "@ end\n"
                   "@ for _, name in ipairs(names) do twice(name) end\n"
                   "@\n"
                   "   @\n"
                   "  @ if #names == 2 then\n"
                   "two\n"
                   "  @ end\n",
                   "{}", "a, a;\nb, b;\ntwo\n");
}

static void marks_and_braces_can_be_written_as_text(void **state) {
    (void)state;
    assert_renders("@@ at\n"
                   "  @@ indented\n"
                   "@@\n"
                   "@p bra L;\n"
                   "@@@ three\n"
                   "a @ b\n"
                   "$${x} $$ $ $x {y} }\n"
                   "$$${x}\n"
                   "${\"$\"}${x}\n",
                   "{\"x\": 1}",
                   "@ at\n"
                   "  @ indented\n"
                   "@\n"
                   "@p bra L;\n"
                   "@@@ three\n"
                   "a @ b\n"
                   "${x} $$ $ $x {y} }\n"
                   "$${x}\n"
                   "$1\n");
}

static void braces_and_quotes_nest_inside_an_expression(void **state) {
    (void)state;
    assert_renders("${({a = {b = \"}\"}}).a.b}\n"
                   "${'\\'}' .. \"\\\"}\"}|\n"
                   "${[[}]] .. [=[ ]] } ]=]}|\n"
                   "${(\"x\"):rep(3)} ${#\"--\"}\n"
                   "${t[1]}${t[ t[1] ]}\n",
                   "{\"t\": [2, 7]}",
                   "}\n"
                   "'}\"}|\n"
                   "} ]] } |\n"
                   "xxx 2\n"
                   "27\n");
}

static void line_ends_of_any_kind_give_the_same_text(void **state) {
    (void)state;
    assert_renders("@ if x == 1 then\r\na ${x}\r\n@ end\r\nb", "{\"x\": 1}",
                   "a 1\nb\n");
    assert_renders("\xEF\xBB\xBF@ local y = 2\n${y}", "{}", "2\n");
    assert_renders("", "{}", "");
    assert_renders("\n\n", "{}", "\n\n");
    assert_renders("@ local y = 1", "{}", "");
}

static void integers_print_as_decimal_in_64_bits(void **state) {
    (void)state;
    assert_renders("${a} ${b} ${c} ${1 << 62} ${math.mininteger} ${7 // 2}\n",
                   "{\"a\": 9223372036854775807, \"b\": -1, \"c\": \"s\"}",
                   "9223372036854775807 -1 s 4611686018427387904 "
                   "-9223372036854775808 3\n");
}

static void later_lines_of_a_value_keep_the_indentation(void **state) {
    (void)state;
    assert_renders("    ${v}\n"
                   "\t x = ${v};\n"
                   "${v}|\n",
                   "{\"v\": \"one\\n\\n  two\"}",
                   "    one\n\n      two\n"
                   "\t x = one\n\n\t   two;\n"
                   "one\n\n  two|\n");
    assert_renders("  ${a}${b}\n", "{\"a\": \"x\\n\", \"b\": \"y\\n\"}",
                   "  x\n  y\n\n");
}

static void a_line_of_one_empty_value_vanishes(void **state) {
    (void)state;
    assert_renders("a\n  ${e}  \n${e}\nb\n${e}${e}\n[${e}]\n\nc\n",
                   "{\"e\": \"\"}", "a\nb\n\n[]\n\nc\n");
}

static void an_expression_gives_one_value(void **state) {
    (void)state;
    assert_renders("${(\"a-b\"):match(\"(%w)-(%w)\")}|${1}\n", "{}", "a|1\n");
}

/* ---- include ------------------------------------------------------------- */

static void includes_see_their_parameters_and_nothing_else(void **state) {
    (void)state;
    const char *const pairs[] = {
        "templates/frag/a.tpl",
        "a ${x}\n  b ${y}\n",
        "templates/frag/b.tpl",
        "${x}\n",
        "templates/t.tpl",
        "  ${include(\"frag/a.tpl\", {x = 1, y = x})}\n"
        "f(${include(\"frag/b.tpl\", {x = \"in\"})})\n",
        "templates/u.tpl",
        "${include(\"frag/b.tpl\")}\n",
        NULL};
    struct set set = open_set(pairs);
    struct mlagen_diags d = {0};
    struct mlagen_buf out = {0};
    json_t *params = json_pack("{s:s}", "x", "outer");
    assert_int_equal(
        mlagen_host_render(set.host, "t.tpl", params, &out, NULL, &d),
        MLAGEN_OK);
    assert_string_equal(out.data, "  a 1\n    b outer\nf(in)\n");
    assert_int_equal(
        mlagen_host_render(set.host, "u.tpl", params, &out, NULL, &d),
        MLAGEN_TEMPLATE);
    assert_diags(&d, "templates/frag/b.tpl:1: error: unknown name 'x'\n"
                     "templates/u.tpl:1: note: reached from here\n");
    mlagen_buf_free(&out);
    json_decref(params);
    close_set(&set);
}

static void an_include_without_end_is_refused(void **state) {
    (void)state;
    assert_fails("${include(\"t.tpl\", {})}\n", "{}",
                 "templates/t.tpl:1: error: includes nest deeper than 32");
}

static void a_missing_template_is_named(void **state) {
    (void)state;
    assert_fails("x\n${include(\"frag/no.tpl\", {})}\n", "{}",
                 "templates/t.tpl:2: error: no template 'frag/no.tpl' "
                 "(templates/frag/no.tpl is missing)");
}

/* ---- strictness ---------------------------------------------------------- */

static void values_without_a_text_form_are_errors(void **state) {
    (void)state;
    static const struct {
        const char *expression, *is;
    } cases[] = {
        {"nil", "is a nil"},   {"x == 1", "is a boolean"},
        {"{}", "is a table"},  {"f32", "is a function"},
        {"null", "is a null"}, {"n", "is a null"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[64], right[160];
        snprintf(text, sizeof text, "a\nb ${x} ${%s}\n", cases[i].expression);
        snprintf(right, sizeof right,
                 "templates/t.tpl:2: error: ${%s} %s: only strings and "
                 "integers become text",
                 cases[i].expression, cases[i].is);
        assert_fails(text, "{\"x\": 1, \"n\": null}", right);
    }
    assert_fails("${512/2}\n", "{}",
                 "templates/t.tpl:1: error: ${512/2} is a float (256.0): use "
                 "// for integers, f32() for a float literal");
    assert_fails("\n${x}\n", "{\"x\": 0.5}",
                 "templates/t.tpl:2: error: ${x} is a float (0.5): use // for "
                 "integers, f32() for a float literal");
}

static void unknown_names_and_global_writes_are_errors(void **state) {
    (void)state;
    assert_fails("a\n${heads}\n", "{\"head\": 1}",
                 "templates/t.tpl:2: error: unknown name 'heads'");
    assert_fails("@ local x = 1\n@ y = x\n", "{}",
                 "templates/t.tpl:2: error: assignment to 'y', which is not a "
                 "local variable");
    assert_fails("@ x = 2\n", "{\"x\": 1}",
                 "templates/t.tpl:1: error: assignment to 'x', which is not a "
                 "local variable");
    assert_fails("@ assert = 2\n", "{}",
                 "templates/t.tpl:1: error: assignment to 'assert', which is "
                 "not a local variable");
    assert_fails("text\n", "{\"keys\": 64}",
                 "mlagen: error: parameter 'keys' hides the built-in of that "
                 "name");
    assert_fails("text\n", "[1]",
                 "mlagen: error: a template parameter's name is a number");
}

static void asserts_show_their_line(void **state) {
    (void)state;
    assert_fails("text\n@ assert(x % 16 == 0)\n", "{\"x\": 24}",
                 "templates/t.tpl:2: error: assertion failed: assert(x % 16 == "
                 "0)");
    assert_fails("@ assert(x == 1, \"x must be 1\")\n", "{\"x\": 24}",
                 "templates/t.tpl:1: error: x must be 1");
    assert_renders("@ assert(x == 24, \"no\")\nok\n", "{\"x\": 24}", "ok\n");
}

/* ---- places of errors ---------------------------------------------------- */

static void faulty_expressions_are_found_at_their_column(void **state) {
    (void)state;
    assert_fails(
        "a\n  b ${x\n", "{}",
        "templates/t.tpl:2:5: error: unterminated ${ (it must close on "
        "this line)");
    assert_fails(
        "${f(\"}\n", "{}",
        "templates/t.tpl:1:1: error: unterminated ${ (it must close on "
        "this line)");
    assert_fails(
        "${[[}\n", "{}",
        "templates/t.tpl:1:1: error: unterminated ${ (it must close on "
        "this line)");
    assert_fails(
        "${\"\\\n", "{}",
        "templates/t.tpl:1:1: error: unterminated ${ (it must close on "
        "this line)");
    assert_fails("a ${ }\n", "{}", "templates/t.tpl:1:3: error: an empty ${}");
    assert_fails("${x -- y}\n", "{}",
                 "templates/t.tpl:1:1: error: a comment inside ${}");
    assert_fails("ab\rcd\n", "{}",
                 "templates/t.tpl:1:3: error: a carriage return inside a line");
}

static void luas_own_errors_name_the_template_line(void **state) {
    (void)state;
    assert_fails("a\n@ for i = 1, 2 do\nb\n", "{}",
                 "templates/t.tpl:4: error: 'end' expected (to close 'for' at "
                 "line 2) near <eof>");
    assert_fails("a\n@ end\nb\n", "{}",
                 "templates/t.tpl:2: error: <eof> expected near 'end'");
    assert_fails("a\nb ${1 +}\n", "{}",
                 "templates/t.tpl:2: error: unexpected symbol near ')'");
    assert_fails("a\n\nb ${t.x.y}\n", "{\"t\": {}}",
                 "templates/t.tpl:3: error: attempt to index a nil value "
                 "(field 'x')");
    assert_fails("a\n@ local s = 1 +\n@    nil\n", "{}",
                 "templates/t.tpl:2: error: attempt to perform arithmetic on a "
                 "nil value");
    assert_fails("@ fail(\"%d heads\", 3)\n", "{}",
                 "templates/t.tpl:1: error: 3 heads");
}

static void long_paths_are_named_in_full(void **state) {
    (void)state;
    const char *const pairs[] = {
        "templates/kernel/a_very_long_folder/and_a_very_long_name_in_it.tpl",
        "x\n${nil}\n", NULL};
    struct set set = open_set(pairs);
    struct mlagen_diags d = {0};
    struct mlagen_buf out = {0};
    json_t *params = json_object();
    assert_int_equal(
        mlagen_host_render(
            set.host,
            "kernel/a_very_long_folder/and_a_very_long_name_in_it.tpl", params,
            &out, NULL, &d),
        MLAGEN_TEMPLATE);
    assert_first_diag(&d, "templates/kernel/a_very_long_folder/and_a_very_long_"
                          "name_in_it.tpl:2: error: ${nil} is a nil: only "
                          "strings and integers become text");
    json_decref(params);
    close_set(&set);
}

/* ---- origins ------------------------------------------------------------- */

static void every_emitted_line_knows_its_template_line(void **state) {
    (void)state;
    const char *const pairs[] = {"templates/a.tpl",
                                 "a1\n@ for i = 1, 2 do\na3 ${i}\n@ end\n",
                                 "templates/t.tpl",
                                 "t1\n"
                                 "  ${include(\"a.tpl\", {})}\n"
                                 "@ local v = \"x\\ny\"\n"
                                 "t4 ${v} z\n"
                                 "t5 ${include(\"a.tpl\", {})}\n"
                                 "${\"\"}\n"
                                 "t7\n",
                                 NULL};
    static const struct {
        const char *text, *file;
        unsigned line;
    } right[] = {
        {"t1", "t", 1},     {"  a1", "a", 1}, {"  a3 1", "a", 3},
        {"  a3 2", "a", 3}, {"t4 x", "t", 4}, {"y z", "t", 4},
        {"t5 a1", "t", 5},  {"a3 1", "a", 3}, {"a3 2", "a", 3},
        {"t7", "t", 7},
    };
    struct set set = open_set(pairs);
    struct mlagen_diags d = {0};
    struct mlagen_buf out = {0};
    struct mlagen_linemap map;
    json_t *params = json_object();
    assert_int_equal(
        mlagen_host_render(set.host, "t.tpl", params, &out, &map, &d),
        MLAGEN_OK);
    char *line = out.data;
    assert_int_equal(map.count, COUNT(right));
    for (size_t i = 0; i < COUNT(right); i++) {
        char *end = strchr(line, '\n');
        *end = '\0';
        assert_string_equal(line, right[i].text);
        struct mlagen_where where = mlagen_linemap_find(&map, i + 1);
        char path[32];
        snprintf(path, sizeof path, "templates/%s.tpl", right[i].file);
        assert_string_equal(where.file, path);
        assert_int_equal(where.line, right[i].line);
        line = end + 1;
    }
    assert_null(mlagen_linemap_find(&map, 0).file);
    assert_null(mlagen_linemap_find(&map, COUNT(right) + 1).file);
    mlagen_linemap_free(&map);
    mlagen_buf_free(&out);
    json_decref(params);
    close_set(&set);
}

/* ---- the same bytes ------------------------------------------------------ */

static void rendering_twice_gives_the_same_bytes(void **state) {
    (void)state;
    const char *const pairs[] = {
        "templates/t.tpl",
        "@ for _, k in ipairs(keys(t)) do\n"
        "${k} = ${t[k]}\n"
        "@ end\n"
        "@ local list = {}\n"
        "@ for i = 1, 400 do list[i] = {i % 7, i} end\n"
        "@ table.sort(list, function(a, b) return a[1] < b[1] end)\n"
        "@ for _, e in ipairs(list) do\n"
        "${e[2]}\n"
        "@ end\n",
        NULL};
    struct mlagen_buf out[3] = {{0}};
    json_t *params =
        json_loads("{\"t\": {\"zeta\": 1, \"alpha\": 2, \"mid\": 3, \"b\": 4, "
                   "\"a\": 5, \"B\": 6}}",
                   0, NULL);
    struct set first = open_set(pairs), second = open_set(pairs);
    struct mlagen_diags d = {0};
    for (int i = 0; i < 3; i++)
        assert_int_equal(mlagen_host_render(i < 2 ? first.host : second.host,
                                            "t.tpl", params, &out[i], NULL, &d),
                         MLAGEN_OK);
    static const char right[] = "B = 6\na = 5\nalpha = 2\nb = 4\n"
                                "mid = 3\nzeta = 1\n7\n14\n21\n";
    assert_memory_equal(out[0].data, right, sizeof right - 1);
    assert_string_equal(out[1].data, out[0].data);
    assert_string_equal(out[2].data, out[0].data);
    for (int i = 0; i < 3; i++)
        mlagen_buf_free(&out[i]);
    json_decref(params);
    close_set(&first);
    close_set(&second);
}

/* ---- out of memory ------------------------------------------------------- */

static enum mlagen_status render_with_map(struct mlagen_diags *d) {
    static const struct mlagen_embedded table[] = {
        {"templates/a.tpl", BYTES("a ${x}\nb\n")},
        {"templates/t.tpl", BYTES("@ local v = include(\"a.tpl\", {x = 2})\n"
                                  "  ${v} ${y}\n${v}${v}${v}\n")}};
    struct mlagen_tree *tree = NULL;
    struct mlagen_host *host = NULL;
    struct mlagen_buf out = {0};
    struct mlagen_linemap map = {0};
    json_t *params = json_pack("{s:i}", "y", 3);
    enum mlagen_status status =
        params ? mlagen_tree_of(table, 2, &tree, d) : mlagen_no_memory(d);
    if (!status)
        status = mlagen_host_new(tree, NULL, &host, d);
    if (!status)
        status = mlagen_host_render(host, "t.tpl", params, &out, &map, d);
    if (!status)
        assert_string_equal(out.data, "  a 2\n  b 3\na 2\nba 2\nba 2\nb\n");
    mlagen_linemap_free(&map);
    mlagen_buf_free(&out);
    json_decref(params);
    mlagen_host_free(host);
    mlagen_tree_free(tree);
    return status;
}

static void rendering_survives_no_memory(void **state) {
    (void)state;
    assert_survives_no_memory(render_with_map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_and_values_make_text),
        cmocka_unit_test(locals_and_functions_span_lines),
        cmocka_unit_test(marks_and_braces_can_be_written_as_text),
        cmocka_unit_test(braces_and_quotes_nest_inside_an_expression),
        cmocka_unit_test(line_ends_of_any_kind_give_the_same_text),
        cmocka_unit_test(integers_print_as_decimal_in_64_bits),
        cmocka_unit_test(later_lines_of_a_value_keep_the_indentation),
        cmocka_unit_test(a_line_of_one_empty_value_vanishes),
        cmocka_unit_test(an_expression_gives_one_value),
        cmocka_unit_test(includes_see_their_parameters_and_nothing_else),
        cmocka_unit_test(an_include_without_end_is_refused),
        cmocka_unit_test(a_missing_template_is_named),
        cmocka_unit_test(values_without_a_text_form_are_errors),
        cmocka_unit_test(unknown_names_and_global_writes_are_errors),
        cmocka_unit_test(asserts_show_their_line),
        cmocka_unit_test(faulty_expressions_are_found_at_their_column),
        cmocka_unit_test(luas_own_errors_name_the_template_line),
        cmocka_unit_test(long_paths_are_named_in_full),
        cmocka_unit_test(every_emitted_line_knows_its_template_line),
        cmocka_unit_test(rendering_twice_gives_the_same_bytes),
        cmocka_unit_test(rendering_survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
