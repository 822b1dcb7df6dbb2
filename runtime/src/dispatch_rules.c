/* SPDX-License-Identifier: Apache-2.0
 *
 * dispatch_rules.c: which rules each backend goes by.
 *
 * The rules are those of SGLang at the snapshot that
 * facts/serving-semantics.md section 1 describes, threshold by threshold,
 * the odd ones included: a policy promises to choose as that engine does.
 * One thing is not copied: a backend that is not in the table is an error,
 * never a silent fall-back to another one's rules.
 */
#include <string.h>

#include "dispatch.h"

/* Short names, so that a rule stays on two lines. */
#define CAPTURED MLA__CAPTURED
#define PLAIN MLA__PLAIN
#define NO_PREFIX MLA__NO_PREFIX
#define LONG_PREFIX MLA__LONG_PREFIX
#define CHUNKED_OFF MLA__CHUNKED_OFF
#define RAGGED_OFF MLA__RAGGED_OFF
#define FITS MLA__FITS
#define ALWAYS 0
#define SUB MLA__SUBSTITUTE
#define METHOD(name) MLA_METHOD_##name
#define END                                                                   \
    {                                                                         \
        0, 0, 0, NULL                                                         \
    }

/* Lists that backends are put together from ------------------------------- */

/* Deterministic inference is absorbed throughout, with backends that have it
 * (others are refused when a policy is made). */
static const struct mla__rule determinism[] = {
    {MLA__DETERMINISTIC, 0, SUB, "deterministic inference"}, END};

/* fa4 on other devices: unconditionally, decode included. */
static const struct mla__rule other_than_sm100[] = {
    {ALWAYS, MLA__SM100, METHOD(MHA_CHUNKED_KV),
     "this device has the expanded form only"},
    END};

/* Rows 1 and 2 of the common rules (serving-semantics section 1.4). */
static const struct mla__rule graphs[] = {
    {CAPTURED, 0, METHOD(MLA), "inside a captured graph"},
    {MLA__CONTEXT_PARALLEL, 0, SUB, "context-parallel prefill"},
    END};

/* Row 3 of the common rules, in two because its condition is an "or": a prefix
 * of none, or one that is long.  Only some backends have it. */
static const struct mla__rule one_shot[] = {
    {PLAIN | NO_PREFIX | FITS, RAGGED_OFF, METHOD(MHA_ONE_SHOT),
     "no prefix, and all fits one shot"},
    {PLAIN | LONG_PREFIX | FITS, RAGGED_OFF | CHUNKED_OFF,
     METHOD(MHA_ONE_SHOT), "long prefix, and all fits one shot"},
    END};

/* Rows 4 and 5.  The last four rules give the same method; there are four of
 * them so that a decision can say which condition failed. */
static const struct mla__rule chunked[] = {
    {PLAIN | NO_PREFIX, RAGGED_OFF, METHOD(MHA_CHUNKED_KV),
     "no prefix: zero chunks"},
    {PLAIN | LONG_PREFIX, RAGGED_OFF | CHUNKED_OFF, METHOD(MHA_CHUNKED_KV),
     "long prefix, in chunks"},
    {ALWAYS, PLAIN, SUB, "not a plain extend"},
    {RAGGED_OFF, 0, SUB, "ragged prefill is disabled"},
    {LONG_PREFIX, 0, SUB, "chunked prefix is disabled"},
    {ALWAYS, 0, SUB, "short prefix: below the threshold"},
    END};

/* Chunks for a prefix of any length: no threshold, no one shot, and context
 * parallelism is not looked at. */
static const struct mla__rule trtllm[] = {
    {CAPTURED, 0, METHOD(MLA), "inside a captured graph"},
    {PLAIN | NO_PREFIX, 0, METHOD(MHA_CHUNKED_KV), "no prefix: zero chunks"},
    {PLAIN, CHUNKED_OFF, METHOD(MHA_CHUNKED_KV), "any prefix, in chunks"},
    {ALWAYS, PLAIN, SUB, "not a plain extend"},
    {ALWAYS, 0, SUB, "chunked prefix is disabled"},
    END};

/* triton looks at graphs before determinism and not at context parallelism, so
 * its lists are not the common ones. */
static const struct mla__rule triton_graphs[] = {
    {CAPTURED, 0, METHOD(MLA), "inside a captured graph"}, END};

/* The expanded form only where there is no prefix at all. */
static const struct mla__rule triton[] = {
    {PLAIN | NO_PREFIX, 0, METHOD(MHA), "no prefix"},
    {ALWAYS, PLAIN, SUB, "not a plain extend"},
    {ALWAYS, 0, SUB, "a prefix, of any length"},
    END};

/* aiter's MHA reads the prefix inside the backend, so the rules have no
 * threshold; mla__expanded turns it into a form of ours. */
static const struct mla__rule aiter[] = {
    {CAPTURED, 0, METHOD(MHA), "inside a captured graph"},
    {PLAIN, 0, METHOD(MHA), "the backend reads the prefix itself"},
    {ALWAYS, 0, METHOD(MLA), "not a plain extend"},
    END};

/* Sparse attention: MLA__DENSE stands for the backend's own test, which
 * dense_allowed in dispatch.c repeats. */
static const struct mla__rule dsa[] = {
    {MLA__DENSE, 0, METHOD(MHA_ONE_SHOT), "short enough for dense prefill"},
    {ALWAYS, 0, METHOD(MLA), "no dense prefill"},
    END};

/* The layer decides first: a sparse one has one body for all modes. */
static const struct mla__rule ascend[] = {
    {MLA__DSA_LAYER, 0, METHOD(DSA_NPU), "a sparse layer"},
    {PLAIN, 0, METHOD(MHA_NPU), "plain extend"},
    {ALWAYS, 0, METHOD(MLA_NPU), "not a plain extend"},
    END};

/* Backends ---------------------------------------------------------------- */

/* The lists of triton, also of every name that SGLang has no rules for. */
#define TRITON_RULES                                                          \
    {                                                                         \
        triton_graphs, determinism, triton, NULL                              \
    }

/* name, lists, page size, chunked prefix, trees, deterministic, ragged */
static const struct mla__backend backends[] = {
    {"fa3", {determinism, graphs, one_shot, chunked}, 0, true, 1, 1, false},
    {"fa4",
     {other_than_sm100, determinism, graphs, chunked},
     0,
     true,
     -1,
     100,
     false},
    {"flashinfer", {graphs, one_shot, chunked, NULL}, 0, true, 0, 0, true},
    {"flashmla", {graphs, one_shot, chunked, NULL}, 64, true, 0, 0, true},
    {"cutlass_mla", {graphs, chunked, NULL, NULL}, 128, true, -1, 0, false},
    {"intel_xpu", {graphs, chunked, NULL, NULL}, 0, false, -1, 0, false},
    {"trtllm_mla", {trtllm, NULL, NULL, NULL}, -1, true, 0, 0, false},
    {"tokenspeed_mla", {trtllm, NULL, NULL, NULL}, -1, true, 0, 0, false},
    {"triton", TRITON_RULES, 0, false, 1, 1, false},
    {"aiter", {aiter, NULL, NULL, NULL}, 0, false, -1, 0, false},
    {"dsa", {dsa, NULL, NULL, NULL}, 64, false, -1, 0, false},
    {"nsa", {dsa, NULL, NULL, NULL}, 64, false, -1, 0, false},
    {"ascend", {ascend, NULL, NULL, NULL}, 0, false, -1, 1, false},
    /* not registered there, so served by the rules of triton */
    {"cutedsl_mla", TRITON_RULES, -1, true, 0, 0, false},
    {"intel_amx", TRITON_RULES, 0, false, -1, 0, false},
    {"torch_native", TRITON_RULES, 0, false, -1, 0, false},
    {"flex_attention", TRITON_RULES, 0, false, -1, 0, false},
    {"wave", TRITON_RULES, 0, false, -1, 0, false},
    {"trtllm_mha", TRITON_RULES, 0, false, -1, 0, false},
    {"cost", {NULL, NULL, NULL, NULL}, 0, true, 1, 1, false},
};

const struct mla__backend *mla__backend_at(int i)
{
    int count = (int)(sizeof(backends) / sizeof(backends[0]));
    return i >= 0 && i < count ? &backends[i] : NULL;
}

/* Names are compared exactly, case included: they are an engine's flags. */
const struct mla__backend *mla__backend_find(const char *name)
{
    const struct mla__backend *b;
    for (int i = 0; (b = mla__backend_at(i)) != NULL; i++)
        if (!strcmp(b->name, name))
            return b;
    return NULL;
}

/* The lists in order, each from its top.  NULL only for "cost", which has
 * none. */
const struct mla__rule *mla__rule_find(const struct mla__backend *backend,
                                       unsigned facts)
{
    for (int l = 0; l < MLA__MAX_LISTS && backend->lists[l]; l++)
        for (const struct mla__rule *r = backend->lists[l]; r->text; r++)
            if ((facts & r->need) == r->need && !(facts & r->forbid))
                return r;
    return NULL;
}

/* Public ------------------------------------------------------------------ */

const char *mla_policy_backend(int i)
{
    const struct mla__backend *b = mla__backend_at(i);
    return b ? b->name : NULL;
}

/* -1 in the table: 32 and 64 are kept, any other size becomes 64. */
int mla_backend_page_size(const char *backend, int page_size)
{
    const struct mla__backend *b = backend ? mla__backend_find(backend) : NULL;

    if (!b)
        return -1;
    if (b->page_size > 0)
        return b->page_size;
    return b->page_size == 0 || page_size == 32 ? page_size : 64;
}

int mla_backend_takes_trees(const char *backend)
{
    const struct mla__backend *b = backend ? mla__backend_find(backend) : NULL;
    return b ? b->trees : -1;
}
