/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c: mutants of the kernels of a directory, one line of TAP each.
 *
 *     mutation DIR FAMILY...
 *
 * DIR is generated and built.  Of each family every kernel that is the best for
 * the device is mutated, site by site.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "mutation.h"

/* TAP lines so far; the plan comes last, when their number is known. */
struct tap {
    int tests, failures;
};

/* One line, flushed: a mutant may take its time. */
static void result(struct tap *t, bool good, const char *kernel,
                   const char *what)
{
    printf("%sok %d - %s: %s\n", good ? "" : "not ", ++t->tests, kernel,
           what);
    fflush(stdout);
    t->failures += !good;
}

/* A mutant must be noticed, or be listed as equivalent and not be noticed. */
static void try_site(struct tap *t, struct mutation_work *w, const char *name,
                     const char *ptx, const struct mutation_site *s)
{
    char *mutant = mutation_apply(ptx, s), noticed[512] = "", what[800];
    const char *reason = mutation_equivalent(&w->subject.info, s);
    bool good = mutation_noticed(w, mutant, noticed, sizeof(noticed));

    free(mutant);
    if (reason)
        snprintf(what, sizeof(what), "%s #%d %s (line %d): %s %s", s->opcode,
                 s->nth, mutation_name(s->kind), s->source_line,
                 good ? "is listed as equivalent but not so:" : "equivalent:",
                 good ? noticed : reason);
    else
        snprintf(what, sizeof(what), "%s #%d %s (line %d): %s", s->opcode,
                 s->nth, mutation_name(s->kind), s->source_line,
                 *noticed ? noticed : "nobody noticed");
    result(t, reason ? !good : good, name, what);
}

/* First the whole kernel, which has to be right, then each of its sites. */
static void try_kernel(struct tap *t, struct num_device *d, int index,
                       const struct num_model *model)
{
    struct mutation_work w;
    const char *wrong = mutation_work_open(d, index, model, &w);
    struct mutation_site *site = NULL;
    char name[128], *ptx = NULL;
    int count = 0;

    snprintf(name, sizeof(name), "%s%s%s", w.subject.info.family,
             *w.subject.info.variant ? " " : "", w.subject.info.variant);
    if (!wrong) {
        ptx = mutation_ptx(&w);
        wrong = ptx ? NULL : mla_last_error(d->ctx);
    }
    result(t, !wrong, name, wrong ? wrong : "the whole kernel is right");
    if (ptx)
        site = mutation_sites(ptx, &count);
    for (int i = 0; i < count && !wrong; i++)
        try_site(t, &w, name, ptx, &site[i]);
    mla__free(d->ctx, ptx);
    free(site);
    mutation_work_close(&w);
}

/* Whether a kernel is of the family and the one that its users get. */
static bool is_wanted(struct num_device *d, int index, const char *family)
{
    mla_kernel *k = mla_kernels_at(d->set, index), *best = NULL;
    mla_kernel_info info = {.size = sizeof(info)};

    mla_kernel_describe(k, &info);
    return strcmp(info.family, family) == 0 &&
           mla_find(d->set, info.family, info.variant, info.heads,
                    info.page_size, &best) == MLA_OK &&
           best == k;
}

/* A family that the directory lacks is a failure: it was asked for by name. */
static void try_families(struct tap *t, struct num_device *d,
                         const struct num_model *model, char **family)
{
    for (; *family; family++) {
        int before = t->tests;
        for (int i = 0; i < mla_kernels_count(d->set); i++)
            if (is_wanted(d, i, *family))
                try_kernel(t, d, i, model);
        if (t->tests == before)
            result(t, false, *family, "the directory has no such kernel");
    }
}

/* Only on the virtual GPU: a mutant may hang or destroy a real one's
 * context. */
int main(int argc, char **argv)
{
    struct num_device device;
    struct num_model model;
    struct tap tap = {0, 0};
    char why[1024];

    if (argc < 3) {
        fprintf(stderr, "usage: mutation DIR FAMILY...\n");
        return 2;
    }
    if (num_device_open(&device, NULL, why, sizeof(why))) {
        fprintf(stderr, "mutation: error: no device: %s\n", why);
        return 7;
    }
    if (!device.is_virtual || num_device_load(&device, argv[1]) ||
        num_model_read(device.ctx, mla_kernels_manifest(device.set),
                       &model)) {
        fprintf(stderr, "mutation: error: %s: %s\n", argv[1],
                device.is_virtual ? mla_last_error(device.ctx)
                                  : "needs the virtual GPU");
        num_device_close(&device);
        return 5;
    }
    try_families(&tap, &device, &model, argv + 2);
    num_device_close(&device);
    printf("1..%d\n", tap.tests);
    return tap.failures != 0;
}
