/* SPDX-License-Identifier: Apache-2.0
 *
 * device.h: the GPU, real or virtual, that the cases run on.
 */
#ifndef NUM_DEVICE_H
#define NUM_DEVICE_H

#include <stdbool.h>

#include "mla.h"

struct num_device {
    mla_context *ctx;
    mla_kernels *set; /* the directory under test */
    const char *directory;
    mla_log_fn log;
    bool lost; /* a kernel has failed: the context is of no more use */
    mla_device_info info;
    bool is_virtual;
    /* Functions of libvgpu.so beyond the driver API (tests/vgpu/vgpu.h);
     * NULL on a real driver. */
    const char *(*report)(void);
    unsigned long long (*alloc_sparse)(unsigned long long bytes);
    char *(*counters)(void);
    void (*counters_reset)(void);
};

/* Opens the first of: $MLA_DRIVER (then no other is tried), libcuda.so.1,
 * libvgpu.so beside the executable or in ../lib.  On failure returns the
 * status, with the reason in `why` (size bytes). */
mla_status num_device_open(struct num_device *out, mla_log_fn log, char *why,
                           size_t size);
/* Loads the directory under test, a string that outlives the device. */
mla_status num_device_load(struct num_device *device, const char *directory);

/* After a failed kernel: makes a new context and loads the directory again.
 * Kernels of the old one are gone; those of the new one have the same places
 * in num_device.set. */
mla_status num_device_reopen(struct num_device *device);
void num_device_close(struct num_device *device);

/* Seeds the virtual GPU's scheduler; 0: in order.  Without effect on a real
 * one. */
void num_device_schedule(struct num_device *device, uint64_t seed);

/* The calls below return a CUresult; num_device_error describes it. */
int num_device_alloc(struct num_device *device, bool sparse, uint64_t bytes,
                     uint64_t *address);
void num_device_free(struct num_device *device, uint64_t address);
int num_device_write(struct num_device *device, uint64_t to, const void *from,
                     size_t bytes);
int num_device_read(struct num_device *device, void *to, uint64_t from,
                    size_t bytes);
int num_device_synchronize(struct num_device *device);
const char *num_device_error(struct num_device *device, int result);

#endif
