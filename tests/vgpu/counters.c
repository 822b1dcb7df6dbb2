/* SPDX-License-Identifier: Apache-2.0
 *
 * counters.c: the book of launches and its JSON (format in counters.h).
 *
 * The JSON is written by hand: its members are few, their order is fixed so
 * that two books can be diffed, and libvgpu.so depends on no library.
 */
#include "counters_async.h"
#include "mma.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* A run of tests may launch for hours: the book keeps the newest launches. */
#define MAX_LAUNCHES 4096

/* One launch in the book.  kernel is the page's own copy: the module may be
 * unloaded before anybody asks. */
struct page {
    char *kernel;
    uint32_t grid[3], block[3];
    uint64_t shared_bytes, seed;
    unsigned arch;
    struct vg_counts counts;
};

/* The book of the process, not of a context: a test reads the counters after
 * it has torn its context down.  page[] is a ring: the oldest is at first,
 * and `dropped` says how many have been overwritten. */
static struct {
    pthread_mutex_t lock;
    struct page *page;         /* ring */
    size_t first, count, room;
    uint64_t dropped;
    struct vg_counts total;
} book = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* JSON names of the instruction classes and memory paths (counters.h).  They
 * are what regression tests diff: renaming one breaks every stored count. */
static const char *const class_name[VG_C_COUNT] = {
    [VG_C_INT] = "int",         [VG_C_FLOAT] = "float",
    [VG_C_HALF] = "half",       [VG_C_DOUBLE] = "double",
    [VG_C_SPECIAL] = "special", [VG_C_CVT] = "cvt",
    [VG_C_MOVE] = "move",       [VG_C_PRED] = "pred",
    [VG_C_BRANCH] = "branch",   [VG_C_SYNC] = "sync",
    [VG_C_WARP] = "warp",       [VG_C_LOAD] = "load",
    [VG_C_STORE] = "store",     [VG_C_ATOMIC] = "atomic",
    [VG_C_ASYNC] = "async",     [VG_C_MATRIX] = "matrix",
    [VG_C_MMA] = "mma",         [VG_C_OTHER] = "other",
};

static const char *const path_name[VG_PATHS] = {
    [VG_PATH_LOAD] = "load",         [VG_PATH_STORE] = "store",
    [VG_PATH_ATOMIC] = "atomic",     [VG_PATH_CP_ASYNC] = "cp_async",
    [VG_PATH_LDMATRIX] = "ldmatrix", [VG_PATH_STMATRIX] = "stmatrix",
};

/* struct vg_counts is nothing but uint64_t, so a counter added to it needs no
 * line here. */
void vg_counts_add(struct vg_counts *into, const struct vg_counts *c)
{
    uint64_t *d = (uint64_t *)into;
    const uint64_t *s = (const uint64_t *)c;

    for (size_t i = 0; i < sizeof *c / sizeof *s; i++)
        d[i] += s[i];
}

/* Makes room for one more page, or drops the oldest; NULL when there was
 * never any memory.  Growth stops once the ring has turned (first != 0): its
 * pages would no longer be in order after a realloc. */
static struct page *new_page(void)
{
    if (book.count == book.room && book.room < MAX_LAUNCHES &&
        book.first == 0) {
        size_t room = book.room ? 2 * book.room : 64;
        void *p = realloc(book.page, room * sizeof *book.page);

        if (p) {
            book.page = p;
            book.room = room;
        }
    }
    if (book.room == 0)
        return NULL;
    /* Full and not to grow: the oldest page makes room. */
    if (book.count == book.room) {
        free(book.page[book.first].kernel);
        book.first = (book.first + 1) % book.room;
        book.count--;
        book.dropped++;
    }
    return &book.page[(book.first + book.count++) % book.room];
}

/* The total grows even where no page can be had. */
void vg_counters_record(const struct vg_launch *l, const struct vg_counts *c)
{
    struct page *p;

    pthread_mutex_lock(&book.lock);
    vg_counts_add(&book.total, c);
    p = new_page();
    if (p) {
        *p = (struct page){
            .kernel = strdup(l->program->func->name),
            .shared_bytes = l->program->shared_bytes +
                            l->config.dynamic_shared,
            .seed = l->config.seed,
            .arch = l->config.arch,
            .counts = *c,
        };
        memcpy(p->grid, l->config.grid, sizeof p->grid);
        memcpy(p->block, l->config.block, sizeof p->block);
    }
    pthread_mutex_unlock(&book.lock);
}

/* Caller holds the lock.  The total is reset too: it is "since the reset". */
static void empty_book(void)
{
    for (size_t k = 0; k < book.count; k++)
        free(book.page[(book.first + k) % book.room].kernel);
    free(book.page);
    book.page = NULL;
    book.first = book.count = book.room = 0;
    book.dropped = 0;
    memset(&book.total, 0, sizeof book.total);
}

void vg_counters_reset(void)
{
    pthread_mutex_lock(&book.lock);
    empty_book();
    pthread_mutex_unlock(&book.lock);
}

/* For tests that want numbers and not text. */
void vg_counters_total(struct vg_counts *out)
{
    pthread_mutex_lock(&book.lock);
    *out = book.total;
    pthread_mutex_unlock(&book.lock);
}

/* ---- JSON --------------------------------------------------------------- */

/* A JSON string.  Kernel names are identifiers, but the text of others' PTX
 * is not ours to trust. */
static void put_string(FILE *f, const char *s)
{
    putc('"', f);
    for (; s && *s; s++)
        if ((unsigned char)*s < 0x20 || *s == '"' || *s == '\\')
            fprintf(f, "\\u%04x", (unsigned char)*s);
        else
            putc(*s, f);
    putc('"', f);
}

/* "name":v and what follows.  The writers below put the comma behind each
 * member, so every object's last one passes "}" or nothing instead. */
static void put_number(FILE *f, const char *name, uint64_t v,
                       const char *after)
{
    fprintf(f, "\"%s\":%" PRIu64 "%s", name, v, after);
}

/* Every class, zeros included: a missing member would be a difference. */
static void put_classes(FILE *f, const struct vg_counts *c)
{
    fputs("\"class\":{", f);
    for (int k = 0; k < VG_C_COUNT; k++)
        put_number(f, class_name[k], c->cls[k], k + 1 < VG_C_COUNT ? "," : "");
    fputs("},", f);
}

/* Only shapes that were used: the table has dozens.  "mma_flops" includes the
 * wgmma, whose own table is in the asynchronous part. */
static void put_mma(FILE *f, const struct vg_counts *c)
{
    uint64_t flops = 0;
    const char *comma = "";

    fputs("\"mma\":{", f);
    for (unsigned k = 0; k < VG_MMA_SHAPES; k++) {
        uint64_t work = c->mma[k] * vg_mma_flops(k);

        if (!c->mma[k])
            continue;
        fputs(comma, f);
        put_string(f, vg_mma_name(k));
        fprintf(f, ":{\"count\":%" PRIu64 ",\"flops\":%" PRIu64 "}",
                c->mma[k], work);
        comma = ",";
        flops += work;
    }
    flops += vg_counters_wgmma_flops(&c->async);
    fputs("},", f);
    put_number(f, "mma_flops", flops, ",");
}

/* Global memory; LDMATRIX and STMATRIX reach shared memory only, so the array
 * ends before them. */
static void put_global(FILE *f, const struct vg_counts *c)
{
    fputs("\"global\":{", f);
    for (int k = 0; k <= VG_PATH_CP_ASYNC; k++) {
        const struct vg_traffic *t = &c->global[k];

        fprintf(f, "\"%s\":{", path_name[k]);
        put_number(f, "requests", t->requests, ",");
        put_number(f, "bytes", t->bytes, ",");
        put_number(f, "sectors", t->sectors, "},");
    }
    put_number(f, "unique_load_sectors", c->unique_load, ",");
    put_number(f, "unique_store_sectors", c->unique_store, ",");
    put_number(f, "l1_miss_sectors", c->l1_miss, "},");
}

/* Shared memory, all paths, wavefronts included. */
static void put_shared(FILE *f, const struct vg_counts *c)
{
    fputs("\"shared\":{", f);
    for (int k = 0; k < VG_PATHS; k++) {
        const struct vg_banks *b = &c->shared[k];

        fprintf(f, "\"%s\":{", path_name[k]);
        put_number(f, "requests", b->requests, ",");
        put_number(f, "bytes", b->bytes, ",");
        put_number(f, "wavefronts", b->wavefronts, ",");
        put_number(f, "conflicts", b->conflicts,
                   k + 1 < VG_PATHS ? "}," : "}},");
    }
}

/* The members of one counter object, C in counters.h, in its order. */
static void put_counts(FILE *f, const struct vg_counts *c)
{
    put_number(f, "warp_insns", c->warp_insns, ",");
    put_number(f, "thread_insns", c->thread_insns, ",");
    put_number(f, "idle_lanes", VG_LANES * c->warp_insns - c->thread_insns,
               ",");
    put_classes(f, c);
    put_mma(f, c);
    put_global(f, c);
    put_shared(f, c);
    fputs("\"local\":{", f);
    put_number(f, "load_bytes", c->local_load, ",");
    put_number(f, "store_bytes", c->local_store, "},\"atomics\":{");
    put_number(f, "global", c->atomic_global, ",");
    put_number(f, "shared", c->atomic_shared, "},");
    put_number(f, "barriers", c->barriers, ",");
    put_number(f, "warp_syncs", c->warp_syncs, ",");
    put_number(f, "fences", c->fences, ",");
    vg_counters_put_async(f, &c->async);
}

/* One launch: what identifies it, then its counters. */
static void put_page(FILE *f, const struct page *p)
{
    fputs("{\"kernel\":", f);
    put_string(f, p->kernel);
    fprintf(f, ",\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u],", p->grid[0],
            p->grid[1], p->grid[2], p->block[0], p->block[1], p->block[2]);
    put_number(f, "shared_bytes", p->shared_bytes, ",");
    put_number(f, "seed", p->seed, ",");
    put_number(f, "device", p->arch, ",");
    put_counts(f, &p->counts);
    putc('}', f);
}

/* One launch per line, so that a diff of two books shows the kernel. */
static void put_book(FILE *f)
{
    fputs("{\"launches\":[", f);
    for (size_t k = 0; k < book.count; k++) {
        fputs(k ? ",\n" : "\n", f);
        put_page(f, &book.page[(book.first + k) % book.room]);
    }
    fputs("],\n", f);
    put_number(f, "dropped", book.dropped, ",\n\"total\":{");
    put_counts(f, &book.total);
    fputs("}}\n", f);
}

/* A stream into memory: the only ways to fail are its first allocation and
 * its growth, and the latter shows in ferror or fclose. */
char *vg_counters_json(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    bool bad;

    if (!f)
        return NULL;
    pthread_mutex_lock(&book.lock);
    put_book(f);
    pthread_mutex_unlock(&book.lock);
    bad = ferror(f) != 0;
    if (fclose(f) == 0 && !bad)
        return text;
    free(text);
    return NULL;
}
