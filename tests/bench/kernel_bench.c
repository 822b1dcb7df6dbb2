/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel_bench.c: the program behind `make bench`.
 *
 *     kernel-bench MLAGEN SPEC DIR [--json] [--counters FILE]
 *
 * MLAGEN is the generator, SPEC a spec and DIR a scratch directory: the
 * program times `mlagen gen` into it, then a cold `mlagen build` for the
 * architecture of the device, then each kernel's compilation by itself, and
 * last runs each kernel on the virtual GPU and sets the bytes it moves beside
 * its floor: each input byte once, each output byte once.
 *
 * Columns: dram is the different 32-byte sectors touched, l2 what passes an L1
 * that never evicts, req what the lanes ask for; all over the floor.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_bench.h"

/* The bars of DESIGN section 12. */
static const double gen_bar_ms = 50, kernel_bar_ms = 500, build_bar_ms = 2000;
static const double dram_bar = 1.05;
enum { GEN_RUNS = 5, CUBIN_BAR = 1 << 20 };

static const int64_t token_counts[] = {1, 16, 64, 256};

struct bench {
    const char *mlagen, *spec, *directory, *counters;
    char built[4096];
    bool json;
    int failures;
    struct num_device device;
    struct num_model model;
};

/* Figures over their bar are shown, and are no failure: bars are goals. */
static const char *mark(bool good)
{
    return good ? "" : "  over the bar";
}

/* Generation and compilation --------------------------------------------- */

/* Sources for all architectures, then a build for one, as a user runs them:
 * whole processes, start-up and all. */
static void time_generator(struct bench *b)
{
    char arch[32], out[4096], one_out[4096];
    char *gen[] = {
        (char *)b->mlagen, "gen", "-q", (char *)b->spec, "-o", out, NULL};
    char *one[] = {(char *)b->mlagen, "gen", "-q",     "--arch", arch,
                   (char *)b->spec,   "-o",  one_out,  NULL};
    char *build[] = {(char *)b->mlagen, "build", "-q",     "--arch", arch,
                     (char *)b->spec,   "-o",    b->built, NULL};
    double gen_ms, one_ms, build_ms;

    /* The architecture-specific kernels where the device has some. */
    snprintf(arch, sizeof(arch), "sm_%d%d%s", b->device.info.major,
             b->device.info.minor, b->device.info.major == 9 ? "a" : "");
    snprintf(out, sizeof(out), "%s/gen", b->directory);
    snprintf(one_out, sizeof(one_out), "%s/one", b->directory);
    snprintf(b->built, sizeof(b->built), "%s/build", b->directory);
    gen_ms = bench_child(gen, GEN_RUNS);
    one_ms = bench_child(one, GEN_RUNS);
    build_ms = bench_child(build, 1);
    b->failures += gen_ms < 0 || one_ms < 0 || build_ms < 0;
    if (b->json) {
        printf(" \"gen_ms\": %.2f, \"gen_one_ms\": %.2f, \"build_ms\": %.1f, "
               "\"arch\": \"%s\",\n",
               gen_ms, one_ms, build_ms, arch);
        return;
    }
    printf("gen, all architectures   %8.1f ms  (bar %.0f)%s\n", gen_ms,
           gen_bar_ms, mark(gen_ms <= gen_bar_ms));
    printf("gen, %-8s            %8.1f ms  (bar %.0f)%s\n", arch, one_ms,
           gen_bar_ms, mark(one_ms <= gen_bar_ms));
    printf("build %-8s cold      %8.1f ms  (bar %.0f for each local head "
           "count)\n\n",
           arch, build_ms, build_bar_ms);
}

/* Each kernel by itself, on one thread: what a server compiles when it needs
 * one more. */
static void time_kernels(struct bench *b)
{
    double sum = 0, bytes = 0;
    int count = mla_kernels_count(b->device.set);

    printf(b->json ? " \"compile\": [" : "%-62s %9s %9s\n", "kernel", "ms",
           "cubin");
    for (int i = 0; i < count; i++) {
        struct num_subject s;
        struct bench_compiled r = {0, 0};
        const char *why =
            num_subject_read(b->device.ctx, b->device.set, i, &b->model, &s);
        if (!why)
            why = bench_compile(&s, &r);
        b->failures += why != NULL;
        sum += r.milliseconds;
        bytes += (double)r.cubin_bytes;
        if (b->json)
            printf("%s\n  {\"kernel\": \"%s\", \"ms\": %.2f, \"cubin\": %zu}",
                   i ? "," : "", s.info.symbol, r.milliseconds, r.cubin_bytes);
        else
            printf("%-62s %9.1f %9zu%s%s\n", s.info.symbol, r.milliseconds,
                   r.cubin_bytes, mark(r.milliseconds <= kernel_bar_ms),
                   why ? why : "");
    }
    if (b->json)
        printf("],\n \"compile_ms\": %.1f, \"cubin_bytes\": %.0f,\n", sum,
               bytes);
    else
        printf("%-62s %9.1f %9.0f%s\n\n", "one thread, in all", sum, bytes,
               mark(bytes <= CUBIN_BAR));
}

/* Traffic ----------------------------------------------------------------- */

/* One row: all figures over the floor, which is what they would ideally be. */
static void print_traffic(struct bench *b, const char *symbol,
                          const struct bench_traffic *t, const char *why,
                          bool first)
{
    double floor = t->floor > 0 ? t->floor : 1;

    if (b->json) {
        printf("%s\n  {\"kernel\": \"%s\", \"tokens\": %lld, \"floor\": %.0f, "
               "\"dram\": %.0f, \"l2\": %.0f, \"requested\": %.0f, "
               "\"conflicts\": %.0f, \"warp_insns\": %.0f, \"mma\": %.0f, "
               "\"mma_flops\": %.0f, \"ok\": %s}",
               first ? "" : ",", symbol, (long long)t->tokens, t->floor,
               t->dram, t->l2, t->requested, t->bank_conflicts, t->warp_insns,
               t->mma_count, t->mma_flops, why ? "false" : "true");
        return;
    }
    printf("%-62s %4lld %11.0f %6.3f %6.3f %6.3f %7.0f %10.0f %9.0f%s\n",
           symbol, (long long)t->tokens, t->floor, t->dram / floor,
           t->l2 / floor, t->requested / floor, t->bank_conflicts,
           t->warp_insns, t->mma_count,
           mark(t->dram <= dram_bar * floor + t->rounding));
    if (why)
        printf("  %s\n", why);
}

/* For the file of counters. */
static void note_traffic(const struct num_subject *s,
                         const struct bench_traffic *t, bool tokens)
{
    char work[32] = "once";

    if (tokens)
        snprintf(work, sizeof(work), "%lld tokens", (long long)t->tokens);
    bench_note(s, work, t);
}

/* Kernels without tokens run once, the others at each token count. */
static void measure_kernels(struct bench *b)
{
    bool first = true;

    if (b->json)
        printf(" \"traffic\": [");
    else
        printf("%-62s %4s %11s %6s %6s %6s %7s %10s %9s\n", "kernel", "T",
               "floor", "dram", "l2", "req", "banks", "warp insn", "mma");
    for (int i = 0; i < mla_kernels_count(b->device.set); i++) {
        struct num_subject s;
        bool tokens;
        if (num_subject_read(b->device.ctx, b->device.set, i, &b->model, &s))
            continue; /* time_kernels has reported it */
        if (strcmp(s.info.family, "mha") == 0 || !num_family_of(&s))
            continue; /* kernel_attention.c, kernel_decode.c */
        tokens = num_has(&s, "tokens");
        for (size_t k = 0; k < (tokens ? 4 : 1); k++) {
            struct bench_traffic t;
            const char *why =
                bench_measure(&b->device, &s, token_counts[k], &t);
            b->failures += why != NULL;
            print_traffic(b, s.info.symbol, &t, why, first);
            note_traffic(&s, &t, tokens);
            first = false;
        }
    }
    printf(b->json ? "],\n" : "\n");
}

/* The flags behind the three operands. */
static bool parse(int argc, char **argv, struct bench *b)
{
    bool good = argc >= 4;

    for (int i = 4; i < argc && good; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            b->json = true;
        } else {
            good = strcmp(argv[i], "--counters") == 0 && ++i < argc;
            b->counters = good ? argv[i] : NULL;
        }
    }
    if (!good)
        fprintf(stderr, "usage: kernel-bench MLAGEN SPEC DIR [--json] "
                        "[--counters FILE]\n");
    return good;
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    char why[1024];

    if (!parse(argc, argv, &b))
        return 2;
    b.mlagen = argv[1];
    b.spec = argv[2];
    b.directory = argv[3];
    if (num_device_open(&b.device, NULL, why, sizeof(why))) {
        fprintf(stderr, "kernel-bench: error: no device: %s\n", why);
        return 7;
    }
    if (!b.device.counters || !b.device.counters_reset) {
        fprintf(stderr,
                "kernel-bench: error: %s counts nothing; name "
                "libvgpu.so in MLA_DRIVER\n",
                b.device.info.driver);
        num_device_close(&b.device);
        return 7;
    }
    if (b.counters && !bench_counters_open(b.counters, &b.device)) {
        fprintf(stderr, "%s: error: %s\n", b.counters, strerror(errno));
        num_device_close(&b.device);
        return 5;
    }
    printf(b.json ? "{\"spec\": \"%s\", \"device\": \"%s\",\n" : "%s on %s\n\n",
           b.spec, b.device.info.name);
    time_generator(&b);
    if (num_device_load(&b.device, b.built) ||
        num_model_read(b.device.ctx, mla_kernels_manifest(b.device.set),
                       &b.model)) {
        fprintf(stderr, "kernel-bench: error: %s\n",
                mla_last_error(b.device.ctx));
        b.failures++;
    } else {
        time_kernels(&b);
        measure_kernels(&b);
        b.failures += bench_attention(&b.device, &b.model, b.json);
        printf(b.json ? ",\n" : "");
        b.failures += bench_decode(&b.device, &b.model, b.json);
        printf(b.json ? "}\n" : "");
    }
    b.failures += !bench_counters_close();
    num_device_close(&b.device);
    return b.failures != 0;
}
