/* SPDX-License-Identifier: Apache-2.0
 *
 * test_source.c: the set of texts, its hash, and reading files.
 */
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lua_host.h"
#include "support.h"

/* ---- a folder on disk ---------------------------------------------------- */

static char folder[256];

static int make_folder(void **state) {
    (void)state;
    temp_folder(folder, sizeof folder);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *walk) {
    (void)st, (void)type, (void)walk;
    return remove(path);
}

static int remove_folder(void **state) {
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *in_folder(const char *name) {
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put_file(const char *name, const char *text) {
    FILE *out = fopen(in_folder(name), "wb");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

/* ---- hashes -------------------------------------------------------------- */

static void sha256_is_the_standards(void **state) {
    (void)state;
    char hex[MLAGEN_HASH_HEX];
    mlagen_sha256("abc", 3, hex); /* FIPS 180-2, appendix B.1 */
    assert_string_equal(
        hex,
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    mlagen_sha256("", 0, hex);
    assert_string_equal(
        hex,
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

/* Expected values: sha256 over struct.pack("<Q", len) + bytes, in Python. */
static void lengths_keep_neighbouring_texts_apart(void **state) {
    (void)state;
    static const struct {
        const char *a, *b, *hex;
    } cases[] = {
        {"ab", "c",
         "43ee655579de01ca739b3f95c1c2d3f46d353b2c0df818064ea594506cdb2617"},
        {"a", "bc",
         "9a8acca1b6c6c0befd3fbc756aed625da998c998f7252e738c4ef061906b9b21"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char hex[MLAGEN_HASH_HEX];
        struct mlagen_hash h;
        mlagen_hash_init(&h);
        mlagen_hash_add(&h, cases[i].a, strlen(cases[i].a));
        mlagen_hash_add(&h, cases[i].b, strlen(cases[i].b));
        mlagen_hash_end(&h, hex);
        assert_string_equal(hex, cases[i].hex);
    }
}

static void tree_hash(const char *const *pairs, char hex[MLAGEN_HASH_HEX]) {
    struct mlagen_embedded table[8];
    struct mlagen_tree *tree = make_tree(table, pairs);
    mlagen_tree_hash(tree, hex);
    mlagen_tree_free(tree);
}

static void template_hash_covers_what_shapes_the_output(void **state) {
    (void)state;
    char hex[MLAGEN_HASH_HEX];
    const char *const base[] = {"specs/arch.yaml",
                                "a: 1\n",
                                "specs/schema.yaml",
                                "s\n",
                                "templates/main.lua",
                                "return {}\n",
                                NULL};
    const char *const with_model[] = {"templates/main.lua",
                                      "return {}\n",
                                      "specs/schema.yaml",
                                      "s\n",
                                      "specs/deepseek.yaml",
                                      "m\n",
                                      "specs/arch.yaml",
                                      "a: 1\n",
                                      NULL};
    const char *const other_arch[] = {"specs/arch.yaml",
                                      "a: 2\n",
                                      "specs/schema.yaml",
                                      "s\n",
                                      "templates/main.lua",
                                      "return {}\n",
                                      NULL};
    static const char right[] =
        "7922ead7e47918c835543206118a37f9b3533ed9216c457e579bad90fbc09a56";
    tree_hash(base, hex);
    assert_string_equal(hex, right);
    tree_hash(with_model, hex); /* other order, and a model's spec more */
    assert_string_equal(hex, right);
    tree_hash(other_arch, hex);
    assert_string_not_equal(hex, right);
}

/* ---- trees --------------------------------------------------------------- */

static void embedded_texts_are_sorted_and_found(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_tree *tree;
    assert_int_equal(mlagen_tree_open(NULL, &tree, &d), MLAGEN_OK);
    size_t count = mlagen_tree_count(tree);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        const struct mlagen_text *text = mlagen_tree_at(tree, i);
        assert_ptr_equal(mlagen_tree_find(tree, text->path), text);
        if (i)
            assert_true(strcmp(mlagen_tree_at(tree, i - 1)->path, text->path) <
                        0);
    }
    assert_non_null(mlagen_tree_find(tree, "templates/main.lua"));
    assert_non_null(mlagen_tree_find(tree, "specs/schema.yaml"));
    assert_null(mlagen_tree_find(tree, "templates/main"));
    assert_null(mlagen_tree_find(tree, "templates/../specs/schema.yaml"));
    mlagen_tree_free(tree);
}

static void a_folder_replaces_all_templates_and_no_spec(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_tree *tree;
    mkdir(in_folder("kernel"), 0777);
    mkdir(in_folder(".git"), 0777);
    put_file("kernel/only.cu.tpl", "text\n");
    put_file("kernel/.hidden.tpl", "no\n");
    put_file(".git/x.lua", "no\n");
    put_file("README.md", "no\n");
    assert_int_equal(mlagen_tree_open(folder, &tree, &d), MLAGEN_OK);
    size_t templates = 0;
    for (size_t i = 0; i < mlagen_tree_count(tree); i++)
        templates += !strncmp(mlagen_tree_at(tree, i)->path, "templates/", 10);
    assert_int_equal(templates, 1);
    const struct mlagen_text *text =
        mlagen_tree_find(tree, "templates/kernel/only.cu.tpl");
    assert_non_null(text);
    assert_string_equal(text->shown, in_folder("kernel/only.cu.tpl"));
    assert_int_equal(text->size, 5);
    assert_non_null(mlagen_tree_find(tree, "specs/schema.yaml"));
    mlagen_tree_free(tree);
}

static void a_folder_with_the_same_texts_has_the_same_hash(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_tree *embedded, *copy;
    char a[MLAGEN_HASH_HEX], b[MLAGEN_HASH_HEX];
    assert_int_equal(mlagen_tree_open(NULL, &embedded, &d), MLAGEN_OK);
    for (size_t i = 0; i < mlagen_tree_count(embedded); i++) {
        const struct mlagen_text *text = mlagen_tree_at(embedded, i);
        char name[256];
        if (strncmp(text->path, "templates/", 10))
            continue;
        snprintf(name, sizeof name, "%s", text->path + 10);
        for (char *p = name; (p = strchr(p, '/')); *p++ = '/') {
            *p = '\0';
            mkdir(in_folder(name), 0777);
        }
        FILE *out = fopen(in_folder(name), "wb");
        assert_non_null(out);
        assert_int_equal(fwrite(text->data, 1, text->size, out), text->size);
        fclose(out);
    }
    assert_int_equal(mlagen_tree_open(folder, &copy, &d), MLAGEN_OK);
    mlagen_tree_hash(embedded, a);
    mlagen_tree_hash(copy, b);
    assert_string_equal(a, b);
    mlagen_tree_free(embedded);
    mlagen_tree_free(copy);
}

static void a_fault_in_a_folders_template_names_the_file_on_disk(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_tree *tree;
    struct mlagen_host *host;
    struct mlagen_buf out = {0};
    char text[800], dir[300];
    json_t *params = json_object();
    put_file("t.tpl", "x\n${nil}\n");
    snprintf(dir, sizeof dir, "%s/", folder);
    assert_int_equal(mlagen_tree_open(dir, &tree, &d), MLAGEN_OK);
    assert_int_equal(mlagen_host_new(tree, NULL, &host, &d), MLAGEN_OK);
    assert_int_equal(mlagen_host_render(host, "t.tpl", params, &out, NULL, &d),
                     MLAGEN_TEMPLATE);
    snprintf(text, sizeof text,
             "%s:2: error: ${nil} is a nil: only strings and integers become "
             "text",
             in_folder("t.tpl"));
    assert_first_diag(&d, text);
    json_decref(params);
    mlagen_host_free(host);
    mlagen_tree_free(tree);
}

static void an_unreadable_folder_or_file_is_named(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_tree *tree;
    assert_int_equal(mlagen_tree_open("/nonexistent/x", &tree, &d), MLAGEN_IO);
    assert_null(tree);
    assert_diags(&d, "/nonexistent/x: error: No such file or directory\n");
    assert_int_equal(symlink("nowhere", in_folder("gone.lua")), 0);
    assert_int_equal(mlagen_tree_open(folder, &tree, &d), MLAGEN_IO);
    char text[800];
    snprintf(text, sizeof text, "%s: error: No such file or directory\n",
             in_folder("gone.lua"));
    assert_diags(&d, text);
}

static void folders_that_nest_without_end_are_refused(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_tree *tree;
    assert_int_equal(symlink(".", in_folder("loop")), 0);
    assert_int_equal(mlagen_tree_open(folder, &tree, &d), MLAGEN_IO);
    assert_int_equal(d.errors, 1);
    assert_string_equal(d.items[0].message, "folders nest deeper than 16");
    mlagen_diags_free(&d);
}

/* ---- files --------------------------------------------------------------- */

static void a_file_is_read_whole_up_to_the_limit(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_buf out = {0};
    put_file("f", "0123456789");
    assert_int_equal(mlagen_read_file(in_folder("f"), 10, &out, &d), MLAGEN_OK);
    assert_string_equal(out.data, "0123456789");
    mlagen_buf_clear(&out);
    assert_int_equal(mlagen_read_file(in_folder("f"), 9, &out, &d), MLAGEN_IO);
    char text[800];
    snprintf(text, sizeof text, "%s: error: larger than the limit of 9 bytes\n",
             in_folder("f"));
    assert_diags(&d, text);
    assert_int_equal(mlagen_read_file(folder, 9, &out, &d), MLAGEN_IO);
    snprintf(text, sizeof text, "%s: error: Is a directory\n", folder);
    assert_diags(&d, text);
    mlagen_buf_free(&out);
}

/* ---- out of memory ------------------------------------------------------- */

static enum mlagen_status open_and_close(struct mlagen_diags *d) {
    struct mlagen_tree *tree;
    enum mlagen_status status = mlagen_tree_open(folder, &tree, d);
    assert_true((tree == NULL) == (status != MLAGEN_OK));
    mlagen_tree_free(tree);
    return status;
}

static void a_tree_survives_no_memory(void **state) {
    (void)state;
    mkdir(in_folder("kernel"), 0777);
    put_file("kernel/a.cu.tpl", "text\n");
    put_file("main.lua", "return {}\n");
    assert_survives_no_memory(open_and_close);
}

int main(void) {
#define WITH_FOLDER(f)                                                         \
    cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_is_the_standards),
        cmocka_unit_test(lengths_keep_neighbouring_texts_apart),
        cmocka_unit_test(template_hash_covers_what_shapes_the_output),
        cmocka_unit_test(embedded_texts_are_sorted_and_found),
        WITH_FOLDER(a_folder_replaces_all_templates_and_no_spec),
        WITH_FOLDER(a_folder_with_the_same_texts_has_the_same_hash),
        WITH_FOLDER(a_fault_in_a_folders_template_names_the_file_on_disk),
        WITH_FOLDER(an_unreadable_folder_or_file_is_named),
        WITH_FOLDER(folders_that_nest_without_end_are_refused),
        WITH_FOLDER(a_file_is_read_whole_up_to_the_limit),
        WITH_FOLDER(a_tree_survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
