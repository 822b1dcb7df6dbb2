/* SPDX-License-Identifier: Apache-2.0
 *
 * test_library.c: the generator as a library (mlagen.h): stages, contexts side
 * by side, and what a program may rely on; and the pool of threads under it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "support.h"

#include "context.h"
#include "mlagen.h"
#include "workers.h"

static const char spec[] = "model: tiny\n"
                           "heads: 4\n"
                           "kv_lora_rank: 32\n"
                           "qk_nope_head_dim: 16\n"
                           "qk_rope_head_dim: 16\n"
                           "v_head_dim: 16\n"
                           "rope: {style: neox, theta: 10000}\n"
                           "kv_cache: {page_size: 16}\n"
                           "arch: [sm_80]\n";

static struct mlagen *open_default(void) {
    struct mlagen_options options = {.size = sizeof options};
    struct mlagen_diags d = {0};
    struct mlagen *g;
    assert_int_equal(mlagen_open(&options, &g, &d), MLAGEN_OK);
    assert_diags(&d, "");
    return g;
}

static struct mlagen *load_tiny(void) {
    struct mlagen_diags d = {0};
    struct mlagen *g = open_default();
    assert_int_equal(
        mlagen_load_text(g, spec, sizeof spec - 1, "dir/tiny.yaml", &d),
        MLAGEN_OK);
    assert_diags(&d, "");
    return g;
}

/* ---- options ------------------------------------------------------------- */

static void options_of_another_size_are_refused(void **state) {
    (void)state;
    struct mlagen_options options = {.size = sizeof options - 8};
    struct mlagen_diags d = {0};
    struct mlagen *g;
    assert_int_equal(mlagen_open(&options, &g, &d), MLAGEN_USAGE);
    assert_null(g);
    assert_int_equal(d.errors, 1);
    mlagen_diags_free(&d);
}

static void a_bad_prefix_or_arch_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *prefix, *archs, *diag;
    } cases[] = {
        {"my-", NULL,
         "mlagen: error: symbol prefix 'my-' is not the beginning of a C "
         "name\n"},
        {NULL, "sm_80,,90",
         "mlagen: error: '' is no architecture; write sm_80, sm_90a or 9.0a"
         "\n"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct mlagen_options options = {.size = sizeof options,
                                         .symbol_prefix = cases[i].prefix,
                                         .archs = cases[i].archs};
        struct mlagen_diags d = {0};
        struct mlagen *g;
        assert_int_equal(mlagen_open(&options, &g, &d), MLAGEN_USAGE);
        assert_null(g);
        assert_diags(&d, cases[i].diag);
    }
}

/* ---- stages -------------------------------------------------------------- */

static void a_later_stage_runs_the_ones_before(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_buf names = {0};
    struct mlagen *g = load_tiny();
    assert_string_equal(mlagen_model(g), "tiny");
    assert_int_equal(mlagen_list_outputs(g, false, &names, &d), MLAGEN_OK);
    assert_non_null(strstr(names.data, "src/mla_absorb_q_tiny_"));
    assert_null(strstr(names.data, "cubin/"));
    assert_string_equal(names.data + names.len - 15, "\nmanifest.json\n");
    assert_diags(&d, "");
    mlagen_buf_free(&names);
    mlagen_close(g);
}

/* Names one a line, as mlagen_list_outputs has them. */
static enum mlagen_status note_file(void *user, const char *path,
                                    const char *data, size_t size) {
    assert_int_equal(data[size], 0);
    assert_true(size > 100);
    mlagen_buf_printf(user, "%s\n", path);
    return MLAGEN_OK;
}

static enum mlagen_status stop(void *user, const char *path, const char *data,
                               size_t size) {
    (void)path, (void)data, (void)size;
    ++*(int *)user;
    return MLAGEN_DIFFERENT;
}

static void the_generation_can_be_had_in_memory(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_buf listed = {0}, had = {0};
    struct mlagen *g = load_tiny();
    int calls = 0;
    assert_int_equal(mlagen_list_outputs(g, false, &listed, &d), MLAGEN_OK);
    assert_int_equal(mlagen_files(g, note_file, &had, &d), MLAGEN_OK);
    assert_string_equal(had.data, listed.data);
    assert_int_equal(mlagen_files(g, stop, &calls, &d), MLAGEN_DIFFERENT);
    assert_int_equal(calls, 1);
    assert_diags(&d, "");
    mlagen_buf_free(&listed);
    mlagen_buf_free(&had);
    mlagen_close(g);
}

/* One file, rendered alone, is the one that was made of its twin's text. */
static enum mlagen_status same_alone(void *user, const char *path,
                                     const char *data, size_t size) {
    struct mlagen_diags d = {0};
    struct mlagen_buf text = {0};
    if (strcmp(path, "manifest.json") == 0)
        return MLAGEN_OK;
    assert_int_equal(mlagen_render_one(user, path, &text, NULL, &d), MLAGEN_OK);
    assert_diags(&d, "");
    assert_int_equal(text.len, size);
    assert_memory_equal(text.data, data, size);
    mlagen_buf_free(&text);
    return MLAGEN_OK;
}

static void a_text_does_not_depend_on_the_others(void **state) {
    (void)state;
    struct mlagen_options options = {
        .size = sizeof options,
        .archs = "sm_80,sm_86,sm_89,sm_90,sm_90a,sm_100,sm_120",
        .symbol_prefix = "x_"};
    struct mlagen_diags d = {0};
    struct mlagen *whole, *alone;
    struct mlagen **both[] = {&whole, &alone};
    for (size_t i = 0; i < COUNT(both); i++) {
        assert_int_equal(mlagen_open(&options, both[i], &d), MLAGEN_OK);
        assert_int_equal(mlagen_load_text(*both[i], spec, sizeof spec - 1,
                                          "tiny.yaml", &d),
                         MLAGEN_OK);
    }
    assert_int_equal(mlagen_render(alone, &d), MLAGEN_OK);
    assert_int_equal(mlagen_files(whole, same_alone, alone, &d), MLAGEN_OK);
    assert_diags(&d, "");
    mlagen_close(whole);
    mlagen_close(alone);
}

static void a_context_goes_on_after_a_bad_spec(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_buf names = {0};
    struct mlagen *g = load_tiny();
    assert_int_equal(mlagen_render(g, &d), MLAGEN_OK);
    assert_int_equal(mlagen_load_text(g, "heads: x\n", 9, "bad.yaml", &d),
                     MLAGEN_SPEC);
    assert_true(d.errors > 0);
    assert_string_equal(d.items[0].where.file, "bad.yaml");
    assert_int_equal(d.items[0].where.line, 1);
    mlagen_diags_free(&d);
    assert_string_equal(mlagen_model(g), "");
    assert_int_equal(
        mlagen_load_text(g, spec, sizeof spec - 1, "tiny.yaml", &d), MLAGEN_OK);
    assert_int_equal(mlagen_list_outputs(g, true, &names, &d), MLAGEN_OK);
    assert_non_null(strstr(names.data, "cubin/"));
    assert_diags(&d, "");
    mlagen_buf_free(&names);
    mlagen_close(g);
}

static void an_override_is_a_reason_for_other_kernels(void **state) {
    (void)state;
    static const char *const settings[] = {"kv_cache.page_size=64",
                                           "dtype=fp16"};
    struct mlagen_options options = {.size = sizeof options,
                                     .settings = settings,
                                     .setting_count = COUNT(settings),
                                     .archs = "9.0,sm_120",
                                     .symbol_prefix = "acme_"};
    struct mlagen_diags d = {0};
    struct mlagen_buf names = {0};
    struct mlagen *g;
    assert_int_equal(mlagen_open(&options, &g, &d), MLAGEN_OK);
    assert_int_equal(
        mlagen_load_text(g, spec, sizeof spec - 1, "tiny.yaml", &d), MLAGEN_OK);
    assert_int_equal(mlagen_list_outputs(g, true, &names, &d), MLAGEN_OK);
    assert_diags(&d, "");
    assert_non_null(
        strstr(names.data, "src/acme_mla_absorb_q_tiny_fp16_h4_p64_sm_90.cu"));
    assert_non_null(strstr(
        names.data, "cubin/acme_mla_absorb_q_tiny_fp16_h4_p64_sm_120.cubin"));
    assert_null(strstr(names.data, "sm_80"));
    mlagen_buf_free(&names);
    mlagen_close(g);
}

static void make_reads_the_dependency_file(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_buf out = {0};
    char folder[256], path[300], expected[512];
    temp_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/a #b$c.yaml", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(spec, file) >= 0);
    assert_int_equal(fclose(file), 0);
    struct mlagen *g = open_default();
    assert_int_equal(mlagen_load(g, path, &d), MLAGEN_OK);
    assert_int_equal(mlagen_depfile(g, "out dir/m", &out, &d), MLAGEN_OK);
    snprintf(expected, sizeof expected,
             "out\\ dir/m: \\\n  %s/a\\ \\#b$$c.yaml\n", folder);
    assert_string_equal(mlagen_buf_text(&out), expected);
    assert_diags(&d, "");
    unlink(path);
    rmdir(folder);
    mlagen_buf_free(&out);
    mlagen_close(g);
}

/* ---- contexts side by side ----------------------------------------------- */

static void *describe(void *user) {
    struct mlagen_buf *out = user;
    struct mlagen_options options = {.size = sizeof options};
    struct mlagen_diags d = {0};
    struct mlagen *g;
    if (mlagen_open(&options, &g, &d) == MLAGEN_OK &&
        mlagen_load_text(g, spec, sizeof spec - 1, "tiny.yaml", &d) ==
            MLAGEN_OK)
        mlagen_describe(g, true, out, &d);
    mlagen_close(g);
    mlagen_diags_free(&d);
    return NULL;
}

static void contexts_of_two_threads_do_not_meet(void **state) {
    (void)state;
    struct mlagen_buf texts[4] = {{0}};
    pthread_t threads[COUNT(texts)];
    for (size_t i = 0; i < COUNT(texts); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, describe, &texts[i]),
                         0);
    for (size_t i = 0; i < COUNT(texts); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(texts[0].len > 1000);
    for (size_t i = 1; i < COUNT(texts); i++)
        assert_string_equal(texts[i].data, texts[0].data);
    for (size_t i = 0; i < COUNT(texts); i++)
        mlagen_buf_free(&texts[i]);
}

/* ---- the workers --------------------------------------------------------- */

enum { JOBS = 1000 };

struct tally {
    atomic_int ran[JOBS];
    pthread_t caller;
    size_t told;
};

static void run_job(void *user, size_t index) {
    struct tally *t = user;
    atomic_fetch_add(&t->ran[index], 1);
}

static void job_done(void *user, size_t done, size_t latest) {
    struct tally *t = user;
    assert_true(pthread_equal(pthread_self(), t->caller));
    assert_true(done > t->told && done <= JOBS);
    assert_true(latest < JOBS);
    t->told = done;
}

static void every_job_runs_once_and_the_caller_is_told(void **state) {
    (void)state;
    static const size_t threads[] = {0, 1, 2, 8, 5000};
    for (size_t i = 0; i < COUNT(threads); i++) {
        static struct tally t;
        memset(&t, 0, sizeof t);
        t.caller = pthread_self();
        mlagen_workers_run(JOBS, threads[i], run_job, job_done, &t);
        assert_int_equal(t.told, JOBS);
        for (size_t k = 0; k < JOBS; k++)
            assert_int_equal(atomic_load(&t.ran[k]), 1);
    }
    mlagen_workers_run(0, 4, run_job, job_done, NULL);
    assert_true(mlagen_cpu_count() >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_another_size_are_refused),
        cmocka_unit_test(a_bad_prefix_or_arch_is_refused_by_name),
        cmocka_unit_test(a_later_stage_runs_the_ones_before),
        cmocka_unit_test(the_generation_can_be_had_in_memory),
        cmocka_unit_test(a_text_does_not_depend_on_the_others),
        cmocka_unit_test(a_context_goes_on_after_a_bad_spec),
        cmocka_unit_test(an_override_is_a_reason_for_other_kernels),
        cmocka_unit_test(make_reads_the_dependency_file),
        cmocka_unit_test(contexts_of_two_threads_do_not_meet),
        cmocka_unit_test(every_job_runs_once_and_the_caller_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
