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

static const struct mla__rule determinism[] = {
    {MLA__DETERMINISTIC, 0, SUB, "deterministic inference"}, END};

static const struct mla__rule other_than_sm100[] = {
    {ALWAYS, MLA__SM100, METHOD(MHA_CHUNKED_KV),
     "this device has the expanded form only"},
    END};

static const struct mla__rule graphs[] = {
    {CAPTURED, 0, METHOD(MLA), "inside a captured graph"},
    {MLA__CONTEXT_PARALLEL, 0, SUB, "context-parallel prefill"},
    END};

static const struct mla__rule one_shot[] = {
    {PLAIN | NO_PREFIX | FITS, RAGGED_OFF, METHOD(MHA_ONE_SHOT),
     "no prefix, and all fits one shot"},
    {PLAIN | LONG_PREFIX | FITS, RAGGED_OFF | CHUNKED_OFF,
     METHOD(MHA_ONE_SHOT), "long prefix, and all fits one shot"},
    END};

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

static const struct mla__rule trtllm[] = {
    {CAPTURED, 0, METHOD(MLA), "inside a captured graph"},
    {PLAIN | NO_PREFIX, 0, METHOD(MHA_CHUNKED_KV), "no prefix: zero chunks"},
    {PLAIN, CHUNKED_OFF, METHOD(MHA_CHUNKED_KV), "any prefix, in chunks"},
    {ALWAYS, PLAIN, SUB, "not a plain extend"},
    {ALWAYS, 0, SUB, "chunked prefix is disabled"},
    END};

static const struct mla__rule triton_graphs[] = {
    {CAPTURED, 0, METHOD(MLA), "inside a captured graph"}, END};

static const struct mla__rule triton[] = {
    {PLAIN | NO_PREFIX, 0, METHOD(MHA), "no prefix"},
    {ALWAYS, PLAIN, SUB, "not a plain extend"},
    {ALWAYS, 0, SUB, "a prefix, of any length"},
    END};

static const struct mla__rule aiter[] = {
    {CAPTURED, 0, METHOD(MHA), "inside a captured graph"},
    {PLAIN, 0, METHOD(MHA), "the backend reads the prefix itself"},
    {ALWAYS, 0, METHOD(MLA), "not a plain extend"},
    END};

static const struct mla__rule dsa[] = {
    {MLA__DENSE, 0, METHOD(MHA_ONE_SHOT), "short enough for dense prefill"},
    {ALWAYS, 0, METHOD(MLA), "no dense prefill"},
    END};

static const struct mla__rule ascend[] = {
    {MLA__DSA_LAYER, 0, METHOD(DSA_NPU), "a sparse layer"},
    {PLAIN, 0, METHOD(MHA_NPU), "plain extend"},
    {ALWAYS, 0, METHOD(MLA_NPU), "not a plain extend"},
    END};

/* Backends ---------------------------------------------------------------- */

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

const struct mla__backend *mla__backend_find(const char *name)
{
    const struct mla__backend *b;
    for (int i = 0; (b = mla__backend_at(i)) != NULL; i++)
        if (!strcmp(b->name, name))
            return b;
    return NULL;
}

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
