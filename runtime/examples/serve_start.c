/* SPDX-License-Identifier: Apache-2.0
 *
 * serve_start.c SPEC: what a server does from a model's description to its
 * first decode step.
 *
 * libmlagen reads the spec and emits the kernels in memory; libmla compiles
 * them through NVRTC, several at a time, or finds them in its cache, and puts
 * them onto the device.  Then a pool is made, three requests are written into
 * it, and one step of one layer is run and compared with the reference of
 * step.c.  Run it twice: the second start compiles nothing.
 *
 * On a machine without a GPU, MLA_DRIVER=build/libvgpu.so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mla.h"
#include "mlagen.h"
#include "step.h"

/* A generation for one architecture has some dozens of files. */
enum { MAX_FILES = 4096, BATCH = 3 };

/* Less than a page, a whole page, and some pages and a rest. */
static const int lengths[BATCH] = {5, 64, 130};

/* Everything that lives from start to end. */
struct server {
    mla_device_info device;
    struct mlagen *generator; /* owns the emitted files */
    mla_file files[MAX_FILES];
    int file_count;
    mla_context *ctx;
    mla_kernels *set;
    struct step step;
    mla_pool *pool;
    mla_seq seqs[BATCH];
};

/* Ending -------------------------------------------------------------------
 */

/* An example may print and exit; the libraries do neither. */
static void die(const char *what, const char *why)
{
    fprintf(stderr, "serve_start: %s: %s\n", what, why);
    exit(1);
}

/* Ends the program if a call of libmla failed. */
static void check(const struct server *s, mla_status status, const char *what)
{
    if (status)
        die(what, *mla_last_error(s->ctx) ? mla_last_error(s->ctx)
                                          : mla_status_text(status));
}

/* A clock that nobody sets. */
static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* The device ---------------------------------------------------------------
 */

/* mla_log_fn.  Errors come back as a status with their text, and infos (each
 * kernel that is compiled) would crowd the output. */
static void print_warning(void *user, int level, const char *text)
{
    (void)user;
    if (level == MLA_LOG_WARNING)
        fprintf(stderr, "serve_start: %s\n", text);
}

/* The device comes first: what is emitted depends on it. */
static void open_device(struct server *s)
{
    mla_options options = MLA_OPTIONS_INIT;

    options.log = print_warning;
    if (mla_context_create(&options, &s->ctx))
        die("context", "cannot be made");
    s->device.size = sizeof(s->device);
    check(s, mla_device(s->ctx, &s->device), "device");
    printf("device   %s, sm_%d%d\n", s->device.name, s->device.major,
           s->device.minor);
}

/* Emitting -----------------------------------------------------------------
 */

/* mlagen_file_fn.  Path and data stay the generator's, which outlives
 * the set. */
static enum mlagen_status keep_file(void *user, const char *path,
                                    const char *data, size_t size)
{
    struct server *s = user;
    if (s->file_count == MAX_FILES)
        return MLAGEN_INTERNAL;
    s->files[s->file_count++] = (mla_file){path, data, size};
    return MLAGEN_OK;
}

/* For this device only.  Diagnostics are in gcc's form, with the place in
 * the spec. */
static void emit(struct server *s, const char *spec)
{
    char arch[32];
    struct mlagen_options options = {.size = sizeof(options), .archs = arch};
    struct mlagen_diags diags = {0};
    struct mlagen_buf text = {0};
    double start = now_ms();

    snprintf(arch, sizeof(arch), "sm_%d%d", s->device.major, s->device.minor);
    if (mlagen_open(&options, &s->generator, &diags) ||
        mlagen_load(s->generator, spec, &diags) ||
        mlagen_files(s->generator, keep_file, s, &diags)) {
        mlagen_diags_text(&diags, MLAGEN_DIAG_GNU, &text);
        die("emit", mlagen_buf_text(&text));
    }
    mlagen_diags_free(&diags);
    printf("emit     %s: %d files in %.0f ms\n", mlagen_model(s->generator),
           s->file_count, now_ms() - start);
}

/* Compiling and loading ----------------------------------------------------
 */

/* Draws over its own line on a terminal. */
static void draw(void *user, int done, int total, const mla_kernel *kernel)
{
    enum { WIDTH = 30 };
    int filled = done * WIDTH / total;

    (void)user;
    (void)kernel;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r[%.*s%.*s] %d/%d%s", filled,
                "##############################", WIDTH - filled,
                "..............................", done, total,
                done == total ? "\r\033[K" : "");
}

/* Sources only, so every kernel is compiled, on one thread per CPU, or found
 * in the cache.  What mla_prepare_all takes is the best kernel of each kind
 * for the device. */
static void load(struct server *s)
{
    mla_prepare_options prepare = {sizeof(prepare), 0, draw, NULL};
    double start = now_ms();

    check(s,
          mla_load_files(s->ctx, mlagen_model(s->generator), s->files,
                         s->file_count, &s->set),
          "load");
    check(s, mla_prepare_all(s->set, &prepare), "prepare");
    printf("kernels  ready in %.0f ms\n", now_ms() - start);
}

/* The driver's memory ------------------------------------------------------
 */

/* What a program needs of the driver and libmla has no call for. */
static struct {
    int (*alloc)(uint64_t *address, size_t bytes);
    int (*write)(uint64_t to, const void *from, size_t bytes);
    int (*read)(void *to, uint64_t from, size_t bytes);
    int (*synchronize)(void);
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
} cuda;

/* An engine has its own ways to the driver; this borrows libmla's.  The
 * primary context is the one that libmla uses, so addresses are good
 * for both. */
static void find_driver(struct server *s)
{
    static const struct {
        const char *symbol;
        void *slot;
    } rows[] = {{"cuMemAlloc_v2", &cuda.alloc},
                {"cuMemcpyHtoD_v2", &cuda.write},
                {"cuMemcpyDtoH_v2", &cuda.read},
                {"cuCtxSynchronize", &cuda.synchronize},
                {"cuDevicePrimaryCtxRetain", &cuda.retain},
                {"cuCtxSetCurrent", &cuda.set_current}};
    void *address, *context;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check(s, mla_driver_symbol(s->ctx, rows[i].symbol, &address), "driver");
        memcpy(rows[i].slot, &address, sizeof(address));
    }
    if (cuda.retain(&context, 0) || cuda.set_current(context))
        die("driver", "no context");
}

/* Never given back: the program ends soon. */
static uint64_t device_memory(size_t bytes)
{
    uint64_t address;
    if (cuda.alloc(&address, bytes))
        die("device memory", "none left");
    return address;
}

/* A copy of host memory on the device. */
static uint64_t upload(const void *data, size_t bytes)
{
    uint64_t address = device_memory(bytes);
    if (cuda.write(address, data, bytes))
        die("upload", "the driver refuses");
    return address;
}

/* Launching ----------------------------------------------------------------
 */

/* A named argument; strides are bytes. */
struct arg {
    const char *name;
    enum { PTR, INT, FLOAT } type;
    uint64_t bits;
    double real;
};

#define POINTER(name, address)                                                 \
    {                                                                          \
        name, PTR, address, 0                                                  \
    }
#define NUMBER(name, value)                                                    \
    {                                                                          \
        name, INT, (uint64_t)(value), 0                                        \
    }
#define REAL(name, value)                                                      \
    {                                                                          \
        name, FLOAT, 0, value                                                  \
    }

/* Arguments by name.  An engine makes them once per call site and sets what
 * changes, or fills the struct of the generated header. */
static void launch(struct server *s, mla_kernel *kernel, const struct arg *arg,
                   size_t count)
{
    mla_args *a;

    check(s, mla_args_create(kernel, &a), "arguments");
    for (size_t i = 0; i < count; i++, arg++)
        check(s,
              arg->type == PTR ? mla_args_set_ptr(a, arg->name, arg->bits)
              : arg->type == INT
                  ? mla_args_set_int(a, arg->name, (int64_t)arg->bits)
                  : mla_args_set_float(a, arg->name, arg->real),
              arg->name);
    check(s, mla_launch(a, NULL), "launch");
    mla_args_free(a);
}

#define LAUNCH(s, kernel, args)                                                \
    launch(s, kernel, args, sizeof(args) / sizeof((args)[0]))

/* The set has one page size, so 0 says enough. */
static mla_kernel *find(struct server *s, const char *family,
                        const char *variant)
{
    mla_kernel *kernel;
    check(s, mla_find(s->set, family, variant, s->step.m.H, 0, &kernel),
          family);
    return kernel;
}

/* The batch ----------------------------------------------------------------
 */

/* A rank of a large deployment has the fewest heads. */
static int fewest_heads(const mla_kernels *set)
{
    mla_kernel_info info = {.size = sizeof(info)};
    int heads = 0;

    for (int i = 0; i < mla_kernels_count(set); i++) {
        mla_kernel_describe(mla_kernels_at(set, i), &info);
        if (!heads || info.heads < heads)
            heads = info.heads;
    }
    return heads;
}

/* Inputs for the model's widths.  The scale and the pairing stand in the
 * manifest's spec. */
static void make_step(struct server *s)
{
    mla_kernel_info info = {.size = sizeof(info)};
    const char *manifest = mla_kernels_manifest(s->set);
    const char *scale = strstr(manifest, "\"softmax_scale\": 0");
    struct step_model m = {.H = fewest_heads(s->set)};

    s->step.m = m;
    mla_kernel_describe(find(s, "absorb_q", ""), &info);
    if (strcmp(info.dtype, "bf16") != 0)
        die(info.symbol, "this example has bf16 inputs only");
    m.DN = info.nope;
    m.DR = info.rope;
    m.R = info.latent;
    mla_kernel_describe(find(s, "absorb_v", ""), &info);
    m.DV = info.v;
    m.neox = strstr(manifest, "\"style\": \"neox\"") != NULL;
    m.scale = scale ? strtod(strchr(scale, ':') + 1, NULL) : 1;
    if (step_make(&s->step, &m, lengths, BATCH))
        die("inputs", "out of memory");
}

/* Page 0 is nobody's, and each request may leave one page half empty. */
static void make_pool(struct server *s)
{
    mla_pool_options o = MLA_POOL_OPTIONS_INIT;
    mla_kernel_info info = {.size = sizeof(info)};
    int32_t counts[BATCH];

    mla_kernel_describe(find(s, "kv_append", ""), &info);
    o.row_bytes = (s->step.m.R + s->step.m.DR) * 2;
    o.page_size = info.page_size;
    o.pages = 1 + BATCH + s->step.tokens / info.page_size;
    check(s, mla_pool_create(s->ctx, &o, &s->pool), "pool");
    for (int b = 0; b < BATCH; b++) {
        check(s, mla_pool_add(s->pool, &s->seqs[b]), "add");
        counts[b] = lengths[b];
    }
    check(s, mla_pool_extend(s->pool, s->seqs, counts, BATCH, NULL), "extend");
}

/* Tables for the q_len newest tokens of each request (NULL: one), on the
 * default stream, as all kernels here. */
static mla_pool_tables begin_step(struct server *s, const int32_t *q_lens)
{
    mla_pool_batch batch = {.size = sizeof(batch),
                            .seqs = s->seqs,
                            .q_lens = q_lens,
                            .rows = BATCH,
                            .padded = BATCH};
    mla_pool_tables tables = {.size = sizeof(tables)};

    check(s, mla_pool_step(s->pool, &batch, NULL, &tables), "step");
    return tables;
}

/* Every token's row into the pool, rotated, as after a prefill.  The latents
 * count as normed already, so there is no norm weight; the pool says which
 * slots the tokens have. */
static void append(struct server *s, uint64_t cos_sin)
{
    const struct step *t = &s->step;
    const struct step_model *m = &t->m;
    size_t T = (size_t)t->tokens;
    mla_pool_info pool = {.size = sizeof(pool)};
    int32_t q_lens[BATCH];

    mla_pool_describe(s->pool, &pool);
    for (int b = 0; b < BATCH; b++)
        q_lens[b] = lengths[b];
    mla_pool_tables tables = begin_step(s, q_lens);
    struct arg args[] = {
        POINTER("latent", upload(t->latent, T * (size_t)m->R * 2)),
        NUMBER("latent_stride", m->R * 2),
        POINTER("k_rope", upload(t->k_rope, T * (size_t)m->DR * 2)),
        NUMBER("k_rope_stride", m->DR * 2),
        POINTER("norm_weight", 0),
        REAL("norm_eps", 1e-6),
        POINTER("cos_sin", cos_sin),
        NUMBER("cos_sin_stride", m->DR * 4),
        POINTER("positions", upload(t->positions, T * 8)),
        POINTER("slots", tables.slots),
        POINTER("kv_cache", mla_pool_buffer(s->pool, 0)),
        NUMBER("page_stride", pool.page_stride),
        NUMBER("row_stride", pool.row_stride),
        NUMBER("tokens", T)};
    LAUNCH(s, find(s, "kv_append", ""), args);
}

/* q of the latent path, [batch, H, R + DR]. */
static uint64_t absorb_queries(struct server *s, uint64_t kv_b,
                               uint64_t cos_sin)
{
    const struct step *t = &s->step;
    const struct step_model *m = &t->m;
    size_t rows = (size_t)(BATCH * m->H);
    uint64_t q = device_memory(rows * (size_t)(m->R + m->DR) * 2);
    struct arg args[] = {
        POINTER("q_nope", upload(t->q_nope, rows * (size_t)m->DN * 2)),
        NUMBER("q_nope_token_stride", m->H * m->DN * 2),
        NUMBER("q_nope_head_stride", m->DN * 2),
        POINTER("q_rope", upload(t->q_rope, rows * (size_t)m->DR * 2)),
        NUMBER("q_rope_token_stride", m->H * m->DR * 2),
        NUMBER("q_rope_head_stride", m->DR * 2),
        POINTER("kv_b", kv_b),
        NUMBER("kv_b_head_stride", (m->DN + m->DV) * m->R * 2),
        NUMBER("kv_b_row_stride", m->R * 2),
        POINTER("cos_sin", cos_sin),
        NUMBER("cos_sin_stride", m->DR * 4),
        POINTER("positions", upload(t->q_positions, BATCH * 8)),
        POINTER("q", q),
        NUMBER("q_token_stride", m->H * (m->R + m->DR) * 2),
        NUMBER("q_head_stride", (m->R + m->DR) * 2),
        NUMBER("tokens", BATCH)};
    LAUNCH(s, find(s, "absorb_q", ""), args);
    return q;
}

/* Decoding ------------------------------------------------------------------
 *
 * docs/decode.md says what the calls launch.  An engine makes object and
 * workspace once, for its largest step, and plans once for all layers.
 */

/* O of the latent path, [batch, H, R], of the newest token of each request. */
static uint64_t attend(struct server *s, uint64_t q)
{
    const struct step_model *m = &s->step.m;
    mla_decode_options options = MLA_DECODE_OPTIONS_INIT;
    mla_pool_tables tables = begin_step(s, NULL);
    mla_pool_info pool = {.size = sizeof(pool)};
    mla_decode *decode;

    mla_pool_describe(s->pool, &pool);
    options.heads = m->H;
    check(s, mla_decode_create(s->set, &options, &decode), "decode");
    mla_decode_step step = {.size = sizeof(step),
                            .batch = BATCH,
                            .q_len = 1,
                            .max_seq_len = tables.max_seq_len,
                            .seq_lens = tables.seq_lens};
    check(s, mla_decode_workspace(decode, &step, &step.workspace_bytes),
          "workspace");
    step.workspace = device_memory((size_t)step.workspace_bytes);
    mla_decode_tensors t = {.size = sizeof(t),
                            .q = q,
                            .kv_cache = mla_pool_buffer(s->pool, 0),
                            .page_stride = pool.page_stride,
                            .row_stride = pool.row_stride,
                            .block_table = tables.block_table,
                            .block_table_stride = tables.block_table_stride,
                            .out = device_memory(
                                (size_t)(BATCH * m->H * m->R) * 2),
                            .softmax_scale = m->scale};
    check(s, mla_decode_plan(decode, &step, NULL), "plan");
    check(s, mla_decode_run(decode, &step, &t, NULL), "decode");
    mla_decode_free(decode);
    return t.out;
}

/* From the latent back to values, [batch, H, DV]. */
static uint64_t absorb_values(struct server *s, uint64_t o, uint64_t kv_b)
{
    const struct step_model *m = &s->step.m;
    uint64_t head = (uint64_t)((m->DN + m->DV) * m->R * 2);
    uint64_t out = device_memory((size_t)(BATCH * m->H * m->DV) * 2);
    struct arg args[] = {POINTER("o", o),
                         NUMBER("o_token_stride", m->H * m->R * 2),
                         NUMBER("o_head_stride", m->R * 2),
                         POINTER("kv_b", kv_b),
                         NUMBER("kv_b_head_stride", head),
                         NUMBER("kv_b_row_stride", m->R * 2),
                         POINTER("out", out),
                         NUMBER("out_token_stride", m->H * m->DV * 2),
                         NUMBER("out_head_stride", m->DV * 2),
                         NUMBER("tokens", BATCH)};
    LAUNCH(s, find(s, "absorb_v", ""), args);
    return out;
}

/* The step -----------------------------------------------------------------
 */

/* The order of a decode step.  Nothing waits for the device before the end:
 * the stream keeps the order. */
static void run(struct server *s)
{
    const struct step *t = &s->step;
    const struct step_model *m = &t->m;
    size_t weights = (size_t)(m->H * (m->DN + m->DV) * m->R) * 2;
    size_t bytes = (size_t)(BATCH * m->H * m->DV) * 2;
    uint16_t *got = malloc(bytes);
    double start = now_ms(), error;

    uint64_t kv_b = upload(t->kv_b, weights);
    uint64_t cos_sin =
        upload(t->cos_sin, (size_t)(t->longest * m->DR) * sizeof(float));
    append(s, cos_sin);
    uint64_t q = absorb_queries(s, kv_b, cos_sin);
    uint64_t out = absorb_values(s, attend(s, q), kv_b);
    if (!got || cuda.synchronize() || cuda.read(got, out, bytes))
        die("step", "the driver reports an error");
    printf("step     %d requests, %d heads, %d keys: %.0f ms\n", BATCH, m->H,
           t->tokens, now_ms() - start);
    error = step_error(t, got);
    printf("check    relative error %.4f, at most %.2f: %s\n", error,
           STEP_TOLERANCE, error < STEP_TOLERANCE ? "ok" : "WRONG");
    free(got);
    if (!(error < STEP_TOLERANCE))
        exit(1);
}

/* What came from the context goes before the context, and the generator last,
 * as the set points into its files. */
int main(int argc, char **argv)
{
    static struct server s;

    if (argc != 2) {
        fprintf(stderr, "usage: serve_start SPEC\n");
        return 2;
    }
    open_device(&s);
    emit(&s, argv[1]);
    load(&s);
    find_driver(&s);
    make_step(&s);
    make_pool(&s);
    run(&s);
    step_free(&s.step);
    mla_pool_destroy(s.pool);
    mla_kernels_free(s.set);
    mla_context_destroy(s.ctx);
    mlagen_close(s.generator);
    return 0;
}
