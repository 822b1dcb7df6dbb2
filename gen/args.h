/* SPDX-License-Identifier: Apache-2.0
 *
 * args.h: the command line of `mlagen`, as two tables: verbs and flags.
 *
 * A flag says which verbs take it; one that a verb does not take is refused by
 * name, never ignored.  Help texts come from the same tables.
 */
#ifndef MLAGEN_ARGS_H
#define MLAGEN_ARGS_H

#include "diag.h"

enum mlagen_verb {
    MLAGEN_VERB_IMPORT,
    MLAGEN_VERB_CHECK,
    MLAGEN_VERB_PLAN,
    MLAGEN_VERB_GEN,
    MLAGEN_VERB_BUILD,
    MLAGEN_VERB_VERIFY,
    MLAGEN_VERB_BUNDLE,
    MLAGEN_VERB_EXPLAIN,
    MLAGEN_VERB_RUN_CHECK,
    MLAGEN_VERB_LIST,
    MLAGEN_VERB_ENV,
    MLAGEN_VERB_HELP,
    MLAGEN_VERB_VERSION,
    MLAGEN_VERBS
};

struct mlagen_args {
    enum mlagen_verb verb;
    const char *operand; /* SPEC, DIR or CONFIG; NULL when the verb has none */
    char **rest; /* run-check: everything behind the verb, NULL-ended */

    const char *out;       /* -o */
    const char *archs;     /* --arch */
    const char **settings; /* -D; freed with mlagen_args_free */
    size_t setting_count, setting_cap;
    const char *templates; /* -I */
    const char *symbol_prefix;
    const char *depfile; /* -MF */
    const char *results; /* list --models --results */
    const char *plot, *counters;    /* plan */
    unsigned batch, seq_len, q_len; /* plan --plot; 0: not given */
    unsigned jobs;                  /* -j; 0: not given */
    bool cubins, ptx, sources; /* bundle */
    bool check, list_outputs, depend, json, json_errors;
    bool quiet, verbose, strict, models, help;
};

/* Reads argv[1..].  Texts in *out point into argv.  What was understood before
 * an error is kept, so that --error-format=json holds for the error too.
 * @return MLAGEN_USAGE with one error. */
enum mlagen_status mlagen_args_read(char **argv, struct mlagen_args *out,
                                    struct mlagen_diags *d);
void mlagen_args_free(struct mlagen_args *a);

/* The overview of all verbs. */
void mlagen_args_overview(struct mlagen_buf *out);

/* The help of one verb: usage, what it does, its flags. */
void mlagen_args_help(enum mlagen_verb verb, struct mlagen_buf *out);

#endif
