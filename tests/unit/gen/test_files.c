/* SPDX-License-Identifier: Apache-2.0
 *
 * test_files.c: getting a generation into a folder.
 *
 * The system calls that change a file system go through this file: each can be
 * made to fail, or to kill the process on the spot, at the n-th call, for every
 * n.  Whatever the moment, every file must be whole, old or new, and the next
 * run must put everything right without a word from the user.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#include "folder.h"
#include "manifest.h"
#include "outputs.h"

/* ---- system calls that fail on request ----------------------------------- */

static struct {
    atomic_int calls;
    int at;    /* 1-based; 0: never */
    int error; /* errno of the failure; 0: die */
} fault;

/* Counts one call; true when it must fail (errno is set).  May not return. */
static bool strikes(void) {
    if (atomic_fetch_add(&fault.calls, 1) + 1 != fault.at)
        return false;
    if (fault.error == 0)
        raise(SIGKILL);
    errno = fault.error;
    return true;
}

int open(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    unsigned mode = flags & O_CREAT ? va_arg(ap, unsigned) : 0;
    va_end(ap);
    if (flags & O_CREAT && strikes())
        return -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* Half of what is asked for: a writer must go on where it was left. */
ssize_t write(int fd, const void *data, size_t size) {
    if (strikes())
        return -1;
    return syscall(SYS_write, fd, data, size > 1 ? size / 2 : size);
}

int fsync(int fd) {
    (void)fd;
    return strikes() ? -1 : 0;
}

int rename(const char *from, const char *to) {
    if (strikes())
        return -1;
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path) {
    return strikes() ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int mkdir(const char *path, mode_t mode) {
    return strikes() ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

/* ---- a folder ------------------------------------------------------------ */

static char folder[256];
static char target[300]; /* the output folder, inside it */

static int make_folder(void **state) {
    (void)state;
    temp_folder(folder, sizeof folder);
    snprintf(target, sizeof target, "%s/out", folder);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *walk) {
    (void)st, (void)type, (void)walk;
    return remove(path);
}

static void remove_target(void) {
    nftw(target, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int remove_folder(void **state) {
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *in_target(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", target, name);
    return path;
}

static void put_file(const char *name, const char *text) {
    FILE *out = fopen(in_target(name), "wb");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

/* The text of a file of the folder, or NULL; to be freed. */
static char *get_file(const char *name) {
    FILE *in = fopen(in_target(name), "rb");
    if (!in)
        return NULL;
    char *text = calloc(1, 1 << 16);
    size_t n = fread(text, 1, (1 << 16) - 1, in);
    text[n] = '\0';
    fclose(in);
    return text;
}

/* ---- generations --------------------------------------------------------- */

/* Path and text of each file, ended by NULL. */
static const char *const first[] = {
    "model.h",         "first header\n", "src/a.cu",   "kernel a\n", "src/b.cu",
    "kernel b, old\n", "old/c.cu",       "kernel c\n", NULL};
static const char *const second[] = {"model.h",  "second header\n",
                                     "src/a.cu", "kernel a\n",
                                     "src/b.cu", "kernel b, rather new\n",
                                     "src/d.cu", "kernel d\n",
                                     "new/e.cu", "",
                                     NULL};

/* Makes the set of files with its manifest. */
static void make_generation(const char *const *pairs,
                            struct mlagen_outputs *o) {
    struct mlagen_diags d = {0};
    struct mlagen_buf text = {0};
    json_t *files = json_array();
    *o = (struct mlagen_outputs){0};
    for (; *pairs; pairs += 2) {
        assert_int_equal(
            mlagen_outputs_add(o, pairs[0], pairs[1], strlen(pairs[1]), &d),
            MLAGEN_OK);
        struct mlagen_output *item = &o->items[o->count - 1];
        json_array_append_new(files,
                              json_pack("{s:s,s:s}", "path", item->path,
                                        "sha256", mlagen_output_hash(item)));
    }
    json_t *m = json_pack("{s:i,s:o,s:[]}", "format", MLAGEN_MANIFEST_FORMAT,
                          "files", files, "kernels");
    assert_int_equal(mlagen_manifest_text(m, &text, &d), MLAGEN_OK);
    assert_int_equal(mlagen_outputs_add(o, MLAGEN_MANIFEST,
                                        mlagen_buf_text(&text), text.len, &d),
                     MLAGEN_OK);
    assert_diags(&d, "");
    json_decref(m);
    mlagen_buf_free(&text);
}

/* Opens, compares, publishes.  *changes counts what was to be done. */
static enum mlagen_status publish(const char *const *pairs, size_t *changed,
                                  struct mlagen_diags *d) {
    struct mlagen_outputs o;
    struct mlagen_changes changes = {0};
    struct mlagen_folder f;
    make_generation(pairs, &o);
    enum mlagen_status status = mlagen_folder_open(target, true, &f, d);
    if (status == MLAGEN_OK) {
        status = mlagen_folder_compare(&f, &o, &changes, d);
        if (status == MLAGEN_OK)
            status = mlagen_folder_publish(&f, &o, &changes, d);
        mlagen_folder_close(&f);
    }
    if (changed)
        *changed = changes.count;
    mlagen_changes_free(&changes);
    mlagen_outputs_free(&o);
    return status;
}

static void must_publish(const char *const *pairs, size_t expected_changes) {
    struct mlagen_diags d = {0};
    size_t changed;
    enum mlagen_status status = publish(pairs, &changed, &d);
    assert_diags(&d, "");
    assert_int_equal(status, MLAGEN_OK);
    if (expected_changes != SIZE_MAX)
        assert_int_equal(changed, expected_changes);
}

struct census {
    const struct mlagen_outputs *o;
    size_t seen;
};

static enum mlagen_status count_expected(void *user, const char *path) {
    struct census *c = user;
    const struct mlagen_output *o = mlagen_outputs_find(c->o, path);
    if (!o)
        fail_msg("a file that should not be there: %s", path);
    char *text = get_file(path);
    assert_string_equal(text, o->data);
    free(text);
    c->seen++;
    return MLAGEN_OK;
}

/* The folder holds exactly this generation, and nothing beside it. */
static void assert_holds(const char *const *pairs) {
    struct mlagen_diags d = {0};
    struct mlagen_outputs o;
    make_generation(pairs, &o);
    struct census c = {&o, 0};
    assert_int_equal(mlagen_folder_walk(target, count_expected, &c, &d),
                     MLAGEN_OK);
    assert_int_equal(c.seen, o.count);
    mlagen_outputs_free(&o);
}

static bool is_text_of(const char *const *pairs, const char *path,
                       const char *text) {
    for (; *pairs; pairs += 2)
        if (strcmp(pairs[0], path) == 0 && strcmp(pairs[1], text) == 0)
            return true;
    return false;
}

/* Each file is the old one or the new one, whole; the manifest too. */
static void assert_whole(void) {
    static const char *const paths[] = {"model.h",  "src/a.cu", "src/b.cu",
                                        "old/c.cu", "src/d.cu", "new/e.cu"};
    for (size_t i = 0; i < COUNT(paths); i++) {
        char *text = get_file(paths[i]);
        if (text && !is_text_of(first, paths[i], text) &&
            !is_text_of(second, paths[i], text))
            fail_msg("%s is neither old nor new: '%s'", paths[i], text);
        free(text);
    }
    struct mlagen_diags d = {0};
    struct mlagen_folder f;
    assert_int_equal(mlagen_folder_open(target, false, &f, &d), MLAGEN_OK);
    assert_true(f.manifest == NULL || mlagen_manifest_intact(f.manifest));
    mlagen_folder_close(&f);
    assert_diags(&d, "");
}

/* ---- tests --------------------------------------------------------------- */

static void a_second_run_changes_nothing(void **state) {
    (void)state;
    must_publish(first, 5);
    assert_holds(first);
    must_publish(first, 0);
    assert_holds(first);
}

static void the_next_generation_replaces_adds_and_removes(void **state) {
    (void)state;
    must_publish(first, 5);
    must_publish(second, 6); /* 2 changed, 2 added, 1 removed, manifest */
    assert_holds(second);
    assert_int_equal(access(in_target("old"), F_OK), -1);
    must_publish(first, 6);
    assert_holds(first);
}

/* Runs the publication of `pairs` in a child that dies at call `at`; false when
 * it ended before. */
static bool die_at(const char *const *pairs, int at) {
    int result;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct mlagen_diags d = {0};
        fault.at = at;
        fault.error = 0;
        atomic_store(&fault.calls, 0);
        _exit(publish(pairs, NULL, &d) == MLAGEN_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &result, 0), child);
    if (WIFSIGNALED(result)) {
        assert_int_equal(WTERMSIG(result), SIGKILL);
        return true;
    }
    assert_int_equal(WEXITSTATUS(result), 0);
    return false;
}

static void a_first_run_may_die_anywhere(void **state) {
    (void)state;
    int n = 1;
    for (; die_at(first, n); n++) {
        assert_whole();
        must_publish(first, SIZE_MAX);
        assert_holds(first);
        remove_target();
    }
    assert_true(n > 20);
    assert_holds(first);
}

static void a_later_run_may_die_anywhere(void **state) {
    (void)state;
    int n = 1;
    for (bool died = true; died; n++) {
        must_publish(first, SIZE_MAX);
        died = die_at(second, n);
        assert_whole();
        must_publish(second, SIZE_MAX);
        assert_holds(second);
        remove_target();
    }
    assert_true(n > 20);
}

/* A run that repairs may die as well, on its way to either generation. */
static void a_repairing_run_may_die_anywhere(void **state) {
    (void)state;
    for (int n = 1; n < 48; n += 5)
        for (int m = 1; m < 48; m += 2) {
            must_publish(first, SIZE_MAX);
            die_at(second, n);
            die_at(m % 4 == 1 ? first : second, m);
            assert_whole();
            must_publish(second, SIZE_MAX);
            assert_holds(second);
            remove_target();
        }
}

/* A failing call is an I/O error that names a path, or is of no consequence;
 * what was there is whole, and the next run completes. */
static void any_call_may_fail(void **state) {
    (void)state;
    int failures = 0, n = 1;
    for (bool struck = true; struck; n++) {
        struct mlagen_diags d = {0};
        must_publish(first, SIZE_MAX);
        fault.at = n;
        fault.error = ENOSPC;
        atomic_store(&fault.calls, 0);
        enum mlagen_status status = publish(second, NULL, &d);
        struck = atomic_load(&fault.calls) >= n;
        fault.at = 0;
        if (status != MLAGEN_OK) {
            assert_int_equal(status, MLAGEN_IO);
            assert_int_equal(d.errors, 1);
            assert_non_null(
                strstr(d.items[0].message, "No space left on device"));
            assert_non_null(strstr(d.items[0].where.file, target));
            failures++;
        }
        mlagen_diags_free(&d);
        assert_whole();
        must_publish(second, SIZE_MAX);
        assert_holds(second);
        remove_target();
    }
    assert_true(failures > 15);
}

/* While files are staged nothing has been replaced: a full disk leaves the
 * folder exactly as it was. */
static void a_full_disk_leaves_the_generation_before(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    must_publish(first, 5);
    for (int n = 1; n <= 8; n++) {
        fault.at = n;
        fault.error = ENOSPC;
        atomic_store(&fault.calls, 0);
        if (publish(second, NULL, &d) == MLAGEN_OK)
            break; /* only a folder was not made, or a flush was lost */
        fault.at = 0;
        mlagen_diags_free(&d);
        assert_holds(first);
    }
    fault.at = 0;
}

static void what_is_not_ours_is_left_alone(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    char expected[512];
    assert_int_equal(mkdir(target, 0777), 0);
    put_file("model.h", "mine\n");
    assert_int_equal(publish(first, NULL, &d), MLAGEN_IO);
    snprintf(expected, sizeof expected,
             "%s/model.h: error: not made by mlagen (manifest.json does not "
             "list it); move it away\n",
             target);
    assert_diags(&d, expected);
    char *text = get_file("model.h");
    assert_string_equal(text, "mine\n");
    free(text);
    assert_int_equal(access(in_target("src"), F_OK), -1);
}

static void an_edited_stale_file_is_reported_and_kept(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    char expected[512];
    must_publish(first, 5);
    put_file("old/c.cu", "edited\n");
    assert_int_equal(publish(second, NULL, &d), MLAGEN_OK);
    snprintf(expected, sizeof expected,
             "%s/old/c.cu: warning: no longer generated, but edited by hand: "
             "left in place\n",
             target);
    assert_diags(&d, expected);
    char *text = get_file("old/c.cu");
    assert_string_equal(text, "edited\n");
    free(text);
}

static void a_folder_is_one_writers_at_a_time(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_folder one, other;
    char expected[512];
    assert_int_equal(mlagen_folder_open(target, true, &one, &d), MLAGEN_OK);
    assert_int_equal(mlagen_folder_open(target, true, &other, &d), MLAGEN_IO);
    snprintf(expected, sizeof expected,
             "%s: error: another mlagen is writing to this folder\n", target);
    assert_diags(&d, expected);
    assert_int_equal(mlagen_folder_open(target, false, &other, &d), MLAGEN_OK);
    mlagen_folder_close(&other);
    mlagen_folder_close(&one);
    assert_int_equal(mlagen_folder_open(target, true, &one, &d), MLAGEN_OK);
    mlagen_folder_close(&one);
    assert_diags(&d, "");
}

static void a_single_file_is_written_once(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct stat before, after;
    assert_int_equal(mkdir(target, 0777), 0);
    const char *path = in_target("deps.d");
    assert_int_equal(mlagen_write_file(path, "a: b\n", 5, &d), MLAGEN_OK);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(mlagen_write_file(path, "a: b\n", 5, &d), MLAGEN_OK);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(mlagen_write_file(path, "a: b", 4, &d), MLAGEN_OK);
    char *text = get_file("deps.d");
    assert_string_equal(text, "a: b");
    free(text);
    assert_diags(&d, "");
}

static void names_that_leave_the_folder_are_refused(void **state) {
    (void)state;
    static const char *const good[] = {"a",     "a.cu", "src/a.cu",
                                       "a/b/c", "a..b", "a b"};
    static const char *const bad[] = {
        "",     "/",    "/a",     "a/",    "a//b", ".",
        "..",   "../a", "a/../b", "a/./b", ".a",   "a/.b",
        "a\nb", "a\tb", "a\x7f",  "a/..",  "./a",  "src/.mlagen-tmp"};
    for (size_t i = 0; i < COUNT(good); i++)
        assert_true(mlagen_output_path_ok(good[i]));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(mlagen_output_path_ok(bad[i]));
}

static void one_name_is_one_file(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_outputs o = {0};
    assert_int_equal(mlagen_outputs_add(&o, "a", "x", 1, &d), MLAGEN_OK);
    assert_int_equal(mlagen_outputs_add(&o, "a", "x", 1, &d), MLAGEN_TEMPLATE);
    assert_diags(&d, "a: error: two outputs of this name\n");
    assert_int_equal(mlagen_outputs_add(&o, "../a", "x", 1, &d),
                     MLAGEN_TEMPLATE);
    assert_diags(&d, "../a: error: not a name for an output file\n");
    assert_int_equal(o.count, 1);
    mlagen_outputs_free(&o);
}

/* Opening and comparing, with every request for memory refused in turn; over a
 * journal, because jansson's parser does not notice all refusals. */
static enum mlagen_status open_and_compare(struct mlagen_diags *d) {
    struct mlagen_outputs o = {0};
    struct mlagen_changes changes = {0};
    struct mlagen_folder f;
    enum mlagen_status status = mlagen_folder_open(target, false, &f, d);
    if (status != MLAGEN_OK)
        return status;
    status = mlagen_outputs_add(&o, "model.h", "third\n", 6, d);
    if (status == MLAGEN_OK)
        status = mlagen_folder_compare(&f, &o, &changes, d);
    if (status == MLAGEN_OK)
        assert_int_equal(changes.count, 4); /* 1 change, 3 removals */
    mlagen_folder_close(&f);
    mlagen_changes_free(&changes);
    mlagen_outputs_free(&o);
    return status;
}

static void a_folder_survives_no_memory(void **state) {
    (void)state;
    struct mlagen_outputs o;
    char journal[1024] = "";
    must_publish(first, 5);
    make_generation(first, &o);
    for (size_t i = 0; i + 1 < o.count; i++) {
        size_t n = strlen(journal);
        snprintf(journal + n, sizeof journal - n, "%s %s\n", o.items[i].sha256,
                 o.items[i].path);
    }
    mlagen_outputs_free(&o);
    put_file(MLAGEN_JOURNAL, journal);
    assert_int_equal(unlink(in_target(MLAGEN_MANIFEST)), 0);
    assert_survives_no_memory(open_and_compare);
}

int main(void) {
#define WITH_FOLDER(f)                                                         \
    cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(a_second_run_changes_nothing),
        WITH_FOLDER(the_next_generation_replaces_adds_and_removes),
        WITH_FOLDER(a_first_run_may_die_anywhere),
        WITH_FOLDER(a_later_run_may_die_anywhere),
        WITH_FOLDER(a_repairing_run_may_die_anywhere),
        WITH_FOLDER(any_call_may_fail),
        WITH_FOLDER(a_full_disk_leaves_the_generation_before),
        WITH_FOLDER(what_is_not_ours_is_left_alone),
        WITH_FOLDER(an_edited_stale_file_is_reported_and_kept),
        WITH_FOLDER(a_folder_is_one_writers_at_a_time),
        WITH_FOLDER(a_single_file_is_written_once),
        cmocka_unit_test(names_that_leave_the_folder_are_refused),
        cmocka_unit_test(one_name_is_one_file),
        WITH_FOLDER(a_folder_survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
