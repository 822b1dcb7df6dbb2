/* SPDX-License-Identifier: Apache-2.0
 *
 * bundle.c: a generated folder as two files, for a program that wants to carry
 * its kernels in its own tree: one source with all kernels, and one header
 * with the declarations and, where a macro asks for them, the descriptors and
 * the compiled kernels as C arrays.
 *
 * Nothing is generated here: the texts of the folder are put one behind the
 * other, and every name comes from the manifest.
 */
#include "bundle.h"

#include <ctype.h>
#include <string.h>

#include "alloc.h"
#include "folder_io.h"
#include "manifest.h"

/* What is being put together; `folder` and `manifest` are borrowed. */
struct bundle {
    const struct mlagen_folder *folder;
    const json_t *manifest;
    struct mlagen_buf ident; /* mla_deepseek_v3 */
    struct mlagen_buf upper; /* MLA_DEEPSEEK_V3 */
    struct mlagen_bundle_files files;
    struct mlagen_buf source, header;
    struct mlagen_diags *d;
};

/* --- reading ------------------------------------------------------------- */

/* Without the lock: a bundle only reads, and every file is checked by
 * its hash. */
enum mlagen_status mlagen_open_generated(const char *path,
                                         struct mlagen_folder *f,
                                         struct mlagen_diags *d)
{
    enum mlagen_status status = mlagen_folder_open(path, false, f, d);
    char shown[PATH_MAX];

    if (status != MLAGEN_OK)
        return status;
    if (f->manifest)
        return MLAGEN_OK;
    mlagen_folder_close(f);
    if (mlagen_join(path, MLAGEN_MANIFEST, shown, d) == MLAGEN_OK)
        mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){shown, 0, 0},
                    "no such file; not a folder that mlagen wrote");
    return MLAGEN_IO;
}

const char *mlagen_listed_hash(const json_t *manifest, const char *path)
{
    size_t i;
    json_t *file;

    json_array_foreach(json_object_get(manifest, "files"), i, file)
    {
        if (strcmp(mlagen_json_text(file, "path"), path) == 0)
            return mlagen_json_text(file, "sha256");
    }
    return NULL;
}

/* A hash that the manifest does not list (NULL) is a difference as well. */
enum mlagen_status mlagen_listed_file(const struct mlagen_folder *f,
                                      const char *path, const char *sha256,
                                      struct mlagen_buf *out,
                                      struct mlagen_diags *d)
{
    char hex[MLAGEN_HASH_HEX], shown[PATH_MAX];
    bool found;
    enum mlagen_status status = mlagen_folder_read(f, path, out, &found, d);

    if (status == MLAGEN_OK)
        status = mlagen_join(f->path, path, shown, d);
    if (status != MLAGEN_OK)
        return status;
    mlagen_sha256(mlagen_buf_text(out), out->len, hex);
    if (found && sha256 && strcmp(hex, sha256) == 0)
        return MLAGEN_OK;
    mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){shown, 0, 0}, "%s",
                found ? "not what the manifest lists; see 'mlagen verify'"
                      : "no such file, although the manifest lists it");
    return found ? MLAGEN_DIFFERENT : MLAGEN_IO;
}

/* A listed file by name, into `out`, which is emptied first. */
static enum mlagen_status read_listed(const struct bundle *b, const char *path,
                                      struct mlagen_buf *out)
{
    mlagen_buf_clear(out);
    return mlagen_listed_file(b->folder, path,
                              mlagen_listed_hash(b->manifest, path), out, b->d);
}

/* The path of the listed file that ends so; there is one of each. */
static const char *find_listed(const json_t *manifest, const char *ending)
{
    size_t i, n = strlen(ending);
    json_t *file;

    json_array_foreach(json_object_get(manifest, "files"), i, file)
    {
        const char *path = mlagen_json_text(file, "path");
        size_t len = strlen(path);

        if (len > n && strcmp(path + len - n, ending) == 0 &&
            !strchr(path, '/'))
            return path;
    }
    return NULL;
}

/* --- names --------------------------------------------------------------- */

/* "deepseek-v3" -> mla_deepseek_v3, MLA_DEEPSEEK_V3; a prefix of the symbols
 * goes before.  The generated header makes its names in the same way. */
static enum mlagen_status make_names(struct bundle *b)
{
    const char *prefix = mlagen_json_text(b->manifest, "symbol_prefix");

    mlagen_buf_printf(&b->ident, "%smla_", prefix);
    for (const char *p = mlagen_json_text(b->manifest, "model"); *p; p++)
        mlagen_buf_char(&b->ident,
                        isalnum((unsigned char)*p) ? (char)tolower(*p) : '_');
    for (const char *p = mlagen_buf_text(&b->ident); *p; p++)
        mlagen_buf_char(&b->upper, (char)toupper((unsigned char)*p));
    return b->ident.failed || b->upper.failed ? mlagen_no_memory(b->d)
                                              : MLAGEN_OK;
}

/* "sm_90a" -> MLA_SM_90A */
static void add_arch_macro(struct mlagen_buf *out, const char *arch)
{
    mlagen_buf_str(out, "MLA_");
    for (; *arch; arch++)
        mlagen_buf_char(out, (char)toupper((unsigned char)*arch));
}

/* --- the source ---------------------------------------------------------- */

/* "sm_90a", of the i-th kernel. */
static const char *arch_of(const json_t *kernels, size_t i)
{
    return mlagen_json_text(json_array_get(kernels, i), "arch");
}

/* True for the first kernel of an architecture. */
static bool first_of_arch(const json_t *kernels, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(arch_of(kernels, k), arch_of(kernels, i)) == 0)
            return false;
    return true;
}

/* How many different architectures the kernels are for. */
static size_t count_archs(const json_t *kernels)
{
    size_t count = 0;

    for (size_t i = 0; i < json_array_size(kernels); i++)
        count += first_of_arch(kernels, i);
    return count;
}

/* Code for one architecture does not compile for an older one, so a source
 * with several is compiled once for each. */
static void add_arch_check(struct bundle *b, const json_t *kernels)
{
    struct mlagen_buf names = {0};
    const char *joint = "#if ";

    for (size_t i = 0; i < json_array_size(kernels); i++) {
        if (!first_of_arch(kernels, i))
            continue;
        mlagen_buf_printf(&b->source, "%s!defined(", joint);
        add_arch_macro(&b->source, arch_of(kernels, i));
        mlagen_buf_str(&b->source, ")");
        joint = " && \\\n    ";
        if (names.len > 0)
            mlagen_buf_str(&names, ", ");
        add_arch_macro(&names, arch_of(kernels, i));
    }
    mlagen_buf_printf(&b->source,
                      "\n#error \"compile once per architecture, with its "
                      "macro: %s\"\n#endif\n\n",
                      mlagen_buf_text(&names));
    mlagen_buf_free(&names);
}

/* One kernel, under its architecture's macro when there are several. */
static enum mlagen_status add_kernel(struct bundle *b, const json_t *kernel,
                                     bool guarded)
{
    struct mlagen_buf text = {0};
    enum mlagen_status status =
        read_listed(b, mlagen_json_text(kernel, "source"), &text);

    if (guarded) {
        mlagen_buf_str(&b->source, "#ifdef ");
        add_arch_macro(&b->source, mlagen_json_text(kernel, "arch"));
        mlagen_buf_char(&b->source, '\n');
    }
    mlagen_buf_add(&b->source, mlagen_buf_text(&text), text.len);
    mlagen_buf_str(&b->source, guarded ? "#endif\n\n" : "\n");
    mlagen_buf_free(&text);
    return status;
}

/* With one architecture the source compiles as it is; with several each kernel
 * stands under its architecture's macro. */
static enum mlagen_status make_source(struct bundle *b)
{
    const json_t *kernels = json_object_get(b->manifest, "kernels");
    bool guarded = count_archs(kernels) > 1;
    enum mlagen_status status = MLAGEN_OK;
    size_t i;
    json_t *kernel;

    mlagen_buf_printf(&b->source,
                      "// SPDX-License-Identifier: 0BSD\n"
                      "// All kernels of %s, by %s; put together by mlagen "
                      "bundle.\n\n",
                      mlagen_json_text(b->manifest, "model"),
                      mlagen_json_text(b->manifest, "generator"));
    if (guarded)
        add_arch_check(b, kernels);
    json_array_foreach(kernels, i, kernel)
    {
        if (status == MLAGEN_OK)
            status = add_kernel(b, kernel, guarded);
    }
    return status;
}

/* --- the header ---------------------------------------------------------- */

/* The text of the descriptors, without the line that includes the header that
 * now stands above it. */
static void add_without_include(struct mlagen_buf *out, const char *text,
                                const char *header)
{
    const char *next;

    for (; *text; text = next) {
        next = text + strcspn(text, "\n");
        next += *next == '\n';
        if (strncmp(text, "#include \"", 10) == 0 &&
            strncmp(text + 10, header, strlen(header)) == 0)
            continue;
        mlagen_buf_add(out, text, (size_t)(next - text));
    }
}

/* What the program sees of the arrays. */
static void add_file_table(struct bundle *b)
{
    mlagen_buf_printf(
        &b->header,
        "\n/* --- Files: %s %s */\n\n"
        "#ifndef %s_FILES\n#define %s_FILES\n\n#include <stddef.h>\n\n"
        "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
        "#ifndef MLA_FILE_DEFINED\n#define MLA_FILE_DEFINED\n"
        "/* A file of the generated folder; data ends in a zero that bytes "
        "does not count. */\n"
        "typedef struct mla_file {\n    const char *path;\n"
        "    const void *data;\n    size_t bytes;\n} mla_file;\n#endif\n\n"
        "extern const mla_file %s_files[];\n"
        "extern const int %s_file_count;\n\n"
        "#ifdef __cplusplus\n}\n#endif\n\n#endif\n",
        "the compiled kernels, and what else the bundle was made with",
        "-----------------------", mlagen_buf_text(&b->upper),
        mlagen_buf_text(&b->upper), mlagen_buf_text(&b->ident),
        mlagen_buf_text(&b->ident));
}

/* Declarations, then what one C file of the program turns on. */
static enum mlagen_status join_header(struct bundle *b, const char *path,
                                      const struct mlagen_buf *declarations,
                                      const struct mlagen_buf *definitions)
{
    const char *upper = mlagen_buf_text(&b->upper);

    mlagen_buf_add(&b->header, mlagen_buf_text(declarations),
                   declarations->len);
    if (b->files.count > 0)
        add_file_table(b);
    mlagen_buf_printf(&b->header,
                      "\n/* --- Definitions: define %s_IMPLEMENTATION in one "
                      "C file ------------- */\n\n"
                      "#if defined(%s_IMPLEMENTATION) && "
                      "!defined(%s_IMPLEMENTED)\n#define %s_IMPLEMENTED\n",
                      upper, upper, upper, upper);
    add_without_include(&b->header, mlagen_buf_text(definitions), path);
    if (b->files.count > 0)
        mlagen_bundle_arrays(&b->files, mlagen_buf_text(&b->ident), &b->header);
    mlagen_buf_str(&b->header, "#endif\n");
    return b->header.failed ? mlagen_no_memory(b->d) : MLAGEN_OK;
}

/* Header and descriptors are the only .h and .c at the top of the folder. */
static enum mlagen_status make_header(struct bundle *b)
{
    const char *h = find_listed(b->manifest, ".h");
    const char *c = find_listed(b->manifest, ".c");
    struct mlagen_buf declarations = {0}, definitions = {0};
    enum mlagen_status status = MLAGEN_OK;

    if (!h || !c) {
        mlagen_diag(b->d, MLAGEN_ERROR,
                    (struct mlagen_where){b->folder->path, 0, 0},
                    "the manifest lists no header, or no descriptors");
        return MLAGEN_IO;
    }
    status = read_listed(b, h, &declarations);
    if (status == MLAGEN_OK)
        status = read_listed(b, c, &definitions);
    if (status == MLAGEN_OK)
        status = join_header(b, h, &declarations, &definitions);
    mlagen_buf_free(&declarations);
    mlagen_buf_free(&definitions);
    return status;
}

/* --- files --------------------------------------------------------------- */

/* One file of the folder into the table. */
static enum mlagen_status take_file(struct bundle *b, const char *path,
                                    const char *sha256)
{
    struct mlagen_buf data = {0};
    enum mlagen_status status =
        mlagen_listed_file(b->folder, path, sha256, &data, b->d);

    if (status == MLAGEN_OK)
        status = mlagen_bundle_add(&b->files, path, &data, b->d);
    mlagen_buf_free(&data);
    return status;
}

/* The manifest as it lies there. */
static enum mlagen_status take_manifest(struct bundle *b)
{
    struct mlagen_buf data = {0};
    bool found;
    enum mlagen_status status =
        mlagen_folder_read(b->folder, MLAGEN_MANIFEST, &data, &found, b->d);

    if (status == MLAGEN_OK)
        status = mlagen_bundle_add(&b->files, MLAGEN_MANIFEST, &data, b->d);
    mlagen_buf_free(&data);
    return status;
}

/* A bundle with cubins has one of every kernel, or is refused: a loader would
 * otherwise find out on the user's machine. */
static enum mlagen_status take_cubin(struct bundle *b, const json_t *kernel)
{
    const json_t *build = json_object_get(kernel, "build");

    if (build)
        return take_file(b, mlagen_json_text(build, "cubin"),
                         mlagen_json_text(build, "cubin_sha256"));
    mlagen_diag(b->d, MLAGEN_ERROR,
                (struct mlagen_where){b->folder->path, 0, 0},
                "kernel %s has no cubin; run 'mlagen build' first",
                mlagen_json_text(kernel, "symbol"));
    return MLAGEN_IO;
}

/* The kernel's CUDA C, for loaders that compile. */
static enum mlagen_status take_source(struct bundle *b, const json_t *kernel)
{
    const char *path = mlagen_json_text(kernel, "source");

    return take_file(b, path, mlagen_listed_hash(b->manifest, path));
}

/* What the flags ask for, kernel by kernel. */
static enum mlagen_status take_files(struct bundle *b, const struct mlagen *g,
                                     unsigned flags)
{
    enum mlagen_status status = flags ? take_manifest(b) : MLAGEN_OK;
    size_t i;
    json_t *kernel;

    json_array_foreach(json_object_get(b->manifest, "kernels"), i, kernel)
    {
        if (status == MLAGEN_OK && (flags & MLAGEN_BUNDLE_SOURCES))
            status = take_source(b, kernel);
        if (status == MLAGEN_OK && (flags & MLAGEN_BUNDLE_CUBINS))
            status = take_cubin(b, kernel);
    }
    if (status == MLAGEN_OK && (flags & MLAGEN_BUNDLE_PTX))
        status = mlagen_bundle_ptx(g, b->folder, &b->files, b->d);
    return status;
}

/* --- public -------------------------------------------------------------- */

/* name + ending, written if it differs. */
static enum mlagen_status write_text(const char *name, const char *ending,
                                     const struct mlagen_buf *text,
                                     struct mlagen_diags *d)
{
    struct mlagen_buf path = {0};
    enum mlagen_status status;

    mlagen_buf_printf(&path, "%s%s", name, ending);
    status = path.failed || text->failed
                 ? mlagen_no_memory(d)
                 : mlagen_write_file(mlagen_buf_text(&path),
                                     mlagen_buf_text(text), text->len, d);
    mlagen_buf_free(&path);
    return status;
}

/* Everything in memory; nothing has been written yet. */
static enum mlagen_status make_bundle(struct bundle *b, const struct mlagen *g,
                                      unsigned flags)
{
    enum mlagen_status status = make_names(b);

    if (status == MLAGEN_OK)
        status = take_files(b, g, flags);
    if (status == MLAGEN_OK)
        status = make_source(b);
    if (status == MLAGEN_OK)
        status = make_header(b);
    return status;
}

/* The two files are written only when both could be made. */
enum mlagen_status mlagen_bundle(struct mlagen *g, const char *folder,
                                 const char *name, unsigned flags,
                                 struct mlagen_buf *out, struct mlagen_diags *d)
{
    struct mlagen_folder f;
    struct bundle b = {.folder = &f, .d = d};
    enum mlagen_status status = mlagen_open_generated(folder, &f, d);

    if (status != MLAGEN_OK)
        return status;
    b.manifest = f.manifest;
    status = make_bundle(&b, g, flags);
    if (!name)
        name = mlagen_json_text(f.manifest, "model");
    if (status == MLAGEN_OK)
        status = write_text(name, ".cu", &b.source, d);
    if (status == MLAGEN_OK)
        status = write_text(name, ".h", &b.header, d);
    if (status == MLAGEN_OK)
        mlagen_buf_printf(
            out, "%s.cu, %s.h: %zu kernels, %zu files\n", name, name,
            json_array_size(json_object_get(f.manifest, "kernels")),
            b.files.count);
    mlagen_bundle_files_free(&b.files);
    mlagen_buf_free(&b.ident);
    mlagen_buf_free(&b.upper);
    mlagen_buf_free(&b.source);
    mlagen_buf_free(&b.header);
    mlagen_folder_close(&f);
    return status;
}
