/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_step.c DIR: mla_decode on a driver, as an engine uses it.
 *
 * A step of two layers is captured once for each way of cutting and q_len, and
 * replayed with lengths that the host never tells the library; every replay is
 * compared with attention in double precision.  Device memory is NaN before
 * each replay, so what was not written shows.  Prints a line per check.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mla.h"

#ifndef HEADS
#define HEADS 4
#define LATENT 32
#endif

enum {
    BATCH = 4,
    LAYERS = 2,
    LONGEST = 200, /* keys that a graph is captured for */
    MORE = 460,    /* and that the pool has room for */
    MAX_Q = 11, /* more than the set's tiles were chosen for */
    ROPE = 16,
    DIM = LATENT + ROPE,
    PAGE = 16,
    WIDTH = MORE / PAGE + 3, /* entries of a row of the block table */
    PAGES = BATCH * WIDTH + 1
};

static mla_context *ctx;
static mla_kernels *set;
static mla_decode *decode;
static int failures;

/* One line of the result. */
static void check(int good, const char *what)
{
    printf("%s: %s\n", what, good ? "ok" : "WRONG");
    failures += !good;
}

/* Ends the program where going on makes no sense. */
static void must(mla_status status, const char *what)
{
    if (!status)
        return;
    printf("%s: %s\n", what, mla_last_error(ctx));
    exit(1);
}

/* The driver ---------------------------------------------------------------
 */

static struct {
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*alloc)(uint64_t *address, size_t bytes);
    int (*fill)(uint64_t to, unsigned char value, size_t bytes);
    int (*write)(uint64_t to, const void *from, size_t bytes);
    int (*read)(void *to, uint64_t from, size_t bytes);
    int (*synchronize)(void);
    int (*stream_create)(void **stream, unsigned flags);
    int (*begin)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*instantiate)(void **exec, void *graph, unsigned long long flags);
    int (*launch)(void *exec, void *stream);
    int (*exec_destroy)(void *exec);
    int (*graph_destroy)(void *graph);
} cuda;

/* An engine has its own ways to the driver; this borrows libmla's. */
static void open_driver(void)
{
    static const struct {
        const char *symbol;
        void *slot;
    } rows[] = {{"cuDevicePrimaryCtxRetain", &cuda.retain},
                {"cuCtxSetCurrent", &cuda.set_current},
                {"cuMemAlloc_v2", &cuda.alloc},
                {"cuMemsetD8_v2", &cuda.fill},
                {"cuMemcpyHtoD_v2", &cuda.write},
                {"cuMemcpyDtoH_v2", &cuda.read},
                {"cuCtxSynchronize", &cuda.synchronize},
                {"cuStreamCreate", &cuda.stream_create},
                {"cuStreamBeginCapture_v2", &cuda.begin},
                {"cuStreamEndCapture", &cuda.end},
                {"cuGraphInstantiateWithFlags", &cuda.instantiate},
                {"cuGraphLaunch", &cuda.launch},
                {"cuGraphExecDestroy", &cuda.exec_destroy},
                {"cuGraphDestroy", &cuda.graph_destroy}};
    mla_device_info info = {sizeof(info)};
    void *address, *primary;
    size_t i;

    must(mla_device(ctx, &info), "device");
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        must(mla_driver_symbol(ctx, rows[i].symbol, &address), "driver");
        memcpy(rows[i].slot, &address, sizeof(address));
    }
    if (cuda.retain(&primary, 0) || cuda.set_current(primary))
        exit(1);
}

/* Memory that is NaN, whatever it is read as. */
static uint64_t device_memory(size_t bytes)
{
    uint64_t address;
    if (cuda.alloc(&address, bytes) || cuda.fill(address, 0xff, bytes))
        exit(1);
    return address;
}

/* Data ---------------------------------------------------------------------
 */

static uint16_t pool[LAYERS][PAGES][PAGE][DIM], q[BATCH][MAX_Q][HEADS][DIM];
static uint16_t out[LAYERS][BATCH][MAX_Q][HEADS][LATENT];
static float lse[LAYERS][BATCH][MAX_Q][HEADS];
static int32_t table[BATCH][WIDTH];
static uint64_t d_pool, d_q, d_out, d_lse, d_table, d_lens;

/* A bf16 as a number. */
static double value(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, sizeof(f));
    return f;
}

/* bf16 of a multiple of 1/64 in [-1, 1): exact. */
static uint16_t random_value(void)
{
    static uint64_t state = 0x9e3779b97f4a7c15u;
    uint32_t bits;
    float f;
    state = state * 6364136223846793005u + 1442695040888963407u;
    f = (float)(state >> 57) / 64.0f - 1.0f;
    memcpy(&bits, &f, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

/* Pages are handed out backwards and in turn; page 0 is nobody's. */
static void make_data(void)
{
    size_t i;
    int b, p;

    for (i = 0; i < sizeof(pool) / 2; i++)
        (&pool[0][0][0][0])[i] = random_value();
    for (i = 0; i < sizeof(q) / 2; i++)
        (&q[0][0][0][0])[i] = random_value();
    for (b = 0; b < BATCH; b++)
        for (p = 0; p < WIDTH; p++)
            table[b][p] = PAGES - 1 - (p * BATCH + b);
    d_pool = device_memory(sizeof(pool));
    d_q = device_memory(sizeof(q));
    d_out = device_memory(sizeof(out));
    d_lse = device_memory(sizeof(lse));
    d_table = device_memory(sizeof(table));
    d_lens = device_memory(BATCH * 4);
    if (cuda.write(d_pool, pool, sizeof(pool)) ||
        cuda.write(d_q, q, sizeof(q)) ||
        cuda.write(d_table, table, sizeof(table)))
        exit(1);
}

/* Reference ----------------------------------------------------------------
 */

static const double scale = 0.25;

/* A key row, through the block table. */
static const uint16_t *key_of(int layer, int b, int key)
{
    return pool[layer][table[b][key / PAGE]][key % PAGE];
}

/* One row: of O the largest error in units of the bar, and that of the LSE. */
static double row_error(int layer, int b, int token, int head, int keys,
                        const uint16_t *o, double got_lse)
{
    double p[MORE], want[LATENT] = {0}, size[LATENT] = {0}, sum = 0, worst;
    double m = -INFINITY, total;
    int k, i;

    for (k = 0; k < keys; k++) {
        p[k] = 0;
        for (i = 0; i < DIM; i++)
            p[k] += scale * value(q[b][token][head][i]) *
                    value(key_of(layer, b, k)[i]);
        m = fmax(m, p[k]);
    }
    for (k = 0; k < keys; k++)
        sum += p[k] = exp(p[k] - m);
    for (k = 0; k < keys; k++)
        for (i = 0; i < LATENT; i++) {
            want[i] += p[k] / sum * value(key_of(layer, b, k)[i]);
            size[i] += p[k] / sum * fabs(value(key_of(layer, b, k)[i]));
        }
    total = m + log(sum);
    worst = keys ? fabs(got_lse - total) / fmax(1e-5, 1e-4 * fabs(total))
                 : (got_lse == -INFINITY ? 0 : 9);
    for (i = 0; i < LATENT; i++) {
        double error = fabs(value(o[i]) - want[i]);
        double bar = keys ? 8e-4 + (size[i] + fabs(want[i])) / 256 : 0;
        worst = fmax(worst, error <= bar ? 0 : 9);
        if (isnan(error))
            worst = 9;
    }
    return isnan(worst) ? 9 : worst;
}

/* Whether both layers' results are right for these lengths. */
static int right(const int32_t *length, int q_len)
{
    int layer, b, t, h, good = 1;

    if (cuda.read(out, d_out, sizeof(out)) ||
        cuda.read(lse, d_lse, sizeof(lse)))
        exit(1);
    for (layer = 0; layer < LAYERS; layer++)
        for (b = 0; b < BATCH; b++)
            for (t = 0; t < q_len; t++)
                for (h = 0; h < HEADS; h++)
                    good &= row_error(layer, b, t, h,
                                      length[b] ? length[b] - q_len + t + 1
                                                : 0,
                                      out[layer][b][t][h],
                                      lse[layer][b][t][h]) <= 1;
    return good;
}

/* All rows of request b are NaN. */
static int is_nan(int b, int q_len)
{
    int i, good = 1;

    if (cuda.read(out, d_out, sizeof(out)))
        exit(1);
    for (i = 0; i < q_len * HEADS * LATENT; i++)
        good &= isnan(value((&out[0][b][0][0][0])[i])) != 0;
    return good;
}

/* Steps --------------------------------------------------------------------
 */

static void make_decode(int ctas, int min_tiles, int split_keys)
{
    mla_decode_options o = MLA_DECODE_OPTIONS_INIT;

    o.heads = HEADS;
    o.ctas = ctas;
    o.min_tiles = min_tiles;
    o.split_keys = split_keys;
    must(mla_decode_create(set, &o, &decode), "create");
}

/* The same workspace for all that a decode object is asked to do. */
static mla_decode_step make_step(int batch, int q_len)
{
    static uint64_t workspace;
    static int64_t bytes;
    mla_decode_step s = {sizeof(s)};
    int64_t need;

    s.batch = BATCH;
    s.q_len = MAX_Q;
    s.max_seq_len = LONGEST;
    must(mla_decode_workspace(decode, &s, &need), "workspace");
    if (need > bytes) {
        bytes = need;
        workspace = device_memory((size_t)bytes);
    }
    s.batch = batch;
    s.q_len = q_len;
    s.seq_lens = d_lens;
    s.workspace = workspace;
    s.workspace_bytes = need; /* and not a byte more */
    return s;
}

/* q and lse have room for MAX_Q tokens a request, so some strides are not
 * those of a tensor without gaps. */
static mla_decode_tensors layer_tensors(int layer)
{
    mla_decode_tensors t = {sizeof(t)};

    t.q = d_q;
    t.q_batch_stride = sizeof(q[0]);
    t.kv_cache = d_pool + (uint64_t)layer * sizeof(pool[0]);
    t.block_table = d_table;
    t.block_table_stride = sizeof(table[0]);
    t.out = d_out + (uint64_t)layer * sizeof(out[0]);
    t.out_batch_stride = sizeof(out[0][0]);
    t.lse = d_lse + (uint64_t)layer * sizeof(lse[0]);
    t.lse_batch_stride = sizeof(lse[0][0]);
    t.softmax_scale = scale;
    return t;
}

/* One work list, two layers. */
static mla_status enqueue(const mla_decode_step *s, void *stream)
{
    mla_status status = mla_decode_plan(decode, s, stream);
    int layer;

    for (layer = 0; layer < LAYERS && !status; layer++) {
        mla_decode_tensors t = layer_tensors(layer);
        status = mla_decode_run(decode, s, &t, stream);
    }
    return status;
}

/* The step as a graph; it must not touch the device yet. */
static void *capture(const mla_decode_step *s, void *stream)
{
    void *graph, *exec;

    if (cuda.begin(stream, 0))
        exit(1);
    must(enqueue(s, stream), "captured step");
    if (cuda.end(stream, &graph) || cuda.instantiate(&exec, graph, 0) ||
        cuda.graph_destroy(graph))
        exit(1);
    return exec;
}

/* Lengths and NaN everywhere, then the graph. */
static void replay(void *exec, const mla_decode_step *s,
                   const int32_t *length, void *stream)
{
    if (cuda.fill(d_out, 0xff, sizeof(out)) ||
        cuda.fill(d_lse, 0xff, sizeof(lse)) ||
        cuda.fill(s->workspace, 0xff, (size_t)s->workspace_bytes) ||
        cuda.write(d_lens, length, BATCH * 4) || cuda.launch(exec, stream) ||
        cuda.synchronize())
        exit(1);
}

/* Checks -------------------------------------------------------------------
 */

static const int32_t lengths[][BATCH] = {{11, 64, 130, 0},
                                         {200, 200, 200, 200},
                                         {0, 0, 0, 0},
                                         {0, 0, 0, 199},
                                         {16, 17, 15, 33}};
enum { REPLAYS = sizeof(lengths) / sizeof(lengths[0]) };

static const struct mode {
    const char *name;
    int ctas, min_tiles, split_keys;
} modes[] = {{"balanced", 0, 0, 0},
             {"few workers", 5, 2, 0},
             {"invariant", 0, 0, 32},
             {"wide splits", 3, 0, 96}};

/* Requests that are longer than the graph was captured for are right as long
 * as the list has room; without room everything is NaN, and is explained. */
static void outgrow(const struct mode *m, void *exec, const mla_decode_step *s,
                    void *stream)
{
    static const int32_t longer[BATCH] = {MORE, MORE, MORE, MORE};
    char what[80];
    mla_status status;
    int b, good = 1;

    replay(exec, s, longer, stream);
    status = mla_decode_check(decode, s, stream);
    for (b = 0; b < BATCH && status; b++)
        good &= is_nan(b, s->q_len);
    if (status)
        good &= status == MLA_RANGE &&
                strstr(mla_last_error(ctx), "longer than max_seq_len") != NULL;
    else
        good &= right(longer, s->q_len) && !m->split_keys;
    sprintf(what, "%s, q_len %d, outgrown", m->name, s->q_len);
    check(good, what);
}

/* A request with fewer keys than queries is NaN, the others are right. */
static void starve(const struct mode *m, void *exec, const mla_decode_step *s,
                   void *stream)
{
    static const int32_t shorter[BATCH] = {50, 1, 9, 20};
    char what[80];

    if (s->q_len == 1)
        return;
    replay(exec, s, shorter, stream);
    sprintf(what, "%s, q_len %d, starved", m->name, s->q_len);
    check(is_nan(1, s->q_len) && !is_nan(0, s->q_len) &&
              mla_decode_check(decode, s, stream) == MLA_RANGE &&
              strstr(mla_last_error(ctx), "seq_len < q_len"),
          what);
}

/* All replays of one graph. */
static void check_graph(const struct mode *m, int q_len, void *stream)
{
    mla_decode_step s = make_step(BATCH, q_len);
    void *exec = capture(&s, stream);
    char what[80];
    int i, good = 1;

    for (i = 0; i < REPLAYS; i++) {
        replay(exec, &s, lengths[i], stream);
        good &= right(lengths[i], q_len) &&
                !mla_decode_check(decode, &s, stream);
    }
    sprintf(what, "%s, q_len %d, replays", m->name, q_len);
    check(good, what);
    outgrow(m, exec, &s, stream);
    starve(m, exec, &s, stream);
    if (cuda.exec_destroy(exec))
        exit(1);
}

/* Request 0 among others, alone, and with another number of workers: the
 * same bits. */
static void check_invariance(int q_len)
{
    static uint16_t first[MAX_Q][HEADS][LATENT];
    static const int32_t alone[BATCH] = {187, 0, 0, 0},
                         among[BATCH] = {187, 200, 64, 5};
    size_t bytes = (size_t)q_len * sizeof(first[0]);
    char what[80];
    int i, good = 1;

    for (i = 0; i < 3; i++) {
        mla_decode_step s;
        make_decode(i ? 2 * i + 1 : 0, 0, 32);
        s = make_step(i == 1 ? 1 : BATCH, q_len);
        if (cuda.write(d_lens, i == 1 ? alone : among, sizeof(alone)))
            exit(1);
        must(enqueue(&s, NULL), "step");
        if (cuda.read(out, d_out, sizeof(out)))
            exit(1);
        if (i == 0)
            memcpy(first, out[0][0], bytes);
        good &= memcmp(first, out[0][0], bytes) == 0;
        mla_decode_free(decode);
    }
    sprintf(what, "q_len %d, bits of a request among others", q_len);
    check(good, what);
}

/* Before anything is on the device: refused, and the capture lives on. */
static void check_unprepared(void *stream)
{
    mla_decode_step s = make_step(BATCH, 1), none = make_step(0, 1);
    void *graph = NULL;
    mla_status status;
    int named;

    if (cuda.begin(stream, 0))
        exit(1);
    status = enqueue(&s, stream);
    named = strstr(mla_last_error(ctx), "call mla_prepare before") != NULL;
    check(status == MLA_CAPTURING && named, "not prepared");
    none.workspace = none.seq_lens = 0;
    check(!mla_decode_plan(decode, &none, stream), "nothing to do");
    check(!cuda.end(stream, &graph) && graph, "the capture lives on");
}

int main(int argc, char **argv)
{
    static const int q_lens[] = {1, 3, 8, MAX_Q};
    size_t m, i;
    void *stream;

    if (argc != 2 || mla_context_create(NULL, &ctx))
        return 2;
    must(mla_load(ctx, argv[1], &set), "load");
    open_driver();
    make_data();
    if (cuda.stream_create(&stream, 1))
        return 1;
    make_decode(0, 0, 0);
    check_unprepared(stream);
    must(mla_decode_prepare(decode), "prepare");
    mla_decode_free(decode);
    for (m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        make_decode(modes[m].ctas, modes[m].min_tiles, modes[m].split_keys);
        for (i = 0; i < sizeof(q_lens) / sizeof(q_lens[0]); i++)
            check_graph(&modes[m], q_lens[i], stream);
        mla_decode_free(decode);
    }
    for (i = 0; i < sizeof(q_lens) / sizeof(q_lens[0]); i++)
        check_invariance(q_lens[i]);
    mla_kernels_free(set);
    mla_context_destroy(ctx);
    printf("%d wrong\n", failures);
    return failures > 0;
}
