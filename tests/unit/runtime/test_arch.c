/* SPDX-License-Identifier: Apache-2.0
 *
 * Architecture names and the rules of who runs whose code.  Expected values
 * are those of the CUDA C++ Programming Guide's compatibility sections.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "internal.h"

static void names_become_version_and_suffix(void **state)
{
    static const struct {
        const char *text;
        int major, minor;
        char suffix;
    } rows[] = {
        {"8.0", 8, 0, 0},     {"8.6", 8, 6, 0},      {"8.7", 8, 7, 0},
        {"8.9", 8, 9, 0},     {"9.0", 9, 0, 0},      {"9.0a", 9, 0, 'a'},
        {"10.0a", 10, 0, 'a'}, {"10.0f", 10, 0, 'f'}, {"10.3a", 10, 3, 'a'},
        {"11.0a", 11, 0, 'a'}, {"12.0", 12, 0, 0},    {"12.0f", 12, 0, 'f'},
        {"12.1a", 12, 1, 'a'}, {"sm_90a", 9, 0, 'a'}, {"90", 9, 0, 0},
        {"10.0", 10, 0, 0},   {"sm_100", 10, 0, 0},  {"compute_120", 12, 0, 0},
        {"sm_103a", 10, 3, 'a'}, {"121", 12, 1, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct mla__arch arch;
        const char *reason;
        assert_true(mla__arch_parse(rows[i].text, &arch, &reason));
        assert_int_equal(arch.major, rows[i].major);
        assert_int_equal(arch.minor, rows[i].minor);
        assert_int_equal(arch.suffix, rows[i].suffix);
        assert_null(reason);
    }
}

static void names_that_mean_nothing_are_refused_with_a_reason(void **state)
{
    static const char *const rows[] = {
        "",      "9",      "12",    "sm_",   "9.0a+PTX", "9.",   "sm_90b",
        "90aa",  "9.00",   "1200",  "sm_9a", "a",        "-9.0", "9,0",
        " 9.0",  "9.0 ",   "ninety", "sm_90a,sm_120", "compute_", "100.0"};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct mla__arch arch;
        const char *reason = NULL;
        assert_false(mla__arch_parse(rows[i], &arch, &reason));
        assert_non_null(reason);
        assert_int_equal(arch.major, 0);
    }
}

static enum mla__fit fit(const char *name, int major, int minor)
{
    struct mla__arch arch;
    const char *reason;
    assert_true(mla__arch_parse(name, &arch, &reason));
    return mla__arch_fit(arch, major, minor);
}

static void machine_code_runs_within_its_generation_only(void **state)
{
    (void)state;
    assert_int_equal(fit("sm_80", 8, 0), MLA__FIT_CUBIN);
    assert_int_equal(fit("sm_80", 8, 6), MLA__FIT_CUBIN);
    assert_int_equal(fit("sm_86", 8, 9), MLA__FIT_CUBIN);
    assert_int_equal(fit("sm_89", 8, 6), MLA__FIT_NONE);
    assert_int_equal(fit("sm_80", 9, 0), MLA__FIT_PTX);
    assert_int_equal(fit("sm_90", 12, 0), MLA__FIT_PTX);
    assert_int_equal(fit("sm_100", 9, 0), MLA__FIT_NONE);
    assert_int_equal(fit("sm_120", 12, 1), MLA__FIT_CUBIN);
    assert_int_equal(fit("sm_120", 10, 3), MLA__FIT_NONE);
}

static void suffix_a_runs_on_its_own_capability_only(void **state)
{
    (void)state;
    assert_int_equal(fit("sm_90a", 9, 0), MLA__FIT_CUBIN);
    assert_int_equal(fit("sm_90a", 10, 0), MLA__FIT_NONE);
    assert_int_equal(fit("sm_90a", 12, 0), MLA__FIT_NONE);
    assert_int_equal(fit("sm_120a", 12, 1), MLA__FIT_NONE);
    assert_int_equal(fit("sm_100a", 10, 3), MLA__FIT_NONE);
}

static void suffix_f_runs_on_its_generation_from_its_minor_up(void **state)
{
    (void)state;
    assert_int_equal(fit("sm_100f", 10, 0), MLA__FIT_CUBIN);
    assert_int_equal(fit("sm_100f", 10, 3), MLA__FIT_CUBIN);
    assert_int_equal(fit("sm_103f", 10, 0), MLA__FIT_NONE);
    assert_int_equal(fit("sm_100f", 12, 0), MLA__FIT_NONE);
    assert_int_equal(fit("sm_120f", 12, 1), MLA__FIT_CUBIN);
}

static void tegra_exchanges_no_machine_code(void **state)
{
    (void)state;
    assert_int_equal(fit("sm_80", 8, 7), MLA__FIT_PTX);
    assert_int_equal(fit("sm_87", 8, 9), MLA__FIT_PTX);
    assert_int_equal(fit("sm_87", 8, 7), MLA__FIT_CUBIN);
}

static int rank(const char *name, int major, int minor)
{
    struct mla__arch arch;
    const char *reason;
    assert_true(mla__arch_parse(name, &arch, &reason));
    return mla__arch_rank(arch, major, minor);
}

static void the_closest_code_ranks_first(void **state)
{
    (void)state;
    assert_true(rank("sm_89", 8, 9) > rank("sm_86", 8, 9));
    assert_true(rank("sm_86", 8, 9) > rank("sm_80", 8, 9));
    /* numbers, not text: "sm_100" < "sm_90" as strings */
    assert_true(rank("sm_100", 12, 0) > rank("sm_90", 12, 0));
    assert_true(rank("sm_90a", 9, 0) > rank("sm_90", 9, 0));
    assert_true(rank("sm_100f", 10, 3) > rank("sm_100", 10, 3));
    assert_true(rank("sm_103", 10, 3) > rank("sm_100f", 10, 3));
    /* native code of the generation beats newer PTX of an older one */
    assert_true(rank("sm_120", 12, 0) > rank("sm_103", 12, 0));
    assert_int_equal(rank("sm_90a", 12, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_become_version_and_suffix),
        cmocka_unit_test(names_that_mean_nothing_are_refused_with_a_reason),
        cmocka_unit_test(machine_code_runs_within_its_generation_only),
        cmocka_unit_test(suffix_a_runs_on_its_own_capability_only),
        cmocka_unit_test(suffix_f_runs_on_its_generation_from_its_minor_up),
        cmocka_unit_test(tegra_exchanges_no_machine_code),
        cmocka_unit_test(the_closest_code_ranks_first),
    };
    return cmocka_run_group_tests_name("arch", tests, NULL, NULL);
}
