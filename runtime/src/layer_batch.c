/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_batch.c: a step begins: every row gets a method, runs are made of them
 * (layer_runs.c), and the tables of all runs go to the device.
 *
 * The batch is checked and planned on the host first; nothing has been
 * enqueued when that fails.
 */
#include <limits.h>
#include <string.h>

#include "layer.h"

/* Memory ---------------------------------------------------------------- */

/* Arrays by row, which hold nothing that has to stay. */
static mla_status reserve_rows(mla_layer *l, int rows)
{
    const struct {
        void *array; /* the address of a pointer */
        size_t item;
    } list[] = {{&l->prefix, sizeof(*l->prefix)},
                {&l->length, sizeof(*l->length)},
                {&l->fresh, sizeof(*l->fresh)},
                {&l->prefix32, sizeof(*l->prefix32)},
                {&l->method, sizeof(*l->method)}};
    mla_status status = MLA_OK;
    int64_t room = l->row_room;

    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]) && !status; i++) {
        void *block;
        room = l->row_room;
        memcpy(&block, list[i].array, sizeof(block));
        status = mla__layer_reserve(l, &block, list[i].item, 0, rows, &room);
        memcpy(list[i].array, &block, sizeof(block));
    }
    if (!status)
        l->row_room = (int)room;
    return status;
}

/* Rows ------------------------------------------------------------------ */

/* What the pool says, in the context's words: callers look there. */
static mla_status pool_error(mla_layer *l, mla_status status)
{
    char text[512];

    mla_pool_last_error(l->pool, text, sizeof(text));
    return mla__fail(l->ctx, status, "mla_layer_begin: %s", text);
}

/* The pool is one for the layer's rows. */
static mla_status check_pool(mla_layer *l)
{
    int64_t row = (int64_t)(l->spec.latent + l->spec.rope) * MLA__ELEM;
    mla_status status;

    l->pool_info = (mla_pool_info){.size = sizeof(l->pool_info)};
    status = mla_pool_describe(l->pool, &l->pool_info);
    if (status)
        return pool_error(l, status);
    if (l->pool_info.page_size != l->page_size ||
        l->pool_info.row_bytes != row)
        return mla__fail(l->ctx, MLA_INVALID_ARGUMENT,
                         "mla_layer_begin: the pool has pages of %d and rows "
                         "of %lld bytes, the layer's are %d and %lld",
                         l->pool_info.page_size,
                         (long long)l->pool_info.row_bytes, l->page_size,
                         (long long)row);
    return MLA_OK;
}

/* Lengths of row i out of the pool, which already counts the new tokens. */
static mla_status read_row(mla_layer *l, const mla_layer_batch *b, int i)
{
    int32_t fresh = b->q_lens ? b->q_lens[i] : 1;
    int64_t length;
    mla_status status = mla_pool_length(l->pool, b->seqs[i], &length);

    if (status)
        return pool_error(l, status);
    if (fresh < 0 || fresh > length)
        return mla__fail(l->ctx, MLA_RANGE,
                         "mla_layer_begin: row %d: q_len %d of a sequence of "
                         "%lld",
                         i, fresh, (long long)length);
    l->length[i] = length;
    l->fresh[i] = fresh;
    l->prefix[i] = length - fresh;
    l->prefix32[i] = (int32_t)(length - fresh);
    l->tokens += fresh;
    return MLA_OK;
}

/* Rows behind those of the batch, as many new tokens each, of nobody. */
static mla_status pad_rows(mla_layer *l, const mla_layer_batch *b)
{
    int32_t q_len = b->rows ? l->fresh[0] : 1;

    for (int i = 1; i < b->rows; i++)
        if (l->fresh[i] != q_len)
            return mla__fail(l->ctx, MLA_INVALID_ARGUMENT,
                             "mla_layer_begin: 'padded' needs rows of one "
                             "q_len; row 0 has %d, row %d has %d",
                             q_len, i, l->fresh[i]);
    for (int i = b->rows; i < l->rows; i++) {
        l->length[i] = l->prefix[i] = 0;
        l->fresh[i] = q_len;
        l->method[i] = MLA_METHOD_MLA;
        l->tokens += q_len;
    }
    return MLA_OK;
}

/* All rows, those of nobody behind them; l->tokens is their sum. */
static mla_status read_rows(mla_layer *l, const mla_layer_batch *b)
{
    mla_status status;

    l->rows = b->padded > b->rows ? b->padded : b->rows;
    l->tokens = 0;
    status = reserve_rows(l, l->rows);
    for (int i = 0; i < b->rows && !status; i++)
        status = read_row(l, b, i);
    if (!status && l->rows > b->rows)
        status = pad_rows(l, b);
    if (!status && l->tokens > INT_MAX)
        status = mla__fail(l->ctx, MLA_RANGE,
                           "mla_layer_begin: %lld new tokens",
                           (long long)l->tokens);
    return status;
}

/* The row of cos_sin of a row's t-th new token, the batch's n-th. */
static int64_t position_of(const mla_layer *l, const mla_layer_batch *b, int i,
                           int64_t t, int64_t n)
{
    if (i >= b->rows)
        return 0;
    return b->positions ? b->positions[n] : l->prefix[i] + t;
}

/* The kernels would read what lies behind the table. */
static mla_status check_positions(mla_layer *l, const mla_layer_batch *b)
{
    int64_t n = 0;

    for (int i = 0; i < b->rows && l->spec.rotates; i++)
        for (int64_t t = 0; t < l->fresh[i]; t++, n++) {
            int64_t p = position_of(l, b, i, t, n);
            if (p < 0 || p >= l->options.positions)
                return mla__fail(l->ctx, MLA_RANGE,
                                 "mla_layer_begin: row %d: position %lld; "
                                 "cos_sin has %lld",
                                 i, (long long)p,
                                 (long long)l->options.positions);
        }
    return MLA_OK;
}

/* Methods --------------------------------------------------------------- */

/* The caller's mode, or what lengths say: one new token behind a prefix is a
 * decode row. */
static mla_mode mode_of(const mla_layer *l, const mla_layer_batch *b)
{
    int single = 0;

    if (b->mode >= 0)
        return (mla_mode)b->mode;
    for (int i = 0; i < b->rows; i++)
        single += l->fresh[i] == 1 && l->prefix[i] > 0;
    if (single == b->rows)
        return b->rows ? MLA_MODE_DECODE : MLA_MODE_IDLE;
    return single ? MLA_MODE_MIXED : MLA_MODE_EXTEND;
}

/* The caller's method for all rows. */
static mla_status force_method(mla_layer *l, const mla_layer_batch *b)
{
    mla_method run = mla_method_run((mla_method)b->method);

    if (run == MLA_METHOD_NONE)
        return mla__fail(l->ctx, MLA_NO_METHOD,
                         "mla_layer_begin: method %d is none that libmla "
                         "executes",
                         b->method);
    l->decision = (mla_decision){.size = sizeof(l->decision),
                                 .method = (mla_method)b->method,
                                 .run = run,
                                 .mode = mode_of(l, b),
                                 .backend = "",
                                 .reason = "the caller's choice",
                                 .rows = b->rows};
    for (int i = 0; i < b->rows; i++)
        l->method[i] = run;
    return MLA_OK;
}

/* A method for each row, and the decision behind it for mla_layer_describe. */
static mla_status choose_methods(mla_layer *l, const mla_layer_batch *b)
{
    mla_batch batch = {.size = sizeof(batch),
                       .mode = mode_of(l, b),
                       .rows = b->rows,
                       .prefix = l->prefix32,
                       .fresh = l->fresh,
                       .captured = b->captured};

    if (b->method != MLA_METHOD_NONE)
        return force_method(l, b);
    l->decision = (mla_decision){.size = sizeof(l->decision)};
    return mla_dispatch(l->policy, &batch, l->method, &l->decision);
}

/* To the device --------------------------------------------------------- */

/* Lays the step out and compares with what the caller has. */
static mla_status check_workspace(mla_layer *l, const mla_layer_batch *b)
{
    mla__layer_lay_out(l, &l->sizes, &l->at);
    l->workspace = b->workspace;
    if (b->workspace == 0)
        return mla__fail(l->ctx, MLA_NULL_POINTER,
                         "mla_layer_begin: 'workspace' must not be NULL");
    if (b->workspace % 256)
        return mla__fail(l->ctx, MLA_MISALIGNED,
                         "mla_layer_begin: 'workspace' 0x%llx is not a "
                         "multiple of 256",
                         (unsigned long long)b->workspace);
    if (b->workspace_bytes < l->at.bytes)
        return mla__fail(l->ctx, MLA_RANGE,
                         "mla_layer_begin: the workspace has %lld bytes; %d "
                         "rows, %lld tokens and %lld keys expanded need %lld",
                         (long long)b->workspace_bytes, l->rows,
                         (long long)l->tokens, (long long)l->sizes.expanded,
                         (long long)l->at.bytes);
    return MLA_OK;
}

/* The tables as they lie in the workspace. */
static mla_status fill_image(mla_layer *l, const mla_layer_batch *b,
                             char *image)
{
    int64_t *positions = (int64_t *)(void *)(image + l->at.positions);
    int64_t *slots = (int64_t *)(void *)(image + l->at.slots), n = 0;
    mla_status status = MLA_OK;

    for (int i = 0; i < l->rows && !status; i++) {
        if (i < b->rows)
            status = mla_pool_slots(l->pool, b->seqs[i], l->prefix[i],
                                    l->fresh[i], slots + n);
        for (int64_t t = 0; t < l->fresh[i]; t++, n++) {
            positions[n] = position_of(l, b, i, t, n);
            if (i >= b->rows)
                slots[n] = -1;
        }
    }
    if (l->int_count)
        memcpy(image + l->at.ints, l->ints,
               (size_t)l->int_count * sizeof(*l->ints));
    return status ? pool_error(l, status) : MLA_OK;
}

/* Positions, slots and integers lie side by side: one copy. */
static mla_status send_tables(mla_layer *l, const mla_layer_batch *b,
                              void *stream)
{
    size_t bytes = (size_t)(l->at.ints + l->int_count * 4);
    char *image;
    mla_status status = mla__layer_stage_take(l, bytes, &image);

    if (!status)
        status = fill_image(l, b, image);
    return status ? status
                  : mla__layer_stage_send(l, l->workspace, bytes, stream);
}

/* Block tables and lengths; also orders this stream behind the last step's,
 * whose kernels may still read the workspace. */
static mla_status step_pool(mla_layer *l, const mla_layer_batch *b,
                            void *stream)
{
    mla_pool_batch batch = {.size = sizeof(batch),
                            .seqs = b->seqs,
                            .q_lens = b->q_lens,
                            .rows = b->rows,
                            .padded = l->rows};
    mla_status status;

    l->tables = (mla_pool_tables){.size = sizeof(l->tables)};
    status = mla_pool_step(l->pool, &batch, stream, &l->tables);
    return status ? pool_error(l, status) : MLA_OK;
}

/* One list serves all layers where there is one run to make it for. */
static int absorbed_runs(const mla_layer *l)
{
    int n = 0;

    for (int i = 0; i < l->runs; i++)
        n += l->run[i].absorbed;
    return n;
}

/* From here on the device is involved. */
static mla_status enqueue(mla_layer *l, const mla_layer_batch *b, void *stream)
{
    mla_status status = step_pool(l, b, stream);

    if (!status)
        status = send_tables(l, b, stream);
    l->plan_once = absorbed_runs(l) == 1;
    for (int i = 0; i < l->runs && !status && l->plan_once; i++)
        if (l->run[i].absorbed)
            status = mla__layer_plan(l, &l->run[i], stream);
    return status;
}

/* Everything that can be wrong with the batch comes before enqueue. */
static mla_status begin(mla_layer *l, const mla_layer_batch *b, void *stream)
{
    mla_status status = check_pool(l);

    if (!status)
        status = read_rows(l, b);
    if (!status)
        status = check_positions(l, b);
    if (!status)
        status = choose_methods(l, b);
    if (status || l->tokens == 0)
        return status;
    status = mla__layer_make_runs(l, b->max_seq_len);
    if (!status)
        status = check_workspace(l, b);
    return status ? status : enqueue(l, b, stream);
}

/* A failure leaves the layer without a step, so forward cannot work on half
 * of one. */
mla_status mla_layer_begin(mla_layer *l, mla_pool *pool,
                           const mla_layer_batch *batch, void *stream)
{
    mla_layer_batch b = MLA_LAYER_BATCH_INIT;
    mla_status status;

    if (!l || !pool || !batch || batch->size < sizeof(batch->size))
        return MLA_INVALID_ARGUMENT;
    memcpy(&b, batch, batch->size < sizeof(b) ? batch->size : sizeof(b));
    l->begun = false;
    l->pool = pool;
    if (b.rows < 0 || b.padded < 0 || b.max_seq_len < 0 || (b.rows && !b.seqs))
        return mla__fail(l->ctx, MLA_INVALID_ARGUMENT,
                         "mla_layer_begin: 'rows', 'padded' or 'max_seq_len' "
                         "is negative, or 'seqs' is NULL");
    status = begin(l, &b, stream);
    l->begun = !status;
    return status;
}
