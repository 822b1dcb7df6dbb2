/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.h: several hosts that share the Lua work of one generation.
 *
 * A host belongs to one thread at a time, so each thread has one of its own;
 * it lives as long as the context and loads a module or a template once.
 */
#ifndef MLAGEN_CREW_H
#define MLAGEN_CREW_H

#include "context.h"

/* Does job `index` on `host`; called from any thread, once per index.  What
 * goes wrong is told to nobody from here: `d` is dropped. */
typedef enum mlagen_status (*mlagen_crew_fn)(void *user,
                                             struct mlagen_host *host,
                                             size_t index,
                                             struct mlagen_diags *d);

/* Does jobs 0 .. count - 1: on several hosts, where the context may use
 * several CPUs and there are `per_host` jobs for each, which is what makes a
 * further host worth its start.  A fault that one of several met is looked for
 * again in order, so that the same one is told on every machine; `fn` is then
 * called again for indices that it has done. */
enum mlagen_status mlagen_crew_run(struct mlagen *g, size_t count,
                                   size_t per_host, mlagen_crew_fn fn,
                                   void *user, struct mlagen_diags *d);

/* Of mlagen_close. */
void mlagen_crew_free(struct mlagen *g);

#endif
