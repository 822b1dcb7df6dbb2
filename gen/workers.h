/* SPDX-License-Identifier: Apache-2.0
 *
 * workers.h: the same function over many indices, on a few threads.
 */
#ifndef MLAGEN_WORKERS_H
#define MLAGEN_WORKERS_H

#include <stddef.h>

/* Does job `index`; called from any thread, once per index. */
typedef void (*mlagen_job_fn)(void *user, size_t index);

/* Told after jobs have ended, from the thread that called mlagen_workers_run:
 * how many so far, and the index of the latest.  Several ends may be told as
 * one; the last call has done == count. */
typedef void (*mlagen_done_fn)(void *user, size_t done, size_t latest);

/* CPUs that this process may run on; at least 1. */
size_t mlagen_cpu_count(void);

/* Runs job(user, 0 .. count - 1) on up to `threads` threads (0: one per CPU)
 * and returns when all have ended.  Jobs begin in order.  Where no thread can
 * be started the caller's does the work.  `done` may be NULL. */
void mlagen_workers_run(size_t count, size_t threads, mlagen_job_fn job,
                        mlagen_done_fn done, void *user);

#endif
