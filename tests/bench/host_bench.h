/* SPDX-License-Identifier: Apache-2.0
 *
 * host_bench.h: what the programs share that time the runtime on the host
 * alone.
 */
#ifndef HOST_BENCH_H
#define HOST_BENCH_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "mla.h"

/* CPU time: the machine may have other work. */
static inline double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Ends the program when a call has failed: a wrong figure is worse. */
static inline void must(mla_status status, const char *what)
{
    if (!status)
        return;
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what,
            mla_status_text(status));
    exit(1);
}

/* For qsort. */
static inline int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the figures of all rounds. */
static inline double median(double *figures, int rounds)
{
    qsort(figures, (size_t)rounds, sizeof(*figures), by_value);
    return figures[rounds / 2];
}

#endif
