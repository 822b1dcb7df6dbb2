/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.c: see pool.h.
 */
#include "pool.h"

#include <pthread.h>
#include <sched.h>

enum { MAX_THREADS = 256 };

struct pool {
    mlagen_job_fn job;
    void *user;
    size_t count, next, ended, latest;
    pthread_mutex_t lock;
    pthread_cond_t progress;
};

size_t mlagen_cpu_count(void)
{
    cpu_set_t cpus;

    return sched_getaffinity(0, sizeof cpus, &cpus) == 0
               ? (size_t)CPU_COUNT(&cpus)
               : 1;
}

/* Takes indices until none is left. */
static void *work(void *user)
{
    struct pool *p = user;

    pthread_mutex_lock(&p->lock);
    while (p->next < p->count) {
        size_t index = p->next++;

        pthread_mutex_unlock(&p->lock);
        p->job(p->user, index);
        pthread_mutex_lock(&p->lock);
        p->ended++;
        p->latest = index;
        pthread_cond_signal(&p->progress);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* The calling thread waits here and passes on what it hears. */
static void watch(struct pool *p, mlagen_done_fn done)
{
    size_t told = 0;

    pthread_mutex_lock(&p->lock);
    while (told < p->count) {
        size_t latest;

        while (p->ended == told)
            pthread_cond_wait(&p->progress, &p->lock);
        told = p->ended;
        latest = p->latest;
        pthread_mutex_unlock(&p->lock);
        if (done)
            done(p->user, told, latest);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
}

void mlagen_pool_run(size_t count, size_t threads, mlagen_job_fn job,
                     mlagen_done_fn done, void *user)
{
    struct pool p = {.job = job, .user = user, .count = count};
    pthread_t ids[MAX_THREADS];
    size_t wanted = threads ? threads : mlagen_cpu_count(), started = 0;

    wanted = wanted < count ? wanted : count;
    wanted = wanted < MAX_THREADS ? wanted : MAX_THREADS;
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.progress, NULL);
    while (started < wanted &&
           pthread_create(&ids[started], NULL, work, &p) == 0)
        started++;
    if (started == 0)
        work(&p);
    watch(&p, done);
    for (size_t i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    pthread_cond_destroy(&p.progress);
    pthread_mutex_destroy(&p.lock);
}
