/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_template.c: any bytes as a template.
 *
 * It compiles or gives one error with its line; run in the sandbox under small
 * limits it gives text or an error, and the same one when run again in a fresh
 * host; the map of origins has one entry for each emitted line.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lua_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                     \
    do {                                                                       \
        if (!(condition))                                                      \
            abort();                                                           \
    } while (0)

static void compile_only(const uint8_t *data, size_t size) {
    struct mlagen_diags d = {0};
    struct mlagen_template *t;
    enum mlagen_status status =
        mlagen_template_compile((const char *)data, size, "t", &t, &d);
    REQUIRE((status == MLAGEN_OK) == (t != NULL));
    REQUIRE(d.count == (t ? 0 : 1));
    if (t) {
        size_t lines = 0;
        for (size_t i = 0; i < t->lua.len; i++)
            lines += t->lua.data[i] == '\n';
        REQUIRE(lines == t->count);
    } else {
        REQUIRE(d.items[0].where.line && d.items[0].where.col);
    }
    mlagen_template_free(t);
    mlagen_diags_free(&d);
}

/* Renders in a host of its own; appends the text, or the diagnostics. */
static void render(const struct mlagen_tree *tree, const json_t *params,
                   struct mlagen_buf *out) {
    const struct mlagen_limits limits = {(size_t)4 << 20, 100000};
    struct mlagen_diags d = {0};
    struct mlagen_host *host;
    struct mlagen_linemap map;
    REQUIRE(!mlagen_host_new(tree, &limits, &host, &d));
    if (mlagen_host_render(host, "t.tpl", params, out, &map, &d)) {
        REQUIRE(d.errors == 1);
        mlagen_diags_text(&d, MLAGEN_DIAG_GNU, out);
    } else {
        size_t lines = 0;
        for (size_t i = 0; i < out->len; i++)
            lines += out->data[i] == '\n';
        REQUIRE(lines == map.count && d.count == 0);
    }
    mlagen_linemap_free(&map);
    mlagen_diags_free(&d);
    mlagen_host_free(host);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct mlagen_embedded table[] = {{"templates/t.tpl", data, size}};
    struct mlagen_diags d = {0};
    struct mlagen_tree *tree;
    struct mlagen_buf out[2] = {{0}};
    compile_only(data, size);
    REQUIRE(!mlagen_tree_of(table, 1, &tree, &d));
    json_t *params = json_pack("{s:i,s:s,s:[i,i],s:n,s:f}", "x", 3, "s",
                               "two\nlines", "t", 1, 2, "none", "r", 0.5);
    for (int i = 0; i < 2; i++)
        render(tree, params, &out[i]);
    REQUIRE(out[0].len == out[1].len &&
            !memcmp(mlagen_buf_text(&out[0]), mlagen_buf_text(&out[1]),
                    out[0].len));
    json_decref(params);
    mlagen_buf_free(&out[0]);
    mlagen_buf_free(&out[1]);
    mlagen_tree_free(tree);
    return 0;
}
