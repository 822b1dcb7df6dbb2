/* SPDX-License-Identifier: Apache-2.0
 *
 * hopper_bench.c: the schedules of mqa_decode on sm_90a, per tile.
 *
 *     hopper-bench MLAGEN SPEC DIR [--json]
 *
 * First each schedule: what one more tile of 64 rows and 64 keys costs a block
 * in cycles of the tensor cores and of the shared-memory port, in bytes that
 * TMA or cp.async takes out of L2 and in warp instructions (a request of 1,024
 * keys against one of 512); and the instructions of kernel_decode.c's work,
 * requests whole.
 * Then what the planner picks for the usual head counts.  Needs the virtual GPU
 * as an H100 or H200.
 *
 * Bars, for DeepSeek-V3's dimensions: 1,940 port cycles for wgmma, TMA and P
 * (words, such as flags, apart) where the tensor cores take 2,176; and 0.26 M
 * warp instructions in all (FlashMLA 0.462 M), 0.27 M without the copy engine.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "internal.h"
#include "json.h"
#include "kernel_bench.h"

enum { KEYS = 64, ROWS = 64, REQUESTS = 4, MOST_ARGS = 16 };
static const double port_bar = 1940;

/* `ctas`: a block, or a pair, for each request and 64, or 128, heads.  The
 * bars are the planner's choices', (b)'s and (c)'s. */
static const struct schedule {
    const char *name, *variant;
    int ctas;
    double insns_bar; /* 0: none */
    const char *overrides[3];
} schedules[] = {
    {"(a) two alternating groups", "m64", 2 * REQUESTS, 0,
     {"decode.hopper.schedule=alternating"}},
    {"(b) one for S, two for O", "m64", 2 * REQUESTS, 0.26e6,
     {"decode.hopper.cluster=false"}},
    {"(b) P stored first", "m64", 2 * REQUESTS, 0.26e6,
     {"decode.hopper.cluster=false", "decode.hopper.early_scores=false"}},
    {"(b), pages of 1 key", "m64", 2 * REQUESTS, 0.27e6,
     {"kv_cache.page_size=1"}},
    {"(c) = (b), pairs of blocks", "m128", REQUESTS, 0.26e6, {NULL}},
};
enum { SCHEDULES = sizeof(schedules) / sizeof(schedules[0]) };

/* The work of kernel_decode.c, and two requests that differ in tiles alone. */
static const struct decode_shape shape = {
    .group = "bench", DECODE_LENGTHS(1000, 830, 660, 490), .q_len = 1,
    .split_tiles = 64};
static const struct decode_shape tiles[2] = {
    {.group = "bench", DECODE_LENGTHS(512), .q_len = 1, .split_tiles = 64},
    {.group = "bench", DECODE_LENGTHS(1024), .q_len = 1, .split_tiles = 64}};
enum { MORE_KEYS = 512 };

struct bench {
    const char *mlagen, *spec, *directory;
    bool json;
    int failures;
    struct num_device device;
};

/* 0 when the generator has made `out` of the spec with these overrides. */
static int generate(const struct bench *b, const char *out,
                    const char *const *overrides, const char *tp)
{
    char *argv[MOST_ARGS] = {(char *)b->mlagen, "gen", "-q",
                             (char *)b->spec, "--arch", "sm_90a",
                             "-o", (char *)out, "-D", (char *)tp};
    int n = 10;

    for (int i = 0; overrides && i < 3 && overrides[i]; i++) {
        argv[n++] = "-D";
        argv[n++] = (char *)overrides[i];
    }
    return bench_child(argv, 1) < 0;
}

/* What one more tile costs. */
struct per_tile {
    double mma, port, words, l2, insns;
};

static struct per_tile difference(const struct bench_traffic t[2], int heads)
{
    double n = (double)(MORE_KEYS / KEYS) * ((heads + ROWS - 1) / ROWS);

    return (struct per_tile){(t[1].mma_cycles - t[0].mma_cycles) / n,
                             (t[1].port_cycles - t[0].port_cycles) / n,
                             (t[1].word_cycles - t[0].word_cycles) / n,
                             (t[1].tma + t[1].copied -
                              t[0].tma - t[0].copied) / n,
                             (t[1].warp_insns - t[0].warp_insns) / n};
}

static void print_schedule(const struct bench *b, const struct schedule *s,
                           const struct per_tile *t, double insns, bool first)
{
    bool over = s->insns_bar > 0 && (t->port - t->words > port_bar ||
                                     insns > s->insns_bar);

    if (b->json)
        printf("%s\n  {\"schedule\": \"%s\", \"mma_cycles\": %.0f, "
               "\"port_cycles\": %.0f, \"word_cycles\": %.0f, "
               "\"l2_bytes\": %.0f, "
               "\"insns_per_tile\": %.0f, \"warp_insns\": %.0f}",
               first ? "" : ",", s->name, t->mma, t->port, t->words,
               t->l2, t->insns, insns);
    else
        printf("%-28s %8.0f %8.0f %6.0f %9.0f %7.0f %10.0f%s\n", s->name,
               t->mma, t->port, t->words, t->l2, t->insns, insns,
               over ? "  over the bar" : "");
}

/* The index of the variant's kernel, or -1. */
static int find_variant(const struct num_device *d, const char *variant)
{
    for (int i = 0; i < mla_kernels_count(d->set); i++) {
        mla_kernel_info info = {.size = sizeof(info)};
        mla_kernel_describe(mla_kernels_at(d->set, i), &info);
        if (strcmp(info.family, "mqa_decode") == 0 &&
            strcmp(info.variant, variant) == 0)
            return i;
    }
    return -1;
}

static const char *measure_work(struct bench *b, const struct schedule *s,
                                const struct decode_kernels *k,
                                const struct decode_shape *on,
                                struct bench_traffic *t)
{
    struct decode_shape work = *on;
    struct num_case *c;
    const char *why;

    work.ctas = s->ctas;
    c = decode_case_make(k, &work, 1);
    why = bench_measure_case(&b->device, c, t);
    decode_case_free(c);
    return why;
}

/* Of t, the first two are those of `tiles`, the third is of `shape`. */
static const char *measure(struct bench *b, const struct schedule *s,
                           struct bench_traffic t[3], int *heads)
{
    struct num_model model;
    static struct decode_kernels k;
    const char *why;
    int index;

    if (num_model_read(b->device.ctx, mla_kernels_manifest(b->device.set),
                       &model))
        return mla_last_error(b->device.ctx);
    index = find_variant(&b->device, s->variant);
    if (index < 0)
        return "the planner has no such variant";
    why = decode_kernels_find(&b->device, index, &model, &k);
    if (why)
        return why;
    for (int i = 0; i < 3 && !why; i++)
        why = measure_work(b, s, &k, i < 2 ? &tiles[i] : &shape, &t[i]);
    *heads = k.decode.info.heads;
    return why;
}

static void run_schedule(struct bench *b, int i, bool first)
{
    const struct schedule *s = &schedules[i];
    struct bench_traffic t[3];
    struct per_tile per;
    char out[4096];
    const char *why = "mlagen gen failed";
    int heads = 0;

    snprintf(out, sizeof(out), "%s/schedule%d", b->directory, i);
    if (!generate(b, out, s->overrides, "tp=[1]"))
        why = num_device_load(&b->device, out)
                  ? mla_last_error(b->device.ctx)
                  : measure(b, s, t, &heads);
    if (why) {
        fprintf(stderr, "hopper-bench: error: %s: %s\n", s->name, why);
        b->failures++;
        return;
    }
    per = difference(t, heads);
    print_schedule(b, s, &per, t[2].warp_insns, first);
}

/* What the planner picks -------------------------------------------------- */

/* The text of a cost row of a kernel, or "". */
static const char *cost_of(const struct mla__json *kernel, const char *name)
{
    const struct mla__json *cost = mla__json_get(kernel, "cost");

    for (const struct mla__json *row = cost ? cost->child : NULL; row;
         row = row->next)
        if (row->child && row->child->string && row->child->next &&
            strcmp(row->child->string, name) == 0)
            return row->child->next->string;
    return "";
}

static int tile_number(const struct mla__json *kernel, const char *key)
{
    const struct mla__json *n =
        mla__json_get(mla__json_get(kernel, "tile"), key);
    return n ? (int)n->integer : 0;
}

/* The mqa_decode that is used for so many rows. */
static const struct mla__json *choice(const struct mla__json *root, int rows)
{
    const struct mla__json *list = mla__json_get(root, "kernels");
    const struct mla__json *best = NULL;

    for (const struct mla__json *k = list ? list->child : NULL; k;
         k = k->next) {
        const struct mla__json *family = mla__json_get(k, "family");
        if (family && strcmp(family->string, "mqa_decode") == 0 &&
            (!best || tile_number(best, "m") < rows))
            best = k;
    }
    return best;
}

static void print_choices(const struct bench *b, const char *text, int heads,
                          bool first)
{
    static const int q_lens[] = {1, 2, 4};
    struct mla__json_error error;
    struct mla__json *root = NULL;
    char *copy = strdup(text);

    if (copy)
        mla__json_parse(b->device.ctx, copy, &root, &error);
    for (size_t i = 0; i < sizeof(q_lens) / sizeof(q_lens[0]); i++) {
        const struct mla__json *k = choice(root, heads * q_lens[i]);
        const struct mla__json *variant = mla__json_get(k, "variant");
        const char *name = variant ? variant->string : "none";
        const char *why = k ? cost_of(k, "choice") : "";
        if (b->json)
            printf("%s\n  {\"heads\": %d, \"q_len\": %d, \"variant\": "
                   "\"%s\", \"why\": \"%s\"}", first && !i ? "" : ",", heads,
                   q_lens[i], name, why);
        else
            printf("%5d %5d  %-5s %s\n", heads, q_lens[i], name, why);
    }
    mla__json_free(b->device.ctx, root);
    free(copy);
}

static void list_choices(struct bench *b)
{
    static const int counts[] = {8, 16, 32, 64, 128};
    char out[4096], heads[32];
    const char *overrides[3] = {heads, NULL, NULL};

    if (!b->json)
        printf("\n%5s %5s  %-5s %s\n", "heads", "q_len", "tile", "because");
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        snprintf(out, sizeof(out), "%s/heads%d", b->directory, counts[i]);
        snprintf(heads, sizeof(heads), "heads=%d", counts[i]);
        if (generate(b, out, overrides, "tp=[1]") ||
            num_device_load(&b->device, out)) {
            fprintf(stderr, "hopper-bench: error: %d heads\n", counts[i]);
            b->failures++;
            continue;
        }
        print_choices(b, mla_kernels_manifest(b->device.set), counts[i],
                      i == 0);
    }
}

static int run(struct bench *b)
{
    printf(b->json ? "{\"spec\": \"%s\", \"schedules\": ["
                   : "%s on sm_90a, per tile of 64 rows and 64 keys\n\n",
           b->spec);
    if (!b->json)
        printf("%-28s %8s %8s %6s %9s %7s %10s\n", "schedule", "mma clk",
               "port clk", "words", "l2 bytes", "insns", "all insns");
    for (int i = 0; i < SCHEDULES; i++)
        run_schedule(b, i, i == 0);
    printf(b->json ? "],\n \"choices\": [" : "");
    list_choices(b);
    printf(b->json ? "]}\n" : "\n");
    return b->failures != 0;
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    char why[1024];
    int status;

    b.json = argc == 5 && strcmp(argv[4], "--json") == 0;
    if (argc < 4 || (argc > 4 && !b.json)) {
        fprintf(stderr, "usage: hopper-bench MLAGEN SPEC DIR [--json]\n");
        return 2;
    }
    b.mlagen = argv[1];
    b.spec = argv[2];
    b.directory = argv[3];
    if (num_device_open(&b.device, NULL, why, sizeof(why)) ||
        !b.device.counters || b.device.info.major != 9) {
        fprintf(stderr, "hopper-bench: error: needs libvgpu.so as an h100 or "
                        "h200\n");
        return 7;
    }
    status = run(&b);
    num_device_close(&b.device);
    return status;
}
