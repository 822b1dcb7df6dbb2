/* SPDX-License-Identifier: Apache-2.0
 *
 * driver.c: the frame of the driver: environment, lock, handles, error
 * texts, and the way from a name to an entry point.
 *
 * An entry point takes the lock (VG_ENTRY), asks for the current context
 * (vg_drv_current: not initialised, no context, sticky error), checks its
 * arguments, and does its work.  The context comes before the arguments: a
 * lost one is the more useful answer.
 */
#include "driver.h"
#include "checks.h"
#include "counters.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* The whole state of the driver.  Real drivers are as process-wide. */
struct vg_driver vg_driver;
_Thread_local bool vg_drv_in_callback;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The lock is not recursive: a host function that a stream runs holds it
 * already, and must be refused (CUDA Driver API, cuLaunchHostFunc). */
struct vg_guard vg_drv_lock(void)
{
    if (vg_drv_in_callback)
        return (struct vg_guard){false};
    pthread_mutex_lock(&lock);
    return (struct vg_guard){true};
}

void vg_drv_unlock(struct vg_guard *g)
{
    if (g->is_locked)
        pthread_mutex_unlock(&lock);
}

/* --- errors -------------------------------------------------------------- */

/* The text replaces the former one, so a report always belongs to the error
 * that was returned last. */
CUresult vg_drv_error(CUresult error, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    free(vg_driver.report);
    vg_driver.report = n < 0 ? NULL : text;
    return error;
}

/* Never NULL.  A host function of a stream gets "": the text may change under
 * its feet. */
const char *vgpu_report(void)
{
    struct vg_guard guard __attribute__((cleanup(vg_drv_unlock))) =
        vg_drv_lock();
    return guard.is_locked && vg_driver.report ? vg_driver.report : "";
}

/* Numbers, names and texts, from the list in driver_api.h. */
static const struct {
    CUresult code;
    const char *name, *text;
} error_table[] = {
#define ROW(name, value, text) {value, #name, text},
    VG_ERRORS(ROW)
#undef ROW
};

/* Index into error_table, or -1. */
static int find_error(CUresult error)
{
    int n = sizeof error_table / sizeof *error_table;
    for (int i = 0; i < n; i++)
        if (error_table[i].code == error)
            return i;
    return -1;
}

/* *name becomes NULL for a number that is no error of this driver. */
CUresult cuGetErrorName(CUresult error, const char **name)
{
    int i = find_error(error);
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = i < 0 ? NULL : error_table[i].name;
    return i < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    int i = find_error(error);
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    *text = i < 0 ? NULL : error_table[i].text;
    return i < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* --- counters: the book is counters.c's ---------------------------------- */

char *vgpu_counters_json(void)
{
    return vg_counters_json();
}

void vgpu_counters_reset(void)
{
    vg_counters_reset();
}

/* --- environment --------------------------------------------------------- */

/* Reads an unsigned number up to max; keeps *v when the variable is unset. */
static CUresult read_number(const char *variable, uint64_t max, uint64_t *v)
{
    const char *s = getenv(variable);
    char *end;
    if (!s || !*s)
        return CUDA_SUCCESS;
    errno = 0;
    unsigned long long n = strtoull(s, &end, 0);
    if (errno || *end || s[0] == '-' || n > max)
        return vg_drv_error(CUDA_ERROR_INVALID_VALUE,
                            "%s=%s: expected a number from 0 to %llu",
                            variable, s, (unsigned long long)max);
    *v = n;
    return CUDA_SUCCESS;
}

/* VGPU_DEVICE.  The profile is copied: the table stays what it is. */
static CUresult read_profile(void)
{
    const char *id = getenv("VGPU_DEVICE");
    const struct vg_profile *p = vg_drv_profile(id && *id ? id : "a100");
    char names[200];
    if (!p) {
        vg_drv_profile_names(names, sizeof names);
        return vg_drv_error(CUDA_ERROR_INVALID_VALUE,
                            "VGPU_DEVICE=%s: expected one of %s", id, names);
    }
    vg_driver.profile = *p;
    return CUDA_SUCCESS;
}

/* The device and its memory, once there is no context that uses them. */
static CUresult read_device(void)
{
    if (vg_driver.ncontexts)
        return CUDA_SUCCESS;
    CUresult r = read_profile();
    if (r)
        return r;
    uint64_t bytes = vg_driver.profile.memory;
    r = read_number("VGPU_MEMORY", UINT64_C(1) << 46, &bytes);
    if (r)
        return r;
    if (vg_driver.mem && vg_driver.memory_bytes == bytes)
        return CUDA_SUCCESS;
    if (vg_driver.mem)
        vg_mem_delete(vg_driver.mem);
    vg_driver.memory_bytes = bytes;
    vg_driver.mem = vg_mem_new(bytes);
    return vg_driver.mem ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* VGPU_CHECKS, whose words belong to checks.c. */
static CUresult read_checks(void)
{
    char why[300];
    const char *list = getenv("VGPU_CHECKS");
    if (vg_checks_parse(list && *list ? list : "all", &vg_driver.checks, why,
                        sizeof why))
        return vg_drv_error(CUDA_ERROR_INVALID_VALUE, "VGPU_CHECKS=%s: %s",
                            list, why);
    return CUDA_SUCCESS;
}

/* Reads the environment (vgpu.h).  Nothing changes when a value is bad. */
CUresult cuInit(unsigned flags)
{
    VG_ENTRY;
    uint64_t seed = 0, threads = 0;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = read_device();
    r = r ? r : read_number("VGPU_SEED", UINT64_MAX, &seed);
    r = r ? r : read_number("VGPU_THREADS", 1024, &threads);
    r = r ? r : read_checks();
    if (r)
        return r;
    vg_driver.seed = seed;
    vg_driver.threads = (unsigned)threads;
    vg_driver.is_initialised = true;
    return CUDA_SUCCESS;
}

/* Newer than 13.1: programs patch tensor maps for older drivers. */
CUresult cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = VG_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

/* --- handles ------------------------------------------------------------- */

/* Handles are HANDLE_BASE + 64 * index; an index is never used twice. */
#define HANDLE_BASE UINT64_C(0x760000000000)

/* All handles of the process, dead ones too; grows, never shrinks. */
static struct {
    enum vg_handle_kind kind;
    void *object;
    struct vg_context *owner;
} * slot;
static size_t nslots, room;

/* The number looks like a pointer that nothing is mapped at, so a program
 * that follows it crashes at once.  64 apart: no handle is another plus a
 * field's offset. */
void *vg_drv_handle(enum vg_handle_kind kind, void *object,
                    struct vg_context *owner)
{
    if (nslots == room) {
        size_t n = room ? 2 * room : 64;
        void *bigger = realloc(slot, n * sizeof *slot);
        if (!bigger)
            return NULL;
        slot = bigger;
        room = n;
    }
    slot[nslots].kind = kind;
    slot[nslots].object = object;
    slot[nslots].owner = owner;
    return (void *)(uintptr_t)(HANDLE_BASE + 64 * nslots++);
}

/* The slot of a handle, or nslots. */
static size_t slot_of(const void *handle)
{
    uint64_t h = (uintptr_t)handle - HANDLE_BASE;
    return h % 64 == 0 && h / 64 < nslots ? h / 64 : nslots;
}

/* A slot keeps its kind for ever, so a stream is never taken for an event. */
void *vg_drv_object(enum vg_handle_kind kind, const void *handle)
{
    size_t i = slot_of(handle);
    return i < nslots && slot[i].kind == kind ? slot[i].object : NULL;
}

void vg_drv_forget(const void *handle)
{
    size_t i = slot_of(handle);
    if (i < nslots)
        slot[i].kind = VG_H_NONE;
}

/* Functions die with their module, contexts by their own call. */
static void destroy_object(enum vg_handle_kind kind, void *object)
{
    if (kind == VG_H_MODULE)
        vg_drv_module_destroy(object);
    else if (kind == VG_H_STREAM)
        vg_drv_stream_destroy(object);
    else if (kind == VG_H_GRAPH || kind == VG_H_EXEC)
        vg_drv_graph_destroy(object);
    else if (kind == VG_H_EVENT)
        free(object);
}

/* A slot is marked first: a destructor may look its own handles up. */
void vg_drv_destroy_owned(struct vg_context *owner)
{
    for (size_t i = 0; i < nslots; i++) {
        enum vg_handle_kind kind = slot[i].kind;
        if (kind != VG_H_NONE && slot[i].owner == owner) {
            slot[i].kind = VG_H_NONE;
            destroy_object(kind, slot[i].object);
        }
    }
    vg_drv_memory_release(owner);
}

/* --- from names to entry points ------------------------------------------ */

/* All entry points with the CUDA version that brought each (VG_API). */
static const struct {
    const char *name;
    int suffix_length, since;
    void (*fn)(void);
} entry_table[] = {
#define ROW(name, suffix, since, args)                                        \
    {#name #suffix, sizeof #suffix - 1, since, (void (*)(void))name##suffix},
    VG_API(ROW)
#undef ROW
};

/* CUdriverProcAddressQueryResult. */
enum { SYMBOL_FOUND = 0, SYMBOL_UNKNOWN = 1, SYMBOL_TOO_NEW = 2 };

/* The newest version of `name` that is not newer than `version`: asked for
 * cuMemAlloc by a program of CUDA 3.2 or later, it finds cuMemAlloc_v2.  The
 * table lists versions in ascending order. */
static void *find_symbol(const char *name, int version, int *status)
{
    int best = -1;
    *status = SYMBOL_UNKNOWN;
    for (size_t i = 0; i < sizeof entry_table / sizeof *entry_table; i++) {
        size_t base =
            strlen(entry_table[i].name) - (size_t)entry_table[i].suffix_length;
        if (strlen(name) != base ||
            memcmp(name, entry_table[i].name, base) != 0)
            continue;
        if (entry_table[i].since > version) {
            *status = best < 0 ? SYMBOL_TOO_NEW : SYMBOL_FOUND;
            continue;
        }
        *status = SYMBOL_FOUND;
        best = (int)i;
    }
    void *fn = NULL;
    if (best >= 0)
        memcpy(&fn, &entry_table[best].fn, sizeof fn);
    return fn;
}

/* flags 0 to 2: the default, legacy or per-thread stream; all do their work
 * at once, so they share their entry points.  Without a status pointer an
 * unknown name is an error. */
CUresult cuGetProcAddress_v2(const char *symbol, void **fn, int version,
                             uint64_t flags, int *status)
{
    int found;
    if (!symbol || !fn || flags > 2)
        return CUDA_ERROR_INVALID_VALUE;
    *fn = find_symbol(symbol, version, &found);
    if (status)
        *status = found;
    return *fn || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char *symbol, void **fn, int version,
                          uint64_t flags)
{
    return cuGetProcAddress_v2(symbol, fn, version, flags, NULL);
}
