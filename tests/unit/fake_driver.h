/* SPDX-License-Identifier: Apache-2.0
 *
 * fake_driver.h: a CUDA driver for unit tests, as a filled function table.
 *
 * It is put into a context in place of what dlopen would have found.  Device
 * memory is host memory, a launch calls a hook, and every call can be told to
 * fail.  Included by one test program each, hence everything is static.
 */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct fake_launch {
    unsigned grid[3], block[3], smem;
    void *stream;
    const void *args;
    unsigned cluster[3];
    unsigned char map[128]; /* the second parameter, with a cluster */
};

/* What cuTensorMapEncodeTiled was called with. */
struct fake_map {
    int calls, type, swizzle, promotion;
    unsigned rank;
    uint64_t address, dims[5], strides[4];
    uint32_t box[5], steps[5];
};

static struct {
    int devices, major, minor, smem_optin;
    int load_result; /* of machine code (ELF) */
    int ptx_result;  /* of anything else */
    int launch_result, attribute_result;
    int loads, ptx_loads, launches, unloads;
    int dynamic_smem; /* last value of the function attribute */
    int current; /* pushed contexts */
    int capture_status, capture_result; /* of any stream that is asked for */
    char last_image[64];
    struct fake_launch last;
    struct fake_map map;
    int map_result;
    int (*on_launch)(const struct fake_launch *launch); /* may be NULL */
} fake;

static int fake_init(unsigned flags)
{
    (void)flags;
    return fake.devices ? 0 : 100;
}

static int fake_version(int *version)
{
    *version = 13000;
    return 0;
}

static int fake_error_name(int result, const char **text)
{
    *text = result == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_FAKE";
    return 0;
}

static int fake_error_text(int result, const char **text)
{
    (void)result;
    *text = "as told";
    return 0;
}

static int fake_device_count(int *count)
{
    *count = fake.devices;
    return 0;
}

static int fake_device_get(int *device, int ordinal)
{
    *device = ordinal;
    return 0;
}

static int fake_device_name(char *name, int size, int device)
{
    (void)device;
    snprintf(name, (size_t)size, "Fake");
    return 0;
}

static int fake_device_attribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == MLA__ATTR_MAJOR        ? fake.major
             : attribute == MLA__ATTR_MINOR      ? fake.minor
             : attribute == MLA__ATTR_SMEM_OPTIN ? fake.smem_optin
                                                 : 108;
    return 0;
}

static int fake_ctx_retain(void **ctx, int device)
{
    (void)device;
    *ctx = &fake;
    return 0;
}

static int fake_ctx_release(int device)
{
    (void)device;
    return 0;
}

static int fake_ctx_push(void *ctx)
{
    (void)ctx;
    fake.current++;
    return 0;
}

static int fake_ctx_pop(void **ctx)
{
    *ctx = &fake;
    fake.current--;
    return 0;
}

static int fake_synchronize(void)
{
    return 0;
}

static int fake_module_load(void **module, const void *image, unsigned count,
                            int *options, void **values)
{
    bool elf = memcmp(image, "\177ELF", 4) == 0;
    (void)count;
    (void)options;
    (void)values;
    fake.loads += elf;
    fake.ptx_loads += !elf;
    snprintf(fake.last_image, sizeof(fake.last_image), "%.60s",
             (const char *)image);
    *module = elf ? &fake.loads : &fake.ptx_loads;
    return elf ? fake.load_result : fake.ptx_result;
}

static int fake_module_unload(void *module)
{
    (void)module;
    fake.unloads++;
    return 0;
}

static int fake_module_function(void **function, void *module,
                                const char *name)
{
    (void)name;
    *function = module;
    return 0;
}

static int fake_function_set(void *function, int attribute, int value)
{
    (void)function;
    if (attribute == MLA__FUNC_MAX_DYNAMIC_SMEM)
        fake.dynamic_smem = value;
    return fake.attribute_result;
}

static int fake_do_launch(void *function, unsigned grid_x, unsigned grid_y,
                          unsigned grid_z, unsigned block_x, unsigned block_y,
                          unsigned block_z, unsigned smem, void *stream,
                          void **params, void **extra)
{
    (void)function;
    (void)extra;
    fake.launches++;
    fake.last = (struct fake_launch){{grid_x, grid_y, grid_z},
                                     {block_x, block_y, block_z},
                                     smem,
                                     stream,
                                     params[0],
                                     {0},
                                     {0}};
    if (fake.launch_result)
        return fake.launch_result;
    return fake.on_launch ? fake.on_launch(&fake.last) : 0;
}

__attribute__((unused)) static int
fake_launch_ex(const struct mla__launch_config *c, void *function,
               void **params, void **extra)
{
    int result = fake_do_launch(function, c->grid[0], c->grid[1], c->grid[2],
                                c->block[0], c->block[1], c->block[2], c->smem,
                                c->stream, params, extra);
    if (c->count == 1 && c->attributes->id == MLA__LAUNCH_CLUSTER)
        memcpy(fake.last.cluster, c->attributes->value.cluster,
               sizeof(fake.last.cluster));
    memcpy(fake.last.map, params[1], sizeof(fake.last.map));
    return result;
}

__attribute__((unused)) static int
fake_encode_tiled(void *map, int type, unsigned rank, void *address,
                  const uint64_t *dims, const uint64_t *strides,
                  const uint32_t *box, const uint32_t *steps, int interleave,
                  int swizzle, int promotion, int fill)
{
    fake.map = (struct fake_map){.calls = fake.map.calls + 1,
                                 .type = type,
                                 .swizzle = swizzle,
                                 .promotion = promotion,
                                 .rank = rank,
                                 .address = (uint64_t)(uintptr_t)address};
    memcpy(fake.map.dims, dims, rank * sizeof(*dims));
    memcpy(fake.map.strides, strides, (rank - 1) * sizeof(*strides));
    memcpy(fake.map.box, box, rank * sizeof(*box));
    memcpy(fake.map.steps, steps, rank * sizeof(*steps));
    memset(map, 0x5a, 128);
    return interleave || fill ? 1 : fake.map_result;
}

static int fake_mem_alloc(uint64_t *address, size_t bytes)
{
    /* room for a kernel that writes past its buffer without taking the test
     * program along */
    void *block = aligned_alloc(256, (bytes + 1023) / 256 * 256);
    *address = (uint64_t)(uintptr_t)block;
    return block ? 0 : 2;
}

static int fake_mem_free(uint64_t address)
{
    free((void *)(uintptr_t)address);
    return 0;
}

static int fake_mem_write(uint64_t to, const void *from, size_t bytes)
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

static int fake_mem_read(void *to, uint64_t from, size_t bytes)
{
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return 0;
}

static int fake_is_capturing(void *stream, int *status)
{
    (void)stream;
    *status = fake.capture_status;
    return fake.capture_result;
}

/* A context whose driver is the fake, an A100 with one device. */
static mla_context *fake_context(const mla_options *options)
{
    mla_context *ctx;

    memset(&fake, 0, sizeof(fake));
    fake.devices = 1;
    fake.major = 8;
    fake.smem_optin = 166912;
    if (mla_context_create(options, &ctx) != MLA_OK)
        return NULL;
    ctx->driver = (struct mla__driver){
        .handle = dlopen(NULL, RTLD_NOW),
        .path = mla__strdup(ctx, "libfake.so"),
        .init = fake_init,
        .version = fake_version,
        .error_name = fake_error_name,
        .error_text = fake_error_text,
        .device_count = fake_device_count,
        .device_get = fake_device_get,
        .device_name = fake_device_name,
        .device_attribute = fake_device_attribute,
        .ctx_retain = fake_ctx_retain,
        .ctx_release = fake_ctx_release,
        .ctx_push = fake_ctx_push,
        .ctx_pop = fake_ctx_pop,
        .ctx_synchronize = fake_synchronize,
        .module_load = fake_module_load,
        .module_unload = fake_module_unload,
        .module_function = fake_module_function,
        .function_set = fake_function_set,
        .launch = fake_do_launch,
        .mem_alloc = fake_mem_alloc,
        .mem_free = fake_mem_free,
        .mem_write = fake_mem_write,
        .mem_read = fake_mem_read,
        .stream_capturing = fake_is_capturing,
    };
    return ctx;
}

/* Writes a file below a directory made for the test. */
__attribute__((unused)) static void
fake_file(const char *directory, const char *name, const char *text)
{
    char path[4096];
    FILE *file;
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "wb");
    if (!file || fputs(text, file) == EOF || fclose(file))
        abort();
}

/* A fresh directory under $TMPDIR or /tmp; the caller removes it. */
__attribute__((unused)) static char *fake_directory(void)
{
    static char path[4096];
    const char *root = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/mla-test-XXXXXX", root ? root : "/tmp");
    if (!mkdtemp(path))
        abort();
    return path;
}

#endif
