/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h: running a case, and judging what came back.
 *
 * A run places every tensor in a buffer of its own, fills what the call does
 * not own with a poison, launches, and reads everything back.  Three things
 * are judged: nothing outside the live bytes of the outputs has changed; the
 * live bytes agree with the oracle (first run); they agree bit for bit with
 * the first run, whatever the poison, the schedule, or the company of tokens.
 */
#ifndef NUM_RUN_H
#define NUM_RUN_H

#include "case.h"
#include "device.h"

struct num_run {
    enum num_poison poison;
    uint64_t schedule;    /* of the virtual GPU; 0: in order */
    int64_t first, count; /* tokens of the batch that run */
    bool guarded; /* canaries around the buffers, and the least alignment that
                   * the kernel allows; else buffers of exactly their size,
                   * whose ends a virtual GPU watches */
    bool is_first; /* keep the outputs rather than compare with kept ones */
};

/* What a group of cases has shown. */
struct num_verdict {
    int cases, launches, failures;
    double max_abs, max_rel;
    double worst; /* error over tolerance, greatest */
    double dot, want, got; /* sums for the cosine over 16-bit outputs */
    char why[4096];        /* of the first failure */
};

/* One launch.  False: v->why says what was wrong and v->failures has grown. */
bool num_run_once(struct num_device *device, struct num_case *c,
                  const struct num_run *run, struct num_verdict *v);

/* Binds the arguments of the case's kernel to the tensors of a run and
 * launches it; waits for its end unless a stream is given.  False: as above. */
bool num_launch(struct num_device *device, struct num_case *c,
                const struct num_run *run, const uint64_t *address,
                void *stream, struct num_verdict *v);

/* All runs of a case: `schedules` seeds, the poisons and windows that its
 * flags ask for, and the comparison with the oracle. */
void num_check_case(struct num_device *device, struct num_case *c,
                    int schedules, struct num_verdict *v);

/* Wrong calls of the kernel, each of which must be refused by name before it
 * reaches the device. */
void num_check_refusals(struct num_device *device, struct num_case *c,
                        struct num_verdict *v);

/* Calls without work, which must succeed and touch nothing. */
void num_check_empty(struct num_device *device, struct num_case *c,
                     struct num_verdict *v);

/* 1 - cos of the angle between answers and expectations; 0 without any. */
double num_cosine_distance(const struct num_verdict *v);

/* Compares the kept outputs with the oracle. */
void num_compare(struct num_case *c, struct num_verdict *v);

/* Binding: sets every argument of the kernel from the case.  address[i] is
 * that of tensor i.  Returns the name of an argument that the case knows
 * nothing about, or NULL. */
const char *num_bind(struct num_case *c, const uint64_t *address,
                     int64_t first, int64_t count, mla_args *args);

/* As num_fail, with what the virtual GPU has to say; the device is lost. */
void num_fail_on_device(struct num_device *device, struct num_verdict *v,
                        const struct num_case *c, const char *error);

void num_fail(struct num_verdict *v, const struct num_case *c,
              const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
