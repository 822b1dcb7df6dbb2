/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_bench.h: how fast the kernels of a directory are on a GPU.
 *
 * A work is one call of one kernel, or of a few in a row: its tensors, its
 * counts, what it computes and what it has to move.  A work is laid out
 * several times in one arena of device memory, more than the L2 holds, and
 * the copies take turns, so that no launch finds its data where the one before
 * left it.  The launches of a series are recorded as a graph, the graph is
 * replayed between two events, and the median over the replays counts.
 *
 * The device is reached through libmla and the driver API alone.
 */
#ifndef GPU_BENCH_H
#define GPU_BENCH_H

#include <stdio.h>

#include "device.h"
#include "subject.h"

enum {
    GPU_MAX_TENSORS = 20,
    GPU_MAX_INTS = 16,
    GPU_MAX_KERNELS = 2, /* of one work */
    GPU_MAX_REPLAYS = 51
};

/* --- the device (cuda.c) -------------------------------------------------- */

/* X(member, exported symbol, parameters): beyond what libmla itself calls. */
#define GPU_CALLS(X)                                                         \
    X(attribute, cuDeviceGetAttribute, (int *value, int a, int device))      \
    X(retain, cuDevicePrimaryCtxRetain, (void **ctx, int device))            \
    X(release, cuDevicePrimaryCtxRelease_v2, (int device))                   \
    X(push, cuCtxPushCurrent_v2, (void *ctx))                                \
    X(pop, cuCtxPopCurrent_v2, (void **ctx))                                 \
    X(memory, cuMemGetInfo_v2, (size_t *free, size_t *total))                \
    X(alloc, cuMemAlloc_v2, (uint64_t *address, size_t bytes))               \
    X(release_memory, cuMemFree_v2, (uint64_t address))                      \
    X(copy_in, cuMemcpyHtoDAsync_v2,                                         \
      (uint64_t to, const void *from, size_t bytes, void *stream))           \
    X(copy, cuMemcpyDtoDAsync_v2,                                            \
      (uint64_t to, uint64_t from, size_t bytes, void *stream))              \
    X(stream_create, cuStreamCreate, (void **stream, unsigned flags))        \
    X(stream_destroy, cuStreamDestroy_v2, (void *stream))                    \
    X(stream_wait, cuStreamSynchronize, (void *stream))                      \
    X(event_create, cuEventCreate, (void **event, unsigned flags))           \
    X(event_destroy, cuEventDestroy_v2, (void *event))                       \
    X(event_record, cuEventRecord, (void *event, void *stream))              \
    X(event_wait, cuEventSynchronize, (void *event))                         \
    X(event_elapsed, cuEventElapsedTime,                                     \
      (float *ms, void *start, void *end))                                   \
    X(capture, cuStreamBeginCapture_v2, (void *stream, int mode))            \
    X(capture_end, cuStreamEndCapture, (void *stream, void **graph))         \
    X(instantiate, cuGraphInstantiateWithFlags,                              \
      (void **exec, void *graph, unsigned long long flags))                  \
    X(graph_launch, cuGraphLaunch, (void *exec, void *stream))               \
    X(exec_destroy, cuGraphExecDestroy, (void *exec))                        \
    X(graph_destroy, cuGraphDestroy, (void *graph))

struct gpu {
#define GPU_MEMBER(member, symbol, params) int(*member) params;
    GPU_CALLS(GPU_MEMBER)
#undef GPU_MEMBER
    struct num_device device;
    struct num_model model;
    void *ctx, *stream, *start, *end;
    uint64_t numbers, arena; /* random numbers; what works are laid out in */
    size_t arena_bytes;
    int64_t l2;
    char error[1024]; /* of the last call that failed */
};

/* Opens the device and its events; false: error says why. */
bool gpu_open(struct gpu *g);
void gpu_close(struct gpu *g);

/* Notes a CUresult that is not success, with what was being done. */
bool gpu_good(struct gpu *g, int result, const char *doing);

/* Device memory for the copies of a work. */
bool gpu_make_arena(struct gpu *g, size_t bytes);

/* Writes host bytes, which may go when it returns.  In order with what the
 * stream does, which the default stream's copies are not. */
bool gpu_write(struct gpu *g, uint64_t to, const void *from, size_t bytes);

/* Fills the arena's first bytes with bf16 numbers of a normal distribution,
 * half a standard deviation: zeros would flatter the clocks, and what another
 * work left behind may be infinite. */
bool gpu_refresh(struct gpu *g, size_t bytes);

/* Records what `enqueue` puts on the stream. */
typedef bool (*gpu_enqueue)(struct gpu *g, void *user);
bool gpu_record(struct gpu *g, gpu_enqueue enqueue, void *user, void **exec);

/* Milliseconds of one replay of a graph. */
bool gpu_replay(struct gpu *g, void *exec, double *ms);

/* --- works (work_*.c) ----------------------------------------------------- */

/* What an index tensor holds: (first + i * step) mod modulo, or without the
 * modulo if it is 0.  All others keep the arena's numbers. */
struct gpu_index {
    bool is_index;
    int64_t first, step, modulo;
};

/* [batch][tokens][heads][width], packed. */
struct gpu_tensor {
    const char *name;
    int64_t batch, tokens, heads, width;
    struct gpu_index index;
};

struct gpu_int {
    const char *name;
    int64_t value;
};

/* One line of the table. */
struct gpu_work {
    const char *group; /* "decode", "mha", ... */
    char label[64];    /* "b128 h128 q1 s4096" */
    int heads;
    int64_t batch, q_len, seq_len, tokens;
    double flops, bytes; /* bytes: each input and each output once */
    struct num_subject kernel[GPU_MAX_KERNELS];
    int kernels;
    struct num_subject first; /* launched once before, not measured */
    bool has_first;
    int tensors, ints;
    struct gpu_tensor tensor[GPU_MAX_TENSORS];
    struct gpu_int integer[GPU_MAX_INTS];
    double softmax_scale;
};

void gpu_add_int(struct gpu_work *w, const char *name, int64_t value);
void gpu_add_tensor(struct gpu_work *w, const char *name, int64_t batch,
                    int64_t tokens, int64_t heads, int64_t width);
void gpu_add_index(struct gpu_work *w, const char *name, int64_t count,
                   int64_t first, int64_t step, int64_t modulo);

/* A case: the figures that a work is made from. */
struct gpu_case {
    const struct gpu_group *group;
    int heads;
    int64_t batch, q_len;
    int64_t seq_len; /* tokens, where there is no cache */
};

/* A group of cases and how a work is made for one kernel of its family.
 * make returns NULL, or why this kernel has no work for the case; the text ""
 * says that the case belongs to another kernel of the family. */
struct gpu_group {
    const char *name, *family;
    const char *(*make)(struct gpu *g, const struct num_subject *s,
                        const struct gpu_case *c, struct gpu_work *out);
};
extern const struct gpu_group gpu_decode, gpu_plan, gpu_mha, gpu_concat,
    gpu_append, gpu_absorb_q, gpu_absorb_v, gpu_kv_b;

/* The case list, in order of importance (cases.c).  tiny: a few of each group
 * with sizes that a virtual GPU gets through in seconds. */
int gpu_cases(bool tiny, struct gpu_case *out, int room);
enum { GPU_MAX_CASES = 256 };

/* The decode kernels beside one of them: same architecture and heads. */
const char *gpu_sibling(struct gpu *g, const struct num_subject *s,
                        const char *family, struct num_subject *out);

/* --- binding (bind.c) ----------------------------------------------------- */

/* Bytes of one copy of the work, its tensors at multiples of 256. */
size_t gpu_work_bytes(const struct gpu_work *w);

/* Lays a copy out at an address and writes its index tensors. */
bool gpu_place(struct gpu *g, const struct gpu_work *w, uint64_t at);

/* Every argument of the kernel from the copy at that address; false: error
 * names the one that is not known. */
bool gpu_bind(struct gpu *g, const struct gpu_work *w,
              const struct num_subject *s, uint64_t at, mla_args **out);

/* --- measuring (measure.c) ------------------------------------------------ */

struct gpu_settings {
    bool tiny;
    double segment_us; /* least length of a series */
    int replays;
    int64_t l2; /* bytes to exceed */
};

struct gpu_figure {
    double us, least, most; /* of one call: median and extremes */
    int copies, launches, replays;
};

/* False: g->error says what went wrong. */
bool gpu_measure(struct gpu *g, const struct gpu_work *w,
                 const struct gpu_settings *s, struct gpu_figure *out);

/* Median of n numbers, which are sorted. */
double gpu_median(double *value, int n);

/* --- ceilings (ceilings.c) ------------------------------------------------ */

struct gpu_ceilings {
    double copy_gbs;  /* read + written, of a large copy */
    double gemm_tflops;
    char gemm[160]; /* what it was measured with */
};

bool gpu_copy_ceiling(struct gpu *g, const struct gpu_settings *s,
                      struct gpu_ceilings *out);

/* Through cuBLAS, if some version can be opened and the device is real; else
 * leaves the figure 0 and says why in `gemm`. */
void gpu_gemm_ceiling(struct gpu *g, struct gpu_ceilings *out);

/* --- results (report.c, plot.c) ------------------------------------------- */

struct gpu_row {
    struct gpu_case c;
    char group[16], label[64], symbol[192], variant[24], arch[16];
    double flops, bytes;
    struct gpu_figure figure;
    char why[512]; /* not "": it failed */
};

struct gpu_results {
    struct gpu_row *row;
    int rows, room, failures, left_out;
    int absent, rehearsed; /* cases without a kernel; works of --dry */
    struct gpu_ceilings ceilings;
    char device[128], date[16], driver[512];
    int major, minor, sms, driver_version;
    double seconds;
    bool is_virtual;
};

struct gpu_row *gpu_add_row(struct gpu_results *r);
double gpu_tflops(const struct gpu_row *row);
double gpu_gbs(const struct gpu_row *row);

/* Without cuBLAS the best kv_b is the GEMM ceiling. */
void gpu_settle_ceilings(struct gpu_results *r);

void gpu_print_head(const struct gpu_results *r);
void gpu_print_row(const struct gpu_results *r, const struct gpu_row *row);
void gpu_print_end(const struct gpu_results *r);

/* Both return false when the file cannot be written. */
bool gpu_write_json(const struct gpu_results *r, const char *path);
bool gpu_write_plot(const struct gpu_results *r, const char *path);

/* --- the command line (command.c) ----------------------------------------- */

struct gpu_command {
    const char *directory, *groups, *arch, *json, *plot, *date;
    bool device, list, dry, tiny;
    int seconds;
};

/* False: the command line is wrong, and stderr says how. */
bool gpu_parse(int argc, char **argv, struct gpu_command *c);
void gpu_print_usage(void);

/* Whether a name is in a comma-separated list; NULL lists all. */
bool gpu_is_listed(const char *list, const char *name);

#endif
