/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of docs/dispatch.md are those that the library prints.
 *
 * A line "<!-- table BACKEND [sm=N] [hip=1] -->" is followed by a fenced block
 * with the table of that policy.  UPDATE=1 rewrites the blocks instead.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "mla.h"

static const char page[] = "docs/dispatch.md";
static const char mark[] = "<!-- table ";

/* The whole file, to be freed. */
static char *read_page(void)
{
    FILE *file = fopen(page, "rb");
    char *text = calloc(1, 1 << 18);
    if (!file || !text)
        fail_msg("%s cannot be read; run from the repository's root", page);
    if (fread(text, 1, (1 << 18) - 1, file) == 0 || !feof(file))
        fail_msg("%s is empty or too large", page);
    fclose(file);
    return text;
}

/* The table that a mark asks for, to be freed. */
static char *table_of(mla_context *ctx, const char *line)
{
    mla_policy_options o = MLA_POLICY_OPTIONS_INIT;
    char name[64];
    const char *option;
    mla_policy *policy;
    size_t size;
    char *text;

    assert_int_equal(sscanf(line + strlen(mark), "%63s", name), 1);
    o.prefill = name;
    option = strstr(line, " sm=");
    if (option && option < strchr(line, '\n'))
        o.sm = atoi(option + 4);
    option = strstr(line, " hip=");
    if (option && option < strchr(line, '\n'))
        o.hip = atoi(option + 5);
    assert_int_equal(mla_policy_create(ctx, &o, &policy), MLA_OK);
    size = mla_dispatch_table(policy, NULL, 0) + 1;
    text = malloc(size);
    assert_non_null(text);
    assert_int_equal(mla_dispatch_table(policy, text, size), size - 1);
    mla_policy_free(policy);
    return text;
}

/* The page with every block as it should be, to be freed. */
static char *rendered(mla_context *ctx, const char *at)
{
    char *out = calloc(1, 1 << 19), *to = out;
    assert_non_null(out);
    while (*at) {
        const char *end = strchr(at, '\n') + 1;
        bool marked = !strncmp(at, mark, strlen(mark));
        memcpy(to, at, (size_t)(end - at));
        to += end - at;
        if (marked) {
            char *table = table_of(ctx, at);
            to += sprintf(to, "```text\n%s```\n", table);
            free(table);
            if (!strncmp(end, "```", 3)) /* the old block */
                end = strchr(strstr(end + 3, "\n```"), '\n') + 5;
        }
        at = end;
    }
    return out;
}

static void tables_in_the_docs_are_current(void **state)
{
    mla_context *ctx;
    char *now = read_page(), *want;
    (void)state;

    assert_int_equal(mla_context_create(NULL, &ctx), MLA_OK);
    want = rendered(ctx, now);
    if (getenv("UPDATE")) {
        FILE *file = fopen(page, "wb");
        assert_non_null(file);
        fputs(want, file);
        assert_int_equal(fclose(file), 0);
    } else {
        assert_string_equal(now, want);
    }
    free(now);
    free(want);
    mla_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_in_the_docs_are_current),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
