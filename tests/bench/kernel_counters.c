/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel_counters.c: the counters of every launch that was measured, as a file
 * that `mlagen plan --plot --counters` draws.
 *
 *   {"device": "...", "arch": "sm_90", "launches": [
 *     {"kernel": SYMBOL, "work": "64 tokens",
 *      "bytes": different sectors of global memory, each once,
 *      "flops": of MMAs, padding included,
 *      "port": cycles of shared memory, bank conflicts included,
 *      "insns": warp instructions}, ...]}
 */
#include <stdio.h>

#include "kernel_bench.h"

static struct {
    FILE *file;
    int count;
} book;

bool bench_counters_open(const char *path, const struct num_device *device)
{
    book.file = fopen(path, "w");
    if (book.file)
        fprintf(book.file,
                "{\"device\": \"%s\", \"arch\": \"sm_%d%d\", \"launches\": [",
                device->info.name, device->info.major, device->info.minor);
    return book.file != NULL;
}

void bench_note(const struct num_subject *s, const char *work,
                const struct bench_traffic *t)
{
    if (book.file)
        fprintf(book.file,
                "%s\n {\"kernel\": \"%s\", \"work\": \"%s\", "
                "\"bytes\": %.0f, \"flops\": %.0f, \"port\": %.0f, "
                "\"insns\": %.0f}",
                book.count++ ? "," : "", s->info.symbol, work, t->dram,
                t->mma_flops, t->port_cycles, t->warp_insns);
}

bool bench_counters_close(void)
{
    bool good = true;

    if (book.file) {
        fputs("]}\n", book.file);
        good = !ferror(book.file);
        good = fclose(book.file) == 0 && good;
    }
    book.file = NULL;
    return good;
}
