/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache on one thread: where it is, what an entry is known by, and that
 * damage costs a compilation and nothing else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/resource.h>

#include "cache_world.h"

/* Where it is ------------------------------------------------------------- */

static void the_folder_follows_options_environment_and_xdg(void **state)
{
    static const struct {
        const char *option, *mla, *xdg, *home, *path;
    } rows[] = {
        {"/o", "/m", "/x", "/h", "/o"},
        {NULL, "/m", "/x", "/h", "/m"},
        {NULL, NULL, "/x", "/h", "/x/mla"},
        {NULL, NULL, "relative", "/h", "/h/.cache/mla"},
        {NULL, NULL, "", "/h", "/h/.cache/mla"},
        {NULL, NULL, NULL, "/h", "/h/.cache/mla"},
        {NULL, NULL, NULL, "relative", NULL},
        {NULL, NULL, NULL, NULL, NULL},
        {"", "/m", "/x", "/h", NULL},
        {NULL, "", "/x", "/h", NULL},
    };
    const char *names[] = {"MLA_CACHE", "XDG_CACHE_HOME", "HOME"};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *values[] = {rows[i].mla, rows[i].xdg, rows[i].home};
        mla_options options = MLA_OPTIONS_INIT;
        mla_context *ctx;
        char *path;
        for (int n = 0; n < 3; n++)
            if (values[n])
                setenv(names[n], values[n], 1);
            else
                unsetenv(names[n]);
        options.cache = rows[i].option;
        ctx = fake_context(&options);
        path = mla__cache_path(ctx);
        assert_string_equal(path ? path : "-",
                            rows[i].path ? rows[i].path : "-");
        mla__free(ctx, path);
        mla_context_destroy(ctx);
    }
    unsetenv("MLA_CACHE");
}

/* Identity ---------------------------------------------------------------- */

static void a_second_start_compiles_nothing(void **state)
{
    (void)state;
    assert_int_equal(world_start(1), MLA_OK);
    assert_int_equal(fake_compilations(), 1);
    assert_int_equal(entry_count(), 1);
    assert_int_equal(world_start(1), MLA_OK);
    assert_int_equal(fake_compilations(), 1);
    assert_int_equal(world.lines, 0);
}

static void whatever_the_image_depends_on_is_in_its_key(void **state)
{
    static const struct {
        int number;
        const char *arch, *compiler;
        enum mla__kind kind;
    } rows[] = {
        {1, "sm_80", "compiler one", MLA__CUBIN},
        {2, "sm_80", "compiler one", MLA__CUBIN},
        {1, "sm_86", "compiler one", MLA__CUBIN},
        {1, "sm_90", "compiler one", MLA__CUBIN},
        {1, "sm_90a", "compiler one", MLA__CUBIN},
        {1, "sm_80", "compiler two", MLA__CUBIN},
        {1, "sm_80", "compiler one", MLA__PTX},
    };
    const int count = sizeof(rows) / sizeof(rows[0]);

    (void)state;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < count; i++) {
            mla_context *ctx = world_context_of(rows[i].compiler);
            assert_int_equal(
                world_get(ctx, rows[i].number, rows[i].arch, rows[i].kind),
                MLA_OK);
            assert_int_equal(fake_compilations(), round ? count : i + 1);
            mla_context_destroy(ctx);
        }
    assert_int_equal(entry_count(), count);
}

static void equal_concatenations_have_different_keys(void **state)
{
    static const char *const a[] = {"ab", "c"}, *const b[] = {"a", "bc"},
                             *const c[] = {"abc", ""};
    char x[MLA__SHA256_HEX + 1], y[MLA__SHA256_HEX + 1], z[MLA__SHA256_HEX + 1];

    (void)state;
    mla__sha256_texts(a, 2, x);
    mla__sha256_texts(b, 2, y);
    mla__sha256_texts(c, 2, z);
    assert_string_not_equal(x, y);
    assert_string_not_equal(x, z);
    assert_string_not_equal(y, z);
}

static void a_source_with_includes_is_not_kept(void **state)
{
    static const char *const texts[] = {"#include \"a.h\"\n",
                                        "  #  include <a.h>\n"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        mla_context *ctx = world_context();
        struct mla__image image;
        struct set s;
        set_load(&s, ctx, 1, "sm_80", texts[i]);
        assert_int_equal(mla__image_begin(ctx), MLA_OK);
        assert_int_equal(mla__image_compile(ctx, s.kernel, MLA__CUBIN, &image),
                         MLA_OK);
        assert_int_equal(entry_count(), 0);
        mla__image_free(ctx, &image);
        set_free(&s);
        mla_context_destroy(ctx);
    }
}

static void a_refused_source_is_reported_and_not_kept(void **state)
{
    mla_context *ctx = world_context();
    (void)state;
    fake_compiler->refusing = 1;
    assert_int_equal(world_get(ctx, 1, "sm_80", MLA__PTX), MLA_COMPILE);
    assert_non_null(strstr(mla_last_error(ctx), "a log line"));
    assert_int_equal(entry_count(), 0);
    fake_compiler->refusing = -1;
    assert_int_equal(world_get(ctx, 1, "sm_80", MLA__PTX), MLA_OK);
    assert_int_equal(entry_count(), 1);
    mla_context_destroy(ctx);
}

static void an_edited_source_is_an_error_with_a_full_cache(void **state)
{
    mla_context *ctx = world_context();
    struct mla__image image;
    struct set s;
    bool found;

    (void)state;
    assert_int_equal(world_start(1), MLA_OK);
    set_load(&s, ctx, 1, "sm_80", "");
    s.source[strlen(s.source) - 1] = ' ';
    assert_int_equal(mla__image_find(ctx, s.kernel, MLA__CUBIN, &image, &found),
                     MLA_CORRUPT);
    assert_false(found);
    set_free(&s);
    mla_context_destroy(ctx);
}

/* Damage ------------------------------------------------------------------ */

static void cut(const char *path, off_t bytes)
{
    if (truncate(path, bytes))
        abort();
}

static off_t size_of(const char *path)
{
    struct stat st;
    if (stat(path, &st))
        abort();
    return st.st_size;
}

static void cut_to_0(const char *path)
{
    cut(path, 0);
}

static void cut_to_1(const char *path)
{
    cut(path, 1);
}

static void cut_to_half(const char *path)
{
    cut(path, size_of(path) / 2);
}

static void grow(const char *path)
{
    cut(path, size_of(path) + 1);
}

static void flip(const char *path)
{
    int fd = open(path, O_RDWR);
    char c;
    if (pread(fd, &c, 1, 7) != 1)
        abort();
    c ^= 4;
    if (pwrite(fd, &c, 1, 7) != 1)
        abort();
    close(fd);
}

static void be_gone(const char *path)
{
    remove_tree(path);
}

static void be_folder(const char *path)
{
    remove_tree(path);
    mkdir(path, 0700);
}

static void be_full_folder(const char *path)
{
    char below[8300];
    be_folder(path);
    snprintf(below, sizeof(below), "%s/x", path);
    mkdir(below, 0700);
}

static void be_dangling(const char *path)
{
    remove_tree(path);
    if (symlink("/nowhere/at/all", path))
        abort();
}

static void be_pipe(const char *path)
{
    remove_tree(path);
    mkfifo(path, 0600);
}

static void lose_rights(const char *path)
{
    chmod(path, 0);
}

static void be_open_to_all(const char *path)
{
    chmod(path, 0777);
}

static void be_elsewhere(const char *path)
{
    char away[8300];
    snprintf(away, sizeof(away), "%s.moved", path);
    remove_tree(away);
    if (rename(path, away) || symlink(away, path))
        abort();
}

static void be_file(const char *path)
{
    int fd;
    remove_tree(path);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    close(fd);
}

/* After the damage a start succeeds with the right image, at the price of at
 * most one compilation; and the start after that compiles nothing. */
static void expect_repair(const char *what)
{
    int before, after;

    before = fake_compilations();
    if (world_start(1) != MLA_OK)
        fail_msg("%s: a damaged entry stops the start", what);
    after = fake_compilations();
    if (after > before + 1)
        fail_msg("%s: %d compilations", what, after - before);
    if (world_start(1) != MLA_OK || fake_compilations() != after)
        fail_msg("%s: the entry is not made good", what);
}

static void a_damaged_file_is_found_out_and_made_again(void **state)
{
    static const struct {
        const char *what;
        void (*damage)(const char *path);
    } rows[] = {{"cut to 0", cut_to_0},
                {"cut to 1", cut_to_1},
                {"cut to half", cut_to_half},
                {"longer", grow},
                {"bit flipped", flip},
                {"missing", be_gone},
                {"a folder", be_folder},
                {"a full folder", be_full_folder},
                {"a dangling link", be_dangling},
                {"a link", be_elsewhere},
                {"a pipe", be_pipe},
                {"no rights", lose_rights}};
    static const char *const files[] = {"image", "sum"};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int f = 0; f < 2; f++) {
            assert_int_equal(world_start(1), MLA_OK);
            rows[i].damage(only_entry(files[f]));
            expect_repair(rows[i].what);
        }
}

static void something_else_in_an_entrys_place_is_put_away(void **state)
{
    static const struct {
        const char *what;
        void (*damage)(const char *path);
    } rows[] = {{"a file", be_file},
                {"an empty folder", be_folder},
                {"a full folder", be_full_folder},
                {"a dangling link", be_dangling},
                {"open to all", be_open_to_all},
                {"a link", be_elsewhere},
                {"no rights", lose_rights}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        remove_tree(world.folder);
        assert_int_equal(world_start(1), MLA_OK);
        rows[i].damage(only_entry(NULL));
        expect_repair(rows[i].what);
    }
}

/* One entry's files, or all of it, under the name of another. */
static void an_entry_of_another_key_is_not_believed(void **state)
{
    static const char *const swaps[] = {
        "cp %1$s/image %2$s/image", "cp %1$s/sum %2$s/sum", "cp %1$s/* %2$s/",
        "rm -r %2$s; cp -r %1$s %2$s"};
    char one[8192], command[40000];

    (void)state;
    for (size_t i = 0; i < sizeof(swaps) / sizeof(swaps[0]); i++) {
        int before;
        remove_tree(world.folder);
        assert_int_equal(world_start(1), MLA_OK);
        snprintf(one, sizeof(one), "%s.kept", world.folder);
        remove_tree(one);
        assert_int_equal(rename(only_entry(NULL), one), 0);
        assert_int_equal(world_start(2), MLA_OK);
        snprintf(command, sizeof(command), swaps[i], one, only_entry(NULL));
        assert_int_equal(system(command), 0);
        before = fake_compilations();
        assert_int_equal(world_start(2), MLA_OK);
        assert_int_equal(fake_compilations(), before + 1);
    }
}

/* The folder -------------------------------------------------------------- */

static void folder_is_a_file(void)
{
    be_file(world.folder);
}

static void folder_is_open_to_all(void)
{
    mkdir(world.folder, 0700);
    chmod(world.folder, 0777);
}

static void folder_cannot_be_made(void)
{
    strcpy(world.folder + strlen(world.folder), "/missing/deep/c");
}

static void folder_is_under_proc(void)
{
    strcpy(strrchr(world.folder, '/') + 1, "c");
    remove_tree(world.folder);
    if (symlink("/proc/self", world.folder))
        abort();
    strcat(world.folder, "/c");
}

/* Only root can give a folder away; elsewhere another user's stands in. */
static void folder_is_anothers(void)
{
    mkdir(world.folder, 0700);
    if (chown(world.folder, 12345, 12345))
        strcpy(world.folder, geteuid() ? "/" : "/proc");
}

static void a_useless_folder_costs_one_line_of_log(void **state)
{
    static void (*const rows[])(void) = {
        folder_is_a_file, folder_is_open_to_all, folder_cannot_be_made,
        folder_is_under_proc, folder_is_anothers};
    char saved[4096];

    (void)state;
    strcpy(saved, world.folder);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        mla_context *ctx;
        strcpy(world.folder, saved);
        remove_tree(saved);
        rows[i]();
        world.lines = 0;
        ctx = world_context();
        for (int n = 1; n < 4; n++)
            assert_int_equal(world_get(ctx, n, "sm_80", MLA__PTX), MLA_OK);
        if (world.lines != 1)
            fail_msg("row %zu: %d lines, last %s", i, world.lines, world.last);
        mla_context_destroy(ctx);
    }
    strcpy(world.folder, saved);
}

/* Writing fails in the middle of a file: nothing is left of the entry. */
static void a_full_disk_costs_one_line_of_log(void **state)
{
    mla_context *ctx = world_context();
    struct rlimit old, limit;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = 10;
    setrlimit(RLIMIT_FSIZE, &limit);
    for (int n = 1; n < 5; n++)
        assert_int_equal(world_get(ctx, n, "sm_80", MLA__PTX), MLA_OK);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(world.lines, 1);
    assert_non_null(strstr(world.last, "nothing can be kept"));
    assert_int_equal(each_name("", NULL), each_name("lock", NULL));
    mla_context_destroy(ctx);
}

static void a_folder_that_goes_away_costs_one_line_of_log(void **state)
{
    mla_context *ctx = world_context();

    (void)state;
    assert_int_equal(world_get(ctx, 1, "sm_80", MLA__PTX), MLA_OK);
    remove_tree(world.folder);
    for (int n = 2; n < 5; n++)
        assert_int_equal(world_get(ctx, n, "sm_80", MLA__PTX), MLA_OK);
    assert_int_equal(world.lines, 1);
    mla_context_destroy(ctx);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, world_up, world_down)
    const struct CMUnitTest tests[] = {
        TEST(the_folder_follows_options_environment_and_xdg),
        TEST(a_second_start_compiles_nothing),
        TEST(whatever_the_image_depends_on_is_in_its_key),
        TEST(equal_concatenations_have_different_keys),
        TEST(a_source_with_includes_is_not_kept),
        TEST(a_refused_source_is_reported_and_not_kept),
        TEST(an_edited_source_is_an_error_with_a_full_cache),
        TEST(a_damaged_file_is_found_out_and_made_again),
        TEST(something_else_in_an_entrys_place_is_put_away),
        TEST(an_entry_of_another_key_is_not_believed),
        TEST(a_useless_folder_costs_one_line_of_log),
        TEST(a_full_disk_costs_one_line_of_log),
        TEST(a_folder_that_goes_away_costs_one_line_of_log),
    };
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
