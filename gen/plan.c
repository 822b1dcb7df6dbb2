/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.c: the second stage: templates/plan makes one table of integers per
 * kernel, and this file checks the few fields that the generator itself reads,
 * so that a later stage may take them for granted.
 */
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "arch.h"
#include "context.h"
#include "crew.h"
#include "manifest.h"

/* Fields of a plan that gen reads; all texts. */
static const char *const plan_fields[] = {"symbol", "arch", "source",
                                          "family"};

/* A plan that lacks one of them is a fault of the template set, not of
 * the spec. */
static enum mlagen_status check_plan(const json_t *plan,
                                     struct mlagen_diags *d)
{
    const char *symbol = mlagen_json_text(plan, "symbol");
    struct mlagen_arch arch;

    for (size_t i = 0; i < sizeof plan_fields / sizeof *plan_fields; i++)
        if (!json_is_string(json_object_get(plan, plan_fields[i]))) {
            mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){0},
                        "plan '%s' has no text '%s'", symbol, plan_fields[i]);
            return MLAGEN_TEMPLATE;
        }
    if (mlagen_arch_parse(mlagen_json_text(plan, "arch"), &arch))
        return MLAGEN_OK;
    mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){0},
                "plan '%s': '%s' is no architecture", symbol,
                mlagen_json_text(plan, "arch"));
    return MLAGEN_TEMPLATE;
}

/* --symbol-prefix goes before every symbol, and with it into the names of the
 * sources, which carry the symbol. */
static enum mlagen_status add_prefix(json_t *plan, const char *prefix,
                                     struct mlagen_diags *d)
{
    json_t *symbol =
        json_sprintf("%s%s", prefix, mlagen_json_text(plan, "symbol"));
    json_t *source =
        symbol ? json_sprintf("src/%s.cu", json_string_value(symbol)) : NULL;
    int failed = json_object_set_new(plan, "symbol", symbol);

    failed |= json_object_set_new(plan, "source", source);
    return failed ? mlagen_no_memory(d) : MLAGEN_OK;
}

/* --- planning ------------------------------------------------------------ */

/* A second host loads the planners again, which takes as long as to plan for
 * two architectures. */
enum { ARCHS_PER_HOST = 2 };

struct planning {
    const struct mlagen *g;
    json_t *archs;  /* names, of the spec */
    json_t **plans; /* of each of them */
};

/* The plans of one architecture: those of a spec that asks for no other. */
static enum mlagen_status plan_arch(void *user, struct mlagen_host *host,
                                    size_t index, struct mlagen_diags *d)
{
    struct planning *p = user;
    json_t *spec = json_copy(p->g->spec);
    json_t *one = json_pack("[O]", json_array_get(p->archs, index));
    json_t *args[] = {spec, p->g->archs};
    bool failed = !spec || json_object_set_new(spec, "arch", one);
    enum mlagen_status status = MLAGEN_OK;

    json_decref(p->plans[index]);
    p->plans[index] = NULL;
    if (failed)
        status = mlagen_no_memory(d);
    else
        status = mlagen_host_call(host, "kernels", args, 2, &p->plans[index],
                                  d);
    json_decref(spec);
    return status;
}

/* The plans of all architectures, in the order of the spec. */
static enum mlagen_status plan_archs(struct mlagen *g, struct mlagen_diags *d)
{
    struct planning p = {g, json_object_get(g->spec, "arch"), NULL};
    size_t count = json_array_size(p.archs);
    enum mlagen_status status;

    g->plans = json_array();
    p.plans = mlagen_calloc(count, sizeof *p.plans);
    status = g->plans && p.plans
                 ? mlagen_crew_run(g, count, ARCHS_PER_HOST, plan_arch, &p, d)
                 : mlagen_no_memory(d);
    for (size_t i = 0; p.plans && i < count; i++) {
        if (status == MLAGEN_OK && json_array_extend(g->plans, p.plans[i]))
            status = mlagen_no_memory(d);
        json_decref(p.plans[i]);
    }
    mlagen_free(p.plans);
    return status;
}

/* Plans stay in the context; a fault leaves none. */
enum mlagen_status mlagen_plan(struct mlagen *g, struct mlagen_diags *d)
{
    enum mlagen_status status;
    size_t i;
    json_t *plan;

    if (g->plans)
        return MLAGEN_OK;
    status = plan_archs(g, d);
    if (status == MLAGEN_OK && json_array_size(g->plans) == 0) {
        mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){0},
                    "no kernel is planned for this spec");
        status = MLAGEN_TEMPLATE;
    }
    json_array_foreach(g->plans, i, plan)
    {
        if (status == MLAGEN_OK)
            status = check_plan(plan, d);
        if (status == MLAGEN_OK && g->options.symbol_prefix)
            status = add_prefix(plan, g->options.symbol_prefix, d);
    }
    if (status != MLAGEN_OK) {
        json_decref(g->plans);
        g->plans = NULL;
    }
    return status;
}

char *mlagen_cubin_path(const json_t *plan)
{
    struct mlagen_buf path = {0};

    mlagen_buf_printf(&path, "cubin/%s.cubin",
                      mlagen_json_text(plan, "symbol"));
    if (path.failed)
        mlagen_buf_free(&path);
    return path.data;
}

/* --- describing -----------------------------------------------------------
 */

/* The lines that a Lua function returned for people. */
static void add_lines(const json_t *object, struct mlagen_buf *out)
{
    size_t i;
    json_t *line;

    json_array_foreach(json_object_get(object, "lines"), i, line)
        mlagen_buf_printf(out, "%s\n", json_string_value(line));
}

/* {"analysis": ..., "kernels": [...]} */
static enum mlagen_status describe_json(json_t *analysis, json_t *plans,
                                        struct mlagen_buf *out,
                                        struct mlagen_diags *d)
{
    json_t *all =
        json_pack("{s:O?,s:O}", "analysis", json_object_get(analysis, "data"),
                  "kernels", plans);
    enum mlagen_status status =
        all ? mlagen_json_print(all, out, d) : mlagen_no_memory(d);

    json_decref(all);
    return status;
}

/* analyse() is about the model, describe() about the plans; the JSON has the
 * plans themselves. */
enum mlagen_status mlagen_describe(struct mlagen *g, bool json,
                                   struct mlagen_buf *out,
                                   struct mlagen_diags *d)
{
    json_t *analysis = NULL, *table = NULL;
    enum mlagen_status status = mlagen_plan(g, d);

    if (status == MLAGEN_OK)
        status =
            mlagen_host_call(g->host, "analyse", &g->spec, 1, &analysis, d);
    if (status == MLAGEN_OK && json) {
        status = describe_json(analysis, g->plans, out, d);
    } else if (status == MLAGEN_OK) {
        status =
            mlagen_host_call(g->host, "describe", &g->plans, 1, &table, d);
        add_lines(analysis, out);
        mlagen_buf_char(out, '\n');
        add_lines(table, out);
    }
    json_decref(analysis);
    json_decref(table);
    return status;
}
