/* SPDX-License-Identifier: Apache-2.0
 *
 * Choosing, arguing, loading and launching, on a driver that does as told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fixture.h"

struct world {
    mla_context *ctx;
    char *directory;
    mla_kernels *set;
};

static int set_up(void **state)
{
    static struct world w;
    w.ctx = fake_context(NULL);
    w.directory = fixture_write();
    *state = &w;
    return mla_load(w.ctx, w.directory, &w.set);
}

static int tear_down(void **state)
{
    struct world *w = *state;
    int balance = fake.current;
    mla_kernels_free(w->set);
    fixture_remove(w->directory);
    mla_context_destroy(w->ctx);
    return balance; /* every pushed context has been popped */
}

static void expect_error(struct world *w, mla_status got, mla_status want,
                         const char *names)
{
    assert_string_equal(mla_status_name(got), mla_status_name(want));
    if (!strstr(mla_last_error(w->ctx), names))
        fail_msg("'%s' is not in: %s", names, mla_last_error(w->ctx));
}

/* Choosing -------------------------------------------------------------- */

static const char *chosen(struct world *w, int major, int minor)
{
    mla_kernel_info info = {.size = sizeof(info)};
    mla_kernel *k;
    fake.major = major;
    fake.minor = minor;
    w->ctx->device_open = false;
    if (mla_find(w->set, "copy", "", 16, 64, &k) != MLA_OK)
        return "";
    mla_kernel_describe(k, &info);
    return info.arch;
}

static void each_device_gets_its_closest_kernel(void **state)
{
    struct world *w = *state;
    assert_string_equal(chosen(w, 8, 0), "sm_80");
    assert_string_equal(chosen(w, 8, 6), "sm_86");
    assert_string_equal(chosen(w, 8, 9), "sm_86");
    assert_string_equal(chosen(w, 9, 0), "sm_90a");
    assert_string_equal(chosen(w, 10, 0), "sm_90");
    assert_string_equal(chosen(w, 12, 1), "sm_90");
    assert_string_equal(chosen(w, 7, 5), "");
}

static void a_query_that_finds_nothing_says_which_field_excludes(void **state)
{
    struct world *w = *state;
    mla_kernel *k;
    expect_error(w, mla_find(w->set, "copie", "", 0, 0, &k), MLA_NO_KERNEL,
                 "family 'copie'; there is copy");
    expect_error(w, mla_find(w->set, "copy", "hrv", 0, 0, &k), MLA_NO_KERNEL,
                 "variant 'hrv'; there is (plain)");
    expect_error(w, mla_find(w->set, "copy", "", 12, 0, &k), MLA_NO_KERNEL,
                 "heads '12'; there is 16, 128");
    expect_error(w, mla_find(w->set, "copy", "", 16, 1, &k), MLA_NO_KERNEL,
                 "page_size '1'; there is 64");
    expect_error(w, mla_find(w->set, "copy", "", 0, 0, &k), MLA_AMBIGUOUS,
                 "name heads");
    fake.major = 7;
    w->ctx->device_open = false;
    expect_error(w, mla_find(w->set, "copy", "", 16, 0, &k), MLA_NO_KERNEL,
                 "device 7.0");
    assert_null(k);
}

static void a_device_that_is_not_there_is_named(void **state)
{
    struct world *w = *state;
    mla_kernel *k;
    fake.devices = 0;
    expect_error(w, mla_find(w->set, "copy", "", 16, 0, &k), MLA_NO_DEVICE,
                 "device 0");
}

/* Arguments ------------------------------------------------------------- */

static mla_args *good_args(struct world *w)
{
    mla_kernel *k;
    mla_args *a;
    assert_int_equal(mla_find(w->set, "copy", "", 16, 64, &k), MLA_OK);
    assert_int_equal(mla_args_create(k, &a), MLA_OK);
    assert_int_equal(mla_args_set_ptr(a, "in", 0x1000), MLA_OK);
    assert_int_equal(mla_args_set_ptr(a, "out", 0x2000), MLA_OK);
    assert_int_equal(mla_args_set_int(a, "stride", 1024), MLA_OK);
    assert_int_equal(mla_args_set_ptr(a, "table", 0), MLA_OK);
    assert_int_equal(mla_args_set_int(a, "tokens", 17), MLA_OK);
    assert_int_equal(mla_args_set_float(a, "scale", 0.5), MLA_OK);
    assert_int_equal(mla_args_set_int(a, "flag", 1), MLA_OK);
    return a;
}

static void the_block_has_every_value_at_its_offset(void **state)
{
    struct world *w = *state;
    mla_args *a = good_args(w);
    struct {
        uint64_t in, out;
        int64_t stride;
        uint64_t table;
        int32_t tokens;
        float scale;
        int32_t flag;
    } block;

    assert_int_equal(mla_args_set_int(a, "stride", -((int64_t)1 << 40)),
                     MLA_OK);
    assert_int_equal(mla_launch(a, (void *)0x77), MLA_OK);
    memcpy(&block, fake.last.args, sizeof(block));
    assert_int_equal(block.in, 0x1000);
    assert_int_equal(block.out, 0x2000);
    assert_true(block.stride == -((int64_t)1 << 40));
    assert_int_equal(block.table, 0);
    assert_int_equal(block.tokens, 17);
    assert_true(block.scale == 0.5f);
    assert_int_equal(block.flag, 1);
    assert_ptr_equal(fake.last.stream, (void *)0x77);
    assert_int_equal(fake.last.block[1], 4);
    mla_args_free(a);
}

static void a_wrong_value_is_refused_when_it_is_set(void **state)
{
    struct world *w = *state;
    mla_args *a = good_args(w);
    expect_error(w, mla_args_set_int(a, "toke", 1), MLA_UNKNOWN_FIELD,
                 "'toke'");
    expect_error(w, mla_args_set_int(a, "in", 1), MLA_TYPE, "'in'");
    expect_error(w, mla_args_set_ptr(a, "tokens", 1), MLA_TYPE, "'tokens'");
    expect_error(w, mla_args_set_float(a, "stride", 1), MLA_TYPE, "'stride'");
    expect_error(w, mla_args_set_int(a, "tokens", (int64_t)1 << 31),
                 MLA_RANGE, "2147483648");
    expect_error(w, mla_args_set_float(a, "scale", 1e300), MLA_RANGE,
                 "scale");
    expect_error(w, mla_args_set_float(a, "scale", 1e-50), MLA_RANGE,
                 "scale");
    mla_args_free(a);
}

static void a_wrong_block_is_refused_at_launch_by_field_and_value(void **state)
{
    struct world *w = *state;
    mla_args *a = good_args(w);

    mla_args_set_ptr(a, "in", 0x1008);
    expect_error(w, mla_launch(a, NULL), MLA_MISALIGNED,
                 "'in': address 0x1008 is not a multiple of 16");
    mla_args_set_ptr(a, "in", 0);
    expect_error(w, mla_launch(a, NULL), MLA_NULL_POINTER, "'in'");
    mla_args_set_ptr(a, "in", 0x1000);
    mla_args_set_int(a, "stride", 1032);
    expect_error(w, mla_launch(a, NULL), MLA_MISALIGNED,
                 "'stride': 1032 is not a multiple of 16");
    mla_args_set_int(a, "stride", 1024);
    mla_args_set_int(a, "flag", 2);
    expect_error(w, mla_launch(a, NULL), MLA_RANGE, "'flag': 2 is not 0 or 1");
    mla_args_set_int(a, "flag", 0);
    mla_args_set_ptr(a, "out", 0);
    expect_error(w, mla_launch(a, NULL), MLA_NULL_POINTER, "'table'");
    mla_args_set_ptr(a, "table", 0x3004);
    assert_int_equal(mla_launch(a, NULL), MLA_OK);
    mla_args_set_int(a, "tokens", -1);
    expect_error(w, mla_launch(a, NULL), MLA_RANGE, "'tokens': -1");
    mla_args_clear(a);
    expect_error(w, mla_launch(a, NULL), MLA_UNSET, "'in'");
    assert_int_equal(fake.launches, 1);
    mla_args_free(a);
}

static void a_struct_is_checked_like_a_block(void **state)
{
    struct world *w = *state;
    unsigned char raw[48] = {0};
    mla_kernel *k;
    uint64_t in = 0x1004, out = 0x2000;
    int32_t tokens = 1;

    mla_find(w->set, "copy", "", 16, 64, &k);
    memcpy(raw, &in, 8);
    memcpy(raw + 8, &out, 8);
    memcpy(raw + 32, &tokens, 4);
    expect_error(w, mla_launch_struct(k, raw, 40, NULL), MLA_INVALID_ARGUMENT,
                 "48");
    expect_error(w, mla_launch_struct(k, raw, 48, NULL), MLA_MISALIGNED,
                 "'in'");
    raw[0] = 0;
    assert_int_equal(mla_launch_struct(k, raw, 48, NULL), MLA_OK);
    assert_int_equal(fake.launches, 1);
}

/* Grid ------------------------------------------------------------------ */

static void expect_grid(struct world *w, int64_t tokens, unsigned x,
                        unsigned y)
{
    mla_args *a = good_args(w);
    assert_int_equal(mla_args_set_int(a, "tokens", tokens), MLA_OK);
    assert_int_equal(mla_launch(a, NULL), MLA_OK);
    assert_int_equal(fake.last.grid[0], x);
    assert_int_equal(fake.last.grid[1], y);
    assert_int_equal(fake.last.grid[2], 1);
    mla_args_free(a);
}

static void the_grid_rounds_up_and_is_clamped_without_overflow(void **state)
{
    struct world *w = *state;
    expect_grid(w, 1, 3, 1);
    expect_grid(w, 8, 3, 8);
    expect_grid(w, 9, 6, 9);
    expect_grid(w, 2664, 999, 2664);
    expect_grid(w, 2665, 1000, 2665);
    expect_grid(w, 65536, 1000, 65535);
    /* 3 * ceil((2^31 - 1) / 8) does not fit 32 bits unsigned less 2^31 */
    expect_grid(w, INT32_MAX, 1000, 65535);
}

static void products_beyond_64_bits_saturate(void **state)
{
    struct world *w = *state;
    mla_kernel *k;
    unsigned char block[48] = {0};
    unsigned grid[3];
    int32_t tokens = INT32_MAX;

    mla_find(w->set, "copy", "", 16, 64, &k);
    memcpy(block + 32, &tokens, 4);
    k->grid[0].count = 4;
    for (int i = 0; i < 4; i++)
        k->grid[0].factor[i] = (struct mla__factor){4, 0, 1};
    assert_int_equal(mla__grid(k, block, grid), MLA_OK);
    assert_int_equal(grid[0], 1000);
}

static void no_work_succeeds_without_reaching_the_device(void **state)
{
    struct world *w = *state;
    mla_args *a = good_args(w);
    mla_args_set_int(a, "tokens", 0);
    mla_args_set_ptr(a, "in", 0);
    assert_int_equal(mla_launch(a, NULL), MLA_OK);
    assert_int_equal(fake.launches + fake.loads + fake.ptx_loads, 0);
    mla_args_free(a);
}

/* Loading --------------------------------------------------------------- */

static void a_cubin_that_fits_is_used_and_loaded_once(void **state)
{
    struct world *w = *state;
    mla_args *a = good_args(w);
    assert_int_equal(mla_launch(a, NULL), MLA_OK);
    assert_int_equal(mla_launch(a, NULL), MLA_OK);
    assert_int_equal(fake.loads, 1);
    assert_int_equal(fake.ptx_loads, 0);
    assert_int_equal(fake.launches, 2);
    mla_args_free(a);
}

static void a_refused_cubin_falls_back_to_ptx_of_the_source(void **state)
{
    static const int fall_back[] = {209, 200, 218};
    struct world *w = *state;
    mla_kernel *k;

    mla_find(w->set, "copy", "", 16, 64, &k);
    for (int i = 0; i < 3; i++) {
        fake.load_result = fall_back[i];
        fake.loads = fake.ptx_loads = 0;
        k->module = k->function = NULL;
        w->ctx->takes = MLA__TAKES_UNKNOWN;
        assert_int_equal(mla_prepare(k), MLA_OK);
        assert_int_equal(fake.loads, 1);
        assert_int_equal(fake.ptx_loads, 1);
        assert_non_null(strstr(fake.last_image, "NVIDIA NVVM"));
    }
}

static void other_driver_errors_are_reported_by_name(void **state)
{
    struct world *w = *state;
    mla_args *a = good_args(w);

    fake.load_result = 719;
    expect_error(w, mla_launch(a, NULL), MLA_CUDA,
                 "cuModuleLoadDataEx: CUDA_ERROR_LAUNCH_FAILED (719): as told");
    fake.load_result = 0;
    fake.launch_result = 719;
    expect_error(w, mla_launch(a, NULL), MLA_CUDA,
                 "cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED (719)");
    assert_non_null(strstr(mla_last_error(w->ctx), "mla_copy_h16_sm_80"));
    mla_args_free(a);
}

static void ptx_that_the_driver_refuses_names_both_versions(void **state)
{
    struct world *w = *state;
    mla_kernel *k;
    mla_find(w->set, "copy", "", 16, 64, &k);
    fake.load_result = 209;
    fake.ptx_result = 222;
    expect_error(w, mla_prepare(k), MLA_CUDA, "driver 13.0");
    assert_non_null(strstr(mla_last_error(w->ctx), "PTX .version "));
}

static void an_older_generations_kernel_goes_straight_to_ptx(void **state)
{
    struct world *w = *state;
    mla_kernel *k;
    fake.major = 12;
    fake.smem_optin = 101376;
    assert_int_equal(mla_find(w->set, "copy", "", 16, 64, &k), MLA_OK);
    assert_int_equal(mla_prepare(k), MLA_OK);
    assert_int_equal(fake.loads, 0);
    assert_int_equal(fake.ptx_loads, 1);
}

static void changed_files_are_not_loaded(void **state)
{
    struct world *w = *state;
    mla_kernel *k;
    mla_find(w->set, "copy", "", 16, 64, &k);
    fake_file(w->directory, "cubin/k.cubin", "\177ELF other code");
    expect_error(w, mla_prepare(k), MLA_CORRUPT, "cubin/k.cubin: SHA-256");
    fake_file(w->directory, "cubin/k.cubin", fixture_cubin);
    fake_file(w->directory, "src/k.cu", "// edited\n");
    fake.load_result = 209;
    expect_error(w, mla_prepare(k), MLA_CORRUPT, "src/k.cu: SHA-256");
    assert_int_equal(fake.ptx_loads, 0);
}

static void a_missing_cubin_is_an_io_error_that_names_it(void **state)
{
    struct world *w = *state;
    char path[4200];
    mla_kernel *k;
    mla_find(w->set, "copy", "", 16, 64, &k);
    snprintf(path, sizeof(path), "%s/cubin/k.cubin", w->directory);
    remove(path);
    expect_error(w, mla_prepare(k), MLA_IO, "cubin/k.cubin");
}

static void a_path_out_of_the_directory_is_refused(void **state)
{
    static const char *const rows[] = {"../x", "a/../../x", "/etc/passwd",
                                       "..", ""};
    struct world *w = *state;
    char *data;
    size_t bytes;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(mla__read_file(w->ctx, w->directory, rows[i], "",
                                        &data, &bytes),
                         MLA_BAD_MANIFEST);
    assert_int_equal(mla__read_file(w->ctx, w->directory, "src/..k", "",
                                    &data, &bytes),
                     MLA_IO);
}

/* Device limits --------------------------------------------------------- */

static void shared_memory_is_opted_into_within_the_devices_limit(void **state)
{
    struct world *w = *state;
    mla_kernel *k;
    fake.major = 9;
    fake.smem_optin = 232448;
    assert_int_equal(mla_find(w->set, "copy", "", 16, 64, &k), MLA_OK);
    assert_int_equal(mla_prepare(k), MLA_OK);
    assert_int_equal(fake.dynamic_smem, 200000);
}

static void too_much_shared_memory_is_refused_before_the_launch(void **state)
{
    struct world *w = *state;
    mla_args *a;
    fake.major = 12;
    fake.smem_optin = 99000;
    a = good_args(w);
    expect_error(w, mla_launch(a, NULL), MLA_DEVICE_LIMIT,
                 "101000 bytes of shared memory; Fake allows 99000");
    assert_int_equal(fake.launches, 0);
    assert_int_equal(fake.unloads, 1);
    mla_args_free(a);
}

static void a_kernel_of_another_generation_is_refused(void **state)
{
    struct world *w = *state;
    expect_error(w, mla_prepare(mla_kernels_at(w->set, 3)), MLA_NO_KERNEL,
                 "sm_90a does not run on Fake (8.0)");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_device_gets_its_closest_kernel),
        TEST(a_query_that_finds_nothing_says_which_field_excludes),
        TEST(a_device_that_is_not_there_is_named),
        TEST(the_block_has_every_value_at_its_offset),
        TEST(a_wrong_value_is_refused_when_it_is_set),
        TEST(a_wrong_block_is_refused_at_launch_by_field_and_value),
        TEST(a_struct_is_checked_like_a_block),
        TEST(the_grid_rounds_up_and_is_clamped_without_overflow),
        TEST(products_beyond_64_bits_saturate),
        TEST(no_work_succeeds_without_reaching_the_device),
        TEST(a_cubin_that_fits_is_used_and_loaded_once),
        TEST(a_refused_cubin_falls_back_to_ptx_of_the_source),
        TEST(other_driver_errors_are_reported_by_name),
        TEST(ptx_that_the_driver_refuses_names_both_versions),
        TEST(an_older_generations_kernel_goes_straight_to_ptx),
        TEST(changed_files_are_not_loaded),
        TEST(a_missing_cubin_is_an_io_error_that_names_it),
        TEST(a_path_out_of_the_directory_is_refused),
        TEST(shared_memory_is_opted_into_within_the_devices_limit),
        TEST(too_much_shared_memory_is_refused_before_the_launch),
        TEST(a_kernel_of_another_generation_is_refused),
    };
    return cmocka_run_group_tests_name("launch", tests, NULL, NULL);
}
