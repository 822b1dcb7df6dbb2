/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_suite.c: running the cases of the decode kernels, a row per group.
 *
 * mqa_decode's cases run the whole step, with the decode_plan and mqa_combine
 * that a user of the same head count and page size would get.
 * decode_plan and mqa_combine have cases of their own besides, without the
 * other two.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "internal.h"
#include "json.h"

/* Finding ----------------------------------------------------------------- */

/* The kernel of a family that a user of the same heads and page size gets;
 * NULL, or what is wrong. */
static const char *find_one(struct num_device *d, const char *family,
                            const struct num_subject *like,
                            struct num_subject *out)
{
    mla_kernel *k;
    int i = 0;

    if (mla_find(d->set, family, "", like->info.heads, like->info.page_size,
                 &k))
        return mla_last_error(d->ctx);
    /* Its place in the directory: subjects are found by that. */
    while (mla_kernels_at(d->set, i) != k)
        i++;
    return num_subject_read(d->ctx, d->set, i, like->model, out);
}

/* The kernel's object in the manifest. */
static const struct mla__json *manifest_entry(struct mla__json *root,
                                              const char *symbol)
{
    const struct mla__json *list = mla__json_get(root, "kernels"), *name;

    for (const struct mla__json *k = list ? list->child : NULL; k;
         k = k->next) {
        name = mla__json_get(k, "symbol");
        if (name && name->string && strcmp(name->string, symbol) == 0)
            return k;
    }
    return NULL;
}

/* The tile is free-form in the manifest, and the runtime hands out m and n
 * only; hence the look into the text itself. */
int decode_tile_number(const struct num_subject *s, const char *key)
{
    char *copy = strdup(mla_kernels_manifest(s->kernel->owner));
    struct mla__json *root = NULL;
    struct mla__json_error error;
    const struct mla__json *value = NULL;
    int number = 0;

    if (copy && mla__json_parse(s->ctx, copy, &root, &error) == MLA_OK)
        value = mla__json_get(
            mla__json_get(manifest_entry(root, s->info.symbol), "tile"), key);
    if (value)
        number = (int)value->integer;
    mla__json_free(s->ctx, root);
    free(copy);
    return number;
}

const char *decode_kernels_find(struct num_device *d, int index,
                                const struct num_model *model,
                                struct decode_kernels *out)
{
    const char *wrong = num_subject_read(d->ctx, d->set, index, model,
                                         &out->decode);

    if (!wrong)
        wrong = find_one(d, "decode_plan", &out->decode, &out->plan);
    if (!wrong)
        wrong = find_one(d, "mqa_combine", &out->decode, &out->combine);
    if (wrong)
        return wrong;
    out->rows = decode_tile_number(&out->decode, "m");
    out->keys = decode_tile_number(&out->decode, "n");
    return out->rows && out->keys ? NULL
                                  : "the manifest's tile has no m and n";
}

/* Groups ------------------------------------------------------------------ */

/* What a kernel's cases are made of and with: a table of shapes, behind
 * functions because the shapes are of three types, and how to make and free a
 * case of one. */
struct table {
    const struct num_family *family;
    const int *count;
    const char *(*group)(int i);
    bool (*is_full_only)(int i);
    struct num_case *(*make)(const struct decode_kernels *k, int i,
                             uint64_t seed);
    void (*free)(struct num_case *c);
};

/* The three tables have rows of different types; these read what they share. */
#define TABLE_ACCESS(name, table)                                            \
    static const char *name##_group(int i)                                   \
    {                                                                        \
        return table[i].group;                                               \
    }                                                                        \
    static bool name##_is_full_only(int i)                                   \
    {                                                                        \
        return table[i].full_only;                                           \
    }
TABLE_ACCESS(step, decode_shapes)
TABLE_ACCESS(list, decode_list_shapes)
TABLE_ACCESS(merge, decode_merge_shapes)

/* The `make` of each table. */
static struct num_case *make_step(const struct decode_kernels *k, int i,
                                  uint64_t seed)
{
    return decode_case_make(k, &decode_shapes[i], seed);
}

static struct num_case *make_list(const struct decode_kernels *k, int i,
                                  uint64_t seed)
{
    return decode_list_make(&k->plan, &decode_list_shapes[i], seed);
}

static struct num_case *make_merge(const struct decode_kernels *k, int i,
                                   uint64_t seed)
{
    return decode_merge_make(&k->combine, &decode_merge_shapes[i], seed);
}

/* Whether the subject is found again in a new context after a failure. */
static bool find(struct num_device *d, struct num_subject *s,
                 const struct table *t, struct decode_kernels *k,
                 struct num_verdict *v)
{
    const char *wrong = NULL;

    if (!num_recover(d, s, v))
        return false;
    /* A step needs its two companions, too. */
    if (t->make == make_step)
        wrong = decode_kernels_find(d, s->index, s->model, k);
    k->plan = t->make == make_list ? *s : k->plan;
    k->combine = t->make == make_merge ? *s : k->combine;
    if (wrong) {
        v->failures++;
        snprintf(v->why, sizeof(v->why), "%s", wrong);
    }
    return !wrong;
}

/* The cases first .. end - 1, and their row.  A group that is left out whole
 * has no row. */
static void run_group(struct num_device *d, struct num_subject *s,
                      const struct table *t, int first, int end,
                      const struct num_options *o, struct num_totals *totals)
{
    struct num_verdict v = {0};
    struct decode_kernels k;

    for (int i = first; i < end; i++) {
        struct num_case *c;
        if (t->is_full_only(i) && !o->full)
            continue;
        if (!find(d, s, t, &k, &v))
            break;
        c = t->make(&k, i, num_case_seed(s, o, i));
        num_check_case(d, c, o->schedules, &v);
        t->free(c);
    }
    if (v.cases || v.failures)
        num_report_group(s->info.symbol, t->group(first), t->family->bar, &v,
                         o, totals);
}

/* Calls that must be refused, and calls without work: a batch of none, with
 * and without addresses. */
static void check_empty(struct num_device *d, struct num_case *c,
                        struct num_verdict *v)
{
    struct num_run run = {NUM_POISON_NAN, 0, 0, 0, true, true};
    uint64_t nowhere[NUM_MAX_TENSORS] = {0};

    for (int i = 0; i < c->ints; i++)
        if (strcmp(c->integer[i].name, "batch") == 0)
            c->integer[i].value = 0;
    v->cases += 2;
    num_run_once(d, c, &run, v);
    if (!v->failures)
        num_launch(d, c, &run, nowhere, NULL, v);
}

/* One case, one function, as in suite.c. */
static void run_special(struct num_device *d, struct num_subject *s,
                        const struct table *t, const char *group,
                        void (*check)(struct num_device *, struct num_case *,
                                      struct num_verdict *),
                        const struct num_options *o,
                        struct num_totals *totals)
{
    struct num_verdict v = {0};
    struct decode_kernels k;

    if (find(d, s, t, &k, &v)) {
        struct num_case *c = t->make(&k, 0, num_case_seed(s, o, -1));
        check(d, c, &v);
        t->free(c);
    }
    num_report_group(s->info.symbol, group, "refused or untouched", &v, o,
                     totals);
}

static const struct table tables[] = {
    {&decode_pipeline, &decode_shape_count, step_group, step_is_full_only,
     make_step, decode_case_free},
    {&decode_list, &decode_list_shape_count, list_group, list_is_full_only,
     make_list, decode_list_free},
    {&decode_merge, &decode_merge_shape_count, merge_group,
     merge_is_full_only, make_merge, decode_merge_free},
};
enum { TABLES = sizeof(tables) / sizeof(tables[0]) };

/* Groups are neighbours of one name in a table. */
bool decode_suite_run(struct num_device *d, struct num_subject *s,
                      const struct num_options *o, struct num_totals *totals)
{
    const struct table *t = tables;
    int end;

    while (t < tables + TABLES && strcmp(t->family->name, s->info.family))
        t++;
    if (t == tables + TABLES)
        return false;
    for (int i = 0; i < *t->count; i = end) {
        num_report_progress(s->info.symbol, t->group(i), i, *t->count, o);
        for (end = i + 1; end < *t->count; end++)
            if (strcmp(t->group(end), t->group(i)))
                break;
        run_group(d, s, t, i, end, o, totals);
    }
    run_special(d, s, t, "no requests", check_empty, o, totals);
    run_special(d, s, t, "refusals", num_check_refusals, o, totals);
    return true;
}
