/* SPDX-License-Identifier: Apache-2.0
 *
 * device.c: choosing a driver, and thin names for its memory calls.
 *
 * Memory goes through the driver's own calls, not through the runtime's: what
 * is under test must not place or copy what it is tested with.  Each call
 * makes the context current for its own time (mla__enter, mla__leave).
 */
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "internal.h"

/* Opens a context on one driver; appends the reason to `why` on failure. */
static mla_status try_driver(struct num_device *d, const char *driver,
                             mla_log_fn log, char *why, size_t size)
{
    mla_options options = MLA_OPTIONS_INIT;
    mla_status status;

    options.driver = driver;
    options.log = log;
    status = mla_context_create(&options, &d->ctx);
    if (status)
        return status;
    d->info.size = sizeof(d->info);
    status = mla_device(d->ctx, &d->info);
    if (status) {
        size_t used = strlen(why);
        snprintf(why + used, size - used, "%s%s", used ? "; " : "",
                 mla_last_error(d->ctx));
        mla_context_destroy(d->ctx);
        d->ctx = NULL;
    }
    return status;
}

/* directory of the executable / name; false if there is no such file.  The
 * virtual GPU is found beside the program in the build tree, and in ../lib
 * where it is installed. */
static bool beside(const char *name, char *out, size_t size)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n <= 0)
        return false;
    self[n] = 0;
    snprintf(out, size, "%s/%s", dirname(self), name);
    return access(out, R_OK) == 0;
}

/* Sets *slot, a pointer to a function, or leaves it: a driver need not have
 * the name.  memcpy, since C converts no object pointer to a function's. */
static void find_symbol(struct num_device *d, const char *name, void *slot)
{
    void *address = NULL;
    if (mla_driver_symbol(d->ctx, name, &address) == MLA_OK)
        memcpy(slot, &address, sizeof(address));
}

/* A driver that can report is a virtual GPU. */
static void find_extras(struct num_device *d)
{
    mla_log_fn log = d->ctx->options.log;
    d->ctx->options.log = NULL; /* their absence is no news */
    find_symbol(d, "vgpu_report", &d->report);
    find_symbol(d, "vgpu_alloc_sparse", &d->alloc_sparse);
    find_symbol(d, "vgpu_counters_json", &d->counters);
    find_symbol(d, "vgpu_counters_reset", &d->counters_reset);
    d->ctx->options.log = log;
    d->is_virtual = d->report != NULL;
}

/* A driver that $MLA_DRIVER names is the only one: who names one wants an
 * error, not another device.  Else libvgpu.so comes in where there is no
 * driver or no GPU, which are the only two reasons to look further. */
mla_status num_device_open(struct num_device *out, mla_log_fn log, char *why,
                           size_t size)
{
    const char *env = getenv("MLA_DRIVER");
    char path[PATH_MAX + 32];
    mla_status status;

    memset(out, 0, sizeof(*out));
    out->log = log;
    *why = 0;
    status = try_driver(out, NULL, log, why, size);
    if ((status == MLA_NO_DRIVER || status == MLA_NO_DEVICE) &&
        !(env && *env) && (beside("libvgpu.so", path, sizeof(path)) ||
                           beside("../lib/libvgpu.so", path, sizeof(path))))
        status = try_driver(out, path, log, why, size);
    if (!status)
        find_extras(out);
    return status;
}

/* The string is kept, for num_device_reopen. */
mla_status num_device_load(struct num_device *d, const char *directory)
{
    d->directory = directory;
    return mla_load(d->ctx, directory, &d->set);
}

/* Also after num_device_open has failed: both calls accept NULL. */
void num_device_close(struct num_device *d)
{
    mla_kernels_free(d->set);
    mla_context_destroy(d->ctx);
    d->set = NULL;
    d->ctx = NULL;
}

/* A sticky error stays in a CUDA context for good (CUDA Driver API, "sticky"
 * errors), so the rest of the cases need another one. */
mla_status num_device_reopen(struct num_device *d)
{
    const char *directory = d->directory;
    mla_log_fn log = d->log;
    char why[1024];
    mla_status status;

    num_device_close(d);
    status = num_device_open(d, log, why, sizeof(why));
    return status ? status : num_device_load(d, directory);
}

/* The virtual GPU reads its environment anew at each cuInit. */
void num_device_schedule(struct num_device *d, uint64_t seed)
{
    char text[32];
    if (!d->is_virtual)
        return;
    snprintf(text, sizeof(text), "%llu", (unsigned long long)seed);
    setenv("VGPU_SEED", text, 1);
    d->ctx->driver.init(0);
}

/* sparse needs vgpu_alloc_sparse; a real GPU is asked for the whole span and
 * may have no room for it. */
int num_device_alloc(struct num_device *d, bool sparse, uint64_t bytes,
                     uint64_t *address)
{
    int result = MLA__CUDA_SUCCESS;

    if (mla__enter(d->ctx))
        return MLA__CUDA_NO_DEVICE;
    if (sparse && d->alloc_sparse) {
        *address = d->alloc_sparse(bytes);
        result = *address ? MLA__CUDA_SUCCESS : 2; /* out of memory */
    } else {
        result = d->ctx->driver.mem_alloc(address, bytes);
    }
    mla__leave(d->ctx);
    return result;
}

/* Without a context there is nothing left to free. */
void num_device_free(struct num_device *d, uint64_t address)
{
    if (address && mla__enter(d->ctx) == MLA_OK) {
        d->ctx->driver.mem_free(address);
        mla__leave(d->ctx);
    }
}

/* No bytes are no call: an empty buffer's address need not be one. */
int num_device_write(struct num_device *d, uint64_t to, const void *from,
                     size_t bytes)
{
    int result;
    if (bytes == 0)
        return MLA__CUDA_SUCCESS;
    if (mla__enter(d->ctx))
        return MLA__CUDA_NO_DEVICE;
    result = d->ctx->driver.mem_write(to, from, bytes);
    mla__leave(d->ctx);
    return result;
}

int num_device_read(struct num_device *d, void *to, uint64_t from,
                    size_t bytes)
{
    int result;
    if (bytes == 0)
        return MLA__CUDA_SUCCESS;
    if (mla__enter(d->ctx))
        return MLA__CUDA_NO_DEVICE;
    result = d->ctx->driver.mem_read(to, from, bytes);
    mla__leave(d->ctx);
    return result;
}

/* Where the errors of a kernel come to light on a real GPU. */
int num_device_synchronize(struct num_device *d)
{
    int result;
    if (mla__enter(d->ctx))
        return MLA__CUDA_NO_DEVICE;
    result = d->ctx->driver.ctx_synchronize();
    mla__leave(d->ctx);
    return result;
}

/* The text is the context's and holds until its next error. */
const char *num_device_error(struct num_device *d, int result)
{
    mla__cuda_fail(d->ctx, "CUDA", result);
    return mla_last_error(d->ctx);
}
