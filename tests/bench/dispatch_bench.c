/* SPDX-License-Identifier: Apache-2.0
 *
 * dispatch_bench.c: what a decision costs on the host, by policy and batch.
 *
 *     dispatch-bench [--json]
 *
 * Half of a batch decodes behind contexts of different lengths, half of it
 * extends.  Each figure is the median of several rounds, in nanoseconds per
 * decision, with a method per row written out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_bench.h"

enum { MOST = 256, ROUNDS = 31, CALLS = 1000 };

/* CALLS decisions per round, for a single one is shorter than the clock's
 * step. */
static double measure(const mla_policy *policy, const mla_batch *batch)
{
    static mla_method methods[MOST];
    mla_decision d = {.size = sizeof(d)};
    double ns[ROUNDS];

    for (int r = 0; r < ROUNDS; r++) {
        double begin = now_ns();
        for (int i = 0; i < CALLS; i++)
            must(mla_dispatch(policy, batch, methods, &d), "dispatch");
        ns[r] = (now_ns() - begin) / CALLS;
    }
    return median(ns, ROUNDS);
}

/* The same for plans of chunks, which take ten times as long. */
static double measure_chunks(mla_chunks *chunks, const int32_t *prefix,
                             int rows)
{
    mla_chunk_plan plan = {.size = sizeof(plan)};
    double ns[ROUNDS];

    for (int r = 0; r < ROUNDS; r++) {
        double begin = now_ns();
        for (int i = 0; i < CALLS / 10; i++)
            must(mla_chunks_plan(chunks, prefix, rows, 131072, 64, &plan),
                 "chunks");
        ns[r] = (now_ns() - begin) / (CALLS / 10);
    }
    return median(ns, ROUNDS);
}

static void print(int json, const char *what, int rows, double ns)
{
    printf(json ? "{\"figure\": \"%s, batch %d\", \"ns\": %.1f}\n"
                : "%-16s batch %3d %9.1f ns\n",
           what, rows, ns);
}

/* Three policies on batches of 1, 32 and 256 rows, then a plan of chunks.  The
 * contexts are spread by a multiplicative hash, so that no two are alike. */
int main(int argc, char **argv)
{
    static const char *const names[] = {"fa3", "trtllm_mla", "cost"};
    static const int sizes[] = {1, 32, MOST};
    static int32_t prefix[MOST], fresh[MOST];
    int json = argc > 1 && !strcmp(argv[1], "--json");
    mla_context *ctx;
    mla_chunks *chunks;

    for (int i = 0; i < MOST; i++) {
        prefix[i] = (int32_t)((uint32_t)i * 2654435761u >> 15);
        fresh[i] = i % 2 ? 1 : 1 + i;
    }
    must(mla_context_create(NULL, &ctx), "context");
    for (size_t n = 0; n < 3; n++) {
        mla_policy_options o = MLA_POLICY_OPTIONS_INIT;
        mla_policy *policy;
        o.prefill = names[n];
        must(mla_policy_create(ctx, &o, &policy), "policy");
        for (size_t i = 0; i < 3; i++) {
            mla_batch b = {
                sizeof(b), MLA_MODE_MIXED, sizes[i], prefix, fresh, 0, 0};
            print(json, names[n], sizes[i], measure(policy, &b));
        }
        mla_policy_free(policy);
    }
    must(mla_chunks_create(ctx, &chunks), "chunks");
    print(json, "chunks", MOST, measure_chunks(chunks, prefix, MOST));
    mla_chunks_free(chunks);
    mla_context_destroy(ctx);
    return 0;
}
