/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_bundle.c: any bytes as the files of a set in memory, made ready on a
 * driver and with a compiler that do nothing.
 *
 * The input is the files one after the other, each behind a line with its
 * path, "=== src/k.cu".  A hash in the manifest that is all zeros but for the
 * last digit, n, stands for that of the n-th file, so that what is behind the
 * hashes can be reached.
 *
 * A kernel becomes ready, or one text says why not.  Machine code that reaches
 * the driver is a file of the set, whole and with the hash that the manifest
 * states; a source that reaches the compiler, too.
 */
#include "fake_nvrtc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                     \
    do {                                                                       \
        if (!(condition))                                                      \
            abort();                                                           \
    } while (0)

enum { MAX_FILES = 10 };

static struct {
    char *text; /* what the files are parts of */
    mla_file file[MAX_FILES];
    int files;
    const mla_kernel *kernel; /* that is being made ready */
} bundle;

/* ---- files --------------------------------------------------------------- */

static const char mark[] = "=== ";

/* The mark at the beginning of a line, from `from` on; `end` if none is. */
static char *next_mark(char *from, char *end) {
    for (char *p = from; p < end; p++)
        if ((p == bundle.text || p[-1] == '\n') &&
            (size_t)(end - p) > sizeof mark - 1 &&
            memcmp(p, mark, sizeof mark - 1) == 0)
            return p;
    return end;
}

/* Cuts the text into files; paths end where their lines did. */
static void cut(size_t size) {
    char *end = bundle.text + size, *at = next_mark(bundle.text, end);
    bundle.files = 0;
    while (at < end && bundle.files < MAX_FILES) {
        char *path = at + sizeof mark - 1;
        char *line = memchr(path, '\n', (size_t)(end - path));
        if (!line)
            return;
        *line = 0;
        at = next_mark(line + 1, end);
        bundle.file[bundle.files++] =
            (mla_file){path, line + 1, (size_t)(at - line - 1)};
    }
}

/* Puts the hashes of files where the manifest has placeholders. */
static void put_hashes(void) {
    enum { ZEROS = MLA__SHA256_HEX - 1 };
    char zeros[ZEROS];
    memset(zeros, '0', ZEROS);
    for (int i = 0; i < bundle.files; i++) {
        char *p = (char *)bundle.file[i].data, hash[MLA__SHA256_HEX + 1];
        char *end = p + bundle.file[i].bytes;
        for (; end - p >= ZEROS + 1; p++) {
            int n = p[ZEROS] - '0';
            if (n < 0 || n >= bundle.files || memcmp(p, zeros, ZEROS))
                continue;
            mla__sha256_hex(bundle.file[n].data, bundle.file[n].bytes, hash);
            memcpy(p, hash, ZEROS + 1);
        }
    }
}

/* ---- what reaches driver and compiler ------------------------------------ */

/* The image is the file of that path, whose hash is the one given. */
static void check_file(const char *image, const char *path, const char *hash) {
    char have[MLA__SHA256_HEX + 1];
    int i = 0;
    while (i < bundle.files && strcmp(bundle.file[i].path, path))
        i++;
    REQUIRE(i < bundle.files);
    REQUIRE(memcmp(image, bundle.file[i].data, bundle.file[i].bytes) == 0);
    mla__sha256_hex(bundle.file[i].data, bundle.file[i].bytes, have);
    REQUIRE(!*hash || strcmp(have, hash) == 0);
}

/* Takes machine code that looks like it and the compiler's own; 200, 209 and
 * 218 are the ways to refuse, 1 another error. */
static int take_image(void **module, const void *image, unsigned count,
                      int *options, void **values) {
    const char *text = image;
    const mla_kernel *k = bundle.kernel;
    (void)count, (void)options, (void)values;
    *module = &bundle;
    if (!strncmp(text, "//PT", 4) || !strncmp(text, "\177ELF//", 6))
        return 0;
    check_file(text, k->cubin, k->cubin_hash);
    return !strncmp(text, "\177ELF", 4) ? 0
           : *text == 'i'               ? 200
           : *text == 'n'               ? 209
           : *text == 'p'               ? 218
                                        : 1;
}

/* Refuses what begins with #error. */
static int compile_source(void *program, int count,
                          const char *const *options) {
    struct fake_program *p = program;
    const mla_kernel *k = bundle.kernel;
    (void)count;
    check_file(p->source, k->source, k->source_hash);
    p->cubin = strstr(options[0], "=sm_") != NULL;
    return strncmp(p->source, "#error", 6) == 0 ? 6 : 0;
}

/* The image is a word that take_image knows. */
static int image_size(void *program, size_t *bytes) {
    (void)program;
    *bytes = 16;
    return 0;
}

static int image(void *program, char *out) {
    struct fake_program *p = program;
    snprintf(out, 16, "%s", p->cubin ? "\177ELF//" : "//PTX");
    return 0;
}

/* An A100 without a cache: what is compiled is compiled again. */
static mla_context *open_context(void) {
    mla_options options = MLA_OPTIONS_INIT;
    mla_context *ctx;
    options.cache = "";
    ctx = fake_context(&options);
    REQUIRE(ctx);
    fake_compiler_reset();
    fake_nvrtc(ctx, "fuzz");
    ctx->driver.module_load = take_image;
    ctx->nvrtc.compile = compile_source;
    ctx->nvrtc.ptx_size = ctx->nvrtc.cubin_size = image_size;
    ctx->nvrtc.ptx = ctx->nvrtc.cubin = image;
    return ctx;
}

/* ---- making ready -------------------------------------------------------- */

/* Either the kernel has module and function, or neither and there is a text. */
static void prepare(mla_context *ctx, mla_kernel *k) {
    mla_status status;
    bundle.kernel = k;
    status = mla_prepare(k);
    REQUIRE((status == MLA_OK) == (k->function != NULL));
    REQUIRE((k->function != NULL) == (k->module != NULL));
    REQUIRE(status == MLA_OK || *mla_last_error(ctx));
    REQUIRE(status != MLA_INVALID_ARGUMENT && status != MLA_OUT_OF_MEMORY);
    REQUIRE(fake.current == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mla_context *ctx = open_context();
    mla_kernels *set = NULL;
    mla_status status;
    bundle.text = malloc(size + 1);
    REQUIRE(bundle.text);
    memcpy(bundle.text, data, size);
    cut(size);
    put_hashes();
    status =
        mla_load_files(ctx, "bundle", bundle.file, bundle.files, &set);
    REQUIRE((status == MLA_OK) == (set != NULL));
    REQUIRE(set || status == MLA_IO || status == MLA_BAD_MANIFEST);
    REQUIRE(set || *mla_last_error(ctx));
    for (int i = 0; i < mla_kernels_count(set); i++)
        prepare(ctx, mla_kernels_at(set, i));
    mla_kernels_free(set);
    mla_context_destroy(ctx);
    free(bundle.text);
    return 0;
}
