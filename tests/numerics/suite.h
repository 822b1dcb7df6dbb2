/* SPDX-License-Identifier: Apache-2.0
 *
 * suite.h: which cases a kernel gets, and one report row per group of them.
 */
#ifndef NUM_SUITE_H
#define NUM_SUITE_H

#include "run.h"

struct num_options {
    bool full;      /* the wide set of cases */
    int schedules;  /* of the virtual GPU per case, at least 2 */
    uint64_t seed;  /* of inputs and schedules */
    bool json, quiet, verbose, progress;
};

struct num_totals {
    int passed, failed;
    bool first_row; /* JSON: no comma yet */
};

/* The shapes of one kernel, in order, groups together; free() the array. */
struct num_shape *num_suite_shapes(const struct num_subject *s,
                                   const struct num_family *family, bool full,
                                   int *count);

/* Runs every group of a kernel and prints its rows on stdout. */
void num_suite_run(struct num_device *device, struct num_subject *s,
                   const struct num_options *options,
                   struct num_totals *totals);

/* Prints a row for something that could not run at all. */
void num_report_failure(const char *kernel, const char *group,
                        const char *why, const struct num_options *options,
                        struct num_totals *totals);

/* The seed of a case depends on the kernel and the case alone, so that one
 * family can be rerun by itself. */
uint64_t num_case_seed(const struct num_subject *s,
                       const struct num_options *options, int index);

/* After a kernel that failed, nothing runs in its context any more: makes a
 * new one, in which *s is found again.  False: that failed, and v says so. */
bool num_recover(struct num_device *device, struct num_subject *s,
                 struct num_verdict *v);

/* The row of a group of cases, whose cosine distance counts too. */
void num_report_group(const char *kernel, const char *group, const char *bar,
                      struct num_verdict *v,
                      const struct num_options *options,
                      struct num_totals *totals);

void num_report_begin(const struct num_device *device,
                      const struct num_options *options);
void num_report_end(const struct num_options *options,
                    const struct num_totals *totals);

void num_report_row(const char *kernel, const char *group, const char *bar,
                    const struct num_verdict *v, bool passed,
                    const struct num_options *options,
                    struct num_totals *totals);
void num_report_progress(const char *kernel, const char *group, int done,
                         int all, const struct num_options *options);

#endif
