/* SPDX-License-Identifier: Apache-2.0
 *
 * embed: writes files as a table of byte arrays in C, on standard output.
 *
 *     embed templates/main.lua specs/schema.yaml > embedded.c
 *
 * The build runs it over templates/ and specs/ so that the generator carries
 * its texts inside (gen/source.h declares the table).  The table is sorted by
 * path, bytewise, whatever order the arguments come in.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_path(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Writes one file as array d<index>; returns its size, or -1. */
static long put_file(const char *path, int index) {
    FILE *in = fopen(path, "rb");
    if (!in)
        return -1;
    printf("static const unsigned char d%d[] = {", index);
    long size = 0;
    for (int c; (c = getc(in)) != EOF; size++)
        printf("%s%d,", size % 20 ? "" : "\n", c);
    /* The closing NUL keeps an empty file from being an empty array. */
    printf("0};\n");
    int bad = ferror(in);
    fclose(in);
    return bad ? -1 : size;
}

static void put_string(const char *text) {
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
    putchar('"');
}

static void put_table(char **paths, const long *sizes, int count) {
    puts("const struct mlagen_embedded mlagen_embedded[] = {");
    for (int i = 0; i < count; i++) {
        printf("    {");
        put_string(paths[i]);
        printf(", d%d, %ld},\n", i, sizes[i]);
    }
    puts("    {0, 0, 0},\n};");
    printf("const size_t mlagen_embedded_count = %d;\n", count);
}

int main(int argc, char **argv) {
    int count = argc - 1;
    char **paths = argv + 1;
    long *sizes = calloc((size_t)count + 1, sizeof *sizes);
    if (!sizes)
        return 70;
    qsort(paths, (size_t)count, sizeof *paths, by_path);
    puts("/* Written by gen/tools/embed.c; do not edit. */\n"
         "#include \"source.h\"\n");
    for (int i = 0; i < count; i++) {
        sizes[i] = put_file(paths[i], i);
        if (sizes[i] < 0) {
            fprintf(stderr, "%s: error: %s\n", paths[i], strerror(errno));
            free(sizes);
            return 5;
        }
    }
    put_table(paths, sizes, count);
    free(sizes);
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "embed: error: %s\n", strerror(errno));
        return 5;
    }
    return 0;
}
