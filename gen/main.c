/* SPDX-License-Identifier: Apache-2.0
 *
 * mlagen: from a model's spec to CUDA kernels made for exactly that model.
 *
 * This file is the only one of the generator that prints or exits.  Results go
 * to standard output, diagnostics to standard error, a progress bar to a
 * terminal and nowhere else.  The exit code is the status (status.h); output
 * that cannot be written is an I/O error, not silence.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "verbs.h"

enum { BAR = 24 };

/* Draws over its own line; gone when the last kernel is done. */
static void draw_progress(void *user, size_t done, size_t total,
                          const char *symbol)
{
    char bar[BAR + 1];
    size_t filled = total ? done * BAR / total : BAR;

    (void)user;
    if (done == total) {
        fputs("\r\033[K", stderr);
        return;
    }
    memset(bar, '.', BAR);
    memset(bar, '#', filled);
    bar[BAR] = '\0';
    fprintf(stderr, "\r\033[K[%s] %zu/%zu %.40s", bar, done, total, symbol);
}

/* A standard stream that the caller closed must not be handed to the next file
 * that is opened: put something there that cannot be written. */
static void occupy_closed_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

/* False when standard output did not take all of it; errno says why. */
static bool print_result(const struct mlagen_buf *out)
{
    return fwrite(mlagen_buf_text(out), 1, out->len, stdout) == out->len &&
           fflush(stdout) == 0;
}

static void print_diags(const struct mlagen_diags *d, bool json)
{
    struct mlagen_buf text = {0};

    mlagen_diags_text(d, json ? MLAGEN_DIAG_JSON : MLAGEN_DIAG_GNU, &text);
    fputs(mlagen_buf_text(&text), stderr);
    mlagen_buf_free(&text);
}

/* Not closed: the process ends, and taking the state apart piece by piece
 * would be a tenth of the time of `gen`. */
static struct mlagen *generator;

int main(int argc, char **argv)
{
    struct mlagen_args args;
    struct mlagen_diags diags = {0};
    struct mlagen_buf out = {0};
    enum mlagen_status status;

    (void)argc;
    signal(SIGPIPE, SIG_IGN);
    /* A thread's heap grows a page per system call otherwise, and some thousand
     * of them wait for one another. */
    mallopt(M_TOP_PAD, 32 << 20);
    occupy_closed_streams();
    status = mlagen_args_read(argv, &args, &diags);
    if (status == MLAGEN_OK)
        status = mlagen_run(
            &args, !args.quiet && isatty(STDERR_FILENO) ? draw_progress : NULL,
            &generator, &out, &diags);
    if (out.len > 0 && !print_result(&out)) {
        mlagen_diag(&diags, MLAGEN_ERROR,
                    (struct mlagen_where){"<stdout>", 0, 0}, "%s",
                    strerror(errno));
        status = status == MLAGEN_OK ? MLAGEN_IO : status;
    }
    print_diags(&diags, args.json_errors);
    mlagen_args_free(&args);
    mlagen_diags_free(&diags);
    mlagen_buf_free(&out);
    return status;
}
