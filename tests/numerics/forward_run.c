/* SPDX-License-Identifier: Apache-2.0
 *
 * forward_run.c: the story on the device, through the public face of libmla.
 *
 * The workspace is exactly as large as mla_layer_workspace says, and poison
 * before every step.  Graph steps run on a stream of their own: the first one
 * is captured and launched, later ones only begin and launch it again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward.h"
#include "internal.h"

enum { LAYERS = 2, CHUNK = 48, ROWS = 5, TOKENS = 72 };

/* Driver functions of which libmla has no use. */
struct graphs {
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_wait)(void *stream);
    int (*capture)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*instantiate)(void **exec, void *graph, unsigned long long flags);
    int (*launch)(void *exec, void *stream);
    int (*destroy)(void *graph);
    int (*exec_destroy)(void *exec);
};

struct telling {
    struct layer_run *r;
    const struct story_model *m;
    const struct story_way *way;
    mla_policy *policy;
    mla_layer *layer;
    mla_pool *pool;
    mla_seq sequence[STORY_SEQUENCES];
    mla_layer_weights weights;
    mla_layer_states states;
    uint64_t workspace;
    int64_t workspace_bytes;
    int64_t *positions; /* [TOKENS], or NULL */
    void *stream, *exec;
    struct graphs graphs;
    bool clean; /* no poison */
};

/* Failing with the text of the context or of the pool. */
static bool fail(struct telling *t, const char *what, mla_status status)
{
    if (status == MLA_CUDA)
        t->r->device->lost = true;
    return layer_fail(t->r, "%s: %s: %s", what, mla_status_name(status),
                      mla_last_error(t->r->device->ctx));
}

static bool pool_fail(struct telling *t, const char *what, mla_status status)
{
    char text[256];

    mla_pool_last_error(t->pool, text, sizeof(text));
    return layer_fail(t->r, "%s: %s: %s", what, mla_status_name(status), text);
}

/* Weights ----------------------------------------------------------------- */

static void encode_rows(const struct story_model *m,
                        const struct story_matrix *w, unsigned char *to,
                        int64_t stride)
{
    size_t es = num_elem_bytes(m->dtype);

    for (int64_t i = 0; i < w->rows; i++)
        for (int64_t k = 0; k < w->columns; k++)
            num_encode(m->dtype, to + i * stride + k * (int64_t)es,
                       w->value[i * w->columns + k]);
}

/* One matrix, or two of equal width below each other, with gaps of `gap`
 * bytes, which hold NaN. */
static bool upload(struct telling *t, const char *name,
                   const struct story_matrix *a, const struct story_matrix *b,
                   int64_t gap, uint64_t *address, int64_t *stride)
{
    const struct story_model *m = t->m;
    int64_t es = (int64_t)num_elem_bytes(m->dtype), row = a->columns * es + gap;
    int64_t rows = a->rows + (b ? b->rows : 0);
    unsigned char *image;
    bool good;

    *address = 0;
    if (rows == 0)
        return true;
    image = num_alloc((size_t)(rows * row));
    memset(image, 0xff, (size_t)(rows * row));
    encode_rows(m, a, image, row);
    if (b)
        encode_rows(m, b, image + a->rows * row, row);
    good = layer_new(t->r, name, m->dtype, rows * row / es, image, address);
    free(image);
    if (stride)
        *stride = gap ? row : 0;
    return good;
}

static bool upload_weights(struct telling *t)
{
    const struct story_matrix *w = t->m->w;
    mla_layer_weights *to = &t->weights;
    int64_t gap = t->way->separate ? 48 : 0;
    bool fused = !t->way->separate && t->m->q_rank;
    bool good = true;

    to->size = sizeof(*to);
    if (fused)
        good = upload(t, "qkv_a", &w[STORY_Q_A], &w[STORY_KV_A], gap,
                      &to->qkv_a, &to->qkv_a_stride);
    else
        good = upload(t, "q_a", &w[STORY_Q_A], NULL, gap, &to->q_a,
                      &to->q_a_stride) &&
               upload(t, "kv_a", &w[STORY_KV_A], NULL, gap, &to->kv_a,
                      &to->kv_a_stride);
    return good &&
           upload(t, "q_a_norm", &w[STORY_Q_A_NORM], NULL, 0, &to->q_a_norm,
                  NULL) &&
           upload(t, "kv_a_norm", &w[STORY_KV_A_NORM], NULL, 0,
                  &to->kv_a_norm, NULL) &&
           upload(t, "q_b", &w[STORY_Q_B], NULL, gap, &to->q_b,
                  &to->q_b_stride) &&
           upload(t, "kv_b", &w[STORY_KV_B], NULL, gap, &to->kv_b,
                  &to->kv_b_row_stride) &&
           upload(t, "o", &w[STORY_O], NULL, gap, &to->o, &to->o_stride);
}

/* The layer --------------------------------------------------------------- */

static int64_t table_rows(const struct story_model *m)
{
    return m->first_position + STORY_KEYS;
}

/* The runtime's table; where the spec has no frequencies, the oracle's. */
static bool make_angles(struct telling *t, uint64_t *address)
{
    const struct oracle_rope *rope = &t->m->model->rope;
    int64_t rows = table_rows(t->m), dim = t->m->rope;
    float *table = num_alloc((size_t)(rows * dim + 1) * sizeof(*table));
    double row[2 * NUM_MAX_PAIRS];
    bool good;

    if (mla_rope_table(t->r->device->set, 0, rows, 1, table))
        for (int64_t p = 0; p < rows; p++) {
            oracle_rope_row(rope, (double)p, true, row);
            for (int64_t i = 0; i < dim; i++)
                table[p * dim + i] = (float)row[i];
        }
    good = layer_new(t->r, "cos_sin", NUM_F32, rows * dim, table, address);
    free(table);
    return good;
}

/* Thresholds so low that a story crosses them; for "cost" a device without a
 * memory bound, on which prompts are expanded and single tokens absorbed. */
static bool make_policy(struct telling *t)
{
    static const mla_device_profile flat = {
        sizeof(flat), "flat", 1e12, 1e18, 0, 1, 1, 1, 1};
    const struct story_model *m = t->m;
    mla_cost_model model = {sizeof(model), m->heads, m->nope,
                            m->rope,       m->v,     m->latent, 0};
    mla_policy_options o = MLA_POLICY_OPTIONS_INIT;
    mla_status status;

    if (!t->way->backend)
        return true;
    o.prefill = t->way->backend;
    o.chunked_prefix_threshold = 40;
    o.max_chunk_capacity = 128;
    o.model = &model;
    o.profile = &flat;
    status = mla_policy_create(t->r->device->ctx, &o, &t->policy);
    return status ? fail(t, "mla_policy_create", status) : true;
}

/* $MLA_CUBLAS is a request: without that library a way fails.  What is
 * batch-invariant never uses it. */
static int gemm_of(const struct story_way *way)
{
    if (way->emitted)
        return MLA_GEMM_EMITTED;
    return getenv("MLA_CUBLAS") && !way->split_keys ? MLA_GEMM_CUBLAS
                                                    : MLA_GEMM_AUTO;
}

static bool make_layer(struct telling *t)
{
    mla_layer_options o = {.size = sizeof(o),
                           .heads = t->m->heads,
                           .page_size = t->m->page_size,
                           .hidden_size = STORY_HIDDEN,
                           .policy = t->policy,
                           .positions = table_rows(t->m),
                           .chunk_capacity = t->way->chunk_capacity,
                           .gemm = gemm_of(t->way),
                           .ctas = 7,
                           .split_keys = t->way->split_keys};
    mla_status status;

    if (t->m->model->rope.style != ORACLE_NO_ROPE &&
        !make_angles(t, &o.cos_sin))
        return false;
    status = mla_layer_create(t->r->device->set, &o, &t->layer);
    return status ? fail(t, "mla_layer_create", status) : true;
}

/* Rows in buffers of the caller's, full of poison, or in one of the pool's
 * own that has the layers of a page side by side. */
static bool make_pool(struct telling *t)
{
    mla_pool_options o = MLA_POOL_OPTIONS_INIT;
    mla_layer_info info = {.size = sizeof(info)};
    uint64_t buffer[LAYERS];
    mla_status status;

    mla_layer_describe(t->layer, &info);
    o.page_size = t->m->page_size;
    o.pages = STORY_SEQUENCES * (STORY_KEYS / o.page_size + 2);
    o.row_bytes = info.row_bytes;
    o.layers = LAYERS;
    o.layout = t->way->separate ? MLA_PAGE_FIRST : MLA_LAYER_FIRST;
    o.max_sequences = 8;
    o.table_width = STORY_KEYS / o.page_size + 3;
    o.max_tokens = TOKENS;
    for (int i = 0; i < LAYERS && !t->way->separate; i++)
        if (!layer_new(t->r, "a layer of the pool", t->m->dtype,
                       o.pages * o.page_size * (info.row_bytes / 2), NULL,
                       &buffer[i]))
            return false;
    if (!t->way->separate)
        o.buffers = buffer;
    status = mla_pool_create(t->r->device->ctx, &o, &t->pool);
    return status ? fail(t, "mla_pool_create", status) : true;
}

/* Hidden states in and out, the workspace: as long as they have to be. */
static bool make_buffers(struct telling *t)
{
    bool only_absorbed = t->way->method == MLA_METHOD_MLA;
    int64_t gap = t->way->separate ? 16 : 0, row = STORY_HIDDEN * 2 + gap;
    mla_layer_limits limits = {
        .size = sizeof(limits),
        .rows = ROWS,
        .tokens = TOKENS,
        .expanded = only_absorbed ? 0 : STORY_SEQUENCES * STORY_KEYS,
        .max_seq_len = STORY_KEYS};
    mla_status status =
        mla_layer_workspace(t->layer, &limits, &t->workspace_bytes);

    if (status)
        return fail(t, "mla_layer_workspace", status);
    t->states = (mla_layer_states){.size = sizeof(t->states),
                                   .in_stride = gap ? row : 0,
                                   .out_stride = gap ? row : 0};
    return layer_new(t->r, "hidden states", t->m->dtype, TOKENS * row / 2,
                     NULL, &t->states.in) &&
           layer_new(t->r, "output", t->m->dtype, TOKENS * row / 2, NULL,
                     &t->states.out) &&
           layer_new(t->r, "workspace", t->m->dtype, t->workspace_bytes / 2,
                     NULL, &t->workspace);
}

/* Graphs ------------------------------------------------------------------ */

static bool find_graphs(struct telling *t)
{
    const struct {
        const char *name;
        void *slot;
    } list[] = {{"cuStreamCreate", &t->graphs.stream_create},
                {"cuStreamDestroy_v2", &t->graphs.stream_destroy},
                {"cuStreamSynchronize", &t->graphs.stream_wait},
                {"cuStreamBeginCapture_v2", &t->graphs.capture},
                {"cuStreamEndCapture", &t->graphs.end},
                {"cuGraphInstantiateWithFlags", &t->graphs.instantiate},
                {"cuGraphLaunch", &t->graphs.launch},
                {"cuGraphDestroy", &t->graphs.destroy},
                {"cuGraphExecDestroy", &t->graphs.exec_destroy}};

    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        void *address;
        mla_status status =
            mla_driver_symbol(t->r->device->ctx, list[i].name, &address);
        if (status)
            return fail(t, list[i].name, status);
        memcpy(list[i].slot, &address, sizeof(address));
    }
    return true;
}

static bool make_stream(struct telling *t)
{
    int result;

    if (!t->way->graph)
        return true;
    if (!find_graphs(t) || mla__enter(t->r->device->ctx))
        return false;
    result = t->graphs.stream_create(&t->stream, 1);
    mla__leave(t->r->device->ctx);
    return result ? layer_fail(t->r, "cuStreamCreate: %d", result) : true;
}

/* The layer's launches as a graph; nothing runs. */
static bool capture(struct telling *t)
{
    const struct graphs *g = &t->graphs;
    int global = 0, result = g->capture(t->stream, global);
    mla_status status = MLA_OK;
    void *graph = NULL;

    if (!result)
        status = mla_layer_forward(t->layer, &t->weights,
                                   t->way->separate ? 1 : 0, &t->states,
                                   t->stream);
    if (!result)
        result = g->end(t->stream, &graph);
    if (!result && !status)
        result = g->instantiate(&t->exec, graph, 0);
    if (graph)
        g->destroy(graph);
    if (status)
        return fail(t, "mla_layer_forward in a capture", status);
    return result ? layer_fail(t->r, "a capture: %d", result) : true;
}

static bool replay(struct telling *t)
{
    int result;
    bool good = t->exec || capture(t);

    if (!good)
        return false;
    result = t->graphs.launch(t->exec, t->stream);
    return result ? layer_fail(t->r, "cuGraphLaunch: %d", result) : true;
}

/* Steps ------------------------------------------------------------------- */

static bool write_poison(struct telling *t, uint64_t to, int64_t bytes)
{
    unsigned char *image;
    uint64_t bits = num_poison_bits(t->m->dtype, t->r->poison);
    int result;

    if (t->clean)
        return true;
    image = num_alloc((size_t)bytes);
    for (int64_t i = 0; i + 2 <= bytes; i += 2)
        num_set_bits(t->m->dtype, image + i, bits);
    result = num_device_write(t->r->device, to, image, (size_t)bytes);
    free(image);
    return result ? layer_fail(t->r, "poison: %d", result) : true;
}

static int64_t row_bytes(const struct telling *t)
{
    return t->states.in_stride ? t->states.in_stride : STORY_HIDDEN * 2;
}

/* The row of the story that is the batch's i-th.  Where bits do not depend on
 * the batch, a run with poison has its rows in another order. */
static int batch_row(const struct telling *t, const struct story_step *s,
                     int i)
{
    return t->way->split_keys && !t->clean ? s->rows - 1 - i : i;
}

/* Which token of the story is the batch's n-th. */
static int64_t batch_token(const struct telling *t, const struct story_step *s,
                           int64_t n)
{
    int64_t first = 0;
    int i = 0;

    while (n >= s->row[batch_row(t, s, i)].fresh)
        n -= s->row[batch_row(t, s, i++)].fresh;
    for (int k = 0; k < batch_row(t, s, i); k++)
        first += s->row[k].fresh;
    return first + n;
}

/* The step's hidden states; what follows them is poison. */
static bool write_hidden(struct telling *t, int step)
{
    int64_t n = story_tokens(&story[step]), row = row_bytes(t);
    unsigned char *image = num_alloc((size_t)(n * row));
    int result;

    for (int64_t i = 0; i < n; i++) {
        const double *x = t->m->hidden[step] +
                          batch_token(t, &story[step], i) * STORY_HIDDEN;
        for (int k = 0; k < STORY_HIDDEN; k++)
            num_encode(t->m->dtype, image + i * row + 2 * k, x[k]);
    }
    result = num_device_write(t->r->device, t->states.in, image,
                              (size_t)(n * row));
    free(image);
    return result ? layer_fail(t->r, "hidden states: %d", result) : true;
}

/* Sequences as the step wants them, longer by its new tokens. */
static bool change_sequences(struct telling *t, const struct story_step *s,
                             mla_seq *seqs, int32_t *fresh)
{
    int64_t length;
    mla_status status = MLA_OK;

    if (s->fork.child) {
        mla_pool_length(t->pool, t->sequence[s->fork.parent], &length);
        status = mla_pool_fork(t->pool, t->sequence[s->fork.parent],
                               length - s->fork.less,
                               &t->sequence[s->fork.child]);
    }
    if (!status && s->cut.by) {
        mla_pool_length(t->pool, t->sequence[s->cut.sequence], &length);
        status = mla_pool_truncate(t->pool, t->sequence[s->cut.sequence],
                                   length - s->cut.by, t->stream);
    }
    for (int i = 0; i < s->rows && !status; i++) {
        int k = batch_row(t, s, i);
        mla_seq *q = &t->sequence[s->row[k].sequence];
        fresh[i] = s->row[k].fresh;
        if (!*q)
            status = mla_pool_add(t->pool, q);
        seqs[i] = *q;
    }
    if (!status)
        status = mla_pool_extend(t->pool, seqs, fresh, s->rows, NULL);
    return status ? pool_fail(t, "the pool", status) : true;
}

/* Places counted from the model's first position. */
static void place(struct telling *t, const struct story_step *s,
                  const mla_seq *seqs)
{
    int64_t n = 0, length;

    for (int i = 0; i < s->rows && t->positions; i++) {
        mla_pool_length(t->pool, seqs[i], &length);
        for (int k = s->row[batch_row(t, s, i)].fresh; k > 0; k--)
            t->positions[n++] = t->m->first_position + length - k;
    }
}

/* A byte less than the step needs is refused, with both sizes. */
static bool check_exact(struct telling *t, const mla_layer_batch *batch)
{
    mla_layer_info info = {.size = sizeof(info)};
    mla_layer_batch less = *batch;
    mla_status status = mla_layer_begin(t->layer, t->pool, batch, t->stream);
    char size[32];

    if (status)
        return fail(t, "mla_layer_begin", status);
    mla_layer_describe(t->layer, &info);
    if (info.workspace_bytes > t->workspace_bytes)
        return layer_fail(t->r, "a step needs more than the bound");
    less.workspace_bytes = info.workspace_bytes - 1;
    status = mla_layer_begin(t->layer, t->pool, &less, t->stream);
    snprintf(size, sizeof(size), "%lld", (long long)info.workspace_bytes);
    if (status == MLA_RANGE &&
        strstr(mla_last_error(t->r->device->ctx), size))
        return true;
    return layer_fail(t->r, "a workspace that is too small: %s",
                      mla_status_name(status));
}

static void count(struct telling *t, struct story_seen *seen)
{
    mla_layer_info info = {.size = sizeof(info)};

    mla_layer_describe(t->layer, &info);
    seen->shot += info.decision.run == MLA_METHOD_MHA_ONE_SHOT;
    seen->chunks += info.decision.run == MLA_METHOD_MHA_CHUNKED_KV;
    seen->absorbed += info.decision.run == MLA_METHOD_MLA;
    seen->split += info.decision.split;
}

static bool begin(struct telling *t, const mla_layer_batch *batch,
                  struct story_seen *seen)
{
    mla_status status;

    if (t->clean && !check_exact(t, batch))
        return false;
    status = mla_layer_begin(t->layer, t->pool, batch, t->stream);
    if (status)
        return fail(t, "mla_layer_begin", status);
    count(t, seen);
    return true;
}

static bool forward(struct telling *t, bool graph)
{
    mla_status status;
    int result;
    bool good = true;

    if (mla__enter(t->r->device->ctx))
        return false;
    if (graph) {
        good = replay(t);
    } else {
        status = mla_layer_forward(t->layer, &t->weights,
                                   t->way->separate ? 1 : 0, &t->states,
                                   t->stream);
        good = status ? fail(t, "mla_layer_forward", status) : true;
    }
    mla__leave(t->r->device->ctx);
    result = num_device_synchronize(t->r->device);
    if (!result)
        return good;
    t->r->device->lost = true;
    return layer_fail(t->r, "%s%s%s", num_device_error(t->r->device, result),
                      t->r->device->report ? "\n" : "",
                      t->r->device->report ? t->r->device->report() : "");
}

static bool read_output(struct telling *t, int step, unsigned char *out)
{
    int64_t n = story_tokens(&story[step]), row = row_bytes(t);
    unsigned char *image = num_alloc((size_t)(n * row));
    bool good = layer_read(t->r, image, t->states.out, (size_t)(n * row));

    for (int64_t i = 0; i < n; i++)
        memcpy(out + batch_token(t, &story[step], i) * STORY_HIDDEN * 2,
               image + i * row, STORY_HIDDEN * 2);
    free(image);
    return good;
}

static bool run_step(struct telling *t, int step, unsigned char *out,
                     struct story_seen *seen)
{
    const struct story_step *s = &story[step];
    mla_layer_batch batch = MLA_LAYER_BATCH_INIT;
    mla_seq seqs[STORY_ROWS];
    int32_t fresh[STORY_ROWS];

    batch.seqs = seqs;
    batch.q_lens = fresh;
    batch.rows = s->rows;
    batch.padded = s->padded;
    batch.method = t->way->method;
    batch.positions = t->positions;
    batch.max_seq_len = STORY_KEYS;
    batch.workspace = t->workspace;
    batch.workspace_bytes = t->workspace_bytes;
    if (!change_sequences(t, s, seqs, fresh))
        return false;
    place(t, s, seqs);
    return write_poison(t, t->workspace, t->workspace_bytes) &&
           write_poison(t, t->states.in, TOKENS * row_bytes(t)) &&
           write_poison(t, t->states.out, TOKENS * row_bytes(t)) &&
           write_hidden(t, step) && begin(t, &batch, seen) &&
           forward(t, t->way->graph && s->graph) && read_output(t, step, out);
}

/* ------------------------------------------------------------------------- */

static bool make(struct telling *t)
{
    return upload_weights(t) && make_policy(t) && make_layer(t) &&
           make_pool(t) && make_buffers(t) && make_stream(t);
}

static bool finish(struct telling *t)
{
    mla_status status = t->pool ? mla_pool_check(t->pool) : MLA_OK;
    bool good = status ? pool_fail(t, "mla_pool_check", status) : true;

    mla_layer_free(t->layer);
    mla_pool_destroy(t->pool);
    mla_policy_free(t->policy);
    if (t->stream && mla__enter(t->r->device->ctx) == MLA_OK) {
        if (t->exec)
            t->graphs.exec_destroy(t->exec);
        t->graphs.stream_destroy(t->stream);
        mla__leave(t->r->device->ctx);
    }
    return good;
}

bool story_run(struct layer_run *r, const struct story_model *m,
               const struct story_way *way, int turn,
               unsigned char *const *out, struct story_seen *seen)
{
    struct telling t = {.r = r, .m = m, .way = way, .clean = turn == 0};
    int mark = r->buffers;
    bool good;

    if (m->first_position || way->separate)
        t.positions = num_alloc(TOKENS * sizeof(*t.positions));
    good = make(&t);
    for (int i = 0; i < STORY_STEPS && good; i++)
        good = run_step(&t, i, out[i], seen);
    good = !r->device->lost && finish(&t) && good;
    free(t.positions);
    return layer_release(r, mark) && good;
}
