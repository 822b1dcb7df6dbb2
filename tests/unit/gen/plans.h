/* SPDX-License-Identifier: Apache-2.0
 *
 * plans.h: what the tests of the planners share: the plans of a spec, and how
 * to look into one.
 */
#ifndef TESTS_GEN_PLANS_H
#define TESTS_GEN_PLANS_H

#include "support.h"

#include "mlagen.h"

/* The kernels array of `mlagen plan --json` of a spec, which is freed; a new
 * reference. */
static UNUSED json_t *plans_of_spec(char *spec) {
    struct mlagen_options o = {.size = sizeof o};
    struct mlagen_diags d = {0};
    struct mlagen_buf out = {0};
    struct mlagen *m;
    json_t *all, *kernels;

    assert_int_equal(mlagen_open(&o, &m, &d), MLAGEN_OK);
    assert_int_equal(mlagen_load_text(m, spec, strlen(spec), "some.yaml", &d),
                     MLAGEN_OK);
    assert_int_equal(mlagen_describe(m, true, &out, &d), MLAGEN_OK);
    assert_diags(&d, "");
    all = json_loadb(out.data, out.len, 0, NULL);
    assert_non_null(all);
    kernels = json_incref(json_object_get(all, "kernels"));
    assert_true(json_array_size(kernels) > 0);
    json_decref(all);
    mlagen_buf_free(&out);
    mlagen_close(m);
    free(spec);
    return kernels;
}

static UNUSED const char *text(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    assert_non_null(s);
    return s;
}

static UNUSED int number(const json_t *o, const char *key) {
    const json_t *n = json_object_get(o, key);
    assert_true(json_is_integer(n));
    return (int)json_integer_value(n);
}

/* The first plan of a family's variant, or NULL. */
static UNUSED json_t *plan_of(const json_t *kernels, const char *family,
                              const char *variant) {
    json_t *plan;
    size_t i;
    json_array_foreach((json_t *)kernels, i, plan) {
        if (!strcmp(text(plan, "family"), family) &&
            !strcmp(text(plan, "variant"), variant))
            return plan;
    }
    return NULL;
}

static UNUSED const json_t *tile_of(const json_t *plan) {
    const json_t *tile = json_object_get(plan, "tile");
    assert_non_null(tile);
    return tile;
}

#endif
