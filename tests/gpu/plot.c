/* SPDX-License-Identifier: Apache-2.0
 *
 * plot.c: the rows as a gnuplot script with its data inside.
 *
 * Three panels of curves over the length and one of bars.  Grey points and
 * lines are figures that others have published, of their kernels on their
 * machine: to be read as an order of magnitude.
 */
#include <string.h>

#include "gpu_bench.h"

/* A curve's points, or a level where no lengths are given. */
struct published {
    const char *title;
    int count;
    double x[4], y[4];
};

/* One panel: rows of a group, those of so many heads (0: any). */
static const struct panel {
    const char *title, *group;
    int heads;
    bool bytes; /* GB/s rather than TFLOP/s */
    struct published published;
} panels[] = {
    {"decode, 128 heads", "decode", 128, false,
     {"FlashMLA, H800 (its README)", 2, {4096, 32768}, {660, 660}}},
    {"decode, 16 heads", "decode", 16, true,
     {"FlashMLA, H800 (its README)", 2, {4096, 32768}, {3000, 3000}}},
    {"mha, causal", "mha", 0, false,
     {"FA4, H100, 16 heads (pith-train#3)",
      4,
      {2048, 4096, 8192, 16384},
      {422, 572, 611, 634}}},
};
/* Curves beyond the last are left out of a panel; the table has them. */
enum { PANELS = sizeof(panels) / sizeof(panels[0]), MAX_CURVES = 64 };

/* --- curves --------------------------------------------------------------- */

/* Failed rows are in no panel. */
static bool is_in(const struct panel *p, const struct gpu_row *row)
{
    return strcmp(row->group, p->group) == 0 && !*row->why &&
           (p->heads == 0 || row->c.heads == p->heads);
}

/* What the points of a curve have in common.  mha's requests follow from its
 * lengths. */
static void curve_of(const struct panel *p, const struct gpu_row *row,
                     char *out, size_t size)
{
    bool decode = strcmp(p->group, "decode") == 0;

    if (decode)
        snprintf(out, size, "%s %s b%lld q%lld", row->arch, row->variant,
                 (long long)row->c.batch, (long long)row->c.q_len);
    else
        snprintf(out, size, "%s %s h%d", row->arch, row->variant,
                 row->c.heads);
}

/* The curves of a panel, in the order of their first row. */
static int find_curves(const struct gpu_results *r, const struct panel *p,
                       char (*curve)[64])
{
    int n = 0;

    for (int i = 0; i < r->rows; i++) {
        char name[64];
        int k = 0;
        if (!is_in(p, &r->row[i]))
            continue;
        curve_of(p, &r->row[i], name, sizeof(name));
        while (k < n && strcmp(curve[k], name))
            k++;
        if (k == n && n < MAX_CURVES)
            memcpy(curve[n++], name, sizeof(name));
    }
    return n;
}

/* Points in the order of x, which gnuplot's "unique" sees to. */
static void put_points(FILE *f, const struct gpu_results *r,
                       const struct panel *p, const char *curve)
{
    for (int i = 0; i < r->rows; i++) {
        const struct gpu_row *row = &r->row[i];
        char name[64];
        if (!is_in(p, row))
            continue;
        curve_of(p, row, name, sizeof(name));
        if (strcmp(name, curve) == 0)
            fprintf(f, "%lld %.4f\n", (long long)row->c.seq_len,
                    p->bytes ? gpu_gbs(row) : gpu_tflops(row));
    }
}

/* A level is drawn from its first to its last length. */
static void put_published(FILE *f, const struct published *p)
{
    for (int i = 0; i < p->count; i++)
        fprintf(f, "%.0f %.0f\n", p->x[i], p->y[i]);
}

/* Data blocks first: gnuplot wants them before the plot command. */
static void put_panel(FILE *f, const struct gpu_results *r, int n)
{
    static char curve[MAX_CURVES][64];
    const struct panel *p = &panels[n];
    int count = find_curves(r, p, curve);

    for (int i = 0; i < count; i++) {
        fprintf(f, "$p%dc%d << EOD\n", n, i);
        put_points(f, r, p, curve[i]);
        fputs("EOD\n", f);
    }
    fprintf(f, "$p%dother << EOD\n", n);
    put_published(f, &p->published);
    fprintf(f, "EOD\nset title \"%s\"\nset ylabel \"%s\"\nplot", p->title,
            p->bytes ? "GB/s" : "TFLOP/s");
    for (int i = 0; i < count; i++)
        fprintf(f, " $p%dc%d using 1:2 smooth unique with linespoints "
                   "title \"%s\",\\\n",
                n, i, curve[i]);
    fprintf(f, " $p%dother using 1:2 with linespoints dashtype 2 "
               "linecolor \"#888888\" title \"%s\"\n\n",
            n, p->published.title);
}

/* --- bars ----------------------------------------------------------------- */

/* Percent of the copy ceiling, for everything that is not attention. */
static void put_bars(FILE *f, const struct gpu_results *r)
{
    fputs("$bars << EOD\n\"\" 0\n", f);
    for (int i = 0; i < r->rows; i++) {
        const struct gpu_row *row = &r->row[i];
        if (*row->why || strcmp(row->group, "decode") == 0 ||
            strcmp(row->group, "mha") == 0 || r->ceilings.copy_gbs <= 0)
            continue;
        fprintf(f, "\"%s %s %s\" %.2f\n", row->group, row->label, row->arch,
                100 * gpu_gbs(row) / r->ceilings.copy_gbs);
    }
    fputs("EOD\nunset logscale x\nset title \"bytes per second\"\n"
          "set ylabel \"% of the copy ceiling\"\nset yrange [0:*]\n"
          "set xtics rotate by 60 right font \",8\"\n"
          "set style fill solid 0.6\nset boxwidth 0.7\n"
          "plot $bars using 0:2:xtic(1) with boxes notitle\n",
          f);
}

/* Without FILE the script draws to standard output. */
bool gpu_write_plot(const struct gpu_results *r, const char *path)
{
    FILE *f = fopen(path, "w");
    bool good;

    if (!f)
        return false;
    fprintf(f,
            "# %s, %s.  gnuplot -e \"FILE='x.svg'\" this\n"
            "set terminal svg size 1400,1100 dynamic enhanced "
            "background \"white\" font \"sans,11\"\n"
            "if (exists(\"FILE\")) set output FILE\n"
            "set multiplot layout 2,2 title \"{/:Bold mlagen %s on %s, %s%s}\" "
            "noenhanced\n"
            "set key outside below maxrows 6 font \",8\" noenhanced\n"
            "set grid\nset logscale x 2\nset xlabel \"keys\"\n"
            "set yrange [0:*]\n\n",
            r->device, r->date, MLAGEN_VERSION, r->device, r->date,
            r->is_virtual ? ": host times, no measurement" : "");
    for (int i = 0; i < PANELS; i++)
        put_panel(f, r, i);
    fputs("unset xlabel\n", f);
    put_bars(f, r);
    fputs("unset multiplot\n", f);
    good = !ferror(f);
    return fclose(f) == 0 && good;
}
