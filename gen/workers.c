/* SPDX-License-Identifier: Apache-2.0
 *
 * workers.c: see workers.h.
 */
#include "workers.h"

#include <pthread.h>
#include <sched.h>

/* Handles of threads lie on the stack; no machine has use for more compilers
 * at once. */
enum { MAX_THREADS = 256 };

/* What the threads share.  lock guards the counts; `latest` is the index of
 * the job that ended last. */
struct workers {
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

/* Takes indices, in order, until none is left; the job runs without
 * the lock. */
static void *work(void *user)
{
    struct workers *w = user;

    pthread_mutex_lock(&w->lock);
    while (w->next < w->count) {
        size_t index = w->next++;

        pthread_mutex_unlock(&w->lock);
        w->job(w->user, index);
        pthread_mutex_lock(&w->lock);
        w->ended++;
        w->latest = index;
        pthread_cond_signal(&w->progress);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* The calling thread waits here and passes on what it hears.  The callback
 * runs without the lock, so that a slow terminal does not stop the others;
 * ends that come meanwhile are told together. */
static void watch(struct workers *w, mlagen_done_fn done)
{
    size_t told = 0;

    pthread_mutex_lock(&w->lock);
    while (told < w->count) {
        size_t latest;

        while (w->ended == told)
            pthread_cond_wait(&w->progress, &w->lock);
        told = w->ended;
        latest = w->latest;
        pthread_mutex_unlock(&w->lock);
        if (done)
            done(w->user, told, latest);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
}

void mlagen_workers_run(size_t count, size_t threads, mlagen_job_fn job,
                        mlagen_done_fn done, void *user)
{
    struct workers w = {.job = job, .user = user, .count = count};
    pthread_t ids[MAX_THREADS];
    size_t wanted = threads ? threads : mlagen_cpu_count(), started = 0;

    wanted = wanted < count ? wanted : count;
    wanted = wanted < MAX_THREADS ? wanted : MAX_THREADS;
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.progress, NULL);
    while (started < wanted &&
           pthread_create(&ids[started], NULL, work, &w) == 0)
        started++;
    if (started == 0)
        work(&w);
    watch(&w, done);
    for (size_t i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    pthread_cond_destroy(&w.progress);
    pthread_mutex_destroy(&w.lock);
}
