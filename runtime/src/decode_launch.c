/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_launch.c: a decode step's launches.
 *
 * Everything that can be wrong is found before the first launch, so that a
 * call that fails has enqueued nothing.  What is launched depends on the step
 * as the host knows it (batch, q_len, max_seq_len) and never on a length, so a
 * captured call stays right for every replay within the bound.  Nothing is
 * allocated: argument blocks live on the stack until the driver has copied
 * them.
 */
#include <math.h>
#include <string.h>

#include "decode_step.h"

enum {
    HALF_BYTES = 2,  /* of an element of q, kv_cache and out */
    FLOAT_BYTES = 4, /* of one of lse */
    MAX_LAUNCHES = 2,
    MAX_HEADER = 64 /* int32 of a work list's header, as manifest.c allows */
};

/* A call being made: the step, completed; where its work list is; and what
 * arguments are filled with. */
struct call {
    mla_decode_step s;
    mla_decode_layout l;
    bool empty; /* nothing is to be done, and the rest means nothing */
    int64_t value[MLA__DECODE_VALUE_COUNT];
};

/* Steps ----------------------------------------------------------------- */

/* Its address and size; what it holds does not matter.
 * Errors: NULL_POINTER, MISALIGNED, RANGE (with both sizes). */
static mla_status check_workspace(const mla_decode *d, const struct call *c)
{
    const char *symbol = d->plan.k->symbol;

    if (c->s.workspace == 0)
        return mla__fail(d->ctx, MLA_NULL_POINTER,
                         "%s: step 'workspace' must not be NULL", symbol);
    if (c->s.workspace % MLA__WORKSPACE_ALIGN)
        return mla__fail(d->ctx, MLA_MISALIGNED,
                         "%s: step 'workspace': address 0x%llx is not a "
                         "multiple of %d",
                         symbol, (unsigned long long)c->s.workspace,
                         MLA__WORKSPACE_ALIGN);
    if (c->s.workspace_bytes < c->l.bytes)
        return mla__fail(d->ctx, MLA_RANGE,
                         "%s: the workspace has %lld bytes, and batch %d, "
                         "q_len %d, max_seq_len %lld need %lld",
                         symbol, (long long)c->s.workspace_bytes, c->s.batch,
                         c->s.q_len, (long long)c->s.max_seq_len,
                         (long long)c->l.bytes);
    return MLA_OK;
}

/* What the step and its work list say, for all three kernels.  Addresses of
 * the parts are fixed here once, so that the plan and the layers that follow
 * it cannot disagree: the same step gives the same layout. */
static void set_step(struct call *c)
{
    int64_t base = (int64_t)c->s.workspace;
    const struct {
        enum mla__decode_value name;
        int64_t value;
    } rows[] = {{MLA__D_seq_lens, (int64_t)c->s.seq_lens},
                {MLA__D_header, base + c->l.header},
                {MLA__D_item_begin, base + c->l.item_begin},
                {MLA__D_items, base + c->l.items},
                {MLA__D_unit_slots, base + c->l.unit_slots},
                {MLA__D_partial_o, base + c->l.partial_o},
                {MLA__D_partial_lse, base + c->l.partial_lse},
                {MLA__D_item_capacity, c->l.item_capacity},
                {MLA__D_slot_capacity, c->l.slot_capacity},
                {MLA__D_batch, c->s.batch},
                {MLA__D_q_len, c->s.q_len},
                {MLA__D_rows_per_tile, c->l.rows_per_tile},
                {MLA__D_keys_per_tile, c->l.keys_per_tile},
                {MLA__D_ctas, c->l.ctas},
                {MLA__D_min_tiles, c->l.min_tiles},
                {MLA__D_split_tiles, c->l.split_tiles}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        c->value[rows[i].name] = rows[i].value;
}

/* Begins every call: the step checked, laid out and in place.  A batch of 0
 * is empty before its pointers are looked at.
 * Errors: as mla_decode_workspace, and those of check_workspace. */
static mla_status begin(const mla_decode *d, const mla_decode_step *given,
                        struct call *c)
{
    mla_status status;

    memset(c, 0, sizeof(*c));
    status = mla__decode_step(d, given, &c->s);
    c->empty = c->s.batch == 0;
    if (status || c->empty)
        return status;
    status = mla__decode_layout(d, &c->s, &c->l);
    if (!status)
        status = check_workspace(d, c);
    if (!status)
        set_step(c);
    return status;
}

/* Tensors --------------------------------------------------------------- */

/* 0 stands for the stride of a tensor without gaps.  A caller who wants all
 * tokens to share a row cannot say so; no kernel is made for it. */
static int64_t or_tight(int64_t stride, int64_t tight)
{
    return stride ? stride : tight;
}

/* Strides of [batch, q_len, heads, row bytes].  The three values stand behind
 * each other in the list of values, from the batch's on. */
static void set_rows(const mla_decode *d, struct call *c,
                     enum mla__decode_value batch_stride,
                     const int64_t given[3], int64_t row)
{
    int64_t *to = &c->value[batch_stride];

    to[2] = or_tight(given[2], row);
    to[1] = or_tight(given[1], row * d->heads);
    to[0] = or_tight(given[0], row * d->heads * c->s.q_len);
}

/* q, out and lse, which have a row per (request, token, head). */
static void set_grids(const mla_decode *d, struct call *c,
                      const mla_decode_tensors *t)
{
    int64_t latent = (int64_t)d->latent * HALF_BYTES;
    const int64_t q[3] = {t->q_batch_stride, t->q_token_stride,
                          t->q_head_stride};
    const int64_t out[3] = {t->out_batch_stride, t->out_token_stride,
                            t->out_head_stride};
    const int64_t lse[3] = {t->lse_batch_stride, t->lse_token_stride,
                            t->lse_head_stride};

    set_rows(d, c, MLA__D_q_batch_stride, q,
             latent + (int64_t)d->rope * HALF_BYTES);
    set_rows(d, c, MLA__D_out_batch_stride, out, latent);
    set_rows(d, c, MLA__D_lse_batch_stride, lse, FLOAT_BYTES);
    c->value[MLA__D_q] = (int64_t)t->q;
    c->value[MLA__D_out] = (int64_t)t->out;
    c->value[MLA__D_lse] = (int64_t)t->lse;
}

/* The pool, the pages of each request in it, and the scale, whose bits are in
 * the low half of its value. */
static void set_pool(const mla_decode *d, struct call *c,
                     const mla_decode_tensors *t)
{
    int64_t row = or_tight(t->row_stride,
                           (int64_t)(d->latent + d->rope) * HALF_BYTES);
    float scale = (float)t->softmax_scale;
    uint32_t bits;

    memcpy(&bits, &scale, sizeof(bits));
    c->value[MLA__D_softmax_scale] = bits;
    c->value[MLA__D_kv_cache] = (int64_t)t->kv_cache;
    c->value[MLA__D_row_stride] = row;
    c->value[MLA__D_page_stride] = or_tight(t->page_stride,
                                            row * d->page_size);
    c->value[MLA__D_block_table] = (int64_t)t->block_table;
    c->value[MLA__D_block_table_stride] = t->block_table_stride;
}

/* What the kernels' own checks would let pass: a scale that nobody has set,
 * and requests that all have the first one's pages.
 * Error: RANGE. */
static mla_status check_tensors(const mla_decode *d, const struct call *c,
                                const mla_decode_tensors *t)
{
    const char *symbol = d->tile[0].k->symbol;
    float scale = (float)t->softmax_scale;

    if (!isfinite(scale) || scale == 0)
        return mla__fail(d->ctx, MLA_RANGE,
                         "%s: tensors 'softmax_scale': %g is not a finite "
                         "float other than 0",
                         symbol, t->softmax_scale);
    if (c->s.batch > 1 && t->block_table_stride == 0)
        return mla__fail(d->ctx, MLA_RANGE,
                         "%s: tensors 'block_table_stride' must be given for "
                         "a batch of %d",
                         symbol, c->s.batch);
    return MLA_OK;
}

/* Takes over what the caller's tensors have room for: a program of an older
 * header knows fewer of them, and the rest are then 0.
 * Error: RANGE. */
static mla_status set_tensors(const mla_decode *d, struct call *c,
                              const mla_decode_tensors *given)
{
    mla_decode_tensors t = {0};
    mla_status status;

    memcpy(&t, given, given->size < sizeof(t) ? given->size : sizeof(t));
    status = check_tensors(d, c, &t);
    if (status)
        return status;
    set_grids(d, c, &t);
    set_pool(d, c, &t);
    return MLA_OK;
}

/* Launching ------------------------------------------------------------- */

/* The kernel's argument block.  Fields of 32 bits take the low halves of
 * their values: hosts with a CUDA driver are little-endian.  That integers
 * fit was checked with the step. */
static void fill(const struct mla__decode_kernel *kernel,
                 const struct call *c, unsigned char *block)
{
    const mla_kernel *k = kernel->k;

    memset(block, 0, k->args_size);
    for (int i = 0; i < k->field_count; i++) {
        int type = k->fields[i].type;
        size_t bytes = type == MLA_PTR || type == MLA_I64 ? sizeof(int64_t)
                                                          : sizeof(int32_t);
        memcpy(block + k->fields[i].offset, &c->value[kernel->value[i]],
               bytes);
    }
}

/* Everything that mla_launch_struct would find, and that the kernel is on the
 * device, or may be loaded now.
 * Errors: as mla_launch, CAPTURING. */
static mla_status check(const struct mla__decode_kernel *kernel,
                        const unsigned char *block, void *stream)
{
    unsigned grid[3];
    mla_status status = mla__grid(kernel->k, block, grid);

    if (!status)
        status = mla__check_fields(kernel->k, block);
    return status ? status : mla__ready(kernel->k, stream);
}

/* Checks all kernels, then launches them in order.  What is left to fail in
 * between is the driver. */
static mla_status launch(const struct mla__decode_kernel *const *kernels,
                         int count, const struct call *c, void *stream)
{
    unsigned char block[MAX_LAUNCHES][MLA__DECODE_BLOCK];
    mla_status status = MLA_OK;

    for (int i = 0; i < count && !status; i++) {
        fill(kernels[i], c, block[i]);
        status = check(kernels[i], block[i], stream);
    }
    for (int i = 0; i < count && !status; i++)
        status = mla_launch_struct(kernels[i]->k, block[i],
                                   kernels[i]->k->args_size, stream);
    return status;
}

/* One launch, whatever the batch; a batch of 0 is success and touches
 * nothing. */
mla_status mla_decode_plan(mla_decode *d, const mla_decode_step *step,
                           void *stream)
{
    const struct mla__decode_kernel *kernel = d ? &d->plan : NULL;
    struct call c;
    mla_status status;

    if (!d || !step)
        return MLA_INVALID_ARGUMENT;
    status = begin(d, step, &c);
    if (status || c.empty)
        return status;
    return launch(&kernel, 1, &c, stream);
}

/* Without room for a slot nothing is combined: a list with cuts would not have
 * fitted, and mqa_decode has answered that with NaN. */
mla_status mla_decode_run(mla_decode *d, const mla_decode_step *step,
                          const mla_decode_tensors *tensors, void *stream)
{
    const struct mla__decode_kernel *kernels[MAX_LAUNCHES];
    struct call c;
    mla_status status;

    if (!d || !step || !tensors || tensors->size < sizeof(tensors->size))
        return MLA_INVALID_ARGUMENT;
    status = begin(d, step, &c);
    if (status || c.empty)
        return status;
    status = set_tensors(d, &c, tensors);
    if (status)
        return status;
    kernels[0] = mla__decode_pick(d, (int64_t)c.s.q_len * d->heads);
    kernels[1] = &d->combine;
    return launch(kernels, c.l.slot_capacity ? 2 : 1, &c, stream);
}

/* Checking -------------------------------------------------------------- */

/* Reads the work list's header when all work is done, of every stream: the
 * plan may have been enqueued on another one.
 * Errors: CAPTURING, CUDA. */
static mla_status read_header(const mla_decode *d, const struct call *c,
                              void *stream, int32_t *header)
{
    mla_context *ctx = d->ctx;
    uint64_t from = c->s.workspace + (uint64_t)c->l.header;
    size_t ints = (size_t)d->plan.k->work_list.header_ints;
    bool capturing = false;
    mla_status status = mla__enter(ctx);
    int result;

    if (status)
        return status;
    result = mla__capturing(&ctx->driver, stream, &capturing);
    if (!result && !capturing)
        result = ctx->driver.ctx_synchronize();
    if (!result && !capturing)
        result = ctx->driver.mem_read(header, from, ints * sizeof(*header));
    mla__leave(ctx);
    if (capturing)
        return mla__fail(ctx, MLA_CAPTURING,
                         "mla_decode_check: the stream is being captured; "
                         "call it after a replay");
    return result ? mla__cuda_fail(ctx, "mla_decode_check", result) : MLA_OK;
}

/* The header's status bits as an error.  Capacities hold for every batch
 * within the bounds, so a list that does not fit is one outside them. */
static mla_status explain(const mla_decode *d, const struct call *c,
                          const int32_t *header)
{
    const struct mla__work_list *w = &d->plan.k->work_list;
    const char *symbol = d->plan.k->symbol;
    int32_t status = header[w->status_at];

    if (status & (w->item_overflow | w->slot_overflow))
        return mla__fail(d->ctx, MLA_RANGE,
                         "%s: some request is longer than max_seq_len: %d "
                         "items and %d slots, room for %lld and %lld; all "
                         "outputs are NaN",
                         symbol, header[w->items_at], header[w->slots_at],
                         (long long)c->l.item_capacity,
                         (long long)c->l.slot_capacity);
    if (status & w->short_request)
        return mla__fail(d->ctx, MLA_RANGE,
                         "%s: some request has 0 < seq_len < q_len; its "
                         "outputs are NaN",
                         symbol);
    return MLA_OK;
}

/* The only call that waits, and for the whole device: it is for debugging
 * alone.  The workspace has to be the planned one: what another step left
 * there, or nobody wrote, is taken for the header. */
mla_status mla_decode_check(mla_decode *d, const mla_decode_step *step,
                            void *stream)
{
    int32_t header[MAX_HEADER] = {0};
    struct call c;
    mla_status status;

    if (!d || !step)
        return MLA_INVALID_ARGUMENT;
    status = begin(d, step, &c);
    if (status || c.empty)
        return status;
    status = read_header(d, &c, stream, header);
    return status ? status : explain(d, &c, header);
}
