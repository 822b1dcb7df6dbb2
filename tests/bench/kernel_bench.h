/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel_bench.h: the figures of `make bench`: how long generation and
 * compilation take, and what each kernel moves and issues.
 */
#ifndef KERNEL_BENCH_H
#define KERNEL_BENCH_H

#include "case.h"
#include "device.h"
#include "subject.h"

/* Milliseconds of a child process, the least of `runs`; negative if it could
 * not run or failed.  argv ends in NULL; its stdout goes to /dev/null. */
double bench_child(char *const *argv, int runs);

struct bench_compiled {
    double milliseconds; /* source to machine code, cold */
    size_t cubin_bytes;
};

/* Compiles the kernel's source for its architecture; NULL or why not. */
const char *bench_compile(const struct num_subject *s,
                          struct bench_compiled *out);

/* Counters of one launch on a virtual GPU. */
struct bench_traffic {
    int64_t tokens;
    double floor;     /* bytes: each input and each output once */
    double rounding;  /* bytes: a sector for each tensor's ragged end */
    double requested; /* bytes that lanes ask for */
    double copied;    /* of these, by asynchronous copies */
    double l2;        /* bytes behind an L1 that never evicts, stores added */
    double dram;      /* bytes of the different 32-byte sectors */
    double warp_insns, mma_flops, mma_count;
    double bank_conflicts; /* wavefronts beyond the least */
    double port_cycles;    /* of shared memory: wavefronts, wgmma and TMA */
    double word_cycles;    /* of these, loads and stores of single words */
    double barriers;       /* that warps arrive at */
    double mma_cycles;     /* of wgmma, per SM */
    double tma;            /* bytes that TMA reads, multicasts once */
};

/* Runs the kernel once, packed tensors; NULL or why not. */
const char *bench_measure(struct num_device *device,
                          const struct num_subject *s, int64_t tokens,
                          struct bench_traffic *out);

/* The same for a case that has been made. */
const char *bench_measure_case(struct num_device *device, struct num_case *c,
                               struct bench_traffic *out);

/* Products of 16 x 8 x 16 of a launch, by mma.sync or wgmma; at least 1. */
double bench_mmas(const struct bench_traffic *t);

/* Measures the kernels of the family mha and prints a row for each shape;
 * returns how many have gone wrong. */
int bench_attention(struct num_device *device, const struct num_model *model,
                    bool json);

/* The same for the decode step, of which mqa_decode's launch counts. */
int bench_decode(struct num_device *device, const struct num_model *model,
                 bool json);

/* The counters of all launches as a file (kernel_counters.c): opened before
 * the first, closed after the last; noting without a file does nothing. */
bool bench_counters_open(const char *path, const struct num_device *device);
void bench_note(const struct num_subject *s, const char *work,
                const struct bench_traffic *t);
bool bench_counters_close(void);

#endif
