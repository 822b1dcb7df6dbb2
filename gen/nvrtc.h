/* SPDX-License-Identifier: Apache-2.0
 *
 * nvrtc.h: CUDA C text in, cubin out, through NVIDIA's run-time compiler.
 *
 * NVRTC is a shared library that is opened when it is needed, so the generator
 * builds and runs without CUDA; only `build` needs it.  What goes wrong in
 * practice is the finding: no library, one of several, one whose builtins
 * library is missing, one too old for the GPU.  Each of these is an error
 * that names what was tried, and every compile error carries NVRTC's own log.
 *
 * Once open, a compiler may be used by any number of threads at a time.
 */
#ifndef MLAGEN_NVRTC_H
#define MLAGEN_NVRTC_H

#include "arch.h"
#include "diag.h"
#include "ptxas_log.h"

struct mlagen_nvrtc;

/* Opens `path`, or when it is NULL the first library that is found:
 *   1. $MLA_NVRTC, and then nothing else;
 *   2. $CUDA_HOME/lib64, then $CUDA_HOME/lib;
 *   3. cuda/ beside the running program, in the layouts of NVIDIA's wheels
 *      (nvidia/cu13/lib, nvidia/cuda_nvrtc/lib);
 *   4. /usr/local/cuda/lib64, then /usr/local/cuda-X.Y/lib64, highest first;
 *   5. what the dynamic linker finds.
 * The builtins library beside it is loaded too, before NVRTC looks for one by
 * name along the linker's path.
 * @return MLAGEN_CUDA with the list of what was tried. */
enum mlagen_status mlagen_nvrtc_open(const char *path,
                                     struct mlagen_nvrtc **out,
                                     struct mlagen_diags *d);
void mlagen_nvrtc_close(struct mlagen_nvrtc *n);

/* The library's file, resolved; as given when it cannot be. */
const char *mlagen_nvrtc_path(const struct mlagen_nvrtc *n);

/* "NVRTC 13.0.88": the patch level, which nvrtcVersion does not tell, is read
 * from the PTX of an empty text when the library is opened. */
const char *mlagen_nvrtc_compiler(const struct mlagen_nvrtc *n);

/* Capabilities (80, 86, ... 120) that the library compiles for, ascending. */
const int *mlagen_nvrtc_archs(const struct mlagen_nvrtc *n, size_t *count);

/* The options every kernel is compiled with, for `arch`; -lineinfo is not
 * among them, because it writes the current folder into the cubin.  `option`
 * holds the one that depends on the target.  Returns the count. */
#define MLAGEN_NVRTC_OPTIONS 6
size_t mlagen_nvrtc_options(struct mlagen_arch arch, char option[64],
                            const char *options[MLAGEN_NVRTC_OPTIONS]);

/* One compiled kernel; free with mlagen_compiled_free. */
struct mlagen_compiled {
    char *cubin;
    size_t size;
    struct mlagen_ptxas report;
};

/* Compiles one source with one kernel.  `name` is what errors and the log call
 * it ("src/x.cu"); `shown` is the file that diagnostics name.
 * @return MLAGEN_CUDA: an arch that this NVRTC does not know, errors of the
 *         compiler or of ptxas (each at its line, then the whole log). */
enum mlagen_status mlagen_nvrtc_compile(const struct mlagen_nvrtc *n,
                                        const char *source, const char *name,
                                        const char *shown,
                                        struct mlagen_arch arch,
                                        struct mlagen_compiled *out,
                                        struct mlagen_diags *d);
/* The same to PTX of the virtual architecture, with line numbers.  *ptx is
 * freed with mlagen_free. */
enum mlagen_status mlagen_nvrtc_ptx(const struct mlagen_nvrtc *n,
                                    const char *source, const char *name,
                                    const char *shown, struct mlagen_arch arch,
                                    char **ptx, size_t *size,
                                    struct mlagen_diags *d);
void mlagen_compiled_free(struct mlagen_compiled *c);

#endif
