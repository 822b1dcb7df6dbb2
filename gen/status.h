/* SPDX-License-Identifier: Apache-2.0
 *
 * status.h: how every function of the generator says how it went.
 *
 * The values are also the exit codes of the `mlagen` command, so a status
 * travels unchanged from the deepest function to main's return.  Details (which
 * file, which line, what was wrong) travel beside it as diagnostics (diag.h).
 */
#ifndef MLAGEN_STATUS_H
#define MLAGEN_STATUS_H

/* X(name, exit code, meaning) */
#define MLAGEN_STATUSES(X)                                                     \
    X(OK, 0, "success")                                                        \
    X(DIFFERENT, 1, "a difference or a failed check")                          \
    X(USAGE, 2, "wrong use of the command line")                               \
    X(SPEC, 3, "a fault in a spec or a config")                                \
    X(TEMPLATE, 4, "a fault in a template, a rule or a plan")                  \
    X(IO, 5, "a file could not be read or written")                            \
    X(CUDA, 6, "CUDA compilation failed")                                      \
    X(DEVICE, 7, "no device")                                                  \
    X(INTERNAL, 70, "out of memory, or a bug of the generator")

enum mlagen_status {
#define MLAGEN_STATUS_ENUM(name, code, meaning) MLAGEN_##name = code,
    MLAGEN_STATUSES(MLAGEN_STATUS_ENUM)
#undef MLAGEN_STATUS_ENUM
};

#endif
