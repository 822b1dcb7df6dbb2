/* SPDX-License-Identifier: Apache-2.0
 *
 * support.h: what the unit tests of gen/ share: comparing diagnostics, trees
 * made of literals, and an allocator that fails on request.
 */
#ifndef TESTS_GEN_SUPPORT_H
#define TESTS_GEN_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "alloc.h"
#include "diag.h"
#include "source.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define UNUSED __attribute__((unused))

/* Makes a new folder and puts its path into `path`. */
static UNUSED void temp_folder(char *path, size_t size) {
    const char *base = getenv("TMPDIR");
    snprintf(path, size, "%s/mlagen-XXXXXX", base ? base : P_tmpdir);
    assert_non_null(mkdtemp(path));
}

/* ---- diagnostics --------------------------------------------------------- */

/* Asserts that the list, as gcc-style text, is exactly `text`; empties it. */
static UNUSED void assert_diags(struct mlagen_diags *d, const char *text) {
    struct mlagen_buf out = {0};
    mlagen_diags_text(d, MLAGEN_DIAG_GNU, &out);
    assert_string_equal(mlagen_buf_text(&out), text);
    mlagen_buf_free(&out);
    mlagen_diags_free(d);
}

/* The same for the first line only. */
static UNUSED void assert_first_diag(struct mlagen_diags *d, const char *text) {
    struct mlagen_buf out = {0};
    mlagen_diags_text(d, MLAGEN_DIAG_GNU, &out);
    if (out.len)
        *strchr(out.data, '\n') = '\0';
    assert_string_equal(mlagen_buf_text(&out), text);
    mlagen_buf_free(&out);
    mlagen_diags_free(d);
}

/* ---- trees --------------------------------------------------------------- */

/* A literal as data and size of a struct mlagen_embedded. */
#define BYTES(literal) (const unsigned char *)(literal), sizeof(literal) - 1

/* A tree of (path, text) pairs, ended by NULL; the table is the caller's. */
static UNUSED struct mlagen_tree *make_tree(struct mlagen_embedded *table,
                                            const char *const *pairs) {
    struct mlagen_diags d = {0};
    struct mlagen_tree *tree;
    size_t n = 0;
    for (; pairs[2 * n]; n++)
        table[n] = (struct mlagen_embedded){
            pairs[2 * n], (const unsigned char *)pairs[2 * n + 1],
            strlen(pairs[2 * n + 1])};
    assert_int_equal(mlagen_tree_of(table, n, &tree, &d), MLAGEN_OK);
    assert_diags(&d, "");
    return tree;
}

/* ---- an allocator that fails --------------------------------------------- */

/* Fails request number `fail_at` (1-based; 0: none), and with `for_good` every
 * one after it.  `live` counts blocks not yet freed. */
static struct {
    size_t requests, fail_at, live;
    bool for_good;
} failing;

static bool failing_says_no(void) {
    failing.requests++;
    return failing.fail_at &&
           (failing.for_good ? failing.requests >= failing.fail_at
                             : failing.requests == failing.fail_at);
}

static UNUSED void *failing_realloc(void *user, void *ptr, size_t size) {
    (void)user;
    if (size == 0) {
        failing.live -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (failing_says_no())
        return NULL;
    void *moved = realloc(ptr, size);
    failing.live += moved && !ptr;
    return moved;
}

static UNUSED void *failing_malloc(size_t size) {
    return failing_realloc(NULL, NULL, size ? size : 1);
}

static UNUSED void failing_free(void *ptr) {
    failing_realloc(NULL, ptr, 0);
}

/* Runs `body` once for each request that it makes, failing that request, until
 * it gets through; then again with every later request failing too.  The body
 * frees all it gets and returns its status: MLAGEN_OK with the right result, or
 * MLAGEN_INTERNAL with the word of it in `d`.  Nothing may leak. */
static UNUSED void
assert_survives_no_memory(enum mlagen_status (*body)(struct mlagen_diags *d)) {
    mlagen_set_allocator(failing_realloc, NULL);
    json_set_alloc_funcs(failing_malloc, failing_free);
    for (int for_good = 0; for_good < 2; for_good++) {
        bool hit = true;
        size_t refused = 0;
        for (size_t n = 1; hit; n++) {
            struct mlagen_diags d = {0};
            failing.requests = failing.live = 0;
            failing.fail_at = n;
            failing.for_good = for_good;
            enum mlagen_status status = body(&d);
            hit = failing.requests >= n;
            if (status == MLAGEN_INTERNAL) {
                assert_true(hit);
                assert_true(d.errors > 0);
                refused++;
            } else {
                assert_diags(&d, "");
                assert_int_equal(status, MLAGEN_OK);
            }
            mlagen_diags_free(&d);
            assert_int_equal(failing.live, 0);
        }
        assert_true(refused > 0);
    }
    mlagen_set_allocator(NULL, NULL);
    json_set_alloc_funcs(malloc, free);
}

#endif
