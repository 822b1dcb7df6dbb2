/* SPDX-License-Identifier: Apache-2.0
 *
 * replay.c: runs a fuzz target over its committed corpus, as a test.
 *
 *     build/tests/fuzz/yaml [FOLDER]      TAP, one line for each file
 *
 * Linked with one fuzz_*.c; FUZZ_CORPUS is that target's folder, relative to
 * the root of the repository.  A target that finds a fault aborts, which leaves
 * the plan unfulfilled and the name of the file on standard error.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads a whole file into a block of exactly its size, so that a sanitizer
 * sees a read past the end; NULL when it cannot be read. */
static uint8_t *read_file(const char *path, size_t *size) {
    FILE *in = fopen(path, "rb");
    if (!in)
        return NULL;
    long end = fseek(in, 0, SEEK_END) ? -1 : ftell(in);
    uint8_t *data = end < 0 ? NULL : malloc(end ? (size_t)end : 1);
    rewind(in);
    if (data && fread(data, 1, (size_t)end, in) != (size_t)end) {
        free(data);
        data = NULL;
    }
    fclose(in);
    *size = data ? (size_t)end : 0;
    return data;
}

static int visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

/* Replays one file; false when it cannot be read. */
static int replay(const char *folder, const char *name, int number) {
    char path[1024];
    size_t size;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    uint8_t *data = read_file(path, &size);
    fprintf(stderr, "# %s\n", path);
    if (data)
        LLVMFuzzerTestOneInput(data, size);
    printf("%s %d - fuzz corpus: %s\n", data ? "ok" : "not ok", number, name);
    fflush(stdout);
    int good = data != NULL;
    free(data);
    return good;
}

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : FUZZ_CORPUS;
    struct dirent **entries;
    int count = scandir(folder, &entries, visible, alphasort);
    int bad = count <= 0;
    if (bad)
        printf("Bail out! no corpus in %s\n", folder);
    else
        printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        bad |= !replay(folder, entries[i]->d_name, i + 1);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return bad;
}
