/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_trace.h: what the kernels of a test wrote, into the file that GPU_TRACE
 * names, so that two drivers can be compared bit for bit (tests/gpu/trace.c).
 *
 * A record is a line "NAME<tab>strict|loose<tab>BYTES" and the bytes.  The
 * name is a text of the test's and the hash of the kernel, so that records of
 * two runs find each other even if one of them lacks some.  Loose are results
 * that the ISA leaves open within bounds: approximations, sums in an order of
 * the machine's, payloads of NaNs, who comes first at an atomic.
 */
#ifndef TEST_VGPU_GPU_TRACE_H
#define TEST_VGPU_GPU_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    FILE *file;
    bool opened, loose;
} gpu_trace;

/* What the running test writes is loose, until the next test begins. */
static inline void gpu_loose(void)
{
    gpu_trace.loose = true;
}

/* FNV-1a, 64 bits. */
static inline uint64_t gpu_hash(const char *text)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return h;
}

static inline void gpu_trace_open(void)
{
    const char *path = getenv("GPU_TRACE");
    gpu_trace.opened = true;
    gpu_trace.file = path && *path ? fopen(path, "wb") : NULL;
    if (path && *path && !gpu_trace.file) {
        perror(path);
        exit(1);
    }
}

/* Adds a record; name may be of several lines. */
static inline void gpu_trace_add(const char *name, const char *ptx,
                                 const void *bytes, size_t n)
{
    if (!gpu_trace.opened)
        gpu_trace_open();
    if (!gpu_trace.file)
        return;
    for (; *name; name++)
        putc(*name == '\n' || *name == '\t' ? ' ' : *name, gpu_trace.file);
    fprintf(gpu_trace.file, " #%016llx\t%s\t%zu\n",
            (unsigned long long)gpu_hash(ptx),
            gpu_trace.loose ? "loose" : "strict", n);
    fwrite(bytes, 1, n, gpu_trace.file);
    fflush(gpu_trace.file); /* a test may die of a signal */
}

#endif
