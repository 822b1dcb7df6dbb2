/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets in memory, and many kernels onto the device at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cache_world.h"

/* Sets in memory ---------------------------------------------------------- */

static void a_set_in_memory_needs_no_directory(void **state)
{
    mla_context *ctx = world_context();
    struct set s;

    (void)state;
    set_load(&s, ctx, 1, "sm_80", "");
    assert_int_equal(mla_prepare(s.kernel), MLA_OK);
    assert_int_equal(fake.loads, 1);
    assert_non_null(strstr(fake.last_image, "source 1"));
    set_free(&s);
    mla_context_destroy(ctx);
}

static void a_file_that_is_not_in_memory_is_named(void **state)
{
    static const mla_file none[] = {{"src/k.cu", "x", 1}};
    static const mla_file bad[] = {{NULL, "x", 1}, {"a", NULL, 1}};
    mla_context *ctx = world_context();
    mla_kernels *set;

    (void)state;
    assert_int_equal(mla_load_files(ctx, "box", none, 1, &set), MLA_IO);
    assert_non_null(strstr(mla_last_error(ctx), "box: no file manifest.json"));
    assert_int_equal(mla_load_files(ctx, "box", bad, 1, &set),
                     MLA_INVALID_ARGUMENT);
    assert_int_equal(mla_load_files(ctx, "box", bad + 1, 1, &set),
                     MLA_INVALID_ARGUMENT);
    assert_null(set);
    mla_context_destroy(ctx);
}

static void a_cubin_in_memory_goes_before_the_compiler(void **state)
{
    mla_context *ctx = world_context();
    mla_file files[2];
    mla_kernels *set;
    char *manifest = fixture_manifest();

    (void)state;
    files[0] = (mla_file){"manifest.json", manifest, strlen(manifest)};
    files[1] =
        (mla_file){"cubin/k.cubin", fixture_cubin, strlen(fixture_cubin)};
    assert_int_equal(mla_load_files(ctx, "box", files, 2, &set), MLA_OK);
    assert_int_equal(mla_prepare(mla_kernels_at(set, 0)), MLA_OK);
    assert_string_equal(fake.last_image, fixture_cubin);
    assert_int_equal(fake_compilations(), 0);
    mla_kernels_free(set);
    free(manifest);
    mla_context_destroy(ctx);
}

/* A manifest of `count` kernels, each with a source of its own --------------
 */

enum { MANY = 12 };

struct many {
    char sources[MANY][64], paths[MANY][32];
    char *manifest;
    mla_file files[MANY + 1];
    mla_kernels *set;
};

static void replace(char *text, const char *old, const char *new)
{
    char *at;
    while ((at = strstr(text, old))) {
        memmove(at + strlen(new), at + strlen(old),
                strlen(at + strlen(old)) + 1);
        memcpy(at, new, strlen(new));
    }
}

static void many_load(struct many *m, mla_context *ctx)
{
    size_t size = 65536, used = 0;

    m->manifest = malloc(size);
    used += (size_t)sprintf(m->manifest, "{\"format\": 1, \"model\": \"m\", "
                                         "\"files\": [");
    for (int i = 0; i < MANY; i++) {
        char hash[MLA__SHA256_HEX + 1];
        sprintf(m->sources[i], "// source %d\n", i);
        sprintf(m->paths[i], "src/%d.cu", i);
        mla__sha256_hex(m->sources[i], strlen(m->sources[i]), hash);
        used += (size_t)sprintf(m->manifest + used,
                                "%s{\"path\": \"%s\", \"sha256\": \"%s\"}",
                                i ? "," : "", m->paths[i], hash);
        m->files[i] =
            (mla_file){m->paths[i], m->sources[i], strlen(m->sources[i])};
    }
    used += (size_t)sprintf(m->manifest + used, "], \"kernels\": [");
    for (int i = 0; i < MANY; i++) {
        const struct fixture_kernel shape = {"sm_80", i + 1, 0};
        char kernel[8192];
        fixture_kernel_text(kernel, sizeof(kernel), &shape, "");
        replace(kernel, "src/k.cu", m->paths[i]);
        used +=
            (size_t)sprintf(m->manifest + used, "%s%s", i ? "," : "", kernel);
    }
    sprintf(m->manifest + used, "]}");
    m->files[MANY] =
        (mla_file){"manifest.json", m->manifest, strlen(m->manifest)};
    assert_int_equal(mla_load_files(ctx, "many", m->files, MANY + 1, &m->set),
                     MLA_OK);
}

static void many_free(struct many *m)
{
    mla_kernels_free(m->set);
    free(m->manifest);
}

struct progress {
    int calls, last, total;
};

static void note_progress(void *user, int done, int total,
                          const mla_kernel *kernel)
{
    struct progress *p = user;
    assert_int_equal(done, p->last + 1);
    assert_non_null(kernel);
    p->calls++;
    p->last = done;
    p->total = total;
}

static void all_kernels_are_compiled_side_by_side(void **state)
{
    struct progress p = {0, 0, 0};
    mla_prepare_options o = {sizeof(o), 4, note_progress, &p};

    (void)state;
    fake_compiler->ms = 20;
    for (int start = 0; start < 2; start++) {
        mla_context *ctx = world_context();
        struct many m;
        many_load(&m, ctx);
        p = (struct progress){0, 0, 0};
        assert_int_equal(mla_prepare_all(m.set, &o), MLA_OK);
        assert_int_equal(p.calls, MANY);
        assert_int_equal(p.total, MANY);
        assert_int_equal(fake.loads, MANY);
        assert_int_equal(fake_compilations(), MANY);
        for (int i = 0; i < MANY; i++)
            assert_non_null(mla_kernels_at(m.set, i)->function);
        many_free(&m);
        mla_context_destroy(ctx);
    }
    assert_true(fake_compiler->most_under_way > 1);
    assert_true(fake_compiler->most_under_way <= 4);
}

/* The driver's first refusal of machine code holds for the rest. */
static void a_driver_that_takes_ptx_only_is_asked_once(void **state)
{
    mla_context *ctx = world_context();
    struct many m;

    (void)state;
    fake.load_result = 209;
    many_load(&m, ctx);
    assert_int_equal(mla_prepare_all(m.set, NULL), MLA_OK);
    assert_int_equal(fake.loads, 1);
    assert_int_equal(fake.ptx_loads, MANY);
    assert_int_equal(fake_compilations(), MANY + 1);
    many_free(&m);
    mla_context_destroy(ctx);
}

static void one_failure_leaves_the_others_ready(void **state)
{
    struct progress p = {0, 0, 0};
    mla_prepare_options o = {sizeof(o), 3, note_progress, &p};
    mla_context *ctx = world_context();
    struct many m;

    (void)state;
    fake_compiler->refusing = 5;
    many_load(&m, ctx);
    assert_int_equal(mla_prepare_all(m.set, &o), MLA_COMPILE);
    assert_non_null(strstr(mla_last_error(ctx), "src/5.cu"));
    assert_non_null(strstr(mla_last_error(ctx), "a log line"));
    assert_int_equal(p.calls, MANY - 1);
    assert_null(mla_kernels_at(m.set, 5)->function);
    fake_compiler->refusing = -1;
    p = (struct progress){0, 0, 0};
    assert_int_equal(mla_prepare_all(m.set, &o), MLA_OK);
    assert_int_equal(p.calls, MANY);
    many_free(&m);
    mla_context_destroy(ctx);
}

static void kernels_of_two_sets_are_refused(void **state)
{
    mla_context *ctx = world_context();
    mla_kernel *list[2];
    struct set a, b;

    (void)state;
    set_load(&a, ctx, 1, "sm_80", "");
    set_load(&b, ctx, 2, "sm_80", "");
    list[0] = a.kernel;
    list[1] = b.kernel;
    assert_int_equal(mla_prepare_some(list, 2, NULL), MLA_INVALID_ARGUMENT);
    assert_int_equal(mla_prepare_some(list, 1, NULL), MLA_OK);
    assert_int_equal(mla_prepare_some(NULL, 0, NULL), MLA_OK);
    list[1] = NULL;
    assert_int_equal(mla_prepare_some(list, 2, NULL), MLA_INVALID_ARGUMENT);
    set_free(&a);
    set_free(&b);
    mla_context_destroy(ctx);
}

/* Two devices, or two contexts on one: a handle of one is nothing to the
 * other. */
static void each_context_has_modules_of_its_own(void **state)
{
    mla_context *one = world_context(), *two = world_context();
    struct set a, b;

    (void)state;
    set_load(&a, one, 1, "sm_80", "");
    set_load(&b, two, 1, "sm_80", "");
    assert_int_equal(mla_prepare(a.kernel), MLA_OK);
    assert_int_equal(fake.loads, 1);
    assert_null(b.kernel->function);
    assert_int_equal(mla_prepare(b.kernel), MLA_OK);
    assert_int_equal(fake.loads, 2);
    assert_int_equal(fake_compilations(), 1);
    set_free(&a);
    mla_context_destroy(one);
    assert_int_equal(fake.unloads, 1);
    assert_int_equal(mla_prepare(b.kernel), MLA_OK);
    assert_int_equal(fake.loads, 2);
    set_free(&b);
    mla_context_destroy(two);
}

/* Only what mla_find would choose is prepared. */
static void kernels_for_other_devices_are_left_alone(void **state)
{
    mla_context *ctx = world_context();
    struct progress p = {0, 0, 0};
    mla_prepare_options o = {sizeof(o), 1, note_progress, &p};
    char *directory = fixture_write();
    mla_kernels *set;

    (void)state;
    fake.minor = 6; /* sm_80 h128 has no closer kin, sm_80 h16 has sm_86 */
    assert_int_equal(mla_load(ctx, directory, &set), MLA_OK);
    assert_int_equal(mla_prepare_all(set, &o), MLA_OK);
    assert_int_equal(p.total, 2);
    assert_null(mla_kernels_at(set, 0)->function);
    assert_non_null(mla_kernels_at(set, 1)->function);
    assert_non_null(mla_kernels_at(set, 2)->function);
    mla_kernels_free(set);
    fixture_remove(directory);
    mla_context_destroy(ctx);
}

/* Build ids ---------------------------------------------------------------- */

static void write_bytes(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, bytes, f) != bytes || fclose(f))
        abort();
}

static void libraries_are_told_apart_by_their_build_ids(void **state)
{
    char self[MLA__IDENTITY], copy[MLA__IDENTITY], path[5000];
    static unsigned char bytes[1 << 22];
    size_t size;
    FILE *f = fopen("/proc/self/exe", "rb");

    (void)state;
    size = fread(bytes, 1, sizeof(bytes), f);
    fclose(f);
    *strrchr(world.folder, '/') = 0;
    snprintf(path, sizeof(path), "%s/lib.so", world.folder);
    strcat(world.folder, "/c");
    assert_true(mla__build_id("/proc/self/exe", self));
    write_bytes(path, bytes, size);
    assert_true(mla__build_id(path, copy)); /* the path does not count */
    assert_string_equal(self, copy);
    bytes[size / 2] ^= 1;
    memset(bytes + 32, 0, 8); /* no program headers where they should be */
    write_bytes(path, bytes, size);
    assert_true(mla__build_id(path, self)); /* then by the whole file */
    assert_int_equal(strlen(self), 64);
    bytes[size - 1] ^= 1;
    write_bytes(path, bytes, size);
    assert_true(mla__build_id(path, copy));
    assert_string_not_equal(self, copy);
    for (size_t cut = 0; cut < 64; cut++) {
        write_bytes(path, bytes, cut);
        assert_false(mla__build_id(path, copy));
    }
    assert_false(mla__build_id("/nowhere", copy));
    assert_false(mla__build_id("/", copy));
}

/* The same answer before and after the library is opened. */
static void the_compiler_is_known_without_opening_it(void **state)
{
    mla_context *ctx = fake_context(NULL);
    char before[MLA__IDENTITY];

    (void)state;
    snprintf(before, sizeof(before), "%s", mla__nvrtc_identity(ctx));
    assert_int_equal(strlen(before), 64);
    assert_null(ctx->nvrtc.handle);
    assert_int_equal(mla__nvrtc_open(ctx), MLA_OK);
    assert_string_equal(before, mla__nvrtc_identity(ctx));
    mla_context_destroy(ctx);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, world_up, world_down)
    const struct CMUnitTest tests[] = {
        TEST(a_set_in_memory_needs_no_directory),
        TEST(a_file_that_is_not_in_memory_is_named),
        TEST(a_cubin_in_memory_goes_before_the_compiler),
        TEST(all_kernels_are_compiled_side_by_side),
        TEST(a_driver_that_takes_ptx_only_is_asked_once),
        TEST(one_failure_leaves_the_others_ready),
        TEST(kernels_of_two_sets_are_refused),
        TEST(each_context_has_modules_of_its_own),
        TEST(kernels_for_other_devices_are_left_alone),
        TEST(libraries_are_told_apart_by_their_build_ids),
        TEST(the_compiler_is_known_without_opening_it),
    };
    return cmocka_run_group_tests_name("prepare", tests, NULL, NULL);
}
