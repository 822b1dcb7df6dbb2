/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.c: see crew.h.  Jobs are not dealt out beforehand: each thread takes the
 * next one when it is done, since a decode kernel takes ten times as long as a
 * copy.
 */
#include "crew.h"

#include <stdatomic.h>

#include "workers.h"

/* What the threads of one run share. */
struct run {
    struct mlagen *g;
    mlagen_crew_fn fn;
    void *user;
    size_t count;
    atomic_size_t next;
    atomic_bool failed;
};

/* The host of a thread.  The first thread has the context's own, which has
 * loaded the checks already. */
static enum mlagen_status host_of(struct mlagen *g, size_t member,
                                  struct mlagen_host **host,
                                  struct mlagen_diags *d)
{
    enum mlagen_status status = MLAGEN_OK;

    if (member == 0) {
        *host = g->host;
        return MLAGEN_OK;
    }
    if (!g->crew[member - 1])
        status = mlagen_host_new(g->tree, NULL, &g->crew[member - 1], d);
    *host = g->crew[member - 1];
    return status;
}

/* One thread of the run, until no job is left or one has failed. */
static void work(void *user, size_t member)
{
    struct run *r = user;
    struct mlagen_host *host = NULL;
    struct mlagen_diags silent = {0};
    enum mlagen_status status = host_of(r->g, member, &host, &silent);

    while (status == MLAGEN_OK && !atomic_load(&r->failed)) {
        size_t index = atomic_fetch_add(&r->next, 1);

        if (index >= r->count)
            break;
        status = r->fn(r->user, host, index, &silent);
    }
    if (status != MLAGEN_OK)
        atomic_store(&r->failed, true);
    mlagen_diags_free(&silent);
}

/* All jobs on the context's host, in order. */
static enum mlagen_status work_here(struct run *r, struct mlagen_diags *d)
{
    enum mlagen_status status = MLAGEN_OK;

    for (size_t i = 0; i < r->count && status == MLAGEN_OK; i++)
        status = r->fn(r->user, r->g->host, i, d);
    return status;
}

/* How many hosts are worth their start. */
static size_t member_count(const struct mlagen *g, size_t count,
                           size_t per_host)
{
    size_t cpus = g->options.jobs ? g->options.jobs : mlagen_cpu_count();
    size_t n = count / per_host;

    n = n < cpus ? n : cpus;
    return n < MLAGEN_CREW + 1 ? n : MLAGEN_CREW + 1;
}

enum mlagen_status mlagen_crew_run(struct mlagen *g, size_t count,
                                   size_t per_host, mlagen_crew_fn fn,
                                   void *user, struct mlagen_diags *d)
{
    struct run r = {.g = g, .fn = fn, .user = user, .count = count};
    size_t members = member_count(g, count, per_host);

    if (members > 1) {
        mlagen_workers_run(members, members, work, NULL, &r);
        if (!atomic_load(&r.failed))
            return MLAGEN_OK;
    }
    return work_here(&r, d);
}

void mlagen_crew_free(struct mlagen *g)
{
    for (size_t i = 0; i < MLAGEN_CREW; i++)
        mlagen_host_free(g->crew[i]);
}
