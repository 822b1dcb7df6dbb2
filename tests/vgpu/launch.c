/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.c: a grid from start to end.
 *
 * The CTAs of a grid are cut into sets that must be resident together: one
 * CTA, the CTAs of a cluster, or a whole cooperative grid.  Host threads take
 * sets from a common counter.  Inside a set warps are interleaved by one
 * thread, so what happens in a set depends on the seed alone, never on the
 * number of threads.  Seed 0 runs sets and warps in order in long slices;
 * any other seed shuffles the sets and gives random warps slices of random
 * length, many of them short.
 *
 * The first fault wins, where "first" is by launch order, so that the report
 * does not depend on host timing either.
 */
#include "warp.h"

#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Instructions.  SLICE_IN_ORDER: a warp's turn with seed 0, long enough that a
 * warp keeps its registers in the host's cache, short enough that spinning
 * costs little.  WATCHDOG: a set without a store, barrier or exit for so long
 * hangs.  LATE, EAGER: see is_late. */
#define SLICE_IN_ORDER 8192
#define WATCHDOG (UINT64_C(1) << 27)
#define LATE 16384 /* instructions without progress */
#define EAGER_PERIOD 8 /* seeds, of which one is eager */
#define EAGER 3
/* Host threads of one launch, at most. */
#define MAX_WORKERS 256

/* What the workers of a launch share. */
struct run {
    struct vg_launch launch;
    uint64_t nsets;
    unsigned ctas_per_set;
    unsigned cluster_size;
    uint32_t clusters[3];          /* grid in clusters */
    atomic_ullong next;            /* set to take */
    atomic_ullong stop;            /* sets from here on are not worth running */
    pthread_mutex_t lock;          /* of result */
    struct vg_result *result;
};

/* ---- random numbers ------------------------------------------------------ */

/* Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014).
 */
static uint64_t splitmix(uint64_t *s)
{
    uint64_t z = *s += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The CTA's own stream, so that its decisions do not depend on what ran
 * beside it. */
uint64_t vg_random(struct vg_cta *cta)
{
    return splitmix(&cta->rng);
}

/* An independent stream for each (seed, n). */
static uint64_t mix(uint64_t seed, uint64_t n)
{
    uint64_t s = seed * UINT64_C(0xd1342543de82ef95) + n;
    return splitmix(&s);
}

/* The n-th set of a shuffled launch: a bijection on 0 .. count-1, made of a
 * four-round Feistel network on the next even power of two (cycle walking). */
static uint64_t shuffled(uint64_t seed, uint64_t n, uint64_t count)
{
    unsigned half = 1;
    while (half < 32 && (UINT64_C(1) << (2 * half)) < count)
        half++;
    uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t l = n >> half, r = n & mask;
        for (unsigned k = 0; k < 4; k++) {
            uint64_t t = l ^ (mix(seed ^ (uint64_t)k << 56, r) & mask);
            l = r;
            r = t;
        }
        n = l << half | r;
    } while (n >= count);
    return n;
}

/* ---- a worker's sets ----------------------------------------------------- */

/* Storage of one set, reused from set to set. */
struct arena {
    struct vg_set set;
    unsigned char *registers, *shared, *local;
    size_t register_bytes, shared_bytes, local_bytes;  /* of one CTA */
    struct vg_warp *warps;
    struct vg_warp **alive;        /* warps that have not ended */
};

/* n, raised to a multiple of unit. */
static size_t round_up(uint64_t n, size_t unit)
{
    return (size_t)((n + unit - 1) / unit * unit);
}

/* Also for an arena that got only a part of its memory: it was zeroed. */
static void arena_free(struct arena *a)
{
    free(a->set.cta);
    free(a->set.cluster);
    free(a->registers);
    free(a->shared);
    free(a->local);
    free(a->warps);
    free(a->alive);
}

/* Sizes everything for the largest set of this launch: the program and the
 * block are the same for all.  Registers start at multiples of 64, a host
 * vector; shared memory at multiples of 1024, as the hardware's does, which
 * 128-byte swizzles rely on.  False when memory is short; arena_free cleans
 * up either way. */
static bool arena_init(struct arena *a, const struct run *r, unsigned nwarps)
{
    const struct vg_program *p = r->launch.program;
    const struct vg_config *c = &r->launch.config;
    size_t n = r->ctas_per_set;
    *a = (struct arena){.set = {.ncta = r->ctas_per_set}};
    a->register_bytes = round_up(p->row_bytes, 64) * nwarps;
    a->shared_bytes = round_up(p->dynamic_offset + c->dynamic_shared, 1024);
    a->local_bytes = round_up(p->local_bytes * nwarps * VG_LANES, 64);
    a->set.ncluster = r->ctas_per_set / r->cluster_size;
    a->set.cta = calloc(n, sizeof *a->set.cta);
    a->set.cluster = calloc(a->set.ncluster, sizeof *a->set.cluster);
    a->warps = calloc(n * nwarps, sizeof *a->warps);
    a->alive = calloc(n * nwarps, sizeof(void *));
    a->registers = aligned_alloc(64, n * a->register_bytes + 64);
    a->shared = aligned_alloc(1024, n * a->shared_bytes + 1024);
    a->local = aligned_alloc(64, n * a->local_bytes + 64);
    return a->set.cta && a->set.cluster && a->warps && a->alive &&
           a->registers && a->shared && a->local;
}

/* blockIdx of CTA `rank` of cluster number `cluster`: both are numbered x
 * fastest, the cluster in the grid and the CTA in its cluster. */
static void place_cta(struct vg_cta *c, const struct run *r, uint64_t cluster,
                      unsigned rank)
{
    const uint32_t *dim = r->launch.config.cluster;
    uint64_t at[3] = {cluster % r->clusters[0],
                      cluster / r->clusters[0] % r->clusters[1],
                      cluster / r->clusters[0] / r->clusters[1]};
    for (int n = 0; n < 3; n++) {
        uint32_t size = dim[n] ? dim[n] : 1;
        c->id[n] = (uint32_t)at[n] * size + rank % size;
        rank /= size;
    }
    const uint32_t *g = r->launch.config.grid;
    c->linear = c->id[0] + (uint64_t)g[0] * (c->id[1] +
                                             (uint64_t)g[1] * c->id[2]);
}

/* All lanes at pc 0, registers poisoned, special registers filled in. */
static void start_warp(struct vg_warp *w, struct vg_cta *c, unsigned index,
                       unsigned char *registers)
{
    struct vg_launch *l = c->launch;
    unsigned left = c->nthreads - index * VG_LANES;
    /* group[] need not be cleared: ngroups says which of them exist. */
    memset(w, 0, offsetof(struct vg_warp, group));
    w->base[0] = registers;
    w->base[1] = l->constants + l->program->constant_bytes;
    w->cta = c;
    w->index = index;
    w->born = w->live = left >= VG_LANES ? VG_ALL : (1u << left) - 1;
    w->ngroups = 1;
    w->group[0] = (struct vg_group){.mask = w->live};
    w->at_cluster = w->cluster_generation = 0;
    w->mem = NULL;
    /* A register that nobody wrote reads as -1 or NaN, the same each time. */
    memset(registers, 0xff, l->program->row_bytes);
    for (int n = 0; n < l->program->npatch; n++) {
        const struct vg_patch *p = &l->program->patch[n];
        if (p->op >= 0)
            vg_special_fill((int)p->value, p->bits, l, c, w,
                            vg_row(w, p->op));
    }
}

/* CTA n of set number `set`: everything but the memory side.  Its random
 * numbers depend on the seed and its place in the grid alone. */
static void start_cta(struct arena *a, const struct run *r,
                      struct vg_worker *k, uint64_t set, unsigned n)
{
    struct vg_cta *c = &a->set.cta[n];
    const uint32_t *b = r->launch.config.block;
    memset(c, 0, sizeof *c);
    c->launch = k->launch;
    c->worker = k;
    c->set = &a->set;
    c->nthreads = c->live_threads = b[0] * b[1] * b[2];
    c->nwarps = (c->nthreads + VG_LANES - 1) / VG_LANES;
    c->rank = n % r->cluster_size;
    c->cluster = &a->set.cluster[n / r->cluster_size];
    c->warp = a->warps + (size_t)n * c->nwarps;
    c->shared = a->shared + n * a->shared_bytes;
    c->shared_bytes = r->launch.program->dynamic_offset +
                      r->launch.config.dynamic_shared;
    c->local = a->local + n * a->local_bytes;
    c->local_bytes = r->launch.program->local_bytes;
    place_cta(c, r, set * a->set.ncluster + n / r->cluster_size, c->rank);
    c->rng = mix(r->launch.config.seed, c->linear + 1);
    size_t row = a->register_bytes / c->nwarps;
    for (unsigned w = 0; w < c->nwarps; w++)
        start_warp(&c->warp[w], c, w,
                   a->registers + n * a->register_bytes + w * row);
}

/* All CTAs first, then the memory side's hooks: distributed shared memory
 * needs its peers to exist. */
static void start_set(struct arena *a, const struct run *r,
                      struct vg_worker *k, uint64_t index, uint64_t set)
{
    struct vg_set *s = &a->set;
    s->index = index;
    s->idle = 0;
    s->rng = mix(~r->launch.config.seed, set + 1);
    for (unsigned n = 0; n < s->ncluster; n++)
        s->cluster[n] = (struct vg_cluster){
            .cta = s->cta + (size_t)n * r->cluster_size,
            .ncta = r->cluster_size};
    for (unsigned n = 0; n < s->ncta; n++)
        start_cta(a, r, k, set, n);
    for (unsigned n = 0; n < s->ncta; n++)
        vg_mem_cta_begin(&s->cta[n]);
}

/* ---- running a set ------------------------------------------------------- */

/* How long a warp may run. Random slices are 1 to 2048 instructions, short
 * ones as likely as long ones. */
static uint64_t slice(struct vg_set *s, uint64_t seed)
{
    if (!seed)
        return SLICE_IN_ORDER;
    uint64_t r = splitmix(&s->rng);
    return 1 + (r >> 8) % (UINT64_C(1) << (r % 12));
}

/* Runs one warp and drops it from the list when it has ended; the order of the
 * others stays.  Returns the instructions it issued. */
static uint64_t turn(struct arena *a, unsigned n, unsigned *alive,
                     uint64_t seed)
{
    struct vg_warp *w = a->alive[n];
    uint64_t done = vg_warp_run(w, slice(&a->set, seed));
    a->set.idle += done;
    if (!w->live) {
        (*alive)--;
        memmove(&a->alive[n], &a->alive[n + 1],
                (*alive - n) * sizeof *a->alive);
    }
    return done;
}

/* One turn for each warp, from `first` on; stops at the first that could
 * run when `once` (with a seed, every turn begins with a draw).  0: nothing
 * could run. */
static uint64_t sweep(struct arena *a, unsigned first, unsigned *alive,
                      uint64_t seed, bool once)
{
    uint64_t done = 0;
    unsigned turns = *alive;
    for (unsigned n = first; turns-- && *alive; ) {
        unsigned before = *alive;
        if (n >= *alive)
            n = 0;
        done += turn(a, n, alive, seed);
        n += before == *alive;
        if (once && done)
            break;
    }
    return done;
}

/* Time for an asynchronous copy to complete, though nobody is stuck: warps
 * may spin on what it brings; with a seed also now and then, with some seeds
 * often, so that code for copies that are early runs, too. */
static bool is_late(struct vg_set *s, uint64_t seed)
{
    unsigned rarity = seed % EAGER_PERIOD == EAGER ? 4 : 64;
    return s->idle > LATE || (seed && splitmix(&s->rng) % rarity == 0);
}

/* Ends when every warp has, when a fault with an earlier place in launch
 * order makes this set pointless, or by longjmp from a fault.  When no warp
 * can run, a copy that is under way is completed; when there is none either,
 * it is a deadlock. */
static void run_set(struct arena *a, const struct run *r)
{
    struct vg_set *s = &a->set;
    uint64_t seed = r->launch.config.seed;
    uint64_t watchdog = r->launch.config.watchdog;
    unsigned alive = 0;
    for (unsigned c = 0; c < s->ncta; c++)
        for (unsigned w = 0; w < s->cta[c].nwarps; w++)
            a->alive[alive++] = &s->cta[c].warp[w];
    while (alive && atomic_load_explicit(&r->stop, memory_order_relaxed) >
                        s->index) {
        unsigned first = seed ? (unsigned)(splitmix(&s->rng) % alive) : 0;
        if (!sweep(a, first, &alive, seed, seed != 0) && alive &&
            !vg_mem_late(s))
            vg_deadlock(s, false);
        if (is_late(s, seed) && vg_mem_late(s))
            continue;
        if (s->idle > (watchdog ? watchdog : WATCHDOG))
            vg_deadlock(s, true);
    }
}

/* Keeps the fault that comes first in launch order.  Sets behind it stop
 * early, those before it run on: one of them may fault as well. */
static void record_fault(struct run *r, struct vg_worker *k, uint64_t index)
{
    pthread_mutex_lock(&r->lock);
    if (index < atomic_load(&r->stop)) {
        free(r->result->report);
        r->result->code = k->code;
        r->result->report = k->report;
        atomic_store(&r->stop, index);
    } else {
        free(k->report);
    }
    k->report = NULL;
    pthread_mutex_unlock(&r->lock);
}

/* One set, from start to the memory side's clean-up, whatever happens
 * between.  Nothing that lives across the setjmp is a changed local: all state
 * is behind pointers. */
static void run_guarded(struct run *r, struct vg_worker *k, struct arena *a,
                        uint64_t index)
{
    uint64_t seed = r->launch.config.seed;
    uint64_t set = seed ? shuffled(seed, index, r->nsets) : index;
    k->set = &a->set;
    start_set(a, r, k, index, set);
    if (setjmp(k->fault) == 0)
        run_set(a, r);
    else
        record_fault(r, k, a->set.index);
    for (unsigned n = 0; n < a->set.ncta; n++)
        vg_mem_cta_end(&a->set.cta[n]);
}

/* ---- workers ------------------------------------------------------------- */

/* Differences to totals; several workers add into one result. */
static void add_counts(struct run *r, const struct vg_worker *k)
{
    struct vg_result *out = r->result;
    uint64_t hits = 0, lanes = 0;
    pthread_mutex_lock(&r->lock);
    for (int pc = 0; pc < r->launch.program->ninsn; pc++) {
        hits += k->hits[pc];
        lanes += k->lanes[pc];
        out->hits[pc] += hits;
        out->lanes[pc] += lanes;
        out->warp_insns += hits;
        out->thread_insns += lanes;
    }
    pthread_mutex_unlock(&r->lock);
}

/* A worker without memory ends the launch: half a grid is no result. */
static void no_memory(struct run *r)
{
    pthread_mutex_lock(&r->lock);
    r->result->code = VG_OUT_OF_MEMORY;
    atomic_store(&r->stop, 0);
    pthread_mutex_unlock(&r->lock);
}

/* started: there is an id to join. */
struct thread {
    pthread_t id;
    struct run *run;
    unsigned index;
    bool started;
};

/* A host thread: its own arena and counters, sets until none is left. */
static void *worker(void *arg)
{
    struct thread *t = arg;
    struct run *r = t->run;
    const uint32_t *b = r->launch.config.block;
    size_t n = (size_t)r->launch.program->ninsn + 1;
    struct vg_worker k = {.launch = &r->launch, .index = t->index};
    struct arena a;
    k.hits = calloc(n, sizeof *k.hits);
    k.lanes = calloc(n, sizeof *k.lanes);
    bool ok = arena_init(&a, r, (b[0] * b[1] * b[2] + VG_LANES - 1) /
                                    VG_LANES);
    fenv_t host;
    fegetenv(&host);
    fesetenv(FE_DFL_ENV);   /* a host in flush-to-zero mode must not matter */
    if (ok && k.hits && k.lanes) {
        vg_mem_worker_begin(&k);
        for (;;) {
            uint64_t index = atomic_fetch_add(&r->next, 1);
            if (index >= r->nsets || index >= atomic_load(&r->stop))
                break;
            run_guarded(r, &k, &a, index);
        }
        vg_mem_worker_end(&k);
        add_counts(r, &k);
    } else {
        no_memory(r);
    }
    fesetenv(&host);
    arena_free(&a);
    free(k.hits);
    free(k.lanes);
    return NULL;
}

/* The calling thread is worker 0; a thread that cannot start is not needed. */
static void run_workers(struct run *r, unsigned threads)
{
    struct thread t[MAX_WORKERS];
    for (unsigned n = 0; n < threads; n++) {
        t[n] = (struct thread){.run = r, .index = n};
        if (n)
            t[n].started = pthread_create(&t[n].id, NULL, worker, &t[n]) == 0;
    }
    worker(&t[0]);
    for (unsigned n = 1; n < threads; n++)
        if (t[n].started)
            pthread_join(t[n].id, NULL);
}

/* ---- launch -------------------------------------------------------------- */

__attribute__((format(printf, 3, 4)))
/* A launch that cannot begin: VG_INVALID_VALUE and one line that says why. */
static bool refuse(struct vg_result *out, const struct vg_program *p,
                   const char *fmt, ...)
{
    char text[400], line[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    snprintf(line, sizeof line, "%.150s: launch refused: %s\n", p->func->name,
             text);
    out->code = VG_INVALID_VALUE;
    out->report = strdup(line);
    return false;
}

static uint64_t volume(const uint32_t *d)
{
    return (uint64_t)d[0] * d[1] * d[2];
}

/* What the executor itself relies on, so that unit tests may launch without a
 * driver. Limits of a device are the driver's. */
static bool check_config(const struct vg_program *p, const struct vg_config *c,
                         struct vg_result *out)
{
    const struct ptx_func *f = p->func;
    uint64_t threads = volume(c->block);
    uint64_t max = (uint64_t)f->maxntid[0] * f->maxntid[1] * f->maxntid[2];
    if (f->param_bytes && !c->params)
        return refuse(out, p, "%llu bytes of parameters are missing",
                      (unsigned long long)f->param_bytes);
    if (!volume(c->grid))
        return refuse(out, p, "grid %u x %u x %u is empty", c->grid[0],
                      c->grid[1], c->grid[2]);
    if (!threads || threads > 1024)
        return refuse(out, p, "block of %llu threads",
                      (unsigned long long)threads);
    if (max && threads > max)
        return refuse(out, p, "block of %llu threads, .maxntid allows %llu",
                      (unsigned long long)threads, (unsigned long long)max);
    for (int n = 0; n < 3; n++) {
        if (f->reqntid[0] && f->reqntid[n] != c->block[n])
            return refuse(out, p, "block dimension %d is %u, .reqntid is %u",
                          n, c->block[n], f->reqntid[n]);
        if (c->cluster[n] && c->grid[n] % c->cluster[n])
            return refuse(out, p, "grid dimension %d, %u, is no multiple of "
                          "the cluster's %u", n, c->grid[n], c->cluster[n]);
    }
    return true;
}

/* Sets by launch kind; nsets * ctas_per_set is the grid.  A cooperative grid
 * is one set, clusters and all. */
static void cut_grid(struct run *r)
{
    const struct vg_config *c = &r->launch.config;
    r->cluster_size = 1;
    for (int n = 0; n < 3; n++) {
        uint32_t size = c->cluster[n] ? c->cluster[n] : 1;
        r->clusters[n] = c->grid[n] / size;
        r->cluster_size *= size;
    }
    r->nsets = c->cooperative ? 1 : volume(r->clusters);
    r->ctas_per_set = (unsigned)(volume(c->grid) / r->nsets);
}

/* The launch's own copy of the constant rows, parameters filled in: a
 * parameter is read by every lane of every warp, and written here once.
 * Registers' patches (op >= 0) are start_warp's. */
static bool fill_constants(struct vg_launch *l)
{
    const struct vg_program *p = l->program;
    l->constants = aligned_alloc(64, round_up(p->constant_bytes, 64));
    if (!l->constants)
        return false;
    memcpy(l->constants, p->constants, p->constant_bytes);
    for (int n = 0; n < p->npatch; n++) {
        const struct vg_patch *k = &p->patch[n];
        unsigned char *row = l->constants + p->constant_bytes + k->op;
        uint64_t v[2] = {0, 0};
        if (k->op >= 0)
            continue;
        if (k->fill == VG_FILL_SPECIAL) {
            vg_special_fill((int)k->value, k->bits, l, NULL, NULL, row);
            continue;
        }
        memcpy(v, (const char *)l->config.params + k->value, k->bits / 8);
        vg_fill_row(row, v[0], v[1], k->bits);
    }
    return true;
}

/* No more threads than sets; by default as many as the host has cores. */
static unsigned thread_count(const struct run *r)
{
    unsigned n = r->launch.config.threads;
    if (!n) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        n = cores > 0 ? (unsigned)cores : 1;
    }
    if (n > MAX_WORKERS)
        n = MAX_WORKERS;
    return n > r->nsets ? (unsigned)r->nsets : n;
}

/* *out is filled in every case and the caller's to free.  The hook at the end
 * runs even when the one at the start failed: it finds nothing to do. */
enum vg_code vg_launch(const struct vg_program *p, const struct vg_config *c,
                       struct vg_result *out)
{
    struct run r = {.launch = {.program = p, .config = *c, .result = out},
                    .result = out,
                    .lock = PTHREAD_MUTEX_INITIALIZER};
    *out = (struct vg_result){.code = VG_OK};
    r.launch.run = &r;
    if (!check_config(p, c, out))
        return out->code;
    cut_grid(&r);
    atomic_init(&r.next, 0);
    atomic_init(&r.stop, UINT64_MAX);
    out->hits = calloc((size_t)p->ninsn + 1, sizeof *out->hits);
    out->lanes = calloc((size_t)p->ninsn + 1, sizeof *out->lanes);
    if (!out->hits || !out->lanes || !fill_constants(&r.launch)) {
        out->code = VG_OUT_OF_MEMORY;
        return out->code;
    }
    if (vg_mem_launch_begin(&r.launch))
        run_workers(&r, thread_count(&r));
    else
        out->code = VG_OUT_OF_MEMORY;
    vg_mem_launch_end(&r.launch);
    free(r.launch.constants);
    return out->code;
}

void vg_result_free(struct vg_result *r)
{
    free(r->report);
    free(r->hits);
    free(r->lanes);
    *r = (struct vg_result){.code = VG_OK};
}
