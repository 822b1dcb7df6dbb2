/* SPDX-License-Identifier: Apache-2.0
 *
 * prepare.c: kernels onto the device before they are needed, one or many.
 *
 * What needs no compiler is loaded at once, in order.  The rest is compiled
 * by a few threads and loaded by the caller's as it comes in.  A thread works
 * in a small context of its own, so that it neither touches the caller's
 * error text nor calls the caller's log; its allocations take turns.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "internal.h"

/* One kernel ----------------------------------------------------------------
 */

/* Loads an image and lets go of it. */
static mla_status load(mla_kernel *k, struct mla__image *image, bool *refused)
{
    mla_status status = mla__module_load(k, image, refused);
    mla__image_free(k->owner->ctx, image);
    return status;
}

/* Without a compiler, as far as that goes: *missing is set, and *kind says
 * what the compiler is to make, when there is nothing that the driver takes.
 * A cubin that the driver refuses is followed by a look for PTX. */
static mla_status load_found(mla_kernel *k, enum mla__kind *kind, bool *missing)
{
    mla_context *ctx = k->owner->ctx;
    struct mla__image image;
    bool found, refused;
    mla_status status = mla__module_kind(k, kind);

    *missing = false;
    for (; !status; *kind = MLA__PTX) {
        status = mla__image_find(ctx, k, *kind, &image, &found);
        *missing = !found;
        if (status || !found)
            return status;
        status = load(k, &image, &refused);
        if (!refused)
            return status;
    }
    return status;
}

/* By the compiler, on this thread.  A driver that refuses the machine code
 * gets PTX next; of PTX a refusal is an error, so this goes one level deep. */
static mla_status load_compiled(mla_kernel *k, enum mla__kind kind)
{
    mla_context *ctx = k->owner->ctx;
    struct mla__image image;
    bool refused = false;
    mla_status status = mla__image_begin(ctx);

    if (!status)
        status = mla__image_compile(ctx, k, kind, &image);
    if (!status)
        status = load(k, &image, &refused);
    if (refused)
        status = load_compiled(k, MLA__PTX);
    return status;
}

/* For a kernel that is there it costs one comparison: launches call it too. */
mla_status mla_prepare(mla_kernel *k)
{
    enum mla__kind kind;
    bool missing;
    mla_status status;

    if (!k)
        return MLA_INVALID_ARGUMENT;
    if (k->function)
        return MLA_OK;
    status = mla__enter(k->owner->ctx);
    if (status)
        return status;
    status = load_found(k, &kind, &missing);
    if (!status && missing)
        status = load_compiled(k, kind);
    mla__leave(k->owner->ctx);
    return status;
}

/* Compiling in parallel -----------------------------------------------------
 */

/* A line of log that waits for the caller's thread. */
struct line {
    struct line *next;
    int level;
    char *text;
};

/* A kernel that needs the compiler, what became of it, and the context that
 * its thread works in. */
struct job {
    mla_context ctx;
    mla_kernel *k;
    enum mla__kind kind;
    struct mla__image image;
    mla_status status;
    struct line *log, **log_end;
    struct job *next; /* among the finished */
};

/* What the threads share.  mutex guards the hand-out of jobs (taken) and
 * the list of finished ones (done); a job belongs to the thread that has
 * taken it. */
struct crew {
    mla_context *ctx;
    const mla_prepare_options *options;
    pthread_mutex_t mutex;
    pthread_cond_t finished;
    struct job *jobs, *done;
    int count, taken;
    /* of the caller's thread */
    int total, ready;
    mla_status status; /* the first failure, whose text is in error */
    char *error;
};

/* Keeps a line for the caller's thread to pass on; errors are told there. */
static void keep_line(void *user, int level, const char *text)
{
    struct job *job = user;
    struct line *line;

    if (level == MLA_LOG_ERROR)
        return;
    line = mla__alloc(&job->ctx, sizeof(*line));
    if (!line)
        return;
    line->level = level;
    line->text = mla__strdup(&job->ctx, text);
    *job->log_end = line;
    job->log_end = &line->next;
}

/* The compiler and the cache are shared: both bear it once they are open. */
static void begin_job(const struct crew *crew, struct job *job)
{
    job->log_end = &job->log;
    job->ctx.options = crew->ctx->options;
    job->ctx.options.log = keep_line;
    job->ctx.options.log_user = job;
    job->ctx.nvrtc = crew->ctx->nvrtc;
    job->ctx.cache = crew->ctx->cache;
}

/* The next job, or NULL. */
static struct job *take_job(struct crew *crew)
{
    struct job *job = NULL;

    pthread_mutex_lock(&crew->mutex);
    if (crew->taken < crew->count)
        job = &crew->jobs[crew->taken++];
    pthread_mutex_unlock(&crew->mutex);
    return job;
}

/* Puts a job among the finished; from here on it is the caller's thread's. */
static void hand_over(struct crew *crew, struct job *job)
{
    pthread_mutex_lock(&crew->mutex);
    job->next = crew->done;
    crew->done = job;
    pthread_cond_signal(&crew->finished);
    pthread_mutex_unlock(&crew->mutex);
}

/* A thread: compiles until no job is left.  Touches no CUDA: loading needs the
 * context that the caller's thread has made current. */
static void *work(void *user)
{
    struct crew *crew = user;
    struct job *job;

    while ((job = take_job(crew))) {
        begin_job(crew, job);
        job->status =
            mla__image_compile(&job->ctx, job->k, job->kind, &job->image);
        hand_over(crew, job);
    }
    return NULL;
}

/* A finished job, in no particular order.  Where no thread could be started
 * this one does the next, and only that: count is lowered while it works. */
static struct job *await_job(struct crew *crew, int threads)
{
    struct job *job;

    if (threads == 0) {
        int all = crew->count;
        crew->count = crew->taken + 1;
        work(crew);
        crew->count = all;
    }
    pthread_mutex_lock(&crew->mutex);
    while (!crew->done)
        pthread_cond_wait(&crew->finished, &crew->mutex);
    job = crew->done;
    crew->done = job->next;
    pthread_mutex_unlock(&crew->mutex);
    return job;
}

/* On the caller's thread --------------------------------------------------
 */

/* A kernel is on the device, or has failed: the first failure is kept, since
 * the others go on. */
static void settle(struct crew *crew, mla_kernel *k, mla_status status)
{
    if (!status) {
        crew->ready++;
        if (crew->options->progress)
            crew->options->progress(crew->options->user, crew->ready,
                                    crew->total, k);
    } else if (!crew->status) {
        crew->status = status;
        crew->error = mla__strdup(crew->ctx, mla_last_error(crew->ctx));
    }
}

/* Passes the job's log on and frees it. */
static void tell(mla_context *ctx, struct job *job)
{
    struct line *next;

    for (struct line *line = job->log; line; line = next) {
        next = line->next;
        if (line->text)
            mla__log(ctx, line->level, "%s", line->text);
        mla__free(ctx, line->text);
        mla__free(ctx, line);
    }
}

/* Log, error or image of a finished job.  The error moves from the job's
 * context to the caller's, and with it to the log. */
static void finish(struct crew *crew, struct job *job)
{
    mla_context *ctx = crew->ctx;
    mla_status status = job->status;
    bool refused = false;

    tell(ctx, job);
    if (status)
        mla__fail(ctx, status, "%s", mla_last_error(&job->ctx));
    else
        status = load(job->k, &job->image, &refused);
    if (refused)
        status = load_compiled(job->k, MLA__PTX);
    mla__free(ctx, job->ctx.error);
    settle(crew, job->k, status);
}

/* As many as asked for, else as the process has CPUs (its affinity, not the
 * machine's), but no more than jobs. */
static int thread_count(const struct crew *crew)
{
    cpu_set_t cpus;
    int wanted = crew->options->jobs;

    if (wanted <= 0)
        wanted =
            sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 : CPU_COUNT(&cpus);
    return wanted < crew->count ? wanted : crew->count;
}

/* All jobs, by threads that end before this returns.  Fewer threads than
 * wanted are no failure: the others take the jobs. */
static void run_jobs(struct crew *crew)
{
    enum { MAX_THREADS = 64 };
    pthread_t threads[MAX_THREADS];
    int wanted = thread_count(crew), started = 0;

    while (started < wanted && started < MAX_THREADS &&
           !pthread_create(&threads[started], NULL, work, crew))
        started++;
    for (int i = 0; i < crew->count; i++)
        finish(crew, await_job(crew, started));
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

/* A kernel that is there already counts as one that was loaded; one without an
 * image becomes a job. */
static void prepare_found(struct crew *crew, mla_kernel *k)
{
    enum mla__kind kind;
    bool missing = false;
    mla_status status = k->function ? MLA_OK : load_found(k, &kind, &missing);

    if (!status && missing && crew->ctx->takes == MLA__TAKES_UNKNOWN &&
        kind == MLA__CUBIN) {
        /* One is compiled ahead of the rest: it shows whether the driver
         * takes machine code at all. */
        status = load_compiled(k, kind);
        missing = false;
    }
    if (missing)
        crew->jobs[crew->count++] = (struct job){.k = k, .kind = kind};
    else
        settle(crew, k, status);
}

/* What is to be compiled, after all others are on the device.  Without NVRTC
 * the first of them stands for all in the error. */
static void prepare_missing(struct crew *crew)
{
    mla_status status = mla__image_begin(crew->ctx);

    if (!status)
        run_jobs(crew);
    else
        settle(crew, crew->jobs[0].k, status);
}

/* Takes over what the caller's options have room for. */
static mla_status read_options(const mla_prepare_options *given,
                               mla_prepare_options *out)
{
    *out = (mla_prepare_options){.size = sizeof(*out)};
    if (!given)
        return MLA_OK;
    if (given->size < sizeof(given->size))
        return MLA_INVALID_ARGUMENT;
    memcpy(out, given, given->size < sizeof(*out) ? given->size : sizeof(*out));
    return MLA_OK;
}

/* Prepares all kernels, then reports the first failure; whether there were
 * more is added to its text. */
static mla_status run_crew(struct crew *crew, mla_kernel *const *kernels)
{
    mla_context *ctx = crew->ctx;
    mla_status status = mla__enter(ctx);

    if (status)
        return status;
    for (int i = 0; i < crew->total; i++)
        prepare_found(crew, kernels[i]);
    if (crew->count)
        prepare_missing(crew);
    if (crew->status)
        mla__fail(ctx, crew->status, "%s%s",
                  crew->error ? crew->error : "out of memory",
                  crew->total - crew->ready > 1 ? "\n(others failed too)" : "");
    mla__leave(ctx);
    return crew->status;
}

/* All kernels are of one set, and so of one context. */
static bool one_set(mla_kernel *const *kernels, int count)
{
    for (int i = 0; i < count; i++)
        if (!kernels[i] || kernels[i]->owner != kernels[0]->owner)
            return false;
    return true;
}

/* Options of an older header lack the later members, which are then 0. */
mla_status mla_prepare_some(mla_kernel *const *kernels, int count,
                            const mla_prepare_options *options)
{
    mla_prepare_options wanted;
    struct crew crew = {.options = &wanted,
                        .total = count,
                        .mutex = PTHREAD_MUTEX_INITIALIZER,
                        .finished = PTHREAD_COND_INITIALIZER};
    mla_status status;

    if (count < 0 || (count && !kernels) || !one_set(kernels, count))
        return MLA_INVALID_ARGUMENT;
    status = read_options(options, &wanted);
    if (status || !count)
        return status;
    crew.ctx = kernels[0]->owner->ctx;
    crew.jobs = mla__alloc(crew.ctx, (size_t)count * sizeof(*crew.jobs));
    if (!crew.jobs)
        return mla__fail(crew.ctx, MLA_OUT_OF_MEMORY, "%d kernels", count);
    status = run_crew(&crew, kernels);
    mla__free(crew.ctx, crew.error);
    mla__free(crew.ctx, crew.jobs);
    return status;
}

/* All of a set ------------------------------------------------------------
 */

/* Whether mla_find, asked for exactly such a kernel, would choose this. */
static bool chosen(const mla_kernels *set, const mla_kernel *k)
{
    const mla_device_info *info = &set->ctx->info;
    int rank = mla__arch_rank(k->arch, info->major, info->minor);

    if (!rank)
        return false;
    for (int i = 0; i < set->count; i++) {
        const mla_kernel *other = &set->kernel[i];
        if (other->heads == k->heads && other->page_size == k->page_size &&
            mla__arch_rank(other->arch, info->major, info->minor) > rank &&
            strcmp(other->family, k->family) == 0 &&
            strcmp(other->variant, k->variant) == 0)
            return false;
    }
    return true;
}

/* The device must be known first: what mla_find would choose depends on it. */
mla_status mla_prepare_all(mla_kernels *set, const mla_prepare_options *options)
{
    mla_kernel **list;
    mla_status status;
    int count = 0;

    if (!set)
        return MLA_INVALID_ARGUMENT;
    status = mla__device_open(set->ctx);
    if (status)
        return status;
    list = mla__alloc(set->ctx, (size_t)set->count * sizeof(mla_kernel *));
    if (!list)
        return mla__fail(set->ctx, MLA_OUT_OF_MEMORY, "%s", set->directory);
    for (int i = 0; i < set->count; i++)
        if (chosen(set, &set->kernel[i]))
            list[count++] = &set->kernel[i];
    status = mla_prepare_some(list, count, options);
    mla__free(set->ctx, list);
    return status;
}
