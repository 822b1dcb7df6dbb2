/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache among many: processes that start together, processes that are
 * killed or stopped in the middle, threads, contexts, forks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>

#include "cache_world.h"

enum { PROCESSES = 16, THREADS = 32, KEYS = 4 };

/* Processes --------------------------------------------------------------- */

/* What children wait for, so that all start at once. */
static atomic_int *gate;

static void open_gate(void)
{
    if (!gate)
        gate = mmap(NULL, sizeof(*gate), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    atomic_store(gate, 0);
}

/* A child that waits for the gate, gets `count` kernels, `first` first, and
 * exits with the number of failures. */
static pid_t child(int first, int count)
{
    pid_t pid = fork();
    int failures = 0;

    if (pid)
        return pid;
    while (!atomic_load(gate))
        sched_yield();
    for (int i = 0; i < count; i++)
        failures += world_start((first + i) % count + 1) != MLA_OK;
    _exit(failures);
}

/* Failures of all children. */
static int wait_all(const pid_t *pids, int count)
{
    int failures = 0, status;
    for (int i = 0; i < count; i++) {
        waitpid(pids[i], &status, 0);
        failures += !WIFEXITED(status) || WEXITSTATUS(status);
    }
    return failures;
}

static void run_processes(int keys)
{
    pid_t pids[PROCESSES];

    open_gate();
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = child(i, keys);
    atomic_store(gate, 1);
    assert_int_equal(wait_all(pids, PROCESSES), 0);
    assert_int_equal(entry_count(), keys);
    assert_int_equal(each_name("tmp.", NULL), 0);
}

static void sixteen_processes_compile_one_kernel_once(void **state)
{
    (void)state;
    fake_compiler->ms = 50;
    run_processes(1);
    assert_int_equal(fake_compilations(), 1);
}

static void sixteen_processes_compile_eight_kernels_once_each(void **state)
{
    (void)state;
    fake_compiler->ms = 10;
    run_processes(8);
    /* A second compilation of a key is waste, not a fault: a process that
     * found neither the entry nor the lock's owner in time goes ahead. */
    assert_in_range(fake_compilations(), 8, 12);
}

/* Many short rounds with no wait at all, to meet in every place. */
static void processes_meet_in_publication(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        remove_tree(world.folder);
        run_processes(2);
    }
}

static void killed_processes_leave_nothing_that_matters(void **state)
{
    pid_t pids[PROCESSES];

    (void)state;
    for (int round = 0; round < 20; round++) {
        remove_tree(world.folder);
        fake_compiler->ms = round % 4;
        open_gate();
        for (int i = 0; i < 4; i++)
            pids[i] = child(i, 4);
        atomic_store(gate, 1);
        usleep((useconds_t)(500 * round));
        for (int i = 0; i < 4; i++)
            kill(pids[i], SIGKILL);
        wait_all(pids, 4);
        for (int n = 1; n <= 4; n++)
            assert_int_equal(world_start(n), MLA_OK);
        assert_int_equal(entry_count(), 4);
    }
    assert_int_equal(each_name("tmp.", NULL), 0);
}

/* An unfinished entry of a dead process goes, one of a living one stays. */
static void leftovers_are_swept(void **state)
{
    char dead[5000], alive[5000];
    int fd;

    (void)state;
    assert_int_equal(world_start(1), MLA_OK);
    snprintf(dead, sizeof(dead), "%s/tmp.dead", world.folder);
    snprintf(alive, sizeof(alive), "%s/tmp.alive", world.folder);
    mkdir(dead, 0700);
    fake_file(dead, "image", "half an ima");
    mkdir(alive, 0700);
    fd = open(alive, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(world_start(1), MLA_OK);
    assert_int_equal(each_name("tmp.", NULL), 2); /* a reader sweeps not */
    assert_int_equal(world_start(2), MLA_OK);
    assert_int_equal(access(dead, F_OK), -1);
    assert_int_equal(access(alive, F_OK), 0);
    close(fd);
}

/* A process that sweeps, and sweeps again, until it is killed. */
static pid_t sweeping_child(void)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    for (;;) {
        mla_context *ctx = world_context();
        mla__cache_sweep(ctx);
        mla_context_destroy(ctx);
    }
}

/* Between a maker's mkdir and its lock the folder looks abandoned. */
static void sweeps_take_nothing_from_a_maker(void **state)
{
    enum { SWEEPERS = 3, MADE = 400 };
    pid_t pids[SWEEPERS];
    mla_context *ctx = world_context();

    (void)state;
    for (int i = 0; i < SWEEPERS; i++)
        pids[i] = sweeping_child();
    for (int n = 1; n <= MADE; n++)
        assert_int_equal(world_get(ctx, n, "sm_80", MLA__CUBIN), MLA_OK);
    for (int i = 0; i < SWEEPERS; i++)
        kill(pids[i], SIGKILL);
    wait_all(pids, SWEEPERS);
    mla_context_destroy(ctx);
    assert_int_equal(entry_count(), MADE);
    assert_int_equal(fake_compilations(), MADE);
    for (int n = 1; n <= MADE; n++)
        assert_int_equal(world_start(n), MLA_OK);
    assert_int_equal(fake_compilations(), MADE); /* and they are whole */
}

/* As if this process compiled everything there is. */
static void hold_every_lock(void)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    mla_context *ctx = world_context();
    mla__image_begin(ctx);
    if (fcntl(ctx->cache->lock, F_SETLK, &all))
        abort();
}

/* A process that holds the key's lock and never gets on. */
static pid_t stuck_child(void)
{
    int ready[2];
    char byte;
    pid_t pid;

    if (pipe(ready))
        abort();
    pid = fork();
    if (pid) {
        if (read(ready[0], &byte, 1) != 1)
            abort();
        close(ready[0]);
        close(ready[1]);
        return pid;
    }
    hold_every_lock();
    if (write(ready[1], "x", 1) != 1)
        abort();
    for (;;)
        pause();
}

static void a_stuck_process_is_waited_for_only_so_long(void **state)
{
    pid_t pid = stuck_child();
    mla_context *ctx = world_context();
    int status;

    (void)state;
    mla__cache_open(ctx)->wait_ms = 100;
    assert_int_equal(world_get(ctx, 1, "sm_80", MLA__CUBIN), MLA_OK);
    assert_non_null(strstr(world.last, "waited 100 ms"));
    mla_context_destroy(ctx);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    /* and with its death the lock is gone */
    world.lines = 0;
    assert_int_equal(world_start(2), MLA_OK);
    assert_int_equal(world.lines, 0);
}

/* Threads ----------------------------------------------------------------- */

struct thread {
    pthread_t id;
    mla_context *ctx;
    int number;
    mla_status status;
};

static pthread_barrier_t barrier;

static void *thread_main(void *user)
{
    struct thread *t = user;
    pthread_barrier_wait(&barrier);
    t->status = world_get(t->ctx, t->number, "sm_80", MLA__PTX);
    return NULL;
}

/* Contexts are made first: the fake driver is one for all. */
static void run_threads(struct thread *threads, const char *cache)
{
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        mla_options options = MLA_OPTIONS_INIT;
        options.cache = cache;
        threads[i].ctx = fake_context(&options);
        fake_nvrtc(threads[i].ctx, "compiler one");
        threads[i].number = i % KEYS + 1;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i].id, NULL, thread_main, &threads[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i].id, NULL);
    pthread_barrier_destroy(&barrier);
}

static void many_threads_compile_each_kernel_once(void **state)
{
    struct thread threads[THREADS];

    (void)state;
    fake_compiler->ms = 20;
    run_threads(threads, world.folder);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(threads[i].status, MLA_OK);
        mla_context_destroy(threads[i].ctx);
    }
    assert_int_equal(fake_compilations(), KEYS);
    assert_true(fake_compiler->most_under_way > 1);
}

/* Without a cache too: those who wait share the image in memory. */
static void threads_share_a_compilation_without_a_cache(void **state)
{
    struct thread threads[THREADS];

    (void)state;
    fake_compiler->ms = 200;
    run_threads(threads, "");
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(threads[i].status, MLA_OK);
        mla_context_destroy(threads[i].ctx);
    }
    assert_true(fake_compilations() < THREADS);
}

static void a_refusal_reaches_every_thread_that_waits(void **state)
{
    struct thread threads[THREADS];

    (void)state;
    fake_compiler->ms = 20;
    fake_compiler->refusing = 2;
    run_threads(threads, world.folder);
    for (int i = 0; i < THREADS; i++) {
        bool refused = threads[i].number == 2;
        assert_int_equal(threads[i].status, refused ? MLA_COMPILE : MLA_OK);
        if (refused)
            assert_non_null(
                strstr(mla_last_error(threads[i].ctx), "a log line"));
        mla_context_destroy(threads[i].ctx);
    }
}

/* Forks ------------------------------------------------------------------- */

/* A fork in the middle of a compilation: the child compiles for itself. */
static void *compile_slowly(void *user)
{
    struct thread *t = user;
    t->status = world_get(t->ctx, t->number, "sm_80", MLA__PTX);
    return NULL;
}

static void a_child_does_not_wait_for_its_parents_threads(void **state)
{
    struct thread t = {.number = 1};
    int status;
    pid_t pid;

    (void)state;
    fake_compiler->ms = 300;
    t.ctx = world_context();
    pthread_create(&t.id, NULL, compile_slowly, &t);
    while (!atomic_load(&fake_compiler->under_way))
        sched_yield();
    pid = fork();
    if (!pid) {
        alarm(10);
        fake_compiler->ms = 0;
        _exit(world_start(1) != MLA_OK);
    }
    waitpid(pid, &status, 0);
    pthread_join(t.id, NULL);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(t.status, MLA_OK);
    mla_context_destroy(t.ctx);
}

/* Exit status of a child that runs the check. */
static int in_child(int (*check)(mla_context *ctx), mla_context *ctx)
{
    int status;
    pid_t pid = fork();
    if (!pid) {
        alarm(10);
        _exit(check(ctx));
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

static int opens_the_device(mla_context *ctx)
{
    mla_device_info info = {.size = sizeof(info)};
    return mla_device(ctx, &info) != MLA_OK;
}

static int is_told_of_the_fork(mla_context *ctx)
{
    mla_device_info info = {.size = sizeof(info)};
    int wrong = mla_device(ctx, &info) != MLA_FORKED;
    wrong |= !strstr(mla_last_error(ctx), "make a context after the fork");
    mla_context_destroy(ctx);
    return wrong;
}

static void a_context_goes_through_a_fork_until_it_has_a_device(void **state)
{
    mla_context *ctx = world_context();
    (void)state;
    assert_int_equal(in_child(opens_the_device, ctx), 0);
    assert_int_equal(opens_the_device(ctx), 0);
    assert_int_equal(in_child(is_told_of_the_fork, ctx), 0);
    assert_int_equal(opens_the_device(ctx), 0);
    mla_context_destroy(ctx);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, world_up, world_down)
    const struct CMUnitTest tests[] = {
        TEST(sixteen_processes_compile_one_kernel_once),
        TEST(sixteen_processes_compile_eight_kernels_once_each),
        TEST(processes_meet_in_publication),
        TEST(killed_processes_leave_nothing_that_matters),
        TEST(leftovers_are_swept),
        TEST(sweeps_take_nothing_from_a_maker),
        TEST(a_stuck_process_is_waited_for_only_so_long),
        TEST(many_threads_compile_each_kernel_once),
        TEST(threads_share_a_compilation_without_a_cache),
        TEST(a_refusal_reaches_every_thread_that_waits),
        TEST(a_child_does_not_wait_for_its_parents_threads),
        TEST(a_context_goes_through_a_fork_until_it_has_a_device),
    };
    return cmocka_run_group_tests_name("cache crowd", tests, NULL, NULL);
}
