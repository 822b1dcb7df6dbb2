/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_runs.c: rows with a method become runs, and what the device has to be
 * told of each: sums of lengths, and the chunks of the prefixes.
 *
 * The tables of all runs are one array of int32, which goes to the device as
 * it is; a run keeps places in it.  How much of it a step can need is
 * layer_size.c's to bound.
 */
#include <string.h>

#include "layer.h"

/* Memory ---------------------------------------------------------------- */

mla_status mla__layer_reserve(mla_layer *l, void **block, size_t item,
                              int64_t used, int64_t wanted, int64_t *room)
{
    int64_t more = *room ? *room : 64;
    void *grown;

    if (wanted <= *room)
        return MLA_OK;
    while (more < wanted)
        more *= 2;
    grown = mla__alloc(l->ctx, (size_t)more * item);
    if (!grown)
        return mla__fail(l->ctx, MLA_OUT_OF_MEMORY, "a step of a layer");
    if (used)
        memcpy(grown, *block, (size_t)used * item);
    mla__free(l->ctx, *block);
    *block = grown;
    *room = more;
    return MLA_OK;
}

/* The place of n more integers in the table. */
static mla_status add_ints(mla_layer *l, int64_t n, int64_t *at)
{
    void *block = l->ints;
    mla_status status =
        mla__layer_reserve(l, &block, sizeof(*l->ints), l->int_count,
                           l->int_count + n, &l->int_room);

    l->ints = block;
    *at = l->int_count;
    if (!status)
        l->int_count += n;
    return status;
}

/* Runs ------------------------------------------------------------------ */

/* Whether a row goes on with the run before it: the next in the batch, of the
 * same form and, absorbed, with as many new tokens. */
static bool continues(const mla_layer *l, const struct mla__run *r, int i)
{
    bool absorbed = l->method[i] == MLA_METHOD_MLA;

    if (!r || r->absorbed != absorbed || r->first_row + r->rows != i)
        return false;
    return absorbed ? r->q_len == l->fresh[i]
                    : r->one_shot == (l->method[i] == MLA_METHOD_MHA_ONE_SHOT);
}

/* A run that begins with row i, whose first new token is the batch's token-th;
 * no row is counted yet. */
static mla_status open_run(mla_layer *l, int i, int64_t token)
{
    int64_t room = l->run_room;
    void *block = l->run;
    mla_status status = mla__layer_reserve(l, &block, sizeof(*l->run),
                                           l->runs, l->runs + 1, &room);

    l->run = block;
    l->run_room = (int)room;
    if (status)
        return status;
    l->run[l->runs++] = (struct mla__run){
        .absorbed = l->method[i] == MLA_METHOD_MLA,
        .one_shot = l->method[i] == MLA_METHOD_MHA_ONE_SHOT,
        .first_row = i,
        .first_token = token};
    return MLA_OK;
}

/* Counts row i into the run. */
static void add_row(const mla_layer *l, struct mla__run *r, int i)
{
    r->rows++;
    r->tokens += l->fresh[i];
    r->keys += l->length[i];
    if (l->fresh[i] > r->q_len)
        r->q_len = l->fresh[i];
    if (l->length[i] > r->longest)
        r->longest = l->length[i];
}

/* Rows without new tokens belong to no run. */
static mla_status make_runs(mla_layer *l)
{
    mla_status status = MLA_OK;
    int64_t token = 0;

    l->runs = 0;
    for (int i = 0; i < l->rows && !status; token += l->fresh[i++]) {
        if (l->fresh[i] == 0)
            continue;
        if (!continues(l, l->runs ? &l->run[l->runs - 1] : NULL, i))
            status = open_run(l, i, token);
        if (!status)
            add_row(l, &l->run[l->runs - 1], i);
    }
    return status;
}

/* Tables ---------------------------------------------------------------- */

/* [rows + 1] sums of `count` before each row of the run. */
static mla_status add_sums(mla_layer *l, const struct mla__run *r, bool all,
                           int64_t *at)
{
    mla_status status = add_ints(l, r->rows + 1, at);
    int64_t sum = 0;

    for (int i = 0; i <= r->rows && !status; i++) {
        l->ints[*at + i] = (int32_t)sum;
        if (i < r->rows)
            sum += all ? l->length[r->first_row + i]
                       : l->fresh[r->first_row + i];
    }
    return status;
}

/* Copies of what mla_chunks_plan says, a start for each row. */
static mla_status add_plan(mla_layer *l, struct mla__run *r,
                           const mla_chunk_plan *p)
{
    int64_t n = (int64_t)p->count * r->rows;
    mla_status status = add_ints(l, n, &r->starts);

    r->chunks = p->count;
    if (!status)
        status = add_ints(l, n + p->count, &r->cu_chunk);
    if (!status)
        status = add_ints(l, p->count, &r->totals);
    if (status)
        return status;
    for (int64_t i = 0; i < n; i++)
        l->ints[r->starts + i] = p->start[i / r->rows];
    memcpy(l->ints + r->cu_chunk, p->cu,
           (size_t)(n + p->count) * sizeof(int32_t));
    memcpy(l->ints + r->totals, p->total, (size_t)p->count * sizeof(int32_t));
    return MLA_OK;
}

/* The prefixes of a run in chunks of at most the capacity; none without any
 * prefix. */
static mla_status add_chunks(mla_layer *l, struct mla__run *r)
{
    mla_chunk_plan p = {.size = sizeof(p)};
    mla_status status = mla_chunks_plan(
        l->chunks, l->prefix32 + r->first_row, r->rows, mla__layer_capacity(l),
        mla__layer_chunk_page(l, r->rows), &p);

    return status || p.count == 0 ? status : add_plan(l, r, &p);
}

/* Raises a maximum. */
static void need(int64_t *most, int64_t n)
{
    if (n > *most)
        *most = n;
}

/* A run whose keys do not fit at once is cut whatever its method says: the
 * answer is the same. */
static mla_status plan_normal(mla_layer *l, struct mla__run *r)
{
    mla_status status;

    if (r->keys > mla__layer_capacity(l))
        r->one_shot = false;
    status = add_sums(l, r, false, &r->cu_new);
    if (!status && r->one_shot)
        status = add_sums(l, r, true, &r->cu_all);
    else if (!status)
        status = add_chunks(l, r);
    need(&l->sizes.expanded, r->one_shot ? r->keys : r->tokens);
    for (int c = 0; c < r->chunks && !status; c++)
        need(&l->sizes.expanded, l->ints[r->totals + c]);
    return status;
}

/* Runs of one step use a decode workspace in turn: the largest counts. */
static mla_status plan_absorbed(mla_layer *l, const struct mla__run *r)
{
    int64_t bytes;
    mla_status status = mla__layer_decode_bytes(l, r->rows, r->q_len,
                                                l->max_seq_len, &bytes);

    need(&l->sizes.decode, bytes);
    l->sizes.absorbed = l->tokens;
    return status;
}

/* Cuts that depend on a row's length alone are bounded by the longest. */
static void bound_lengths(mla_layer *l, int64_t max_seq_len)
{
    l->max_seq_len = 0;
    if (!l->options.split_keys)
        return;
    l->max_seq_len = max_seq_len;
    for (int i = 0; i < l->rows; i++)
        need(&l->max_seq_len, l->length[i]);
}

mla_status mla__layer_make_runs(mla_layer *l, int64_t max_seq_len)
{
    mla_status status = make_runs(l);

    l->int_count = 0;
    l->sizes = (struct mla__layer_sizes){.tokens = l->tokens};
    bound_lengths(l, max_seq_len);
    for (int i = 0; i < l->runs && !status; i++)
        status = l->run[i].absorbed ? plan_absorbed(l, &l->run[i])
                                    : plan_normal(l, &l->run[i]);
    l->sizes.ints = l->int_count;
    return status;
}
