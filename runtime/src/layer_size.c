/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_size.c: the workspace of a step, part by part.
 *
 * What a step needs follows from a few numbers.  The bound for all steps
 * within limits is the same sum for the greatest of them: every part grows
 * with its numbers, so the bound is enough and, for a step that reaches the
 * limits, not too much.
 */
#include <limits.h>
#include <string.h>

#include "dispatch.h"
#include "layer.h"

enum { ALIGN = 256, F32 = 4, I32 = 4, I64 = 8 };

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Takes bytes off the end of what is laid out; the old end. */
static int64_t take(int64_t *end, int64_t bytes)
{
    int64_t at = *end;

    *end = (at + bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

/* The Normal path's own parts, from `end` on. */
static int64_t lay_out_normal(const mla_layer *l,
                              const struct mla__layer_sizes *s,
                              struct mla__layer_layout *at, int64_t end)
{
    const struct mla__layer_spec *d = &l->spec;
    int64_t keys = s->expanded, rows = s->expanded ? s->tokens * l->heads : 0;

    at->latent = take(&end, keys * d->latent * MLA__ELEM);
    at->k_rope = take(&end, keys * d->rope * MLA__ELEM);
    at->kv = take(&end, keys * l->heads * (d->nope + d->v) * MLA__ELEM);
    at->part = take(&end, rows * d->v * MLA__ELEM);
    at->lse = take(&end, rows * F32);
    at->part_lse = take(&end, rows * F32);
    return end;
}

/* Both paths use the end of the workspace, one after the other. */
void mla__layer_lay_out(const mla_layer *l, const struct mla__layer_sizes *s,
                        struct mla__layer_layout *at)
{
    const struct mla__layer_spec *d = &l->spec;
    int64_t end = 0, row = d->latent + d->rope, absorbed, normal;
    int64_t heads = s->tokens * l->heads, wide = s->absorbed * l->heads;

    at->positions = take(&end, s->tokens * I64);
    at->slots = take(&end, s->tokens * I64);
    at->ints = take(&end, s->ints * I32);
    at->decode = take(&end, s->decode);
    at->gemm = take(&end, l->gemm.workspace_bytes);
    at->down = take(&end, s->tokens * (d->q_rank + row) * MLA__ELEM);
    at->q = take(&end, heads * (d->nope + d->rope) * MLA__ELEM);
    at->heads = take(&end, heads * d->v * MLA__ELEM);
    absorbed = end;
    at->wide_q = take(&absorbed, wide * row * MLA__ELEM);
    at->wide_o = take(&absorbed, wide * d->latent * MLA__ELEM);
    normal = lay_out_normal(l, s, at, end);
    at->bytes = larger(absorbed, normal);
}

mla_status mla__layer_decode_bytes(const mla_layer *l, int rows, int64_t q_len,
                                   int64_t max_seq_len, int64_t *bytes)
{
    mla_decode_step s = {.size = sizeof(s),
                         .batch = rows,
                         .q_len = (int)q_len,
                         .max_seq_len = max_seq_len};

    *bytes = 0;
    if (q_len > INT_MAX)
        return mla__fail(l->ctx, MLA_RANGE,
                         "mla_layer: %lld new tokens of one request",
                         (long long)q_len);
    return mla_decode_workspace(l->decode, &s, bytes);
}

/* The option, or what the policy calls a chunk; never 0, as neither may be. */
int64_t mla__layer_capacity(const mla_layer *l)
{
    int64_t given = l->options.chunk_capacity;

    return given ? given : l->policy->options.max_chunk_capacity;
}

int mla__layer_chunk_page(const mla_layer *l, int rows)
{
    return mla__layer_capacity(l) / rows >= l->page_size ? l->page_size : 0;
}

/* Bounds ---------------------------------------------------------------- */

/* Integers of the tables of Normal runs with so many rows in all, the longest
 * of max_seq_len keys: per run two sums, per chunk a start and a sum. */
static int64_t bound_ints(const mla_layer *l, const mla_layer_limits *m)
{
    int64_t length, chunks, page = mla__layer_chunk_page(l, m->rows);

    length = mla__layer_capacity(l) / m->rows;
    if (page)
        length = length / page * page;
    length = larger(length, 1);
    chunks = (m->max_seq_len + length - 1) / length;
    return 2 * 2 * (int64_t)m->rows + chunks * 3 * m->rows;
}

/* The most that a run needs, over all numbers of rows r and of new tokens q
 * with r q <= tokens.  A decode workspace grows with both, so for each r the
 * greatest q will do, and of several r with the same q the greatest. */
static mla_status bound_decode(const mla_layer *l, const mla_layer_limits *m,
                               int64_t *bytes)
{
    int64_t longest = l->options.split_keys ? m->max_seq_len : 0;
    int64_t r = m->rows < m->tokens ? m->rows : m->tokens, need;
    mla_status status = MLA_OK;

    *bytes = 0;
    while (r > 0 && !status) {
        int64_t q = m->tokens / r;
        status = mla__layer_decode_bytes(l, (int)r, q, longest, &need);
        *bytes = larger(*bytes, need);
        r = m->tokens / (q + 1);
    }
    return status;
}

/* Error RANGE, with the limit's name.  Counts are 32 bits in the kernels. */
static mla_status check_limits(mla_layer *l, const mla_layer_limits *m)
{
    const struct {
        const char *name;
        int64_t value, least;
    } rows[] = {{"rows", m->rows, 0},
                {"tokens", m->tokens, 0},
                {"expanded", m->expanded, 0},
                {"max_seq_len", m->max_seq_len, 0}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].value < rows[i].least || rows[i].value > INT_MAX)
            return mla__fail(l->ctx, MLA_RANGE,
                             "mla_layer_workspace: '%s' of %lld",
                             rows[i].name, (long long)rows[i].value);
    if (m->max_seq_len == 0 && (m->expanded || l->options.split_keys))
        return mla__fail(l->ctx, MLA_RANGE,
                         "mla_layer_workspace: 'max_seq_len' must be given "
                         "with 'expanded' or the option 'split_keys'");
    return MLA_OK;
}

/* The greatest step within the limits, laid out like a real one. */
mla_status mla_layer_workspace(mla_layer *l, const mla_layer_limits *limits,
                               int64_t *bytes)
{
    struct mla__layer_sizes s = {0};
    struct mla__layer_layout at;
    mla_layer_limits m = {0};
    mla_status status;

    if (!l || !limits || !bytes || limits->size < sizeof(limits->size))
        return MLA_INVALID_ARGUMENT;
    *bytes = 0;
    memcpy(&m, limits, limits->size < sizeof(m) ? limits->size : sizeof(m));
    status = check_limits(l, &m);
    if (status || m.rows == 0 || m.tokens == 0)
        return status;
    s.tokens = s.absorbed = m.tokens;
    s.expanded = m.expanded;
    s.ints = m.expanded ? bound_ints(l, &m) : 0;
    status = bound_decode(l, &m, &s.decode);
    if (status)
        return status;
    mla__layer_lay_out(l, &s, &at);
    *bytes = at.bytes;
    return MLA_OK;
}
