/* SPDX-License-Identifier: Apache-2.0
 *
 * test_nvrtc.c: reading the assembler's report, architecture names, and the
 * ways in which an NVRTC installation is broken.
 *
 * The reports are texts that CUDA 13.0.88 printed for kernels written to draw
 * them.  The installations are shared libraries that this test compiles: each
 * exports the NVRTC interface and misbehaves as $FAKE_NVRTC says.
 */
#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

#include "arch.h"
#include "nvrtc.h"
#include "ptxas_log.h"

/* ---- the assembler's report ---------------------------------------------- */

static void a_clean_report_has_its_numbers_and_no_findings(void **state) {
    (void)state;
    struct mlagen_ptxas r;
    assert_true(mlagen_ptxas_read(
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
        "ptxas info    : Function properties for k\n"
        "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 "
        "bytes spill loads\n"
        "ptxas info    : Used 10 registers, used 1 barriers, 512 bytes smem, "
        "368 bytes cmem[0]\n"
        "ptxas info    : Compile time = 1.481 ms\n",
        &r));
    assert_int_equal(r.registers, 10);
    assert_int_equal(r.barriers, 1);
    assert_int_equal(r.smem_static, 512);
    assert_int_equal(r.stack, 0);
    assert_int_equal(r.spill_stores, 0);
    assert_int_equal(r.spill_loads, 0);
    assert_int_equal(r.finding_count, 0);
    mlagen_ptxas_free(&r);
}

static void spills_are_one_finding_with_the_bytes(void **state) {
    (void)state;
    struct mlagen_ptxas r;
    assert_true(mlagen_ptxas_read(
        "ptxas warning : Local memory used for function 'k2', size of stack "
        "frame: 3552 bytes\n"
        "ptxas warning : Registers are spilled to local memory in function "
        "'k2', 3448 bytes spill stores, 5396 bytes spill loads\n"
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'k2' for 'sm_80'\n"
        "ptxas info    : Function properties for k2\n"
        "ptxas         .     3552 bytes stack frame, 3448 bytes spill stores, "
        "5396 bytes spill loads\n"
        "ptxas info    : Used 32 registers, used 1 barriers, 3552 bytes "
        "cumulative stack size, 368 bytes cmem[0]\n",
        &r));
    assert_int_equal(r.registers, 32);
    assert_int_equal(r.stack, 3552);
    assert_int_equal(r.spill_stores, 3448);
    assert_int_equal(r.spill_loads, 5396);
    assert_int_equal(r.smem_static, 0);
    assert_int_equal(r.finding_count, 1);
    assert_string_equal(r.findings[0].code, "spill");
    assert_string_equal(r.findings[0].text, "registers spilled: 3448 bytes "
                                            "stored, 5396 bytes loaded");
    mlagen_ptxas_free(&r);
}

static void a_stack_frame_without_a_spill_is_a_finding(void **state) {
    (void)state;
    struct mlagen_ptxas r;
    assert_true(mlagen_ptxas_read(
        "ptxas info    : Function properties for k\n"
        "ptxas         .     256 bytes stack frame, 0 bytes spill stores, 0 "
        "bytes spill loads\n"
        "ptxas info    : Used 18 registers, used 0 barriers, 256 bytes "
        "cumulative stack size, 364 bytes cmem[0]\n",
        &r));
    assert_int_equal(r.stack, 256);
    assert_int_equal(r.finding_count, 1);
    assert_string_equal(r.findings[0].code, "stack");
    mlagen_ptxas_free(&r);
}

/* The remarks that cost speed and fail nothing, one kind each. */
static void every_kind_of_remark_becomes_a_finding(void **state) {
    (void)state;
    static const char *const codes[] = {"compiler", "C7508", "C7519", "loss",
                                        "warning"};
    struct mlagen_ptxas r;
    assert_true(mlagen_ptxas_read(
        "src/k.cu(1): warning #177-D: variable \"unused\" was declared but "
        "never referenced\n"
        "  extern \"C\" __global__ void k(float*p){ int unused; }\n"
        "Remark: The warnings can be suppressed with \"-diag-suppress\"\n\n"
        "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' "
        "ignored; unable to determine register count at entry.\n"
        "ptxas info    : (C7519) warpgroup.arrive is injected in around line "
        "43 by compiler to allow use of registers in GMMA in function 'k'\n"
        "ptxas info    : Potential Performance Loss: something new\n"
        "ptxas warning : Value of threads per SM for entry k is out of range. "
        ".minnctapersm will be ignored\n"
        "ptxas info    : Used 8 registers, used 0 barriers\n",
        &r));
    assert_int_equal(r.finding_count, COUNT(codes));
    for (size_t i = 0; i < COUNT(codes); i++)
        assert_string_equal(r.findings[i].code, codes[i]);
    mlagen_ptxas_free(&r);
}

static void a_report_without_a_register_count_is_refused(void **state) {
    (void)state;
    static const char *const logs[] = {
        "", "\n\n", "ptxas info    : 0 bytes gmem\n",
        "ptxas info    : Used many registers\n",
        "Used 12 registers, printed by somebody else\n"};
    for (size_t i = 0; i < COUNT(logs); i++) {
        struct mlagen_ptxas r;
        assert_false(mlagen_ptxas_read(logs[i], &r));
        assert_null(r.findings);
    }
}

static enum mlagen_status read_a_report(struct mlagen_diags *d) {
    struct mlagen_ptxas r;
    if (!mlagen_ptxas_read("ptxas warning : one\nptxas warning : two\n"
                           "ptxas info    : Used 8 registers\n",
                           &r))
        return mlagen_no_memory(d);
    assert_int_equal(r.finding_count, 2);
    mlagen_ptxas_free(&r);
    return MLAGEN_OK;
}

static void a_report_survives_no_memory(void **state) {
    (void)state;
    assert_survives_no_memory(read_a_report);
}

/* ---- names of architectures ---------------------------------------------- */

static void arch_names_are_read_as_numbers_and_a_suffix(void **state) {
    (void)state;
    static const struct {
        const char *text, *name;
    } cases[] = {
        {"8.0", "sm_80"},        {"8.6", "sm_86"},     {"8.7", "sm_87"},
        {"8.9", "sm_89"},        {"9.0", "sm_90"},     {"9.0a", "sm_90a"},
        {"10.0a", "sm_100a"},    {"10.0f", "sm_100f"}, {"10.3a", "sm_103a"},
        {"11.0a", "sm_110a"},    {"12.0", "sm_120"},   {"12.0f", "sm_120f"},
        {"12.1a", "sm_121a"},    {"sm_90a", "sm_90a"}, {"90", "sm_90"},
        {"120", "sm_120"},       {"sm_100", "sm_100"}, {"10.0", "sm_100"},
        {"compute_89", "sm_89"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct mlagen_arch arch;
        char name[MLAGEN_ARCH_NAME];
        assert_true(mlagen_arch_parse(cases[i].text, &arch));
        assert_string_equal(mlagen_arch_name(arch, name), cases[i].name);
    }
}

static void what_is_no_arch_is_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"",
                                        "9",
                                        "sm_9",
                                        "9.0a+PTX",
                                        "sm_",
                                        "a90",
                                        "9.",
                                        ".90",
                                        "9.0.0",
                                        "9.01",
                                        "090",
                                        "sm_90b",
                                        "90aa",
                                        "90 ",
                                        " 90",
                                        "-90",
                                        "+90",
                                        "9,0",
                                        "1e2",
                                        "0x50",
                                        "SM_90",
                                        "sm_sm_90",
                                        "sm_99999999999999999999",
                                        "sm_90f a"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct mlagen_arch arch = {1, 2, 'a'};
        assert_false(mlagen_arch_parse(texts[i], &arch));
        assert_int_equal(arch.major, 0);
    }
}

static void archs_are_ordered_by_number(void **state) {
    (void)state;
    static const char *const order[] = {"80",  "86",  "90",  "90a", "90f",
                                        "100", "103", "120", "121"};
    for (size_t i = 0; i < COUNT(order); i++)
        for (size_t k = 0; k < COUNT(order); k++) {
            struct mlagen_arch a, b;
            assert_true(mlagen_arch_parse(order[i], &a));
            assert_true(mlagen_arch_parse(order[k], &b));
            int c = mlagen_arch_compare(a, b);
            assert_int_equal((c > 0) - (c < 0), (i > k) - (i < k));
        }
}

/* ---- installations ------------------------------------------------------- */

static char base[256], folder[300];

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *walk) {
    (void)st, (void)type, (void)walk;
    return remove(path);
}

/* The interface as CUDA 13's nvrtc.h declares it.  FAKE_NVRTC: old, noarchs,
 * error, nolog, badcubin; anything else works. */
static const char fake_source[] =
    "#include <dlfcn.h>\n"
    "#include <stdlib.h>\n"
    "#include <string.h>\n"
    "struct program { const char *log; };\n"
    "static int is(const char *what) {\n"
    "    const char *mode = getenv(\"FAKE_NVRTC\");\n"
    "    return mode && strcmp(mode, what) == 0;\n"
    "}\n"
    "int nvrtcVersion(int *major, int *minor) {\n"
    "    *major = is(\"old\") ? 11 : 98; *minor = 7; return 0;\n"
    "}\n"
    "int nvrtcGetNumSupportedArchs(int *n) {\n"
    "    *n = is(\"noarchs\") ? 0 : 5; return 0;\n"
    "}\n"
    "int nvrtcGetSupportedArchs(int *a) {\n"
    "    static const int archs[] = {90, 75, 80, 86, 89};\n"
    "    memcpy(a, archs, sizeof archs); return 0;\n"
    "}\n"
    "int nvrtcCreateProgram(struct program **p, const char *s, const char *n,\n"
    "                       int h, const char **x, const char **y) {\n"
    "    *p = calloc(1, sizeof **p); return 0;\n"
    "}\n"
    "int nvrtcDestroyProgram(struct program **p) {\n"
    "    free(*p); *p = 0; return 0;\n"
    "}\n"
    "int nvrtcCompileProgram(struct program *p, int n, const char **o) {\n"
    "    int real = n > 1;\n"
    "    void *b = dlopen(\"libnvrtc-builtins.so.98.7\", RTLD_NOW);\n"
    "    p->log = \"\";\n"
    "    if (!b) {\n"
    "        p->log = \"nvrtc: error: failed to open \"\n"
    "                 \"libnvrtc-builtins.so.98.7.\\n\";\n"
    "        return 7;\n"
    "    }\n"
    "    dlclose(b);\n"
    "    if (real && is(\"error\")) {\n"
    "        p->log = \"src/k.cu(41): error: identifier \\\"x\\\" is \"\n"
    "                 \"undefined\\n  y = x;\\n      ^\\n\\n1 error "
    "detected\\n\";"
    "\n        return 6;\n"
    "    }\n"
    "    if (real && is(\"ptxas\")) {\n"
    "        p->log = \"ptxas fatal   : Unresolved extern function 'f'\\n\";\n"
    "        return 6;\n"
    "    }\n"
    "    if (real && !is(\"nolog\"))\n"
    "        p->log = \"ptxas info    : Used 8 registers\\n\";\n"
    "    return 0;\n"
    "}\n"
    "int nvrtcGetProgramLogSize(struct program *p, size_t *n) {\n"
    "    *n = strlen(p->log) + 1; return 0;\n"
    "}\n"
    "int nvrtcGetProgramLog(struct program *p, char *s) {\n"
    "    strcpy(s, p->log); return 0;\n"
    "}\n"
    "static const char ptx[] = \"//\\n// Cuda compilation tools, release 98.7,"
    " V98.7.654\\n\";\n"
    "int nvrtcGetCUBINSize(struct program *p, size_t *n) {\n"
    "    *n = is(\"badcubin\") ? 0 : 4; return 0;\n"
    "}\n"
    "int nvrtcGetCUBIN(struct program *p, char *s) {\n"
    "    memcpy(s, \"\\177ELF\", 4); return 0;\n"
    "}\n"
    "int nvrtcGetPTXSize(struct program *p, size_t *n) {\n"
    "    *n = sizeof ptx; return 0;\n"
    "}\n"
    "int nvrtcGetPTX(struct program *p, char *s) {\n"
    "    memcpy(s, ptx, sizeof ptx); return 0;\n"
    "}\n"
    "const char *nvrtcGetErrorString(int r) {\n"
    "    return r == 6 ? \"NVRTC_ERROR_COMPILATION\" : \"NVRTC_ERROR_OTHER\";\n"
    "}\n";

static const char *in_folder(const char *name) {
    static char paths[4][512];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void put_file(const char *name, const char *text) {
    FILE *out = fopen(in_folder(name), "wb");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static void shell(const char *format, ...) {
    char command[4096];
    va_list ap;
    va_start(ap, format);
    vsnprintf(command, sizeof command, format, ap);
    va_end(ap);
    if (system(command) != 0)
        fail_msg("failed: %s", command);
}

/* Lays out: whole/ with its builtins, bare/ without, lacking/ where a function
 * is missing, lib64/ as a toolkit has it. */
static int install(void **state) {
    (void)state;
    const char *cc = getenv("CC") ? getenv("CC") : "cc";
    temp_folder(base, sizeof base);
    snprintf(folder, sizeof folder, "%s/nvrtc [x] y", base);
    assert_int_equal(mkdir(folder, 0777), 0);
    put_file("fake.c", fake_source);
    put_file("builtins.c", "int builtins;\n");
    put_file("lacking.c", "int nvrtcVersion(int *a, int *b) { return 0; }\n");
    shell("cd '%s' && mkdir whole bare lacking lib64 &&"
          "%s -shared -fPIC -w fake.c -o whole/libnvrtc.so.98 -ldl &&"
          "%s -shared -fPIC builtins.c -o whole/libnvrtc-builtins.so.98.7"
          " -Wl,-soname,libnvrtc-builtins.so.98.7 &&"
          "%s -shared -fPIC -w lacking.c -o lacking/libnvrtc.so.98 &&"
          "cp whole/libnvrtc.so.98 bare/ && cp whole/* lib64/",
          folder, cc, cc, cc);
    return 0;
}

static int uninstall(void **state) {
    (void)state;
    return nftw(base, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int forget_environment(void **state) {
    (void)state;
    unsetenv("FAKE_NVRTC");
    unsetenv("MLA_NVRTC");
    unsetenv("CUDA_HOME");
    return 0;
}

/* Compiles one source with the fake in `mode`; its diagnostics as text. */
static enum mlagen_status compile(const char *mode, const char *arch_text,
                                  struct mlagen_diags *d) {
    struct mlagen_nvrtc *n;
    struct mlagen_compiled made;
    struct mlagen_arch arch;
    setenv("FAKE_NVRTC", mode, 1);
    assert_true(mlagen_arch_parse(arch_text, &arch));
    assert_int_equal(
        mlagen_nvrtc_open(in_folder("whole/libnvrtc.so.98"), &n, d), MLAGEN_OK);
    enum mlagen_status status = mlagen_nvrtc_compile(
        n, "text", "src/k.cu", "out/src/k.cu", arch, &made, d);
    if (status == MLAGEN_OK) {
        assert_int_equal(made.size, 4);
        assert_memory_equal(made.cubin, "\177ELF", 4);
        assert_int_equal(made.report.registers, 8);
    } else {
        assert_null(made.cubin);
    }
    mlagen_compiled_free(&made);
    mlagen_nvrtc_close(n);
    return status;
}

static void the_patch_level_is_read_from_ptx(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_nvrtc *n;
    size_t count;
    assert_int_equal(
        mlagen_nvrtc_open(in_folder("whole/libnvrtc.so.98"), &n, &d),
        MLAGEN_OK);
    assert_diags(&d, "");
    assert_string_equal(mlagen_nvrtc_compiler(n), "NVRTC 98.7.654");
    assert_string_equal(mlagen_nvrtc_path(n),
                        in_folder("whole/libnvrtc.so.98"));
    const int *archs = mlagen_nvrtc_archs(n, &count);
    assert_int_equal(count, 5);
    assert_int_equal(archs[0], 75);
    assert_int_equal(archs[4], 90);
    mlagen_nvrtc_close(n);
}

static void a_compile_gives_cubin_and_report(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    assert_int_equal(compile("", "8.0", &d), MLAGEN_OK);
    assert_diags(&d, "");
}

static void a_missing_builtins_library_is_named_with_the_log(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    struct mlagen_nvrtc *n;
    char expected[2048];
    const char *path = in_folder("bare/libnvrtc.so.98");
    assert_int_equal(mlagen_nvrtc_open(path, &n, &d), MLAGEN_CUDA);
    assert_null(n);
    snprintf(expected, sizeof expected,
             "%s: error: NVRTC 98.7: NVRTC_ERROR_OTHER\n"
             "%s: note: log: nvrtc: error: failed to open "
             "libnvrtc-builtins.so.98.7.\n"
             "mlagen: note: no libnvrtc-builtins.so.98.7 lies beside %s\n",
             path, path, path);
    assert_diags(&d, expected);
}

static void compile_errors_carry_their_lines_and_the_log(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    assert_int_equal(compile("error", "8.0", &d), MLAGEN_CUDA);
    assert_diags(&d, "out/src/k.cu:41: error: identifier \"x\" is undefined\n"
                     "out/src/k.cu: note: log: src/k.cu(41): error: identifier "
                     "\"x\" is undefined\n"
                     "out/src/k.cu: note: log:   y = x;\n"
                     "out/src/k.cu: note: log:       ^\n"
                     "out/src/k.cu: note: log: 1 error detected\n");
    assert_int_equal(compile("ptxas", "8.0", &d), MLAGEN_CUDA);
    assert_diags(&d, "out/src/k.cu: error: NVRTC 98.7.654: "
                     "NVRTC_ERROR_COMPILATION\n"
                     "out/src/k.cu: note: log: ptxas fatal   : Unresolved "
                     "extern function 'f'\n");
}

static void an_unsupported_arch_is_named_with_the_supported(void **state) {
    (void)state;
    static const struct {
        const char *asked, *shown;
    } cases[] = {{"12.0", "sm_120"}, {"7.0", "sm_70"},   {"12.1a", "sm_121a"},
                 {"8.0a", "sm_80a"}, {"8.6f", "sm_86f"}, {"8.7", "sm_87"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct mlagen_diags d = {0};
        char expected[256];
        assert_int_equal(compile("", cases[i].asked, &d), MLAGEN_CUDA);
        snprintf(expected, sizeof expected,
                 "out/src/k.cu: error: NVRTC 98.7.654 does not compile for "
                 "%s; it knows sm_75, sm_80, sm_86, sm_89, sm_90\n",
                 cases[i].shown);
        assert_diags(&d, expected);
    }
    struct mlagen_diags d = {0};
    assert_int_equal(compile("", "9.0a", &d), MLAGEN_OK);
    assert_diags(&d, "");
}

static void a_log_without_numbers_is_an_error(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    assert_int_equal(compile("nolog", "8.0", &d), MLAGEN_CUDA);
    assert_diags(&d, "out/src/k.cu: error: NVRTC 98.7.654: no register count "
                     "in the log of ptxas\n");
}

static void an_empty_cubin_is_an_error(void **state) {
    (void)state;
    struct mlagen_diags d = {0};
    assert_int_equal(compile("badcubin", "8.0", &d), MLAGEN_CUDA);
    assert_first_diag(&d, "mlagen: error: NVRTC 98.7.654 made no cubin: "
                          "NVRTC_ERROR_OTHER");
}

/* The reason why a library was passed over is part of the error. */
static void assert_refused(const char *mode, const char *library,
                           const char *reason) {
    struct mlagen_diags d = {0};
    struct mlagen_nvrtc *n;
    setenv("FAKE_NVRTC", mode, 1);
    assert_int_equal(mlagen_nvrtc_open(in_folder(library), &n, &d),
                     MLAGEN_CUDA);
    assert_null(n);
    assert_int_equal(d.count, 1);
    if (!strstr(d.items[0].message, reason))
        fail_msg("'%s' not in: %s", reason, d.items[0].message);
    mlagen_diags_free(&d);
}

static void
a_library_that_will_not_do_is_refused_with_the_reason(void **state) {
    (void)state;
    assert_refused("old", "whole/libnvrtc.so.98",
                   "version 11.7, need 12.0 or newer");
    assert_refused("noarchs", "whole/libnvrtc.so.98",
                   "nvrtcGetSupportedArchs failed");
    assert_refused("", "lacking/libnvrtc.so.98",
                   "no function nvrtcGetNumSupportedArchs");
    assert_refused("", "fake.c", "fake.c: ");
    assert_refused("", "none.so", "No such file");
}

/* ---- the search ---------------------------------------------------------- */

static void assert_found(const char *path) {
    struct mlagen_diags d = {0};
    struct mlagen_nvrtc *n;
    assert_int_equal(mlagen_nvrtc_open(NULL, &n, &d), MLAGEN_OK);
    assert_diags(&d, "");
    assert_string_equal(mlagen_nvrtc_path(n), in_folder(path));
    mlagen_nvrtc_close(n);
}

/* The folder's name has blanks and brackets on purpose. */
static void the_search_keeps_its_order(void **state) {
    (void)state;
    setenv("CUDA_HOME", folder, 1);
    assert_found("lib64/libnvrtc.so.98");
    setenv("MLA_NVRTC", in_folder("whole/libnvrtc.so.98"), 1);
    assert_found("whole/libnvrtc.so.98");

    struct mlagen_diags d = {0};
    struct mlagen_nvrtc *n;
    setenv("MLA_NVRTC", in_folder("none.so"), 1);
    assert_int_equal(mlagen_nvrtc_open(NULL, &n, &d), MLAGEN_CUDA);
    assert_true(strstr(d.items[0].message, "none.so") != NULL);
    assert_true(strstr(d.items[0].message, "lib64") == NULL);
    mlagen_diags_free(&d);
}

static void the_highest_version_of_a_folder_is_taken(void **state) {
    (void)state;
    shell("cd '%s' && cp lib64/libnvrtc.so.98 lib64/libnvrtc.so.9 &&"
          " cp lib64/libnvrtc.so.98 lib64/libnvrtc.so.100 &&"
          " ln -s nowhere lib64/libnvrtc.so.200",
          folder);
    setenv("CUDA_HOME", folder, 1);
    assert_found("lib64/libnvrtc.so.100");
}

int main(void) {
#define FRESH(f) cmocka_unit_test_setup(f, forget_environment)
    const struct CMUnitTest reports[] = {
        cmocka_unit_test(a_clean_report_has_its_numbers_and_no_findings),
        cmocka_unit_test(spills_are_one_finding_with_the_bytes),
        cmocka_unit_test(a_stack_frame_without_a_spill_is_a_finding),
        cmocka_unit_test(every_kind_of_remark_becomes_a_finding),
        cmocka_unit_test(a_report_without_a_register_count_is_refused),
        cmocka_unit_test(a_report_survives_no_memory),
        cmocka_unit_test(arch_names_are_read_as_numbers_and_a_suffix),
        cmocka_unit_test(what_is_no_arch_is_refused),
        cmocka_unit_test(archs_are_ordered_by_number),
        FRESH(the_patch_level_is_read_from_ptx),
        FRESH(a_compile_gives_cubin_and_report),
        FRESH(a_missing_builtins_library_is_named_with_the_log),
        FRESH(compile_errors_carry_their_lines_and_the_log),
        FRESH(an_unsupported_arch_is_named_with_the_supported),
        FRESH(a_log_without_numbers_is_an_error),
        FRESH(an_empty_cubin_is_an_error),
        FRESH(a_library_that_will_not_do_is_refused_with_the_reason),
        FRESH(the_search_keeps_its_order),
        FRESH(the_highest_version_of_a_folder_is_taken),
    };
    return cmocka_run_group_tests(reports, install, uninstall);
}
