/* SPDX-License-Identifier: Apache-2.0
 *
 * case.c: what the builders and row oracles of all families share.
 *
 * A builder declares tensors and integers, seals them, and fills what is live;
 * from then on the case is read only but for its random numbers.  Names are
 * the manifest's: alignment, direction and strides come from there.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"

/* Rows of the rotation table that a case makes: longer than any batch. */
enum { TABLE_ROWS = 517 };

/* "tokens" is bound for every family; the rest is its builder's. */
struct num_case *num_case_make(const struct num_subject *s,
                               const struct num_family *family,
                               const struct num_shape *shape, uint64_t seed)
{
    struct num_case *c = num_alloc(sizeof(*c));
    c->subject = s;
    c->family = family;
    c->shape = *shape;
    c->tokens = shape->tokens;
    c->rng.state = seed;
    c->norm_eps = s->model->norm_eps;
    num_add_int(c, "tokens", shape->tokens);
    family->build(c);
    return c;
}

/* What a family keeps in `own` is its own to free. */
void num_case_free(struct num_case *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->tensors; i++)
        num_tensor_free(&c->tensor[i]);
    free(c->weights);
    free(c);
}

bool num_is(const struct num_case *c, enum num_flag flag)
{
    return (c->shape.flags & (unsigned)flag) != 0;
}

/* By either name: an alias leads to the tensor that it lies in. */
struct num_tensor *num_tensor_of(const struct num_case *c, const char *field)
{
    for (int i = 0; i < c->tensors; i++)
        if (strcmp(c->tensor[i].field, field) == 0 ||
            strcmp(c->tensor[i].alias, field) == 0)
            return (struct num_tensor *)&c->tensor[i];
    return NULL;
}

/* Declaring ------------------------------------------------------------- */

/* The next tensor, with what the manifest says about its argument. */
static struct num_tensor *add(struct num_case *c, const char *field,
                              enum num_elem elem, int64_t width)
{
    struct num_tensor *t;
    mla_field_info info;

    if (c->tensors == NUM_MAX_TENSORS || width > INT32_MAX)
        abort();
    t = &c->tensor[c->tensors++];
    snprintf(t->field, sizeof(t->field), "%s", field);
    t->elem = elem;
    t->width = width;
    t->token_axis = NUM_NO_AXIS;
    t->align = 1;
    t->input = true;
    /* A field that the kernel lacks is reported when arguments are bound. */
    if (num_field(c->subject, field, &info)) {
        t->align = info.align;
        t->output = info.access != MLA_IN;
        t->input = info.access != MLA_OUT;
    }
    return t;
}

/* No axes: one row at the address itself. */
struct num_tensor *num_add_vector(struct num_case *c, const char *field,
                                  enum num_elem elem, int64_t width)
{
    return add(c, field, elem, width);
}

/* What the manifest wants a stride to be a multiple of. */
static int64_t unit_of(const struct num_case *c, const char *stride_field)
{
    mla_field_info info;
    return num_field(c->subject, stride_field, &info) ? info.multiple : 1;
}

/* One axis; an empty stride_field is a stride that the kernel knows. */
struct num_tensor *num_add_rows(struct num_case *c, const char *field,
                                const char *stride_field, enum num_elem elem,
                                int64_t n, int64_t width,
                                enum num_layout layout)
{
    struct num_tensor *t = add(c, field, elem, width);
    t->axes = 1;
    t->n[0] = n;
    snprintf(t->stride_field[0], NUM_NAME, "%s", stride_field);
    num_lay_out(t, layout, unit_of(c, stride_field), &c->rng);
    return t;
}

/* Two axes.  Both strides have the outer one's alignment. */
struct num_tensor *num_add_grid(struct num_case *c, const char *field,
                                const char *outer_stride,
                                const char *inner_stride, enum num_elem elem,
                                int64_t n0, int64_t n1, int64_t width,
                                enum num_layout layout)
{
    struct num_tensor *t = add(c, field, elem, width);
    t->axes = 2;
    t->n[0] = n0;
    t->n[1] = n1;
    snprintf(t->stride_field[0], NUM_NAME, "%s", outer_stride);
    snprintf(t->stride_field[1], NUM_NAME, "%s", inner_stride);
    num_lay_out(t, layout, unit_of(c, outer_stride), &c->rng);
    return t;
}

/* [tokens][heads][width]; stride fields are named after the tensor. */
struct num_tensor *num_add_heads(struct num_case *c, const char *field,
                                 enum num_elem elem, int64_t width,
                                 enum num_layout layout)
{
    char outer[NUM_NAME], inner[NUM_NAME];
    struct num_tensor *t;
    snprintf(outer, sizeof(outer), "%s_token_stride", field);
    snprintf(inner, sizeof(inner), "%s_head_stride", field);
    t = num_add_grid(c, field, outer, inner, elem, c->tokens,
                     c->subject->info.heads, width, layout);
    t->token_axis = 0;
    return t;
}

/* [tokens][width], of the working dtype. */
struct num_tensor *num_add_tokens(struct num_case *c, const char *field,
                                  int64_t width, enum num_layout layout)
{
    char stride[NUM_NAME];
    struct num_tensor *t;
    snprintf(stride, sizeof(stride), "%s_stride", field);
    t = num_add_rows(c, field, stride, c->subject->dtype, c->tokens, width,
                     layout);
    t->token_axis = 0;
    return t;
}

/* The name is kept, not copied. */
void num_add_int(struct num_case *c, const char *name, int64_t value)
{
    if (c->ints == NUM_MAX_INTS)
        abort();
    c->integer[c->ints].name = name;
    c->integer[c->ints++].value = value;
}

/* A pointer that is NULL in this case; its strides are bound as 0. */
void num_add_null(struct num_case *c, const char *field)
{
    if (c->nulls == NUM_MAX_INTS)
        abort();
    c->null_field[c->nulls++] = field;
}

/* A tensor without a claim belongs to the call as a whole, unless it was
 * declared foreign. */
void num_seal_all(struct num_case *c)
{
    for (int i = 0; i < c->tensors; i++) {
        if (c->tensor[i].rows == 0 && !c->tensor[i].foreign)
            num_claim_all(&c->tensor[i]);
        num_seal(&c->tensor[i]);
    }
}

/* Rotation -------------------------------------------------------------- */

/* A factor by position is 1 up to the original context: three times as long a
 * table shows four of its values. */
static int64_t table_rows(const struct num_case *c)
{
    const struct num_model *m = c->subject->model;
    return m->factor_beta == 0 ? TABLE_ROWS
                               : 3 * (int64_t)m->factor_original + 5;
}

/* Positions are unsorted, may repeat, and include both ends of the table, and
 * both sides of the first step of a factor.  Only the rows that are used are
 * live. */
static int64_t position_of(const struct num_case *c, int64_t token)
{
    const struct num_model *m = c->subject->model;
    struct num_rng rng = {c->shape.tokens * 77 + token};
    if (token == 0)
        return table_rows(c) - 1;
    if (token > 1 && token < 4 && m->factor_beta != 0)
        return (int64_t)m->factor_original - (token == 2);
    return token == 1 ? 0 : num_below(&rng, table_rows(c));
}

/* Table and positions of a kernel that rotates; others have none. */
void num_add_angles(struct num_case *c)
{
    int dim = c->subject->model->rope.dim;
    struct num_tensor *t;

    if (!num_has(c->subject, "cos_sin"))
        return;
    t = num_add_rows(c, "cos_sin", "cos_sin_stride", NUM_F32, table_rows(c),
                     dim,
                     table_rows(c) > TABLE_ROWS ? NUM_FAR_OUTER : c->shape.in);
    for (int64_t i = 0; i < c->tokens; i++)
        num_claim(t, position_of(c, i), 0);
    if (c->tokens == 0)
        num_claim(t, 0, 0);
    t = num_add_vector(c, "positions", NUM_I64, c->tokens);
    t->token_axis = NUM_ROW_AXIS;
}

/* Live rows of the table only: the others stay poison, and a kernel that
 * reads them shows. */
void num_fill_angles(struct num_case *c)
{
    struct num_tensor *table = num_tensor_of(c, "cos_sin");
    struct num_tensor *positions = num_tensor_of(c, "positions");
    const struct oracle_rope *rope = &c->subject->model->rope;
    double row[2 * NUM_MAX_PAIRS];

    if (!table)
        return;
    for (int64_t r = 0; r < table->rows; r++) {
        int64_t position = table->row[r].index[0];
        /* longrope has two tables; odd batches use the second */
        oracle_rope_row(rope, (double)position, c->shape.tokens & 1, row);
        for (int k = 0; k < rope->dim; k++)
            num_set(table, position, 0, k, row[k]);
    }
    for (int64_t i = 0; i < c->tokens; i++)
        num_set(positions, 0, 0, i, (double)position_of(c, i));
}

/* Expecting ------------------------------------------------------------- */

/* A copied element: exact. */
void num_expect_bits(struct num_expect *e, int64_t column, uint64_t bits)
{
    e->exact[column] = true;
    e->bits[column] = bits;
}

void num_expect_value(struct num_expect *e, int64_t column,
                      enum num_elem elem, double value, double allowance)
{
    e->exact[column] = false;
    e->value[column] = value;
    e->tolerance[column] = num_half_ulp(elem) * fabs(value) +
                           num_half_tiny(elem) + allowance;
}

/* The factor of q at a token's position, 1 for models without one. */
double num_position_factor(const struct num_case *c, int64_t token)
{
    const struct num_model *m = c->subject->model;
    const struct num_tensor *positions = num_tensor_of(c, "positions");

    if (m->factor_beta == 0)
        return 1;
    return oracle_position_factor(m->factor_beta, m->factor_original,
                                  num_get(positions, 0, 0, token));
}

/* Four roundings in single precision stand between the inputs and the sum,
 * and with a factor two more and those of the factor itself. */
void num_expect_rope_at(const struct num_case *c, struct num_expect *e,
                        int64_t column, const struct num_tensor *x,
                        int64_t token, int64_t i1, int64_t from, double factor)
{
    const struct oracle_rope *rope = &c->subject->model->rope;
    const struct num_tensor *table = num_tensor_of(c, "cos_sin");
    double in[2 * NUM_MAX_PAIRS], out[2 * NUM_MAX_PAIRS];
    double size[2 * NUM_MAX_PAIRS], angle[2 * NUM_MAX_PAIRS];

    if (rope->style == ORACLE_NO_ROPE) {
        for (int k = 0; k < rope->dim; k++)
            num_expect_bits(e, column + k,
                            num_bits(x->elem, num_at(x, token, i1, from + k)));
        return;
    }
    for (int k = 0; k < rope->dim; k++)
        in[k] = num_get(x, token, i1, from + k);
    num_get_row(table,
                (int64_t)num_get(num_tensor_of(c, "positions"), 0, 0, token),
                0, angle);
    oracle_rotate(rope->style, rope->dim, in, angle, out, size);
    for (int k = 0; k < rope->dim; k++)
        num_expect_value(e, column + k, x->elem, factor * out[k],
                         isfinite(size[k])
                             ? (factor == 1 ? 4 : 12) * 0x1p-24 * factor *
                                   size[k]
                             : 0);
}

void num_expect_rope(const struct num_case *c, struct num_expect *e,
                     int64_t column, const struct num_tensor *x, int64_t token,
                     int64_t i1, double factor)
{
    num_expect_rope_at(c, e, column, x, token, i1, 0, factor);
}
