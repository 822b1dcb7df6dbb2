/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c: mlagen-run-check, the proof that a directory's kernels answer right.
 *
 *     mlagen-run-check DIR [flags]
 *
 * For every kernel of DIR's manifest that is the best match for the device,
 * runs its cases against an fp64 oracle and prints one row per group.
 * Exit status: 0 all passed, 1 a failure, 2 usage, 5 the directory cannot be
 * read, 7 no device or no kernel for it.
 *
 * A run has three layers: this file picks the kernels, suite.c (decode_suite,
 * mha_suite) their cases, run.c places, launches and judges each.  The layer's
 * equivalence comes after the kernels, on all of them together.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "forward.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_IO = 5, EXIT_NO_DEVICE = 7 };

static const char usage[] =
    "usage: mlagen-run-check DIR [flags]\n"
    "  --family a,b   only these kernel families; layer and forward: of all\n"
    "  --heads n      only kernels of this local head count\n"
    "  --seed n       of inputs and schedules (default: from the clock)\n"
    "  --seeds k      schedules of the virtual GPU per case (default 2)\n"
    "  --cases set    quick or full (default quick)\n"
    "  --json         one JSON object instead of rows\n"
    "  -q, -v, -h     only failures; also the runtime's log; this text\n"
    "The driver is $MLA_DRIVER, libcuda.so.1, or libvgpu.so beside this\n"
    "program, in that order.\n";

/* The command line; families is a list with commas, NULL for all. */
struct command {
    const char *directory, *families;
    int heads;
    struct num_options options;
};

/* A whole decimal or 0x number; false for anything else. */
static bool parse_number(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 0);
    return *text >= '0' && *text <= '9' && *end == 0 && errno == 0;
}

/* A flag with a value; false if it is unknown or the value is not one. */
static bool set_valued(struct command *c, const char *flag, const char *value)
{
    uint64_t n = 0;
    bool number = value && parse_number(value, &n);

    if (!value)
        return false;
    if (strcmp(flag, "--family") == 0)
        c->families = value;
    else if (strcmp(flag, "--heads") == 0 && number && n > 0 && n < 65536)
        c->heads = (int)n;
    else if (strcmp(flag, "--seed") == 0 && number)
        c->options.seed = n;
    else if (strcmp(flag, "--seeds") == 0 && number && n > 1 && n < 10000)
        c->options.schedules = (int)n;
    else if (strcmp(flag, "--cases") == 0 && strcmp(value, "full") == 0)
        c->options.full = true;
    else if (strcmp(flag, "--cases") != 0 || strcmp(value, "quick") != 0)
        return false;
    return true;
}

/* A flag without a value. */
static bool set_plain(struct command *c, const char *flag)
{
    struct {
        const char *flag;
        bool *value;
    } plain[] = {{"--json", &c->options.json},
                 {"-q", &c->options.quiet},
                 {"-v", &c->options.verbose}};

    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        if (strcmp(plain[i].flag, flag) == 0) {
            *plain[i].value = true;
            return true;
        }
    return false;
}

/* Flags take their value as the next word or after '='. */
static bool parse(int argc, char **argv, struct command *c)
{
    for (int i = 1; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        bool good;
        if (argv[i][0] != '-') {
            good = !c->directory;
            c->directory = argv[i];
        } else if (set_plain(c, argv[i])) {
            good = true;
        } else if (equals) {
            *equals = 0;
            good = set_valued(c, argv[i], equals + 1);
        } else {
            good = set_valued(c, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
            i++;
        }
        if (!good) {
            fprintf(stderr, "mlagen-run-check: error: '%s' is not understood"
                            "\n%s", argv[i < argc ? i : argc - 1], usage);
            return false;
        }
    }
    if (!c->directory)
        fprintf(stderr, "mlagen-run-check: error: no directory\n%s", usage);
    return c->directory != NULL;
}

/* Short enough to be typed again. */
static uint64_t clock_seed(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000) %
           1000000000;
}

static void print_log(void *user, int level, const char *text)
{
    static const char *const names[] = {"error", "warning", "note"};
    (void)user;
    if (level == MLA_LOG_ERROR)
        return; /* every error ends up in a row, and refusals provoke many */
    fprintf(stderr, "mlagen-run-check: %s: %s\n", names[level], text);
}

/* Whether name is in a comma-separated list; NULL lists all. */
static bool listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1
                                                     : NULL)
        if (strncmp(p, name, length) == 0 &&
            (p[length] == ',' || p[length] == 0))
            return true;
    return list == NULL;
}

/* A row for a kernel without a verdict of its own. */
static void complain(const struct num_options *o, const char *kernel,
                     const char *why, struct num_totals *totals)
{
    num_report_failure(kernel, "all", why, o, totals);
}

/* The kernel that a user of this device would get in place of k, once. */
static bool is_best(mla_kernels *set, mla_kernel *k,
                    const mla_kernel_info *info, mla_status *status)
{
    mla_kernel *best = NULL;
    *status = mla_find(set, info->family, info->variant, info->heads,
                       info->page_size, &best);
    return best == k;
}

/* Kernels that differ in their variant or architecture only. */
static bool same_use(const mla_kernel_info *a, const mla_kernel_info *b)
{
    return strcmp(a->family, b->family) == 0 && a->heads == b->heads &&
           a->page_size == b->page_size;
}

/* Reports a combination that has no kernel for the device, at its first
 * mention in the manifest. */
static bool first_mention(mla_kernels *set, int index,
                          const mla_kernel_info *info)
{
    for (int i = 0; i < index; i++) {
        mla_kernel_info other = {.size = sizeof(other)};
        mla_kernel_describe(mla_kernels_at(set, i), &other);
        if (same_use(&other, info) &&
            strcmp(other.variant, info->variant) == 0)
            return false;
    }
    return true;
}

/* Whether some variant of the family has a kernel for the device.  Variants
 * are not the same on all architectures (the tiles of mqa_decode are not): one
 * that the device has none of is missed only where it has none at all. */
static bool family_runs(mla_kernels *set, const mla_kernel_info *info)
{
    for (int i = 0; i < mla_kernels_count(set); i++) {
        mla_kernel_info other = {.size = sizeof(other)};
        mla_status status;

        mla_kernel_describe(mla_kernels_at(set, i), &other);
        if (same_use(&other, info) &&
            is_best(set, mla_kernels_at(set, i), &other, &status))
            return true;
    }
    return false;
}

/* Every kernel that was asked for and is the device's best; returns how many
 * there were.  Kernels are named by their place, since a failure reloads the
 * directory. */
static int check_kernels(struct num_device *d, const struct num_model *model,
                         const struct command *c, struct num_totals *totals)
{
    int run = 0;

    for (int i = 0; i < mla_kernels_count(d->set); i++) {
        mla_kernel *k = mla_kernels_at(d->set, i);
        mla_kernel_info info = {.size = sizeof(info)};
        struct num_subject subject;
        const char *wrong;
        mla_status status;

        mla_kernel_describe(k, &info);
        if (!listed(c->families, info.family) ||
            (c->heads && c->heads != info.heads))
            continue;
        if (!is_best(d->set, k, &info, &status)) {
            if (status && first_mention(d->set, i, &info) &&
                !family_runs(d->set, &info)) {
                is_best(d->set, k, &info, &status); /* for its message */
                complain(&c->options, info.symbol, mla_last_error(d->ctx),
                         totals);
            }
            continue;
        }
        run++;
        wrong = num_subject_read(d->ctx, d->set, i, model, &subject);
        if (wrong)
            complain(&c->options, info.symbol, wrong, totals);
        else
            num_suite_run(d, &subject, &c->options, totals);
    }
    return run;
}

/* Loads, runs, and turns the totals into an exit status.  That nothing was
 * run is no success: a mistyped --family must not pass. */
static int check_directory(struct num_device *d, const struct command *c)
{
    struct num_totals totals = {0, 0, true};
    struct num_model model;
    const char *wrong;
    int run;

    if (num_device_load(d, c->directory) != MLA_OK) {
        fprintf(stderr, "%s: error: %s\n", c->directory,
                mla_last_error(d->ctx));
        return EXIT_IO;
    }
    wrong = num_model_read(d->ctx, mla_kernels_manifest(d->set), &model);
    if (wrong) {
        fprintf(stderr, "%s/manifest.json: error: %s\n", c->directory, wrong);
        return EXIT_IO;
    }
    num_report_begin(d, &c->options);
    run = check_kernels(d, &model, c, &totals);
    if (listed(c->families, "layer") && (run || c->families))
        run += layer_suite_run(d, &model, c->heads, c->families != NULL,
                               &c->options, &totals);
    if (c->families && listed(c->families, "forward"))
        run += forward_suite_run(d, &model, c->heads, true, &c->options,
                                 &totals);
    num_report_end(&c->options, &totals);
    if (run == 0) {
        fprintf(stderr, "%s: error: no kernel that was asked for runs on %s "
                        "(%d.%d)\n", c->directory, d->info.name,
                d->info.major, d->info.minor);
        return EXIT_NO_DEVICE;
    }
    return totals.failed ? EXIT_FAILED : EXIT_SUCCESS;
}

/* Help is looked for first, so that it works beside any mistake.  The layer's
 * rows come with the others, or by --family layer alone. */
int main(int argc, char **argv)
{
    struct command c = {.options = {.schedules = 2, .seed = clock_seed()}};
    struct num_device device;
    char why[1024];
    int status;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            return EXIT_SUCCESS;
        }
    if (!parse(argc, argv, &c))
        return EXIT_USAGE;
    c.options.progress = isatty(STDERR_FILENO) && !c.options.json;
    if (num_device_open(&device, c.options.verbose ? print_log : NULL, why,
                        sizeof(why))) {
        fprintf(stderr, "mlagen-run-check: error: no device: %s\n", why);
        return EXIT_NO_DEVICE;
    }
    status = check_directory(&device, &c);
    num_device_close(&device);
    return status;
}
