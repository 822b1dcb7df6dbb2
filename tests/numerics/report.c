/* SPDX-License-Identifier: Apache-2.0
 *
 * report.c: rows for people, or one JSON object for programs.
 *
 * A row is a kernel and a group of its cases: how many, the largest errors,
 * the cosine distance, and `of bar`, the largest error over its own
 * tolerance, which is what passes or fails (1.00 is the limit).
 */
#include <stdio.h>
#include <string.h>

#include "suite.h"

/* A JSON string on stdout; names and messages may hold quotes and line ends. */
static void print_string(const char *text)
{
    putchar('"');
    for (const char *p = text; *p; p++) {
        if (*p == '"' || *p == '\\')
            printf("\\%c", *p);
        else if ((unsigned char)*p < 0x20)
            printf("\\u%04x", *p);
        else
            putchar(*p);
    }
    putchar('"');
}

/* Rows are wide because symbols are; columns line up under the header. */
static const char row_format[] = "%-58s %-15s %5s %9s %9s %9s %6s  %-4s  %s\n";

/* The seed is in both forms: with it and the kernel's name a failure can be
 * run again by itself. */
void num_report_begin(const struct num_device *device,
                      const struct num_options *o)
{
    if (o->json) {
        printf("{\"device\": ");
        print_string(device->info.name);
        printf(", \"capability\": \"%d.%d\", \"driver\": ",
               device->info.major, device->info.minor);
        print_string(device->info.driver);
        printf(", \"seed\": %llu,\n \"rows\": [",
               (unsigned long long)o->seed);
    } else if (!o->quiet) {
        printf("device %s (%d.%d), driver %s, seed %llu\n", device->info.name,
               device->info.major, device->info.minor, device->info.driver,
               (unsigned long long)o->seed);
        printf(row_format, "kernel", "cases", "n", "max abs", "max rel",
               "cosine", "of bar", "", "tolerance");
    }
}

/* Back to the line's start and clear it (ECMA-48): progress is on stderr, a
 * terminal, and the row on stdout comes after it. */
static void clear_progress(const struct num_options *o)
{
    if (o->progress)
        fprintf(stderr, "\r\033[K");
}

/* One line that rewrites itself, so that a run of minutes shows where it is. */
void num_report_progress(const char *kernel, const char *group, int done,
                         int all, const struct num_options *o)
{
    if (o->progress)
        fprintf(stderr, "\r\033[K[%d/%d] %s: %s", done + 1, all, kernel,
                group);
}

/* Numbers with digits enough to read them back. */
static void json_row(const char *kernel, const char *group, const char *bar,
                     const struct num_verdict *v, bool passed,
                     struct num_totals *totals)
{
    printf("%s\n  {\"kernel\": ", totals->first_row ? "" : ",");
    totals->first_row = false;
    print_string(kernel);
    printf(", \"cases\": ");
    print_string(group);
    printf(", \"n\": %d, \"launches\": %d, \"max_abs\": %.9g, "
           "\"max_rel\": %.9g, \"cosine\": %.9g, \"of_bar\": %.4g, "
           "\"tolerance\": ",
           v->cases, v->launches, v->max_abs, v->max_rel,
           num_cosine_distance(v), v->worst);
    print_string(bar);
    printf(", \"pass\": %s", passed ? "true" : "false");
    if (!passed) {
        printf(", \"failures\": %d, \"why\": ", v->failures);
        print_string(v->why);
    }
    printf("}");
}

/* A failed row is followed by its first failure. */
static void text_row(const char *kernel, const char *group, const char *bar,
                     const struct num_verdict *v, bool passed)
{
    char n[16], abs[16], rel[16], cosine[16], worst[16];

    snprintf(n, sizeof(n), "%d", v->cases);
    snprintf(abs, sizeof(abs), "%.2e", v->max_abs);
    snprintf(rel, sizeof(rel), "%.2e", v->max_rel);
    snprintf(cosine, sizeof(cosine), "%.1e", num_cosine_distance(v));
    snprintf(worst, sizeof(worst), "%.2f", v->worst);
    printf(row_format, kernel, group, n, abs, rel, cosine, worst,
           passed ? "ok" : "FAIL", bar);
    if (!passed)
        printf("  %d wrong; first: %s\n", v->failures, v->why);
}

/* Each row is flushed: whoever watches a pipe sees it when it is known, and a
 * crash of a kernel later takes nothing with it.  -q leaves out what passed. */
void num_report_row(const char *kernel, const char *group, const char *bar,
                    const struct num_verdict *v, bool passed,
                    const struct num_options *o, struct num_totals *totals)
{
    clear_progress(o);
    totals->passed += passed;
    totals->failed += !passed;
    if (o->json)
        json_row(kernel, group, bar, v, passed, totals);
    else if (!o->quiet || !passed)
        text_row(kernel, group, bar, v, passed);
    fflush(stdout);
}

/* A row that has nothing but its failure. */
void num_report_failure(const char *kernel, const char *group,
                        const char *why, const struct num_options *o,
                        struct num_totals *totals)
{
    struct num_verdict v = {.failures = 1};
    snprintf(v.why, sizeof(v.why), "%s", why);
    num_report_row(kernel, group, "", &v, false, o, totals);
}

/* The last line, also with -q. */
void num_report_end(const struct num_options *o,
                    const struct num_totals *totals)
{
    if (o->json)
        printf("\n ],\n \"passed\": %d, \"failed\": %d}\n", totals->passed,
               totals->failed);
    else
        printf("%d passed, %d failed\n", totals->passed, totals->failed);
}
