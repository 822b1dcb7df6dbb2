/* SPDX-License-Identifier: Apache-2.0
 *
 * bind.c: from a case to a kernel's arguments, by name; and the calls that
 * have to be refused.
 *
 * The manifest decides which arguments there are.  One that a case has no
 * value for makes the case fail: a new argument never goes untested.
 *
 * Refusals: of each argument a misaligned value, a NULL, a negative and a
 * missing one, everything else being right.  The runtime must refuse it
 * before the device sees it, and name the argument.
 */
#include <string.h>

#include "run.h"

/* Arguments ------------------------------------------------------------- */

/* Whether the first `length` characters name a pointer that is to be NULL. */
static bool is_null(const struct num_case *c, const char *field, size_t length)
{
    for (unsigned i = 0; i < c->nulls; i++)
        if (strlen(c->null_field[i]) == length &&
            strncmp(c->null_field[i], field, length) == 0)
            return true;
    return false;
}

/* Where the first token of a run lies in a tensor, in bytes: a run over a part
 * of the batch passes pointers into the case's tensors. */
static int64_t token_offset(const struct num_tensor *t, int64_t first)
{
    if (t->token_axis == NUM_NO_AXIS)
        return 0;
    if (t->token_axis == NUM_ROW_AXIS)
        return first * (int64_t)num_elem_bytes(t->elem);
    return first * t->stride[t->token_axis];
}

/* False if the case has neither a tensor nor a NULL for the field.  A tensor
 * may serve a second pointer, its alias, which begins further inside; one whose
 * buffer is NULL (a call without tokens) stays NULL. */
static bool set_pointer(struct num_case *c, const char *field,
                        const uint64_t *address, int64_t first,
                        mla_args *args)
{
    struct num_tensor *t = num_tensor_of(c, field);
    uint64_t value = 0;

    if (t)
        value = address[t - c->tensor];
    else if (!is_null(c, field, strlen(field)))
        return false;
    if (value)
        value += (uint64_t)token_offset(t, first);
    if (value && strcmp(t->alias, field) == 0)
        value += (uint64_t)t->alias_offset;
    return mla_args_set_ptr(args, field, value) == MLA_OK;
}

/* The stride of a tensor's axis; of an alias, that of the tensor below it, to
 * which it is alike but for the field's name before it. */
static bool find_stride(const struct num_case *c, const char *field,
                        int64_t *out)
{
    for (int i = 0; i < c->tensors; i++) {
        const struct num_tensor *t = &c->tensor[i];
        size_t own = strlen(t->field), other = strlen(t->alias);
        for (int k = 0; k < t->axes; k++) {
            *out = t->stride[k];
            if (strcmp(t->stride_field[k], field) == 0)
                return true;
            if (other && strncmp(field, t->alias, other) == 0 &&
                strcmp(t->stride_field[k] + own, field + other) == 0)
                return true;
        }
    }
    return false;
}

/* The strides of a pointer that is NULL are not used.  Names hold underscores
 * of their own, so every one may end the pointer's. */
static bool is_stride_of_null(const struct num_case *c, const char *field)
{
    for (const char *p = strchr(field, '_'); p; p = strchr(p + 1, '_'))
        if (is_null(c, field, (size_t)(p - field)))
            return true;
    return false;
}

/* Counts and flags of the case, then strides of its tensors; tokens is the
 * run's. */
static bool set_integer(struct num_case *c, const char *field, int64_t count,
                        mla_args *args)
{
    int64_t value = 0;
    bool known = false;

    for (int i = 0; i < c->ints && !known; i++) {
        known = strcmp(c->integer[i].name, field) == 0;
        value = c->integer[i].value;
    }
    if (!known)
        known = find_stride(c, field, &value);
    if (!known && is_stride_of_null(c, field)) {
        known = true;
        value = 0;
    }
    if (strcmp(field, "tokens") == 0)
        value = count;
    return known && mla_args_set_int(args, field, value) == MLA_OK;
}

/* By type and name.  A name that is in no list here makes the case fail, so
 * that a kernel's new argument cannot go untested. */
const char *num_bind(struct num_case *c, const uint64_t *address,
                     int64_t first, int64_t count, mla_args *args)
{
    mla_field_info f = {.size = sizeof(f)};

    for (int i = 0; i < c->subject->info.field_count; i++) {
        bool done = false;
        mla_kernel_field(c->subject->kernel, i, &f);
        if (f.type == MLA_PTR)
            done = set_pointer(c, f.name, address, first, args);
        else if (f.type != MLA_F32)
            done = set_integer(c, f.name, count, args);
        else if (strcmp(f.name, "norm_eps") == 0)
            done = mla_args_set_float(args, f.name, c->norm_eps) == MLA_OK;
        else if (strcmp(f.name, "softmax_scale") == 0)
            done = mla_args_set_float(args, f.name, c->softmax_scale) ==
                   MLA_OK;
        else if (strcmp(f.name, "factor") == 0)
            done = mla_args_set_float(args, f.name, c->factor) == MLA_OK;
        if (!done)
            return f.name;
    }
    return NULL;
}

/* Refusals -------------------------------------------------------------- */

/* A block with every argument right; the addresses are aligned to anything
 * and lead nowhere, since nothing here may reach the device. */
static mla_args *right_block(struct num_case *c, struct num_verdict *v)
{
    uint64_t address[NUM_MAX_TENSORS];
    mla_args *args = NULL;
    const char *unknown;

    for (int i = 0; i < NUM_MAX_TENSORS; i++)
        address[i] = (uint64_t)(i + 1) << 32;
    if (mla_args_create(c->subject->kernel, &args) != MLA_OK) {
        num_fail(v, c, "%s", mla_last_error(c->subject->ctx));
        return NULL;
    }
    unknown = num_bind(c, address, 0, c->tokens, args);
    if (!unknown)
        return args;
    num_fail(v, c, "no value for argument '%s'", unknown);
    mla_args_free(args);
    return NULL;
}

/* The launch must fail with `want` and name the field. */
static void expect_refusal(struct num_case *c, mla_args *args,
                           const char *field, const char *what,
                           mla_status want, struct num_verdict *v)
{
    mla_status got = mla_launch(args, NULL);
    const char *text = mla_last_error(c->subject->ctx);

    v->cases++;
    if (got != want)
        num_fail(v, c, "%s %s: %s instead of %s", field, what,
                 mla_status_name(got), mla_status_name(want));
    else if (!strstr(text, field))
        num_fail(v, c, "%s %s: the error does not name it: %s", field, what,
                 text);
}

/* The value of a pointer or integer moved by delta, unless that is a multiple
 * of what the manifest asks for.  Callers try 2, which breaks every demand
 * beyond an element's, and 8, which breaks that of 16 or more. */
static void refuse_moved(struct num_case *c, const mla_field_info *f,
                         int64_t delta, struct num_verdict *v)
{
    int64_t unit = f->type == MLA_PTR ? f->align : f->multiple;
    struct num_tensor *t = num_tensor_of(c, f->name);
    mla_args *args;
    int64_t stride;

    if (delta % unit == 0 || (f->type == MLA_PTR && !t))
        return;
    args = right_block(c, v);
    if (!args)
        return;
    if (f->type == MLA_PTR)
        mla_args_set_ptr(args, f->name, ((uint64_t)1 << 32) + (uint64_t)delta);
    else if (find_stride(c, f->name, &stride))
        mla_args_set_int(args, f->name, stride + delta);
    else
        mla_args_set_int(args, f->name, delta);
    expect_refusal(c, args, f->name, delta == 2 ? "+ 2" : "+ 8",
                   MLA_MISALIGNED, v);
    mla_args_free(args);
}

/* A NULL where the manifest does not allow one. */
static void refuse_null(struct num_case *c, const mla_field_info *f,
                        struct num_verdict *v)
{
    mla_args *args;
    if (f->type != MLA_PTR || f->nullable)
        return;
    args = right_block(c, v);
    if (!args)
        return;
    mla_args_set_ptr(args, f->name, 0);
    expect_refusal(c, args, f->name, "NULL", MLA_NULL_POINTER, v);
    mla_args_free(args);
}

/* A negative count, and a flag that is neither 0 nor 1. */
static void refuse_negative(struct num_case *c, const mla_field_info *f,
                            struct num_verdict *v)
{
    mla_args *args;
    if (f->type != MLA_I32)
        return;
    args = right_block(c, v);
    if (!args)
        return;
    mla_args_set_int(args, f->name, -1);
    expect_refusal(c, args, f->name, "-1", MLA_RANGE, v);
    mla_args_free(args);
}

/* Everything set but one field, in a new block, for none can be unset.  The
 * values need not be right: what is missing is looked for first. */
static void refuse_unset(struct num_case *c, const mla_field_info *f,
                         struct num_verdict *v)
{
    mla_args *args = NULL;
    mla_field_info other = {.size = sizeof(other)};

    if (mla_args_create(c->subject->kernel, &args) != MLA_OK)
        return;
    for (int i = 0; i < c->subject->info.field_count; i++) {
        mla_kernel_field(c->subject->kernel, i, &other);
        if (strcmp(other.name, f->name) == 0)
            continue;
        if (other.type == MLA_PTR)
            mla_args_set_ptr(args, other.name, (uint64_t)1 << 32);
        else if (other.type == MLA_F32)
            mla_args_set_float(args, other.name, 1);
        else
            mla_args_set_int(args, other.name, 0);
    }
    expect_refusal(c, args, f->name, "not set", MLA_UNSET, v);
    mla_args_free(args);
}

void num_check_refusals(struct num_device *device, struct num_case *c,
                        struct num_verdict *v)
{
    mla_field_info f = {.size = sizeof(f)};

    (void)device;
    for (int i = 0; i < c->subject->info.field_count; i++) {
        mla_kernel_field(c->subject->kernel, i, &f);
        refuse_moved(c, &f, 2, v);
        refuse_moved(c, &f, 8, v);
        refuse_null(c, &f, v);
        refuse_negative(c, &f, v);
        refuse_unset(c, &f, v);
    }
}
