/* SPDX-License-Identifier: Apache-2.0
 *
 * mutation.h: does anything notice when a kernel loses a barrier?
 *
 * A mutant is a kernel's PTX with one synchronising instruction taken out: a
 * barrier, a wait or commit of asynchronous copies or wgmmas, an arrival, a
 * vote, a shuffle (which then yields the lane's own value).  It runs a small
 * workload on the virtual GPU; either a check fires or the answer differs from
 * the whole kernel's.  A mutant that goes unnoticed means that a check, a
 * workload or a schedule is missing, or that the instruction is not needed,
 * which the table in equivalent.c then has to say and give the reason for.
 */
#ifndef MUTATION_H
#define MUTATION_H

#include <stddef.h>

#include "decode.h"
#include "mha.h"

/* How an instruction is taken out. */
enum mutation_kind {
    MUTATION_REMOVED,
    MUTATION_OWN_VALUE, /* shuffle: each lane keeps its own */
    MUTATION_OWN_VOTE,  /* reduction over lanes or the block: the own alone */
    MUTATION_NO_VOTE,   /* barrier with a vote: the barrier alone is left */
    MUTATION_NO_WAIT    /* wait for an mbarrier: succeeds at once */
};

struct mutation_site {
    size_t at, bytes; /* of the instruction in the text, ';' included */
    enum mutation_kind kind;
    char opcode[48];
    int nth, of;     /* among the sites of the same opcode and kind, from 1 */
    int source_line; /* of the .cu file, outside inlined functions; 0: none */
};

/* The sites of a kernel in order; free() the array. */
struct mutation_site *mutation_sites(const char *ptx, int *count);

/* The text of a mutant, free() it.  Line numbers stay what they are. */
char *mutation_apply(const char *ptx, const struct mutation_site *site);

/* "removed", ... */
const char *mutation_name(enum mutation_kind kind);

/* Why a mutant is as good as the whole kernel, or NULL. */
const char *mutation_equivalent(const mla_kernel_info *kernel,
                                const struct mutation_site *site);

/* A kernel's workload: cases whose outputs the whole kernel has written
 * once. */
struct mutation_work {
    struct num_device *device;
    const struct num_model *model;
    struct num_subject subject;    /* the kernel that is mutated */
    struct decode_kernels kernels; /* mqa_decode's company */
    int cases;
    struct num_case *c[16];
};

/* Makes the cases of the index-th kernel and runs the whole kernel.  Returns
 * what went wrong, or NULL; the text is static or the work's. */
const char *mutation_work_open(struct num_device *device, int index,
                               const struct num_model *model,
                               struct mutation_work *out);
void mutation_work_close(struct mutation_work *w);

/* PTX of the subject's source; mla__free it.  NULL: the context has why. */
char *mutation_ptx(struct mutation_work *w);

/* Runs the cases with the subject's code replaced, in several schedules, until
 * something is noticed.  Fills `what` and returns true then. */
bool mutation_noticed(struct mutation_work *w, const char *ptx, char *what,
                      size_t size);

#endif
