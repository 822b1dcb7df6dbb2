/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading a directory: what a manifest may not be, and how it is described.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fixture.h"
#include "json.h"

struct world {
    mla_context *ctx;
    char *directory;
};

static int set_up(void **state)
{
    static struct world w;
    w.ctx = fake_context(NULL);
    w.directory = fixture_write();
    *state = &w;
    return w.ctx ? 0 : -1;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    fixture_remove(w->directory);
    mla_context_destroy(w->ctx);
    return 0;
}

static void every_fact_of_a_kernel_is_read(void **state)
{
    struct world *w = *state;
    mla_kernels *set;
    mla_kernel_info k = {.size = sizeof(k)};
    mla_field_info f = {.size = sizeof(f)};

    assert_int_equal(mla_load(w->ctx, w->directory, &set), MLA_OK);
    assert_int_equal(mla_kernels_count(set), FIXTURE_KERNELS);
    assert_string_equal(mla_kernels_model(set), "fixture");
    assert_int_equal(mla_kernel_describe(mla_kernels_at(set, 3), &k), MLA_OK);
    assert_string_equal(k.symbol, "mla_copy_h16_sm_90a");
    assert_string_equal(k.arch, "sm_90a");
    assert_int_equal(k.heads, 16);
    assert_int_equal(k.latent, 512);
    assert_int_equal(k.rope, 64);
    assert_int_equal(k.block[1], 4);
    assert_int_equal(k.smem_dynamic, 200000);
    assert_int_equal(k.field_count, 7);
    assert_int_equal(mla_kernel_field(mla_kernels_at(set, 0), 2, &f), MLA_OK);
    assert_string_equal(f.name, "stride");
    assert_int_equal(f.type, MLA_I64);
    assert_int_equal(f.multiple, 16);
    assert_int_equal(f.offset, 16);
    assert_null(mla_kernels_at(set, FIXTURE_KERNELS));
    assert_null(mla_kernels_at(set, -1));
    mla_kernels_free(set);
}

/* An older caller's struct is shorter: what lies beyond stays untouched. */
static void a_shorter_info_struct_is_not_overrun(void **state)
{
    struct world *w = *state;
    mla_kernels *set;
    mla_kernel_info k;

    memset(&k, 0x55, sizeof(k));
    k.size = offsetof(mla_kernel_info, arch);
    assert_int_equal(mla_load(w->ctx, w->directory, &set), MLA_OK);
    assert_int_equal(mla_kernel_describe(mla_kernels_at(set, 0), &k), MLA_OK);
    assert_string_equal(k.family, "copy");
    assert_int_equal(*(unsigned char *)&k.arch, 0x55);
    k.size = 0;
    assert_int_equal(mla_kernel_describe(mla_kernels_at(set, 0), &k),
                     MLA_INVALID_ARGUMENT);
    mla_kernels_free(set);
}

static mla_status load_text(struct world *w, const char *text)
{
    mla_kernels *set = (mla_kernels *)w;
    mla_status status;
    fake_file(w->directory, "manifest.json", text);
    status = mla_load(w->ctx, w->directory, &set);
    if (status)
        assert_null(set);
    mla_kernels_free(set);
    return status;
}

static void a_manifest_cut_anywhere_is_refused_with_its_place(void **state)
{
    struct world *w = *state;
    char *text = fixture_manifest();
    size_t length = strlen(text);

    assert_int_equal(load_text(w, text), MLA_OK);
    while (text[length - 1] != '}')
        length--;
    for (size_t cut = 0; cut < length; cut += 7) {
        char kept = text[cut];
        text[cut] = 0;
        assert_int_equal(load_text(w, text), MLA_BAD_MANIFEST);
        assert_non_null(strstr(mla_last_error(w->ctx), "manifest.json:"));
        text[cut] = kept;
    }
    free(text);
}

/* Replaces the first `from` of the good manifest and expects a refusal that
 * says `names`. */
static void refuse(struct world *w, const char *from, const char *to,
                   const char *names)
{
    char *good = fixture_manifest(), *at = strstr(good, from);
    char *text = malloc(strlen(good) + strlen(to) + 1);

    assert_non_null(at);
    assert_non_null(text);
    sprintf(text, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    assert_int_equal(load_text(w, text), MLA_BAD_MANIFEST);
    if (!strstr(mla_last_error(w->ctx), names))
        fail_msg("'%s' is not in: %s", names, mla_last_error(w->ctx));
    free(text);
    free(good);
}

static void damage_is_refused_by_the_name_of_what_is_damaged(void **state)
{
    static const struct {
        const char *from, *to, *names;
    } rows[] = {
        {"\"format\": 1", "\"format\": 2", "format"},
        {"\"format\": 1", "\"format\": \"1\"", "format"},
        {"\"format\": 1,", "", "format"},
        {"\"model\": \"fixture\"", "\"model\": 7", "model"},
        {"\"kernels\": [", "\"kernels\": 3, \"x\": [", "kernels"},
        {"\"arch\": \"sm_80\"", "\"arch\": \"sm_banana\"", "kernels[0].arch"},
        {"\"heads\": 16", "\"heads\": 0", "kernels[0].heads"},
        {"\"heads\": 16", "\"heads\": 16.0", "heads"},
        {"\"size\": 48", "\"size\": 40", "offset"},
        {"\"offset\": 32", "\"offset\": 34", "offset"},
        {"\"offset\": 32", "\"offset\": 99999999999999999999", "range"},
        {"\"align\": 16", "\"align\": 12", "align"},
        {"\"type\": \"i64\"", "\"type\": \"i128\"", "type"},
        {"\"name\": \"out\"", "\"name\": \"in\"", "two fields"},
        {"\"block\": [32, 4, 1]", "\"block\": [32, 4]", "axes"},
        {"\"block\": [32, 4, 1]", "\"block\": [1024, 2, 1]", "1024"},
        {"\"max\": 65535", "\"max\": 65536", "max"},
        {"\"per\": 8", "\"per\": 0", "per"},
        {"\"arg\": \"tokens\"", "\"arg\": \"in\"", "grid"},
        {"[\"table\"]]", "[\"nothing\"]]", "one_of"},
        {"src/k.cu\", \"bytes\"", "src/other.cu\", \"bytes\"", "source"},
        {"{\"format\"", "{\"format\": 1, \"format\"", "twice"},
        {"{\"format\"", "[{\"format\"", "expected"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        refuse(*state, rows[i].from, rows[i].to, rows[i].names);
}

static void foreign_files_are_refused(void **state)
{
    static const char *const rows[] = {
        "", "null", "[]", "{}", "12", "\"text\"", "hello: yaml",
        "{\"format\": 1}", "\177ELF", "{\"a\": \"\\ud800\"}",
        "{\"a\": 01}", "{\"a\": 1e}", "{\"a\": .5}", "{\"a\": tru}",
        "{\"a\": \"\t\"}", "{\"a\": 1,}", "{a: 1}", "{\"a\" 1}"};
    char deep[4000];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(load_text(*state, rows[i]), MLA_BAD_MANIFEST);
    memset(deep, '[', sizeof(deep));
    deep[sizeof(deep) - 1] = 0;
    assert_int_equal(load_text(*state, deep), MLA_BAD_MANIFEST);
}

/* Strings are decoded in place: a newline that one of them means is no line of
 * the file. */
static void a_fault_is_placed_in_the_text_as_it_came(void **state)
{
    static const struct {
        const char *text, *place;
    } rows[] = {
        {"{\"a\": \"x\\ny\", oops}", "manifest.json:1:15:"},
        {"{\n  \"a\": 1,\n  oops}", "manifest.json:3:3:"},
        {"{\"a\":\n\n\"\\u000a\\n\" oops}", "manifest.json:3:12:"},
    };
    struct world *w = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(load_text(w, rows[i].text), MLA_BAD_MANIFEST);
        if (!strstr(mla_last_error(w->ctx), rows[i].place))
            fail_msg("not at %s: %s", rows[i].place, mla_last_error(w->ctx));
    }
}

static void a_missing_directory_is_an_io_error_that_names_it(void **state)
{
    struct world *w = *state;
    mla_kernels *set;
    assert_int_equal(mla_load(w->ctx, "/no/such/place", &set), MLA_IO);
    assert_null(set);
    assert_non_null(strstr(mla_last_error(w->ctx),
                           "/no/such/place/manifest.json"));
    assert_int_equal(mla_load(w->ctx, "/dev", &set), MLA_IO);
}

static void json_strings_are_decoded(void **state)
{
    struct world *w = *state;
    char text[] = "{\"k\\u0065y\": \"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9"
                  "\\u20ac\\ud83d\\ude00\", \"n\": -12, \"x\": -1.5e3}";
    struct mla__json *root;
    struct mla__json_error error;

    assert_int_equal(mla__json_parse(w->ctx, text, &root, &error), MLA_OK);
    assert_string_equal(mla__json_get(root, "key")->string,
                        "\"\\/\b\f\n\r\t\xc3\xa9\xe2\x82\xac"
                        "\xf0\x9f\x98\x80");
    assert_int_equal(mla__json_get(root, "n")->integer, -12);
    assert_true(mla__json_get(root, "x")->real == -1500);
    assert_null(mla__json_get(root, "absent"));
    assert_null(mla__json_get(NULL, "key"));
    mla__json_free(w->ctx, root);
}

/* An allocator that fails at the n-th request. */
static long allocations_left;

static void *failing_alloc(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    return allocations_left-- > 0 ? realloc(block, size) : NULL;
}

static void running_out_of_memory_anywhere_is_an_error_and_no_leak(
    void **state)
{
    struct world *w = *state;
    mla_options options = MLA_OPTIONS_INIT;
    mla_status status = MLA_OUT_OF_MEMORY;
    long n;

    options.alloc = failing_alloc;
    for (n = 0; status == MLA_OUT_OF_MEMORY; n++) {
        mla_context *ctx = NULL;
        mla_kernels *set = NULL;
        allocations_left = n;
        status = mla_context_create(&options, &ctx);
        if (!status)
            status = mla_load(ctx, w->directory, &set);
        assert_true(status == MLA_OK || status == MLA_OUT_OF_MEMORY);
        mla_kernels_free(set);
        mla_context_destroy(ctx);
    }
    assert_true(n > 100);
}

static void the_version_in_the_header_is_the_projects(void **state)
{
    mla_options options = MLA_OPTIONS_INIT;
    mla_context *ctx;
    (void)state;
    assert_string_equal(mla_version_text(), MLAGEN_VERSION);
    assert_int_equal(mla_version(), MLA_VERSION_NUMBER);
    options.version = MLA_VERSION_NUMBER + 10000;
    assert_int_equal(mla_context_create(&options, &ctx), MLA_VERSION);
    assert_null(ctx);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_fact_of_a_kernel_is_read),
        TEST(a_shorter_info_struct_is_not_overrun),
        TEST(a_manifest_cut_anywhere_is_refused_with_its_place),
        TEST(damage_is_refused_by_the_name_of_what_is_damaged),
        TEST(foreign_files_are_refused),
        TEST(a_fault_is_placed_in_the_text_as_it_came),
        TEST(a_missing_directory_is_an_io_error_that_names_it),
        TEST(json_strings_are_decoded),
        TEST(running_out_of_memory_anywhere_is_an_error_and_no_leak),
        cmocka_unit_test(the_version_in_the_header_is_the_projects),
    };
    return cmocka_run_group_tests_name("manifest", tests, NULL, NULL);
}
