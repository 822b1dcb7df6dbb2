/* SPDX-License-Identifier: Apache-2.0
 *
 * report.c: the table for people and the JSON for programs.
 *
 * A row gives operations and bytes per second, and what part of the measured
 * ceilings that is.  JSON has every number of the table, unrounded, and the
 * schema is in README.md.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_bench.h"

/* Rows move when the table grows: none is kept across another call. */
struct gpu_row *gpu_add_row(struct gpu_results *r)
{
    if (r->rows == r->room) {
        r->room = r->room ? 2 * r->room : 64;
        r->row = realloc(r->row, (size_t)r->room * sizeof(*r->row));
        if (!r->row)
            abort();
    }
    memset(&r->row[r->rows], 0, sizeof(*r->row));
    return &r->row[r->rows++];
}

/* Operations per second, 10^12; 0 for a row that failed. */
double gpu_tflops(const struct gpu_row *row)
{
    return row->figure.us > 0 ? row->flops / row->figure.us * 1e-6 : 0;
}

/* Bytes per second, 10^9. */
double gpu_gbs(const struct gpu_row *row)
{
    return row->figure.us > 0 ? row->bytes / row->figure.us * 1e-3 : 0;
}

/* With no product measured at all the ceiling stays 0, and shares of it too. */
void gpu_settle_ceilings(struct gpu_results *r)
{
    struct gpu_ceilings *c = &r->ceilings;

    if (c->gemm_tflops > 0)
        return;
    for (int i = 0; i < r->rows; i++)
        if (strcmp(r->row[i].group, "kv_b") == 0 && !*r->row[i].why)
            c->gemm_tflops = fmax(c->gemm_tflops, gpu_tflops(&r->row[i]));
    if (c->gemm_tflops > 0) {
        char why[sizeof(c->gemm)];
        snprintf(why, sizeof(why), "%s", c->gemm);
        snprintf(c->gemm, sizeof(c->gemm), "%.100s: the best kv_b here", why);
    }
}

/* --- the table ------------------------------------------------------------ */

void gpu_print_head(const struct gpu_results *r)
{
    printf("device    %s (%d.%d), %d SMs\n", r->device, r->major, r->minor,
           r->sms);
    printf("driver    %s, CUDA %d.%d\n", r->driver,
           r->driver_version / 1000, r->driver_version % 1000 / 10);
    printf("copy      %.0f GB/s read and written\n", r->ceilings.copy_gbs);
    if (r->ceilings.gemm_tflops > 0)
        printf("GEMM      %.1f TFLOP/s (%s)\n", r->ceilings.gemm_tflops,
               r->ceilings.gemm);
    else
        printf("GEMM      %s: the best kv_b so far counts\n",
               r->ceilings.gemm);
    if (r->is_virtual)
        printf("These are host times of a virtual GPU: they test this "
               "program and say nothing about a kernel.\n");
    printf("\n%-9s %-23s %-8s %-9s %10s %9s %8s %6s %6s\n", "", "case",
           "arch", "variant", "us", "TFLOP/s", "GB/s", "% gemm", "% copy");
}

/* 0 where there is no ceiling. */
static double percent(double value, double of)
{
    return of > 0 ? 100 * value / of : 0;
}

/* Best kv_b until now, where cuBLAS has set nothing. */
static double gemm_now(const struct gpu_results *r)
{
    struct gpu_results copy = *r;
    gpu_settle_ceilings(&copy);
    return copy.ceilings.gemm_tflops;
}

/* Flushed, so that a pipe shows progress. */
void gpu_print_row(const struct gpu_results *r, const struct gpu_row *row)
{
    printf("%-9s %-23s %-8s %-9s ", row->group, row->label, row->arch,
           row->variant);
    if (*row->why) {
        printf("FAIL  %s: %s\n", row->symbol, row->why);
        return;
    }
    printf("%10.2f %9.2f %8.1f %6.1f %6.1f\n", row->figure.us,
           gpu_tflops(row), gpu_gbs(row),
           percent(gpu_tflops(row), gemm_now(r)),
           percent(gpu_gbs(row), r->ceilings.copy_gbs));
    fflush(stdout);
}

/* What a reader needs to know before trusting the table. */
void gpu_print_end(const struct gpu_results *r)
{
    printf("\n%d measured, %d failed, %d left out for lack of time, %.0f s\n",
           r->rows - r->failures, r->failures, r->left_out, r->seconds);
    if (r->absent)
        printf("%d cases without a kernel in the directory\n", r->absent);
}

/* --- JSON ----------------------------------------------------------------- */

/* Driver texts hold line ends and quotes. */
static void put_string(FILE *f, const char *name, const char *s,
                       const char *after)
{
    fprintf(f, "\"%s\": \"", name);
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == '"' || *s == '\\')
            fprintf(f, "\\u%04x", (unsigned char)*s);
        else
            putc(*s, f);
    fprintf(f, "\"%s", after);
}

/* A failed row has its reason in place of figures. */
static void put_row(FILE *f, const struct gpu_results *r,
                    const struct gpu_row *row)
{
    const struct gpu_figure *m = &row->figure;

    fputs("{", f);
    put_string(f, "group", row->group, ", ");
    put_string(f, "kernel", row->symbol, ", ");
    put_string(f, "variant", row->variant, ", ");
    put_string(f, "arch", row->arch, ",\n   ");
    fprintf(f, "\"heads\": %d, \"batch\": %lld, \"q_len\": %lld, "
               "\"seq_len\": %lld,\n   ",
            row->c.heads, (long long)row->c.batch, (long long)row->c.q_len,
            (long long)row->c.seq_len);
    if (*row->why) {
        put_string(f, "error", row->why, "}");
        return;
    }
    fprintf(f, "\"us\": %.4f, \"us_least\": %.4f, \"us_most\": %.4f, "
               "\"copies\": %d, \"launches\": %d, \"replays\": %d,\n   ",
            m->us, m->least, m->most, m->copies, m->launches, m->replays);
    fprintf(f, "\"flops\": %.0f, \"bytes\": %.0f, \"tflops\": %.4f, "
               "\"gbs\": %.3f, \"of_gemm\": %.5f, \"of_copy\": %.5f}",
            row->flops, row->bytes, gpu_tflops(row), gpu_gbs(row),
            percent(gpu_tflops(row), r->ceilings.gemm_tflops) / 100,
            percent(gpu_gbs(row), r->ceilings.copy_gbs) / 100);
}

/* The head: where, when, with what, and the ceilings. */
static void put_device(FILE *f, const struct gpu_results *r)
{
    put_string(f, "device", r->device, ", ");
    fprintf(f, "\"compute\": \"%d.%d\", \"sms\": %d, \"virtual\": %s,\n ",
            r->major, r->minor, r->sms, r->is_virtual ? "true" : "false");
    put_string(f, "driver", r->driver, ", ");
    fprintf(f, "\"cuda\": %d, ", r->driver_version);
    put_string(f, "date", r->date, ", ");
    put_string(f, "mlagen", MLAGEN_VERSION, ",\n ");
    fprintf(f, "\"ceilings\": {\"copy_gbs\": %.2f, \"gemm_tflops\": %.3f, ",
            r->ceilings.copy_gbs, r->ceilings.gemm_tflops);
    put_string(f, "gemm", r->ceilings.gemm, "},\n ");
}

bool gpu_write_json(const struct gpu_results *r, const char *path)
{
    FILE *f = fopen(path, "w");
    bool good;

    if (!f)
        return false;
    fputs("{", f);
    put_device(f, r);
    fprintf(f, "\"seconds\": %.1f, \"failed\": %d, \"left_out\": %d, "
               "\"absent\": %d,\n \"rows\": [",
            r->seconds, r->failures, r->left_out, r->absent);
    for (int i = 0; i < r->rows; i++) {
        fputs(i ? ",\n  " : "\n  ", f);
        put_row(f, r, &r->row[i]);
    }
    fputs("]}\n", f);
    good = !ferror(f);
    return fclose(f) == 0 && good;
}
