/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels with tensor maps and clusters, on a driver that does as told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fixture.h"

/* As a plan has it: rank 3, a stride of 8 rows, pages without end. */
static const char maps[] =
    "\"cluster\": {\"x\": 2, \"y\": 1, \"z\": 1}, \"tensor_maps\": [{"
    "\"name\": \"in_map\", \"pointer\": \"in\", \"elem\": \"bf16\", "
    "\"swizzle\": 128, \"l2\": 256, \"box\": [64, 8, 1], "
    "\"dims\": [[{\"const\": 576}], [{\"arg\": \"tokens\", \"per\": 8}], "
    "[{\"const\": 2147483647}]], "
    "\"strides\": [[{\"arg\": \"stride\"}, {\"const\": 8}], "
    "[{\"const\": 48}]]}],";

struct world {
    mla_context *ctx;
    mla_kernels *set;
    char *text;
    mla_file files[3];
};

/* The fixture's manifest with `extra` in every launch rule. */
static char *manifest_with(const char *extra)
{
    static const char mark[] = "\"launch\": {";
    char *plain = fixture_manifest(), *text = calloc(1, 65536);
    char *to = text;
    const char *from = plain, *at;

    while ((at = strstr(from, mark)) != NULL) {
        size_t n = (size_t)(at - from) + strlen(mark);
        memcpy(to, from, n);
        to += n;
        to += sprintf(to, "%s", extra);
        from = at + strlen(mark);
    }
    strcpy(to, from);
    free(plain);
    return text;
}

static mla_status load(struct world *w, char *text)
{
    w->text = text;
    w->files[0] = (mla_file){"manifest.json", text, strlen(text)};
    w->files[1] = (mla_file){"src/k.cu", fixture_source,
                             strlen(fixture_source)};
    w->files[2] = (mla_file){"cubin/k.cubin", fixture_cubin,
                             strlen(fixture_cubin)};
    return mla_load_files(w->ctx, "memory", w->files, 3, &w->set);
}

static int set_up(void **state)
{
    static struct world w;
    memset(&w, 0, sizeof(w));
    w.ctx = fake_context(NULL);
    w.ctx->driver.launch_ex = fake_launch_ex;
    w.ctx->driver.encode_tiled = fake_encode_tiled;
    *state = &w;
    return w.ctx == NULL;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    int balance = fake.current;
    mla_kernels_free(w->set);
    mla_context_destroy(w->ctx);
    free(w->text);
    return balance;
}

static void expect_error(struct world *w, mla_status got, mla_status want,
                         const char *names)
{
    assert_string_equal(mla_status_name(got), mla_status_name(want));
    if (!strstr(mla_last_error(w->ctx), names))
        fail_msg("'%s' is not in: %s", names, mla_last_error(w->ctx));
}

/* One launch with this stride. */
static mla_status launch(struct world *w, int64_t stride, int tokens)
{
    mla_kernel *k;
    mla_args *a;
    mla_status status;

    assert_int_equal(mla_find(w->set, "copy", "", 16, 64, &k), MLA_OK);
    assert_int_equal(mla_args_create(k, &a), MLA_OK);
    mla_args_set_ptr(a, "in", 0x7000);
    mla_args_set_ptr(a, "out", 0x2000);
    mla_args_set_ptr(a, "table", 0);
    mla_args_set_int(a, "stride", stride);
    mla_args_set_int(a, "tokens", tokens);
    mla_args_set_float(a, "scale", 1);
    mla_args_set_int(a, "flag", 0);
    status = mla_launch(a, NULL);
    mla_args_free(a);
    return status;
}

static void a_map_is_made_from_the_arguments_of_the_launch(void **state)
{
    struct world *w = *state;

    assert_int_equal(load(w, manifest_with(maps)), MLA_OK);
    assert_int_equal(launch(w, 1152, 17), MLA_OK);
    assert_int_equal(fake.map.calls, 1);
    assert_int_equal(fake.map.type, 9);      /* ..._BFLOAT16 */
    assert_int_equal(fake.map.swizzle, 3);   /* ..._128B */
    assert_int_equal(fake.map.promotion, 3); /* ..._L2_256B */
    assert_int_equal(fake.map.rank, 3);
    assert_int_equal(fake.map.address, 0x7000);
    assert_int_equal(fake.map.dims[0], 576);
    assert_int_equal(fake.map.dims[1], 3); /* ceil(17 / 8) */
    assert_int_equal(fake.map.dims[2], 2147483647);
    assert_int_equal(fake.map.strides[0], 8 * 1152);
    assert_int_equal(fake.map.strides[1], 48);
    assert_int_equal(fake.map.box[0], 64);
    assert_int_equal(fake.map.box[1], 8);
    assert_int_equal(fake.map.steps[2], 1);
}

static void a_cluster_is_an_attribute_and_maps_are_parameters(void **state)
{
    struct world *w = *state;

    assert_int_equal(load(w, manifest_with(maps)), MLA_OK);
    assert_int_equal(launch(w, 1152, 17), MLA_OK);
    assert_int_equal(fake.last.cluster[0], 2);
    assert_int_equal(fake.last.cluster[1], 1);
    assert_int_equal(fake.last.cluster[2], 1);
    assert_int_equal(fake.last.grid[0], 9);
    assert_int_equal(fake.last.map[0], 0x5a);
    assert_int_equal(fake.last.map[127], 0x5a);
}

static void a_tensor_beyond_the_copy_engine_is_refused_by_name(void **state)
{
    struct world *w = *state;

    assert_int_equal(load(w, manifest_with(maps)), MLA_OK);
    expect_error(w, launch(w, -1152, 17), MLA_RANGE, "'in_map'");
    expect_error(w, launch(w, (int64_t)1 << 37, 17), MLA_RANGE, "'stride'");
    assert_int_equal(launch(w, ((int64_t)1 << 37) - 16, 17), MLA_OK);
    expect_error(w, launch(w, 24, 17), MLA_MISALIGNED, "'stride'");
    assert_int_equal(fake.launches, 1);
}

static void nothing_to_do_makes_no_map(void **state)
{
    struct world *w = *state;

    assert_int_equal(load(w, manifest_with(maps)), MLA_OK);
    assert_int_equal(launch(w, 1152, 0), MLA_OK);
    assert_int_equal(fake.map.calls, 0);
    assert_int_equal(fake.launches, 0);
}

static void a_driver_without_tensor_maps_is_named(void **state)
{
    struct world *w = *state;

    assert_int_equal(load(w, manifest_with(maps)), MLA_OK);
    w->ctx->driver.encode_tiled = NULL;
    expect_error(w, launch(w, 1152, 17), MLA_NO_DRIVER,
                 "libfake.so: no symbol cuTensorMapEncodeTiled");
    w->ctx->driver.launch_ex = NULL;
    expect_error(w, launch(w, 1152, 17), MLA_NO_DRIVER,
                 "no symbol cuLaunchKernelEx");
    assert_int_equal(fake.launches, 0);
}

static void what_the_driver_says_of_a_map_is_passed_on(void **state)
{
    struct world *w = *state;

    assert_int_equal(load(w, manifest_with(maps)), MLA_OK);
    fake.map_result = 1;
    expect_error(w, launch(w, 1152, 17), MLA_CUDA, "cuTensorMapEncodeTiled");
    fake.map_result = 0;
    fake.launch_result = 719;
    expect_error(w, launch(w, 1152, 17), MLA_CUDA, "cuLaunchKernelEx");
}

/* Replaces one piece of the maps' text. */
static char *damaged(const char *piece, const char *by)
{
    char text[2048];
    const char *at = strstr(maps, piece);

    assert_non_null(at);
    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - maps), maps, by,
             at + strlen(piece));
    return manifest_with(text);
}

static void a_damaged_map_is_refused_at_load(void **state)
{
    static const struct {
        const char *piece, *by, *names;
    } rows[] = {
        {"\"in\"", "\"tokens\"", "no pointer argument"},
        {"\"in\"", "\"nothing\"", "no pointer argument"},
        {"\"arg\": \"stride\"", "\"arg\": \"scale\"", "no integer argument"},
        {"\"swizzle\": 128", "\"swizzle\": 48", "swizzle"},
        {"\"l2\": 256", "\"l2\": 1", "l2"},
        {"\"bf16\"", "\"i32\"", "elem"},
        {"[64, 8, 1]", "[64, 8]", "do not go together"},
        {"[[{\"const\": 576}],", "[", "do not go together"},
        {"[{\"const\": 48}]", "[]", "not a list of factors"},
        {"\"x\": 2", "\"x\": 16", "x: out of range"},
        {"\"x\": 2", "\"x\": 0", "x: out of range"},
    };
    struct world *w = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        expect_error(w, load(w, damaged(rows[i].piece, rows[i].by)),
                     MLA_BAD_MANIFEST, "kernels[0]");
        if (!strstr(mla_last_error(w->ctx), rows[i].names))
            fail_msg("'%s' is not in: %s", rows[i].names,
                     mla_last_error(w->ctx));
        free(w->text);
        w->text = NULL;
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_map_is_made_from_the_arguments_of_the_launch),
        TEST(a_cluster_is_an_attribute_and_maps_are_parameters),
        TEST(a_tensor_beyond_the_copy_engine_is_refused_by_name),
        TEST(nothing_to_do_makes_no_map),
        TEST(a_driver_without_tensor_maps_is_named),
        TEST(what_the_driver_says_of_a_map_is_passed_on),
        TEST(a_damaged_map_is_refused_at_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
