/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening the driver and NVRTC: what is missing is named, and NVRTC's log
 * always arrives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake_driver.h"

static mla_status open_driver(const char *option, const char *env,
                              char *error, size_t size)
{
    mla_options options = MLA_OPTIONS_INIT;
    mla_device_info info = {.size = sizeof(info)};
    mla_context *ctx;
    mla_status status;

    if (env)
        setenv("MLA_DRIVER", env, 1);
    else
        unsetenv("MLA_DRIVER");
    options.driver = option;
    assert_int_equal(mla_context_create(&options, &ctx), MLA_OK);
    assert_string_equal(mla_last_error(ctx), "");
    status = mla_device(ctx, &info);
    snprintf(error, size, "%s", mla_last_error(ctx));
    mla_context_destroy(ctx);
    unsetenv("MLA_DRIVER");
    return status;
}

static void a_driver_that_is_not_there_is_named(void **state)
{
    char error[1024];
    (void)state;
    assert_int_equal(open_driver("/no/driver.so", NULL, error, sizeof(error)),
                     MLA_NO_DRIVER);
    assert_non_null(strstr(error, "/no/driver.so"));
    assert_int_equal(open_driver(NULL, "/env/driver.so", error,
                                 sizeof(error)),
                     MLA_NO_DRIVER);
    assert_non_null(strstr(error, "/env/driver.so"));
    /* the option goes before the environment */
    open_driver("/no/driver.so", "/env/driver.so", error, sizeof(error));
    assert_non_null(strstr(error, "/no/driver.so"));
}

static void a_driver_without_a_symbol_names_the_symbol(void **state)
{
    char error[1024];
    (void)state;
    assert_int_equal(open_driver("libm.so.6", NULL, error, sizeof(error)),
                     MLA_NO_DRIVER);
    assert_non_null(strstr(error, "no symbol cuInit"));
}

static void an_unknown_extra_symbol_is_an_error(void **state)
{
    mla_context *ctx = fake_context(NULL);
    void *address = &address;
    (void)state;
    assert_int_equal(mla_driver_symbol(ctx, "cuNoSuchThing", &address),
                     MLA_NO_DRIVER);
    assert_null(address);
    assert_non_null(strstr(mla_last_error(ctx), "cuNoSuchThing"));
    mla_context_destroy(ctx);
}

/* NVRTC ----------------------------------------------------------------- */

static mla_status compile(mla_context *ctx, const char *source,
                          struct mla__arch arch, char **ptx)
{
    struct mla__image image;
    mla_status status = mla__nvrtc_compile(ctx, source, "src/test.cu", arch,
                                           MLA__PTX, &image);
    *ptx = image.data;
    return status;
}

static void sources_become_ptx_for_exactly_their_architecture(void **state)
{
    static const struct {
        struct mla__arch arch;
        const char *target;
    } rows[] = {{{8, 0, 0}, ".target sm_80\n"},
                {{9, 0, 'a'}, ".target sm_90a\n"},
                {{12, 0, 0}, ".target sm_120\n"}};
    mla_context *ctx = fake_context(NULL);
    char *ptx;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(compile(ctx,
                                 "extern \"C\" __global__ void k(int *p) "
                                 "{ *p = 1; }",
                                 rows[i].arch, &ptx),
                         MLA_OK);
        if (!strstr(ptx, rows[i].target) &&
            !strstr(ptx, ", debug")) /* -lineinfo may add a word */
            fail_msg("no '%s' in %.300s", rows[i].target, ptx);
        assert_non_null(strstr(ptx, ".loc"));
        mla__free(ctx, ptx);
    }
    mla_context_destroy(ctx);
}

static void sources_become_machine_code_where_that_is_asked_for(void **state)
{
    static const char source[] = "extern \"C\" __global__ void k(int *p) "
                                 "{ *p = 1; }";
    mla_context *ctx = fake_context(NULL);
    struct mla__image image;

    (void)state;
    assert_int_equal(mla__nvrtc_compile(ctx, source, "src/test.cu",
                                        (struct mla__arch){9, 0, 'a'},
                                        MLA__CUBIN, &image),
                     MLA_OK);
    assert_true(image.bytes > 500);
    assert_memory_equal(image.data, "\177ELF\2", 5);
    mla__image_free(ctx, &image);
    mla_context_destroy(ctx);
}

static void options_name_kind_architecture_and_suffix(void **state)
{
    static const struct {
        struct mla__arch arch;
        enum mla__kind kind;
        const char *target;
        int count;
    } rows[] = {{{8, 0, 0}, MLA__CUBIN, "--gpu-architecture=sm_80", 3},
                {{9, 0, 'a'}, MLA__CUBIN, "--gpu-architecture=sm_90a", 3},
                {{10, 0, 'f'}, MLA__PTX, "--gpu-architecture=compute_100f", 4},
                {{12, 1, 0}, MLA__PTX, "--gpu-architecture=compute_121", 4}};
    const char *options[MLA__NVRTC_OPTIONS];
    char target[64];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(mla__nvrtc_options(rows[i].arch, rows[i].kind,
                                            target, options),
                         rows[i].count);
        assert_string_equal(options[0], rows[i].target);
    }
}

static void a_refused_source_delivers_the_compilers_log(void **state)
{
    mla_context *ctx = fake_context(NULL);
    char *ptx;
    (void)state;
    assert_int_equal(compile(ctx, "int f() {\n  return banana;\n}\n",
                             (struct mla__arch){8, 0, 0}, &ptx),
                     MLA_COMPILE);
    assert_null(ptx);
    assert_non_null(strstr(mla_last_error(ctx), "src/test.cu(2)"));
    assert_non_null(strstr(mla_last_error(ctx), "banana"));
    mla_context_destroy(ctx);
}

static void an_architecture_that_nvrtc_does_not_know_is_named(void **state)
{
    mla_context *ctx = fake_context(NULL);
    char *ptx;
    (void)state;
    assert_int_equal(compile(ctx, "", (struct mla__arch){99, 0, 0}, &ptx),
                     MLA_COMPILE);
    assert_non_null(strstr(mla_last_error(ctx), "compute_990"));
    assert_non_null(strstr(mla_last_error(ctx), "a newer toolkit"));
    assert_int_equal(compile(ctx, "", (struct mla__arch){5, 0, 0}, &ptx),
                     MLA_COMPILE);
    assert_non_null(strstr(mla_last_error(ctx), "another toolkit"));
    mla_context_destroy(ctx);
}

static void a_named_nvrtc_is_the_only_one_tried(void **state)
{
    mla_options options = MLA_OPTIONS_INIT;
    mla_context *ctx;
    char *ptx;

    (void)state;
    setenv("MLA_NVRTC", "/no/nvrtc.so", 1);
    ctx = fake_context(NULL);
    assert_int_equal(compile(ctx, "", (struct mla__arch){8, 0, 0}, &ptx),
                     MLA_NO_COMPILER);
    assert_non_null(strstr(mla_last_error(ctx), "/no/nvrtc.so"));
    mla_context_destroy(ctx);
    options.nvrtc = "libm.so.6";
    ctx = fake_context(&options);
    assert_int_equal(compile(ctx, "", (struct mla__arch){8, 0, 0}, &ptx),
                     MLA_NO_COMPILER);
    assert_non_null(strstr(mla_last_error(ctx), "nvrtcVersion"));
    mla_context_destroy(ctx);
    unsetenv("MLA_NVRTC");
}

/* The linker's path leads nowhere; the sibling of the chosen NVRTC has been
 * opened before it asks. */
static void the_builtins_library_is_the_siblings(void **state)
{
    mla_context *ctx = fake_context(NULL);
    char *ptx;
    (void)state;
    assert_int_equal(compile(ctx, "", (struct mla__arch){8, 0, 0}, &ptx),
                     MLA_OK);
    assert_non_null(ctx->nvrtc.builtins);
    mla__free(ctx, ptx);
    mla_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_driver_that_is_not_there_is_named),
        cmocka_unit_test(a_driver_without_a_symbol_names_the_symbol),
        cmocka_unit_test(an_unknown_extra_symbol_is_an_error),
        cmocka_unit_test(sources_become_ptx_for_exactly_their_architecture),
        cmocka_unit_test(
            sources_become_machine_code_where_that_is_asked_for),
        cmocka_unit_test(options_name_kind_architecture_and_suffix),
        cmocka_unit_test(a_refused_source_delivers_the_compilers_log),
        cmocka_unit_test(an_architecture_that_nvrtc_does_not_know_is_named),
        cmocka_unit_test(a_named_nvrtc_is_the_only_one_tried),
        cmocka_unit_test(the_builtins_library_is_the_siblings),
    };
    return cmocka_run_group_tests_name("libraries", tests, NULL, NULL);
}
