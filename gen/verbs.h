/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs.h: what each verb of the command does with the library, as text to be
 * printed and a status; main.c does the printing.
 */
#ifndef MLAGEN_VERBS_H
#define MLAGEN_VERBS_H

#include "args.h"
#include "mlagen.h"

/* Runs the verb of `a`.  The result for standard output is appended to `out`;
 * it may be there beside a failure (what differs, say).  `progress` may be
 * NULL.  *g is the generator that was used, NULL for verbs without; the caller
 * closes it.  run-check replaces the process and returns only when it cannot.
 */
enum mlagen_status mlagen_run(const struct mlagen_args *a,
                              mlagen_progress_fn progress, struct mlagen **g,
                              struct mlagen_buf *out, struct mlagen_diags *d);

#endif
