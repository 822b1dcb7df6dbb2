/* SPDX-License-Identifier: Apache-2.0
 *
 * dispatch.h: policies from inside.
 *
 * A batch is reduced to a handful of sums and a set of facts (bits), once.
 * A backend is a list of rules: the first one whose `need` are all true and
 * whose `forbid` are all false gives the method.  The same rows are printed
 * by mla_dispatch_table, so a table cannot differ from what is done.
 *
 * dispatch.c (policies, the decision), dispatch_rules.c (backends),
 * dispatch_cost.c (the policy "cost"), dispatch_text.c (names, reasons,
 * tables), dispatch_chunks.c (chunk arithmetic).
 */
#ifndef MLA_DISPATCH_H
#define MLA_DISPATCH_H

#include "internal.h"

/* Facts: X(name, bit, text when needed, text when forbidden). */
#define MLA__FACT_LIST(X)                                                     \
    X(CAPTURED, 0, "captured", "not captured")                                \
    X(CONTEXT_PARALLEL, 1, "context-parallel", "not context-parallel")        \
    X(PLAIN, 2, "plain extend", "not a plain extend")                         \
    X(RAGGED_OFF, 3, "ragged disabled", "ragged allowed")                     \
    X(NO_PREFIX, 4, "prefix = 0", "prefix > 0")                               \
    X(LONG_PREFIX, 5, "prefix >= threshold", "prefix < threshold")            \
    X(CHUNKED_OFF, 6, "chunked prefix disabled", "chunked prefix allowed")    \
    X(FITS, 7, "total <= capacity", "total > capacity")                       \
    X(DETERMINISTIC, 8, "deterministic", "not deterministic")                 \
    X(SM100, 9, "sm_10x or sm_11x", "neither sm_10x nor sm_11x")              \
    X(DENSE, 10, "dense prefill allowed", "dense prefill not allowed")        \
    X(DSA_LAYER, 11, "sparse layer", "dense layer")

enum {
#define MLA__FACT_BIT(name, bit, yes, no) MLA__##name = 1 << bit,
    MLA__FACT_LIST(MLA__FACT_BIT)
#undef MLA__FACT_BIT
        MLA__FACTS = 12
};

/* A rule's result that depends on the platform (fused absorbed forms). */
enum { MLA__SUBSTITUTE = -2, MLA__MAX_LISTS = 4 };

struct mla__rule {
    unsigned need, forbid;
    int method;       /* an mla_method or MLA__SUBSTITUTE */
    const char *text; /* NULL ends a list */
};

struct mla__backend {
    const char *name;
    const struct mla__rule *lists[MLA__MAX_LISTS]; /* NULL: policy "cost" */
    int page_size;     /* forced; 0: any; -1: 32 or 64, else 64 */
    bool chunked;      /* has a chunked prefix */
    int trees;         /* 1, 0, or -1: not known */
    int deterministic; /* 1 yes, 0 no, 100: on sm_10x and sm_11x */
    bool ragged;       /* disable_ragged speaks of it */
};

/* A batch in figures. */
struct mla__sums {
    int64_t prefix, total, fresh, longest, longest_prefix;
};

struct mla__cost {
    mla_cost_model model;
    mla_device_profile profile;
    /* seconds: per key expanded, per pair of query and key, per byte moved
     * for a key and a query, per query absorbed; see docs/dispatch.md */
    double expand, normal_pair, normal_row;
    double absorb, absorbed_pair, absorbed_key, absorbed_query;
    double fixed, launch, merge_row;
};

struct mla_policy {
    mla_context *ctx;
    mla_policy_options options; /* strings point into this object's own */
    const struct mla__backend *prefill, *decode;
    bool chunked_off; /* by the option or by the prefill backend */
    char *kv_dtype, *profile_name;
    struct mla__cost cost;
};

/* dispatch_rules.c -------------------------------------------------------- */

/* The i-th backend, or NULL; by name, or NULL. */
const struct mla__backend *mla__backend_at(int i);
const struct mla__backend *mla__backend_find(const char *name);

/* The first rule that hits; every backend ends with one that always does. */
const struct mla__rule *mla__rule_find(const struct mla__backend *backend,
                                       unsigned facts);

/* dispatch_cost.c --------------------------------------------------------- */

/* Fills policy->cost from its options.  Error: INVALID_ARGUMENT. */
mla_status mla__cost_prepare(mla_policy *policy);

/* Decides by predicted time; out has its sums already. */
void mla__cost_decide(const mla_policy *policy, const mla_batch *batch,
                      const struct mla__sums *sums, mla_method *methods,
                      mla_decision *out);

/* dispatch.c -------------------------------------------------------------- */

/* What MLA__SUBSTITUTE stands for under the options and in that mode. */
mla_method mla__substitute(const mla_policy *policy, mla_mode mode,
                           const struct mla__backend *backend);

/* The form of an expanded batch: MHA without prefixes, MHA_ONE_SHOT within
 * the capacity, MHA_CHUNKED_KV beyond it. */
mla_method mla__expanded(const mla_policy *policy, int64_t prefix,
                         int64_t total);

#endif
