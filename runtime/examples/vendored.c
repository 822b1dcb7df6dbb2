/* SPDX-License-Identifier: Apache-2.0
 *
 * vendored.c: a decode step with nothing of mlagen in the program but what
 *
 *     mlagen build x-ecomla-smollm-135m --arch sm_80 -o DIR
 *     mlagen bundle DIR -o kernels --cubins --ptx
 *
 * left in kernels.h: argument structs, descriptors, the cos/sin table, and the
 * compiled kernels as arrays.  The CUDA driver is reached through dlopen, so
 * the program builds without CUDA too.
 *
 * On a machine without a GPU, MLA_DRIVER=build/libvgpu.so.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One C file of a program has the definitions: descriptors, table
 * maker, files. */
#define MLA_X_ECOMLA_SMOLLM_135M_IMPLEMENTATION
#include "kernels.h"
#include "step.h"

enum {
    R = MLA_X_ECOMLA_SMOLLM_135M_R,
    DN = MLA_X_ECOMLA_SMOLLM_135M_DN,
    DR = MLA_X_ECOMLA_SMOLLM_135M_DR,
    DV = MLA_X_ECOMLA_SMOLLM_135M_DV,
    P = MLA_X_ECOMLA_SMOLLM_135M_P,
    H = 9,
    ROW = (R + DR) * 2, /* bytes of a token in the cache */
    BATCH = 3,
    WIDTH = 4, /* pages of the longest request */
    CTAS = 8
};

/* Less than a page, a whole page, and some pages and a rest. */
static const int lengths[BATCH] = {5, 64, 130};

/* The driver ---------------------------------------------------------------
 */

/* X(name, parameters); all return a CUresult, an int. */
#define DRIVER(X)                                                              \
    X(cuInit, (unsigned))                                                      \
    X(cuDeviceGet, (int *, int))                                               \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                \
    X(cuCtxSetCurrent, (void *))                                               \
    X(cuCtxSynchronize, (void))                                                \
    X(cuModuleLoadData, (void **, const void *))                               \
    X(cuModuleGetFunction, (void **, void *, const char *))                    \
    X(cuFuncSetAttribute, (void *, int, int))                                  \
    X(cuMemAlloc_v2, (uint64_t *, size_t))                                     \
    X(cuMemcpyHtoD_v2, (uint64_t, const void *, size_t))                       \
    X(cuMemcpyDtoH_v2, (void *, uint64_t, size_t))                             \
    X(cuLaunchKernel,                                                          \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,     \
       unsigned, void *, void **, void **))

static struct {
#define MEMBER(name, parameters) int(*name) parameters;
    DRIVER(MEMBER)
#undef MEMBER
} cu;

/* cuda.h's number of the attribute, and the bytes that no kernel has to
 * ask for. */
enum { MAX_DYNAMIC_SMEM = 8, SMEM_WITHOUT_ASKING = 49152 };

/* Ends the program if a call of the driver failed. */
static void check(int result, const char *what)
{
    if (!result)
        return;
    fprintf(stderr, "vendored: %s: CUDA error %d\n", what, result);
    exit(1);
}

/* The primary context of device 0, current on this thread. */
static void open_driver(void)
{
    const char *name = getenv("MLA_DRIVER");
    void *library = dlopen(name ? name : "libcuda.so.1", RTLD_NOW), *context;
    int device;

    if (!library) {
        fprintf(stderr, "vendored: %s\n", dlerror());
        exit(1);
    }
#define LOOK_UP(name, parameters)                                              \
    *(void **)&cu.name = dlsym(library, #name);                                \
    check(cu.name ? 0 : -1, #name " is missing");
    DRIVER(LOOK_UP)
#undef LOOK_UP
    check(cu.cuInit(0), "cuInit");
    check(cu.cuDeviceGet(&device, 0), "cuDeviceGet");
    check(cu.cuDevicePrimaryCtxRetain(&context, device), "context");
    check(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

/* Never given back: the program ends soon. */
static void *device_memory(size_t bytes)
{
    uint64_t address;
    check(cu.cuMemAlloc_v2(&address, bytes), "cuMemAlloc");
    return (void *)(uintptr_t)address;
}

/* A copy of host memory on the device. */
static void *upload(const void *data, size_t bytes)
{
    void *copy = device_memory(bytes);
    check(cu.cuMemcpyHtoD_v2((uintptr_t)copy, data, bytes), "cuMemcpyHtoD");
    return copy;
}

/* Kernels ------------------------------------------------------------------
 */

/* The descriptor of a family and variant; there is one head count. */
static const struct mla_emitted_kernel *find(const char *family,
                                             const char *variant)
{
    for (int i = 0; i < mla_x_ecomla_smollm_135m_kernel_count; i++) {
        const struct mla_emitted_kernel *k =
            &mla_x_ecomla_smollm_135m_kernels[i];
        if (strcmp(k->family, family) == 0 && strcmp(k->variant, variant) == 0)
            return k;
    }
    fprintf(stderr, "vendored: no kernel %s %s\n", family, variant);
    exit(1);
}

/* A file of the bundle, NULL if it is not there. */
static const void *file(const char *path)
{
    for (int i = 0; i < mla_x_ecomla_smollm_135m_file_count; i++)
        if (strcmp(mla_x_ecomla_smollm_135m_files[i].path, path) == 0)
            return mla_x_ecomla_smollm_135m_files[i].data;
    return NULL;
}

/* The machine code, or where the device is another one, the PTX.  Shared
 * memory beyond the default must be granted before the launch. */
static void *load(const struct mla_emitted_kernel *k)
{
    char ptx[256];
    void *module, *function;

    snprintf(ptx, sizeof(ptx), "ptx/%s.ptx", k->symbol);
    if (cu.cuModuleLoadData(&module, file(k->cubin)))
        check(cu.cuModuleLoadData(&module, file(ptx)), k->symbol);
    check(cu.cuModuleGetFunction(&function, module, k->symbol), k->symbol);
    if (k->smem_dynamic > SMEM_WITHOUT_ASKING)
        check(cu.cuFuncSetAttribute(function, MAX_DYNAMIC_SMEM,
                                    (int)k->smem_dynamic),
              k->symbol);
    return function;
}

/* min(max, product of the factors), as the header says.  A factor is a
 * constant, or a field of the argument struct divided by `per` and
 * rounded up. */
static unsigned grid_axis(const struct mla_emitted_axis *axis, const void *args)
{
    uint64_t product = 1;

    for (int i = 0; i < axis->count; i++) {
        const struct mla_emitted_factor *f = &axis->factors[i];
        int32_t n = 0;
        if (f->offset < 0) {
            product *= (uint64_t)f->per;
            continue;
        }
        memcpy(&n, (const char *)args + f->offset, sizeof(n));
        product *= ((uint64_t)n + (uint64_t)f->per - 1) / (uint64_t)f->per;
    }
    return (unsigned)(product < (uint64_t)axis->max ? product
                                                    : (uint64_t)axis->max);
}

/* Loads and launches; an engine keeps the functions.  A kernel has one
 * parameter, the struct, which the driver copies before it returns. */
static void launch(const struct mla_emitted_kernel *k, void *args)
{
    void *parameters[] = {args};

    check(cu.cuLaunchKernel(load(k), grid_axis(&k->grid[0], args),
                            grid_axis(&k->grid[1], args),
                            grid_axis(&k->grid[2], args), k->block[0],
                            k->block[1], k->block[2], k->smem_dynamic, NULL,
                            parameters, NULL),
          k->symbol);
}

/* The cache ----------------------------------------------------------------
 *
 * Pages are handed out in order, page 0 to nobody.
 */

/* The least that a paged cache is; mla_pool is what an engine wants. */
struct cache {
    void *rows;
    int32_t table[BATCH][WIDTH]; /* page ids of each request */
    int pages;
    void *block_table; /* the same on the device */
};

/* Unused entries of the table stay 0, and page 0 is nobody's. */
static void make_cache(struct cache *c)
{
    memset(c, 0, sizeof(*c));
    c->pages = 1;
    for (int b = 0; b < BATCH; b++)
        for (int p = 0; p * P < lengths[b]; p++)
            c->table[b][p] = c->pages++;
    c->rows = device_memory((size_t)c->pages * P * ROW);
    c->block_table = upload(c->table, sizeof(c->table));
}

/* Every token's row into the cache, rotated, as after a prefill. */
static void append(const struct step *s, const struct cache *c,
                   const float *cos_sin)
{
    int64_t *slots = malloc((size_t)s->tokens * sizeof(*slots));
    int n = 0;

    for (int b = 0; slots && b < BATCH; b++)
        for (int i = 0; i < lengths[b]; i++)
            slots[n++] = (int64_t)c->table[b][i / P] * P + i % P;
    struct mla_kv_append_args a = {
        .latent = upload(s->latent, (size_t)s->tokens * R * 2),
        .latent_stride = R * 2,
        .k_rope = upload(s->k_rope, (size_t)s->tokens * DR * 2),
        .k_rope_stride = DR * 2,
        .cos_sin = cos_sin,
        .cos_sin_stride = DR * 4,
        .positions = upload(s->positions, (size_t)s->tokens * 8),
        .slots = upload(slots, (size_t)s->tokens * 8),
        .kv_cache = c->rows,
        .page_stride = P * ROW,
        .row_stride = ROW,
        .tokens = s->tokens};
    launch(find("kv_append", ""), &a);
    free(slots);
}

/* The step -----------------------------------------------------------------
 */

/* q of the latent path, [BATCH, 1, H, R + DR]. */
static void *absorb_queries(const struct step *s, const void *kv_b,
                            const float *cos_sin)
{
    struct mla_absorb_q_args a = {
        .q_nope = upload(s->q_nope, BATCH * H * DN * 2),
        .q_nope_token_stride = H * DN * 2,
        .q_nope_head_stride = DN * 2,
        .q_rope = upload(s->q_rope, BATCH * H * DR * 2),
        .q_rope_token_stride = H * DR * 2,
        .q_rope_head_stride = DR * 2,
        .kv_b = kv_b,
        .kv_b_head_stride = (DN + DV) * R * 2,
        .kv_b_row_stride = R * 2,
        .cos_sin = cos_sin,
        .cos_sin_stride = DR * 4,
        .positions = upload(s->q_positions, BATCH * 8),
        .q = device_memory(BATCH * H * ROW),
        .q_token_stride = H * ROW,
        .q_head_stride = ROW,
        .tokens = BATCH};
    launch(find("absorb_q", ""), &a);
    return a.q;
}

/* The work list of mqa_decode; docs/decode.md has the sizes. */
static struct mla_decode_plan_args plan(const struct mla_emitted_kernel *k)
{
    int units = BATCH * ((H + k->tile_m - 1) / k->tile_m);
    int32_t seq_lens[BATCH];

    for (int b = 0; b < BATCH; b++)
        seq_lens[b] = lengths[b];
    struct mla_decode_plan_args a = {
        .seq_lens = upload(seq_lens, sizeof(seq_lens)),
        .header = device_memory(8 * 4),
        .item_begin = device_memory((CTAS + 1) * 4),
        .items = device_memory((size_t)(units + CTAS) * 8 * 4),
        .unit_slots = device_memory((size_t)(units + 1) * 4),
        .item_capacity = units + CTAS,
        .slot_capacity = 2 * CTAS,
        .batch = BATCH,
        .q_len = 1,
        .rows_per_tile = k->tile_m,
        .keys_per_tile = k->tile_n,
        .ctas = CTAS,
        .min_tiles = 1};
    launch(find("decode_plan", ""), &a);
    return a;
}

/* Queries to outputs in the latent space, [BATCH, H, R]. */
static void *decode(const struct step *s, const struct cache *c, const void *q)
{
    const struct mla_emitted_kernel *k = find("mqa_decode", "m16");
    struct mla_decode_plan_args list = plan(k);
    size_t rows = (size_t)(2 * CTAS * k->tile_m);
    struct mla_mqa_decode_args a = {.q = q,
                                    .q_batch_stride = H * ROW,
                                    .q_token_stride = H * ROW,
                                    .q_head_stride = ROW,
                                    .kv_cache = c->rows,
                                    .page_stride = P * ROW,
                                    .row_stride = ROW,
                                    .block_table = c->block_table,
                                    .block_table_stride = WIDTH * 4,
                                    .header = list.header,
                                    .item_begin = list.item_begin,
                                    .items = list.items,
                                    .partial_o = device_memory(rows * R * 4),
                                    .partial_lse = device_memory(rows * 4),
                                    .out = device_memory(BATCH * H * R * 2),
                                    .out_batch_stride = H * R * 2,
                                    .out_token_stride = H * R * 2,
                                    .out_head_stride = R * 2,
                                    .softmax_scale = (float)s->m.scale,
                                    .batch = BATCH,
                                    .q_len = 1,
                                    .ctas = CTAS};
    struct mla_mqa_combine_args b = {.header = list.header,
                                     .unit_slots = list.unit_slots,
                                     .partial_o = a.partial_o,
                                     .partial_lse = a.partial_lse,
                                     .out = a.out,
                                     .out_batch_stride = H * R * 2,
                                     .out_token_stride = H * R * 2,
                                     .out_head_stride = R * 2,
                                     .batch = BATCH,
                                     .q_len = 1,
                                     .rows_per_tile = k->tile_m};
    launch(k, &a);
    launch(find("mqa_combine", ""), &b);
    return a.out;
}

/* From the latent back to values, [BATCH, H, DV]. */
static void *absorb_values(const void *o, const void *kv_b)
{
    struct mla_absorb_v_args a = {.o = o,
                                  .o_token_stride = H * R * 2,
                                  .o_head_stride = R * 2,
                                  .kv_b = kv_b,
                                  .kv_b_head_stride = (DN + DV) * R * 2,
                                  .kv_b_row_stride = R * 2,
                                  .out = device_memory(BATCH * H * DV * 2),
                                  .out_token_stride = H * DV * 2,
                                  .out_head_stride = DV * 2,
                                  .tokens = BATCH};
    launch(find("absorb_v", ""), &a);
    return a.out;
}

/* rope_table writes the angles that the model's own base and scaling give. */
int main(void)
{
    static const struct step_model model = {
        H, DN, DR, DV, R, 0, MLA_X_ECOMLA_SMOLLM_135M_SOFTMAX_SCALE};
    static uint16_t got[BATCH * H * DV];
    struct cache cache;
    struct step s;
    double error;

    open_driver();
    if (step_make(&s, &model, lengths, BATCH))
        return 1;
    mla_x_ecomla_smollm_135m_rope_table(s.cos_sin, s.longest, 0, 0);
    make_cache(&cache);
    float *cos_sin = upload(s.cos_sin, (size_t)s.longest * DR * 4);
    void *kv_b = upload(s.kv_b, (size_t)H * (DN + DV) * R * 2);
    append(&s, &cache, cos_sin);
    void *q = absorb_queries(&s, kv_b, cos_sin);
    void *o = decode(&s, &cache, q);
    void *out = absorb_values(o, kv_b);
    check(cu.cuCtxSynchronize(), "step");
    check(cu.cuMemcpyDtoH_v2(got, (uintptr_t)out, sizeof(got)), "read");
    error = step_error(&s, got);
    printf("vendored: %d requests, %d keys: relative error %.4f, at most "
           "%.2f: %s\n",
           BATCH, s.tokens, error, STEP_TOLERANCE,
           error < STEP_TOLERANCE ? "ok" : "WRONG");
    step_free(&s);
    return !(error < STEP_TOLERANCE);
}
