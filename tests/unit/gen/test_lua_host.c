/* SPDX-License-Identifier: Apache-2.0
 *
 * test_lua_host.c: the sandbox: what it offers, what it refuses, its limits,
 * and values across its border.
 */
#include "comma_locale.h"
#include "lua_host.h"
#include "support.h"

/* ---- helpers ------------------------------------------------------------- */

/* Calls main.f(arg) where main.lua is `lua`; arg NULL is no argument. */
static enum mlagen_status call_limited(const char *const *pairs,
                                       const struct mlagen_limits *limits,
                                       json_t *arg, json_t **result,
                                       struct mlagen_diags *d) {
    struct mlagen_embedded table[8];
    struct mlagen_tree *tree = make_tree(table, pairs);
    struct mlagen_host *host;
    enum mlagen_status status = mlagen_host_new(tree, limits, &host, d);
    assert_int_equal(status, MLAGEN_OK);
    status = mlagen_host_call(host, "f", &arg, arg ? 1 : 0, result, d);
    assert_true((*result == NULL) == (status != MLAGEN_OK));
    mlagen_host_free(host);
    mlagen_tree_free(tree);
    return status;
}

static enum mlagen_status call(const char *lua, const char *arg,
                               json_t **result, struct mlagen_diags *d) {
    const char *const pairs[] = {"templates/main.lua", lua, NULL};
    json_t *value = arg ? json_loads(arg, JSON_DECODE_ANY, NULL) : NULL;
    assert_true(!arg || value);
    enum mlagen_status status = call_limited(pairs, NULL, value, result, d);
    json_decref(value);
    return status;
}

/* Asserts what `return <expression>` gives, as compact JSON. */
static void assert_gives(const char *expression, const char *json) {
    struct mlagen_diags d = {0};
    struct mlagen_buf lua = {0};
    json_t *result;
    mlagen_buf_printf(&lua, "return {f = function(x) return %s end}",
                      expression);
    enum mlagen_status status = call(lua.data, NULL, &result, &d);
    assert_diags(&d, "");
    assert_int_equal(status, MLAGEN_OK);
    char *text =
        json_dumps(result, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
    assert_string_equal(text, json);
    free(text);
    json_decref(result);
    mlagen_buf_free(&lua);
}

/* Asserts the first line of the errors that the body of f gives.  The body is
 * line 2 of main.lua. */
static void assert_raises(const char *body, const char *message) {
    struct mlagen_diags d = {0};
    struct mlagen_buf lua = {0}, right = {0};
    json_t *result;
    mlagen_buf_printf(&lua, "return {f = function(x)\n%s\nend}", body);
    mlagen_buf_printf(&right, "templates/main.lua:2: error: %s", message);
    assert_int_equal(call(lua.data, NULL, &result, &d), MLAGEN_TEMPLATE);
    assert_int_equal(d.errors, 1);
    assert_first_diag(&d, right.data);
    mlagen_buf_free(&lua);
    mlagen_buf_free(&right);
}

/* ---- what is there, what is not ------------------------------------------ */

static void the_globals_are_those_of_the_contract(void **state) {
    (void)state;
    static const char *const there[] = {
        "assert", "error",  "ipairs",       "select",       "tonumber",
        "type",   "rawget", "tostring",     "getmetatable", "rawequal",
        "rawlen", "pcall",  "setmetatable", "use",          "keys",
        "fail",   "f32",    "include",      "null",         "math",
        "string", "table",  "utf8"};
    static const char *const absent[] = {
        "io",      "os",        "load",     "loadstring",
        "dofile",  "pairs",     "next",     "collectgarbage",
        "debug",   "coroutine", "print",    "rawset",
        "require", "loadfile",  "package",  "warn",
        "xpcall",  "_G",        "_VERSION", "unpack"};
    for (size_t i = 0; i < COUNT(there); i++) {
        char expression[64];
        snprintf(expression, sizeof expression, "%s ~= nil", there[i]);
        assert_gives(expression, "true");
    }
    for (size_t i = 0; i < COUNT(absent); i++) {
        char body[64], message[64];
        snprintf(body, sizeof body, "return %s", absent[i]);
        snprintf(message, sizeof message, "unknown name '%s'", absent[i]);
        assert_raises(body, message);
    }
    assert_gives("{math.random == nil, math.randomseed == nil, string.dump == "
                 "nil, math.floor(2.5)}",
                 "[true,true,true,2]");
}

static void nothing_shared_can_be_written(void **state) {
    (void)state;
    assert_raises("x1 = 1", "assignment to 'x1', which is not a local "
                            "variable");
    assert_raises("assert = 1", "assignment to 'assert', which is not a local "
                                "variable");
    assert_raises("string.rep = 1", "the library is read-only ('rep')");
    assert_raises("math.pi = 3", "the library is read-only ('pi')");
    assert_gives("{getmetatable(\"\"), getmetatable(math), "
                 "getmetatable(null)}",
                 "[false,false,false]");
    assert_raises("setmetatable(string, {})",
                  "cannot change a protected metatable");
}

static void what_depends_on_time_or_place_is_refused(void **state) {
    (void)state;
    assert_raises("return tostring({})", "a table has no text form");
    assert_raises("return tostring(f32)", "a function has no text form");
    assert_raises("return string.format(\"%d\", \"x\")",
                  "bad argument #2 to 'format' (number expected, got string)");
    assert_raises("return string.format(\"%s\", {})",
                  "string.format: argument 2 is a table");
    assert_raises("return (\"%d %s\"):format(1, f32)",
                  "string.format: argument 3 is a function");
    assert_raises("return string.format(\"%-20p\", \"x\")",
                  "string.format: %p prints an address");
    assert_raises("setmetatable({}, {__gc = f32})",
                  "__gc depends on the collector");
    assert_raises("setmetatable({}, {__mode = \"k\"})",
                  "__mode depends on the collector");
    assert_gives("{tostring(1), tostring(nil), tostring(null), "
                 "string.format(\"%5.2f|%%p|%s|%q\", 1, true, \"x\"), "
                 "tostring(setmetatable({}, {__tostring = function() return "
                 "\"t\" end}))}",
                 "[\"1\",\"nil\",\"null\",\" 1.00|%p|true|\\\"x\\\"\",\"t\"]");
}

static void null_is_a_value_that_cannot_be_indexed(void **state) {
    (void)state;
    assert_gives("{null == null, null == nil, type(null), not null}",
                 "[true,false,\"userdata\",false]");
    assert_raises("return null.x", "attempt to index null (field 'x')");
    assert_raises("null.x = 1", "attempt to index null (field 'x')");
}

static void keys_come_sorted_numbers_first(void **state) {
    (void)state;
    assert_gives("keys({b = 1, a = 1, [10] = 1, [2] = 1, [1.5] = 1, B = 1, "
                 "[\"\"] = 1, aa = 1})",
                 "[1.5,2,10,\"\",\"B\",\"a\",\"aa\",\"b\"]");
    assert_gives("keys({})", "[]");
    assert_raises("return keys({[true] = 1})", "keys: a key is a boolean");
}

static void sort_is_stable(void **state) {
    (void)state;
    assert_gives(
        "(function() local t, s = {}, {} for i = 1, 1000 do t[i] = {(i * 7) % "
        "10, i} end table.sort(t, function(a, b) return a[1] < b[1] end) for "
        "i = 2, 1000 do if t[i - 1][1] > t[i][1] or t[i - 1][1] == t[i][1] "
        "and t[i - 1][2] > t[i][2] then s[#s + 1] = i end end return #s end)()",
        "0");
    assert_gives("(function() local t = {3, 1, 2, 1} table.sort(t) return t "
                 "end)()",
                 "[1,1,2,3]");
    assert_gives("(function() local t = {\"b\", \"a\"} table.sort(t) "
                 "return t end)()",
                 "[\"a\",\"b\"]");
    assert_raises("table.sort({1, \"x\"})",
                  "attempt to compare string with number");
}

/* ---- f32 ----------------------------------------------------------------- */

static void f32_is_the_shortest_literal_that_reads_back(void **state) {
    (void)state;
    assert_gives(
        "{f32(0), f32(1), f32(-2), f32(0.1), f32(-0.0), f32(1/3), f32(1e10), "
        "f32(1e-8), f32(16777216), f32(0.1352337788608801), f32(2^-149), "
        "f32(340282346638528859811704183484516925440.0)}",
        "[\"0.0f\",\"1.0f\",\"-2.0f\",\"0.1f\",\"-0.0f\",\"0.33333334f\","
        "\"1e+10f\",\"1e-08f\",\"16777216.0f\",\"0.13523377f\","
        "\"1e-45f\",\"3.4028235e+38f\"]");
    assert_raises("return f32(1/0)", "f32: inf is not a finite float");
    assert_raises("return f32(1e39)", "f32: 1e+39 is not a finite float");
    assert_raises("return f32(0/0 ~= 1 and 0/0)",
                  "f32: -nan is not a finite float");
    assert_raises("return f32(\"1\")",
                  "bad argument #1 to 'f32' (number expected, got string)");
}

/* Random bit patterns: the literal without its f, read by strtof. */
static void f32_reads_back_bit_for_bit(void **state) {
    (void)state;
    json_t *bits = json_array();
    uint32_t seed = 1;
    for (int i = 0; i < 4000; i++) {
        float x;
        seed = seed * 1664525 + 1013904223;
        memcpy(&x, &seed, sizeof x);
        json_t *real = json_real((double)x); /* NULL for inf and NaN */
        if (real)
            json_array_append_new(bits, real);
    }
    struct mlagen_diags d = {0};
    json_t *result;
    const char *const pairs[] = {
        "templates/main.lua",
        "return {f = function(list) local out = {} for i, x in ipairs(list) "
        "do out[i] = f32(x) end return out end}",
        NULL};
    assert_int_equal(call_limited(pairs, NULL, bits, &result, &d), MLAGEN_OK);
    assert_int_equal(json_array_size(result), json_array_size(bits));
    for (size_t i = 0; i < json_array_size(bits); i++) {
        char *end;
        float back = strtof(json_string_value(json_array_get(result, i)), &end);
        assert_string_equal(end, "f");
        assert_true((double)back == json_real_value(json_array_get(bits, i)));
    }
    json_decref(bits);
    json_decref(result);
}

static void format_numbers(void) {
    assert_gives("{f32(0.5), string.format(\"%.2f\", 1.5), tostring(2.5), "
                 "tonumber(\"1.5\"), 1.5 .. \"\", 0.25 * 2}",
                 "[\"0.5f\",\"1.50\",\"2.5\",1.5,\"1.5\",0.5]");
}

static void numbers_do_not_ask_the_locale(void **state) {
    (void)state;
    with_comma_locale(format_numbers);
}

/* ---- modules ------------------------------------------------------------- */

static void a_module_is_loaded_once(void **state) {
    (void)state;
    const char *const pairs[] = {
        "templates/lib/a.lua", "return {n = 0}", "templates/main.lua",
        "local a = use(\"lib/a\")\na.n = a.n + 1\n"
        "return {f = function() return {use(\"lib/a\").n, "
        "rawequal(a, use(\"lib/a\"))} end}",
        NULL};
    struct mlagen_diags d = {0};
    json_t *result;
    assert_int_equal(call_limited(pairs, NULL, NULL, &result, &d), MLAGEN_OK);
    json_t *right = json_pack("[i,b]", 1, 1);
    assert_true(json_equal(result, right));
    json_decref(right);
    json_decref(result);
}

static void assert_module_error(const char *const *pairs, const char *text) {
    struct mlagen_diags d = {0};
    json_t *result;
    assert_int_equal(call_limited(pairs, NULL, NULL, &result, &d),
                     MLAGEN_TEMPLATE);
    assert_diags(&d, text);
}

static void a_module_cycle_names_its_way(void **state) {
    (void)state;
    const char *const pairs[] = {"templates/lib/a.lua",
                                 "local b = use(\"lib/b\")\nreturn {}",
                                 "templates/lib/b.lua",
                                 "\nreturn use(\"lib/a\")",
                                 "templates/main.lua",
                                 "return use(\"lib/a\")",
                                 NULL};
    assert_module_error(pairs,
                        "templates/lib/b.lua:2: error: module cycle: lib/a <- "
                        "lib/b.lua <- lib/a.lua\n"
                        "templates/lib/a.lua:1: note: reached from here\n"
                        "templates/main.lua:1: note: reached from here\n");
}

static void faults_of_modules_name_their_line(void **state) {
    (void)state;
    const char *const missing[] = {"templates/main.lua",
                                   "\nreturn use(\"lib/no\")", NULL};
    const char *const nothing[] = {"templates/lib/a.lua", "local x = 1",
                                   "templates/main.lua",
                                   "local a = use(\"lib/a\")\nreturn a", NULL};
    const char *const syntax[] = {"templates/lib/a.lua", "\nlocal = 1",
                                  "templates/main.lua", "return use(\"lib/a\")",
                                  NULL};
    const char *const no_table[] = {"templates/main.lua", "return 1", NULL};
    const char *const no_entry[] = {"templates/main.lua", "return {}", NULL};
    const char *const no_main[] = {NULL};
    assert_module_error(missing,
                        "templates/main.lua:2: error: no module 'lib/no' "
                        "(templates/lib/no.lua is missing)\n");
    assert_module_error(nothing, "templates/main.lua:1: error: module 'lib/a' "
                                 "returns nothing\n");
    assert_module_error(syntax,
                        "templates/lib/a.lua:2: error: <name> expected near "
                        "'='\n"
                        "templates/main.lua:1: note: reached from here\n");
    assert_module_error(no_table, "mlagen: error: templates/main.lua does not "
                                  "return a table\n");
    assert_module_error(no_entry, "mlagen: error: templates/main.lua has no "
                                  "function 'f'\n");
    assert_module_error(no_main, "mlagen: error: no module 'main' "
                                 "(templates/main.lua is missing)\n");
}

static void compiled_lua_is_not_loaded(void **state) {
    (void)state;
    const char *const pairs[] = {"templates/main.lua", "\x1bLua", NULL};
    struct mlagen_diags d = {0};
    json_t *result;
    assert_int_equal(call_limited(pairs, NULL, NULL, &result, &d),
                     MLAGEN_TEMPLATE);
    assert_int_equal(d.errors, 1);
    assert_non_null(strstr(d.items[0].message, "attempt to load a binary"));
    mlagen_diags_free(&d);
}

/* ---- errors -------------------------------------------------------------- */

static void an_error_tells_how_the_code_was_reached(void **state) {
    (void)state;
    const char *const pairs[] = {"templates/lib/a.lua",
                                 "return {check = function(x)\n"
                                 "    fail(\"bad %d, %s\", x, \"sorry\")\nend}",
                                 "templates/main.lua",
                                 "local a = use(\"lib/a\")\n"
                                 "local function g(x)\n    a.check(x)\nend\n"
                                 "return {f = function() g(7) return 1 end}",
                                 NULL};
    assert_module_error(pairs,
                        "templates/lib/a.lua:2: error: bad 7, sorry\n"
                        "templates/main.lua:3: note: reached from here\n"
                        "templates/main.lua:5: note: reached from here\n");
}

static void errors_of_every_form_become_one_line(void **state) {
    (void)state;
    assert_raises("error(\"plain\")", "plain");
    assert_raises("error(\"no place\", 0)", "no place");
    assert_raises("error({})", "an error was raised whose value is no text");
    assert_raises("error()", "an error was raised whose value is no text");
    assert_raises("error(\"two\\nlines: 3: x\")", "two\\nlines: 3: x");
    assert_raises("assert(false)", "assertion failed: assert(false)");
    assert_raises("assert(nil, \"why\")", "why");
    assert_raises("local t = nil; return t.x",
                  "attempt to index a nil value (local 't')");
    assert_raises("fail(\"%d\", \"x\")",
                  "bad argument #2 to 'fail' (number expected, got string)");
    assert_raises("local function r() return 1 + r() end return r()",
                  "stack overflow");
}

static void pcall_catches_faults(void **state) {
    (void)state;
    assert_gives("{pcall(error, \"x\", 0)}", "[false,\"x\"]");
    assert_gives("{pcall(function(...) return select(\"#\", ...), ... end, 1, "
                 "2)}",
                 "[true,2,1,2]");
    assert_gives("select(2, pcall(function() return unknown end))",
                 "\"templates/main.lua:1: unknown name 'unknown'\"");
}

/* ---- limits -------------------------------------------------------------- */

static void assert_limited(const char *body, const struct mlagen_limits *limits,
                           const char *text) {
    struct mlagen_diags d = {0};
    struct mlagen_buf lua = {0};
    json_t *result;
    mlagen_buf_printf(&lua, "return {f = function(x)\n%s\nend}", body);
    const char *const pairs[] = {"templates/main.lua", lua.data, NULL};
    assert_int_equal(call_limited(pairs, limits, NULL, &result, &d),
                     MLAGEN_TEMPLATE);
    assert_first_diag(&d, text);
    mlagen_buf_free(&lua);
}

static void a_loop_without_end_spends_its_budget(void **state) {
    (void)state;
    const struct mlagen_limits limits = {0, 1000000};
    static const char text[] = "templates/main.lua:2: error: the budget of "
                               "1000000 instructions is spent";
    assert_limited("while true do end", &limits, text);
    assert_limited("while true do pcall(function() while true do end end) end",
                   &limits, text);
    assert_limited("local t = {1, 2} table.sort(t, function() while true do "
                   "end end)",
                   &limits, text);
}

static void memory_stops_at_its_cap(void **state) {
    (void)state;
    const struct mlagen_limits limits = {(size_t)8 << 20, 0};
    static const char text[] = "mlagen: error: templates use more than the "
                               "limit of 8388608 bytes of memory";
    assert_limited("local t = {} while true do t[#t + 1] = {} end", &limits,
                   text);
    assert_limited("return string.rep(\"x\", 1 << 30)", &limits, text);
    assert_limited("while true do pcall(string.rep, \"x\", 1 << 30) end",
                   &limits, text);
    assert_limited("local s = \"x\" while true do s = s .. s end", &limits,
                   text);
}

static void garbage_does_not_count_against_the_cap(void **state) {
    (void)state;
    const struct mlagen_limits limits = {(size_t)2 << 20, 0};
    const char *const pairs[] = {
        "templates/main.lua",
        "return {f = function() local t for i = 1, 300000 do t = {i} end "
        "return t[1] end}",
        NULL};
    struct mlagen_diags d = {0};
    json_t *result;
    assert_int_equal(call_limited(pairs, &limits, NULL, &result, &d),
                     MLAGEN_OK);
    assert_int_equal(json_integer_value(result), 300000);
    json_decref(result);
}

static void a_host_goes_on_after_a_limit(void **state) {
    (void)state;
    const char *const pairs[] = {
        "templates/main.lua",
        "return {f = function(x) if x == 1 then while true do end end if x == "
        "2 then return string.rep(\"x\", 1 << 30) end return \"fine\" end}",
        NULL};
    const struct mlagen_limits limits = {(size_t)8 << 20, 1000000};
    struct mlagen_embedded table[2];
    struct mlagen_tree *tree = make_tree(table, pairs);
    struct mlagen_diags d = {0};
    struct mlagen_host *host;
    assert_int_equal(mlagen_host_new(tree, &limits, &host, &d), MLAGEN_OK);
    for (int round = 0; round < 3; round++)
        for (int x = 1; x <= 3; x++) {
            json_t *arg = json_integer(x), *result;
            assert_int_equal(mlagen_host_call(host, "f", &arg, 1, &result, &d),
                             x == 3 ? MLAGEN_OK : MLAGEN_TEMPLATE);
            json_decref(result);
            json_decref(arg);
        }
    assert_int_equal(d.errors, 6);
    mlagen_diags_free(&d);
    mlagen_host_free(host);
    mlagen_tree_free(tree);
}

/* ---- the border ---------------------------------------------------------- */

static void values_come_back_as_they_went_in(void **state) {
    (void)state;
    static const char *const values[] = {
        "{\"a\":1,\"b\":[1,2.5,\"x\",null,true,[],{}],\"c\":{\"d\":{}}}",
        "[]",
        "{}",
        "[[],[null]]",
        "9223372036854775807",
        "-9223372036854775808",
        "1.0",
        "\"\\u0000\\u00e9\"",
        "null",
        "false"};
    for (size_t i = 0; i < COUNT(values); i++) {
        struct mlagen_diags d = {0};
        const char *const pairs[] = {"templates/main.lua",
                                     "return {f = function(x) return x end}",
                                     NULL};
        json_t *result,
            *value =
                json_loads(values[i], JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_int_equal(call_limited(pairs, NULL, value, &result, &d),
                         MLAGEN_OK);
        assert_true(json_equal(result, value));
        assert_int_equal(json_typeof(result), json_typeof(value));
        json_decref(result);
        json_decref(value);
    }
}

static void lua_values_become_json(void **state) {
    (void)state;
    assert_gives("{z = 1, a = {b = null}, m = {1, 2}}",
                 "{\"a\":{\"b\":null},\"m\":[1,2],\"z\":1}");
    assert_gives("nil", "null");
    assert_gives("{}", "[]");
    assert_gives("{2^53, 1 << 53}", "[9007199254740992.0,9007199254740992]");
}

static void what_is_no_data_is_named_by_its_path(void **state) {
    (void)state;
    static const struct {
        const char *expression, *message;
    } cases[] = {
        {"{a = {1, {b = f32}}}", "f.a[2].b is a function, which is no data"},
        {"{a = 0/0}", "f.a is not a finite number"},
        {"{1/0}", "f[1] is not a finite number"},
        {"{1, 2, x = 3}", "f mixes list items and named fields"},
        {"{a = {[1] = 1, [3] = 3}}", "f.a is a list with holes"},
        {"{[2.5] = 1}", "f is a list with holes"},
        {"{[true] = 1}", "f is a list with holes"},
        {"{a = \"\\xff\"}", "f.a is a string that is not UTF-8"},
        {"{[\"a\\0b\"] = 1}", "f has a key with a NUL or that is not UTF-8"},
        {"{[\"\\xC0\"] = 1}", "f has a key with a NUL or that is not UTF-8"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char lua[128], right[128];
        struct mlagen_diags d = {0};
        json_t *result;
        snprintf(lua, sizeof lua, "return {f = function() return %s end}",
                 cases[i].expression);
        snprintf(right, sizeof right, "mlagen: error: %s", cases[i].message);
        assert_int_equal(call(lua, NULL, &result, &d), MLAGEN_TEMPLATE);
        assert_first_diag(&d, right);
    }
    struct mlagen_diags d = {0};
    json_t *result;
    assert_int_equal(call("return {f = function() local t = {} t.t = t return "
                          "t end}",
                          NULL, &result, &d),
                     MLAGEN_TEMPLATE);
    assert_int_equal(d.errors, 1);
    assert_non_null(
        strstr(d.items[0].message, ".t nests too deep (or holds itself)"));
    mlagen_diags_free(&d);
}

/* ---- out of memory ------------------------------------------------------- */

static enum mlagen_status call_once(struct mlagen_diags *d) {
    static const struct mlagen_embedded table[] = {
        {"templates/lib/a.lua", BYTES("return {k = keys}")},
        {"templates/main.lua",
         BYTES("return {f = function(x) return {use(\"lib/a\").k(x), x, "
               "f32(1)} end}")}};
    struct mlagen_tree *tree = NULL;
    struct mlagen_host *host = NULL;
    json_t *arg = json_pack("{s:[i,f,{}],s:s}", "b", 1, 2.5, "a", "text");
    json_t *result = NULL;
    enum mlagen_status status =
        arg ? mlagen_tree_of(table, 2, &tree, d) : mlagen_no_memory(d);
    if (!status)
        status = mlagen_host_new(tree, NULL, &host, d);
    if (!status)
        status = mlagen_host_call(host, "f", &arg, 1, &result, d);
    if (!status)
        assert_int_equal(json_array_size(result), 3);
    json_decref(result);
    json_decref(arg);
    mlagen_host_free(host);
    mlagen_tree_free(tree);
    return status;
}

static void calls_survive_no_memory(void **state) {
    (void)state;
    assert_survives_no_memory(call_once);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_globals_are_those_of_the_contract),
        cmocka_unit_test(nothing_shared_can_be_written),
        cmocka_unit_test(what_depends_on_time_or_place_is_refused),
        cmocka_unit_test(null_is_a_value_that_cannot_be_indexed),
        cmocka_unit_test(keys_come_sorted_numbers_first),
        cmocka_unit_test(sort_is_stable),
        cmocka_unit_test(f32_is_the_shortest_literal_that_reads_back),
        cmocka_unit_test(f32_reads_back_bit_for_bit),
        cmocka_unit_test(numbers_do_not_ask_the_locale),
        cmocka_unit_test(a_module_is_loaded_once),
        cmocka_unit_test(a_module_cycle_names_its_way),
        cmocka_unit_test(faults_of_modules_name_their_line),
        cmocka_unit_test(compiled_lua_is_not_loaded),
        cmocka_unit_test(an_error_tells_how_the_code_was_reached),
        cmocka_unit_test(errors_of_every_form_become_one_line),
        cmocka_unit_test(pcall_catches_faults),
        cmocka_unit_test(a_loop_without_end_spends_its_budget),
        cmocka_unit_test(memory_stops_at_its_cap),
        cmocka_unit_test(garbage_does_not_count_against_the_cap),
        cmocka_unit_test(a_host_goes_on_after_a_limit),
        cmocka_unit_test(values_come_back_as_they_went_in),
        cmocka_unit_test(lua_values_become_json),
        cmocka_unit_test(what_is_no_data_is_named_by_its_path),
        cmocka_unit_test(calls_survive_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
