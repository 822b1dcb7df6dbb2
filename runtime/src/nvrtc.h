/* SPDX-License-Identifier: Apache-2.0
 *
 * nvrtc.h: NVIDIA's run-time compiler as a table of function pointers.
 *
 * Where it is looked for, first hit wins: the options' path, $MLA_NVRTC,
 * $CUDA_HOME, the wheels under cuda/ beside the executable, the directories
 * /usr/local/cuda*, and last the dynamic linker's own path.
 */
#ifndef MLA_NVRTC_H
#define MLA_NVRTC_H

#include <stddef.h>

#include "mla.h"

/* X(return type, member, exported symbol, parameters) */
#define MLA__NVRTC_LIST(X)                                                   \
    X(int, version, nvrtcVersion, (int *major, int *minor))                  \
    X(const char *, error_text, nvrtcGetErrorString, (int result))           \
    X(int, arch_count, nvrtcGetNumSupportedArchs, (int *count))              \
    X(int, archs, nvrtcGetSupportedArchs, (int *list))                       \
    X(int, create, nvrtcCreateProgram,                                       \
      (void **program, const char *source, const char *name, int headers,    \
       const char *const *contents, const char *const *names))               \
    X(int, compile, nvrtcCompileProgram,                                     \
      (void *program, int count, const char *const *options))                \
    X(int, ptx_size, nvrtcGetPTXSize, (void *program, size_t *bytes))        \
    X(int, ptx, nvrtcGetPTX, (void *program, char *text))                    \
    X(int, log_size, nvrtcGetProgramLogSize, (void *program, size_t *bytes)) \
    X(int, log, nvrtcGetProgramLog, (void *program, char *text))             \
    X(int, destroy, nvrtcDestroyProgram, (void **program))

struct mla__nvrtc {
    void *handle, *builtins;
    char *path;
    int major, minor;
#define MLA__NVRTC_MEMBER(type, member, symbol, params) type(*member) params;
    MLA__NVRTC_LIST(MLA__NVRTC_MEMBER)
#undef MLA__NVRTC_MEMBER
};

struct mla__arch;

/* Opens NVRTC on the first call; NO_COMPILER says where it was looked for. */
mla_status mla__nvrtc_open(mla_context *ctx);
void mla__nvrtc_close(mla_context *ctx);

/* Compiles one include-free source for compute_XX[a|f] to PTX with line
 * numbers; name is what messages call it.  *ptx is freed with mla__free.
 * Errors: NO_COMPILER, COMPILE (the text holds the whole log). */
mla_status mla__nvrtc_ptx(mla_context *ctx, const char *source,
                          const char *name, struct mla__arch arch,
                          char **ptx);

#endif
