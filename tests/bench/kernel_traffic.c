/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel_traffic.c: one launch on the virtual GPU, and its counters
 * (tests/vgpu/counters.h documents their JSON).
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "json.h"
#include "kernel_bench.h"
#include "run.h"

enum { SECTOR = 32 };

/* Read only: the tree is freed whole. */
typedef const struct mla__json json;

/* A member's value; 0 where there is none, as for kernels without MMA. */
static double number(json *object, const char *key)
{
    json *value = mla__json_get(object, key);
    return value ? value->real : 0;
}

/* The sum of a key over the members of an object of objects. */
static double sum(json *object, const char *key)
{
    double total = 0;
    for (json *item = object ? object->child : NULL; item; item = item->next)
        total += number(item, key);
    return total;
}

/* The last launch of a kernel: a case may launch others beside it. */
static json *launch_of(json *root, const char *symbol)
{
    json *list = mla__json_get(root, "launches"), *found = NULL;

    for (json *l = list ? list->child : NULL; l; l = l->next) {
        json *kernel = mla__json_get(l, "kernel");
        if (kernel && kernel->string && strcmp(kernel->string, symbol) == 0)
            found = l;
    }
    return found;
}

/* From one launch's counters to the figures of the report.  An L1 that never
 * evicts lets no byte pass twice; stores pass it always. */
static void read_launch(json *total, struct bench_traffic *out)
{
    json *global = mla__json_get(total, "global");
    json *store = mla__json_get(global, "store");

    out->copied = number(mla__json_get(global, "cp_async"), "bytes");
    out->requested = number(mla__json_get(global, "load"), "bytes") +
                     out->copied + number(store, "bytes");
    out->l2 =
        SECTOR * (number(global, "l1_miss_sectors") + number(store, "sectors"));
    out->dram = SECTOR * (number(global, "unique_load_sectors") +
                          number(global, "unique_store_sectors"));
    out->warp_insns = number(total, "warp_insns");
    out->port_cycles =
        sum(mla__json_get(total, "shared"), "wavefronts") +
        number(mla__json_get(total, "smem_port"), "cycles");
    out->word_cycles =
        number(mla__json_get(mla__json_get(total, "shared"), "load"),
               "wavefronts") +
        number(mla__json_get(mla__json_get(total, "shared"), "store"),
               "wavefronts");
    out->mma_flops = number(total, "mma_flops");
    out->mma_count = sum(mla__json_get(total, "mma"), "count");
    out->bank_conflicts = sum(mla__json_get(total, "shared"), "conflicts");
    out->barriers = number(total, "barriers");
    out->mma_cycles = number(total, "mma_cycles");
    out->tma = SECTOR * number(mla__json_get(total, "tma"), "load_sectors");
}

double bench_mmas(const struct bench_traffic *t)
{
    double mmas = t->mma_flops / (2 * 16 * 8 * 16);
    return mmas > 0 ? mmas : 1;
}

/* What any kernel has to move: every live byte of an input once, every one of
 * an output once; a tensor updated in place counts twice. */
static double floor_of(const struct num_case *c)
{
    double bytes = 0;
    for (int i = 0; i < c->tensors; i++) {
        const struct num_tensor *t = &c->tensor[i];
        bytes += (double)num_live_bytes(t) * (t->input + t->output);
    }
    return bytes;
}

/* The counters since the last reset; NULL or why not. */
static const char *read_counters(struct num_device *d,
                                 const struct num_subject *s,
                                 struct bench_traffic *out)
{
    char *text = d->counters();
    struct mla__json *root = NULL;
    struct mla__json_error error;
    const char *why = "the virtual GPU's counters are not JSON";

    if (text && mla__json_parse(s->ctx, text, &root, &error) == MLA_OK) {
        read_launch(launch_of(root, s->info.symbol), out);
        why = NULL;
    }
    mla__json_free(s->ctx, root);
    free(text);
    return why;
}

/* One run without poison, in order and without canaries: its traffic is that
 * of the kernel alone. */
const char *bench_measure_case(struct num_device *d, struct num_case *c,
                               struct bench_traffic *out)
{
    static struct num_verdict v; /* holds the text that is returned */
    struct num_run run = {NUM_POISON_ZERO, 0, 0, c->tokens, false, true};
    const char *why = v.why;

    memset(out, 0, sizeof(*out));
    memset(&v, 0, sizeof(v));
    out->tokens = c->tokens;
    out->floor = floor_of(c);
    out->rounding = SECTOR * c->tensors;
    d->counters_reset();
    if (num_run_once(d, c, &run, &v))
        why = read_counters(d, c->subject, out);
    return why;
}

const char *bench_measure(struct num_device *d, const struct num_subject *s,
                          int64_t tokens, struct bench_traffic *out)
{
    struct num_shape shape = {"bench", tokens, NUM_TIGHT, NUM_TIGHT, 0, false};
    const struct num_family *f = num_family_of(s);
    struct num_case *c;
    const char *why;

    memset(out, 0, sizeof(*out));
    if (!f)
        return "there are no cases for this family";
    c = num_case_make(s, f, &shape, 1);
    why = bench_measure_case(d, c, out);
    num_case_free(c);
    return why;
}
