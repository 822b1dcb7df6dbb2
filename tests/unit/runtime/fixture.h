/* SPDX-License-Identifier: Apache-2.0
 *
 * fixture.h: a small generated directory for the runtime's tests: one kernel
 * family in three architectures and two head counts, with sources that are
 * real CUDA C and cubins that only look like ELF files.
 */
#ifndef RUNTIME_FIXTURE_H
#define RUNTIME_FIXTURE_H

#include <sys/stat.h>

#include "fake_driver.h"

static const char fixture_source[] =
    "extern \"C\" __global__ void mla_copy(int n) { (void)n; }\n";
static const char fixture_cubin[] = "\177ELF fake machine code";

/* The arguments of every kernel: 0 in ptr, 8 out ptr, 16 stride, 24 table
 * ptr, 32 tokens, 36 scale, 40 flag. */
static const char fixture_args[] =
    "\"args\": {\"struct\": \"mla_copy_args\", \"size\": 48, "
    "\"one_of\": [[\"out\"], [\"table\"]], \"fields\": ["
    "{\"name\": \"in\", \"type\": \"ptr\", \"elem\": \"bf16\", "
    "\"access\": \"in\", \"align\": 16, \"offset\": 0, \"doc\": \"rows\"},"
    "{\"name\": \"out\", \"type\": \"ptr\", \"elem\": \"bf16\", "
    "\"access\": \"out\", \"align\": 16, \"null\": true, \"offset\": 8},"
    "{\"name\": \"stride\", \"type\": \"i64\", \"multiple\": 16, "
    "\"offset\": 16},"
    "{\"name\": \"table\", \"type\": \"ptr\", \"elem\": \"i32\", "
    "\"access\": \"in\", \"align\": 4, \"null\": true, \"offset\": 24},"
    "{\"name\": \"tokens\", \"type\": \"i32\", \"offset\": 32},"
    "{\"name\": \"scale\", \"type\": \"f32\", \"offset\": 36},"
    "{\"name\": \"flag\", \"type\": \"i32\", \"flag\": true, "
    "\"offset\": 40}]}";

/* x: 3 * ceil(tokens / 8), clamped to 1000; y: tokens, clamped to 65535. */
static const char fixture_grid[] =
    "\"grid\": [{\"factors\": [{\"const\": 3}, {\"arg\": \"tokens\", "
    "\"per\": 8}], \"max\": 1000}, {\"factors\": [{\"arg\": \"tokens\", "
    "\"per\": 1}], \"max\": 65535}, {\"factors\": [{\"const\": 1}], "
    "\"max\": 65535}]";

struct fixture_kernel {
    const char *arch;
    int heads, smem;
};

static const struct fixture_kernel fixture_kernels[] = {
    {"sm_80", 16, 0}, {"sm_80", 128, 0}, {"sm_86", 16, 0},
    {"sm_90a", 16, 200000}, {"sm_90", 16, 100000}};

enum { FIXTURE_KERNELS = 5 };

static int fixture_kernel_text(char *out, size_t size,
                               const struct fixture_kernel *k,
                               const char *cubin_hash)
{
    return snprintf(
        out, size,
        "{\"family\": \"copy\", \"variant\": \"\", \"symbol\": "
        "\"mla_copy_h%d_%s\", \"arch\": \"%s\", \"dtype\": \"bf16\", "
        "\"heads\": %d, \"page_size\": 64, \"source\": \"src/k.cu\", "
        "\"dims\": {\"nope\": 128, \"rope\": 64, \"v\": 128, \"latent\": 512},"
        "\n%s,\n\"launch\": {\"block\": [32, 4, 1], \"smem_dynamic\": %d,\n%s},"
        "\n\"build\": {\"cubin\": \"cubin/k.cubin\", \"cubin_sha256\": \"%s\","
        " \"smem_static\": 1000}}",
        k->heads, k->arch, k->arch, k->heads, fixture_args, k->smem,
        fixture_grid, cubin_hash);
}

/* The manifest's text, to be freed. */
__attribute__((unused)) static char *fixture_manifest(void)
{
    size_t size = 16384, used;
    char *text = malloc(size);
    char source[MLA__SHA256_HEX + 1], cubin[MLA__SHA256_HEX + 1];

    if (!text)
        abort();
    mla__sha256_hex(fixture_source, strlen(fixture_source), source);
    mla__sha256_hex(fixture_cubin, strlen(fixture_cubin), cubin);
    used = (size_t)snprintf(text, size,
                            "{\"format\": 1, \"model\": \"fixture\",\n"
                            "\"files\": [{\"path\": \"src/k.cu\", "
                            "\"bytes\": 1, \"sha256\": \"%s\"}],\n"
                            "\"kernels\": [", source);
    for (int i = 0; i < FIXTURE_KERNELS; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s\n",
                                 i ? "," : "");
        used += (size_t)fixture_kernel_text(text + used, size - used,
                                            &fixture_kernels[i], cubin);
    }
    snprintf(text + used, size - used, "]}\n");
    return text;
}

/* Makes the directory; the path is good until the next call. */
__attribute__((unused)) static char *fixture_write(void)
{
    char *directory = fake_directory(), path[4200], *text;

    snprintf(path, sizeof(path), "%s/src", directory);
    mkdir(path, 0755);
    snprintf(path, sizeof(path), "%s/cubin", directory);
    mkdir(path, 0755);
    text = fixture_manifest();
    fake_file(directory, "manifest.json", text);
    fake_file(directory, "src/k.cu", fixture_source);
    fake_file(directory, "cubin/k.cubin", fixture_cubin);
    free(text);
    return directory;
}

__attribute__((unused)) static void
fixture_remove(const char *directory)
{
    static const char *const names[] = {"manifest.json", "src/k.cu",
                                        "cubin/k.cubin", "src", "cubin", ""};
    char path[4200];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
        remove(path);
    }
}

#endif
