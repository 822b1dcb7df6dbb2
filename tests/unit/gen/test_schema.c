/* SPDX-License-Identifier: Apache-2.0
 *
 * test_schema.c: typing, bounds, defaults and the errors that mend a spec.
 */
#include "comma_locale.h"
#include "schema_internal.h"
#include "support.h"

/* ---- helpers ------------------------------------------------------------- */

static struct mlagen_schema *load(const char *text) {
    struct mlagen_diags d = {0};
    struct mlagen_schema *schema;
    enum mlagen_status status =
        mlagen_schema_load(text, strlen(text), "schema", &schema, &d);
    assert_diags(&d, "");
    assert_int_equal(status, MLAGEN_OK);
    return schema;
}

/* Checks `yaml` against `schema`; *out may be NULL. */
static enum mlagen_status check(const char *schema, const char *yaml,
                                json_t **out, struct mlagen_diags *d) {
    struct mlagen_schema *s = load(schema);
    struct mlagen_doc *doc;
    json_t *value = NULL;
    enum mlagen_status status =
        mlagen_yaml_parse(yaml, strlen(yaml), "f", &doc, d);
    if (!status)
        status = mlagen_schema_check(s, doc, &value, d);
    if (out)
        *out = value;
    else
        json_decref(value);
    mlagen_doc_free(doc);
    mlagen_schema_free(s);
    return status;
}

/* Asserts the canonical value, written as JSON with keys in order. */
static void assert_value(const char *schema, const char *yaml,
                         const char *json) {
    struct mlagen_diags d = {0};
    json_t *value;
    enum mlagen_status status = check(schema, yaml, &value, &d);
    assert_diags(&d, "");
    assert_int_equal(status, MLAGEN_OK);
    char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(15));
    assert_string_equal(text, json);
    free(text);
    json_decref(value);
}

static void assert_error(const char *schema, const char *yaml,
                         const char *text) {
    struct mlagen_diags d = {0};
    json_t *value;
    assert_int_equal(check(schema, yaml, &value, &d), MLAGEN_SPEC);
    assert_null(value);
    assert_diags(&d, text);
}

/* One key `k` of the given rule, with one value each. */
struct one {
    const char *rule, *value, *result; /* JSON value, or the error's message */
};

static void assert_ones(const struct one *cases, size_t count, bool good) {
    for (size_t i = 0; i < count; i++) {
        char schema[256], yaml[128], result[256];
        snprintf(schema, sizeof schema, "k: {%s}\n", cases[i].rule);
        snprintf(yaml, sizeof yaml, "k: %s\n", cases[i].value);
        snprintf(result, sizeof result,
                 good ? "{\"k\":%s}" : "f:1:4: error: k: %s\n",
                 cases[i].result);
        if (good)
            assert_value(schema, yaml, result);
        else
            assert_error(schema, yaml, result);
    }
}

/* ---- types --------------------------------------------------------------- */

static void scalars_are_read_by_the_type_that_is_asked_for(void **state) {
    (void)state;
    static const struct one cases[] = {
        {"type: int", "7168", "7168"},
        {"type: int", "-9223372036854775808", "-9223372036854775808"},
        {"type: float", "1e4", "10000.0"},
        {"type: float", "10000", "10000.0"},
        {"type: float", "2.5e-1", "0.25"},
        {"type: bool", "true", "true"},
        {"type: bool", "false", "false"},
        {"type: string", "no", "\"no\""},
        {"type: string", "10.0", "\"10.0\""},
        {"type: string", "\"two words\"", "\"two words\""},
        {"type: string", "'null'", "\"null\""},
        {"type: name", "9.0a", "\"9.0a\""},
        {"type: name", "sm_90a", "\"sm_90a\""},
        {"type: name", "10.0", "\"10.0\""},
        {"type: name", "deepseek-v3", "\"deepseek-v3\""},
        {"type: enum, values: [e, \"2\"]", "2", "\"2\""},
        {"type: enum, values: [e, \"2\"]", "\"2\"", "\"2\""},
        {"type: enum, values: [e, 2]", "e", "\"e\""},
        {"type: enum, values: [-inf, \"+inf\"]", "-inf", "\"-inf\""},
        {"type: enum, values: [yes, no]", "no", "\"no\""},
        {"type: int, nullable: true", "null", "null"},
        {"type: map, keys: {}, nullable: true", "~", "null"},
        {"type: float, words: [auto]", "auto", "\"auto\""},
        {"type: float, words: [auto]", "\"auto\"", "\"auto\""},
        {"type: float, words: [auto]", "2", "2.0"},
    };
    assert_ones(cases, COUNT(cases), true);
}

static void a_wrong_type_says_what_was_given_and_what_is_allowed(void **state) {
    (void)state;
    static const struct one cases[] = {
        {"type: int", "10.0",
         "expected an integer, got '10.0' (no fraction, no exponent)"},
        {"type: int", "1e4",
         "expected an integer, got '1e4' (no fraction, no exponent)"},
        {"type: int", "0x10", "expected an integer, got '0x10'"},
        {"type: int", "1_000", "expected an integer, got '1_000'"},
        {"type: int", "+5", "expected an integer, got '+5'"},
        {"type: int", "010", "expected an integer, got '010'"},
        {"type: int", "1:30", "expected an integer, got '1:30'"},
        {"type: int", "\"8\"",
         "expected an integer, got the quoted text \"8\" "
         "(write it without quotes)"},
        {"type: int", "[8]", "expected an integer, got a list"},
        {"type: int", "{a: 8}", "expected an integer, got a map"},
        {"type: int", "null", "expected an integer, got 'null'"},
        {"type: int", "9223372036854775808",
         "expected an integer, got '9223372036854775808' (beyond 64 bits)"},
        {"type: float", "nan", "expected a number, got 'nan'"},
        {"type: float", ".inf", "expected a number, got '.inf'"},
        {"type: float", "1,5", "expected a number, got '1,5'"},
        {"type: float", "1e999",
         "expected a number, got '1e999' (beyond the "
         "range of a double)"},
        {"type: float, words: [auto]", "automatic",
         "expected a number, or auto, got 'automatic'"},
        {"type: bool", "no", "expected true or false, got 'no'"},
        {"type: bool", "yes", "expected true or false, got 'yes'"},
        {"type: bool", "True", "expected true or false, got 'True'"},
        {"type: bool", "\"true\"",
         "expected true or false, got the quoted text \"true\""},
        {"type: bool", "1", "expected true or false, got '1'"},
        {"type: string", "null", "expected a string, got 'null'"},
        {"type: string", "[a]", "expected a string, got a list"},
        {"type: name", "a b",
         "expected a name, got 'a b' (letters, digits, '.', '_' and '-', a "
         "letter or digit first)"},
        {"type: name", "_x",
         "expected a name, got '_x' (letters, digits, '.', '_' and '-', a "
         "letter or digit first)"},
        {"type: name", "\"a\\0b\"",
         "expected a name, got the quoted text \"a\" (letters, digits, '.', "
         "'_' and '-', a letter or digit first)"},
        {"type: list, of: {type: int}", "8", "expected a list, got '8'"},
        {"type: map, keys: {}", "[]", "expected a map, got a list"},
        {"type: map, keys: {}, nullable: true", "8",
         "expected a map, or null, got '8'"},
        {"type: int, nullable: true", "",
         "expected an integer, or null, got "
         "nothing"},
    };
    /* An empty value stands at the end of its line. */
    assert_ones(cases, COUNT(cases) - 1, false);
    assert_error("k: {type: int, nullable: true}", "k:\n",
                 "f:1:3: error: k: expected an integer, or null, got "
                 "nothing\n");
}

static void a_bad_enum_lists_the_values_and_suggests_one(void **state) {
    (void)state;
    static const struct one cases[] = {
        {"type: enum, values: [interleaved, neox, none]", "interleave",
         "expected one of interleaved, neox, none, got 'interleave'; did you "
         "mean 'interleaved'?"},
        {"type: enum, values: [bf16, fp16]", "fp32",
         "expected one of bf16, fp16, got 'fp32'; did you mean 'fp16'?"},
        {"type: enum, values: [bf16, fp16], words: [auto]", "8",
         "expected one of bf16, fp16, or auto, got '8'"},
    };
    assert_ones(cases, COUNT(cases), false);
}

/* ---- bounds -------------------------------------------------------------- */

static void out_of_bounds_names_the_nearest_allowed(void **state) {
    (void)state;
    static const struct one cases[] = {
        {"type: int, min: 1, max: 256, power_of_two: true", "48",
         "expected a power of two from 1 to 256, got '48'; nearest allowed: 32 "
         "or 64"},
        {"type: int, min: 1, max: 256, power_of_two: true", "300",
         "expected a power of two from 1 to 256, got '300'; nearest allowed: "
         "256"},
        {"type: int, min: 1, max: 256, power_of_two: true", "0",
         "expected a power of two from 1 to 256, got '0'; nearest allowed: 1"},
        {"type: int, min: 0, max: 256, multiple: 16", "24",
         "expected an integer from 0 to 256 that is a multiple of 16, got "
         "'24'; nearest allowed: 16 or 32"},
        {"type: int, min: 16, max: 1024, multiple: 16", "100",
         "expected an integer from 16 to 1024 that is a multiple of 16, got "
         "'100'; nearest allowed: 96 or 112"},
        {"type: int, min: 16, max: 1024, multiple: 16", "-5",
         "expected an integer from 16 to 1024 that is a multiple of 16, got "
         "'-5'; nearest allowed: 16"},
        {"type: int, min: 10, max: 100, multiple: 16", "200",
         "expected an integer from 10 to 100 that is a multiple of 16, got "
         "'200'; nearest allowed: 96"},
        {"type: int, min: 1, max: 9", "0",
         "expected an integer from 1 to 9, got '0'; nearest allowed: 1"},
        {"type: int, max: 9", "9223372036854775807",
         "expected an integer to 9, got '9223372036854775807'; nearest "
         "allowed: 9"},
        {"type: int, min: 1, max: 15, multiple: 16", "3",
         "expected an integer from 1 to 15 that is a multiple of 16, got '3'"},
        {"type: float, min: 0, max: 1", "1.5",
         "expected a number from 0 to 1, got '1.5'; nearest allowed: 1"},
        {"type: float, min: 1e-6", "0",
         "expected a number from 1e-06, got '0'; nearest allowed: 1e-06"},
    };
    assert_ones(cases, COUNT(cases), false);
}

/* The nearest values by trying every integer around. */
static void nearest_agrees_with_a_search(void **state) {
    (void)state;
    for (int min = -9; min < 9; min += 5)
        for (int multiple = 1; multiple < 8; multiple++)
            for (int power = 0; power < 2; power++) {
                struct rule rule = {.type = RULE_INT,
                                    .has_min = true,
                                    .has_max = true,
                                    .min = min,
                                    .max = 40,
                                    .multiple = multiple,
                                    .power_of_two = power};
                for (int v = -30; v < 70; v++) {
                    int below = v, above = v;
#define ALLOWED(x)                                                             \
    ((x) >= min && (x) <= 40 && (x) % multiple == 0 &&                         \
     (!power || (x) == 1 || (x) == 2 || (x) == 4 || (x) == 8 || (x) == 16 ||   \
      (x) == 32))
                    while (below > -50 && !ALLOWED(below))
                        below--;
                    while (above < 90 && !ALLOWED(above))
                        above++;
                    struct rule_nearest near = mlagen_rule_nearest(&rule, v);
                    assert_int_equal(near.has_below, below > -50);
                    assert_int_equal(near.has_above, above < 90);
                    if (near.has_below)
                        assert_int_equal(near.below, below);
                    if (near.has_above)
                        assert_int_equal(near.above, above);
                }
            }
}

static void bounds_are_inclusive(void **state) {
    (void)state;
    static const struct one cases[] = {
        {"type: int, min: 1, max: 9", "1", "1"},
        {"type: int, min: 1, max: 9", "9", "9"},
        {"type: int, min: 0, multiple: 16", "0", "0"},
        {"type: int, max: 256, power_of_two: true", "256", "256"},
        {"type: int, power_of_two: true", "4611686018427387904",
         "4611686018427387904"},
        {"type: float, min: 0, max: 1", "1", "1.0"},
        {"type: float, min: 0, max: 1", "0", "0.0"},
    };
    assert_ones(cases, COUNT(cases), true);
}

/* ---- maps ---------------------------------------------------------------- */

static const char spec_schema[] =
    "model: {type: name, required: true, doc: the name}\n"
    "heads: {type: int, required: true, min: 1}\n"
    "rope:\n"
    "  type: map\n"
    "  default: {}\n"
    "  keys:\n"
    "    theta: {type: float, default: 10000}\n"
    "    style: {type: enum, values: [neox, none], default: none}\n"
    "q_rank: {type: int, nullable: true, default: null}\n"
    "note: {type: string}\n"
    "tp: {type: list, of: {type: int}, default: [1], unique: true,\n"
    "     min_items: 1, max_items: 3}\n";

static void
defaults_are_filled_in_and_keys_come_in_the_schemas_order(void **state) {
    (void)state;
    assert_value(spec_schema, "heads: 8\nmodel: m\n",
                 "{\"model\":\"m\",\"heads\":8,"
                 "\"rope\":{\"theta\":10000.0,\"style\":\"none\"},"
                 "\"q_rank\":null,\"tp\":[1]}");
    assert_value(spec_schema,
                 "{tp: [4, 2], note: x, rope: {style: neox}, q_rank: 5, "
                 "heads: 8, model: m}",
                 "{\"model\":\"m\",\"heads\":8,"
                 "\"rope\":{\"theta\":10000.0,\"style\":\"neox\"},"
                 "\"q_rank\":5,\"note\":\"x\",\"tp\":[4,2]}");
}

static void an_unknown_key_is_named_with_the_nearest_and_all(void **state) {
    (void)state;
    assert_error(spec_schema, "model: m\nheads: 8\nhead: 8\n",
                 "f:3:1: error: unknown key 'head'; did you mean 'heads'? "
                 "Allowed: model, heads, rope, q_rank, note, tp\n");
    assert_error(spec_schema, "model: m\nheads: 8\nrope: {thtea: 1}\n",
                 "f:3:8: error: unknown key 'thtea'; did you mean 'theta'? "
                 "Allowed: theta, style\n");
    assert_error(spec_schema, "model: m\nheads: 8\nwindow_size: 1\n",
                 "f:3:1: error: unknown key 'window_size'; allowed: model, "
                 "heads, rope, q_rank, note, tp\n");
}

static void a_missing_key_is_named_at_its_map(void **state) {
    (void)state;
    assert_error(spec_schema, "\n  heads: 8\n",
                 "f:2:3: error: required key 'model' is missing\n");
    assert_error("a: {type: map, keys: {b: {type: int, required: true}}}",
                 "a: {}", "f:1:4: error: required key 'b' is missing in a\n");
}

static void every_fault_is_reported_in_one_round(void **state) {
    (void)state;
    assert_error(spec_schema,
                 "heads: many\n"
                 "rope: {style: half, theta: big}\n"
                 "tp: [1, x, 1]\n"
                 "extra: 1\n",
                 "f:4:1: error: unknown key 'extra'; allowed: model, heads, "
                 "rope, q_rank, note, tp\n"
                 "f:1:1: error: required key 'model' is missing\n"
                 "f:1:8: error: heads: expected an integer from 1, got "
                 "'many'\n"
                 "f:2:28: error: theta: expected a number, got 'big'\n"
                 "f:2:15: error: style: expected one of neox, none, got "
                 "'half'\n"
                 "f:3:9: error: expected an integer, got 'x'\n"
                 "f:3:12: error: item 1 of the list again; items must "
                 "differ\n");
}

static void lists_have_bounds_and_unique_items(void **state) {
    (void)state;
    assert_error(spec_schema, "model: m\nheads: 8\ntp: []\n",
                 "f:3:5: error: tp: a list of 0 items; at least 1 allowed\n");
    assert_error(spec_schema, "model: m\nheads: 8\ntp: [1, 2, 3, 4]\n",
                 "f:3:5: error: tp: a list of 4 items; at most 3 allowed\n");
    /* Values are compared as typed: 1 and 1e0 are one float. */
    assert_error("l: {type: list, of: {type: float}, unique: true}",
                 "l: [2, 1, 1e0]",
                 "f:1:11: error: item 2 of the list again; "
                 "items must differ\n");
}

static void open_maps_take_any_key_with_typed_values(void **state) {
    (void)state;
    static const char schema[] =
        "type: map\nopen: true\nof: {type: map, keys: {smem: {type: int, "
        "required: true}}}\n";
    assert_value(schema, "sm_90: {smem: 2}\nsm_80: {smem: 1}\n",
                 "{\"sm_90\":{\"smem\":2},\"sm_80\":{\"smem\":1}}");
    assert_error(schema, "sm_90: {smem: x}\n",
                 "f:1:15: error: smem: expected an integer, got 'x'\n");
    assert_value("type: map\nopen: true\nof: {type: int}\n"
                 "keys: {a: {type: bool, default: true}}\n",
                 "b: 1\n", "{\"b\":1,\"a\":true}");
}

static void overrides_are_checked_like_the_file(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_schema *schema = load(spec_schema);
    static const char yaml[] = "model: m\nheads: 8\n";
    struct mlagen_doc *doc;
    json_t *value;
    mlagen_yaml_parse(yaml, sizeof yaml - 1, "f", &doc, &d);
    assert_int_equal(mlagen_doc_set(doc, "rope.theta=hot", &d), MLAGEN_OK);
    assert_int_equal(mlagen_schema_check(schema, doc, &value, &d), MLAGEN_SPEC);
    assert_diags(&d, "<-D rope.theta>:1:1: error: theta: expected a number, "
                     "got 'hot'\n");
    assert_int_equal(mlagen_doc_set(doc, "rope.theta=5e5", &d), MLAGEN_OK);
    assert_int_equal(mlagen_doc_set(doc, "rpoe.theta=1", &d), MLAGEN_OK);
    assert_int_equal(mlagen_schema_check(schema, doc, &value, &d), MLAGEN_SPEC);
    assert_diags(&d, "<-D rpoe.theta>:1:1: error: unknown key 'rpoe'; did you "
                     "mean 'rope'? Allowed: model, heads, rope, q_rank, note, "
                     "tp\n");
    mlagen_doc_free(doc);
    mlagen_schema_free(schema);
}

/* ---- locale -------------------------------------------------------------- */

static void read_floats(void) {
    assert_value("a: {type: float}\nb: {type: float, min: 0.5}\n",
                 "a: 1.5\nb: 0.5\n", "{\"a\":1.5,\"b\":0.5}");
    assert_error("a: {type: float}", "a: 1,5\n",
                 "f:1:4: error: a: expected a number, got '1,5'\n");
}

static void floats_do_not_ask_the_locale(void **state) {
    (void)state;
    with_comma_locale(read_floats);
}

/* ---- the schema itself --------------------------------------------------- */

static void a_faulty_schema_is_refused_at_its_fault(void **state) {
    (void)state;
    static const struct {
        const char *schema, *diags;
    } cases[] = {
        {"a: {type: int, colour: red}",
         "schema:1:16: error: schema: unknown word 'colour'\n"},
        {"a: {type: integer}",
         "schema:1:11: error: schema: 'type' must be one of map, list, int, "
         "float, bool, string, name, enum\n"},
        {"a: {min: 1}",
         "schema:1:4: error: schema: an entry is a map with a 'type'\n"},
        {"a: int", "schema:1:4: error: schema: an entry is a map with a "
                   "'type'\n"},
        {"[a]", "schema:1:1: error: schema: expected a map\n"},
        {"a: {type: enum}",
         "schema:1:4: error: schema: an enum needs 'values'\n"},
        {"a: {type: list}", "schema:1:4: error: schema: a list needs 'of'\n"},
        {"a: {type: map}",
         "schema:1:4: error: schema: a map needs 'keys' or 'open'\n"},
        {"a: {type: map, open: true}",
         "schema:1:4: error: schema: 'open: true' and 'of' belong together\n"},
        {"a: {type: int, required: yes}",
         "schema:1:26: error: schema: 'required' must be true or false\n"},
        {"a: {type: int, min: low}",
         "schema:1:21: error: schema: 'min' must be an integer\n"},
        {"a: {type: string, min: 1}",
         "schema:1:24: error: schema: 'min' must be a number, and the type int "
         "or float\n"},
        {"a: {type: list, of: {type: int}, max_items: -1}",
         "schema:1:45: error: schema: 'max_items' must be 0 or more\n"},
        {"a: {type: enum, values: [[1]]}",
         "schema:1:25: error: schema: 'values' must be a list of words\n"},
        {"a: {type: int, max: 5, default: 6}",
         "schema:1:33: error: default: expected an integer to 5, got '6'; "
         "nearest allowed: 5\n"},
        {"a: {type: int, required: true, default: 6}",
         "schema:1:4: error: schema: a required key has no default\n"},
        {"a: {type: map, keys: {b: {type: int, required: true}}, default: {}}",
         "schema:1:65: error: required key 'b' is missing in default\n"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct mlagen_diags d = {0};
        struct mlagen_schema *schema;
        assert_int_equal(mlagen_schema_load(cases[i].schema,
                                            strlen(cases[i].schema), "schema",
                                            &schema, &d),
                         MLAGEN_SPEC);
        assert_null(schema);
        assert_diags(&d, cases[i].diags);
    }
}

static void suggestions_are_slips_of_the_finger_only(void **state) {
    (void)state;
    static const char *const names[] = {"heads", "theta", "kv_lora_rank",
                                        "qk_rope_head_dim"};
    static const struct {
        const char *text, *close;
    } cases[] = {
        {"head", "heads"},
        {"haeds", "heads"},
        {"thetas", "theta"},
        {"kv_rank", NULL},
        {"kv_lora_rnk", "kv_lora_rank"},
        {"layers", NULL},
        {"", NULL},
        {"rope_head_dim", "qk_rope_head_dim"},
        {"x", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *close = mlagen_closest(cases[i].text, names, COUNT(names));
        if (cases[i].close)
            assert_string_equal(close, cases[i].close);
        else
            assert_null(close);
    }
}

/* ---- out of memory ------------------------------------------------------- */

static enum mlagen_status load_and_check(struct mlagen_diags *d) {
    static const char yaml[] = "{model: m, heads: 8, rope: {theta: 2}}";
    struct mlagen_schema *schema;
    struct mlagen_doc *doc = NULL;
    json_t *value = NULL;
    enum mlagen_status status = mlagen_schema_load(
        spec_schema, sizeof spec_schema - 1, "schema", &schema, d);
    if (!status)
        status = mlagen_yaml_parse(yaml, sizeof yaml - 1, "f", &doc, d);
    if (!status)
        status = mlagen_schema_check(schema, doc, &value, d);
    assert_true((value == NULL) == (status != MLAGEN_OK));
    json_decref(value);
    mlagen_doc_free(doc);
    mlagen_schema_free(schema);
    return status;
}

static void schemas_survive_no_memory(void **state) {
    (void)state;
    assert_survives_no_memory(load_and_check);
}

/* With a fault in the document the status is SPEC or INTERNAL, and an error is
 * there either way. */
static void reporting_survives_no_memory(void **state) {
    (void)state;
    static const char yaml[] = "{heads: x, hedas: 1, rope: {style: nex}}";
    mlagen_set_allocator(failing_realloc, NULL);
    bool hit = true;
    for (size_t n = 1; hit; n++) {
        struct mlagen_diags d = {0};
        failing.requests = failing.live = 0;
        failing.fail_at = 0;
        struct mlagen_schema *schema = load(spec_schema);
        struct mlagen_doc *doc;
        json_t *value;
        mlagen_yaml_parse(yaml, sizeof yaml - 1, "f", &doc, &d);
        failing.requests = 0;
        failing.fail_at = n;
        failing.for_good = false;
        enum mlagen_status status =
            mlagen_schema_check(schema, doc, &value, &d);
        hit = failing.requests >= n;
        assert_true(status == MLAGEN_SPEC || status == MLAGEN_INTERNAL);
        assert_true(d.errors > 0);
        assert_null(value);
        mlagen_doc_free(doc);
        mlagen_schema_free(schema);
        mlagen_diags_free(&d);
        assert_int_equal(failing.live, 0);
    }
    mlagen_set_allocator(NULL, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_are_read_by_the_type_that_is_asked_for),
        cmocka_unit_test(a_wrong_type_says_what_was_given_and_what_is_allowed),
        cmocka_unit_test(a_bad_enum_lists_the_values_and_suggests_one),
        cmocka_unit_test(out_of_bounds_names_the_nearest_allowed),
        cmocka_unit_test(nearest_agrees_with_a_search),
        cmocka_unit_test(bounds_are_inclusive),
        cmocka_unit_test(
            defaults_are_filled_in_and_keys_come_in_the_schemas_order),
        cmocka_unit_test(an_unknown_key_is_named_with_the_nearest_and_all),
        cmocka_unit_test(a_missing_key_is_named_at_its_map),
        cmocka_unit_test(every_fault_is_reported_in_one_round),
        cmocka_unit_test(lists_have_bounds_and_unique_items),
        cmocka_unit_test(open_maps_take_any_key_with_typed_values),
        cmocka_unit_test(overrides_are_checked_like_the_file),
        cmocka_unit_test(floats_do_not_ask_the_locale),
        cmocka_unit_test(a_faulty_schema_is_refused_at_its_fault),
        cmocka_unit_test(suggestions_are_slips_of_the_finger_only),
        cmocka_unit_test(schemas_survive_no_memory),
        cmocka_unit_test(reporting_survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
