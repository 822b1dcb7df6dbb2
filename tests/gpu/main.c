/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c: gpu-bench, which measures the kernels of a directory.
 *
 *     gpu-bench DIR [flags]
 *     gpu-bench --device
 *
 * Exit status: 0 all measured, 1 some kernel failed, 2 usage, 5 a file, 7 no
 * device or no kernel for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu_bench.h"

/* As everywhere in mlagen (CONVENTIONS.md). */
enum { EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_IO = 5, EXIT_NO_DEVICE = 7 };

/* --- what is there -------------------------------------------------------- */

/* --list, which takes no device. */
static int print_cases(const struct gpu_command *c)
{
    struct gpu_case list[GPU_MAX_CASES];
    int count = gpu_cases(c->tiny, list, GPU_MAX_CASES);

    for (int i = 0; i < count; i++)
        if (gpu_is_listed(c->groups, list[i].group->name))
            printf("%-9s heads %3d, batch %3lld, q_len %5lld, tokens %5lld\n",
                   list[i].group->name, list[i].heads,
                   (long long)list[i].batch, (long long)list[i].q_len,
                   (long long)list[i].seq_len);
    return 0;
}

/* Says what is needed, and what can be done without it. */
static int no_device(const struct gpu *g)
{
    fprintf(stderr,
            "gpu-bench: error: no device: %s\n"
            "This needs a machine with an NVIDIA GPU and its driver\n"
            "(libcuda.so.1; `nvidia-smi` must list the GPU).  Without one,\n"
            "`make check` proves the kernels on the virtual GPU and `make\n"
            "bench` counts what they do; nothing here can be measured.\n",
            g->error);
    return EXIT_NO_DEVICE;
}

/* "NAME<tab>90<tab>real", for the script around this. */
static int print_device(const struct gpu *g)
{
    const mla_device_info *d = &g->device.info;

    printf("%s\t%d%d\t%s\n", d->name, d->major, d->minor,
           g->device.is_virtual ? "virtual" : "real");
    return 0;
}

/* --- works ---------------------------------------------------------------- */

/* Wall time, seconds. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A case's heads may be left open: those of the directory's first kernel. */
static bool is_subject(struct gpu *g, const struct gpu_case *c,
                       const struct gpu_command *o, const struct num_subject *s)
{
    mla_kernel_info first = {.size = sizeof(first)};
    int heads = c->heads, fits = 0;

    mla_kernel_describe(mla_kernels_at(g->device.set, 0), &first);
    if (heads == 0)
        heads = first.heads;
    return strcmp(s->info.family, c->group->family) == 0 &&
           s->info.heads == heads &&
           (!o->arch || strcmp(s->info.arch, o->arch) == 0) &&
           mla_kernel_fits(s->kernel, &fits) == MLA_OK && fits > 0;
}

/* A case in a word or two: what differs between the cases of its group. */
static void label(const struct gpu_case *c, int heads, char *out, size_t size)
{
    if (strcmp(c->group->name, "decode") == 0 ||
        strcmp(c->group->name, "plan") == 0)
        snprintf(out, size, "b%lld h%d q%lld s%lld", (long long)c->batch,
                 heads, (long long)c->q_len, (long long)c->seq_len);
    else if (strcmp(c->group->name, "mha") == 0)
        snprintf(out, size, "b%lld h%d s%lld", (long long)c->batch, heads,
                 (long long)c->seq_len);
    else
        snprintf(out, size, "h%d T%lld", heads, (long long)c->seq_len);
}

/* What to do with each work of a case. */
typedef void (*work_fn)(struct gpu *g, const struct gpu_case *c,
                        const struct gpu_work *w, const char *why,
                        void *user);

/* Calls fn for every kernel that the case is for; returns their number. */
static int each_work(struct gpu *g, const struct gpu_case *c,
                     const struct gpu_command *o, work_fn fn, void *user)
{
    static struct gpu_work w;
    int count = 0;

    for (int i = 0; i < mla_kernels_count(g->device.set); i++) {
        struct num_subject s;
        const char *why = num_subject_read(g->device.ctx, g->device.set, i,
                                           &g->model, &s);
        if (!why && !is_subject(g, c, o, &s))
            continue;
        memset(&w, 0, sizeof(w));
        w.group = c->group->name;
        w.heads = s.info.heads;
        w.softmax_scale = 1.0 / 16;
        w.kernel[0] = s;
        label(c, s.info.heads, w.label, sizeof(w.label));
        if (!why)
            why = c->group->make(g, &s, c, &w);
        if (why && !*why)
            continue;
        fn(g, c, &w, why, user);
        count++;
    }
    return count;
}

/* --- the run -------------------------------------------------------------- */

/* Everything of a run. */
struct bench {
    struct gpu gpu;
    struct gpu_command options;
    struct gpu_settings settings;
    struct gpu_results results;
    struct gpu_case cases[GPU_MAX_CASES];
    int count;
    double begun;
};

/* work_fn that keeps the largest number of bytes. */
static void find_largest(struct gpu *g, const struct gpu_case *c,
                         const struct gpu_work *w, const char *why,
                         void *user)
{
    size_t *largest = user, bytes = why ? 0 : gpu_work_bytes(w);

    (void)g, (void)c;
    if (bytes > *largest)
        *largest = bytes;
}

/* --dry: the case as it would be measured. */
static void rehearse(struct gpu *g, const struct gpu_case *c,
                     const struct gpu_work *w, const char *why, void *user)
{
    struct bench *b = user;
    const uint64_t somewhere = UINT64_C(1) << 40;
    mla_args *args[GPU_MAX_KERNELS + 1] = {NULL};

    for (int i = 0; i < w->kernels && !why; i++)
        if (!gpu_bind(g, w, &w->kernel[i], somewhere, &args[i]))
            why = g->error;
    if (!why && w->has_first &&
        !gpu_bind(g, w, &w->first, somewhere, &args[GPU_MAX_KERNELS]))
        why = g->error;
    for (int i = 0; i <= GPU_MAX_KERNELS; i++)
        mla_args_free(args[i]);
    printf("%-9s %-23s %-8s %-9s flops %.0f bytes %.0f room %zu%s%s\n",
           c->group->name, w->label, w->kernel[0].info.arch,
           w->kernel[0].info.variant, w->flops, w->bytes, gpu_work_bytes(w),
           why ? "  FAIL  " : "", why ? why : "");
    b->results.failures += why != NULL;
    b->results.rehearsed++;
}

static int rehearse_cases(struct bench *b)
{
    int absent = 0;

    for (int i = 0; i < b->count; i++)
        absent += each_work(&b->gpu, &b->cases[i], &b->options, rehearse,
                            b) == 0;
    printf("%d rehearsed, %d failed, %d cases without a kernel\n",
           b->results.rehearsed, b->results.failures, absent);
    return b->results.failures || b->results.rehearsed == 0 ? EXIT_FAILED : 0;
}

/* Room for two copies of the largest work, and for the ceilings. */
static bool make_arena(struct bench *b)
{
    size_t largest = 0, least = b->settings.tiny ? 2u << 20 : (size_t)4 << 30;
    size_t free_bytes = 0, total = 0, want;

    for (int i = 0; i < b->count; i++)
        each_work(&b->gpu, &b->cases[i], &b->options, find_largest, &largest);
    want = 2 * largest > least ? 2 * largest : least;
    if (!gpu_good(&b->gpu, b->gpu.memory(&free_bytes, &total), "free memory"))
        return false;
    if (want > free_bytes / 10 * 9)
        want = free_bytes / 10 * 9;
    return gpu_make_arena(&b->gpu, want / 4096 * 4096);
}

/* work_fn that makes a row, measured or failed, and prints it at once: a run
 * that is cut short has shown what it had. */
static void measure(struct gpu *g, const struct gpu_case *c,
                    const struct gpu_work *w, const char *why, void *user)
{
    struct bench *b = user;
    struct gpu_row *row = gpu_add_row(&b->results);
    const mla_kernel_info *k = &w->kernel[0].info;

    row->c = *c;
    row->c.heads = w->heads;
    row->flops = w->flops;
    row->bytes = w->bytes;
    snprintf(row->group, sizeof(row->group), "%s", c->group->name);
    snprintf(row->label, sizeof(row->label), "%s", w->label);
    snprintf(row->symbol, sizeof(row->symbol), "%s", k->symbol);
    snprintf(row->variant, sizeof(row->variant), "%s", k->variant);
    snprintf(row->arch, sizeof(row->arch), "%s", k->arch);
    if (!why && !gpu_measure(g, w, &b->settings, &row->figure))
        why = g->error;
    if (why) {
        snprintf(row->why, sizeof(row->why), "%.500s", why);
        b->results.failures++;
    }
    gpu_print_row(&b->results, row);
}

/* In order, until the time is up; what is left out is counted. */
static void measure_cases(struct bench *b)
{
    for (int i = 0; i < b->count; i++) {
        if (now() - b->begun >= b->options.seconds) {
            printf("out of time: %d cases from %s on are left out\n",
                   b->count - i, b->cases[i].group->name);
            b->results.left_out = b->count - i;
            break;
        }
        if (each_work(&b->gpu, &b->cases[i], &b->options, measure, b) == 0)
            b->results.absent++;
    }
    b->results.seconds = now() - b->begun;
}

/* What the results say of the machine and the day. */
static void describe(struct bench *b)
{
    const mla_device_info *d = &b->gpu.device.info;
    struct gpu_results *r = &b->results;
    time_t t = time(NULL);
    struct tm day;

    snprintf(r->device, sizeof(r->device), "%s", d->name);
    snprintf(r->driver, sizeof(r->driver), "%.500s", d->driver);
    r->major = d->major;
    r->minor = d->minor;
    r->sms = d->sm_count;
    r->driver_version = d->driver_version;
    r->is_virtual = b->gpu.device.is_virtual;
    if (b->options.date)
        snprintf(r->date, sizeof(r->date), "%s", b->options.date);
    else
        strftime(r->date, sizeof(r->date), "%Y-%m-%d", gmtime_r(&t, &day));
}

/* The case list, thinned by the options. */
static void choose_cases(struct bench *b)
{
    int all = gpu_cases(b->options.tiny, b->cases, GPU_MAX_CASES);

    for (int i = 0; i < all; i++)
        if (gpu_is_listed(b->options.groups, b->cases[i].group->name))
            b->cases[b->count++] = b->cases[i];
}

/* Both files are tried; an exit status if one of them fails. */
static int write_results(const struct bench *b)
{
    const struct gpu_command *o = &b->options;
    const char *failed = NULL;

    if (o->json && !gpu_write_json(&b->results, o->json))
        failed = o->json;
    if (o->plot && !gpu_write_plot(&b->results, o->plot))
        failed = o->plot;
    if (failed)
        fprintf(stderr, "%s: error: %s\n", failed, strerror(errno));
    return failed ? EXIT_IO : 0;
}

/* The directory under measurement, and what its spec promises. */
static int load(struct bench *b)
{
    struct gpu *g = &b->gpu;
    const char *why = NULL;

    if (num_device_load(&g->device, b->options.directory))
        why = mla_last_error(g->device.ctx);
    else
        why = num_model_read(g->device.ctx,
                             mla_kernels_manifest(g->device.set), &g->model);
    if (why)
        fprintf(stderr, "gpu-bench: error: %s\n", why);
    return why ? EXIT_IO : 0;
}

/* From the directory to the files; the exit status. */
static int run(struct bench *b)
{
    struct gpu *g = &b->gpu;
    int code = load(b);

    if (code)
        return code;
    describe(b);
    choose_cases(b);
    if (b->options.dry)
        return rehearse_cases(b);
    b->settings = (struct gpu_settings){
        b->options.tiny, b->options.tiny ? 0 : 2000, b->options.tiny ? 3 : 15,
        b->options.tiny ? 4096 : g->l2};
    if (!make_arena(b) ||
        !gpu_copy_ceiling(g, &b->settings, &b->results.ceilings)) {
        fprintf(stderr, "gpu-bench: error: %s\n", g->error);
        return EXIT_NO_DEVICE;
    }
    gpu_gemm_ceiling(g, &b->results.ceilings);
    gpu_print_head(&b->results);
    measure_cases(b);
    gpu_settle_ceilings(&b->results);
    gpu_print_end(&b->results);
    code = write_results(b);
    if (!code && b->results.rows == 0 && !b->results.left_out) {
        fprintf(stderr, "gpu-bench: error: the directory has no kernel for "
                        "these cases\n");
        code = EXIT_NO_DEVICE;
    }
    return code ? code : b->results.failures ? EXIT_FAILED : 0;
}

int main(int argc, char **argv)
{
    static struct bench b;
    int code;

    b.begun = now();
    b.options.seconds = 300;
    if (argc == 2 && strcmp(argv[1], "-h") == 0) {
        gpu_print_usage();
        return 0;
    }
    if (!gpu_parse(argc, argv, &b.options))
        return EXIT_USAGE;
    if (b.options.list)
        return print_cases(&b.options);
    code = !gpu_open(&b.gpu)   ? no_device(&b.gpu)
           : b.options.device ? print_device(&b.gpu)
                              : run(&b);
    gpu_close(&b.gpu);
    free(b.results.row);
    return code;
}
