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

#include "image.h"
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
    X(int, cubin_size, nvrtcGetCUBINSize, (void *program, size_t *bytes))    \
    X(int, cubin, nvrtcGetCUBIN, (void *program, char *code))                \
    X(int, log_size, nvrtcGetProgramLogSize, (void *program, size_t *bytes)) \
    X(int, log, nvrtcGetProgramLog, (void *program, char *text))             \
    X(int, destroy, nvrtcDestroyProgram, (void **program))

enum { MLA__NVRTC_OPTIONS = 4, MLA__IDENTITY = 65 };

struct mla__nvrtc {
    void *handle, *builtins;
    char *path;
    int major, minor;
    char identity[MLA__IDENTITY]; /* of the library's code, "" if unknown */
#define MLA__NVRTC_MEMBER(type, member, symbol, params) type(*member) params;
    MLA__NVRTC_LIST(MLA__NVRTC_MEMBER)
#undef MLA__NVRTC_MEMBER
};

struct mla__arch;

/* Opens NVRTC on the first call; NO_COMPILER says where it was looked for. */
mla_status mla__nvrtc_open(mla_context *ctx);
void mla__nvrtc_close(mla_context *ctx);

/* What tells this NVRTC from every other: the build ids of the library and
 * of the builtins library beside it.  Found by reading the file, without
 * opening the library, where its path is known before; "" if there is no
 * NVRTC.  Belongs to the context. */
const char *mla__nvrtc_identity(mla_context *ctx);

/* The options that an image of that kind is compiled with; `target` is room
 * for the one that names the architecture.  Returns their number. */
int mla__nvrtc_options(struct mla__arch arch, enum mla__kind kind,
                       char target[64],
                       const char *options[MLA__NVRTC_OPTIONS]);

/* Compiles one include-free source: to machine code of sm_XX[a|f], or to PTX
 * of compute_XX[a|f] with line numbers.  name is what messages call it.
 * Errors: NO_COMPILER, COMPILE (the text holds the whole log). */
mla_status mla__nvrtc_compile(mla_context *ctx, const char *source,
                              const char *name, struct mla__arch arch,
                              enum mla__kind kind, struct mla__image *out);

/* nvrtc_find.c: calls take() for each place in the order above until it
 * returns true.  A path with a slash is a file that exists; any other is for
 * the dynamic linker to find. */
typedef bool (*mla__candidate_fn)(mla_context *ctx, const char *path);
bool mla__nvrtc_find(mla_context *ctx, mla__candidate_fn take);

/* build_id.c: the identity of a library's file, "" if it is none; and of an
 * NVRTC with the builtins beside it. */
bool mla__build_id(const char *path, char id[MLA__IDENTITY]);
bool mla__nvrtc_file_identity(const char *path, char out[MLA__IDENTITY]);

#endif
