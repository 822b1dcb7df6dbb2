/* SPDX-License-Identifier: Apache-2.0
 *
 * nvrtc.c: the compiler as a library.  The functions are reached through a
 * table filled by dlsym; nothing of CUDA is included or linked.
 * nvrtc_find.c knows where libraries lie, this file what to do with one.
 */
#include "nvrtc.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "nvrtc_find.h"

/* An incomplete type in place of NVRTC's handle: the compiler tells it from
 * other pointers, and no header of CUDA is needed. */
typedef struct nvrtc_program *nvrtc_program;

enum {
    NVRTC_SUCCESS = 0,
    OLDEST_MAJOR = 12,
    FIRST_SUFFIX_MAJOR = 9,
    MAX_ARCHS = 64
};

/* X(member, symbol, arguments); all return nvrtcResult, an int. */
#define NVRTC_FUNCTIONS(X)                                                    \
    X(version, "nvrtcVersion", (int *, int *))                                \
    X(arch_count, "nvrtcGetNumSupportedArchs", (int *))                       \
    X(archs, "nvrtcGetSupportedArchs", (int *))                               \
    X(create, "nvrtcCreateProgram",                                           \
      (nvrtc_program *, const char *, const char *, int, const char *const *, \
       const char *const *))                                                  \
    X(destroy, "nvrtcDestroyProgram", (nvrtc_program *))                      \
    X(compile, "nvrtcCompileProgram",                                         \
      (nvrtc_program, int, const char *const *))                              \
    X(log_size, "nvrtcGetProgramLogSize", (nvrtc_program, size_t *))          \
    X(log, "nvrtcGetProgramLog", (nvrtc_program, char *))                     \
    X(cubin_size, "nvrtcGetCUBINSize", (nvrtc_program, size_t *))             \
    X(cubin, "nvrtcGetCUBIN", (nvrtc_program, char *))                        \
    X(ptx_size, "nvrtcGetPTXSize", (nvrtc_program, size_t *))                 \
    X(ptx, "nvrtcGetPTX", (nvrtc_program, char *))

/* Filled by mlagen_nvrtc_open and only read after that: threads may
 * share it. */
struct mlagen_nvrtc {
    void *library;
    void *builtins; /* NULL when there is none beside the library */
    char *path;
    char compiler[32];
    int major, minor;
    int archs[MAX_ARCHS];
    size_t arch_count;
    struct {
#define NVRTC_MEMBER(member, symbol, arguments) int(*member) arguments;
        NVRTC_FUNCTIONS(NVRTC_MEMBER)
#undef NVRTC_MEMBER
        const char *(*error_string)(int);
    } f;
};

/* The place of what is about the library and not about a source. */
static const struct mlagen_where nowhere = {NULL, 0, 0};

/* --- opening ------------------------------------------------------------- */

/* Stores the address of a function into the pointer at `slot`; ISO C has no
 * conversion from void * to a function, hence memcpy. */
static bool bind(void *library, const char *symbol, void *slot)
{
    void *address = dlsym(library, symbol);

    memcpy(slot, &address, sizeof address);
    return address != NULL;
}

/* The first function that the library lacks, or NULL.  nvrtcGetErrorString is
 * bound by itself: it alone does not return an int. */
static const char *bind_all(struct mlagen_nvrtc *n)
{
#define NVRTC_BIND(member, symbol, arguments)                                 \
    if (!bind(n->library, symbol, &n->f.member))                              \
        return symbol;
    NVRTC_FUNCTIONS(NVRTC_BIND)
#undef NVRTC_BIND
    return bind(n->library, "nvrtcGetErrorString", &n->f.error_string)
               ? NULL
               : "nvrtcGetErrorString";
}

/* The file behind the handle: dlopen("libnvrtc.so.13") says not where.  As
 * asked for if the linker does not tell; NULL without memory. */
static char *resolve(struct mlagen_nvrtc *n, const char *asked)
{
    char real[PATH_MAX];
    Dl_info info;
    void *code;

    memcpy(&code, &n->f.version, sizeof code);
    if (dladdr(code, &info) && info.dli_fname &&
        realpath(info.dli_fname, real))
        asked = real;
    return mlagen_strndup(asked, strlen(asked));
}

/* NVRTC opens libnvrtc-builtins.so.X.Y by its bare name, and the linker may
 * find another version's, or none.  Loaded first from the library's own
 * folder, the right one is already there. */
static void preload_builtins(struct mlagen_nvrtc *n)
{
    char folder[PATH_MAX];
    char file[PATH_MAX + 64];

    snprintf(folder, sizeof folder, "%s", n->path);
    snprintf(file, sizeof file, "%s/libnvrtc-builtins.so.%d.%d",
             dirname(folder), n->major, n->minor);
    n->builtins = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
}

/* For qsort; no subtraction, which could overflow. */
static int compare_ints(const void *a, const void *b)
{
    int x = *(const int *)a;
    int y = *(const int *)b;

    return (x > y) - (x < y);
}

/* Fills n->archs, ascending; false when the library names none. */
static bool read_archs(struct mlagen_nvrtc *n)
{
    int count = 0;

    if (n->f.arch_count(&count) != NVRTC_SUCCESS || count <= 0 ||
        count > MAX_ARCHS || n->f.archs(n->archs) != NVRTC_SUCCESS)
        return false;
    n->arch_count = (size_t)count;
    qsort(n->archs, n->arch_count, sizeof *n->archs, compare_ints);
    return true;
}

/* Everything between dlopen and the first program.  A failure leaves its
 * reason in `why`. */
static bool attach(struct mlagen_nvrtc *n, const char *asked,
                   struct mlagen_buf *why)
{
    const char *missing = bind_all(n);

    if (missing)
        mlagen_buf_printf(why, "%s: no function %s", asked, missing);
    else if (n->f.version(&n->major, &n->minor) != NVRTC_SUCCESS)
        mlagen_buf_printf(why, "%s: nvrtcVersion failed", asked);
    else if (n->major < OLDEST_MAJOR)
        mlagen_buf_printf(why, "%s: version %d.%d, need %d.0 or newer", asked,
                          n->major, n->minor, OLDEST_MAJOR);
    else if (!read_archs(n))
        mlagen_buf_printf(why, "%s: nvrtcGetSupportedArchs failed", asked);
    else
        return true;
    return false;
}

/* --- programs ------------------------------------------------------------ */

/* Reads the log of a program; "" when there is none. */
static void read_log(const struct mlagen_nvrtc *n, nvrtc_program p,
                     struct mlagen_buf *log)
{
    size_t size = 0;
    char *text;

    if (n->f.log_size(p, &size) != NVRTC_SUCCESS || size == 0)
        return;
    text = mlagen_calloc(size + 1, 1);
    if (text && n->f.log(p, text) == NVRTC_SUCCESS)
        mlagen_buf_str(log, text);
    mlagen_free(text);
}

/* A line "src/x.cu(12): error: text" of the front end becomes a diagnostic at
 * shown:12.  False for any other line, among them warnings and ptxas's own,
 * which name no line. */
static bool report_line(const char *line, const char *name, const char *shown,
                        struct mlagen_diags *d)
{
    static const char mark[] = "): error: ";
    size_t n = strlen(name);
    unsigned long number;
    char *end;

    if (strncmp(line, name, n) != 0 || line[n] != '(')
        return false;
    number = strtoul(line + n + 1, &end, 10);
    if (strncmp(end, mark, sizeof mark - 1) != 0)
        return false;
    mlagen_diag(d, MLAGEN_ERROR,
                (struct mlagen_where){shown, (unsigned)number, 0}, "%s",
                end + sizeof mark - 1);
    return true;
}

/* Errors at their lines when the log has such, else `what`; then the log, line
 * by line, as notes.  A log that speaks of builtins is the broken installation
 * that nvrtc.h describes, so the missing file is named. */
static enum mlagen_status report_failure(const struct mlagen_nvrtc *n,
                                         const char *what, const char *log,
                                         const char *name, const char *shown,
                                         struct mlagen_diags *d)
{
    struct mlagen_where where = {shown, 0, 0};
    char *copy = mlagen_strndup(log, strlen(log));
    char *save = NULL;
    bool placed = false;
    char *line;

    if (!copy)
        return mlagen_no_memory(d);
    for (const char *p = log; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        char one[512];

        snprintf(one, sizeof one, "%.*s", (int)strcspn(p, "\n"), p);
        placed |= report_line(one, name, shown, d);
    }
    if (!placed)
        mlagen_diag(d, MLAGEN_ERROR, where, "%s: %s", n->compiler, what);
    for (line = strtok_r(copy, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save))
        mlagen_diag(d, MLAGEN_NOTE, where, "log: %s", line);
    if (!n->builtins && strstr(log, "builtins"))
        mlagen_diag(d, MLAGEN_NOTE, nowhere,
                    "no libnvrtc-builtins.so.%d.%d lies beside %s", n->major,
                    n->minor, n->path);
    mlagen_free(copy);
    return MLAGEN_CUDA;
}

/* Creates and compiles.  On success the caller destroys *program and owns
 * nothing else; on failure there is nothing to destroy. */
static enum mlagen_status
run_program(const struct mlagen_nvrtc *n, const char *source, const char *name,
            const char *shown, const char *const *options, size_t option_count,
            struct mlagen_buf *log, nvrtc_program *program,
            struct mlagen_diags *d)
{
    int result = n->f.create(program, source, name, 0, NULL, NULL);
    enum mlagen_status status = MLAGEN_OK;

    if (result != NVRTC_SUCCESS)
        return report_failure(n, n->f.error_string(result), "", name, shown,
                              d);
    result = n->f.compile(*program, (int)option_count, options);
    read_log(n, *program, log);
    if (result != NVRTC_SUCCESS)
        status = report_failure(n, n->f.error_string(result),
                                mlagen_buf_text(log), name, shown, d);
    if (status != MLAGEN_OK)
        n->f.destroy(program);
    return status;
}

/* One of the program's results (cubin or PTX), with a NUL behind it. */
static enum mlagen_status take(const struct mlagen_nvrtc *n, nvrtc_program p,
                               int (*size_of)(nvrtc_program, size_t *),
                               int (*get)(nvrtc_program, char *),
                               const char *what, char **data, size_t *size,
                               struct mlagen_diags *d)
{
    int result = size_of(p, size);

    if (result == NVRTC_SUCCESS && *size > 0) {
        *data = mlagen_calloc(*size + 1, 1);
        if (!*data)
            return mlagen_no_memory(d);
        result = get(p, *data);
    }
    if (result == NVRTC_SUCCESS && *size > 0)
        return MLAGEN_OK;
    mlagen_diag(d, MLAGEN_ERROR, nowhere, "%s made no %s: %s", n->compiler,
                what, n->f.error_string(result));
    return MLAGEN_CUDA;
}

/* The header of every PTX text reads "... release 13.0, V13.0.88". */
static void read_patch_level(struct mlagen_nvrtc *n, const char *ptx)
{
    const char *at = strstr(ptx, "release ");
    const char *v = at ? strstr(at, ", V") : NULL;

    if (v)
        snprintf(n->compiler, sizeof n->compiler, "NVRTC %.*s",
                 (int)strspn(v + 3, "0123456789."), v + 3);
}

/* Compiles an empty text for the oldest target: reads the patch level, and
 * finds out once, not once per kernel, that the installation is broken. */
static enum mlagen_status probe(struct mlagen_nvrtc *n, struct mlagen_diags *d)
{
    char option[64];
    const char *options[] = {option};
    struct mlagen_buf log = {0};
    nvrtc_program program = NULL;
    char *ptx = NULL;
    size_t size;
    enum mlagen_status status;

    snprintf(n->compiler, sizeof n->compiler, "NVRTC %d.%d", n->major,
             n->minor);
    snprintf(option, sizeof option, "--gpu-architecture=compute_%d",
             n->archs[0]);
    status =
        run_program(n, "", "probe.cu", n->path, options, 1, &log, &program, d);
    if (status == MLAGEN_OK) {
        status =
            take(n, program, n->f.ptx_size, n->f.ptx, "PTX", &ptx, &size, d);
        n->f.destroy(&program);
    }
    if (status == MLAGEN_OK)
        read_patch_level(n, ptx);
    mlagen_free(ptx);
    mlagen_buf_free(&log);
    return status;
}

/* --- public -------------------------------------------------------------- */

/* A search: the compiler being filled, and what was wrong with each candidate
 * so far. */
struct attempt {
    struct mlagen_nvrtc *n;
    struct mlagen_buf why;
};

/* Tries one candidate; true stops the search.  The library stays mapped when
 * it is closed: it keeps state of its own that it never gives back. */
static bool try_library(void *user, const char *path)
{
    struct attempt *a = user;

    a->n->library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (a->why.len > 0)
        mlagen_buf_str(&a->why, "; ");
    if (!a->n->library) {
        mlagen_buf_str(&a->why, dlerror());
        return false;
    }
    if (attach(a->n, path, &a->why)) {
        a->n->path = resolve(a->n, path);
        return true;
    }
    dlclose(a->n->library);
    a->n->library = NULL;
    return false;
}

/* Once a library has bound its functions its faults are final: the next one in
 * the order is not tried. */
enum mlagen_status mlagen_nvrtc_open(const char *path,
                                     struct mlagen_nvrtc **out,
                                     struct mlagen_diags *d)
{
    struct attempt a = {mlagen_calloc(1, sizeof *a.n), {0}};
    enum mlagen_status status = MLAGEN_CUDA;

    *out = NULL;
    if (!a.n)
        return mlagen_no_memory(d);
    if (!(path ? try_library(&a, path) : mlagen_nvrtc_find(try_library, &a)))
        mlagen_diag(d, MLAGEN_ERROR, nowhere,
                    "NVRTC (libnvrtc.so) not found; set MLA_NVRTC to the "
                    "library or CUDA_HOME to the toolkit; tried: %s",
                    mlagen_buf_text(&a.why));
    else if (!a.n->path)
        status = mlagen_no_memory(d);
    else {
        preload_builtins(a.n);
        status = probe(a.n, d);
    }
    mlagen_buf_free(&a.why);
    if (status != MLAGEN_OK)
        mlagen_nvrtc_close(a.n);
    else
        *out = a.n;
    return status;
}

/* The code stays mapped (see try_library); NULL is a no-op. */
void mlagen_nvrtc_close(struct mlagen_nvrtc *n)
{
    if (!n)
        return;
    if (n->library)
        dlclose(n->library);
    if (n->builtins)
        dlclose(n->builtins);
    mlagen_free(n->path);
    mlagen_free(n);
}

const char *mlagen_nvrtc_path(const struct mlagen_nvrtc *n)
{
    return n->path;
}

const char *mlagen_nvrtc_compiler(const struct mlagen_nvrtc *n)
{
    return n->compiler;
}

/* Belongs to the compiler. */
const int *mlagen_nvrtc_archs(const struct mlagen_nvrtc *n, size_t *count)
{
    *count = n->arch_count;
    return n->archs;
}

/* -v prints registers, spills and stack of each kernel, the two warnings what
 * makes a build fail: ptxas_log.c reads both. */
size_t mlagen_nvrtc_options(struct mlagen_arch arch, char option[64],
                            const char *options[MLAGEN_NVRTC_OPTIONS])
{
    static const char *const fixed[] = {
        "--std=c++17",
        "-default-device",
        "--ptxas-options=-v",
        "--ptxas-options=--warn-on-spills",
        "--ptxas-options=--warn-on-local-memory-usage",
    };
    char name[MLAGEN_ARCH_NAME];
    size_t count = 0;

    snprintf(option, 64, "--gpu-architecture=%s",
             mlagen_arch_name(arch, name));
    options[count++] = option;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        options[count++] = fixed[i];
    return count;
}

/* A target that the library does not know is refused by name, with the ones it
 * knows.  Suffixes begin with 9.0 (PTX ISA, ".target"). */
static bool check_arch(const struct mlagen_nvrtc *n, struct mlagen_arch arch,
                       const char *shown, struct mlagen_diags *d)
{
    struct mlagen_buf known = {0};
    char name[MLAGEN_ARCH_NAME];

    for (size_t i = 0; i < n->arch_count; i++) {
        if (n->archs[i] == arch.major * 10 + arch.minor &&
            (arch.suffix == '\0' || arch.major >= FIRST_SUFFIX_MAJOR)) {
            mlagen_buf_free(&known);
            return true;
        }
        mlagen_buf_printf(&known, "%ssm_%d", i ? ", " : "", n->archs[i]);
    }
    mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){shown, 0, 0},
                "%s does not compile for %s; it knows %s", n->compiler,
                mlagen_arch_name(arch, name), mlagen_buf_text(&known));
    mlagen_buf_free(&known);
    return false;
}

/* A log without a register count means that ptxas was not heard, and a build
 * whose spills are not known is no build. */
enum mlagen_status mlagen_nvrtc_compile(const struct mlagen_nvrtc *n,
                                        const char *source, const char *name,
                                        const char *shown,
                                        struct mlagen_arch arch,
                                        struct mlagen_compiled *out,
                                        struct mlagen_diags *d)
{
    const char *options[MLAGEN_NVRTC_OPTIONS];
    struct mlagen_buf log = {0};
    nvrtc_program program = NULL;
    enum mlagen_status status;
    char option[64];
    size_t count;

    *out = (struct mlagen_compiled){0};
    if (!check_arch(n, arch, shown, d))
        return MLAGEN_CUDA;
    count = mlagen_nvrtc_options(arch, option, options);
    status =
        run_program(n, source, name, shown, options, count, &log, &program, d);
    if (status == MLAGEN_OK) {
        status = take(n, program, n->f.cubin_size, n->f.cubin, "cubin",
                      &out->cubin, &out->size, d);
        n->f.destroy(&program);
    }
    if (status == MLAGEN_OK &&
        !mlagen_ptxas_read(mlagen_buf_text(&log), &out->report))
        status = report_failure(n, "no register count in the log of ptxas",
                                mlagen_buf_text(&log), name, shown, d);
    mlagen_buf_free(&log);
    if (status != MLAGEN_OK)
        mlagen_compiled_free(out);
    return status;
}

/* compute_XX is sm_XX without machine code, suffix included. */
enum mlagen_status mlagen_nvrtc_ptx(const struct mlagen_nvrtc *n,
                                    const char *source, const char *name,
                                    const char *shown, struct mlagen_arch arch,
                                    char **ptx, size_t *size,
                                    struct mlagen_diags *d)
{
    char option[64], arch_name[MLAGEN_ARCH_NAME];
    const char *options[] = {option, "--std=c++17", "-default-device",
                             "-lineinfo"};
    struct mlagen_buf log = {0};
    nvrtc_program program = NULL;
    enum mlagen_status status;

    *ptx = NULL;
    if (!check_arch(n, arch, shown, d))
        return MLAGEN_CUDA;
    snprintf(option, sizeof option, "--gpu-architecture=compute_%s",
             mlagen_arch_name(arch, arch_name) + strlen("sm_"));
    status = run_program(n, source, name, shown, options,
                         sizeof options / sizeof *options, &log, &program, d);
    if (status == MLAGEN_OK) {
        status =
            take(n, program, n->f.ptx_size, n->f.ptx, "PTX", ptx, size, d);
        n->f.destroy(&program);
    }
    mlagen_buf_free(&log);
    return status;
}

void mlagen_compiled_free(struct mlagen_compiled *c)
{
    mlagen_free(c->cubin);
    mlagen_ptxas_free(&c->report);
    *c = (struct mlagen_compiled){0};
}
