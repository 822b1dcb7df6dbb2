/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_yaml.c: any bytes as a spec, as a config.json and as the value of -D.
 *
 * Whatever comes in, the reader gives a document, or exactly one error with a
 * line and a column; typing and checking give a value or at least one error.
 * Built with clang -fsanitize=fuzzer it searches; with replay.c it runs the
 * corpus.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "schema.h"
#include "source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                     \
    do {                                                                       \
        if (!(condition))                                                      \
            abort();                                                           \
    } while (0)

/* The schema of model specs, from the embedded texts. */
static struct mlagen_schema *load_schema(void) {
    struct mlagen_diags d = {0};
    struct mlagen_tree *tree;
    struct mlagen_schema *schema;
    REQUIRE(!mlagen_tree_open(NULL, &tree, &d));
    const struct mlagen_text *text =
        mlagen_tree_find(tree, "specs/schema.yaml");
    REQUIRE(text && !mlagen_schema_load(text->data, text->size, text->path,
                                        &schema, &d));
    mlagen_tree_free(tree);
    return schema;
}

/* The texts of a list are one line each. */
static void check_texts(const struct mlagen_diags *d) {
    struct mlagen_buf out = {0};
    size_t lines = 0;
    mlagen_diags_text(d, MLAGEN_DIAG_GNU, &out);
    for (size_t i = 0; i < out.len; i++)
        lines += out.data[i] == '\n';
    REQUIRE(lines == d->count);
    mlagen_buf_free(&out);
}

static void check_value(enum mlagen_status status, json_t *value,
                        struct mlagen_diags *d) {
    REQUIRE((status == MLAGEN_OK) == (value != NULL));
    REQUIRE((status == MLAGEN_OK) == (d->errors == 0));
    check_texts(d);
    json_decref(value);
    mlagen_diags_free(d);
}

/* The same bytes, up to a NUL, as "model=<bytes>". */
static void override(struct mlagen_doc *doc, const uint8_t *data, size_t size) {
    struct mlagen_diags d = {0};
    struct mlagen_buf setting = {0};
    mlagen_buf_str(&setting, "model=");
    mlagen_buf_add(&setting, data, size);
    enum mlagen_status status = mlagen_doc_set(doc, setting.data, &d);
    REQUIRE((status == MLAGEN_OK) == (d.errors == 0));
    mlagen_buf_free(&setting);
    mlagen_diags_free(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct mlagen_schema *schema;
    struct mlagen_diags d = {0};
    struct mlagen_doc *doc;
    json_t *value;
    if (!schema)
        schema = load_schema();
    enum mlagen_status status =
        mlagen_yaml_parse((const char *)data, size, "input", &doc, &d);
    REQUIRE(d.count == (status == MLAGEN_OK ? 0 : 1));
    check_texts(&d);
    if (status) {
        REQUIRE(d.items[0].where.line && d.items[0].where.col);
        mlagen_diags_free(&d);
        return 0;
    }
    status = mlagen_doc_json(doc, &value, &d);
    check_value(status, value, &d);
    status = mlagen_schema_check(schema, doc, &value, &d);
    check_value(status, value, &d);
    override(doc, data, size);
    mlagen_doc_free(doc);
    return 0;
}
