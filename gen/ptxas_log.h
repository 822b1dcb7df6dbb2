/* SPDX-License-Identifier: Apache-2.0
 *
 * ptxas_log: what the assembler said about a kernel, as numbers.
 *
 * With --ptxas-options=-v the program log of NVRTC ends in ptxas's report:
 * registers, spills, stack frame, static shared memory, barriers, and between
 * them remarks such as "(C7508) Potential Performance Loss: 'setmaxnreg'
 * ignored", which cost more speed than most bugs and fail nothing.  This
 * module reads the report and turns every such remark into a *finding* with a
 * short code, so that the build can refuse what the plan does not allow.
 */
#ifndef MLAGEN_PTXAS_LOG_H
#define MLAGEN_PTXAS_LOG_H

#include <stdbool.h>
#include <stddef.h>

#define MLAGEN_FINDING_CODE 16

/* One remark.  Codes: "spill" (registers in local memory), "stack" (a stack
 * frame, so local memory, without a spill), "Cnnnn" (ptxas's own number),
 * "loss" ("Potential Performance Loss" without a number), "warning" (any
 * other ptxas warning), "compiler" (a warning of the C++ front end). */
struct mlagen_finding {
    char code[MLAGEN_FINDING_CODE];
    char *text;
};

/* Sizes in bytes.  Spills are summed over the kernel and the functions it
 * calls, stack is the deepest. */
struct mlagen_ptxas {
    long registers;
    long barriers;
    long stack;
    long spill_stores;
    long spill_loads;
    long smem_static;
    struct mlagen_finding *findings;
    size_t finding_count, finding_cap;
};

/* Reads the log of a program with one kernel.  False when the log holds no
 * "Used N registers" line (then the numbers would be a guess) or memory is
 * short; *out is zeroed then.  On success free with mlagen_ptxas_free. */
bool mlagen_ptxas_read(const char *log, struct mlagen_ptxas *out);

void mlagen_ptxas_free(struct mlagen_ptxas *report);

#endif
